"""Kunin et al. 2024, Theorem 15: what depth makes of the implicit bias, in the plane of β.

The paper states Q(β) without a figure; the task and the start here are those of its Fig. 4b.
"""

from collections.abc import Sequence

import numpy as np

from lazyrich import Problem, Task, bias, flow
from lazyrich._progress import progress
from lazyrich._typing import Array
from lazyrich.bias.potentials import deep_potential
from lazyrich.inits import prior_knowledge
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.base.types import Colour, Real, Row
from lazyrich.papers.kunin2024.figures._shared import LOW_RANK_START, SOURCES, low_rank_task, mark_points, set_plane
from lazyrich.plot import style

TITLE = "Deep linear networks: depth weighs the least norm against the direction of β0"
ABOUT = (
    "Zero-balanced networks with L = 1, 2, 3 hidden layers fit one sample, x = (.5, 1) and y = 1.1, from β0 = "
    "(.4, .05). "
    "The flow of β alone is dotted over the integrated flow of all layers, and crosses are the minima of Q(β) = "
    "(L+1)/(L+2) ‖β‖^((L+2)/(L+1)) − ‖β0‖^(−L/(L+1)) β0ᵀβ among the solutions, known before training. "
    "Deeper networks keep more of the direction of their initialisation, and a smaller initialisation is pulled closer "
    "to the least norm, the less so the deeper."
)
CALLS = (
    "lr.bias.deep_interpolating_solution",
    "lr.bias.function_space_flow",
    "lr.inits.prior_knowledge",
    "lr.flow",
)
CHECKS = {
    "deviation": Check("largest difference between the flow of β alone and that of the layers", at_most=5e-9),
    "end_error": Check(
        "largest distance of a predicted end from the one reached, all L and sizes of initialisation", at_most=5e-9
    ),
    "order": Check("least gap between the ends of neighbouring depths, along the line of solutions", at_least=0.05),
}
QUICK = {"layers": (1, 2), "points": 20, "sizes": (0.1, 1.0)}

_CYCLE = ("blue", "orange", "pink", "grey")


def compute(
    *,
    layers: tuple[int, ...] = (1, 2, 3),
    sizes: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0),
    horizon: float = 60.0,
    points: int = 100,
) -> Dataset:
    """β over time, Q along the line of solutions, and the ends predicted and reached from many sizes of β0."""
    task, start = low_rank_task(), np.array(LOW_RANK_START)
    direction, times = start / np.linalg.norm(start), np.append(0.0, np.geomspace(1e-3 * horizon, horizon, points))
    along = np.linspace(-0.2, 1.6, 181)
    line = _line(task, start, along)
    scales = np.geomspace(min(sizes), max(sizes), 41)
    paths, Q, ends, curve, small = [], [], [], [], []
    with progress(len(layers) * (1 + len(sizes)), "depths") as move_on:
        for L in layers:
            reached = _reached(task, start, L, times)
            theory = bias.function_space_flow(task, start, 0.0, times, model="deep", hidden_layers=L)[:, 0]
            paths.append([theory, reached])
            potential = deep_potential(L)
            Q.append([potential.value(beta) - potential.gradient(start) @ beta for beta in line])
            ends.append([_predicted(task, start, L), reached[-1]])
            move_on(1)
            for size in sizes:
                beta0 = size * direction
                small.append([_predicted(task, beta0, L), _reached(task, beta0, L, [_patience(size, L)])[-1]])
                move_on(1)
            curve.append([_predicted(task, scale * direction, L) for scale in scales])
    ends_, small_ = np.array(ends), np.array(small).reshape(len(layers), len(sizes), 2, 2)
    far = _from_least(ends_[:, 0], task.target[0])
    numbers = {
        "deviation": float(np.abs(np.diff(np.array(paths), axis=1)).max()),
        "end_error": float(max(np.abs(np.diff(ends_, axis=1)).max(), np.abs(np.diff(small_, axis=2)).max())),
        "order": float(np.min(np.diff(far), initial=np.inf)),
    }
    variables = {
        "path": (("layers", "source", "time", "input"), np.array(paths)),
        "Q": (("layers", "along"), np.array(Q)),
        "end": (("layers", "kind", "input"), ends_),
        "small_end": (("layers", "size", "kind", "input"), small_),
        "curve": (("layers", "scale", "input"), np.array(curve)),
        "least_norm": ("input", task.target[0]),
        "limit": ("input", bias.downstream_end(task, start)),
    }
    coords = {
        "layers": list(layers),
        "source": SOURCES,
        "time": times,
        "along": along,
        "kind": ["predicted", "reached"],
    }
    return dataset(variables, coords=coords | {"size": list(sizes), "scale": scales}, attrs=numbers)


def _line(task: Task, start: Array, along: Array) -> Array:
    """Solutions β* + αv, with v on the side of the initialisation."""
    end = bias.upstream_end(task, start) - task.target[0]
    return task.target[0] + along[:, None] * end / np.linalg.norm(end)


