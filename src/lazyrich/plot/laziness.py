"""A watched training run: how far the kernel went, the features of each layer, and the loss, over steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lazyrich.laziness.definition import Judgement
from lazyrich.plot import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lazyrich.laziness.records import Record

_NAMED = 6  # layers; more overfill the legend


def laziness(records: Sequence[Record], hidden: Sequence[str], judgement: Judgement) -> Figure:
    """One panel for each; those of which nothing is known are left out."""
    panels = [_kernel, *([_features] if hidden else [])]
    if np.isfinite([one.loss for one in records]).any():
        panels.append(_loss)
    with style.styled():
        figure = style.new_figure(3.9 * len(panels), 3.3)
        for axes, draw in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            draw(axes, records, hidden, judgement)
            axes.set_xlabel("training step")
            axes.margins(x=0.02)
        style.uncover(figure)
    return figure


def _kernel(axes: Axes, records: Sequence[Record], hidden: Sequence[str], judgement: Judgement) -> None:
    blue, orange = style.series_colours(2)
    steps = [one.step for one in records]
    for name, label, colour in (("movement", "movement", blue), ("distance", "turn S", orange)):
        values, errors = (
            np.array([one.values.get(f"kernel_{name}{end}", 0.0) for one in records]) for end in ("", "_error")
        )
        axes.plot(steps, values, color=colour, label=label, marker=_mark(records))
        if errors.any():
            axes.fill_between(steps, values - 2 * errors, values + 2 * errors, color=colour, alpha=0.25, linewidth=0)
    axes.axhline(judgement.thresholds.lazy, **style.LIMIT, label="lazy below")
    axes.set_ylim(bottom=0)
    axes.set(title=f"Tangent kernel: {judgement.name}", ylabel="from the first kernel")
    axes.legend()


def _features(axes: Axes, records: Sequence[Record], hidden: Sequence[str], judgement: Judgement) -> None:
    shown = hidden if len(hidden) <= _NAMED else [hidden[int(i)] for i in np.linspace(0, len(hidden) - 1, _NAMED)]
    colours = style.series_colours(len(shown))
    for layer, colour in zip(shown, colours, strict=True):
        values = [one.features.get(layer, np.nan) for one in records]
        axes.plot([one.step for one in records], values, color=colour, label=layer, marker=_mark(records))
    axes.set_ylim(bottom=0)
    axes.set(title="Features", ylabel="1 − CKA with the first")
    axes.legend(title=None if len(shown) == len(hidden) else f"{len(shown)} of {len(hidden)} layers")


def _loss(axes: Axes, records: Sequence[Record], hidden: Sequence[str], judgement: Judgement) -> None:
    values = np.array([one.loss for one in records])
    axes.plot([one.step for one in records], values, color=style.COLOURS["grey"], marker=_mark(records))
    seen = values[np.isfinite(values)]
    if (seen > 0).all() and seen.max() > 20 * seen.min():
        axes.set_yscale("log")
    axes.set(title="Loss", ylabel="of training")


def _mark(records: Sequence[Record]) -> str:
    return "o" if len(records) == 1 else ""
