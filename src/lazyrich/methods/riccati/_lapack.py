"""Cholesky factors and triangular solves of stacks of matrices, in place and without the interpreter's lock.

SciPy's own wrappers hold the lock, so that threads would wait for each other, and NumPy has no triangular solve. SciPy
offers the bare routines to compiled code (`scipy.linalg.cython_blas`), and ctypes lets go of the lock while it calls
them. They see a matrix in C order as its transpose: what is said here is said of the matrices as NumPy has them.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

from lazyrich._typing import Array, Float


def _routine(module: Any, name: str, arguments: int) -> Any:
    """A routine whose arguments are all addresses, as in Fortran."""
    capsule, api = module.__pyx_capi__[name], ctypes.pythonapi
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    address_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(address_in(capsule, name_of(capsule)))


_dpotrf, _dtrsm = _routine(cython_lapack, "dpotrf", 5), _routine(cython_blas, "dtrsm", 11)
_ONE = ctypes.byref(ctypes.c_double(1.0))


def factor(A: Float[Array, "b k k"]) -> int | None:
    """A ← R in its lower triangle, A = RRᵀ; the index of the first matrix that has no such factor, if there is one."""
    k, info = _int(A.shape[1]), ctypes.c_int(0)
    for i, a in enumerate(_addresses(A)):
        _dpotrf(b"U", k, a, k, ctypes.byref(info))
        if info.value:
            return i
    return None


def divide(Y: Float[Array, "b r k"], R: Float[Array, "b k k"]) -> None:
    """Y ← Y R^{−T}, with R in the lower triangle."""
    k, rows = _int(Y.shape[2]), _int(Y.shape[1])
    for y, r in zip(_addresses(Y), _addresses(R), strict=True):
        _dtrsm(b"L", b"U", b"T", b"N", k, rows, _ONE, r, k, y, k)


def _addresses(stack: Float[Array, "b r c"]) -> range:
    """Where its matrices begin, each of which is in C order."""
    assert stack.dtype == np.float64 and stack[0].flags.c_contiguous
    first, step = stack.__array_interface__["data"][0], stack.strides[0]
    return range(first, first + step * len(stack), step)


def _int(value: int) -> Any:
    return ctypes.byref(ctypes.c_int(value))
