"""Sections 2.2 and 2.3 and their problem: that all other critical points are saddles, how many, and how they curve."""

from itertools import combinations

import numpy as np
from scipy.optimize import minimize

from lazyrich import Task
from lazyrich._typing import Array
from lazyrich.landscape.critical_points import CriticalPoint, critical_points
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.oracles import gradient, hessian, product
from lazyrich.papers.base.searches import critical_point, fitted
from lazyrich.papers.base.types import Loss, Rng
from lazyrich.papers.notes.claims.landscape import whitened_loss
from lazyrich.papers.notes.claims.slips import BOTTLENECK, EQUAL_VALUES, IDLE_UNITS, TWO_LAYERS


def index_as_printed(k: int, r: int) -> int:
    """One direction for each mode that is missing."""
    return k - r


def predicted(T: Array, hidden: list[int], S: tuple[int, ...]) -> CriticalPoint:
    """What the library says of the critical point with the modes S."""
    points = critical_points(Task.from_correlations(T), hidden, rank=len(S))
    return next(point for point in points if point.modes == S)


def at(rng: Rng, modes: tuple[Array, Array, Array], S: tuple[int, ...], sizes: list[int]) -> list[Array]:
    """Layers of rank |S| whose product has the modes S of T = U diag(s) Vᵀ and no others."""
    U, s, V = modes
    chosen = list(S)
    return draws.aligned(rng, U[:, chosen], V[:, chosen], s[chosen], sizes)


def curvatures(T: Array, weights: list[Array]) -> Array:
    """Eigenvalues of the Hessian, smallest first."""
    return np.linalg.eigvalsh(hessian(whitened_loss(T), weights))


def index(T: Array, weights: list[Array]) -> int:
    """How many of them are negative; those of saddles with distinct modes are far from zero, or zero."""
    return int(np.sum(curvatures(T, weights) < -1e-4))


def subsets(k: int, most: int) -> list[tuple[int, ...]]:
    return [S for r in range(most + 1) for S in combinations(range(k), r)]


def extremes_nearby(rng: Rng, loss: Loss, weights: list[Array], radius: float) -> tuple[float, float]:
    """The lowest and the highest loss that are found within a ball around the weights."""
    ends = np.cumsum([W.size for W in weights])

    def moved(x: Array) -> list[Array]:
        inside = radius * x / np.sqrt(1 + (x**2).sum())
        return [W + inside[end - W.size : end].reshape(W.shape) for W, end in zip(weights, ends, strict=True)]

    found = []
    for sign in (1.0, -1.0):
        tries = [
            minimize(
                lambda x, sign=sign: sign * loss(moved(x)),
                rng.normal(size=ends[-1]),
                jac=lambda x, sign=sign: sign * gradient(lambda p: loss(moved(p[0])), [x])[0],
                options={"maxiter": 60},
            ).fun
            for _ in range(3)
        ]
        found.append(sign * float(min(tries)))
    return found[0], found[1]


@claim(
    "notes/every-subset-a-saddle",
    place="Section 2.2",
    statement="Every set of modes that lacks one belongs to a saddle.",
    formula=r"S \subsetneq \{1,\dots,\min(n_0,n_L)\}:\quad W_\text{eff} = \sum_{\alpha\in S} s_\alpha u_\alpha "
    r"v_\alpha^\top\ \text{ is a saddle}",
    conditions="White inputs, any T and any widths that have room for S.",
    tolerance=0.0,  # 1e-6 less the least of what the loss falls and rises within a small ball
    seeds=4,
)
def every_subset_a_saddle(rng: Rng) -> float:
    s, hidden = np.array([2.0, rng.uniform(0.5, 1.5)]), [int(n) for n in rng.integers(1, 3, size=rng.integers(1, 3))]
    if rng.random() < 0.3:
        s[1] = 0.0
    return _not_a_saddle(rng, s, hidden)


@every_subset_a_saddle.stronger(
    "All modes have s_α > 0 and no hidden layer is narrower than their number. In a bottleneck of width h the h "
    "strongest modes are the minimum, and the product is not T.",
    slips=(BOTTLENECK,),
)
def every_subset_a_saddle_without_bottleneck(rng: Rng) -> float:
    s, hidden = np.array([2.0, rng.uniform(0.5, 1.5)]), [2] * int(rng.integers(1, 3))
    return _not_a_saddle(rng, s, hidden)


