"""Section 1: the loss, and what the data enter it through."""

import numpy as np
from scipy.interpolate import BarycentricInterpolator

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import correlations, product, relative_error
from lazyrich.papers.base.types import Rng
from lazyrich.papers.notes.claims.slips import CONSTANT

NOT_CHECKED = (
    NotChecked(
        "References",
        "Gidel et al. 2019 is arXiv 1905.13118, and Even et al. 2023 is arXiv 2302.00522.",
        "A matter of looking up, not of computing: they are 1904.13262 and 2302.08982.",
    ),
)


def mean_squared_loss(W: Array, X: Array, Y: Array) -> float:
    """(1/2n) Σ‖y − Wx‖², sample by sample."""
    return sum(float((y - W @ x) @ (y - W @ x)) for x, y in zip(X, Y, strict=True)) / (2 * len(X))


def distance_to_target(W: Array, X: Array, Y: Array) -> float:
    """½ tr (W − T) Σxx (W − T)ᵀ with T = Σyx Σxx⁻¹, as printed."""
    sigma_yx, sigma_xx = correlations(X, Y)
    rest = W - sigma_yx @ np.linalg.inv(sigma_xx)
    return float(np.trace(rest @ sigma_xx @ rest.T)) / 2


def unexplained(X: Array, Y: Array) -> float:
    """½ tr(Σyy − T Σxx Tᵀ): what no linear map of the inputs explains."""
    (sigma_yx, sigma_xx), (sigma_yy, _) = correlations(X, Y), correlations(Y, Y)
    T = sigma_yx @ np.linalg.inv(sigma_xx)
    return float(np.trace(sigma_yy - T @ sigma_xx @ T.T)) / 2


def drawn(rng: Rng) -> tuple[Array, Array, Array]:
    return rng.normal(size=(2, 3)), rng.normal(size=(12, 3)) * [0.5, 1.0, 2.0], rng.normal(size=(12, 2))


@claim(
    "notes/loss-identity",
    place="Section 1.1",
    statement="The squared loss is half the distance of W = W_L…W_1 from the regression target T, weighted by the "
    "inputs.",
    formula=r"\frac{1}{2n}\sum_\mu \|y_\mu - W x_\mu\|^2 = \tfrac12 \|W - T\|_{\Sigma_{xx}}^2,"
    r"\qquad T = \Sigma_{yx}\Sigma_{xx}^{-1}",
    conditions="Any data with Σxx of full rank.",
    tolerance=1e-12,
)
def loss_identity(rng: Rng) -> float:
    W, X, Y = drawn(rng)
    return relative_error(distance_to_target(W, X, Y), mean_squared_loss(W, X, Y))


@loss_identity.corrected(
    "A constant is missing, the part of the targets that no linear map explains; it matters when losses are compared "
    "with data. The same constant is missing in `notes/whitened-loss`, `notes/zero-loss` and `notes/bottleneck-loss`.",
    formula=r"\frac{1}{2n}\sum_\mu \|y_\mu - W x_\mu\|^2 = \tfrac12 \|W - T\|_{\Sigma_{xx}}^2"
    r" + \tfrac12 \operatorname{tr}(\Sigma_{yy} - T\Sigma_{xx}T^\top)",
    slips=(CONSTANT,),
)
def loss_identity_with_its_constant(rng: Rng) -> float:
    W, X, Y = drawn(rng)
    return relative_error(distance_to_target(W, X, Y) + unexplained(X, Y), mean_squared_loss(W, X, Y))


@loss_identity.counterexample("One input and one output, samples (1, 1) and (1, −1), W = 0: T is 0 too, the loss is ½")
def _() -> tuple[float, float]:
    W, X, Y = np.zeros((1, 1)), np.ones((2, 1)), np.array([[1.0], [-1.0]])
    return distance_to_target(W, X, Y), mean_squared_loss(W, X, Y)


@claim(
    "notes/regression-target",
    place="Section 1.1",
    statement="T = Σyx Σxx⁻¹ is the best linear predictor of the targets.",
    formula=r"T = \Sigma_{yx}\Sigma_{xx}^{-1} = \arg\min_W \sum_\mu \|y_\mu - W x_\mu\|^2",
    conditions="Any data with Σxx of full rank.",
    tolerance=1e-11,
)
def regression_target(rng: Rng) -> float:
    """Against the least-squares fit to the samples."""
    _, X, Y = drawn(rng)
    sigma_yx, sigma_xx = correlations(X, Y)
    return relative_error(sigma_yx @ np.linalg.matrix_power(sigma_xx, -1), np.linalg.lstsq(X, Y, rcond=None)[0].T)


