"""What several figures of Kunin et al. 2024 share: settings of the single neuron, and the plane."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from lazyrich import Problem, Task
from lazyrich._typing import Array, Float
from lazyrich.inits import single_neuron
from lazyrich.papers.base.figure import Axes, DataArray
from lazyrich.papers.base.types import Row
from lazyrich.plot import style

#: Figures 2, 3 and 4a: β*, β0 and the balances δ.
TARGET, START = (0.0, 1.0), (-1.0, 0.0)
DELTAS = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)
#: Figure 4b: β0.
LOW_RANK_START = (0.4, 0.05)
SOURCES = ["theory", "flow"]


def one_neuron(target: Iterable[float], start: Iterable[float], delta: float) -> Problem:
    """β0 = aw with a > 0 and a² − ‖w‖² = δ, on white inputs."""
    return Problem(Task.from_correlations([list(target)]), single_neuron(list(start), delta=delta))


def low_rank_task() -> Task:
    """One sample of two inputs: XᵀX = [[.25, .5], [.5, 1]], and the solution of least norm is (.44, .88)."""
    return Task.from_data([[0.5, 1.0]], [[1.1]])


def direction_gap(directions: Float[Array, "h in"], others: Float[Array, "h in"]) -> Float[Array, " h"]:
    """Angles between two sets of unit vectors, in degrees."""
    return np.degrees(np.arccos(np.clip(np.sum(directions * others, axis=-1), -1.0, 1.0)))


def as_text(value: float) -> str:
    """A number with a true minus sign."""
    return f"{value:g}".replace("-", "−")


def set_plane(panel: Axes, xlabel: str = "β₁", ylabel: str = "β₂") -> None:
    """Axes of a plane: both directions in the same scale."""
    panel.set_aspect("equal", adjustable="box")
    panel.set(xlabel=xlabel, ylabel=ylabel)


def set_space(space: Any, reach: Row, ticks: Row, *, elev: float, azim: float, zoom: float) -> None:
    """Axes of (w₁, w₂, a): so far in each direction, with so far the outermost tick."""
    (w1, w2, a), axes = reach, (space.xaxis, space.yaxis, space.zaxis)
    space.set(xlim=(-w1, w1), ylim=(-w2, w2), zlim=(-a, a), xlabel="w₁", ylabel="w₂")
    space.text(w1, w2, 1.15 * a, "a")
    for axis, outermost in zip(axes, ticks, strict=True):
        axis.set_ticks([-outermost, 0, outermost])
        axis.labelpad = -8
        axis.set_pane_color((1.0, 1.0, 1.0, 0.0))
    space.tick_params(pad=-3, labelsize=8)
    space.view_init(elev=elev, azim=azim)
    space.set_box_aspect((1, 1, 1), zoom=zoom)


def mark_points(panel: Axes, points: DataArray | Row, **look: Any) -> None:
    """Markers over all curves."""
    x, y = np.atleast_2d(np.asarray(points)).T
    panel.plot(x, y, **(style.MARK | {"zorder": 6} | look))
