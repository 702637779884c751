"""The same evaluation for large NumPy problems: one time after another, in place, by direct BLAS and LAPACK.

It follows `evaluate` line by line, with three savings. Work stays in the mode basis, where O is 2 × 2,
and only what is asked for is rotated back. A = RRᵀ by Cholesky gives Q = OY R^{−T}. And columns whose modes
have saturated, and whose coupling to all later rows has fallen below rounding, take their limits and leave
the computation (`_release_times`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm, dsyrk, dtrsm
from scipy.linalg.lapack import dpotrf

from lazyrich._progress import progress
from lazyrich._threads import SMALL, one_blas_thread
from lazyrich._typing import Array, Float
from lazyrich.methods.riccati.evaluation import CEILING, FLOOR, TINY
from lazyrich.methods.riccati.grading import Graded

_NEGLIGIBLE = 45.0  # e^{−45} ≈ 3e-20


class BlasEvaluation:
    """Q(t) one time at a time, in the coordinates of the modes. Arrays are in Fortran order, as BLAS wants
    them."""

    def __init__(self, graded: Graded) -> None:
        F, piv, ratio = graded.spectrum, graded.pivots, graded.L / graded.pivot_lengths
        self.F, self.piv, self.log_l = F, piv, np.log(graded.pivot_lengths)
        self.w_column, self.w_abs = np.maximum(F.w, 0.0)[piv], np.abs(F.w)
        self.growing = int(np.count_nonzero(F.w > 0))  # these rows stand first
        self.ratio_grow, self.ratio_rest = (np.asfortranarray(part) for part in np.split(ratio, [self.growing]))
        self.exponent = np.asfortranarray(F.rate_differences(piv)[: self.growing])
        self.release = _release_times(ratio, self.log_l, piv, F.w, len(F.s))
        self.U, self.V = np.asfortranarray(F.U), np.asfortranarray(F.V)

    def function(self, times: Float[Array, " T"], gain: float) -> Float[Array, "T out in"]:
        """W = U W_modes Vᵀ / gain at each time, written straight into the result."""
        result = np.empty((len(times), len(self.F.U), len(self.F.V)))
        turned = np.empty((len(self.F.V), len(self.F.U)), order="F")
        for W, in_modes in zip(result, self.functions_in_modes(times), strict=True):
            dgemm(1 / gain, self.V, in_modes, trans_b=1, c=turned, overwrite_c=1)  # V W_modesᵀ
            dgemm(1.0, turned, self.U, trans_b=1, c=W.T, overwrite_c=1)  # Wᵀ in Fortran order is W in C order
        return result

    def functions_in_modes(self, times: Float[Array, " T"]) -> Iterator[Float[Array, "out in"]]:
        """UᵀWV, time by time, in one array that the next time overwrites."""
        m, W = np.arange(len(self.F.s)), np.empty((len(self.F.U), len(self.F.V)), order="F")
        for inputs, outputs, limit in self._states(times):
            dgemm(1.0, outputs, inputs, trans_b=1, c=W, overwrite_c=1)
            W[m, m] += limit * self.F.a * self.F.b
            yield W

    def grams_in_modes(self, times: Float[Array, " T"]) -> Iterator[Float[Array, "n n"]]:
        """QQᵀ in v and u coordinates, time by time."""
        v = np.arange(len(self.F.s))
        u = v + len(self.F.V)
        for inputs, outputs, limit in self._states(times):
            Q = np.concatenate([inputs, outputs])
            G = Q @ Q.T
            G[v, v] += limit * self.F.a**2
            G[u, u] += limit * self.F.b**2
            G[u, v] += limit * self.F.a * self.F.b
            G[v, u] = G[u, v]
            yield G

    def _states(
        self, times: Float[Array, " T"]
    ) -> Iterator[tuple[Float[Array, "in k"], Float[Array, "out k"], Float[Array, " m"]]]:
        """At each time: Q in v and u coordinates (up to a rotation), and 2w of the modes that have left it."""
        F, m, n, k = self.F, len(self.F.s), len(self.F.w), len(self.piv)
        a, b = F.a[:, None], F.b[:, None]
        alone_in, alone_out = (slice(rows.start - m, rows.stop - m) for rows in F.unpaired())
        # one set of arrays for all times: fresh ones would cost more in page faults than the arithmetic on them
        Z_all, inputs_all, outputs_all, weighted = (np.zeros((d, k), order="F") for d in (n, len(F.V), len(F.U), m))
        work = np.empty(2 * n * k + k * k)
        released = np.searchsorted(self.release, times, side="right").tolist()
        with one_blas_thread(k <= SMALL), progress(len(times), "solve") as advance:
            for t, J, *vectors in zip(times, released, *self._vectors(times), strict=True):
                Z, inputs, outputs, term = (M[:, J:] for M in (Z_all, inputs_all, outputs_all, weighted))
                grow, rest = self._factor(t, J, vectors, work)
                if self.growing == m and J == 0:  # the common case: rows that grow are the modes
                    plus, minus, below = grow, rest[n - 2 * m :][::-1], rest
                else:
                    Z[:J], Z[J : J + len(grow)], Z[n - len(rest) :] = 0.0, grow, rest
                    plus, minus, below = Z[:m], Z[n - m :][::-1], Z[m:]
                inputs[m:], outputs[m:] = below[alone_in], below[alone_out]
                np.multiply(a, plus, out=inputs[:m])
                np.multiply(b, minus, out=term)
                inputs[:m] += term
                np.multiply(b, plus, out=outputs[:m])
                np.multiply(a, minus, out=term)
                outputs[:m] -= term
                limit = np.zeros(m)
                limit[:J] = 2 * F.w[:J]
                yield inputs, outputs, limit
                advance(1)

    def _vectors(self, times: Float[Array, " T"]) -> tuple[Any, ...]:
        """xμ², e^{−w⁺t}μ and μ of the columns, √ĝ and e^{min(w, 0)t} of the rows, for all times at once."""
        t = times[:, None]
        x = np.exp(np.clip(-2 * (t * self.w_column + self.log_l), -600.0, CEILING))
        resting = self.w_abs == 0
        g = np.where(resting, t, -np.expm1(-2 * t * self.w_abs) / np.where(resting, 1.0, 2 * self.w_abs))
        mu = (x + g[:, self.piv]) ** -0.5
        sunk = np.exp(np.maximum(-t * self.w_column, -300.0)) * mu
        sinking = np.exp(np.maximum(np.minimum(self.F.w, 0.0) * t, FLOOR)) - TINY
        return x * mu**2, sunk, mu, np.sqrt(g), sinking

    def _factor(
        self, t: float, J: int, vectors: list[Any], work: Float[Array, " space"]
    ) -> tuple[Float[Array, "g k"], Float[Array, "r k"]]:
        """Y R^{−T} without the first J columns and rows, in `work`: the rows that grow, and the others.

        They are kept apart: whole arrays are faster than parts of one.
        """
        n, k, top = len(self.F.w), len(self.piv) - J, max(self.growing, J)
        free, sunk, mu, root, sinking = vectors
        free, sunk, mu, root = free[J:], sunk[J:], mu[J:], root[:, None]
        Y_grow, Y_rest, X_grow, X_rest, A = _matrices(work, k, top - J, n - top, top - J, n - top, k)
        if k == 0:
            return Y_grow, Y_rest
        np.multiply(self.exponent[J:, J:], t, out=Y_grow)
        np.maximum(Y_grow, FLOOR, out=Y_grow)  # as in `evaluate`
        np.exp(Y_grow, out=Y_grow)
        Y_grow *= self.ratio_grow[J:, J:]
        Y_grow *= mu
        np.multiply(Y_grow, root[J:top], out=X_grow)
        np.multiply(self.ratio_rest[top - self.growing :, J:], sunk, out=Y_rest)
        np.multiply(Y_rest, root[top:], out=X_rest)
        Y_rest *= sinking[top:, None]
        dsyrk(1.0, X_rest, trans=1, lower=1, c=A, overwrite_c=1)
        if len(X_grow):  # OpenBLAS leaves A as it is where a product has no terms
            dsyrk(1.0, X_grow, trans=1, lower=1, beta=1.0, c=A, overwrite_c=1)
        A.ravel("K")[:: k + 1] += free
        R, failed = dpotrf(A, lower=1, overwrite_a=1)
        if failed:
            raise ArithmeticError(f"the Cholesky factor broke down at column {failed}, t = {t:g}; please report this.")
        solve = partial(dtrsm, 1.0, R, side=1, lower=1, trans_a=1, overwrite_b=1)
        return solve(b=Y_grow), solve(b=Y_rest)


def _matrices(work: Float[Array, " space"], columns: int, *rows: int) -> list[Float[Array, "r k"]]:
    """Matrices of so many rows, in Fortran order, one after another in `work`."""
    ends = np.cumsum([0, *rows]) * columns
    return [work[i:j].reshape((r, columns), order="F") for i, j, r in zip(ends, ends[1:], rows, strict=False)]


def _release_times(
    ratio: Float[Array, "n k"], log_l: Float[Array, " k"], piv: Array, w: Float[Array, " n"], modes: int
) -> Float[Array, " J"]:
    """When the first J = 1, 2, … columns have saturated and no longer touch the rows below, in rising order.

    Then X is square and triangular in those rows and columns, and their part of QQᵀ is 2w exactly.
    Saturated: e^{−2wt}·2w/l² is negligible. Untouched: l_ij/l_jj · e^{(w_i⁺−w_j⁺)t} · √(2w_j t) is, for all
    j < J ≤ i.
    """
    last = 0
    while last < min(len(piv), modes) and piv[last] == last and w[last] > 0:
        last += 1
    if last == 0:
        return np.empty(0)
    w_plus, own = np.maximum(w, 0.0), w[:last]
    saturated = (_NEGLIGIBLE + np.maximum(np.log(2 * own) - 2 * log_l[:last], 0)) / (2 * own)
    ratio = np.maximum.accumulate(np.abs(ratio[::-1, :last]), axis=0)[::-1]  # largest at or below each row
    J = np.arange(1, last + 1)
    below = np.vstack([ratio, np.zeros(last)])[J]
    largest = np.max(np.where(np.arange(last) < J[:, None], below, 0.0), axis=1)
    gap = own - np.append(w_plus, 0.0)[J]
    need = _NEGLIGIBLE + np.log(np.maximum(largest, 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        untouched = need / gap
        untouched = (need + 0.5 * np.log1p(2 * own[0] * untouched) + 1) / gap
    release = np.maximum(np.maximum.accumulate(saturated), np.where(gap > 0, untouched, np.inf))
    # a larger J may be ready before a smaller one: what counts is the largest that is
    return np.minimum.accumulate(release[::-1])[::-1]
