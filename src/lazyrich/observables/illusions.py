"""Illusory correlations: features that are believed of an item and then unlearned, though no example ever had them.

Each mode of a task gives an item features on its own; those that the item has not are taken back by later modes. A worm
gets bones with the animals and loses them with the species. In one layer from zero all modes are learned at once, every
answer goes straight to its end, and there are no illusions (Saxe et al. 2019). The answer y_im for feature m of item i
goes from a first value to a last one: what is outside of the interval between these is illusory,

    y > max(first, last): y − max,      y < min(first, last): y − min,      and 0 between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lazyrich._observable import observable
from lazyrich._typing import Array, Float
from lazyrich.observables._reading import samples
from lazyrich.trajectory import Trajectory, as_trajectory

_ROUNDING = 1e-12  # of the largest answer
_PLACES, _ROUNDS = 9, 12  # where to look between two times, and how often


class Illusions(NamedTuple):
    """The largest of each item and feature, signed, and when: 0 and nan where there is none.

    >>> task = lr.tasks.semantic_hierarchy()
    >>> problem = lr.Problem(task, lr.inits.aligned(0, task, hidden=8, strengths=0.001))
    >>> found = lr.observables.illusions(lr.solve(problem, np.linspace(0.0, 60.0, 121)))
    >>> item, feature = np.unravel_index(np.argmax(found.size), found.size.shape)
    >>> found.size.shape == found.time.shape == (8, 8)
    True
    """

    size: Float[Array, "P out"]
    time: Float[Array, "P out"]


@observable("sample", "output", long_name="illusory part of the answers", items=("input", "output"))
def illusory_correlations(traj: Trajectory) -> Float[Array, "T P out"]:
    """How far each answer is outside of the interval between its first and its last value.

    The last is that of t → ∞ where the trajectory has a closed form, else that of the last record.

    Parameters
    ----------
    traj : of any network whose task has samples, or of a linear one

    Returns
    -------
    array : (times, samples, outputs)

    >>> task = lr.Task.from_data(np.eye(2), [[1.0, 1.0], [1.0, -0.5]])  # the second item lacks the second feature
    >>> problem = lr.Problem(task, lr.inits.aligned(0, task, hidden=2, strengths=1e-4))
    >>> lr.observables.illusory_correlations(lr.solve(problem, [0.0, 8.0, 60.0]))[:, 1, 1].round(3)
    array([0.   , 0.091, 0.   ])
    """
    return _outside(traj)(answers(traj))


def illusions(traj: Trajectory) -> Illusions:
    """The peak of each illusory correlation.

    In an exact trajectory peaks are looked for between its times too, next to the largest of what is at these.

    Parameters
    ----------
    traj : of any network whose task has samples, or of a linear one

    Returns
    -------
    Illusions : `size` and `time`, one of each for an item and a feature

    >>> task = lr.Task.from_data(np.eye(2), [[1.0, 1.0], [1.0, -0.5]])
    >>> problem = lr.Problem(task, lr.inits.aligned(0, task, hidden=2, strengths=1e-4))
    >>> found = lr.observables.illusions(lr.solve(problem, np.linspace(0.0, 60.0, 61)))
    >>> found.size[1, 1].round(3), found.time[1, 1].round(3)
    (np.float64(0.135), np.float64(7.18))
    """
    outside, times = _outside(traj), np.asarray(traj.times, dtype=np.float64)
    along = outside(answers(traj))
    peak = np.argmax(np.abs(along), axis=0)
    size = np.take_along_axis(along, peak[None], axis=0)[0]
    there = size != 0
    time = np.where(there, times[peak], np.nan)
    if traj.solution is None or not there.any():
        return Illusions(size, time)
    item, feature = np.nonzero(there)
    place = peak[there]
    low, high = times[np.maximum(place - 1, 0)], times[np.minimum(place + 1, len(times) - 1)]
    low, high = np.where(np.isfinite(low), low, times[place]), np.where(np.isfinite(high), high, times[place])
    for _ in range(_ROUNDS):
        looked = np.linspace(low, high, _PLACES)  # (places, illusions)
        order, back = np.unique(looked, return_inverse=True)
        seen = np.abs(outside(answers(traj.at(order)))[back.reshape(looked.shape), item, feature])
        best, each = np.argmax(seen, axis=0), np.arange(len(item))
        low, high = looked[np.maximum(best - 1, 0), each], looked[np.minimum(best + 1, _PLACES - 1), each]
        time[there], found = looked[best, each], seen[best, each]
        size[there] = np.sign(size[there]) * np.maximum(found, np.abs(size[there]))
    return Illusions(size, time)


def answers(traj: Trajectory) -> Float[Array, "T P out"]:
    """What the network answers to each item; of a linear one on correlations alone, one item per input."""
    if as_trajectory(traj).problem.network.activation.linear:
        return samples(traj.problem, "illusory_correlations") @ np.swapaxes(np.asarray(traj.function), 1, 2)
    return np.asarray(traj.outputs)


def _outside(traj: Trajectory) -> Callable[[Float[Array, "T P out"]], Float[Array, "T P out"]]:
    """What answers are outside of the interval between first and last."""
    ends = traj.at([traj.times[0], np.inf]) if as_trajectory(traj).solution is not None else traj
    first, *_, last = answers(ends) if len(ends.times) > 1 else np.repeat(answers(ends), 2, axis=0)
    low, high = np.minimum(first, last), np.maximum(first, last)
    least = _ROUNDING * max(float(np.abs(low).max()), float(np.abs(high).max()))

    def outside(y: Float[Array, "T P out"]) -> Float[Array, "T P out"]:
        found = np.where(y > high, y - high, np.where(y < low, y - low, 0.0))
        return np.where(np.abs(found) > least, found, 0.0)

    return outside
