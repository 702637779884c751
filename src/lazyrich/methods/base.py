"""What a closed form is: a `Method` accepts or refuses the facts of a problem, and makes a `Solution` of the problem,
to be evaluated at any times. Beside them, conditions that several methods have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._typing import Array, Float
from lazyrich.facts import Condition, Facts, Refusal

if TYPE_CHECKING:
    from lazyrich.problem import Problem

#: Where inputs lack directions. Layers that were balanced before these are left out need not be so after.
_ON_SUPPORT = "try task.whitened(), then problem.on_support(), then lr.balanced(its network)"
DOUBTFUL = 1e-12  # by how much rounding may have moved the function before it is told, relative
ON_THE_WAY = (0.25, 0.5, 0.75)  # of its end: where a mode is most sensitive to when it set out
_EPS = float(np.finfo(np.float64).eps)
FOREVER = 1e200  # what np.inf stands for among the times of a closed form: every exponential has ended, none overflows


def linear_layers(facts: Facts, words: str, least: int, most: int | None = None) -> Iterator[Refusal]:
    """Refusals of networks that are not linear or have another number of layers, and of losses that are not squared."""
    if facts.depth < least or facts.depth > (most or facts.depth):
        message = f"it solves {words}, and this network has {facts.depth}"
        yield Refusal(Condition.DEPTH, message, facts.depth, least)
    if facts.biased and facts.depth > 1:
        message = "it solves networks without biases, and this one has them"
        yield Refusal(Condition.BIASES, message, 1, 0, "problem.without_biases() gives one on centred data")
    if not facts.activation.linear:
        yield Refusal(Condition.LINEAR, f"it solves linear networks, and this one is {facts.kind}", 1, 0)
    if not facts.loss.squared:
        message = f"it solves the squared loss, whose pull on W is linear in W, and this one is {facts.loss}"
        yield Refusal(Condition.SQUARED_LOSS, message, 1, 0)


def white_inputs(facts: Facts) -> Iterator[Refusal]:
    """Refusals of correlated inputs."""
    if not facts.whitened:
        message = f"it needs whitened inputs (Σxx = c·I), and these are off by {facts.whitening_error:.2g}"
        hint = "task.whitened() gives such a task" if facts.input_rank is None else _ON_SUPPORT
        hint = "" if facts.biased else hint  # the constant of the biases is an input: they are what is to go
        yield Refusal(Condition.WHITE, message, facts.whitening_error, facts.tolerance, hint)


def aligned_with_the_task(facts: Facts) -> Iterator[Refusal]:
    """Refusals of modes that interact; networks with biases have been refused, and have no such number."""
    if not facts.aligned and np.isfinite(facts.alignment_error):
        error = facts.alignment_error
        where = " in every layer" if facts.depth > 2 else ""
        message = f"it needs an initialisation aligned with the task{where}, and modes are coupled by {error:.2g}"
        yield Refusal(Condition.ALIGNED, message, error, facts.tolerance)


def equal_rates_with_decay(facts: Facts) -> Iterator[Refusal]:
    """Refusals of two layers that decay at different rates."""
    if facts.weight_decay and len(set(facts.rates)) > 1:
        rates = " and ".join(f"{rate:g}" for rate in facts.rates)
        message = f"with weight decay it needs equal layer rates, and they are {rates}"
        yield Refusal(Condition.DECAY, message, facts.weight_decay, 0.0)


def unbalanced_mode(facts: Facts) -> Refusal:
    """The layers as a whole are balanced, and one mode by itself is not."""
    message = f"it needs every mode to be as long in each layer, and one is off by {facts.mode_imbalance:.2g} of itself"
    return Refusal(Condition.BALANCED, message, facts.mode_imbalance, facts.tolerance)


class Method(ABC):
    """A closed form: its name, its sources, its conditions.

    >>> [method.name for method in lr.methods.EXACT]
    ['shallow', 'modes', 'riccati', 'family', 'deep_modes']
    """

    name: ClassVar[str]
    citations: ClassVar[tuple[str, ...]]  # keys of `citations.BIBTEX`

    @abstractmethod
    def refusals(self, facts: Facts) -> Iterable[Refusal]:
        """Every condition that the problem does not meet, not only the first."""

    @abstractmethod
    def solution(self, problem: Problem) -> Solution:
        """The solution, set up once; only asked for where nothing is refused."""


class Separatrix(NamedTuple):
    """Smallest new part of a direction that could be learned, relative, and whether it is nothing but rounding."""

    distance: float = np.inf  # there is none
    on_it: bool = False


class Doubts(NamedTuple):
    """How far rounding of the initialisation, and of the task's singular values, may have moved the function."""

    initialisation: float = 0.0
    task: float = 0.0


