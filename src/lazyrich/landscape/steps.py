"""What a learning rate does to the theory: in how many steps modes are learned, and which rates are stable.

Half times of the flow become steps by the maps of `methods.mode_maps`. Where modes do not interact, aligned with the
task in every layer, these are gradient descent itself. Elsewhere each mode is late, or early, by as much as it would be
alone: its half time as a flow is multiplied by what the map and the flow of the mode by itself differ by.

Descent stays near a point while rate × sharpness < 2 (with momentum: another number), the edge of stability.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.landscape.hessian import sharpness
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


@dataclass(frozen=True, eq=False)
class Steps:
    """Half times in steps of gradient descent, and the rates that are stable.

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> steps = lr.fate(problem, rate=0.05).steps
    >>> steps.half_steps.round(2), steps.largest_rate, steps.stable
    (array([27.32]), 0.5, True)
    """

    how: Stepping
    half_steps: Float[Array, " m"]  # of each mode; nan: never, or not known
    exact: bool  # the modes do not interact: descent was iterated
    corrected: bool  # for what a step is off the flow; of nonlinear networks nobody knows
    #: at first and at the end: the largest eigenvalue of η^½ H η^½, H the Hessian; nan: not known
    sharpness: tuple[float, float]

    @property
    def largest_rate(self) -> float:
        """Above it, descent leaves where it begins or where it is to end; nan where the sharpness is not known."""
        known = np.isfinite(self.sharpness).all()
        return self.how.largest_rate(max(self.sharpness)) if known else float("nan")

    @property
    def stable(self) -> bool:
        return not self.how.rate >= self.largest_rate

    def shown(self, mode: int) -> str:
        """The half step of a mode, for a table."""
        step = self.half_steps[mode]
        return f"{step:.1f}" if np.isfinite(step) else "–"

    def to_dict(self) -> dict[str, Any]:
        """For JSON: None for what is not known."""
        known = {"largest_rate": self.largest_rate, "sharpness": max(self.sharpness)}
        return {
            **asdict(self.how),
            "half_steps": [float(step) if np.isfinite(step) else None for step in self.half_steps],
            "exact": self.exact,
            "corrected": self.corrected,
            **{name: value if np.isfinite(value) else None for name, value in known.items()},
        }

    def told(self, between: str) -> str:
        """In words, with this between its parts."""
        name = {True: "Nesterov", False: "heavy-ball"}[self.how.nesterov]
        parts = [f"rate {self.how.rate:g}" + (f", {name} momentum {self.how.momentum:g}" if self.how.momentum else "")]
        if np.isfinite(self.largest_rate):
            verdict, (first, last) = "stable" if self.stable else "NOT STABLE", self.sharpness
            where = "the beginning" if first > last else "the end"
            parts.append(f"{verdict}: the largest stable rate is {self.largest_rate:.4g}, that of {where}")
        if self.exact:
            parts.append("half steps are exact, for the modes do not interact")
        elif self.corrected:
            parts.append("half steps are half times, corrected for the step, each mode as if it were alone")
        else:
            parts.append("half steps are half times over the rate, not corrected for the step")
        return between.join(parts)

    def __str__(self) -> str:
        return self.told("; ")


def steps_of(problem: Problem, how: Stepping, modes: Timed, ends: Trajectory | None) -> Steps:
    """From the half times of the flow, and a trajectory at its beginning and its end."""
    facts, biased = problem.facts, problem.network.biased and problem.network.depth > 1
    curvature = (np.nan, np.nan)
    if ends is not None and problem.loss.squared:
        first, last = sharpness(ends, preconditioned=True)
        curvature = (float(first), float(last))
    times = modes.half_times
    usual = how.steps(times)
    alone = facts.activation.linear and problem.loss.squared and not (biased and facts.depth > 2)
    if not alone or not np.isfinite(times).any():
        return Steps(how, usual, False, False, curvature)
    maps, fit, m = mode_maps(problem), problem.alignment, len(problem.alignment.s)
    overlap = np.abs(modes.u.T @ fit.U[:, :m]) * np.abs(modes.v.T @ fit.V[:, :m])
    own = np.argmax(overlap, axis=1)
    if facts.alignment_error <= facts.tolerance and overlap[np.isfinite(times), own[np.isfinite(times)]].min() > _SAME:
        limit, flowing = np.zeros(m), np.full(m, np.nan)
        limit[own], flowing[own] = modes.limit, times
        steps = maps.half_steps(limit, flowing, how)[own]
        return Steps(how, np.where(np.isfinite(times), steps, np.nan), True, True, curvature)
    ends_at = np.divide(maps.s, maps.d, out=np.zeros_like(maps.s), where=maps.d > 0)
    flowing = maps.half_times(ends_at, times)
    late = (maps.half_steps(ends_at, flowing, how) / how.steps(flowing))[own]
    return Steps(how, usual * np.where(np.isfinite(late), late, 1.0), False, True, curvature)
