"""The numbers of one block: a pure function of the sweep and the block. One bad cell never spoils the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._typing import Array
from lazyrich.descend import descend
from lazyrich.observables import hamming_distance, kernel_distance, parameter_distance
from lazyrich.problem import loss_of
from lazyrich.sweeps.grid import Block, Sweep

__all__ = ["STATUS", "Result", "Variable", "compute", "template"]

#: What became of a cell, by code. A stopped one diverged or stalled: its values up to then are there.
STATUS = ("pending", "complete", "stopped", "failed")


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
    causes: dict[tuple[int, ...], str]  # place in the grid → why it is not complete


def template(sweep: Sweep) -> dict[str, Variable]:
    return {name: Variable((), (), name, "1") for name in sweep.observables}


def compute(sweep: Sweep, block: Block, tick: Callable[[float], Any] = lambda cells: None) -> Result:
    """Computes every cell of a block; `tick` is told how many cells' worth of work has been done since the last call."""
    shape = tuple(s.stop - s.start for s in block.region)
    values = {name: np.full((*shape, len(sweep.at)), np.nan) for name in sweep.observables}
    status, causes = np.zeros(shape, np.int8), {}
    for place in sweep.places(block):
        here = tuple(i - s.start for i, s in zip(place, block.region, strict=True))
        try:
            cell = sweep.cell(place)
            run = descend(cell.problem, sweep.rate * cell.clock, max(sweep.at[-1], 1), at=list(sweep.at))
            n = len(run.times)
            for name in sweep.observables:
                if name == "loss":
                    v = run.loss
                elif name == "test_loss":
                    v = [loss_of(cell.test, state, cell.problem.network.activation) for state in zip(*run.weights)]
                else:
                    v = globals()[name](run)
                values[name][here][:n] = v
            status[here] = 1 if run.status == "complete" else 2
            if run.status != "complete":
                causes[place] = run.status
        except (InvalidInput, RuntimeError) as error:
            status[here], causes[place] = 3, str(error)
        tick(1)
    return Result(values, status, causes)
