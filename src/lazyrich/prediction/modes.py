"""The modes that a prediction speaks of: singular vectors u, v, and uᵀWv along a trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lazyrich._progress import progress
from lazyrich._threads import SMALL, one_blas_thread
from lazyrich._typing import Array, Float
from lazyrich.alignment import align
from lazyrich.networks.network import forward
from lazyrich.problem import Problem
from lazyrich.trajectory import Trajectory


class Frames(NamedTuple):
    """The modes that a prediction speaks of, strongest first."""

    u: Float[Array, "out m"]
    v: Float[Array, "in m"]
    s: Float[Array, " m"]  # singular values: of Σyx, the correlation of outputs with inputs; see `Problem.pull`
    target: Float[Array, " m"]  # uᵀTv, what the best linear map has of each; of a nonlinear network or another loss s


def frames_of(problem: Problem, of: Float[Array, "out in"], layers: Sequence[Array] | None = None) -> Frames:
    """Singular vectors of a matrix; those of equal singular values turned towards the layers, or the initial ones."""
    task = problem.task
    fit = problem.alignment if layers is None else align(of, task.sigma_xx, layers)
    u, v = fit.U[:, : len(fit.s)], fit.V[:, : len(fit.s)]
    known = problem.network.activation.linear and problem.loss.squared
    return Frames(u, v, fit.s, np.sum(u * (task.target @ v), axis=0) if known else fit.s)


def in_frames(functions: Float[Array, "T out in"], frames: Frames) -> Float[Array, "T m"]:
    """uᵀW(t)v of each mode."""
    return np.asarray(np.sum(frames.u * (functions @ frames.v), axis=1))


def functions_of(traj: Trajectory) -> Float[Array, "T out in"]:
    """W at each time, or, of a nonlinear network, E[f xᵀ] as Σyx is E[y xᵀ].

    The linear map nearest to the network would divide that by the variance of the inputs, and inputs that hardly vary,
    of which neither network nor loss feels anything, would be all one sees.
    """
    task, network = traj.problem.task, traj.problem.network
    if network.activation.linear:
        return np.asarray(traj.function)
    X = task.inputs
    assert X is not None  # the flow has asked for samples
    share = 1 / len(X) if task.reduction == "mean" else 1.0
    found = np.empty((len(traj.times), task.d_out, task.d_in))
    with one_blas_thread(max(network.sizes) <= SMALL), progress(len(found), "modes") as advance:
        for E, *state in zip(found, *(np.asarray(W) for W in traj.weights), strict=True):
            *_, f = forward(state, network.activation, X)
            E[:] = share * f.T @ X
            advance(1)
    return found
