"""Section 7: small random starts, from saddle to saddle, and what sets the times of that."""

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import hessian, layers, product, relative_error
from lazyrich.papers.base.types import Pair, Rng
from lazyrich.papers.notes.claims.passages import follow, half_times, passages, square
from lazyrich.papers.notes.claims.slips import GAP, TWO_LAYERS

NOT_CHECKED = (
    NotChecked(
        "Section 7.1, opening",
        "Without alignment the course is more complex but of the same kind.",
        "What counts as the same kind is not said; the stages that are named are checked one by one.",
    ),
    NotChecked(
        "References, Jacot et al. 2021",
        "The paper derives the times of transitions from the gaps of singular values.",
        "A matter of reading that paper; that the times are not set by gaps is checked here.",
    ),
)


def three_strengths(rng: Rng) -> Array:
    """s_1, s_2, s_3, each less than half of the one before."""
    return rng.uniform(1.0, 3.0) * np.cumprod([1.0, *rng.uniform(0.35, 0.45, size=2)])


def appearances(s: Array, start: Array) -> Array:
    """When the first two singular values of the product get to s_r/2, on the target diag(s).

    Gaussian layers know no basis, so that a diagonal target is as good as any; a mode that is still small then keeps
    its digits beside one that is large.
    """

    def readings(Ws: Array) -> Array:
        return (np.linalg.svd(product(Ws), compute_uv=False) - s / 2)[:2]

    return passages(square(np.diag(s)), start, readings, rtol=1e-10)


def slopes_in_log(s: Array, G: Array) -> Array:
    """By how much the times of two modes rise per unit of log(1/ε), from two layers εG_ℓ with ε of 1e-11 and 1e-14."""
    late, early = (appearances(s, epsilon * G) for epsilon in (1e-14, 1e-11))
    return (late - early) / np.log(1e3)


@claim(
    "notes/stage-0-size",
    place="Section 7.1, Stage 0",
    statement="From small Gaussian layers all singular values of their product start at the order ε^L.",
    formula=r"W_\ell(0) = \epsilon G_\ell \;\Rightarrow\; \sigma_i(W) \sim \epsilon^L",
    conditions="Any depth and widths. As the exponent of ε; the factors of single values may be far from 1.",
    tolerance=1e-11,
)
def stage_0_size(rng: Rng) -> float:
    L = int(rng.integers(1, 6))
    G = draws.gaussian(rng, (3, *rng.integers(3, 6, size=L - 1).tolist(), 4), 1.0)
    large, small = (np.linalg.svd(product([e * W for W in G]), compute_uv=False) for e in (1e-2, 1e-3))
    return relative_error(np.full(3, float(L)), np.log10(large / small))


def first_escape(T: Array, start: Array, level: float) -> float:
    """When the product of the layers is no longer small: its largest singular value gets to a level."""
    return float(passages(square(T), start, lambda Ws: np.linalg.norm(product(Ws), 2) - level, rtol=1e-10)[0])


def further_delays(rng: Rng) -> tuple[int, float, Array]:
    """The depth L, s_1, and what halving ε adds to the time near zero, once and once again, from W_ℓ = εG_ℓ."""
    L = int(rng.integers(2, 4))
    T, _, s, _ = draws.target(rng, 2, 2, rng.uniform(1.0, 3.0) * np.array([1.0, 0.4]))
    G, epsilon = rng.normal(size=(L, 2, 2)), 1e-7 if L == 2 else 1e-5
    return L, s[0], np.diff([first_escape(T, epsilon / 2**i * G, s[1] / 2) for i in range(3)])


def time_near_zero_as_printed(epsilon: Array, s1: float) -> Array:
    """t ∼ (1/s_1) log(s_1/ε)."""
    return np.log(s1 / epsilon) / s1


