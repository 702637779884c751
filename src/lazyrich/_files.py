"""Reading weights and data from files, and writing results: every file is checked before it is believed.

Nothing a file holds is executed or unpickled. Sizes are bounded before anything is read, what a file says of
itself is compared with what it has, and each fault is one sentence that names the file and what to try.
Arrays come back in the precision they were stored in, since facts about a problem depend on it.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
import uuid
import zipfile
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._layers import layers_of, listed, with_biases
from lazyrich._typing import Array, Float

LARGEST = 2 * 2**30  # bytes of numbers in one file
LARGEST_TEXT = 2**28  # bytes of a CSV file: 2 GiB of text would take minutes to read

DATA_KEYS = (("inputs", "targets"), ("X", "Y"), ("x", "y"))

_BY_COMMAS = "columns are separated by commas"
_OR_LABELS = {True: ", or one of labels", False: ""}
_BOUNDED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # of others, zipfile unpacks more than it is asked for
_PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".bin", ".ckpt")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")  # float() takes 1_000 and other digits too


# what is read -----------------------------------------------------------------------------------------------


class NetworkFile(NamedTuple):
    """The layers of a network, first layer first; `biases` is None where it has none."""

    weights: list[Float[Array, "out in"]]
    biases: list[Float[Array, " out"]] | None


def read_network_file(path: str | Path, layers: Sequence[str] | None = None) -> NetworkFile:
    """Weight matrices, and biases where there are any, from .npz or .safetensors (such as a PyTorch `state_dict`).

    `layers` names the weights in order; `_layers` says what is done without it, and which vector is whose bias.
    """
    path = Path(path)
    tensors = _read(path, {".npz": _read_npz, ".safetensors": _read_safetensors}, "a network")
    chosen = layers_of(str(path), tensors, layers, option="--layers")
    return NetworkFile([tensors[name] for name in chosen], with_biases(str(path), tensors, chosen))


def read_state_dict(path: str | Path) -> dict[str, Array]:
    """Every tensor of a .safetensors file by name, such as a `state_dict` of PyTorch."""
    return _read(Path(path), {".safetensors": _read_safetensors}, "a state_dict")


class DataFile(NamedTuple):
    """Inputs, and either targets or the labels of classes, as whole numbers; rows are samples."""

    inputs: Float[Array, "P in"]
    targets: Float[Array, "P out"] | None
    labels: Float[Array, " P"] | None


def read_data_file(path: str | Path, d_in: int, d_out: int) -> DataFile:
    """Samples for a network with `d_in` inputs and `d_out` outputs.

    An .npz file holds them under inputs/targets, X/Y or x/y, or labels in place of targets; a .csv file has `d_in`
    columns of inputs and then `d_out` columns of targets, with or without a line of names. One column of whole numbers
    where a network has several outputs is labels.
    """
    path = Path(path)
    arrays = _read(path, {".npz": _read_npz, ".csv": _read_csv}, "data")
    if path.suffix.lower() == ".csv":
        table = arrays["table"]
        last = table[:, -1]
        if table.shape[1] == d_in + 1 < d_in + d_out and not np.any(last != np.round(last)):
            return DataFile(table[:, :d_in], None, last)
        if table.shape[1] != d_in + d_out:
            hint = f"; {_BY_COMMAS}" if table.shape[1] == 1 else ""
            raise InvalidInput(
                f"{path} must have {d_in} columns of inputs and then {d_out} of targets{_OR_LABELS[d_out > 1]}, as the "
                f"network has, and there are {table.shape[1]}{hint}."
            )
        return DataFile(table[:, :d_in], table[:, d_in:], None)
    for first, second in DATA_KEYS:
        if first in arrays and second in arrays:
            inputs = _samples(f"{first} in {path}", arrays[first], d_in, "inputs")
            targets = _samples(f"{second} in {path}", arrays[second], d_out, "outputs")
            if len(inputs) != len(targets):
                raise InvalidInput(
                    f"{path} must hold one row of {second} per row of {first} ({len(inputs)}), and it has "
                    f"{len(targets)}; rows are samples."
                )
            return DataFile(inputs, targets, None)
        if first in arrays and "labels" in arrays:
            inputs, labels = _samples(f"{first} in {path}", arrays[first], d_in, "inputs"), arrays["labels"]
            if labels.shape != (len(inputs),):
                raise InvalidInput(
                    f"labels in {path} must be a vector of one per row of {first} ({len(inputs)}), and its shape is "
                    f"{labels.shape}."
                )
            return DataFile(inputs, None, labels)
    raise InvalidInput(
        f"{path} must hold inputs and targets (or X and Y), or inputs and labels, and it holds {listed(arrays)}."
    )


def read_matrix_file(path: str | Path) -> Float[Array, "out in"]:
    """One matrix from .npy, .npz (which must hold nothing else) or .csv."""
    path = Path(path)
    arrays = _read(path, {".npy": _read_npy, ".npz": _read_npz, ".csv": _read_csv}, "a matrix")
    if len(arrays) != 1:
        raise InvalidInput(f"{path} must hold one matrix, and it holds {listed(arrays)}.")
    name, matrix = next(iter(arrays.items()))
    _check.as_matrix(f"{name} in {path}", matrix)
    return matrix


# what is written --------------------------------------------------------------------------------------------


def output_path(given: str | Path, default_name: str) -> Path:
    """The file to write: `given`, or `default_name` in it if it is a folder. Folders must exist."""
    if not isinstance(given, str | os.PathLike):
        raise InvalidInput(f"path must be the name of a file, and it is {_check.shown(given)}.")
    text, path = os.fspath(given), Path(given)
    try:
        if path.is_dir() or text.endswith(("/", os.sep)) or not path.suffix:
            path = path / default_name
        if not path.parent.is_dir():
            raise InvalidInput(f"{path} cannot be written: the folder {path.parent} does not exist.")
        if path.is_dir():
            raise InvalidInput(f"{path} is a folder, and a file would be written there.")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {_reason(error)}.") from None
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InvalidInput(f"{path} cannot be written: nothing may be written to the folder {path.parent}.")
    return path


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a file beside `path`, then put it in its place: a reader never sees half a file."""
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")  # no other writer's, on any machine
    try:
        with open(partial, "xb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {_reason(error)}.") from None
    finally:
        partial.unlink(missing_ok=True)


