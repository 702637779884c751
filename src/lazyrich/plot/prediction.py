"""A prediction as a picture: loss, modes with their half times, and where it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich.plot import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

    from lazyrich.prediction import Prediction
    from lazyrich.trajectory import Trajectory

_RUN: style.Look = {"alpha": 0.35, "linewidth": 4.5}  # pale and wide, so that the prediction is seen on it
_ALONE: style.Look = {"color": style.COLOURS["pink"], "linewidth": 1.2, "linestyle": (0, (4, 2))}  # closed form
_EARLY = 0.01  # of all time: half times before this are seen on a logarithmic axis only
_MODES_DRAWN, _MODES_NAMED = 12, 5  # more cannot be told apart, or overfill the legend


def draw(prediction: Prediction, run: Trajectory | None = None) -> Figure:
    """Loss, modes with their half times, and the limit; a training run below loss and modes."""
    if np.isinf(prediction.trajectory.times[0]):
        raise InvalidInput("times must hold a finite one to be drawn, and all are inf: try predict(problem).")
    with style.styled():
        figure = style.new_figure(12.0, 3.9)
        losses, modes, end = figure.subplots(1, 3, width_ratios=(1.2, 1.2, 1.0))
        _draw_loss(losses, prediction, run)
        _draw_modes(modes, prediction, run)
        figure.colorbar(_draw_end(end, prediction), ax=end, shrink=0.85)
        if np.nanmin(prediction.half_times, initial=np.inf) < _EARLY * prediction.curve[0][-1]:
            for axes in (losses, modes):
                axes.set_xscale("log", nonpositive="mask")  # a line from t = 0 to the first record would look flat
        return style.uncover(figure)


def _draw_loss(axes: Axes, prediction: Prediction, run: Trajectory | None) -> None:
    (times, loss, _), traj = prediction.curve, prediction.trajectory
    if run is not None:
        axes.plot(run.times, run.loss, color=style.COLOURS["blue"], **_RUN, label=f"training ({run.method})")
    label = f"{prediction.known} ({traj.method})"
    axes.plot(times, loss, color=style.COLOURS["blue"], label=label)
    if prediction.fate:
        axes.axhline(prediction.fate.loss_limit, **style.LIMIT, label=f"limit: {prediction.fate.kind}")
    axes.legend(loc="upper right")
    axes.set(xlabel=style.TIME, ylabel="loss", title="Predicted loss")
    axes.set_ylim(bottom=min(0.0, float(np.min(loss))))
    axes.margins(x=0.01)


def _draw_modes(axes: Axes, prediction: Prediction, run: Trajectory | None) -> None:
    count = min(prediction.strengths.shape[1], _MODES_DRAWN)
    (times, _, strengths), limit = prediction.curve, prediction.limit[:count]
    strengths = strengths[:, :count]
    named = range(count) if count <= _MODES_NAMED else (0, count - 1)
    colours = style.mode_colours(count)
    if run is not None and (run.knows("function") or run.knows("weights")):
        for trained, colour in zip(prediction.strengths_of(run)[:, :count].T, colours, strict=True):
            axes.plot(run.times, trained, color=colour, **_RUN)
    for i, colour in enumerate(colours):
        axes.plot(times, strengths[:, i], color=colour, label=f"mode {i + 1}" if i in named else None)
    if prediction.limit_known:
        for i, end in enumerate(limit):
            axes.axhline(end, **style.LIMIT, label=None if i else "limit")
    if prediction.closed_form is not None:
        alone = prediction.closed_form.strengths(times)[:, :count]
        axes.plot(times, alone[:, 0], **_ALONE, label="each mode alone")
        axes.plot(times, alone[:, 1:], **_ALONE)
    way = np.abs(limit - strengths[0])
    seen = way > 0.02 * way.max()  # a mode that hardly moves has no half way to look at
    half_way = np.where(prediction.half_times <= times[-1], prediction.half_times, np.nan)  # what is to be seen
    axes.plot(half_way[:count][seen], (strengths[0] + limit)[seen] / 2, **style.MARK, label="half way")
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
    name = "W" if traj.problem.network.activation.linear else "Nearest linear map"
    when = "in the limit" if known else f"at t = {traj.times[-1]:g}"
    axes.set(title=f"{name} {when}", xlabel="input", ylabel="output")
    image = style.draw_matrix(axes, known.function_limit if known else prediction.last_function)
    if traj.problem.network.biased:
        axes.set_xlabel("input, and last the constant of the biases")
    return image
