"""Section 5, second part: when a mode of two layers is learned, and how far apart in time two modes are."""

import numpy as np

from lazyrich._typing import Array
from lazyrich.methods import mode_times
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.oracles import product, relative_error
from lazyrich.papers.base.types import Rng, Row
from lazyrich.papers.notes.claims.passages import diagonal, extrapolated, follow, half_times, passages, square


def two_modes(rng: Rng) -> Array:
    """s_1 > s_2, neither close to one another nor far apart."""
    return rng.uniform(0.5, 3.0) * np.array([1.0, rng.uniform(0.2, 0.6)])


def example_half_times(rng: Rng) -> Array:
    """T = diag(3, 1) from a = 0.01 in both modes: when they are at half, in a network with a random hidden basis."""
    T, e = np.diag([3.0, 1.0]), np.eye(2)
    start = np.stack(draws.aligned(rng, e, e, [0.01, 0.01], (2, 2, 2)))
    return passages(square(T), start, lambda Ws: np.diag(product(Ws) - T / 2))


# What is printed with two decimals is tried to half a unit of the last.
@claim(
    "notes/example-first-time",
    place="Section 5.3, example T = diag(3, 1)",
    statement="From a strength of 0.01 the mode with s = 3 is learned at about 0.97.",
    formula=r"t_1^* \approx \tfrac16 \log 300 \approx 0.97",
    conditions="T = diag(3, 1), two layers, balanced and aligned, a(0) = 0.01 in both modes; printed to two decimals.",
    tolerance=0.005,
)
def example_first_time(rng: Rng) -> float:
    return abs(0.97 - example_half_times(rng)[0])


@example_first_time.corrected(
    "(log 300)/6 is 0.951, and the curve is at half its height at 0.950.",
    formula=r"t_1^* \approx \tfrac16\log 300 \approx 0.95",
)
def example_first_time_corrected(rng: Rng) -> float:
    return abs(0.95 - example_half_times(rng)[0])


@example_first_time.counterexample("The example itself: printed, and the time at which a_1 = 1.5")
def _() -> tuple[float, float]:
    return 0.97, float(half_times(0.01, 3.0, 2)[0])


@claim(
    "notes/example-second-time",
    place="Section 5.3, example T = diag(3, 1)",
    statement="From a strength of 0.01 the mode with s = 1 is learned at about 2.30, 2.4 times later than that with "
    "s = 3.",
    formula=r"t_2^* \approx \tfrac12 \log 100 \approx 2.30, \qquad t_2^* / t_1^* \approx 2.4",
    conditions="T = diag(3, 1), two layers, balanced and aligned, a(0) = 0.01 in both modes; errors are in half units "
    "of the last printed digit.",
    tolerance=1.0,
)
def example_second_time(rng: Rng) -> float:
    first, second = example_half_times(rng)
    return float(max(abs(2.30 - second) / 0.005, abs(2.4 - second / first) / 0.05))


@claim(
    "notes/transition-time",
    place="Section 5.4",
    statement="A mode is learned after a time that falls with its strength s and rises with the logarithm of its small "
    "start.",
    formula=r"t_\alpha^* \approx \frac{1}{2 s_\alpha} \log\left(\frac{s_\alpha}{a_\alpha(0)}\right)",
    conditions="Two layers, balanced and aligned; a(0) ≪ s. Tried at a(0)/s of 1e-12 or so, as the time to s/2.",
    tolerance=1e-9,
)
def transition_time(rng: Rng) -> float:
    s = rng.uniform(0.3, 5.0, size=2)
    a0 = s * 10.0 ** rng.uniform(-14, -11, size=2)
    return relative_error(mode_times.half_time_small_initialisation(a0, s), half_times(a0, s, 2))


