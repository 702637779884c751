"""Modes that do not interact, learned by gradient descent: the maps that one step is (theory: section 14).

With the step h and the error e = s − a d of a mode, two layers have in p = W1 v and q = W2ᵀ u

    p + q ← (1 + h e)(p + q),     p − q ← (1 − h e)(p − q),     a = (‖p + q‖² − ‖p − q‖²)/4

whatever the hidden layer is: two numbers a mode, X = ‖p + q‖ and Y = ‖p − q‖. Other depths, aligned in every layer,
have the sizes b_ℓ ← b_ℓ + h η_ℓ e Π_{j≠ℓ} b_j. What flows as e^{wt} grows as (1 + hw)^{t/h}: descent is late by
hw/ln(1 + hw) while a mode grows, and early while it comes to rest. Momentum β keeps m ← βm + ẋ and goes by hm (heavy
ball) or by h(ẋ + βm) (Nesterov, as PyTorch has it); it grows by the larger root z of

    z² − (1 + β + hw) z + β = 0     or     z² − (1 + β)(1 + hw) z + β(1 + hw) = 0 .
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float, Real
from lazyrich.alignment import lengths

if TYPE_CHECKING:
    from lazyrich.problem import Problem

_MOST = 20_000  # steps; where there are more each does so little that what they are off goes with h
_ROUNDS = 20  # of Newton's method: for almost no steps it begins far off
_BEYOND = 4.0  # times the half time of the flow: descent that is later than this never comes


@dataclass(frozen=True)
class Stepping:
    """How descent goes: its rate, and its momentum if it has any.

    >>> float(Stepping(0.1).growth(2.0)), float(Stepping(0.1, 0.9).growth(2.0).round(6))
    (1.2, 1.5)
    """

    rate: float
    momentum: float = 0.0
    nesterov: bool = False

    def growth(self, w: Real) -> Real:
        """By what a mode that flows as e^{wt} grows in one step, after the first few."""
        hw, beta = self.rate * np.asarray(w), self.momentum
        trace, product = (1 + beta) * (1 + hw), beta * (1 + hw)
        if not self.nesterov:
            trace, product = 1 + beta + hw, beta + 0 * hw
        return (trace + np.sqrt(trace**2 - 4 * product)) / 2

    @property
    def lost(self) -> float:
        """Steps that momentum loses at first, for it begins at rest."""
        return self.momentum ** (2 if self.nesterov else 1) / (1 - self.momentum)

    @property
    def drift(self) -> float:
        """The rate of descent without momentum that would leave the flow as fast, in the time of the flow.

        >>> Stepping(0.1).drift, round(Stepping(0.001, 0.9).drift, 6)
        (0.1, 0.19)
        """
        return self.rate * (1 + 2 * self.lost) / (1 - self.momentum)

    def steps(self, times: Float[Array, " m"]) -> Float[Array, " m"]:
        """In how many steps descent has gone as far as the flow in these times, where a slope hardly changes in a step.

        Momentum begins at rest: after n steps it has gone as far as n − β(1 − βⁿ)/(1 − β) later ones (Nesterov's: β²
        for the first β).

        >>> Stepping(0.1).steps(np.array([2.0])), Stepping(0.01, 0.9).steps(np.array([2.0])).round(6)
        (array([20.]), array([28.555776]))
        """
        beta, full = self.momentum, times * (1 - self.momentum) / self.rate
        lost = self.lost
        n = full + lost
        for _ in range(_ROUNDS if beta else 0):  # Newton's method, from above
            n = n - (n - lost * (1 - beta**n) - full) / (1 + lost * np.log(beta) * beta**n)
        return n

    def largest_rate(self, sharpness: float) -> float:
        """The largest that is stable next to a minimum of this sharpness.

        >>> Stepping(0.1).largest_rate(4.0), round(Stepping(0.1, 0.9).largest_rate(4.0), 3)
        (0.5, 0.95)
        """
        beta = self.momentum
        room = 2 * (1 + beta) / (1 + 2 * beta) if self.nesterov else 2 * (1 + beta)
        return room / sharpness if sharpness > 0 else float("inf")


def as_momentum(momentum: object, nesterov: object) -> tuple[float, bool]:
    """β and whether it looks ahead, or a sentence."""
    beta = _check.positive("momentum", momentum, or_zero=True)
    if beta >= 1:
        raise InvalidInput(f"momentum must be below 1, and it is {beta:g}: try 0.9.")
    if _check.flag("nesterov", nesterov) and not beta:
        raise InvalidInput("nesterov=True needs a momentum, and it is 0: try momentum=0.9.")
    return beta, bool(nesterov)


def as_stepping(rate: object, momentum: object, nesterov: object) -> Stepping | None:
    """A rate and a momentum, or a sentence; None without any."""
    if rate is None:
        if as_momentum(momentum, nesterov) != (0.0, False):
            raise InvalidInput("momentum belongs to steps of gradient descent, and no rate is given: try rate=0.05.")
        return None
    return Stepping(_check.positive("rate", rate), *as_momentum(momentum, nesterov))


class ModeMaps(ABC):
    """What every mode is made of, k numbers each, one column per mode."""

    initial: Float[Array, "k m"]
    s: Float[Array, " m"]  # ȧ = 0 at a = s/d
    d: Float[Array, " m"]

    @abstractmethod
    def strength(self, y: Float[Array, "k m"]) -> Float[Array, " m"]:
        """a of each mode."""

    @abstractmethod
    def velocity(self, y: Float[Array, "k m"]) -> Float[Array, "k m"]:
        """ẏ of the flow, of which descent takes steps."""

    def half_steps(self, limit: Float[Array, " m"], flowing: Float[Array, " m"], how: Stepping) -> Float[Array, " m"]:
        """How many steps each mode takes to half way from its beginning to `limit`, linear between steps; nan: it never
        comes, or descent diverges. `flowing` are the half times of the flow."""
        last = float(np.nanmax(flowing, initial=0.0))
        together = max(1.0, last * (1 - how.momentum) / how.rate / _MOST)
        if together == 1.0:
            return self._crossings(limit, how, _BEYOND * last / how.rate + _ROUNDS / (1 - how.momentum))
        coarse = Stepping(together * how.rate, how.momentum, how.nesterov)
        smooth = flowing * (1 - how.momentum)
        late = self._crossings(limit, coarse, _BEYOND * last / coarse.rate) - smooth / coarse.rate
        return smooth / how.rate + late  # as many steps late at every small rate

    def half_times(self, limit: Float[Array, " m"], flowing: Float[Array, " m"]) -> Float[Array, " m"]:
        """The half times of these modes as a flow, of which `flowing` give the order: by Runge and Kutta's method."""
        last = float(np.nanmax(flowing, initial=0.0))
        h = last / _MOST * 4
        return self._crossings(limit, None, _BEYOND * _MOST / 4, h) * h if h else np.full(len(limit), np.nan)

    def _crossings(
        self, limit: Float[Array, " m"], how: Stepping | None, most: float, h: float = 0.0
    ) -> Float[Array, " m"]:
        y, m = self.initial, np.zeros_like(self.initial)
        a = self.strength(y)
        level, rising = (a + limit) / 2, np.where(limit >= a, 1.0, -1.0)
        found = np.where(limit == a, 0.0, np.nan)
        with np.errstate(over="ignore", invalid="ignore"):
            for n in range(1, int(most) + 2):
                if how is None:
                    y = self._flowed(y, h)
                else:
                    slope = self.velocity(y)
                    m = how.momentum * m + slope
                    y = y + how.rate * (slope + how.momentum * m if how.nesterov else m)
                before, a = a, self.strength(y)
                new = np.isnan(found) & (rising * (a - level) >= 0)
                if new.any():
                    found[new] = n - 1 + (level[new] - before[new]) / (a[new] - before[new])
                    if not np.isnan(found).any():
                        break
                if not np.isfinite(a).any():
                    break
        found[limit == self.strength(self.initial)] = np.nan
        return found

    def _flowed(self, y: Float[Array, "k m"], h: float) -> Float[Array, "k m"]:
        one = self.velocity(y)
        two = self.velocity(y + h / 2 * one)
        three = self.velocity(y + h / 2 * two)
        return y + h / 6 * (one + 2 * two + 2 * three + self.velocity(y + h * three))


