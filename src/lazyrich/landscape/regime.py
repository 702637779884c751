"""Lazy, rich or delayed rich: a verdict from how much the tangent kernel moves along a trajectory, and when.

Lazy: the kernel stays what it is at the start, up to a tenth of its size. Rich: it does not. Delayed rich: it does
not, but the kernel of the start has fitted what it can long before: half of the change comes over ten times later
than the start's own learning time 1/‖K(0)‖. Each phase has a start, an end, and a share of what the loss falls.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.observables.ntk import kernels
from lazyrich.observables.tangent_kernel import Kernel
from lazyrich.problem import Problem
from lazyrich.trajectory import Trajectory, as_trajectory

__all__ = ["DELAY", "LAZY", "Phase", "Regime", "regime", "regime_of_solution"]

LAZY = 0.1  # movement of the kernel, relative, below which it counts as the one of the start
DELAY = 10.0  # times the start's own learning time, beyond which a change is late
_DONE = 0.9  # of the movement, or of the fall of the loss, where a phase ends
_SAMPLES = 60


@dataclass(frozen=True)
class Phase:
    """A stretch of learning; `share` is what the loss falls in it, as a part of its whole fall."""

    name: str  # "lazy" or "rich"
    start: float
    end: float
    share: float


@dataclass(frozen=True)
class Regime:
    """A word, and the numbers behind it."""

    name: str  # "lazy", "rich" or "delayed rich"
    kernel_movement: float  # largest ‖K(t) − K(0)‖, relative to the larger of ‖K(0)‖ and the last ‖K(t)‖
    kernel_distance: float  # 1 − cos of the angle between K(0) and the last K(t)
    kernel_half_time: float  # when half of the movement is done; nan: it does not move
    lazy_time: float  # 1/‖K(0)‖: how fast the kernel of the start learns
    phases: tuple[Phase, ...]

    def __str__(self) -> str:
        words = f"{self.name}: the kernel moves by {self.kernel_movement:.1%} and turns by {self.kernel_distance:.3f}"
        if self.name != "lazy":
            words += f", half of it by t = {self.kernel_half_time:.4g} (the start's own time is {self.lazy_time:.4g})"
        for phase in self.phases:
            words += f"; {phase.name} from {phase.start:.4g} to {phase.end:.4g}, {phase.share:.0%} of the loss"
        return words

    def to_dict(self) -> dict[str, Any]:
        """For JSON: None for what does not happen."""
        plain = asdict(self) | {"phases": [asdict(phase) for phase in self.phases]}
        return {key: None if value != value else value for key, value in plain.items()}


def regime(traj: Trajectory) -> Regime:
    """The regime in which a network learned, within the times of a trajectory.

    Linear networks of any depth, and two layers with a ReLU or a leaky one. `lr.fate(problem).regime` is that of an
    exact solution up to its limit, and `lr.predict_regime(problem)` says it from the start alone.

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01))
    >>> lr.regime(lr.solve(problem, range(200))).name
    'rich'
    """
    problem = as_trajectory(traj).problem
    first = kernels(_still(problem))[0]
    return _verdict(problem, np.asarray(traj.times, dtype=float), first, kernels(traj), np.asarray(traj.loss))


def regime_of_solution(trajectory: Trajectory, times: Float[Array, " T"]) -> Regime:
    """The regime of an exact solution; `times` cover all that happens, and the last recorded time is its limit."""
    chosen = times[np.unique(np.linspace(0, len(times) - 1, _SAMPLES).astype(int))]
    chosen = np.append(chosen, trajectory.times[-1])
    solution: Any = trajectory.solution

    def at(t: float) -> Kernel:  # one at a time, for large networks
        now = np.array([t])
        state = {"gram": solution.gram(now)} if hasattr(solution, "gram") else {"weights": solution.weights(now)}
        return kernels(Trajectory(trajectory.problem, now, trajectory.method, state))[0]

    return _verdict(trajectory.problem, chosen, at(0.0), map(at, chosen), solution.loss(chosen))


def _verdict(
    problem: Problem, times: Float[Array, " T"], first: Kernel, along: Iterable[Kernel], loss: Float[Array, " T"]
) -> Regime:
    changes, last = [], first
    for last in along:
        changes.append(first.change(last))
    moved = np.array(changes)
    peak, size = float(moved.max()), max(first.norm, last.norm)  # a kernel may leave and come back
    movement = peak / size if size else 0.0
    own = first.largest_eigenvalue() * _weight(problem)
    lazy_time = 1 / own if own > 0 else float("inf")
    half_time = _first_time(times, moved, peak / 2) if movement > 1e-7 else float("nan")
    name = "lazy" if movement < LAZY else "delayed rich" if half_time > DELAY * lazy_time else "rich"
    turned = first.distance(last) if first.norm and last.norm else 0.0
    return Regime(name, movement, turned, half_time, lazy_time, _phases(name, times, moved, size, loss))


def _phases(
    name: str, times: Float[Array, " T"], moved: Float[Array, " T"], size: float, loss: Float[Array, " T"]
) -> tuple[Phase, ...]:
    """Lazy until the kernel has moved by a tenth of its size, or the loss has fallen; then rich until it stays."""
    fallen = np.maximum.accumulate(loss[0] - loss)
    whole = float(fallen[-1])

    def phase(word: str, start: float, end: float) -> Phase:
        fall = np.interp([start, end], times, fallen)
        return Phase(word, start, end, float((fall[1] - fall[0]) / whole) if whole > 0 else float("nan"))

    if name == "lazy":
        return (phase("lazy", float(times[0]), _first_time(times, fallen, _DONE * whole)),)
    start, end = _first_time(times, moved, LAZY * size), _first_time(times, moved, _DONE * float(moved.max()))
    rich = phase("rich", start, end)
    return (rich,) if name == "rich" else (phase("lazy", float(times[0]), start), rich)


def _first_time(times: Float[Array, " T"], values: Float[Array, " T"], level: float) -> float:
    """When a value is first reached, between the nearest of the times."""
    if values.max() < level:
        return float("nan")
    i = int(np.argmax(values >= level))
    return float(np.interp(level, values[i - 1 : i + 1], times[i - 1 : i + 1])) if i else float(times[0])


def _still(problem: Problem) -> Trajectory:
    """The start alone."""
    weights = [W[None] for W in problem.network.weights]
    return Trajectory(problem, np.zeros(1), "start", {"weights": weights})


def _weight(problem: Problem) -> float:
    """Of one sample in the loss, which turns eigenvalues of the kernel into rates."""
    task = problem.task
    return 1 / len(task.inputs) if task.inputs is not None and task.reduction == "mean" else 1.0
