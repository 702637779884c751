"""Two linear layers, integrated: any initialisation and inputs, through the smallest equation that closes (theory:
section 11).

With A = W2W1, P = W1ᵀW1, R = W2W2ᵀ and E = Σyx − AΣxx, the gradient flow closes on the blocks of QQᵀ,

    Ȧ = η1 RE + η2 EP,     Ṗ = η1 (AᵀE + EᵀA),     Ṙ = η2 (AEᵀ + EAᵀ)

(with weight decay γ less (η1 + η2)γA, 2η1γP and 2η2γR), which are n × n for n inputs and outputs: a thousand hidden
units cost as much as ten. On the family of section 11, where P and R are functions of A, it closes on the function
alone, in units where both rates are 1:

    Ȧ = √(AAᵀ + c²) E + E √(AᵀA + c²)

for any inputs. Of a network narrower than it has inputs and outputs, the weights are the smallest:

    Ẇ1 = η1 (W2ᵀE − γW1),     Ẇ2 = η2 (EW1ᵀ − γW2)

All are integrated by SciPy's DOP853 in the singular basis of Σyx, so that a weak mode beside a strong one keeps its
digits. In the first two the hidden basis is gone, so weights are not to be had: `flow` integrates those.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.problem import Problem

if TYPE_CHECKING:
    from scipy.integrate import DOP853

_SMALL = 1e-6  # absolute tolerance over the relative one, in units of the largest entry at first
_TINY = 1e-300
_NEAR = 1e-4  # of Σyx: an error from which on it is worth asking whether all is over


class Equation(ABC):
    """A differential equation for a vector y, and what it stands for, in the singular basis of Σyx."""

    name: ClassVar[str]
    initial: Float[Array, " y"]
    size: float  # of QQᵀ at first, which is not that of y where W2W1 = 0

    def __init__(self, problem: Problem) -> None:
        task, (W1, W2) = problem.task, problem.network.weights
        self.U, _, Vt = np.linalg.svd(task.sigma_yx)
        self.V = Vt.T
        self.S = self.U.T @ task.sigma_yx @ self.V
        self.X = task.input_scale if problem.facts.whitened else self.V.T @ task.sigma_xx @ self.V
        self.W1, self.W2 = W1 @ self.V, self.U.T @ W2
        self.shape = self.S.shape
        self.size = max(float(np.sum(self.W1**2, axis=0).max()), float(np.sum(self.W2**2, axis=1).max()))

    @abstractmethod
    def velocity(self, time: float, y: Float[Array, " y"]) -> Float[Array, " y"]:
        """ẏ."""

    @abstractmethod
    def function(self, y: Float[Array, " y"]) -> Float[Array, "out in"]:
        """W2W1, in the basis of inputs and outputs."""

    @abstractmethod
    def parts(self, states: list[Float[Array, " y"]]) -> dict[str, Any]:
        """All that is known of these states, as a trajectory holds it: the weights, or QQᵀ."""

    def at_rest(self, y: Float[Array, " y"], rtol: float) -> bool:
        """Whether the function is the best of all linear maps, as far as the tolerance goes: it stays there."""
        E = self.error(self.U.T @ self.function(y) @ self.V)
        if np.abs(E).max() > _NEAR * np.abs(self.S).max():
            return False
        return bool(np.abs(E @ self._inverse).max() <= rtol * (np.abs(self.S @ self._inverse).max() or self.size))

    @cached_property
    def _inverse(self) -> Float[Array, "in in"]:
        """Σxx⁺."""
        X = self.X * np.eye(self.shape[1]) if isinstance(self.X, float) else self.X
        return np.linalg.pinv(X, hermitian=True)

    def error(self, A: Float[Array, "out in"]) -> Float[Array, "out in"]:
        """E = Σyx − AΣxx."""
        return self.S - (A * self.X if isinstance(self.X, float) else A @ self.X)

    def _whole(self, A: Array, P: Array, R: Array) -> Float[Array, "n n"]:
        A, P, R = self.U @ A @ self.V.T, self.V @ P @ self.V.T, self.U @ R @ self.U.T
        return np.block([[P, A.T], [A, R]])


class OfWeights(Equation):
    """The gradient flow itself; with biases too, where the row that makes their constant stays."""

    name = "flow"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.rates, self.gamma, self.network = problem.rates, problem.weight_decay, problem.network
        self.initial = np.concatenate([self.W1.ravel(), self.W2.ravel()])

    def split(self, y: Float[Array, " y"]) -> tuple[Float[Array, "h in"], Float[Array, "out h"]]:
        end = self.W1.size
        return y[:end].reshape(self.W1.shape), y[end:].reshape(self.W2.shape)

    def velocity(self, time: float, y: Float[Array, " y"]) -> Float[Array, " y"]:
        (W1, W2), (eta1, eta2), gamma = self.split(y), self.rates, self.gamma
        E = self.error(W2 @ W1)
        first, second = W2.T @ E, E @ W1.T
        if gamma:
            first, second = first - gamma * W1, second - gamma * W2
        first, second = self.network.moves([first, second])
        return np.concatenate([(eta1 * first).ravel(), (eta2 * second).ravel()])

    def function(self, y: Float[Array, " y"]) -> Float[Array, "out in"]:
        W1, W2 = self.split(y)
        return self.U @ (W2 @ W1) @ self.V.T

    def parts(self, states: list[Float[Array, " y"]]) -> dict[str, Any]:
        W1, W2 = (np.array(layer) for layer in zip(*map(self.split, states), strict=True))
        return {"weights": [W1 @ self.V.T, self.U @ W2]}


class OfGram(Equation):
    """The equation of A, P and R: any initialisation and inputs, layer rates, weight decay."""

    name = "gram"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.rates, self.gamma = problem.rates, problem.weight_decay
        out, into = self.shape
        self.ends = np.cumsum([out * into, into * into])
        self.initial = np.concatenate(
            [(self.W2 @ self.W1).ravel(), (self.W1.T @ self.W1).ravel(), (self.W2 @ self.W2.T).ravel()]
        )

    def split(self, y: Float[Array, " y"]) -> tuple[Array, Array, Array]:
        (out, into), (A, P, R) = self.shape, np.split(y, self.ends)
        return A.reshape(out, into), P.reshape(into, into), R.reshape(out, out)

    def velocity(self, time: float, y: Float[Array, " y"]) -> Float[Array, " y"]:
        (A, P, R), (eta1, eta2), gamma = self.split(y), self.rates, self.gamma
        E = self.error(A)
        by_input, by_output = A.T @ E, E @ A.T
        dA, dP, dR = eta1 * (R @ E) + eta2 * (E @ P), eta1 * (by_input + by_input.T), eta2 * (by_output + by_output.T)
        if gamma:
            dA, dP, dR = dA - (eta1 + eta2) * gamma * A, dP - 2 * eta1 * gamma * P, dR - 2 * eta2 * gamma * R
        return np.concatenate([dA.ravel(), dP.ravel(), dR.ravel()])

    def function(self, y: Float[Array, " y"]) -> Float[Array, "out in"]:
        return self.U @ self.split(y)[0] @ self.V.T

    def parts(self, states: list[Float[Array, " y"]]) -> dict[str, Any]:
        return {"gram": np.array([self._whole(*self.split(y)) for y in states])}


class OfFunction(Equation):
    """The equation of A alone, on the family: any inputs, layer rates."""

    name = "function_space"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        facts, unit = problem.facts, problem.canonical
        self.c, self.delta = (0.0, 0.0) if facts.zero_balanced else facts.family
        self.gain, self.k = unit.gain, unit.k
        self.initial = self.gain * (self.W2 @ self.W1).ravel()

    @staticmethod
    def applies(problem: Problem) -> bool:
        facts = problem.facts
        family = facts.in_family or facts.zero_balanced
        linear = facts.depth == 2 and facts.activation.linear and not facts.biased
        return linear and family and not facts.weight_decay

    def velocity(self, time: float, y: Float[Array, " y"]) -> Float[Array, " y"]:
        A = y.reshape(self.shape)
        E = self.gain * self.error(A / self.gain)
        left, right = self._roots(A)
        return (left @ E + E @ right).ravel()

    def _roots(self, A: Float[Array, "out in"]) -> tuple[Float[Array, "out out"], Float[Array, "in in"]]:
        """√(AAᵀ + c²) and √(AᵀA + c²)."""
        U, s, Vt = np.linalg.svd(A, full_matrices=False)
        more = s**2 / (np.hypot(s, self.c) + self.c + _TINY)  # √(s² + c²) − c
        return (U * more) @ U.T + self.c * np.eye(len(A)), (Vt.T * more) @ Vt + self.c * np.eye(A.shape[1])

    def function(self, y: Float[Array, " y"]) -> Float[Array, "out in"]:
        return self.U @ y.reshape(self.shape) @ self.V.T / self.gain

    def parts(self, states: list[Float[Array, " y"]]) -> dict[str, Any]:
        return {"gram": np.array([self._gram(y) for y in states])}

    def _gram(self, y: Float[Array, " y"]) -> Float[Array, "n n"]:
        A = y.reshape(self.shape)
        left, right = self._roots(A)
        (first, second), half = np.square(self.k), self.delta / 2
        P, R = right + half * np.eye(len(right)), left - half * np.eye(len(left))
        return self._whole(A / self.gain, P / first, R / second)


def equation_of(problem: Problem) -> Equation:
    """The smallest of the three that holds."""
    if OfFunction.applies(problem):
        return OfFunction(problem)
    narrow = problem.network.biased or problem.network.sizes[1] <= (problem.task.d_in + problem.task.d_out) / 2
    return OfWeights(problem) if narrow else OfGram(problem)


class Step(NamedTuple):
    """The end of a step, the state there, and the states at times within it."""

    time: float
    state: Float[Array, " y"]
    within: Callable[[float], Float[Array, " y"]]


def steps(equation: Equation, rtol: float, most: int) -> Iterator[Step]:
    """One step after the other, to be left when enough has been seen; ends by itself after `most`, or where no step is
    small enough."""
    from scipy.integrate import DOP853  # here, to keep `import lazyrich` quick

    atol = max(rtol * _SMALL * equation.size, _TINY)
    solver = DOP853(equation.velocity, 0.0, equation.initial, np.inf, rtol=rtol, atol=atol)
    for _ in range(most):
        solver.step()
        if solver.status == "failed" or not np.all(np.isfinite(solver.y)):
            return
        yield Step(float(solver.t), solver.y, _lazily(solver))


def _lazily(solver: DOP853) -> Callable[[float], Float[Array, " y"]]:
    """The dense output of the last step, which costs three evaluations, when it is first asked for."""
    made: list[Any] = []

    def within(time: float) -> Float[Array, " y"]:
        if not made:
            made.append(solver.dense_output())
        return np.asarray(made[0](time))

    return within
