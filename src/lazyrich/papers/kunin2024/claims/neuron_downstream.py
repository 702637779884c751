"""One hidden neuron, white inputs, δ < 0 (downstream): changes of sign, and the basins of attraction."""

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.oracles import gradient, hessian, integrate, relative_error
from lazyrich.papers.base.types import Pair, Real, Rng, Values
from lazyrich.papers.kunin2024 import formulas
from lazyrich.papers.kunin2024.claims._one_neuron import Neuron, cosine, drawn, size
from lazyrich.papers.kunin2024.claims.slips import BETA_FOR_TARGET, UNIT_RATES


def zeros_met(values: Array) -> int:
    """How often a course meets zero: places where it is zero, and changes of sign between places."""
    signs = np.sign(values)
    return int(np.sum(signs == 0) + np.sum(signs[:-1] * signs[1:] < 0))


@claim(
    "kunin2024/lemma-4",
    place='Appendix "Downstream δ < 0", Lemma 4',
    statement="At most once is a or wᵀβ* zero, so that a changes sign, or wᵀβ* does, or neither.",
    formula=r"\#\{t \ge 0 : a(t)\,w(t)^\top\beta_* = 0\} \le 1",
    conditions="White inputs, a0 ≠ 0 or w0ᵀβ* ≠ 0; any δ.",
    tolerance=0.0,  # a count
    seeds=5,
)
def lemma_4(rng: Rng) -> float:
    n = drawn(rng, rates="any")
    if rng.uniform() < 0.3 and n.delta < 0:
        n = n.at(0.0, n.w)
    times = np.concatenate([[0.0], np.geomspace(0.01, 20.0, 40)])
    a, w = n.path(times)
    return zeros_met(a * (w @ n.beta_star)) - 1


def a_omega_velocity(n: Neuron) -> Array:
    """ȧ and ω̇ of the two-dimensional system, as printed."""
    omega, norm = n.w @ n.beta_star, size(n.beta_star)
    return np.array([omega - n.a * (n.a**2 - n.delta), n.a * norm**2 - n.a**2 * omega])


def a_omega_truth(n: Neuron) -> Array:
    beta_star = n.beta_star
    return n.rate(lambda a, w: np.array([a, w @ beta_star]))


@claim(
    "kunin2024/a-omega-dynamics",
    place='Appendix "Downstream δ < 0", proof of Lemma 4',
    statement="The output weight a and ω = wᵀβ* obey two equations of their own.",
    formula=r"\dot a = \omega - a(a^2 - \delta), \qquad \dot\omega = a\|\beta_*\|^2 - a^2\omega",
    conditions="White inputs, η_aη_w = 1.",
    tolerance=1e-12,
)
def a_omega_dynamics(rng: Rng, rates: str = "product one") -> float:
    n = drawn(rng, rates=rates)
    return relative_error(a_omega_velocity(n), a_omega_truth(n))


@a_omega_dynamics.stronger(
    "Both rates are 1; otherwise √η has to be absorbed into a and w first, which puts η_a in front of ω and η_w in "
    "front of a² in the first equation, and η_w in front of the second.",
    slips=(UNIT_RATES,),
)
def a_omega_dynamics_with_unit_rates(rng: Rng) -> float:
    return a_omega_dynamics.check(rng, rates="unit")


@a_omega_dynamics.counterexample("η_a = 2, η_w = ½, a = w = 1, β* = 2: ω = 2, δ = −3/2")
def _() -> Pair:
    n = Neuron(1.0, np.ones(1), np.eye(1), np.array([2.0]), 2.0, 0.5)
    return a_omega_velocity(n), a_omega_truth(n)


@claim(
    "kunin2024/upsilon-dynamics",
    place='Appendix "Downstream δ < 0", equation of υ',
    statement="The ratio υ = a/wᵀβ*, which stays finite where a changes sign, obeys a Riccati equation too.",
    formula=r"\upsilon = \frac{a}{w^\top\beta_*}, \qquad \dot\upsilon = 1 + \delta\upsilon - \|\beta_*\|^2\upsilon^2",
    conditions="White inputs, η_aη_w = 1, wᵀβ* ≠ 0.",
    tolerance=1e-10,
)
def upsilon_dynamics(rng: Rng, rates: str = "product one") -> float:
    n = drawn(rng, rates=rates)
    beta_star = n.beta_star
    upsilon = n.a / (n.w @ beta_star)
    printed = 1 + n.delta * upsilon - beta_star @ beta_star * upsilon**2
    truth = n.rate(lambda a, w: a / (w @ beta_star))
    return float(abs(printed - truth) / (1 + beta_star @ beta_star * upsilon**2))


