"""What a sweep has computed, or an experiment, in one folder: labelled arrays that survive the death of any process.

    DIR/data.zarr      the arrays, xarray over Zarr v3, and as attributes the configuration, versions, when and where
    DIR/sweep.json     these attributes again, for people and other programs
    DIR/blocks/        a record of each block that is there: `records`
    DIR/code/          by what blocks were computed: `fingerprint`
    DIR/claims/        who is at which block: `claims`
    DIR/partial/       files in the making
    DIR/log.tsv        block, seconds, when, where: one line for each block written

One block of cells is one chunk of each variable, and one task writes it. Zarr encodes the chunk in memory; it goes to
`partial/`, to the disk, and only then by a rename to its place: there is never half a chunk. The record of the block
comes last, after all else of it is on the disk. A process that dies before leaves nothing but a block to compute again.

`data.zarr` is made in `partial/` too, and renamed. Of many processes that start at once one wins, and all go on with
its configuration. A grid grows when the file of all metadata is replaced; new values of an axis stand behind the old.
"""

from __future__ import annotations

import dataclasses
import json
import math
import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._engines import load
from lazyrich._typing import Array
from lazyrich.sweeps import records
from lazyrich.sweeps.axes import Value
from lazyrich.sweeps.configuration import configuration, grown, now
from lazyrich.sweeps.disk import as_json, damage_of, faults_of, put, read_json, sync
from lazyrich.sweeps.folder import (
    CODE,
    as_folder,
    create,
    enlarge,
    holds_a_store,
    record_of,
    record_to_mend,
    refuse_another,
    tidy,
)
from lazyrich.sweeps.grid import ROW, STATUS, Block, Grid, Json, Place, Result
from lazyrich.sweeps.layout import amiss, checked_store, coordinates, decoded, encoded
from lazyrich.sweeps.records import Record

if TYPE_CHECKING:
    import xarray

_FAILED, _PENDING = STATUS.index("failed"), STATUS.index("pending")


class Failure(TypedDict):
    """A cell that is not complete, or that lacks one observable."""

    cell: dict[str, Value]  # by axis
    status: str
    observable: str  # the one that it lacks; empty: the whole cell
    kind: str  # of cause: those of one kind differ in their numbers
    cause: str  # a sentence


class Damage(NamedTuple):
    """A file that is not what was written.

    >>> import tempfile
    >>> from pathlib import Path
    >>> sweep = lr.sweeps.Sweep("tiny", "random_regression", axes={"seed": [0, 1]}, at=[0, 10], method="solve")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = lr.sweeps.run(sweep, folder)
    ...     Path(folder, "data.zarr", "loss", "c.1.0").unlink()
    ...     [(damage.block, damage.path.name, damage.fault) for damage in lr.sweeps.verify(folder)]
    [('1', 'c.1.0', 'is missing')]
    """

    block: str  # its name
    path: Path
    fault: str

    def __str__(self) -> str:
        return f"{self.path} {self.fault}"


