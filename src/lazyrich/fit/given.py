"""A network that is handed over as the start: its course is had once, and only the clock is fitted.

Where a closed form applies it is evaluated at any time; else the course is integrated once (`lr.predict`), until the
last time that the bounds of the rate allow, and a cubic spline leads from record to record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.fit.models import Curves, Model
from lazyrich.methods.base import Solution
from lazyrich.methods.solve import solve
from lazyrich.networks import Network
from lazyrich.predict import predict
from lazyrich.prediction.looking import both_ends
from lazyrich.problem import Problem
from lazyrich.tasks import Task
from lazyrich.trajectory import Trajectory

XArray = Any
_RECORDS = 1500  # of an integrated course


@dataclass(frozen=True, eq=False)
class Given(Model):
    """A linear network, wherever it starts."""

    task: Task
    network: Network
    longest: float  # learned time
    name: ClassVar[str] = "start"
    parameters: ClassVar[tuple[str, ...]] = ("rate",)  # type: ignore[misc]

    @classmethod
    def of(cls, task: Task, sizes: tuple[int, ...], network: object, longest: float) -> Given:
        """Checked against the task and the sizes."""
        if not isinstance(network, Network):
            raise InvalidInput(
                f"start must be a Network, and it is a {type(network).__name__}: try lr.Network([W1, W2])."
            )
        if network.sizes != sizes:
            raise InvalidInput(f"start must have the sizes {sizes}, and it has {network.sizes}.")
        if not network.activation.linear:
            raise InvalidInput("start must be a linear network, whose function can be read at any time, and it is not.")
        return cls(task, network, longest)

    @property
    def words(self) -> str:
        return f"a network handed over, {self.network.architecture}"

    def problem(self, values: Mapping[str, float]) -> Problem:
        return Problem(self.task, self.network, values["rate"])

    def trajectory(self, values: Mapping[str, float], times: Float[Array, " T"]) -> Trajectory:
        return predict(self.problem(values), times).trajectory

    def curves(self, values: Mapping[str, XArray], times: Float[Array, " T"], xp: ModuleType = np) -> Curves:
        if xp is not np:
            raise InvalidInput(
                "start must not be given for the likelihood in JAX, which knows the aligned start alone."
            )
        clock = np.asarray(values["rate"])[..., None] * times
        kept, place = np.unique(clock, return_inverse=True)
        return _GivenCurves(self, kept, place.reshape(clock.shape))

    @cached_property
    def solution(self) -> Solution | None:
        """The closed form, if there is one."""
        problem = Problem(self.task, self.network)
        return solve(problem, [0.0]).solution if problem.facts.method is not None else None

    def at(self, what: str, times: Float[Array, " t"]) -> Array:
        """The "function" or "gram" at any learned times."""
        if self.solution is not None:
            return np.asarray(getattr(self.solution, what)(times))
        return np.asarray(self._splines[what](times))

    @cached_property
    def _splines(self) -> dict[str, Any]:
        from scipy.interpolate import CubicSpline  # here: it is slow to load

        problem = Problem(self.task, self.network)
        course = predict(problem, both_ends(problem, self.longest, _RECORDS)).trajectory
        kinds = ("function", "gram") if self.network.depth == 2 and course.knows("gram") else ("function",)
        return {kind: CubicSpline(course.times, np.asarray(getattr(course, kind))) for kind in kinds}


@dataclass(frozen=True, eq=False)
class _GivenCurves(Curves):
    model: Given
    kept: Float[Array, " t"]  # learned times, each once
    place: Array  # of each of (P, T) among them

    @cached_property
    def function(self) -> Float[Array, "t out in"]:
        return self.model.at("function", self.kept)

    def loss(self) -> XArray:
        return np.asarray(self.model.task.loss(self.function))[self.place]

    def modes(self) -> XArray:
        U, _, V = self.model.task.modes
        return np.sum(U * (self.function @ V), axis=1)[self.place]

    def outputs(self, inputs: Float[Array, "n in"]) -> XArray:
        return (inputs @ np.swapaxes(self.function, 1, 2))[self.place]

    def similarity(self, inputs: Float[Array, "n in"], layer: str) -> XArray:
        if layer == "outputs":
            Y = inputs @ np.swapaxes(self.function, 1, 2)
            return (Y @ np.swapaxes(Y, 1, 2))[self.place]
        if self.model.network.depth != 2:
            raise InvalidInput(
                f"layer must be 'outputs' where start has {self.model.network.depth} layers, and not two."
            )
        G = self.model.at("gram", self.kept)[:, : self.model.task.d_in, : self.model.task.d_in]
        return (inputs @ G @ inputs.T)[self.place]
