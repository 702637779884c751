"""Dominé et al. 2025: funnel, square and inverted funnel networks, and the delayed rich regime."""

import numpy as np

from lazyrich import Problem, descend, solve
from lazyrich._progress import progress
from lazyrich._typing import Array
from lazyrich.inits import lambda_balanced
from lazyrich.landscape import fate, predict_regime
from lazyrich.observables import kernel_distance
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.base.steps import spread_steps
from lazyrich.papers.domine2025.figures._shared import signed, task_of_strengths
from lazyrich.plot import style

TITLE = "Architecture and balance: lazy, rich and delayed rich"
ABOUT = (
    "A funnel (8-4-4), a square (4-4-4) and an inverted funnel (4-4-8) learn four modes of strength 1 to 2 from "
    "λ-balanced initialisations, with λ from −30 to 30 and ten initialisations each; exact curves (dotted) lie over "
    "gradient descent. "
    "Where the large layer sees all inputs (λ < 0) or reaches all outputs (λ > 0), the network is lazy; where it does "
    "not, the kernel rests at first and turns late. "
    "The strips compare the regime predicted from the initialisation alone with the one found along the exact solution."
)
CALLS = (
    "lr.inits.lambda_balanced",
    "lr.solve",
    "lr.descend",
    "lr.fate",
    "lr.predict_regime",
    "lr.observables.kernel_distance",
)
CHECKS = {
    "deviation": Check("largest difference in kernel distance between theory and descent", at_most=0.005),
    "agreement": Check("share of initialisations whose regime is the predicted one", at_least=0.94),
    "lazy_distance": Check(
        "largest mean kernel distance at |λ| of 10 or more, where lazy is predicted", at_most=0.0005
    ),
    "delayed_distance": Check("least mean kernel distance at |λ| of 10 or more, where delayed rich is", at_least=0.3),
}
QUICK = {"sweep": 5, "seeds": 2, "rate": 0.01, "shown": (-10.0, 0.0, 10.0), "horizon": 60.0}

_SIZES = {"funnel": (8, 4, 4), "square": (4, 4, 4), "inverted funnel": (4, 4, 8)}
_STRENGTHS = np.array([2.0, 1.6, 1.3, 1.0])
_REGIMES = {"lazy": "blue", "rich": "orange", "delayed rich": "pink"}
_RECORDS = 160
_NEAR = 0.1


def compute(
    *,
    shown: tuple[float, ...] = (-10.0, -1.0, 0.0, 1.0, 10.0),
    reach: float = 30.0,
    sweep: int = 41,
    seeds: int = 10,
    scale: float = 0.05,
    horizon: float = 200.0,
    rate: float = 0.005,
) -> Dataset:
    """Kernel distance over time for some λ; at the end, with predicted and found regime, for many."""
    at = spread_steps(round(horizon / rate), _RECORDS)
    at = at[at * rate >= 0.02]
    grid = _NEAR * np.sinh(np.linspace(-1, 1, sweep) * np.arcsinh(reach / _NEAR))  # dense about 0
    kernel = np.empty((len(_SIZES), len(shown), 2, len(at)))
    final, regimes = np.empty((len(_SIZES), sweep, seeds)), np.empty((2, len(_SIZES), sweep, seeds), dtype=int)
    names = list(_REGIMES)
    with progress(len(_SIZES) * (len(shown) + sweep), "balances") as move_on:
        for i, sizes in enumerate(_SIZES.values()):
            for j, lam in enumerate(shown):
                problem = _problem(sizes, lam, scale, seed=0)
                run = descend(problem, rate, int(at[-1]), record="gram", at=[0, *at])
                kernel[i, j] = [kernel_distance(traj)[1:] for traj in (solve(problem, run.times), run)]
                move_on(1)
            for j, lam in enumerate(grid):
                for seed in range(seeds):
                    problem = _problem(sizes, lam, scale, seed)
                    known = fate(problem).regime
                    final[i, j, seed] = known.kernel_distance
                    regimes[:, i, j, seed] = names.index(predict_regime(problem).name), names.index(known.name)
                move_on(1)
    mean, large = final.mean(axis=2), np.abs(grid) >= 10
    likely = _most_frequent(regimes)
    return dataset(
        {
            "kernel": (("architecture", "lam", "source", "time"), kernel),
            "final": (("architecture", "balance", "seed"), final),
            "regime": (("told", "architecture", "balance"), likely),
        },
        {
            "architecture": list(_SIZES),
            "lam": list(shown),
            "source": ["theory", "descent"],
            "time": rate * at,
            "balance": grid,
            "told": ["predicted", "found"],
        },
        {
            "deviation": float(np.abs(kernel[:, :, 0] - kernel[:, :, 1]).max()),
            "agreement": float(np.mean(regimes[0] == regimes[1])),
            "lazy_distance": float(mean[(likely[0] == names.index("lazy")) & large].max()),
            "delayed_distance": float(mean[(likely[0] == names.index("delayed rich")) & large].min()),
        },
    )


