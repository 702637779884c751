"""One layer: exact for every input correlation, against scipy and by its limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import integrate
from scipy.linalg import expm

import lazyrich as lr

TIMES = np.array([0.0, 0.1, 1.0, 7.0])


def random_task(rng: np.random.Generator, rank: int, d_in: int = 5, d_out: int = 2) -> lr.Task:
    X = rng.normal(size=(40, rank)) @ rng.normal(size=(rank, d_in))
    return lr.Task.from_data(X, rng.normal(size=(40, d_out)))


@pytest.mark.parametrize("gamma", [0.0, 0.3])
@pytest.mark.parametrize("rank", [1, 3, 5])
def test_follows_the_flow(rng, rank, gamma):
    task, W = random_task(rng, rank), rng.normal(size=(2, 5))
    traj = lr.solve(lr.Problem(task, lr.Network([W]), rates=0.4, weight_decay=gamma), TIMES)
    assert traj.method == "shallow"
    flow = integrate.function([W], task.sigma_yx, task.sigma_xx, TIMES, [0.4], gamma)
    np.testing.assert_allclose(traj.function, flow, atol=1e-9)
    np.testing.assert_allclose(traj.weights[0], traj.function, atol=0)


@pytest.mark.parametrize("rank, gamma", [(5, 0.0), (5, 0.7), (2, 0.7)])
def test_is_the_matrix_exponential(rng, rank, gamma):
    """Where Σxx + γI can be inverted, the solution is one line of linear algebra."""
    task, W = random_task(rng, rank), rng.normal(size=(2, 5))
    traj = lr.solve(lr.Problem(task, lr.Network([W]), weight_decay=gamma), TIMES)
    M = task.sigma_xx + gamma * np.eye(5)
    T = np.linalg.solve(M, task.sigma_yx.T).T
    exact = np.array([T + (W - T) @ expm(-M * t) for t in TIMES])
    np.testing.assert_allclose(traj.function, exact, atol=1e-11)


@pytest.mark.parametrize("rank", [1, 3])
def test_what_the_inputs_never_show_stays_as_it_was(rng, rank):
    task, W = random_task(rng, rank), rng.normal(size=(2, 5))
    end = lr.solve(lr.Problem(task, lr.Network([W])), [1e12]).function[0]
    unseen = np.linalg.svd(task.sigma_xx)[2][rank:]
    np.testing.assert_allclose(end @ unseen.T, W @ unseen.T, atol=1e-12)
    X, Y = task.inputs, task.targets
    least_norm = np.linalg.lstsq(X, Y, rcond=1e-10)[0].T
    np.testing.assert_allclose(end, least_norm + W @ unseen.T @ unseen, atol=1e-9)


def test_with_weight_decay_what_the_inputs_never_show_fades(rng):
    task, W = random_task(rng, 2), rng.normal(size=(2, 5))
    traj = lr.solve(lr.Problem(task, lr.Network([W]), rates=2.0, weight_decay=0.25), [0.0, 3.0, 1e12])
    unseen = np.linalg.svd(task.sigma_xx)[2][2:]
    np.testing.assert_allclose(traj.function[1] @ unseen.T, np.exp(-1.5) * W @ unseen.T, atol=1e-13)
    np.testing.assert_allclose(traj.function[2] @ unseen.T, 0.0, atol=1e-13)


def test_every_mode_learns_at_the_same_rate_when_inputs_are_white(rng):
    task = lr.Task.from_correlations(rng.normal(size=(3, 4)), 0.125 * np.eye(4))
    W = rng.normal(size=(3, 4))
    traj = lr.solve(lr.Problem(task, lr.Network([W])), [0.0, 8.0])
    np.testing.assert_allclose(traj.function[0], W, atol=1e-14)
    np.testing.assert_allclose(traj.function[1] - task.target, (W - task.target) / np.e, rtol=1e-12)


@given(st.integers(0, 2**32), st.integers(1, 5), st.floats(0, 50), st.floats(0, 50), st.sampled_from([0.0, 0.1]))
def test_stopping_on_the_way_and_going_on_changes_nothing(seed, rank, t1, t2, gamma):
    rng = np.random.default_rng(seed)
    task, W = random_task(rng, rank), rng.normal(size=(2, 5))
    solution = lr.solve(lr.Problem(task, lr.Network([W]), weight_decay=gamma), [0.0]).solution
    through = solution.function(np.array([t1 + t2]))
    size = np.abs(through).max() + np.abs(W).max()
    np.testing.assert_allclose(solution.restarted(t1).function(np.array([t2])), through, atol=1e-13 * size)


def test_the_loss_is_that_of_the_samples(rng):
    task, W = random_task(rng, 4), rng.normal(size=(2, 5))
    traj = lr.solve(lr.Problem(task, lr.Network([W])), [0.0, 1.0, 100.0])
    errors = task.targets[None] - task.inputs @ traj.function.transpose(0, 2, 1)
    np.testing.assert_allclose(traj.loss, np.sum(errors**2, axis=(1, 2)) / 80, rtol=1e-12)
