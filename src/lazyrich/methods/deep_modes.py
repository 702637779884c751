"""Deep networks, balanced and aligned with the task: every mode alone, at any depth L ≥ 3 (theory: section
3).

    ȧ = L |a|^{2−2/L} (s − a d)

has no closed form for a(t), but one for the time. With x = |a|^{1/L} in units where s/d = 1, t is, up to a
constant,

    rising  (0 < a < s):  x^{2−L}/(2−L) + x²/2 · ₂F₁(1, 2/L; 1 + 2/L; x^L)
    falling (a > s):      x^{2−2L}/(2L−2) · ₂F₁(1, 2 − 2/L; 3 − 2/L; x^{−L})
    fading  (a < 0 < s):  x^{2−2L}/(2L−2) · ₂F₁(1, 2 − 2/L; 3 − 2/L; −x^{−L})      it cannot cross zero

and is inverted by Newton's method. Modes with s = 0 decay by a power law. The frames between the layers do
not turn, so the weights follow. Conditions: linear, three layers or more, all layers zero-balanced, start
and inputs aligned with the task, no weight decay. Source: Saxe et al. 2014.

>>> task = lr.Task.from_correlations([[2.0, 0.0], [0.0, 1.0]])
>>> problem = lr.Problem(task, lr.inits.aligned(0, task, hidden=(2, 2, 2), strengths=0.01))
>>> traj = lr.solve(problem, [0.0, 30.0])
>>> traj.method, lr.observables.mode_strengths(traj).round(4)[1]
('deep_modes', array([2., 1.]))
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyrich import _check
from lazyrich._typing import Array, Real
from lazyrich.alignment import follow
from lazyrich.facts import Condition, Facts, Refusal
from lazyrich.methods.base import Method, Separatrix, Solution, linear_layers, unbalanced_mode

if TYPE_CHECKING:
    from lazyrich.problem import Problem

_RISING, _FALLING, _FADING = 0, 1, 2


def deep_mode_strength(L: int, s: Real, a0: Real, times: Real) -> Array:
    """a(t) of ȧ = L |a|^{2−2/L} (s − a) for L ≥ 3; s, a0 and times broadcast, and times may be complex."""
    L = _check.count("L", L, least=3)
    s, a0 = np.asarray(s, dtype=float), np.asarray(a0, dtype=float)
    s, a0, times = np.broadcast_arrays(s, a0, times)
    a = np.zeros(a0.shape, dtype=times.dtype)
    small = (a0 != 0) & (np.abs(s) <= 1e-100 * np.abs(a0))  # nothing to fall to: a power law for ever
    a[small] = np.sign(a0[small]) * (np.abs(a0[small]) ** (2 / L - 2) + (2 * L - 2) * times[small]) ** (
        -L / (2 * L - 2)
    )
    run = (a0 != 0) & ~small
    if run.any():
        sign, target = np.sign(a0[run]), np.abs(s[run])
        x0 = (np.abs(a0[run]) / target) ** (1 / L)
        course = np.where(sign * s[run] < 0, _FADING, np.where(x0 < 1, _RISING, _FALLING))
        with np.errstate(
            over="ignore", invalid="ignore", divide="ignore"
        ):  # at the far end of a course times are infinite
            x = _advance(L, x0, course, times[run] * target ** (2 - 2 / L))
        a[run] = sign * target * x**L
    return a


class DeepModes(Method):
    """Three linear layers or more, balanced, whose modes do not interact."""

    name = "deep_modes"
    citations = ("saxe2014",)

    def refusals(self, facts: Facts) -> Iterator[Refusal]:
        yield from linear_layers(facts, "three layers or more", least=3)
        if not facts.zero_balanced:
            off = max([facts.balance_error, *map(abs, facts.balance)])
            message = f"it needs zero-balanced layers (W_ℓ₊₁ᵀW_ℓ₊₁ = W_ℓW_ℓᵀ), and these are off by {off:.2g}"
            yield Refusal(Condition.BALANCED, message, off, facts.tolerance)
        elif facts.mode_imbalance > facts.tolerance:
            yield unbalanced_mode(facts)
        if not facts.aligned:
            message = f"it needs a start aligned with the task, and modes are coupled by {facts.alignment_error:.2g}"
            yield Refusal(Condition.ALIGNED, message, facts.alignment_error, facts.tolerance)
        if facts.weight_decay:
            message = f"it has no weight decay, and this problem has {facts.weight_decay:g}"
            yield Refusal(Condition.DECAY, message, facts.weight_decay, 0.0)

    def solution(self, problem: Problem) -> DeepModesSolution:
        return DeepModesSolution(problem)


class DeepModesSolution(Solution):
    """a(t) of every mode, in the units of the canonical problem."""

    def __init__(self, problem: Problem) -> None:
        fit, gain = problem.alignment, problem.canonical.gain
        self.problem, self.L, self.d = problem, problem.network.depth, fit.d
        self.s = gain * np.divide(fit.s, fit.d, out=np.zeros_like(fit.s), where=fit.d > 0)
        followed = follow(problem.network.weights, fit, problem.network.eps)
        self.frames, size = followed.frames, np.prod(followed.lengths, axis=0)
        sign = np.sign(np.sum(fit.U[:, : len(fit.s)] * self.frames[-1], axis=0))
        self.start = self.a0 = gain * sign * size

    def strengths(self, times: Array) -> Array:
        return deep_mode_strength(self.L, self.s, self.a0, self.d * times[:, None])

    def function(self, times: Array) -> Array:
        fit, m = self.problem.alignment, len(self.s)
        return (fit.U[:, :m] * (self.strengths(times) / self.problem.canonical.gain)[:, None, :]) @ fit.V[:, :m].T

    def weights(self, times: Array) -> list[Array]:
        """W_ℓ(t): each mode's share of each layer grows by (a/a0)^{1/L}; the frames between the layers stay."""
        used = self.start != 0
        ratio = self.strengths(times) / np.where(used, self.start, 1.0)
        growth = np.where(used, ratio, 1.0) ** (1 / self.L)
        layers = []
        for W, frame in zip(self.problem.network.weights, self.frames, strict=False):
            image = W @ frame
            layers.append((image * growth[:, None, :]) @ frame.T + (W - image @ frame.T))
        return layers

    def analytic(self, times: Array) -> dict[str, Any]:
        return {"weights": self.weights(times)}

    def separatrix(self) -> Separatrix:
        """Distance 0 where a mode that could be learned starts at zero or backwards, which it never leaves; else 1."""
        wanted = np.flatnonzero(self.s > 0)[: min(self.problem.network.sizes)]
        rises = bool(np.all(self.a0[wanted] > 0))
        return Separatrix(float(rises), not rises)

    def restarted(self, time: float) -> DeepModesSolution:
        later = copy(self)
        later.a0 = self.strengths(np.array([time]))[0]
        return later


