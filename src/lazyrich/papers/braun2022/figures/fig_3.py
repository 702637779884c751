"""Braun et al. 2022, Fig. 3: a hierarchy learned from three initialisations, rich and lazy, slow and fast."""

from typing import Any

import numpy as np

from lazyrich import Network, Problem, Trajectory, flow, inits, solve
from lazyrich._typing import Array, Float
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, SubFigure, dataset
from lazyrich.papers.braun2022.figures._shared import (
    draw_modes,
    draw_squares,
    draw_tree,
    modes_of,
    similarities,
    trained,
)
from lazyrich.plot import style
from lazyrich.tasks import Task, semantic_hierarchy

TITLE = "Rich and lazy learning of a hierarchy: what the hidden layer ends with, and how fast"
ABOUT = (
    "An 8-14-8 network learns the living kingdom (A, B) with rate 0.05 for 2000 steps, from small Gaussian, large "
    "Gaussian and large zero-balanced weights. "
    "The function it ends with is the same (lower left block), but large Gaussian weights keep a structure of their "
    "own in W1ᵀW1 and W2W2ᵀ, while large zero-balanced ones learn as fast and end with the task's. "
    "Theory (dotted) is exact for balanced initialisations; of the small one it takes the part that grows, half of the "
    "weights, and for the large Gaussian one, which no theorem covers, the flow is integrated (dashed)."
)
CALLS = (
    "lr.tasks.semantic_hierarchy", "lr.inits.gaussian", "lr.inits.zero_balanced", "lr.solve", "lr.flow", "lr.descend",
)  # fmt: skip
CHECKS = {
    "deviation": Check("largest difference in loss from theory, of the loss at the start", at_most=0.03),
    "deviation_finer": Check("the same with a rate 10 times smaller", at_most=0.003),
    "distance_small": Check("final QQᵀ of the small initialisation from the task's, relative", at_most=1e-7),
    "distance_balanced": Check("the same from large zero-balanced weights", at_most=0.004),
    "distance_large": Check("the same from large Gaussian weights", at_least=0.4),
}
QUICK: dict[str, Any] = {}  # the published size takes seconds

_STARTS = {  # panel, colour and line of the theory
    "small random": ("C", "green", style.THEORY),
    "large random": ("D", "pink", style.INTEGRATED),
    "large zero-balanced": ("E", "blue", style.THEORY),
}


def compute(
    *,
    hidden: int = 14,
    scales: tuple[float, ...] = (1e-4, 0.42, 0.44),
    rate: float = 0.05,
    steps: int = 2000,
    finer: int = 10,
    seed: int = 3,
) -> Dataset:
    """The task's modes; losses over time and QQᵀ in the end, from three initialisations.

    The seed is such that det W2W1 of the zero-balanced initialisation has the sign of the task's: half of all have
    the other, and end in a saddle.
    """
    task, sizes = semantic_hierarchy(), (8, hidden, 8)
    small, large = (inits.gaussian(seed, sizes=sizes, scale=scale) for scale in scales[:2])
    balanced = inits.zero_balanced(seed, sizes=sizes, scale=scales[2])
    stops = np.unique(np.linspace(0, steps, 501).round().astype(int))
    losses, grams, gaps = [], [], []
    for network in (small, large, balanced):
        problem = Problem(task, network)
        run, fine = trained(problem, rate, stops, finer=finer, record="gram")
        theory = np.asarray(_theory(task, network, small, run.times).loss)
        losses.append([theory, run.loss])
        grams.append(run.gram[-1])
        gaps.append([np.abs(run.loss - theory).max() / theory[0], np.abs(fine.loss - theory).max() / theory[0]])
    modes = modes_of(task)
    rsm_in, rsm_out = similarities(modes)
    target = np.block([[rsm_in, task.sigma_yx.T], [task.sigma_yx, rsm_out]]) / task.input_scale
    distances = [float(np.linalg.norm(gram - target) / np.linalg.norm(target)) for gram in grams]
    worst, worst_finer = np.max(gaps, axis=0)
    return dataset(
        {
            "loss": (("start", "source", "time"), np.array(losses)),
            "gram": (("start", "unit", "unit_"), np.array(grams)),
            "distance": ("start", distances),
            "sigma_yx": (("output", "input"), task.sigma_yx),
            "U": (("output", "mode"), modes.U),
            "s": ("mode", modes.s),
            "V": (("input", "mode"), modes.V),
            "rsm_in": (("input", "input_"), rsm_in),
            "rsm_out": (("output", "output_"), rsm_out),
        },
        coords={"start": list(_STARTS), "source": ["theory", "descent"], "time": rate * stops},
        attrs={
            "deviation": float(worst),
            "deviation_finer": float(worst_finer),
            "distance_small": distances[0],
            "distance_large": distances[1],
            "distance_balanced": distances[2],
        },
    )


