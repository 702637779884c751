"""f → τf with rate/τ²: how fast a linear network gets lazy, what its balance does, and which start never gets lazy."""

from __future__ import annotations

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.oracles import flow_of, layers, product, relative_error
from lazyrich.papers.base.types import Rng
from lazyrich.papers.chizat2019.claims.tangent import TIMES, jacobian

_TAUS = (256.0, 2048.0)


def centred(weights: list[Array]) -> list[Array]:
    """The same below, and a last layer that maps all that comes from there to 0: the function begins at 0."""
    below = product(weights[:-1])
    return [*weights[:-1], weights[-1] - weights[-1] @ below @ np.linalg.pinv(below)]


def gap(weights: list[Array], sigma_yx: Array, tau: float) -> float:
    """How far the network leaves its tangent model, over how far that goes. τ stands in the last layer, and the
    rates of the others are divided by its square, which is the same flow."""
    V, rates = [*weights[:-1], tau * weights[-1]], [1 / tau**2] * (len(weights) - 1) + [1.0]
    network = product(layers(V, sigma_yx, TIMES, rates=rates))
    J, f0, y = jacobian(V), product(V).ravel(), sigma_yx.ravel()
    eta = np.repeat(rates, [W.size for W in V])
    values, vectors = np.linalg.eigh((J * eta) @ J.T)
    tangent = np.array([y + vectors @ (np.exp(-values * t) * (vectors.T @ (f0 - y))) for t in TIMES])
    way = np.abs(tangent - f0).max()
    return float(np.abs(network.reshape(len(TIMES), -1) - tangent).max() / way)


def exponent(weights: list[Array], sigma_yx: Array) -> float:
    """Of τ in the gap."""
    small, large = (gap(weights, sigma_yx, tau) for tau in _TAUS)
    return float(np.log(large / small) / np.log(_TAUS[1] / _TAUS[0]))


@claim(
    "chizat2019/rate",
    place="Theorem 2.2, for linear networks",
    statement="As the output multiplier grows, a network that begins at the function 0 gets to its tangent model at "
    "least like 1/τ; with three layers no faster.",
    formula=r"\max_t \|f(t) - f_{\text{lin}}(t)\| = \Theta(1/\tau)",
    conditions="Three linear layers, white inputs, $f_0 = 0$. The error is that of the "
    "exponent between τ = 256 and 2048.",
    tolerance=0.05,  # higher orders of 1/τ
)
def rate(rng: Rng) -> float:
    sigma_yx, weights = draws.target(rng, 2, 2)[0], centred(draws.gaussian(rng, (2, 5, 5, 2), 0.6))
    return abs(exponent(weights, sigma_yx) + 1)


@claim(
    "chizat2019/rate-of-two-layers",
    place="ours: theory, section 12",
    statement="Two linear layers that begin at the function 0 get to their tangent model like 1/τ²: their kernel is "
    "made of Gram matrices, which move with the function, and that is of the first order itself.",
    formula=r"\max_t \|f(t) - f_{\text{lin}}(t)\| = \Theta(1/\tau^2)",
    conditions="Two linear layers, white inputs, $f_0 = 0$. The error is that of the "
    "exponent between τ = 256 and 2048.",
    tolerance=0.05,  # higher orders of 1/τ
)
def rate_of_two_layers(rng: Rng) -> float:
    sigma_yx, weights = draws.target(rng, 2, 2)[0], centred(draws.gaussian(rng, (2, 5, 2), 0.8))
    return abs(exponent(weights, sigma_yx) + 2)


@claim(
    "chizat2019/not-centred",
    place="ours: theory, section 12",
    statement="A network that does not begin at the function 0 never gets lazy: what it answers at first grows with τ, "
    "and it takes as much of the weights as ever to unlearn it. The gap tends to a number that is not 0.",
    formula=r"\max_t \|f(t) - f_{\text{lin}}(t)\| \,/\, \max_t \|f_{\text{lin}}(t) - \tau f_0\| = \Theta(1) "
    r"\qquad (f_0 \ne 0)",
    conditions="Two or three linear layers, white inputs. The error is that of the exponent between τ = 256 and 2048.",
    tolerance=0.05,
)
def not_centred(rng: Rng) -> float:
    hidden = [(5,), (5, 5)][int(rng.integers(2))]
    sigma_yx, weights = draws.target(rng, 2, 2)[0], draws.gaussian(rng, (2, *hidden, 2), 0.6)
    return abs(exponent(weights, sigma_yx))


def balance(W1: Array, W2: Array) -> Array:
    """D = W2ᵀW2 − W1W1ᵀ, with δ of each hidden unit on its diagonal; also of stacks."""
    return np.swapaxes(W2, -1, -2) @ W2 - W1 @ np.swapaxes(W1, -1, -2)


@claim(
    "chizat2019/balance",
    place="ours: theory, section 12",
    statement="The output multiplier leaves the balance of the layers as it is: δ of every hidden unit is that of the "
    "weights, whatever τ, and is conserved.",
    formula=r"\frac{d}{dt}\left(W_2^\top W_2 - W_1W_1^\top\right) = 0 \quad\text{along}\quad "
    r"\dot W_\ell = -\tfrac1{\tau^2}\,\partial_{W_\ell}\tfrac12\|S - \tau W_2W_1\|^2",
    conditions="Two linear layers, white inputs, τ from 0.5 to 8.",
    tolerance=1e-9,
)
def balance_is_kept(rng: Rng) -> float:
    sigma_yx, weights = draws.target(rng, 2, 2)[0], draws.gaussian(rng, (2, 3, 2), 0.6)
    tau = float(rng.uniform(0.5, 8.0))

    def loss(W: list[Array]) -> complex:
        return complex(np.sum((sigma_yx - tau * W[1] @ W[0]) ** 2)) / 2

    W1, W2 = flow_of(loss, weights, TIMES, rates=[1 / tau**2] * 2)
    return relative_error(balance(W1, W2), np.broadcast_to(balance(*weights), (len(TIMES), 3, 3)))
