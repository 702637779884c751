"""Activation regions of piecewise linear networks of any depth, their colours, and what such networks represent."""

from itertools import pairwise, product

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import gradient, relative_error
from lazyrich.papers.base.types import Real, Rng, Values
from lazyrich.papers.kunin2024.claims.piecewise import outputs, sigma

NOT_CHECKED = (
    NotChecked(
        "Section 5; Appendix, Surface of a piecewise linear network",
        "A network with L hidden layers of h neurons has potentially O(h^{dL}) activation regions.",
        "An order of growth without a constant, quoted from other work.",
    ),
    NotChecked(
        "Appendix, Surface of a piecewise linear network",
        "That regions take two colours had not been noticed before, and strengthens a connection with paper folding.",
        "History, and a figure of speech.",
    ),
)


def preactivations(Ws: list[Array], x: Array, gamma: float) -> list[Array]:
    """Layer by layer, for inputs in the rows of x."""
    zs, below = [], x
    for W in Ws:
        zs.append(below @ W.T)
        below = sigma(zs[-1], gamma)
    return zs


def pattern(Ws: list[Array], x: Array, gamma: float) -> Array:
    """Which neurons are active, (inputs, neurons)."""
    return np.concatenate([z > 0 for z in preactivations(Ws, np.atleast_2d(x), gamma)], axis=1)


def drawn(rng: Rng, d: int, most: int = 4) -> tuple[list[Array], float]:
    """Hidden layers and slope γ.

    One layer may be ReLU. Two are leaky: inputs on which a whole layer of ReLUs is silent belong to no region.
    """
    depth = int(rng.integers(1, 3))
    widths = [d, *(int(n) for n in rng.integers(2, most + 1, size=depth))]
    gamma = float(rng.uniform(0.1, 0.8)) if depth > 1 or rng.integers(2) else 0.0
    return [rng.normal(size=(n, m)) for m, n in pairwise(widths)], gamma


@claim(
    "kunin2024/regions-convex",
    place="Section 5; Appendix, Surface of a piecewise linear network",
    statement="The activation regions are convex.",
    formula=r"x, x' \in \mathcal R(\mathcal A;\theta) \;\Rightarrow\; \tfrac12(x + x') \in \mathcal R(\mathcal "
    r"A;\theta)",
    conditions="Any depth.",
    tolerance=0.0,  # a count
)
def regions_convex(rng: Rng) -> float:
    """Pairs of points in one region whose middle lies in another."""
    d = int(rng.integers(2, 4))
    Ws, gamma = drawn(rng, d)
    x = rng.normal(size=(150, d))
    seen = pattern(Ws, x, gamma)
    i, j = np.nonzero(np.triu((seen[:, None] == seen[None]).all(axis=2), 1))
    return float(np.sum((pattern(Ws, (x[i] + x[j]) / 2, gamma) != seen[i]).any(axis=1)))


def patterns_met(Ws: list[Array], x: Array, gamma: float) -> int:
    """How many activation patterns inputs in the rows of x have."""
    return len(np.unique(pattern(Ws, x, gamma), axis=0))


@claim(
    "kunin2024/activation-patterns",
    place="Appendix, Surface of a piecewise linear network, footnote 9",
    statement="N neurons have 2^N activation patterns, of which not all need be attained. Ours, so that the count is "
    "sharp: N neurons on N inputs attain all, and more neurons than inputs, on two inputs, fewer.",
    formula=r"\#\{\mathcal A : \mathcal R(\mathcal A;\theta) \ne \emptyset\} \le 2^N",
    conditions="No biases; one layer of N = d neurons in general position for equality, any depth and N > d otherwise.",
    tolerance=0.0,  # a count
)
def activation_patterns(rng: Rng) -> float:
    """Equality on one input for each choice of signs; the inequality on a circle."""
    N, angles = int(rng.integers(1, 7)), np.linspace(0, 2 * np.pi, 2000)
    W = rng.normal(size=(N, N))
    inputs = np.linalg.solve(W, np.array(list(product((-1.0, 1.0), repeat=N))).T).T
    Ws, gamma = drawn(rng, 2)
    Ws = [np.vstack([Ws[0], rng.normal(size=2)]), *(np.hstack([V, rng.normal(size=(len(V), 1))]) for V in Ws[1:])]
    around = patterns_met(Ws, np.stack([np.cos(angles), np.sin(angles)], axis=1), gamma)
    return float(max(abs(patterns_met([W], inputs, 0.0) - 2**N), around - (2 ** sum(len(V) for V in Ws) - 1)))


