"""What the figures over overall scale τ and balance δ share: a sweep in numbers, and its parts; `_maps` draws it.

The published sweeps take a GPU or days, so their results are kept (`_kept`), and drawn unless a store is named. The
other presets are small versions, computed on the spot by the same machinery: fewer inputs, neurons and samples, as a
flow. Inputs of length 1 give every weight a share of 1/d, so the rate of a small version is that much lower, and the
same steps show the same moments.

Losses are half a mean square, as everywhere here; those of the paper's code are without the half.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from lazyrich import InvalidInput, _check
from lazyrich.papers.base.figure import DataArray, Dataset
from lazyrich.papers.kunin2024.figures._kept import configuration_of, is_published, load_kept
from lazyrich.papers.shelf import sweep, sweeps
from lazyrich.sweeps.configuration import configuration, entries
from lazyrich.sweeps.grid import STATUS
from lazyrich.sweeps.run import run
from lazyrich.sweeps.store import open_store
from lazyrich.sweeps.sweep import Sweep

PAPER = "paper"  # the preset whose results are kept
_AXES = ("seed", "tau", "delta")


class _Size(NamedTuple):
    """A small version: values of τ and of δ, seeds, inputs, hidden neurons and samples."""

    points: int
    seeds: int
    d: int = 20
    h: int = 20
    n: int = 200


_SMALL = {"laptop": _Size(points=7, seeds=3), "quick": _Size(points=3, seeds=1)}


class Parts(NamedTuple):
    """Parts of the grid, as masks over (τ, δ); small τ: within a factor of two of the least, large: of the largest."""

    rich: DataArray  # small τ, δ ≥ 0
    downstream: DataArray  # small τ, δ in the lower half of its negative values
    lazy: DataArray  # large τ, any δ


# where the numbers come from --------------------------------------------------------------------------------


def measured(name: str, observables: Sequence[str], store: str, preset: str) -> Dataset:
    """Means over seeds of these observables: of the stored sweep, of the kept one, or of a small version of it."""
    whole = sweep(name)
    if store:
        with open_store(Path(store)) as data:
            _refuse_another(data, store, name, observables)
            return _means(data, observables, whole)
    if _check.choice("preset", preset, (PAPER, *_SMALL)) == PAPER:
        return _means(load_kept(whole.name), observables, whole)
    small = _small(whole, _SMALL[preset], observables)
    with TemporaryDirectory() as folder:
        run(small, Path(folder) / "sweep")
        with open_store(Path(folder) / "sweep") as data:
            return _means(data, observables, small)


def _small(whole: Sweep, size: _Size, observables: Sequence[str]) -> Sweep:
    tau, delta = whole.axes["tau"], whole.axes["delta"]
    return dataclasses.replace(
        whole,
        name="small version",
        method="flow",
        rate=whole.rate * size.d / whole.settings["d"],
        axes={
            "seed": range(size.seeds),
            "tau": np.geomspace(tau[0], tau[-1], size.points),
            "delta": np.linspace(delta[0], delta[-1], size.points),
        },
        settings={**whole.settings, "d": size.d, "h": size.h, "n": size.n, "test": 1000},
        observables=list(observables),
    )


def _refuse_another(data: Dataset, store: str, name: str, observables: Sequence[str]) -> None:
    instead = f"{store} holds the sweep {configuration_of(data)['name']!r}"
    remedy = f"lazyrich sweep {name} --out DIR makes one that does."
    for observable in observables:
        if observable not in data or set(data[observable].dims) != {*_AXES, "step"}:
            over = f"has it over {', '.join(map(str, data[observable].dims))}" if observable in data else "does not"
            wanted = f"{observable} over {', '.join(_AXES)} and step"
            raise InvalidInput(f"store must hold {wanted}, and {instead}, which {over}: {remedy}")
    if np.count_nonzero(data["step"] > 0) < 2:
        raise InvalidInput(f"store must hold two steps after 0, and {instead}, which does not: {remedy}")


def _means(data: Dataset, observables: Sequence[str], asked: Sweep) -> Dataset:
    """Mean and standard error over the seeds that are complete, after step 0, and how many these are.

    Attributes: `made_of` in words, `missing` (the part of the cells asked for that is not there) and `published`.
    """
    data = data.sortby(list(_AXES))
    complete = (data["status"] == STATUS.index("complete")).load()
    if not complete.any():
        raise InvalidInput(f"store must hold complete cells, and none of its {complete.size} is.")
    seeds = complete.sum("seed")
    values = data[list(observables)].isel(step=data["step"].values > 0).load().astype(float).where(complete)
    errors = values.std("seed") / np.sqrt((seeds - 1).where(seeds > 1))
    means = values.mean("seed").assign({f"{name}_error": errors[name] for name in observables})
    about = {
        "made_of": _in_words(configuration_of(data), complete),
        "missing": _missing(configuration_of(data), complete, asked),
        "published": int(asked.name in (sweep(name).name for name in sweeps()) and is_published(data, asked)),
    }
    return means.assign(seeds=seeds).transpose("tau", "delta", "step").drop_attrs().assign_attrs(about)


def _missing(stored: dict[str, Any], complete: DataArray, asked: Sweep) -> float:
    """Part of the cells asked for, seeds included, that are not complete: all of them if the settings are others."""
    free = ("axes.", "block.", "observables")
    had, wanted = (
        {name: value for name, value in entries(content).items() if not name.startswith(free)}
        for content in (stored, configuration(asked))
    )
    if had != wanted:
        return 1.0
    there = complete.sel({axis: np.isin(complete[axis], asked.axes[axis]) for axis in _AXES})
    return 1.0 - int(there.sum()) / asked.cells


def _in_words(stored: dict[str, Any], complete: DataArray) -> str:
    """What the sweep is: its name, the size of its grid, its settings, and how much of it is there."""
    grid = " × ".join(str(complete.sizes[axis]) for axis in ("tau", "delta", "seed")) + " students (τ, δ, seed)"
    settings = ", ".join(f"{name} = {value}" for name, value in stored["settings"].items())
    there = int(complete.sum())
    part = "" if there == complete.size else f"; {there} of {complete.size} cells are there"
    return f"{stored['name']}: {grid}, {settings}{part}"


# what is read off them --------------------------------------------------------------------------------------


def parts_of(data: Dataset) -> Parts:
    """The parts of its grid."""
    tau, delta = data["tau"], data["delta"]
    small, large = tau <= 2 * tau.min(), tau >= tau.max() / 2
    return Parts(small & (delta >= 0), small & (delta <= delta.min() / 2), large & (delta == delta))


def ratio(above: DataArray, below: DataArray) -> float:
    """A quotient; infinite or nan, which keeps no bound, where a kernel or a loss did not move at all."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.divide(above, below))
