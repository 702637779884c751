"""Section 9, second part: the lazy end of the λ family, what is frozen there and what is learned together."""

from functools import partial

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import gradient, integrate, layers, product, relative_error
from lazyrich.papers.base.types import Loss, Pair, Real, Rng, Row, Values
from lazyrich.papers.notes.claims.lambda_family import LARGE, two_layers
from lazyrich.papers.notes.claims.passages import diagonal, extrapolated, passages
from lazyrich.papers.notes.claims.slips import FROZEN

NOT_CHECKED = (
    NotChecked(
        "Section 9.2",
        "At λ = 0 the rotation of singular vectors is what feature learning is.",
        "A choice of words; that they rotate is checked as `notes/rotation`.",
    ),
)


def lazy_start(W0: Array, lam: float, O: Array) -> list[Array]:
    """Square layers with W2W1 = W0 and W2ᵀW2 − W1W1ᵀ = λI, for any sign of λ: W2 ≈ √λ·O for large λ > 0."""
    U, a, Vt = np.linalg.svd(W0)
    sums = np.hypot(lam, 2 * a)
    # the smaller of the two layers by a²/larger, which does not cancel
    large = np.sqrt((sums + abs(lam)) / 2)
    small = a / large
    first, second = (small, large) if lam > 0 else (large, small)
    R = U.T @ O
    return [R.T @ np.diag(first) @ Vt, U @ np.diag(second) @ R]


def in_the_lazy_limit(measure: Loss, T: Array, W0: Array, O: Array, tau: Row) -> Values:
    """What a measure of the layers, stacks over times τ/λ, tends to as λ → ∞, all from the same W0."""
    return extrapolated([measure(layers(lazy_start(W0, lam, O), T, np.asarray(tau) / lam)) for lam in LARGE])


def lazy_problem(rng: Rng, n: int = 2) -> tuple[Array, Array, Array]:
    """A target, another function to start from, and the frame of the large layer."""
    return draws.target(rng, n, n)[0], rng.normal(size=(n, n)), draws.orthogonal(rng, n)


def right_frame_turned(weights: list[Array]) -> float:
    """The sine of the angle between the first right singular vectors of W1 at the first and at the last time."""
    first, last = (np.linalg.svd(W)[2][0] for W in (weights[0][0], weights[0][-1]))
    return float(np.sqrt(max(0.0, 1 - (first @ last) ** 2)))


def change_of_large_layer(weights: list[Array]) -> float:
    """‖W2(t) − W2(0)‖/‖W2(0)‖."""
    return float(np.linalg.norm(weights[1][-1] - weights[1][0]) / np.linalg.norm(weights[1][0]))


@claim(
    "notes/locked-vectors",
    place="Section 9.2",
    statement="For large λ the right singular vectors of every layer stay where they start.",
    formula=r"v_i(W_\ell(t)) \to v_i(W_\ell(0)) \qquad (\lambda \to \infty)",
    conditions="Two square layers, W2ᵀW2 − W1W1ᵀ = λI, the same W(0) for all λ. The error is the sine of the angle by "
    "which the first of W1 has turned at λt = 20, extrapolated to λ = ∞.",
    tolerance=1e-7,
)
def locked_vectors(rng: Rng) -> float:
    return abs(float(in_the_lazy_limit(right_frame_turned, *lazy_problem(rng), [0.0, 20.0])))


@locked_vectors.corrected(
    "What is locked is the large layer as a whole; the small one turns all the way to the right singular vectors of T.",
    formula=r"\|W_2(t) - W_2(0)\| / \|W_2(0)\| \to 0 \qquad (\lambda \to +\infty)",
    slips=(FROZEN,),
)
def locked_large_layer(rng: Rng) -> float:
    return abs(float(in_the_lazy_limit(change_of_large_layer, *lazy_problem(rng), [0.0, 20.0])))


@locked_vectors.counterexample(
    "T = diag(2, 1), W(0) = (1 2; 2 1), λ = 10⁴: the sine of the angle by which the first right singular vector of W1 "
    "turns"
)
def _() -> tuple[float, float]:
    start = lazy_start(np.array([[1.0, 2.0], [2.0, 1.0]]), 1e4, np.eye(2))
    return 0.0, right_frame_turned(layers(start, np.diag([2.0, 1.0]), [0.0, 20e-4]))


@claim(
    "notes/direction-of-w",
    place="Section 9.2",
    statement="For large λ the singular values of W grow, while its direction barely changes.",
    formula=r"W(t)/\|W(t)\| \to W(0)/\|W(0)\| \qquad (\lambda \to \infty)",
    conditions="Two square layers, W2ᵀW2 − W1W1ᵀ = λI, the same W(0) for all λ; at λt of 0.5 and 3, extrapolated to "
    "λ = ∞.",
    tolerance=1e-7,
)
def direction_of_w(rng: Rng) -> float:
    T, W0, O = lazy_problem(rng)
    W = in_the_lazy_limit(product, T, W0, O, [0.5, 3.0])
    return max(relative_error(W0 / np.linalg.norm(W0), Wt / np.linalg.norm(Wt)) for Wt in W)


