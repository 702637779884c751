"""Linear equations Ẏ = M(t)Y by collocation at Gauss's points: Ẏ is a polynomial in t through s of them, so that at the
end of a step Y is good to order 2s, and to order s + 1 within it."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre

from lazyrich._typing import Array, Float

_PICARD = 40  # iterations that are enough for any step of length 1/‖M‖
_SETTLED = 1e-16


class Gauss(NamedTuple):
    """s points in [0, 1], and what the values there tell of the polynomial through them."""

    points: Float[Array, " s"]
    integrals: Float[Array, "s s"]  # up to each point
    weights: Float[Array, " s"]  # up to 1
    coefficients: Float[Array, "s s"]  # of Legendre's polynomials in [−1, 1]


@cache
def gauss(stages: int) -> Gauss:
    x, weights = legendre.leggauss(stages)
    coefficients = (2 * np.arange(stages) + 1)[:, None] / 2 * legendre.legvander(x, stages - 1).T * weights
    return Gauss((x + 1) / 2, _integrals(x) @ coefficients, weights / 2, coefficients)


def _integrals(x: Float[Array, " n"]) -> Float[Array, "n s"]:
    """∫ of each Legendre polynomial from the start of [0, 1] up to some points, given in [−1, 1]."""
    degrees = np.eye(len(x))
    return np.stack([legendre.legval(x, legendre.legint(p, lbnd=-1)) for p in degrees], axis=1) / 2


def solved(M: Float[Array, "s a a"], H: float) -> tuple[Float[Array, "s a a"], float]:
    """Ẏ at the points of a step of length H from Y = I, and the size of its last Legendre coefficient, times H."""
    rule = gauss(len(M))
    slopes = M.copy()
    for _ in range(_PICARD):
        Y = np.tensordot(H * rule.integrals, slopes, axes=1)
        Y[:, np.arange(M.shape[1]), np.arange(M.shape[1])] += 1.0
        new = M @ Y
        settled = np.abs(new - slopes).max() * H <= _SETTLED
        slopes = new
        if settled:
            break
    return slopes, H * float(np.abs(np.tensordot(rule.coefficients[-2:], slopes, axes=1)).max())


def between(slopes: Float[Array, "s a a"], share: float) -> Float[Array, "a a"]:
    """Y − I at a share of the step, in units of its length."""
    stages = len(slopes)
    x = 2 * share - 1
    integrals = np.array([legendre.legval(x, legendre.legint(p, lbnd=-1)) for p in np.eye(stages)]) / 2
    return np.tensordot(integrals @ gauss(stages).coefficients, slopes, axes=1)
