"""Pure functions of a trajectory: what a reader of the papers would measure along it."""

from lazyrich.observables.modes import half_times, mode_strengths

__all__ = ["half_times", "mode_strengths"]
