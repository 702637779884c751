"""Modules of Flax as a `Monitor` takes them: a function of parameters and one sample, without dropout.

Statistics of batch normalisation are not learned by gradients. They go along as the bits of their numbers, which are
whole numbers, and so are no parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, SupportsFloat

from lazyrich import _engines
from lazyrich._check import InvalidInput
from lazyrich._typing import ArrayLike, JaxArray, Tree
from lazyrich.laziness.monitor import Monitor

_WANTED_BY = "FlaxMonitor"
jax = _engines.load("jax", _WANTED_BY, "flax")
linen = _engines.load("flax.linen", _WANTED_BY, "flax")
nnx = _engines.load("flax.nnx", _WANTED_BY, "flax")


class FlaxMonitor(Monitor):
    """A `Monitor` of an NNX module, or of a Linen module and its variables; called on batches.

    Hidden activity is what submodules of Linen give, in the order of their calls; of NNX, `hidden` says where it is, as
    a function (model, x) of one sample.

    Parameters
    ----------
    model : a module of flax.nnx or flax.linen
    inputs : samples along the first axis
    variables : of a Linen module at initialisation, {"params": …}
    options : of `lr.laziness.Monitor`

    >>> model = nnx.Sequential(nnx.Linear(2, 3, rngs=nnx.Rngs(0)), nnx.relu, nnx.Linear(3, 1, rngs=nnx.Rngs(1)))
    >>> monitor = FlaxMonitor(model, [[1.0, 0.0], [0.0, 1.0]])
    >>> model.layers[2].kernel[...] = 2 * model.layers[2].kernel[...]
    >>> monitor.update(model, step=1)["lazyrich/parameter_distance"] > 0
    True
    """

    _state: Callable[[Any], Tree]
    _untried: bool  # batch normalisation that has seen no batch

    def __init__(self, model: Any, inputs: ArrayLike, variables: Tree | None = None, **options: Any) -> None:
        if isinstance(model, nnx.Module) and variables is None:
            f, hidden = _of_nnx(model, options.pop("hidden", None))
            self._state, self._untried = _state_of_nnx, _is_new(nnx.to_pure_dict(nnx.state(model, nnx.BatchStat)))
        elif isinstance(model, linen.Module) and isinstance(variables, Mapping) and "params" in variables:
            f, hidden = _of_linen(model, options.pop("hidden", None))
            self._state, self._untried = _state_of_linen, _is_new(variables.get("batch_stats", {}))
        else:
            raise InvalidInput(
                "model must be a module of flax.nnx, or of flax.linen with variables={'params': …}, and it is a "
                f"{type(model).__name__}."
            )
        super().__init__(f, inputs, self._state(model if variables is None else variables), hidden=hidden, **options)

    def update(self, model_or_state: Tree, step: int, loss: SupportsFloat | None = None) -> dict[str, float]:
        """As `Monitor.update`, of the NNX module or of the variables of Linen.

        >>> model = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
        >>> FlaxMonitor(model, [[1.0, 0.0], [0.0, 1.0]]).update(model, step=1)["lazyrich/kernel_distance"]
        0.0
        """
        return super().update(self._state(model_or_state), step, loss)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is left out, and why; and what numbers are partly about."""
        new = (
            "statistics of batch normalisation were 0 and 1 when the monitor was made, which training never uses: what "
            "is measured is partly theirs. Make it after some passes in training mode, before the first step.",
        )
        return (*(new * self._untried), *super().notes)


def _of_nnx(
    model: Any, hidden: Callable[..., Tree] | None
) -> tuple[Callable[..., JaxArray], Callable[..., Tree] | None]:
    structure = nnx.split(model, nnx.Param, ...)[0]

    def whole(state: Tree) -> Any:
        found = nnx.merge(structure, state["params"], _as_numbers(state["rest"]))
        found.eval()
        return found

    return (
        lambda state, x: whole(state)(x[None])[0],
        None if hidden is None else lambda state, x: hidden(whole(state), x),
    )


def _state_of_nnx(model: Any) -> dict[str, Tree]:
    _, params, rest = nnx.split(model, nnx.Param, ...)
    return {"params": nnx.to_pure_dict(params), "rest": _as_bits(nnx.to_pure_dict(rest))}


def _of_linen(model: Any, hidden: Callable[..., Tree] | None) -> tuple[Callable[..., JaxArray], Callable[..., Tree]]:
    def whole(state: Tree) -> Tree:
        return {"params": state["params"], **_as_numbers(state["rest"])}

    def parts(state: Tree, x: JaxArray) -> dict[str, JaxArray]:
        _, kept = model.apply(whole(state), x[None], capture_intermediates=True, mutable=["intermediates"])
        inner = dict(_called(kept["intermediates"]))
        return dict(list(inner.items())[:-1]) if len(inner) > 1 else inner  # the last gives the outputs

    return (
        lambda state, x: model.apply(whole(state), x[None])[0],
        parts if hidden is None else lambda state, x: hidden(whole(state), x),
    )


def _called(kept: Mapping[str, Tree], place: str = "") -> Iterator[tuple[str, JaxArray]]:
    """What submodules gave when they were first called, in the order of their calls: JAX would sort them by name."""
    for name, part in kept.items():
        if isinstance(part, Mapping):
            yield from _called(part, f"{place}.{name}" if place else name)
        elif name == "__call__" and place and len(leaves := jax.tree.leaves(part)) == 1:
            yield place, leaves[0][0]


def _state_of_linen(variables: Mapping[str, Tree]) -> dict[str, Tree]:
    rest = {name: part for name, part in variables.items() if name != "params"}
    return {"params": variables["params"], "rest": _as_bits(rest)}


def _is_new(statistics: Tree) -> bool:
    leaves = jax.tree.leaves(statistics)
    return bool(leaves) and all(bool((leaf == 0).all() or (leaf == 1).all()) for leaf in leaves)


def _as_bits(tree: Tree) -> Tree:
    return jax.tree.map(lambda leaf: _Bits.of(leaf), tree)


def _as_numbers(tree: Tree) -> Tree:
    return jax.tree.map(lambda bits: bits.numbers(), tree, is_leaf=lambda part: isinstance(part, _Bits))


@jax.tree_util.register_pytree_node_class
class _Bits:
    """An array as whole numbers, and the type that it has."""

    def __init__(self, bits: JaxArray, kind: Any) -> None:
        self.bits, self.kind = bits, kind

    @classmethod
    def of(cls, array: Any) -> _Bits:
        if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
            return cls(jax.random.key_data(array), jax.random.key_impl(array))
        if not jax.numpy.issubdtype(array.dtype, jax.numpy.inexact):
            return cls(array, None)
        whole = {2: jax.numpy.uint16, 4: jax.numpy.uint32, 8: jax.numpy.uint64}[array.dtype.itemsize]
        return cls(jax.lax.bitcast_convert_type(array, whole), array.dtype)

    def numbers(self) -> JaxArray:
        if self.kind is None:
            return self.bits
        if isinstance(self.kind, str):
            return jax.random.wrap_key_data(self.bits, impl=self.kind)
        return jax.lax.bitcast_convert_type(self.bits, self.kind)

    def tree_flatten(self) -> tuple[tuple[JaxArray], Any]:
        return (self.bits,), self.kind

    @classmethod
    def tree_unflatten(cls, kind: Any, children: tuple[JaxArray]) -> _Bits:
        return cls(children[0], kind)
