"""A grid of computations: axes, one cell per combination, in blocks. What a sweep and an experiment have in common.

A block is what one task computes and one chunk of the store holds: the cells of a box in the grid. Axis values are
numbers or words; a grid comes from Python or from a small file, and nothing in the file is executed.
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import math
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_tb
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array
from lazyrich.batch.api import PRECISIONS
from lazyrich.sweeps.axes import LARGEST, columns_of, plain, refuse_flags, steps_of, table_of, values_of

_LONGEST = 500  # characters of an error
ROW = "row"  # the axis of a table

G = TypeVar("G", bound="Grid")

Json = dict[str, Any]  # what a file holds
Settings = Mapping[str, Any]  # what a user chooses, checked when a grid is made
Tick = Callable[[float], object]  # is told how many cells' worth of work has been done since the last call

#: What became of a cell, by code. A stopped one diverged or stalled: its values up to then are there.
STATUS = ("pending", "complete", "stopped", "failed")


class TooLong(BaseException):
    """A cell has taken longer than it may. Not an Exception, which a function of the user's may catch."""


#: Faults of the machine, not of the cell: files that are away (or a time-out, which is an OSError), memory, time.
PASSING = (OSError, MemoryError, TooLong)

Place = tuple[int, ...]


class Block(NamedTuple):
    """A box of cells: its number, its place among the blocks, and the stretch of each axis that it covers.

    >>> axes = {"seed": range(4), "tau": [0.1, 1.0]}
    >>> sweep = lr.sweeps.Sweep("mine", "teacher_student", axes=axes, at=[0, 100], block={"seed": 2, "tau": 2})
    >>> sweep.blocks, sweep.block_at(1).region
    (2, (slice(2, 4, None), slice(0, 2, None)))
    """

    number: int
    place: tuple[int, ...]  # also the index of its chunk
    region: tuple[slice, ...]
    cells: tuple[Place, ...] | None = None  # those to compute, where it is not all

    @property
    def name(self) -> str:
        """As the files of its record and its chunks have it. It stays when the grid grows, and the number does not."""
        return ".".join(map(str, self.place))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(s.stop - s.start for s in self.region)

    def within(self, place: Place) -> Place:
        """A cell by its place in the block."""
        return tuple(i - s.start for i, s in zip(place, self.region, strict=True))


class Variable(NamedTuple):
    """What the store must hold of one observable: axes after those of the grid and of the recorded steps."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    long_name: str
    units: str
    along: bool = True  # whether it has a value at each of the recorded steps


@dataclass(frozen=True)
class Cause:
    """Why a cell or a block is not complete: causes of one kind differ in their numbers."""

    kind: str  # a short code: "stopped", or which error was raised where
    message: str
    passing: bool = False  # may not be there the next time: the cell is still to be done

    @classmethod
    def of(cls, error: BaseException, message: str = "", module: str = "lazyrich") -> Cause:
        """The kind of an error is its type and the function that met it last, of ours or of a module of the user's.

        One that asks for a check stands for the check. Files, memory and time are of the machine, and pass.
        """
        found = [(str(frame.f_globals.get("__name__")), frame.f_code) for frame, _ in walk_tb(error.__traceback__)]
        met = [code.co_qualname for name, code in found if name.startswith(("lazyrich", module))]
        checks = [code.co_qualname for name, code in found if name == _check.__name__]
        where = [name for name in met if name not in checks][-1:]
        kind = " in ".join([type(error).__name__, *where])
        return cls(kind, message or in_one_line(error), isinstance(error, PASSING))

    def __str__(self) -> str:
        return self.message


def label(named: Any) -> str:
    """The name of an observable: a word, or that of a function of the user's."""
    return named if isinstance(named, str) else str(named.__name__)


