"""Braun et al. 2022, Fig. 6A,B: reversal learning in a deep and in a shallow network, and when the deep one escapes."""

import numpy as np

from lazyrich import Problem, Trajectory, continual, descend, solve
from lazyrich._typing import Array, Float
from lazyrich.inits import gaussian, prior_knowledge, zero_balanced
from lazyrich.observables.modes import mode_strengths
from lazyrich.papers.base.figure import Axes, Check, DataArray, Dataset, Figure, Picture, dataset
from lazyrich.papers.braun2022.figures._shared import draw_over, shades
from lazyrich.plot import style
from lazyrich.tasks import random_regression, reversal

TITLE = "Reversal learning: theory rests on the saddle, and simulation escapes when predicted"
ABOUT = (
    "A 4-6-4 network learns a random regression, then the same one with all labels reversed (rate 0.05, 2000 and 8000 "
    "steps, scale 0.25); a shallow network does so in 400 and 400. "
    "What has been learned completely lies on the separatrix of a saddle: the exact solution of the reversal ends at "
    "zero, while in a simulation each mode escapes (1/s) ln(√s/p) after the reversal, where p is how far "
    "the weights are off the separatrix. "
    "In the published setting p is the imbalance that steps of finite size have left, and the times are predicted to 6 "
    "to 13 % (eight seeds); rounding alone takes about 36/s."
)
CALLS = ("lr.solve", "lr.descend", "lr.continual", "lr.tasks.reversal", "lr.inits.prior_knowledge")
CHECKS = {
    "deviation": Check(
        "largest difference of theory and descent in the first task, of the largest entry", at_most=0.03
    ),
    "theory_left": Check("largest entry of the exact function at the end of the reversal", at_most=1e-12),
    "escape_error": Check("largest relative error of a predicted escape, of modes that escape in time", at_most=0.09),
    "pushed_error": Check("the same for initialisations pushed off the separatrix by known amounts", at_most=0.025),
    "rounding": Check("escape by rounding alone, in units of 36/s, largest difference from 1", at_most=0.08),
    "shallow": Check("largest difference between theory and descent of the shallow network", at_most=0.03),
}
QUICK = {"perturbations": (1e-10, 1e-6)}


def compute(
    *,
    sizes: tuple[int, ...] = (4, 6, 4), samples: int = 16, rate: float = 0.05, steps: tuple[int, ...] = (2000, 8000),
    scale: float = 0.25, shallow_steps: tuple[int, ...] = (400, 400), shallow_scale: float = 0.3, seed: int = 5,
    perturbations: tuple[float, ...] = (1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-3),
) -> Dataset:  # fmt: skip
    """Both networks before and after the reversal, and escape times: predicted from its initialisation, and seen."""
    generator = np.random.default_rng(seed)
    task = random_regression(generator, d_in=sizes[0], d_out=sizes[-1], samples=samples)
    tasks, s = [task, reversal(task)], task.modes.s
    spans = [rate * np.linspace(0, count, 401).round() for count in steps]
    network = zero_balanced(generator, sizes=sizes, scale=scale)
    run = continual(tasks, network, spans, rate=rate)
    learned = Problem(tasks[1], prior_knowledge(generator, task, hidden=sizes[1]))
    theory = [solve(Problem(task, network), spans[0]).function, solve(learned, spans[1]).function]
    pushed = [escapes(_pushed(learned, p, rate, steps[1])) for p in perturbations]
    rounding = escapes(descend(learned, rate, steps[1], at=np.arange(0, steps[1] + 1, 10)))
    flat = continual(
        tasks,
        gaussian(generator, sizes=(sizes[0], sizes[-1]), scale=shallow_scale),
        [rate * np.linspace(0, count, 101).round() for count in shallow_steps],
        rate=rate,
    )
    exact = continual(tasks, flat.trajectories[0].problem.network, [part.times for part in flat.trajectories])
    function = ("source", "time", "output", "input")
    data = dataset(
        {
            "deep": (function, np.array([np.concatenate(theory), _function(run.trajectories)])),
            "shallow": ([name.replace("time", "shallow_time") for name in function],
                        np.array([_function(exact.trajectories), _function(flat.trajectories)])),
            "modes": (("stage_time", "mode"), -mode_strengths(run.trajectories[1])),
            "escape": (("source", "mode"), escapes(run.trajectories[1])),
            "pushed": (("perturbation", "source", "mode"), np.array(pushed)),
            "rounding": ("mode", rounding[1]),
            "s": ("mode", s),
        },
        coords={
            "source": ["theory", "descent"], "time": run.times, "training": ("time", run.training),
             "shallow_time": flat.times, "stage_time": spans[1],
            "perturbation": list(perturbations), "boundary": run.boundaries[0],
            "shallow_boundary": flat.boundaries[0],
        },
    )  # fmt: skip
    return data.assign_attrs(_numbers(data))


def _function(trajectories: tuple[Trajectory, ...]) -> Float[Array, "T out in"]:
    return np.concatenate([np.asarray(part.function) for part in trajectories])


def _pushed(learned: Problem, p: float, rate: float, steps: int) -> Trajectory:
    """Descent from a network that has learned the first task, and is moved off the separatrix by p of its size."""
    off = solve(learned, [0.0], on_separatrix="perturb", perturbation=p).network(0)
    return descend(Problem(learned.task, off), rate, steps, at=np.arange(0, steps + 1, 10))


