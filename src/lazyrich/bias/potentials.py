"""Potentials: what the flow in function space is a mirror flow of, and so what it keeps small at interpolation.

Where M(β) of `function_space` is radial, M = p(‖β‖)I + r(‖β‖)β̂β̂ᵀ, there is a potential Ψ(β) = q(‖β‖) and a change of
clock g > 0 with ∇²Ψ = g M⁻¹ (Kunin et al. 2024, Theorems 1 and 15, time-warped mirror flow). Then d/dt ∇Ψ(β) = −g∇L
stays in the span of the inputs. In the weights, ∇Ψ is plain to see:

- one hidden neuron: ∇Ψ_δ = √2 sgn(a) w and g = √2|a|, with Ψ_δ = ⅓(κ − 2δ)√(κ + δ), κ = √(δ² + 4‖β‖²), any δ;
- L hidden layers, isotropic: ∇Ψ = ‖a‖β̂ and g = (‖a‖² − δ)^{L/2}. For δ = 0 (Theorem 15)
  Ψ = (L+1)/(L+2) ‖β‖^{(L+2)/(L+1)}. For δ < 0, with square width and x = ‖a‖² of Lemma 13,
  Ψ = √x‖β‖ − [(x − δ)^{L/2+1} − |δ|^{L/2+1}]/(L+2): the paper stops at δ → 0, and this follows from its Lemmas.

All potentials here vanish at zero (the paper's Ψ_δ does for δ ≤ 0), and are written without cancellation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.bias.function_space import squared_output_norm


class Profile(NamedTuple):
    """A function of one number: its value, and first and second derivative."""

    value: Any
    slope: Any
    curvature: Any


@dataclass(frozen=True)
class RadialPotential:
    """Ψ(β) = q(‖β‖); `profile` gives q, q′ and q″ at a number not below zero."""

    profile: Callable[[float], Profile]

    def value(self, beta: object) -> float:
        """Ψ(β)."""
        return float(self.profile(_split(beta)[0]).value)

    def gradient(self, beta: object) -> Float[Array, " in"]:
        """∇Ψ = q′β̂."""
        size, direction = _split(beta)
        slope = self.profile(size).slope
        if size == 0 and slope:
            raise InvalidInput("beta must not be zero: this potential has no gradient there.")
        return slope * direction

    def hessian(self, beta: object) -> Float[Array, "in in"]:
        """∇²Ψ = q′/‖β‖ (I − β̂β̂ᵀ) + q″β̂β̂ᵀ."""
        size, direction = _split(beta)
        _, slope, along = self.profile(size)
        if size == 0 and (slope or not np.isfinite(along)):
            raise InvalidInput("beta must not be zero: this potential has no second derivative there.")
        across = slope / size if size else along
        return across * np.eye(len(direction)) + (along - across) * np.outer(direction, direction)


def single_neuron_potential(delta: float) -> RadialPotential:
    """Ψ_δ = ⅓(κ − 2δ)√(κ + δ), less its value at zero, κ = √(δ² + 4‖β‖²): one hidden neuron (Theorem 1).

    q′ = √(κ − δ) = √2‖w‖ and q″ = √(κ + δ)/κ. For δ ≫ 0 it is ‖β‖²/√(2δ), for δ ≪ 0 it is √(2|δ|)‖β‖, which has a kink
    at zero. ψ_δ = q′(‖β0‖): the solution reached minimises Ψ_δ(β) − ψ_δβ̂0ᵀβ.

    >>> single_neuron_potential(0.0).gradient([0.0, 2.0])
    array([0., 2.])
    """
    delta = _check.number("delta", delta)
    size_delta = abs(delta)

    def profile(size: float) -> Profile:
        kappa = np.hypot(delta, 2 * size)
        large = (kappa + size_delta) / 2
        small = size * (size / large) if large else 0.0  # large and small are a² and ‖w‖², or the other way round
        a, w = np.sqrt([large, small] if delta > 0 else [small, large])
        if delta > 0:
            d = np.sqrt(delta)
            value = np.sqrt(2) / 3 * small / (a + d) * (2 * small + delta + 2 * a * d)
        else:
            value = np.sqrt(2) / 3 * (2 * small + 3 * size_delta) * a
        return Profile(value, np.sqrt(2) * w, np.sqrt(2) * a / kappa if kappa else np.inf)

    return RadialPotential(profile)


def deep_potential(hidden_layers: int, delta: float = 0.0) -> RadialPotential:
    """Ψ of L isotropic hidden layers with δ ≤ 0; δ = 0: (L+1)/(L+2) ‖β‖^{(L+2)/(L+1)} (Theorem 15).

    q′ = ‖a‖, so that the paper's Q(β) is Ψ(β) − ‖a0‖β̂0ᵀβ.

    >>> deep_potential(hidden_layers=2).gradient([0.0, 8.0])
    array([0., 2.])
    """
    squared_output_norm(1.0, hidden_layers, delta)  # for its checks
    L, gap = hidden_layers, -float(delta)

    def profile(size: float) -> Profile:
        x = squared_output_norm(size, L, delta)
        g, root = x + gap, np.sqrt(x)
        if gap == 0:
            value = (L + 1) / (L + 2) * size * root
        else:  # (g^{L/2+1} − gap^{L/2+1}) by its relative growth, which may be small
            value = root * size - gap ** (L / 2 + 1) * np.expm1((L / 2 + 1) * np.log1p(x / gap)) / (L + 2)
        return Profile(value, root, g ** (1 - L / 2) / (g + L * x) if g else np.inf)

    return RadialPotential(profile)


def _split(beta: object) -> tuple[float, Float[Array, " in"]]:
    """‖β‖ and β̂ (zero at zero)."""
    beta = _check.as_array("beta", beta, ndim=1)
    size = float(np.linalg.norm(beta))
    return size, beta / size if size else beta
