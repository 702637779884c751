"""What helps against forgetting: how much, what it costs of the new task, and how long it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.plot import style
from lazyrich.sequences.comparison import (
    DECAYING,
    FISHER,
    KINDS,
    LAYER,
    NETWORK,
    REPLAY,
    STOPPING,
    WEIGHTS,
    Remedies,
    Remedy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TICKS = (0, 0.01, 0.05, 0.2, 0.5, 1)
_HOLLOW: style.Look = {"markerfacecolor": "white"}
#: Colour and marker of each kind, in the order of `KINDS`.
_LOOKS: tuple[style.Look, ...] = (
    {"color": "black", "marker": "*", "markersize": 13},
    {"color": style.COLOURS["blue"], "marker": "o"},
    {"color": style.COLOURS["green"], "marker": "s"},
    {"color": style.COLOURS["green"], "marker": "D"} | _HOLLOW,
    {"color": style.COLOURS["pink"], "marker": "v", "markersize": 8},
    {"color": style.COLOURS["orange"], "marker": "^", "markersize": 8},
    {"color": style.COLOURS["grey"], "marker": "X"},
    {"color": "black", "marker": "P", "markersize": 8} | _HOLLOW,
)


def remedies(found: Remedies) -> Figure:
    """Forgetting of the old task, over what is missing of the new one (left) and over the time it takes (right).

    Axes of losses are scaled like their roots, which are distances of maps: so the frontier, below which no network
    can be, is straight. Lines join the settings of one remedy, and the strongest is named.

    Parameters
    ----------
    found : what `lr.sequences.remedies` returns

    Returns
    -------
    Figure

    >>> tasks = [lr.Task.from_correlations(np.diag(s)) for s in ([1.0, 2.0], [2.0, 1.0])]
    >>> found = lr.sequences.remedies(*tasks, lr.inits.aligned(0, tasks[0], hidden=2, strengths=0.1))
    >>> lr.plot.remedies(found).axes[0].get_ylabel()
    'forgotten of the old task'
    """
    if not isinstance(found, Remedies):
        raise InvalidInput(f"found must be what lr.sequences.remedies returns, and it is a {type(found).__name__}.")
    return draw(found.found, found.course)


def draw(found: Sequence[Remedy], course: Float[Array, "T two"]) -> Figure:
    """The same, from the remedies and what is forgotten and missing on the way without one."""
    with style.styled():
        figure = style.new_figure(9.2, 5.4)
        left, right = figure.subplots(1, 2, sharey=True)
        left.plot([0.0, 1.0], [1.0, 0.0], **style.THEORY, label="no network is below")
        missing, forgotten = np.sqrt(np.maximum(course[:, ::-1], 0.0)).T
        left.plot(missing, forgotten, color=style.COLOURS["grey"], linewidth=1.0, zorder=1)
        for kind, look in zip(KINDS, _LOOKS, strict=True):
            some = [each for each in found if each.kind == kind]
            if some:
                _draw(left, some, [_root(each.missing) for each in some], look, kind)
                _draw(right, some, [each.time for each in some], look, None)
        left.set(xlabel="missing of the new task", ylabel="forgotten of the old task", title="What it costs")
        left.set(xlim=(-0.13, 1.04), ylim=(-0.04, 1.08))
        left.set_xticks(np.sqrt(_TICKS), _TICKS)
        left.set_yticks(np.sqrt(_TICKS), _TICKS)
        right.set(xlabel="time to learn the new task as far as it is", xscale="log", title="How long it takes")
        figure.legend(loc="outside lower center", ncols=3)
        return style.uncover(figure)


def _root(part: float) -> float:
    return float(np.sqrt(max(part, 0.0)))


def _draw(panel: Axes, some: list[Remedy], where: list[float], look: style.Look, label: str | None) -> None:
    joined: style.Look = {"linewidth": 1.0, "markersize": 7, "zorder": 4, "clip_on": False} | look
    if some[0].kind in (STOPPING, NETWORK):  # on the course already, and not settings of one thing
        joined["linestyle"] = "none"
    heights = [_root(each.forgetting) for each in some]
    panel.plot(where, heights, **joined, label=label)
    if label is not None and some[0].kind in (REPLAY, WEIGHTS, FISHER, LAYER, DECAYING):
        named = range(len(some)) if some[0].kind == REPLAY else [-1]
        for i in named:
            side, gap = ("right", (-7, -9)) if some[0].kind == REPLAY else ("left", (7, 3))
            panel.annotate(some[i].setting, (where[i], heights[i]), gap, textcoords="offset points", ha=side,
                           fontsize=8, color=look["color"])  # fmt: skip
