"""The neural tangent kernel of a linear network, without ever forming it (theory: section 4).

Each layer adds one Kronecker product, K = Σ_ℓ η_ℓ B_ℓ ⊗ XᵀA_ℓX, with B_ℓ the Gram matrix of the layers
after ℓ and A_ℓ that of the layers before. Inner products of kernels then need traces of small matrices
only:

    ⟨K, K'⟩ = Σ_{ℓ,ℓ'} η_ℓ η_ℓ' tr(B_ℓ B'_ℓ') tr(Σxx A_ℓ Σxx A'_ℓ')

(up to the square of the number of samples, which cancels in every ratio).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.problem import Problem

__all__ = ["Kernel", "inner", "kernel_change", "kernel_distance", "kernel_of_gram", "kernel_of_weights"]


class Kernel(NamedTuple):
    """The Kronecker factors of a kernel: per layer B_ℓ (times its rate) and Σxx A_ℓ."""

    after: list[Float[Array, "out out"]]
    before: list[Float[Array, "in in"]]


def kernel_of_weights(problem: Problem, weights: Sequence[Any]) -> Kernel:
    """The kernel of a linear network of any depth."""
    L, task = len(weights), problem.task
    after, before = [np.eye(task.d_out)], [np.eye(task.d_in)]
    for W in weights[:0:-1]:
        after.insert(0, after[0] @ W)
    for W in weights[:-1]:
        before.append(W @ before[-1])
    return Kernel(
        [problem.rates[i] * after[i] @ after[i].T for i in range(L)],
        [task.sigma_xx @ (before[i].T @ before[i]) for i in range(L)],
    )


def kernel_of_gram(problem: Problem, gram: Float[Array, "n n"]) -> Kernel:
    """The kernel of a two-layer linear network from QQᵀ."""
    d_in, d_out, xx = problem.task.d_in, problem.task.d_out, problem.task.sigma_xx
    return Kernel(
        [problem.rates[0] * gram[d_in:, d_in:], problem.rates[1] * np.eye(d_out)],
        [xx, xx @ gram[:d_in, :d_in]],
    )


def inner(K: Kernel, other: Kernel) -> float:
    """⟨K, K'⟩, up to the square of the number of samples."""
    return float(
        sum(
            np.sum(B * B2.T) * np.sum(A * A2.T)
            for B, A in zip(K.after, K.before, strict=True)
            for B2, A2 in zip(other.after, other.before, strict=True)
        )
    )


def kernel_distance(K: Kernel, other: Kernel) -> float:
    """S = 1 − ⟨K, K'⟩/(‖K‖‖K'‖): how far the kernel has turned, between 0 and 1."""
    size = np.sqrt(inner(K, K) * inner(other, other))
    return float(max(1 - inner(K, other) / size, 0.0)) if size else 0.0


def kernel_change(K: Kernel, other: Kernel) -> float:
    """‖K − K'‖; below 1e-8 of ‖K‖ it is rounding."""
    return float(np.sqrt(max(inner(K, K) + inner(other, other) - 2 * inner(K, other), 0.0)))
