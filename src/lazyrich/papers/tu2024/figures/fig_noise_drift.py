"""How mini-batches and noise on labels take the layers off their balance: ensembles, over the prediction."""

import numpy as np

from lazyrich import Noise, Problem, Task, batch, flow
from lazyrich._typing import Array
from lazyrich.inits import gaussian
from lazyrich.landscape import expected_drift
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.plot import style
from lazyrich.trajectory import Trajectory

TITLE = "Noise takes the layers off their balance, by the covariance of the gradient"
ABOUT = (
    "A linear 4-6-3 network learns a noisy linear map from 24 samples by gradient descent, which in every step sees "
    "all of them, mini-batches, or labels with fresh noise; ‖W2‖² − ‖W1‖², which the flow keeps, drifts. "
    "Left: mean of a hundred runs at the smallest rate, and the middle 80 % of them, over what the covariance along "
    "the flow predicts (dotted). "
    "Right: the drift at the end per rate and time, with two standard errors, mostly hidden by the dots; what is off "
    "at larger rates goes with the rate, and is most where samples are shuffled into epochs."
)
CALLS = ("lr.Noise", "lr.batch.descend", "lr.flow", "lr.landscape.expected_drift")
CHECKS = {
    "standard_errors": Check("mean drift against prediction at the smallest rate, in standard errors", at_most=5.0),
    "off": Check("the same, relative, the largest of all noises", at_most=0.005),
    "off_at_large": Check("the same at the largest rate", at_most=0.2),
    "exponent": Check("exponent of the rate in the drift, farthest from 1", at_most=0.05),
}
QUICK = {"rates": (0.004, 0.0005), "runs": 40, "horizon": 1.0}

NOISES = {
    "no noise": None,
    "batches of 4, without replacement": Noise(batch=4),
    "batches of 4, with replacement": Noise(batch=4, replacement=True),
    "batches of 2, without replacement": Noise(batch=2),
    "noise 2 on labels": Noise(labels=2.0),
}
_TIMES = 40  # at which runs are kept


def problem(seed: int = 0) -> Problem:
    """Noisy labels of a linear map, so that there is something left to fit for every batch."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(24, 4))
    task = Task.from_data(X, X @ rng.normal(size=(4, 3)) + rng.normal(size=(24, 3)))
    return Problem(task, gaussian(1, sizes=(4, 6, 3), scale=0.4))


def difference(run: Trajectory) -> Array:
    """‖W2‖² − ‖W1‖² over time, from where it begins."""
    D = sum(sign * (W**2).sum(axis=(1, 2)) for sign, W in zip((-1, 1), run.weights, strict=True))
    return np.asarray(D - D[0])


def compute(
    *,
    rates: tuple[float, ...] = (0.016, 0.008, 0.004, 0.002, 0.001, 0.0005, 0.00025),
    runs: int = 100,
    horizon: float = 2.0,
) -> Dataset:
    """The drift of every run over time, and the predicted mean."""
    one, times = problem(), np.linspace(0.0, horizon, _TIMES + 1)
    seen = np.empty((len(rates), len(NOISES), runs, len(times)))
    predicted = np.empty((len(rates), len(NOISES), len(times)))
    fine = flow(one, np.linspace(0.0, horizon, 10 * _TIMES + 1))
    for i, rate in enumerate(rates):
        at = np.rint(times / rate).astype(int)
        for j, noise in enumerate(NOISES.values()):
            ensemble = batch.descend([one] * runs, rate, int(at[-1]), noise=noise, at=at)
            seen[i, j] = [difference(run) for run in ensemble]
            (drift,) = expected_drift(fine, rate, noise)
            predicted[i, j] = np.trace(drift, axis1=1, axis2=2)[::10]
    mean = seen.mean(axis=2)[..., -1]
    off, error = mean - predicted[..., -1], seen.std(axis=2)[..., -1] / np.sqrt(runs)
    relative = np.abs(off / predicted[..., -1])
    exponents = np.log(mean[0] / mean[-1]) / np.log(rates[0] / rates[-1])
    noisy = slice(1, None)  # the first has no standard error
    return dataset(
        {
            "drift": (("rate", "noise", "run", "time"), seen),
            "predicted": (("rate", "noise", "time"), predicted),
        },
        {"rate": list(rates), "noise": list(NOISES), "time": times},
        {
            "standard_errors": float(np.abs(off[-1, noisy] / error[-1, noisy]).max()),
            "off": float(relative[-1].max()),
            "off_at_large": float(relative[0].max()),
            "exponent": float(np.abs(exponents - 1).max()),
        },
    )


def draw(data: Dataset) -> Picture:
    figure = style.new_figure(10.0, 4.9)
    curves, ends = figure.subplots(1, 2)
    colours = style.series_colours(data.sizes["noise"])
    _draw_curves(curves, data, colours)
    _draw_ends(ends, data, colours)
    handles, labels = curves.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def _draw_curves(panel: Axes, data: Dataset, colours: list[style.Colour]) -> None:
    last = data.isel(rate=-1)
    for colour, noise in zip(colours, data.noise.values, strict=True):
        drift = 1000 * last.drift.sel(noise=noise)
        low, high = drift.quantile([0.1, 0.9], "run")
        panel.plot(data.time, drift.mean("run"), color=colour, label=str(noise))
        panel.fill_between(data.time, low, high, color=colour, alpha=0.2, linewidth=0)
        panel.plot(data.time, 1000 * last.predicted.sel(noise=noise), **style.THEORY)
    panel.plot([], [], **style.THEORY, label="predicted")
    rate = float(data.rate[-1])
    panel.set(xlabel=style.TIME, ylabel="drift of ‖W2‖² − ‖W1‖², thousandths", title=f"A  Over time, rate {rate:g}")


def _draw_ends(panel: Axes, data: Dataset, colours: list[style.Colour]) -> None:
    end, runs = data.isel(time=-1), data.sizes["run"]
    unit = data.rate * float(data.time[-1])
    for colour, noise in zip(colours, data.noise.values, strict=True):
        drift = end.drift.sel(noise=noise) / unit
        bars = 2 * drift.std("run") / np.sqrt(runs)
        panel.errorbar(data.rate, drift.mean("run"), bars, color=colour, marker="o", linestyle="none", markersize=5)
        panel.plot(data.rate, end.predicted.sel(noise=noise) / unit, **style.THEORY | {"color": colour})
    panel.set(xscale="log", xlabel="rate", ylabel="drift per rate and time", title="B  At the end, over the rate")
    some = data.rate.values[::2]  # all would touch each other
    panel.set_xticks(some, [f"{rate:g}" for rate in some])
    panel.set_xticks([], minor=True)


FIGURE = Figure("tu2024/noise_drift", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
