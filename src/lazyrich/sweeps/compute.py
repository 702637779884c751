"""The numbers of one block: a pure function of the sweep and the block. One bad cell never spoils the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from lazyrich import _gradients
from lazyrich._check import InvalidInput
from lazyrich._typing import Array
from lazyrich.batch.many import in_precision
from lazyrich.batch.run import descend_stack, flow_stack
from lazyrich.batch.stack import device_kind, stacks
from lazyrich.solve import NoExactSolution, solve
from lazyrich.sweeps.grid import Block, Sweep
from lazyrich.sweeps.measure import long_name, measured, measured_together, together
from lazyrich.sweeps.problems import Cell
from lazyrich.trajectory import Trajectory

__all__ = ["STATUS", "Estimate", "Result", "Variable", "compute", "estimate", "template", "with_blocks"]

#: What became of a cell, by code. A stopped one diverged or stalled: its values up to then are there.
STATUS = ("pending", "complete", "stopped", "failed")

Place = tuple[int, ...]

_TRIED = 100  # cells, until one can be made, to see what there is to measure
_TIMED = 4  # cells timed in full
_SPREAD = 50  # cells over the grid, to see whether they can be made
_BLOCK_SECONDS = {"cpu": 20.0}  # of work, about: what a crash may cost
_BLOCK_SECONDS_OF_GPU = 100.0  # which large blocks keep busy
_BLOCK_MEMORY = 2.0**30  # bytes
_SPEED = {"cpu": 1e10}  # operations per second, about
_SPEED_OF_GPU = 2e13
_FLOW_GRADIENTS = 1000  # of a flow, about


class Variable(NamedTuple):
    """What the store must hold of one observable: axes after those of the grid and `step`."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    long_name: str
    units: str


class Result(NamedTuple):
    """What a block gives. Cells are in the shape of the block; nan where a value was not reached."""

    values: dict[str, Array]  # observable → (*block, steps, …)
    status: Array  # (*block,), int8
    causes: dict[Place, str]  # place in the grid → why it is not complete


class Estimate(NamedTuple):
    """What a sweep will take."""

    cells: int
    blocks: int
    seconds_per_cell: float
    memory: int  # bytes, of one block
    store: int  # bytes, before compression
    device: str
    tried: int  # cells, spread over the grid, made to see whether they can be
    impossible: int  # how many of these cannot
    cause: str  # why, of the first of them


def compute(sweep: Sweep, block: Block, tick: Callable[[float], Any] = lambda cells: None) -> Result:
    """Every cell of a block; `tick` is told how many cells' worth of work has been done since the last call."""
    shape = tuple(s.stop - s.start for s in block.region)
    result = Result({}, np.zeros(shape, np.int8), {})
    for name, variable in template(sweep).items():
        full = (*shape, len(sweep.at), *variable.shape)
        result.values[name] = np.full(full, np.nan, np.dtype(sweep.precision))
    places, cells = _cells(sweep, block, result)
    with np.errstate(all="ignore"):  # what overflows is reported cell by cell
        if sweep.method == "solve":
            for place, cell in zip(places, cells, strict=True):
                _solved(sweep, block, place, cell, result)
                tick(1.0)
        elif cells:
            _trained(sweep, block, places, cells, result, tick)
    tick(float(np.prod(shape) - len(cells)))
    return result


_latest: list[tuple[Sweep, dict[str, Variable]]] = []  # one entry: all blocks of a sweep ask for the same


def template(sweep: Sweep) -> dict[str, Variable]:
    """What there is to store, from the start of the first cell that can be made."""
    if not _latest or _latest[0][0] is not sweep:
        _latest[:] = [(sweep, _template(sweep))]
    return _latest[0][1]


def _template(sweep: Sweep) -> dict[str, Variable]:
    cell, cause = _first_cell(sweep)
    if cell is None:
        raise InvalidInput(f"none of the first cells of the sweep can be made: {cause}")
    problem = cell.problem
    start = Trajectory(problem, np.zeros(1), "start", {"weights": [W[None] for W in problem.network.weights]})
    found = {}
    for name in sweep.observables:
        dims, words, units = long_name(name)
        found[name] = Variable(dims, measured(start, name, cell.test).shape[1:], words, units)
    return found


