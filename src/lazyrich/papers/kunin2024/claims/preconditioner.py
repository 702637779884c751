"""Function space: M that preconditions the flow of β (Theorem 2), in which layer it lies for large |δ|, one neuron."""

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.oracles import along, relative_error
from lazyrich.papers.base.types import Rng
from lazyrich.papers.kunin2024 import formulas
from lazyrich.papers.kunin2024.claims.measures import (
    beta_of,
    data,
    even_limit,
    flow,
    loss_of,
    rates,
    tangent,
    vec,
    velocity,
    with_deltas,
)
from lazyrich.papers.kunin2024.claims.wide import conserved_with_rates, gaussian, kronecker_sum, sizes
from lazyrich.papers.kunin2024.wide import wide_preconditioner

_FAR = 1e3  # |δ| of the first of two values from which a limit is extrapolated: what remains is of order 1e-12


def preconditioner_of(parameters: list[Array], eta: tuple[float, float]) -> Array:
    """M by brute force: the tangent kernel of vec(β)."""
    return tangent(lambda p: vec(beta_of(p)), parameters, eta)


@claim(
    "kunin2024/wide-function-space",
    place="Section 4, dynamics of vec(β); Appendix, Function space dynamics",
    statement="The linear map β = WᵀA follows the gradient of the loss, preconditioned by a matrix M of AᵀA and WᵀW.",
    formula=r"\dot\beta = -\left(\eta_w X^\top(X\beta - Y)A^\top A + \eta_a W^\top W X^\top(X\beta - Y)\right),"
    r" \qquad \operatorname{vec}(\dot\beta) = -(\eta_w A^\top A \oplus \eta_a W^\top W)"
    r"\operatorname{vec}(X^\top X\beta - X^\top Y)",
    conditions="Any data, sizes, weights and rates; vec goes column by column.",
    tolerance=1e-12,
)
def wide_function_space(rng: Rng) -> float:
    d, h, c = sizes(rng)
    (X, Y), (A, W), eta = data(rng, d, c), gaussian(rng, d, h, c), rates(rng)
    truth = along(beta_of, [A, W], velocity(loss_of(X, Y), [A, W], eta))
    rest = X.T @ (X @ W.T @ A - Y)
    as_matrix = -(eta[1] * rest @ A.T @ A + eta[0] * W.T @ W @ rest)
    as_vector = -kronecker_sum(eta[1] * A.T @ A, eta[0] * W.T @ W) @ vec(rest)
    return max(relative_error(as_matrix, truth), relative_error(as_vector, vec(truth)))


@claim(
    "kunin2024/wide-neurons",
    place="Appendix, proof of Theorem 2",
    statement="What a neuron adds to β, and its conserved number, tell the norms of its weights, and their outer "
    "products.",
    formula=r"a_k a_k^\top = \frac{\sqrt{\delta_k^2 + 4\eta_a\eta_w\|\beta_k\|_F^2} + \delta_k}{2\eta_w}"
    r"\frac{\beta_k^\top\beta_k}{\|\beta_k\|_F^2}, \qquad"
    r" w_k w_k^\top = \frac{\sqrt{\delta_k^2 + 4\eta_a\eta_w\|\beta_k\|_F^2} - \delta_k}{2\eta_a}"
    r"\frac{\beta_k\beta_k^\top}{\|\beta_k\|_F^2}",
    conditions="β_k = w_k a_kᵀ ≠ 0; δ_k = η_w‖a_k‖² − η_a‖w_k‖².",
    tolerance=1e-9,
    seeds=8,
)
def wide_neurons(rng: Rng) -> float:
    """After some time, with δ_k from the start."""
    d, h, c = sizes(rng, 3)
    (X, Y), start, (eta_a, eta_w) = data(rng, d, c), gaussian(rng, d, h, c), rates(rng)
    ((A, W),) = flow(start, X, Y, [0.2], (eta_a, eta_w))
    deltas, error = np.diag(conserved_with_rates(start, (eta_a, eta_w))), 0.0
    for a, w, delta in zip(A, W, deltas, strict=True):
        beta = np.outer(w, a)
        size = np.sum(beta**2)
        kappa = np.sqrt(delta**2 + 4 * eta_a * eta_w * size)
        aa = (kappa + delta) / (2 * eta_w) * beta.T @ beta / size
        ww = (kappa - delta) / (2 * eta_a) * beta @ beta.T / size
        error = max(error, *(relative_error(f, np.outer(v, v)) for f, v in ((aa, a), (ww, w))))
    return error


