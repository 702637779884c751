"""Representations: Gram matrices of the weights, similarity of the samples in a hidden layer, and ranks.

With X and Y a sample per row, and M_ℓ = W_ℓ…W_1 and N_ℓ = W_L…W_{ℓ+1} the maps into and out of hidden layer ℓ,

    RSM_in = X M_ℓᵀM_ℓ Xᵀ,     RSM_out = Y (N_ℓN_ℓᵀ)⁺ Yᵀ

say how alike two samples are by the activity they cause, and by the least activity that would cause their targets
(theory: section 4; Braun et al. 2022). In two layers these are W1ᵀW1 and W2W2ᵀ in the frame of the samples. A task of
correlations alone has no samples: one item per input and one per output stand in for them, and the RSMs are then
M_ℓᵀM_ℓ and (N_ℓN_ℓᵀ)⁺. In a network that is not linear, RSM_in is that of the hidden activities, after the
activation.

The effective rank of the network function, or of one layer, is the exponential of the entropy of the singular
values, normalised to sum 1 (Roy & Vetterli 2007). It counts equal singular values, ignores scale, and is 0 where W = 0.

Exact trajectories of two linear layers are read through QQᵀ, which is cheap, and not through the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._observable import observable
from lazyrich._typing import Array, Float
from lazyrich.networks.network import forward, product
from lazyrich.observables._reading import as_hidden_layer, as_layer, linear, samples
from lazyrich.problem import needs_no_biases
from lazyrich.trajectory import Trajectory, as_trajectory


@observable("input", "input_", long_name="input Gram matrix W1ᵀW1")
def input_gram(traj: Trajectory) -> Float[Array, "T in in"]:
    """W_1ᵀW_1: how the inputs are laid out by the first layer of a network without biases.

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> lr.observables.input_gram(lr.solve(problem, [0.0, 10.0])).ravel().round(6)
    array([0.01, 2.  ])
    """
    needs_no_biases(as_trajectory(traj).problem.network, "input_gram")
    return traj.state.input_gram


@observable("output", "output_", long_name="output Gram matrix W2W2ᵀ")
def output_gram(traj: Trajectory) -> Float[Array, "T out out"]:
    """W_LW_Lᵀ: how the outputs are laid out by the last layer of a network without biases.

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> lr.observables.output_gram(lr.solve(problem, [0.0, 10.0])).ravel().round(6)
    array([0.01, 2.  ])
    """
    needs_no_biases(as_trajectory(traj).problem.network, "output_gram")
    return traj.state.output_gram


@observable("sample", "sample_", long_name="similarity of the samples in the hidden layer", items=("input", "input_"))
def rsm_in(traj: Trajectory, layer: int = 1) -> Float[Array, "T P P"]:
    """X M_ℓᵀM_ℓ Xᵀ: inner products of the hidden activities that the samples cause (M_ℓᵀM_ℓ of no samples).

    Parameters
    ----------
    traj : of any network
    layer : ℓ of a hidden layer, from 1

    Returns
    -------
    array : (times, samples, samples)

    >>> task = lr.tasks.semantic_hierarchy()
    >>> problem = lr.Problem(task, lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.01))
    >>> similarity = lr.observables.rsm_in(lr.solve(problem, [1e4]))[0]
    >>> [float(similarity[0, other].round(2)) for other in (0, 1, 2, 4)]  # itself, a sibling, cousins
    [2.0, 0.56, 0.24, 0.02]
    """
    layer = as_hidden_layer(as_trajectory(traj).problem, layer, "rsm_in")
    return np.stack([H @ H.T for H in features(traj, layer, "rsm_in")])


@observable(
    "sample",
    "sample_",
    long_name="similarity of the samples in the hidden layer, from their targets",
    items=("output", "output_"),
)
def rsm_out(traj: Trajectory, layer: int = 1, cutoff: float = 1e-6) -> Float[Array, "T P P"]:
    """Y (N_ℓN_ℓᵀ)⁺ Yᵀ: inner products of the least hidden activities that cause the targets ((N_ℓN_ℓᵀ)⁺ of no samples).

    The measure is blind to the scale of the weights: tiny random weights have a large
    RSM, of size ‖Y‖²/‖W2‖², with all directions in it, and modes leave it while others outgrow them by 1/cutoff.
    From QQᵀ, singular values are known to 1e-8 of the largest: less is no cut-off, and digits are lost as
    1e-16/(relative singular value)².

    Parameters
    ----------
    traj : of a linear network
    layer : ℓ of a hidden layer, from 1
    cutoff : of the largest singular value of N_ℓ (in two layers W2): directions below it count as not there

    Returns
    -------
    array : (times, samples, samples)

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    >>> lr.observables.rsm_out(lr.solve(problem, [0.0, 10.0])).ravel().round(6)
    array([100. ,   0.5])
    """
    problem = linear(traj, "rsm_out").problem
    needs_no_biases(problem.network, "rsm_out")
    layer = as_hidden_layer(problem, layer, "rsm_out")
    cutoff = _check.positive("cutoff", cutoff)
    Y = np.eye(problem.task.d_out) if problem.task.targets is None else problem.task.targets
    similar = []
    for N in outward(traj, layer):
        left, s, _ = np.linalg.svd(N, full_matrices=False)
        seen = s > cutoff * s[0]
        H = Y @ (left[:, seen] / s[seen])
        similar.append(H @ H.T)
    return np.stack(similar)


@observable(long_name="effective rank of the network function")
def effective_rank(traj: Trajectory, layer: int | None = None) -> Float[Array, " T"]:
    """exp(−Σ p ln p) with p = σ/Σσ, over the singular values of W, or of W_ℓ for `layer` = ℓ; 0 where all are 0.

    Parameters
    ----------
    traj : of a linear network, or of any with `layer`
    layer : ℓ of a weight matrix W_ℓ; without it the network function

    Returns
    -------
    array : one number per time

    >>> network = lr.inits.zero_balanced(3, sizes=(2, 4, 2), scale=0.5)
    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0, 0.0], [0.0, 2.0]]), network)
    >>> lr.observables.effective_rank(lr.solve(problem, [0.0, 100.0])).round(6)
    array([1.296572, 2.      ])
    """
    return effective_rank_of(_singular_values(traj, layer, "effective_rank"))


@observable(long_name="stable rank of the network function")
def stable_rank(traj: Trajectory, layer: int | None = None) -> Float[Array, " T"]:
    """Σσ²/max σ² over the singular values of W, or of W_ℓ for `layer` = ℓ; 0 where all are 0.

    Parameters and returns are those of `effective_rank`.

    >>> network = lr.inits.zero_balanced(3, sizes=(2, 4, 2), scale=0.5)
    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0, 0.0], [0.0, 1.0]]), network)
    >>> lr.observables.stable_rank(lr.solve(problem, [100.0])).round(6)
    array([1.25])
    """
    s = _singular_values(traj, layer, "stable_rank")
    relative = s / np.where(s[:, :1] > 0, s[:, :1], 1.0)  # squares of what is tiny would be zero
    return np.sum(relative**2, axis=1)


def _singular_values(traj: Trajectory, layer: int | None, wanted_by: str) -> Float[Array, "T m"]:
    network = as_trajectory(traj).problem.network
    if layer is None and not network.activation.linear:
        raise InvalidInput(
            f"{wanted_by} of the network function belongs to linear networks, and this one is {network.kind}: "
            "try layer=1, for W1."
        )
    W = traj.function if layer is None else network.free(traj.weights)[as_layer(traj.problem, layer) - 1]
    return np.linalg.svd(np.asarray(W), compute_uv=False)


def effective_rank_of(singular_values: Float[Array, "*batch m"]) -> Any:
    """The same of singular values that are known.

    >>> effective_rank_of(np.array([[2.0, 2.0], [2.0, 0.0]]))
    array([2., 1.])
    """
    total = np.sum(singular_values, axis=-1, keepdims=True)
    p = singular_values / np.where(total > 0, total, 1.0)
    entropy = -np.sum(p * np.log(np.where(p > 0, p, 1.0)), axis=-1)
    return np.where(total[..., 0] > 0, np.exp(entropy), 0.0)


def features(traj: Trajectory, layer: int, wanted_by: str) -> Iterator[Float[Array, "P h"]]:
    """The activity of hidden layer ℓ, a sample per row, at one time after the other.

    From QQᵀ the hidden units are known up to a rotation, which no similarity of samples sees.
    """
    problem = traj.problem
    X = samples(problem, wanted_by)
    state = traj.state
    if state.weights is None:
        yield from (X @ _root(G) for G in state.input_gram)
    else:
        for layers in state.layers():
            H = next(islice(forward(layers, problem.network.activation, X), layer - 1, None))
            yield H[:, : H.shape[1] - problem.network.biased]  # without the constant unit of biases


def outward(traj: Trajectory, layer: int) -> Iterator[Float[Array, "out h"]]:
    """N_ℓ at one time after the other; from QQᵀ, up to a rotation of the hidden units."""
    state = traj.state
    if state.weights is None:
        return (_root(G) for G in state.output_gram)
    return iter(product(state.weights[layer:]))


def _root(G: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """R with RRᵀ = G."""
    values, vectors = np.linalg.eigh(G)
    rounding = len(G) * np.finfo(np.float64).eps * values[-1]  # the root of it would be no rounding any more
    return vectors * np.sqrt(np.where(values > rounding, values, 0.0))
