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

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_jax_namespace

from lazyrich._engines import LAPACK_LOCK
from lazyrich._typing import Array
from lazyrich.methods.riccati.grading import Graded

FLOOR = -92.0
CEILING = 690.0  # e^690 ≈ 1e300: what has grown to less than 1e-150 has no square
TINY = float(np.exp(FLOOR))
_CHUNK = 4_000_000  # numbers per temporary array: bounds memory, whatever the number of times


class Constants(NamedTuple):
    """What a graded initialisation brings to every time, as arrays of one library; or a stack of them, whose axis comes
    first and is of length 1 where all share a constant."""

    O: Any
    ratio: Any
    log_l: Any
    exponent: Any
    w_column: Any
    w_below: Any
    w_abs: Any
    w_safe: Any
    resting: Any
    identity: Any
    pivots: Any


def constants_of(graded: Graded, scale: Array, make: Callable[[Array], Any]) -> Constants:
    """`scale` multiplies the rows of Q (units of the layers), `make` makes an array of the library."""
    F, piv, l = graded.spectrum, graded.pivots, graded.pivot_lengths
    w, w_plus = F.w, np.maximum(F.w, 0.0)
    arrays = Constants(
        O=scale[:, None] * F.vectors(),
        ratio=graded.L / l[..., None, :],
        log_l=np.log(l),
        exponent=F.rate_differences(piv),
        w_column=w_plus[..., piv],
        w_below=np.minimum(w, 0.0),
        w_abs=np.abs(w),
        w_safe=np.where(w == 0, 1.0, np.abs(w)),
        resting=(w == 0).astype(float),
        identity=np.eye(len(piv)),
        pivots=piv,
    )
    return Constants(*(make(np.ascontiguousarray(array)) for array in arrays))


def factors(xp: Any, c: Constants, t: Any) -> tuple[Any, Any]:
    """Y (…, T, n, k) and A (…, T, k, k) at the times `t` (…, T)."""
    t = t[..., None]
    x = xp.exp(_capped(xp, -2 * (c.w_column[..., None, :] * t + c.log_l[..., None, :])))
    resting, w_abs, w_safe = c.resting[..., None, :], c.w_abs[..., None, :], c.w_safe[..., None, :]
    g = resting * t - (1 - resting) * xp.expm1(-2 * w_abs * t) / (2 * w_safe)
    mu = (x + xp.take(g, c.pivots, axis=-1)) ** -0.5
    E = c.ratio[..., None, :, :] * _exp(xp, c.exponent[..., None, :, :] * t[..., None]) * mu[..., None, :]
    X = xp.sqrt(g)[..., None] * E
    A = xp.matrix_transpose(X) @ X + c.identity * (x * mu**2)[..., None, :]
    return _exp(xp, c.w_below[..., None, :] * t)[..., None] * E, A


def block_of(xp: Any, c: Constants, t: Any, block: str, d_in: int) -> Any:
    """Gram matrix or function at the times; the solve is LAPACK's, whose arrays are one matrix each."""
    rows, columns = blocks(block, d_in)
    Y, A = factors(xp, c, t)
    Y = c.O[..., None, :, :] @ Y
    return Y[..., rows, :] @ xp.linalg.solve(A, xp.matrix_transpose(Y[..., columns, :]))


def block_by_elimination(xp: Any, c: Constants, t: Any, block: str, d_in: int) -> Any:
    """The same without LAPACK, for few columns: A = RRᵀ and Z = Y R^{−T} column by column, in long loops over points,
    which a compiler makes one of."""
    rows, columns = blocks(block, d_in)
    Y, A = factors(xp, c, t)
    M, k = xp.concat([A, Y], axis=-2), A.shape[-1]
    done: list[Any] = []
    for j in range(k):
        column = M[..., j]
        for before in done:
            column = column - before * before[..., j : j + 1]
        done.append(column / xp.sqrt(column[..., j : j + 1]))
    Q = c.O[..., None, :, :] @ xp.stack([column[..., k:] for column in done], axis=-1)
    return Q[..., rows, :] @ xp.matrix_transpose(Q[..., columns, :])


class Evaluation:
    """One graded initialisation, ready to be evaluated with arrays of the namespace `xp`."""

    def __init__(self, graded: Graded, scale: Array, xp: Any = np, **creation: Any) -> None:
        """`scale` multiplies the rows of Q (units of the layers); `creation` is dtype and device for the
        arrays."""
        self.xp, self.d_in, self.size = xp, len(graded.spectrum.V), graded.L.size

        def make(array: Array) -> Any:
            whole = array.dtype.kind == "i"
            return xp.asarray(array, **({"device": creation.get("device")} if whole else creation))

        self.constants = constants_of(graded, scale, make)
        self.O = self.constants.O

    def factors(self, t: Any) -> tuple[Any, Any]:
        """Y (T, n, k) and A (T, k, k) at the times `t` (T,)."""
        return factors(self.xp, self.constants, t)

    def __call__(self, t: Any, block: str) -> Any:
        """ "gram" (T, n, n), or "function" (T, d_out, d_in): its lower left block alone."""
        rows, columns = blocks(block, self.d_in)
        step = max(1, _CHUNK // max(self.size, 1))

        def piece(i: int) -> Any:
            some = t[i : min(i + step, t.shape[0])]
            if not is_jax_namespace(self.xp):
                return block_of(self.xp, self.constants, some, block, self.d_in)
            with LAPACK_LOCK:  # on the CPU, JAX deadlocks when two LAPACK calls meet: finished before the next
                return block_of(self.xp, self.constants, some, block, self.d_in).block_until_ready()

        if self.xp is not np or t.shape[0] <= step:
            return self.xp.concat([piece(i) for i in range(0, t.shape[0], step)], axis=0)
        n = range(len(self.O))
        result = np.empty((len(t), len(n[rows]), len(n[columns])), dtype=np.result_type(t, float))
        for i in range(0, len(t), step):  # in its place: a list of pieces would take the memory twice
            result[i : i + step] = piece(i)
        return result

    def rows(self, t: float) -> Array:
        """P(t) = OᵀQ(t) up to a rotation of the hidden units, Y R^{−T} with A = RRᵀ; NumPy only."""
        Y, A = self.factors(np.array([t]))
        return np.asarray(np.linalg.solve(np.linalg.cholesky(A[0]), Y[0].T).T)


def blocks(block: str, d_in: int) -> tuple[slice, slice]:
    """Rows and columns of QQᵀ that hold the block asked for."""
    return {"gram": (slice(None), slice(None)), "function": (slice(d_in, None), slice(0, d_in))}[block]


def _exp(xp: Any, x: Any) -> Any:
    """e^x for x ≤ 0, and 0 below 1e-40: nothing smaller shows, and its products would be slow subnormal numbers."""
    if xp.isdtype(x.dtype, "complex floating"):
        return xp.exp(x)
    return xp.exp(xp.clip(x, min=FLOOR)) - TINY


def _capped(xp: Any, x: Any) -> Any:
    """The exponent, no larger than e can be raised to and squared."""
    if xp.isdtype(x.dtype, "complex floating"):
        return xp.where(xp.real(x) > CEILING, CEILING, x)
    return xp.clip(x, max=CEILING)
