"""The weights along an exact trajectory, in the hidden basis they were given in (theory: end of section 1).

QQᵀ(t) leaves the rotation of the hidden units open. In the eigenbasis of F, with L the echelon form of the
initialisation, `evaluation` knows at every time

    P(t) = e^{wt} L R^{−T},     RRᵀ = I + Lᵀ diag(∫₀ᵗ e^{2ws} ds) L,     R upper triangular,

whose Gram matrix is exact. P Ω obeys the flow if Ω does

    Ω̇ = ½(lower(X) − upper(X)) Ω,     X = PᵀP,     Ω(0) = I,

where upper and lower are what stands above and below the diagonal: with X = R⁻¹ (d/dt RRᵀ) R^{−T} = Φ + Φᵀ, Φ = R⁻¹Ṙ is
its upper triangle with half the diagonal. So Ω has a linear equation whose coefficients are known in closed form, it
is solved by collocation at Gauss's points, and between these it is known too: steps are as long as accuracy allows,
however many times are asked for. R is upper, not lower, triangular because P is then lower triangular in its pivot
rows, as L is: where columns have saturated it is diagonal, and Ω rests (`_rest`), also between singular values that
nearly coincide. What rounding makes of X from then on would add up, at a rate of eps·|λ|, and is left out. Where more
rows grow than there are columns, two nearly equal eigenvalues may turn columns for a time of 1/(their difference), at a
rate of which rounding leaves few digits: there QQᵀ and D stay exact, and Ω is as good as the singular values tell,
about eps·s·t (`doubt_until` counts that).
"""

from __future__ import annotations

import numpy as np

from lazyrich._progress import progress
from lazyrich._threads import one_blas_thread, spread
from lazyrich._typing import Array, Float
from lazyrich.methods.riccati.collocation import between, gauss, solved
from lazyrich.methods.riccati.evaluation import Evaluation
from lazyrich.methods.riccati.grading import Graded

_EPS = float(np.finfo(np.float64).eps)
_STAGES = 16  # of a step
_TAIL = 1e-12  # largest last Legendre coefficient of Ω̇ in a step, times its length: what comes after is less
_TURN = 1.0  # longest step, in units of 1/‖Ω̇‖
_COUPLED = 4 * _EPS  # cosine between columns that is nothing but rounding
_SLOW = 1e-20  # of the fastest rate: a rotation that will never show
_SATURATED = 40.0  # e^{−40}: what is left of a column's way
_REACH = 10.0  # longest step before that, in units of 1/w
_FALLS = 0.3  # of a tail that goes with the length of a step
_SHORTEST = 1e-6  # of the first step: shorter ones gain nothing
_AT_ONCE = 2**19  # numbers of P


def follow(graded: Graded, times: Float[Array, " T"]) -> Float[Array, "T n h"]:
    """Q(t) in the coordinates of the canonical problem, times not decreasing."""
    path, result = _Path(graded), np.empty((len(times), len(graded.L), graded.rows.shape[1]))
    done = 0
    with progress(len(times), "weights") as advance:
        while done < len(times):
            step = path.step(float(times[-1]))
            until = int(np.searchsorted(times, step.end, side="right"))
            some = range(done, until)

            def fill(i: int, step: _Step = step) -> None:
                Q = path.states(times[i : i + 1])[0] @ (step.rotation(float(times[i])) @ graded.rows)
                result[i] = graded.spectrum.to_coordinates(Q)
                advance(1)

            spread(fill, some, heavy=len(some) * result[0].size > _AT_ONCE)
            done = until
    return result


class _Step:
    """Ω from one time to another; `slopes` are those of what multiplies Ω, at Gauss's points."""

    def __init__(self, start: float, end: float, Omega: Array, slopes: Float[Array, "s a a"], active: Array) -> None:
        self.start, self.end, self.Omega, self.slopes, self.active = start, end, Omega, slopes, active

    def rotation(self, t: float) -> Float[Array, "k k"]:
        """Ω(t), orthogonal."""
        if not self.active.any() or t == self.start:
            return self.Omega
        turn = between(self.slopes, (t - self.start) / (self.end - self.start)) * (self.end - self.start)
        turn[np.diag_indices(len(turn))] += 1.0
        turn += turn @ (np.eye(len(turn)) - turn.T @ turn) / 2  # orthogonal to rounding, not to the step's error
        Omega = self.Omega.copy()
        Omega[self.active] = turn @ self.Omega[self.active]
        return Omega


