"""What is measured of the cells of a sweep: any observable of a trajectory, the loss, and the loss on held-out samples.

Two-layer piecewise linear networks are measured where they were trained, many at once: the loss, the distances and the
tangent kernel of theory section 8,

    K = η_1 XXᵀ ∘ (cᵀ diag(a²) c) + η_2 ΦᵀΦ        (one output; c = σ'(WXᵀ), Φ = σ(WXᵀ)),

in blocks of rows, K at step 0 beside K at each checkpoint, never all of it. Everything else goes through
`lazyrich.observables`, cell by cell.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import ModuleType

import numpy as np

from lazyrich import _check, _engines
from lazyrich._check import InvalidInput
from lazyrich._engines import by_device
from lazyrich._observable import all_observables
from lazyrich._typing import Array, JaxArray
from lazyrich.batch.run import Record
from lazyrich.batch.stack import Stack
from lazyrich.methods import _gradients
from lazyrich.networks import Activation
from lazyrich.observables.held_out import loss_on
from lazyrich.observables.kernels.algebra import Comparison, block_products
from lazyrich.problem import Problem
from lazyrich.sweeps.fields import field_names
from lazyrich.sweeps.grid import Variable, label
from lazyrich.sweeps.problems import Cell
from lazyrich.tasks import Task
from lazyrich.trajectory import Trajectory

Layers = list[JaxArray]
Data = tuple[JaxArray, ...]

Measure = Callable[[Trajectory], object]  # one of the user's own, f(traj) → (T, …)

_TOGETHER = ("loss", "test_loss", "kernel_distance", "hamming_distance", "parameter_distance")
_ROWS = (2**17, 2**24)  # numbers of one block of rows of K, for all checkpoints, on CPU and GPU
_AT_ONCE = (1, 16)  # networks measured at once


def names(method: str = "") -> tuple[str, ...]:
    """Everything that a sweep can record by name; of a fate there is no trajectory."""
    along = () if method == "fate" else ("loss", "test_loss", *all_observables())
    return (*along, *field_names(method))


def as_observables(given: object, method: str = "") -> tuple[str | Measure, ...]:
    """Names, and functions of the user's own, each once."""
    listed = (given,) if isinstance(given, str) or callable(given) else given
    if not isinstance(listed, Iterable) or isinstance(listed, Mapping):
        came = _check.shown(given)
        raise InvalidInput(f"observables must list names or functions, such as ['loss'], and it is {came}.")
    chosen: dict[str, str | Measure] = {}
    for one in listed:
        if not callable(one):
            one = _check.choice("observables", one, names(method))
        elif method == "fate" or not getattr(one, "__name__", "").isidentifier():
            raise InvalidInput(f"observables must be names, or functions with a name, and one is {_check.shown(one)}.")
        if chosen.setdefault(label(one), one) != one:
            raise InvalidInput(f"observables must have a name each, and {label(one)!r} is that of two.")
    if not chosen:
        raise InvalidInput("observables is empty, and at least one is needed, such as ['loss'].")
    return tuple(chosen.values())


def variable(one: str | Measure, shape: tuple[int, ...]) -> Variable:
    """What the store holds of an observable that has this shape at each step."""
    if callable(one):
        words = (inspect.getdoc(one) or label(one)).splitlines()[0]
        return Variable(tuple(f"{label(one)}_{i + 1}" for i in range(len(shape))), shape, words, "1")
    if (known := all_observables().get(one)) is not None:
        return Variable(known.dims, shape, known.long_name, known.units)
    return Variable((), shape, {"loss": "loss", "test_loss": "loss on held-out samples"}[one], "1")


def measured(traj: Trajectory, name: str | Measure, test: Task | None) -> Array:
    """One observable of one trajectory."""
    if callable(name):
        return _own(name, traj)
    if name == "loss":
        return np.asarray(traj.loss)
    if name != "test_loss":
        return np.asarray(all_observables()[name].measure(traj))
    if test is None:
        raise InvalidInput("test_loss needs held-out samples, and this problem has none: try 'loss'.")
    return loss_on(traj, test)


def _own(function: Measure, traj: Trajectory) -> Array:
    try:
        given = np.asarray(function(traj))
        values = given.real.astype(float)
    except (TypeError, ValueError) as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:  # np.asarray: they are no numbers
            raise InvalidInput(f"{label(function)} must give numbers, and it does not: {error}.") from None
        raise
    if given.dtype.kind == "c":
        raise InvalidInput(f"{label(function)} must give real numbers, and it gives complex ones.")
    if values.shape[:1] != (len(traj.times),):
        raise InvalidInput(
            f"{label(function)} must give a value for each of the {len(traj.times)} times, and its shape is "
            f"{values.shape}."
        )
    return values


def together(stack: Stack, names: Sequence[str | Measure]) -> tuple[str, ...]:
    """Those that are measured for a whole stack at once."""
    piecewise = stack.activation.kinked and len(stack.sizes) == 3 and stack.sizes[-1] == 1 and not stack.biased
    return tuple(name for name in names if isinstance(name, str) and piecewise and name in _TOGETHER)


