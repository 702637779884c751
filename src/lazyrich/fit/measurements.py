"""What a user hands over, checked: arrays with one row per time, or per subject and time, or a long table.

NaN is a measurement that is missing. A table has a column `time`, one row per measurement or trial, perhaps a column
`subject`, and some of `loss`, `accuracy`, `correct` (0 or 1, one trial), or `item` and `choice` together (whole numbers
from 0, or an item by its name). A pandas or polars data frame is one, an xarray Dataset, or a dictionary of columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.fit.labelled import columns_of, in_order
from lazyrich.fit.noise import Counts, Gaussian
from lazyrich.fit.readouts import Accuracy, Choices, LossCurve, ModeCurves, Readout, Similarity, pairs
from lazyrich.tasks import Task

_COLUMNS = ("loss", "accuracy", "correct", "choice")
KINDS = ("loss", "accuracy", "choices", "modes", "rsm", "rdm")
_ROUNDED = 0.005  # accuracies of two decimals are as near to a share of trials as that
_UNEVEN = 1e-6  # of the largest similarity: how far a symmetric matrix may be from one


@dataclass(frozen=True, eq=False)
class Measurements:
    """Arrays (subjects, times, …), by the kind of measurement."""

    task: Task
    times: Float[Array, " T"]
    arrays: Mapping[str, Array]
    trials: Array | None  # of accuracy: (subjects, times)
    noise: Mapping[str, float]
    layer: str
    subjects: tuple[Any, ...]  # their names

    def readouts(self, who: int | None = None) -> tuple[Readout, ...]:
        """Of one subject, or of all together."""
        some = slice(None) if who is None else slice(who, who + 1)
        return tuple(self._readout(kind, array[some], some) for kind, array in self.arrays.items())

    def _readout(self, kind: str, array: Array, some: slice) -> Readout:
        items, sd = items_of(self.task), self.noise.get(kind)
        if kind == "choices":
            return Choices(kind, Counts.of(array), items)
        if kind == "accuracy" and self.trials is not None:
            right = np.round(array * self.trials[some])
            taken = np.stack([right, self.trials[some] - right], axis=-1)
            return Accuracy(kind, Counts.of(taken[:, :, None, :]), items, right_options(self.task), True)
        noise = Gaussian.of(array, sd, gain=kind in ("rsm", "rdm"))
        if kind == "accuracy":
            return Accuracy(kind, noise, items, right_options(self.task), False)
        if kind in ("rsm", "rdm"):
            return Similarity(kind, noise, items, self.layer, kind == "rdm")
        return {"loss": LossCurve, "modes": ModeCurves}[kind](kind, noise)


def items_of(task: Task) -> Float[Array, "n in"]:
    """The samples, or one item per input."""
    return np.eye(task.d_in) if task.inputs is None else np.asarray(task.inputs)


def right_options(task: Task) -> tuple[int, ...]:
    """The output that each item asks for most, or a sentence."""
    asked = np.round(items_of(task) @ task.target.T if task.targets is None else task.targets, 12)
    clear = (asked == asked.max(axis=1, keepdims=True)).sum(axis=1) == 1
    if not clear.all():
        raise InvalidInput(
            f"accuracy needs one right option for each item, and item {int(np.argmin(clear))} of the task has several "
            "outputs as large: try choices=, how often each was taken."
        )
    return tuple(int(best) for best in asked.argmax(axis=1))


def as_measurements(
    task: Task, times: object, given: Mapping[str, object], trials: object, noise: object, layer: object
) -> Measurements:
    """Arrays as they were handed over, each checked."""
    clock = _check.as_times(times)
    if len(clock) < 2:
        raise InvalidInput(f"times must be two at least, and there is {len(clock)}.")
    arrays = {kind: _as_array(kind, value, task, clock) for kind, value in given.items() if value is not None}
    if not arrays:
        raise InvalidInput(f"something that was measured is needed, one of {', '.join(KINDS)}: try loss=curve.")
    numbers = {kind: len(array) for kind, array in arrays.items()}
    if len(set(numbers.values())) > 1:
        told = ", ".join(f"{kind} of {n}" for kind, n in numbers.items())
        raise InvalidInput(f"all measurements must be of the same subjects, and there are {told}.")
    count = next(iter(numbers.values()))
    shown = _as_trials(in_order("trials", trials, task, clock), arrays, count, len(clock))
    about = shown, _as_noise(noise, tuple(arrays), counted=shown is not None)
    layer = _check.choice("layer", layer, ("hidden", "outputs"))
    return Measurements(task, clock, arrays, *about, layer, tuple(range(count)))


def _as_array(kind: str, value: object, task: Task, times: Array) -> Array:
    array = _numbers(kind, in_order(kind, value, task, times))
    n, T, options = len(items_of(task)), len(times), task.d_out
    if kind == "rdm":
        array = _in_pairs(kind, array, n, distances=True) if array.shape[-2:] == (n, n) else array
    axes = {"choices": (n, options), "rsm": (n, n), "rdm": (n * (n - 1) // 2,), "modes": (len(task.modes.s),)}
    shape = (T, *axes.get(kind, ()))
    if kind == "modes" and array.ndim >= 2 and array.shape[-1] < shape[-1]:  # the strongest of them
        missing = np.full((*array.shape[:-1], shape[-1] - array.shape[-1]), np.nan)
        array = np.concatenate([array, missing], axis=-1)
    if shape not in (array.shape, array.shape[1:]):
        words = " × ".join(map(str, shape))
        raise InvalidInput(
            f"{kind} must have shape {words}, or subjects × {words}, and it has {' × '.join(map(str, array.shape))}."
        )
    array = array[None] if array.shape == shape else array
    _check_values(kind, array, task)
    return _in_pairs(kind, array, n, distances=False) if kind == "rsm" else array


def _numbers(kind: str, value: object) -> Array:
    array = _check.from_any_library(kind, value)
    if array.dtype.kind not in "fiub":
        raise InvalidInput(f"{kind} must hold real numbers, and it has dtype {array.dtype}.")
    array = array.astype(np.float64)
    if np.isinf(array).any():
        raise InvalidInput(
            f"{kind} must be finite or NaN where it is missing, and {int(np.isinf(array).sum())} are inf."
        )
    if not array.size or np.isnan(array).all():
        raise InvalidInput(f"{kind} must hold measurements, and all of its {array.size} entries are NaN.")
    return array


def _in_pairs(kind: str, array: Array, n: int, distances: bool) -> Array:
    """One number for each two items, as squareform has distances."""
    off = np.abs(array - np.swapaxes(array, -1, -2))
    if np.nanmax(off, initial=0.0) > _UNEVEN * np.nanmax(np.abs(array)):
        raise InvalidInput(
            f"{kind} must be symmetric at each time, and entries of the same two items differ by up to "
            f"{np.nanmax(off):.2g}: try the mean of it and its transpose."
        )
    i, j = pairs(n, distances)
    return (array[..., i, j] + array[..., j, i]) / 2


def _check_values(kind: str, array: Array, task: Task) -> None:
    nothing = np.isnan(array) | (array == 0) if kind == "choices" else np.isnan(array)
    each = nothing.reshape(len(array), -1).all(axis=1)
    if each.any():
        raise InvalidInput(
            f"{kind} must hold measurements of every subject, and all of subject {int(each.argmax())} are "
            f"{'0 or NaN' if kind == 'choices' else 'NaN'}."
        )
    seen = array[~np.isnan(array)]
    if kind == "choices" and seen.min() < 0:  # noise, and crossvalidation, make losses and distances negative
        raise InvalidInput(f"choices must not be negative, for they are counts, and the least is {seen.min():g}.")
    if kind == "choices" and np.any(seen != np.round(seen)):
        raise InvalidInput(
            "choices must be counts, whole numbers, and some have fractions: try how often, not how likely."
        )
    if kind == "accuracy" and (seen.min() < 0 or seen.max() > 1):
        raise InvalidInput(f"accuracy must lie between 0 and 1, and it goes from {seen.min():g} to {seen.max():g}.")
    if kind == "accuracy":
        right_options(task)


def _as_trials(trials: object, arrays: Mapping[str, Array], subjects: int, T: int) -> Array | None:
    if trials is None:
        return None
    if "accuracy" not in arrays:
        raise InvalidInput("trials belong to accuracy, how many each is the mean of, and there is no accuracy.")
    counts = _check.as_array("trials", trials)
    try:
        counts = np.broadcast_to(counts, (subjects, T))
    except ValueError:
        raise InvalidInput(
            f"trials must be one number, one per time ({T}) or subjects × times, and it has shape {counts.shape}."
        ) from None
    if counts.min() < 0:
        raise InvalidInput(f"trials must not be negative, and the least is {counts.min():g}.")
    counts = np.where(np.isnan(arrays["accuracy"]), 0.0, counts)
    if not counts.any(axis=1).all():
        raise InvalidInput(
            f"trials must be above 0 for some time of every subject, and all of subject "
            f"{int(np.argmin(counts.any(axis=1)))} are 0."
        )
    share = np.where(counts > 0, arrays["accuracy"], 0.0)
    off = np.abs(share - np.round(share * counts) / np.maximum(counts, 1))
    if off.max() > _ROUNDED + 1e-9:
        worst = np.unravel_index(off.argmax(), off.shape)
        raise InvalidInput(
            f"accuracy must be shares of the trials, and {share[worst]:.4g} of {counts[worst]:g} is no whole number: "
            "try it without trials, or with their right number."
        )
    return counts


def _as_noise(noise: object, kinds: tuple[str, ...], counted: bool) -> dict[str, float]:
    """By kind; what is counted has no size of its own."""
    if noise is None:
        return {}
    arrays = tuple(kind for kind in kinds if kind != "choices" and not (kind == "accuracy" and counted))
    if not arrays:
        raise InvalidInput(
            f"noise belongs to Gaussian readouts, and {' and '.join(kinds)} are counts here, whose number says it: try "
            "without noise."
        )
    if not isinstance(noise, Mapping):
        sd = _check.positive("noise", noise)
        return {kind: sd for kind in arrays}
    return {_check.choice("noise", kind, arrays): _check.positive(f"noise[{kind!r}]", sd) for kind, sd in noise.items()}


def from_table(task: Task, data: Any, times: object, noise: object, layer: object) -> Measurements:
    """A long table, sorted into arrays."""
    if times is not None:
        raise InvalidInput("times must not be given beside data, which has a column 'time': try one of the two.")
    columns = columns_of(data, ("time", "subject", "item", *_COLUMNS))
    if "time" not in columns or not any(name in columns for name in _COLUMNS):
        raise InvalidInput(
            f"data must have a column 'time' and one of {', '.join(map(repr, _COLUMNS))}, and it has "
            f"{', '.join(map(repr, columns)) or 'none of them'}."
        )
    clock, at = np.unique(_check.as_array("data['time']", columns["time"], ndim=1), return_inverse=True)
    labels = np.asarray(columns["subject"]) if "subject" in columns else np.zeros(len(at), dtype=int)
    names, who = np.unique(labels, return_inverse=True)
    table = _Table(at, who, len(clock), len(names))
    given, trials = table.arrays(task, columns)
    found = as_measurements(task, clock, given, trials, noise, layer)
    return Measurements(task, clock, found.arrays, found.trials, found.noise, found.layer, tuple(names.tolist()))


@dataclass(frozen=True, eq=False)
class _Table:
    """Where each row of a table belongs."""

    at: Array
    who: Array
    times: int
    subjects: int

    def arrays(self, task: Task, columns: Mapping[str, Any]) -> tuple[dict[str, object], Array | None]:
        given: dict[str, object] = {}
        trials = None
        for kind in ("loss", "accuracy"):
            if kind in columns:
                given[kind] = self._mean(_numbers(f"data[{kind!r}]", columns[kind]))[0]
        if "correct" in columns:
            given["accuracy"], trials = self._mean(_numbers("data['correct']", columns["correct"]))
        if "choice" in columns:
            given["choices"] = self._counts(task, columns)
        return given, trials

    def _mean(self, values: Array) -> tuple[Array, Array]:
        """Of all rows of one subject and time, and how many they are."""
        there = ~np.isnan(values)
        total, count = np.zeros((2, self.subjects, self.times))
        np.add.at(total, (self.who[there], self.at[there]), values[there])
        np.add.at(count, (self.who[there], self.at[there]), 1.0)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan), count

    def _counts(self, task: Task, columns: Mapping[str, Any]) -> Array:
        if "item" not in columns:
            raise InvalidInput("data must have a column 'item' beside 'choice', the row of the task that was shown.")
        n = len(items_of(task))
        item = _places("data['item']", _of_names("data['item']", columns["item"], task), n)
        choice = _places("data['choice']", columns["choice"], task.d_out)
        there = ~np.isnan(item) & ~np.isnan(choice)
        counts = np.zeros((self.subjects, self.times, n, task.d_out))
        taken = item[there].astype(int), choice[there].astype(int)
        np.add.at(counts, (self.who[there], self.at[there], *taken), 1.0)
        return counts


def _of_names(name: str, column: Any, task: Task) -> Any:
    """Places of items that are told by their names, NaN where there is none; numbers as they are."""
    given = np.asarray(column).tolist()
    if not any(isinstance(one, str) for one in given):
        return column
    if not task.items:
        raise InvalidInput(f"{name} must be whole numbers where the items of the task have no names, and it has names.")
    known = {one: task.items.index(_check.choice(f"each of {name}", one, task.items)) for one in set(given)
             if isinstance(one, str)}  # fmt: skip
    return np.array([known.get(one, np.nan) for one in given])


def _places(name: str, column: Any, count: int) -> Array:
    """Whole numbers from 0, or NaN where nothing was measured."""
    got = _numbers(name, column)
    low, high = np.nanmin(got), np.nanmax(got)
    if low < 0 or high >= count:
        raise InvalidInput(f"{name} must lie between 0 and {count - 1}, and it goes from {low:g} to {high:g}.")
    if np.any(got[~np.isnan(got)] % 1):
        raise InvalidInput(f"{name} must be whole numbers, from 0 to {count - 1}, and some have fractions.")
    return got
