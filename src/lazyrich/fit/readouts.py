"""What is measured of a course of learning: what would be expected, and the noise around it.

    loss        ½ mean‖y − ŷ‖²
    modes       uᵀWv of each mode of the task
    choices     of the options o for item i:  p = (1 − ε) softmax_o(ŷ_i/temperature) + ε/options
    accuracy    p of the right option, its mean over the items
    rsm, rdm    inner products or squared distances of the activities that items cause, in a unit of their own

with ε the lapse. Items are the samples of the task; where it has none, one item per input stands in for them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.fit.models import Curves
from lazyrich.fit.noise import Noise

XArray = Any  # of NumPy or JAX


@dataclass(frozen=True, eq=False)
class Readout(ABC):
    """One kind of measurement, and what came of it."""

    name: str
    noise: Noise
    parameters: ClassVar[tuple[str, ...]] = ()  # of its own
    sees_sign: ClassVar[bool] = False  # of λ

    @abstractmethod
    def expected(self, curves: Curves, values: Mapping[str, XArray], xp: ModuleType = np) -> XArray:
        """What would be measured without noise: (P, T, …)."""

    @property
    @abstractmethod
    def words(self) -> str:
        """For people."""

    def drawn(self, expected: Array, rng: np.random.Generator) -> Readout:
        """The same measured anew, of one expectation (T, …)."""
        return replace(self, noise=self.noise.drawn(expected, rng))


class LossCurve(Readout):
    """The loss over time."""

    def expected(self, curves: Curves, values: Mapping[str, XArray], xp: ModuleType = np) -> XArray:
        return curves.loss()

    @property
    def words(self) -> str:
        return "loss"


class ModeCurves(Readout):
    """The strength of every mode."""

    def expected(self, curves: Curves, values: Mapping[str, XArray], xp: ModuleType = np) -> XArray:
        return curves.modes()

    @property
    def words(self) -> str:
        return "mode strength uᵀWv"


@dataclass(frozen=True, eq=False)
class Behaviour(Readout, ABC):
    """Choices between the outputs, item by item."""

    inputs: Float[Array, "n in"]
    parameters: ClassVar[tuple[str, ...]] = ("temperature", "lapse")

    def probabilities(self, curves: Curves, values: Mapping[str, XArray], xp: ModuleType) -> XArray:
        """(P, T, n, out)."""
        temperature, lapse = (xp.asarray(values[name])[..., None, None, None] for name in self.parameters)
        drive = curves.outputs(self.inputs) / temperature
        options = drive.shape[-1]
        top = reduce(xp.maximum, [drive[..., o] for o in range(options)])  # many times faster than max along few
        raised = xp.exp(drive - top[..., None])
        p = raised / (raised @ np.ones((options, 1)))
        return (1 - lapse) * p + lapse / options


class Choices(Behaviour):
    """How often each option was taken for each item."""

    def expected(self, curves: Curves, values: Mapping[str, XArray], xp: ModuleType = np) -> XArray:
        return self.probabilities(curves, values, xp)

    @property
    def words(self) -> str:
        return "choices"


@dataclass(frozen=True, eq=False)
class Accuracy(Behaviour):
    """The share of right choices: as it is, with Gaussian noise, or as counts of right and wrong."""

    right: tuple[int, ...]  # option of each item
    counted: bool

    def expected(self, curves: Curves, values: Mapping[str, XArray], xp: ModuleType = np) -> XArray:
        p = self.probabilities(curves, values, xp)
        correct = sum(p[..., item, option] for item, option in enumerate(self.right)) / len(self.right)
        if not self.counted:
            return correct
        return xp.stack([correct, 1 - correct], axis=-1)[..., None, :]  # one kind of item, two options

    @property
    def words(self) -> str:
        return "accuracy"


@dataclass(frozen=True, eq=False)
class Similarity(Readout):
    """Inner products (each item's with itself among them) or squared distances of the activities that items cause."""

    inputs: Float[Array, "n in"]
    layer: str
    distances: bool

    @property
    def sees_sign(self) -> bool:  # type: ignore[override]
        return self.layer == "hidden"

    def expected(self, curves: Curves, values: Mapping[str, XArray], xp: ModuleType = np) -> XArray:
        S = curves.similarity(self.inputs, self.layer)
        i, j = pairs(len(self.inputs), self.distances)
        if self.distances:
            return S[..., i, i] + S[..., j, j] - 2 * S[..., i, j]
        return S[..., i, j]

    @property
    def words(self) -> str:
        return f"{'distance' if self.distances else 'similarity'} of items ({self.layer} layer)"


def pairs(items: int, distances: bool) -> tuple[Array, Array]:
    """Which entries of a symmetric matrix are measured: one of each two, and the diagonal of what are not distances."""
    return np.triu_indices(items, k=int(distances))