def with_blocks(sweep: Sweep) -> Sweep:
    """The sweep with a block shape: its own, or one that takes some seconds where this runs."""
    if sweep.block:
        return sweep
    cell, _ = _first_cell(sweep)
    seconds = 1.0 if cell is None else max(_operations(sweep, cell) / _SPEED.get(_device(sweep), _SPEED_OF_GPU), 1e-6)
    budget = _BLOCK_SECONDS.get(_device(sweep), _BLOCK_SECONDS_OF_GPU)
    fit = _BLOCK_MEMORY / _bytes(sweep, cell) if cell is not None else 1.0
    return sweep.with_block(max(1, int(min(budget / seconds, fit))))


def estimate(sweep: Sweep) -> Estimate:
    """Cells, memory and time, from a short run of the first cell that can be made."""
    sweep = with_blocks(sweep)
    cell, cause = _first_cell(sweep)
    if cell is None:
        raise InvalidInput(f"none of the first cells of the sweep can be made: {cause}")
    variables = template(sweep)
    in_block = int(np.prod(sweep.block_shape))
    itemsize = np.dtype(sweep.precision).itemsize
    numbers = len(sweep.at) * sum(int(np.prod(variable.shape)) for variable in variables.values())
    network, samples = cell.problem.network, cell.problem.task.inputs
    carried = sum(network.sizes) * (len(samples) if samples is not None else max(network.sizes))
    memory = in_block * _bytes(sweep, cell) + 6 * itemsize * carried
    return Estimate(
        cells=sweep.cells,
        blocks=sweep.blocks,
        seconds_per_cell=_timed(sweep, cell),
        memory=int(memory),
        store=sweep.cells * (numbers * itemsize + 1),
        device=_device(sweep),
        **_tried(sweep),
    )


def _bytes(sweep: Sweep, cell: Cell) -> int:
    """What a cell takes while its block is computed: what is measured, its weights at checkpoints, and some more."""
    numbers = sum(int(np.prod(variable.shape)) for variable in template(sweep).values())
    weights = int(np.dot(cell.problem.network.sizes[1:], cell.problem.network.sizes[:-1]))
    kept = 2 * len(sweep.at) * (numbers + weights * (sweep.method != "solve"))  # twice: on the device, and here
    return np.dtype(sweep.precision).itemsize * (kept + 8 * weights)


def _tried(sweep: Sweep) -> dict[str, Any]:
    """Whether cells can be made, from some that are spread over the grid."""
    numbers = np.unique(np.linspace(0, sweep.cells - 1, min(sweep.cells, _SPREAD)).astype(int))
    places = (tuple(int(i) for i in np.unravel_index(number, sweep.shape)) for number in numbers)
    causes = [cause for cell, cause in (_made(sweep, place) for place in places) if cell is None]
    return {"tried": len(numbers), "impossible": len(causes), "cause": next(iter(causes), "")}


def _first_cell(sweep: Sweep) -> tuple[Cell | None, str]:
    cause = ""
    for place in islice(np.ndindex(sweep.shape), _TRIED):
        cell, cause = _made(sweep, place)
        if cell is not None:
            return cell, ""
    return None, cause


def _made(sweep: Sweep, place: Place) -> tuple[Cell | None, str]:
    """A cell, or why there is none. A user's factory may raise anything."""
    try:
        return sweep.cell(place), ""
    except InvalidInput as error:
        return None, str(error)
    except (Exception, SystemExit) as error:
        return None, f"{type(error).__name__}: {error}"


def _cells(sweep: Sweep, block: Block, result: Result) -> tuple[list[Place], list[Cell]]:
    """Those that can be made; the others have failed."""
    places, cells = [], []
    for place in sweep.places(block):
        cell, cause = _made(sweep, place)
        if cell is not None and sweep.method != "solve":
            try:
                _gradients.needs_samples(cell.problem, sweep.method)
            except InvalidInput as error:
                cell, cause = None, str(error)
        if cell is None:
            _fail(block, place, cause, result)
        else:
            places.append(place)
            cells.append(cell)
    return places, cells


