"""Kunin, Raventós, Dominé, Chen, Klindt, Saxe and Ganguli 2024, "Get rich quick": one hidden neuron, f(x) = a wᵀx.

Whitened inputs (XᵀX = I), target β* ≠ 0, β = aw, layer rates with η_aη_w = 1, gradient flow

    ȧ = η_a(wᵀβ* − a‖w‖²),     ẇ = η_w(aβ* − a²w),     δ = η_w a² − η_a‖w‖² conserved

upstream δ > 0, balanced δ = 0, downstream δ < 0; μ = a‖w‖, φ = cos∠(w, β*) (appendix A: "Single-neuron linear network").

Corrections to the paper: the balanced μ(t) and its c_μ need the factor ‖β*‖. Its ν, a and ‖w‖ are those of √η_w a and √η_a w: with η ≠ 1,
ν is η_a wᵀβ*/a, and a and ‖w‖ are recovered from μ by dividing by √η_w and √η_a. The equation of ω has ‖β*‖² where ‖β‖² is printed. The basin a0 > 0
of δ ≥ 0 lacks one line: δ = 0 with φ0 = −1, which ends in the saddle. The printed a(t) is right, but real only for |2ν0 + δ| < 2R and δ > 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float

__all__ = [
    "SingleNeuron",
    "a_as_printed",
    "balanced",
    "basin",
    "conserved",
    "downstream_limit",
    "kappa",
    "nu",
    "ntk",
    "preconditioner",
    "single_neuron",
    "upsilon",
    "upstream_limit",
]

_EPS = float(np.finfo(np.float64).eps)


class SingleNeuron(NamedTuple):
    """The trajectory in the paper's variables; ν is infinite where a = 0, φ is NaN where w = 0."""

    a: Float[Array, " T"]
    w: Float[Array, "T d"]
    mu: Float[Array, " T"]
    phi: Float[Array, " T"]
    beta: Float[Array, "T d"]
    nu: Float[Array, " T"]


class _Start(NamedTuple):
    """A start in the units of √η_w a and √η_a w, where both rates are 1; n̂ is the part of w orthogonal to β*."""

    a0: float
    norm_w0: float
    omega0: float  # w0ᵀβ*
    aside0: float  # length of the part of w0 orthogonal to β*
    n: Float[Array, " d"]
    norm: float  # ‖β*‖
    delta: float

    @property
    def R(self) -> float:
        return 0.5 * np.hypot(self.delta, 2 * self.norm)

    @property
    def g(self) -> float:
        """R + δ/2, without cancellation: the rate of growth; g·h = ‖β*‖²."""
        return self.R + self.delta / 2 if self.delta >= 0 else self.norm**2 / self.h

    @property
    def h(self) -> float:
        """R − δ/2, without cancellation."""
        return self.R - self.delta / 2 if self.delta <= 0 else self.norm**2 / self.g

    @property
    def reach(self) -> float:
        """wᵀβ* + ½a(δ + √(δ² + 4‖β*‖²)), whose sign is the basin; 0 where rounding would decide it."""
        reach = self.omega0 + self.a0 * self.g
        return reach if abs(reach) > 8 * _EPS * (self.norm_w0 * self.norm + abs(self.a0) * self.g) else 0.0


