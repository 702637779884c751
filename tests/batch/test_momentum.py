"""Momentum, step by step against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import lazyrich as lr


def reference(problem, kind, rate, steps, momentum, nesterov):
    """Weights after so many steps, by backpropagation written out."""
    X, Y, P = problem.task.inputs, problem.task.targets, len(problem.task.inputs)
    W = [np.array(each) for each in problem.network.weights]
    M = [0.0 for _ in W]
    for _ in range(steps):
        signals, bends = [X.T], []
        for w in W[:-1]:
            z = w @ signals[-1]
            signals.append(np.tanh(z) if kind == "tanh" else np.maximum(z, 0) if kind == "relu" else z)
            bends.append(1 - np.tanh(z) ** 2 if kind == "tanh" else (z > 0) * 1.0 if kind == "relu" else 1.0)
        error, slopes = (Y.T - W[-1] @ signals[-1]) / P, [None] * len(W)
        for i in range(len(W) - 1, -1, -1):
            slopes[i] = error @ signals[i].T - problem.weight_decay * W[i]
            error = (W[i].T @ error) * bends[i - 1] if i else error
        M = [momentum * m + g for m, g in zip(M, slopes, strict=True)]
        ahead = [g + momentum * m for m, g in zip(M, slopes, strict=True)] if nesterov else M
        W = [w + rate * eta * g for w, eta, g in zip(W, problem.rates, ahead, strict=True)]
    return W


@pytest.mark.parametrize("activation", ["linear", "tanh", "relu"])
@pytest.mark.parametrize("nesterov", [False, True])
def test_of_one_and_of_many(activation, nesterov):
    rng = np.random.default_rng(0)
    task = lr.Task.from_data(rng.normal(size=(20, 3)), rng.normal(size=(20, 2)))
    problems = [
        lr.Problem(task, lr.Network([0.5 * rng.normal(size=shape) for shape in ((4, 3), (4, 4), (2, 4))], activation),
                   rates=[1.0, 0.5, 2.0], weight_decay=0.01)
        for _ in range(3)
    ]  # fmt: skip
    how = {"rate": 0.02, "steps": 40, "momentum": 0.9, "nesterov": nesterov}
    many = lr.batch.descend(problems, **how)
    for problem, run in zip(problems, many, strict=True):
        expected = reference(problem, activation, 0.02, 40, 0.9, nesterov)
        for W, own, alone in zip(expected, run.weights, lr.descend(problem, **how).weights, strict=True):
            assert np.abs(own[-1] - W).max() < 1e-12 and np.abs(alone[-1] - W).max() < 1e-12
