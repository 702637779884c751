"""The neural tangent kernel along a trajectory: distance, movement, norm, alignment with the task.

The kernels themselves are in `tangent_kernel`: factors and blocks, never the matrix of all samples and outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.observables.tangent_kernel import Comparison, Inputs, Kernel, KroneckerKernel, PiecewiseKernel
from lazyrich.trajectory import Trajectory, as_trajectory, observable

__all__ = [
    "Kernels",
    "kernel_alignment",
    "kernel_distance",
    "kernel_distances",
    "kernel_movement",
    "kernel_norm",
    "kernels",
]


_SMALL = 256  # inputs and outputs


class Kernels:
    """The kernels of a trajectory, one per time, each made when it is asked for."""

    def __init__(self, traj: Trajectory) -> None:
        network, task = traj.problem.network, traj.problem.task
        two, linear = network.depth == 2, network.activation == "linear"
        if not linear and (not two or network.activation == "tanh"):
            raise InvalidInput(
                "network must be linear, or have two layers with a ReLU or a leaky one between them, for its kernel to "
                f"have a formula, and it is {network!r}."
            )
        self._by_gram = two and linear and traj.knows("gram") and _gram_is_cheaper(traj)
        self._states: list[Any] = [traj.gram] if self._by_gram else traj.weights
        self._problem, self._inputs = traj.problem, Inputs.reduced(task) if linear else Inputs.of_samples(task)

    def __len__(self) -> int:
        return len(self._states[0])

    def __getitem__(self, index: int) -> Kernel:
        index = _check.index("index", index, len(self))
        state, activation = [np.asarray(part[index]) for part in self._states], self._problem.network.activation
        if self._by_gram:
            return self._of_gram(state[0])
        if activation == "linear":
            return self._of_layers(state)
        slope = 0.0 if activation == "relu" else float(activation)
        return PiecewiseKernel(self._inputs, *state, slope=slope, rates=self._problem.rates)

    def __iter__(self) -> Iterator[Kernel]:
        return (self[index] for index in range(len(self)))

    def _of_gram(self, gram: Float[Array, "n n"]) -> KroneckerKernel:
        d_in, (eta_1, eta_2), R = self._problem.task.d_in, self._problem.rates, self._inputs.R
        B = [eta_1 * gram[d_in:, d_in:], eta_2 * np.eye(self._problem.task.d_out)]
        return KroneckerKernel(self._inputs, B, [self._inputs.bare, R @ gram[:d_in, :d_in] @ R.T])

    def _of_layers(self, layers: list[Float[Array, "_ _"]]) -> KroneckerKernel:
        after, before = [np.eye(self._problem.task.d_out)], [self._inputs.R.T]  # W_{L:ℓ+1}, W_{ℓ−1:1}Rᵀ
        for lower, upper in zip(layers[:-1], layers[:0:-1], strict=True):
            after.insert(0, after[0] @ upper)
            before.append(lower @ before[-1])
        B = [eta * P @ P.T for eta, P in zip(self._problem.rates, after, strict=True)]
        return KroneckerKernel(self._inputs, B, [self._inputs.bare, *(Z.T @ Z for Z in before[1:])])


def _gram_is_cheaper(traj: Trajectory) -> bool:
    """The closed form gives QQᵀ for less than the weights, but many inputs and few hidden units make it large."""
    d_in, h, d_out = traj.problem.network.sizes
    small = d_in + d_out <= max(2 * h, _SMALL)
    return not traj.computed("weights") and (small or traj.computed("gram") or not traj.knows("weights"))


def kernels(traj: Trajectory) -> Kernels:
    """The tangent kernel at each time: kernels(traj)[i], or in a loop.

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01))
    >>> first, last = kernels(lr.solve(problem, [0.0, 1e4]))
    >>> first.matrix().shape, round(first.distance(last), 3)
    ((64, 64), 0.194)
    """
    return Kernels(as_trajectory(traj))


@observable(long_name="kernel distance 1 − cos(K, K_ref)")
def kernel_distance(traj: Trajectory, reference: int = 0) -> Float[Array, " T"]:
    """S = 1 − ⟨K, K_ref⟩/(‖K‖‖K_ref‖) from the kernel at one of the times, given by its index.

    From 0 to 1; 0 between kernels that are both zero, nan where one is.

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01))
    >>> kernel_distance(lr.solve(problem, [0.0, 60.0, 1e4])).round(3)
    array([0.   , 0.184, 0.194])
    """
    return _compared(traj, reference, lambda pair: pair.distance)


@observable(long_name="kernel movement ‖K − K_ref‖/max(‖K‖, ‖K_ref‖)")
def kernel_movement(traj: Trajectory, reference: int = 0) -> Float[Array, " T"]:
    """‖K − K_ref‖/max(‖K‖, ‖K_ref‖): how far the kernel has turned and grown together, from 0 to √2.

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=3.0))
    >>> kernel_movement(lr.solve(problem, [0.0, 1.0, 1e4])).round(3)
    array([0.   , 0.966, 0.985])
    """
    return _compared(traj, reference, lambda pair: pair.movement)


@observable(long_name="kernel norm ‖K‖")
def kernel_norm(traj: Trajectory) -> Float[Array, " T"]:
    """‖K‖, Frobenius; divided by the number of samples where the task holds correlations only.

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01))
    >>> kernel_norm(lr.solve(problem, [60.0, 1e4])).round(2)
    array([30.85, 30.86])
    """
    return np.array([K.norm for K in kernels(traj)])


@observable(long_name="kernel alignment yᵀKy/(‖K‖‖y‖²)")
def kernel_alignment(traj: Trajectory) -> Float[Array, " T"]:
    """⟨K, yyᵀ⟩/(‖K‖‖y‖²) with the targets y on all samples, from 0 to 1; nan where kernel or targets are zero.

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01))
    >>> kernel_alignment(lr.solve(problem, [0.0, 60.0, 1e4])).round(3)
    array([0.103, 0.152, 0.152])
    """
    return np.array([K.alignment for K in kernels(traj)])


def kernel_distances(traj: Trajectory) -> Float[Array, "T T"]:
    """Kernel distances between all pairs of times, to about 1e-15; `kernel_distance` resolves smaller ones.

    The factors of all kernels are held at once: per time about min(samples, inputs)² numbers and, for piecewise
    linear networks, twice the hidden activities.

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01))
    >>> kernel_distances(lr.solve(problem, [0.0, 60.0, 1e4])).round(3)
    array([[0.   , 0.184, 0.194],
           [0.184, 0.   , 0.018],
           [0.194, 0.018, 0.   ]])
    """
    many: list[Any] = list(kernels(traj))
    table = many[0].inner_table(many)
    norms = np.sqrt(np.diag(table))
    with np.errstate(invalid="ignore"):
        S = np.maximum(1 - table / np.outer(norms, norms), 0.0)
    S[np.ix_(norms == 0, norms == 0)] = 0.0
    np.fill_diagonal(S, 0.0)
    return S


def _compared(traj: Trajectory, reference: Any, read: Callable[[Comparison], float]) -> Float[Array, " T"]:
    many = kernels(traj)
    start = many[_check.index("reference", reference, len(many))]
    return np.array([read(start.compare(K)) for K in many])
