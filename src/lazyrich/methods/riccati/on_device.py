"""The evaluation over times where another library's arrays live: JAX, PyTorch, CuPy, on their device.

Set-up (SVD, echelon) stays in NumPy; the arrays of `evaluate` are made in the library of `times`, on its
device and in float64, and so are the results.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from array_api_compat import array_namespace, device, is_jax_array, is_numpy_array

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich.methods.riccati.evaluation import Evaluation
from lazyrich.methods.riccati.method import Riccati, RiccatiSolution
from lazyrich.trajectory import Trajectory


def solve_on_device(solution: RiccatiSolution, times: Any, push: float) -> Trajectory:
    """A trajectory whose function, Gram matrix and loss are arrays of the library of `times`."""
    xp, where = library_of(times)
    checked = _check.as_times(times)
    with double_precision(times):
        clock = xp.asarray(solution.clock * checked, dtype=xp.float64, **where)
        evaluation = Evaluation(solution.graded, solution.scale, xp, dtype=xp.float64, **where)

    def evaluate(block: str) -> Any:
        with double_precision(times):
            return evaluation(clock, block)

    def loss() -> Any:
        task = solution.problem.task
        with double_precision(times):
            error = evaluation(clock, "function") - xp.asarray(task.target, dtype=xp.float64, **where)
            return xp.sum(error * error, axis=(1, 2)) * (solution.clock / 2) + task.loss_floor

    parts = {"function": lambda: evaluate("function"), "gram": lambda: evaluate("gram"), "loss": loss}
    parts["weights"] = lambda: solution.weights(checked)
    with double_precision(times):
        kept = xp.asarray(checked, dtype=xp.float64, **where)
    plain = Trajectory.exact(checked, Riccati.name, solution, pushed=push)
    about: dict[str, Any] = {"citations": Riccati.citations, "notes": plain.notes, "pushed": push}
    return Trajectory(solution.problem, kept, Riccati.name, parts, solution=solution, **about)


def library_of(times: Any) -> tuple[Any, dict[str, Any]]:
    """The namespace of an array, and how to make others beside it; or a sentence."""
    try:
        xp = array_namespace(times)
    except TypeError:
        raise InvalidInput(
            "times must be an array of the library to compute with when device_arrays=True, and it is a "
            f"{type(times).__name__}."
        ) from None
    return xp, {} if is_numpy_array(times) else {"device": device(times)}


def double_precision(times: Any) -> AbstractContextManager[Any]:
    """JAX drops to float32 unless told otherwise, in a scope: the user's own setting is left alone."""
    if not is_jax_array(times):
        return nullcontext()
    import jax

    return jax.enable_x64(True)