def _from_least(beta: Array, least: Array) -> Real:
    return np.linalg.norm(beta - least, axis=-1)


def _predicted(task: Task, beta0: Array, hidden_layers: int) -> Array:
    return bias.deep_interpolating_solution(task, beta0, hidden_layers).beta


def _reached(task: Task, beta0: Array, hidden_layers: int, times: Row) -> Array:
    """β of all layers, integrated: the initialisation is the zero-balanced network with the function β0."""
    network = prior_knowledge(0, Task.from_correlations([beta0]), hidden=(2,) * hidden_layers)
    return flow(Problem(task, network), times, record="function", rtol=1e-10).function[:, 0]


def _patience(size: float, hidden_layers: int) -> float:
    """Long enough for the flow to arrive: it leaves the saddle at zero after a time that grows as β0 shrinks."""
    return 60.0 + 20.0 * size ** (-(hidden_layers - 1) / (hidden_layers + 1))


def draw(data: Dataset) -> Picture:
    """The plane, Q along the line of solutions, and the end by size of initialisation."""
    figure = style.new_figure(13.0, 4.0)
    first, second, third = figure.subplots(1, 3, width_ratios=[1.15, 1.0, 1.0])
    colours = [style.COLOURS[_CYCLE[i % len(_CYCLE)]] for i in range(data.sizes["layers"])]
    _draw_plane(first, data, colours)
    _draw_bias(second, data, colours)
    _draw_ends(third, data, colours)
    figure.legend(*first.get_legend_handles_labels(), loc="outside right center")
    return figure


def _draw_plane(panel: Axes, data: Dataset, colours: Sequence[Colour]) -> None:
    x, y = np.meshgrid(np.linspace(0.0, 1.9, 120), np.linspace(-0.27, 1.35, 120))
    panel.contourf(x, y, np.abs(0.5 * x + y - 1.1), levels=9, cmap="Greys", alpha=0.28, zorder=0)
    for L, colour in zip(data.layers.values, colours, strict=True):
        path = data.path.sel(layers=L)
        name = f"L = {L} hidden layer{'s' if L > 1 else ''}"
        panel.plot(*path.sel(source="flow").values.T, color=colour, linewidth=2.8, label=name)
        panel.plot(*path.sel(source="theory").values.T, **style.THEORY)
    panel.plot([], [], **style.THEORY, label="theory, over the flow")
    edge = np.array([0.0, 1.9])
    panel.plot(edge, 1.1 - 0.5 * edge, color=style.COLOURS["green"], linewidth=1.6, zorder=1, label="all solutions")
    panel.plot(*np.array([[0.0, 0.0], data.limit.values]).T, **style.LIMIT, label="direction of β0")
    mark_points(panel, data.path.values[0, 0, 0], label="β0")
    cross = {"marker": "x", "markersize": 8, "markeredgewidth": 1.8, "label": "predicted end"}
    mark_points(panel, data.end.sel(kind="predicted"), **cross)
    mark_points(panel, data.least_norm, marker="s", color=style.COLOURS["green"], label="least norm")
    panel.grid(False)
    set_plane(panel)
    panel.set(xlim=(0.0, 1.9), ylim=(-0.27, 1.35))
    panel.set_title("A  the way of β")


def _draw_bias(panel: Axes, data: Dataset, colours: Sequence[Colour]) -> None:
    """Q less its least value, so that the curves of all depths stand on one line."""
    least = data.least_norm.values
    for L, colour in zip(data.layers.values, colours, strict=True):
        Q = data.Q.sel(layers=L).values
        panel.plot(data.along, Q - Q.min(), color=colour)
        end = data.end.sel(layers=L)
        panel.plot(_from_least(end.sel(kind="reached").values, least), 0.0, marker="o", markersize=7, color=colour)
        mark_points(panel, [float(_from_least(end.sel(kind="predicted").values, least)), 0.0], marker="x", markersize=7)
    panel.set(xlabel="distance from the least norm", ylabel="Q(β) above its minimum", ylim=(-0.01, None))
    panel.set_title("B  Q along the solutions")


def _draw_ends(panel: Axes, data: Dataset, colours: Sequence[Colour]) -> None:
    least = data.least_norm.values
    for L, colour in zip(data.layers.values, colours, strict=True):
        reached = _from_least(data.small_end.sel(layers=L, kind="reached").values, least)
        panel.plot(data["size"], reached, linestyle="none", marker="o", markersize=7, color=colour)
        panel.plot(data.scale, _from_least(data.curve.sel(layers=L).values, least), **style.THEORY)
    panel.set(xscale="log", xlabel="initial size ‖β0‖", ylabel="end: distance from the least norm")
    panel.set_ylim(bottom=0.0)
    panel.set_title("C  the end by initial size")


FIGURE = Figure("kunin2024/deep", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