class _Path:
    """Ω as far as it has been followed."""

    def __init__(self, graded: Graded) -> None:
        w, l = graded.spectrum.w[graded.pivots], graded.pivot_lengths
        self.evaluation = Evaluation(graded, np.ones(len(graded.spectrum.w)))
        self.now, self.Omega, self.w = 0.0, np.eye(len(l)), w
        self.fastest = float(np.abs(graded.spectrum.w).max(initial=0.0)) + float(np.sum(l**2))
        self.H = self.first = 0.5 / max(self.fastest, 1e-300)
        with np.errstate(divide="ignore", invalid="ignore"):
            saturated = (_SATURATED + np.maximum(np.log(2 * w) - 2 * np.log(l), 0.0)) / (2 * w)
        self.saturated = np.where(w > 0, saturated, 0.0)
        self.rest = _rest(graded)

    def states(self, times: Float[Array, " T"]) -> Float[Array, "T n k"]:
        """P(t)."""
        from lazyrich.methods.riccati import _lapack  # here, to keep `import lazyrich` quick

        Y, A = self.evaluation.factors(times)
        if not A.size:
            return Y
        inverse = np.empty_like(A)
        try:
            _lapack.invert(_lapack.factor(np.ascontiguousarray(A[:, ::-1, ::-1])), inverse)
        except _lapack.NoFactor as broken:
            raise ArithmeticError(
                f"weights cannot be followed as far as t = {times[broken.place]:g}: next to the "
                "separatrix rounding of the initialisation decides by then. Try lr.flow, or an earlier last time."
            ) from None
        return np.asarray(Y @ inverse[:, ::-1, ::-1].mT)

    def step(self, end: float) -> _Step:
        """The next step, as long as it can be; to the end where nothing turns any more.

        A tail that hardly falls when the step is shortened, instead of by the power of the stages, is rounding: of
        columns that almost cancel, say. Shorter steps would gain nothing.
        """
        if self.now >= self.rest:
            here, self.now = self.now, end
            return _Step(here, end, self.Omega, np.empty((0, 0, 0)), np.zeros(len(self.w), bool))
        end = min(end, self.rest)
        tried, before = np.inf, np.inf
        while True:
            growing = self.w[self.saturated > self.now]
            H = min(self.H, _REACH / float(growing.max())) if growing.size else self.H
            H = min(H, max(end - self.now, 1e-300))
            generators, noise = self._generators(self.now + H * gauss(_STAGES).points)
            turning = np.abs(generators).max(axis=(0, 1), initial=0.0) > 0
            if not turning.any():
                last = end if not growing.size else self.now + H
                taken = _Step(self.now, last, self.Omega, generators[:, :0, :0], turning)
                self.now, self.H = last, 4 * H
                return taken
            active = generators[:, turning][:, :, turning]
            size = H * float(np.linalg.norm(active, axis=(1, 2)).max())
            factor = _TURN / size
            if factor >= 0.25 * _TURN:
                with one_blas_thread():
                    slopes, tail = solved(active, H)
                tail -= H * noise  # shorter steps would not make this less
                factor = min(factor, 0.9 * (_TAIL / max(tail, 1e-30)) ** (1 / _STAGES))
                rounding = H < tried < np.inf and tail > _FALLS * before * H / tried
                if tail <= 4 * _TAIL or rounding or self.first * _SHORTEST >= H:
                    taken = _Step(self.now, self.now + H, self.Omega, slopes, turning)
                    with one_blas_thread():
                        self.Omega, self.now = taken.rotation(self.now + H), self.now + H
                    self.H = 2 * tried if rounding else H * min(2.0, max(0.2, factor))
                    return taken
                tried, before = H, tail
            self.H = H * min(0.7, max(0.1, factor))

    def _generators(self, times: Float[Array, " s"]) -> tuple[Float[Array, "s k k"], float]:
        """½(lower(X) − upper(X)), without what is rounding, and how large rounding of the others may be."""
        k = len(self.w)
        result, n = np.empty((len(times), k, k)), self.evaluation.size // max(k, 1)
        noise = np.zeros(len(times))

        def fill(i: int) -> None:
            P = self.states(times[i : i + 1])[0]
            X = P.T @ P
            lengths = np.sqrt(np.diag(X))
            rounding = _COUPLED * np.outer(lengths, lengths)
            X[np.abs(X) <= rounding + _SLOW * self.fastest] = 0.0
            lower = np.tril(X, -1) / 2
            result[i], noise[i] = lower - lower.T, rounding[lower != 0].max(initial=0.0)

        spread(fill, range(len(times)), heavy=len(times) * n * k > _AT_ONCE)
        return result, float(noise.max(initial=0.0))


def _rest(graded: Graded) -> float:
    """From when on Ω rests, to rounding; inf where some column never saturates.

    With pivot rows L_p and the others L_o, PPᵀ of the pivot rows is (e^{−wt}(L_pL_pᵀ)⁻¹e^{−wt} + (1 − e^{−2wt})/2w)⁻¹,
    diagonal once the first term has gone, and the others have L_oL_p⁻¹ in front of e^{(w_o − w_p)t} beside it.
    """
    w, piv = graded.spectrum.w, graded.pivots
    others = np.delete(np.arange(len(w)), piv)
    if not len(piv):
        return 0.0
    if not np.all(w[piv] > 0):
        return np.inf
    inverse = np.linalg.inv(graded.L[piv])
    with np.errstate(divide="ignore", invalid="ignore"):
        columns = (_SATURATED + np.log(2 * w[piv] * np.sum(inverse**2, axis=0))) / (2 * w[piv])
        shares, gap = np.abs(graded.L[others] @ inverse), w[piv] - w[others, None]
        rows = np.where((shares > 0) & (gap > 0), (_SATURATED + np.log(shares)) / gap, 0.0)
    return float(max(columns.max(), rows.max(initial=0.0), 0.0))
