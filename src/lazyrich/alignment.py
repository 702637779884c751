"""Do start and task share their singular vectors? Then the modes evolve alone.

Two layers, in the basis Σyx = U diag(s) Vᵀ, with p_α = W1 v_α and q_α = W2ᵀ u_α: if all p are orthogonal,
all q are orthogonal, and q_α ⟂ p_β for α ≠ β, then this stays so, and each a_α = q_α·p_α follows an
equation of its own. Inputs may be correlated as long as Σxx has the same v_α. Where singular values
coincide, U and V are free up to a rotation, and the one that fits the start is chosen.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from lazyrich._typing import Array, Float

__all__ = ["Alignment", "align", "equal_groups"]

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Alignment:
    """Full orthogonal U and V, and per mode: singular value s, start a, input variance d, ‖p‖², ‖q‖²."""

    U: Float[Array, "out out"]
    V: Float[Array, "in in"]
    s: Float[Array, " m"]
    a: Float[Array, " m"]
    d: Float[Array, " m"]
    p2: Float[Array, " m"]
    q2: Float[Array, " m"]
    error: float  # largest coupling between different modes, relative


def align(
    sigma_yx: Float[Array, "out in"],
    sigma_xx: Float[Array, "in in"],
    W: Float[Array, "out in"],
    G1: Float[Array, "in in"],
    G2: Float[Array, "out out"],
) -> Alignment:
    """The singular basis of Σyx that fits W = W2W1, G1 = W1ᵀW1 and G2 = W2W2ᵀ best, and how well it does."""
    U, s, Vt = np.linalg.svd(sigma_yx)
    V = Vt.T
    s = np.where(s > max(sigma_yx.shape) * _EPS * s[0], s, 0.0)
    rank = int(np.count_nonzero(s))
    unit = [M / size if (size := np.linalg.norm(M)) else M for M in (W, G1, G2, sigma_xx)]
    for group in equal_groups(s[:rank]):
        if group.stop - group.start > 1:
            u, v = U[:, group], V[:, group]
            # a generic mixture: whatever rotation makes all four diagonal makes this diagonal, and the other way round
            mixture = (
                u.T @ unit[0] @ v + 0.618 * v.T @ unit[1] @ v + 0.382 * u.T @ unit[2] @ u + 0.27 * v.T @ unit[3] @ v
            )
            R = np.linalg.eigh((mixture + mixture.T) / 2)[1]
            U[:, group], V[:, group] = u @ R, v @ R
    if rank < max(U.shape[0], V.shape[0]):  # unlearned directions: left and right turn independently
        left, _, rightt = np.linalg.svd(U[:, rank:].T @ W @ V[:, rank:])
        U[:, rank:], V[:, rank:] = U[:, rank:] @ left, V[:, rank:] @ rightt.T
    A, g1, g2, x = U.T @ W @ V, V.T @ G1 @ V, U.T @ G2 @ U, V.T @ sigma_xx @ V
    m = len(s)
    a = np.diag(A).copy()
    inert = (s == 0) & (np.abs(a) <= 64 * _EPS * max(np.abs(a).max(), 0.0))
    sizes = [float(np.linalg.norm(M)) for M in (A, g1, g2, x)]
    sizes[0] = max(sizes[0], float(np.sqrt(sizes[1] * sizes[2])))  # where q ⟂ p, A is rounding
    error = max(_off_diagonal(M, inert, size) for M, size in zip((A, g1, g2, x), sizes, strict=True))
    d = np.diag(x)[:m].copy()
    d[d <= 16 * len(x) * _EPS * np.abs(d).max(initial=0.0)] = 0.0  # inputs that never come
    return Alignment(U, V, s, a, d, np.diag(g1)[:m].copy(), np.diag(g2)[:m].copy(), error)


def equal_groups(values: Float[Array, " m"]) -> list[slice]:
    """Runs of equal values in a sorted vector, where equal means up to rounding of the largest."""
    if len(values) == 0:
        return []
    cutoff = 8 * np.sqrt(len(values)) * _EPS * np.abs(values).max()
    edges = [0, *(np.flatnonzero(np.abs(np.diff(values)) > cutoff) + 1), len(values)]
    return [slice(int(i), int(j)) for i, j in itertools.pairwise(edges)]


def _off_diagonal(M: Float[Array, "n n2"], inert: Array, size: float) -> float:
    """Largest coupling between two modes of which one at least moves, relative to `size`."""
    if size == 0:
        return 0.0
    rows, columns = (np.pad(~inert, (0, n - len(inert))) for n in M.shape)
    coupled = (rows[:, None] | columns[None, :]) & (np.eye(*M.shape) == 0)
    return float(np.abs(M[coupled]).max() / size) if coupled.any() else 0.0
