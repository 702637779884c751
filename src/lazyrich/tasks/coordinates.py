"""Whether two tasks speak of the same inputs: as many, and in the same coordinates, where one of them was whitened."""

from __future__ import annotations

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich.tasks.task import Task, as_task


def coordinates_apart(first: Task, second: Task) -> float:
    """How much the maps by which two tasks were whitened differ, of their size; none is the identity."""
    if first.input_map is None and second.input_map is None:
        return 0.0
    one, other = (np.eye(task.d_in) if task.input_map is None else task.input_map for task in (first, second))
    if one.shape != other.shape:
        return 1.0
    return float(np.linalg.norm(one - other) / max(np.linalg.norm(one), np.linalg.norm(other)))


def precision_of(first: Task, second: Task) -> float:
    """By how much the maps of two tasks may differ and be taken for one."""
    return float(np.sqrt(max(first.eps, second.eps)))


def as_seen_in(train: Task, test: object) -> Task:
    """A test task in the coordinates in which a network sees its training task, or a sentence.

    Where the training task was whitened, `train.input_map` is applied to a test task in the coordinates as they were.
    """
    own = as_task(test, "test")
    plain, seen = own.without_constant(), train.without_constant()
    if own.constant and not train.constant:
        plain = own  # its constant is an input like the others
    mapped = seen.input_map is not None and plain.input_map is None
    d_in = seen.input_map.shape[1] if mapped and seen.input_map is not None else seen.d_in
    if (plain.d_in, plain.d_out) != (d_in, train.d_out):
        whitened = " before it was whitened" if mapped and d_in != seen.d_in else ""
        raise InvalidInput(
            f"test must have the inputs and outputs of the training task{whitened} ({d_in} and {train.d_out}), and it "
            f"has {plain.d_in} and {plain.d_out}."
        )
    if mapped and seen.input_map is not None:
        plain = plain.seen_through(seen.input_map.T)
    elif (apart := coordinates_apart(seen, plain)) > precision_of(seen, plain):
        came = f"was whitened by a map that differs from that of the training task by {apart:.2g} of its size"
        if seen.input_map is None:
            came = "was whitened, and the training task was not"
        raise InvalidInput(
            f"test must see the inputs as the training task does, and it {came}: try the test task before whitened()."
        )
    return plain.with_constant() if train.constant and not plain.constant else plain


def as_tasks(value: object, why: str = "the weights pass from one to the next") -> tuple[Task, ...]:
    """Tasks with the same inputs and outputs, in the same coordinates, or a sentence; `why` they must have these."""
    if not isinstance(value, list | tuple):
        raise InvalidInput(f"tasks must be a list of tasks, and it is a {type(value).__name__}: try [task].")
    if not value:
        raise InvalidInput("tasks must hold at least one task, and it is empty.")
    tasks = tuple(as_task(task) for task in value)
    for i, task in enumerate(tasks):
        if (task.d_in, task.d_out) != (tasks[0].d_in, tasks[0].d_out):
            raise InvalidInput(
                f"tasks must all have the inputs and outputs of the first ({tasks[0].d_in} and {tasks[0].d_out}), "
                f"and tasks[{i}] has {task.d_in} and {task.d_out}."
            )
        if (apart := coordinates_apart(tasks[0], task)) > precision_of(tasks[0], task):
            whitened = [k for k in (0, i) if tasks[k].input_map is not None]
            came = f"tasks[0] and tasks[{i}] were whitened by maps that differ by {apart:.2g} of their size"
            if len(whitened) == 1:
                came = f"of tasks[0] and tasks[{i}] only tasks[{whitened[0]}] was whitened"
            raise InvalidInput(
                f"tasks must see the same input coordinates, since {why}, and {came}: try the tasks before whitened(), "
                "or, where the whitened inputs themselves are what a network sees, "
                "Task.from_correlations(task.sigma_yx, sigma_yy=task.sigma_yy)."
            )
    return tasks
