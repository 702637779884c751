"""More layers: isotropic starts, Lemmas 13 and 14, M for δ → 0, and the solution that is reached (Theorem 15).

The paper's depth L + 1 means L hidden layers, f(x) = aᵀW_L…W_1x, β = W_1ᵀ…W_Lᵀa. Parameters are [W_1, …, W_L, a].
"""

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise

import numpy as np
from scipy.integrate import quad
from scipy.optimize import root

from lazyrich._typing import Array
from lazyrich.bias.function_space import deep_preconditioner
from lazyrich.bias.potentials import deep_potential
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import layers, relative_error
from lazyrich.papers.base.types import Rng
from lazyrich.papers.kunin2024.claims.measures import beyond_chance, spread_and_mean, tangent
from lazyrich.papers.kunin2024.claims.slips import ENTRIES

NOT_CHECKED = (
    NotChecked(
        "Section 4, Deep linear networks; Appendix, after Theorem 15",
        "The implicit bias strikes a balance, which depends on depth, between the smallest norm and the direction of "
        "the start; it generalises an earlier result for two layers.",
        "A description of Theorem 15, which is entered with one hidden layer among the depths.",
    ),
)


def beta_deep(parameters: list[Array]) -> Array:
    """W_1ᵀ…W_Lᵀa."""
    *Ws, a = parameters
    return reduce(lambda above, W: W.T @ above, reversed(Ws), a)


def flow(parameters: list[Array], X: Array, y: Array, times: Sequence[float]) -> list[list[Array]]:
    """The parameters at the given times, integrated with unit rates and a loss that is a sum."""
    *Ws, a = parameters
    *firsts, last = layers([*Ws, a[None]], y[None] @ X, times, X.T @ X)
    return [[*(W[t] for W in firsts), last[t][0]] for t in range(len(times))]


def orthogonal_start(rng: Rng, d: int, L: int, alpha: float) -> list[Array]:
    """a = 0 and W_l = α times a random orthogonal matrix."""
    return [*(alpha * draws.orthogonal(rng, d) for _ in range(L)), np.zeros(d)]


def data(rng: Rng, d: int) -> tuple[Array, Array]:
    X = rng.normal(size=(int(rng.integers(1, d + 2)), d)) / np.sqrt(d)
    return X, rng.normal(size=len(X))


def drawn(rng: Rng) -> tuple[list[Array], int, float]:
    """A network on its way from an isotropic start, its number of hidden layers, and δ."""
    d, L, alpha = int(rng.integers(1, 4)), int(rng.integers(1, 4)), float(rng.uniform(0.6, 1.3))
    (state,) = flow(orthogonal_start(rng, d, L, alpha), *data(rng, d), [0.5])
    return state, L, -(alpha**2)


def rich(rng: Rng, L: int, d: int) -> list[Array]:
    """A start with δ = 0: all layers of rank one, and equally strong."""
    units = [v / np.linalg.norm(v) for v in rng.normal(size=(L + 1, d))]
    size = rng.uniform(0.8, 1.3)
    return [*(size * np.outer(units[i + 1], units[i]) for i in range(L)), size * units[L]]


@claim(
    "kunin2024/deep-isotropic-start",
    place="Appendix, Deep linear networks, after Definition 12",
    statement="Orthogonal matrices times α with a = 0 are isotropic with δ = −α², and stay so along the flow.",
    formula=r"a = 0,\ W_l = \alpha O_l \;\Rightarrow\; aa^\top - W_LW_L^\top = -\alpha^2 I_h,\quad"
    r" W_{l+1}^\top W_{l+1} = W_lW_l^\top \quad\text{for all } t",
    conditions="d = h, unit rates, any data.",
    tolerance=1e-9,
)
def deep_isotropic_start(rng: Rng) -> float:
    (*Ws, a), _, delta = drawn(rng)
    pairs = [(below @ below.T, above.T @ above) for below, above in pairwise(Ws)]
    errors = [relative_error(lower, upper) for lower, upper in pairs]
    return max([*errors, relative_error(delta * np.eye(len(a)), np.outer(a, a) - Ws[-1] @ Ws[-1].T)])