@claim(
    "notes/stage-0-time",
    place="Section 7.1, Stage 0",
    statement="From small Gaussian layers the network stays near zero for a time of the order of log(1/ε).",
    formula=r"t_0 \sim \frac{1}{s_1}\log\frac{s_1}{\epsilon}",
    conditions="W_ℓ(0) = εG_ℓ, any depth L ≥ 2, ε → 0. Compared are the delays that halving ε adds, once and again.",
    tolerance=1e-6,
    seeds=5,
)
def stage_0_time(rng: Rng) -> float:
    _, s1, delays = further_delays(rng)
    return relative_error(np.diff(time_near_zero_as_printed(0.5 ** np.arange(3), s1)), delays)


@stage_0_time.corrected(
    "For two layers alone; deeper ones stay for a time that is a power of the start.",
    formula=r"t_0 \sim \begin{cases} \frac{1}{s_1}\log\frac{1}{\epsilon} & L = 2 \\ "
    r"c\,\epsilon^{-(L-2)} & L \ge 3 \end{cases}",
    slips=(TWO_LAYERS,),
)
def stage_0_time_corrected(rng: Rng) -> float:
    L, s1, delays = further_delays(rng)
    if L == 2:
        return relative_error(np.full(2, np.log(2) / s1), delays)
    return relative_error(2.0 ** (L - 2), delays[1] / delays[0])


@stage_0_time.counterexample(
    "Three layers of one unit, s = 1: by which factor the time grows as ε falls from 0.1 to 0.01"
)
def _() -> tuple[float, float]:
    epsilon = np.array([1e-2, 1e-1])
    printed, measured = time_near_zero_as_printed(epsilon, 1.0), half_times(epsilon**3, 1.0, 3)
    return printed[0] / printed[1], measured[0] / measured[1]


def off_the_leading_mode(T: Array, start: Array) -> float:
    """The share of W outside s_1 u_1 v_1ᵀ when W is first no longer small."""
    U, s, Vt = np.linalg.svd(T)
    escape = first_escape(T, start, s[1] / 2)
    W = product(follow(square(T), start, [escape])[0])
    return float(np.linalg.norm(W - U[:, :1] @ (U[:, :1].T @ W @ Vt[:1].T) @ Vt[:1]) / np.linalg.norm(W))


def small_start(rng: Rng, L: int) -> tuple[Array, Array]:
    """A target 2 × 2 and small layers: Gaussian, and for L = 3 such that come near diag(1, 2), with two close modes."""
    s1 = rng.uniform(1.0, 3.0)
    if L == 2:
        return draws.target(rng, 2, 2, [s1, s1 * rng.uniform(0.4, 0.6)])[0], 1e-20 * rng.normal(size=(2, 2, 2))
    return s1 * np.diag([1.0, rng.uniform(0.8, 1.0)]), 1e-4 * (np.diag([1.0, 2.0]) + 0.1 * rng.normal(size=(L, 2, 2)))


@claim(
    "notes/stage-1",
    place="Section 7.1, Stage 1",
    statement="What leaves the plateau first, from small Gaussian layers, is the leading mode of the target, alone.",
    formula=r"W \approx a\, u_1 v_1^\top \quad \text{when } W \text{ escapes from } 0",
    conditions="W_ℓ(0) = εG_ℓ, any depth L ≥ 2, ε → 0. The error is the share of W in other modes.",
    tolerance=1e-6,
)
def stage_1(rng: Rng) -> float:
    return off_the_leading_mode(*small_start(rng, int(rng.integers(2, 4))))


@stage_1.stronger(
    "Two layers. In deeper ones a weaker mode with a larger start is first, from an open set of starts.",
    slips=(TWO_LAYERS,),
)
def stage_1_of_two_layers(rng: Rng) -> float:
    return off_the_leading_mode(*small_start(rng, 2))


@stage_1.counterexample(
    "T = diag(1, 0.9), three layers 1e-3·diag(1, 2): the share of W outside the first mode when W escapes"
)
def _() -> tuple[float, float]:
    return 0.0, off_the_leading_mode(np.diag([1.0, 0.9]), np.tile(1e-3 * np.diag([1.0, 2.0]), (3, 1, 1)))


