"""How far the closed form of every mode is off, over the width of the hidden layer."""

import numpy as np

from lazyrich._progress import progress
from lazyrich._typing import Array
from lazyrich.papers.base.figure import Axes, Check, DataArray, Dataset, Figure, Picture, dataset
from lazyrich.papers.tu2024.random_starts import INITIALISATIONS, SAID, TOLD, compare, problem
from lazyrich.plot import style

TITLE = "A random initialisation, mode by mode: how far the closed form is off, by width"
ABOUT = (
    "Networks with h hidden units learn four tasks from three initialisations (Gaussian of variance 1/h, the defaults "
    "of PyTorch and of Keras), as they come and 0.05 times as large, ten of each. "
    "Lines are medians of the largest error of a mode at any time, of the largest singular value, and of the largest "
    "relative error of a half time; areas span all ten. "
    "The closed form (filled) falls like 1/h, for modes well below n/h, n inputs and outputs, except from PyTorch's "
    "default, whose function does not shrink with the width: that ends with 1/√h. "
    "With the couplings at second order (open) the error is several times smaller and falls faster."
)
CALLS = ("lr.predict", "lr.Problem", "lr.Network", "lr.tasks.semantic_hierarchy")
CHECKS = {
    "small": Check("closed form, small weights, h = 200: largest median error of modes, 5 to 20 inputs", at_most=0.008),
    "small_wide": Check("the same at the largest width", at_most=0.0015),
    "default": Check("closed form, default weights, h = 200: the same", at_most=0.03),
    "default_corrected": Check("with the couplings, default weights, h = 200: the same", at_most=0.004),
    "slope": Check(
        "exponent of h in the closed form's error from h = 50 on, Gaussian and Keras: farthest from −1",
        at_most=0.25,
    ),
}
QUICK = {"tasks": ("hierarchy 8 → 8",), "widths": (50, 200, 1000), "seeds": 2}

DIGITS = "digits 61 → 10"
SCALES = (0.05, 1.0)
_AT, _FROM = 200, 50  # widths at which the checks look
_MODES = 10  # of the tasks with the most
_MARKS = dict(zip(INITIALISATIONS, ("o", "s", "D"), strict=True))
_COLOURS = dict(zip(INITIALISATIONS, ("blue", "orange", "green"), strict=True))
_CORRECTED: style.Look = {"linestyle": (0, (4, 2)), "linewidth": 1.2, "markerfacecolor": "white"}


def compute(
    *,
    tasks: tuple[str, ...] = ("5 → 4", "20 → 10", "hierarchy 8 → 8", DIGITS),
    widths: tuple[int, ...] = (20, 50, 200, 1000),
    digits_widths: tuple[int, ...] = (32, 128, 512, 2048),
    seeds: int = 10,
) -> Dataset:
    """Errors of modes (the largest) and of half times (of each mode; nan where it does not go far)."""
    hidden = np.array([digits_widths if task == DIGITS else widths for task in tasks])
    shape = (len(tasks), len(INITIALISATIONS), len(SCALES), hidden.shape[1], seeds)
    modes, halves = np.empty((*shape, len(TOLD))), np.full((*shape, len(TOLD), _MODES), np.nan)
    units = np.empty(len(tasks))
    with progress(int(np.prod(shape)), "networks") as move_on:
        for place in np.ndindex(shape):
            i, j, k, width, seed = place
            one = compare(problem(tasks[i], INITIALISATIONS[j], int(hidden[i, width]), SCALES[k], seed))
            modes[place], halves[place][:, : len(one.limit)] = one.mode_errors, one.half_time_errors
            units[i] = one.problem.task.d_in + one.problem.task.d_out
            move_on(1)
    data = dataset(
        {
            "hidden": (("task", "width"), hidden),
            "units": ("task", units),
            "mode_error": (("task", "initialisation", "scale", "width", "seed", "told"), modes),
            "half_time_error": (("task", "initialisation", "scale", "width", "seed", "told", "mode"), halves),
        },
        {"task": list(tasks), "initialisation": list(INITIALISATIONS), "scale": list(SCALES), "told": list(TOLD)},
    )
    return data.assign_attrs(_numbers(data, widths))


