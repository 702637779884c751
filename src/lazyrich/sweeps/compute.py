"""The numbers of one block: a pure function of the sweep and the block. One bad cell never spoils the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._typing import Array
from lazyrich.batch.api import in_precision
from lazyrich.batch.exact import attempts
from lazyrich.batch.fates import fate as fates
from lazyrich.batch.run import descend_stack, flow_stack
from lazyrich.batch.stack import stacks
from lazyrich.landscape.fate import Fate, fate
from lazyrich.methods import _gradients
from lazyrich.methods.solve import NoExactSolution
from lazyrich.noise import Seeded, seeded
from lazyrich.predict import predict
from lazyrich.prediction import Prediction
from lazyrich.sweeps import limits
from lazyrich.sweeps.fields import field_names, read, variable_of
from lazyrich.sweeps.grid import STATUS, Block, Cause, Place, Result, Tick, TooLong, Variable, label
from lazyrich.sweeps.measure import Measure, measured, measured_together, together, variable
from lazyrich.sweeps.problems import Cell, as_factory
from lazyrich.sweeps.sweep import Sweep
from lazyrich.trajectory import Trajectory

_NUMBERS = 2**24  # in the Gram matrices of the cells that are solved at once
_CELL_ERRORS = (InvalidInput, np.linalg.LinAlgError, ArithmeticError, ValueError)  # and NoExactSolution, a ValueError
_TRIED = 100  # cells, until one can be made, to see what there is to measure


def compute(sweep: Sweep, block: Block, tick: Tick = lambda cells: None) -> Result:
    """Every cell of a block."""
    shape = block.shape
    result = Result({}, np.zeros(shape, np.int8), {}, {})
    for name, one in sweep.variables().items():
        full = (*shape, *((len(sweep.at),) if one.along else ()), *one.shape)
        result.values[name] = np.full(full, np.nan, sweep.dtype)
    places, cells = _cells(sweep, block, result)
    with np.errstate(all="ignore"):  # what overflows is reported cell by cell
        if cells and sweep.trains:
            _trained(sweep, block, places, cells, result, tick)
        elif cells:
            run = _solved if sweep.method == "solve" else _answered
            run(sweep, block, places, cells, result, tick)
    tick(float(len([*sweep.places(block)]) - len(cells)))
    return result


def template(sweep: Sweep) -> dict[str, Variable]:
    """What there is to store, from the first cells that can be made, and have such a thing."""
    found: dict[str, Variable] = {}
    lacking: dict[str, Cause] = {}
    for cell in _first_cells(sweep):
        problem, missing = cell.problem, [one for one in sweep.observables if label(one) not in found]
        along, fields = _divided(sweep, missing)
        start = Trajectory(problem, np.zeros(1), "start", {"weights": [W[None] for W in problem.network.weights]})
        values, lacking = _measured_of(start, cell, along)
        found |= {label(one): variable(one, values[label(one)].shape[1:]) for one in along if label(one) in values}
        if fields:
            answer = _answer(sweep, cell)
            values, more = _read_of(sweep, answer, fields)
            found |= {name: variable_of(sweep.method, name, value) for name, value in values.items()}
            lacking |= more
        if not lacking:
            return {label(one): found[label(one)] for one in sweep.observables}
    (name, cause), *_ = lacking.items()
    raise InvalidInput(f"{name} has no value in any of the first cells of the sweep: {cause}")


def _divided(sweep: Sweep, observables: Sequence[str | Measure]) -> tuple[list[str | Measure], list[str]]:
    """Those of a trajectory, and those of an answer."""
    known = field_names(sweep.method)
    along = [one for one in observables if one not in known]
    return along, [one for one in observables if isinstance(one, str) and one in known]


def first_cell(sweep: Sweep) -> Cell:
    """The first one that can be made."""
    return next(_first_cells(sweep))


def _first_cells(sweep: Sweep) -> Iterator[Cell]:
    """Of the first places, those that can be made; at least one, or a sentence."""
    cause, there = Cause("", ""), False
    for place in islice(np.ndindex(sweep.shape), _TRIED):
        cell = made(sweep, place)
        if isinstance(cell, Cell):
            there = True
            yield cell
        else:
            cause = cell
    if not there:
        raise InvalidInput(f"none of the first cells of the sweep can be made: {cause}")


def made(sweep: Sweep, place: Place) -> Cell | Cause:
    """A cell, or why there is none. A user's factory may raise anything."""
    factory = as_factory(sweep.problem)
    try:
        with limits.cell():
            cell = sweep.cell(place)
        if sweep.trains:
            _gradients.needs_samples(cell.problem, sweep.method)
        if cell.noise.kind and sweep.method != "descend":
            raise InvalidInput(f"noise needs method = 'descend', and it is {sweep.method!r}.")
        seeded(cell.noise, [cell.noise_seed], [cell.problem.task], sweep.at[-1])
        return cell
    except InvalidInput as error:
        return Cause.of(error, str(error), factory.__module__)
    except (Exception, SystemExit, TooLong) as error:
        return Cause.of(error, module=factory.__module__)


