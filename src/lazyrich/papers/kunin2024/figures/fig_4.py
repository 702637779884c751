"""Kunin et al. 2024, Fig. 4: the balance δ bends the way of β, and chooses among the solutions where there are many."""

from collections.abc import Callable, Sequence

import numpy as np

from lazyrich import Problem, Task, bias, flow, solve
from lazyrich._typing import Array
from lazyrich.inits import single_neuron
from lazyrich.papers.base.figure import Axes, Check, DataArray, Dataset, Figure, Picture, dataset
from lazyrich.papers.base.types import Colour, Values
from lazyrich.papers.kunin2024.figures._shared import (
    DELTAS,
    LOW_RANK_START,
    SOURCES,
    START,
    TARGET,
    as_text,
    low_rank_task,
    mark_points,
    one_neuron,
    set_plane,
)
from lazyrich.plot import style

TITLE = "One neuron in function space: the way to β*, and the end where many fit"
ABOUT = (
    "One hidden neuron with β = aw, for seven balances δ: A learns β* = (0, 1) from (−1, 0) on white inputs, B "
    "fits one sample, x = (.5, 1) and y = 1.1, from (.4, .05). "
    "Exact solutions (A) and the flow of β alone (B) are dotted over the integrated flow of the weights; crosses "
    "are the ends predicted by a convex problem before any training, triangles their limits for δ → ±∞. "
    "Upstream goes straight and ends nearest to its initialisation, downstream first keeps its direction and ends on "
    "that ray."
)
CALLS = (
    "lr.solve",
    "lr.flow",
    "lr.bias.function_space_flow",
    "lr.bias.interpolating_solution",
    "lr.bias.closed_form",
    "lr.bias.upstream_end",
    "lr.bias.downstream_end",
)
CHECKS = {
    "deviation_white": Check("A: largest difference between exact and integrated β", at_most=5e-9),
    "deviation_low_rank": Check(
        "B: largest difference between flow in function space and of the weights", at_most=5e-9
    ),
    "end_error": Check("B: largest distance of the predicted end from the one reached", at_most=5e-9),
    "limit_error": Check("C: distance of the limits from the ends at δ = ±1e4", at_most=1e-3),
    "closed_form_error": Check("C: largest distance of the closed form from the convex problem's end", at_most=1e-13),
}
QUICK = {"points": 60, "deltas": (-4.0, -1.0, 0.0, 2.0)}


def compute(*, deltas: tuple[float, ...] = DELTAS, horizon: float = 20.0, points: int = 160) -> Dataset:
    """β over time on both tasks, the ends predicted and reached, and the predicted end for many δ."""
    times = np.append(0.0, np.geomspace(1e-3 * horizon, horizon, points))
    task = low_rank_task()
    white, low_rank, ends = [], [], []
    for delta in deltas:
        problem = one_neuron(TARGET, START, delta)
        runs = solve(problem, times), flow(problem, times, rtol=1e-10)
        white.append([run.function[:, 0] for run in runs])
        reached = _low_rank_flow(task, delta, times)
        low_rank.append([bias.function_space_flow(task, LOW_RANK_START, delta, times)[:, 0], reached])
        ends.append([bias.interpolating_solution(task, LOW_RANK_START, delta).beta, reached[-1]])
    names = ("delta", "source", "time", "input")
    many = np.append(-np.geomspace(100, 0.01, 61), np.geomspace(0.01, 100, 61))
    curve = np.array([bias.closed_form(task, LOW_RANK_START, delta).beta for delta in many])
    limits = np.array([bias.downstream_end(task, LOW_RANK_START), bias.upstream_end(task, LOW_RANK_START)])
    far = [bias.closed_form(task, LOW_RANK_START, delta).beta for delta in (-1e4, 1e4)]
    closed = [bias.closed_form(task, LOW_RANK_START, delta).beta for delta in deltas]
    numbers = {
        "deviation_white": _largest_gap(white),
        "deviation_low_rank": _largest_gap(low_rank),
        "end_error": _largest_gap(ends),
        "limit_error": float(np.abs(limits - np.array(far)).max()),
        "closed_form_error": float(np.abs(np.array(closed) - np.array(ends)[:, 0]).max()),
    }
    return dataset(
        {
            "white": (names, np.array(white)),
            "low_rank": (names, np.array(low_rank)),
            "end": (("delta", "kind", "input"), np.array(ends)),
            "curve": (("many", "input"), curve),
            "limit": (("side", "input"), limits),
            "least_norm": ("input", task.target[0]),
        },
        coords={
            "delta": list(deltas),
            "source": SOURCES,
            "time": times,
            "kind": ["predicted", "reached"],
            "many": many,
            "side": ["downstream", "upstream"],
        },
        attrs=numbers,
    )


def _largest_gap(pairs: list[list[Array]]) -> float:
    """Between the two of each pair."""
    return float(np.abs(np.diff(np.array(pairs), axis=1)).max())


def _low_rank_flow(task: Task, delta: float, times: Array) -> Array:
    """β of the weights, integrated."""
    problem = Problem(task, single_neuron(list(LOW_RANK_START), delta=delta))
    return flow(problem, times, record="function", rtol=1e-10).function[:, 0]