@every_subset_a_saddle.counterexample(
    "T = diag(2, 1) with one hidden unit, S = {1}: nearby the loss never falls below its value ½ (how far it falls, "
    "above zero or not)"
)
def _() -> tuple[float, float]:
    T, weights = np.diag([2.0, 1.0]), [np.array([[np.sqrt(2), 0.0]]), np.array([[np.sqrt(2)], [0.0]])]
    lowest, _ = extremes_nearby(np.random.default_rng(0), whitened_loss(T), weights, 0.5)
    return 1.0, float(lowest < 0.5 - 1e-6)


def _not_a_saddle(rng: Rng, s: Array, hidden: list[int]) -> float:
    T, U, s, V = draws.target(rng, 2, 2, s)
    choices = [S for S in subsets(2, min(1, *hidden)) if np.all(s[list(S)] > 0)]
    weights = at(rng, (U, s, V), choices[int(rng.integers(len(choices)))], [2, *hidden, 2])
    lowest, highest = extremes_nearby(rng, whitened_loss(T), weights, 0.5)
    here = float(whitened_loss(T)(weights))
    return 1e-6 - min(here - lowest, highest - here)


@claim(
    "notes/baldi-hornik",
    place="Section 2.3, the theorem",
    statement="A deep linear network has no minima but global ones.",
    formula=r"\theta^* \text{ a local minimum} \;\Rightarrow\; L(\theta^*) = \min_\theta L(\theta)",
    conditions="Any depth and widths, bottlenecks too.",
    tolerance=1e-8,
    seeds=8,
)
def baldi_hornik(rng: Rng) -> float:
    """Descends from a place beside a saddle, and from a random one, to a loss that no other search undercuts."""
    depth, (d_out, d_in) = int(rng.integers(2, 4)), (int(n) for n in rng.integers(2, 4, size=2))
    T, U, s, V = draws.target(rng, d_out, d_in)
    if rng.random() < 0.3:
        s[1] = s[0]
        T = U @ np.diag(s) @ V.T
    sizes = [d_in, *(int(n) for n in rng.choice([1, 1, 2, 3], size=depth - 1)), d_out]
    loss, X, most = whitened_loss(T), np.eye(d_in), min(*sizes[1:-1], len(s) - 1)
    beside = [W + 0.1 * rng.normal(size=W.shape) for W in at(rng, (U, s, V), tuple(range(len(s)))[-most:], sizes)]
    least = min(loss(fitted(draws.gaussian(rng, sizes, 1.0), X, X @ T.T)) for _ in range(2))
    ends = [_descended(loss, start) for start in (beside, draws.gaussian(rng, sizes, 1.0))]
    return float(max(ends) - min(least, *ends)) / float(np.sum(s**2))


def _descended(loss: Loss, weights: list[Array]) -> float:
    ends = np.cumsum([W.size for W in weights])

    def rebuilt(x: Array) -> list[Array]:
        return [x[end - W.size : end].reshape(W.shape) for W, end in zip(weights, ends, strict=True)]

    def slope(x: Array) -> Array:
        return np.concatenate([g.ravel() for g in gradient(loss, rebuilt(x))])

    start = np.concatenate([W.ravel() for W in weights])
    return float(minimize(lambda x: loss(rebuilt(x)), start, jac=slope, options={"gtol": 1e-9}).fun)


@claim(
    "notes/saddle-count",
    place="Section 2.3, problem, part 1",
    statement="With k modes and no bottleneck there are 2^k − 1 saddles, counted by the product of their layers.",
    formula=r"\#\{W_\text{eff}: \nabla_\theta L = 0,\ W_\text{eff} \ne T\} = 2^k - 1",
    conditions="T has k nonzero singular values; all hidden widths at least k.",
    tolerance=0.0,  # a count
)
def saddle_count(rng: Rng) -> float:
    s = rng.uniform(1.0, 2.0) * np.array([1.0, 1.0 if rng.random() < 0.5 else rng.uniform(0.3, 0.8)])
    return _miscount(rng, s)


