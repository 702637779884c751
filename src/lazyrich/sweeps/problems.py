"""The problems that a sweep can name: each factory takes plain numbers and returns one cell.

A cell's rate and times are multiplied by its `clock`, where the literature ties the learning rate to the
initialisation. Cells that share a data set share the very same `Task`: the engine then holds it once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich.inits import lambda_balanced, symmetrised
from lazyrich.networks import Network
from lazyrich.noise import Noise
from lazyrich.problem import Problem
from lazyrich.tasks import Task, Taught, piecewise_teacher, semantic_hierarchy
from lazyrich.tasks import random_regression as regression_task


class Cell(NamedTuple):
    """One problem of a sweep.

    >>> taught = lr.tasks.piecewise_teacher(0, d=3, samples=20, test=50)
    >>> network = lr.inits.gaussian(0, sizes=(3, 8, 1), scale=0.1)
    >>> cell = lr.sweeps.Cell(lr.Problem(taught.train, network), test=taught.test)
    >>> cell.test.inputs.shape, cell.clock
    ((50, 3), 1.0)
    """

    problem: Problem
    test: Task | None = None  # held-out samples
    clock: float = 1.0
    noise: Noise = Noise()  # of descent
    noise_seed: int | None = None  # that it is drawn from; None: from the values of its axes


Factory = Callable[..., Cell | Problem]


def as_factory(problem: object) -> Factory:
    """A factory by name, or itself."""
    if callable(problem):
        return problem
    return PROBLEMS[_check.choice("problem", problem, tuple(PROBLEMS))]


def unwrapped(problem: object) -> tuple[object, dict[str, object]]:
    """The function in a `functools.partial`, and its arguments by name: they are settings of the sweep."""
    known: dict[str, object] = {}
    while isinstance(problem, partial):
        try:
            known = {
                **inspect.signature(problem.func).bind_partial(*problem.args, **problem.keywords).arguments,
                **known,
            }
        except (TypeError, ValueError):
            raise InvalidInput(f"problem must be a function with named arguments, and it is {problem}.") from None
        problem = problem.func
    return problem, known


def teacher_student(
    seed: int,
    tau: float = 1.0,
    delta: float = 0.0,
    d: int = 100,
    h: int = 50,
    teacher: int = 3,
    n: int = 1000,
    test: int = 10_000,
    slope: float = 0.0,
) -> Cell:
    """A symmetrised (leaky) ReLU student of h neurons learns a teacher of a few, on the sphere (Kunin Fig. 1).

    The seed draws teacher, samples and base weights; (τ, δ) rescales these. The clock is 1/τ².
    """
    taught = _taught(seed, d, teacher, n, test, slope)
    student = symmetrised(_rng(seed, "weights"), sizes=(d, h, 1), tau=tau, delta=delta, activation=slope)
    return Cell(Problem(taught.train, student), taught.test, 1 / tau**2)


def random_regression(
    seed: int,
    d_in: int = 8,
    h: int = 8,
    d_out: int = 8,
    samples: int = 32,
    scale: float = 0.01,
    lam: float = 0.0,
    activation: str | float = "linear",
) -> Cell:
    """White Gaussian inputs with Gaussian targets, from a λ-balanced initialisation."""
    start = lambda_balanced(_rng(seed, "weights"), sizes=(d_in, h, d_out), lam=lam, scale=scale)
    return Cell(Problem(_regression(seed, d_in, d_out, samples), Network(start.weights, activation)))


def hierarchy(
    seed: int, h: int = 14, scale: float = 0.01, lam: float = 0.0, activation: str | float = "linear"
) -> Cell:
    """The semantic hierarchy of eight items, from a λ-balanced initialisation."""
    start = lambda_balanced(_rng(seed, "weights"), sizes=(8, h, 8), lam=lam, scale=scale)
    return Cell(Problem(_hierarchy(), Network(start.weights, activation)))


#: Name → factory.
PROBLEMS: dict[str, Factory] = {made.__name__: made for made in (teacher_student, random_regression, hierarchy)}


def _rng(seed: object, stream: str) -> np.random.Generator:
    """Data and weights have streams of their own: more samples do not change the weights."""
    if isinstance(seed, bool) or not isinstance(seed, int | float) or seed != seed // 1 or seed < 0:
        raise InvalidInput(f"seed must be a whole number, not negative, and it is {_check.shown(seed)}.")
    return np.random.default_rng([int(seed), ("data", "weights").index(stream)])


@lru_cache(maxsize=32)  # of published size, 9 MB each
def _taught(seed: int, d: int, teacher: int, n: int, test: int, slope: float) -> Taught:
    return piecewise_teacher(_rng(seed, "data"), d=d, neurons=teacher, samples=n, test=test, slope=slope)


@lru_cache(maxsize=64)
def _regression(seed: int, d_in: int, d_out: int, samples: int) -> Task:
    return regression_task(_rng(seed, "data"), d_in=d_in, d_out=d_out, samples=samples)


@lru_cache(maxsize=1)
def _hierarchy() -> Task:
    return semantic_hierarchy()
