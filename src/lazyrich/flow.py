"""`flow`: gradient flow of a linear network, integrated; any depth, any inputs, layer rates, weight decay.

    Ẇ_ℓ = η_ℓ [W_{L:ℓ+1}ᵀ (Σyx − W Σxx) W_{ℓ−1:1}ᵀ − γ W_ℓ]

The integration runs in the singular basis of the task, Σyx = U diag(s) Vᵀ, with W_1 V and Uᵀ W_L for W_1 and W_L. That is the same flow, but a
mode that is not yet learned then has entries of its own, small ones, instead of a small part in every entry: errors are measured against it, and
rounding does not reach it. (Modes 4, 1, 1/4, start 1e-8, rtol 1e-9: worst error 6e-9 in this basis, 2e-7 in the given one, and 2e-4 where the
start lies on the separatrix.) For the same reason the absolute tolerance is 1e-3 of what rtol allows the smallest layer at the start.

Tsit5 takes the steps, and its interpolant gives the recorded times, so that their number costs nothing: recorded values then are as accurate as
the steps (5e-9 at rtol 1e-9). Dopri8 needs half as many gradients, but its interpolant is of lower order than its steps, and errors were
2e-7; the same accuracy costs it as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from lazyrich import _check, _engines
from lazyrich._check import InvalidInput
from lazyrich._progress import progress
from lazyrich._typing import Array, Float
from lazyrich.problem import Problem
from lazyrich.trajectory import Trajectory

__all__ = ["flow"]

_FINEST = 1e-14  # below this, rounding makes every step a failure


def flow(
    problem: Problem,
    times: Any,
    *,
    record: Any = ("weights",),
    rtol: float = 1e-9,
    atol: float | None = None,
    max_steps: int = 1_000_000,
) -> Trajectory:
    """The gradient flow of a linear network from t = 0, integrated adaptively in double precision.

    `record` names what to keep at the given times, any of "weights", "function", "gram" (two layers) and "loss". `rtol` and `atol` bound the
    error of each step, entry by entry in the basis of the task's modes. A run that cannot go on, or not within `max_steps`, keeps the
    times it reached, and `traj.status` says what stopped it.

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> lr.flow(problem, [0.0, 1.0, 10.0], record="function").function.ravel().round(6)
    array([0.01    , 0.430763, 2.      ])
    """
    if not isinstance(problem, Problem):
        raise InvalidInput(f"problem must be a lazyrich Problem, and it is a {type(problem).__name__}.")
    network = problem.network
    if network.activation != "linear":
        raise InvalidInput(
            f"flow integrates linear networks, and this one is {network.activation}: lr.descend(problem, rate=…, steps=…)"
            " trains it step by step."
        )
    checked = _check.as_times(times)
    names = _engines.as_record(record, network.depth, network.activation)
    tolerances = _tolerances(problem, rtol, atol)
    max_steps = _check.count("max_steps", max_steps)
    recording = _engines.Recording(names, len(checked), problem.task.loss)
    status = _integrate(problem, checked, names, tolerances, max_steps, recording)
    if recording.count == 0:
        raise RuntimeError(f"flow reached none of the times: {status}.")
    return Trajectory(problem, checked[: recording.count], "flow", recording.parts(), status=status)


def _tolerances(problem: Problem, rtol: Any, atol: Any) -> tuple[float, float]:
    rtol = _check.positive("rtol", rtol)
    if not _FINEST <= rtol < 1:
        raise InvalidInput(f"rtol must lie between {_FINEST:g} and 1, and it is {rtol:g}.")
    if atol is not None:
        return rtol, _check.positive("atol", atol)
    scales = [float(np.sqrt(np.mean(W**2))) for W in problem.network.weights]
    return rtol, 1e-3 * rtol * min((scale for scale in scales if scale), default=1.0)


class _Equation(NamedTuple):
    """The flow in the singular basis of the task; Σxx is a number where it is a multiple of the identity."""

    U: Float[Array, "out out"]
    V: Float[Array, "in in"]
    sigma_yx: Float[Array, "out in"]
    sigma_xx: Array
    rates: Float[Array, " L"]
    decay: float


def _equation(problem: Problem) -> _Equation:
    task = problem.task
    U, _, Vt = np.linalg.svd(task.sigma_yx)
    sigma_yx = np.zeros_like(task.sigma_yx)
    np.fill_diagonal(sigma_yx, task.modes.s)  # exactly diagonal: modes that do not interact never do
    white = task.whitening_error == 0
    sigma_xx = task.sigma_xx[0, 0] if white else Vt @ task.sigma_xx @ Vt.T
    return _Equation(U, Vt.T, sigma_yx, np.asarray(sigma_xx), np.array(problem.rates), problem.weight_decay)


def _turned(weights: Sequence[Any], U: Any, V: Any) -> tuple[Any, ...]:
    """Uᵀ W_L, …, W_1 V: the network in the bases U of the outputs and V of the inputs."""
    first, *rest = weights
    layers = [first @ V, *rest]
    return (*layers[:-1], U.T @ layers[-1])


def _integrate(
    problem: Problem,
    times: Float[Array, " T"],
    names: tuple[str, ...],
    tolerances: tuple[float, float],
    max_steps: int,
    recording: _engines.Recording,
) -> str:
    """Fills the recording call by call, and says how it ended."""
    network, equation = problem.network, _equation(problem)
    seen = _engines.observe(np, network.weights, names)
    recording.add({name: [part[None] for part in parts] for name, parts in seen.items()}, 0)
    for _ in range(int(np.count_nonzero(times == 0))):
        recording.add({name: [part[None] for part in parts] for name, parts in seen.items()}, 1)
    numbers = sum(part.size for parts in seen.values() for part in parts)
    operations = 6 * 6 * sum(W.size for W in network.weights) * min(problem.task.sigma_yx.shape)
    steps_per_call, records_per_call = _engines.per_call(operations, numbers)
    now, taken = 0.0, 0
    with _engines.double_precision(), progress(float(times[-1]), "flow") as move_on:
        weights: Any = _turned(network.weights, equation.U, equation.V)
        while recording.count < len(times):
            if taken == max_steps:
                return (
                    f"stopped at t = {now:.6g} of {times[-1]:.6g} after {taken} steps: a larger max_steps, a larger rtol or an earlier"
                    " last time would do"
                )
            stops = times[recording.count : recording.count + records_per_call]
            stops = np.pad(stops, (0, records_per_call - len(stops)), mode="edge")
            advance = _compiled(names, min(steps_per_call, max_steps - taken))
            before = now
            weights, now, reached, steps, seen = advance(weights, now, stops, equation, *tolerances)
            now, taken = float(now), taken + int(steps)
            if not (now > before or stops[-1] == before) or not all(bool(np.isfinite(W).all()) for W in weights):
                return (
                    f"stalled at t = {before:.6g} of {times[-1]:.6g} after {taken} steps, where no step is small enough or numbers"
                    " overflow: smaller weights or targets, or an earlier last time would do"
                )
            recording.add(seen, min(int(reached), len(times) - recording.count))
            move_on(now - before)
    return "complete"


@cache
def _compiled(names: tuple[str, ...], max_steps: int) -> Any:
    """One call: from a state through the times to record, or as far as `max_steps` go."""
    diffrax = _engines.load("diffrax", "flow")
    jax = _engines.load("jax", "flow")

    def velocity(_: Any, weights: Any, equation: _Equation) -> Any:
        slopes, _, _ = _engines.linear_slopes(weights, equation.sigma_yx, equation.sigma_xx)
        return tuple(
            rate * (slope - equation.decay * W) for rate, slope, W in zip(equation.rates, slopes, weights, strict=True)
        )

    def seen(_: Any, weights: Any, equation: _Equation) -> Any:
        return _engines.observe(jax.numpy, _turned(weights, equation.U.T, equation.V.T), names)

    def advance(weights: Any, now: Any, stops: Any, equation: _Equation, rtol: Any, atol: Any) -> Any:
        run = diffrax.diffeqsolve(
            diffrax.ODETerm(velocity),
            diffrax.Tsit5(),
            t0=now,
            t1=stops[-1],
            dt0=None,
            y0=weights,
            args=equation,
            saveat=diffrax.SaveAt(
                subs={"records": diffrax.SubSaveAt(ts=stops, fn=seen), "end": diffrax.SubSaveAt(t1=True)}
            ),
            stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol),
            max_steps=max_steps,
            throw=False,
        )
        end = tuple(W[0] for W in run.ys["end"])
        reached = jax.numpy.isfinite(run.ts["records"]).sum()
        return end, run.ts["end"][0], reached, run.stats["num_steps"], run.ys["records"]

    return jax.jit(advance)
