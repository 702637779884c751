"""Names of types that the rooms share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazyrich._typing import Array

Rng = np.random.Generator
Real = float | Array  # a number or an array of numbers: formulas hold for both
Row = Sequence[float] | Array  # numbers in a row
Pair = tuple[Real | Sequence[Any], Real | Sequence[Any]]  # what is printed, and the truth
Values = Any  # a number or an array, real or complex: what is analytic, and what limits are taken of
Loss = Callable[[list[Array]], Values]  # a number; complex where its arguments are

Tick = Callable[[float], object]  # told how many cells' worth of work has been done
Colour = str | Sequence[float] | Array  # as matplotlib has them
Look = dict[str, Any]  # how a curve looks: arguments of matplotlib by name
Rows = list[dict[str, Any]]  # a table, row by row, by the names of its columns

JaxArray = Any  # traced or not; JAX is loaded when something is trained
Tree = Any  # what JAX maps over: tuples and dicts of arrays
