"""The output multiplier, f → τf with rate/τ², in last layer and rates, against training written by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import lazyrich as lr
from lazyrich import InvalidInput


def data(rng, d_in=4, d_out=3, P=12):
    return rng.normal(size=(P, d_in)), rng.normal(size=(P, d_out))


def gradients(w, X, Y, tau, slope):
    """−∂loss/∂w of ½ mean‖y − τ w_L σ(… σ(w_1 x))‖² by the raw weights w."""
    signals, slopes = [X.T], []
    for W in w[:-1]:
        z = W @ signals[-1]
        signals.append(np.where(z > 0, z, slope * z))
        slopes.append(np.where(z > 0, 1.0, slope))
    back = tau * (Y.T - tau * w[-1] @ signals[-1]) / len(X)
    flow = []
    for i in reversed(range(len(w))):
        flow.insert(0, back @ signals[i].T)
        back = (w[i].T @ back) * slopes[i - 1] if i else None
    return flow


@pytest.mark.parametrize("slope", [1.0, 0.0, 0.2])
@pytest.mark.parametrize("tau", [0.3, 1.0, 7.0])
def test_gradient_descent_on_the_raw_weights(tau, slope, rng):
    X, Y = data(rng)
    w = [rng.normal(size=(6, 4)), rng.normal(size=(3, 6))]
    eta, rate, steps = (0.5, 2.0), 0.01, 60
    run = lr.descend(lr.Problem(lr.Task.from_data(X, Y), lr.Network(w, slope, multiplier=tau), rates=eta), rate, steps)
    for _ in range(steps):
        w = [W + rate * e / tau**2 * dW for W, e, dW in zip(w, eta, gradients(w, X, Y, tau, slope), strict=True)]
    assert np.abs(run.weights[0][-1] - w[0]).max() < 1e-12 * np.abs(w[0]).max()
    assert np.abs(run.weights[1][-1] - tau * w[1]).max() < 1e-12 * np.abs(tau * w[1]).max()


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_gradient_flow_on_the_raw_weights(depth, rng):
    tau, (X, Y) = 5.0, data(rng)
    sizes = (*(4, 5, 4, 3)[:depth], 3)
    w = [rng.normal(size=(a, b)) for b, a in itertools.pairwise(sizes)]
    cuts = np.cumsum([W.size for W in w])[:-1]

    def split(y):
        return [part.reshape(W.shape) for part, W in zip(np.split(y, cuts), w, strict=True)]

    def velocity(_, y):
        return np.concatenate([dW.ravel() for dW in gradients(split(y), X, Y, tau, 1.0)]) / tau**2

    end = solve_ivp(velocity, (0, 2.0), np.concatenate([W.ravel() for W in w]), "DOP853", rtol=1e-12, atol=1e-14)
    brute = tau * np.linalg.multi_dot([*split(end.y[:, -1])[::-1], np.eye(4)])
    problem = lr.Problem(lr.Task.from_data(X, Y), lr.Network(w, multiplier=tau))
    assert np.abs(lr.flow(problem, [2.0], rtol=1e-11).function[0] - brute).max() < 1e-8 * np.abs(brute).max()


def test_what_a_network_and_a_problem_remember(rng):
    w = [rng.normal(size=(6, 4)), rng.normal(size=(3, 6))]
    network = lr.Network(w, multiplier=10.0)
    assert network.multiplier == 10.0 and lr.Network(w).multiplier == 1.0
    assert "times 10" in repr(network) and network.known_to(1e-3).multiplier == 10.0
    assert np.allclose(network(np.eye(4)).T, 10 * w[1] @ w[0])
    problem = lr.Problem(lr.Task.from_data(*data(rng)), network, rates=(2.0, 3.0))
    assert problem.rates == pytest.approx((0.02, 3.0)) and problem.network.multiplier == 1.0
    again = lr.Problem(problem.task, problem.network, problem.rates)  # the pair is the problem: nothing is done twice
    assert again.rates == problem.rates and np.array_equal(again.network.weights[1], network.weights[1])


def test_the_balance_stays_as_it_is(rng):
    """D of the raw weights, and with it λ and δ, knows nothing of τ, and the flow conserves it."""
    start = lr.inits.lambda_balanced(3, sizes=(4, 3, 3), lam=0.7, scale=0.5)
    task = lr.tasks.random_regression(0, d_in=4, d_out=3, samples=20)
    for tau in (0.5, 1.0, 20.0):
        problem = lr.Problem(task, lr.Network(start.weights, multiplier=tau))
        assert problem.facts.lam[0] == pytest.approx(0.7, rel=1e-10)
        traj = lr.solve(problem, [0.0, 1.0, 30.0])  # and the closed form holds for any τ
        assert traj.certificate().exact
        for W1, V2 in zip(*traj.weights, strict=True):
            assert np.abs((V2 / tau).T @ (V2 / tau) - W1 @ W1.T - 0.7 * np.eye(3)).max() < 1e-10


def test_sequences_keep_the_multiplier():
    tasks = [lr.tasks.random_regression(seed, d_in=4, d_out=3, samples=20) for seed in range(2)]
    start = lr.inits.lambda_balanced(3, sizes=(4, 3, 3), lam=0.7, scale=0.5)
    run = lr.continual(tasks, lr.Network(start.weights, multiplier=5.0), [0.0, 2.0])
    assert [traj.problem.rates for traj in run.trajectories] == [pytest.approx((0.04, 1.0))] * 2
    matrix = lr.forgetting(tasks, lr.Network(start.weights, multiplier=5.0))
    assert np.isfinite(np.asarray(matrix)[np.tril_indices(2, -1)]).all()


def test_refuses_in_one_sentence():
    w = [np.eye(2), np.eye(2)]
    with pytest.raises(InvalidInput, match="multiplier must be above 0, and it is 0"):
        lr.Network(w, multiplier=0.0)
    with pytest.raises(InvalidInput, match=r"multiplier must lie between 1e-6 and 1e6, and it is 1e\+09"):
        lr.Network(w, multiplier=1e9)
    with pytest.raises(InvalidInput, match=r"weight_decay must be 0 beside an output multiplier.* it is 0\.1: try"):
        lr.Problem(lr.Task.from_correlations(np.eye(2)), lr.Network(w, multiplier=2.0), weight_decay=0.1)
