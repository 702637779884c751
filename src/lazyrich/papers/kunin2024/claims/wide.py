"""Many neurons: what two layers can represent, what they conserve, and how their weights move."""

from collections.abc import Callable

import numpy as np
from scipy.sparse.csgraph import connected_components

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import along, relative_error
from lazyrich.papers.base.types import Rng
from lazyrich.papers.kunin2024 import formulas
from lazyrich.papers.kunin2024.claims.measures import (
    beta_of,
    data,
    flow,
    isotropic,
    kernel,
    loss_of,
    rates,
    velocity,
)
from lazyrich.papers.kunin2024.claims.slips import ONE_INPUT, UNIT_RATES, UNIT_TARGET

NOT_CHECKED = (
    NotChecked(
        "Appendix, Parameter dynamics when c = h",
        "The Riccati equation for ν and the Bernoulli equation for AᵀA cannot easily be solved unless ν and β*ᵀβ* "
        "share their eigenvectors.",
        "How easy is no number. The flow itself has a closed form from any start with Δ = δI.",
    ),
    NotChecked(
        "Appendix, Parameter dynamics when c = 1",
        "Permutation invariance between hidden neurons simplifies the system of 2h equations.",
        "No simplified system is printed.",
    ),
)


def sizes(rng: Rng, most: int = 4) -> tuple[int, int, int]:
    """d, h and c with h ≥ min(d, c)."""
    d, c = (int(n) for n in rng.integers(1, most + 1, size=2))
    return d, min(d, c) + int(rng.integers(0, 3)), c


def gaussian(rng: Rng, d: int, h: int, c: int) -> list[Array]:
    """[A, W], balanced in no way."""
    return [rng.normal(size=(h, c)) * 2.0 ** rng.uniform(-1, 1), rng.normal(size=(h, d))]


def kronecker_sum(C: Array, D: Array) -> Array:
    """C ⊕ D = C ⊗ I + I ⊗ D."""
    return np.kron(C, np.eye(len(D))) + np.kron(np.eye(len(C)), D)


@claim(
    "kunin2024/wide-represents-all",
    place="Section 4, before Δ; Appendix, Wide linear networks",
    statement="With h ≥ min(d, c) hidden neurons, two layers can represent every linear map.",
    formula=r"\{W^\top A : W \in \mathbb{R}^{h\times d},\ A \in \mathbb{R}^{h\times c}\} = \mathbb{R}^{d\times c}",
    conditions="h ≥ min(d, c).",
    tolerance=1e-9,  # what is drawn may be ill-conditioned
    seeds=18,
)
def wide_represents_all(rng: Rng) -> float:
    """One layer drawn at random, the other solved for."""
    d, h, c = sizes(rng)
    beta = rng.normal(size=(d, c))
    A, W = gaussian(rng, d, h, c)
    if h >= c:
        W = np.linalg.lstsq(A.T, beta.T, rcond=None)[0]
    else:
        A = np.linalg.lstsq(W.T, beta, rcond=None)[0]
    return relative_error(beta_of([A, W]), beta)


@claim(
    "kunin2024/wide-gradients",
    place="Appendix, Wide linear networks, dynamics of A and W",
    statement="How the two layers of f(x) = AᵀWx move, each with a rate of its own.",
    formula=r"\dot A = -\eta_a W X^\top(X\beta - Y), \qquad \dot W^\top = -\eta_w X^\top(X\beta - Y)A^\top",
    conditions="Any data, sizes and weights; β = WᵀA; the loss is a sum over samples.",
    tolerance=1e-12,
    seeds=18,
)
def wide_gradients(rng: Rng) -> float:
    d, h, c = sizes(rng)
    (X, Y), (A, W), (eta_a, eta_w) = data(rng, d, c), gaussian(rng, d, h, c), rates(rng)
    rest = X.T @ (X @ W.T @ A - Y)
    printed = [-eta_a * W @ rest, (-eta_w * rest @ A.T).T]
    truth = velocity(loss_of(X, Y), [A, W], (eta_a, eta_w))
    return max(relative_error(p, t) for p, t in zip(printed, truth, strict=True))