def single_neuron(
    a0: float, w0: Any, beta_star: Any, times: Any, eta_a: float = 1.0, eta_w: float = 1.0
) -> SingleNeuron:
    """a(t), w(t), μ, φ, β and ν, by the solution that the sign of δ asks for ("Exact solutions" in appendix A).

    δ = 0: `balanced`. δ ≠ 0 and a keeps its sign: ν(t) from `nu`, then a from its Bernoulli equation ȧ = a(ν + δ − a²), and wᵀβ* = νa.
    δ < 0 and a crosses zero, where ν is infinite: υ = 1/ν from `upsilon`, then ω = wᵀβ* from ω̇ = ω(υ‖β*‖² − υ²ω²), and a = υω.
    Both Bernoulli equations have the same denominator √N, and it is also what shrinks the part of w orthogonal to β* (ẇ⊥ = −a²w⊥), for
    which the paper's c_2 = √(‖w‖² − c_1²) would cancel.

    Any time is safe. Digits are lost where a changes by orders of magnitude: about 1e-16·max|wᵀβ*|/R of a. `lr.solve` loses none.
    """
    start = _start(a0, w0, beta_star, eta_a, eta_w)
    t = _check.as_times(times)
    if start.delta == 0:
        a, omega, aside = _balanced_parts(start, t)
    else:
        a, omega, aside = _unbalanced_parts(start, t)
    beta_hat = _check.as_array("beta_star", beta_star) / start.norm
    w = (omega / start.norm)[:, None] * beta_hat + aside[:, None] * start.n
    norm_w = np.hypot(omega / start.norm, aside)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio, cosine = omega / a, omega / (start.norm * norm_w)
    a, w = a / np.sqrt(eta_w), w / np.sqrt(eta_a)
    return SingleNeuron(a, w, np.sqrt(eta_w * eta_a) * a * norm_w / np.sqrt(eta_a), cosine, a[:, None] * w, ratio)


def balanced(
    times: Any, mu0: float, c_phi: float, norm: float
) -> tuple[Float[Array, " T"], Float[Array, " T"]]:
    """μ(t) and φ(t) for δ = 0, a0 > 0 and −1 < φ0 < 1, with c_φ = atanh φ0 and norm = ‖β*‖.

        φ = tanh(x),   μ = 2‖β*‖cosh²x / (2x + sinh 2x + c_μ),   x = c_φ + ‖β*‖t
        c_μ = 2‖β*‖cosh²(c_φ)/μ0 − (2c_φ + sinh 2c_φ)

    evaluated with numerator and denominator divided by 2cosh²x, so that any time is safe. The paper lacks ‖β*‖ in μ and c_μ, and is right for ‖β*‖ = 1.
    c_μ cancels where μ0 ≫ ‖β*‖. For a0 < 0 change the signs of μ and φ; φ0 = ±1 is the logistic curve.
    """
    x = c_phi + norm * _check.as_times(times)
    c_mu = 2 * norm * np.cosh(c_phi) ** 2 / mu0 - (2 * c_phi + np.sinh(2 * c_phi))
    return norm / (np.tanh(x) + (x + c_mu / 2) * _sech(x) ** 2), np.tanh(x)


def nu(times: Any, nu0: float, delta: float, norm: float) -> Float[Array, " T"]:
    """ν(t) = wᵀβ*/a, the solution of ν̇ = ‖β*‖² − δν − ν², with R = ½√(δ² + 4‖β*‖²) and norm = ‖β*‖.

        ν = [2Rν0 cosh Rt + (2‖β*‖² − δν0) sinh Rt] / [2R cosh Rt + (2ν0 + δ) sinh Rt]

    (divided by cosh). It is infinite where a crosses zero, and where ν0 is the unstable fixed point it runs off it by rounding.
    """
    R = 0.5 * np.hypot(delta, 2 * norm)
    tanh = np.tanh(R * _check.as_times(times))
    with np.errstate(divide="ignore"):
        return (2 * R * nu0 + (2 * norm**2 - delta * nu0) * tanh) / (2 * R + (2 * nu0 + delta) * tanh)


def upsilon(times: Any, upsilon0: float, delta: float, norm: float) -> Float[Array, " T"]:
    """υ(t) = a/wᵀβ* = 1/ν, the solution of υ̇ = 1 + δυ − ‖β*‖²υ², which the paper leaves to the reader.

    υ = [2Rυ0 cosh Rt + (2 + δυ0) sinh Rt] / [2R cosh Rt + (2‖β*‖²υ0 − δ) sinh Rt]
    """
    R = 0.5 * np.hypot(delta, 2 * norm)
    tanh = np.tanh(R * _check.as_times(times))
    with np.errstate(divide="ignore"):
        return (2 * R * upsilon0 + (2 + delta * upsilon0) * tanh) / (2 * R + (2 * norm**2 * upsilon0 - delta) * tanh)


