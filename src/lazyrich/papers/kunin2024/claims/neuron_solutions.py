"""One hidden neuron, white inputs: the exact solutions for δ = 0 (balanced) and δ > 0 (upstream), and the way back to
the weights."""

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.oracles import relative_error
from lazyrich.papers.base.types import Pair, Real, Rng
from lazyrich.papers.kunin2024 import formulas
from lazyrich.papers.kunin2024.claims._one_neuron import Neuron, cosine, drawn, mu_and_phi, size
from lazyrich.papers.kunin2024.claims.slips import UNIT_RATES, UNIT_TARGET

_TIMES = np.array([0.0, 0.1, 0.4, 1.0, 3.0])  # in units of 1/‖β*‖


@claim(
    "kunin2024/balanced-dynamics",
    place='Appendix "Balanced δ = 0", first equations',
    statement="With δ = 0 the angle moves by itself, and drives a Bernoulli equation for μ.",
    formula=r"\dot\mu = \operatorname{sgn}(\mu)\, 2\mu(\phi\|\beta_*\| - \mu), \qquad "
    r"\dot\phi = \operatorname{sgn}(\mu)\,\|\beta_*\|(1 - \phi^2)",
    conditions="White inputs, δ = 0, η_aη_w = 1.",
    tolerance=1e-11,
)
def balanced_dynamics(rng: Rng) -> float:
    n = drawn(rng, sign=0)
    beta_star = n.beta_star
    norm, (mu, phi) = float(size(beta_star)), mu_and_phi(n.a, n.w, beta_star)
    printed = np.sign(mu) * np.array([2 * mu * (phi * norm - mu), norm * (1 - phi**2)])
    return relative_error(printed, n.rate(lambda a, w: mu_and_phi(a, w, beta_star)))


@claim(
    "kunin2024/balanced-sign",
    place='Appendix "Balanced δ = 0"',
    statement="With δ = 0 the sign of μ, which is that of a, stays: the flow cannot pass from one cone to the other.",
    formula=r"\operatorname{sgn}\mu(t) = \operatorname{sgn} a(t) = \operatorname{sgn} a_0",
    conditions="White inputs, δ = 0, a0 ≠ 0.",
    tolerance=0.0,  # a sign
    seeds=7,
)
def balanced_sign(rng: Rng) -> float:
    n = drawn(rng, sign=0, d=int(rng.integers(1, 4)))
    if rng.uniform() < 0.5:  # straight against the target, on the way to the saddle between the cones
        n = n.at(n.a, -np.sign(n.a) * size(n.w) / size(n.beta_star) * n.beta_star)
    a, w = n.path(np.array([0.3, 1.0, 3.0, 8.0]) / size(n.beta_star))
    return -float(np.min([np.sign(n.a) * a, np.sign(n.a) * a * size(w)]))


def _balanced_path(rng: Rng) -> tuple[Neuron, float, Array, Array, Array]:
    """A balanced start with a0 > 0, ‖β*‖, times, and μ and φ along the flow."""
    n = drawn(rng, sign=0, positive=True)
    norm = float(size(n.beta_star))
    times = _TIMES / norm
    mu, phi = mu_and_phi(*n.path(times), n.beta_star)
    return n, norm, times, mu, phi


@claim(
    "kunin2024/balanced-phi",
    place='Appendix "Balanced δ = 0", solution for φ',
    statement="With δ = 0 the cosine follows a hyperbolic tangent in time, whatever the length does, and tends to 1.",
    formula=r"\phi(t) = \tanh(c_\phi + \|\beta_*\| t), \qquad c_\phi = \tanh^{-1}\phi_0",
    conditions="White inputs, δ = 0, a0 > 0, |φ0| < 1, η_aη_w = 1.",
    tolerance=1e-11,
)
def balanced_phi(rng: Rng) -> float:
    _, norm, times, mu, phi = _balanced_path(rng)
    return relative_error(formulas.balanced(times, mu[0], np.arctanh(phi[0]), norm)[1], phi)


def balanced_mu_as_printed(times: Real, mu0: float, c_phi: float, norm: float) -> Real:
    """μ(t) without the factor ‖β*‖."""
    x = c_phi + norm * times
    c_mu = 2 / mu0 * np.cosh(c_phi) ** 2 - (2 * c_phi + np.sinh(2 * c_phi))
    return 2 * np.cosh(x) ** 2 / (2 * x + np.sinh(2 * x) + c_mu)


