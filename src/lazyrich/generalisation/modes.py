"""What each mode of the training task adds to the test loss, and when it begins to hurt.

With the training task's modes u_α, v_α (orthonormal) split W = W_d + W_o, W_d = Σ_α a_α u_αv_αᵀ, a_α = u_αᵀWv_α. Then,
for any linear network and any inputs,

    L'(W) = ½ tr Σ'yy + Σ_α ½ d_α [(a_α − b_α)² − b_α²] + rest,     d_α = v_αᵀΣ'xxv_α,   b_α = u_αᵀΣ'yxv_α / d_α

for the u_α are orthogonal, so that in tr(W_dΣ'xxW_dᵀ) no two modes meet, whatever Σ'xx is. Each mode has a strength
b_α that the test task asks for (white test inputs: u_αᵀT'v_α), and hurts from when it has passed it. The rest is what
W has outside these entries, ½tr(W_oΣ'xxW_oᵀ) + ⟨W_dΣ'xx − Σ'yx, W_o⟩: none where the network stays aligned with the
training task.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.observables.crossings import crossings_of
from lazyrich.observables.modes import half_way
from lazyrich.prediction.modes import in_frames
from lazyrich.prediction.result import Prediction
from lazyrich.tasks import Task
from lazyrich.trajectory import Trajectory

_NOTHING = 1e-12  # of the test loss that a mode could make: what it adds is rounding


@dataclass(frozen=True, eq=False)
class ByMode:
    """What the modes add to the test loss since t = 0, strongest of training first; with `rest` they add up to all.

    >>> problem = lr.Problem(lr.Task.from_correlations(np.diag([3.0, 1.0])), lr.Network([np.zeros((2, 2))]))
    >>> by_mode = lr.generalisation.curve(problem, lr.Task.from_correlations(np.diag([3.0, 0.25]))).by_mode
    >>> by_mode.wanted, by_mode.hurts_from.round(6)
    (array([3.  , 0.25]), array([     inf, 0.287682]))
    """

    s: Float[Array, " m"]  # singular values of Σyx of training
    wanted: Float[Array, " m"]  # b: the strength that the test task asks for
    weight: Float[Array, " m"]  # d: what the inputs of the test task have in its direction
    strengths: Float[Array, "T m"]  # a = uᵀWv
    added: Float[Array, "T m"]  # ½ d [(a − b)² − (a(0) − b)²]
    rest: Float[Array, " T"]  # what is added outside the modes
    hurts_from: Float[Array, " m"]  # when it has passed what is asked for; inf: never, 0: it moves away from the start


def by_mode(
    prediction: Prediction, test: Task, loss: Float[Array, " T"], first: float, seen: Float[Array, " n"]
) -> ByMode:
    """At the times of the prediction, whose test loss is known there, and at first; all happens at times like those
    that were `seen`."""
    frames, problem = prediction.frames, prediction.trajectory.problem
    d = np.sum(frames.v * (test.sigma_xx @ frames.v), axis=0)
    asked = np.sum(frames.u * (test.sigma_yx @ frames.v), axis=0)
    b = np.divide(asked, d, out=np.zeros_like(d), where=d > 0)
    a0 = in_frames(problem.network.function[None], frames)[0]
    a = prediction.strengths
    added = d * (a - a0) * ((a + a0) / 2 - b)  # ½[(a − b)² − (a0 − b)²], without a difference of squares
    rest = loss - first - added.sum(axis=1)
    course = prediction.course.at(seen) if prediction.exact else prediction.course
    return ByMode(frames.s, b, d, a, added, rest, _hurts_from(prediction, course, a0, b, d > 0))


def _hurts_from(
    prediction: Prediction, course: Trajectory, a0: Float[Array, " m"], b: Float[Array, " m"], asked: Array
) -> Float[Array, " m"]:
    """When each mode passes b: it is half way to 2b − a0. Where it never does, it goes towards b or away from it; where
    nothing is asked of it, neither."""
    goal = np.where(asked, 2 * b - a0, a0)
    times, along = np.asarray(course.times), prediction.strengths_of(course)

    def strengths(times: Float[Array, " T"]) -> Float[Array, "T m"]:
        return prediction.strengths_of(course.at(times))

    crossed = crossings_of(strengths, times, goal) if prediction.exact else half_way(times, along, goal)
    off, crosses = np.abs(along - b), np.isfinite(crossed)
    nearest = np.where(crosses, 0.0, off.min(axis=0))
    size = float(np.abs(along).max(initial=0.0)) + float(np.abs(b).max(initial=0.0))
    hurts = asked & (off[-1] ** 2 - nearest**2 > _NOTHING * size**2)
    return np.where(hurts, np.where(crosses, crossed, times[np.argmin(off, axis=0)]), np.inf)
