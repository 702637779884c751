"""What steps and mini-batches do to D = W_{ℓ+1}ᵀW_{ℓ+1} − W_ℓW_ℓᵀ, which has c and δ. The statements are ours."""

from collections.abc import Sequence
from itertools import pairwise, permutations
from itertools import product as every_choice

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.oracles import gradient, product, relative_error
from lazyrich.papers.base.types import Rng

_SAMPLES = 4
_RATE = 0.3  # large: nothing is expanded in it


def drawn(rng: Rng) -> tuple[list[Array], Array, Array]:
    """Two or three layers, and samples in rows."""
    sizes = [int(d) for d in rng.integers(1, 4, size=int(rng.integers(3, 5)))]
    weights = [rng.normal(size=(after, before)) for before, after in pairwise(sizes)]
    return weights, rng.normal(size=(_SAMPLES, sizes[0])), rng.normal(size=(_SAMPLES, sizes[-1]))


def slopes(weights: Sequence[Array], X: Array, Y: Array) -> list[Array]:
    """−∂loss/∂W_ℓ of the mean over samples, from values of the loss."""

    def loss(layers: list[Array]) -> Array:
        return ((Y - X @ product(layers).T) ** 2).sum() / 2 / len(X)

    return [-G for G in gradient(loss, weights)]


def balances(weights: Sequence[Array]) -> list[Array]:
    return [above.T @ above - below @ below.T for below, above in pairwise(weights)]


def after_a_step(weights: Sequence[Array], X: Array, Y: Array) -> list[Array]:
    """The balance that gradient descent leaves."""
    return balances([W + _RATE * g for W, g in zip(weights, slopes(weights, X, Y), strict=True)])


def change(g: Sequence[Array]) -> list[Array]:
    """h²(gᵀg of the layer above − ggᵀ of the layer below)."""
    return [_RATE**2 * (above.T @ above - below @ below.T) for below, above in pairwise(g)]


@claim(
    "tu2024/noise-step",
    place="ours: theory, section 14",
    statement="A step of gradient descent changes the balance of neighbouring layers by the squares of its gradients "
    "alone, whichever samples it sees and whatever is added to their targets.",
    formula=r"\Delta D_\ell = h^2\left(g_{\ell+1}^\top g_{\ell+1} - g_\ell g_\ell^\top\right)",
    conditions="Linear layers, unit rates, no weight decay; g is minus the gradient of what the step sees.",
    tolerance=1e-10,
)
def noise_step(rng: Rng) -> float:
    weights, X, Y = drawn(rng)
    chosen = rng.integers(_SAMPLES, size=int(rng.integers(1, 4)))
    seen, noisy = X[chosen], Y[chosen] + rng.normal(size=Y[chosen].shape)
    truth = [new - old for new, old in zip(after_a_step(weights, seen, noisy), balances(weights), strict=True)]
    return max(relative_error(D, true) for D, true in zip(change(slopes(weights, seen, noisy)), truth, strict=True))


def squares(weights: Sequence[Array], X: Array, Y: Array, kept: float) -> list[tuple[Array, Array]]:
    """Means of gᵀg and ggᵀ over batches that keep so much of the variance of one sample, per layer."""
    below = [X]
    for W in weights[:-1]:
        below.append(below[-1] @ W.T)
    back = [Y - X @ product(weights).T]
    for W in weights[:0:-1]:
        back.insert(0, back[0] @ W)
    means = []
    for z, a in zip(below, back, strict=True):
        G, n = a.T @ z / len(z), len(z)
        inner = (1 - kept) * G.T @ G + kept * (z.T * (a**2).sum(axis=1)) @ z / n
        outer = (1 - kept) * G @ G.T + kept * (a.T * (z**2).sum(axis=1)) @ a / n
        means.append((inner, outer))
    return means


@claim(
    "tu2024/noise-batches",
    place="ours: theory, section 14",
    statement="The mean of that over mini-batches of b of n samples has the covariance of the gradients of single "
    "samples besides: 1/b of it if they are drawn with replacement, and (n − b)/(b(n − 1)) without.",
    formula=r"\mathrm{E}\,g^\top g = (1 - \kappa)\,G^\top G + \kappa\,\langle \lVert a\rVert^2 zz^\top\rangle, \qquad "
    r"\mathrm{E}\,g g^\top = (1 - \kappa)\,GG^\top + \kappa\,\langle \lVert z\rVert^2 aa^\top\rangle",
    conditions="Linear layers, squared loss. a and z are what comes back to a layer and up to it, of each sample: its "
    "gradient is azᵀ.",
    tolerance=1e-10,
)
def noise_batches(rng: Rng) -> float:
    weights, X, Y = drawn(rng)
    n, b = _SAMPLES, int(rng.integers(1, 4))
    before, errors = balances(weights), []
    for ways, kept in (
        (every_choice(range(n), repeat=b), 1 / b),
        (permutations(range(n), b), (n - b) / (b * (n - 1))),
    ):
        after = [after_a_step(weights, X[list(way)], Y[list(way)]) for way in ways]
        means = squares(weights, X, Y, kept)
        for i, old in enumerate(before):
            truth = np.mean([D[i] for D in after], axis=0) - old
            errors.append(relative_error(_RATE**2 * (means[i + 1][0] - means[i][1]), truth))
    return max(errors)
