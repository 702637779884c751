"""What a learning rate does to the theory: in how many steps modes are learned, and which rates are stable.

Half times of the flow become steps by the maps of `methods.mode_maps`. Where modes do not interact, aligned with the
task in every layer, these are gradient descent itself. Elsewhere each mode is late, or early, by as much as it would be
alone: its half time as a flow is multiplied by what the map and the flow of the mode by itself differ by.

Descent stays near a point while rate × sharpness < 2 (with momentum: another number), the edge of stability.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.landscape.hessian import sharpness
from lazyrich.landscape.leaving import Stuck, half_learned, lost_at
from lazyrich.methods.mode_maps import Stepping, mode_maps
from lazyrich.problem import Problem
from lazyrich.trajectory import Trajectory

_SAME = 1 - 1e-9  # overlap of two modes that are one


class Timed(NamedTuple):
    """Modes, where they end, and their half times as a flow."""

    u: Float[Array, "out m"]
    v: Float[Array, "in m"]
    limit: Float[Array, " m"]
    half_times: Float[Array, " m"]
    stuck: tuple[int, ...] = ()  # never learned, for the flow stays on a separatrix


@dataclass(frozen=True, eq=False)
class Steps:
    """Half times in steps of gradient descent, and the rates that are stable.

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> steps = lr.fate(problem, rate=0.05).steps
    >>> steps.half_steps.round(2), steps.largest_rate, steps.stable
    (array([27.32]), 0.5, True)
    """

    how: Stepping
    half_steps: Float[Array, " m"]  # of each mode; nan: never, or not known. Of freed ones half way to the task
    exact: bool  # the modes do not interact: descent was iterated
    corrected: bool  # for what a step is off the flow; of nonlinear networks nobody knows
    #: at t = 0 and at t = `until`: the largest eigenvalue of η^½ H η^½, H the Hessian; nan: not known
    sharpness: tuple[float, float]
    until: float  # inf: the end of the flow; else how far it was followed, and later the sharpness may be larger
    stuck: tuple[int, ...] = ()  # modes that the flow never learns, in a saddle that descent may leave
    astray: tuple[int, ...] = ()  # modes after a saddle that holds up the flow and not descent: half steps are far off

    @property
    def largest_rate(self) -> float:
        """Above it, descent leaves where it begins or where it is at `until`; nan where the sharpness is not known."""
        known = np.isfinite(self.sharpness).all()
        return self.how.largest_rate(max(self.sharpness)) if known else float("nan")

    @property
    def stable(self) -> bool:
        """As far as the flow was followed."""
        return not self.how.rate >= self.largest_rate

    @property
    def freed(self) -> tuple[int, ...]:
        """Modes that the flow never learns and descent does, with their half steps."""
        return tuple(i for i in self.stuck if np.isfinite(self.half_steps[i]))

    @property
    def escape(self) -> str:
        """In words, how descent leaves the saddle in which the flow stays; empty where it does not end in one."""
        if not self.stuck:
            return ""
        why = "the flow stays in the saddle, and descent leaves it, for steps keep the balance only to rate²"
        if not self.freed:
            return f"{why}: lr.descend tells when"
        at = [f"mode {i + 1} is half learned at step {self.half_steps[i]:.0f}" for i in self.freed]
        return f"{why}: {', '.join(at)}"

    @property
    def passage(self) -> str:
        """In words, which modes come after a saddle that holds up the flow alone; empty where there are none."""
        if not self.astray:
            return ""
        named = f"mode{'s' * (len(self.astray) > 1)} {', '.join(str(i + 1) for i in self.astray)}"
        return (
            "the flow passes next to a saddle, which steps leave at another time, mostly much sooner: the half steps "
            f"of {named} are not to be relied on, and lr.descend tells them"
        )

    def shown(self, mode: int) -> str:
        """The half step of a mode, for a table."""
        step = self.half_steps[mode]
        about = "≈ " if mode in self.astray else ""
        return f"{about}{step:.1f}" if np.isfinite(step) else "–"

    def to_dict(self) -> dict[str, Any]:
        """For JSON: None for what is not known."""
        known = {"largest_rate": self.largest_rate, "sharpness": max(self.sharpness)}
        return {
            **asdict(self.how),
            "half_steps": [float(step) if np.isfinite(step) else None for step in self.half_steps],
            "stuck": list(self.stuck),
            "astray": list(self.astray),
            "exact": self.exact,
            "corrected": self.corrected,
            "until": self.until if np.isfinite(self.until) else None,
            **{name: value if np.isfinite(value) else None for name, value in known.items()},
        }

    def told(self, between: str) -> str:
        """In words, with this between its parts."""
        name = {True: "Nesterov", False: "heavy-ball"}[self.how.nesterov]
        parts = [f"rate {self.how.rate:g}" + (f", {name} momentum {self.how.momentum:g}" if self.how.momentum else "")]
        if np.isfinite(self.largest_rate):
            verdict, (first, last) = "stable" if self.stable else "NOT STABLE", self.sharpness
            seen, later = "", ""
            if np.isfinite(self.until):
                seen, later = f" as far as t = {self.until:.4g}", ", and later it may be less"
            where = "the beginning" if first > last else "then" if seen else "the end"
            parts.append(f"{verdict}{seen}: the largest stable rate is {self.largest_rate:.4g}, that of {where}{later}")
        if self.exact:
            parts.append("half steps are exact, for the modes do not interact")
        elif self.corrected:
            parts.append("half steps are half times, corrected for the step, each mode as if it were alone")
        else:
            parts.append("half steps are half times over the rate, not corrected for the step")
        parts += [self.passage] * bool(self.astray) + [self.escape] * bool(self.stuck)
        return between.join(parts)

    def __str__(self) -> str:
        return self.told("; ")


def steps_of(
    problem: Problem, how: Stepping, modes: Timed, ends: Trajectory | None, course: Trajectory | None = None
) -> Steps:
    """From the half times of the flow, a trajectory at its beginning and its end, or as far as it was followed, and all
    of it, where a deep network may pass next to a saddle."""
    steps = _of_the_flow(problem, how, modes, ends)
    if course is not None and steps.corrected and not steps.exact and problem.network.depth > 2:
        lost = lost_at(course, how, min(*problem.network.sizes, problem.facts.rank_target))
        steps = replace(steps, astray=tuple(int(i) for i in np.flatnonzero(modes.half_times > lost)))
    # steps keep what is aligned, and nothing but rounding ends it
    aligned = problem.facts.alignment_error <= problem.facts.tolerance
    if not modes.stuck or aligned:
        return steps
    u, v, own = modes.u[:, modes.stuck], modes.v[:, modes.stuck], list(modes.stuck)
    target = np.einsum("ok,oi,ik->k", u, problem.task.target, v)
    half_steps = steps.half_steps.copy()
    half_steps[own] = half_learned(problem, Stuck(u, v, target), how, steps.largest_rate)
    return replace(steps, half_steps=half_steps, stuck=modes.stuck)


def _of_the_flow(problem: Problem, how: Stepping, modes: Timed, ends: Trajectory | None) -> Steps:
    """Where the flow and descent end alike."""
    facts, biased = problem.facts, problem.network.biased and problem.network.depth > 1
    curvature, until = (np.nan, np.nan), np.inf if ends is None else float(ends.times[-1])
    if ends is not None and problem.loss.squared:
        first, last = sharpness(ends, preconditioned=True)
        curvature = (float(first), float(last))
    times = modes.half_times
    usual = how.steps(times)
    alone = facts.activation.linear and problem.loss.squared and not (biased and facts.depth > 2)
    if not alone or not np.isfinite(times).any():
        return Steps(how, usual, False, False, curvature, until)
    maps, fit, m = mode_maps(problem), problem.alignment, len(problem.alignment.s)
    overlap = np.abs(modes.u.T @ fit.U[:, :m]) * np.abs(modes.v.T @ fit.V[:, :m])
    own = np.argmax(overlap, axis=1)
    if facts.alignment_error <= facts.tolerance and overlap[np.isfinite(times), own[np.isfinite(times)]].min() > _SAME:
        limit, flowing = np.zeros(m), np.full(m, np.nan)
        limit[own], flowing[own] = modes.limit, times
        steps = maps.half_steps(limit, flowing, how)[own]
        return Steps(how, np.where(np.isfinite(times), steps, np.nan), True, True, curvature, until)
    ends_at = np.divide(maps.s, maps.d, out=np.zeros_like(maps.s), where=maps.d > 0)
    flowing = maps.half_times(ends_at, times)
    late = (maps.half_steps(ends_at, flowing, how) / how.steps(flowing))[own]
    return Steps(how, usual * np.where(np.isfinite(late), late, 1.0), False, True, curvature, until)
