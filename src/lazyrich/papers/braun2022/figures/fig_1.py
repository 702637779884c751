"""Braun et al. 2022, Fig. 1: the outputs of one network on one task, from three initialisations."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from lazyrich import Problem, inits, solve
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.base.types import Colour, Look
from lazyrich.papers.braun2022.figures._shared import draw_over, trained
from lazyrich.plot import style
from lazyrich.tasks import Task, linear_teacher

TITLE = "Learning with prior knowledge: outputs from small, large and earlier learned weights"
ABOUT = (
    "A 5-10-2 linear network learns ten samples of a linear teacher by gradient descent (rate 0.1, 400 steps). "
    "It starts from small weights, from large ones, and from those that another task has left behind. "
    "The way to the same targets (circles) differs, and the exact solutions (dotted) follow it; what is left between "
    "them and the simulation is its step, and shrinks with it."
)
CALLS = ("lr.tasks.linear_teacher", "lr.inits.zero_balanced", "lr.solve", "lr.descend")
CHECKS = {
    "deviation": Check("largest difference of an output from theory, of the largest target", at_most=0.16),
    "deviation_finer": Check("the same with a rate 100 times smaller", at_most=0.002),
    "distance_from_target": Check("largest distance of theory from a target in the end, relative", at_most=1e-12),
}
QUICK: dict[str, Any] = {}  # the published size takes a second

_STARTS = {"small": "B  Small weights", "large": "C  Large weights", "earlier task": "D  Weights of an earlier task"}
_RECORDS = 401
_SHOWN = 5  # samples: more hide one another
_OUTPUTS = ("blue", "orange")


def compute(
    *,
    sizes: tuple[int, ...] = (5, 10, 2),
    samples: int = 10,
    teacher: float = 0.35,
    small: float = 0.01,
    large: float = 0.25,
    rate: float = 0.1,
    steps: int = 400,
    finer: int = 100,
    seed: int = 3,
) -> Dataset:
    """Outputs on all samples, by theory and by gradient descent, from three initialisations."""
    rng = np.random.default_rng(seed)
    task, earlier = (_taught(rng, sizes, samples, teacher) for _ in range(2))
    starts = [inits.zero_balanced(rng, sizes=sizes, scale=scale) for scale in (small, large)]
    # what the earlier task leaves behind after as much training, by theory
    starts.append(solve(Problem(earlier, starts[0]), [rate * steps]).network())
    stops = np.linspace(0, steps, min(steps + 1, _RECORDS)).round().astype(int)
    assert task.inputs is not None and task.targets is not None
    outputs, gaps = [], []
    for network in starts:
        problem = Problem(task, network)
        runs = trained(problem, rate, stops, finer=finer, record="function")
        exact, run, fine = ((traj.function @ task.inputs.T) for traj in (solve(problem, runs[0].times), *runs))
        outputs.append([exact, run])
        gaps.append([np.abs(exact - run).max(), np.abs(exact - fine).max(), np.abs(exact[-1] - task.targets.T).max()])
    names = ("start", "source", "time", "output", "sample")
    numbers = np.max(gaps, axis=0) / np.abs(task.targets).max()
    return dataset(
        {
            "outputs": (names, np.array(outputs)),
            "targets": (names[3:], task.targets.T),
            "sizes": ("layer", list(sizes)),
        },
        coords={"start": list(_STARTS), "source": ["theory", "descent"], "time": rate * stops},
        attrs=dict(zip(CHECKS, map(float, numbers), strict=True)),
    )


def _taught(rng: np.random.Generator, sizes: tuple[int, ...], samples: int, scale: float) -> Task:
    return linear_teacher(rng, inits.zero_balanced(rng, sizes=sizes, scale=scale).function, samples=samples)


def draw(data: Dataset) -> Picture:
    """The network, and a panel per initialisation; a few samples, until they have come to rest."""
    colours = [style.COLOURS[_OUTPUTS[i % len(_OUTPUTS)]] for i in range(data.sizes["output"])]
    data = data.isel(sample=slice(_SHOWN))
    targets, circles = data.targets.values, style.MARK | {"markersize": 5}
    moving = (
        np.abs(data.outputs - data.targets).max(["start", "source", "output", "sample"]) > 0.01 * np.abs(targets).max()
    )
    end = min(1.25 * float(data.time[moving].max()), float(data.time[-1]))
    figure = style.new_figure(12.6, 3.5)
    schema, *panels = figure.subplots(1, 1 + data.sizes["start"], width_ratios=(0.75, 1, 1, 1))
    _draw_network(schema, data["sizes"].values.tolist(), colours)
    for panel, start in zip(panels, data.start.values, strict=True):
        curves = data.outputs.sel(start=start)
        shades = [colour for colour in colours for _ in range(data.sizes["sample"])]
        draw_over(panel, data.time, curves.sel(source="descent"), curves.sel(source="theory"), shades)
        panel.plot(np.full(targets.size, end), targets.ravel(), **circles, clip_on=False)
        panel.set(xlabel=style.TIME, title=_STARTS[str(start)], xlim=(-0.01 * end, end))
        panel.sharey(panels[0])
    panels[0].set_ylabel(f"network outputs ŷ, {data.sizes['sample']} samples")
    for i, colour in enumerate(colours):
        panels[-1].plot([], [], color=colour, label=f"output {i + 1}")
    panels[-1].plot([], [], **style.THEORY, label="exact")
    panels[-1].plot([], [], **circles, label="targets")
    figure.legend(loc="outside lower center", ncols=len(colours) + 2)
    return figure


def _draw_network(axes: Axes, sizes: list[int], colours: Sequence[Colour]) -> None:
    """Units as circles, inputs at the bottom, joined layer by layer."""
    places = [np.arange(width) - (width - 1) / 2 for width in sizes]
    for layer, (lower, upper) in enumerate(pairwise(places)):
        for x in lower:
            for z in upper:
                axes.plot([x, z], [layer, layer + 1], color="#C8C8C8", linewidth=0.6, zorder=1)
    for layer, (xs, name) in enumerate(zip(places, ("inputs x", "hidden units", "outputs ŷ"), strict=True)):
        shades = colours if layer == len(sizes) - 1 else [style.COLOURS["grey"]] * len(xs)
        axes.scatter(xs, np.full(len(xs), layer), s=55, color=shades, zorder=2)
        place: Look = {"xytext": (0, 9 if layer else -18), "textcoords": "offset points", "ha": "center", "zorder": 3}
        axes.annotate(name, (0, layer), bbox={"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none"}, **place)
    for layer, name in enumerate(("W1", "W2")):
        axes.text(0.98, (layer + 0.5) / 2.6 + 0.12, name, transform=axes.transAxes, ha="right")
    axes.set(xlim=(-max(sizes) / 2 - 0.3, max(sizes) / 2 + 0.3), ylim=(-0.5, len(sizes) - 0.6), title="A  Network")
    axes.set_axis_off()


FIGURE = Figure("braun2022/1", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
