"""What a hidden unit does to its input: a value that knows its function, its derivatives and its name."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput


@dataclass(frozen=True)
class Activation:
    """σ(z) = z for z > 0 and γz below, or tanh. γ = 1 is linear, γ = 0 is ReLU.

    `Activation.of` takes what `Network` takes: a name, the slope of a leaky ReLU for negative inputs, or an activation.
    The functions work on NumPy arrays, or on those of the array library `xp`.

    >>> lr.Activation.of("relu")(np.array([-1.0, 2.0])) + 0.0
    array([0., 2.])
    >>> print(lr.Activation.of(0.2), lr.Activation.of("tanh").homogeneous)
    leaky ReLU 0.2 False
    """

    gamma: float | None  # None: tanh

    _NAMES: ClassVar[dict[str, float | None]] = {"linear": 1.0, "relu": 0.0, "tanh": None}

    @classmethod
    def of(cls, value: Activation | str | float) -> Activation:
        """The activation that a user means, or a sentence."""
        if isinstance(value, Activation):
            return value
        if isinstance(value, str):
            return cls(cls._NAMES[_check.choice("activation", value, tuple(cls._NAMES))])
        try:
            gamma = _check.number("activation", value)
        except InvalidInput:
            known = "'linear', 'relu', 'tanh' or the slope of a leaky ReLU"
            raise InvalidInput(f"activation must be {known}, and it is {_check.shown(value)}.") from None
        if not 0 <= gamma <= 1:
            raise InvalidInput(
                f"activation, as the slope of a leaky ReLU, must lie between 0 and 1, and it is {gamma:g}."
            )
        return cls(gamma)

    @property
    def linear(self) -> bool:
        return self.gamma == 1.0

    @property
    def homogeneous(self) -> bool:
        """σ(cz) = cσ(z) for c > 0: gradient flow then conserves the balance of every hidden unit."""
        return self.gamma is not None

    @property
    def kinked(self) -> bool:
        """Piecewise linear, and not linear."""
        return self.homogeneous and not self.linear

    def __call__(self, z: Any, xp: ModuleType = np) -> Any:
        """σ(z)."""
        if self.gamma is None:
            return xp.tanh(z)
        return z if self.linear else xp.where(z > 0, z, self.gamma * z)

    def derivative(self, z: Any, xp: ModuleType = np) -> Any:
        """σ'(z)."""
        if self.gamma is None:
            return 1 - xp.tanh(z) ** 2
        return xp.ones_like(z) if self.linear else xp.where(z > 0, 1.0, self.gamma)

    def __str__(self) -> str:
        if self.gamma is None:
            return "tanh"
        return {1.0: "linear", 0.0: "relu"}.get(self.gamma, f"leaky ReLU {self.gamma:g}")
