"""How sure a fit is: the highest likelihood for every value of one parameter, all others free.

Values whose profile is within a threshold of the top make the interval: χ²₁ at 95 %, or the same from Fisher's F where
the noise is estimated from few measurements. No parabola is assumed; an interval may be open, where the likelihood
stays high as far as a bound, and a parameter whose profile stays high over all of the bounds is not identified. Where
one parameter goes through its interval and takes another through most of its own, the two trade off: the path is the
ridge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.fit.likelihood import Likelihood
from lazyrich.fit.search import Optimum, climb

LEVEL = 0.95
_SIGMAS = np.array([0.5, 1.0, 1.5, 2.0, 2.6, 4.0])  # where a parabola is looked at, in its own width
_EVENLY = np.linspace(0, 1, 17)  # and all over the bounds
_ROUNDS = 5  # of the search for an end
_SAME = 1e-3  # of the log-likelihood: rounds go on until an end is known so well
_BETTER = 1e-4  # a profile that is higher than the optimum by this has found another
_HELD = 0.5  # of the log-likelihood: what a parameter at its bound could gain beyond it
_SHARE = 0.75  # of its interval that a parameter is taken through by another that it trades off with


@dataclass(frozen=True, eq=False)
class Profile:
    """The best that can be had for each value of one parameter."""

    name: str
    values: Float[Array, " n"]  # of the parameter, rising
    log_likelihood: Float[Array, " n"]
    path: Float[Array, "n d"]  # places of all parameters there


@dataclass(frozen=True)
class Interval:
    """95 % of the likelihood's say: from `low` to `high`. An end is open where it is only a bound.

    >>> print(Interval(0.01, 0.5, False, True))
    ≥ 0.01
    """

    low: float
    high: float
    low_open: bool = False
    high_open: bool = False

    @property
    def identified(self) -> bool:
        """Whether the data say anything: one end at least."""
        return not (self.low_open and self.high_open)

    @property
    def closed(self) -> bool:
        """Whether it has both ends."""
        return not (self.low_open or self.high_open)

    def __contains__(self, value: float) -> bool:
        return bool(self.low <= value <= self.high)

    def __str__(self) -> str:
        if not self.identified:
            return "anything within the bounds"
        if self.closed:
            return f"{self.low:.3g} … {self.high:.3g}"
        return f"≥ {self.low:.3g}" if self.high_open else f"≤ {self.high:.3g}"


def threshold(likelihood: Likelihood) -> float:
    """How far below the top is still within the interval: χ²₁/2, or n/2 ln(1 + F/(n − p)) where one Gaussian noise of
    unknown size is all there is; a gain is one of the p."""
    from scipy.stats import chi2, f  # here: they are slow to load

    if len(likelihood.readouts) == 1 and likelihood.readouts[0].noise.unknown_size:
        n, p = likelihood.count, likelihood.parameters - 1
        return float(n / 2 * np.log1p(f.ppf(LEVEL, 1, n - p) / (n - p)))
    return float(chi2.ppf(LEVEL, 1) / 2)


def profiles(likelihood: Likelihood, found: tuple[Optimum, ...]) -> tuple[tuple[Profile, ...], Optimum]:
    """The profile of every free parameter, and the best place, should one of them have found a better."""
    best, d = found[0], len(likelihood.space.free)
    if d == 0:
        return (), best
    for _ in range(4):
        rows = _rows(likelihood, best)
        owner, value = np.concatenate([np.full(len(r), i) for i, r in enumerate(rows)]), np.concatenate(rows)
        starts = [_along(likelihood, best.place, owner, value)]
        starts += [_with(np.tile(other.place, (len(owner), 1)), owner, value) for other in found[1:3]]
        places, height = _best(likelihood, starts, owner)
        for shift in (1, -1):  # neighbours may have found a better way
            near = np.clip(np.arange(len(owner)) + shift, 0, len(owner) - 1)
            near = np.where(owner[near] == owner, near, np.arange(len(owner)))
            again, reached = _best(likelihood, [_with(places[near], owner, value)], owner)
            better = reached > height
            places, height = np.where(better[:, None], again, places), np.where(better, reached, height)
        if height.max() <= best.log_likelihood + _BETTER:
            break
        top = int(np.argmax(height))
        place, high = climb(likelihood, places[top : top + 1], close=1e-9)
        found = (Optimum(place[0], float(high[0])), *found)
        best = found[0]
    level = best.log_likelihood - threshold(likelihood)
    places, height, owner = _to_the_ends(likelihood, places, height, owner, best, level)
    made = []
    for i, coordinate in enumerate(likelihood.space.free):
        mine = np.flatnonzero(owner == i)
        path, heights = np.vstack([places[mine], best.place]), np.append(height[mine], best.log_likelihood)
        order = np.argsort(path[:, i], kind="stable")
        values = np.asarray(coordinate.value(path[order, i]))
        made.append(Profile(coordinate.name, values, heights[order], path[order]))
    return tuple(made), best


def interval(profile: Profile, i: int, top: float, within: float) -> Interval:
    """All values of parameter i whose profile is within so much of the top, from the first to the last."""
    inside = np.flatnonzero(profile.log_likelihood >= top - within - _SAME)
    first, last = int(inside[0]), int(inside[-1])
    place = profile.path[:, i]
    ends = [
        (float(profile.values[first]), bool(place[first] == 0)),
        (float(profile.values[last]), bool(place[last] == 1)),
    ]
    (low, low_open), (high, high_open) = sorted(ends)  # |λ| rises as a negative λ falls
    return Interval(low, high, low_open, high_open)


def held_up(
    likelihood: Likelihood, made: tuple[Profile, ...], top: float, within: float
) -> list[tuple[str, float, str]]:
    """Ends of intervals that are there because another parameter has come to its bound and would go on: whose end it
    is, where, and which other."""
    space, found = likelihood.space, []
    for i, profile in enumerate(made):
        inside = np.flatnonzero(profile.log_likelihood >= top - within - _SAME)
        for k in {int(inside[0]), int(inside[-1])}:
            place = profile.path[k]
            if place[i] in (0.0, 1.0):
                continue
            g, H = (one[0] for one in likelihood.scored(place[None]))
            outward = np.where(place == 0, -g, np.where(place == 1, g, 0.0))
            natural = np.array([one.low == 0 for one in space.free]) & (place == 0)  # λ and lapse end at 0
            gain = outward**2 / (2 * np.maximum(np.diag(H), 1e-300))
            for j in np.flatnonzero((outward > 0) & ~natural & (gain > _HELD)):
                found.append((profile.name, float(profile.values[k]), space.names[j]))
    return found


def shares(made: tuple[Profile, ...], top: float, within: float) -> Float[Array, "d d"]:
    """Through how much of its own interval each parameter (column) is taken by another (row) that goes through its."""
    inside = [profile.path[profile.log_likelihood >= top - within - _SAME] for profile in made]
    width = np.array([np.ptp(path[:, i]) for i, path in enumerate(inside)])
    moved = np.array([np.ptp(path, axis=0) for path in inside]).reshape(len(made), len(made))
    return np.asarray(np.divide(moved, width, out=np.zeros_like(moved), where=width > 0))


def trading(made: tuple[Profile, ...], top: float, within: float) -> tuple[tuple[str, str], ...]:
    """Pairs of parameters that go together, each through most of its interval."""
    share = shares(made, top, within)
    both = np.minimum(share, share.T)
    pairs = [(i, j) for i in range(len(made)) for j in range(i + 1, len(made)) if both[i, j] > _SHARE]
    return tuple((made[i].name, made[j].name) for i, j in pairs)


def _rows(likelihood: Likelihood, best: Optimum) -> list[Array]:
    """Where each profile is looked at: about the optimum as wide as a parabola would be, and all over the bounds."""
    _, H = likelihood.scored(best.place[None])
    inverse = np.linalg.pinv(H[0], hermitian=True)
    width = np.sqrt(np.clip(np.diag(inverse), 1e-20, 1.0))
    rows = []
    for here, sd in zip(best.place, width, strict=True):
        row = np.concatenate([_EVENLY, here + sd * _SIGMAS, here - sd * _SIGMAS])
        rows.append(np.unique(row[(row >= 0) & (row <= 1) & (row != here)]))
    return rows


def _along(likelihood: Likelihood, place: Array, owner: Array, value: Array) -> Array:
    """Where a parabola would have the others."""
    _, H = likelihood.scored(place[None])
    starts = np.tile(place, (len(owner), 1))
    for i in range(len(place)):
        others, mine = np.delete(np.arange(len(place)), i), owner == i
        slope = -np.linalg.pinv(H[0][np.ix_(others, others)], hermitian=True) @ H[0][others, i]
        starts[np.ix_(mine, others)] += (value[mine] - place[i])[:, None] * slope
    return _with(np.clip(starts, 0, 1), owner, value)


def _with(places: Array, owner: Array, value: Array) -> Array:
    """The same with the profiled coordinate of each row at its value."""
    places = places.copy()
    places[np.arange(len(owner)), owner] = value
    return places


def _best(likelihood: Likelihood, starts: list[Array], owner: Array) -> tuple[Array, Array]:
    """The highest that each row reaches from several starts."""
    held = np.arange(starts[0].shape[1]) == owner[:, None]
    places, height = climb(likelihood, np.concatenate(starts), np.tile(held, (len(starts), 1)))
    places, height = places.reshape(len(starts), *starts[0].shape), height.reshape(len(starts), -1)
    top = np.argmax(height, axis=0)
    return places[top, np.arange(len(owner))], height[top, np.arange(len(owner))]


def _to_the_ends(
    likelihood: Likelihood, places: Array, height: Array, owner: Array, best: Optimum, level: float
) -> tuple[Array, Array, Array]:
    """With rows where the profiles pass the level, found as zeros of the signed root of what is lost."""
    for _ in range(_ROUNDS):
        wanted = [end for i in range(places.shape[1]) for end in _crossings(places, height, owner, best, level, i)]
        if not wanted:
            break
        who, value = np.array([w[0] for w in wanted]), np.array([w[1] for w in wanted])
        nearest = [int(np.argmin(np.where(owner == i, np.abs(places[:, i] - v), np.inf))) for i, v, *_ in wanted]
        starts = [_with(places[nearest], who, value), _with(np.array([w[2] for w in wanted]), who, value)]
        new, reached = _best(likelihood, starts, who)
        places, height, owner = np.vstack([places, new]), np.append(height, reached), np.append(owner, who)
    return places, height, owner


def _crossings(
    places: Array, height: Array, owner: Array, best: Optimum, level: float, i: int
) -> list[tuple[int, float, Array]]:
    """Where the profile of parameter i should pass the level, outermost on each side, unless it is known already; with
    a place on the way to start from."""
    mine = owner == i
    x = np.append(places[mine, i], best.place[i])
    y, at = np.append(height[mine], best.log_likelihood), np.vstack([places[mine], best.place])
    order = np.argsort(x, kind="stable")
    x, y, at = x[order], y[order], at[order]
    inside = np.flatnonzero(y >= level)
    found = []
    for edge, beyond in ((inside[0], inside[0] - 1), (inside[-1], inside[-1] + 1)):
        if 0 <= beyond < len(x) and y[edge] - level > _SAME:
            root = np.sqrt(np.maximum(best.log_likelihood - y[[edge, beyond]], 0.0))
            share = (np.sqrt(best.log_likelihood - level) - root[0]) / (root[1] - root[0])
            share = float(np.clip(share, 0.02, 0.98))
            found.append((i, float(x[edge] + share * (x[beyond] - x[edge])), at[edge]))
    return found