def added_in_transition(rng: Rng, r: int, mode: int) -> float:
    """How far what W gains in its r-th transition is from mode number `mode` of the target."""
    T, U, s, V = draws.target(rng, 3, 3, three_strengths(rng))
    plateaus = np.array([0.0, *(1 / s[:-1] + 1 / s[1:])]) / 2 * np.log(1e20)  # halfway between appearances
    W = product(follow(square(T), 1e-20 * rng.normal(size=(2, 3, 3)), plateaus).swapaxes(0, 1))
    wanted = s[mode - 1] * np.outer(U[:, mode - 1], V[:, mode - 1])
    return relative_error(W[r] - W[r - 1], wanted)


def mode_as_printed(r: int) -> int:
    """Which mode the r-th transition adds."""
    return r + 1


@claim(
    "notes/stage-r",
    place="Section 7.1, Stage r",
    statement="In the r-th transition, counted from zero as in Stage 1, mode r + 1 is added.",
    formula=r"\text{transition } r: \quad W \to W + s_{r+1} u_{r+1} v_{r+1}^\top",
    conditions="Two layers, W_ℓ(0) = εG_ℓ, ε → 0. Tried at 1e-20, by the difference of W on two plateaus.",
    tolerance=1e-6,
    seeds=4,
)
def stage_r(rng: Rng) -> float:
    r = int(rng.integers(1, 3))
    return added_in_transition(rng, r, mode_as_printed(r))


@stage_r.corrected(
    "Mode r; Stage 1 of the same list has it right.", formula=r"\text{transition } r: \quad W \to W + s_r u_r v_r^\top"
)
def stage_r_corrected(rng: Rng) -> float:
    r = int(rng.integers(1, 3))
    return added_in_transition(rng, r, r)


@stage_r.counterexample("T = diag(2, 1), two layers 1e-20·(1 1; 1 2): W on the plateau after the first transition")
def _() -> Pair:
    T, G, plateau = np.diag([2.0, 1.0]), np.array([[1.0, 1.0], [1.0, 2.0]]), np.log(1e20) * 0.75
    W = product(follow(square(T), 1e-20 * np.stack([G, G]), [plateau])[0])
    return np.where(np.arange(2) == mode_as_printed(1) - 1, T, 0.0), W


@claim(
    "notes/wide-alignment",
    place="Section 7.1",
    statement="In wide networks a random start aligns with the target by itself, in a time that does not grow as the "
    "start gets smaller and the plateau longer.",
    formula=r"\frac{\|W - U\,\mathrm{diag}(U^\top W V)\,V^\top\|}{\|W\|} = O(h^{-1/2}) \quad \text{at } t = 1/s_1",
    conditions="Two layers, W_ℓ(0) = εG_ℓ of width h → ∞, ε → 0. Tried at h = 1000; the error is √h times that ratio, "
    "less 5.",
    tolerance=0.0,
)
def wide_alignment(rng: Rng) -> float:
    """A random quantity of order one remains: 2.1 at the most in 200 draws."""
    T, U, s, V = draws.target(rng, 3, 3, three_strengths(rng))
    h = 1000
    W = product(layers(draws.gaussian(rng, (3, h, 3), 1e-6), T, [1 / s[0]]))[0]
    off = W - U @ np.diag(np.diag(U.T @ W @ V)) @ V.T
    return float(np.sqrt(h) * np.linalg.norm(off) / np.linalg.norm(W)) - 5.0


def gap_times_as_printed(s: Array) -> Array:
    """τ_r/log(1/ε) ∼ 1/(s_r − s_{r+1})."""
    return 1 / (s[:-1] - s[1:])


@claim(
    "notes/gap-time",
    place="Section 7.2",
    statement="From a small random start, mode r takes a time of the order of log(1/ε) over its gap to the next mode.",
    formula=r"\tau_r \sim \frac{1}{s_r - s_{r+1}}\log\frac1\epsilon",
    conditions="Two layers, W_ℓ(0) = εG_ℓ, ε → 0. Compared are the rates at which the times of two modes rise with "
    "log(1/ε).",
    tolerance=1e-8,
)
def gap_time(rng: Rng) -> float:
    s = three_strengths(rng)
    printed, measured = gap_times_as_printed(s), slopes_in_log(s, rng.normal(size=(2, 3, 3)))
    return relative_error(printed[1] / printed[0], measured[1] / measured[0])


