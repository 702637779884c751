"""Isotropic starts, Δ = δI: which sizes allow them, Lemmas 8 and 9, Theorem 3, and the limits of M."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import least_squares

from lazyrich._typing import Array
from lazyrich.bias.function_space import isotropic_preconditioner, layer_grams
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import integrate, relative_error
from lazyrich.papers.base.types import Rng
from lazyrich.papers.kunin2024.claims.measures import (
    beta_of,
    beyond_chance,
    data,
    even_limit,
    flow,
    isotropic,
    kernel,
    rates,
    spread_and_mean,
    tangent,
    vec,
)
from lazyrich.papers.kunin2024.claims.slips import ENTRIES

NOT_CHECKED = (
    NotChecked(
        "Section 4, after Theorem 3",
        "Wide networks with Gaussian weights of variance σ² follow the isotropic dynamics approximately, with σ²h in "
        "the place of δ.",
        "A result of other authors, of which only an analogy is quoted. From such a start M is 2σ²h I to leading "
        "order, so that 2σ²h, not σ²h, would stand for δ.",
    ),
    NotChecked(
        "Appendix, Simplifying M, after the limits",
        "For δ = 0 the dynamics are rich, and the tangent kernel changes in magnitude and direction.",
        "By how much is not said; M, from which it would follow, is entered.",
    ),
)

Eta = tuple[float, float]


@claim(
    "kunin2024/isotropic-sizes",
    place="Appendix, Simplifying M through assumptions on Δ",
    statement="Δ = δI with δ > 0 needs h ≤ c, with δ < 0 it needs h ≤ d, and only those sizes allow it.",
    formula=r"\exists A, W:\ \eta_w AA^\top - \eta_a WW^\top = \delta I_h \iff"
    r" \begin{cases} h \le c & \delta > 0 \\ h \le d & \delta < 0 \end{cases}",
    conditions="δ ≠ 0.",
    tolerance=0.0,  # true or false
)
def isotropic_sizes(rng: Rng) -> float:
    """Searched for by least squares."""
    d, h, c = (int(n) for n in rng.integers(1, 4, size=3))
    delta, (eta_a, eta_w) = float(rng.choice([-1.0, 1.0]) * rng.uniform(0.5, 2.0)), rates(rng)

    def rest(x: Array) -> Array:
        A, W = x[: h * c].reshape(h, c), x[h * c :].reshape(h, d)
        return (eta_w * A @ A.T - eta_a * W @ W.T - delta * np.eye(h)).ravel()

    found = min(least_squares(rest, rng.normal(size=h * (c + d)), xtol=1e-14, gtol=1e-14).cost for _ in range(3))
    return abs(float(h <= (c if delta > 0 else d)) - float(found < 1e-8))


def gaussian_delta(rng: Rng, h: int, sigma_a: float, sigma_w: float) -> Array:
    """Δ = AAᵀ − WWᵀ of a square Gaussian network."""
    A, W = sigma_a * rng.normal(size=(h, h)) / np.sqrt(h), sigma_w * rng.normal(size=(h, h)) / np.sqrt(h)
    return A @ A.T - W @ W.T


def _limits_missed(rng: Rng, limit: Callable[[float, float], float]) -> float:
    """By how many standard errors too many ‖Δ − δI‖²_F/h and the mean diagonal of Δ − δI miss their limits."""
    sigma_a, sigma_w = rng.uniform(0.5, 1.5, size=2)
    delta = sigma_a**2 - sigma_w**2

    def measured(h: int) -> Array:
        return spread_and_mean(gaussian_delta(rng, h, sigma_a, sigma_w) - delta * np.eye(h))

    return beyond_chance(measured, [limit(sigma_a, sigma_w) ** 2, 0.0])


@claim(
    "kunin2024/gaussian-isotropic",
    place="Appendix, Simplifying M through assumptions on Δ",
    statement="Read as: square networks with Gaussian weights become isotropic as they grow, in the sense that the "
    "eigenvalues of Δ − δI, in root mean square, vanish.",
    formula=r"A_{ij} \sim \mathcal N(0, \sigma_a^2/c),\ W_{ij} \sim \mathcal N(0, \sigma_w^2/d) \;\Rightarrow\;"
    r" \Delta \to \delta I_h,\ \delta = \sigma_a^2 - \sigma_w^2,\ h \to \infty",
    conditions="d = h = c, unit rates.",
    tolerance=0.0,  # standard errors beyond those that chance allows
)
def gaussian_isotropic(rng: Rng) -> float:
    return _limits_missed(rng, lambda sigma_a, sigma_w: 0.0)


@gaussian_isotropic.corrected(
    "The entries of Δ − δI vanish, like h^(−1/2), but there are h² of them: the eigenvalues of Δ stay spread over an "
    "interval of order one, and the matrix does not come close to δI.",
    formula=r"\tfrac1h\|\Delta - \delta I_h\|_F \to 0, \qquad \tfrac{1}{\sqrt h}\|\Delta - \delta I_h\|_F \to"
    r" \sqrt{\sigma_a^4 + \sigma_w^4}",
    slips=(ENTRIES,),
)
def gaussian_isotropic_by_entries(rng: Rng) -> float:
    """The second limit, which gives the first."""
    return _limits_missed(rng, lambda sigma_a, sigma_w: np.sqrt(sigma_a**4 + sigma_w**4))


@gaussian_isotropic.counterexample(
    "Width 400, σ_a = 1, σ_w = 0: the eigenvalues of AAᵀ, all of which should be near δ = 1, reach from about 0 to "
    "about 4; here the largest"
)
def _() -> tuple[float, float]:
    return 1.0, float(np.linalg.norm(gaussian_delta(np.random.default_rng(0), 400, 1.0, 0.0), 2))


def isotropic_after_a_while(rng: Rng, d: int, h: int, c: int, delta: float) -> tuple[list[Array], Eta]:
    """[A, W] on its way from an isotropic start, and the rates."""
    eta = rates(rng)
    (state,) = flow(isotropic(rng, d, h, c, delta, eta), *data(rng, d, c), [0.2], eta)
    return state, eta


def a_delta(rng: Rng, sign: int) -> float:
    """Of the given sign, or 0 where that is 0."""
    return float(sign * rng.uniform(0.3, 2.0))


@claim(
    "kunin2024/lemma-8",
    place="Lemma 8",
    statement="Under an isotropic start, β tells WᵀW.",
    formula=r"W^\top W = \frac{1}{\eta_a}\left(-\frac\delta2 I_d + \sqrt{\eta_a\eta_w\beta\beta^\top +"
    r" \frac{\delta^2}{4}I_d}\right)",
    conditions="Δ = δI; δ ≥ 0, or δ < 0 and h ≥ d (which leaves h = d).",
    tolerance=1e-10,
    seeds=8,
)
def lemma_8(rng: Rng) -> float:
    d, h, c = (int(n) for n in rng.integers(1, 4, size=3))
    sign = int(rng.integers(-1, 2))
    d, c = (h if sign < 0 else d), (max(h, c) if sign > 0 else c)
    delta = a_delta(rng, sign)
    (A, W), eta = isotropic_after_a_while(rng, d, h, c, delta)
    return relative_error(layer_grams(beta_of([A, W]).T, delta, eta[::-1])[0], W.T @ W)


@claim(
    "kunin2024/lemma-9",
    place="Lemma 9",
    statement="Under an isotropic start, β tells AᵀA.",
    formula=r"A^\top A = \frac{1}{\eta_w}\left(\frac\delta2 I_c + \sqrt{\eta_a\eta_w\beta^\top\beta +"
    r" \frac{\delta^2}{4}I_c}\right)",
    conditions="Δ = δI; δ ≤ 0, or δ > 0 and h ≥ c (which leaves h = c).",
    tolerance=1e-10,
    seeds=6,
)
def lemma_9(rng: Rng) -> float:
    d, h, c = (int(n) for n in rng.integers(1, 4, size=3))
    sign = int(rng.integers(-1, 2))
    d, c = (max(h, d) if sign < 0 else d), (h if sign > 0 else c)
    delta = a_delta(rng, sign)
    (A, W), eta = isotropic_after_a_while(rng, d, h, c, delta)
    return relative_error(layer_grams(beta_of([A, W]).T, delta, eta[::-1])[1], A.T @ A)


def sizes_of_theorem_3(rng: Rng, sign: int) -> tuple[int, int, int]:
    """d, h, c with h = d for δ < 0, h = c for δ > 0, any for δ = 0."""
    d, h, c = (int(n) for n in rng.integers(1, 4, size=3))
    return (h if sign < 0 else d), h, (h if sign > 0 else c)


@claim(
    "kunin2024/theorem-3",
    place="Theorem 3",
    statement="Under an isotropic start, M depends on β and δ alone.",
    formula=r"M = \sqrt{\eta_a\eta_w\beta^\top\beta + \tfrac{\delta^2}{4}I_c} \otimes I_d + I_c \otimes"
    r" \sqrt{\eta_a\eta_w\beta\beta^\top + \tfrac{\delta^2}{4}I_d}",
    conditions="Δ = δI; h = d if δ < 0, h = c if δ > 0.",
    tolerance=1e-10,
    seeds=8,
)
def theorem_3(rng: Rng) -> float:
    sign = int(rng.integers(-1, 2))
    delta = a_delta(rng, sign)
    state, eta = isotropic_after_a_while(rng, *sizes_of_theorem_3(rng, sign), delta)
    printed = isotropic_preconditioner(beta_of(state).T, delta, eta[::-1]).matrix
    return relative_error(printed, tangent(lambda p: vec(beta_of(p)), state, eta))


def root(matrix: Array) -> Array:
    """The root of a positive semi-definite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def self_consistent(beta: Array, delta: float, X: Array, Y: Array, eta: Eta) -> Array:
    """β̇ as printed."""
    gain, (d, c) = eta[0] * eta[1], beta.shape
    slope = X.T @ (X @ beta - Y)
    outputs = root(gain * beta.T @ beta + delta**2 / 4 * np.eye(c))
    return -slope @ outputs - root(gain * beta @ beta.T + delta**2 / 4 * np.eye(d)) @ slope


