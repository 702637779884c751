"""`batch.descend` and `batch.flow`: what `lr.descend` and `lr.flow` do, for a list of problems at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import numpy as np

from lazyrich import _check, _engines
from lazyrich._check import InvalidInput
from lazyrich._progress import progress
from lazyrich._typing import Array
from lazyrich.batch.run import Record, descend_stack, flow_stack
from lazyrich.batch.stack import Stack, stacks
from lazyrich.problem import Problem, as_problem
from lazyrich.trajectory import Trajectory

__all__ = ["PRECISIONS", "as_rtol", "as_steps", "descend", "flow", "in_precision"]

PRECISIONS = ("float64", "float32")
_FINEST = 1e-14


def descend(problems: Any, rate: Any, at: Any, *, precision: str = "float64") -> list[Trajectory]:
    """Gradient descent of many networks, kept at the steps `at`; `rate` is one number, or one per problem.

    >>> import lazyrich as lr
    >>> task = lr.Task.from_correlations([[2.0]])
    >>> problems = [lr.Problem(task, lr.Network([[[w]], [[w]]])) for w in (0.1, 0.2)]
    >>> [run.function.ravel().round(6).tolist() for run in lr.batch.descend(problems, rate=0.1, at=[0, 100])]
    [[0.01, 2.0], [0.04, 2.0]]
    """
    checked, steps = _problems(problems), as_steps(at)
    rates = _per_problem("rate", rate, len(checked))

    def run(stack: Stack, tick: Any) -> tuple[Record, Array]:
        own = rates[stack.members]
        return descend_stack(stack, own, steps, tick), own[..., None] * np.array(steps)

    return _trajectories(checked, precision, "descend", run)


def flow(problems: Any, times: Any, *, rtol: float = 1e-3, precision: str = "float64") -> list[Trajectory]:
    """Gradient flow of many networks by the stabilised method, at `times`: one vector, or one row per problem.

    `rtol` bounds the error of a step relative to each layer, or to the way that the network has come; ReLU networks
    take very many steps below 1e-4. A run that gives up keeps the times it reached, and its `status` says so.

    >>> import lazyrich as lr
    >>> task = lr.Task.from_correlations([[2.0]])
    >>> problems = [lr.Problem(task, lr.Network([[[w]], [[w]]])) for w in (0.1, 0.2)]
    >>> [run.function.ravel().round(3).tolist() for run in lr.batch.flow(problems, [0.0, 10.0], rtol=1e-6)]
    [[0.01, 2.0], [0.04, 2.0]]
    """
    checked, rtol = _problems(problems), as_rtol(rtol)
    all_times = _times(times, len(checked))

    def run(stack: Stack, tick: Any) -> tuple[Record, Array]:
        return flow_stack(stack, all_times[stack.members], rtol, tick), all_times[stack.members]

    return _trajectories(checked, precision, "flow", run)


def in_precision(precision: Any) -> AbstractContextManager[Any]:
    """JAX in float64 or float32 inside a `with` block; products of float32 in full, which a GPU would shorten."""
    jax = _engines.load("jax", "a batch of networks")
    both = ExitStack()
    both.enter_context(jax.enable_x64(_check.choice("precision", precision, PRECISIONS) == "float64"))
    both.enter_context(jax.default_matmul_precision("highest"))
    return both


def as_rtol(value: Any) -> float:
    """A tolerance of steps: below the finest, rounding fails every one."""
    rtol = _check.positive("rtol", value)
    if not _FINEST <= rtol < 1:
        raise InvalidInput(f"rtol must lie between {_FINEST:g} and 1, and it is {rtol:g}.")
    return rtol


def as_steps(at: Any) -> tuple[int, ...]:
    """Steps to record: whole, growing, not negative."""
    steps = np.atleast_1d(_check.as_array("at", at))
    whole = steps.ndim == 1 and not np.any(steps != np.round(steps)) and steps.min() >= 0
    if not whole or np.any(np.diff(steps) <= 0) or steps.max() > 2**53:
        raise InvalidInput(f"at must list the steps to record, whole and growing, and it is {_check.shown(at)}.")
    return tuple(int(step) for step in steps)


def _trajectories(problems: Sequence[Problem], precision: Any, method: str, run: Any) -> list[Trajectory]:
    found: list[Any] = [None] * len(problems)
    with in_precision(precision), np.errstate(all="ignore"), progress(len(problems), method) as move_on:
        for stack in stacks(problems, np.dtype(precision)):
            record, times = run(stack, lambda part, cells=stack.cells: move_on(part * cells))
            for number, place in enumerate(np.ndindex(stack.members.shape)):
                n, problem = int(record.reached[place]), problems[int(stack.members[place])]
                weights = [np.asarray(W[(slice(n), *place)], np.float64) for W in record.weights]
                found[stack.members[place]] = Trajectory(
                    problem, times[place][:n], method, {"weights": weights}, status=record.status[number]
                )
    return found


def _problems(problems: Any) -> list[Problem]:
    if isinstance(problems, Problem) or not isinstance(problems, Iterable):
        raise InvalidInput(f"problems must be a list of problems, and it is a {type(problems).__name__}.")
    checked = [as_problem(problem) for problem in problems]
    if not checked:
        raise InvalidInput("problems is empty, and at least one is needed.")
    return checked


def _per_problem(name: str, value: Any, count: int) -> Array:
    numbers = np.atleast_1d(_check.as_array(name, value))
    if numbers.shape not in ((1,), (count,)):
        raise InvalidInput(
            f"{name} must be one number, or one per problem ({count}), and it has shape {numbers.shape}."
        )
    if numbers.min() <= 0:
        raise InvalidInput(f"{name} must be above 0, and the least is {numbers.min():g}.")
    return np.broadcast_to(numbers, (count,))


def _times(times: Any, count: int) -> Array:
    rows = _check.as_array("times", times)
    if rows.ndim == 2 and len(rows) == count:
        checked = np.stack([_check.as_times(row) for row in rows])
    else:
        checked = np.broadcast_to(_check.as_times(times), (count, np.size(times)))
    if np.any(np.diff(checked) <= 0):
        raise InvalidInput("times must grow, and two of them are equal.")
    return checked
