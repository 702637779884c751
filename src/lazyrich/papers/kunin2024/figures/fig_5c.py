"""Kunin et al. 2024, Fig. 5c: how many samples of a random hierarchy an MLP needs, by where it starts."""

import numpy as np

from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.kunin2024.experiments.rhm import TARGET, Needed
from lazyrich.papers.kunin2024.figures._experiment import (
    alpha_colours,
    by_alpha,
    caption,
    counted,
    curves,
    over_seeds,
    results,
)
from lazyrich.plot import style

TITLE = "The random hierarchy: test accuracy against samples, from downstream to upstream"
ABOUT = (
    "An MLP with three hidden layers learns the Random Hierarchy Model from more and more samples, with its first "
    "layer × 1/α and its readout × α at the start, which leaves the function as it is: means over seeds at the end of "
    "training, with bands of one standard deviation, and the number of samples at which they pass a fixed accuracy. "
    "These are the published six α, nine numbers of samples and six seeds: trained by `lazyrich experiment rhm "
    "--preset paper --out DIR`, 75 seconds on an H200, and kept with the figure (`--set store=DIR` draws networks of "
    "your own, `--set preset=laptop` trains fewer). "
    "The paper finds that upstream initialisations (large α), whose first layer learns faster, need fewer samples and "
    "downstream ones more; so it is here, at every size."
)
CALLS = ("lr.papers.experiment", "lr.sweeps.run", "lr.sweeps.open")
CHECKS = {
    "ratio": Check("samples to the accuracy marked, smallest α over largest, at least", at_least=1.3),
    "gain": Check("test accuracy, largest α minus smallest, mean over numbers of samples", at_least=0.05),
    "missing": Check("part of the networks without a result", at_most=0.0),
}
QUICK = {"preset": "quick"}


def compute(*, store: str = "", preset: str = "paper") -> Dataset:
    """Test accuracy at the end of training over (α, points), of the experiment in the folder `store` or of a preset."""
    stored = results("rhm", ("alpha", "points", "seed"), store, preset)
    mean, spread = over_seeds(stored["test_accuracy"].isel(epoch=-1, drop=True))
    needed = [Needed.of(mean["points"].values.tolist(), row) for row in mean.values]
    data = dataset(
        {
            "test_accuracy": mean,
            "test_accuracy_spread": spread,
            "needed_least": ("alpha", [float(need.least) for need in needed]),
            "needed_most": ("alpha", [float(need.most) for need in needed]),
        }
    )
    return data.assign_attrs(stored.attrs | {"target": TARGET} | _numbers(data))


def _numbers(data: Dataset) -> dict[str, float]:
    upstream, downstream = data.isel(alpha=-1), data.isel(alpha=0)
    return {
        "ratio": float(downstream["needed_least"] / upstream["needed_most"]),
        "gain": float((upstream["test_accuracy"] - downstream["test_accuracy"]).mean()),
    }


def draw(data: Dataset) -> Picture:
    """Accuracy against samples, a curve per α; and the samples to the target, by α."""
    figure = style.new_figure(10.4, 4.6)
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1))
    _draw_accuracy(left, data)
    _draw_needed(right, data)
    caption(figure, data)
    return figure


def _draw_accuracy(panel: Axes, data: Dataset) -> None:
    target, points = float(data.attrs["target"]), data["points"].values
    curves(panel, data, "test_accuracy", "points", marker="o", markersize=3.5)
    panel.axhline(target, **style.LIMIT)
    exact = data["needed_least"].where(data["needed_least"] == data["needed_most"]).values
    for x, colour in zip(exact, alpha_colours(data["alpha"].values), strict=True):
        panel.plot([x, x], [0, target], color=colour, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
    panel.plot(exact, np.full_like(exact, target), **style.MARK | {"markersize": 5})
    panel.set_xscale("log")
    counted(panel.xaxis)
    panel.set_xlim(points.min() / 1.1, points.max() * 1.1)
    panel.set_ylim(0, 1.03)
    panel.set(title="accuracy at the end of training", xlabel="training samples", ylabel="test accuracy")
    panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), reverse=True)


def _draw_needed(panel: Axes, data: Dataset) -> None:
    """Where a curve lies above the target from its first number on, or below it up to its last, a triangle says so."""
    alphas, least, most = (data[name].values for name in ("alpha", "needed_least", "needed_most"))
    exact = np.where(least == most, least, np.nan)
    panel.plot(alphas, exact, color=style.COLOURS["grey"], linewidth=1.2, zorder=1)
    for alpha, lower, upper, colour in zip(alphas, least, most, alpha_colours(alphas), strict=True):
        marker = "o" if lower == upper else "^" if np.isinf(upper) else "v"
        y = upper if np.isfinite(upper) else lower or np.nan
        panel.plot(alpha, y, marker=marker, color=colour, markersize=8)
        if np.isfinite(y):
            panel.annotate(f"{y:,.0f}", (alpha, y), (5, 5), textcoords="offset points", fontsize=8.5)
    by_alpha(panel, alphas)
    panel.set_yscale("log")
    counted(panel.yaxis)
    panel.margins(y=0.12)
    panel.set(title=f"samples to {float(data.attrs['target']):.0%}", ylabel="training samples")


FIGURE = Figure("kunin2024/5c", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
