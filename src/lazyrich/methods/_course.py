"""Modes of a deep network whose layers may have any sizes and rates: their courses in time (theory: section 13).

The sizes b_ℓ of a mode in the layers obey ḃ_ℓ = η_ℓ (s − a d) Π_{j≠ℓ} b_j, a = Πb, and conserve b_ℓ²/η_ℓ − b_j²/η_j.
With r_ℓ = |b_ℓ|/√η_ℓ, the smallest one taken with the sign of a and called y, all others are r_ℓ² = y² + κ_ℓ². The
second smallest, R with κ, makes a hyperbola with it, and the arc v along the hyperbola is the coordinate of the course:

    y = y₀ e^{±v} + (R₀ − |y₀|) sinh v,    R = |y₀| e^{±v} + (R₀ − |y₀|) cosh v        (the sign is that of y₀)
    v̇ = √(Πη) (s − a d) Π r_ℓ  over the other layers,    a = √(Πη) y R Π r_ℓ

No sum here cancels, whatever the sizes; two equal smallest layers (κ = 0) are no special case, except that y cannot
cross zero then. So t(v) = ∫ dv/v̇ is a quadrature. The course ends at y* with a(y*) = s/d, and the last of it is
followed in log |v* − v|, in which it is smooth for ever; a mode that fades to zero with κ = 0 has no end. The
quadrature is Gauss's, on panels short enough to resolve it; y(t) comes from the panels' polynomials by Newton's method.
All modes are done at once.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.inits.balanced import smallest_size

_EPS = float(np.finfo(np.float64).eps)
_POINTS = 16  # of a panel
_RESOLVED = 1e-14  # last Legendre coefficients of a panel, relative to its mean
_SHORT = 1e-3  # a panel that resolves all there is: the nearest singularity is at 2π/L
_LAST = 40.0  # e-foldings by which the end is reached to the last bit
_NOTHING = 1e-290  # a target this small has hardly a digit left
_GONE = 800.0  # e-foldings to less than the smallest number


class _Panels(NamedTuple):
    """Pieces of the courses, sorted by mode and along its course; `first` is where each mode begins, and one more.

    On [−1, 1] of a panel dt/dx = Σ c_n P_n(x), so t = (1 + x)[c_0 − (1 − x) Σ_{n>0} c_n P_n'(x)/(n(n + 1))], which
    keeps all its digits where t is small."""

    first: Array
    at: Float[Array, " p"]
    width: Float[Array, " p"]
    began: Float[Array, " p"]
    pace: Float[Array, "p n"]  # c_n
    inner: Float[Array, "p i"]  # Legendre coefficients of the sum

    def times(self, place: Array, w: Any) -> Any:
        """Since the beginning of a panel, at 1 + x = w."""
        return w * (self.pace[place, 0] - (2 - w) * _value(w - 1, self.inner[place].T))

    def slopes(self, place: Array, w: Any) -> Any:
        return _value(w - 1, self.pace[place].T)


class Courses:
    """Modes from their sizes b(0) on, one row per layer and one column per mode.

    Layers that differ by less than `slack`, relative, are taken for equal: what rounding may have made is none.

    >>> courses = Courses(np.array([[0.1], [0.2], [0.3]]), np.ones(3), np.ones(1), np.ones(1))
    >>> b = courses.sizes(np.array([0.0, 1e3]))[:, :, 0]
    >>> np.prod(b, axis=1).round(12), (b[:, 1] ** 2 - b[:, 0] ** 2).round(12)
    (array([0.006, 1.   ]), array([0.03, 0.03]))
    """

    def __init__(
        self,
        b0: Float[Array, "L m"],
        eta: Float[Array, " L"],
        s: Float[Array, " m"],
        d: Float[Array, " m"],
        slack: Float[Array, "L m"] | float = 8 * _EPS,
    ) -> None:
        self.eta, self.slack = eta, np.broadcast_to(slack, b0.shape)
        s = np.where(np.abs(s) > _NOTHING, s, 0.0)
        self.signs, self.mirror = np.where(b0 < 0, -1.0, 1.0), np.where(s < 0, -1.0, 1.0)
        self.target, self.s, self.d, self.unit = s, np.abs(s), d, float(np.sqrt(np.prod(eta)))
        r = np.abs(b0) / np.sqrt(eta)[:, None]
        self.order = np.argsort(r, axis=0, kind="stable")
        r, near = np.take_along_axis(r, self.order, 0), np.take_along_axis(self.slack, self.order, 0)
        tied = r - r[0] <= near * r + near[0] * r[0]
        tied = np.logical_or.accumulate(tied[::-1])[::-1]  # what lies between equals is equal
        with np.errstate(divide="ignore"):
            first = np.exp(np.sum(np.where(tied, np.log(r), 0.0), axis=0) / tied.sum(axis=0))
        self.ratio = np.where(tied & (first > 0), r / np.where(first > 0, first, 1.0), 1.0)
        apart = np.where(tied, 0.0, np.maximum(r - first, 0.0))
        self.kappa = (np.sqrt(apart) * np.sqrt(r + first))[1:]
        self.y0, self.gap = np.prod(self.signs, axis=0) * self.mirror * first, apart[1]
        self._plan()
        m = len(s)
        self._parts: list[tuple[Array, ...]] = []
        self._at, self._clock, self._width = np.zeros(m), np.zeros(m), np.full(m, 0.5)
        self._sorted: _Panels | None = None

    def _plan(self) -> None:
        """Where each course ends, how far that is, and from where on it is followed in log |v* − v|."""
        first, kappa = np.abs(self.y0), self.kappa[0]
        wanted = np.divide(self.s, self.d, out=np.zeros_like(self.s), where=self.d > 0) / self.unit
        self.end = smallest_size(wanted, self.kappa)
        R = np.hypot(self.end, kappa)
        self.end_gap = kappa * np.divide(kappa, R + self.end, out=np.zeros_like(kappa), where=R + self.end > 0)
        self.fading = (self.gap == 0) & ((self.s == 0) | (self.y0 < 0))
        moves = (self.d > 0) & (first + self.gap > 0)
        self.length = np.where(moves & ~self.fading, self._arc(self.end), 0.0)
        self.still = ~moves | (~self.fading & (self.length == 0))
        self.way = np.where(self.fading, -np.sign(self.y0), np.sign(self.length))
        self.length = np.abs(self.length)
        self.join = np.where(self.fading, 2 * _GONE, np.maximum(self.length - 1, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            late = np.where(self.end > 0, _LAST + np.log1p(self.end_gap / self.end), _GONE)
        self.last = np.where(self.fading, _GONE, self.join + late)
        self.rest = np.where(self.still, self.y0, np.where(self.fading, 0.0, self.end))

    def _arc(self, y: Float[Array, " m"]) -> Float[Array, " m"]:
        """v at y, of the two forms the one that does not cancel."""
        kappa, first = self.kappa[0], np.abs(self.y0)
        grown, before = np.hypot(y, kappa) + np.abs(y), self.gap + 2 * np.maximum(self.y0, 0.0)
        # R + y, which is κ²/(R − y) for y < 0
        now = np.where(y < 0, kappa * np.divide(kappa, grown, out=np.zeros_like(y), where=grown > 0), grown)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.where(
                np.maximum(first, np.abs(y)) <= kappa,
                np.arcsinh(y / kappa) - np.arcsinh(self.y0 / kappa),
                np.log(now / before),
            )

    def sizes(self, times: Array) -> Array:
        """b of each layer of each mode at each time (T, L, m); times may be complex, for derivatives."""
        m = len(self.y0)
        modes, clock = np.tile(np.arange(m), len(times)), np.repeat(times, m)
        return np.moveaxis(self.sizes_of(modes, clock).reshape(-1, len(times), m), 0, 1)

    def sizes_of(self, modes: Array, times: Array) -> Array:
        """b of each layer (L, n), of given modes each at a time of its own."""
        y = self._positions(modes, times)
        others = _hypot(y, self.kappa[:, modes]) * self.ratio[1:, modes]
        signs = np.take_along_axis(self.signs, self.order, 0)[:, modes]
        first = y * self.mirror[modes] * np.prod(signs[1:], axis=0) * self.ratio[0, modes]
        in_order = np.concatenate([first[None], signs[1:] * others])
        b = np.empty_like(in_order)
        np.put_along_axis(b, self.order[:, modes], in_order, 0)
        return np.sqrt(self.eta)[:, None] * b

    def restarted(self, time: float) -> Courses:
        """From the sizes that they have at a time."""
        return Courses(self.sizes(np.array([time]))[0], self.eta, self.target, self.d, self.slack)

    def when(self, a: Float[Array, " m"]) -> Float[Array, " m"]:
        """The time at which each mode has the strength a; nan: never."""
        a, found = a * self.mirror, np.full(len(a), np.nan)
        arc = np.where(self.way > 0, 1.0, -1.0) * self._arc(
            np.sign(a) * smallest_size(np.abs(a) / self.unit, self.kappa)
        )
        i = np.flatnonzero(~self.still & ~self.fading & (arc >= 0) & (arc < self.length))
        if len(i) == 0:
            return found
        wanted = np.full(len(a), -1.0)
        wanted[i] = np.inf
        self._reach(wanted)
        panels, arc, length, join = self._panels(), arc[i], self.length[i], self.join[i]
        at = np.where(arc <= join, arc, join - np.log((length - arc) / (length - join)))
        place = _last_before(panels.first, panels.at, i, at)
        w = np.minimum(2 * (at - panels.at[place]) / panels.width[place], 2.0)
        found[i] = panels.began[place] + panels.times(place, w)
        return found

    def _place(self, i: Array, c: Any, late: Array) -> tuple[Any, Any]:
        """y, and what is left of v with its sign, at c along the courses of the modes i: c is |v|, and in the `late`
        part join − log of what is left of it."""
        way, y0, gap, end, end_gap = (part[i, None] for part in (self.way, self.y0, self.gap, self.end, self.end_gap))
        length, join, late = self.length[i, None], self.join[i, None], late[:, None]
        fold = np.where(late, join - c, 0.0)
        left = np.where(late, (length - join) * np.exp(fold), length - c)
        gone = np.where(late, join - (length - join) * np.expm1(fold), c)
        from_end = late & (np.real(left) < np.real(gone))  # each formula is exact at its own end
        v, before = way * np.where(from_end, 0.0, gone), way * np.where(self.fading[i, None], 0.0, left)
        from_start = y0 * np.exp(np.where(y0 < 0, -1.0, 1.0) * v) + gap * np.sinh(v)
        return np.where(from_end, end * np.exp(-before) - end_gap * np.sinh(before), from_start), before

    def _pace(self, i: Array, c: Any, late: Array) -> Any:
        """dt/dc."""
        y, before = self._place(i, c, late)
        end, end_gap, kappa = self.end[i, None], self.end_gap[i, None], self.kappa[:, i, None]
        short = -end * np.expm1(-before) + end_gap * np.sinh(before)  # y* − y
        r = np.hypot(y, kappa)
        others = np.prod(r[1:], axis=0)
        lack = np.where(
            self.fading[i, None],
            self.s[i, None] - self.d[i, None] * self.unit * y * r[0] * others,
            self.d[i, None] * self.unit * _difference(end, y, short, np.hypot(end, kappa), r),
        )
        return np.where(late[:, None], before, self.way[i, None]) / (self.unit * lack * others)

    def _positions(self, modes: Array, times: Array) -> Array:
        """y of given modes, each at a time of its own."""
        clock = np.maximum(np.real(times), 0.0)
        wanted = np.full(len(self.y0), -1.0)
        np.maximum.at(wanted, modes, clock)
        self._reach(wanted)
        y = self.rest[modes].astype(times.dtype)
        some = np.flatnonzero(~self.still[modes] & (clock <= self._clock[modes]))
        if len(some) == 0:
            return y
        panels, i, clock = self._panels(), modes[some], clock[some]
        place = _last_before(panels.first, panels.began, i, clock)
        left, took = clock - panels.began[place], 2 * panels.pace[place, 0]
        w = np.minimum(2 * np.divide(left, took, out=np.zeros_like(left), where=took > 0), 2.0)
        for _ in range(60):
            slope = panels.slopes(place, w)
            step = np.divide(left - panels.times(place, w), slope, out=np.zeros_like(w), where=slope > 0)
            step = np.clip(step, -0.9 * w, 2 - w)
            w = w + step
            if np.all(np.abs(step) <= 1e-9 * w):  # the next would be its square
                break
        along: Any = w
        if np.iscomplexobj(times):  # for its derivative: one step off the real solution
            slope = panels.slopes(place, w)
            along = w + 1j * np.divide(np.imag(times[some]), slope, out=np.zeros_like(w), where=slope > 0)
        c = panels.at[place] + along / 2 * panels.width[place]
        y[some] = self._place(i, c[:, None], panels.at[place] >= self.join[i])[0][:, 0]
        return y

    @np.errstate(
        over="ignore", divide="ignore", invalid="ignore", under="ignore"
    )  # times too short or long for numbers
    def _reach(self, times: Float[Array, " m"]) -> None:
        """Panels up to the times, or to the end of the course."""
        x, to_series = _gauss()
        while True:
            i = np.flatnonzero(~self.still & (self._clock <= times) & (self._at < self.last))
            if len(i) == 0:
                return
            at, late = self._at[i], self._at[i] >= self.join[i]
            room = np.where(late, self.last[i], np.minimum(self.join[i], self.last[i])) - at
            width = np.minimum(self._width[i], room)
            pace = self._pace(i, at[:, None] + (x + 1) / 2 * width[:, None], late)
            series = pace @ to_series.T
            tail, mean = np.abs(series[:, -2:]).max(axis=1), series[:, 0]
            noise = 8 * _EPS * len(self.eta) * at  # of an exponential whose argument is rounded
            allowed = np.maximum((_RESOLVED + noise) * mean, _EPS * self._clock[i] / width)
            good = (tail <= allowed) | (width < _SHORT)
            grow = np.where(tail > 0, (allowed / np.where(tail > 0, tail, 1.0)) ** (1 / _POINTS), 2.0)
            self._width[i] = np.where(good & (width < self._width[i]), self._width[i], width * np.clip(grow, 0.3, 2.0))
            lost = ~np.isfinite(mean)  # it takes longer than there are numbers
            stays = i[lost]
            self.rest[stays], self.last[stays] = self._place(stays, at[lost, None], late[lost])[0][:, 0], 0.0
            self.still[stays] = at[lost] == 0
            good &= ~lost
            j, series = i[good], series[good] * width[good, None] / 2
            n = np.arange(1, _POINTS)
            inner = np.polynomial.legendre.legder((series * np.append(0.0, 1 / (n * (n + 1)))).T).T
            self._parts.append((j, at[good], width[good], self._clock[j], series, inner))
            self._clock[j] += 2 * series[:, 0]
            whole = width[good] >= room[good]
            limit = np.where(late[good], self.last[j], np.minimum(self.join[j], self.last[j]))
            self._at[j] = np.where(whole, limit, at[good] + width[good])
            self._sorted = None

    def _panels(self) -> _Panels:
        if self._sorted is None:
            modes, *rest = (np.concatenate(part) for part in zip(*self._parts, strict=True))
            by_mode = np.argsort(modes, kind="stable")
            first = np.searchsorted(modes[by_mode], np.arange(len(self.y0) + 1))
            self._sorted = _Panels(first, *(part[by_mode] for part in rest))
        return self._sorted


def _difference(end: Any, y: Any, short: Any, ends: Any, r: Any) -> Any:
    """y* Πr* − y Πr, factor by factor, so that nothing cancels:
    ΠA − ΠB = Σ_i (Π_{j<i} B_j) (A_i − B_i) (Π_{j>i} A_j)."""
    total, of_y = short * np.prod(ends, axis=0), y
    for k in range(len(r)):
        sum_of = ends[k] + r[k]
        apart = short * (end + y) / np.where(sum_of == 0, 1.0, sum_of)
        total = total + of_y * apart * np.prod(ends[k + 1 :], axis=0)
        of_y = of_y * r[k]
    return total


def _hypot(y: Any, kappa: Any) -> Any:
    """√(y² + κ²), also where the squares underflow, and to first order in the imaginary part of y."""
    size = np.hypot(np.real(y), kappa)
    if not np.iscomplexobj(y):
        return size
    return size + 1j * np.imag(y) * np.divide(np.real(y), size, out=np.zeros_like(size), where=size > 0)


def _last_before(first: Array, begins: Array, modes: Array, values: Array) -> Array:
    """The panel of each mode in which a value lies: the last that begins before it, or the first."""
    low, high = first[modes], first[modes + 1] - 1
    while np.any(low < high):
        middle = (low + high + 1) // 2
        before = begins[middle] < values
        low, high = np.where(before, middle, low), np.where(before, high, middle - 1)
    return low


def _value(x: Any, series: Any) -> Any:
    return np.polynomial.legendre.legval(x, series, tensor=False)


@cache
def _gauss() -> tuple[Array, Array]:
    """Gauss's points on [−1, 1], and what makes Legendre coefficients of the values of a function there."""
    x, weights = np.polynomial.legendre.leggauss(_POINTS)
    return x, (np.arange(_POINTS) + 0.5)[:, None] * np.polynomial.legendre.legvander(x, _POINTS - 1).T * weights
