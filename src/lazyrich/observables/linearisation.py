"""How far a network is from its lazy limit, the tangent model at the initialisation: the gap between two curves."""

from __future__ import annotations

import numpy as np

from lazyrich._observable import observable
from lazyrich._typing import Array, Float
from lazyrich.methods.lazy_limit import lazy_limit
from lazyrich.networks.network import forward
from lazyrich.observables.distances import input_root
from lazyrich.trajectory import Trajectory, as_trajectory


@observable(long_name="distance of the function from its lazy limit, of the way")
def linearisation_gap(traj: Trajectory) -> Float[Array, " T"]:
    """√ mean‖ŷ(t) − ŷ_lin(t)‖² over the samples, as a part of the way; its largest value says how lazy the network is.

    ŷ_lin is `lr.lazy_limit` at the same times. The way is the farthest that the network or the limit, whichever goes
    farther, is from the initialisation at any of them. 0 is lazy; 1 is a network that has learned while its lazy limit
    has not moved yet, as from small weights.

    Parameters
    ----------
    traj : of any network without weight decay; see `lr.lazy_limit` for the sizes

    Returns
    -------
    array : one number per time, nan where neither moves

    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.01))
    >>> lr.observables.linearisation_gap(lr.solve(problem, [0.0, 10.0, 100.0])).round(2)
    array([0.  , 0.17, 0.98])
    """
    traj = as_trajectory(traj)
    return gap_between(traj, lazy_limit(traj.problem, traj.times))


def gap_between(traj: Trajectory, limit: Trajectory) -> Float[Array, " T"]:
    """The same, where the lazy limit is known at the times of the trajectory."""
    task, network = traj.problem.task, traj.problem.network
    if network.activation.linear:
        own, other = (np.asarray(run.function) @ input_root(task).T for run in (traj, limit))
        first = network.function @ input_root(task).T
    else:
        assert task.inputs is not None  # the lazy limit has asked for samples
        own, other = np.asarray(traj.outputs), np.asarray(limit.outputs)
        *_, first = forward(network.weights, network.activation, task.inputs)  # which hold the constant of biases
    way = max(_length(own - first).max(), _length(other - first).max())
    return _length(own - other) / (way or np.nan)


def _length(change: Float[Array, "T rows columns"]) -> Float[Array, " T"]:
    return np.linalg.norm(change, axis=(1, 2))
