"""Random problems within given conditions, in plain NumPy: targets, data, and initialisations of every balance.

Sizes are small and scales of order one, so that an oracle follows the whole course of learning in a fraction of a
second. Nothing is imported from the rest of lazyrich.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]
Rng = np.random.Generator


def orthogonal(rng: Rng, n: int, m: int | None = None) -> Array:
    """n × m with orthonormal columns (m ≤ n; n if None), uniformly drawn."""
    m = n if m is None else m
    Q, R = np.linalg.qr(rng.normal(size=(n, n)))
    return (Q * np.sign(np.diag(R)))[:, :m]


def target(rng: Rng, d_out: int, d_in: int, s: ArrayLike | None = None) -> tuple[Array, Array, Array, Array]:
    """Σyx = U diag(s) Vᵀ, and its U, s, V. Singular values, unless given, between 0.5 and 3 and at least 0.2 apart."""
    m = min(d_out, d_in)
    if s is None:
        gaps = rng.uniform(0.2, 0.2 + 1.5 / m, size=m)
        s = np.cumsum(gaps)[::-1] + 0.3
    values = np.asarray(s, dtype=float)
    U, V = orthogonal(rng, d_out, len(values)), orthogonal(rng, d_in, len(values))
    return U @ np.diag(values) @ V.T, U, values, V


def white_data(rng: Rng, samples: int, d_in: int, d_out: int) -> tuple[Array, Array]:
    """Inputs with mean xxᵀ = I and Gaussian targets; rows are samples."""
    X = orthogonal(rng, samples, d_in) * np.sqrt(samples)
    return X, rng.normal(size=(samples, d_out))


def gaussian(rng: Rng, sizes: Sequence[int], scale: float = 0.5) -> list[Array]:
    """Layers of independent normal weights, first layer first; sizes as (8, 14, 8). Not balanced."""
    return [scale * rng.normal(size=(n, m)) for m, n in pairwise(sizes)]


def balanced(rng: Rng, sizes: Sequence[int], scale: float = 0.5) -> list[Array]:
    """Zero-balanced layers of any number, W_{ℓ+1}ᵀW_{ℓ+1} = W_ℓW_ℓᵀ, with random singular vectors and random values."""
    rank = min(sizes)
    values = scale * rng.uniform(0.5, 1.5, size=rank)
    bases = [orthogonal(rng, n, rank) for n in sizes]
    return [above @ np.diag(values) @ below.T for below, above in pairwise(bases)]


def lambda_balanced(rng: Rng, d_in: int, h: int, d_out: int, lam: float, scale: float = 0.5) -> list[Array]:
    """Two layers with W2ᵀW2 − W1W1ᵀ = λI, h ≤ d_out for λ > 0 and h ≤ d_in for λ < 0."""
    if (lam > 0 and h > d_out) or (lam < 0 and h > d_in):
        raise ValueError(f"λ = {lam} with h = {h} needs h ≤ {d_out if lam > 0 else d_in}")
    small = np.zeros(h)
    rank = min(h, d_in, d_out)
    small[:rank] = scale * rng.uniform(0.5, 1.5, size=rank)
    first, second = (np.sqrt(small**2 + max(sign * lam, 0.0)) for sign in (-1, 1))
    R = orthogonal(rng, h)
    U, V = orthogonal(rng, d_out), orthogonal(rng, d_in)
    W1, W2 = np.zeros((h, d_in)), np.zeros((d_out, h))
    np.fill_diagonal(W1, first)
    np.fill_diagonal(W2, second)
    return [R @ W1 @ V.T, U @ W2 @ R.T]


def aligned(rng: Rng, U: Array, V: Array, a0: ArrayLike, sizes: Sequence[int]) -> list[Array]:
    """Balanced layers whose product is U diag(a0) Vᵀ: every layer has the singular values a0^{1/L}."""
    strengths, depth = np.asarray(a0, dtype=float), len(sizes) - 1
    bases = [V, *(orthogonal(rng, n, len(strengths)) for n in sizes[1:-1]), U]
    root = np.diag(strengths ** (1 / depth))
    return [above @ root @ below.T for below, above in pairwise(bases)]
