"""Gradient flow by Taylor series in arbitrary precision, for tiny networks and single modes.

It knows the differential equations and nothing of their solutions, so it can judge the closed forms.

    weights, gram   Ẇ1 = η_1 [W2ᵀ E − γW1],  Ẇ2 = η_2 [E W1ᵀ − γW2],  E = Σyx − c W2W1   (sizes 1..3)
    mode_mp         ȧ = √(λ² + 4a²)(s − a)
    deep_mode_mp    ȧ = L a^{2−2/L}(s − a), by quadrature for the time and Newton's method
    deep_sizes_mp   ḃ_ℓ = η_ℓ (s − d Πb) Π_{j≠ℓ} b_j

The right-hand sides are polynomials, so the coefficients come from convolutions; the order is the
number of digits, and a step is so long that the last term is at rounding level.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log
from typing import Any

import numpy as np
from mpmath import mp
from numpy.typing import NDArray

from .starts_mp import Matrix, MpMatrix, to_mp

MpArray = NDArray[np.object_]  # arrays of mpf: numpy's matrix products are quicker than mpmath's


def weights(
    W1: Matrix,
    W2: Matrix,
    sigma_yx: Matrix,
    t: Any,
    *,
    rates: Sequence[Any] = (1, 1),
    c: Any = 1,
    gamma: Any = 0,
    digits: int = 50,
) -> tuple[MpMatrix, MpMatrix]:
    """(W1, W2) at time t, for Σxx = c·I, layer rates and weight decay; any start, balanced or not."""
    with mp.workdps(digits + 10):
        x, y, sigma = (_rounded(to_mp(M)) for M in (W1, W2, sigma_yx))
        (eta1, eta2), c, gamma = (mp.mpf(eta) for eta in rates), mp.mpf(c), mp.mpf(gamma)
        left = mp.mpf(t)
        while left > 0:
            # Axis 0 counts the powers of time: X, Y for W1, W2 and E for the error.
            X, Y, E = (np.full((digits + 1, *M.shape), mp.zero, dtype=object) for M in (x, y, sigma))
            X[0], Y[0] = x, y
            for k in range(digits):
                E[k] = (sigma if k == 0 else mp.zero) - c * _convolve(Y[: k + 1], X[: k + 1])
                W2tE = _convolve(Y[: k + 1].transpose(0, 2, 1), E[: k + 1])
                EW1t = _convolve(E[: k + 1], X[: k + 1].transpose(0, 2, 1))
                X[k + 1] = eta1 * (W2tE - gamma * X[k]) / (k + 1)
                Y[k + 1] = eta2 * (EW1t - gamma * Y[k]) / (k + 1)
            step = _step([max(_size(X[k]), _size(Y[k])) for k in (-2, -1)], digits, left)
            x, y, left = _horner(X, step), _horner(Y, step), left - step
        return mp.matrix(x.tolist()), mp.matrix(y.tolist())


def gram(W1: Matrix, W2: Matrix, sigma_yx: Matrix, t: Any, **options: Any) -> MpMatrix:
    """QQᵀ(t) with Q = [W1ᵀ; W2]; options as for `weights`."""
    w1, w2 = weights(W1, W2, sigma_yx, t, **options)
    with mp.workdps(options.get("digits", 50)):
        Q = mp.matrix(w1.T.tolist() + w2.tolist())
        return Q * Q.T


def mode_mp(lam: Any, s: Any, a0: Any, t: Any, *, digits: int = 50) -> Any:
    """a(t) of ȧ = √(λ² + 4a²)(s − a), any signs: with r = √(λ² + 4a²), ȧ = r(s − a) and ṙ = 4a(s − a)."""
    # r² − 4a² = λ² may drift by rounding times e^{(|λ| + 2|s|)t}: enough digits for that.
    digits += ceil((abs(lam) + 2 * abs(s)) * t / log(10))
    with mp.workdps(digits + 10):
        s, a, left = mp.mpf(s), mp.mpf(a0), mp.mpf(t)
        r = mp.sqrt(mp.mpf(lam) ** 2 + 4 * a**2)
        while left > 0:
            A, B = [a], [r]
            for k in range(digits):
                A_next = (s * B[k] - mp.fdot(A, B[::-1])) / (k + 1)
                B_next = 4 * (s * A[k] - mp.fdot(A, A[::-1])) / (k + 1)
                A.append(A_next)
                B.append(B_next)
            step = _step([max(abs(A[k]), abs(B[k])) for k in (-2, -1)], digits, left)
            a, r, left = _horner(A, step), _horner(B, step), left - step
        return a


def deep_mode_mp(L: int, s: Any, a0: Any, t: Any, *, digits: int = 50) -> Any:
    """a(t) of ȧ = L a^{2−2/L}(s − a) for a0, s > 0 and L ≥ 2.

    In y = ±ln|a/(s − a)|, growing with time, dt = a^{2/L−1}/(L s) dy is smooth on the whole line.
    """
    if L < 2 or a0 <= 0 or s <= 0:
        raise ValueError(f"it needs L >= 2, s > 0 and a0 > 0; got L = {L}, s = {s}, a0 = {a0}")
    with mp.workdps(digits + 10):
        s, a0, t = mp.mpf(s), mp.mpf(a0), mp.mpf(t)
        if a0 == s or t == 0:
            return a0
        side = mp.sign(s - a0)  # from below or from above

        def a(y: Any) -> Any:
            return s / (1 + side * mp.exp(-y))

        def pace(y: Any) -> Any:
            return a(y) ** (mp.mpf(2) / L - 1) / (L * s)

        y = mp.log(a0 / abs(s - a0))
        missing = t
        for _ in range(200):  # Newton's method; the time still missing is updated by each piece's quadrature
            dy = missing / pace(y)
            pieces = mp.linspace(y, y + dy, 2 + int(abs(dy) / 2))
            missing -= mp.quad(pace, pieces, method="gauss-legendre")
            y += dy
            if abs(dy) < mp.mpf(10) ** (-digits):
                return a(y)
    raise RuntimeError(f"Newton's method did not settle for L = {L}, s = {s}, a0 = {a0}, t = {t}")


def deep_sizes_mp(b0: Sequence[Any], eta: Sequence[Any], s: Any, d: Any, t: Any, *, digits: int = 30) -> list[Any]:
    """The sizes of one mode in all layers at time t, any sizes, rates and signs."""
    with mp.workdps(digits + 10):
        b, s, d, left, L = [mp.mpf(x) for x in b0], mp.mpf(s), mp.mpf(d), mp.mpf(t), len(b0)
        while left > 0:
            B = [[x] for x in b]
            P = [[] for _ in range(L)]  # products of the first layers, and of the last
            Q: list[list[Any]] = [[] for _ in range(L)]
            E: list[Any] = []
            for k in range(digits):
                for i in range(L):
                    P[i].append(mp.mpf(k == 0) if i == 0 else mp.fdot(P[i - 1], B[i - 1][::-1]))
                for i in reversed(range(L)):
                    Q[i].append(mp.mpf(k == 0) if i == L - 1 else mp.fdot(Q[i + 1], B[i + 1][::-1]))
                E.append((s if k == 0 else mp.zero) - d * mp.fdot(P[-1], B[-1][::-1]))
                for i in range(L):
                    others = [mp.fdot(P[i][: j + 1], Q[i][j::-1]) for j in range(k + 1)]
                    B[i].append(mp.mpf(eta[i]) * mp.fdot(others, E[::-1]) / (k + 1))
            step = _step([max(abs(x[k]) for x in B) for k in (-2, -1)], digits, left)
            b, left = [_horner(x, step) for x in B], left - step
        return b


def _rounded(M: MpMatrix) -> MpArray:
    """To the working precision: a start of 400 digits would slow every product down."""
    return np.array([+x for x in M], dtype=object).reshape(M.rows, M.cols)


def _convolve(A: MpArray, B: MpArray) -> MpArray:
    """Σ_j A_j B_{k−j} for the last power k."""
    return np.tensordot(A, B[::-1], axes=((0, 2), (0, 1)))


def _size(M: MpArray) -> Any:
    return max(abs(x) for x in M.ravel())


def _step(last_two: list[Any], order: int, left: Any) -> Any:
    """So long that the last two terms of the series are 10^−order, and no longer than what is left."""
    tol, steps = mp.mpf(10) ** (-order), [left]
    for k, size in zip((order - 1, order), last_two, strict=True):
        if size:
            steps.append((tol / size) ** (mp.one / k))
    return min(steps)


def _horner(coefficients: MpArray | list[Any], step: Any) -> Any:
    total = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total * step + coefficient
    return total
