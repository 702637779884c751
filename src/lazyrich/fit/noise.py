"""How what is measured scatters around what is expected: Gaussian, or counts of choices.

Both keep all that the likelihood needs, with subjects added up: means and numbers of measurements, or counts. NaN is
a measurement that is missing. Where the size of Gaussian noise is not known, the likelihood is that at its best value,
which is the root of the mean square; likewise a gain, where measured values have a unit of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from lazyrich._typing import Array, Float

XArray = Any  # of NumPy or JAX
_DIGITS = 1e-7  # of what was measured: less noise than this is not told apart from none


class Noise(ABC):
    """The likelihood of measurements whose expectations are (P, T, …)."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many numbers were measured."""

    @property
    @abstractmethod
    def estimated(self) -> int:
        """How many parameters it has itself."""

    @property
    def unknown_size(self) -> bool:
        """Whether its size is one of these."""
        return False

    @property
    @abstractmethod
    def mean(self) -> Array:
        """What was measured, in the units of what is expected: (T, …)."""

    @abstractmethod
    def log_likelihood(self, expected: XArray, xp: ModuleType = np) -> XArray:
        """(P,)."""

    @abstractmethod
    def scored(self, expected: Array) -> tuple[Array, Array]:
        """The slope of the log-likelihood with each expectation, and its expected curvature."""

    @abstractmethod
    def drawn(self, expected: Array, rng: np.random.Generator) -> Noise:
        """As many measurements of one expectation (T, …), new."""

    def gain_of(self, expected: XArray) -> XArray:
        """The best factor on each expectation; 1 where measurements have no unit of their own."""
        return 1.0

    def fitted(self, expected: Array) -> Array:
        """What `scored` differentiates: the expectation, with a gain if there is one."""
        return expected

    def spread(self, expected: Array) -> float:
        """The size of the noise around one expectation (T, …); nan where counts make it."""
        return float("nan")

    def unevenness(self, expected: Array) -> tuple[float, float]:
        """By what factor noise is larger where more is expected, and how likely so much is by chance: (1, 1) where the
        counts say how large it is."""
        return 1.0, 1.0


