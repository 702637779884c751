"""Weights drawn entry by entry, or as random rotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np

from lazyrich import _check
from lazyrich._typing import Array, Float, Rng
from lazyrich.networks import Network


def gaussian(rng: Rng, *, sizes: Sequence[SupportsIndex], scale: float, activation: str | float = "linear") -> Network:
    """Independent Gaussian entries in every layer.

    Parameters
    ----------
    rng : a seed, or a NumPy Generator
    sizes : widths (d_in, hidden …, d_out)
    scale : their standard deviation
    activation : "linear", "relu", "tanh", or the slope of a leaky ReLU

    Returns
    -------
    Network

    >>> lr.inits.gaussian(0, sizes=(8, 14, 8), scale=1e-4)
    <Network: 8-14-8, linear>
    """
    generator, widths = _check.as_rng(rng), _check.sizes(sizes)
    scale = _check.positive("scale", scale)
    layers = [scale * generator.normal(size=shape) for shape in zip(widths[1:], widths[:-1], strict=True)]
    return Network(layers, activation)


def orthogonal(
    rng: Rng, *, sizes: Sequence[SupportsIndex], scale: float, activation: str | float = "linear"
) -> Network:
    """Each layer a multiple of a random matrix with orthonormal rows or columns, whichever are fewer.

    Parameters
    ----------
    rng : a seed, or a NumPy Generator
    sizes : widths (d_in, hidden …, d_out)
    scale : the multiple
    activation : "linear", "relu", "tanh", or the slope of a leaky ReLU

    Returns
    -------
    Network

    >>> net = lr.inits.orthogonal(0, sizes=(3, 3, 3), scale=2.0)
    >>> abs(net.weights[0] @ net.weights[0].T).round(12)[0]
    array([4., 0., 0.])
    """
    generator, widths = _check.as_rng(rng), _check.sizes(sizes)
    scale = _check.positive("scale", scale)
    layers = []
    for rows, columns in zip(widths[1:], widths[:-1], strict=True):
        frame = random_frame(generator, max(rows, columns), min(rows, columns))
        layers.append(scale * (frame if rows >= columns else frame.T))
    return Network(layers, activation)


def random_frame(generator: np.random.Generator, size: int, columns: int) -> Float[Array, "size columns"]:
    """`columns` orthonormal vectors, uniformly distributed."""
    frame, R = np.linalg.qr(generator.normal(size=(size, columns)))
    return frame * np.where(np.diag(R) < 0, -1.0, 1.0)
