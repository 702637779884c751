"""What the checks of wide, deep and piecewise networks measure with: velocities, kernels, and limits by extrapolation.

The letters are the paper's: f(x) = AᵀWx with W (h, d) and A (h, c), which are W1 and W2ᵀ of the theory, β = WᵀA (d, c)
and the loss a sum, ½‖Xβ − Y‖². Parameters come as the list [A, W] with their rates (η_a, η_w). Everything rests on
values of functions alone, by complex steps, or on the integration of `oracles`; no formula of the paper is used.
"""

from collections.abc import Callable, Sequence

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.oracles import along, gradient, layers
from lazyrich.papers.base.types import Real, Rng, Row, Values

Function = Callable[[list[Array]], Values]


def vec(matrix: Array) -> Array:
    """Column by column."""
    return matrix.T.ravel()


def beta_of(parameters: Sequence[Array]) -> Array:
    """β = WᵀA."""
    A, W = parameters
    return W.T @ A


def loss_of(X: Array, Y: Array) -> Function:
    """½‖XWᵀA − Y‖² as a function of [A, W]."""
    return lambda parameters: ((X @ beta_of(parameters) - Y) ** 2).sum() / 2


def velocity(loss: Function, parameters: Sequence[Array], eta: Sequence[float]) -> list[Array]:
    """−η ∂loss/∂θ, parameter by parameter."""
    return [-e * slope for e, slope in zip(eta, gradient(loss, parameters), strict=True)]


def tangent(function: Function, parameters: Sequence[Array], eta: Sequence[float]) -> Array:
    """J diag(η) Jᵀ, J the derivative of a vector-valued function by all parameters."""
    total = np.zeros(())
    for i, (p, e) in enumerate(zip(parameters, eta, strict=True)):
        for entry in np.ndindex(np.shape(p)):
            moving = [np.zeros(np.shape(q)) for q in parameters]
            moving[i][entry] = 1.0
            slope = along(function, parameters, moving)
            total = total + e * np.outer(slope, slope)
    return total


def kernel(parameters: Sequence[Array], X: Array, eta: Sequence[float]) -> Array:
    """The tangent kernel of AᵀWx over samples and outputs, output by output."""
    return tangent(lambda p: vec(X @ beta_of(p)), parameters, eta)


def flow(parameters: Sequence[Array], X: Array, Y: Array, times: Row, eta: Sequence[float]) -> list[list[Array]]:
    """[A, W] at the given times, integrated."""
    (A, W), (eta_a, eta_w) = parameters, eta
    first, second = layers([W, A.T], Y.T @ X, times, X.T @ X, rates=(eta_w, eta_a))
    return [[A_t.T, W_t] for A_t, W_t in zip(second, first, strict=True)]


def rates(rng: Rng) -> tuple[float, float]:
    """η_a and η_w, between a third and three."""
    eta_a, eta_w = 3.0 ** rng.uniform(-1, 1, size=2)
    return float(eta_a), float(eta_w)


def data(rng: Rng, d: int, c: int) -> tuple[Array, Array]:
    """Inputs and targets of fewer or more samples than inputs, neither white nor of full rank."""
    n = int(rng.integers(1, d + 3))
    return rng.normal(size=(n, d)), rng.normal(size=(n, c))


def isotropic(rng: Rng, d: int, h: int, c: int, delta: float, eta: Sequence[float] = (1.0, 1.0)) -> list[Array]:
    """[A, W] with η_w AAᵀ − η_a WWᵀ = δI."""
    first, second = draws.lambda_balanced(rng, d, h, c, delta, scale=0.8)
    return [second.T / np.sqrt(eta[1]), first / np.sqrt(eta[0])]


def with_deltas(betas: Array, delta: float, eta: Sequence[float]) -> list[Array]:
    """[A, W] of neurons whose parts w_k a_kᵀ of β are `betas` (h, d, c), as one layer takes over with growing |δ|.

    The heavy layer has η‖·‖² = |δ|, the other what is left, so that δ_k = δ(1 − O(δ⁻²)).
    """
    U, s, Vt = np.linalg.svd(betas)
    eta_a, eta_w = eta
    size = np.sqrt(delta / eta_w) if delta > 0 else np.sqrt(-delta / eta_a)
    a_norms, w_norms = (np.full(len(s), size), s[:, 0] / size) if delta > 0 else (s[:, 0] / size, np.full(len(s), size))
    return [a_norms[:, None] * Vt[:, 0, :], w_norms[:, None] * U[:, :, 0]]


def even_limit(value: Callable[[float], Values], at: float) -> Values:
    """The limit for x → ∞ of what differs from it by a series in 1/x², from x and 2x: right to O(x⁻⁴)."""
    return (4 * value(2 * at) - value(at)) / 3


def spread_and_mean(matrix: Array) -> Array:
    """The mean square of the eigenvalues of a symmetric matrix, ‖·‖²_F/n, and their mean, tr/n."""
    return np.array([np.sum(matrix**2), np.trace(matrix)]) / len(matrix)


def beyond_chance(measured: Callable[[int], Real], limit: Sequence[float], widths: tuple[int, int] = (16, 32)) -> float:
    """By how many standard errors, beyond five, random quantities miss their limit for infinite width.

    Means over 200 draws at a width and at twice that, extrapolated to infinity in powers of 1/width. Five are exceeded
    by chance in one of a million draws; where the limit is right the answer is negative.
    """
    narrow, wide = (np.array([measured(width) for _ in range(200)]) for width in widths)
    found = 2 * wide.mean(axis=0) - narrow.mean(axis=0)
    errors = np.sqrt((4 * wide.var(axis=0, ddof=1) + narrow.var(axis=0, ddof=1)) / len(wide))
    return float(np.max(np.abs(found - limit) / errors)) - 5


def difference_quotient(function: Callable[[float], Values], step: float = 1e-2) -> Array:
    """Slope at 0 of a smooth function that takes real numbers only, by central differences of order 6."""
    weights = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}
    return sum(w * (function(k * step) - function(-k * step)) for k, w in weights.items()) / step