def along_target(rng: Rng, L: int, alpha: float, y: float) -> list[Array]:
    """An isotropic start with δ = −α² whose β is along the first input: the a of it is y, and W_l is larger there."""
    frames = [np.eye(3), *(draws.orthogonal(rng, 3) for _ in range(L))]
    size = np.diag([np.sqrt(y**2 + alpha**2), alpha, alpha])
    return [*(new @ size @ old.T for old, new in pairwise(frames)), y * frames[-1][:, 0]]


@claim(
    "kunin2024/deep-quadrature",
    place="ours: theory, section 13, for Definition 12",
    statement="From an isotropic start along its target, on either side of zero or with a = 0, β stays along it, and "
    "one integral is the time in which it goes from one size to another, through zero too. With a = 0 every target "
    "will do.",
    formula=r"\|\beta\| = y(y^2 - \delta)^{L/2},\qquad t = \int_{y(0)}^{y}"
    r" \frac{du}{(s - u(u^2 - \delta)^{L/2})(u^2 - \delta)^{L/2}}",
    conditions="d = h, isotropic start, δ < 0, β(0) along Xᵀy, white inputs, s = ‖Xᵀy‖, unit rates.",
    tolerance=1e-9,
    seeds=4,
)
def deep_quadrature(rng: Rng) -> float:
    L, alpha, s = int(rng.integers(1, 4)), float(rng.uniform(0.6, 1.2)), float(rng.uniform(0.5, 1.5))
    first, last = float(rng.uniform(-0.6, 0.05)), float(rng.uniform(0.1, 0.2))
    time, _ = quad(lambda u: 1 / ((s - deep_size(u, alpha, L)) * (u**2 + alpha**2) ** (L / 2)), first, last)
    (end,) = flow(along_target(rng, L, alpha, first), np.eye(3), np.array([s, 0.0, 0.0]), [time])
    slope = rng.normal(size=3)
    (anyhow,) = flow(orthogonal_start(rng, 3, L, alpha), np.eye(3), slope, [time])
    turned = np.cross(beta_deep(anyhow), slope / np.linalg.norm(slope)) / np.linalg.norm(beta_deep(anyhow))
    return max(
        relative_error(np.array([deep_size(last, alpha, L), 0.0, 0.0]), beta_deep(end)), float(np.abs(turned).max())
    )


def deep_size(y: float, alpha: float, L: int) -> float:
    """The signed size of β for an a of signed size y."""
    return float(y * (y**2 + alpha**2) ** (L / 2))


def gaussian_imbalance(rng: Rng, d: int) -> Array:
    """W_2ᵀW_2 − W_1W_1ᵀ of square layers with variance 1/d."""
    W1, W2 = rng.normal(size=(2, d, d)) / np.sqrt(d)
    return W2.T @ W2 - W1 @ W1.T


@claim(
    "kunin2024/deep-gaussian",
    place="Appendix, Deep linear networks, after Definition 12",
    statement="Read as: Gaussian weights with a variance inversely proportional to the width satisfy the definition in "
    "the limit of many dimensions, in the sense that the eigenvalues of W_{l+1}ᵀW_{l+1} − W_lW_lᵀ, in "
    "root mean square, vanish.",
    formula=r"(W_l)_{ij} \sim \mathcal N(0, 1/d) \;\Rightarrow\; W_{l+1}^\top W_{l+1} - W_lW_l^\top \to 0,\ d \to "
    r"\infty",
    conditions="d = h.",
    tolerance=0.0,  # standard errors beyond those that chance allows
)
def deep_gaussian(rng: Rng, limit: float = 0.0) -> float:
    """By how many standard errors beyond those allowed ‖imbalance‖²_F/d and its mean diagonal miss limit² and 0."""
    return beyond_chance(lambda d: spread_and_mean(gaussian_imbalance(rng, d)), [limit**2, 0.0])


