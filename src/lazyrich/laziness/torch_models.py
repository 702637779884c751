"""Checkpoints of a network in PyTorch: a module, and one `state_dict` for each, in memory or in .safetensors files.

The module is called in evaluation mode, with the numbers of a checkpoint in place of its own
(torch.func.functional_call): batch normalisation and dropout do what they do in use, and the module itself stays as it
is, its modes included. Hooks, which see what its layers and activation functions give, are taken off again whatever
happens. Gradients are those of the parameters that require a gradient.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from lazyrich import _check, _files
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.laziness.checkpoints import (
    Kind,
    NotFinite,
    Run,
    Stage,
    described,
    hidden_stages,
    in_one_line,
    is_affine,
    normalises,
)
from lazyrich.laziness.torch_quiet import undisturbed
from lazyrich.laziness.torch_statistics import Untried

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    State = dict[str, Tensor]

_LARGE = 2**22  # parameters; with more, one gradient after the other is faster than many mapped (measured on a CPU)
_SPREAD = ("MultiheadAttention", "Softmax", "Softmin", "Softmax2d", "LogSoftmax")  # beside activations in their module


def bare(module: Module) -> Module:
    """A module without what spreads it over devices or compiles it."""
    torch = import_module("torch")
    while isinstance(module, torch.nn.DataParallel | torch.nn.parallel.DistributedDataParallel):
        module = module.module
    # torch.compile keeps what it was given as a submodule of this name, and in no public place
    inner = module._modules.get("_orig_mod")
    return module if inner is None else bare(inner)


class TorchRun(Run):
    """The `Run` of a module. `hidden` names submodules whose outputs are hidden activity, instead of activations."""

    def __init__(
        self, module: Module, checkpoints: Sequence[object], inputs: Array, hidden: object, copied: bool = False
    ) -> None:
        self._torch = import_module("torch")
        self._module = module = bare(module)
        self._learned = [name for name, leaf in module.named_parameters() if leaf.requires_grad]
        if not self._learned:
            raise InvalidInput("model must have parameters that require a gradient, and it has none.")
        self._own = module.state_dict()
        self._names = {part: name for name, part in module.named_modules()}
        self._inputs = self._as_tensor(inputs)
        self._mappable = True  # by torch.func, until it fails
        self._states = [self._state(t, given) for t, given in enumerate(checkpoints)]
        if copied:
            self._states = [{name: leaf.detach().clone() for name, leaf in state.items()} for state in self._states]
        self._refuse_views()
        self.count = len(self._states)
        self._given = self._checked_names(hidden)
        self.normalisations = tuple(name for part, name in self._names.items() if normalises(part))
        self.sequential = self._is_sequential()
        self.identity = (id(module), *self._learned)
        with self.undisturbed():
            self._untried = Untried(self._names, self._states[0])
            self._states = [self._with_statistics(state) for state in self._states]
            self.course, readable = self._first_course()
        # functions such as torch.relu leave no trace, so that without any activation a network need not be linear
        known = self.sequential or any(stage.kind == "activation" for stage in self.course)
        self._wanted = {i: name for i, name in hidden_stages(self.course).items() if known and readable[i]}

    @property
    def notes(self) -> tuple[str, ...]:
        return self._untried.notes

    def undisturbed(self) -> AbstractContextManager[None]:
        return undisturbed(next(self._module.parameters()).device)

    def leads(self) -> bool:
        spread = self._torch.distributed
        return not (spread.is_available() and spread.is_initialized()) or spread.get_rank() == 0

    def put(self, t: int, given: object) -> None:
        state = self._state(t, bare(given).state_dict() if isinstance(given, self._torch.nn.Module) else given)
        if t == 0:
            self._untried = Untried(self._names, state)
        self._states[t:] = [self._with_statistics(state), *self._states[t + 1 :]]
        self.count = len(self._states)

    def saved(self, t: int) -> State:
        state = self._states[t] | self._untried.blank
        return {name: leaf.detach().cpu().clone() for name, leaf in state.items()}

    def restored(self, saved: Mapping[str, Tensor]) -> State:
        once = self._states[0]
        shared = {name: saved[name] for name in saved if name in once}
        return {name: shared.get(name, own) for name, own in self._own.items()}

    def portable(self, part: Tensor) -> Tensor:
        return part.detach().cpu().clone()

    def like_jacobians(self, part: Tensor) -> Tensor:
        return part.to(next(self._module.parameters()).device)

    def leaves(self, t: int) -> dict[str, Array]:
        return {name: _check.from_any_library(name, self._states[t][name]) for name in self._learned}

    def outputs(self, t: int, leaves: dict[str, Array] | None = None) -> Array:
        state = self._states[t] | {name: self._like(name, leaf) for name, leaf in (leaves or {}).items()}
        with self._evaluating(), self._torch.no_grad():
            found = self._call(state, self._inputs)
        return _check.from_any_library("outputs", found.reshape(len(self._inputs), -1))

    def affine(self) -> bool:
        if not self._inputs.is_floating_point():
            return False
        with self._evaluating(), self._torch.no_grad():
            return is_affine(self._first_outputs, self._inputs, self._inputs.flip(0))

    def _first_outputs(self, inputs: Tensor) -> Array:
        return _check.from_any_library("outputs", self._call(self._states[0], inputs))

    def hidden(self, t: int) -> dict[str, Array]:
        calls: list[tuple[str, Tensor | None]] = []

        def keep(part: Module, _: object, output: Tensor) -> None:
            name = self._names[part] if self._given else self._wanted.get(len(calls), "")
            if self._given and not self._has_rows(output):
                raise InvalidInput(f"{name}, named in hidden, must give a tensor with one row per sample.")
            calls.append((name, output.detach().clone() if name else None))  # later functions may write into it

        watched = [self._module.get_submodule(name) for name in self._given] or self._staged()
        with self._evaluating({part: keep for part in watched}), self._torch.no_grad():
            self._call(self._states[t], self._inputs)
        idle = set(self._given).difference(name for name, _ in calls)
        if idle:
            raise InvalidInput(f"{min(idle)}, named in hidden, must be called when the model is, and it is not.")
        rows = len(self._inputs)
        return {name: _check.from_any_library(name, part.reshape(rows, -1)) for name, part in calls if part is not None}

    def jacobian(self, t: int, some: slice, combined: Float[Array, "outputs r"] | None = None) -> Tensor:
        torch, state, inputs = self._torch, self._states[t], self._inputs[some]
        learned = {name: state[name] for name in self._learned}
        kind = learned[self._learned[0]]
        mixed = None if combined is None else torch.as_tensor(combined, dtype=kind.dtype).to(kind.device)

        def outputs(leaves: State, x: Tensor) -> Tensor:
            found = self._call(state | leaves, x[None]).reshape(-1)
            return found if mixed is None else found @ mixed

        with self._evaluating(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop")  # of PyTorch, about what vmap cannot map
            if self._mappable and sum(leaf.numel() for leaf in learned.values()) <= _LARGE:
                try:
                    gradients = torch.func.vmap(torch.func.jacrev(outputs), in_dims=(None, 0))(learned, inputs)
                    return torch.cat([part.flatten(0, 1).flatten(1) for part in gradients.values()], dim=1)
                except (RuntimeError, NotImplementedError, ValueError):
                    self._mappable = False  # recurrent layers, or a forward that decides by values
            return torch.stack([row for x in inputs for row in self._rows(outputs, learned, x)])

    def _rows(self, f: Callable[[State, Tensor], Tensor], learned: State, x: Tensor) -> Iterator[Tensor]:
        """The gradients of one output after the other, at one sample: slower, and possible for whatever has any."""
        torch = self._torch
        with torch.enable_grad():
            leaves = {name: leaf.detach().requires_grad_() for name, leaf in learned.items()}
            outputs = f(leaves, x)
            if not outputs.requires_grad:
                raise InvalidInput(
                    "the outputs of the model must depend on its parameters by gradients, and they do not."
                )
            for output in outputs:
                gradients = torch.autograd.grad(
                    output, list(leaves.values()), retain_graph=True, allow_unused=True, materialize_grads=True
                )
                yield torch.cat([part.reshape(-1) for part in gradients])

    def linearised(self, t: int) -> Array | None:
        torch, first, other = self._torch, self._states[0], self._states[t]
        leaves = {name: first[name].detach() for name in self._learned}
        step = {name: other[name].detach() - leaf for name, leaf in leaves.items()}

        def outputs(leaves: State) -> Tensor:
            return self._call(first | leaves, self._inputs)

        with self._evaluating(), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch, about what it uses itself
            try:
                found, moved = torch.func.jvp(outputs, (leaves,), (step,))
            except (RuntimeError, NotImplementedError, ValueError):  # no forward derivative: recurrent layers
                return None
        return _check.from_any_library("outputs", (found + moved).reshape(len(self._inputs), -1))

    # the module ------------------------------------------------------------------------------------------------

    def _call(self, state: State, inputs: Tensor) -> Tensor:
        """Copies of what a forward may write into: its inputs, and buffers that count."""
        own = {name: leaf if name in self._learned else leaf.clone() for name, leaf in state.items()}
        return self._torch.func.functional_call(self._module, own, (inputs.clone(),))

    @contextmanager
    def _evaluating(self, hooks: Mapping[Module, Callable[..., None]] | None = None) -> Iterator[None]:
        """Evaluation mode, with hooks on what the parts give; all as before afterwards."""
        modes = {part: part.training for part in self._module.modules()}
        handles = []
        try:
            self._module.eval()
            for part, hook in (hooks or {}).items():
                handles.append(part.register_forward_hook(hook))
            yield
        finally:
            for handle in handles:
                handle.remove()
            for part, mode in modes.items():
                part.training = mode

    def _staged(self) -> list[Module]:
        """The parts that are stages: those with parameters of their own, and activation functions."""
        return [part for part in self._module.modules() if self._kind(part)]

    def _kind(self, part: Module) -> Kind | None:
        nn, name = self._torch.nn, self._names[part]
        if type(part).__module__ == "torch.nn.modules.activation" and type(part).__name__ not in _SPREAD:
            return "activation"
        if next(part.parameters(recurse=False), None) is None:
            return None
        dense = isinstance(part, nn.Linear) or (
            isinstance(part, nn.Conv1d | nn.Conv2d | nn.Conv3d) and part.groups == 1
        )
        learned = f"{name}.weight" in self._learned
        if normalises(part) and learned and part.weight.ndim == 1:
            return "normalisation"
        return "layer" if dense and learned else "other"

    def _first_course(self) -> tuple[tuple[Stage, ...], list[bool]]:
        """The stages as they act on the samples, and which of them give one row for each."""
        called: list[Module] = []
        readable: list[bool] = []

        def see(part: Module, _: object, output: object) -> None:
            called.append(part)
            readable.append(self._has_rows(output))

        with self._answering(), self._evaluating({part: see for part in self._staged()}), self._torch.no_grad():
            found = self._call(self._states[0], self._inputs)
        if not self._has_rows(found):
            tensor = isinstance(found, self._torch.Tensor)
            came = f"a tensor of {described(found)}" if tensor else f"a {type(found).__name__}"
            raise InvalidInput(
                f"model must give a tensor with one row per sample ({len(self._inputs)}), and it gives {came}."
            )
        if not found.dtype.is_floating_point:
            raise InvalidInput(f"the outputs of the model must be floating-point numbers, and they are {found.dtype}.")
        twice = {part for part in called if called.count(part) > 1 and self._kind(part) != "activation"}
        kinds = ((part, "other" if part in twice else self._kind(part)) for part in called)
        return tuple(Stage(self._names[part], kind) for part, kind in kinds if kind), readable

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Whatever a module stumbles over, in one sentence."""
        try:
            yield
        except Exception as error:
            raise InvalidInput(
                f"model must take inputs of shape {tuple(self._inputs.shape)}, samples first, and it fails: "
                f"{in_one_line(error)}"
            ) from error

    def _has_rows(self, output: object) -> bool:
        return isinstance(output, self._torch.Tensor) and output.ndim > 0 and len(output) == len(self._inputs)

    def _is_sequential(self) -> bool:
        nn = self._torch.nn
        others = [part for part in self._module.modules() if type(part) is not nn.Sequential]
        plain = (type(part).__module__.startswith("torch.nn.modules") and not list(part.children()) for part in others)
        return type(self._module) is nn.Sequential and all(plain)

    def _with_statistics(self, state: State) -> State:
        if not self._untried:
            return state
        with self._answering(), self._evaluating(), self._torch.no_grad(), self._untried.seen() as found:
            self._call(state, self._inputs)
        return state | found

    # checks ----------------------------------------------------------------------------------------------------

    def _state(self, t: int, given: object) -> State:
        """A checkpoint as tensors like those of the module."""
        if isinstance(given, str | os.PathLike):
            given = _files.read_state_dict(os.fsdecode(given))
        if not isinstance(given, Mapping):
            raise InvalidInput(
                f"checkpoint {t} must be a state_dict or the path of a .safetensors file, and it is a "
                f"{type(given).__name__}."
            )
        wanted = self._own
        missing, unknown = [n for n in wanted if n not in given], [n for n in given if n not in wanted]
        if missing or unknown:
            what = f"it lacks {missing[0]}" if missing else f"it has {unknown[0]}"
            raise InvalidInput(
                f"checkpoint {t} must hold what model.state_dict() holds, and {what} "
                f"({len(missing)} names are missing, {len(unknown)} unknown)."
            )
        once = {name for named in (self._module.named_parameters(), self._module.named_buffers()) for name, _ in named}
        return {name: self._like(name, given[name], t) for name in wanted if name in once}  # of shared ones, the first

    def _like(self, name: str, value: Tensor | Array, t: int = 0) -> Tensor:
        """A tensor of the module's type and device, with its own numbers."""
        own = self._own[name]
        tensor = value.detach() if isinstance(value, self._torch.Tensor) else self._torch.as_tensor(np.array(value))
        if tensor.shape != own.shape:
            raise InvalidInput(
                f"{name} in checkpoint {t} must have the shape {tuple(own.shape)} that it has in the model, and it has "
                f"{tuple(tensor.shape)}."
            )
        if tensor.dtype.is_floating_point and not self._torch.isfinite(tensor).all():
            raise NotFinite(
                f"{name} must be finite, and in checkpoint {t} it is not: leave out what came after the run diverged."
            )
        return tensor.to(own.dtype).to(own.device)  # not all devices have double precision

    def _refuse_views(self) -> None:
        """state_dict() does not copy: one kept during training holds what the module holds now."""
        first = self._states[0]
        for t, state in enumerate(self._states[1:], start=1):
            if all(state[name].data_ptr() == first[name].data_ptr() for name in self._learned):
                raise InvalidInput(
                    f"checkpoint {t} must have tensors of its own, and it shares those of checkpoint 0: state_dict() "
                    "does not copy, and copy.deepcopy(model.state_dict()) does."
                )

    def _as_tensor(self, inputs: Array) -> Tensor:
        """The samples on the module's device; numbers with a point in its type, tokens as they are."""
        own = next(self._module.parameters())
        tensor = self._torch.as_tensor(np.array(inputs))
        return (tensor.to(own.dtype) if tensor.dtype.is_floating_point else tensor).to(own.device)

    def _checked_names(self, hidden: object) -> list[str]:
        if hidden is None:
            return []
        if isinstance(hidden, str) or not isinstance(hidden, Sequence):
            raise InvalidInput(
                f"hidden must list names of submodules, such as ['fc1', 'fc2'], and it is {_check.shown(hidden)}."
            )
        parts = {name: part for part, name in self._names.items() if name}
        return [_check.choice("each name in hidden", name, tuple(parts)) for name in hidden]
