"""Braun et al. 2022, appendix D: how far the hidden layer ends from the task's structure, by the gain at the start."""

import numpy as np

from lazyrich import Network, Problem, Trajectory, descend, inits, solve
from lazyrich._progress import progress
from lazyrich._typing import Array, Float
from lazyrich.observables import input_gram, output_gram
from lazyrich.papers.base.figure import Axes, Check, DataArray, Dataset, Figure, Picture, dataset
from lazyrich.papers.braun2022.figures._shared import modes_of, similarities
from lazyrich.plot import style
from lazyrich.tasks import Task, semantic_hierarchy

TITLE = "Distance of the learned representations from the task's, by their initial gain"
ABOUT = (
    "The network of Fig. 3 learns the living kingdom from 100 Gaussian and 100 zero-balanced weights at each gain, the "
    "standard deviation of the weights; lines are medians and bands hold the middle 80 %. "
    "Gaussian initialisations end away from the task's structure in proportion to their gain squared; zero-balanced "
    "ones end with it at any gain, up to what the learning rate costs (thin: a rate ten times smaller). "
    "Half of them have a determinant of the wrong sign, though, and by theory (dotted) end in a saddle, from which the "
    "finite rate frees the larger ones."
)
CALLS = (
    "lr.tasks.semantic_hierarchy", "lr.inits.gaussian", "lr.inits.zero_balanced", "lr.solve", "lr.descend",
    "lr.observables.input_gram", "lr.observables.output_gram",
)  # fmt: skip
CHECKS = {
    "slope_error": Check(
        "slope of log distance over log gain of small Gaussian initialisations, its distance from 2", at_most=0.04
    ),
    "lazy_distance": Check("median distance at the largest gain, Gaussian initialisations", at_least=4.0),
    "rich_distance": Check(
        "largest distance by theory, zero-balanced initialisations that learn all modes", at_most=1e-5
    ),
    "rich_distance_descent": Check("the same by gradient descent", at_most=0.03),
    "rich_distance_finer": Check("the same with a rate 10 times smaller, a few initialisations", at_most=0.003),
    "deviation": Check("largest difference in distance from theory at the smallest gain, zero-balanced", at_most=2e-6),
}
QUICK = {"trials": 6, "gains": (0.001, 0.01, 0.1, 1.0)}

_FINER, _FEW = 10, 3  # how much smaller the rate of the check is, and how many starts it sees


def compute(
    *,
    gains: tuple[float, ...] = tuple(np.geomspace(0.001, 1.0, 10).round(6).tolist()),
    trials: int = 100,
    hidden: int = 14,
    rate: float = 0.05,
    steps: int = 2000,
    seed: int = 0,
) -> Dataset:
    """Relative distances of W1ᵀW1 and W2W2ᵀ from the task's own, after training, for each kind, gain and trial."""
    task, sizes = semantic_hierarchy(), (8, hidden, 8)
    seeds = np.random.SeedSequence(seed).generate_state(trials).tolist()  # a trial is one initialisation, at every gain
    shape = (len(gains), trials, 2)
    gaussian, balanced, theory, finer = (np.full(shape, np.nan) for _ in range(4))
    wrong = np.zeros(trials, dtype=int)
    with progress(len(gains) * trials, "initialisations") as move_on:
        for g, gain in enumerate(gains):
            for trial, of in enumerate(seeds):
                gaussian[g, trial] = _trained(task, inits.gaussian(of, sizes=sizes, scale=gain), rate, steps)
                network = inits.zero_balanced(of, sizes=sizes, scale=gain)
                problem = Problem(task, network)
                wrong[trial] = problem.facts.determinant_obstruction
                balanced[g, trial] = _trained(task, network, rate, steps)
                theory[g, trial] = _distances(solve(problem, [rate * steps]))
                if not wrong[trial] and np.sum(wrong[:trial] == 0) < _FEW:
                    finer[g, trial] = _trained(task, network, rate / _FINER, steps * _FINER)
                move_on(1)
    good, small = wrong == 0, np.array(gains) <= 0.1
    few = finer[np.isfinite(finer)]
    slopes = np.polyfit(np.log(gains)[small], np.log(gaussian[small].reshape(small.sum(), -1)), 1)[0]
    numbers = {
        "slope_error": np.abs(slopes - 2).max(),
        "lazy_distance": np.median(gaussian[np.argmax(gains)]),
        "rich_distance": theory[:, good].max(initial=0.0),
        "rich_distance_descent": balanced[:, good].max(initial=0.0),
        "rich_distance_finer": few.max(initial=0.0),
        "deviation": np.abs(balanced - theory)[np.argmin(gains)].max(),
    }
    names = ("gain", "trial", "side")
    return dataset(
        {
            "gaussian": (names, gaussian),
            "balanced": (names, balanced),
            "theory": (names, theory),
            "finer": (names, finer),
            "wrong": ("trial", wrong),
        },
        coords={"gain": list(gains), "side": ["input", "output"]},
        attrs={name: float(value) for name, value in numbers.items()},
    )


