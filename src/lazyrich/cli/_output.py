"""What commands print: tables for people, one JSON document for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows under the names they share; words stand to the left, numbers to the right."""
    columns = []
    for name in rows[0]:
        values = [row[name] for row in rows]
        words = any(isinstance(value, str) for value in values)
        cells = [name.replace("_", " "), *map(_cell, values)]
        width = max(map(len, cells))
        columns.append([cell.ljust(width) if words else cell.rjust(width) for cell in cells])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def json_document(content: Mapping[str, object]) -> str:
    """Standard JSON: NumPy's numbers and arrays as plain ones, what is not finite as null."""
    return json.dumps(_plain(content), indent=2, allow_nan=False)


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.5g}" if math.isfinite(value) else "–"


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