def escapes(run: Trajectory) -> Float[Array, "source mode"]:
    """When each mode is half learned: predicted from the initialisation of the run, and seen (nan: not in this run).

    Rows p of OᵀQ with eigenvalue +s grow as e^{st}, until |p|² = 2s; and by √2 more while what was learned before
    decays, when twice as much is amiss. What counts is the part of a row that the rows of stronger modes do not have,
    the distance from the separatrix of that mode (theory: section 2).
    """
    U, s, V = run.problem.task.modes
    W1, W2 = run.problem.network.weights
    p = np.abs(np.diagonal(np.linalg.qr((W1 @ V + W2.T @ U) / np.sqrt(2), mode="r")))
    goal = s / run.problem.task.input_scale
    predicted = np.log(np.sqrt(goal) / np.where(p > 0, p, np.nan)) / s
    a = mode_strengths(run)
    after = np.argmax(a > goal / 2, axis=0)
    return np.array([predicted, np.where(a[-1] > goal / 2, run.times[after], np.nan)])


def _numbers(data: Dataset) -> dict[str, float]:
    def gap(part: DataArray) -> DataArray:
        return np.abs(part.sel(source="theory") - part.sel(source="descent"))

    deep = data.deep
    return {
        "deviation": float(gap(deep.isel(time=data.training.values == 0)).max() / np.abs(deep).max()),
        "theory_left": float(np.abs(deep.sel(source="theory").isel(time=-1)).max()),
        "escape_error": float((gap(data.escape) / data.escape.sel(source="descent")).max()),
        "pushed_error": float((gap(data.pushed) / data.pushed.sel(source="descent")).max()),
        "rounding": float(np.abs(data.rounding * data.s / 36 - 1).max()),
        "shallow": float(gap(data.shallow).max() / np.abs(data.shallow).max()),
    }


def draw(data: Dataset) -> Picture:
    """The deep network, its escapes and what sets their time; the shallow one."""
    figure = style.new_figure(11.5, 7.2)
    panels = figure.subplots(2, 2)
    _draw_function(panels[0, 0], data.time, data.deep, float(data.boundary))
    panels[0, 0].set_title("A  Deep network")
    middle = float(data.time.mean())
    panels[0, 0].annotate(
        "exact: at rest on the saddle", (middle, 0.0), xytext=(middle, 0.8),
        textcoords=panels[0, 0].get_xaxis_transform(), ha="center", arrowprops={"arrowstyle": "->"},
    )  # fmt: skip
    _draw_function(panels[0, 1], data.shallow_time, data.shallow, float(data.shallow_boundary))
    panels[0, 1].set_title("B  Shallow network")
    _draw_modes(panels[1, 0], data)
    _draw_pushed(panels[1, 1], data)
    panels[1, 1].legend(loc="upper right", fontsize="small")
    return figure


def _draw_function(panel: Axes, time: DataArray, function: DataArray, boundary: float) -> None:
    theory, run = (function.sel(source=name).values for name in ("theory", "descent"))
    colours = shades(run[0].size)
    draw_over(panel, time, run, theory, colours)
    panel.plot([], [], color=colours[len(colours) // 2], label="gradient descent")
    panel.plot([], [], **style.THEORY, label="exact")
    panel.axvline(boundary, color="black", linewidth=0.9)
    panel.text(boundary, 1.0, " labels reversed", transform=panel.get_xaxis_transform(), va="top")
    panel.set(xlabel=style.TIME, ylabel="entries of W2W1")
    panel.legend(loc="lower right")


def _draw_modes(panel: Axes, data: Dataset) -> None:
    """Modes after the reversal, with the predicted times of their escapes."""
    shown = data.stage_time <= 1.6 * np.nanmax(data.escape)
    for k, colour in enumerate(style.mode_colours(len(data.s))):
        panel.plot(data.stage_time[shown], data.modes[shown, k], color=colour, label=f"s = {float(data.s[k]):.3f}")
        panel.axvline(float(data.escape.sel(source="theory")[k]), color=colour, linestyle=(0, (5, 2)), linewidth=1.3)
        for end in (-float(data.s[k]), float(data.s[k])):
            panel.plot([0, 0.02], [end, end], transform=panel.get_yaxis_transform(), color=colour, linewidth=1.0)
    panel.plot([], [], color="black", linestyle=(0, (5, 2)), linewidth=1.3, label="predicted")
    panel.set_title("A′  Escape of each mode")
    panel.set(xlabel="time since the reversal", ylabel="mode strength uᵀWv")
    panel.legend(loc="upper right")
    panel.margins(x=0.01)


def _draw_pushed(panel: Axes, data: Dataset) -> None:
    """Escape times against the push, and by rounding alone at the left end."""
    rounding = float(np.finfo(np.float64).eps)
    for k, colour in enumerate(style.mode_colours(len(data.s))):
        part = data.pushed.isel(mode=k)
        panel.plot(data.perturbation, part.sel(source="descent"), **style.MARK | {"color": colour})
        panel.plot(data.perturbation, part.sel(source="theory"), **style.THEORY | {"color": colour})
        panel.plot(rounding, data.rounding[k], **style.MARK | {"color": colour, "marker": "D"})
        panel.plot(rounding, 36 / data.s[k], **style.THEORY | {"color": colour, "marker": "_", "markersize": 14})
    panel.plot([], [], **style.MARK, label="descent")
    panel.plot([], [], **style.THEORY, label="(1/s) ln(√s/p)")
    panel.plot([], [], **style.MARK | {"marker": "D"}, label="descent, rounding alone")
    panel.plot([], [], **style.THEORY | {"linestyle": "none", "marker": "_", "markersize": 14}, label="36/s")
    panel.set_title("A″  Escape time against push")
    panel.set(xscale="log", xlabel="push off the separatrix, of the weights", ylabel="escape time", ylim=(0, None))


FIGURE = Figure("braun2022/6", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
