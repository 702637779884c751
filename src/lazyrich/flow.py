"""`flow`: gradient flow, integrated; any depth, any inputs, layer rates, weight decay. First linear networks:

    Ẇ_ℓ = η_ℓ [W_{L:ℓ+1}ᵀ (Σyx − W Σxx) W_{ℓ−1:1}ᵀ − γ W_ℓ]

It is integrated in the singular basis of the task, Σyx = U diag(s) Vᵀ, with W_1 V and Uᵀ W_L for W_1 and W_L. The
flow is the same there, but a mode that is not yet learned has entries of its own, small ones, instead of a small
part in every entry: the step size is judged by it too, and rounding does not reach it. (Modes 4, 1, 1/4, start 1e-8,
rtol 1e-9: worst error 6e-9 in this basis; in the given one 2e-7, and 1e-3 on the separatrix.) For the same reason
the absolute tolerance is a thousandth of what rtol grants the smallest layer at the start.

Tsit5 takes the steps and its interpolant gives the recorded times, whose number then costs next to nothing: records
are as accurate as steps (5e-9 at rtol 1e-9). Dopri8 takes half as many gradients, but its interpolant is of lower
order than its steps: records were off by 2e-7, and the same accuracy costs it as much.

Nonlinear networks are integrated by the stabilised method of `_stabilised`, which takes long horizons in few gradients
and ends its steps at the times to record.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from lazyrich import _check, _engines, _gradients
from lazyrich._progress import progress
from lazyrich._typing import Array, Float
from lazyrich.batch.many import as_rtol, in_precision
from lazyrich.batch.run import flow_stack
from lazyrich.batch.stack import stacked
from lazyrich.problem import Problem, as_problem
from lazyrich.trajectory import Trajectory

__all__ = ["flow"]

_GRADIENTS = 6  # in one step of Tsit5


def flow(
    problem: Problem,
    times: Any,
    *,
    record: Any = ("weights",),
    rtol: float | None = None,
    atol: float | None = None,
    max_steps: int = 1_000_000,
) -> Trajectory:
    """The gradient flow from t = 0 on, integrated adaptively in double precision.

    `record` names what to keep at the given times: any of "weights", "function", "gram" (two layers), "loss".
    `rtol` and `atol` bound the error of each step: of linear networks (rtol 1e-9) entry by entry in the basis of the
    task's modes, of others (rtol 1e-3) layer by layer. A run that cannot go on, or not within `max_steps` (for
    nonlinear networks: gradients), give or take an eighth, keeps the times it reached, and `traj.status` says what
    stopped it.

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> lr.flow(problem, [0.0, 1.0, 10.0], record="function").function.ravel().round(6)
    array([0.01    , 0.430588, 2.      ])
    """
    as_problem(problem)
    network = problem.network
    checked = _check.as_times(times)
    names = _engines.as_record(record, network.depth, network.activation)
    tolerances = _tolerances(problem, rtol, atol)
    max_steps = _check.count("max_steps", max_steps)
    if network.activation != "linear":
        return _nonlinear(problem, checked, names, tolerances, max_steps)
    recording = _engines.Recording(len(checked))
    status = _integrate(problem, checked, names, tolerances, max_steps, recording)
    if recording.count == 0:
        raise RuntimeError(f"flow reached none of the times: {status}.")
    reached, notes = checked[: recording.count], _notes(problem, status)
    return Trajectory(problem, reached, "flow", recording.parts(), status=status, notes=notes)


def _notes(problem: Problem, status: str) -> tuple[str, ...]:
    if status != "complete" or not problem.facts.determinant_obstruction:
        return ()
    stays = ", where lr.solve(problem, times) stays" if problem.facts.method is not None else ""
    return (
        "the signs of det W and det Σyx differ, so the flow ends in a saddle; rounding lets an integration leave it "
        f"in the end{stays}",
    )


def _tolerances(problem: Problem, rtol: Any, atol: Any) -> tuple[float, float]:
    linear = problem.network.activation == "linear"
    rtol = (1e-9 if linear else 1e-3) if rtol is None else as_rtol(rtol)
    if atol is not None:
        return rtol, _check.positive("atol", atol)
    if not linear:  # what a layer or the way so far is granted by rtol will do, and rounding
        return rtol, 0.0
    sizes = [float(np.mean(np.abs(W))) for W in problem.network.weights]
    return rtol, 1e-3 * rtol * min((size for size in sizes if size), default=1.0)


def _nonlinear(
    problem: Problem, times: Float[Array, " T"], names: tuple[str, ...], tolerances: tuple[float, float], most: int
) -> Trajectory:
    """By the stabilised method, as a batch of one."""
    _gradients.needs_samples(problem, "flow")
    distinct, back = np.unique(times, return_inverse=True)
    rtol, atol = tolerances
    with in_precision("float64"), np.errstate(over="ignore", invalid="ignore"), progress(1.0, "flow") as move_on:
        stack = stacked([problem], np.zeros((1, 1), int), np.dtype(np.float64))
        run = flow_stack(stack, distinct[None, None], rtol, move_on, atol=atol, most_gradients=most)
    back = back[back < run.reached.item()]
    if not len(back):
        raise RuntimeError(f"flow reached none of the times: {run.status[0]}.")
    weights = [W[back, 0, 0] for W in run.weights]
    notes = (f"integrated by a stabilised Runge–Kutta–Chebyshev method, {run.gradients.item()} gradients",)
    traj = Trajectory(problem, times[: len(back)], "flow", {"weights": weights}, status=run.status[0], notes=notes)
    if "weights" in names:
        return traj
    return Trajectory(problem, traj.times, "flow", {"loss": traj.loss}, status=traj.status, notes=notes)


class _Equation(NamedTuple):
    """The flow in the singular basis of the task; Σxx is a number where it is a multiple of the identity."""

    U: Any
    V: Any
    sigma_yx: Any
    sigma_xx: Any
    rates: Any
    decay: Any
    fit: _engines.Fit  # in the given basis, as records are


def _equation(problem: Problem) -> _Equation:
    task = problem.task
    U, _, Vt = np.linalg.svd(task.sigma_yx)
    S = np.zeros_like(task.sigma_yx)
    np.fill_diagonal(S, task.modes.s)  # diagonal to the last bit: modes that do not interact never do
    fit = _engines.Fit.of(task)
    sigma_xx = Vt @ fit.sigma_xx @ Vt.T if fit.sigma_xx.ndim else fit.sigma_xx
    return _Equation(U, Vt.T, S, sigma_xx, np.array(problem.rates), problem.weight_decay, fit)


def _turned(weights: Sequence[Any], U: Any, V: Any) -> tuple[Any, ...]:
    """The layers W_1 V, …, Uᵀ W_L: the network in the basis V of the inputs and U of the outputs."""
    first, *rest = weights
    *lower, last = (first @ V, *rest)
    return (*lower, U.T @ last)


def _integrate(
    problem: Problem,
    times: Float[Array, " T"],
    names: tuple[str, ...],
    tolerances: tuple[float, float],
    max_steps: int,
    recording: _engines.Recording,
) -> str:
    """Fills the recording, call by call, and says how it ended."""
    start, equation = problem.network.weights, _equation(problem)
    now, taken, end = 0.0, 0, float(times[-1])
    with np.errstate(over="ignore", invalid="ignore"):
        seen = _engines.observe(np, start, names, equation.fit)
    if not all(np.isfinite(part).all() for parts in seen.values() for part in parts):
        return _stalled(now, end, taken)
    zeros = int(np.count_nonzero(times == 0))
    at_zero = {k: [np.broadcast_to(part, (zeros, *np.shape(part))) for part in parts] for k, parts in seen.items()}
    recording.add(at_zero, zeros)
    narrow = min(problem.task.sigma_yx.shape)
    steps_per_call, records_per_call = _engines.per_call(problem.network.sizes, narrow, _GRADIENTS, names)
    beyond = max_steps if max_steps < 512 else max_steps // 8  # the last call may go on for so many
    steps_per_call = min(steps_per_call, beyond)
    advance = _compiled(names, steps_per_call)  # once, whatever is left at the end
    with _engines.double_precision("flow"), progress(end, "flow") as move_on:
        weights: Any = _turned(start, equation.U, equation.V)
        while recording.count < len(times):
            if taken >= max_steps:
                return (
                    f"stopped at t = {now:.6g} of {end:.6g} after {taken} steps: a larger max_steps, a larger rtol "
                    "or an earlier end would do"
                )
            stops = times[recording.count : recording.count + records_per_call]
            stops = np.pad(stops, (0, records_per_call - len(stops)), mode="edge")
            weights, reached_time, reached, steps, seen = advance(weights, now, stops, equation, *tolerances)
            before, now, taken = now, float(reached_time), taken + int(steps)
            moved = now > before or before == stops[-1]
            if not moved or not all(np.isfinite(W).all() for W in weights):
                return _stalled(before, end, taken)
            recording.add(seen, min(int(reached), len(times) - recording.count))
            move_on(now - before)
    return "complete"


def _stalled(now: float, end: float, taken: int) -> str:
    return (
        f"stalled at t = {now:.6g} of {end:.6g} after {taken} steps, where no step is small enough or numbers "
        "overflow: smaller weights or targets, or an earlier end would do"
    )


@cache
def _compiled(names: tuple[str, ...], max_steps: int) -> Any:
    """One call: from a state through the times to record, or as far as `max_steps` go."""
    jax, diffrax = _engines.load("jax", "flow"), _engines.load("diffrax", "flow")

    def velocity(_: Any, weights: Any, equation: _Equation) -> Any:
        slopes, _, _ = _engines.linear_slopes(weights, equation.sigma_yx, equation.sigma_xx)
        return tuple(
            rate * (slope - equation.decay * W) for rate, slope, W in zip(equation.rates, slopes, weights, strict=True)
        )

    def seen(_: Any, weights: Any, equation: _Equation) -> Any:
        return _engines.observe(jax.numpy, _turned(weights, equation.U.T, equation.V.T), names, equation.fit)

    def error_norm(error: Any) -> Any:
        """Infinite for a step that overflows: the controller then tries a smaller one, and after nan it could not."""
        squares = sum((part**2).sum() for part in error) / sum(part.size for part in error)
        return jax.numpy.where(jax.numpy.isnan(squares), jax.numpy.inf, jax.numpy.sqrt(squares))

    def advance(weights: Any, now: Any, stops: Any, equation: _Equation, rtol: Any, atol: Any) -> Any:
        records, end = diffrax.SubSaveAt(ts=stops, fn=seen), diffrax.SubSaveAt(t1=True)
        run = diffrax.diffeqsolve(
            diffrax.ODETerm(velocity),
            diffrax.Tsit5(),
            t0=now,
            t1=stops[-1],
            dt0=None,
            y0=weights,
            args=equation,
            saveat=diffrax.SaveAt(subs={"records": records, "end": end}),
            stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol, norm=error_norm),
            max_steps=max_steps,
            throw=False,
        )
        reached = jax.numpy.isfinite(run.ts["records"]).sum()
        last = tuple(W[0] for W in run.ys["end"])
        return last, run.ts["end"][0], reached, run.stats["num_steps"], run.ys["records"]

    return jax.jit(advance)