@claim(
    "kunin2024/isotropic-flow",
    place="Section 4, after Theorem 3",
    statement="β then follows an equation of its own, exactly.",
    formula=r"\dot\beta = -X^\top P\sqrt{\eta_a\eta_w\beta^\top\beta + \tfrac{\delta^2}{4}I_c}"
    r" - \sqrt{\eta_a\eta_w\beta\beta^\top + \tfrac{\delta^2}{4}I_d}\,X^\top P, \qquad P = X\beta - Y",
    conditions="Δ = δI; h = d if δ < 0, h = c if δ > 0.",
    tolerance=1e-10,
    seeds=4,
)
def isotropic_flow(rng: Rng) -> float:
    """This equation, integrated, against the layers."""
    sign, eta = int(rng.choice([-1, 1])), rates(rng)
    d, h, c = sizes_of_theorem_3(rng, sign)
    (X, Y), delta = data(rng, d, c), a_delta(rng, sign)
    start, times = isotropic(rng, d, h, c, delta, eta), [0.1, 0.4]
    alone = integrate(lambda beta: self_consistent(beta, delta, X, Y, eta), beta_of(start), times)
    return relative_error(alone, np.stack([beta_of(state) for state in flow(start, X, Y, times, eta)]))


def fixed_beta(beta: Array, delta: float, eta: Eta) -> list[Array]:
    """[A, W] with Δ = δI(1 + O(δ⁻²)) for β of full rank, the heavy layer √(|δ|/η) times an orthogonal matrix."""
    h, (eta_a, eta_w) = beta.shape[1] if delta > 0 else beta.shape[0], eta
    if delta > 0:
        size = np.sqrt(delta / eta_w)
        return [size * np.eye(h), beta.T / size]
    size = np.sqrt(-delta / eta_a)
    return [beta / size, size * np.eye(h)]


