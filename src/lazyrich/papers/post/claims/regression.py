"""One layer: the gradient, its equation, its solution, and four conclusions from it."""

from collections.abc import Sequence
from functools import reduce

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.oracles import flow_of, gradient, hessian, integrate, product, relative_error
from lazyrich.papers.base.searches import critical_point
from lazyrich.papers.base.types import Loss, Rng


def squared_error(X: Array, Y: Array) -> Loss:
    """Σ_μ ‖y − Wx‖² as a function of the layers whose product is W."""
    return lambda weights: ((Y - X @ product(weights).T) ** 2).sum()


def data_with(rng: Rng, C31: Array, samples: int = 6) -> tuple[Array, Array]:
    """Inputs with Σ xxᵀ = I and targets with Σ yxᵀ = C31, which they do not determine; rows are samples."""
    d_out, d_in = C31.shape
    X, noise = draws.orthogonal(rng, samples, d_in), rng.normal(size=(samples, d_out))
    return X, X @ C31.T + noise - X @ (X.T @ noise)


def sums(X: Array, Y: Array) -> tuple[Array, Array]:
    """C31 = Σ yxᵀ and C11 = Σ xxᵀ, sample by sample."""
    return reduce(np.add, map(np.outer, Y, X)), reduce(np.add, map(np.outer, X, X))


def descended(loss: Loss, weights: Sequence[Array], time: float) -> list[Array]:
    """Gradient descent itself, λ·steps = time and the 2 absorbed in λ, in the limit λ → 0 (Richardson)."""
    ends = []
    for steps in 8 * 2 ** np.arange(7):
        layers, half = [np.array(W) for W in weights], time / steps / 2
        for _ in range(steps):
            layers = [W - half * slope for W, slope in zip(layers, gradient(loss, layers), strict=True)]
        ends.append(layers)
    for order in range(1, len(ends)):
        pairs = zip(ends[1:], ends[:-1], strict=True)
        ends = [[fine + (fine - coarse) / (2**order - 1) for fine, coarse in zip(*pair, strict=True)] for pair in pairs]
    return ends[0]


def solution(W0: Array, C31: Array, time_over_tau: Array) -> Array:
    """W(0) e^{−t/τ} + C31 (1 − e^{−t/τ})."""
    decay = np.exp(-np.asarray(time_over_tau))[:, None, None]
    return W0 * decay + C31 * (1 - decay)


@claim(
    "post/correlation-coefficient",
    place="Sidenote to C31",
    statement="Where the values of an input over all samples, and those of an output, have mean zero and length one, "
    "the entry of C31 is their correlation coefficient.",
    formula=r"C^{31}_{ij} = \operatorname{corr}(y_i, x_j)",
    conditions="Zero mean and unit length of both variables over the samples.",
    tolerance=1e-13,
)
def correlation_coefficient(rng: Rng) -> float:
    """Against NumPy's, of the variables before they are centred and scaled."""
    X, Y = rng.normal(size=(9, 3)) + 1.0, rng.normal(size=(9, 2))
    Y += X[:, :2] * rng.normal(size=2)
    unit = [(Z - Z.mean(axis=0)) / np.linalg.norm(Z - Z.mean(axis=0), axis=0) for Z in (X, Y)]
    return relative_error(sums(*unit)[0], np.corrcoef(X.T, Y.T)[3:, :3])


@claim(
    "post/regression-gradient",
    place="Linear regression, the first two displays",
    statement="The slope of the summed squared error in one weight is minus twice the sum of error times input; for "
    "all weights, it is what C31 has beyond W C11.",
    formula=r"\frac{\partial L_{lr}}{\partial W_{ij}} = -2\sum_\mu (y^\mu - W x^\mu)_i\, x^\mu_j, \qquad "
    r"\nabla_W L_{lr} = -2\,(C^{31} - W C^{11})",
    conditions="Any data, any W.",
    tolerance=1e-12,
)
def regression_gradient(rng: Rng) -> float:
    X, Y, W = rng.normal(size=(7, 3)), rng.normal(size=(7, 2)), rng.normal(size=(2, 3))
    C31, C11 = sums(X, Y)
    entries = [[-2 * sum((y - W @ x)[i] * x[j] for x, y in zip(X, Y, strict=True)) for j in range(3)] for i in range(2)]
    (truth,) = gradient(squared_error(X, Y), [W])
    return max(relative_error(entries, truth), relative_error(-2 * (C31 - W @ C11), truth))


@claim(
    "post/regression-flow",
    place="Linear regression, ΔW and the differential equation",
    statement="Small steps of gradient descent, the 2 absorbed in their rate λ, follow a differential equation whose "
    "time constant is 1/λ when time counts steps.",
    formula=r"\Delta W = \lambda\,(C^{31} - W C^{11}) \;\Rightarrow\; \tau\,\frac{dW}{dt} = C^{31} - W C^{11},"
    r"\qquad \tau = 1/\lambda",
    conditions="Any data, any start; λ → 0 at a given t/τ.",
    tolerance=1e-9,
)
def regression_flow(rng: Rng) -> float:
    """Against steps along the gradient, with λ down to 1/512 of the time and extrapolated to none."""
    X, Y, W = rng.normal(size=(4, 2)) / 2, rng.normal(size=(4, 2)), rng.normal(size=(2, 2))
    C31, C11 = sums(X, Y)
    time = rng.uniform(0.3, 0.8)
    (truth,) = descended(squared_error(X, Y), [W], time)
    return relative_error(integrate(lambda W: C31 - W @ C11, W, [time])[0], truth)