@gap_time.corrected(
    "The strength itself sets the time, not the gap, as it does for an aligned start.",
    formula=r"\tau_r \sim \frac{1}{s_r}\log\frac1\epsilon",
    slips=(GAP,),
)
def gap_time_corrected(rng: Rng) -> float:
    s = three_strengths(rng)
    return relative_error(1 / s[:2], slopes_in_log(s, rng.normal(size=(2, 3, 3))))


@gap_time.counterexample(
    "T = diag(5, 2, 1) and two random layers: by how much faster the time of mode 2 rises with log(1/ε) than that of "
    "mode 1"
)
def _() -> tuple[float, float]:
    s = np.array([5.0, 2.0, 1.0])
    printed, measured = gap_times_as_printed(s), slopes_in_log(s, np.random.default_rng(0).normal(size=(2, 3, 3)))
    return printed[1] / printed[0], measured[1] / measured[0]


@claim(
    "notes/equal-modes",
    place="Section 7.2",
    statement="Two modes of equal strength are learned together.",
    formula=r"s_r = s_{r+1} \;\Rightarrow\; \tau_{r+1} / \tau_r \to 1 \qquad (\epsilon \to 0)",
    conditions="W_ℓ(0) = εG_ℓ, ε → 0, any depth. Compared is what a smaller start adds to both times.",
    tolerance=1e-8,
)
def equal_modes(rng: Rng) -> float:
    """Aligned layers of random strengths suffice here to tell depths apart."""
    L, s, g = int(rng.integers(2, 4)), rng.uniform(0.5, 3.0), rng.uniform(0.5, 2.0, size=2)
    late, early = (half_times((epsilon * g) ** L, s, L) for epsilon in (1e-10, 1e-8))
    first, second = late - early
    return relative_error(1.0, second / first)


@equal_modes.stronger("Two layers. In deeper ones the time is a power of each mode's own start.", slips=(TWO_LAYERS,))
def equal_modes_of_two_layers(rng: Rng) -> float:
    first, second = slopes_in_log(np.full(2, rng.uniform(0.5, 3.0)), rng.normal(size=(2, 2, 2)))
    return relative_error(1.0, second / first)


@equal_modes.counterexample(
    "T = diag(1, 1), three layers 1e-4·diag(2, 1): the time of the second over that of the first"
)
def _() -> tuple[float, float]:
    first, second = half_times([8e-12, 1e-12], 1.0, 3)
    return 1.0, second / first


def delay_of_second(s: Array, G: Array, epsilon: float = 1e-10) -> float:
    """What a start 10³ times smaller adds to the time of mode 2; the closer it is to mode 1, the smaller ε must be."""
    late, early = (appearances(s, scale * G)[1] for scale in (1e-3 * epsilon, epsilon))
    return float(late - early)


@claim(
    "notes/near-degeneracy",
    place="Section 7.2, remark, and problem, part 2",
    statement="A mode close behind a stronger one is slow from a random start, whatever its own strength: the time of "
    "the second of s = 10, 9 is log(10³)/(10 − 9) ≈ 6.9 for ε = 10⁻³.",
    formula=r"\tau_2 \sim \frac{1}{s_1 - s_2}\log\frac1\epsilon",
    conditions="Two layers, W_ℓ(0) = εG_ℓ, ε → 0, s_2 close to s_1. Tried is the time that a factor 10³ in ε adds.",
    tolerance=1e-8,
)
def near_degeneracy(rng: Rng) -> float:
    s, G = two_close_modes(rng)
    return relative_error(np.log(1e3) * gap_times_as_printed(s)[0], delay_of_second(s, G))


@near_degeneracy.corrected(
    "The strength of the mode sets the time here too: 0.77 in the example.",
    formula=r"\tau_2 \sim \frac{1}{s_2}\log\frac1\epsilon",
    slips=(GAP,),
)
def near_degeneracy_corrected(rng: Rng) -> float:
    s, G = two_close_modes(rng)
    return relative_error(np.log(1e3) / s[1], delay_of_second(s, G))