@upsilon_dynamics.stronger(
    "Both rates are 1; otherwise √η has to be absorbed into a and w first, and the equation is that of a/(η_a wᵀβ*).",
    slips=(UNIT_RATES,),
)
def upsilon_dynamics_with_unit_rates(rng: Rng) -> float:
    return upsilon_dynamics.check(rng, rates="unit")


@upsilon_dynamics.counterexample("η_a = 2, η_w = ½, a = w = β* = 1: at the minimum nothing moves, and δ = −3/2")
def _() -> tuple[float, float]:
    n = Neuron(1.0, np.ones(1), np.eye(1), np.ones(1), 2.0, 0.5)
    return float(1.0 + n.delta - 1.0), float(n.rate(lambda a, w: a / w[0]))


def crossing(rng: Rng) -> tuple[Neuron, Array, Array, Array]:
    """δ < 0, unit rates, and a start whose a changes sign on the way: the neuron, times, a and w."""
    while True:
        n = drawn(rng, sign=-1, rates="unit")
        n = n.at(rng.uniform(0.1, 0.5) * n.a, -n.w * np.sign(n.a * n.w @ n.beta_star))
        times = np.array([0.0, 0.2, 0.5, 1.0, 2.0, 6.0]) / size(n.beta_star)
        a, w = n.path(times)
        if a[0] * a[-1] < 0:
            return n, times, a, w


@claim(
    "kunin2024/upsilon-solution",
    place='Appendix "Downstream δ < 0", after the equation of υ',
    statement="The equation of υ has a solution of the same kind as that of ν, which is left to the reader; it stays "
    "finite where a changes sign.",
    formula=r"\upsilon(t) = \frac{2R\upsilon_0\cosh Rt + (2 + \delta\upsilon_0)\sinh Rt}"
    r"{2R\cosh Rt + (2\|\beta_*\|^2\upsilon_0 - \delta)\sinh Rt}, \qquad R = \tfrac12\sqrt{\delta^2 + 4\|\beta_*\|^2}",
    conditions="White inputs, δ < 0, a changes sign, η_a = η_w = 1.",
    tolerance=1e-9,
)
def upsilon_solution(rng: Rng) -> float:
    n, times, a, w = crossing(rng)
    upsilon = a / (w @ n.beta_star)
    return relative_error(formulas.upsilon(times, upsilon[0], n.delta, float(size(n.beta_star))), upsilon)


def omega_velocity(n: Neuron, squared: Values, factor: float) -> float:
    """factor · ω(υ·squared − υ²ω²) with υ = a/ω."""
    omega = n.w @ n.beta_star
    upsilon = n.a / omega
    return float(factor * omega * (upsilon * squared - upsilon**2 * omega**2))


def omega_truth(n: Neuron) -> float:
    beta_star = n.beta_star
    return float(n.rate(lambda a, w: w @ beta_star))


@claim(
    "kunin2024/omega-dynamics",
    place='Appendix "Downstream δ < 0", equation of ω',
    statement="Given υ, the overlap ω = wᵀβ* obeys a Bernoulli equation.",
    formula=r"\dot\omega = \omega\left(\upsilon\|\beta\|^2 - \upsilon^2\omega^2\right)",
    conditions="White inputs, η_aη_w = 1, ω ≠ 0.",
    tolerance=1e-10,
)
def omega_dynamics(rng: Rng) -> float:
    n = drawn(rng)
    return abs(omega_velocity(n, n.beta @ n.beta, 1.0) - omega_truth(n)) / float(size(n.velocity()[1]))


@omega_dynamics.corrected(
    "The target β* was meant where β is printed; and unless both rates are 1, η_w stands in front.",
    formula=r"\dot\omega = \eta_w\,\omega\left(\upsilon\|\beta_*\|^2 - \upsilon^2\omega^2\right)",
    slips=(UNIT_RATES, BETA_FOR_TARGET),
)
def omega_dynamics_of_the_target(rng: Rng) -> float:
    n = drawn(rng)
    return abs(omega_velocity(n, n.beta_star @ n.beta_star, n.eta_w) - omega_truth(n)) / float(size(n.velocity()[1]))


