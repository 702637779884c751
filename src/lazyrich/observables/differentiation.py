"""Differentiation: when items that were one to the network become two.

Items begin alike where weights are small, and part one after the other: kingdoms before families before species. With
m_g the mean hidden activity of the items of group g, groups have parted when

    ‖m_g − m_g'‖²

is half way from its first value to its last, which is twice the first at least: items that come together, or stay as
far apart as random weights had put them, do not part. Where one mode sets them apart, that is the half time of the
mode. In an exact trajectory the last value is that of t → ∞, and the time is found to rounding by looking at other
times than those of the trajectory; of recorded ones both come from the records, and the time is interpolated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lazyrich._observable import observable
from lazyrich._typing import Array, Float
from lazyrich.methods.base import FOREVER
from lazyrich.observables._reading import as_groups, as_hidden_layer, samples
from lazyrich.observables.crossings import filled, first_crossings, soonest, starting_times
from lazyrich.observables.modes import half_way
from lazyrich.observables.representations import features
from lazyrich.observables.scaling import distances
from lazyrich.trajectory import Trajectory, as_trajectory

_PARTED = 2.0  # times the first squared distance: what the last must be
_RESTS = 1e-3  # of the way of a squared distance, the least of them at 1e-6 of the longest: nearer to its end it rests


@observable("sample", "sample_", long_name="distance of hidden activities", items=("input", "input_"))
def hidden_distances(traj: Trajectory, layer: int = 1) -> Float[Array, "T P P"]:
    """‖h_i − h_j‖ of the hidden activities that two items cause.

    Parameters
    ----------
    traj : of any network
    layer : ℓ of a hidden layer, from 1

    Returns
    -------
    array : (times, samples, samples)

    >>> task = lr.Task.from_data(np.eye(2), [[2.0], [-2.0]])
    >>> traj = lr.solve(lr.Problem(task, lr.inits.aligned(0, task, hidden=1, strengths=0.01)), [0.0, 100.0])
    >>> lr.observables.hidden_distances(traj)[:, 0, 1].round(6)  # √2·√0.01, and √2·√(2√2) once W = (2, −2) is learned
    array([0.141421, 2.378414])
    """
    layer = as_hidden_layer(as_trajectory(traj).problem, layer, "hidden_distances")
    return np.stack([distances(H) for H in features(traj, layer, "hidden_distances")])


def differentiation(
    traj: Trajectory, groups: Sequence[Sequence[int | str]] | None = None, layer: int = 1
) -> Float[Array, "g g"]:
    """When each two items, or groups of them, part: the squared distance of their means is half way to its end.

    Parameters
    ----------
    traj : of any network; exact where it has a closed form, otherwise interpolated between its records
    groups : lists of items, by number or by name; without them every item by itself
    layer : ℓ of a hidden layer, from 1

    Returns
    -------
    array : (groups, groups) times; nan on the diagonal, and of those that stay or come together, or are as far apart
        as they were: whose squared distance does not double

    >>> task = lr.tasks.semantic_hierarchy()
    >>> problem = lr.Problem(task, lr.inits.aligned(0, task, hidden=8, strengths=0.001))
    >>> traj = lr.solve(problem, [0.0, 100.0])
    >>> float(lr.observables.differentiation(traj, [range(4), range(4, 8)])[0, 1].round(2))  # animals from plants
    10.77
    >>> float(lr.observables.differentiation(traj, [["salmon"], ["sunfish"]])[0, 1].round(2))
    20.17
    """
    problem = as_trajectory(traj).problem
    layer = as_hidden_layer(problem, layer, "differentiation")
    count = len(samples(problem, "differentiation"))
    members = [[i] for i in range(count)] if groups is None else as_groups(problem, groups)
    means = np.zeros((len(members), count))
    for row, group in zip(means, members, strict=True):
        row[group] = 1 / len(group)
    upper = np.triu_indices(len(members), k=1)

    def apart(at: Trajectory) -> Float[Array, "T pairs"]:
        return np.stack([distances(means @ H)[upper] ** 2 for H in features(at, layer, "differentiation")])

    times = np.full((len(members), len(members)), np.nan)
    if len(upper[0]):
        if traj.solution is not None:
            ends = apart(traj.at([0.0, np.inf]))
            found = _when_half_way(traj, ends, apart)
        else:
            ends = apart(traj)
            found = half_way(np.asarray(traj.times, dtype=np.float64), ends, ends[-1])
        times[upper] = times.T[upper] = np.where(ends[-1] > _PARTED * ends[0], found, np.nan)
    return times


def _when_half_way(
    traj: Trajectory, ends: Float[Array, "two pairs"], apart: Callable[[Trajectory], Float[Array, "T pairs"]]
) -> Float[Array, " pairs"]:
    """To rounding, by looking at the closed form."""
    solution, (first, last) = traj.solution, ends
    assert solution is not None

    def curves(_: Array, times: Float[Array, "one T"]) -> Float[Array, "one T pairs"]:
        return apart(traj.at(np.minimum(times[0], FOREVER)))[None]

    way = np.abs(last - first)
    if not way.max() > 0:
        return np.full(len(way), np.nan)
    strongest = float(np.linalg.norm(traj.problem.task.target, 2))
    start = starting_times(np.array([soonest(traj.problem, strongest)]), solution.likely_half_times()[None])
    near = _RESTS * np.maximum(way, 1e-6 * way.max())
    known = filled(curves, start, last[None], near[None])
    return first_crossings(curves, known, last[None]).half_times[0]
