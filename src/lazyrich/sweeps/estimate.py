"""What a sweep will take: cells of a block, memory and time, before it runs.

A block that nobody has given a shape takes a minute or so, which is what a crash may cost, and fits into memory; there
are several for each worker, and on a CPU some in any case, so that a few workers more or less find the same blocks and
give the same bits. The time is that of a few steps, extrapolated.
"""

from __future__ import annotations

import dataclasses
import time
from typing import NamedTuple

import numpy as np

from lazyrich._engines import by_device, device_kind
from lazyrich.batch.stack import operations_of
from lazyrich.sweeps.compute import compute, first_cell, made
from lazyrich.sweeps.grid import Cause
from lazyrich.sweeps.problems import Cell
from lazyrich.sweeps.sweep import Sweep

_TIMED = 4  # cells timed in full
_SPREAD = 50  # cells over the grid, to see whether they can be made
_BLOCK_SECONDS = (60.0, 100.0)  # of work on CPU and GPU, about; large blocks keep a GPU busy
_BLOCKS = (16, 1)  # at least, on CPU and GPU, of as many cells
_EACH = 4  # blocks for each of several workers
_BLOCK_MEMORY = 2.0**30  # bytes
_SPEED = (1e10, 2e13)  # operations per second, about
_OVERHEAD = 2e4  # what a gradient costs besides its arithmetic, in operations
_FLOW_GRADIENTS = 1000  # of a flow, about
_ANSWER = 5000  # of `predict` or `fate`, about


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


def with_blocks(sweep: Sweep, hands: int = 1) -> Sweep:
    """The sweep with a block shape: its own, or one that suits so many workers, time, and memory where this runs."""
    if sweep.block:
        return sweep
    cell = first_cell(sweep)
    seconds = max(_operations(sweep, cell) / _by_device(sweep, _SPEED), _making(sweep))
    blocks = max(_EACH * hands if hands > 1 else 1, int(_by_device(sweep, _BLOCKS)))
    most = min(_by_device(sweep, _BLOCK_SECONDS) / seconds, _BLOCK_MEMORY / _bytes(sweep, cell), sweep.cells / blocks)
    return sweep.with_block(max(1, int(most)))


def _making(sweep: Sweep) -> float:
    """Seconds to make a cell: one from the middle of the grid, since what the first has in store may be cached."""
    place = np.unravel_index(sweep.cells // 2, sweep.shape)
    start = time.perf_counter()
    made(sweep, tuple(map(int, place)))
    return time.perf_counter() - start


def estimate(sweep: Sweep) -> Estimate:
    """Cells, memory and time, from a short run of the first cell that can be made."""
    sweep = with_blocks(sweep)
    cell, variables = first_cell(sweep), sweep.variables()
    in_block = int(np.prod(sweep.block_shape))
    itemsize = sweep.dtype.itemsize
    numbers = len(sweep.at) * sum(int(np.prod(variable.shape)) for variable in variables.values())
    network, samples = cell.problem.network, cell.problem.task.inputs
    carried = sum(network.sizes) * (len(samples) if samples is not None else max(network.sizes))
    tried = np.unique(np.linspace(0, sweep.cells - 1, min(sweep.cells, _SPREAD)).astype(int))
    cells = (made(sweep, tuple(int(i) for i in np.unravel_index(number, sweep.shape))) for number in tried)
    causes = [cell for cell in cells if isinstance(cell, Cause)]
    memory = in_block * _bytes(sweep, cell) + 6 * itemsize * carried
    return Estimate(
        cells=sweep.cells,
        blocks=sweep.blocks,
        seconds_per_cell=_timed(sweep, cell),
        memory=int(memory),
        store=sweep.cells * (numbers * itemsize + 1),
        device=device_kind() if sweep.trains else "cpu",
        tried=len(tried),
        impossible=len(causes),
        cause=str(next(iter(causes), "")),
    )


def _bytes(sweep: Sweep, cell: Cell) -> int:
    """What a cell takes while its block is computed: what is measured, its weights at checkpoints, and some more."""
    numbers = sum(int(np.prod(variable.shape)) for variable in sweep.variables().values())
    weights = int(np.dot(cell.problem.network.sizes[1:], cell.problem.network.sizes[:-1]))
    kept = 2 * len(sweep.at) * (numbers + weights * sweep.trains)  # twice: on the device, and here
    return sweep.dtype.itemsize * (kept + 8 * weights)


def _operations(sweep: Sweep, cell: Cell) -> float:
    """Floating-point operations of a cell, about."""
    network, samples = cell.problem.network, cell.problem.task.inputs
    gradients = {"descend": max(sweep.at[-1], 1), "flow": _FLOW_GRADIENTS, "solve": 10 * len(sweep.at)}.get(
        sweep.method, _ANSWER
    )
    kernel = 0.0
    if "kernel_distance" in sweep.observables and not network.activation.linear and samples is not None:
        kernel = 8.0 * len(sweep.at) * len(samples) ** 2 * network.sizes[1]
    return gradients * (operations_of(cell.problem) + _OVERHEAD) + kernel


def _by_device(sweep: Sweep, numbers: tuple[float, float]) -> float:
    return by_device(*numbers) if sweep.trains else numbers[0]


def _timed(sweep: Sweep, cell: Cell) -> float:
    """Seconds of a cell: a few steps of as many as a block holds, extrapolated, and the measurements."""
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
