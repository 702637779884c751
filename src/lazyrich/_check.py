"""Every input check, and its message: name the argument, what came, what to try.

Nothing here computes. Functions return the checked value as the library wants it (float64 NumPy), or raise
`InvalidInput` with one sentence before any mathematics starts.
"""

from __future__ import annotations

import difflib
import itertools
import operator
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lazyrich._typing import Array, Rng

_SHOWN = 200  # characters of what came
_LITTLE = 2**28  # bytes that any machine has


class InvalidInput(ValueError):
    """An argument that cannot be used; the message says which, what came and what to try.

    >>> lr.Task.from_data([[1.0, 2.0]], [[1.0], [2.0]])
    Traceback (most recent call last):
        ...
    lazyrich._check.InvalidInput: targets must have one row per row of inputs (1), and it has 2; rows are samples.
    """


def from_any_library(name: str, value: Any) -> Array:
    """NumPy view or copy of an array of any library (PyTorch, JAX, CuPy, lists), with its own dtype.

    Only numbers are taken over: all that follows is NumPy, and nothing traces or differentiates through it. The
    parameters of a PyTorch module are welcome as they are; a tensor computed from them, which would pass gradients
    back, is refused, and so is what JAX or `torch.func` is tracing.
    """
    if isinstance(value, np.ma.MaskedArray) and (hidden := int(np.sum(np.ma.getmaskarray(value)))):
        raise InvalidInput(f"{name} must have no masked entries, and {hidden} of its {value.size} are masked.")
    if isinstance(value, np.ndarray):
        return np.asarray(value)  # np.matrix and other subclasses multiply in their own way
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")  # a library that is not loaded made no array
    try:
        if torch and isinstance(value, list | tuple) and any(isinstance(part, torch.Tensor) for part in value):
            value = [from_any_library(name, part) for part in value]
        elif torch and isinstance(value, torch.Tensor):
            if value.grad_fn is not None:
                graph = "it is a PyTorch tensor with a graph behind it, along which no gradient would come back"
                raise InvalidInput(f"{name} must hold numbers alone, and {graph}: try {name}.detach().")
            value = value.detach().cpu()  # leave the device first
            value = value.float() if value.dtype == torch.bfloat16 else value  # a type that NumPy does not have
        elif cupy and isinstance(value, cupy.ndarray):
            value = value.get()
        return np.asarray(value)
    except InvalidInput:
        raise
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInput(_unreadable(name, value, error)) from None


def _unreadable(name: str, value: Any, error: Exception) -> str:
    """Why NumPy could not read it."""
    jax, torch = sys.modules.get("jax"), sys.modules.get("torch")
    if jax and isinstance(error, jax.errors.TracerArrayConversionError | jax.errors.ConcretizationTypeError):
        return (
            f"{name} must hold known numbers, and JAX is tracing it, but lazyrich computes in NumPy and cannot be"
            " traced or differentiated through: try the call outside of jax.jit, grad and vmap, or lr.jax, which can."
        )
    if torch and isinstance(value, torch.Tensor):
        return (
            f"{name} must hold numbers that NumPy can read, and this PyTorch tensor does not ({error}): try a dense"
            " one, outside of torch.func, as lazyrich cannot be traced or differentiated through."
        )
    return (
        f"{name} must be an array of numbers with rows of equal length,"
        f" and this {type(value).__name__} could not be read as one."
    )


def as_array(name: str, value: Any, ndim: int | None = None, *, infinite: bool = False) -> Array:
    """Finite float64 array, optionally with a given number of axes, or with infinities."""
    array = from_any_library(name, value)
    if array.dtype.kind not in "fiub" and str(array.dtype) != "bfloat16":
        came = f"is {shown(value)}" if value is None or isinstance(value, str) else f"has dtype {array.dtype}"
        raise InvalidInput(f"{name} must hold real numbers, and it {came}.")
    memory(name, array.size, "a smaller array")
    array = array.astype(np.float64)
    if ndim is not None and array.ndim != ndim:
        what = {0: "a number", 1: "a vector", 2: "a matrix", 3: "a stack of matrices"}[ndim]
        raise InvalidInput(f"{name} must be {what}, and it has shape {array.shape}.")
    if array.size == 0:
        raise InvalidInput(f"{name} is empty (shape {array.shape}), and at least one entry is needed.")
    fine = np.isfinite(array) | (infinite & (array == np.inf))
    bad = int(np.size(array) - np.count_nonzero(fine))
    if bad:
        raise InvalidInput(f"{name} must be finite, and {bad} of its {array.size} entries are NaN or infinite.")
    return array


