"""What a picture shows where, from the points of its lines."""

from __future__ import annotations

import itertools

import numpy as np
from matplotlib.figure import Figure

__all__ = ["points_under_legends"]


def points_under_legends(figure: Figure) -> int:
    """How many points of lines, a pixel or less apart, lie within a legend of their axes."""
    figure.draw_without_rendering()
    under = 0
    for axes in figure.axes:
        if axes.get_legend() is None:
            continue
        box, inside = axes.get_legend().get_window_extent(), axes.get_window_extent()
        for line in axes.lines:
            corners = line.get_transform().transform(line.get_xydata())
            corners = corners[np.isfinite(corners).all(axis=1)]
            joined = line.get_linestyle().lower() not in ("none", "", " ")
            for here, there in itertools.pairwise(corners):
                steps = min(2 + int(np.ceil(np.hypot(*(there - here)))), 5000) if joined else 2
                way = np.linspace(here, there, steps)
                low, high = np.maximum(box.min, inside.min), np.minimum(box.max, inside.max)
                under += np.sum(np.all((way > low) & (way < high), axis=1))
    return int(under)
