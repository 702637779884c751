"""A fit: above, what was measured with the fit through it; below, the profile of every parameter, and the ridge along
which two of them trade off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.plot import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lazyrich.fit import Fit
    from lazyrich.fit.parameters import Coordinate

_ROW = 4  # panels side by side
_DENSE = 400  # times of a fitted curve, besides those of the measurements
_CURVES = 8  # of one readout: more cannot be told apart
_DEEP = 3.0  # times the threshold: how far down a profile is drawn
_EVEN, _DECADES = 0.03, 30.0  # of the largest |λ| that is drawn evenly, and a range that is drawn by factors
_NAMES = {"lam": "λ"}


def draw(fit: Fit) -> Figure:
    """All panels."""
    readouts = fit.likelihood.readouts
    ridges = 0 if fit.subjects else len(fit.trade_offs[:1])
    below = max(1, len(fit.profiles) + ridges)
    columns = below if below <= _ROW else -(-below // 2)
    rows = -(-below // columns)
    times = fit.likelihood.times
    dense = np.union1d(times, np.linspace(times[0], times[-1], _DENSE))
    curves = fit.predicted_at(dense)
    with style.styled():
        figure = style.new_figure(max(6.4, 2.5 * columns, 3.6 * len(readouts)), 3.2 + 2.5 * rows)
        above, under = np.asarray(figure.subfigures(2, 1, height_ratios=(3.2, 2.5 * rows)))
        for place, panel in enumerate(np.atleast_1d(above.subplots(1, len(readouts)))):
            _draw_readout(panel, fit, place, dense, curves[readouts[place].name])
        panels = under.subplots(rows, columns, squeeze=False).ravel()
        for panel in panels[below:]:
            panel.set_axis_off()
        for i, panel in enumerate(panels[: len(fit.profiles)]):
            _draw_profile(panel, fit, i)
            if i % columns == 0:
                panel.set_ylabel("log-likelihood, less\nthe highest")
        if ridges:
            _draw_ridge(panels[below - 1], fit, *fit.trade_offs[0])
    return figure


def _draw_readout(panel: Axes, fit: Fit, place: int, dense: Float[Array, " t"], curves: Array) -> None:
    one, times = fit.likelihood.readouts[place], fit.likelihood.times
    measured, fitted = one.noise.mean, fit.predicted[one.name]
    shown = _shown(one.name, measured, fitted)
    colours = style.mode_colours(len(shown)) if len(shown) > 1 else [style.COLOURS["blue"]]
    for colour, where in zip(colours, shown, strict=True):
        panel.plot(
            times,
            measured.reshape(len(times), -1)[:, where],
            "o",
            color=colour,
            markersize=3.2,
            alpha=0.55,
            markeredgewidth=0,
        )
        panel.plot(dense, curves.reshape(len(dense), -1)[:, where], color=colour, linewidth=1.8)
    panel.plot([], [], "o", color=style.COLOURS["grey"], markersize=3.2, label="measured")
    panel.plot([], [], color=style.COLOURS["grey"], linewidth=1.8, label=f"{fit.model}, fitted")
    panel.set(xlabel="time of the measurements", ylabel=_what(one.name, one.words))
    if place == 0:
        panel.legend()
    panel.margins(x=0.01)


def _what(name: str, words: str) -> str:
    return {"choices": "share of the choice\nthat is right in the end", "accuracy": "share right"}.get(name, words)


def _shown(name: str, measured: Array, fitted: Array) -> list[int]:
    """Which columns are drawn, all axes after time in one: of choices one option per item, else those that move most
    and least."""
    if name == "accuracy" or measured.ndim == 1:
        return [0]
    if name == "choices":
        last, options = fitted[-1].argmax(axis=1), fitted.shape[-1]
        items = np.flatnonzero(np.isfinite(measured[..., 0]).any(axis=0))[:_CURVES]
        return [int(i * options + last[i]) for i in items]
    seen = np.flatnonzero(np.isfinite(measured).any(axis=0))
    order = seen[np.argsort(-np.ptp(fitted[:, seen], axis=0), kind="stable")]
    return [int(k) for k in order[np.unique(np.linspace(0, len(order) - 1, _CURVES).astype(int))]]


def _draw_profile(panel: Axes, fit: Fit, i: int) -> None:
    profile, coordinate = fit.profiles[i], fit.likelihood.space.free[i]
    top = float(profile.log_likelihood.max())
    lost = profile.log_likelihood - top
    interval, estimate = fit.intervals[profile.name], fit.estimates[profile.name]
    panel.axvspan(interval.low, interval.high, color=style.COLOURS["blue"], alpha=0.12, linewidth=0)
    panel.plot(profile.values, lost, color=style.COLOURS["blue"], linewidth=1.8)
    panel.plot([estimate], [0.0], **style.MARK)
    panel.axhline(-fit.within, **style.LIMIT)
    panel.set_ylim(-_DEEP * fit.within, 0.25 * fit.within)
    view = _looked_at(profile.values, lost, _DEEP * fit.within)
    _scale(panel.set_xscale, coordinate, view)
    panel.set_xlim(*view)
    name = _NAMES.get(profile.name, profile.name)
    panel.set(xlabel=name, title=str(interval) if interval.identified else "not identified")
    panel.title.set_fontsize(9)
    panel.tick_params(axis="x", labelsize=8)


def _looked_at(values: Float[Array, " n"], lost: Float[Array, " n"], depth: float) -> tuple[float, float]:
    """From the last value that is too deep to be drawn on the left to the first on the right."""
    seen = np.flatnonzero(lost > -depth)
    ends = values[max(seen[0] - 1, 0)], values[min(seen[-1] + 1, len(values) - 1)]
    return float(min(ends)), float(max(ends))


def _scale(axis: Callable[..., None], coordinate: Coordinate, view: tuple[float, float]) -> None:
    """Logarithmic, where decades are to be seen."""
    size = max(map(abs, view))
    bend = max(abs(coordinate.bend or 0.0), _EVEN * size)
    if coordinate.axis == "symlog" and size > 2 * bend:
        axis("symlog", linthresh=bend)
    elif coordinate.axis == "log" and view[1] > _DECADES * view[0]:
        axis("log")


def _draw_ridge(panel: Axes, fit: Fit, one: str, other: str) -> None:
    """Where the best lies when one of the two is moved, as far as the interval."""
    space = fit.likelihood.space
    i, j = space.names.index(one), space.names.index(other)
    along = [fit.profiles[k].path[fit.profiles[k].log_likelihood >= fit.log_likelihood - fit.within] for k in (i, j)]
    values = space.values(np.concatenate(along))
    panel.plot(values[one], values[other], "o", color=style.COLOURS["orange"], markersize=4, markeredgewidth=0)
    panel.plot([fit.estimates[one]], [fit.estimates[other]], **style.MARK)
    for axis, k, seen in ((panel.set_xscale, i, values[one]), (panel.set_yscale, j, values[other])):
        _scale(axis, space.free[k], (float(seen.min()), float(seen.max())))
    if other == "lam" and values[other].min() >= 0:
        panel.set_ylim(bottom=0)
    names = [_NAMES.get(name, name) for name in (one, other)]
    panel.set(xlabel=names[0], ylabel=names[1], title="as likely along here")
    panel.title.set_fontsize(9)
    panel.tick_params(labelsize=8)
