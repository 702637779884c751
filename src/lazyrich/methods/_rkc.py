"""Gradient flow of many nonlinear networks at once, by a stabilised explicit method: Runge–Kutta–Chebyshev of order 2.

A step of s stages is stable for rates up to 0.65 s² over the step, so that long horizons cost the square root of what
plain explicit methods take (Sommeijer, Shampine and Verwer 1998; the coefficients below are theirs):

    Y_0 = y,    Y_1 = Y_0 + μ̃_1 h F_0,
    Y_j = (1 − μ_j − ν_j) Y_0 + μ_j Y_{j−1} + ν_j Y_{j−2} + h (μ̃_j F_{j−1} + γ̃_j F_0),
    y_next = Y_s,     error ≈ ⅘ (y − y_next) + ⅖ h (F(y) + F(y_next)).

The first three terms are taken as Y_0 + μ_j (Y_{j−1} − Y_0) + ν_j (Y_{j−2} − Y_0): a network at rest then stays there
to the last bit, also where multiplications and additions are fused.

s follows from h and from the spectral radius of ∂F/∂y, which a power iteration finds by differences of F. The kinks of
a ReLU make F jump by one sample's share: there the error falls in proportion to h only, and the tolerance decides how
finely they are resolved.

Every pass of the loop takes one gradient per network, whatever that network is at: each has its own step, stage and
time, and none waits for another.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import NamedTuple

import numpy as np

from lazyrich._typing import Array, JaxArray, Tree

_MOST_STAGES = 250
_POWER_START = 20  # power iterations before the first step
_POWER_EVERY = 10  # steps after which one more follows
_SAFETY = 1.2  # on the spectral radius, which the iteration approaches from below


class State(NamedTuple):
    """Where networks are. Arrays have the axes of the batch in front; y, f, … are lists over layers."""

    t: JaxArray
    h: JaxArray  # step to try next
    y: Tree
    f: JaxArray  # F(y)
    before: JaxArray  # Y_{j−2}
    point: JaxArray  # Y_{j−1}, or the displaced y of a power iteration: where F is taken next
    direction: JaxArray  # last difference of the power iteration
    radius: JaxArray
    stage: JaxArray  # 0: power iteration; j ≥ 2: F(Y_{j−1}) is due; stages + 1: F(y_next) is
    stages: JaxArray
    step: JaxArray  # h as taken, which may end at a time to record
    left: JaxArray  # power iterations to go, or steps until the next
    due: JaxArray  # number of the next time to record
    gradients: Tree
    taken: JaxArray
    rejected: JaxArray
    stuck: JaxArray
    origin: JaxArray  # y at t = 0


@cache
def _coefficients() -> tuple[Array, Array]:
    """(μ, ν, μ̃, γ̃)_j for each number of stages s, and the largest stable h·radius."""
    table, reach = np.zeros((_MOST_STAGES + 1, _MOST_STAGES + 1, 4)), np.zeros(_MOST_STAGES + 1)
    damping = 2 / 13
    for s in range(2, _MOST_STAGES + 1):
        w0 = 1 + damping / s**2
        T, D, D2 = np.zeros(s + 1), np.zeros(s + 1), np.zeros(s + 1)  # Chebyshev polynomials and derivatives at w0
        T[:2], D[1] = (1.0, w0), 1.0
        for j in range(2, s + 1):
            T[j] = 2 * w0 * T[j - 1] - T[j - 2]
            D[j] = 2 * T[j - 1] + 2 * w0 * D[j - 1] - D[j - 2]
            D2[j] = 4 * D[j - 1] + 2 * w0 * D2[j - 1] - D2[j - 2]
        w1 = D[s] / D2[s]
        b = np.empty(s + 1)
        b[2:] = D2[2:] / D[2:] ** 2
        b[:2] = b[2]
        table[s, 1, 2] = b[1] * w1
        mu, nu, mu_f = 2 * b[2:] * w0 / b[1:-1], -b[2:] / b[:-2], 2 * b[2:] * w1 / b[1:-1]
        table[s, 2 : s + 1] = np.stack([mu, nu, mu_f, -(1 - b * T)[1:-1] * mu_f], axis=1)
        reach[s] = 2 / 3 * (s**2 - 1) * (1 - 2 * damping / 15)
    return table, reach


def start(jax: ModuleType, velocity: Callable[..., Tree], weights: Tree, kinks: bool) -> State:
    """At t = 0, about to look for the spectral radius."""
    xp = jax.numpy
    y = [xp.asarray(W) for W in weights]
    f = list(velocity(y))
    zero, none = xp.zeros(y[0].shape[:-2], y[0].dtype), xp.zeros(y[0].shape[:-2], xp.int32)
    moving = _wide(_length(f) > 0)
    direction = [xp.where(moving, F, 1.0) for F in f]  # a network at rest still has a direction to look in: all ones
    point, left = _displaced(xp, y, direction, kinks), none + _POWER_START
    return State(
        t=zero, h=zero, y=y, f=f, before=y, point=point, direction=direction, radius=zero, stage=none, stages=none,
        step=zero, left=left, due=none, gradients=none + 1, taken=none, rejected=none, stuck=none > 0, origin=y,
    )  # fmt: skip


def advance(
    jax: ModuleType,
    velocity: Callable[..., Tree],
    state: State,
    records: Tree,
    stops: JaxArray,
    rtol: JaxArray,
    atol: JaxArray,
    passes: JaxArray,
    kinks: bool,
) -> tuple[State, JaxArray]:
    """Goes on for a number of passes, or until every network has reached its last stop or is stuck.

    `stops` has the times to record last, (*batch, K), growing and above 0; `records`, a list over layers of
    (K, *batch, out, in), takes the weights there. `atol`, one number per layer and network, is granted to the error
    of every step besides rtol. `kinks` says whether F has any.
    """
    xp, K = jax.numpy, stops.shape[-1]

    def one_pass(carry: JaxArray) -> Tree:
        before, records, count = carry
        after, arrived = _pass(xp, before, velocity(before.point), stops, rtol, atol, kinks)

        def write(kept: Tree) -> Tree:
            here = _wide(arrived & (_column(xp.arange(K), arrived.ndim) == before.due))
            return [xp.where(here, W, old) for W, old in zip(after.y, kept, strict=True)]

        return after, jax.lax.cond(arrived.any(), write, lambda kept: kept, records), count + 1

    def goes_on(carry: Tree) -> JaxArray:
        return ((carry[0].due < K) & ~carry[0].stuck).any() & (carry[2] < passes)

    state, records, _ = jax.lax.while_loop(goes_on, one_pass, (state, records, 0 * passes))
    return state, records


def _pass(
    xp: ModuleType, state: State, g: JaxArray, stops: JaxArray, rtol: JaxArray, atol: JaxArray, kinks: bool
) -> tuple[State, JaxArray]:
    """What becomes of F = g at the point where it was due; and who has arrived at a time to record."""
    K = stops.shape[-1]
    goal = xp.take_along_axis(stops, xp.minimum(state.due, K - 1)[..., None], axis=-1)[..., 0]
    runs = (state.due < K) & ~state.stuck
    power, end = runs & (state.stage == 0), runs & (state.stage == state.stages + 1)
    inside = runs & ~power & ~end

    def pick(where: JaxArray, new: Tree, old: Tree) -> Tree:
        return [xp.where(_wide(where), a, b) for a, b in zip(new, old, strict=True)]

    difference = [a - b for a, b in zip(g, state.f, strict=True)]
    seen = _length(difference)
    radius = _SAFETY * seen / _displacement(xp, state.y, kinks)
    radius = xp.where(state.taken + state.rejected > 0, xp.maximum(radius, 0.5 * state.radius), radius)
    radius = xp.where(power, radius, state.radius)
    direction = pick(power & (seen > 0), difference, state.direction)

    error = _error(xp, state, g, rtol, atol)
    good = end & (error <= 1)
    factor = xp.clip(0.8 * error ** (-1 / 3), 0.2, 4.0)
    full = state.step >= 0.999 * state.h  # a step cut short by a time to record says nothing against longer ones
    h = xp.where(end, xp.where(good & ~full, xp.maximum(state.h, factor * state.step), factor * state.step), state.h)
    y, f = pick(good, state.point, state.y), pick(good, g, state.f)
    last = state.t + state.step >= goal * (1 - 8 * xp.finfo(goal.dtype).eps)
    arrived = good & last
    t = xp.where(arrived, goal, xp.where(good, state.t + state.step, state.t))
    rejected = end & ~good
    stuck = state.stuck | (power & ~xp.isfinite(radius)) | (rejected & (t + 0.1 * h <= t))

    left = xp.where(power | end, state.left - 1, state.left)
    left = xp.where(rejected, 0, left)
    begin, probe = (power & (left <= 0)) | (end & (left > 0)), (power & (left > 0)) | (end & (left <= 0))
    left = xp.where(power & (left <= 0), _POWER_EVERY, xp.where(end & (left <= 0), 1, left))

    due = state.due + arrived
    goal = xp.take_along_axis(stops, xp.minimum(due, K - 1)[..., None], axis=-1)[..., 0]
    table, reach = (xp.asarray(part, goal.dtype) for part in _coefficients())
    h = xp.where(begin & (h == 0), 1 / radius, h)
    step = xp.where(begin, xp.minimum(xp.minimum(h, 0.95 * reach[-1] / radius), goal - t), state.step)
    wanted = 1 + xp.floor(xp.sqrt(1 + 1.54 * step * radius)).astype(state.stages.dtype)
    stages = xp.where(begin, xp.clip(wanted, 2, _MOST_STAGES), state.stages)

    first, c = table[stages, 1, 2] * step, table[stages, xp.where(inside, state.stage, 2)]
    mu, nu, mu_f, gamma_f = (_wide(c[..., i]) for i in range(4))
    hh = _wide(step)
    inner = [
        a + mu * (b - a) + nu * (old - a) + hh * (mu_f * F + gamma_f * F0)
        for a, b, old, F, F0 in zip(y, state.point, state.before, g, f, strict=True)
    ]
    opening = [a + _wide(first) * F0 for a, F0 in zip(y, f, strict=True)]
    point = pick(begin, opening, pick(inside, inner, pick(probe, _displaced(xp, y, direction, kinks), state.point)))
    before = pick(begin, y, pick(inside, state.point, state.before))
    stage = xp.where(begin, 2, xp.where(inside, state.stage + 1, xp.where(probe, 0, state.stage)))
    after = State(
        t=t, h=h, y=y, f=f, before=before, point=point, direction=direction, radius=radius, stage=stage, stages=stages,
        step=step, left=left, due=due, gradients=state.gradients + runs, taken=state.taken + good,
        rejected=state.rejected + rejected, stuck=stuck, origin=state.origin,
    )  # fmt: skip
    return after, arrived


def _error(xp: ModuleType, state: State, g: JaxArray, rtol: JaxArray, atol: JaxArray) -> Tree:
    """Estimated error of a step over what is granted, the worse of the layers; infinite where it is not a number.

    Granted is rtol times the length of a layer, or times the way that the network has come, where that is shorter:
    in the lazy regime large weights move a little, and that little is all there is.
    """
    h = _wide(state.step)
    parts = zip(state.y, state.point, state.f, g, strict=True)
    estimates = _norms([0.8 * (a - b) + 0.4 * h * (F0 + F) for a, b, F0, F in parts])
    way = _length([a - b for a, b in zip(state.point, state.origin, strict=True)])
    lengths = [xp.maximum(a, b) for a, b in zip(_norms(state.y), _norms(state.point), strict=True)]
    rounding = 4 * xp.finfo(way.dtype).eps  # of each layer, in its estimate: no step would be too small to have it
    granted = [
        floor + rtol * xp.minimum(way, length) + rounding * length for floor, length in zip(atol, lengths, strict=True)
    ]
    # a layer of zeros at rest has no error, and is granted none
    shares = [xp.where(e > 0, e / limit, xp.where(e == 0, 0.0, e)) for e, limit in zip(estimates, granted, strict=True)]
    worst = xp.stack(shares).max(0)
    return xp.where(xp.isfinite(worst), xp.maximum(worst, 1e-10), xp.inf)


def _displacement(xp: ModuleType, y: Tree, kinks: bool) -> Tree:
    """How far the power iteration looks: half of the digits, or far enough to see many kinks, as one has no slope."""
    norms = xp.stack(_norms(y))
    least = xp.where(norms > 0, norms, xp.inf).min(0)
    share = 1e-3 if kinks else xp.finfo(y[0].dtype).eps ** 0.5
    return share * xp.where(xp.isfinite(least), least, 1.0)


def _displaced(xp: ModuleType, y: Tree, direction: JaxArray, kinks: bool) -> Tree:
    by = _wide(_displacement(xp, y, kinks) / _length(direction))
    return [a + by * b for a, b in zip(y, direction, strict=True)]


def _norms(layers: JaxArray) -> list[JaxArray]:
    """Length of each layer, for a batch."""
    return [(W**2).sum((-2, -1)) ** 0.5 for W in layers]


def _length(layers: JaxArray) -> Tree:
    return sum((W**2).sum((-2, -1)) for W in layers) ** 0.5


def _wide(number: JaxArray) -> Tree:
    """A number per network, to go with its matrices."""
    return number[..., None, None]


def _column(numbers: JaxArray, axes: int) -> Tree:
    return numbers.reshape(-1, *(1,) * axes)