@dataclass(frozen=True)
class Store:
    """A folder, and the grid to go on with: the one asked for, in the blocks of the folder."""

    out: Path
    grid: Grid

    @classmethod
    def open_or_create(cls, out: str | Path, grid: Grid, *, hands: int = 1, grow: bool = False) -> Store:
        """The store of a grid, made if it is not there. A folder that holds anything else is refused, and left alone.

        Where the grid does not say how large its blocks are, the store does; it is made for so many workers. With
        `grow`, values of the axes that are not in the folder are added to it.
        """
        out, asked = as_folder(out), configuration(grid)
        with faults_of(out):
            if not holds_a_store(out):
                create(out, grid.with_blocks(hands))
            record = record_to_mend(out)
            stored = record["configuration"]
            asked["block"] = _blocks_of(grid, stored)
            whole = grown(stored, asked)
            refuse_another(out, grid, stored, asked, whole, grow)
            own = dataclasses.replace(grid, block=stored["block"], **whole)  # type: ignore[type-var]
            if whole["axes"] != stored["axes"]:
                enlarge(out, own, record, asked["axes"])
                record = record_of(out)
            tidy(out, own, record)
        return cls(out, own)

    def left(self) -> Array:
        """How many cells of each block are still to be done, by number."""
        self.check_size()
        blocks = map(self.grid.block_at, range(self.grid.blocks))
        return np.array([len(self.pending(block)) for block in blocks])

    def done(self) -> Array:
        """Which blocks are there, by number."""
        return np.asarray(self.left() == 0)

    def pending(self, block: Block) -> tuple[Place, ...]:
        """The cells of a block that are still to be done."""
        record = self._whole(block.name)
        if record is None:
            return tuple(self.grid.places(block))
        starts = [s.start for s in block.region]
        found = np.argwhere(record.status_of(block) == _PENDING) + np.array(starts)
        return tuple(tuple(map(int, place)) for place in found)

    def _whole(self, name: str) -> Record | None:
        """The record of a block, if its files are there."""
        with faults_of(self.out):
            record = records.readable(records.path_of(self.out, name))
            return None if record is None or any(faults(self.out, name, record)) else record

    def damages(self, *, thorough: bool = False) -> list[Damage]:
        """Files of blocks that are not what was written; read from end to end if `thorough`, else by their size."""
        with faults_of(self.out):
            return damages_in(self.out, thorough=thorough)

    def check_size(self) -> None:
        """Refuses to go on with a folder that has grown meanwhile."""
        axes = record_of(self.out)["configuration"]["axes"]
        if [*map(len, axes.values())] != [*self.grid.shape]:
            raise InvalidInput(f"{self.out} has grown since this run began: the same command, begun again, goes on.")

    def forget(self, names: Iterable[str]) -> None:
        """Blocks that are to be computed again from the start."""
        for name in set(names):
            for coming in (True, False):
                records.path_of(self.out, name, coming).unlink(missing_ok=True)

    def forget_failures(self) -> None:
        """Cells that have failed are to be tried again; nothing else of their blocks is."""
        for name in records.names(self.out):
            record = records.readable(records.path_of(self.out, name))
            if record is not None and np.any(record.status == _FAILED):
                status = np.where(record.status == _FAILED, _PENDING, record.status)
                records.write(self.out, name, dataclasses.replace(record, status=status))

    def codes(self) -> set[str]:
        """The fingerprints of all that is there."""
        found = (records.readable(records.path_of(self.out, name)) for name in records.names(self.out))
        return {code for record in found if record is not None for code in record.code}

    def keep_code(self, code: str, fingerprint: Json) -> None:
        """What a fingerprint is of."""
        with faults_of(self.out):
            if not (path := self.out / CODE / f"{code}.json").exists():
                put(self.out, path, as_json(fingerprint))

    def code_of(self, code: str) -> Json:
        """What a fingerprint is of; nothing where its file is lost."""
        path = self.out / CODE / f"{code}.json"
        return dict(read_json(path)) if path.exists() else {}

    def write(self, block: Block, result: Result, seconds: float, code: str = "") -> None:
        """Keeps what a block gave, or some cells of it, which took so many seconds. It then outlives a power cut."""
        with faults_of(self.out):
            old = self._whole(block.name)
            added = old if block.cells is not None else None
            if added is not None:
                result = self._beside(block, result, added)
            arrays, folder = {**result.values, "status": result.status}, self.out / "data.zarr"
            chunks = dict(encoded(folder, name, block, values) for name, values in arrays.items())
            files = {path: records.stamp(content) for path, content in chunks.items()}
            record = dataclasses.replace(Record.of(block, result, code, added), files=files)
            if old is not None:
                records.write(self.out, block.name, record, coming=True)
            for path, content in chunks.items():
                put(self.out, folder / path, content)
                sync((folder / path).parent)
            records.write(self.out, block.name, record)
            records.path_of(self.out, block.name, coming=True).unlink(missing_ok=True)
            with open(self.out / "log.tsv", "ab", buffering=0) as log:  # one call, so that lines stay whole
                log.write(f"{block.number}\t{seconds:.6g}\t{now()}\t{platform.node()}\n".encode())

    def _beside(self, block: Block, result: Result, old: Record) -> Result:
        """What was computed, among what is there of the other cells."""
        chosen, values, folder = records.mask(block), {}, self.out / "data.zarr"
        for path in old.files:
            name = path.partition("/")[0]
            if name in result.values:
                values[name] = decoded(folder, path, block)
                values[name][chosen] = result.values[name][chosen]
        status = np.where(chosen, result.status, old.status_of(block))
        return result._replace(values=values, status=status.astype(np.int8))


