"""`fate`: what will become of a network, before any training (theory: section 2).

Going down in the eigenvalues w > 0 of F, a direction is learned if and only if the initial weights have a
part in it that the directions above do not have. So the limit, the saddle it may be, and the distance from the
separatrix are known at t = 0. The closed forms are bounded at every t, and the limit is their value at a
time beyond all others; learning times are read off the exact curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from lazyrich._rounding import cleared
from lazyrich._threads import SMALL, one_blas_thread
from lazyrich._typing import Array, Float
from lazyrich.alignment import Alignment, align
from lazyrich.landscape.regime import Regime, regime_of_solution
from lazyrich.landscape.steps import Steps, Timed, steps_of
from lazyrich.methods.base import FOREVER
from lazyrich.methods.mode_maps import as_stepping
from lazyrich.methods.solve import solve
from lazyrich.observables.crossings import Strengths, filled, first_crossings, soonest, starting_times
from lazyrich.problem import Problem
from lazyrich.trajectory import Trajectory

_NEXT = "\n" + 14 * " "  # line, below the second column
_ROUNDING = 1e-13  # of the strongest mode: closer than this to its limit no mode is seen to move


@dataclass(frozen=True)
class Fate:
    """Where a network ends and when. In print modes are numbered from 1, strongest first; `missed` holds their indices
    in the arrays, from 0.

    >>> network = lr.Network([[[0.1, 0.0], [0.0, 0.1]], [[0.1, 0.0], [0.0, -0.1]]])  # the second has the wrong sign
    >>> found = lr.fate(lr.Problem(lr.Task.from_correlations([[2.0, 0.0], [0.0, 1.0]]), network))
    >>> found.kind, found.missed, found.loss_limit, found.half_times.round(3)
    ('saddle', (1,), 0.5, array([1.326,   nan]))
    """

    method: str
    s: Float[Array, " m"]  # singular values of the best linear map T
    initial: Float[Array, " m"]  # strength uᵀW(0)v of each mode
    limit: Float[Array, " m"]  # uᵀW(∞)v
    learned: Array  # which modes are learned
    half_times: Float[Array, " m"]  # half way from initial strength to limit; nan: not learned, or already there
    function_limit: Float[Array, "out in"]
    gram_limit: Float[Array, "n n"] | None
    loss_initial: float
    loss_limit: float
    kind: str  # "global minimum" or "saddle"
    missed: tuple[int, ...]  # modes that the global minimum has and this limit has not
    separatrix_distance: float  # smallest new part of a direction in Q(0), relative to the longest; inf: there is none
    on_separatrix: bool
    regime: Regime
    steps: Steps | None = None  # of gradient descent, where a rate was given

    def __str__(self) -> str:
        leaves = "; descent leaves it" if self.steps and self.steps.stuck else ""
        lines = [
            f"ends in       {self.end}{leaves}",
            f"loss there    {cleared(self.loss_limit, self.loss_initial):.6g}",
        ]
        if np.isfinite(self.separatrix_distance):
            distance = "at rounding level: on the separatrix" if self.on_separatrix else "off the separatrix"
            lines.append(f"separatrix    {self.separatrix_distance:.2g}, {distance}")
        lines.append(f"regime        {str(self.regime).replace('; ', _NEXT)}")
        lines += [f"descent       {self.steps.told(_NEXT)}"] if self.steps else []
        titles = f"{'mode':>6} {'s':>12} {'initial':>12} {'limit':>12} {'half time':>12}"
        lines.append(titles + (f" {'half step':>10}" if self.steps else ""))
        largest = max(float(self.s.max()), float(np.abs(self.initial).max()))
        s, initial, limit = (cleared(strengths, largest) for strengths in (self.s, self.initial, self.limit))
        for i in range(len(s)):
            time = "–" if np.isnan(self.half_times[i]) else f"{self.half_times[i]:.6g}"
            end = f" {self.steps.shown(i):>10}" if self.steps else ""
            end += "" if self.learned[i] or i not in self.missed else "   missed"
            lines.append(f"{i + 1:>6} {s[i]:>12.6g} {initial[i]:>12.4g} {limit[i]:>12.6g} {time:>12}{end}")
        return "\n".join(lines)

    @property
    def end(self) -> str:
        """The minimum or saddle in words."""
        if self.kind == "global minimum":
            return "the global minimum"
        count = len(self.missed)
        named = ", ".join(f"{i + 1} (s = {self.s[i]:.4g})" for i in self.missed)
        return f"the saddle that misses mode{'s' * (count > 1)} {named}"

    @property
    def stuck(self) -> tuple[int, ...]:
        """Modes that are missed because the flow stays on the separatrix."""
        return self.missed if self.on_separatrix else ()

    def to_dict(self) -> dict[str, Any]:
        """For JSON: lists and numbers, None for times that never come."""
        return {
            "method": self.method,
            "kind": self.kind,
            "modes": [
                {
                    "s": float(s),
                    "initial": float(self.initial[i]),
                    "limit": float(self.limit[i]),
                    "learned": bool(self.learned[i]),
                    "half_time": None if np.isnan(self.half_times[i]) else float(self.half_times[i]),
                }
                for i, s in enumerate(self.s)
            ],
            "missed": list(self.missed),
            "loss_limit": self.loss_limit,
            "separatrix_distance": self.separatrix_distance,
            "on_separatrix": self.on_separatrix,
            "regime": self.regime.to_dict(),
        } | ({"steps": self.steps.to_dict()} if self.steps else {})


def fate(problem: Problem, *, rate: object = None, momentum: object = 0.0, nesterov: object = False) -> Fate:
    """Which modes are learned and when, which minimum or saddle is the end, and in which regime.

    Parameters
    ----------
    problem : for which there is an exact solution
    rate, momentum, nesterov : of gradient descent, as in `lr.descend`: `fate.steps` then has the half times in steps,
        and the largest rate that is stable

    Returns
    -------
    Fate : `kind`, `learned`, `half_times`, `limit`, `missed`, `loss_limit`, `separatrix_distance`, `regime` …

    Notes
    -----
    Modes with equal singular values have no axes of their own. Where some of them are missed (a bottleneck, a
    separatrix) rounding chooses the axes, and strengths and half times within the group belong to these.

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[-0.1]], [[0.1]]]))
    >>> lr.fate(problem).kind
    'saddle'
    """
    how = as_stepping(rate, momentum, nesterov)
    one = Begun.of(solve(problem, [np.inf]))
    solution = one.trajectory.solution
    assert solution is not None

    def strengths(_: Array, times: Float[Array, "one T"]) -> Float[Array, "one T m"]:
        return solution.mode_strengths(np.minimum(times[0], FOREVER), one.U, one.V)[None]

    ((half_times, times),) = half_times_of([one], strengths)
    found = one.ended(half_times, regime_of_solution(one.trajectory, times))
    if how is None:
        return found
    modes = Timed(one.U, one.V, found.limit, found.half_times, found.stuck)
    return replace(found, steps=steps_of(problem, how, modes, one.trajectory.at([0.0, np.inf])))


class Begun(NamedTuple):
    """A trajectory to t = ∞, and the task's modes as its end has them."""

    trajectory: Trajectory
    function: Float[Array, "out in"]
    fit: Alignment
    initial: Float[Array, " m"]

    @classmethod
    def of(cls, trajectory: Trajectory) -> Begun:
        problem, function = trajectory.problem, trajectory.function[0]
        with one_blas_thread(max(problem.network.sizes) <= SMALL):
            fit = align(problem.task.target, problem.task.sigma_xx, [function])
        m = len(fit.s)
        strengths = np.einsum("oi,om,im->m", problem.network.function, fit.U[:, :m], fit.V[:, :m])
        return cls(trajectory, function, fit, strengths)

    @property
    def U(self) -> Float[Array, "out m"]:
        return self.fit.U[:, : len(self.fit.s)]

    @property
    def V(self) -> Float[Array, "in m"]:
        return self.fit.V[:, : len(self.fit.s)]

    @property
    def near(self) -> Float[Array, " m"]:
        """How close to its limit each mode counts as resting: a thousandth of its way, weak ones too."""
        fit, scale = self.fit, max(float(self.fit.s.max()), float(np.abs(self.initial).max()))
        way = np.abs(fit.a - self.initial)
        near = np.minimum(np.maximum(way, 1e-6 * way.max()), np.maximum(np.maximum(np.abs(fit.a), fit.s), 1e-6 * scale))
        return np.maximum(1e-3 * near, _ROUNDING * scale)

    def ended(self, half_times: Float[Array, " m"], regime: Regime) -> Fate:
        """All that becomes of it."""
        trajectory, problem, fit = self.trajectory, self.trajectory.problem, self.fit
        assert trajectory.solution is not None
        learned, missed = _verdict(problem, fit)
        separatrix = trajectory.solution.separatrix()
        return Fate(
            method=trajectory.method,
            s=fit.s,
            initial=self.initial,
            limit=fit.a,
            learned=learned,
            half_times=np.where(learned, half_times, np.nan),
            function_limit=self.function,
            gram_limit=trajectory.gram[0] if problem.network.depth == 2 else None,
            loss_initial=float(problem.task.loss(problem.network.function)),
            loss_limit=float(trajectory.loss[0]),
            kind="saddle" if missed else "global minimum",
            missed=missed,
            separatrix_distance=separatrix.distance,
            on_separatrix=separatrix.on_it,
            regime=regime,
        )