@saddle_count.stronger(
    "The k singular values are distinct. If some are equal, saddles with part of them form a continuum of products.",
    slips=(EQUAL_VALUES,),
)
def saddle_count_of_distinct_modes(rng: Rng) -> float:
    return _miscount(rng, rng.uniform(1.0, 2.0) * np.array([1.0, rng.uniform(0.3, 0.8)]))


@saddle_count.counterexample(
    "T = I, two hidden units: W_1 = W_2ᵀ = (c s; 0 0) with c² + s² = 1 is a saddle for every angle; 6 angles and the "
    "origin are 7 already"
)
def _() -> tuple[float, float]:
    angles = np.pi * np.arange(6) / 6
    starts = [np.array([[np.cos(angle), np.sin(angle)], [0.0, 0.0]]) for angle in angles]
    loss = whitened_loss(np.eye(2))
    found = [product(critical_point(loss, [start, start.T])) for start in [*starts, np.zeros((2, 2))]]
    return 3.0, float(len(_different(found, np.eye(2))))


def _miscount(rng: Rng, s: Array) -> float:
    """Products of the points made of modes, if they are critical, and of those that a search finds, against 2^k − 1."""
    T, U, s, V = draws.target(rng, 2, 2, s)
    loss, sizes = whitened_loss(T), [2, 2, 2]
    made = [at(rng, (U, s, V), S, sizes) for S in subsets(2, 2)]
    made = [point for point in made if max(np.abs(slope).max() for slope in gradient(loss, point)) < 1e-10]
    found = [critical_point(loss, draws.gaussian(rng, sizes, 1.0)) for _ in range(2)]
    return abs(len(_different([product(point) for point in made + found], T)) - (2.0**2 - 1))


def _different(products: list[Array], T: Array) -> list[Array]:
    """Each product once, without T."""
    different = [T]
    for W in products:
        if min(float(np.abs(W - known).max()) for known in different) > 1e-5:
            different.append(W)
    return different[1:]


@claim(
    "notes/saddles-not-isolated",
    place="Section 2.3, problem, part 1",
    statement="A saddle is never isolated: because layers can be reparametrised, there are others beside it.",
    formula=r"(W_1, W_2) \to (gW_1, W_2g^{-1}) \ne (W_1, W_2)",
    conditions="Any S that lacks a mode, no bottleneck.",
    tolerance=1e-11,
)
def saddles_not_isolated(rng: Rng, least: int = 0) -> float:
    """The slope at a critical point beside this one, or 1 if reparametrising does not lead to another."""
    T, U, s, V = draws.target(rng, 3, 3)
    S = tuple(sorted(int(i) for i in rng.permutation(3)[: int(rng.integers(least, 3))]))
    W1, W2 = at(rng, (U, s, V), S, [3, 4, 3])
    g = np.eye(4) + 0.1 * rng.normal(size=(4, 4))
    moved = [g @ W1, W2 @ np.linalg.inv(g)]
    if np.linalg.norm(moved[0] - W1) < 1e-3:
        return 1.0
    return max(float(np.abs(slope).max()) for slope in gradient(whitened_loss(T), moved))


@saddles_not_isolated.stronger(
    "S is not empty. With two layers, as many outputs as inputs and all modes present, the origin is alone."
)
def saddles_with_modes_not_isolated(rng: Rng) -> float:
    return saddles_not_isolated.check(rng, least=1)


@saddles_not_isolated.counterexample(
    "One input, one hidden unit, one output, T = 1, at the origin: the number of directions in which the Hessian is "
    "flat"
)
def _() -> tuple[float, float]:
    flat = np.abs(curvatures(np.eye(1), [np.zeros((1, 1)), np.zeros((1, 1))])) < 1e-4
    return 1.0, float(np.sum(flat))


@claim(
    "notes/saddle-index",
    place="Section 2.3, problem, part 2",
    statement="The Hessian at the saddle with r modes has one negative direction for each of the k − r that are "
    "missing.",
    formula=r"\text{index}(S) = k - r, \qquad r = |S|",
    conditions="k nonzero singular values, here distinct; no bottleneck; any depth.",
    tolerance=0.0,  # a count
)
def saddle_index(rng: Rng) -> float:
    T, weights, k, S, _ = _saddle(rng)
    return abs(index_as_printed(k, len(S)) - index(T, weights))


