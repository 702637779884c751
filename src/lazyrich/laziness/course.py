"""How far a kernel moves while there is something to learn: what `judge` judges, from records along a run.

Between records all is interpolated linearly. Without a loss the whole run counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.laziness.definition import USUAL, Thresholds

_STILL = 1e-7  # movement that may be rounding, and has no half time


@dataclass(frozen=True, eq=False)
class Course:
    """Records from t = 0 until the loss has fallen; the last one is interpolated.

    >>> course = lr.laziness.Course.of([0.0, 1.0, 9.0], [0.0, 0.1, 5.0], [1.0, 1.0, 5.0], loss=[100.0, 1.0, 0.0])
    >>> float(course.times[-1]), round(course.movement, 3)
    (1.0, 0.1)
    """

    times: Float[Array, " T"]
    moved: Float[Array, " T"]  # ‖K − K(0)‖
    fallen: Float[Array, " T"]  # share of the whole fall of the loss; nan: it is not known, or does not fall
    first: float  # ‖K(0)‖
    last: float  # ‖K‖ at the last time
    rotation: float  # S there; nan: it was not given

    @classmethod
    def of(
        cls, times: Any, change: Any, norm: Any, turned: Any = None, loss: Any = None, thresholds: Thresholds = USUAL
    ) -> Course:
        """From ‖K − K(0)‖, ‖K‖, and S and the loss if they are known, at all times of a run, from its first on."""
        times, change, norm = (np.asarray(values, dtype=float) for values in (times, change, norm))
        fallen = np.full(len(times), np.nan)
        if loss is not None:
            fall = np.maximum.accumulate(loss[0] - np.asarray(loss, dtype=float))
            if fall[-1] > 0:
                fallen = fall / fall[-1]
        learned_by = first_time(times, fallen, thresholds.learned)[0]
        if np.isnan(learned_by):
            learned_by = float(times[-1])
        until = np.append(times[times < learned_by], learned_by)
        moved, norms, fallen = (np.interp(until, times, values) for values in (change, norm, fallen))
        rotation = float("nan") if turned is None else float(np.interp(learned_by, times, turned))
        return cls(until, moved, fallen, float(norm[0]), float(norms[-1]), rotation)

    @property
    def learned_by(self) -> float:
        """When the loss has fallen; the end of the run where it is not known, or does not fall."""
        return float(self.times[-1])

    @property
    def size(self) -> float:
        """What the movement is measured by: the larger of ‖K‖ at the first time and at the last."""
        return max(self.first, self.last)

    @property
    def movement(self) -> float:
        """The farthest that the kernel has been, relative to its size: it may come back. nan: it has no size."""
        return float(self.moved.max()) / self.size if self.size else float("nan")

    def half_time(self) -> tuple[float, float]:
        """When half of the movement is done, and the record before; nan: it does not move."""
        if not self.movement > _STILL:
            return float("nan"), float("nan")
        return first_time(self.times, self.moved, float(self.moved.max()) / 2)


def first_time(times: Float[Array, " T"], values: Float[Array, " T"], level: float) -> tuple[float, float]:
    """When a value is first reached, between the nearest of the times, and the one before; nan where it never is."""
    if not values.max() >= level:
        return float("nan"), float("nan")
    i = int(np.argmax(values >= level))
    if i == 0:
        return float(times[0]), float(times[0])
    return float(np.interp(level, values[i - 1 : i + 1], times[i - 1 : i + 1])), float(times[i - 1])
