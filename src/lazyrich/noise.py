"""What makes gradient descent random: mini-batches, noise on targets, noise on weights (`batch.draws` draws them)."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array
from lazyrich.tasks import Task

_LARGEST_SEED = 2**63 - 1  # that JAX takes
_MOST_STEPS = 2**32 - 1  # that a key can tell apart


class Kind(NamedTuple):
    """What of the noise a compiled program must know; how large it is comes with the data."""

    batch: int | None
    replacement: bool
    targets: bool
    weights: bool

    @property
    def on_samples(self) -> bool:
        """Whether single samples are seen: linear networks are else content with correlations."""
        return self.batch is not None or self.targets


@dataclass(frozen=True)
class Noise:
    """What is random in each step of gradient descent; nothing, unless told.

    From one seed come the same numbers wherever they are needed: a draw depends on the seed, the step and what it is
    for, and on nothing that was drawn before. With `key = jax.random.key(seed)` and `fold = jax.random.fold_in`, the
    step n = 0, 1, … on P samples takes

    - the batch `randint(fold(fold(key, 0), n), (b,), 0, P, "int32")` with replacement, and without it
      `permutation(fold(fold(key, 0), n // m), arange(P, dtype="int32"))[b * (n % m):][:b]`, with m = P // b batches an
      epoch;
    - the noise on labels `normal(fold(fold(key, 1), n), (samples of the step, outputs))`;
    - that on the weights of layer ℓ = 0, 1, … `normal(fold(fold(fold(key, 2), n), ℓ), shape)`, where biases are the
      last column of their layer. Normal numbers are of double precision, in JAX with `jax.enable_x64()`.

    Parameters
    ----------
    batch : samples per step, as a mini-batch; None: all of them
    replacement : whether each sample of a batch is drawn from all, independently. Otherwise samples are shuffled before
        every epoch and go through in batches; those too few for another batch sit out that epoch
    labels : standard deviation of the Gaussian noise on each target, drawn afresh in every step
    weights : that of the Gaussian noise on each weight, per unit of time: a step with the rate h of a layer with the
        rate η adds σ √(hη) ξ. With all samples and small steps, the weights come to have the density
        exp(−2 loss/σ²), as by Langevin's equation at the temperature σ²/2

    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.gaussian(0, sizes=(8, 14, 8), scale=0.1))
    >>> run = lr.descend(problem, rate=0.1, steps=1000, noise=lr.Noise(batch=4), seed=3)
    >>> run.notes
    ('mini-batches of 4 without replacement, seed 3',)
    """

    batch: Any = None  # int or None, once made
    replacement: Any = False  # bool, once made
    labels: Any = 0.0  # float, once made
    weights: Any = 0.0

    def __post_init__(self) -> None:
        if self.batch is not None:
            if isinstance(self.batch, bool | np.bool_):
                raise InvalidInput(f"batch must be a number of samples, and it is {self.batch}: try batch=8.")
            object.__setattr__(self, "batch", _check.count("batch", self.batch))
        object.__setattr__(self, "replacement", _check.flag("replacement", self.replacement))
        for name in ("labels", "weights"):
            object.__setattr__(self, name, _check.positive(name, getattr(self, name), or_zero=True))

    @property
    def kind(self) -> Kind | None:
        """None: there is none."""
        kind = Kind(self.batch, self.batch is not None and self.replacement, self.labels > 0, self.weights > 0)
        return kind if kind.on_samples or kind.weights else None

    def check(self, task: Task, steps: int) -> None:
        """A sentence where there is no batch to draw, a task has no samples, or there are more steps than keys."""
        if self.replacement and self.batch is None:
            raise InvalidInput("replacement=True needs a batch to draw, and there is none: try batch=8.")
        if self.kind is None:
            return
        if steps > _MOST_STEPS:
            raise InvalidInput(f"steps must be at most {_MOST_STEPS:,} with noise, and it is {steps:,}.")
        if not self.kind.on_samples:
            return
        if task.inputs is None:
            what = "mini-batches need" if self.batch is not None else "noise on labels needs"
            raise InvalidInput(
                f"{what} the samples of the task, and this task holds correlations only: try "
                "Task.from_data(inputs, targets), or Noise(weights=…), which does without."
            )
        if self.batch is not None and self.batch > len(task.inputs):
            raise InvalidInput(
                f"batch must be at most the number of samples ({len(task.inputs)}), and it is {self.batch}: try "
                "batch=None, which takes all."
            )

    def spread(self, samples: int) -> float:
        """Covariance of the mean over a batch, in parts of the covariance of one sample.

        >>> lr.Noise(batch=4, replacement=True).spread(8), round(lr.Noise(batch=4).spread(8), 4), lr.Noise().spread(8)
        (0.25, 0.1429, 0.0)
        """
        if self.batch is None or samples == 1:
            return 0.0
        return 1 / self.batch if self.replacement else (samples - self.batch) / (self.batch * (samples - 1))

    def __str__(self) -> str:
        parts = [f"mini-batches of {self.batch} with{'' if self.replacement else 'out'} replacement"] * bool(self.batch)
        parts += [f"noise {self.labels:g} on labels"] * bool(self.labels)
        parts += [f"noise {self.weights:g} on weights"] * bool(self.weights)
        return ", ".join(parts) or "no noise"


class Seeded(NamedTuple):
    """The noise of one network, and the seed that it is drawn from."""

    noise: Noise
    seed: int

    @property
    def key_data(self) -> Array:
        """What `jax.random.key(seed)` holds in double precision; in single it would take half of a large seed."""
        return np.array([self.seed >> 32, self.seed & 0xFFFFFFFF], np.uint32)

    def __str__(self) -> str:
        return f"{self.noise}, seed {self.seed}"


def as_noise(value: object) -> Noise:
    """Noise, or a sentence."""
    if not isinstance(value, Noise):
        raise _no_noise(value)
    return value


def _no_noise(value: object) -> InvalidInput:
    return InvalidInput(f"noise must be an lr.Noise such as Noise(batch=8), and it is {_check.shown(value)}.")


def seeded(noise: object, seed: object, tasks: Sequence[Task], steps: int) -> list[Seeded]:
    """Noise and seed of each network: one noise, or one per network, and one seed per network, or the first of them."""
    noises = [noise] * len(tasks) if noise is None or isinstance(noise, Noise) else noise
    if not isinstance(noises, list | tuple) or not all(each is None or isinstance(each, Noise) for each in noises):
        raise _no_noise(noise)
    if len(noises) != len(tasks):
        raise InvalidInput(f"noise must be one, or one per problem ({len(tasks)}), and there are {len(noises)}.")
    chosen = [Noise() if each is None else each for each in noises]
    for each, task in zip(chosen, tasks, strict=True):
        each.check(task, steps)
    return [Seeded(each, own) for each, own in zip(chosen, as_seeds(seed, len(tasks)), strict=True)]


def as_seeds(seed: object, count: int) -> list[int]:
    """s, s + 1, … from one seed s, or one for each."""
    if isinstance(seed, Iterable) and not isinstance(seed, str | bytes) and np.ndim(list(seed)):
        given = list(seed)
        if len(given) != count:
            raise InvalidInput(f"seed must be one, or one per problem ({count}), and there are {len(given)}.")
        return [as_seed(each) for each in given]
    first = as_seed(seed)
    return [as_seed(first + i) for i in range(count)]


def as_seed(seed: Any, name: str = "seed") -> int:
    """A whole number that is a key."""
    try:
        whole = operator.index(seed)
    except TypeError:
        whole = -1
    if isinstance(seed, bool) or not 0 <= whole <= _LARGEST_SEED:
        raise InvalidInput(f"{name} must be a whole number from 0 to 2⁶³ − 1, and it is {_check.shown(seed)}.")
    return whole
