"""The same evaluation for NumPy problems that are not small: some times after another, in place, on all cores.

It follows `evaluation` line by line, with these savings. Times are taken in blocks that stay in the cache. Work stays
in the mode basis, where O is 2 × 2, and A = RRᵀ by Cholesky gives Q = OY R^{−T}: its n × k numbers are turned into the
given basis, not the n × n of QQᵀ. Exponentials of differences are products of exponentials (`_exponential`,
`_growth`), triangles are multiplied by panels, and R is inverted by products (`_lapack`). Modes that have settled take
their limits and leave the computation (`release`); their rows −w follow when they have vanished beside them.

Blocks depend on the times alone, not on the number of cores, and so do the bits of the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from lazyrich._progress import progress
from lazyrich._threads import one_blas_thread, spread
from lazyrich._typing import Array, Float
from lazyrich.methods.riccati import _lapack
from lazyrich.methods.riccati.evaluation import CEILING, FLOOR, TINY
from lazyrich.methods.riccati.grading import Graded
from lazyrich.methods.riccati.release import NEGLIGIBLE, release_times

_CACHE = 2**17  # numbers of Q in a block of times: as few calls as possible, and not far from the cores
_SEGMENT = 8  # times at least that one thread takes in turn: what has saturated is summed up once for them
_LEVEL = 4.0  # largest exponent whose rounding does not show: e^{4 ± ε} is off by 4ε
_LEAF = 32  # rows: below, one exponential per entry costs less than blocks do
_HIGHEST = -FLOOR  # exponent up to which e^{wt} is multiplied and divided by: what is smaller does not show
_PANEL = 64  # columns or rows of a triangle that are taken together: the part above is left out
_ROUNDING = 1e-13
_HEAVY = 1e8  # operations that take longer than to start threads, on a busy machine too


class _Vectors(NamedTuple):
    """What scales rows and columns at each time."""

    free: Float[Array, "T k"]  # xμ²
    sunk: Float[Array, "T k"]  # e^{−w⁺t}μ
    mu: Float[Array, "T k"]
    g: Float[Array, "T n"]  # ĝ
    sinking: Float[Array, "T r"]  # e^{wt} of the rows that do not grow
    risen: Float[Array, "T g"]  # e^{wt} of the rows that grow, where that is no large number
    fallen: Float[Array, "T c"]  # e^{−wt}μ of the columns that start there


class _State(NamedTuple):
    """Q at some times, up to a rotation of the hidden units, in coordinates that `V` and `U` turn into the given ones.

    The first `released` columns have left: they are what `limits_in` and `limits_out` say. Of v and u coordinates the
    first `gone` are zero, and left out.
    """

    at: slice
    inputs: Float[Array, "b in k"]
    outputs: Float[Array, "b out k"]
    released: int
    gone: int
    space: Float[Array, " space"]  # for as many numbers as there are in Q


class BlasEvaluation:
    """Function, loss, Gram matrix and mode strengths of a graded initialisation."""

    def __init__(self, graded: Graded, scale: Float[Array, " n"]) -> None:
        """`scale` multiplies the rows of Q (units of the layers)."""
        F, piv, d_in, m = graded.spectrum, graded.pivots, len(graded.spectrum.V), len(graded.spectrum.s)
        self.F, self.piv, self.log_l = F, piv, np.log(graded.pivot_lengths)
        self.ratio = graded.L / graded.pivot_lengths
        self.largest = np.abs(self.ratio).max(axis=0)
        self.w_column, self.w_abs = np.maximum(F.w, 0.0)[piv], np.abs(F.w)
        self.rates = np.unique(self.w_abs, return_inverse=True)  # most come twice, as ±w
        self.growing = int(np.count_nonzero(F.w > 0))  # these rows stand first
        self.exponent = F.rate_differences(piv)[: self.growing]
        self.release = release_times(self.ratio, self.log_l, piv, F.w, m)
        leaving = len(self.release)
        own, partner = F.w[:leaving], self.w_abs[::-1][:leaving]  # w and |−w| of the modes that will leave
        self.vanished = np.maximum.accumulate((NEGLIGIBLE + 0.5 * np.log(partner / own)) / partner)
        # a·v + b·u and b·v − a·u: the larger of a and b goes into V and U, the smaller is a share of it
        larger, smaller = (F.b, F.a) if F.outputs_first else (F.a, F.b)
        self.larger, self.share = larger, None if np.array_equal(larger, smaller) else (smaller / larger)[:, None]
        V, U = scale[:d_in, None] * F.V, scale[d_in:, None] * F.U
        end = np.sqrt(2 * own)
        self.limit = np.zeros(m)
        self.limit[:leaving] = 2 * own * F.a[:leaving] * F.b[:leaving]
        self.limits_in, self.limits_out = V[:, :leaving] * F.a[:leaving] * end, U[:, :leaving] * F.b[:leaving] * end
        self.block = max(1, _CACHE // max(graded.L.size, 1))  # times
        self.spaces: list[Float[Array, "three space"]] = []  # kept between calls, unless they are large
        self.V, self.U = (np.concatenate([M[:, :m] * larger, M[:, m:]], axis=1) for M in (V, U))

    def gram(self, times: Float[Array, " T"]) -> Float[Array, "T n n"]:
        """QQᵀ."""
        n, d_in = len(self.F.w), len(self.V)
        result, ends = np.empty((len(times), n, n)), np.concatenate([self.limits_in, self.limits_out])

        def fill(states: Iterator[_State]) -> None:
            settled = _Sum(ends, ends)
            for state in states:
                (Q,) = _matrices(state.space, len(state.inputs), state.inputs.shape[2], n)
                np.matmul(self.V[:, state.gone :], state.inputs, out=Q[:, :d_in])
                np.matmul(self.U[:, state.gone :], state.outputs, out=Q[:, d_in:])
                np.matmul(Q, Q.mT, out=result[state.at])
                settled.add_to(result[state.at], state.released)

        self._each(times, fill)
        return result

    def function(self, times: Float[Array, " T"]) -> Float[Array, "T out in"]:
        """W2W1."""
        result = np.empty((len(times), len(self.U), len(self.V)))

        def fill(states: Iterator[_State]) -> None:
            settled = _Sum(self.limits_out, self.limits_in)
            for state in states:
                inputs, outputs = _matrices(
                    state.space, len(state.inputs), state.inputs.shape[2], len(self.V), len(self.U)
                )
                np.matmul(self.V[:, state.gone :], state.inputs, out=inputs)
                np.matmul(self.U[:, state.gone :], state.outputs, out=outputs)
                np.matmul(outputs, inputs.mT, out=result[state.at])
                settled.add_to(result[state.at], state.released)

        self._each(times, fill)
        return result

    def squared_errors(self, times: Float[Array, " T"]) -> Float[Array, " T"]:
        """‖UᵀWV − diag(s)‖², of the canonical problem: no rotation back is needed."""
        m, result, left = len(self.F.s), np.empty(len(times)), self.limit - self.F.s
        rows, columns = (np.append(self.larger, np.ones(len(M) - m)) for M in (self.U, self.V))
        units = np.outer(rows, columns)

        def fill(states: Iterator[_State]) -> None:
            for state in states:
                W, gone = state.outputs @ state.inputs.mT, state.gone
                W *= units[gone:, gone:]
                own = np.arange(m - gone)
                W[:, own, own] -= self.F.s[gone:]
                own = own[: state.released - gone]
                W[:, own, own] += self.limit[gone : state.released]
                flat = W.reshape(len(W), -1)
                result[state.at] = np.vecdot(flat, flat) + left[:gone] @ left[:gone]

        self._each(times, fill)
        return result

    def mode_strengths(
        self, times: Float[Array, " T"], U: Float[Array, "out m"], V: Float[Array, "in m"]
    ) -> Float[Array, "T m"]:
        """uᵀWv of the columns of U and V; where these are the modes, nothing is turned."""
        m, result = len(self.F.s), np.empty((len(times), U.shape[1]))
        with one_blas_thread():
            left, right = U.T @ self.U, V.T @ self.V
            ends = (U.T @ self.limits_out) * (V.T @ self.limits_in)
        own = U.shape[1] == m and _diagonal(left) and _diagonal(right)
        units = np.diag(left) * np.diag(right)

        def fill(states: Iterator[_State]) -> None:
            for state in states:
                at, gone, inputs, outputs = state.at, state.gone, state.inputs, state.outputs
                if own:
                    result[at, :gone] = 0.0
                    result[at, gone:] = np.vecdot(outputs[:, : m - gone], inputs[:, : m - gone]) * units[gone:]
                else:
                    result[at] = np.vecdot(left[:, gone:] @ outputs, right[:, gone:] @ inputs)
                result[at] += ends[:, : state.released].sum(axis=1)

        self._each(times, fill)
        return result

    def _each(self, times: Float[Array, " T"], fill: Callable[[Iterator[_State]], None]) -> None:
        """Hands all states to `fill`, some times to each call."""
        n, k = self.ratio.shape
        block = self.block
        step = block * max(1, min(-(-_SEGMENT // block), len(times) // (4 * block)))
        segments = [slice(i, min(i + step, len(times))) for i in range(0, len(times), step)]
        vectors = self._vectors(times[:, None])
        # one set of arrays per thread: the page faults of fresh ones would cost more than the arithmetic on them
        spaces = self.spaces if n * k <= _CACHE else []
        with progress(len(times), "solve") as advance:

            def work(segment: slice) -> None:
                space = spaces.pop() if spaces else np.empty((3, block * n * k))
                fill(self._states(times, vectors, segment, block, space))
                spaces.append(space)
                advance(segment.stop - segment.start)

            spread(work, segments, heavy=4.0 * len(times) * n * k * k > _HEAVY)

    def _states(
        self,
        times: Float[Array, " T"],
        vectors: _Vectors,
        segment: slice,
        block: int,
        space: Float[Array, "three space"],
    ) -> Iterator[_State]:
        """The states of a segment, block by block; each is overwritten by the next."""
        m, n, (alone_in, alone_out) = len(self.F.s), len(self.F.w), self.F.unpaired()
        for i in range(segment.start, segment.stop, block):
            at = slice(i, min(i + block, segment.stop))
            soonest = times[at].min()
            J = int(np.searchsorted(self.release, soonest, side="right"))
            gone = min(J, int(np.searchsorted(self.vanished, soonest, side="right")))
            Y = self._rows(times[at], _Vectors(*(v[at] for v in vectors)), J, gone, space)
            inputs, outputs = _matrices(space[0], len(Y), Y.shape[2], len(self.V) - gone, len(self.U) - gone)
            inputs[:, m - gone :] = Y[:, alone_in.start - J : alone_in.stop - J]
            outputs[:, m - gone :] = Y[:, alone_out.start - J : alone_out.stop - J]
            plus, minus = Y[:, : m - J], Y[:, n - m - J : n - gone - J][:, ::-1]
            less_plus, less_minus = self._shares(plus, minus, J, gone, space[1])
            if self.F.outputs_first:
                _combine(np.add, less_plus, minus, inputs[:, : m - gone])
                _combine(np.subtract, plus, less_minus, outputs[:, : m - gone])
            else:
                _combine(np.add, plus, less_minus, inputs[:, : m - gone])
                _combine(np.subtract, less_plus, minus, outputs[:, : m - gone])
            yield _State(at, inputs, outputs, J, gone, space[2])

    def _shares(
        self,
        plus: Float[Array, "b p k"],
        minus: Float[Array, "b q k"],
        J: int,
        gone: int,
        space: Float[Array, " space"],
    ) -> tuple[Float[Array, "b p k"], Float[Array, "b q k"]]:
        """Both times the smaller of a and b, in units of the larger."""
        if self.share is None:
            return plus, minus
        less_plus, less_minus = _matrices(space, len(plus), plus.shape[2], plus.shape[1], minus.shape[1])
        np.multiply(self.share[J:], plus, out=less_plus)
        np.multiply(self.share[gone:], minus, out=less_minus)
        return less_plus, less_minus

    def _rows(
        self, t: Float[Array, " b"], vectors: _Vectors, J: int, gone: int, space: Float[Array, "three space"]
    ) -> Float[Array, "b rows k"]:
        """Y R^{−T} without the first J columns and rows and the last `gone` rows; in the last of the spaces."""
        n, k, g, b = len(self.F.w), len(self.piv) - J, self.growing - J, len(t)
        if k == 0:
            return np.empty((b, n - J - gone, 0))
        (Y,), (Z,), (A,) = (_matrices(part, b, k, r) for part, r in zip(space, (n - J, n - J, k), strict=True))
        below = int(np.searchsorted(self.piv, self.growing)) - J  # columns that start below what grows
        if g and self.F.excess[J] * t.max() <= _HIGHEST:
            np.multiply(self.ratio[J : self.growing, J : J + below], vectors.fallen[:, None, J:], out=Y[:, :g, :below])
            Y[:, :g, :below] *= vectors.risen[:, J:, None]
        else:
            self._growth(Y[:, :g], t, vectors.mu[:, J:], J, J, self.growing)
        Y[:, :g, below:] = 0.0
        np.multiply(self.ratio[self.growing :, J:], vectors.sunk[:, None, J:], out=Y[:, g:])
        np.multiply(Y, vectors.g[:, J:, None], out=Z)
        panels = [(i, min(i + _PANEL, k)) for i in range(0, k, _PANEL)]
        for i, j in panels:  # the lower triangle of A = EᵀĝE; columns are zero above their pivots
            top = self.piv[J + i] - J
            np.matmul(Y[:, top:, i:j].mT, Z[:, top:, :j], out=A[:, i:j, :j])
        A.reshape(b, -1)[:, :: k + 1] += vectors.free[:, J:]
        Y[:, g:] *= vectors.sinking[:, :, None]
        try:
            R = _lapack.factor(A)
        except _lapack.NoFactor as broken:
            message = f"the Cholesky factor broke down at t = {t[broken.place]:g}; please report this."
            raise ArithmeticError(message) from None
        (W,) = _matrices(space[1], b, k, k)
        _lapack.invert(R, W)
        (result,) = _matrices(space[2], b, k, n - J - gone)
        for i, j in panels:
            np.matmul(Y[:, : n - J - gone, :j], W[:, i:j, :j].mT, out=result[:, :, i:j])
        return result

    def _vectors(self, t: Float[Array, "T 1"]) -> _Vectors:
        x = np.exp(np.clip(-2 * (t * self.w_column + self.log_l), -600.0, CEILING))
        rates, which = self.rates
        resting = rates == 0
        g = np.where(resting, t, np.expm1(-2 * t * rates) / np.where(resting, 1.0, -2 * rates))[:, which]
        mu = 1 / np.sqrt(x + g[:, self.piv])
        sunk = np.exp(np.maximum(-t * self.w_column, -300.0)) * mu
        sunk[sunk * self.largest < TINY] = 0.0  # it does not show, and its products would be slow subnormal numbers
        sinking = np.exp(np.maximum(self.F.w[self.growing :] * t, FLOOR)) - TINY
        growing = self.piv[self.piv < self.growing]
        risen = _exponential(self.F.excess[: self.growing], t)
        return _Vectors(x * mu**2, sunk, mu, g, sinking, risen, mu[:, : len(growing)] / risen[:, growing])

    def _growth(
        self, E: Float[Array, "b g k"], t: Float[Array, " b"], mu: Float[Array, "b k"], J: int, first: int, last: int
    ) -> None:
        """E_ij = (l_ij/l_jj) e^{(w_i − w_j)t} μ_j in the rows from `first` to `last` and the columns that start there.

        With some c, e^{(w_i − c)t} e^{(c − w_j)t}: as good where both exponents are small, or neither is positive.
        Where they would not be, rows are halved: c between the halves serves the block below, above there is nothing.
        """
        half, w = (first + last) // 2, self.F.excess  # as good as w for differences, and better where |λ| ≫ s
        start, middle, end = (int(j) for j in np.searchsorted(self.piv, (first, half, last)))

        def product(c: float, top: int, bottom: int, left: int, right: int) -> None:
            part = E[:, top - J : bottom - J, left - J : right - J]
            row, column = (w[top:bottom] - c) * t[:, None], (c - w[self.piv[left:right]]) * t[:, None]
            column = np.exp(np.maximum(column, FLOOR)) * mu[:, left - J : right - J]
            np.multiply(self.ratio[top:bottom, left:right], column[:, None], out=part)
            part *= np.exp(np.maximum(row, FLOOR))[:, :, None]

        if last - first < 1:
            return
        if (w[first] - w[last - 1]) * t.max() <= 2 * _LEVEL:
            product((w[first] + w[last - 1]) / 2, first, last, start, end)
        elif last - first <= _LEAF:
            part = E[:, first - J : last - J, start - J : end - J]
            np.multiply(self.exponent[first:last, start:end], t[:, None, None], out=part)
            np.exp(np.maximum(part, FLOOR, out=part), out=part)
            part *= self.ratio[first:last, start:end]
            part *= mu[:, None, start - J : end - J]
        else:
            product(float(w[half]), half, last, start, middle)
            E[:, first - J : half - J, middle - J : end - J] = 0.0
            self._growth(E, t, mu, J, first, half)
            self._growth(E, t, mu, J, half, last)


class _Sum:
    """left[:, :J] @ right[:, :J]ᵀ, for J that rise from call to call."""

    def __init__(self, left: Float[Array, "l J"], right: Float[Array, "r J"]) -> None:
        self.left, self.right, self.J = left, right, 0
        self.sum: Float[Array, "l r"] | None = None

    def add_to(self, stack: Float[Array, "b l r"], J: int) -> None:
        if J < self.J:
            self.J, self.sum = 0, None
        if J > self.J:
            new = self.left[:, self.J : J] @ self.right[:, self.J : J].T
            self.J, self.sum = J, new if self.sum is None else self.sum + new
        if self.sum is not None:
            stack += self.sum


def _exponential(rate: Float[Array, " g"], t: Float[Array, "T 1"]) -> Float[Array, "T g"]:
    """e^{rate·t} to the last digit, capped: what rounding takes off the exponent comes back as a factor."""
    x = rate * t
    (rate, rate_rest), (t, t_rest) = _halves(rate), _halves(np.minimum(t, 1e290))
    rest = ((rate * t - x) + rate * t_rest + rate_rest * t) + rate_rest * t_rest
    return np.where(x <= _HIGHEST, np.exp(np.minimum(x, _HIGHEST)) * (1 + rest), np.exp(_HIGHEST))


def _halves(x: Float[Array, "*shape"]) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """x as a sum of two numbers of 26 digits, whose products are exact (Dekker)."""
    wide = (2.0**27 + 1) * x
    high = wide - (wide - x)
    return high, x - high


def _diagonal(M: Float[Array, "m d"]) -> bool:
    """Whether all else is rounding."""
    rest = np.abs(M)
    np.fill_diagonal(rest, 0.0)
    return bool(rest.max(initial=0.0) <= _ROUNDING * np.abs(np.diag(M)).max(initial=0.0))


def _combine(
    operation: np.ufunc, plus: Float[Array, "b p k"], minus: Float[Array, "b q k"], out: Float[Array, "b q k"]
) -> None:
    """plus ± minus, where the first modes have no plus any more."""
    alone = minus.shape[1] - plus.shape[1]
    operation(plus, minus[:, alone:], out=out[:, alone:])
    if alone:
        operation(0.0, minus[:, :alone], out=out[:, :alone])


def _matrices(space: Float[Array, " space"], count: int, columns: int, *rows: int) -> list[Float[Array, "b _ k"]]:
    """Stacks of `count` matrices with so many rows, one stack after another in `space`."""
    ends = [0]
    for r in rows:
        ends.append(ends[-1] + count * r * columns)
    return [space[i:j].reshape(count, r, columns) for i, j, r in zip(ends, ends[1:], rows, strict=False)]
