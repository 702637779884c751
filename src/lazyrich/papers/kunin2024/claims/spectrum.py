"""Singular values of β under isotropic starts: their flow (Lemma 10), and their mirror flow (Theorem 11)."""

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import gradient, relative_error
from lazyrich.papers.base.types import Rng
from lazyrich.papers.kunin2024.claims.measures import (
    beta_of,
    data,
    difference_quotient,
    even_limit,
    flow,
    isotropic,
    loss_of,
    velocity,
)
from lazyrich.papers.kunin2024.wide import hyperbolic_entropy

NOT_CHECKED = (
    NotChecked(
        "Appendix, after Theorem 11",
        "The mirror flow of the singular values says nothing about which solution is reached, since the singular "
        "vectors move.",
        "That no such statement can be derived is not a statement that can be measured.",
    ),
)


def singular_values(matrix: Array) -> Array:
    return np.linalg.svd(matrix, compute_uv=False)


def true_velocity(parameters: list[Array], X: Array, Y: Array) -> Array:
    """λ̇, the singular values' slope by differences as the weights move with unit rates."""
    moving = velocity(loss_of(X, Y), parameters, (1.0, 1.0))
    step = 1e-3 / max(float(np.linalg.norm(v)) for v in moving)  # small beside the gaps between singular values
    # the weights go straight: the singular values of rank-deficient products then stay at zero
    return difference_quotient(
        lambda t: singular_values(beta_of([p + t * v for p, v in zip(parameters, moving, strict=True)])), step
    )


def drawn(rng: Rng, wide: bool) -> tuple[list[Array], float, Array, Array]:
    """[A, W] with Δ = δI and separate singular values, δ, and data; h ≥ min(d, c) where `wide`."""
    while True:
        d, h, c, sign = *(int(n) for n in rng.integers(1, 5, size=3)), int(rng.choice([-1, 1]))
        if (sign > 0 and h > c) or (sign < 0 and h > d) or (wide and h < min(d, c)):
            continue
        delta = float(sign * rng.uniform(0.3, 2.0))
        start = isotropic(rng, d, h, c, delta)
        values = singular_values(beta_of(start))[: min(d, h, c)]
        if np.all(np.diff([*values, 0.0]) < -0.1):
            return start, delta, *data(rng, d, c)


@claim(
    "kunin2024/singular-value-slope",
    place="Appendix, Deriving a mirror flow for the singular values of β",
    statement="A singular value changes by what the singular vectors see of the change of the matrix.",
    formula=r"\dot\sigma = u^\top\dot\beta v, \qquad \dot\lambda = \operatorname{diag}(U^\top\dot\beta V)",
    conditions="Singular values that are simple and not zero.",
    tolerance=1e-8,
)
def singular_value_slope(rng: Rng) -> float:
    d, c = (int(n) for n in rng.integers(1, 5, size=2))
    beta, U, _, V = draws.target(rng, d, c)
    moving = rng.normal(size=(d, c))
    truth = difference_quotient(lambda t: singular_values(beta + t * moving), 1e-3)
    return relative_error(np.diag(U.T @ moving @ V), truth)


@claim(
    "kunin2024/loss-by-singular-values",
    place="Proof of Lemma 10",
    statement="The slope of the squared loss in a singular value, the singular vectors held fixed.",
    formula=r"\frac{\partial\mathcal L}{\partial\lambda_i} = \left(U^\top X^\top(X\beta - Y)V\right)_{ii}",
    conditions="Any data; β = U diag(λ) Vᵀ.",
    tolerance=1e-12,
)
def loss_by_singular_values(rng: Rng) -> float:
    d, c = (int(n) for n in rng.integers(1, 5, size=2))
    (X, Y), (beta, U, s, V) = data(rng, d, c), draws.target(rng, d, c)
    (truth,) = gradient(lambda p: ((X @ (U * p[0]) @ V.T - Y) ** 2).sum() / 2, [s])
    return relative_error(np.diag(U.T @ X.T @ (X @ beta - Y) @ V), truth)


def slope_by_singular_values(beta: Array, X: Array, Y: Array) -> Array:
    """∇_λ L at the singular vectors of β."""
    U, _, Vt = np.linalg.svd(beta, full_matrices=False)
    return np.diag(U.T @ X.T @ (X @ beta - Y) @ Vt.T)


@claim(
    "kunin2024/lemma-10",
    place="Lemma 10",
    statement="Under an isotropic start each singular value moves on its own, at √(δ² + 4λ²) times the slope of the "
    "loss; those beyond the number of neurons stay at zero.",
    formula=r"\dot\lambda = -M\nabla_\lambda\mathcal L, \qquad M_{ii} = \begin{cases} \sqrt{\delta^2 + 4\lambda_i^2}"
    r" & i \le \min(d, h, c) \\ 0 & \text{otherwise} \end{cases}",
    conditions="Δ = δI, unit rates; the singular values among the first min(d, h, c) simple and not zero.",
    tolerance=1e-8,
    seeds=6,
)
def lemma_10(rng: Rng) -> float:
    start, delta, X, Y = drawn(rng, wide=False)
    beta = beta_of(start)
    values = singular_values(beta)
    M = np.sqrt(delta**2 + 4 * values**2) * (np.arange(len(values)) < min(*beta.shape, len(start[0])))
    return relative_error(-M * slope_by_singular_values(beta, X, Y), true_velocity(start, X, Y))


