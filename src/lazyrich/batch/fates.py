"""`batch.fate`: what `lr.fate` says, of a list of problems at once.

Limits, half times and regimes of problems that are solved together are looked for together: each asks for some times,
and all of them are evaluated at once (`observables.crossings`, `landscape.regime.regime_search`).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from lazyrich._progress import progress
from lazyrich._threads import one_blas_thread
from lazyrich._typing import Array, Float
from lazyrich.batch.api import as_problems
from lazyrich.batch.ensemble import Ensemble, ensembles
from lazyrich.batch.exact import refused
from lazyrich.landscape.fate import Begun, Fate, half_times_of
from lazyrich.landscape.fate import fate as fate_of_one
from lazyrich.landscape.regime import Regime, lazy_time_of_rate, regime_search, sample_weight
from lazyrich.methods.base import FOREVER
from lazyrich.methods.riccati.method import STACKED_BELOW
from lazyrich.methods.solve import NoExactSolution
from lazyrich.observables.kernels.algebra import Inputs, KroneckerKernel
from lazyrich.problem import Problem

_AT_ONCE = 2**23  # numbers in the Gram matrices of the problems that are looked at together, at a hundred times
_TIMES = 100


def fate(problems: object) -> list[Fate]:
    """Where many networks end and when, each as by `lr.fate`.

    Parameters
    ----------
    problems : a list of them, of any shapes and tasks, for which there are exact solutions

    Returns
    -------
    list of Fate : one per problem, in their order; `lr.plot.fates` draws them

    Raises
    ------
    NoExactSolution : for one or more of them none applies; the message says for which is the first, why, and how many

    >>> import lazyrich as lr
    >>> task = lr.Task.from_correlations(np.diag([3.0, 2.0, 1.0]))
    >>> problems = [lr.Problem(task, lr.inits.zero_balanced(seed, sizes=(3, 3, 3), scale=0.05)) for seed in range(8)]
    >>> [found.kind for found in lr.batch.fate(problems)].count("saddle")  # where the signs of det differ
    2
    """
    checked = as_problems(problems)
    n = max(problem.task.d_in + problem.task.d_out for problem in checked)
    several = max(8, _AT_ONCE // (_TIMES * n * n))
    found: dict[int, Fate | NoExactSolution] = {}
    with progress(len(checked), "fate") as move_on:
        for start in range(0, len(checked), several):
            some = checked[start : start + several]
            together = _together(some)
            for i, problem in enumerate(some):
                try:
                    found[start + i] = together[i] if i in together else fate_of_one(problem)
                except NoExactSolution as error:
                    found[start + i] = error
                move_on(1)
    refused([found[i] for i in range(len(checked))])
    return [one for i in range(len(checked)) if isinstance(one := found[i], Fate)]


def _together(problems: Sequence[Problem]) -> dict[int, Fate]:
    """Number and fate of those that are evaluated together."""
    found: dict[int, Fate] = {}
    for ensemble in ensembles(problems, np.array([[FOREVER]])):
        if not ensemble.shared or not ensemble.pieces:
            continue  # kernels on different inputs are not compared in one go
        trajectories = dict(ensemble.trajectories(np.array([[np.inf]])))
        few = [piece.members for piece in ensemble.pieces if len(piece.graded.pivots) < STACKED_BELOW]
        members = np.sort(np.concatenate(few)) if few else np.empty(0, dtype=int)
        if not len(members):
            continue
        numbers = ensemble.numbers[members]
        many = [Begun.of(trajectories[number]) for number in numbers.tolist()]
        U, V = np.stack([one.U for one in many]), np.stack([one.V for one in many])[:, None]

        def strengths(which: Array, times: Float[Array, "b T"]) -> Float[Array, "b T m"]:
            function = ensemble.at(members[which], np.minimum(times, FOREVER))  # noqa: B023
            return np.einsum("btom,bom->btm", function @ V[which], U[which])  # noqa: B023

        timetable = half_times_of(many, strengths)
        regimes = _regimes(ensemble, members, [times for _, times in timetable])
        for number, one, (half_times, _), regime in zip(numbers.tolist(), many, timetable, regimes, strict=True):
            found[number] = one.ended(half_times, regime)
    return found


def _regimes(ensemble: Ensemble, members: Array, times: Sequence[Array]) -> list[Regime]:
    """All searches side by side: what each asks for is looked at for all."""
    look = _Looks(ensemble, members)
    searches = [
        regime_search(own, FOREVER, float(look.largest[i]), float(look.lazy_times[i])) for i, own in enumerate(times)
    ]
    found: dict[int, Regime] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(searches)))
    while answers:
        asked = {i: request for i, seen in answers.items() if (request := _next(searches[i], seen, i, found))}
        answers = look(asked) if asked else {}
    return [found[i] for i in range(len(searches))]


def _next(search: Generator[Any, Any, Regime], seen: Any, number: int, found: dict[int, Regime]) -> Any:
    """What a search asks for next, or None and its regime among those found."""
    try:
        return search.send(seen)
    except StopIteration as ended:
        found[number] = ended.value
        return None


class _Looks:
    """Kernels and losses of many problems at times of their own."""

    def __init__(self, ensemble: Ensemble, members: Array) -> None:
        self.ensemble, self.members, problem = ensemble, members, ensemble.problems[0]
        self.task, self.rates = problem.task, problem.rates
        self.inputs = Inputs.reduced(problem.task)
        ends = ensemble.at(members, np.tile([0.0, FOREVER], (len(members), 1)), gram=True)
        self.first, self.last = (self._kernel(ends[:, i : i + 1]) for i in (0, 1))
        self.largest = np.maximum(self.first.norm, self.last.norm)[:, 0]
        # B ⊗ cI + I ⊗ S has the largest eigenvalues of both: inputs are white
        c, d_in = float(np.trace(self.inputs.bare)) / len(self.inputs.bare), self.task.d_in
        blocks = ends[:, 0, :d_in, :d_in], ends[:, 0, d_in:, d_in:]
        within, out = (np.linalg.eigvalsh(block)[:, -1] for block in blocks)
        rate = c * (self.rates[0] * out + self.rates[1] * within) * sample_weight(problem)
        self.lazy_times = np.array([lazy_time_of_rate(float(one)) for one in rate])

    def _kernel(self, gram: Float[Array, "b T n n"]) -> KroneckerKernel:
        d_in, R = self.task.d_in, self.inputs.R
        B = [self.rates[0] * gram[..., d_in:, d_in:], self.rates[1] * np.eye(self.task.d_out)]
        return KroneckerKernel(self.inputs, B, [self.inputs.bare, R @ gram[..., :d_in, :d_in] @ R.T])

    def __call__(self, asked: dict[int, Any]) -> dict[int, Float[Array, "four T"]]:
        """‖K − K_ref‖, ‖K‖, S and the loss; rows of times are filled up with their last."""
        which = np.array(list(asked))
        lengths = np.array([len(look.times) for look in asked.values()])
        all_times = np.concatenate([look.times for look in asked.values()])
        starts = np.cumsum(lengths) - lengths
        times = all_times[starts[:, None] + np.minimum(np.arange(lengths.max()), lengths[:, None] - 1)]
        gram = self.ensemble.at(self.members[which], np.minimum(times, FOREVER), gram=True)
        d_in, at_end = self.task.d_in, np.array([look.from_the_end for look in asked.values()])
        with one_blas_thread():
            stack, loss = self._kernel(gram), self.task.loss(gram[..., d_in:, :d_in])
            pair = self._reference(which, at_end).compare(stack)
        numbers = np.stack(np.broadcast_arrays(pair.change, pair.other_norm, pair.distance, loss))
        return {i: numbers[:, j, : len(look.times)] for j, (i, look) in enumerate(asked.items())}

    def _reference(self, which: Array, at_end: Array) -> KroneckerKernel:
        """The first kernel of each problem, or its last."""
        (B, S), (B_end, S_end) = ([K.terms[0][0], K.terms[1][1]] for K in (self.first, self.last))
        chosen = at_end[:, None, None, None]
        own_B, own_S = np.where(chosen, B_end[which], B[which]), np.where(chosen, S_end[which], S[which])
        return KroneckerKernel(self.inputs, [own_B, self.first.terms[1][0]], [self.inputs.bare, own_S])
