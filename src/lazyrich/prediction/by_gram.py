"""Two linear layers, whatever the width: integrated twice through a factor of QQᵀ (`methods.gram`).

The first run also finds out until when to look; how far the two are apart is the error of the second.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._progress import progress
from lazyrich._status import COMPLETE
from lazyrich._typing import Array, Float
from lazyrich.landscape.horizon import horizon, rounded_up
from lazyrich.methods.decoupled import Decoupled
from lazyrich.methods.gram import Equation, equation_of, steps
from lazyrich.prediction.by_flow import stopped
from lazyrich.prediction.closed_form import alone, closed_form_of
from lazyrich.prediction.error import EXACT, TWICE, relative
from lazyrich.prediction.looking import LEFT, LEFT_WHITE, NEAR, STEPS, WEAK, all_seen, far, floor_of, looked_at
from lazyrich.prediction.modes import Frames, frames_of, in_frames
from lazyrich.prediction.result import Knowledge, Prediction
from lazyrich.problem import Problem
from lazyrich.trajectory import Trajectory

_COARSE, _FINE = 1e-7, 1e-9  # tolerances of the two runs
_REST = 10 * _FINE  # as near to its end as steps at the limit of stability let it come
_NOTHING = 1e-14  # of the loss of no network
_ENTRIES = 25_000_000  # of all states that are kept
_SQUARES, _FEW = 13_000_000, 60  # entries of all kernels of a linear network, inputs squared, and times all the same
_THINNED = 201  # records of the first run at most, and those between that and twice as many
_DRAFT_STEPS = 4_000
_FAINT = 1e-3  # of the strongest pull of any loss: then all that is to be learned has been


def by_gram(problem: Problem, asked: Array | None) -> Prediction:
    """Integrated through QQᵀ, twice; the first time also finds out until when to look."""
    equation, frames = equation_of(problem), frames_of(problem, problem.pull)
    draft_of = _draft if problem.loss.squared else _draft_of_any_loss
    draft = draft_of(problem, equation, frames, 0.0 if asked is None else float(asked[-1]))
    own = looked_at(problem, draft.end, asked)
    asked = own if asked is None else asked
    few = slice(None, None, 1 + len(draft.times) // _THINNED)
    grid = np.unique(np.concatenate([own, asked, draft.times[few]]))
    most = max(_ENTRIES // min(entries(problem)), 2)  # states that are kept
    kernels = _evenly(own, min(most, max(_SQUARES // problem.task.d_in**2, _FEW)))
    whole = np.isin(grid, kernels) | (np.isin(grid, asked) if len(asked) <= most else False)
    functions, states, reached = _recorded(equation, grid, whole)
    grid = grid[: len(functions)]
    done = COMPLETE
    if reached < asked[-1]:
        done = stopped(problem, reached, STEPS)
        if reached < asked[0]:
            raise InvalidInput(f"none of the times was reached: the prediction {done}.")

    def course(times: Array, whole: bool) -> Trajectory:
        place = np.flatnonzero(np.isin(grid, times))
        parts = equation.parts([states[int(i)] for i in place]) if whole else {"function": functions[place]}
        return Trajectory(problem, grid[place], equation.name, parts, status=done, citations=("tu2024",))

    drafted = draft.times[few]
    seen = course(np.union1d(own, drafted[drafted <= own[-1]]), whole=False)
    traj = course(asked, len(asked) <= most)
    strengths = in_frames(functions, frames)
    there = np.isin(grid, draft.times[few])
    both = np.isin(draft.times, grid[there])
    task, loss = problem.task, problem.loss
    nothing = _NOTHING * float(loss.of_map(task, np.zeros_like(task.target)))  # of a loss, but rounding
    apart = max(
        relative(draft.loss[both] - loss.of_map(task, functions[there]), np.append(draft.loss, nothing)),
        relative(draft.strengths[both] - strengths[there], strengths),
    )
    of_rest = _of_rest(equation, functions[0] if len(draft.times) == 1 else functions[-1], draft.loss, strengths)
    error = max(EXACT, TWICE * apart, of_rest)
    closed = closed_form_of(Decoupled(problem), grid, strengths, draft.end, measured=True) if alone(problem) else None
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
        relative(above, np.append(loss, nothing)),
        off * equation.unit / (float(np.abs(strengths).max()) or equation.unit),
    )


def entries(problem: Problem) -> tuple[int, int]:
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
    left = LEFT_WHITE if white else LEFT
    guess = horizon(problem)
    end = far(problem, guess)
    records = []

    def look(time: float, y: Array) -> None:
        A = equation.function(y)
        records.append((time, float(task.loss(A)), np.sum(frames.u * (A @ frames.v), axis=0)))

    look(0.0, equation.initial)
    if equation.at_rest(equation.initial, _REST):
        return _Draft(guess, *(np.array(column) for column in zip(*records, strict=True)))
    floor = floor_of(problem)
    # large weights on large inputs are worse than none: that they fall is not all there is to see
    fall = min(records[0][1], float(task.loss(np.zeros_like(task.target)))) - floor
    with progress(max(end, last), "draft") as advance:
        before = 0.0
        for step in steps(equation, _COARSE, _DRAFT_STEPS):
            look(step.time, step.state)
            advance(step.time - before)
            before = step.time
            near = not white or np.all(np.abs(records[-1][2][: len(target)] - target) <= NEAR * target)
            if near and records[-1][1] - floor <= left * fall and not problem.weight_decay:
                end = min(end, rounded_up(1.15 * step.time))
            if step.time >= max(end, last) or (step.time >= end and equation.at_rest(step.state, _COARSE)):
                break
    times, loss, strengths = (np.array(column) for column in zip(*records, strict=True))
    return _Draft(min(end, float(times[-1])), times, loss, strengths)


def _draft_of_any_loss(problem: Problem, equation: Equation, frames: Frames, last: float) -> _Draft:
    """Integrated far beyond an estimate, or until next to nothing pulls, or until the last time that is asked for; and
    kept until all has been seen."""
    end, records = far(problem, horizon(problem)), [(0.0, equation.initial)]
    strongest = 0.0
    with progress(max(end, last), "draft") as advance:
        for step in steps(equation, _COARSE, _DRAFT_STEPS):
            records.append((step.time, step.state))
            advance(step.time - records[-2][0])
            pull = float(np.linalg.norm(problem.loss.pull_on_map(problem.task, equation.function(step.state))))
            strongest = max(strongest, pull)
            if step.time >= last and (step.time >= end or pull <= _FAINT * strongest):
                break
    times, functions = np.array([time for time, _ in records]), np.array([equation.function(y) for _, y in records])
    loss = np.asarray(problem.loss.of_map(problem.task, functions))
    end = all_seen(times, loss)
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
        for step in steps(equation, _FINE, STEPS):
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


def _evenly(times: Array, most: int) -> Array:
    """No more than so many of the times, the first and the last among them."""
    return times[np.unique(np.linspace(0, len(times) - 1, min(most, len(times))).astype(int))]
