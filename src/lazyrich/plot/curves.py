"""Curves over time: loss, modes, kernel distance. One trajectory or several, theory over what it predicts: dotted where
it is exact, dashed where it is integrated, and what lies below wide and pale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._status import End
from lazyrich._typing import Array
from lazyrich.observables.kernels.along import kernel_distance as distance_of_kernels
from lazyrich.observables.modes import mode_strengths
from lazyrich.plot import style
from lazyrich.trajectory import Trajectory, as_trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MODES_NAMED = 5  # more overfill the legend
_MODES_DRAWN = 12  # more cannot be told apart


def loss(
    *trajectories: Trajectory, labels: Sequence[str] | None = None, axes: Axes | None = None, log: bool = False
) -> Figure:
    """The loss over time, theory over the runs that it predicts: an exact solution dotted, an integrated one dashed.

    The axis is logarithmic where a run has diverged, and the panel says so.

    Parameters
    ----------
    trajectories : of one problem or several
    labels : their names in the legend
    axes : to draw on, instead of a new figure
    log : a logarithmic axis of the loss

    Returns
    -------
    Figure

    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.01))
    >>> run = lr.descend(problem, rate=0.05, steps=1000)
    >>> figure = lr.plot.loss(run, lr.solve(problem, run.times))  # or lr.predict(problem).trajectory, from any weights
    >>> figure.savefig("loss.png")  # doctest: +SKIP
    """
    runs, named = _runs(trajectories, labels)
    with style.drawn_on(axes) as panel:
        _curves(panel, runs, named, lambda traj: np.asarray(traj.loss)[:, None])
        diverged = [traj for traj in runs if traj.status.end is End.DIVERGED]
        if diverged:
            log = True
            panel.set_title(f"{diverged[0].method} has {diverged[0].status.end}")
        elif early := [traj for traj in runs if traj.status.end is not End.COMPLETE]:
            panel.set_title(f"{early[0].method} ended early, at t = {early[0].times[-1]:.4g} ({early[0].status.end})")
        positive = any(np.any(np.asarray(traj.loss) > 0) for traj in runs)
        panel.set(xlabel=style.TIME, ylabel="loss", yscale="log" if log and positive else "linear")
        if not log:
            panel.set_ylim(bottom=min(0.0, panel.get_ylim()[0]))
    return style.figure_of(panel)


def modes(*trajectories: Trajectory, axes: Axes | None = None) -> Figure:
    """How much of each mode of the task is learned, uᵀW(t)v, against what there is to learn (dashed).

    With another loss than the squared one too, modes are those of Σyx, and the axis says so: `predict` counts others.

    Parameters
    ----------
    trajectories : one, or a run and the theory that predicts it; at most twelve modes are drawn
    axes : to draw on, instead of a new figure

    Returns
    -------
    Figure

    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.01))
    >>> lr.plot.modes(lr.solve(problem, range(100))).axes[0].get_ylabel()
    'mode strength uᵀWv'
    """
    runs, named = _runs(trajectories, None)
    with style.drawn_on(axes) as panel:
        _curves(panel, runs, named, lambda traj: mode_strengths(traj)[:, :_MODES_DRAWN])
        task = runs[0].problem.task
        U, _, V = task.modes
        targets = np.einsum("om,oi,im->m", U, task.target, V)[:_MODES_DRAWN]
        for end in targets if runs[0].problem.loss.squared else ():  # another loss has no linear map for a target
            panel.axhline(end, **style.LIMIT)
        more = len(task.modes.s) - _MODES_DRAWN
        title = f"The {_MODES_DRAWN} strongest of {len(task.modes.s)} modes" if more > 0 else ""
        of = "" if runs[0].problem.loss.squared else ", modes of Σyx"
        panel.set(xlabel=style.TIME, ylabel=style.STRENGTH + of, title=title)
    return style.figure_of(panel)


def kernel_distance(*trajectories: Trajectory, labels: Sequence[str] | None = None, axes: Axes | None = None) -> Figure:
    """How far the tangent kernel has turned from where it was at the first time: flat at 0 is lazy.

    Parameters
    ----------
    trajectories : of one problem or several
    labels : their names in the legend
    axes : to draw on, instead of a new figure

    Returns
    -------
    Figure

    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.01))
    >>> lr.plot.kernel_distance(lr.solve(problem, range(100))).axes[0].get_ylabel()
    'kernel distance S(0, t)'
    """
    runs, named = _runs(trajectories, labels)
    with style.drawn_on(axes) as panel:
        _curves(panel, runs, named, lambda traj: np.asarray(distance_of_kernels(traj))[:, None])
        first = {float(traj.times[0]) for traj in runs}
        since = f"{first.pop():.4g}" if len(first) == 1 else "first"
        panel.set(xlabel=style.TIME, ylabel=f"kernel distance S({since}, t)")
        panel.set_ylim(0.0, max(1.0, panel.get_ylim()[1]))
    return style.figure_of(panel)


def _runs(
    trajectories: tuple[Trajectory, ...], labels: Sequence[str] | None
) -> tuple[list[Trajectory], list[str | None]]:
    """The trajectories to draw, and their names."""
    if not trajectories:
        raise InvalidInput("trajectories are missing: at least one trajectory is needed to draw.")
    runs = [as_trajectory(traj) for traj in trajectories]
    if labels is None:
        return runs, [None] * len(runs)
    if not isinstance(labels, list | tuple) or len(labels) != len(runs):
        raise InvalidInput(
            f"labels must be a list of one name per trajectory ({len(runs)}), and it is {_check.shown(labels)}."
        )
    return runs, [str(label) for label in labels]


def _curves(
    panel: Axes, runs: list[Trajectory], named: list[str | None], measure: Callable[[Trajectory], Array]
) -> None:
    """One line per column of what is measured; theory over what there is for it to lie on."""
    ranks = [_rank(traj) for traj in runs]
    solid = [place for place, rank in enumerate(ranks) if rank == min(ranks)]
    for place, traj in enumerate(runs):
        values = measure(traj)
        if place not in solid:
            lines = panel.plot(traj.times, values, **(style.INTEGRATED if traj.solution is None else style.THEORY))
            lines[0].set_label(named[place] or f"{'theory' if traj.solution is None else 'exact'} ({traj.method})")
            continue
        count = values.shape[1]
        shades = style.mode_colours(count) if count > 1 else [style.series_colours(len(solid))[solid.index(place)]]
        for j, curve in enumerate(values.T):
            label = named[place] or _label(traj, j, count)
            look: style.Look = {} if len(solid) == len(runs) else style.RUN
            look = look | {"marker": "o" if len(curve) == 1 else None}
            panel.plot(traj.times, curve, color=shades[j], label=label, **look)
    panel.margins(x=0.01)
    panel.legend(loc="best")


def _rank(traj: Trajectory) -> int:
    """How near to theory: a training run lies below an integrated flow, and that below a closed form."""
    return 2 if traj.solution is not None else 0 if traj.stepped else 1


def _label(traj: Trajectory, curve: int, count: int) -> str | None:
    if count == 1:
        return f"exact ({traj.method})" if traj.solution is not None else traj.method
    return f"mode {curve + 1}" if count <= _MODES_NAMED or curve in (0, count - 1) else None
