"""What `predict` returns: a trajectory, how it is known and how far it may be off, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._progress import progress
from lazyrich._rounding import ROUNDING, cleared
from lazyrich._status import End
from lazyrich._threads import SMALL, one_blas_thread
from lazyrich._typing import Array, Float
from lazyrich.alignment import align
from lazyrich.facts import Refusal
from lazyrich.landscape.fate import Fate
from lazyrich.landscape.regime import Regime, regime
from lazyrich.landscape.steps import Steps
from lazyrich.methods.decoupled import Decoupled
from lazyrich.methods.gram import best_map
from lazyrich.networks.network import forward
from lazyrich.networks.run import check_beginning
from lazyrich.observables.modes import half_times
from lazyrich.problem import Problem
from lazyrich.trajectory import Trajectory, as_trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEAR = 0.05  # of its target: a mode this close to it is taken to be on its way there
WEAK, _NOTHING = 0.01, 1e-6  # of the strongest mode: too weak to wait for; not a mode of the task
FALLING = 0.001  # of all that the loss has changed, in the last tenth of the time: then it is still falling
_UNCERTAIN = 1e-10  # of a closed form: an error to be told
_ROWS = 12  # of the table of modes
_NEXT = "\n" + 14 * " "  # line, below the second column


class Knowledge(StrEnum):
    """How a prediction knows."""

    EXACT = "exact"
    INTEGRATED = "integrated"
    ESTIMATED = "estimated"


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """Every mode by itself (theory: section 11): what a random initialisation does, as one formula per mode.

    Errors are relative; measured against the integration, or estimated where there is none.
    """

    modes: Decoupled
    half_times: Float[Array, " m"]
    error: float  # of the strengths at any time, over the largest
    half_time_error: float  # the largest of any mode that goes a tenth of the longest way
    measured: bool

    @property
    def c(self) -> Float[Array, " m"]:
        """√(((p + r)/2)² − a²) of each mode over its singular value: lazy where it is large, rich where it is small."""
        c, s = self.modes.c, self.modes.s
        return np.divide(c, s, out=np.full_like(c, np.inf), where=s > 0)

    def strengths(self, times: Float[Array, " T"]) -> Float[Array, "T m"]:
        """uᵀWv of each mode at each time."""
        return self.modes.strengths(times)

    def __str__(self) -> str:
        how = "measured" if self.measured else "estimated"
        return (
            f"every mode by itself: strengths within {self.error:.2g} of the largest, half times of modes that go far "
            f"within {self.half_time_error:.2g} of themselves ({how}); it is lazy where c/s is large, rich where it is "
            "small"
        )


class Frames(NamedTuple):
    """The modes that a prediction speaks of, strongest first."""

    u: Float[Array, "out m"]
    v: Float[Array, "in m"]
    s: Float[Array, " m"]  # singular values: of Σyx, the correlation of outputs with inputs; see `Problem.pull`
    target: Float[Array, " m"]  # uᵀTv, what the best linear map has of each; of a nonlinear network or another loss s


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
        return frames_of(problem, problem.pull, [_functions(self.course.at(self.course.times[-1:]))[0]])

    @cached_property
    def strengths(self) -> Float[Array, "T m"]:
        """uᵀW(t)v of each mode; of a nonlinear network uᵀE[f xᵀ]v, which is s where all of Σyx is learned."""
        same = np.array_equal(self.trajectory.times, self.course.times)
        return self._along if same else self.strengths_of(self.trajectory)

    @cached_property
    def _along(self) -> Float[Array, "T m"]:
        """The strengths until all that happens can be seen."""
        return self.strengths_of(self.course)

    @cached_property
    def limit(self) -> Float[Array, " m"]:
        """Where each mode ends, if that is known (`limit_known`); else how strong it is when all has been seen."""
        return self._along[-1] if self._end is None else self._end

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
        narrow = min(problem.network.sizes[1:-1]) - problem.network.biased < problem.facts.rank_target
        if narrow or problem.facts.determinant_obstruction:
            return None
        first, last = self._along[[0, -1]]
        near = np.abs(last - target) <= np.maximum(np.abs(first - target) / 2, NEAR * np.abs(target))
        return target if near.all() else None

    @cached_property
    def last_function(self) -> Float[Array, "out in"]:
        """W at the last time; of a nonlinear network E[f xᵀ], the correlation of its outputs with the inputs."""
        return _functions(self.trajectory.at(self.trajectory.times[-1:]))[0]

    @cached_property
    def half_times(self) -> Float[Array, " m"]:
        """When each mode is half way from its initialisation to `limit`; nan: never, or later than was looked, or it is
        not known where it ends, and what it has at last need not be that."""
        if self.fate is not None:
            return self.fate.half_times
        found = half_times(self.course.times, self._along, self.limit)
        return np.where(self._waiting, np.nan, found)

    @cached_property
    def _waiting(self) -> Array:
        """Modes of a linear network that are not at their target when all has been seen, though nobody knows that they
        end elsewhere: a plateau may be what is seen."""
        problem, target = self.trajectory.problem, self.frames.target
        known = self.limit_known or problem.weight_decay or not problem.network.activation.linear
        if known or not problem.loss.squared:
            return np.zeros(len(target), bool)
        return np.abs(self._along[-1] - target) > NEAR * np.maximum(np.abs(target), _NOTHING * np.abs(target).max())

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
        problem, loss = self.trajectory.problem, self.course.loss
        of_nothing = problem.loss.of_map(problem.task, np.zeros_like(problem.task.target))
        return bool(loss[0] - loss.min() > ROUNDING * abs(of_nothing))

    @property
    def still_falling(self) -> bool:
        """Whether the loss falls, in the last tenth of the time, by a thousandth of all that it has changed.

        Or, where it was integrated and a mode is on its way, by a thousandth of what is left to the least loss of any
        linear map: a weak mode may come long after the loss looks flat. The cross-entropy of classes that can be told
        apart falls for ever, ever more slowly: there, by a thousandth of what is left to the entropy of the targets.
        """
        if not self.learns:
            return False
        times, loss, _ = self.curve
        problem = self.trajectory.problem
        least = problem.task.loss_floor if problem.loss.squared else problem.loss.floor(problem.task)
        waits = not self.exact and (self.on_the_way or not problem.loss.squared)
        left = loss[-1] - least if waits and least is not None else 0.0
        return falls(times, loss) or bool(left > 0 and falls(times, loss, left))

    @cached_property
    def curve(self) -> tuple[Float[Array, " T"], Float[Array, " T"], Float[Array, "T m"]]:
        """Times, loss and strengths until the last finite time: those asked for, and all between that were looked at.

        A few times may leave out what happens between them; this does not.
        """
        asked, all_seen = self.trajectory, self.course
        parts = [(asked.times, asked.loss, self.strengths), (all_seen.times, all_seen.loss, self._along)]
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
        if facts.precision != "float64":
            words = f"the weights or data came in {facts.precision}, and are known to {facts.eps:.1g} of themselves"
            found.append(Caution(f"input in {facts.precision}", "" if self.exact else words))
        if traj.status.end is not End.COMPLETE:
            found.append(Caution(traj.status.what, traj.status))
        if later := self.on_the_way:
            words = f"{len(later)} of {len(self.limit)} modes still on the way to their limit at t = {end}"
            found.append(Caution(words, words))
        if (count := int(self._waiting.sum())) and not facts.determinant_obstruction:
            words = f"{count} of {len(self.limit)} modes not learned by t = {end}, perhaps a plateau"
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
        figure = picture.draw(self, run)
        if path is not None:
            style.save(figure, style.figure_path(path, "prediction.png"))
        return figure

    def strengths_of(self, traj: Trajectory) -> Float[Array, "T m"]:
        """The same of each mode along another trajectory of the network."""
        return in_frames(_functions(traj), self.frames)

    def __str__(self) -> str:
        traj, network, loss = self.trajectory, self.trajectory.problem.network, self.trajectory.problem.loss
        end, of = f"{traj.times[-1]:g}", "" if loss.squared else f" ({loss})"
        sure = "exact" if self.exact else f"{self.known}: loss and modes to {self.error:.1g} of their largest"
        lines = [
            f"network       {network.architecture}",
            f"known by      {self.method} ({sure})",
            f"loss          {traj.loss[0]:.6g} → {_number(traj.loss[-1], traj.loss[0])} at t = {end}{of}",
        ]
        if self.fate is not None:
            lines.append(str(self.fate))
        else:
            if network.activation.linear and loss.squared:
                least = _number(traj.problem.task.loss_floor, traj.loss[0])
                lines.append(f"least loss    {least} (of any linear map)")
            elif (floor := loss.floor(traj.problem.task)) is not None and not loss.squared:
                lines.append(f"least loss    {_number(floor, traj.loss[0])} (the entropy of the targets) or more")
            unknown = "not known: it is read from the tangent kernel of linear networks and of two layers with ReLUs"
            unknown = unknown if self.learns else "none: there is nothing to learn"
            lines.append(f"regime        {str(self.regime or unknown).replace('; ', _NEXT)}")
            if self.regime and not self.limit_known:
                lines.append(
                    f"{_NEXT[1:]}as far as t = {float(self.course.times[-1]):.4g}; what comes later may be richer"
                )
            lines += [f"descent       {self.steps.told(_NEXT)}"] if self.steps else []
            lines += self._modes_in_words()
        return "\n".join(lines + [f"note: {note}" for note in self.notes])

    def _modes_in_words(self) -> list[str]:
        """A table of the modes, and what the closed form says of them."""
        closed, (_, _, s, target), first = self.closed_form, self.frames, self._along[0]
        linear, shown = self.trajectory.problem.network.activation.linear, range(min(len(target), _ROWS))
        squared = self.trajectory.problem.loss.squared
        white = self.trajectory.problem.facts.whitened or not linear or not squared  # where Σyx is the target
        end = float(self.course.times[-1])
        size, ends = float(np.abs(target).max()), "limit" if self.limit_known else f"at t = {end:.4g}"
        lines = [f"{'mode':>6}{'' if white else f' {chr(931)}yx'.rjust(11)}"]
        lines[0] += f" {'target' if squared else 'pull':>12} {'initial':>12} {ends:>12} {'half time':>12}"
        lines[0] += f" {'half step':>10}" if self.steps else ""
        lines[0] += f" {'closed form':>12} {'c/s':>9}" if closed else ""
        for i in shown:
            moves = np.abs(self.limit[i] - first[i]) > ROUNDING * size
            later = f"> {end:.3g}" if moves and self.limit_known else "–"
            row = f"{i + 1:>6}" + ("" if white else f"{_number(s[i], s[0], 5):>11}")
            for value, digits in ((target[i], 6), (first[i], 4), (self.limit[i], 6)):
                row += f" {_number(value, size, digits):>12}"
            row += f" {_time(self.half_times[i], later):>12}"
            row += f" {self.steps.shown(i):>10}" if self.steps else ""
            alone = closed and f" {_time(closed.half_times[i], '–'):>12} {_time(closed.c[i], '–', 3):>9}"
            lines.append(row + (alone or ""))
        if len(target) > len(shown):
            lines.append(f"   and {len(target) - len(shown)} weaker modes")
        if not linear:
            same = ", and targets the same of the data, in Σyx" if squared else ""
            lines.append(f"   strengths are uᵀE[f xᵀ]v of the outputs f{same}")
        if not squared:
            lines.append("   modes are those of −∂loss/∂W of a linear map at W = 0, and pulls its singular values")
        if closed:
            lines.append(f"closed form   {str(closed).replace('; ', _NEXT)}")
        return lines

    def __repr__(self) -> str:
        return f"<Prediction: {self.known}, {self.trajectory!r}>"


def _time(value: float, otherwise: str, digits: int = 6) -> str:
    return f"{value:.{digits}g}" if np.isfinite(value) else otherwise


def _number(value: float, size: float, digits: int = 6) -> str:
    """A number beside others of this size: what is nothing but rounding is 0."""
    return f"{float(cleared(value, float(np.abs(size)))):.{digits}g}"


def frames_of(problem: Problem, of: Float[Array, "out in"], layers: Sequence[Array] | None = None) -> Frames:
    """Singular vectors of a matrix; those of equal singular values turned towards the layers, or the initial ones."""
    task = problem.task
    fit = problem.alignment if layers is None else align(of, task.sigma_xx, layers)
    u, v = fit.U[:, : len(fit.s)], fit.V[:, : len(fit.s)]
    known = problem.network.activation.linear and problem.loss.squared
    return Frames(u, v, fit.s, np.sum(u * (task.target @ v), axis=0) if known else fit.s)


def in_frames(functions: Float[Array, "T out in"], frames: Frames) -> Float[Array, "T m"]:
    """uᵀW(t)v of each mode."""
    return np.asarray(np.sum(frames.u * (functions @ frames.v), axis=1))


def falls(times: Float[Array, " T"], loss: Float[Array, " T"], of: float | None = None) -> bool:
    """Whether a loss falls in the last tenth of the time by more than `FALLING`, of all that it has changed.

    >>> times = np.linspace(0, 1, 11)
    >>> falls(times, 1 - times), falls(times, np.exp(-9 * times))
    (True, False)
    """
    size = float(np.ptp(loss)) if of is None else of
    return bool(np.interp(0.9 * times[-1], times, loss) - loss[-1] > FALLING * size)


def _functions(traj: Trajectory) -> Float[Array, "T out in"]:
    """W at each time, or, of a nonlinear network, E[f xᵀ] as Σyx is E[y xᵀ].

    The linear map nearest to the network would divide that by the variance of the inputs, and inputs that hardly vary,
    of which neither network nor loss feels anything, would be all one sees.
    """
    task, network = traj.problem.task, traj.problem.network
    if network.activation.linear:
        return np.asarray(traj.function)
    X = task.inputs
    assert X is not None  # the flow has asked for samples
    share = 1 / len(X) if task.reduction == "mean" else 1.0
    found = np.empty((len(traj.times), task.d_out, task.d_in))
    with one_blas_thread(max(network.sizes) <= SMALL), progress(len(found), "modes") as advance:
        for E, *state in zip(found, *(np.asarray(W) for W in traj.weights), strict=True):
            *_, f = forward(state, network.activation, X)
            E[:] = share * f.T @ X
            advance(1)
    return found