def _blocks_of(grid: Grid, stored: Json) -> dict[str, int]:
    """Those of the folder, but where others are asked for; one of a whole axis stays as it is when the axis grows."""
    axes, blocks = stored["axes"], stored["block"]
    other = {axis: n for axis, n in grid.block.items() if n < len(axes.get(axis, ())) or n < blocks.get(axis, 0)}
    return {**blocks, **other}


# what a folder holds ----------------------------------------------------------------------------------------


def open_store(out: str | Path, *, chunks: object = None) -> xarray.Dataset:
    """The results as an xarray Dataset: lazy, at any time, nan and status 0 where nothing is there yet.

    Each chunk is compared with what was written as it is read; where it is something else, an error names the file.

    Parameters
    ----------
    out : folder of a sweep or an experiment
    chunks : as in `xarray.open_zarr`: "auto", {} or sizes for arrays of Dask, None for NumPy's

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
    out = as_folder(out)
    record = record_of(out)
    stored, xarray = record["configuration"], load("xarray", "the store of a sweep", "sweeps")
    along = coordinates(record)  # what the files say of them is not needed
    with damage_of(out / "data.zarr"):
        store = checked_store(out, len(stored["axes"]))
        data = xarray.open_zarr(store, consolidated=True, chunks=chunks, decode_cf=False, drop_variables=[*along])
        data = data[["status", *stored["observables"]]]  # read in this order: values of what is done are there
    # NumPy's usual strings: few packages know Zarr's
    labelled = {name: (axis, _labels(values)) for name, (axis, values) in along.items() if axis in data.dims}
    data = data.assign_coords({name: (*one, {"long_name": name, "units": "1"}) for name, one in labelled.items()})
    for axis, values in record.get("shown", {}).items():
        data = data.sel({axis: _labels(values)})
    # in plain text, attributes go into NetCDF too
    data.attrs = {key: value if isinstance(value, str) else json.dumps(value) for key, value in data.attrs.items()}
    return data


def _labels(values: Sequence[Value]) -> Array:
    array = np.asarray(values)
    return array.astype(float) if array.dtype.kind == "O" else array


def load_store(out: str | Path) -> xarray.Dataset:
    """All results in memory; a damaged file is one sentence."""
    data = open_store(out)
    with damage_of(as_folder(out)):
        return data.load()


def configuration_in(out: str | Path) -> Json:
    """What a folder holds the results of, as `configuration` made it."""
    return dict(record_of(as_folder(out))["configuration"])


def failures(out: str | Path) -> list[Failure]:
    """The cells that are not complete, and why; and those without a value of some observable.

    Parameters
    ----------
    out : folder of a sweep or an experiment

    Returns
    -------
    list : of {"cell": {axis: value}, "status": word, "observable": the one that it lacks or "", "kind": code, "cause":
        sentence}

    >>> import tempfile
    >>> sweep = lr.sweeps.Sweep("tiny", "random_regression", axes={"seed": [0, 1]}, at=[0, 10], method="solve")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = lr.sweeps.run(sweep, folder)
    ...     lr.sweeps.failures(folder)
    []
    """
    out = as_folder(out)
    stored = record_of(out)["configuration"]
    found: list[Failure] = []
    for name in records.names(out):
        record = records.read(records.path_of(out, name))
        starts = [int(i) * size for i, size in zip(name.split("."), stored["block"].values(), strict=True)]
        if record is None:
            continue
        for one in record.told:
            status = record.status[tuple(i - start for i, start in zip(one["place"], starts, strict=True))]
            cell = {axis: values[i] for (axis, values), i in zip(stored["axes"].items(), one["place"], strict=True)}
            cell |= {name: values[cell[ROW]] for name, values in stored.get("table", {}).items()}
            why, kind, observable = one["cause"], one["kind"], one["observable"]
            found.append({"cell": cell, "status": STATUS[status], "observable": observable, "kind": kind, "cause": why})
    return found


def by_kind(found: Sequence[Failure]) -> list[list[Failure]]:
    """Those of one status and one kind of cause together, most first."""
    kinds: dict[tuple[str, str, str], list[Failure]] = {}
    for entry in found:
        kinds.setdefault((entry["status"], entry["observable"], entry["kind"]), []).append(entry)
    return sorted(kinds.values(), key=len, reverse=True)


def place_of(entry: Failure) -> str:
    """Its values on the axes."""
    return ", ".join(f"{axis}={value}" for axis, value in entry["cell"].items())


def summary(out: str | Path) -> dict[str, int]:
    """How many cells have which status.

    >>> import tempfile
    >>> from lazyrich.sweeps import Sweep
    >>> sweep = Sweep("mine", "random_regression", axes={"seed": [0, 1]}, at=[0, 2], method="solve", block={"seed": 2})
    >>> with tempfile.TemporaryDirectory() as out:
    ...     Store.open_or_create(out, sweep).done(), summary(out)
    (array([False]), {'pending': 2, 'complete': 0, 'stopped': 0, 'failed': 0})
    """
    out = as_folder(out)
    counts = np.zeros(len(STATUS), int)
    axes = record_of(out)["configuration"]["axes"]
    for name in records.names(out):
        record = records.readable(records.path_of(out, name))
        if record is not None:
            counts += np.bincount(record.status.ravel(), minlength=len(STATUS))
    counts[_PENDING] = math.prod(map(len, axes.values())) - counts[_PENDING + 1 :].sum()
    return {name: int(n) for name, n in zip(STATUS, counts, strict=True)}


def verify(out: str | Path) -> list[Damage]:
    """Reads every chunk, and names those that are not what was written; `run(…, verify=True)` computes them again.

    >>> import tempfile
    >>> sweep = lr.sweeps.Sweep("tiny", "random_regression", axes={"seed": [0, 1]}, at=[0, 10], method="solve")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = lr.sweeps.run(sweep, folder)
    ...     lr.sweeps.verify(folder)
    []
    """
    out = as_folder(out)
    wrong = amiss(out / "data.zarr", record_of(out))
    axes = [Damage("", out / "data.zarr" / name, why) for name, why in wrong.items()]
    return axes + damages_in(out, thorough=True)


def files_in(out: str | Path) -> int:
    """How many chunks the records name."""
    out = as_folder(out)
    found = (records.readable(records.path_of(out, name)) for name in records.names(out))
    return sum(len(record.files) for record in found if record is not None)


def damages_in(out: Path, *, thorough: bool) -> list[Damage]:
    """Files of blocks that are not what was written."""
    found: list[Damage] = []
    for name in records.names(out):
        path = records.path_of(out, name)
        record = records.readable(path)
        found += [Damage(name, path, "cannot be read")] if record is None else faults(out, name, record, thorough)
    return found


def faults(out: Path, name: str, record: Record, thorough: bool = False) -> Iterator[Damage]:
    """What is wrong with the files of a block."""
    for file, stamp in record.files.items():
        path, allowed = out / "data.zarr" / file, [stamp, *records.stamps(out, name, file)]
        if fault := records.fault_of(path, allowed, thorough=thorough):
            yield Damage(name, path, fault)
