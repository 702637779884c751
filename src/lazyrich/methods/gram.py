"""Two linear layers, integrated: any initialisation and inputs, through the smallest equation that closes (theory:
section 11).

With A = W2W1 and E = −∂loss/∂A, which is Σyx − AΣxx for the squared loss, the gradient flow moves Q = [W1ᵀ; W2] by

    Q̇ = [η1 Eᵀ W2; η2 E W1ᵀ]          (with weight decay γ less [η1 γ W1ᵀ; η2 γ W2])

which knows nothing of the basis of the hidden layer. So Q(0) = Q_k B, with B of k orthonormal rows, stays Q_k(t) B, and
as many columns as Q has rank are enough: a thousand hidden units cost as much as the n inputs and outputs, and a rank
that the flow cannot leave is kept exactly. Q, and not QQᵀ, whose equation closes too: a mode of strength 1e-12 has
weights of 1e-6, which keep their digits beside those of 1.

On the family of section 11, where W1ᵀW1 and W2W2ᵀ are functions of A, it closes on the function alone, in units where
both rates are 1,

    Ȧ = √(AAᵀ + c²) E + E √(AᵀA + c²)

for any inputs and any loss. The roots are as accurate as the strongest mode's digits, so it is taken where no mode is
far below.

Both are integrated by SciPy's DOP853 in the singular basis of E at A = 0 (Σyx for the squared loss), where a weak mode
is small by itself. The rest is for the squared loss alone: where steps are short for the sake of stability (inputs of
unequal variance, large weights, weight decay), those of `_stiff` follow, which need not be; and with white inputs W1
never leaves the span of its own rows and those of Σyx: of 784 inputs, 128 + 10 directions are enough. Of a network
wider than n, QQᵀ is given instead of the weights, which would be larger.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.methods._stiff import Layers, Stiff, Terms
from lazyrich.problem import Problem

if TYPE_CHECKING:
    from scipy.integrate import DOP853

_SMALL = 1e-6  # absolute tolerance over the relative one, in units of the largest entry at first
_TINY = 1e-300
_ABOVE_ROUNDING = 1e-7  # of the target: the least that a mode may be for its root to have digits
_WINDOW, _PATIENCE = 100, 10  # steps, so many times in a row, at the limit of stability: then others are taken
_COST = 5  # of these, at least, in steps of the others
_UNSURE = 1e-13  # of the largest: weights and couplings that may be nothing but rounding
_EQUAL = 1e-9  # singular values that are no further apart are taken for equal
_LIMIT = 3.0  # step × a bound on the fastest rate, there


class Equation(ABC):
    """A differential equation for a vector y, and what it stands for, in the singular basis of E at A = 0."""

    name: ClassVar[str]
    initial: Float[Array, " y"]
    size: float  # of QQᵀ at first, which is not that of y where W2W1 = 0

    def __init__(self, problem: Problem) -> None:
        task, (W1, W2) = problem.task, problem.network.weights
        self.problem = problem
        self.U, self.V = self._basis()
        self.S = self.U.T @ problem.pull @ self.V
        self.X = task.input_scale if problem.facts.whitened else self.V.T @ task.sigma_xx @ self.V
        self.W1, self.W2 = W1 @ self.V, self.U.T @ W2
        self.shape = self.S.shape
        self.size = max(float(np.sum(self.W1**2, axis=0).max()), float(np.sum(self.W2**2, axis=1).max()))

    def _basis(self) -> tuple[Float[Array, "out out"], Float[Array, "in m"]]:
        """Of outputs and inputs: the singular vectors of E at A = 0."""
        U, _, Vt = np.linalg.svd(self.problem.pull)
        return U, Vt.T

    @abstractmethod
    def velocity(self, time: float, y: Float[Array, " y"]) -> Float[Array, " y"]:
        """ẏ."""

    @abstractmethod
    def function(self, y: Float[Array, " y"]) -> Float[Array, "out in"]:
        """W2W1, in the basis of inputs and outputs."""

    @abstractmethod
    def parts(self, states: list[Float[Array, " y"]]) -> dict[str, Any]:
        """All that is known of these states, as a trajectory holds it: the weights, or QQᵀ."""

    @property
    @abstractmethod
    def terms(self) -> Terms:
        """The same flow as steps that stability does not limit see it,"""

    @abstractmethod
    def layers(self, y: Float[Array, " y"]) -> Layers:
        """whose layers are in units of their rates,"""

    @abstractmethod
    def state(self, w: Layers) -> Float[Array, " y"]:
        """and back."""

    @property
    def root_of_inputs(self) -> Float[Array, "in r"]:
        """C with Σxx = CCᵀ."""
        if isinstance(self.X, float):
            return np.sqrt(self.X) * np.eye(self.S.shape[1])
        values, vectors = np.linalg.eigh(self.X)
        seen = values > len(values) * np.finfo(float).eps * values[-1]
        return np.asarray(vectors[:, seen] * np.sqrt(values[seen]))

    def at_rest(self, y: Float[Array, " y"], rtol: float) -> bool:
        """Whether the function is where it ends, as far as the tolerance goes: it stays there."""
        off = self.distance(self.function(y))
        return off is not None and off <= rtol

    def distance(self, A: Float[Array, "out in"]) -> float | None:
        """Of a function from where it ends, in units of that, in directions that inputs have; None: nobody knows."""
        if self._end is None:
            return None
        end, of_inputs = self._end
        return float(np.abs((A - end) @ of_inputs).max()) / self.unit

    @property
    def end(self) -> Float[Array, "out in"]:
        """The map where all ends, where that is known."""
        assert self._end is not None
        return self._end[0]

    @property
    def unit(self) -> float:
        """The largest entry of that map; of the weights squared where it is 0."""
        return float(np.abs(self.end).max()) or self.size or 1.0

    def has_crossed(self, y: Float[Array, " y"]) -> bool:
        """Whether det W has lost the sign that it would have to lose to learn all, and cannot (theory: section 2)."""
        obstructed = self.problem.facts.determinant_obstruction
        return obstructed and bool(same_sign(self.problem, self.function(y)[None])[0] < 0)

    @cached_property
    def _end(self) -> tuple[Float[Array, "out in"], Float[Array, "in in"]] | None:
        """The map where all ends, and the projection on the directions that inputs have: others are never at rest."""
        end, X = best_map(self.problem), self.problem.task.sigma_xx
        return None if end is None else (end, X @ np.linalg.pinv(X, hermitian=True))

    def error(self, A: Float[Array, "out in"]) -> Float[Array, "out in"]:
        """E of A."""
        if not self.problem.loss.squared:
            return self.U.T @ self.problem.loss.pull_on_map(self.problem.task, self.U @ A @ self.V.T) @ self.V
        return self.S - (A * self.X if isinstance(self.X, float) else A @ self.X)


class OfWeights(Equation):
    """The gradient flow itself; with biases too, where the row that makes their constant stays."""

    name = "flow"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.rates, self.gamma, self.network = problem.rates, problem.weight_decay, problem.network
        self.B = hidden_basis(problem)
        self.W1, self.W2 = self.B @ self.W1, self.W2 @ self.B.T
        self.initial = self.state_of(*problem.network.weights)

    def _basis(self) -> tuple[Float[Array, "out out"], Float[Array, "in m"]]:
        """With white inputs and the squared loss only those directions of inputs that Σyx or the first layer has."""
        task, W1 = self.problem.task, self.problem.network.weights[0]
        few = self.problem.facts.whitened and self.problem.loss.squared
        if not few or task.d_out + len(W1) >= task.d_in:
            return super()._basis()
        U, _, Vt = np.linalg.svd(task.sigma_yx, full_matrices=False)
        if len(Vt) < task.d_out:
            return super()._basis()
        others = np.linalg.qr(np.concatenate([Vt.T, W1.T], axis=1))[0][:, len(Vt) :]
        return U, np.concatenate([Vt.T, others], axis=1)

    @cached_property
    def terms(self) -> Terms:
        return Terms(self.S, self.root_of_inputs, (self.rates[0], self.rates[1]), self.gamma, self.network.biased)

    def state_of(self, W1: Float[Array, "h in"], W2: Float[Array, "out h"]) -> Float[Array, " y"]:
        """Of weights on the trajectory, as they are given."""
        return np.concatenate([(self.B @ W1 @ self.V).ravel(), (self.U.T @ W2 @ self.B.T).ravel()])

    def layers(self, y: Float[Array, " y"]) -> Layers:
        return Layers(*(W / np.sqrt(eta) for W, eta in zip(self.split(y), self.rates, strict=True)))

    def state(self, w: Layers) -> Float[Array, " y"]:
        return np.concatenate([np.sqrt(eta) * W.ravel() for W, eta in zip(w, self.rates, strict=True)])

    def split(self, y: Float[Array, " y"]) -> tuple[Float[Array, "h in"], Float[Array, "out h"]]:
        end = self.W1.size
        return y[:end].reshape(self.W1.shape), y[end:].reshape(self.W2.shape)

    def velocity(self, time: float, y: Float[Array, " y"]) -> Float[Array, " y"]:
        (W1, W2), (eta1, eta2), gamma = self.split(y), self.rates, self.gamma
        E = self.error(W2 @ W1)
        first, second = W2.T @ E, E @ W1.T
        if gamma:
            first, second = first - gamma * W1, second - gamma * W2
        if self.network.biased:
            first, second = self.network.moves([first, second])
        return np.concatenate([(eta1 * first).ravel(), (eta2 * second).ravel()])

    def function(self, y: Float[Array, " y"]) -> Float[Array, "out in"]:
        W1, W2 = self.split(y)
        return self.U @ (W2 @ W1) @ self.V.T

    def parts(self, states: list[Float[Array, " y"]]) -> dict[str, Any]:
        W1, W2 = (np.array(layer) for layer in zip(*map(self.split, states), strict=True))
        return {"weights": [self.B.T @ W1 @ self.V.T, self.U @ W2 @ self.B]}


class OfGram(OfWeights):
    """The same for a wide network, of which QQᵀ is given."""

    name = "gram"

    def parts(self, states: list[Float[Array, " y"]]) -> dict[str, Any]:
        W1, W2 = (np.array(layer) for layer in zip(*map(self.split, states), strict=True))
        Q = np.concatenate([self.V @ np.swapaxes(W1, 1, 2), self.U @ W2], axis=1)
        return {"gram": Q @ np.swapaxes(Q, 1, 2)}


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
        if not linear or not family or facts.weight_decay:
            return False
        c, gain = 0.0 if facts.zero_balanced else facts.family[0], problem.canonical.gain
        weakest = gain * float(np.linalg.svd(problem.network.linear_part, compute_uv=False)[-1])
        return bool(np.hypot(c, weakest) >= _ABOVE_ROUNDING * gain * float(np.linalg.norm(problem.task.target, 2)))

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

    @cached_property
    def terms(self) -> Terms:
        return Terms(self.gain * self.S, self.root_of_inputs, (1.0, 1.0), 0.0, False)

    def layers(self, y: Float[Array, " y"]) -> Layers:
        """The λ-balanced network of λ = 2c with the same function, which learns the same curve (theory: section 11)."""
        U, s, Vt = np.linalg.svd(y.reshape(self.shape))
        size = np.sqrt(np.hypot(s, self.c) + self.c)
        first, second = np.zeros((len(U), len(Vt))), np.full(len(U), np.sqrt(2 * self.c))
        first[: len(s)] = np.divide(s, size, out=np.zeros_like(s), where=size > 0)[:, None] * Vt[: len(s)]
        second[: len(s)] = size
        return Layers(first, U * second)

    def state(self, w: Layers) -> Float[Array, " y"]:
        return (w.second @ w.first).ravel()

    def function(self, y: Float[Array, " y"]) -> Float[Array, "out in"]:
        return self.U @ y.reshape(self.shape) @ self.V.T / self.gain

    def parts(self, states: list[Float[Array, " y"]]) -> dict[str, Any]:
        return {"gram": np.array([self._gram(y) for y in states])}

    def _gram(self, y: Float[Array, " y"]) -> Float[Array, "n n"]:
        A = y.reshape(self.shape)
        left, right = self._roots(A)
        (first, second), half = np.square(self.k), self.delta / 2
        P, R = right + half * np.eye(len(right)), left - half * np.eye(len(left))
        A, P, R = self.U @ A @ self.V.T / self.gain, self.V @ P @ self.V.T / first, self.U @ R @ self.U.T / second
        return np.block([[P, A.T], [A, R]])


def equation_of(problem: Problem) -> Equation:
    """The smallest of the three that holds."""
    if OfFunction.applies(problem):
        return OfFunction(problem)
    narrow = problem.network.biased or problem.network.sizes[1] <= problem.task.d_in + problem.task.d_out
    return OfWeights(problem) if narrow else OfGram(problem)


def hidden_basis(problem: Problem) -> Float[Array, "k h"]:
    """Orthonormal rows that span those of Q, as many as its rank: the directions of the hidden layer that are in use.

    The units themselves where these are independent, each measured by its own size; with biases in any case.
    """
    W1, W2 = problem.network.weights
    Q = np.concatenate([W1.T, W2])
    sizes = np.abs(Q).max(axis=0)
    used = np.eye(len(sizes))[sizes > 0]
    if problem.network.biased:
        return np.eye(len(sizes))
    if len(used) <= len(Q) and np.linalg.matrix_rank(Q[:, sizes > 0] / sizes[sizes > 0]) == len(used):
        return used
    layers = [W / (float(np.linalg.norm(W)) or 1.0) for W in (W1.T, W2)]  # one layer may be tiny beside the other
    _, s, Vt = np.linalg.svd(np.concatenate(layers), full_matrices=False)
    return np.asarray(Vt[s > max(Q.shape) * np.finfo(float).eps * s[0]])


def best_map(problem: Problem) -> Float[Array, "out in"] | None:
    """Where two linear layers end from almost every initialisation: the best linear map of the rank that the weights
    have, which the flow keeps, and of one less where their determinant has the wrong sign. Where the flow falls into
    parts that never meet, the same of each part. None with weight decay or another loss than the squared one, where a
    unit that stays 1 takes part in the bottleneck, and where rounding decides which parts there are."""
    task, network, facts = problem.task, problem.network, problem.facts
    if problem.weight_decay or not problem.loss.squared:
        return None
    rank = len(hidden_basis(problem))
    if network.biased:
        layers = [W / (float(np.linalg.norm(W)) or 1.0) for W in network.weights]
        rank = int(np.linalg.matrix_rank(np.concatenate([layers[0].T, layers[1]]))) - 1
    rank = facts.rank_target - 1 if facts.determinant_obstruction else rank
    if network.biased:
        return task.target if rank >= facts.rank_target else None
    modes = _Modes.of(problem, full=False)
    if not modes.joined:  # by their own weights; perhaps by those of other inputs and outputs
        modes = _Modes.of(problem, full=True)
    sure, perhaps = modes.learned(rank, modes.parts(_UNSURE)), modes.learned(rank, modes.parts(0.0))
    if sure is None or perhaps is None or not np.array_equal(sure, perhaps):
        return None
    return task.target if np.count_nonzero(sure) == facts.rank_target else modes.map_of(sure)


class _Modes(NamedTuple):
    """Singular vectors of TΣxx^½, T the best linear map, and the weights on them: by them the flow falls into parts.

    What neither hidden units nor inputs connect stays apart forever: a part without weights never moves, and each of
    the others learns as many modes as its own weights have rank (theory: section 11, of each part by itself).
    """

    U: Float[Array, "out k"]
    s: Float[Array, " m"]  # of those that the target has
    V: Float[Array, "in l"]
    X: Float[Array, "l l"]
    Q: Float[Array, "n h"]
    root: Float[Array, "r r"]  # Σxx^½; a number where inputs are white

    @classmethod
    def of(cls, problem: Problem, *, full: bool) -> _Modes:
        """With all inputs and outputs, or with those of the modes alone, which costs less."""
        task, (W1, W2) = problem.task, problem.network.weights
        if problem.facts.whitened:
            root, T = np.sqrt([[task.input_scale]]), np.sqrt(task.input_scale) * task.target
        else:
            values, vectors = np.linalg.eigh(task.sigma_xx)
            root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
            T = task.target @ root
        U, s, Vt = np.linalg.svd(T, full_matrices=full)
        s, V = s[: problem.facts.rank_target], Vt.T.copy()
        for same in np.split(np.arange(len(s)), 1 + np.flatnonzero(s[1:] < (1 - _EQUAL) * s[:-1])):
            if len(same) > 1:  # of equal ones, those that the weights tell apart
                first, second = W1 @ V[:, same], W2.T @ U[:, same]
                turn = np.linalg.eigh(first.T @ first + second.T @ second)[1]
                U[:, same], V[:, same] = U[:, same] @ turn, V[:, same] @ turn
        X = task.input_scale * np.eye(V.shape[1]) if problem.facts.whitened else V.T @ task.sigma_xx @ V
        layers = [W / (float(np.abs(W).max()) or 1.0) for W in (V.T @ W1.T, U.T @ W2)]
        return cls(U, s, V, X, np.concatenate(layers), root)

    @property
    def joined(self) -> bool:
        return len(set(self.parts(_UNSURE)[: len(self.s)])) == 1

    def parts(self, least: float) -> Array:
        """Which part each input and output belongs to, where what is no more than `least` of its size is nothing."""
        from scipy.sparse.csgraph import connected_components

        sizes, d_in, m = np.linalg.norm(self.Q, axis=1), len(self.X), len(self.s)
        rows = np.where(sizes[:, None] > least, self.Q, 0.0) / np.where(sizes > 0, sizes, 1.0)[:, None]
        joined = np.abs(rows @ rows.T) > least / np.clip(sizes, _TINY, 1.0)[:, None]
        joined[:d_in, :d_in] |= np.abs(self.X) > least * np.abs(self.X).max()
        joined[np.arange(m), d_in + np.arange(m)] = True
        return np.asarray(connected_components(joined, directed=False)[1])

    def learned(self, rank: int, parts: Array) -> Array | None:
        """Which modes are, in the end; None where a part may have a determinant of the wrong sign, which it keeps."""
        d_in, m, sizes = len(self.X), len(self.s), np.linalg.norm(self.Q, axis=1)
        if len(set(parts[:m])) == 1:
            return np.arange(m) < rank
        found = np.zeros(m, dtype=bool)
        for part in set(parts[:m]):
            own, there = np.flatnonzero(parts[:m] == part), np.flatnonzero((parts == part) & (sizes > _UNSURE))
            rows = self.Q[there] / sizes[there, None]
            of_part = int(np.linalg.matrix_rank(rows)) if len(there) else 0
            if 0 < of_part == len(own) and np.linalg.slogdet(self.Q[d_in + own] @ self.Q[own].T)[0] <= 0:
                return None
            found[own[:of_part]] = True
        return found

    def map_of(self, learned: Array) -> Float[Array, "out in"]:
        """The best map, of these modes alone."""
        m = len(self.s)
        best = (self.U[:, :m] * np.where(learned, self.s, 0.0)) @ self.V[:, :m].T
        back = np.linalg.pinv(self.root, hermitian=True)
        return np.asarray(best * back if back.size == 1 else best @ back)


def same_sign(problem: Problem, functions: Float[Array, "T out in"]) -> Float[Array, " T"]:
    """Of det W at these times and at first: 1, or −1 where it has changed."""
    return np.asarray(np.linalg.slogdet(functions)[0] * np.linalg.slogdet(problem.network.linear_part)[0])


class Step(NamedTuple):
    """The end of a step, the state there, and the states at times within it."""

    time: float
    state: Float[Array, " y"]
    within: Callable[[float], Float[Array, " y"]]


def steps(equation: Equation, rtol: float, most: int, atol: float | None = None) -> Iterator[Step]:
    """One step after the other, to be left when enough has been seen; ends by itself after `most`, where no step is
    small enough, and where errors would lead W past a determinant of 0, whose sign it keeps."""
    from scipy.integrate import DOP853  # here, to keep `import lazyrich` quick

    atol = max(rtol * _SMALL * equation.size, _TINY) if atol is None else atol
    solver = DOP853(equation.velocity, 0.0, equation.initial, np.inf, rtol=rtol, atol=atol)
    limited, begun = 0, 0.0
    for taken in range(1, most + 1):
        before = solver.y
        with np.errstate(over="ignore", invalid="ignore"):  # a step that was too long is taken again
            solver.step()
        if solver.status == "failed" or not np.all(np.isfinite(solver.y)) or equation.has_crossed(solver.y):
            return
        yield Step(float(solver.t), solver.y, _lazily(equation, solver, before))
        if equation.problem.loss.squared and taken % _WINDOW == 0:  # `_stiff` knows no other E
            mean, begun = (solver.t - begun) / _WINDOW, solver.t
            limited = limited + 1 if mean * equation.terms.fastest(equation.layers(solver.y)) > _LIMIT else 0
            if limited == _PATIENCE:
                further = stiff_steps(equation, solver.y, float(solver.t), mean, (rtol, atol), (most - taken) // _COST)
                yield from takewhile(lambda step: not equation.has_crossed(step.state), further)
                return


def stiff_steps(
    equation: Equation,
    y: Float[Array, " y"],
    time: float,
    first: float,
    tolerances: tuple[float, float],
    most: int,
) -> Iterator[Step]:
    """The same from a state on, by steps that stability does not limit; the first is tried with length `first`."""
    rtol, atol = tolerances
    granted = atol / np.sqrt(equation.terms.rates)
    solver = Stiff(equation.terms, equation.layers(y), time, first, rtol, (float(granted[0]), float(granted[1])))
    for _ in range(most):
        with np.errstate(over="ignore", invalid="ignore"):
            if not solver.step():
                return
        yield Step(solver.time, equation.state(solver.w), lambda time: equation.state(solver.within(time)))


def _lazily(equation: Equation, solver: DOP853, before: Float[Array, " y"]) -> Callable[[float], Float[Array, " y"]]:
    """States within the last step: its dense output, which costs three evaluations, made when it is first asked for.

    Where the step is nearly as long as stability allows, what is at rest is damped at its end and not between (seen:
    5e-6 off, where the step was good to 1e-9). There a shorter step is taken from its beginning.
    """
    from scipy.integrate import DOP853

    made: list[Callable[[float], Array]] = []
    start, length = float(solver.t_old), float(solver.t - solver.t_old)

    def by_a_step(time: float) -> Float[Array, " y"]:
        if time <= start:
            return before
        tolerances = {"rtol": solver.rtol, "atol": solver.atol}
        again = DOP853(equation.velocity, start, before, time, first_step=time - start, **tolerances)
        while again.status == "running":
            again.step()
        return np.asarray(again.y)

    def within(time: float) -> Float[Array, " y"]:
        if not made:
            squared = equation.problem.loss.squared
            fastest = equation.terms.fastest(equation.layers(solver.y)) if squared else np.inf  # unknown
            made.append(by_a_step if length * fastest > _LIMIT / 3 else solver.dense_output())
        return np.asarray(made[0](time))

    return within
