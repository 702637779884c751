"""Problems of one shape, stacked: some data sets, each shared by as many networks.

Networks on the same task then meet its samples in one large matrix product instead of many small ones. A stack is as
large as is fast: on the CPU what stays near the cache, on a GPU what keeps it busy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, Literal, NamedTuple

import numpy as np

from lazyrich import _engines
from lazyrich._typing import Array, Tree
from lazyrich.losses import Loss
from lazyrich.methods import _gradients
from lazyrich.networks import Activation
from lazyrich.noise import Kind, Noise, Seeded
from lazyrich.problem import Problem

_NEAR_CACHE = 2**17  # numbers that the networks of a stack carry through their layers at once, on the CPU
_MOST = 2**14  # networks of a stack
_ON_GPU = 2**25  # the same on a GPU, which four times as many make slower by a sixth (H200), and half as many too


_QUIET = Seeded(Noise(), 0)


class Drawn(NamedTuple):
    """The noise of a stack, for each network (sets, each): from which seed, and how large."""

    keys: Array  # (sets, each, 2), as `jax.random.key_data` gives them
    labels: Array  # (sets, each)
    weights: Array  # (sets, each)
    samples: Tree  # per set, as `_gradients.samples_of` gives them; None where single samples are not seen


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
    kind: Kind | None = None  # of the noise
    noise: Drawn | None = None

    @property
    def cells(self) -> int:
        return int(self.members.size)


def stacks(
    problems: Sequence[Problem], dtype: Any, limit: int | None = None, noise: Sequence[Seeded] = ()
) -> Iterator[Stack]:
    """All problems, in stacks of at most `limit` networks (by default what fits); each problem is in one of them, with
    its noise where there is any."""
    alike: dict[tuple[object, ...], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    each_noise = noise or [_QUIET] * len(problems)
    for index, (problem, own) in enumerate(zip(problems, each_noise, strict=True)):
        alike[_shape(problem, own.noise.kind)][id(problem.task)].append(index)
    for by_task in alike.values():
        sharing: dict[int, list[list[int]]] = defaultdict(list)
        for members in by_task.values():
            sharing[len(members)].append(members)
        for each, sets in sharing.items():
            most = limit or _fits(problems[sets[0][0]], each_noise[sets[0][0]].noise.kind)
            if each >= most:
                parts = ([members[i : i + most]] for members in sets for i in range(0, each, most))
            else:
                many = max(1, most // each)
                parts = (sets[i : i + many] for i in range(0, len(sets), many))
            yield from (stacked(problems, np.array(part), dtype, each_noise) for part in parts)


def stacked(problems: Sequence[Problem], members: Array, dtype: Any, noise: Sequence[Seeded] = ()) -> Stack:
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
    kind = noise[members[0][0]].noise.kind if noise else None
    return Stack(
        first.network.activation,
        first.network.sizes,
        members,
        weights,
        data,
        [rates[..., layer, None, None] for layer in layers],
        decay[..., None, None],
        _columns(first, kind),
        first.network.biased,
        first.loss,
        kind,
        kind and _drawn(kind, [row[0] for row in chosen], [[noise[i] for i in row] for row in members], dtype),
    )


def _drawn(kind: Kind, first: Sequence[Problem], chosen: Sequence[Sequence[Seeded]], dtype: Any) -> Drawn:
    """The noise of networks that are drawn alike; `first` are the problems that begin a set."""
    samples = None
    if kind.on_samples:
        parts = zip(*map(_gradients.samples_of, first), strict=True)
        samples = tuple(np.stack(part).astype(dtype) for part in parts)
    return Drawn(
        np.array([[own.key_data for own in row] for row in chosen]),
        np.array([[own.noise.labels for own in row] for row in chosen], dtype),
        np.array([[own.noise.weights for own in row] for row in chosen], dtype),
        samples,
    )


def alone(problem: Problem, noise: Seeded = _QUIET) -> Stack:
    """A stack of one network that has no axes in front: its numbers do not depend on any neighbours."""
    network, rates = problem.network, [np.array([[eta]]) for eta in problem.rates]
    data, decay = _gradients.data_of(problem), np.array([[problem.weight_decay]])
    kind, sizes = noise.noise.kind, noise.noise
    members, weights, columns = np.array(0), network.free(network.weights), _columns(problem, kind)
    drawn = None
    if kind is not None:
        samples = _gradients.samples_of(problem) if kind.on_samples else None
        drawn = Drawn(noise.key_data, np.array(sizes.labels), np.array(sizes.weights), samples)
    about = columns, network.biased, problem.loss, kind, drawn
    return Stack(network.activation, network.sizes, members, weights, data, rates, decay, *about)


def each(
    jax: ModuleType, axes: int, one: Callable[..., Tree], *own: Literal["network", "set", "all"]
) -> Callable[..., Tree]:
    """From a function of one network to that of a stack; whose own is each of its arguments?"""
    for axis in range(axes):
        along: dict[str, int | None] = {"network": 0, "set": 0 if axis else None, "all": None}
        one = jax.vmap(one, in_axes=tuple(along[whose] for whose in own))
    return one


def operations_of(problem: Problem) -> float:
    """Floating-point operations of one gradient, about: two products with each matrix."""
    return 4.0 * _numbers(problem.network.sizes) * _columns(problem)


def _numbers(sizes: tuple[int, ...]) -> int:
    """Weights of a network."""
    return int(np.dot(sizes[1:], sizes[:-1]))


def _columns(problem: Problem, noise: Kind | None = None) -> int:
    """What the layers carry at once: samples, or for a linear network inputs or outputs; not fewer than samples where
    the loss asks for them, or the noise."""
    sizes, inputs = problem.network.sizes, problem.task.inputs
    if noise is not None and noise.on_samples and inputs is not None:
        return noise.batch or len(inputs)
    by_product = problem.network.activation.linear and problem.loss.squared
    return min(sizes[0], sizes[-1]) if by_product or inputs is None else len(inputs)


def _shape(problem: Problem, noise: Kind | None = None) -> tuple[object, ...]:
    """What problems of one stack have in common."""
    _gradients.needs_samples(problem, "a batch")
    network, task = problem.network, problem.task
    common = network.activation, network.sizes, network.biased, noise
    if (network.activation.linear and problem.loss.squared) or task.inputs is None:
        samples = len(task.inputs) if task.inputs is not None and noise is not None else 0
        return *common, task.whitening_error != 0, samples
    return *common, len(task.inputs), task.reduction, problem.loss


def _fits(problem: Problem, noise: Kind | None = None) -> int:
    """How many networks a stack holds."""
    sizes = problem.network.sizes
    carried = sum(sizes[1:]) * _columns(problem, noise) + _numbers(sizes)
    return int(np.clip(_engines.by_device(_NEAR_CACHE, _ON_GPU) // carried, 1, _MOST))
