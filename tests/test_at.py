"""`traj.at`, and np.inf among the times: the same trajectory elsewhere, and its end."""

from __future__ import annotations

import numpy as np
import pytest

import lazyrich as lr

TASK = lr.Task.from_correlations(np.diag([3.0, 1.0]))
CORRELATED = lr.Task.from_data(*(np.random.default_rng(0).normal(size=(20, n)) for n in (3, 2)))
PROBLEMS = {
    "shallow": lr.Problem(CORRELATED, lr.inits.gaussian(0, sizes=(3, 2), scale=0.3)),
    "modes": lr.Problem(TASK, lr.inits.aligned(0, TASK, hidden=2, strengths=0.01)),
    "riccati": lr.Problem(TASK, lr.inits.zero_balanced(1, sizes=(2, 3, 2), scale=0.1)),
    "deep_modes": lr.Problem(TASK, lr.inits.aligned(0, TASK, hidden=(2, 2), strengths=0.01)),
}


@pytest.mark.parametrize("method", PROBLEMS)
def test_an_exact_trajectory_is_evaluated(method):
    problem, times = PROBLEMS[method], [0.0, 0.3, 2.0]
    traj, direct = lr.solve(problem, [1.0]).at(times), lr.solve(problem, times)
    assert traj.method == method and traj.citation == direct.citation
    for part in ("function", "loss"):
        np.testing.assert_array_equal(getattr(traj, part), getattr(direct, part))
    for W, other in zip(traj.weights, direct.weights, strict=True):
        np.testing.assert_array_equal(W, other)


@pytest.mark.parametrize("method", PROBLEMS)
def test_infinity_is_the_end(method):
    problem = PROBLEMS[method]
    traj = lr.solve(problem, [0.0, 1.0, np.inf])
    assert traj.times[-1] == np.inf and traj.certificate().exact
    assert traj.loss[-1] == lr.fate(problem).loss_limit
    best = problem.task.sigma_yx @ np.linalg.pinv(problem.task.sigma_xx)
    np.testing.assert_allclose(traj.function[-1], best, atol=1e-12)  # each of them learns all there is
    np.testing.assert_allclose(traj.network()(np.eye(problem.task.d_in)), best.T, atol=1e-9)
    assert np.isfinite(lr.regime(traj).judgement.kernel_movement)


def test_what_integrates_needs_an_end():
    with pytest.raises(lr.InvalidInput, match="times must be finite"):
        lr.flow(PROBLEMS["riccati"], [0.0, np.inf])


def test_of_a_sampled_run_the_records_are_taken():
    run = lr.flow(PROBLEMS["riccati"], [0.0, 0.5, 1.0], record=("weights", "loss"))
    taken = run.at([0.5, 1.0])
    np.testing.assert_array_equal(taken.loss, run.loss[1:])
    np.testing.assert_array_equal(taken.weights[1], run.weights[1][1:])
    assert (taken.method, taken.status, taken.notes) == (run.method, run.status, run.notes)
    with pytest.raises(
        lr.InvalidInput, match=r"times must be among those that were recorded, and 0\.7 is not, for this run \(flow\)"
    ):
        run.at([0.5, 0.7])
    with pytest.raises(lr.InvalidInput, match=r"and inf is not, .*: try lr\.fate\(problem\) or lr\.solve"):
        run.at([np.inf])


def test_a_run_of_ones_own(rng):
    problem = PROBLEMS["riccati"]
    run = lr.solve(problem, [0.0, 0.5, 1.0])
    own = lr.Trajectory.from_weights(problem, run.times, [W.tolist() for W in run.weights])
    np.testing.assert_allclose(own.loss, run.loss, rtol=1e-10)
    assert own.method == "given" and not own.certificate().closed_form
    with pytest.raises(lr.InvalidInput, match=r"weights\[0\] must hold one state per time"):
        lr.Trajectory.from_weights(problem, [0.0], run.weights)
    with pytest.raises(lr.InvalidInput, match="weights must be a list of arrays, one per layer"):
        lr.Trajectory.from_weights(problem, [0.0], 3.0)


@pytest.mark.parametrize("read", ["gram", "weights"])
def test_a_state_is_the_same_however_it_is_known(read):
    traj = lr.solve(PROBLEMS["riccati"], [0.0, 0.5, 1.0])
    getattr(traj, read)
    state = traj.state
    assert (state.weights is None) == (read == "gram")
    W1, W2 = traj.weights
    np.testing.assert_allclose(state.input_gram, np.swapaxes(W1, 1, 2) @ W1, atol=1e-10)
    np.testing.assert_allclose(state.output_gram, W2 @ np.swapaxes(W2, 1, 2), atol=1e-10)
    for (A, B), W in zip(state.layers(), traj.function, strict=True):
        np.testing.assert_allclose(B @ A, W, atol=1e-10)
    assert len(state.some(slice(1, 3)).input_gram) == 2


def test_a_run_of_ones_own_begins_where_the_problem_does():
    problem = PROBLEMS["riccati"]
    twice = [np.stack([2 * W, W]) for W in problem.network.weights]
    with pytest.raises(
        lr.InvalidInput, match=r"weights at t = 0 must be those of the problem's network.*try Problem\("
    ):
        lr.Trajectory.from_weights(problem, [0.0, 1.0], twice)
    lr.Trajectory.from_weights(problem, [0.5, 1.0], twice)  # later it may be anywhere
    single = [np.stack([W, W]).astype(np.float32) for W in problem.network.weights]
    lr.Trajectory.from_weights(problem, [0.0, 1.0], single)
