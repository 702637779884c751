"""Random initialisations beside their closed form: which networks, on which tasks, and how far the two are apart.

What is compared with the flow, all from `lr.predict`, which integrates QQᵀ and knows nothing of a closed form there:

    closed form   every mode by itself, with its own c (theory: section 11)
    corrected     the same with what the couplings of the modes do to it, at second order

Errors of a mode are those of its strength at any time, over the largest singular value. Errors of a half time are
relative; modes that go less than a tenth of the longest way have none worth speaking of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lazyrich._check import choice
from lazyrich._typing import Array, Float
from lazyrich.networks import Network
from lazyrich.observables import half_times
from lazyrich.papers.base.types import Rng
from lazyrich.papers.data.embedded import read_digits
from lazyrich.predict import predict
from lazyrich.problem import Problem
from lazyrich.tasks import Task, semantic_hierarchy

_FAR_ENOUGH = 0.1  # of the longest way of a mode
_FINER = 4  # steps of the couplings between two times of the flow

TOLD = ("closed form", "corrected")


def _random_task(d_in: int, d_out: int) -> Callable[[int], Task]:
    def task(seed: int) -> Task:
        rng = np.random.default_rng([seed, d_in, d_out])
        return Task.from_correlations(rng.normal(size=(d_out, d_in)) / np.sqrt(d_in))

    return task


def _digits(seed: int) -> Task:
    """Which digit it is, from its pixels made white: 61 directions of the 64 vary."""
    first, labels, others, more = read_digits()
    images, labels = np.concatenate([first, others]), np.concatenate([labels, more])
    left, size, _ = np.linalg.svd(images.reshape(len(images), -1).astype(float), full_matrices=False)
    white = np.sqrt(len(images)) * left[:, size > 1e-9 * size[0]]
    return Task.from_correlations(np.eye(10)[labels].T @ white / len(images))


#: What is learned, by its inputs and outputs; random tasks are drawn anew with every network.
TASKS: dict[str, Callable[[int], Task]] = {
    "5 → 4": _random_task(5, 4),
    "20 → 10": _random_task(20, 10),
    "hierarchy 8 → 8": lambda seed: semantic_hierarchy(),
    "digits 61 → 10": _digits,
}
#: The bounds or deviations of both layers, over sizes d_in, h, d_out.
_LAYERS: dict[str, Callable[[int, int, int], tuple[float, float]]] = {
    "gaussian": lambda d_in, h, d_out: (h**-0.5, h**-0.5),
    "pytorch": lambda d_in, h, d_out: (d_in**-0.5, h**-0.5),
    "keras": lambda d_in, h, d_out: ((6 / (d_in + h)) ** 0.5, (6 / (h + d_out)) ** 0.5),
}
INITIALISATIONS = tuple(_LAYERS)
SAID = {"gaussian": "Gaussian", "pytorch": "PyTorch", "keras": "Keras"}


def network(rng: Rng, initialisation: str, sizes: tuple[int, int, int], scale: float = 1.0) -> Network:
    """Two linear layers as they come, times `scale`: Gaussian of variance 1/h, PyTorch's default for `Linear` (uniform
    within 1/√fan_in), or Keras's (uniform within √(6/(fan_in + fan_out)), Glorot's).

    >>> from lazyrich.papers.tu2024.random_starts import network
    >>> abs(network(np.random.default_rng(0), "pytorch", (4, 1000, 2)).weights[0]).max().round(2)
    np.float64(0.5)
    """
    d_in, h, d_out = sizes
    kind = choice("initialisation", initialisation, INITIALISATIONS)
    layers = []
    for size, shape in zip(_LAYERS[kind](*sizes), ((h, d_in), (d_out, h)), strict=True):
        drawn = rng.normal(size=shape) if kind == "gaussian" else rng.uniform(-1, 1, size=shape)
        layers.append(scale * size * drawn)
    return Network(layers)


def problem(task: str, initialisation: str, hidden: int, scale: float, seed: int) -> Problem:
    """A task and a network on it, by their names."""
    learned = TASKS[choice("task", task, tuple(TASKS))](seed)
    rng = np.random.default_rng([seed, hidden, INITIALISATIONS.index(initialisation), 17])
    return Problem(learned, network(rng, initialisation, (learned.d_in, hidden, learned.d_out), scale))


@dataclass(frozen=True, eq=False)
class Compared:
    """One network: strengths of its modes by the flow, by the closed form, and by that with the couplings."""

    problem: Problem
    times: Float[Array, " T"]
    flow: Float[Array, "T m"]
    closed: Float[Array, "T m"]
    corrected: Float[Array, "T m"]
    half_times: Float[Array, "3 m"]  # in the same order
    limit: Float[Array, " m"]

    @property
    def mode_errors(self) -> Float[Array, " 2"]:
        """Of the closed form and of the corrected curves: the largest of any mode at any time."""
        both = np.stack([self.closed, self.corrected])
        return np.abs(both - self.flow).max(axis=(1, 2)) / self.limit.max()

    @property
    def half_time_errors(self) -> Float[Array, "2 m"]:
        """Relative; nan for modes that do not go far."""
        way = np.abs(self.limit - self.flow[0])
        off = np.abs(self.half_times[1:] / self.half_times[0] - 1)
        return np.where(way >= _FAR_ENOUGH * way.max(), off, np.nan)


def compare(problem: Problem) -> Compared:
    """The flow of a random initialisation beside its closed form.

    >>> from lazyrich.papers.tu2024.random_starts import compare, problem
    >>> found = compare(problem("5 → 4", "gaussian", 200, 0.05, seed=0))
    >>> bool(found.mode_errors[0] < 0.006), bool(found.mode_errors[1] < found.mode_errors[0])
    (True, True)
    """
    found = predict(problem)
    closed = found.closed_form
    assert closed is not None  # white inputs, room for all modes
    times, strengths = found.trajectory.times, found.strengths
    fine = np.interp(np.arange(_FINER * (len(times) - 1) + 1) / _FINER, np.arange(len(times)), times)
    alone = closed.strengths(fine)
    corrected = alone + closed.modes.coupled(fine, np.array([], dtype=int)).correction
    limit = closed.modes.limit
    halves = [found.half_times, closed.half_times, half_times(fine, corrected, limit)]
    return Compared(problem, times, strengths, alone[::_FINER], corrected[::_FINER], np.array(halves), limit)
