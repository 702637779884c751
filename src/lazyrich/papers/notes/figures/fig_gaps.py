"""Lecture notes, section 7.2: what sets the time of a close mode from small random weights, its strength or the gap."""

from collections.abc import Sequence
from itertools import cycle

import numpy as np

from lazyrich import Problem, Task, solve
from lazyrich._progress import progress
from lazyrich.inits import aligned, zero_balanced
from lazyrich.landscape import compare_plateaus
from lazyrich.observables import mode_strengths
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.base.types import Colour, Look
from lazyrich.plot import style

TITLE = "Close modes from a random initialisation: times go by strength, not by gaps"
ABOUT = (
    "Two layers learn modes of strength 10, 9 and 1, the example of the notes, from random zero-balanced weights of "
    "size ε, exactly; dotted curves are those of a decoupled initialisation of strength ε². "
    "The notes expect mode 2 after ln(1/ε)/(s1 − s2), long after mode 1, since the gap is small; in truth it comes at "
    "ln(1/ε)/s2, right behind. "
    "The right panel follows the half time of every mode over nine orders of magnitude of ε, mean and s.d. of ten "
    "runs."
)
CALLS = ("lr.inits.zero_balanced", "lr.inits.aligned", "lr.solve", "lr.landscape.compare_plateaus")
CHECKS = {
    "slope_error": Check("d(half time)/d ln(1/ε) of each mode against 1/s, largest relative difference", at_most=0.003),
    "prediction_error": Check(
        "half times against prediction at the smallest ε, largest relative difference", at_most=5e-4
    ),
    "gap_law": Check("half time of mode 2 at the smallest ε, as a share of what the gap law says", at_most=0.15),
}
QUICK = {"seeds": 3}

_SIZES = (3, 5, 4)
_WORDS: Look = {"textcoords": "offset points", "color": style.COLOURS["grey"]}


def compute(
    *,
    strengths: tuple[float, ...] = (10.0, 9.0, 1.0),
    shown: float = 1e-3,
    scales: tuple[float, ...] = (1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-3),
    seeds: int = 10,
    horizon: float = 12.0,
) -> Dataset:
    """Mode strengths from one random and one decoupled initialisation, and half times over scales and seeds."""
    s = np.array(strengths)
    task = Task.from_correlations(np.eye(_SIZES[2], _SIZES[0]) * s)
    times = np.concatenate([[0.0], np.geomspace(0.05, horizon, 400)])
    random = solve(Problem(task, zero_balanced(0, sizes=_SIZES, scale=shown)), times)
    decoupled = solve(Problem(task, aligned(0, task, hidden=_SIZES[1], strengths=shown**2)), times)
    half = np.empty((2, len(scales), seeds, len(s)))
    with progress(len(scales) * seeds, "initialisations") as move_on:
        for i, scale in enumerate(scales):
            for seed in range(seeds):
                problem = Problem(task, zero_balanced(seed, sizes=_SIZES, scale=scale))
                compared = compare_plateaus(solve(problem, [1e4]))
                half[:, i, seed] = compared.prediction.times, compared.observed
                move_on(1)
    mean, logs = half[1].mean(axis=1), np.log(1 / np.array(scales))
    few = len(scales) - 2  # the largest initialisations are no longer small
    slopes = np.polyfit(logs[:few], mean[:few], 1)[0]
    return dataset(
        {
            "strength": (("source", "time", "mode"), np.array([mode_strengths(decoupled), mode_strengths(random)])),
            "half_time": (("told", "scale", "seed", "mode"), half),
            "limit": ("mode", s),
        },
        {
            "source": ["decoupled", "random"],
            "time": times,
            "mode": 1 + np.arange(len(s)),
            "told": ["predicted", "found"],
            "scale": list(scales),
        },
        {
            "shown": shown,
            "slope_error": float(np.abs(slopes * s - 1).max()),
            "prediction_error": float(np.abs(half[1, 0] / half[0, 0] - 1).max()),
            "gap_law": float(mean[0, 1] * (s[0] - s[1]) / logs[0]),
        },
    )


def draw(data: Dataset) -> Picture:
    """Modes over time, and half times in units of ln(1/ε)/s against the size of the initialisation."""
    figure = style.new_figure(11.5, 4.2)
    curves, halves = figure.subplots(1, 2)
    colours = style.mode_colours(1 + data.sizes["mode"])[:-1]
    _draw_curves(curves, data, colours)
    _draw_halves(halves, data, colours)
    return figure


def _draw_curves(panel: Axes, data: Dataset, colours: Sequence[Colour]) -> None:
    for i, colour in enumerate(colours):
        s = float(data.limit[i])
        panel.plot(data.time[1:], data.strength.sel(source="random")[1:, i] / s, color=colour, label=f"s = {s:g}")
        panel.plot(data.time[1:], data.strength.sel(source="decoupled")[1:, i] / s, **style.THEORY)
    panel.plot([], [], **style.THEORY, label="decoupled initialisation")
    shown = float(data.attrs["shown"])
    by_gap = np.log(1 / shown) / float(data.limit[0] - data.limit[1])
    panel.axvline(by_gap, **style.LIMIT)
    panel.annotate("mode 2,\nby the notes", (by_gap, 0.5), (-6, 0), **_WORDS, ha="right", va="center")
    panel.set(xscale="log", xlabel=style.TIME, ylabel="uᵀWv / s", title=f"A  Modes over time, ε = {shown:g}")
    panel.legend(loc="upper left")


def _draw_halves(panel: Axes, data: Dataset, colours: Sequence[Colour]) -> None:
    """In units of ln(1/ε)/s, where the law by strength is 1 and the law by gaps is off the axis."""
    look: Look = {"markersize": 6, "linestyle": "none", "elinewidth": 1.2}
    for i, (colour, marker) in enumerate(zip(colours, cycle("osD"), strict=False)):
        s, beside = float(data.limit[i]), 1.35 ** (i - (len(colours) - 1) / 2)
        found, predicted = (data.half_time[..., i].sel(told=told) * s / np.log(1 / data.scale)
                            for told in ("found", "predicted"))  # fmt: skip
        panel.errorbar(data.scale * beside, found.mean("seed"), found.std("seed"), color=colour, marker=marker,
                       label=f"s = {s:g}", **look)  # fmt: skip
        panel.plot(data.scale * beside, predicted.mean("seed"), **style.THEORY | {"color": colour})
    panel.plot([], [], **style.THEORY, label="predicted from the initialisation")
    panel.axhline(1.0, **style.LIMIT)
    panel.annotate("ln(1/ε)/s", (0.01, 1.0), (0, -13), **_WORDS, xycoords=("axes fraction", "data"))
    by_gap = float(data.limit[1] / (data.limit[0] - data.limit[1]))
    words = f"mode 2 by the notes, ln(1/ε)/(s1 − s2):\nat {by_gap:g}, far above"
    panel.annotate(words, (0.6, 1.0), (-8, -4), **_WORDS, xycoords="axes fraction", ha="right", va="top")
    panel.annotate("", (0.62, 1.0), (0, -24), **_WORDS | {"color": None}, xycoords="axes fraction",
                   arrowprops={"arrowstyle": "->", "color": style.COLOURS["grey"]})  # fmt: skip
    panel.set(xscale="log", xlabel="initial size ε", ylabel="half time × s / ln(1/ε)", title="B  Half times")
    panel.set_ylim(top=1 + 1.6 * (panel.get_ylim()[1] - 1))  # room for the legend
    panel.legend(loc="center left")


FIGURE = Figure("notes/gaps", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
