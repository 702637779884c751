"""Kunin et al. 2024, Fig. 5b: the first filters of a small ResNet, which are smooth where they start small."""

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.papers.base.figure import Axes, Check, DataArray, Dataset, Figure, Picture, dataset
from lazyrich.papers.kunin2024.figures._experiment import (
    alpha_colours,
    by_alpha,
    caption,
    curves,
    over_seeds,
    records_along,
    results,
)
from lazyrich.papers.kunin2024.figures._grid import ratio
from lazyrich.papers.kunin2024.figures._shared import as_text
from lazyrich.plot import style
from lazyrich.sweeps.grid import STATUS

TITLE = "First filters of a ResNet: noise where they start large, smooth where they start small"
ABOUT = (
    "A small ResNet without weight decay learns images, with its first filters of 15 × 15 divided by α after the "
    "standard initialisation, which leaves the function as it is: filters of one seed at the start and at the end, "
    "their smoothness by the paper's normalised Laplacian (small where smooth), and accuracies, means over seeds with "
    "one standard deviation. "
    "The line above the panels says which networks are drawn: without `store` those of a preset, trained now on "
    "patches of two photographs; `lazyrich experiment filters --preset paper --out DIR` and `lazyrich figure "
    "kunin2024/5b --set store=DIR` make the published ones, on CIFAR-10. "
    "The paper finds that filters with a small initialisation become much smoother at about the same accuracy: here "
    "too, those that start small (large α) turn fast and lose their noise, and those that start large hardly leave it."
)
CALLS = ("lr.papers.experiment", "lr.sweeps.run", "lr.sweeps.open", "lr.papers.images")
CHECKS = {
    "smoother": Check("normalised Laplacian at the end, smallest α (large filters) over largest", at_least=2.0),
    "start": Check("normalised Laplacian at the start, largest relative difference between α", at_most=1e-4),
    "missing": Check("part of the networks without a result", at_most=0.0),
}
QUICK = {"preset": "quick"}

_NAMES = ("smoothness", "train_accuracy", "test_accuracy")


def compute(*, store: str = "", preset: str = "laptop") -> Dataset:
    """Smoothness and accuracies over (α, epoch), and filters, of the experiment in the folder `store` or of a preset.

    `filters` are those of one network at the start, and at the end from the smallest and the largest α.
    """
    stored = results("filters", ("alpha", "seed"), store, preset)
    data = dataset()
    for name in _NAMES:
        data[name], data[f"{name}_spread"] = over_seeds(stored[name])
    places = np.argwhere((stored["status"] == STATUS.index("complete")).values)
    large, small = places[0], places[places[:, 0] == places[-1, 0]][0]  # the first seed there, of the α at both ends
    at_both = [stored["filters"].isel(alpha=i, seed=j, drop=True).isel(epoch=[0, -1]).values for i, j in (large, small)]
    shown = np.stack([at_both[0][0], at_both[0][1], at_both[1][1]])
    data["filters"] = ("shown", "channel", "colour", "row", "column"), shown
    data["shown_alpha"] = "shown", stored["alpha"].values[[large[0], large[0], small[0]]]
    return data.assign_attrs(stored.attrs | _numbers(data))


def _numbers(data: Dataset) -> dict[str, float]:
    start, end = (data["smoothness"].isel(epoch=k) for k in (0, -1))
    return {
        "smoother": ratio(end.isel(alpha=0), end.isel(alpha=-1)),
        "start": ratio(start.max() - start.min(), start.mean()),
    }


def draw(data: Dataset) -> Picture:
    """Filters above; smoothness over training, smoothness and accuracies by α below."""
    figure = style.new_figure(11.4, 7.6)
    above, (over_training, smoothness, accuracy) = figure.subplots(2, 3, height_ratios=(1.2, 1))
    first, last = (as_text(alpha) for alpha in data["shown_alpha"].values[1:])
    titles = ("filters at the start, any α", f"at the end, α = {first}", f"at the end, α = {last}")
    for panel, filters, title in zip(above, data["filters"].values, titles, strict=True):
        panel.imshow(_mosaic(filters), interpolation="nearest")
        panel.set_axis_off()
        panel.set_title(title)
    curves(over_training, data, "smoothness", "epoch", marker="o", markersize=3.5)
    records_along(over_training, data["epoch"].values, "epoch")
    over_training.set(title="smoothness over training", ylabel="normalised Laplacian (small: smooth)")
    over_training.set_ylim(0, None)
    over_training.legend(loc="best", reverse=True, fontsize=8.5)
    start, end = data.isel(epoch=0), data.isel(epoch=-1)
    _draw_both(smoothness, {"start": start["smoothness"], "end": end["smoothness"]}, end["smoothness_spread"])
    smoothness.set(title="smoothness by α", ylabel="normalised Laplacian")
    _draw_both(accuracy, {"training": end["train_accuracy"], "test": end["test_accuracy"]}, end["test_accuracy_spread"])
    accuracy.set(title="accuracy at the end", ylabel="accuracy", ylim=(0, 1.05))
    caption(figure, data)
    return figure


def _draw_both(panel: Axes, values: dict[str, DataArray], spread: DataArray) -> None:
    """By α: the first of the two as rings, the second as dots, with its spread."""
    alphas, grey = spread["alpha"].values, style.COLOURS["grey"]
    for (label, numbers), ring in zip(values.items(), (True, False), strict=True):
        panel.plot(alphas, numbers, color=grey, linewidth=1.0, linestyle=(0, (2, 1.5)) if ring else "-", zorder=1)
        for alpha, value, colour in zip(alphas, numbers.values, alpha_colours(alphas), strict=True):
            panel.plot(alpha, value, "o", color=colour, markerfacecolor="white" if ring else colour, markersize=7)
        panel.plot([], [], "o", color=grey, markerfacecolor="white" if ring else grey, label=label)
    panel.errorbar(alphas, numbers, spread, fmt="none", ecolor=alpha_colours(alphas), elinewidth=1.6, zorder=1)
    by_alpha(panel, alphas)
    panel.margins(y=0.1)
    panel.set_ylim(0, None)
    panel.legend(loc="best")


def _mosaic(filters: Float[Array, "channel colour row column"]) -> Float[Array, "rows columns 3"]:
    """Colour images side by side, each as bright as it can be; grey is zero, and what is empty white."""
    largest = np.abs(filters).max(axis=(1, 2, 3), keepdims=True)
    images = (0.5 + 0.5 * filters / np.where(largest > 0, largest, 1.0)).transpose(0, 2, 3, 1)
    across = int(np.ceil(np.sqrt(len(images))))
    down = -(-len(images) // across)
    rows, columns = images.shape[1] + 1, images.shape[2] + 1  # with a line between
    whole = np.ones((down * rows - 1, across * columns - 1, 3))
    for k, image in enumerate(images):
        i, j = k // across * rows, k % across * columns
        whole[i : i + rows - 1, j : j + columns - 1] = image
    return whole


FIGURE = Figure("kunin2024/5b", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