@claim(
    "kunin2024/balanced-mu",
    place='Appendix "Balanced δ = 0", solution for μ',
    statement="With δ = 0 the length of β is known in closed form.",
    formula=r"\mu(t) = \frac{2\cosh^2 x}{2x + \sinh 2x + c_\mu}, \qquad x = c_\phi + \|\beta_*\|t, \qquad "
    r"c_\mu = 2\mu_0^{-1}\cosh^2 c_\phi - (2c_\phi + \sinh 2c_\phi)",
    conditions="White inputs, δ = 0, a0 > 0, |φ0| < 1, η_aη_w = 1.",
    tolerance=1e-11,
)
def balanced_mu(rng: Rng) -> float:
    _, norm, times, mu, phi = _balanced_path(rng)
    return relative_error(balanced_mu_as_printed(times, mu[0], np.arctanh(phi[0]), norm), mu)


@balanced_mu.corrected(
    "A factor ‖β*‖ is missing, in μ and in its constant; for ‖β*‖ = 1 the printed form is right.",
    formula=r"\mu(t) = \frac{2\|\beta_*\|\cosh^2 x}{2x + \sinh 2x + c_\mu}, \qquad "
    r"c_\mu = 2\|\beta_*\|\mu_0^{-1}\cosh^2 c_\phi - (2c_\phi + \sinh 2c_\phi)",
    slips=(UNIT_TARGET,),
)
def balanced_mu_with_its_factor(rng: Rng) -> float:
    _, norm, times, mu, phi = _balanced_path(rng)
    return relative_error(formulas.balanced(times, mu[0], np.arctanh(phi[0]), norm)[0], mu)


@balanced_mu.counterexample("β* = (2, 0), a0 = 1, w0 = (0, 1): at t = 10 the neuron has learned, μ = 2")
def _() -> tuple[float, float]:
    n = Neuron(1.0, np.array([0.0, 1.0]), np.eye(2), np.array([2.0, 0.0]))
    a, w = n.path([10.0])
    return float(balanced_mu_as_printed(10.0, 1.0, 0.0, 2.0)), float(a[0] * size(w[0]))


@claim(
    "kunin2024/balanced-saddle",
    place='Appendix "Balanced δ = 0", last sentence',
    statement="A balanced start straight against the target keeps its direction and falls into the saddle.",
    formula=r"\phi_0 = -1: \qquad \dot\phi = 0, \qquad \mu(t) \to 0",
    conditions="White inputs, δ = 0, a0 > 0.",
    tolerance=1e-9,
    seeds=7,
)
def balanced_saddle(rng: Rng) -> float:
    """Followed down to a thousandth of the start; rounding would turn it later."""
    n = drawn(rng, sign=0, positive=True)
    norm = size(n.beta_star)
    n = n.at(n.a, -size(n.w) / norm * n.beta_star)
    mu, phi = mu_and_phi(*n.path(np.array([0.0, 1.0, 2.0, 4.0]) / norm), n.beta_star)
    return max(float(np.abs(phi + 1).max()), float(np.diff(mu).max()), float(mu[-1] / mu[0] - 1e-3), -float(mu[-1]))


@claim(
    "kunin2024/upstream-sign",
    place='Appendix "Upstream δ > 0", second sentence',
    statement="With δ > 0 the output weight keeps its sign.",
    formula=r"a_0 > 0 \implies a(t) > 0",
    conditions="δ > 0.",
    tolerance=0.0,  # a sign
    seeds=8,
)
def upstream_sign(rng: Rng) -> float:
    n = drawn(rng, sign=1, white=False, rates="any")
    n = n.at(n.a, -np.sign(n.a) * size(n.w) / size(n.beta_star) * n.beta_star)  # a shrinks most where w is against β*
    a, _ = n.path([0.1, 0.3, 0.6, 1.0, 2.0, 4.0])
    return -float(np.min(np.sign(n.a) * a))


@claim(
    "kunin2024/nu-dynamics",
    place='Appendix "Upstream δ > 0", equation of ν',
    statement="The ratio ν = wᵀβ*/a obeys a Riccati equation with constant coefficients.",
    formula=r"\nu = \frac{w^\top\beta_*}{a}, \qquad \dot\nu = \|\beta_*\|^2 - \delta\nu - \nu^2",
    conditions="White inputs, η_aη_w = 1, a ≠ 0.",
    tolerance=1e-10,
)
def nu_dynamics(rng: Rng, rates: str = "product one") -> float:
    n = drawn(rng, rates=rates)
    beta_star = n.beta_star
    nu = n.w @ beta_star / n.a
    truth = n.rate(lambda a, w: w @ beta_star / a)
    return float(abs(beta_star @ beta_star - n.delta * nu - nu**2 - truth) / (beta_star @ beta_star + nu**2))


@nu_dynamics.stronger(
    "Both rates are 1; otherwise √η has to be absorbed into a and w first, and the equation is that of η_a wᵀβ*/a, the "
    "ratio of √η_a w and √η_w a.",
    slips=(UNIT_RATES,),
)
def nu_dynamics_with_unit_rates(rng: Rng) -> float:
    return nu_dynamics.check(rng, rates="unit")