def _theory(task: Task, network: Network, small: Network, times: Float[Array, " T"]) -> Trajectory:
    """Exact where a theorem applies, and for the small initialisation by its growing part; else integrated."""
    problem = Problem(task, _growing_part(task, network) if network is small else network)
    return flow(problem, times, record="loss") if problem.facts.method is None else solve(problem, times)


def _growing_part(task: Task, network: Network) -> Network:
    """The part of Q0 in the directions (v, u) of F that grow, with W1 = AVᵀ and W2 = UAᵀ: it is zero-balanced.

    The rest decays, and from small weights it is gone before anything is learned. Written for a square task of full
    rank.
    """
    U, _, V = task.modes
    W1, W2 = network.weights
    A = (W1 @ V + W2.T @ U) / 2
    return Network([A @ V.T, U @ A.T])


def draw(data: Dataset) -> Picture:
    """Task and its modes above, the three initialisations below."""
    figure = style.new_figure(13.0, 7.2)
    halves: Any = figure.subfigures(2, 1, height_ratios=(1, 1))
    top, bottom = halves
    left, right = top.subfigures(1, 2, width_ratios=(1, 1.15))
    tree = left.subplots()
    draw_tree(tree)
    tree.set_title("A  Semantic task")
    _draw_task(right, data)
    left, right = bottom.subfigures(1, 2, width_ratios=(2.1, 1))
    panels = left.subplots(1, data.sizes["start"])
    bound = float(np.abs(data.gram.isel(start=-1)).max())
    for panel, start in zip(panels, data.start.values, strict=True):
        letter, colour, _ = _STARTS[str(start)]
        image = style.draw_gram(panel, data.gram.sel(start=start).values, data.sizes["input"], bound)
        panel.set_title(f"{letter}  {str(start).capitalize()}", color=style.COLOURS[colour])
        panel.set_xlabel(f"{float(data.distance.sel(start=start)):.1%} from the task's")
    left.colorbar(image, ax=list(panels), shrink=0.75, extend="both", label="final QQᵀ")
    _draw_losses(right.subplots(), data)
    return figure


def _draw_task(figure: SubFigure, data: Dataset) -> None:
    panels: dict[str, Axes] = figure.subplot_mosaic(
        [["sigma_yx", "U", "S", "V"], ["rsm_in", "rsm_in", "rsm_out", "rsm_out"]]
    )
    draw_modes([panels[name] for name in "USV"], data.U, data.s, data.V)
    titles = {"sigma_yx": "B  Σyx  =", "rsm_in": "similarity of items, VSVᵀ", "rsm_out": "similarity of features, USUᵀ"}
    for name, title in titles.items():
        draw_squares(panels[name], data[name].values)
        if name != "sigma_yx":
            panels[name].set_title(title, loc="center", weight="normal")
    panels["sigma_yx"].set(title=titles["sigma_yx"], xlabel="items", ylabel="features")


def _draw_losses(axes: Axes, data: Dataset) -> None:
    early = axes.inset_axes((0.54, 0.17, 0.44, 0.3))
    for start in data.start.values:
        _, colour, line = _STARTS[str(start)]
        loss = data.loss.sel(start=start)
        for panel in (axes, early):
            panel.plot(data.time, loss.sel(source="descent"), color=style.COLOURS[colour], label=start)
            panel.plot(data.time, loss.sel(source="theory"), **line)
    axes.plot([], [], **style.THEORY, label="exact")
    axes.plot([], [], **style.INTEGRATED, label="flow, integrated")
    axes.legend(loc="upper right")
    axes.set(xlabel=style.TIME, ylabel="loss", title="F  Loss", ylim=0)
    axes.margins(x=0.01)
    early.set(xlim=(0, 15), ylim=0)


FIGURE = Figure("braun2022/3", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
