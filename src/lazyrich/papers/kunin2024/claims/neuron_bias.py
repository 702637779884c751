"""One hidden neuron, η_aη_w = 1: which of many solutions it ends in."""

import numpy as np

from lazyrich import Task
from lazyrich._typing import Array
from lazyrich.bias.interpolation import downstream_end, upstream_end
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.oracles import gradient, relative_error
from lazyrich.papers.base.types import Rng, Values
from lazyrich.papers.kunin2024.claims._one_neuron import Neuron, drawn, size, underdetermined, unit_vector, weights
from lazyrich.papers.kunin2024.claims.neuron_downstream import zeros_met
from lazyrich.papers.kunin2024.claims.neuron_mirror import fewest_by, q
from lazyrich.papers.kunin2024.claims.slips import ONE_INPUT

_END = 60.0  # in units of 1/a², long enough for any residual to vanish


def end_of_flow(n: Neuron) -> Array:
    """β after all learning; the output weight is at least what β* and δ ask for, and sets the pace."""
    slowest = (np.hypot(n.delta, 2 * size(n.beta_star)) + n.delta) / 2
    a, w = n.path([_END / slowest])
    return a[0] * w[0]


def psi(beta: Array, delta: float) -> Values:
    """Ψ_δ(β)."""
    kappa = np.sqrt(delta**2 + 4 * beta @ beta)
    return (kappa - 2 * delta) * np.sqrt(kappa + delta) / 3


def theorem_1_objective(beta: Array, beta0: Array, delta: float) -> Values:
    """Ψ_δ(β) − ψ_δ β̂0ᵀβ."""
    strength = np.sqrt(np.sqrt(delta**2 + 4 * beta0 @ beta0) - delta)
    return psi(beta, delta) - strength * beta0 @ beta / size(beta0)


@claim(
    "kunin2024/theorem-1",
    place="Theorem 1",
    statement="A neuron that interpolates ends in the solution that minimises a potential of its length less a pull "
    "along β0: a trade between a small norm and the direction of the start, set by δ.",
    formula=r"\beta(\infty) = \operatorname{arg\,min}_{X\beta = y}\Psi_\delta(\beta) - "
    r"\psi_\delta\frac{\beta_0^\top\beta}{\|\beta_0\|}, \quad \Psi_\delta = \tfrac13\left(\sqrt{\delta^2 + "
    r"4\|\beta\|^2} - 2\delta\right)\sqrt{\sqrt{\delta^2 + 4\|\beta\|^2} + \delta}, \quad \psi_\delta = "
    r"\sqrt{\sqrt{\delta^2 + 4\|\beta_0\|^2} - \delta}",
    conditions="Any δ; β(t) ≠ 0 at all times; the flow interpolates.",
    tolerance=1e-9,
    seeds=6,
)
def theorem_1(rng: Rng) -> float:
    n = underdetermined(rng)
    return relative_error(fewest_by(lambda b: theorem_1_objective(b, n.beta, n.delta), n.X, n.y), end_of_flow(n))


def q_azulay(x: Values, delta: float) -> Values:
    """q_δ of Theorem 5."""
    s = np.sqrt(x**2 + delta**2 / 4)
    return (x**2 - delta / 2 * (delta / 2 + s)) * np.sqrt(s - delta / 2) / x


def z_azulay(beta0: Array, delta: float) -> Array:
    """z of Theorem 5."""
    return -1.5 * np.sqrt(np.sqrt(beta0 @ beta0 + delta**2 / 4) - delta / 2) * beta0 / size(beta0)


@claim(
    "kunin2024/theorem-5",
    place='Appendix "Connection to Theorem 2…", Theorem 5',
    statement="The same for δ ≥ 0, with the potential in the form of earlier work.",
    formula=r"\beta(\infty) = \operatorname{arg\,min}_{X\beta = y} q_\delta(\|\beta\|) + z^\top\beta, \quad "
    r"q_\delta(x) = \frac{\left(x^2 - \frac\delta2\left(\frac\delta2 + \sqrt{x^2 + "
    r"\frac{\delta^2}{4}}\right)\right)\sqrt{\sqrt{x^2 + \frac{\delta^2}{4}} - \frac\delta2}}{x}, \quad z = "
    r"-\tfrac32\sqrt{\sqrt{\|\beta_0\|^2 + \frac{\delta^2}{4}} - \frac\delta2}\,\frac{\beta_0}{\|\beta_0\|}",
    conditions="δ ≥ 0, β0 ≠ 0; the flow interpolates.",
    tolerance=1e-9,
    seeds=4,
)
def theorem_5(rng: Rng) -> float:
    n = underdetermined(rng, sign=int(rng.integers(0, 2)))
    z, delta = z_azulay(n.beta, n.delta), max(n.delta, 0.0)
    return relative_error(fewest_by(lambda b: q_azulay(size(b), delta) + z @ b, n.X, n.y), end_of_flow(n))


