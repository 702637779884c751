"""Deep networks, aligned with the task: every mode alone, at any depth L ≥ 3, with layers of any sizes and rates
(theory: section 13).

A mode of strength s and input variance d has the size b_ℓ in layer ℓ, and

    ḃ_ℓ = η_ℓ (s − a d) Π_{j≠ℓ} b_j,     a = Πb,     b_ℓ²/η_ℓ − b_j²/η_j is conserved

so it is one equation for one number, which has no closed form for a(t), but one quadrature for the time, inverted by
Newton's method (`_course`). Where two layers are equally small, their b²/η the least of all, a cannot cross zero:
learned backwards, the mode fades. The frames between the layers do not turn, so the weights follow. Conditions: linear,
three layers or more, initialisation and inputs aligned with the task in every layer (`alignment.follow`), no weight
decay.
Source: Saxe et al. 2014 (equal layers, where ȧ = L |a|^{2−2/L} (s − a d)); the general form is ours, and has the deep
networks of Kunin et al. 2024 (Definition 12) as a case.

>>> task = lr.Task.from_correlations([[2.0, 0.0], [0.0, 1.0]])
>>> problem = lr.Problem(task, lr.inits.aligned(0, task, hidden=(2, 2, 2), strengths=0.01))
>>> traj = lr.solve(problem, [0.0, 30.0])
>>> traj.method, lr.observables.mode_strengths(traj).round(4)[1]
('deep_modes', array([2., 1.]))
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyrich import _check
from lazyrich._typing import Array, Real
from lazyrich.facts import Condition, Facts, Refusal
from lazyrich.methods._course import Courses
from lazyrich.methods.base import (
    DOUBTFUL,
    ON_THE_WAY,
    Doubts,
    Method,
    Separatrix,
    Solution,
    aligned_with_the_task,
    linear_layers,
)

if TYPE_CHECKING:
    from lazyrich.problem import Problem

_SAFETY = 32  # by which what is taken for rounding is larger than what rounding does


def deep_mode_strength(L: int, s: Real, a0: Real, times: Real) -> Array:
    """a(t) of ȧ = L |a|^{2−2/L} (s − a), L ≥ 3 equal layers; s, a0 and times broadcast, and times may be complex."""
    L = _check.count("L", L, least=3)
    s, a0, times = np.broadcast_arrays(np.asarray(s, dtype=float), np.asarray(a0, dtype=float), times)
    modes, which = np.unique(np.stack([s.ravel(), a0.ravel()]), axis=1, return_inverse=True)
    b0 = np.tile(np.abs(modes[1]) ** (1 / L), (L, 1))
    b0[0] *= np.where(modes[1] < 0, -1.0, 1.0)
    courses = Courses(b0, np.ones(L), modes[0], np.ones(len(modes[0])))
    return np.asarray(np.prod(courses.sizes_of(which.ravel(), times.ravel()), axis=0).reshape(times.shape))


class DeepModes(Method):
    """Three linear layers or more whose modes do not interact."""

    name = "deep_modes"
    citations = ("saxe2014",)

    def refusals(self, facts: Facts) -> Iterator[Refusal]:
        yield from linear_layers(facts, "three layers or more", least=3)
        yield from aligned_with_the_task(facts)
        if facts.weight_decay:
            message = f"it has no weight decay, and this problem has {facts.weight_decay:g}"
            yield Refusal(Condition.DECAY, message, facts.weight_decay, 0.0)

    def solution(self, problem: Problem) -> DeepModesSolution:
        return DeepModesSolution(problem)


class DeepModesSolution(Solution):
    """The sizes of every mode in the layers; inert modes have none, and what is outside of all modes stays as it is."""

    def __init__(self, problem: Problem) -> None:
        fit, (self.frames, self.initial, rounding, _) = problem.alignment, problem.followed
        self.problem, self.s, self.d = problem, fit.s, fit.d
        size = np.abs(self.initial)
        slack = np.divide(rounding, size, out=np.zeros_like(size), where=size > 0)
        self.courses = Courses(self.initial, np.array(problem.rates), self.s, self.d, slack)
        self.noise = slack / _SAFETY

    def strengths(self, times: Array) -> Array:
        """a of each mode at each time (T, m)."""
        return np.prod(self.courses.sizes(times), axis=1)

    def function(self, times: Array) -> Array:
        fit, m = self.problem.alignment, len(self.s)
        return (fit.U[:, :m] * self.strengths(times)[:, None, :]) @ fit.V[:, :m].T

    def weights(self, times: Array) -> list[Array]:
        """W_ℓ(t): each mode's share of each layer changes; the frames between the layers stay."""
        sizes, layers = self.courses.sizes(times), []
        for i, W in enumerate(self.problem.network.weights):
            before, after = self.frames[i], self.frames[i + 1]
            layers.append((after * sizes[:, i, None, :]) @ before.T + (W - (after * self.initial[i]) @ before.T))
        return layers

    def analytic(self, times: Array) -> dict[str, Any]:
        return {"weights": self.weights(times)}

    def doubts_until(self, time: float) -> Doubts:
        """A mode that begins backwards waits for what its two smallest layers differ by. Rounding of that moves the
        passage, which shows most on the way up."""
        of_two = np.sort(self.noise, axis=0)[-2:].sum(axis=0) * (np.abs(self.courses.y0) + self.courses.gap)
        new = self.courses.gap + 2 * np.maximum(self.courses.y0, 0.0)
        moving = (new > 0) & (self.s > 0) & (self.d > 0)
        if not np.any(moving & (of_two > DOUBTFUL * new / 10)):
            return Doubts()
        target = self.s[moving] / self.d[moving]
        ends = np.zeros(len(self.s))
        ends[moving] = target
        passed = [courses.when(share * ends) for courses in (self.courses, self._moved) for share in ON_THE_WAY]
        clock = np.append(np.concatenate(passed)[:, None], time)
        clock = np.unique(clock[clock <= time])
        apart = np.abs(np.prod(self._moved.sizes(clock), axis=1) - self.strengths(clock))[:, moving]
        return Doubts(initialisation=float(apart.max()) / float(np.linalg.norm(target)))

    @cached_property
    def _moved(self) -> Courses:
        """The courses where the second smallest layer is larger by what rounding may be."""
        second = np.argsort(np.abs(self.initial) / np.sqrt(self.problem.rates)[:, None], axis=0, kind="stable")[1]
        initial = self.initial.copy()
        modes = np.arange(initial.shape[1])
        initial[second, modes] *= 1 + np.sort(self.noise, axis=0)[-2:].sum(axis=0)
        return Courses(initial, self.courses.eta, self.s, self.d, self.courses.slack)

    def separatrix(self) -> Separatrix:
        """How far the two smallest layers of a mode that could be learned are from b₁/√η₁ = −b₂/√η₂, relative to them:
        0 where it starts at zero or backwards and never leaves; 1 where they are equal and it goes forwards."""
        wanted = np.flatnonzero((self.s > 0) & (self.d > 0))[: min(self.problem.network.sizes)]
        y, gap = self.courses.y0[wanted], self.courses.gap[wanted]
        size = np.sqrt(2) * np.hypot(y, np.abs(y) + gap)
        new = gap + 2 * np.maximum(y, 0.0)
        distance = float(np.divide(new, size, out=np.zeros_like(size), where=size > 0).min(initial=1.0))
        return Separatrix(distance, distance == 0.0)

    def restarted(self, time: float) -> DeepModesSolution:
        later = copy(self)
        later.__dict__.pop("_moved", None)
        later.courses = self.courses.restarted(time)
        return later
