"""The numbers that a fit looks for: their bounds, and the coordinates in which it walks.

Scale, rate and temperature are positive and may range over decades: their logarithm is walked. λ begins to matter where
it is as large as the initial strengths, and from there on by factors. The function of a network knows |λ| alone, and
near zero only λ²: that is what is walked, so that zero is no place to be stuck at. Where hidden layers are seen, the
sign is too, and asinh λ is walked. Each coordinate goes from 0 at the lower bound to 1 at the upper one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float

NAMES = ("scale", "lam", "rate", "temperature", "lapse")
DEFAULTS = {"lam": 0.0, "rate": 1.0, "temperature": 1.0, "lapse": 0.0}
_FACTOR = 1e-3  # of the largest |λ|: where its coordinate turns from even to logarithmic, where no scale says it
Bounds = tuple[float, float]


@dataclass(frozen=True)
class Coordinate(ABC):
    """One free parameter between its bounds.

    >>> rate = Log("rate", 0.01, 1.0)
    >>> float(rate.value(0.5)), float(rate.place(0.01))
    (0.1, 0.0)
    """

    name: str
    low: float
    high: float
    evenly: ClassVar[bool] = True  # whether differences of it mean something, or only factors
    axis: ClassVar[str] = "linear"  # of a picture

    @property
    def bend(self) -> float | None:
        """Where an axis turns from even to logarithmic."""
        return None

    def spread(self, sd: float) -> float:
        """A standard deviation of the stretched value as one of the logarithm, where factors are what matters."""
        return sd

    @abstractmethod
    def stretched(self, value: Any) -> Any:
        """A monotone function of the value, in which likelihoods are nearest to parabolas."""

    @abstractmethod
    def unstretched(self, stretched: Any) -> Any:
        """Its inverse."""

    def value(self, place: Any) -> Any:
        """What lies at a place between 0 and 1."""
        low, high = self.stretched(self.low), self.stretched(self.high)
        return np.clip(self.unstretched(low + (high - low) * np.asarray(place)), self.low, self.high)

    def place(self, value: Any) -> Any:
        """Where a value lies between the bounds."""
        low, high = self.stretched(self.low), self.stretched(self.high)
        return (self.stretched(value) - low) / (high - low)


class Linear(Coordinate):
    """As it is."""

    def stretched(self, value: Any) -> Any:
        return np.asarray(value, dtype=float)

    def unstretched(self, stretched: Any) -> Any:
        return stretched


class Log(Coordinate):
    """By factors."""

    evenly = False
    axis = "log"

    def stretched(self, value: Any) -> Any:
        return np.log(value)

    def unstretched(self, stretched: Any) -> Any:
        return np.exp(stretched)


@dataclass(frozen=True)
class Balance(Coordinate):
    """λ, of either sign: evenly up to `small`, by factors beyond."""

    small: float
    axis: ClassVar[str] = "symlog"

    @property
    def bend(self) -> float | None:
        return self.small

    def stretched(self, value: Any) -> Any:
        return np.arcsinh(np.asarray(value) / self.small)

    def unstretched(self, stretched: Any) -> Any:
        return self.small * np.sinh(stretched)


@dataclass(frozen=True)
class Magnitude(Coordinate):
    """λ between zero or a bound and a larger one, of one sign: by its square up to `small`, by factors beyond."""

    small: float
    axis: ClassVar[str] = "symlog"

    @property
    def bend(self) -> float | None:
        return self.small

    def stretched(self, value: Any) -> Any:
        return np.log1p((np.asarray(value) / self.small) ** 2)

    def spread(self, sd: float) -> float:
        return sd / 2  # of ln λ, not of ln λ²

    def unstretched(self, stretched: Any) -> Any:
        size = abs(self.small) * np.sqrt(np.expm1(np.maximum(stretched, 0.0)))
        return -size if self.small < 0 else size

    def value(self, place: Any) -> Any:
        low, high = self.stretched(self.low), self.stretched(self.high)
        found = self.unstretched(low + (high - low) * np.asarray(place))
        return np.clip(found, min(self.low, self.high), max(self.low, self.high))


@dataclass(frozen=True)
class Space:
    """The free parameters and those that are held.

    >>> space = Space((Log("rate", 0.01, 1.0),), {"scale": 0.1})
    >>> {name: float(value) for name, value in space.values(np.array([0.5])).items()}
    {'rate': 0.1, 'scale': 0.1}
    """

    free: tuple[Coordinate, ...]
    held: Mapping[str, float]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(coordinate.name for coordinate in self.free)

    def values(self, places: Float[Array, "*P d"]) -> dict[str, Any]:
        """Every parameter by its name."""
        free = {coordinate.name: coordinate.value(places[..., i]) for i, coordinate in enumerate(self.free)}
        return free | {name: np.float64(value) for name, value in self.held.items()}

    def places(self, values: Mapping[str, Any]) -> Float[Array, "*P d"]:
        """Where these values lie."""
        return np.stack([coordinate.place(values[coordinate.name]) for coordinate in self.free], axis=-1)


def as_free(free: object) -> dict[str, Bounds | float]:
    """Bounds, or a number at which a parameter is held, by its name."""
    if not isinstance(free, Mapping):
        raise InvalidInput(
            "free must map parameters to their bounds, such as {'scale': (1e-4, 0.5), 'rate': (0.01, 1.0)}, and it is "
            f"{_check.shown(free)}."
        )
    return {_check.choice("free", name, NAMES): _as_bounds(name, value) for name, value in free.items()}


def _as_bounds(name: str, value: object) -> Bounds | float:
    what = f"free[{name!r}]"
    given = _check.as_array(what, value)
    if given.ndim == 0:
        return _in_range(what, name, float(given))
    if given.shape != (2,):
        raise InvalidInput(
            f"{what} must be two bounds (low, high), or one number that holds it, and it has shape {given.shape}."
        )
    low, high = (_in_range(what, name, float(bound)) for bound in given)
    if not low < high:
        advice = f"try ({high:g}, {low:g})" if high < low else f"try {low:g}, which holds it"
        raise InvalidInput(f"{what} must be a lower and a higher bound, and it is ({low:g}, {high:g}): {advice}.")
    return low, high


def _in_range(what: str, name: str, value: float) -> float:
    if name in ("scale", "rate", "temperature") and value <= 0:
        raise InvalidInput(f"{what} must be above 0, where its logarithm is, and it is {value:g}: try 1e-6.")
    if name == "lapse" and not 0 <= value < 1:
        raise InvalidInput(f"{what} must lie between 0 and 1, a share of all trials, and it is {value:g}.")
    return value


def space_of(free: Mapping[str, Bounds | float], names: tuple[str, ...], *, signed: bool) -> Space:
    """The coordinates of these parameters; `signed` says whether the sign of λ can be seen."""
    bounds = {name: free[name] for name in names if name in free}
    held = {name: DEFAULTS[name] for name in names if name not in bounds and name in DEFAULTS}
    if missing := [name for name in names if name not in bounds and name not in held]:
        raise InvalidInput(
            f"free must say what {missing[0]} is, and it has {', '.join(map(repr, free)) or 'nothing'}: try bounds, "
            "such as {'scale': (1e-4, 0.5)}, or one number that holds it."
        )
    held |= {name: bound for name, bound in bounds.items() if isinstance(bound, float)}
    ranges = {name: bound for name, bound in bounds.items() if isinstance(bound, tuple)}
    return Space(tuple(_coordinate(name, ranges, held, signed) for name in ranges), held)


def _coordinate(name: str, ranges: Mapping[str, Bounds], held: Mapping[str, float], signed: bool) -> Coordinate:
    low, high = ranges[name]
    if name == "lapse":
        return Linear(name, low, high)
    if name != "lam":
        return Log(name, low, high)
    least = ranges["scale"][0] if "scale" in ranges else held.get("scale", 0.0)
    small = min(2 * least or np.inf, _FACTOR * max(-low, high))
    if signed:
        return Balance(name, low, high, small)
    sign = -1.0 if -low > high else 1.0
    least, most = magnitudes(low, high)
    return Magnitude(name, sign * least, sign * most, sign * small)


def magnitudes(low: float, high: float) -> Bounds:
    """The range of |λ|.

    >>> magnitudes(-3.0, 1.0), magnitudes(-3.0, -1.0)
    ((0.0, 3.0), (1.0, 3.0))
    """
    return (0.0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
