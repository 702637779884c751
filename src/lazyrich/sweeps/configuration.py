"""What a store remembers of its grid, and how another one differs from it, entry by entry.

`name` and `about` are words for people, and may differ; everything else decides about the numbers.
"""

from __future__ import annotations

import json
import platform
from contextlib import suppress
from datetime import UTC, datetime

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._version import __version__
from lazyrich.sweeps.axes import Value
from lazyrich.sweeps.grid import Grid, Json, label

_MANY = 6  # values of an axis shown in a message
_FREE = ("name", "about")


def configuration(grid: Grid) -> Json:
    """As JSON gives it back, with the size of the blocks in full."""
    content = grid.as_dict() | {"observables": [*map(label, grid.observables)]}
    content["block"] = dict(zip(grid.axes, grid.block_shape, strict=True))
    try:
        return json.loads(json.dumps(content, allow_nan=False))
    except (TypeError, ValueError):
        raise InvalidInput(
            f"settings must hold finite numbers, words, lists or tables, and it is {_check.shown(grid.settings)}."
        ) from None


def differences(stored: Json, asked: Json) -> list[str]:
    """One line for each entry that is not the same."""
    old, new = entries(stored), entries(asked)
    lines = []
    for name in dict.fromkeys([*old, *new]):
        was, will = old.get(name), new.get(name)
        if was == will:
            continue
        lines.append(f"{name}: {_in_words(was)} → {_in_words(will)}")
        if isinstance(was, list) and isinstance(will, list) and len(was) == len(will) > _MANY:
            first = next(i for i, (a, b) in enumerate(zip(was, will, strict=True)) if a != b)
            lines[-1] += f", first in entry {first}: {was[first]} → {will[first]}"
    if not lines and list(stored["axes"]) != list(asked["axes"]):  # JSON's tables are equal in any order
        lines = [f"order of axes: {', '.join(stored['axes'])} → {', '.join(asked['axes'])}"]
    return lines


def contains(asked: Json, stored: Json) -> bool:
    """Whether all that is stored is asked for, perhaps with new values of axes, or new rows of a table behind it."""
    axes, rows = asked["axes"], stored.get("table", {})
    if list(axes) != list(stored["axes"]) or not all(set(axes[axis]).issuperset(was) for axis, was in _axes(stored)):
        return False
    columns = asked.get("table", {})
    return list(rows) == list(columns) and all(columns[name][: len(was)] == was for name, was in rows.items())


def grown(stored: Json, asked: Json) -> Json:
    """Axes and table that hold what is stored, and behind it what is new; what is stored if it is not asked for."""
    if not contains(asked, stored):
        asked = stored
    axes = {}
    for axis, was in _axes(stored):
        there = set(was)
        axes[axis] = [*was, *(value for value in asked["axes"][axis] if value not in there)]
    return {"axes": axes} | ({"table": asked["table"]} if asked.get("table") else {})


def _axes(stored: Json) -> list[tuple[str, list[Value]]]:
    return list(stored["axes"].items())


def entries(configuration: Json) -> Json:
    """All that must be the same, under names such as axes.tau."""
    flat = {name: value for name, value in configuration.items() if name not in _FREE}
    for table in ("axes", "settings", "block", "table"):
        flat |= {f"{table}.{name}": value for name, value in flat.pop(table, {}).items()}
    return flat


def _in_words(value: object) -> str:
    if value is None:
        return "nothing"
    if not isinstance(value, list):
        return str(value)
    shown = [str(entry) for entry in value]
    return ", ".join(shown if len(shown) <= _MANY else [*shown[:3], "…", f"{shown[-1]} ({len(shown)} values)"])


def origin() -> Json:
    """With what, when and where."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {"lazyrich": __version__, "python": platform.python_version(), "platform": platform.platform()}
    for package in ("numpy", "jax", "zarr"):
        with suppress(PackageNotFoundError):  # run from a folder, or not needed
            versions[package] = version(package)
    return {"versions": versions, "created": now(), "host": platform.node()}


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
