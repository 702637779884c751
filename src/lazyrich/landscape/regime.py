"""Lazy, rich or delayed rich: the regime of a trajectory, measured from how far its tangent kernel moves, and when.

What the words mean is said in `lazyrich.laziness.definition`. Here the kernel and the loss are followed along a
trajectory, as closely as the verdict needs where it is exact, and phases are told apart: each has a beginning, an end,
and a share of what the loss falls.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._status import End
from lazyrich._threads import one_blas_thread
from lazyrich._typing import Array, Float
from lazyrich.landscape.saddle_path import time_grid
from lazyrich.laziness.course import Course, first_time
from lazyrich.laziness.definition import USUAL, Judgement, RegimeName, Thresholds, judge
from lazyrich.observables.crossings import reached, unseen
from lazyrich.observables.kernels.algebra import Kernel
from lazyrich.observables.kernels.along import Kernels, has_kernel, kernels
from lazyrich.problem import Problem, loss_of
from lazyrich.state import State
from lazyrich.trajectory import Trajectory, as_trajectory

_VANISHED = 1e-9  # of the largest kernel: what is left has the direction of rounding
_DONE = 0.9  # of the movement, or of the fall of the loss, where a phase ends
_RISEN = 1e-9  # beyond rounding
_SAMPLES = 30
_ROUNDS = 8
_REST = 1e-8  # of what the loss falls: with less of it left there is nothing to be learned
_ROUNDING = 1e-14  # of the loss: by less it is not seen to fall
_STEADY = 0.01  # relative: what the verdict of some records rests on may still move
_RECORDS = 9  # that a nonlinear network is looked at first, by their number and by the loss
_ALL = 2**26  # entries of all kernels of records, up to which each is looked at
_LINE = 1e-6  # of the time: between records as close as this all is straight
_FLAT = 1e-3  # of the time: as close as this to its highest point a curve is flat
_NEAR = 4  # records on each side through which a time is interpolated


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
    >>> found.name, round(found.kernel_movement, 2), round(found.kernel_distance, 2), round(found.learned_by)
    ('delayed rich', 1.37, 0.94, 86)
    """

    judgement: Judgement
    kernel_half_time: float  # when half of the movement is done; nan: it does not move
    lazy_time: float  # 1/‖K(0)‖, by its largest eigenvalue: in which the kernel of the initialisation learns
    learned_by: float  # when the loss has fallen by 99 of 100 parts
    phases: tuple[Phase, ...]

    @property
    def name(self) -> RegimeName:
        """ "lazy", "rich" or "delayed rich"; "unknown" where the kernel is zero."""
        return self.judgement.name

    @property
    def kernel_movement(self) -> float:
        """Largest ‖K(t) − K(0)‖ until `learned_by`, relative to the larger of ‖K‖ then and at first."""
        return self.judgement.kernel_movement

    @property
    def kernel_distance(self) -> float:
        """S = 1 − cos of the angle between K(0) and K at `learned_by`; nan: it vanishes, and has no direction."""
        return self.judgement.kernel_distance

    def __str__(self) -> str:
        words = str(self.judgement)
        if np.isfinite(self.kernel_half_time) and self.name != "lazy":
            words += f"; half of the movement is done by t = {self.kernel_half_time:.4g}"
            words += self._how_late() if np.isfinite(self.lazy_time) else ""
        for phase in self.phases:
            words += f"; {phase.name} from {phase.start:.4g} to {phase.end:.4g}"
            words += f", {phase.share:.0%} of the loss" if np.isfinite(phase.share) else ""
        return words

    def _how_late(self) -> str:
        times, late = self.kernel_half_time / self.lazy_time, self.judgement.thresholds.late
        words = f", {times:.3g} times the {self.lazy_time:.4g} in which the kernel of the initialisation learns"
        untold = self.name is RegimeName.RICH and times > late
        return words + (
            " (records are too far apart to call it delayed)" if untold else f" (over {late:g} times is delayed)"
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON: None for what does not happen."""
        plain = asdict(self)
        return _finite(plain.pop("judgement") | plain)


def regime(traj: Trajectory, thresholds: Thresholds = USUAL) -> Regime:
    """The regime in which a network learned, from t = 0 to the last time of a trajectory.

    Lazy: the tangent kernel moves by less than a tenth until the loss has fallen by 99 of 100 parts. Rich: it moves by
    more. Delayed rich: half of that is done only after ten times the time in which the kernel of the initialisation
    learns, 1/‖K(0)‖; that is the time of the squared loss, and with another nothing is called delayed. `thresholds`
    sets other limits; `lazyrich.laziness.definition` says why these.

    Networks of any depth and activation; all but linear ones on the samples of the task. An exact trajectory is looked
    at wherever something changes; between the records of others is interpolated, and a change counts as late only where
    records tell so. `lr.fate(problem).regime` goes on to the limit, `lr.predict_regime(problem)` needs the initial
    weights alone.

    Parameters
    ----------
    traj : of any network that learned
    thresholds : where lazy ends and late begins

    Returns
    -------
    Regime : `name`, `kernel_movement`, `kernel_distance`, `kernel_half_time`, `learned_by`, `phases`

    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01))
    >>> lr.regime(lr.solve(problem, [200.0])).name
    'rich'
    """
    problem, end = as_trajectory(traj).problem, float(traj.clock[-1])
    if end == 0:
        raise InvalidInput(f"traj must go on after t = 0, and it ends there ({traj.status}): no regime shows at once.")
    if traj.status.end is End.DIVERGED:
        raise InvalidInput(f"traj must not have diverged, for a regime is one of learning, and it has: {traj.status}.")
    first_loss = loss_of(problem.task, problem.network.weights, problem.network.activation, problem.loss)
    if traj.loss[-1] > first_loss + _RISEN * abs(first_loss) and not problem.weight_decay:
        raise InvalidInput(
            f"traj must have learned something, and its loss rose from {first_loss:.3g} to {traj.loss[-1]:.3g}: try a "
            "smaller rate, or a longer run."
        )
    if traj.solution is not None:
        return regime_of_solution(traj, np.append(time_grid(traj), end), thresholds)
    return _regime_of_records(traj, first_loss, thresholds)


def _regime_of_records(traj: Trajectory, first_loss: float, thresholds: Thresholds) -> Regime:
    """From all records of a linear network; of others, whose kernels have the samples squared as entries, from some
    (all where there are no factors and entries are few: kernels of deep ReLU networks jump from record to record).
    Those next to what the verdict rests on are looked at too, until that moves no more."""
    times, loss, along = np.asarray(traj.times, dtype=float), np.asarray(traj.loss), kernels(traj)
    first = along.initial()
    lazy_time, network = _lazy_time(traj.problem, first), traj.problem.network
    rows = len(first.inputs.Y) * first.d_out
    every = network.activation.linear or (not has_kernel(network) and len(times) * rows**2 <= _ALL)
    new, known, marks = np.arange(len(times)) if every else _spread(loss), np.empty(0, int), np.empty(0)
    seen, start = np.empty((4, 0)), np.array([[0.0], [first.norm], [0.0], [first_loss]])
    for _ in range(_ROUNDS):
        pair = along.some(new).compared_with(first)
        known, order = np.unique(np.append(known, new), return_index=True)
        seen = np.append(seen, [pair.change, pair.other_norm, pair.distance, loss[new]], axis=1)[:, order]
        late = times[known[0]] > 0
        clock, values = (np.append(0.0, times[known]), np.append(start, seen, axis=1)) if late else (times[known], seen)
        found = _verdict(clock, values, lazy_time, thresholds)
        before, marks = marks, np.append(_marks(found), clock[int(np.argmax(values[0]))])
        new = np.setdiff1d(np.clip(np.searchsorted(times, marks) - [[0], [1]], 0, len(times) - 1), known)
        if not len(new) or (len(before) == len(marks) and np.allclose(before, marks, rtol=_STEADY, atol=0.0)):
            break
    return found


def _spread(loss: Float[Array, " T"]) -> Array:
    """Some records, the first and the last among them: evenly, and where the loss falls."""
    even = np.linspace(0, len(loss) - 1, min(_RECORDS, len(loss))).astype(int)
    fallen = np.maximum.accumulate(loss[0] - loss)
    levels = np.linspace(0, fallen[-1], min(_RECORDS, len(loss)))
    return np.union1d(even, np.minimum(np.searchsorted(fallen, levels), len(loss) - 1))


def _marks(found: Regime) -> Float[Array, " m"]:
    """The times that a verdict rests on."""
    marks = [found.kernel_half_time, found.learned_by, *(t for p in found.phases for t in (p.start, p.end))]
    return np.array([t for t in marks if np.isfinite(t) and t > 0])


def regime_of_solution(trajectory: Trajectory, times: Float[Array, " T"], thresholds: Thresholds = USUAL) -> Regime:
    """The regime of an exact solution; `times` cover all that happens, and the last recorded time is its end."""
    along, end = kernels(trajectory), float(trajectory.clock[-1])
    first, last = along.at(np.array([0.0, end]))
    search = regime_search(times, end, max(first.norm, last.norm), _lazy_time(trajectory.problem, first), thresholds)
    seen = None
    while True:
        try:
            new, from_the_end = search.send(seen)
        except StopIteration as ended:
            return ended.value
        seen = _look(trajectory, along.at(new), new, last if from_the_end else first)


class Look(NamedTuple):
    """Where a search wants to see ‖K − K_ref‖, ‖K‖, S and the loss, and from which kernel: the first, or the last."""

    times: Float[Array, " T"]
    from_the_end: bool


def regime_search(
    times: Float[Array, " T"], end: float, largest: float, lazy_time: float, thresholds: Thresholds = USUAL
) -> Generator[Look, Any, Regime]:
    """Asks for looks, gets four rows of numbers for each, and gives the regime; `largest` is the norm of the larger of
    the first and the last kernel."""
    chosen = np.append(0.0, times[np.unique(np.linspace(0, len(times) - 1, _SAMPLES).astype(int))])
    latest = float(chosen.max())
    most, (change, _, _, loss) = 1e18 * chosen[chosen > 0].min(), (yield Look(np.array([0.0, end, latest]), True))
    last_loss, fall = loss[1], loss[0] - loss[1]
    rest = max(_REST * fall, _ROUNDING * max(loss[0], loss[1])) if fall > 0 else np.inf  # a decay has nothing to learn
    while latest < most and (change[-1] > 1e-3 * largest or abs(loss[-1] - last_loss) > rest):
        chosen = np.append(chosen, latest * np.geomspace(1.25, 4, 6))  # the kernel goes on after the function rests
        latest = float(chosen.max())
        change, _, _, loss = yield Look(np.array([latest]), True)
    new = np.unique(np.minimum(chosen, end))
    chosen, seen = np.empty(0), np.empty((4, 0))
    for _ in range(_ROUNDS):
        chosen, order = np.unique(np.append(chosen, new), return_index=True)
        seen = np.append(seen, (yield Look(new, False)), axis=1)[:, order]
        found = _verdict(chosen, seen, lazy_time, thresholds)
        new = _closer(found, chosen, seen)
        if not len(new):
            break
    return found


def _look(trajectory: Trajectory, along: Kernels, times: Float[Array, " T"], first: Kernel) -> Float[Array, "four T"]:
    """‖K − K(0)‖, ‖K‖, S and the loss; where QQᵀ is known, it has the function too."""
    solution: Any = trajectory.solution
    task, loss = trajectory.problem.task, np.empty(len(times))
    if not solution.gives_gram:
        pair, loss = along.compared_with(first), solution.loss(times)
        return np.array([pair.change, pair.other_norm, pair.distance, loss])

    def read(some: slice, state: State) -> None:
        loss[some] = task.loss(state.gram[:, task.d_in :, : task.d_in])

    pair = along.compared_with(first, read)
    return np.array([pair.change, pair.other_norm, pair.distance, loss])


def _closer(found: Regime, times: Float[Array, " T"], seen: Float[Array, "four T"]) -> Float[Array, " n"]:
    """Where to look next: on both sides of what was found, as close as it is known; and where the kernel turns back."""
    change, _, _, loss = seen
    lazy = found.name is RegimeName.LAZY
    marks = {(found.learned_by, False), (found.kernel_half_time, True)}
    marks |= {(t, not lazy) for phase in found.phases for t in (phase.start, phase.end)}
    until = int(np.searchsorted(times, found.learned_by, side="right"))
    new = [_summit(times, change, int(np.argmax(change[:until])))]
    for t, of_kernel in marks:
        if np.isfinite(t) and t > 0:
            new.append(_both_sides(t, times, change if of_kernel else loss - loss[-1]))
    return unseen(np.concatenate(new), times)


def _both_sides(t: float, times: Float[Array, " T"], values: Float[Array, " T"]) -> Float[Array, " n"]:
    """Two times around the one at which a value is reached, between two records whose line says `t`; none where these
    are so close that a line will do. What grows or is left changes by factors: logarithms are interpolated."""
    after = min(max(int(np.searchsorted(times, t)), 1), len(times) - 1)
    start, end = float(times[after - 1]), float(times[after])
    if end - start <= _LINE * t:
        return np.empty(0)
    level, near = float(np.interp(t, times, values)), slice(max(after - _NEAR, 0), after + _NEAR)
    with np.errstate(divide="ignore", invalid="ignore"):  # before it grows, or when nothing is left
        rises = np.log(values[near] / level) * np.sign(values[after] - values[after - 1])
    best, error = reached(times[near], rises, after - near.start)
    if error < 0.1 * (end - start):
        apart = max(2 * error, _LINE / 4 * best)
        sides = np.array([best - apart, best + apart])
        return sides[(sides > start) & (sides < end)]
    return np.array([t, (t + (start if t - start > end - t else end)) / 2])  # the farther record would stay


def _summit(times: Float[Array, " T"], values: Float[Array, " T"], at: int) -> Float[Array, " n"]:
    """Where a parabola through the largest value and its neighbours is highest, while they are apart."""
    if not 0 < at < len(times) - 1 or times[at + 1] - times[at - 1] <= _FLAT * times[at]:
        return np.empty(0)
    t, v = times[at - 1 : at + 2], values[at - 1 : at + 2]
    left, right = (v[1] - v[0]) / (t[1] - t[0]), (v[2] - v[1]) / (t[2] - t[1])
    top = (t[0] + t[1] + left * (t[2] - t[0]) / (left - right)) / 2 if left > 0 > right else t[1]  # else: it rises on
    return np.array([top])


def _lazy_time(problem: Problem, first: Kernel) -> float:
    """1 over the largest eigenvalue of K(0), as a rate: the time in which the kernel of the initialisation learns the
    squared loss. Of others nobody knows, and nothing is late."""
    if not problem.loss.squared:
        return float("inf")
    with one_blas_thread():
        return lazy_time_of_rate(first.largest_eigenvalue() * sample_weight(problem))


def lazy_time_of_rate(rate: float) -> float:
    """The time in which a kernel learns whose largest eigenvalue is this rate."""
    return 1 / rate if rate > 0 else float("inf")


def _verdict(
    times: Float[Array, " T"], seen: Float[Array, "four T"], lazy_time: float, thresholds: Thresholds
) -> Regime:
    """From ‖K − K(0)‖, ‖K‖, S and the loss at each of the times, which start at 0."""
    change, norms, distances, loss = seen
    course = Course.of(times, change, norms, distances, loss, thresholds)
    half_time, before = course.half_time()
    told = before > half_time / 2  # where records are too far apart to tell, it is not late
    # both numbers at one time: what the kernel does when there is nothing left to learn does not count
    turned = float("nan") if course.last < _VANISHED * float(norms.max()) else course.rotation
    delay = half_time / lazy_time if told else 0.0
    judgement = judge(course.movement, turned, delay=delay, thresholds=thresholds)
    return Regime(judgement, half_time, lazy_time, course.learned_by, _phases(judgement, course))


def _phases(judgement: Judgement, course: Course) -> tuple[Phase, ...]:
    """Lazy until the kernel has moved as far as lazy goes, or the loss has fallen; then rich until it stays."""
    times, moved, fallen = course.times, course.moved, course.fallen

    def phase(word: str, start: float, end: float) -> Phase:
        return Phase(word, start, end, float(np.interp(end, times, fallen) - np.interp(start, times, fallen)))

    if judgement.name is RegimeName.UNKNOWN:
        return ()
    if judgement.name is RegimeName.LAZY:
        done = first_time(times, fallen, min(_DONE, float(fallen[-1])))[0]
        return (phase("lazy", 0.0, done),) if fallen[-1] > 0 else ()
    lazy, most = judgement.thresholds.lazy * course.size, float(moved.max())
    done = _DONE * most if _DONE * most > lazy else most  # hardly farther than lazy goes: rich until it is there
    start = first_time(times, moved, lazy)[0]
    rich = phase("rich", start, first_time(times, moved, done)[0])
    return (rich,) if judgement.name is RegimeName.RICH else (phase("lazy", 0.0, start), rich)


def _finite(value: Any) -> Any:
    """The same with None for numbers that are not finite, in dictionaries and tuples too."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def sample_weight(problem: Problem) -> float:
    """Of one sample in the loss, which turns eigenvalues of the kernel into rates."""
    task = problem.task
    return 1 / len(task.inputs) if task.inputs is not None and task.reduction == "mean" else 1.0
