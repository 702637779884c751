"""Checkpoints of a network in JAX: equinox modules, or a function of any pytrees of parameters.

What equinox.nn.MLP and equinox.nn.Sequential do stage by stage is known, and so are their hidden units; of other models
only inputs, outputs and parameters are. Dropout and the like are switched off. Arithmetic is that of the parameters:
in double precision where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from lazyrich import _engines
from lazyrich._check import InvalidInput, shown
from lazyrich._typing import Array, Float, JaxArray, Tree
from lazyrich.laziness.checkpoints import (
    Kind,
    NotFinite,
    Run,
    Stage,
    hidden_stages,
    in_one_line,
    is_affine,
    normalises,
)
from lazyrich.laziness.tangent import compiled_jacobian
from lazyrich.networks import Activation, Network

if TYPE_CHECKING:
    import equinox

_WANTED_BY = "a network in JAX"


class JaxRun(Run):
    """The `Run` of f(state, input) → outputs of one sample, for one state per checkpoint.

    `f` is None where the states are models, called on a sample themselves.
    """

    def __init__(
        self, f: Callable[..., JaxArray] | None, states: Sequence[Tree], inputs: Array, hidden: object
    ) -> None:
        self._jax, self._eqx = _engines.load("jax", _WANTED_BY), _engines.load("equinox", _WANTED_BY)
        self._models = f is None
        states = [self._in_use(state) for state in states]
        kinds = _agreeing(states)
        self._double = np.dtype(np.float64) in kinds
        self._states, self.count = states, len(states)
        self.normalisations = _normalisations(states[0])
        self._f: Callable[..., JaxArray] = (lambda state, x: state(x)) if f is None else f
        self.identity = (f, str(self._jax.tree.structure(states[0])))
        with self.undisturbed():
            exact = np.issubdtype(inputs.dtype, np.integer) or inputs.dtype == bool
            self._inputs = self._jax.numpy.asarray(inputs, None if exact else kinds[0])
            self._check_outputs()
            self.course = self._course()
            self.sequential = bool(self.course)
            self._hidden, self._read = self._reader(hidden)
            self._apply = self._mapped(lambda state, x: self._f(state, x).ravel())
            self._along_line = self._eqx.filter_jit(self._first_order)

    def undisturbed(self) -> AbstractContextManager[object]:
        return _engines.double_precision(_WANTED_BY) if self._double else nullcontext()

    def leads(self) -> bool:
        return bool(self._jax.process_index() == 0)

    def put(self, t: int, given: object) -> None:
        state = self._in_use(given)
        _agreeing([self._states[0], state], (0, t))
        self._states[t:] = [state, *self._states[t + 1 :]]
        self.count = len(self._states)

    def saved(self, t: int) -> list[Array]:
        return [
            np.asarray(leaf) for leaf in self._jax.tree.leaves(self._eqx.filter(self._states[t], self._eqx.is_array))
        ]

    def restored(self, saved: list[Array]) -> Tree:
        arrays, rest = self._eqx.partition(self._states[0], self._eqx.is_array)
        structure = self._jax.tree.structure(arrays)
        if structure.num_leaves != len(saved):
            raise InvalidInput(
                f"state must come from a monitor of the same model, with {structure.num_leaves} arrays, and it has "
                f"{len(saved)}."
            )
        with self.undisturbed():
            given = [self._jax.numpy.asarray(leaf) for leaf in saved]
        return self._eqx.combine(self._jax.tree.unflatten(structure, given), rest)

    def portable(self, part: JaxArray) -> Array:
        return np.asarray(part)

    def like_jacobians(self, part: Array) -> JaxArray:
        return self._jax.numpy.asarray(part)

    def leaves(self, t: int) -> dict[str, Array]:
        return {name: np.asarray(leaf) for name, leaf in named_parameters(self._states[t]).items()}

    def outputs(self, t: int, leaves: dict[str, Array] | None = None) -> Array:
        state = self._states[t]
        if leaves is not None:  # in their own types: NumPy makes more of bfloat16
            own = named_parameters(state)
            state = with_parameters(state, {name: leaf.astype(own[name].dtype) for name, leaf in leaves.items()})
        return np.asarray(self._apply(state, self._inputs))

    def affine(self) -> bool:
        if self._inputs.dtype.kind != "f":
            return False
        return is_affine(lambda x: np.asarray(self._apply(self._states[0], x)), self._inputs, self._inputs[::-1])

    def hidden(self, t: int) -> dict[str, Array]:
        parts = map(np.asarray, self._read(self._states[t], self._inputs)) if self._hidden else ()
        return dict(zip(self._hidden, parts, strict=True))

    def jacobian(self, t: int, some: slice, combined: Float[Array, "outputs r"] | None = None) -> JaxArray:
        combined = None if combined is None else self._jax.numpy.asarray(combined)
        return compiled_jacobian()(self._f, self._states[t], self._inputs[some], combined)

    def linearised(self, t: int) -> Array:
        return np.asarray(self._along_line(self._states[0], self._states[t], self._inputs))

    def _first_order(self, first: Tree, other: Tree, inputs: JaxArray) -> JaxArray:
        moving, still = self._eqx.partition(first, self._eqx.is_inexact_array)
        step = self._jax.tree.map(lambda b, a: b - a, self._eqx.filter(other, self._eqx.is_inexact_array), moving)

        def outputs(leaves: Tree) -> JaxArray:
            return self._jax.vmap(lambda x: self._f(self._eqx.combine(leaves, still), x).ravel())(inputs)

        return sum(self._jax.jvp(outputs, (moving,), (step,)))

    def _in_use(self, state: Tree) -> Tree:
        if isinstance(state, Network):
            return as_equinox(state)
        return self._eqx.nn.inference_mode(state) if self._models else state

    def _mapped(self, read: Callable[[Tree, JaxArray], Tree]) -> Callable[[Tree, JaxArray], Tree]:
        return self._eqx.filter_jit(lambda state, inputs: self._jax.vmap(lambda x: read(state, x))(inputs))

    def _check_outputs(self) -> None:
        x = self._inputs[0]
        try:
            found = self._eqx.filter_eval_shape(self._f, self._states[0], x)
        except Exception as error:  # whatever a model stumbles over
            raise InvalidInput(
                f"model must take one sample of inputs, of shape {x.shape}, and it fails: {in_one_line(error)}"
            ) from error
        _check_floating("the outputs of the model", found)

    def _course(self) -> tuple[Stage, ...]:
        stages = _stages(self._eqx, self._states[0]) if self._models else None
        if stages is None:
            return ()
        x = self._jax.eval_shape(lambda x: x, self._inputs[0])
        kinds: list[Kind | Literal["free"]] = []
        for stage in stages:
            acts = stage.kind == "free" and any(kind != "free" for kind in kinds) and self._is_nonlinear(stage.apply, x)
            kinds.append("activation" if acts else stage.kind)
            x = self._jax.eval_shape(stage.apply, x)
        return tuple(Stage(stage.name, kind) for stage, kind in zip(stages, kinds, strict=True) if kind != "free")

    def _is_nonlinear(self, function: Callable[[JaxArray], JaxArray], x: JaxArray) -> bool:
        """Whether a function keeps the shape and is not affine, tried on random numbers: no reshaping, no pooling."""
        if self._jax.eval_shape(function, x).shape != x.shape:
            return False
        probe = self._jax.numpy.asarray(np.random.default_rng(0).normal(size=x.shape), x.dtype)
        zero, one, minus, two = (np.asarray(function(c * probe), np.float64) for c in (0, 1, -1, 2))
        odd, even = minus + one - 2 * zero, two + zero - 2 * one
        return not (np.allclose(odd, 0, atol=1e-5) and np.allclose(even, 0, atol=1e-5))

    def _reader(self, hidden: object) -> tuple[list[str], Callable[[Tree, JaxArray], Tree]]:
        """The names of hidden layers, in order, and what gives the activity of all of them at all samples."""
        wanted = {self.course[i].name: layer for i, layer in hidden_stages(self.course).items()}
        if hidden is None:
            return list(wanted.values()), self._mapped(lambda state, x: list(self._along(state, x, wanted)))
        if not callable(hidden):
            raise InvalidInput(
                f"hidden must be a function (model, x) → hidden activations of one sample, and it is {shown(hidden)}."
            )
        names: list[str] = []

        def parts(state: Tree, x: JaxArray) -> list[JaxArray]:
            found = _by_name(hidden(state, x))
            names[:] = found  # noted here: JAX sorts a dictionary that it gives back
            return list(found.values())

        try:
            shapes = self._eqx.filter_eval_shape(parts, self._states[0], self._inputs[0])
        except Exception as error:
            raise InvalidInput(
                f"hidden must take a model and one sample of inputs, and it fails: {in_one_line(error)}"
            ) from error
        for name, shape in zip(names, shapes, strict=True):
            _check_floating(name, shape)
        return names, self._mapped(lambda state, x: [part.ravel() for part in parts(state, x)])

    def _along(self, model: Tree, x: JaxArray, wanted: Mapping[str, str]) -> Iterator[JaxArray]:
        for stage in _stages(self._eqx, model) or ():
            x = stage.apply(x)
            if stage.name in wanted:
                yield x.ravel()


def named_parameters(state: Tree) -> dict[str, JaxArray]:
    """Every floating-point array of a pytree, by its place."""
    jax, eqx = _engines.load("jax", _WANTED_BY), _engines.load("equinox", _WANTED_BY)
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(state, eqx.is_inexact_array))
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def _normalisations(state: Tree) -> tuple[str, ...]:
    tree = _engines.load("jax", _WANTED_BY).tree_util
    parts = tree.tree_leaves_with_path(state, is_leaf=normalises)
    return tuple(tree.keystr(path, simple=True, separator=".") for path, part in parts if normalises(part))


def with_parameters(state: Tree, parameters: Mapping[str, JaxArray | Array]) -> Tree:
    """The pytree with all its floating-point arrays replaced, in their order."""
    jax, eqx = _engines.load("jax", _WANTED_BY), _engines.load("equinox", _WANTED_BY)
    moving, still = eqx.partition(state, eqx.is_inexact_array)
    replaced = jax.tree.unflatten(jax.tree.structure(moving), list(parameters.values()))
    return eqx.combine(replaced, still)


def as_equinox(network: Network) -> equinox.nn.Sequential:
    """The same network as an equinox module, in double precision."""
    eqx = _engines.load("equinox", _WANTED_BY)
    sizes = (network.d_in, *(n - network.biased for n in network.sizes[1:-1]), network.d_out)
    empty = _equinox_of(sizes, network.activation, network.biased)

    def parts(model: equinox.nn.Sequential) -> list[JaxArray]:
        layers = model.layers[::2]
        return [
            part for layer in layers for part in ((layer.weight, layer.bias) if network.biased else (layer.weight,))
        ]

    return eqx.tree_at(parts, empty, list(network.state_dict().values()))


@cache
def _equinox_of(sizes: tuple[int, ...], activation: Activation, biased: bool) -> equinox.nn.Sequential:
    """A module whose weights are to be filled in, the same one for all checkpoints: they share what is compiled."""
    jax, eqx = _engines.load("jax", _WANTED_BY), _engines.load("equinox", _WANTED_BY)
    layers: list[equinox.Module] = []
    sigma = eqx.nn.Lambda(partial(activation, xp=jax.numpy))
    for inputs, outputs in pairwise(sizes):
        layers += [eqx.nn.Linear(inputs, outputs, use_bias=biased, key=jax.random.key(0)), sigma]
    return eqx.nn.Sequential(layers[:-1])


# the stages of a model ---------------------------------------------------------------------------------------


class _Stage(NamedTuple):
    name: str
    kind: Literal["layer", "normalisation", "other", "free"]  # free of parameters
    apply: Callable[[JaxArray], JaxArray]


def _stages(eqx: ModuleType, model: Tree, place: str = "") -> list[_Stage] | None:
    """What an MLP or a Sequential does, one after the other; None for other models."""
    if type(model) is eqx.nn.MLP and not getattr(model, "scan", False):
        return _stages_of_mlp(eqx, model, place)
    if type(model) is not eqx.nn.Sequential:
        return None
    found: list[_Stage] = []
    for i, part in enumerate(model.layers):
        name = f"{place}layers.{i}"
        found += _stages(eqx, part, f"{name}.") or [_Stage(name, _kind(eqx, part), partial(part, key=None))]
    return found


def _stages_of_mlp(eqx: ModuleType, mlp: equinox.nn.MLP, place: str) -> list[_Stage]:
    jax = _engines.load("jax", _WANTED_BY)
    each = eqx.filter_vmap(lambda function, x: function(x))  # an activation may have parameters for every unit
    found = []
    for i, layer in enumerate(mlp.layers[:-1]):
        activation = jax.tree.map(lambda leaf, i=i: leaf[i] if eqx.is_array(leaf) else leaf, mlp.activation)
        found.append(_Stage(f"{place}layers.{i}", "layer", layer))
        found.append(_Stage(f"{place}activation.{i}", "free", partial(each, activation)))
    found.append(_Stage(f"{place}layers.{len(mlp.layers) - 1}", "layer", mlp.layers[-1]))
    if found[:-1]:
        last = mlp.final_activation
        found.append(
            _Stage(f"{place}final_activation", "free", last if mlp.out_size == "scalar" else partial(each, last))
        )
    return found


def _kind(eqx: ModuleType, part: Tree) -> Literal["layer", "normalisation", "other", "free"]:
    parameters = named_parameters(part)
    if normalises(part) and "weight" in parameters and parameters["weight"].ndim == 1:
        return "normalisation"
    if isinstance(part, eqx.nn.Linear) or (isinstance(part, eqx.nn.Conv) and part.groups == 1):
        return "layer"
    return "other" if parameters and not isinstance(part, eqx.nn.Lambda) else "free"


# checks ------------------------------------------------------------------------------------------------------


def _agreeing(states: Sequence[Tree], names: Sequence[int] = ()) -> list[np.dtype]:
    """The types of the parameters, if all checkpoints have the same ones, in the same places, all finite."""
    jax, eqx = _engines.load("jax", _WANTED_BY), _engines.load("equinox", _WANTED_BY)
    first, named = jax.tree_util.tree_leaves_with_path(states[0]), named_parameters(states[0])
    for t, state in zip(names or range(len(states)), states, strict=True):
        for name, leaf in named_parameters(state).items():
            _check_parameter(name, t, named.get(name, leaf), leaf)
        if jax.tree.structure(state) != jax.tree.structure(states[0]):
            raise InvalidInput(
                f"checkpoint {t} must have the structure of checkpoint 0, and its pytree is another: "
                "all must be made by the same code."
            )
        for (path, before), leaf in zip(first, jax.tree.leaves(state), strict=True):
            if not callable(leaf) and not hasattr(leaf, "dtype") and leaf != before:
                place = jax.tree_util.keystr(path, simple=True, separator=".")
                raise InvalidInput(
                    f"{place} must be the same in all checkpoints unless it is an array, and it is {shown(before)} in "
                    f"checkpoint 0 and {shown(leaf)} in checkpoint {t}."
                )
    kinds = [leaf.dtype for _, leaf in first if eqx.is_inexact_array(leaf)]
    if not kinds:
        raise InvalidInput("checkpoint 0 must hold parameters, and it has no array of floating-point numbers.")
    return kinds


def _check_parameter(name: str, t: int, before: JaxArray, leaf: JaxArray) -> None:
    if before.shape != leaf.shape or before.dtype != leaf.dtype:
        raise InvalidInput(
            f"{name} must have the same shape and type in all checkpoints, and it has {before.shape} of {before.dtype} "
            f"in checkpoint 0 and {leaf.shape} of {leaf.dtype} in checkpoint {t}."
        )
    values = np.asarray(leaf)
    if values.dtype.kind == "c":
        raise InvalidInput(f"{name} must hold real numbers, and it has dtype {values.dtype}.")
    if not np.isfinite(values.astype(np.float64)).all():
        raise NotFinite(
            f"{name} must be finite, and in checkpoint {t} it is not: leave out what came after the run diverged."
        )


def _check_floating(name: str, found: object) -> None:
    dtype = getattr(found, "dtype", None)
    if dtype is None:
        raise InvalidInput(f"{name} must be an array, and they are of type {type(found).__name__}.")
    if not (np.issubdtype(dtype, np.floating) or str(dtype) == "bfloat16"):
        raise InvalidInput(f"{name} must be floating-point numbers, and they are of type {dtype}.")


def _by_name(found: Tree) -> dict[str, JaxArray]:
    """What `hidden` gave, with names: its own, or numbers."""
    if isinstance(found, Mapping):
        return {str(name): part for name, part in found.items()}
    parts = found if isinstance(found, list | tuple) else [found]
    return {f"hidden {i + 1}": part for i, part in enumerate(parts)}