def conserved_with_rates(parameters: list[Array], eta: tuple[float, float]) -> Array:
    """Δ = η_w AAᵀ − η_a WWᵀ."""
    A, W = parameters
    return eta[1] * A @ A.T - eta[0] * W @ W.T


def conserved_without_rates(parameters: list[Array], _: tuple[float, float]) -> Array:
    """AAᵀ − WWᵀ, as the appendix prints it."""
    return conserved_with_rates(parameters, (1.0, 1.0))


def drift(conserved: Callable[[list[Array], tuple[float, float]], Array], rng: Rng) -> float:
    """How far a matrix is from conserved, along the flow."""
    d, h, c = sizes(rng, 3)
    (X, Y), start, eta = data(rng, d, c), gaussian(rng, d, h, c), rates(rng)
    (end,) = flow(start, X, Y, [0.3], eta)
    return relative_error(conserved(end, eta), conserved(start, eta))


@claim(
    "kunin2024/wide-conserved",
    place="Section 4, definition of Δ",
    statement="The rescaling symmetry of two layers conserves an h × h matrix.",
    formula=r"\Delta = \eta_w A A^\top - \eta_a W W^\top = \mathrm{const}",
    conditions="Any data, sizes, weights and rates.",
    tolerance=1e-9,
)
def wide_conserved(rng: Rng) -> float:
    return drift(conserved_with_rates, rng)


@claim(
    "kunin2024/wide-conserved-appendix",
    place="Appendix, Wide linear networks, definition of Δ",
    statement="The appendix prints the conserved matrix without the rates, right before a flow that has them.",
    formula=r"\Delta = A A^\top - W W^\top = \mathrm{const}",
    conditions="Any data, sizes, weights and rates.",
    tolerance=1e-9,
    seeds=4,
)
def wide_conserved_appendix(rng: Rng) -> float:
    return drift(conserved_without_rates, rng)


@wide_conserved_appendix.corrected(
    "Each layer goes with the rate of the other, as in the main text.",
    formula=r"\Delta = \eta_w A A^\top - \eta_a W W^\top = \mathrm{const}",
    slips=(UNIT_RATES,),
)
def wide_conserved_appendix_with_rates(rng: Rng) -> float:
    return drift(conserved_with_rates, rng)


@wide_conserved_appendix.counterexample(
    "One neuron, one input, one output, a = w = 1, x = 1, y = 0, η_a = 1, η_w = 2: a² − w² is 0 at the start, and at "
    "t = 1"
)
def _() -> tuple[float, float]:
    one = np.ones((1, 1))
    start, eta = [one, one], (1.0, 2.0)
    (end,) = flow(start, one, 0 * one, [1.0], eta)
    return conserved_without_rates(start, eta).item(), conserved_without_rates(end, eta).item()


@claim(
    "kunin2024/hyperboloid-connected",
    place="Footnote to the conserved quantity of a neuron with c outputs",
    statement="The surface on which the weights of one neuron move is connected as soon as there is more than one "
    "output.",
    formula=r"\{(a_k, w_k) \in \mathbb{R}^{c+d} : \eta_w\|a_k\|^2 - \eta_a\|w_k\|^2 = \delta_k\}"
    r"\ \text{is connected for}\ c > 1",
    conditions="c > 1, any d and δ.",
    tolerance=0.0,  # a count of pieces
    seeds=6,
)
def hyperboloid_connected(rng: Rng) -> float:
    c, d = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    return abs(pieces(rng, c, d, float(rng.normal()), rates(rng)) - 1)


@hyperboloid_connected.stronger(
    "c > 1 and d > 1, or c > 1 and δ ≥ 0: for δ < 0 and d = 1, w cannot change its sign.", slips=(ONE_INPUT,)
)
def hyperboloid_connected_for_wide_inputs(rng: Rng) -> float:
    c, d, delta = int(rng.integers(2, 4)), int(rng.integers(1, 4)), float(rng.normal())
    return abs(pieces(rng, c, d, delta if d > 1 else abs(delta), rates(rng)) - 1)


@hyperboloid_connected.counterexample("One input, two outputs, δ = −1, unit rates: w = ±√(1 + ‖a‖²), two sheets")
def _() -> tuple[float, float]:
    return 1.0, float(pieces(np.random.default_rng(0), 2, 1, -1.0, (1.0, 1.0)))


