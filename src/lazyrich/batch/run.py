"""Many networks advance in one compiled program: gradient descent step by step, or gradient flow.

The loop stays on the device and the weights are kept at checkpoints only. A network that diverges or sticks takes
nothing from the others: its record ends where it did, and its status says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import NamedTuple

import numpy as np

from lazyrich import _engines
from lazyrich._status import COMPLETE, End, Status
from lazyrich._typing import Array, JaxArray, Tree
from lazyrich.batch.stack import Stack, by_device
from lazyrich.methods import _gradients, _rkc
from lazyrich.networks import Activation

__all__ = ["MOST_GRADIENTS", "Record", "descend_stack", "flow_stack"]

MOST_GRADIENTS = 1_000_000  # of one network, before a flow is given up
_CALL_OPERATIONS = (1e10, 2e13)  # of one call, on CPU and GPU: about a second, so that progress shows
_UNROLLED = 50  # steps between two looks at the loop's end, which a GPU would have to wait for
_OVERHEAD = (1e5, 2e3)  # what a step costs besides its arithmetic, in operations: once, and per network


class Record(NamedTuple):
    """The weights of a stack at its checkpoints, and how far each network came."""

    weights: list[Array]  # per layer (K, sets, each, out, in); what was not reached is nan
    reached: Array  # (sets, each): number of checkpoints
    status: list[Status]  # of each network, in the order of the stack
    gradients: Array  # (sets, each)


def descend_stack(
    stack: Stack, rates: Array, at: Sequence[int], tick: Callable[[float], JaxArray] = lambda part: None
) -> Record:
    """Gradient descent with one rate per network, kept at the steps `at`; `tick` is told what part has been done."""
    jax = _engines.load("jax", "a batch of networks")
    run, per_call = _descent(stack.activation, stack.sizes), _steps_per_call(stack)
    paces = [rates[..., None, None].astype(eta.dtype) * eta for eta in stack.rates]
    weights, *fixed = jax.device_put((stack.weights, paces, stack.decay, stack.data))
    now, kept = 0, []
    for stop in at:
        while now < stop:
            count = min(stop - now, per_call)
            weights = run(weights, np.int32(count // _UNROLLED), np.int32(count % _UNROLLED), *fixed)
            jax.block_until_ready(weights)
            now += count
            tick(count / at[-1])
        kept.append([np.asarray(W) for W in weights])
    if at[-1] == 0:
        tick(1.0)
    records = [np.stack(layer) for layer in zip(*kept, strict=True)]
    losses = np.stack([np.asarray(_losses(stack.activation)(kept_now, stack.data)) for kept_now in kept])
    reached = np.minimum(_finite(records), np.logical_and.accumulate(np.isfinite(losses), axis=0).sum(axis=0))

    def status(n: int) -> Status:
        if n == len(at):
            return COMPLETE
        return Status(End.DIVERGED, f"diverged between steps {at[n - 1] if n else 0} and {at[n]}", "a smaller rate")

    return Record(records, reached, [status(int(n)) for n in reached.ravel()], np.full(reached.shape, at[-1]))


def flow_stack(
    stack: Stack,
    times: Array,
    rtol: float,
    tick: Callable[[float], JaxArray] = lambda part: None,
    *,
    atol: float = 0.0,
    most_gradients: int = MOST_GRADIENTS,
) -> Record:
    """Gradient flow, kept at `times` (sets, each, K), sorted; a first one of 0 keeps the start."""
    jax = _engines.load("jax", "a batch of networks")
    begin, go_on = _flow(stack.activation, stack.sizes)
    batch, dtype = times.shape[:-1], stack.weights[0].dtype
    at_zero = int(np.all(times[..., 0] == 0))
    stops = times[..., at_zero:].astype(dtype)
    K, done = stops.shape[-1], 0.0
    records = [np.full((K, *W.shape), np.nan, dtype) for W in stack.weights]
    stuck, due, gradients = np.zeros(batch, bool), np.zeros(batch, int), np.ones(batch, int)
    weights, *fixed = jax.device_put((stack.weights, stack.rates, stack.decay, stack.data))
    state, floors = begin(weights, *fixed), [np.full(batch, atol, dtype) for _ in stack.weights]
    passes = min(_steps_per_call(stack), most_gradients - 1)  # the start took one
    while not np.all(stuck | (due == K)) and passes > 0:
        state, records = go_on(state, records, stops, dtype.type(rtol), floors, np.int32(passes), *fixed)
        stuck, due, gradients = (np.asarray(part) for part in (state.stuck, state.due, state.gradients))
        passes = min(passes, most_gradients - int(gradients.max()))
        part = float(np.mean(np.where(stuck, 1.0, due / K)))
        tick(part - done)
        done = part
    tick(1 - done)  # of those given up, or with nothing to do
    kept = [np.asarray(W) for W in records]
    if at_zero:
        kept = [np.concatenate([W[None], after]) for W, after in zip(stack.weights, kept, strict=True)]
    reached = np.minimum(_finite(kept), due + at_zero)

    def status(place: tuple[int, ...]) -> Status:
        if reached[place] == times.shape[-1]:
            return COMPLETE
        end, advice = End.STOPPED, "a larger rtol or an earlier end"
        if stuck[place]:
            end, advice = End.STALLED, "smaller weights or targets"
        goal = times[place][reached[place]]
        return Status(end, f"{end} after {gradients[place]} gradients, before t = {goal:.6g}", advice)

    return Record(kept, reached, [status(place) for place in np.ndindex(batch)], gradients)


def _finite(records: list[Array]) -> Array:
    """How many checkpoints come before the first that is not finite."""
    fine = np.all([np.isfinite(W).all(axis=(-2, -1)) for W in records], axis=0)
    return np.logical_and.accumulate(fine, axis=0).sum(axis=0)


def _steps_per_call(stack: Stack) -> int:
    steps = by_device(*_CALL_OPERATIONS) / (stack.operations + _OVERHEAD[0] + _OVERHEAD[1] * stack.cells)
    return int(np.clip(steps // _UNROLLED * _UNROLLED, _UNROLLED, 1_000_000))


def _velocity(jax: ModuleType, activation: Activation, sizes: tuple[int, ...]) -> Callable[..., Tree]:
    """(weights, rates, decay, data) of a stack → Ẇ of each layer."""
    one = _gradients.slopes_and_loss(jax, activation, sizes)
    all_slopes = jax.vmap(jax.vmap(lambda weights, data: one(weights, data)[0], in_axes=(0, None)))

    def velocity(weights: Tree, rates: JaxArray, decay: JaxArray, data: Tree) -> Tree:
        slopes = all_slopes(weights, data)
        return [eta * (slope - decay * W) for eta, slope, W in zip(rates, slopes, weights, strict=True)]

    return velocity


@cache
def _losses(activation: Activation) -> Tree:
    """(weights, data) of a stack → the loss of each network."""
    jax = _engines.load("jax", "a batch of networks")
    return jax.jit(jax.vmap(jax.vmap(_gradients.loss(jax, activation), in_axes=(0, None))))


@cache
def _descent(activation: Activation, sizes: tuple[int, ...]) -> Tree:
    """One call: so many stretches of steps, and so many single ones."""
    jax = _engines.load("jax", "a batch of networks")
    velocity = _velocity(jax, activation, sizes)

    def run(
        weights: Tree, stretches: JaxArray, singles: JaxArray, paces: JaxArray, decay: JaxArray, data: Tree
    ) -> Tree:
        def step(_: JaxArray, weights: Tree) -> Tree:
            return [W + V for W, V in zip(weights, velocity(weights, paces, decay, data), strict=True)]

        def stretch(_: JaxArray, weights: Tree) -> Tree:
            return jax.lax.fori_loop(0, _UNROLLED, step, weights)

        weights = jax.lax.fori_loop(0, stretches, stretch, weights)
        return jax.lax.fori_loop(0, singles, step, weights)

    return jax.jit(run, donate_argnums=0)


@cache
def _flow(activation: Activation, sizes: tuple[int, ...]) -> tuple[JaxArray, JaxArray]:
    """The state at the start, and one call from a state on."""
    jax = _engines.load("jax", "a batch of networks")
    velocity, kinks = _velocity(jax, activation, sizes), activation.kinked

    def begin(weights: Tree, *fixed: Tree) -> Tree:
        return _rkc.start(jax, lambda y: velocity(y, *fixed), weights, kinks)

    def go_on(
        state: Tree, records: Tree, stops: JaxArray, rtol: JaxArray, atol: JaxArray, passes: JaxArray, *fixed: Tree
    ) -> Tree:
        def go(y: Tree) -> Tree:
            return velocity(y, *fixed)

        return _rkc.advance(jax, go, state, records, stops, rtol, atol, passes, kinks)

    return jax.jit(begin), jax.jit(go_on)
