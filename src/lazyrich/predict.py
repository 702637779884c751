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
from typing import NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._progress import progress
from lazyrich._status import COMPLETE, End, Status
from lazyrich._typing import Array, Float
from lazyrich.landscape.fate import fate
from lazyrich.landscape.horizon import horizon, rounded_up
from lazyrich.landscape.steps import Timed, steps_of
from lazyrich.methods.decoupled import Decoupled
from lazyrich.methods.flow import flow
from lazyrich.methods.gram import Equation, equation_of, same_sign, steps
from lazyrich.methods.mode_maps import Stepping, as_stepping
from lazyrich.methods.solve import solve
from lazyrich.observables.crossings import crossings_of
from lazyrich.observables.kernels.along import has_kernel
from lazyrich.observables.modes import half_way
from lazyrich.prediction import (
    NEAR,
    WEAK,
    ClosedForm,
    Frames,
    Knowledge,
    Prediction,
    frames_of,
    functions_of,
    in_frames,
)
from lazyrich.problem import Problem, as_problem
from lazyrich.trajectory import Trajectory

_COUNT = 201  # times, where none are given, or more where inputs are of very unequal size:
_CLOSE = 12  # to a decade
_HUGE = 1e20  # numbers whose products an integration loses
_ROUNDING = 1e-12  # of a closed form
_NOTHING = 1e-14  # of the loss of no network
_LINEAR, _NONLINEAR, _GRAM = (1e-8, 1e-9), (1e-3, 1e-4), (1e-7, 1e-9)  # tolerances of the two integrations
_COARSE = 1e-2  # of a nonlinear run that only finds out until when to look
_REST = 10 * _GRAM[1]  # as near to its end as steps at the limit of stability let it come
_LARGEST = 1_000_000  # entries of the weights or of QQᵀ, whichever has fewer, that are integrated
_ENTRIES = 25_000_000  # of all states that are kept
_SQUARES, _FEW = 13_000_000, 60  # entries of all kernels of a linear network, inputs squared, and times all the same
_TWICE = 5.0  # times the distance of the two at the steps of the first: no less than the error of the second anywhere
_SAFE_NONLINEAR = 2.0  # whose tolerances are further apart than their errors
_FEWER = 8  # one in as many times is recorded by the first of two runs of `flow`
_DRAFT_STEPS, _STEPS = 4_000, 40_000
_LONGER = 4  # times four of the estimated horizon: how far a first run of a deep network goes
_FAR = 20.0  # times the estimated horizon: where the draft ends if nothing else ends it
_LEFT_WHITE, _LEFT = 1e-3, 1e-2  # of the fall of the loss, at the end
_FAINT = 1e-3  # of the strongest pull of any loss: then all that is to be learned has been
_GRID, _FINER = 300, 3  # times for the couplings of modes, and so many times as many
_FAR_ENOUGH = 0.1  # of the longest way of a mode, to speak of half of it
_SAFE, _SAFE_ALONE = 2.5, 1.25  # calibrated: tests/methods/test_decoupled.py


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
    how = None if rate is None else as_stepping(rate, momentum, nesterov)
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
        prediction = _by_flow(problem, asked)
    elif min(_entries(problem)) <= _LARGEST:
        prediction = _by_gram(problem, asked)
    elif _alone(problem):
        prediction = _by_modes(problem, asked)
    else:
        prediction = _by_flow(problem, asked)
    if not np.isfinite(prediction.trajectory.loss).all():
        raise InvalidInput("the numbers are too large or too small for this: the predicted loss is not finite.")
    return prediction if how is None else _in_steps(prediction, how)


def _largest(problem: Problem) -> float:
    """The largest number that an integration meets."""
    task, weights = problem.task, problem.network.weights
    return max(float(np.abs(task.sigma_yx).max()), float(task.sigma_xx.max()), *(float((W**2).max()) for W in weights))


def _in_steps(prediction: Prediction, how: Stepping) -> Prediction:
    """With what descent at this rate makes of it."""
    course = prediction.kernel_course or prediction.course
    ends = course.at(course.times[[0, -1]]) if course.knows("weights") or course.knows("gram") else None
    modes = Timed(*prediction.frames[:2], prediction.limit, prediction.half_times)
    steps = steps_of(prediction.trajectory.problem, how, modes, ends)
    known = prediction.fate and replace(prediction.fate, steps=steps)
    return replace(prediction, steps=steps, fate=known)


