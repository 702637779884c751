"""Section 3: the flow of the layers, of their product, and of a single one."""

from collections.abc import Callable, Sequence

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import along, flow_of, gradient, integrate, layers, product, relative_error
from lazyrich.papers.base.types import Pair, Rng
from lazyrich.papers.notes.claims.landscape import (
    above,
    below,
    gradient_as_it_is,
    gradient_as_printed,
    whitened_loss,
    widths,
)
from lazyrich.papers.notes.claims.slips import TRANSPOSE

NOT_CHECKED: tuple[NotChecked, ...] = (
    NotChecked(
        "Section 3.3",
        "The interesting dynamics require two layers or more.",
        "Taste; what one layer lacks (plateaus, separate times of its modes) has entries of its own.",
    ),
)


def product_velocity(weights: Sequence[Array], T: Array) -> Array:
    """Σ_ℓ W_{L:ℓ+1}W_{L:ℓ+1}ᵀ Δ W_{ℓ−1:1}W_{ℓ−1:1}ᵀ of section 3.3."""
    delta = T - product(weights)
    pairs = [(above(weights, place), below(weights, place)) for place in range(len(weights))]
    return sum(over @ over.T @ delta @ under @ under.T for over, under in pairs)


def drawn(rng: Rng, sizes: Sequence[int]) -> tuple[Array, list[Array]]:
    """Any target and any layers: neither balanced nor aligned."""
    return rng.normal(size=(sizes[-1], sizes[0])), draws.gaussian(rng, sizes, 0.7)


def any_sizes(rng: Rng) -> list[int]:
    return widths(rng, int(rng.integers(2, 5)))


@claim(
    "notes/layer-flow",
    place="Section 3.2, the coupled system",
    statement="Under gradient flow a layer moves by the error, brought back through the layers above it, times the "
    "product of the layers below it.",
    formula=r"\dot W_\ell = W_{L:\ell+1}^\top\,(T - W)\,W_{\ell-1:1}",
    conditions="White inputs, any depth and widths. (Where the shapes of the printed product do not match there is "
    "nothing to evaluate: widths are equal here.)",
    tolerance=1e-9,
)
def layer_flow(rng: Rng) -> float:
    """A short stretch of the flow that knows nothing but the loss."""
    n = int(rng.integers(2, 4))
    return _error_of_flow(gradient_as_printed, *drawn(rng, [n] * int(rng.integers(3, 5))))


@layer_flow.corrected(
    "The product of the layers below must be transposed, as in the gradient.",
    formula=r"\dot W_\ell = W_{L:\ell+1}^\top\,(T - W)\,W_{\ell-1:1}^\top",
    slips=(TRANSPOSE,),
)
def layer_flow_with_both_transposes(rng: Rng) -> float:
    return _error_of_flow(gradient_as_it_is, *drawn(rng, any_sizes(rng)))


@layer_flow.counterexample(
    "Two layers of width 2, W1 = [[0, 1], [0, 0]], W2 = 0, T = I: the velocity of W2, which is that of T W1ᵀ"
)
def _() -> Pair:
    T, weights = np.eye(2), [np.array([[0.0, 1.0], [0.0, 0.0]]), np.zeros((2, 2))]
    return -gradient_as_printed(weights, T)[1], -gradient(whitened_loss(T), weights)[1]


def _error_of_flow(gradients: Callable[[list[Array], Array], list[Array]], T: Array, weights: list[Array]) -> float:
    """At the end of a stretch of which the two flows start alike."""
    ends, shapes = np.cumsum([W.size for W in weights])[:-1], [W.shape for W in weights]

    def velocity(x: Array) -> Array:
        parts = [part.reshape(shape) for part, shape in zip(np.split(x, ends), shapes, strict=True)]
        return np.concatenate([-slope.ravel() for slope in gradients(parts, T)])

    said = integrate(velocity, np.concatenate([W.ravel() for W in weights]), [0.5])[-1]
    true = flow_of(whitened_loss(T), weights, [0.5])
    return relative_error(said, np.concatenate([W[-1].ravel() for W in true]))


