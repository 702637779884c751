"""Section 1: the loss, and what the data enter it through."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyrich.claims.ledger import NotChecked, claim
from lazyrich.claims.oracles import correlations, relative_error

NOT_CHECKED = (
    NotChecked(
        "notes",
        "References",
        "Gidel et al. 2019 is arXiv 1905.13118, and Even et al. 2023 is arXiv 2302.00522.",
        "A matter of looking up, not of computing: they are 1904.13262 and 2302.08982.",
    ),
)


def mean_squared_loss(W: Any, X: Any, Y: Any) -> float:
    """(1/2n) Σ‖y − Wx‖², sample by sample."""
    return sum(float((y - W @ x) @ (y - W @ x)) for x, y in zip(X, Y, strict=True)) / (2 * len(X))


def distance_to_target(W: Any, X: Any, Y: Any) -> float:
    """½ tr (W − T) Σxx (W − T)ᵀ with T = Σyx Σxx⁻¹, as printed."""
    sigma_yx, sigma_xx = correlations(X, Y)
    rest = W - sigma_yx @ np.linalg.inv(sigma_xx)
    return float(np.trace(rest @ sigma_xx @ rest.T)) / 2


def unexplained(X: Any, Y: Any) -> float:
    """½ tr(Σyy − T Σxx Tᵀ): what no linear map of the inputs explains."""
    (sigma_yx, sigma_xx), (sigma_yy, _) = correlations(X, Y), correlations(Y, Y)
    T = sigma_yx @ np.linalg.inv(sigma_xx)
    return float(np.trace(sigma_yy - T @ sigma_xx @ T.T)) / 2


def drawn(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    return rng.normal(size=(2, 3)), rng.normal(size=(12, 3)) * [0.5, 1.0, 2.0], rng.normal(size=(12, 2))


@claim(
    "notes/loss-identity",
    place="Section 1.1",
    statement="The squared loss is half the distance of W = W_L…W_1 from the regression target T, weighted by the "
    "inputs.",
    formula=r"\frac{1}{2n}\sum_\mu \|y_\mu - W x_\mu\|^2 = \tfrac12 \|W - T\|_{\Sigma_{xx}}^2,"
    r"\qquad T = \Sigma_{yx}\Sigma_{xx}^{-1}",
    conditions="Any data with Σxx of full rank.",
    tolerance=1e-12,
)
def loss_identity(rng: np.random.Generator) -> float:
    W, X, Y = drawn(rng)
    return relative_error(distance_to_target(W, X, Y), mean_squared_loss(W, X, Y))


@loss_identity.corrected(
    "The part of the targets that no linear map explains is missing; it matters when losses are compared with data.",
    formula=r"\frac{1}{2n}\sum_\mu \|y_\mu - W x_\mu\|^2 = \tfrac12 \|W - T\|_{\Sigma_{xx}}^2"
    r" + \tfrac12 \operatorname{tr}(\Sigma_{yy} - T\Sigma_{xx}T^\top)",
)
def loss_identity_with_its_constant(rng: np.random.Generator) -> float:
    W, X, Y = drawn(rng)
    return relative_error(distance_to_target(W, X, Y) + unexplained(X, Y), mean_squared_loss(W, X, Y))


@loss_identity.counterexample("One input and one output, samples (1, 1) and (1, −1), W = 0: T is 0 too, the loss is ½")
def _() -> tuple[float, float]:
    W, X, Y = np.zeros((1, 1)), np.ones((2, 1)), np.array([[1.0], [-1.0]])
    return distance_to_target(W, X, Y), mean_squared_loss(W, X, Y)
