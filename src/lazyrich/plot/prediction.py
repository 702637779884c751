"""A prediction as a picture: loss, modes with their half times, where it ends, and what a reader must know of it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.plot import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

    from lazyrich.prediction import Prediction
    from lazyrich.trajectory import Trajectory

_ON_A_RUN = 1.3  # width of a prediction that lies on a run
_AT_ZERO: style.Look = {"marker": ">", "markersize": 8, "linestyle": "none", "alpha": 0.6, "clip_on": False}
_LINE = 165  # letters of a caption
_OF_MODES = {"linewidth": 4.0}  # of a run: they lie closer together than losses
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
                _mark_beginnings(axes, run)
        if prediction.cautions:
            words = "Note: " + "; ".join(each.short for each in prediction.cautions)
            lines = textwrap.fill(words.replace(" = ", "\u00a0=\u00a0"), _LINE)  # a number stays with its name
            figure.supxlabel(lines, x=0.01, horizontalalignment="left", fontsize=9.5)
        return style.uncover(figure)


def _mark_beginnings(axes: Axes, run: Trajectory | None) -> None:
    """A record at t = 0 has no place on a logarithmic axis, and much of it may be left of the next: it is marked at its
    left end. Between the two nothing is known of the run, and nothing is drawn."""
    if run is None or run.times[0] > 0:
        return
    begin = axes.get_xlim()[0]
    lines = [line for line in axes.lines if line.get_gid() == style.RUN["gid"]]
    for line in lines:
        axes.plot([begin], np.asarray(line.get_ydata())[:1], color=line.get_color(), **_AT_ZERO)
    axes.set_xlim(left=begin)


def _draw_loss(axes: Axes, prediction: Prediction, run: Trajectory | None) -> None:
    (times, loss, _), traj = prediction.curve, prediction.trajectory
    if run is not None:
        name = f"training ({run.method})"
        axes.plot(run.times, run.loss, color=style.COLOURS["orange"], **style.RUN, label=name)
    label = f"{prediction.known} ({traj.method})"
    axes.plot(times, loss, color=style.COLOURS["blue"], linewidth=_width(run), label=label)
    if prediction.fate:
        axes.axhline(prediction.fate.loss_limit, **style.LIMIT, label=f"limit: {prediction.fate.kind}")
    axes.legend(loc="upper right")
    of = traj.problem.loss
    axes.set(xlabel=style.TIME, ylabel="loss" if of.squared else f"loss ({of})", title="Predicted loss")
    axes.set_ylim(min(0.0, float(np.min(loss))), max(1.05 * float(np.max(loss)), axes.get_ylim()[1]))
    axes.margins(x=0.01)


def _width(run: Trajectory | None) -> float | None:
    """Of what is predicted: as usual, or thin on a run."""
    return None if run is None else _ON_A_RUN


def _draw_modes(axes: Axes, prediction: Prediction, run: Trajectory | None) -> None:
    count = min(prediction.strengths.shape[1], _MODES_DRAWN)
    (times, _, strengths), limit = prediction.curve, prediction.limit[:count]
    strengths = strengths[:, :count]
    named = range(count) if count <= _MODES_NAMED else (0, count - 1)
    colours = style.mode_colours(count)
    if run is not None and (run.knows("function") or run.knows("weights")):
        for trained, colour in zip(prediction.strengths_of(run)[:, :count].T, colours, strict=True):
            axes.plot(run.times, trained, color=colour, **style.RUN | _OF_MODES)
    for i, colour in enumerate(colours):
        name = f"mode {i + 1}" if i in named else None
        axes.plot(times, strengths[:, i], color=colour, linewidth=_width(run), label=name)
    linear = prediction.trajectory.problem.network.activation.linear
    if prediction.limit_known or (not linear and prediction.trajectory.problem.loss.squared):
        for i, end in enumerate(limit if prediction.limit_known else prediction.frames.target[:count]):
            axes.axhline(end, **style.LIMIT, label=None if i else "limit" if prediction.limit_known else "target (Σyx)")
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
    strength = style.STRENGTH if linear else "mode strength uᵀE[f xᵀ]v"
    if not prediction.trajectory.problem.loss.squared:
        strength += ", modes of the pull at W = 0"
    axes.set(xlabel=style.TIME, ylabel=strength, title=shown)
    axes.margins(x=0.01)


def _draw_end(axes: Axes, prediction: Prediction) -> AxesImage:
    """The Gram matrix in the limit where it is known, and the network function otherwise.

    Of a nonlinear network the covariance of outputs and inputs: which input speaks for which output, whatever their
    means. A linear map nearest to it would show inputs that hardly vary, and little else.
    """
    known, traj = prediction.fate, prediction.trajectory
    if known is not None and known.gram_limit is not None:
        axes.set_title("QQᵀ in the limit")
        return style.draw_gram(axes, known.gram_limit, traj.problem.task.d_in)
    linear, when = traj.problem.network.activation.linear, "in the limit" if known else f"at t = {traj.times[-1]:g}"
    axes.set(title=f"{'W' if linear else 'Cov(f, x)'} {when}", xlabel="input", ylabel="output")
    if not linear:
        return style.draw_matrix(axes, _covariance(traj))
    image = style.draw_matrix(axes, known.function_limit if known else prediction.last_function)
    if traj.problem.network.biased:
        axes.set_xlabel("input, and last the constant of the biases")
    return image


def _covariance(traj: Trajectory) -> Float[Array, "out in"]:
    """Of outputs with inputs over the samples at the last time, without the constant input of biases."""
    X = np.asarray(traj.problem.task.inputs)[:, : traj.problem.network.d_in]
    f: Array = traj.at(traj.times[-1:]).outputs[0]
    return (f - f.mean(axis=0)).T @ (X - X.mean(axis=0)) / len(X)