def sum_over_neurons(A: Array, W: Array, deltas: Array, eta: tuple[float, float]) -> Array:
    """M = Σ_k M_k of Theorem 2."""
    betas = np.einsum("kc,kd->kcd", A, W)
    return wide_preconditioner(betas, deltas, (eta[1], eta[0])).matrix


@claim(
    "kunin2024/theorem-2",
    place="Theorem 2",
    statement="M is a sum over hidden neurons, each of which enters through its part β_k = w_k a_kᵀ of β and its "
    "conserved number δ_k alone.",
    formula=r"M = \sum_{k=1}^h \frac{\sqrt{\delta_k^2 + 4\eta_a\eta_w\|\beta_k\|_F^2} + \delta_k}{2}"
    r"\frac{\beta_k^\top\beta_k}{\|\beta_k\|_F^2} \oplus"
    r"\frac{\sqrt{\delta_k^2 + 4\eta_a\eta_w\|\beta_k\|_F^2} - \delta_k}{2}\frac{\beta_k\beta_k^\top}{\|\beta_k\|_F^2}",
    conditions="All β_k ≠ 0; any data, sizes and rates.",
    tolerance=1e-9,
    seeds=4,
)
def theorem_2(rng: Rng) -> float:
    """After some time, with δ_k from the start."""
    d, h, c = sizes(rng, 3)
    (X, Y), start, eta = data(rng, d, c), gaussian(rng, d, h, c), rates(rng)
    ((A, W),) = flow(start, X, Y, [0.2], eta)
    printed = sum_over_neurons(A, W, np.diag(conserved_with_rates(start, eta)), eta)
    return relative_error(printed, tangent(lambda p: vec(beta_of(p)), [A, W], eta))


def one_neuron(beta: Array, delta: float, eta: tuple[float, float]) -> Array:
    """M as printed for h = c = 1 (β a column) or h = d = 1 (β a row)."""
    size = np.sum(beta**2)
    kappa = np.sqrt(delta**2 + 4 * eta[0] * eta[1] * size)
    if beta.shape[1] == 1:
        return formulas.preconditioner(np.sqrt(eta[0] * eta[1]) * beta[:, 0], delta)
    return (kappa + delta) / 2 * beta.T @ beta / size + (kappa - delta) / 2 * np.eye(beta.shape[1])


@claim(
    "kunin2024/one-neuron-architectures",
    place="Appendix, Understanding M when there is a single neuron",
    statement="For one hidden neuron M is a multiple of the identity plus one of the projector onto β; with one output "
    "δ > 0 favours the identity, with one input δ < 0 does. With one input and one output M is a number.",
    formula=r"M = \begin{cases} \tfrac{\kappa+\delta}{2}I_d + "
    r"\tfrac{\kappa-\delta}{2}\tfrac{\beta\beta^\top}{\|\beta\|^2}"
    r" & h = c = 1 \\ \tfrac{\kappa+\delta}{2}\tfrac{\beta^\top\beta}{\|\beta\|^2} + \tfrac{\kappa-\delta}{2}I_c"
    r" & h = d = 1 \\ \kappa & h = d = c = 1 \end{cases}"
    r" \qquad \kappa = \sqrt{\delta^2 + 4\eta_a\eta_w\|\beta\|^2}",
    conditions="One hidden neuron, min(d, c) = 1, β ≠ 0.",
    tolerance=1e-10,
    seeds=4,
)
def one_neuron_architectures(rng: Rng) -> float:
    size = int(rng.integers(1, 5))
    d, c = (size, 1) if rng.integers(2) else (1, size)
    (A, W), eta = gaussian(rng, d, 1, c), rates(rng)
    delta, truth = float(conserved_with_rates([A, W], eta).item()), preconditioner_of([A, W], eta)
    errors = [relative_error(one_neuron(beta_of([A, W]), delta, eta), truth)]
    if size == 1:
        kappa = np.sqrt(delta**2 + 4 * eta[0] * eta[1] * np.sum(beta_of([A, W]) ** 2))
        errors.append(relative_error([[kappa]], truth))
    return max(errors)


