"""Structures: items in a tree, on a ring, in an order, in clusters, on any graph, or sorted in two ways at once.

A structure says how alike items are: C is the covariance of their features over infinitely many of these (Kemp,
Tenenbaum 2008; Saxe et al. 2019). On a graph of weights A it is

    C = (L + I/spread²)⁻¹,     L = diag(A1) − A,

so that features vary little between neighbours, and the less the stronger they are linked; down a tree features are
passed on, and change with some probability. Of infinitely many features a linear network sees C alone. The tasks here
have one-hot inputs, Σxx = I/P, and the targets Y = C^{1/2}, a feature for each item, strongest at the item itself. So

    Σyx = C^{1/2}/P,     s_α = √c_α/P

with c_α the eigenvalues of C. `structure_modes.py` has them in closed form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, product

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, ArrayLike, Float, Rng
from lazyrich.tasks.task import Task, as_task

_MOST = 4096  # items: their covariance has a square root


def from_covariance(covariance: ArrayLike, *, items: Sequence[str] = (), name: str = "") -> Task:
    """Items whose features have a given covariance C: one-hot inputs, and targets C^{1/2}.

    Parameters
    ----------
    covariance : P × P, symmetric, without negative eigenvalues: a model's, or similarities that people have judged
    items : their names
    name : of the task

    Returns
    -------
    Task

    >>> task = lr.tasks.from_covariance([[2.0, 1.0], [1.0, 2.0]])
    >>> (task.targets @ task.targets.T).round(12)
    array([[2., 1.],
           [1., 2.]])
    """
    C = _check.as_matrix("covariance", covariance)
    if C.shape[0] != C.shape[1]:
        raise InvalidInput(f"covariance must be square, and it has {C.shape[0]} × {C.shape[1]} entries.")
    size = float(np.abs(C).max())
    if (apart := float(np.abs(C - C.T).max())) > 1e-8 * size:
        raise InvalidInput(f"covariance must be symmetric, and it differs from its transpose by {apart:.3g}.")
    values, vectors = np.linalg.eigh((C + C.T) / 2)
    if values[0] < -1e-8 * size:
        raise InvalidInput(f"covariance must have no negative eigenvalue, and its least is {values[0]:.3g}.")
    if size == 0:
        raise InvalidInput("covariance must not be zero: items without features teach nothing.")
    values = np.where(
        values > len(C) * np.finfo(np.float64).eps * values[-1], values, 0.0
    )  # the root of rounding is none
    root = (vectors * np.sqrt(values)) @ vectors.T
    return Task.from_data(np.eye(len(C)), (root + root.T) / 2, items=items, name=name)


def graph(weights: ArrayLike, *, spread: float = 3.0, items: Sequence[str] = (), name: str = "graph") -> Task:
    """Items on a graph: what is linked is alike, C = (L + I/spread²)⁻¹.

    Parameters
    ----------
    weights : P × P, symmetric, not negative: how strongly items are linked; the diagonal does not count
    spread : standard deviation that all items share: the larger, the stronger is what they have in common
    items : their names
    name : of the task

    Returns
    -------
    Task

    >>> lr.tasks.graph([[0, 1], [1, 0]], spread=2.0).modes.s.round(6)  # 2/2 and 1/√(2 + 1/4)/2
    array([1.      , 0.333333])
    """
    L = laplacian(weights)
    spread = _check.positive("spread", spread)
    return from_covariance(np.linalg.inv(L + np.eye(len(L)) / spread**2), items=items, name=name)


def ring(*, items: int = 8, spread: float = 3.0) -> Task:
    """Items on a ring, such as colours or months: each is linked to the one before and the one after.

    Parameters
    ----------
    items : three or more
    spread : as in `graph`

    Returns
    -------
    Task

    >>> np.allclose(lr.tasks.ring(items=5).modes.s, lr.tasks.ring_modes(items=5).s)
    True
    """
    P = _check.count("items", items, least=3, most=_MOST)
    ahead = np.roll(np.eye(P), 1, axis=1)
    return graph(ahead + ahead.T, spread=spread, name="ring")


def order(*, items: int = 8, spread: float = 3.0) -> Task:
    """Items in an order, such as sizes or dates: a line in which each is linked to the next.

    Parameters
    ----------
    items : two or more
    spread : as in `graph`

    Returns
    -------
    Task

    >>> np.allclose(lr.tasks.order(items=5).modes.s, lr.tasks.order_modes(items=5).s)
    True
    """
    P = _check.count("items", items, least=2, most=_MOST)
    ahead = np.eye(P, k=1)
    return graph(ahead + ahead.T, spread=spread, name="order")


def clusters(*, count: int = 3, size: int = 3, within: float = 1.0, between: float = 0.1, spread: float = 3.0) -> Task:
    """Items in clusters, all linked within one, and weakly from one to the other.

    Parameters
    ----------
    count : of clusters
    size : of each
    within, between : weights of links inside a cluster and to others
    spread : as in `graph`

    Returns
    -------
    Task : its items are cluster by cluster

    >>> np.allclose(lr.tasks.clusters().modes.s, lr.tasks.clusters_modes().s)
    True
    """
    count, size = _check.count("count", count), _check.count("size", size, most=_MOST)
    _check.count("count × size", count * size, least=2, most=_MOST)
    own = np.kron(np.eye(count), np.ones((size, size)))
    within, between = (_check.positive(n, w, or_zero=True) for n, w in (("within", within), ("between", between)))
    return graph(within * own + between * (1 - own), spread=spread, name="clusters")


def tree(*, branches: Sequence[int] = (2, 2, 2), flip: float = 0.1) -> Task:
    """Leaves of a tree, down which features are passed on: `binary_tree` of infinitely many features, and any branches.

    A feature is ±1 at the root, and each child has the opposite of its parent's with probability `flip`: leaves whose
    last common ancestor is k levels above them have the covariance (1 − 2 flip)^{2k}.

    Parameters
    ----------
    branches : of every node, level by level from the root
    flip : probability of a change from parent to child

    Returns
    -------
    Task

    >>> task = lr.tasks.tree(branches=(2, 2), flip=0.25)
    >>> (task.targets @ task.targets.T)[0].round(6)  # itself, its sister, two cousins
    array([1.    , 0.25  , 0.0625, 0.0625])
    """
    branches, flip = as_branches(branches), as_flip(flip)
    C, leaves = np.zeros((1, 1)), 1
    for level, count in enumerate(reversed(branches)):  # from the leaves up: what is known of one branch, in each
        below = C if level else np.ones((1, 1))
        leaves *= count
        own = np.kron(np.eye(count), np.ones((leaves // count, leaves // count)))
        C = np.where(own > 0, np.kron(np.eye(count), below), (1 - 2 * flip) ** (2 * (level + 1)))
    return from_covariance(C, name="tree")


def random_graph(rng: Rng, *, items: int = 8, links: float = 0.4, spread: float = 3.0) -> Task:
    """A random graph: each two items are linked with the same probability.

    Parameters
    ----------
    rng : a seed, or a NumPy Generator
    items : two or more
    links : probability of a link
    spread : as in `graph`

    Returns
    -------
    Task

    >>> lr.tasks.random_graph(0, items=6)
    <Task 'random graph': 6 inputs, 6 outputs, 6 samples>
    """
    generator, P = _check.as_rng(rng), _check.count("items", items, least=2, most=_MOST)
    if not 0 <= (p := _check.number("links", links)) <= 1:
        raise InvalidInput(f"links must be a probability between 0 and 1, and it is {p:g}.")
    upper = np.triu(generator.random((P, P)) < p, k=1).astype(float)
    return graph(upper + upper.T, spread=spread, name="random graph")


def cross_cutting(first: Task, second: Task, *, weight: float = 1.0) -> Task:
    """Items sorted in two ways that cut across each other: one for each pair of an item of either task.

    An item has the features of both, as animals have those of their kind and those of where they live.

    Parameters
    ----------
    first, second : of one-hot inputs, such as two trees
    weight : of the second one's features

    Returns
    -------
    Task : with the items (0, 0), (0, 1), …, (1, 0), … of first and second

    >>> pair = lr.tasks.from_covariance(np.eye(2), items=["fish", "bird"])
    >>> both = lr.tasks.cross_cutting(pair, lr.tasks.from_covariance(np.eye(2), items=["wild", "tame"]))
    >>> both.items, both.targets[1]
    (('fish wild', 'fish tame', 'bird wild', 'bird tame'), array([1., 0., 0., 1.]))
    """
    Y1, Y2 = one_hot_targets("first", first), one_hot_targets("second", second)
    weight = _check.positive("weight", weight)
    P = _check.count("the number of pairs of items", len(Y1) * len(Y2), most=_MOST)
    features = np.concatenate([np.repeat(Y1, len(Y2), axis=0), weight * np.tile(Y2, (len(Y1), 1))], axis=1)
    names = tuple(" ".join(pair) for pair in product(first.items, second.items))
    return Task.from_data(np.eye(P), features, items=names, name=f"{first.name or 'one'} × {second.name or 'other'}")


def with_random_features(rng: Rng, task: Task, *, features: int = 100) -> Task:
    """The same items with so many random features, Gaussian, that have the task's covariance on average.

    Parameters
    ----------
    rng : a seed, or a NumPy Generator
    task : with samples, which are its items
    features : the more, the nearer is their covariance to that of the task

    Returns
    -------
    Task : features have the weight 1/√features, so that modes keep their strengths on average

    >>> lr.tasks.with_random_features(0, lr.tasks.ring(items=6), features=200)
    <Task 'ring, 200 features': 6 inputs, 200 outputs, 6 samples>
    """
    generator, known = _check.as_rng(rng), as_task(task)
    if known.inputs is None or known.targets is None:
        raise InvalidInput("task must hold samples, which are its items, and it holds correlations only.")
    count = _check.count("features", features)
    drawn = known.targets @ generator.normal(size=(known.d_out, count)) / np.sqrt(count)
    name = f"{known.name or 'task'}, {count} features"
    return Task.from_data(known.inputs, drawn, reduction=known.reduction, items=known.items, name=name)


def laplacian(weights: ArrayLike) -> Float[Array, "P P"]:
    """L = diag(A1) − A of a graph's weights, checked."""
    A = _check.as_matrix("weights", weights)
    if A.shape[0] != A.shape[1] or len(A) > _MOST:
        raise InvalidInput(f"weights must be square, up to {_MOST:,} items, and they are {A.shape[0]} × {A.shape[1]}.")
    if A.min() < 0:
        raise InvalidInput(f"weights must not be negative, and the least is {A.min():g}.")
    if not np.allclose(A, A.T, rtol=1e-8, atol=0):
        raise InvalidInput(f"weights must be symmetric, and they differ by {np.abs(A - A.T).max():.3g} across.")
    A = (A + A.T) / 2 - np.diag(np.diag(A))
    return np.diag(A.sum(axis=1)) - A


