"""Braun et al. 2022, Fig. 5A–C: learning one task after another, and what is forgotten, predicted before training."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from lazyrich import Network, continual, forgetting
from lazyrich._progress import progress
from lazyrich._typing import Array, Float
from lazyrich.inits import zero_balanced
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.braun2022.figures._shared import draw_over, shades
from lazyrich.plot import style
from lazyrich.tasks import random_regression

TITLE = "Continual learning: forgetting is known before training, for linear networks"
ABOUT = (
    "A: a 5-10-6 network learns four random regressions in turn (25 samples, rate 0.05, 6000 steps each, scale 1e-4); "
    "above its function, below the losses of all four, exact over gradient descent. "
    "B, C: 50 linear, 50 tanh and 50 ReLU networks with 2 to 30 inputs, hidden units and outputs learn two tasks (100 "
    "samples, rate 0.075, 5000 steps if linear and 50 000 if not). "
    "How much of the first is forgotten follows from the tasks alone if the network is linear; the others forget more, "
    "and lose the balance of their layers."
)
CALLS = ("lr.continual", "lr.forgetting", "lr.tasks.random_regression", "lr.inits.zero_balanced")
CHECKS = {
    "deviation": Check("A: largest difference in W2W1 between theory and descent, of the largest entry", at_most=0.04),
    "correlation": Check("B: predicted with observed forgetting, linear networks", at_least=0.999),
    "forgetting_error": Check(
        "B: largest difference of the two, of the mean forgetting, linear networks", at_most=0.01
    ),
    "excess": Check("B: observed over predicted forgetting, least median of tanh and ReLU networks", at_least=1.5),
    "imbalance_linear": Check("C: largest imbalance of a linear network after both tasks", at_most=0.015),
    "imbalance_nonlinear": Check("C: the same, least median of tanh and ReLU networks", at_least=0.2),
}
QUICK = {"networks": 4, "widths": (6, 6), "nonlinear_steps": 4000}

#: Activations in the paper's colours, or nearly so.
KINDS = {"linear": style.COLOURS["orange"], "tanh": style.COLOURS["blue"], "relu": style.COLOURS["green"]}
NAMES = {"linear": "linear", "tanh": "tanh", "relu": "ReLU"}
_STATES = ["before", "after task 1", "after task 2"]


def compute(
    *, rate: float = 0.05, steps: int = 6000, scale: float = 1e-4, tasks: int = 4, seed: int = 1, networks: int = 50,
    widths: tuple[int, ...] = (2, 30), samples: int = 100, pair_rate: float = 0.075, linear_steps: int = 5000,
    nonlinear_steps: int = 50_000, workers: int = 2,
) -> Dataset:  # fmt: skip
    """A sequence by theory and by descent; pairs of tasks, with the forgetting that was predicted and seen."""
    generator = np.random.default_rng(seed)
    sequence = [random_regression(generator, d_in=5, d_out=6, samples=25) for _ in range(tasks)]
    network = zero_balanced(generator, sizes=(5, 10, 6), scale=scale)
    times = rate * np.linspace(0, steps, 251).round()
    both = [continual(sequence, network, times), continual(sequence, network, times, rate=rate)]
    functions = [np.concatenate([np.asarray(part.function) for part in run.trajectories]) for run in both]
    paces = {"linear": linear_steps, "tanh": nonlinear_steps, "relu": nonlinear_steps}
    # compiled loops leave the interpreter free: threads share the cores
    jobs = [(kind, int(s)) for kind in KINDS for s in generator.integers(2**31, size=networks)]
    with ThreadPoolExecutor(workers) as pool, progress(sum(paces[kind] for kind, _ in jobs), "figure 5") as move_on:

        def job(kind: str, seed: int) -> Array:
            pair = _pair(seed, kind, widths, samples, pair_rate, paces[kind])
            move_on(paces[kind])
            return pair

        pairs = np.array(list(pool.map(lambda pair: job(*pair), jobs))).reshape(len(KINDS), networks, -1)
    data = dataset(
        {
            "function": (("source", "time", "output", "input"), np.array(functions)),
            "loss": (("source", "time", "task"), np.array([run.losses for run in both])),
            "forgetting": (("activation", "network", "source"), pairs[..., :2]),
            "imbalance": (("activation", "network", "state"), pairs[..., 2:]),
            "boundary": ("stage", both[0].boundaries),
        },
        coords={
            "source": ["theory", "descent"], "time": both[0].times, "training": ("time", both[0].training),
            "activation": list(KINDS), "state": _STATES,
        },
    )  # fmt: skip
    return data.assign_attrs(_numbers(data))


def _pair(
    seed: int, kind: str, widths: tuple[int, ...], samples: int, rate: float, steps: int
) -> Float[Array, " number"]:
    """Two random tasks, one after the other: forgetting predicted and seen, imbalance before, between and after."""
    generator = np.random.default_rng(seed)
    d_in, h, d_out = (int(width) for width in generator.integers(widths[0], widths[-1] + 1, size=3))
    h = max(h, min(d_in, d_out))  # no bottleneck: it could not learn either task
    tasks = [random_regression(generator, d_in=d_in, d_out=d_out, samples=samples) for _ in range(2)]
    start = zero_balanced(generator, sizes=(d_in, h, d_out), scale=0.5 / np.sqrt((d_in + h) / 2))
    run = continual(tasks, Network(start.weights, kind), rate * np.array([0, steps]), rate=rate)
    states = [imbalance(network.weights) for network in (start, *run.ends)]
    return np.array([forgetting(tasks)[1, 0], run.forgetting[1, 0], *states])


def imbalance(weights: Sequence[Array]) -> float:
    """‖W2ᵀW2 − W1W1ᵀ‖/(‖W1‖² + ‖W2‖²), for any activation: of a linear network the flow conserves W2ᵀW2 − W1W1ᵀ."""
    W1, W2 = weights
    return float(np.linalg.norm(W2.T @ W2 - W1 @ W1.T) / (np.sum(W1**2) + np.sum(W2**2)))


def _numbers(data: Dataset) -> dict[str, float]:
    theory, run = (data.function.sel(source=name) for name in ("theory", "descent"))
    predicted, seen = (data.forgetting.sel(source=name) for name in ("theory", "descent"))
    linear = (predicted.sel(activation="linear").values, seen.sel(activation="linear").values)
    end = data.imbalance.isel(state=-1)
    nonlinear = ["tanh", "relu"]
    return {
        "deviation": float(np.abs(theory - run).max() / np.abs(theory).max()),
        "correlation": float(np.corrcoef(*linear)[0, 1]),
        "forgetting_error": float(np.abs(linear[0] - linear[1]).max() / linear[0].mean()),
        "excess": float((seen / predicted).sel(activation=nonlinear).median("network").min()),
        "imbalance_linear": float(end.sel(activation="linear").max()),
        "imbalance_nonlinear": float(end.sel(activation=nonlinear).median("network").min()),
    }


def draw(data: Dataset) -> Picture:
    """A: function above losses. B: forgetting. C: imbalance."""
    figure: Any = style.new_figure(13.0, 6.4)
    left, right = figure.subfigures(1, 2, width_ratios=[1.5, 1])
    _draw_sequence(left.subplots(2, 1, sharex=True, height_ratios=[1.2, 1]), data)
    forgotten, balance = right.subplots(2, 1)
    _draw_forgetting(forgotten, data)
    _draw_imbalance(balance, data)
    return figure


def _draw_sequence(panels: list[Axes], data: Dataset) -> None:
    function, loss = panels
    tasks = data.sizes["task"]
    colours = style.mode_colours(tasks)
    for stage in range(tasks):
        part = data.isel(time=data.training.values == stage)
        theory, run = (part.function.sel(source=name).values for name in ("theory", "descent"))
        draw_over(function, part.time, run, theory, shades(run[0].size))
        for task in range(tasks):
            curve = part.loss.sel(source="descent").isel(task=task)
            own = {"linewidth": 2.6} if task == stage else {"linewidth": 1.4, "linestyle": (0, (4, 1.5))}
            loss.plot(part.time, curve, color=colours[task], **own)
        loss.plot(part.time, part.loss.sel(source="theory"), **style.THEORY | {"linewidth": 1.1})
    for panel in panels:
        for boundary in data.boundary.values[:-1]:
            panel.axvline(boundary, color="black", linewidth=0.9)
        panel.margins(x=0.01)
    for task, colour in enumerate(colours):
        loss.plot([], [], color=colour, label=f"task {task + 1}")
    loss.plot([], [], color="grey", label="in training", linewidth=2.6)
    loss.plot([], [], color="grey", label="not in training", linewidth=1.4, linestyle=(0, (4, 1.5)))
    loss.plot([], [], **style.THEORY, label="exact")
    function.set(title="A  Four tasks in turn", ylabel="entries of W2W1")
    loss.set(xlabel=style.TIME, ylabel="loss of each task")
    loss.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=tasks + 3, columnspacing=1.0)


def _draw_forgetting(panel: Axes, data: Dataset) -> None:
    for kind, colour in reversed(KINDS.items()):
        predicted, seen = (data.forgetting.sel(activation=kind, source=name) for name in ("theory", "descent"))
        panel.plot(predicted, seen, "o", color=colour, markersize=5, alpha=0.75, label=NAMES[kind])
    ends = np.array([float(data.forgetting.min()) * 0.8, float(data.forgetting.max()) * 1.25])
    panel.plot(ends, ends, **style.THEORY, label="predicted")
    ticks = [tick for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0) if ends[0] <= tick <= ends[1]]
    panel.set(xscale="log", yscale="log", xlabel="forgetting predicted from the tasks", ylabel="forgetting seen")
    panel.minorticks_off()
    panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.set_title("B  Catastrophic forgetting")
    panel.legend(loc="lower right")


def _draw_imbalance(panel: Axes, data: Dataset) -> None:
    for i, (kind, colour) in enumerate(KINDS.items()):
        values = data.imbalance.sel(activation=kind).values
        x = np.arange(len(_STATES)) + 0.12 * (i - 1)
        panel.plot(x, values.T, color=colour, linewidth=0.6, alpha=0.35)
        panel.plot(x, np.median(values, axis=0), "o-", color=colour, markersize=6, label=NAMES[kind])
    panel.set(ylabel="imbalance of the layers")
    panel.set_xticks(range(len(_STATES)), _STATES)
    panel.set_title("C  Balance")
    panel.legend(loc="upper left")


FIGURE = Figure("braun2022/5", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
