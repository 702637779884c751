"""Two layers, λ-balanced: the one closed form that contains all others (theory: section 1).

    QQᵀ(t) = e^{Ft} Q0 [I + Q0ᵀ G Q0]⁻¹ Q0ᵀ e^{Ft},     G = ∫₀ᵗ e^{2Fs} ds,     Q = [W1ᵀ; W2]

Conditions: two linear layers, Σxx = c·I, W2ᵀW2 − W1W1ᵀ = λI (with layer rates: η1 W2ᵀW2 − η2 W1W1ᵀ); weight
decay where λ = 0 and the rates are equal. Any sizes, ranks and scales. It contains Saxe's logistic modes,
Braun's Theorems 3.1 and 5.1, Kunin's single neuron and Dominé's λ family. Sources: Fukumizu 1998, Braun et
al. 2022, Dominé et al. 2025; the graded evaluation is ours.

>>> network = lr.inits.lambda_balanced(0, sizes=(5, 3, 4), lam=0.5, scale=0.1)
>>> traj = lr.solve(lr.Problem(lr.Task.from_correlations(np.eye(4, 5)), network), [0.0, 1e6], method="riccati")
>>> np.linalg.svd(traj.function[-1])[1].round(12)  # a bottleneck of three
array([1., 1., 1., 0.])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyrich._threads import one_blas_thread
from lazyrich._typing import Array, Float
from lazyrich.facts import Condition, Facts, Refusal
from lazyrich.methods.base import (
    Doubts,
    Method,
    Separatrix,
    Solution,
    equal_rates_with_decay,
    linear_layers,
    white_inputs,
)
from lazyrich.methods.riccati.balance import rebalanced
from lazyrich.methods.riccati.evaluation import Evaluation
from lazyrich.methods.riccati.grading import Graded, grade, resume, spectrum, well_conditioned
from lazyrich.methods.riccati.separatrix import separatrix_of
from lazyrich.methods.riccati.weights import follow

if TYPE_CHECKING:
    from lazyrich.methods.riccati.evaluation_blas import BlasEvaluation
    from lazyrich.problem import Problem

_EPS = float(np.finfo(np.float64).eps)
_AT_ONCE = 2**20  # numbers
STACKED_BELOW = 16  # columns: below, plain arrays for all times are faster; above, blocks of times in place


def half_times_alone(w: Float[Array, "... k"], l: Float[Array, "... k"]) -> Float[Array, "... k"]:
    """When y = ĝ l² e^{2wt} is one: a pivot of length l is then half way, if it is alone; inf where it does not grow.

    >>> half_times_alone(np.array([2.0, 1.0, -1.0]), np.array([0.1, 0.1, 0.1])).round(3)  # ln(1 + 2w/l²)/2w
    array([1.498, 2.652,   inf])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(w > 0, np.logaddexp(0.0, np.log(2 * w) - 2 * np.log(l)) / (2 * w), np.inf)


class Riccati(Method):
    """Two balanced linear layers on white inputs."""

    name = "riccati"
    citations = ("fukumizu1998", "braun2022", "domine2025")

    def refusals(self, facts: Facts) -> Iterator[Refusal]:
        yield from linear_layers(facts, "two layers", least=2, most=2)
        yield from white_inputs(facts)
        if not facts.balanced:
            law = "W2ᵀW2 − W1W1ᵀ" if len(set(facts.rates)) == 1 else "η1 W2ᵀW2 − η2 W1W1ᵀ (η: layer rates)"
            message = (
                f"it needs layers with {law} = λI, and these are off by {facts.balance_error:.2g} of their size "
                f"(tolerance {facts.tolerance:.0e})"
            )
            yield Refusal(Condition.BALANCED, message, facts.balance_error, facts.tolerance)
        elif facts.weight_decay and any(facts.lam):
            message = f"with weight decay it needs λ = 0, and λ is {facts.lam[0]:.3g}"
            yield Refusal(Condition.BALANCED, message, abs(facts.lam[0]), 0.0)
        yield from equal_rates_with_decay(facts)

    def solution(self, problem: Problem) -> RiccatiSolution:
        return self.pushed(problem, 0.0)

    def pushed(self, problem: Problem, push: float) -> RiccatiSolution:
        """From an initialisation that is moved off the separatrix by `push`, relative to the weights."""
        solution = RiccatiSolution(problem, push)
        assert solution.graded  # set up here, not when times are asked for
        return solution


def scale_of(problem: Problem) -> Float[Array, " n"]:
    """1/k of the layer that each row of Q belongs to."""
    k = problem.canonical.k
    return np.repeat([1 / k[0], 1 / k[1]], [problem.task.d_in, problem.task.d_out])


