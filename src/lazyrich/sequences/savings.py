"""Savings: how much sooner a task is learned when it comes again (Ebbinghaus 1885), and how alike tasks are.

The criterion is the same each time: a share of the way is left that the loss went in its first training. The time to it
is a root of the exact trajectory where there is one, and is read between records elsewhere.

A sooner second time need not be memory. On white inputs the Gram matrix of a balanced network, or of one in the family
of two numbers, is a function of what it computes (theory: section 11). One that has learned another task to the end has
nothing left of the first: it learns it again no sooner than for the first time, from where it is. It is sooner all the
same than from small weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.observables.held_out import loss_on
from lazyrich.sequences.result import Continual
from lazyrich.tasks import Task
from lazyrich.tasks.coordinates import as_tasks
from lazyrich.trajectory import Trajectory

_LOOKS = 400


@dataclass(frozen=True, eq=False)
class Relearning:
    """When a task comes to the same loss, each time that it is trained. `relearning` finds it.

    >>> tasks = [lr.Task.from_correlations([[s]]) for s in (1.0, 3.0)]
    >>> again = lr.sequences.Schedule(tasks, [[1, 0], [0, 1], [1, 0]])
    >>> found = lr.sequences.relearning(lr.continual(again, lr.Network([[[0.1]], [[0.1]]]), [0.0, 40.0]))
    >>> found.stages, found.times.round(3), found.savings.round(3)
    ((0, 2), array([2.69 , 0.514]), array([0.809]))
    """

    level: float  # the loss that counts as learned
    stages: tuple[int, ...]  # in which it is what is trained most
    times: Float[Array, " stage"]  # since the beginning of the stage; inf: not within it
    error: Float[Array, " stage"]  # 0 of an exact trajectory; of others, as far as the records around it are apart

    @property
    def savings(self) -> Float[Array, " later"]:
        """The part of the first time that is saved, for each later time."""
        return 1 - self.times[1:] / self.times[0]


def relearning(run: Continual, task: int = 0, *, share: float = 0.1) -> Relearning:
    """How long it takes to learn a task, each time that it comes.

    Parameters
    ----------
    run : what `lr.continual` returns, of a schedule in which the task has the largest share more than once, or of a
        list that has it more than once
    task : its place among `run.tasks`
    share : of the way that the loss went in its first training, what is left when it counts as learned

    Returns
    -------
    Relearning

    >>> one, other = (lr.Task.from_correlations([[s]]) for s in (1.0, 3.0))
    >>> run = lr.continual([one, other, one], lr.Network([[[0.1]], [[0.1]]]), [0.0, 40.0])
    >>> a, first = 0.505, lr.sequences.relearning(run, share=0.25).times[0]  # (1 − a)² is a quarter of (1 − 0.01)²
    >>> bool(abs(first - np.log(99 / (1 / a - 1)) / 2) < 1e-12)
    True
    """
    if not isinstance(run, Continual):
        raise InvalidInput(f"run must be what lr.continual returns, and it is a {type(run).__name__}.")
    place = _check.index("task", task, len(run.tasks))
    share = _check.positive("share", share)
    if share >= 1:
        raise InvalidInput(f"share must be below 1, a part of the way that the loss goes, and it is {share:g}.")
    alike = [i for i, other in enumerate(run.tasks) if other is run.tasks[place]]
    shares = run.schedule.shares[: len(run.trajectories)]
    own = shares[:, alike].sum(axis=1)
    others = np.delete(shares, alike, axis=1).max(axis=1, initial=0.0)
    stages = [int(i) for i in np.flatnonzero((own > 0) & (own >= others))]
    if not stages:
        raise InvalidInput(f"task must be one that was trained, and tasks[{place}] has no share, or not the largest.")
    first, end = run.initial_losses[place], run.loss_matrix[stages[0], place]
    level = float(end + share * (first - end))
    found = [reached(run.trajectories[i], run.tasks[place], level) for i in stages]
    times, errors = np.array(found).T
    return Relearning(level, tuple(stages), times, errors)


def reached(traj: Trajectory, task: Task, level: float) -> tuple[float, float]:
    """When the loss of a task first comes down to a level, inf if it does not, and how far off that may be."""
    times, exact = np.asarray(traj.times, dtype=float), traj.solution is not None
    if exact:
        end = float(times[-1])
        grid = np.concatenate([[0.0], end * np.geomspace(1e-6, 1.0, _LOOKS), np.linspace(0.0, end, _LOOKS)])
        times = np.unique(np.concatenate([grid, times]))
        traj = traj.at(times)
    losses = loss_on(traj, task)
    below = np.flatnonzero(losses <= level)
    if not len(below):
        return np.inf, 0.0
    after = int(below[0])
    if after == 0:
        return float(times[0]), 0.0
    left, right = float(times[after - 1]), float(times[after])
    if not exact:
        part = (losses[after - 1] - level) / (losses[after - 1] - losses[after])
        return left + float(part) * (right - left), right - left
    from scipy.optimize import brentq  # here, to keep `import lazyrich` quick

    def above(t: float) -> float:
        return float(loss_on(traj.at([t]), task)[0]) - level

    if above(left) <= 0 or above(right) >= 0:  # alone, a loss may be rounded otherwise than among others
        return (left if above(left) <= 0 else right), 0.0
    eps = float(np.finfo(np.float64).eps)
    return float(brentq(above, left, right, xtol=4 * eps * right, rtol=4 * eps)), 0.0


def overlap(tasks: Sequence[Task]) -> Float[Array, "task task_"]:
    """Cosines of the angles between the maps that tasks ask for, as the inputs of all of them together see these.

    With shared white inputs the forgetting of task i after task j is ½(‖T_i‖² + ‖T_j‖²) − cos · ‖T_i‖‖T_j‖: nothing
    else about two tasks counts.

    Parameters
    ----------
    tasks : with the same inputs and outputs

    Returns
    -------
    array : (task, task), 1 on the diagonal; nan for a task that asks for nothing

    >>> lr.sequences.overlap([lr.Task.from_correlations(T) for T in ([[1.0, 0.0]], [[3.0, 3.0]])]).round(3)
    array([[1.   , 0.707],
           [0.707, 1.   ]])
    """
    checked = as_tasks(tasks)
    xx = np.mean([task.sigma_xx for task in checked], axis=0)
    products = np.array([[np.sum((one.target @ xx) * other.target) for other in checked] for one in checked])
    size = np.sqrt(np.diagonal(products))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.clip(products / np.outer(size, size), -1.0, 1.0))
