"""`batch.solve` where another library's arrays live: JAX, PyTorch, CuPy, on their device.

Set-up (SVD, echelon) stays in NumPy. Starts with the same pivots are evaluated together, in blocks of equal shape that
a compiler sees once; patterns of pivots that few starts have are evaluated here and moved there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from threading import Lock
from typing import Any

import numpy as np
from array_api_compat import is_jax_namespace

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._engines import LAPACK_LOCK
from lazyrich._typing import Array
from lazyrich.batch.api import times_of_each
from lazyrich.batch.ensemble import Ensemble, Piece, ensembles
from lazyrich.methods.riccati.evaluation import block_by_elimination, block_of, constants_of
from lazyrich.methods.riccati.method import STACKED_BELOW, Riccati, scale_of
from lazyrich.methods.riccati.on_device import double_precision, library_of
from lazyrich.methods.solve import NoExactSolution
from lazyrich.methods.solve import solve as solve_one
from lazyrich.problem import Problem
from lazyrich.trajectory import Trajectory

_NUMBERS = 2**26  # of one temporary array: half a gigabyte
_FEW, _SHARE = 64, 0.01  # starts, and part of all, that are not worth a program of their own


class OnDevice:
    """An ensemble whose arrays are those of the library of `times`."""

    def __init__(self, ensemble: Ensemble, times: Any) -> None:
        self.ensemble, self.times = ensemble, times
        self.xp, self.where = library_of(times)
        self._results: dict[str, list[Any]] = {}
        self._lock = Lock()

    def array(self, X: Array) -> Any:
        """A NumPy array, moved."""
        dtype = self.xp.int64 if X.dtype.kind == "i" else self.xp.float64
        return self.xp.asarray(X, dtype=dtype, **self.where)

    def part(self, name: str, piece: int, place: int) -> Any:
        """Of one start; computed for all when it is first asked for."""
        with self._lock, double_precision(self.times):
            if name not in self._results:
                self._results[name] = self.compute(name)
            one = self._results[name][piece][place, ...]
            return self.array(one) if isinstance(one, np.ndarray) else one

    def compute(self, name: str) -> list[Any]:
        """One array per piece: function, Gram matrix or loss of its starts; of NumPy where it is evaluated here."""
        if name == "loss" and "function" not in self._results:
            self._results["function"] = self.compute("function")
        found = []
        for number, piece in enumerate(self.ensemble.pieces):
            if name == "loss":
                found.append(self._loss(piece, self._results["function"][number]))
            elif self._few(piece):
                times = np.broadcast_to(
                    self.ensemble.times, (len(self.ensemble.problems), self.ensemble.times.shape[1])
                )
                found.append(self.ensemble.at(piece.members, times[piece.members], gram=name == "gram"))
            else:
                found.append(self._evaluated(piece, name))
        return found

    def _few(self, piece: Piece) -> bool:
        few = len(piece.members) < max(_FEW, _SHARE * len(self.ensemble.problems))
        return few and len(piece.graded.pivots) < STACKED_BELOW

    def _loss(self, piece: Piece, function: Any) -> Any:
        many = self.ensemble
        xp, array = (np, np.asarray) if isinstance(function, np.ndarray) else (self.xp, self.array)
        problems = many.problems[:1] if many.shared else [many.problems[i] for i in piece.members]
        target = array(np.stack([problem.task.target for problem in problems]))
        c = array(np.array([problem.task.input_scale for problem in problems]))
        floor = array(np.array([problem.task.loss_floor for problem in problems]))
        error = function - target[:, None, :, :]
        return xp.sum(error * error, axis=(-2, -1)) * (c / 2)[:, None] + floor[:, None]

    def _evaluated(self, piece: Piece, block: str) -> Any:
        many, graded = self.ensemble, piece.graded
        times, scale = many.clock[:, None] * many.times, scale_of(many.problems[0])
        largest = max(len(other.members) for other in many.pieces)
        several = min(largest, max(1, _NUMBERS // (graded.L[0].size * times.shape[1])))
        run, found = _program(self.xp, block, many.problems[0].task.d_in, len(graded.pivots) < STACKED_BELOW), []
        for i in range(0, len(piece.members), several):
            # the last block is filled up with its last start, so that all have one shape
            some = np.minimum(np.arange(i, i + several), len(piece.members) - 1)
            own = {name: getattr(graded, name)[some] for name in ("L", "rows", "novelty", "doubt")}
            chosen = type(graded)(graded.spectrum.of(some), pivots=graded.pivots, missed=graded.missed, **own)
            at = times if len(times) == 1 else times[piece.members[some]]
            constants = constants_of(chosen, scale, self.array)
            found.append(run(constants, self.array(at))[: min(several, len(piece.members) - i), ...])
        return found[0] if len(found) == 1 else self.xp.concat(found, axis=0)


@cache
def _program(xp: Any, block: str, d_in: int, few: bool) -> Callable[..., Any]:
    """(constants, times) → block of QQᵀ; one program where the library compiles. On the CPU, JAX deadlocks when two
    LAPACK calls meet: one at a time, and finished before the next."""
    run = partial(block_by_elimination if few else block_of, xp, block=block, d_in=d_in)
    if not is_jax_namespace(xp):
        return run
    import jax

    compiled = jax.jit(run)

    def locked(*arguments: Any) -> Any:
        with LAPACK_LOCK:
            return jax.block_until_ready(compiled(*arguments))

    return locked


def attempts_on_device(problems: Sequence[Problem], times: Any) -> list[Trajectory | Exception]:
    """As `exact.attempts`, with arrays of the library of `times`."""
    xp, where = library_of(times)
    rows = times_of_each(times, len(problems), _check.as_times)
    found: dict[int, Trajectory | Exception] = {}
    with double_precision(times):
        shown = xp.asarray(rows, dtype=xp.float64, **where)
        kept = [shown[i, ...] for i in range(len(rows))]
    for ensemble in ensembles(problems, rows):
        there = OnDevice(ensemble, times)
        for number, piece in enumerate(ensemble.pieces):
            for place, (member, solution, notes) in enumerate(ensemble.solutions(piece)):
                parts = {name: partial(there.part, name, number, place) for name in ("function", "gram", "loss")}
                own = ensemble.times[member if len(ensemble.times) > 1 else 0]
                parts["weights"] = partial(solution.weights, own)
                about: dict[str, Any] = {"citations": Riccati.citations, "notes": notes, "solution": solution}
                index = int(ensemble.numbers[member])
                at = kept[index if len(kept) > 1 else 0]
                found[index] = Trajectory(ensemble.problems[member], at, Riccati.name, parts, **about)
    for i, problem in enumerate(problems):
        if i not in found:
            if problem.facts.method and problem.facts.methods[Riccati.name]:
                raise InvalidInput(
                    f"device_arrays works with the method riccati, and problems[{i}] is solved by "
                    f"{problem.facts.method}: try it without device_arrays."
                )
            try:
                found[i] = solve_one(problem, kept[i if len(kept) > 1 else 0], device_arrays=True)
            except NoExactSolution as error:
                found[i] = error
    return [found[i] for i in range(len(problems))]
