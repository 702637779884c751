"""What a sequence of tasks does to each of them, known before training (theory: section 4).

A network that learns task i to the end computes T_i = Σyx,i Σxx,i⁻¹, whatever it did before, so that the loss of
task j is then

    L_j(T_i) = ½ tr (T_i − T_j) Σxx,j (T_i − T_j)ᵀ + ½ tr(Σyy,j − T_j Σxx,j T_jᵀ)

(white inputs: ½‖Σ_i − Σ_j‖² + ½ tr Σyy,j − ½‖Σ_j‖², Braun et al. 2022). That holds for networks as wide as the rank
of the task, off the separatrix, without weight decay, and for inputs in all directions. For a given network the
chain of limits knows more: it ends each task where the flow ends, at the best map that passes a bottleneck or in a
saddle, and starts the next one there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._typing import Array, ArrayLike, Float
from lazyrich.methods.solve import solve
from lazyrich.networks import Network
from lazyrich.networks.network import layers_of_gram
from lazyrich.problem import Problem
from lazyrich.tasks import Task
from lazyrich.tasks.coordinates import coordinates_apart, precision_of
from lazyrich.tasks.task import as_task


def loss_matrix(
    tasks: Sequence[Task],
    network: Network | None = None,
    *,
    rates: ArrayLike | None = None,
    weight_decay: float = 0.0,
) -> Float[Array, "stage task"]:
    """Loss of task j (column) after training on tasks 0 … i (row), each to the end, before any training.

    Parameters
    ----------
    tasks : in the order in which they are learned
    network : whose flow ends each task, by an exact solution; without one, from the tasks alone
    rates, weight_decay : as in `Problem`

    Returns
    -------
    array : (stage, task)

    >>> tasks = [lr.Task.from_correlations([[1.0]]), lr.Task.from_correlations([[3.0]])]
    >>> loss_matrix(tasks)
    array([[0., 2.],
           [2., 0.]])
    """
    checked = as_tasks(tasks)
    if network is None:
        functions = [_target(i, task) for i, task in enumerate(checked)]
    else:
        functions = _limits(checked, network, rates, weight_decay)
    return np.array([[float(task.loss(W)) for task in checked] for W in functions])


def forgetting(
    tasks: Sequence[Task],
    network: Network | None = None,
    *,
    rates: ArrayLike | None = None,
    weight_decay: float = 0.0,
) -> Float[Array, "stage task"]:
    """By how much the loss of task j (column) has risen after task i (row) since its own training, before any training.

    Parameters
    ----------
    tasks, network, rates, weight_decay : as in `loss_matrix`

    Returns
    -------
    array : (stage, task), zero on the diagonal, nan above it, where task j is still to come

    >>> lr.forgetting([lr.Task.from_correlations([[1.0]]), lr.Task.from_correlations([[3.0]])])
    array([[ 0., nan],
           [ 2.,  0.]])
    """
    return since_own_training(loss_matrix(tasks, network, rates=rates, weight_decay=weight_decay))


def since_own_training(losses: Float[Array, "stage task"]) -> Float[Array, "stage task"]:
    """Rise of each loss since the task's own training, nan before it."""
    stages, tasks = losses.shape
    own = np.append(np.diagonal(losses), np.full(tasks - min(stages, tasks), np.nan))
    return np.where(np.arange(stages)[:, None] >= np.arange(tasks), losses - own, np.nan)


def as_tasks(value: object) -> tuple[Task, ...]:
    """Tasks with the same inputs and outputs, in the same coordinates, or a sentence."""
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
                "tasks must see the same input coordinates, since the weights pass from one to the next, and "
                f"{came}: try the tasks before whitened(), or, where the whitened inputs themselves are what a "
                "network sees, Task.from_correlations(task.sigma_yx, sigma_yy=task.sigma_yy)."
            )
    return tasks


def _target(i: int, task: Task) -> Float[Array, "out in"]:
    rank = int(np.linalg.matrix_rank(task.sigma_xx, hermitian=True))
    if rank < task.d_in:
        raise InvalidInput(
            f"tasks[{i}] must have inputs in all {task.d_in} directions, and they span {rank}: what is learned then "
            "depends on the initialisation: try loss_matrix(tasks, network), which needs an exact solution."
        )
    return task.target


def _limits(
    tasks: tuple[Task, ...], network: Network, rates: ArrayLike | None, decay: float
) -> list[Float[Array, "out in"]]:
    """W(∞) of each task, from the W(∞) of the one before."""
    functions = []
    for task in tasks:
        problem = Problem(task, network, rates, decay)
        rates, end = problem.rates, solve(problem, [np.inf])  # with a multiplier absorbed, from the first task on
        functions.append(np.asarray(end.function[0]))
        # The hidden basis of the closed form is open, and following it for ever would take for ever.
        open_basis, h = end.method == "riccati", network.sizes[1] if network.depth > 1 else 0
        network = Network(layers_of_gram(end.gram[0], task.d_in, h)) if open_basis else end.network()
    return functions
