"""When descent leaves a saddle that the flow would stay in.

A step of the rate h keeps the balance of the layers only to h² (`landscape.drift`), so it takes a network off the
separatrix, and what it adds to the missing mode grows as e^{wt}. How that comes about depends on all that the other
modes do. So descent is run, as long as that takes few steps. Where it would take many, it is run at c times the rate,
and what it adds is c times as much: with two layers, white inputs and no momentum, a small rate needs

    n(h) = c n(ch) + ln c / ln z        steps, z what the mode grows by in one of them.

Near a saddle it is the same: where what has been added to the balance, in the direction of hidden space that the layers
use least, is no longer small beside what they have there, the way out is that of the steps and not of the flow.

>>> task = lr.Task.from_correlations(np.diag([3.0, 1.0]))
>>> problem = lr.Problem(task, lr.inits.zero_balanced(0, sizes=(2, 2, 2), scale=0.3))
>>> fate = lr.fate(problem, rate=0.05)
>>> fate.missed, fate.steps.half_steps.round()
((1,), array([ 15., 235.]))
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.landscape.drift import expected_drift
from lazyrich.methods.mode_maps import Stepping
from lazyrich.networks.network import product
from lazyrich.problem import Problem
from lazyrich.trajectory import Trajectory
from lazyrich.velocity import velocity

_MOST = 20_000  # steps of a run
_WORK = 100_000_000  # weights times steps of a run
_COARSE = 0.05  # of the largest stable rate: of the run that tells how many steps there will be
_LEARNED = 0.9  # of its way: then the mode does not fade again
_ROUNDING = 30.0  # e-foldings, after which rounding may be what has grown
_BESIDE = 0.25  # of what two layers have in a hidden direction: then what steps add there counts


class Stuck(NamedTuple):
    """Modes that the flow never learns."""

    u: Float[Array, "out k"]
    v: Float[Array, "in k"]
    target: Float[Array, " k"]


def half_learned(problem: Problem, modes: Stuck, how: Stepping, stable: float) -> Float[Array, " k"]:
    """The steps in which descent has half learned modes that the flow never does; nan: that was not seen."""
    unknown = np.full(len(modes.target), np.nan)
    if problem.weight_decay or not how.rate < stable:
        return unknown
    first = Stepping(max(how.rate, _COARSE * stable), how.momentum, how.nesterov)
    found = _run(problem, modes, first)
    together = 1.0
    if first.rate > how.rate:
        if not np.isfinite(found).any():
            return unknown
        together = max(1.0, 1.5 * float(np.nanmax(found)) * first.rate / how.rate / _most(problem))
        if together > 1 and (problem.network.depth > 2 or not problem.facts.whitened or how.momentum):
            return unknown
        found = _run(problem, modes, Stepping(min(together * how.rate, first.rate), how.momentum, how.nesterov))
    folded = np.log(how.growth(problem.canonical.gain * modes.target)) if problem.network.depth == 2 else unknown
    steps = together * found + (np.log(together) / folded if together > 1 else 0.0)
    return np.where(steps * folded > _ROUNDING, np.nan, steps)


def _most(problem: Problem) -> int:
    return min(_MOST, _WORK // sum(W.size for W in problem.network.weights))


def _run(problem: Problem, modes: Stuck, how: Stepping) -> Float[Array, " k"]:
    """When each mode passes half of its way for the last time, linear between steps."""

    def strength() -> Float[Array, " k"]:
        return np.einsum("ok,oi,ik->k", modes.u, product(weights), modes.v)

    weights = [np.array(W) for W in problem.network.weights]
    moving = [np.zeros_like(W) for W in weights]
    a = strength()
    half, learned = (a + modes.target) / 2, a + _LEARNED * (modes.target - a)
    found = np.full(len(a), np.nan)
    for n in range(_most(problem)):
        slopes = velocity(problem, weights)
        moving = [how.momentum * m + slope for m, slope in zip(moving, slopes, strict=True)]
        ahead = [slope + how.momentum * m for m, slope in zip(moving, slopes, strict=True)] if how.nesterov else moving
        weights = [W + how.rate * m for W, m in zip(weights, ahead, strict=True)]
        before, a = a, strength()
        passing = (before < half) & (a >= half)
        found[passing] = (n + (half - before) / np.where(passing, a - before, 1.0))[passing]
        if (a >= learned).all() or not np.isfinite(a).all():
            break
    return np.where(a >= learned, found, np.nan)


def lost_at(course: Trajectory, how: Stepping, modes: int) -> float:
    """When the flow of a deep network comes so near to a saddle that descent leaves it at another time; inf: never.

    `modes` are those to be learned: hidden layers need as many directions.
    """
    problem = course.problem
    drifts = expected_drift(course, how.drift)
    first = np.inf
    for (low, high), drift, below, above in zip(
        pairwise(problem.rates), drifts, course.weights[:-1], course.weights[1:], strict=True
    ):
        both = below @ np.swapaxes(below, 1, 2) / low + np.swapaxes(above, 1, 2) @ above / high
        sizes, directions = np.linalg.eigh(both)
        least, x = sizes[:, -modes], directions[:, :, -modes]
        added = np.abs(np.einsum("ti,tij,tj->t", x, drift, x))
        late = np.flatnonzero(added > _BESIDE * least / 2)
        first = min(first, float(course.times[late[0]]) if len(late) else first)
    return first
