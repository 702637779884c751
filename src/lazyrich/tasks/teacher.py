"""A two-layer teacher of few neurons on inputs from the sphere: y = Σ_k a_k σ(w_kᵀx), σ(z) = max(z, γz).

The task of Chizat et al. 2019 and Kunin et al. 2024 (Fig. 1): w_k uniform on the sphere, a_k = ±1, labels
without noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float, Rng
from lazyrich.tasks.task import Task


class Taught(NamedTuple):
    """What a teacher gives: samples to learn from, others to test on, and its own neurons.

    >>> train, test, w, a = lr.tasks.piecewise_teacher(0, d=5, neurons=3, samples=20, test=100)
    >>> train.inputs.shape, test.inputs.shape, w.shape, a.shape
    ((20, 5), (100, 5), (3, 5), (3,))
    """

    train: Task
    test: Task
    w: Float[Array, "k in"]
    a: Float[Array, " k"]


def piecewise_teacher(
    rng: Rng, *, d: int, neurons: int = 3, samples: int, test: int = 1000, slope: float = 0.0
) -> Taught:
    """Inputs uniform on the sphere, labelled by a ReLU teacher.

    Parameters
    ----------
    rng : a seed, or a NumPy Generator
    d : dimensions of the inputs
    neurons : of the teacher
    samples, test : to learn from, and to test on
    slope : of a leaky teacher, below zero

    Returns
    -------
    Taught : train, test, and the teacher's w and a

    >>> taught = lr.tasks.piecewise_teacher(0, d=10, samples=50)
    >>> taught.train, taught.w.shape
    (<Task 'piecewise teacher': 10 inputs, 1 outputs, 50 samples>, (3, 10))
    """
    generator = _check.as_rng(rng)
    given = {"d": d, "neurons": neurons, "samples": samples, "test": test}
    d, neurons, samples, test = (_check.count(name, value, most=10**7) for name, value in given.items())
    slope = _check.positive("slope", slope, or_zero=True)
    if slope > 1:
        raise InvalidInput(f"slope must lie between 0 and 1, and it is {slope:g}.")
    w, a = unit_vectors(generator, neurons, d), generator.choice([-1.0, 1.0], size=neurons)

    def labelled(generator: np.random.Generator, count: int) -> Task:
        X = unit_vectors(generator, count, d)
        z = X @ w.T
        return Task.from_data(X, np.where(z > 0, z, slope * z) @ a[:, None], name="piecewise teacher")

    of_train, of_test = generator.spawn(2)  # more samples do not change the others
    return Taught(labelled(of_train, samples), labelled(of_test, test), w, a)


def unit_vectors(rng: np.random.Generator, count: int, size: int) -> Float[Array, "count size"]:
    """Uniform on the sphere."""
    vectors = rng.normal(size=(count, size))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
