"""Many networks advance in one compiled program: gradient descent step by step, or gradient flow.

The loop stays on the device, and what was asked for is kept at checkpoints only. A network that diverges or sticks
takes nothing from the others: its record ends where it did, and its status says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache
from types import ModuleType
from typing import NamedTuple

import numpy as np

from lazyrich import _engines
from lazyrich._status import COMPLETE, End, Status
from lazyrich._typing import Array, JaxArray, Tree
from lazyrich.batch import draws
from lazyrich.batch.stack import Stack, each
from lazyrich.losses import Loss
from lazyrich.methods import _gradients, _rkc
from lazyrich.networks import Activation
from lazyrich.networks.biases import constant_rows, whole
from lazyrich.noise import Kind

MOST_GRADIENTS = 1_000_000  # of one network, before a flow is given up
_UNROLLED = (1, 50)  # steps between two looks at the loop's end, which a GPU would have to wait for


class Record(NamedTuple):
    """What was kept of a stack at its checkpoints, and how far each network came."""

    parts: dict[str, Tree]  # a list over layers for the weights, an array for all else: (K, *members, …)
    reached: Array  # (*members): number of checkpoints; what comes after them has no meaning
    status: list[Status]  # of each network, in the order of the stack
    gradients: Array  # (*members)

    @property
    def weights(self) -> list[Array]:
        return list(self.parts["weights"])


def descend_stack(
    stack: Stack,
    rates: Array,
    at: Sequence[int] | Array,
    tick: Callable[[float], object] = lambda part: None,
    *,
    names: tuple[str, ...] = ("weights",),
    momentum: float = 0.0,
    nesterov: bool = False,
) -> Record:
    """Gradient descent with one rate per network and one momentum; `tick` is told what part has been done.

    What is named, and the loss, is kept at the steps `at`. A network has diverged at the first step whose loss is not
    finite, and the loop ends where all have.
    """
    jax = _engines.load("jax", "descend")
    stops, names = np.asarray(at), tuple(dict.fromkeys((*names, "loss")))
    settings = stack.activation, stack.sizes, stack.biased, stack.loss
    run = _descent(*settings, names, stack.members.ndim, momentum, nesterov, stack.kind)
    steps_per_call, records_per_call = _engines.per_call(stack.sizes, stack.columns, 1, names, stack.cells)
    if stack.cells > 1:  # records of many networks take time even where none is due; of one, compiling again takes more
        records_per_call = min(records_per_call, 1 << (len(stops) - 1).bit_length())
    paces = [rates[..., None, None].astype(eta.dtype) * eta for eta in stack.rates]
    weights, *fixed = jax.device_put((stack.weights, paces, stack.decay, stack.data, stack.noise))
    clock = draws.start(stack.kind, stack.noise) if stack.kind and stack.noise else None
    moving = [0 * W for W in weights] if momentum else []  # what momentum keeps, per layer
    finite, taken = np.ones(stack.members.shape, bool), np.zeros(stack.members.shape, np.int64)
    now, last = 0, int(stops[-1])
    recording = _engines.Recording(len(stops))
    while recording.count < len(stops) and finite.any():
        due = stops[recording.count : recording.count + records_per_call]
        due = due[due <= now + steps_per_call]
        ends = due if len(due) else np.array([now + steps_per_call])
        gaps = np.pad(np.diff(ends, prepend=now), (0, records_per_call - len(ends)))
        with draws.as_jax_does(jax) if stack.kind else nullcontext():
            (weights, moving, done, still, clock), seen = run(weights, moving, finite, clock, gaps, *fixed)
        taken, finite, before, now = taken + np.asarray(done), np.asarray(still), now, int(ends[-1])
        recording.add(seen, len(due))
        tick((now - before) / last if last else 1.0)
    if now < last:
        tick(1 - now / last)
    recording.count = len(stops)
    parts = recording.parts()
    ended = np.where(finite, np.where(np.isfinite(parts["loss"][-1]), last + 1, last), taken)
    reached, status = np.searchsorted(stops, ended), []
    for step, rate in zip(ended.ravel(), rates.ravel(), strict=True):
        where = f"step {step} (t = {rate * step:.6g}) with rate = {rate:g}, where the loss is not finite"
        diverged = Status(End.DIVERGED, f"diverged at {where}", "a smaller rate")
        status.append(COMPLETE if step > last else diverged)
    return Record(parts, reached, status, np.full(reached.shape, last))


def flow_stack(
    stack: Stack,
    times: Array,
    rtol: float,
    tick: Callable[[float], JaxArray] = lambda part: None,
    *,
    atol: float = 0.0,
    most_gradients: int = MOST_GRADIENTS,
) -> Record:
    """Gradient flow, kept at `times` (sets, each, K), sorted; a first one of 0 keeps the initialisation."""
    jax = _engines.load("jax", "a batch of networks")
    begin, go_on = _flow(stack.activation, stack.sizes, stack.biased, stack.loss)
    batch, dtype = times.shape[:-1], stack.weights[0].dtype
    at_zero = int(np.all(times[..., 0] == 0))
    stops = times[..., at_zero:].astype(dtype)
    K, done = stops.shape[-1], 0.0
    records = [np.full((K, *W.shape), np.nan, dtype) for W in stack.weights]
    stuck, due, gradients = np.zeros(batch, bool), np.zeros(batch, int), np.ones(batch, int)
    weights, *fixed = jax.device_put((stack.weights, stack.rates, stack.decay, stack.data))
    state, floors = begin(weights, *fixed), [np.full(batch, atol, dtype) for _ in stack.weights]
    per_call, _ = _engines.per_call(stack.sizes, stack.columns, 1, ("weights",), stack.cells)
    passes = min(per_call, most_gradients - 1)  # the initialisation took one
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
    kept = whole(kept, constant_rows(stack.sizes, stack.activation) if stack.biased else ())
    reached = np.minimum(_finite(kept), due + at_zero)

    def status(place: tuple[int, ...]) -> Status:
        if reached[place] == times.shape[-1]:
            return COMPLETE
        end, advice = End.STOPPED, "a larger rtol or an earlier end"
        if stuck[place]:
            end, advice = End.STALLED, "smaller weights or targets"
        goal = times[place][reached[place]]
        return Status(end, f"{end} after {gradients[place]} gradients, before t = {goal:.6g}", advice)

    return Record({"weights": kept}, reached, [status(place) for place in np.ndindex(batch)], gradients)


def _finite(records: list[Array]) -> Array:
    """How many checkpoints come before the first that is not finite."""
    fine = np.all([np.isfinite(W).all(axis=(-2, -1)) for W in records], axis=0)
    return np.logical_and.accumulate(fine, axis=0).sum(axis=0)


@cache
def _descent(
    activation: Activation,
    sizes: tuple[int, ...],
    biased: bool,
    loss: Loss,
    names: tuple[str, ...],
    axes: int,
    momentum: float,
    nesterov: bool,
    kind: Kind | None = None,
) -> Tree:
    """One call: stretches of steps, with a record after each."""
    jax, unrolled = _engines.load("jax", "descend"), int(_engines.by_device(*_UNROLLED))
    on_samples = kind is not None and kind.on_samples
    of_one = _gradients.gradients_and_loss(jax, activation, sizes, biased, loss, on_samples)
    gradients_and_loss = each(jax, axes, of_one, "network", "set")
    noisy = draws.noisy(jax, axes, kind, of_one) if kind else None
    kicks = draws.kicks(jax, axes) if kind and kind.weights else None
    observe = each(jax, axes, _gradients.observe(jax, activation, names, sizes, biased, loss), "network", "set")

    def run(
        weights: Tree,
        moving: Tree,
        finite: JaxArray,
        clock: Tree,
        gaps: JaxArray,
        paces: Tree,
        decay: JaxArray,
        data: Tree,
        noise: Tree,
    ) -> Tree:
        def step(_: object, state: Tree) -> Tree:
            weights, moving, taken, finite, clock = state
            if noisy:
                (gradients, loss), clock = noisy(weights, data, noise, clock)
            else:
                gradients, loss = gradients_and_loss(weights, data)
            finite = finite & jax.numpy.isfinite(loss)
            slopes = [G - decay * W for W, G in zip(weights, gradients, strict=True)]
            if momentum:
                moving = [momentum * M + slope for M, slope in zip(moving, slopes, strict=True)]
                ahead = [slope + momentum * M for M, slope in zip(moving, slopes, strict=True)]
                slopes = ahead if nesterov else moving
            layers = zip(weights, paces, slopes, strict=True)
            after = [W + pace * slope for W, pace, slope in layers]
            if kicks:
                after = [W + kick for W, kick in zip(after, kicks(weights, noise, paces, clock.step), strict=True)]
            clock = clock and clock._replace(step=clock.step + 1)
            return after, moving, taken + finite, finite, clock

        def forward(so_far: Tree, gap: JaxArray, together: int) -> Tree:
            """Up to the gap, so many steps at a time, or until all have diverged."""

            def goes_on(so_far: Tree) -> JaxArray:
                count, (*_, finite, _) = so_far
                return (count + together <= gap) & finite.any()

            def go(so_far: Tree) -> Tree:
                count, state = so_far
                many = step(0, state) if together == 1 else jax.lax.fori_loop(0, together, step, state)
                return count + together, many

            return jax.lax.while_loop(goes_on, go, so_far)

        def stretch(state: Tree, gap: JaxArray) -> Tree:
            so_far = (0 * gap, state)
            for together in dict.fromkeys((unrolled, 1)):
                so_far = forward(so_far, gap, together)
            return so_far[1], observe(so_far[1][0], data)

        taken = 0 * jax.numpy.asarray(finite, gaps.dtype)
        return jax.lax.scan(stretch, (weights, moving, taken, finite, clock), gaps)

    return jax.jit(run)


def _velocity(
    jax: ModuleType, activation: Activation, sizes: tuple[int, ...], biased: bool, loss: Loss
) -> Callable[..., Tree]:
    """(weights, rates, decay, data) of a stack → Ẇ of each layer."""
    one = _gradients.gradients_and_loss(jax, activation, sizes, biased, loss)
    of_all = each(jax, 2, lambda weights, data: one(weights, data)[0], "network", "set")

    def velocity(weights: Tree, rates: JaxArray, decay: JaxArray, data: Tree) -> Tree:
        layers = zip(rates, of_all(weights, data), weights, strict=True)
        return [eta * (G - decay * W) for eta, G, W in layers]

    return velocity


@cache
def _flow(activation: Activation, sizes: tuple[int, ...], biased: bool, loss: Loss) -> tuple[JaxArray, JaxArray]:
    """The state at t = 0, and one call from a state on."""
    jax = _engines.load("jax", "a batch of networks")
    velocity, kinks = _velocity(jax, activation, sizes, biased, loss), activation.kinked

    def begin(weights: Tree, *fixed: Tree) -> Tree:
        return _rkc.start(jax, lambda y: velocity(y, *fixed), weights, kinks)

    def go_on(
        state: Tree, records: Tree, stops: JaxArray, rtol: JaxArray, atol: JaxArray, passes: JaxArray, *fixed: Tree
    ) -> Tree:
        def go(y: Tree) -> Tree:
            return velocity(y, *fixed)

        return _rkc.advance(jax, go, state, records, stops, rtol, atol, passes, kinks)

    return jax.jit(begin), jax.jit(go_on)
