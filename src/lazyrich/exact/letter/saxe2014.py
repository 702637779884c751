"""Saxe, McClelland and Ganguli 2014, "Exact solutions to the nonlinear dynamics of learning in deep linear neural networks".

One mode of strength s, decoupled from the others, u = the product of its L layer strengths (the paper counts layers of neurons,
N_l = L + 1), whitened inputs, time in units of τ:

    two layers        u̇ = 2u(s − u)
    L equal layers    u̇ = L u^{2−2/L}(s − u)
    L → ∞             u̇ = L u²(s − u)

Correction to the paper: in its eqs 25 and 26, on two unequal layers, s is to be replaced by 2s (`theta`). Arrays broadcast. For the modes of a
given network, at any depth and balance, use `lr.solve`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import hyp2f1

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array

__all__ = ["Phi", "half_time", "half_time_small_start", "logistic", "theta", "time_infinite_depth", "time_to_learn", "width"]


def logistic(u0: Any, s: Any, times: Any) -> Array:
    """u(t) = s e^{2st}/(e^{2st} − 1 + s/u0): two equal layers, from u0 > 0.

    Evaluated with falling exponentials only, so that any time is safe; no digits are lost. A mode with u0 < 0 never crosses zero: `lr.solve` has it.

    >>> float(logistic(0.5, 2.0, 0.3)) == 2 / (1 + 3 * np.exp(-1.2))
    True
    """
    u0, s, t = _above_zero("u0", u0), _above_zero("s", s), _check.as_array("times", times)
    return s / (1 + (s / u0 - 1) * np.exp(-2 * s * t))


def Phi(u: Any, s: Any, L: int) -> Array:
    """Φ(u) = u^{2/L−1}/(s(2/L − 1)) · ₂F₁(1, 2/L − 1; 2/L; u/s), with Φ' = 1/(u^{2−2/L}(s − u)), for any depth L but 2.

    Beyond s its real part is meant, which has the same derivative. SciPy's complex ₂F₁ is used: its real one has no value beyond 1, and relatives of this one
    lose all digits near 1.
    """
    L, u, s = _check.count("L", L), _above_zero("u", u), _above_zero("s", s)
    if L == 2:
        raise InvalidInput("L must not be 2, where Φ is the logarithm ln(u/|s − u|)/s: time_to_learn takes it.")
    b = 2 / L - 1
    return u**b / (s * b) * hyp2f1(1, b, b + 1, u / s + 0j).real


def time_to_learn(u0: Any, uf: Any, s: Any, L: int = 2) -> Array:
    """Time from u0 to uf, which lies between u0 and s: (1/L)[Φ(uf) − Φ(u0)], and for two layers (1/2s) ln[uf(s − u0)/(u0(s − uf))].

    A difference: it loses digits where uf is close to u0, and, for L ≥ 3, where both are close to s. L = 1 is the shallow network, ln[(s − u0)/(s − uf)].
    """
    L, u0, uf, s = _check.count("L", L), _above_zero("u0", u0), _above_zero("uf", uf), _above_zero("s", s)
    if np.any((uf - u0) * (s - uf) < 0) or np.any((u0 == s) & (uf != s)):
        raise InvalidInput("uf must lie between u0 and s in every mode: the flow passes nowhere else.")
    with np.errstate(divide="ignore"):
        if L == 2:
            return np.log(uf * (s - u0) / (u0 * (s - uf))) / (2 * s)
        return (Phi(uf, s, L) - Phi(u0, s, L)) / L


def time_infinite_depth(u0: Any, uf: Any, s: Any) -> Array:
    """L·t for L → ∞: s⁻² ln[uf(u0 − s)/(u0(uf − s))] + 1/(s u0) − 1/(s uf), with uf between u0 and s.

    Learning time falls as 1/L at a given rate; the best rate falls as 1/L too, and so very deep networks take a finite number of steps.
    """
    u0, uf, s = _above_zero("u0", u0), _above_zero("uf", uf), _above_zero("s", s)
    if np.any((uf - u0) * (s - uf) < 0):
        raise InvalidInput("uf must lie between u0 and s in every mode: the flow passes nowhere else.")
    with np.errstate(divide="ignore"):
        return np.log(uf * (u0 - s) / (u0 * (uf - s))) / s**2 + 1 / (s * u0) - 1 / (s * uf)


def width(s: Any, L: int) -> Array:
    """Time from 0.1s to 0.9s: c_L s^{−(2−2/L)}, c_L = (1/L)∫_{.1}^{.9} dx/(x^{2−2/L}(1−x)), in closed form. c_L is width(1, L)."""
    return time_to_learn(0.1, 0.9, 1.0, L) * _above_zero("s", s) ** (2 / L - 2)


def half_time(u0: Any, s: Any, L: int = 2) -> Array:
    """Time from u0 < s/2 to s/2, exact. Two layers: (1/2s) ln(s/u0 − 1)."""
    return time_to_learn(u0, _above_zero("s", s) / 2, s, L)


def half_time_small_start(u0: Any, s: Any, L: int = 2) -> Array:
    """`half_time` to leading order in u0: (1/2s) ln(s/u0) for two layers, u0^{−(1−2/L)}/((L−2)s) for L ≥ 3.

    Two layers see the start through its logarithm, deeper ones as a power: (1/s) ln(s/ε) is not for them.
    """
    L, u0, s = _check.count("L", L, least=2), _above_zero("u0", u0), _above_zero("s", s)
    return np.log(s / u0) / (2 * s) if L == 2 else u0 ** (2 / L - 1) / ((L - 2) * s)


def theta(theta0: Any, c0: Any, s: Any, times: Any) -> Array:
    """θ(t) for two unequal layers, a = √c0 cosh(θ/2), b = √c0 sinh(θ/2), c0 = a² − b² > 0 conserved, u = ab = ½c0 sinh θ (eqs 25, 26).

        θ̇ = 2s − c0 sinh θ,     t = (1/K) [ln (K + c0 + 2sX)/(K − c0 − 2sX)],     X = tanh(θ/2),   K = √(c0² + 4s²)

    solved for X(t). The paper has s for 2s, here and in K: its θ̇ is not the flow's. K − c0 cancels where s ≪ c0, and θ = 2 atanh X where X is near 1
    (c0 ≪ u): `lr.solve` loses digits in neither.
    """
    theta0, c0 = _check.as_array("theta0", theta0), _above_zero("c0", c0)
    s, t = _above_zero("s", s), _check.as_array("times", times)
    K, X0 = np.hypot(c0, 2 * s), np.tanh(theta0 / 2)
    grown, fading = K + c0 + 2 * s * X0, (K - c0 - 2 * s * X0) * np.exp(-K * t)
    return 2 * np.arctanh((K * (grown - fading) - c0 * (grown + fading)) / (2 * s * (grown + fading)))


def _above_zero(name: str, value: Any) -> Array:
    array = _check.as_array(name, value)
    if array.min() <= 0:
        raise InvalidInput(f"{name} must be above 0, and its least entry is {array.min():g}.")
    return array
