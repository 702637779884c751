"""Experimental details: the student's start, rescaled layers, the kernel distance, filters, the random hierarchy, the
transformer's parameters, and infinite width."""

from collections.abc import Callable, Iterable

import numpy as np
from scipy.optimize import brentq

from lazyrich._typing import Array
from lazyrich.inits.neurons import symmetrised
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import along, hessian, relative_error
from lazyrich.papers.base.types import Rng, Tree, Values
from lazyrich.papers.kunin2024.claims.measures import tangent, velocity
from lazyrich.papers.kunin2024.claims.piecewise import loss_of, outputs
from lazyrich.papers.kunin2024.experiments.grokking import initial_network
from lazyrich.papers.kunin2024.random_hierarchy import random_hierarchy

NOT_CHECKED = (
    NotChecked(
        "Experimental details, Figures 1 to 5",
        "Sizes, learning rates, numbers of steps and seeds, hardware and hours.",
        "Settings, not statements. The library's figures and experiments use them.",
    ),
    NotChecked(
        "Section 6; Experimental details, Figures 1 and 5",
        "Faster first layers move the kernel more, give smoother filters, need fewer samples of a hierarchy, and grok "
        "sooner; test losses of students hardly change after 1e5 steps.",
        "Observations in experiments with trained networks, which no small random problem settles.",
    ),
    NotChecked(
        "Section 7",
        "Discrete and stochastic steps break the conservation laws and add biases of their own.",
        "Stated as a limitation, without a size.",
    ),
)


