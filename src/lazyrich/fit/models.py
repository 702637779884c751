"""What may have learned: two layers, or one, whose modes do not interact; or a network that is handed over.

The aligned start, every mode at strength `scale` and balance λ, is what small random weights become while they wait
(theory: sections 1 and 11), and has one scalar closed form per mode. With l = |λ|, K = √(l² + 4s²) and f = e^{−Kt}, the
sum z = N + 2a of `methods.modes` goes as

    z(t) = [z0 ((1 + f)/2 + s E) + l² E/2] / [z0 E/2 + (l²/(K + 2s) + (K + 2s) f)/2K],   E = (1 − f)/K

    a = (z − l²/z)/4,      z0 = √(l² + 4a0²) + 2a0

from a0 > 0: nothing overflows, and a is right to 1e-15 of the larger of l and s. `methods.modes` has the form that is
right to the last digit for all signs and sizes. This one is there for its speed, for many parameters at once, and for
JAX, to which every function here goes too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.inits import aligned
from lazyrich.methods.solve import solve
from lazyrich.networks import Network
from lazyrich.problem import Problem
from lazyrich.tasks import Task
from lazyrich.trajectory import Trajectory

XArray = Any  # of NumPy or JAX
_TINY = 1e-280  # added to l², so that a mode without target and balance has a K to be divided by


class Curves(ABC):
    """The course of learning for one or many parameter vectors (P), at T times."""

    @abstractmethod
    def loss(self) -> XArray:
        """(P, T)."""

    @abstractmethod
    def modes(self) -> XArray:
        """uᵀWv of every mode of the task: (P, T, m)."""

    @abstractmethod
    def outputs(self, inputs: Float[Array, "n in"]) -> XArray:
        """What the network answers to each of these inputs: (P, T, n, out)."""

    @abstractmethod
    def similarity(self, inputs: Float[Array, "n in"], layer: str) -> XArray:
        """Inner products of the activities that these inputs cause in the hidden layer or the outputs: (P, T, n, n)."""


class Model(ABC):
    """Something that learns the task, and what it does at which parameters."""

    name: ClassVar[str]
    parameters: tuple[str, ...]
    task: Task

    @abstractmethod
    def curves(self, values: Mapping[str, XArray], times: Float[Array, " T"], xp: ModuleType = np) -> Curves:
        """The course at parameters of shape (P,) or ()."""

    @abstractmethod
    def problem(self, values: Mapping[str, float]) -> Problem:
        """The same as a problem, whose time is that of the data."""

    def trajectory(self, values: Mapping[str, float], times: Float[Array, " T"]) -> Trajectory:
        """What it does at the times of the data."""
        return solve(self.problem(values), times)

    @property
    @abstractmethod
    def words(self) -> str:
        """For people."""


@dataclass(frozen=True)
class Aligned(Model, ABC):
    """A network whose modes are those of the task."""

    task: Task
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.task.whitening_error > 1e-9:
            raise InvalidInput(
                "task must have white inputs (Σxx = c·I) where the start is aligned with it, and these are off by "
                f"{self.task.whitening_error:.2g}: try task.whitened(), or start=, a network to begin from."
            )

    @cached_property
    def count(self) -> int:
        """How many modes the layers have room for."""
        return min(self.sizes)

    @cached_property
    def targets(self) -> Float[Array, " m"]:
        """What each of them ends at."""
        return np.asarray(self.task.modes.s[: self.count] / self.task.input_scale)

    def curves(self, values: Mapping[str, XArray], times: Float[Array, " T"], xp: ModuleType = np) -> Curves:
        clock = xp.asarray(values["rate"])[..., None, None] * (self.task.input_scale * times[:, None])
        lam = xp.asarray(values.get("lam", 0.0))[..., None, None]
        a = self.strengths(xp.asarray(values["scale"])[..., None, None], lam, clock, xp)
        return _AlignedCurves(self, xp, a, lam)

    @abstractmethod
    def strengths(self, scale: XArray, lam: XArray, clock: XArray, xp: ModuleType) -> XArray:
        """a of each mode: (P, T, m)."""

    @abstractmethod
    def hidden(self, a: XArray, lam: XArray, xp: ModuleType) -> XArray:
        """W1ᵀW1 of each mode."""

    @property
    def words(self) -> str:
        return f"{self.name}, {'-'.join(map(str, self.sizes))}, aligned with the task"


@dataclass(frozen=True)
class Deep(Aligned):
    """Two layers."""

    name: ClassVar[str] = "deep"
    parameters: ClassVar[tuple[str, ...]] = ("scale", "lam", "rate")  # type: ignore[misc]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.sizes) != 3:
            raise InvalidInput(
                f"sizes must be those of two layers (inputs, hidden, outputs) for the model {self.name!r}, and it is "
                f"{self.sizes}: try start=, a network to begin from, or models=('shallow',)."
            )

    def strengths(self, scale: XArray, lam: XArray, clock: XArray, xp: ModuleType) -> XArray:
        return mode_strengths(self.targets, scale, lam, clock, xp)

    def hidden(self, a: XArray, lam: XArray, xp: ModuleType) -> XArray:
        N = xp.sqrt(lam**2 + 4 * a**2 + _TINY)
        return xp.where(lam > 0, 2 * a**2 / (N + xp.abs(lam)), (N + xp.abs(lam)) / 2)

    def problem(self, values: Mapping[str, float]) -> Problem:
        lam = values.get("lam", 0.0)
        network = aligned(0, self.task, hidden=self.sizes[1], strengths=values["scale"], lam=lam)
        return Problem(self.task, network, values["rate"])


@dataclass(frozen=True)
class Rich(Deep):
    """Two layers with λ = 0."""

    name: ClassVar[str] = "rich"
    parameters: ClassVar[tuple[str, ...]] = ("scale", "rate")  # type: ignore[misc]


@dataclass(frozen=True)
class Shallow(Aligned):
    """One layer: every mode at the same rate."""

    name: ClassVar[str] = "shallow"
    parameters: ClassVar[tuple[str, ...]] = ("scale", "rate")  # type: ignore[misc]

    @cached_property
    def count(self) -> int:
        return min(self.sizes[0], self.sizes[-1])

    def strengths(self, scale: XArray, lam: XArray, clock: XArray, xp: ModuleType) -> XArray:
        return self.targets + (scale - self.targets) * xp.exp(-clock)

    def hidden(self, a: XArray, lam: XArray, xp: ModuleType) -> XArray:
        raise InvalidInput("rsm of a hidden layer needs one, and the model 'shallow' has none: try layer='outputs'.")

    def problem(self, values: Mapping[str, float]) -> Problem:
        U, _, V = self.task.modes
        return Problem(self.task, Network([values["scale"] * (U @ V.T)]), values["rate"])

    @property
    def words(self) -> str:
        return f"shallow, {self.sizes[0]}-{self.sizes[-1]}, aligned with the task"


@dataclass(frozen=True)
class _AlignedCurves(Curves):
    model: Aligned
    xp: ModuleType
    a: XArray  # (P, T, m)
    lam: XArray  # (P, 1, 1)

    def loss(self) -> XArray:
        task, m = self.model.task, self.model.count
        missed = float(np.sum(task.modes.s[m:] ** 2)) / task.input_scale / 2 + task.loss_floor
        return self.xp.sum((self.a - self.model.targets) ** 2, axis=-1) * (task.input_scale / 2) + missed

    def modes(self) -> XArray:
        missing = len(self.model.task.modes.s) - self.model.count
        return self.xp.concatenate([self.a, self.xp.zeros((*self.a.shape[:-1], missing))], axis=-1)

    def outputs(self, inputs: Float[Array, "n in"]) -> XArray:
        U, _, V = self.model.task.modes
        m = self.model.count
        parts = (inputs @ V[:, :m])[:, None, :] * U[:, :m]  # (n, out, m)
        flat = self.a @ parts.reshape(-1, m).T
        return flat.reshape(*self.a.shape[:-1], *parts.shape[:2])

    def similarity(self, inputs: Float[Array, "n in"], layer: str) -> XArray:
        m, n = self.model.count, len(inputs)
        seen = inputs @ self.model.task.modes.V[:, :m]
        parts = (seen[:, None, :] * seen).reshape(n * n, m)
        squares = self.a**2 if layer == "outputs" else self.model.hidden(self.a, self.lam, self.xp)
        return (squares @ parts.T).reshape(*self.a.shape[:-1], n, n)


def mode_strengths(s: Any, a0: XArray, lam: XArray, times: XArray, xp: ModuleType = np) -> XArray:
    """a(t) of ȧ = √(λ² + 4a²)(s − a) from a0 > 0, for s ≥ 0. Shapes broadcast.

    >>> bool(abs(mode_strengths(2.0, 0.5, 0.0, 0.3) - 2 / (1 + 3 * np.exp(-1.2))) < 1e-15)
    True
    """
    l2 = lam**2 + _TINY
    K = xp.sqrt(l2 + 4 * s**2)
    f, E = xp.exp(-K * times), -xp.expm1(-K * times) / K
    z0 = xp.sqrt(l2 + 4 * a0**2) + 2 * a0
    above = K + 2 * s
    z = (z0 * ((1 + f) / 2 + s * E) + l2 * E / 2) / (z0 * E / 2 + (l2 / above + above * f) / (2 * K))
    return (z - l2 / z) / 4


MODELS: dict[str, type[Aligned]] = {model.name: model for model in (Deep, Shallow, Rich)}


def as_models(models: object) -> tuple[str, ...]:
    """Names of models, each known."""
    names = (models,) if isinstance(models, str) else models
    if not isinstance(names, tuple | list) or not names:
        raise InvalidInput(f"models must name what may have learned, such as ('deep', 'shallow'), and it is {names!r}.")
    known = tuple(_check.choice("models", name, tuple(MODELS)) for name in names)
    if len(set(known)) < len(known):
        twice = next(name for name in known if known.count(name) > 1)
        raise InvalidInput(f"models must name each once, and {twice!r} is there {known.count(twice)} times.")
    return known
