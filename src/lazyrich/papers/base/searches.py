"""Where a loss is flat or lowest, found by search: critical points from anywhere, and the least loss of a network.

Like the oracles, these know values of the loss and nothing else of the theory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import least_squares

from lazyrich._typing import Array
from lazyrich.papers.base.oracles import flattened, gradient, hessian, product
from lazyrich.papers.base.types import Loss


def critical_point(loss: Loss, parameters: Sequence[Array]) -> list[Array]:
    """A place where the gradient vanishes, of any kind, that Gauss and Newton find from here or from nearer to zero.

    >>> from lazyrich.papers.base.searches import critical_point
    >>> critical_point(lambda p: ((p[0] ** 2 - 1) ** 2).sum(), [np.array([0.9])])[0].round(12).tolist()
    [1.0]
    """
    start, rebuilt = flattened(parameters)

    def gradients(x: Array) -> Array:
        return flattened(gradient(loss, rebuilt(x)))[0]

    for shrunk in np.outer(0.8 ** np.arange(20), start):  # the gradient may have a least size that is not zero
        found = least_squares(
            gradients, shrunk, lambda x: hessian(loss, rebuilt(x)), method="lm", xtol=1e-15, ftol=1e-15, max_nfev=100
        )
        if np.abs(found.fun).max() < 1e-10:
            return rebuilt(found.x)
    raise RuntimeError("no critical point was found")


def fitted(weights: Sequence[Array], X: Array, Y: Array, sweeps: int = 200) -> list[Array]:
    """The layers after sweeps in which one after the other takes its best value, the rest being held.

    From random layers this ends in a minimum of ‖Y − X Wᵀ‖², X and Y having samples as rows.
    """
    layers = [np.array(W, dtype=float) for W in weights]
    d_in, d_out = layers[0].shape[1], layers[-1].shape[0]
    for _ in range(sweeps):
        for place in range(len(layers)):
            below = product([np.eye(d_in), *layers[:place]])
            above = product([*layers[place + 1 :], np.eye(d_out)])
            layers[place] = np.linalg.pinv(above) @ Y.T @ np.linalg.pinv(X @ below.T).T
    return layers
