"""How much of each mode of the task the network has learned, and when it was half way.

With Σyx = U diag(s) Vᵀ, the strength of mode α at time t is u_αᵀ W(t) v_α. Where the inputs are white (Σxx = c·I),
it ends at s_α/c for a mode that is learned.
"""

from __future__ import annotations

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.observables._reading import linear
from lazyrich.trajectory import Trajectory, observable


@observable("mode", long_name="mode strength uᵀWv")
def mode_strengths(traj: Trajectory) -> Float[Array, "T m"]:
    """u_αᵀ W(t) v_α of every mode of the task, strongest mode first.

    >>> import lazyrich as lr
    >>> task = lr.tasks.semantic_hierarchy()
    >>> problem = lr.Problem(task, lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.01))
    >>> (mode_strengths(lr.solve(problem, [1e4])) / 8).round(4)  # Σxx = I/8
    array([[0.3889, 0.3712, 0.2583, 0.2562, 0.1803, 0.1797, 0.1793, 0.179 ]])
    """
    U, _, V = linear(traj, "mode_strengths").problem.task.modes
    return np.sum(U * (np.asarray(traj.function) @ V), axis=1)


def half_times(times: object, strengths: object, limit: object = None) -> Float[Array, " m"]:
    """When each mode was first half way from its start to its end, interpolated; nan if it never was.

    The end is `limit` where that is known, one number per mode, and otherwise the last of the strengths.

    >>> half_times([0.0, 1.0, 2.0], [[0.0, 0.0], [4.0, 0.0], [6.0, 0.0]])
    array([0.75,  nan])
    """
    t, a = _check.as_times(times), _check.as_matrix("strengths", strengths)
    if len(a) != len(t):
        raise InvalidInput(f"strengths must have one row per time ({len(t)}), and it has {len(a)}.")
    end = a[-1] if limit is None else _check.as_array("limit", limit, ndim=1)
    if end.shape != a.shape[1:]:
        raise InvalidInput(f"limit must hold one number per mode ({a.shape[1]}), and it has shape {end.shape}.")
    way = end - a[0]
    still = np.abs(way) <= 64 * np.finfo(np.float64).eps * max(np.abs(a).max(), np.abs(end).max())
    done = (a - a[0]) / np.where(still, np.inf, way)  # from 0 to 1; 0 throughout for a mode that rests
    halfway = np.full(a.shape[1], np.nan)
    for mode in np.flatnonzero((done >= 0.5).any(axis=0)):
        after = int(np.argmax(done[:, mode] >= 0.5))  # at least 1, since done starts at 0
        rise, pair = done[after - 1 : after + 1, mode], t[after - 1 : after + 1]
        halfway[mode] = pair[0] + (0.5 - rise[0]) / (rise[1] - rise[0]) * (pair[1] - pair[0])
    return halfway
