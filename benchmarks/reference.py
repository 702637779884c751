"""A reference for large problems that shares nothing with the library: whole-number arithmetic of hundreds
of digits.

The task is built so that its singular vectors are known exactly: Σyx = H diag(s) Hᵀ / n (and a zero
column), with H a Hadamard matrix and s in whole multiples of 2⁻¹². Then e^{Ft} is known from scalars, and

    QQᵀ(t) = e^{Ft} Q0 [I + Q0ᵀ G Q0]⁻¹ Q0ᵀ e^{Ft}

needs one linear system, solved here in fixed point with Python's integers.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np
from scipy.linalg import hadamard

__all__ = ["even_task", "function"]


def even_task(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Σyx (n × n+1) with singular values evenly spaced from 1 to 0.2, and those values."""
    s = np.round(np.linspace(1.0, 0.2, n) * 4096) / 4096
    H = hadamard(n).astype(float)
    return np.hstack([(H * s) @ H.T / n, np.zeros((n, 1))]), s


def function(W1: np.ndarray, W2: np.ndarray, s: np.ndarray, t: float) -> np.ndarray:
    """W2W1(t) from a start whose hidden width is at most n, correctly rounded to float64."""
    n, h = len(s), len(W1)
    bits = int(400 + 8 * t * s.max())
    mp.mp.prec = bits
    one = 1 << bits
    H = hadamard(n).astype(object)
    root = int(mp.nint(one / mp.sqrt(2 * n)))  # 1/√(2n): pairs (v, ±u)/√2 of vectors H/√n

    def fixed(M: np.ndarray) -> np.ndarray:
        return np.vectorize(lambda x: int(mp.nint(mp.mpf(float(x)) * one)), otypes=[object])(M)

    def times(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return A.dot(B) >> bits

    def scaled(values: list[mp.mpf], M: np.ndarray) -> np.ndarray:
        return np.array([int(mp.nint(x * one)) for x in values], dtype=object)[:, None] * M >> bits

    first, second = fixed(W1.T), fixed(W2)  # (n+1, h) and (n, h)
    v, u = H.T.dot(first[:n]), H.T.dot(second)
    plus, minus, alone = (v + u) * root >> bits, (v - u) * root >> bits, first[n:]
    w = [mp.mpf(float(x)) for x in s]
    A = times(plus.T, scaled([mp.expm1(2 * x * t) / (2 * x) for x in w], plus))
    A += times(minus.T, scaled([mp.expm1(-2 * x * t) / (-2 * x) for x in w], minus))
    A += times(alone.T, scaled([mp.mpf(t)], alone))
    A[np.diag_indices(h)] += one
    grown, faded = scaled([mp.exp(x * t) for x in w], plus), scaled([mp.exp(-x * t) for x in w], minus)
    inputs = np.vstack([H.dot(grown + faded) * root >> bits, alone])
    outputs = H.dot(grown - faded) * root >> bits
    W = times(outputs, _solve(A, inputs.T, bits))
    return np.vectorize(lambda x: float(mp.mpf(int(x)) / one))(W).astype(float)


def _solve(A: np.ndarray, B: np.ndarray, bits: int) -> np.ndarray:
    """A⁻¹B by Gauss elimination; A is symmetric positive definite, so no pivots are needed."""
    M, n = np.hstack([A, B]), len(A)
    for i in range(n - 1):
        factors = (M[i + 1 :, i] << bits) // M[i, i]
        M[i + 1 :, i:] -= np.outer(factors, M[i, i:]) >> bits
    X = M[:, n:]
    for i in range(n - 1, -1, -1):
        X[i] = (X[i] << bits) // M[i, i]
        X[:i] -= np.outer(M[:i, i], X[i]) >> bits
    return X
