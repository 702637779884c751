"""`predict`: what will happen to a network on a task, for any network; exact where it can be, else with an error.

- **exact**: a closed form applies, and the fate behind it.
- **integrated**: two linear layers through a factor of QQᵀ (`methods.gram`): any initialisation and inputs, whatever
  the width; deeper and nonlinear networks by `flow`. It is integrated twice, the second time with a smaller
  tolerance: the second is the answer, and how far the two are apart its error. That is more than the error of the
  second, which is what it is there to bound.
- **estimated**: where there are too many inputs and outputs for QQᵀ, white inputs allow the closed form of every mode
  by itself, corrected for what couples them (`methods.decoupled`). The error is estimated from the correction's size.

Where inputs are white, the closed form of the modes also explains what was integrated: which modes, when, and why.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array
from lazyrich.landscape.fate import fate
from lazyrich.landscape.horizon import horizon, rounded_up
from lazyrich.landscape.steps import Timed, steps_of
from lazyrich.methods.mode_maps import Stepping, as_stepping
from lazyrich.methods.solve import solve
from lazyrich.prediction.by_flow import by_flow
from lazyrich.prediction.by_gram import by_gram, entries
from lazyrich.prediction.by_modes import by_modes
from lazyrich.prediction.closed_form import alone
from lazyrich.prediction.error import EXACT
from lazyrich.prediction.looking import both_ends
from lazyrich.prediction.result import Knowledge, Prediction
from lazyrich.problem import Problem, as_problem

_HUGE = 1e20  # numbers whose products an integration loses
_LARGEST = 1_000_000  # entries of the weights or of QQᵀ, whichever has fewer, that are integrated


def predict(
    problem: Problem,
    times: object = None,
    *,
    rate: object = None,
    momentum: object = 0.0,
    nesterov: object = False,
) -> Prediction:
    """What will happen: exact where a theorem applies, else integrated or estimated, with an error.

    Parameters
    ----------
    problem : a task and any network
    times : when to look; without them 201 times from 0 until all that happens can be seen, close to each other near
        zero. Half times and regime do not depend on them, beyond the tolerance of an integration, unless they go on
        for longer. np.inf may be one of them where a theorem applies
    rate, momentum, nesterov : of gradient descent, as in `lr.descend`: `prediction.steps` then has the half times in
        steps, and the largest rate that is stable. The trajectory remains that of the flow

    Returns
    -------
    Prediction : with `.exact`, `.method`, `.error`, `.half_times`, `.regime`, `.fate`, `.closed_form`, `.steps` and
        `.trajectory`

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> found = lr.predict(problem, [0.0, 1.0, np.inf])
    >>> found.exact, found.trajectory.function.ravel().round(6), found.half_times.round(4)
    (True, array([0.01    , 0.430588, 2.      ]), array([1.3258]))
    """
    as_problem(problem)
    asked = None if times is None else _check.as_times(times, forever=True)
    how = as_stepping(rate, momentum, nesterov)
    if problem.facts.method is not None:
        prediction = _exact(problem, asked)
    elif asked is not None and np.isinf(asked[-1]):
        raise InvalidInput(
            "times must be finite where no exact solution applies, and the last is inf: try predict(problem), "
            "which looks until all has happened."
        )
    elif (largest := _largest(problem)) > _HUGE:
        raise InvalidInput(
            f"weights squared, Σyx and Σxx must be below {_HUGE:g} where no exact solution applies, and the largest is "
            f"{largest:.3g}: try other units, for targets times y and weights times √y only rescale time."
        )
    elif not problem.network.activation.linear or problem.network.depth != 2:
        prediction = by_flow(problem, asked)
    elif min(entries(problem)) <= _LARGEST:
        prediction = by_gram(problem, asked)
    elif alone(problem):
        prediction = by_modes(problem, asked)
    else:
        prediction = by_flow(problem, asked)
    if not np.isfinite(prediction.trajectory.loss).all():
        raise InvalidInput("the numbers are too large or too small for this: the predicted loss is not finite.")
    return prediction if how is None else _in_steps(prediction, how)


def _largest(problem: Problem) -> float:
    """The largest number that an integration meets."""
    task, weights = problem.task, problem.network.weights
    return max(float(np.abs(task.sigma_yx).max()), float(task.sigma_xx.max()), *(float((W**2).max()) for W in weights))


def _in_steps(prediction: Prediction, how: Stepping) -> Prediction:
    """With what descent at this rate makes of it."""
    problem, course = prediction.trajectory.problem, prediction.kernel_course or prediction.course
    weights, ends = course if course.knows("weights") else None, None
    if prediction.fate is not None:
        ends = solve(problem, [0.0, np.inf])
    elif weights is not None or course.knows("gram"):
        ends = course.at(course.times[[0, -1]])
    modes = Timed(*prediction.frames[:2], prediction.limit, prediction.half_times, prediction.stuck)
    steps = steps_of(problem, how, modes, ends, weights)
    known = prediction.fate and replace(prediction.fate, steps=steps)
    return replace(prediction, steps=steps, fate=known)


def _exact(problem: Problem, asked: Array | None) -> Prediction:
    known, end = fate(problem), horizon(problem)
    if np.isfinite(known.half_times).any():  # also of modes that the loss hardly feels
        end = max(end, rounded_up(1.5 * float(np.nanmax(known.half_times))))
    own = both_ends(problem, end)
    course = solve(problem, own)
    traj = course if asked is None else course.at(asked)
    assert traj.solution is not None
    # weights with fewer digits are next to ones that the theorem holds for, as near as their digits go
    eps = problem.facts.eps if problem.facts.precision != "float64" else 0.0
    error = max(EXACT, eps, traj.solution.doubt_until(float(traj.clock[-1])))
    return Prediction(traj, Knowledge.EXACT, error, course, fate=known)
