"""Gradient flow of two linear layers with any loss, by the smallest equation that holds (`methods.gram`): that of the
function alone where the initialisation is in the family and no weights are asked for, else that of the weights on as
many hidden units as they use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lazyrich._status import COMPLETE, End, Status
from lazyrich._typing import Array
from lazyrich.batch import alarm
from lazyrich.methods.gram import Equation, OfFunction, OfWeights, steps
from lazyrich.problem import Problem


class Run(NamedTuple):
    """What was recorded, at so many of the times, and how it ended."""

    parts: dict[str, Any]
    reached: int
    status: Status


def flow_two_layers(
    problem: Problem,
    times: Array,
    names: tuple[str, ...],
    rtol: float,
    atol: float | None,
    max_steps: int,
    tick: Callable[[float], object] = lambda part: None,
) -> Run:
    """The flow of one network at `times`; `tick` is told what part has been done."""
    alone = "weights" not in names and OfFunction.applies(problem)
    equation: Equation = OfFunction(problem) if alone else OfWeights(problem)
    states, status = _integrated(equation, times, rtol, atol, max_steps, tick)
    functions = np.array([equation.function(y) for y in states]).reshape(len(states), *problem.pull.shape)
    parts: dict[str, Any] = {"function": functions, "loss": np.asarray(problem.loss.of_map(problem.task, functions))}
    if not alone or "gram" in names:
        parts |= equation.parts(states) if states else {}
    if "weights" in parts:
        for W, given in zip(parts["weights"], problem.network.weights, strict=True):
            W[times[: len(states)] == 0] = given
    if "gram" in names and "weights" in parts:
        Q = np.concatenate([np.swapaxes(parts["weights"][0], 1, 2), parts["weights"][1]], axis=1)
        parts["gram"] = Q @ np.swapaxes(Q, 1, 2)
    falls = parts["loss"] if alone or not states else alarm.objective(problem, parts["weights"], parts["loss"])
    reached = alarm.falling(problem, falls, rtol)
    if reached < len(states):
        status = alarm.rising(problem, times[reached], rtol)
    kept = {name: [W[:reached] for W in part] if name == "weights" else part[:reached] for name, part in parts.items()}
    return Run({name: part for name, part in kept.items() if name in names}, reached, status)


def _integrated(
    equation: Equation,
    times: Array,
    rtol: float,
    atol: float | None,
    max_steps: int,
    tick: Callable[[float], object],
) -> tuple[list[Array], Status]:
    """The states at the times that were reached, and how it ended."""
    states, end = [equation.initial] * int(np.count_nonzero(times == 0)), float(times[-1])
    now, taken = 0.0, 0
    if len(states) == len(times):
        return states, COMPLETE
    for step in steps(equation, rtol, max_steps, atol):
        taken += 1
        while len(states) < len(times) and times[len(states)] <= step.time:
            states.append(step.within(float(times[len(states)])).copy())
        tick((min(step.time, end) - now) / end)
        now = min(step.time, end)
        if len(states) == len(times):
            return states, COMPLETE
    return states, (stopped if taken == max_steps else stalled)(now, end, taken)


def stopped(now: float, end: float, taken: int) -> Status:
    where = f"stopped at t = {now:.6g} of {end:.6g} after {taken} steps"
    return Status(End.STOPPED, where, "a larger max_steps, a larger rtol or an earlier end")


def stalled(now: float, end: float, taken: int) -> Status:
    where = f"t = {now:.6g} of {end:.6g} after {taken} steps, where no step is small enough or numbers overflow"
    return Status(End.STALLED, f"stalled at {where}", "smaller weights or targets, or an earlier end")
