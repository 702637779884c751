"""How gradient descent leaves the balance that gradient flow keeps: by its steps, and by what is random in them.

With g_ℓ = −∂loss/∂W_ℓ of what a step sees (a mini-batch, targets with noise), the step h takes

    D_ℓ = W_{ℓ+1}ᵀW_{ℓ+1}/η_{ℓ+1} − W_ℓW_ℓᵀ/η_ℓ     to     D_ℓ + h² (η_{ℓ+1} g_{ℓ+1}ᵀg_{ℓ+1} − η_ℓ g_ℓg_ℓᵀ),

exactly: what is linear in h cancels in every draw, for W_{ℓ+1}ᵀg_{ℓ+1} = g_ℓW_ℓᵀ whatever the samples and targets are.
So the mean drift is that of the full gradient, and the covariance of g besides. Noise σ √(hη_ℓ) ξ on the weights adds
hσ² (outputs of W_{ℓ+1} − inputs of W_ℓ) I.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.losses import Own
from lazyrich.noise import Noise, as_noise
from lazyrich.problem import Problem
from lazyrich.trajectory import Trajectory, as_trajectory
from lazyrich.velocity import velocity


class Squares(NamedTuple):
    """Means over the draws of one step, of the gradient g of one layer."""

    inner: Float[Array, "in in"]  # gᵀg
    outer: Float[Array, "out out"]  # ggᵀ


def balance_drift(traj: Trajectory, rate: float, noise: Noise | None = None) -> Float[Array, "T pairs"]:
    """How far gradient descent at this rate takes the layers off the balance that the flow keeps, as predicted from it.

    Parameters
    ----------
    traj : with weights of linear layers, from t = 0 on, at times as close as things happen
    rate : of gradient descent
    noise : of its steps, as in `lr.descend`; then it is the mean over the draws that is predicted

    Returns
    -------
    array : ‖D_ℓ(t) − D_ℓ(0)‖ at each time, one column per pair of layers; `expected_drift` has the matrices

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.2]]]))
    >>> rate, traj = 0.01, lr.solve(problem, np.linspace(0, 5, 501))
    >>> run = lr.descend(problem, rate=rate, steps=500, at=[500])
    >>> seen = abs((run.weights[1] ** 2 - run.weights[0] ** 2).item() - 0.03)
    >>> round(float(balance_drift(traj, rate)[-1, 0]), 5), round(seen, 5)
    (0.00105, 0.00104)
    """
    return np.stack([np.linalg.norm(D, axis=(1, 2)) for D in expected_drift(traj, rate, noise)], axis=1)


def expected_drift(traj: Trajectory, rate: float, noise: Noise | None = None) -> list[Float[Array, "T h h"]]:
    """The mean of D_ℓ(t) − D_ℓ(0) over the draws of gradient descent, as predicted from the flow.

    What is random enters by the covariance of the gradient, with the weights where the flow has them. This is the first
    order in the rate: weights that have strayed from the flow are not seen. It fails after the flow is at rest, over
    times of order 1/rate, in which noise takes the weights along the minima.

    Parameters
    ----------
    traj : with weights of linear layers, from t = 0 on, at times as close as things happen
    rate : of gradient descent, without momentum
    noise : of its steps, as in `lr.descend`

    Returns
    -------
    list of arrays : h × h at each time, one per pair of layers; of layers with biases, the units that are not constant

    >>> task = lr.Task.from_data([[1.0], [1.0]], [[1.0], [3.0]])  # two targets for one input
    >>> problem = lr.Problem(task, lr.Network([[[1.0]], [[2.0]]]))  # at rest, in the mean
    >>> (drift,) = expected_drift(lr.flow(problem, [0.0, 10.0]), 0.01, lr.Noise(batch=1))
    >>> drift.ravel().round(3)  # rate · t · (W1² − W2²): the larger layer loses
    array([ 0. , -0.3])
    """
    problem, noise = as_trajectory(traj).problem, Noise() if noise is None else as_noise(noise)
    rate = _check.positive("rate", rate)
    _check_problem(problem, noise)
    if traj.momentum:
        raise InvalidInput(
            f"traj must be of the flow, or of descent without momentum, and it has the momentum {traj.momentum:g}: try "
            "lr.flow."
        )
    times, again = np.unique(np.asarray(traj.times), return_inverse=True)
    if times[0] > 0 or np.isinf(times[-1]):
        raise InvalidInput(
            "traj must go from t = 0, where the drift begins, to a finite time, and its times go from "
            f"{times[0]:g} to {times[-1]:g}: try np.linspace(0, end, 501)."
        )
    from scipy.integrate import cumulative_simpson  # here: it is slow to load

    first_of = np.unique(again, return_index=True)[1]
    at_each = [_squares(problem, [W[i] for W in traj.weights], noise) for i in first_of]
    drifts = []
    for i, (below, above) in enumerate(pairwise(problem.rates)):
        first, second = problem.network.weights[i : i + 2]
        free = slice(None, len(first) - problem.network.biased)
        pace = np.array([above * now[i + 1].inner - below * now[i].outer for now in at_each])[:, free, free]
        drift = rate * cumulative_simpson(pace, x=times, axis=0, initial=0.0)
        rows = len(second) - (problem.network.biased and i + 2 < problem.network.depth)
        kicked = noise.weights**2 * (rows - first.shape[1]) * times
        drifts.append((drift + kicked[:, None, None] * np.eye(pace.shape[-1]))[again])
    return drifts


def _check_problem(problem: Problem, noise: Noise) -> None:
    if problem.network.depth < 2:
        raise InvalidInput("traj must be of two layers or more, between which there is a balance, and it is of one.")
    if not problem.network.activation.linear or problem.weight_decay:
        raise InvalidInput(
            "traj must be of a linear network without weight decay, whose flow keeps the balance, and it is of "
            f"{problem.network.architecture} with weight decay {problem.weight_decay:g}."
        )
    if noise.labels and isinstance(problem.loss, Own):
        raise InvalidInput(
            "noise must leave the labels alone where the loss is a function of one's own, whose gradient may go with "
            f"them in any way, and noise on labels is {noise.labels:g}."
        )
    noise.check(problem.task, 0)


def _squares(problem: Problem, weights: list[Array], noise: Noise) -> list[Squares]:
    """Of every layer, at these weights."""
    moved = velocity(problem, weights)
    mean = [Squares(V.T @ V / eta**2, V @ V.T / eta**2) for V, eta in zip(moved, problem.rates, strict=True)]
    if noise.kind is None or not noise.kind.on_samples:
        return mean
    X, Y = problem.task.inputs, problem.task.targets
    assert X is not None and Y is not None
    below = [X]
    for W in weights[:-1]:
        below.append(below[-1] @ W.T)
    back = _backwards(problem, weights, problem.loss.pull(below[-1] @ weights[-1].T, Y))
    unit = _backwards(problem, weights, np.eye(Y.shape[1]))
    n = len(X)
    whole = float(n) if problem.task.reduction == "sum" else 1.0  # of the mean gradient of a sample
    of_labels = noise.labels**2 / (noise.batch or n)
    found = []
    for known, h, e, J in zip(mean, below, back, unit, strict=True):
        size_h, size_e = np.sum(h**2, axis=1), np.sum(e**2, axis=1)
        inner = noise.spread(n) * (whole**2 * (h.T * size_e) @ h / n - known.inner)
        outer = noise.spread(n) * (whole**2 * (e.T * size_h) @ e / n - known.outer)
        inner += of_labels * whole**2 * np.sum(J**2) * (h.T @ h) / n
        outer += of_labels * whole**2 * size_h.mean() * (J.T @ J)
        found.append(Squares(known.inner + inner, known.outer + outer))
    return found


def _backwards(problem: Problem, weights: list[Array], at_outputs: Float[Array, "P out"]) -> list[Array]:
    """What comes back to the outputs of every layer, a sample per row; nothing to what makes the constant of biases."""
    back = [at_outputs]
    for W in weights[:0:-1]:
        back.insert(0, back[0] @ W)
    if problem.network.biased:
        back[:-1] = [e * (np.arange(e.shape[1]) < e.shape[1] - 1) for e in back[:-1]]
    return back
