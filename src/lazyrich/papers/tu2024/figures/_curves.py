"""Modes over time, a row per width and a column per task: the flow, and the closed form of every mode by itself."""

from __future__ import annotations

import numpy as np

from lazyrich._progress import progress
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.base.oracles import layers, product, relative_error
from lazyrich.papers.tu2024.random_starts import Compared, compare, problem
from lazyrich.plot import style

TASKS = ("5 → 4", "20 → 10", "hierarchy 8 → 8")
WIDTHS = (20, 50, 200, 1000)
CALLS = ("lr.predict", "lr.Problem", "lr.Network", "lr.tasks.semantic_hierarchy")
QUICK = {"tasks": ("5 → 4", "hierarchy 8 → 8"), "widths": (20, 200)}
BY_WEIGHTS = 1e-6  # how close the integration through QQᵀ is to that of all weights

_LOOKS = 6  # times at which all weights are integrated too
_AT = 200  # the width at which the checks look
_FLOW: style.Look = {"alpha": 0.6, "linewidth": 3.2}  # pale, so that dots are seen on it
_BEGUN = 0.005  # of the longest way: what is before is not drawn


def figure_of(initialisation: str, size: float, title: str, about: str, checks: dict[str, Check]) -> Figure:
    """The figure `random_<initialisation>`, of weights `size` times as large as they come."""

    def compute(
        *,
        tasks: tuple[str, ...] = TASKS,
        widths: tuple[int, ...] = WIDTHS,
        scale: float = size,
        seed: int = 0,
    ) -> Dataset:
        """Modes over time by the flow and by the closed form."""
        return _computed(initialisation, tasks, widths, scale, seed)

    def draw(data: Dataset) -> Picture:
        """A row per width, a column per task."""
        return _drawn(data, title)

    return Figure(f"tu2024/random_{initialisation}", title, about, CALLS, checks, QUICK, compute, draw)


def checks(mode_error: float, half_time_error: float, corrected_error: float) -> dict[str, Check]:
    """What makes such a figure true; the bounds are those of its initialisation."""
    return {
        "mode_error": Check(
            "closed form at h = 200: largest error of a mode at any time, of the largest singular value",
            at_most=mode_error,
        ),
        "half_time_error": Check("the same: largest relative error of a half time", at_most=half_time_error),
        "corrected_error": Check("with the couplings at h = 200: largest error of a mode", at_most=corrected_error),
        "by_weights": Check(
            "largest difference of the drawn flow from the integration of all weights, relative", at_most=BY_WEIGHTS
        ),
    }


def _computed(initialisation: str, tasks: tuple[str, ...], widths: tuple[int, ...], scale: float, seed: int) -> Dataset:
    """Strengths over the largest singular value, by task and width; tasks with fewer modes are filled up with nan."""
    found: list[list[Compared]] = []
    by_weights = 0.0
    with progress(len(tasks) * len(widths), "networks") as move_on:
        for task in tasks:
            found.append([])
            for hidden in widths:
                found[-1].append(compare(problem(task, initialisation, hidden, scale, seed)))
                by_weights = max(by_weights, _difference(found[-1][-1]))
                move_on(1)
    m, count = (max(size) for size in zip(*(one.flow.shape[::-1] for row in found for one in row), strict=True))
    shape = (len(tasks), len(widths))
    times, strengths = np.full((*shape, count), np.nan), np.full((*shape, 2, count, m), np.nan)
    errors, halves = np.empty((*shape, 2)), np.empty((*shape, 2))
    for place in np.ndindex(shape):
        one = found[place[0]][place[1]]
        T, modes = one.flow.shape
        times[place][:T] = one.times
        strengths[place][:, :T, :modes] = np.stack([one.flow, one.closed]) / one.limit.max()
        errors[place], halves[place] = one.mode_errors, np.nanmax(one.half_time_errors, axis=1)
    at = widths.index(_AT)
    return dataset(
        {
            "time": (("task", "width", "sample"), times),
            "strength": (("task", "width", "source", "sample", "mode"), strengths),
            "mode_errors": (("task", "width", "told"), errors),
            "half_time_errors": (("task", "width", "told"), halves),
        },
        {
            "task": list(tasks),
            "width": list(widths),
            "source": ["flow", "closed form"],
            "told": ["closed form", "corrected"],
            "mode": 1 + np.arange(m),
        },
        {
            "mode_error": float(errors[:, at, 0].max()),
            "half_time_error": float(halves[:, at, 0].max()),
            "corrected_error": float(errors[:, at, 1].max()),
            "by_weights": by_weights,
        },
    )


