"""Section 5 on the size of the start: what small and large weights do to the coupling of modes, and to their curves."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cholesky

from lazyrich.claims.braun2022.decoupling import coupled, course, growth_of_coupling, moment, peak
from lazyrich.claims.ledger import NotChecked, claim
from lazyrich.claims.oracles import layers, product, relative_error
from lazyrich.exact.letter.braun2022 import decoupling_2x2, equation_15

NOT_CHECKED: tuple[NotChecked, ...] = ()


@claim(
    "braun2022/small-start-near-zero",
    place="Section 5, decoupling dynamics",
    statement="From small random weights the coupling of two modes stays near zero throughout learning.",
    formula=r"\max_t |b(t)| \to 0 \quad \text{as}\ A(0) \to 0",
    conditions="As for Theorem 5.1, two modes.",
    tolerance=1e-4,  # of s1, from weights of 1e-8, of which b is the power 1 − s2/s1
)
def small_start_near_zero(rng: np.random.Generator) -> float:
    return _highest_coupling(rng, rng.choice([1.0, 0.2]))


@small_start_near_zero.stronger(
    "Two modes of clearly different strength: then the stronger is learned first, alone, and b vanishes with the "
    "start, as the power 1 − s2/s1 of A(0). Of two equal modes b rises to the order of s, however small the start."
)
def small_start_near_zero_unequal(rng: np.random.Generator) -> float:
    return _highest_coupling(rng, rng.uniform(0.1, 0.25))


def _highest_coupling(rng: np.random.Generator, ratio: float) -> float:
    s1 = rng.uniform(0.5, 3.0)
    s, A0 = (s1, ratio * s1), 1e-8 * rng.normal(size=(2, 2))
    return float(np.abs(course(A0, s, [peak(A0, s)]).b[0]) / s1)


@small_start_near_zero.counterexample("s1 = s2 = 1, a1 = a2 = 10⁻¹², b = 5·10⁻¹³: b rises to 0.13 and falls again")
def _() -> tuple[float, float]:
    A0 = 1e-6 * cholesky(np.array([[1.0, 0.5], [0.5, 1.0]]))
    return 0.0, float(course(A0, (1.0, 1.0), [peak(A0, (1.0, 1.0))]).b[0])


@claim(
    "braun2022/no-peak-from-large",
    place="Section 5, decoupling dynamics",
    statement="From large weights there is no peak: the coupling of two equal modes only fades.",
    formula=r"a_1(0) + a_2(0) \ge s \ \Rightarrow\ \frac{d}{dt}|b(t)| < 0 \ \text{for}\ t > 0",
    conditions="As for Theorem 5.1, two modes with s1 = s2 = s.",
    tolerance=0.0,  # an inequality: the largest growth of ln|b|
)
def no_peak_from_large(rng: np.random.Generator) -> float:
    s = rng.uniform(0.5, 3.0)
    A0, (a1, a2, _) = coupled(rng, s)
    A0 = A0 * np.sqrt(s / (a1 + a2) * rng.choice([1.0, 1.1, 2.0, 10.0]))
    A = layers([A0, A0.T], s * np.eye(2), np.array([0.02, 0.1, 0.3, 1.0, 3.0]) / s)[0]
    return max(growth_of_coupling(now, (s, s)) for now in A) / s


@claim(
    "braun2022/peak-before-learned",
    place="Section 5, decoupling dynamics",
    statement="At intermediate scales the coupling is largest before the modes are fully learned.",
    formula=r"a_i(t_{\text{peak}}) < s_i",
    conditions="As for Theorem 5.1, two modes of any strengths, a_i(0) < s_i, a peak after t = 0.",
    tolerance=0.0,  # an inequality
)
def peak_before_learned(rng: np.random.Generator) -> float:
    s = np.sort(rng.uniform(0.5, 3.0, size=2))[::-1] if rng.random() < 0.7 else np.full(2, rng.uniform(0.5, 3.0))
    A0, _ = coupled(rng, s[1] * rng.uniform(0.01, 0.4))
    now = course(A0, s, [peak(A0, s)])
    return float(max(now.a1[0] / s[0], now.a2[0] / s[1]) - 1)


@claim(
    "braun2022/decoupled-from-small-starts",
    place="Section 5, first paragraph",
    statement="From small weights, modes that are coupled at first are learned as if they had been decoupled from the "
    "start. Measured here: a start smaller by k delays every mode, coupled or not, by the same (1/s) ln k; beside "
    "that, what the coupling adds is a constant.",
    formula=r"t_{1/2}(\varepsilon A_0) = \frac{\tau}{s_i} \ln\frac1\varepsilon + O(1)",
    conditions="As for Theorem 5.1, two modes of different strengths, small A(0).",
    tolerance=1e-5,  # weights of 1e-5 leave terms of 1e-10, and some of their powers below 1
)
def decoupled_from_small_starts(rng: np.random.Generator) -> float:
    """The difference of the half times from 1e-5·A(0) and from 1e-6·A(0), which cancels the constant."""
    s2 = rng.uniform(0.5, 1.5)
    s, A0 = np.array([rng.uniform(2.0, 3.0) * s2, s2]), coupled(rng, 1.0)[0]

    def half_time(i: int, scale: float) -> float:
        A = scale * A0
        return moment(lambda W: s[i] / 2 - product(W)[i, i], [A, A.T], np.diag(s), 1 / s[i])

    delays = [half_time(i, 1e-6) - half_time(i, 1e-5) for i in range(2)]
    return relative_error(np.log(10) / s, delays)


@claim(
    "braun2022/equation-15",
    place="Section 5, effect of the initialisation variance, eq. 15",
    statement="With two modes of equal strength and a small start, the on-diagonal elements follow a sigmoid.",
    formula=r"a_1(t) = \frac{s\,a_1(0)}{e^{-2st/\tau}\,[s - a_1(0) - a_2(0)] + a_1(0) + a_2(0)}",
    conditions="As for Theorem 5.1, two modes with s1 = s2 = s, |a1(0)|, |a2(0)|, |b(0)| ≪ 1.",
    tolerance=1e-9,
)
def equation_15_printed(rng: np.random.Generator) -> float:
    s, A0, (a1, a2, _), times = _small_start(rng)
    return relative_error(equation_15(a1, a2, s, times), course(A0, (s, s), times).a1)


@equation_15_printed.corrected(
    "The determinant Δ = a1a2 − b² may not be dropped: however small, it is what saturates the mode. Without it the "
    "sigmoid ends at s·a1/(a1 + a2) in place of s; it is right up to the time of the peak of b.",
    formula=r"a_1(t) = \frac{s\,(s q\,a_1(0) + (1-q)\Delta)}{s^2 q^2 + s q (1-q)(a_1(0) + a_2(0)) + (1-q)^2 \Delta},"
    r" \qquad q = e^{-2st/\tau},\ \Delta = a_1(0)a_2(0) - b(0)^2",
)
def equation_15_with_determinant(rng: np.random.Generator) -> float:
    s, A0, (a1, a2, b), times = _small_start(rng)
    return relative_error(decoupling_2x2(a1, a2, b, s, s, times).a1, course(A0, (s, s), times).a1)


def _small_start(rng: np.random.Generator) -> tuple[float, Any, Any, Any]:
    """And times over the whole course of learning."""
    s, scale = rng.uniform(0.5, 3.0), 10 ** rng.uniform(-6, -3)
    times = (np.log(s / scale) + np.array([-6.0, -2.0, 0.0, 2.0, 6.0])) / (2 * s)
    return s, *coupled(rng, scale), times


@equation_15_printed.counterexample("s = 1, a1 = a2 = 0.001, b = 0, at t = 10: one mode alone, and it is learned")
def _() -> tuple[float, float]:
    A0 = np.sqrt(1e-3) * np.eye(2)
    return float(equation_15(1e-3, 1e-3, 1.0, [10.0])[0]), float(course(A0, (1.0, 1.0), [10.0]).a1[0])


@claim(
    "braun2022/exponential-limit",
    place="Section 5, effect of the initialisation variance, after eq. 15; also Sections 4 and 7",
    statement="The larger the start, the closer the on-diagonal elements come to an exponential course; the rate is "
    "not given.",
    formula=r"a_1(t) - s \approx (a_1(0) - s)\,e^{-r t} \ \text{for some}\ r, \qquad |a_1(0)|, |a_2(0)|, |b(0)| \gg 0",
    conditions="As for Theorem 5.1, two modes; starts large beside s.",
    tolerance=1e-6,
)
def exponential_limit(rng: np.random.Generator) -> float:
    """An exponential is known from its values at 0 and t: what it gives at 2t, from a start of 1000 s."""
    s, A0, times = _large_start(rng)
    found = course(np.sqrt(1000.0) * A0, s, times)
    start = 1000.0 * (A0.T @ A0)[0, 0]
    return relative_error(_continued(start, found.a1[0], s[0]), found.a1[1])


@exponential_limit.corrected(
    "The larger the start, the faster it is forgotten, and the course tends to a hyperbola, 1/(2t) at first, whatever "
    "the start was; only what is left after a time of 1/(2s) decays exponentially, at the rate 2s.",
    formula=r"a_1(t) \to \frac{s_1}{1 - e^{-2 s_1 t/\tau}} \quad \text{as}\ A(0) \to \infty",
)
def hyperbolic_limit(rng: np.random.Generator) -> float:
    """Starts of 4000, 8000 and 16000 s, extrapolated in the inverse of the size."""
    s, A0, times = _large_start(rng)
    once, twice, fourfold = (course(np.sqrt(k) * A0, s, times).a1 for k in (4000.0, 8000.0, 16000.0))
    limit = (8 * fourfold - 6 * twice + once) / 3
    return relative_error(s[0] / -np.expm1(-2 * s[0] * times), limit)


def _large_start(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    s = rng.uniform(0.5, 3.0, size=2)
    return s, coupled(rng, s[0])[0], np.array([0.25, 0.5]) / s[0]


def _continued(start: float, now: float, s: float) -> float:
    """Twice as far along the exponential towards s through `start` and `now`."""
    return s + (now - s) ** 2 / (start - s)


@exponential_limit.counterexample("One mode of s = 1 from a = 1000, known at t = 0.25: continued to t = 0.5")
def _() -> tuple[float, float]:
    found = course(np.sqrt(1000.0) * np.eye(2), (1.0, 1.0), [0.25, 0.5]).a1
    return _continued(1000.0, float(found[0]), 1.0), float(found[1])