def _limit_of_m(beta: Array, sign: int, eta: Eta) -> Array:
    """M/|δ| for δ → ±∞, by brute force."""
    return even_limit(lambda x: tangent(lambda p: vec(beta_of(p)), fixed_beta(beta, sign * x, eta), eta) / x, 1e3)


@claim(
    "kunin2024/isotropic-limits",
    place="Appendix, Simplifying M, limits after the proof of Theorem 3",
    statement="For δ → −∞ and for δ → ∞ M becomes δ times the identity.",
    formula=r"M \to \delta I_{dc}\quad (\delta \to \pm\infty)",
    conditions="Δ = δI; h = d if δ < 0, h = c if δ > 0; β fixed. Both sides are divided by |δ| here.",
    tolerance=1e-9,
)
def isotropic_limits(rng: Rng) -> float:
    d, c = (int(n) for n in rng.integers(1, 4, size=2))
    beta, eta = rng.normal(size=(d, c)), rates(rng)
    return max(relative_error(sign * np.eye(d * c), _limit_of_m(beta, sign, eta)) for sign in (-1, 1))


@isotropic_limits.corrected("M is positive definite: |δ| times the identity.", formula=r"M \to |\delta| I_{dc}")
def isotropic_limits_of_either_sign(rng: Rng) -> float:
    d, c = (int(n) for n in rng.integers(1, 4, size=2))
    beta, eta = rng.normal(size=(d, c)), rates(rng)
    return max(relative_error(np.eye(d * c), _limit_of_m(beta, sign, eta)) for sign in (-1, 1))


