"""Braun et al. 2022, Fig. 5D,E: five tasks in turn; loss of each after each and its change, predicted and seen."""

from typing import Any

import numpy as np

from lazyrich import Network, continual
from lazyrich._progress import progress
from lazyrich._typing import Array, Float
from lazyrich.inits import zero_balanced
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.braun2022.figures.fig_5 import KINDS, NAMES, imbalance
from lazyrich.plot import style
from lazyrich.tasks import random_regression

TITLE = "Five tasks in turn: loss of each, and its change from stage to stage, predicted and seen"
ABOUT = (
    "A 15-18-21 network, linear, tanh or ReLU, learns five random regressions (50 samples, rate 0.1, 20 000 steps, "
    "scale 0.025). "
    "Each square is one task after one stage of training, or the change of its loss during that stage: red is "
    "forgotten, blue is learned. "
    "The upper half is known before training, the lower half is seen in it; they agree for the linear network alone, "
    "which is also the only one whose layers stay balanced."
)
CALLS = ("lr.continual", "lr.tasks.random_regression", "lr.inits.zero_balanced")
CHECKS = {
    "loss_error": Check(
        "largest difference of predicted and seen loss, linear network, of the mean loss", at_most=1e-3
    ),
    "change_error": Check("the same for the changes from stage to stage, of their mean size", at_most=1e-3),
    "excess": Check(
        "by how much tanh and ReLU network forget the task before, least mean over the predicted", at_least=2.5
    ),
    "imbalance_linear": Check("largest imbalance of the layers of the linear network", at_most=0.01),
    "imbalance_nonlinear": Check("least imbalance of tanh and ReLU network at the end", at_least=0.2),
}
QUICK = {"steps": 2500, "records": 5}


def compute(
    *, sizes: tuple[int, ...] = (15, 18, 21), samples: int = 50, tasks: int = 5, rate: float = 0.1, steps: int = 20_000,
    scale: float = 0.025, seed: int = 2, records: int = 11,
) -> Dataset:  # fmt: skip
    """Losses before and after each stage for three activations, their changes, and the imbalance all along."""
    generator = np.random.default_rng(seed)
    sequence = [random_regression(generator, d_in=sizes[0], d_out=sizes[-1], samples=samples) for _ in range(tasks)]
    start = zero_balanced(generator, sizes=sizes, scale=scale)
    times = rate * np.linspace(0, steps, records).round()
    losses, changes, balance = [], [], []
    with progress(len(KINDS), "figure 5d") as move_on:
        for kind in KINDS:
            run = continual(sequence, Network(start.weights, kind), times, rate=rate)
            after = (run.predicted_loss_matrix, run.loss_matrix)
            losses.append([np.vstack([run.initial_losses, matrix]) for matrix in after])
            changes.append([run.predicted_loss_changes, run.loss_changes])
            states = [zip(*part.weights, strict=True) for part in run.trajectories]
            balance.append([imbalance(weights) for part in states for weights in part])
            move_on(1)
    data = dataset(
        {
            "loss": (("activation", "source", "moment", "task"), np.array(losses)),  # before, after 1, after 2, …
            "change": (("activation", "source", "stage", "task"), np.array(changes)),
            "imbalance": (("activation", "time"), np.array(balance)),
            "boundary": ("stage", run.boundaries),
        },
        coords={"activation": list(KINDS), "source": ["theory", "descent"], "time": run.times},
    )
    return data.assign_attrs(_numbers(data))


def _numbers(data: Dataset) -> dict[str, float]:
    def error(name: str) -> float:
        predicted, seen = (data[name].sel(activation="linear", source=source) for source in ("theory", "descent"))
        return float(np.abs(predicted - seen).max() / np.abs(predicted).mean())

    nonlinear = data.sel(activation=["tanh", "relu"])
    means = np.diagonal(nonlinear.change, offset=-1, axis1=-2, axis2=-1).mean(
        axis=-1
    )  # of the task before, by this one
    return {
        "loss_error": error("loss"),
        "change_error": error("change"),
        "excess": float((means[:, 1] / means[:, 0]).min()),
        "imbalance_linear": float(data.imbalance.sel(activation="linear").max()),
        "imbalance_nonlinear": float(nonlinear.imbalance.isel(time=-1).min()),
    }


def draw(data: Dataset) -> Picture:
    """Losses above, their changes below, a column per activation; balance at the right."""
    figure: Any = style.new_figure(13.5, 7.0)
    left, right = figure.subfigures(1, 2, width_ratios=[2.4, 1])
    panels = left.subplots(2, len(KINDS), height_ratios=[6, 5])
    stages = range(1, 1 + data.sizes["stage"])
    rows = {
        "loss": ("D  Loss", ["before", *(f"after {i}" for i in stages)]),
        "change": ("E  Change", [f"by stage {i}" for i in stages]),
    }
    for row, (name, (title, moments)) in zip(panels, rows.items(), strict=True):
        for panel, kind in zip(row, KINDS, strict=True):
            predicted, seen = data[name].sel(activation=kind).values
            # a scale for each: what differs in a linear network is less than what the others forget
            bar = left.colorbar(_draw_halves(panel, predicted, seen), ax=panel, shrink=0.8)
            if name == "loss":
                bar.ax.set_ylim(bottom=0.0)
            panel.set_yticks(range(len(moments)), moments if kind == "linear" else [])
            panel.set_title(title if kind == "linear" else "")
            panel.set_title(NAMES[kind], loc="right", color=KINDS[kind])
    for panel in panels[-1]:
        panel.set_xlabel("task (upper half: predicted, lower half: seen)" if panel is panels[-1, 1] else "task")
    _draw_balance(right.subplots(), data)
    return figure


def _draw_halves(panel: Axes, above: Float[Array, "moment task"], below: Float[Array, "moment task"]) -> Any:
    """A matrix whose squares are cut in two: upper left and lower right."""
    image = style.draw_matrix(panel, above, float(np.abs([above, below]).max()))
    panel.set_aspect("equal")
    for (i, j), value in np.ndenumerate(below):
        corners = ([j - 0.5, j + 0.5, j + 0.5], [i + 0.5, i + 0.5, i - 0.5])
        panel.fill(*corners, color=image.cmap(image.norm(value)), linewidth=0)
        panel.plot([j - 0.5, j + 0.5], [i + 0.5, i - 0.5], color="white", linewidth=0.6)
    panel.set_xticks(range(above.shape[1]), [str(j + 1) for j in range(above.shape[1])])
    panel.tick_params(length=0)
    return image


def _draw_balance(panel: Axes, data: Dataset) -> None:
    for kind, colour in KINDS.items():
        panel.plot(data.time, data.imbalance.sel(activation=kind), color=colour, label=NAMES[kind])
    for boundary in data.boundary.values[:-1]:
        panel.axvline(boundary, color="black", linewidth=0.9)
    panel.set(xlabel=style.TIME, ylabel="imbalance of the layers", ylim=(0, None), title="Balance over the sequence")
    panel.margins(x=0.01)
    panel.legend(loc="center right")


FIGURE = Figure("braun2022/5d", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
