"""Where one hidden layer rests: fixed points, how many, the minimum among them, the best approximation."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from scipy.optimize import least_squares

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.oracles import gradient, hessian, product, relative_error
from lazyrich.papers.base.searches import critical_point, fitted
from lazyrich.papers.base.types import Loss, Rng
from lazyrich.papers.post.claims.regression import data_with, squared_error


def best_approximation(C31: Array, rank: int) -> Array:
    """Σ_{α ≤ N2} s_α u_α v_αᵀ."""
    U, s, Vt = np.linalg.svd(C31)
    return U[:, :rank] @ np.diag(s[:rank]) @ Vt[:rank]


def decoupled(rng: Rng, s: Array, chosen: Sequence[int] | Array, h: int) -> tuple[Array, Array]:
    """a^α and b^α, one row for each mode, with b^β·a^α = s_α δ for the chosen modes, and zero for the others."""
    a, b = np.zeros((len(s), h)), np.zeros((len(s), h))
    chosen = list(chosen)
    b[chosen] = draws.orthogonal(rng, h, len(chosen)).T + 0.3 * rng.normal(size=(len(chosen), h))
    a[chosen] = (np.linalg.pinv(b[chosen]) @ np.diag(s[chosen])).T
    return a, b


def weights_of(a: Array, b: Array, U: Array, V: Array) -> list[Array]:
    """W21 and W32 whose modes have these vectors."""
    return [a.T @ V.T, U @ b]


def restlessness(loss: Loss, weights: Sequence[Array]) -> float:
    """The largest slope: zero at a fixed point."""
    return max(float(np.abs(slope).max()) for slope in gradient(loss, weights))


@claim(
    "post/fixed-points",
    place="On the fixed points of equations 5 and 6",
    statement="The origin is a fixed point, and so is any place where the a^α and b^α that are not zero satisfy "
    "b^β·a^α = s_α δ; all fixed points are of this kind.",
    formula=r"\dot a = \dot b = 0 \iff b^{\beta\top}a^\alpha = s_\alpha\delta_{\alpha\beta} \quad\text{for all pairs "
    r"}a^\alpha, b^\alpha\text{ that are not zero}",
    conditions="White inputs, N1 = N3, any C31.",
    tolerance=1e-8,
)
def fixed_points(rng: Rng) -> float:
    s = rng.uniform(0.8, 2.5) * np.array([1.0, 1.0 if rng.random() < 0.5 else rng.uniform(0.3, 0.8)])
    return _error_of_condition(rng, s)


@fixed_points.stronger(
    "The singular values that are not zero are distinct. Among equal ones any direction is as good as another, and a "
    "network may rest with a mixture of modes half learnt."
)
def fixed_points_of_distinct_modes(rng: Rng) -> float:
    return _error_of_condition(rng, rng.uniform(0.8, 2.5) * np.array([1.0, rng.uniform(0.3, 0.8)]))


@fixed_points.counterexample(
    "C31 = I with one hidden unit, W21 = (1, 1)/√2 = W32ᵀ: the gradient is zero, all four vectors are not, and b²·a¹ "
    "is ½"
)
def _() -> tuple[float, float]:
    start = [np.array([[1.0, 1.0]]), np.array([[1.0], [1.0]])]
    W21, W32 = critical_point(lambda weights: ((product(weights) - np.eye(2)) ** 2).sum(), start)
    return 0.0, float(W32[1, 0] * W21[0, 0])


def _error_of_condition(rng: Rng, s: Array) -> float:
    """The slope where the condition holds, and the breach of the condition where a search finds no slope."""
    h = int(rng.integers(1, 3))
    C31, U, s, V = draws.target(rng, 2, 2, s)
    loss, chosen = squared_error(*data_with(rng, C31, samples=4)), [[], [0], [1], [0, 1]][: h + 2]
    errors = [restlessness(loss, weights_of(*decoupled(rng, s, modes, h), U, V)) for modes in chosen]
    for _ in range(2):
        W21, W32 = critical_point(loss, draws.gaussian(rng, (2, h, 2), 1.0))
        overlaps = U.T @ W32 @ W21 @ V
        errors.append(np.abs(overlaps - np.diag(np.diag(overlaps))).max())
        errors.append(np.minimum(np.abs(np.diag(overlaps)), np.abs(np.diag(overlaps) - s)).max())
    return float(max(errors)) / s[0]


@claim(
    "post/fixed-point-family",
    place="Sidenote to the fixed points",
    statement="Every fixed point belongs to a family: a^α times k and b^α over k are one too.",
    formula=r"b^{\beta\top}a^\alpha = \left(\tfrac1k b^\beta\right)^\top (k\,a^\alpha)",
    conditions="Any fixed point, any k ≠ 0.",
    tolerance=1e-12,
)
def fixed_point_family(rng: Rng) -> float:
    C31, U, s, V = draws.target(rng, 3, 3)
    loss, k = squared_error(*data_with(rng, C31)), rng.choice([-1.0, 1.0]) * rng.uniform(0.3, 3.0)
    chosen = np.flatnonzero(rng.random(3) < 0.6)
    W21, W32 = weights_of(*decoupled(rng, s, chosen, 3), U, V)
    return restlessness(loss, [k * W21, W32 / k]) / s[0] ** 2


@claim(
    "post/at-most-n2-pairs",
    place="On the fixed points, N2 < N1 and N2 < N3",
    statement="With N2 hidden units, fewer than inputs and outputs, at most N2 pairs a^α, b^α that are not zero can "
    "satisfy the condition of a fixed point.",
    formula=r"\#\{\alpha: a^\alpha, b^\alpha \ne 0,\ b^{\beta\top}a^\alpha = s_\alpha\delta_{\alpha\beta}\} \le N_2",
    conditions="N2 < N1 = N3, any C31.",
    tolerance=0.0,  # 1e-3 less the misfit that one pair more must leave
)
def at_most_n2_pairs(rng: Rng) -> float:
    s = np.sort(rng.uniform(0.5, 2.5, size=3))[::-1]
    s[int(rng.choice([0, 0, 1, 2, 3])) :] = 0.0
    return 1e-3 - least_misfit(rng, s, int(rng.integers(1, 3)))


@at_most_n2_pairs.stronger(
    "The singular values of these pairs are not zero. A mode with s_α = 0 asks its a^α and b^α to be orthogonal only, "
    "and many pairs fit in a plane."
)
def at_most_n2_pairs_of_rank(rng: Rng) -> float:
    return 1e-3 - least_misfit(rng, np.sort(rng.uniform(0.5, 2.5, size=3))[::-1], int(rng.integers(1, 3)))


@at_most_n2_pairs.counterexample(
    "Three inputs and outputs, two hidden units, C31 = 0: every a^α = (1, 0) with every b^α = (0, 1) satisfies it, "
    "which makes 3 pairs"
)
def _() -> tuple[float, float]:
    a, b = np.tile([1.0, 0.0], (3, 1)), np.tile([0.0, 1.0], (3, 1))
    return 2.0, float(np.sum(np.all(b @ a.T == np.zeros((3, 3)), axis=0)))


def least_misfit(rng: Rng, s: Array, h: int) -> float:
    """What a search cannot remove of b^β·a^α = s_α δ, for the h + 1 modes that fit best."""
    choices = (s[list(chosen)] for chosen in combinations(range(len(s)), h + 1))
    return min(_misfit(rng, values, h) for values in choices for _ in range(2))


def _misfit(rng: Rng, s: Array, h: int) -> float:
    free = s == 0  # there the vectors are to have length 1, which the condition leaves open

    def rest(x: Array) -> Array:
        a, b = x.reshape(2, len(s), h)
        lengths = [np.sum(vectors[free] ** 2, axis=1) - 1 for vectors in (a, b)]
        return np.concatenate([(b @ a.T - np.diag(s)).ravel(), *lengths])

    return float(np.abs(least_squares(rest, rng.normal(size=2 * len(s) * h), max_nfev=50).fun).max())


@claim(
    "post/any-n2-modes",
    place="On the fixed points, R > N2",
    statement="Any N2 of the R modes may be the ones that satisfy the condition, with all others at zero: each choice "
    "is a fixed point.",
    formula=r"S \subset \{1,\dots,R\},\ |S| = N_2: \quad b^{\beta\top}a^\alpha = s_\alpha\delta_{\alpha\beta}\ "
    r"(\alpha, \beta \in S),\quad a^\alpha = b^\alpha = 0\ (\alpha \notin S)",
    conditions="White inputs, C31 of rank R > N2.",
    tolerance=1e-12,
    seeds=4,
)
def any_n2_modes(rng: Rng) -> float:
    C31, U, s, V, R, h = _wide_target(rng)
    loss = squared_error(*data_with(rng, C31))
    points = [weights_of(*decoupled(rng, s, modes, h), U, V) for modes in combinations(range(R), h)]
    return max(restlessness(loss, point) for point in points) / s[0] ** 2


@claim(
    "post/global-minimum",
    place="On the fixed points, after Baldi and Hornik",
    statement="The fixed point with the N2 strongest modes is the global minimum, and all the others are saddles.",
    formula=r"S = \{1,\dots,N_2\}: \text{global minimum}; \qquad \text{every other } S: \text{saddle}",
    conditions="White inputs, C31 of rank R > N2; equal modes are as strong as each other.",
    tolerance=0.0,  # 1e-6 less the slack of the closest call, in units of s_1
    seeds=5,
)
def global_minimum(rng: Rng) -> float:
    """Hessians of the loss at every choice of modes, and the least loss that is found from a random start."""
    C31, U, s, V, R, h = _wide_target(rng)
    X, Y = data_with(rng, C31, samples=4)
    loss, slacks = squared_error(X, Y), []
    least = loss(fitted(draws.gaussian(rng, (3, h, 3)), X, Y))
    for modes in (modes for r in range(h + 1) for modes in combinations(range(R), r)):
        point = weights_of(*decoupled(rng, s, modes, h), U, V)
        curvature = np.linalg.eigvalsh(hessian(loss, point)) / s[0]
        if np.sum(s[list(modes)]) == np.sum(s[:h]):  # the strongest, or equal to them
            slacks += [curvature[0] + 2e-6, 2e-6 - abs(loss(point) - least) / s[0] ** 2]
        else:
            slacks += [-curvature[0], curvature[-1], (loss(point) - least) / s[0] ** 2]
    return 1e-6 - float(min(slacks))


def _wide_target(rng: Rng) -> tuple[Array, Array, Array, Array, int, int]:
    """C31 = U diag(s) Vᵀ, its rank R, and fewer hidden units; two of the values may be equal, the last zero."""
    _, U, s, V = draws.target(rng, 3, 3)
    R = int(rng.integers(2, 4))
    h = int(rng.integers(1, R))
    s[R:] = 0.0
    if rng.random() < 0.3:
        s[1] = s[0]
    return U @ np.diag(s) @ V.T, U, s, V, R, h


@claim(
    "post/best-approximation",
    place="On the fixed points, the mapping at the global minimum",
    statement="At the global minimum the network computes the first N2 modes of C31, which no other map of rank N2 "
    "comes closer to.",
    formula=r"W^{32}W^{21} = \sum_{\alpha=1}^{N_2} s_\alpha\,U^{33}_{:\alpha}V^{11\top}_{:\alpha}",
    conditions="White inputs, C31 of rank above N2, with s_α different at N2 and N2 + 1.",
    tolerance=1e-9,
)
def at_the_minimum(rng: Rng) -> float:
    """Against the layers that fit the data best, found by turns."""
    C31, _, _, _ = draws.target(rng, 4, 3)
    h = int(rng.integers(1, 3))
    truth = product(fitted(draws.gaussian(rng, (3, h, 4)), *data_with(rng, C31)))
    return relative_error(best_approximation(C31, h), truth)
