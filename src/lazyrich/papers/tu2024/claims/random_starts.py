"""Random initialisations, mode by mode: where that is exact, and how it fails. The statements are ours."""

from functools import partial

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.oracles import integrate, layers, product, relative_error
from lazyrich.papers.base.types import Rng
from lazyrich.papers.tu2024 import formulas

_TIMES = np.array([0.3, 1.0, 2.5])
_SMALL = 1e-5  # a coupling


def by_itself(weights: list[Array], U: Array, s: Array, V: Array) -> Array:
    """Strengths of all modes, each from its own three numbers."""
    x, y = weights[0] @ V, U.T @ weights[1]
    a, p, r = np.sum(y.T * x, axis=0), np.sum(x**2, axis=0), np.sum(y**2, axis=1)
    c = formulas.constant(a, p, r)
    return integrate(lambda now: formulas.mode_velocity(now, s, c), a, _TIMES)


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


def turned(X: Array) -> Array:
    """Xᵀ of each of a stack."""
    return np.swapaxes(X, -1, -2)


def root(S: Array, c: Array) -> Array:
    """`formulas.root` of each of a stack."""
    values, vectors = np.linalg.eigh(S)
    return (vectors * np.sqrt(np.maximum(values, 0.0) + c**2)[:, None]) @ turned(vectors)


def exponents(rng: Rng, widths: tuple[int, int], first: float | None) -> Array:
    """Of h in the errors of every mode by itself, and of one c for all modes; `first` is the deviation of W1.

    The flow goes by G = QQᵀ, Q = [W1ᵀ; W2], in which the width is gone; 20 networks at once, in a time that large
    weights make short.
    """
    sigma_yx, U, s, V = draws.target(rng, 2, 3)
    logs = []
    for h in widths:
        W1, W2 = (first or h**-0.5) * rng.normal(size=(20, h, 3)), h**-0.5 * rng.normal(size=(20, 2, h))
        Q = np.concatenate([turned(W1), W2], axis=1)
        G = Q @ turned(Q)
        c = (np.trace(G[:, :3, :3], axis1=1, axis2=2) / 3 + np.trace(G[:, 3:, 3:], axis1=1, axis2=2) / 2)[:, None] / 2
        times = _TIMES / (1 + c.mean())

        def velocity(G: Array) -> Array:
            E = sigma_yx - G[:, 3:, :3]
            MG = np.concatenate([turned(E) @ G[:, 3:], E @ G[:, :3]], axis=1)
            return MG + turned(MG)

        def of_one_c(A: Array, c: Array = c) -> Array:
            E = sigma_yx - A
            return root(A @ turned(A), c) @ E + E @ root(turned(A) @ A, c)

        def strengths(A: Array) -> Array:
            return np.sum(U * (A @ V), axis=-2)

        a, p, r = (
            strengths(G[:, 3:, :3]),
            np.sum(V * (G[:, :3, :3] @ V), axis=-2),
            np.sum(U * (G[:, 3:, 3:] @ U), axis=-2),
        )
        own = formulas.constant(a, p, r)
        truth = strengths(integrate(velocity, G, times, rtol=1e-8)[:, :, 3:, :3])
        alone = integrate(partial(formulas.mode_velocity, s=s, c=own), a, times, rtol=1e-8)
        uniform = strengths(integrate(of_one_c, G[:, 3:, :3], times, rtol=1e-8))
        logs.append([np.log(np.abs(x - truth).max(axis=(0, 2))).mean() for x in (alone, uniform)])
    return np.diff(logs, axis=0)[0] / np.log(widths[1] / widths[0])


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
    seeds=4,
)
def by_width(rng: Rng) -> float:
    (alone, uniform), (default, _) = exponents(rng, (400, 40_000), None), exponents(rng, (400, 40_000), 0.5)
    return max(abs(alone + 1), abs(uniform + 0.5), abs(default + 0.5))
