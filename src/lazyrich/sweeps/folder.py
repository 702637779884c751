"""How the folder of a sweep comes about, grows, and is put in order: whole at every moment, whoever dies."""

from __future__ import annotations

import os
import re
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
from lazyrich.sweeps.layout import GROUP, amiss, zarr_files

CODE = "code"
_COPY = "sweep.json"  # of what the file of all metadata says
_OLD = 3600.0  # seconds after which a file in the making belongs to a process that died
_MANY = 6  # names of files shown in a message
_FORMAT = 2  # of the folder
_BUCKET = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")  # of two slashes, a Path keeps one


def as_folder(out: object) -> Path:
    """A folder of this machine, or of one that it shares; buckets have no renaming, which everything here stands on."""
    if isinstance(out, str | os.PathLike) and _BUCKET.match(os.fsdecode(out)):
        raise InvalidInput(
            f"out must be a folder, and it is {out}: compute into a folder, and copy it there when it is complete; "
            "xarray.open_zarr reads the copy."
        )
    path = _check.as_path("out", out)
    try:
        return path.expanduser()
    except RuntimeError:  # nobody has that name
        raise InvalidInput(f"out must be a folder, and there is no home for {path.parts[0]}.") from None


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
    files = zarr_files(grid, {"format": _FORMAT, "configuration": configuration(grid), "unit": grid.unit, **origin()})
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


def record_to_mend(out: Path) -> Json:
    """The same, from its copy where the file itself is lost."""
    try:
        return record_of(out)
    except InvalidInput:
        if _group(out) is None and (out / _COPY).exists():
            return _checked(out, read_json(out / _COPY))
        raise


def _group(out: Path) -> Json | None:
    """What is in the file of all metadata; None where that is damaged."""
    with suppress(InvalidInput):
        return dict(read_json(out / "data.zarr" / GROUP))
    return None


def record_of(out: Path) -> Json:
    """Configuration, versions, when and where, as stored."""
    path = out / "data.zarr" / GROUP
    with faults_of(out):
        if not path.exists() and (out / _COPY).exists():
            raise InvalidInput(f"{path} is missing: the command that made {out} makes it anew.")
        if not path.exists():
            raise InvalidInput(
                f"{out} holds no sweep and no experiment: try one that `lazyrich sweep … --out` has made, or "
                "`lazyrich experiment`."
            )
    try:
        return _checked(out, read_json(path)["attributes"])
    except (KeyError, TypeError, AttributeError):
        raise InvalidInput(f"{out} must hold a sweep, and its data.zarr is something else.") from None


def _checked(out: Path, record: Json) -> Json:
    entries(record["configuration"])
    if record.get("format") != _FORMAT:
        raise InvalidInput(
            f"{out} was made by another version of lazyrich, and cannot be gone on with: take another folder; "
            "xarray.open_zarr reads its data.zarr."
        )
    if "unit" not in record:  # of the first folders: what is no other array
        stored = record["configuration"]
        others = {*stored["axes"], *stored.get("table", {}), *stored["observables"], "status"}
        (record["unit"],) = {path.name for path in (out / "data.zarr").iterdir() if path.is_dir()} - others
    return record


def tidy(out: Path, grid: Grid, record: Json) -> None:
    """Adds what a creator that died did not come to, or what is damaged, and removes what writers that died left."""
    for name in (records.FOLDER, CODE, claims.FOLDER, "partial"):
        (out / name).mkdir(exist_ok=True)
    lost, wrong = _group(out) is None, amiss(out / "data.zarr", record)
    if lost or wrong:
        for name, content in zarr_files(grid, record).items():
            if name.partition("/")[0] in wrong or (lost and name == GROUP):
                (out / "data.zarr" / name).parent.mkdir(parents=True, exist_ok=True)
                put(out, out / "data.zarr" / name, content)
    copy, content = out / _COPY, as_json(record)
    if not copy.exists() or copy.read_bytes() != content:
        put(out, copy, content)
    sync(out)
    for path in (out / "partial").iterdir():
        with suppress(OSError):  # gone meanwhile
            if time.time() - path.stat().st_mtime > _OLD:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