# one reader per format --------------------------------------------------------------------------------------


def _read(path: Path, readers: Mapping[str, Callable[[Path], dict[str, Array]]], what: str) -> dict[str, Array]:
    """The arrays of a file by name, read as its suffix says, after the checks that hold for all formats."""
    suffix = path.suffix.lower()
    with faults_of(path, suffix):
        if not path.exists():
            raise InvalidInput(f"{path} does not exist.")
        if not path.is_file():
            raise InvalidInput(f"{path} is not a file.")
        if suffix in _PICKLES:
            raise InvalidInput(
                f"{path} may hold pickled code, which is never opened here: safetensors.torch.save_file("
                "model.state_dict(), 'weights.safetensors') writes a file that can be read."
            )
        if suffix not in readers:
            raise InvalidInput(f"{path} must be {' or '.join(readers)} to be read as {what}.")
        size, bound = path.stat().st_size, LARGEST_TEXT if suffix == ".csv" else LARGEST
        if size == 0:
            raise InvalidInput(f"{path} is empty.")
        if size > bound:
            raise InvalidInput(f"{path} is too large: {size:,} bytes, and {bound:,} are the most that is read.")
        arrays = readers[suffix](path)
    if not arrays:
        raise InvalidInput(f"{path} holds no arrays.")
    return arrays


@contextmanager
def faults_of(path: str | Path, suffix: str) -> Iterator[None]:
    """Whatever a reader stumbles over, as one sentence."""
    try:
        yield
    except InvalidInput:
        raise
    except MemoryError:
        raise InvalidInput(f"{path} holds more numbers than fit into memory.") from None
    except Exception as error:  # torn files make zlib, struct, safetensors and others raise many kinds
        system = isinstance(error, OSError) and error.errno is not None
        fault = "cannot be read" if system else f"is damaged or not a {suffix} file"
        raise InvalidInput(f"{path} {fault}: {_reason(error)}.") from None


def _read_npy(path: Path) -> dict[str, Array]:
    with open(path, "rb") as stream:
        return {"array": _array_of(stream, path.stat().st_size, str(path))}


def _read_npz(path: Path) -> dict[str, Array]:
    with zipfile.ZipFile(path) as archive:
        return arrays_of(archive, path)


def arrays_of(
    archive: zipfile.ZipFile, path: str | Path, *, only: Collection[str] | None = None, most: int = LARGEST
) -> dict[str, Array]:
    """The arrays of an archive by name; of those named in `only` alone where it is given, within `most` bytes."""
    members = archive.infolist()
    names = [member.filename.removesuffix(".npy") for member in members]
    if len(set(names)) != len(names):
        raise InvalidInput(f"{path} holds two arrays of the same name.")
    wanted = {name: member for name, member in zip(names, members, strict=True) if only is None or name in only}
    total = sum(member.file_size for member in wanted.values())  # zipfile reads no more than a member declares
    if total > most:
        raise InvalidInput(f"{path} unpacks to {total:,} bytes, and {most:,} are the most that is read.")
    arrays = {}
    for name, member in wanted.items():
        if member.compress_type not in _BOUNDED:
            raise InvalidInput(f"{name} in {path} must be stored plainly or deflated, as NumPy does, and it is not.")
        with archive.open(member) as stream:
            arrays[name] = _array_of(stream, member.file_size, f"{name} in {path}")
    return arrays


