"""Every mode by itself: the closed form that explains a random initialisation (theory: section 11)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.methods.decoupled import Decoupled
from lazyrich.observables.crossings import crossings_of
from lazyrich.observables.modes import half_way
from lazyrich.prediction.error import relative
from lazyrich.problem import Problem

SAFE_ALONE = 1.25  # calibrated: tests/methods/test_decoupled.py
GRID = 300  # times for half times, and for the couplings of modes
_FAR_ENOUGH = 0.1  # of the longest way of a mode, to speak of half of it


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """Every mode by itself (theory: section 11): what a random initialisation does, as one formula per mode.

    Errors are relative; measured against the integration, or estimated where there is none.
    """

    modes: Decoupled
    half_times: Float[Array, " m"]
    error: float  # of the strengths at any time, over the largest
    half_time_error: float  # the largest of any mode that goes a tenth of the longest way
    measured: bool

    @property
    def c(self) -> Float[Array, " m"]:
        """√(((p + r)/2)² − a²) of each mode over its singular value: lazy where it is large, rich where it is small."""
        c, s = self.modes.c, self.modes.s
        return np.divide(c, s, out=np.full_like(c, np.inf), where=s > 0)

    def strengths(self, times: Float[Array, " T"]) -> Float[Array, "T m"]:
        """uᵀWv of each mode at each time."""
        return self.modes.strengths(times)

    def __str__(self) -> str:
        how = "measured" if self.measured else "estimated"
        return (
            f"every mode by itself: strengths within {self.error:.2g} of the largest, half times of modes that go far "
            f"within {self.half_time_error:.2g} of themselves ({how}); it is lazy where c/s is large, rich where it is "
            "small"
        )


def alone(problem: Problem) -> bool:
    """Whether the modes may be taken one by one: they are, to zeroth order, and the hidden layer has room for all."""
    return Decoupled.applies(problem) and not problem.facts.bottleneck


def closed_form_of(modes: Decoupled, times: Array, strengths: Array, end: float, *, measured: bool) -> ClosedForm:
    """The closed form of each mode beside what it does, or what it does with all couplings as far as they are known;
    all has happened by about `end`."""
    limit = modes.limit
    alone, course = half_times_of(modes, end), half_way(times, strengths, limit)
    way = np.abs(limit - strengths[0])
    off = np.abs(alone / course - 1)[way >= _FAR_ENOUGH * way.max(initial=0.0)]
    safe = 1.0 if measured else SAFE_ALONE
    error = safe * relative(modes.strengths(times) - strengths, strengths)
    return ClosedForm(modes, alone, error, safe * float(np.nanmax(off, initial=0.0)), measured)


def half_times_of(modes: Decoupled, end: float) -> Float[Array, " m"]:
    times = np.append(0.0, np.geomspace(1e-8 * end, 1e2 * end, GRID))
    return crossings_of(modes.strengths, times, modes.limit)
