"""Training and test loss with the best time to stop, and below them what each mode adds to the test loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.plot import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lazyrich.generalisation import Curve

_EARLY = 0.02  # of all time: a best time before this is seen on a logarithmic axis only
_MODES_DRAWN, _MODES_NAMED = 12, 5  # more cannot be told apart, or overfill the legend
_SEEN = 0.02  # of the most that a mode adds or takes: of less, nobody would see when it begins to hurt
_STOP: style.Look = {"color": style.COLOURS["green"], "linewidth": 1.2, "zorder": 1}


def draw(curve: Curve) -> Figure:
    """Losses above; of linear networks, what the modes add below."""
    last = np.isfinite(curve.times)
    if not last.any():
        raise InvalidInput("times must hold a finite one to be drawn, and all are inf: try curve(problem, test).")
    rows = 1 if curve.by_mode is None else 2
    with style.styled():
        figure = style.new_figure(7.2, 3.4 * rows)
        panels = figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
        _draw_losses(panels[0], curve, last)
        if curve.by_mode is not None:
            _draw_modes(panels[1], curve, last)
        panels[-1].set_xlabel(style.TIME)
        end = float(curve.times[last][-1])
        if 0 < curve.best.time < _EARLY * end:
            panels[-1].set_xscale("log", nonpositive="mask")
        return style.uncover(figure)


def _draw_losses(panel: Axes, curve: Curve, last: Array) -> None:
    times, best = curve.times[last], curve.best
    panel.plot(times, curve.train[last], color=style.COLOURS["grey"], label="training loss")
    at, test = np.append(times, curve.course.times), np.append(curve.test[last], curve.course.loss)
    order = np.argsort(at)
    order = order[(at[order] >= times[0]) & (at[order] <= times[-1])]
    panel.plot(at[order], test[order], color=style.COLOURS["orange"], label="test loss")
    if best.time <= times[-1]:
        label = f"stop at t = {best.time:.4g}" if best.time else "stop at once"
        panel.axvline(best.time, **_STOP)
        panel.plot([best.time], [best.loss], **style.MARK, label=label)
    title = f"Never stop: {best.loss:.4g} in the end" if best.never else f"Best test loss {best.loss:.4g}"
    panel.set(ylabel="loss", title=title)
    panel.set_ylim(0.0, 1.08 * float(max(curve.train[last].max(), curve.test[last].max())))
    panel.margins(x=0.01)
    panel.legend()


def _draw_modes(panel: Axes, curve: Curve, last: Array) -> None:
    modes = curve.by_mode
    assert modes is not None
    times, added = curve.times[last], modes.added[last]
    shown = _strongest(added)
    colours = style.mode_colours(len(shown))
    seen = _SEEN * float(np.abs(added).max(initial=0.0))
    for place, (i, colour) in enumerate(zip(shown, colours, strict=True)):
        named = len(shown) <= _MODES_NAMED or place in (0, len(shown) - 1)
        panel.plot(times, added[:, i], color=colour, linewidth=1.6, label=f"mode {i + 1}" if named else None)
        when = modes.hurts_from[i]
        if times[0] < when <= times[-1] and np.abs(added[:, i]).max() > seen:
            panel.plot([when], [np.interp(when, times, added[:, i])], **style.MARK)
    panel.plot(times, modes.rest[last], **style.INTEGRATED, label="outside the modes")
    panel.plot([], [], **style.MARK, label="begins to hurt")
    panel.axhline(0.0, **style.LIMIT)
    if 0 < curve.best.time <= times[-1]:
        panel.axvline(curve.best.time, **_STOP)
    more = added.shape[1] - len(shown)
    words = f"What the {len(shown)} modes add that change most" if more else "What each mode adds"
    panel.set(ylabel="test loss since t = 0", title=words)
    panel.margins(x=0.01)
    panel.legend()


def _strongest(added: Float[Array, "T m"]) -> list[int]:
    """The modes that add or take most, in their own order."""
    size = np.abs(added).max(axis=0)
    return sorted(np.argsort(-size, kind="stable")[:_MODES_DRAWN].tolist())
