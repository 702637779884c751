"""The likelihood of measurements at many parameter vectors at once, with what scoring needs of its slopes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.fit.models import Model
from lazyrich.fit.parameters import Space
from lazyrich.fit.readouts import Readout

_STEP = 1e-6  # of the way between two bounds, of a difference quotient
_NUMBERS = 2**21  # expectations that are held at once

XArray = Any  # of NumPy or JAX


@dataclass(frozen=True, eq=False)
class Likelihood:
    """A model, what was measured of it and when, and the parameters that are free."""

    model: Model
    times: Float[Array, " T"]
    readouts: tuple[Readout, ...]
    space: Space

    def of_values(self, values: Mapping[str, XArray], xp: ModuleType = np) -> XArray:
        """The log-likelihood at parameters of shape (P,) or (), by their names."""
        curves = self.model.curves(values, self.times, xp)
        each = [one.noise.log_likelihood(one.expected(curves, values, xp), xp) for one in self.readouts]
        return sum(each[1:], each[0])

    def expected(self, values: Mapping[str, Any]) -> list[Array]:
        """What each readout would be without noise."""
        curves = self.model.curves(values, self.times)
        return [np.asarray(one.expected(curves, values)) for one in self.readouts]

    def __call__(self, places: Float[Array, "P d"]) -> Float[Array, " P"]:
        """The log-likelihood at many places of the space."""
        return np.concatenate(
            [np.broadcast_to(self.of_values(self.space.values(some)), len(some)) for some in self._pieces(places)]
        )

    def scored(self, places: Float[Array, "P d"]) -> tuple[Float[Array, "P d"], Float[Array, "P d d"]]:
        """Slope and expected curvature (Fisher's) of the log-likelihood at many places."""
        parts = [self._scored(some) for some in self._pieces(places, 1 + places.shape[1])]
        slopes, curvatures = zip(*parts, strict=True)
        return np.concatenate(slopes), np.concatenate(curvatures)

    def _scored(self, places: Float[Array, "P d"]) -> tuple[Array, Array]:
        P, d = places.shape
        step = np.where(places + _STEP <= 1, _STEP, -_STEP)
        moved = places[:, None, :] + np.concatenate([np.zeros((P, 1, d)), step[:, :, None] * np.eye(d)], axis=1)
        values = self.space.values(moved.reshape(-1, d))
        curves = self.model.curves(values, self.times)
        g, H = np.zeros((P, d)), np.zeros((P, d, d))
        for one in self.readouts:
            expected = np.asarray(one.expected(curves, values))
            fitted = one.noise.fitted(expected).reshape(P, 1 + d, -1)
            J = (fitted[:, 1:] - fitted[:, :1]) / step[:, :, None]
            slope, information = (x.reshape(P, -1) for x in one.noise.scored(expected[:: 1 + d]))
            g += np.matmul(J, slope[:, :, None])[:, :, 0]
            H += np.matmul(J * information[:, None, :], np.swapaxes(J, 1, 2))
        return g, H

    def _pieces(self, places: Float[Array, "P d"], times: int = 1) -> list[Array]:
        """As many at once as memory allows."""
        count = max(1, _NUMBERS // (times * self._size))
        return [places[i : i + count] for i in range(0, len(places), count)]

    @cached_property
    def _size(self) -> int:
        task = self.model.task
        modes = len(task.modes.s)
        return len(self.times) * max(modes, *(one.noise.mean[0].size for one in self.readouts))

    @property
    def count(self) -> int:
        """How many numbers were measured."""
        return sum(self.counts.values())

    @property
    def counts(self) -> dict[str, int]:
        """How many of them are of each readout."""
        return {one.name: one.noise.count for one in self.readouts}

    @property
    def parameters(self) -> int:
        """How many are estimated, those of the noise among them."""
        return len(self.space.free) + sum(one.noise.estimated for one in self.readouts)
