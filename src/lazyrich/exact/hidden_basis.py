"""The weights along an exact trajectory, in the hidden basis they were given in (theory: end of section 1).

QQᵀ(t) leaves the rotation of the hidden units open. In the eigenbasis of F, with P = OᵀQ, one step of
length H,

    P ← e^{wH} P S^{−½} Ω,     S = I + Pᵀ diag(∫₀ᴴ e^{2ws} ds) P,     Ω orthogonal,

has the exact Gram matrix for every Ω, and Ω = I + O(H³). The step is symmetric in time, so halving it and
extrapolating gains two orders each time: three halvings give Ω to order eight. Directions that have
saturated and decoupled are set aside, which lets the steps grow with the time that is left.
"""

from __future__ import annotations

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.exact.graded import Graded

__all__ = ["follow"]

_HALVINGS = 3
_TOLERANCE = 1e-12  # on Ω, per step
_REACH = 5.0  # largest w⁺·H: S is conditioned by e^{2wH}


def follow(graded: Graded, times: Float[Array, " T"]) -> Float[Array, "T n h"]:
    """Q(t) in the coordinates of the canonical problem, times not decreasing."""
    F = graded.spectrum
    P, w = graded.L.copy(), F.w.copy()
    n, k = P.shape
    still = np.zeros((n, k))  # rows set aside, in the full hidden basis
    active, frame = np.arange(n), np.eye(k)  # remaining rows; remaining hidden directions as rows
    Q = np.empty((len(times), n, graded.rows.shape[1]))
    now, H = 0.0, np.inf
    for i, t in enumerate(times):
        while now < t and P.size:
            fastest = max(float(np.max(w, initial=0.0)), 0.0)
            longest = _REACH / fastest if fastest > 0 else np.inf
            slowest = 1.0 / (np.linalg.norm(P, 2) ** 2 + np.abs(w).max(initial=0.0) + np.finfo(float).tiny)
            H = min(H if np.isfinite(H) else slowest, longest)
            length = min(H, t - now)
            moved, error = _step(P, w, length)
            factor = 0.9 * (_TOLERANCE / max(error, 1e-30)) ** (1 / (2 * _HALVINGS + 3))
            if error > 4 * _TOLERANCE and length > 1e-6 * slowest:
                H = length * max(0.2, factor)
                continue
            P, now = moved, now + length
            if length == H or factor < 1:
                H = length * min(4.0, max(0.2, factor))
            settled = _settled(P, w)
            if settled:
                still[active[:settled]] = P[:settled] @ frame
                P, kept = _set_aside(P, settled)
                active, w, frame = active[settled:], w[settled:], kept @ frame
        now = float(t)
        full = still.copy()
        full[active] = P @ frame
        Q[i] = F.to_coordinates(full @ graded.rows)
    return Q


def _step(P: Float[Array, "n k"], w: Float[Array, " n"], H: float) -> tuple[Float[Array, "n k"], float]:
    """One extrapolated step, and the size of its last correction to Ω."""
    values, vectors = _gram_of_growth(P, w, H)
    root, inverse_root = (vectors * np.sqrt(values)) @ vectors.T, (vectors / np.sqrt(values)) @ vectors.T
    table = [np.eye(len(values))]
    error = np.inf
    for halving in range(1, _HALVINGS + 1):
        pieces = 2**halving
        M, state = np.eye(len(values)), P
        for _ in range(pieces):
            sub_values, sub_vectors = _gram_of_growth(state, w, H / pieces)
            S = (sub_vectors / np.sqrt(sub_values)) @ sub_vectors.T
            M, state = M @ S, np.exp(w * (H / pieces))[:, None] * (state @ S)
        row = [root @ M]
        for order in range(halving):
            row.append(row[order] + (row[order] - table[order]) / (4 ** (order + 1) - 1))
        error = float(np.abs(row[-1] - row[-2]).max(initial=0.0))
        table = row
        if error < 0.01 * _TOLERANCE:
            break
    U, _, Vt = np.linalg.svd(table[-1])
    return np.exp(w * H)[:, None] * (P @ inverse_root @ (U @ Vt)), error


def _gram_of_growth(
    P: Float[Array, "n k"], w: Float[Array, " n"], H: float
) -> tuple[Float[Array, " k"], Float[Array, "k k"]]:
    """Eigenvalues and eigenvectors of S = I + Pᵀ diag(∫₀ᴴ e^{2ws} ds) P."""
    g = np.where(w == 0, H, np.expm1(2 * w * H) / np.where(w == 0, 1.0, 2 * w))
    values, vectors = np.linalg.eigh(P.T @ (g[:, None] * P))
    return 1 + np.maximum(values, 0.0), vectors


def _settled(P: Float[Array, "n k"], w: Float[Array, " n"]) -> int:
    """How many leading rows have reached 2w and are orthogonal to all the others, up to rounding."""
    if not (w > 0).any():
        return 0
    gram = P @ P.T
    length = np.sqrt(np.diag(gram))
    small = 1e-15 * np.sqrt(2 * w[0])
    coupling = np.where(length[:, None] > small, np.abs(gram) / np.maximum(length[:, None] * length, 1e-300), 0.0)
    np.fill_diagonal(coupling, 0.0)
    done = (w > 0) & (np.abs(np.diag(gram) - 2 * w) <= 1e-13 * w)
    for rows in range(min(int(np.argmin(np.append(done, False))), len(w)), 0, -1):
        lead = coupling[:rows, :rows]
        if coupling[rows:, :rows].max(initial=0.0) <= 1e-14 and lead.max(initial=0.0) <= 1e-13:
            return rows
    return 0


def _set_aside(P: Float[Array, "n k"], rows: int) -> tuple[Float[Array, "n2 k2"], Float[Array, "k2 k"]]:
    """The remaining rows, in the hidden directions that the settled ones leave free; and those directions."""
    free = np.linalg.qr(P[:rows].T, mode="complete")[0][:, rows:].T
    return P[rows:] @ free.T, free