def _here(block: Block, place: Place) -> Place:
    return tuple(i - s.start for i, s in zip(place, block.region, strict=True))


def _fail(block: Block, place: Place, cause: str, result: Result) -> None:
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
            _fail(
                block, place, f"{name} must have the size of the first cell, {sizes[0]}, and it has {sizes[1]}.", result
            )
            return
    for name, value in values.items():
        kept_values[name][: len(value)] = value
    result.status[here] = STATUS.index("complete" if status == "complete" else "stopped")
    if status != "complete":
        result.causes[place] = status


def _solved(sweep: Sweep, block: Block, place: Place, cell: Cell, result: Result) -> None:
    try:
        traj = solve(cell.problem, sweep.rate * cell.clock * np.array(sweep.at, float))
        values = {name: measured(traj, name, cell.test) for name in sweep.observables}
    except (InvalidInput, NoExactSolution, np.linalg.LinAlgError, ArithmeticError, ValueError) as error:
        _fail(block, place, str(error), result)
    else:
        _keep(block, place, traj.status, result, values)


def _trained(
    sweep: Sweep, block: Block, places: Sequence[Place], cells: Sequence[Cell], result: Result, tick: Any
) -> None:
    """Stack by stack: train, then measure."""
    problems, clocks = [cell.problem for cell in cells], np.array([cell.clock for cell in cells])
    steps = np.array(sweep.at, float)
    with in_precision(sweep.precision):
        for stack in stacks(problems, np.dtype(sweep.precision)):
            on = lambda part, count=stack.cells: tick(part * count)  # noqa: E731
            rates = sweep.rate * clocks[stack.members]
            if sweep.method == "descend":
                record = descend_stack(stack, rates, sweep.at, on)
            else:
                record = flow_stack(stack, rates[..., None] * steps, sweep.rtol, on)
            at_once = measured_together(stack, record, cells, together(stack, sweep.observables))
            for number, (row, column) in enumerate(np.ndindex(stack.members.shape)):
                member, n = int(stack.members[row, column]), int(record.reached[row, column])
                values = {name: value[:n, row, column] for name, value in at_once.items()}
                weights = [W[:n, row, column] for W in record.weights]
                times = rates[row, column] * steps[:n]
                try:
                    values |= _one_by_one(sweep, cells[member], weights, times, values)
                except (InvalidInput, np.linalg.LinAlgError, ArithmeticError, ValueError) as error:
                    _fail(block, places[member], str(error), result)
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


def _operations(sweep: Sweep, cell: Cell) -> float:
    """Floating-point operations of a cell, about."""
    network, samples = cell.problem.network, cell.problem.task.inputs
    products = float(np.dot(network.sizes[1:], network.sizes[:-1]))
    columns = max(network.sizes) if network.activation == "linear" or samples is None else len(samples)
    gradients = {"descend": max(sweep.at[-1], 1), "flow": _FLOW_GRADIENTS, "solve": 10 * len(sweep.at)}[sweep.method]
    kernel = 0.0
    if "kernel_distance" in sweep.observables and network.activation != "linear":
        kernel = 8.0 * len(sweep.at) * columns**2 * network.sizes[1]
    return gradients * (4 * products * columns + 2e4) + kernel


def _device(sweep: Sweep) -> str:
    return "cpu" if sweep.method == "solve" else device_kind()


def _timed(sweep: Sweep, cell: Cell) -> float:
    """Seconds of a cell: a few steps of as many as a block holds, extrapolated, and the measurements."""
    import dataclasses

    if sweep.method != "descend" or sweep.at[-1] == 0:
        few, share = sweep.with_block(min(int(np.prod(sweep.block_shape)), _TIMED)), 1.0
    else:
        last = min(sweep.at[-1], max(1, int(2e9 / (_operations(sweep, cell) / max(sweep.at[-1], 1)))))
        few, share = dataclasses.replace(sweep, at=(0, last), observables=("loss",)), sweep.at[-1] / max(last, 1)
    block = few.block_at(few.blocks // 2)
    compute(few, block)  # compiled
    start = time.perf_counter()
    result = compute(few, block)
    return (time.perf_counter() - start) / result.status.size * share
