"""Section 9, first part: the λ family, its two ends, and the speed of its modes."""

import numpy as np

from lazyrich._typing import Array
from lazyrich.methods import mode_times
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import integrate, layers, relative_error
from lazyrich.papers.base.types import Real, Rng, Row
from lazyrich.papers.notes.claims.modes import mode_rates
from lazyrich.papers.notes.claims.passages import extrapolated

NOT_CHECKED = (
    NotChecked(
        "Section 9.1",
        "λ plays the part that the output multiplier has in other networks.",
        "An analogy; the multiplier is defined in another text.",
    ),
    NotChecked(
        "Section 9.2, after the key formula",
        "At λ = 0 and for small a the key formula says that a mode grows at the finite speed L(s − a), without a "
        "plateau.",
        "Withdrawn in the text, which finds there that it is not the balanced law; that law is checked as "
        "`notes/mode-equation`, and the formula it comes from is refuted as `notes/key-formula`.",
    ),
)

LARGE = 1e3 * 2.0 ** np.arange(4)  # values of λ from which limits are extrapolated, in powers of 1/λ


def stacked(W1: Array, W2: Array) -> Array:
    """Q = [W1ᵀ; W2], also of stacks of layers."""
    return np.concatenate([np.swapaxes(W1, -1, -2), W2], axis=-2)


def gram_in_closed_form(Q0: Array, T: Array, lam: float, t: float) -> Array:
    """QQᵀ(t), to the letter; the exponentials by the eigenvectors of F, which is symmetric."""
    d_out, d_in = T.shape
    F = np.block([[-lam / 2 * np.eye(d_in), T.T], [T, lam / 2 * np.eye(d_out)]])
    f, P = np.linalg.eigh(F)
    zero = np.abs(f) < 1e-9
    grown = np.where(zero, t, np.expm1(2 * f * t) / (2 * np.where(zero, 1.0, f)))  # ∫ e^{2fs} ds
    moved = P @ np.diag(np.exp(f * t)) @ P.T @ Q0
    return moved @ np.linalg.inv(np.eye(Q0.shape[1]) + Q0.T @ P @ np.diag(grown) @ P.T @ Q0) @ moved.T


@claim(
    "notes/lambda-exact",
    place="Section 9.1",
    statement="The flow of a λ-balanced network is known exactly for every λ ≥ 0, as a closed form for QQᵀ with "
    "Q = [W1ᵀ; W2].",
    formula=r"QQ^\top(t) = e^{Ft} Q_0 \left[I + Q_0^\top \int_0^t e^{2Fs} ds\, Q_0\right]^{-1} Q_0^\top e^{Ft}, \qquad "
    r"F = \begin{pmatrix} -\frac\lambda2 I & \Sigma_{yx}^\top \\ \Sigma_{yx} & \frac\lambda2 I \end{pmatrix}",
    conditions="Two layers (the notes say nothing of depth), white inputs, W2ᵀW2 − W1W1ᵀ = λI; negative λ is tried as "
    "well.",
    tolerance=1e-8,
)
def lambda_exact(rng: Rng) -> float:
    lam = float(rng.choice([0.0, rng.uniform(0.1, 4.0), -rng.uniform(0.1, 4.0)]))
    d_in, h, d_out = (4, 2, 3) if lam else (4, 5, 3)
    T, weights, times = draws.target(rng, d_out, d_in)[0], draws.lambda_balanced(rng, d_in, h, d_out, lam), [0.3, 1.5]
    Q = stacked(*layers(weights, T, times))
    printed = [gram_in_closed_form(stacked(*weights), T, lam, t) for t in times]
    return relative_error(printed, Q @ np.swapaxes(Q, 1, 2))


def two_layers(a0: Array, lam: float, s: Real, times: Row) -> Array:
    """a(t) of modes with c_2² − c_1² = λ in two layers of one unit each, integrated."""
    c = np.sqrt((np.hypot(lam, 2 * a0) + np.array([[-lam], [lam]])) / 2)
    c[0] = a0 / c[1]
    return integrate(lambda w: w[::-1] * (s - w.prod(axis=0)), c, times).prod(axis=1)