def _numbers(data: Dataset, widths: tuple[int, ...]) -> dict[str, float]:
    random = data.mode_error.sel(task=[task for task in data.task.values if task != DIGITS])
    median, at = random.median("seed"), widths.index(_AT)
    small, default = (median.sel(scale=scale) for scale in SCALES)
    start = widths.index(_FROM)
    logs = np.log(median.sel(told="closed form", initialisation=["gaussian", "keras"]))
    slopes = (logs[..., -1] - logs[..., start]) / np.log(widths[-1] / widths[start])
    return {
        "small": float(small.sel(told="closed form")[..., at].max()),
        "small_wide": float(small.sel(told="closed form")[..., -1].max()),
        "default": float(default.sel(told="closed form")[..., at].max()),
        "default_corrected": float(default.sel(told="corrected")[..., at].max()),
        "slope": float(np.abs(slopes.mean("scale") + 1).max()),
    }


def draw(data: Dataset) -> Picture:
    """Columns are tasks; errors of modes above, of half times below, of small and of default weights."""
    figure = style.new_figure(3.1 * data.sizes["task"] + 0.6, 10.2)
    panels = figure.subplots(4, data.sizes["task"], sharex="col", sharey=True, squeeze=False)
    largest = {"mode_error": data.mode_error, "half_time_error": data.half_time_error.max("mode")}
    words = {"mode_error": "mode error", "half_time_error": "half time error"}
    rows = [(name, scale) for name in largest for scale in data.scale.values]
    for row, (name, scale) in enumerate(rows):
        for panel, task in zip(panels[row], data.task.values, strict=True):
            hidden = data.hidden.sel(task=task).values
            _draw_errors(panel, hidden, largest[name].sel(task=task, scale=scale))
            panel.plot(hidden, data.units.sel(task=task).values / hidden, **style.LIMIT)
            if row == 0:
                panel.set_title(f"{task[0].upper()}{task[1:]}")
            if row == len(rows) - 1:
                panel.set_xlabel("hidden units h")
        size = "default weights" if scale == 1 else f"weights × {scale:g}"
        panels[row, 0].set_ylabel(f"{words[name]}\n{size}")
    for initialisation in data.initialisation.values:
        panels[0, 0].plot([], [], **_look(str(initialisation)), label=SAID[str(initialisation)])
    panels[0, 0].plot([], [], **_look("gaussian") | _CORRECTED | {"color": "black"}, label="with couplings")
    panels[0, 0].plot([], [], **style.LIMIT, label="(inputs + outputs)/h")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def _draw_errors(panel: Axes, hidden: Array, errors: DataArray) -> None:
    """Medians over seeds with their range, of the closed form; medians of the corrected curves."""
    for initialisation in errors.initialisation.values:
        look = _look(str(initialisation))
        closed, corrected = (errors.sel(initialisation=initialisation, told=told) for told in TOLD)
        panel.plot(hidden, closed.median("seed"), **look)
        panel.fill_between(hidden, closed.min("seed"), closed.max("seed"), color=look["color"], alpha=0.13, linewidth=0)
        panel.plot(hidden, corrected.median("seed"), **look | _CORRECTED)
    panel.set(xscale="log", yscale="log", ylim=(1e-6, 3))
    panel.set_xticks(hidden, [f"{h}" for h in hidden], minor=False)
    panel.set_xticks([], minor=True)
    panel.set_yticks(10.0 ** np.arange(-5, 1), ["0.001 %", "0.01 %", "0.1 %", "1 %", "10 %", "100 %"])


def _look(initialisation: str) -> style.Look:
    return {"color": style.COLOURS[_COLOURS[initialisation]], "marker": _MARKS[initialisation], "markersize": 5}


FIGURE = Figure("tu2024/random_errors", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
