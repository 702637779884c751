"""Lazy, rich or delayed rich: a verdict from how much the tangent kernel moves along a trajectory, and when.

Lazy: the kernel stays what it is at the start, up to a tenth of its size, as long as there is anything to learn: until
the loss has fallen by 99 of 100 parts. Rich: it does not. Delayed rich: it does not, but the kernel of the start has
fitted what it can long before: half of the change comes over ten times later than the start's own learning time
1/‖K(0)‖, by its largest eigenvalue. Each phase has a start, an end, and a share of what the loss falls.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.landscape.saddle_path import time_grid
from lazyrich.observables.ntk import kernels
from lazyrich.observables.tangent_kernel import Kernel
from lazyrich.problem import Problem, loss_of
from lazyrich.trajectory import Trajectory, as_trajectory

__all__ = ["DELAY", "LAZY", "NEGLIGIBLE", "Phase", "Regime", "regime", "regime_of_solution", "unseen"]

LAZY = 0.1  # movement of the kernel, relative, below which it counts as the one of the start
NEGLIGIBLE = 0.01  # of the fall of the loss: what the kernel does when no more is left does not count
DELAY = 10.0  # times the start's own learning time, beyond which a change is late
_VANISHED = 1e-9  # of the largest kernel: what is left has the direction of rounding
_DONE = 0.9  # of the movement, or of the fall of the loss, where a phase ends
_SAMPLES = 60
_ROUNDS = 8


@dataclass(frozen=True)
class Phase:
    """A stretch of learning; `share` is what the loss falls in it, as a part of its whole fall; nan: it rises.

    >>> problem = lr.Problem(lr.Task.from_correlations([[0.0, 1.0]]), lr.inits.single_neuron([1.0, 0.1], delta=-20.0))
    >>> for phase in lr.regime(lr.solve(problem, [200.0])).phases:
    ...     print(f"{phase.name:4} until {phase.end:5.1f}: {phase.share:.0%} of the fall of the loss")
    lazy until  10.5: 46% of the fall of the loss
    rich until  62.7: 45% of the fall of the loss
    """

    name: str  # "lazy" or "rich"
    start: float
    end: float
    share: float


@dataclass(frozen=True)
class Regime:
    """A word, and the numbers behind it.

    >>> problem = lr.Problem(lr.Task.from_correlations([[0.0, 1.0]]), lr.inits.single_neuron([1.0, 0.1], delta=-20.0))
    >>> found = lr.regime(lr.solve(problem, [200.0]))
    >>> found.name, round(found.kernel_distance, 2), round(found.learned_by)
    ('delayed rich', 0.99, 86)
    """

    name: str  # "lazy", "rich" or "delayed rich"
    kernel_movement: float  # largest ‖K(t) − K(0)‖ until `learned_by`, relative to the larger of ‖K‖ then and at first
    kernel_distance: (
        float  # 1 − cos of the angle between K(0) and the last K(t); nan: it vanishes, and has no direction
    )
    kernel_half_time: float  # when half of the movement is done; nan: it does not move
    lazy_time: float  # 1/‖K(0)‖: how fast the kernel of the start learns
    learned_by: float  # when the loss has fallen by 99 of 100 parts
    phases: tuple[Phase, ...]

    def __str__(self) -> str:
        words = f"{self.name}: the kernel moves by {self.kernel_movement:.1%}"
        if np.isfinite(self.kernel_distance):
            words += f" and turns by {self.kernel_distance:.3f}"
        if self.name != "lazy":  # both thresholds are told by the numbers: a tenth, and ten times
            words += f", half of it by t = {self.kernel_half_time:.4g} (the start's own time is {self.lazy_time:.4g})"
        for phase in self.phases:
            words += f"; {phase.name} from {phase.start:.4g} to {phase.end:.4g}"
            words += f", {phase.share:.0%} of the loss" if np.isfinite(phase.share) else ""
        return words

    def to_dict(self) -> dict[str, Any]:
        """For JSON: None for what does not happen."""
        plain = {key: _finite(value) for key, value in asdict(self).items()}
        return plain | {"phases": [{k: _finite(v) for k, v in asdict(phase).items()} for phase in self.phases]}


def regime(traj: Trajectory) -> Regime:
    """The regime in which a network learned, from its start to the last time of a trajectory.

    Linear networks of any depth, and two layers with a ReLU or a leaky one. An exact trajectory is looked at wherever
    something changes; between the records of others is interpolated, and a change counts as late only where records
    tell so. `lr.fate(problem).regime` goes on to the limit, `lr.predict_regime(problem)` needs the start alone.

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01))
    >>> lr.regime(lr.solve(problem, [200.0])).name
    'rich'
    """
    problem, end = as_trajectory(traj).problem, float(traj.times[-1])
    if end == 0:
        raise InvalidInput(
            f"traj must go on after t = 0, and it ends there ({traj.status}): no regime shows at a start."
        )
    if traj.solution is not None:
        return regime_of_solution(traj, np.append(time_grid(traj), end))
    weights = [W[None] for W in problem.network.weights]
    first = kernels(Trajectory(problem, np.zeros(1), "start", {"weights": weights}))[0]
    times, along = np.asarray(traj.times, dtype=float), kernels(traj)
    pair = along.compared_with(first)
    seen = np.array([pair.change, pair.other_norm, traj.loss])
    if times[0] > 0:
        loss = loss_of(problem.task, problem.network.weights, problem.network.activation)
        times, seen = np.append(0.0, times), np.insert(seen, 0, [0.0, first.norm, loss], axis=1)
    return _verdict(times, seen, _Ends.of(problem, first, along[-1]))


def regime_of_solution(trajectory: Trajectory, times: Float[Array, " T"]) -> Regime:
    """The regime of an exact solution; `times` cover all that happens, and the last recorded time is its end."""
    solution: Any = trajectory.solution
    along, end = kernels(trajectory), float(trajectory.times[-1])

    def look(times: Float[Array, " T"]) -> Float[Array, "three T"]:
        pair = along.at(times).compared_with(first)
        return np.array([pair.change, pair.other_norm, solution.loss(times)])

    chosen = np.append(0.0, times[np.unique(np.linspace(0, len(times) - 1, _SAMPLES).astype(int))])
    latest = float(chosen.max())
    first, last, late = along.at(np.array([0.0, end, latest]))
    while latest < 1e18 * chosen[chosen > 0].min() and late.change(last) > 1e-3 * max(first.norm, last.norm):
        chosen = np.append(chosen, latest * np.geomspace(1.25, 4, 6))  # the kernel goes on after the function rests
        latest = float(chosen.max())
        late = along.at(np.array([latest]))[0]
    new, ends = np.unique(np.minimum(chosen, end)), _Ends.of(trajectory.problem, first, last)
    chosen, seen = np.empty(0), np.empty((3, 0))
    for _ in range(_ROUNDS):
        chosen, order = np.unique(np.append(chosen, new), return_index=True)
        seen = np.append(seen, look(new), axis=1)[:, order]
        found = _verdict(chosen, seen, ends)
        marks = [found.kernel_half_time, found.learned_by, *(t for p in found.phases for t in (p.start, p.end))]
        new = _closer(np.array([t for t in marks if np.isfinite(t) and t > 0]), chosen)
        if not len(new):
            break
    return found


def _closer(found: Float[Array, " m"], times: Float[Array, " T"]) -> Float[Array, " n"]:
    """Where to look next: at what was found between two times, and half way to the farther one, which would stay."""
    after = np.searchsorted(times, found)
    start, end = times[after - 1], times[after]
    return unseen(np.append(found, (found + np.where(found - start > end - found, start, end)) / 2), times)


def unseen(new: Float[Array, " m"], times: Float[Array, " T"]) -> Float[Array, " n"]:
    """The new times that are apart from the others, and from each other, by more than rounding."""
    new = np.unique(new[np.isfinite(new)])
    new = new[np.diff(new, prepend=-1.0) > 1e-12 * new]
    return new[np.abs(times - new[:, None]).min(axis=1) > 1e-12 * new]


class _Ends(NamedTuple):
    """What a verdict needs of the first kernel and the last."""

    norm: float  # ‖K(0)‖, Frobenius
    last_norm: float
    lazy_time: float
    turned: float

    @classmethod
    def of(cls, problem: Problem, first: Kernel, last: Kernel) -> _Ends:
        own = first.largest_eigenvalue() * _weight(problem)
        lazy_time = 1 / own if own > 0 else float("inf")
        return cls(float(first.norm), float(last.norm), lazy_time, first.distance(last))


def _verdict(times: Float[Array, " T"], seen: Float[Array, "three T"], ends: _Ends) -> Regime:
    """From ‖K − K(0)‖, ‖K‖ and the loss at each of the times, which start at 0."""
    *_, loss = seen
    fallen = np.maximum.accumulate(loss[0] - loss)
    whole = float(fallen[-1])
    fallen = fallen / whole if whole > 0 else np.full_like(fallen, np.nan)
    learned_by = _first_time(times, fallen, 1 - NEGLIGIBLE)[0] if whole > 0 else times[-1]
    until = np.append(times[times < learned_by], learned_by)
    moved, norms, fallen = (np.interp(until, times, values) for values in (*seen[:2], fallen))
    peak, size = float(moved.max()), max(ends.norm, float(norms[-1]))  # a kernel may leave and come back
    movement = peak / size if size else 0.0
    half_time, before = _first_time(until, moved, peak / 2) if movement > 1e-7 else (float("nan"), 0.0)
    name = "lazy" if movement < LAZY else "rich"
    if name == "rich" and half_time > DELAY * ends.lazy_time and before > half_time / 2:
        name = "delayed rich"  # where records are too far apart to tell, it is not
    phases = _phases(name, until, moved, size, fallen)
    turned = float("nan") if ends.last_norm < _VANISHED * max(ends.norm, float(seen[1].max())) else ends.turned
    return Regime(name, movement, turned, half_time, ends.lazy_time, float(learned_by), phases)


def _phases(
    name: str, times: Float[Array, " T"], moved: Float[Array, " T"], size: float, fallen: Float[Array, " T"]
) -> tuple[Phase, ...]:
    """Lazy until the kernel has moved by a tenth of its size, or the loss has fallen; then rich until it stays."""

    def phase(word: str, start: float, end: float) -> Phase:
        return Phase(word, start, end, float(np.interp(end, times, fallen) - np.interp(start, times, fallen)))

    if name == "lazy":
        return (phase("lazy", 0.0, _first_time(times, fallen, _DONE)[0]),) if fallen[-1] > 0 else ()
    start, end = _first_time(times, moved, LAZY * size)[0], _first_time(times, moved, _DONE * float(moved.max()))[0]
    rich = phase("rich", start, end)
    return (rich,) if name == "rich" else (phase("lazy", 0.0, start), rich)


def _first_time(times: Float[Array, " T"], values: Float[Array, " T"], level: float) -> tuple[float, float]:
    """When a value is first reached, between the nearest of the times, and the one before; nan where it never is."""
    if values.max() < level:
        return float("nan"), float("nan")
    i = int(np.argmax(values >= level))
    if i == 0:
        return float(times[0]), float(times[0])
    return float(np.interp(level, values[i - 1 : i + 1], times[i - 1 : i + 1])), float(times[i - 1])


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _weight(problem: Problem) -> float:
    """Of one sample in the loss, which turns eigenvalues of the kernel into rates."""
    task = problem.task
    return 1 / len(task.inputs) if task.inputs is not None and task.reduction == "mean" else 1.0
