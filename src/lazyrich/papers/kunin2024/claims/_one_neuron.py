"""One hidden neuron f(x) = a wᵀx by brute force: its loss, slopes, tangents and flow, and random starts of every δ.

Nothing here is a formula of the paper. Sums over samples, as there: L = ½‖Xaw − y‖², and XᵀX = I where inputs are
white.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.oracles import gradient, layers
from lazyrich.papers.base.types import Rng, Row, Values

_STEP = 1e-30  # of a complex step: its square vanishes beside any number


@dataclass(frozen=True)
class Neuron:
    """Weights a and w, data X (rows are samples) and y, layer rates."""

    a: float
    w: Array
    X: Array
    y: Array
    eta_a: float = 1.0
    eta_w: float = 1.0

    @property
    def beta(self) -> Array:
        return self.a * self.w

    @property
    def delta(self) -> float:
        return float(self.eta_w * self.a**2 - self.eta_a * self.w @ self.w)

    @property
    def beta_star(self) -> Array:
        """The least squares solution, of least norm where there are many."""
        return np.linalg.lstsq(self.X, self.y, rcond=None)[0]

    def loss(self, parameters: Sequence[Array]) -> Values:
        """½‖Xaw − y‖² of [a, w], sample by sample."""
        a, w = parameters
        return sum((x @ (a * w) - target) ** 2 for x, target in zip(self.X, self.y, strict=True)) / 2

    def velocity(self) -> tuple[float, Array]:
        """ȧ and ẇ: minus rate times slope of the loss, which is differentiated by a complex step."""
        slope_a, slope_w = gradient(self.loss, [self.a, self.w])
        return -self.eta_a * float(slope_a), -self.eta_w * slope_w

    def rate(self, quantity: Callable[[Values, Array], Values]) -> Values:
        """How fast an analytic function of a and w changes along the flow."""
        da, dw = self.velocity()
        return np.imag(quantity(self.a + _STEP * 1j * da, self.w + _STEP * 1j * dw)) / _STEP

    def tangents(self, quantity: Callable[[Values, Array], Values]) -> Array:
        """Σ_θ η_θ (∂/∂θ quantity)(∂/∂θ quantity)ᵀ over all weights θ: M for β, and the kernel K for the predictions."""
        along_a = np.imag(quantity(self.a + _STEP * 1j, self.w)) / _STEP
        steps = _STEP * 1j * np.eye(len(self.w))
        along_w = np.array([np.imag(quantity(self.a, self.w + step)) / _STEP for step in steps])
        return self.eta_a * np.outer(along_a, along_a) + self.eta_w * along_w.T @ along_w

    @property
    def M(self) -> Array:
        return self.tangents(lambda a, w: a * w)

    def path(self, times: Row) -> tuple[Array, Array]:
        """a (T,) and w (T, d), integrated."""
        start = [self.w[None], np.array([[self.a]])]
        W1, W2 = layers(start, [self.X.T @ self.y], times, self.X.T @ self.X, rates=(self.eta_w, self.eta_a))
        return W2[:, 0, 0], W1[:, 0]

    def at(self, a: float, w: Array) -> Neuron:
        """The same problem elsewhere."""
        return Neuron(float(a), w, self.X, self.y, self.eta_a, self.eta_w)


def size(v: Array) -> Values:
    """‖v‖ along the last axis, analytic."""
    return np.sqrt(np.sum(v * v, axis=-1))


def cosine(w: Array, beta_star: Array) -> Values:
    """φ, analytic in w."""
    return w @ beta_star / (size(w) * size(beta_star))


def mu_and_phi(a: Values, w: Array, beta_star: Array) -> Array:
    """μ = a‖w‖ and φ = cos(w, β*)."""
    return np.array([a * size(w), cosine(w, beta_star)])


def unit_vector(rng: Rng, d: int) -> Array:
    v = rng.normal(size=d)
    return v / size(v)


def drawn_delta(rng: Rng, sign: int | None = None) -> float:
    """δ of a given sign, or of any, zero included."""
    return float((rng.integers(-1, 2) if sign is None else sign) * rng.uniform(0.2, 2.0))


def drawn_rates(rng: Rng, rates: str) -> tuple[float, float]:
    """η_a and η_w: both 1, of product 1, or any."""
    eta_a, eta_w = np.exp(rng.uniform(-0.8, 0.8, size=2))
    return {"unit": (1.0, 1.0), "product one": (float(eta_a), float(1 / eta_a)), "any": (float(eta_a), float(eta_w))}[
        rates
    ]


def weights(rng: Rng, beta0: Array, delta: float, eta_a: float = 1.0, eta_w: float = 1.0) -> tuple[float, Array]:
    """a of either sign and w with aw = β0 and η_w a² − η_a‖w‖² = δ: by the root of a quadratic in a²."""
    a_squared = max(np.roots([eta_w, -delta, float(-eta_a * beta0 @ beta0)]).real)
    a = rng.choice([-1.0, 1.0]) * np.sqrt(a_squared)
    return float(a), beta0 / a


def drawn(
    rng: Rng,
    *,
    sign: int | None = None,
    d: int | None = None,
    white: bool = True,
    rates: str = "product one",
    positive: bool = False,
) -> Neuron:
    """A start of δ of the given sign (any: None), with white inputs or others, and ‖β*‖ between 0.6 and 2."""
    d = int(rng.integers(2, 5)) if d is None else d
    eta_a, eta_w = drawn_rates(rng, rates)
    X = draws.orthogonal(rng, d + 2, d)
    X = X if white else X @ np.diag(rng.uniform(0.8, 1.5, size=d)) @ draws.orthogonal(rng, d)
    y = X @ (rng.uniform(0.6, 2.0) * unit_vector(rng, d)) + 0.3 * rng.normal(size=d + 2)
    delta, small = drawn_delta(rng, sign), rng.uniform(0.2, 1.2)
    a, w = np.sqrt(small**2 + max(delta, 0.0)), np.sqrt(small**2 + max(-delta, 0.0))
    signed = 1.0 if positive else rng.choice([-1.0, 1.0])
    return Neuron(float(signed * a / np.sqrt(eta_w)), w / np.sqrt(eta_a) * unit_vector(rng, d), X, y, eta_a, eta_w)


def underdetermined(rng: Rng, *, sign: int | None = None, free: int | None = None) -> Neuron:
    """Fewer samples than inputs, with β0 on the side of the targets, so that β does not pass through zero."""
    free = int(rng.integers(1, 3)) if free is None else free
    n = int(rng.integers(1, 3))
    eta_a, eta_w = drawn_rates(rng, "product one")
    X = draws.orthogonal(rng, n + free)[:n] * rng.uniform(0.9, 1.3, size=(n, 1))
    beta_star = X.T @ rng.uniform(0.5, 1.5, size=n)
    y = X @ beta_star
    kernel = np.linalg.svd(X)[2][n:]
    beta0 = rng.uniform(0.2, 0.8) * beta_star + kernel.T @ rng.normal(size=free)
    a, w = weights(rng, beta0, drawn_delta(rng, sign), eta_a, eta_w)
    return Neuron(a, w, X, y, eta_a, eta_w)
