"""A sweep: axes, a problem factory by name, a method, what to record, and when. A small file says it all.

    name = "my-sweep"
    problem = "teacher_student"                 # a factory of `sweeps/problems.py`
    method = "descend"                          # or "flow", or "solve" where an exact solution exists
    rate = 0.005                                # times are rate × step (× the cell's own clock)
    at = [0, 100, 1000]                         # steps to record; the start always is
    observables = ["loss", "kernel_distance"]

    [axes]                                      # one cell per combination; the last axis varies fastest
    seed = { range = 4 }
    tau = { logspace = [-1, 0.3, 5] }
    delta = [-1.0, 0.0, 1.0]

    [settings]                                  # the other arguments of the factory
    d = 20

A block is what one task computes and one chunk of the store holds: the cells of a box in the grid. Axis values are
numbers or words; nothing in the file is executed.
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich.batch.many import PRECISIONS, as_rtol, as_steps
from lazyrich.problem import Problem
from lazyrich.sweeps.problems import PROBLEMS, Cell, as_factory

__all__ = ["Block", "Sweep", "as_sweep", "published"]

METHODS = ("descend", "flow", "solve")
LARGEST = 10**7  # cells
_PUBLISHED = Path(__file__).parent / "published"
_RANGES = ("linspace", "logspace", "range")


class Block(NamedTuple):
    """A box of cells: its number, its place among the blocks, and the stretch of each axis that it covers."""

    number: int
    place: tuple[int, ...]  # also the index of its chunk
    region: tuple[slice, ...]


@dataclass(frozen=True)
class Sweep:
    """What to compute. Build one here, or read it with `Sweep.from_toml(path)` or `published(name)`.

    `problem` names a factory, or is one: a function of the axes and settings that returns a `Cell` or a `Problem`.
    `block` is the number of cells per block along axes (the others in full); {} leaves it to the size of the problem.

    >>> sweep = Sweep("mine", "teacher_student", axes={"seed": [0, 1], "tau": [0.1, 1.0, 2.0]}, at=[0, 100])
    >>> sweep.shape, sweep.cells, sweep.arguments((1, 2))["tau"]
    ((2, 3), 6, 2.0)
    """

    name: str
    problem: str | Callable[..., Any]
    axes: Mapping[str, Any]
    at: Any
    settings: Mapping[str, Any] = field(default_factory=dict)
    method: str = "descend"
    rate: float = 0.01
    rtol: float = 1e-3  # of the flow
    observables: Any = ("loss",)
    precision: str = "float64"
    block: Mapping[str, int] = field(default_factory=dict)
    about: str = ""

    def __post_init__(self) -> None:
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731
        if not isinstance(self.name, str) or not self.name:
            raise InvalidInput(f"name must be a word for the sweep, and it is {_check.shown(self.name)}.")
        if not isinstance(self.about, str):
            raise InvalidInput(f"about must be words, and it is {_check.shown(self.about)}.")
        factory = as_factory(self.problem)
        put("axes", {str(axis): _values(str(axis), given) for axis, given in _table("axes", self.axes).items()})
        put("settings", {name: _plain(value) for name, value in _table("settings", self.settings).items()})
        if not self.axes:
            raise InvalidInput("axes must name at least one axis, such as seed = { range = 4 }, and it is empty.")
        if self.cells > LARGEST:
            raise InvalidInput(f"axes must make at most {LARGEST:,} cells, and they make {self.cells:,}.")
        _check.choice("method", self.method, METHODS)
        _check.choice("precision", self.precision, PRECISIONS)
        if self.method == "solve" and self.precision != "float64":
            raise InvalidInput("precision must be 'float64' where method is 'solve', and it is 'float32'.")
        for name in ("rate", "rtol"):
            _refuse_flags(name, "a number", getattr(self, name))
        put("rate", _check.positive("rate", self.rate))
        put("rtol", as_rtol(self.rtol))
        put("at", _steps(self.at))
        put("observables", _names(self.observables))
        for axis, n in _table("block", self.block).items():
            _check.choice("an axis of block", axis, tuple(self.axes))
            _refuse_flags(f"block.{axis}", "a whole number", n)
        put("block", {axis: _check.count(f"block.{axis}", n) for axis, n in self.block.items()})
        _check_arguments(factory, self.axes, self.settings)

    @classmethod
    def from_toml(cls, path: str | Path) -> Sweep:
        """Read a sweep from a file."""
        path = _check.as_path("path", path)
        try:
            text = path.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise InvalidInput(f"{path} cannot be read: {reason}.") from None
        try:
            content = tomllib.loads(text)
        except RecursionError:
            raise InvalidInput(f"{path} is not TOML that can be read: it is nested too deeply.") from None
        except ValueError as error:  # TOMLDecodeError is one; a number of 5,000 digits is another
            raise InvalidInput(f"{path} is not TOML: {error}.") from None
        try:
            return cls.from_dict({"name": path.stem} | content)
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from None

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Sweep:
        """From what `as_dict` gives, or a TOML file holds."""
        known = [part.name for part in dataclasses.fields(cls)]
        for key in _table("a sweep", content):
            _check.choice("an entry of the sweep", key, known)
        for key in ("name", "problem", "axes", "at"):
            if key not in content:
                raise InvalidInput(f"{key} is missing, and a sweep needs it.")
        return cls(**dict(content))

    def as_dict(self) -> dict[str, Any]:
        """The configuration in plain numbers and words, as the store keeps it."""
        content = {part.name: getattr(self, part.name) for part in dataclasses.fields(self)}
        content["axes"] = {axis: list(values) for axis, values in self.axes.items()}
        content["at"], content["observables"] = list(self.at), list(self.observables)
        if callable(self.problem):
            content["problem"] = f"{self.problem.__module__}:{self.problem.__qualname__}"
        return content

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(values) for values in self.axes.values())

    @property
    def cells(self) -> int:
        return math.prod(self.shape)

    def arguments(self, place: tuple[int, ...]) -> dict[str, Any]:
        """What the factory is called with for one cell; its place is one index per axis."""
        if not isinstance(place, tuple) or len(place) != len(self.axes):
            raise InvalidInput(
                f"place must hold {len(self.axes)} indices, one per axis, and it is {_check.shown(place)}."
            )
        place = tuple(_check.index(axis, i, n) for axis, i, n in zip(self.axes, place, self.shape, strict=True))
        chosen = {axis: values[i] for (axis, values), i in zip(self.axes.items(), place, strict=True)}
        return {**self.settings, **chosen}

    def cell(self, place: tuple[int, ...]) -> Cell:
        """The problem of one cell."""
        made = as_factory(self.problem)(**self.arguments(place))
        cell = made if isinstance(made, Cell) else Cell(made)
        if not isinstance(cell.problem, Problem):
            raise InvalidInput(f"problem must make a Problem or a Cell, and it makes a {type(cell.problem).__name__}.")
        _check.positive("clock", cell.clock)
        return cell

    @property
    def block_shape(self) -> tuple[int, ...]:
        """Cells of a block along each axis."""
        return tuple(min(self.block.get(axis, n), n) for axis, n in zip(self.axes, self.shape, strict=True))

    def with_block(self, cells: int) -> Sweep:
        """The same sweep in blocks of at most so many cells, the last axes in full before the ones in front of them."""
        cells = _check.count("cells", cells)
        block: dict[str, int] = {}
        for axis, length in reversed(list(zip(self.axes, self.shape, strict=True))):
            block[axis] = max(1, min(length, cells))
            cells = cells // length
        return dataclasses.replace(self, block=dict(reversed(block.items())))

    @property
    def blocks(self) -> int:
        """How many there are."""
        return math.prod(self._blocks_per_axis)

    def block_at(self, number: int) -> Block:
        """One of them, in the order of the grid."""
        number = _check.index("number", number, self.blocks)
        place = tuple(int(i) for i in np.unravel_index(number, self._blocks_per_axis))
        starts = [i * size for i, size in zip(place, self.block_shape, strict=True)]
        ends = [min(s + size, n) for s, size, n in zip(starts, self.block_shape, self.shape, strict=True)]
        return Block(number, place, tuple(slice(s, e) for s, e in zip(starts, ends, strict=True)))

    @property
    def _blocks_per_axis(self) -> tuple[int, ...]:
        return tuple(-(-n // size) for n, size in zip(self.shape, self.block_shape, strict=True))

    def places(self, block: Block) -> Iterator[tuple[int, ...]]:
        """The cells of a block, in the order of the grid."""
        return itertools.product(*(range(s.start, s.stop) for s in block.region))


def as_sweep(value: Any) -> Sweep:
    """A sweep, or a sentence."""
    if not isinstance(value, Sweep):
        raise InvalidInput(
            f"sweep must be a Sweep, and it is {_check.shown(value)}: lr.sweeps.published(name) or "
            "lr.sweeps.Sweep.from_toml(path) would do."
        )
    return value


def published(name: str | None = None) -> Any:
    """A sweep of the literature by name; without one, the list of names.

    >>> published("kunin2024-1b").cells
    4624
    """
    files = {path.stem: path for path in sorted(_PUBLISHED.glob("*.toml"))}
    return list(files) if name is None else Sweep.from_toml(files[_check.choice("sweep", name, tuple(files))])


def _table(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{name} must be a table of names and values, and it is {_check.shown(value)}.")
    return value


def _values(axis: str, given: Any) -> tuple[Any, ...]:
    """The values of an axis: a list, or a range in words."""
    if isinstance(given, Mapping):
        given = _range(axis, given)
    if isinstance(given, str | bytes) or not np.iterable(given):
        came = _check.shown(given)
        raise InvalidInput(f"axis {axis} must list its values, or be like {{ range = 4 }}, and it is {came}.")
    values = tuple(_plain(value) for value in itertools.islice(given, LARGEST + 1))
    if not values:
        raise InvalidInput(f"axis {axis} must have at least one value, and it has none.")
    if len(values) > LARGEST:
        raise InvalidInput(f"axis {axis} must have at most {LARGEST:,} values, and it has more.")
    kinds = {str if _is_word(value) else float if _is_number(value) else None for value in values}
    if len(kinds) > 1 or None in kinds:
        raise InvalidInput(f"axis {axis} must hold finite numbers, or words, and it holds {_check.shown(values)}.")
    if len(set(values)) < len(values):
        (twice, _), *_ = Counter(values).most_common(1)
        raise InvalidInput(f"axis {axis} must hold each value once, and {twice!r} is there more than once.")
    return values


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)  # half a letter


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def _refuse_flags(name: str, wanted: str, value: Any) -> None:
    """True counts as 1 in Python, and in a file it is a mistake."""
    if isinstance(value, bool):
        raise InvalidInput(f"{name} must be {wanted}, and it is {_check.shown(value)}.")


def _range(axis: str, given: Mapping[str, Any]) -> Any:
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


def _steps(at: Any) -> tuple[int, ...]:
    """The steps to record; distances are from the start, which therefore always is one."""
    for step in at if isinstance(at, list | tuple) else [at]:
        _refuse_flags("each of at", "a whole number", step)
    steps = as_steps(at)
    return steps if steps[0] == 0 else (0, *steps)


def _names(observables: Any) -> tuple[str, ...]:
    from lazyrich.sweeps.measure import NAMES

    names = (observables,) if isinstance(observables, str) else observables
    if not np.iterable(names) or isinstance(names, Mapping):
        raise InvalidInput(f"observables must list names, such as ['loss'], and it is {_check.shown(observables)}.")
    chosen = tuple(dict.fromkeys(_check.choice("observables", name, NAMES) for name in names))
    if not chosen:
        raise InvalidInput("observables is empty, and at least one is needed, such as ['loss'].")
    return chosen


def _check_arguments(factory: Callable[..., Any], axes: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Every axis and setting must be an argument of the factory, and those it cannot do without must be there."""
    import inspect

    for name in settings:
        if name in axes:
            raise InvalidInput(f"{name} is both an axis and a setting, and it can be one only.")
    try:
        parameters = inspect.signature(factory).parameters
        _ = factory.__module__, factory.__qualname__
    except (ValueError, AttributeError):
        came = _check.shown(factory)
        raise InvalidInput(f"problem must be a named function with named arguments, and it is {came}.") from None
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    label = next((name for name, made in PROBLEMS.items() if made is factory), getattr(factory, "__name__", "problem"))
    for name in (*axes, *settings):
        if name not in parameters and not takes_all:
            near = difflib.get_close_matches(name, parameters, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise InvalidInput(f"{label} takes {', '.join(parameters)}, and not {name!r}{hint}.")
    for name, p in parameters.items():
        needed = p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        if needed and name not in axes and name not in settings:
            raise InvalidInput(f"{label} needs {name}, as an axis or a setting, and it is neither.")