@claim(
    "notes/lambda-ends",
    place="Section 9.1, table",
    statement="The family leads from logistic curves at λ = 0 to exponential ones, without plateaus, as λ → ∞.",
    formula=r"a \to \frac{s}{1 + (s/a_0 - 1)e^{-2st}} \ (\lambda \to 0), \qquad "
    r"a \to s + (a_0 - s)e^{-\lambda t} \ (\lambda \to \infty)",
    conditions="Two layers, aligned. Both limits are extrapolated, the first in λ², the second in 1/λ at fixed λt; the "
    "rate of the exponential, which the table does not give, is λ.",
    tolerance=1e-8,
    seeds=8,
)
def lambda_ends(rng: Rng) -> float:
    s = rng.uniform(0.5, 3.0, size=2)
    a0, times = s * 10.0 ** rng.uniform(-2, -0.5, size=2), np.array([0.3, 1.0])
    rich = extrapolated([two_layers(a0, np.sqrt(square), s, times) for square in 1e-6 / 2.0 ** np.arange(3)])
    lazy = extrapolated([two_layers(a0, lam, s, times / lam) for lam in LARGE])
    ends = mode_times.logistic(a0, s, times[:, None]), s + (a0 - s) * np.exp(-times[:, None])
    return max(relative_error(ends[0], rich), relative_error(ends[1], lazy))


def key_formula(a: float, s: float, lam: float, L: int) -> float:
    """L a (s − a)/(a + λ(L − 1)), as printed."""
    return L * a * (s - a) / (a + lam * (L - 1))


def layer_factors(rng: Rng, lam: float) -> Array:
    """c_ℓ with c_{ℓ+1}² − c_ℓ² = λ, of two to four layers."""
    return np.sqrt(rng.uniform(0.1, 1.0) + lam * np.arange(int(rng.integers(2, 5))))


def measured_rate(c: Row, s: float) -> float:
    """ȧ of one unit per layer, of strengths c, from values of the loss alone."""
    one = np.ones((1, 1))
    return float(mode_rates([one * x for x in c], one * s, one, one)[0])


def rate_of_layers(c: Array, s: float) -> float:
    """(s − a) Σ_ℓ Π_{j≠ℓ} c_j², for two layers √(λ² + 4a²)(s − a)."""
    a = np.prod(c)
    if len(c) == 2:
        return float(np.hypot(c[1] ** 2 - c[0] ** 2, 2 * a) * (s - a))
    return float((s - a) * sum(np.prod(np.delete(c, i) ** 2) for i in range(len(c))))


@claim(
    "notes/key-formula",
    place="Section 9.2, key formula",
    statement="The speed of a mode of a λ-balanced network of depth L. The source prints it and then withdraws it, "
    "without giving the right form.",
    formula=r"\dot a_\alpha = \frac{L\, a_\alpha (s_\alpha - a_\alpha)}{a_\alpha + \lambda(L - 1)}",
    conditions="Aligned, W_{ℓ+1}ᵀW_{ℓ+1} − W_ℓW_ℓᵀ = λI for all pairs, λ ≥ 0.",
    tolerance=1e-11,
    seeds=4,
)
def key_formula_claim(rng: Rng) -> float:
    lam, s = rng.uniform(0.1, 3.0), rng.uniform(0.5, 5.0)
    c = layer_factors(rng, lam)
    return relative_error(key_formula(float(np.prod(c)), s, lam, len(c)), measured_rate(c, s))


@key_formula_claim.corrected(
    "The layers carry c_ℓ with c_{ℓ+1}² = c_ℓ² + λ and a = Πc_ℓ.",
    formula=r"\dot a = (s - a)\sum_\ell \prod_{j \ne \ell} c_j^2, \qquad "
    r"L = 2: \quad \dot a = \sqrt{\lambda^2 + 4a^2}\,(s - a)",
)
def key_formula_corrected(rng: Rng) -> float:
    lam, s = rng.uniform(0.1, 3.0), rng.uniform(0.5, 5.0)
    c = layer_factors(rng, lam)
    return relative_error(rate_of_layers(c, s), measured_rate(c, s))


@key_formula_claim.counterexample("L = 2, λ = 3, c = (1, 2), so that a = 2, s = 3")
def _() -> tuple[float, float]:
    return key_formula(2.0, 3.0, 3.0, 2), measured_rate([1.0, 2.0], 3.0)
