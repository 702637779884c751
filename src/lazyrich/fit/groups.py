"""Subjects with parameters of their own, and the group that they are from.

Each parameter by itself: what subject i says of it is its profile likelihood P_i(x), over all of the bounds, and
subjects scatter around the group's mean as N(μ, τ²), in the coordinate of the parameter (logarithms, mostly). Then

    L(μ, τ) = Π_i ∫ P_i(x) N(x; μ, τ²) dx

so that a subject whose profile is flat or open says little or nothing, and none is left out. This is a two-stage model:
profiles stand in for likelihoods, and correlations between parameters are not looked at. The interval of μ is where the
best over τ is within n/2 ln(1 + F/(n − 1)) of the top, Student's interval where n subjects are known exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.fit.likelihood import Likelihood
from lazyrich.fit.parameters import Coordinate
from lazyrich.fit.profiles import LEVEL, Interval, Profile
from lazyrich.fit.result import Fit

_POINTS = 801  # between the bounds, where profiles are integrated
_MEANS, _SPREADS = 201, 61  # tried for μ and τ


@dataclass(frozen=True)
class Level:
    """One parameter of the group, in its own units."""

    mean: float
    spread: float  # of the stretched coordinate
    interval: Interval
    profile: Profile


def group_fit(each: list[Fit], together: Likelihood) -> Fit:
    """The fit of a group from those of its subjects."""
    first = each[0]
    levels = {
        one.name: _level(one, i, [fit.profiles[i] for fit in each]) for i, one in enumerate(first.likelihood.space.free)
    }
    unknown = [name for name in levels if not levels[name].interval.identified]
    notes = [f"{name} is not identified in the group" for name in unknown]
    for name in levels:
        if name not in unknown and (left := sum(name in fit.unidentified for fit in each)):
            notes.append(f"{name} is not identified in {left} of {len(each)} subjects, who say nothing of it")
    shared = [note for note in first.notes if "sign of lam" in note]
    return replace(
        first,
        estimates={name: level.mean for name, level in levels.items()},
        intervals={name: level.interval for name, level in levels.items()},
        spread={name: level.spread for name, level in levels.items()},
        log_likelihood=sum(fit.log_likelihood for fit in each),
        parameters=sum(fit.parameters for fit in each),
        count=sum(fit.count for fit in each),
        likelihood=together,
        profiles=tuple(level.profile for level in levels.values()),
        optima=(),
        trade_offs=tuple(dict.fromkeys(pair for fit in each for pair in fit.trade_offs)),
        within=_within(len(each)),
        notes=tuple([*notes, *shared]),
        subjects=tuple(each),
    )


def _within(n: int) -> float:
    from scipy.stats import f  # here: it is slow to load

    return float(n / 2 * np.log1p(f.ppf(LEVEL, 1, n - 1) / (n - 1)))


def _level(coordinate: Coordinate, i: int, profiles: list[Profile]) -> Level:
    """μ and τ of one parameter."""
    x = np.linspace(0, 1, _POINTS)
    logs = np.array([_dense(one.path[:, i], one.log_likelihood, x) for one in profiles])
    means = np.unique(np.concatenate([np.linspace(0, 1, _MEANS), x[np.argmax(logs, axis=1)]]))
    spreads = np.geomspace(1.0 / _POINTS, 1.0, _SPREADS)
    height = np.array([_heights(logs, x, means, tau) for tau in spreads])  # (τ, μ)
    best, over = np.unravel_index(np.argmax(height), height.shape)[1], height.max(axis=0)
    inside = np.flatnonzero(over >= over[best] - _within(len(profiles)))
    ends = sorted((float(coordinate.value(means[k])), bool(means[k] in (0.0, 1.0))) for k in inside[[0, -1]])
    width = abs(float(coordinate.stretched(coordinate.high) - coordinate.stretched(coordinate.low)))
    spread = float(spreads[np.argmax(height[:, best])])
    path = np.zeros((len(means), len(profiles[0].path[0])))
    path[:, i] = means
    profile = Profile(coordinate.name, np.asarray(coordinate.value(means)), over, path)
    interval = Interval(ends[0][0], ends[1][0], ends[0][1], ends[1][1])
    return Level(float(coordinate.value(means[best])), width * spread, interval, profile)


def _dense(place: Array, height: Array, x: Array) -> Array:
    """A profile between the places where it is known, from the root of what is lost, which is nearly straight."""
    top = int(np.argmax(height))
    root = np.sqrt(np.maximum(height[top] - height, 0.0)) * np.where(np.arange(len(place)) < top, -1.0, 1.0)
    return -(np.interp(x, place, root) ** 2)


def _heights(logs: Float[Array, "n x"], x: Array, means: Array, tau: float) -> Float[Array, " means"]:
    """ln L(μ, τ) at many μ: profiles are integrated against a normal density that ends at the bounds."""
    normal = np.exp(-0.5 * ((x - means[:, None]) / tau) ** 2)  # (μ, x)
    normal /= normal.sum(axis=1, keepdims=True)
    return np.sum(np.log(np.exp(logs) @ normal.T + 1e-300), axis=0)