@claim(
    "kunin2024/potentials-equal",
    place='Appendix "Connection to Theorem 2…", and ∇q in "Exact solution when interpolating manifold is…"',
    statement="Both potentials are the same up to a factor and a constant, for either sign of δ.",
    formula=r"\Phi_\delta(\beta) = \frac{2\sqrt2}{3}q_\delta(\|\beta\|) + c_\delta, \qquad \nabla q_\delta(x) = "
    r"\tfrac32\operatorname{sign}(x)\sqrt{\sqrt{x^2 + \tfrac{\delta^2}{4}} - \tfrac\delta2}",
    conditions="x ≠ 0.",
    tolerance=1e-11,
)
def potentials_equal(rng: Rng) -> float:
    """Φ − c of the section before; the slope against a complex step."""
    delta, x = rng.choice([-1.0, 0.0, 1.0]) * rng.uniform(0.3, 3.0), rng.uniform(0.3, 2.0)
    (slope,) = gradient(lambda p: q_azulay(p[0], delta), [x])
    printed_slope = 1.5 * np.sign(x) * np.sqrt(np.sqrt(x**2 + delta**2 / 4) - delta / 2)
    both = 2 * np.sqrt(2) / 3 * q_azulay(x, delta)
    return max(abs(both - q(x, delta)) / (x + abs(delta)) ** 1.5, relative_error(printed_slope, slope))


def _passes_zero(rng: Rng, d: int) -> float:
    """Zeros of one part of β on the way, orthogonal to β* where there is such a part: if it has none, β has none."""
    n = drawn(rng, sign=int(rng.integers(0, 2)), d=d)
    aside = n.w - (n.w @ n.beta_star) / (n.beta_star @ n.beta_star) * n.beta_star if d > 1 else n.w
    a, w = n.path(np.linspace(0.0, 6.0, 13) / size(n.beta_star))
    return zeros_met(a * (w @ aside))


@claim(
    "kunin2024/assumptions-compared",
    place='Appendix "Connection to Theorem 2…", on the assumptions',
    statement="Of the starts with δ ≥ 0 and β0 ≠ 0, only a set of measure zero passes through β = 0.",
    formula=r"\delta \ge 0, \ \beta_0 \ne 0 \implies \beta(t) \ne 0 \ \text{ almost surely}",
    conditions="Any number d of inputs.",
    tolerance=0.0,  # a count
)
def assumptions_compared(rng: Rng) -> float:
    return _passes_zero(rng, int(rng.integers(1, 3)))


@assumptions_compared.stronger(
    "d ≥ 2; only d = 1 is left out: with one input, w passes through zero from every start on the wrong side.",
    slips=(ONE_INPUT,),
)
def assumptions_compared_from_two_inputs(rng: Rng) -> float:
    return _passes_zero(rng, int(rng.integers(2, 5)))


@assumptions_compared.counterexample("One input, a0 = 2, w0 = −1, β* = 1: δ = 3, and β goes from −2 through 0 to 1")
def _() -> tuple[float, float]:
    a, w = Neuron(2.0, -np.ones(1), np.eye(1), np.ones(1)).path([0.0, 5.0])
    return 0.0, float(zeros_met(a * w[:, 0]))


@claim(
    "kunin2024/lemma-4-any-inputs",
    place='Appendix "Connection to Theorem 2…", on the change of sign',
    statement="What Lemma 4 says of white inputs likely holds in general: a changes its sign at most once.",
    formula=r"\#\{t \ge 0 : a(t) = 0\} \le 1",
    conditions="Any inputs, a start that is no saddle.",
    tolerance=0.0,  # a count
)
def lemma_4_any_inputs(rng: Rng) -> float:
    """It does: where a = 0 the loss is that of β = 0, and it falls along the flow."""
    n = drawn(rng, sign=-1, rates="any")
    n = Neuron(n.a * rng.uniform(0.05, 1.0), n.w, n.X @ np.diag(rng.uniform(0.2, 2.0, len(n.w))), n.y, n.eta_a, n.eta_w)
    a, _ = n.path(np.concatenate([[0.0], np.geomspace(0.01, 30.0, 40)]))
    return zeros_met(a) - 1


def one_free_direction(n: Neuron) -> tuple[Array, float]:
    """The unit vector v that no input has, and α of the closed form."""
    v = np.linalg.svd(n.X)[2][-1]
    k = -2 * z_azulay(n.beta, n.delta) @ v / 3
    half = (k**2 + n.delta) / 2
    return v, float(k * np.sqrt(half + np.sqrt(half**2 + n.beta_star @ n.beta_star)))