@deep_gaussian.corrected(
    "The entries vanish, like d^(−1/2), but the eigenvalues do not: in root mean square they tend to √2.",
    formula=r"\tfrac1d\|W_{l+1}^\top W_{l+1} - W_lW_l^\top\|_F \to 0, \qquad"
    r" \tfrac{1}{\sqrt d}\|W_{l+1}^\top W_{l+1} - W_lW_l^\top\|_F \to \sqrt2",
    slips=(ENTRIES,),
)
def deep_gaussian_by_entries(rng: Rng) -> float:
    """The second limit, which gives the first."""
    return deep_gaussian.check(rng, limit=float(np.sqrt(2)))


@deep_gaussian.counterexample(
    "Two layers of width 400: the largest eigenvalue of W_2ᵀW_2 − W_1W_1ᵀ, which should be near 0 and is near 3"
)
def _() -> tuple[float, float]:
    return 0.0, float(np.linalg.norm(gaussian_imbalance(np.random.default_rng(0), 400), 2))


@claim(
    "kunin2024/lemma-13",
    place="Lemma 13",
    statement="The norm of β is a polynomial of that of a, and ββᵀ one of W_1ᵀW_1.",
    formula=r"\|\beta\|^2 = \|a\|^2(\|a\|^2 - \delta)^L, \qquad \beta\beta^\top = (W_1^\top W_1)^{L+1} +"
    r" \delta(W_1^\top W_1)^L",
    conditions="d = h, isotropic start, any t ≥ 0.",
    tolerance=1e-9,
)
def lemma_13(rng: Rng) -> float:
    state, L, delta = drawn(rng)
    beta, x, first = beta_deep(state), float(state[-1] @ state[-1]), state[0].T @ state[0]
    outer = np.linalg.matrix_power(first, L + 1) + delta * np.linalg.matrix_power(first, L)
    return max(relative_error(x * (x - delta) ** L, beta @ beta), relative_error(outer, np.outer(beta, beta)))


def telescoped(state: list[Array], power: int) -> float:
    """aᵀ(W_LW_Lᵀ)^power a."""
    *_, last, a = state
    return float(a @ np.linalg.matrix_power(last @ last.T, power) @ a)


@claim(
    "kunin2024/lemma-13-proof",
    place="Proof of Lemma 13",
    statement="On the way to Lemma 13 the norm of β is written with a power of W_LW_Lᵀ, the number of inputs d being "
    "printed as the exponent.",
    formula=r"\|\beta\|^2 = a^\top(W_LW_L^\top)^d a",
    conditions="d = h, isotropic start.",
    tolerance=1e-9,
)
def lemma_13_proof(rng: Rng) -> float:
    state, _, _ = drawn(rng)
    return relative_error(telescoped(state, len(state[-1])), np.sum(beta_deep(state) ** 2))


@lemma_13_proof.corrected(
    "The exponent is the number of hidden layers.", formula=r"\|\beta\|^2 = a^\top(W_LW_L^\top)^L a"
)
def lemma_13_proof_with_depth(rng: Rng) -> float:
    state, L, _ = drawn(rng)
    return relative_error(telescoped(state, L), np.sum(beta_deep(state) ** 2))


@lemma_13_proof.counterexample("One input, two hidden layers of one neuron, W_1 = W_2 = 2, a = 1: ‖β‖² is 16")
def _() -> tuple[float, float]:
    state = [np.array([[2.0]]), np.array([[2.0]]), np.array([1.0])]
    return telescoped(state, 1), float(np.sum(beta_deep(state) ** 2))


