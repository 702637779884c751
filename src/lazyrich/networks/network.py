"""A network: f(x) = W_L σ(… σ(W_2 σ(W_1 x))), first layer first, with or without biases."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._layers import layers_of, with_biases
from lazyrich._typing import Array, Float
from lazyrich.networks.activation import Activation
from lazyrich.networks.biases import constant_rows, free, joined, whole, with_constant

_LEAST = 1e-153  # whose square is a number with all its digits


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
    biases : one vector (outputs,) per layer, if the network has them. `weights` and `sizes` of the network then count
        the constant 1 that they are weights from: [[W, b], [0, 1]] in hidden layers, [W, b] in the last

    >>> import lazyrich as lr
    >>> net = lr.Network([[[0.1, 0.2]], [[0.5]]])
    >>> net.sizes, net.depth
    ((2, 1, 1), 2)
    >>> lr.Network([[[0.1, 0.2]], [[0.5]]], multiplier=10.0).weights[-1]
    array([[5.]])
    >>> lr.Network([[[0.1, 0.2]], [[0.5]]], "relu", biases=[[1.0], [3.0]])
    <Network: 2-1-1, relu, with biases>
    """

    weights: tuple[Float[Array, "out in"], ...]
    activation: Activation
    eps: float  # precision the weights came in
    multiplier: float  # τ, which the last of the weights holds
    biased: bool

    def __init__(
        self,
        weights: Sequence[object] | Array,
        activation: Activation | str | float = "linear",
        *,
        multiplier: float = 1.0,
        biases: Sequence[object] | None = None,
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
        own = Activation.of(activation)
        if biases is not None:
            layers = tuple(joined(layers, _as_biases(biases, layers), own))
        for i, W in enumerate(layers):
            if 0 < (largest := float(np.abs(W).max())) < _LEAST:
                raise InvalidInput(
                    f"weights[{i}] must reach {_LEAST:g}, or its squares underflow, and its largest entry is "
                    f"{largest:.3g}: try larger weights, or zeros."
                )
        multiplier = _check.positive("multiplier", multiplier)
        if not 1e-6 <= multiplier <= 1e6:
            raise InvalidInput(f"multiplier must lie between 1e-6 and 1e6, and it is {multiplier:g}.")
        layers = (*layers[:-1], multiplier * layers[-1])
        self._hold(layers, own, _check.eps_of(*weights, *(biases or ())), biases is not None, multiplier)

    def _hold(
        self, layers: tuple[Array, ...], activation: Activation, eps: float, biased: bool, multiplier: float
    ) -> None:
        """Makes it, of matrices that fit."""
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
        object.__setattr__(self, "activation", activation)
        object.__setattr__(self, "eps", eps)
        object.__setattr__(self, "biased", biased)
        object.__setattr__(self, "multiplier", multiplier)

    @classmethod
    def from_state_dict(
        cls,
        state_dict: Mapping[str, object],
        activation: Activation | str | float = "linear",
        *,
        layers: object = None,
    ) -> Network:
        """The network of a `state_dict` of PyTorch, or of any mapping of names to arrays.

        Parameters
        ----------
        state_dict : weights as matrices (outputs, inputs), and for all of them or none a bias: "0.weight", "0.bias",
            or "W1", "b1". What else it holds needs `layers`
        activation : as in `Network`: a state_dict does not say
        layers : names of the weights, first layer first. Without it, names that differ in their numbers only
            ("0.weight", "2.weight") are ordered by these, and others by their shapes, where only one order fits

        Returns
        -------
        Network

        >>> lr.Network.from_state_dict({"fc1.weight": [[1.0, 2.0]], "fc1.bias": [0.0],
        ...     "fc2.weight": [[3.0]], "fc2.bias": [4.0]}, activation="relu")
        <Network: 2-1-1, relu, with biases>
        """
        if not isinstance(state_dict, Mapping):
            raise InvalidInput(
                f"state_dict must map names to arrays, and it is {_check.shown(state_dict)}: try model.state_dict()."
            )
        tensors = {str(name): _check.from_any_library(str(name), value) for name, value in state_dict.items()}
        if layers is not None and not isinstance(layers, list | tuple):
            raise InvalidInput(
                f"layers must be a list of names, first layer first, and it is {_check.shown(layers)}: try "
                "['0.weight', '2.weight']."
            )
        chosen = layers_of("state_dict", tensors, layers)
        biases = with_biases("state_dict", tensors, chosen)
        return cls([tensors[name] for name in chosen], activation, biases=biases)

    def state_dict(self) -> dict[str, Array]:
        """Weights and, if it has them, biases as PyTorch has them: "0.weight", "0.bias", "1.weight", …

        >>> sorted(lr.Network([[[0.1, 0.2]], [[0.5]]], biases=[[1.0], [3.0]]).state_dict())
        ['0.bias', '0.weight', '1.bias', '1.weight']
        """
        if self.multiplier != 1:
            raise InvalidInput(
                f"a state_dict has no place for an output multiplier, and this network has {self.multiplier:g}: try "
                "Network(network.weights), which has the same function and learns at other rates."
            )
        if not self.biased:
            return {f"{i}.weight": W for i, W in enumerate(self.weights)}
        layers = enumerate(self.free(self.weights))
        return {name: part for i, W in layers for name, part in ((f"{i}.weight", W[:, :-1]), (f"{i}.bias", W[:, -1]))}

    def __call__(self, x: object) -> Array:
        """What the network answers: to one input (d_in,), or to samples in rows (P, d_in).

        >>> lr.Network([[[1.0, -1.0]], [[2.0]]], activation="relu")([[3.0, 1.0], [1.0, 3.0]])
        array([[4.],
               [0.]])
        """
        inputs = _check.as_array("x", x)
        if inputs.ndim not in (1, 2) or inputs.shape[-1] != self.d_in:
            raise InvalidInput(
                f"x must be one input of {self.d_in} numbers, or such inputs in rows, and it has shape {inputs.shape}."
            )
        rows = np.atleast_2d(inputs)
        *_, outputs = forward(self.weights, self.activation, with_constant(rows) if self.biased else rows)
        return outputs if inputs.ndim == 2 else outputs[0]

    def known_to(self, eps: float) -> Network:
        """The same network, taken to be no more precise than `eps`."""
        return self.with_weights(self.weights, max(self.eps, eps))

    def absorbed(self) -> Network:
        """The same function, with a multiplier that is nothing but part of the last layer."""
        network = copy(self)
        object.__setattr__(network, "multiplier", 1.0)
        return network

    def with_weights(self, weights: Sequence[Array], eps: float | None = None) -> Network:
        """A network of the same kind with other layers, the rows of a constant among them, and as precise."""
        network = object.__new__(Network)
        layers = tuple(_check.as_matrix(f"weights[{i}]", W) for i, W in enumerate(weights))
        network._hold(layers, self.activation, self.eps if eps is None else eps, self.biased, self.multiplier)
        return network

    def free(self, layers: Sequence[Array]) -> list[Array]:
        """Layers of this network as its parameters: without the rows that make the constant of biases."""
        return free(layers) if self.biased else list(layers)

    def whole(self, layers: Sequence[Array]) -> list[Array]:
        """Layers of this network from its parameters: with the rows that make the constant of biases."""
        return whole(layers, constant_rows(self.sizes, self.activation) if self.biased else ())

    def moves(self, directions: Sequence[Array]) -> list[Array]:
        """Directions in weight space, without what would move the constant of biases."""
        return whole(free(directions), [np.zeros((1, 1))] * (self.depth - 1)) if self.biased else list(directions)

    @property
    def d_in(self) -> int:
        """Number of inputs, the constant not counted."""
        return self.sizes[0] - self.biased

    @property
    def d_out(self) -> int:
        """Number of outputs."""
        return self.sizes[-1]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Widths from input to output, as the weights have them: with biases, each but the last counts its constant."""
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
    def linear_part(self) -> Float[Array, "out in"]:
        """W_L … W_1: what the network would be without its activations."""
        linear = Activation.of("linear")
        layers = whole(self.free(self.weights), constant_rows(self.sizes, linear) if self.biased else ())
        return product(layers)

    @property
    def kind(self) -> str:
        """The activation in words."""
        return str(self.activation)

    @property
    def architecture(self) -> str:
        """Widths and activation in words; the constant of biases is not counted."""
        return architecture(self.sizes, self.activation, self.biased)

    def __repr__(self) -> str:
        times = "" if self.multiplier == 1 else f", times {self.multiplier:g}"
        return f"<Network: {self.architecture}{times}>"


def architecture(sizes: Sequence[int], activation: Activation, biased: bool) -> str:
    """The same of what is known of a network.

    >>> architecture((65, 33, 10), lr.Activation.of("relu"), biased=True)
    '64-32-10, relu, with biases'
    """
    *inner, last = sizes
    widths = "-".join(str(width) for width in (*(n - biased for n in inner), last))
    return f"{widths}, {activation}" + (", with biases" if biased else "")


def _as_biases(biases: object, layers: Sequence[Array]) -> list[Array]:
    """One vector per layer, or a sentence."""
    if not isinstance(biases, Sequence | np.ndarray) or isinstance(biases, str) or len(biases) != len(layers):
        came = f"holds {len(biases)}" if isinstance(biases, Sequence | np.ndarray) else f"is {_check.shown(biases)}"
        raise InvalidInput(f"biases must hold one vector per layer ({len(layers)}), and it {came}: try [b1, b2].")
    vectors = [_check.as_array(f"biases[{i}]", b, ndim=1) for i, b in enumerate(biases)]
    for i, (W, b) in enumerate(zip(layers, vectors, strict=True)):
        if len(b) != len(W):
            raise InvalidInput(
                f"biases[{i}] must hold one number per output of weights[{i}] ({len(W)}), and it holds {len(b)}."
            )
    return vectors


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
