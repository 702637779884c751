"""The neural tangent kernel along a trajectory: distance, movement, norm, alignment with the task.

The kernels themselves are in `algebra`: factors and blocks, never the matrix of all samples and outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import numpy as np

from lazyrich import _check
from lazyrich._observable import observable
from lazyrich._progress import progress
from lazyrich._threads import SMALL, one_blas_thread
from lazyrich._typing import Array, Float
from lazyrich.methods.base import FOREVER
from lazyrich.networks import Network
from lazyrich.observables.kernels.algebra import Comparison, Inputs, Kernel, KroneckerKernel
from lazyrich.observables.kernels.layered import LayeredKernel
from lazyrich.observables.kernels.piecewise import PiecewiseKernel
from lazyrich.state import State
from lazyrich.trajectory import Trajectory, as_trajectory

_SMALL = 256  # inputs and outputs
_STACK = 2**17  # entries of each factor in a stack of kernels: they stay in the cache
_HELD = 2**21  # entries of each factor that are evaluated at a time


def has_kernel(network: Network) -> bool:
    """Whether the tangent kernel has factors that are quick to compare: others are read block by block."""
    return network.activation.linear or (network.depth == 2 and network.activation.homogeneous)


class Kernels:
    """The kernels of a trajectory, one per time, each made when it is asked for."""

    def __init__(self, traj: Trajectory) -> None:
        network, task = traj.problem.network, traj.problem.task
        linear = network.activation.linear
        self._traj = traj
        self._clock: Array | None = None  # other times than those of the trajectory
        with one_blas_thread(max(network.sizes) <= SMALL):
            self._inputs = Inputs.reduced(task) if linear else Inputs.of_samples(task)

    def at(self, times: Float[Array, " T"]) -> Kernels:
        """Those of an exact trajectory at any times; it is evaluated when they are asked for, as all may be large."""
        other = copy(self)
        other._clock = np.minimum(times, FOREVER)
        return other

    def some(self, places: Array) -> Kernels:
        """Those of some of the records."""
        other = copy(self)
        other._traj = self._traj.at(np.asarray(self._traj.times)[places])
        return other

    def initial(self) -> Kernel:
        """That of the initialisation, whether or not it was recorded."""
        network = self._traj.problem.network
        return self._made(State(network.sizes, weights=tuple(W[None] for W in network.weights)), 0)

    def __len__(self) -> int:
        return len(self._traj.times if self._clock is None else self._clock)

    def __getitem__(self, index: int) -> Kernel:
        index = _check.index("index", index, len(self))
        return self._made(self._state(slice(index, index + 1)), 0)

    def __iter__(self) -> Iterator[Kernel]:
        return (self[index] for index in range(len(self)))

    def each(self, read: Callable[[Any], Any]) -> Float[Array, " T"]:
        """One number of each kernel; `read` gets a kernel, or a stack of them, and gives a number for each."""
        numbers = np.empty(len(self))
        for some, stack in self._stacks():
            with one_blas_thread():  # by blocks in the cache
                numbers[some] = read(stack)
        return numbers

    def compared_with(
        self, reference: Kernel, look: Callable[[slice, State], None] = lambda some, state: None
    ) -> Comparison:
        """Each kernel with the same other one; `look` is shown the layers they are made of, which cost more."""
        numbers = np.empty((len(Comparison._fields), len(self)))
        for some, stack in self._stacks(look):
            with one_blas_thread():
                pair = reference.compare(stack)
            for row, number in zip(numbers, pair, strict=True):
                row[some] = number
        return Comparison(*numbers)

    def _stacks(
        self, look: Callable[[slice, State], None] = lambda some, state: None
    ) -> Iterator[tuple[slice, Kernel]]:
        """As many kernels at a time as stay in the cache; one where it fills the cache, or has no stacks. They are
        evaluated many at a time, for the sake of all cores."""
        network = self._traj.problem.network
        entries = max(network.sizes) * max(network.sizes[0], network.sizes[-1])  # of the largest factor
        step = max(1, _STACK // entries) if network.activation.linear else 1
        many = step * max(1, _HELD // (step * entries))
        with progress(len(self), "tangent kernels") as advance:
            for start in range(0, len(self), many):
                held = self._state(slice(start, start + many))
                look(slice(start, start + many), held)
                for first in range(start, min(start + many, len(self)), step):
                    with one_blas_thread():
                        stack = self._made(held.some(slice(first - start, first - start + step)), slice(None))
                    yield slice(first, first + step), stack
                    advance(step)

    def _state(self, some: slice) -> State:
        """The layers at some of the times."""
        traj, solution = self._traj, self._traj.solution
        if solution is None or self._clock is None:
            return traj.state.some(some)
        sizes = traj.problem.network.sizes
        if solution.gives_gram:
            return State(sizes, gram=solution.gram(self._clock[some]))
        return State(sizes, weights=tuple(solution.weights(self._clock[some])))

    def _made(self, state: State, which: int | slice) -> Kernel:
        """One kernel, or a stack of them."""
        network = self._traj.problem.network
        activation, trained = network.activation, network.sizes[1] - network.biased
        if state.weights is None:
            return self._of_gram(state.gram[which])
        layers = [W[which] for W in state.weights]
        if activation.linear:
            return self._of_layers(layers)
        layers, rates = [W.reshape(W.shape[-2:]) for W in layers], self._traj.problem.rates
        if activation.gamma is None or network.depth != 2:
            return LayeredKernel(self._inputs, layers, activation=activation, rates=rates, biased=network.biased)
        W1, W2 = layers
        return PiecewiseKernel(self._inputs, W1, W2, gamma=activation.gamma, rates=rates, trained=trained)

    def _of_gram(self, gram: Float[Array, "... n n"]) -> KroneckerKernel:
        problem, R = self._traj.problem, self._inputs.R
        d_in, (eta_1, eta_2) = problem.task.d_in, problem.rates
        B = [eta_1 * gram[..., d_in:, d_in:], eta_2 * np.eye(problem.task.d_out)]
        return KroneckerKernel(self._inputs, B, [self._inputs.bare, R @ gram[..., :d_in, :d_in] @ R.T])

    def _of_layers(self, layers: list[Float[Array, "... _ _"]]) -> KroneckerKernel:
        problem, inputs = self._traj.problem, self._inputs
        after, before = [np.eye(problem.task.d_out)], [inputs.R.T]  # W_{L:ℓ+1}, W_{ℓ−1:1}Rᵀ
        for lower, upper in zip(layers[:-1], layers[:0:-1], strict=True):
            after.insert(0, after[0] @ upper)
            before.append(lower @ before[-1])
        if problem.network.biased:  # no weight into the constant unit is trained
            after[:-1] = [P[..., :-1] for P in after[:-1]]
        B = [eta * P @ P.mT for eta, P in zip(problem.rates, after, strict=True)]
        return KroneckerKernel(inputs, B, [inputs.bare, *(Z.mT @ Z for Z in before[1:])])


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
    return _compared(traj, reference).distance


@observable(long_name="kernel movement ‖K − K_ref‖/max(‖K‖, ‖K_ref‖)")
def kernel_movement(traj: Trajectory, reference: int = 0) -> Float[Array, " T"]:
    """‖K − K_ref‖/max(‖K‖, ‖K_ref‖): how far the kernel has turned and grown together, from 0 to √2.

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=3.0))
    >>> kernel_movement(lr.solve(problem, [0.0, 1.0, 1e4])).round(3)
    array([0.   , 0.966, 0.985])
    """
    return _compared(traj, reference).movement


@observable(long_name="kernel norm ‖K‖")
def kernel_norm(traj: Trajectory) -> Float[Array, " T"]:
    """‖K‖, Frobenius; divided by the number of samples where the task holds correlations only.

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01))
    >>> kernel_norm(lr.solve(problem, [60.0, 1e4])).round(2)
    array([30.85, 30.86])
    """
    return kernels(traj).each(lambda K: K.norm)


@observable(long_name="kernel alignment yᵀKy/(‖K‖‖y‖²)")
def kernel_alignment(traj: Trajectory) -> Float[Array, " T"]:
    """⟨K, yyᵀ⟩/(‖K‖‖y‖²) with the targets y on all samples, from 0 to 1; nan where kernel or targets are zero.

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01))
    >>> kernel_alignment(lr.solve(problem, [0.0, 60.0, 1e4])).round(3)
    array([0.103, 0.152, 0.152])
    """
    return kernels(traj).each(lambda K: K.alignment)


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


def _compared(traj: Trajectory, reference: Any) -> Comparison:
    many = kernels(traj)
    return many.compared_with(many[_check.index("reference", reference, len(many))])
