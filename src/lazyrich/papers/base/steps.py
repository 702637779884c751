"""When figures of several papers look at a run."""

from __future__ import annotations

import numpy as np

from lazyrich._typing import Array


def spread_steps(steps: int, count: int) -> Array:
    """About so many steps from 0 to the last, evenly in their logarithm: what is quick and what is late, resolved."""
    return np.unique(np.concatenate([[0], np.geomspace(1, steps, count).round().astype(np.int64)]))
