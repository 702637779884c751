"""`descend`: gradient descent, step by step, in a compiled loop; any depth, linear or not.

    W_ℓ ← W_ℓ − rate · η_ℓ (∂loss/∂W_ℓ + γ W_ℓ),    time = rate × steps

or with momentum β, which keeps M_ℓ ← β M_ℓ − (∂loss/∂W_ℓ + γ W_ℓ), by rate · η_ℓ M_ℓ (heavy ball), and Nesterov's by
rate · η_ℓ (β M_ℓ − ∂loss/∂W_ℓ − γ W_ℓ), as PyTorch's SGD does both.

With noise, ∂loss/∂W is that of a mini-batch, or of targets with noise, and weights move at random besides (`Noise`).

It is a batch of one (`batch.run`). Linear networks need the correlations of the task alone, nonlinear ones its samples,
and so do mini-batches and noise on labels.
"""

from __future__ import annotations

import numpy as np

from lazyrich import _check
from lazyrich.batch.api import as_stops, stepped
from lazyrich.problem import Problem, as_problem
from lazyrich.trajectory import Trajectory


def descend(
    problem: Problem,
    rate: float,
    steps: int,
    *,
    momentum: object = 0.0,
    nesterov: object = False,
    noise: object = None,
    seed: object = 0,
    record: object = ("weights",),
    at: object = None,
) -> Trajectory:
    """Gradient descent from the network's weights, in double precision; the times are rate × step.

    Where the loss overflows the run ends, and `traj.status` says at which step.

    Parameters
    ----------
    problem : a task and any network; a nonlinear one needs the samples of the task
    rate : learning rate, which the layer rates of the problem multiply
    steps : how many
    momentum : β, from 0 to below 1. Times are rate × steps all the same: the flow is ahead by 1/(1 − β)
    nesterov : whether momentum looks ahead
    noise : an `lr.Noise`: mini-batches, noise on labels, noise on weights; none, unless told
    seed : what it is drawn from, a whole number
    record : what to keep beside the loss (that of all samples, without noise), which always is: any of "weights",
        "function" (linear) and "gram" (linear, two layers)
    at : the steps to record, sorted, from 0 to `steps`; without it at most 501 evenly spaced ones

    Returns
    -------
    Trajectory : at the recorded steps up to the end of the run

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> lr.descend(problem, rate=0.1, steps=100, at=[0, 1, 100]).function.ravel().round(6)
    array([0.01    , 0.014376, 2.      ])
    """
    as_problem(problem)
    rates, steps = np.array([_check.positive("rate", rate)]), _check.count("steps", steps)
    (traj,) = stepped([problem], rates, as_stops(at, steps), record, momentum, nesterov, noise, [seed])
    if not len(traj.times):
        raise RuntimeError(f"descend reached none of the steps to record: {traj.status}.")
    return traj
