"""The arrays of a store as files of Zarr: their metadata, their axes, and one chunk of each for every block.

All metadata also stand in the one file of the group (consolidated). It alone says how long the axes are, so a grid
grows in the moment when this file is replaced.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._engines import load
from lazyrich._typing import Array
from lazyrich.sweeps.axes import Value
from lazyrich.sweeps.disk import damage_of
from lazyrich.sweeps.grid import ROW, STATUS, Block, Grid, Json, Variable

if TYPE_CHECKING:
    import zarr
    from zarr.storage import LocalStore

GROUP = "zarr.json"
_OF_AN_AXIS = 1024  # values of an axis in a file: longer axes have more, and what is there stays as it is


def zarr_files(grid: Grid, attributes: Json) -> dict[str, bytes]:
    """Every file of an empty store, by its path."""
    from zarr.storage import MemoryStore

    zarr, store = _load("zarr"), MemoryStore()
    variables = grid.variables()
    _check_names(grid, variables)
    _make_arrays(zarr.create_group(store=store, zarr_format=3, attributes=attributes), grid, variables)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Zarr has it in all versions, and no specification of version 3 has it yet
        zarr.consolidate_metadata(store)
    return {path: content.to_bytes() for path, content in store._store_dict.items()}


def _check_names(grid: Grid, variables: Mapping[str, Variable]) -> None:
    taken = {grid.unit, "status", *variables, *(dim for variable in variables.values() for dim in variable.dims)}
    for axis in (*grid.axes, *grid.table):
        if axis in taken or not axis.isidentifier():
            raise InvalidInput(f"an axis must have a name of its own among the results, and {axis!r} cannot be one.")


def _make_arrays(group: zarr.Group, grid: Grid, variables: Mapping[str, Variable]) -> None:
    from zarr.codecs import Crc32cCodec, ZstdCodec

    # "c.0.1" and not c/0/1: a folder per variable is all there is to bring to the disk with a chunk
    flat: Json = {"chunk_key_encoding": {"name": "default", "separator": "."}}
    packed: Json = {"compressors": [ZstdCodec(level=1), Crc32cCodec()]}
    for name, values in {**grid.axes, grid.unit: grid.at, **grid.table}.items():
        array, about = _coordinate(values), {"long_name": name, "units": "1"}
        made = group.create_array(
            name,
            shape=array.shape,
            chunks=(_OF_AN_AXIS,),
            dtype=array.dtype,
            dimension_names=[ROW if name in grid.table else name],
            attributes=about,
            **packed,
        )
        made[...] = array
    for name, variable in variables.items():
        own = (*((len(grid.at),) if variable.along else ()), *variable.shape)
        group.create_array(
            name,
            shape=(*grid.shape, *own),
            chunks=(*grid.block_shape, *own),
            dtype=grid.dtype,
            fill_value=np.nan,
            dimension_names=[*grid.axes, *((grid.unit,) if variable.along else ()), *variable.dims],
            attributes={"long_name": variable.long_name, "units": variable.units},
            **packed,
            **flat,
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


def coordinates(record: Json) -> dict[str, tuple[str, Sequence[Value]]]:
    """What a folder has along its axes: name → axis and values."""
    stored = record["configuration"]
    found = {axis: (axis, values) for axis, values in stored["axes"].items()}
    found |= {name: (ROW, values) for name, values in stored.get("table", {}).items()}
    return found | {record["unit"]: (record["unit"], stored["at"])}


def amiss(data: Path, record: Json) -> dict[str, str]:
    """Arrays whose own files are not those of a record, and why: the metadata of all, the values of the axes."""
    zarr, stored, axes, found = _load("zarr"), record["configuration"], coordinates(record), {}
    shape = [*map(len, stored["axes"].values())]
    for name in [*axes, *stored["observables"], "status"]:
        with warnings.catch_warnings(), suppress(Exception):
            warnings.simplefilter("ignore")
            array = zarr.open_array(data / name, mode="r")
            if name in axes:
                fits = np.array_equal(np.asarray(array[...]), _coordinate(axes[name][1]))
            else:
                fits = [*array.shape[: len(shape)]] == shape
            if fits:
                continue
        found[name] = "is not what was written" if (data / name / GROUP).exists() else "is missing"
    return found


# chunks -----------------------------------------------------------------------------------------------------


def encoded(data: Path, name: str, block: Block, values: Array) -> tuple[str, bytes]:
    """The chunk of a block, and its path; also if it holds nothing but nan: a file that is missing is damage."""
    with _load("zarr").config.set({"array.write_empty_chunks": True}):
        array, files = _in_memory(data / name / GROUP)
        array[block.region] = values
    ((chunk, content),) = ((chunk, content) for chunk, content in files.items() if chunk != GROUP)
    return f"{name}/{chunk}", bytes(content.to_bytes())


def decoded(data: Path, path: str, block: Block) -> Array:
    """What is in the chunk of a block."""
    array, _ = _in_memory(data / Path(path).parent / GROUP, data / path)
    with damage_of(data / path):
        return np.array(array[block.region])


def _in_memory(*paths: Path) -> tuple[zarr.Array, Json]:
    """A Zarr array over copies of its files, and these: a chunk assigned to it comes to be one of them."""
    zarr = _load("zarr")
    from zarr.buffer.cpu import Buffer
    from zarr.storage import MemoryStore

    with damage_of(paths[0].parent):
        files = {path.name: Buffer.from_bytes(path.read_bytes()) for path in paths}
        return zarr.open_array(MemoryStore(files), mode="r+"), files


def checked_store(out: Path, axes: int) -> LocalStore:
    """The files as Zarr reads them. A block that is not there, or not yet, has no chunks; a chunk that is not what was
    written is one sentence."""
    _load("zarr")
    from lazyrich.sweeps._checked import CheckedStore

    return CheckedStore(out, axes)


def _load(name: str) -> ModuleType:
    return load(name, "the store of a sweep", "sweeps")