def a_as_printed(times: Any, a0: float, b0: float, delta: float, norm: float) -> Float[Array, " T"]:
    """The upstream a(t) as the paper prints it, b0 = w0ᵀβ*, for δ > 0, a0 > 0.

    Y(t) = Rt + atanh((2b0/a0 + δ)/2R) is complex where |2b0/a0 + δ| > 2R, so complex numbers are used throughout; the result is real. It has no value
    where ν0 is a fixed point (β0 = β* among them), and overflows from about Rt = 350. `single_neuron` has a form without these limits.
    """
    delta, t = _check.positive("delta", delta), _check.as_times(times)
    K = np.hypot(delta, 2 * norm)  # 2R
    Y = K * t / 2 + np.arctanh((2 * b0 / a0 + delta) / K + 0j)
    constant = K**2 * (norm**2 * (delta - a0**2) + b0**2) / (b0**2 - a0**2 * norm**2 + a0 * b0 * delta)
    growth = np.exp(delta * t)
    bracket = 4 * growth * norm**2 - constant - delta * growth * (delta * np.cosh(2 * Y) - K * np.sinh(2 * Y))
    return (2 * np.exp(delta * t / 2) * norm * np.sqrt(delta) / np.sqrt(bracket / np.cosh(Y) ** 2)).real


def basin(a0: float, w0: Any, beta_star: Any, eta_a: float = 1.0, eta_w: float = 1.0) -> int:
    """+1: the flow ends with a > 0, −1: with a < 0, 0: in the saddle a = wᵀβ* = 0 ("Basins of attraction").

    The sign of w0ᵀβ* + ½a0(δ + √(δ² + 4‖β*‖²)), in the units where both rates are 1. For δ > 0 it is the sign of a0, as the paper has it;
    for δ = 0 it is that too, except where w0 = −a0β*/‖β*‖, which is the saddle's. Within rounding of the saddle the answer is 0.
    """
    return int(np.sign(_start(a0, w0, beta_star, eta_a, eta_w).reach))


def conserved(a: Any, w: Any, eta_a: float = 1.0, eta_w: float = 1.0) -> float:
    """δ = η_w a² − η_a‖w‖²."""
    return eta_w * _check.number("a", a) ** 2 - eta_a * float(np.sum(_check.as_array("w", w) ** 2))


def kappa(beta: Any, delta: float) -> float:
    """κ = √(δ² + 4‖β‖²), which is η_w a² + η_a‖w‖²."""
    return float(np.hypot(delta, 2 * np.linalg.norm(_check.as_array("beta", beta, ndim=1))))


def preconditioner(beta: Any, delta: float) -> Float[Array, "d d"]:
    """M = (κ+δ)/2 I + (κ−δ)/2 β̂β̂ᵀ: the flow in function space is β̇ = −M∇L, whatever the inputs ("Function space dynamics").

    It stands for η_w a²I + η_a wwᵀ. δ ≫ 0: δI, lazy. δ = 0: ‖β‖(I + β̂β̂ᵀ), rich. δ ≪ 0: |δ|β̂β̂ᵀ, which waits for β to turn. At β = 0 with δ < 0 the
    direction of w is unknown, and M with it.
    """
    beta, delta = _check.as_array("beta", beta, ndim=1), _check.number("delta", delta)
    size, k = float(np.linalg.norm(beta)), kappa(beta, delta)
    if size == 0:
        if delta < 0:
            raise InvalidInput("beta must not be zero where delta is negative: M depends on the direction of w.")
        return delta * np.eye(len(beta))
    larger = (k + abs(delta)) / 2
    smaller = size**2 / larger  # (κ − |δ|)/2, without cancellation
    everywhere, along = (larger, smaller) if delta > 0 else (smaller, larger)
    return everywhere * np.eye(len(beta)) + along * np.outer(beta, beta) / size**2


