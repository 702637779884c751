"""Gradient flow of two linear layers in extended precision (80 bits, 18 digits), by extrapolated midpoint steps.

    Ẇ1 = η1 W2ᵀE,   Ẇ2 = η2 E W1ᵀ,   E = Σyx − W2W1

Bulirsch and Stoer's method with the step sequence 2, 4, …, 16 (order 16) and fixed large steps, each so short that
‖flow‖·H ≤ 1/8. Good to about 1e-17 of the weights over a few time units, so that float64 can be judged to its last
digits, from the very floats it was given.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.longdouble]
SEQUENCE = (2, 4, 6, 8, 10, 12, 14, 16)


def weights(
    weights0: Sequence[ArrayLike], sigma_yx: ArrayLike, times: ArrayLike, rates: Sequence[float] = (1.0, 1.0)
) -> list[list[Array]]:
    """W1 and W2 at each time, in extended precision; times from 0 on, not decreasing."""
    state = [np.asarray(W, dtype=np.longdouble) for W in weights0]
    S = np.asarray(sigma_yx, dtype=np.longdouble)
    now, states = 0.0, []
    for t in np.asarray(times, dtype=float):
        while now < t:
            size = float(np.sum(state[0] ** 2) + np.sum(state[1] ** 2) + np.sqrt(np.sum(S**2)))
            H = min(t - now, 0.125 / (max(rates) * size))
            state, now = _step(state, S, rates, np.longdouble(H)), now + H
        states.append(state)
    return states


def _slope(state: list[Array], S: Array, rates: Sequence[float]) -> list[Array]:
    W1, W2 = state
    E = S - W2 @ W1
    return [rates[0] * (W2.T @ E), rates[1] * (E @ W1.T)]


def _step(state: list[Array], S: Array, rates: Sequence[float], H: np.longdouble) -> list[Array]:
    table: list[list[Array]] = []
    for row, n in enumerate(SEQUENCE):
        h = H / n
        before = state
        here = [W + h * dW for W, dW in zip(state, _slope(state, S, rates), strict=True)]
        for _ in range(n - 1):
            slopes = _slope(here, S, rates)
            before, here = here, [W + 2 * h * dW for W, dW in zip(before, slopes, strict=True)]
        slopes = _slope(here, S, rates)
        new = [[(a + b + h * dW) / 2 for a, b, dW in zip(before, here, slopes, strict=True)]]
        for k in range(row):
            factor = (np.longdouble(n) / SEQUENCE[row - k - 1]) ** 2 - 1
            new.append([a + (a - b) / factor for a, b in zip(new[k], table[k], strict=True)])
        table = new
    return table[-1]
