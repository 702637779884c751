"""What measuring needs of a network's checkpoints, whatever it is written in.

`Run` is what `jax_models` and `torch_models` make of a user's network. Parameters are named by their places, as PyTorch
names them: "layers.0.weight" belongs to the layer "layers.0".
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from lazyrich._typing import Array

__all__ = [
    "Run",
    "Stage",
    "hidden_stages",
    "in_one_line",
    "is_affine",
    "is_torch_module",
    "layer_of",
    "neighbours",
    "normalises",
]


_AFFINE = 1e-4  # relative to the outputs, where they are in single precision


class Stage(NamedTuple):
    """A part of a network that acts on what the part before it gives."""

    name: str
    kind: str  # "layer": dense or convolutional; "bend": an activation function; "other": all else with parameters


@runtime_checkable
class Run(Protocol):
    """Checkpoints of one network, and the samples that it is measured on."""

    count: int  # of checkpoints
    course: tuple[Stage, ...]  # as they act; empty where that is not known
    sequential: bool  # nothing else lies between inputs and outputs
    normalisations: tuple[str, ...]  # the places of layers that normalise
    notes: tuple[str, ...]  # what to know of these checkpoints before reading anything into them

    def precision(self) -> AbstractContextManager[Any]:
        """Inside of which all that follows is called."""

    def leaves(self, t: int) -> dict[str, Array]:
        """The parameters of a checkpoint, by name."""

    def outputs(self, t: int, leaves: dict[str, Array] | None = None) -> Array:
        """(samples, outputs); with other parameters where they are given."""

    def affine(self) -> bool:
        """Whether the outputs of the first checkpoint are an affine map of the samples, as far as these can tell."""

    def hidden(self, t: int) -> dict[str, Array]:
        """Hidden activity, (samples, units), by layer; empty where it is not known."""

    def jacobian(self, t: int, some: slice) -> Any:
        """Slopes of all outputs at some samples, (samples × outputs, parameters)."""


def is_affine(f: Callable[[Any], Array], x: Any, other: Any) -> bool:
    """Whether half way between two samples is half way between their outputs."""
    middle, ends = f((x + other) / 2), (f(x) + f(other)) / 2
    return bool(np.abs(middle - ends).max() <= _AFFINE * np.abs(ends).max())


def layer_of(name: str) -> str:
    """The layer that a parameter belongs to: the place it is in, or itself where that is a list or nothing.

    >>> layer_of("layers.0.weight"), layer_of("W1"), layer_of("weights.1")
    ('layers.0', 'W1', 'weights.1')
    """
    place, _, last = name.rpartition(".")
    return place if place and not last.isdigit() else name


def neighbours(course: Sequence[Stage]) -> list[tuple[str, str]]:
    """Layers that follow each other with no other parameters between them."""
    stages = [stage for stage in course if stage.kind != "bend"]
    return [(one.name, other.name) for one, other in pairwise(stages) if one.kind == other.kind == "layer"]


def hidden_stages(course: Sequence[Stage]) -> dict[int, str]:
    """Where hidden activity is read: stage → the layer whose units it shows.

    After each activation function that has layers before and after it; after each layer but the last where there is
    no activation function, as in a linear network.

    >>> hidden_stages([Stage("0", "layer"), Stage("1", "bend"), Stage("2", "layer"), Stage("3", "bend")])
    {1: '0'}
    """
    last = max((i for i, stage in enumerate(course) if stage.kind != "bend"), default=0)
    shown_by = "bend" if any(stage.kind == "bend" for stage in course) else "layer"
    found: dict[int, str] = {}
    owner = ""
    for i, stage in enumerate(course[:last]):
        if stage.kind == "layer" or (stage.kind == "other" and not owner):  # a normalisation after it changes nothing
            owner = stage.name
        if owner and stage.kind == shown_by:
            found[i] = owner if owner not in found.values() else f"{owner} ({stage.name})"
    return found


def normalises(part: Any) -> bool:
    """Whether a part of a model undoes the scale of what it is given: all libraries have Norm in the names of these."""
    return any("Norm" in kind.__name__ for kind in type(part).__mro__)


def is_torch_module(model: Any) -> bool:
    """Without importing PyTorch: where a module of it is, it has been."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def in_one_line(error: Exception) -> str:
    """What a model stumbled over, for the end of a sentence."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0].rstrip('.') if text else 'no more is known'}."
