"""Tangent kernels by brute force: Jacobians of the outputs, entry by entry, and their product.

Weight by weight, the derivative of f(x) = W_L σ(… σ(W_1 x)) is taken by complex step,
Im f(W + ih)/h, which has no truncation error that doubles can hold and subtracts nothing. The derivative of
max(z, γz) is that of the branch of the real part, γ at 0. Slope None is tanh.

    K = Σ_ℓ η_ℓ J_ℓ J_ℓᵀ,     rows in the order (output, sample)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
STEP = 1e-200


def jacobians(weights: Sequence[ArrayLike], inputs: ArrayLike, slope: float | None = 1.0) -> list[Array]:
    """Per layer, (outputs × samples, weights); `inputs` has one row per sample, slope 1 is a linear network."""
    layers = [np.asarray(W, dtype=np.complex128) for W in weights]
    X = np.asarray(inputs, dtype=np.float64)
    result = []
    for layer in range(len(layers)):
        columns = []
        for entry in np.ndindex(layers[layer].shape):
            moved = [W.copy() for W in layers]
            moved[layer][entry] += 1j * STEP
            columns.append((_outputs(moved, X, slope).imag / STEP).ravel())
        result.append(np.array(columns).T)
    return result


def kernel(weights: Sequence[ArrayLike], inputs: ArrayLike, rates: Sequence[float], slope: float | None = 1.0) -> Array:
    """The tangent kernel itself."""
    return sum(
        (eta * J @ J.T for eta, J in zip(rates, jacobians(weights, inputs, slope), strict=True)), start=np.zeros(())
    )


def _outputs(layers: list[NDArray[np.complex128]], X: Array, slope: float | None) -> NDArray[np.complex128]:
    signal = X.T.astype(np.complex128)
    for W in layers[:-1]:
        z = W @ signal
        signal = np.tanh(z) if slope is None else np.where(z.real > 0, z, slope * z)
    return layers[-1] @ signal