@direction_of_w.corrected(
    "W moves straight from where it starts to T, and its direction with it; singular values may fall.",
    formula=r"W(t) \to T + (W(0) - T)\,e^{-\lambda t} \qquad (\lambda \to \infty,\ \lambda t \text{ fixed})",
    slips=(FROZEN,),
)
def direction_of_w_corrected(rng: Rng) -> float:
    T, W0, O = lazy_problem(rng)
    tau = np.array([0.5, 3.0])
    straight = T + (W0 - T) * np.exp(-tau)[:, None, None]
    return relative_error(straight, in_the_lazy_limit(product, T, W0, O, tau))


@direction_of_w.counterexample("T = diag(1, 0), W(0) = diag(0, 1), λ = 10⁴, at the end: W over its norm")
def _() -> Pair:
    W0, T = np.diag([0.0, 1.0]), np.diag([1.0, 0.0])
    W = product(layers(lazy_start(W0, 1e4, np.eye(2)), T, [30e-4]))[0]
    return W0, W / np.linalg.norm(W)


def _entry_of_product(entry: tuple[int, int], weights: list[Array]) -> Values:
    return product(weights)[entry]


def tangent_kernel(W1: Array, W2: Array) -> Array:
    """Inner products of the gradients of all entries of W2W1, entry by entry."""
    entries = [(i, j) for i in range(len(W2)) for j in range(W1.shape[1])]
    gradients = [gradient(partial(_entry_of_product, entry), [W1, W2]) for entry in entries]
    J = np.array([np.concatenate([slope.ravel() for slope in pair]) for pair in gradients])
    return J @ J.T


def change_of_kernel(weights: list[Array]) -> float:
    """‖K(t) − K(0)‖/‖K(0)‖ at the last time."""
    first, last = (tangent_kernel(weights[0][i], weights[1][i]) for i in (0, -1))
    return float(np.linalg.norm(last - first) / np.linalg.norm(first))


@claim(
    "notes/kernel-frozen",
    place="Section 9.2",
    statement="For large λ the tangent kernel does not change during training.",
    formula=r"\|K(t) - K(0)\| / \|K(0)\| \to 0 \qquad (\lambda \to \infty)",
    conditions="Two layers, W2ᵀW2 − W1W1ᵀ = λI, until T is learned.",
    tolerance=1e-7,
)
def kernel_frozen(rng: Rng) -> float:
    """Square layers half of the time, else fewer hidden units than outputs."""
    return _kernel_of_square_layers(rng) if rng.random() < 0.5 else kernel_of_one_unit(rng.uniform(5.0, 10.0))


@kernel_frozen.stronger(
    "The large layer spans all the directions of the target, such as for λ > 0 and h = d_out. Otherwise it has to "
    "turn, late, in a time of order λ/s²."
)
def _kernel_of_square_layers(rng: Rng) -> float:
    return abs(float(in_the_lazy_limit(change_of_kernel, *lazy_problem(rng), [0.0, 20.0])))


def kernel_of_one_unit(lam: float) -> float:
    """One input, one hidden unit, two outputs, T = (1, 0)ᵀ and W2 = √λ (1, 1)ᵀ/√2, until T is learned."""
    weights = [np.zeros((1, 1)), np.sqrt(lam / 2) * np.ones((2, 1))]
    return change_of_kernel(layers(weights, np.array([[1.0], [0.0]]), [0.0, 12.0 * lam]))


@kernel_frozen.counterexample("One hidden unit, T = (1, 0)ᵀ, W1 = 0, W2 = √5 (1, 1)ᵀ, so that λ = 10: the change of K")
def _() -> tuple[float, float]:
    return 0.0, kernel_of_one_unit(10.0)


@claim(
    "notes/rotation",
    place="Section 9.2",
    statement="At λ = 0, from a start that is not aligned, the singular vectors of W turn to those of the target.",
    formula=r"U^\top W(t) V \to \mathrm{diag}(s_\alpha) \qquad (t \to \infty)",
    conditions="Two balanced layers, d_in ≠ d_out, h ≥ rank T. Tried at t = 20/s_k; the error is 1 where the start is "
    "aligned already.",
    tolerance=1e-7,
)
def rotation(rng: Rng) -> float:
    T, U, s, V = draws.target(rng, 2, 3)
    weights = draws.balanced(rng, (3, 4, 2), 1.0)
    start, end = product(layers(weights, T, [0.0, 20.0 / s[-1]]))
    turned = U.T @ start @ V
    return relative_error(np.diag(s), U.T @ end @ V) if abs(turned[0, 1]) + abs(turned[1, 0]) > 1e-3 else 1.0


def lazy_curve(s: float, times: float | Row, lam: float) -> Real:
    """s (1 − e^{−λt}); with λ = 1 as printed."""
    return s * (1 - np.exp(-lam * np.asarray(times)))


