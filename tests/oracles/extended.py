"""Gradient flow of linear layers in extended precision (80 bits, 18 digits), by extrapolated midpoint steps.

    Ẇ_ℓ = η_ℓ W_{L:ℓ+1}ᵀ E W_{ℓ−1:1}ᵀ,   E = Σyx − W_L…W_1

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
    weights0: Sequence[ArrayLike], sigma_yx: ArrayLike, times: ArrayLike, rates: Sequence[float] | None = None
) -> list[list[Array]]:
    """All layers at each time, in extended precision; times from 0 on, not decreasing."""
    state = [np.asarray(W, dtype=np.longdouble) for W in weights0]
    rates = [1.0] * len(state) if rates is None else rates
    S = np.asarray(sigma_yx, dtype=np.longdouble)
    now, states = 0.0, []
    for t in np.asarray(times, dtype=float):
        while now < t:
            H = min(t - now, 0.125 / (max(rates) * _speed(state, S)))
            state, now = _step(state, S, rates, np.longdouble(H)), now + H
        states.append(state)
    return states


def _speed(state: list[Array], S: Array) -> float:
    """A bound on how fast the flow changes: of two layers ‖W1‖² + ‖W2‖² + ‖S‖."""
    sizes = np.array([np.sqrt(float(np.sum(W**2))) for W in state])
    others = np.array([[np.prod(np.delete(sizes, [i, j])) for j in range(len(sizes))] for i in range(len(sizes))])
    return float(
        np.sum(np.diag(others) ** 2) + np.sqrt(float(np.sum(S**2))) * others.max(where=_apart(others), initial=0)
    )


def _apart(M: NDArray[np.float64]) -> NDArray[np.bool_]:
    return ~np.eye(len(M), dtype=bool)


def _slope(state: list[Array], S: Array, rates: Sequence[float]) -> list[Array]:
    below = [np.eye(state[0].shape[1], dtype=np.longdouble)]
    for W in state:
        below.append(W @ below[-1])
    pulled, slopes = S - below[-1], []
    for W, before, rate in zip(reversed(state), reversed(below[:-1]), reversed(list(rates)), strict=True):
        slopes.append(rate * (pulled @ before.T))
        pulled = W.T @ pulled
    return slopes[::-1]


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
