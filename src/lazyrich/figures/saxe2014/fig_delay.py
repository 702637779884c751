"""Saxe et al. 2014, section 1.4: how late a random start is against the decoupled theory, by the size of the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lazyrich._progress import progress
from lazyrich.figures.catalogue import Check
from lazyrich.figures.saxe2014._shared import small_start, tree
from lazyrich.flow import flow
from lazyrich.inits import aligned
from lazyrich.landscape import plateau_times
from lazyrich.observables import half_times, mode_strengths
from lazyrich.plot import style
from lazyrich.problem import Problem

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

__all__ = ["ABOUT", "CALLS", "CHECKS", "QUICK", "TITLE", "compute", "draw"]

TITLE = "Delay from a random start, by the size of the start"
ABOUT = (
    "Linear networks learn the 32 items and 1000 features of a binary tree from Gaussian weights of many sizes, ten of "
    "each; the delay of a mode is its half time over that of a decoupled start of strength u0, less 1. "
    "The dotted lines come from the start alone: a mode grows from the part of its weights that stronger modes do not "
    "share, which holds to leading order in u0. "
    "The delay is largest for weak modes and fades like 1/ln(1/u0), so slowly that it is there at any size in use."
)
CALLS = ("lr.tasks.binary_tree", "lr.flow", "lr.landscape.plateau_times", "lr.observables.half_times")
CHECKS = {
    "prediction_error": Check(
        "delays of the shown modes against those predicted from the start, mean difference at the smallest start",
        at_most=0.004,
    ),
    "first_mode_error": Check(
        "half times of mode 1 against prediction, largest relative difference at u0 ≤ 1e-6", at_most=3e-4
    ),
    "fading": Check("delay of the last mode shown at the smallest start over that at the largest", at_most=0.6),
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
) -> xarray.Dataset:
    """Delays of the chosen modes: along the flow, and as the start predicts them."""
    import xarray

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
    return xarray.Dataset(
        {"delay": (("source", "start", "simulation", "mode"), delay)},
        {"source": ["prediction", "flow"], "start": list(starts), "mode": list(modes)},
        {
            "prediction_error": float(np.abs(predicted[0].mean(axis=0) - mean[0]).mean()),
            "first_mode_error": float(np.abs((1 + predicted[small, :, 0]) / (1 + seen[small, :, 0]) - 1).max()),
            "fading": float(mean[0, -1] / mean[-1, -1]),
        },
    )


def draw(data: xarray.Dataset) -> Figure:
    """Delay against u0, a colour per mode."""
    with style.styled():
        figure = style.new_figure(7.4, 4.4)
        panel = figure.subplots()
        colours = style.mode_colours(data.sizes["mode"])
        for place, (mode, colour) in enumerate(zip(data.mode.values, colours, strict=True)):
            seen = data.delay.sel(mode=mode, source="flow")
            panel.errorbar(
                data.start * 1.2 ** (place - len(colours) / 2),  # side by side
                seen.mean("simulation"),
                seen.std("simulation"),
                color=colour,
                marker="o",
                markersize=4,
                elinewidth=1.2,
                linestyle="none",
                label=f"mode {mode}",
            )
            panel.plot(data.start, data.delay.sel(mode=mode, source="prediction").mean("simulation"), **style.THEORY)
        panel.plot([], [], **style.THEORY, label="predicted\nfrom the start")
        panel.axhline(0.0, color="black", linewidth=1.0)
        words = f"mean ± s.d. of {data.sizes['simulation']} starts"
        panel.set(xscale="log", xlabel="strength u0 of the start", ylabel="delay of the half time, relative to theory")
        panel.set_title(f"Delay of a random start, {words}")
        prediction, *modes = panel.get_legend_handles_labels()[0]
        panel.legend(handles=[*modes[::-1], prediction], loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure
