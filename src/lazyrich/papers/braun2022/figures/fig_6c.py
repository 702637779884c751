"""Braun et al. 2022, Fig. 6C–H: a hierarchy is learned, then revised; loss, function and MDS of the items."""

from typing import Any

import numpy as np

from lazyrich import Network, Problem, continual, solve
from lazyrich._typing import Array, Float
from lazyrich.inits import zero_balanced
from lazyrich.inits.random import random_frame
from lazyrich.observables import mode_strengths, scaling
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, SubFigure, dataset
from lazyrich.papers.braun2022.figures._shared import (
    ITEMS,
    KINDS,
    draw_modes,
    draw_over,
    draw_tree,
    modes_of,
    similarities,
)
from lazyrich.papers.braun2022.figures.fig_6 import escapes
from lazyrich.plot import style
from lazyrich.tasks import Task, colour_hierarchy, revised_kingdom, semantic_hierarchy

TITLE = "Revising structured knowledge: swapped leaves stall, a related hierarchy is faster"
ABOUT = (
    "An 8-14-8 network learns the living kingdom (rate 0.05) and then the kingdom with two leaves swapped (from 0.001, "
    "2000 and 3000 steps, since in double precision it escapes after the published 2000), or "
    "the same items sorted by colour (from 0.35, 500 and 500 steps). "
    "A swap changes the sign of the determinant, so that the exact solution ends in a saddle; descent rests there too, "
    "and escapes at a time that its weights tell at the switch (circle). "
    "The colours are learned faster than from the control, the kingdom's singular values in random bases (grey: median "
    "and quartiles of 100), though the paper sees no advantage; MDS of the columns of W2W1 shows the items part as in "
    "the tree."
)
CALLS = ("lr.continual", "lr.tasks.semantic_hierarchy", "lr.tasks.revised_kingdom", "lr.tasks.colour_hierarchy")
CHECKS = {
    "deviation": Check(
        "largest difference of loss between theory and descent off the saddle, of the first loss", at_most=0.02
    ),
    "saddle_loss": Check(
        "difference of the exact loss at the end of the revision from that of the saddle", at_most=1e-6
    ),
    "escape_error": Check("relative error of the predicted escape time", at_most=0.04),
    "same_end": Check("difference of W2W1 after the kingdom, from small and from large weights", at_most=0.06),
    "advantage": Check(
        "median time in which the control learns the colours, to 1 % of the loss of W = 0, over that of the kingdom",
        at_least=1.2,
    ),
    "stress": Check("stress of the MDS: distance that two dimensions cannot show", at_most=0.25),
}
QUICK = {"snapshots": 6, "iterations": 40, "controls": 20}

_ROWS = {"revised": revised_kingdom, "colour": colour_hierarchy}
_NAMES = {"revised": "Revised kingdom", "colour": "Colour hierarchy"}
_TREES: dict[str, Any] = {
    "revised": ((*ITEMS[:6], ITEMS[7], ITEMS[6]), KINDS),
    # which item sits at which leaf; the published tree has colours for nodes
    "colour": (
        tuple(ITEMS[i] for i in (2, 5, 4, 1, 0, 7, 3, 6)),
        (("colour",), ("light", "dark"), ("I", "II", "III", "IV")),
    ),
}
_PAIRS = [style.COLOURS[name] for name in ("blue", "orange", "pink", "green")]  # fish, birds, flowers, trees
_RECORDS = 301
_LEARNED = 0.01  # of the loss of W = 0
_LEVELS = {"kingdom": range(2), "family": range(2, 4), "species": range(4, 8)}  # modes of each level of the trees


def compute(
    *, hidden: int = 14, scales: tuple[float, ...] = (0.001, 0.35), rate: float = 0.05,
    first_steps: tuple[int, ...] = (2000, 500), second_steps: tuple[int, ...] = (3000, 500), seed: int = 3,
    snapshots: int = 16, iterations: int = 200, controls: int = 100,
) -> Dataset:  # fmt: skip
    """Both sequences by theory and by descent, the escape from the saddle, the items in the plane, and the control.

    The seed is such that det W2W1 of both starts has the sign of the kingdom's, or it could not be learned.
    """
    import xarray

    kingdom, parts, points = semantic_hierarchy(), [], []
    for name, scale, first, second in zip(_ROWS, scales, first_steps, second_steps, strict=True):
        tasks = [kingdom, _ROWS[name]()]
        network = zero_balanced(seed, sizes=(8, hidden, 8), scale=scale)
        spans = [rate * np.linspace(0, count, _RECORDS).round() for count in (first, second)]
        run, exact = continual(tasks, network, spans, rate=rate), continual(tasks, network, spans)
        functions = [np.stack([np.asarray(part.function) for part in both.trajectories]) for both in (exact, run)]
        losses = [np.stack([part.loss for part in both.trajectories]) for both in (exact, run)]
        modes = modes_of(tasks[1])
        strengths = [[mode_strengths(part) for part in both.trajectories] for both in (exact, run)]
        rsm_in, rsm_out = similarities(modes)
        swapped = escapes(run.trajectories[1])[:, -1]
        parts.append(dataset(
            {
                "time": (("stage", "record"), np.stack([spans[0], spans[0][-1] + spans[1]])),
                "loss": (("source", "stage", "record"), np.array(losses)),
                "function": (("source", "stage", "record", "output", "input"), np.array(functions)),
                "strength": (("source", "stage", "record", "mode"), np.array(strengths)),
                "escape": ("source", swapped if name == "revised" else [np.nan, np.nan]),
                "U": (("output", "mode"), modes.U), "s": ("mode", modes.s), "V": (("input", "mode"), modes.V),
                "rsm_in": (("input", "input_"), rsm_in), "rsm_out": (("output", "output_"), rsm_out),
            },
            coords={"source": ["theory", "descent"]},
        ))  # fmt: skip
        shown = (np.linspace(0, 1, snapshots) ** 2 * (_RECORDS - 1)).round().astype(int)  # early ones move most
        points.append(functions[1][:, shown])
    data = xarray.concat(parts, dim=xarray.DataArray(list(_ROWS), dims="row", name="row"))
    places, stress = _mds(np.swapaxes(np.array(points), -1, -2), iterations)
    data["place"] = (("row", "stage", "snapshot", "item", "axis"), places)
    data["control"] = (("start", "record"), _control(kingdom, colour_hierarchy(), hidden, spans[1], controls))
    data["learned"] = _LEARNED * colour_hierarchy().loss(np.zeros((8, 8)))
    return data.assign_attrs(_numbers(data) | {"stress": stress})


def _control(known: Task, task: Task, hidden: int, times: Float[Array, " T"], count: int) -> Float[Array, "start T"]:
    """Exact losses from initialisations that have the singular values of a known task, and nothing else of it.

    Bases are random; a mode is turned round where the determinants differ in sign, or the task could not be learned.
    """
    generator, s = np.random.default_rng(0), np.linalg.svd(known.target, compute_uv=False)
    side, losses = np.sign(np.linalg.det(task.target)), []
    for _ in range(count):
        U, V, R = (random_frame(generator, n, len(s)) for n in (8, 8, hidden))
        U[:, 0] *= side * np.sign(np.linalg.det(U @ V.T))
        network = Network([(R * np.sqrt(s)) @ V.T, (U * np.sqrt(s)) @ R.T])
        losses.append(solve(Problem(task, network), times).loss)
    return np.array(losses)


def _time_to_learn(times: Float[Array, " T"], loss: Float[Array, " T"], learned: float) -> float:
    """When a falling loss has reached what counts as learned; nan where it has not."""
    return float(np.interp(-np.log(learned), -np.log(loss), times, right=np.nan))


def _mds(points: Float[Array, "row stage snapshot item feature"], iterations: int) -> tuple[Array, float]:
    """The items of all snapshots in a plane that keeps their distances as far as it can, and the stress that is left.

    What all items of a snapshot share is left out. Classical scaling (eigenvectors of the Gram matrix) is the start:
    alone it would show the two widest splits of the tree and no leaves. Steps of SMACOF then lower the stress.
    """
    X = (points - points.mean(axis=-2, keepdims=True)).reshape(-1, points.shape[-1])
    wanted, plane = scaling.distances(X), scaling.classical(X, 2)[:, ::-1]
    Z = scaling.relaxed(wanted, scaling.shaken(plane), iterations, settled=0.0)
    return Z.reshape(*points.shape[:-1], 2), scaling.stress_of(wanted, Z)


def _numbers(data: Dataset) -> dict[str, float]:
    theory, run = (data.loss.sel(source=name) for name in ("theory", "descent"))
    gap = np.abs(theory - run) / theory.isel(stage=0, record=0)
    s, end = data.s.sel(row="revised").values, data.function.sel(source="descent").isel(stage=0, record=-1)
    # one-hot inputs, Σxx = I/8: the mode that is missed leaves s²/2 · 8
    saddle = theory.sel(row="revised").isel(stage=1, record=-1) - 8 * s[-1] ** 2 / 2
    escape = data.escape.sel(row="revised")
    times, learned = (data.time.sel(row="colour")[1] - data.time.sel(row="colour")[1, 0]).values, float(data.learned)
    others = [_time_to_learn(times, loss, learned) for loss in data.control.values]
    behind = np.median(np.nan_to_num(others, nan=np.inf))
    return {
        "advantage": float(behind / _time_to_learn(times, theory.sel(row="colour")[1].values, learned)),
        "deviation": float(max(gap.isel(stage=0).max(), gap.sel(row="colour").max())),
        "saddle_loss": float(np.abs(saddle)),
        "escape_error": float(np.abs(escape[0] / escape[1] - 1)),
        "same_end": float(np.abs(end[0] - end[1]).max()),
    }


def draw(data: Dataset) -> Picture:
    """Two blocks, lettered once: task, modes and loss above; strengths of the modes and paths of the items below."""
    figure: Any = style.new_figure(13.0, 13.6)
    for row, block in zip(data.row.values, figure.subfigures(2, 1, hspace=0.04), strict=True):
        part, upper = data.sel(row=row), row == data.row.values[0]
        block.suptitle(f"Living kingdom, then {_NAMES[str(row)].lower()}", fontweight="bold", fontsize=12)
        top, bottom = block.subfigures(2, 1)
        left, middle, right = top.subfigures(1, 3, width_ratios=[1.15, 0.95, 1.1])
        tree = left.subplots()
        draw_tree(tree, *_TREES[str(row)])
        task = _draw_task(middle, part)
        loss = _draw_loss(right.subplots(), part)
        strengths, *planes = bottom.subplots(1, 3, width_ratios=[1.15, 1, 1])
        _draw_strengths(strengths, part)
        reach = 1.15 * float(np.abs(data.place).max())
        for stage, plane in enumerate(planes):
            _draw_plane(plane, part.place.isel(stage=stage).values, reach)
        titles = (_NAMES[str(row)], "", "Loss", "Modes of the task", "MDS, first task", "MDS, second task")
        for panel, letter, title in zip((tree, task, loss, strengths, *planes), "CDEFGH", titles, strict=True):
            panel.set_title(f"{letter}  {title}" if upper else title)
    return figure


def _draw_task(figure: SubFigure, part: Dataset) -> Axes:
    """The modes of a task and what they make similar; returns the panel that carries the letter."""
    panels: dict[str, Axes] = figure.subplot_mosaic([list("UUSSVV"), list("IIIOOO")], height_ratios=[1, 1.3])
    draw_modes([panels[name] for name in "USV"], part.U, part.s, part.V)
    for key, name, title in (("I", "rsm_in", "items, VSVᵀ"), ("O", "rsm_out", "features, USUᵀ")):
        style.draw_matrix(panels[key], part[name].values)
        panels[key].set_aspect("equal")
        panels[key].set(xticks=[], yticks=[])
        panels[key].set_title(title, loc="center", weight="normal")
    first: Axes = panels["U"]
    return first


