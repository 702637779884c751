"""The tangent model of linear networks in closed form. The truth takes its Jacobian entry by entry, and integrates."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.linalg import expm

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.oracles import gradient, integrate, product, relative_error
from lazyrich.papers.base.types import Rng, Values

TIMES = np.array([0.1, 0.4, 1.5])


def _entry(place: tuple[int, int], weights: list[Array]) -> Values:
    return product(weights)[place]


def jacobian(weights: list[Array]) -> Array:
    """Derivatives of all entries of the function, row by row, by all weights: by complex steps."""
    rows = [gradient(partial(_entry, place), weights) for place in np.ndindex(product(weights).shape)]
    return np.array([np.concatenate([slope.ravel() for slope in row]) for row in rows])


def integrated(weights: list[Array], sigma_yx: Array, times: Array = TIMES) -> Array:
    """The function of the tangent model f₀ + JΔθ, whose Δθ follow the gradient of its own loss."""
    J, f0 = jacobian(weights), product(weights).ravel()
    moved = integrate(lambda theta: J.T @ (sigma_yx.ravel() - f0 - J @ theta), np.zeros(J.shape[1]), times)
    return (f0 + moved @ J.T).reshape(-1, *sigma_yx.shape)


def two_layers(weights: list[Array], sigma_yx: Array, times: Array = TIMES) -> Array:
    W1, W2 = weights
    R, P, E = W2 @ W2.T, W1.T @ W1, sigma_yx - W2 @ W1
    return np.array([sigma_yx - expm(-R * t) @ E @ expm(-P * t) for t in times])


def any_depth(weights: list[Array], sigma_yx: Array, times: Array = TIMES) -> Array:
    d_out, d_in = sigma_yx.shape
    K = np.zeros((d_out * d_in, d_out * d_in))
    for i in range(len(weights)):
        above, below = product([np.eye(len(weights[i])), *weights[i + 1 :]]), product([np.eye(d_in), *weights[:i]])
        K += np.kron(above @ above.T, below.T @ below)
    error = (product(weights) - sigma_yx).ravel()
    return np.array([sigma_yx + (expm(-K * t) @ error).reshape(d_out, d_in) for t in times])


@claim(
    "chizat2019/two-layers",
    place="ours: theory, section 12",
    statement="The tangent model of two linear layers closes on its target from both sides, at the rates of the Gram "
    "matrices of the initialisation.",
    formula=r"A_{\text{lin}}(t) = S - e^{-R_0t}(S - A_0)\,e^{-P_0t}, \qquad R_0 = W_2W_2^\top,\ P_0 = W_1^\top W_1",
    conditions="Two linear layers of any widths and balance, white inputs.",
    tolerance=1e-9,
)
def two_layers_in_closed_form(rng: Rng) -> float:
    sigma_yx, weights = draws.target(rng, 3, 2)[0], draws.gaussian(rng, (2, int(rng.integers(1, 5)), 3), 0.8)
    return relative_error(two_layers(weights, sigma_yx), integrated(weights, sigma_yx))


@claim(
    "chizat2019/any-depth",
    place="ours: theory, section 12",
    statement="The tangent model of any linear network is one exponential, of the sum over its layers of what lies "
    "above and what lies below.",
    formula=r"f(t) = y + e^{-K_0t}(f_0 - y), \qquad K_0 = \sum_\ell W_{L:\ell+1}W_{L:\ell+1}^\top \otimes "
    r"W_{\ell-1:1}^\top W_{\ell-1:1}",
    conditions="Linear layers, from one to four, of any widths and balance; white inputs; entries row by row.",
    tolerance=1e-9,
)
def any_depth_in_closed_form(rng: Rng) -> float:
    sigma_yx, hidden = draws.target(rng, 3, 2)[0], rng.integers(2, 5, size=int(rng.integers(0, 4)))
    weights = draws.gaussian(rng, (2, *map(int, hidden), 3), 0.8)
    return relative_error(any_depth(weights, sigma_yx), integrated(weights, sigma_yx))
