"""`batch.solve`: what `lr.solve` does, for a list of problems at once.

Those of the two-layer closed form are set up and evaluated in stacked arrays, those that need care or other methods one
by one; the numbers are the same to 1e-12 of the largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from lazyrich import _check
from lazyrich._progress import progress
from lazyrich._typing import Array, Float
from lazyrich.batch.api import as_problems, times_of_each
from lazyrich.batch.ensemble import ensembles
from lazyrich.methods.base import FOREVER
from lazyrich.methods.solve import NoExactSolution
from lazyrich.methods.solve import solve as solve_one
from lazyrich.problem import Problem
from lazyrich.trajectory import Trajectory


def solve(problems: object, times: object, *, device_arrays: bool = False) -> list[Trajectory]:
    """The exact trajectories of many problems, each as by `lr.solve`.

    Many starts of one task and shape take a small part of the time that they take one by one. They are evaluated
    together, when the first number is asked for, and each holds on to what all of them have in memory.

    Parameters
    ----------
    problems : a list of them, of any shapes and tasks
    times : one vector, or one row per problem; the last may be np.inf
    device_arrays : evaluate where the array `times` lives (JAX, PyTorch, CuPy), many starts in one program, and give
        such arrays back; np.inf is not among such times

    Returns
    -------
    list of Trajectory : one per problem, in their order

    Raises
    ------
    NoExactSolution : for one or more of them none applies; the message says for which is the first, why, and how many

    >>> import lazyrich as lr
    >>> task = lr.tasks.semantic_hierarchy()
    >>> problems = [lr.Problem(task, lr.inits.zero_balanced(seed, sizes=(8, 14, 8), scale=0.1)) for seed in range(100)]
    >>> trajectories = lr.batch.solve(problems, [0.0, 50.0, np.inf])
    >>> np.mean([traj.loss for traj in trajectories], axis=0).round(3)
    array([2.211, 0.071, 0.068])
    """
    checked = as_problems(problems)
    if device_arrays:
        from lazyrich.batch.device import attempts_on_device  # only here: it looks for the other libraries

        found = attempts_on_device(checked, times)
    else:
        found = attempts(checked, times_of_each(times, len(checked), partial(_check.as_times, forever=True)))
    refused(found)
    return [one for one in found if isinstance(one, Trajectory)]


def refused(found: Sequence[object]) -> None:
    """A sentence where there are refusals among what was found."""
    numbers = [i for i, one in enumerate(found) if isinstance(one, NoExactSolution)]
    if numbers:
        which = f"problems[{numbers[0]}] is refused"
        if len(numbers) > 1:
            which = f"{len(numbers)} of {len(found)} problems are refused, first problems[{numbers[0]}]"
        raise NoExactSolution(f"{which}: {found[numbers[0]]}")


def attempts(
    problems: Sequence[Problem],
    times: Float[Array, "b T"],
    *,
    kept: tuple[type[Exception], ...] = (NoExactSolution,),
) -> list[Trajectory | Exception]:
    """A trajectory of each problem, at its row of the times or at the one row; or why there is none, where that is an
    error of the `kept` kinds."""
    found: dict[int, Trajectory | Exception] = {}
    for ensemble in ensembles(problems, np.minimum(times, FOREVER)):
        own = times if len(times) == 1 else times[ensemble.numbers]
        found |= dict(ensemble.trajectories(own))
    alone = [i for i in range(len(problems)) if i not in found]
    with progress(len(alone), "solve") as move_on:
        for i in alone:
            try:
                found[i] = solve_one(problems[i], times[i if len(times) > 1 else 0])
            except kept as error:
                found[i] = error
            move_on(1)
    return [found[i] for i in range(len(problems))]