@claim(
    "kunin2024/lemma-14",
    place="Lemma 14",
    statement="β follows the gradient of the loss, preconditioned by a matrix of ‖a‖², W_1ᵀW_1 and δ that has no "
    "negative eigenvalue.",
    formula=r"M = (W_1^\top W_1)^L + \|a\|^2\sum_{l=0}^{L-1}(\|a\|^2 - \delta)^l(W_1^\top W_1)^{L-1-l}",
    conditions="d = h, isotropic start.",
    tolerance=1e-9,
    seeds=4,
)
def lemma_14(rng: Rng) -> float:
    state, L, delta = drawn(rng)
    x, first = float(state[-1] @ state[-1]), state[0].T @ state[0]
    power = np.linalg.matrix_power
    printed = power(first, L) + x * sum((x - delta) ** i * power(first, L - 1 - i) for i in range(L))
    truth = tangent(beta_deep, state, [1.0] * len(state))
    negative = max(0.0, -float(np.linalg.eigvalsh(printed)[0]))
    return max(relative_error(printed, truth), negative)


def rich_state(rng: Rng) -> tuple[list[Array], int]:
    """A network on its way from a start with δ = 0, and its number of hidden layers."""
    L, d = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    (state,) = flow(rich(rng, L, d), *data(rng, d), [0.2])
    return state, L


@claim(
    "kunin2024/deep-rich-layers",
    place="Proof of Theorem 15, first display",
    statement="For δ → 0 β tells the size of a, and W_1ᵀW_1.",
    formula=r"\|a\|^2 = \|\beta\|^{\frac{2}{L+1}}, \qquad W_1^\top W_1 = \|\beta\|^{-\frac{2L}{L+1}}\beta\beta^\top",
    conditions="d = h, isotropic start, δ = 0, β ≠ 0.",
    tolerance=1e-9,
)
def deep_rich_layers(rng: Rng) -> float:
    state, L = rich_state(rng)
    beta, a = beta_deep(state), state[-1]
    size = np.linalg.norm(beta)
    first = size ** (-2 * L / (L + 1)) * np.outer(beta, beta)
    return max(relative_error(size ** (2 / (L + 1)), a @ a), relative_error(first, state[0].T @ state[0]))


@claim(
    "kunin2024/deep-rich-m",
    place="Proof of Theorem 15, M",
    statement="For δ → 0 M is the identity with a rank-one part along β, more of it the deeper the network.",
    formula=r"M = \|\beta\|^{\frac{2L}{L+1}}I_d + L\|\beta\|^{-\frac{2}{L+1}}\beta\beta^\top",
    conditions="d = h, isotropic start, δ = 0, β ≠ 0.",
    tolerance=1e-9,
    seeds=5,
)
def deep_rich_m(rng: Rng) -> float:
    state, L = rich_state(rng)
    return relative_error(deep_preconditioner(beta_deep(state), L), tangent(beta_deep, state, [1.0] * (L + 1)))


def inverse_as_printed(beta: Array, L: int, sign: float = 1.0) -> Array:
    """M⁻¹ with the printed sign of its second part, or the other."""
    size = np.linalg.norm(beta)
    first = size ** (-2 * L / (L + 1)) * np.eye(len(beta))
    return first + sign * L / (L + 1) * size ** (-(4 * L + 2) / (L + 1)) * np.outer(beta, beta)


@claim(
    "kunin2024/deep-rich-inverse",
    place="Proof of Theorem 15, M⁻¹",
    statement="The inverse of that M, from the Sherman–Morrison formula.",
    formula=r"M^{-1} = \|\beta\|^{-\frac{2L}{L+1}}I_d + \frac{L}{L+1}\|\beta\|^{-\frac{4L+2}{L+1}}\beta\beta^\top",
    conditions="d = h, isotropic start, δ = 0, β ≠ 0.",
    tolerance=1e-9,
    seeds=4,
)
def deep_rich_inverse(rng: Rng, sign: float = 1.0) -> float:
    state, L = rich_state(rng)
    truth = np.linalg.inv(tangent(beta_deep, state, [1.0] * (L + 1)))
    return relative_error(inverse_as_printed(beta_deep(state), L, sign), truth)