def draw(data: Dataset) -> Picture:
    """Both planes, and the ends over δ."""
    figure = style.new_figure(13.0, 4.1)
    first, second, third = figure.subplots(1, 3, width_ratios=[1.05, 1.0, 1.0])
    colours = style.diverging_colours(data.delta.values)
    _draw_paths(first, data.delta.values, data.white, colours)
    _contours(first, (-1.15, 0.25), (-0.12, 1.12), lambda x, y: ((x - TARGET[0]) ** 2 + (y - TARGET[1]) ** 2) / 2)
    mark_points(first, START)
    mark_points(first, TARGET, marker="*", markersize=13)
    first.set_title("A  white inputs: one solution")
    _draw_low_rank(second, data, colours)
    _draw_ends(third, data, colours)
    handles, labels = first.get_legend_handles_labels()
    more, names = second.get_legend_handles_labels()
    figure.legend(handles + more, labels + names, loc="outside right center")
    return figure


def _draw_paths(panel: Axes, deltas: Array, paths: DataArray, colours: Sequence[Colour], named: bool = True) -> None:
    for delta, colour in zip(deltas, colours, strict=True):
        one = paths.sel(delta=delta)
        label = f"δ = {as_text(delta)}" if named else None
        panel.plot(*one.sel(source="flow").values.T, color=colour, linewidth=2.8, label=label)
        panel.plot(*one.sel(source="theory").values.T, **style.THEORY)
    set_plane(panel)


def _contours(
    panel: Axes, xlim: tuple[float, float], ylim: tuple[float, float], loss: Callable[[Array, Array], Array]
) -> None:
    x, y = np.meshgrid(np.linspace(*xlim, 120), np.linspace(*ylim, 120))
    panel.contourf(x, y, np.sqrt(loss(x, y)), levels=9, cmap="Greys", alpha=0.28, zorder=0)
    panel.grid(False)
    panel.set(xlim=xlim, ylim=ylim)


def _draw_low_rank(panel: Axes, data: Dataset, colours: Sequence[Colour]) -> None:
    _draw_paths(panel, data.delta.values, data.low_rank, colours, named=False)
    _contours(panel, (-0.05, 1.95), (-0.37, 1.4), lambda x, y: (0.5 * x + y - 1.1) ** 2 / 2)
    x = np.array([-0.5, 2.5])
    panel.plot(x, 1.1 - 0.5 * x, color=style.COLOURS["green"], linewidth=1.6, zorder=1, label="all solutions")
    ray = np.array([[0.0, 0.0], data.limit.sel(side="downstream").values])
    panel.plot(*ray.T, **style.LIMIT, label="direction of β0")
    mark_points(panel, LOW_RANK_START, label="β0")
    cross = {"marker": "x", "markersize": 8, "markeredgewidth": 1.8, "label": "predicted end"}
    mark_points(panel, data.end.sel(kind="predicted"), **cross)
    for side, marker in (("downstream", "v"), ("upstream", "^")):
        name = f"limit δ → {'∞' if side == 'upstream' else '−∞'}"
        mark_points(panel, data.limit.sel(side=side), marker=marker, markersize=8, label=name)
    mark_points(panel, data.least_norm, marker="s", color=style.COLOURS["green"], label="least norm")
    mark_points(panel, (np.nan, np.nan), marker="*", markersize=13, label="β* (A)")
    panel.plot([], [], **style.THEORY, label="theory, over the flow")
    panel.set_title("B  one sample: many solutions")


def _draw_ends(panel: Axes, data: Dataset, colours: Sequence[Colour]) -> None:
    """How far along the line of solutions, counted from the one of least norm."""

    def from_least(beta: DataArray) -> Values:
        return np.linalg.norm(beta.values - data.least_norm.values, axis=-1)

    panel.plot(data.many, from_least(data.curve), **style.THEORY)
    for delta, colour in zip(data.delta.values, colours, strict=True):
        reached = from_least(data.end.sel(delta=delta, kind="reached"))
        panel.plot(delta, reached, marker="o", markersize=8, color=colour)
    for side in data.side.values:
        panel.axhline(from_least(data.limit.sel(side=side)), **style.LIMIT)
    low, high = (from_least(data.limit.sel(side=side)) for side in ("upstream", "downstream"))
    panel.text(-95, low + 0.02, "limit δ → ∞", ha="left", va="bottom", color=style.COLOURS["grey"])
    panel.text(110, high + 0.02, "limit δ → −∞", ha="right", va="bottom", color=style.COLOURS["grey"])
    panel.set_xscale("symlog", linthresh=1.0)
    panel.set(xlabel="balance δ", ylabel="distance from the least norm", ylim=(0.0, 1.15 * high))
    panel.set_xticks([-100, -10, -1, 0, 1, 10, 100], ["−100", "−10", "−1", "0", "1", "10", "100"])
    panel.set_title("C  where B ends, by balance")


FIGURE = Figure("kunin2024/4", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