@omega_dynamics.counterexample("Unit rates, a = w = 1, β* = 2: υ = ½, ω = 2")
def _() -> tuple[float, float]:
    n = Neuron(1.0, np.ones(1), np.eye(1), np.array([2.0]))
    return omega_velocity(n, 1.0, 1.0), omega_truth(n)


def side(a: Real, w: Array, beta_star: Array, delta: float) -> Real:
    """wᵀβ* + ½a(δ + √(δ² + 4‖β*‖²)), whose sign is the basin, as printed."""
    return w @ beta_star + a / 2 * (delta + np.sqrt(delta**2 + 4 * beta_star @ beta_star))


@claim(
    "kunin2024/separating-surface",
    place='Appendix "Basins of attraction", and caption of "Two basins of attraction"',
    statement="The starts that fall into a saddle, and so keep the basins apart, are those of a hyperplane on each "
    "hyperboloid; the flow stays in it.",
    formula=r"w_0^\top\beta_* + \frac{a_0}{2}\left(\delta + \sqrt{\delta^2 + 4\|\beta_*\|^2}\right) = 0",
    conditions="White inputs, δ ≤ 0, η_aη_w = 1.",
    tolerance=1e-8,
)
def separating_surface(rng: Rng, rates: str = "product one") -> float:
    """How far a course into a saddle is off the surface, relative to the terms that cancel on it.

    The course is found backwards in time, from a saddle a little off in its stable direction, which is an eigenvector
    of a numerical Hessian. Backwards every other course comes to this one, so that a small error at its end fades.
    """
    n = drawn(rng, sign=int(rng.choice([-1, -1, 0])), rates=rates)
    w = n.w - (n.w @ n.beta_star) / (n.beta_star @ n.beta_star) * n.beta_star
    w = w * (np.sqrt(max(-n.delta, 0.0) / n.eta_a) / size(w))
    eta = np.array([n.eta_a] + [n.eta_w] * len(w))
    pace, directions = np.linalg.eig(eta[:, None] * hessian(n.loss, [0.0, w]))
    fastest = int(np.argmax(pace.real))
    nearby = np.array([0.0, *w]) + 1e-6 * directions[:, fastest].real

    def backwards(x: Array) -> Array:
        slope_a, slope_w = gradient(n.loss, [x[0], x[1:]])
        return eta * np.array([float(slope_a), *slope_w])

    times = np.log([1e3, 1e5, 4e5]) / pace[fastest].real
    points = [n.at(x[0], x[1:]) for x in integrate(backwards, nearby, times)]
    off = [side(p.a, p.w, p.beta_star, p.delta) / (p.w @ p.beta_star) for p in points]
    return float(np.abs(off).max())


@separating_surface.stronger(
    "Both rates are 1; otherwise √η has to be absorbed into a and w first, which puts η_a in front of w0ᵀβ*.",
    slips=(UNIT_RATES,),
)
def separating_surface_with_unit_rates(rng: Rng) -> float:
    return separating_surface.check(rng, rates="unit")


@separating_surface.counterexample(
    "One input, η_a = ¼, η_w = 4, β* = 1, a0 = ½, w0 = −2: δ = 0, the printed side is negative, and the flow ends on "
    "neither side but in the saddle"
)
def _() -> tuple[float, float]:
    n = Neuron(0.5, np.array([-2.0]), np.eye(1), np.ones(1), 0.25, 4.0)
    return float(np.sign(side(n.a, n.w, n.beta_star, n.delta))), end_sign(n)


@claim(
    "kunin2024/separating-surface-upstream",
    place='Appendix, caption of "Two basins of attraction"',
    statement="With δ > 0 no start lies on the separating surface. Ours, so that the check is sharp: at δ = 0 the "
    "hyperplane touches the cone of starts, along the line straight against the target.",
    formula=r"\delta > 0 \implies w_0^\top\beta_* + \frac{a_0}{2}\left(\delta + \sqrt{\delta^2 + "
    r"4\|\beta_*\|^2}\right) \ne 0",
    conditions="White inputs, η_a = η_w = 1.",
    tolerance=1e-12,
)
def separating_surface_upstream(rng: Rng) -> float:
    """The least value over starts of many lengths and directions: positive for δ > 0 large or small, zero for δ = 0."""
    n = drawn(rng, sign=1, rates="unit", d=2)
    against = np.arctan2(*-n.beta_star[::-1])
    angles, lengths = against + np.linspace(-np.pi, np.pi, 181), np.geomspace(0.05, 20.0, 25)
    w = lengths[:, None, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)

    def least(delta: float) -> Array:
        """For each length of w0, relative to what cancels."""
        a = np.sqrt(lengths**2 + delta)
        return np.min(side(a[:, None], w, n.beta_star, delta), axis=1) / (lengths * size(n.beta_star))

    met = np.concatenate([least(n.delta), least(1e-3 * n.delta)]) <= 0
    return max(float(met.any()), float(np.abs(least(0.0)).max()))


