"""The error on the teacher itself along training: two balanced layers whose weights share the modes of the samples."""

from __future__ import annotations

import numpy as np

from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.oracles import layers, product, relative_error
from lazyrich.papers.base.types import Rng, Values
from lazyrich.papers.lampinen2019 import formulas

_TIMES = np.array([0.2, 0.6, 1.5])


def strength(s: Values, a0: Values, t: Values) -> Values:
    """a(t) of a mode of two balanced layers, ȧ = 2a(s − a)."""
    return s / (1 + (s / a0 - 1) * np.exp(-2 * s * t))


@claim(
    "lampinen2019/test-error",
    place="Generalisation dynamics",
    statement="The test error is a sum over the modes of the samples: each helps up to what the teacher has of it, "
    "which is its strength there times the overlaps of its vectors, and those of noise hurt from the start.",
    formula=r"\|W(t) - T\|^2 = \|T\|^2 + \sum_\alpha \left[a_\alpha(t)^2 - 2a_\alpha(t)\, b_\alpha\right], \qquad "
    r"b_\alpha = \hat u_\alpha^\top T\hat v_\alpha, \qquad \dot a_\alpha = 2a_\alpha(\hat s_\alpha - a_\alpha)",
    conditions="Two balanced layers that begin with the modes of the samples, white inputs; any teacher, any noise.",
    tolerance=1e-9,
)
def error_of_modes(rng: Rng) -> float:
    seen, U, s, V = draws.target(rng, 3, 4)
    T = seen + 0.5 * rng.normal(size=seen.shape)
    a0 = rng.uniform(0.05, 0.3, size=len(s))
    W = product(layers(draws.aligned(rng, U, V, a0, (4, 5, 3)), seen, _TIMES))
    a, b = strength(s, a0, _TIMES[:, None]), np.sum(U * (T @ V), axis=0)
    printed = formulas.test_error(a, b, float(np.linalg.norm(T)))
    return relative_error(printed, np.sum((W - T) ** 2, axis=(1, 2)))
