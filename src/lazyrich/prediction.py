"""What `predict` returns: a trajectory, how it is known and how far it may be off, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.alignment import align
from lazyrich.facts import Refusal
from lazyrich.landscape.fate import Fate
from lazyrich.landscape.regime import Regime, regime
from lazyrich.methods.decoupled import Decoupled
from lazyrich.networks.network import forward
from lazyrich.observables.modes import half_times
from lazyrich.problem import Problem
from lazyrich.trajectory import Trajectory, as_trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEAR = 0.05  # of its target: a mode this close to it is taken to be on its way there
WEAK, _NOTHING = 0.01, 1e-6  # of the strongest mode: too weak to wait for; not a mode of the task
_ROWS = 12  # of the table of modes
_NEXT = "\n" + 14 * " "  # line, below the second column


class Knowledge(StrEnum):
    """How a prediction knows."""

    EXACT = "exact"
    INTEGRATED = "integrated"
    ESTIMATED = "estimated"


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
            f"every mode by itself: strengths within {self.error:.2g} of the largest, half times within "
            f"{self.half_time_error:.2g} of themselves ({how}); it is lazy where c/s is large, rich where it is small"
        )


class Frames(NamedTuple):
    """The modes that a prediction speaks of, strongest first."""

    u: Float[Array, "out m"]
    v: Float[Array, "in m"]
    target: Float[Array, " m"]  # uᵀTv: what the best linear map has of each


@dataclass(frozen=True, eq=False)
class Prediction:
    """A trajectory, how sure it is, and what follows from it. `print(prediction)` reads well, `.plot()` draws it.

    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.gaussian(0, sizes=(8, 14, 8), scale=0.01))
    >>> found = lr.predict(problem)
    >>> found.exact, found.method, found.error < 1e-6, found.half_times.round(1)[:2]
    (False, 'gram', True, array([10.5, 11.1]))
    """

    trajectory: Trajectory
    known: Knowledge
    error: float  # of loss and modes, relative to their largest values: the most to expect
    course: Trajectory  # from 0 until all that happens can be seen: what half times are read from
    kernel_course: Trajectory | None = None  # what the regime is read from; None: it is not known
    fate: Fate | None = None  # where a theorem gives one
    refusals: dict[str, tuple[Refusal, ...]] = field(default_factory=dict)  # why no theorem applies, method by method
    closed_form: ClosedForm | None = None  # of a random initialisation

    @property
    def exact(self) -> bool:
        return self.known is Knowledge.EXACT

    @property
    def method(self) -> str:
        return self.trajectory.method

    @cached_property
    def frames(self) -> Frames:
        """Singular vectors of Σyx, as in `mode_strengths`; where a theorem tells the fate, of the best linear map.

        With white inputs they are the same. Where singular values are equal, the network tells which.
        """
        problem = self.trajectory.problem
        if self.fate is not None:
            return frames_of(problem, problem.task.target, [self.fate.function_limit])
        if problem.network.activation.linear and not problem.facts.bottleneck:
            return frames_of(problem, problem.task.sigma_yx)  # all are learned, and the initialisation tells when
        return frames_of(problem, problem.task.sigma_yx, [_functions(self.course.at(self.course.times[-1:]))[0]])

    @cached_property
    def strengths(self) -> Float[Array, "T m"]:
        """uᵀW(t)v of each mode; of a nonlinear network, W(t) is the linear map nearest to it."""
        return self.strengths_of(self.trajectory)

    @cached_property
    def limit(self) -> Float[Array, " m"]:
        """Where each mode ends: in the limit of the theorem; else at its target, if it has gone half of the way."""
        if self.fate is not None:
            return self.fate.limit
        (first, last), target = self.strengths_of(self.course)[[0, -1]], self.frames.target
        problem = self.trajectory.problem
        free = problem.network.activation.linear and not problem.weight_decay and not problem.facts.bottleneck
        near = np.abs(last - target) <= np.maximum(np.abs(first - target) / 2, NEAR * np.abs(target))
        return np.where(free & near, target, last)

    @cached_property
    def function_limit(self) -> Float[Array, "out in"]:
        """W in the limit of the theorem, else at the last time; for a nonlinear network the nearest linear map."""
        if self.fate is not None:
            return self.fate.function_limit
        return _functions(self.trajectory.at(self.trajectory.times[-1:]))[0]

    @cached_property
    def half_times(self) -> Float[Array, " m"]:
        """When each mode is half way from its initialisation to its limit; nan: never."""
        if self.fate is None:
            return half_times(self.course.times, self.strengths_of(self.course), self.limit)
        return self.fate.half_times

    @cached_property
    def regime(self) -> Regime | None:
        """Lazy, rich, or both in turn; None where the tangent kernel is not known (tanh, deep ReLU, many units)."""
        if self.fate is not None:
            return self.fate.regime
        return None if self.kernel_course is None else regime(self.kernel_course)

    @property
    def still_falling(self) -> bool:
        """Whether the last tenth of the curve falls by a hundredth of all change.

        Or, where no fate tells the limit, by a hundredth of what is left to the least loss of any linear map, while a
        mode is off its target by a twentieth: a weak one may come long after the loss looks flat.
        """
        times, loss = self.trajectory.times, self.trajectory.loss
        fall, change = np.interp(0.9 * times[-1], times, loss) - loss[-1], np.ptp(loss)
        if self.exact or fall > 0.01 * change:
            return bool(fall > 0.01 * change)
        target = self.frames.target
        size = np.abs(target)
        missing = np.any((np.abs(self.strengths[-1] - target) > NEAR * size) & (size > _NOTHING * size.max()))
        return bool(missing and fall > 0.01 * (loss[-1] - self.trajectory.problem.task.loss_floor) > 0)

    def plot(self, path: str | Path | None = None, *, run: Trajectory | None = None) -> Figure:
        """The picture: loss, modes with their half times, and where it ends.

        Parameters
        ----------
        path : where to write it, if at all
        run : what training did, to lie below: `lr.descend`, or a run of your own by `lr.Trajectory.from_weights`

        Returns
        -------
        Figure
        """
        from lazyrich.plot import prediction as picture
        from lazyrich.plot import style

        problem = self.trajectory.problem
        if run is not None and as_trajectory(run).problem.network.sizes != problem.network.sizes:
            raise InvalidInput(
                f"run must be of the network that is predicted, {problem.network.architecture}, and it is of "
                f"{run.problem.network.architecture}."
            )
        figure = picture.draw(self, run)
        if path is not None:
            style.save(figure, style.figure_path(path, "prediction.png"))
        return figure

    def strengths_of(self, traj: Trajectory) -> Float[Array, "T m"]:
        """uᵀW(t)v of each mode along another trajectory of the network."""
        return in_frames(_functions(traj), self.frames)

    def __str__(self) -> str:
        traj, network = self.trajectory, self.trajectory.problem.network
        sure = "exact" if self.exact else f"{self.known}: loss and modes to {self.error:.1g} of their largest"
        lines = [
            f"network       {network.architecture}",
            f"known by      {self.method} ({sure})",
            f"loss          {traj.loss[0]:.6g} → {traj.loss[-1]:.6g} at t = {traj.times[-1]:g}",
        ]
        if self.fate is not None:
            lines.append(str(self.fate))
        else:
            if network.activation.linear:
                lines.append(f"least loss    {traj.problem.task.loss_floor:.6g} (of any linear map)")
            lines += [f"regime        {str(self.regime).replace('; ', _NEXT)}"] if self.regime else []
            lines += self._modes_in_words()
        return "\n".join(lines + [f"note: the loss is still falling at t = {traj.times[-1]:g}"] * self.still_falling)

    def _modes_in_words(self) -> list[str]:
        """A table of the modes, and what the closed form says of them."""
        closed, target, first = self.closed_form, self.frames.target, self.strengths_of(self.course)[0]
        shown = range(min(len(target), _ROWS))
        lines = [f"{'mode':>6} {'target':>12} {'initial':>12} {'limit':>12} {'half time':>12}"]
        lines[0] += f" {'closed form':>12} {'c/s':>9}" if closed else ""
        for i in shown:
            row = f"{i + 1:>6} {target[i]:>12.6g} {first[i]:>12.4g} {self.limit[i]:>12.6g}"
            row += f" {_time(self.half_times[i]):>12}"
            lines.append(row + (f" {_time(closed.half_times[i]):>12} {closed.c[i]:>9.3g}" if closed else ""))
        if len(target) > len(shown):
            lines.append(f"   and {len(target) - len(shown)} weaker modes")
        if closed:
            lines.append(f"closed form   {str(closed).replace('; ', _NEXT)}")
        return lines

    def __repr__(self) -> str:
        return f"<Prediction: {self.known}, {self.trajectory!r}>"


def _time(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.6g}"


def frames_of(problem: Problem, of: Float[Array, "out in"], layers: Sequence[Array] | None = None) -> Frames:
    """Singular vectors of a matrix; those of equal singular values turned towards the layers, or the initial ones."""
    task = problem.task
    fit = problem.alignment if layers is None else align(of, task.sigma_xx, layers)
    u, v = fit.U[:, : len(fit.s)], fit.V[:, : len(fit.s)]
    return Frames(u, v, np.sum(u * (task.target @ v), axis=0))


def in_frames(functions: Float[Array, "T out in"], frames: Frames) -> Float[Array, "T m"]:
    """uᵀW(t)v of each mode."""
    return np.asarray(np.sum(frames.u * (functions @ frames.v), axis=1))


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
