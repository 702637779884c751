"""The tangent model f_0 + J_0 Δθ under gradient flow, by brute force: the Jacobian by complex step, weight by weight,
and scipy's expm on everything at once.

On the samples, with the kernel K of samples × outputs and loss ½w Σ‖y − f‖²:   f(t) = y + expm(−wKt)(f_0 − y).
In the weights, which says what any other input is answered:   Δθ̇ = w η Jᵀ(y − f_0 − JΔθ), an affine system.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import expm

from tests.oracles.jacobian import _outputs, jacobians, kernel


def outputs(weights, rates, inputs, targets, weight, time, slope=1.0):
    """f(t) on the samples, (P, out)."""
    if np.isinf(time):  # by least squares in the weights: K has the squares of what J has, and half of the digits
        return answers(weights, rates, inputs, targets, weight, time, inputs, slope)
    K = weight * kernel(weights, inputs, rates, slope)
    first, y = _first(weights, inputs, slope), targets.T.ravel()
    return (y + expm(-K * time) @ (first - y)).reshape(targets.shape[::-1]).T


def answers(weights, rates, inputs, targets, weight, time, elsewhere, slope=1.0):
    """f(t) at other inputs, by way of the weights, (P', out)."""
    root = np.concatenate([np.full(np.size(W), np.sqrt(eta)) for W, eta in zip(weights, rates, strict=True)])
    J = np.hstack(jacobians(weights, inputs, slope)) * root  # of θ/√η, whose rates are 1
    missing = targets.T.ravel() - _first(weights, inputs, slope)
    if np.isinf(time):
        moved = np.linalg.lstsq(J, missing, rcond=1e-11)[0]
    else:
        p = J.shape[1]
        affine = np.zeros((p + 1, p + 1))
        affine[:p, :p], affine[:p, p] = -weight * J.T @ J, weight * J.T @ missing
        moved = expm(affine * time)[:p, p]
    f = _first(weights, elsewhere, slope) + (np.hstack(jacobians(weights, elsewhere, slope)) * root) @ moved
    return f.reshape(-1, len(elsewhere)).T


def _first(weights, inputs, slope):
    return _outputs([np.asarray(W, dtype=complex) for W in weights], np.asarray(inputs), slope).real.ravel()
