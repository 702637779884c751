"""Saxe, McClelland and Ganguli 2019: how concepts develop in a network of two linear layers, and in one of one.

Items are one-hot, Σyx = U S Vᵀ and time in units of the paper's τ, so that inputs count as white. Layers begin small,
balanced, and aligned with the modes of the task; mode α of strength s is then

    two layers    a(t) = s e^{2st}/(e^{2st} − 1 + s/a0)        one layer     b(t) = s(1 − e^{−t}) + b0 e^{−t}

Modes of structures are those of `lazyrich.tasks`, which are tried here: `ring_modes`, `order_modes`, `clusters_modes`,
`tree_modes` and `cross_cutting_modes`. Arrays broadcast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.tasks import clusters_modes, cross_cutting_modes, order_modes, ring_modes, tree_modes

__all__ = [
    "clusters_modes",
    "coherence",
    "cross_cutting_modes",
    "deep",
    "hidden_similarity",
    "item_overlap",
    "novel_item",
    "novel_property",
    "order_modes",
    "ring_modes",
    "shallow",
    "transition",
    "tree_modes",
    "typicality",
]


def deep(s: Any, a0: Any, t: Any) -> Any:
    """a(t) of a mode in two layers: it waits, rises, and is learned.

    >>> deep(2.0, 0.1, np.array([0.0, 10.0])).round(6)
    array([0.1, 2. ])
    """
    return s / (1 + (s / a0 - 1) * np.exp(-2 * s * np.asarray(t)))


def shallow(s: Any, b0: Any, t: Any) -> Any:
    """b(t) of a mode in one layer: all modes at the same rate.

    >>> shallow(2.0, 0.0, np.log(2.0))
    np.float64(1.0)
    """
    left = np.exp(-np.asarray(t))
    return s * (1 - left) + b0 * left


def transition(s: Any, share: float) -> Any:
    """How long a mode of two layers takes from this share of s to s less it: the same from any start.

    >>> float(transition(2.0, 0.1).round(6))  # ln(9)/2
    1.098612
    """
    return np.log(1 / share - 1) / np.asarray(s)


def hidden_similarity(V: Float[Array, "P m"], a: Float[Array, " m"]) -> Float[Array, "P P"]:
    """h_iᵀh_j of the hidden layer where modes have the strengths a: V diag(a) Vᵀ, the same in all networks.

    >>> hidden_similarity(np.eye(2), np.array([2.0, 1.0]))
    array([[2., 0.],
           [0., 1.]])
    """
    return (V * a) @ V.T


def typicality(u: Float[Array, " out"], s: float, features: Float[Array, "P out"]) -> Float[Array, " P"]:
    """v_i = Σ_m u_m y_im/(P s): how an item's features match those of the category that a mode stands for.

    >>> typicality(np.array([1.0, 0.0]), 0.5, np.array([[1.0, 5.0], [0.0, 2.0]]))
    array([1., 0.])
    """
    return features @ u / (len(features) * s)


def coherence(p: float, q: float, members: int, own: int, items: int, features: int) -> float:
    """C = SNR · K_o K_f/√(N_o N_f), SNR = (p − q)²/(q(1 − q)): a category of K_o items, with K_f features of its own.

    Members have these features with probability p; all else is there with probability q. Above C = 1 the category is
    seen, below it is lost among N_o items and N_f features.

    >>> coherence(0.9, 0.5, 10, 10, 100, 100)
    0.64
    """
    return float((p - q) ** 2 / (q * (1 - q)) * members * own / np.sqrt(items * features))


def item_overlap(C: float, A: float) -> float:
    """(v̂ᵀv)² of the strongest mode with a category of coherence C, in the limit of many items; A = features/items.

    >>> item_overlap(4.0, 1.0), item_overlap(0.5, 1.0)
    (0.75, 0.0)
    """
    square = C * np.sqrt(A)  # of the singular value, in units of the noise
    return float(1 - (A + square) / (square * (1 + square))) if C > 1 else 0.0


def novel_property(H: Float[Array, "P h"], item: int) -> Float[Array, " P"]:
    """h_iᵀh_j/‖h_i‖²: what is expected of all items when a new property is taught of one.

    >>> novel_property(np.array([[2.0, 0.0], [1.0, 1.0]]), 0)
    array([1. , 0.5])
    """
    return H @ H[item] / (H[item] @ H[item])


def novel_item(N: Float[Array, "out h"], feature: int) -> Float[Array, " out"]:
    """r_mᵀr_n/‖r_m‖²: what is expected of a new item of which one feature is taught, r the rows of the upper layer.

    >>> novel_item(np.array([[2.0, 0.0], [1.0, 1.0]]), 1)
    array([1., 1.])
    """
    return N @ N[feature] / (N[feature] @ N[feature])