@nu_dynamics.counterexample("η_a = 2, η_w = ½, a = w = β* = 1: at the minimum nothing moves, and δ = −3/2")
def _() -> tuple[float, float]:
    n = Neuron(1.0, np.ones(1), np.eye(1), np.ones(1), 2.0, 0.5)
    return float(1.0 - n.delta - 1.0), float(n.rate(lambda a, w: w[0] / a))


@claim(
    "kunin2024/nu-solution",
    place='Appendix "Upstream δ > 0", solution for ν',
    statement="The Riccati equation of ν is solved by a quotient of hyperbolic functions.",
    formula=r"\nu(t) = \frac{2R\nu_0\cosh Rt + (2\|\beta_*\|^2 - \delta\nu_0)\sinh Rt}"
    r"{2R\cosh Rt + (2\nu_0 + \delta)\sinh Rt}, \qquad R = \tfrac12\sqrt{\delta^2 + 4\|\beta_*\|^2}",
    conditions="White inputs, δ > 0, η_a = η_w = 1.",
    tolerance=1e-11,
)
def nu_solution(rng: Rng) -> float:
    n = drawn(rng, sign=1, rates="unit")
    norm = float(size(n.beta_star))
    times = _TIMES / norm
    a, w = n.path(times)
    nu = w @ n.beta_star / a
    return relative_error(formulas.nu(times, nu[0], n.delta, norm), nu)


@claim(
    "kunin2024/a-dynamics",
    place='Appendix "Upstream δ > 0", equation of a',
    statement="Given ν, the output weight obeys a Bernoulli equation.",
    formula=r"\dot a = a(\nu + \delta - a^2), \qquad \nu = \frac{w^\top\beta_*}{a}",
    conditions="White inputs, η_aη_w = 1, a ≠ 0.",
    tolerance=1e-10,
)
def a_dynamics(rng: Rng, rates: str = "product one") -> float:
    n = drawn(rng, rates=rates)
    printed = n.a * (n.w @ n.beta_star / n.a + n.delta - n.a**2)
    scale = abs(n.a) * (n.w @ n.w + n.a**2)
    return float(abs(printed - n.velocity()[0]) / scale)


@a_dynamics.stronger(
    "Both rates are 1; otherwise √η has to be absorbed into a and w first, which puts η_a in front of wᵀβ*/a and η_w "
    "in front of a².",
    slips=(UNIT_RATES,),
)
def a_dynamics_with_unit_rates(rng: Rng) -> float:
    return a_dynamics.check(rng, rates="unit")


@a_dynamics.counterexample("η_a = 2, η_w = ½, a = w = β* = 1: at the minimum nothing moves, and δ = −3/2")
def _() -> tuple[float, float]:
    n = Neuron(1.0, np.ones(1), np.eye(1), np.ones(1), 2.0, 0.5)
    return float(1.0 * (1.0 + n.delta - 1.0)), n.velocity()[0]


def _upstream_error(n: Neuron) -> float:
    norm = float(size(n.beta_star))
    times = _TIMES / norm
    printed = formulas.a_as_printed(times, n.a, np.float64(n.w @ n.beta_star), n.delta, norm)
    return relative_error(printed, n.path(times)[0])


@claim(
    "kunin2024/a-upstream",
    place='Appendix "Upstream δ > 0", solution for a',
    statement="With δ > 0 the output weight is known in closed form. Read with complex numbers: Y is complex where "
    "2ν0 + δ > √(δ² + 4‖β*‖²), a is not.",
    formula=r"a(t) = 2e^{\delta t/2}\|\beta_*\|\sqrt\delta\left(\operatorname{sech}^2 Y\left[4e^{\delta "
    r"t}\|\beta_*\|^2 - \frac{(\delta^2 + 4\|\beta_*\|^2)(\|\beta_*\|^2(\delta - a_0^2) + b_0^2)}{b_0^2 - "
    r"a_0^2\|\beta_*\|^2 + a_0b_0\delta} - \delta e^{\delta t}\left(\delta\cosh 2Y - \sqrt{\delta^2 + "
    r"4\|\beta_*\|^2}\,\sinh 2Y\right)\right]\right)^{-1/2}, \qquad Y = \tfrac12\sqrt{\delta^2 + 4\|\beta_*\|^2}\,t + "
    r"\operatorname{atanh}\frac{2b_0/a_0 + \delta}{\sqrt{\delta^2 + 4\|\beta_*\|^2}}, \qquad b_0 = w_0^\top\beta_*",
    conditions="White inputs, δ > 0, a0 > 0, η_a = η_w = 1.",
    tolerance=1e-10,
)
def a_upstream(rng: Rng) -> float:
    n = drawn(rng, sign=1, rates="unit", positive=True)
    if rng.uniform() < 0.3:  # what is learned already, and stays
        a = size(n.beta_star)
        n = n.at(1.5 * np.sqrt(a), n.beta_star / (1.5 * np.sqrt(a)))
    return _upstream_error(n)