def _cells(sweep: Sweep, block: Block, result: Result) -> tuple[list[Place], list[Cell]]:
    """Those that can be made; the others have failed."""
    places, cells = [], []
    for place in sweep.places(block):
        cell = made(sweep, place)
        if isinstance(cell, Cause):
            _fail(block, place, cell, result)
        else:
            places.append(place)
            cells.append(cell)
    return places, cells


def _fail(block: Block, place: Place, cause: Cause, result: Result) -> None:
    result.status[block.within(place)] = STATUS.index("pending" if cause.passing else "failed")
    result.causes[place] = cause


def _keep(block: Block, place: Place, status: str, result: Result, values: dict[str, Array]) -> None:
    """What was measured of a cell, up to where it came."""
    here = block.within(place)
    for name, value in values.items():
        kept = result.values[name][here]
        if _fits(place, name, kept.shape[1:], value.shape[1:], result):
            kept[: len(value)] = value
    result.status[here] = STATUS.index("complete" if status == "complete" else "stopped")
    if status != "complete":
        result.causes[place] = Cause("stopped", status)


def _fits(place: Place, name: str, size: tuple[int, ...], own: tuple[int, ...], result: Result) -> bool:
    """Whether a value has the size of the first cell's; if not, it is not kept."""
    if own != size:
        sizes = [" × ".join(map(str, shape)) or "one number" for shape in (size, own)]
        message = f"{name} must have the size of the first cell, {sizes[0]}, and it has {sizes[1]}."
        _lack(place, name, Cause(f"size of {name}", message), result)
    return own == size


def _lack(place: Place, name: str, cause: Cause, result: Result) -> None:
    lacking: Any = result.lacking  # ours, not the empty one that is the default
    lacking[place, name] = cause


def _each(
    found: Iterable[tuple[str | Measure, Callable[[], Array]]],
) -> tuple[dict[str, Array], dict[str, Cause]]:
    """The value of each observable, or why there is none. One of the user's may raise anything."""
    values: dict[str, Array] = {}
    lacking: dict[str, Cause] = {}
    for one, value in found:
        module = getattr(one, "__module__", "lazyrich")
        try:
            with limits.cell():
                values[label(one)] = value()
        except (InvalidInput, NoExactSolution) as error:
            lacking[label(one)] = Cause.of(error, str(error), module)
        except (Exception, SystemExit, TooLong) as error:
            lacking[label(one)] = Cause.of(error, module=module)
    return values, lacking


def _measured_of(
    traj: Trajectory, cell: Cell, observables: Sequence[str | Measure]
) -> tuple[dict[str, Array], dict[str, Cause]]:
    return _each((one, partial(measured, traj, one, cell.test)) for one in observables)


def _read_of(sweep: Sweep, answer: object, fields: Sequence[str]) -> tuple[dict[str, Array], dict[str, Cause]]:
    return _each((name, partial(read, sweep.method, name, answer)) for name in fields)


def _judge(
    block: Block, place: Place, status: str, result: Result, values: dict[str, Array], lacking: dict[str, Cause]
) -> None:
    """A cell with all that could be measured of it; one whose measurement met a fault of the machine is to be done."""
    passing = [cause for cause in lacking.values() if cause.passing]
    if passing:
        return _fail(block, place, passing[0], result)
    for name, cause in lacking.items():
        _lack(place, name, cause, result)
    _keep(block, place, status, result, values)