@claim(
    "kunin2024/one-free-direction",
    place='Appendix "Exact solution when interpolating manifold is one-dimensional"',
    statement="If the inputs leave one direction v free, the end is known in closed form, from the part of the pull z "
    "of Theorem 5 along v; for either sign of δ.",
    formula=r"\beta(\infty) = \beta_* + \alpha v, \qquad \alpha = k\sqrt{\frac{k^2 + \delta}{2} + "
    r"\sqrt{\left(\frac{k^2 + \delta}{2}\right)^2 + \|\beta_*\|^2}}, \qquad k = -\tfrac23 z^\top v",
    conditions="XᵀXv = 0, ‖v‖ = 1, one such direction; β(t) ≠ 0 at all times.",
    tolerance=1e-9,
)
def one_direction(rng: Rng) -> float:
    n = underdetermined(rng, free=1)
    v, alpha = one_free_direction(n)
    return relative_error(n.beta_star + alpha * v, end_of_flow(n))


@claim(
    "kunin2024/one-free-direction-through-zero",
    place='Appendix "Exact solution when interpolating manifold is one-dimensional", last sentences',
    statement="For courses that pass through the origin, where a changes its sign, the end seems to be that with the "
    "opposite α.",
    formula=r"\beta(\infty) = \beta_* - \alpha v",
    conditions="As before, but a changes its sign.",
    tolerance=1e-9,
    seeds=4,
)
def one_direction_through_zero(rng: Rng) -> float:
    while True:
        n = underdetermined(rng, sign=-1, free=1)
        v = np.linalg.svd(n.X)[2][-1]
        w = -n.w + 2 * (n.w @ v) * v  # the start mirrored to the wrong side of the targets
        n = n.at(rng.uniform(0.1, 0.6) * n.a, w)
        end = end_of_flow(n)
        if n.path([_END])[0][0] * n.a < 0:
            v, alpha = one_free_direction(n)
            return relative_error(n.beta_star - alpha * v, end)


@claim(
    "kunin2024/vanishing-starts",
    place='Section "A Minimal Model…", after Theorem 1',
    statement="From vanishing starts a neuron with δ ≥ 0 ends in the solution of least norm, whatever δ is.",
    formula=r"\|\beta_0\| \to 0, \ \delta \ge 0: \qquad \beta(\infty) \to \beta_*",
    conditions="β0 → 0, δ = 0 or δ > 0; the flow interpolates.",
    tolerance=1e-8,
)
def vanishing_starts(rng: Rng) -> float:
    """Off by a power of ‖β0‖, ½ for δ = 0 and 1 for δ > 0, which two lengths extrapolate away."""
    n = underdetermined(rng, sign=int(rng.integers(0, 2)))
    power = 1.0 if n.delta > 1e-9 else 0.5
    ends = []
    for length in (1e-8, 0.25e-8):
        beta0 = length * n.beta / size(n.beta)
        ends.append(end_of_flow(n.at(*weights(rng, beta0, n.delta, n.eta_a, n.eta_w))))
    share = 0.25**power
    return relative_error((ends[1] - share * ends[0]) / (1 - share), n.beta_star)


def _one_sample(rng: Rng, delta: float) -> Neuron:
    """One sample and an oblique start, as in Figure 4 (b)."""
    n = underdetermined(rng, free=int(rng.integers(1, 3)))
    x, y = n.X[:1] / size(n.X[0]), n.y[:1]
    beta0 = unit_vector(rng, len(n.w))
    while abs(beta0 @ x[0]) < 0.4:  # the line of β0 would be long, and the way along it too
        beta0 = unit_vector(rng, len(n.w))
    beta0 = rng.uniform(0.3, 1.2) * beta0
    return Neuron(*weights(rng, beta0, delta, n.eta_a, n.eta_w), x, y, n.eta_a, n.eta_w)


@claim(
    "kunin2024/figure-4-limits",
    place='Section "A Minimal Model…", after Theorem 1; Figure 4 (b)',
    statement="For δ → ∞ the end is the solution nearest to β0, as of linear regression; for δ → −∞ the direction of "
    "β0 dominates, and with one sample the end is on its line.",
    formula=r"\delta \to \infty: \ \beta(\infty) \to \beta_* + (I - P)\beta_0, \qquad \delta \to -\infty: \ "
    r"\beta(\infty) \to \frac{\|\beta_*\|^2}{\beta_*^\top\beta_0}\beta_0",
    conditions="One sample, P the projector on it; β0ᵀβ* ≠ 0.",
    tolerance=1e-8,
)
def figure_4_limits(rng: Rng) -> float:
    """At |δ| = 1e6, where what remains is of order 1/δ² beside what is kept."""
    sign = int(rng.choice([-1, 1]))
    n = _one_sample(rng, sign * 1e6)
    a, w = n.path([4 * _END / 1e6])
    limit = upstream_end if sign > 0 else downstream_end
    return relative_error(limit(Task.from_data(n.X, n.y[:, None]), n.beta), a[0] * w[0])
