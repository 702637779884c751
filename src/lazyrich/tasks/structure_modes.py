"""The modes of structures in closed form: waves on a ring, cosines along an order, contrasts in clusters and trees.

Each takes the arguments of its task and gives Σyx = U diag(s) Vᵀ (`structures.py`): s = √c/P with c the eigenvalues of
the covariance C of the features, and U = V where the features are the items' own. With ℓ the eigenvalues of the graph's
Laplacian c = 1/(ℓ + 1/spread²):

    ring       ℓ_k = 2 − 2 cos(2πk/P)        v_k ∝ cos(2πkj/P), sin(2πkj/P)
    order      ℓ_k = 2 − 2 cos(πk/P)         v_k ∝ cos(πk(j + ½)/P)
    clusters   ℓ = 0; P·between; size·within + (P − size)·between
    tree       c_l = Σ_{k>l} M_k (ρ_k − ρ_{k−1})

In the tree M_k are the leaves below a node of level k (root 0, leaves D), ρ_k = (1 − 2 flip)^{2(D−k)} the covariance of
two whose last common ancestor is there, and c_l belongs to contrasts between the branches of a node of level l; what
all share has c = Σ_k M_k (ρ_k − ρ_{k−1}) from k = 0, with ρ_{−1} = 0. Equal ones have no axes of their own: of these
only the space that the vectors span has a meaning.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.tasks.structures import as_branches, as_flip, leaves_below, one_hot_targets
from lazyrich.tasks.task import Modes, Task


def ring_modes(*, items: int = 8, spread: float = 3.0) -> Modes:
    """Waves around the ring, the slowest strongest: of each frequency a cosine and a sine.

    Parameters and returns are those of `ring`, and U, s, V.

    >>> (4 * lr.tasks.ring_modes(items=4, spread=1.0).s).round(4)  # 1/√(ℓ + 1) of ℓ = 0, 2, 2, 4
    array([1.    , 0.5774, 0.5774, 0.4472])
    """
    P, spread = _check.count("items", items, least=3), _check.positive("spread", spread)
    k = (np.arange(P) + 1) // 2  # 0, 1, 1, 2, 2, …
    phase = 2 * np.pi * np.outer(np.arange(P), k) / P
    waves = np.where(np.arange(P) % 2 == 1, np.cos(phase), np.sin(phase))
    waves[:, 0] = 1.0
    return _of_graph(2 - 2 * np.cos(2 * np.pi * k / P), waves, spread)


def order_modes(*, items: int = 8, spread: float = 3.0) -> Modes:
    """Cosines along the line, the slowest strongest: first the two ends part, then the middle from both.

    Parameters and returns are those of `order`, and U, s, V.

    >>> (2 * lr.tasks.order_modes(items=2, spread=1.0).s).round(4)  # 1/√(ℓ + 1) of ℓ = 0, 2
    array([1.    , 0.5774])
    """
    P, spread = _check.count("items", items, least=2), _check.positive("spread", spread)
    k = np.arange(P)
    return _of_graph(2 - 2 * np.cos(np.pi * k / P), np.cos(np.pi * np.outer(k + 0.5, k) / P), spread)


def clusters_modes(
    *, count: int = 3, size: int = 3, within: float = 1.0, between: float = 0.1, spread: float = 3.0
) -> Modes:
    """What all share, then contrasts between clusters, then those inside (if links inside are the stronger).

    Parameters and returns are those of `clusters`, and U, s, V.

    >>> (4 * lr.tasks.clusters_modes(count=2, size=2, between=0.0, spread=1.0).s).round(4)  # ℓ = 0, 0, 2, 2
    array([1.    , 1.    , 0.5774, 0.5774])
    """
    count, size = _check.count("count", count), _check.count("size", size)
    within, between = (_check.positive(n, w, or_zero=True) for n, w in (("within", within), ("between", between)))
    P, spread = count * size, _check.positive("spread", spread)
    apart = np.repeat(_contrasts(count), size, axis=0)
    inside = np.kron(np.eye(count), _contrasts(size))
    values = [np.zeros(1), np.full(count - 1, P * between), np.full(P - count, size * within + (P - size) * between)]
    return _of_graph(np.concatenate(values), np.concatenate([np.ones((P, 1)), apart, inside], axis=1), spread)


def tree_modes(*, branches: Sequence[int] = (2, 2, 2), flip: float = 0.1) -> Modes:
    """Level by level: what all share, then contrasts between the branches of the root, of their children, and so on.

    Parameters and returns are those of `tree`, and U, s, V.

    >>> (4 * lr.tasks.tree_modes(branches=(2, 2), flip=0.25).s).round(4)  # √c: 1 + ¼ + 2/16, 1 + ¼ − 2/16, 1 − ¼ twice
    array([1.1726, 1.0607, 0.866 , 0.866 ])
    """
    branches, flip = as_branches(branches), as_flip(flip)
    M, depth = leaves_below(branches), len(branches)
    rho = (1 - 2 * flip) ** (2.0 * np.arange(depth, -1, -1))
    steps = np.array(M) * np.diff(rho, prepend=0.0)
    c, vectors, nodes = [np.array([steps.sum()])], [np.ones((M[0], 1))], 1
    for level, count in enumerate(branches):
        apart = np.kron(np.eye(nodes), np.repeat(_contrasts(count), M[level + 1], axis=0))
        c.append(np.full(nodes * (count - 1), steps[level + 1 :].sum()))
        vectors.append(apart)
        nodes *= count
    return _sorted(np.concatenate(c), np.concatenate(vectors, axis=1))


def cross_cutting_modes(first: Task, second: Task, *, weight: float = 1.0) -> Modes:
    """The modes of either task, each as often as it is there, and one of what all items share.

    With P₁ and P₂ items and Y₁Y₁ᵀ = Σ c vvᵀ, a mode of the first has s = √(P₂c)/(P₁P₂) and is v in all items of the
    second, and the other way round, weight²·c in place of c; of the constant modes c = P₂c₁ + weight²P₁c₂. Modes that
    are not there (P₁P₂ − P₁ − P₂ + 1 of them at least) are left out.

    Parameters
    ----------
    first, second, weight : as in `cross_cutting`; what all items share must be a mode of each

    Returns
    -------
    Modes

    >>> pair = lr.tasks.tree(branches=(2,), flip=0.25)
    >>> task, modes = lr.tasks.cross_cutting(pair, pair), lr.tasks.cross_cutting_modes(pair, pair)
    >>> np.allclose(modes.s, task.modes.s[:3]), np.allclose(modes.U * modes.s @ modes.V.T, task.sigma_yx)
    (True, True)
    """
    Y1, Y2 = one_hot_targets("first", first), _check.positive("weight", weight) * one_hot_targets("second", second)
    (shared1, c1, V1), (shared2, c2, V2) = _beside_constant("first", Y1), _beside_constant("second", Y2)
    P1, P2 = len(Y1), len(Y2)
    c = np.concatenate([[P2 * shared1 + P1 * shared2], P2 * c1, P1 * c2])
    V = np.concatenate([np.ones((P1 * P2, 1)), np.repeat(V1, P2, axis=0), np.tile(V2, (P1, 1))], axis=1)
    there = c > len(c) * np.finfo(np.float64).eps * c.max()
    _, s, V = _sorted(c[there], V[:, there])
    U = np.concatenate([Y1.T @ V.reshape(P1, P2, -1).sum(axis=1), Y2.T @ V.reshape(P1, P2, -1).sum(axis=0)])
    return Modes(U / (P1 * P2 * s), s, V)


def _of_graph(ell: Float[Array, " P"], vectors: Float[Array, "P P"], spread: float) -> Modes:
    """From the eigenvalues of the Laplacian and vectors of any length."""
    return _sorted(1 / (np.maximum(ell, 0.0) + 1 / spread**2), vectors)


def _sorted(c: Float[Array, " m"], vectors: Float[Array, "P m"]) -> Modes:
    """Strongest first, with vectors of length 1."""
    order = np.argsort(-c, kind="stable")
    V = (vectors / np.linalg.norm(vectors, axis=0))[:, order]
    return Modes(V, np.sqrt(np.maximum(c[order], 0.0)) / len(V), V)


def _contrasts(count: int) -> Float[Array, "n k"]:
    """count − 1 orthogonal contrasts between so many: the first k against the next one (Helmert)."""
    contrasts = np.zeros((count, count - 1))
    for k in range(1, count):
        contrasts[:k, k - 1], contrasts[k, k - 1] = 1.0, -k
    return contrasts


def _beside_constant(name: str, Y: Float[Array, "P out"]) -> tuple[float, Float[Array, " n"], Float[Array, "P n"]]:
    """YYᵀ: the eigenvalue of what all items share, and the others with their vectors."""
    C, P = Y @ Y.T, len(Y)
    sums = C.sum(axis=1)
    if np.abs(sums - sums.mean()).max() > 1e-9 * np.abs(C).max() * P:
        raise InvalidInput(
            f"{name} must have what all items share as a mode of its own (as trees, rings and clusters do), and it has "
            "not: try task.modes of cross_cutting(first, second)."
        )
    rest = _contrasts(P) / np.linalg.norm(_contrasts(P), axis=0) if P > 1 else np.zeros((1, 0))
    values, turned = np.linalg.eigh(rest.T @ C @ rest)
    return float(sums.mean()), values, rest @ turned
