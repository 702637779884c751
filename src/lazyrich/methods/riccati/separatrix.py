"""How far a graded initialisation is from the separatrix: the smallest new part of a direction that could be learned,
relative to the longest row.

Directions outside the task share one eigenvalue, ±|λ|/2, and have no axes of their own: what is new in all of them, and
how long they are, is measured by singular values, which no choice of axes changes.
"""

from __future__ import annotations

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.alignment import equal_groups, lengths
from lazyrich.methods.base import Separatrix
from lazyrich.methods.riccati.grading import Graded

_ROUNDING = 64 * float(np.finfo(np.float64).eps)


def separatrix_of(graded: Graded) -> Separatrix:
    """The distance, and whether a direction is missed."""
    F, L, pivots = graded.spectrum, graded.L, graded.pivots
    if len(graded.missed):
        return Separatrix(graded.separatrix_distance, on_it=True)
    m, n, d_in = len(F.s), len(F.w), len(F.V)
    first = equal_groups(np.append(F.s, 0.0))[-1].start  # rows of the task: so many, and as many at the end
    alone = (n - d_in if F.outputs_first else d_in) - m
    last = m + alone if F.w[first : m + alone].max(initial=0.0) > _ROUNDING * F.w[0] else first
    growing, others = slice(first, last), slice(last, n - first)
    rows = np.delete(L, slice(first, n - first), axis=0)
    longest = max([*lengths(rows), *(_singular(L[group]).max(initial=0.0) for group in (growing, others))], default=0.0)
    new = graded.pivot_lengths[(pivots < first) & (F.w[pivots] > 0)]
    free = _singular(L[growing][:, (pivots >= first) & (pivots < last)])
    return Separatrix(float(min([longest, *new, *free]) / longest) if longest else 1.0)


def _singular(X: Float[Array, "r k"]) -> Float[Array, " q"]:
    """Its singular values; none of an empty matrix."""
    return np.linalg.svd(X, compute_uv=False) if X.size else np.empty(0)
