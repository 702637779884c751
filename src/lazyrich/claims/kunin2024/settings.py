"""Experimental details: the student's start, rescaled layers, filters, the random hierarchy, and infinite width."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from lazyrich.claims.kunin2024.piecewise import outputs
from lazyrich.claims.ledger import NotChecked, claim
from lazyrich.claims.oracles import hessian, relative_error
from lazyrich.inits.neurons import symmetrised
from lazyrich.tasks.random_hierarchy import random_hierarchy

NOT_CHECKED = (
    NotChecked(
        "kunin2024",
        "Experimental details, Figures 1 to 5",
        "Sizes, learning rates, numbers of steps and seeds, hardware and hours.",
        "Settings, not statements. The library's figures and experiments use them.",
    ),
    NotChecked(
        "kunin2024",
        "Section 6; Experimental details, Figures 1 and 5",
        "Faster first layers move the kernel more, give smoother filters, need fewer samples of a hierarchy, and grok "
        "sooner; test losses of students hardly change after 1e5 steps.",
        "Observations in experiments with trained networks, which no small random problem settles.",
    ),
    NotChecked(
        "kunin2024",
        "Section 6, grokking",
        "The embeddings of the transformer are less than 6 % of all parameters.",
        "It depends on sizes in the code of others, which are not printed.",
    ),
    NotChecked(
        "kunin2024",
        "Section 7",
        "Discrete and stochastic steps break the conservation laws and add biases of their own.",
        "Stated as a limitation, without a size.",
    ),
)

Rng = np.random.Generator


@claim(
    "kunin2024/symmetrised-start",
    place="Experimental details, Figure 1",
    statement="A student made of pairs of neurons with equal w and opposite a predicts 0 on every input, is balanced "
    "at "
    "each neuron, and stays at 0 when its layers are rescaled.",
    formula=r"w_{i+h/2} = w_i,\ a_{i+h/2} = -a_i \;\Rightarrow\; f^{\mathrm{student}}(x) = 0, \qquad \delta_i = 0",
    conditions="‖w_i‖ = |a_i| = 1 before rescaling.",
    tolerance=1e-14,
)
def symmetrised_start(rng: Rng) -> float:
    d, h, tau = int(rng.integers(1, 6)), 2 * int(rng.integers(1, 6)), float(rng.uniform(0.1, 2.0))
    W, a = symmetrised(rng, sizes=(d, h, 1)).weights
    scaled_W, scaled_a = symmetrised(rng, sizes=(d, h, 1), tau=tau, delta=float(rng.uniform(-1, 1))).weights
    X = rng.normal(size=(5, d))
    balance = a[0] ** 2 - (W**2).sum(axis=1)
    predictions = [outputs([second[0], first], X, 0.0) for first, second in ((W, a), (scaled_W, scaled_a))]
    return float(max(np.abs(balance).max(), *(np.abs(p).max() for p in predictions)))


def scaled_balance(rng: Rng, delta: float, tau: float, power: int) -> float:
    """a² − ‖w‖² of a unit neuron after w × τ/α and a × τα, with α from δ^power = τ²(α² − α⁻²)."""
    aim = delta**power

    def equation(log_alpha: float) -> float:
        return float(tau**2 * 2 * np.sinh(2 * log_alpha) - aim)

    alpha = np.exp(brentq(equation, -20.0, 20.0, xtol=1e-15))
    w = rng.normal(size=3)
    w = tau / alpha * w / np.linalg.norm(w)
    return float((tau * alpha) ** 2 - w @ w)


@claim(
    "kunin2024/student-delta",
    place="Experimental details, Figure 1",
    statement="From unit neurons, w × τ/α and a × τα give every neuron the balance δ if α solves an equation with δ².",
    formula=r"\delta^2 = \tau^2(\alpha^2 - \alpha^{-2}), \qquad w \mapsto \tfrac\tau\alpha w,\ a \mapsto \tau\alpha a"
    r" \;\Rightarrow\; a^2 - \|w\|^2 = \delta",
    conditions="τ > 0, −1 ≤ δ ≤ 1.",
    tolerance=1e-10,
)
def student_delta(rng: Rng) -> float:
    delta, tau = float(rng.uniform(-1, 1)), float(rng.uniform(0.1, 2.0))
    return relative_error(delta, scaled_balance(rng, delta, tau, 2))


@student_delta.corrected(
    "With δ, not its square, which could not give a negative balance.",
    formula=r"\delta = \tau^2(\alpha^2 - \alpha^{-2})",
)
def student_delta_not_squared(rng: Rng) -> float:
    delta, tau = float(rng.uniform(-1, 1)), float(rng.uniform(0.1, 2.0))
    return relative_error(delta, scaled_balance(rng, delta, tau, 1))


@student_delta.counterexample("τ = 1, δ = ½: the neurons come out with the balance ¼")
def _() -> tuple[float, float]:
    return 0.5, scaled_balance(np.random.default_rng(0), 0.5, 1.0, 2)


@claim(
    "kunin2024/rescaled-layers",
    place="Experimental details, Kernel distance",
    statement="Dividing the first layer by α and multiplying the last by α does not change what the network computes.",
    formula=r"f(x; W_1/\alpha, W_2, \dots, \alpha W_L) = f(x; W_1, \dots, W_L)",
    conditions="ReLU and max pooling, biases that start at 0 as He's initialisation has them, α > 0.",
    tolerance=1e-12,
)
def rescaled_layers(rng: Rng) -> float:
    d, alpha = int(rng.integers(2, 6)), float(10.0 ** rng.uniform(-1, 1))
    W1, W2, W3 = rng.normal(size=(8, d)), rng.normal(size=(6, 4)), rng.normal(size=(2, 3))
    X = rng.normal(size=(5, d))

    def network(first: Any, last: Any) -> Any:
        x = X
        for W in (first, W2):
            x = np.maximum(x @ W.T, 0.0).reshape(len(X), -1, 2).max(axis=2)
        return x @ last.T

    return relative_error(network(W1 / alpha, alpha * W3), network(W1, W3))


def stencil(centre: float) -> Any:
    """The printed 3 × 3 kernel, or one with another centre."""
    return np.array([[-0.25, -0.5, -0.25], [-0.5, centre, -0.5], [-0.25, -0.5, -0.25]])


def _convolved(centre: float, image: Any) -> float:
    """The kernel on the nine points around the origin."""
    places = [-1.0, 0.0, 1.0]
    return float(sum(stencil(centre)[i, j] * image(x, y) for i, x in enumerate(places) for j, y in enumerate(places)))


def _error_of_laplacian(rng: Rng, centre: float) -> float:
    """On a polynomial of degree three, against minus the trace of its Hessian."""
    coefficients = rng.normal(size=(4, 4)) * (np.add.outer(np.arange(4), np.arange(4)) <= 3)

    def image(x: Any, y: Any) -> Any:
        return np.polynomial.polynomial.polyval2d(x, y, coefficients)

    curvature = hessian(lambda p: image(p[0][0], p[0][1]), [np.zeros(2)])
    return relative_error(_convolved(centre, image), -np.trace(curvature))


@claim(
    "kunin2024/laplacian-kernel",
    place="Experimental details, Gabor filters",
    statement="The 3 × 3 kernel by which the smoothness of filters is measured is a Laplacian, up to its sign: it "
    "takes a "
    "smooth image to its second derivatives, and a constant one to zero.",
    formula=r"\Delta = \begin{pmatrix} -0.25 & -0.5 & -0.25 \\ -0.5 & 2 & -0.5 \\ -0.25 & -0.5 & -0.25 \end{pmatrix}",
    conditions="Away from the border; polynomials up to degree three, for which a Laplacian of nine points is exact.",
    tolerance=1e-7,
)
def laplacian_kernel(rng: Rng) -> float:
    return _error_of_laplacian(rng, 2.0)


@laplacian_kernel.corrected(
    "With 3 in the centre its entries sum to zero, and it is −∇². As printed, a constant filter does not count as "
    "smooth.",
    formula=r"\Delta = \begin{pmatrix} -0.25 & -0.5 & -0.25 \\ -0.5 & 3 & -0.5 \\ -0.25 & -0.5 & -0.25 \end{pmatrix}",
)
def laplacian_kernel_with_three(rng: Rng) -> float:
    return _error_of_laplacian(rng, 3.0)


@laplacian_kernel.counterexample("A constant image, whose Laplacian is zero")
def _() -> tuple[float, float]:
    curvature = hessian(lambda p: 1.0 + 0 * p[0].sum(), [np.zeros(2)])
    return _convolved(2.0, lambda x, y: 1.0), float(np.abs(np.trace(curvature)))


@claim(
    "kunin2024/filters-alpha",
    place="Experimental details, Gabor filters, caption",
    statement="Filters are divided by α, and networks with α < 1 are those with a small initialisation.",
    formula=r"\alpha < 1 \;\Rightarrow\; \|w/\alpha\| < \|w\|",
    conditions="α > 0.",
    tolerance=0.0,  # true or false
)
def filters_alpha(rng: Rng) -> float:
    return _error_of_alpha(rng.normal(size=(15, 15)), float(10.0 ** rng.uniform(-1, 1)), below_one_is_small=True)


@filters_alpha.corrected(
    "What is divided by α is small for α > 1.", formula=r"\alpha > 1 \;\Rightarrow\; \|w/\alpha\| < \|w\|"
)
def filters_alpha_above_one(rng: Rng) -> float:
    return _error_of_alpha(rng.normal(size=(15, 15)), float(10.0 ** rng.uniform(-1, 1)), below_one_is_small=False)


@filters_alpha.counterexample("A filter of one pixel, w = 1, α = ½: small (1) by the caption; it is not (0)")
def _() -> tuple[float, float]:
    alpha, w = 0.5, np.ones((1, 1))
    return float(alpha < 1), float(np.linalg.norm(w / alpha) < np.linalg.norm(w))


def _error_of_alpha(w: Any, alpha: float, below_one_is_small: bool) -> float:
    predicted = alpha < 1 if below_one_is_small else alpha > 1
    return abs(float(predicted) - float(np.linalg.norm(w / alpha) < np.linalg.norm(w)))


@claim(
    "kunin2024/hierarchy-rules",
    place="Experimental details, Random Hierarchy Model",
    statement="How many rules a random hierarchy of L levels has, and how long its samples are.",
    formula=r"m n_c + (L - 1) m v \text{ rules}, \qquad s^L \text{ symbols}",
    conditions="n_c classes, m ways to write each, s symbols each, v symbols at every level.",
    tolerance=0.0,  # counts
)
def hierarchy_rules(rng: Rng) -> float:
    """Counted in a hierarchy that was drawn."""
    L, s, m, v = int(rng.integers(1, 4)), int(rng.integers(2, 4)), int(rng.integers(1, 4)), int(rng.integers(3, 6))
    classes = int(rng.integers(2, v + 1))
    drawn = random_hierarchy(int(rng.integers(1000)), L=L, classes=classes, m=m, s=s, v=v)
    rules = sum(1 for level in drawn.rules for ways in level for _ in ways)
    return float(abs(m * classes + (L - 1) * m * v - rules) + abs(s**L - drawn.inputs([0]).shape[1]))


def moments_of_delta(beta_a: float, beta_w: float, d: int) -> tuple[float, float]:
    """Mean and standard deviation of a² − ‖w‖², by Gauss–Hermite quadrature, which is exact for polynomials."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(6)
    weights = weights / weights.sum()
    squares = [(weights @ (b * nodes) ** 2, weights @ (b * nodes) ** 4) for b in (beta_a, beta_w)]
    (mean_a, fourth_a), (mean_w, fourth_w) = squares
    return mean_a - d * mean_w, float(np.sqrt(fourth_a - mean_a**2 + d * (fourth_w - mean_w**2)))