def crossing(rng: Rng, Ws: list[Array], gamma: float, d: int) -> tuple[Array, Array, int]:
    """Two points on either side of a boundary, 1e-12 apart, and the neuron that changes there."""
    while True:
        lo, hi = rng.normal(size=(2, d))
        first = pattern(Ws, lo, gamma)
        if (pattern(Ws, hi, gamma) == first).all():
            continue
        while np.linalg.norm(hi - lo) > 1e-12:
            middle = (lo + hi) / 2
            lo, hi = (middle, hi) if (pattern(Ws, middle, gamma) == first).all() else (lo, middle)
        (changed,) = np.nonzero(pattern(Ws, hi, gamma)[0] != first[0])
        return lo, hi, int(changed[0])


@claim(
    "kunin2024/regions-boundaries",
    place="Appendix, Surface of a piecewise linear network, after Definition 16",
    statement="The network is linear in each region and continuous across boundaries. A boundary is a piece of the "
    "hyperplane on which one neuron's pre-activation vanishes; it is orthogonal to the difference of the two linear "
    "predictors, which lies in the span of the first-layer weights.",
    formula=r"f(x) = \beta_{\mathcal R}^\top x\ (x \in \mathcal R), \qquad"
    r" \beta_{\mathcal R} - \beta_{\mathcal R'} \parallel \nabla_x z_i, \qquad"
    r" \beta_{\mathcal R} - \beta_{\mathcal R'} \in \operatorname{Row}(W_1)",
    conditions="No biases; neighbouring regions with different predictors.",
    tolerance=1e-9,
    seeds=11,
)
def regions_boundaries(rng: Rng) -> float:
    d = 4
    Ws, gamma = drawn(rng, d, most=3)
    a = rng.normal(size=len(Ws[-1]))

    def f(p: list[Array]) -> Values:
        return sigma(preactivations(Ws, p[0][None], gamma)[-1], gamma)[0] @ a

    lo, hi, neuron = crossing(rng, Ws, gamma, d)
    (here,), (there,) = gradient(f, [lo]), gradient(f, [hi])
    (normal,) = gradient(lambda p: np.concatenate(preactivations(Ws, p[0][None], gamma), axis=1)[0, neuron], [lo])
    difference, size = here - there, max(np.linalg.norm(here), np.linalg.norm(there), 1e-300)
    beside = difference - normal * (normal @ difference) / (normal @ normal)
    outside = difference - np.linalg.pinv(Ws[0]) @ Ws[0] @ difference
    jump = abs(f([hi]) - f([lo])) / np.linalg.norm(lo)
    linear = abs(here @ lo - f([lo])) / np.linalg.norm(lo)
    return float(max(np.linalg.norm(beside), np.linalg.norm(outside), jump, linear) / size)


def boundaries(Ws: list[Array], gamma: float) -> list[int]:
    """Around the circle of inputs: at each boundary, how many neurons change."""

    def at(angle: Real) -> Array:
        return pattern(Ws, np.stack([np.cos(angle), np.sin(angle)], axis=-1), gamma)

    def between(lo: float, hi: float, p: Array, q: Array) -> list[int]:
        changed = int(np.sum(p != q))
        if changed <= 1 or hi - lo < 1e-9:
            return [changed] * (changed > 0)
        middle = (lo + hi) / 2
        r = at(middle)[0]
        return between(lo, middle, p, r) + between(middle, hi, r, q)

    angles = 0.1234 + np.linspace(0, 2 * np.pi, 721)
    seen = at(angles)
    pairs = zip(angles[:-1], angles[1:], seen[:-1], seen[1:], strict=True)
    return [count for pair in pairs for count in between(*pair)]


def needs_a_third_colour(Ws: list[Array], gamma: float) -> float:
    """1 if the regions around the circle are of odd number, 0 if of even."""
    return float(len(boundaries(Ws, gamma)) % 2)


def sharing_a_boundary(rng: Rng) -> tuple[list[Array], float]:
    """Two layers whose last neuron changes on part of a boundary of the first layer, and nowhere else of it."""
    gamma, angle = float(rng.uniform(0.2, 0.8)), rng.uniform(0, 2 * np.pi)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    first = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]]) @ turn
    return [first, np.array([[rng.uniform(0.5, 2.0), gamma, 1.0]])], gamma


@claim(
    "kunin2024/proposition-17",
    place="Proposition 17",
    statement="If every neuron influences a region, two colours suffice to tell neighbouring regions apart: an even or "
    "odd number of active neurons.",
    formula=r"\chi(\text{partition of input space}) = 2",
    conditions="No redundant neurons, in the sense that every neuron influences an activation region.",
    tolerance=0.0,  # a colour too many
    seeds=4,
)
def proposition_17(rng: Rng) -> float:
    return needs_a_third_colour(*(sharing_a_boundary(rng) if rng.integers(3) == 0 else drawn(rng, 2)))


