"""Section 6, first part: one mode after the other, and one layer against more."""

from collections.abc import Sequence

import numpy as np

from lazyrich._typing import Array
from lazyrich.methods import mode_times
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import gradient, layers, product, relative_error
from lazyrich.papers.base.types import Real, Rng, Row, Values
from lazyrich.papers.notes.claims.passages import diagonal, follow, half_times, passages, time_between
from lazyrich.papers.notes.claims.slips import TWO_LAYERS

NOT_CHECKED = (
    NotChecked(
        "Section 6, remark",
        "The order of learning is the linear counterpart of the spectral bias of nonlinear networks.",
        "An analogy between kinds of networks, without a statement that could fail.",
    ),
)


def strengths(rng: Rng, k: int = 3) -> Array:
    """s_1 > … > s_k, each at most 0.4 of the one before."""
    return rng.uniform(1.0, 3.0) * np.cumprod([1.0, *rng.uniform(0.25, 0.4, size=k - 1)])


def strength(epsilon: float, s: float, L: int, times: Row) -> Array:
    """a(t) of one mode of L equal layers from ε: one unit per layer, integrated."""
    return follow(diagonal(s), np.full((L, 1), epsilon ** (1 / L)), times).prod(axis=(1, 2))


@claim(
    "notes/greedy-order",
    place="Section 6, opening",
    statement="The modes of the target are learned one at a time, the strongest first: each is still small when the "
    "one before is learned.",
    formula=r"a_r = 0.99\, s_r \;\Rightarrow\; a_{r+1} \ll s_{r+1}",
    conditions="L ≥ 2 layers, balanced and aligned; a(0) = ε → 0 in all modes. The error is the largest "
    "a_{r+1}/s_{r+1} less 0.01 when a_r gets to 0.99 s_r.",
    tolerance=0.0,
)
def greedy_order(rng: Rng) -> float:
    s, L = strengths(rng), int(rng.integers(2, 4))
    epsilon = 1e-24 if L == 2 else 1e-15
    learned = [time_between(epsilon, 0.99 * si, si, L) for si in s[:-1]]
    return max(float(strength(epsilon, s[r + 1], L, [learned[r]])[0] / s[r + 1]) for r in (0, 1)) - 0.01


def truncated(s: Array, r: int) -> Array:
    """The strengths of the best approximation of rank r."""
    return np.where(np.arange(len(s)) < r, s, 0.0)


def off_the_steps(rng: Rng, share: float) -> float:
    """How far a is from the truncation r at this share of the way from t_r* to t_{r+1}*, worst r."""
    s, start = strengths(rng), np.full((2, 3), 1e-15)
    half = passages(diagonal(s), start, lambda w: w.prod(axis=0) - s / 2)
    a = follow(diagonal(s), start, half[:-1] + share * np.diff(half)).prod(axis=1)
    return max(relative_error(a[r - 1], truncated(s, r)) for r in (1, 2))


@claim(
    "notes/rank-r-passages",
    place="Section 6",
    statement="Between the times of two consecutive modes the network is near the best approximation of the target of "
    "that rank.",
    formula=r"W(t) \approx \sum_{\alpha=1}^r s_\alpha u_\alpha v_\alpha^\top, \qquad t \in [t_r^*, t_{r+1}^*)",
    conditions="Two layers, balanced and aligned; a(0) = ε → 0 in all modes. Tried at ε = 1e-30.",
    tolerance=1e-6,
)
def rank_r_passages(rng: Rng) -> float:
    return off_the_steps(rng, 0.0)


@rank_r_passages.stronger(
    "Inside the interval, at a fixed share of it: at its ends a mode is at half by definition, and the distance is s/2."
)
def rank_r_passages_inside(rng: Rng) -> float:
    return off_the_steps(rng, rng.uniform(0.4, 0.6))


@rank_r_passages.counterexample(
    "s = (2, 1), ε = 1e-30, at t_1*: the first strength of the truncation, and of the network"
)
def _() -> tuple[float, float]:
    return float(truncated(np.array([2.0, 1.0]), 1)[0]), float(strength(1e-30, 2.0, 2, half_times(1e-30, 2.0, 2))[0])


