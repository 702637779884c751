"""What will happen to a given network on a given task: loss curve, modes and their times, and where it ends.

Exact wherever a theorem applies. Where none does, the gradient flow is integrated, `Prediction.reason` says
which conditions fail, and the figure carries the word "integrated".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lazyrich import landscape
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.alignment import align
from lazyrich.landscape.fate import Fate, fate
from lazyrich.landscape.horizon import rounded_up
from lazyrich.methods.flow import flow
from lazyrich.methods.solve import NoExactSolution, solve
from lazyrich.observables import half_times, mode_strengths
from lazyrich.plot import style
from lazyrich.problem import Problem
from lazyrich.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_MODES_DRAWN, _MODES_NAMED = 12, 5  # more cannot be told apart, or overfill the legend


@dataclass(frozen=True)
class Prediction:
    """A trajectory, and the fate behind it where a theorem gives one."""

    trajectory: Trajectory
    fate: Fate | None
    reason: str | None  # why no theorem applies; None: one does

    @cached_property
    def strengths(self) -> Float[Array, "T m"]:
        """uᵀW(t)v: of the modes of the best linear map, as the fate has them, and without one of those of Σyx."""
        if self.fate is None:
            return mode_strengths(self.trajectory)
        task, m = self.trajectory.problem.task, len(self.fate.strengths)
        fit = align(task.target, task.sigma_xx, [self.fate.function_limit])
        return np.sum(fit.U[:, :m] * (self.trajectory.function @ fit.V[:, :m]), axis=1)

    @property
    def limit(self) -> Float[Array, " m"]:
        """Where each mode ends: in the limit of the theorem, or at the horizon."""
        return self.strengths[-1] if self.fate is None else self.fate.limit

    @cached_property
    def half_times(self) -> Float[Array, " m"]:
        """When the curves are half way; nan where that is beyond the horizon or never."""
        if self.fate is None:
            return half_times(self.trajectory.times, self.strengths, self.limit)
        return np.where(self.fate.half_times <= self.trajectory.times[-1], self.fate.half_times, np.nan)

    @property
    def still_falling(self) -> bool:
        """Whether the last tenth of the curve falls by a hundredth of all change.

        Or, where no fate tells the limit, by a hundredth of what is left to the least loss of any linear map.
        """
        loss = self.trajectory.loss
        fall, change = loss[-1 - max(len(loss) // 10, 1)] - loss[-1], np.ptp(loss)
        left = 0.0 if self.fate else loss[-1] - self.trajectory.problem.task.loss_floor
        return bool(fall > 0.01 * change or (left > 1e-6 * change and fall > 0.01 * left))


def compute(problem: Problem, horizon: float | None = None, count: int = 201) -> Prediction:
    """Predict `count` times from 0 to the horizon, which is chosen so that all that happens can be seen."""
    try:
        known, reason = fate(problem), None
    except NoExactSolution as error:
        known, reason = None, str(error)
    horizon = horizon or _horizon(problem, known)
    times = np.linspace(0.0, horizon, count)
    predicted = solve(problem, times) if known else flow(problem, times)
    if not np.isfinite(predicted.loss).all():
        raise InvalidInput("the numbers are too large or too small for this: the predicted loss is not finite.")
    return Prediction(predicted, known, reason)


def _horizon(problem: Problem, known: Fate | None) -> float:
    """When the loss has fallen, and all modes are well past half way, also those that the loss hardly feels."""
    if known is None or not np.isfinite(known.half_times).any():
        return landscape.horizon(problem)
    return max(landscape.horizon(problem), rounded_up(1.5 * float(np.nanmax(known.half_times))))


def draw(prediction: Prediction) -> Figure:
    """Loss, modes with their half times, and the limit."""
    with style.styled():
        figure = style.new_figure(12.0, 3.9)
        losses, modes, end = figure.subplots(1, 3, width_ratios=(1.2, 1.2, 1.0))
        _draw_loss(losses, prediction)
        _draw_modes(modes, prediction)
        figure.colorbar(_draw_end(end, prediction), ax=end, shrink=0.85)
        return style.uncover(figure)


def _draw_loss(axes: Axes, prediction: Prediction) -> None:
    traj = prediction.trajectory
    label = f"exact ({traj.method})" if prediction.fate else "gradient flow, integrated"
    axes.plot(traj.times, traj.loss, color=style.COLOURS["blue"], label=label)
    if prediction.fate:
        axes.axhline(prediction.fate.loss_limit, **style.LIMIT, label=f"limit: {prediction.fate.kind}")
    axes.legend(loc="upper right")
    axes.set(xlabel=style.TIME, ylabel="loss", title="Predicted loss")
    axes.set_ylim(bottom=min(0.0, float(np.min(traj.loss))))
    axes.margins(x=0.01)


def _draw_modes(axes: Axes, prediction: Prediction) -> None:
    count = min(prediction.strengths.shape[1], _MODES_DRAWN)
    times, strengths, limit = prediction.trajectory.times, prediction.strengths[:, :count], prediction.limit[:count]
    named = range(count) if count <= _MODES_NAMED else (0, count - 1)
    for i, colour in enumerate(style.mode_colours(count)):
        axes.plot(times, strengths[:, i], color=colour, label=f"mode {i + 1}" if i in named else None)
    way = np.abs(limit - strengths[0])
    seen = way > 0.02 * way.max()  # a mode that hardly moves has no half way to look at
    axes.plot(prediction.half_times[:count][seen], (strengths[0] + limit)[seen] / 2, **style.MARK, label="half way")
    axes.legend(loc="upper right", handlelength=1.2)
    shown = "Modes" if count == prediction.strengths.shape[1] else f"The {count} strongest modes"
    axes.set(xlabel=style.TIME, ylabel=style.STRENGTH, title=shown)
    axes.margins(x=0.01)


def _draw_end(axes: Axes, prediction: Prediction) -> AxesImage:
    """The Gram matrix in the limit where it is known, and the network function otherwise."""
    known, traj = prediction.fate, prediction.trajectory
    if known is not None and known.gram_limit is not None:
        axes.set_title("QQᵀ in the limit")
        return style.draw_gram(axes, known.gram_limit, traj.problem.task.d_in)
    function = known.function_limit if known else traj.function[-1]
    axes.set(title=f"W {'in the limit' if known else 'at the horizon'}", xlabel="input", ylabel="output")
    return style.draw_matrix(axes, function)
