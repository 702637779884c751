"""What users hand over as a network, made a `Run`: modules of PyTorch, models and functions in JAX, trajectories."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import SupportsFloat

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, ArrayLike, Float, Tree
from lazyrich.laziness.checkpoints import Run, is_torch_module
from lazyrich.networks import Network
from lazyrich.trajectory import Trajectory


def as_samples(inputs: ArrayLike, samples: int, seed: int) -> tuple[Array, int]:
    """Those that are drawn, in their order, and how many there were."""
    samples, seed = _check.count("samples", samples, least=2), _check.count("seed", seed, least=0)
    inputs = _check.from_any_library("inputs", inputs)
    if inputs.dtype.kind not in "fiub":
        _check.as_array("inputs", inputs)  # says why not
    if inputs.ndim == 0 or len(inputs) < 2:
        raise InvalidInput(
            f"inputs must hold two samples at least, along the first axis, and it has shape {inputs.shape}."
        )
    chosen = np.arange(len(inputs))
    if len(inputs) > samples:
        chosen = np.sort(np.random.default_rng(seed).choice(len(inputs), samples, replace=False))
    return _as_inputs(inputs[chosen]), len(inputs)


def _as_inputs(value: Array) -> Array:
    """Finite numbers; whole ones (tokens) stay what they are."""
    checked = _check.as_array("inputs", value)
    return value if value.dtype.kind in "iub" else checked


def as_losses(value: ArrayLike | None, count: int) -> Float[Array, " T"] | None:
    if value is None:
        return None
    losses = _check.as_array("loss", value, ndim=1)
    if len(losses) != count:
        raise InvalidInput(f"loss must have one number for each of the {count} checkpoints, and it has {len(losses)}.")
    return losses


def as_loss(value: SupportsFloat | None) -> float:
    """One loss as a number, nan where there is none; a tensor of PyTorch may have its graph."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach()
    return float("nan") if value is None else float(value)


def as_run(model: Tree, inputs: Array, checkpoints: object, hidden: object) -> Run:
    """The run of any kind of model."""
    if is_torch_module(model):
        from lazyrich.laziness.torch_models import TorchRun

        return TorchRun(model, _sequence("checkpoints", checkpoints, "state_dicts or paths"), inputs, hidden)
    from lazyrich.laziness.jax_models import JaxRun, as_equinox

    if checkpoints is not None:
        if not callable(model):
            raise InvalidInput(
                "model must be a function f(parameters, x) or a PyTorch module where checkpoints are given, and it is "
                f"a {type(model).__name__}."
            )
        return JaxRun(model, _sequence("checkpoints", checkpoints, "pytrees of parameters"), inputs, hidden)
    if isinstance(model, Trajectory):
        model = [model.network(t) for t in range(len(model.times))]
    states = _sequence("model", model, "models")
    for t, state in enumerate(states):
        if is_torch_module(state):
            raise InvalidInput(
                "model must be one PyTorch module, with checkpoints=[…] a state_dict for each, and it is a sequence of "
                "modules."
            )
        if not callable(state) and not isinstance(state, Network):
            raise InvalidInput(
                f"checkpoint {t} must be a model that can be called on a sample, and it is a {type(state).__name__}: "
                "try a function of its parameters, with checkpoints=[…]."
            )
    return JaxRun(
        None, [as_equinox(state) if isinstance(state, Network) else state for state in states], inputs, hidden
    )


def as_first(model: Tree, state: Tree, inputs: Array, hidden: object) -> Run:
    """The run of a network whose other checkpoints are to come; what it holds stays as it is now."""
    if is_torch_module(model):
        from lazyrich.laziness.torch_models import TorchRun, bare

        first = bare(model).state_dict() if state is None else state
        return TorchRun(model, [first], inputs, hidden, copied=True)
    from lazyrich.laziness.jax_models import JaxRun, as_equinox

    if not callable(model) and not isinstance(model, Network):
        raise InvalidInput(
            "model must be a PyTorch module, a model that can be called on a sample, or a function f(parameters, x) "
            f"with state=parameters, and it is a {type(model).__name__}."
        )
    if state is not None:
        return JaxRun(model, [state], inputs, hidden)
    return JaxRun(None, [as_equinox(model) if isinstance(model, Network) else model], inputs, hidden)


def _sequence(name: str, value: object, what: str) -> list[Tree]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        raise InvalidInput(f"{name} must be a list of {what}, one per checkpoint, and it is a {type(value).__name__}.")
    if len(value) < 2:
        raise InvalidInput(
            f"{name} must hold two checkpoints at least, the initialisation first, and it holds {len(value)}."
        )
    return list(value)
