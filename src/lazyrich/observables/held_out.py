"""The loss of another task along a trajectory: the test loss, or what a sequence has left of an earlier task.

Of a linear network by its function, whose correlations are all it takes; of others by forward passes on the samples.
"""

from __future__ import annotations

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.problem import Problem, loss_of
from lazyrich.tasks import Task
from lazyrich.tasks.coordinates import as_seen_in
from lazyrich.trajectory import Trajectory, as_trajectory


def loss_on(traj: Trajectory, test: Task) -> Float[Array, " T"]:
    """The loss of another task at each time, ½ mean‖y − ŷ‖² over it: training sees nothing of it.

    Parameters
    ----------
    traj : of any network
    test : a task with as many inputs and outputs. Where the training task was whitened and this one was not, its inputs
        are mapped as those of training were (`traj.problem.task.input_map`). A network that is not linear needs samples

    Returns
    -------
    array : one number per time

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.5]]]))
    >>> lr.observables.loss_on(lr.solve(problem, [0.0, np.inf]), lr.Task.from_correlations([[1.0]]))
    array([0.125, 0.5  ])
    """
    traj = as_trajectory(traj)
    test, network = as_tested(traj.problem, test), traj.problem.network
    if network.activation.linear:
        return np.asarray(test.loss(np.asarray(traj.function)))
    if traj.tangent is not None:
        plain = test.without_constant() if network.biased else test
        share = len(plain.inputs) if test.reduction == "mean" and plain.inputs is not None else 1
        return np.sum((traj.tangent.answers(traj.times, plain.inputs) - test.targets) ** 2, axis=(1, 2)) / 2 / share
    states = zip(*(np.asarray(W) for W in traj.weights), strict=True)
    return np.array([loss_of(test, state, network.activation) for state in states])


def as_tested(problem: Problem, test: object) -> Task:
    """A task on which the network of a problem can be tested, as that network sees it, or a sentence."""
    task, network = as_seen_in(problem.task, test), problem.network
    if not network.activation.linear and (task.inputs is None or task.targets is None):
        raise InvalidInput(
            f"test must hold samples where the network is {network.kind}, and it holds correlations only: try "
            "Task.from_data(inputs, targets)."
        )
    return task
