"""How the folder of a sweep comes about, grows, and is put in order: whole at every moment, whoever dies."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich.sweeps import claims, records
from lazyrich.sweeps.configuration import configuration, contains, differences, entries, origin
from lazyrich.sweeps.disk import as_json, faults_of, partial, put, read_json, sync
from lazyrich.sweeps.grid import Grid, Json
from lazyrich.sweeps.layout import GROUP, zarr_files

CODE = "code"
_OLD = 3600.0  # seconds after which a file in the making belongs to a process that died
_MANY = 6  # names of files shown in a message
_FORMAT = 2  # of the folder


def as_folder(out: object) -> Path:
    """A folder of this machine, or of one that it shares; buckets have no renaming, which everything here stands on."""
    if isinstance(out, str) and "://" in out:
        raise InvalidInput(
            f"out must be a folder, and it is {out}: compute into a folder, and copy it there when it is complete; "
            "xarray.open_zarr reads the copy."
        )
    return _check.as_path("out", out)


def holds_a_store(out: Path) -> bool:
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


def create(out: Path, grid: Grid) -> None:
    files = zarr_files(grid, {"format": _FORMAT, "configuration": configuration(grid), **origin()})
    (out / "partial").mkdir(parents=True, exist_ok=True)
    made = partial(out, "data.zarr")
    try:
        for name, content in files.items():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_bytes(content)
        sync(*made.rglob("*"), made)
        os.rename(made, out / "data.zarr")
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
        if not (out / "data.zarr").exists():  # else another process was faster
            raise


def refuse_another(out: Path, grid: Grid, stored: Json, asked: Json, whole: Json, grow: bool) -> None:
    """What is asked for must be in the folder, or may be added to it."""
    more = whole["axes"] != stored["axes"]
    same = {name: stored.get(name, {}) for name in whole}
    fits = not differences(stored | same, asked | same) and contains(asked, stored)
    if fits and (grow or not more):
        return
    advice = "grow=True (--grow) computes what is new" if fits else "try another folder"
    lines = "".join(f"\n  {line}" for line in differences(stored, asked))
    raise InvalidInput(f"{out} holds another {grid.WHAT}: {advice}. Stored → asked:{lines}")


def enlarge(out: Path, grid: Grid, record: Json, asked: Json) -> None:
    """New values of the axes, and then, in one moment, their lengths. The blocks in the folder stay what they are."""
    if at_work := claims.others(out):
        if record_of(out)["configuration"]["axes"] == configuration(grid)["axes"]:
            return  # one of several that grow it together was faster, and is at work
        raise InvalidInput(f"{out} can grow when nobody computes in it, and {len(at_work)} blocks are at work.")
    shown = {axis: values for axis, values in asked.items() if values != grid.as_dict()["axes"][axis]}
    larger = {name: part for name, part in configuration(grid).items() if name in ("axes", "table")}
    files = zarr_files(grid, record | {"configuration": record["configuration"] | larger, "shown": shown})
    for name, content in files.items():
        if name.partition("/")[0] in (*grid.axes, *grid.table) and not name.endswith(GROUP):
            put(out, out / "data.zarr" / name, content)
            sync((out / "data.zarr" / name).parent)
    put(out, out / "data.zarr" / GROUP, files[GROUP])
    sync(out / "data.zarr")


def record_of(out: Path) -> Json:
    """Configuration, versions, when and where, as stored."""
    path = out / "data.zarr" / GROUP
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
    if record.get("format") != _FORMAT:
        raise InvalidInput(
            f"{out} was made by another version of lazyrich, and cannot be gone on with: take another folder; "
            "xarray.open_zarr reads its data.zarr."
        )
    return record


def _length_of(array: Path) -> object:
    """Of the axes of an array, by its own file; None where that is damaged."""
    with suppress(Exception):
        return read_json(array)["shape"]
    return None


def tidy(out: Path, grid: Grid, record: Json) -> None:
    """Adds what a creator that died did not come to, and removes what writers that died left."""
    for name in (records.FOLDER, CODE, claims.FOLDER, "partial"):
        (out / name).mkdir(exist_ok=True)
    last = out / "data.zarr" / "status" / GROUP  # of the arrays' own metadata, which follow those of the group
    if _length_of(last) != [*grid.shape]:
        files = zarr_files(grid, record)
        for name in sorted(files, key=lambda name: name == f"status/{GROUP}"):
            if name.endswith(f"/{GROUP}"):
                put(out, out / "data.zarr" / name, files[name])
    copy, content = out / "sweep.json", as_json(record)
    if not copy.exists() or copy.read_bytes() != content:
        put(out, copy, content)
    sync(out)
    for path in (out / "partial").iterdir():
        with suppress(OSError):  # gone meanwhile
            if time.time() - path.stat().st_mtime > _OLD:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
