"""Categories: how typical an item is of its own, how coherent each is, and what a new property says of the others.

All is read from the activity h_i of a hidden layer that each item (sample) causes. With p = mean of h over the members
of a category, and c = mean of h over all items,

    typicality of i     (h_i − c)ᵀ(p − c)/‖p − c‖²              1 on average over the members
    coherence           ‖p − c‖² / mean_members ‖h_i − c‖²      0 … 1; 1: all members are one point, apart from the rest
    projection          y_j = h_iᵀh_j/‖h_i‖²                    a new property, taught of item i alone

Where one mode α sets a category apart, typicality is the item's entry v_iα in the mode's input vector over the mean of
the members' (Saxe et al. 2019). The last is where gradient descent leaves the weights of a new output from zero, with
the layers below held: the weights of least norm that give 1 for item i. Of a new item of which one feature m is known
the hidden activity is taught instead, and the feature n is expected with y_n = r_mᵀr_n/‖r_m‖², with r the rows of the
map from the hidden layer to the outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyrich import _check
from lazyrich._observable import observable
from lazyrich._typing import Array, Float
from lazyrich.observables._reading import as_groups, as_hidden_layer, linear
from lazyrich.observables.representations import features, outward
from lazyrich.problem import needs_no_biases
from lazyrich.trajectory import Trajectory, as_trajectory

Groups = Sequence[Sequence[int | str]]


def typicality(traj: Trajectory, groups: Groups, layer: int = 1) -> Float[Array, "T P"]:
    """How typical each item is of its group: its part along the group's prototype, 1 on average.

    Parameters
    ----------
    traj : of any network
    groups : lists of items, by number or by name, none of them in two
    layer : ℓ of a hidden layer, from 1

    Returns
    -------
    array : (times, items); nan of items in no group, and where prototype and mean of all coincide

    >>> task = lr.Task.from_data(np.eye(4), [[3.0], [1.0], [-2.0], [-2.0]])
    >>> traj = lr.solve(lr.Problem(task, lr.inits.aligned(0, task, hidden=2, strengths=0.01)), [100.0])
    >>> lr.observables.typicality(traj, [[0, 1], [2, 3]]).round(6)
    array([[1.5, 0.5, 1. , 1. ]])
    """
    layer = as_hidden_layer(as_trajectory(traj).problem, layer, "typicality")
    members = as_groups(traj.problem, groups, disjoint=True)
    found = []
    for H in features(traj, layer, "typicality"):
        apart, typical = H - H.mean(axis=0), np.full(len(H), np.nan)
        for group in members:
            p = apart[group].mean(axis=0)
            typical[group] = _over(apart[group] @ p, p @ p, np.sum(apart**2))
        found.append(typical)
    return np.stack(found)


def category_coherence(traj: Trajectory, groups: Groups, layer: int = 1) -> Float[Array, "T g"]:
    """How coherent each group is: the part of its members' distance from the mean of all that they have in common.

    Parameters
    ----------
    traj : of any network
    groups : lists of items, by number or by name
    layer : ℓ of a hidden layer, from 1

    Returns
    -------
    array : (times, groups), from 0 to 1; nan where all items coincide

    >>> task = lr.Task.from_data(np.eye(4), [[3.0], [1.0], [-2.0], [-2.0]])
    >>> traj = lr.solve(lr.Problem(task, lr.inits.aligned(0, task, hidden=2, strengths=0.01)), [100.0])
    >>> lr.observables.category_coherence(traj, [[0, 1], [2, 3]]).round(6)  # 2²/((3² + 1²)/2), 1
    array([[0.8, 1. ]])
    """
    layer = as_hidden_layer(as_trajectory(traj).problem, layer, "category_coherence")
    members = as_groups(traj.problem, groups)
    found = []
    for H in features(traj, layer, "category_coherence"):
        apart = H - H.mean(axis=0)
        squares, whole = np.sum(apart**2, axis=1), np.sum(apart**2)
        shared = [np.sum(apart[group].mean(axis=0) ** 2) for group in members]
        found.append([_over(p, squares[group].mean(), whole) for p, group in zip(shared, members, strict=True)])
    return np.array(found, dtype=np.float64)


@observable("sample", "sample_", long_name="projection of a new property of one item", items=("input", "input_"))
def inductive_projection(traj: Trajectory, of: str = "property", layer: int = 1) -> Float[Array, "T n n"]:
    """What is inferred from little: of a new property of one item, for all items; or of one feature of a new item.

    Parameters
    ----------
    traj : of any network; of a linear one for new items
    of : "property": it is taught of the item in the row, 1 there, and expected of the item in the column. "item": it is
        known to have the feature in the row, 1 there, and expected to have that in the column
    layer : ℓ of a hidden layer, from 1: what is learned of the new joins here

    Returns
    -------
    array : (times, items, items) or (times, outputs, outputs); nan where there is no activity to learn from

    >>> task = lr.Task.from_data(np.eye(3), [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> traj = lr.solve(lr.Problem(task, lr.inits.aligned(0, task, hidden=2, strengths=0.01)), [0.0, 100.0])
    >>> lr.observables.inductive_projection(traj)[-1, 0].round(6)  # what holds of the first item, holds of its twin
    array([1., 1., 0.])
    """
    of = _check.choice("of", of, ("property", "item"))
    layer = as_hidden_layer(as_trajectory(traj).problem, layer, "inductive_projection")
    if of == "item":
        needs_no_biases(linear(traj, "inductive_projection of a new item").problem.network, "inductive_projection")
    activities = features(traj, layer, "inductive_projection") if of == "property" else outward(traj, layer)
    found = []
    for H in activities:
        alike = H @ H.T
        own = np.diag(alike)[:, None]
        found.append(_over(alike, own, own.max()))
    return np.stack(found)


def _over(part: Any, whole: Any, scale: Any) -> Any:
    """A ratio, nan where the whole is rounding beside what it is part of."""
    there = whole > 1e-24 * scale
    return np.where(there, part / np.where(there, whole, 1.0), np.nan)