@claim(
    "post/regression-solution",
    place="Linear regression, τ dW_ij/dt and W_ij(t)",
    statement="With white inputs every weight decays exponentially, by itself, from where it starts to the entry of "
    "C31.",
    formula=r"\tau\,\frac{dW_{ij}}{dt} = C^{31}_{ij} - W_{ij} \;\Rightarrow\; "
    r"W_{ij}(t) = W_{ij}(0)\,e^{-t/\tau} + C^{31}_{ij}\,(1 - e^{-t/\tau})",
    conditions="White inputs, C11 = I; any targets and any start.",
    tolerance=1e-9,
)
def regression_solution(rng: Rng) -> float:
    """Against the flow of the loss, which knows nothing of C31."""
    loss, C31, W0, tau = _regression(rng)
    times = tau * np.array([0.0, 0.3, 1.0, 4.0])
    return relative_error(solution(W0, C31, times / tau), flow_of(loss, [W0], times, rates=[0.5 / tau])[0])


@claim(
    "post/regression-linear",
    place="Linear regression, conclusion (i)",
    statement="Learning is linear: the velocity at a mixture of two weights is the mixture of their velocities.",
    formula=r"\dot W(pW + (1-p)W') = p\,\dot W(W) + (1-p)\,\dot W(W')",
    conditions="White inputs, C11 = I.",
    tolerance=1e-12,
)
def regression_linear(rng: Rng) -> float:
    loss, _, W, _ = _regression(rng)
    return departure_from_linear(loss, [W], [rng.normal(size=W.shape)], rng.normal())


def departure_from_linear(loss: Loss, one: Sequence[Array], other: Sequence[Array], p: float) -> float:
    """How far the gradient at p·one + (1 − p)·other is from the mixture of the gradients."""
    mixed = [p * A + (1 - p) * B for A, B in zip(one, other, strict=True)]
    gradients = [np.concatenate([g.ravel() for g in gradient(loss, weights)]) for weights in (mixed, one, other)]
    return relative_error(p * gradients[1] + (1 - p) * gradients[2], gradients[0])


@claim(
    "post/regression-independent",
    place="Linear regression, conclusion (ii)",
    statement="Weights do not interact: the velocity of one does not change with another.",
    formula=r"\frac{\partial \dot W_{ij}}{\partial W_{kl}} = 0 \quad\text{for } (i,j) \ne (k,l)",
    conditions="White inputs, C11 = I.",
    tolerance=1e-8,
)
def regression_independent(rng: Rng) -> float:
    loss, _, W, _ = _regression(rng)
    return interaction(loss, [W])


def interaction(loss: Loss, weights: Sequence[Array]) -> float:
    """The largest second derivative in two different weights, relative to the largest in one."""
    H = hessian(loss, weights)
    return float(np.abs(H - np.diag(np.diag(H))).max() / np.abs(np.diag(H)).max())


@claim(
    "post/regression-fixed-point",
    place="Linear regression, conclusion (iii)",
    statement="There is one fixed point, W = C31, and it is stable.",
    formula=r"W^{FP} = C^{31}",
    conditions="White inputs, C11 = I.",
    tolerance=1e-9,
)
def regression_fixed_point(rng: Rng) -> float:
    """Searched for from three places; where a direction does not lead back, the error is 1."""
    loss, C31, W, _ = _regression(rng)
    starts = [W, 10 * rng.normal(size=W.shape), 0.0 * W]
    unstable = np.linalg.eigvalsh(hessian(loss, [C31])).min() <= 0.1
    return max(float(unstable), *(relative_error(critical_point(loss, [start])[0], C31) for start in starts))


@claim(
    "post/regression-timescale",
    place="Linear regression, conclusion (iv)",
    statement="All weights learn with the same time constant τ.",
    formula=r"\ln\left|\frac{W_{ij}(0) - C^{31}_{ij}}{W_{ij}(t) - C^{31}_{ij}}\right| = \frac{t}{\tau}",
    conditions="White inputs, C11 = I; a weight that is not at its end already.",
    tolerance=1e-9,
)
def regression_timescale(rng: Rng) -> float:
    loss, C31, W, tau = _regression(rng)
    W0 = C31 + rng.choice([-1.0, 1.0], size=W.shape) * rng.uniform(0.3, 1.5, size=W.shape)
    times = tau * np.array([0.5, 2.0])
    (Wt,) = flow_of(loss, [W0], times, rates=[0.5 / tau])
    passed = np.log(np.abs((W0 - C31) / (Wt - C31)))
    return relative_error(passed * tau / times[:, None, None], np.ones_like(passed))


def _regression(rng: Rng) -> tuple[Loss, Array, Array, float]:
    """The loss of white data, its C31, weights, and a time constant."""
    C31 = rng.normal(size=(2, 3))
    loss = squared_error(*data_with(rng, C31))
    return loss, C31, rng.normal(size=(2, 3)), float(rng.uniform(0.5, 20.0))
