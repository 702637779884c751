"""Lecture notes, sections 6 and 7: from saddle to saddle, at depths 2, 3 and 4."""

import numpy as np

from lazyrich import Network, Problem, Task, descend, solve
from lazyrich._progress import progress
from lazyrich.inits import aligned, gaussian
from lazyrich.landscape import compare_plateaus, critical_points, plateau_times, saddle_path
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.plot import style

TITLE = "The saddle-to-saddle staircase at depths 2, 3 and 4"
ABOUT = (
    "Networks of two, three and four layers learn modes of strength 4, 2 and 1 from a decoupled initialisation (top; "
    "exact curve dotted over descent) and from small Gaussian weights (bottom). "
    "The loss rests near the saddles that hold the strongest r modes (dashed: their losses; shaded: the visits found "
    "along the run) and drops when the next mode is learned. "
    "Circles mark half times predicted from the initialisation: exact above, leading order for two random layers, and "
    "only up to a factor for more, where the plateaus scale as a power of the initialisation."
)
CALLS = (
    "lr.descend",
    "lr.solve",
    "lr.landscape.critical_points",
    "lr.landscape.saddle_path",
    "lr.landscape.compare_plateaus",
)
CHECKS = {
    "deviation": Check(
        "decoupled: largest difference in loss, as a share of the first, theory against descent", at_most=0.06
    ),
    "exact_times": Check(
        "decoupled: half times of descent against prediction, largest relative difference", at_most=0.012
    ),
    "leading_times": Check("two random layers: the same, to leading order", at_most=0.012),
    "visits": Check("saddles visited in order, of those that hold the strongest modes, least share", at_least=1.0),
}
QUICK = {"rate": 0.005, "depths": (2, 3)}

_STRENGTHS = (4.0, 2.0, 1.0)
_SIZES = (4, 5, 3)  # inputs, every hidden layer, outputs; inputs ≠ outputs: no determinant bars the way
_STARTS = ("decoupled", "random")
_RADIUS = 0.1
_RECORDS = 600


def compute(
    *,
    depths: tuple[int, ...] = (2, 3, 4),
    start: float = 1e-6,
    scales: tuple[float, ...] = (1e-3, 1e-2, 0.05),
    rate: float = 0.002,
    seed: int = 0,
) -> Dataset:
    """Loss over time by initialisation and depth, saddles visited, and half times of the modes."""
    task = Task.from_correlations(np.eye(_SIZES[2], _SIZES[0]) * np.array(_STRENGTHS)[:, None])
    k = len(_STRENGTHS)
    shape = len(_STARTS), len(depths)
    times, loss = np.empty((*shape, _RECORDS + 1)), np.full((*shape, 2, _RECORDS + 1), np.nan)
    visits, halves = np.full((*shape, k + 1, 2), np.nan), np.empty((*shape, 2, k))
    share = np.empty(shape)
    with progress(len(_STARTS) * len(depths), "staircases") as move_on:
        for i, kind in enumerate(_STARTS):
            for j, (depth, scale) in enumerate(zip(depths, scales, strict=False)):
                problem = Problem(task, _network(kind, task, depth, start, scale, seed))
                steps = int(_horizon(problem) / rate)
                run = descend(problem, rate, steps, at=np.linspace(0, steps, _RECORDS + 1).round())
                times[i, j], loss[i, j, 1] = run.times, run.loss
                if kind == "decoupled":
                    loss[i, j, 0] = solve(problem, run.times).loss
                compared = compare_plateaus(run)
                halves[i, j] = compared.prediction.times, compared.observed
                path = saddle_path(run, radius=_RADIUS).visits
                for visit in path:
                    if visit.modes == tuple(range(len(visit.modes))):
                        visits[i, j, len(visit.modes)] = visit.arrival, min(visit.departure, run.times[-1])
                share[i, j] = np.mean(np.isfinite(visits[i, j, :, 0])) * (len(path) == k + 1)
                move_on(1)
    levels = [point.loss for point in critical_points(task, _SIZES[1]) if point.modes == tuple(range(point.rank))]
    apart = np.abs(halves[:, :, 1] / halves[:, :, 0] - 1)
    return dataset(
        {
            "time": (("start", "depth", "record"), times),
            "loss": (("start", "depth", "source", "record"), loss),
            "visit": (("start", "depth", "rank", "edge"), visits),
            "half_time": (("start", "depth", "source", "mode"), halves),
            "level": ("rank", np.array(sorted(levels, reverse=True))),
        },
        {
            "start": list(_STARTS),
            "depth": list(depths),
            "source": ["theory", "descent"],
            "mode": 1 + np.arange(k),
            "rank": np.arange(k + 1),
            "edge": ["arrival", "departure"],
        },
        {
            "deviation": float(np.abs(loss[0, :, 0] - loss[0, :, 1]).max() / loss[0, 0, 0, 0]),
            "exact_times": float(apart[0].max()),
            "leading_times": float(apart[1, depths.index(2)].max()),
            "visits": float(share.min()),
        },
    )


def _network(kind: str, task: Task, depth: int, start: float, scale: float, seed: int) -> Network:
    d_in, h, d_out = _SIZES
    if kind == "decoupled":
        return aligned(seed, task, hidden=(h,) * (depth - 1), strengths=start)
    return gaussian(seed, sizes=(d_in, *(h,) * (depth - 1), d_out), scale=scale)


def _horizon(problem: Problem) -> float:
    """A third beyond the last mode; random deep initialisations take up to three times what the scaling law says."""
    known = plateau_times(problem)
    return float(np.nanmax(known.times)) * (3.0 if known.kind == "scaling only" else 1.35)


def draw(data: Dataset) -> Picture:
    """A row per initialisation, a column per depth."""
    figure = style.new_figure(12.0, 6.2)
    panels = figure.subplots(len(_STARTS), data.sizes["depth"], sharey=True, squeeze=False)
    characters = iter("ABCDEFGHIJKL")
    for row, start in zip(panels, data.start.values, strict=True):
        for panel, depth in zip(row, data.depth.values, strict=True):
            _draw_staircase(panel, data.sel(start=start, depth=depth))
            panel.set_title(f"{next(characters)}  {str(start).capitalize()} weights, depth {depth}")
        row[0].set_ylabel("loss")
    for panel in panels[-1]:
        panel.set_xlabel(style.TIME)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def _draw_staircase(panel: Axes, part: Dataset) -> None:
    for rank, level in enumerate(part.level.values):
        panel.axhline(level, **style.LIMIT, label="loss of a saddle" if rank == 0 else None)
        arrival, departure = part.visit.sel(rank=rank).values
        shade = style.mode_colours(part.sizes["rank"])[rank]
        panel.axvspan(arrival, departure, color=shade, alpha=0.16, linewidth=0, label="visit" if rank == 1 else None)
    panel.plot(part.time, part.loss.sel(source="descent"), color=style.COLOURS["blue"], label="descent")
    panel.plot(part.time, part.loss.sel(source="theory"), **style.THEORY, label="exact")
    half = part.half_time.sel(source="theory").values
    before, after = part.level.values[:-1], part.level.values[1:]
    quarter = after + (before - after) / 4  # what is left of the drop when the mode is half learned
    shown = half <= float(part.time[-1])
    panel.plot(half[shown], quarter[shown], **style.MARK, label="predicted half time")
    panel.set_xlim(0.0, float(part.time[-1]))


FIGURE = Figure("notes/staircase", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
