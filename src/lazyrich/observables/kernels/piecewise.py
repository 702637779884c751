"""The tangent kernel of two layers with a piecewise linear activation between them.

With c = σ'(W1Xᵀ) and Φ = σ(W1Xᵀ), where X holds the samples in rows,

    K^{op} = η_1 XXᵀ ∘ (cᵀ diag(W2_o ∘ W2_p) c) + δ_op η_2 ΦᵀΦ.

These blocks are read some rows at a time; where units are few beside pairs of outputs, kernels are compared unit by
unit instead (`units`). With biases, the constant unit has no weights that move (`networks.biases`): c leaves it out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.observables.kernels.algebra import Comparison, Inputs
from lazyrich.observables.kernels.blocks import KEPT, BlockKernel
from lazyrich.observables.kernels.units import Units

_UNITS = 2  # for each pair of outputs, up to which it is quicker unit by unit


class PiecewiseKernel(BlockKernel):
    """The kernel of two layers with σ(z) = max(z, γz) between them, on samples; σ'(0) = γ.

    >>> import lazyrich as lr
    >>> task = lr.Task.from_data([[1.0, 0.0], [0.0, 2.0]], [[1.0], [1.0]])
    >>> problem = lr.Problem(task, lr.Network([[[1.0, -1.0]], [[3.0]]], activation="relu"))
    >>> lr.observables.kernels(lr.descend(problem, rate=0.1, steps=1))[0].matrix()
    array([[10.,  0.],
           [ 0.,  0.]])
    """

    def __init__(
        self,
        inputs: Inputs,
        W1: Array,
        W2: Array,
        *,
        gamma: float,
        rates: tuple[float, ...],
        trained: int | None = None,
    ) -> None:
        """The first layer has `trained` units with weights that move: with biases, all but the constant one."""
        self.inputs, self.d_out, self.X, self.W2, self.rates = inputs, len(W2), inputs.R, W2[:, :trained], rates
        z = W1 @ self.X.T
        slopes = np.where(z > 0, 1.0, gamma)
        self.c, self.phi = slopes[:trained], slopes * z

    @property
    def trace(self) -> float:
        first = np.sum(self.W2**2, axis=0) @ self.c**2 @ np.sum(self.X**2, axis=1)
        return float(self.rates[0] * first + self.rates[1] * self.d_out * np.sum(self.phi**2))

    @cached_property
    def norm(self) -> float:
        if self._by_units(self):
            return float(np.sqrt(self._units.square))
        return float(np.sqrt(sum(np.vdot(K, K) for K in self._pieces())))

    def inner(self, other: Any) -> float:
        if self._by_units(self._match(other)):
            return float(self._units.compare(other._units).inner)
        return super().inner(other)

    def compare(self, other: Any) -> Comparison:
        if self._by_units(self._match(other)):
            return self._units.compare(other._units)
        return super().compare(other)

    def _apply(self, V: Float[Array, "k out r"]) -> Float[Array, "k out r"]:
        result = np.empty_like(V)
        for i, v in enumerate(V):
            first = self.W2 @ (self.c * ((self.c * (self.W2.T @ v)) @ self.X @ self.X.T))
            result[i] = self.rates[0] * first + self.rates[1] * (v @ self.phi.T) @ self.phi
        return result

    def _blocks(
        self, rows: slice = slice(None), columns: slice = slice(None)
    ) -> Iterator[tuple[int, int, Float[Array, "a b"]]]:
        kept = len(self.X) ** 2 <= KEPT
        first = self.rates[0] * (self.inputs.bare[rows, columns] if kept else self.X[rows] @ self.X[columns].T)
        second = (self.rates[1] * self.phi[:, rows]).T @ self.phi[:, columns]
        for o, p in itertools.combinations_with_replacement(range(self.d_out), 2):
            block = ((self.W2[o] * self.W2[p])[:, None] * self.c[:, rows]).T @ self.c[:, columns]
            block *= first
            yield o, p, block + second if o == p else block

    def _by_units(self, other: PiecewiseKernel) -> bool:
        """Whether to compare them unit by unit: these are few, and as many in both."""
        few = len(self.c) <= _UNITS * self.d_out * (self.d_out + 1) // 2
        return few and self.c.shape == other.c.shape and len(self.X) ** 2 <= KEPT

    @cached_property
    def _units(self) -> Units:
        first, second = np.sqrt(self.rates)
        return Units(self.inputs, self.c, second * self.phi, first * self.W2)