def pieces(rng: Rng, c: int, d: int, delta: float, eta: tuple[float, float]) -> int:
    """Connected pieces of points on the surface, neighbours joined, in the units √η_w a/√|δ| and √η_a w/√|δ|.

    Two sheets are 2 apart; neighbouring points, drawn so densely, less than half of that.
    """
    scale = np.sqrt([abs(delta) / eta[1], abs(delta) / eta[0]])
    heavy, light = (rng.normal(size=(150, n)) for n in ((c, d) if delta > 0 else (d, c)))
    heavy, light = (v / np.linalg.norm(v, axis=1)[:, None] for v in (heavy, light))
    shells = []
    for size in np.linspace(0.0, 1.0, 4):
        parts = [np.sqrt(1 + size**2) * heavy, size * light]
        shells.append(np.hstack(parts if delta > 0 else parts[::-1]))
    plain = np.vstack(shells)
    a, w = plain[:, :c] * scale[0], plain[:, c:] * scale[1]
    assert np.allclose(eta[1] * (a**2).sum(1) - eta[0] * (w**2).sum(1), delta)
    near = np.linalg.norm(plain[:, None] - plain[None], axis=2) < 0.9
    return int(connected_components(near)[0])


@claim(
    "kunin2024/wide-ntk",
    place="Section 4, after the dynamics of β; Appendix, Wide linear networks",
    statement="The tangent kernel of two linear layers with c outputs, output by output.",
    formula=r"K = (I_c \otimes X)\,(\eta_w A^\top A \oplus \eta_a W^\top W)\,(I_c \otimes X^\top)",
    conditions="Any data, sizes, weights and rates; C ⊕ D = C ⊗ I + I ⊗ D.",
    tolerance=1e-12,
)
def wide_ntk(rng: Rng) -> float:
    d, h, c = sizes(rng)
    (X, _), (A, W), eta = data(rng, d, c), gaussian(rng, d, h, c), rates(rng)
    wide_X = np.kron(np.eye(c), X)
    printed = wide_X @ kronecker_sum(eta[1] * A.T @ A, eta[0] * W.T @ W) @ wide_X.T
    return relative_error(printed, kernel([A, W], X, eta))


def row_norms(W: Array) -> Array:
    return np.sqrt((W * W).sum(axis=1))  # analytic, for complex steps


def mu_phi(parameters: list[Array], beta_star: Array, phi_scale: float) -> Array:
    """μ_k = a_k‖w_k‖ and φ_k = w_kᵀβ*/(‖w_k‖·scale), one row each."""
    A, W = parameters
    return np.stack([A[:, 0] * row_norms(W), W @ beta_star / row_norms(W) / phi_scale])


def mu_phi_velocity(mu: Array, phi: Array, Q: Array, deltas: Array, norm: float) -> Array:
    """The right-hand sides as printed, with a vector of ones where I_h is printed."""
    kappa = np.sqrt(deltas**2 + 4 * mu**2)
    M = 2 / (kappa - deltas)
    return np.stack([kappa * (phi - Q @ mu), M * mu * ((norm**2 - phi @ mu) + phi * (Q @ mu) - phi**2)])


def _error_of_mu_phi(parameters: list[Array], beta_star: Array, phi_scale: float) -> tuple[Array, Array]:
    """Printed and true velocities of μ and φ."""
    (A, W), d = parameters, len(beta_star)
    mu, phi = mu_phi([A, W], beta_star, phi_scale)
    unit = W / row_norms(W)[:, None]
    deltas = A[:, 0] ** 2 - row_norms(W) ** 2
    printed = mu_phi_velocity(mu, phi, unit @ unit.T, deltas, float(np.linalg.norm(beta_star)))
    moving = velocity(loss_of(np.eye(d), beta_star[:, None]), [A, W], (1.0, 1.0))
    return printed, along(lambda p: mu_phi(p, beta_star, phi_scale), [A, W], moving)


def one_output(rng: Rng) -> tuple[list[Array], Array]:
    """[A, W] of d ≤ 4 inputs and one output, no w_k so short that it costs digits, and β*."""
    d, h = (int(n) for n in rng.integers(1, 5, size=2))
    A, W = gaussian(rng, d, h, 1)
    W = W / row_norms(W)[:, None] * rng.uniform(0.5, 2.0, size=(h, 1))
    return [A, W], rng.normal(size=d) * 2.0 ** rng.uniform(-1, 1)