def _problem(sizes: tuple[int, int, int], lam: float, scale: float, seed: int) -> Problem:
    task = task_of_strengths(seed, sizes[0], sizes[2], _STRENGTHS)
    return Problem(task, lambda_balanced(seed, sizes=sizes, lam=lam, scale=scale))


def _most_frequent(regimes: Array) -> Array:
    counts = np.stack([(regimes == k).sum(axis=-1) for k in range(len(_REGIMES))])
    return counts.argmax(axis=0)


def draw(data: Dataset) -> Picture:
    """A column per architecture: kernel distance over time, at the end against λ, and the regimes below."""
    figure = style.new_figure(12.0, 7.4)
    panels = figure.subplots(3, len(data.architecture), height_ratios=(3.0, 3.0, 0.7), sharey="row")
    for column, name in zip(panels.T, data.architecture.values, strict=True):
        part, first = data.sel(architecture=name), name == data.architecture.values[0]
        _draw_over_time(column[0], part)
        title = f"{name}, {'-'.join(map(str, _SIZES[str(name)]))}"
        column[0].set_title(f"{'A  ' * first}{title[0].upper()}{title[1:]}")
        mean, spread = part.final.mean("seed"), part.final.std("seed")
        column[1].plot(data.balance, mean, color="black")
        column[1].fill_between(data.balance, mean - spread, mean + spread, color="black", alpha=0.15, linewidth=0)
        column[1].set_title("B  At the end" if first else "")
        _draw_regimes(column[2], part)
        column[2].set_title("C  Regime" if first else "")
        if first:
            column[0].set_ylabel("kernel distance S(0, t)")
            column[1].set_ylabel("kernel distance S(0, ∞)")
        for panel in column[1:]:
            panel.set_xscale("symlog", linthresh=_NEAR, linscale=0.4)
            panel.set_xlim(data.balance[0], data.balance[-1])
            panel.set_xticks([-10, -1, -0.1, 0.1, 1, 10], ["−10", "−1", "−0.1", "0.1", "1", "10"])
        column[2].set_xlabel("balance λ")
    panels[0, -1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    for regime, colour in _REGIMES.items():
        panels[2, -1].plot([], [], color=style.COLOURS[colour], marker="s", linestyle="none", label=regime)
    panels[2, -1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _draw_over_time(panel: Axes, part: Dataset) -> None:
    for lam, colour in zip(part.lam.values, style.diverging_colours(part.lam.values), strict=True):
        curves = part.kernel.sel(lam=lam)
        panel.plot(part.time, curves.sel(source="descent"), color=colour, label=f"λ = {signed(lam)}")
        panel.plot(part.time, curves.sel(source="theory"), **style.THEORY)
    panel.plot([], [], **style.THEORY, label="exact")
    panel.set(xscale="log", xlabel=style.TIME)


def _draw_regimes(panel: Axes, part: Dataset) -> None:
    """Two strips, a box for each λ of the sweep."""
    balance = part.balance.values
    edges = np.concatenate([balance[:1], (balance[1:] + balance[:-1]) / 2, balance[-1:]])
    for row, told in enumerate(part.told.values):
        colours = [style.COLOURS[list(_REGIMES.values())[int(k)]] for k in part.regime.sel(told=told)]
        panel.barh([1 - row] * len(balance), np.diff(edges), left=edges[:-1], height=0.9, color=colours)
    panel.set_yticks([1, 0], list(part.told.values))
    panel.grid(False)


FIGURE = Figure("domine2025/architectures", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
