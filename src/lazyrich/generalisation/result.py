"""`curve`: training and test loss along the whole course, when to stop, and what each mode has to do with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lazyrich._rounding import cleared
from lazyrich._typing import Array, Float
from lazyrich.generalisation.modes import ByMode, by_mode
from lazyrich.generalisation.stopping import Course, Stopping, best
from lazyrich.observables.held_out import as_tested, loss_on
from lazyrich.predict import predict
from lazyrich.prediction import Prediction
from lazyrich.problem import Problem, as_problem, loss_of
from lazyrich.tasks import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROWS = 12  # of the table of modes


@dataclass(frozen=True, eq=False, repr=False)
class Curve:
    """Training and test loss, and when to stop. `print(curve)` has one table, `.plot()` draws it.

    >>> task, truth, _, _ = lr.tasks.noisy_teacher(0, d_in=10, d_out=10, strengths=[4.0, 2.0])
    >>> start = lr.inits.zero_balanced(0, sizes=(10, 12, 10), scale=0.01)
    >>> found = lr.generalisation.curve(lr.Problem(task, start), truth)
    >>> bool(found.best.loss < found.test[-1]), found.best.never, found.by_mode.wanted.shape
    (True, False, (10,))
    """

    prediction: Prediction  # of training, which knows nothing of the test
    test_task: Task  # in the coordinates of the training task
    times: Float[Array, " T"]
    train: Float[Array, " T"]  # losses
    test: Float[Array, " T"]
    best: Stopping  # over the whole course, whatever times were asked for
    by_mode: ByMode | None  # of linear networks and squared error
    course: Course  # test loss and its derivative wherever it was looked at

    @property
    def strengths_at_best(self) -> Float[Array, " m"]:
        """uᵀWv of each mode at the best time; where it never hurts, in the limit or as far as is known."""
        known, time = self.prediction, self.best.time
        if self.best.never:
            return known.limit
        if known.exact:
            return known.strengths_of(known.course.at([time]))[0]
        along = known.strengths_of(known.course)
        return np.array([np.interp(time, known.course.times, a) for a in along.T])

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know."""
        own: tuple[str, ...] = ()
        if not self.prediction.exact:
            last = f"{self.course.times[-1]:.4g}"
            own = (f"the test loss was looked at up to t = {last}, and may have a lower minimum later",)
        return self.prediction.notes + own

    def plot(self, path: str | Path | None = None) -> Figure:
        """Both losses with the best time to stop, and what each mode adds to the test loss.

        Parameters
        ----------
        path : where to write it, if at all

        Returns
        -------
        Figure
        """
        from lazyrich.plot import generalisation as picture
        from lazyrich.plot import style

        figure = picture.draw(self)
        if path is not None:
            style.save(figure, style.figure_path(path, "generalisation.png"))
        return figure

    def __str__(self) -> str:
        known = self.prediction
        end, floor = f"{self.times[-1]:g}", ""
        sure = "exact" if known.exact else f"{known.known}: loss and modes to {known.error:.1g} of their largest"
        if self.by_mode is not None:
            floor = f" (least of any linear map {_number(self.test_task.loss_floor, float(self.test.max()))})"
        lines = [
            f"network       {known.trajectory.problem.network.architecture}",
            f"known by      {known.method} ({sure})",
            f"train loss    {self.train[0]:.6g} → {self.train[-1]:.6g} at t = {end}",
            f"test loss     {self.test[0]:.6g} → {self.test[-1]:.6g} at t = {end}{floor}",
            f"best          {self._stop_in_words()}",
            *self._modes_in_words(),
        ]
        return "\n".join(lines + [f"note: {note}" for note in self.notes])

    def _stop_in_words(self) -> str:
        best = self.best
        if best.never:
            far = "" if best.exact else f", as far as t = {self.course.times[-1]:.4g}"
            return f"never stop: train to the end{far}; the test loss is then {best.loss:.6g}"
        if best.time == 0:
            return f"stop at once: training only hurts; the test loss is {best.loss:.6g}"
        how = "exact" if best.exact else f"± {best.error:.1g}, interpolated between records"
        return f"stop at t = {best.time:.6g} ({how}): test loss {best.loss:.6g}"

    def _modes_in_words(self) -> list[str]:
        """A table: what each mode is asked for by either task, where it is at the best time, and what it adds."""
        modes = self.by_mode
        if modes is None:
            return ["modes         not told apart: a test loss falls into modes where network and squared error allow"]
        target, stopped = self.prediction.frames.target, self.strengths_at_best
        size, worst = float(np.abs([target, modes.wanted]).max()), float(np.abs(modes.added).max(initial=0.0))
        head = (
            "mode",
            "train wants",
            "test wants",
            "at best",
            f"at t = {self.times[-1]:.4g}",
            "adds in all",
            "hurts from",
        )
        lines = [f"{head[0]:>6}" + "".join(f"{word:>14}" for word in head[1:])]
        for i in range(min(len(target), _ROWS)):
            strengths = (target[i], modes.wanted[i], stopped[i], modes.strengths[-1, i])
            row = "".join(f"{_number(value, size):>14}" for value in strengths)
            when = "never" if np.isinf(modes.hurts_from[i]) else f"{modes.hurts_from[i]:.4g}"
            lines.append(f"{i + 1:>6}{row}{_number(modes.added[-1, i], worst):>14}{when:>14}")
        if (more := len(target) - _ROWS) > 0:
            lines.append(f"   and {more} weaker modes, which add {modes.added[-1, _ROWS:].sum():.4g}")
        lines.append(f"   outside the modes: {_number(modes.rest[-1], max(worst, float(np.abs(self.test).max())))}")
        return lines

    def __repr__(self) -> str:
        return f"<Curve: {self.prediction.known}, best {self.best!r}>"


def curve(problem: Problem, test: Task, times: object = None) -> Curve:
    """Training and test loss of any network over time, and when it is best to stop.

    Parameters
    ----------
    problem : a task and any network, as `lr.predict` takes it
    test : another task with as many inputs and outputs: held-out samples, or the truth behind noisy ones. Where the
        training task was whitened and this one was not, its inputs are mapped in the same way
    times : when to look, as in `lr.predict`. The best time to stop does not depend on them

    Returns
    -------
    Curve : with `.times`, `.train`, `.test`, `.best` and, of linear networks, `.by_mode`

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> found = lr.generalisation.curve(problem, lr.Task.from_correlations([[1.0]]), [0.0, 1.0, np.inf])
    >>> found.test.round(6), round(found.best.time, 6)  # it passes a = 1, half of its target
    (array([0.49005 , 0.162115, 0.5     ]), 1.323326)
    """
    task, network = as_tested(as_problem(problem), test), problem.network
    prediction = predict(problem, times)
    traj = prediction.trajectory
    loss = loss_on(traj, task)
    stop, course = best(prediction, task)
    first = loss_of(task, network.weights, network.activation, problem.loss)
    splits = network.activation.linear and problem.loss.squared
    modes = by_mode(prediction, task, loss, first, course.times) if splits else None
    return Curve(prediction, task, np.asarray(traj.times), np.asarray(traj.loss), loss, stop, modes, course)


def _number(value: float, size: float) -> str:
    """A number beside others of this size: what is nothing but rounding is 0."""
    return f"{float(cleared(value, size)):.4g}"
