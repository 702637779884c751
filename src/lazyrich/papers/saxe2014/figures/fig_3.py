"""Saxe et al. 2014, Fig. 3 (Fig. 1 of the post): modes of a tree of items, in theory and from random weights."""

import numpy as np

from lazyrich import Problem, descend, solve
from lazyrich._progress import progress
from lazyrich.inits import aligned
from lazyrich.landscape import plateau_times
from lazyrich.observables import half_times, mode_strengths
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.base.types import Look
from lazyrich.papers.saxe2014.figures._shared import response_strengths, small_start, tree
from lazyrich.plot import style

TITLE = "Modes of a semantic tree: theory, a linear network and a tanh network"
ABOUT = (
    "A network with 32 hidden units learns 1000 features of 32 items, which flip with probability 0.1 along a "
    "five-level binary tree; all start at strength 1e-6 and descend at rate 0.5e-3. "
    "A mode is a split of the tree: mode 1 is what all items share, mode 2 the first split, modes 3 and 4 the two of "
    "the second, and so on down to the leaves. "
    "The logistic curve of each mode (dotted) is exact for a decoupled initialisation, and a linear and a tanh network "
    "from small random weights follow it. "
    "They come late, the more so the weaker the mode: stronger modes have taken a part of the hidden layer, and tanh "
    "saturates."
)
CALLS = (
    "lr.tasks.binary_tree",
    "lr.inits.aligned",
    "lr.inits.gaussian",
    "lr.solve",
    "lr.descend",
    "lr.observables.half_times",
    "lr.landscape.plateau_times",
)
CHECKS = {
    "first_delay": Check("mean delay of mode 1 of the linear network against theory, relative", at_most=0.05),
    "prediction_error": Check(
        "half times of the linear network against those predicted from its weights, mean relative difference",
        at_most=0.03,
    ),
    "tanh_order": Check("rank correlation of the tanh network's half times with theory", at_least=0.97),
}
QUICK = {"levels": 3, "features": 100, "hidden": 8, "modes": (1, 2, 3, 5, 8), "simulations": 4}

_NETWORKS = {"linear": "blue", "tanh": "green"}
_RECORDS = 250
_LATEST = 2.5  # half times of the slowest mode in theory, by which the networks have learned it too


def compute(
    *,
    levels: int = 5,
    features: int = 1000,
    flip: float = 0.1,
    hidden: int = 32,
    u0: float = 1e-6,
    rate: float = 0.5e-3,
    modes: tuple[int, ...] = (1, 2, 3, 5, 12, 18, 31),
    simulations: int = 100,
    seed: int = 0,
) -> Dataset:
    """Strengths of the chosen modes over training, and the delay of every mode in each simulation."""
    task = tree(seed, levels, features, flip)
    turned = small_start(0, task, hidden=hidden, u0=u0).task
    decoupled = Problem(turned, aligned(0, turned, hidden=hidden, strengths=u0))
    expected = plateau_times(decoupled).times
    steps = int(_LATEST * expected.max() / rate)
    at = np.linspace(0, steps, _RECORDS + 1).round().astype(int)
    curves = [mode_strengths(solve(decoupled, rate * at))]
    halves, errors = np.empty((len(_NETWORKS), simulations, len(expected))), []
    with progress(len(_NETWORKS) * simulations, "simulations") as move_on:
        for i, activation in enumerate(_NETWORKS):
            for j in range(simulations):
                problem = small_start(
                    np.random.default_rng((seed, j)), task, hidden=hidden, u0=u0, activation=activation
                )
                run = descend(problem, rate, steps, at=at)
                strengths = response_strengths(run)
                halves[i, j] = half_times(run.times, strengths, turned.modes.s)
                if j == 0:
                    curves.append(strengths)
                if activation == "linear":
                    errors.append(np.abs(halves[i, j] / plateau_times(problem).times - 1))
                move_on(1)
    shown = np.array(modes) - 1
    delay = halves / expected - 1
    last = halves[1].mean(axis=0)
    return dataset(
        {
            "strength": (("source", "mode", "step"), np.array(curves)[:, :, shown].transpose(0, 2, 1)),
            "limit": ("mode", turned.modes.s[shown]),
            "delay": (("network", "simulation", "any_mode"), delay),
        },
        {
            "source": ["theory", *_NETWORKS],
            "network": list(_NETWORKS),
            "mode": list(modes),
            "any_mode": 1 + np.arange(len(expected)),
            "step": at,
        },
        {
            "first_delay": float(abs(delay[0, :, 0].mean())),
            "prediction_error": float(np.mean(errors)),
            "tanh_order": float(np.corrcoef(np.argsort(np.argsort(last)), np.argsort(np.argsort(expected)))[0, 1]),
        },
    )


def draw(data: Dataset) -> Picture:
    """The curves, and beside them the delay of every mode."""
    figure = style.new_figure(11.0, 4.2)
    curves, delays = figure.subplots(1, 2, width_ratios=(1.35, 1.0))
    _draw_curves(curves, data)
    _draw_delays(delays, data)
    return figure


def _draw_curves(panel: Axes, data: Dataset) -> None:
    for source, colour in _NETWORKS.items():
        curves = data.strength.sel(source=source)
        panel.plot(data.step, curves.T, color=style.COLOURS[colour], linewidth=1.8)
        panel.plot([], [], color=style.COLOURS[colour], label=f"{source} network, random weights")
    panel.plot(data.step, data.strength.sel(source="theory").T, **style.THEORY)
    panel.plot([], [], **style.THEORY, label="theory (logistic curves)")
    beside: Look = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "center"}
    for mode, limit in zip(data.mode.values, data.limit.values, strict=True):
        panel.annotate(f"{mode}: {_split(int(mode))}", (1.0, limit), (4, 0), **beside)
    end = data.step.values[-1] * 0.72
    panel.set(xlabel="t (epochs)", ylabel="strength of the mode", xlim=(0, end), title="A  Modes over training")
    panel.annotate("mode: split of the tree", (1.0, 1.02), xycoords="axes fraction", va="bottom", ha="center")
    panel.legend(loc="upper right", bbox_to_anchor=(1.0, 0.93))


def _split(mode: int) -> str:
    """The split of the tree that a mode tells of: one mode for the first, two for the second, and so on."""
    return f"split {int(np.ceil(np.log2(mode)))}" if mode > 1 else "all items"


def _draw_delays(panel: Axes, data: Dataset) -> None:
    for shift, (network, colour) in zip((-0.15, 0.15), _NETWORKS.items(), strict=True):
        delay = data.delay.sel(network=network)
        panel.errorbar(
            data.any_mode + shift,
            delay.mean("simulation"),
            delay.std("simulation"),
            color=style.COLOURS[colour],
            linestyle="none",
            marker="o",
            markersize=3.5,
            elinewidth=1.2,
            label=f"{network} network",
        )
    panel.axhline(0.0, color="black", linewidth=1.0)
    words = f"mean ± s.d. of {data.sizes['simulation']} runs"
    panel.set(xlabel="mode", ylabel="delay of the half time, relative to theory", title=f"B  Delay, {words}")
    panel.legend(loc="upper left")


FIGURE = Figure("saxe2014/3", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