def ntk(X: Any, beta: Any, delta: float) -> Float[Array, "P P"]:
    """K = XMXᵀ, rows of X are samples: the neural tangent kernel at β."""
    X = _check.as_matrix("X", X, (None, len(_check.as_array("beta", beta, ndim=1))))
    return X @ preconditioner(beta, delta) @ X.T


def upstream_limit(beta0: Any, beta_star: Any, delta: float, times: Any) -> Float[Array, "T d"]:
    """δ → ∞: β(t) = β* + (β0 − β*)e^{−δt}, linear regression at rate δ. The error is of order ‖β‖²/δ²."""
    beta0, beta_star = _check.as_array("beta0", beta0, ndim=1), _check.as_array("beta_star", beta_star, ndim=1)
    decay = np.exp(-_check.positive("delta", delta) * _check.as_times(times))
    return beta_star + decay[:, None] * (beta0 - beta_star)


def downstream_limit(beta0: Any, beta_star: Any, delta: float, times: Any) -> Float[Array, "T d"]:
    """δ → −∞: β fits along its own direction at rate |δ|, then turns to β* at rate ‖β*‖²/|δ|: lazy first, rich later.

        φ = φ0 / √(φ0² + (1 − φ0²)e^{−2rt}),  r = ‖β*‖²/|δ|,     μ = φ‖β*‖ + (μ0 − φ0‖β*‖)e^{−|δ|t}

    from φ̇ = rφ(1 − φ²) and μ̇ = |δ|(φ‖β*‖ − μ). The error is of order ‖β‖²/δ² at any time. φ0 = 0 stays at the saddle.
    """
    beta0, beta_star = _check.as_array("beta0", beta0, ndim=1), _check.as_array("beta_star", beta_star, ndim=1)
    size, t = -_check.number("delta", delta), _check.as_times(times)
    if size <= 0:
        raise InvalidInput(f"delta must be below 0, and it is {-size:g}: upstream_limit takes positive ones.")
    start = _start(1.0, beta0, beta_star, 1.0, 1.0)  # only the direction and length of β0 are used
    phi0, sine0 = start.omega0 / (start.norm * start.norm_w0), start.aside0 / start.norm_w0
    fading = np.exp(-start.norm**2 / size * t)
    root = np.hypot(phi0, sine0 * fading)
    phi, sine = phi0 / root, sine0 * fading / root
    mu = phi * start.norm + (start.norm_w0 - phi0 * start.norm) * np.exp(-size * t)
    return (mu * phi)[:, None] * beta_star / start.norm + (mu * sine)[:, None] * start.n


def _start(a0: Any, w0: Any, beta_star: Any, eta_a: float, eta_w: float) -> _Start:
    a0, w0 = _check.number("a0", a0), _check.as_array("w0", w0, ndim=1)
    beta_star = _check.as_array("beta_star", beta_star, ndim=1)
    eta_a, eta_w = _check.positive("eta_a", eta_a), _check.positive("eta_w", eta_w)
    if len(w0) != len(beta_star):
        raise InvalidInput(f"beta_star must have as many entries as w0 ({len(w0)}), and it has {len(beta_star)}.")
    norm = float(np.linalg.norm(beta_star))
    if norm == 0:
        raise InvalidInput("beta_star must not be zero: the paper's solutions divide by its length; lr.solve takes it.")
    if abs(eta_a * eta_w - 1) > 1e-12:
        rate = np.sqrt(eta_a * eta_w)
        raise InvalidInput(
            f"eta_a·eta_w must be 1, and it is {rate**2:g}: both divided by {rate:g}, and times multiplied by it, is the same flow."
        )
    a0, w0 = np.sqrt(eta_w) * a0, np.sqrt(eta_a) * w0
    omega0 = float(w0 @ beta_star)
    aside = w0 - omega0 / norm**2 * beta_star
    aside -= aside @ beta_star / norm**2 * beta_star  # once more: a small remainder is not orthogonal otherwise
    length, norm_w0 = float(np.linalg.norm(aside)), float(np.linalg.norm(w0))
    if length <= 4 * _EPS * norm_w0:
        length = 0.0
    if a0 == 0 and abs(omega0) <= 4 * _EPS * norm_w0 * norm:
        raise InvalidInput("a0 and w0ᵀbeta_star are both zero: the start is a saddle point, and nothing moves.")
    delta = a0**2 - norm_w0**2
    if abs(delta) <= 64 * _EPS * (a0**2 + norm_w0**2):  # what lr.Problem calls balanced
        delta = 0.0
    return _Start(a0, norm_w0, omega0, length, aside / length if length else 0 * aside, norm, delta)