@near_degeneracy.counterexample(
    "T = diag(10, 9), two layers ε(2 1; 1 1): the time that a factor 10³ in ε adds to mode 2"
)
def _() -> tuple[float, float]:
    s, G = np.array([10.0, 9.0]), np.tile(np.array([[2.0, 1.0], [1.0, 1.0]]), (2, 1, 1))
    return float(np.log(1e3) * gap_times_as_printed(s)[0]), delay_of_second(s, G, 1e-45)


def two_close_modes(rng: Rng) -> tuple[Array, Array]:
    s = rng.uniform(1.0, 10.0) * np.array([1.0, rng.uniform(0.6, 0.7)])
    return s, rng.normal(size=(2, 2, 2))


def example_times() -> Array:
    """s = 10, 9, 1, all from 10⁻³."""
    return half_times(1e-3, np.array([10.0, 9.0, 1.0]), 2)


@claim(
    "notes/example-10-9-1",
    place="Section 7.2, problem, part 1",
    statement="Aligned modes of strengths 10 and 1 are learned at 0.46 and 3.45 from 10⁻³.",
    formula=r"t_1^* \approx \tfrac{1}{20}\log 10^4 \approx 0.46, \qquad t_3^* \approx \tfrac12\log 10^3 \approx 3.45",
    conditions="Two layers, balanced and aligned, a(0) = 10⁻³; printed to two decimals.",
    tolerance=0.005,
)
def example_10_9_1(rng: Rng) -> float:
    return float(np.abs(example_times()[[0, 2]] - [0.46, 3.45]).max())


@claim(
    "notes/example-second-of-three",
    place="Section 7.2, problem, part 1",
    statement="The aligned mode of strength 9 is learned at 0.50 from 10⁻³.",
    formula=r"t_2^* \approx \tfrac{1}{18}\log 9000 \approx 0.50",
    conditions="Two layers, balanced and aligned, a(0) = 10⁻³; printed to two decimals.",
    tolerance=0.005,
)
def example_second_of_three(rng: Rng) -> float:
    return float(abs(0.50 - example_times()[1]))


@example_second_of_three.corrected(
    "(log 9000)/18 is 0.5058, which is printed rounded down; to the nearest it is 0.51.",
    formula=r"t_2^* \approx \tfrac{1}{18}\log 9000 \approx 0.51",
)
def example_second_of_three_corrected(rng: Rng) -> float:
    return float(abs(0.51 - example_times()[1]))


@example_second_of_three.counterexample("The example itself: printed, and the time at which a_2 = 4.5")
def _() -> tuple[float, float]:
    return 0.50, float(example_times()[1])


@claim(
    "notes/mixing-curvature",
    place="Section 7.2, problem, part 3",
    statement="Where two modes are nearly equal, the loss near the saddle at which the first is learned is nearly flat "
    "in the direction that mixes them: its curvature there is their gap.",
    formula=r"\kappa_{\mathrm{mix}} = s_1 - s_2",
    conditions="Two balanced layers at W = s_1 u_1 v_1ᵀ, h ≥ 2.",
    tolerance=1e-7,
)
def mixing_curvature(rng: Rng) -> float:
    """The hidden unit of mode 1 turns its ends in both layers towards mode 2."""
    s1 = rng.uniform(1.0, 3.0)
    T, U, s, V = draws.target(rng, 2, 2, [s1, s1 * rng.uniform(0.5, 1.0)])
    R = draws.orthogonal(rng, 2)
    start = [np.sqrt(s1) * np.outer(R[:, 0], V[:, 0]), np.sqrt(s1) * np.outer(U[:, 0], R[:, 0])]
    mixing = np.concatenate([np.outer(R[:, 0], V[:, 1]).ravel(), np.outer(U[:, 1], R[:, 0]).ravel()]) / np.sqrt(2)
    H = hessian(lambda Ws: ((product(Ws) - T) ** 2).sum() / 2, start)
    return relative_error((s[0] - s[1]) * mixing / s1, H @ mixing / s1)