def in_one_line(error: BaseException) -> str:
    """Type and message of an error that is not ours."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST]


class Result(NamedTuple):
    """What a block gives. Cells are in the shape of the block; nan where a value was not reached."""

    values: dict[str, Array]  # observable → (*block, steps, …)
    status: Array  # (*block,), int8
    causes: dict[Place, Cause]  # place in the grid → why it is not complete
    lacking: Mapping[tuple[Place, str], Cause] = MappingProxyType({})  # (place, observable) → why it has no value there


class Grid(ABC):
    """What to compute: a frozen dataclass with at least these fields, and what is abstract here.

    `block` is the number of cells per block along axes (the others in full); {} leaves it to `with_blocks`.
    """

    WHAT: ClassVar[str]  # what people call it
    NEEDED: ClassVar[tuple[str, ...]]  # the fields that a file cannot do without

    name: str
    axes: Settings  # the values of each: numbers or words
    at: Sequence[int]  # the steps to record
    settings: Settings
    block: Mapping[str, int]
    about: str
    precision: str
    table: Settings = MappingProxyType({})  # columns whose rows make one axis more, ROW

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numbers that are stored."""
        return np.dtype(PRECISIONS[self.precision][0])

    @property
    @abstractmethod
    def observables(self) -> Sequence[Any]:
        """What is recorded: names, or functions of the user's."""

    @property
    @abstractmethod
    def unit(self) -> str:
        """What the steps count: the name of their dimension."""

    @property
    @abstractmethod
    def uses_jax(self) -> bool:
        """Whether a block is computed by JAX."""

    @abstractmethod
    def variables(self) -> dict[str, Variable]:
        """What there is to store, by name."""

    def functions(self) -> Sequence[Callable[..., object]]:
        """The user's own that it calls."""
        return ()

    @abstractmethod
    def compute(self, block: Block, tick: Tick) -> Result:
        """Every cell of a block."""

    @abstractmethod
    def with_blocks(self: G, hands: int = 1) -> G:
        """The same grid with a block shape: its own, or one that suits the work and so many workers."""

    def _settle(self) -> None:
        """Checks the common fields, and puts them in their plain form."""
        if not isinstance(self.name, str) or not self.name:
            raise InvalidInput(f"name must be a word for the {self.WHAT}, and it is {_check.shown(self.name)}.")
        if not isinstance(self.about, str):
            raise InvalidInput(f"about must be words, and it is {_check.shown(self.about)}.")
        self._put(
            "axes", {str(axis): values_of(str(axis), given) for axis, given in table_of("axes", self.axes).items()}
        )
        self._put("settings", {name: plain(value) for name, value in table_of("settings", self.settings).items()})
        self._put("table", columns_of(self.table))
        if self.table:
            rows = tuple(range(len(next(iter(self.table.values())))))
            if self.axes.get(ROW, rows) != rows:
                raise InvalidInput(f"{ROW} is the axis of the table, and cannot be another one.")
            self._put("axes", {**self.axes, ROW: rows})
        if not self.axes:
            raise InvalidInput("axes must name at least one axis, such as seed = { range = 4 }, and it is empty.")
        if self.cells > LARGEST:
            raise InvalidInput(f"axes must make at most {LARGEST:,} cells, and they make {self.cells:,}.")
        kinds = {"an axis": self.axes, "a setting": self.settings, "a column of the table": self.table}
        for (one, names), (other, others) in itertools.combinations(kinds.items(), 2):
            if both := [name for name in others if name in names]:
                raise InvalidInput(f"{both[0]} is both {one} and {other}, and it can be one only.")
        self._put("at", steps_of(self.at))
        for axis, n in table_of("block", self.block).items():
            _check.choice("an axis of block", axis, tuple(self.axes))
            refuse_flags(f"block.{axis}", "a whole number", n)
        self._put("block", {axis: _check.count(f"block.{axis}", n) for axis, n in self.block.items()})

    def _put(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_names(self, label: str, known: Iterable[str], needed: Iterable[str], *, others: bool = False) -> None:
        """Axes and settings are those that `label` knows (unless it takes `others`), with all it needs."""
        known = list(known)
        given = [name for name in (*self.axes, *self.table, *self.settings) if name != ROW or not self.table]
        for name in given:
            if name not in known and not others:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f" (did you mean {near[0]!r}?)" if near else ""
                raise InvalidInput(f"{label} takes {', '.join(known)}, and not {name!r}{hint}.")
        for name in needed:
            if name not in given:
                raise InvalidInput(f"{label} needs {name}, as an axis or a setting, and it is neither.")

    @classmethod
    def from_toml(cls: type[G], path: str | Path) -> G:
        """Read one from a file."""
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
    def from_dict(cls: type[G], content: Mapping[str, object]) -> G:
        """From what `as_dict` gives, or a TOML file holds."""
        known = [part.name for part in dataclasses.fields(cls)]  # type: ignore[arg-type]
        for key in table_of(f"the {cls.WHAT}", content):
            _check.choice(f"an entry of the {cls.WHAT}", key, known)
        for key in cls.NEEDED:
            if key not in content:
                raise InvalidInput(f"{key} is missing, and the {cls.WHAT} needs it.")
        return cls(**dict(content))

    def as_dict(self) -> Json:
        """The configuration in plain numbers and words, as the store keeps it."""
        content = {part.name: getattr(self, part.name) for part in dataclasses.fields(self)}  # type: ignore[arg-type]
        content["axes"] = {axis: list(values) for axis, values in self.axes.items()}
        if "table" in content:
            content["table"] = {name: list(values) for name, values in self.table.items()}
        return content | {name: list(value) for name, value in content.items() if isinstance(value, tuple)}

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(values) for values in self.axes.values())

    @property
    def cells(self) -> int:
        return math.prod(self.shape)

    def arguments(self, place: Place) -> dict[str, object]:
        """What the factory is called with for one cell; its place is one index per axis."""
        if not isinstance(place, tuple) or len(place) != len(self.axes):
            raise InvalidInput(
                f"place must hold {len(self.axes)} indices, one per axis, and it is {_check.shown(place)}."
            )
        place = tuple(_check.index(axis, i, n) for axis, i, n in zip(self.axes, place, self.shape, strict=True))
        chosen = {axis: values[i] for (axis, values), i in zip(self.axes.items(), place, strict=True)}
        if self.table:
            row = chosen.pop(ROW)
            chosen |= {name: values[row] for name, values in self.table.items()}
        return {**self.settings, **chosen}

    @property
    def block_shape(self) -> tuple[int, ...]:
        """Cells of a block along each axis."""
        return tuple(min(self.block.get(axis, n), n) for axis, n in zip(self.axes, self.shape, strict=True))

    def with_block(self: G, cells: int) -> G:
        """The same grid in blocks of at most so many cells, the last axes in full before the ones in front of them."""
        cells = _check.count("cells", cells)
        block: dict[str, int] = {}
        for axis, length in reversed(list(zip(self.axes, self.shape, strict=True))):
            block[axis] = max(1, min(length, cells))
            cells = cells // length
        return self.in_blocks(dict(reversed(block.items())))

    def in_blocks(self: G, block: Mapping[str, int]) -> G:
        """The same grid in blocks of this shape."""
        return dataclasses.replace(self, block=block)  # type: ignore[type-var]

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
        """The cells to compute of a block, in the order of the grid."""
        if block.cells is not None:
            return iter(block.cells)
        return itertools.product(*(range(s.start, s.stop) for s in block.region))
