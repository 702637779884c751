"""Gradient flow of a linear network; any depth, any inputs, any loss, layer rates, weight decay:

    Ẇ_ℓ = η_ℓ [W_{L:ℓ+1}ᵀ E W_{ℓ−1:1}ᵀ − γ W_ℓ],      E = −∂loss/∂W, and Σyx − W Σxx for the squared loss

It is integrated in the singular basis of E at W = 0, Σyx = U diag(s) Vᵀ, with W_1 V and Uᵀ W_L for W_1 and W_L. The
flow is the same there, but a mode that is not yet learned has entries of its own, small ones, instead of a small
part in every entry: the step size is judged by it too, and rounding does not reach it. (Modes 4, 1, 1/4,
initialisation 1e-8, rtol 1e-9: worst error 6e-9 in this basis; in the given one 2e-7, and 1e-3 on the separatrix.) For
the same reason the absolute tolerance is a thousandth of what rtol grants the smallest layer at the start. Of a network
with biases the free layers are integrated (`networks.biases`), over rows that make the constant and do not move.

Tsit5 takes the steps and its interpolant gives the recorded times, whose number then costs next to nothing: records
are as accurate as steps (5e-9 at rtol 1e-9). Dopri8 takes half as many gradients, but its interpolant is of lower
order than its steps: records were off by 2e-7, and the same accuracy costs it as much.

Two layers without biases never leave the hidden directions that they begin with, so as many units as Q = [W1ᵀ; W2] has
rank are integrated, whatever the width, and the weights are turned back (`methods.gram`). Where stability limits the
steps of two layers, and many would follow, `methods.gram.stiff_steps` goes on. With another loss than the squared one,
two layers are left to `methods.gram` from the beginning (`two_layers`).

A batch takes one network after the other through the same compiled loop. Taken together (`jax.vmap`), each pass would
wait for the slowest and do its every branch: on two cores that took 1.5 times as long for 200 networks of size 8 and
5 times for 30 of size 40.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import ModuleType
from typing import NamedTuple

import numpy as np

from lazyrich import _engines
from lazyrich._status import COMPLETE, Status
from lazyrich._typing import Array, JaxArray, Tree
from lazyrich.batch import alarm
from lazyrich.batch.two_layers import Run, flow_two_layers, stalled, stopped
from lazyrich.losses import Loss
from lazyrich.methods import _gradients
from lazyrich.methods.gram import OfWeights, Step, hidden_basis, stiff_steps
from lazyrich.networks import Network
from lazyrich.networks.biases import constant_rows, free, whole
from lazyrich.problem import Problem

_GRADIENTS = 6  # in one step of Tsit5
_LIMIT = 1.5  # step × a bound on the fastest rate, where stability limits it
_SOME, _MANY = 100, 20_000  # steps that tell so, and steps to come that are too many
_OBJECTIVE = "objective"  # recorded beside what is asked for: what the flow descends


def flow_linear(
    problem: Problem,
    times: Array,
    names: tuple[str, ...],
    rtol: float,
    atol: float | None,
    max_steps: int,
    tick: Callable[[float], object] = lambda part: None,
) -> Run:
    """The flow of one network at `times`; `tick` is told what part has been done."""
    if problem.network.depth == 2 and not problem.loss.squared:
        return flow_two_layers(problem, times, names, rtol, atol, max_steps, tick)
    slim, B = _slim(problem)
    recording = _engines.Recording(len(times))
    granted = rtol, _absolute(slim, rtol) if atol is None else atol
    status = _integrate(slim, times, names, granted, max_steps, recording, tick)
    recorded = recording.parts()
    recording.count = alarm.falling(slim, recorded[_OBJECTIVE], rtol)
    if recording.count < len(recorded[_OBJECTIVE]):
        status = alarm.rising(problem, times[recording.count], rtol)
    parts = {name: part for name, part in recording.parts().items() if name != _OBJECTIVE}
    if B is not None and "weights" in parts:
        parts["weights"] = [B.T @ parts["weights"][0], parts["weights"][1] @ B]
        for W, given in zip(parts["weights"], problem.network.weights, strict=True):
            W[times[: recording.count] == 0] = given
    return Run(parts, recording.count, status)


def _slim(problem: Problem) -> tuple[Problem, Array | None]:
    """Two layers with as many units as they use, and the hidden basis that turns them back; None: they use all."""
    network, task = problem.network, problem.task
    if network.depth != 2 or network.biased or network.sizes[1] <= task.d_in + task.d_out:
        return problem, None
    B, (W1, W2) = hidden_basis(problem), network.weights
    if not len(B):  # of zeros alone
        return problem, None
    return Problem(task, Network([B @ W1, W2 @ B.T]), problem.rates, problem.weight_decay, problem.loss), B


def _absolute(problem: Problem, rtol: float) -> float:
    sizes = [float(np.mean(np.abs(W))) for W in problem.network.free(problem.network.weights)]
    return 1e-3 * rtol * min((size for size in sizes if size), default=1.0)


class _Equation(NamedTuple):
    """The flow in the singular basis of the task; Σxx is a number where it is a multiple of the identity."""

    U: JaxArray
    V: JaxArray
    sigma_yx: JaxArray
    sigma_xx: JaxArray
    rates: JaxArray
    decay: JaxArray
    data: Tree  # as `_gradients.data_of` gives it, in the given basis, as records are
    rows: tuple[JaxArray, ...]  # that make the constant of biases, in the given basis, and in the singular one
    turned_rows: tuple[JaxArray, ...]


def _equation(problem: Problem) -> _Equation:
    task = problem.task
    U, _, Vt = np.linalg.svd(problem.pull)
    S = np.zeros_like(task.sigma_yx)
    np.fill_diagonal(S, task.modes.s)  # diagonal to the last bit: modes that do not interact never do
    sigma_xx = Vt @ task.plain_xx @ Vt.T if task.plain_xx.ndim else task.plain_xx
    network = problem.network
    rows = constant_rows(network.sizes, network.activation) if network.biased else ()
    turned = (rows[0] @ Vt.T, *rows[1:]) if rows else ()
    data = _gradients.data_of(problem)
    return _Equation(U, Vt.T, S, sigma_xx, np.array(problem.rates), problem.weight_decay, data, rows, turned)


def _turned(weights: Sequence[JaxArray], U: JaxArray, V: JaxArray) -> tuple[JaxArray, ...]:
    """The layers W_1 V, …, Uᵀ W_L: the network in the basis V of the inputs and U of the outputs."""
    first, *rest = weights
    *lower, last = (first @ V, *rest)
    return (*lower, U.T @ last)


def _observed(
    xp: ModuleType, weights: Sequence[JaxArray], names: tuple[str, ...], equation: _Equation, loss: Loss
) -> dict[str, list[JaxArray]]:
    """What is asked for of the free layers, and what `alarm` looks at: loss + ½ γ Σ‖W_ℓ‖²."""
    of_map = _gradients.loss_of_map(xp, loss)(equation.data)
    seen = _engines.observe(xp, whole(weights, equation.rows, xp), (*names, "loss"), of_map)
    objective = seen["loss"][0] + equation.decay / 2 * sum((W**2).sum() for W in weights)
    return {name: seen[name] for name in names} | {_OBJECTIVE: [objective]}


def _integrate(
    problem: Problem,
    times: Array,
    names: tuple[str, ...],
    tolerances: tuple[float, float],
    max_steps: int,
    recording: _engines.Recording,
    tick: Callable[[float], object],
) -> Status:
    """Fills the recording, call by call, and says how it ended."""
    start, equation = problem.network.free(problem.network.weights), _equation(problem)
    now, taken, end = 0.0, 0, float(times[-1])
    with np.errstate(over="ignore", invalid="ignore"):
        seen = _observed(np, start, names, equation, problem.loss)
    finite = all(np.isfinite(part).all() for name in names for part in seen[name])
    zeros = int(np.count_nonzero(times == 0)) if finite else 0
    first = {name: [np.broadcast_to(part, (zeros, *np.shape(part))) for part in parts] for name, parts in seen.items()}
    recording.add(first, zeros)
    if not finite:
        return stalled(now, end, taken)
    narrow = min(problem.task.sigma_yx.shape)
    steps_per_call, records_per_call = _engines.per_call(problem.network.sizes, narrow, _GRADIENTS, names)
    beyond = max_steps if max_steps < 512 else max_steps // 8  # the last call may go on for so many
    advance = _compiled(names, min(steps_per_call, beyond), problem.loss)  # once, whatever is left at the end
    weights: Tree = _turned(start, equation.U, equation.V)
    while recording.count < len(times):
        if taken >= max_steps:
            return stopped(now, end, taken)
        stops = times[recording.count : recording.count + records_per_call]
        stops = np.pad(stops, (0, records_per_call - len(stops)), mode="edge")
        weights, reached_time, reached, steps, seen = advance(weights, now, stops, equation, *tolerances)
        before, now, taken = now, float(reached_time), taken + int(steps)
        moved = now > before or before == stops[-1]
        if not moved or not all(np.isfinite(W).all() for W in weights):
            return stalled(before, end, taken)
        recording.add(seen, min(int(reached), len(times) - recording.count))
        tick((now - before) / end if end else 0.0)
        if int(steps) >= _SOME and recording.count < len(times) and problem.network.depth == 2:
            layers, mean = _turned(weights, equation.U.T, equation.V.T), (now - before) / int(steps)
            stiff = OfWeights(problem)
            y = stiff.state_of(*problem.network.whole([np.asarray(W) for W in layers]))
            if mean * stiff.terms.fastest(stiff.layers(y)) > _LIMIT and (end - now) / mean > _MANY:
                left = max_steps - taken
                further = stiff_steps(stiff, y, now, mean, tolerances, left)
                done = _further(further, stiff, equation, times, names, recording, tick)
                if recording.count == len(times):
                    return COMPLETE
                return (stopped if done.steps == left else stalled)(done.time, end, taken + done.steps)
    return COMPLETE


class _Reached(NamedTuple):
    time: float
    steps: int


def _further(
    steps: Iterator[Step],
    flow: OfWeights,
    equation: _Equation,
    times: Array,
    names: tuple[str, ...],
    recording: _engines.Recording,
    tick: Callable[[float], object],
) -> _Reached:
    """Fills the rest of the recording as far as these steps go."""
    reached, end = _Reached(0.0, 0), float(times[-1])
    for step in steps:
        while recording.count < len(times) and times[recording.count] <= step.time:
            layers = flow.parts([step.within(float(times[recording.count]))])["weights"]
            seen = _observed(np, flow.network.free([W[0] for W in layers]), names, equation, flow.problem.loss)
            recording.add({name: [np.asarray(part)[None] for part in parts] for name, parts in seen.items()}, 1)
        tick((min(step.time, end) - reached.time) / end)
        reached = _Reached(step.time, reached.steps + 1)
        if recording.count == len(times):
            break
    return reached


@cache
def _compiled(names: tuple[str, ...], max_steps: int, loss: Loss) -> Tree:
    """One call: from a state through the times to record, or as far as `max_steps` go."""
    jax, diffrax = _engines.load("jax", "flow"), _engines.load("diffrax", "flow")

    def pull(equation: _Equation) -> Callable[[JaxArray], JaxArray]:
        """E of W in the singular basis."""
        if loss.squared:
            return _engines.squared_pull(equation.sigma_yx, equation.sigma_xx)
        U, V, given = equation.U, equation.V, _gradients.pull_on_map(jax, loss, equation.data)
        return lambda W: U.T @ given(U @ W @ V.T) @ V

    def velocity(_: JaxArray, weights: Tree, equation: _Equation) -> Tree:
        layers = whole(weights, equation.turned_rows, jax.numpy)
        gradients, _, _ = _engines.linear_gradients(layers, pull(equation))
        parts = zip(equation.rates, free(gradients) if equation.rows else gradients, weights, strict=True)
        return tuple(rate * (G - equation.decay * W) for rate, G, W in parts)

    def seen(_: JaxArray, weights: Tree, equation: _Equation) -> Tree:
        return _observed(jax.numpy, _turned(weights, equation.U.T, equation.V.T), names, equation, loss)

    def error_norm(error: JaxArray) -> Tree:
        """Infinite for a step that overflows: the controller then tries a smaller one, and after nan it could not."""
        squares = sum((part**2).sum() for part in error) / sum(part.size for part in error)
        return jax.numpy.where(jax.numpy.isnan(squares), jax.numpy.inf, jax.numpy.sqrt(squares))

    def advance(
        weights: Tree, now: JaxArray, stops: JaxArray, equation: _Equation, rtol: JaxArray, atol: JaxArray
    ) -> Tree:
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
