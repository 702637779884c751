"""`descend`: full-batch gradient descent, step by step, in a compiled loop; any depth, linear or not.

    W_ℓ ← W_ℓ − rate · η_ℓ (∂loss/∂W_ℓ + γ W_ℓ),    time = rate × steps

Linear networks need the correlations of the task alone, nonlinear ones its samples. Every step has the loss at hand,
and the loop ends at the first one that is not finite.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from lazyrich import _check, _engines
from lazyrich._check import InvalidInput
from lazyrich._progress import progress
from lazyrich._typing import Array
from lazyrich.problem import Problem
from lazyrich.trajectory import Trajectory

__all__ = ["descend"]


def descend(
    problem: Problem, rate: float, steps: int, *, record: Any = ("weights",), at: Any = None
) -> Trajectory:
    """Gradient descent from the network's weights, in double precision; the times are rate × step.

    Layer rates multiply `rate`. `record` names what to keep beside the loss, which always is: any of "weights",
    "function" (linear) and "gram" (linear, two layers). `at` lists the steps to record, from 0 to `steps`; without
    it, at most 501 evenly spaced ones are. Where the loss overflows the run ends, and `traj.status` says when.

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> lr.descend(problem, rate=0.1, steps=100, at=[0, 1, 100]).function.ravel().round(6)
    array([0.01    , 0.014392, 2.      ])
    """
    if not isinstance(problem, Problem):
        raise InvalidInput(f"problem must be a lazyrich Problem, and it is a {type(problem).__name__}.")
    rate, steps = _check.positive("rate", rate), _check.count("steps", steps)
    network, task = problem.network, problem.task
    names = _engines.as_record(record, network.depth, network.activation)
    stops = _stops(at, steps)
    if network.activation != "linear" and (task.inputs is None or task.targets is None):
        raise InvalidInput(
            f"descend needs the samples of the task where the network is {network.activation}, and this task holds "
            "correlations only: Task.from_data(inputs, targets) would do."
        )
    recording = _engines.Recording(tuple(dict.fromkeys((*names, "loss"))), len(stops), task.loss)
    diverged = _run(problem, rate, stops, names, recording)
    status = "complete"
    if diverged is not None:
        status = (
            f"diverged: the loss is not finite at step {diverged} (t = {rate * diverged:.6g}) with rate = {rate:g}, "
            "and a smaller rate would do"
        )
    if recording.count == 0:
        raise RuntimeError(f"descend reached none of the steps to record: {status}.")
    return Trajectory(problem, rate * stops[: recording.count], "descend", recording.parts(), status=status)


def _stops(at: Any, steps: int) -> Array:
    """The steps to record, sorted."""
    if at is None:
        return np.linspace(0, steps, min(steps, 500) + 1).round().astype(np.int64)
    stops = np.atleast_1d(_check.as_array("at", at))
    if stops.ndim != 1 or np.any(stops != np.round(stops)):
        raise InvalidInput(f"at must list steps, whole numbers from 0 to {steps}, and it is {at!r}.")
    if stops.min() < 0 or stops.max() > steps:
        raise InvalidInput(
            f"at must lie between 0 and steps ({steps}), and it goes from {stops.min():g} to {stops.max():g}."
        )
    if np.any(np.diff(stops) < 0):
        raise InvalidInput("at must be sorted, and it is not: np.sort(at) would do.")
    return stops.astype(np.int64)


def _run(
    problem: Problem, rate: float, stops: Array, names: tuple[str, ...], recording: _engines.Recording
) -> int | None:
    """Fills the recording, call by call; returns the step at which the loss was not finite, if any."""
    network, data = problem.network, _data(problem)
    weights: Any = network.weights
    parameters = sum(W.size for W in weights)
    columns = min(problem.task.sigma_yx.shape) if network.activation == "linear" else len(problem.task.inputs)
    steps_per_call, records_per_call = _engines.per_call(6 * parameters * columns, _numbers(problem, names))
    paces, now, finite = rate * np.array(problem.rates), 0, True
    with (
        _engines.double_precision("descend"),
        np.errstate(over="ignore", invalid="ignore"),  # a diverging loss overflows, and is reported
        progress(int(stops[-1]), "descend") as move_on,
    ):
        run = _compiled(network.activation, names)
        while finite and recording.count < len(stops):
            due = stops[recording.count : recording.count + records_per_call]
            due = due[due <= now + steps_per_call]
            ends = due if len(due) else np.array([now + steps_per_call])
            gaps = np.pad(np.diff(ends, prepend=now), (0, records_per_call - len(ends)))
            weights, taken, finite, seen = run(weights, gaps, paces, problem.weight_decay, data)
            now += int(taken)
            recording.add(seen, int(np.sum(due < now) if not finite else len(due)))
            move_on(int(taken))
    overflown = np.flatnonzero(~np.isfinite(recording.parts()["loss"]))
    if len(overflown):
        recording.count = int(overflown[0])
        return int(stops[overflown[0]])
    return None if finite else now
