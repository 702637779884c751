"""What the figures of the four deep-network experiments share: results from a store or a preset, and curves by α.

The published experiments take a GPU. Where their results are kept (`_kept`), the preset "paper" draws these; other
presets are trained on the spot, by the same machinery, and a store of one's own is drawn, finished or not. Curves are
means over seeds, with bands of one standard deviation, and colours go from blue (α below 1, downstream: lazy)
over grey to orange (above 1, upstream: rich).
"""

import dataclasses
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from lazyrich import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.papers.base.figure import Axes, DataArray, Dataset, Picture
from lazyrich.papers.base.types import Colour, Row
from lazyrich.papers.experiment import experiment as preset_of
from lazyrich.papers.kunin2024.figures._kept import configuration_of, is_published, kept, load_kept
from lazyrich.papers.kunin2024.figures._shared import as_text
from lazyrich.plot import style
from lazyrich.sweeps.grid import STATUS
from lazyrich.sweeps.local import suitable_workers
from lazyrich.sweeps.run import run
from lazyrich.sweeps.store import open_store

_NAMES = {"alpha": "α", "tau": "τ", "points": "numbers of samples"}
_LETTERS = 15  # of a caption, in an inch
_TICKS = 8


# where the numbers come from --------------------------------------------------------------------------------


def results(kind: str, axes: Sequence[str], store: str, preset: str, **changes: Any) -> Dataset:
    """What the networks of a stored experiment gave, of a preset that is kept, or of one that is trained now.

    A preset with `changes` is trained.

    Over `axes`, then records. Attributes: `made_of` in words, `says` (the sentence of its report), `missing` (the part
    of the networks that have not come to their end), `published` (1 if it is the paper's experiment, and complete).
    """
    if store:
        return _stored(Path(store), kind, axes)
    experiment = preset_of(kind, preset).changed(**changes)
    if experiment.name in kept() and not changes:
        return _told(load_kept(experiment.name), kind, axes)
    with TemporaryDirectory() as folder:
        out = Path(folder) / "experiment"
        summary = run(experiment, out, workers=suitable_workers(experiment))
        if summary.failed_blocks:
            raise RuntimeError(f"{experiment.name} could not be trained: {next(iter(summary.failed_blocks.values()))}")
        return _stored(out, kind, axes)


def _stored(folder: Path, kind: str, axes: Sequence[str]) -> Dataset:
    with open_store(folder) as data:
        configuration = configuration_of(data)
        found = configuration.get("experiment")
        if found != kind:
            instead = f"the sweep {configuration['name']!r}" if found is None else f"one of the kind {found}"
            remedy = f"lazyrich experiment {kind} --out DIR makes one that does"
            wanted = f"an experiment of the kind {kind}"
            raise InvalidInput(f"store must hold {wanted}, and {folder} holds {instead}: {remedy}.")
        data = data.load()
    if not (data["status"] == STATUS.index("complete")).any():
        networks = f"none of the {data['status'].size:,} of {folder} is"
        raise InvalidInput(f"store must hold trained networks, and {networks}.")
    return _told(data, kind, axes)


def _told(data: Dataset, kind: str, axes: Sequence[str]) -> Dataset:
    """In order, with what is to be said of it."""
    configuration, complete = configuration_of(data), data["status"] == STATUS.index("complete")
    about = {
        "made_of": _in_words(configuration, data, complete, axes),
        "says": preset_of(kind, "paper").kind.report(data).sentence,
        "missing": float((~complete).mean()),
        "published": int(is_published(data, preset_of(kind, "paper"))),
    }
    return _along(data, configuration, kind, axes).drop_attrs().assign_attrs(about)


def _along(data: Dataset, configuration: dict[str, Any], kind: str, axes: Sequence[str]) -> Dataset:
    """With these axes in order: those that the experiment does not vary have one value, its setting."""
    published = {part.name: part.default for part in dataclasses.fields(preset_of(kind, "paper").kind.Settings)}
    for axis in configuration["axes"]:
        if axis not in axes:
            if data.sizes[axis] > 1:
                values = ", ".join(map(str, data[axis].values))
                raise InvalidInput(
                    f"store must vary {', '.join(axes)} alone, and it varies {axis} too ({values}): train with one of "
                    "these values to draw it."
                )
            data = data.isel({axis: 0}, drop=True)
    for axis in axes:
        if axis not in data.dims:
            data = data.expand_dims({axis: [configuration["settings"].get(axis, published[axis])]})
    return data.sortby(list(axes)).transpose(*axes, ...)


