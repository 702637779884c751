"""Where the likelihood is highest: from many places spread over the bounds (Sobol's sequence), uphill from the best.

SciPy's optimisers climb from one place at a time. Here hundreds climb together, by Fisher scoring with the damping of
Levenberg and Marquardt, within the bounds; some coordinates of each may be held, which is what profiles need.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.fit.likelihood import Likelihood

_SPREAD = 9  # 2 to this power places at first
_CLIMBERS = 24
_ROUNDS = 60
_CLOSE, _CLOSER = 1e-5, 1e-9  # of the log-likelihood: gains that are not worth another round, and for an optimum
_LOWER, _DIP = 10.0, 0.5  # of optima: how much lower is worth a word, and how deep a valley makes two of them
_SAME = 1e-3  # of the bounds: climbers that are as near came to one place
_BETWEEN = np.linspace(0, 1, 9)[1:-1, None]  # where a valley is looked for
_DAMPING = (1e-3, 1e-9, 1e9)


@dataclass(frozen=True, eq=False)
class Optimum:
    """A place from which no small step leads higher."""

    place: Float[Array, " d"]
    log_likelihood: float


def optima(likelihood: Likelihood, rng: np.random.Generator) -> tuple[Optimum, ...]:
    """All that were found and are not much lower than the best, which comes first."""
    d = len(likelihood.space.free)
    if d == 0:
        return (Optimum(np.zeros(0), float(likelihood(np.zeros((1, 0)))[0])),)
    from scipy.stats import qmc  # here: it is slow to load

    spread = qmc.Sobol(d, rng=rng).random_base2(_SPREAD)
    first = np.argsort(-likelihood(spread))[:_CLIMBERS]
    places, height = climb(likelihood, spread[first])
    places, height = climb(likelihood, places[_different(places, height)], close=_CLOSER)
    kept: list[Optimum] = []
    for i in np.argsort(-height):
        if np.isfinite(height[i]) and height[i] > height.max() - _LOWER:
            here = Optimum(places[i], float(height[i]))
            if all(_apart(likelihood, here, other) for other in kept):
                kept.append(here)
    return tuple(kept)


def _different(places: Float[Array, "P d"], height: Float[Array, " P"]) -> list[int]:
    """One of all that came to the same place, and none that is far down."""
    kept: list[int] = []
    for i in np.argsort(-height):
        if height[i] > height.max() - 2 * _LOWER and all(np.abs(places[i] - places[j]).max() > _SAME for j in kept):
            kept.append(int(i))
    return kept


def _apart(likelihood: Likelihood, one: Optimum, other: Optimum) -> bool:
    """Whether a valley lies between two optima, on the way that is highest for each step of the longest coordinate."""
    between = other.place - one.place
    way = np.asarray(one.place + _BETWEEN * between)
    held = np.tile(np.abs(between) == np.abs(between).max(), (len(way), 1))
    height = climb(likelihood, way, held)[1]
    return bool(height.min() < min(one.log_likelihood, other.log_likelihood) - _DIP)


def climb(
    likelihood: Likelihood, start: Float[Array, "P d"], held: Array | None = None, close: float = _CLOSE
) -> tuple[Float[Array, "P d"], Float[Array, " P"]]:
    """Uphill from each start until nothing is gained; coordinates that are `held` stay."""
    places = start.copy()
    kept = np.zeros_like(start, dtype=bool) if held is None else held
    height, damping = likelihood(places), np.full(len(places), _DAMPING[0])
    going = np.array(~kept.all(axis=1))
    for _ in range(_ROUNDS):
        who = np.flatnonzero(going)
        if not len(who):
            break
        g, H = likelihood.scored(places[who])
        for _ in range(4):  # until a step leads up, for all that have not found one
            fixed = kept[who] | ((places[who] <= 0) & (g < 0)) | ((places[who] >= 1) & (g > 0))
            new = np.clip(places[who] + _step(g, H, damping[who], fixed), 0, 1)
            reached = likelihood(new)
            gain = reached - height[who]
            up = gain > 0
            places[who[up]], height[who[up]] = new[up], reached[up]
            damping[who] = np.clip(damping[who] * np.where(up, 0.2, 8.0), *_DAMPING[1:])
            small = np.abs(new - places[who]).max(axis=1, initial=0.0) < 1e-12
            stuck = ~up & (small | (damping[who] >= _DAMPING[2]))
            going[who[(up & (gain < close) & (damping[who] < 1)) | stuck]] = False
            again = ~up & ~stuck
            if not again.any():
                break
            who, g, H = who[again], g[again], H[again]
    return places, height


def _step(g: Float[Array, "P d"], H: Float[Array, "P d d"], damping: Float[Array, " P"], fixed: Array) -> Array:
    """The damped step of scoring, nothing along what is fixed."""
    d = g.shape[1]
    size = np.einsum("pii->pi", H)
    size = np.where(size > 0, size, 1.0)
    A = H + np.eye(d) * (damping[:, None] * size + 1e-12 * size.max(axis=1, keepdims=True))[:, None, :]
    free = ~fixed
    A = np.where(free[:, :, None] & free[:, None, :], A, np.eye(d))
    return np.asarray(np.linalg.solve(A, np.where(free, g, 0.0)[:, :, None])[:, :, 0])
