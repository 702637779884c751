"""What learning lowers: a loss that says its value and its pull −∂/∂outputs for every sample.

    squared          ½‖y − f‖²                     pull  y − f
    cross-entropy    log Σ exp f − yᵀf             pull  y − softmax f
    one's own        a function written in JAX     pull  by JAX

Of samples x with outputs f = Wx and the weight n⁻¹ (or 1, for sums), a linear map is pulled by

    E = −∂loss/∂W = n⁻¹ Σ pull(f, y) xᵀ,

which is Σyx − WΣxx for the squared loss alone, where correlations are all that is seen of the data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from lazyrich import _check, _engines
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float, JaxArray
from lazyrich.tasks import Task

_MIXED = 1e-5  # of the largest value: single precision inside it is no mixing of samples
_ROUNDING = 64  # of each probability, in a row that should sum to 1


@dataclass(frozen=True)
class Loss(ABC):
    """A loss of outputs and targets, a sample per row. `Loss.of` takes what `Problem` takes: a word or a function.

    >>> print(lr.Loss.of("cross_entropy"), lr.Loss.of("squared").squared)
    cross_entropy True
    >>> lr.Loss.of("cross_entropy").per_sample(np.array([[0.0, 0.0]]), np.array([[1.0, 0.0]])).round(4)
    array([0.6931])
    """

    squared: ClassVar[bool] = False  # the one that closed forms are about

    @staticmethod
    def of(value: Loss | str | Callable[..., Any]) -> Loss:
        """The loss that a user means, or a sentence."""
        if isinstance(value, Loss):
            return value
        if isinstance(value, str):
            return _NAMED[_check.choice("loss", value, tuple(_NAMED))]
        if callable(value):
            return Own(value)
        raise InvalidInput(
            f"loss must be one of {', '.join(map(repr, _NAMED))}, or a function of outputs and targets written in "
            f"JAX, and it is {_check.shown(value)}."
        )

    @property
    @abstractmethod
    def name(self) -> str:
        """As messages and prints have it."""

    @abstractmethod
    def per_sample(self, outputs: Any, targets: Any, xp: ModuleType = np) -> Any:
        """One number per row, in NumPy or JAX."""

    @abstractmethod
    def pull(self, outputs: Any, targets: Any, xp: ModuleType = np) -> Any:
        """−∂/∂outputs, row by row, in NumPy or JAX."""

    @abstractmethod
    def check(self, task: Task, outputs: Float[Array, "P out"]) -> None:
        """A sentence where the targets do not suit; the outputs are those of the network as it is."""

    @abstractmethod
    def floor(self, task: Task) -> float | None:
        """A number that the loss of the task is never below, the largest that is known; None: none is."""

    def of_outputs(self, task: Task, outputs: Float[Array, "P out"]) -> float:
        """Mean or sum over the samples."""
        return float(_weight(task) * np.sum(self.per_sample(outputs, task.targets)))

    def of_map(self, task: Task, function: Float[Array, "*T out in"]) -> Any:  # a number for one map, an array for many
        """The loss of one or many linear maps on the samples."""
        if np.ndim(function) == 2:
            return self.of_outputs(task, _inputs(task) @ function.T)
        return np.array([self.of_outputs(task, _inputs(task) @ W.T) for W in function])

    def pull_on_map(self, task: Task, W: Float[Array, "out in"]) -> Float[Array, "out in"]:
        """E = −∂loss/∂W of a linear map."""
        return _weight(task) * self.pull(_inputs(task) @ W.T, task.targets).T @ _inputs(task)

    def __str__(self) -> str:
        return self.name


class Squared(Loss):
    """½‖y − f‖²: of linear maps known from correlations."""

    squared = True
    name = "squared"

    def per_sample(self, outputs: Any, targets: Any, xp: ModuleType = np) -> Any:
        return ((targets - outputs) ** 2).sum(-1) / 2

    def pull(self, outputs: Any, targets: Any, xp: ModuleType = np) -> Any:
        return targets - outputs

    def check(self, task: Task, outputs: Float[Array, "P out"]) -> None:
        """Any targets will do."""

    def floor(self, task: Task) -> float:
        return 0.0

    def of_map(self, task: Task, function: Float[Array, "*T out in"]) -> Any:
        return task.loss(function)

    def of_outputs(self, task: Task, outputs: Float[Array, "P out"]) -> float:
        assert task.targets is not None  # whoever has outputs has samples
        return float(np.sum((task.targets - outputs) ** 2) / 2 / (len(outputs) if task.reduction == "mean" else 1))

    def pull_on_map(self, task: Task, W: Float[Array, "out in"]) -> Float[Array, "out in"]:
        return task.sigma_yx - W @ task.sigma_xx


class CrossEntropy(Loss):
    """−Σ y log softmax f of targets y that are probabilities.

    Of the largest output m, and o = Σ exp(f − m) over the others, log Σ exp f = m + log(1 + o): so small losses and
    pulls keep their digits, however sure the network is.
    """

    name = "cross_entropy"

    def per_sample(self, outputs: Any, targets: Any, xp: ModuleType = np) -> Any:
        _, _, others, below = self._parts(outputs, xp)
        return (targets * below).sum(-1) + xp.log1p(others[..., 0])

    def pull(self, outputs: Any, targets: Any, xp: ModuleType = np) -> Any:
        top, share, others, _ = self._parts(outputs, xp)
        return xp.where(top, (targets - 1) + targets * others, targets * (1 + others) - share) / (1 + others)

    @staticmethod
    def _parts(outputs: Any, xp: ModuleType) -> tuple[Any, Any, Any, Any]:
        """Which output is the largest, exp(f − m), their sum over the others, and m − f."""
        top = xp.arange(outputs.shape[-1]) == xp.argmax(outputs, -1)[..., None]
        below = outputs.max(-1)[..., None] - outputs
        share = xp.exp(-below)
        return top, share, xp.where(top, 0.0, share).sum(-1)[..., None], below

    def check(self, task: Task, outputs: Float[Array, "P out"]) -> None:
        targets = np.asarray(task.targets)
        hint = "try Task.from_labels(inputs, labels), or loss='squared'"
        if targets.shape[1] < 2:
            raise InvalidInput(
                "loss='cross_entropy' needs an output for each of two classes or more, and there is "
                f"{targets.shape[1]}: {hint}."
            )
        if (least := targets.min(axis=1)).min() < 0:
            row = int(np.argmax(least < 0))
            raise InvalidInput(
                f"targets must be probabilities for loss='cross_entropy', and row {row} has {least[row]:g}: {hint}."
            )
        off = np.abs(targets.sum(axis=1) - 1)
        if (bad := off > _ROUNDING * targets.shape[1] * task.eps).any():
            row = int(np.argmax(bad))
            raise InvalidInput(
                "targets must be probabilities for loss='cross_entropy', each row with the sum 1, and row "
                f"{row} sums to {targets[row].sum():.15g}: {hint}."
            )

    def floor(self, task: Task) -> float:
        """The entropy of the targets."""
        from scipy.special import xlogy  # here: it is slow to load

        return float(-_weight(task) * np.sum(xlogy(task.targets, task.targets)))


@dataclass(frozen=True, eq=False)
class Own(Loss):
    """A function of outputs and targets (P × d_out, JAX arrays) that gives one number per sample."""

    function: Callable[..., Any]

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def __eq__(self, other: object) -> bool:  # what has been compiled for a function is good for it once more
        return isinstance(other, Own) and self.function is other.function

    def __hash__(self) -> int:
        return id(self.function)

    def per_sample(self, outputs: Any, targets: Any, xp: ModuleType = np) -> Any:
        return _compiled(self)[0](outputs, targets) if xp is np else self.function(outputs, targets)

    def pull(self, outputs: Any, targets: Any, xp: ModuleType = np) -> Any:
        return _compiled(self)[1](outputs, targets) if xp is np else _pulled(self.function)(outputs, targets)

    def check(self, task: Task, outputs: Float[Array, "P out"]) -> None:
        wanted = f"loss must give one finite number per sample, an array of shape ({len(outputs)},)"
        try:
            values = self.per_sample(outputs, task.targets)
            pulls = self.pull(outputs, task.targets) if values.shape == (len(outputs),) else values
        except ImportError:
            raise
        except Exception as error:  # whatever a function of somebody else's may raise
            raise InvalidInput(
                f"loss must be a function of outputs and targets (samples × outputs) written in JAX, and {self.name} "
                f"or its gradient raised {type(error).__name__} on them: try jax.numpy inside it, and see the error "
                "that is the cause."
            ) from error
        if values.shape != (len(outputs),):
            raise InvalidInput(
                f"{wanted}, and {self.name} gives one of shape {values.shape}: leave the mean to the task."
            )
        for what, numbers in (("is", values), ("has a gradient that is", pulls)):
            if bad := int(np.count_nonzero(~np.isfinite(numbers).reshape(len(outputs), -1).all(axis=1))):
                raise InvalidInput(
                    f"{wanted}, and {self.name} {what} NaN or infinite for {bad} of them at the network's outputs."
                )
        alone = self.per_sample(outputs[:1], np.asarray(task.targets)[:1])
        if alone.shape != (1,) or abs(alone[0] - values[0]) > _MIXED * np.abs(values).max():
            raise InvalidInput(
                f"{wanted}, each of its own sample alone, and {self.name} gives the first one {float(values[0]):.6g} "
                f"among the others and {float(np.ravel(alone)[0]):.6g} by itself."
            )

    def floor(self, task: Task) -> None:
        return None


def _pulled(function: Callable[..., Any]) -> Callable[..., JaxArray]:
    jax = _engines.load("jax", "a loss of one's own")
    return jax.grad(lambda outputs, targets: -function(outputs, targets).sum())


@cache
def _compiled(loss: Own) -> tuple[Callable[..., Array], Callable[..., Array]]:
    """Values and pulls of NumPy arrays, in double precision."""
    jax = _engines.load("jax", "a loss of one's own")

    def in_numpy(function: Callable[..., Any]) -> Callable[..., Array]:
        fast = jax.jit(function)

        def call(outputs: Array, targets: Array) -> Array:
            with _engines.double_precision("a loss of one's own"):
                return np.asarray(fast(outputs, targets))

        return call

    return in_numpy(loss.function), in_numpy(_pulled(loss.function))


def _weight(task: Task) -> float:
    """Of one sample."""
    return 1 / len(_inputs(task)) if task.reduction == "mean" else 1.0


def _inputs(task: Task) -> Float[Array, "P in"]:
    assert task.inputs is not None  # `Problem` has asked for samples
    return task.inputs


SQUARED, CROSS_ENTROPY = Squared(), CrossEntropy()
_NAMED: dict[str, Loss] = {SQUARED.name: SQUARED, CROSS_ENTROPY.name: CROSS_ENTROPY}
