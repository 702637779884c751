"""Section 4: what the flow conserves, where that comes from, balanced starts, and how balanced random ones are."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from itertools import product as every_choice

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.oracles import flow_of, gradient, layers, product, relative_error
from lazyrich.papers.base.types import Pair, Rng, Values
from lazyrich.papers.notes.claims.landscape import above, below, whitened_loss, widths
from lazyrich.papers.notes.claims.slips import EXTRA_FACTOR, TRANSPOSE


def defect(upper: Array, lower: Array) -> Array:
    """W_ℓᵀW_ℓ − W_{ℓ−1}W_{ℓ−1}ᵀ, also of stacks over time."""
    return np.swapaxes(upper, -1, -2) @ upper - lower @ np.swapaxes(lower, -1, -2)


def drift(states: Array) -> float:
    """How far an array over time moves from where it is at first."""
    return float(np.abs(states - states[0]).max())


@claim(
    "notes/balance-law",
    place="Section 4.1, the theorem",
    statement="The flow keeps W_ℓᵀW_ℓ − W_{ℓ−1}W_{ℓ−1}ᵀ for ℓ = 1 to L − 1. There is no W_0; it is read here as "
    "something that does not learn, as the inputs do not.",
    formula=r"\frac{d}{dt}\left(W_\ell^\top W_\ell - W_{\ell-1}W_{\ell-1}^\top\right) = 0, \qquad \ell = 1,\dots,L-1",
    conditions="Gradient flow, any depth and widths.",
    tolerance=1e-9,
)
def balance_law(rng: Rng) -> float:
    Ws = _learning(rng)
    first = np.swapaxes(Ws[0], 1, 2) @ Ws[0]
    return max(drift(first), *(drift(defect(upper, lower)) for lower, upper in pairwise(Ws[:-1])), 0.0)


@balance_law.corrected(
    "For ℓ = 2 to L: one matrix for each pair of neighbours. The first layer has none below it, and the last one "
    "belongs to the law.",
    formula=r"\frac{d}{dt}\left(W_\ell^\top W_\ell - W_{\ell-1}W_{\ell-1}^\top\right) = 0, \qquad \ell = 2,\dots,L",
)
def balance_law_of_neighbours(rng: Rng) -> float:
    return max(drift(defect(upper, lower)) for lower, upper in pairwise(_learning(rng)))


@balance_law.counterexample(
    "Two layers of one weight each, W_1 = W_2 = 1, T = 2: the slope of W_1² at the start (ℓ = 1)"
)
def _() -> tuple[float, float]:
    weights = [np.ones((1, 1)), np.ones((1, 1))]
    return 0.0, float(-2 * weights[0][0, 0] * gradient(whitened_loss(2 * np.eye(1)), weights)[0][0, 0])


def _learning(rng: Rng) -> list[Array]:
    """Two to four layers along the flow of the loss, which knows no law."""
    sizes = widths(rng, int(rng.integers(2, 5)))
    T = rng.normal(size=(sizes[-1], sizes[0]))
    return flow_of(whitened_loss(T), draws.gaussian(rng, sizes, 0.8), [0.0, 0.2, 0.5])


Derivatives = Callable[[Sequence[Array], Array, int], tuple[Array, Array]]


def derivatives_as_printed(weights: Sequence[Array], rest: Array, place: int) -> tuple[Array, Array]:
    """d/dt W_ℓᵀW_ℓ and d/dt W_{ℓ−1}W_{ℓ−1}ᵀ of the proof, with Δ = T − W and W_{≥ℓ} = W_{>ℓ}W_ℓ."""
    W, lower, over = weights[place], weights[place - 1], above(weights, place)
    one = below(weights, place).T @ rest.T @ over @ W
    two = below(weights, place - 1).T @ rest.T @ (over @ W) @ W @ lower.T
    return one + one.T, two + two.T


def derivatives_as_they_are(weights: Sequence[Array], rest: Array, place: int) -> tuple[Array, Array]:
    """W_{≥ℓ}ᵀ Δ W_{<ℓ}ᵀ and its transpose, for both."""
    half = (above(weights, place) @ weights[place]).T @ rest @ below(weights, place).T
    return half + half.T, half + half.T


@claim(
    "notes/balance-proof",
    place="Section 4.1, the proof",
    statement="Both halves of the conserved quantity have derivatives made of the layers above, the error and the "
    "layers below. As printed they lack transposes, and the second has a factor W_ℓ too many; the shapes agree only if "
    "all widths are equal: so they are here.",
    formula=r"\frac{d}{dt}W_\ell^\top W_\ell = W_{<\ell}^\top\Delta^\top W_{>\ell}W_\ell + \text{transpose}, \qquad "
    r"\frac{d}{dt}W_{\ell-1}W_{\ell-1}^\top = W_{<\ell-1}^\top\Delta^\top W_{\ge\ell}W_\ell W_{\ell-1}^\top + "
    r"\text{transpose}",
    conditions="Gradient flow, any depth.",
    tolerance=1e-12,
)
def balance_proof(rng: Rng) -> float:
    return _error_of_derivatives(rng, [2] * int(rng.integers(3, 5)), derivatives_as_printed)


@balance_proof.corrected(
    "With the transposes in place the two are the same, which is the proof.",
    formula=r"\frac{d}{dt}W_\ell^\top W_\ell = \frac{d}{dt}W_{\ell-1}W_{\ell-1}^\top = "
    r"W_{\ge\ell}^\top\,\Delta\,W_{<\ell}^\top + \text{transpose}, \qquad \ell = 2,\dots,L",
    slips=(TRANSPOSE, EXTRA_FACTOR),
)
def balance_proof_with_transposes(rng: Rng) -> float:
    return _error_of_derivatives(rng, widths(rng, int(rng.integers(2, 4)), least=2), derivatives_as_they_are)


@balance_proof.counterexample("Two layers of one weight each, W_1 = 1, W_2 = 2, T = 3: the slope of W_1²")
def _() -> tuple[float, float]:
    weights, T = [np.eye(1), 2 * np.eye(1)], 3 * np.eye(1)
    printed = derivatives_as_printed(weights, T - product(weights), 1)[1]
    return float(printed[0, 0]), float(-2 * gradient(whitened_loss(T), weights)[0][0, 0])


def _error_of_derivatives(rng: Rng, sizes: list[int], derivatives: Derivatives) -> float:
    weights, T = draws.gaussian(rng, sizes, 0.8), rng.normal(size=(sizes[-1], sizes[0]))
    gradients, errors = gradient(whitened_loss(T), weights), []
    for place in range(1, len(weights)):
        one = -(gradients[place].T @ weights[place])
        two = -(gradients[place - 1] @ weights[place - 1].T)
        printed = derivatives(weights, T - product(weights), place)
        errors += [relative_error(printed[0], one + one.T), relative_error(printed[1], two + two.T)]
    return max(errors)


@claim(
    "notes/scaling-symmetry",
    place="Section 4.2",
    statement="The loss does not change when one layer is multiplied by a number and the next divided by it, and so "
    "its gradient is orthogonal to that motion.",
    formula=r"L(\dots,\lambda W_\ell,\lambda^{-1}W_{\ell+1},\dots) = L(\theta), \qquad "
    r"\langle\nabla_\theta L,\xi\rangle = 0,\quad \xi_\ell = W_\ell,\ \xi_{\ell+1} = -W_{\ell+1}",
    conditions="Any depth, λ > 0.",
    tolerance=1e-12,
)
def scaling_symmetry(rng: Rng) -> float:
    sizes = widths(rng, int(rng.integers(2, 5)))
    weights, T = draws.gaussian(rng, sizes, 0.8), rng.normal(size=(sizes[-1], sizes[0]))
    loss, place, c = whitened_loss(T), int(rng.integers(len(weights) - 1)), np.exp(rng.normal())
    scaled = [*weights[:place], c * weights[place], weights[place + 1] / c, *weights[place + 2 :]]
    gradients = gradient(loss, weights)
    along = [float(np.sum(gradients[i] * weights[i])) for i in (place, place + 1)]
    size = max(float(np.linalg.norm(gradients[i]) * np.linalg.norm(weights[i])) for i in (place, place + 1))
    return max(relative_error(loss(scaled), loss(weights)), abs(along[0] - along[1]) / size)


@claim(
    "notes/noether",
    place="Section 4.2",
    statement="What is conserved because of the scaling symmetry is the whole matrix of the balance law. Tried on "
    "other losses that have this symmetry.",
    formula=r"\text{scaling} \;\Rightarrow\; \frac{d}{dt}\left(W_{\ell+1}^\top W_{\ell+1} - W_\ell W_\ell^\top\right)"
    r" = 0",
    conditions="Gradient flow of a loss with L(λW_1, λ⁻¹W_2) = L(W_1, W_2) for λ > 0.",
    tolerance=1e-9,
)
def noether(rng: Rng) -> float:
    return drift(_defect_of_scaling(rng))


@noether.corrected(
    "The scaling symmetry has one parameter and gives one number, the trace. The matrix comes from the larger "
    "symmetry of linear networks, (gW_1, W_2g⁻¹) for every invertible g.",
    formula=r"\text{scaling} \;\Rightarrow\; \frac{d}{dt}\left(\|W_{\ell+1}\|_F^2 - \|W_\ell\|_F^2\right) = 0",
)
def noether_of_scaling(rng: Rng) -> float:
    return drift(np.trace(_defect_of_scaling(rng), axis1=1, axis2=2))


@noether.counterexample(
    "Loss ½(a_1w_1 + 2a_2w_2 − 1)², which scaling does not change, at a = (0, 1), w = (1, 0): the slope of "
    "a_1a_2 − w_1w_2"
)
def _() -> tuple[float, float]:
    a, w = np.array([0.0, 1.0]), np.array([1.0, 0.0])
    a_slope, w_slope = gradient(lambda p: (p[0] @ (p[1] * np.array([1.0, 2.0])) - 1) ** 2 / 2, [a, w])
    return 0.0, float(-(a_slope[0] * a[1] + a[0] * a_slope[1]) + w_slope[0] * w[1] + w[0] * w_slope[1])


def _defect_of_scaling(rng: Rng) -> Array:
    """W_2ᵀW_2 − W_1W_1ᵀ over time for ½‖W_2(M∘W_1) − T‖², M a matrix of numbers that multiply entry by entry."""
    M, T = rng.uniform(0.5, 2.0, size=(2, 2)), rng.normal(size=(2, 2))

    def loss(weights: Sequence[Array]) -> Values:
        return ((weights[1] @ (M * weights[0]) - T) ** 2).sum() / 2

    W1, W2 = flow_of(loss, draws.gaussian(rng, (2, 2, 2), 0.8), [0.0, 0.3, 1.0])
    return defect(W2, W1)


@claim(
    "notes/balanced-stays",
    place="Section 4.3, the corollary",
    statement="A λ-balanced network stays λ-balanced. (The definition has the slip of `notes/balance-law`: it "
    "begins at ℓ = 1, with a W_0 that does not exist. Read as: all pairs of neighbours, ℓ = 2 to L.)",
    formula=r"W_\ell(0)^\top W_\ell(0) = W_{\ell-1}(0)W_{\ell-1}(0)^\top + \lambda I \;\Rightarrow\; "
    r"W_\ell(t)^\top W_\ell(t) = W_{\ell-1}(t)W_{\ell-1}(t)^\top + \lambda I",
    conditions="Gradient flow, any λ.",
    tolerance=1e-9,
)
def balanced_stays(rng: Rng) -> float:
    """Two to four square layers, λ of either sign or zero."""
    depth, lam = int(rng.integers(2, 5)), float(rng.choice([-0.4, 0.0, 0.3]))
    squares = rng.uniform(0.2, 1.0, size=2) + max(-lam, 0.0) * (depth - 1)
    bases = [draws.orthogonal(rng, 2) for _ in range(depth + 1)]
    values = [np.sqrt(squares + lam * i) for i in range(depth)]
    weights = [new @ np.diag(c) @ old.T for c, (old, new) in zip(values, pairwise(bases), strict=True)]
    Ws = flow_of(whitened_loss(rng.normal(size=(2, 2))), weights, [0.0, 0.3, 1.0])
    return max(float(np.abs(defect(upper, lower) - lam * np.eye(2)).max()) for lower, upper in pairwise(Ws))


@claim(
    "notes/shared-singular-values",
    place="Section 4.3",
    statement="In a perfectly balanced network all layers have the same singular values at all times, the L-th roots "
    "of those of their product (where widths differ: the same ones that are not zero).",
    formula=r"\sigma_\alpha(W_1(t)) = \cdots = \sigma_\alpha(W_L(t)) = \sigma_\alpha(W_\text{eff}(t))^{1/L}",
    conditions="λ = 0, gradient flow, any depth and widths.",
    tolerance=1e-9,
)
def shared_singular_values(rng: Rng) -> float:
    sizes = widths(rng, int(rng.integers(2, 5)), least=2)
    T, _, _, _ = draws.target(rng, sizes[-1], sizes[0])
    Ws = layers(draws.balanced(rng, sizes, 0.8), T, [0.0, 0.3, 1.0])
    L, r = len(sizes) - 1, min(sizes)
    *spectra, whole = (np.linalg.svd(W, compute_uv=False)[:, :r] for W in (*Ws, product(Ws)))
    return max(relative_error(values**L, whole) for values in spectra)


@claim(
    "notes/balance-criterion",
    place="Section 4.3, problem, part 1",
    statement="Two square layers are perfectly balanced if W_1ᵀW_1 = W_2W_2ᵀ, and so stay as they are in this.",
    formula=r"\text{balanced} \iff W_1^\top W_1 = W_2W_2^\top",
    conditions="Two square layers, gradient flow.",
    tolerance=1e-9,
)
def balance_criterion(rng: Rng) -> float:
    """Layers that satisfy it are let learn, and should satisfy it later."""
    W1 = rng.normal(size=(2, 2))
    W1, W2 = _learnt([W1, W1.T @ draws.orthogonal(rng, 2)], rng.normal(size=(2, 2)))
    return float(np.abs(W1.T @ W1 - W2 @ W2.T).max())


@balance_criterion.corrected(
    "The two products of the hidden layer are to be compared. Those of the notes belong to the inputs and the outputs; "
    "for W_1 = W_2ᵀ = c·O all four are c²I, which hides the slip.",
    formula=r"\text{balanced} \iff W_2^\top W_2 = W_1W_1^\top",
)
def balance_criterion_of_hidden_layer(rng: Rng) -> float:
    W1 = rng.normal(size=(2, 2))
    W1, W2 = _learnt([W1, draws.orthogonal(rng, 2) @ W1.T], rng.normal(size=(2, 2)))
    return float(np.abs(W2.T @ W2 - W1 @ W1.T).max())


@balance_criterion.counterexample(
    "W_1 = diag(2, 1), W_2 = diag(2, 1)·(0 1; 1 0): W_1ᵀW_1 = W_2W_2ᵀ, and the defect W_2ᵀW_2 − W_1W_1ᵀ is not 0"
)
def _() -> Pair:
    W1 = np.diag([2.0, 1.0])
    W2 = W1 @ np.array([[0.0, 1.0], [1.0, 0.0]])
    return W1.T @ W1 - W2 @ W2.T, defect(W2, W1)


def _learnt(weights: list[Array], T: Array) -> list[Array]:
    return [W[0] for W in flow_of(whitened_loss(T), weights, [0.5])]


@claim(
    "notes/orthogonal-start",
    place="Section 4.3, problem, parts 1 and 2",
    statement="The start W_1 = W_2ᵀ = c·O with O orthogonal is perfectly balanced, and computes c² times the identity.",
    formula=r"W_1 = W_2^\top = c\,O \;\Rightarrow\; D = 0,\quad W_\text{eff} = c^2 I,\quad \sigma_\alpha = c^2",
    conditions="Square layers, c > 0.",
    tolerance=1e-12,
)
def orthogonal_start(rng: Rng) -> float:
    n, c = int(rng.integers(1, 6)), rng.uniform(0.1, 3.0)
    W1 = c * draws.orthogonal(rng, n)
    W2, expected = W1.T, np.full(n, c**2)
    singular = np.linalg.svd(W2 @ W1, compute_uv=False)
    errors = [relative_error(W2 @ W1, np.diag(expected)), relative_error(singular, expected)]
    return max(*errors, float(np.abs(defect(W2, W1)).max()) / c**2)


def mean_of(f: Callable[[Array], Array], variables: int) -> Values:
    """The mean of a polynomial of independent standard normal variables, of degree up to 5 in each: exactly.

    By the three nodes of Gauss and Hermite in each variable; f takes all combinations, (combinations, variables).
    """
    nodes, chances = np.array([-np.sqrt(3.0), 0.0, np.sqrt(3.0)]), np.array([1.0, 4.0, 1.0]) / 6
    choices = np.array(list(every_choice(range(3), repeat=variables)))
    return np.tensordot(np.prod(chances[choices], axis=1), f(nodes[choices]), axes=1)


def second_moments(n: int, c: float) -> tuple[float, float, float]:
    """E A_ii, E A_ii² and E A_ij² of A = WᵀW, W of n × n Gaussian entries of deviation c/√n."""
    diagonal = mean_of(lambda x: np.stack([np.sum(x**2, axis=1), np.sum(x**2, axis=1) ** 2], axis=1), n)
    beside = mean_of(lambda x: np.sum(x[:, :n] * x[:, n:], axis=1) ** 2, 2 * n)
    return diagonal[0] * c**2 / n, diagonal[1] * c**4 / n**2, beside * c**4 / n**2


@claim(
    "notes/gaussian-balanced-in-mean",
    place="Section 4.3, problem, part 3",
    statement="Independent Gaussian layers are balanced in the mean.",
    formula=r"W_\ell \sim \tfrac{c}{\sqrt n}G:\qquad \mathbb{E}[W_1^\top W_1] = \mathbb{E}[W_2W_2^\top] = c^2 I, \quad "
    r"\mathbb{E}[D] = 0",
    conditions="Two square layers of independent Gaussian entries.",
    tolerance=1e-12,
)
def gaussian_balanced_in_mean(rng: Rng) -> float:
    """All entries of 2 × 2 layers, by quadrature."""
    c = rng.uniform(0.3, 2.0)

    def both(x: Array) -> Array:
        W1, W2 = (c / np.sqrt(2) * part.reshape(-1, 2, 2) for part in (x[:, :4], x[:, 4:]))
        return np.stack([np.swapaxes(W1, 1, 2) @ W1, W2 @ np.swapaxes(W2, 1, 2), defect(W2, W1)], axis=1)

    return relative_error(mean_of(both, 8), c**2 * np.array([np.eye(2), np.eye(2), np.zeros((2, 2))]))


@claim(
    "notes/gaussian-fluctuations",
    place="Section 4.3, problem, part 3",
    statement="A single draw is not balanced: the entries of its defect are of order c²/√n.",
    formula=r"\sqrt{\mathbb{E}[D_{ij}^2]} \propto \frac{c^2}{\sqrt n}",
    conditions="Two n × n layers of independent Gaussian entries.",
    tolerance=1e-12,
)
def gaussian_fluctuations(rng: Rng) -> float:
    """Entries on the diagonal and beside it, over c²/√n: the same for n = 2 to 5 and any c, and not zero."""
    ratios = []
    for n in range(2, 6):
        c = rng.uniform(0.3, 2.0)
        mean, square, beside = second_moments(n, c)
        ratios.append(np.sqrt(2 * np.array([square - mean**2, beside])) / (c**2 / np.sqrt(n)))
    return max(relative_error(ratios[1:], ratios[:1] * 3), float(np.min(ratios) < 0.1))


@claim(
    "notes/wide-nets-balanced",
    place="Section 4.3, problem, part 3",
    statement="In wide random networks the defect vanishes in relative terms. (Read as: the Frobenius norm of the "
    "defect relative to that of W_1W_1ᵀ falls as its entries do, 1/√n; root mean squares are compared. Entry by entry, "
    "relative to the diagonal, it does vanish: `notes/gaussian-fluctuations`.)",
    formula=r"\frac{\|D\|_F}{\|W_1W_1^\top\|_F} \propto \frac{1}{\sqrt n}",
    conditions="Two n × n layers of independent Gaussian entries.",
    tolerance=1e-11,
)
def wide_nets_balanced(rng: Rng) -> float:
    """How the ratio falls from n = 1 to n = 4: by half, it is said."""
    c = rng.uniform(0.3, 2.0)
    return relative_error(relative_defect(4, c), relative_defect(1, c) / 2)


@wide_nets_balanced.corrected(
    "It tends to 1. Single entries are small beside those of the diagonal, but there are n² of them: such networks "
    "are balanced entry by entry, and no more balanced as matrices than two that have nothing to do with each other.",
    formula=r"\frac{\mathbb{E}\|D\|_F^2}{\mathbb{E}\|W_1W_1^\top\|_F^2} = \frac{2n+2}{2n+1} \to 1",
)
def wide_nets_not_balanced(rng: Rng) -> float:
    """For n = 1 to 5, which decides it: both sides are ratios of polynomials of degree 3 at most over n²."""
    c = rng.uniform(0.3, 2.0)
    return max(relative_error(np.sqrt((2 * n + 2) / (2 * n + 1)), relative_defect(n, c)) for n in range(1, 6))


@wide_nets_balanced.counterexample(
    "One draw at n = 400: the ratio should be 1/√400 of that at n = 1, which is √(4/3), and is about 1"
)
def _() -> tuple[float, float]:
    W1, W2 = np.random.default_rng(0).normal(size=(2, 400, 400)) / 20
    return relative_defect(1, 1.0) / 20, float(np.linalg.norm(defect(W2, W1)) / np.linalg.norm(W1 @ W1.T))


def relative_defect(n: int, c: float) -> float:
    """√(E‖D‖² / E‖W_1W_1ᵀ‖²): the layers are independent, and all entries beside the diagonal alike."""
    mean, square, beside = second_moments(n, c)
    return float(np.sqrt(2 * (n * (square - mean**2) + n * (n - 1) * beside) / (n * square + n * (n - 1) * beside)))
