"""One hidden neuron: its flow and kernel, its critical points, what is conserved, and the equations of μ and φ."""

from collections.abc import Sequence
from functools import reduce
from itertools import product

import numpy as np
from scipy.ndimage import label
from scipy.optimize import least_squares

from lazyrich._typing import Array
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import gradient, hessian, relative_error
from lazyrich.papers.base.types import Rng
from lazyrich.papers.kunin2024 import formulas
from lazyrich.papers.kunin2024.claims._one_neuron import Neuron, drawn, mu_and_phi, size, unit_vector, weights
from lazyrich.papers.kunin2024.claims.slips import ONE_INPUT

_APPENDIX = 'Appendix "Single-Neuron Linear Network"'

NOT_CHECKED = (
    NotChecked(
        "Appendix, Figures 2, 3 and 4: settings",
        "The figures come from an integration by RK45 to a relative tolerance of 1e-6 over times 0 to 20, on "
        "β* = (0, 1), β0 = (−1, 0) with white inputs, and on β* = (0.44, 0.88), β0 = (0.4, 0.05) with one sample.",
        "A report of what was run. The figures are drawn anew in the gallery with these settings.",
    ),
    NotChecked(
        'Appendix, caption of "Exact temporal dynamics of relevant variables"',
        "The curves are drawn for a target β* of unit length in direction π/4.",
        "A picture is described, whose file is not part of the text. The letters of that caption (ν, φ, ζ) are not "
        "those of the section, so that it cannot be told which curves are meant.",
    ),
)


@claim(
    "kunin2024/neuron-flow",
    place=f"{_APPENDIX}, the coupled equations of a and w",
    statement="Gradient flow of the squared loss moves both weights of f(x) = a wᵀx by the same vector XᵀXaw − Xᵀy, at "
    "the rates η_a and η_w.",
    formula=r"\dot a = -\eta_a w^\top(X^\top X a w - X^\top y), \qquad \dot w = -\eta_w a (X^\top X a w - X^\top y)",
    conditions="Any inputs and targets; the loss is half the sum of squares.",
    tolerance=1e-12,
)
def neuron_flow(rng: Rng) -> float:
    """Against slopes of the loss."""
    n = drawn(rng, white=False, rates="any")
    pull = n.X.T @ n.X @ n.beta - n.X.T @ n.y
    da, dw = n.velocity()
    return relative_error([-n.eta_a * n.w @ pull, *(-n.eta_w * n.a * pull)], [da, *dw])


@claim(
    "kunin2024/neuron-white-flow",
    place='Section "A Minimal Model…", after footnote 3; appendix "Exact solutions"',
    statement="With white inputs all that matters of the data is the solution β* = Xᵀy.",
    formula=r"\dot a = \eta_a\left(w^\top\beta_* - a\|w\|^2\right), \qquad \dot w = \eta_w\left(a\beta_* - a^2 "
    r"w\right)",
    conditions="XᵀX = I.",
    tolerance=1e-12,
)
def neuron_white_flow(rng: Rng) -> float:
    n = drawn(rng, rates="any")
    beta_star = n.X.T @ n.y
    da, dw = n.velocity()
    printed_a = n.eta_a * (n.w @ beta_star - n.a * n.w @ n.w)
    return relative_error([printed_a, *(n.eta_w * (n.a * beta_star - n.a**2 * n.w))], [da, *dw])


@claim(
    "kunin2024/neuron-ntk",
    place='Section "A Minimal Model…", first equation; appendix, first equation',
    statement="The neural tangent kernel of the neuron, weighted by the rates, is a multiple of XXᵀ plus a matrix of "
    "rank one.",
    formula=r"K = X\left(\eta_w a^2 I_d + \eta_a w w^\top\right)X^\top",
    conditions="Any inputs.",
    tolerance=1e-12,
)
def neuron_ntk(rng: Rng) -> float:
    """Against products of derivatives of the predictions, weight by weight."""
    n = drawn(rng, white=False, rates="any")
    printed = n.X @ (n.eta_w * n.a**2 * np.eye(len(n.w)) + n.eta_a * np.outer(n.w, n.w)) @ n.X.T
    return relative_error(printed, n.tangents(lambda a, w: n.X @ (a * w)))


