"""Two layers, aligned with the task: every mode alone, each with its own balance (theory: sections 1 and 3).

With p = W1 v, q = W2ᵀ u, a = q·p and N = ‖p‖² + ‖q‖² for one mode of strength s and input variance d,

    ȧ = N (s − a d),     l = √(N² − 4a²) = ‖p + q‖ ‖p − q‖ is conserved      (|λ| where p and q are parallel)

so in units where d = 1 the sum z = N + 2a = ‖p + q‖² obeys a Riccati equation, whose solution is a ratio of two
positive sums:

    K = √(l² + 4s²),   n = ‖p + q‖,   n' = ‖p − q‖
    z(t) = [n (cosh + 2s/K sinh) + n' l/K sinh] / [n sinh/K + (cosh − 2s/K sinh)/n]

at Kt/2. Nothing cancels, whatever the sizes of l, a and s. A mode with a < 0 is the mirror image (z̄ = N −
2a = ‖p − q‖²); with l = 0 it cannot cross zero, and decays. With weight decay, which l = 0 allows, the same is a
logistic curve towards s − γ.

The weights follow: p ± q change by the factors f^{±1} = (z/z0)^{±½}, so p = p0 (f + 1/f)/2 + q0 (f − 1/f)/2.
Conditions: two linear layers, initialisation and inputs aligned with the task (`alignment`). Sources: Saxe et al. 2014
(l = 0), Kunin et al. 2024 and Dominé et al. 2025 (l ≠ 0); the stable form is ours.

>>> task = lr.Task.from_correlations([[2.0, 0.0], [0.0, 1.0]])
>>> problem = lr.Problem(task, lr.inits.aligned(0, task, hidden=2, strengths=0.01, lam=[0.0, 3.0]))
>>> traj = lr.solve(problem, [0.0, 0.5, 10.0])
>>> traj.method, lr.observables.mode_strengths(traj).round(4)[1]
('modes', array([0.0716, 0.799 ]))
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lazyrich._typing import Array, Real
from lazyrich.alignment import lengths
from lazyrich.facts import Condition, Facts, Refusal
from lazyrich.methods.base import (
    DOUBTFUL,
    ON_THE_WAY,
    Doubts,
    Method,
    Separatrix,
    Solution,
    aligned_with_the_task,
    equal_rates_with_decay,
    linear_layers,
    unbalanced_mode,
)
from lazyrich.methods.riccati.grading import rounding, spectrum

if TYPE_CHECKING:
    from lazyrich.problem import Problem


class ModeState(NamedTuple):
    """Strength a, and by which factor p + q and p − q have changed."""

    a: Any
    sum_factor: Any
    difference_factor: Any


def mode_strength(s: Real, a0: Real, lam: Real, times: Real) -> Array:
    """a(t) of ȧ = √(λ² + 4a²)(s − a): Saxe's curve for λ = 0, Dominé's for λ ≠ 0. Shapes broadcast.

    >>> bool(abs(mode_strength(2.0, 0.5, 0.0, 0.3) - 2 / (1 + 3 * np.exp(-1.2))) < 1e-15)
    True
    """
    s, a0, lam, times = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (s, a0, lam, times)))
    larger = np.sqrt(np.hypot(lam, 2 * a0) + 2 * np.abs(a0))
    smaller = np.divide(np.abs(lam), larger, out=np.zeros_like(larger), where=larger > 0)
    total = larger + smaller
    apart = np.divide(4 * np.abs(a0), total, out=np.zeros_like(total), where=total > 0)
    return _evolve(s, larger, smaller, apart, a0 < 0, times).a


class Modes(Method):
    """Two linear layers whose modes do not interact."""

    name = "modes"
    citations = ("saxe2014", "domine2025")

    def refusals(self, facts: Facts) -> Iterator[Refusal]:
        yield from linear_layers(facts, "two layers", least=2, most=2)
        yield from aligned_with_the_task(facts)
        if facts.weight_decay and not facts.zero_balanced:
            off = max([facts.balance_error, *map(abs, facts.lam)])
            message = f"with weight decay it needs λ = 0, and the layers are off by {off:.2g}"
            yield Refusal(Condition.BALANCED, message, off, facts.tolerance)
        elif facts.weight_decay and facts.mode_imbalance > facts.tolerance:
            yield unbalanced_mode(facts)
        yield from equal_rates_with_decay(facts)

    def solution(self, problem: Problem) -> ModesSolution:
        return ModesSolution(problem)


class ModesSolution(Solution):
    """p(t) and q(t) of every mode, in the units of the canonical problem."""

    def __init__(self, problem: Problem) -> None:
        fit, unit = problem.alignment, problem.canonical
        W1, W2 = (k * W for k, W in zip(unit.k, problem.network.weights, strict=True))
        m = len(fit.s)
        self.problem, self.k = problem, unit.k
        self.P, self.Q = (W1 @ fit.V).T, fit.U.T @ W2  # p and q of each mode, directions without a partner last
        self.p, self.q = self.P[:m], self.Q[:m]
        self.d, self.s, self.gamma = fit.d, unit.gain * fit.s, problem.weight_decay * problem.rates[0]
        # p + q and p − q are the rows of the closed form at λ = 0: what rounding may have made of them counts as zero
        F, target = spectrum(fit.U, self.s, fit.V, 0.0), unit.gain * problem.task.sigma_yx
        eps = {"eps": problem.network.eps, "eps_task": problem.task.eps}
        cutoff = np.sqrt(2) * rounding(np.concatenate([W1.T, W2]), F, target, alone=True, **eps)
        self.noise = cutoff[:m] / 4  # of ‖p + q‖; the cutoff is some times what rounding does
        plus, minus, a0 = lengths(self.p + self.q), lengths(self.p - self.q), np.sum(self.p * self.q, axis=1)
        self.plus = np.where(plus > cutoff[:m], plus, 0.0)
        self.minus = np.where(minus > cutoff[len(cutoff) - m :][::-1], minus, 0.0)
        # a mode that could grow must not do so from rounding of zero; others are kept to their last digit
        nothing = (self.plus == 0) & (self.minus == 0) & (self.s > 0)
        self.p, self.q = np.where(nothing[:, None], 0.0, self.p), np.where(nothing[:, None], 0.0, self.q)
        self.a0, self.l = np.where(nothing, 0.0, a0), self.plus * self.minus

    def state(self, times: Array) -> ModeState:
        """The modes at the times of the problem (T, m)."""
        return self._at(times[:, None])

    def _at(self, t: Array) -> ModeState:
        """The modes, perhaps each at times of its own."""
        if self.gamma:
            return _evolve_decaying(self.s, self.a0, self.d, self.gamma, t)
        target = np.divide(self.s, self.d, out=np.zeros_like(self.s), where=self.d > 0)  # inputs never seen: no change
        larger, smaller = np.maximum(self.plus, self.minus), np.minimum(self.plus, self.minus)
        total = larger + smaller
        by_a = np.divide(4 * np.abs(self.a0), total, out=np.zeros_like(total), where=total > 0)
        apart = np.where(smaller < larger / 2, larger - smaller, by_a)  # the difference, wherever it would cancel
        return _evolve(target, larger, smaller, apart, self.plus < self.minus, self.d * t)

    def weights(self, times: Array) -> list[Array]:
        """W1(t) and W2(t), in the given hidden basis."""
        fit = self.problem.alignment
        P, Q = self._rows(times)
        return [np.swapaxes(P, 1, 2) @ fit.V.T / self.k[0], fit.U @ Q / self.k[1]]

    def _rows(self, times: Array) -> tuple[Array, Array]:
        """p and q of each mode and of the directions without a partner, at each time."""
        m, state = len(self.s), self.state(times)
        same = (state.sum_factor + state.difference_factor)[:, :, None] / 2
        other = (state.sum_factor - state.difference_factor)[:, :, None] / 2
        P, Q = (np.repeat(rows[None].astype(same.dtype), len(times), axis=0) for rows in (self.P, self.Q))
        if self.gamma:  # directions without a partner shrink too
            shrink = np.exp(-self.gamma * times)[:, None, None]
            P, Q = P * shrink, Q * shrink
        P[:, :m], Q[:, :m] = same * self.p + other * self.q, other * self.p + same * self.q
        return P, Q

    def function(self, times: Array) -> Array:
        """W2W1(t) = Σ a(t) u vᵀ."""
        fit, m = self.problem.alignment, len(self.s)
        return (fit.U[:, :m] * (self.state(times).a / self.problem.canonical.gain)[:, None, :]) @ fit.V[:, :m].T

    def analytic(self, times: Array) -> dict[str, Any]:
        return {"weights": self.weights(times)}

    def doubts_until(self, time: float) -> Doubts:
        """A mode that begins backwards waits for its ‖p + q‖. Rounding of that moves the passage, which shows most on
        the way up."""
        moving = (self.plus > self.noise) & (self.s > 0) & (self.d > 0)
        if self.gamma or not np.any(moving & (self.noise > DOUBTFUL * self.plus / 10)):
            return Doubts()
        moved, target = copy(self), self.s[moving] / self.d[moving]
        moved.plus = np.where(moving, self.plus + self.noise, self.plus)
        moved.l = moved.plus * self.minus
        fastest = np.where(moving, self.d * np.hypot(self.l, 2 * self.s), 1.0)
        low, high = np.log(1e-6 / fastest), np.log(np.minimum(time, 1e6 / fastest))
        low, high = (np.broadcast_to(np.minimum(edge, high), (len(ON_THE_WAY), len(edge))) for edge in (low, high))
        wanted = np.array(ON_THE_WAY)[:, None] * np.where(moving, self.s / np.where(moving, self.d, 1.0), 1.0)
        for _ in range(50):
            middle = (low + high) / 2
            early = self._at(np.exp(middle)).a < wanted
            low, high = np.where(early, middle, low), np.where(early, high, middle)
        apart = np.abs(moved._at(np.exp(high)).a - self._at(np.exp(high)).a)[:, moving]
        return Doubts(initialisation=float(apart.max()) / float(np.linalg.norm(target)))

    def separatrix(self) -> Separatrix:
        """Smallest ‖p + q‖ of a mode that could be learned, relative to its weights; 0 where it never will
        be."""
        size = np.hypot(self.plus, self.minus)
        wanted = np.flatnonzero(self.s > 0)[: self.P.shape[1]]
        distance = float(np.divide(self.plus, size, out=np.zeros_like(size), where=size > 0)[wanted].min(initial=1.0))
        return Separatrix(distance, distance == 0.0)

    def restarted(self, time: float) -> ModesSolution:
        later, m, state = copy(self), len(self.s), self.state(np.array([time]))
        later.P, later.Q = (rows[0] for rows in self._rows(np.array([time])))
        later.p, later.q, later.a0 = later.P[:m], later.Q[:m], state.a[0]
        later.plus, later.minus = self.plus * state.sum_factor[0], self.minus * state.difference_factor[0]
        return later


def _evolve(s: Any, n: Any, n_other: Any, apart: Any, mirrored: Any, t: Any) -> ModeState:
    """The stable form of the header: n is the larger of ‖p ± q‖ and n_other the smaller, `apart` their difference.
    Mirrored modes (a < 0) see −s."""
    l = n * n_other
    K = np.hypot(l, 2 * s)
    safe_K = np.where(K > 0, K, 1.0)
    faded = np.exp(-K * t)  # cosh and sinh below are divided by e^{Kt/2}
    sinh_over_K = np.where(K > 0, -np.expm1(-K * t) / (2 * safe_K), t / 2)

    def rise(x: Any) -> Any:  # cosh + x/K sinh
        return (1 + faded) / 2 + x * sinh_over_K

    def fall(x: Any, rest: Any) -> Any:  # cosh − x/K sinh with K² = x² + rest², written without cancellation
        return np.where(K > 0, (rest**2 / np.where(K > 0, K + x, 1.0) + (K + x) * faded) / (2 * safe_K), 1.0)

    present = n > 0
    over_n = np.divide(1.0, n, out=np.zeros_like(n), where=present)
    faded_over_n = np.where(present, np.exp(-K * t - np.log(np.where(present, n, 1.0))), 0.0)  # both may underflow
    fall_over_n = np.where(
        K > 0, (l * n_other / np.where(K > 0, K + 2 * s, 1.0) + (K + 2 * s) * faded_over_n) / (2 * safe_K), over_n
    )
    major = np.where(mirrored, fall(2 * s, l), rise(2 * s)) * n + l * sinh_over_K * n_other
    minor = np.where(mirrored, rise(2 * s) * over_n, fall_over_n) + sinh_over_K * n  # z = major / minor

    # |a| = (major − l·minor)(1 + l/z) / (4 minor). The difference is written so that it does not cancel where l ≫ |a|;
    # a mirrored mode with small l, which may fade to nothing, is better off with (z − l²/z)/4.
    total = n + n_other
    moved = 2 * s * sinh_over_K * total
    difference = apart * fall(l, 2 * s) + np.where(mirrored, -moved, moved)
    coupled = present & (l > 0)
    safe_minor = np.where(present, minor, 1.0)
    z = major / safe_minor
    l_over_z = np.where(coupled, l / np.where(coupled, z, 1.0), 0.0)
    a = np.where(mirrored & (n_other < n / 2), (z - l * l_over_z) / 4, difference * (1 + l_over_z) / (4 * safe_minor))
    growth = np.where(present, np.sqrt(major) / np.sqrt(safe_minor) * over_n, 1.0)  # z may have no digits left
    # with l = 0 one of p ± q is zero, and its rounding must not grow
    inverse = np.where(coupled, 1 / np.where(coupled, growth, 1.0), np.where(present, 0.0, 1.0))
    return ModeState(
        np.where(mirrored, -a, a), np.where(mirrored, inverse, growth), np.where(mirrored, growth, inverse)
    )


def _evolve_decaying(s: Any, a0: Any, d: Any, gamma: float, t: Any) -> ModeState:
    """l = 0 with weight decay: |a| follows a logistic curve of rate ±s − γ, written with falling
    exponentials only."""
    size, mirrored = np.abs(a0), a0 < 0
    r = np.where(mirrored, -s, s) - gamma
    faded = np.exp(-2 * np.abs(r) * t)
    integral = np.where(r == 0, 2 * t, -np.expm1(-2 * np.abs(r) * t) / np.where(r == 0, 1.0, np.abs(r)))
    fed = size * d * integral  # 0 for a mode that is not there: it stays away, and its growth is never asked for
    growth = np.where(r > 0, 1 / np.where(size > 0, faded + fed, 1.0), faded / (1 + fed))
    a = size * growth
    factor = np.sqrt(growth)  # of p + q, or of p − q where mirrored; the other is zero and stays zero
    return ModeState(np.where(mirrored, -a, a), factor, factor)
