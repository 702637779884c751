"""What is nothing but rounding is printed as 0."""

from __future__ import annotations

import numpy as np

from lazyrich._typing import Array, ArrayLike

ROUNDING = 1e-14  # of the largest number of its kind


def cleared(values: ArrayLike, largest: float) -> Array:
    """The values, 0 where they are rounding beside the largest of their kind.

    >>> cleared([1.0, 3e-31], 1.0).tolist()
    [1.0, 0.0]
    """
    numbers = np.asarray(values, dtype=float)
    return np.where(np.abs(numbers) <= ROUNDING * largest, 0.0, numbers)