def both_ends(problem: Problem, end: float, count: int = _COUNT) -> Float[Array, " T"]:
    """Times from 0 to `end`: half of them evenly, half of them ever closer to each other towards zero, so that what is
    over at once can be seen too."""
    sizes = sum(float(np.linalg.norm(W, 2)) ** 2 for W in problem.network.weights)
    sizes += float(np.linalg.norm(problem.task.target, 2))
    fastest = max(problem.rates) * float(np.linalg.norm(problem.task.sigma_xx, 2)) * sizes
    first = max(min(0.1 / max(fastest, 1e-300), end / count), 1e-18 * end)
    close = max(count // 2, int(_CLOSE * np.log10(end / first)))
    return np.union1d(np.linspace(0.0, end, count - count // 2), np.geomspace(first, end, close + 1))


def _looked_at(problem: Problem, end: float, asked: Array | None) -> Float[Array, " T"]:
    """Times of our own until all that happens can be seen, by `end`, and on to the last that is asked for."""
    own = both_ends(problem, end)
    return own if asked is None or asked[-1] <= end else np.union1d(own, both_ends(problem, float(asked[-1])))


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
    error = max(_ROUNDING, eps, traj.solution.doubt_until(float(traj.clock[-1])))
    return Prediction(traj, Knowledge.EXACT, error, course, fate=known)


def _by_flow(problem: Problem, asked: Array | None) -> Prediction:
    """Integrated by `flow`, twice. What happens is read from times of our own, as far as any are asked for."""
    own = _looked_at(problem, _horizon(problem), asked)
    asked = own if asked is None else asked
    grid = np.union1d(own, asked)
    coarse, fine = _LINEAR if problem.network.activation.linear else _NONLINEAR
    few = np.union1d(grid[::_FEWER], grid[-1:])  # steps end at records: on the same ones both runs might take the same
    linear = problem.network.activation.linear
    draft = flow(problem, few, record="function" if linear else "weights", rtol=coarse)
    course = _on_its_side(flow(problem, grid, rtol=fine))
    both, there = np.isin(few[: len(draft.times)], course.times), np.isin(course.times, draft.times)
    apart = _relative(draft.loss[both] - course.loss[there], course.loss)
    modes = frames_of(problem, problem.pull)
    few_strengths, strengths = (
        in_frames(functions_of(some), modes) for some in (draft, course.at(course.times[there]))
    )
    safe = _TWICE if linear else _SAFE_NONLINEAR
    apart = safe * max(apart, _relative(few_strengths[both] - strengths, strengths))
    traj, course = (course.at(some[some <= course.times[-1]]) for some in (asked, own))
    error, why = max(apart, _ROUNDING), dict(problem.facts.methods)
    return Prediction(traj, Knowledge.INTEGRATED, error, course, _for_kernels(course), refusals=why)


def _horizon(problem: Problem) -> float:
    """Until when to look. What a first run finds, hardly accurate, where an estimate will not do: of another loss than
    the squared one, and of deep linear networks, whose plateaus depend on how modes meet on the way."""
    end, linear = horizon(problem), problem.network.activation.linear
    if not problem.loss.squared:
        rtol = _LINEAR[0] if linear else _COARSE
        draft = flow(problem, both_ends(problem, _far(problem, end)), record="loss", rtol=rtol)
        return _all_seen(draft.times, draft.loss)
    if not linear or problem.weight_decay or problem.facts.determinant_obstruction:
        return end
    return _when_learned(problem, end)


def _when_learned(problem: Problem, guess: float) -> float:
    """The guess, or later where the modes are not there by then: as late as they are, or as it was looked."""
    frames, floor, last = frames_of(problem, problem.pull), _floor(problem), guess
    strong = (frames.target > WEAK * frames.target.max())[: min(problem.network.sizes)]
    left = _LEFT_WHITE if problem.facts.whitened else _LEFT
    for _ in range(_LONGER):
        draft = flow(problem, both_ends(problem, last), record="function", rtol=_LINEAR[0], max_steps=_STEPS)
        off = np.abs(in_frames(draft.function, frames) - frames.target)[:, : len(strong)][:, strong]
        there = draft.loss - floor <= left * max(draft.loss[0] - floor, 0.0)
        if problem.facts.whitened:
            there &= (off <= NEAR * frames.target[: len(strong)][strong]).all(axis=1)
        if there[-1]:
            first = float(draft.times[np.flatnonzero(~there)[-1] + 1]) if not there.all() else 0.0
            return max(guess, rounded_up(1.15 * first))
        if draft.times[-1] < last:
            break
        last *= 4
    return guess


def _far(problem: Problem, end: float) -> float:
    """Where a draft ends, of an estimated horizon."""
    return end if problem.weight_decay else _FAR * end


def _all_seen(times: Array, loss: Array) -> float:
    """When the loss comes within a hundredth of its fall of the lowest that was, for good. Nobody knows the end of a
    loss that is not squared, and that of separable classes falls for ever."""
    left = loss - loss.min()
    if not left[0] > 0:
        return float(times[-1])
    return min(float(times[-1]), rounded_up(1.15 * float(times[np.flatnonzero(left > _LEFT * left[0])[-1] + 1])))


def _on_its_side(course: Trajectory) -> Trajectory:
    """As far as det W keeps its sign, where that is what it must do; errors of an integration may lead it past 0."""
    if not course.problem.facts.determinant_obstruction:
        return course
    kept = np.cumprod(same_sign(course.problem, course.function) > 0).astype(bool)
    if kept.all():
        return course
    times = course.times[kept]
    parts = {"weights": [W[kept] for W in course.weights]}
    done = _stopped(course.problem, float(times[-1]))
    return Trajectory(course.problem, times, course.method, parts, status=done, notes=course.notes)


def _stopped(problem: Problem, time: float) -> Status:
    """Why a run went no further."""
    why = f"after {_STEPS} steps"
    if problem.facts.determinant_obstruction:
        why = "where det W is 0 as far as an integration can tell, and would change its sign, which it must keep"
    return Status(End.STOPPED, f"stopped at t = {time:g}, {why}", "an earlier last time")


def _for_kernels(course: Trajectory) -> Trajectory | None:
    """All of it, where there are kernels: `regime` looks at the records that it needs."""
    return course if has_kernel(course.problem.network) else None


def _evenly(times: Array, most: int) -> Array:
    """No more than so many of the times, the first and the last among them."""
    return times[np.unique(np.linspace(0, len(times) - 1, min(most, len(times))).astype(int))]


def _by_gram(problem: Problem, asked: Array | None) -> Prediction:
    """Integrated through QQᵀ, twice; the first time also finds out until when to look."""
    equation, frames = equation_of(problem), frames_of(problem, problem.pull)
    draft_of = _draft if problem.loss.squared else _draft_of_any_loss
    draft = draft_of(problem, equation, frames, 0.0 if asked is None else float(asked[-1]))
    own = _looked_at(problem, draft.end, asked)
    asked = own if asked is None else asked
    few = slice(None, None, 1 + len(draft.times) // _COUNT)
    grid = np.unique(np.concatenate([own, asked, draft.times[few]]))
    most = max(_ENTRIES // min(_entries(problem)), 2)  # states that are kept
    kernels = _evenly(own, min(most, max(_SQUARES // problem.task.d_in**2, _FEW)))
    whole = np.isin(grid, kernels) | (np.isin(grid, asked) if len(asked) <= most else False)
    functions, states, reached = _recorded(equation, grid, whole)
    grid = grid[: len(functions)]
    done = COMPLETE
    if reached < asked[-1]:
        done = _stopped(problem, reached)
        if reached < asked[0]:
            raise InvalidInput(f"none of the times was reached: the prediction {done}.")

    def course(times: Array, whole: bool) -> Trajectory:
        place = np.flatnonzero(np.isin(grid, times))
        parts = equation.parts([states[int(i)] for i in place]) if whole else {"function": functions[place]}
        return Trajectory(problem, grid[place], equation.name, parts, status=done, citations=("tu2024",))

    traj, seen = course(asked, len(asked) <= most), course(np.union1d(own, draft.times[few]), whole=False)
    strengths = in_frames(functions, frames)
    there = np.isin(grid, draft.times[few])
    both = np.isin(draft.times, grid[there])
    task, loss = problem.task, problem.loss
    nothing = _NOTHING * float(loss.of_map(task, np.zeros_like(task.target)))  # of a loss, but rounding
    apart = max(
        _relative(draft.loss[both] - loss.of_map(task, functions[there]), np.append(draft.loss, nothing)),
        _relative(draft.strengths[both] - strengths[there], strengths),
    )
    of_rest = _of_rest(equation, functions[0] if len(draft.times) == 1 else functions[-1], draft.loss, strengths)
    error = max(_ROUNDING, _TWICE * apart, of_rest)
    closed = _closed_form(Decoupled(problem), grid, strengths, draft.end, measured=True) if _alone(problem) else None
    why = dict(problem.facts.methods)
    same = len(asked) <= most and np.array_equal(asked, kernels)
    kernel_course = traj if same else course(kernels, whole=True)
    return Prediction(traj, Knowledge.INTEGRATED, error, seen, kernel_course, refusals=why, closed_form=closed)


def _of_rest(equation: Equation, A: Array, loss: Array, strengths: Array) -> float:
    """How far function and loss may be off because they were left where they were, at A, once at rest: loss falls, so
    it is between that of A and of the end. Next to the end at first, that may be all there was to learn."""
    off, task = equation.distance(A), equation.problem.task
    if off is None or off > _REST:
        return 0.0
    above = np.atleast_1d(task.loss(A) - task.loss(equation.end))
    nothing = (10 * _NOTHING) ** 2 * float(task.loss(np.zeros_like(task.target)))  # of a map that is off by rounding
    return max(
        _relative(above, np.append(loss, nothing)),
        off * equation.unit / (float(np.abs(strengths).max()) or equation.unit),
    )


def _entries(problem: Problem) -> tuple[int, int]:
    """Of the weights, and of QQᵀ."""
    d_in, h, d_out = problem.network.sizes
    return h * (d_in + d_out), (d_in + d_out) ** 2


class _Draft(NamedTuple):
    """A first run, at its own steps, and until when to look."""

    end: float
    times: Float[Array, " T"]
    loss: Float[Array, " T"]
    strengths: Float[Array, "T m"]


def _draft(problem: Problem, equation: Equation, frames: Frames, last: float) -> _Draft:
    """Integrated until the loss has fallen, and with white inputs all but the weakest modes are there; and a little
    longer, or until the last time that is asked for. Inputs that hardly vary would be waited for in vain."""
    task, white = problem.task, problem.facts.whitened
    target = np.where(frames.target > WEAK * frames.target.max(), frames.target, np.inf)[: min(problem.network.sizes)]
    left = _LEFT_WHITE if white else _LEFT
    guess = horizon(problem)
    end = _far(problem, guess)
    records = []

    def look(time: float, y: Array) -> None:
        A = equation.function(y)
        records.append((time, float(task.loss(A)), np.sum(frames.u * (A @ frames.v), axis=0)))

    look(0.0, equation.initial)
    if equation.at_rest(equation.initial, _REST):
        return _Draft(guess, *(np.array(column) for column in zip(*records, strict=True)))
    floor = _floor(problem)
    # large weights on large inputs are worse than none: that they fall is not all there is to see
    fall = min(records[0][1], float(task.loss(np.zeros_like(task.target)))) - floor
    with progress(max(end, last), "draft") as advance:
        before = 0.0
        for step in steps(equation, _GRAM[0], _DRAFT_STEPS):
            look(step.time, step.state)
            advance(step.time - before)
            before = step.time
            near = not white or np.all(np.abs(records[-1][2][: len(target)] - target) <= NEAR * target)
            if near and records[-1][1] - floor <= left * fall and not problem.weight_decay:
                end = min(end, rounded_up(1.15 * step.time))
            if step.time >= max(end, last) or (step.time >= end and equation.at_rest(step.state, _GRAM[0])):
                break
    times, loss, strengths = (np.array(column) for column in zip(*records, strict=True))
    return _Draft(min(end, float(times[-1])), times, loss, strengths)


def _draft_of_any_loss(problem: Problem, equation: Equation, frames: Frames, last: float) -> _Draft:
    """Integrated far beyond an estimate, or until next to nothing pulls, or until the last time that is asked for; and
    kept until all has been seen."""
    end, records = _far(problem, horizon(problem)), [(0.0, equation.initial)]
    strongest = 0.0
    with progress(max(end, last), "draft") as advance:
        for step in steps(equation, _GRAM[0], _DRAFT_STEPS):
            records.append((step.time, step.state))
            advance(step.time - records[-2][0])
            pull = float(np.linalg.norm(problem.loss.pull_on_map(problem.task, equation.function(step.state))))
            strongest = max(strongest, pull)
            if step.time >= last and (step.time >= end or pull <= _FAINT * strongest):
                break
    times, functions = np.array([time for time, _ in records]), np.array([equation.function(y) for _, y in records])
    loss = np.asarray(problem.loss.of_map(problem.task, functions))
    end = _all_seen(times, loss)
    kept = times <= max(end, last)
    return _Draft(end, times[kept], loss[kept], in_frames(functions[kept], frames))


def _recorded(
    equation: Equation, times: Array, whole: Array
) -> tuple[Float[Array, "T out in"], dict[int, Array], float]:
    """The function at the times that were reached, the states at those that are marked, and how far it came."""
    functions: list[Array] = []
    states: dict[int, Array] = {}

    def look(y: Array) -> None:
        if whole[len(functions)]:
            states[len(functions)] = y.copy()
        functions.append(equation.function(y))

    with progress(float(times[-1]), "predict") as advance:
        now = 0.0
        if times[0] == 0:
            look(equation.initial)
        for step in steps(equation, _GRAM[1], _STEPS):
            while len(functions) < len(times) and times[len(functions)] <= step.time:
                look(step.within(float(times[len(functions)])))
            advance(step.time - now)
            now = step.time
            if equation.at_rest(step.state, _REST):
                for _ in times[len(functions) :]:
                    look(step.state)
                now = float(times[-1])
            if len(functions) == len(times):
                break
    return np.array(functions), states, now


def _floor(problem: Problem) -> float:
    """The least loss of any linear map that fits through the hidden layer."""
    task = problem.task
    values, vectors = np.linalg.eigh(task.sigma_xx)
    s = np.linalg.svd(task.target @ (vectors * np.sqrt(np.maximum(values, 0.0))), compute_uv=False)
    return float(task.loss_floor + np.sum(s[min(problem.network.sizes) :] ** 2) / 2)


def _alone(problem: Problem) -> bool:
    """Whether the modes may be taken one by one: they are, to zeroth order, and the hidden layer has room for all."""
    return Decoupled.applies(problem) and not problem.facts.bottleneck


def _closed_form(modes: Decoupled, times: Array, strengths: Array, end: float, *, measured: bool) -> ClosedForm:
    """The closed form of each mode beside what it does, or what it does with all couplings as far as they are known;
    all has happened by about `end`."""
    limit = modes.limit
    alone, course = _half_times(modes, end), half_way(times, strengths, limit)
    way = np.abs(limit - strengths[0])
    off = np.abs(alone / course - 1)[way >= _FAR_ENOUGH * way.max(initial=0.0)]
    safe = 1.0 if measured else _SAFE_ALONE
    error = safe * _relative(modes.strengths(times) - strengths, strengths)
    return ClosedForm(modes, alone, error, safe * float(np.nanmax(off, initial=0.0)), measured)


def _half_times(modes: Decoupled, end: float) -> Float[Array, " m"]:
    times = np.append(0.0, np.geomspace(1e-8 * end, 1e2 * end, _GRID))
    return crossings_of(modes.strengths, times, modes.limit)


def _by_modes(problem: Problem, asked: Array | None) -> Prediction:
    """Estimated from each mode by itself and what couples them; the error comes from the size of the correction."""
    modes = Decoupled(problem)
    end = horizon(problem)
    end = max(end, rounded_up(1.5 * float(np.nanmax(_half_times(modes, end), initial=0.0))))
    own = both_ends(problem, end)
    asked = own if asked is None else asked
    kept = np.union1d(own, asked)
    coarse, grid = (np.union1d(kept, both_ends(problem, float(kept[-1]), count)) for count in (_GRID, _FINER * _GRID))
    coupled, draft = (modes.coupled(some, np.flatnonzero(np.isin(some, kept))) for some in (grid, coarse))
    closed = _closed_form(modes, grid, modes.strengths(grid) + coupled.correction, end, measured=False)
    error, why = max(_SAFE * (closed.error / _SAFE_ALONE) ** 1.5, _ROUNDING), dict(problem.facts.methods)
    # small weights wait long, and steps add up: of second order, theirs are an eighth of the difference
    error += _relative(draft.function - coupled.function, coupled.function) / _FINER
    error += _TWICE * problem.facts.whitening_error  # taken for white

    def course(times: Array) -> Trajectory:
        parts = {"function": coupled.function[np.isin(kept, times)]}
        return Trajectory(problem, times, "decoupled", parts, citations=("tu2024",))

    return Prediction(course(asked), Knowledge.ESTIMATED, error, course(own), refusals=why, closed_form=closed)


def _relative(apart: Array, values: Array) -> float:
    """The largest difference over the largest value."""
    largest = float(np.abs(values).max(initial=0.0))
    return float(np.abs(apart).max(initial=0.0)) / largest if largest else 0.0
