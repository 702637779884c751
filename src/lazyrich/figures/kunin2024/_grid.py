"""What the figures over overall scale τ and balance δ share: a sweep in numbers, its parts, and heat maps of it.

The published sweeps take days on one core, so their figures are drawn from a store. Without one a small version is
computed, by the same machinery: fewer inputs, neurons and samples, as a flow. Inputs of length 1 give every weight a
share of 1/d, so the rate of the small version is that much lower, and the same steps show the same moments.

Losses are half a mean square, as everywhere here; those of the paper's code are without the half.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.figures.kunin2024._shared import as_text
from lazyrich.plot import style
from lazyrich.sweeps.grid import STATUS
from lazyrich.sweeps.run import run
from lazyrich.sweeps.store import open_store
from lazyrich.sweeps.sweep import published

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Parts", "Row", "draw_rows", "measured", "parts_of", "ratio"]

_AXES = ("seed", "tau", "delta")


class Row(NamedTuple):
    """One observable as a row of heat maps."""

    observable: str
    label: str
    logarithmic: bool = False
    least: float | None = None  # smaller values are drawn as this


class Parts(NamedTuple):
    """Parts of the grid, as masks over (τ, δ); small τ: within a factor of two of the least, large: of the largest."""

    rich: Any  # small τ, δ ≥ 0
    downstream: Any  # small τ, δ in the lower half of its negative values
    lazy: Any  # large τ, any δ


# where the numbers come from --------------------------------------------------------------------------------


def measured(
    name: str, rows: Sequence[Row], store: str, *, points: int, seeds: int, d: int, h: int, n: int
) -> xarray.Dataset:
    """Means over seeds of what the rows show: of the stored sweep, or of a small version of the published one."""
    if store:
        return _stored(Path(store), name, rows)
    whole = published(name)
    points, seeds = _check.count("points", points, least=3), _check.count("seeds", seeds)
    small = dataclasses.replace(
        whole,
        name="small version",
        method="flow",
        rate=whole.rate * d / whole.settings["d"],
        axes={
            "seed": range(seeds),
            "tau": np.geomspace(whole.axes["tau"][0], whole.axes["tau"][-1], points),
            "delta": np.linspace(whole.axes["delta"][0], whole.axes["delta"][-1], points),
        },
        settings={**whole.settings, "d": d, "h": h, "n": n, "test": 1000},
        observables=[row.observable for row in rows],
    )
    with TemporaryDirectory() as folder:
        run(small, Path(folder) / "sweep")
        return _stored(Path(folder) / "sweep", name, rows)


def _stored(folder: Path, name: str, rows: Sequence[Row]) -> xarray.Dataset:
    """The means of a sweep that is stored, finished or not; `name` is the published one that it should be like."""
    observables = [row.observable for row in rows]
    with open_store(folder) as data:
        instead = f"{folder} holds the sweep {_configuration(data)['name']!r}"
        remedy = f"lazyrich sweep {name} --out DIR makes one that does."
        for observable in observables:
            if observable not in data or set(data[observable].dims) != {*_AXES, "step"}:
                over = f"has it over {', '.join(map(str, data[observable].dims))}" if observable in data else "does not"
                wanted = f"{observable} over {', '.join(_AXES)} and step"
                raise InvalidInput(f"store must hold {wanted}, and {instead}, which {over}: {remedy}")
        if np.count_nonzero(data["step"] > 0) < 2:
            raise InvalidInput(f"store must hold two steps after 0, and {instead}, which does not: {remedy}")
        return _means(data, observables)


def _means(data: xarray.Dataset, observables: Sequence[str]) -> xarray.Dataset:
    """Mean and standard error over the seeds that are complete, after step 0, and how many these are."""
    data = data.sortby(["tau", "delta"])
    complete = (data["status"] == STATUS.index("complete")).load()
    if not complete.any():
        raise InvalidInput(f"store must hold complete cells, and none of its {complete.size} is.")
    seeds = complete.sum("seed")
    values = data[list(observables)].isel(step=data["step"].values > 0).load().where(complete)
    errors = values.std("seed") / np.sqrt((seeds - 1).where(seeds > 1))
    means = values.mean("seed").assign({f"{name}_error": errors[name] for name in observables})
    cells = {"cells": complete.size, "missing": float((seeds == 0).mean())}
    made_of = {"made_of": _in_words(_configuration(data), complete)}
    return means.assign(seeds=seeds).transpose("tau", "delta", "step").drop_attrs().assign_attrs(cells | made_of)


def _configuration(data: xarray.Dataset) -> dict[str, Any]:
    configuration: dict[str, Any] = json.loads(data.attrs["configuration"])
    return configuration


def _in_words(configuration: dict[str, Any], complete: xarray.DataArray) -> str:
    """What the sweep is: its name, the size of its grid, its settings, and how much of it is there."""
    grid = " × ".join(str(complete.sizes[axis]) for axis in ("tau", "delta", "seed")) + " students (τ, δ, seed)"
    settings = ", ".join(f"{name} = {value}" for name, value in configuration["settings"].items())
    there = int(complete.sum())
    part = "" if there == complete.size else f"; {there} of {complete.size} cells are there"
    return f"{configuration['name']}: {grid}, {settings}{part}"


# what is read off them --------------------------------------------------------------------------------------


def parts_of(data: xarray.Dataset) -> Parts:
    """The parts of its grid."""
    tau, delta = data["tau"], data["delta"]
    small, large = tau <= 2 * tau.min(), tau >= tau.max() / 2
    return Parts(small & (delta >= 0), small & (delta <= delta.min() / 2), large & (delta == delta))


def ratio(above: Any, below: Any) -> float:
    """A quotient; infinite or nan, which keeps no bound, where a kernel or a loss did not move at all."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.divide(above, below))


