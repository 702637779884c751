"""Pictures of where a network is, and where it will be: Gram blocks, fate, forgetting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, ArrayLike, Float
from lazyrich.landscape.fate import Fate
from lazyrich.landscape.fate import fate as fate_of
from lazyrich.methods.solve import NoExactSolution
from lazyrich.observables._reading import two_layer_linear
from lazyrich.plot import style
from lazyrich.problem import Problem
from lazyrich.sequences import Continual
from lazyrich.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHOWN = 4  # times, where none are asked for
_LINE, _HANDLE = 72, 6  # letters of a legend as wide as the axes, and what the line before a name takes of them
_BELOW = 4.2  # lines of text from the axes to a legend below them: the numbers and the name of the axis


def gram(traj: Trajectory, indices: ArrayLike | None = None) -> Figure:
    """QQᵀ at some of the times: W1ᵀW1 and W2W2ᵀ on the diagonal, W2W1 below it.

    Parameters
    ----------
    traj : of two linear layers
    indices : places of the times; without them four, from the first to the last, between which the loss falls alike

    Returns
    -------
    Figure

    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.01))
    >>> len(lr.plot.gram(lr.solve(problem, range(100)), indices=[0, -1]).axes)  # two, and the colour bar
    3
    """
    places = chosen_times(two_layer_linear(traj, "plot.gram"), indices)
    chosen = np.asarray(traj.gram)[places]
    with style.styled():
        figure = style.new_figure(2.9 * len(places) + 0.9, 3.2)
        panels = np.atleast_1d(figure.subplots(1, len(places)))
        bound = float(np.abs(chosen).max()) or 1.0
        for panel, i, QQ in zip(panels, places, chosen, strict=True):
            image = style.draw_gram(panel, QQ, traj.problem.task.d_in, bound)
            panel.set_title(f"t = {float(traj.times[i]):.4g}")
        figure.colorbar(image, ax=list(panels), shrink=0.8, label="QQᵀ")
    return figure


def chosen_times(traj: Trajectory, indices: ArrayLike | None) -> list[int]:
    """Places of the times to show: those asked for, or four between which the loss falls alike."""
    count = len(traj.times)
    if indices is None:
        fallen = np.maximum.accumulate(traj.loss[0] - np.asarray(traj.loss))
        parts = np.searchsorted(fallen, fallen[-1] * np.linspace(0, 1, _SHOWN)[1:-1])
        indices = np.unique([0, *parts, count - 1])
    places = [_check.index("indices", i, count) for i in np.atleast_1d(indices)]
    if not places:
        raise InvalidInput("indices must name at least one of the times, and it is empty.")
    return places


def fate(problem: Problem | Fate, axes: Axes | None = None) -> Figure:
    """The timetable of learning: when each mode is half learned, and how strong it ends; missed modes are crosses.

    Parameters
    ----------
    problem : or its fate
    axes : to draw on, instead of a new figure

    Returns
    -------
    Figure

    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.01))
    >>> lr.plot.fate(problem).axes[0].get_title(loc="left")
    'Ends in the global minimum'
    """
    known = problem if isinstance(problem, Fate) else fate_of(problem)
    with style.drawn_on(axes) as panel:
        timed = np.isfinite(known.half_times)
        colours = style.mode_colours(len(known.s))
        for i in np.flatnonzero(timed):
            panel.vlines(known.half_times[i], 0.0, known.limit[i], color=colours[i], linewidth=1.6)
            panel.plot(known.half_times[i], known.limit[i], "o", color=colours[i], markersize=7)
            panel.annotate(str(i + 1), (known.half_times[i], known.limit[i]), (5, 4), textcoords="offset points")
        last = float(np.nanmax(known.half_times)) if timed.any() else 1.0
        for mode in known.missed:
            never = (1.15 * last, known.s[mode])
            panel.plot(*never, "x", color=style.COLOURS["orange"], markersize=8)
            panel.annotate(f"{mode + 1} never", never, (7, -3), textcoords="offset points")
        panel.axhline(0.0, color="black", linewidth=0.8)
        panel.set_xlim(0.0, 1.35 * last)
        panel.set(xlabel=f"half-learning {style.TIME}", ylabel="strength in the limit", title=f"Ends in {known.end}")
    return style.figure_of(panel)


def forgetting(run: Continual, axes: Axes | None = None) -> Figure:
    """The loss of every task along a sequence of tasks, and what is known before any training (circles).

    The circles are where each stage ends if it is trained to the end: for this network where exact solutions apply,
    bottleneck and saddles included, and otherwise from the tasks alone. Nonlinear networks have none. A task that comes
    again has one curve.

    Parameters
    ----------
    run : what `lr.continual` returns
    axes : to draw on, instead of a new figure

    Returns
    -------
    Figure

    >>> tasks = [lr.tasks.random_regression(seed, d_in=4, d_out=3, samples=20) for seed in range(3)]
    >>> run = lr.continual(tasks, lr.inits.zero_balanced(0, sizes=(4, 6, 3), scale=0.1), range(40))
    >>> lr.plot.forgetting(run).axes[0].get_ylabel()
    'loss'
    """
    if not isinstance(run, Continual):
        raise InvalidInput(f"run must be what lr.continual returns, and it is a {type(run).__name__}.")
    with style.drawn_on(axes) as panel:
        ends, alike = run.boundaries, _alike(run)
        known = _known_before(run)
        for (first, *_), label, colour in zip(alike, _labels(run, alike), style.mode_colours(len(alike)), strict=True):
            panel.plot(run.times, run.losses[:, first], color=colour, label=label)
            if known is not None:
                circle = style.MARK | {"markeredgecolor": colour}
                panel.plot(ends, known[: len(ends), first], **circle, clip_on=False)
        for end in ends[:-1]:
            panel.axvline(end, **style.LIMIT)
        if known is not None:
            panel.plot([], [], **style.MARK, label="known before, if trained to the end")
        panel.set(xlabel=style.TIME, ylabel="loss")
        panel.margins(x=0.01)
        longest = max(len(label) for label in panel.get_legend_handles_labels()[1])
        columns = max(1, _LINE // (longest + _HANDLE))
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), borderaxespad=_BELOW, ncols=columns)
    return style.figure_of(panel)


def _alike(run: Continual) -> list[list[int]]:
    """The tasks, those together whose losses are the same all along."""
    groups: list[list[int]] = []
    for i, losses in enumerate(run.losses.T):
        group = next((group for group in groups if np.array_equal(run.losses[:, group[0]], losses)), None)
        groups.append([i]) if group is None else group.append(i)
    return groups


def _labels(run: Continual, alike: list[list[int]]) -> list[str]:
    """ "1, 3: the name" of each group."""
    numbers = [", ".join(str(i + 1) for i in group) for group in alike]
    names = [", ".join(dict.fromkeys(run.tasks[i].name for i in group if run.tasks[i].name)) for group in alike]
    return [f"{number}: {name or 'task'}" for number, name in zip(numbers, names, strict=True)]


def _known_before(run: Continual) -> Float[Array, "stage task"] | None:
    """Losses after each stage, before any training; None where the network or the inputs leave open what is learned."""
    if not run.trajectories[0].problem.network.activation.linear:
        return None
    try:
        return run.limit_loss_matrix
    except NoExactSolution:
        pass
    try:
        return run.predicted_loss_matrix
    except InvalidInput:
        return None
