"""Kunin et al. 2024, Fig. 5, by layer rates: the paper's α scales layers; rates of layers do the same. Ours.

`loop.THROUGH` says why. Rounding alone tells the two apart, until training has magnified it.
"""

from typing import Any, NamedTuple

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers import experiment
from lazyrich.papers.base.figure import Axes, Check, Dataset, Figure, Picture, dataset
from lazyrich.papers.kunin2024.experiments.loop import THROUGH
from lazyrich.papers.kunin2024.figures._experiment import alpha_colours, by_alpha, results
from lazyrich.plot import style

TITLE = "Layer rates in the four experiments: they do what the scales of layers do"
ABOUT = (
    "The four experiments of Fig. 5, each trained twice from one draw of weights: with layers scaled by α at the start "
    "(circles, and the line), as published, and with layers that learn faster and slower instead (crosses). Where a "
    "layer is divided by α, its rate is multiplied by α² under gradient descent, and by α under Adam, which does not "
    "heed the size of a gradient (grokking); where one is multiplied, the rate is divided. Means over seeds at the end "
    "of small networks, of the transformer one record before it; `--set preset=laptop` trains larger ones. "
    "The function is the same at the start and at every step after it, but for rounding, and so is all that the paper "
    "measures: upstream initialisations are first layers that learn faster; at α = 10 the transformer leaves it, as "
    "its embeddings come near the ε of their LayerNorm, and training magnifies that."
)
CALLS = ("lr.papers.experiment", "lr.sweeps.run", "lr.sweeps.open")
CHECKS = {
    "lenet": Check("LeNet-5: largest difference of rates and scales, over the effect of α", at_most=1e-3),
    "filters": Check("ResNet, whose high rate magnifies rounding: the same", at_most=0.1),
    "rhm": Check("random hierarchy: the same", at_most=0.01),
    "grokking": Check("transformer: the same", at_most=0.01),
    "effect": Check("effect of α, largest minus smallest over the mean, least of the four", at_least=0.02),
}
QUICK: dict[str, Any] = {}

_ALPHAS = (0.3, 1.0, 3.0)


class _Drawn(NamedTuple):
    """What is drawn of an experiment: an observable, the name of the panel, what else varies, and the record.

    Once its training pairs are fitted, the transformer magnifies rounding a thousandfold between two records.
    """

    name: str
    words: str
    others: tuple[str, ...] = ("seed",)
    record: int = -1


_DRAWN = {
    "lenet": _Drawn("kernel_distance", "LeNet-5: kernel distance"),
    "filters": _Drawn("smoothness", "ResNet: Laplacian of the filters"),
    "rhm": _Drawn("test_accuracy", "random hierarchy: test accuracy", ("points", "seed")),
    "grokking": _Drawn("validation_loss", "transformer: loss on the other pairs", ("tau", "seed"), -2),
}


def compute(*, preset: str = "quick") -> Dataset:
    """What each experiment measures in the end over (through, α), and how far rates and scales are apart."""
    found: dict[str, Any] = {}
    numbers: dict[str, float] = {}
    effects = []
    for kind, (name, _, others, record) in _DRAWN.items():
        varied = {"through": list(THROUGH), "alpha": list(_ALPHAS)}
        trained = results(kind, (*varied, *others), "", preset, **varied)
        last = {experiment(kind, preset).unit: record}
        ends = trained[name].isel(last, drop=True).mean(others).sel(through=list(THROUGH))
        found |= {kind: (("through", f"alpha_{kind}"), ends.values), f"alpha_{kind}": ends["alpha"].values}
        scales, rates = ends.values.astype(float)
        effect = float(np.ptp(scales))
        numbers[kind] = float(np.abs(scales - rates).max()) / effect
        effects.append(effect / float(np.mean(scales)))
    return dataset(found | {"through": list(THROUGH)}).assign_attrs(numbers | {"effect": min(effects)})


def draw(data: Dataset) -> Picture:
    """A panel for each experiment."""
    figure = style.new_figure(10.4, 6.4)
    for panel, (kind, one) in zip(figure.subplots(2, 2).flat, _DRAWN.items(), strict=True):
        _draw_one(panel, data[f"alpha_{kind}"].values, *data[kind].values)
        panel.set_title(one.words)
    figure.axes[0].legend(*_legend(figure.axes[0]), loc="best")
    return figure


def _draw_one(panel: Axes, alphas: Array, scales: Array, rates: Array) -> None:
    panel.plot(alphas, scales, color=style.COLOURS["grey"], linewidth=1.2, zorder=1)
    for alpha, one, other, colour in zip(alphas, scales, rates, alpha_colours(alphas), strict=True):
        panel.plot(alpha, one, marker="o", markersize=10, color=colour, linestyle="none", label="α scales layers")
        panel.plot(alpha, other, marker="x", markersize=7, color="black", linestyle="none", label="α sets their rates")
    by_alpha(panel, alphas)
    panel.margins(y=0.15)


def _legend(panel: Axes) -> tuple[list[Any], list[str]]:
    """One entry for each kind of mark."""
    marks = dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
    return list(marks.values()), list(marks)


FIGURE = Figure("kunin2024/5_rates", TITLE, ABOUT, CALLS, CHECKS, QUICK, compute, draw)
