"""Where the files of a data set lie, and how bytes are read from them: never more than were announced.

A compressed file can unpack to a thousand times its size, and a header can announce anything. So readers ask for a
number of bytes that they have held against a limit, and memory is taken as bytes come.
"""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Iterable
from io import BufferedIOBase
from pathlib import Path

import numpy as np

from lazyrich import InvalidInput
from lazyrich._typing import Array

FOLDER_VARIABLE = "LAZYRICH_DATA"
BLOCK = 2**20  # bytes read at once
_GZIP = b"\x1f\x8b"


class Missing(InvalidInput):
    """A file of a data set is not in its folder."""


def folder_of(name: str) -> Path:
    """The folder of a data set: $LAZYRICH_DATA/<name>, or ~/.cache/lazyrich/<name>."""
    return Path(os.environ.get(FOLDER_VARIABLE) or "~/.cache/lazyrich").expanduser() / name


def first_of(folder: Path, names: Iterable[str]) -> Path | None:
    """The first of these files that is there."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def opened(path: Path) -> io.BufferedIOBase:
    """A file to be read, unpacked on the way where it is compressed: its first bytes say so, whatever its name."""
    if not path.is_file():
        raise InvalidInput(f"{path} does not exist or is not a file.")
    with open(path, "rb") as stream:
        packed = stream.read(len(_GZIP)) == _GZIP
    return gzip.open(path, "rb") if packed else open(path, "rb")


def bytes_of(stream: BufferedIOBase, size: int, name: str) -> Array:
    """The next `size` bytes."""
    content = np.empty(size, np.uint8)  # the system gives memory to what is written only: a lie costs nothing
    view, there = content.data, 0
    while there < size:
        got = stream.readinto(view[there : there + BLOCK])
        if not got:
            raise InvalidInput(f"{name} is torn: {size:,} bytes are announced, and {there:,} follow.")
        there += got
    return content


def refuse_more(stream: BufferedIOBase, name: str, size: int) -> None:
    """A stream must end here; the end of a compressed one compares its checksum."""
    if stream.read(1):
        raise InvalidInput(f"{name} goes on after the {size:,} bytes that it announces.")
