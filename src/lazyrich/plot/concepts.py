"""Pictures of how concepts differentiate: the tree of the items' hidden distances, and their paths in a plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._typing import Array, ArrayLike, Float
from lazyrich.observables.differentiation import hidden_distances
from lazyrich.observables.scaling import distances
from lazyrich.observables.scaling import mds as points_of
from lazyrich.plot import style
from lazyrich.plot.states import chosen_times
from lazyrich.trajectory import Trajectory, as_trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST = 64  # items whose names can be read
_ONE_PLACE = 0.01  # of the picture: items that are as near have one label
_STATES = 120  # of a path that are drawn, where there are more


class Tree(NamedTuple):
    """Items merged step by step, those first that are nearest on average."""

    merges: Float[Array, "n 4"]  # scipy's linkage: what is merged with what, how far they are apart, how many it is
    leaves: list[int]  # items from left to right


def tree(traj: Trajectory, indices: ArrayLike | None = None, layer: int = 1) -> Figure:
    """Which items are one to the network at some of the times: the tree of their hidden distances.

    The height of a join is the mean distance of the items on either side of it (average linkage).

    Parameters
    ----------
    traj : of any network; names of the items are those of its task
    indices : places of the times; without them four, from the first to the last, between which the loss falls alike
    layer : ℓ of a hidden layer, from 1

    Returns
    -------
    Figure

    >>> task = lr.tasks.semantic_hierarchy()
    >>> problem = lr.Problem(task, lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=1e-4))
    >>> [panel.get_title(loc="left") for panel in lr.plot.tree(lr.solve(problem, range(100)), [0, 20, -1]).axes]
    ['t = 0', 't = 20', 't = 99']
    """
    count = len(as_trajectory(traj).times)
    places = chosen_times(traj, indices)
    shown = traj.at(np.asarray(traj.times)[places]) if len(places) < count else traj
    apart = hidden_distances(shown, layer)
    apart = apart if len(places) < count else apart[places]
    names = _names(traj, apart.shape[1])
    order = np.argsort(merged(apart[-1]).leaves)  # of the last tree, which those before keep to where they can
    with style.styled():
        figure = style.new_figure(max(2.4, 0.26 * len(names)) * len(places) + 0.6, 3.4)
        panels = np.atleast_1d(figure.subplots(1, len(places), sharey=True))
        for panel, i, between in zip(panels, places, apart, strict=True):
            _draw_tree(panel, merged(between, order), names)
            panel.set_title(f"t = {float(traj.times[i]):.4g}")
        panels[0].set_ylabel("hidden distance")
        panels[0].set_ylim(bottom=0.0)
    return figure


def mds(traj: Trajectory, axes: Axes | None = None, layer: int = 1) -> Figure:
    """The paths of the items in a plane, from a dot to the name of each; distances are those of the hidden layer.

    Shading goes from item to item along the last tree, so that those which part late have similar colours. Points are
    those of `lr.observables.mds` with least stress, for classical scaling would leave species on top of each other.

    Parameters
    ----------
    traj : of any network; names of the items are those of its task
    axes : to draw on, instead of a new figure
    layer : ℓ of a hidden layer, from 1

    Returns
    -------
    Figure

    >>> task = lr.tasks.semantic_hierarchy()
    >>> problem = lr.Problem(task, lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=1e-4))
    >>> [text.get_text() for text in lr.plot.mds(lr.solve(problem, range(60))).axes[0].texts][:2]
    ['salmon', 'sunfish']
    """
    apart = hidden_distances(traj, layer)
    names = _names(traj, apart.shape[1])
    if len(apart) > _STATES:
        traj = traj.at(np.asarray(traj.times)[_evenly(apart, _STATES)])
    paths = points_of(traj, layer=layer, stress=True)
    with style.drawn_on(axes) as panel:
        draw_paths(panel, paths, names, np.argsort(merged(apart[-1]).leaves))
    return style.figure_of(panel)


def draw_paths(panel: Axes, paths: Float[Array, "T n 2"], names: Sequence[str], rank: Array) -> None:
    """A path per item from a dot to its name, shaded by its rank; items that end in one place have one label."""
    ends = paths[-1]
    same = distances(ends) <= _ONE_PLACE * np.ptp(ends, axis=0).max(initial=0.0)
    first = same.argmax(axis=1)
    for item, other in enumerate(first):
        first[item] = first[other]  # the one that it shares its label with, by way of others too
    colours = style.mode_colours(len(names))
    for item in range(len(names)):
        colour, (x, y) = colours[rank[item]], paths[:, item].T
        panel.plot(x, y, color=colour, linewidth=1.5)
        panel.plot(x[0], y[0], ".", color=colour, markersize=4)
        panel.plot(x[-1], y[-1], "os"[rank[item] % 2], color=colour, markersize=6)
        if first[item] != item:
            continue
        shared = ", ".join(name for name, own in zip(names, first, strict=True) if own == item)
        side = "right" if x[-1] < 0 else "left"
        beside = (-6 if x[-1] < 0 else 6, 4)
        panel.annotate(shared, (x[-1], y[-1]), beside, textcoords="offset points", ha=side, fontsize="small")
    panel.set(xlabel="MDS 1", ylabel="MDS 2")
    panel.set_aspect("equal", adjustable="datalim")
    panel.margins(0.2)


def _evenly(apart: Float[Array, "T n n"], count: int) -> Array:
    """Places of some of the times, between which distances change alike."""
    moved = np.cumsum([0.0, *np.sqrt(np.sum(np.diff(apart, axis=0) ** 2, axis=(1, 2)))])
    return np.unique(np.searchsorted(moved, np.linspace(0.0, moved[-1], count)))


def merged(apart: Float[Array, "n n"], order: Array | None = None) -> Tree:
    """The tree of distances by average linkage; of two branches the one whose items come first in `order` is left."""
    from scipy.cluster.hierarchy import dendrogram, linkage  # here: slow to load
    from scipy.spatial.distance import squareform

    count = len(apart)
    if count < 2:
        return Tree(np.empty((0, 4)), [0])
    merges = linkage(squareform(apart, checks=False), method="average")
    rank = list(np.arange(count, dtype=float) if order is None else np.asarray(order, dtype=float))
    sizes = [1.0] * count
    for row in merges:
        left, right = int(row[0]), int(row[1])
        if rank[left] > rank[right]:
            row[0], row[1] = right, left
        size = sizes[left] + sizes[right]
        rank.append((sizes[left] * rank[left] + sizes[right] * rank[right]) / size)
        sizes.append(size)
    return Tree(merges, [int(leaf) for leaf in dendrogram(merges, no_plot=True)["leaves"]])


def _draw_tree(panel: Axes, tree: Tree, names: list[str]) -> None:
    """Elbows from join to join, and the names below."""
    x: dict[int, float] = {leaf: float(place) for place, leaf in enumerate(tree.leaves)}
    y = dict.fromkeys(x, 0.0)
    for step, (left, right, height, _) in enumerate(tree.merges):
        a, b = int(left), int(right)
        panel.plot([x[a], x[a], x[b], x[b]], [y[a], height, height, y[b]], color=style.COLOURS["blue"], linewidth=1.6)
        x[len(names) + step], y[len(names) + step] = (x[a] + x[b]) / 2, float(height)
    look: dict[str, Any] = {"rotation": 90, "fontsize": "small"}
    panel.set_xticks(range(len(names)), [names[leaf] for leaf in tree.leaves], **look)
    panel.set_xlim(-0.6, len(names) - 0.4)
    panel.grid(False, axis="x")
    panel.tick_params(axis="x", length=0)


def _names(traj: Trajectory, count: int) -> list[str]:
    """The names of the items, or their numbers."""
    if count > _MOST:
        raise InvalidInput(
            f"the items must be at most {_MOST} to be drawn, and there are {count}: try lr.observables.mds, or a task "
            "of fewer samples."
        )
    return list(traj.problem.task.items) or [str(i + 1) for i in range(count)]
