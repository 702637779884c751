"""Section 6, second part: how depth shapes the transition of a mode."""

import numpy as np

from lazyrich._typing import Array
from lazyrich.methods import mode_times
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import relative_error
from lazyrich.papers.base.types import Real, Rng
from lazyrich.papers.notes.claims.modes import mode_rate, mode_rates
from lazyrich.papers.notes.claims.passages import extrapolated, half_times, time_between
from lazyrich.papers.notes.claims.slips import STRONG_MODES, TWO_LAYERS

NOT_CHECKED = (
    NotChecked(
        "Section 6, problem, end",
        "Sharp transitions of deep networks agree with the analysis of the mean-field or rich limit.",
        "No quantity of that analysis is named.",
    ),
)


def widths(s: Real, L: int) -> Array:
    """The time from 0.1 s to 0.9 s in L equal layers, for each s."""
    return np.array([time_between(0.1 * si, 0.9 * si, si, L) for si in np.atleast_1d(s)])


@claim(
    "notes/deeper-sharper",
    place="Section 6, after the table",
    statement="The deeper the network, the shorter the transition of a mode.",
    formula=r"\delta t_{L+1} < \delta t_L",
    conditions="Balanced and aligned, L ≥ 2; from 0.1 s to 0.9 s. The error is the change of the width with one layer "
    "more, relative to it.",
    tolerance=0.0,
    seeds=7,
)
def deeper_sharper(rng: Rng) -> float:
    return _widens(10.0 ** rng.uniform(-2, 1), int(rng.integers(2, 6)))


@deeper_sharper.stronger("s ≥ 1. A weak mode takes longer: its width goes as s^{−(2−2/L)}.", slips=(STRONG_MODES,))
def deeper_sharper_if_strong(rng: Rng) -> float:
    return _widens(10.0 ** rng.uniform(0, 1), int(rng.integers(2, 6)))


@deeper_sharper.counterexample("s = 0.01: the widths for two and for three layers; printed is the larger as a bound")
def _() -> tuple[float, float]:
    two, three = (float(widths(0.01, L)[0]) for L in (2, 3))
    return two, three


def _widens(s: float, L: int) -> float:
    return float((widths(s, L + 1) / widths(s, L))[0] - 1)


@claim(
    "notes/deeper-longer-plateaus",
    place="Section 6, after the table",
    statement="The deeper the network, the longer the plateau before a mode is learned, also relative to its "
    "transition.",
    formula=r"t^*_{L+1} > t^*_L, \qquad \frac{t^*_{L+1}}{\delta t_{L+1}} > \frac{t^*_L}{\delta t_L}",
    conditions="Balanced and aligned, L ≥ 2; a(0) = ε → 0, the same for both depths. Tried at 1e-12; the error is 1 "
    "less the smaller of both ratios.",
    tolerance=0.0,
)
def deeper_longer_plateaus(rng: Rng) -> float:
    s, L = rng.uniform(0.1, 5.0), int(rng.integers(2, 6))
    plateau = float(half_times(1e-12, s, L + 1)[0] / half_times(1e-12, s, L)[0])
    return 1.0 - min(plateau, plateau / (1.0 + _widens(s, L)))


def widths_as_printed(s: Array) -> Array:
    """δt ∼ 1/s."""
    return 1 / s


@claim(
    "notes/transition-width",
    place="Section 6, problem, part 2",
    statement="At any depth the time of a transition is inversely proportional to the strength of the mode.",
    formula=r"\delta t_L \sim C_L / s",
    conditions="Balanced and aligned; from 0.1 s to 0.9 s. Two modes are compared.",
    tolerance=1e-9,
    seeds=4,
)
def transition_width(rng: Rng) -> float:
    s, L = rng.uniform(0.2, 5.0, size=2), int(rng.integers(2, 7))
    printed, measured = widths_as_printed(s), widths(s, L)
    return relative_error(printed[0] / printed[1], measured[0] / measured[1])


