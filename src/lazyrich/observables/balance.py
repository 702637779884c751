"""Balance: what gradient flow conserves of neighbouring layers, and how it is spread over the neurons.

    D_ℓ = η_ℓ W_{ℓ+1}ᵀW_{ℓ+1} − η_{ℓ+1} W_ℓW_ℓᵀ          (η: layer rates; theory: section 0)

is conserved in linear networks. λ-balanced: D_ℓ = λI, zero-balanced: D_ℓ = 0. With ReLUs between the layers, leaky
or not, the diagonal is conserved: one number per hidden neuron, in two layers with one output

    δ_k = η_w a_k² − η_a‖w_k‖²                           (Kunin et al. 2024; theory: section 8),

δ > 0 upstream, δ < 0 downstream. Weight decay and steps of finite size make it drift; tanh conserves nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.observables._reading import as_hidden_layer
from lazyrich.problem import Problem
from lazyrich.trajectory import Trajectory, as_trajectory, observable


class NeuronCoordinates(NamedTuple):
    """Signed spherical coordinates of the hidden neurons: β_k = a_kw_k = μ_k β̂_k."""

    mu: Float[Array, "T h"]  # a‖w‖, with the sign of a
    direction: Float[Array, "T h in"]  # β̂ = w/‖w‖; zero where w is


def conserved(traj: Trajectory) -> list[Float[Array, "T h h"]]:
    """D_ℓ of each pair of neighbouring layers, ℓ = 1 … L−1; piecewise linear networks conserve its diagonal alone.

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.5]]]))
    >>> lr.observables.conserved(lr.solve(problem, [0.0, 1.0, 10.0]))[0].ravel().round(6)
    array([0.24, 0.24, 0.24])
    """
    problem = _conserving(as_trajectory(traj).problem, "conserved")
    return [
        below * np.swapaxes(B, 1, 2) @ B - above * A @ np.swapaxes(A, 1, 2)
        for (A, B), (below, above) in zip(_pairs(traj.weights), itertools.pairwise(problem.rates), strict=True)
    ]


@observable("pair", long_name="departure of neighbouring layers from λ-balance")
def balancedness(traj: Trajectory) -> Float[Array, "T pairs"]:
    """‖D_ℓ − λI‖/(η_ℓ‖W_{ℓ+1}‖² + η_{ℓ+1}‖W_ℓ‖²) (Frobenius), with the λ that fits best, tr D_ℓ/h: 0 where λ-balanced.

    >>> network = lr.inits.lambda_balanced(0, sizes=(3, 2, 4), lam=1.0, scale=0.5)
    >>> traj = lr.solve(lr.Problem(lr.Task.from_correlations(np.eye(4, 3)), network), [0.0, 5.0])
    >>> bool(lr.observables.balancedness(traj).max() < 1e-12)
    True
    """
    D, size = conserved(traj), _sizes(traj)
    lams = [np.trace(M, axis1=1, axis2=2)[:, None, None] / M.shape[1] for M in D]
    off = [np.linalg.norm(M - lam * np.eye(M.shape[1]), axis=(1, 2)) for M, lam in zip(D, lams, strict=True)]
    return np.stack(off, axis=1) / np.where(size > 0, size, 1.0)


@observable("neuron", long_name="balance δ of each hidden neuron")
def neuron_balance(traj: Trajectory, layer: int = 1) -> Float[Array, "T h"]:
    """δ_k = η_ℓ‖a_k‖² − η_{ℓ+1}‖w_k‖² of the neurons of hidden layer ℓ, with incoming weights w_k and outgoing a_k.

    Parameters
    ----------
    traj : of a linear or piecewise linear network
    layer : ℓ, from 1

    Returns
    -------
    array : (times, h)

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.5]]]))
    >>> lr.observables.neuron_balance(lr.solve(problem, [0.0, 10.0])).ravel().round(6)
    array([0.24, 0.24])
    """
    problem = _conserving(as_trajectory(traj).problem, "neuron_balance")
    layer = as_hidden_layer(problem, layer, "neuron_balance")
    W, a = (np.asarray(M) for M in traj.weights[layer - 1 : layer + 1])
    below, above = problem.rates[layer - 1 : layer + 1]
    return below * np.sum(a**2, axis=1) - above * np.sum(W**2, axis=2)


def neuron_coordinates(traj: Trajectory) -> NeuronCoordinates:
    """μ_k = a_k‖w_k‖ and β̂_k = w_k/‖w_k‖ of the hidden neurons of f(x) = aᵀσ(Wx): two layers, one output.

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0, 0.0]]), lr.Network([[[0.3, 0.4]], [[-2.0]]]))
    >>> mu, direction = lr.observables.neuron_coordinates(lr.solve(problem, [0.0]))
    >>> mu.round(6), direction.round(6)
    (array([[-1.]]), array([[[0.6, 0.8]]]))
    """
    network = as_trajectory(traj).problem.network
    if network.depth != 2 or network.sizes[-1] != 1:
        raise InvalidInput(
            f"neuron_coordinates belongs to two layers with one output, and this network is {network!r}."
        )
    W, a = (np.asarray(layer) for layer in traj.weights)
    length = np.linalg.norm(W, axis=2)
    return NeuronCoordinates(a[:, 0] * length, W / np.where(length > 0, length, 1.0)[:, :, None])


def _conserving(problem: Problem, wanted_by: str) -> Problem:
    if not problem.network.activation.homogeneous:
        raise InvalidInput(
            f"{wanted_by} belongs to linear and piecewise linear networks, and this one is tanh, which conserves none."
        )
    as_hidden_layer(problem, 1, wanted_by)
    return problem


def _pairs(weights: Sequence[Any]) -> list[tuple[Array, Array]]:
    return list(itertools.pairwise(np.asarray(W) for W in weights))


def _sizes(traj: Trajectory) -> Float[Array, "T pairs"]:
    """η_ℓ‖W_{ℓ+1}‖² + η_{ℓ+1}‖W_ℓ‖²."""
    rates = itertools.pairwise(traj.problem.rates)
    parts = [
        below * np.sum(B**2, axis=(1, 2)) + above * np.sum(A**2, axis=(1, 2))
        for (A, B), (below, above) in zip(_pairs(traj.weights), rates, strict=True)
    ]
    return np.stack(parts, axis=1)
