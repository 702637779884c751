"""One mode of a deep network whose layers may have any sizes and rates: its course in time (theory: section 13).

The sizes b_ℓ of a mode in the layers obey ḃ_ℓ = η_ℓ (s − a d) Π_{j≠ℓ} b_j, a = Πb, and conserve b_ℓ²/η_ℓ − b_j²/η_j. So
with y² the least of b_ℓ²/η_ℓ, and y signed like a, all others are b_ℓ² = η_ℓ (y² + k_ℓ) with constants k_ℓ ≥ 0, and

    ẏ = (s − d a) H(y),     a = y H(y),     H = √(Πη) Π_{ℓ≠least} √(y² + k_ℓ)

is one equation for one number. Its time t(y) = ∫ dy / ((s − d a) H) is a quadrature, in a coordinate v in which the
course is smooth from its beginning to its end:

    rising    0 < y < y* where H(0) = 0      y = y* / (1 + e^{−v})
    fading    to 0, for s = 0 or H(0) = 0    y = y0 e^{−v}
    relaxing  all others, towards y*         y = y* + (y0 − y*) e^{−v}        a(y*) = s/d

H(0) = 0 where a second layer has k = 0: y cannot cross zero then. The quadrature is Gauss's, on panels that are halved
until they resolve it; y(t) comes from the panels' polynomials by Newton's method.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from lazyrich._typing import Array, Float

_EPS = float(np.finfo(np.float64).eps)
_POINTS = 16  # of a panel
_RESOLVED = 1e-14  # last Legendre coefficients of a panel, relative to its mean
_ENDED = 45.0  # v by which rising and relaxing modes have reached their end to the last bit
_MOST = 4000  # panels


class _Panels(NamedTuple):
    """Time as a polynomial of v on each panel: Legendre coefficients on [−1, 1], zero at −1."""

    v: list[float]
    width: list[float]
    began: list[float]  # one more than there are panels
    series: list[Float[Array, " p"]]


class Course:
    """One mode from its sizes b(0) on.

    >>> course = Course(np.array([0.1, 0.2, 0.3]), np.ones(3), s=1.0, d=1.0)
    >>> b = course.sizes(np.array([0.0, 1e3]))
    >>> np.prod(b, axis=1).round(12), (b[:, 1] ** 2 - b[:, 0] ** 2).round(12)
    (array([0.006, 1.   ]), array([0.03, 0.03]))
    """

    def __init__(self, b0: Float[Array, " L"], eta: Float[Array, " L"], s: float, d: float) -> None:
        root = np.abs(b0) / np.sqrt(eta)
        self.least = int(np.argmin(root))
        first = float(root[self.least])
        self.eta, self.s, self.d = eta, s, d
        # a difference that rounding may have made is none
        self.k = np.where(root - first > 8 * _EPS * root, (root - first) * (root + first), 0.0)
        self.others = np.delete(self.k, self.least)
        self.signs = np.where(b0 < 0, -1.0, 1.0)
        self.y0 = float(np.prod(self.signs)) * first
        self.goal = self._goal()
        barred = bool(np.any(self.others == 0))
        self.fading = self.goal == 0 or (barred and self.y0 * self.goal < 0)
        self.rising = barred and not self.fading and abs(self.y0) < abs(self.goal)
        self.still = d == 0 or self.y0 == self.goal or (barred and self.y0 == 0)
        v0 = float(np.log(self.y0 / self.goal) - np.log1p(-self.y0 / self.goal)) if self.rising and self.y0 else 0.0
        self.panels = _Panels([], [], [0.0], [])
        self.next_v = v0

    def sizes(self, times: Array) -> Array:
        """b of each layer at each time (T, L); times may be complex, for derivatives."""
        y = self._positions(np.asarray(times))[:, None]
        sizes = np.where(self.k == 0, y * np.sign(self.y0 or 1.0), np.sqrt(y * y + self.k))
        sizes[:, self.least] = y[:, 0] * float(np.prod(np.delete(self.signs, self.least))) * self.signs[self.least]
        return self.signs * np.sqrt(self.eta) * sizes

    def _goal(self) -> float:
        """y* with a(y*) = s/d. log a is convex in log y, with slopes from 1 to L: Newton's method cannot miss."""
        if self.d == 0 or self.s == 0:
            return 0.0
        goal, z = np.log(abs(self.s)) - np.log(self.d) - np.sum(np.log(self.eta)) / 2, 0.0
        for _ in range(100):
            squares = np.exp(2 * z) + self.others
            step = (goal - z - np.sum(np.log(squares)) / 2) / (1 + np.sum(np.exp(2 * z) / squares))
            z += step
            if abs(step) <= 4 * _EPS * max(1.0, abs(z)):
                break
        return float(np.sign(self.s) * np.exp(z))

    def _place(self, v: Any) -> tuple[Any, Any]:
        """y and dt/dv at v."""
        e = np.exp(-v)
        if self.fading:
            y = self.y0 * e
            H = self._H(y)
            return y, y / ((self.d * y * H - self.s) * H)
        if self.rising:
            y, short = self.goal / (1 + e), self.goal * e / (1 + e)
            return y, y / self.goal * short / (self._lack(y, short) * self._H(y))
        y, short = self.y0 * e - self.goal * np.expm1(-v), (self.goal - self.y0) * e
        return y, short / (self._lack(y, short) * self._H(y))

    def _H(self, y: Any) -> Any:
        product = np.sqrt(np.prod(self.eta))
        for k in self.others:
            product = product * (np.sqrt(y * y + k) if k else y * np.sign(self.y0))
        return product

    def _lack(self, y: Any, short: Any) -> Any:
        """s − d a(y) for y = y* − short, factor by factor, so that nothing cancels:
        ΠA − ΠB = Σ_i (Π_{j<i} B_j) (A_i − B_i) (Π_{j>i} A_j)."""
        factors = [(self.goal, y, short)]
        for k in self.others:
            side = np.sign(self.y0)
            ends = (np.sqrt(self.goal**2 + k), np.sqrt(y * y + k)) if k else (side * self.goal, side * y)
            factors.append((*ends, short * (self.goal + y) / (ends[0] + ends[1]) if k else side * short))
        lack, of_y = 0.0 * y, 1.0
        for i, (_, here, apart) in enumerate(factors):
            lack = lack + of_y * apart * np.prod([end for end, _, _ in factors[i + 1 :]])
            of_y = of_y * here
        return self.d * np.sqrt(np.prod(self.eta)) * lack

    def _positions(self, times: Array) -> Array:
        """y at each time."""
        y = np.full(len(times), self.y0, dtype=times.dtype)
        if self.still or len(times) == 0:
            return y
        clock = np.maximum(np.real(times), 0.0)
        self._reach(float(clock.max()))
        began = np.array(self.panels.began)
        y[clock > began[-1]] = 0.0 if self.fading else self.goal
        some = np.flatnonzero(clock <= began[-1])
        place = np.minimum(np.searchsorted(began, clock[some], side="right") - 1, len(began) - 2)
        series, took = np.array(self.panels.series)[place].T, np.diff(began)[place]
        slopes = np.polynomial.legendre.legder(series)
        left = clock[some] - began[place]
        x: Any = np.clip(2 * left / took - 1, -1.0, 1.0)
        for _ in range(50):
            step = (left - _value(x, series)) / _value(x, slopes)
            step = np.clip(step, -1 - x, 1 - x)
            x = x + step
            if np.all(np.abs(step) <= 2 * _EPS):
                break
        if np.iscomplexobj(times):  # for its derivative: one step off the real solution
            x = x + 1j * np.imag(times[some]) / _value(x, slopes)
        v, width = np.array(self.panels.v)[place], np.array(self.panels.width)[place]
        y[some] = self._place(v + (x + 1) / 2 * width)[0]
        return y

    def _reach(self, time: float) -> None:
        """Panels up to `time`, or to the end of the course."""
        while self.panels.began[-1] < time and (self.fading or self.next_v < _ENDED) and len(self.panels.v) < _MOST:
            self._extend(self.next_v, 1.0)
            self.next_v += 1.0

    def _extend(self, v: float, width: float) -> None:
        """One panel, or its halves where it does not resolve the course."""
        x, to_series = _gauss()
        series = to_series @ self._place(v + (x + 1) / 2 * width)[1]
        if np.abs(series[-2:]).max() > _RESOLVED * abs(series[0]) and width > 8 * _EPS * max(1.0, abs(v)):
            self._extend(v, width / 2)
            self._extend(v + width / 2, width / 2)
            return
        time = np.polynomial.legendre.legint(series, lbnd=-1) * width / 2
        took = float(np.polynomial.legendre.legval(1.0, time))
        self.panels.v.append(v)
        self.panels.width.append(width)
        self.panels.began.append(self.panels.began[-1] + took)
        self.panels.series.append(time)


def _value(x: Any, series: Any) -> Any:
    return np.polynomial.legendre.legval(x, series, tensor=False)


@cache
def _gauss() -> tuple[Array, Array]:
    """Gauss's points on [−1, 1], and what makes Legendre coefficients of the values of a function there."""
    x, weights = np.polynomial.legendre.leggauss(_POINTS)
    return x, (np.arange(_POINTS) + 0.5)[:, None] * np.polynomial.legendre.legvander(x, _POINTS - 1).T * weights