@deep_rich_inverse.corrected(
    "The sign of the second part is a minus: M is large along β, so its inverse is small there.",
    formula=r"M^{-1} = \|\beta\|^{-\frac{2L}{L+1}}I_d - \frac{L}{L+1}\|\beta\|^{-\frac{4L+2}{L+1}}\beta\beta^\top",
)
def deep_rich_inverse_with_minus(rng: Rng) -> float:
    return deep_rich_inverse.check(rng, sign=-1.0)


@deep_rich_inverse.counterexample("One input, one hidden neuron, a = w = 1: M is a² + w² = 2")
def _() -> tuple[float, float]:
    state = [np.ones((1, 1)), np.ones(1)]
    return float(inverse_as_printed(beta_deep(state), 1).item()), float(
        1 / tangent(beta_deep, state, [1.0, 1.0]).item()
    )


@claim(
    "kunin2024/deep-mirror",
    place="Proof of Theorem 15, time-warped mirror flow",
    statement="Up to a change of clock, M⁻¹ is the Hessian of a power of the norm of β.",
    formula=r"M^{-1} = \|\beta\|^{-\frac{L}{L+1}}\nabla^2\Phi, \qquad"
    r" \Phi(\beta) = \frac{L+1}{L+2}\|\beta\|^{\frac{L+2}{L+1}}",
    conditions="d = h, isotropic start, δ = 0, β ≠ 0; M⁻¹ is that of the network, not the printed one.",
    tolerance=1e-9,
    seeds=4,
)
def deep_mirror(rng: Rng) -> float:
    state, L = rich_state(rng)
    beta = beta_deep(state)
    printed = np.linalg.norm(beta) ** (-L / (L + 1)) * deep_potential(L).hessian(beta)
    return relative_error(printed, np.linalg.inv(tangent(beta_deep, state, [1.0] * (L + 1))))


def constrained_minimum(beta0: Array, L: int, X: Array, y: Array) -> Array:
    """arg min Q(β) subject to Xβ = y, by the root of the gradient of Q on the null space of X."""
    least, Z = np.linalg.lstsq(X, y, rcond=None)[0], np.linalg.svd(X)[2][len(X) :].T
    pull = beta0 * np.linalg.norm(beta0) ** (-L / (L + 1))

    def slope(z: Array) -> Array:
        beta = least + Z @ z
        return Z.T @ (beta * np.linalg.norm(beta) ** (-L / (L + 1)) - pull)

    return least + Z @ root(slope, Z.T @ beta0, tol=1e-14).x


@claim(
    "kunin2024/theorem-15",
    place="Theorem 15; Section 4, Deep linear networks",
    statement="Among all interpolations a deep rich network reaches the one that minimises a power of the norm, less a "
    "pull towards the start.",
    formula=r"\beta(\infty) = \operatorname*{arg\,min}_\beta \frac{L+1}{L+2}\|\beta\|^{\frac{L+2}{L+1}} -"
    r" \left(\frac{\beta(0)}{\|\beta(0)\|^{\frac{L}{L+1}}}\right)^\top\beta \quad\text{s.t.}\quad X\beta = y",
    conditions="d = h, isotropic start, δ → 0 (here δ = 0), ‖β(t)‖ > 0, Xβ(∞) = y.",
    tolerance=1e-8,
    seeds=5,
)
def theorem_15(rng: Rng) -> float:
    """Where the flow of all layers ends."""
    d, L = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    start = rich(rng, L, d)
    beta0 = beta_deep(start)
    X = draws.orthogonal(rng, d)[: int(rng.integers(1, d))] * 1.5
    aim = beta0 / np.linalg.norm(beta0) + 0.4 * rng.normal(size=d) / np.sqrt(d)
    (end,) = flow(start, X, X @ aim, [40.0])
    return relative_error(constrained_minimum(beta0, L, X, X @ aim), beta_deep(end))
