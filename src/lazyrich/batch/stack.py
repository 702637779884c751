"""Problems of one shape, stacked: some data sets, each shared by as many networks.

Networks on the same task then meet its samples in one large matrix product instead of many small ones. A stack is as
large as is fast: on the CPU what stays near the cache, on a GPU what keeps it busy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyrich import _engines
from lazyrich._typing import Array, Tree
from lazyrich.losses import Loss
from lazyrich.methods import _gradients
from lazyrich.networks import Activation
from lazyrich.problem import Problem

_NEAR_CACHE = 2**17  # numbers that the networks of a stack carry through their layers at once, on the CPU
_MOST = 2**14  # networks of a stack
_ON_GPU = 2**25  # the same on a GPU, which four times as many make slower by a sixth (H200), and half as many too


class Stack(NamedTuple):
    """Arrays in front of whose own axes stand (set, network of that set), or nothing where one network is `alone`."""

    activation: Activation
    sizes: tuple[int, ...]
    members: Array  # (sets, each), or (): which of the problems
    weights: list[Array]  # per layer
    data: Tree  # per set, as `_gradients.data_of` gives it
    rates: list[Array]  # per layer, (sets, each, 1, 1)
    decay: Array  # (sets, each, 1, 1)
    columns: int  # what the layers carry at once
    biased: bool  # the weights are then those of the free layers
    loss: Loss

    @property
    def cells(self) -> int:
        return int(self.members.size)


def stacks(problems: Sequence[Problem], dtype: Any, limit: int | None = None) -> Iterator[Stack]:
    """All problems, in stacks of at most `limit` networks (by default what fits); each problem is in one of them."""
    alike: dict[tuple[object, ...], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for index, problem in enumerate(problems):
        alike[_shape(problem)][id(problem.task)].append(index)
    for by_task in alike.values():
        sharing: dict[int, list[list[int]]] = defaultdict(list)
        for members in by_task.values():
            sharing[len(members)].append(members)
        for each, sets in sharing.items():
            most = limit or _fits(problems[sets[0][0]])
            if each >= most:
                parts = ([members[i : i + most]] for members in sets for i in range(0, each, most))
            else:
                many = max(1, most // each)
                parts = (sets[i : i + many] for i in range(0, len(sets), many))
            yield from (stacked(problems, np.array(part), dtype) for part in parts)


def stacked(problems: Sequence[Problem], members: Array, dtype: Any) -> Stack:
    """One stack of the problems with these numbers, a row per data set."""
    import jax

    chosen = [[problems[i] for i in row] for row in members]
    first = chosen[0][0]

    def cast(parts: Sequence[Any]) -> Array:
        return np.stack(parts).astype(dtype)

    layers = range(first.network.depth)
    given = [[p.network.free(p.network.weights) for p in row] for row in chosen]
    weights = [cast([cast([each[layer] for each in row]) for row in given]) for layer in layers]
    data = jax.tree_util.tree_map(lambda *parts: cast(parts), *(_gradients.data_of(row[0]) for row in chosen))
    rates = cast([cast([p.rates for p in row]) for row in chosen])
    decay = cast([cast([p.weight_decay for p in row]) for row in chosen])
    return Stack(
        first.network.activation,
        first.network.sizes,
        members,
        weights,
        data,
        [rates[..., layer, None, None] for layer in layers],
        decay[..., None, None],
        _columns(first),
        first.network.biased,
        first.loss,
    )


def alone(problem: Problem) -> Stack:
    """A stack of one network that has no axes in front: its numbers do not depend on any neighbours."""
    network, rates = problem.network, [np.array([[eta]]) for eta in problem.rates]
    data, decay = _gradients.data_of(problem), np.array([[problem.weight_decay]])
    members, weights, columns = np.array(0), network.free(network.weights), _columns(problem)
    about = columns, network.biased, problem.loss
    return Stack(network.activation, network.sizes, members, weights, data, rates, decay, *about)


def operations_of(problem: Problem) -> float:
    """Floating-point operations of one gradient, about: two products with each matrix."""
    return 4.0 * _numbers(problem.network.sizes) * _columns(problem)


def _numbers(sizes: tuple[int, ...]) -> int:
    """Weights of a network."""
    return int(np.dot(sizes[1:], sizes[:-1]))


def _columns(problem: Problem) -> int:
    """What the layers carry at once: samples, or for a linear network inputs or outputs; not fewer than samples where
    the loss asks for them."""
    sizes, inputs = problem.network.sizes, problem.task.inputs
    by_product = problem.network.activation.linear and problem.loss.squared
    return min(sizes[0], sizes[-1]) if by_product or inputs is None else len(inputs)


def _shape(problem: Problem) -> tuple[object, ...]:
    """What problems of one stack have in common."""
    _gradients.needs_samples(problem, "a batch")
    network, task = problem.network, problem.task
    if (network.activation.linear and problem.loss.squared) or task.inputs is None:
        return network.activation, network.sizes, network.biased, task.whitening_error != 0
    return network.activation, network.sizes, network.biased, len(task.inputs), task.reduction, problem.loss


def _fits(problem: Problem) -> int:
    """How many networks a stack holds."""
    sizes = problem.network.sizes
    carried = sum(sizes[1:]) * _columns(problem) + _numbers(sizes)
    return int(np.clip(_engines.by_device(_NEAR_CACHE, _ON_GPU) // carried, 1, _MOST))
