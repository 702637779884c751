"""What a sweep has computed, or an experiment, in one folder: labelled arrays that survive the death of any process.

    DIR/data.zarr      the arrays, xarray over Zarr v3, and as attributes the configuration, versions, when and where
    DIR/sweep.json     these attributes again, for people and other programs
    DIR/failures/      NUMBER.json: why cells of that block are not complete
    DIR/partial/       files in the making
    DIR/log.tsv        block, seconds, when, where: one line for each block written

One block of cells is one chunk of each variable, and one task writes it. Zarr encodes the chunk in memory; it goes to
`partial/`, to the disk, and only then by a rename to its place: there is never half a chunk. The chunk of `status`
comes last, after all else of the block is on the disk. It says that the block is done; a process that dies before
leaves nothing but a block to compute again, and one computed twice gets the same bytes.

`data.zarr` is made in `partial/` too, and renamed. Of many processes that start at once one wins, and all go on with
its configuration.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._engines import load
from lazyrich._typing import Array
from lazyrich.sweeps.configuration import configuration, differences, entries, now, origin
from lazyrich.sweeps.disk import as_json, damage_of, faults_of, partial, put, read_json, sync
from lazyrich.sweeps.grid import STATUS, Block, Grid, Json, Result, Value, Variable

if TYPE_CHECKING:
    import xarray
    import zarr

_OLD = 3600.0  # seconds after which a file in the making belongs to a process that died
_MANY = 6  # names of files shown in a message


class Failure(TypedDict):
    """A cell that is not complete."""

    cell: dict[str, Value]  # by axis
    status: str  # "stopped" or "failed"
    kind: str  # of cause: those of one kind differ in their numbers
    cause: str  # a sentence


@dataclass(frozen=True)
class Store:
    """A folder, and the grid to go on with: the one asked for, in the blocks of the folder."""

    out: Path
    grid: Grid

    @classmethod
    def open_or_create(cls, out: str | Path, grid: Grid) -> Store:
        """The store of a grid, made if it is not there. A folder that holds anything else is refused, and left alone.

        Where the grid does not say how large its blocks are, the store does.
        """
        out, asked = _check.as_path("out", out), configuration(grid)
        with faults_of(out):
            if not _holds_a_store(out):
                _create(out, grid.with_blocks())
            record = _record(out)
            stored = record["configuration"]
            if not grid.block:
                asked["block"] = stored["block"]
            if apart := differences(stored, asked):
                lines = "".join(f"\n  {line}" for line in apart)
                raise InvalidInput(f"{out} holds another {grid.WHAT}: try another folder. Stored → asked:{lines}")
            _tidy(out, record)
        return cls(out, grid.in_blocks(stored["block"]))

    def done(self) -> Array:
        """Which blocks are there, by number."""
        there = _status(self.out) != 0
        if there.shape != self.grid.shape:
            raise InvalidInput(f"{self.out} must hold the status of this {self.grid.WHAT}, and it holds another.")
        for axis, size in enumerate(self.grid.block_shape):
            there = np.logical_and.reduceat(there, np.arange(0, there.shape[axis], size), axis=axis)
        return there.ravel()

    def holds(self, block: Block) -> bool:
        """Whether this one is there."""
        zarr, folder = _load("zarr"), self.out / "data.zarr" / "status"
        if not (folder / _chunk_name(block)).exists():  # the usual answer, without Zarr
            return False
        try:
            return bool(np.all(zarr.open_array(folder, mode="r")[block.region] != 0))
        except Exception:  # Zarr and its codecs have many words for a torn chunk
            return False

    def write(self, block: Block, result: Result, seconds: float) -> None:
        """Keeps what a block gave, which took so many seconds. After a return it outlives a power cut."""
        with faults_of(self.out):
            for name, values in result.values.items():
                self._put_chunk(name, block, values)
                sync(self.out / "data.zarr" / name)
            report = self.out / "failures" / f"{block.number}.json"
            if result.causes:
                put(self.out, report, as_json(self._failures(block, result)))
                sync(report.parent)
            else:
                report.unlink(missing_ok=True)
            self._put_chunk("status", block, result.status)
            sync(self.out / "data.zarr" / "status")
            with open(self.out / "log.tsv", "ab", buffering=0) as log:  # one call, so that lines stay whole
                log.write(f"{block.number}\t{seconds:.6g}\t{now()}\t{platform.node()}\n".encode())

    def _put_chunk(self, name: str, block: Block, values: Array) -> None:
        folder = self.out / "data.zarr" / name
        array, files = _in_memory(folder / "zarr.json")
        array[block.region] = values
        name = _chunk_name(block, array.ndim)
        if name in files:
            put(self.out, folder / name, files[name].to_bytes())
        else:  # nothing but nan, which Zarr does not write
            (folder / name).unlink(missing_ok=True)

    def _failures(self, block: Block, result: Result) -> list[Failure]:
        found: list[Failure] = []
        for place, cause in sorted(result.causes.items()):
            status = result.status[tuple(i - s.start for i, s in zip(place, block.region, strict=True))]
            cell = {axis: values[i] for (axis, values), i in zip(self.grid.axes.items(), place, strict=True)}
            found.append({"cell": cell, "status": STATUS[status], "kind": cause.kind, "cause": cause.message})
        return found


# what a folder holds ----------------------------------------------------------------------------------------


def open_store(out: str | Path) -> xarray.Dataset:
    """The results as an xarray Dataset: lazy, at any time, nan and status 0 where nothing is there yet.

    Parameters
    ----------
    out : folder of a sweep or an experiment

    Returns
    -------
    Dataset : with the axes of the grid, then `step` (or `epoch`), then those of the observable itself

    >>> import tempfile
    >>> sweep = lr.sweeps.Sweep("tiny", "random_regression", axes={"seed": [0, 1]}, at=[0, 10, 20], method="solve")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = lr.sweeps.run(sweep, folder)
    ...     dict(lr.sweeps.open(folder).loss.sizes)
    {'seed': 2, 'step': 3}
    """
    out = _check.as_path("out", out)
    observables = _record(out)["configuration"]["observables"]
    xarray, path = _load("xarray"), out / "data.zarr"
    with damage_of(path):
        data = xarray.open_zarr(path, consolidated=False, chunks=None, decode_cf=False)[[*observables, "status"]]
        for axis in [axis for axis, values in data.coords.items() if values.dtype.kind in "TO"]:
            words = np.asarray(data[axis].values.tolist())  # NumPy's usual strings: few packages know Zarr's
            data = data.assign_coords({axis: (axis, words, data[axis].attrs)})
    # in plain text, attributes go into NetCDF too
    data.attrs = {key: value if isinstance(value, str) else json.dumps(value) for key, value in data.attrs.items()}
    return data


def load_store(out: str | Path) -> xarray.Dataset:
    """All results in memory; a damaged file is one sentence."""
    data = open_store(out)
    with damage_of(_check.as_path("out", out)):
        return data.load()


def configuration_in(out: str | Path) -> Json:
    """What a folder holds the results of, as `configuration` made it."""
    return dict(_record(_check.as_path("out", out))["configuration"])


def failures(out: str | Path) -> list[Failure]:
    """The cells that are not complete.

    Parameters
    ----------
    out : folder of a sweep or an experiment

    Returns
    -------
    list : of {"cell": {axis: value}, "status": "stopped" or "failed", "kind": code, "cause": sentence}

    >>> import tempfile
    >>> sweep = lr.sweeps.Sweep("tiny", "random_regression", axes={"seed": [0, 1]}, at=[0, 10], method="solve")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = lr.sweeps.run(sweep, folder)
    ...     lr.sweeps.failures(folder)
    []
    """
    out = _check.as_path("out", out)
    _record(out)
    reports = (path for path in (out / "failures").glob("*.json") if path.stem.isdigit())  # ours, no others
    files = sorted(reports, key=lambda path: int(path.stem))
    return [entry for path in files for entry in read_json(path)]


def by_kind(entries: Sequence[Failure]) -> list[list[Failure]]:
    """Those of one status and one kind of cause together, most first."""
    kinds: dict[tuple[str, str], list[Failure]] = {}
    for entry in entries:
        kinds.setdefault((entry["status"], entry["kind"]), []).append(entry)
    return sorted(kinds.values(), key=len, reverse=True)


def place_of(entry: Failure) -> str:
    """Its values on the axes."""
    return ", ".join(f"{axis}={value}" for axis, value in entry["cell"].items())


def summary(out: str | Path) -> dict[str, int]:
    """How many cells have which status.

    >>> import tempfile
    >>> from lazyrich.sweeps import Sweep
    >>> sweep = Sweep("mine", "random_regression", axes={"seed": [0, 1]}, at=[0, 2], method="solve")
    >>> with tempfile.TemporaryDirectory() as out:
    ...     Store.open_or_create(out, sweep).done(), summary(out)
    (array([False]), {'pending': 2, 'complete': 0, 'stopped': 0, 'failed': 0})
    """
    out = _check.as_path("out", out)
    _record(out)
    counts = np.bincount(_status(out).ravel(), minlength=len(STATUS))
    return {name: int(n) for name, n in zip(STATUS, counts, strict=True)}


def _status(out: Path) -> Array:
    """The status of every cell; 0 where a chunk is not there or cannot be read.

    The files are read first and decoded together: of many small ones, Zarr alone would take several times as long.
    """
    with faults_of(out):
        array, _ = _in_memory(*(out / "data.zarr" / "status").iterdir())
    with suppress(Exception):
        return array[...]
    status = np.zeros(array.shape, array.dtype)
    for place in np.ndindex(*(-(-n // size) for n, size in zip(array.shape, array.chunks, strict=True))):
        region = tuple(slice(i * size, (i + 1) * size) for i, size in zip(place, array.chunks, strict=True))
        with suppress(Exception):
            status[region] = array[region]
    return status


def _in_memory(*paths: Path) -> tuple[zarr.Array, Json]:
    """A Zarr array over copies of its files, and these: a chunk assigned to it comes to be one of them."""
    zarr = _load("zarr")
    from zarr.buffer.cpu import Buffer
    from zarr.storage import MemoryStore

    with damage_of(paths[0].parent):
        files = {path.name: Buffer.from_bytes(path.read_bytes()) for path in paths}
        return zarr.open_array(MemoryStore(files), mode="r+"), files


def _chunk_name(block: Block, ndim: int = 0) -> str:
    """The file of a block, in an array with so many axes; those after the axes of the grid are not divided."""
    return ".".join(["c", *map(str, block.place), *["0"] * (ndim - len(block.place))])


# how a folder comes about -----------------------------------------------------------------------------------


def _holds_a_store(out: Path) -> bool:
    """Whether there is one; a folder with anything else in it is refused."""
    if out.exists() and not out.is_dir():
        raise InvalidInput(f"{out} is a file, and a folder would be made there.")
    others = sorted({path.name for path in out.iterdir()} - {"partial"}) if out.exists() else []
    if (out / "data.zarr").exists():  # asked after the listing: all else but partial/ comes later than data.zarr
        return True
    if others:
        listed = ", ".join(others[:_MANY]) + (", …" if len(others) > _MANY else "")
        raise InvalidInput(f"{out} must be a new or empty folder, or hold a sweep, and it holds {listed}.")
    return False


def _create(out: Path, grid: Grid) -> None:
    zarr, variables = _load("zarr"), grid.variables()
    taken = {grid.unit, "status", *variables, *(dim for variable in variables.values() for dim in variable.dims)}
    for axis in grid.axes:
        if axis in taken or not axis.isidentifier():
            raise InvalidInput(f"an axis must have a name of its own among the results, and {axis!r} cannot be one.")
    record = {"configuration": configuration(grid), **origin()}
    (out / "partial").mkdir(parents=True, exist_ok=True)
    made = partial(out, "data.zarr")
    try:
        _make_arrays(zarr.create_group(store=made, zarr_format=3, attributes=record), grid, variables)
        sync(*made.rglob("*"), made)
        os.rename(made, out / "data.zarr")
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
        if not (out / "data.zarr").exists():  # else another process was faster
            raise


def _make_arrays(group: zarr.Group, grid: Grid, variables: Mapping[str, Variable]) -> None:
    from zarr.codecs import Crc32cCodec, ZstdCodec

    # "c.0.1" and not c/0/1: a folder per variable is all there is to bring to the disk with a chunk
    flat: Json = {"chunk_key_encoding": {"name": "default", "separator": "."}}
    packed = {"compressors": [ZstdCodec(level=1), Crc32cCodec()], **flat}
    for dim, values in {**grid.axes, grid.unit: grid.at}.items():
        about = {"long_name": dim, "units": "1"}
        group.create_array(dim, data=_coordinate(values), dimension_names=[dim], attributes=about, **packed)
    for name, variable in variables.items():
        own = (len(grid.at), *variable.shape)
        group.create_array(
            name,
            shape=(*grid.shape, *own),
            chunks=(*grid.block_shape, *own),
            dtype=grid.dtype,
            fill_value=np.nan,
            dimension_names=[*grid.axes, grid.unit, *variable.dims],
            attributes={"long_name": variable.long_name, "units": variable.units},
            **packed,
        )
    flags = {"long_name": "status", "flag_values": list(range(len(STATUS))), "flag_meanings": " ".join(STATUS)}
    group.create_array(
        "status",
        shape=grid.shape,
        chunks=grid.block_shape,
        dtype="int8",
        fill_value=0,
        compressors=[Crc32cCodec()],  # so small that packing would only cost time
        dimension_names=list(grid.axes),
        attributes=flags,
        **flat,
    )


def _coordinate(values: Sequence[Value]) -> Array:
    array = np.asarray(values)
    if array.dtype.kind == "U":
        return array.astype(np.dtypes.StringDType())  # the strings that Zarr v3 has a lasting form for
    return array.astype(float) if array.dtype.kind == "O" else array  # whole numbers beyond 64 bits


def _record(out: Path) -> Json:
    """Configuration, versions, when and where, as stored."""
    path = out / "data.zarr" / "zarr.json"
    with faults_of(out):
        if not path.exists():
            raise InvalidInput(
                f"{out} holds no sweep and no experiment: try one that `lazyrich sweep … --out` has made, or "
                "`lazyrich experiment`."
            )
    try:
        record = read_json(path)["attributes"]
        entries(record["configuration"])
    except (KeyError, TypeError, AttributeError):
        raise InvalidInput(f"{out} must hold a sweep, and its data.zarr is something else.") from None
    return record


def _tidy(out: Path, record: Json) -> None:
    """Adds what a creator that died did not come to, and removes what writers that died left."""
    for name in ("failures", "partial"):
        (out / name).mkdir(exist_ok=True)
    copy, content = out / "sweep.json", as_json(record)
    if not copy.exists() or copy.read_bytes() != content:
        put(out, copy, content)
    sync(out)
    for path in (out / "partial").iterdir():
        with suppress(OSError):  # gone meanwhile
            if time.time() - path.stat().st_mtime > _OLD:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _load(name: str) -> ModuleType:
    return load(name, "the store of a sweep", "sweeps")
