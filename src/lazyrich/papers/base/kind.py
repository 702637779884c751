"""A kind of experiment: what is trained, what is recorded, and what the results show.

A file of a paper's `experiments` ends with its `KIND`. Grids of it (`lazyrich.papers.experiment`) are stored, run and
resumed as sweeps are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from lazyrich._typing import Array
from lazyrich.papers.base.figure import Dataset
from lazyrich.papers.base.types import Rows, Tick
from lazyrich.sweeps.grid import Variable

S = TypeVar("S")


class Outcome(NamedTuple):
    """What became of a cell: values by name, (recorded steps, …), nan from where it stopped; and why it did."""

    values: dict[str, Array]
    cause: str = ""  # empty where nothing went wrong


class Report(NamedTuple):
    """A table, a sentence that says whether the effect is there, and the numbers that it stands on.

    >>> import tempfile
    >>> experiment = lr.papers.experiment("rhm", "quick").changed(seed=[0], alpha=[1.0], points=[64])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = lr.sweeps.run(experiment, folder)
    ...     report = experiment.report(lr.sweeps.open(folder))
    >>> [*report.rows[0]]
    ['alpha', '64 points', 'points to 70%']
    """

    rows: Rows
    sentence: str
    numbers: dict[str, float]


def _no_images(settings: object) -> str:
    return ""


def _no_end(settings: object) -> int:
    return 0


def _nothing_missing(settings: object) -> None:
    return None


@dataclass(frozen=True)
class Kind(Generic[S]):
    """An experiment of a paper. A cell is one network: a value of the class `Settings`.

    >>> kind = lr.papers.experiment("kunin2024/rhm", "quick").kind
    >>> kind.unit, kind.Settings(seed=0).width
    ('epoch', 64)
    """

    about: str
    unit: str  # what the recorded steps count: "step" or "epoch"
    Settings: type[S]  # a frozen dataclass: every axis and setting, with the published values as defaults
    variables: Callable[[S], dict[str, Variable]]  # what is recorded
    train: Callable[[Sequence[S], tuple[int, ...], Tick], list[Outcome]]  # a block of cells
    report: Callable[[Dataset], Report]  # what a store says about the effect that the paper shows
    end_of: Callable[[S], int] = _no_end  # the step at which the schedule of rates ends, 0 where there is none
    images: Callable[[S], str] = _no_images  # the set of images that it learns, by name
    check_data: Callable[[S], None] = _nothing_missing  # says what is missing, before anything is made
