"""What is trained when: stage i learns the mixture of all tasks in which task j has the share `shares[i, j]`.

One task after the other is the identity; replay adds what lies below its diagonal; interleaving is a single row; a
curriculum goes over from column to column; pretraining is a row before the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, ArrayLike, Float
from lazyrich.tasks import Task, mixture
from lazyrich.tasks.coordinates import as_tasks
from lazyrich.tasks.mixture import as_shares


@dataclass(frozen=True, eq=False, init=False)
class Schedule:
    """Tasks, and the share that each has in each stage of training. `lr.continual` follows it.

    Losses and forgetting are told of the tasks, not of their mixtures. One whose share is 0 in all stages is only
    watched.

    Parameters
    ----------
    tasks : with the same inputs and outputs, in the same coordinates
    shares : stage × task, not negative; each row has the sum 1

    >>> tasks = [lr.Task.from_correlations([[s]]) for s in (1.0, 3.0)]
    >>> plan = lr.sequences.Schedule(tasks, [[1, 0], [0.25, 0.75]])
    >>> [stage.target.tolist() for stage in plan.stages]
    [[[1.0]], [[2.5]]]
    """

    tasks: tuple[Task, ...]
    shares: Float[Array, "stage task"]

    def __init__(self, tasks: Sequence[Task], shares: ArrayLike) -> None:
        checked, rows = as_tasks(tasks), _check.as_array("shares", shares, ndim=2)
        fair = [as_shares(f"shares[{i}]", row, len(checked)) for i, row in enumerate(rows)]
        object.__setattr__(self, "tasks", checked)
        object.__setattr__(self, "shares", _check.read_only(np.array(fair)))

    @cached_property
    def stages(self) -> tuple[Task, ...]:
        """The task that each stage trains on: one of the tasks, or a mixture."""
        return tuple(
            self.tasks[int(np.argmax(row))] if row.max() == 1 else mixture(self.tasks, row) for row in self.shares
        )

    @property
    def first_met(self) -> Array:  # (task,)
        """The first stage in which each task has a share; as many as there are stages where it has none."""
        met = self.shares > 0
        return np.where(met.any(axis=0), np.argmax(met, axis=0), len(self.shares))

    def with_constant(self) -> Schedule:
        """The same for networks with biases."""
        return Schedule(tuple(task.with_constant() for task in self.tasks), self.shares)

    def __repr__(self) -> str:
        return f"<Schedule: {len(self.shares)} stages, {len(self.tasks)} tasks>"


def sequential(tasks: Sequence[Task]) -> Schedule:
    """One task after the other.

    >>> lr.sequences.sequential([lr.Task.from_correlations([[1.0]])] * 2).shares
    array([[1., 0.],
           [0., 1.]])
    """
    checked = as_tasks(tasks)
    return Schedule(checked, np.eye(len(checked)))


def replay(tasks: Sequence[Task], fraction: float) -> Schedule:
    """One task after the other, and of what each stage sees a fraction is from the tasks before it, in equal parts.

    Parameters
    ----------
    tasks : in the order in which they are learned
    fraction : of earlier tasks in every stage but the first, from 0 to below 1

    Returns
    -------
    Schedule

    >>> lr.sequences.replay([lr.Task.from_correlations([[1.0]])] * 3, 0.2).shares
    array([[1. , 0. , 0. ],
           [0.2, 0.8, 0. ],
           [0.1, 0.1, 0.8]])
    """
    checked = as_tasks(tasks)
    share = _check.number("fraction", fraction)
    if not 0 <= share < 1:
        raise InvalidInput(
            f"fraction must lie between 0 and 1, and leave a part to the present task, and it is {share:g}: "
            "try 0.1, or interleaved(tasks)."
        )
    earlier = np.tri(len(checked), k=-1) / np.maximum(np.arange(len(checked)), 1)[:, None]
    shares = (1 - share) * np.eye(len(checked)) + share * earlier
    shares[0] = np.eye(len(checked))[0]
    return Schedule(checked, shares)


def interleaved(tasks: Sequence[Task], weights: ArrayLike | None = None) -> Schedule:
    """All tasks at once, in one stage: what a network sees that takes a step on each in turn.

    Parameters
    ----------
    tasks : in any order
    weights : the share of each, with the sum 1; without them all have the same

    Returns
    -------
    Schedule

    >>> lr.sequences.interleaved([lr.Task.from_correlations([[1.0]])] * 4).shares
    array([[0.25, 0.25, 0.25, 0.25]])
    """
    checked = as_tasks(tasks)
    shares = np.full(len(checked), 1 / len(checked)) if weights is None else as_shares("weights", weights, len(checked))
    return Schedule(checked, shares[None])


def curriculum(tasks: Sequence[Task], stages: int) -> Schedule:
    """From the first task to the last in equal steps: every stage mixes two neighbours, or has one alone.

    Parameters
    ----------
    tasks : from where it begins to where it ends, from easy to hard perhaps
    stages : how many, as many as tasks at least; as many as tasks are one after the other

    Returns
    -------
    Schedule

    >>> lr.sequences.curriculum([lr.Task.from_correlations([[1.0]])] * 2, stages=3).shares
    array([[1. , 0. ],
           [0.5, 0.5],
           [0. , 1. ]])
    """
    checked = as_tasks(tasks)
    stages = _check.count("stages", stages, least=len(checked))
    place = np.linspace(0, len(checked) - 1, stages)[:, None]
    return Schedule(checked, np.maximum(0.0, 1 - np.abs(place - np.arange(len(checked)))))


def as_schedule(value: Any) -> Schedule:
    """A schedule, or that of tasks one after the other."""
    return value if isinstance(value, Schedule) else sequential(value)