def _balanced_parts(start: _Start, t: Array) -> tuple[Array, Array, Array]:
    """a, wᵀβ* and the part of w orthogonal to β*, for δ = 0: |a| = ‖w‖ = √|μ|."""
    sign, mu0 = np.sign(start.a0), abs(start.a0) * start.norm_w0
    if start.aside0 > 0:
        c_phi = np.arcsinh(sign * start.omega0 / (start.norm * start.aside0))  # atanh φ0, also near φ0 = ±1
        mu, phi = balanced(t, mu0, c_phi, start.norm)
        sine = _sech(c_phi + start.norm * t)
    else:  # φ0 = ±1 stays, and μ is a logistic curve; φ0 = −1 is driven to the saddle
        phi, sine = np.full(len(t), sign * np.sign(start.omega0)), np.zeros(len(t))
        E = np.exp(-2 * start.norm * t)
        mu = start.norm / (1 + (start.norm / mu0 - 1) * E) if phi[0] > 0 else start.norm * E / (start.norm / mu0 + 1 - E)
    return sign * np.sqrt(mu), sign * np.sqrt(mu) * phi * start.norm, np.sqrt(mu) * sine


def _unbalanced_parts(start: _Start, t: Array) -> tuple[Array, Array, Array]:
    """The same for δ ≠ 0, by ν where a keeps its sign and by υ = 1/ν where it does not."""
    a0, omega0, delta, R, g, h = start.a0, start.omega0, start.delta, start.R, start.g, start.h
    # a√N e^{−δt/2} = a0 cosh Rt + (2ω0 + δa0)/2R sinh Rt = ½(plus e^{Rt} + minus e^{−Rt}), and likewise for ω
    plus, minus = start.reach / R, (a0 * h - omega0) / R
    if plus == 0:  # the separatrix: ν stays, a fades at rate h
        root_N = np.sqrt(1 - minus**2 * np.expm1(-2 * h * t) / (4 * h))
        a = a0 * np.exp(-h * t) / root_N
        return a, -g * a, start.aside0 / root_N
    faded = np.exp(-2 * R * t)
    scaled_root_N = _scaled_root_N(start, plus, minus, t)
    if a0 * plus > 0:
        a = 0.5 * (plus + minus * faded) / scaled_root_N
        omega = nu(t, omega0 / a0, delta, start.norm) * a
    else:
        omega = 0.5 * (h * plus - g * minus * faded) / scaled_root_N
        a = upsilon(t, a0 / omega0, delta, start.norm) * omega
    return a, omega, start.aside0 * np.exp(-g * t) / scaled_root_N


def _scaled_root_N(start: _Start, plus: float, minus: float, t: Array) -> Array:
    """e^{−gt}√N, with N = 1 + 2∫(a√N)² of the solution of the Bernoulli equation ȧ = a(ν + δ − a²)."""
    R, g, h, size = start.R, start.g, start.h, abs(start.delta)
    N = (
        np.exp(-2 * g * t)
        - plus**2 * np.expm1(-2 * g * t) / (4 * g)
        - plus * minus * np.exp(-2 * min(g, R) * t) * np.expm1(-size * t) / size
        - minus**2 * np.exp(-2 * g * t) * np.expm1(-2 * h * t) / (4 * h)
    )
    return np.sqrt(N)


def _sech(x: Any) -> Any:
    """1/cosh, which does not overflow."""
    faded = np.exp(-np.abs(x))
    return 2 * faded / (1 + faded**2)