@claim(
    "kunin2024/neuron-saddles",
    place='Section "A Minimal Model…", footnote 2; appendix, before "Conserved quantity"',
    statement="Where the slope of the loss vanishes, the normal equations hold, or the point is one of a subspace of "
    "d − 1 dimensions of saddles.",
    formula=r"\nabla L = 0 \iff X^\top X a w = X^\top y \ \text{ or } \ \left(a = 0,\ w^\top X^\top y = 0\right)",
    conditions="Xᵀy ≠ 0.",
    tolerance=1e-7,  # points are sought by least squares, and the size of a slope is not yet a distance
)
def neuron_saddles(rng: Rng) -> float:
    """Critical points are sought from random starts; a saddle's Hessian has one negative and d − 1 zero eigenvalues."""
    n = drawn(rng, white=False)
    Xty, far = n.X.T @ n.y, 0.0

    def slope(p: Array) -> Array:
        return np.concatenate([np.ravel(g) for g in gradient(n.loss, [p[0], p[1:]])])

    for a in rng.normal(size=3) * [1.0, 0.1, 0.01]:
        found = least_squares(slope, [a, *rng.normal(size=len(n.w))], xtol=1e-15, ftol=1e-15, gtol=1e-15)
        a_found, w_found = found.x[0], found.x[1:]
        if np.linalg.norm(found.fun) < 1e-10:  # a zero of the slope, and not just a place where it is least
            fits = np.linalg.norm(n.X.T @ (n.X @ (a_found * w_found) - n.y))
            far = max(far, min(fits, np.hypot(a_found, w_found @ Xty)))
    w = n.w - (n.w @ Xty) / (Xty @ Xty) * Xty
    curvatures = np.linalg.eigvalsh(hessian(n.loss, [0.0, w]))
    flat = int(np.sum(np.abs(curvatures) < 1e-6))
    slope_there = max(float(np.abs(part).max()) for part in gradient(n.loss, [0.0, w]))
    return max(far, slope_there, abs(flat - (len(w) - 1)), abs(int(np.sum(curvatures < -1e-6)) - 1))


@claim(
    "kunin2024/neuron-minima",
    place='Section "A Minimal Model…"; appendix, before "Conserved quantity"',
    statement="The minima are the curve aw = β*, a hyperbola with one branch for each sign of a, and flat in no other "
    "direction.",
    formula=r"\{(a, \beta_*/a) : a \neq 0\}",
    conditions="XᵀX invertible, β* ≠ 0.",
    tolerance=1e-7,  # of the numerical Hessian
)
def neuron_minima(rng: Rng) -> float:
    """The slope vanishes there; the Hessian's only flat direction is that of the curve, and it bends up elsewhere."""
    n = drawn(rng, white=False)
    a = rng.choice([-1.0, 1.0]) * rng.uniform(0.5, 2.0)
    w = n.beta_star / a
    slope = max(float(np.abs(part).max()) for part in gradient(n.loss, [a, w]))
    curvatures, axes = np.linalg.eigh(hessian(n.loss, [a, w]))
    along = np.array([1.0, *(-n.beta_star / a**2)])
    aside = 1 - abs(axes[:, 0] @ along) / size(along)
    return max(slope, float(abs(curvatures[0])), float(aside), float(curvatures[1] < 1e-3))


@claim(
    "kunin2024/neuron-convergence",
    place='Section "A Minimal Model…"; appendix, before "Conserved quantity"',
    statement="Unless it starts on a set of measure zero that leads to saddles, the flow reaches a global minimum.",
    formula=r"X^\top X a w \to X^\top y",
    conditions="Almost every start; XᵀX of any rank.",
    tolerance=1e-8,
)
def neuron_convergence(rng: Rng) -> float:
    n = drawn(rng, white=False)
    if rng.uniform() < 0.5:  # one direction without inputs, and targets that are not met exactly
        v = unit_vector(rng, len(n.w))
        n = Neuron(n.a, n.w, n.X - np.outer(n.X @ v, v), n.y, n.eta_a, n.eta_w)
    a, w = n.path([150.0])
    return relative_error(n.X.T @ n.X @ (a[0] * w[0]), n.X.T @ n.y)


@claim(
    "kunin2024/neuron-conserved",
    place='Section "A Minimal Model…"; appendix "Conserved quantity"',
    statement="The difference of the squared layers, weighted by each other's rates, never changes.",
    formula=r"\delta = \eta_w a^2 - \eta_a\|w\|^2, \qquad \dot\delta = 0",
    conditions="Any inputs and rates.",
    tolerance=1e-10,
)
def neuron_conserved(rng: Rng) -> float:
    n = drawn(rng, white=False, rates="any")
    a, w = n.path([0.0, 0.5, 2.0])
    delta = [formulas.conserved(x, v, n.eta_a, n.eta_w) for x, v in zip(a, w, strict=True)]
    return float(np.ptp(delta) / (n.eta_w * n.a**2 + n.eta_a * n.w @ n.w))


