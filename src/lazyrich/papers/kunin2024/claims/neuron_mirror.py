"""One hidden neuron, η_aη_w = 1: its flow in function space as a mirror flow in another time, step by step."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import root

from lazyrich._typing import Array
from lazyrich.bias.potentials import single_neuron_potential
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import gradient, integrate, relative_error
from lazyrich.papers.base.types import Rng, Values
from lazyrich.papers.kunin2024.claims._one_neuron import Neuron, drawn, size

NOT_CHECKED = (
    NotChecked(
        'Appendix "Connection to Theorem 2…"',
        "The analysis might extend to starts that pass through β = 0, with M at that moment taken as a limit.",
        "A suggestion for later work. What happens on such courses is checked where the paper states it.",
    ),
)

_STEP = 1e-30


def fewest_by(objective: Callable[[Array], Values], X: Array, y: Array) -> Array:
    """argmin of a convex, analytic function over Xβ = y: the zero of its slope along the directions X leaves free."""
    base = np.linalg.lstsq(X, y, rcond=None)[0]
    N = np.linalg.svd(X)[2][len(X) :].T
    found = root(lambda z: gradient(lambda p: objective(base + N @ p[0]), [z])[0], np.full(N.shape[1], 0.1), tol=1e-14)
    return base + N @ found.x


class Mirror:
    """A strictly convex potential Φ = ½βᵀAβ + ¼Σcβ⁴, data to interpolate, and a clock g(β) > 0."""

    def __init__(self, rng: Rng, *, warped: bool) -> None:
        factor = rng.normal(size=(3, 3))
        self.A, self.c = np.eye(3) + 0.3 * factor @ factor.T, rng.uniform(0.1, 0.5, size=3)
        self.X = draws.orthogonal(rng, 3)[:2] * rng.uniform(1.5, 2.0, size=(2, 1))
        self.y, self.beta0 = rng.normal(size=2), rng.normal(size=3)
        self.warped = warped

    def potential(self, beta: Array) -> Values:
        return beta @ self.A @ beta / 2 + self.c @ beta**4 / 4

    def clock(self, beta: Array) -> float:
        return float(1 + beta @ beta) if self.warped else 1.0

    def run(self) -> tuple[Array, Array]:
        """β and ∫gρ dt in the end, of β̇ = −g (∇²Φ)⁻¹Xᵀρ."""

        def velocity(state: Array) -> Array:
            beta = state[:3]
            hessian = self.A + 3 * np.diag(self.c * beta**2)
            rho = self.clock(beta) * (self.X @ beta - self.y)
            return np.concatenate([-np.linalg.solve(hessian, self.X.T @ rho), rho])

        end = integrate(velocity, np.concatenate([self.beta0, np.zeros(2)]), [80.0])[0]
        return end[:3], end[3:]

    def slope(self, beta: Array) -> Array:
        return gradient(lambda p: self.potential(p[0]), [beta])[0]


def bregman(mirror: Mirror, beta: Array) -> Values:
    """D(β, β0) = Φ(β) − Φ(β0) − ⟨∇Φ(β0), β − β0⟩."""
    away = beta - mirror.beta0
    return mirror.potential(beta) - mirror.potential(mirror.beta0) - mirror.slope(mirror.beta0) @ away


@claim(
    "kunin2024/mirror-flow",
    place='Appendix "Overview of time-warped mirror flow analysis", first equations',
    statement="A mirror flow that interpolates ends in the solution nearest to its start in the Bregman divergence of "
    "its potential.",
    formula=r"\dot\beta = -\left(\nabla^2\Phi(\beta)\right)^{-1}X^\top\rho \implies \beta(\infty) = "
    r"\operatorname{arg\,min}_{X\beta = y} D_\Phi(\beta, \beta(0))",
    conditions="Φ strictly convex; the residual decays fast enough.",
    tolerance=1e-10,
)
def mirror_flow(rng: Rng) -> float:
    mirror = Mirror(rng, warped=False)
    return relative_error(fewest_by(lambda beta: bregman(mirror, beta), mirror.X, mirror.y), mirror.run()[0])


@claim(
    "kunin2024/time-warp",
    place='Appendix "Overview of time-warped mirror flow analysis", last equations',
    statement="A positive factor g(β) in front of the velocity changes the clock and not the end.",
    formula=r"\dot\beta = -g(\beta)\left(\nabla^2\Phi(\beta)\right)^{-1}X^\top\rho \implies \beta(\infty) = "
    r"\operatorname{arg\,min}_{X\beta = y}\Phi(\beta) - \nabla\Phi(\beta(0))^\top\beta",
    conditions="Φ strictly convex, g > 0, and the warped time goes on for ever.",
    tolerance=1e-10,
)
def time_warp(rng: Rng) -> float:
    mirror = Mirror(rng, warped=True)
    pull = mirror.slope(mirror.beta0)
    return relative_error(
        fewest_by(lambda beta: mirror.potential(beta) - pull @ beta, mirror.X, mirror.y), mirror.run()[0]
    )


@claim(
    "kunin2024/kkt-multiplier",
    place='Appendix "Overview of time-warped mirror flow analysis", ν before and after the warp',
    statement="The multiplier that makes the end of a mirror flow a stationary point of Q is the integral of the "
    "residual, weighted by g where time is warped.",
    formula=r"\nabla Q(\beta(\infty)) = X^\top\nu, \qquad \nu = \int_0^\infty g(\beta(t))\rho(t)\,dt, \qquad Q(\beta) "
    r"= \Phi(\beta) - \nabla\Phi(\beta(0))^\top\beta",
    conditions="As for the mirror flow; g = 1 without warp; ρ = Xβ − y.",
    tolerance=1e-10,
)
def kkt_multiplier(rng: Rng, sign: float = 1.0) -> float:
    mirror = Mirror(rng, warped=bool(rng.integers(2)))
    end, integral = mirror.run()
    return relative_error(sign * mirror.X.T @ integral, mirror.slope(end) - mirror.slope(mirror.beta0))


@kkt_multiplier.corrected(
    "With the opposite sign, as follows from the line printed before it.",
    formula=r"\nabla Q(\beta(\infty)) = X^\top\nu, \qquad \nu = -\int_0^\infty g(\beta(t))\rho(t)\,dt",
)
def kkt_multiplier_with_its_sign(rng: Rng) -> float:
    return kkt_multiplier.check(rng, sign=-1.0)


@kkt_multiplier.counterexample("Φ = ½β², X = y = 1, β(0) = 0: ρ = −e^{−t} has the integral −1, and ∇Q = β(∞) is 1")
def _() -> tuple[float, float]:
    beta, integral = integrate(lambda s: np.array([1 - s[0], s[0] - 1]), [0.0, 0.0], [40.0])[0]
    return float(integral), float(beta)


def f(x: Values, delta: float) -> Values:
    """f_δ: M⁻¹ = f(‖β‖²)I − h(‖β‖²)ββᵀ."""
    return 2 / (np.sqrt(delta**2 + 4 * x) + delta)


def h(x: Values, delta: float) -> Values:
    """h_δ."""
    kappa = np.sqrt(delta**2 + 4 * x)
    return (kappa - delta) / (x * kappa * (kappa + delta))


def g(x: Values, delta: float) -> Values:
    """g_δ, the clock."""
    return np.sqrt(np.sqrt(delta**2 + 4 * x) + delta)


def inverse_of_m(n: Neuron, beta: Array) -> Array:
    """M⁻¹ at β, also complex: M from the weights that δ gives β, inverted."""
    x = beta @ beta
    a_squared = (n.delta + np.sqrt(n.delta**2 + 4 * x)) / 2  # of √η_w a, the root of a⁴ − δa² = ‖β‖²
    return np.linalg.inv(a_squared * np.eye(len(beta)) + np.outer(beta, beta) / a_squared)


def derivatives(matrix: Callable[[Array], Array], beta: Array) -> Array:
    """D[i, j, k] = ∂matrix_ij/∂β_k, by complex steps."""
    return np.stack([np.imag(matrix(beta + _STEP * 1j * e)) / _STEP for e in np.eye(len(beta))], axis=-1)


def asymmetry(D: Array) -> float:
    """How far a field of symmetric matrices is from being the Hessians of a function: ∂_kH_ij = ∂_jH_ik if it is."""
    return relative_error(D, D.transpose(0, 2, 1))


@claim(
    "kunin2024/m-inverse",
    place='Appendix "Applying time-warped mirror flow analysis", "Computing M⁻¹"',
    statement="The inverse of M has the same form, with two functions f and h of ‖β‖².",
    formula=r"M^{-1} = f_\delta(\|\beta\|^2)I_d - h_\delta(\|\beta\|^2)\beta\beta^\top, \quad f_\delta(x) = "
    r"\frac{2}{\sqrt{\delta^2 + 4x} + \delta}, \quad h_\delta(x) = \frac{\sqrt{\delta^2 + 4x} - \delta}"
    r"{x\sqrt{\delta^2 + 4x}\,(\sqrt{\delta^2 + 4x} + \delta)}",
    conditions="β ≠ 0, η_aη_w = 1.",
    tolerance=1e-11,
)
def m_inverse(rng: Rng) -> float:
    """Against the inverse of M from derivatives of β by the weights."""
    n = drawn(rng)
    x = n.beta @ n.beta
    printed = f(x, n.delta) * np.eye(len(n.w)) - h(x, n.delta) * np.outer(n.beta, n.beta)
    return relative_error(printed, np.linalg.inv(n.M))


@claim(
    "kunin2024/m-inverse-no-hessian",
    place='Appendix, "Proving M⁻¹ is not a Hessian map"',
    statement="M⁻¹ is the Hessian of no function: the derivatives that would have to agree differ by (2f′ + h)β_j, "
    "which is not zero; those of three different indices do agree.",
    formula=r"\frac{\partial M^{-1}_{ii}}{\partial\beta_j} - \frac{\partial M^{-1}_{ij}}{\partial\beta_i} = "
    r"\left(2\nabla f_\delta + h_\delta\right)\beta_j, \qquad 2\nabla f_\delta(x) + h_\delta(x) = "
    r"\frac{-4}{\sqrt{\delta^2 + 4x}\,(\sqrt{\delta^2 + 4x} + \delta)^2}",
    conditions="β ≠ 0, η_aη_w = 1, i ≠ j.",
    tolerance=1e-10,
)
def m_inverse_no_hessian(rng: Rng) -> float:
    n = drawn(rng, d=3)
    D = derivatives(lambda beta: inverse_of_m(n, beta), n.beta)
    kappa = np.sqrt(n.delta**2 + 4 * n.beta @ n.beta)
    excess = -4 / (kappa * (kappa + n.delta) ** 2)
    pairs = [(i, j) for i in range(3) for j in range(3) if i != j]
    printed = [excess * n.beta[j] for _, j in pairs]
    apart = relative_error(D[0, 1, 2], D[0, 2, 1])
    return max(relative_error(printed, [D[i, i, j] - D[i, j, i] for i, j in pairs]), apart)


@claim(
    "kunin2024/time-warp-factor",
    place='Appendix, "Finding a scalar function g…"',
    statement="One factor repairs that: with g = √(κ + δ), which solves a linear equation, gM⁻¹ is a Hessian.",
    formula=r"g_\delta(x) = \sqrt{\sqrt{\delta^2 + 4x} + \delta}, \quad \nabla g_\delta = "
    r"\frac{g_\delta}{\kappa(\kappa + "
    r"\delta)}, \quad g_\delta M^{-1} = \frac{2}{\sqrt{\kappa + \delta}}I_d - \frac{\kappa - \delta}{\|\beta\|^2\kappa"
    r"\sqrt{\kappa + \delta}}\beta\beta^\top, \quad \kappa = \sqrt{\delta^2 + 4x}, \ x = \|\beta\|^2",
    conditions="β ≠ 0, η_aη_w = 1.",
    tolerance=1e-10,
    seeds=6,
)
def time_warp_factor(rng: Rng) -> float:
    n = drawn(rng, d=3)
    x, delta = n.beta @ n.beta, n.delta
    kappa = np.sqrt(delta**2 + 4 * x)
    printed = 2 / np.sqrt(kappa + delta) * np.eye(3)
    printed -= (kappa - delta) / (x * kappa * np.sqrt(kappa + delta)) * np.outer(n.beta, n.beta)
    (slope,) = gradient(lambda p: g(p[0], delta), [x])
    D = derivatives(lambda beta: g(beta @ beta, delta) * inverse_of_m(n, beta), n.beta)
    return max(
        asymmetry(D),
        relative_error(printed, g(x, delta) * np.linalg.inv(n.M)),
        relative_error(g(x, delta) / (kappa * (kappa + delta)), slope),
    )


def q(x: Values, delta: float) -> Values:
    """q of the ansatz Φ(β) = q(‖β‖) + c."""
    kappa = np.sqrt(delta**2 + 4 * x**2)
    return (kappa - 2 * delta) * np.sqrt(kappa + delta) / 3


@claim(
    "kunin2024/potential",
    place='Appendix, "Solving for the potential Φ"',
    statement="The function whose Hessian gM⁻¹ is depends on the length of β alone, by q, whose first two derivatives "
    "are these.",
    formula=r"q = \tfrac13(\kappa - 2\delta)\sqrt{\kappa + \delta}, \quad q' = \frac{2x}{\sqrt{\kappa + \delta}}, "
    r"\quad q'' = \frac{\sqrt{\kappa + \delta}}{\kappa}, \quad \nabla^2 q(\|\beta\|) = \frac{q'}{\|\beta\|}I_d - "
    r"\left(\frac{q'}{\|\beta\|^3} - \frac{q''}{\|\beta\|^2}\right)\beta\beta^\top = g_\delta M^{-1}, \quad \kappa = "
    r"\sqrt{\delta^2 + 4x^2}",
    conditions="x = ‖β‖ > 0, η_aη_w = 1.",
    tolerance=1e-10,
    seeds=17,
)
def potential(rng: Rng) -> float:
    """The library's Φ is q and its derivatives; they are tried against complex steps of q, and against gM⁻¹."""
    n = drawn(rng)
    x, phi = float(size(n.beta)), single_neuron_potential(n.delta)
    (slope,) = gradient(lambda p: q(p[0], n.delta), [x])

    def printed_slope(t: Values) -> Values:
        return 2 * t / np.sqrt(np.sqrt(n.delta**2 + 4 * t**2) + n.delta)

    (curvature,) = gradient(lambda p: printed_slope(p[0]), [x])
    kappa = np.sqrt(n.delta**2 + 4 * x**2)
    return max(
        relative_error([printed_slope(x), np.sqrt(kappa + n.delta) / kappa], [slope, curvature]),
        relative_error([*phi.profile(x)[1:]], [slope, curvature]),
        relative_error(phi.hessian(n.beta), g(x**2, n.delta) * np.linalg.inv(n.M)),
    )


@claim(
    "kunin2024/potential-constant",
    place='Appendix, "Solving for the potential Φ", constant',
    statement="q grows from its value at zero, which the constant takes away: Φ is zero at zero and positive "
    "elsewhere.",
    formula=r"\Phi_\delta(\beta) = q(\|\beta\|) + \max\left(0, "
    r"\operatorname{sgn}(\delta)\frac{\sqrt2|\delta|^{3/2}}{3}\right)",
    conditions="Any δ.",
    tolerance=1e-11,
    seeds=11,
)
def potential_constant(rng: Rng) -> float:
    """Against the least value of q on a grid that holds zero; Φ grows on either side of it."""
    delta = float(rng.choice([-1.0, 0.0, 1.0]) * rng.uniform(0.3, 3.0))
    constant = max(0.0, np.sign(delta) * np.sqrt(2) * abs(delta) ** 1.5 / 3)
    x = np.linspace(-2.0, 2.0, 81)
    values = q(x, delta)
    grown = values - values.min()
    library = [single_neuron_potential(delta).value(np.array([length])) for length in x]
    growing = np.diff(grown) * np.sign(x[1:] + x[:-1]) > 0
    return max(relative_error([values + constant, library], [grown, grown]), float(not growing.all()))
