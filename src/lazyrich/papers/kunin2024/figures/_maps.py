"""Maps over overall scale τ and balance δ: filled contours with lines between them, as the paper draws them.

A row has one scale of colours, so that its columns, the steps, can be compared. The words lazy, rich and delayed rich
stand in the maps of the kernel distance, each where the numbers say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.papers.base.figure import Axes, DataArray, Dataset, Picture
from lazyrich.papers.kunin2024.figures._grid import parts_of
from lazyrich.papers.kunin2024.figures._shared import as_text
from lazyrich.plot import style

_BARE = "#D9D9D9"  # where no cell is complete
_MOVED = 0.1  # of the kernel distance: what has moved less far is lazy
_WIDE = 1e4  # a scale over more than this has powers of ten for ticks, others 1, 2, 5, 10, …
_POWERS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_HALO = "white"


class Row(NamedTuple):
    """One observable as a row of maps."""

    observable: str
    label: str
    logarithmic: bool = False
    least: float | None = None  # smaller values are drawn as this
    colours: str = "viridis"


def draw_rows(data: Dataset, rows: Sequence[Row]) -> Picture:
    """A row per observable, with one scale of colours; a column per step; grey where no cell is complete."""
    with style.styled():
        steps = data["step"].values
        figure = style.new_figure(2.4 * len(steps) + 1.3, 2.15 * len(rows) + 0.6)
        panels = figure.subplots(len(rows), len(steps), squeeze=False, sharex=True, sharey=True)
        for row, line in zip(rows, panels, strict=True):
            scale = _Scale.of(row, data[row.observable].values)
            for panel, step in zip(line, steps, strict=True):
                image = _draw_map(panel, data[row.observable].sel(step=step), scale, row)
            bar = figure.colorbar(image, ax=line, pad=0.01, aspect=14)
            bar.set_label(row.label, fontsize=10.5, fontweight="bold")
            bar.set_ticks(list(scale.ticks), labels=[_number(tick, scale) for tick in scale.ticks])
            bar.minorticks_off()
            line[0].set_ylabel("balance δ")
            if row.observable == "kernel_distance":
                _name_regimes(line, data)
        for panel, step in zip(panels[0], steps, strict=True):
            panel.set_title(f"{step:,} steps".replace(",", " "))
        for panel in panels[-1]:
            panel.set_xlabel("scale τ")
        figure.suptitle(str(data.attrs["made_of"]), fontsize=9.5, color=style.COLOURS["grey"])
    return figure


class _Scale(NamedTuple):
    """Where the contours of a row are, which of them the colour bar names, and the colours between."""

    levels: Float[Array, " n"]
    ticks: Float[Array, " m"]
    norm: Any

    @classmethod
    def of(cls, row: Row, values: Array) -> _Scale:
        from matplotlib.colors import LogNorm, Normalize
        from matplotlib.ticker import MaxNLocator

        most = float(np.nanmax(values))
        if not row.logarithmic:
            levels = np.asarray(MaxNLocator(14, steps=[1, 2, 5, 10]).tick_values(0.0, most or 1.0))
            return cls(levels, levels[::2], Normalize(levels[0], levels[-1]))
        least = row.least or float(np.min(values[values > 0], initial=most)) or 1.0
        powers = np.arange(np.floor(np.log10(least)), np.ceil(np.log10(max(most, 1.01 * least))) + 1)
        if 10.0 ** (powers[-1] - powers[0]) > _WIDE:
            levels = 10.0 ** np.arange(powers[0], powers[-1] + 0.5)
            return cls(levels, levels[::2], LogNorm(levels[0], levels[-1]))
        named = _round_numbers(powers, (1, 2, 5), least, most)
        levels = _round_numbers(powers, (1, 1.4, 2, 3, 5, 7), named[0], named[-1])
        return cls(levels, named, LogNorm(levels[0], levels[-1]))


def _round_numbers(powers: Array, digits: tuple[float, ...], least: float, most: float) -> Float[Array, " n"]:
    """All products of a digit and a power of ten from the last one below `least` to the first one above `most`."""
    numbers = np.sort(np.outer(10.0 ** np.append(powers, powers[-1] + 1), digits).ravel())
    first = max(int(np.searchsorted(numbers, least * (1 + 1e-9))) - 1, 0)
    last = int(np.searchsorted(numbers, most * (1 - 1e-9)))
    return numbers[first : max(last, first + 1) + 1]


def _number(value: float, scale: _Scale) -> str:
    """As people write it: 0.002, or 10⁻⁶ where a scale goes over many powers of ten."""
    if scale.norm.vmin and scale.norm.vmax / scale.norm.vmin > _WIDE:
        return "10" + str(round(np.log10(value))).translate(_POWERS)
    return as_text(value) if abs(value) >= 1e-4 or not value else f"{value:.5f}".rstrip("0")


def _draw_map(panel: Axes, values: DataArray, scale: _Scale, row: Row) -> Any:
    tau, delta = values["tau"].values, values["delta"].values
    drawn = np.clip(values.transpose("delta", "tau").values, scale.levels[0], scale.levels[-1])
    image = panel.contourf(tau, delta, drawn, levels=scale.levels, norm=scale.norm, cmap=row.colours)
    if np.nanmin(drawn) < np.nanmax(drawn):  # elsewhere there is no line to draw
        panel.contour(tau, delta, drawn, levels=scale.levels[1:-1], colors="black", linewidths=0.5)
    if row.least is not None and np.nanmax(drawn) < scale.levels[1]:  # one dark field, which says nothing by itself
        words = f"below {_number(scale.levels[1], scale)}"
        panel.text(0.5, 0.5, words, color="white", ha="center", va="center", transform=panel.transAxes)
    panel.set_facecolor(_BARE)
    panel.grid(False)
    panel.spines[:].set_visible(True)
    panel.set_xscale("log")
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1.0, 2.0) if 0.99 * tau[0] <= tick <= 1.01 * tau[-1]]
    panel.set_xticks(ticks, [as_text(tick) for tick in ticks])
    panel.minorticks_off()
    panel.set(xlim=(tau[0], max(tau[-1], *ticks)), ylim=(delta[0], delta[-1]))
    panel.set_yticks(np.linspace(delta[0], delta[-1], 5))
    return image


def _name_regimes(line: Array, data: Dataset) -> None:
    """What each part is at each step, by how far its kernels have moved: the one below may be lazy at first."""
    from matplotlib.patheffects import withStroke

    tau, delta = data["tau"].values, data["delta"].values
    left, right = tau[0] * (tau[-1] / tau[0]) ** 0.03, tau[0] * (tau[-1] / tau[0]) ** 0.97
    places = {"rich": (left, 0.55 * delta[-1], "left"), "downstream": (left, 0.62 * delta[0], "left")}
    places["lazy"] = (right, 0.0, "right")
    moves = {part: data["kernel_distance"].where(mask).mean(("tau", "delta")) for part, mask in _parts(data)}
    late = float(moves["downstream"][0]) < _MOVED <= float(moves["downstream"][-1])
    words = {"rich": "rich", "downstream": "delayed rich" if late else "rich", "lazy": "rich"}
    for column, panel in enumerate(line):
        for part, (x, y, side) in places.items():
            moved = float(moves[part][column])
            if np.isfinite(moved):
                word = words[part] if moved >= _MOVED else "lazy so far" if part == "downstream" and late else "lazy"
                halo = [withStroke(linewidth=2.5, foreground=_HALO)]
                panel.text(x, y, word, ha=side, va="center", fontsize=9.5, fontweight="bold", path_effects=halo)


def _parts(data: Dataset) -> list[tuple[str, DataArray]]:
    return list(parts_of(data)._asdict().items())
