"""When to look, and until when: all that happens is to be seen, near zero and late."""

from __future__ import annotations

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.landscape.horizon import horizon, rounded_up
from lazyrich.methods.flow import flow
from lazyrich.prediction.modes import frames_of, in_frames
from lazyrich.problem import Problem

NEAR = 0.05  # of its target: a mode this close to it is taken to be on its way there
WEAK = 0.01  # of the strongest mode: too weak to wait for
FALLING = 0.001  # of the loss, in the last tenth of the time: then it is still falling
LEFT_WHITE, LEFT = 1e-3, 1e-2  # of the fall of the loss, at the end
STEPS = 40_000  # of an integration
_COUNT = 201  # times, where none are given, or more where inputs are of very unequal size:
_CLOSE = 12  # to a decade
_LONGER = 4  # times four of the estimated horizon: how far a first run of a deep network goes
_FAR = 20.0  # times the estimated horizon: where the draft ends if nothing else ends it
_LINEAR, _COARSE = 1e-8, 1e-2  # tolerances of a run that only finds out until when to look


def both_ends(problem: Problem, end: float, count: int = _COUNT) -> Float[Array, " T"]:
    """Times from 0 to `end`: half of them evenly, half of them ever closer to each other towards zero, so that what is
    over at once can be seen too."""
    sizes = sum(float(np.linalg.norm(W, 2)) ** 2 for W in problem.network.weights)
    sizes += float(np.linalg.norm(problem.task.target, 2))
    fastest = max(problem.rates) * float(np.linalg.norm(problem.task.sigma_xx, 2)) * sizes
    first = max(min(0.1 / max(fastest, 1e-300), end / count), 1e-18 * end)
    close = max(count // 2, int(_CLOSE * np.log10(end / first)))
    return np.union1d(np.linspace(0.0, end, count - count // 2), np.geomspace(first, end, close + 1))


def looked_at(problem: Problem, end: float, asked: Array | None) -> Float[Array, " T"]:
    """Times of our own until all that happens can be seen, by `end`, and on to the last that is asked for."""
    own = both_ends(problem, end)
    return own if asked is None or asked[-1] <= end else np.union1d(own, both_ends(problem, float(asked[-1])))


def horizon_of(problem: Problem) -> float:
    """Until when to look. What a first run finds, hardly accurate, where an estimate will not do: of another loss than
    the squared one, and of deep linear networks, whose plateaus depend on how modes meet on the way."""
    end, linear = horizon(problem), problem.network.activation.linear
    if not problem.loss.squared:
        rtol = _LINEAR if linear else _COARSE
        draft = flow(problem, both_ends(problem, far(problem, end)), rtol=rtol)
        return all_seen(draft.times, draft.loss)
    if not linear or problem.weight_decay or problem.facts.determinant_obstruction:
        return end
    return _when_learned(problem, end)


def _when_learned(problem: Problem, guess: float) -> float:
    """The guess, or later where the modes are not there by then: as late as they are, or as it was looked."""
    frames, floor, last = frames_of(problem, problem.pull), floor_of(problem), guess
    strong = (frames.target > WEAK * frames.target.max())[: min(problem.network.sizes)]
    left = LEFT_WHITE if problem.facts.whitened else LEFT
    for _ in range(_LONGER):  # what is recorded is what later runs record: all are compiled once
        draft = flow(problem, both_ends(problem, last), rtol=_LINEAR, max_steps=STEPS)
        off = np.abs(in_frames(draft.function, frames) - frames.target)[:, : len(strong)][:, strong]
        there = draft.loss - floor <= left * max(draft.loss[0] - floor, 0.0)
        if problem.facts.whitened:
            there &= (off <= NEAR * frames.target[: len(strong)][strong]).all(axis=1)
        if there[-1]:
            first = float(draft.times[np.flatnonzero(~there)[-1] + 1]) if not there.all() else 0.0
            return max(guess, rounded_up(1.15 * first))
        if draft.times[-1] < last:
            break
        last *= 4
    return guess


def far(problem: Problem, end: float) -> float:
    """Where a draft ends, of an estimated horizon."""
    return end if problem.weight_decay else _FAR * end


def all_seen(times: Array, loss: Array) -> float:
    """When the loss comes within a hundredth of its fall of the lowest that was, for good. Nobody knows the end of a
    loss that is not squared, and that of separable classes falls for ever."""
    left = loss - loss.min()
    if not left[0] > 0:
        return float(times[-1])
    return min(float(times[-1]), rounded_up(1.15 * float(times[np.flatnonzero(left > LEFT * left[0])[-1] + 1])))


def floor_of(problem: Problem) -> float:
    """The least loss of any linear map that fits through the hidden layer."""
    task = problem.task
    values, vectors = np.linalg.eigh(task.sigma_xx)
    s = np.linalg.svd(task.target @ (vectors * np.sqrt(np.maximum(values, 0.0))), compute_uv=False)
    return float(task.loss_floor + np.sum(s[min(problem.network.sizes) :] ** 2) / 2)


def falls(times: Float[Array, " T"], loss: Float[Array, " T"], of: float) -> bool:
    """Whether a loss falls in the last tenth of the time by more than `FALLING` of a given loss.

    >>> times = np.linspace(0, 1, 11)
    >>> falls(times, 1 - times, 1.0), falls(times, np.exp(-9 * times), 1.0)
    (True, False)
    """
    return bool(np.interp(0.9 * times[-1], times, loss) - loss[-1] > FALLING * of)