def half_times_of(many: Sequence[Begun], strengths: Strengths) -> list[tuple[Float[Array, " m"], Float[Array, " T"]]]:
    """When modes are half way, and times from before the first change to after the last, of problems with as many
    modes."""
    likely = [one.trajectory.solution.likely_half_times() for one in many if one.trajectory.solution is not None]
    most = max(len(times) for times in likely)
    padded = np.stack([np.append(times, np.full(most - len(times), np.inf)) for times in likely])
    limit, near = np.stack([one.fit.a for one in many]), np.stack([one.near for one in many])
    first = [soonest(one.trajectory.problem, float(one.fit.s.max())) for one in many]
    times = starting_times(np.array(first), padded)
    found, curves = first_crossings(strengths, filled(strengths, times, limit, near), limit)
    return [(own, c.times[0, np.isfinite(c.times[0])]) for own, c in zip(found, curves, strict=True)]


def _verdict(problem: Problem, fit: Alignment) -> tuple[Array, tuple[int, ...]]:
    """Which modes are learned, and which of those that the global minimum has are not."""
    if problem.network.depth == 1:
        return fit.s > 0, ()  # a convex problem: nothing is missed
    gamma = problem.weight_decay
    best = np.where(fit.d > 0, np.maximum(fit.s - gamma / np.where(fit.d > 0, fit.d, 1.0), 0.0), 0.0)
    learned = (best > 0) & (np.abs(fit.a - best) <= 1e-6 * best + 1e-14 * float(fit.s.max()))
    # the narrowest layer has room for the modes that lower the loss most; among equals, for those that are learned
    gain = best**2 * fit.d
    order = np.lexsort((~learned, -np.round(gain / max(float(gain.max()), 1e-300), 10)))
    wanted = np.zeros(len(best), dtype=bool)
    wanted[order[: min(problem.network.sizes)]] = True
    return learned, tuple(int(i) for i in np.flatnonzero(wanted & (best > 0) & ~learned))
