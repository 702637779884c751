"""How far two runs of the same network are apart, and what that says of their errors."""

from __future__ import annotations

import numpy as np

from lazyrich._typing import Array

EXACT = 1e-12  # rounding of a closed form: no error is told below it
TWICE = 5.0  # times the distance of the two at the steps of the first: no less than the error of the second anywhere


def relative(apart: Array, values: Array) -> float:
    """The largest difference over the largest value."""
    largest = float(np.abs(values).max(initial=0.0))
    return float(np.abs(apart).max(initial=0.0)) / largest if largest else 0.0
