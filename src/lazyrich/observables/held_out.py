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
    """The loss of another task at each time, the same loss as in training, which sees nothing of it.

    Parameters
    ----------
    traj : of any network
    test : a task with as many inputs and outputs. Where the training task was whitened and this one was not, its inputs
        are mapped as those of training were (`traj.problem.task.input_map`). A network that is not linear needs
        samples, and so does a loss that is not the squared one

    Returns
    -------
    array : one number per time

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.5]]]))
    >>> lr.observables.loss_on(lr.solve(problem, [0.0, np.inf]), lr.Task.from_correlations([[1.0]]))
    array([0.125, 0.5  ])
    """
    traj = as_trajectory(traj)
    test, network, loss = as_tested(traj.problem, test), traj.problem.network, traj.problem.loss
    if network.activation.linear:
        return np.asarray(loss.of_map(test, np.asarray(traj.function)))
    if traj.tangent is not None:
        plain = test.without_constant() if network.biased else test
        return np.array([loss.of_outputs(test, f) for f in traj.tangent.answers(traj.times, plain.inputs)])
    states = zip(*(np.asarray(W) for W in traj.weights), strict=True)
    return np.array([loss_of(test, state, network.activation, loss) for state in states])


def as_tested(problem: Problem, test: object) -> Task:
    """A task on which the network of a problem can be tested, as that network sees it, or a sentence."""
    task, network = as_seen_in(problem.task, test), problem.network
    if task.inputs is None and not (network.activation.linear and problem.loss.squared):
        why = "the loss is not the squared one" if network.activation.linear else f"the network is {network.kind}"
        raise InvalidInput(
            f"test must hold samples where {why}, and it holds correlations only: try Task.from_data(inputs, targets)."
        )
    if not problem.loss.squared:
        problem.loss.check(task, network(task.without_constant().inputs if network.biased else task.inputs))
    return task