@claim(
    "kunin2024/wide-mu-phi",
    place="Appendix, Parameter dynamics when c = 1",
    statement="Strength μ_k = a_k‖w_k‖ and cosine φ_k of each neuron obey 2h coupled equations. As printed, a scalar "
    "times I_h is added to vectors; it is read as a vector of equal entries. φ² is taken entry by entry.",
    formula=r"\phi_k = \frac{w_k^\top\beta_*}{\|w_k\|\|\beta_*\|}, \quad"
    r" \dot\mu = \sqrt{\operatorname{Diag}(\Delta)^2 + 4\operatorname{Diag}(\mu)^2}\,(\phi - Q\mu), \quad"
    r" \dot\phi = M\operatorname{Diag}(\mu)\left((\|\beta_*\|^2 - \phi^\top\mu)I_h + \operatorname{Diag}(\phi)Q\mu"
    r" - \phi^2\right)",
    conditions="White inputs, unit rates, one output, w_k ≠ 0; Q holds the cosines between the w_k, and"
    " M = 2(√(Diag(Δ)² + 4Diag(μ)²) − Diag(Δ))⁻¹.",
    tolerance=1e-11,
)
def wide_mu_phi(rng: Rng) -> float:
    parameters, beta_star = one_output(rng)
    return relative_error(*_error_of_mu_phi(parameters, beta_star, float(np.linalg.norm(beta_star))))


@wide_mu_phi.corrected(
    "The equations are those of φ_k = w_kᵀβ*/‖w_k‖, the length of β* along w_k, with a vector of ones for I_h.",
    formula=r"\phi_k = \frac{w_k^\top\beta_*}{\|w_k\|}, \quad"
    r" \dot\mu = \sqrt{\operatorname{Diag}(\Delta)^2 + 4\operatorname{Diag}(\mu)^2}\,(\phi - Q\mu), \quad"
    r" \dot\phi = M\operatorname{Diag}(\mu)\left((\|\beta_*\|^2 - \phi^\top\mu)1_h + \operatorname{Diag}(\phi)Q\mu"
    r" - \phi^2\right)",
    slips=(UNIT_TARGET,),
)
def wide_mu_phi_unscaled(rng: Rng) -> float:
    parameters, beta_star = one_output(rng)
    return relative_error(*_error_of_mu_phi(parameters, beta_star, 1.0))


@wide_mu_phi.counterexample("One input, one neuron, a = w = 1, β* = 2: the slope of μ, where φ is 1")
def _() -> tuple[float, float]:
    printed, truth = _error_of_mu_phi([np.ones((1, 1)), np.ones((1, 1))], np.array([2.0]), 2.0)
    return float(printed[0, 0]), float(truth[0, 0])


@claim(
    "kunin2024/wide-q",
    place="Appendix, Parameter dynamics when c = 1, Q in terms of μ and M",
    statement="The cosines Q between the first-layer weights follow from μ and what is conserved, so that the 2h "
    "equations are closed.",
    formula=r"Q = M\mu\mu^\top M - M^{1/2}\Delta M^{1/2}",
    conditions="One output, unit rates, all w_k ≠ 0; M as for the dynamics of μ and φ.",
    tolerance=1e-8,
    seeds=16,
)
def wide_q(rng: Rng) -> float:
    """At a time other than the one at which Δ was taken."""
    start, beta_star = one_output(rng)
    ((A, W),) = flow(start, np.eye(len(beta_star)), beta_star[:, None], [0.2], (1.0, 1.0))
    delta = conserved_with_rates(start, (1.0, 1.0))
    mu, diagonal = A[:, 0] * row_norms(W), np.diag(delta)
    M = np.diag(2 / (np.sqrt(diagonal**2 + 4 * mu**2) - diagonal))
    unit = W / row_norms(W)[:, None]
    return relative_error(M @ np.outer(mu, mu) @ M - np.sqrt(M) @ delta @ np.sqrt(M), unit @ unit.T)