@transition_width.corrected(
    "For two layers alone; in general to another power of the strength.",
    formula=r"\delta t_L = \frac{c_L}{s^{2 - 2/L}}, \qquad c_L = \frac1L\int_{0.1}^{0.9}\frac{dx}{x^{2-2/L}(1-x)}",
    slips=(TWO_LAYERS,),
)
def transition_width_corrected(rng: Rng) -> float:
    s, L = rng.uniform(0.2, 5.0, size=2), int(rng.integers(2, 7))
    return relative_error(mode_times.width(s, L), widths(s, L))


@transition_width.counterexample("Three layers: the width at s = 1 over that at s = 8, which is 8^{4/3}")
def _() -> tuple[float, float]:
    s = np.array([1.0, 8.0])
    printed, measured = widths_as_printed(s), widths(s, 3)
    return printed[0] / printed[1], measured[0] / measured[1]


@claim(
    "notes/midpoint-rate",
    place="Section 6, problem, key insight",
    statement="The speed of a mode halfway, and what its power tends to with depth.",
    formula=r"\dot a = L\left(\tfrac s2\right)^{2(L-1)/L}\tfrac s2 \text{ at } a = \tfrac s2, \qquad "
    r"\left(\tfrac s2\right)^{2(L-1)/L} \to \tfrac{s^2}{4} \quad (L \to \infty)",
    conditions="Balanced and aligned. The limit is extrapolated from depths 4 to 64.",
    tolerance=1e-7,
)
def midpoint_rate(rng: Rng) -> float:
    s = rng.uniform(0.5, 4.0)
    measured = [midpoint_speed(s, L) for L in (4, 8, 16, 32, 64)]
    at_eight = relative_error(mode_rate(s / 2, s, 8), measured[1])
    powers = [speed / (L * s / 2) for speed, L in zip(measured, (4, 8, 16, 32, 64), strict=True)]
    return max(at_eight, relative_error(s**2 / 4, np.exp(extrapolated(np.log(powers)))))


def midpoint_speed(s: float, L: int) -> float:
    """ȧ at a = s/2 of one unit per layer, from values of the loss alone."""
    one = np.ones((1, 1))
    return float(mode_rates([one * (s / 2) ** (1 / L)] * L, one * s, one, one)[0])


@claim(
    "notes/midpoint-rate-grows",
    place="Section 6, problem, key insight",
    statement="The speed of a mode halfway grows with depth.",
    formula=r"L\left(\tfrac s2\right)^{2(L-1)/L}\tfrac s2 \text{ increases with } L",
    conditions="Balanced and aligned, L ≥ 2. The error is by which share one layer more slows it down.",
    tolerance=0.0,
    seeds=8,
)
def midpoint_rate_grows(rng: Rng) -> float:
    s, L = 10.0 ** rng.uniform(-2, 1), int(rng.integers(2, 6))
    return 1 - midpoint_speed(s, L + 1) / midpoint_speed(s, L)


@midpoint_rate_grows.stronger("s ≥ 1; below 0.59 a third layer slows the mode down.", slips=(STRONG_MODES,))
def midpoint_rate_grows_if_strong(rng: Rng) -> float:
    s, L = 10.0 ** rng.uniform(0, 1), int(rng.integers(2, 6))
    return 1 - midpoint_speed(s, L + 1) / midpoint_speed(s, L)


@midpoint_rate_grows.counterexample(
    "s = 0.02: the speeds halfway for two and for three layers, printed in rising order"
)
def _() -> tuple[list[float], list[float]]:
    speeds = [midpoint_speed(0.02, L) for L in (2, 3)]
    return sorted(speeds), speeds


def width_estimate(s: Array, L: int) -> Array:
    """2^{2(L−1)/L} / (L s^{2(L−1)/L})."""
    power = 2 * (L - 1) / L
    return 2**power / (L * s**power)