@claim(
    "notes/truncation-is-saddle",
    place="Section 6",
    statement="The truncation of the target to its r strongest modes is a critical point of the loss and a saddle: the "
    "loss falls along the next mode, and rises along those that are learned.",
    formula=r"\nabla_{W_\ell} L = 0 \text{ at } W = \sum_{\alpha=1}^r s_\alpha u_\alpha v_\alpha^\top,\quad r < k",
    conditions="L ≥ 2 balanced layers, no bottleneck.",
    tolerance=1e-12,
)
def truncation_is_saddle(rng: Rng) -> float:
    T, U, s, V = draws.target(rng, 3, 4)
    L, r, step = int(rng.integers(2, 5)), int(rng.integers(1, 3)), 1e-2

    def loss(Ws: Sequence[Array]) -> Values:
        return ((product(Ws) - T) ** 2).sum() / 2

    def network(a: Array) -> list[Array]:
        return draws.aligned(np.random.default_rng(0), U, V, a, (4, *[3] * (L - 1), 3))

    a, following, first = truncated(s, r), np.arange(3) == r, np.arange(3) == 0
    here, along, against = (loss(network(x)) for x in (a, a + step * following, a + step * first))
    gradients = gradient(loss, network(a))
    return max(float(np.abs(slope).max()) for slope in gradients) if along < here < against else np.inf


@claim(
    "notes/depth-1-linear",
    place="Section 6, table, rows Dynamics, All modes learned simultaneously and Greedy low-rank bias",
    statement="With one layer the flow is linear, and from zero all modes have come the same share of their way at any "
    "time; with more layers it is not linear.",
    formula=r"L = 1: \quad \dot W \text{ affine in } W, \qquad a_\alpha(t)/s_\alpha \text{ equal for all } \alpha",
    conditions="White inputs; W(0) = 0 for the second part. Where two layers are affine too the error is 1.",
    tolerance=1e-10,
)
def depth_1_linear(rng: Rng) -> float:
    T, U, s, V = draws.target(rng, 3, 3)

    def curvature(L: int) -> float:
        """How far the velocity of all weights is from affine."""
        A, B = rng.normal(size=(2, L, 3, 3))
        sum_, a, b, zero = (
            np.stack(gradient(lambda Ws: ((product(Ws) - T) ** 2).sum() / 2, list(Ws))) for Ws in (A + B, A, B, 0 * A)
        )
        return relative_error(a + b - zero, sum_)

    shares = np.einsum("oa,toi,ia->ta", U, product(layers([np.zeros((3, 3))], T, [0.2, 1.0, 3.0])), V) / s
    error = max(curvature(1), relative_error(shares, np.repeat(shares[:, :1], 3, axis=1)))
    return error if curvature(2) > 1e-3 else 1.0


def decay_time(rng: Rng, s: Array) -> Array:
    """The time in which the error of each mode of one layer falls by e, from a random start."""
    T, U, s, V = draws.target(rng, len(s), len(s), s)
    span = 0.5
    W0 = rng.normal(size=T.shape)
    W = product(layers([W0], T, [span]))[0]
    before, after = (np.diag(U.T @ (T - X) @ V) for X in (W0, W))
    return span / np.log(before / after)


def shallow_times_as_printed(s: Array) -> Array:
    """τ ∼ 1/s."""
    return 1 / s


@claim(
    "notes/depth-1-time",
    place="Section 6, table, row Timescale, depth 1",
    statement="With one layer the time scale of a mode is the inverse of its strength.",
    formula=r"L = 1: \quad \tau_\alpha \sim 1/s_\alpha",
    conditions="White inputs; any start. Times of two modes are compared, so that a common factor does not matter.",
    tolerance=1e-8,
)
def depth_1_time(rng: Rng) -> float:
    s = strengths(rng, 2)
    return relative_error(*(times[1] / times[0] for times in (shallow_times_as_printed(s), decay_time(rng, s))))


