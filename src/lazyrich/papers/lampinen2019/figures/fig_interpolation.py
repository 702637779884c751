"""The interpolation peak of one layer, and that it goes where training stops in time."""

import numpy as np

from lazyrich import Network, Problem, Task, generalisation
from lazyrich._progress import progress
from lazyrich.papers.base.figure import Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.lampinen2019 import formulas
from lazyrich.plot import style

TITLE = "As many samples as inputs: worst at the end of training, harmless where it stops in time"
ABOUT = (
    "One layer learns from weights 0 what a linear teacher with noise answers to Gaussian inputs: 60 inputs, teacher "
    "of length 1, noise of variance 0.5, thirty draws. "
    "Trained to the end it interpolates where it can, and is worst with as many samples as inputs (orange: medians and "
    "quartiles; dotted: the mean of all draws that there could be, exact at any size, infinite at the peak). "
    "Stopped at the best time, which is exact for each draw, the more samples the better, without a peak."
)
CALLS = ("lr.generalisation.curve", "lr.Task.from_data", "lr.Network")
CHECKS = {
    "formula": Check("means of the end against the formula, off the peak: largest relative difference", at_most=0.35),
    "peak": Check("median of the end, at the peak over half as many samples", at_least=5.0),
    "no_peak": Check("median of the best, at the peak over half as many samples", at_most=1.0),
    "late": Check("best time at the peak over that with three times as many samples as inputs", at_most=1.0),
}
QUICK = {"ratios": (0.5, 0.8, 1.0, 1.5, 3.0), "draws": 12}

_TEST = ("end", "best")


def compute(
    *,
    d_in: int = 60,
    ratios: tuple[float, ...] = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0),
    noise: float = 0.5,
    draws: int = 30,
    seed: int = 0,
) -> Dataset:
    """‖W − T‖² at the end and at the best time, and that time, for each number of samples."""
    samples = np.round(np.array(ratios) * d_in).astype(int)
    error, time = np.empty((len(samples), draws, 2)), np.empty((len(samples), draws))
    with progress(time.size, "data sets") as move_on:
        for place in np.ndindex(time.shape):
            rng = np.random.default_rng((seed, *place))
            T = rng.normal(size=(1, d_in))
            T /= np.linalg.norm(T)
            X = rng.normal(size=(samples[place[0]], d_in))
            train = Task.from_data(X, X @ T.T + np.sqrt(noise) * rng.normal(size=(len(X), 1)))
            found = generalisation.curve(
                Problem(train, Network([np.zeros((1, d_in))])), Task.from_correlations(T), [0.0, np.inf]
            )
            error[place], time[place] = (2 * found.test[-1], 2 * found.best.loss), found.best.time
            move_on(1)
    known = np.array([formulas.interpolation(int(P), d_in, 1.0, noise) for P in samples])
    off = np.abs(samples - d_in) >= 0.2 * d_in
    median = np.median(error, axis=1)
    peak, half, last = (int(np.argmin(np.abs(samples - r * d_in))) for r in (1.0, 0.5, 3.0))
    when = np.median(time, axis=1)
    return dataset(
        {
            "error": (("samples", "draw", "when"), error),
            "time": (("samples", "draw"), time),
            "known": ("samples", known),
        },
        {"samples": samples, "when": list(_TEST)},
        {
            "d_in": d_in,
            "noise": noise,
            "formula": float(np.abs(error[off, :, 0].mean(axis=1) / known[off] - 1).max()),
            "peak": float(median[peak, 0] / median[half, 0]),
            "no_peak": float(median[peak, 1] / median[half, 1]),
            "late": float(when[peak] / when[last]),
        },
    )


def draw(data: Dataset) -> Picture:
    """Error at the end and at the best time; the best time."""
    figure = style.new_figure(10.4, 4.2)
    errors, times = figure.subplots(1, 2, width_ratios=(1.5, 1.0))
    N, noise = int(data.attrs["d_in"]), float(data.attrs["noise"])
    ratio = data.samples / N
    for when, colour, words in (("end", "orange", "trained to the end"), ("best", "green", "stopped at the best time")):
        low, middle, high = np.quantile(data.error.sel(when=when), (0.25, 0.5, 0.75), axis=1)
        errors.plot(ratio, middle, color=style.COLOURS[colour], marker="o", markersize=4, label=words)
        errors.fill_between(ratio, low, high, color=style.COLOURS[colour], alpha=0.2, linewidth=0)
    fine = np.arange(int(data.samples[0]), int(data.samples[-1]) + 1)
    known = np.array([formulas.interpolation(int(P), N, 1.0, noise) for P in fine])
    for side in (fine < N - 1, fine > N + 1):
        errors.plot(fine[side] / N, known[side], **style.THEORY)
    errors.plot([], [], **style.THEORY, label="the end, mean of all draws")
    errors.axhline(1.0, **style.LIMIT, label="no network")
    errors.set(yscale="log", xlabel="samples / inputs", ylabel="‖W − T‖²", title="Test error", ylim=(0.1, 200.0))
    errors.legend()
    low, middle, high = np.quantile(data.time, (0.25, 0.5, 0.75), axis=1)
    times.plot(ratio, middle, color=style.COLOURS["green"], marker="o", markersize=4)
    times.fill_between(ratio, low, high, color=style.COLOURS["green"], alpha=0.2, linewidth=0)
    times.set(xlabel="samples / inputs", ylabel="best time to stop", title="When to stop")
    times.set_ylim(bottom=0.0)
    return figure


FIGURE = Figure("lampinen2019/interpolation", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
