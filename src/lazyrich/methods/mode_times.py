"""One mode of a deep linear network with L equal layers: how long it takes (Saxe et al. 2014; theory: section 3).

    u̇ = L u^{2−2/L}(s − u)

from u0 towards s, whitened inputs. Arrays broadcast.
"""

from __future__ import annotations

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Real


def Phi(u: object, s: object, L: int) -> Real:
    """Φ(u) = u^{2/L−1}/(s(2/L − 1)) · ₂F₁(1, 2/L − 1; 2/L; u/s), for L ≠ 2.

    Φ'(u) = 1/(u^{2−2/L}(s − u)), the inverse of u̇/L. For u > s its real part is meant, which has the same
    derivative; at u = s it is infinite. SciPy's complex ₂F₁ is used: the real one has no value beyond 1.

    >>> slope = (Phi(0.5 + 1e-6, 2.0, L=3) - Phi(0.5 - 1e-6, 2.0, L=3)) / 2e-6
    >>> round(float(slope * 0.5 ** (4 / 3) * (2.0 - 0.5)), 6)
    1.0
    """
    L, u, s = _check.count("L", L), _check.above_zero("u", u), _check.above_zero("s", s)
    if L == 2:
        raise InvalidInput("L must not be 2, where Φ(u) is ln(u/|s − u|)/s instead: time_to_learn takes it.")
    from scipy.special import hyp2f1  # here: it is slow to load

    b = 2 / L - 1
    return u**b / (s * b) * hyp2f1(1, b, b + 1, u / s + 0j).real


def time_to_learn(u0: object, uf: object, s: object, L: int = 2) -> Real:
    """Time from u0 to uf: (1/L)[Φ(uf) − Φ(u0)], for two layers (1/2s) ln[uf(s − u0)/(u0(s − uf))].

    uf must lie between u0 and s, on either side of it. L = 1 is the shallow network. As a difference it keeps
    an absolute accuracy of about 1e-15 of the two Φ, which are large for a small u0 and L ≥ 3.

    >>> round(float(time_to_learn(0.01, 1.9, 2.0)), 6)
    2.059436
    """
    L, (u0, uf, s) = _check.count("L", L), _on_the_way(u0, uf, s)
    if L == 2:
        return np.log(uf * (s - u0) / (u0 * (s - uf))) / (2 * s)
    return (Phi(uf, s, L) - Phi(u0, s, L)) / L


def half_time(u0: object, s: object, L: int = 2) -> Real:
    """Time from u0 < s/2 to s/2; for two layers (1/2s) ln(s/u0 − 1).

    >>> [round(float(half_time(1e-4, 1.0, L)), 3) for L in (2, 3, 4)]
    [4.605, 20.693, 49.729]
    """
    return time_to_learn(u0, _check.above_zero("s", s) / 2, s, L)


def logistic(u0: object, s: object, times: object) -> Real:
    """u(t) = s e^{2st}/(e^{2st} − 1 + s/u0): two equal layers, from u0 > 0.

    Divided by e^{2st} here, so that any time is safe. For u0 < 0, which never crosses zero, see `lr.solve`.

    >>> bool(logistic(0.5, 2.0, 0.3) == 2 / (1 + 3 * np.exp(-1.2)))
    True
    """
    u0, s, t = _check.above_zero("u0", u0), _check.above_zero("s", s), _check.as_array("times", times)
    return s / (1 + (s / u0 - 1) * np.exp(-2 * s * t))


def time_infinite_depth(u0: object, uf: object, s: object) -> Real:
    """L·t for L → ∞: s⁻² ln[uf(u0 − s)/(u0(uf − s))] + 1/(s u0) − 1/(s uf), with uf between u0 and s.

    The time falls as 1/L; so does the largest stable learning rate, and the number of steps stays finite.

    >>> [round(float(L * time_to_learn(0.1, 0.9, 1.0, L)), 3) for L in (10, 100, 1000)]
    [10.247, 12.932, 13.248]
    >>> round(float(time_infinite_depth(0.1, 0.9, 1.0)), 3)
    13.283
    """
    u0, uf, s = _on_the_way(u0, uf, s)
    return np.log(uf * (u0 - s) / (u0 * (uf - s))) / s**2 + 1 / (s * u0) - 1 / (s * uf)


def width(s: object, L: int) -> Real:
    """Time from 0.1s to 0.9s: c_L s^{−(2−2/L)}, c_L = (1/L)∫_{.1}^{.9} dx/(x^{2−2/L}(1−x)) = width(1, L).

    >>> width([1.0, 2.0], L=2).round(6), width([1.0, 2.0], L=3).round(6)
    (array([2.197225, 1.098612]), array([2.009402, 0.797432]))
    """
    return time_to_learn(0.1, 0.9, 1.0, L) * _check.above_zero("s", s) ** (2 / L - 2)


def half_time_small_initialisation(u0: object, s: object, L: int = 2) -> Real:
    """`half_time` to leading order in u0: (1/2s) ln(s/u0) for L = 2, u0^{−(1−2/L)}/((L−2)s) for L ≥ 3.

    Two layers see the logarithm of u0, more layers a power of it. The relative error is
    below u0/s for L = 2, and of order (u0/s)^{1−2/L} for L ≥ 3.

    >>> [round(float(half_time_small_initialisation(1e-4, 1.0, L)), 3) for L in (2, 3, 4)]
    [4.605, 21.544, 50.0]
    """
    L, u0, s = _check.count("L", L, least=2), _check.above_zero("u0", u0), _check.above_zero("s", s)
    return np.log(s / u0) / (2 * s) if L == 2 else u0 ** (2 / L - 1) / ((L - 2) * s)


def _on_the_way(u0: object, uf: object, s: object) -> tuple[Array, Array, Array]:
    u0, uf, s = _check.above_zero("u0", u0), _check.above_zero("uf", uf), _check.above_zero("s", s)
    if np.any((uf - u0) * (s - uf) < 0) or np.any(uf == s):
        raise InvalidInput("uf must lie between u0 and s, and not be s, which takes for ever.")
    return u0, uf, s
