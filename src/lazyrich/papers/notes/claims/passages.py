"""When a flow passes a level: what the claims on times, widths and orders of learning measure.

Starts may be smaller than 1e-20 here, so that what holds for small starts holds to many digits; velocities are written
out for layers of equal square shape, and the integrator is told to look at relative errors alone.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from scipy.integrate import DOP853
from scipy.optimize import brentq

from lazyrich._typing import Array
from lazyrich.papers.base.oracles import RTOL, integrate
from lazyrich.papers.base.types import Real, Row, Values

TINY = 1e-200  # absolute tolerance: none
_MOST_STEPS = 20_000

Velocity = Callable[[Array], Array]


def diagonal(s: Real) -> Velocity:
    """The flow of L diagonal layers, a state (L, k) without zeros, on the target diag(s): every entry on its own."""

    def velocity(w: Array) -> Array:
        a = np.multiply.reduce(w)
        return a / w * (s - a)

    return velocity


def square(T: Array) -> Velocity:
    """The flow of L square layers, a state (L, n, n), first layer first, on the target T."""

    def velocity(Ws: Array) -> Array:
        below = [np.eye(len(T))]
        for W in Ws:
            below.append(W @ below[-1])
        error, change = T - below[-1], np.empty_like(Ws)
        for layer in reversed(range(len(Ws))):
            change[layer] = error @ below[layer].T
            error = Ws[layer].T @ error
        return change

    return velocity


def follow(velocity: Velocity, start: Array, times: Row) -> Array:
    """The states at these times, to eleven digits of however small a start."""
    return integrate(velocity, start, times, atol=TINY)


def passages(velocity: Velocity, start: Array, readings: Callable[[Array], Values], *, rtol: float = RTOL) -> Array:
    """For each reading of the state (an array of them), the first time at which it is no longer negative."""
    start = np.asarray(start, dtype=float)

    def flat(_: float, x: Array) -> Array:
        return velocity(x.reshape(start.shape)).ravel()

    def read(x: Array) -> Array:
        return np.atleast_1d(readings(x.reshape(start.shape)))

    run = DOP853(flat, 0.0, start.ravel(), np.inf, rtol=rtol, atol=TINY)
    times = np.where(read(run.y) >= 0, 0.0, np.nan)
    for _ in range(_MOST_STEPS):
        if not np.isnan(times).any():
            return times
        then, state = run.t, run.y.reshape(start.shape)
        run.step()
        for i in np.flatnonzero(np.isnan(times) & (read(run.y) >= 0)).tolist():

            def reading(span: float, i: int = i, state: Array = state) -> float:
                return float(np.atleast_1d(readings(follow(velocity, state, [span])[0]))[i])

            times[i] = then + brentq(reading, 0.0, run.t - then, xtol=1e-300, rtol=1e-14)
    raise RuntimeError(f"not all readings were passed by t = {run.t:g}")


def half_times(a0: Real | Sequence[float], s: Real, L: int) -> Array:
    """When modes of L equal layers get from a0 to s/2; one at a time, since one that is learned makes others stiff."""
    return np.array([time_between(a, si / 2, si, L) for a, si in np.broadcast(np.atleast_1d(a0), s)])


def time_between(a0: float, level: float, s: float, L: int) -> float:
    """When one mode of L equal layers gets from a0 to a level: one unit per layer, integrated."""
    (time,) = passages(diagonal(s), np.full((L, 1), a0 ** (1 / L)), lambda w: w.prod(axis=0) - level)
    return float(time)


def extrapolated(values: Array | Sequence[Real]) -> Values:
    """The limit of values at h, h/2, h/4, … whose error is a power series in h (Richardson)."""
    values, order = [np.asarray(value, dtype=float) for value in values], 1
    while len(values) > 1:
        values = [(2**order * fine - coarse) / (2**order - 1) for coarse, fine in pairwise(values)]
        order += 1
    return values[0]
