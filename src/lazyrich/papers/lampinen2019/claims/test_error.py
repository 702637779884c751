"""The error on the teacher itself along training: two balanced layers whose weights share the modes of the samples."""

from __future__ import annotations

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.draws import orthogonal
from lazyrich.papers.base.types import Rng
from lazyrich.papers.lampinen2019 import formulas

_SIZE, _DRAWS = 160, 12
_TIMES = np.array([0.5, 0.9, 1.4, 2.0, 4.0])
_START = 0.05


def strength(s: Array, t: Array) -> Array:
    """a(t) of a mode of two balanced layers, ȧ = 2a(s − a), from `_START`."""
    t = np.asarray(t)[:, None]
    return s / (1 + (s / _START - 1) * np.exp(-2 * s * t))


def learned(rng: Rng, s: Array, A: float) -> tuple[Array, Array, Array]:
    """‖W − T‖² over time for a network that learns every mode of a drawn Σ̂yx, and its strengths of the teacher's modes
    and of the noise."""
    size, d_out = _SIZE, round(A * _SIZE)
    U, V = orthogonal(rng, d_out, len(s)), orthogonal(rng, size, len(s))
    T = U * s @ V.T
    U_hat, s_hat, Vt_hat = np.linalg.svd(T + rng.normal(size=T.shape) / np.sqrt(size), full_matrices=False)
    a = strength(s_hat, _TIMES)
    errors = np.array([np.sum((U_hat * row @ Vt_hat - T) ** 2) for row in a])
    return errors, a[:, : len(s)], a[:, len(s) :]


@claim(
    "lampinen2019/test-error",
    place="Generalisation dynamics",
    statement="The test error is a sum over modes: what is learned of the teacher's, whose vectors are off by the "
    "angles that the noise has turned them, and the squares of what is learned of the noise.",
    formula=r"\|W - T\|^2 = \sum_\alpha \left[s_\alpha^2 + a_\alpha^2 - 2a_\alpha s_\alpha "
    r"|\hat u_\alpha^\top u_\alpha||\hat v_\alpha^\top v_\alpha|\right] + \sum_{\text{noise}} a_\beta^2",
    conditions="Two balanced layers that begin with the modes of the samples, white inputs, teacher of rank two, "
    "strengths of 2.3 thresholds and more; tried with 160 inputs and means of 12 draws, errors relative to the first.",
    tolerance=0.04,  # chance in the overlaps
)
def error_of_modes(rng: Rng) -> float:
    A = float(2.0 ** rng.uniform(-1.0, 1.0))
    s = formulas.threshold(A) * np.array([rng.uniform(3.4, 4.5), rng.uniform(2.3, 3.0)])
    off = []
    for _ in range(_DRAWS):
        errors, a, noise = learned(rng, s, A)
        off.append(formulas.test_error(a, s, noise, A) - errors)
    return float(np.abs(np.mean(off, axis=0)).max() / np.sum(s**2))
