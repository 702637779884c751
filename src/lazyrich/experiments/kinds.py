"""What every kind of experiment gives: the outcome of a cell, and a report on the whole.

A kind is a module of this folder: `rhm`, `grokking`, `kernel`, `filters`. It holds

    ABOUT                   a sentence
    UNIT                    what the recorded steps count: "step" or "epoch"
    Settings                one cell: every axis and setting, with the published values as defaults
    variables(settings)     what is recorded
    train(cells, at, tick)  trains the cells of a block, those of the same shapes together
    end_of(settings)        the step at which the schedule of rates ends, 0 where there is none
    check_data(settings)    where there are images: says what is missing, before anything is made
    report(data)            what a store says about the effect that the paper shows
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from lazyrich import _check
from lazyrich._typing import Array

__all__ = ["KINDS", "Outcome", "Report", "kind"]

#: Name → what it shows.
KINDS = ("kernel", "filters", "rhm", "grokking")


class Outcome(NamedTuple):
    """What became of a cell: values by name, (recorded steps, …), nan from where it stopped; and why it did."""

    values: dict[str, Array]
    cause: str = ""  # empty where nothing went wrong


class Report(NamedTuple):
    """A table, a sentence that says whether the effect is there, and the numbers that it stands on.

    >>> import tempfile
    >>> experiment = lr.experiments.preset("rhm", "quick").changed(seed=[0], alpha=[1.0], points=[64])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = lr.experiments.run(experiment, folder)
    ...     report = experiment.report(lr.experiments.open(folder))
    >>> [*report.rows[0]]
    ['alpha', '64 points', 'points to 70%']
    """

    rows: list[dict[str, Any]]
    sentence: str
    numbers: dict[str, float]


def kind(name: str) -> ModuleType:
    """The module of a kind."""
    return import_module(f"lazyrich.experiments.{_check.choice('experiment', name, KINDS)}")