@dataclass(frozen=True, eq=False)
class Gaussian(Noise):
    """Independent, of the same size everywhere."""

    average: Float[Array, "T *k"]  # over subjects; 0 where all is missing
    weight: Float[Array, "T *k"]  # of how many
    within: float  # Σ (y − average)²
    sd: float | None = None
    gain: bool = False  # a factor on all expectations, to be estimated

    @classmethod
    def of(cls, measured: Float[Array, "S T *k"], sd: float | None = None, gain: bool = False) -> Gaussian:
        there = ~np.isnan(measured)
        weight = there.sum(axis=0).astype(float)
        average = np.where(there, measured, 0.0).sum(axis=0) / np.maximum(weight, 1)
        within = float(np.sum(np.where(there, measured - average, 0.0) ** 2))
        return cls(average, weight, within, sd, gain)

    @property
    def count(self) -> int:
        return int(self.weight.sum())

    @property
    def estimated(self) -> int:
        return self.unknown_size + self.gain

    @property
    def unknown_size(self) -> bool:
        return self.sd is None

    @property
    def mean(self) -> Array:
        return np.where(self.weight > 0, self.average, np.nan)

    @property
    def _floor(self) -> float:
        return _DIGITS**2 * float(np.sum(self.weight * self.average**2)) / self.count + 1e-300

    def _summed(self, values: XArray) -> XArray:
        return (self.weight * values).reshape(*values.shape[: values.ndim - self.weight.ndim], -1).sum(axis=-1)

    def gain_of(self, expected: XArray) -> XArray:
        if not self.gain:
            return 1.0
        square = self._summed(expected**2)
        return self._summed(expected * self.average) / (square + 1e-300)

    def fitted(self, expected: XArray) -> XArray:
        if not self.gain:
            return expected
        factor = self.gain_of(expected)
        return expected * factor.reshape(*factor.shape, *[1] * self.weight.ndim)

    def _variance(self, fitted: XArray) -> XArray:
        return (self._summed((fitted - self.average) ** 2) + self.within) / self.count + self._floor

    def log_likelihood(self, expected: XArray, xp: ModuleType = np) -> XArray:
        variance = self._variance(self.fitted(expected))
        if self.sd is None:
            return -self.count / 2 * (xp.log(2 * np.pi * variance) + 1)
        return -self.count / 2 * (variance / self.sd**2 + np.log(2 * np.pi * self.sd**2))

    def scored(self, expected: Array) -> tuple[Array, Array]:
        fitted = self.fitted(expected)
        variance = np.asarray(self._variance(fitted) if self.sd is None else self.sd**2)
        information = self.weight / variance.reshape(*np.shape(variance), *[1] * self.weight.ndim)
        information = np.broadcast_to(information, fitted.shape)
        return information * (self.average - fitted), information

    def drawn(self, expected: Array, rng: np.random.Generator) -> Gaussian:
        sd = self.sd or self.spread(expected)
        seen = self.weight > 0
        average = np.where(seen, self.fitted(expected), 0.0)
        average = average + np.where(seen, sd / np.sqrt(np.maximum(self.weight, 1)), 0.0) * rng.normal(size=seen.shape)
        rest = self.count - int(seen.sum())
        return replace(self, average=average, within=sd**2 * float(rng.chisquare(rest)) if rest else 0.0)

    def spread(self, expected: Array) -> float:
        return self.sd or float(np.sqrt(self._variance(self.fitted(expected))))

    def unevenness(self, expected: Array) -> tuple[float, float]:
        """Of the half of the measurements where most is expected against the other half: an F test."""
        from scipy.special import fdtrc  # here: it is slow to load

        seen, fitted = self.weight > 0, self.fitted(expected)
        squares = (self.weight * (self.average - fitted) ** 2)[seen][np.argsort(fitted[seen], kind="stable")]
        half = len(squares) // 2
        low, high = (float(part.mean()) + self._floor for part in (squares[:half], squares[-half:])) if half else (1, 1)
        chance = min(1.0, 2 * float(fdtrc(half, half, max(high / low, low / high)))) if half else 1.0
        return float(np.sqrt(high / low)), chance


@dataclass(frozen=True, eq=False)
class Counts(Noise):
    """How often each option was taken, of as many trials; expectations are probabilities (P, T, items, options)."""

    taken: Float[Array, "T items options"]

    @classmethod
    def of(cls, measured: Float[Array, "S T items options"]) -> Counts:
        return cls(np.nansum(measured, axis=0))

    @property
    def trials(self) -> Float[Array, "T items 1"]:
        return self.taken.sum(axis=-1, keepdims=True)

    @property
    def count(self) -> int:
        return int(self.trials.sum())

    @property
    def estimated(self) -> int:
        return 0

    @property
    def mean(self) -> Array:
        return np.where(self.trials > 0, self.taken / np.maximum(self.trials, 1), np.nan)

    def log_likelihood(self, expected: XArray, xp: ModuleType = np) -> XArray:
        from scipy.special import gammaln  # here: it is slow to load

        ways = float(np.sum(gammaln(self.trials + 1)) - np.sum(gammaln(self.taken + 1)))
        terms = self.taken * xp.log(expected + 1e-300)
        return terms.reshape(*terms.shape[:-3], -1).sum(axis=-1) + ways

    def scored(self, expected: Array) -> tuple[Array, Array]:
        safe = np.maximum(expected, 1e-12)
        return self.taken / safe, self.trials / safe

    def drawn(self, expected: Array, rng: np.random.Generator) -> Counts:
        p = expected / expected.sum(axis=-1, keepdims=True)
        return Counts(rng.multinomial(self.trials[..., 0].astype(int), p).astype(float))
