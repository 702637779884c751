"""A network without biases: f(x) = W_L σ(… σ(W_2 σ(W_1 x))), first layer first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.networks.activation import Activation


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Network:
    """Weight matrices and an activation between them.

    Parameters
    ----------
    weights : matrices of shape (outputs, inputs), first layer first
    activation : "linear", "relu", "tanh", or the slope of a leaky ReLU for negative inputs
    multiplier : τ of f → τf, learned at rate/τ² (Chizat et al. 2019). `.weights` holds the last layer times τ, and a
        `Problem` divides the rates of all others by τ², which is the same flow. As τ grows a network gets lazy if it
        begins at f = 0 (`lr.inits.symmetrised`); else what it answers at first grows with it, and is to be unlearned

    >>> import lazyrich as lr
    >>> net = lr.Network([[[0.1, 0.2]], [[0.5]]])
    >>> net.sizes, net.depth
    ((2, 1, 1), 2)
    >>> lr.Network([[[0.1, 0.2]], [[0.5]]], multiplier=10.0).weights[-1]
    array([[5.]])
    """

    weights: tuple[Float[Array, "out in"], ...]
    activation: Activation
    eps: float  # precision the weights came in
    multiplier: float  # τ, which the last of the weights holds

    def __init__(
        self,
        weights: Sequence[object] | Array,
        activation: Activation | str | float = "linear",
        *,
        multiplier: float = 1.0,
    ) -> None:
        if isinstance(weights, np.ndarray) and weights.ndim == 2:
            raise InvalidInput("weights must be a list of matrices, one per layer, and it is one matrix: try [W].")
        if not isinstance(weights, Sequence | np.ndarray) or isinstance(weights, str) or len(weights) == 0:
            came = (
                "it is empty" if isinstance(weights, Sequence) and not weights else f"it is a {type(weights).__name__}"
            )
            raise InvalidInput(f"weights must be a list of matrices, one per layer, first layer first, and {came}.")
        layers = tuple(_check.as_matrix(f"weights[{i}]", W) for i, W in enumerate(weights))
        for i, (first, second) in enumerate(itertools.pairwise(layers)):
            if second.shape[1] != len(first):
                raise InvalidInput(
                    f"weights[{i + 1}] must take the {len(first)} outputs of weights[{i}], and it has shape "
                    f"{second.shape[0]} × {second.shape[1]}; layers go from input to output, each (outputs, inputs)."
                )
        multiplier = _check.positive("multiplier", multiplier)
        if not 1e-6 <= multiplier <= 1e6:
            raise InvalidInput(f"multiplier must lie between 1e-6 and 1e6, and it is {multiplier:g}.")
        layers = (*layers[:-1], multiplier * layers[-1])
        largest = max(float(np.abs(W).max()) for W in layers)
        if largest > 1e50:
            raise InvalidInput(
                f"weights must be below 1e50, or their products overflow, and the largest is {largest:.3g}."
            )
        sizes = [float(np.linalg.norm(W)) for W in layers]
        if sum(np.log10(size) for size in sizes if size) > 300:
            raise InvalidInput(
                "weights must have a product below 1e300, or it overflows, and their sizes are "
                f"{', '.join(f'{size:.2g}' for size in sizes)}."
            )
        for W in layers:
            _check.read_only(W)
        object.__setattr__(self, "weights", layers)
        object.__setattr__(self, "activation", Activation.of(activation))
        object.__setattr__(self, "eps", _check.eps_of(*weights))
        object.__setattr__(self, "multiplier", multiplier)

    def __call__(self, x: object) -> Array:
        """What the network answers: to one input (d_in,), or to samples in rows (P, d_in).

        >>> lr.Network([[[1.0, -1.0]], [[2.0]]], activation="relu")([[3.0, 1.0], [1.0, 3.0]])
        array([[4.],
               [0.]])
        """
        inputs = _check.as_array("x", x)
        if inputs.ndim not in (1, 2) or inputs.shape[-1] != self.sizes[0]:
            raise InvalidInput(
                f"x must be one input of {self.sizes[0]} numbers, or such inputs in rows, and it has shape "
                f"{inputs.shape}."
            )
        *_, outputs = forward(self.weights, self.activation, np.atleast_2d(inputs))
        return outputs if inputs.ndim == 2 else outputs[0]

    def known_to(self, eps: float) -> Network:
        """The same network, taken to be no more precise than `eps`."""
        network = copy(self)
        object.__setattr__(network, "eps", max(self.eps, eps))
        return network

    def absorbed(self) -> Network:
        """The same function, with a multiplier that is nothing but part of the last layer."""
        network = copy(self)
        object.__setattr__(network, "multiplier", 1.0)
        return network

    @property
    def sizes(self) -> tuple[int, ...]:
        """Widths from input to output."""
        return (self.weights[0].shape[1], *(len(W) for W in self.weights))

    @property
    def depth(self) -> int:
        """Number of weight matrices."""
        return len(self.weights)

    @property
    def function(self) -> Float[Array, "out in"]:
        """W_L … W_1 of a linear network."""
        if not self.activation.linear:
            raise InvalidInput(f"function is the matrix of a linear network, and this one is {self.kind}.")
        return product(self.weights)

    @property
    def kind(self) -> str:
        """The activation in words."""
        return str(self.activation)

    def __repr__(self) -> str:
        times = "" if self.multiplier == 1 else f", times {self.multiplier:g}"
        return f"<Network: {'-'.join(map(str, self.sizes))}, {self.kind}{times}>"


def product(weights: Sequence[Array]) -> Array:
    """W_L … W_1, of one set of weights or of many at once."""
    result = weights[0]
    for W in weights[1:]:
        result = W @ result
    return result


def layers_of_gram(gram: Float[Array, "n n"], d_in: int, h: int) -> list[Array]:
    """W1 and W2 of two layers with this QQᵀ, up to a rotation of the h hidden units; rounding counts as zero.

    >>> W1, W2 = layers_of_gram(np.array([[4.0, 2.0], [2.0, 1.0]]), d_in=1, h=2)
    >>> abs(W2 @ W1).round(12)
    array([[2.]])
    """
    values, vectors = np.linalg.eigh(gram)
    values = np.where(values > len(gram) * np.finfo(np.float64).eps * values[-1], values, 0.0)
    Q = (vectors * np.sqrt(values))[:, ::-1][:, :h]
    Q = np.pad(Q, ((0, 0), (0, h - Q.shape[1])))
    return [Q[:d_in].T, Q[d_in:]]


def forward(
    weights: Sequence[Array], activation: Activation, inputs: Float[Array, "P in"]
) -> Iterator[Float[Array, "P units"]]:
    """The activity of one layer after the other, a sample per row."""
    h = inputs
    for W in weights[:-1]:
        h = activation(h @ W.T)
        yield h
    yield h @ weights[-1].T
