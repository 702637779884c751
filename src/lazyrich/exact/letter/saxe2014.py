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
from scipy.special import hyp2f1

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array

__all__ = [
    "Phi",
    "half_time",
    "half_time_small_start",
    "logistic",
    "theta",
    "time_infinite_depth",
    "time_to_learn",
    "width",
]


def logistic(u0: Any, s: Any, times: Any) -> Any:
    """u(t) = s e^{2st}/(e^{2st} − 1 + s/u0): two equal layers, from u0 > 0.

    Divided by e^{2st} here, so that any time is safe. For u0 < 0, which never crosses zero, see `lr.solve`.

    >>> bool(logistic(0.5, 2.0, 0.3) == 2 / (1 + 3 * np.exp(-1.2)))
    True
    """
    u0, s, t = _above_zero("u0", u0), _above_zero("s", s), _check.as_array("times", times)
    return s / (1 + (s / u0 - 1) * np.exp(-2 * s * t))


def Phi(u: Any, s: Any, L: int) -> Any:
    """Φ(u) = u^{2/L−1}/(s(2/L − 1)) · ₂F₁(1, 2/L − 1; 2/L; u/s), for L ≠ 2.

    Φ'(u) = 1/(u^{2−2/L}(s − u)), the inverse of u̇/L. For u > s its real part is meant, which has the same
    derivative; at u = s it is infinite. SciPy's complex ₂F₁ is used: the real one has no value beyond 1.

    >>> slope = (Phi(0.5 + 1e-6, 2.0, L=3) - Phi(0.5 - 1e-6, 2.0, L=3)) / 2e-6
    >>> round(float(slope * 0.5 ** (4 / 3) * (2.0 - 0.5)), 6)
    1.0
    """
    L, u, s = _check.count("L", L), _above_zero("u", u), _above_zero("s", s)
    if L == 2:
        raise InvalidInput("L must not be 2, where Φ(u) is ln(u/|s − u|)/s instead: time_to_learn takes it.")
    b = 2 / L - 1
    return u**b / (s * b) * hyp2f1(1, b, b + 1, u / s + 0j).real


def time_to_learn(u0: Any, uf: Any, s: Any, L: int = 2) -> Any:
    """Time from u0 to uf: (1/L)[Φ(uf) − Φ(u0)], for two layers (1/2s) ln[uf(s − u0)/(u0(s − uf))].

    uf must lie between u0 and s, on either side of it. L = 1 is the shallow network. As a difference it keeps
    an absolute accuracy of about 1e-15 of the two Φ, which are large for a small start and L ≥ 3.

    >>> round(float(time_to_learn(0.01, 1.9, 2.0)), 6)
    2.059436
    >>> round(float(logistic(0.01, 2.0, time_to_learn(0.01, 1.9, 2.0))), 12)
    1.9
    """
    L, (u0, uf, s) = _check.count("L", L), _on_the_way(u0, uf, s)
    if L == 2:
        return np.log(uf * (s - u0) / (u0 * (s - uf))) / (2 * s)
    return (Phi(uf, s, L) - Phi(u0, s, L)) / L


def time_infinite_depth(u0: Any, uf: Any, s: Any) -> Any:
    """L·t for L → ∞: s⁻² ln[uf(u0 − s)/(u0(uf − s))] + 1/(s u0) − 1/(s uf), with uf between u0 and s.

    The time falls as 1/L; so does the largest stable learning rate, and the number of steps stays finite.

    >>> [round(float(L * time_to_learn(0.1, 0.9, 1.0, L)), 3) for L in (10, 100, 1000)]
    [10.247, 12.932, 13.248]
    >>> round(float(time_infinite_depth(0.1, 0.9, 1.0)), 3)
    13.283
    """
    u0, uf, s = _on_the_way(u0, uf, s)
    return np.log(uf * (u0 - s) / (u0 * (uf - s))) / s**2 + 1 / (s * u0) - 1 / (s * uf)


def width(s: Any, L: int) -> Any:
    """Time from 0.1s to 0.9s: c_L s^{−(2−2/L)}, c_L = (1/L)∫_{.1}^{.9} dx/(x^{2−2/L}(1−x)) = width(1, L).

    >>> width([1.0, 2.0], L=2).round(6), width([1.0, 2.0], L=3).round(6)
    (array([2.197225, 1.098612]), array([2.009402, 0.797432]))
    """
    return time_to_learn(0.1, 0.9, 1.0, L) * _above_zero("s", s) ** (2 / L - 2)


def half_time(u0: Any, s: Any, L: int = 2) -> Any:
    """Time from u0 < s/2 to s/2; for two layers (1/2s) ln(s/u0 − 1).

    >>> [round(float(half_time(1e-4, 1.0, L)), 3) for L in (2, 3, 4)]
    [4.605, 20.693, 49.729]
    """
    return time_to_learn(u0, _above_zero("s", s) / 2, s, L)


def half_time_small_start(u0: Any, s: Any, L: int = 2) -> Any:
    """`half_time` to leading order in u0: (1/2s) ln(s/u0) for L = 2, u0^{−(1−2/L)}/((L−2)s) for L ≥ 3.

    Two layers see the logarithm of the start, more layers a power of it. The relative error is
    below u0/s for L = 2, and of order (u0/s)^{1−2/L} for L ≥ 3.

    >>> [round(float(half_time_small_start(1e-4, 1.0, L)), 3) for L in (2, 3, 4)]
    [4.605, 21.544, 50.0]
    """
    L, u0, s = _check.count("L", L, least=2), _above_zero("u0", u0), _above_zero("s", s)
    return np.log(s / u0) / (2 * s) if L == 2 else u0 ** (2 / L - 1) / ((L - 2) * s)


def theta(theta0: Any, c0: Any, s: Any, times: Any) -> Any:
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
    theta0, c0 = _check.as_array("theta0", theta0), _above_zero("c0", c0)
    s, t = _above_zero("s", s), _check.as_array("times", times)
    K, X0 = np.hypot(c0, 2 * s), np.tanh(theta0 / 2)
    sum_, risen = K * (1 + np.exp(-K * t)), -np.expm1(-K * t)
    return 2 * np.arctanh((2 * s * risen + X0 * (sum_ - c0 * risen)) / (sum_ + (c0 + 2 * s * X0) * risen))


def _on_the_way(u0: Any, uf: Any, s: Any) -> tuple[Array, Array, Array]:
    u0, uf, s = _above_zero("u0", u0), _above_zero("uf", uf), _above_zero("s", s)
    if np.any((uf - u0) * (s - uf) < 0) or np.any(uf == s):
        raise InvalidInput("uf must lie between u0 and s, and not be s, which takes for ever.")
    return u0, uf, s


def _above_zero(name: str, value: Any) -> Array:
    array = _check.as_array(name, value)
    if array.min() <= 0:
        raise InvalidInput(f"{name} must be above 0, and the least is {array.min():g}.")
    return array