@proposition_17.stronger(
    "No two neurons change on a common piece of boundary, which holds for almost all weights. The source itself says "
    "so nearby, in the justification of the proposition, as if it followed. That every neuron matters does not exclude "
    "it: a neuron of the second layer may share half of a boundary with one of the first."
)
def proposition_17_without_shared_boundaries(rng: Rng) -> float:
    """No two neurons change at once, and the two colours do."""
    Ws, gamma = drawn(rng, 2)
    return max(needs_a_third_colour(Ws, gamma), float(max(boundaries(Ws, gamma)) - 1))


@proposition_17.counterexample(
    "γ = ½, first layer x1, x2, x1 − x2, one neuron z = σ(x1) + ½σ(x2) + σ(x1 − x2) in the second, which changes sign "
    "with x1 where x2 > 0: 7 sectors around the origin, and a ring of 7 takes 3 colours"
)
def _() -> tuple[float, float]:
    Ws = [np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]]), np.array([[1.0, 0.5, 1.0]])]
    return 2.0, 2.0 + needs_a_third_colour(Ws, 0.5)


def best_fit(W: Array, X: Array, y: Array, gamma: float) -> Array:
    """The second layer that fits best, a least squares problem."""
    return np.linalg.lstsq(sigma(X @ W.T, gamma), y, rcond=None)[0]


@claim(
    "kunin2024/piecewise-expressive",
    place="Appendix, Dynamics of a two-layer piecewise linear network",
    statement="As h → ∞, two layers without biases can represent every continuous function that vanishes at the "
    "origin.",
    formula=r"\forall g \in C(\mathbb R^d),\ g(0) = 0:\quad \inf_{h, a, W}\|a^\top\sigma(Wx) - g(x)\| = 0",
    conditions="σ(z) = max(z, γz), 0 ≤ γ < 1, no biases.",
    tolerance=1e-9,
    seeds=5,
)
def piecewise_expressive(rng: Rng) -> float:
    """What is left of a quadratic function on a few points and their doubles, after a fit with 200 neurons."""
    d, gamma = int(rng.integers(1, 4)), float(rng.choice([0.0, rng.uniform(0.05, 0.9)]))
    X, v = rng.normal(size=(4, d)), rng.normal(size=d)
    points, W = np.vstack([X, 2 * X]), rng.normal(size=(200, d))
    y = (points @ v) ** 2
    return float(np.linalg.norm(outputs([best_fit(W, points, y, gamma), W], points, gamma) - y) / np.linalg.norm(y))


@piecewise_expressive.corrected(
    "Only functions that are positively homogeneous, and whose odd part is linear, whatever the width; and all "
    "of those.",
    formula=r"\overline{\{a^\top\sigma(Wx)\}} = \{g : g(tx) = tg(x)\ (t > 0),\ g(x) - g(-x) = 2v^\top x\}",
)
def piecewise_expressive_of_homogeneous_functions(rng: Rng) -> float:
    """Random values on points, their negatives and their multiples: the best fit by 200 neurons, against the best by
    that class, which on these points is an even value for each line through the origin and a linear function."""
    d, gamma = int(rng.integers(1, 4)), float(rng.choice([0.0, rng.uniform(0.05, 0.9)]))
    lines = 1 if d == 1 else int(rng.integers(4, 7))  # more than inputs, so that not every odd part is linear
    X, W = rng.normal(size=(lines, d)), rng.normal(size=(200, d))
    multiples = np.array([1.0, -1.0, *rng.uniform(-3.0, 3.0, size=2)])
    points = np.vstack([m * X for m in multiples])
    y = rng.normal(size=len(points))
    basis = np.hstack([np.kron(np.abs(multiples)[:, None], np.eye(lines)), points])
    best = basis @ np.linalg.lstsq(basis, y, rcond=None)[0]
    return relative_error(best, outputs([best_fit(W, points, y, gamma), W], points, gamma))


@piecewise_expressive.counterexample(
    "One input, ReLU, g(x) = x²: 50 neurons that give g(1) = 1 give 2 at x = 2, where g is 4"
)
def _() -> tuple[float, float]:
    W, one = np.random.default_rng(0).normal(size=(50, 1)), np.ones((1, 1))
    return 2.0**2, float(outputs([best_fit(W, one, np.ones(1), 0.0), W], 2 * one, 0.0)[0])