@isotropic_limits.counterexample(
    "One input, one neuron, one output, unit rates, β = 1: M/|δ| for δ → −∞, printed as −1"
)
def _() -> tuple[float, float]:
    sign = -1
    return float(sign), float(_limit_of_m(np.ones((1, 1)), sign, (1.0, 1.0)).item())


@claim(
    "kunin2024/isotropic-rich",
    place="Appendix, Simplifying M, limits after the proof of Theorem 3",
    statement="For δ = 0 M is made of the roots of ββᵀ and βᵀβ, for any width.",
    formula=r"M = \sqrt{\eta_a\eta_w\beta^\top\beta} \otimes I_d + I_c \otimes \sqrt{\eta_a\eta_w\beta\beta^\top}"
    r" \quad (\delta = 0)",
    conditions="Δ = 0.",
    tolerance=1e-10,
)
def isotropic_rich(rng: Rng) -> float:
    d, h, c = (int(n) for n in rng.integers(1, 4, size=3))
    state, eta = isotropic_after_a_while(rng, d, h, c, 0.0)
    U, s, Vt = np.linalg.svd(np.sqrt(eta[0] * eta[1]) * beta_of(state), full_matrices=False)
    # √(βᵀβ) = V diag(s) Vᵀ and √(ββᵀ) = U diag(s) Uᵀ, without squaring
    printed = np.kron((Vt.T * s) @ Vt, np.eye(d)) + np.kron(np.eye(c), (U * s) @ U.T)
    return relative_error(printed, tangent(lambda p: vec(beta_of(p)), state, eta))


@claim(
    "kunin2024/isotropic-lazy",
    place="Appendix, Simplifying M, after the limits",
    statement="For δ → ±∞ β follows linear regression at rate |δ|, and the tangent kernel stands still.",
    formula=r"\beta(s/|\delta|) \to \beta_* + e^{-X^\top X s}(\beta_0 - \beta_*), \qquad K(s/|\delta|)/|\delta| \to "
    r"XX^\top \text{ for each output}",
    conditions="Δ = δI; h = d if δ < 0, h = c if δ > 0; β_0 fixed.",
    tolerance=1e-8,
    seeds=8,
)
def isotropic_lazy(rng: Rng) -> float:
    """Extrapolated to δ = ±∞ from two values."""
    d, c, sign, eta = *(int(n) for n in rng.integers(1, 4, size=2)), int(rng.choice([-1, 1])), rates(rng)
    X = (draws.orthogonal(rng, d) * rng.uniform(0.7, 1.3, size=d)) @ draws.orthogonal(rng, d)
    beta0, beta_star, s = rng.normal(size=(d, c)), rng.normal(size=(d, c)), 0.8

    def measured(size: float) -> Array:
        (end,) = flow(fixed_beta(beta0, sign * size, eta), X, X @ beta_star, [s / size], eta)
        return np.concatenate([beta_of(end).ravel(), kernel(end, X, eta).ravel() / size])

    values, vectors = np.linalg.eigh(X.T @ X)
    lazy = beta_star + (vectors * np.exp(-values * s)) @ vectors.T @ (beta0 - beta_star)
    limit = np.concatenate([lazy.ravel(), np.kron(np.eye(c), X @ X.T).ravel()])
    return relative_error(limit, even_limit(measured, 1e3))
