"""The graded evaluation of the two-layer closed form over many times at once (theory: section 1).

With w⁺ = max(w, 0), ĝ_i = (1 − e^{−2|w_i|t}) / 2|w_i| (t where w_i = 0), and for column j the values at its
pivot row:

    x_j  = e^{−2(w_j⁺t + ln l_jj)},   μ_j = (x_j + ĝ_j)^{−1/2}
    E_ij = (l_ij/l_jj) e^{(w_i⁺ − w_j⁺)t} μ_j        exponents are never positive
    X    = √ĝ_i E_ij,   Y = e^{min(w_i,0)t} E_ij
    A    = XᵀX + diag(x_j μ_j²)                      conditioned by the initialisation alone, not by t
    QQᵀ  = (OY) A⁻¹ (OY)ᵀ

Every step is bounded at every t; l_jj stands in an exponent, so that weights whose squares underflow grow as they
should (μ_j = l_jj m_j of the theory sheet). Only the array API is used, so the same lines serve NumPy, JAX, PyTorch
and CuPy arrays on any device; they are analytic in t, so a complex t gives the time derivative
(`Trajectory.certificate`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_jax_namespace

from lazyrich._engines import LAPACK_LOCK
from lazyrich._typing import Array
from lazyrich.methods.riccati.grading import Graded

FLOOR = -92.0
CEILING = 690.0  # e^690 ≈ 1e300: what has grown to less than 1e-150 has no square
TINY = float(np.exp(FLOOR))
_CHUNK = 4_000_000  # numbers per temporary array: bounds memory, whatever the number of times


class Evaluation:
    """The constants of a graded initialisation as arrays of the namespace `xp`, ready to be evaluated."""

    def __init__(self, graded: Graded, scale: Array, xp: Any = np, **creation: Any) -> None:
        """`scale` multiplies the rows of Q (units of the layers); `creation` is dtype and device for the
        arrays."""
        F, piv = graded.spectrum, graded.pivots
        w, w_plus = F.w, np.maximum(F.w, 0.0)

        def make(array: Array) -> Any:
            return xp.asarray(np.ascontiguousarray(array), **creation)

        self.xp, self.d_in, self.size = xp, len(F.V), graded.L.size
        self.O = make(scale[:, None] * F.to_coordinates(np.eye(len(w))))
        self.ratio = make(graded.L / graded.pivot_lengths)
        self.log_l = make(np.log(graded.pivot_lengths))
        self.exponent = make(F.rate_differences(piv))
        self.w_column = make(w_plus[piv])
        self.w_below = make(np.minimum(w, 0.0))
        self.w_abs = make(np.abs(w))
        self.w_safe = make(np.where(w == 0, 1.0, np.abs(w)))
        self.resting = make((w == 0).astype(float))
        self.pivots = xp.asarray(piv, device=creation.get("device"))
        self.identity = make(np.eye(len(piv)))

    def factors(self, t: Any) -> tuple[Any, Any]:
        """Y (T, n, k) and A (T, k, k) at the times `t` (T,)."""
        xp, t = self.xp, t[:, None]
        x = xp.exp(self._capped(-2 * (self.w_column * t + self.log_l)))
        g = self.resting * t - (1 - self.resting) * xp.expm1(-2 * self.w_abs * t) / (2 * self.w_safe)
        mu = (x + xp.take(g, self.pivots, axis=1)) ** -0.5
        E = self.ratio * self._exp(self.exponent * t[:, :, None]) * mu[:, None, :]
        X = xp.sqrt(g)[:, :, None] * E
        A = xp.matrix_transpose(X) @ X + self.identity * (x * mu**2)[:, None, :]
        return self._exp(self.w_below * t)[:, :, None] * E, A

    def __call__(self, t: Any, block: str) -> Any:
        """ "gram" (T, n, n), or "function" (T, d_out, d_in): its lower left block alone."""
        rows, columns = blocks(block, self.d_in)
        step = max(1, _CHUNK // max(self.size, 1))

        def piece(i: int) -> Any:
            Y, A = self.factors(t[i : min(i + step, t.shape[0])])
            Y = self.O @ Y
            return Y[:, rows, :] @ self._solve(A, self.xp.matrix_transpose(Y[:, columns, :]))

        if self.xp is not np or t.shape[0] <= step:
            return self.xp.concat([piece(i) for i in range(0, t.shape[0], step)], axis=0)
        n = range(len(self.O))
        result = np.empty((len(t), len(n[rows]), len(n[columns])), dtype=np.result_type(t, float))
        for i in range(0, len(t), step):  # in its place: a list of pieces would take the memory twice
            result[i : i + step] = piece(i)
        return result

    def _exp(self, x: Any) -> Any:
        """e^x for x ≤ 0, and 0 below 1e-40: nothing smaller shows, and its products would be slow subnormal numbers."""
        if self.xp.isdtype(x.dtype, "complex floating"):
            return self.xp.exp(x)
        return self.xp.exp(self.xp.clip(x, min=FLOOR)) - TINY

    def _capped(self, x: Any) -> Any:
        """The exponent, no larger than e can be raised to and squared."""
        if self.xp.isdtype(x.dtype, "complex floating"):
            return self.xp.where(self.xp.real(x) > CEILING, CEILING, x)
        return self.xp.clip(x, max=CEILING)

    def _solve(self, A: Any, right: Any) -> Any:
        """A⁻¹·right. On the CPU, JAX deadlocks when two LAPACK calls meet: one at a time, and finished
        before the next."""
        if not is_jax_namespace(self.xp):
            return self.xp.linalg.solve(A, right)
        with LAPACK_LOCK:
            return self.xp.linalg.solve(A, right).block_until_ready()

    def rows(self, t: float) -> Array:
        """P(t) = OᵀQ(t) up to a rotation of the hidden units, Y R^{−T} with A = RRᵀ; NumPy only."""
        Y, A = self.factors(np.array([t]))
        return np.asarray(np.linalg.solve(np.linalg.cholesky(A[0]), Y[0].T).T)


def blocks(block: str, d_in: int) -> tuple[slice, slice]:
    """Rows and columns of QQᵀ that hold the block asked for."""
    return {"gram": (slice(None), slice(None)), "function": (slice(d_in, None), slice(0, d_in))}[block]
