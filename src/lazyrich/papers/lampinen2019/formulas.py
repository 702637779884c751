"""What noise makes of a teacher of low rank, to the letter (theory: section 14), and the test error of regression.

Σ̂yx = Σ_α s_α u_αv_αᵀ + noise with entries of variance 1/N_in, in the limit of large N_in and N_out = A·N_in: the
setting is N_in samples of white inputs and noise of variance 1. Above the threshold s = A^{1/4} a mode comes out as

    ŝ = √((1 + s²)(A + s²))/s,   (ûᵀu)² = 1 − A(1 + s²)/(s²(s² + A)),   (v̂ᵀv)² = 1 − (A + s²)/(s²(1 + s²))

and below it in nothing but noise, whose singular values reach from |1 − √A| to 1 + √A. Plain functions of numbers or
arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "edge",
    "inflated",
    "input_overlap",
    "interpolation",
    "output_overlap",
    "test_error",
    "threshold",
    "wanted",
]


def threshold(A: float) -> float:
    """The strength below which a mode leaves no trace.

    >>> threshold(16.0)
    2.0
    """
    return float(A**0.25)


def edge(A: float) -> float:
    """The largest singular value of the noise alone.

    >>> edge(4.0)
    3.0
    """
    return float(1 + np.sqrt(A))


def inflated(s: Any, A: float) -> Any:
    """ŝ: the singular value that a mode of strength s comes out with.

    >>> inflated(np.array([0.5, 2.0]), 1.0)
    array([2. , 2.5])
    """
    s = np.asarray(s, dtype=float)
    seen = s > threshold(A)
    safe = np.where(seen, s, 1.0)
    return np.where(seen, np.sqrt((1 + safe**2) * (A + safe**2)) / safe, edge(A))


def output_overlap(s: Any, A: float) -> Any:
    """(ûᵀu)² of a mode's output vector with the one that comes out.

    >>> output_overlap(np.array([0.5, 2.0]), 1.0)
    array([0.  , 0.75])
    """
    s = np.asarray(s, dtype=float)
    seen = s > threshold(A)
    safe = np.where(seen, s, 1.0)
    return np.where(seen, 1 - A * (1 + safe**2) / (safe**2 * (safe**2 + A)), 0.0)


def input_overlap(s: Any, A: float) -> Any:
    """(v̂ᵀv)² of a mode's input vector with the one that comes out.

    >>> input_overlap(np.array([0.5, 2.0]), 1.0)
    array([0.  , 0.75])
    """
    s = np.asarray(s, dtype=float)
    seen = s > threshold(A)
    safe = np.where(seen, s, 1.0)
    return np.where(seen, 1 - (A + safe**2) / (safe**2 * (1 + safe**2)), 0.0)


def wanted(s: Any, A: float) -> Any:
    """b = ûᵀTv̂: what the teacher has of a mode that comes out, and the strength at which it does most good.

    >>> wanted(np.array([0.5, 2.0]), 1.0)
    array([0. , 1.5])
    """
    return np.asarray(s, dtype=float) * np.sqrt(output_overlap(s, A) * input_overlap(s, A))


def test_error(a: Any, b: Any, size: float) -> Any:
    """‖W − T‖² = ‖T‖² + Σ_α (a_α² − 2a_αb_α) of a network whose modes are those of Σ̂yx, in the last axis; size is ‖T‖.

    >>> test_error(np.array([[0.0, 0.0], [1.5, 0.5]]), np.array([1.5, 0.0]), 2.0)
    array([4., 2.])
    """
    a = np.asarray(a, dtype=float)
    return size**2 + np.sum(a**2 - 2 * a * np.asarray(b), axis=-1)


def interpolation(samples: int, inputs: int, signal: float, noise: float) -> float:
    """Mean ‖W − T‖² of the map of least norm that fits P samples best, white Gaussian inputs, one output.

    N inputs, ‖T‖² = signal, noise of variance `noise`. P < N − 1: signal·(1 − P/N) + noise·P/(N − P − 1); P > N + 1:
    noise·N/(P − N − 1); between, there is no mean. Exact at any size (Advani, Saxe, Sompolinsky 2020 have the limit).

    >>> interpolation(5, 10, 1.0, 0.8), interpolation(21, 10, 1.0, 0.8)
    (1.5, 0.8)
    """
    P, N = samples, inputs
    if P < N - 1:
        return signal * (1 - P / N) + noise * P / (N - P - 1)
    if P > N + 1:
        return noise * N / (P - N - 1)
    return float(np.inf)