def near_the_surface(rng: Rng, rates: str) -> Neuron:
    """Starts of any δ; for δ < 0 near where the basins meet, with the rates and as printed."""
    n = drawn(rng, sign=int(rng.choice([-1, -1, -1, 0, 1])), rates=rates)
    toward = n.beta_star / size(n.beta_star)
    if n.delta > -1e-12:
        return n
    aside = n.w - (n.w @ toward) * toward
    share = -n.a * (n.delta + np.hypot(n.delta, 2 * size(n.beta_star))) / (2 * size(n.w) * size(n.beta_star))
    along = np.clip(share * rng.choice([0.6, 0.9, 1.1, 1.5]) / rng.choice([1.0, n.eta_a]), -0.99, 0.99)
    return n.at(n.a, size(n.w) * (along * toward + np.sqrt(1 - along**2) * aside / size(aside)))


def end_sign(n: Neuron) -> float:
    """Sign of a in the end, with that of φ; 0 where the flow is in the saddle, before rounding drives it out."""
    norm, balanced = size(n.beta_star), abs(n.delta) < 1e-12
    a, w = n.path([12.0 / norm if balanced else 20.0 * (1 / norm + abs(n.delta) / norm**2)])  # w turns slowly if δ ≪ 0
    if abs(a[0] * size(w[0])) < 1e-3 * norm:
        return 0.0
    sign = np.sign(a[0])
    return float(sign) if sign * cosine(w[0], n.beta_star) > 0.99 else np.nan


@claim(
    "kunin2024/basins",
    place='Section "A Minimal Model…", footnote 4; appendix "Basins of attraction"',
    statement="The flow ends on the branch of minima with a > 0, w along β*, or on the one with a < 0, w against β*, "
    "by the sign of a0 if δ ≥ 0, and by the side of the separating surface if δ < 0.",
    formula=r"\operatorname{sgn} a(\infty) = \begin{cases} \operatorname{sgn} a_0 & \delta \ge 0 \\ \operatorname{sgn}"
    r"\left(w_0^\top\beta_* + \frac{a_0}{2}\left(\delta + \sqrt{\delta^2 + 4\|\beta_*\|^2}\right)\right) & \delta < 0 "
    r"\end{cases}",
    conditions="White inputs, η_aη_w = 1, a start off the separating surface.",
    tolerance=0.0,  # a sign
    seeds=8,
)
def basins(rng: Rng) -> float:
    n = near_the_surface(rng, "product one")
    return abs(basin_as_printed(n) - end_sign(n))


def basin_as_printed(n: Neuron) -> float:
    return float(np.sign(n.a if n.delta >= -1e-12 else side(n.a, n.w, n.beta_star, n.delta)))


@basins.stronger(
    "Both rates are 1; otherwise √η has to be absorbed into a and w first, which puts η_a in front of w0ᵀβ*.",
    slips=(UNIT_RATES,),
)
def basins_with_unit_rates(rng: Rng) -> float:
    """The library's rule, one for every δ, is tried beside the printed one, with other rates too."""
    n, other = near_the_surface(rng, "unit"), near_the_surface(rng, "product one")
    one_rule = abs(formulas.basin(other.a, other.w, other.beta_star, other.eta_a, other.eta_w) - end_sign(other))
    return max(abs(basin_as_printed(n) - end_sign(n)), one_rule)


@basins.counterexample(
    "One input, η_a = 4, η_w = ¼, β* = 1, a0 = 3, w0 = −1: δ = −7/4, the printed side is positive, and a ends "
    "negative, since w cannot change its sign"
)
def _() -> tuple[float, float]:
    n = Neuron(3.0, -np.ones(1), np.eye(1), np.ones(1), 4.0, 0.25)
    return basin_as_printed(n), end_sign(n)
