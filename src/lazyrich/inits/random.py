"""Weights drawn entry by entry, or as random rotations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, ArrayLike, Float, Rng
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


def pytorch(
    rng: Rng, *, sizes: Sequence[SupportsIndex], activation: str | float = "linear", biases: object = True
) -> Network:
    """The default initialisation of PyTorch's Linear: all entries uniform within ±1/√fan_in, biases too.

    For the weights of a model of yours, `lr.Network.from_state_dict(model.state_dict())`.

    Parameters
    ----------
    rng : a seed, or a NumPy Generator
    sizes : widths (d_in, hidden …, d_out)
    activation : "linear", "relu", "tanh", or the slope of a leaky ReLU
    biases : whether the layers have them

    Returns
    -------
    Network

    >>> lr.inits.pytorch(0, sizes=(64, 32, 10))
    <Network: 64-32-10, linear, with biases>
    """
    generator, widths, biased = _check.as_rng(rng), _check.sizes(sizes), _check.flag("biases", biases)
    weights, vectors = [], []
    for fan_in, fan_out in itertools.pairwise(widths):
        weights.append(generator.uniform(-1, 1, size=(fan_out, fan_in)) / np.sqrt(fan_in))
        vectors.append(generator.uniform(-1, 1, size=fan_out) / np.sqrt(fan_in))
    return Network(weights, activation, biases=vectors if biased else None)


def orthogonal(
    rng: Rng,
    *,
    sizes: Sequence[SupportsIndex],
    scale: float | None = None,
    scales: ArrayLike | None = None,
    activation: str | float = "linear",
) -> Network:
    """Random layers with orthonormal rows or columns; with `scales`, two layers that are also orthogonal to each other.

    Two layers with W1ᵀW1 = c1·I, W2W2ᵀ = c2·I and W2W1 = 0 are solved exactly on white inputs (method `family`).

    Parameters
    ----------
    rng : a seed, or a NumPy Generator
    sizes : widths (d_in, hidden …, d_out); with `scales` the hidden layer has d_in + d_out units or more
    scale : what each layer is multiplied by
    scales : c1 and c2, instead of `scale`
    activation : "linear", "relu", "tanh", or the slope of a leaky ReLU

    Returns
    -------
    Network

    >>> net = lr.inits.orthogonal(0, sizes=(3, 3, 3), scale=2.0)
    >>> abs(net.weights[0] @ net.weights[0].T).round(12)[0]
    array([4., 0., 0.])
    >>> W1, W2 = lr.inits.orthogonal(0, sizes=(1, 4, 2), scales=(0.5, 0.2)).weights
    >>> (W1.T @ W1).round(12), abs(W2 @ W2.T).round(12)[0], bool(abs(W2 @ W1).max() < 1e-15)
    (array([[0.5]]), array([0.2, 0. ]), True)
    """
    generator = _check.as_rng(rng)
    if (scale is None) == (scales is None):
        given = "none is given" if scale is None else "both are given"
        raise InvalidInput(f"orthogonal needs scale or scales, and {given}: try scale=0.1, or scales=(0.1, 0.1).")
    if scales is not None:
        return _orthogonal_to_each_other(generator, _check.sizes(sizes, depth=2), scales, activation)
    widths, scale = _check.sizes(sizes), _check.positive("scale", scale)
    layers = []
    for rows, columns in zip(widths[1:], widths[:-1], strict=True):
        frame = random_frame(generator, max(rows, columns), min(rows, columns))
        layers.append(scale * (frame if rows >= columns else frame.T))
    return Network(layers, activation)


def _orthogonal_to_each_other(
    generator: np.random.Generator, widths: tuple[int, ...], scales: object, activation: str | float
) -> Network:
    if not isinstance(scales, tuple | list | np.ndarray) or np.shape(scales) != (2,):
        came = _check.shown(scales)
        raise InvalidInput(f"scales must be two numbers, c1 and c2, and it is {came}: try scales=(0.1, 0.1).")
    c1, c2 = (_check.positive(f"scales[{i}]", c, or_zero=True) for i, c in enumerate(scales))
    d_in, h, d_out = widths
    if h < d_in + d_out:
        raise InvalidInput(
            f"sizes must have as many hidden units as inputs and outputs together for layers orthogonal to each other, "
            f"and it has {h}: try {d_in + d_out} or more."
        )
    frame = random_frame(generator, h, d_in + d_out)
    return Network([np.sqrt(c1) * frame[:, :d_in], np.sqrt(c2) * frame[:, d_in:].T], activation)


def random_frame(generator: np.random.Generator, size: int, columns: int) -> Float[Array, "size columns"]:
    """`columns` orthonormal vectors, uniformly distributed."""
    frame, R = np.linalg.qr(generator.normal(size=(size, columns)))
    return frame * np.where(np.diag(R) < 0, -1.0, 1.0)
