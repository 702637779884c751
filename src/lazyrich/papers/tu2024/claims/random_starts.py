"""Random initialisations, mode by mode: where that is exact, and how it fails. The statements are ours."""

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.oracles import integrate, layers, product, relative_error
from lazyrich.papers.base.types import Rng
from lazyrich.papers.tu2024 import formulas

_TIMES = np.array([0.3, 1.0, 2.5])
_SMALL = 1e-5  # a coupling


def by_itself(weights: list[Array], U: Array, s: Array, V: Array, times: Array = _TIMES) -> Array:
    """Strengths of all modes, each from its own three numbers."""
    x, y = weights[0] @ V, U.T @ weights[1]
    a, p, r = np.sum(y.T * x, axis=0), np.sum(x**2, axis=0), np.sum(y**2, axis=1)
    c = formulas.constant(a, p, r)
    return integrate(lambda now: formulas.mode_velocity(now, s, c), a, times)


def of_flow(weights: list[Array], sigma_yx: Array, U: Array, V: Array) -> Array:
    """The same along the flow of all weights."""
    return np.sum(U * (product(layers(weights, sigma_yx, _TIMES)) @ V), axis=1)


def straight(rng: Rng, U: Array, V: Array) -> list[Array]:
    """Layers that keep modes apart: each has a plane of hidden units to itself, and may be of any balance in it."""
    m = U.shape[1]
    frame = draws.orthogonal(rng, 2 * m + 1)
    first, second, angle = rng.uniform(0.3, 1.2, size=m), rng.uniform(0.3, 1.2, size=m), rng.uniform(0.0, 3.0, size=m)
    into, beside = frame[:, :m], frame[:, m : 2 * m]
    return [into * first @ V.T, U @ (second * (np.cos(angle) * into + np.sin(angle) * beside)).T]


@claim(
    "tu2024/each-mode",
    place="ours: theory, section 11",
    statement="Where function and Gram matrices are diagonal in the singular vectors of the task, every mode learns by "
    "itself and has a c of its own, which it keeps. No balance is asked for, and any width will do.",
    formula=r"\dot a = 2\sqrt{a^2 + c^2}\,(s - a), \qquad c^2 = \left(\tfrac{p + r}2\right)^2 - a^2",
    conditions="Two linear layers, white inputs; $p$, $r$, $a$ are the diagonal entries of $P$, $R$, $A$.",
    tolerance=1e-10,
)
def each_mode(rng: Rng) -> float:
    sigma_yx, U, s, V = draws.target(rng, 3, 4)
    weights = straight(rng, U, V)
    return relative_error(by_itself(weights, U, s, V), of_flow(weights, sigma_yx, U, V))


@claim(
    "tu2024/couplings",
    place="ours: theory, section 11",
    statement="What couples the modes changes them at second order only: to first order in any change of the weights, "
    "every mode by itself is right.",
    formula=r"a_{\text{by itself}} - a = O(\varepsilon^2) \quad\text{for}\quad "
    r"W_\ell(0) = W_\ell^{\text{straight}} + \varepsilon N_\ell",
    conditions="Two linear layers, white inputs; straight layers are diagonal in the modes, $N_\\ell$ is any matrix.",
    tolerance=1e-6,  # a central difference: ε² of the third derivative, and the integrator's 1e-12 over ε
)
def couplings(rng: Rng) -> float:
    sigma_yx, U, s, V = draws.target(rng, 3, 4)
    weights = straight(rng, U, V)
    noise = [rng.normal(size=W.shape) for W in weights]
    off = []
    for sign in (1, -1):
        start = [W + sign * _SMALL * N for W, N in zip(weights, noise, strict=True)]
        off.append(by_itself(start, U, s, V) - of_flow(start, sigma_yx, U, V))
    return float(np.abs(off[0] - off[1]).max()) / (2 * _SMALL)


def function(W1: Array, W2: Array, sigma_yx: Array, times: Array) -> Array:
    """A along the flow, by QQᵀ alone for Q = [W1ᵀ; W2]: the width, which may be large, is gone."""
    d_out, d_in = sigma_yx.shape
    Q = np.concatenate([W1.T, W2])

    def velocity(G: Array) -> Array:
        E = sigma_yx - G[d_in:, :d_in]
        M = np.block([[np.zeros((d_in, d_in)), E.T], [E, np.zeros((d_out, d_out))]])
        return M @ G + G @ M

    return integrate(velocity, Q @ Q.T, times, rtol=1e-9)[:, d_in:, :d_in]


def errors(rng: Rng, hidden: int, first: float, second: float) -> tuple[float, float]:
    """Of every mode by itself, and of one c for all; layers of Gaussian weights with these deviations."""
    sigma_yx, U, s, V = draws.target(rng, 2, 3)
    W1, W2 = first * rng.normal(size=(hidden, 3)), second * rng.normal(size=(2, hidden))
    c = (np.trace(W1.T @ W1) / 3 + np.trace(W2 @ W2.T) / 2) / 2
    times = _TIMES / (1 + c)  # large weights learn fast
    truth = function(W1, W2, sigma_yx, times)
    uniform = integrate(lambda A: formulas.velocity(A, sigma_yx - A, c), W2 @ W1, times, rtol=1e-9)
    truth, uniform = (np.sum(U * (A @ V), axis=1) for A in (truth, uniform))
    alone = by_itself([W1, W2], U, s, V, times)
    return float(np.abs(alone - truth).max()), float(np.abs(uniform - truth).max())


@claim(
    "tu2024/by-width",
    place="ours: theory, section 11",
    statement="Of wide layers with random weights of variance of order 1/h, every mode by itself is off by O(1/h), and "
    "the family with one c for all modes by O(1/√h). With a first layer of variance of order 1, as PyTorch's is, the "
    "function is of order 1 at first, and every mode by itself is off by O(1/√h) too.",
    formula=r"\sigma_1^2 \sim \sigma_2^2 \sim 1/h:\ O(1/h) \text{ and } O(1/\sqrt h); \qquad "
    r"\sigma_1^2 \sim 1,\ \sigma_2^2 \sim 1/h:\ O(1/\sqrt h)",
    conditions="Two linear layers, white inputs, Gaussian weights; exponents between widths of 400 and 40 000, from "
    "geometric means over twenty networks each, which leaves them uncertain by about 0.05.",
    tolerance=0.2,  # chance: it tells 1/h from 1/√h, and no more
)
def by_width(rng: Rng) -> float:
    widths, found = (400, 40_000), []
    for hidden in widths:
        even = [errors(rng, hidden, hidden**-0.5, hidden**-0.5) for _ in range(20)]
        default = [errors(rng, hidden, 0.5, hidden**-0.5)[0] for _ in range(20)]
        found.append([*np.log(even).mean(axis=0), np.log(default).mean()])
    exponents = np.diff(found, axis=0)[0] / np.log(widths[1] / widths[0])
    return float(np.abs(exponents - np.array([-1.0, -0.5, -0.5])).max())