@claim(
    "notes/width-estimate",
    place="Section 6, problem, sketch",
    statement="Freezing the power of a at its value halfway gives the width of a transition up to a factor of order "
    "one.",
    formula=r"\delta t_L \sim \frac{2^{2(L-1)/L}}{L\, s^{2(L-1)/L}}",
    conditions="Balanced and aligned; from 0.1 s to 0.9 s. The power of s is compared between two modes; the error is "
    "1 where the factor is not between 2 and 3.5.",
    tolerance=1e-9,
)
def width_estimate_claim(rng: Rng) -> float:
    s, L = rng.uniform(0.2, 5.0, size=2), int(rng.integers(2, 30))
    first, second = factors = widths(s, L) / width_estimate(s, L)
    return relative_error(first, second) if factors.min() > 2 and factors.max() < 3.5 else 1.0


def limit_as_printed(s: float) -> float:
    """L δt → 4/s²."""
    return 4 / s**2


DEPTHS = (32, 64, 128, 256)


@claim(
    "notes/width-infinite-depth",
    place="Section 6, problem, sketch",
    statement="The width of a transition tends to 4/(Ls²) as the network gets deeper. It comes from an estimate of its "
    "order of magnitude, and the order 1/(Ls²) holds; taken here as the width from 0.1 s to 0.9 s, with its constant.",
    formula=r"\delta t_L \to \frac{4}{L s^2} \to 0 \qquad (L \to \infty)",
    conditions="Balanced and aligned, unit rate. L δt is extrapolated from depths 32 to 256.",
    tolerance=1e-6,
)
def width_infinite_depth(rng: Rng) -> float:
    s = rng.uniform(0.7, 2.0)
    return relative_error(limit_as_printed(s), depth_times_width(s))


@width_infinite_depth.corrected(
    "Only the constant 4 is refuted, which is that of the estimate; the order 1/(Ls²) is right.",
    formula=r"\delta t_L \to \frac{\ln 81 + 80/9}{L s^2} \approx \frac{13.28}{L s^2}",
)
def width_infinite_depth_corrected(rng: Rng) -> float:
    s = rng.uniform(0.7, 2.0)
    return relative_error(mode_times.time_infinite_depth(0.1 * s, 0.9 * s, s), depth_times_width(s))


@width_infinite_depth.counterexample("s = 1: the limit of L δt")
def _() -> tuple[float, float]:
    return limit_as_printed(1.0), depth_times_width(1.0)


def depth_times_width(s: float) -> float:
    """lim L δt_L."""
    return float(extrapolated([L * widths(s, L)[0] for L in DEPTHS]))


@claim(
    "notes/step-functions",
    place="Section 6, problem, sketch",
    statement="Transitions become arbitrarily sharp with depth, and instantaneous in the limit: the width tends to "
    "nothing. Measured here: L δt tends to a constant. So does L times the waiting time t* before it; relative to that "
    "time the width has a finite limit, and the curve keeps its shape in time × depth.",
    formula=r"L\,\delta t_L \to \tau(0.1s, 0.9s) \ \Rightarrow\ \delta t_L \to 0, \qquad \frac{\delta t_L}{t^*_L} \to"
    r" \frac{\tau(0.1s, 0.9s)}{\tau(\epsilon, s/2)}, \qquad \tau(a, b) = \frac{1}{s^2}\ln\frac{b(s - a)}{a(s - b)} +"
    r" \frac{1}{sa} - \frac{1}{sb}",
    conditions="Balanced and aligned; a(0) = ε fixed. Both limits are extrapolated from depths 32 to 256.",
    tolerance=1e-6,
)
def step_functions(rng: Rng) -> float:
    s = rng.uniform(0.7, 2.0)
    epsilon = s * rng.uniform(0.02, 0.08)
    width, time = (mode_times.time_infinite_depth(a, b, s) for a, b in ((0.1 * s, 0.9 * s), (epsilon, s / 2)))
    ratio = extrapolated([widths(s, L)[0] / half_times(epsilon, s, L)[0] for L in DEPTHS])
    return max(relative_error(width, depth_times_width(s)), relative_error(width / time, ratio))
