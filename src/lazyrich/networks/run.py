"""The weights of a training run, as people collect them: one array per layer, with the times first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array
from lazyrich.networks.biases import joined
from lazyrich.networks.network import Network

_SAME = 1e-6  # relative difference of weights that are one network, saved in single precision perhaps


def layers_over_time(network: Network, weights: Any, biases: Any) -> list[Array]:
    """Weights (T, out, in), and biases (T, out) or None, as the network holds them at each time; or a sentence."""
    layers = _per_layer("weights", weights, "(T, out, in)", network.depth)
    if biases is not None:
        return _joined(network, layers, biases)
    if network.biased and [W.shape[1:] for W in layers] == [W.shape for W in _without_biases(network)]:
        raise InvalidInput(
            f"biases must be given too, for the network is {network.architecture}: pass biases=, one array per "
            "layer, of shape (T, out)."
        )
    for i, (W, own) in enumerate(zip(layers[:-1], network.weights[:-1], strict=True)):
        if network.biased and W.shape[1:] == own.shape and np.any(W[:, -1] != own[-1]):
            raise InvalidInput(
                f"weights[{i}] must end in the row that makes the constant of the biases, {own[-1].tolist()}, at every "
                "time: try weights without that row and column, and biases=."
            )
    return layers


def check_beginning(network: Network, layers: Sequence[Array]) -> None:
    """A run from t = 0 begins with the weights of its network."""
    off = np.sqrt(sum(np.sum((W[0] - W0) ** 2) for W, W0 in zip(layers, network.weights, strict=True)))
    if off > _SAME * (size := np.sqrt(sum(np.sum(W0**2) for W0 in network.weights))):
        raise InvalidInput(
            f"weights at t = 0 must be those of the problem's network, and they differ by {off:.2g}, where the "
            f"network has {size:.2g} (Frobenius): try Problem(task, Network([W[0] for W in weights]))."
        )


def _per_layer(name: str, given: Any, shape: str, depth: int) -> list[Array]:
    """One array per layer with one state per time; or a sentence, above all for states that hold one layer each."""
    wanted, ndim = f"{name} must be a list of arrays, one per layer ({depth}), of shape {shape}", shape.count(",") + 1
    if not isinstance(given, list | tuple):
        raise InvalidInput(f"{wanted}, and it is {_check.shown(given)}.")
    for i, part in enumerate(given or [None]):
        if len(given) != depth or _axes(part) != ndim:
            came = f"there are {len(given)}" if len(given) != depth else f"{name}[{i}] is not such an array"
            raise InvalidInput(
                f"{wanted}, and {came}: where it holds one list per time, try [np.stack(layer) for layer in "
                f"zip(*{name})]."
            )
    return [_check.as_array(f"{name}[{i}]", part) for i, part in enumerate(given)]


def _axes(part: Any) -> int | None:
    """How many axes an array of any library has, or a list of such with one shape; None of lists that are no array."""
    if not isinstance(part, list | tuple):
        return np.ndim(part)
    inner = {_axes(state) for state in part}
    shapes = {np.shape(state) for state in part} if None not in inner else {(), (0,)}
    return 1 + len(shapes.pop()) if len(shapes) == 1 else None


def _without_biases(network: Network) -> list[Array]:
    """The weights of a network with biases, without these."""
    return [W[:, :-1] for W in network.free(network.weights)]


def _joined(network: Network, layers: list[Array], biases: Any) -> list[Array]:
    """Weights and biases at each time, as a network that has both holds them."""
    if not network.biased:
        raise InvalidInput(
            "biases belong to a network that has them, and the problem's has none: try Network(…, biases=…)."
        )
    vectors = _per_layer("biases", biases, "(T, out)", len(layers))
    for i, (W, b) in enumerate(zip(layers, vectors, strict=True)):
        if b.shape != W.shape[:2]:
            raise InvalidInput(f"biases[{i}] must have shape {W.shape[:2]}, as weights[{i}] has, and it has {b.shape}.")
    return joined(layers, vectors, network.activation)
