"""Piecewise linear networks f(x) = aᵀσ(Wx), σ(z) = max(z, γz): how each neuron moves.

Parameters are [a, W] with the rates (η_a, η_w). Derivatives are complex steps, which see σ as the linear map that it is
on each side of zero.
"""

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.oracles import along, relative_error
from lazyrich.papers.base.types import Loss, Rng
from lazyrich.papers.kunin2024 import formulas
from lazyrich.papers.kunin2024.claims.measures import rates, tangent, velocity

Eta = tuple[float, float]


def sigma(z: Array, gamma: float) -> Array:
    """max(z, γz), for complex z on the side of its real part."""
    return np.where(np.real(z) > 0, z, gamma * z)


def outputs(parameters: list[Array], X: Array, gamma: float) -> Array:
    """f(x_i)."""
    a, W = parameters
    return sigma(X @ W.T, gamma) @ a


def loss_of(X: Array, y: Array, gamma: float) -> Loss:
    return lambda parameters: ((outputs(parameters, X, gamma) - y) ** 2).sum() / 2


def xi_of(parameters: list[Array], X: Array, y: Array, gamma: float) -> Array:
    """ξ_k = Σ_i c_ki x_i (f(x_i) − y_i), one row for each neuron, as printed."""
    c = np.where(X @ parameters[1].T > 0, 1.0, gamma)
    return (c * (outputs(parameters, X, gamma) - y)[:, None]).T @ X


def drawn(rng: Rng) -> tuple[list[Array], Array, Array, float, Eta]:
    """[a, W], data, slope γ (ReLU and leaky), and rates."""
    d, h, n = int(rng.integers(1, 4)), int(rng.integers(1, 5)), int(rng.integers(1, 7))
    gamma = float(rng.choice([0.0, rng.uniform(0.05, 0.9)]))
    return [rng.normal(size=h), rng.normal(size=(h, d))], rng.normal(size=(n, d)), rng.normal(size=n), gamma, rates(rng)


def deltas_of(parameters: list[Array], eta: Eta) -> Array:
    """δ_k = η_w a_k² − η_a‖w_k‖²."""
    a, W = parameters
    return eta[1] * a**2 - eta[0] * (W * W).sum(axis=1)


@claim(
    "kunin2024/piecewise-gradients",
    place="Appendix, Dynamics of a two-layer piecewise linear network",
    statement="How a neuron moves, with c_ki = σ′(w_kᵀx_i).",
    formula=r"\dot a_k = -\eta_a w_k^\top\Big(\sum_i c_{ki}x_i\rho_i\Big), \qquad"
    r" \dot w_k = -\eta_w a_k\Big(\sum_i c_{ki}x_i\rho_i\Big)",
    conditions="No w_kᵀx_i is zero; ρ_i = f(x_i) − y_i.",
    tolerance=1e-12,
)
def piecewise_gradients(rng: Rng) -> float:
    (a, W), X, y, gamma, eta = drawn(rng)
    xi = xi_of([a, W], X, y, gamma)
    a_dot, W_dot = velocity(loss_of(X, y, gamma), [a, W], eta)
    printed_a, printed_W = -eta[0] * (W * xi).sum(axis=1), -eta[1] * a[:, None] * xi
    size = max(np.abs(a_dot).max(), np.abs(W_dot).max()) or 1.0
    return float(max(np.abs(printed_a - a_dot).max(), np.abs(printed_W - W_dot).max()) / size)


@claim(
    "kunin2024/piecewise-conserved",
    place="Section 5, Two-layer network; Appendix, Dynamics of a two-layer piecewise linear network",
    statement="Each neuron conserves a number of its own, as in linear networks.",
    formula=r"\delta_k = \eta_w a_k^2 - \eta_a\|w_k\|^2 = \mathrm{const}",
    conditions="Any data and weights; no w_kᵀx_i is zero.",
    tolerance=1e-12,
)
def piecewise_conserved(rng: Rng) -> float:
    """The slopes of its two parts cancel. (A flow of ReLUs may slide along kinks, where integration stalls.)"""
    start, X, y, gamma, eta = drawn(rng)
    moving = velocity(loss_of(X, y, gamma), start, eta)
    gained = along(lambda p: eta[1] * p[0] ** 2, start, moving)
    lost = along(lambda p: eta[0] * (p[1] * p[1]).sum(axis=1), start, moving)
    return relative_error(gained, lost)


def beta_parts(parameters: list[Array]) -> Array:
    """β_k = a_k w_k, one row for each neuron."""
    a, W = parameters
    return a[:, None] * W


def neuron_m(beta: Array, delta: float, eta: Eta) -> Array:
    """M_k in terms of β_k and δ_k, as printed."""
    return formulas.preconditioner(np.sqrt(eta[0] * eta[1]) * beta, delta)


