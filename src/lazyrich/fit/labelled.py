"""What xarray hands over: axes have names, and are put in the order that a fit reads; a Dataset becomes columns.

Nothing here loads xarray: where it is not loaded, nothing came from it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.tasks import Task

_AXES = {"choices": ("item", "option"), "modes": ("mode",), "rsm": ("item", "item_"), "rdm": ("item", "item_", "pair")}
_ALSO = {"sample": "item", "sample_": "item_", "input": "item", "input_": "item_", "output": "option"}


def in_order(kind: str, value: Any, task: Task, times: Float[Array, " T"]) -> Any:
    """Subjects, times, and what else there is, by the names of the axes; anything but a DataArray as it is."""
    xarray = sys.modules.get("xarray")
    if xarray is None or not isinstance(value, xarray.DataArray):
        return value
    known = ("subject", "time", *_AXES.get(kind, ()))
    named = [_ALSO.get(str(name), str(name)) for name in value.dims]
    if "time" not in named or len(set(named)) < len(named) or not set(named) <= set(known):
        raise InvalidInput(
            f"{kind} must have dimensions that are called {', '.join(map(repr, known))}, 'time' at least, and they are "
            f"{', '.join(map(repr, value.dims))}: try .rename(), or .to_numpy() in this order."
        )
    for name, own in zip(named, value.dims, strict=True):
        labels = np.asarray(value.coords[own]) if own in value.coords else np.empty(0, dtype=bool)  # of no kind
        if name == "time" and labels.dtype.kind in "fiu":
            _same_times(kind, labels, times)
        if name in ("item", "item_") and task.items and labels.dtype.kind in "UO":
            each = [_check.choice(f"each item of {kind}", label, task.items) for label in labels.tolist()]
            value = value.isel({own: np.argsort([task.items.index(item) for item in each])})
    return value.to_numpy().transpose(sorted(range(len(named)), key=lambda i: known.index(named[i])))


def _same_times(kind: str, labels: Array, times: Float[Array, " T"]) -> None:
    if labels.shape != times.shape or not np.allclose(labels, times, rtol=1e-6, atol=0):
        raise InvalidInput(
            f"times must be those of {kind}, from {labels.min():g} to {labels.max():g} by its coordinate, and they go "
            f"from {times[0]:g} to {times[-1]:g}: try times={kind}.time."
        )


def columns_of(data: Any, names: tuple[str, ...]) -> Mapping[str, Any]:
    """Those columns of a table that it has; of a Dataset with axes such as subject × time one row for each entry."""
    xarray = sys.modules.get("xarray")
    if xarray is None or not isinstance(data, xarray.Dataset):
        return {name: data[name] for name in names if name in data}
    there = [name for name in names if name in data or (name != "time" and name in data.sizes)]
    spread = xarray.broadcast(*(data[name] for name in there))
    return {name: one.to_numpy().ravel() for name, one in zip(there, spread, strict=True)}
