"""Half times in steps, stable rates and the drift of the balance, against descent written out in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.methods.mode_maps import Stepping

HOWS = [{}, {"momentum": 0.9}, {"momentum": 0.5, "nesterov": True}]


def trained(problem, rate, steps, momentum=0.0, nesterov=False):
    """All weights of a linear network at every step."""
    S, X, L = problem.task.sigma_yx, problem.task.sigma_xx, problem.network.depth
    W = [np.array(each) for each in problem.network.weights]
    M, states = [np.zeros_like(each) for each in W], [[each.copy() for each in W]]
    for _ in range(steps):
        product = np.linalg.multi_dot([np.eye(len(S)), *W[::-1], np.eye(S.shape[1])])
        E, slopes = S - product @ X, []
        for i in range(L):
            after = np.linalg.multi_dot([np.eye(len(S)), *W[:i:-1], np.eye(len(W[i]))])
            before = np.linalg.multi_dot([np.eye(W[i].shape[1]), *W[:i][::-1], np.eye(S.shape[1])])
            slopes.append(after.T @ E @ before.T - problem.weight_decay * W[i])
        M = [momentum * m + g for m, g in zip(M, slopes, strict=True)]
        ahead = [g + momentum * m for m, g in zip(M, slopes, strict=True)] if nesterov else M
        W = [w + rate * eta * g for w, eta, g in zip(W, problem.rates, ahead, strict=True)]
        states.append([each.copy() for each in W])
    return states


def half_steps(states, u, v, limit):
    """Of each mode, linear between steps."""
    a = np.array(
        [
            [u[:, i] @ np.linalg.multi_dot([np.eye(len(u)), *W[::-1], v[:, i]]) for i in range(u.shape[1])]
            for W in states
        ]
    )
    found = np.full(len(limit), np.nan)
    for i, end in enumerate(limit):
        level, up = (a[0, i] + end) / 2, np.sign(end - a[0, i])
        after = np.flatnonzero(up * (a[:, i] - level) >= 0)
        if len(after) and after[0]:
            k = after[0]
            found[i] = k - 1 + (level - a[k - 1, i]) / (a[k, i] - a[k - 1, i])
    return found


def aligned(kind, seed):
    rng = np.random.default_rng(seed)
    U, V = np.linalg.qr(rng.normal(size=(4, 4)))[0], np.linalg.qr(rng.normal(size=(3, 3)))[0]
    s, d = np.array([3.0, 2.0, 0.7]), np.ones(3)
    if kind == "correlated inputs":
        d = np.array([1.0, 0.5, 2.0])
    task = lr.Task.from_correlations((U[:, :3] * (s * d)) @ V.T, (V * d) @ V.T)
    if kind == "one layer":
        return lr.Problem(task, lr.Network([(U[:, :3] * [0.1, -0.2, 0.3]) @ V.T]))
    if kind == "deep":
        net = lr.inits.aligned(seed, task, hidden=(4, 5), strengths=0.05, lam=[(0.1, -0.2, 0.0), (0.3, 0.1, 0.0)])
        return lr.Problem(task, net, rates=[1.0, 0.5, 2.0])
    lam = [0.3, 0.0, -1.0] if kind == "each its own balance" else 0.0
    return lr.Problem(task, lr.inits.aligned(seed, task, hidden=6, strengths=0.02, lam=lam))


@pytest.mark.parametrize("kind", ["one layer", "two layers", "each its own balance", "correlated inputs", "deep"])
@pytest.mark.parametrize("how", HOWS)
def test_of_aligned_modes_they_are_exact(kind, how):
    problem = aligned(kind, 3)
    found = lr.predict(problem, rate=0.02, **how)
    assert found.exact and found.steps.exact
    states = trained(problem, 0.02, int(np.nanmax(found.steps.half_steps)) + 3, **how)
    expected = half_steps(states, found.frames.u, found.frames.v, found.limit)
    np.testing.assert_allclose(found.steps.half_steps, expected, rtol=1e-9)
    assert np.isfinite(expected).all()


def test_many_small_steps_are_not_taken_one_by_one():
    problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.01]], [[0.01]]]))
    (found,) = lr.fate(problem, rate=5e-5).steps.half_steps
    w, before, n = 0.01, 0.0, 0  # both layers are alike
    while w * w < (2 + 1e-4) / 2:
        w, before, n = w + 5e-5 * (2 - w * w) * w, w * w, n + 1
    assert found == pytest.approx(n - 1 + ((2 + 1e-4) / 2 - before) / (w * w - before), rel=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("sizes", [(6, 14, 5), (6, 100, 5)])
def test_of_random_starts_the_correction_takes_most_of_the_lag(sizes):
    task, before, after = lr.tasks.random_regression(0, d_in=6, d_out=5, samples=60).whitened(), [], []
    for seed in range(3):
        problem = lr.Problem(task, lr.inits.gaussian(seed, sizes=sizes, scale=0.02))
        rate = 0.25 * lr.predict(problem, rate=0.01).steps.largest_rate
        found = lr.predict(problem, rate=rate)
        assert not found.steps.exact and found.steps.corrected
        run = trained(problem, rate, int(1.5 * np.nanmax(found.steps.half_steps)))
        seen = half_steps(run, found.frames.u, found.frames.v, found.limit)
        before.append(np.nanmax(np.abs(found.half_times / rate / seen - 1)))
        after.append(np.nanmax(np.abs(found.steps.half_steps / seen - 1)))
    assert np.median(after) < 0.35 * np.median(before) and np.median(after) < 0.05


@pytest.mark.parametrize("how", HOWS)
def test_the_largest_stable_rate_is_the_edge(how):
    problem = aligned("two layers", 1)
    largest = lr.fate(problem, rate=0.1, **how).steps.largest_rate
    end = lr.solve(problem, [200.0]).network()
    off = lr.Network([W + 1e-6 * np.ones_like(W) for W in end.weights])
    for rate, stays in ((0.97 * largest, True), (1.03 * largest, False)):
        loss = lr.descend(lr.Problem(problem.task, off), rate=rate, steps=600, **how).loss
        assert (loss[-1] < loss[0]) == stays


@pytest.mark.parametrize("nesterov", [False, True])
def test_growth_is_the_largest_eigenvalue_of_one_step(nesterov):
    h, beta, w = 0.1, 0.9, 2.0
    slope = np.array([[w, 0.0]])  # of (x, m)
    moving = np.array([[w, beta]])
    step = slope + beta * moving if nesterov else moving
    one = np.concatenate([np.array([[1.0, 0.0]]) + h * step, moving])
    assert Stepping(h, beta, nesterov).growth(w) == pytest.approx(np.abs(np.linalg.eigvals(one)).max(), rel=1e-12)


@pytest.mark.parametrize("depth", [2, 3])
def test_drift_of_the_balance_is_what_descent_does(depth):
    rng, rate = np.random.default_rng(5), 1e-3
    task = lr.Task.from_correlations(rng.normal(size=(3, 4)))
    network = lr.Network([0.5 * rng.normal(size=shape) for shape in [(5, 4), *[(5, 5)] * (depth - 2), (3, 5)]])
    problem = lr.Problem(task, network, rates=[1.0, 2.0, 0.5][:depth])
    predicted = lr.landscape.balance_drift(lr.flow(problem, np.linspace(0, 2, 401)), rate)[-1]
    states = trained(problem, rate, 2000)

    def balance(W, i):
        return W[i + 1].T @ W[i + 1] / problem.rates[i + 1] - W[i] @ W[i].T / problem.rates[i]

    for i in range(depth - 1):
        seen = np.linalg.norm(balance(states[-1], i) - balance(states[0], i))
        assert predicted[i] == pytest.approx(seen, rel=2e-2)  # the rest goes with the rate squared


def test_print_and_json_have_the_steps():
    problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.gaussian(0, sizes=(8, 14, 8), scale=0.1))
    found = lr.predict(problem, rate=0.05)
    assert (
        "half step" in str(found)
        and "the largest stable rate is" in str(found)
        and "half step" not in str(lr.predict(problem))
    )
    known = lr.fate(lr.Problem(problem.task, lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.1)), rate=9.0)
    assert "NOT STABLE" in str(known) and known.to_dict()["steps"]["half_steps"][-1] is None
    nonlinear = lr.Problem(
        lr.tasks.random_regression(0, d_in=3, d_out=1, samples=9),
        lr.inits.gaussian(0, sizes=(3, 4, 1), scale=0.3, activation="tanh"),
    )
    assert not lr.predict(nonlinear, rate=0.05).steps.corrected


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"rate": -1}, "rate must be above 0"),
        ({"rate": 0.1, "momentum": 1.0}, "momentum must be below 1"),
        ({"rate": 0.1, "momentum": -0.1}, "momentum must be at least 0"),
        ({"rate": 0.1, "nesterov": True}, "nesterov=True needs a momentum"),
    ],
)
def test_bad_input_is_one_sentence(arguments, says):
    problem = aligned("two layers", 0)
    for call in (lr.predict, lr.fate):
        with pytest.raises(lr.InvalidInput, match=says):
            call(problem, **arguments)
    with pytest.raises(lr.InvalidInput, match=says):
        lr.descend(problem, steps=3, **arguments)


def test_a_drift_needs_a_balance():
    task = lr.Task.from_correlations([[1.0]])
    problem = lr.Problem(task, lr.Network([[[0.1]], [[0.1]]]), weight_decay=0.1)
    with pytest.raises(lr.InvalidInput, match="without weight decay"):
        lr.landscape.balance_drift(lr.flow(problem, [0.0, 1.0]), 0.1)