@claim(
    "kunin2024/piecewise-m",
    place="Section 5, dynamics of β_k; Appendix, M_k in terms of β_k and δ_k",
    statement="The part β_k = a_k w_k of a neuron is preconditioned by a matrix of β_k and δ_k alone, driven by the "
    "residuals of the samples that the neuron sees.",
    formula=r"\dot\beta_k = -M_k\xi_k, \qquad M_k = \frac{\sqrt{\delta_k^2 + 4\eta_a\eta_w\|\beta_k\|^2} + "
    r"\delta_k}{2}I_d"
    r" + \frac{\sqrt{\delta_k^2 + 4\eta_a\eta_w\|\beta_k\|^2} - \delta_k}{2}\frac{\beta_k\beta_k^\top}{\|\beta_k\|^2}",
    conditions="β_k ≠ 0; no w_kᵀx_i is zero.",
    tolerance=1e-10,
    seeds=4,
)
def piecewise_m(rng: Rng) -> float:
    start, X, y, gamma, eta = drawn(rng)
    truth = along(beta_parts, start, velocity(loss_of(X, y, gamma), start, eta))
    neurons = zip(beta_parts(start), deltas_of(start, eta), xi_of(start, X, y, gamma), strict=True)
    return relative_error(np.stack([-neuron_m(beta, delta, eta) @ xi for beta, delta, xi in neurons]), truth)


@claim(
    "kunin2024/piecewise-ntk",
    place="Section 5 and Appendix, elements of the NTK matrix",
    statement="The tangent kernel sums the preconditioners of the neurons that see both samples.",
    formula=r"K_{ij} = \sum_{k=1}^h c_{ki}\,x_i^\top M_k x_j\,c_{kj}, \qquad M_k = \eta_w a_k^2 I_d + \eta_a "
    r"w_kw_k^\top",
    conditions="No w_kᵀx_i is zero.",
    tolerance=1e-12,
)
def piecewise_ntk(rng: Rng) -> float:
    (a, W), X, _, gamma, eta = drawn(rng)
    return relative_error(printed_kernel([a, W], X, gamma, eta), tangent(lambda p: outputs(p, X, gamma), [a, W], eta))


def printed_kernel(parameters: list[Array], X: Array, gamma: float, eta: Eta) -> Array:
    """Neuron by neuron."""
    K = np.zeros((len(X), len(X)))
    for a, w in zip(*parameters, strict=True):
        c = np.where(X @ w > 0, 1.0, gamma)
        K += np.outer(c, c) * (X @ (eta[1] * a**2 * np.eye(len(w)) + eta[0] * np.outer(w, w)) @ X.T)
    return K


def spherical(parameters: list[Array]) -> Array:
    """μ_k = sgn(a_k)‖β_k‖ and β̂_k = sgn(a_k)β_k/‖β_k‖, side by side: (h, 1 + d)."""
    beta, sign = beta_parts(parameters), np.sign(np.real(parameters[0]))[:, None]
    size = np.sqrt((beta * beta).sum(axis=1))[:, None]
    return np.hstack([sign * size, sign * beta / size])


def spherical_velocity(coordinates: Array, deltas: Array, xi: Array, eta: Eta) -> Array:
    """μ̇_k and β̂̇_k as printed."""
    mu, direction = coordinates[:, :1], coordinates[:, 1:]
    kappa = np.sqrt(deltas[:, None] ** 2 + 4 * eta[0] * eta[1] * mu**2)
    radial = (direction * xi).sum(axis=1, keepdims=True)
    return np.hstack([-kappa * radial, -(kappa + deltas[:, None]) / (2 * mu) * (xi - direction * radial)])


@claim(
    "kunin2024/piecewise-spherical",
    place="Section 5 and Appendix, signed spherical coordinates",
    statement="Direction and strength of a neuron, with the sign of a_k, obey equations in which only δ_k and ξ_k "
    "enter.",
    formula=r"\dot\mu_k = -\sqrt{\delta_k^2 + 4\eta_a\eta_w\mu_k^2}\,\hat\beta_k^\top\xi_k, \qquad"
    r" \dot{\hat\beta}_k = -\frac{\sqrt{\delta_k^2 + 4\eta_a\eta_w\mu_k^2} + \delta_k}{2\mu_k}"
    r"(I_d - \hat\beta_k\hat\beta_k^\top)\xi_k",
    conditions="β_k ≠ 0; μ_k = sgn(a_k)‖β_k‖ = a_k‖w_k‖, β̂_k = sgn(a_k)β_k/‖β_k‖ = w_k/‖w_k‖.",
    tolerance=1e-9,
)
def piecewise_spherical(rng: Rng) -> float:
    """The coordinates also against what they are said to be in a_k and w_k."""
    start, X, y, gamma, eta = drawn(rng)
    norms = np.linalg.norm(start[1], axis=1)[:, None]
    in_weights = np.hstack([start[0][:, None] * norms, start[1] / norms])
    truth = along(spherical, start, velocity(loss_of(X, y, gamma), start, eta))
    printed = spherical_velocity(spherical(start), deltas_of(start, eta), xi_of(start, X, y, gamma), eta)
    return max(relative_error(in_weights, spherical(start)), relative_error(printed, truth))