def _solved(
    sweep: Sweep, block: Block, places: Sequence[Place], cells: Sequence[Cell], result: Result, tick: Tick
) -> None:
    """As many at once as fit, then measured one by one."""
    steps = np.array(sweep.at, float)
    largest = max((sum(cell.problem.network.sizes) ** 2 for cell in cells), default=1)
    several = max(1, _NUMBERS // (largest * len(steps)))
    for i in range(0, len(cells), several):
        some = cells[i : i + several]
        times = np.stack([sweep.rate * cell.clock * steps for cell in some])
        times = times[:1] if np.all(times == times[0]) else times
        trajectories = attempts([cell.problem for cell in some], times, kept=_CELL_ERRORS)
        for place, cell, traj in zip(places[i : i + several], some, trajectories, strict=True):
            if isinstance(traj, Exception):
                _fail(block, place, Cause.of(traj, str(traj)), result)
            else:
                found = _measured_of(traj, cell, sweep.observables)
                _judge(block, place, traj.status, result, *found)
            tick(1.0)


def _answered(
    sweep: Sweep, block: Block, places: Sequence[Place], cells: Sequence[Cell], result: Result, tick: Tick
) -> None:
    """What `lr.fate` or `lr.predict` say, cell by cell; fates together where all of them are known."""
    along, fields = _divided(sweep, sweep.observables)
    answers: list[Any] = [None] * len(cells)
    if sweep.method == "fate":
        with suppress(Exception, TooLong), limits.cell(len(cells)):  # one by one, each says what is wrong with it
            answers = list(fates([cell.problem for cell in cells]))
    for place, cell, answer in zip(places, cells, answers, strict=True):
        try:
            answer = _answer(sweep, cell) if answer is None else answer
        except (InvalidInput, NoExactSolution) as error:
            _fail(block, place, Cause.of(error, str(error)), result)
        except (*_CELL_ERRORS, TooLong) as error:
            _fail(block, place, Cause.of(error), result)
        else:
            found, lacking = _read_of(sweep, answer, fields)
            for name, value in found.items():
                kept = result.values[name]
                if _fits(place, name, kept.shape[len(place) :], value.shape, result):
                    kept[block.within(place)] = value
            if isinstance(answer, Prediction):
                values, why = _measured_of(answer.trajectory, cell, along)
                _judge(block, place, answer.trajectory.status, result, values, lacking | why)
            else:
                _judge(block, place, "complete", result, {}, lacking)
        tick(1.0)


def _answer(sweep: Sweep, cell: Cell) -> Fate | Prediction:
    with limits.cell():
        if sweep.method == "fate":
            return fate(cell.problem)
        return predict(cell.problem, sweep.rate * cell.clock * np.array(sweep.at, float))


def _trained(
    sweep: Sweep, block: Block, places: Sequence[Place], cells: Sequence[Cell], result: Result, tick: Tick
) -> None:
    """Stack by stack: train, then measure."""
    problems, clocks = [cell.problem for cell in cells], np.array([cell.clock for cell in cells])
    steps = np.array(sweep.at, float)
    noise = [Seeded(cell.noise, cell.noise_seed or 0) for cell in cells]
    with in_precision(sweep.precision):
        for stack in stacks(problems, sweep.dtype, noise=noise):

            def on(part: float, count: int = stack.cells) -> None:
                tick(part * count)

            rates = sweep.rate * clocks[stack.members]
            try:
                with limits.cell(stack.cells, together=True):
                    if sweep.method == "descend":
                        record = descend_stack(stack, rates, sweep.at, on)
                    else:
                        record = flow_stack(stack, rates[..., None] * steps, sweep.rtol, on)
                    with in_precision(sweep.dtype.name):  # distances are small differences of large products
                        at_once = measured_together(stack, record, cells, together(stack, sweep.observables))
            except TooLong as error:
                for member in stack.members.ravel():
                    _fail(block, places[int(member)], Cause.of(error), result)
                continue
            for number, (row, column) in enumerate(np.ndindex(stack.members.shape)):
                member, n = int(stack.members[row, column]), int(record.reached[row, column])
                values = {name: value[:n, row, column] for name, value in at_once.items()}
                weights = [W[:n, row, column].astype(np.float64) for W in record.weights]
                lacking: dict[str, Cause] = {}
                if n:
                    times, cell = rates[row, column] * steps[:n], cells[member]
                    traj = Trajectory(cell.problem, times, sweep.method, {"weights": weights})
                    rest = [one for one in sweep.observables if label(one) not in values]
                    others, lacking = _measured_of(traj, cell, rest)
                    values |= others
                _judge(block, places[member], record.status[number], result, values, lacking)
