"""Too many inputs and outputs for QQᵀ: each mode by itself, corrected for what couples it to the others.

The error comes from the size of the correction.
"""

from __future__ import annotations

import numpy as np

from lazyrich._typing import Array
from lazyrich.landscape.horizon import horizon, rounded_up
from lazyrich.methods.decoupled import Decoupled
from lazyrich.prediction.closed_form import GRID, SAFE_ALONE, closed_form_of, half_times_of
from lazyrich.prediction.error import EXACT, TWICE, relative
from lazyrich.prediction.looking import both_ends
from lazyrich.prediction.result import Knowledge, Prediction
from lazyrich.problem import Problem
from lazyrich.trajectory import Trajectory

_FINER = 3  # times as many for the couplings, the second time
_SAFE = 2.5  # calibrated: tests/methods/test_decoupled.py


def by_modes(problem: Problem, asked: Array | None) -> Prediction:
    """Estimated from each mode by itself and what couples them; the error comes from the size of the correction."""
    modes = Decoupled(problem)
    end = horizon(problem)
    end = max(end, rounded_up(1.5 * float(np.nanmax(half_times_of(modes, end), initial=0.0))))
    own = both_ends(problem, end)
    asked = own if asked is None else asked
    kept = np.union1d(own, asked)
    coarse, grid = (np.union1d(kept, both_ends(problem, float(kept[-1]), count)) for count in (GRID, _FINER * GRID))
    coupled, draft = (modes.coupled(some, np.flatnonzero(np.isin(some, kept))) for some in (grid, coarse))
    closed = closed_form_of(modes, grid, modes.strengths(grid) + coupled.correction, end, measured=False)
    error, why = max(_SAFE * (closed.error / SAFE_ALONE) ** 1.5, EXACT), dict(problem.facts.methods)
    # small weights wait long, and steps add up: of second order, theirs are an eighth of the difference
    error += relative(draft.function - coupled.function, coupled.function) / _FINER
    error += TWICE * problem.facts.whitening_error  # taken for white

    def course(times: Array) -> Trajectory:
        parts = {"function": coupled.function[np.isin(kept, times)]}
        return Trajectory(problem, times, "decoupled", parts, citations=("tu2024",))

    return Prediction(course(asked), Knowledge.ESTIMATED, error, course(own), refusals=why, closed_form=closed)
