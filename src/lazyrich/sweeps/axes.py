"""The values of an axis: a list, a range in words, or the columns of a table; each fault is one sentence."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich.batch.api import as_steps

LARGEST = 10**7  # cells
_RANGES = ("linspace", "logspace", "range")

Value = int | float | str


def table_of(name: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{name} must be a table of names and values, and it is {_check.shown(value)}.")
    return value


def columns_of(table: Any) -> dict[str, tuple[Value, ...]]:
    """Columns of one length; a data frame is a mapping of them too."""
    try:
        given = {str(name): [*table[name]] for name in table}
    except (TypeError, KeyError, IndexError):
        came = _check.shown(table)
        raise InvalidInput(f"table must be columns by name, or a data frame, and it is {came}.") from None
    columns = {name: values_of(f"{name} of the table", values, once=False) for name, values in given.items()}
    if len({len(values) for values in columns.values()}) > 1:
        sizes = ", ".join(f"{name} {len(values)}" for name, values in columns.items())
        raise InvalidInput(f"table must have columns of one length, and they have: {sizes}.")
    return columns


def values_of(axis: str, given: object, *, once: bool = True) -> tuple[Value, ...]:
    """The values of an axis: a list, or a range in words."""
    if isinstance(given, Mapping):
        given = _range(axis, given)
    if isinstance(given, str | bytes) or not np.iterable(given):
        came = _check.shown(given)
        raise InvalidInput(f"axis {axis} must list its values, or be like {{ range = 4 }}, and it is {came}.")
    values: tuple[Any, ...] = tuple(plain(value) for value in itertools.islice(given, LARGEST + 1))
    if not values:
        raise InvalidInput(f"axis {axis} must have at least one value, and it has none.")
    if len(values) > LARGEST:
        raise InvalidInput(f"axis {axis} must have at most {LARGEST:,} values, and it has more.")
    kinds = {str if _is_word(value) else float if _is_number(value) else None for value in values}
    if len(kinds) > 1 or None in kinds:
        raise InvalidInput(f"axis {axis} must hold finite numbers, or words, and it holds {_check.shown(values)}.")
    if once and len(set(values)) < len(values):
        (twice, _), *_ = Counter(values).most_common(1)
        raise InvalidInput(f"axis {axis} must hold each value once, and {twice!r} is there more than once.")
    return values


def plain(value: object) -> object:
    """NumPy's numbers as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def _is_word(value: object) -> bool:
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)  # half a character


def _is_number(value: object) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def refuse_flags(name: str, wanted: str, value: object) -> None:
    """True counts as 1 in Python, and in a file it is a mistake."""
    if isinstance(value, bool):
        raise InvalidInput(f"{name} must be {wanted}, and it is {_check.shown(value)}.")


def _range(axis: str, given: Mapping[str, object]) -> Iterable[object]:
    if len(given) != 1:
        raise InvalidInput(f"axis {axis} must be one of {', '.join(_RANGES)}, and it is {_check.shown(dict(given))}.")
    (kind, numbers), *_ = given.items()
    _check.choice(f"the kind of axis {axis}", kind, _RANGES)
    if kind == "range":
        ends = numbers if isinstance(numbers, list | tuple) else [numbers]
        if not 1 <= len(ends) <= 2 or not all(type(n) is int for n in ends):
            came = _check.shown(numbers)
            raise InvalidInput(f"axis {axis}: range must be a count, or first and last + 1, and it is {came}.")
        start, end = (0, *ends)[-2:]
        if end - start > LARGEST:
            raise InvalidInput(f"axis {axis} must have at most {LARGEST:,} values, and it has {end - start:,}.")
        return range(start, end)
    if not isinstance(numbers, list | tuple) or len(numbers) != 3 or not all(map(_is_number, numbers)):
        raise InvalidInput(f"axis {axis}: {kind} must be [first, last, count], and it is {_check.shown(numbers)}.")
    first, last, count = *map(float, numbers[:2]), _check.count(f"the count of axis {axis}", numbers[2])
    if count > LARGEST:
        raise InvalidInput(f"axis {axis} must have at most {LARGEST:,} values, and it has {count:,}.")
    with np.errstate(all="ignore"):  # what is not finite is refused with the values
        return np.linspace(first, last, count) if kind == "linspace" else np.logspace(first, last, count)


def steps_of(at: object) -> tuple[int, ...]:
    """The steps to record; distances are from the first one, which therefore always is one."""
    for step in at if isinstance(at, list | tuple) else [at]:
        refuse_flags("each of at", "a whole number", step)
    steps = as_steps(at)
    return steps if steps[0] == 0 else (0, *steps)