def measured_together(stack: Stack, record: Record, cells: Sequence[Cell], names: Sequence[str]) -> dict[str, Array]:
    """Observable → (K, sets, each), of two-layer piecewise linear networks with one output.

    Without the test loss, where held-out samples are missing or not shared as the task is: it goes one by one.
    """
    jax = _engines.load("jax", "a sweep")
    run, values = _measures(stack.activation), {}
    inputs = jax.device_put((stack.weights, record.weights, stack.rates, stack.data))
    for name in names:
        if name != "test_loss":
            values[name] = run[name](*inputs)
        elif held_out := _held_out(stack, cells):
            values[name] = run["loss"](*inputs[:3], jax.device_put(held_out))
    return {name: np.asarray(value) for name, value in values.items()}


def _held_out(stack: Stack, cells: Sequence[Cell]) -> tuple[Array, ...]:
    """The held-out samples of each set, as `_gradients.data_of` gives them; none where the sets do not have as many."""
    chosen = []
    for row in stack.members:
        first = cells[int(row[0])]
        if first.test is None or first.test.inputs is None or any(cells[int(i)].test is not first.test for i in row):
            return ()
        chosen.append(_gradients.data_of(Problem(first.test, first.problem.network)))
    if len({data[0].shape for data in chosen}) > 1:
        return ()
    return tuple(np.stack(parts).astype(stack.weights[0].dtype) for parts in zip(*chosen, strict=True))


@cache
def _measures(activation: Activation) -> dict[str, Callable[..., JaxArray]]:
    """Name → compiled function of (weights at the start, weights kept, rates, data)."""
    jax = _engines.load("jax", "a sweep")
    loss = _gradients.loss(jax, activation)

    def over_networks(one: Callable[..., JaxArray], per_checkpoint: bool) -> Callable[..., JaxArray]:
        """From one network (and checkpoint) to a stack; of the networks of a set a few at once, since K is large."""
        few = int(by_device(*_AT_ONCE))

        def stack(start: Layers, kept: Layers, rates: JaxArray, data: Data) -> JaxArray:
            kept = [jax.numpy.moveaxis(W, 0, 2) for W in kept]  # (sets, each, K, out, in)

            def network(parts: tuple[Layers, Layers, JaxArray], data: Data) -> JaxArray:
                start, kept, rates = parts
                if per_checkpoint:
                    return jax.lax.map(lambda now: one(start, now, rates, data), kept)
                return one(start, kept, rates, data)

            def of_set(parts: tuple[tuple[Layers, Layers, JaxArray], Data]) -> JaxArray:
                networks, data = parts
                return jax.lax.map(lambda own: network(own, data), networks, batch_size=few if few > 1 else None)

            return jax.numpy.moveaxis(jax.lax.map(of_set, ((start, kept, rates), data)), 2, 0)

        return jax.jit(stack)

    return {
        "loss": over_networks(lambda start, now, rates, data: loss(now, data), True),
        "parameter_distance": over_networks(lambda start, now, rates, data: _distance(start, now), True),
        "hamming_distance": over_networks(
            lambda start, now, rates, data: (((start[0] @ data[0]) > 0) != ((now[0] @ data[0]) > 0)).mean(
                dtype=start[0].dtype
            ),
            True,
        ),
        "kernel_distance": over_networks(
            lambda start, kept, rates, data: _kernel_distance(jax, start, kept, rates, data[0], activation), False
        ),
    }


def _distance(start: Layers, now: Layers) -> JaxArray:
    return sum(((A - B) ** 2).sum() for A, B in zip(start, now, strict=True)) ** 0.5


def _kernel_distance(
    jax: ModuleType, start: Layers, kept: Layers, rates: JaxArray, X: JaxArray, activation: Activation
) -> JaxArray:
    """1 − cos(K_0, K) at each checkpoint of one network; X has a sample per column."""
    xp = jax.numpy
    n, K = X.shape[1], kept[0].shape[0]
    W, a = (xp.concatenate([first[None], later]) for first, later in zip(start, kept, strict=True))
    z = W @ X
    c = activation.derivative(z, xp).astype(X.dtype)
    phi = c * z
    weighted = rates[0] * xp.swapaxes(a, 1, 2) ** 2 * c
    rows = max(1, min(n, int(by_device(*_ROWS)) // (n * (K + 1))))
    blocks = -(-n // rows)
    beyond = (0, blocks * rows - n)  # padding adds rows of zeros to K
    all_rows = [xp.pad(A, [(0, 0)] * (A.ndim - 1) + [beyond]) for A in (X, weighted, phi)]

    def block(index: JaxArray, sums: list[JaxArray]) -> list[JaxArray]:
        X_r, c_r, phi_r = (jax.lax.dynamic_slice_in_dim(A, index * rows, rows, A.ndim - 1) for A in all_rows)
        kernel = (X_r.T @ X) * (xp.swapaxes(c_r, 1, 2) @ c) + rates[1] * (xp.swapaxes(phi_r, 1, 2) @ phi)
        parts = block_products(kernel[0], kernel[1:], lambda A, B: (A * B).sum((-2, -1)))
        return [total + part for total, part in zip(sums, parts, strict=True)]

    sums = jax.lax.fori_loop(0, blocks, block, [xp.zeros(K, X.dtype)] * 5)
    return Comparison.of_blocks(sums).distance