class Solution(ABC):
    """One problem, solved; times and weights are those of the problem.

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> lr.solve(problem, [0.0]).solution.function(np.array([1.0])).ravel().round(6)
    array([0.430588])
    """

    gives_gram: ClassVar[bool] = False  # the Gram matrix is its state: weights take more work, and are not analytic
    problem: Problem

    @property
    def imbalance(self) -> float:
        """How far the weights are from the balance that the theorem asks for, relative."""
        return 0.0

    @abstractmethod
    def function(self, times: Array) -> Array:
        """W_L…W_1 at each time."""

    @abstractmethod
    def weights(self, times: Array) -> list[Array]:
        """Each layer at each time, in the given hidden basis."""

    @abstractmethod
    def analytic(self, times: Array) -> dict[str, Any]:
        """Weights or Gram matrix at complex times, analytic in them."""

    @abstractmethod
    def restarted(self, time: float) -> Solution:
        """The solution that starts where this one is at `time`."""

    def loss(self, times: Float[Array, " T"]) -> Float[Array, " T"]:
        """The loss at each time."""
        return np.asarray(self.problem.task.loss(self.function(times)))

    def mode_strengths(
        self, times: Float[Array, " T"], U: Float[Array, "out m"], V: Float[Array, "in m"]
    ) -> Float[Array, "T m"]:
        """uᵀWv of the columns of U and V at each time."""
        return np.einsum("tom,om->tm", self.function(times) @ V, U)

    def gram(self, times: Array) -> Array:
        """QQᵀ of two layers at each time."""
        W1, W2 = self.weights(times)
        Q = np.concatenate([np.swapaxes(W1, 1, 2), W2], axis=1)
        return Q @ np.swapaxes(Q, 1, 2)

    def doubts_until(self, time: float) -> Doubts:
        """How far rounding may have moved the function by then, relative."""
        return Doubts()

    def doubt_until(self, time: float) -> float:
        """The larger of the two. An imbalance beyond rounding acts on the directions to be learned as rounding does."""
        return float(max(self.doubts_until(time))) * max(1.0, self.imbalance / _EPS)

    def likely_half_times(self) -> Float[Array, " j"]:
        """About when modes will be half way, as far as the set-up tells; where to look first, and no promise."""
        return np.empty(0)

    def separatrix(self) -> Separatrix:
        """How far the initialisation is from a saddle's stable set."""
        return Separatrix()


def notes_on(solution: Solution, pushed: float, end: float) -> tuple[str, ...]:
    """What a reader should know before using the numbers until `end`: separatrix and precision."""
    facts = solution.problem.facts
    notes = notes_of(solution.separatrix(), solution.doubts_until(end), pushed, solution.gives_gram)
    if facts.precision != "float64":
        notes.append(
            f"the weights or data came in {facts.precision}, and the curve is exact for an initialisation as close to"
            f" them as that goes ({facts.eps:.1g})"
        )
    return tuple(notes)


def notes_of(separatrix: Separatrix, doubts: Doubts, pushed: float, gives_gram: bool) -> list[str]:
    """What is to be said of a solution that is so close to the separatrix, and as doubtful."""
    if pushed:
        return [
            f"an initialisation on the separatrix was moved off it by {pushed:g} of the weights; it is balanced only up"
            " to that, so the escape may come earlier or later than that of a real network, by about 1/s"
        ]
    if separatrix.on_it:
        escape = ", on_separatrix='perturb' shows the escape" if gives_gram else ""
        notes = [
            "the initialisation lies on the separatrix and stays on it: lr.fate(problem) says which modes are missed"
            f"{escape}"
        ]
        if separatrix.distance > DOUBTFUL:
            notes.append(
                f"a part of the weights that rounding could have made ({separatrix.distance:.0e}) is left out for that,"
                " and the function is as good as that from the start"
            )
        return notes
    if doubts.task > max(DOUBTFUL, doubts.initialisation):
        return [
            "singular values nearly coincide, and their modes share hidden directions: rounding of the task may shift"
            f" how these are divided, and with it the function by up to {doubts.task:.0e}, relative"
        ]
    if doubts.initialisation > DOUBTFUL:
        return [
            f"the initialisation is close to the separatrix (distance {separatrix.distance:.1e}): its own rounding may"
            f" shift the passage of the saddle, and with it the function by up to {doubts.initialisation:.0e}, relative"
        ]
    return []


class TangentModel(ABC):
    """A network made linear in its weights at the initialisation, solved (`lazy_limit`); not the network itself.

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> lr.lazy_limit(problem, [0.0]).tangent.answers(np.array([10.0]), np.array([[1.0], [2.0]])).round(3).tolist()
    [[[0.371], [0.741]]]
    """

    name: ClassVar[str] = "lazy_limit"
    citations: ClassVar[tuple[str, ...]] = ("lee2019", "chizat2019")
    gives: ClassVar[tuple[str, ...]]  # the parts of its trajectory, each a method of the times
    problem: Problem

    @abstractmethod
    def loss(self, times: Float[Array, " T"]) -> Float[Array, " T"]:
        """The loss at each time."""

    def answers(self, times: object, inputs: object) -> Float[Array, "T P out"]:
        """The outputs at any inputs, samples in rows; np.inf may be the last of the times.

        Directions in which the kernel is less than 1e-14 of its largest are followed as far as digits go.
        """
        clock = np.minimum(_check.as_times(times, forever=True), FOREVER)
        return self._answers(clock, _check.as_matrix("inputs", inputs, (None, self.problem.network.d_in)))

    @abstractmethod
    def _answers(self, times: Float[Array, " T"], inputs: Float[Array, "P in"]) -> Float[Array, "T P out"]:
        """The outputs at any inputs, samples in rows."""
