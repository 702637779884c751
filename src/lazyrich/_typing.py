"""Shape aliases: `Float[Array, "T out in"]` says float64, and which axis is which.

For type checkers it is `Annotated`; at run time it costs nothing. The test suite imports jaxtyping first,
and then the shapes are checked on every call.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "ArrayLike", "Float", "JaxArray", "Real", "Rng", "Tree"]

Rng = int | np.random.Generator

JaxArray: TypeAlias = Any  # of JAX, traced or not: the border to it
Tree: TypeAlias = Any  # such arrays in tuples, lists, dictionaries and modules

if TYPE_CHECKING:
    from typing import Annotated as Float

    from numpy.typing import ArrayLike as ArrayLike

    Array = NDArray[Any]
else:
    Array = np.ndarray
    ArrayLike = object  # at run time NumPy's own knows no tuples
    if "jaxtyping" in sys.modules:
        from jaxtyping import Float
    else:
        from typing import Annotated as Float

Real = Array | float  # a number, or many
