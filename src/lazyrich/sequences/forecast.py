"""What a sequence of tasks does to each of them, known before training (theory: section 4).

A network that learns task i to the end computes T_i = Σyx,i Σxx,i⁻¹, whatever it did before, so that the loss of
task j is then

    L_j(T_i) = ½ tr (T_i − T_j) Σxx,j (T_i − T_j)ᵀ + ½ tr(Σyy,j − T_j Σxx,j T_jᵀ)

(white inputs: ½‖Σ_i − Σ_j‖² + ½ tr Σyy,j − ½‖Σ_j‖², Braun et al. 2022). That holds for networks as wide as the rank
of the task, off the separatrix, without weight decay, and for inputs in all directions. For a given network the
chain of limits knows more: it ends each task where the flow ends, at the best map that passes a bottleneck or in a
saddle, and starts the next one there. A stage that trains on a mixture ends at the T of the mixture.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._typing import Array, ArrayLike, Float
from lazyrich.methods.solve import NoExactSolution, solve
from lazyrich.networks import Network
from lazyrich.networks.network import layers_of_gram
from lazyrich.problem import Problem
from lazyrich.sequences.penalty import Penalty
from lazyrich.sequences.schedule import Schedule, as_schedule
from lazyrich.sequences.settings import Setting, as_settings
from lazyrich.tasks import Task


def loss_matrix(
    tasks: Sequence[Task] | Schedule,
    network: Network | None = None,
    *,
    rates: ArrayLike | None = None,
    weight_decay: ArrayLike = 0.0,
) -> Float[Array, "stage task"]:
    """Loss of task j (column) after stages 0 … i (row), each to the end, before any training.

    Parameters
    ----------
    tasks : in the order in which they are learned, or a schedule
    network : whose flow ends each stage, by an exact solution; without one, from the tasks alone
    rates, weight_decay : as in `continual`

    Returns
    -------
    array : (stage, task)

    >>> tasks = [lr.Task.from_correlations([[1.0]]), lr.Task.from_correlations([[3.0]])]
    >>> loss_matrix(tasks)
    array([[0., 2.],
           [2., 0.]])
    """
    plan = as_schedule(tasks)
    if network is None:
        return losses_of(plan.tasks, [_target(plan, task) for task in plan.stages])
    return losses_of(plan.tasks, limits(plan.stages, *as_settings(plan.stages, network, rates, weight_decay)))


def losses_of(tasks: Sequence[Task], functions: Sequence[Float[Array, "out in"]]) -> Float[Array, "stage task"]:
    """Loss of each task (column) of each map (row)."""
    return np.array([[float(task.loss(W)) for task in tasks] for W in functions])


def forgetting(
    tasks: Sequence[Task] | Schedule,
    network: Network | None = None,
    *,
    rates: ArrayLike | None = None,
    weight_decay: ArrayLike = 0.0,
) -> Float[Array, "stage task"]:
    """By how much the loss of task j (column) has risen after stage i (row) since its own training, before any
    training. Of a schedule, a task's own training is the first stage in which it has a share.

    Parameters
    ----------
    tasks, network, rates, weight_decay : as in `loss_matrix`

    Returns
    -------
    array : (stage, task), zero at its own training, nan where task j is still to come

    >>> lr.forgetting([lr.Task.from_correlations([[1.0]]), lr.Task.from_correlations([[3.0]])])
    array([[ 0., nan],
           [ 2.,  0.]])

    With a tenth of replay the network ends at 0.9 · 3 + 0.1 · 1, and forgets 0.9² as much:

    >>> lr.forgetting(lr.sequences.replay([lr.Task.from_correlations([[s]]) for s in (1.0, 3.0)], 0.1)).round(12)
    array([[0.  ,  nan],
           [1.62, 0.  ]])
    """
    losses = loss_matrix(tasks, network, rates=rates, weight_decay=weight_decay)
    return since_own_training(losses, as_schedule(tasks).first_met)


def since_own_training(losses: Float[Array, "stage task"], own: Array) -> Float[Array, "stage task"]:
    """Rise of each loss since the task's own training, the stage `own`, nan before it."""
    stages, tasks = losses.shape
    reached = np.where(own < stages, losses[np.minimum(own, stages - 1), np.arange(tasks)], np.nan)
    return np.where(np.arange(stages)[:, None] >= own, losses - reached, np.nan)


def _target(plan: Schedule, task: Task) -> Float[Array, "out in"]:
    rank = int(np.linalg.matrix_rank(task.sigma_xx, hermitian=True))
    if rank < task.d_in:
        place = next((f"tasks[{i}]" for i, other in enumerate(plan.tasks) if other is task), "each mixture")
        raise InvalidInput(
            f"{place} must have inputs in all {task.d_in} directions, and they span {rank}: what is learned then "
            "depends on the initialisation: try loss_matrix(tasks, network), which needs an exact solution."
        )
    return task.target


def limits(
    stages: tuple[Task, ...], network: Network, settings: Sequence[Setting], penalty: Penalty | None = None
) -> list[Float[Array, "out in"]]:
    """W(∞) of each stage, from the W(∞) of the one before."""
    if penalty is not None and penalty.metric != "outputs":
        raise NoExactSolution(
            f"no exact solution applies to {penalty}, which pulls each weight back by itself: try a long run, or "
            "Penalty(strength, 'outputs')."
        )
    functions = list[Float[Array, "out in"]]()
    for i, (task, setting) in enumerate(zip(stages, settings, strict=True)):
        held = penalty.task(task, stages[i - 1], functions[-1]) if penalty is not None and i else task
        end = solve(Problem(held, network, *setting), [np.inf])
        functions.append(np.asarray(end.function[0]))
        # The hidden basis of the closed form is open, and following it for ever would take for ever.
        open_basis, h = end.method == "riccati", network.sizes[1] if network.depth > 1 else 0
        network = Network(layers_of_gram(end.gram[0], task.d_in, h)) if open_basis else end.network()
    return functions
