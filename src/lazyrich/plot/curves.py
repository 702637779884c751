"""Curves over time: loss, modes, kernel distance. One trajectory or several, theory dotted over simulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._typing import Array
from lazyrich.observables.modes import mode_strengths
from lazyrich.observables.ntk import kernel_distance as distance_of_kernels
from lazyrich.plot import style
from lazyrich.trajectory import Trajectory, as_trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["kernel_distance", "loss", "modes"]

_MODES_NAMED = 5  # more overfill the legend
_MODES_DRAWN = 12  # more cannot be told apart


def loss(*trajectories: Trajectory, axes: Axes | None = None, log: bool = False) -> Figure:
    """The loss over time; an exact solution is dotted over the runs that it predicts.

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.01))
    >>> run = lr.descend(problem, rate=0.05, steps=1000)
    >>> figure = lr.plot.loss(run, lr.solve(problem, run.times))
    >>> figure.savefig("loss.png")  # doctest: +SKIP
    """
    with style.drawn_on(axes) as panel:
        _curves(panel, trajectories, lambda traj: np.asarray(traj.loss)[:, None], lambda count: list(_SERIES))
        panel.set(xlabel=style.TIME, ylabel="loss", yscale="log" if log else "linear")
        if not log:
            panel.set_ylim(bottom=min(0.0, panel.get_ylim()[0]))
    return style.figure_of(panel)


def modes(*trajectories: Trajectory, axes: Axes | None = None) -> Figure:
    """How much of each mode of the task is learned, uᵀW(t)v, against what there is to learn (dashed).

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.01))
    >>> lr.plot.modes(lr.solve(problem, range(100))).axes[0].get_ylabel()
    'mode strength uᵀWv'
    """
    with style.drawn_on(axes) as panel:
        _curves(panel, trajectories, lambda traj: mode_strengths(traj)[:, :_MODES_DRAWN], style.mode_colours)
        task = trajectories[0].problem.task
        U, _, V = task.modes
        for end in np.unique(np.einsum("om,oi,im->m", U, task.target, V)[:_MODES_DRAWN].round(12)):
            panel.axhline(end, **style.LIMIT)
        panel.set(xlabel=style.TIME, ylabel=style.STRENGTH)
    return style.figure_of(panel)


def kernel_distance(*trajectories: Trajectory, axes: Axes | None = None) -> Figure:
    """How far the tangent kernel has turned from where it started, S(0, t): flat at 0 is lazy.

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.01))
    >>> lr.plot.kernel_distance(lr.solve(problem, range(100))).axes[0].get_ylabel()
    'kernel distance S(0, t)'
    """
    with style.drawn_on(axes) as panel:
        _curves(
            panel,
            trajectories,
            lambda traj: np.asarray(distance_of_kernels(traj))[:, None],
            lambda count: list(_SERIES),
        )
        panel.set(xlabel=style.TIME, ylabel="kernel distance S(0, t)")
        panel.set_ylim(0.0, max(1.0, panel.get_ylim()[1]))
    return style.figure_of(panel)


_SERIES = [style.COLOURS[name] for name in ("blue", "orange", "green", "pink", "grey")]


def _curves(
    panel: Axes,
    trajectories: tuple[Trajectory, ...],
    measure: Callable[[Trajectory], Array],
    colours: Callable[[int], list[Any]],
) -> None:
    """One line per column of what is measured; exact ones last, dotted, where there are others to lie on."""
    if not trajectories:
        raise InvalidInput("trajectories are missing: at least one trajectory is needed to draw.")
    runs = [as_trajectory(traj) for traj in trajectories]
    over = [traj for traj in runs if traj.solution is not None and any(other.solution is None for other in runs)]
    under = [traj for traj in runs if not any(traj is exact for exact in over)]
    for i, traj in enumerate(under):
        values = measure(traj)
        shades = colours(values.shape[1])
        for j, curve in enumerate(values.T):
            shade = shades[j % len(shades)] if values.shape[1] > 1 else shades[i % len(shades)]
            panel.plot(traj.times, curve, color=shade, label=_label(traj, j, values.shape[1]))
    for traj in over:
        values = measure(traj)
        panel.plot(traj.times, values, **style.THEORY)
    if over:
        panel.plot([], [], **style.THEORY, label=f"exact ({', '.join(dict.fromkeys(t.method for t in over))})")
    panel.margins(x=0.01)
    panel.legend(loc="best")


def _label(traj: Trajectory, curve: int, count: int) -> str | None:
    if count == 1:
        return f"exact ({traj.method})" if traj.solution is not None else traj.method
    return f"mode {curve}" if count <= _MODES_NAMED or curve in (0, count - 1) else None
