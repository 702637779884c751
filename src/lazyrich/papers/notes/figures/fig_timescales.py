"""Lecture notes, sections 5 and 6: sigmoids, their times, and how sharp depth makes them."""

from collections.abc import Sequence

import numpy as np

from lazyrich import Network, Problem, Task, descend, solve
from lazyrich._typing import Array
from lazyrich.inits import aligned
from lazyrich.methods.mode_times import half_time, width
from lazyrich.observables import mode_strengths
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.base.types import Colour
from lazyrich.plot import style

TITLE = "Timescales of two modes: exponentials, sigmoids, and depth"
ABOUT = (
    "Modes of strength 3 and 1 are learned from strength 0.01 by networks of one to five layers; exact curves (dotted) "
    "lie over gradient descent at rate 0.001. "
    "One layer learns both at the same pace, two layers in sigmoids half way at ln(s/a0 − 1)/2s (circles; 0.951 for "
    "the first, where the notes have 0.97), and more layers later and more sharply. "
    "The time from 0.1 s to 0.9 s is c_L s^{−(2−2/L)}: it falls with depth as 1/L, and not as 1/s for every depth."
)
CALLS = ("lr.inits.aligned", "lr.solve", "lr.descend", "lr.methods.mode_times.half_time", "lr.methods.mode_times.width")
CHECKS = {
    "deviation": Check("largest difference in a/s between theory and descent", at_most=0.02),
    "half_time_error": Check(
        "half times read off descent against the formula, largest relative difference", at_most=0.005
    ),
    "width_error": Check("rise times read off the exact curves against c_L s^{−(2−2/L)}", at_most=3e-4),
    "shallow_gap": Check("one layer: largest difference between the two modes in share learned", at_most=0.01),
}
QUICK = {"rate": 0.002, "depths": (1, 2, 3)}

_RECORDS = 500
_FINE = 3000


def compute(
    *,
    strengths: tuple[float, ...] = (3.0, 1.0),
    start: float = 0.01,
    depths: tuple[int, ...] = (1, 2, 3, 5),
    horizon: float = 8.0,
    rate: float = 0.001,
) -> Dataset:
    """a(t) of both modes by depth, half times and rise times."""
    task = Task.from_correlations(np.diag(strengths))
    s = np.array(strengths)
    steps = round(horizon / rate)
    curves, rises, formulas, halves = [], [], [], []
    for depth in depths:
        problem = Problem(task, _decoupled(task, depth, start))
        run = descend(problem, rate, steps, record="function", at=np.linspace(0, steps, _RECORDS + 1).round())
        curves.append([mode_strengths(solve(problem, run.times)), mode_strengths(run)])
        if depth > 1:
            fine = np.linspace(0, horizon, _FINE)
            exact = mode_strengths(solve(problem, fine)) / s
            rises.append([_when(fine, a, 0.9) - _when(fine, a, 0.1) for a in exact.T])
            formulas.append([width(x, depth) for x in strengths])
            seen = [_when(run.times, a / x, 0.5) for a, x in zip(curves[-1][1].T, strengths, strict=True)]
            halves.append([[half_time(start, x, depth) for x in strengths], seen])
    values: Array = np.array(curves)
    apart: Array = np.array(halves)
    every = np.unique(np.geomspace(2, 64, 24).round().astype(int))
    shallow = values[depths.index(1), 0] / s if 1 in depths else np.zeros((1, 2))
    return dataset(
        {
            "strength": (("depth", "source", "time", "mode"), values),
            "limit": ("mode", s),
            "rise": (("deep", "mode"), np.array(rises)),
            "half": (("deep", "source", "mode"), apart),
            "width": (("any_depth", "mode"), np.array([[width(x, int(L)) for x in strengths] for L in every])),
        },
        {
            "depth": list(depths),
            "deep": [depth for depth in depths if depth > 1],
            "source": ["theory", "descent"],
            "time": run.times,
            "mode": [1, 2],
            "any_depth": every,
        },
        {
            "deviation": float(np.abs((values[:, 0] - values[:, 1]) / s).max()),
            "half_time_error": float(np.abs(apart[:, 1] / apart[:, 0] - 1).max()),
            "width_error": float(np.abs(np.array(rises) / formulas - 1).max()),
            "shallow_gap": float(np.abs(shallow[:, 0] - shallow[:, 1]).max()),
        },
    )


def _decoupled(task: Task, depth: int, start: float) -> Network:
    """Both modes at the same strength; the task is diagonal."""
    return aligned(0, task, hidden=(2,) * (depth - 1), strengths=start) if depth > 1 else Network([start * np.eye(2)])


def _when(times: Array, rising: Array, level: float) -> float:
    """When a rising curve passes a level."""
    return float(np.interp(level, rising, times))


def draw(data: Dataset) -> Picture:
    """Both modes at each depth, and rise times against depth."""
    depths = data.depth.values
    figure = style.new_figure(3.1 * (len(depths) + 1), 3.6)
    *panels, rise = figure.subplots(1, len(depths) + 1)
    colours = [style.COLOURS[name] for name in ("blue", "orange")]
    for panel, letter, depth in zip(panels, "ABCDEFGH", depths, strict=False):
        _draw_depth(panel, data, int(depth), colours)
        panel.set_title(f"{letter}  Depth {depth}")
    panels[0].set_ylabel("a/s")
    panels[0].legend(loc="lower right")
    for i, colour in enumerate(colours):
        label = f"s = {data.limit.values[i]:g}"
        rise.plot(data.deep, data.rise[:, i], color=colour, marker="o", linestyle="none", label=label)
        rise.plot(data.any_depth, data.width[:, i], **style.THEORY)
    rise.plot([], [], **style.THEORY, label=r"$c_L\,s^{-(2-2/L)}$")
    rise.set(xscale="log", yscale="log", xlabel="depth L", ylabel="time from 0.1 s to 0.9 s")
    rise.set_xticks([2, 4, 8, 16, 32, 64], ["2", "4", "8", "16", "32", "64"], minor=False)
    rise.set_xticks([], minor=True)
    rise.set_title(f"{'ABCDEFGHI'[len(depths)]}  Rise time")
    rise.legend(loc="lower left")
    return figure


def _draw_depth(panel: Axes, data: Dataset, depth: int, colours: Sequence[Colour]) -> None:
    part = data.sel(depth=depth)
    for i, colour in enumerate(colours):
        s = float(data.limit[i])
        panel.plot(data.time, part.strength.sel(source="descent")[:, i] / s, color=colour, label=f"s = {s:g}")
        panel.plot(data.time, part.strength.sel(source="theory")[:, i] / s, **style.THEORY)
        if depth > 1:
            panel.plot(data.half.sel(deep=depth, source="theory")[i], 0.5, **style.MARK)
    panel.plot([], [], **style.THEORY, label="exact")
    panel.set(xlabel="time", xlim=(0.0, float(data.time[-1])))


FIGURE = Figure("notes/timescales", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
