"""Saxe et al. 2014: two unequal layers, eqs. 25 and 26, which later sources rest on."""

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.oracles import integrate, relative_error
from lazyrich.papers.base.types import Real, Rng, Row, Values


def time_from_theta(theta0: float, theta: Array, c0: float, s: float) -> Array:
    """The time from θ0 to θ in the form of eq. 26, for θ̇ = s − c0 sinh θ."""
    K = np.hypot(c0, s)

    def primitive(x: Real) -> Values:
        X = np.tanh(x / 2)
        return np.log((K + c0 + s * X) / (K - c0 - s * X)) / K

    return primitive(theta) - primitive(theta0)


def course(a: float, b: float, s: float, times: Row) -> Array:
    """θ = 2 artanh(b/a) along ȧ = b(s − ab), ḃ = a(s − ab), integrated."""
    states = integrate(lambda x: x[::-1] * (s - x[0] * x[1]), [a, b], times)
    return 2 * np.arctanh(states[:, 1] / states[:, 0])


def drawn(rng: Rng) -> tuple[float, float, float]:
    """a > b > 0 and a target that is not yet reached."""
    b = rng.uniform(0.05, 0.5)
    return b + rng.uniform(0.3, 1.0), b, rng.uniform(2.0, 3.0)


@claim(
    "saxe2014/equations-25-26",
    place="Section 1.1, eqs. 25 and 26",
    statement="Two layers of unequal strengths a and b in one mode, with the conserved c₀ = a² − b², move along a "
    "hyperbola. Its angle θ, for which a = √c₀ cosh(θ/2) and b = √c₀ sinh(θ/2), obeys a separable equation, so that "
    "the time from one angle to another is known.",
    formula=r"\dot\theta = s - c_0\sinh\theta, \qquad t = \frac1K\left[\ln\frac{K + c_0 + s\tanh(\theta/2)}"
    r"{K - c_0 - s\tanh(\theta/2)}\right]_{\theta_0}^{\theta}, \qquad K = \sqrt{c_0^2 + s^2}",
    conditions="One mode of strength s, inputs white, c₀ > 0, unit rate.",
    tolerance=1e-9,
)
def equations_25_26(rng: Rng, factor: float = 1.0) -> float:
    a, b, s = drawn(rng)
    times = np.linspace(0.05, 1.0, 8) / s
    theta = course(a, b, s, np.concatenate([[0.0], times]))
    return relative_error(time_from_theta(theta[0], theta[1:], a * a - b * b, factor * s), times)


@equations_25_26.corrected(
    "With 2s in place of s throughout, as follows from ȧ = b(s − ab), ḃ = a(s − ab).",
    formula=r"\dot\theta = 2s - c_0\sinh\theta, \qquad t = \frac1K\left[\ln\frac{K + c_0 + 2s\tanh(\theta/2)}"
    r"{K - c_0 - 2s\tanh(\theta/2)}\right]_{\theta_0}^{\theta}, \qquad K = \sqrt{c_0^2 + 4s^2}",
)
def equations_25_26_with_2s(rng: Rng) -> float:
    return equations_25_26.check(rng, factor=2.0)


@equations_25_26.counterexample("a = 1, b = 0, s = 1: the slope of θ at the start, where ḃ = 1 and so θ̇ = 2")
def _() -> tuple[float, float]:
    step = 1e-6
    return 1.0, float(course(1.0, 0.0, 1.0, [step])[0] / step)
