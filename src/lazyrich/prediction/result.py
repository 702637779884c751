"""What `predict` returns: a trajectory, how it is known and how far it may be off, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._rounding import ROUNDING
from lazyrich._status import End
from lazyrich._typing import Array, Float
from lazyrich.facts import Refusal
from lazyrich.landscape.fate import Fate
from lazyrich.landscape.regime import Regime, regime
from lazyrich.landscape.steps import Steps
from lazyrich.methods.gram import best_map
from lazyrich.networks.run import check_beginning
from lazyrich.observables.modes import half_times
from lazyrich.prediction.closed_form import ClosedForm
from lazyrich.prediction.looking import NEAR, falls
from lazyrich.prediction.modes import Frames, frames_of, functions_of, in_frames
from lazyrich.prediction.told import told
from lazyrich.tasks import Task
from lazyrich.trajectory import Trajectory, as_trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NOTHING = 1e-6  # of the strongest mode: not a mode of the task
_UNCERTAIN = 1e-10  # of a closed form: an error to be told
_SAME_TASK = 1e-5  # of the largest correlation: what single precision may make of the same data


class Knowledge(StrEnum):
    """How a prediction knows."""

    EXACT = "exact"
    INTEGRATED = "integrated"
    ESTIMATED = "estimated"


class Caution(NamedTuple):
    """What a reader must know, in few words for a picture and as a sentence; that is empty where the notes of the
    trajectory have one."""

    short: str
    sentence: str


@dataclass(frozen=True, eq=False)
class Prediction:
    """A trajectory, how sure it is, and what follows from it. `print(prediction)` reads well, `.plot()` draws it.

    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.gaussian(0, sizes=(8, 14, 8), scale=0.01))
    >>> found = lr.predict(problem)
    >>> found.exact, found.method, found.error < 1e-6, found.half_times.round(1)[:2]
    (False, 'flow', True, array([10.5, 11.1]))
    """

    trajectory: Trajectory
    known: Knowledge
    error: float  # of loss and modes, relative to their largest values on the course: the most to expect
    course: Trajectory  # from 0 until all that happens can be seen: what half times are read from
    kernel_course: Trajectory | None = None  # what the regime is read from; None: it is not known
    fate: Fate | None = None  # where a theorem gives one
    refusals: dict[str, tuple[Refusal, ...]] = field(default_factory=dict)  # why no theorem applies, method by method
    closed_form: ClosedForm | None = None  # of a random initialisation
    steps: Steps | None = None  # of gradient descent, where a rate was given

    @property
    def exact(self) -> bool:
        return self.known is Knowledge.EXACT

    @property
    def method(self) -> str:
        return self.trajectory.method

    @cached_property
    def frames(self) -> Frames:
        """Singular vectors of Σyx, as in `mode_strengths`; where a theorem tells the fate, of the best linear map.

        With white inputs they are the same. Where singular values are equal, the network tells which. With another
        loss than the squared one they are those of `problem.pull`, which small weights learn first.
        """
        problem = self.trajectory.problem
        if self.fate is not None:
            return frames_of(problem, problem.task.target, [self.fate.function_limit])
        if problem.network.activation.linear and not problem.facts.bottleneck:
            return frames_of(problem, problem.pull)  # all are learned, and the initialisation tells when
        return frames_of(problem, problem.pull, [functions_of(self.course.at(self.course.times[-1:]))[0]])

    @cached_property
    def strengths(self) -> Float[Array, "T m"]:
        """uᵀW(t)v of each mode; of a nonlinear network uᵀE[f xᵀ]v, which is s where all of Σyx is learned."""
        same = np.array_equal(self.trajectory.times, self.course.times)
        return self.along if same else self.strengths_of(self.trajectory)

    @cached_property
    def along(self) -> Float[Array, "T m"]:
        """The strengths until all that happens can be seen."""
        return self.strengths_of(self.course)

    @cached_property
    def limit(self) -> Float[Array, " m"]:
        """Where each mode ends, if that is known (`limit_known`); else how strong it is when all has been seen."""
        return self.along[-1] if self._end is None else self._end

    @property
    def limit_known(self) -> bool:
        """Whether it is known where the modes end.

        By the theorem, where one applies. With the squared loss two linear layers without weight decay end at the best
        map of the rank that the weights have, from almost every initialisation; deeper ones are taken to, once every
        mode is on its way.
        """
        return self._end is not None

    @cached_property
    def _end(self) -> Float[Array, " m"] | None:
        problem, target = self.trajectory.problem, self.frames.target
        if self.fate is not None:
            return self.fate.limit
        if not problem.network.activation.linear or problem.weight_decay or not problem.loss.squared:
            return None
        if problem.network.depth == 2:
            best = best_map(problem)
            # a direction that no input has is not learned, and moves with the rest: nobody knows where to
            hidden = problem.facts.input_rank is not None and self.frames.s[-1] <= ROUNDING * self.frames.s[0]
            return None if best is None or hidden else in_frames(best[None], self.frames)[0]
        # a rank that a layer has not, the flow does not make
        ranks = [np.linalg.matrix_rank(W) for W in problem.network.free(problem.network.weights)]
        narrow = min(*problem.network.sizes[1:-1], *ranks) - problem.network.biased < problem.facts.rank_target
        if narrow or problem.facts.determinant_obstruction:
            return None
        first, last = self.along[[0, -1]]
        near = np.abs(last - target) <= np.maximum(np.abs(first - target) / 2, NEAR * np.abs(target))
        return target if near.all() else None

    @cached_property
    def last_function(self) -> Float[Array, "out in"]:
        """W at the last time; of a nonlinear network E[f xᵀ], the correlation of its outputs with the inputs."""
        return functions_of(self.trajectory.at(self.trajectory.times[-1:]))[0]

    @cached_property
    def half_times(self) -> Float[Array, " m"]:
        """When each mode is half way from its initialisation to `limit`; nan: never, or later than was looked, or it is
        not known where it ends, and what it has at last need not be that."""
        if self.fate is not None:
            return self.fate.half_times
        found = half_times(self.course.times, self.along, self.limit)
        return np.where(self._waiting, np.nan, found)

    @cached_property
    def _waiting(self) -> Array:
        """Modes of a linear network that are not at their target when all has been seen, though nobody knows that they
        end elsewhere: a plateau may be what is seen."""
        problem, target = self.trajectory.problem, self.frames.target
        known = self.limit_known or problem.weight_decay or not problem.network.activation.linear
        if known or not problem.loss.squared:
            return np.zeros(len(target), bool)
        return np.abs(self.along[-1] - target) > NEAR * np.maximum(np.abs(target), _NOTHING * np.abs(target).max())

    @cached_property
    def regime(self) -> Regime | None:
        """Lazy, rich, or both in turn; None where the tangent kernel is not known (tanh, deep ReLU, many units)."""
        if self.fate is not None:
            return self.fate.regime
        if self.kernel_course is None or not self.learns:
            return None
        return regime(self.kernel_course)

    @property
    def learns(self) -> bool:
        """Whether there is anything to learn: the loss falls by more than rounding."""
        loss = self.course.loss
        return bool(loss[0] - loss.min() > ROUNDING * self._of_nothing)

    @property
    def rests(self) -> bool:
        """Whether a linear network learns nothing, though another one would do better: it rests on a saddle."""
        problem = self.trajectory.problem
        if self.learns or not problem.network.activation.linear or not problem.loss.squared:
            return False
        return bool(self.course.loss[0] - problem.task.loss_floor > NEAR * self._of_nothing)

    @cached_property
    def _of_nothing(self) -> float:
        """The loss of a network whose outputs are zero."""
        problem = self.trajectory.problem
        return abs(float(problem.loss.of_map(problem.task, np.zeros_like(problem.task.target))))

    @property
    def still_falling(self) -> bool:
        """Whether the loss falls, in the last tenth of the time, by a thousandth of all that it has changed, or of what
        outputs of zero would lose, which is less where inputs are large and the first outputs far off.

        Or, where it was integrated and a mode is on its way, by a thousandth of what is left to the least loss of any
        linear map: a weak mode may come long after the loss looks flat. The cross-entropy of classes that can be told
        apart falls for ever, ever more slowly: there, by a thousandth of what is left to the entropy of the targets.
        """
        if not self.learns or np.isinf(self.trajectory.times[-1]):
            return False
        times, loss, _ = self.curve
        problem = self.trajectory.problem
        changed = min(float(np.ptp(loss)), self._of_nothing)
        least = problem.task.loss_floor if problem.loss.squared else problem.loss.floor(problem.task)
        waits = not self.exact and (self.on_the_way or not problem.loss.squared)
        left = loss[-1] - least if waits and least is not None else 0.0
        return falls(times, loss, changed) or bool(left > 0 and falls(times, loss, left))

    @cached_property
    def curve(self) -> tuple[Float[Array, " T"], Float[Array, " T"], Float[Array, "T m"]]:
        """Times, loss and strengths until the last finite time: those asked for, and all between that were looked at.

        A few times may leave out what happens between them; this does not.
        """
        asked, all_seen = self.trajectory, self.course
        parts = [(asked.times, asked.loss, self.strengths), (all_seen.times, all_seen.loss, self.along)]
        times, loss, strengths = (np.concatenate(part) for part in zip(*parts, strict=True))
        last = self.trajectory.times[np.isfinite(self.trajectory.times)].max(initial=0.0)
        times, first = np.unique(times, return_index=True)
        first = first[times <= last]
        return times[: len(first)], loss[first], strengths[first]

    @property
    def on_the_way(self) -> list[int]:
        """Modes off their limit at the last time, by a twentieth of their target; none where the limit is not known."""
        if not self.limit_known:
            return []
        size, off = np.abs(self.frames.target), np.abs(self.strengths[-1] - self.limit)
        return np.flatnonzero((off > NEAR * size) & (size > _NOTHING * size.max())).tolist()

    @property
    def stuck(self) -> tuple[int, ...]:
        """Modes that are never learned because the flow stays on a separatrix."""
        if self.fate is not None:
            return self.fate.stuck
        if not self.trajectory.problem.facts.determinant_obstruction:
            return ()
        target = self.frames.target
        return tuple(int(i) for i in np.flatnonzero(np.abs(self.limit - target) > np.abs(target) / 2))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know, and how it was computed."""
        return (*self.trajectory.notes, *(each.sentence for each in self.cautions if each.sentence))

    @cached_property
    def cautions(self) -> tuple[Caution, ...]:
        """What a reader of curves and numbers must know: they stand in print, and in few words in the picture."""
        traj, facts = self.trajectory, self.trajectory.problem.facts
        end, found = f"{traj.times[-1]:g}", []
        if facts.determinant_obstruction and self.fate is None:
            words = "det W and det Σyx differ in sign, and W keeps it: one mode is never learned"
            found.append(Caution("one mode is never learned, for det W keeps its sign", words))
        elif self.exact and self.error > max(_UNCERTAIN, facts.eps):
            found.append(Caution(f"next to a separatrix, and known to {self.error:.0e}", ""))
        if self.steps and self.steps.astray:
            found.append(Caution("next to a saddle, which descent leaves at another time", self.steps.passage))
        if self.steps and self.steps.stuck:
            found.append(
                Caution("descent leaves the saddle", "that is the flow: descent leaves the saddle, as `steps` tells")
            )
        if facts.precision != "float64":
            words = f"the weights or data came in {facts.precision}, and are known to {facts.eps:.1g} of themselves"
            found.append(Caution(f"input in {facts.precision}", "" if self.exact else words))
        if traj.status.end is not End.COMPLETE:
            found.append(Caution(traj.status.what, traj.status))
        if (later := self.on_the_way) and traj.status.end is End.COMPLETE:
            words = f"{len(later)} of {len(self.limit)} modes still on the way to their limit at t = {end}"
            found.append(Caution(words, words))
        if (count := int(self._waiting.sum())) and not facts.determinant_obstruction:
            words = f"{count} of {len(self.limit)} modes not learned by t = {end}: a plateau, or their end"
            found.append(Caution(words, words))
        if self.still_falling:
            words = f"the loss is still falling at t = {end}"
            found.append(Caution(words, words))
        return tuple(found)

    def plot(self, path: str | Path | None = None, *, run: Trajectory | None = None) -> Figure:
        """The picture: loss, modes with their half times, and where it ends.

        Parameters
        ----------
        path : where to write it, if at all
        run : what training did, to lie below: `lr.descend`, or a run of your own by `lr.Trajectory.from_weights`

        Returns
        -------
        Figure
        """
        from lazyrich.plot import prediction as picture
        from lazyrich.plot import style

        problem = self.trajectory.problem
        if run is not None and as_trajectory(run).problem.network.sizes != problem.network.sizes:
            raise InvalidInput(
                f"run must be of the network that is predicted, {problem.network.architecture}, and it is of "
                f"{run.problem.network.architecture}."
            )
        if run is not None:
            check_beginning(problem.network, [W[None] for W in run.problem.network.weights])
            _check_task(problem.task, run.problem.task)
        figure = picture.draw(self, run)
        if path is not None:
            style.save(figure, style.figure_path(path, "prediction.png"))
        return figure

    def strengths_of(self, traj: Trajectory) -> Float[Array, "T m"]:
        """The same of each mode along another trajectory of the network."""
        return in_frames(functions_of(traj), self.frames)

    def __str__(self) -> str:
        return told(self)

    def __repr__(self) -> str:
        return f"<Prediction: {self.known}, {self.trajectory!r}>"


def _check_task(predicted: Task, trained: Task) -> None:
    """A sentence where a run has learned something else."""
    for name in ("sigma_xx", "sigma_yx"):
        one, other = getattr(predicted, name), getattr(trained, name)
        off, size = float(np.abs(one - other).max()), float(np.abs(one).max())
        if off > _SAME_TASK * size:
            raise InvalidInput(
                f"run must be of the task that is predicted, and {name} of its task is off by {off / size:.2g} of the "
                "largest entry: try lr.predict(run.problem)."
            )
