"""When to stop: where the derivative of the test loss along the trajectory vanishes,

    dL'/dt = ⟨∇L'(W), Ẇ⟩,        ∇L' = WΣ'xx − Σ'yx where the loss is the squared one

with Ẇ of the trajectory's own state. A closed form is looked at ever more closely until a cubic through losses and
derivatives tells what lies between, and every minimum is then found by Brent's method on the derivative, which has all
its digits where the loss itself is flat. What was integrated is known at its records: there the cubic tells, and the
error of the time is estimated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lazyrich._threads import SMALL, one_blas_thread
from lazyrich._typing import Array, Float
from lazyrich.networks import Network
from lazyrich.observables.held_out import loss_on
from lazyrich.prediction import Prediction
from lazyrich.problem import Problem
from lazyrich.tasks import Task
from lazyrich.trajectory import Trajectory
from lazyrich.velocity import gram_velocity, velocity

if TYPE_CHECKING:
    from scipy.interpolate import CubicHermiteSpline

_CLOSE = 1e-5  # of the range of the test loss: as near as a cubic must come to it between two times
_MOST, _ROUNDS = 4_000, 12  # times that are looked at, and how often they are halved
_TIE = 1e-13  # of the largest test loss: by less no time is better than another
_LATER = 2.0 ** np.arange(1, 41)  # times the course, where that has not come to its end
_STEP = 1e-4  # of the time, for a curvature


@dataclass(frozen=True)
class Stopping:
    """The best time to stop, and the test loss there.

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.5]]]))
    >>> best = lr.generalisation.curve(problem, lr.Task.from_correlations([[1.0]])).best
    >>> bool(abs(best.time - np.log(1.5)) < 1e-12), best.exact, best.never
    (True, True, False)
    """

    time: float  # np.inf: it never hurts to go on
    loss: float  # of the test task, there; where it never hurts, in the limit or as far as was looked
    error: float  # of the time, as much as to expect; 0 where it is 0 or inf
    exact: bool  # a root of the derivative of a closed form; else read from records

    @property
    def never(self) -> bool:
        """Whether it never hurts to go on."""
        return bool(np.isinf(self.time))

    def __repr__(self) -> str:
        return f"Stopping(time={self.time:.6g}, loss={self.loss:.6g}, error={self.error:.1g}, exact={self.exact})"


class Course(NamedTuple):
    """Test loss and its derivative along a trajectory, at times in rising order."""

    times: Float[Array, " T"]
    loss: Float[Array, " T"]
    slope: Float[Array, " T"]

    def at(self, times: Float[Array, " n"]) -> Float[Array, " n"]:
        """The cubic through losses and derivatives."""
        return np.asarray(self._cubic()(times))

    def minima(self) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        """When the cubic has minima, and its second derivative there."""
        cubic = self._cubic()
        roots = np.asarray(cubic.derivative().roots(extrapolate=False))
        roots = np.unique(roots[np.isfinite(roots)])
        bent = np.asarray(cubic.derivative(2)(roots))
        return roots[bent > 0], bent[bent > 0]

    def joined(self, other: Course) -> Course:
        """With other times, in order."""
        order = np.argsort(np.concatenate([self.times, other.times]), kind="stable")
        return Course(*(np.concatenate(pair)[order] for pair in zip(self, other, strict=True)))

    def _cubic(self) -> CubicHermiteSpline:
        from scipy.interpolate import CubicHermiteSpline  # here, to keep `import lazyrich` quick

        return CubicHermiteSpline(*self)


def course_of(traj: Trajectory, test: Task) -> Course:
    """What a trajectory does to the test loss, at each of its times; derivatives by differences where it has neither
    weights nor QQᵀ."""
    times, first = np.unique(np.asarray(traj.times, dtype=float), return_index=True)
    loss = loss_on(traj, test)[first]
    if traj.knows("weights") or traj.knows("gram"):
        return Course(times, loss, slopes(traj, test)[first])
    return Course(times, loss, np.gradient(loss, times) if len(times) > 1 else np.zeros_like(loss))


def slopes(traj: Trajectory, test: Task) -> Float[Array, " T"]:
    """dL'/dt at each time: of QQᵀ by its block W, of weights by all layers, ∂L'/∂W_ℓ being what would learn the test
    task, reversed."""
    problem, state = traj.problem, traj.state
    d_in, tested = problem.task.d_in, Problem(test, problem.network, loss=problem.loss)
    with one_blas_thread(max(problem.network.sizes) <= SMALL):
        if state.gram is not None:
            shallow = Problem(test, Network([problem.network.function]), loss=problem.loss)
            pulls = (velocity(shallow, [G[d_in:, :d_in]])[0] for G in state.gram)
            moves = (gram_velocity(problem, G)[d_in:, :d_in] for G in state.gram)
            return -np.array([np.vdot(E, dW) for E, dW in zip(pulls, moves, strict=True)])
        return np.array([_slope(problem, tested, layers) for layers in state.layers()])


def _slope(problem: Problem, tested: Problem, layers: list[Array]) -> float:
    pairs = zip(velocity(tested, layers), velocity(problem, layers), strict=True)
    return -float(sum(np.vdot(wanted, moves) for wanted, moves in pairs))


def best(prediction: Prediction, test: Task) -> tuple[Stopping, Course]:
    """The best time to stop, over the whole course and not only the times that were asked for, and what was seen."""
    if prediction.exact:
        return _of_closed_form(prediction, test)
    return _of_records(prediction, test)


def _of_closed_form(prediction: Prediction, test: Task) -> tuple[Stopping, Course]:
    traj = prediction.course

    def look(times: Float[Array, " n"]) -> Course:
        return course_of(traj.at(times), test)

    likely, end = prediction.half_times[np.isfinite(prediction.half_times)], float(traj.times[-1])
    limit = float(loss_on(traj.at([np.inf]), test)[0])
    seen = look(np.union1d(traj.times, likely[likely < end]))
    tie = _TIE * float(seen.loss.max())
    later = look(end * _LATER)  # what training hardly feels may come late, and the test feel it
    seen = seen.joined(Course(*(part[: _settled(later.loss, limit, tie)] for part in later)))
    seen = refined(look, seen)
    found = [Stopping(0.0, float(seen.loss[0]), 0.0, True)]
    lowest = min(float(seen.loss.min()), limit) + _CLOSE * float(np.ptp(seen.loss))
    for i in np.flatnonzero((seen.slope[:-1] < 0) & (seen.slope[1:] >= 0)):
        if min(seen.at(np.linspace(seen.times[i], seen.times[i + 1], 9))) <= lowest:
            found.append(_root(look, prediction.error, seen, (float(seen.times[i]), float(seen.times[i + 1]))))
    return _chosen(found, limit, tie, exact=True), seen


def _settled(loss: Float[Array, " T"], limit: float, tie: float) -> int:
    """How many of the times there are until the loss stays where it ends."""
    return 1 + int(np.max(np.flatnonzero(np.abs(loss - limit) > tie), initial=-2) + 1)


def refined(look: Callable[[Float[Array, " n"]], Course], seen: Course) -> Course:
    """With times between, until the cubic through all of them tells what happens between two."""
    left, right = seen.times[:-1], seen.times[1:]
    for _ in range(_ROUNDS):
        middle = (left + right) / 2
        inside = (middle > left) & (middle < right)
        left, right, middle = left[inside], right[inside], middle[inside]
        if not len(middle) or len(seen.times) + len(middle) > _MOST:
            break
        found, size = look(middle), float(np.ptp(seen.loss))
        off = np.abs(seen.at(middle) - found.loss) > _CLOSE * size
        ends = np.interp([left, right], seen.times, seen.slope)
        off |= (ends[0] * ends[1] > 0) & (found.slope * ends[0] < 0)  # it turns, and turns back
        seen = seen.joined(found)
        left, right = (np.sort(np.append(*pair)) for pair in ((left[off], middle[off]), (middle[off], right[off])))
    return seen


def _root(
    look: Callable[[Float[Array, " n"]], Course], error: float, seen: Course, bracket: tuple[float, float]
) -> Stopping:
    """The minimum between two times, by Brent's method on the derivative; the error of the trajectory, which is one of
    the derivative, moves it by that over the curvature."""
    from scipy.optimize import brentq

    eps = float(np.finfo(np.float64).eps)

    def slope(t: float) -> float:
        return float(look(np.array([t])).slope[0])

    first, last = bracket
    if slope(first) >= 0 or slope(last) <= 0:  # alone, a derivative may be rounded otherwise than among others
        t = first if slope(first) >= 0 else last
    else:
        t = float(brentq(slope, first, last, xtol=4 * eps * last, rtol=4 * eps))
    h = min(_STEP * t, last - first)
    around = look(np.array([t - h, t, t + h]))
    bend = float(around.slope[2] - around.slope[0]) / (2 * h)
    return Stopping(t, float(around.loss[1]), _moved(error, seen, bend), True)


def _moved(error: float, seen: Course, bend: float) -> float:
    """By how much an error of the derivative, relative to its largest, moves a minimum; no further than was looked."""
    last = float(seen.times[-1])
    return min(error * float(np.abs(seen.slope).max()) / bend, last) if bend > 0 else last


def _of_records(prediction: Prediction, test: Task) -> tuple[Stopping, Course]:
    """Between records, by a polynomial through four of them; how far off the cubic through two is tells the error."""
    traj = prediction.kernel_course or prediction.course
    traj = traj if traj.knows("weights") or traj.knows("gram") else prediction.course
    seen = course_of(traj, test)
    found = [Stopping(0.0, float(seen.loss[0]), 0.0, False)]
    if len(seen.times) > 1:
        for t, bend in zip(*seen.minima(), strict=True):
            better, value, missed = _between(seen, float(t))
            off = min(_moved(prediction.error, seen, float(bend)) + missed, float(seen.times[-1]))
            found.append(Stopping(better, value, off, False))
    size = float(np.ptp(seen.loss))
    return _chosen(found, float(seen.loss[-1]), prediction.error * size, exact=False), seen


def _between(seen: Course, t: float) -> tuple[float, float, float]:
    """A minimum of the cubic, seen closer: its time, the loss there, and how far it may still be off."""
    from scipy.interpolate import KroghInterpolator
    from scipy.optimize import brentq

    after = int(np.clip(np.searchsorted(seen.times, t), 1, len(seen.times) - 1))
    left, right = float(seen.times[after - 1]), float(seen.times[after])
    apart = (right - left) / 2  # records that nearly coincide with these add nothing but rounding
    before, behind = np.searchsorted(seen.times, [left - apart, right + apart])
    nodes = np.unique(np.clip([before - 1, after - 1, after, behind], 0, len(seen.times) - 1))
    values = np.column_stack([seen.loss[nodes], seen.slope[nodes]]).ravel()
    through = KroghInterpolator(np.repeat(seen.times[nodes], 2), values)

    def slope(t: float) -> float:
        return float(through.derivative(t))

    if not seen.slope[after - 1] < 0 < seen.slope[after] or not slope(left) < 0 < slope(right):
        return t, float(seen.at(np.array([t]))[0]), right - left
    better = float(brentq(slope, left, right, xtol=1e-12 * right))
    return better, float(through(better)), abs(better - t)


def _chosen(found: list[Stopping], end: float, tie: float, *, exact: bool) -> Stopping:
    """The lowest, where that is lower than the end by more than errors; else never."""
    lowest = min(found, key=lambda each: each.loss)
    return lowest if lowest.loss < end - tie else Stopping(float(np.inf), end, 0.0, exact)
