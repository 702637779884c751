"""What an observable is: a function of a trajectory, entered under its own name so that `to_xarray` and sweeps can ask
for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from lazyrich.trajectory import Trajectory

_Measure = TypeVar("_Measure", bound=Callable[..., Any])


@dataclass(frozen=True)
class Observable:
    """A function of a trajectory, one value per time, and how its axes are called."""

    measure: Callable[[Trajectory], Any]
    dims: tuple[str, ...]  # after time
    long_name: str
    units: str
    items: tuple[str, ...]  # the same where the task holds no samples


# Filled by `observable`, not a table written out here: observables stand above trajectories, which may not name them.
_OBSERVABLES: dict[str, Observable] = {}
_ROOMS = ("lazyrich.observables", "lazyrich.landscape")  # where they are


def observable(
    *dims: str, long_name: str, units: str = "1", items: tuple[str, ...] | None = None
) -> Callable[[_Measure], _Measure]:
    """Enters a function f(traj) → (T, …) under its own name, so that `to_xarray` can be asked for it.

    `dims` name the axes after time; where a matrix has the same axis twice, the second name ends in an underscore.
    `items` are the names where a task without samples has one item per input or output.
    """

    def enter(measure: _Measure) -> _Measure:
        _OBSERVABLES[measure.__name__] = Observable(measure, dims, long_name, units, dims if items is None else items)
        return measure

    return enter


def all_observables() -> Mapping[str, Observable]:
    """Name → observable, once the rooms that hold them are loaded."""
    for room in _ROOMS:
        import_module(room)
    return dict(sorted(_OBSERVABLES.items()))