class _Pairs(ModeMaps):
    """Two layers: X = ‖p + q‖ and Y = ‖p − q‖."""

    def __init__(self, problem: Problem) -> None:
        fit, unit, network = problem.alignment, problem.canonical, problem.network
        W1, W2 = (k * W for k, W in zip(unit.k, network.free(network.weights), strict=True))
        m = len(fit.s)
        p, q = (W1 @ fit.V).T[:m], (fit.U.T @ W2)[:m, : len(W1)]  # without the last bias, which is alone
        self.initial = np.stack([lengths(p + q), lengths(p - q)])
        self.s, self.d, self.gain = fit.s, fit.d, unit.gain
        self.decay = problem.weight_decay * problem.rates[0]

    def strength(self, y: Float[Array, "two m"]) -> Float[Array, " m"]:
        X, Y = y
        return np.asarray((X - Y) * (X + Y) / (4 * self.gain))

    def velocity(self, y: Float[Array, "two m"]) -> Float[Array, "two m"]:
        e = self.gain * (self.s - self.strength(y) * self.d)
        return np.stack([(e - self.decay) * y[0], -(e + self.decay) * y[1]])


class _Chains(ModeMaps):
    """One layer, or three and more: the size of each mode in every layer, |a|^{1/L} where it has none of its own."""

    def __init__(self, problem: Problem) -> None:
        fit, L = problem.alignment, problem.network.depth
        self.s, self.d, self.decay = fit.s, fit.d, problem.weight_decay
        self.eta = np.array(problem.rates)[:, None]
        if problem.facts.alignment_error <= problem.facts.tolerance:
            self.initial = problem.followed.sizes
        else:
            self.initial = np.abs(fit.a) ** (1 / L) * np.ones((L, 1))
            self.initial[0] *= np.where(fit.a < 0, -1.0, 1.0)

    def strength(self, y: Float[Array, "L m"]) -> Float[Array, " m"]:
        return np.asarray(np.prod(y, axis=0))

    def velocity(self, y: Float[Array, "L m"]) -> Float[Array, "L m"]:
        others = np.stack([np.prod(np.delete(y, i, axis=0), axis=0) for i in range(len(y))])
        return np.asarray(self.eta * ((self.s - self.strength(y) * self.d) * others - self.decay * y))


def mode_maps(problem: Problem) -> ModeMaps:
    """The modes of a linear problem, each by itself: exact where they are aligned, else next to it.

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> mode_maps(problem).half_steps(np.array([2.0]), np.array([1.3258]), Stepping(0.05)).round(3)
    array([27.323])
    """
    return _Pairs(problem) if problem.network.depth == 2 else _Chains(problem)
