"""Regression tasks: random labels, a linear teacher, and a task reversed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lazyrich import _check
from lazyrich._typing import Array, ArrayLike, Float, Rng
from lazyrich.tasks.task import Task, as_task


def random_regression(rng: Rng, *, d_in: int, d_out: int, samples: int) -> Task:
    """Whitened Gaussian inputs, Gaussian targets of variance 1/d_out (Braun et al. 2022).

    Parameters
    ----------
    rng : a seed, or a NumPy Generator
    d_in, d_out : numbers of inputs and outputs
    samples : at least as many as inputs

    Returns
    -------
    Task

    >>> lr.tasks.random_regression(0, d_in=4, d_out=3, samples=10)
    <Task 'random regression': 4 inputs, 3 outputs, 10 samples>
    """
    generator = _check.as_rng(rng)
    X = _white_inputs(generator, d_in, samples)
    Y = generator.normal(size=(len(X), _check.count("d_out", d_out))) / np.sqrt(d_out)
    return _white_task(X, Y, "random regression")


def linear_teacher(rng: Rng, teacher: ArrayLike, *, samples: int, noise: float = 0.0) -> Task:
    """Whitened Gaussian inputs, targets `teacher @ x` plus Gaussian noise.

    Parameters
    ----------
    rng : a seed, or a NumPy Generator
    teacher : a d_out × d_in matrix
    samples : at least as many as inputs
    noise : standard deviation

    Returns
    -------
    Task

    >>> task = lr.tasks.linear_teacher(0, [[1.0, 0.0, 2.0]], samples=20)
    >>> task.target.round(12)
    array([[1., 0., 2.]])
    """
    generator = _check.as_rng(rng)
    T = _check.as_matrix("teacher", teacher)
    noise = _check.positive("noise", noise, or_zero=True)
    X = _white_inputs(generator, T.shape[1], samples)
    Y = X @ T.T + noise * generator.normal(size=(len(X), len(T)))
    return _white_task(X, Y, "linear teacher")


def reversal(task: Task) -> Task:
    """The same task with every label reversed.

    Parameters
    ----------
    task : with samples or without

    Returns
    -------
    Task

    >>> lr.tasks.reversal(lr.Task.from_correlations([[2.0]])).target
    array([[-2.]])
    """
    task = as_task(task)
    return replace(
        task,
        sigma_yx=-task.sigma_yx,
        targets=None if task.targets is None else -task.targets,
        name=f"{task.name} reversed".strip(),
    )


def _white_inputs(generator: np.random.Generator, d_in: int, samples: int) -> Float[Array, "P in"]:
    d_in, samples = _check.count("d_in", d_in), _check.count("samples", samples)
    if samples < d_in:
        raise _check.InvalidInput(f"samples must be at least d_in ({d_in}) for whitened inputs, and it is {samples}.")
    left, _, Vt = np.linalg.svd(generator.normal(size=(samples, d_in)), full_matrices=False)
    return np.sqrt(samples) * left @ Vt


def _white_task(X: Float[Array, "P in"], Y: Float[Array, "P out"], name: str) -> Task:
    """`from_data`, with Σxx the identity to the last bit and not only to rounding."""
    return replace(Task.from_data(X, Y, name=name), sigma_xx=np.eye(X.shape[1]))
