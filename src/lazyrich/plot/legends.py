"""Legends that cover nothing: what lies under a legend is looked at, in the picture as it will be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lazyrich._typing import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

_CORNERS = ("upper right", "upper left", "lower right", "lower left")
_PLACES = (*_CORNERS, "center right", "center left", "upper center", "lower center", "center")
_BESIDE = ("upper left", (1.0, 1.0))  # its own corner, and the point of the axes where that lies
_GRID, _TINT = 220, 12  # as dark and as coloured as paper with a grid may be, of 255


def uncover(figure: Figure) -> Figure:
    """Moves every legend that covers something drawn: to an empty place of its axes, or beside them if there is none.

    A legend beside its axes makes them narrower, so that all are looked at again.
    """
    legends = [legend for axes in figure.axes if (legend := axes.get_legend()) is not None]
    inside = list(legends)
    for _ in legends:
        ink = _ink(figure, legends)
        moved = [legend for legend in inside if not _find_place(legend, ink)]
        if not moved:
            break
        for legend in moved:
            legend.set_loc(_BESIDE[0])
            legend.set_bbox_to_anchor(_BESIDE[1])
            inside.remove(legend)
    return figure


def _find_place(legend: Legend, ink: Array) -> bool:
    if _is_free(legend, ink):
        return True
    legend.set_bbox_to_anchor(None)
    for place in _PLACES:
        legend.set_loc(place)
        if _is_free(legend, ink):
            return True
    return False


def _ink(figure: Figure, legends: list[Legend]) -> Array:
    """Where the figure shows more than paper and grid, without its legends, which keep their places."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # once with them, for the layout
    layout = figure.get_layout_engine()
    figure.set_layout_engine("none")
    for legend in legends:
        legend.set_visible(False)
    canvas.draw()
    for legend in legends:
        legend.set_visible(True)
    figure.set_layout_engine(layout)
    shades = np.asarray(canvas.buffer_rgba())[:, :, :3].astype(int)
    darkest, lightest = shades.min(axis=2), shades.max(axis=2)
    return (darkest < _GRID) | (lightest - darkest > _TINT)


def _is_free(legend: Legend, ink: Array) -> bool:
    box = legend.get_window_extent()
    rows = slice(max(int(len(ink) - box.y1), 0), max(int(np.ceil(len(ink) - box.y0)), 0))
    return not ink[rows, max(int(box.x0), 0) : max(int(np.ceil(box.x1)), 0)].any()