def as_matrix(name: str, value: Any, shape: tuple[int | None, int | None] = (None, None)) -> Array:
    """Finite float64 matrix, with the given numbers of rows and columns where they are known."""
    matrix = as_array(name, value, ndim=2)
    if any(want is not None and want != got for want, got in zip(shape, matrix.shape, strict=True)):
        wanted = " × ".join("any" if n is None else str(n) for n in shape)
        raise InvalidInput(f"{name} must have shape {wanted}, and it has {matrix.shape[0]} × {matrix.shape[1]}.")
    return matrix


def as_labels(name: str, value: Any) -> list[int] | list[str]:
    """Class labels: a vector of whole numbers, or of words."""
    array = from_any_library(name, value)
    if array.ndim != 1 or not array.size:
        raise InvalidInput(f"{name} must be a vector with one label per sample, and it has shape {array.shape}.")
    if array.dtype.kind in "U":
        if isinstance(value, list | tuple) and not all(isinstance(label, str) for label in value):
            raise InvalidInput(f"{name} must be whole numbers or words, and these are mixed: {shown(value)}.")
        return [str(label) for label in array]
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = int(np.count_nonzero(~np.isfinite(array)))
        raise InvalidInput(f"{name} must be finite, and {bad} of its {array.size} entries are NaN or infinite.")
    if array.dtype.kind not in "iubf" or np.any(array != np.round(array)):
        came = f"has dtype {array.dtype}" if array.dtype.kind not in "f" else "has fractions among its numbers"
        raise InvalidInput(f"{name} must be whole numbers or words, and it {came}: try Task.from_data for targets.")
    return [int(label) for label in array]


def words(name: str, value: Any, count: int) -> tuple[str, ...]:
    """So many names, each once."""
    if isinstance(value, str) or not isinstance(value, Iterable) or not all(isinstance(word, str) for word in value):
        raise InvalidInput(f"{name} must be a list of words, and it is {shown(value)}.")
    found = tuple(value)
    if len(found) != count:
        raise InvalidInput(f"{name} must hold one name per sample ({count}), and it holds {len(found)}.")
    if len(set(found)) != count:
        twice = next(word for word in found if found.count(word) > 1)
        raise InvalidInput(f"{name} must name each sample in its own way, and {twice!r} is there twice.")
    return found


def read_only(array: Array) -> Array:
    """The same array, not to be written to any more."""
    array.flags.writeable = False
    return array


def shown(value: Any) -> str:
    """What came, on one line and not at length."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def as_path(name: str, value: Any) -> Path:
    """The path of a file or folder."""
    if not isinstance(value, str | os.PathLike):
        raise InvalidInput(f"{name} must be a path, and it is {shown(value)}.")
    return Path(os.fsdecode(value))


def number(name: str, value: Any) -> float:
    """One finite number."""
    if isinstance(value, str | bytes) or value is None:
        raise InvalidInput(f"{name} must be a number, and it is {shown(value)}.")
    return float(as_array(name, value, ndim=0))


def above_zero(name: str, value: Any) -> Array:
    """An array of numbers above 0."""
    array = as_array(name, value)
    if array.min() <= 0:
        raise InvalidInput(f"{name} must be above 0, and the least is {array.min():g}.")
    return array


def positive(name: str, value: Any, *, or_zero: bool = False) -> float:
    """One finite number above zero (or not below it)."""
    checked = number(name, value)
    if checked < 0 or (checked == 0 and not or_zero):
        raise InvalidInput(f"{name} must be {'at least' if or_zero else 'above'} 0, and it is {checked:g}.")
    return checked


def count(name: str, value: Any, *, least: int = 1, most: int | None = None) -> int:
    """A whole number, at least `least`."""
    try:
        whole = operator.index(value)
    except TypeError:
        raise InvalidInput(f"{name} must be a whole number, and it is {shown(value)}.") from None
    if whole < least:
        raise InvalidInput(f"{name} must be at least {least}, and it is {whole}.")
    if most is not None and whole > most:
        raise InvalidInput(f"{name} must be at most {most:,}, and it is {whole:,}.")
    return whole


def flag(name: str, value: Any) -> bool:
    """True or False, and nothing that only counts as one of them."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"{name} must be True or False, and it is {shown(value)}.")
    return bool(value)


def index(name: str, value: Any, length: int) -> int:
    """The place of one of so many things; a negative one counts from the end."""
    try:
        place = operator.index(value)
    except TypeError:
        raise InvalidInput(f"{name} must be a whole number, and it is {shown(value)}.") from None
    if not -length <= place < length:
        raise InvalidInput(f"{name} must lie between {-length} and {length - 1}, and it is {place}.")
    return place % length


def memory(name: str, numbers: float, remedy: str) -> None:
    """So many float64 numbers fit into the memory that is free."""
    needed = 8.0 * numbers
    if needed > _LITTLE and needed > (free := _free_memory()):
        raise InvalidInput(
            f"{name} would take {needed / 2**30:,.3g} GiB, and {free / 2**30:.3g} GiB are free: try {remedy}."
        )