@saddle_index.corrected(
    "Each of the h − r idle hidden units can take up each missing mode, which only two layers see in second "
    "derivatives; and every missing mode can take the place of every weaker one. Where all layers have rank r:",
    formula=r"\text{index}(S) = [L = 2]\,(k-r)(h-r) + \#\{(\alpha,\beta): \alpha \notin S,\ \beta \in S,\ s_\alpha > "
    r"s_\beta\}, \qquad h = \min_\ell n_\ell",
    slips=(IDLE_UNITS,),
)
def saddle_index_by_depth(rng: Rng) -> float:
    T, weights, _, S, hidden = _saddle(rng)
    return abs(predicted(T, hidden, S).index - index(T, weights))


@saddle_index.counterexample("T = diag(2, 1) with two hidden units, S = {2}: mode 1 may come beside mode 2 or instead")
def _() -> tuple[float, float]:
    T, layer = np.diag([2.0, 1.0]), np.diag([0.0, 1.0])
    return float(index_as_printed(2, 1)), float(index(T, [layer, layer]))


def _saddle(rng: Rng) -> tuple[Array, list[Array], int, tuple[int, ...], list[int]]:
    """T, layers on one of its saddles, the number of modes, which of them are learnt, and the hidden widths."""
    depth, (d_out, d_in) = int(rng.integers(2, 4)), (int(n) for n in rng.integers(2, 4, size=2))
    T, U, s, V = draws.target(rng, d_out, d_in)
    k = len(s)
    hidden = [k + int(n) for n in rng.integers(0, 4 - depth + 1, size=depth - 1)]
    choices = subsets(k, k - 1)
    S = choices[int(rng.integers(len(choices)))]
    return T, at(rng, (U, s, V), S, [d_in, *hidden, d_out]), k, S, hidden


@claim(
    "notes/origin-index",
    place="Section 2.3, problem, part 3",
    statement="The origin has k negative directions, one for each mode.",
    formula=r"\text{index}(\emptyset) = k",
    conditions="k nonzero singular values, no bottleneck, any depth.",
    tolerance=0.0,  # a count
    seeds=4,
)
def origin_index(rng: Rng) -> float:
    T, nothing, k, _ = _origin(rng)
    return abs(index_as_printed(k, 0) - index(T, nothing))


@origin_index.corrected(
    "With two layers each of the h hidden units can take up each mode. From three layers on all second derivatives at "
    "the origin vanish.",
    formula=r"\text{index}(\emptyset) = \begin{cases} k\,h & L = 2 \\ 0 & L \ge 3 \end{cases}",
    slips=(IDLE_UNITS,),
)
def origin_index_by_depth(rng: Rng) -> float:
    T, nothing, k, hidden = _origin(rng)
    return abs((k * hidden[0] if len(hidden) == 1 else 0) - index(T, nothing))


@origin_index.counterexample("T = 1 with two hidden units and two layers")
def _() -> tuple[float, float]:
    return float(index_as_printed(1, 0)), float(index(np.eye(1), [np.zeros((2, 1)), np.zeros((1, 2))]))


def _origin(rng: Rng) -> tuple[Array, list[Array], int, list[int]]:
    depth, (d_out, d_in) = int(rng.integers(2, 4)), (int(n) for n in rng.integers(1, 4, size=2))
    T, _, s, _ = draws.target(rng, d_out, d_in)
    hidden = [len(s) + int(n) for n in rng.integers(0, 2, size=depth - 1)]
    nothing = [np.zeros_like(W) for W in draws.gaussian(rng, [d_in, *hidden, d_out])]
    return T, nothing, len(s), hidden


@claim(
    "notes/origin-is-extreme",
    place="Section 2.3, problem, part 3",
    statement="Of all saddles the origin has the highest loss and the most negative directions.",
    formula=r"L(\emptyset) > L(S), \quad \text{index}(\emptyset) > \text{index}(S) \qquad \text{for } S \ne \emptyset",
    conditions="k nonzero singular values, no bottleneck, any depth.",
    tolerance=0.0,  # ½ less the least lead of the index, a count, or minus infinity if the loss is not the highest
    seeds=7,
)
def origin_is_extreme(rng: Rng) -> float:
    return _lead_lacking(rng, int(rng.integers(2, 4)))


