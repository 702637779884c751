"""Illusory correlations: features that are believed of an item and then unlearned, though no example ever had them.

Each mode of a task gives an item features on its own; those that the item has not are taken back by later modes. A worm
gets bones with the animals and loses them with the species. In one layer from zero all modes are learned at once, every
answer goes straight to its end, and there are no illusions (Saxe et al. 2019). The answer y_im for feature m of item i
goes from a first value to a last one: what is outside of the interval between these is illusory,

    y > max(first, last): y − max,      y < min(first, last): y − min,      and 0 between.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lazyrich._observable import observable
from lazyrich._progress import progress
from lazyrich._typing import Array, Float
from lazyrich.observables._reading import samples
from lazyrich.trajectory import Trajectory, as_trajectory

_ROUNDING = 1e-12  # of the largest answer
_PLACES = 9  # where to look between two times
_LOOKS, _ROUNDS = 3, 12  # how often at the network, and then at the polynomial through what was last seen
_NUMBERS = 2**21  # answers that are held at once


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
    return _Way.of(traj).outside(answers(traj))


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
    way, times = _Way.of(traj), np.asarray(traj.times, dtype=np.float64)
    along = way.outside(answers(traj))
    peak = np.argmax(np.abs(along), axis=0)
    size = np.take_along_axis(along, peak[None], axis=0)[0]
    there = size != 0
    time = np.where(there, times[peak], np.nan)
    if traj.solution is None or not there.any():
        return Illusions(size, time)
    place, sign = peak[there], np.sign(size[there])
    low, high = times[np.maximum(place - 1, 0)], times[np.minimum(place + 1, len(times) - 1)]
    low, high = np.where(np.isfinite(low), low, times[place]), np.where(np.isfinite(high), high, times[place])
    time[there], found = _highest(traj, np.nonzero(there), sign, low, high)
    found -= np.where(sign > 0, way.high[there], -way.low[there])
    size[there] = sign * np.maximum(found, np.abs(size[there]))
    return Illusions(size, time)


def _highest(
    traj: Trajectory, which: tuple[Array, ...], sign: Float[Array, " n"], low: Float[Array, " n"], high: Array
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """When, between two times each, some of the answers (times their sign) are highest, and how high: by closer and
    closer looks, the last of them at a polynomial, which is as good as the network so close to the peak."""
    with progress(_LOOKS, "illusions") as advance:
        for _ in range(_LOOKS):
            looked = np.linspace(low, high, _PLACES)  # (places, answers)
            seen = sign * _answers_at(traj, looked, which)
            low, high, _, _ = _around_the_best(looked, seen)
            advance(1)
    middle, half = (looked[0] + looked[-1]) / 2, np.maximum((looked[-1] - looked[0]) / 2, 1e-300)
    polynomial = np.linalg.solve(np.vander(np.linspace(-1, 1, _PLACES), increasing=True), seen)
    for _ in range(_ROUNDS):
        looked = np.linspace(low, high, _PLACES)
        seen = np.polynomial.polynomial.polyval((looked - middle) / half, polynomial, tensor=False)
        low, high, time, height = _around_the_best(looked, seen)
    return time, height


def _around_the_best(looked: Float[Array, "p n"], seen: Float[Array, "p n"]) -> tuple[Array, Array, Array, Array]:
    """The places next to the highest of each column, that place, and how high it is."""
    best, each = np.argmax(seen, axis=0), np.arange(seen.shape[1])
    low, high = np.maximum(best - 1, 0), np.minimum(best + 1, len(looked) - 1)
    return looked[low, each], looked[high, each], looked[best, each], seen[best, each]


def _answers_at(traj: Trajectory, looked: Float[Array, "p n"], which: tuple[Array, ...]) -> Float[Array, "p n"]:
    """Answers, each at times of its own: all are had at each time, of which many are the same, so many at once as
    memory allows."""
    order, back = np.unique(looked, return_inverse=True)
    back = back.reshape(looked.shape)
    found = np.empty(looked.shape)
    item, feature = (np.broadcast_to(axis, looked.shape) for axis in which)
    step = max(1, _NUMBERS // (int(np.max(item) + 1) * int(np.max(feature) + 1)))
    for first in range(0, len(order), step):
        here = (back >= first) & (back < first + step)
        seen = answers(traj.at(order[first : first + step]))
        found[here] = seen[back[here] - first, item[here], feature[here]]
    return found


def answers(traj: Trajectory) -> Float[Array, "T P out"]:
    """What the network answers to each item; of a linear one on correlations alone, one item per input."""
    if as_trajectory(traj).problem.network.activation.linear:
        return samples(traj.problem, "illusory_correlations") @ np.swapaxes(np.asarray(traj.function), 1, 2)
    return np.asarray(traj.outputs)


class _Way(NamedTuple):
    """Between which values each answer goes its way, and how much more than these is not rounding."""

    low: Float[Array, "P out"]
    high: Float[Array, "P out"]
    least: float

    @classmethod
    def of(cls, traj: Trajectory) -> _Way:
        ends = traj.at([traj.times[0], np.inf]) if as_trajectory(traj).solution is not None else traj
        first, *_, last = answers(ends) if len(ends.times) > 1 else np.repeat(answers(ends), 2, axis=0)
        low, high = np.minimum(first, last), np.maximum(first, last)
        return cls(low, high, _ROUNDING * max(float(np.abs(low).max()), float(np.abs(high).max())))

    def outside(self, y: Float[Array, "T P out"]) -> Float[Array, "T P out"]:
        """What is illusory of answers."""
        found = np.where(y > self.high, y - self.high, np.where(y < self.low, y - self.low, 0.0))
        return np.where(np.abs(found) > self.least, found, 0.0)
