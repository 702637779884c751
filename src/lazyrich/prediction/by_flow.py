"""Deep and nonlinear networks: integrated twice by `flow`, and how far the two runs are apart is the error."""

from __future__ import annotations

import numpy as np

from lazyrich._status import End, Status
from lazyrich._typing import Array
from lazyrich.methods.flow import flow
from lazyrich.methods.gram import same_sign
from lazyrich.observables.kernels.along import has_kernel
from lazyrich.prediction.error import EXACT, TWICE, relative
from lazyrich.prediction.looking import STEPS, horizon_of, looked_at
from lazyrich.prediction.modes import frames_of, functions_of, in_frames
from lazyrich.prediction.result import Knowledge, Prediction
from lazyrich.problem import Problem
from lazyrich.trajectory import Trajectory

_LINEAR, _NONLINEAR = (1e-8, 1e-9), (1e-3, 1e-4)  # tolerances of the two runs
_SAFE_NONLINEAR = 2.0  # whose tolerances are further apart than their errors
_FEWER = 8  # one in as many times is recorded by the first of the two


def by_flow(problem: Problem, asked: Array | None) -> Prediction:
    """Integrated by `flow`, twice. What happens is read from times of our own, as far as any are asked for."""
    own = looked_at(problem, horizon_of(problem), asked)
    asked = own if asked is None else asked
    grid = np.union1d(own, asked)
    coarse, fine = _LINEAR if problem.network.activation.linear else _NONLINEAR
    few = np.union1d(grid[::_FEWER], grid[-1:])  # steps end at records: on the same ones both runs might take the same
    linear = problem.network.activation.linear
    draft = flow(problem, few, record="function" if linear else "weights", rtol=coarse)
    course = _on_its_side(flow(problem, grid, rtol=fine))
    both, there = np.isin(few[: len(draft.times)], course.times), np.isin(course.times, draft.times)
    apart = relative(draft.loss[both] - course.loss[there], course.loss)
    modes = frames_of(problem, problem.pull)
    few_strengths, strengths = (
        in_frames(functions_of(some), modes) for some in (draft, course.at(course.times[there]))
    )
    safe = TWICE if linear else _SAFE_NONLINEAR
    apart = safe * max(apart, relative(few_strengths[both] - strengths, strengths))
    traj, course = (course.at(some[some <= course.times[-1]]) for some in (asked, own))
    error, why = max(apart, EXACT), dict(problem.facts.methods)
    return Prediction(traj, Knowledge.INTEGRATED, error, course, _for_kernels(course), refusals=why)


def _on_its_side(course: Trajectory) -> Trajectory:
    """As far as det W keeps its sign, where that is what it must do; errors of an integration may lead it past 0."""
    if not course.problem.facts.determinant_obstruction:
        return course
    kept = np.cumprod(same_sign(course.problem, course.function) > 0).astype(bool)
    if kept.all():
        return course
    times = course.times[kept]
    parts = {"weights": [W[kept] for W in course.weights]}
    done = stopped(course.problem, float(times[-1]), STEPS)
    return Trajectory(course.problem, times, course.method, parts, status=done, notes=course.notes)


def stopped(problem: Problem, time: float, steps: int) -> Status:
    """Why a run went no further."""
    why = f"after {steps} steps"
    if problem.facts.determinant_obstruction:
        why = "where det W is 0 as far as an integration can tell, and would change its sign, which it must keep"
    return Status(End.STOPPED, f"stopped at t = {time:g}, {why}", "an earlier last time")


def _for_kernels(course: Trajectory) -> Trajectory | None:
    """All of it, where there are kernels: `regime` looks at the records that it needs."""
    return course if has_kernel(course.problem.network) else None