def _time(L: int, x: Any, course: Any) -> Any:
    """The times of the header; rising: increasing in x, otherwise decreasing."""
    u = x**L
    rising, sign = course == _RISING, np.where(course == _FADING, -1.0, 1.0)
    up = x ** (2 - L) / (2 - L) + x**2 / 2 * _two_f_one(2 / L, np.where(rising, u, 0.0))
    down = x ** (2 - 2 * L) / (2 * L - 2) * _two_f_one(2 - 2 / L, np.where(rising, 0.0, sign / u))
    return np.where(rising, up, down)


def _two_f_one(b: float, z: Any) -> Any:
    """₂F₁(1, b; 1 + b; z) for z < 1. SciPy's real routine loses all digits near z = 1 (for b = 4/3, 1.8,
    …); its complex one does not."""
    from scipy.special import hyp2f1  # here, to keep `import lazyrich` quick

    if np.iscomplexobj(z):
        return hyp2f1(1, b, 1 + b, z)
    return np.where(z > 0, hyp2f1(1, b, 1 + b, np.maximum(z, 0.0) + 0j).real, hyp2f1(1, b, 1 + b, np.minimum(z, 0.0)))


def _advance(L: int, x0: Any, course: Any, t: Any) -> Any:
    """x(t) from x0, by Newton's method in v = logit x^L (rising), −log(x^L − 1) (falling) or −log x (fading).

    In these, time and its slope are smooth and increasing over the whole course. Steps are bounded, so that
    a flat slope cannot throw the iteration far beyond the solution, and after a step back by half of it, so that
    rounding near the end of a course cannot throw it to and fro; beyond v = 60 a mode has reached its end to the
    last bit.
    """
    clock = _time(L, x0, course) + np.real(t)
    with np.errstate(divide="ignore"):
        u0 = x0**L
        v = np.choose(course, [np.log(u0) - np.log(np.abs(1 - u0)), -np.log(np.abs(u0 - 1)), -np.log(x0)])
    last = np.where(course == _FADING, np.inf, 60.0)
    v = np.minimum(v, last)
    bound: Any = 4.0
    before: Any = 0.0
    for _ in range(400):
        x, slope = _position(L, v, course)
        step = np.clip((clock - _time(L, x, course)) / slope, -bound, bound)
        step = np.where(np.isnan(step) | ((v >= last) & (step > 0)), 0.0, step)
        v = np.minimum(v + step, last)
        bound, before = np.where(step * before < 0, np.abs(step) / 2, bound), step
        # what counts is the change of x, which is small where v runs off to the end of the course; and after a step
        # of 1e-10 the next would be its square: rounding, which may never get smaller
        change = np.abs(step) * np.where(course == _FADING, 1.0, np.exp(-np.maximum(v, 0.0)))
        if np.all((change <= 4e-16 * np.maximum(1, np.abs(v))) | (np.abs(step) <= 1e-10)):
            break
    if np.iscomplexobj(t):  # a complex time, for its derivative: two further steps off the real solution
        clock = clock + 1j * np.imag(t)
        v = v.astype(complex)
        for _ in range(2):
            x, slope = _position(L, v, course)
            step = (clock - _time(L, x, course)) / slope
            v = np.where(v.real < 30, v + 1j * step.imag, v)
    return _position(L, v, course)[0]


def _position(L: int, v: Any, course: Any) -> tuple[Any, Any]:
    """x and dt/dv at v."""
    rising = (1 / (1 + np.exp(-np.where(course == _RISING, v, 0.0)))) ** (1 / L)
    falling = (1 + np.exp(-np.where(course == _FALLING, v, 0.0))) ** (1 / L)
    fading = np.exp(-np.where(course == _FADING, v, 0.0))
    x = np.where(course == _RISING, rising, np.where(course == _FALLING, falling, fading))
    slope = np.where(
        course == _FADING,
        x ** (2 - L) / (1 + x**L),
        np.where(course == _RISING, x ** (2 - L), x ** (2 - 2 * L)) / L,
    )
    return x, slope
