"""Balance: what gradient flow conserves of neighbouring layers, and how it is spread over the neurons.

    D_ℓ = η_ℓ W_{ℓ+1}ᵀW_{ℓ+1} − η_{ℓ+1} W_ℓW_ℓᵀ          (η: layer rates; theory: section 0)

is conserved in linear networks. λ-balanced: D_ℓ = λI, zero-balanced: D_ℓ = 0. With ReLUs between the layers, leaky
or not, the diagonal is conserved: one number per hidden neuron, in two layers with one output

    δ_k = η_w a_k² − η_a‖w_k‖²                           (Kunin et al. 2024; theory: section 8),

δ > 0 upstream, δ < 0 downstream. Weight decay and steps of finite size make it drift; tanh conserves nothing. Biases
count among the weights into a layer, and the constant unit that they come from is none of its neurons.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._observable import observable
from lazyrich._typing import Array, Float
from lazyrich.networks.biases import meeting
from lazyrich.observables._reading import as_hidden_layer
from lazyrich.problem import Problem, as_problem, needs_no_biases
from lazyrich.trajectory import Trajectory, as_trajectory


class NeuronCoordinates(NamedTuple):
    """Signed spherical coordinates of the hidden neurons: β_k = a_kw_k = μ_k β̂_k."""

    mu: Float[Array, "T h"]  # a‖w‖, with the sign of a
    direction: Float[Array, "T h in"]  # β̂ = w/‖w‖; zero where w is


@dataclass(frozen=True)
class BalanceDistribution:
    """How δ is spread over the hidden neurons; relative to η_w‖a‖² + η_a‖w‖² it lies between −1 and 1."""

    neurons: int
    quantiles: Float[Array, " 5"]  # of δ: least, lower quartile, median, upper quartile, largest
    relative_quantiles: Float[Array, " 5"]  # the same of δ relative to the neuron's size
    upstream: float  # fraction of neurons with relative δ above the tolerance
    balanced: float
    downstream: float  # … below minus the tolerance
    tolerance: float

    def __str__(self) -> str:
        kinds = f"{self.upstream:.1%} upstream, {self.balanced:.1%} balanced, {self.downstream:.1%} downstream"
        rows = {"δ": self.quantiles, "δ / size": self.relative_quantiles}
        return "\n".join(
            [
                f"{self.neurons} neurons: {kinds} (balanced: within {self.tolerance:g} of their size)",
                f"{'':<14}{'least':>10}  {'quarter':>10}  {'half':>10}  {'quarter':>10}  {'largest':>10}",
                *(f"{name:<14}" + "  ".join(f"{x:10.4g}" for x in values) for name, values in rows.items()),
            ]
        )


def conserved(traj: Trajectory) -> list[Float[Array, "T h h"]]:
    """D_ℓ of each pair of neighbouring layers, ℓ = 1 … L−1; piecewise linear networks conserve its diagonal alone.

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.5]]]))
    >>> lr.observables.conserved(lr.solve(problem, [0.0, 1.0, 10.0]))[0].ravel().round(6)
    array([0.24, 0.24, 0.24])
    """
    problem = _conserving(as_trajectory(traj).problem, "conserved")
    return [
        below * np.swapaxes(B, 1, 2) @ B - above * A @ np.swapaxes(A, 1, 2)
        for (A, B), (below, above) in zip(_pairs(traj), itertools.pairwise(problem.rates), strict=True)
    ]


@observable("pair", long_name="departure of neighbouring layers from λ-balance")
def balancedness(traj: Trajectory, lam: float | None = None) -> Float[Array, "T pairs"]:
    """‖D_ℓ − λI‖/(η_ℓ‖W_{ℓ+1}‖² + η_{ℓ+1}‖W_ℓ‖²) (Frobenius): 0 where λ-balanced, at most 1 for λ = 0.

    Parameters
    ----------
    traj : of a linear or piecewise linear network
    lam : λ; without it the one that fits best, tr D_ℓ/h

    Returns
    -------
    array : (times, pairs of layers)

    >>> network = lr.inits.lambda_balanced(0, sizes=(3, 2, 4), lam=1.0, scale=0.5)
    >>> traj = lr.solve(lr.Problem(lr.Task.from_correlations(np.eye(4, 3)), network), [0.0, 5.0])
    >>> bool(lr.observables.balancedness(traj).max() < 1e-12)
    True
    """
    lam = None if lam is None else _check.number("lam", lam)
    D, size = conserved(traj), _sizes(traj)
    lams = [np.trace(M, axis1=1, axis2=2)[:, None, None] / M.shape[1] if lam is None else lam for M in D]
    off = [np.linalg.norm(M - own * np.eye(M.shape[1]), axis=(1, 2)) for M, own in zip(D, lams, strict=True)]
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
    out, into = _outgoing_and_incoming(problem, traj.weights, layer)
    return out - into


def neuron_balance_distribution(problem: Problem, layer: int = 1, tolerance: float = 0.1) -> BalanceDistribution:
    """How δ is spread over the neurons of hidden layer ℓ at initialisation; gradient flow keeps it.

    Parameters
    ----------
    problem : a linear or piecewise linear network and its task
    layer : ℓ, from 1
    tolerance : neurons whose |δ| is within this fraction of their size count as balanced

    Returns
    -------
    BalanceDistribution : quantiles of δ, and fractions of upstream, balanced and downstream neurons

    >>> network = lr.Network([[[0.1], [0.3], [0.2], [0.0]], [[0.5, 0.3, 0.01, 0.1]]])
    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), network)
    >>> print(lr.observables.neuron_balance_distribution(problem))
    4 neurons: 50.0% upstream, 25.0% balanced, 25.0% downstream (balanced: within 0.1 of their size)
                       least     quarter        half     quarter     largest
    δ                -0.0399   -0.009975       0.005      0.0675        0.24
    δ / size          -0.995     -0.2488      0.4615      0.9423           1
    """
    _conserving(as_problem(problem), "neuron_balance_distribution")
    layer = as_hidden_layer(problem, layer, "neuron_balance_distribution")
    tolerance = _check.positive("tolerance", tolerance, or_zero=True)
    out, into = _outgoing_and_incoming(problem, problem.network.weights, layer)
    size, quarters = out + into, np.linspace(0, 1, 5)
    relative = (out - into) / np.where(size > 0, size, 1.0)  # a dead neuron is balanced
    return BalanceDistribution(
        neurons=len(size),
        quantiles=np.quantile(out - into, quarters),
        relative_quantiles=np.quantile(relative, quarters),
        upstream=float(np.mean(relative > tolerance)),
        balanced=float(np.mean(np.abs(relative) <= tolerance)),
        downstream=float(np.mean(relative < -tolerance)),
        tolerance=tolerance,
    )


def neuron_coordinates(traj: Trajectory) -> NeuronCoordinates:
    """μ_k = a_k‖w_k‖ and β̂_k = w_k/‖w_k‖ of the hidden neurons of f(x) = aᵀσ(Wx): two layers, one output.

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0, 0.0]]), lr.Network([[[0.3, 0.4]], [[-2.0]]]))
    >>> mu, direction = lr.observables.neuron_coordinates(lr.solve(problem, [0.0]))
    >>> mu.round(6), direction.round(6)
    (array([[-1.]]), array([[[0.6, 0.8]]]))
    """
    network = as_trajectory(traj).problem.network
    needs_no_biases(network, "neuron_coordinates")
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


def _outgoing_and_incoming(problem: Problem, weights: Sequence[Any], layer: int) -> tuple[Array, Array]:
    """η_ℓ‖a_k‖² and η_{ℓ+1}‖w_k‖² of every neuron, of one set of weights or of many at once."""
    W, a = meeting([np.asarray(M) for M in weights], problem.network.biased)[layer - 1]
    below, above = problem.rates[layer - 1 : layer + 1]
    return below * np.sum(a**2, axis=-2), above * np.sum(W**2, axis=-1)


def _pairs(traj: Trajectory) -> list[tuple[Array, Array]]:
    return meeting([np.asarray(W) for W in traj.weights], traj.problem.network.biased)


def _sizes(traj: Trajectory) -> Float[Array, "T pairs"]:
    """η_ℓ‖W_{ℓ+1}‖² + η_{ℓ+1}‖W_ℓ‖²."""
    rates = itertools.pairwise(traj.problem.rates)
    parts = [
        below * np.sum(B**2, axis=(1, 2)) + above * np.sum(A**2, axis=(1, 2))
        for (A, B), (below, above) in zip(_pairs(traj), rates, strict=True)
    ]
    return np.stack(parts, axis=1)
