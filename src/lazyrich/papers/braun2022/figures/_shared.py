"""What several figures of Braun et al. 2022 share: theory over simulation, the tree of a hierarchy, a task's modes."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from lazyrich import Network, Problem, Trajectory, descend
from lazyrich._typing import Array, Float
from lazyrich.observables.decoupling import decoupling
from lazyrich.papers.base.figure import Axes, DataArray
from lazyrich.papers.base.types import Colour, Look
from lazyrich.plot import style
from lazyrich.tasks import Modes, Task, semantic_hierarchy

#: The eight things of the living kingdom, in the order of its rows, and the nodes above them from the root down.
ITEMS = semantic_hierarchy().items
KINDS = (("living",), ("animal", "plant"), ("fish", "bird", "flower", "tree"))


def trained(
    problem: Problem, rate: float, stops: Array, *, finer: int, record: str | tuple[str, str]
) -> tuple[Trajectory, Trajectory]:
    """Gradient descent with the published rate and with one `finer` times smaller, recorded at the same times.

    Theory is the limit of small rates: the second run shows that what is left of the first one's distance is the rate.
    """
    stops = np.asarray(stops)
    run = descend(problem, rate, int(stops[-1]), record=record, at=stops)
    return run, descend(problem, rate / finer, int(stops[-1]) * finer, record=record, at=stops * finer)


def shades(count: int) -> list[Colour]:
    """A colour per curve, light enough for black dots to be seen on all of them."""
    return style.mode_colours(count + count // 2 + 1)[-count:]


def draw_over(
    axes: Axes, times: DataArray, simulated: Array | DataArray, exact: Array | DataArray, colours: Sequence[Colour]
) -> None:
    """Simulated curves, one per column, with their exact solutions dotted over them."""
    for curve, colour in zip(np.asarray(simulated).reshape(len(times), -1).T, colours, strict=True):
        axes.plot(times, curve, color=colour)
    axes.plot(times, np.asarray(exact).reshape(len(times), -1), **style.THEORY)
    axes.margins(x=0.01)


def draw_tree(axes: Axes, items: Sequence[str] = ITEMS, kinds: Sequence[Sequence[str]] = KINDS) -> None:
    """A binary tree with its root on top: `kinds` name the inner nodes level by level, `items` the leaves."""
    levels = [*kinds, items]
    depth, width = len(levels) - 1, len(items)
    places = [(np.arange(len(level)) + 0.5) * width / len(level) - 0.5 for level in levels]
    for level, (upper, lower) in enumerate(pairwise(places)):
        for child, x in enumerate(lower):  # elbows: down from the parent, across, down to the child
            parent, elbow = upper[child // 2], depth - level - 0.5
            axes.plot([parent, parent, x, x], [depth - level, elbow, elbow, depth - level - 1], color="#6E6E6E", lw=1.3)
    box: Look = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "#B0B0B0"}
    for level, (xs, names) in enumerate(zip(places, levels, strict=True)):
        for x, name in zip(xs, names, strict=True):
            leaf = level == depth
            place: Look = {"va": "top", "rotation": 90} if leaf else {"va": "center", "bbox": box}
            axes.text(x, depth - level - 0.1 * leaf, name, ha="center", zorder=3, **place)
    axes.set(xlim=(-0.8, width - 0.2), ylim=(-0.9, depth + 0.25))
    axes.set_axis_off()


def modes_of(task: Task) -> Modes:
    """Singular modes of Σyx, with the largest entry of each u positive: the sign is free, and so it is fixed."""
    U, s, V = task.modes
    signs = np.sign(U[np.abs(U).argmax(axis=0), np.arange(len(s))])
    return Modes(U * signs, s, V * signs)


def similarities(modes: Modes) -> tuple[Float[Array, "in in"], Float[Array, "out out"]]:
    """The task's own representations of inputs and outputs, VSVᵀ and USUᵀ."""
    return (modes.V * modes.s) @ modes.V.T, (modes.U * modes.s) @ modes.U.T


def draw_modes(panels: Sequence[Axes], U: DataArray, s: DataArray, V: DataArray) -> None:
    """Σyx = U S Vᵀ on three panels, each to its own scale."""
    for axes, matrix, name in zip(panels, (U, np.diag(np.asarray(s)), np.asarray(V).T), "USV", strict=True):
        draw_squares(axes, np.asarray(matrix))
        axes.set_title(name + ("ᵀ" if name == "V" else ""), loc="center", weight="normal")


def draw_squares(axes: Axes, matrix: Float[Array, "rows columns"], bound: float | None = None) -> None:
    """A matrix whose entries are squares, without ticks."""
    style.draw_matrix(axes, matrix, bound)
    axes.set_aspect("equal")
    axes.set(xticks=[], yticks=[])


def start_in_modes(task: Task, A: Float[Array, "h m"]) -> Problem:
    """W1 = AṼᵀ, W2 = ŨAᵀ: zero-balanced, and coupled where A has no orthogonal columns."""
    U, _, V = task.modes
    return Problem(task, Network([A @ V.T, U @ A.T]))


def simulated_peak(problem: Problem, rate: float, pair: tuple[int, int], near: Array) -> float:
    """When a coupling is largest in gradient descent, looked for at these steps, and between them by a parabola."""
    run = descend(problem, rate, int(near[-1]), at=near)
    b = np.abs(decoupling(run)[(slice(None), *pair)])
    k = int(np.clip(np.argmax(b), 1, len(b) - 2))
    curvature = b[k - 1] - 2 * b[k] + b[k + 1]
    return float(run.times[k] + (near[1] - near[0]) * rate * (b[k - 1] - b[k + 1]) / (2 * curvature))