def _free_memory() -> float:
    """Bytes that can be had without swapping; all there are where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        names = getattr(os, "sysconf_names", {})
        known = "SC_PHYS_PAGES" in names and "SC_PAGE_SIZE" in names
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) if known else float("inf")


def sizes(value: Any, depth: int | None = None) -> tuple[int, ...]:
    """Layer widths (d_in, hidden…, d_out); `depth` counts the weight matrices where it is fixed."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidInput(f"sizes must list the layer widths, such as (8, 14, 8), and it is {shown(value)}.")
    widths = tuple(count("each of sizes", n) for n in value)
    if len(widths) < 2:
        raise InvalidInput(f"sizes must name input and output at least, such as (8, 14, 8), and it is {widths}.")
    if max(widths) > 10**6:
        raise InvalidInput(f"sizes must be at most a million each, and the largest is {max(widths)}.")
    if depth is not None and len(widths) != depth + 1:
        raise InvalidInput(f"sizes must name {depth + 1} widths (input, hidden, output), and it is {widths}.")
    weights = sum(float(first) * second for first, second in itertools.pairwise(widths))
    memory(f"a network of sizes {widths}", 3 * weights, "narrower layers")
    return widths


def as_times(value: Any, *, forever: bool = False) -> Array:
    """Times of a trajectory: a vector, not negative, not decreasing, and np.inf only where `forever` is allowed.

    One number counts as a vector of one.
    """
    times = as_array("times", value, infinite=forever)
    times = times[None] if times.ndim == 0 else times
    if times.ndim != 1:
        raise InvalidInput(f"times must be a vector, and it has shape {times.shape}.")
    if times[0] < 0 or times.min() < 0:
        raise InvalidInput(f"times must not be negative, and the least is {times.min():g}.")
    if np.any(falls := times[1:] < times[:-1]):
        where = int(np.argmax(falls))
        raise InvalidInput(
            f"times must be sorted, and entry {where + 1} ({times[where + 1]:g}) is below entry {where}"
            f" ({times[where]:g}): try np.sort(times)."
        )
    return times


def as_rates(value: Any, depth: int) -> tuple[float, ...]:
    """One learning rate per layer; None means 1 everywhere, one number the same for all layers."""
    if value is None:
        return (1.0,) * depth
    rates = np.atleast_1d(as_array("rates", value))
    rates = np.repeat(rates, depth) if rates.shape == (1,) else rates
    if rates.shape != (depth,):
        raise InvalidInput(f"rates must hold one number per layer ({depth}), and it has shape {rates.shape}.")
    if rates.min() <= 0:
        raise InvalidInput(f"rates must be above 0, and the least is {rates.min():g}.")
    if rates.min() < 1e-50 or rates.max() > 1e50:
        raise InvalidInput(
            f"rates must lie between 1e-50 and 1e50, and they go from {rates.min():g} to {rates.max():g}."
        )
    if rates.max() > 1e12 * rates.min():
        raise InvalidInput(
            f"rates must be within a factor of 1e12 of each other, and they go from {rates.min():g} to {rates.max():g}."
        )
    return tuple(float(rate) for rate in rates)


def as_rng(value: Rng) -> np.random.Generator:
    """A NumPy Generator from a seed or a Generator."""
    if isinstance(value, np.random.Generator):
        return value
    try:
        return np.random.default_rng(operator.index(value))
    except (TypeError, ValueError):
        raise InvalidInput(
            f"rng must be a seed (a whole number, not negative) or a numpy Generator, and it is {shown(value)}."
        ) from None


def choice(name: str, value: Any, options: Sequence[str]) -> str:
    """One of the named options; a near miss is suggested."""
    if isinstance(value, str) and value in options:
        return value
    named = {option.lower(): option for option in options}
    close = [named[word] for word in difflib.get_close_matches(str(value).lower(), named, n=1)]
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    names = f"{len(options)} names" if close and len(options) > _MANY else ", ".join(map(repr, options))
    raise InvalidInput(f"{name} must be one of {names}, and it is {shown(value)}{hint}.")


_MANY = 24  # names that nobody reads where the one that was meant is told


def eps_of(*values: Any) -> float:
    """Machine epsilon of the least precise of these arrays: float64 unless a float32 (or less) came in."""
    eps = [float(np.finfo(np.float64).eps)]
    for value in values:
        dtype = str(getattr(value, "dtype", ""))  # "torch.float32", "float32", "bfloat16", …
        eps += [size for kind, size in _COARSE.items() if dtype.endswith(kind)]
    return float(max(eps))


_COARSE = {"float32": 2.0**-23, "bfloat16": 2.0**-7, "float16": 2.0**-10}
