"""Independent evidence that a trajectory is what it claims to be.

Nothing here knows how the trajectory was made. The gradient flow is written out from the problem alone, for
weights,

    Ẇ_ℓ = η_ℓ (−∂loss/∂W_ℓ − γ W_ℓ)

and for the Gram matrix of a two-layer linear network, where it closes (E = Σyx − W Σxx):

    d(W1ᵀW1) = η1 (WᵀE + EᵀW − 2γ W1ᵀW1)
    dW       = η2 E W1ᵀW1 + η1 W2W2ᵀ E − (η1 + η2)γ W
    d(W2W2ᵀ) = η2 (EWᵀ + WEᵀ − 2γ W2W2ᵀ)

The time derivative of an exact trajectory is taken by complex step, Im f(t + ih)/h; a sampled one (`flow`,
`descend`) is restarted at recorded states and integrated to the next ones by SciPy.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.networks.network import product
from lazyrich.problem import Problem

if TYPE_CHECKING:
    from lazyrich.trajectory import Trajectory

__all__ = ["Certificate", "certify", "velocity"]

_EXACT = 1e-11
_SAMPLES = 12
_KINKED_GRADIENTS = 5_000
_Figures = tuple[float | None, float | None, float | None, float | None, float | None]


@dataclass(frozen=True)
class Certificate:
    """Errors of a trajectory, all relative; None where a figure does not exist for it.

    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01))
    >>> found = lr.solve(problem, [0.0, 10.0, 100.0]).certificate()
    >>> found.exact, found.worst < 1e-12
    (True, True)
    """

    precision: str  # the one the problem came in
    method: str
    residual: float | None  # of the flow equation, relative to the size of its terms
    drift: float | None  # of the conserved quantity, relative to the weights
    start_error: float | None  # at t = 0
    semigroup: float | None  # stopping half way and going on, against going through
    agreement: float | None  # of the function and Gram matrix handed out with what the other figures were measured on

    @property
    def worst(self) -> float:
        """The largest of the figures."""
        figures = (self.residual, self.drift, self.start_error, self.semigroup, self.agreement)
        return float(np.max([x for x in figures if x is not None] or [np.nan]))  # of NumPy: NaN is the worst of all

    @property
    def exact(self) -> bool:
        """All figures are at rounding level, and the flow equation was among those checked."""
        return self.residual is not None and self.worst <= _EXACT

    def __str__(self) -> str:
        rows = {
            "residual of the flow": self.residual,
            "conserved quantity": self.drift,
            "error at the start": self.start_error,
            "semigroup": self.semigroup,
            "agreement of parts": self.agreement,
        }
        verdict = "exact" if self.exact else "not exact to rounding"
        if self.precision != "float64":
            verdict += f", for a start given in {self.precision}"
        lines = [f"certificate of {self.method}: {verdict}"]
        lines += [f"  {name:<22}{'not available' if value is None else f'{value:.1e}'}" for name, value in rows.items()]
        return "\n".join(lines)


def certify(trajectory: Trajectory) -> Certificate:
    """The certificate of an exact or a sampled trajectory."""
    problem, exact = trajectory.problem, trajectory.solution is not None
    figures = _of_solution(trajectory) if exact else _of_samples(trajectory)
    return Certificate(problem.facts.precision, trajectory.method, *figures)


def velocity(problem: Problem, weights: list[Any]) -> list[Any]:
    """Ẇ_ℓ of the gradient flow at given weights, for any activation; one state (no time axis)."""
    if problem.network.activation == "linear":
        E = problem.task.sigma_yx - product(weights) @ problem.task.sigma_xx
        after, before = _partial_products(weights)
        flow = [
            (E if R is None else R.T @ E) @ (np.eye(E.shape[1]) if B is None else B.T)
            for R, B in zip(after, before, strict=True)
        ]
    else:
        flow = _nonlinear_velocity(problem, weights)
    return [eta * (dW - problem.weight_decay * W) for eta, dW, W in zip(problem.rates, flow, weights, strict=True)]


def _partial_products(weights: list[Any]) -> tuple[list[Any], list[Any]]:
    """Products of the layers after and before each one; None stands for the identity."""
    after: list[Any] = [None]
    for W in weights[:0:-1]:
        after.insert(0, W if after[0] is None else after[0] @ W)
    before: list[Any] = [None]
    for W in weights[:-1]:
        before.append(W if before[-1] is None else W @ before[-1])
    return after, before


def _nonlinear_velocity(problem: Problem, weights: list[Any]) -> list[Any]:
    """Backpropagation, written out."""
    task, kind = problem.task, problem.network.activation
    assert task.inputs is not None and task.targets is not None
    slope = 0.0 if kind == "relu" else kind
    signals, slopes = [task.inputs.T], []
    for i, W in enumerate(weights):
        z = W @ signals[-1]
        if i == len(weights) - 1:
            signals.append(z)
        elif kind == "tanh":
            signals.append(np.tanh(z))
            slopes.append(1 - signals[-1] ** 2)
        else:
            slopes.append(np.where(z > 0, 1.0, slope))
            signals.append(z * slopes[-1])
    error = (task.targets.T - signals[-1]) / (task.inputs.shape[0] if task.reduction == "mean" else 1)
    flow: list[Any] = []
    for i in range(len(weights) - 1, -1, -1):
        flow.insert(0, error @ signals[i].T)
        if i:
            error = (weights[i].T @ error) * slopes[i - 1]
    return flow


def _gram_velocity(problem: Problem, G: Float[Array, "n n"]) -> Float[Array, "n n"]:
    d_in, task, (eta1, eta2), gamma = problem.task.d_in, problem.task, problem.rates, problem.weight_decay
    first, W, second = G[:d_in, :d_in], G[d_in:, :d_in], G[d_in:, d_in:]
    E = task.sigma_yx - W @ task.sigma_xx
    d_first = eta1 * (W.T @ E + E.T @ W - 2 * gamma * first)
    d_W = eta2 * E @ first + eta1 * second @ E - (eta1 + eta2) * gamma * W
    d_second = eta2 * (E @ W.T + W @ E.T - 2 * gamma * second)
    return np.block([[d_first, d_W.T], [d_W, d_second]])


def _size_of_terms(problem: Problem, size: float) -> float:
    """‖Σyx‖ + ‖Σxx‖·‖weights‖² + γ: multiplies the weights in every term of the flow."""
    task = problem.task
    return float(np.linalg.norm(task.sigma_yx) + np.linalg.norm(task.sigma_xx, 2) * size + problem.weight_decay)


def _of_solution(trajectory: Trajectory) -> _Figures:
    problem, solution = trajectory.problem, trajectory.solution
    assert solution is not None
    times = np.asarray(trajectory.times, dtype=float)
    chosen = times[np.unique(np.linspace(0, len(times) - 1, _SAMPLES).astype(int))]
    size = _size_of_terms(problem, sum(float(np.linalg.norm(W)) ** 2 for W in problem.network.weights))
    h = 1e-30 / (max(problem.rates) * size or 1.0)  # where all is zero, any step will do
    state = solution.analytic(chosen + 1j * h)
    drift: float | None
    start_error: float | None
    if "gram" in state:
        residual, drift = _gram_evidence(problem, state["gram"], h)
        given = np.concatenate([problem.network.weights[0].T, problem.network.weights[1]])
        first = solution.analytic(np.zeros(1))["gram"][0].real
        start_error = _relative(first - given @ given.T, given @ given.T)
    else:
        residual, drift = _weight_evidence(problem, state["weights"], h)
        first = [W[0].real for W in solution.analytic(np.zeros(1))["weights"]]
        start_error = max(_relative(a - b, b) for a, b in zip(first, problem.network.weights, strict=True))
    if trajectory.pushed:
        drift = start_error = None  # the start was moved off the separatrix, on request
    return residual, drift, start_error, _semigroup(problem, solution, times), _agreement(problem, solution, chosen)


def _gram_evidence(problem: Problem, grams: Any, h: float) -> tuple[float, float]:
    d_in, (eta1, eta2) = problem.task.d_in, problem.rates
    lam = problem.facts.balance[0]
    k = np.repeat(problem.canonical.k, [d_in, problem.task.d_out])
    J = np.repeat([-1.0, 1.0], [d_in, problem.task.d_out])
    residual = drift = 0.0
    for G in grams:
        value, slope = G.real, G.imag / h
        size = max(eta1, eta2) * _size_of_terms(problem, float(np.linalg.norm(value))) * np.linalg.norm(value)
        residual = max(residual, _ratio(np.linalg.norm(slope - _gram_velocity(problem, value)), size))
        V = k[:, None] * value * k  # Vᵀ J V = λV is the conserved D = λI, seen from outside the hidden layer
        drift = max(drift, _ratio(np.linalg.norm(V @ (J[:, None] * V) - lam * V), np.linalg.norm(V) ** 2))
    return residual, drift


def _weight_evidence(problem: Problem, layers: list[Any], h: float) -> tuple[float, float | None]:
    residual = 0.0
    for i in range(len(layers[0])):
        value, slope = [W[i].real for W in layers], [W[i].imag / h for W in layers]
        size = max(problem.rates) * _size_of_terms(problem, float(np.linalg.norm(product(value))))
        for want, got, W in zip(velocity(problem, value), slope, value, strict=True):
            norms = [max(float(np.linalg.norm(V, 2)), 1e-300) for V in value]
            others = math.prod(norms) / max(float(np.linalg.norm(W, 2)), 1e-300)
            residual = max(residual, _ratio(np.linalg.norm(want - got), size * max(others, float(np.linalg.norm(W)))))
    return residual, _drift(problem, [W.real for W in layers])


def _of_samples(trajectory: Trajectory) -> _Figures:
    problem = trajectory.problem
    if not trajectory.knows("weights"):
        return None, None, None, None, None
    layers = [np.asarray(W, dtype=float) for W in trajectory.weights]
    times = np.asarray(trajectory.times, dtype=float)
    given = problem.network.weights
    start_error = None
    if times[0] == 0:
        start_error = max(_relative(W[0] - W0, W0) for W, W0 in zip(layers, given, strict=True))
    return _defect(problem, layers, times), _drift(problem, layers), start_error, None, None


def _defect(problem: Problem, layers: list[Any], times: Float[Array, " T"]) -> float | None:
    """Largest departure from the flow over one recording interval, relative to the movement in it.

    ReLUs have kinks, where steps of high accuracy are tiny: six digits have to do, and None is the answer where even
    they take too long.
    """
    from scipy.integrate import solve_ivp  # here, to keep `import lazyrich` quick

    flat = np.concatenate([W.reshape(len(times), -1) for W in layers], axis=1)
    shapes, cuts = [W.shape[1:] for W in layers], np.cumsum([W[0].size for W in layers])[:-1]
    movement = np.linalg.norm(np.diff(flat, axis=0), axis=1)
    if not movement.any():
        return None
    unpack = lambda y: [part.reshape(shape) for part, shape in zip(np.split(y, cuts), shapes, strict=True)]  # noqa: E731
    kinks = problem.network.activation not in ("linear", "tanh")
    rtol, left = (1e-6, _KINKED_GRADIENTS) if kinks else (1e-11, math.inf)
    worst = 0.0

    def slope(_: float, y: Array) -> Array:
        nonlocal left
        left -= 1
        if left < 0:
            raise _TooLong
        return np.concatenate([dW.ravel() for dW in velocity(problem, unpack(y))])

    for i in np.argsort(-movement)[:3]:
        span, atol = (times[i], times[i + 1]), 1e-3 * rtol * np.abs(flat[i]).max()
        try:
            run = solve_ivp(slope, span, flat[i], "DOP853", rtol=rtol, atol=atol)
        except _TooLong:
            return None
        moved = max(movement[i], 1e-6 * float(np.linalg.norm(flat[i])))  # at rest, rounding is all that moves
        worst = max(worst, _ratio(np.linalg.norm(run.y[:, -1] - flat[i + 1]), moved))
    return worst


class _TooLong(Exception):
    """More gradients than a certificate is worth."""


def _drift(problem: Problem, layers: list[Any]) -> float | None:
    """How much η_ℓ W_{ℓ+1}ᵀW_{ℓ+1} − η_{ℓ+1} W_ℓW_ℓᵀ changes: all of it, or its diagonal for ReLU; tanh
    conserves nothing."""
    kind, eta = problem.network.activation, problem.rates
    if len(layers) < 2 or kind == "tanh" or (problem.weight_decay and len(set(eta)) > 1):
        return None
    worst = 0.0
    for i, (A, B) in enumerate(itertools.pairwise(layers)):
        D = eta[i] * np.swapaxes(B, 1, 2) @ B - eta[i + 1] * A @ np.swapaxes(A, 1, 2)
        size = eta[i] * np.sum(B**2, axis=(1, 2)) + eta[i + 1] * np.sum(A**2, axis=(1, 2))
        if problem.weight_decay:
            continue
        change = D - D[0]
        if kind != "linear":
            change = np.diagonal(change, axis1=1, axis2=2)[:, :, None]
        worst = max(worst, _ratio(np.max(np.linalg.norm(change, axis=(1, 2))), np.max(size)))
    return None if problem.weight_decay else worst


def _agreement(problem: Problem, solution: Any, times: Float[Array, " T"]) -> float:
    state, d_in = solution.analytic(times), problem.task.d_in
    if "gram" in state:
        function = state["gram"][:, d_in:, :d_in]
        worst = _relative(solution.gram(times) - state["gram"], state["gram"])
    else:
        function, worst = product(state["weights"]), 0.0
    task, start = problem.task, problem.network.function
    size = np.linalg.norm(function) + np.linalg.norm(task.target) + np.linalg.norm(start)
    losses = np.linalg.norm(task.loss(function)) + task.loss(start) + task.loss(np.zeros_like(start))
    worst = max(worst, _ratio(np.linalg.norm(solution.function(times) - function), size))
    return max(worst, _ratio(np.linalg.norm(solution.loss(times) - task.loss(function)), losses))


def _semigroup(problem: Problem, solution: Any, times: Float[Array, " T"]) -> float | None:
    """Relative to the state, which is larger than the function where the layers are of unequal size."""
    end = float(times[-1])
    if end == 0:
        return None
    middle = end / 2
    restarted, name = solution.restarted(middle), "gram" if hasattr(solution, "gram") else "function"
    through = getattr(solution, name)(np.array([end]))[0]
    resumed = getattr(restarted, name)(np.array([end - middle]))[0]
    size = np.linalg.norm(through) + np.linalg.norm(problem.task.target) + np.linalg.norm(problem.network.function)
    return _ratio(np.linalg.norm(resumed - through), size)


def _relative(difference: Array, reference: Array) -> float:
    return _ratio(float(np.linalg.norm(difference)), float(np.linalg.norm(reference)))


def _ratio(part: Any, whole: Any) -> float:
    return float(part / whole) if whole else float(part)
