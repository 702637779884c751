"""Linear equations Ẏ = M(t)Y by collocation at Gauss's points: Ẏ is a polynomial in t through s of them, so that at the
end of a step Y is good to order 2s, and to order s + 1 within it."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from lazyrich._typing import Array, Float

_PICARD = 40  # iterations that are enough for any step of length 1/‖M‖
_SETTLED = 3e-16


class Gauss(NamedTuple):
    """s points in [0, 1], and what the values there tell of the polynomial through them."""

    points: Float[Array, " s"]
    integrals: Float[Array, "s s"]  # up to each point
    weights: Float[Array, " s"]  # up to 1
    coefficients: Float[Array, "s s"]  # of Legendre's polynomials in [−1, 1]


@cache
def gauss(stages: int) -> Gauss:
    from numpy.polynomial import legendre  # here, to keep `import lazyrich` quick

    x, weights = legendre.leggauss(stages)
    coefficients = (2 * np.arange(stages) + 1)[:, None] / 2 * legendre.legvander(x, stages - 1).T * weights
    return Gauss((x + 1) / 2, _integrals(x, stages) @ coefficients, weights / 2, coefficients)


def _integrals(x: Float[Array, " n"], stages: int) -> Float[Array, "n s"]:
    """∫ of each Legendre polynomial from the start of [0, 1] up to some points, which are given in [−1, 1]:
    (P_{j+1} − P_{j−1})/(2j + 1), with P_{−1} = −1."""
    from numpy.polynomial import legendre

    P = legendre.legvander(x, stages)
    before = np.concatenate([-np.ones((len(P), 1)), P[:, : stages - 1]], axis=1)
    return (P[:, 1:] - before) / (4 * np.arange(stages) + 2)


def solved(M: Float[Array, "s a a"], H: float) -> tuple[Float[Array, "s a a"], float]:
    """Ẏ at the points of a step of length H from Y = I, and the size of its last Legendre coefficient, times H."""
    rule, (stages, a, _) = gauss(len(M)), M.shape
    M = np.ascontiguousarray(M)
    slopes, Y, new = M.copy(), np.empty(M.shape), np.empty(M.shape)
    for _ in range(_PICARD):
        np.matmul(H * rule.integrals, slopes.reshape(stages, -1), out=Y.reshape(stages, -1))
        Y.reshape(stages, -1)[:, :: a + 1] += 1.0
        np.matmul(M, Y, out=new)
        slopes -= new
        settled = max(slopes.max(), -slopes.min()) * H <= _SETTLED
        slopes, new = new, slopes
        if settled:
            break
    last = rule.coefficients[-2:] @ slopes.reshape(stages, -1)
    return slopes, H * float(np.abs(last).max())


def between(slopes: Float[Array, "s a a"], share: float) -> Float[Array, "a a"]:
    """Y − I at a share of the step, in units of its length."""
    stages = len(slopes)
    weights = _integrals(np.array([2 * share - 1]), stages)[0] @ gauss(stages).coefficients
    return (weights @ slopes.reshape(stages, -1)).reshape(slopes.shape[1:])
