"""`descend`: full-batch gradient descent, step by step, in a compiled loop; any depth, linear or not.

    W_ℓ ← W_ℓ − rate · η_ℓ (∂loss/∂W_ℓ + γ W_ℓ),    time = rate × steps

Linear networks need the correlations of the task alone, nonlinear ones its samples. Every step has the loss at hand,
and the loop ends at the first one that is not finite.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType

import numpy as np

from lazyrich import _check, _engines
from lazyrich._progress import progress
from lazyrich._status import COMPLETE, End, Status
from lazyrich._typing import Array, JaxArray, Tree
from lazyrich.batch.api import as_stops
from lazyrich.methods import _gradients
from lazyrich.networks import Activation
from lazyrich.problem import Problem, as_problem
from lazyrich.trajectory import Trajectory

__all__ = ["descend"]


def descend(
    problem: Problem, rate: float, steps: int, *, record: object = ("weights",), at: object = None
) -> Trajectory:
    """Gradient descent from the network's weights, in double precision; the times are rate × step.

    Layer rates multiply `rate`. `record` names what to keep beside the loss, which always is: any of "weights",
    "function" (linear) and "gram" (linear, two layers). `at` lists the steps to record, from 0 to `steps`; without
    it, at most 501 evenly spaced ones are. Where the loss overflows the run ends, and `traj.status` says when.

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> lr.descend(problem, rate=0.1, steps=100, at=[0, 1, 100]).function.ravel().round(6)
    array([0.01    , 0.014376, 2.      ])
    """
    as_problem(problem)
    rate, steps = _check.positive("rate", rate), _check.count("steps", steps)
    network = problem.network
    names = _engines.as_record(record, network.depth, network.activation.linear, network.kind)
    names = tuple(dict.fromkeys((*names, "loss")))
    stops = as_stops(at, steps)
    _gradients.needs_samples(problem, "descend")
    recording = _engines.Recording(len(stops))
    diverged = _run(problem, rate, stops, names, recording)
    status = COMPLETE
    if diverged is not None:
        where = f"step {diverged} (t = {rate * diverged:.6g}) with rate = {rate:g}, where the loss is not finite"
        status = Status(End.DIVERGED, f"diverged at {where}", "a smaller rate")
    if recording.count == 0:
        raise RuntimeError(f"descend reached none of the steps to record: {status}.")
    return Trajectory(problem, rate * stops[: recording.count], "descend", recording.parts(), status=status)


def _run(
    problem: Problem, rate: float, stops: Array, names: tuple[str, ...], recording: _engines.Recording
) -> int | None:
    """Fills the recording, call by call; returns the step at which the loss is not finite, if there is one."""
    network, data = problem.network, _gradients.data_of(problem)
    columns = min(data[0].shape) if network.activation.linear else data[0].shape[1]
    steps_per_call, records_per_call = _engines.per_call(network.sizes, columns, 1, names)
    run = _compiled(network.activation, network.sizes, names)
    paces, weights, now, finite = rate * np.array(problem.rates), network.weights, 0, True
    with (
        _engines.double_precision("descend"),
        np.errstate(over="ignore", invalid="ignore"),  # a loss that overflows is reported
        progress(int(stops[-1]), "descend") as move_on,
    ):
        while finite and recording.count < len(stops):
            due = stops[recording.count : recording.count + records_per_call]
            due = due[due <= now + steps_per_call]
            ends = due if len(due) else np.array([now + steps_per_call])
            gaps = np.pad(np.diff(ends, prepend=now), (0, records_per_call - len(ends)))
            weights, taken, finite, seen = run(weights, gaps, paces, problem.weight_decay, data)
            now += int(taken)
            recording.add(seen, len(due) if finite else int(np.sum(due < now)))
            move_on(int(taken))
    overflown = np.flatnonzero(~np.isfinite(recording.parts()["loss"]))
    if len(overflown):
        recording.count = int(overflown[0])
        return int(stops[recording.count])
    return None if finite else now


@cache
def _compiled(activation: Activation, sizes: tuple[int, ...], names: tuple[str, ...]) -> Tree:
    """One call: stretches of steps, with a record after each."""
    jax = _engines.load("jax", "descend")
    slopes_and_loss, seen = _gradients.slopes_and_loss(jax, activation, sizes), _seen(jax, activation, names)

    def run(weights: Tree, gaps: JaxArray, paces: JaxArray, decay: JaxArray, data: Tree) -> Tree:
        def step(state: Tree) -> Tree:
            done, weights, _ = state
            slopes, loss = slopes_and_loss(weights, data)
            finite = jax.numpy.isfinite(loss)
            layers = zip(weights, paces, slopes, strict=True)
            return done + finite, tuple(W + pace * (slope - decay * W) for W, pace, slope in layers), finite

        def stretch(state: Tree, gap: JaxArray) -> Tree:
            weights, taken, finite = state

            def goes_on(state: Tree) -> JaxArray:
                return (state[0] < gap) & state[2]

            done, weights, finite = jax.lax.while_loop(goes_on, step, (0 * gap, weights, finite))
            return (weights, taken + done, finite), seen(weights, data)

        start = (weights, 0 * gaps[0], jax.numpy.array(True))
        (weights, taken, finite), records = jax.lax.scan(stretch, start, gaps)
        return weights, taken, finite, records

    return jax.jit(run)


def _seen(jax: ModuleType, activation: Activation, names: tuple[str, ...]) -> Callable[..., Tree]:
    """The record of a state."""
    if activation.linear:
        return lambda weights, data: _engines.observe(jax.numpy, weights, names, data[1])
    loss = _gradients.loss(jax, activation)

    def seen(weights: Tree, data: Tree) -> Tree:
        kept = {"weights": list(weights)} if "weights" in names else {}
        return kept | {"loss": [loss(weights, data)]}

    return seen