@claim(
    "notes/lazy-limit",
    place="Section 9.2, lazy limit",
    statement="For large λ every mode follows the same linear equation of unit rate.",
    formula=r"\dot a_\alpha \approx s_\alpha - a_\alpha, \qquad a_\alpha(t) = s_\alpha(1 - e^{-t}) \qquad "
    r"(\lambda \to \infty)",
    conditions="Two layers, aligned, a(0) = 0. Compared at t = τ/λ for fixed τ, as λ → ∞; extrapolated.",
    tolerance=1e-8,
)
def lazy_limit(rng: Rng, unit_rate: bool = True) -> float:
    s, tau = rng.uniform(0.5, 3.0), rng.uniform(0.3, 2.0)
    measured = extrapolated([two_layers(np.zeros(1), lam, s, [tau / lam])[0, 0] for lam in LARGE])
    stated = extrapolated([lazy_curve(s, tau / lam, 1.0 if unit_rate else lam) for lam in LARGE])
    return relative_error(stated, measured)


@lazy_limit.corrected(
    "The rate is λ, not 1: at unit rate of the weights the large layer multiplies it.",
    formula=r"\dot a_\alpha \approx |\lambda|\,(s_\alpha - a_\alpha), \qquad "
    r"a_\alpha(t) = s_\alpha(1 - e^{-|\lambda| t})",
)
def lazy_limit_corrected(rng: Rng) -> float:
    return lazy_limit.check(rng, unit_rate=False)


@lazy_limit.counterexample("λ = 100, s = 1, W1 = 0, W2 = 10, at t = 0.01, which is 1/λ: the strength a")
def _() -> tuple[float, float]:
    return float(lazy_curve(1.0, 0.01, 1.0)), float(two_layers(np.zeros(1), 100.0, 1.0, [0.01])[0, 0])


@claim(
    "notes/lazy-ratio",
    place="Section 9.2, problem, part 2",
    statement="In the lazy limit all modes are learned at the same relative rate: for T = diag(5, 1) the ratio of the "
    "strengths is 5 at all times.",
    formula=r"\frac{a_1(t)}{a_2(t)} = \frac{s_1}{s_2} = 5",
    conditions="Two layers, aligned, a(0) = 0, λ → ∞ (extrapolated); strengths 5 and 1 as well as random ones.",
    tolerance=1e-8,
)
def lazy_ratio(rng: Rng) -> float:
    s, tau = np.array([[5.0, 1.0], rng.uniform(0.3, 5.0, size=2)]), [0.1, 1.0, 5.0]
    error = 0.0
    for pair in s:
        a = extrapolated([two_layers(np.zeros(2), lam, pair, np.array(tau) / lam) for lam in LARGE])
        error = max(error, relative_error(np.full(3, pair[0] / pair[1]), a[:, 0] / a[:, 1]))
    return error


@claim(
    "notes/lazy-straight-line",
    place="Section 9.2, problem, parts 2 and 3",
    statement="In the lazy limit W is the target times a number at all times: it moves on a straight line from zero, "
    "has the rank of the target at once, and never passes a matrix of lower rank.",
    formula=r"W(t) = c(t)\, T, \qquad 0 < c < 1",
    conditions="Two layers, W1(0) = 0, W2(0) = √λ times an orthogonal matrix, λ → ∞ (extrapolated).",
    tolerance=1e-8,
)
def lazy_straight_line(rng: Rng) -> float:
    T, _, O = lazy_problem(rng, 3)
    W = in_the_lazy_limit(product, T, np.zeros((3, 3)), O, [0.1, 1.0, 4.0])
    c = np.array([np.vdot(T, Wt) / np.vdot(T, T) for Wt in W])
    inside = (c > 0).all() and (c < 1).all()
    return max(relative_error(x * T, Wt) for x, Wt in zip(c, W, strict=True)) if inside else 1.0


@claim(
    "notes/ratio-maximum",
    place="Section 9.2, problem, part 1",
    statement="At λ = 0 the ratio of two strengths is largest when their errors are equal.",
    formula=r"\max_t \frac{a_1}{a_2} \text{ at } t^{**}: \quad a_1 - a_2 = s_1 - s_2",
    conditions="Two layers, balanced and aligned, a(0) = ε in both; s = (5, 1) as well as random ones. The maximum is "
    "found from the flow of the weights; the error is 1 where it is none.",
    tolerance=1e-8,
    seeds=6,
)
def ratio_maximum(rng: Rng) -> float:
    s = np.array([5.0, 1.0]) if rng.random() < 0.5 else np.sort(rng.uniform(0.5, 5.0, size=2))[::-1]
    start, velocity = np.full((2, 2), np.sqrt(s[1] * 10.0 ** rng.uniform(-4, -1))), diagonal(s)

    def falling(w: Array) -> Array:
        """−d/dt log(a_1/a_2)."""
        growth = (velocity(w) / w).sum(axis=0)
        return growth[1:] - growth[:1]

    (best,) = passages(velocity, start, falling)
    before, a, after = integrate(velocity, start, [0.9 * best, best, 1.1 * best]).prod(axis=1)
    peaked = a[0] / a[1] > max(before[0] / before[1], after[0] / after[1])
    return relative_error(s[0] - s[1], a[0] - a[1]) if peaked else 1.0
