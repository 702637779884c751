"""The published formula for QQᵀ(t), Theorem 3.1 of Braun et al. 2022, straight in NumPy: what the exact solution is
measured against. All times at once, no checks; zero-balanced layers, white inputs, full rank, B not singular.
"""

from __future__ import annotations

import numpy as np

__all__ = ["gram"]


def gram(W1: np.ndarray, W2: np.ndarray, sigma_yx: np.ndarray, times: np.ndarray) -> np.ndarray:
    """QQᵀ (T, n, n) by eqs 11 and 12, with e = e^{−S̃t}."""
    m = min(sigma_yx.shape)
    U, S, Vt = np.linalg.svd(W2 @ W1, full_matrices=False)
    U_full, S_tilde, Vt_full = np.linalg.svd(sigma_yx)
    U, S, V, U_tilde, V_tilde = U[:, :m], S[:m], Vt[:m].T, U_full[:, :m], Vt_full[:m].T
    U_perp, V_perp = U_full[:, m:], Vt_full[m:].T
    B, C = U.T @ U_tilde + V.T @ V_tilde, U.T @ U_tilde - V.T @ V_tilde
    Bi, I, t = np.linalg.inv(B), np.eye(m), times[:, None, None]
    row = np.exp(-S_tilde * t)  # e from the right scales columns, e from the left scales rows
    column = np.swapaxes(row, 1, 2)
    risen = -np.expm1(-2 * S_tilde * t) / S_tilde  # the diagonal of (I − e²)S̃⁻¹
    unseen = V.T @ V_perp @ V_perp.T @ V + U.T @ U_perp @ U_perp.T @ U
    bracket = (
        4 * column * ((Bi / S) @ Bi.T) * row
        + risen * I
        + column * ((Bi @ C * risen) @ (Bi @ C).T) * row
        + 4 * t * column * (Bi @ unseen @ Bi.T) * row
    )
    turned = column * (C.T @ Bi.T) * row
    Z = np.concatenate(
        [
            V_tilde @ (I - turned) + 2 * (V_perp @ V_perp.T @ V @ Bi.T) * row,
            U_tilde @ (I + turned) + 2 * (U_perp @ U_perp.T @ U @ Bi.T) * row,
        ],
        axis=1,
    )
    return Z @ np.linalg.solve(bracket, np.swapaxes(Z, 1, 2))