@a_upstream.stronger(
    "ν0 is no fixed point, ν0² + δν0 ≠ ‖β*‖²: there, as at every minimum, the formula is 0/0; digits are lost nearby."
)
def a_upstream_off_fixed_points(rng: Rng) -> float:
    while True:
        n = drawn(rng, sign=1, rates="unit", positive=True)
        nu0 = n.w @ n.beta_star / n.a
        if abs(nu0**2 + n.delta * nu0 - n.beta_star @ n.beta_star) > 0.1:
            return _upstream_error(n)


@a_upstream.counterexample("a0 = 2, w0 = ½, β* = 1: learned already, so that a stays 2, and the formula has no value")
def _() -> tuple[float, float]:
    n = Neuron(2.0, np.array([0.5]), np.eye(1), np.ones(1))
    printed = formulas.a_as_printed([1.0], n.a, np.float64(n.w[0]), n.delta, 1.0)
    return float(printed[0]), float(n.path([1.0])[0][0])


def strengths(mu: float, delta: float, eta_a: float = 1.0, eta_w: float = 1.0) -> Array:
    """a and ‖w‖ from μ, as printed where the rates are 1."""
    kappa = np.sqrt(delta**2 + 4 * mu**2)
    return np.array([np.sign(mu) * np.sqrt((kappa + delta) / (2 * eta_w)), np.sqrt((kappa - delta) / (2 * eta_a))])


@claim(
    "kunin2024/recovered-strengths",
    place='Appendix "Recovering parameters (a, w) from (μ, φ)", first equation',
    statement="The output weight and the length of the hidden ones follow from μ and δ.",
    formula=r"a = \operatorname{sgn}(\mu)\sqrt{\frac{\sqrt{\delta^2 + 4\mu^2} + \delta}{2}}, \qquad "
    r"\|w\| = \sqrt{\frac{\sqrt{\delta^2 + 4\mu^2} - \delta}{2}}",
    conditions="η_aη_w = 1, μ ≠ 0.",
    tolerance=1e-12,
)
def recovered_strengths(rng: Rng) -> float:
    n = drawn(rng)
    return relative_error(strengths(n.a * size(n.w), n.delta), [n.a, size(n.w)])


@recovered_strengths.corrected(
    "Unless both rates are 1, what stands under the roots is to be divided by η_w and by η_a.",
    formula=r"a = \operatorname{sgn}(\mu)\sqrt{\frac{\sqrt{\delta^2 + 4\mu^2} + \delta}{2\eta_w}}, \qquad "
    r"\|w\| = \sqrt{\frac{\sqrt{\delta^2 + 4\mu^2} - \delta}{2\eta_a}}",
    slips=(UNIT_RATES,),
)
def recovered_strengths_with_rates(rng: Rng) -> float:
    n = drawn(rng)
    return relative_error(strengths(n.a * size(n.w), n.delta, n.eta_a, n.eta_w), [n.a, size(n.w)])


@recovered_strengths.counterexample("η_w = 4, η_a = ¼, a = 1, w = 1: δ = 15/4 and μ = 1")
def _() -> Pair:
    n = Neuron(1.0, np.ones(1), np.eye(1), np.ones(1), 0.25, 4.0)
    return strengths(1.0, n.delta), np.array([n.a, n.w[0]])


@claim(
    "kunin2024/recovered-w",
    place='Appendix "Recovering parameters (a, w) from (μ, φ)", second equation',
    statement="The hidden weights follow from their length, from φ, and from the part of w0 orthogonal to β*, on the "
    "side of which they stay.",
    formula=r"w(t) = \|w\|\phi\,\frac{\beta_*}{\|\beta_*\|} + \sqrt{\|w\|^2 - \|w\|^2\phi^2}\,\frac{(I - "
    r"\beta_*\beta_*^\top/\|\beta_*\|^2)\,w_0}{\sqrt{\|w_0\|^2 - (\beta_*^\top w_0/\|\beta_*\|)^2}}",
    conditions="White inputs, w0 not along β*.",
    tolerance=1e-10,
)
def recovered_w(rng: Rng) -> float:
    n = drawn(rng, rates="any")
    toward = n.beta_star / size(n.beta_star)
    _, w = n.path([0.1, 0.4, 1.0])
    length, phi = size(w), cosine(w, n.beta_star)
    aside = (n.w - (toward @ n.w) * toward) / np.sqrt(n.w @ n.w - (toward @ n.w) ** 2)
    c_1 = length * phi
    return relative_error(c_1[:, None] * toward + np.sqrt(length**2 - c_1**2)[:, None] * aside, w)
