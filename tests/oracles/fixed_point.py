"""Gradient flow of two linear layers by Taylor series in fixed-point integers, good to 30 digits, for sizes of a dozen.

    Ẇ1 = η1 W2ᵀE,   Ẇ2 = η2 E W1ᵀ,   E = Σyx − W2W1 Σxx

It knows the weights and the differential equation, and nothing of any solution. Numbers are integers, 2^BITS to the
unit: NumPy multiplies matrices of them, one for each sum over powers of time, some ten times as fast as mpmath does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

BITS = 160
ORDER = 36
Integers = NDArray[np.object_]


def weights(
    weights0: Sequence[ArrayLike],
    sigma_yx: ArrayLike,
    times: ArrayLike,
    *,
    rates: Sequence[float] = (1.0, 1.0),
    sigma_xx: ArrayLike | None = None,
) -> list[list[Integers]]:
    """W1 and W2 at each time, as integers, from floats or such integers; times from 0 on, not decreasing."""
    W1, W2 = (W if isinstance(W, np.ndarray) and W.dtype == object else to_integers(W) for W in weights0)
    Sigma = to_integers(sigma_yx)
    Sxx = None if sigma_xx is None else to_integers(sigma_xx)
    now, states = 0, []
    for t in to_integers(times):
        while now < t:
            (W1, W2), H = _step(W1, W2, Sigma, Sxx, rates, t - now)
            now += H
        states.append([W1, W2])
    return states


def to_integers(M: ArrayLike) -> Integers:
    """Floats, without any rounding that matters: they have 52 bits, and the unit has 160."""
    return np.vectorize(_integer, otypes=[object])(np.asarray(M, dtype=float))


def as_float(M: Any) -> NDArray[np.float64]:
    return np.vectorize(lambda x: x / 2**BITS, otypes=[float])(M)


def gram(state: Sequence[Integers]) -> Integers:
    """QQᵀ with Q = [W1ᵀ; W2]."""
    Q = np.concatenate([state[0].T, state[1]])
    return (Q @ Q.T) >> BITS


def _integer(x: float) -> int:
    numerator, denominator = float(x).as_integer_ratio()
    return (numerator << BITS) // denominator


def _step(W1: Integers, W2: Integers, Sigma: Integers, Sxx: Integers | None, rates: Any, left: int) -> Any:
    """The series in powers of t/unit, summed where its last terms are below 35 digits, but not beyond `left`."""
    sizes = [float(np.linalg.norm(as_float(M), 2)) for M in (W1, W2, Sigma)]
    unit = 1 / (max(rates) * (sizes[0] ** 2 + sizes[1] ** 2 + sizes[2]) or 1.0)
    h1, h2 = (_integer(rate) * _integer(unit) >> BITS for rate in rates)
    X, Y, Es = [W1], [W2], []
    for k in range(ORDER):
        A = _convolve(Y, X)
        A = A if Sxx is None else (A @ Sxx) >> BITS
        Es.append(Sigma - A if k == 0 else -A)
        dX, dY = _convolve([y.T for y in Y], Es), _convolve(Es, [x.T for x in X])
        X.append(((h1 * dX) >> BITS) // (k + 1))
        Y.append(((h2 * dY) >> BITS) // (k + 1))
    last = max(float(np.abs(as_float(M)).max()) ** (1 / k) for k in (ORDER - 1, ORDER) for M in (X[k], Y[k]))
    H = min(left, _integer(unit * 1e-35 ** (1 / ORDER) / last)) if last else left
    theta = (H << BITS) // _integer(unit)
    return [_horner(M, theta) for M in (X, Y)], H


def _horner(series: Sequence[Integers], theta: int) -> Integers:
    total = series[-1]
    for M in series[-2::-1]:
        total = M + ((theta * total) >> BITS)
    return total


def _convolve(left: Sequence[Integers], right: Sequence[Integers]) -> Integers:
    """Σ left_i right_{k−i}, as one product of long matrices."""
    return (np.concatenate(left, axis=1) @ np.concatenate(right[::-1], axis=0)) >> BITS
