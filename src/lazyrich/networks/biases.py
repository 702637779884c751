"""A bias is a weight from a unit that is always 1.

Inputs get a last entry 1, and every hidden layer a last unit that stays 1, so that matrices are all there is:

    σ([[W, b], [0, g]] [x; 1]) = [σ(Wx + b); 1],     σ(g) = 1,     and the last layer is [W, b].

The rows (0, …, 0, g) make the constant and are never trained. Without them, layers are called *free*: their entries are
the parameters, weights and biases.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.networks.activation import Activation

_SATURATED = 20.0  # tanh of it is 1 to the last bit


def constant_rows(sizes: Sequence[int], activation: Activation) -> tuple[Float[Array, "1 in"], ...]:
    """(0, …, 0, g) of every hidden layer, for widths that count the constant units.

    >>> constant_rows((3, 2, 1), lr.Activation.of("relu"))
    (array([[0., 0., 1.]]),)
    """
    g = 1.0 if activation.homogeneous else _SATURATED
    return tuple(g * np.eye(1, width, width - 1) for width in sizes[:-2])


def joined(weights: Sequence[Array], biases: Sequence[Array], activation: Activation) -> list[Array]:
    """The layers (out, in) with their biases (out,) as a last column, and the rows of the constant; axes in front
    stay.

    >>> joined([np.eye(2), np.ones((1, 2))], [np.array([5.0, 6.0]), np.array([7.0])], lr.Activation.of("linear"))
    [array([[1., 0., 5.],
           [0., 1., 6.],
           [0., 0., 1.]]), array([[1., 1., 7.]])]
    """
    layers = [np.concatenate([W, b[..., None]], axis=-1) for W, b in zip(weights, biases, strict=True)]
    sizes = (layers[0].shape[-1], *(W.shape[-2] + 1 for W in layers[:-1]), layers[-1].shape[-2])
    return whole(layers, constant_rows(sizes, activation))


def free(layers: Sequence[Any]) -> list[Any]:
    """The layers without the rows that make the constant; axes in front stay."""
    return [*(W[..., :-1, :] for W in layers[:-1]), layers[-1]]


def whole(layers: Sequence[Any], rows: Sequence[Any], xp: ModuleType = np) -> list[Any]:
    """Free layers with these rows below all but the last; the layers as they are where there are no rows."""
    if not len(rows):
        return list(layers)
    below = [xp.broadcast_to(row, (*W.shape[:-2], 1, W.shape[-1])) for W, row in zip(layers, rows, strict=False)]
    return [*(xp.concatenate([W, row], axis=-2) for W, row in zip(layers, below, strict=False)), layers[-1]]


def meeting(layers: Sequence[Any], biased: bool) -> list[tuple[Any, Any]]:
    """The weights into and out of each hidden layer, of its units that are not constant: (h, in) and (out, h).

    Biases are among the weights into a layer. η_ℓ BᵀB − η_ℓ₊₁ AAᵀ of these is what gradient flow conserves.
    """
    if not biased:
        return list(itertools.pairwise(layers))
    inner = free(layers)
    return [(A, B[..., :-1]) for A, B in itertools.pairwise(inner)]


def with_constant(inputs: Float[Array, "P in"]) -> Float[Array, "P _"]:
    """Samples in rows, each with a last entry 1."""
    return np.concatenate([inputs, np.ones((len(inputs), 1))], axis=1)
