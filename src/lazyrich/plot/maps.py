"""Phase diagrams: one number of a sweep over two of its axes, or over two columns of its table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._engines import load
from lazyrich._typing import Array
from lazyrich.plot import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COURSES = ("step", "epoch")  # axes along which a run goes: its end is shown, and no mean over it
_BARE = "#D9D9D9"  # where there is no value
_WIDE = 20.0  # an axis from small to so many times as large is logarithmic


def map(data: Any, x: str, y: str, *, axes: Axes | None = None) -> Figure:
    """One number over two axes of a sweep, as colours; the mean over the other axes, at the last recorded step.

    Parameters
    ----------
    data : an array of what `lr.sweeps.open` gives, such as `data.kernel_distance`; choose with `.sel` what is not to
        be averaged
    x, y : names of axes; or of two columns of a table, whose rows are then drawn as points
    axes : to draw on, instead of a new figure

    Returns
    -------
    Figure

    >>> import tempfile
    >>> axes = {"seed": [0, 1], "lam": [-0.5, 0.0, 0.5], "scale": [0.01, 0.1, 1.0]}
    >>> sweep = lr.sweeps.Sweep("mine", "hierarchy", axes=axes, settings={"h": 8}, at=[0, 1000], method="solve")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = lr.sweeps.run(sweep, folder)
    ...     figure = lr.plot.map(lr.sweeps.open(folder).loss, "scale", "lam")
    >>> figure.axes[0].get_title(loc="left")
    'loss at step 1,000, mean over seed'
    """
    xarray = load("xarray", "a map of a sweep", "sweeps")
    if not isinstance(data, xarray.DataArray):
        came = _check.shown(data)
        raise InvalidInput(f"data must be an array of a sweep, such as lr.sweeps.open(folder).loss, and it is {came}.")
    for name, axis in (("x", x), ("y", y)):
        _check.choice(name, axis, _names(data))
    own = {*data[x].dims, *data[y].dims}
    if x == y or (len(own) == 1 and own & {x, y}) or any(data[name].ndim != 1 for name in (x, y)):
        raise InvalidInput(f"x and y must be two axes, or two columns of a table, and they are {x!r} and {y!r}.")
    values, title = _reduced(data, own)
    with style.drawn_on(axes) as panel:
        if len(own) == 1:
            drawn = panel.scatter(data[x], data[y], c=values, cmap="viridis", s=36, edgecolors="white", linewidths=0.5)
        else:
            drawn = _mesh(panel, values.transpose(*data[y].dims, *data[x].dims), x, y)
        for which, name in (("x", x), ("y", y)):
            if _logarithmic(data[name].values):
                panel.set(**{f"{which}scale": "log"})
        panel.set(xlabel=x, ylabel=y, title=title)
        panel.grid(len(own) == 1)
        bar = style.figure_of(panel).colorbar(drawn, ax=panel)
        bar.set_label(str(data.attrs.get("long_name", data.name or "")))
    return style.figure_of(panel)


def _names(data: Any) -> tuple[str, ...]:
    """Axes with values, and columns."""
    return tuple(str(name) for name in data.coords if name not in _COURSES)


def _reduced(data: Any, own: set[Any]) -> tuple[Any, str]:
    """The end of the course, and the mean over what else is no axis of the picture; both in words."""
    words = str(data.name or "")
    for dim in [dim for dim in data.dims if dim in _COURSES]:
        words += f" at {dim} {data[dim].values[-1]:,}" if dim in data.coords else ""
        data = data.isel({dim: -1})
    rest = [str(dim) for dim in data.dims if dim not in own]
    if several := [dim for dim in rest if data.sizes[dim] > 1]:
        words += f", mean over {' and '.join(several)}"
    return (data.mean(rest) if rest else data).load(), words


def _mesh(panel: Axes, values: Any, x: str, y: str) -> Any:
    """A cell of colour around each pair of values."""
    panel.set_facecolor(_BARE)
    values = values.sortby([name for name in (x, y) if values[name].dtype.kind != "U"])  # a sweep that grew is not
    edges = [_edges(values[name].values) for name in (x, y)]
    drawn = panel.pcolormesh(*edges, np.ma.masked_invalid(values.values), cmap="viridis")
    for which, name in (("x", x), ("y", y)):
        labels = values[name].values
        if labels.dtype.kind == "U":
            panel.set(**{f"{which}ticks": range(len(labels)), f"{which}ticklabels": labels})
    return drawn


def _edges(labels: Array) -> Array:
    """Half-way between neighbours, by factors on a logarithmic axis; words stand one apart."""
    places = np.arange(len(labels), dtype=float) if labels.dtype.kind == "U" else labels.astype(float)
    log = labels.dtype.kind != "U" and _logarithmic(labels)
    places = np.log(places) if log else places
    half = np.diff(places) / 2 if len(places) > 1 else np.array([0.5])
    edges = np.concatenate([[places[0] - half[0]], places[:-1] + half[: len(places) - 1], [places[-1] + half[-1]]])
    return np.exp(edges) if log else edges


def _logarithmic(labels: Array) -> bool:
    return labels.dtype.kind != "U" and bool(labels.min() > 0 and labels.max() >= _WIDE * labels.min())
