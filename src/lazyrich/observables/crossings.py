"""When the modes of exact curves are first half way, to rounding, for one problem or a stack of them.

A mode that is learned has done the share x = y/(1 + y) of its way with y = ĝ l² e^{2wt} nearly, so that t is almost
linear in the logit ln(x/(1 − x)), and of a mode that relaxes it is as smooth. So t is interpolated as a function of the
logit through all times around the crossing, by Newton's divided differences, whose last terms tell the error, if the
guess before was as good as it should have been. Every
evaluation gives all modes, and a time that was looked at for one serves its neighbours: one or two looks at each mode
are the rule. Where curves are not like that (they fall first, or overshoot) the crossing is kept between the two times
around it, which are halved. The first crossing among the times that were looked at counts, so the first of them must
be as close as anything happens; `starting_times` and `filled` choose them, `Solution.likely_half_times` helps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.methods.base import FOREVER
from lazyrich.problem import Problem

#: Of some of the problems (their indices), at times of their own: the strengths of all modes.
Strengths = Callable[[Array, Float[Array, "b T"]], Float[Array, "b T m"]]

STILL = 1e-9  # of the largest strength: a mode that moves by less rests
_EPS = 2 * float(np.finfo(np.float64).eps)
_NODES = 12  # times around the crossing that t is interpolated through
_SIDE = 4  # records on each side that `reached` interpolates through
_INSIDE = 1e-5  # shares nearer to 0 or 1 than this have lost digits
_SURE = 2e-13  # of the time: an error that is rounding
_SEEN = 1e-12  # of the time: what is closer to a time looked at is known
_ROUNDS = 24  # two or three are the rule
_RISE = 1.4  # from time to time, where something happens
_APART = 1.04  # times that are likely, by this factor
_MANY, _CLOSE = 32, 0.1  # modes that are looked at in turn where they are as close as this, in units of their width
_LADDER = 4.0 ** np.arange(31)  # to 1e18 times the first


class Curves(NamedTuple):
    """Strengths of each problem at times of its own, in rising order, the first 0; inf fills up shorter rows."""

    times: Float[Array, "B T"]
    strengths: Float[Array, "B T m"]

    def joined(self, times: Float[Array, "B n"], strengths: Float[Array, "B n m"]) -> Curves:
        """With other times, in order."""
        all_times = np.concatenate([self.times, times], axis=1)
        order = np.argsort(all_times, axis=1, kind="stable")
        values = np.concatenate([self.strengths, strengths], axis=1)
        return Curves(np.take_along_axis(all_times, order, 1), np.take_along_axis(values, order[:, :, None], 1))

    def some(self, which: Array | slice) -> Curves:
        return Curves(self.times[which], self.strengths[which])


def shares(curves: Curves, limit: Float[Array, "B m"]) -> Float[Array, "B T m"]:
    """How much of its way from its first strength to its limit each mode has done; 0 where there is no way to go."""
    first = curves.strengths[:, :1]
    way = limit[:, None] - first
    scale = np.maximum(np.abs(curves.strengths).max(axis=(1, 2)), np.abs(limit).max(axis=1))[:, None, None]
    return (curves.strengths - first) / np.where(np.abs(way) > STILL * scale, way, np.inf)


def soonest(problem: Problem, strongest: float) -> float:
    """A time before anything has changed; `strongest` is the largest singular value of the best map."""
    sizes = sum(float(np.linalg.norm(W, 2)) ** 2 for W in problem.network.weights) + strongest
    inputs = max(float(np.linalg.norm(problem.task.sigma_xx, 2)), 1e-300)
    return min(0.01 / (max(problem.rates) * inputs * max(sizes, 1e-300)), 1e-19 * FOREVER)


def starting_times(soonest: Float[Array, " B"], likely: Float[Array, "B j"]) -> Float[Array, "B T"]:
    """0, a ladder from before the first change to after the last, and where modes are likely to be half way (inf: there
    is none), of those that nearly coincide one."""
    likely = np.sort(likely, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.floor(np.log(likely) / np.log(_APART))
        likely = np.where(np.diff(step, axis=1, prepend=-np.inf) > 0, likely, np.inf)
    likely = np.sort(likely, axis=1)[:, : int(np.isfinite(likely).sum(axis=1).max(initial=0))]
    zero = np.zeros((len(soonest), 1))
    return np.sort(np.concatenate([zero, soonest[:, None] * _LADDER, likely], axis=1), axis=1)


def filled(
    strengths: Strengths, times: Float[Array, "B T"], limit: Float[Array, "B m"], own: Float[Array, "B m"]
) -> Curves:
    """The curves at these times, and at more of them, each at most 1.4 times the one before, from the last time before
    anything changes until all modes rest within `own` of their limits."""
    everything = np.arange(len(times))
    curves = Curves(times, strengths(everything, times))
    moved = np.any(np.abs(curves.strengths - curves.strengths[:, :1]) > 1e-3 * own[:, None], axis=2)
    away = np.any(np.abs(curves.strengths - limit[:, None]) > own[:, None], axis=2)
    first, latest = np.maximum(np.argmax(moved, axis=1) - 1, 1), np.isfinite(times).sum(axis=1) - 1
    last = np.where(away.any(axis=1), times.shape[1] - np.argmax(away[:, ::-1], axis=1), first)
    start, end = (times[everything, at] for at in (first, np.minimum(np.maximum(last, first), latest)))
    count = int(np.ceil(np.log(np.max(end / start)) / np.log(_RISE)))
    between = start[:, None] * _RISE ** np.arange(1, count)
    between[between >= end[:, None]] = np.inf
    times = np.where(times > end[:, None], np.inf, times)  # all is as in the limit
    known = int(np.isfinite(times).sum(axis=1).max())
    curves = Curves(times[:, :known], curves.strengths[:, :known])
    return curves.joined(between, strengths(everything, between)) if between.size else curves


class Crossings(NamedTuple):
    """When modes are half way, and the curves that tell."""

    half_times: Float[Array, "B m"]  # nan: never, or it rests
    curves: list[Curves]  # of each problem alone


def first_crossings(strengths: Strengths, curves: Curves, limit: Float[Array, "B m"]) -> Crossings:
    """When each mode is first half way, looked at until that is certain to rounding."""
    B, m = limit.shape
    found, apart, done = np.full((B, m), np.nan), np.zeros((B, m)), [curves] * B
    left = np.arange(B)
    for i in range(_ROUNDS):
        guess = _interpolated(curves, shares(curves, limit[left]))
        moved = np.abs(guess.time - found[left])  # by how much the last guess was off, between times so far apart
        error = np.maximum(guess.error, moved * np.divide(moved, apart[left], where=apart[left] > 0, out=moved.copy()))
        certain = (guess.error == 0) | (error <= _SURE * guess.time)
        found[left], apart[left] = guess.time, guess.apart
        for j, b in enumerate(left):
            done[b] = curves.some(slice(j, j + 1))
        asked = np.where(certain, np.inf, guess.time)
        if m >= _MANY and i < 2:  # near enough to serve each other: those that are not certain then ask again
            asked = _thinned(asked, guess.width)
        asked = _unseen(np.concatenate([asked, np.where(certain, np.inf, guess.middle)], axis=1), curves.times)
        more = np.flatnonzero(np.isfinite(asked).any(axis=1))
        if not len(more):
            break
        left, asked, curves = left[more], asked[more], curves.some(more)
        asked = asked[:, : int(np.isfinite(asked).sum(axis=1).max())]
        curves = curves.joined(asked, strengths(left, asked))
    return Crossings(found, done)


def crossings_of(
    strengths: Callable[[Float[Array, " T"]], Float[Array, "T m"]],
    times: Float[Array, " T"],
    limit: Float[Array, " m"],
) -> Float[Array, " m"]:
    """When each mode of one problem is first half way; the times, which begin with 0, are as close as all happens."""

    def stacked(_: Array, times: Float[Array, "one T"]) -> Float[Array, "one T m"]:
        return strengths(times[0])[None]

    return first_crossings(stacked, Curves(times[None], strengths(times)[None]), limit[None]).half_times[0]


class _Guess(NamedTuple):
    time: Float[Array, "B m"]
    error: Float[Array, "B m"]  # as the interpolation tells it; inf: nothing is known, 0: nothing to be found
    apart: Float[Array, "B m"]  # how far the times around it are
    width: Float[Array, "B m"]  # in which the logit rises by one
    middle: Float[Array, "B m"]  # between the times around it, where these are all there is to go by; inf: elsewhere


@np.errstate(divide="ignore", invalid="ignore", over="ignore")  # what is never reached has no neighbours
def _interpolated(curves: Curves, share: Float[Array, "B T m"]) -> _Guess:
    T = share.shape[1]
    after = np.argmax(share >= 0.5, axis=1)
    crosses = after > 0
    after = np.maximum(after, 1)
    near = np.clip(after[:, None] + _around()[:, None], 0, T - 1)
    x = np.take_along_axis(share, near, axis=1)
    t = np.take_along_axis(np.broadcast_to(curves.times[:, :, None], share.shape), near, axis=1)
    before, behind = t[:, 0], t[:, 1]
    z = np.log(np.clip(x, 1e-17, None)) - np.log(np.clip(1 - x, 1e-17, None))
    # of the others those that go on rising, away from the crossing, and have their digits
    good = (x > _INSIDE) & (x < 1 - _INSIDE) & (near == after[:, None] + _around()[:, None]) & np.isfinite(t)
    good[:, :2] = True
    for side in (0, 1):
        step = (1 if side else -1) * np.diff(z[:, side::2], axis=1)
        rising = np.concatenate([np.ones_like(good[:, :1]), step > 1e-9], axis=1)
        good[:, side::2] = np.logical_and.accumulate(good[:, side::2] & rising, axis=1)
    time, error, slope = _newton(z, t, good)
    line = before + (behind - before) * (0.5 - x[:, 0]) / (x[:, 1] - x[:, 0])
    inside, exact = (time >= before) & (time <= behind), np.abs(x[:, :2] - 0.5).min(axis=1) <= _EPS
    there = np.where(x[:, 1] - 0.5 <= 0.5 - x[:, 0], behind, before)
    time = np.where(exact, there, np.where(inside, time, line))
    error = np.where(inside, error, np.inf)
    few = (good.sum(axis=1) < 4) | (error > 0.1 * (behind - before))
    middle = np.where(behind > 1.1 * before, np.sqrt(before) * np.sqrt(behind), (before + behind) / 2)
    middle = np.where(before > 0, middle, behind / 2)
    return _Guess(
        np.where(crosses, time, np.nan),
        np.where(crosses & ~exact, error, 0.0),
        behind - before,
        slope,
        np.where(few, middle, np.inf),
    )


def _newton(
    z: Float[Array, "B p m"], t: Float[Array, "B p m"], good: Array
) -> tuple[Float[Array, "B m"], Float[Array, "B m"], Float[Array, "B m"]]:
    """t at z = 0, its error by the last two terms, and its slope; terms count as long as they fall."""
    order = np.argsort(np.where(good, np.abs(z), np.inf), axis=1, kind="stable")
    z, t, good = (np.take_along_axis(a, order, axis=1) for a in (z, t, good))
    z, table = np.swapaxes(z, 0, 1), np.swapaxes(t, 0, 1).copy()
    value = best = table[0].copy()
    slope, factor = np.abs((t[:, 1] - t[:, 0]) / (z[1] - z[0])), np.ones_like(value)
    last, error = np.zeros_like(value), np.full_like(value, np.inf)
    for k in range(1, int(good.sum(axis=1).max(initial=2))):
        table[k:] = (table[k:] - table[k - 1]) / (z[k:] - z[k - 1])
        factor = factor * -z[k - 1]
        term = np.where(good[:, k], table[k] * factor, np.inf)
        value, size = value + term, np.abs(term)
        worse = np.maximum(size, last)
        better = worse < error
        best, error, last = np.where(better, value, best), np.where(better, worse, error), size
    return best, error, slope


def _newton_of_few(z: list[float], t: list[float]) -> tuple[float, float]:
    """As `_newton`, for a handful of points, where calls of NumPy would take longer than the numbers."""
    order = sorted(range(len(z)), key=lambda i: abs(z[i]))
    z, table = [z[i] for i in order], [t[i] for i in order]
    value = best = table[0]
    last, error, factor = np.inf, np.inf, 1.0
    for k in range(1, len(z)):
        for i in range(k, len(z)):
            table[i] = (table[i] - table[k - 1]) / (z[i] - z[k - 1])
        factor *= -z[k - 1]
        value, size = value + table[k] * factor, abs(table[k] * factor)
        worse = size if k == 1 else max(size, last)
        if worse < error:
            best, error = value, worse
        last = size
    return best, error


def reached(times: Float[Array, " p"], values: Float[Array, " p"], after: int) -> tuple[float, float]:
    """When values pass zero between the records `after` − 1 and `after`, and how far that may be off; inf: not known.
    Neighbours have a say as long as values rise away from there."""
    z, t = values.tolist(), times.tolist()
    rises = [math.isfinite(a) and math.isfinite(b) and b > a for a, b in itertools.pairwise(z)]
    if not rises[after - 1]:
        return t[after], math.inf
    first, last = after - 1, after
    while first > 0 and rises[first - 1]:
        first -= 1
    while last < len(rises) and rises[last]:
        last += 1
    best, error = _newton_of_few(z[first : last + 1], t[first : last + 1])
    inside = t[after - 1] < best < t[after] and last > first + 1
    return best, error if inside else math.inf


def _thinned(asked: Float[Array, "B m"], width: Float[Array, "B m"]) -> Float[Array, "B m"]:
    """Of times that are close beside the width of their modes the first."""
    kept = asked.copy()
    for row, own in zip(kept, width, strict=True):
        last = -np.inf
        for i in np.argsort(row)[: np.isfinite(row).sum()]:
            if row[i] - last < _CLOSE * own[i]:
                row[i] = np.inf
            else:
                last = row[i]
    return kept


def _around() -> Array:
    """0 is the first time beyond half way: −1, 0, −2, 1, −3, 2 …"""
    side = np.arange(_NODES // 2)
    return np.stack([-1 - side, side], axis=1).ravel()


def _unseen(asked: Float[Array, "B n"], times: Float[Array, "B T"]) -> Float[Array, "B n"]:
    """The times asked for in rising order, and inf for what is known or asked for twice."""
    asked = np.sort(asked, axis=1)
    with np.errstate(invalid="ignore"):
        asked[:, 1:][np.diff(asked, axis=1) <= _SEEN * asked[:, 1:]] = np.inf
        for i, row in enumerate(asked):
            at = np.clip(np.searchsorted(times[i], row), 1, times.shape[1] - 1)
            apart = np.minimum(np.abs(times[i, at] - row), np.abs(row - times[i, at - 1]))
            row[apart <= _SEEN * row] = np.inf
    return np.sort(asked, axis=1)


def unseen(new: Float[Array, " m"], times: Float[Array, " T"]) -> Float[Array, " n"]:
    """The new times that are apart from the others, and from each other, by more than rounding."""
    new = np.unique(new[np.isfinite(new)])
    new = new[np.diff(new, prepend=-1.0) > _SEEN * new]
    return new[np.abs(times - new[:, None]).min(axis=1) > _SEEN * new]
