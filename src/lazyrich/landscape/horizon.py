"""`horizon`: until when to look, so that all that happens to a network can be seen.

Where a closed form applies it is asked: when has the loss come within a thousandth of its whole way of its limit, for
good? Elsewhere the answer is an estimate: five times the half time that the slowest mode would have if the start were
balanced and aligned with the task.
"""

from __future__ import annotations

import numpy as np

from lazyrich.methods.solve import solve
from lazyrich.problem import Problem, as_problem

_LEFT = 1e-3  # of the way of the loss
_SEEN = 1.3  # how far to look beyond
_GRID = np.geomspace(1e-4, 1e8, 241)  # twenty times a decade around the estimate


def horizon(problem: Problem) -> float:
    """The time by which the network has learned what it will learn, to two digits, rounded up.

    Parameters
    ----------
    problem : a task and any network

    Returns
    -------
    time : an estimate where no closed form applies

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> lr.landscape.horizon(problem)
    3.1
    """
    as_problem(problem)
    guess = _by_rates(problem)
    if problem.facts.method is None:
        return rounded_up(guess)
    times = guess * _GRID
    loss = solve(problem, np.concatenate([[0.0], times, [np.inf]])).loss
    left = np.abs(loss[:-1] - loss[-1])
    moving = np.flatnonzero(left > _LEFT * left.max())
    if not len(moving) or moving[-1] == len(times):
        return rounded_up(guess)
    return rounded_up(_SEEN * float(times[moving[-1]]))


def rounded_up(value: float) -> float:
    """To two digits."""
    digit = 10.0 ** (np.floor(np.log10(value)) - 1)
    return float(f"{np.ceil(value / digit) * digit:.6g}")


def _by_rates(problem: Problem) -> float:
    unit, L = problem.canonical, problem.network.depth
    s = np.linalg.svd(unit.target, compute_uv=False)
    s = s[s > 1e-12 * s[0]] if s[0] else np.ones(1)
    W = problem.network.linear_part
    a0 = max(float(np.linalg.norm(W)) / np.sqrt(min(W.shape)) * unit.gain, 1e-300)
    if L == 1:
        slowest = 1.0
    elif L == 2:
        slowest = np.max(np.log(np.maximum(s / a0, 1.0) + np.e) / (2 * s))
    elif not W.any():  # three layers or more: nothing ever moves
        slowest = np.max(1 / s)
    else:
        slowest = np.max(1 / ((L - 2) * s * np.minimum(a0, s) ** (1 - 2 / L)))
    return 5 * float(slowest) / unit.clock
