"""`sensitivity`: what happens to all that a two-layer linear network does when its initialisation moves a little.

Along directions that keep the balance, D = W2ᵀW2 − W1W1ᵀ = λI to first order, in closed form at any time
(`methods.riccati.tangent`), also where λ itself moves. Along others, and where there is no closed form to begin with,
by the linearised equation of QQᵀ (`methods.linearised`), integrated, with an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._threads import SMALL, one_blas_thread
from lazyrich._typing import Array, Float
from lazyrich.landscape.fate import fate
from lazyrich.methods.base import FOREVER
from lazyrich.methods.linearised import Moved, moved, moved_loss
from lazyrich.methods.riccati.grading import rounding
from lazyrich.methods.riccati.method import Riccati, RiccatiSolution
from lazyrich.methods.riccati.tangent import Tangent
from lazyrich.methods.solve import solve
from lazyrich.prediction.modes import frames_of
from lazyrich.problem import Problem, as_problem, needs_no_biases, needs_squared_loss
from lazyrich.velocity import gram_velocity

_EPS = float(np.finfo(np.float64).eps)
_WEAKEST = 1e-4  # w of a mode over the largest: below it the turn of its eigenvectors with λ would cost digits
_OVERFLOW = 600.0  # e to this is still a number, and so are its products


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity:
    """d/dε of what a network does from the weights W + ε·direction, at ε = 0; one entry per time.

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> moved = lr.sensitivity(problem, [[[0.1]], [[0.1]]], [0.0, 1.0, np.inf])  # both layers larger, by a factor 1 + ε
    >>> moved.function.ravel().round(4), moved.half_times.round(4), moved.exact
    (array([0.02  , 0.6792, 0.    ]), array([-0.4975]), True)
    """

    problem: Problem
    direction: tuple[Array, ...]  # one array per layer
    times: Float[Array, " T"]
    gram: Float[Array, "T n n"]  # of QQᵀ: W1ᵀW1, W2W1 and W2W2ᵀ in one matrix
    loss: Float[Array, " T"]
    method: str  # "riccati", a closed form, or "linearised", which is integrated
    error: float  # of `gram` and `loss`, relative to the largest of each at any of the times: about what to expect
    lam: float  # how λ moves: D = W2ᵀW2 − W1W1ᵀ (with layer rates: η1 W2ᵀW2 − η2 W1W1ᵀ) by λ·I
    departure: float  # the rest of the move of D, relative to weights × direction: 0 where the balance is kept

    @property
    def exact(self) -> bool:
        return self.method == Riccati.name

    @property
    def function(self) -> Float[Array, "T out in"]:
        """Of W2W1."""
        d_in = self.problem.task.d_in
        return self.gram[:, d_in:, :d_in]

    @cached_property
    def half_times(self) -> Float[Array, " m"]:
        """Of the time when each mode is half way, as `lr.fate` has it; nan for modes that are never.

        A mode that is half way when a(t) = ½(a(0) + a(∞)) is so later by (½δa(0) − δa(t))/ȧ(t): where it ends does not
        move with the initialisation.
        """
        if self.problem.facts.method is None:
            raise InvalidInput(
                "half_times belong to problems with an exact solution, and this one has none: try lr.predict(problem) "
                "from the weights as they are and from weights that have moved."
            )
        return _half_times(self.problem, self.direction)

    def __str__(self) -> str:
        sure = "exact" if self.exact else f"integrated: to {self.error:.1g} of the largest"
        kept = f"kept, and λ moves by {self.lam:.4g}" if self.lam else "kept"
        balance = kept if self.departure == 0 else f"left, by {self.departure:.2g} of weights × direction"
        lines = [f"known by      {self.method} ({sure})", f"balance       {balance}"]
        sizes = {"function": np.linalg.norm(self.function, axis=(1, 2)), "QQᵀ": np.linalg.norm(self.gram, axis=(1, 2))}
        for name, values in {"loss": self.loss, **sizes}.items():
            i = int(np.argmax(np.abs(values)))
            lines.append(
                f"{name:<14}moves most at t = {self.times[i]:.6g}, by {values[i]:.6g}; in the end by {values[-1]:.4g}"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Sensitivity of {self.problem!r} at {len(self.times)} times, {self.method}>"


def sensitivity(problem: Problem, direction: Sequence[object], times: object) -> Sensitivity:
    """How function, loss, QQᵀ and half times of two linear layers move when the initial weights move.

    Parameters
    ----------
    problem : two linear layers without biases, on any inputs
    direction : arrays like `problem.network.weights`, a velocity of them. For any matrix X of the size of the task,
        [W2ᵀX, X W1ᵀ] keeps the balance, and so does a rotation of inputs or outputs; the weights themselves, [W1, W2],
        move λ to (1 + 2ε)λ. Such directions have a closed form where the initialisation has one (`riccati`)
    times : not negative, sorted; the last may be np.inf where there is a closed form

    Returns
    -------
    Sensitivity : `.function`, `.loss`, `.gram` at each time, `.half_times`; `.exact`, `.method` and `.error` say how it
        is known

    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.01))
    >>> W1, W2 = problem.network.weights
    >>> X = problem.task.modes.U[:, :1] @ problem.task.modes.V[:, :1].T  # more of the first mode
    >>> print(lr.sensitivity(problem, [W2.T @ X, X @ W1.T], [0.0, 10.0, 100.0, np.inf]))
    known by      riccati (exact)
    balance       kept
    loss          moves most at t = 10, by -0.333...; in the end by ...
    function      moves most at t = 10, by ...; in the end by ...
    QQᵀ           moves most at t = 10, by ...; in the end by ...
    """
    facts = as_problem(problem).facts
    if facts.depth != 2 or not facts.activation.linear:
        raise InvalidInput(
            f"problem must have two linear layers, and its network is {problem.network.architecture}: try lr.flow from "
            "weights that have moved a little."
        )
    needs_no_biases(problem.network, "sensitivity")
    needs_squared_loss(problem, "sensitivity")
    moves = _as_direction(problem, direction)
    asked = _check.as_times(times, forever=True)
    n = problem.task.d_in + problem.task.d_out
    _check.memory(f"QQᵀ at {len(asked)} times", 2.0 * len(asked) * n**2, "fewer times")
    with one_blas_thread(max(problem.network.sizes) <= SMALL):
        d_lam, departure = _balance_moved(problem, moves)
        solution = None if departure or facts.methods[Riccati.name] else Riccati().solution(problem)
        if solution is not None and _has_closed_form(solution, d_lam):
            method, found = Riccati.name, _closed(solution, moves, asked, d_lam)
        else:
            method, found = "linearised", _by_integration(problem, moves, asked)
    gram, loss, error = found
    for array in (asked, gram, loss):
        _check.read_only(array)
    return Sensitivity(problem, moves, asked, gram, loss, method, error, d_lam, departure)


def _as_direction(problem: Problem, direction: Any) -> tuple[Array, ...]:
    weights = problem.network.weights
    if isinstance(direction, str) or not isinstance(direction, Sequence) or len(direction) != len(weights):
        came = f"has {len(direction)}" if isinstance(direction, list | tuple) else f"is a {type(direction).__name__}"
        raise InvalidInput(f"direction must list one array per layer ({len(weights)}), and it {came}.")
    named = zip(direction, weights, strict=True)
    return tuple(_check.read_only(_check.as_matrix(f"direction[{i}]", D, W.shape)) for i, (D, W) in enumerate(named))


def _stacked(problem: Problem, layers: Sequence[Array]) -> Float[Array, "n h"]:
    """Q = [v1ᵀ; v2] in the units of the canonical problem."""
    k1, k2 = problem.canonical.k
    return np.concatenate([k1 * layers[0].T, k2 * layers[1]])


def _balance_moved(problem: Problem, moves: Sequence[Array]) -> tuple[float, float]:
    """δλ, and what else moves of D in the hidden directions that are in use, relative; QQᵀ knows no others."""
    Q, dQ, d_in = _stacked(problem, problem.network.weights), _stacked(problem, moves), problem.task.d_in
    size = float(np.linalg.norm(Q) * np.linalg.norm(dQ))
    if size == 0:
        return 0.0, 0.0
    _, s, Vt = np.linalg.svd(Q, full_matrices=False)
    B = Vt[s > max(Q.shape) * _EPS * s[0]]
    D = (Q[d_in:] @ B.T).T @ dQ[d_in:] @ B.T - (Q[:d_in] @ B.T).T @ dQ[:d_in] @ B.T
    D = D + D.T
    d_lam, tolerance = float(np.trace(D)) / len(D), problem.facts.tolerance
    d_lam = d_lam if abs(d_lam) > tolerance * size else 0.0
    departure = float(np.linalg.norm(D - d_lam * np.eye(len(D)))) / size
    return d_lam, departure if departure > tolerance else 0.0


def _has_closed_form(solution: RiccatiSolution, d_lam: float) -> bool:
    """With a λ that moves, no weight decay, under which it would not stay, and no mode without a rate."""
    w, m = np.abs(solution.graded.spectrum.w), len(solution.graded.spectrum.s)
    alone = bool(w[:m].min() >= _WEAKEST * w.max()) and not solution.problem.weight_decay
    return d_lam == 0 or alone


def _closed(solution: RiccatiSolution, moves: Sequence[Array], times: Float[Array, " T"], d_lam: float) -> Moved:
    problem, graded = solution.problem, solution.graded
    dQ, clock = _stacked(problem, moves), solution.clock * np.minimum(times, FOREVER)
    lost = rounding(dQ, graded.spectrum, problem.canonical.target, eps=problem.network.eps, eps_task=problem.task.eps)
    tangent = Tangent(graded, solution.scale, dQ, lost, problem.facts.lam[0], d_lam)
    if tangent.leaving * float(clock[-1]) > _OVERFLOW:
        until = _OVERFLOW / tangent.leaving / solution.clock
        raise InvalidInput(
            f"times must end at {until:.4g} at the latest, and they end at {times[-1]:.4g}: the initialisation lies on "
            f"a separatrix that this direction leaves, by e^{{{tangent.leaving * solution.clock:.3g}t}}."
        )
    doubt = max(problem.network.eps, problem.task.eps) + solution.doubt_until(float(min(times[-1], FOREVER)))
    # δQQᵀ = δQ Qᵀ + Q δQᵀ may be the small difference of large numbers, and has lost its digits at the start
    Q = _stacked(problem, problem.network.weights)
    terms, first = float((np.abs(dQ) @ np.abs(Q.T)).max()), float(np.abs(dQ @ Q.T + Q @ dQ.T).max())
    gram, error = tangent.gram(clock), 16 * doubt * (max(2 * terms / first, 1.0) if first else 1.0)
    return Moved(gram, moved_loss(problem, solution.function(np.minimum(times, FOREVER)), gram), error)


def _by_integration(problem: Problem, moves: Sequence[Array], times: Float[Array, " T"]) -> Moved:
    if np.isinf(times[-1]):
        raise InvalidInput(
            "times must be finite where a direction leaves the balance or no closed form applies, and the last is inf."
        )
    (W1, W2), (D1, D2) = problem.network.weights, moves
    Q, dQ = np.concatenate([W1.T, W2]), np.concatenate([D1.T, D2])
    half = dQ @ Q.T
    exact = None
    if problem.facts.method is not None:
        solution = solve(problem, times[:1]).solution
        assert solution is not None
        exact = lambda t: solution.gram(np.array([t]))[0]  # noqa: E731
    return moved(problem, half + half.T, times, exact)


def _half_times(problem: Problem, moves: Sequence[Array]) -> Float[Array, " m"]:
    found, d_in = fate(problem), problem.task.d_in
    frames = frames_of(problem, problem.task.target, [found.function_limit])
    shift, reached = np.full(len(found.s), np.nan), np.isfinite(found.half_times)
    if not reached.any():
        return shift
    when = found.half_times[reached]
    times, place = np.unique(when, return_inverse=True)
    moved = sensitivity(problem, moves, np.concatenate([[0.0], times])).function
    traj = solve(problem, times)
    speed = np.stack([gram_velocity(problem, G)[d_in:, :d_in] for G in traj.gram])
    u, v = frames.u[:, reached], frames.v[:, reached]

    def strength(functions: Float[Array, "m out in"]) -> Float[Array, " m"]:
        return np.einsum("moi,om,im->m", functions, u, v)

    at_first = strength(np.repeat(moved[:1], len(when), axis=0))
    shift[reached] = (at_first / 2 - strength(moved[1:][place])) / strength(speed[place])
    return shift
