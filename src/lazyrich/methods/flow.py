"""`flow`: gradient flow, integrated; any depth, any inputs, layer rates, weight decay, linear or not.

It is a batch of one. Linear networks are integrated in the singular basis of their task (`batch.linear`), others by a
stabilised method (`_rkc`), which takes long horizons in few gradients and ends its steps at the times to record.
What comes out has to descend (`batch.alarm`).
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

    `record` names what to keep at the given times: any of "weights", "function", "gram" (two layers), "loss".
    `rtol`, at most 0.01, and `atol` bound the error of each step: of linear networks (rtol 1e-9) entry by entry in the
    basis of the task's modes, of others (rtol 1e-3) layer by layer. The loss is then within 10 rtol of the largest
    loss, or of others, by a method of second order, within 10 rtol^⅔, unless the start is next to a saddle.

    A time that is given twice has the same bits twice. Other times beside it may change what comes out within the
    tolerance: the steps end at the last one.

    A run that cannot go on, or not within `max_steps` (for nonlinear networks: gradients), give or take an eighth,
    keeps the times it reached, and `traj.status` says what stopped it. So does one whose loss rises, which no gradient
    flow's does (with weight decay: loss and decay term), by more than the tolerance explains.

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
