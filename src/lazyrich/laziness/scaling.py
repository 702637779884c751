"""Layers, multiplied: the per-unit δ of a network, and the α that makes its initialisation richer or lazier.

Positively homogeneous activations (σ(cz) = cσ(z) for c > 0: ReLU, leaky ReLU) let a factor pass from one layer to a
later one: weights times c_ℓ, and biases times the product of the factors so far, make f into c_1⋯c_L f. For two
neighbours this gives every hidden unit its δ = ‖outgoing weights‖² − ‖incoming weights and bias‖², which gradient flow
conserves (theory: sections 5 and 8, with equal rates). For the first layer and the last it is how Kunin et al. (2024,
Fig. 5) tilt an initialisation: first ÷ α, last × α. Large α is upstream (δ > 0), where nonlinear networks are rich by
changing which units are active; small α is downstream (δ < 0), lazy at first; and any initialisation of large scale is
lazy. In linear networks both tilts are lazy and balance is rich (theory: section 2; Kunin, Theorem 6). Where a factor
does not pass, a tilt is another function, and may be the opposite: a small first layer makes tanh or GELU linear, hence
lazy upstream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float, Tree
from lazyrich.laziness.checkpoints import is_torch_module, layer_of
from lazyrich.laziness.definition import percent

SAME = 1e-4  # relative change of the outputs that rounding explains
_DRIFTED = 0.05  # a share of ‖outgoing‖² + ‖incoming‖²
_TILT = 3.0  # how far beyond balance a suggestion goes
Leaf = Any  # a parameter, of any array library
_SCALE = {"richer": "all weights ÷ 2, or the outputs ÷ 4", "lazier": "all weights × 2, or the outputs × 4"}
_NEAR = 1.2  # factors nearer to 1 than this are not worth suggesting


@dataclass(frozen=True)
class Scaling:
    """The first layer and the last at initialisation, and what first ÷ α, last × α would make of them."""

    layers: tuple[str, ...]  # from the first to the last, as they act
    incoming: float  # mean squared norm of the weights, with bias, into a unit of the first layer
    outgoing: float  # mean squared norm of the weights of the last layer out of a unit
    change: float  # of the outputs, relative, by doing it with α = 4; rounding where the function stays

    @property
    def first(self) -> str:
        return self.layers[0]

    @property
    def last(self) -> str:
        return self.layers[-1]

    @property
    def delta(self) -> float:
        """Mean δ = outgoing − incoming; of two layers as they are, of more as if the last followed the first."""
        return self.outgoing - self.incoming

    @property
    def balancing(self) -> float:
        """The α that makes δ zero."""
        return self.alpha(0.0)

    def alpha(self, delta: float) -> float:
        """The α that reaches a mean δ: α²·outgoing − incoming/α² = δ; nan where a layer is zero.

        >>> scaling = Scaling(("first", "last"), incoming=2.0, outgoing=0.125, change=0.0)
        >>> scaling.balancing, round(scaling.alpha(1.0), 3), scaling.alpha(scaling.delta)
        (2.0, 3.108, 1.0)
        """
        delta = _check.number("delta", delta)
        if not self.incoming or not self.outgoing:
            return float("nan")
        larger = (np.hypot(delta, 2 * np.sqrt(self.incoming * self.outgoing)) + abs(delta)) / 2  # nothing cancels
        return float(np.sqrt(larger / self.outgoing if delta >= 0 else self.incoming / larger))

    def tilted(self, alpha: float) -> float:
        """The mean δ after first ÷ α, last × α."""
        return self.outgoing * alpha**2 - self.incoming / alpha**2


def suggestion(scaling: Scaling | None, linear: bool, normalisations: Sequence[str] = (), drift: float = 0.0) -> str:
    """What to multiply before training for another regime, with the learning rate that goes along.

    What is promised to nonlinear networks held in nine of ten small trainings at least: docs/laziness.md has the table.
    `drift` is how far δ was from conserved in a run of this network.
    """
    words = _suggestion(scaling, linear, normalisations)
    if drift >= _DRIFTED:
        words += (
            f" In this run δ was not conserved: it changed by {percent(drift)} of ‖outgoing‖² + ‖incoming‖², as Adam, "
            "momentum and large steps make it do. It tells where the run began, and not where it ended; the directions "
            "named here held in small trainings with Adam all the same."
        )
    return words


def _suggestion(scaling: Scaling | None, linear: bool, normalisations: Sequence[str]) -> str:
    if normalisations:
        return (
            "Richer: the outputs ÷ 4, with a learning rate × 16 in gradient descent and × 4 in Adam. How far one has "
            f"to go depends on the task. No weights are to be multiplied: this network normalises ({normalisations[0]}"
            f"{', …' if len(normalisations) > 1 else ''}), which undoes the scale of the layers before it. Nothing is "
            "suggested to make it lazier, for nothing that was tried did so reliably."
        )
    if scaling is None or not np.isfinite(scaling.balancing):
        return (
            f"Richer, as a rule: {_SCALE['richer']}; lazier: {_SCALE['lazier']}. Which layers come first and last is "
            "not known here."
        )
    if scaling.change >= SAME:
        return (
            f"Richer, as a rule: {_SCALE['richer']}; lazier: {_SCALE['lazier']}. First layer ÷ α and last × α is not "
            f"suggested, since it does not keep the function (α = 4 changes the outputs by {scaling.change:.2g}): "
            "positively homogeneous activations keep it, such as ReLU, where nothing skips them. A small first layer "
            "makes smooth activations such as tanh or GELU linear, which is lazy."
        )
    words = _for_linear(scaling) if linear else _for_nonlinear(scaling)
    if len(scaling.layers) > 2:
        words.append(
            f"The theory of δ is one of two layers; for the {len(scaling.layers)} here it is a rule of thumb, and can "
            "fail."
        )
    return " ".join(words)


def _for_nonlinear(scaling: Scaling) -> list[str]:
    """What moves the kernel farther, and what turns it farther, are not the same (benchmarks/advice.py)."""
    gain = 4 ** (len(scaling.layers) - 1)  # of the kernel, when all weights are twice as large
    words = [
        f"Richer: {_SCALE['richer']}; lazier: {_SCALE['lazier']}. The learning rate goes along: in gradient descent × "
        f"{gain} with weights ÷ 2, × 16 with outputs ÷ 4, and ÷ as much the other way; in Adam ÷ 2 and × 4, and the "
        "other way × 2 and ÷ 4. How far one has to go depends on the task.",
        f"Mean δ at initialisation is {scaling.delta:.2g}. It changes how far the kernel turns (S), not reliably how "
        "far it moves.",
    ]
    more, less = scaling.balancing * _TILT, scaling.balancing / _TILT
    if more > _NEAR:
        words.append(f"Turning more: {_tilting(scaling, more)} (upstream).")
    if less < 1 / _NEAR:
        words.append(f"Turning less: {_tilting(scaling, less)} (downstream).")
    return words


def _for_linear(scaling: Scaling) -> list[str]:
    alpha = scaling.balancing
    words = [
        f"Mean δ at initialisation is {scaling.delta:.2g}; linear networks are rich at δ = 0 and lazy far from it."
    ]
    if max(alpha, 1 / alpha) > _NEAR:
        words.append(f"Richer: {_tilting(scaling, alpha)} (balanced).")
    farther = alpha * _TILT if alpha >= 1 / _TILT else alpha / _TILT
    words.append(f"Less rich: {_tilting(scaling, farther)}; the farther from 0, the lazier.")
    words.append("All weights ÷ 2 is richer too, and × 2 lazier. How far one has to go depends on the task.")
    return words


def _tilting(scaling: Scaling, alpha: float) -> str:
    """What to do, and the δ that it makes."""
    up = alpha >= 1
    signs, factor = ("÷×" if up else "×÷"), f"{alpha if up else 1 / alpha:.2g}"
    delta = 0.0 if alpha == scaling.balancing else scaling.tilted(alpha)
    first, last = f"first layer ({scaling.first})", f"last layer ({scaling.last})"
    return f"{first} {signs[0]} {factor} and {last} {signs[1]} {factor}, for a mean δ of {delta:.2g}"


# arithmetic --------------------------------------------------------------------------------------------------


def unit_squares(
    leaves: Mapping[str, Array], one: str, other: str, *, follows: bool
) -> tuple[Float[Array, " units"], Float[Array, " later"]]:
    """Squared norms of what comes into each unit (or channel) of a layer, and of what leaves each one before another.

    The first may be a normalisation, with a gain for each unit.

    Where the other is dense and `follows` a convolution, it takes the channels one after the other, as flattening
    leaves them, and its columns are summed by channel; elsewhere each column is a unit.
    """
    W, V = (np.asarray(leaves[f"{layer}.weight"], np.float64) for layer in (one, other))
    incoming = np.sum(W.reshape(len(W), -1) ** 2, axis=1)
    if f"{one}.bias" in leaves:
        incoming += np.asarray(leaves[f"{one}.bias"], np.float64).ravel() ** 2
    flattened = follows and W.ndim != 2 and V.ndim == 2 and V.shape[1] % len(W) == 0
    groups = len(W) if flattened else V.shape[1]
    return incoming, np.sum(V.reshape(len(V), groups, -1) ** 2, axis=(0, 2))


def scaled(leaves: Mapping[str, Leaf], factors: Mapping[str, float], order: Iterable[str]) -> dict[str, Leaf]:
    """Weights times the factor of their layer, biases times the product of the factors up to it, layers in `order`."""
    by_layer, so_far = {}, 1.0
    for layer in order:
        factor = factors.get(layer, 1.0)
        so_far *= factor
        by_layer[layer] = (factor, so_far)
    changed = {}
    for name, leaf in leaves.items():
        weight, bias = by_layer.get(layer_of(name), (1.0, 1.0))
        gain = bias if name.endswith(".bias") else weight
        changed[name] = leaf if gain == 1.0 else leaf * gain
    return changed


def rescaled(model: Tree, factors: float | Mapping[str, float], *, order: Sequence[str] | None = None) -> Tree:
    """The network with its layers multiplied.

    Biases are multiplied along, by the product of the factors up to their layer: with ReLU or leaky ReLU the function
    is then multiplied by the product of all factors, and α leaves it as it is.

    Parameters
    ----------
    model : an equinox module, or a `state_dict` of PyTorch
    factors : a number α, first layer ÷ α and last × α; or {layer: factor}
    order : names of the layers as they act, such as `lr.laziness.measure(…).scaling.layers`; without it as they were
        declared, which is refused where a layer does not fit what the one before it gives

    Returns
    -------
    model : what came, with other numbers

    >>> state = {"0.weight": np.ones((3, 2)), "0.bias": np.ones(3), "2.weight": np.ones((1, 3)), "2.bias": np.ones(1)}
    >>> {name: float(array.max()) for name, array in lr.laziness.rescaled(state, 4.0).items()}
    {'0.weight': 0.25, '0.bias': 0.25, '2.weight': 4.0, '2.bias': 1.0}
    """
    if is_torch_module(model):
        raise InvalidInput(
            "model must be an equinox module or a state_dict, and it is a PyTorch module: "
            "try model.load_state_dict(rescaled(model.state_dict(), …))."
        )
    if isinstance(model, Mapping):
        layers = _ordered(model, order)
        return scaled(model, _as_factors(factors, layers), layers)
    from lazyrich.laziness.jax_models import named_parameters, with_parameters

    leaves = named_parameters(model)
    layers = _ordered(leaves, order)
    return with_parameters(model, scaled(leaves, _as_factors(factors, layers), layers))


def _ordered(leaves: Mapping[str, Leaf], order: Sequence[str] | None) -> list[str]:
    """The layers as they act: as told, or as declared where each fits the one before it."""
    weights = _weights(leaves)
    if order is not None:
        if isinstance(order, str) or sorted(order) != sorted(weights):
            names = ", ".join(map(repr, weights))
            raise InvalidInput(f"order must name every layer once ({names}), and it is {_check.shown(order)}.")
        return list(order)
    for (one, W), (other, V) in pairwise(weights.items()):
        flattened = len(W.shape) > 2 and len(V.shape) == 2 and V.shape[1] % len(W) == 0
        if V.shape[1] != len(W) and not flattened:
            raise InvalidInput(
                f"order must be given where layers are not declared as they act, and {other} (shape {tuple(V.shape)}) "
                f"does not take what {one} (shape {tuple(W.shape)}) gives: "
                "try lr.laziness.measure(…).scaling.layers."
            )
    return list(weights)


def _weights(leaves: Mapping[str, Leaf]) -> dict[str, Leaf]:
    """The weight of each layer, as declared; there must be weights, with or without biases, and nothing else."""
    weights: dict[str, Leaf] = {}
    for name, leaf in leaves.items():
        layer, is_bias = layer_of(str(name)), str(name).endswith(".bias")
        is_weight = not is_bias and getattr(leaf, "ndim", 0) >= 2 and layer not in weights
        if not is_weight and not (is_bias and layer in weights):
            raise InvalidInput(
                "model must consist of layers with one weight each and perhaps a bias, for factors to pass through, "
                f"and {name} (shape {tuple(getattr(leaf, 'shape', ()))}) is neither: multiply its layers by hand."
            )
        if is_weight:
            weights[layer] = leaf
    if len(weights) < 2:
        raise InvalidInput(f"model must have two layers at least, and it has {len(weights)}.")
    return weights


def _as_factors(factors: object, order: list[str]) -> dict[str, float]:
    if not isinstance(factors, Mapping):
        alpha = _check.positive("factors", factors)
        return {order[0]: 1 / alpha, order[-1]: alpha}
    return {
        _check.choice("each name in factors", name, order): _check.positive(f"factors[{name!r}]", factor)
        for name, factor in factors.items()
    }