@claim(
    "notes/whitened-loss",
    place="Section 1.1, last sentence; again in sections 1.2 and 3.1",
    statement="With white inputs T = Σyx, and the loss is half the squared distance of W from it.",
    formula=r"\Sigma_{xx} = I: \qquad T = \Sigma_{yx}, \quad L(\theta) = \tfrac12 \|W - T\|_F^2",
    conditions="White inputs, any targets.",
    tolerance=1e-12,
)
def whitened_loss(rng: Rng) -> float:
    W, X, Y = drawn_white(rng)
    return relative_error(squared_distance(W, X, Y), mean_squared_loss(W, X, Y))


@whitened_loss.corrected(
    "The constant is missing that `notes/loss-identity` lacks. Flows and minima do not see it; values of the loss do.",
    formula=r"L(\theta) = \tfrac12 \|W - \Sigma_{yx}\|_F^2 + "
    r"\tfrac12 \operatorname{tr}(\Sigma_{yy} - \Sigma_{yx}\Sigma_{yx}^\top)",
    slips=(CONSTANT,),
)
def whitened_loss_with_its_constant(rng: Rng) -> float:
    W, X, Y = drawn_white(rng)
    (sigma_yx, _), (sigma_yy, _) = correlations(X, Y), correlations(Y, Y)
    constant = float(np.trace(sigma_yy - sigma_yx @ sigma_yx.T)) / 2
    return relative_error(squared_distance(W, X, Y) + constant, mean_squared_loss(W, X, Y))


@whitened_loss.counterexample(
    "One input and one output, samples (1, 2) and (1, 0), W = 0: T is 1 and leaves a loss of ½"
)
def _() -> tuple[float, float]:
    W, X, Y = np.zeros((1, 1)), np.ones((2, 1)), np.array([[2.0], [0.0]])
    return squared_distance(W, X, Y), mean_squared_loss(W, X, Y)


def drawn_white(rng: Rng) -> tuple[Array, Array, Array]:
    X, Y = draws.white_data(rng, 9, 3, 2)
    return rng.normal(size=(2, 3)), X, Y


def squared_distance(W: Array, X: Array, Y: Array) -> float:
    """½‖W − Σyx‖², as printed for white inputs."""
    return float(np.sum((W - correlations(X, Y)[0]) ** 2)) / 2


@claim(
    "notes/one-layer-does",
    place="Section 1.2",
    statement="A deep linear network computes a linear function, and one layer computes it as well: the product of all "
    "layers.",
    formula=r"f(x + c\,x';\theta) = W_\text{eff}\,x + c\,W_\text{eff}\,x', \qquad f(x;\theta) = W_L(\cdots(W_1 x))",
    conditions="Any depth, any widths.",
    tolerance=1e-12,
)
def one_layer_does(rng: Rng) -> float:
    """Against the input that is passed from layer to layer."""
    sizes = [int(n) for n in rng.integers(1, 5, size=int(rng.integers(2, 7)))]
    weights, (x, other), c = draws.gaussian(rng, sizes, 1.0), rng.normal(size=(2, sizes[0])), rng.normal()
    truth = x + c * other
    for layer in weights:
        truth = layer @ truth
    W = product(weights)
    return relative_error(W @ x + c * (W @ other), truth)


@claim(
    "notes/degree-of-loss",
    place="Section 1.2",
    statement="In the entries of all layers the loss is a polynomial of degree 2L.",
    formula=r"\deg L(\theta) = 2L",
    conditions="Any depth L; whitened loss.",
    tolerance=1e-8,
)
def degree_of_loss(rng: Rng) -> float:
    """Along a line through two random networks: 2L + 1 values give all others, and 2L values do not."""
    L = int(rng.integers(1, 5))
    sizes = [int(n) for n in rng.integers(1, 4, size=L + 1)]
    T, start = rng.normal(size=(sizes[-1], sizes[0])), draws.gaussian(rng, sizes, 1.0)
    move = [rng.uniform(0.5, 1.0, size=W.shape) for W in start]  # one sign, so that no product is small by chance

    def values(places: Array) -> Array:
        lines = ([A + c * B for A, B in zip(start, move, strict=True)] for c in places)
        return np.array([np.sum((product(weights) - T) ** 2) / 2 for weights in lines])

    elsewhere = np.linspace(-1.0, 1.0, 12)
    truth, degree = values(elsewhere), 2 * L
    guesses = []
    for number in (degree + 1, degree):
        nodes = np.cos(np.pi * (np.arange(number) + 0.5) / number)
        guesses.append(BarycentricInterpolator(nodes, values(nodes))(elsewhere))
    return max(relative_error(guesses[0], truth), float(relative_error(guesses[1], truth) < 1e-7))