@claim(
    "kunin2024/symmetrised-start",
    place="Experimental details, Figure 1",
    statement="A student made of pairs of neurons with equal w and opposite a predicts 0 on every input, is balanced "
    "at each neuron, and stays at 0 when its layers are rescaled.",
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
def student_delta(rng: Rng, power: int = 2) -> float:
    delta, tau = float(rng.uniform(-1, 1)), float(rng.uniform(0.1, 2.0))
    return relative_error(delta, scaled_balance(rng, delta, tau, power))


@student_delta.corrected(
    "With δ, not its square, which could not give a negative balance.",
    formula=r"\delta = \tau^2(\alpha^2 - \alpha^{-2})",
)
def student_delta_not_squared(rng: Rng) -> float:
    return student_delta.check(rng, power=1)


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

    def network(first: Array, last: Array) -> Array:
        x = X
        for W in (first, W2):
            x = np.maximum(x @ W.T, 0.0).reshape(len(X), -1, 2).max(axis=2)
        return x @ last.T

    return relative_error(network(W1 / alpha, alpha * W3), network(W1, W3))


def kernel_distance(K1: Array, K2: Array) -> float:
    """S, as printed."""
    return 1 - float(np.sum(K1 * K2)) / float(np.linalg.norm(K1) * np.linalg.norm(K2))


@claim(
    "kunin2024/kernel-distance-scale",
    place="Experimental details, Kernel distance; Section 2, the same",
    statement="The kernel distance does not depend on the scale of either kernel: it compares their directions alone, "
    "and is half the squared distance between the kernels of unit norm.",
    formula=r"S(t_1, t_2) = 1 - \frac{\langle K_{t_1}, K_{t_2}\rangle}{\|K_{t_1}\|_F\|K_{t_2}\|_F}, \qquad"
    r" S(c_1K_{t_1}, c_2K_{t_2}) = S(K_{t_1}, K_{t_2})",
    conditions="Kernels that are not zero; c_1, c_2 > 0.",
    tolerance=1e-12,
)
def kernel_distance_scale(rng: Rng) -> float:
    """Kernels of two networks, found by differentiation; larger rates make larger kernels."""
    X, d, h = rng.normal(size=(6, 3)), 3, int(rng.integers(1, 5))
    c1, c2 = (float(c) for c in 10.0 ** rng.uniform(-3, 3, size=2))
    first, second = ([rng.normal(size=h), rng.normal(size=(h, d))] for _ in range(2))

    def kernel(network: list[Array], rate: float) -> Array:
        return tangent(lambda p: outputs(p, X, 0.3), network, (rate, rate))

    K1, K2 = (kernel(network, 1.0) for network in (first, second))
    apart = np.linalg.norm(K1 / np.linalg.norm(K1) - K2 / np.linalg.norm(K2)) ** 2 / 2
    same = abs(kernel_distance(K1, kernel(first, c1)))  # a kernel that only grows does not count as moved
    return max(relative_error(kernel_distance(kernel(first, c1), kernel(second, c2)), apart), same)


def stencil(centre: float) -> Array:
    """The printed 3 × 3 kernel, or one with another centre."""
    return np.array([[-0.25, -0.5, -0.25], [-0.5, centre, -0.5], [-0.25, -0.5, -0.25]])


def _convolved(centre: float, image: Callable[[Values, Values], Values]) -> float:
    """The kernel on the nine points around the origin."""
    places = [-1.0, 0.0, 1.0]
    return float(sum(stencil(centre)[i, j] * image(x, y) for i, x in enumerate(places) for j, y in enumerate(places)))


@claim(
    "kunin2024/laplacian-kernel",
    place="Experimental details, Gabor filters",
    statement="The 3 × 3 kernel by which the smoothness of filters is measured is a Laplacian, up to its sign: it "
    "takes a smooth image to its second derivatives, and a constant one to zero.",
    formula=r"\Delta = \begin{pmatrix} -0.25 & -0.5 & -0.25 \\ -0.5 & 2 & -0.5 \\ -0.25 & -0.5 & -0.25 \end{pmatrix}",
    conditions="Away from the border; polynomials up to degree three, for which a Laplacian of nine points is exact.",
    tolerance=1e-7,
)
def laplacian_kernel(rng: Rng, centre: float = 2.0) -> float:
    """On a polynomial of degree three, against minus the trace of its Hessian."""
    coefficients = rng.normal(size=(4, 4)) * (np.add.outer(np.arange(4), np.arange(4)) <= 3)

    def image(x: Values, y: Values) -> Values:
        return np.polynomial.polynomial.polyval2d(x, y, coefficients)

    curvature = hessian(lambda p: image(p[0][0], p[0][1]), [np.zeros(2)])
    return relative_error(_convolved(centre, image), -np.trace(curvature))


@laplacian_kernel.corrected(
    "With 3 in the centre its entries sum to zero, and it is −∇². As printed, a constant filter does not count as "
    "smooth.",
    formula=r"\Delta = \begin{pmatrix} -0.25 & -0.5 & -0.25 \\ -0.5 & 3 & -0.5 \\ -0.25 & -0.5 & -0.25 \end{pmatrix}",
)
def laplacian_kernel_with_three(rng: Rng) -> float:
    return laplacian_kernel.check(rng, centre=3.0)


@laplacian_kernel.counterexample("A constant image, whose Laplacian is zero")
def _() -> tuple[float, float]:
    curvature = hessian(lambda p: 1.0 + 0 * p[0].sum(), [np.zeros(2)])
    return _convolved(2.0, lambda x, y: 1.0), float(np.abs(np.trace(curvature)))


def turning(a: Array, W: Array, X: Array, y: Array) -> Array:
    """How fast the directions of filters turn at the start of training."""
    moving = velocity(loss_of(X, y, 0.0), [a, W], (1.0, 1.0))
    return along(lambda p: p[1] / np.sqrt((p[1] * p[1]).sum(axis=1))[:, None], [a, W], moving)


@claim(
    "kunin2024/filters-alpha",
    place="Experimental details, Gabor filters, caption",
    statement="Filters are divided by α (text), and networks with α < 1 are those with a small initialisation "
    "(caption). Text and caption are inconsistent; which is the slip cannot be known. Read as: α < 1 is the start of "
    "small filters, which turn faster. The rate is ours, for two layers with the last one multiplied by α.",
    formula=r"w \mapsto w/\alpha,\ a \mapsto \alpha a: \qquad"
    r" \|\partial_t\hat w\| \mapsto \alpha^{-2}\|\partial_t\hat w\|",
    conditions="α > 0; two layers of ReLU, unit rates.",
    tolerance=1e-11,
)
def filters_alpha(rng: Rng, power: int = -2) -> float:
    d, h, alpha = int(rng.integers(2, 5)), int(rng.integers(2, 5)), float(10.0 ** rng.uniform(-1, 1))
    a, W, X, y = rng.normal(size=h), rng.normal(size=(h, d)), rng.normal(size=(8, d)), rng.normal(size=8)
    return relative_error(alpha**power * turning(a, W, X, y), turning(alpha * a, W / alpha, X, y))


@filters_alpha.corrected(
    "If the text is right, α > 1 is the small initialisation: filters divided by α turn α² times as fast. If the "
    "caption is, filters were multiplied by α.",
    formula=r"w \mapsto w/\alpha,\ a \mapsto \alpha a: \qquad"
    r" \|\partial_t\hat w\| \mapsto \alpha^2\|\partial_t\hat w\|",
)
def filters_alpha_above_one(rng: Rng) -> float:
    return filters_alpha.check(rng, power=2)


@filters_alpha.counterexample(
    "One filter w = (1, 0), a = 1, one sample x = (1, 1), y = 0, α = ½: how fast the filter turns, as a share of that "
    "for α = 1"
)
def _() -> tuple[float, float]:
    alpha, a, W, X, y = 0.5, np.ones(1), np.array([[1.0, 0.0]]), np.ones((1, 2)), np.zeros(1)
    plain, divided = turning(a, W, X, y), turning(alpha * a, W / alpha, X, y)
    return alpha**-2, float(np.linalg.norm(divided) / np.linalg.norm(plain))


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


def parameters_of(parts: Iterable[Tree] | Array) -> int:
    """How many numbers a network, or a part of one, has."""
    return parts.size if isinstance(parts, np.ndarray) else sum(parameters_of(part) for part in parts)


@claim(
    "kunin2024/embedding-share",
    place="Section 6, grokking",
    statement="The embeddings of the transformer that groks, of tokens and of positions, are less than 6 % of all its "
    "parameters. The sizes are those of the code that the appendix names, with one layer: 97 numbers and two signs, "
    "five positions, width 128.",
    formula=r"\frac{(97 + 2 + 5) \cdot 128}{224\,512} = 5.93\,\% < 6\,\%",
    conditions="One layer with four heads and an MLP of 512 units, LayerNorms and biases counted, the head untied.",
    tolerance=0.0,  # a bound
)
def embedding_share(rng: Rng) -> float:
    """Counted in a start as PyTorch draws it, which leaves out the fifth position: no sample reaches that far."""
    width = 128
    network = initial_network(97, width, 1.0, int(rng.integers(1000)))
    embeddings = parameters_of([network.tokens, network.positions]) + width
    return embeddings / (parameters_of(network) + width) - 0.06


def moments_of_delta(beta_a: float, beta_w: float, d: int) -> tuple[float, float]:
    """Mean and standard deviation of a² − ‖w‖², by Gauss–Hermite quadrature, which is exact for polynomials."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(6)
    weights = weights / weights.sum()
    squares = [(weights @ (b * nodes) ** 2, weights @ (b * nodes) ** 4) for b in (beta_a, beta_w)]
    (mean_a, fourth_a), (mean_w, fourth_w) = squares
    return float(mean_a - d * mean_w), float(np.sqrt(fourth_a - mean_a**2 + d * (fourth_w - mean_w**2)))


@claim(
    "kunin2024/infinite-width-delta",
    place="Section 5, Connections to infinite width",
    statement="Read as: at random starts of infinitely wide networks the conserved numbers of the neurons have mean "
    "zero and a variance that does not vanish, in the NTK and in the mean-field parametrisation alike, which draw from "
    "the same Gaussians. The value of the variance is ours.",
    formula=r"a_k \sim \mathcal N(0, \beta_a^2),\ w_k \sim \mathcal N(0, \beta_W^2 I_d) \;\Rightarrow\;"
    r" \mathbb E[\delta_k] = 0, \quad \operatorname{Var}[\delta_k] = 2\beta_a^4 + 2d\beta_W^4, \qquad"
    r" \delta_k = a_k^2 - \|w_k\|^2",
    conditions="β_a and β_W of order one, any d; unit rates.",
    tolerance=1e-12,
)
def infinite_width_delta(rng: Rng) -> float:
    beta_a, beta_w = (float(b) for b in rng.uniform(0.5, 2.0, size=2))
    return _error_of_moments(beta_a, beta_w, int(rng.integers(1, 20)))


@infinite_width_delta.stronger("β_a² = d β_W². With β_a = β_W = 1 the mean is 1 − d, and most neurons are downstream.")
def infinite_width_delta_with_scaled_inputs(rng: Rng) -> float:
    beta_a, d = float(rng.uniform(0.5, 2.0)), int(rng.integers(1, 20))
    return _error_of_moments(beta_a, beta_a / np.sqrt(d), d)


def _error_of_moments(beta_a: float, beta_w: float, d: int) -> float:
    """The mean in units of the standard deviation, or the error of the variance."""
    mean, deviation = moments_of_delta(beta_a, beta_w, d)
    return max(abs(mean) / deviation, relative_error(2 * beta_a**4 + 2 * d * beta_w**4, deviation**2))


@infinite_width_delta.counterexample("β_a = β_W = 1 and three inputs: the mean")
def _() -> tuple[float, float]:
    return 0.0, moments_of_delta(1.0, 1.0, 3)[0]
