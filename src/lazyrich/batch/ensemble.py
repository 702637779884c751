"""Many problems of the two-layer closed form, set up and evaluated together.

Problems of one shape and with the same rates are an `Ensemble`: those that are sure to be solved by `riccati` are
graded in stacked arrays (`methods.riccati.stacked`), and evaluated for all of them when the first number is asked for.
All others are left out, for `lr.solve`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._threads import spread
from lazyrich._typing import Array, Float
from lazyrich.alignment import equal_groups
from lazyrich.methods.base import DOUBTFUL, Doubts, Separatrix, notes_of
from lazyrich.methods.riccati.evaluation_stacked import Results, Stack, evaluate
from lazyrich.methods.riccati.grading import Graded, Spectrum, spectrum, well_conditioned
from lazyrich.methods.riccati.method import STACKED_BELOW, Riccati, RiccatiSolution, scale_of
from lazyrich.methods.riccati.stacked import coupled, graded_together, start
from lazyrich.problem import Problem
from lazyrich.tasks import Task
from lazyrich.trajectory import Trajectory, checked_times

_EPS = float(np.finfo(np.float64).eps)
_FEWEST = 4  # problems that are worth a stack
_AT_ONCE = 2**18  # numbers in n × n matrices of the starts that are set up at once


class Side(NamedTuple):
    """What a task brings to every start: Σyx = U diag(s) Vᵀ, and which s are equal."""

    U: Float[Array, "out out"]
    s: Float[Array, " m"]
    V: Float[Array, "in in"]
    equal: tuple[tuple[int, int], ...]


class Piece(NamedTuple):
    """Starts with common pivots."""

    members: Array  # which of the ensemble
    graded: Graded


class Ensemble:
    """Problems of one shape, rates and decay, at their times; `pieces` hold those that were set up together."""

    def __init__(
        self, problems: Sequence[Problem], numbers: Array, sides: Sequence[Side], times: Float[Array, "b T"]
    ) -> None:
        """`numbers` are those of the problems in the list they come from, and `times` (of each, or one row for all) end
        at FOREVER instead of np.inf."""
        self.problems, self.numbers, self.sides, self.times = problems, numbers, sides, times
        self.unit, self.shared = problems[0].canonical, all(p.task is problems[0].task for p in problems)
        clocks = np.array([p.task.input_scale for p in (problems[:1] if self.shared else problems)])
        self.clock: Float[Array, " b"] = clocks
        self.clocks = np.broadcast_to(clocks, len(problems))
        most = max(_FEWEST, _AT_ONCE // (problems[0].task.d_in + problems[0].task.d_out) ** 2)
        blocks = [slice(i, i + most) for i in range(0, len(problems), most)]
        found: dict[int, list[Piece]] = {}

        def set_up(block: slice) -> None:
            try:
                found[block.start] = list(self._pieces(block))
            except np.linalg.LinAlgError:  # which of them it was, they say one by one
                found[block.start] = []

        spread(set_up, blocks, heavy=len(blocks) > 1)
        self.pieces = _merged([piece for block in blocks for piece in found[block.start]])
        self._results: dict[str, Array] = {}
        self._lock = Lock()

    def _pieces(self, block: slice) -> Iterator[Piece]:
        problems, unit = self.problems[block], self.unit
        W1, W2 = (k * np.stack([p.network.weights[layer] for p in problems]) for layer, k in enumerate(unit.k))
        given = start(W1, W2)
        sides, tasks = self.sides[block], problems
        if self.shared:
            sides, tasks = sides[:1], problems[:1]
        sigma = np.stack([p.task.sigma_yx for p in tasks])
        c = np.array([p.task.input_scale for p in tasks])[:, None]
        U, s, V = (np.stack([getattr(side, name) for side in sides]) for name in ("U", "s", "V"))
        sure = given.sure & coupled(sigma, W1, W2)
        if unit.decay:
            sure &= given.lam == 0
        end = np.broadcast_to(self.times[:, -1:], (len(self.problems), 1))[block, 0] * self.clocks[block]
        for sign in (given.lam >= 0, given.lam < 0):
            some = np.flatnonzero(sure & sign)
            if not len(some):
                continue
            own = partial(_own, members=some)
            lam = given.lam[some[:1]] if np.ptp(given.lam[some]) == 0 else given.lam[some]
            F = spectrum(own(U), own(s) * (unit.gain / own(c)), own(V), lam, self.problems[0].canonical.decay)
            own_start = given._replace(
                Q=given.Q[some], back=None if given.back is None else given.back[some], lam=lam, sure=sure[some]
            )
            F, target = well_conditioned(F, own_start.Q), unit.gain * own(sigma) / own(c)[..., None]
            for members, graded in graded_together(own_start, F, target, end[some]):
                yield Piece(block.start + some[members], graded)

    def trajectories(self, times: Array) -> Iterator[tuple[int, Trajectory]]:
        """Number in the list and trajectory of all that were set up; `times` as they were asked for."""
        checked = [checked_times(row) for row in times]
        for piece in self.pieces:
            names = ("function", "loss", "gram") if len(piece.graded.pivots) < STACKED_BELOW else ()
            for member, solution, notes in self.solutions(piece):
                known: dict[str, Callable[[], Any]] = {name: partial(self.part, name, member) for name in names}
                own = checked[member if len(checked) > 1 else 0]
                about: dict[str, Any] = {"citations": Riccati.citations, "notes": notes, "known": known}
                yield int(self.numbers[member]), Trajectory.exact(own, Riccati.name, solution, **about)

    def solutions(self, piece: Piece) -> Iterator[tuple[int, RiccatiSolution, tuple[str, ...]]]:
        """Member, solution and notes of each start of a piece."""
        graded, ends = piece.graded, np.broadcast_to(self.times[:, -1], len(self.problems))[piece.members]
        doubts = np.stack(graded.doubts_until(ends * self.clocks[piece.members]), axis=1)
        on_it = len(graded.missed) > 0
        for place, (member, own) in enumerate(zip(piece.members.tolist(), doubts.tolist(), strict=True)):
            solution = RiccatiSolution(self.problems[member], known=partial(graded.of, place))
            near = solution.separatrix() if on_it or max(own) > DOUBTFUL else Separatrix()
            yield member, solution, tuple(notes_of(near, Doubts(*own), 0.0, True))

    def part(self, name: str, member: int) -> Array:
        """Function, loss or Gram matrix of one of them; computed for all when it is first asked for."""
        with self._lock:
            if name not in self._results:
                self._compute(name)
        return self._results[name][member]

    def _compute(self, name: str) -> None:
        first, shape = self.problems[0], (len(self.problems), self.times.shape[1])
        n, stacks = first.task.d_in + first.task.d_out, self._stacks
        sizes = {"loss": (), "function": (first.task.d_out, first.task.d_in), "gram": (n, n)}
        what, numbers = f"{name} of {shape[0]:,} starts at {shape[1]:,} times", float(np.prod((*shape, *sizes[name])))
        _check.memory(what, 1.1 * numbers, "fewer times, or fewer problems at once")
        array = np.empty((*shape, *sizes[name]))
        errors = array if name == "loss" else np.empty(shape)
        evaluate(
            stacks,
            Results(
                function=array if name == "function" else None,
                gram=array if name == "gram" else None,
                squared_errors=None if name == "gram" else errors,
            ),
        )
        self._results[name] = array
        if name != "gram":  # the function holds the loss
            tasks = self.problems[:1] if self.shared else self.problems
            floors = np.array([[p.task.loss_floor] for p in tasks])
            self._results["loss"] = errors * (self.clock[:, None] / self.unit.gain**2 / 2) + floors

    def at(
        self, members: Array, times: Float[Array, "b T"], *, gram: bool = False
    ) -> Float[Array, "b T out in"] | Float[Array, "b T n n"]:
        """Function or Gram matrix of some of those that are evaluated together, at times of their own."""
        task, scale = self.problems[0].task, self._stacks[0].scale
        shape = (len(scale), len(scale)) if gram else (task.d_out, task.d_in)
        array = np.empty((*times.shape, *shape))
        order = np.full(len(self.problems), -1)
        order[members] = np.arange(len(members))
        chosen = []
        for stack in self._stacks:
            places = np.flatnonzero(order[stack.members] >= 0)
            if len(places):
                asked = order[stack.members[places]]
                chosen.append(stack.some(places, asked, self.clocks[members[asked], None] * times[asked]))
        evaluate(chosen, Results(gram=array) if gram else Results(function=array))
        return array

    @cached_property
    def _stacks(self) -> list[Stack]:
        """What is evaluated together."""
        times, scale = self.clock[:, None] * self.times, scale_of(self.problems[0])
        return [
            Stack(piece.graded, piece.members, scale, _own(times, members=piece.members))
            for piece in self.pieces
            if len(piece.graded.pivots) < STACKED_BELOW
        ]


def _merged(pieces: Sequence[Piece]) -> list[Piece]:
    """Those of all blocks that have their pivots, and what they miss, in common."""
    alike: dict[tuple[object, ...], list[Piece]] = defaultdict(list)
    for piece in pieces:
        F, graded = piece.graded.spectrum, piece.graded
        growing = (F.w[0] > 0).tobytes()
        alike[graded.pivots.tobytes(), graded.missed.tobytes(), F.outputs_first, growing].append(piece)
    return [some[0] if len(some) == 1 else _joined(some) for some in alike.values()]


def _joined(pieces: Sequence[Piece]) -> Piece:
    first, counts = pieces[0].graded, [len(piece.members) for piece in pieces]

    def over_all(name: str) -> Array:
        """An array of the spectra: one for all, where all share it."""
        arrays = [getattr(piece.graded.spectrum, name) for piece in pieces]
        if all(len(X) == 1 and np.array_equal(X, arrays[0]) for X in arrays):
            return arrays[0]
        return np.concatenate(
            [np.broadcast_to(X, (count, *X.shape[1:])) for X, count in zip(arrays, counts, strict=True)]
        )

    U, s, V, w, a, b, excess = (over_all(name) for name in ("U", "s", "V", "w", "a", "b", "excess"))
    F = Spectrum(U, s, V, w, a, b, first.spectrum.outputs_first, excess)
    parts = ("L", "rows", "novelty", "doubt")
    own = {name: np.concatenate([getattr(piece.graded, name) for piece in pieces]) for name in parts}
    members = np.concatenate([piece.members for piece in pieces])
    return Piece(members, Graded(F, pivots=first.pivots, missed=first.missed, **own))


def ensembles(problems: Sequence[Problem], times: Float[Array, "b T"]) -> list[Ensemble]:
    """The problems that may be solved together, shape by shape; `times` end at FOREVER instead of np.inf."""
    sides: dict[int, Side] = {}
    alike: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for number, problem in enumerate(problems):
        if _may_be(problem):
            if id(problem.task) not in sides:
                sides[id(problem.task)] = _side(problem.task)
            key = (problem.network.sizes, problem.rates, problem.weight_decay, sides[id(problem.task)].equal)
            alike[key if not problem.weight_decay else (*key, problem.task.input_scale)].append(number)
    together = [np.array(members) for members in alike.values() if len(members) >= _FEWEST]
    return [
        Ensemble(
            chosen := [problems[i] for i in members],
            members,
            [sides[id(problem.task)] for problem in chosen],
            _own(times, members=members),
        )
        for members in together
    ]


def _may_be(problem: Problem) -> bool:
    """Two linear layers on white inputs, in float64: what can be seen without looking at numbers of the weights."""
    network, task = problem.network, problem.task
    return (
        network.depth == 2
        and network.activation.linear
        and not network.biased
        and network.eps == task.eps == _EPS
        and task.whitening_error <= 32 * _EPS
        and (not problem.weight_decay or len(set(problem.rates)) == 1)
    )


def _side(task: Task) -> Side:
    U, s, Vt = np.linalg.svd(task.sigma_yx)
    s = np.where(s > max(task.sigma_yx.shape) * _EPS * s[0], s, 0.0)
    equal = tuple((group.start, group.stop) for group in equal_groups(s[s > 0]) if group.stop - group.start > 1)
    return Side(U, s, Vt.T, equal)


def _own(X: Array, *, members: Array) -> Array:
    """Rows of some, or the one row that all share."""
    return X if len(X) == 1 else X[members]