def _draw_loss(panel: Axes, part: Dataset) -> Axes:
    for stage in range(2):
        theory, run = (part.loss.sel(source=name).isel(stage=stage) for name in ("theory", "descent"))
        draw_over(panel, part.time.isel(stage=stage), run, theory, [style.COLOURS["blue"]])
    boundary, escape = float(part.time[1, 0]), float(part.escape.sel(source="theory"))
    panel.axvline(boundary, color="black", linewidth=0.9)
    if np.isfinite(escape):
        at = np.argmin(np.abs(part.time[1].values - boundary - escape))
        panel.plot(boundary + escape, part.loss.sel(source="descent")[1, at], marker="o", markersize=15,
                   markerfacecolor="none", markeredgecolor=style.COLOURS["green"], markeredgewidth=2.0,
                   linestyle="none", clip_on=False, zorder=5, label="predicted escape")  # fmt: skip
    panel.plot([], [], color=style.COLOURS["blue"], label="gradient descent")
    panel.plot([], [], **style.THEORY, label="exact")
    panel.set(xlabel=style.TIME, ylabel="loss of the task in training", ylim=0)
    if part.row == "colour":
        _draw_control(panel, part)
    else:
        panel.legend(loc="upper right")
    return panel


def _draw_control(panel: Axes, part: Dataset) -> None:
    """Median and quartiles of the control, on a logarithmic axis, where times to learn are seen."""
    low, median, high = np.quantile(part.control, [0.25, 0.5, 0.75], axis=0)
    time, grey = part.time.isel(stage=1), style.COLOURS["grey"]
    panel.fill_between(time, low, high, color=grey, alpha=0.25, linewidth=0, zorder=0)
    panel.plot(time, median, color=grey, linewidth=1.6, zorder=1)
    at = int(np.argmax(median < 0.2))
    words = "control: the same\nstrengths in\nrandom bases"
    panel.annotate(words, (float(time[at]), 0.2), (22, 20), textcoords="offset points", color=grey,
                   arrowprops={"arrowstyle": "-", "color": grey})  # fmt: skip
    learned = float(part.learned)
    panel.axhline(learned, **style.LIMIT)
    panel.annotate("learned", (0, learned), (3, 3), textcoords="offset points", color=grey, fontsize="small")
    panel.set(yscale="log", ylim=(learned / 8, 8))


def _draw_strengths(panel: Axes, part: Dataset) -> None:
    """Eight modes of the task in training, a colour per level of its tree."""
    colours = style.mode_colours(len(_LEVELS))
    for stage in range(2):
        theory, run = (part.strength.sel(source=name).isel(stage=stage).values for name in ("theory", "descent"))
        time = part.time.isel(stage=stage)
        for (level, modes), colour in zip(_LEVELS.items(), colours, strict=True):
            panel.plot(time, run[:, modes], color=colour)
            panel.plot([], [], color=colour, label=None if stage else level)
        panel.plot(time, theory, **style.THEORY)
    panel.axvline(float(part.time[1, 0]), color="black", linewidth=0.9)
    panel.set(xlabel=style.TIME, ylabel="uᵀWv in the task in training")
    panel.margins(x=0.01)
    panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _draw_plane(panel: Axes, places: Float[Array, "snapshot item axis"], reach: float) -> None:
    """A path per item, from a small dot to its name."""
    for item, name in enumerate(ITEMS):
        x, y = places[:, item].T
        panel.plot(x, y, color=_PAIRS[item // 2], linestyle="-" if item % 2 == 0 else (0, (4, 1.5)), linewidth=1.6)
        panel.plot(x[0], y[0], ".", color=_PAIRS[item // 2], markersize=4)
        panel.plot(x[-1], y[-1], "o" if item % 2 == 0 else "s", color=_PAIRS[item // 2], markersize=6)
        panel.annotate(name, (x[-1], y[-1]), xytext=(5, 4), textcoords="offset points", fontsize="small")
    panel.set(xlim=(-reach, reach), ylim=(-reach, reach), xticks=[], yticks=[], xlabel="MDS 1", ylabel="MDS 2")
    panel.set_aspect("equal")


FIGURE = Figure("braun2022/6c", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
