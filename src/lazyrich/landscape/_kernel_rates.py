"""The rates at which the tangent kernel of a two-layer linear network fits a residual, and functions of them.

On R with inputs in the basis where Σxx = diag(d), the kernel acts as R ↦ B R diag(d) + R A with A = v1ᵀv1, B = v2v2ᵀ:
along an eigenvector of B with eigenvalue b, a row of R is multiplied by H_b = b·diag(d) + A. `of` decides how functions
of these are computed: by all eigenvectors of each H_b, which are the same for all b where inputs are white; or, where
that would take too long, by Lanczos iteration from the row itself, whose cost is that of a few dozen products with v1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from lazyrich._threads import one_blas_thread
from lazyrich._typing import Array, Float

_MANY = 1e8  # outputs × inputs³, beyond which all eigenvectors take longer than a few seconds
_STEPS = 64  # of the Lanczos iteration
_HELD = 2**24  # numbers of the vectors of the iteration at once

Function = Callable[[Float[Array, "..."]], Float[Array, "..."]]


class KernelRates(ABC):
    """The kernel of v1 and v2, as an operator on residuals."""

    def __init__(self, v1: Float[Array, "h in"], v2: Float[Array, "out h"], variances: Float[Array, " in"]) -> None:
        b, self.U = np.linalg.eigh(v2 @ v2.T)
        self.b, self.v1, self.variances = np.maximum(b, 0.0), v1, variances

    @staticmethod
    def of(v1: Float[Array, "h in"], v2: Float[Array, "out h"], variances: Float[Array, " in"]) -> KernelRates:
        white = bool(np.all(variances == variances[0]))
        few = white or len(v2) * len(variances) ** 3 <= _MANY
        return (_Eigenvectors if few else _Lanczos)(v1, v2, variances)

    @property
    @abstractmethod
    def largest(self) -> float:
        """The rate of what is fitted first."""

    @abstractmethod
    def _on_rows(self, function: Function, rows: Float[Array, "out in"]) -> Float[Array, "out in"]:
        """The function of H_b on the row of each b."""

    def apply(self, function: Function, R: Float[Array, "out in"]) -> Float[Array, "out in"]:
        """A function of the rates, on a residual."""
        return self.U @ self._on_rows(function, self.U.T @ R)


class _Eigenvectors(KernelRates):
    def __init__(self, v1: Float[Array, "h in"], v2: Float[Array, "out h"], variances: Float[Array, " in"]) -> None:
        super().__init__(v1, v2, variances)
        A = v1.T @ v1
        if np.all(variances == variances[0]):
            a, V = np.linalg.eigh(A)
            self.rates, self.V = variances[0] * self.b[:, None] + np.maximum(a, 0.0), V[None]
        else:
            rates, self.V = np.linalg.eigh(self.b[:, None, None] * np.diag(variances) + A)
            self.rates = np.maximum(rates, 0.0)

    @property
    def largest(self) -> float:
        return float(self.rates.max())

    def _on_rows(self, function: Function, rows: Float[Array, "out in"]) -> Float[Array, "out in"]:
        turned = (rows[:, None, :] @ self.V)[:, 0] * function(self.rates)
        return np.asarray((turned[:, None, :] @ self.V.mT)[:, 0])


class _Lanczos(KernelRates):
    @property
    @one_blas_thread()
    def largest(self) -> float:
        """That of the largest b."""
        start = np.random.default_rng(0).normal(size=(1, len(self.variances)))
        return float(self._ritz(start, self.b[-1:])[0].max())

    @one_blas_thread()  # many small products
    def _on_rows(self, function: Function, rows: Float[Array, "out in"]) -> Float[Array, "out in"]:
        result = np.zeros_like(rows)
        step = max(1, _HELD // (_STEPS * rows.shape[1]))
        for first in range(0, len(rows), step):
            some = slice(first, first + step)
            values, Y, Q, norms = self._ritz(rows[some], self.b[some])
            weights = norms[:, None] * (Y @ (function(np.maximum(values, 0.0)) * Y[:, 0])[..., None])[..., 0]
            result[some] = (weights[:, None] @ Q)[:, 0]
        return result

    def _ritz(
        self, rows: Float[Array, "n in"], b: Float[Array, " n"]
    ) -> tuple[Float[Array, "n k"], Float[Array, "n k k"], Float[Array, "n k in"], Float[Array, " n"]]:
        """Ritz values and vectors of each H_b in the Krylov space of its row; a space that ends goes on with zeros."""
        norms = np.linalg.norm(rows, axis=1)
        steps = min(_STEPS, rows.shape[1])
        Q, T = np.zeros((len(rows), steps, rows.shape[1])), np.zeros((len(rows), steps, steps))
        Q[:, 0] = rows / np.where(norms > 0, norms, 1.0)[:, None]
        for k in range(steps):
            last, before = Q[:, k], Q[:, : k + 1]
            new = b[:, None] * last * self.variances + last @ self.v1.T @ self.v1
            T[:, k, k] = np.sum(new * last, axis=1)
            size = np.linalg.norm(new, axis=1)
            for _ in range(2):  # once leaves the rounding of what was taken off
                new = new - ((new[:, None] @ before.mT) @ before)[:, 0]
            beta = np.linalg.norm(new, axis=1)
            beta[beta <= 1e-12 * size] = 0.0
            if k + 1 < steps:
                T[:, k, k + 1] = T[:, k + 1, k] = beta
                Q[:, k + 1] = new / np.where(beta > 0, beta, np.inf)[:, None]
        return *np.linalg.eigh(T), Q, norms
