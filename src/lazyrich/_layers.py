"""Which tensor of a file or a state_dict is which layer, and which is its bias.

Layers are matrices (outputs, inputs). Their names tell the order where they differ in numbers only ("0.weight",
"2.weight"); elsewhere their shapes do, where one order alone fits. A bias is a vector beside its layer: "0.bias" of
"0.weight", "b1" of "W1". All layers have one, or none has: a bias that is missing would be one that never learns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array

_NAMELESS_LAYERS = 8  # more layers than this, without numbers in their names, must be named in order


def layers_of(
    source: str, tensors: Mapping[str, Array], layers: Sequence[str] | None, option: str = "layers="
) -> list[str]:
    """Names of the weights, first layer first; `option` is how a user would name them.

    >>> layers_of("it", {"b": np.ones((3, 4)), "a": np.ones((4, 2))}, None)
    ['a', 'b']
    """
    chosen = _in_order(source, tensors, option) if layers is None else _by_name(source, tensors, layers, option)
    for before, after in pairwise(chosen):
        if tensors[after].shape[1] != len(tensors[before]):
            raise InvalidInput(
                f"the layers of {source} do not fit in the order {', '.join(chosen)}: {before} gives "
                f"{len(tensors[before])} numbers and {after} takes {tensors[after].shape[1]}; matrices are "
                f"(outputs, inputs), and {option} names them first layer first."
            )
    return chosen


def with_biases(source: str, tensors: Mapping[str, Array], chosen: Sequence[str]) -> list[Array] | None:
    """The biases of these layers in order; None where they have none."""
    names = [bias_of(name, tensors) for name in chosen]
    if not any(names):
        return None
    for name, bias in zip(chosen, names, strict=True):
        if bias is None:
            raise InvalidInput(
                f"{source} must hold a bias for every layer or for none, and it holds "
                f"{listed(b for b in names if b)} and none for {name}: try zeros({len(tensors[name])}) for it, which "
                "are then trained as well."
            )
        if tensors[bias].shape != tensors[name].shape[:1]:
            raise InvalidInput(
                f"{bias} in {source} must hold one number per output of {name} ({len(tensors[name])}), and it has "
                f"shape {tensors[bias].shape}."
            )
        _check.as_array(f"{bias} in {source}", tensors[bias])
    return [tensors[bias] for bias in names if bias]


def bias_of(name: str, tensors: Mapping[str, Array]) -> str | None:
    """The name of the vector beside a layer, if there is one.

    >>> bias_of("fc1.weight", {"fc1.bias": np.zeros(1)}), bias_of("W1", {"b1": np.zeros(1)}), bias_of("W1", {})
    ('fc1.bias', 'b1', None)
    """
    place, dot, own = name.rpartition(".")
    word = own.replace("weights", "biases").replace("weight", "bias")
    names = [f"{place}{dot}{word}", f"{place}{dot}{re.sub('^[Ww]', 'b', own)}", f"{name}.bias"]
    return next((bias for bias in names if bias != name and bias in tensors and tensors[bias].ndim == 1), None)


def listed(given: Iterable[str]) -> str:
    """Some names, and how many more."""
    names = list(given)
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "") or "nothing"


def _by_name(source: str, tensors: Mapping[str, Array], layers: Sequence[str], option: str) -> list[str]:
    chosen = [_check.choice(f"layers of {source}", name, tuple(tensors)) for name in layers]
    if not chosen or len(set(chosen)) != len(chosen):
        raise InvalidInput(f"layers must name each layer of {source} once, and they are {listed(layers)}.")
    _refuse_other_ranks(source, {name: tensors[name] for name in chosen}, option)
    return chosen


def _in_order(source: str, tensors: Mapping[str, Array], option: str) -> list[str]:
    biases = {bias_of(name, tensors) for name, tensor in tensors.items() if tensor.ndim == 2}
    matrices = {name: tensor for name, tensor in tensors.items() if name not in biases}
    if not matrices:
        raise InvalidInput(f"{source} must hold the weights of layers, and it holds {listed(tensors)}.")
    _refuse_other_ranks(source, matrices, option)
    names = list(matrices)
    numbers = {name: tuple(map(int, re.findall(r"\d+", name))) for name in names}
    # only where nothing but the numbers differs: decoder.0 and encoder.1 are not ordered by them
    if len({re.sub(r"\d+", "#", name) for name in names}) == 1 and len(set(numbers.values())) == len(names):
        return sorted(names, key=lambda name: numbers[name])
    some = f"{','.join(names[:3])}{',…' * (len(names) > 3)}"
    ask = f"{option} {some}" if option.startswith("--") else f"{option}[{some}]"
    orders = _chains(matrices) if len(names) <= _NAMELESS_LAYERS else iter(())
    first, second = next(orders, None), next(orders, None)
    if first is None:
        raise InvalidInput(
            f"the names in {source} ({listed(names)}) do not say the order of the layers: {ask} names them, first "
            "layer first."
        )
    if second is not None:
        raise InvalidInput(
            f"the layers of {source} fit in more than one order ({listed(names)}): {ask} names them, first layer first."
        )
    return first


def _chains(tensors: Mapping[str, Array]) -> Iterator[list[str]]:
    """Every order in which each matrix takes what the one before it gives."""

    def extend(chain: list[str]) -> Iterator[list[str]]:
        if len(chain) == len(tensors):
            yield chain
        for name, matrix in tensors.items():
            if name not in chain and (not chain or matrix.shape[1] == len(tensors[chain[-1]])):
                yield from extend([*chain, name])

    return extend([])


def _refuse_other_ranks(source: str, tensors: Mapping[str, Array], option: str) -> None:
    for name, tensor in tensors.items():
        if tensor.ndim != 2:
            raise InvalidInput(
                f"{name} in {source} has shape {tensor.shape}, and layers are matrices (outputs, inputs): "
                f"{option} names those that make up the network."
            )
        _check.as_matrix(f"{name} in {source}", tensor)
