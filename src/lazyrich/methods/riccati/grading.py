"""The set-up of the two-layer closed form: spectrum of F, and the initialisation in row echelon form. Done once, not
per time.

    Q = [W1ᵀ; W2],   F = [[−λ/2 I, Σᵀ], [Σ, λ/2 I]] − γI = O diag(w) Oᵀ,   P = OᵀQ(0)

The eigenvectors come from the singular vectors of Σ: mode α gives the pair ±√(s² + λ²/4), directions
outside the singular spaces give ∓λ/2 (inputs, outputs). With w in falling order, the rows of P are
orthonormalised from the top,

    P = L · (orthonormal rows),   L of shape (n, k),  k = rank,  column j zero above its pivot row.

A row whose new part rounding could have made (`rounding`) adds no column: the initialisation lies on the separatrix of
that direction, and by leaving the column out the solution stays on it exactly. What rounding cannot have made
counts, however small: an entry of 1e-15 in a diagonal matrix is what it is, and grows. The pivots with w > 0 are
the directions that will be learned (theory: sections 1 and 2). Hidden units beyond k, and their rotation, have
dropped out.

Spectrum, rounding and doubt take axes in front as well: many initialisations at once (`stacked`), whose own axis is
of length 1 where they share the task and λ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lazyrich._typing import Array, Float, Real
from lazyrich.alignment import equal_groups, lengths

_EPS = float(np.finfo(np.float64).eps)
_SAFETY = 8  # times what rounding does as a rule: singular vectors of another routine leave up to that much


class Spectrum(NamedTuple):
    """F = O diag(w) Oᵀ, with w falling and O kept by its structure.

    Rows come in this order: +w of each mode (a·v + b·u), the unpaired directions with +|λ|/2, those with
    −|λ|/2, and −w of each mode (b·v − a·u) from the weakest to the strongest.
    """

    U: Float[Array, "... out out"]
    s: Float[Array, "... m"]
    V: Float[Array, "... in in"]
    w: Float[Array, "... n"]
    a: Float[Array, "... m"]
    b: Float[Array, "... m"]
    outputs_first: bool  # which unpaired directions have +|λ|/2
    excess: Float[
        Array, "... n"
    ]  # w − |λ|/2 of the rows that grow, by s²/(w + |λ|/2): what tells them apart where |λ| ≫ s

    def of(self, members: Array | int) -> Spectrum:
        """Of some of a stack, or of one; what all share stays as it is."""

        def own(X: Array) -> Array:
            if len(X) > 1:
                return X[members]
            return X[0] if isinstance(members, int) else X

        U, s, V, w, a, b = (own(X) for X in (self.U, self.s, self.V, self.w, self.a, self.b))
        return Spectrum(U, s, V, w, a, b, self.outputs_first, own(self.excess))

    def rate_differences(self, columns: Array) -> Float[Array, "... n k"]:
        """w_i⁺ − w_j⁺ for all rows i and the rows j in `columns`, and 0 where that is positive."""
        return np.minimum(self.rates_apart(columns), 0.0)

    def rates_apart(self, columns: Array) -> Float[Array, "... n k"]:
        """w_i⁺ − w_j⁺, of either sign."""
        grows, w_plus, rows = self.w > 0, np.maximum(self.w, 0.0), (..., slice(None), None)
        both = grows[rows] & grows[..., None, columns]
        excess = self.excess[rows] - self.excess[..., None, columns]
        return np.where(both, excess, w_plus[rows] - w_plus[..., None, columns])

    def unpaired(self) -> tuple[slice, slice]:
        """Where the input and output directions without a partner stand."""
        m, d_in, d_out = self.s.shape[-1], self.V.shape[-1], self.U.shape[-1]
        if self.outputs_first:
            return slice(d_out, d_in + d_out - m), slice(m, d_out)
        return slice(m, d_in), slice(d_in, d_in + d_out - m)

    def vectors(self) -> Float[Array, "... n n"]:
        """O, as a matrix."""
        return self.to_coordinates(self._identity())

    def _identity(self) -> Float[Array, "... n n"]:
        n = self.w.shape[-1]
        return np.broadcast_to(np.eye(n), (*self.w.shape[:-1], n, n))

    def sizes_in_modes(self) -> tuple[Float[Array, "... n in"], Float[Array, "... n out"]]:
        """|coordinates| of the eigenvectors along v_α and u_α."""
        inputs, outputs = self.to_modes(self._identity())
        return np.abs(inputs).mT, np.abs(outputs).mT

    def to_modes(self, rows: Float[Array, "... n k"]) -> tuple[Float[Array, "... in k"], Float[Array, "... out k"]]:
        """From eigenvector coordinates to the coordinates v_α (inputs) and u_α (outputs)."""
        m, n = self.s.shape[-1], self.w.shape[-1]
        a, b, plus, minus = self.a[..., None], self.b[..., None], rows[..., :m, :], rows[..., n - m :, :][..., ::-1, :]
        alone_in, alone_out = self.unpaired()
        return (
            np.concatenate([a * plus + b * minus, rows[..., alone_in, :]], axis=-2),
            np.concatenate([b * plus - a * minus, rows[..., alone_out, :]], axis=-2),
        )

    def to_coordinates(self, rows: Float[Array, "... n k"]) -> Float[Array, "... n k"]:
        """O @ rows."""
        inputs, outputs = self.to_modes(rows)
        return np.concatenate([self.V @ inputs, self.U @ outputs], axis=-2)

    def from_coordinates(self, Q: Float[Array, "... n k"]) -> Float[Array, "... n k"]:
        """OᵀQ."""
        m, d_in, a, b = self.s.shape[-1], self.V.shape[-1], self.a[..., None], self.b[..., None]
        inputs, outputs = self.V.mT @ Q[..., :d_in, :], self.U.mT @ Q[..., d_in:, :]
        v, u, alone_in, alone_out = inputs[..., :m, :], outputs[..., :m, :], inputs[..., m:, :], outputs[..., m:, :]
        unpaired = [alone_out, alone_in] if self.outputs_first else [alone_in, alone_out]
        return np.concatenate([a * v + b * u, *unpaired, (b * v - a * u)[..., ::-1, :]], axis=-2)


@dataclass(frozen=True)
class Graded:
    """The initialisation in the eigenbasis of F, in row echelon form."""

    spectrum: Spectrum
    L: Float[Array, "... n k"]
    pivots: Array  # (k,): the row where each column starts
    rows: Float[Array, "... k h"]  # the orthonormal rows: P = L @ rows
    missed: Array  # rows with w > 0 that the initialisation cannot reach: the separatrix
    novelty: Float[Array, "... r"]  # part of each row with w > 0 that is new, relative to the longest row
    doubt: Float[Array, "... k"]  # how much of the new part of each pivot row may be rounding, as a rule

    @property
    def pivot_lengths(self) -> Float[Array, "... k"]:
        """|l_jj|, what each column starts with."""
        return np.abs(self.L[..., self.pivots, np.arange(len(self.pivots))])

    def of(self, member: int) -> Graded:
        """One of a stack."""
        own = {name: getattr(self, name)[member] for name in ("L", "rows", "novelty", "doubt")}
        return Graded(self.spectrum.of(member), pivots=self.pivots, missed=self.missed, **own)

    def doubt_until(self, t: float) -> float:
        """How far rounding of initialisation and task may have moved the function by time t, relative."""
        return float(max(*self.doubts_until(np.array(t))))

    def doubts_until(self, t: Array) -> tuple[Real, Real]:
        """Those of the initialisation, and those of the task and of what cancels, one number for each initialisation.

        Mode i is learned as y/(1 + y), y = ĝ l² e^{2wt}, so that doubt about l moves it by 2y/(1 + y)² as much: nothing
        before its time has come, half at most when it does. And of two close modes that want the same hidden direction
        the weaker loses its share l_ij/l_jj by e^{(w_i − w_j)t}, with w known to rounding: most at t = 1/(w_j − w_i).
        On the separatrix, what was taken for rounding and left out is missing from the start on.
        """
        left_out = 2 * np.sort(self.novelty, axis=-1)[..., : len(self.missed)].max(axis=-1, initial=0.0)
        F, t = self.spectrum, t[..., None]
        growing = F.w.reshape(-1, F.w.shape[-1])[0] > 0  # the same rows in all of a stack
        grows = growing[self.pivots]
        w, l = F.w[..., self.pivots[grows]], self.pivot_lengths[..., grows]
        if w.shape[-1] == 0:
            return left_out, np.zeros(l.shape[:-1])
        with np.errstate(divide="ignore"):
            log_y = np.log(-np.expm1(-2 * w * t) / (2 * w)) + 2 * (w * t + np.log(l))
        y = np.exp(np.minimum(log_y, 0.0))
        of_initialisation = (2 * y / (1 + y) ** 2 * self.doubt[..., grows] * w).max(axis=-1) / np.linalg.norm(
            w, axis=-1
        )
        # two columns that are almost one: what tells them apart is a difference of squares of that size
        own = np.tril(np.abs(self.L[..., self.pivots[grows], :][..., grows]), -1) / l[..., None, :]
        half = np.maximum(np.log(2 * w) - 2 * np.log(l), 0.0) / (2 * w)
        apart = -F.rate_differences(self.pivots[grows])[..., self.pivots[grows], :]
        cancelled = own**2 * np.exp(-2 * apart * np.minimum(half, t)[..., None, :]) * y[..., None, :]
        gap = -F.rate_differences(self.pivots)[..., growing, :][..., grows]
        share = np.minimum(np.abs(self.L[..., growing, :][..., grows]) / l[..., None, :], 1.0)
        when = np.minimum(np.divide(1.0, gap, out=np.full_like(gap, np.inf), where=gap > 0), t[..., None])
        of_task = np.where(gap > 0, share * np.exp(-gap * when) * when, 0.0).max(axis=(-2, -1), initial=0.0)
        of_task *= 8 * _EPS * F.excess.max(axis=-1)  # as accurate as singular values are
        of_task = np.maximum(of_task, _EPS * cancelled.max(axis=(-2, -1), initial=0.0))
        return np.maximum(of_initialisation, left_out), of_task

    @property
    def separatrix_distance(self) -> float:
        """Smallest relative new part among the rows that could be learned; rounding level on the
        separatrix."""
        return float(self.novelty.min(initial=1.0))


def spectrum(
    U: Float[Array, "... out out"],
    s: Float[Array, "... m"],
    V: Float[Array, "... in in"],
    lam: float | Float[Array, "..."],
    decay: float = 0.0,
) -> Spectrum:
    """Eigenvalues and eigenvectors of F from the full SVD of the target; no dense eigensolver. All λ have one sign."""
    d_out, d_in, s = U.shape[-1], V.shape[-1], s.copy()
    for values in s.reshape(-1, s.shape[-1]):
        for group in equal_groups(values):  # equal up to rounding means equal: at t = 1e12 the difference would show
            values[group] = values[group].mean()
    lams = np.asarray(lam)[..., None]
    positive, half = bool(np.all(lams >= 0)), np.abs(lams) / 2
    w = np.hypot(s, half)
    r = w + half
    norm, m, batch = np.hypot(s, r), w.shape[-1], w.shape[:-1]
    weak, strong = np.full(w.shape, np.sqrt(0.5)), np.full(w.shape, np.sqrt(0.5))
    np.divide(s, norm, out=weak, where=norm > 0)
    np.divide(r, norm, out=strong, where=norm > 0)
    a, b = (weak, strong) if positive else (strong, weak)  # with λ > 0, +w leans on the outputs
    first, second = (d_out - m, d_in - m) if positive else (d_in - m, d_out - m)
    above = np.divide(s**2, r, out=np.zeros(w.shape), where=r > 0)
    excess = np.concatenate([above, np.zeros((*batch, first + second + m))], axis=-1)
    alone = [np.broadcast_to(side, (*batch, count)) for side, count in ((half, first), (-half, second))]
    w = np.concatenate([w, *alone, -w[..., ::-1]], axis=-1)
    return Spectrum(U, s, V, w - decay, a, b, positive, excess)


def well_conditioned(F: Spectrum, Q0: Float[Array, "... n h"]) -> Spectrum:
    """Modes of equal strength turned so that the initialisation has orthogonal rows in them, longest first. All of a
    stack have the same groups of such modes."""
    strengths = F.s.reshape(-1, F.s.shape[-1])[0]
    groups = [group for group in equal_groups(strengths[strengths > 0]) if group.stop - group.start > 1]
    if not groups:
        return F
    rows = F.from_coordinates(Q0)
    U, V = (np.broadcast_to(X, (*rows.shape[:-2], *X.shape[-2:])).copy() for X in (F.U, F.V))
    for group in groups:
        R = np.linalg.svd(rows[..., group, :])[0]
        U[..., group], V[..., group] = U[..., group] @ R, V[..., group] @ R
    return F._replace(U=U, V=V)


def grade(
    Q0: Float[Array, "n h"],
    F: Spectrum,
    target: Float[Array, "out in"],
    *,
    eps: float = _EPS,
    eps_task: float = _EPS,
    push: float = 0.0,
) -> Graded:
    """Row echelon form of the initialisation; `push` moves rows that lie on the separatrix off it, relative to
    ‖Q0‖. `target` is the Σ whose singular vectors F has: what they leave of it says how good they are."""
    cutoff = rounding(Q0, F, target, eps=eps, eps_task=eps_task)
    noise = products_rounding(Q0, F)
    back = np.eye(Q0.shape[1])
    if Q0.shape[1] > len(Q0):  # a wide hidden layer: keep the directions that the weights use
        back, R = np.linalg.qr(Q0.T)
        Q0, back = R.T, back.T
    P = F.from_coordinates(Q0)
    L, rows, pivots, missed, novelty = _echelon(P, F.w, cutoff, push * float(np.linalg.norm(P)))
    return Graded(F, L, pivots, rows @ back, missed, novelty, doubts(L[pivots], noise[pivots]))


def resume(graded: Graded, P: Float[Array, "n k"]) -> Graded:
    """The same problem from another state, given in the eigenbasis of F."""
    cutoff = np.zeros(len(P))
    cutoff[graded.missed] = np.inf  # what was missed stays missed
    L, rows, pivots, missed, novelty = _echelon(P, graded.spectrum.w, cutoff, 0.0)
    return Graded(graded.spectrum, L, pivots, rows @ graded.rows, missed, novelty, np.zeros(len(pivots)))


def products_rounding(Q0: Float[Array, "... n h"], F: Spectrum, eps: float = _EPS) -> Float[Array, "... n"]:
    """How much of each row of OᵀQ0 is rounding of its products, as a rule."""
    return eps * lengths(F.vectors().mT * lengths(Q0)[..., None, :])


def rounding(
    Q0: Float[Array, "... n h"],
    F: Spectrum,
    target: Float[Array, "... out in"],
    *,
    eps: float = _EPS,
    eps_task: float = _EPS,
    alone: bool = False,
) -> Float[Array, "... n"]:
    """How long a part of each row of OᵀQ0 can be that is nothing but rounding.

    Entry by entry and taken as independent, so that zeros and ones of a basis cost nothing: the products of row i,
    eps·|O|ᵀ|Q0|, and parts of other rows, for eigenvectors are turned into each other by o_jᵀ(F − w_i)o_i/(w_i − w_j),
    where that is what the singular vectors leave of Σ and what its own digits leave open; λ has no part in it.
    Eigenvalues too close for that count as one group: only its span is certain, and that does not turn. Rows below
    count; a row that is made of rows above adds nothing new. Where each row is to stand alone (`alone`), all others
    count, and in a group rounding of the rotation within it.
    """
    inputs, outputs = F.sizes_in_modes()
    onto, back = _left_over(F, target)
    digits = eps_task * _spread(F.U, target, F.V)
    onto, back = np.abs(onto) + digits, np.abs(back) + digits.mT
    slack = inputs @ onto.mT @ outputs.mT + outputs @ back.mT @ inputs.mT
    largest = np.abs(F.w).max(axis=-1, initial=0.0)[..., None, None]
    gap = np.abs(F.w[..., :, None] - F.w[..., None, :])
    apart = gap > max(1e-9, 1e4 * eps_task) * largest
    counts = ~np.eye(gap.shape[-1], dtype=bool) if alone else np.triu(apart, 1)
    angle = np.divide(slack, np.where(apart, gap, largest), out=np.zeros_like(slack), where=counts & (largest > 0))
    turned = angle * lengths(F.from_coordinates(Q0))[..., None, :]
    return _SAFETY * np.hypot(products_rounding(Q0, F, eps), lengths(turned))


def _left_over(F: Spectrum, target: Float[Array, "... out in"]) -> tuple[Array, Array]:
    """Uᵀ(ΣV − Us) and Vᵀ(ΣᵀU − Vs)."""
    m = F.s.shape[-1]
    onto, back = target @ F.V, target.mT @ F.U
    onto[..., :m] -= F.U[..., :m] * F.s[..., None, :]
    back[..., :m] -= F.V[..., :m] * F.s[..., None, :]
    return F.U.mT @ onto, F.V.mT @ back


def _spread(
    U: Float[Array, "... out out"], target: Float[Array, "... out in"], V: Float[Array, "... in in"]
) -> Float[Array, "... out in"]:
    """How UᵀΣV spreads where each entry of Σ is off by its size, independently."""
    largest = np.abs(target).max(axis=(-2, -1), initial=0.0, keepdims=True)
    unit = target / np.where(largest > 0, largest, 1.0)
    return largest * np.sqrt((U**2).mT @ unit**2 @ V**2)


def doubts(T: Float[Array, "... k k"], noise: Float[Array, "... k"]) -> Float[Array, "... k"]:
    """A new part is its row less so much of each row above: it has a share of the rounding, `noise`, of all of them.
    Errors are taken as independent."""
    return lengths(np.linalg.inv(T) * noise[..., None, :])


def _echelon(
    P: Float[Array, "n h"], w: Float[Array, " n"], cutoff: Float[Array, " n"], push: float
) -> tuple[Float[Array, "n k"], Float[Array, "k h"], Array, Array, Float[Array, " r"]]:
    """Gram–Schmidt with re-orthogonalisation, row by row; Householder where no row is dependent."""
    n, h = P.shape
    own = lengths(P)
    if h <= n:
        basis, R = np.linalg.qr(P.T)
        new = np.abs(np.diag(R))
        if np.all(new > 8 * cutoff[:h]) and np.all(new > 1e-6 * own[:h]):
            L = np.tril(R.T)
            return L, basis.T, np.arange(h), np.empty(0, dtype=int), (new / own.max())[w[:h] > 0]
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
        length = float(lengths(rest[None])[0])
        # a row that cannot grow is no matter of the separatrix: it is kept as far as its digits go
        dependent = length <= (cutoff[i] if w[i] > 0 else 64 * _EPS * own[i])
        if not dependent and w[i] > 0 and length < 1e-6 * own[i]:
            # rounding of the rows above counts as often as this row is made of them
            parts = np.linalg.solve(L[pivots, :k].T, L[i, :k])
            dependent = length <= cutoff[i] + np.abs(parts) @ cutoff[pivots]
        if w[i] > 0:
            novelty.append(length / float(own.max()) if length else 0.0)
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
