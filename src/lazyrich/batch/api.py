"""`batch.descend` and `batch.flow`: what `lr.descend` and `lr.flow` do, for a list of problems at once.

Those of one network are a batch of one (`stepped`, `integrated`). Linear networks flow by Tsit5 (`linear`), others by
the stabilised method (`run`), and both have to pass the same alarm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import NamedTuple

import numpy as np

from lazyrich import _check, _engines
from lazyrich._check import InvalidInput
from lazyrich._progress import progress
from lazyrich._status import Status
from lazyrich._typing import Array, Tree
from lazyrich.batch import alarm
from lazyrich.batch.linear import flow_linear
from lazyrich.batch.run import descend_stack, flow_stack
from lazyrich.batch.stack import alone, stacks
from lazyrich.methods import _gradients
from lazyrich.methods.mode_maps import as_momentum
from lazyrich.noise import seeded
from lazyrich.problem import Problem, as_problem
from lazyrich.trajectory import Trajectory

#: Word → the numbers of weights and records, and how a GPU multiplies matrices of them.
PRECISIONS = {
    "float64": ("float64", "highest"),
    "float32": ("float32", "highest"),
    "tf32": ("float32", "tensorfloat32"),
}
_RTOL, _RTOL_NONLINEAR = 1e-9, 1e-3  # unless told otherwise
_FINEST, _COARSEST = 1e-14, 1e-2  # rounding fails every step below; above, the error of a step is no small quantity
_COARSEST_ATOL = 1e-2  # of the mean size of the largest layer


class _Wish(NamedTuple):
    """What a flow is to keep, and how accurate it is to be; None: as is usual for its kind of network."""

    names: tuple[str, ...]
    rtol: float | None
    atol: float | None
    max_steps: int


def descend(
    problems: object,
    rate: object,
    steps: int,
    *,
    momentum: object = 0.0,
    nesterov: object = False,
    noise: object = None,
    seed: object = 0,
    record: object = ("weights",),
    at: object = None,
) -> list[Trajectory]:
    """Gradient descent of many networks, each as by `lr.descend`.

    Parameters
    ----------
    problems : a list of them, of any shapes
    rate : one number, or one per problem
    steps, momentum, nesterov, record, at : as in `lr.descend`
    noise : an `lr.Noise`, or a list with one per problem (None: none)
    seed : the first of the seeds s, s + 1, … of the problems, or a list with one for each: every network has noise of
        its own, that of `lr.descend(problem, …, seed=s + i)`. `[problem] * 100` is an ensemble of one problem

    Returns
    -------
    list of Trajectory : one per problem. A network that diverges takes nothing from the others: it keeps the steps
        before, and its `status` says at which it diverged

    >>> import lazyrich as lr
    >>> task = lr.Task.from_correlations([[2.0]])
    >>> problems = [lr.Problem(task, lr.Network([[[w]], [[w]]])) for w in (0.1, 0.2)]
    >>> [run.function.ravel().round(6).tolist() for run in lr.batch.descend(problems, rate=0.1, steps=100, at=[0, 100])]
    [[0.01, 2.0], [0.04, 2.0]]
    """
    checked = as_problems(problems)
    rates = _per_problem("rate", rate, len(checked))
    return stepped(checked, rates, as_stops(at, _check.count("steps", steps)), record, momentum, nesterov, noise, seed)


def stepped(
    problems: Sequence[Problem],
    rates: Array,
    stops: Array,
    record: object,
    momentum: object,
    nesterov: object,
    noise: object = None,
    seed: object = 0,
) -> list[Trajectory]:
    """Gradient descent of each problem with its rate, kept at the steps `stops`; what follows has not been checked."""
    beta, ahead = as_momentum(momentum, nesterov)
    names, found = _names(problems, record, "descend"), {}
    own_noise = seeded(noise, seed, [problem.task for problem in problems], int(stops[-1]))
    notes = [(str(each),) if each.noise.kind else () for each in own_noise]
    with in_precision("float64", "descend"), np.errstate(all="ignore"), progress(len(problems), "descend") as move_on:
        one = [alone(problems[0], own_noise[0])] if len(problems) == 1 else None
        for stack in one or stacks(problems, np.dtype(np.float64), noise=own_noise):
            own = np.asarray(rates[stack.members])
            tick = partial(_of_all, move_on, stack.cells)
            run = descend_stack(stack, own, stops, tick, names=names, momentum=beta, nesterov=ahead)
            for number, place in enumerate(np.ndindex(stack.members.shape)):
                member, some = int(stack.members[place]), (slice(int(run.reached[place])), *place)
                parts = _some(run.parts, some)
                times, status = own[place] * stops[some[0]], run.status[number]
                about = partial(Trajectory, status=status, notes=notes[member], stepped=True, momentum=beta)
                found[member] = about(problems[member], times, "descend", parts)
    return [found[i] for i in range(len(problems))]


def flow(
    problems: object,
    times: object,
    *,
    record: object = ("weights",),
    rtol: float | None = None,
    atol: float | None = None,
    max_steps: int = 1_000_000,
) -> list[Trajectory]:
    """Gradient flow of many networks, each as by `lr.flow`.

    Parameters
    ----------
    problems : a list of them, of any shapes
    times : one vector, or one row per problem
    record, rtol, atol, max_steps : as in `lr.flow`

    Returns
    -------
    list of Trajectory : one per problem. A run that cannot go on takes nothing from the others: it keeps the times it
        reached, and its `status` says why

    >>> import lazyrich as lr
    >>> task = lr.Task.from_correlations([[2.0]])
    >>> problems = [lr.Problem(task, lr.Network([[[w]], [[w]]])) for w in (0.1, 0.2)]
    >>> [run.function.ravel().round(6).tolist() for run in lr.batch.flow(problems, [0.0, 1.0, 10.0])]
    [[0.01, 0.430588, 2.0], [0.04, 1.054037, 2.0]]
    """
    checked = as_problems(problems)
    rows = times_of_each(times, len(checked), finite_times)
    return integrated(checked, np.broadcast_to(rows, (len(checked), rows.shape[1])), record, rtol, atol, max_steps)


def integrated(
    problems: Sequence[Problem], times: Array, record: object, rtol: object, atol: object, max_steps: object
) -> list[Trajectory]:
    """The gradient flow of each problem at its row of `times`; none of the other arguments has been checked."""
    wish = _Wish(
        _names(problems, record, "flow"),
        None if rtol is None else as_rtol(rtol),
        None if atol is None else _as_atol(atol, problems),
        _check.count("max_steps", max_steps),
    )
    linear = [i for i, problem in enumerate(problems) if problem.network.activation.linear]
    others = [i for i, problem in enumerate(problems) if not problem.network.activation.linear]
    found: dict[int, Trajectory] = {}
    with in_precision("float64", "flow"), np.errstate(all="ignore"), progress(len(problems), "flow") as move_on:
        for members, run in ((linear, _linear), (others, _nonlinear)):
            given = [problems[i] for i in members]
            found |= {members[i]: traj for i, traj in run(given, times[members], wish, move_on)}
    return [found[i] for i in range(len(problems))]


def _linear(
    problems: Sequence[Problem], times: Array, wish: _Wish, move_on: Callable[[float], object]
) -> Iterator[tuple[int, Trajectory]]:
    rtol = _RTOL if wish.rtol is None else wish.rtol
    for i, problem in enumerate(problems):
        apart, back = _apart(times[i : i + 1])
        run = flow_linear(problem, times[i, apart], wish.names, rtol, wish.atol, wish.max_steps, move_on)
        own = times[i, back < run.reached]
        parts = run.parts if apart.all() else _some(run.parts, back[: len(own)])
        yield i, Trajectory(problem, own, "flow", parts, status=run.status, notes=_notes(problem, run.status))


def _notes(problem: Problem, status: Status) -> tuple[str, ...]:
    if status != "complete" or not problem.facts.determinant_obstruction:
        return ()
    stays = ", where lr.solve(problem, times) stays" if problem.facts.method is not None else ""
    return (
        "the signs of det W and det Σyx differ, so the flow ends in a saddle; rounding lets an integration leave it "
        f"in the end{stays}",
    )


def _nonlinear(
    problems: Sequence[Problem], times: Array, wish: _Wish, move_on: Callable[[float], object]
) -> Iterator[tuple[int, Trajectory]]:
    rtol = _RTOL_NONLINEAR if wish.rtol is None else wish.rtol
    apart, back = _apart(times)
    for stack in stacks(problems, np.dtype(np.float64)):
        stops, tick = times[stack.members][..., apart], partial(_of_all, move_on, stack.cells)
        run = flow_stack(stack, stops, rtol, tick, atol=wish.atol or 0.0, most_gradients=wish.max_steps)
        for number, place in enumerate(np.ndindex(stack.members.shape)):
            member, at = int(stack.members[place]), back[back < run.reached[place]]
            problem, own, status = problems[member], times[member, : len(at)], run.status[number]
            weights = [W[(at, *place)] for W in run.weights]
            notes = (f"integrated by a stabilised Runge–Kutta–Chebyshev method, {run.gradients[place]} gradients",)
            traj = Trajectory(problem, own, "flow", {"weights": weights}, status=status, notes=notes)
            n = alarm.falling(problem, alarm.objective(problem, weights, traj.loss), rtol)
            if n < len(at):
                weights, status = [W[:n] for W in weights], alarm.rising(problem, own[n], rtol)
                traj = Trajectory(problem, own[:n], "flow", {"weights": weights}, status=status, notes=notes)
            yield member, _only(traj, wish.names)


def _apart(times: Array) -> tuple[Array, Array]:
    """Which times are not the one before once more, in all rows; and where each stands among those."""
    apart = np.concatenate([[True], np.any(np.diff(times) > 0, axis=0)])
    return apart, np.cumsum(apart) - 1


def _some(parts: dict[str, Tree], index: Array | tuple[object, ...]) -> dict[str, Tree]:
    """The parts of a trajectory at some of its times."""
    return {name: [W[index] for W in part] if name == "weights" else part[index] for name, part in parts.items()}


def _of_all(move_on: Callable[[float], object], cells: int, part: float) -> None:
    """A part of a stack is that part of each of its networks."""
    move_on(part * cells)


def _only(traj: Trajectory, names: Sequence[str]) -> Trajectory:
    """What was asked for, of a trajectory that holds the weights."""
    if "weights" in names:
        return traj
    parts = {name: getattr(traj, name) for name in names}
    return Trajectory(traj.problem, traj.times, traj.method, parts, status=traj.status, notes=traj.notes)


def in_precision(precision: object, wanted_by: str = "a batch of networks") -> AbstractContextManager[object]:
    """JAX in float64 or float32 inside a `with` block; products of float32 in full, which a GPU would shorten, but for
    "tf32", where it rounds the factors to ten bits."""
    jax = _engines.load("jax", wanted_by)
    dtype, products = PRECISIONS[_check.choice("precision", precision, tuple(PRECISIONS))]
    both = ExitStack()
    both.enter_context(jax.enable_x64(dtype == "float64"))
    both.enter_context(jax.default_matmul_precision(products))
    return both


def as_rtol(value: object) -> float:
    """A tolerance of steps."""
    rtol = _check.positive("rtol", value)
    if not _FINEST <= rtol <= _COARSEST:
        raise InvalidInput(f"rtol must lie between {_FINEST:g} and {_COARSEST:g}, and it is {rtol:g}.")
    return rtol


def _as_atol(value: object, problems: Sequence[Problem]) -> float:
    """What is granted to every weight besides: small against the weights, or it grants everything."""
    atol = _check.positive("atol", value)
    networks = [problem.network for problem in problems]
    sizes = [max(float(np.mean(np.abs(W))) for W in network.free(network.weights)) for network in networks]
    most = _COARSEST_ATOL * min((size for size in sizes if size), default=1.0)
    if atol > most:
        raise InvalidInput(
            f"atol must be at most {most:.3g}, a hundredth of the mean weight of the largest layer, and it is {atol:g}."
        )
    return atol


def as_steps(at: object) -> tuple[int, ...]:
    """Steps to record: whole, growing, not negative."""
    steps = np.atleast_1d(_check.as_array("at", at))
    whole = steps.ndim == 1 and not np.any(steps != np.round(steps)) and steps.min() >= 0
    if not whole or np.any(np.diff(steps) <= 0) or steps.max() > 2**53:
        raise InvalidInput(f"at must list the steps to record, whole and growing, and it is {_check.shown(at)}.")
    return tuple(int(step) for step in steps)


def as_stops(at: object, steps: int) -> Array:
    """The steps to record of a descent of so many, sorted; at most 501 evenly spaced ones where none are named."""
    if at is None:
        return np.linspace(0, steps, min(steps, 500) + 1).round().astype(np.int64)
    stops = np.atleast_1d(_check.as_array("at", at))
    if stops.ndim != 1 or np.any(stops != np.round(stops)):
        raise InvalidInput(f"at must list steps, whole numbers from 0 to {steps}, and it is {_check.shown(at)}.")
    if stops.min() < 0 or stops.max() > steps:
        raise InvalidInput(
            f"at must lie between 0 and steps ({steps}), and it goes from {stops.min():g} to {stops.max():g}."
        )
    if np.any(np.diff(stops) < 0):
        raise InvalidInput("at must be sorted, and it is not: try np.sort(at).")
    return stops.astype(np.int64)


def as_problems(problems: object) -> list[Problem]:
    """A list of problems, or a sentence."""
    if isinstance(problems, Problem) or not isinstance(problems, Iterable):
        raise InvalidInput(f"problems must be a list of problems, and it is a {type(problems).__name__}.")
    checked = [as_problem(problem, f"problems[{i}]") for i, problem in enumerate(problems)]
    if not checked:
        raise InvalidInput("problems is empty, and at least one is needed.")
    return checked


def _names(problems: Sequence[Problem], record: object, wanted_by: str) -> tuple[str, ...]:
    """What to record, which every one of the problems must have."""
    names: tuple[str, ...] = ()
    for problem in problems:
        network = problem.network
        names = _engines.as_record(record, network.depth, network.activation.linear, network.kind, network.biased)
        _gradients.needs_samples(problem, wanted_by)
    return names


def _per_problem(name: str, value: object, count: int) -> Array:
    numbers = np.atleast_1d(_check.as_array(name, value))
    if numbers.shape not in ((1,), (count,)):
        raise InvalidInput(
            f"{name} must be one number, or one per problem ({count}), and it has shape {numbers.shape}."
        )
    if numbers.min() <= 0:
        raise InvalidInput(f"{name} must be above 0, and the least is {numbers.min():g}.")
    return np.broadcast_to(numbers, (count,))


def times_of_each(times: object, count: int, check: Callable[[object], Array]) -> Array:
    """One row per problem, or one row for all."""
    rows = _check.as_array("times", times, infinite=True)
    if rows.ndim == 2 and len(rows) == count:
        return np.stack([check(row) for row in rows])
    if rows.ndim > 1:
        raise InvalidInput(
            f"times must be a vector, or hold one row per problem ({count}), and it has shape {rows.shape}."
        )
    return check(times)[None]


def finite_times(times: object) -> Array:
    """Times that an integration can reach."""
    checked = _check.as_times(times, forever=True)
    if np.isinf(checked[-1]):
        raise InvalidInput(
            "times must be finite, since flow integrates and would never arrive, and the last is inf: try "
            "lr.solve(problem, times) or lr.fate(problem), which know the end where a theorem applies, or "
            "lr.predict(problem), which looks until all has happened."
        )
    return checked
