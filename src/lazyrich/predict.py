"""`predict`: what will happen to a network on a task, for any network. Exact where a theorem applies, else integrated.

Where a closed form applies, it gives the trajectory and the fate behind it. Where none does, the gradient flow is
integrated twice, the second time with a tenth of the tolerance: the second is the answer, and how far the two are apart
its error. That is more than the error of the second, which is what it is there to bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.alignment import align
from lazyrich.facts import Refusal
from lazyrich.landscape.fate import Fate, fate
from lazyrich.landscape.horizon import horizon, rounded_up
from lazyrich.landscape.regime import Regime, regime
from lazyrich.methods.flow import flow
from lazyrich.methods.solve import solve
from lazyrich.networks.network import forward
from lazyrich.observables.kernels.along import has_kernel
from lazyrich.observables.modes import half_times
from lazyrich.problem import Problem, as_problem
from lazyrich.trajectory import Trajectory

_COUNT = 201  # times, where none are given
_EARLY = 40  # more before the second of them, to find what is over at once
_ROUNDING = 1e-12  # of a closed form
_LINEAR, _NONLINEAR = (1e-8, 1e-9), (1e-3, 1e-4)  # tolerances of the two integrations


@dataclass(frozen=True, eq=False)
class Prediction:
    """A trajectory, how sure it is, and what follows from it. `print(prediction)` reads well.

    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.gaussian(0, sizes=(8, 14, 8), scale=0.01))
    >>> found = lr.predict(problem)
    >>> found.exact, found.method, found.error < 1e-6, found.half_times.round(1)[:2]
    (False, 'flow', True, array([10.5, 11.1]))
    """

    trajectory: Trajectory
    fate: Fate | None  # where a theorem gives one
    error: float  # of the loss, relative to its largest value: the most to expect
    refusals: dict[str, tuple[Refusal, ...]]  # why no theorem applies, method by method; empty: one does
    course: Trajectory  # from 0 until all that happens can be seen: what half times and regime are read from

    @property
    def exact(self) -> bool:
        return self.fate is not None

    @property
    def method(self) -> str:
        return self.trajectory.method

    @cached_property
    def strengths(self) -> Float[Array, "T m"]:
        """uᵀW(t)v of each mode of the best linear map; of a nonlinear network, W(t) is the linear map nearest to it."""
        return self._strengths(self.trajectory)

    @cached_property
    def limit(self) -> Float[Array, " m"]:
        """Where each mode ends: in the limit of the theorem, or at the end of the course."""
        return self._strengths(self.course)[-1] if self.fate is None else self.fate.limit

    @cached_property
    def half_times(self) -> Float[Array, " m"]:
        """When each mode is half way from its initialisation to its limit; nan: never."""
        if self.fate is None:
            return half_times(self.course.times, self._strengths(self.course), self.limit)
        return self.fate.half_times

    @cached_property
    def regime(self) -> Regime | None:
        """Lazy, rich, or both in turn; None where the tangent kernel has no formula (tanh, deep ReLU)."""
        if self.fate is not None:
            return self.fate.regime
        return regime(self.course) if has_kernel(self.course.problem.network) else None

    @property
    def still_falling(self) -> bool:
        """Whether the last tenth of the curve falls by a hundredth of all change.

        Or, where no fate tells the limit, by a hundredth of what is left to the least loss of any linear map, while a
        mode is off its target by a twentieth: a weak one may come long after the loss looks flat.
        """
        loss = self.trajectory.loss
        fall, change = loss[-min(1 + max(len(loss) // 10, 1), len(loss))] - loss[-1], np.ptp(loss)
        if self.exact or fall > 0.01 * change:
            return bool(fall > 0.01 * change)
        task = self.trajectory.problem.task
        s = np.linalg.svd(task.target, compute_uv=False)
        missing = np.any(np.abs(self.strengths[-1] - s) > 0.05 * s)
        return bool(missing and fall > 0.01 * (loss[-1] - task.loss_floor) > 0)

    def _strengths(self, traj: Trajectory) -> Float[Array, "T m"]:
        task = traj.problem.task
        end = _functions(self.course.at(self.course.times[-1:]))[0] if self.fate is None else self.fate.function_limit
        fit = align(task.target, task.sigma_xx, [end])
        m = len(fit.s)
        return np.sum(fit.U[:, :m] * (_functions(traj) @ fit.V[:, :m]), axis=1)

    def __str__(self) -> str:
        traj, how = self.trajectory, "exact" if self.exact else f"integrated, loss to {self.error:.1g} of its largest"
        lines = [f"{self.method} ({how}), loss {traj.loss[0]:.6g} → {traj.loss[-1]:.6g} at t = {traj.times[-1]:g}"]
        known = np.flatnonzero(np.isfinite(self.half_times))
        lines += [f"mode {i + 1} is half learned at t = {self.half_times[i]:.4g}" for i in known]
        lines += [str(self.regime)] if self.regime else []
        last = self.trajectory.times[-1]
        return "\n".join(lines + [f"note: the loss is still falling at t = {last:g}"] * self.still_falling)

    def __repr__(self) -> str:
        return f"<Prediction: {'exact' if self.exact else 'integrated'}, {self.trajectory!r}>"


def _functions(traj: Trajectory) -> Float[Array, "T out in"]:
    """W at each time, or the linear map nearest to a nonlinear network on the samples."""
    task, network = traj.problem.task, traj.problem.network
    if network.activation.linear:
        return np.asarray(traj.function)
    X = task.inputs
    assert X is not None  # the flow has asked for samples
    states = zip(*(np.asarray(W) for W in traj.weights), strict=True)
    outputs = np.array([list(forward(state, network.activation, X))[-1] for state in states])
    return np.swapaxes(outputs, 1, 2) @ np.linalg.pinv(X).T


def predict(problem: Problem, times: object = None) -> Prediction:
    """What will happen: exact where a theorem applies, else integrated, with an error.

    Parameters
    ----------
    problem : a task and any network
    times : when to look; without them 201 times from 0 until all that happens can be seen. Half times and regime do
        not depend on it, beyond the tolerance of an integration. np.inf may be one of them where a theorem applies

    Returns
    -------
    Prediction : with `.exact`, `.method`, `.error`, `.half_times`, `.regime`, `.fate` and `.trajectory`

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> found = lr.predict(problem, [0.0, 1.0, np.inf])
    >>> found.exact, found.trajectory.function.ravel().round(6), found.half_times.round(4)
    (True, array([0.01    , 0.430588, 2.      ]), array([1.3258]))
    """
    as_problem(problem)
    if problem.facts.method is not None:
        known = fate(problem)
        traj = solve(problem, span(problem) if times is None else times)
        assert traj.solution is not None
        error = max(_ROUNDING, traj.solution.doubt_until(float(traj.clock[-1])))
        prediction = Prediction(traj, known, error, {}, traj if times is None else traj.at(span(problem)))
    else:
        # what happens is read from times of our own, whatever the times that are asked for
        seen = span(problem)
        asked = seen if times is None else _check.as_times(times, forever=True)
        own = np.union1d(seen, np.geomspace(1e-4, 1.0, _EARLY) * seen[1])  # a fast mode may be over at once
        if np.isinf(asked[-1]):
            raise InvalidInput(
                "times must be finite where no exact solution applies, and the last is inf: try predict(problem), "
                "which looks until all has happened."
            )
        grid = np.union1d(own, asked)
        coarse, fine = _LINEAR if problem.network.activation.linear else _NONLINEAR
        draft, course = flow(problem, grid, record="loss", rtol=coarse), flow(problem, grid, rtol=fine)
        both = min(len(draft.times), len(course.times))
        apart = np.abs(draft.loss[:both] - course.loss[:both]).max() / course.loss.max() if course.loss.max() else 0.0
        traj, course = (course.at(some[some <= course.times[-1]]) for some in (asked, own))
        prediction = Prediction(traj, None, float(max(apart, _ROUNDING)), dict(problem.facts.methods), course)
    if not np.isfinite(prediction.trajectory.loss).all():
        raise InvalidInput("the numbers are too large or too small for this: the predicted loss is not finite.")
    return prediction


def span(problem: Problem, end: float | None = None, count: int = _COUNT) -> Array:
    """`count` times from 0 to `end`, or until the loss has fallen and all modes are well past half way."""
    if end is None:
        end = horizon(problem)
        times = fate(problem).half_times if problem.facts.method is not None else np.empty(0)
        if np.isfinite(times).any():  # also of modes that the loss hardly feels
            end = max(end, rounded_up(1.5 * float(np.nanmax(times))))
    return np.linspace(0.0, end, count)