def sheets(form: Sequence[float], alpha: float, cells: int = 14, reach: float = 2.8) -> int:
    """How many connected pieces {x : Σ form_i x_i² = α} has in a box: cells that it meets, those that touch joined."""
    ticks = np.linspace(-reach, reach, cells + 1)  # the origin is a corner of cells
    grids = np.meshgrid(*[ticks] * len(form), indexing="ij")
    values = reduce(np.add, [f * g**2 for f, g in zip(form, grids, strict=True)]) - alpha
    corners = [values[tuple(slice(c, c + cells) for c in corner)] for corner in product((0, 1), repeat=len(form))]
    met = (np.min(corners, axis=0) <= 0) & (np.max(corners, axis=0) >= 0)
    return int(label(met, np.ones((3,) * len(form)))[1])


def hyperboloid(k: int, n: int) -> list[float]:
    return [1.0] * k + [-1.0] * (n - k)


@claim(
    "kunin2024/hyperboloid-sheets",
    place='Appendix "Conserved quantity", last paragraph',
    statement="The hyperboloid of k positive and n − k negative squares has two sheets for k = 1, and one otherwise.",
    formula=r"\sum_{i \le k} x_i^2 - \sum_{i > k} x_i^2 = \alpha: \quad \text{two sheets if } k = 1, \text{ else one}",
    conditions="α ≥ 0.",
    tolerance=0.0,  # a count
    seeds=19,
)
def hyperboloid_sheets(rng: Rng) -> float:
    return _miscounted(rng, float(rng.choice([0.0, rng.uniform(0.5, 2.0)])))


@hyperboloid_sheets.stronger(
    "α > 0: at α = 0 the two sheets of k = 1 are joined at the origin, which the source itself calls a singularity in "
    "the next sentence."
)
def hyperboloid_sheets_apart(rng: Rng) -> float:
    return _miscounted(rng, rng.uniform(0.5, 2.0))


def _miscounted(rng: Rng, alpha: float) -> float:
    n = int(rng.integers(1, 5))
    k = int(rng.integers(1, n + 1))
    return abs((2 if k == 1 else 1) - sheets(hyperboloid(k, n), alpha))


@hyperboloid_sheets.counterexample("x² = y² is two lines that cross: one connected set")
def _() -> tuple[float, float]:
    return 2.0, float(sheets(hyperboloid(1, 2), 0.0))


@claim(
    "kunin2024/hyperboloid-curvature",
    place='Appendix "Conserved quantity", last paragraph',
    statement="The larger α is, the less curved is the hyperboloid; at α = 0 it has a singular point.",
    formula=r"\alpha \to \infty: \text{ curvature decreases}",
    conditions="α > 0; curvature is the largest one over the surface, which says nothing of a fixed place.",
    tolerance=0.0,  # an ordering
)
def hyperboloid_curvature(rng: Rng) -> float:
    """Of the branch x = √(α + y²) of a section, from circles through three points close together: about x''(0)."""

    def largest(alpha: float) -> float:
        y = np.linspace(-3.0, 3.0, 2401)
        points = np.stack([np.sqrt(alpha + y**2), y], axis=1)
        before, after = points[1:-1] - points[:-2], points[2:] - points[1:-1]
        across = points[2:] - points[:-2]
        doubled_area = np.abs(before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0])
        return float(np.max(2 * doubled_area / (size(before) * size(after) * size(across))))

    alpha = np.cumsum(rng.uniform(0.3, 2.0, size=4))
    found = np.array([largest(value) for value in alpha])
    return max(float(np.max(np.diff(found))), float(np.max(np.abs(found * np.sqrt(alpha) - 1))) - 1e-3)


@claim(
    "kunin2024/neuron-sheets",
    place='Appendix, first sentences of "Upstream" and of "Downstream"',
    statement="The weights move on a hyperboloid of two sheets, one for each sign of a, if δ > 0, and of a single "
    "sheet if δ < 0.",
    formula=r"\{\eta_w a^2 - \eta_a\|w\|^2 = \delta\}: \quad 2 \text{ sheets if } \delta > 0, \ 1 \text{ if } \delta "
    r"< 0",
    conditions="w in any number d of dimensions.",
    tolerance=0.0,  # a count
    seeds=7,
)
def neuron_sheets(rng: Rng) -> float:
    return _missed_sheets(rng, int(rng.choice([1, 1, 2, 3])))


@neuron_sheets.stronger(
    "d ≥ 2; only d = 1 is left out: there, for δ < 0, there are two branches, one for each sign of w.",
    slips=(ONE_INPUT,),
)
def neuron_sheets_from_two_inputs(rng: Rng) -> float:
    return _missed_sheets(rng, int(rng.integers(2, 4)))


