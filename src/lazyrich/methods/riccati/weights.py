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

from lazyrich._progress import progress
from lazyrich._threads import one_blas_thread
from lazyrich._typing import Array, Float
from lazyrich.methods.riccati.grading import Graded

_HALVINGS = 3
_TOLERANCE = 1e-12  # on Ω, per step
_REACH = 100.0  # largest w⁺·H: nothing overflows
_CONDITION = 1e4  # largest condition number of S


def follow(graded: Graded, times: Float[Array, " T"]) -> Float[Array, "T n h"]:
    """Q(t) in the coordinates of the canonical problem, times not decreasing."""
    state = _State(graded)
    Q = np.empty((len(times), len(graded.L), graded.rows.shape[1]))
    with one_blas_thread(), progress(len(times), "weights") as advance:
        for i, t in enumerate(times):
            state.advance(float(t))
            Q[i] = graded.spectrum.to_coordinates(state.rows() @ graded.rows)
            advance(1)
    return Q


class _State:
    """P(t), without the rows that have settled and the hidden directions these have taken."""

    def __init__(self, graded: Graded) -> None:
        n, k = graded.L.shape
        self.P, self.w, self.now, self.H = graded.L.copy(), graded.spectrum.w.copy(), 0.0, np.inf
        self.settled = np.zeros((n, k))  # rows set aside, in the full hidden basis
        self.active, self.frame = np.arange(n), np.eye(k)  # remaining rows, and hidden directions as rows
        self.graded = graded

    def rows(self) -> Float[Array, "n k"]:
        full = self.settled.copy()
        full[self.active] = self.P @ self.frame
        return full

    def advance(self, t: float) -> None:
        """Steps to time t, each as long as its last correction to Ω allows."""
        while self.now < t and self.P.size:
            fastest = float(np.max(self.w, initial=0.0))
            typical = 1.0 / (np.linalg.norm(self.P, 2) ** 2 + np.abs(self.w).max() + np.finfo(float).tiny)
            self.H = min(self.H if np.isfinite(self.H) else typical, _REACH / fastest if fastest > 0 else np.inf)
            length = min(self.H, t - self.now)
            moved, error = _step(self.P, self.w, length)
            factor = 0.9 * (_TOLERANCE / max(error, 1e-30)) ** (1 / (2 * _HALVINGS + 3))
            if error > 4 * _TOLERANCE and length > 1e-6 * typical:
                self.H = length * max(0.2, factor)
                continue
            self.P, self.now = moved, self.now + length
            if length == self.H or factor < 1:
                self.H = length * min(4.0, max(0.2, factor))
            self._hold_missed()
            self._set_aside()
            if _at_rest(self.P, self.w):
                break
        self.now = t

    def _hold_missed(self) -> None:
        """A row on the separatrix stays made of those above it, P_i = Σ c_j e^{(w_i − w_j)t} P_j."""
        graded = self.graded
        for i in graded.missed[np.isin(graded.missed, self.active)]:
            above = graded.pivots[graded.pivots < i]
            c = np.linalg.solve(graded.L[above, : len(above)].T, graded.L[i, : len(above)])
            weight = c * np.exp((graded.spectrum.w[i] - graded.spectrum.w[above]) * self.now)
            self.P[self.active == i] = weight @ self.rows()[above] @ self.frame.T

    def _set_aside(self) -> None:
        missed = np.isin(self.active, self.graded.missed)
        rows = _settled(self.P, self.w, missed)
        if rows == 0:
            return
        lead = self.P[:rows]
        self.settled[self.active[:rows]] = lead @ self.frame
        taken = lead[~missed[:rows]]
        free = np.linalg.qr(taken.T, mode="complete")[0][:, len(taken) :].T  # what the settled rows leave free
        self.P, self.active, self.w = self.P[rows:] @ free.T, self.active[rows:], self.w[rows:]
        self.frame = free @ self.frame


def _step(P: Float[Array, "n k"], w: Float[Array, " n"], H: float) -> tuple[Float[Array, "n k"], float]:
    """One extrapolated step, and the size of its last correction to Ω."""
    values, vectors = _gram_of_growth(P, w, H)
    if values.max() > _CONDITION * values.min():
        return P, np.inf
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


def _settled(P: Float[Array, "n k"], w: Float[Array, " n"], missed: Array) -> int:
    """How many leading rows have reached 2w, or have gone for ever, and touch none of the others, up to rounding."""
    if not (w > 0).any():
        return 0
    gram = P @ P.T
    length = np.sqrt(np.diag(gram))
    small = 1e-15 * np.sqrt(2 * w[0])
    coupling = np.where(length[:, None] > small, np.abs(gram) / np.maximum(length[:, None] * length, 1e-300), 0.0)
    coupling[:, length <= small] = 0.0
    np.fill_diagonal(coupling, 0.0)
    done = (w > 0) & ((np.abs(np.diag(gram) - 2 * w) <= 1e-13 * w) | (missed & (length <= small)))
    for rows in range(int(np.argmin(np.append(done, False))), 0, -1):
        if coupling[rows:, :rows].max(initial=0.0) <= 1e-14 and coupling[:rows, :rows].max(initial=0.0) <= 1e-13:
            return rows
    return 0


def _at_rest(P: Float[Array, "n k"], w: Float[Array, " n"]) -> bool:
    """No row moves any more, relative to itself, but those that are below rounding and fall."""
    velocity = w[:, None] * P - 0.5 * (P @ P.T) @ P
    length, speed = np.linalg.norm(P, axis=1), np.linalg.norm(velocity, axis=1)
    falling = (np.sum(P * velocity, axis=1) <= 0) & (length <= 1e-16 * length.max(initial=0.0))
    return bool(np.all((speed <= 1e-14 * np.abs(w).max(initial=0.0) * length) | falling))
