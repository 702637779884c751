"""The set-up of the two-layer closed form: spectrum of F, and the start in row echelon form. Done once, not
per time.

    Q = [W1ᵀ; W2],   F = [[−λ/2 I, Σᵀ], [Σ, λ/2 I]] − γI = O diag(w) Oᵀ,   P = OᵀQ(0)

The eigenvectors come from the singular vectors of Σ: mode α gives the pair ±√(s² + λ²/4), directions
outside the singular spaces give ∓λ/2 (inputs, outputs). With w in falling order, the rows of P are
orthonormalised from the top,

    P = L · (orthonormal rows),   L of shape (n, k),  k = rank,  column j zero above its pivot row.

A row whose new part is at rounding level adds no column: the start lies on the separatrix of that
direction, and by leaving the column out the solution stays on it exactly. The pivots with w > 0 are the
directions that will be learned (theory: sections 1 and 2). Hidden units beyond k, and their rotation, have
dropped out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.alignment import equal_groups

__all__ = ["Graded", "Spectrum", "grade", "resume", "spectrum"]

_EPS = float(np.finfo(np.float64).eps)
_SMALLEST = 1e-140  # what is smaller has no square


class Spectrum(NamedTuple):
    """F = O diag(w) Oᵀ, with w falling and O kept by its structure.

    Rows come in this order: +w of each mode (a·v + b·u), the unpaired directions with +|λ|/2, those with
    −|λ|/2, and −w of each mode (b·v − a·u) from the weakest to the strongest.
    """

    U: Float[Array, "out out"]
    s: Float[Array, " m"]
    V: Float[Array, "in in"]
    w: Float[Array, " n"]
    a: Float[Array, " m"]
    b: Float[Array, " m"]
    outputs_first: bool  # which unpaired directions have +|λ|/2

    def unpaired(self) -> tuple[slice, slice]:
        """Where the input and output directions without a partner stand."""
        m, d_in, d_out = len(self.s), len(self.V), len(self.U)
        if self.outputs_first:
            return slice(d_out, d_in + d_out - m), slice(m, d_out)
        return slice(m, d_in), slice(d_in, d_in + d_out - m)

    def to_modes(self, rows: Float[Array, "n k"]) -> tuple[Float[Array, "in k"], Float[Array, "out k"]]:
        """From eigenvector coordinates to the coordinates v_α (inputs) and u_α (outputs)."""
        m = len(self.s)
        a, b, plus, minus = self.a[:, None], self.b[:, None], rows[:m], rows[len(rows) - m :][::-1]
        alone_in, alone_out = self.unpaired()
        return (
            np.concatenate([a * plus + b * minus, rows[alone_in]]),
            np.concatenate([b * plus - a * minus, rows[alone_out]]),
        )

    def to_coordinates(self, rows: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """O @ rows."""
        inputs, outputs = self.to_modes(rows)
        return np.concatenate([self.V @ inputs, self.U @ outputs])

    def from_coordinates(self, Q: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """OᵀQ."""
        m = len(self.s)
        a, b, inputs, outputs = (
            self.a[:, None],
            self.b[:, None],
            self.V.T @ Q[: len(self.V)],
            self.U.T @ Q[len(self.V) :],
        )
        unpaired = [outputs[m:], inputs[m:]] if self.outputs_first else [inputs[m:], outputs[m:]]
        return np.concatenate([a * inputs[:m] + b * outputs[:m], *unpaired, (b * inputs[:m] - a * outputs[:m])[::-1]])


@dataclass(frozen=True)
class Graded:
    """The start in the eigenbasis of F, in row echelon form."""

    spectrum: Spectrum
    L: Float[Array, "n k"]
    pivots: Array  # (k,): the row where each column starts
    rows: Float[Array, "k h"]  # the orthonormal rows: P = L @ rows
    missed: Array  # rows with w > 0 that the start cannot reach: the separatrix
    novelty: Float[Array, " r"]  # part of each row with w > 0 that is new, relative to the longest row

    @property
    def separatrix_distance(self) -> float:
        """Smallest relative new part among the rows that could be learned; rounding level on the
        separatrix."""
        return float(self.novelty.min(initial=1.0))


def spectrum(
    U: Float[Array, "out out"], s: Float[Array, " m"], V: Float[Array, "in in"], lam: float, decay: float = 0.0
) -> Spectrum:
    """Eigenvalues and eigenvectors of F from the full SVD of the target; no dense eigensolver."""
    d_out, d_in, s = len(U), len(V), s.copy()
    for group in equal_groups(s):  # equal up to rounding means equal: at t = 1e12 the difference would show
        s[group] = s[group].mean()
    m = len(s)
    w = np.hypot(s, lam / 2)
    r = w + abs(lam) / 2
    norm = np.hypot(s, r)
    weak, strong = np.full(m, np.sqrt(0.5)), np.full(m, np.sqrt(0.5))
    np.divide(s, norm, out=weak, where=norm > 0)
    np.divide(r, norm, out=strong, where=norm > 0)
    a, b = (weak, strong) if lam >= 0 else (strong, weak)  # with λ > 0, +w leans on the outputs
    first, second = (d_out - m, d_in - m) if lam >= 0 else (d_in - m, d_out - m)
    w = np.concatenate([w, np.full(first, abs(lam) / 2), np.full(second, -abs(lam) / 2), -w[::-1]])
    return Spectrum(U, s, V, w - decay, a, b, lam >= 0)


def grade(
    Q0: Float[Array, "n h"],
    F: Spectrum,
    *,
    eps: float = _EPS,
    eps_task: float = _EPS,
    push: float = 0.0,
) -> Graded:
    """Row echelon form of the start; `push` moves rows that lie on the separatrix off it, relative to
    ‖Q0‖."""
    back = np.eye(Q0.shape[1])
    if Q0.shape[1] > len(Q0):  # a wide hidden layer: keep the directions that the weights use
        back, R = np.linalg.qr(Q0.T)
        Q0, back = R.T, back.T
    P = F.from_coordinates(Q0)
    size = float(np.linalg.norm(P))
    L, rows, pivots, missed, novelty = _echelon(P, F.w, _rounding(P, F.w, size, eps, eps_task), push * size)
    return Graded(F, L, pivots, rows @ back, missed, novelty)


def resume(graded: Graded, P: Float[Array, "n k"]) -> Graded:
    """The same problem from another state, given in the eigenbasis of F."""
    cutoff = np.zeros(len(P))
    cutoff[graded.missed] = np.inf  # what was missed stays missed
    L, rows, pivots, missed, novelty = _echelon(P, graded.spectrum.w, cutoff, 0.0)
    return Graded(graded.spectrum, L, pivots, rows @ graded.rows, missed, novelty)


def _rounding(
    P: Float[Array, "n h"], w: Float[Array, " n"], size: float, eps: float, eps_task: float
) -> Float[Array, " n"]:
    """What rounding can add to each row that the rows above do not have.

    Its own rounding, and parts of rows below: eigenvectors are turned into each other by eps·‖F‖/(w_i − w_j). Values
    too close for that count as one group: only its span is certain, and that does not turn.
    """
    lengths, largest = np.linalg.norm(P, axis=1), np.abs(w).max(initial=0.0)
    gap = np.triu(w[:, None] - w, 1)
    apart = gap > max(1e-9, 1e4 * eps_task) * largest
    turned = np.where(apart, lengths / np.where(apart, gap, 1.0), 0.0).max(axis=1, initial=0.0)
    return np.maximum(16 * (eps * size + np.sqrt(len(P)) * eps_task * largest * turned), _SMALLEST)


def _echelon(
    P: Float[Array, "n h"], w: Float[Array, " n"], cutoff: Float[Array, " n"], push: float
) -> tuple[Float[Array, "n k"], Float[Array, "k h"], Array, Array, Float[Array, " r"]]:
    """Gram–Schmidt with re-orthogonalisation, row by row; Householder where no row is dependent."""
    n, h = P.shape
    lengths = np.linalg.norm(P, axis=1)
    if h <= n:
        basis, R = np.linalg.qr(P.T)
        new = np.abs(np.diag(R))
        if np.all(new > 8 * cutoff[:h]) and np.all(new > 1e-6 * lengths[:h]):
            L = np.tril(R.T)
            return L, basis.T, np.arange(h), np.empty(0, dtype=int), (new / lengths.max())[w[:h] > 0]
    basis, L = np.zeros((h, h)), np.zeros((n, h))
    pivots: list[int] = []
    missed: list[int] = []
    novelty: list[float] = []
    for i, row in enumerate(P):
        k = len(pivots)
        rest = row.copy()
        for _ in range(2):
            overlap = basis[:k] @ rest
            rest -= overlap @ basis[:k]
            L[i, :k] += overlap
        if k == h:
            continue
        length = float(np.linalg.norm(rest))
        # a row that cannot grow is no matter of the separatrix: it is kept as far as its digits go
        dependent = length <= (cutoff[i] if w[i] > 0 else max(64 * _EPS * lengths[i], _SMALLEST))
        if not dependent and w[i] > 0 and length < 1e-6 * lengths[i]:
            # rounding of the rows above counts as often as this row is made of them
            parts = np.linalg.solve(L[pivots, :k].T, L[i, :k])
            dependent = length <= cutoff[i] + np.abs(parts) @ cutoff[pivots]
        if w[i] > 0:
            novelty.append(length / float(lengths.max()) if length else 0.0)
        if dependent:
            if w[i] <= 0:
                continue
            missed.append(i)
            if push == 0.0:
                continue
            rest, length = push * _fresh_direction(P[i + 1 :], basis[:k], float(cutoff.max())), push
        basis[k], L[i, k] = rest / length, length
        pivots.append(i)
    k = len(pivots)
    left = [] if push else missed
    return L[:, :k], basis[:k], np.array(pivots, dtype=int), np.array(left, dtype=int), np.array(novelty)


def _fresh_direction(rows: Float[Array, "r h"], basis: Float[Array, "k h"], cutoff: float) -> Float[Array, " h"]:
    """A hidden direction orthogonal to those used so far: one that later rows have, or any other."""
    for candidates in (rows, np.eye(basis.shape[1])):
        rest = candidates - (candidates @ basis.T) @ basis
        rest -= (rest @ basis.T) @ basis
        lengths = np.linalg.norm(rest, axis=1)
        if len(lengths) and lengths.max() > 8 * cutoff:
            return rest[np.argmax(lengths)] / lengths.max()
    raise AssertionError("unreachable: k < h leaves a direction")
