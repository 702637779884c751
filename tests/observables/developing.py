"""What the tests of semantic development share: modes by the logistic curve, and gradient descent in the limit of small
rates. Nothing here is of lazyrich but the trajectories that are asked for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import lazyrich as lr

STEPS = 400


def logistic(t: float, s: float, end: float, start: float) -> float:
    """Strength of a mode of two balanced layers: ȧ = 2a(s − a·s/end), from start to end."""
    return end / (1 + (end / start - 1) * np.exp(-2 * s * t))


def limit_of_descent(measure: Callable[[lr.Trajectory], np.ndarray], problem: lr.Problem, span: float) -> np.ndarray:
    """Of a number of gradient descent what it is as the rate goes to 0, by two rates and Richardson's extrapolation.

    Descent is off by rate · c + O(rate²): the first term is taken away.
    """
    coarse, fine = (lr.descend(problem, rate=span / n, steps=n, record="weights") for n in (STEPS, 2 * STEPS))
    return 2 * np.asarray(measure(fine)) - np.asarray(measure(coarse))
