"""Saxe et al. 2014, "Exact solutions to the nonlinear dynamics of learning in deep linear neural networks".

One mode of strength s, decoupled from the others; u is the product of its strengths in the L layers of
weights (the paper counts layers of neurons, N_l = L + 1); whitened inputs; time in units of τ.

    two equal layers    u̇ = 2u(s − u)
    L equal layers      u̇ = L u^{2−2/L}(s − u)
    L → ∞               u̇ = L u²(s − u)

Correction to the paper: in its eqs 25 and 26, on two unequal layers, s is to be replaced by 2s (`theta`).
Arrays broadcast. For the modes of a given network use `lr.solve`, which also knows u(t) at any depth.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lazyrich import _check
from lazyrich.methods.mode_times import (
    Phi,
    half_time,
    half_time_small_initialisation,
    logistic,
    time_infinite_depth,
    time_to_learn,
    width,
)

__all__ = [
    "Phi",
    "half_time",
    "half_time_small_initialisation",
    "logistic",
    "theta",
    "time_infinite_depth",
    "time_to_learn",
    "width",
]


def theta(theta0: ArrayLike, c0: ArrayLike, s: ArrayLike, times: ArrayLike) -> Any:
    """θ(t) of two unequal layers: a = √c0 cosh(θ/2), b = √c0 sinh(θ/2), u = ab = ½c0 sinh θ (eqs 25, 26).

        θ̇ = 2s − c0 sinh θ,     t = (1/K) [ln (K + c0 + 2sX)/(K − c0 − 2sX)] from θ0 to θ
        X = tanh(θ/2),     K = √(c0² + 4s²)

    solved for θ; c0 = a² − b² > 0 is conserved. The paper has s in place of 2s throughout, which does not
    follow from its equations for a and b. Digits are lost where c0 ≪ u, since X is then near 1: `lr.solve`
    loses none.

    >>> c0, (a0, b0) = 0.75, (1.0, 0.5)
    >>> u = c0 / 2 * np.sinh(theta(2 * np.arctanh(b0 / a0), c0, 2.0, [0.0, 10.0]))
    >>> u.round(6)  # from a0·b0 to s
    array([0.5, 2. ])
    """
    theta0, c0 = _check.as_array("theta0", theta0), _check.above_zero("c0", c0)
    s, t = _check.above_zero("s", s), _check.as_array("times", times)
    K, X0 = np.hypot(c0, 2 * s), np.tanh(theta0 / 2)
    sum_, risen = K * (1 + np.exp(-K * t)), -np.expm1(-K * t)
    return 2 * np.arctanh((2 * s * risen + X0 * (sum_ - c0 * risen)) / (sum_ + (c0 + 2 * s * X0) * risen))