def _trained(task: Task, network: Network, rate: float, steps: int) -> Float[Array, "2"]:
    return _distances(descend(Problem(task, network), rate, steps, record="gram", at=[steps]))


def _distances(traj: Trajectory) -> Float[Array, "2"]:
    """‖W1ᵀW1 − VSVᵀ‖/‖VSVᵀ‖ and ‖W2W2ᵀ − USUᵀ‖/‖USUᵀ‖ at the last time, S being that of the target."""
    task = traj.problem.task
    own = [similarity / task.input_scale for similarity in similarities(modes_of(task))]
    grams = (input_gram(traj)[-1], output_gram(traj)[-1])
    return np.array([np.linalg.norm(G - R) / np.linalg.norm(R) for G, R in zip(grams, own, strict=True)])


def draw(data: Dataset) -> Picture:
    """A panel per side of the network, a line per kind of initialisation."""
    wrong = data.wrong.values.astype(bool)
    figure = style.new_figure(11.0, 4.2)
    panels = figure.subplots(1, 2, sharey=True)
    for panel, side, title in zip(panels, data.side.values, ("A  Inputs, W1ᵀW1", "B  Outputs, W2W2ᵀ"), strict=True):
        chosen = data.sel(side=side)
        _draw_band(panel, chosen.gaussian, "pink", f"Gaussian ({len(wrong)})")
        _draw_band(panel, chosen.balanced.isel(trial=~wrong), "blue", f"zero-balanced ({np.sum(~wrong)})")
        finer = chosen.finer.median("trial")  # of the few that have it
        panel.plot(data.gain, finer, color=style.COLOURS["blue"], linewidth=1.0, label="the same, rate / 10")
        if wrong.any():
            label = f"zero-balanced, sign of\ndet W2W1 wrong ({wrong.sum()})"
            _draw_band(panel, chosen.balanced.isel(trial=wrong), "orange", label)
            panel.plot(data.gain, chosen.theory.isel(trial=wrong).median("trial"), **style.THEORY)
        panel.set(xlabel="gain (standard deviation of the weights)", title=title, xscale="log", yscale="log")
    panels[0].set_ylabel("relative distance from the task's")
    panels[-1].plot([], [], **style.THEORY, label="exact, for these: a saddle")
    panels[-1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _draw_band(axes: Axes, distances: DataArray, colour: str, label: str) -> None:
    low, middle, high = np.quantile(distances.transpose("trial", "gain").values, (0.1, 0.5, 0.9), axis=0)
    axes.fill_between(distances.gain, low, high, color=style.COLOURS[colour], alpha=0.25, linewidth=0)
    axes.plot(distances.gain, middle, color=style.COLOURS[colour], label=label, marker="o", markersize=4)


FIGURE = Figure("braun2022/D", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
