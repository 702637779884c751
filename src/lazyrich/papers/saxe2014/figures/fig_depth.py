"""Saxe et al. 2014, Figs 4 and 6: learning time and best learning rate against depth, for three initialisations."""

import numpy as np

from lazyrich import Network, Problem, Task, descend
from lazyrich._progress import progress
from lazyrich._typing import Array
from lazyrich.inits import aligned, gaussian, orthogonal
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.base.types import Look
from lazyrich.papers.saxe2014.formulas import time_infinite_depth, time_to_learn
from lazyrich.plot import style

TITLE = "Learning time against depth: decoupled, random orthogonal and Gaussian initialisations"
ABOUT = (
    "Linear networks of 3 to 100 layers, ten units wide, learn six modes of strength 1 until 1 % of the loss is left, "
    "each at the best of twenty rates; the paper used MNIST and 1000 units. "
    "Started decoupled at mode strength 0.001, the number of steps saturates with depth, as theory says (dotted; "
    "dashed: infinite depth), since the best rate falls only as 1/L. "
    "Random orthogonal layers saturate too, whereas Gaussian ones that preserve the norm on average do not."
)
CALLS = (
    "lr.inits.aligned",
    "lr.inits.orthogonal",
    "lr.inits.gaussian",
    "lr.descend",
    "lr.papers.saxe2014.formulas.time_to_learn",
    "lr.papers.saxe2014.formulas.time_infinite_depth",
)
CHECKS = {
    "time_error": Check(
        "learning time of decoupled initialisations against theory, largest relative difference", at_most=0.15
    ),
    "slowest_error": Check("the same at a rate at which it takes most of the steps, least depth", at_most=0.003),
    "rate_spread": Check("best rate × depth of decoupled initialisations, largest over smallest", at_most=2.0),
    "orthogonal_spread": Check(
        "steps of orthogonal initialisations by depth, largest over smallest median", at_most=4.0
    ),
}
QUICK = {"depths": (4, 10), "rates": 8, "seeds": 2, "most_steps": 1500}

_LEFT = 0.01  # of the loss
_LEARNED = 1 - np.sqrt(_LEFT)  # of each mode
_WIDTHS = {"inputs": 10, "hidden": 10, "outputs": 6}  # inputs ≠ outputs: no determinant bars the way
_STARTS = {
    "decoupled": ("blue", "o", "decoupled, u0 = {u0:g}"),
    "orthogonal": ("orange", "s", "random orthogonal"),
    "gaussian": ("green", "^", "Gaussian, variance 1/width"),
}
_RATES = (0.005, 1.0)
_SLOWER = 3  # rates in a row with more steps than the best: smaller ones have more still


def compute(
    *,
    depths: tuple[int, ...] = (3, 5, 10, 20, 50, 100),
    u0: float = 0.001,
    rates: int = 20,
    seeds: int = 3,
    most_steps: int = 2000,
) -> Dataset:
    """Steps to learn at the best rate, and that rate, by initialisation, depth and seed; times in theory."""
    task = Task.from_correlations(np.eye(_WIDTHS["outputs"], _WIDTHS["inputs"]))
    steps = np.full((len(_STARTS), len(depths), seeds), np.nan)
    best = np.full(steps.shape, np.nan)
    tried = np.geomspace(*_RATES, rates)[::-1]
    with progress(len(_STARTS) * sum(depths), "depths") as move_on:
        for j, depth in enumerate(depths):
            for i, start in enumerate(_STARTS):
                hopeless = start == "gaussian" and j > 0 and np.isnan(steps[i, j - 1]).all()
                for seed in range(0 if hopeless else 1 if start == "decoupled" else seeds):
                    problem = Problem(task, _network(start, task, depth, u0, seed))
                    steps[i, j, seed], best[i, j, seed] = _fastest(problem, tried, most_steps)
                move_on(depth)
    times = np.array([time_to_learn(u0, _LEARNED, 1.0, depth) for depth in depths])
    every_depth = np.unique(np.geomspace(depths[0], depths[-1], 60).round().astype(int))
    small = Problem(task, _network("decoupled", task, depths[0], u0, 0))
    slow = times[0] / (0.75 * most_steps)
    scaled = best[0, :, 0] * depths
    medians = np.nanmedian(steps[1], axis=1)
    return dataset(
        {
            "steps": (("start", "depth", "seed"), steps),
            "rate": (("start", "depth", "seed"), best),
            "theory": ("every_depth", np.array([time_to_learn(u0, _LEARNED, 1.0, int(L)) for L in every_depth])),
        },
        {"start": list(_STARTS), "depth": list(depths), "every_depth": every_depth},
        {
            "u0": u0,
            "most_steps": most_steps,
            "limit": float(time_infinite_depth(u0, _LEARNED, 1.0)),
            "time_error": float(np.abs(steps[0, :, 0] * best[0, :, 0] / times - 1).max()),
            "slowest_error": float(abs(_steps_to_learn(small, slow, most_steps) * slow / times[0] - 1)),
            "rate_spread": float(scaled.max() / scaled.min()),
            "orthogonal_spread": float(medians.max() / medians.min()),
        },
    )


