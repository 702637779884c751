"""Cholesky factors of stacks of matrices and the inverses of these, without the interpreter's lock.

SciPy's own wrappers hold the lock, so that threads would wait for each other. SciPy offers the bare routines to compiled
code (`scipy.linalg.cython_lapack`), and ctypes lets go of the lock while it calls them. They see a matrix in C order as
its transpose: what is said here is said of the matrices as NumPy has them.

A triangular solve by BLAS takes four to six times as long as a product of that size (AVX-512, 32 to 256 columns). So R is
inverted, by products alone, from its diagonal blocks, which all matrices of the stack do together.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from scipy.linalg import cython_lapack

from lazyrich._typing import Array, Float

_LEAF = 8  # columns: diagonal blocks that are inverted row by row
_SMALL = 48  # columns: below, NumPy's loop over the stack is faster than one call for each matrix


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
    W[:] = 0.0
    k = R.shape[1]
    whole = k - k % _LEAF
    _invert_diagonal_blocks(R, W, range(0, whole, _LEAF), _LEAF)
    _invert_diagonal_blocks(R, W, range(whole, k, _LEAF), k - whole)

    def below(first: int, last: int) -> None:
        half = first + -(-(last - first) // (2 * _LEAF)) * _LEAF
        if half >= last:
            return
        below(first, half), below(half, last)
        part = R[:, half:last, first:half] @ W[:, first:half, first:half]
        np.negative(part, out=part)
        np.matmul(W[:, half:last, half:last], part, out=W[:, half:last, first:half])

    below(0, k)


def _invert_diagonal_blocks(R: Float[Array, "b k k"], W: Float[Array, "b k k"], starts: range, size: int) -> None:
    """Row by row, w_i = (e_i − Σ_j<i r_ij w_j)/r_ii, for all blocks of all matrices at once: they stand last."""
    if not starts:
        return
    r = np.stack([R[:, i : i + size, i : i + size] for i in starts], axis=-1)
    r = np.ascontiguousarray(r.transpose(1, 2, 3, 0))  # row, column, block, matrix
    w = np.zeros_like(r)
    for i in range(size):
        w[i, i] = 1 / r[i, i]
        if i:
            np.sum(r[i, :i, None] * w[:i, :i], axis=0, out=w[i, :i])
            w[i, :i] *= -w[i, i]
    for b, i in enumerate(starts):
        W[:, i : i + size, i : i + size] = w[:, :, b].transpose(2, 0, 1)
