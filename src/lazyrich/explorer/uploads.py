"""A user's data file, read in memory: its correlations, as a state holds them.

    CSV   numbers separated by commas, rows being samples; the first line may hold names. Columns named y…, target… or
          output… are targets and the others inputs; where none is named so, the last column is the target.
    NPZ   inputs and targets (or X and Y), rows being samples; or sigma_yx, with sigma_xx and sigma_yy if there are.

Nothing is unpickled, and nothing is written to disk. What an archive declares is bounded before it is unpacked, and
each fault is one sentence.
"""

from __future__ import annotations

import io
import re
import textwrap
import zipfile
from pathlib import Path

import numpy as np

import lazyrich as lr
from lazyrich import _check, _files
from lazyrich._check import InvalidInput
from lazyrich._typing import Array
from lazyrich.explorer.state import MOST_UNITS, packed, unpacked
from lazyrich.explorer.wire import Header

MOST_UPLOAD = 8 * 2**20  # bytes of a file
_MOST_UNPACKED = 2 * MOST_UPLOAD  # bytes of the arrays that are read; one byte may become a number of eight
_MOST_MEMBERS = 64
_MOST_LINES = 100_000  # of a CSV, which take a second to read
_CORRELATIONS = ("sigma_yx", "sigma_xx", "sigma_yy")
_KNOWN = {*_CORRELATIONS, *(name for pair in _files.DATA_KEYS for name in pair)}
_TARGET = re.compile(r"y(?![a-z])|target|output", re.IGNORECASE)  # y, y1 and y_mass, but not year


def read_upload(name: str, content: bytes) -> Header:
    """The choices that put the data of a file into a state, and what was found, in words.

    >>> found = read_upload("points.csv", b"a,b,y\\n1,0,2\\n0,1,3\\n")
    >>> found["sentence"], found["state"]["task"]
    ('2 inputs, 1 output (y), 2 samples', 'uploaded')
    """
    label, suffix = _check.shown(name), Path(name).suffix.lower()
    if suffix not in (".csv", ".npz"):
        raise InvalidInput(f"{label} must be a .csv or .npz file to be read as data.")
    if not content:
        raise InvalidInput(f"{label} is empty.")
    if len(content) > MOST_UPLOAD:
        raise InvalidInput(
            f"{label} is too large: {len(content):,} bytes, and {MOST_UPLOAD:,} are the most that is read."
        )
    with _files.faults_of(label, suffix):
        task, sentence = (_of_csv if suffix == ".csv" else _of_npz)(label, content)
    return {"state": {"task": "uploaded", "data": _packed(label, task)}, "sentence": sentence}


def _packed(label: str, task: lr.Task) -> str:
    """The correlations as a text, tried as a view will use it: better a sentence now."""
    means = () if task.inputs is None or task.targets is None else (task.inputs.mean(axis=0), task.targets.mean(axis=0))
    data = packed(task.sigma_yx, task.sigma_xx, task.sigma_yy, *means)
    try:
        lr.Task.from_correlations(*unpacked(data)[:3])
    except InvalidInput as error:
        if task.inputs is None:
            raise
        raise InvalidInput(
            f"{label} must have columns of like sizes, around 1, for correlations that can be used, and these cannot: "
            f"{str(error).rstrip('.')}."
        ) from None
    return data


def _of_csv(label: str, content: bytes) -> tuple[lr.Task, str]:
    first, *_ = content.split(b"\n", 1)
    if (lines := content.count(b"\n")) > _MOST_LINES or first.count(b",") >= 2 * MOST_UNITS:
        raise InvalidInput(
            f"{label} must have at most {_MOST_LINES:,} lines of {2 * MOST_UNITS} columns, and it has {lines:,} of "
            f"{first.count(b',') + 1:,}: try fewer samples, or their correlations as NPZ."
        )
    names, table = _files.table_of(io.StringIO(content.decode("utf-8-sig"), newline=""), label)
    columns = table.shape[1]
    chosen = [k for k, name in enumerate(names) if _TARGET.match(name)] or [columns - 1]
    if len(chosen) == columns:
        came = "there is one" if columns == 1 else f"the names of all {columns} are those of targets"
        raise InvalidInput(f"{label} must have a column of inputs and one of targets, separated by commas, and {came}.")
    which = textwrap.shorten(", ".join(names[k] for k in chosen), 60, placeholder=" …") if names else "the last column"
    return _of_samples(label, np.delete(table, chosen, axis=1), table[:, chosen], f" ({which})")


def _of_npz(label: str, content: bytes) -> tuple[lr.Task, str]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        arrays = _arrays(label, archive)
    for first, second in _files.DATA_KEYS:
        if first in arrays and second in arrays:
            return _of_samples(label, arrays[first], arrays[second])
    yx, xx, yy = (arrays.get(name) for name in _CORRELATIONS)
    d_out, d_in = _check.as_matrix(f"sigma_yx in {label}", yx).shape
    _bound_units(label, d_in, d_out)
    return lr.Task.from_correlations(arrays["sigma_yx"], xx, yy), f"{_units(d_in, d_out)}, as correlations"


def _of_samples(label: str, inputs: Array, targets: Array, which: str = "") -> tuple[lr.Task, str]:
    X, Y = (values[:, None] if values.ndim == 1 else values for values in (inputs, targets))
    X, Y = _check.as_matrix(f"inputs in {label}", X), _check.as_matrix(f"targets in {label}", Y)
    _bound_units(label, X.shape[1], Y.shape[1])
    return lr.Task.from_data(X, Y), f"{_units(X.shape[1], Y.shape[1])}{which}, {_counted(len(X), 'sample')}"


def _bound_units(label: str, d_in: int, d_out: int) -> None:
    if max(d_in, d_out) > MOST_UNITS:
        raise InvalidInput(
            f"{label} must have at most {MOST_UNITS} inputs and {MOST_UNITS} outputs, and it has {d_in} and {d_out}."
        )


def _units(d_in: int, d_out: int) -> str:
    return f"{_counted(d_in, 'input')}, {_counted(d_out, 'output')}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _arrays(label: str, archive: zipfile.ZipFile) -> dict[str, Array]:
    """Those that matter, by name; others are not even unpacked."""
    names = [name.removesuffix(".npy") for name in archive.namelist()]
    if len(names) > _MOST_MEMBERS:
        raise InvalidInput(f"{label} must hold at most {_MOST_MEMBERS} arrays, and it holds {len(names):,}.")
    if not any(set(pair) <= set(names) for pair in _files.DATA_KEYS) and "sigma_yx" not in names:
        raise InvalidInput(
            f"{label} must hold inputs and targets (or X and Y), or sigma_yx, and it holds {_check.shown(names)}."
        )
    return _files.arrays_of(archive, label, only=_KNOWN, most=_MOST_UNPACKED)
