"""Section 5 on the size of the start: what small and large weights do to the coupling of modes, and to their curves."""

import numpy as np
from scipy.linalg import cholesky
from scipy.optimize import minimize_scalar

from lazyrich._typing import Array
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.oracles import layers, product, relative_error
from lazyrich.papers.base.types import Rng
from lazyrich.papers.braun2022.claims.decoupling import coupled, course, growth_of_coupling, moment, peak
from lazyrich.papers.braun2022.claims.slips import DETERMINANT
from lazyrich.papers.braun2022.formulas import decoupling_2x2, equation_15


@claim(
    "braun2022/small-start-near-zero",
    place="Section 5, decoupling dynamics",
    statement="From small random weights the coupling of two modes stays near zero throughout learning.",
    formula=r"\max_t |b(t)| \to 0 \quad \text{as}\ A(0) \to 0",
    conditions="As for Theorem 5.1, two modes.",
    tolerance=1e-4,  # of s1, from weights of 1e-8; amended, of the power, whose next order is below 1e-6
    seeds=8,
)
def small_start_near_zero(rng: Rng) -> float:
    s1 = rng.uniform(0.5, 3.0)
    return _highest_coupling(1e-8 * rng.normal(size=(2, 2)), (s1, rng.choice([1.0, 0.2]) * s1))


@small_start_near_zero.stronger(
    "Two modes of different strength: then the stronger is learned first, alone, and the peak of b vanishes with the "
    "start, as the power 1 − s2/s1 of A(0) (tried for s2/s1 from 0.1 to 0.6). Of two equal modes b rises to the order "
    "of s, however small the start."
)
def small_start_near_zero_unequal(rng: Rng) -> float:
    """The power, from weights of 1e-8 and 1e-9: a positive one takes b to zero."""
    s1, ratio = rng.uniform(0.5, 3.0), rng.uniform(0.1, 0.6)
    A0 = coupled(rng, 1.0)[0]
    high, low = (_highest_coupling(scale * A0, (s1, ratio * s1)) for scale in (1e-8, 1e-9))
    return relative_error(1 - ratio, np.log10(high / low))


def _highest_coupling(A0: Array, s: tuple[float, float]) -> float:
    """max |b|, in units of the stronger mode."""
    return float(np.abs(course(A0, s, [peak(A0, s)]).b[0]) / max(s))


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
    seeds=4,
)
def no_peak_from_large(rng: Rng) -> float:
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
    seeds=4,
)
def peak_before_learned(rng: Rng) -> float:
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
    seeds=5,
)
def decoupled_from_small_starts(rng: Rng) -> float:
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
def equation_15_printed(rng: Rng) -> float:
    s, A0, (a1, a2, _), times = _small_start(rng)
    return relative_error(equation_15(a1, a2, s, times), course(A0, (s, s), times).a1)


@equation_15_printed.corrected(
    "The determinant Δ = a1a2 − b² may not be dropped: however small, it is what saturates the mode. Without it the "
    "sigmoid ends at s·a1/(a1 + a2) in place of s; it is right up to the time of the peak of b.",
    formula=r"a_1(t) = \frac{s\,(s q\,a_1(0) + (1-q)\Delta)}{s^2 q^2 + s q (1-q)(a_1(0) + a_2(0)) + (1-q)^2 \Delta},"
    r" \qquad q = e^{-2st/\tau},\ \Delta = a_1(0)a_2(0) - b(0)^2",
    slips=(DETERMINANT,),
)
def equation_15_with_determinant(rng: Rng) -> float:
    s, A0, (a1, a2, b), times = _small_start(rng)
    return relative_error(decoupling_2x2(a1, a2, b, s, s, times).a1, course(A0, (s, s), times).a1)


def _small_start(rng: Rng) -> tuple[float, Array, tuple[float, float, float], Array]:
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
    statement="From a large start the on-diagonal elements follow a course close to an exponential; neither its rate "
    "nor how close is given. Read as: some exponential from a1(0) to s misses it by less than 5 % of |a1(0) − s|.",
    formula=r"\min_r \max_t \left|a_1(t) - s - (a_1(0) - s)\,e^{-r t}\right| < 0.05\,|a_1(0) - s|",
    conditions="As for Theorem 5.1, b(0) = 0; starts above s, of the size of s or large beside it.",
    tolerance=0.0,  # an inequality
)
def exponential_limit(rng: Rng) -> float:
    """A start of the size of s, and one of up to 1000 s."""
    return max(_off_exponential(rng, start) for start in (rng.uniform(1.1, 5.0), 5.0 * 200 ** rng.uniform()))


@exponential_limit.stronger(
    "A start of the size of s. The best single exponential misses the course by 2.1 % of its range from 1.5 s, 3.4 % "
    "from 2 s, 6.7 % from 5 s and 9.5 % from 30 s: the larger the start, the further. From very large ones the course "
    "is 1/(2t) at first, whatever the start was."
)
def exponential_from_starts_of_the_size_of_s(rng: Rng) -> float:
    return _off_exponential(rng, rng.uniform(1.1, 2.5))


def _off_exponential(rng: Rng, start: float) -> float:
    """By how much the best exponential misses the course of one mode by more than 5 % of its range."""
    s = rng.uniform(0.5, 3.0)
    times, course_of_a = _one_mode(start, s)
    rate = best_rate(start * s, s, times, course_of_a)
    return _miss(rate, start * s, s, times, course_of_a) - 0.05


def _one_mode(start: float, s: float) -> tuple[Array, Array]:
    """Times over the whole course from start · s to s, and a at these."""
    times = np.geomspace(0.01 / (1 + start), 5.0, 40) / s
    return times, course(np.sqrt(start * s) * np.eye(2), (s, s), times).a1


def _miss(rate: float, start: float, s: float, times: Array, a: Array) -> float:
    """The largest distance of the exponential from a, as a share of the range."""
    return float(np.abs(np.exp(-rate * times) - (a - s) / (start - s)).max())


def best_rate(start: float, s: float, times: Array, a: Array) -> float:
    """That of the exponential from start to s which misses a the least."""
    bounds = np.log([s / 2, 3 * start + 5 * s])
    found = minimize_scalar(lambda x: _miss(np.exp(x), start, s, times, a), bounds=bounds, method="bounded")
    return float(np.exp(found.x))


@exponential_limit.counterexample(
    "One mode of s = 1 from a = 10⁶, at t = 0.01: the best exponential has come to 1, the course to 1/(2t), nearly"
)
def _() -> tuple[float, float]:
    rate = best_rate(1e6, 1.0, *_one_mode(1e6, 1.0))
    return float(1 + (1e6 - 1) * np.exp(-0.01 * rate)), float(course(1e3 * np.eye(2), (1.0, 1.0), [0.01]).a1[0])