def square_outputs(rng: Rng) -> tuple[list[Array], Array, float]:
    """[A, W] with c = h, A invertible and Δ = δI; β*; and δ."""
    d, h = (int(n) for n in rng.integers(1, 4, size=2))
    delta = float(rng.normal()) if h <= d else abs(float(rng.normal()))
    return isotropic(rng, d, h, h, delta), rng.normal(size=(d, h)), delta


def nu_of(beta_star: Array) -> Callable[[list[Array]], Array]:
    """ν = A⁻¹Wβ* as a function of [A, W]."""
    return lambda p: np.linalg.solve(p[0], p[1] @ beta_star)


@claim(
    "kunin2024/wide-nu",
    place="Appendix, Parameter dynamics when c = h, equation of ν",
    statement="With as many outputs as hidden neurons, ν = A⁻¹Wβ* obeys a Riccati equation of its own.",
    formula=r"\dot\nu = \beta_*^\top\beta_* - \delta\nu - \nu^2",
    conditions="White inputs, unit rates, c = h, Δ = δI, A invertible.",
    tolerance=1e-9,  # A may be ill-conditioned
)
def wide_nu(rng: Rng) -> float:
    start, beta_star, delta = square_outputs(rng)
    nu = nu_of(beta_star)(start)
    printed = beta_star.T @ beta_star - delta * nu - nu @ nu
    moving = velocity(loss_of(np.eye(len(beta_star)), beta_star), start, (1.0, 1.0))
    return relative_error(printed, along(nu_of(beta_star), start, moving))


@claim(
    "kunin2024/wide-c",
    place="Appendix, Parameter dynamics when c = h, equation of C",
    statement="C = AᵀA then obeys a Bernoulli equation driven by ν.",
    formula=r"\dot C = C(\nu + \delta I_h) + (\nu + \delta I_h)^\top C - 2C^2",
    conditions="White inputs, unit rates, c = h, Δ = δI, A invertible.",
    tolerance=1e-9,
)
def wide_c(rng: Rng) -> float:
    start, beta_star, delta = square_outputs(rng)
    C, driven = start[0].T @ start[0], nu_of(beta_star)(start) + delta * np.eye(start[0].shape[1])
    printed = C @ driven + driven.T @ C - 2 * C @ C
    moving = velocity(loss_of(np.eye(len(beta_star)), beta_star), start, (1.0, 1.0))
    return relative_error(printed, along(lambda p: p[0].T @ p[0], start, moving))


@claim(
    "kunin2024/wide-nu-shared-eigenspace",
    place="Appendix, Parameter dynamics when c = h, last paragraph",
    statement="Where ν shares the eigenvectors of β*ᵀβ*, its equation falls apart into scalar Riccati equations, one "
    "for each eigenvalue.",
    formula=r"\nu = V\operatorname{diag}(\nu_i)V^\top, \quad \beta_*^\top\beta_* = V\operatorname{diag}(s_i^2)V^\top"
    r" \;\Rightarrow\; \dot\nu_i = s_i^2 - \delta\nu_i - \nu_i^2",
    conditions="White inputs, unit rates, c = h, Δ = δI, A invertible, ν and β*ᵀβ* with common eigenvectors.",
    tolerance=1e-8,
)
def wide_nu_shared_eigenspace(rng: Rng) -> float:
    """The scalar solutions against the whole network, integrated."""
    h, delta = int(rng.integers(2, 4)), float(rng.normal())
    d = h + int(rng.integers(0, 2))
    U, V, R = draws.orthogonal(rng, d, h), draws.orthogonal(rng, h), draws.orthogonal(rng, h)
    s, small = rng.uniform(0.5, 2.0, size=h), rng.uniform(0.3, 1.0, size=h)
    first, second = (np.sqrt(small**2 + max(sign * delta, 0.0)) for sign in (-1, 1))
    start = [(R * second) @ V.T, (R * first) @ U.T]
    beta_star, times = (U * s) @ V.T, [0.2, 0.6]
    nus = np.stack([nu_of(beta_star)(p) for p in flow(start, np.eye(d), beta_star, times, (1.0, 1.0))])
    modes = [formulas.nu(times, first[i] * s[i] / second[i], delta, s[i]) for i in range(h)]
    return relative_error(np.einsum("ia,at,ja->tij", V, modes, V), nus)
