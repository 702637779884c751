"""Lazy, rich or delayed rich: a verdict from how much the tangent kernel moves, and when.

Lazy: the kernel stays what it is at the start, up to a tenth. Rich: it is not. Delayed rich: it is
not, but the kernel of the start has fitted what it can long before: the change comes over ten times later
than the start's own learning time 1/‖K(0)‖.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.observables.kernel import (
    Kernel,
    inner,
    kernel_change,
    kernel_distance,
    kernel_of_gram,
    kernel_of_weights,
)
from lazyrich.trajectory import Trajectory

__all__ = ["Regime", "regime"]

_LAZY = 0.1
_DELAY = 10.0
_SAMPLES = 60


@dataclass(frozen=True)
class Regime:
    """A word, and the numbers behind it."""

    name: str  # "lazy", "rich" or "delayed rich"
    kernel_movement: float  # largest ‖K(t) − K(0)‖, relative to the larger of ‖K(0)‖ and ‖K(∞)‖
    kernel_distance: float  # 1 − cos of the angle between K(0) and K(∞)
    kernel_half_time: float  # when half of the movement is done; nan: it does not move
    lazy_time: float  # 1/‖K(0)‖: how fast the kernel of the start learns

    def __str__(self) -> str:
        words = f"{self.name}: the kernel moves by {self.kernel_movement:.1%} and turns by {self.kernel_distance:.3f}"
        if self.name == "lazy" or np.isnan(self.kernel_half_time):
            return words
        return f"{words}, half of it by t = {self.kernel_half_time:.4g} (the start's own time is {self.lazy_time:.4g})"

    def to_dict(self) -> dict[str, Any]:
        """For JSON: None for what does not happen."""
        return {key: None if value != value else value for key, value in asdict(self).items()}


def regime(trajectory: Trajectory, times: Float[Array, " T"]) -> Regime:
    """The regime of an exact trajectory whose last recorded time is its limit; `times` cover all that happens."""
    first, last = _kernel(trajectory, 0.0), _kernel(trajectory, float(trajectory.times[-1]))
    chosen = times[np.unique(np.linspace(0, len(times) - 1, _SAMPLES).astype(int))]
    changes = np.array([kernel_change(first, _kernel(trajectory, float(t))) for t in chosen])
    peak = max(float(changes.max()), kernel_change(first, last))  # a kernel may leave and come back
    size = np.sqrt(max(inner(first, first), inner(last, last)))
    movement = peak / size if size else 0.0
    own = [float(np.linalg.norm(B, 2) * np.linalg.norm(A, 2)) for B, A in zip(first.after, first.before, strict=True)]
    lazy_time = 1 / sum(own) if sum(own) > 0 else float("inf")
    half_time = _first_time(chosen, changes, peak / 2) if movement > 1e-7 else float("nan")
    name = "lazy" if movement < _LAZY else "delayed rich" if half_time > _DELAY * lazy_time else "rich"
    return Regime(name, float(movement), kernel_distance(first, last), half_time, lazy_time)


def _first_time(times: Float[Array, " T"], changes: Float[Array, " T"], half: float) -> float:
    """When the kernel has first moved that far, between the nearest of the times."""
    if changes.max() < half:
        return float("nan")
    i = int(np.argmax(changes >= half))
    return float(np.interp(half, changes[i - 1 : i + 1], times[i - 1 : i + 1])) if i else float(times[0])


def _kernel(trajectory: Trajectory, t: float) -> Kernel:
    solution: Any = trajectory.solution
    if hasattr(solution, "gram"):
        return kernel_of_gram(trajectory.problem, solution.gram(np.array([t]))[0])
    return kernel_of_weights(trajectory.problem, [W[0] for W in solution.weights(np.array([t]))])
