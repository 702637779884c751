"""What several observables ask of a trajectory first: is the network of the right kind, which layer, which samples.

Layers are counted as in W_1 … W_L. Hidden layer ℓ is what W_ℓ feeds, ℓ = 1 … L−1.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.problem import Problem
from lazyrich.trajectory import Trajectory, as_trajectory


def linear(traj: object, wanted_by: str) -> Trajectory:
    """The trajectory of a linear network, or a sentence."""
    traj = as_trajectory(traj)
    if not traj.problem.network.activation.linear:
        raise InvalidInput(f"{wanted_by} belongs to linear networks, and this one is {traj.problem.network.kind}.")
    return traj


def two_layer_linear(traj: object, wanted_by: str) -> Trajectory:
    """The trajectory of a two-layer linear network, or a sentence."""
    traj = linear(traj, wanted_by)
    if traj.problem.network.depth != 2:
        raise InvalidInput(f"{wanted_by} belongs to two layers, and this network has {traj.problem.network.depth}.")
    return traj


def as_layer(problem: Problem, layer: object) -> int:
    """ℓ of a weight matrix W_ℓ."""
    return _at_most("layer", _check.count("layer", layer), problem.network.depth)


def as_hidden_layer(problem: Problem, layer: object, wanted_by: str) -> int:
    """ℓ of a hidden layer."""
    if problem.network.depth == 1:
        raise InvalidInput(f"{wanted_by} needs a hidden layer, and this network has none: try two layers.")
    return _at_most("layer", _check.count("layer", layer), problem.network.depth - 1)


def _at_most(name: str, value: int, last: int) -> int:
    if value > last:
        raise InvalidInput(f"{name} must be at most {last} for this network, and it is {value}.")
    return value


def as_item(problem: Problem, item: object, name: str = "item") -> int:
    """The place of an item of the task: a whole number, or its name."""
    known = problem.task.items
    if isinstance(item, str):
        if not known:
            raise InvalidInput(f"{name} must be a whole number where the items have no names, and it is {item!r}.")
        return known.index(_check.choice(name, item, known))
    return _check.index(name, item, _items(problem))


def as_groups(problem: Problem, groups: object, *, disjoint: bool = False) -> list[list[int]]:
    """Groups of items, by names or numbers, each item once in a group, or `disjoint`, in all of them."""
    if isinstance(groups, str) or not isinstance(groups, Iterable):
        raise InvalidInput(
            f"groups must be lists of items, such as [[0, 1], [2, 3]], and it is {_check.shown(groups)}."
        )
    given = list(groups)
    if not given or any(isinstance(group, str) or not isinstance(group, Iterable) for group in given):
        raise InvalidInput(f"groups must be lists of items, such as [[0, 1], [2, 3]], and it is {_check.shown(given)}.")
    found = [[as_item(problem, item, "each item of groups") for item in group] for group in given]
    if not all(found):
        raise InvalidInput(f"groups must not be empty, and group {found.index([])} is.")
    for group in [list(chain(*found))] if disjoint else found:
        if len(set(group)) < len(group):
            twice = next(item for item in group if group.count(item) > 1)
            named = problem.task.items[twice] if problem.task.items else twice
            what = "no item in common" if disjoint else "each item once"
            raise InvalidInput(f"groups must have {what}, and {named!r} is there twice.")
    return found


def _items(problem: Problem) -> int:
    """How many items there are: samples, or one per input."""
    return problem.task.d_in if problem.task.inputs is None else len(problem.task.inputs)


def samples(problem: Problem, wanted_by: str) -> Float[Array, "P in"]:
    """The inputs, a sample per row; for a linear network on a task of correlations alone, one item per input."""
    task = problem.task
    if task.inputs is not None:
        return task.inputs
    if not problem.network.activation.linear:
        raise InvalidInput(
            f"{wanted_by} needs the samples of the task where the network is {problem.network.kind}, and this task "
            "holds correlations only: try Task.from_data(inputs, targets)."
        )
    return np.eye(task.d_in)
