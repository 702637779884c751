"""The engines (JAX, diffrax): loaded when first used, in double precision, with their settings left alone.

And what `flow` and `descend` share. The gradient of a linear network is, with E = −∂loss/∂W,

    −∂loss/∂W_ℓ = W_{L:ℓ+1}ᵀ E W_{ℓ−1:1}ᵀ

and E = Σyx − W Σxx with the squared loss, which sees the data through these two alone (theory: section 0). Both follow
it on the device, call by call, and keep on the host what was asked for.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import reduce
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array

if TYPE_CHECKING:
    pass

XArray = Any  # of NumPy or JAX

#: JAX on the CPU deadlocks when two LAPACK calls (eigh, qr, svd) run at once: what needs one there holds this.
LAPACK_LOCK = threading.Lock()

_RECORDS = ("weights", "function", "gram", "loss")
# on CPU and GPU, in floating-point operations:
_CALL_COST = (1e9, 2e13)  # one call of a compiled loop, some tenths of a second
_GRADIENT_COST = (1e4, 1e9)  # what a gradient costs besides its arithmetic
_CALL_RECORDS = 64  # records in one call, fewer where they are large:
_CALL_MEMORY = 2**24  # numbers


def load(name: str, wanted_by: str, extra: str = "engines") -> ModuleType:
    """The module `name`, or a sentence that says how to install it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ImportError(f"{wanted_by} needs {error.name}: pip install 'lazyrich[{extra}]'.") from None


def double_precision(wanted_by: str) -> AbstractContextManager[object]:
    """float64 in JAX inside a `with` block, for this thread alone."""
    return load("jax", wanted_by).enable_x64(True)


def device_kind() -> str:
    """Where JAX computes: "cpu", "gpu", …"""
    return str(load("jax", "an engine").default_backend())


def by_device(cpu: float, gpu: float) -> float:
    """The one or the other number."""
    return cpu if device_kind() == "cpu" else gpu


def as_record(record: object, depth: int, linear: bool, kind: str, biased: bool = False) -> tuple[str, ...]:
    """The names of what a run is to keep, each checked against the network."""
    names = (record,) if isinstance(record, str) else record
    if not isinstance(names, Iterable):
        raise InvalidInput(f"record must name what to keep, such as ('weights', 'loss'), and it is {record!r}.")
    names = tuple(dict.fromkeys(_check.choice("record", name, _RECORDS) for name in names))
    if not names:
        raise InvalidInput(f"record is empty, and at least one of {', '.join(map(repr, _RECORDS))} is needed.")
    for name in ("function", "gram"):
        if name in names and not linear:
            raise InvalidInput(
                f"record={name!r} belongs to linear networks, and this one is {kind}: try 'weights' or 'loss'."
            )
    if "gram" in names and (depth != 2 or biased):
        came = "biases" if biased else depth
        raise InvalidInput(
            f"record='gram' belongs to two layers without biases, and this network has {came}: try 'weights' or "
            "'function'."
        )
    return names


def linear_gradients(
    weights: Sequence[XArray], pull: Callable[[XArray], XArray]
) -> tuple[list[XArray], XArray, XArray]:
    """−∂loss/∂W_ℓ of each layer, E = −∂loss/∂W, which `pull` makes of W, and W.

    Partial products start at the narrower end of the network, where they are cheaper: from the outputs, the
    same recursion runs through the transposed layers.
    """
    d_out, d_in = len(weights[-1]), weights[0].shape[1]
    chain = [W.T for W in reversed(weights)] if d_out < d_in else list(weights)
    below = [chain[0]]
    for M in chain[1:]:
        below.append(M @ below[-1])
    W = below[-1].T if d_out < d_in else below[-1]
    E = pull(W)
    back, gradients = E.T if d_out < d_in else E, []
    for M, before in zip(chain[:0:-1], below[-2::-1], strict=True):
        gradients.append(back @ before.T)
        back = M.T @ back
    gradients.append(back)
    return ([S.T for S in gradients] if d_out < d_in else gradients[::-1]), E, W


def squared_pull(sigma_yx: XArray, sigma_xx: XArray) -> Callable[[XArray], XArray]:
    """E = Σyx − W Σxx of W, where a number c for Σxx stands for c·I."""
    return lambda W: sigma_yx - (W @ sigma_xx if sigma_xx.ndim else sigma_xx * W)


def observe(
    xp: ModuleType, weights: Sequence[XArray], names: Sequence[str], loss: Callable[[XArray], XArray]
) -> dict[str, list[XArray]]:
    """What is asked for of one state of a linear network, in NumPy or JAX; a list over layers for the weights. `loss`
    is that of a map W."""
    seen = {"weights": list(weights)} if "weights" in names else {}
    if "function" in names or "loss" in names:
        W = reduce(lambda product, W: W @ product, weights)
        seen |= {"function": [W]} if "function" in names else {}
        seen |= {"loss": [loss(W)]} if "loss" in names else {}
    if "gram" in names:
        Q = xp.concatenate([weights[0].T, weights[1]])
        seen["gram"] = [Q @ Q.T]
    return seen


def per_call(
    sizes: tuple[int, ...], columns: int, gradients: int, names: Sequence[str], networks: int = 1
) -> tuple[int, int]:
    """Steps and records of one call of a compiled loop: many enough to be fast, few enough to show progress and to fit.

    A step takes so many gradients of each network, and a gradient carries so many columns through the layers.
    """
    weights, ends = int(np.dot(sizes[1:], sizes[:-1])), (sizes[0], sizes[-1])
    operations = networks * 6 * columns * weights + by_device(*_GRADIENT_COST)
    steps = int(np.clip(by_device(*_CALL_COST) / gradients / operations, 32, 100_000))
    numbers = {"weights": weights, "function": ends[0] * ends[1], "gram": sum(ends) ** 2, "loss": 1}
    record = networks * sum(numbers[name] for name in names)
    return steps, int(np.clip(_CALL_MEMORY // record, 1, min(_CALL_RECORDS, steps // 8)))


class Recording:
    """What was asked for, filled while a run goes on."""

    def __init__(self, length: int) -> None:
        self.count = 0
        self._length = length
        self._buffers: dict[str, list[Array]] = {}

    def add(self, seen: Mapping[str, list[XArray]], count: int) -> None:
        """Appends the first `count` entries of each array."""
        for name, parts in seen.items():
            if name not in self._buffers:
                self._buffers[name] = [np.full((self._length, *part.shape[1:]), np.nan, part.dtype) for part in parts]
            for buffer, part in zip(self._buffers[name], parts, strict=True):
                buffer[self.count : self.count + count] = np.asarray(part)[:count]
        self.count += count

    def parts(self) -> dict[str, Any]:
        """As a trajectory holds them: a list over layers for the weights, an array for all else."""
        kept = {name: [buffer[: self.count] for buffer in buffers] for name, buffers in self._buffers.items()}
        return {name: arrays if name == "weights" else arrays[0] for name, arrays in kept.items()}