@claim(
    "kunin2024/infinite-width-delta",
    place="Section 5, Connections to infinite width",
    statement="At random starts of infinitely wide networks the conserved numbers of the neurons have mean zero and a "
    "variance that does not vanish, in the NTK and in the mean-field parametrisation alike. The measure is the mean in "
    "units of the standard deviation.",
    formula=r"a_k \sim \mathcal N(0, \beta_a^2),\ w_k \sim \mathcal N(0, \beta_W^2 I_d) \;\Rightarrow\;"
    r" \mathbb E[a_k^2 - \|w_k\|^2] = 0",
    conditions="β_a and β_W of order one, any d; unit rates.",
    tolerance=1e-12,
)
def infinite_width_delta(rng: Rng) -> float:
    beta_a, beta_w = (float(b) for b in rng.uniform(0.5, 2.0, size=2))
    mean, deviation = moments_of_delta(beta_a, beta_w, int(rng.integers(1, 20)))
    return abs(mean) / deviation


@infinite_width_delta.stronger("β_a² = d β_W². With β_a = β_W = 1 the mean is 1 − d, and most neurons are downstream.")
def infinite_width_delta_with_scaled_inputs(rng: Rng) -> float:
    beta_a, d = float(rng.uniform(0.5, 2.0)), int(rng.integers(1, 20))
    mean, deviation = moments_of_delta(beta_a, beta_a / np.sqrt(d), d)
    return abs(mean) / deviation


@infinite_width_delta.counterexample("β_a = β_W = 1 and three inputs: the mean")
def _() -> tuple[float, float]:
    return 0.0, moments_of_delta(1.0, 1.0, 3)[0]