@claim(
    "kunin2024/theorem-11",
    place="Theorem 11",
    statement="So the singular values follow a mirror flow, whose potential is the hyperbolic entropy of each.",
    formula=r"\dot\lambda = -\left(\nabla^2\Phi_\delta(\lambda)\right)^{-1}\nabla_\lambda\mathcal L, \qquad"
    r" \Phi_\delta = \sum_i q_\delta(\lambda_i), \qquad q_\delta(x) = \tfrac14\left(2x\sinh^{-1}\tfrac{2x}{|\delta|}"
    r" - \sqrt{4x^2 + \delta^2} + |\delta|\right)",
    conditions="Δ = δI with δ ≠ 0, h ≥ min(d, c), unit rates; singular values simple and not zero.",
    tolerance=1e-7,  # a second difference of the potential
    seeds=6,
)
def theorem_11(rng: Rng) -> float:
    """The curvature of the potential by differences of its values."""
    start, delta, X, Y = drawn(rng, wide=True)
    beta = beta_of(start)
    values, step = singular_values(beta), 0.02 * abs(delta)
    weights = {0: -49 / 18, 1: 3 / 2, 2: -3 / 20, 3: 1 / 90}  # of order 6
    both = {k * sign: w for k, w in weights.items() for sign in (1, -1)}
    curvature = sum(w * hyperbolic_entropy(values + k * step, delta).value for k, w in both.items()) / step**2
    return relative_error(-slope_by_singular_values(beta, X, Y) / curvature, true_velocity(start, X, Y))


def entropy(values: Array, delta: float) -> float:
    """Φ_δ."""
    return float(np.sum(hyperbolic_entropy(values, delta).value))


@claim(
    "kunin2024/entropy-limits",
    place="Section 4, before deep networks; Appendix, after Theorem 11",
    statement="The hyperbolic entropy goes over into an ℓ2 penalty on the singular values for δ → ±∞ (lazy), and into "
    "an ℓ1 penalty for δ → 0 (rich), where it grows like ln(1/|δ|).",
    formula=r"\frac{\Phi_\delta(\lambda)}{\Phi_\delta(\lambda')} \to \frac{\|\lambda\|_2^2}{\|\lambda'\|_2^2}"
    r"\ (\delta\to\pm\infty), \qquad \frac{\Phi_\delta(\lambda)}{\Phi_\delta(\lambda')} \to"
    r" \frac{\|\lambda\|_1}{\|\lambda'\|_1}\ (\delta\to0)",
    conditions="λ, λ' > 0.",
    tolerance=1e-8,
)
def entropy_limits(rng: Rng) -> float:
    """For δ → 0 by what the potential gains between two small δ, which rids it of all that stays bounded."""
    one, other = rng.uniform(0.2, 3.0, size=3), rng.uniform(0.2, 3.0, size=3)
    sign = float(rng.choice([-1.0, 1.0]))
    lazy = even_limit(lambda x: entropy(one, sign * x) / entropy(other, sign * x), 1e3)
    gains = [entropy(v, sign * 1e-12) - entropy(v, sign * 1e-10) for v in (one, other)]
    norms = [np.sum(one**2) / np.sum(other**2), np.sum(one) / np.sum(other)]
    return relative_error([lazy, gains[0] / gains[1]], norms)


@claim(
    "kunin2024/aligned-end",
    place="Appendix, after Theorem 11",
    statement="From a start that shares the singular vectors of β*, with white inputs, the singular vectors stay, the "
    "modes decouple, and the solution reached is the same for every δ.",
    formula=r"\beta_0 = U\operatorname{diag}(\lambda_0)V^\top,\ \beta_* = U\operatorname{diag}(s)V^\top \;\Rightarrow\;"
    r" \beta(t) = U\operatorname{diag}(\lambda(t))V^\top,\ \beta(\infty) = \beta_*",
    conditions="White inputs, Δ = δI with δ ≠ 0, h ≥ min(d, c).",
    tolerance=1e-8,
)
def aligned_end(rng: Rng) -> float:
    """Also from strengths below zero, through which a flow with δ ≠ 0 passes."""
    n, delta = int(rng.integers(1, 4)), float(rng.choice([-1.0, 1.0]) * rng.uniform(0.5, 2.0))
    beta_star, U, _, V = draws.target(rng, n, n)
    small, signs, R = rng.uniform(0.2, 0.8, size=n), rng.choice([-1.0, 1.0], size=n), draws.orthogonal(rng, n)
    first, second = (np.sqrt(small**2 + max(sign * delta, 0.0)) for sign in (-1, 1))
    start = [(R * second * signs) @ V.T, (R * first) @ U.T]
    middle, end = (beta_of(p) for p in flow(start, np.eye(n), beta_star, [0.7, 40.0], (1.0, 1.0)))
    strengths = U.T @ middle @ V
    return max(relative_error(np.diag(np.diag(strengths)), strengths), relative_error(end, beta_star))
