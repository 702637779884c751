"""What goes over the wire: one JSON header and the arrays it names, as float32.

    4 bytes   length of the header, little-endian
    header    JSON in UTF-8, padded with spaces to a multiple of 4 bytes; `arrays` lists [name, shape] in order
    arrays    float32, little-endian, one after the other

A page reads an array where it lies, without a copy. Numbers in a header that are not finite are null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from lazyrich._typing import Array, ArrayLike

Header = dict[str, Any]  # JSON; `kind` says of what


def encoded(header: Header, arrays: Mapping[str, ArrayLike] | None = None) -> bytes:
    """One message."""
    parts = {name: np.ascontiguousarray(array, dtype="<f4") for name, array in (arrays or {}).items()}
    shapes = [[name, list(array.shape)] for name, array in parts.items()]
    text = json.dumps(plain({**header, "arrays": shapes}), ensure_ascii=False, allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    return b"".join([len(text).to_bytes(4, "little"), text, *(array.tobytes() for array in parts.values())])


def decoded(message: bytes) -> tuple[Header, dict[str, Array]]:
    """Header and arrays of a message, as a client reads them.

    >>> header, arrays = decoded(encoded({"kind": "view"}, {"times": [0.0, 0.5]}))
    >>> header["kind"], arrays["times"]
    ('view', array([0. , 0.5], dtype=float32))
    """
    size = int.from_bytes(message[:4], "little")
    header = json.loads(message[4 : 4 + size])
    arrays, place = {}, 4 + size
    for name, shape in header["arrays"]:
        count = math.prod(shape)
        arrays[name] = np.frombuffer(message, "<f4", count, place).reshape(shape)
        place += 4 * count
    return header, arrays


def plain(value: object) -> object:
    """As JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
