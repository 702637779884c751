"""Saxe et al. 2014, section 1.4: how late random weights are against the decoupled theory, by their size."""

from collections.abc import Sequence
from itertools import cycle

import numpy as np

from lazyrich import Problem, flow
from lazyrich._progress import progress
from lazyrich.inits import aligned
from lazyrich.landscape import plateau_times
from lazyrich.observables import half_times, mode_strengths
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.base.types import Colour
from lazyrich.papers.saxe2014.figures._shared import small_start, tree
from lazyrich.plot import style

TITLE = "Delay from a random initialisation, by its size"
ABOUT = (
    "Linear networks learn the 32 items and 1000 features of a binary tree from Gaussian weights of many sizes, ten of "
    "each; the delay of a mode is its half time over that of a decoupled initialisation of strength u0, less 1. "
    "The dotted lines come from the initialisation alone: a mode grows from the part of its weights that stronger "
    "modes do not share, which holds to leading order in u0. "
    "The delay is largest for weak modes and fades like 1/ln(1/u0), so slowly that it is there at any size in use."
)
CALLS = ("lr.tasks.binary_tree", "lr.flow", "lr.landscape.plateau_times", "lr.observables.half_times")
CHECKS = {
    "prediction_error": Check(
        "delays of the shown modes against those predicted from the initialisation, mean difference at the smallest",
        at_most=0.004,
    ),
    "first_mode_error": Check(
        "half times of mode 1 against prediction, largest relative difference at u0 ≤ 1e-6", at_most=3e-4
    ),
    "fading": Check(
        "delay of the last mode shown at the smallest initialisation over that at the largest", at_most=0.6
    ),
}
QUICK = {
    "levels": 3,
    "features": 60,
    "hidden": 8,
    "modes": (1, 3, 5, 7),
    "starts": (1e-12, 1e-6, 1e-3),
    "simulations": 6,
}

_SMALL = 1e-6  # where leading order says all about the first mode
_LATEST = 3.0  # half times of the slowest mode in theory, by which the networks have learned it too


def compute(
    *,
    levels: int = 5,
    features: int = 1000,
    flip: float = 0.1,
    hidden: int = 32,
    modes: tuple[int, ...] = (1, 5, 12, 18, 31),
    starts: tuple[float, ...] = (1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-3),
    simulations: int = 10,
    seed: int = 0,
) -> Dataset:
    """Delays of the chosen modes: along the flow, and as the initialisation predicts them."""
    task, shown = tree(seed, levels, features, flip), np.array(modes) - 1
    delay = np.empty((2, len(starts), simulations, len(modes)))
    with progress(len(starts) * simulations, "starts") as move_on:
        for i, u0 in enumerate(starts):
            for j in range(simulations):
                problem = small_start(np.random.default_rng((seed, j)), task, hidden=hidden, u0=u0)
                turned = problem.task
                decoupled = Problem(turned, aligned(0, turned, hidden=hidden, strengths=u0))
                expected = plateau_times(decoupled).times
                run = flow(problem, np.linspace(0.0, _LATEST * expected.max(), 600), record="function")
                seen = half_times(run.times, mode_strengths(run), turned.modes.s)
                for source, times in enumerate((plateau_times(problem).times, seen)):
                    delay[source, i, j] = (times / expected - 1)[shown]
                move_on(1)
    predicted, seen = delay
    mean, small = seen.mean(axis=1), np.array(starts) <= _SMALL
    return dataset(
        {"delay": (("source", "start", "simulation", "mode"), delay)},
        {"source": ["prediction", "flow"], "start": list(starts), "mode": list(modes)},
        {
            "prediction_error": float(np.abs(predicted[0].mean(axis=0) - mean[0]).mean()),
            "first_mode_error": float(np.abs((1 + predicted[small, :, 0]) / (1 + seen[small, :, 0]) - 1).max()),
            "fading": float(mean[0, -1] / mean[-1, -1]),
        },
    )


def draw(data: Dataset) -> Picture:
    """Means of all modes against u0, and every initialisation of the weakest."""
    figure = style.new_figure(11.5, 4.4)
    means, starts = figure.subplots(1, 2, width_ratios=(1.3, 1.0))
    colours = style.mode_colours(1 + data.sizes["mode"])[:-1]
    _draw_means(means, data, colours)
    _draw_starts(starts, data, colours[-1])
    for panel in (means, starts):
        panel.set(xscale="log", xlabel="initial strength u0")
    return figure


def _draw_means(panel: Axes, data: Dataset, colours: Sequence[Colour]) -> None:
    """A mark of its own and a name for every mode, on an axis where all of them are seen."""
    for mode, colour, marker in zip(data.mode.values, colours, cycle("osD^v"), strict=False):
        predicted, seen = data.delay.sel(mode=mode).mean("simulation")
        panel.plot(data.start, seen, color=colour, marker=marker, markersize=7, linestyle="none")
        panel.plot(data.start, predicted, **style.THEORY | {"color": colour})
        end = (float(data.start[-1]), float(seen[-1]))
        panel.annotate(f"mode {mode}", end, (9, 0), textcoords="offset points", va="center", color=colour)
    panel.plot([], [], marker="o", color=style.COLOURS["grey"], linestyle="none", label="along the flow")
    panel.plot([], [], **style.THEORY | {"color": style.COLOURS["grey"]}, label="predicted from the initialisation")
    panel.set(yscale="log", ylabel="delay of the half time, relative to theory")
    panel.set_title(f"A  Delay, mean of {data.sizes['simulation']} runs")
    panel.set_ylim(top=3 * float(data.delay.mean("simulation").max()))  # room for the legend
    panel.legend(loc="upper left")


def _draw_starts(panel: Axes, data: Dataset, colour: Colour) -> None:
    """The last mode shown, one by one."""
    mode = int(data.mode[-1])
    predicted, seen = data.delay.sel(mode=mode)
    for j in range(data.sizes["simulation"]):
        panel.plot(data.start, seen[:, j], color=colour, linewidth=0.9, marker="o", markersize=3, alpha=0.6)
    panel.plot(data.start, seen.mean("simulation"), color=colour, label="mean along the flow")
    panel.plot(data.start, predicted.mean("simulation"), **style.THEORY, label="mean of the predictions")
    panel.plot([], [], color=colour, linewidth=0.9, marker="o", markersize=3, alpha=0.6, label="each run")
    panel.set(title=f"B  Mode {mode}, one by one", ylim=(0, None))
    panel.legend(loc="upper left")


FIGURE = Figure("saxe2014/delay", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
