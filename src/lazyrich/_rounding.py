"""What is nothing but rounding: it is printed as 0, and is no mode."""

from __future__ import annotations

import numpy as np

from lazyrich._typing import Array, ArrayLike

ROUNDING = 1e-14  # of the largest number of its kind
_SUMS = 8  # times what a singular value decomposition leaves: correlations are sums over samples, perhaps whitened


def present(s: Array, shape: tuple[int, ...], eps: float) -> Array:
    """Which singular values of correlations, the largest first, are more than their rounding.

    >>> present(np.array([0.5, 1e-3, 5e-16]), (3, 3), 2.2e-16).tolist()
    [True, True, False]
    """
    return np.asarray(s > _SUMS * max(shape) * eps * s[0])


def cleared(values: ArrayLike, largest: float) -> Array:
    """The values, 0 where they are rounding beside the largest of their kind.

    >>> cleared([1.0, 3e-31], 1.0).tolist()
    [1.0, 0.0]
    """
    numbers = np.asarray(values, dtype=float)
    return np.where(np.abs(numbers) <= ROUNDING * largest, 0.0, numbers)
