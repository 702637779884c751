"""The flow of the function alone, and the networks on which it is exact, to the letter (theory: section 11).

    Ȧ = √(AAᵀ + c²) E + E √(AᵀA + c²),     P = √(AᵀA + c²) + δ/2,     R = √(AAᵀ + c²) − δ/2

A = W2W1, P = W1ᵀW1, R = W2W2ᵀ, E = −∂L/∂A. And of a mode by itself, with p, r and a the entries of P, R and A in it:

    ȧ = 2√(a² + c²) (s − a),     c² = ((p + r)/2)² − a²

Plain functions of arrays, by eigenvectors; nothing is evaluated with care.
"""

from __future__ import annotations

import numpy as np

from lazyrich._typing import Array, Float

__all__ = ["blocks", "constant", "mode_velocity", "network", "root", "velocity"]


def root(S: Float[Array, "n n"], c: float) -> Float[Array, "n n"]:
    """√(S + c²) of a symmetric S ≥ 0.

    >>> root(np.array([[9.0]]), 4.0)
    array([[5.]])
    """
    values, vectors = np.linalg.eigh(S)
    return (vectors * np.sqrt(np.maximum(values, 0.0) + c**2)) @ vectors.T


def blocks(A: Float[Array, "out in"], c: float, delta: float) -> tuple[Float[Array, "in in"], Float[Array, "out out"]]:
    """P and R of the family, from the function.

    >>> P, R = blocks(np.array([[3.0]]), 4.0, 2.0)
    >>> P, R
    (array([[6.]]), array([[4.]]))
    """
    d_out, d_in = A.shape
    return root(A.T @ A, c) + delta / 2 * np.eye(d_in), root(A @ A.T, c) - delta / 2 * np.eye(d_out)


def velocity(A: Float[Array, "out in"], E: Float[Array, "out in"], c: float) -> Float[Array, "out in"]:
    """Ȧ on the family: it knows c, and not δ.

    >>> velocity(np.array([[3.0]]), np.array([[0.5]]), 4.0)
    array([[5.]])
    """
    return root(A @ A.T, c) @ E + E @ root(A.T @ A, c)


def constant(a: Float[Array, " m"], p: Float[Array, " m"], r: Float[Array, " m"]) -> Float[Array, " m"]:
    """c of each mode.

    >>> constant(np.array([3.0]), np.array([6.0]), np.array([4.0]))
    array([4.])
    """
    return np.sqrt(((p + r) / 2) ** 2 - a**2)


def mode_velocity(a: Float[Array, " m"], s: Float[Array, " m"], c: Float[Array, " m"]) -> Float[Array, " m"]:
    """ȧ of each mode by itself.

    >>> mode_velocity(np.array([3.0]), np.array([3.5]), np.array([4.0]))
    array([5.])
    """
    return 2 * np.sqrt(a**2 + c**2) * (s - a)


def network(
    A: Float[Array, "out in"], c: float, delta: float, frame: Float[Array, "h n"]
) -> tuple[Float[Array, "h in"], Float[Array, "out h"]]:
    """Layers of the family with this function; `frame` has orthonormal hidden directions, d_in + d_out of them.

    Mode by mode the Gram matrix has the root √(c + δ/2)(cosh φ, sinh φ), √(c − δ/2)(sinh φ, cosh φ), sinh 2φ = s/c.

    >>> W1, W2 = network(np.array([[3.0]]), 4.0, 2.0, np.eye(2))
    >>> (W2 @ W1).round(12), (W1.T @ W1).round(12), (W2 @ W2.T).round(12)
    (array([[3.]]), array([[6.]]), array([[4.]]))
    """
    d_out, d_in = A.shape
    U, s, Vt = np.linalg.svd(A)
    first, second, phi = np.sqrt(c + delta / 2), np.sqrt(c - delta / 2), np.arcsinh(s / c) / 2
    into, out = np.zeros((d_in, d_in + d_out)), np.zeros((d_out, d_in + d_out))
    into[:, :d_in], out[:, d_in:] = first * np.eye(d_in), second * np.eye(d_out)
    m = np.arange(len(s))
    into[m, m], into[m, d_in + m] = first * np.cosh(phi), second * np.sinh(phi)
    out[m, m], out[m, d_in + m] = first * np.sinh(phi), second * np.cosh(phi)
    return frame @ into.T @ Vt, U @ out @ frame.T
