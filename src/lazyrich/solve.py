"""`solve`: the exact solution that applies, or the reasons why none does."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._threads import SMALL, one_blas_thread
from lazyrich.exact import FILES
from lazyrich.exact.deep_modes import DeepModes
from lazyrich.exact.modes import Modes
from lazyrich.exact.riccati import Riccati
from lazyrich.problem import Problem, as_problem
from lazyrich.trajectory import Trajectory

__all__ = ["NoExactSolution", "solve"]


class NoExactSolution(ValueError):
    """No closed form applies; the message names the conditions that fail, by how much, and the call that
    would work.

    >>> task, network = lr.Task.from_correlations([[1.0]]), lr.Network([[[1.0]], [[0.5]]], "tanh")
    >>> lr.solve(lr.Problem(task, network), [1.0])
    Traceback (most recent call last):
        ...
    lazyrich.solve.NoExactSolution: no exact solution applies, ...: lr.descend(problem, rate=…, steps=…) trains this
    network step by step.
    """


def solve(
    problem: Problem,
    times: Any,
    *,
    method: str | None = None,
    on_separatrix: str = "stay",
    perturbation: float = 1e-12,
    device_arrays: bool = False,
) -> Trajectory:
    """The exact trajectory of a problem at the given times.

    The cheapest closed form that applies is taken, unless `method` names one; `traj.method` says which. A
    start on the separatrix stays on it, as the theorem says, and `traj.notes` tells;
    `on_separatrix="perturb"` moves it off by `perturbation` (relative to the weights) to show the escape:
    such a start is balanced only up to that size. With `device_arrays=True` the evaluation runs where the
    array `times` lives (JAX, PyTorch, CuPy), and function and Gram matrix come back as such arrays.

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> lr.solve(problem, [0.0, 1.0, 10.0]).function.ravel().round(6)
    array([0.01    , 0.430588, 2.      ])
    """
    as_problem(problem)
    push = _push(on_separatrix, perturbation)
    with one_blas_thread(max(problem.network.sizes) <= SMALL):
        chosen = _choose(problem, "riccati" if push and method is None else method)
    if push and chosen != "riccati":
        raise InvalidInput(f"on_separatrix='perturb' works with the method riccati, and method is {chosen!r}.")
    with one_blas_thread(max(problem.network.sizes) <= SMALL):
        solution: Any = FILES[chosen].solution(problem, push) if push else FILES[chosen].solution(problem)
    about: dict[str, Any] = {"notes": _notes(problem, solution, push), "pushed": push}
    if device_arrays:
        if chosen != "riccati":
            raise InvalidInput(f"device_arrays works with the method riccati, and this problem is solved by {chosen}.")
        from lazyrich.exact.on_device import solve_on_device  # only here: it looks for the other libraries

        return solve_on_device(solution, times, **about)
    checked = _check.as_times(times)
    traj: Trajectory
    parts = {
        "function": lambda: solution.function(checked),
        # the function is the larger part of the work, and holds the loss
        "loss": lambda: problem.task.loss(traj.function) if traj.computed("function") else solution.loss(checked),
        "weights": lambda: solution.weights(checked),
    }
    if hasattr(solution, "gram"):
        parts["gram"] = lambda: solution.gram(checked)
    citations = FILES[chosen].CITATION
    traj = Trajectory(problem, checked, chosen, parts, citations=citations, solution=solution, **about)
    return traj


def _choose(problem: Problem, method: str | None) -> str:
    reasons = problem.facts.methods
    if method is not None:
        method = _check.choice("method", method, tuple(FILES))
        reasons = {method: reasons[method]}
    for name, reason in reasons.items():
        if reason is None:
            return name
    # the methods for this number of layers say most: they come first
    told = sorted(reasons.items(), key=lambda item: "and this network has" in str(item[1]))
    listed = "; ".join(f"{name}: {reason}" for name, reason in told)
    if method is not None and (other := problem.facts.method):
        raise NoExactSolution(f"the method asked for does not apply, {listed}: {other} would do.")
    raise NoExactSolution(f"no exact solution applies, {listed}: {_advice(problem)}")


def _advice(problem: Problem) -> str:
    if problem.network.activation == "linear":
        return "lr.flow(problem, times) integrates this problem."
    return "lr.descend(problem, rate=…, steps=…) trains this network step by step."


def _push(on_separatrix: str, perturbation: float) -> float:
    if _check.choice("on_separatrix", on_separatrix, ("stay", "perturb")) == "stay":
        return 0.0
    size = _check.positive("perturbation", perturbation)
    if size >= 1:
        raise InvalidInput(f"perturbation must be below 1, a fraction of the weights, and it is {size:g}.")
    return size


def _notes(problem: Problem, solution: Any, push: float) -> tuple[str, ...]:
    """What a reader should know before using the numbers: separatrix and precision."""
    notes, facts = [], problem.facts
    on_it = "the start lies on the separatrix and stays on it: lr.fate(problem) says which modes are missed"
    if push:
        notes.append(
            f"a start on the separatrix was moved off it by {push:g} of the weights; it is balanced only up to that,"
            " so the escape may come earlier or later than that of a real network, by about 1/s"
        )
    elif isinstance(solution, Riccati):
        distance = solution.graded.separatrix_distance
        if len(solution.graded.missed):
            notes.append(f"{on_it}, on_separatrix='perturb' shows the escape")
        elif 0 < distance < 1e-4:
            notes.append(
                f"the start is close to the separatrix (distance {distance:.1e}):"
                f" expect a relative error of up to {np.finfo(float).eps / distance**2:.0e} where it passes the saddle"
            )
    elif isinstance(solution, Modes | DeepModes) and solution.separatrix_distance() == 0.0:
        notes.append(on_it)
    if facts.precision != "float64":
        notes.append(
            f"the weights or data came in {facts.precision}: balanced within {facts.balance_error:.1e},"
            " and the curve is exact for a start that close"
        )
    return tuple(notes)
