"""Kunin et al. 2024, "Get rich quick": one hidden neuron, f(x) = a wᵀx, solved in three cases of δ.

Whitened inputs (XᵀX = I), target β* ≠ 0, β = aw, layer rates with η_aη_w = 1, gradient flow

    ȧ = η_a(wᵀβ* − a‖w‖²),     ẇ = η_w(aβ* − a²w),     δ = η_w a² − η_a‖w‖² conserved;

δ > 0 is upstream, δ = 0 balanced, δ < 0 downstream. μ = a‖w‖, φ = wᵀβ*/(‖w‖‖β*‖), ν = wᵀβ*/a. The equations
are those of the appendix "Single-neuron linear network", sections "Exact solutions" and after.

Corrections to the paper. The balanced μ(t) and c_μ need the factor ‖β*‖. ν, a and ‖w‖ are those of √η_w a and
√η_a w: with η ≠ 1, the equation of ν holds for η_a wᵀβ*/a, and a and ‖w‖ as recovered from μ are to be
divided by √η_w and √η_a. The equation of ω has ‖β*‖² where ‖β‖² is printed. The basin a0 > 0 for δ ≥ 0 lacks
the line δ = 0, φ0 = −1, which ends in the saddle. The upstream a(t) is right as printed, but passes through
complex numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lazyrich import InvalidInput, _check
from lazyrich._typing import Array, Float
from lazyrich.bias.function_space import kappa
from lazyrich.bias.function_space import neuron_preconditioner as preconditioner

__all__ = [
    "SingleNeuron",
    "a_as_printed",
    "balanced",
    "basin",
    "conserved",
    "downstream_limit",
    "kappa",
    "ntk",
    "nu",
    "preconditioner",
    "single_neuron",
    "upsilon",
    "upstream_limit",
]

_EPS = float(np.finfo(np.float64).eps)


class SingleNeuron(NamedTuple):
    """The trajectory in the paper's letters; ν = η_a wᵀβ*/a is infinite where a = 0, φ is NaN where w = 0.

    >>> path = single_neuron(0.1, [0.2, 0.0], [1.0, 1.0], [0.0, 50.0])
    >>> path.phi.round(6), path.mu.round(6)
    (array([0.707107, 1.      ]), array([0.02    , 1.414214]))
    """

    a: Float[Array, " T"]
    w: Float[Array, "T d"]
    mu: Float[Array, " T"]
    phi: Float[Array, " T"]
    beta: Float[Array, "T d"]
    nu: Float[Array, " T"]


def single_neuron(
    a0: float, w0: ArrayLike, beta_star: ArrayLike, times: ArrayLike, eta_a: float = 1.0, eta_w: float = 1.0
) -> SingleNeuron:
    """a, w, μ, φ, β and ν at the given times, by the solution that δ asks for.

    δ = 0: μ and φ of `balanced`.
    δ ≠ 0, a keeps its sign: ν from `nu`, a from its Bernoulli equation ȧ = a(ν + δ − a²), and wᵀβ* = νa.
    δ < 0, a crosses zero: υ = 1/ν from `upsilon`, ω = wᵀβ* from ω̇ = ω(υ‖β*‖² − υ²ω²), and a = υω.

    Both Bernoulli solutions have the same denominator √N, and 1/√N is also what is left of the part of w
    orthogonal to β* (ẇ⊥ = −a²w⊥). It stands in for the paper's c_2 = √(‖w‖² − c_1²), which cancels as w
    aligns. Any time is safe; digits are lost near the separatrix only. On it, judged to rounding, the flow
    ends in the saddle.

    >>> import numpy as np
    >>> path = single_neuron(0.5, [0.3, 0.4], [0.0, 2.0], [0.0, 100.0])
    >>> path.beta.round(12) + 0.0
    array([[0.15, 0.2 ],
           [0.  , 2.  ]])
    """
    start, beta_hat = _start(a0, w0, beta_star, eta_a, eta_w)
    t = _check.as_times(times)
    a, omega, aside = _balanced_parts(start, t) if start.delta == 0 else _unbalanced_parts(start, t)
    w = (omega / start.norm)[:, None] * beta_hat + aside[:, None] * start.n
    norm_w = np.hypot(omega / start.norm, aside)
    with np.errstate(divide="ignore", invalid="ignore"):
        phi, ratio = omega / (start.norm * norm_w), omega / a
    mu, beta = a * norm_w, a[:, None] * w
    return SingleNeuron(a / np.sqrt(eta_w), w / np.sqrt(eta_a), mu, phi, beta, ratio)


def balanced(times: ArrayLike, mu0: float, c_phi: float, norm: float) -> tuple[Array, Array]:
    """μ(t) and φ(t) for δ = 0, a0 > 0 and −1 < φ0 < 1, with c_φ = atanh φ0 and norm = ‖β*‖.

        φ = tanh x,     μ = 2‖β*‖cosh²x / (2x + sinh 2x + c_μ),     x = c_φ + ‖β*‖t
        c_μ = 2‖β*‖cosh²(c_φ)/μ0 − (2c_φ + sinh 2c_φ)

    The paper lacks ‖β*‖ in μ and c_μ, and is right for ‖β*‖ = 1. Both parts of the fraction are divided by
    2cosh²x here, so that any time is safe. c_μ cancels where μ0 ≫ ‖β*‖. For a0 < 0, change the signs of μ and
    φ. At φ0 = ±1, φ stays and μ is a logistic curve: `single_neuron` has it.

    >>> mu, phi = balanced([0.0, 2.0, 20.0], mu0=0.1, c_phi=np.arctanh(-0.5), norm=2.0)
    >>> mu.round(4), phi.round(4)
    (array([0.1   , 1.7796, 2.    ]), array([-0.5  ,  0.998,  1.   ]))
    """
    x = c_phi + norm * _check.as_times(times)
    c_mu = 2 * norm * np.cosh(c_phi) ** 2 / mu0 - (2 * c_phi + np.sinh(2 * c_phi))
    return norm / (np.tanh(x) + (x + c_mu / 2) * _sech(x) ** 2), np.tanh(x)


def nu(times: ArrayLike, nu0: float, delta: float, norm: float) -> Float[Array, " T"]:
    """ν(t), the solution of ν̇ = ‖β*‖² − δν − ν², with R = ½√(δ² + 4‖β*‖²) and norm = ‖β*‖.

        ν = [2Rν0 cosh Rt + (2‖β*‖² − δν0) sinh Rt] / [2R cosh Rt + (2ν0 + δ) sinh Rt]

    It is infinite where a crosses zero. Rounding drives it off the unstable fixed point 2ν0 + δ = −2R.

    >>> nu([0.0, 1.0, 50.0], nu0=-1.0, delta=1.5, norm=1.0).round(4)  # in the end (√(δ² + 4‖β*‖²) − δ)/2
    array([-1.    ,  0.2259,  0.5   ])
    """
    R = 0.5 * np.hypot(delta, 2 * norm)
    tanh = np.tanh(R * _check.as_times(times))
    with np.errstate(divide="ignore"):
        return (2 * R * nu0 + (2 * norm**2 - delta * nu0) * tanh) / (2 * R + (2 * nu0 + delta) * tanh)


def upsilon(times: ArrayLike, upsilon0: float, delta: float, norm: float) -> Float[Array, " T"]:
    """υ(t) = 1/ν, the solution of υ̇ = 1 + δυ − ‖β*‖²υ², which the paper leaves to the reader.

        υ = [2Rυ0 cosh Rt + (2 + δυ0) sinh Rt] / [2R cosh Rt + (2‖β*‖²υ0 − δ) sinh Rt]

    It is infinite where wᵀβ* crosses zero, which excludes that a does (the paper's Lemma 4).

    >>> upsilon([0.0, 1.0, 50.0], upsilon0=0.25, delta=1.5, norm=1.0).round(4)
    array([0.25  , 1.5981, 2.    ])
    """
    R = 0.5 * np.hypot(delta, 2 * norm)
    tanh = np.tanh(R * _check.as_times(times))
    with np.errstate(divide="ignore"):
        above = 2 * R * upsilon0 + (2 + delta * upsilon0) * tanh
        return above / (2 * R + (2 * norm**2 * upsilon0 - delta) * tanh)


def a_as_printed(times: ArrayLike, a0: float, b0: float, delta: float, norm: float) -> Float[Array, " T"]:
    """The upstream a(t) as the paper prints it, for δ > 0 and a0 > 0, with b0 = w0ᵀβ* and norm = ‖β*‖.

        a = 2e^{δt/2}‖β*‖√δ (sech²Y [4e^{δt}‖β*‖² − 4R²(‖β*‖²(δ − a0²) + b0²)/(b0² − a0²‖β*‖² + a0b0δ)
                                    − δe^{δt}(δ cosh 2Y − 2R sinh 2Y)])^{−1/2}
        Y = Rt + atanh((2b0/a0 + δ)/2R)

    Y is complex where |2b0/a0 + δ| > 2R, though a is not. There is no value where ν0 is a fixed point
    (β0 = β* is one), digits are lost near it, and from Rt ≈ 350 on it overflows; not so `single_neuron`.

    >>> a0, w0, beta_star = 1.0, np.array([0.3, 0.2]), np.array([0.0, 1.0])
    >>> printed = a_as_printed([0.5, 2.0], a0, w0 @ beta_star, conserved(a0, w0), norm=1.0)
    >>> bool(np.allclose(printed, single_neuron(a0, w0, beta_star, [0.5, 2.0]).a))
    True
    """
    delta, a0, t = _check.positive("delta", delta), _check.positive("a0", a0), _check.as_times(times)
    K = np.hypot(delta, 2 * norm)  # 2R
    Y = K * t / 2 + np.arctanh((2 * b0 / a0 + delta) / K + 0j)
    constant = K**2 * (norm**2 * (delta - a0**2) + b0**2) / (b0**2 - a0**2 * norm**2 + a0 * b0 * delta)
    growth = np.exp(delta * t)
    bracket = 4 * growth * norm**2 - constant - delta * growth * (delta * np.cosh(2 * Y) - K * np.sinh(2 * Y))
    return (2 * np.exp(delta * t / 2) * norm * np.sqrt(delta) / np.sqrt(bracket / np.cosh(Y) ** 2)).real


def basin(a0: float, w0: ArrayLike, beta_star: ArrayLike, eta_a: float = 1.0, eta_w: float = 1.0) -> int:
    """+1: the flow ends with a > 0, −1: with a < 0, 0: in the saddle a = wᵀβ* = 0 ("Basins of attraction").

    The sign of w0ᵀβ* + ½a0(δ + √(δ² + 4‖β*‖²)), where the rates are 1. For δ > 0 it is the sign of a0, as the
    paper has it. For δ = 0 it is that too, except on the line w0 = −a0β*/‖β*‖, which belongs to the saddle.

    >>> basin(0.1, [1.0, 0.0], [1.0, 0.0]), basin(0.1, [-1.0, 0.0], [1.0, 0.0])  # downstream: w decides
    (1, -1)
    >>> basin(1.0, [-0.1, 0.0], [1.0, 0.0])  # upstream: a does
    1
    """
    return int(np.sign(_start(a0, w0, beta_star, eta_a, eta_w)[0].reach))


def conserved(a: ArrayLike, w: ArrayLike, eta_a: float = 1.0, eta_w: float = 1.0) -> float:
    """δ = η_w a² − η_a‖w‖².

    >>> path = single_neuron(1.0, [0.5, 0.0], [0.0, 2.0], [0.0, 1.0, 10.0])
    >>> [round(conserved(a, w), 12) for a, w in zip(path.a, path.w)]
    [0.75, 0.75, 0.75]
    """
    return float(eta_w * _check.number("a", a) ** 2 - eta_a * np.sum(_check.as_array("w", w, ndim=1) ** 2))


def ntk(X: ArrayLike, beta: ArrayLike, delta: float) -> Float[Array, "P P"]:
    """K = XMXᵀ, the neural tangent kernel at β; rows of X are samples.

    >>> ntk([[1.0, 0.0], [1.0, 1.0]], [0.0, 2.0], delta=3.0)
    array([[4., 4.],
           [4., 9.]])
    """
    X = _check.as_matrix("X", X, (None, len(_check.as_array("beta", beta, ndim=1))))
    return X @ preconditioner(beta, delta) @ X.T


def upstream_limit(beta0: ArrayLike, beta_star: ArrayLike, delta: float, times: ArrayLike) -> Float[Array, "T d"]:
    """δ → ∞: β(t) = β* + (β0 − β*)e^{−δt}, linear regression at rate δ. The error is of order 1/δ².

    >>> upstream_limit([1.0, 0.0], [0.0, 1.0], 10.0, [0.0, 0.1, 10.0]).round(4)
    array([[1.    , 0.    ],
           [0.3679, 0.6321],
           [0.    , 1.    ]])
    """
    beta0, beta_star, _ = _pair("beta0", beta0, beta_star)
    decay = np.exp(-_check.positive("delta", delta) * _check.as_times(times))
    return beta_star + decay[:, None] * (beta0 - beta_star)


def downstream_limit(beta0: ArrayLike, beta_star: ArrayLike, delta: float, times: ArrayLike) -> Float[Array, "T d"]:
    """δ → −∞: β fits along its own direction at rate |δ|, then turns to β* at rate ‖β*‖²/|δ|.

        φ = φ0/√(φ0² + (1 − φ0²)e^{−2rt}),   r = ‖β*‖²/|δ|,     μ = φ‖β*‖ + (μ0 − φ0‖β*‖)e^{−|δ|t}

    from φ̇ = rφ(1 − φ²) and μ̇ = |δ|(φ‖β*‖ − μ). The error is of order 1/δ² at all times, but large where
    φ0 is near 0, since the saddle is close. The sign of φ0 says whether a will change its own.

    >>> downstream_limit([1.0, 0.5], [0.0, 1.0], -10.0, [0.0, 1.0, 50.0]).round(4)
    array([[1.    , 0.5   ],
           [0.4234, 0.2339],
           [0.0135, 0.9998]])
    """
    beta0, beta_star, norm = _pair("beta0", beta0, beta_star)
    size, t = -_check.number("delta", delta), _check.as_times(times)
    if size <= 0:
        raise InvalidInput(f"delta must be below 0, and it is {-size:g}: upstream_limit takes positive ones.")
    mu0 = float(np.linalg.norm(beta0))
    if mu0 == 0:
        raise InvalidInput("beta0 must not be zero: its direction is what the flow follows.")
    along, aside, n = _split(beta0, beta_star / norm)
    fading = np.exp(-(norm**2) / size * t)
    root = np.hypot(along, aside * fading)
    phi, sine = along / root, aside * fading / root
    mu = phi * norm + (mu0 - along / mu0 * norm) * np.exp(-size * t)
    return (mu * phi)[:, None] * beta_star / norm + (mu * sine)[:, None] * n


class _Start(NamedTuple):
    """An initialisation in units where both rates are 1: √η_w a for a, and √η_a w for w."""

    a0: float
    norm_w0: float
    omega0: float  # w0ᵀβ*
    aside0: float  # length of the part of w0 orthogonal to β*
    n: Float[Array, " d"]  # its direction
    norm: float  # ‖β*‖
    delta: float

    @property
    def R(self) -> float:
        return float(0.5 * np.hypot(self.delta, 2 * self.norm))

    @property
    def g(self) -> float:
        """R + δ/2 without cancellation, the rate of growth; g·h = ‖β*‖²."""
        return self.R + self.delta / 2 if self.delta >= 0 else self.norm**2 / (self.R - self.delta / 2)

    @property
    def h(self) -> float:
        """R − δ/2 without cancellation."""
        return self.norm**2 / self.g

    @property
    def reach(self) -> float:
        """w0ᵀβ* + ½a0(δ + √(δ² + 4‖β*‖²)), whose sign is the basin; 0 where rounding would decide it."""
        reach = self.omega0 + self.a0 * self.g
        return reach if abs(reach) > 8 * _EPS * (self.norm_w0 * self.norm + abs(self.a0) * self.g) else 0.0


def _start(
    a0: float, w0: ArrayLike, beta_star: ArrayLike, eta_a: float, eta_w: float
) -> tuple[_Start, Float[Array, " d"]]:
    """The start in units of the rates, and the direction of β*."""
    a0, (start, target, norm) = _check.number("a0", a0), _pair("w0", w0, beta_star)
    eta_a, eta_w = _check.positive("eta_a", eta_a), _check.positive("eta_w", eta_w)
    if abs(eta_a * eta_w - 1) > 1e-12:
        rate = np.sqrt(eta_a * eta_w)
        raise InvalidInput(
            f"eta_a·eta_w must be 1, and it is {rate**2:g}: both divided by {rate:g}, with times multiplied"
            " by it, is the same flow."
        )
    a0 = float(np.sqrt(eta_w) * a0)
    along, aside, n = _split(np.sqrt(eta_a) * start, target / norm)
    norm_w0 = float(np.hypot(along, aside))
    if a0 == 0 and abs(along) <= 4 * _EPS * norm_w0:
        raise InvalidInput("a0 and w0·beta_star must not both be zero: that is a saddle, and nothing moves.")
    delta = a0**2 - norm_w0**2
    if abs(delta) <= 64 * _EPS * (a0**2 + norm_w0**2):  # what lr.Problem calls balanced
        delta = 0.0
    return _Start(a0, norm_w0, along * norm, aside, n, norm, delta), target / norm


def _pair(name: str, value: ArrayLike, beta_star: ArrayLike) -> tuple[Array, Array, float]:
    """A vector, β* and ‖β*‖."""
    vector, target = _check.as_array(name, value, ndim=1), _check.as_array("beta_star", beta_star, ndim=1)
    if len(vector) != len(target):
        raise InvalidInput(f"beta_star must have {len(vector)} entries, as {name}, and it has {len(target)}.")
    norm = float(np.linalg.norm(target))
    if norm == 0:
        raise InvalidInput("beta_star must not be zero, for the formulas divide by it: lr.solve does not.")
    return vector, target, norm


def _split(vector: Array, unit: Array) -> tuple[float, float, Array]:
    """Component along a unit vector, length of the rest (0 where that is rounding), direction of the rest."""
    along = float(vector @ unit)
    rest = vector - along * unit
    rest = rest - (rest @ unit) * unit  # once more: a small rest is not orthogonal otherwise
    length = float(np.linalg.norm(rest))
    if length <= 4 * _EPS * abs(along):
        return along, 0.0, np.zeros_like(rest)
    return along, length, rest / length


def _balanced_parts(start: _Start, t: Array) -> tuple[Array, Array, Array]:
    """a, wᵀβ* and the length of w orthogonal to β*, for δ = 0: |a| = ‖w‖ = √|μ|."""
    sign, mu0, norm = np.sign(start.a0), abs(start.a0) * start.norm_w0, start.norm
    if start.aside0 > 0:
        c_phi = float(np.arcsinh(sign * start.omega0 / (norm * start.aside0)))  # atanh φ0, good near ±1 too
        mu, phi = balanced(t, mu0, c_phi, norm)
        sine = _sech(c_phi + norm * t)  # √(1 − φ²)
    else:  # φ0 = ±1 stays, and μ is a logistic curve, or for φ0 = −1 a fall into the saddle
        phi, sine = np.full(len(t), sign * np.sign(start.omega0)), np.zeros(len(t))
        E = np.exp(-2 * norm * t)
        mu = norm / (1 + (norm / mu0 - 1) * E) if phi[0] > 0 else norm * E / (norm / mu0 + 1 - E)
    return sign * np.sqrt(mu), sign * np.sqrt(mu) * phi * norm, np.sqrt(mu) * sine


def _unbalanced_parts(start: _Start, t: Array) -> tuple[Array, Array, Array]:
    """The same for δ ≠ 0, by ν where a keeps its sign and by υ where it does not."""
    a0, omega0, delta, R, g, h = start.a0, start.omega0, start.delta, start.R, start.g, start.h
    # The Bernoulli equations, with the exponentials e^{δt/2}e^{±Rt} of ν and υ, are solved by
    # a√N = e^{δt/2}(a0 cosh Rt + (2ω0 + δa0)/2R sinh Rt) = ½(plus e^{gt} + minus e^{−ht})
    # ω√N = e^{δt/2}(ω0 cosh Rt + (2‖β*‖²a0 − δω0)/2R sinh Rt) = ½(h·plus e^{gt} − g·minus e^{−ht})
    plus, minus = start.reach / R, (a0 * h - omega0) / R
    if plus == 0:  # on the separatrix ν stays, and a fades
        root_N = np.sqrt(1 - minus**2 * np.expm1(-2 * h * t) / (4 * h))
        a = a0 * np.exp(-h * t) / root_N
        return a, -g * a, start.aside0 / root_N
    # All divided by e^{gt}; plus + minus = 2a0 and h·plus − g·minus = 2ω0 leave terms of one sign.
    root_N, faded, risen = _scaled_root_N(start, plus, minus, t), np.exp(-2 * R * t), -np.expm1(-2 * R * t)
    if a0 * plus > 0:
        a = (a0 * faded + plus / 2 * risen) / root_N
        omega = nu(t, omega0 / a0, delta, start.norm) * a
    else:
        omega = (omega0 * faded + h * plus / 2 * risen) / root_N
        a = upsilon(t, a0 / omega0, delta, start.norm) * omega
    return a, omega, start.aside0 * np.exp(-g * t) / root_N


def _scaled_root_N(start: _Start, plus: float, minus: float, t: Array) -> Array:
    """e^{−gt}√N, where N = 1 + 2∫(½(plus e^{gs} + minus e^{−hs}))² ds from 0 to t."""
    R, g, h, size = start.R, start.g, start.h, abs(start.delta)
    N = (
        np.exp(-2 * g * t)
        - plus**2 * np.expm1(-2 * g * t) / (4 * g)
        - plus * minus * np.exp(-2 * min(g, R) * t) * np.expm1(-size * t) / size
        - minus**2 * np.exp(-2 * g * t) * np.expm1(-2 * h * t) / (4 * h)
    )
    return np.sqrt(N)


def _sech(x: ArrayLike) -> Any:
    """1/cosh, without overflow."""
    faded = np.exp(-np.abs(x))
    return 2 * faded / (1 + faded**2)
