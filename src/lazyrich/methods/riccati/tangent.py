"""How QQᵀ(t) of balanced layers moves when the initialisation moves, in graded form: bounded at every t.

With 𝒢 = ∫₀ᵗ e^{2Fs} ds, a start that moves by δQ0 and stays balanced moves

    δQQᵀ(t) = K δ(Q0Q0ᵀ) Kᵀ,     K = e^{Ft}(I + Q0Q0ᵀ𝒢)⁻¹ .

K as written is a difference of huge numbers. In the eigenbasis of F the start is L in row echelon form, up to a
rotation B of the hidden units (`grading`), and with the column scale N that makes Y = e^{wt}LN and A = N(I + LᵀgL)N
bounded (`evaluation`), everything follows from δL = (OᵀδQ0)Bᵀ:

1. A rotation LΩ, Ω = −Ωᵀ, does not show. With L₁ the pivot rows of L, M = L₁⁻¹δL₁ has its part above the diagonal taken
   out by Ω; δL is then zero above the pivots, as L is, and grows no faster than L.
2. δL = LM_J + R for any set J of pivots: the rows J of R are zero. Since K L = Y A⁻¹ N,

       OᵀδQQᵀO = Z A⁻¹Yᵀ + its transpose,   Z = Y A⁻¹ N M_J N + (e^{wt}R N − Y A⁻¹ LᵀN g R N) .

   The first term has no difference in it, and falls with N as modes saturate; the second has none that matters as long
   as J holds the pivots that have saturated. So J is chosen by time, and the digits are those of δQQᵀ at that time, not
   of its largest value.

A move that takes λ along (D moves by δλ·I) also moves F: w by λδλ/4w, or ±δλ/2 where a direction has no partner, and
the two eigenvectors of a mode turn into each other by δφ = −s δλ/4w². The turn is a move of the start, and turns the
result back; the moves of w enter E, ĝ and x of `evaluation`, with the column scale held. It has digits unless a mode
has w ≈ 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.methods.riccati.evaluation import CEILING, Evaluation
from lazyrich.methods.riccati.grading import Graded

_CHUNK = 1_000_000  # numbers in one temporary array
_TERMS = 14  # of the series of dĝ/du below z = 0.3


class Tangent:
    """δQQᵀ along one direction, at any times; `clock` units, rows of Q scaled by `scale` as in `Evaluation`."""

    def __init__(
        self,
        graded: Graded,
        scale: Float[Array, " n"],
        dQ: Float[Array, "n h"],
        lost: Float[Array, " n"],
        lam: float,
        d_lam: float,
    ) -> None:
        """`lost`: how long a part of each row of OᵀδQ is rounding."""
        F, piv = graded.spectrum, graded.pivots
        self.graded, self.d_lam = graded, d_lam
        self.O = Evaluation(graded, scale).O
        self.l = graded.pivot_lengths
        self.ratio, self.log_l = graded.L / self.l, np.log(self.l)
        self.w_column = np.maximum(F.w[piv], 0.0)
        self.dw, self.turn = _moves_of_F(graded, lam, d_lam)
        dP = F.from_coordinates(dQ) - self._turned(graded.L @ graded.rows)
        self.dratio = self._echelon(dP @ graded.rows.T, lost) / self.l
        apart = F.rates_apart(piv)
        self.apart = np.where(self.dratio != 0, apart, np.minimum(apart, 0.0))
        self.leaving = float(self.apart.max(initial=0.0))  # the rate at which rows leave the separatrix, if any does

    def _turned(self, rows: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Θ·rows, where δO = OΘ: +w of a mode turns by δφ towards −w."""
        m = len(self.turn)
        turned = np.zeros_like(rows)
        turned[:m] = -self.turn[:, None] * rows[len(rows) - m :][::-1]
        turned[len(rows) - m :] = (self.turn[:, None] * rows[:m])[::-1]
        return turned

    def _echelon(self, dL: Float[Array, "n k"], lost: Float[Array, " n"]) -> Float[Array, "n k"]:
        """δL less the rotation that does not show: zero above the pivots."""
        from scipy.linalg import solve_triangular  # here, to keep `import lazyrich` quick

        L, piv = self.graded.L, self.graded.pivots
        if len(piv) == 0:
            return dL
        M = solve_triangular(L[piv], dL[piv], lower=True)
        upper = np.triu(M, 1)
        turn = upper - upper.T
        new = dL - L @ turn
        above = np.arange(len(L))[:, None] < piv
        # a row that is made of rows above stays so, unless more than rounding says that it does not
        own = lost + 64 * np.finfo(float).eps * (np.abs(dL) + np.abs(L) @ np.abs(turn)).max(axis=1)
        made_of = np.abs(solve_triangular(L[piv], L.T, lower=True, trans="T").T)
        new[above & (np.abs(new) <= (own + made_of @ own[piv])[:, None])] = 0.0
        new[piv] = np.tril(new[piv])
        return new

    def gram(self, times: Float[Array, " T"]) -> Float[Array, "T n n"]:
        """δQQᵀ at each time."""
        result = np.empty((len(times), len(self.O), len(self.O)))
        for some, saturated in self._stages(times):
            result[some] = self._at(times[some], saturated)
        return result

    def _stages(self, times: Float[Array, " T"]) -> Iterator[tuple[slice, Array]]:
        """Blocks of times in which the same pivots have saturated: more than half of e^{−2wt} + ĝl² is ĝl²."""
        done = self._scales(times)[0] * self._scales(times)[2] ** 2 < 0.5
        changes = np.flatnonzero(np.any(done[1:] != done[:-1], axis=1)) + 1
        step = max(1, _CHUNK // max(self.ratio.size, 1))
        for first, last in zip([0, *changes], [*changes, len(times)], strict=True):
            for i in range(first, last, step):
                yield slice(i, min(i + step, last)), done[first]

    def _scales(self, times: Float[Array, " T"]) -> tuple[Array, Array, Array]:
        """x_j, ĝ_i, μ_j of `evaluation`."""
        t, w = times[:, None], self.graded.spectrum.w
        x = np.exp(np.minimum(-2 * (self.w_column * t + self.log_l), CEILING))
        u = np.where(w == 0, 1.0, np.abs(w))
        g = np.where(w == 0, t, -np.expm1(-2 * u * t) / (2 * u))
        return x, g, (x + g[:, self.graded.pivots]) ** -0.5

    def _at(self, times: Float[Array, " T"], saturated: Array) -> Float[Array, "T n n"]:
        t, w = times[:, None, None], self.graded.spectrum.w
        x, g, mu = self._scales(times)
        growth = np.exp(self.apart * t) * mu[:, None, :]
        E = self.ratio * growth
        falls = np.exp(np.minimum(w, 0.0)[:, None] * t)
        Eg = np.swapaxes(E * g[:, :, None], 1, 2)
        A = Eg @ E + np.eye(len(self.l)) * (x * mu**2)[:, None, :]
        T = np.linalg.solve(A, np.swapaxes(falls * E, 1, 2))  # A⁻¹Yᵀ
        M, R = self._split(saturated)
        dE = R * growth
        H = (x * mu)[:, :, None] * (M * growth[:, self.graded.pivots])
        half = np.swapaxes(T, 1, 2) @ (H - Eg @ dE) @ T + (falls * dE) @ T
        if self.d_lam:
            half += self._through_F(times, x, g, mu, E, T, falls)
        moved = self.O @ half @ self.O.T
        return moved + np.swapaxes(moved, 1, 2)

    def _split(self, saturated: Array) -> tuple[Float[Array, "k k"], Float[Array, "n k"]]:
        """M and R of δL = LM + R, columns over l_jj and M over l_ii, with zeros in the saturated pivot rows of R."""
        from scipy.linalg import solve_triangular

        J, piv = np.flatnonzero(saturated), self.graded.pivots
        M = np.zeros((len(piv), len(piv)))
        if len(J) == 0:
            return M, self.dratio
        M[J] = solve_triangular(self.ratio[np.ix_(piv[J], J)], self.dratio[piv[J]], lower=True)
        R = self.dratio - self.ratio @ M
        R[piv[J]] = 0.0
        return M, R

    def _through_F(
        self, times: Array, x: Array, g: Array, mu: Array, E: Array, T: Array, falls: Array
    ) -> Float[Array, "T n n"]:
        """Half of what moving w and turning O do, with the start held: the other half is its transpose."""
        t, w, dw = times[:, None, None], self.graded.spectrum.w, self.dw
        grows = w > 0
        up, below = np.where(grows, dw, 0.0), np.where(grows, 0.0, dw)
        dE = E * (up[:, None] - up[self.graded.pivots]) * t
        dY = falls * (dE + E * below[:, None] * t)
        du = np.where(grows, dw, -dw)
        dg = du * _slope_of_g(np.abs(w), times[:, None])
        dx = -2 * up[self.graded.pivots] * times[:, None] * x
        Et = np.swapaxes(E, 1, 2)
        half_dA = Et @ (g[:, :, None] * dE + dg[:, :, None] / 2 * E) + np.eye(len(self.l)) * (dx * mu**2 / 2)[:, None]
        S = falls * E @ T
        turned = np.stack([self._turned(rows) for rows in S])
        return np.asarray(dY @ T - np.swapaxes(T, 1, 2) @ half_dA @ T + turned)


def _moves_of_F(graded: Graded, lam: float, d_lam: float) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
    """δw, and δφ of each mode."""
    F = graded.spectrum
    m, w = len(F.s), np.hypot(F.s, lam / 2)
    safe = np.where(w > 0, w, 1.0)
    dw = np.zeros(len(F.w))
    dw[:m] = lam * d_lam / 4 / safe
    dw[len(dw) - m :] = -dw[:m][::-1]
    inputs, outputs = F.unpaired()
    dw[inputs], dw[outputs] = -d_lam / 2, d_lam / 2
    return dw, -F.s * d_lam / 4 / safe**2


def _slope_of_g(u: Float[Array, " n"], t: Float[Array, "T 1"]) -> Float[Array, "T n"]:
    """dĝ/du of ĝ = (1 − e^{−2ut})/2u, with z = 2ut: (e^{−z}(1 + z) − 1)/2u², by its series where that is a small
    difference."""
    z = 2 * u * t
    near, far, safe = np.minimum(z, 0.3), np.maximum(z, 0.3), np.where(u > 0, u, 1.0)
    series, term = np.zeros_like(z), np.full_like(z, -0.5)
    for n in range(1, _TERMS):  # (−1)ⁿ n zⁿ⁻¹/(n + 1)!
        series += n * term
        term = -term * near / (n + 2)
    with np.errstate(over="ignore"):
        return np.where(z < 0.3, 2 * t**2 * series, (np.exp(-far) * (1 + far) - 1) / (2 * safe**2))
