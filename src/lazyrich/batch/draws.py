"""The noise of a stack inside its compiled loop; `Noise` says how each number is drawn.

Keys are made anew from the seed and the number of the step, and never split on the way: what a network draws hangs
neither on its neighbours, nor on which steps are recorded or go into one call. Carried along is the step, and where
there are epochs the order of the samples in each.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import NamedTuple

import numpy as np

from lazyrich._typing import JaxArray, Tree
from lazyrich.batch.stack import Drawn, each
from lazyrich.noise import Kind

_BATCHES, _TARGETS, _WEIGHTS = range(3)  # what a draw is for


class Clock(NamedTuple):
    """Which step is next, and the samples (sets, each, P) in the order of this epoch; None where there are none."""

    step: JaxArray
    order: JaxArray


def start(kind: Kind, noise: Drawn) -> Clock:
    """Before the first step, which shuffles."""
    order = None
    if _in_epochs(kind):
        order = np.zeros((*noise.labels.shape, noise.samples[0].shape[-1]), np.int32)
    return Clock(np.uint32(0), order)


def as_jax_does(jax: ModuleType) -> AbstractContextManager[object]:
    """Keys in JAX's present manner, whichever a user has set."""
    return jax.threefry_partitionable(True)


def noisy(jax: ModuleType, axes: int, kind: Kind, gradients: Callable[..., Tree]) -> Callable[..., Tree]:
    """(weights, data, noise, clock) of a stack → gradients and loss, in the batch of this step with its noise on
    targets, and the clock with the order of this epoch. `gradients` are those of one network."""
    if not kind.on_samples:
        whole = each(jax, axes, gradients, "network", "set")
        return lambda weights, data, noise, clock: (whole(weights, data), clock)

    def one(weights: Tree, samples: Tree, own: tuple[JaxArray, JaxArray, JaxArray], step: JaxArray) -> Tree:
        (inputs, targets, weight), (seed, size, order) = samples, own
        if kind.batch is not None:
            count = inputs.shape[1]
            chosen = _batch(jax, kind, kind.batch, seed, step, order, count)
            inputs, targets, weight = inputs[:, chosen], targets[:, chosen], weight * (count / kind.batch)
        if kind.targets:
            noise = jax.random.normal(_key(jax, seed, _TARGETS, step), targets.shape[::-1], targets.dtype)
            targets = targets + size * noise.T
        return gradients(weights, (inputs, targets, weight))

    of_all = each(jax, axes, one, "network", "set", "network", "all")

    def go(weights: Tree, data: Tree, noise: Drawn, clock: Clock) -> Tree:
        clock = _shuffled(jax, axes, kind, noise, clock)
        return of_all(weights, noise.samples, (noise.keys, noise.labels, clock.order), clock.step), clock

    return go


def kicks(jax: ModuleType, axes: int) -> Callable[..., Tree]:
    """(weights, noise, paces, step) of a stack → σ √(rate η_ℓ) ξ of each layer."""

    def one(weights: Tree, seed: JaxArray, step: JaxArray) -> Tree:
        key = _key(jax, seed, _WEIGHTS, step)
        keys = [jax.random.fold_in(key, layer) for layer in range(len(weights))]
        return [jax.random.normal(own, W.shape, W.dtype) for own, W in zip(keys, weights, strict=True)]

    units = each(jax, axes, one, "network", "network", "all")

    def go(weights: Tree, noise: Drawn, paces: Tree, step: JaxArray) -> Tree:
        size, drawn = noise.weights[..., None, None], units(weights, noise.keys, step)
        return [size * jax.numpy.sqrt(pace) * xi for pace, xi in zip(paces, drawn, strict=True)]

    return go


def _key(jax: ModuleType, seed: JaxArray, purpose: int, when: JaxArray) -> JaxArray:
    key = jax.random.wrap_key_data(seed, impl="threefry2x32")  # whichever a user has made JAX's default
    return jax.random.fold_in(jax.random.fold_in(key, purpose), when)


def _in_epochs(kind: Kind) -> bool:
    return kind.batch is not None and not kind.replacement


def _batch(
    jax: ModuleType, kind: Kind, size: int, seed: JaxArray, step: JaxArray, order: JaxArray, count: int
) -> JaxArray:
    """Which samples a step takes."""
    if kind.replacement:
        return jax.random.randint(_key(jax, seed, _BATCHES, step), (size,), 0, count, "int32")
    return jax.lax.dynamic_slice_in_dim(order, (step % (count // size)).astype("int32") * size, size)


def _shuffled(jax: ModuleType, axes: int, kind: Kind, noise: Drawn, clock: Clock) -> Clock:
    """With the samples in a new order where an epoch begins."""
    if not _in_epochs(kind):
        return clock
    assert kind.batch is not None
    count = noise.samples[0].shape[-1]
    batches = count // kind.batch

    def one(seed: JaxArray, epoch: JaxArray) -> JaxArray:
        return jax.random.permutation(_key(jax, seed, _BATCHES, epoch), jax.numpy.arange(count, dtype="int32"))

    shuffle = each(jax, axes, one, "network", "all")
    begins, epoch = clock.step % batches == 0, clock.step // batches
    return clock._replace(order=jax.lax.cond(begins, lambda: shuffle(noise.keys, epoch), lambda: clock.order))
