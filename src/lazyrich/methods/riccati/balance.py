"""Back to the conserved D by the hidden GL(h) action, which leaves the function W2W1 unchanged.

The flow conserves D = W2ᵀW2 − W1W1ᵀ; its numbers do not: a network that has shrunk by orders carries the rounding of
what it was, and an integrated one the error of its steps. With W1 → S W1, W2 → W2 S⁻¹, S = I + X, X symmetric, Newton's
step is the Lyapunov equation

    X(A + B) + (A + B)X = D − D*,     A = W1W1ᵀ,  B = W2ᵀW2,  D* what D should be: λI, or any other.

With Q = [W1ᵀ; W2] = U diag(σ) Vᵀ and J = diag(−I, I), A + B = V diag(σ²) Vᵀ and D = QᵀJQ, so in the basis V

    X_ij = (σ_i σ_j (UᵀJU)_ij − D*_ij) / (σ_i² + σ_j²):

no difference of squares, at most ½ where D* = 0, and small directions are corrected by their own size. Hidden
directions that no weight uses (σ = 0) stay as they are.
"""

from __future__ import annotations

import numpy as np

from lazyrich._typing import Array, Float

_STEPS = 8  # quadratic convergence: two are the rule
_EPS = float(np.finfo(np.float64).eps)


def rebalanced(
    W1: Float[Array, "h in"], W2: Float[Array, "out h"], balance: float | Float[Array, "h h"]
) -> tuple[Float[Array, "h in"], Float[Array, "out h"], float]:
    """Layers with the same product whose D is `balance`, λI or a matrix, and how far theirs was from it.

    >>> W1, W2, departure = rebalanced(np.array([[0.5]]), np.array([[0.5 + 1e-9]]), 0.0)
    >>> f"{departure:.1e}", bool(abs(W2 - W1) < 1e-15)
    ('1.0e-09', True)
    """
    J = np.repeat([-1.0, 1.0], [W1.shape[1], len(W2)])[:, None]
    before = 0.0
    for step in range(_STEPS):
        U, sigma, Vt = np.linalg.svd(np.vstack([W1.T, W2]), full_matrices=False)
        wanted = Vt @ balance @ Vt.T if isinstance(balance, np.ndarray) else balance * np.eye(len(sigma))
        D = sigma[:, None] * (U.T @ (J * U)) * sigma - wanted
        departure = float(np.linalg.norm(D))
        before = before if step else departure
        if departure <= 4 * _EPS * np.sum(sigma**2):
            break
        size = sigma[:, None] ** 2 + sigma**2
        # two directions smaller than rounding of what D should be have no say in it
        own = size > 64 * _EPS * float(np.linalg.norm(wanted, 2))
        X = Vt.T @ np.divide(D, size, out=np.zeros_like(D), where=own) @ Vt
        try:
            W1, W2 = W1 + X @ W1, np.linalg.solve((np.eye(len(X)) + X).T, W2.T).T
        except np.linalg.LinAlgError:  # a direction of vanishing weights, far off λ: it stays as it is
            break
    return W1, W2, before