def _network(start: str, task: Task, depth: int, u0: float, seed: int) -> Network:
    hidden = (_WIDTHS["hidden"],) * (depth - 1)
    if start == "decoupled":
        return aligned(seed, task, hidden=hidden, strengths=u0)
    sizes = (task.d_in, *hidden, task.d_out)
    if start == "orthogonal":
        return orthogonal(seed, sizes=sizes, scale=1.0)
    return gaussian(seed, sizes=sizes, scale=_WIDTHS["hidden"] ** -0.5)


def _fastest(problem: Problem, rates: Array, most_steps: int) -> tuple[float, float]:
    """The least number of steps at any of the rates, fastest first, and the rate; nan if none learns."""
    best, slower = (np.nan, np.nan), 0
    for rate in rates:
        taken = _steps_to_learn(problem, float(rate), most_steps)
        if taken < best[0] or np.isnan(best[0]):
            best, slower = (taken, float(rate) if np.isfinite(taken) else np.nan), 0
        else:
            slower += 1
        if slower == _SLOWER:
            break
    return best


def _steps_to_learn(problem: Problem, rate: float, most_steps: int) -> float:
    """Until the loss is, for good, below its share of what a network of zeros has; nan if it never is."""
    level = _LEFT * float(np.sum(problem.task.sigma_yx**2)) / 2
    run = descend(problem, rate, most_steps, record="loss", at=np.arange(0, most_steps + 1, 2))
    above = np.flatnonzero(run.loss > level)
    if run.status != "complete" or above[-1] == len(run.loss) - 1:
        return float("nan")
    pair = slice(above[-1], above[-1] + 2)
    return float(np.interp(-np.log(level), -np.log(run.loss[pair]), run.times[pair] / rate))


def draw(data: Dataset) -> Picture:
    """Steps and rates against depth, and the time in theory with its limit."""
    figure = style.new_figure(11.5, 3.9)
    steps, rates, times = figure.subplots(1, 3)
    for start, (colour, marker, words) in _STARTS.items():
        look: Look = {"color": style.COLOURS[colour], "marker": marker, "markersize": 5, "linewidth": 1.2}
        for panel, name in ((steps, "steps"), (rates, "rate")):
            values = data[name].sel(start=start)
            middle = values.median("seed")
            reach = [middle - values.min("seed"), values.max("seed") - middle]
            panel.errorbar(data.depth, middle, np.nan_to_num(reach), **look, label=words.format(u0=data.attrs["u0"]))
    decoupled = data.sel(start="decoupled", seed=0)
    look = {"color": style.COLOURS["blue"], "marker": "o", "markersize": 5, "linestyle": "none"}
    times.plot(data.depth, decoupled.steps * decoupled.rate * data.depth, **look, label="decoupled, best rate")
    times.plot(data.every_depth, data.theory * data.every_depth, **style.THEORY, label="theory")
    times.axhline(data.attrs["limit"], **style.LIMIT, label="infinite depth")
    rates.plot(data.depth, 1.0 / data.depth, **style.LIMIT, label="1/L")
    _label(steps, data.depth.values, "steps at the best rate", "A  Learning time")
    _label(rates, data.depth.values, "best rate", "B  Best learning rate")
    _label(times, data.depth.values, "time × depth", "C  Time in units of depth")
    times.set_yscale("linear")
    times.set_ylim(bottom=0.0)
    steps.set_ylim(top=3 * float(data.steps.max()))
    figure.legend(*steps.get_legend_handles_labels(), loc="outside lower center", ncols=len(_STARTS))
    _note_unlearned(steps, data)
    handles, words = rates.get_legend_handles_labels()
    rates.legend(handles[:1], words[:1], loc="upper right")
    times.legend(loc="best")
    return figure


def _note_unlearned(panel: Axes, data: Dataset) -> None:
    """An arrow at the first depth at which no Gaussian initialisation learned in time."""
    learned = data.steps.sel(start="gaussian").notnull().any("seed").values
    if learned.all():
        return
    last = int(np.flatnonzero(learned)[-1])
    here = float(data.depth[last]), float(data.steps.sel(start="gaussian")[last].median())
    panel.annotate(
        f"deeper: not in {data.attrs['most_steps']} steps",
        here,
        (6, 34),
        textcoords="offset points",
        color=style.COLOURS["green"],
        arrowprops={"arrowstyle": "<-", "color": style.COLOURS["green"]},
    )


def _label(panel: Axes, depths: Array, what: str, title: str) -> None:
    panel.set(xlabel="depth L (layers of weights)", ylabel=what, title=title, xscale="log", yscale="log")
    panel.set_xticks(depths, [f"{depth}" for depth in depths])
    panel.set_xticks([], minor=True)


FIGURE = Figure("saxe2014/depth", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
