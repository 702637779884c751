"""Structures: the modes of trees, rings, orders, clusters, and of two trees that cut across each other."""

from __future__ import annotations

from itertools import product

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import relative_error
from lazyrich.papers.base.types import Rng
from lazyrich.papers.saxe2019 import formulas
from lazyrich.tasks import Modes, Task

NOT_CHECKED: tuple[NotChecked, ...] = ()


def on_graph(weights: Array, spread: float) -> Array:
    """(L + I/spread²)⁻¹, the Laplacian link by link."""
    P = len(weights)
    L = np.zeros((P, P))
    for i, j in product(range(P), range(P)):
        if i != j:
            L[i, i] += weights[i, j]
            L[i, j] -= weights[i, j]
    return np.asarray(np.linalg.inv(L + np.eye(P) / spread**2))


def error(modes: Modes, C: Array) -> float:
    """Of modes of Σyx = C^{1/2}/P from the covariance C, and of the order they are in."""
    root = len(C) * modes.U * modes.s @ modes.V.T
    rises = float(np.diff(modes.s).max(initial=0.0))
    return max(relative_error(root @ root.T, C), rises if rises > 1e-12 else 0.0)


@claim(
    "saxe2019/tree",
    place="Progressive differentiation: singular values of a hierarchy",
    statement="Features that are passed on down a tree have modes level by level: contrasts between the branches of a "
    "node, the stronger the higher it is. So broad distinctions are learned before fine ones.",
    formula=r"(P s_l)^2 = \sum_{k>l} M_k\,(\rho_k - \rho_{k-1}), \qquad \rho_k = (1 - 2\varepsilon)^{2(D-k)}",
    conditions="Infinitely many features, ±1 at the root, each flipped from parent to child with probability ε; M_k "
    "leaves below a node of level k of D.",
    tolerance=1e-12,
)
def tree(rng: Rng) -> float:
    branches, flip = tuple(int(n) for n in rng.integers(2, 4, size=2)), rng.uniform(0.05, 0.4)
    edges = [(0, 1 + i) for i in range(branches[0])]
    edges += [(1 + i, 1 + branches[0] + i * branches[1] + j) for i, j in product(*map(range, branches))]
    leaves = [child for parent, child in edges if parent > 0]
    C = np.zeros((len(leaves), len(leaves)))
    for changes in product([1, -1], repeat=len(edges)):  # all histories of a feature, which is 1 at the root
        values, p = np.ones(len(edges) + 1), 1.0
        for (parent, child), change in zip(edges, changes, strict=True):
            values[child] = values[parent] * change
            p *= flip if change < 0 else 1 - flip
        C += p * np.outer(values[leaves], values[leaves])
    return error(formulas.tree_modes(branches=branches, flip=flip), C)


@claim(
    "saxe2019/ring",
    place="Discovering and representing explicit structures: ring",
    statement="Items on a ring have waves for modes, the slowest strongest.",
    formula=r"(P s_k)^{-2} = 2 - 2\cos(2\pi k/P) + \sigma^{-2}, \qquad v_k \propto \cos(2\pi kj/P),\ \sin(2\pi kj/P)",
    conditions="Infinitely many Gaussian features, with the inverse of L + I/σ² as covariance.",
    tolerance=1e-12,
)
def ring(rng: Rng) -> float:
    P, spread = int(rng.integers(3, 10)), rng.uniform(0.5, 3.0)
    A = np.array([[float((i - j) % P in (1, P - 1)) for j in range(P)] for i in range(P)])
    return error(formulas.ring_modes(items=P, spread=spread), on_graph(A, spread))


@claim(
    "saxe2019/order",
    place="Discovering and representing explicit structures: ordering",
    statement="Items in an order have cosines for modes: the first sets the two ends apart.",
    formula=r"(P s_k)^{-2} = 2 - 2\cos(\pi k/P) + \sigma^{-2}, \qquad v_k \propto \cos(\pi k(j + \tfrac12)/P)",
    conditions="Infinitely many Gaussian features, with the inverse of L + I/σ² as covariance.",
    tolerance=1e-12,
)
def order(rng: Rng) -> float:
    P, spread = int(rng.integers(2, 10)), rng.uniform(0.5, 3.0)
    A = np.array([[float(abs(i - j) == 1) for j in range(P)] for i in range(P)])
    return error(formulas.order_modes(items=P, spread=spread), on_graph(A, spread))


@claim(
    "saxe2019/clusters",
    place="Discovering and representing explicit structures: clusters",
    statement="Items in clusters have contrasts between clusters for their strongest modes after what all share, and "
    "all contrasts inside of clusters are equally weak.",
    formula=r"(P s)^{-2} - \sigma^{-2} = 0;\ P b;\ K w + (P - K)\,b",
    conditions="Infinitely many Gaussian features, with the inverse of L + I/σ² as covariance; clusters of K items, "
    "weights w inside and b < w between.",
    tolerance=1e-12,
)
def clusters(rng: Rng) -> float:
    count, size = (int(n) for n in rng.integers(2, 5, size=2))
    within, between, spread = rng.uniform(0.5, 2.0), rng.uniform(0.0, 0.4), rng.uniform(0.5, 3.0)
    A = np.array(
        [[within if i // size == j // size else between for j in range(count * size)] for i in range(count * size)]
    )
    modes = formulas.clusters_modes(count=count, size=size, within=within, between=between, spread=spread)
    return error(modes, on_graph(A, spread))


@claim(
    "saxe2019/cross-cutting",
    place="Discovering and representing explicit structures: cross-cutting",
    statement="Items that are sorted in two ways at once have the modes of both: each is learned in its own time, as "
    "if the other were not there.",
    formula=r"(P_1P_2)^2 s^2 = P_2\,c^{(1)} \text{ or } P_1\,c^{(2)}, \qquad c_0 = P_2c_0^{(1)} + P_1c_0^{(2)}",
    conditions="All pairs of P₁ and P₂ items, each with the features of both; c the eigenvalues of YYᵀ of either, of "
    "which what all items share is one.",
    tolerance=1e-12,
)
def cross_cutting(rng: Rng) -> float:
    parts = []
    for P in (int(rng.integers(2, 4)), int(rng.integers(4, 6))):
        c = rng.uniform(0.2, 2.0, size=2)
        Y = c[0] * np.eye(P) + c[1] * np.ones((P, P)) / P
        parts.append(Task.from_data(np.eye(P), Y))
    weight = rng.uniform(0.5, 2.0)
    modes = formulas.cross_cutting_modes(*parts, weight=weight)
    first, second = (task.targets for task in parts)
    assert first is not None and second is not None
    rows = [[*a, *(weight * b)] for a in first for b in second]
    sigma_yx = np.array(rows).T / len(rows)
    values = np.linalg.svd(sigma_yx, compute_uv=False)[: len(modes.s)]  # U is made with s, and would hide what is wrong
    return max(relative_error(modes.U * modes.s @ modes.V.T, sigma_yx), relative_error(modes.s, values))