# how they are drawn -----------------------------------------------------------------------------------------


def draw_rows(data: xarray.Dataset, rows: Sequence[Row]) -> Figure:
    """A row per observable, with one scale of colours; a column per step; grey where no cell is complete."""
    with style.styled():
        steps = data["step"].values
        figure = style.new_figure(2.35 * len(steps) + 1.2, 2.1 * len(rows) + 0.7)
        panels = figure.subplots(len(rows), len(steps), squeeze=False, sharex=True, sharey=True)
        for row, line in zip(rows, panels, strict=True):
            norm = _norm(row, data[row.observable].values)
            for panel, step in zip(line, steps, strict=True):
                image = _draw_map(panel, data[row.observable].sel(step=step), norm)
            figure.colorbar(image, ax=line, label=row.label, pad=0.01)
            line[0].set_ylabel("balance δ")
        for panel, step in zip(panels[0], steps, strict=True):
            panel.set_title(f"{step:,} steps".replace(",", " "))
        for panel in panels[-1]:
            panel.set_xlabel("scale τ")
        figure.suptitle(str(data.attrs["made_of"]), fontsize=9.5, color=style.COLOURS["grey"])
    return figure


def _norm(row: Row, values: Array) -> Any:
    from matplotlib.colors import LogNorm, Normalize

    if not row.logarithmic:
        return Normalize(0.0, np.nanmax(values))
    least = row.least or float(np.min(values[values > 0], initial=np.nanmax(values))) or 1.0
    return LogNorm(least, max(float(np.nanmax(values)), 1.01 * least), clip=True)


def _draw_map(panel: Axes, values: xarray.DataArray, norm: Any) -> Any:
    tau, delta = values["tau"].values, values["delta"].values
    x, y = np.exp(_edges(np.log(tau))), _edges(delta)
    image = panel.pcolormesh(x, y, values.transpose("delta", "tau").values, norm=norm, cmap="viridis", rasterized=True)
    panel.set_facecolor("#D9D9D9")
    panel.grid(False)
    panel.set_xscale("log")
    ticks = [tick for tick in (0.1, 0.3, 1.0, 2.0) if x[0] <= tick <= x[-1]]
    panel.set_xticks(ticks, [as_text(tick) for tick in ticks])
    panel.minorticks_off()
    return image


def _edges(centres: Float[Array, " n"]) -> Float[Array, " n+1"]:
    """Halfway between neighbours, and as far outside at the ends."""
    half = np.diff(centres) / 2 if len(centres) > 1 else np.array([0.5])
    return np.concatenate([centres[:1] - half[0], centres[:-1] + half[: len(centres) - 1], centres[-1:] + half[-1]])
