"""Regression tasks: random labels, linear teachers with and without noise, and a task reversed."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

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


class NoisyTeacher(NamedTuple):
    """What a noisy teacher gives: samples to learn from, and the truth behind them.

    >>> train, test, U, V = lr.tasks.noisy_teacher(0, d_in=6, d_out=4, strengths=[3.0, 1.0])
    >>> test.target.shape, bool(np.linalg.norm(test.target - U * [3.0, 1.0] @ V.T) < 1e-12)
    ((4, 6), True)
    """

    train: Task
    test: Task
    U: Float[Array, "out r"]  # singular vectors of the teacher
    V: Float[Array, "in r"]


def noisy_teacher(
    rng: Rng,
    *,
    d_in: int,
    d_out: int,
    strengths: ArrayLike | None = None,
    rank: int | None = None,
    samples: int | None = None,
    noise: float = 1.0,
) -> NoisyTeacher:
    """A linear teacher of low rank whose answers are noisy, on white inputs (Lampinen and Ganguli 2019).

    Training finds Σyx = U diag(s) Vᵀ and, of the noise, entries of variance noise²/samples on top of it. As many
    samples as inputs and noise 1, which is what you get if you say nothing, are the setting of that paper.

    Parameters
    ----------
    rng : a seed, or a NumPy Generator
    d_in, d_out : numbers of inputs and outputs
    strengths : singular values of the teacher; its singular vectors are random
    rank : instead of strengths, how many: they are drawn between 1 and 5
    samples : at least as many as inputs; without it as many
    noise : standard deviation of what is added to every target

    Returns
    -------
    NoisyTeacher : train, test (the teacher itself, on white inputs and without noise), and its singular vectors U, V

    >>> taught = lr.tasks.noisy_teacher(0, d_in=50, d_out=50, strengths=[4.0])
    >>> taught.train.modes.s[:2].round(2), taught.test.modes.s[:2]  # of noise alone: up to 2
    (array([4.04, 1.79]), array([4., 0.]))
    """
    generator = _check.as_rng(rng)
    d_out, d_in = _check.count("d_out", d_out), _check.count("d_in", d_in)
    noise = _check.positive("noise", noise, or_zero=True)
    if (strengths is None) == (rank is None):
        raise _check.InvalidInput(
            "strengths or rank must be given, one of the two: try strengths=[3.0, 2.0], or rank=2 for random ones."
        )
    of_teacher, of_inputs, of_noise = generator.spawn(3)  # more noise or samples do not change the teacher
    if strengths is None:
        s = np.sort(of_teacher.uniform(1.0, 5.0, size=_check.count("rank", rank, most=min(d_in, d_out))))[::-1]
    else:
        s = np.sort(_check.above_zero("strengths", np.atleast_1d(_check.as_array("strengths", strengths))))[::-1]
    if s.ndim != 1 or len(s) > min(d_in, d_out):
        raise _check.InvalidInput(
            f"strengths must be a vector of at most min(d_in, d_out) = {min(d_in, d_out)} numbers, and it has shape "
            f"{s.shape}."
        )
    U, V = (np.linalg.qr(of_teacher.normal(size=(d, len(s))))[0] for d in (d_out, d_in))
    T = U * s @ V.T
    X = _white_inputs(of_inputs, d_in, d_in if samples is None else samples)
    Y = X @ T.T + noise * of_noise.normal(size=(len(X), d_out))
    test = Task.from_correlations(T, name="the teacher itself")
    return NoisyTeacher(_white_task(X, Y, "noisy teacher"), test, U, V)


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