def _missed_sheets(rng: Rng, d: int) -> float:
    delta = rng.choice([-1.0, 1.0]) * rng.uniform(0.5, 2.0)
    eta_a, eta_w = rng.uniform(0.8, 1.25, size=2)
    return abs((2 if delta > 0 else 1) - sheets([eta_w] + [-eta_a] * d, delta))


@neuron_sheets.counterexample("One input, a² − w² = −1: w² ≥ 1, so that w keeps its sign, and there are two branches")
def _() -> tuple[float, float]:
    return 1.0, float(sheets([1.0, -1.0], -1.0))


@claim(
    "kunin2024/neuron-sum-of-squares",
    place='Appendix "Deriving the dynamics for μ and φ", the key simplification',
    statement="The sum of the squared layers follows from their product and their conserved difference.",
    formula=r"\eta_w a^2 + \eta_a\|w\|^2 = \sqrt{\delta^2 + 4\eta_a\eta_w\mu^2}, \qquad \mu = a\|w\|",
    conditions="Any rates.",
    tolerance=1e-13,
)
def sum_of_squares(rng: Rng) -> float:
    n = drawn(rng, rates="any")
    printed = formulas.kappa(np.sqrt(n.eta_a * n.eta_w) * n.beta, n.delta)
    return relative_error(printed, n.eta_w * n.a**2 + n.eta_a * n.w @ n.w)


def mu_phi_velocity(mu: float, phi: float, delta: float, norm: float, rates: float) -> tuple[float, float]:
    """μ̇ and φ̇ as printed; norm = ‖β*‖, rates = η_aη_w."""
    kappa = np.sqrt(delta**2 + 4 * rates * mu**2)
    return kappa * (phi * norm - mu), rates * 2 * mu * norm / (kappa - delta) * (1 - phi**2)


@claim(
    "kunin2024/neuron-mu-phi",
    place='Section "A Minimal Model…", the equations of μ and φ; appendix, the same',
    statement="The signed length μ = a‖w‖ of β and the cosine φ of its angle to β*, up to the sign of a, obey two "
    "equations of their own.",
    formula=r"\dot\mu = \sqrt{\delta^2 + 4\eta_a\eta_w\mu^2}\,(\phi\|\beta_*\| - \mu), \qquad \dot\phi = "
    r"\frac{2\eta_a\eta_w\,\mu\|\beta_*\|}{\sqrt{\delta^2 + 4\eta_a\eta_w\mu^2} - \delta}(1 - \phi^2)",
    conditions="White inputs; any rates; w ≠ 0.",
    tolerance=1e-11,
)
def neuron_mu_phi(rng: Rng) -> float:
    n = drawn(rng, rates="any")
    beta_star = n.beta_star
    mu, phi = mu_and_phi(n.a, n.w, beta_star)
    printed = mu_phi_velocity(mu, phi, n.delta, float(size(beta_star)), n.eta_a * n.eta_w)
    return relative_error(list(printed), n.rate(lambda a, w: mu_and_phi(a, w, beta_star)))


@claim(
    "kunin2024/rates-absorbed",
    place='Appendix "Deriving the dynamics for μ and φ", and again at the end of "Function space dynamics of β"',
    statement="Rates enter through their product and δ alone: β, times the root of the product, moves as with unit "
    "rates to targets times that root.",
    formula=r"\beta' = \sqrt{\eta_a\eta_w}\,\beta, \qquad y' = \sqrt{\eta_a\eta_w}\,y, \qquad \mu' = "
    r"\sqrt{\eta_a\eta_w}\,\mu",
    conditions="Any inputs; the same δ.",
    tolerance=1e-9,
)
def rates_absorbed(rng: Rng) -> float:
    """Two flows, of different weights."""
    n = drawn(rng, white=False, rates="any")
    root, times = np.sqrt(n.eta_a * n.eta_w), [0.3, 1.0, 3.0]
    a, w = n.path(times)
    plain_a, plain_w = Neuron(*weights(rng, root * n.beta, n.delta), n.X, root * n.y).path(times)
    return relative_error(plain_a[:, None] * plain_w / root, a[:, None] * w)


@claim(
    "kunin2024/neuron-w-span",
    place='Section "A Minimal Model…", after the equations with white inputs',
    statement="The hidden weights never leave the plane of w0 and β*.",
    formula=r"w(t) \in \operatorname{span}\{w_0, \beta_*\}",
    conditions="White inputs.",
    tolerance=1e-10,
)
def neuron_w_span(rng: Rng) -> float:
    n = drawn(rng, rates="any", d=int(rng.integers(3, 6)))
    _, w = n.path([0.5, 2.0])
    plane, _ = np.linalg.qr(np.stack([n.w, n.beta_star], axis=1))
    return float(np.abs(w - w @ plane @ plane.T).max() / size(w).max())