@claim(
    "notes/half-time",
    place="Section 5.4, problem, part 3",
    statement="A mode is at half its strength at a time that is known exactly.",
    formula=r"a_1(t_1^*) = s_1/2 \;\Leftrightarrow\; t_1^* = \frac{1}{2 s_1}\log\left(\frac{s_1}{\epsilon} - 1\right)",
    conditions="Two layers, balanced and aligned; any start ε < s/2.",
    tolerance=1e-10,
)
def half_time(rng: Rng) -> float:
    s = rng.uniform(0.3, 5.0, size=2)
    a0 = s * 10.0 ** rng.uniform(-4, -0.5, size=2)
    return relative_error(mode_times.half_time(a0, s), half_times(a0, s, 2))


@claim(
    "notes/larger-first",
    place="Section 5.4, key consequence",
    statement="Of modes with the same small start the stronger is learned earlier.",
    formula=r"s_1 > s_2 \;\Rightarrow\; t_1^* < t_2^*",
    conditions="Two layers, balanced and aligned; a(0) = ε ≪ 1 in all modes. The error is t_1* − t_2*, negative where "
    "the order is right.",
    tolerance=0.0,
)
def larger_first(rng: Rng) -> float:
    s = np.sort(rng.uniform(0.3, 3.0, size=3))[::-1]
    return float(np.diff(-half_times(s[-1] * 10.0 ** rng.uniform(-4, -1), s, 2)).max())


@claim(
    "notes/separation",
    place="Section 5.4, key consequence, and problem, part 3",
    statement="Where one mode is much stronger than the next, it is all but learned before the next has grown "
    "appreciably.",
    formula=r"s_1 \gg s_2,\ \epsilon \to 0: \quad a_1 \approx s_1 \text{ while } a_2 \ll s_2",
    conditions="Two layers, balanced and aligned; a(0) = ε in both. Tried with s_1 ≥ 10 s_2 and ε ≤ s_2/100; the error "
    "is a_2/s_2 − 1/20 at the time where a_1 = 0.99 s_1.",
    tolerance=0.0,
)
def separation(rng: Rng) -> float:
    s2 = rng.uniform(0.3, 1.0)
    s, epsilon = s2 * np.array([10.0 ** rng.uniform(1, 2), 1.0]), s2 * 10.0 ** rng.uniform(-6, -2)
    start = np.full((2, 2), np.sqrt(epsilon))
    (learned,) = passages(diagonal(s), start, lambda w: w.prod(axis=0)[:1] - 0.99 * s[0])
    return float(follow(diagonal(s), start, [learned])[0].prod(axis=0)[1] / s2 - 0.05)


@claim(
    "notes/time-ratio",
    place="Section 5.4, problem, part 1",
    statement="The ratio of the times of two modes, from the same small start.",
    formula=r"\frac{t_2^*}{t_1^*} = \frac{s_1 \log(s_2/\epsilon)}{s_2 \log(s_1/\epsilon)}",
    conditions="Two layers, balanced and aligned; a(0) = ε ≪ s. Tried at ε of 1e-12 or so.",
    tolerance=1e-9,
)
def time_ratio(rng: Rng) -> float:
    s, epsilon = two_modes(rng), 10.0 ** rng.uniform(-14, -12)
    first, second = half_times(epsilon, s, 2)
    return relative_error(s[0] * np.log(s[1] / epsilon) / (s[1] * np.log(s[0] / epsilon)), second / first)


@claim(
    "notes/time-ratio-limit",
    place="Section 5.4, problem, part 2",
    statement="As the start gets smaller, the ratio of the times of two modes tends to the inverse ratio of their "
    "strengths.",
    formula=r"\frac{t_2^*}{t_1^*} \to \frac{s_1}{s_2} \quad (\epsilon \to 0)",
    conditions="Two layers, balanced and aligned; a(0) = ε in both. The limit is reached as 1/log(1/ε), so the times "
    "that a smaller start adds are compared, from which the constants drop out.",
    tolerance=1e-8,
)
def time_ratio_limit(rng: Rng) -> float:
    s = two_modes(rng)
    first, second = half_times(1e-26, s, 2) - half_times(1e-13, s, 2)
    return relative_error(s[0] / s[1], second / first)