@claim(
    "notes/product-flow",
    place="Section 3.3",
    statement="The product W of the layers moves by the error, seen through what lies above and below each layer.",
    formula=r"\dot W = \sum_{\ell=1}^{L} W_{L:\ell+1} W_{L:\ell+1}^\top\,(T - W)\,W_{\ell-1:1} W_{\ell-1:1}^\top",
    conditions="White inputs, any depth and widths.",
    tolerance=1e-11,
)
def product_flow(rng: Rng) -> float:
    """Where the layers are moved along the slopes of the loss, all products are: the derivative is taken there."""
    return _error_of_product(rng, product_velocity)


@product_flow.corrected(
    "What lies below a layer enters as the product with its transpose on the other side.",
    formula=r"\dot W = \sum_{\ell=1}^{L} W_{L:\ell+1} W_{L:\ell+1}^\top\,(T - W)\,W_{\ell-1:1}^\top W_{\ell-1:1}",
    slips=(TRANSPOSE,),
)
def product_flow_with_transposes_in_place(rng: Rng) -> float:
    return _error_of_product(rng, product_velocity_in_order)


@product_flow.counterexample("Two layers of width 2, W1 = [[0, 1], [0, 0]], W2 = 0, T = I: W1W1ᵀ is not W1ᵀW1")
def _() -> Pair:
    T, weights = np.eye(2), [np.array([[0.0, 1.0], [0.0, 0.0]]), np.zeros((2, 2))]
    return product_velocity(weights, T), _true_velocity(weights, T)


def product_velocity_in_order(weights: Sequence[Array], T: Array) -> Array:
    """Σ_ℓ W_{L:ℓ+1}W_{L:ℓ+1}ᵀ Δ W_{ℓ−1:1}ᵀW_{ℓ−1:1}."""
    delta = T - product(weights)
    pairs = [(above(weights, place), below(weights, place)) for place in range(len(weights))]
    return sum(over @ over.T @ delta @ under.T @ under for over, under in pairs)


def _error_of_product(rng: Rng, velocity: Callable[[list[Array], Array], Array]) -> float:
    n = int(rng.integers(2, 4))  # equal widths, so that the printed form has a value
    T, weights = drawn(rng, [n] * int(rng.integers(3, 5)))
    return relative_error(velocity(weights, T), _true_velocity(weights, T))


def _true_velocity(weights: list[Array], T: Array) -> Array:
    """d/dt of the product where every layer moves down the slope of the loss: a complex step along the flow."""
    velocity = [-slope for slope in gradient(whitened_loss(T), weights)]
    return np.asarray(along(product, weights, velocity))


@claim(
    "notes/layers-matter",
    place="Section 3.3",
    statement="How the product moves is not a function of the product: two networks that compute the same may learn at "
    "different speeds.",
    formula=r"W = W' \not\Rightarrow \dot W = \dot W'",
    conditions="White inputs, two layers or more.",
    tolerance=0.0,  # an inequality: 1e-6 less the difference of the velocities, of their size
    seeds=12,
)
def layers_matter(rng: Rng) -> float:
    """One layer three times as large and the next a third: the same function."""
    T, weights = drawn(rng, any_sizes(rng))
    other = [3 * weights[0], weights[1] / 3, *weights[2:]]
    first, second = (_true_velocity(Ws, T) for Ws in (weights, other))
    same = relative_error(product(other), product(weights))
    return same + 1e-6 - relative_error(second, first)


@claim(
    "notes/one-layer",
    place="Section 3.3",
    statement="With one layer the equation is linear, and the weights go straight to the target, at rate 1.",
    formula=r"\dot W_1 = T - W_1, \qquad W_1(t) = T + (W_1(0) - T)\,e^{-t}",
    conditions="White inputs, one layer.",
    tolerance=1e-10,
)
def one_layer(rng: Rng) -> float:
    T, (start,) = drawn(rng, [int(n) for n in rng.integers(1, 5, size=2)])
    times = np.array([0.0, 0.4, 1.5, 6.0])
    (W,) = layers([start], T, times)
    return relative_error(T + (start - T) * np.exp(-times)[:, None, None], W)