class RiccatiSolution(Solution):
    """QQᵀ(t) of a problem; times and weights are those of the problem, not of its canonical form."""

    gives_gram = True

    def __init__(self, problem: Problem, push: float = 0.0, known: Callable[[], Graded] | None = None) -> None:
        """`known` gives the graded initialisation where it has been set up already, among many others."""
        self.problem, self.push, self.known = problem, push, known

    @cached_property
    def clock(self) -> float:
        return self.problem.canonical.clock

    @cached_property
    def scale(self) -> Float[Array, " n"]:
        """What a row of Q is multiplied by: from the units of the canonical problem to those of the weights."""
        return scale_of(self.problem)

    @cached_property
    def graded(self) -> Graded:
        """The initialisation, graded."""
        if self.known is not None:
            return self.known()
        problem, unit = self.problem, self.problem.canonical
        W1, W2 = problem.network.weights
        fit, lam = problem.alignment, problem.facts.lam[0]
        Q0, s = np.concatenate([W1.T, W2]) / self.scale[:, None], fit.s * (unit.gain / unit.clock)
        return grade(
            Q0,
            well_conditioned(spectrum(fit.U, s, fit.V, lam, unit.decay), Q0),
            unit.target,
            eps=problem.network.eps,
            eps_task=problem.task.eps,
            push=self.push,
        )

    @cached_property
    def wide(self) -> bool:
        """Whether blocks of times in place are faster than arrays for all times."""
        return self.graded.L.shape[1] >= STACKED_BELOW

    @cached_property
    def _stacked(self) -> Evaluation:
        return Evaluation(self.graded, self.scale)

    @cached_property
    def _looped(self) -> BlasEvaluation:
        from lazyrich.methods.riccati.evaluation_blas import BlasEvaluation  # here, to keep `import lazyrich` quick

        return BlasEvaluation(self.graded, self.scale)

    def function(self, times: Float[Array, " T"]) -> Float[Array, "T out in"]:
        """W2W1(t)."""
        if not self.wide:
            return self._stacked(self.clock * times, "function")
        return self._looped.function(self.clock * times)

    def gram(self, times: Float[Array, " T"]) -> Float[Array, "T n n"]:
        """QQᵀ(t): W1ᵀW1, W2W1 and W2W2ᵀ in one matrix."""
        if self.wide:
            return self._looped.gram(self.clock * times)
        G = self._stacked(self.clock * times, "gram")
        step = max(1, _AT_ONCE // max(G[0].size, 1))
        for i in range(0, len(G), step):  # in pieces: a symmetric copy of all would take as much memory again
            some = G[i : i + step]
            some[:] = (some + np.swapaxes(some, 1, 2)) / 2
        return G

    def loss(self, times: Float[Array, " T"]) -> Float[Array, " T"]:
        """Loss in the mode basis: no rotation back is needed."""
        task, gain = self.problem.task, self.problem.canonical.gain
        if not self.wide:
            return task.loss(self.function(times))
        return self._looped.squared_errors(self.clock * times) * (self.clock / gain**2 / 2) + task.loss_floor

    def mode_strengths(
        self, times: Float[Array, " T"], U: Float[Array, "out m"], V: Float[Array, "in m"]
    ) -> Float[Array, "T m"]:
        """uᵀWv in the mode basis, where hardly anything is turned."""
        return (
            self._looped.mode_strengths(self.clock * times, U, V) if self.wide else super().mode_strengths(times, U, V)
        )

    def weights(self, times: Float[Array, " T"]) -> list[Float[Array, "T out in"]]:
        """W1(t) and W2(t) in the given hidden basis: exact Gram matrix, rotation to about 1e-11."""
        if self.graded.L.shape[1] == 1:  # one hidden direction: there is nothing to rotate
            Y, A = self._stacked.factors(self.clock * times)
            Q = self._stacked.O @ (Y / np.sqrt(A)) @ self.graded.rows
        else:
            Q = self.scale[:, None] * self._balanced(follow(self.graded, self.clock * times))
        d_in = self.problem.task.d_in
        return [np.ascontiguousarray(np.swapaxes(Q[:, :d_in], 1, 2)), Q[:, d_in:]]

    def _balanced(self, Q: Float[Array, "T n h"]) -> Float[Array, "T n h"]:
        """D = λI again, where weights that have shrunk carry the rounding of what they were."""
        d_in, lam = self.problem.task.d_in, self.problem.facts.lam[0]
        inputs, outputs = Q[:, :d_in], Q[:, d_in:]
        with one_blas_thread():
            D = np.swapaxes(outputs, 1, 2) @ outputs - np.swapaxes(inputs, 1, 2) @ inputs
        used = lam * self.graded.rows.T @ self.graded.rows  # hidden directions without weights have D = 0
        off = np.linalg.norm(D - used, axis=(1, 2)) > 16 * _EPS * np.sum(Q**2, axis=(1, 2))
        if self.push or self.problem.network.eps > _EPS:  # balanced up to the push, or up to its own digits
            return Q
        for i in np.flatnonzero(off):
            W1, W2, _ = rebalanced(inputs[i].T, outputs[i], lam)
            Q[i] = np.concatenate([W1.T, W2])
        return Q

    def analytic(self, times: Any) -> dict[str, Any]:
        """The Gram matrix at complex times, for derivatives by complex step."""
        return {"gram": self._stacked(self.clock * times, "gram")}

    @property
    def imbalance(self) -> float:
        return self.problem.facts.orbit_error

    def doubts_until(self, time: float) -> Doubts:
        """How far rounding may have moved the function by then, relative."""
        return Doubts(*map(float, self.graded.doubts_until(np.array(self.clock * time))))

    def likely_half_times(self) -> Float[Array, " k"]:
        """When each new part of the initialisation would be half way if it were alone."""
        w, pivots = self.graded.spectrum.w, self.graded.pivots
        return half_times_alone(w[pivots], self.graded.pivot_lengths) / self.clock

    def separatrix(self) -> Separatrix:
        """Smallest new part of a direction that could be learned, relative to the longest row."""
        return separatrix_of(self.graded)

    def restarted(self, time: float) -> RiccatiSolution:
        """The solution from the state at `time` on, row by row, so that small modes keep their digits."""
        later = copy(self)
        later.__dict__.pop("_stacked", None)
        later.__dict__.pop("_looped", None)
        later.graded = resume(self.graded, self._stacked.rows(self.clock * time))
        return later
