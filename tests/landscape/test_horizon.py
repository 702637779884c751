"""`horizon`: what is left of the loss when it comes, by an integration that shares no code with the closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import lazyrich as lr


def integrated_loss(problem: lr.Problem, times: list[float]) -> np.ndarray:
    """The loss along the gradient flow of two layers, by SciPy."""
    (W1, W2), task = problem.network.weights, problem.task

    def velocity(_, flat):
        A, B = flat[: W1.size].reshape(W1.shape), flat[W1.size :].reshape(W2.shape)
        E = task.sigma_yx - B @ A @ task.sigma_xx
        slopes = (B.T @ E - problem.weight_decay * A, E @ A.T - problem.weight_decay * B)
        return np.concatenate([(rate * slope).ravel() for rate, slope in zip(problem.rates, slopes, strict=True)])

    start = np.concatenate([W1.ravel(), W2.ravel()])
    run = solve_ivp(velocity, (0.0, times[-1]), start, t_eval=times, method="DOP853", rtol=1e-10, atol=1e-13)
    parts = [(y[: W1.size].reshape(W1.shape), y[W1.size :].reshape(W2.shape)) for y in run.y.T]
    return np.array([float(task.loss(B @ A)) for A, B in parts])


@pytest.mark.long
@pytest.mark.parametrize("lam", [-4.0, 0.0, 0.3, 6.0])
@pytest.mark.parametrize("scale", [1e-3, 0.2, 2.0])
def test_by_the_horizon_the_loss_has_fallen_and_not_long_before(lam, scale):
    task = lr.tasks.random_regression(1, d_in=4, d_out=3, samples=20)
    problem = lr.Problem(task, lr.inits.lambda_balanced(3, sizes=(4, 3, 3), lam=lam, scale=scale))
    end = lr.landscape.horizon(problem)
    loss = integrated_loss(problem, [0.0, end / 2, end, 20 * end])
    left = np.abs(loss - loss[-1]) / np.abs(loss[:2] - loss[-1]).max()
    assert left[2] <= 1.1e-3
    assert left[1] > 1e-3


def test_without_a_closed_form_it_is_an_estimate_that_shows_most():
    task = lr.tasks.semantic_hierarchy()
    problem = lr.Problem(task, lr.inits.gaussian(0, sizes=(8, 14, 8), scale=0.1))
    assert problem.facts.method is None
    end = lr.landscape.horizon(problem)
    loss = integrated_loss(problem, [0.0, end, 20 * end])
    assert loss[1] - loss[2] < 0.05 * (loss[0] - loss[2])


def test_where_nothing_happens_there_is_still_a_time_to_show():
    task = lr.Task.from_correlations(np.zeros((2, 2)))
    still = lr.Problem(task, lr.Network([np.zeros((2, 2)), np.zeros((2, 2))]))
    assert 0 < lr.landscape.horizon(still) < np.inf


def test_two_digits():
    problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.013))
    end = lr.landscape.horizon(problem)
    assert end == float(f"{end:.2g}")