@depth_1_time.corrected(
    "White inputs make it the same for every mode, 1 at unit rate: that is why all are learned together.",
    formula=r"L = 1: \quad \tau_\alpha = 1",
)
def depth_1_time_corrected(rng: Rng) -> float:
    return relative_error(np.ones(2), decay_time(rng, strengths(rng, 2)))


@depth_1_time.counterexample("T = diag(2, 1): the time of the second mode over that of the first")
def _() -> tuple[float, float]:
    s = np.array([2.0, 1.0])
    printed, measured = shallow_times_as_printed(s), decay_time(np.random.default_rng(0), s)
    return printed[1] / printed[0], measured[1] / measured[0]


def two_small_modes(rng: Rng) -> tuple[Array, int, Array]:
    """Strengths, a depth, and starts so small that what is left out is below 1e-8, and no time much above 1e9."""
    L = int(rng.integers(2, 6))
    return strengths(rng, 2), L, np.array([1e-9, 1e-8]) ** (3 if L == 2 else L / (L - 2))


def deep_times_as_printed(epsilon: Array, s: Real) -> Array:
    """t* ∼ (1/s) log(s/ε)."""
    return np.log(s / epsilon) / s


@claim(
    "notes/deep-time",
    place="Section 6, table, row Timescale, depth ≥ 2",
    statement="With two layers or more, a mode is learned in a time of the order of the logarithm of its small start.",
    formula=r"L \ge 2: \quad t_\alpha^* \sim \frac{1}{s_\alpha}\log\frac{s_\alpha}{\epsilon}",
    conditions="Balanced and aligned, any depth L ≥ 2; a(0) = ε → 0. Two modes and two starts are compared, so that a "
    "common factor does not matter.",
    tolerance=1e-7,
)
def deep_time(rng: Rng) -> float:
    s, L, epsilon = two_small_modes(rng)
    printed, measured = deep_times_as_printed(epsilon, s), half_times(epsilon, s, L)
    return relative_error(printed[1] / printed[0], measured[1] / measured[0])


@deep_time.corrected(
    "For two layers alone; deeper ones take a power of the start.",
    formula=r"t_\alpha^* \approx \begin{cases} \frac{1}{2 s_\alpha}\log\frac{s_\alpha}{\epsilon} & L = 2 \\ "
    r"\frac{\epsilon^{-(1 - 2/L)}}{(L-2)\, s_\alpha} & L \ge 3 \end{cases}",
    slips=(TWO_LAYERS,),
)
def deep_time_corrected(rng: Rng) -> float:
    s, L, epsilon = two_small_modes(rng)
    return relative_error(mode_times.half_time_small_initialisation(epsilon, s, L), half_times(epsilon, s, L))


@deep_time.counterexample("L = 3, s = 1: by which factor the time grows as ε falls from 1e-3 to 1e-6")
def _() -> tuple[float, float]:
    epsilon = np.array([1e-6, 1e-3])
    printed, measured = deep_times_as_printed(epsilon, 1.0), half_times(epsilon, 1.0, 3)
    return printed[0] / printed[1], measured[0] / measured[1]


@claim(
    "notes/plateaus",
    place="Section 6, table, row Plateau phases",
    statement="A smaller start delays learning without bound if there are two layers or more, and does not if there is "
    "one.",
    formula=r"t^*(\epsilon) \to \infty \;\Leftrightarrow\; L \ge 2 \qquad (\epsilon \to 0)",
    conditions="Balanced and aligned; a(0) = ε. For L = 1 the error is the delay that a start 1e4 times smaller adds; "
    "for more layers it is by how much that is less than 4 in units of 1/s.",
    tolerance=1e-5,
)
def plateaus(rng: Rng) -> float:
    """1e4 times smaller: log(1e4)/2 = 4.6 for two layers, more for deeper ones."""
    s, L = rng.uniform(0.5, 3.0), int(rng.integers(2, 5))
    (shallow,) = np.diff(half_times(s * np.array([1e-6, 1e-10]), s, 1))
    (deep,) = np.diff(half_times(s * np.array([1e-6, 1e-10]), s, L))
    return max(abs(float(shallow)), 4.0 - float(deep) * s ** (2 - 2 / L))
