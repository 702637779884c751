"""The numbers of one block: a pure function of the sweep and the block. One bad cell never spoils the others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._typing import Array
from lazyrich.batch.api import in_precision
from lazyrich.batch.exact import attempts
from lazyrich.batch.run import descend_stack, flow_stack
from lazyrich.batch.stack import stacks
from lazyrich.methods import _gradients
from lazyrich.noise import Seeded, seeded
from lazyrich.sweeps.grid import STATUS, Block, Cause, Place, Result, Tick, Variable
from lazyrich.sweeps.measure import long_name, measured, measured_together, together
from lazyrich.sweeps.problems import Cell, as_factory
from lazyrich.sweeps.sweep import Sweep
from lazyrich.trajectory import Trajectory

_NUMBERS = 2**24  # in the Gram matrices of the cells that are solved at once
_CELL_ERRORS = (InvalidInput, np.linalg.LinAlgError, ArithmeticError, ValueError)  # and NoExactSolution, a ValueError
_TRIED = 100  # cells, until one can be made, to see what there is to measure


def compute(sweep: Sweep, block: Block, tick: Tick = lambda cells: None) -> Result:
    """Every cell of a block."""
    shape = tuple(s.stop - s.start for s in block.region)
    result = Result({}, np.zeros(shape, np.int8), {})
    for name, variable in sweep.variables().items():
        full = (*shape, len(sweep.at), *variable.shape)
        result.values[name] = np.full(full, np.nan, sweep.dtype)
    places, cells = _cells(sweep, block, result)
    with np.errstate(all="ignore"):  # what overflows is reported cell by cell
        if sweep.method == "solve":
            _solved(sweep, block, places, cells, result, tick)
        elif cells:
            _trained(sweep, block, places, cells, result, tick)
    tick(float(np.prod(shape) - len(cells)))
    return result


def template(sweep: Sweep) -> dict[str, Variable]:
    """What there is to store, from the first cell that can be made."""
    cell = first_cell(sweep)
    problem = cell.problem
    start = Trajectory(problem, np.zeros(1), "start", {"weights": [W[None] for W in problem.network.weights]})
    found = {}
    for name in sweep.observables:
        dims, words, units = long_name(name)
        found[name] = Variable(dims, measured(start, name, cell.test).shape[1:], words, units)
    return found


def first_cell(sweep: Sweep) -> Cell:
    """The first one that can be made."""
    for place in islice(np.ndindex(sweep.shape), _TRIED):
        cell = made(sweep, place)
        if isinstance(cell, Cell):
            return cell
    raise InvalidInput(f"none of the first cells of the sweep can be made: {cell}")


def made(sweep: Sweep, place: Place) -> Cell | Cause:
    """A cell, or why there is none. A user's factory may raise anything."""
    factory = as_factory(sweep.problem)
    try:
        cell = sweep.cell(place)
        if sweep.method != "solve":
            _gradients.needs_samples(cell.problem, sweep.method)
        if cell.noise.kind and sweep.method != "descend":
            raise InvalidInput(f"noise needs method = 'descend', and it is {sweep.method!r}.")
        seeded(cell.noise, [cell.noise_seed], [cell.problem.task], sweep.at[-1])
        return cell
    except InvalidInput as error:
        return Cause.of(error, str(error), factory.__module__)
    except (Exception, SystemExit) as error:
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


def _here(block: Block, place: Place) -> Place:
    return tuple(i - s.start for i, s in zip(place, block.region, strict=True))


def _fail(block: Block, place: Place, cause: Cause, result: Result) -> None:
    result.status[_here(block, place)] = STATUS.index("failed")
    result.causes[place] = cause


def _keep(block: Block, place: Place, status: str, result: Result, values: dict[str, Array]) -> None:
    """What was measured of a cell, up to where it came."""
    here = _here(block, place)
    kept_values = {name: result.values[name][here] for name in values}
    for name, value in values.items():
        kept = kept_values[name]
        if value.shape[1:] != kept.shape[1:]:
            sizes = [" × ".join(map(str, part.shape[1:])) or "one number" for part in (kept, value)]
            message = f"{name} must have the size of the first cell, {sizes[0]}, and it has {sizes[1]}."
            return _fail(block, place, Cause(f"size of {name}", message), result)
    for name, value in values.items():
        kept_values[name][: len(value)] = value
    result.status[here] = STATUS.index("complete" if status == "complete" else "stopped")
    if status != "complete":
        result.causes[place] = Cause("stopped", status)


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
        found = attempts([cell.problem for cell in some], times, kept=_CELL_ERRORS)
        for place, cell, traj in zip(places[i : i + several], some, found, strict=True):
            try:
                if isinstance(traj, Exception):
                    raise traj
                values = {name: measured(traj, name, cell.test) for name in sweep.observables}
            except _CELL_ERRORS as error:
                _fail(block, place, Cause.of(error, str(error)), result)
            else:
                _keep(block, place, traj.status, result, values)
            tick(1.0)


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
            if sweep.method == "descend":
                record = descend_stack(stack, rates, sweep.at, on)
            else:
                record = flow_stack(stack, rates[..., None] * steps, sweep.rtol, on)
            with in_precision(sweep.dtype.name):  # distances are small differences of large products
                at_once = measured_together(stack, record, cells, together(stack, sweep.observables))
            for number, (row, column) in enumerate(np.ndindex(stack.members.shape)):
                member, n = int(stack.members[row, column]), int(record.reached[row, column])
                values = {name: value[:n, row, column] for name, value in at_once.items()}
                weights = [W[:n, row, column] for W in record.weights]
                times = rates[row, column] * steps[:n]
                try:
                    values |= _one_by_one(sweep, cells[member], weights, times, values)
                except (InvalidInput, np.linalg.LinAlgError, ArithmeticError, ValueError) as error:
                    _fail(block, places[member], Cause.of(error, str(error)), result)
                else:
                    _keep(block, places[member], record.status[number], result, values)


def _one_by_one(
    sweep: Sweep, cell: Cell, weights: list[Array], times: Array, had: dict[str, Array]
) -> dict[str, Array]:
    """What is not measured for a whole stack."""
    missing = [name for name in sweep.observables if name not in had]
    if not missing or not len(times):
        return {}
    traj = Trajectory(cell.problem, times, sweep.method, {"weights": [W.astype(np.float64) for W in weights]})
    return {name: measured(traj, name, cell.test) for name in missing}
