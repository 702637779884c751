"""`flow`: gradient flow, integrated; any depth, any inputs, layer rates, weight decay, linear or not.

It is a batch of one. Linear networks are integrated in the singular basis of their task (`batch.linear`), two layers
whatever their width and to any time (`gram`, `_stiff`), others by a stabilised method (`_rkc`), which takes long
horizons in few gradients and ends its steps at the times to record. What comes out has to descend (`batch.alarm`).
"""

from __future__ import annotations

from lazyrich.batch.api import finite_times, integrated
from lazyrich.problem import Problem, as_problem
from lazyrich.trajectory import Trajectory


def flow(
    problem: Problem,
    times: object,
    *,
    record: object = ("weights",),
    rtol: float | None = None,
    atol: float | None = None,
    max_steps: int = 1_000_000,
) -> Trajectory:
    """The gradient flow from t = 0 on, integrated adaptively in double precision.

    Parameters
    ----------
    problem : a task and any network; a nonlinear one needs the samples of the task
    times : not negative, sorted, finite. One that is given twice has the same bits twice; other times beside it may
        change what comes out within the tolerance, since the steps end at the last one
    record : what to keep: any of "weights", "function", "gram" (two layers), "loss"
    rtol, atol : bounds on the error of each step; rtol is at most 0.01. Of linear networks (rtol 1e-9) entry by entry
        in the basis of the task's modes, of others (rtol 1e-3) layer by layer. The loss is then within 10 rtol of the
        largest loss, or of others, by a method of second order, within 10 rtol^⅔, unless the initialisation is next to
        a saddle
    max_steps : the most that are taken (for nonlinear networks: gradients), give or take an eighth

    Returns
    -------
    Trajectory : at the times that were reached, and `.status` says what stopped it before the others: no steps left,
        or a loss that rises by more than the tolerance explains, as no gradient flow's does (with weight decay: loss
        and decay term)

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> lr.flow(problem, [0.0, 1.0, 10.0], record="function").function.ravel().round(6)
    array([0.01    , 0.430588, 2.      ])
    """
    as_problem(problem)
    (traj,) = integrated([problem], finite_times(times)[None], record, rtol, atol, max_steps)
    if not len(traj.times):
        raise RuntimeError(f"flow reached none of the times: {traj.status}.")
    return traj
