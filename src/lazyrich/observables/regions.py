"""Activation regions: where a piecewise linear network is one linear map.

A pattern says which hidden units are active on an input. Inputs of one pattern form a region (in two layers without
biases a cone), and inside it the network is linear. Crossing one unit's boundary changes the parity of the number of
active units, so that the regions of a layer take two colours (theory: section 8).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._observable import observable
from lazyrich._typing import Array, Float
from lazyrich.networks.biases import with_constant
from lazyrich.networks.network import forward
from lazyrich.observables._reading import as_hidden_layer, samples
from lazyrich.trajectory import Trajectory, as_trajectory


@observable("sample", "hidden_unit", long_name="whether a hidden unit is active", items=("input", "hidden_unit"))
def activation_patterns(traj: Trajectory, inputs: object = None) -> Float[Array, "T P units"]:
    """1 where a unit of any hidden layer is active on a sample (or on a row of `inputs`), 0 where it is not.

    Parameters
    ----------
    traj : of any network with hidden layers
    inputs : rows to look at; without them the samples of the task

    Returns
    -------
    array : (times, samples, units)

    >>> task = lr.Task.from_data([[1.0, 0.0], [0.0, 1.0]], [[1.0], [0.0]])
    >>> problem = lr.Problem(task, lr.Network([[[1.0, -1.0], [1.0, 1.0]], [[1.0, 1.0]]], "relu"))
    >>> lr.observables.activation_patterns(lr.descend(problem, rate=0.1, steps=1))[0]
    array([[1., 1.],
           [0., 1.]])
    """
    return np.array(list(patterns(traj, "activation_patterns", inputs)), float)


@observable(long_name="number of activation regions that samples lie in")
def activation_regions(traj: Trajectory, inputs: object = None) -> Float[Array, " T"]:
    """How many different patterns the samples (or the rows of `inputs`) have.

    Parameters
    ----------
    traj : of any network with hidden layers
    inputs : rows to look at; without them the samples of the task

    Returns
    -------
    array : one number per time

    >>> task = lr.Task.from_data([[1.0, 0.0], [0.0, 1.0]], [[1.0], [0.0]])
    >>> problem = lr.Problem(task, lr.Network([[[1.0, -1.0], [1.0, 1.0]], [[1.0, 1.0]]], "relu"))
    >>> lr.observables.activation_regions(lr.descend(problem, rate=0.1, steps=1))
    array([2., 2.])
    """
    packed = (np.packbits(active, axis=1) for active in patterns(traj, "activation_regions", inputs))
    return np.array([len(np.unique(rows, axis=0)) for rows in packed], float)


@observable("sample", long_name="parity of the number of active units", items=("input",))
def region_colours(traj: Trajectory, inputs: object = None) -> Float[Array, "T P"]:
    """0 or 1: the parity of the number of active units, which differs between regions that share a wall.

    Parameters
    ----------
    traj : of any network with hidden layers
    inputs : rows to look at; without them the samples of the task

    Returns
    -------
    array : (times, samples)

    >>> task = lr.Task.from_data([[1.0, 0.0], [0.0, 1.0]], [[1.0], [0.0]])
    >>> problem = lr.Problem(task, lr.Network([[[1.0, -1.0], [1.0, 1.0]], [[1.0, 1.0]]], "relu"))
    >>> lr.observables.region_colours(lr.descend(problem, rate=0.1, steps=1))[0]
    array([0., 1.])
    """
    return np.array([active.sum(axis=1) % 2 for active in patterns(traj, "region_colours", inputs)], float)


def patterns(traj: Trajectory, wanted_by: str, inputs: object = None) -> Iterator[Array]:
    """At one time after the other, which units of all hidden layers are active: (P, units), true or false."""
    problem = as_trajectory(traj).problem
    network = problem.network
    as_hidden_layer(problem, 1, wanted_by)
    X = samples(problem, wanted_by)
    if inputs is not None:
        rows = _check.as_matrix("inputs", inputs)
        if rows.shape[1] != network.d_in:
            raise InvalidInput(f"inputs must have {network.d_in} columns for this network, and it has {rows.shape[1]}.")
        X = with_constant(rows) if network.biased else rows
    weights = [np.asarray(W) for W in traj.weights]

    def active(i: int) -> Array:
        hidden = islice(forward([W[i] for W in weights], network.activation, X), network.depth - 1)
        return np.concatenate([h[:, : h.shape[1] - network.biased] > 0 for h in hidden], axis=1)  # not the constant

    return (active(i) for i in range(len(traj.times)))
