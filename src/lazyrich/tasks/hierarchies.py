"""Semantic hierarchies: eight things and their features, and branching-diffusion trees of any depth.

The eight-item tasks are the living kingdom of Saxe and its two revisions in Braun et al. 2022 (Figs 3 and
6): one-hot inputs, so Σxx = I/8. Feature i is multiplied by 1 + split/i, which separates singular values
that would be equal.
"""

from __future__ import annotations

import numpy as np

from lazyrich import _check
from lazyrich._typing import Array, Float, Rng
from lazyrich.tasks.task import Task

#: Two of a kind, in the order of the rows: two fish, two birds, two flowers, two trees.
_ITEMS = ("salmon", "sunfish", "robin", "canary", "rose", "daisy", "oak", "pine")
# rows: items; columns: features, one per node of the tree
_KINGDOM = np.array(
    [
        [1, 1, 1, 0, 1, 0, 0, 0],
        [1, 1, 1, 0, -1, 0, 0, 0],
        [1, 1, -1, 0, 0, 1, 0, 0],
        [1, 1, -1, 0, 0, -1, 0, 0],
        [1, -1, 0, 1, 0, 0, 1, 0],
        [1, -1, 0, 1, 0, 0, -1, 0],
        [1, -1, 0, -1, 0, 0, 0, 1],
        [1, -1, 0, -1, 0, 0, 0, -1],
    ],
    dtype=np.float64,
)
_COLOUR = _KINGDOM[[4, 3, 0, 6, 2, 1, 7, 5]]  # the same tree, with the items in other places


def semantic_hierarchy(*, split: float = 0.1) -> Task:
    """The living kingdom: eight items, eight features, a three-level tree.

    Parameters
    ----------
    split : how far equal singular values are set apart

    Returns
    -------
    Task

    >>> lr.tasks.semantic_hierarchy().modes.s.round(3)
    array([0.389, 0.371, 0.258, 0.256, 0.18 , 0.18 , 0.179, 0.179])
    >>> lr.tasks.semantic_hierarchy().items
    ('salmon', 'sunfish', 'robin', 'canary', 'rose', 'daisy', 'oak', 'pine')
    """
    return _one_hot(_KINGDOM, split, "semantic hierarchy")


def revised_kingdom(*, split: float = 0.1) -> Task:
    """The living kingdom with its last feature reversed: two neighbours swap places, as in reversal learning.

    Parameters
    ----------
    split : how far equal singular values are set apart

    Returns
    -------
    Task

    >>> kingdom, revised = lr.tasks.semantic_hierarchy(), lr.tasks.revised_kingdom()
    >>> np.argwhere(kingdom.sigma_yx != revised.sigma_yx)
    array([[7, 6],
           [7, 7]])
    """
    return _one_hot(_KINGDOM * np.where(np.arange(8) == 7, -1, 1), split, "revised kingdom")


def colour_hierarchy(*, split: float = 0.1) -> Task:
    """The same eight items sorted by colour: the same tree over another order.

    Parameters
    ----------
    split : how far equal singular values are set apart

    Returns
    -------
    Task

    >>> kingdom, colours = lr.tasks.semantic_hierarchy(), lr.tasks.colour_hierarchy()
    >>> bool(np.allclose(kingdom.modes.s, colours.modes.s)), bool(np.allclose(kingdom.sigma_yx, colours.sigma_yx))
    (True, False)
    """
    return _one_hot(_COLOUR, split, "colour hierarchy")


def binary_tree(rng: Rng, *, levels: int = 5, features: int = 1000, flip: float = 0.1) -> Task:
    """Branching diffusion (Saxe et al. 2014): one-hot items and ±1 features that flip down a binary tree.

    Parameters
    ----------
    rng : a seed, or a NumPy Generator
    levels : of the tree, which has 2^levels items
    features : outputs, ±1 at the root; each child takes its parent's value
    flip : or its opposite, with this probability

    Returns
    -------
    Task

    >>> lr.tasks.binary_tree(0, levels=3, features=100)
    <Task 'binary tree': 8 inputs, 100 outputs, 8 samples>
    """
    generator = _check.as_rng(rng)
    levels, features = _check.count("levels", levels, least=0), _check.count("features", features)
    if levels > 14:
        raise _check.InvalidInput(f"levels must be at most 14 (16,384 items), and it is {levels}.")
    if not 0 <= _check.number("flip", flip) <= 1:
        raise _check.InvalidInput(f"flip must be a probability between 0 and 1, and it is {flip!r}.")
    values = generator.choice([-1.0, 1.0], size=(1, features))
    for _ in range(levels):
        values = np.repeat(values, 2, axis=0)
        values = np.where(generator.random(values.shape) < flip, -values, values)
    return Task.from_data(np.eye(len(values)), values, name="binary tree")


def _one_hot(items: Float[Array, "item feature"], split: float, name: str) -> Task:
    factors = 1 + _check.number("split", split) / np.arange(1, items.shape[1] + 1)
    return Task.from_data(np.eye(len(items)), items * factors, name=name, items=_ITEMS)
