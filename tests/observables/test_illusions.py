"""Illusory correlations: against the logistic curves of modes and a minimiser of SciPy, one layer, gradient descent."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import lazyrich as lr
from observables.developing import limit_of_descent, logistic

obs = lr.observables
Y, A0 = np.array([[1.0, 1.0], [1.0, -0.5]]), 1e-4


@pytest.fixture(scope="module")
def problem():
    task = lr.Task.from_data(np.eye(2), Y)
    return lr.Problem(task, lr.inits.aligned(0, task, hidden=2, strengths=A0))


def answer(t, item, feature):
    """By the modes of Yᵀ: those of Σyx have half the singular values."""
    U, s, Vt = np.linalg.svd(Y.T)
    return sum(logistic(t, s[k] / 2, s[k], A0) * U[feature, k] * Vt[k, item] for k in range(2))


def test_the_second_item_is_believed_to_have_what_it_lacks(problem):
    found = obs.illusions(lr.solve(problem, np.linspace(0.0, 40.0, 41)))
    peak = minimize_scalar(lambda t: -answer(t, 1, 1), bounds=(0.0, 20.0), method="bounded", options={"xatol": 1e-10})
    first = answer(0.0, 1, 1)
    assert first > Y[1, 1]
    assert found.size[1, 1] == pytest.approx(-peak.fun - first, rel=1e-10)
    assert found.time[1, 1] == pytest.approx(peak.x, abs=1e-5)  # a maximum is flat
    assert found.size[1, 0] == 0 and np.isnan(found.time[1, 0])


def test_along_the_trajectory_it_is_what_is_outside_of_the_ends(problem):
    times = np.linspace(0.0, 40.0, 21)
    found = obs.illusory_correlations(lr.solve(problem, times))
    for k, t in enumerate(times):
        for i, m in np.ndindex(2, 2):
            y, first, last = answer(t, i, m), answer(0.0, i, m), Y[i, m]
            want = y - max(first, last) if y > max(first, last) else min(0.0, y - min(first, last))
            assert found[k, i, m] == pytest.approx(want, abs=2e-8)  # W from QQᵀ at strengths of 1e-4
    assert not found[0].any()


def test_one_layer_has_none():
    """From zero all modes are learned at once, and every answer goes straight to its end."""
    task = lr.tasks.semantic_hierarchy()
    shallow = lr.solve(lr.Problem(task, lr.Network([np.zeros((8, 8))])), np.linspace(0.0, 200.0, 301))
    assert not obs.illusory_correlations(shallow).any()
    assert not obs.illusions(shallow).size.any()
    tree = lr.tasks.tree(branches=(2, 2, 2))  # features that are shared at several levels, which the kingdom has not
    for start, least in (
        (lr.Network([np.zeros((8, 8))]), 0.0),
        (lr.inits.aligned(0, tree, hidden=8, strengths=1e-4), 0.1),
    ):
        found = obs.illusions(lr.solve(lr.Problem(tree, start), np.linspace(0.0, 200.0, 301))).size
        assert np.abs(found).max() > least if least else not found.any()


def test_peaks_do_not_depend_on_the_times_around_them(problem):
    coarse, fine = (obs.illusions(lr.solve(problem, np.linspace(0.0, 40.0, n))) for n in (12, 401))
    np.testing.assert_allclose(coarse.size, fine.size, rtol=1e-9)
    np.testing.assert_allclose(coarse.time, fine.time, atol=1e-5)


def test_peaks_are_found_in_few_looks_of_few_answers(monkeypatch):
    """A peak costs tens of times, not a hundred, and few of them are held at once."""
    task = lr.tasks.with_random_features(1, lr.tasks.tree(branches=(3, 3)), features=60)
    traj = lr.solve(lr.Problem(task, lr.inits.aligned(0, task, hidden=9, strengths=1e-3)), np.linspace(0.0, 300.0, 200))
    asked, at = [], lr.Trajectory.at
    monkeypatch.setattr(lr.Trajectory, "at", lambda self, times: asked.append(len(times)) or at(self, times))
    whole = obs.illusions(traj)
    count = np.count_nonzero(whole.size)
    assert count > 300 and sum(asked) < 20 * count
    monkeypatch.setattr(importlib.import_module("lazyrich.observables.illusions"), "_NUMBERS", 540 * 100)
    asked.clear()
    np.testing.assert_array_equal(obs.illusions(traj).size, whole.size)
    assert max(asked) <= 100


@pytest.mark.compiles
def test_gradient_descent_agrees(problem):
    span = 10.0
    exact = obs.illusory_correlations(lr.solve(problem, np.linspace(0.0, span, 401)))[300]  # t = 7.5
    along = limit_of_descent(
        lambda traj: obs.illusory_correlations(traj)[np.searchsorted(traj.times, 7.5 - 1e-9)], problem, span
    )
    np.testing.assert_allclose(along, exact, atol=1e-3)  # of 0.13: second order in the rate, 0.025
    sizes = limit_of_descent(lambda traj: obs.illusions(traj).size, problem, span)
    known = obs.illusions(lr.solve(problem, np.linspace(0.0, span, 401))).size
    assert sizes[1, 1] == pytest.approx(known[1, 1], abs=1e-4)  # others are known by their ends, and the span is short


@pytest.mark.compiles
def test_a_nonlinear_network_is_read_by_its_answers():
    network = lr.Network(lr.inits.gaussian(0, sizes=(2, 4, 2), scale=0.3).weights, "tanh")
    run = lr.descend(lr.Problem(lr.Task.from_data(np.eye(2), Y), network), rate=0.05, steps=800, record="weights")
    found = obs.illusory_correlations(run)
    out = np.stack([np.tanh(np.eye(2) @ W1.T) @ W2.T for W1, W2 in zip(*run.weights, strict=True)])
    low, high = np.minimum(out[0], out[-1]), np.maximum(out[0], out[-1])
    want = np.maximum(out - high, 0.0) + np.minimum(out - low, 0.0)
    np.testing.assert_allclose(found, want, atol=1e-11)
    k = np.abs(want).reshape(len(want), -1).argmax(axis=0)
    np.testing.assert_allclose(np.abs(obs.illusions(run).size).ravel(), np.abs(want).max(axis=0).ravel(), atol=1e-11)
    assert set(obs.illusions(run).time[np.abs(want).max(axis=0) > 1e-6]) <= set(run.times[k])


def test_a_task_of_correlations_has_an_item_per_input():
    task = lr.Task.from_correlations(Y.T / 2, np.eye(2) / 2)
    traj = lr.solve(lr.Problem(task, lr.inits.aligned(0, task, hidden=2, strengths=A0)), np.linspace(0.0, 40.0, 41))
    assert obs.illusions(traj).size[1, 1] > 0.1
    assert traj.to_xarray("illusory_correlations").illusory_correlations.dims == ("time", "input", "output")


def test_a_single_time_has_none_of_a_record(problem):
    network = problem.network
    run = lr.Trajectory.from_weights(problem, [0.0], [W[None] for W in network.weights])
    assert not obs.illusory_correlations(run).any() and np.isnan(obs.illusions(run).time).all()


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("call", [obs.illusory_correlations, obs.illusions])
def test_bad_input_is_one_sentence(call):
    with pytest.raises(lr.InvalidInput, match=r"^traj must be a lazyrich Trajectory, and it is a str"):
        call("traj")
