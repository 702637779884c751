"""Many networks in one picture: what they do on average and how far they differ, and where they end and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._observable import all_observables
from lazyrich._typing import Array, Float
from lazyrich.landscape.fate import Fate
from lazyrich.plot import style
from lazyrich.trajectory import Trajectory, as_trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS_DRAWN = 12  # modes, say: more cannot be told apart
_COLUMNS_NAMED = 5
_LINES = 200  # single curves in all, of all modes: more are a grey area
_ENDS = 8  # kinds of ends that are told apart
_WIDE = 30.0  # times that differ by more are drawn on a logarithmic axis


def ensemble(
    trajectories: Iterable[Trajectory],
    quantity: str = "loss",
    *,
    quantiles: tuple[float, float] = (0.1, 0.9),
    single: int = 20,
    axes: Axes | None = None,
    log: bool = False,
) -> Figure:
    """What many networks do: their mean, a band between two quantiles, and some of the single curves.

    Parameters
    ----------
    trajectories : of one task or several, all at the same times, as `lr.batch.solve`, `flow` and `descend` give them
    quantity : "loss", or the name of a function of `lr.observables` with one number or one vector per time, such as
        "mode_strengths"; of a vector the first twelve entries
    quantiles : where the band begins and ends, as fractions of the networks
    single : how many curves of single networks are drawn, from the first on
    axes : to draw on, instead of a new figure
    log : a logarithmic axis of the quantity

    Returns
    -------
    Figure

    >>> task = lr.tasks.semantic_hierarchy()
    >>> problems = [lr.Problem(task, lr.inits.zero_balanced(seed, sizes=(8, 14, 8), scale=0.05)) for seed in range(50)]
    >>> lr.plot.ensemble(lr.batch.solve(problems, range(0, 200, 2))).axes[0].get_ylabel()
    'loss'
    """
    runs = _runs(trajectories)
    finite = np.isfinite(np.asarray(runs[0].times))
    if not finite.any():
        raise InvalidInput("trajectories must have a finite time to be drawn at, and their only one is inf.")
    name = _check.choice("quantity", quantity, ("loss", *all_observables()))
    low, high = _quantiles(quantiles)
    few = _check.count("single", single, least=0)
    values, words = _values(runs, name)
    times, values = np.asarray(runs[0].times)[finite], values[:, finite]
    with style.drawn_on(axes) as panel:
        count, band = values.shape[2], len(runs) > 1
        named = f"mean of {len(runs)}" if band else "1 network"
        shades = style.mode_colours(count) if count > 1 else style.series_colours(1)
        for j in range(count):
            _band(panel, times, values[..., j], (low, high), min(few, max(1, _LINES // count)) * (few > 0), shades[j])
            entry = all_observables()[name].dims[0] if count > 1 else ""
            if count == 1 or count <= _COLUMNS_NAMED or j in (0, count - 1):
                panel.lines[-1].set_label(f"{entry} {j + 1}" if entry else named)
        between = f"{100 * low:g} to {100 * high:g} %"
        if count == 1 and band:
            panel.collections[-1].set_label(between)
        many = f"{len(runs)} networks: means, and {between} of them" if band else "1 network"
        title = many if count > 1 else ""
        panel.set(
            xlabel=style.TIME, ylabel=words, yscale="log" if log and np.any(values > 0) else "linear", title=title
        )
        if not log and values.min() >= 0:
            panel.set_ylim(bottom=0.0)
        panel.margins(x=0.01)
        panel.legend(loc="best")
    return style.figure_of(panel)


def fates(fates: Iterable[Fate]) -> Figure:
    """Where many networks end, and when their modes are learned.

    Left: how many end in the global minimum, and in which saddles. Right: the half times of each mode, from the first
    to the last network (thin), the middle 80 % (thick) and the median (circle), with the part of the networks that
    learn it where that is not all.

    Parameters
    ----------
    fates : as `lr.batch.fate` gives them

    Returns
    -------
    Figure

    >>> task = lr.Task.from_correlations(np.diag([3.0, 2.0, 1.0]))
    >>> problems = [lr.Problem(task, lr.inits.zero_balanced(seed, sizes=(3, 3, 3), scale=0.05)) for seed in range(20)]
    >>> len(lr.plot.fates([lr.fate(problem) for problem in problems]).axes)
    2
    """
    known = _fates(fates)
    with style.styled():
        figure = style.new_figure(8.6, 3.9)
        ends, times = figure.subplots(1, 2, width_ratios=(1.0, 1.25))
        _ends(ends, known)
        _half_times(times, known)
    return figure


def _band(
    panel: Axes,
    times: Array,
    curves: Float[Array, "R T"],
    quantiles: tuple[float, float],
    few: int,
    shade: style.Colour,
) -> None:
    """Single curves, band and mean of one number per time; the mean comes last. At a single time the band is a bar, and
    single curves are dots."""
    at_once = len(times) == 1
    for curve in curves[:few]:
        panel.plot(times, curve, "." if at_once else "-", color=shade, alpha=0.25, linewidth=0.7, zorder=1.5)
    if len(curves) > 1:
        low, high = np.quantile(curves, quantiles, axis=0)
        if at_once:
            panel.vlines(times, low, high, color=shade, alpha=0.35, linewidth=6.0, zorder=1.2)
        else:
            panel.fill_between(times, low, high, color=shade, alpha=0.22, linewidth=0.0, zorder=1.2)
    panel.plot(times, curves.mean(axis=0), color=shade, marker="o" if at_once else None)


def _ends(panel: Axes, known: Sequence[Fate]) -> None:
    counts = Counter(fate.missed for fate in known)
    order = sorted(counts, key=lambda missed: (missed != (), -counts[missed], missed))
    bars = [(_named(missed), counts[missed], missed == ()) for missed in order[:_ENDS]]
    if len(order) > _ENDS:
        others = order[_ENDS - 1 :]
        bars = [*bars[: _ENDS - 1], (f"{len(others)} other saddles", sum(counts[missed] for missed in others), False)]
    for place, (_, count, minimum) in enumerate(bars):
        panel.barh(place, count, color=style.COLOURS["blue" if minimum else "orange"], height=0.62)
        panel.annotate(
            f"{100 * count / len(known):.3g} %", (count, place), (4, 0), textcoords="offset points", va="center"
        )
    panel.set_yticks(range(len(bars)), [label for label, _, _ in bars])
    panel.set_ylim(max(len(bars), 4) - 0.5, -0.5)  # two bars are as thin as four
    panel.margins(x=0.2)
    panel.grid(visible=False, axis="y")
    panel.locator_params(axis="x", nbins=4, integer=True)
    panel.set(xlabel="networks", title=f"Ends of {len(known)} networks")


def _named(missed: tuple[int, ...]) -> str:
    if not missed:
        return "global minimum"
    modes = ", ".join(str(i + 1) for i in missed[:3]) + (" …" if len(missed) > 3 else "")
    return f"misses {modes}"


def _half_times(panel: Axes, known: Sequence[Fate]) -> None:
    times = np.stack([fate.half_times for fate in known])[:, :_COLUMNS_DRAWN]
    count, whole = times.shape[1], len(known[0].half_times)
    seen = times[np.isfinite(times)]
    for j, shade in enumerate(style.mode_colours(count)):
        own = times[np.isfinite(times[:, j]), j]
        if not len(own):
            continue
        least, low, median, high, most = np.quantile(own, (0.0, 0.1, 0.5, 0.9, 1.0))
        panel.plot([least, most], [j, j], color=shade, linewidth=1.0)
        panel.plot([low, high], [j, j], color=shade, linewidth=6.0, alpha=0.45, solid_capstyle="butt")
        panel.plot(median, j, "o", color=shade, markersize=6.5)
        if len(own) < len(known):
            part = f"{100 * len(own) / len(known):.3g} % learn it"
            panel.annotate(part, (most, j), (5, 0), textcoords="offset points", va="center", fontsize=8)
    wide = len(seen) > 0 and seen.min() > 0 and seen.max() > _WIDE * seen.min()
    panel.set_yticks(range(count), [str(j + 1) for j in range(count)])
    panel.set_ylim(count - 0.5, -0.5)
    panel.margins(x=0.16)
    title = "When modes are half learned" + (f" ({count} of {whole})" if whole > count else "")
    panel.set(xlabel=style.TIME, ylabel="mode", title=title, xscale="log" if wide else "linear")
    if not len(seen):
        panel.text(0.5, 0.5, "no mode is learned on the way", transform=panel.transAxes, ha="center", va="center")
        panel.set_xticks([])


def _runs(trajectories: object) -> list[Trajectory]:
    """Trajectories at the same times, or a sentence."""
    if isinstance(trajectories, Trajectory) or not isinstance(trajectories, Iterable):
        raise InvalidInput(f"trajectories must be a list of trajectories, and it is a {type(trajectories).__name__}.")
    runs = [as_trajectory(traj) for traj in trajectories]
    if not runs:
        raise InvalidInput("trajectories is empty, and at least one is needed to draw.")
    first = np.asarray(runs[0].times)
    for i, traj in enumerate(runs):
        if not np.array_equal(first, np.asarray(traj.times)):
            raise InvalidInput(
                f"trajectories must share their times, and those of trajectories[{i}] are others than those of the "
                "first: try lr.batch.solve(problems, times) with one vector of times, or traj.at(times)."
            )
    return runs


def _values(runs: Sequence[Trajectory], name: str) -> tuple[Float[Array, "R T m"], str]:
    """Runs, times, and entries of a vector where the quantity is one; and its long name."""
    if name == "loss":
        return np.stack([np.asarray(traj.loss) for traj in runs])[..., None], "loss"
    entry = all_observables()[name]
    found = [np.asarray(entry.measure(traj)) for traj in runs]
    shapes = {value.shape[1:] for value in found}
    if len(shapes) > 1 or len(next(iter(shapes))) > 1:
        sizes = ", ".join(" × ".join(map(str, shape)) or "one number" for shape in sorted(shapes))
        raise InvalidInput(f"quantity must be one number or one vector per time, the same of all, and it has {sizes}.")
    values = np.stack(found)
    return (values[..., None] if values.ndim == 2 else values[..., :_COLUMNS_DRAWN]), entry.long_name


def _quantiles(value: object) -> tuple[float, float]:
    pair = _check.as_array("quantiles", value)
    if pair.shape != (2,) or not 0 <= pair[0] < pair[1] <= 1:
        raise InvalidInput(
            f"quantiles must be two growing fractions, such as (0.1, 0.9), and it is {_check.shown(value)}."
        )
    return float(pair[0]), float(pair[1])


def _fates(fates: object) -> list[Fate]:
    """Fates with as many modes, or a sentence."""
    if isinstance(fates, Fate) or not isinstance(fates, Iterable):
        raise InvalidInput(
            f"fates must be a list of fates, and it is a {type(fates).__name__}: try [lr.fate(problem)]."
        )
    known = list(fates)
    if not known:
        raise InvalidInput("fates is empty, and at least one is needed to draw.")
    for i, fate in enumerate(known):
        if not isinstance(fate, Fate):
            raise InvalidInput(f"fates[{i}] must be a Fate, and it is a {type(fate).__name__}: lr.fate makes one.")
        if len(fate.s) != len(known[0].s):
            raise InvalidInput(
                f"fates must have as many modes, and fates[{i}] has {len(fate.s)}, not {len(known[0].s)}."
            )
    return known