def _array_of(stream: io.BufferedIOBase | IO[bytes], size: int, name: str) -> Array:
    """One array in NumPy's format, whose header must agree with the `size` bytes there are."""
    version = np.lib.format.read_magic(stream)
    header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in header:
        raise InvalidInput(f"{name} must hold real numbers, and it is a table of named fields.")
    try:
        shape, _, dtype = header[version](stream)
    except Exception:  # NumPy says it in several sentences, with advice to unpickle
        raise InvalidInput(f"{name} is damaged: its header is not that of an array of numbers.") from None
    if dtype.hasobject:
        raise InvalidInput(f"{name} holds pickled Python objects, which are never opened here: save plain numbers.")
    if dtype.kind not in "fiub":
        raise InvalidInput(f"{name} must hold real numbers, and it has dtype {dtype}.")
    wanted, there = math.prod(shape) * dtype.itemsize, size - stream.tell()
    if wanted != there:
        raise InvalidInput(f"{name} is torn: its header announces {wanted:,} bytes, and {there:,} follow.")
    stream.seek(0)
    return _floating(np.lib.format.read_array(stream, allow_pickle=False))


def _read_safetensors(path: Path) -> dict[str, Array]:
    try:
        from safetensors import safe_open
    except ImportError:
        raise InvalidInput(f"reading {path} needs safetensors: pip install 'lazyrich[files]'.") from None
    arrays = {}
    with safe_open(path, framework="numpy") as stored:
        for name in stored.keys():  # noqa: SIM118 (a handle, not a dictionary)
            kind = stored.get_slice(name).get_dtype()
            if kind not in ("F64", "F32", "F16", "I64", "I32", "I16", "I8", "U8"):
                raise InvalidInput(
                    f"{name} in {path} is stored as {kind}, which NumPy does not have: save it as float32."
                )
            arrays[name] = _floating(stored.get_tensor(name))
    return arrays


def _read_csv(path: Path) -> dict[str, Array]:
    with open(path, encoding="utf-8-sig", newline="") as stream:
        return {"table": table_of(stream, path)[1]}


def table_of(lines: Iterable[str], path: str | Path) -> tuple[list[str], Float[Array, "row column"]]:
    """The names in the first line of a CSV text, if it holds any, and the numbers, separated by commas."""
    names: list[str] = []
    numbers, columns = array("d"), 0
    reader = csv.reader(lines, strict=True)
    for cells in ([cell.strip() for cell in line] for line in reader):
        if not any(cells):
            continue
        if not columns:
            if any(";" in cell for cell in cells):
                raise InvalidInput(f"{path} has semicolons in its first line: {_BY_COMMAS}.")
            columns = len(cells)
            if not any(_is_number(cell) for cell in cells):
                names = cells
                continue
        if len(cells) != columns:
            raise InvalidInput(
                f"{path} must have {columns} columns in every line, and line {reader.line_num} has {len(cells)}."
            )
        for position, cell in enumerate(cells, start=1):
            if not _NUMBER.fullmatch(cell) or not math.isfinite(float(cell)):
                raise InvalidInput(
                    f"{path} must hold finite numbers, and column {position} of line {reader.line_num} "
                    f"holds {cell[:40]!r}."
                )
            numbers.append(float(cell))
    if not numbers:
        raise InvalidInput(f"{path} holds {'names but no numbers' if names else 'no numbers'}.")
    return names, np.array(numbers).reshape(-1, columns)


# small things -----------------------------------------------------------------------------------------------


def _samples(name: str, values: Array, columns: int, what: str) -> Float[Array, "P columns"]:
    values = values[:, None] if values.ndim == 1 and columns == 1 else values
    _check.as_matrix(name, values)
    if values.shape[1] != columns:
        raise InvalidInput(
            f"{name} must have {columns} columns, as the network has {columns} {what}, and its shape is "
            f"{values.shape[0]} × {values.shape[1]}; rows are samples."
        )
    return values


def _floating(values: Array) -> Array:
    """Whole numbers, and those wider than the library's own, as float64; float32 and float16 stay what they are."""
    return values if values.dtype.kind == "f" and values.dtype.itemsize <= 8 else values.astype(np.float64)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split()).rstrip(".") or type(error).__name__