def _difference(one: Compared) -> float:
    """Of the flow through QQᵀ from that of all weights, at a few times."""
    place = np.linspace(0, len(one.times) - 1, _LOOKS).astype(int)
    task, fit = one.problem.task, one.problem.alignment
    W = product(layers(one.problem.network.weights, task.sigma_yx, one.times[place], task.sigma_xx))
    m = one.flow.shape[1]
    return relative_error(one.flow[place], np.sum(fit.U[:, :m] * (W @ fit.V[:, :m]), axis=1))


def _drawn(data: Dataset, title: str) -> Picture:
    """A row per width, a column per task. On a logarithmic axis an error of a half time is a shift of its size."""
    figure = style.new_figure(11.5, 2.35 * data.sizes["width"] + 1.3)
    panels = figure.subplots(data.sizes["width"], data.sizes["task"], sharey=True, squeeze=False)
    for row, hidden in enumerate(data.width.values):
        for column, task in enumerate(data.task.values):
            panel, part = panels[row, column], data.sel(width=hidden, task=task)
            _draw_modes(panel, part)
            if row == 0:
                panel.set_title(f"{task[0].upper()}{task[1:]}")
            if row == data.sizes["width"] - 1:
                panel.set_xlabel(style.TIME)
            if column == 0:
                panel.set_ylabel(f"h = {hidden}\nuᵀWv / s₁")
    panels[0, 0].set_yticks([0.0, 0.5, 1.0])
    panels[0, 0].set_ylim(float(data.strength.min()) - 0.05, 1.22)  # of all panels, with room for the words
    panels[0, -1].plot([], [], color=style.mode_colours(3)[1], **_FLOW, label="gradient flow, strong modes dark")
    panels[0, -1].plot([], [], **style.THEORY, label="closed form, every mode by itself")
    handles, words = panels[0, -1].get_legend_handles_labels()
    figure.legend(handles, words, loc="outside lower center", ncols=2)
    figure.suptitle(title, fontweight="bold", fontsize=11.5, x=0.01, ha="left")
    return figure


def _draw_modes(panel: Axes, part: Dataset) -> None:
    flow = part.strength.sel(source="flow").dropna("mode", how="all").dropna("sample", how="all")
    closed = part.strength.sel(source="closed form")
    time = part.time[: flow.sizes["sample"]]
    moved = np.abs(flow - flow[0]).max("mode")
    first = int(np.argmax(moved.values >= _BEGUN * float(moved.max())))
    for i, colour in enumerate(style.mode_colours(flow.sizes["mode"])):
        panel.plot(time[first:], flow[first:, i], color=colour, **_FLOW)
        panel.plot(time[first:], closed[first : len(time), i], **style.THEORY)
    off, late = (100 * float(part[name].sel(told="closed form")) for name in ("mode_errors", "half_time_errors"))
    words = f"modes to {off:.2g} %, half times to {late:.2g} %"
    panel.text(0.02, 0.99, words, transform=panel.transAxes, va="top", fontsize=9)
    panel.set_xscale("log")
    _plain_ticks(panel)


def _plain_ticks(panel: Axes) -> None:
    """Numbers as one says them, and few: 1, 2, 5 within a decade or two, else decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    first, last = panel.get_xlim()
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if last < 30 * first else (1.0,)))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda time, _: f"{time:g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())
