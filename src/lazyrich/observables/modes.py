"""How much of each mode of the task the network has learned, and when it was half way.

With Σyx = U diag(s) Vᵀ, the strength of mode α at time t is u_αᵀ W(t) v_α. Where the inputs are white (Σxx = c·I),
it ends at s_α/c for a mode that is learned.
"""

from __future__ import annotations

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._observable import observable
from lazyrich._typing import Array, Float
from lazyrich.observables._reading import linear
from lazyrich.observables.crossings import STILL
from lazyrich.trajectory import Trajectory


@observable("mode", long_name="mode strength uᵀWv")
def mode_strengths(traj: Trajectory) -> Float[Array, "T m"]:
    """u_αᵀ W(t) v_α of every mode of the task, strongest mode first.

    Modes are those of Σyx, whatever the loss. `predict` counts by them with the squared loss alone: with another it
    goes by those of `problem.pull`, and `prediction.strengths_of(traj)` has their strengths.

    >>> task = lr.tasks.semantic_hierarchy()
    >>> problem = lr.Problem(task, lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.01))
    >>> (lr.observables.mode_strengths(lr.solve(problem, [1e4])) / 8).round(4)  # Σxx = I/8
    array([[0.3889, 0.3712, 0.2583, 0.2562, 0.1803, 0.1797, 0.1793, 0.179 ]])
    """
    U, _, V = linear(traj, "mode_strengths").problem.task.modes
    return np.sum(U * (np.asarray(traj.function) @ V), axis=1)


def half_times(times: object, strengths: object, limit: object = None) -> Float[Array, " m"]:
    """When each mode is first half way from its initial strength to its limit.

    Parameters
    ----------
    times : when the strengths were recorded
    strengths : one row per time, one column per mode, as `mode_strengths` gives them
    limit : where each mode ends, if that is known; otherwise the last of its strengths

    Returns
    -------
    array : one time per mode, interpolated between records; nan where it is never half way, or moves by less
        than 1e-9 of the largest strength

    >>> lr.observables.half_times([0.0, 1.0, 3.0], [[0.0, 2.0], [1.0, 2.0], [3.0, 2.0]], limit=[4.0, 2.0])
    array([ 2., nan])
    """
    t, a = _check.as_times(times), _check.as_matrix("strengths", strengths)
    if len(a) != len(t):
        raise InvalidInput(f"strengths must have one row per time ({len(t)}), and it has {len(a)}.")
    end = a[-1] if limit is None else _check.as_array("limit", limit, ndim=1)
    if end.shape != a.shape[1:]:
        raise InvalidInput(f"limit must hold one number per mode ({a.shape[1]}), and it has shape {end.shape}.")
    return half_way(t, a, end)


@np.errstate(divide="ignore", invalid="ignore")  # what is never reached has no neighbours
def half_way(
    times: Float[Array, " T"], strengths: Float[Array, "T m"], limit: Float[Array, " m"]
) -> Float[Array, " m"]:
    """`half_times`, unchecked: t as a monotone cubic of the share of the way done, with the slopes of Fritsch and
    Butland, between the two records around one half and with the say of their neighbours."""
    way = limit - strengths[0]
    scale = max(float(np.abs(strengths).max()), float(np.abs(limit).max()))
    done = (strengths - strengths[0]) / np.where(np.abs(way) > STILL * scale, way, np.inf)
    after = np.argmax(done >= 0.5, axis=0)
    near = np.clip(after + np.arange(-2, 2)[:, None], 0, len(times) - 1)
    x, t = np.take_along_axis(done, near, axis=0), times[near]
    x[0], x[3] = np.minimum(x[0], x[1]), np.maximum(x[2], x[3])  # a neighbour that the mode comes back from has no say
    h = np.diff(x, axis=0)
    secant = np.diff(t, axis=0) / h
    secant = np.where(h > 0, secant, secant[1])  # what does not rise, or lies beyond the ends, has no say
    slope = 3 * (h[:-1] + h[1:]) / ((h[:-1] + 2 * h[1:]) / secant[:-1] + (2 * h[:-1] + h[1:]) / secant[1:])
    u = (0.5 - x[1]) / h[1]
    cubic = slope[0] * (1 - u) ** 2 + secant[1] * u * (3 - 2 * u) - slope[1] * u * (1 - u)
    return np.where(after > 0, t[1] + h[1] * u * cubic, np.nan)
