"""Wide linear networks: M from the neurons' parts of W (Theorem 2), and singular values as a mirror flow (Theorem 11).

A neuron's part of W is β_k = a_kw_kᵀ, and δ_k = η_1‖a_k‖² − η_2‖w_k‖² is conserved. From an isotropic initialisation
singular values follow the mirror flow of Σ q_δ(σ_i), q_δ the hyperbolic entropy. It says nothing about the solution
reached, since the singular vectors move too.
"""

from __future__ import annotations

import numpy as np

from lazyrich import InvalidInput, _check
from lazyrich._typing import Array, Float
from lazyrich.bias.function_space import Preconditioner
from lazyrich.bias.potentials import Profile
from lazyrich.inits.balanced import layer_factors


def wide_preconditioner(betas: object, deltas: object, rates: object = None) -> Preconditioner:
    """M = Σ_k M_k from the neurons' parts β_k of W, `betas` (h, d_out, d_in), and their δ_k (Theorem 2).

        A_out = Σ_k (κ_k + δ_k)/2 β_kβ_kᵀ/‖β_k‖²,   A_in = Σ_k (κ_k − δ_k)/2 β_kᵀβ_k/‖β_k‖²
        κ_k = √(δ_k² + 4η_1η_2‖β_k‖²)

    A neuron with β_k = 0 adds nothing if δ_k = 0; otherwise the direction of its weights is not known.

    >>> import numpy as np
    >>> W1, W2 = np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([[3.0, 1.0]])
    >>> betas = np.einsum("ok,ki->koi", W2, W1)
    >>> wide_preconditioner(betas, [4.0, 0.0]).inputs.round(12)
    array([[1., 2.],
           [2., 5.]])
    """
    betas, deltas = _check.as_array("betas", betas), _check.as_array("deltas", deltas, ndim=1)
    if betas.ndim != 3 or len(betas) != len(deltas):
        raise InvalidInput(
            f"betas must have shape (h, d_out, d_in) with one of the {len(deltas)} deltas for each of h neurons,"
            f" and it has shape {betas.shape}."
        )
    gain = np.sqrt(np.prod(_check.as_rates(rates, 2)))
    U, s, Vt = np.linalg.svd(betas, full_matrices=False)
    if np.any(s[:, 1:] > 1e-8 * s[:, :1]):
        raise InvalidInput("betas must each have rank one, as what one neuron adds to W has, and one of them has not.")
    unknown = np.flatnonzero((s[:, 0] == 0) & (deltas != 0))
    if unknown.size:
        raise InvalidInput(
            f"betas[{unknown[0]}] must not be zero where its delta is {deltas[unknown[0]]:g}: the direction of the"
            " neuron's weights would be unknown."
        )
    c1, c2 = layer_factors(gain * s[:, 0], deltas)
    a, w = c2[:, None] * U[:, :, 0], c1[:, None] * Vt[:, 0]
    return Preconditioner(a.T @ a, w.T @ w)


def hyperbolic_entropy(x: object, delta: float) -> Profile:
    """q_δ(x) = ¼(2x asinh(2x/|δ|) − √(4x² + δ²) + |δ|), its slope ½ asinh(2x/|δ|) and curvature 1/√(4x² + δ²), δ ≠ 0.

    x²/(2|δ|) for |δ| ≫ x, like the ℓ2 norm; ½x ln(1/|δ|) for |δ| ≪ x, like the ℓ1 norm.

    >>> hyperbolic_entropy([0.0, 3.0], -8.0).curvature
    array([0.125, 0.1  ])
    """
    x, size = _check.as_array("x", x), abs(_check.number("delta", delta))
    if size == 0:
        raise InvalidInput("delta must not be zero: the hyperbolic entropy grows beyond bounds as it vanishes.")
    u = 2 * x / size
    value = size / 4 * (u * np.arcsinh(u) - u * (u / (1 + np.hypot(1, u))))
    return Profile(value[()], (np.arcsinh(u) / 2)[()], (1 / np.hypot(size, 2 * x))[()])


def spectral_potential(W: object, delta: float) -> float:
    """Φ_δ = Σ q_δ(σ_i) over the singular values of W: they follow σ̇ = −(∇²Φ_δ)⁻¹ ∂L/∂σ (Theorem 11).

    Two layers, Δ = δI with δ ≠ 0, and h ≥ min(d_in, d_out).

    >>> round(spectral_potential([[3.0, 0.0], [0.0, 0.0]], -8.0), 12)
    0.53972077084
    """
    return float(np.sum(hyperbolic_entropy(np.linalg.svd(_check.as_matrix("W", W), compute_uv=False), delta).value))


def spectral_gradient(W: object, delta: float) -> Float[Array, "out in"]:
    """∇Φ_δ(W) = U diag(q_δ′(σ)) Vᵀ.

    >>> spectral_gradient([[3.0, 0.0], [0.0, 0.0]], -8.0).round(12)
    array([[0.34657359, 0.        ],
           [0.        , 0.        ]])
    """
    U, s, Vt = np.linalg.svd(_check.as_matrix("W", W), full_matrices=False)
    return (U * hyperbolic_entropy(s, delta).slope) @ Vt