def as_branches(branches: object) -> tuple[int, ...]:
    """How many branches every node has, level by level."""
    if isinstance(branches, str) or not isinstance(branches, Iterable) or not (given := tuple(branches)):
        raise InvalidInput(f"branches must be whole numbers, such as (2, 2, 2), and they are {_check.shown(branches)}.")
    found = tuple(_check.count("each of branches", each) for each in given)
    _check.count("the number of leaves", int(np.prod([float(n) for n in found])), most=_MOST)
    return found


def as_flip(flip: object) -> float:
    """The probability of a change."""
    if not 0 <= (p := _check.number("flip", flip)) <= 1:
        raise InvalidInput(f"flip must be a probability between 0 and 1, and it is {p:g}.")
    return p


def one_hot_targets(name: str, task: object) -> Float[Array, "P out"]:
    """The features of items that are one-hot, one item per row."""
    known = as_task(task, name)
    one_hot = known.inputs is not None and np.array_equal(known.inputs, np.eye(len(known.inputs)))
    if known.targets is None or not one_hot:
        raise InvalidInput(f"{name} must have one-hot inputs, one item for each, and it has others: try lr.tasks.tree.")
    return known.targets


def leaves_below(branches: Sequence[int]) -> list[int]:
    """How many leaves are below a node of each level, the root first and the leaves themselves last."""
    counts = [1]
    for n in reversed(branches):
        counts.append(counts[-1] * n)
    assert all(upper % lower == 0 for lower, upper in pairwise(counts))
    return counts[::-1]
