"""An experiment: a kind of network and task, a grid of settings, and when to look. A small file says it all.

    experiment = "rhm"              # a kind: kernel, filters, rhm or grokking
    at = [0, 50, 200]               # when to record, in the kind's own unit; the start always is

    [axes]                          # one network per combination; the last axis varies fastest
    points = [512, 1024, 2048]
    alpha = [0.1, 1.0, 10.0]
    seed = { range = 3 }

    [settings]                      # everything else that the kind has a published value for
    epochs = 250

    [block]                         # networks of a block along axes: they train together, and a crash costs one block
    points = 1

It runs, is stored and resumed as a sweep is: see `lazyrich.sweeps`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich.papers.base.figure import Dataset
from lazyrich.papers.base.kind import Kind, Report
from lazyrich.papers.base.types import Tick
from lazyrich.papers.shelf import kind, preset_file
from lazyrich.sweeps.grid import STATUS, Block, Cause, Grid, Place, Result, Variable
from lazyrich.sweeps.local import accelerated
from lazyrich.sweeps.store import configuration_in

LARGEST = 10_000  # networks
_SHOWN = ("seed", "alpha", "tau", "points")  # axes that tables have rows and columns for, or say that they average
_SAME_SUMS = ("--xla_gpu_deterministic_ops=true", "--xla_gpu_autotune_level=0")


@dataclass(frozen=True)
class Experiment(Grid):
    """What to train. Build one here, read it with `Experiment.from_toml(path)`, or take an `experiment` of a paper.

    >>> experiment = Experiment("mine", "rhm", axes={"seed": [0], "alpha": [0.1, 10.0]}, at=[0, 10])
    >>> experiment.cells, experiment.unit, list(experiment.observables)
    (2, 'epoch', ['train_accuracy', 'train_loss', 'test_accuracy'])
    """

    WHAT = "experiment"
    NEEDED = ("name", "experiment", "axes", "at")
    precision = "float32"
    uses_jax = True

    name: str
    experiment: str
    axes: Mapping[str, Any]
    at: Any
    settings: Mapping[str, Any] = field(default_factory=dict)
    block: Mapping[str, int] = field(default_factory=dict)
    about: str = ""

    def __post_init__(self) -> None:
        kind(self.experiment)  # or a sentence
        self._settle()
        if self.cells > LARGEST:
            raise InvalidInput(f"axes must make at most {LARGEST:,} networks, and they make {self.cells:,}.")
        fields = dataclasses.fields(self.kind.Settings)
        needed = [part.name for part in fields if part.default is dataclasses.MISSING]
        self._check_names(self.experiment, [part.name for part in fields], needed)
        for place in np.ndindex(*self.shape):  # all of them: a wrong one is said before the first is trained
            _check_shapes(self.variables(), dict(self.kind.variables(self.cell(place))))

    @property
    def kind(self) -> Kind[Any]:
        """Knows how to train it."""
        return kind(self.experiment)

    @property
    def unit(self) -> str:
        return self.kind.unit

    @property
    def observables(self) -> tuple[str, ...]:
        return tuple(self.variables())

    def cell(self, place: Place) -> Any:
        """The settings of one network."""
        kinds = {part.name: str(part.type) for part in dataclasses.fields(self.kind.Settings)}
        arguments = self.arguments(tuple(map(int, place)))
        return self.kind.Settings(**{name: _as_declared(name, value, kinds[name]) for name, value in arguments.items()})

    def variables(self) -> dict[str, Variable]:
        return self._variables

    @cached_property
    def _variables(self) -> dict[str, Variable]:
        return dict(self.kind.variables(self.cell((0,) * len(self.axes))))

    def compute(self, block: Block, tick: Tick = lambda cells: None) -> Result:
        """The networks of a block. One that diverges has its values up to then; the others go on."""
        places = list(self.places(block))
        shape = tuple(s.stop - s.start for s in block.region)
        values = {
            name: np.full((*shape, len(self.at), *variable.shape), np.nan, self.dtype)
            for name, variable in self.variables().items()
        }
        result = Result(values, np.zeros(shape, np.int8), {})
        with _repeatable():
            outcomes = self.kind.train([self.cell(place) for place in places], self.at, tick)
        for place, outcome in zip(places, outcomes, strict=True):
            here = tuple(i - s.start for i, s in zip(place, block.region, strict=True))
            for name, kept in values.items():
                kept[here] = outcome.values[name]
            result.status[here] = STATUS.index("stopped" if outcome.cause else "complete")
            if outcome.cause:
                result.causes[place] = Cause("stopped", outcome.cause)
        return result

    def with_blocks(self, hands: int = 1) -> Experiment:
        """Networks along the last axis train together, unless a block is given."""
        return self if self.block else self.in_blocks(dict.fromkeys(list(self.axes)[:-1], 1))

    def changed(self, **changes: Any) -> Experiment:
        """The same experiment with other axes or settings; a list makes an axis, and `at` are the steps to record.

        >>> experiment("rhm", "quick").changed(seed=[3, 4], alpha=1.0, width=32).axes["seed"]
        (3, 4)
        """
        axes, settings, at = dict(self.axes), dict(self.settings), changes.pop("at", self.at)
        for name, value in changes.items():
            many = isinstance(value, list | tuple)
            if name in axes or (many and not _takes_many(self.kind, name)):
                axes[name] = value if many else [value]
                settings.pop(name, None)
            else:
                settings[name] = value
        return dataclasses.replace(self, axes=axes, settings=settings, at=at)

    def check_data(self) -> None:
        """Says which images are missing, where there are to be any. A run would say it too, but late."""
        for place in np.ndindex(*self.shape):
            self.kind.check_data(self.cell(place))

    def report(self, data: Dataset) -> Report:
        """What the results in a store (`lr.sweeps.open`) say about the effect that the paper shows."""
        if not set(self.observables) <= set(getattr(data, "data_vars", ())):
            wanted = f"what lr.sweeps.open(folder) gives for {self.experiment}"
            raise InvalidInput(f"data must be {wanted}, and it is {_check.shown(data)}.")
        report: Report = self.kind.report(data)
        others = [axis for axis in self.axes if axis not in _SHOWN and len(self.axes[axis]) > 1]
        notes = [f" Means are over {' and '.join(others)} too."] if others else []
        end = max(self.kind.end_of(self.cell(place)) for place in np.ndindex(*self.shape))
        if end > self.at[-1]:
            notes.append(f" The last record is at {self.unit} {self.at[-1]:,}, before training ends at {end:,}.")
        return report._replace(sentence=report.sentence + "".join(notes))


@contextmanager
def _repeatable() -> Iterator[None]:
    """On a GPU the same sums in the same order in every process, if JAX starts inside: it reads the flags then.

    By itself XLA times several ways to do a product and takes the fastest, which is another one the next time. Training
    magnifies the last bits: the accuracies of two such runs of a network were up to 0.2 apart.
    """
    before = os.environ.get("XLA_FLAGS")
    if accelerated():
        os.environ["XLA_FLAGS"] = " ".join([*([before] if before else []), *_SAME_SUMS])
    try:
        yield
    finally:
        if before is not None:
            os.environ["XLA_FLAGS"] = before
        else:
            os.environ.pop("XLA_FLAGS", None)


def stored(out: str | Path) -> Experiment:
    """The experiment whose results are in a folder."""
    configuration = dict(configuration_in(out))
    if "experiment" not in configuration:
        raise InvalidInput(f"{out} must hold an experiment, and it holds the sweep {configuration.get('name')!r}.")
    configuration.pop("observables", None)
    return Experiment.from_dict(configuration)


def experiment(name: str, size: str = "laptop") -> Experiment:
    """An experiment of a paper: "paper" as published, "laptop" in minutes on two cores, "quick" in seconds.

    >>> experiment("kunin2024/rhm", "paper").cells
    324
    """
    return Experiment.from_toml(preset_file(name, size))


def _as_declared(name: str, value: Any, kind: str) -> Any:
    """A number or word of the kind that a setting is declared as: files and command lines know 3 and 3.0 alone."""
    if isinstance(value, bool) and kind != "bool":
        raise InvalidInput(f"{name} must be a number or a word, and it is {value}.")
    if kind == "int":
        number = _check.number(name, value)
        if not number.is_integer():
            raise InvalidInput(f"{name} must be a whole number, and it is {_check.shown(value)}.")
        return int(value)
    if kind == "float":
        number = _check.number(name, value)
        with np.errstate(over="ignore"):
            single = np.float32(number)
        if not np.isfinite(single) or (single == 0) != (number == 0):
            raise InvalidInput(f"{name} must be a number that single precision has, and it is {number:g}.")
        return number
    if kind == "str" and not isinstance(value, str):
        raise InvalidInput(f"{name} must be a word, and it is {_check.shown(value)}.")
    if kind == "bool":
        return _check.flag(name, value)
    return tuple(value) if isinstance(value, list) else value


def _takes_many(kind: Kind[Any], name: str) -> bool:
    """Whether one value of a setting is a list itself."""
    fields = {part.name: part.default for part in dataclasses.fields(kind.Settings)}
    return isinstance(fields.get(name), tuple)


def _check_shapes(first: Mapping[str, Variable], other: Mapping[str, Variable]) -> None:
    """What one network gives must fit beside what the first one gives."""
    for name, variable in first.items():
        if other[name].shape != variable.shape:
            sizes = [" × ".join(map(str, shape)) for shape in (variable.shape, other[name].shape)]
            raise InvalidInput(
                f"axes must leave {name} the size of the first network, {sizes[0]}, and one makes it {sizes[1]}."
            )
