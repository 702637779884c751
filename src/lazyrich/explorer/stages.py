"""The tasks of a run, one after the other: the curve of each, its modes, and what is known about where it goes.

Of one task that is what `lr.predict` says, so modes, their numbers and their half times are those of `lr.fate` where a
theorem applies. Of a sequence, modes are the singular vectors of each task, and what is known is asked of `lr.fate`
where it exists and read off the curve elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import lazyrich as lr
from lazyrich._typing import Array, Float
from lazyrich.explorer.script import Script

_LITTLE = 1e-3  # of what there is to learn: a loss that falls by less, or has no more to fall, does not count
_SAME = 1e-9  # relative difference of two strengths that are one
_FAR = 0.5  # of the way of a mode: one whose end is farther from its target is not learned


@dataclass(frozen=True)
class Stage:
    """One task, with its curve and what is known about it; `start` is on the time axis of the view."""

    part: lr.Trajectory
    start: float
    strengths: Float[Array, "T m"]
    targets: Float[Array, " m"]  # strengths where all is learned
    ends: Float[Array, " m"]  # that the modes will have, as far as that is known
    half_times: Float[Array, " m"]
    fate: lr.Fate | None  # None: integrated, or hidden by rounding
    regime: lr.Regime | None  # None: it did not move on from t = 0, or rounding hides it
    error: float | None = None  # of loss and modes, relative to their largest; None: nobody has asked

    @property
    def problem(self) -> lr.Problem:
        return self.part.problem

    @property
    def exact(self) -> bool:
        """Whether a theorem gives the curve."""
        return self.part.solution is not None

    @property
    def end(self) -> float:
        return float(self.part.times[-1])

    @property
    def known(self) -> bool:
        """Whether the network has at first all but learned its task."""
        return self._first_loss - self.problem.task.loss_floor <= _LITTLE * self.whole

    @property
    def gains(self) -> bool:
        """Whether there is something to learn, and it is learned in part at least."""
        last = float(self.part.loss[-1]) if self.fate is None else self.fate.loss_limit
        return self.problem.facts.rank_target > 0 and self._first_loss - last > _LITTLE * self.whole

    @property
    def _first_loss(self) -> float:
        return float(self.part.loss[0])

    @property
    def own(self) -> float:
        """What a network that knows nothing has to lose."""
        task = self.problem.task
        return float(task.loss(np.zeros((task.d_out, task.d_in)))) - task.loss_floor

    @property
    def whole(self) -> float:
        """What a network that knows nothing, or this one, has to lose."""
        return max(self.own, self._first_loss - self.problem.task.loss_floor)

    @property
    def left(self) -> float:
        """What is not learned by the end, as a part of what there was to learn."""
        if self.problem.facts.rank_target == 0:
            return 0.0
        return (float(self.part.loss[-1]) - self.problem.task.loss_floor) / self.own

    @property
    def unlearned(self) -> list[int]:
        """Modes of the task that are not learned in the end, where it is known, from 0."""
        if self.fate is not None:
            never = ~self.fate.learned
        elif not self.exact:
            return []
        else:
            never = np.abs(self.ends - self.targets) > _FAR * np.abs(self.targets)
        return [int(k) for k in np.flatnonzero(never & (np.abs(self.targets) > _SAME * np.abs(self.targets).max()))]

    @property
    def moving(self) -> Array:
        """Modes that have a way to go."""
        size = float(max(np.abs(self.ends).max(), np.abs(self.strengths[0]).max()))
        return np.abs(self.ends - self.strengths[0]) > _SAME * size


def stages_of(script: Script) -> list[Stage]:
    """One per task."""
    prediction, found, start = script.prediction, [], 0.0
    if prediction is not None:
        return [_predicted(prediction)]
    for part in script.parts:
        found.append(_observed(part, start))
        start += found[-1].end
    return found


def _predicted(prediction: lr.Prediction) -> Stage:
    part = prediction.trajectory
    return Stage(
        part=part,
        start=0.0,
        strengths=prediction.strengths,
        targets=prediction.frames.target,
        ends=prediction.limit,
        half_times=prediction.half_times,
        fate=prediction.fate,
        regime=prediction.regime if part.times[-1] > 0 else None,
        error=prediction.error,
    )


def _observed(part: lr.Trajectory, start: float) -> Stage:
    """Of a sequence: by its fate where there is one, and where modes of equal strength, or correlated inputs, make the
    fate's modes other ones than those drawn, by the curve."""
    strengths = lr.observables.mode_strengths(part)
    U, _, V = part.problem.task.modes
    targets = ends = np.sum(U * (part.problem.task.target @ V), axis=0)
    fate, regime = _fate_and_regime(part)
    if fate is not None:
        ends = np.sum(U * (fate.function_limit @ V), axis=0)
    half_times = lr.observables.half_times(part.times, strengths, ends)
    if fate is not None:
        size = float(max(np.abs(ends).max(), np.abs(strengths[0]).max()))
        same = (np.abs(fate.initial - strengths[0]) <= _SAME * size) & (np.abs(fate.limit - ends) <= _SAME * size)
        half_times = np.where(same, fate.half_times, half_times)
    return Stage(part, start, strengths, targets, ends, half_times, fate, regime)


def _fate_and_regime(part: lr.Trajectory) -> tuple[lr.Fate | None, lr.Regime | None]:
    """What is known before training where there is a closed form, and what the curve tells elsewhere."""
    try:
        if part.solution is not None and not part.pushed:  # the fate is that of the network without the push
            fate = lr.fate(part.problem)
            return fate, fate.regime
        return None, lr.regime(part) if part.times[-1] > 0 else None
    except np.linalg.LinAlgError:  # weights so close to the separatrix that some time between has no digits left
        return None, None
