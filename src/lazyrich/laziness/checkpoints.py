"""What measuring needs of a network's checkpoints, whatever it is written in.

`Run` is what `jax_models` and `torch_models` make of a user's network. Parameters are named by their places, as PyTorch
names them: "layers.0.weight" belongs to the layer "layers.0".
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeGuard, TypeVar

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float

if TYPE_CHECKING:
    from torch.nn import Module

A = TypeVar("A")
Jacobian = Any  # a matrix of any array library, on the device where the model is

_AFFINE = 1e-4  # relative to the outputs, where they are in single precision


# dense or convolutional; an activation; normalised units, each with its gain; all else with parameters
Kind = Literal["layer", "activation", "normalisation", "other"]


class Stage(NamedTuple):
    """A part of a network that acts on what the part before it gives."""

    name: str
    kind: Kind


class NotFinite(InvalidInput):
    """A checkpoint, or what the model makes of it, has numbers that are not finite: the run diverged."""


class Run(ABC):
    """Checkpoints of one network, and the samples that it is measured on."""

    count: int  # of checkpoints
    course: tuple[Stage, ...]  # as they act; empty where that is not known
    sequential: bool  # nothing else lies between inputs and outputs
    normalisations: tuple[str, ...]  # the places of layers that normalise
    identity: Hashable  # of the code, as far as it can be told: two runs with another one differ

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of these checkpoints before reading anything into them."""
        return ()

    @abstractmethod
    def undisturbed(self) -> AbstractContextManager[object]:
        """Inside of which all that follows is called; nothing outside of it changes."""

    @abstractmethod
    def leads(self) -> bool:
        """Whether this is the first of the processes that train the model together, which alone measures."""

    @abstractmethod
    def put(self, t: int, given: object) -> None:
        """Another model or state as a checkpoint, or one more; it is not copied."""

    @abstractmethod
    def saved(self, t: int) -> Any:
        """A checkpoint as arrays, to be written into a file beside those of the model."""

    @abstractmethod
    def restored(self, saved: Any) -> object:
        """A checkpoint that was saved, to be `put`."""

    @abstractmethod
    def portable(self, part: Any) -> Any:
        """An array as the library of the model writes it into files."""

    @abstractmethod
    def like_jacobians(self, part: Any) -> Any:
        """An array that was written, where the gradients are."""

    @abstractmethod
    def leaves(self, t: int) -> dict[str, Array]:
        """The parameters of a checkpoint, by name."""

    @abstractmethod
    def outputs(self, t: int, leaves: dict[str, Array] | None = None) -> Array:
        """(samples, outputs); with other parameters where they are given."""

    @abstractmethod
    def affine(self) -> bool:
        """Whether the outputs of the first checkpoint are an affine map of the samples, as far as these can tell."""

    @abstractmethod
    def hidden(self, t: int) -> dict[str, Array]:
        """Hidden activity, (samples, units), by layer; empty where it is not known."""

    @abstractmethod
    def jacobian(self, t: int, some: slice, combined: Float[Array, "outputs r"] | None = None) -> Jacobian:
        """Gradients of all outputs at some samples, or of combinations of them: (samples × outputs, parameters)."""

    @abstractmethod
    def linearised(self, t: int) -> Array | None:
        """Outputs of the tangent model of the first checkpoint, with the parameters of another one; None where the
        model cannot be differentiated forwards."""


def is_affine(f: Callable[[A], Array], x: A, other: A) -> bool:
    """Whether half way between two samples is half way between their outputs."""
    middle, ends = f((x + other) / 2), (f(x) + f(other)) / 2  # type: ignore[operator]
    return bool(np.abs(middle - ends).max() <= _AFFINE * np.abs(ends).max())


def layer_of(name: str) -> str:
    """The layer that a parameter belongs to: the place it is in, or itself where that is a list or nothing.

    >>> layer_of("layers.0.weight"), layer_of("W1"), layer_of("weights.1")
    ('layers.0', 'W1', 'weights.1')
    """
    place, _, last = name.rpartition(".")
    return place if place and not last.isdigit() else name


def neighbours(course: Sequence[Stage]) -> list[tuple[str, str]]:
    """Layers that follow each other with no other parameters between them; or a normalisation, and the layer after it.

    What comes into a normalised unit is its gain and bias: weights before them are normalised away.

    >>> neighbours([Stage("0", "layer"), Stage("1", "normalisation"), Stage("2", "activation"), Stage("3", "layer")])
    [('1', '3')]
    """
    stages = [stage for stage in course if stage.kind != "activation"]
    return [
        (one.name, other.name)
        for one, other in pairwise(stages)
        if one.kind in ("layer", "normalisation") and other.kind == "layer"
    ]


def hidden_stages(course: Sequence[Stage]) -> dict[int, str]:
    """Where hidden activity is read: stage → the layer whose units it shows.

    After each activation function that has layers before and after it; after each layer but the last where there is
    no activation function, as in a linear network.

    >>> hidden_stages([Stage("0", "layer"), Stage("1", "activation"), Stage("2", "layer"), Stage("3", "activation")])
    {1: '0'}
    """
    last = max((i for i, stage in enumerate(course) if stage.kind != "activation"), default=0)
    shown_by = "activation" if any(stage.kind == "activation" for stage in course) else "layer"
    found: dict[int, str] = {}
    owner = ""
    for i, stage in enumerate(course[:last]):
        if stage.kind == "layer" or (stage.kind != "activation" and not owner):
            owner = stage.name
        if owner and stage.kind == shown_by:
            found[i] = owner if owner not in found.values() else f"{owner} ({stage.name})"
    return found


def normalises(part: object) -> bool:
    """Whether a part of a model undoes the scale of what it is given: all libraries have Norm in the names of these."""
    return any("Norm" in kind.__name__ for kind in type(part).__mro__)


def is_torch_module(model: object) -> TypeGuard[Module]:
    """Without importing PyTorch: where a module of it is, it has been."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def described(found: object) -> str:
    """What came instead of an array: its shape, where it has one."""
    return f"shape {tuple(shape)}" if (shape := getattr(found, "shape", None)) is not None else _check.shown(found)


def in_one_line(error: Exception) -> str:
    """What a model stumbled over, for the end of a sentence."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0].rstrip('.') if text else 'no more is known'}."