def _in_words(configuration: dict[str, Any], data: Dataset, complete: DataArray, axes: Sequence[str]) -> str:
    """What the experiment is: its name, its images, the size of its grid, and how much of it is there."""
    sizes = [
        f"{data.sizes[axis]} {word}" for axis, word in _NAMES.items() if axis in axes and data.sizes.get(axis, 1) > 1
    ]
    seeds, there = data.sizes.get("seed", 1), int(complete.sum())
    part = "" if there == complete.size else f"; {there:,} of {complete.size:,} networks are there"
    images = configuration["settings"].get("images")
    name = configuration["name"] + (f" on {images}" if images else "")
    return f"{name}: {' × '.join(sizes) or 'one α'}, {seeds} {'seed' if seeds == 1 else 'seeds each'}{part}"


def over_seeds(values: DataArray) -> tuple[DataArray, DataArray]:
    """Mean and standard deviation over the seeds that have a value; of a single one there is no deviation."""
    values = values.astype(float)
    return values.mean("seed"), values.std("seed", ddof=1)


# how they are drawn -----------------------------------------------------------------------------------------


def alpha_colours(alphas: Row) -> list[Colour]:
    """One colour per α: blue below 1, grey at it, orange above, paler towards it."""
    return style.diverging_colours(np.log(alphas))


def curves(panel: Axes, data: Dataset, name: str, along: str, **look: Any) -> None:
    """A curve per α of the mean of `name`, with a band of `name_spread`; gaps where nothing is there."""
    x = data[along].values
    for alpha, colour in zip(data["alpha"].values, alpha_colours(data["alpha"].values), strict=True):
        mean, spread = (data[key].sel(alpha=alpha).values for key in (name, f"{name}_spread"))
        panel.plot(x, mean, color=colour, label=f"α = {as_text(alpha)}", **look)
        panel.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.18, linewidth=0)


def records_along(panel: Axes, records: Array, unit: str) -> None:
    """Epochs or steps from 0 on, logarithmic from the first record: early ones are close to each other."""
    last = float(records[-1]) or 1.0
    first = float(records[1]) if len(records) > 1 else last
    panel.set_xscale("symlog", linthresh=first, linscale=0.5)
    powers = 10.0 ** np.arange(np.floor(np.log10(first)), np.log10(last) + 1)
    for steps in ((1, 2, 5), (1,)):  # all round numbers, or powers of ten where these are too many
        ticks = [0.0, *(tick for tick in np.outer(powers, steps).ravel() if first <= tick <= last)]
        if len(ticks) <= _TICKS:
            break
    panel.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks])
    panel.minorticks_off()
    panel.set_xlim(0, 1.04 * last)
    panel.set_xlabel(f"{unit} (0, then logarithmic)")


def counted(axis: DataArray) -> None:
    """A logarithmic axis (`panel.xaxis`) with whole numbers, written out at 1, 2, 5, 10, …"""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.set_minor_locator(NullLocator())


def by_alpha(panel: Axes, alphas: Float[Array, " n"]) -> None:
    """α along a logarithmic axis, each value named."""
    panel.set_xscale("log")
    panel.set_xticks(alphas, [as_text(alpha) for alpha in alphas])
    panel.minorticks_off()
    panel.set_xlim(alphas.min() / 1.5, alphas.max() * 1.5)
    panel.set_xlabel("α")


def caption(figure: Picture, data: Dataset) -> None:
    """Above: what is drawn. Below: what the numbers say about the effect that the paper shows."""
    grey, width = style.COLOURS["grey"], int(_LETTERS * figure.get_figwidth())
    spread = any(name.endswith("_spread") and values.notnull().any() for name, values in data.data_vars.items())
    made_of = f"{data.attrs['made_of']}{'; mean ± standard deviation over seeds' * spread}"
    figure.suptitle(made_of, fontsize=9.5, color=grey)
    says = re.sub(" ([=÷]) ", "\u00a0\\1\u00a0", str(data.attrs["says"]))  # not to be torn apart
    lines = len(textwrap.wrap(says, width))
    if lines:  # of about the same length
        text = textwrap.fill(says, min(width, len(says) // lines + 12))
        figure.supxlabel(text, fontsize=9, color=grey, x=0.01, ha="left")
