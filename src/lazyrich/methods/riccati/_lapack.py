"""Cholesky factors of stacks of matrices and the inverses of these, without the interpreter's lock.

SciPy's own wrappers hold the lock, so that threads would wait for each other. SciPy offers the bare routines to
compiled code (`scipy.linalg.cython_lapack`), and ctypes lets go of the lock while it calls them. They see a matrix in C
order as its transpose: what is said here is said of the matrices as NumPy has them.

A triangular solve by BLAS takes three to six times as long as a product with such a triangle (AVX-512, 32 to 256
columns). So R is inverted, by products alone, from its diagonal blocks, which all matrices of the stack do together.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from scipy.linalg import cython_lapack

from lazyrich._typing import Array, Float

_LEAF = 8  # columns: diagonal blocks that are inverted row by row
_SMALL = 24  # columns: below, NumPy's loop over the stack is faster than one call for each matrix


def _routine(module: Any, name: str, arguments: int) -> Any:
    """A routine whose arguments are all addresses, as in Fortran."""
    capsule, api = module.__pyx_capi__[name], ctypes.pythonapi
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    address_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(address_in(capsule, name_of(capsule)))


_dpotrf = _routine(cython_lapack, "dpotrf", 5)


class NoFactor(ArithmeticError):
    """The matrix at this place in the stack is not positive definite."""

    def __init__(self, place: int) -> None:
        super().__init__(f"matrix {place} is not positive definite")
        self.place = place


def factor(A: Float[Array, "b k k"]) -> Float[Array, "b k k"]:
    """R in the lower triangle, A = RRᵀ; what else there is has no meaning. A may be overwritten."""
    if A.shape[1] < _SMALL:
        try:
            return np.linalg.cholesky(A)
        except np.linalg.LinAlgError:
            pass  # it does not say which
    assert A.dtype == np.float64 and A.flags.c_contiguous
    first, step = A.__array_interface__["data"][0], A.strides[0]
    k, info = ctypes.byref(ctypes.c_int(A.shape[1])), ctypes.c_int(0)
    told = ctypes.byref(info)
    for i in range(len(A)):
        _dpotrf(b"U", k, first + i * step, k, told)
        if info.value:
            raise NoFactor(i)
    return A


def invert(R: Float[Array, "b k k"], W: Float[Array, "b k k"]) -> None:
    """W ← R^{−1}, with R in the lower triangle: in blocks [R11 0; R21 R22], W21 = −W22 R21 W11."""
    k = R.shape[1]
    whole = k - k % _LEAF
    W[:] = 0.0
    if whole:
        _diagonal_blocks(W[:, :whole, :whole])[:] = _inverses(_diagonal_blocks(R[:, :whole, :whole]))
    if whole < k:
        W[:, whole:, whole:].transpose(1, 2, 0)[:] = _inverses(R[:, whole:, whole:].transpose(1, 2, 0))

    def below(first: int, last: int) -> None:
        half = first + -(-(last - first) // (2 * _LEAF)) * _LEAF
        if half >= last:
            return
        below(first, half)
        below(half, last)
        part = R[:, half:last, first:half] @ W[:, first:half, first:half]
        np.negative(part, out=part)
        np.matmul(W[:, half:last, half:last], part, out=W[:, half:last, first:half])

    below(0, k)


def _diagonal_blocks(M: Float[Array, "b k k"]) -> Float[Array, "leaf leaf blocks b"]:
    """A view: row, column, block, matrix."""
    blocks = M.shape[1] // _LEAF
    return np.einsum("bicid->cdib", M.reshape(len(M), blocks, _LEAF, blocks, _LEAF))


def _inverses(R: Float[Array, "c c *stack"]) -> Float[Array, "c c *stack"]:
    """Row by row, w_i = (e_i − Σ_j<i r_ij w_j)/r_ii, with R in the lower triangle; the matrices stand last."""
    R, own = R.copy(), np.arange(len(R))
    W = np.zeros_like(R)
    W[own, own] = 1 / R[own, own]
    R *= -W[own, own, None]
    for i in range(1, len(R)):
        np.add.reduce(R[i, :i, None] * W[:i, :i], axis=0, out=W[i, :i])
    return W