@claim(
    "notes/logistic-width",
    place="Section 5.4, problem, key insight",
    statement="The transition of a mode takes a time inversely proportional to its strength.",
    formula=r"\delta t_\alpha \propto 1/s_\alpha",
    conditions="Two layers, balanced and aligned. Two modes are compared, from 0.1 s to 0.9 s.",
    tolerance=1e-9,
)
def logistic_width(rng: Rng) -> float:
    s = rng.uniform(0.2, 5.0, size=2)
    start = np.tile(np.sqrt(0.1 * s), (2, 1))
    widths = passages(diagonal(s), start, lambda w: w.prod(axis=0) - 0.9 * s)
    return relative_error(s[1] / s[0], widths[0] / widths[1])


@claim(
    "notes/clean-separation",
    place="Section 5.4, problem, key insight",
    statement="Transitions of two modes that do not overlap are further apart than the width of the first.",
    formula=r"\text{no overlap} \;\Rightarrow\; 1/s_1 < t_2^* - t_1^*",
    conditions="Two layers, balanced and aligned; a(0) = ε in both; a transition lasts from 0.1 s to 0.9 s. The error "
    "is 1/s_1 − (t_2* − t_1*), and −1 where transitions overlap.",
    tolerance=0.0,
    seeds=6,
)
def clean_separation(rng: Rng) -> float:
    """As the necessary condition that it is; it is not sufficient, since the second transition is the wider one."""
    s2 = rng.uniform(0.5, 2.0)
    s, start = s2 * np.array([rng.uniform(1.2, 4.0), 1.0]), np.full((2, 2), np.sqrt(s2 * 10.0 ** rng.uniform(-4, -2)))
    levels = np.array([[0.1], [0.5], [0.9]]) * s
    begins, half, ends = passages(diagonal(s), start, lambda w: (w.prod(axis=0) - levels).ravel()).reshape(3, 2)
    return float(1 / s[0] - (half[1] - half[0])) if ends[0] < begins[1] else -1.0


def second_mode(s: Row, epsilon: float) -> float:
    """a_2 at the time where a_1 = s_1/2, both from ε, integrated."""
    (t1,) = half_times(epsilon, s[0], 2)
    return float(follow(diagonal(s[1]), np.full((2, 1), np.sqrt(epsilon)), [t1])[0].prod())


@claim(
    "notes/second-mode",
    place="Section 5.4, problem, part 3",
    statement="How far the second mode has come when the first is at half its strength.",
    formula=r"a_2(t_1^*) \approx \epsilon \left(\frac{s_1}{\epsilon}\right)^{s_2/s_1}",
    conditions="Two layers, balanced and aligned; a(0) = ε in both, ε → 0. Tried at 1e-30.",
    tolerance=1e-8,
)
def second_mode_claim(rng: Rng) -> float:
    s, epsilon = two_modes(rng), 1e-30
    return relative_error(epsilon * (s[0] / epsilon) ** (s[1] / s[0]), second_mode(s, epsilon))


@claim(
    "notes/second-mode-power",
    place="Section 5.4, problem, part 3",
    statement="For a much weaker second mode what it has come to is a power of the start, which vanishes with it.",
    formula=r"a_2(t_1^*) \approx \epsilon^{1 - s_2/s_1} \to 0, \qquad s_2 \ll s_1,\ \epsilon \to 0",
    conditions="Two layers, balanced and aligned; a(0) = ε in both. The exponent is taken from two values of ε, the "
    "factor before the power is extrapolated to s_2/s_1 = 0.",
    tolerance=1e-8,
)
def second_mode_power(rng: Rng) -> float:
    s1, epsilon = rng.uniform(0.5, 3.0), 1e-30
    ratios = rng.uniform(0.1, 0.2) / np.array([1.0, 2.0])
    reached = np.array([second_mode((s1, r * s1), epsilon) for r in ratios])
    exponent = np.log(second_mode((s1, ratios[0] * s1), 1e-20) / reached[0]) / np.log(1e-20 / epsilon)
    factor = np.exp(extrapolated(np.log(reached / epsilon ** (1 - ratios))))
    return max(relative_error(1 - ratios[0], exponent), relative_error(1.0, factor))