@claim(
    "kunin2024/one-neuron-limits",
    place="Appendix, Understanding M when there is a single neuron, limits",
    statement="As |δ| grows at fixed β, M of one neuron becomes proportional to the identity where the one layer that "
    "is left to move reaches all of function space (one output and δ → ∞, one input and δ → −∞), and to the projector "
    "onto β otherwise; with one input and one output it becomes constant either way.",
    formula=r"\frac{M}{|\delta|} \to \begin{cases} I_d & c = 1,\ \delta\to\infty \\"
    r" \beta\beta^\top/\|\beta\|^2 & c = 1,\ \delta\to-\infty \\"
    r" \beta^\top\beta/\|\beta\|^2 & d = 1,\ \delta\to\infty \\ I_c & d = 1,\ \delta\to-\infty \end{cases}",
    conditions="One hidden neuron, min(d, c) = 1, β ≠ 0 fixed.",
    tolerance=1e-9,
    seeds=4,
)
def one_neuron_limits(rng: Rng) -> float:
    size, sign = int(rng.integers(1, 5)), float(rng.choice([-1.0, 1.0]))
    d, c = (size, 1) if rng.integers(2) else (1, size)
    beta, eta = rng.normal(size=(d, c)), rates(rng)
    direction = vec(beta) / np.linalg.norm(beta)
    identity = sign > 0 if c == 1 else sign < 0
    limit = np.eye(size) if identity else np.outer(direction, direction)
    return relative_error(limit, even_limit(lambda x: preconditioner_over_delta(beta[None], sign * x, eta), _FAR))


def preconditioner_over_delta(betas: Array, delta: float, eta: tuple[float, float]) -> Array:
    """M/|δ| by brute force, of neurons whose δ_k are nearly δ."""
    return preconditioner_of(with_deltas(betas, delta, eta), eta) / abs(delta)


@claim(
    "kunin2024/theorem-6-limit",
    place="Proof of Theorem 6",
    statement="As |δ_k| grows at fixed β_k, a neuron moves β in the row space of β_k alone (δ_k → ∞) or in its column "
    "space alone (δ_k → −∞), so that β_k follows a projected gradient.",
    formula=r"\frac{M_k}{|\delta_k|} \to \frac{\beta_k^\top\beta_k}{\|\beta_k\|_F^2} \otimes I_d"
    r"\ (\delta_k\to\infty), \qquad \frac{M_k}{|\delta_k|} \to I_c \otimes \frac{\beta_k\beta_k^\top}{\|\beta_k\|_F^2}"
    r"\ (\delta_k\to-\infty), \qquad \frac{\dot\beta_k}{|\delta_k|} \to"
    r" -\frac{\partial\mathcal L}{\partial\beta}\frac{\beta_k^\top\beta_k}{\|\beta_k\|_F^2}\ (\delta_k\to\infty)",
    conditions="β_k ≠ 0 fixed.",
    tolerance=1e-9,
    seeds=9,
)
def theorem_6_limit(rng: Rng) -> float:
    d, c = (int(n) for n in rng.integers(1, 5, size=2))
    beta, eta, (X, Y) = np.outer(rng.normal(size=d), rng.normal(size=c)), rates(rng), data(rng, d, c)
    size, slope = np.sum(beta**2), X.T @ (X @ beta - Y)
    errors = []
    for sign in (-1.0, 1.0):
        rows, columns = beta.T @ beta / size, beta @ beta.T / size
        limit = np.kron(rows, np.eye(d)) if sign > 0 else np.kron(np.eye(c), columns)
        errors.append(
            relative_error(limit, even_limit(lambda x: preconditioner_over_delta(beta[None], x, eta), sign * _FAR))
        )
        follows = -slope @ rows if sign > 0 else -columns @ slope
        errors.append(
            relative_error(follows, even_limit(lambda x: _velocity_over_delta(beta, x, X, Y, eta), sign * _FAR))
        )
    return max(errors)


def _velocity_over_delta(beta: Array, delta: float, X: Array, Y: Array, eta: tuple[float, float]) -> Array:
    """β̇/|δ| of a single neuron."""
    start = with_deltas(beta[None], delta, eta)
    return along(beta_of, start, velocity(loss_of(X, Y), start, eta)) / abs(delta)