@origin_is_extreme.stronger(
    "Two layers. From three layers on the origin has the highest loss still, but no negative direction, and is left "
    "algebraically.",
    slips=(TWO_LAYERS,),
)
def origin_of_two_layers_is_extreme(rng: Rng) -> float:
    return _lead_lacking(rng, 2)


@origin_is_extreme.counterexample(
    "Three layers of 2 × 2, T = diag(2, 1): the largest index is at S = {2}, and that of the origin is lower"
)
def _() -> tuple[float, float]:
    T, modes, rng = np.diag([2.0, 1.0]), (np.eye(2), np.array([2.0, 1.0]), np.eye(2)), np.random.default_rng(0)
    indices = {S: index(T, at(rng, modes, S, [2, 2, 2, 2])) for S in subsets(2, 1)}
    return float(max(indices.values())), float(indices[()])


def _lead_lacking(rng: Rng, depth: int) -> float:
    T, U, s, V = draws.target(rng, 2, 2)
    sizes, loss = [2] * (depth + 1), whitened_loss(T)
    points = [at(rng, (U, s, V), S, sizes) for S in subsets(2, 1)]
    losses, indices = [float(loss(point)) for point in points], [index(T, point) for point in points]
    return 0.5 - min(indices[0] - i for i in indices[1:]) if losses[0] > max(losses[1:]) else np.inf


@claim(
    "notes/hardest-saddle",
    place="Section 2.3, problem, part 3",
    statement="The fewer modes a saddle has, the easier it is to leave: the origin is the easiest, and the hardest are "
    "those that lack one mode only. Read as: the steepest negative curvature falls with |S|.",
    formula=r"|S| < |S'| \;\Rightarrow\; -\lambda_{\min}(S) \ge -\lambda_{\min}(S')",
    conditions="k nonzero singular values, no bottleneck.",
    tolerance=1e-7,
    seeds=7,
)
def hardest_saddle(rng: Rng) -> float:
    """By how much a saddle with more modes is steeper, relative to s_1; two layers."""
    T, U, s, V = draws.target(rng, 3, 3)
    steepest = {S: -float(curvatures(T, at(rng, (U, s, V), S, [3, 3, 3]))[0]) for S in subsets(3, 2)}
    return max(steepest[more] - steepest[S] for S in steepest for more in steepest if len(S) < len(more)) / s[0]


@hardest_saddle.corrected(
    "It is the strongest missing mode that counts, not how many are missing. With more than two layers only "
    "exchanges of modes leave exponentially, and the origin is the hardest of all. On balanced layers:",
    formula=r"-\lambda_{\min}(S) = \begin{cases} \max_{\alpha\notin S} s_\alpha & L = 2 \\ \max\{s_\beta^{1-2/L}"
    r"(s_\alpha - s_\beta): \alpha\notin S,\ \beta\in S\},\text{ or } 0 \text{ if none is positive} & L \ge 3"
    r"\end{cases}",
)
def hardest_saddle_by_mode(rng: Rng) -> float:
    T, weights, _, S, hidden = _saddle(rng)
    rates = predicted(T, hidden, S).rates
    return abs((rates[0] if len(rates) else 0.0) + float(curvatures(T, weights)[0])) / float(np.linalg.norm(T))


@hardest_saddle.counterexample(
    "Two layers of 3 × 3, T = diag(3, 2, 1): S = {1}, which lacks two modes, should be no harder to leave than "
    "S = {2, 3}, which lacks one; its rate is 2, and the other's 3 (the sign of the difference)"
)
def _() -> tuple[float, float]:
    s, rng = np.array([3.0, 2.0, 1.0]), np.random.default_rng(0)
    T, modes = np.diag(s), (np.eye(3), s, np.eye(3))
    fewer, more = (-float(curvatures(T, at(rng, modes, S, [3, 3, 3]))[0]) for S in ((0,), (1, 2)))
    return 1.0, float(np.sign(round(fewer - more, 6)))
