"""Shape aliases: `Float[Array, "T out in"]` says float64, and which axis is which.

For type checkers it is `Annotated`; at run time it costs nothing. The test suite imports jaxtyping first,
and then the shapes are checked on every call.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Array", "ArrayLike", "Float", "Rng"]

Array = NDArray[Any] if TYPE_CHECKING else np.ndarray
Rng = int | np.random.Generator

if TYPE_CHECKING or "jaxtyping" not in sys.modules:
    Float = Annotated
else:
    from jaxtyping import Float
