"""The one training loop: many networks at once, in one compiled program, measured at the steps asked for.

An experiment gives four pure functions of one network (`Program`); here they are mapped over the networks of a group.
What all of them share (images, say) is passed once as `shared`, what differs (seeds, α, data of their own) is a pytree
`members` with the networks along the first axis. The number of the step is the same for all: conditions on it, such
as a new order of the samples at each epoch, stay conditions under the map.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from functools import cache, partial
from typing import NamedTuple, TypeVar

import numpy as np

from lazyrich import _engines
from lazyrich._typing import Array
from lazyrich.papers.base.kind import Outcome
from lazyrich.papers.base.types import JaxArray, Tick, Tree

C = TypeVar("C")
K = TypeVar("K", bound=Hashable)

#: What α does: it scales layers at the start, as published, or changes how fast they learn. By gradient descent a layer
#: that starts α times as small is one that learns at α² times the rate, and by Adam, whose steps do not depend on the
#: size of a gradient, at α times the rate: both are the same network at every step, but for rounding.
THROUGH = ("scales", "rates")

_CALL_SECONDS = 1.0  # of one call, about: progress shows that often
_AT_ONCE = 50  # steps of a loop of known length on a GPU, which would wait for the host to look at any other


class Program(NamedTuple):
    """A network and how it learns. Build it in a cached function: what is compiled is kept by this object."""

    init: Callable[[Tree, Tree], Tree]  # (shared, member) → state, a pytree
    step: Callable[[Tree, Tree, Tree, JaxArray], Tree]  # (shared, member, state, number of the step from 0) → state
    measure: Callable[[Tree, Tree, Tree], dict[str, JaxArray]]  # (shared, member, state) → what is recorded, by name
    done: Callable[[Tree], JaxArray] | None = None  # (state) → whether all is learned; the end is when all say so


def train(
    program: Program,
    shared: Tree,
    members: Tree,
    at: tuple[int, ...],
    tick: Tick = lambda cells: None,
    *,
    together: bool = True,
    pace: int = 1,
    unit: str = "step",
) -> list[Outcome]:
    """One outcome per member, measured at `at` (in units of `pace` steps); `tick` is told how much has been done.

    `together` maps over the members; otherwise they train one after the other, by the same program. A network whose
    numbers are no longer finite has diverged: its record ends there, and the others go on. Where all are `done`, the
    later records stay nan.

    >>> import jax.numpy as jnp
    >>> program = Program(
    ...     init=lambda shared, rate: jnp.float32(1.0),
    ...     step=lambda shared, rate, w, i: w - rate * w,
    ...     measure=lambda shared, rate, w: {"w": w},
    ... )
    >>> first, second = train(program, None, jnp.array([0.5, 1.0]), (0, 1, 3))
    >>> first.values["w"].tolist(), second.values["w"].tolist()
    ([1.0, 0.5, 0.125], [1.0, 0.0, 0.0])
    """
    jax = _engines.load("jax", "an experiment")
    count = len(jax.tree.leaves(members)[0])
    shared, members = jax.device_put((shared, members))
    groups = [slice(0, count)] if together else [slice(i, i + 1) for i in range(count)]
    found: list[Outcome] = []
    for group in groups:
        part = jax.tree.map(lambda leaf, group=group: leaf[group], members)
        size = group.stop - group.start
        values, reached = _course(program, shared, part, at, pace, partial(_of_all, tick, size))
        for i in range(size):
            n = int(reached[i])
            cause = "" if n == len(at) else f"diverged by {unit} {at[n]}: try a smaller rate"
            mine = {name: value[i] for name, value in values.items()}
            for value in mine.values():
                value[n:] = np.nan
            found.append(Outcome(mine, cause))
    return found


def in_groups(
    cells: Sequence[C], alike: Callable[[C], K], train: Callable[[K, list[C]], list[Outcome]]
) -> list[Outcome]:
    """The outcomes of all cells, in their order; those that are `alike` train together."""
    groups: dict[K, list[int]] = {}
    for place, cell in enumerate(cells):
        groups.setdefault(alike(cell), []).append(place)
    found: dict[int, Outcome] = {}
    for common, places in groups.items():
        found |= zip(places, train(common, [cells[place] for place in places]), strict=True)
    return [found[place] for place in range(len(cells))]


def next_batch(key: JaxArray, order: JaxArray, i: JaxArray, size: int) -> tuple[JaxArray, JaxArray]:
    """The order of the samples, drawn anew at each epoch, and those of the i-th batch; what is left over waits.

    `order` is a permutation that the state carries, of at least `size` samples.
    """
    import jax
    from jax import lax

    batches = order.shape[0] // size
    epoch, number = i // batches, i % batches
    order = lax.cond(
        number == 0, lambda: jax.random.permutation(jax.random.fold_in(key, epoch), order.shape[0]), lambda: order
    )
    return order, lax.dynamic_slice(order, (number * size,), (size,))


def _course(
    program: Program, shared: Tree, members: Tree, at: tuple[int, ...], pace: int, tick: Tick
) -> tuple[dict[str, Array], Array]:
    """Values (members, records, …), and how many records each member came to before it diverged."""
    begin, look = _compiled(program)
    state, at_once = begin(shared, members), _steps_at_once()
    now, last, per_call = 0, max(at[-1] * pace, 1), 1
    rows: list[dict[str, Array]] = []
    alive: list[Array] = []
    for stop in at:
        while now < stop * pace:
            steps, start = min(stop * pace - now, per_call), time.perf_counter()
            done = 0
            for length in at_once:
                count = (steps - done) // length
                if count:
                    state = _advance(program, length)(shared, members, state, np.int32(now + done), np.int32(count))
                done += count * length
            state[1].block_until_ready()
            now += steps
            if steps == per_call and time.perf_counter() - start < _CALL_SECONDS / 2:  # the first one compiles
                per_call = per_call * 2
            tick(steps / last)
        seen, finite, done = look(shared, members, state[0])
        rows.append({name: np.asarray(value) for name, value in seen.items()})
        alive.append(np.asarray(finite))
        if bool(done) and stop != at[-1]:
            tick((at[-1] * pace - now) / last)
            break
    if at[-1] == 0:
        tick(1.0)
    values = {}
    for name, first in rows[0].items():
        kind = first.dtype if first.dtype.kind == "f" else np.float32
        values[name] = np.full((first.shape[0], len(at), *first.shape[1:]), np.nan, kind)
        for k, row in enumerate(rows):
            values[name][:, k] = row[name]
    lost = ~np.logical_and.accumulate(np.stack(alive), axis=0)
    reached = np.where(lost.any(axis=0), lost.argmax(axis=0), len(at))
    return values, reached


def _of_all(tick: Tick, size: int, share: float) -> None:
    tick(size * share)


def _steps_at_once() -> tuple[int, ...]:
    """Lengths of the inner loop, the longest first. (Each is compiled, so that the CPU has one.)"""
    import jax

    return (1,) if jax.default_backend() == "cpu" else (_AT_ONCE, 1)


@cache
def _advance(program: Program, length: int) -> Callable[[Tree, Tree, Tree, JaxArray, JaxArray], Tree]:
    """Goes on by `count` times `length` steps. The state has the number of the next step beside it."""
    import jax
    from jax import lax

    step = jax.vmap(program.step, in_axes=(None, 0, 0, None))

    def advance(shared: Tree, members: Tree, state: Tree, start: JaxArray, count: JaxArray) -> Tree:
        def one(_: JaxArray, carry: Tree) -> Tree:
            return step(shared, members, *carry), carry[1] + 1

        some = one if length == 1 else lambda _, carry: lax.fori_loop(0, length, one, carry)
        return lax.fori_loop(0, count, some, (state[0], start))

    return jax.jit(advance)


@cache
def _compiled(program: Program) -> tuple[Callable[[Tree, Tree], Tree], Callable[[Tree, Tree, Tree], Tree]]:
    """Begin and look, for all members."""
    import jax
    import jax.numpy as jnp

    mapped_init = jax.vmap(program.init, in_axes=(None, 0))
    mapped_measure = jax.vmap(program.measure, in_axes=(None, 0, 0))

    def begin(shared: Tree, members: Tree) -> Tree:
        return mapped_init(shared, members), jnp.int32(0)

    def look(shared: Tree, members: Tree, inner: Tree) -> Tree:
        numbers = [leaf for leaf in jax.tree.leaves(inner) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
        finite = jnp.stack([jnp.isfinite(leaf).reshape(leaf.shape[0], -1).all(axis=1) for leaf in numbers]).all(axis=0)
        done = jax.vmap(program.done)(inner).all() if program.done is not None else jnp.bool_(False)
        return mapped_measure(shared, members, inner), finite, done

    return jax.jit(begin), jax.jit(look)
