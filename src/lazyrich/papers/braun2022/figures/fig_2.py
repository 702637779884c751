"""Braun et al. 2022, Fig. 2: theory against simulation for small and large weights, and for fifty random networks."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyrich import Problem, Trajectory, descend, inits, solve
from lazyrich._progress import progress
from lazyrich._typing import Array, Float
from lazyrich.observables import input_gram, kernels, output_gram
from lazyrich.papers.base.figure import Axes, Check, DataArray, Dataset, Figure, Picture, dataset
from lazyrich.papers.base.types import Colour
from lazyrich.papers.braun2022.figures._shared import draw_over, shades, trained
from lazyrich.plot import style
from lazyrich.tasks import linear_teacher, random_regression

TITLE = "Exact dynamics: loss, function, weights and kernel; fifty networks, seven rates"
ABOUT = (
    "A, B: a 4-5-3 network learns from small and from large weights; entries of its function, of both Gram matrices "
    "and of the tangent kernel (of two samples) lie on the exact solutions (dotted). "
    "C: fifty networks of random sizes learn random regressions until t = 10 with seven learning rates; the mean "
    "squared difference of the loss from theory, which knows no rate, falls with its square. "
    "D: five of them, each at the rate of its cross in C and for as many steps as the smallest rate takes."
)
CALLS = (
    "lr.tasks.random_regression", "lr.inits.zero_balanced", "lr.solve", "lr.descend", "lr.observables.input_gram",
    "lr.observables.output_gram", "lr.observables.kernels",
)  # fmt: skip
CHECKS = {
    "deviation_loss": Check("A, B: largest difference in loss from theory, of the loss at the start", at_most=0.03),
    "deviation_loss_finer": Check("the same with a rate 10 times smaller", at_most=0.003),
    "deviation_entries_finer": Check("all entries in A, B at that rate, of the largest of their kind", at_most=0.003),
    "worst_deviation": Check("C: largest mean squared difference in loss at the smallest rate", at_most=1e-8),
    "slope_error": Check("C: farthest that a slope of log deviation over log rate is from 2", at_most=0.02),
    "deviation_examples": Check("D: largest difference in loss from theory, of the loss at the start", at_most=0.005),
}
QUICK = {"steps": 3000, "nets": 2, "largest": 10}

_PANELS = {"loss": "Loss", "function": "Function W2W1", "input": "W1ᵀW1", "output": "W2W2ᵀ", "kernel": "Tangent kernel"}
_STARTS = {"small": "A", "large": "B"}
_RECORDS, _EXAMPLES = 1001, 5


def compute(
    *,
    sizes: tuple[int, ...] = (4, 5, 3),
    samples: int = 10,
    teacher: float = 0.25,
    small: float = 0.001,
    large: float = 0.15,
    rate: float = 0.05,
    steps: int = 10_000,
    finer: int = 10,
    nets: int = 50,
    largest: int = 50,
    rates: tuple[float, ...] = tuple(np.geomspace(0.05, 0.0005, 7).round(7).tolist()),
    most_steps: int = 20_000,
    seed: int = 0,
) -> Dataset:
    """Curves of A and B; deviations of C and curves of D."""
    rng = np.random.default_rng(seed)
    task = linear_teacher(rng, inits.zero_balanced(rng, sizes=sizes, scale=teacher).function, samples=samples)
    starts = [inits.zero_balanced(rng, sizes=sizes, scale=scale) for scale in (small, large)]
    entries = _two_starts([Problem(task, start) for start in starts], rate, steps, finer)
    networks = _many(rng, nets, largest, np.array(rates), most_steps)
    return entries.merge(networks, combine_attrs="no_conflicts")


def _two_starts(problems: list[Problem], rate: float, steps: int, finer: int) -> Dataset:
    stops = np.linspace(0, steps, min(steps + 1, _RECORDS)).round().astype(int)
    curves, gaps = [], []
    for problem in problems:
        run, fine = trained(problem, rate, stops, finer=finer, record=("function", "gram"))
        theory, kinds = _entries(solve(problem, run.times))
        simulated, closer = _entries(run)[0], _entries(fine)[0]
        curves.append([theory, simulated])
        size = np.array([np.abs(theory[kinds == kind]).max() for kind in kinds])[:, None]
        off, off_finer = np.abs(simulated - theory) / size, np.abs(closer - theory) / size
        gaps.append([off[0].max(), off_finer[0].max(), off_finer.max()])
    return dataset(
        {"entries": (("start", "source", "entry", "time"), np.array(curves))},
        coords={
            "start": list(_STARTS),
            "source": ["theory", "descent"],
            "kind": ("entry", kinds),
            "time": rate * stops,
        },
        attrs=dict(zip(CHECKS, map(float, np.max(gaps, axis=0)), strict=False)),
    )


def _entries(traj: Trajectory) -> tuple[Float[Array, "entry T"], Array]:
    """The loss and the entries of each matrix (of symmetric ones, the upper half), and the name of each."""
    T = len(traj.times)
    function, left, right = (np.asarray(M) for M in (traj.function, input_gram(traj), output_gram(traj)))
    of_two = np.add.outer(np.arange(len(right[0])) * _samples(traj), [0, 1]).ravel()  # of hundreds, a few
    K = np.array([kernel.matrix()[np.ix_(of_two, of_two)] for kernel in kernels(traj)])
    upper = [M[:, *np.triu_indices(M.shape[1])] for M in (left, right, K)]
    parts = [np.asarray(traj.loss)[:, None], function.reshape(T, -1), *upper]
    kinds = np.repeat(list(_PANELS), [part.shape[1] for part in parts])
    return np.hstack(parts).T, kinds


def _samples(traj: Trajectory) -> int:
    inputs = traj.problem.task.inputs
    assert inputs is not None
    return len(inputs)


def _many(rng: np.random.Generator, nets: int, largest: int, rates: Float[Array, " r"], most_steps: int) -> Dataset:
    """Random networks: deviations at all rates until a common time, and a few to the end."""
    horizon, examples = float(rates.min()) * most_steps, min(_EXAMPLES, nets)
    deviations, curves = np.empty((nets, len(rates))), np.empty((examples, 3, _RECORDS // 5))
    shown = np.arange(examples) % len(rates)  # a rate each, from the largest down
    with progress(nets, "random networks") as move_on:
        for net in range(nets):
            problem = _random_problem(rng, largest)
            for i, rate in enumerate(rates):
                stops = np.linspace(0, np.floor(horizon / rate + 1e-9), _RECORDS // 10).round()
                deviations[net, i] = np.mean(np.subtract(*_losses(problem, rate, stops)[1:]) ** 2)
            if net < examples:
                rate = float(rates[shown[net]])
                stops = np.concatenate([[0], np.geomspace(1, most_steps, _RECORDS // 5 - 1).round()])
                curves[net] = _losses(problem, rate, stops)
            move_on(1)
    slopes = np.polyfit(np.log(rates), np.log(deviations).T, 1)[0]
    numbers = {
        "worst_deviation": deviations[:, rates.argmin()].max(),
        "slope_error": np.abs(slopes - 2).max(),
        "deviation_examples": (np.abs(curves[:, 1] - curves[:, 2]).max(axis=1) / curves[:, 1, 0]).max(),
    }
    return dataset(
        {
            "deviations": (("net", "rate"), deviations),
            "examples": (("example", "of", "record"), curves),
            "example_rate": ("example", rates[shown]),
        },
        coords={"rate": rates, "of": ["time", "descent", "theory"]},
        attrs={name: float(value) for name, value in numbers.items()},
    )


def _random_problem(rng: np.random.Generator, largest: int) -> Problem:
    """Inputs and outputs differ in number, and the hidden layer is no bottleneck."""
    d_in, d_out = (int(d) for d in rng.choice(np.arange(2, largest + 1), size=2, replace=False))
    h = int(rng.integers(min(d_in, d_out), largest + 1))
    samples = int(rng.integers(2 * max(d_in, d_out), 3 * max(d_in, d_out) + 1))
    scale = rng.uniform(0.01, 0.5) / np.sqrt(max(d_in, h, d_out))
    task = random_regression(rng, d_in=d_in, d_out=d_out, samples=samples)
    return Problem(task, inits.zero_balanced(rng, sizes=(d_in, h, d_out), scale=scale))


def _losses(problem: Problem, rate: float, stops: Float[Array, " T"]) -> Float[Array, "3 T"]:
    """Times, the loss of gradient descent at them, and the exact one."""
    run = descend(problem, float(rate), int(stops[-1]), record="loss", at=stops)
    return np.array([run.times, run.loss, solve(problem, run.times).loss])


def draw(data: Dataset) -> Picture:
    """A row of panels for each initialisation, and below them the random networks."""
    figure = style.new_figure(13.0, 8.2)
    halves: Any = figure.subfigures(2, 1, height_ratios=(2, 1.15))
    top, bottom = halves
    rows = top.subplots(len(_STARTS), len(_PANELS))
    for row, start in zip(rows, data.start.values, strict=True):
        curves = data.entries.sel(start=start)
        _draw_start(row, curves)
        row[0].set_title(f"{_STARTS[str(start)]}  {str(start).capitalize()} weights")
    for panel, title in zip(rows[0][1:], list(_PANELS.values())[1:], strict=True):
        panel.set_title(title, weight="normal", loc="center")
    for panel in rows[-1]:
        panel.set_xlabel("time")
    left, right = bottom.subplots(1, 2, width_ratios=(1, 1.25))
    colours = [style.COLOURS[name] for name in ("blue", "orange", "green", "pink", "grey")]
    _draw_deviations(left, data, colours)
    _draw_examples(right, data, colours)
    return figure


def _draw_start(row: Array, curves: DataArray) -> None:
    loss = curves.sel(source="theory").isel(entry=0)
    falling = loss - float(loss[-1]) > 1e-3 * float(loss[0] - loss[-1])
    end = min(1.2 * float(curves.time[falling].max()), float(curves.time[-1]))
    for panel, kind in zip(row, _PANELS, strict=True):
        chosen = curves.isel(entry=np.flatnonzero(curves.kind.values == kind)).transpose("source", "time", "entry")
        colours = shades(chosen.sizes["entry"])
        draw_over(panel, curves.time, chosen.sel(source="descent"), chosen.sel(source="theory"), colours)
        panel.set_xlim(-0.01 * end, end)
    row[0].set_ylabel("loss")


def _draw_deviations(axes: Axes, data: Dataset, colours: Sequence[Colour]) -> None:
    deviations = data.deviations.transpose("rate", "net")
    axes.loglog(data.rate, deviations, color="#C4C4C4", linewidth=0.9)
    for net, (rate, colour) in enumerate(zip(data.example_rate.values, colours, strict=False)):
        axes.loglog(data.rate, deviations.isel(net=net), color=colour, linewidth=1.4)
        axes.plot(rate, deviations.isel(net=net).sel(rate=rate), "x", color=colour, markersize=9, markeredgewidth=2.5)
    typical = np.exp(np.log(deviations).mean("net"))
    guide = float(typical[0]) * (data.rate / float(data.rate[0])) ** 2
    axes.plot(data.rate, guide, **style.THEORY, label="∝ η²")
    axes.legend(loc="upper left")
    axes.set(xlabel="learning rate η", ylabel="mean (loss − theory)²", title=f"C  {data.sizes['net']} random networks")


def _draw_examples(axes: Axes, data: Dataset, colours: Sequence[Colour]) -> None:
    for example, (rate, colour) in enumerate(zip(data.example_rate.values, colours, strict=False)):
        time, descent, theory = data.examples.isel(example=example).values
        axes.semilogx(time[1:], descent[1:], color=colour, label=f"η = {rate:.2g}")
        axes.plot(time[1:], theory[1:], **style.THEORY)
    axes.plot([], [], **style.THEORY, label="exact")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes.set(xlabel=style.TIME, ylabel="loss", title="D  Some of them, to the end")


FIGURE = Figure("braun2022/2", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
