"""What a folder knows of each block: one small file, written last, from which all else follows.

    blocks/0.1.json     {"shape": …, "status": "1130…", "causes": […], "code": […], "files": {…}, "crc32": …}

A block is there if its record is, and the files that the record names have the size it names. Cells whose status is 0
are still to be done: a cell that met a fault of the machine, one whose failure is to be tried again, or one that came
with the growth of an axis, of which the record does not know. The checksums say whether a file is still what was
written.

Where some cells of a block are added to others, `0.1.next.json` is written before the files and takes the place of the
record after them: at every moment each file is what one of the two says.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np

from lazyrich._typing import Array
from lazyrich.sweeps.disk import as_json, damage_of, put, sync
from lazyrich.sweeps.grid import STATUS, Block, Json, Result

FOLDER = "blocks"
_PENDING = STATUS.index("pending")


class Told(TypedDict):
    """Why a cell is not complete, or why one observable has no value there."""

    place: list[int]
    observable: str  # empty: the whole cell
    kind: str
    cause: str


class Stamp(TypedDict):
    """What a file must be."""

    bytes: int
    crc32: int


def stamp(content: bytes) -> Stamp:
    return {"bytes": len(content), "crc32": zlib.crc32(content)}


@dataclass(frozen=True)
class Record:
    """What has become of the cells of one block, and the files that hold it."""

    status: Array  # in the shape that the block had then
    told: tuple[Told, ...]
    code: tuple[str, ...]  # fingerprints of what computed it
    files: Mapping[str, Stamp]  # by path, such as loss/c.0.1.0

    @classmethod
    def of(cls, block: Block, result: Result, code: str, old: Record | None) -> Record:
        """Of what was just computed, beside what was there of other cells."""
        told: list[Told] = [] if old is None else [one for one in old.told if tuple(one["place"]) not in _cells(block)]
        for place, cause in result.causes.items():
            told.append({"place": [*place], "observable": "", "kind": cause.kind, "cause": cause.message})
        for (place, name), cause in result.lacking.items():
            told.append({"place": [*place], "observable": name, "kind": cause.kind, "cause": cause.message})
        told.sort(key=lambda one: (one["place"], one["observable"]))
        codes = [*(old.code if old is not None else ()), *([code] if code else [])]
        return cls(result.status, tuple(told), tuple(dict.fromkeys(codes)), {})

    def status_of(self, block: Block) -> Array:
        """In the shape that the block has now: what it did not have then is pending."""
        status = np.full(block.shape, _PENDING, np.int8)
        status[tuple(slice(n) for n in self.status.shape)] = self.status
        return status

    def content(self) -> bytes:
        """As a file: one digit for each cell."""
        digits = "".join(map(str, self.status.ravel().tolist()))
        told: Json = {"shape": [*self.status.shape], "status": digits, "causes": [*self.told], "code": [*self.code]}
        told["files"] = dict(self.files)
        return as_json({**told, "crc32": zlib.crc32(as_json(told))})


def _cells(block: Block) -> set[tuple[int, ...]]:
    return set(block.cells or ())


def mask(block: Block) -> Array:
    """Which cells of a block are those to compute."""
    if block.cells is None:
        return np.ones(block.shape, bool)
    chosen = np.zeros(block.shape, bool)
    for place in block.cells:
        chosen[block.within(place)] = True
    return chosen


# files ------------------------------------------------------------------------------------------------------


def path_of(out: Path, name: str, coming: bool = False) -> Path:
    """Of the record of a block; or of the one that is about to replace it."""
    return out / FOLDER / f"{name}{'.next' * coming}.json"


def read(path: Path) -> Record | None:
    """A record, or None where there is none; one that cannot be read is a sentence."""
    if not path.exists():
        return None
    with damage_of(path):
        content = json.loads(path.read_bytes())
        if content.pop("crc32", None) not in (None, zlib.crc32(as_json(content))):
            raise ValueError("it is not what was written")
        status = np.array([*map(int, content["status"])], np.int8).reshape(content["shape"])
        return Record(status, tuple(content["causes"]), tuple(content["code"]), dict(content["files"]))


def readable(path: Path) -> Record | None:
    """A record; None also where it cannot be read."""
    with suppress(Exception):
        return read(path)
    return None


def write(out: Path, name: str, record: Record, coming: bool = False) -> None:
    path = path_of(out, name, coming)
    put(out, path, record.content())
    sync(path.parent)


def names(out: Path) -> list[str]:
    """The blocks that have a record, in order."""
    found = [path.stem for path in (out / FOLDER).glob("*.json")]
    places = [tuple(map(int, name.split("."))) for name in found if all(part.isdigit() for part in name.split("."))]
    return [".".join(map(str, place)) for place in sorted(places)]


def stamps(out: Path, name: str, file: str) -> Iterator[Stamp]:
    """What a file may be: as the record has it, or the one that is about to replace it."""
    for coming in (False, True):
        record = readable(path_of(out, name, coming))
        if record is not None and file in record.files:
            yield record.files[file]


def fault_of(path: Path, allowed: list[Stamp], *, thorough: bool) -> str:
    """What is wrong with a file; empty where nothing is. Without reading it, only its size is known."""
    try:
        size = path.stat().st_size
        if size not in [one["bytes"] for one in allowed]:
            return f"has {size:,} bytes, and {allowed[0]['bytes']:,} were written"
        if thorough and stamp(path.read_bytes()) not in allowed:
            return "is not what was written"
    except FileNotFoundError:
        return "is missing"
    return ""
