"""Half times in steps, stable rates and the drift of the balance, against descent written out in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

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


def flowed(problem, end):
    """Weights of two layers at a time, by SciPy."""
    shapes = [W.shape for W in problem.network.weights]
    cut, S, X = np.prod(shapes[0]), problem.task.sigma_yx, problem.task.sigma_xx

    def slope(_, y):
        A, B = y[:cut].reshape(shapes[0]), y[cut:].reshape(shapes[1])
        E = S - B @ A @ X
        return np.concatenate([(B.T @ E).ravel(), (E @ A.T).ravel()])

    start = np.concatenate([W.ravel() for W in problem.network.weights])
    y = solve_ivp(slope, (0, end), start, "LSODA", rtol=1e-11, atol=1e-13).y[:, -1]
    return y, lambda y: slope(0, y)


def sharpest(y, slope, step=1e-5):
    """The largest eigenvalue of the Hessian, by differences of the slope."""
    rows = [(slope(y - step * e) - slope(y + step * e)) / (2 * step) for e in np.eye(len(y))]
    return np.linalg.eigvalsh((np.array(rows) + np.array(rows).T) / 2)[-1]


@pytest.mark.long
def test_the_largest_rate_is_that_of_the_end_where_the_end_is_known():
    problem = lr.Problem(
        lr.Task.from_correlations(np.diag([3.0, 1.0])), lr.inits.zero_balanced(0, sizes=(2, 3, 2), scale=0.3)
    )
    found = lr.predict(problem, rate=0.05)
    assert found.exact and np.isinf(found.steps.until) and "that of the end" in str(found.steps)
    expected = 2 / sharpest(*flowed(problem, 60.0))
    for steps in (found.steps, lr.predict(problem, [0.0, 0.5], rate=0.05).steps, lr.fate(problem, rate=0.05).steps):
        assert steps.largest_rate == pytest.approx(expected, rel=1e-7)


def test_the_largest_rate_of_an_integration_says_how_far_it_looked():
    slow = 1e-4  # an input that hardly varies, learned long after the loss looks flat
    task = lr.Task.from_correlations([[1.0, 10 * slow]], np.diag([1.0, slow]))
    problem = lr.Problem(task, lr.inits.gaussian(3, sizes=(2, 4, 1), scale=0.3))
    steps = lr.predict(problem, rate=0.3).steps
    assert steps.largest_rate == pytest.approx(2 / sharpest(*flowed(problem, steps.until)), rel=1e-5)
    assert 2 / sharpest(*flowed(problem, 1e5)) < 0.3 * steps.largest_rate  # so that it has to be said
    assert f"as far as t = {steps.until:.4g}" in str(steps) and "later it may be less" in str(steps)
    assert "the end" not in str(steps) and steps.to_dict()["until"] == steps.until


def obstructed(seed, s, correlated=False):
    """Square layers whose function has the wrong sign of the determinant, and the modes of the task."""
    rng, d = np.random.default_rng(seed), len(s)
    U, V = (np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in "UV")
    X = np.eye(d) + (0.3 if correlated else 0.0) * np.ones((d, d))
    net = lr.inits.zero_balanced(seed, sizes=(d, d + 1, d), scale=0.3)
    if np.linalg.det(U * s @ V.T) * np.linalg.det(net.weights[1] @ net.weights[0]) > 0:
        U[:, 0] *= -1
    return lr.Problem(lr.Task.from_correlations(U * s @ V.T @ X, X), net), U, V


def escaped(problem, u, v, s, rate, momentum=0.0):
    """The step in which NumPy's descent has half learned a mode, which may be carried along by others before."""
    A, B = (np.array(W) for W in problem.network.weights)
    S, X, M, N = problem.task.sigma_yx, problem.task.sigma_xx, 0 * A, 0 * B
    before = u @ B @ A @ v
    half, learned, found = (before + s) / 2, before + 0.9 * (s - before), np.nan
    for n in range(100_000):
        E = S - B @ A @ X
        M, N = momentum * M + B.T @ E, momentum * N + E @ A.T
        A, B = A + rate * M, B + rate * N
        now = u @ B @ A @ v
        if before < half <= now:
            found = n + (half - before) / (now - before)
        if now >= learned:
            return found
        before = now
    return np.nan


@pytest.mark.long
@pytest.mark.parametrize("s", [(3.0, 1.0), (3.0, 2.0, 0.5)])
@pytest.mark.parametrize(
    ("rate", "momentum", "tolerance"), [(0.05, 0.0, 1e-6), (0.005, 0.9, 1e-6), (0.0005, 0.0, 5e-3)]
)
def test_descent_leaves_the_saddle_that_the_flow_stays_in(s, rate, momentum, tolerance):
    problem, U, V = obstructed(1, np.array(s))
    for found in (lr.fate(problem, rate=rate, momentum=momentum), lr.predict(problem, rate=rate, momentum=momentum)):
        steps, last = found.steps, len(s) - 1
        assert steps.stuck == steps.freed == (last,)
        assert steps.half_steps[last] == pytest.approx(
            escaped(problem, U[:, last], V[:, last], s[-1], rate, momentum), rel=tolerance
        )
        assert "descent leaves it" in str(found) and f"mode {last + 1} is half learned at step" in str(found)
        assert steps.to_dict()["stuck"] == [last]
    assert any("descent leaves" in note for note in found.notes)
    assert "descent leaves" not in str(lr.predict(problem))


def test_descent_leaves_it_where_no_theorem_applies_too():
    problem, U, V = obstructed(0, np.array([3.0, 1.0]), correlated=True)
    found = lr.predict(problem, rate=0.05)
    assert found.fate is None and found.steps.freed == (1,)
    u, v = found.frames.u[:, 1], found.frames.v[:, 1]
    expected = escaped(problem, u, v, u @ (U * [3.0, 1.0] @ V.T) @ v, 0.05)
    assert found.steps.half_steps[1] == pytest.approx(expected, rel=1e-6)
    assert any("descent leaves" in note for note in found.notes)


def test_steps_keep_an_aligned_network_in_its_saddle():
    network = lr.Network([[[0.1, 0.0], [0.0, 0.1]], [[0.1, 0.0], [0.0, -0.1]]])
    found = lr.fate(lr.Problem(lr.Task.from_correlations(np.diag([2.0, 1.0])), network), rate=0.1)
    assert found.missed == (1,) and found.steps.stuck == () and "leaves" not in str(found)
    assert trained(lr.Problem(lr.Task.from_correlations(np.diag([2.0, 1.0])), network), 0.1, 2000)[-1][1][1, 1] == (
        pytest.approx(0.0, abs=1e-12)
    )


def test_where_nobody_follows_descent_it_is_said_to_leave_all_the_same():
    problem, *_ = obstructed(1, np.array([3.0, 1.0]))
    steps = lr.fate(problem, rate=1e-5, momentum=0.9).steps
    assert steps.stuck == (1,) and steps.freed == () and "lr.descend tells when" in str(steps)
    assert steps.shown(1) == "–"


def three_layers(seed):
    rng, s = np.random.default_rng(50 + seed), np.array([3.0, 2.2, 1.5, 1.0])
    U, V = np.linalg.qr(rng.normal(size=(4, 4)))[0], np.linalg.qr(rng.normal(size=(5, 4)))[0]
    net = lr.inits.zero_balanced(seed, sizes=(5, 6, 6, 4), scale=0.3)
    return lr.Problem(lr.Task.from_correlations(U * s @ V.T), net)


@pytest.mark.long
def test_a_saddle_that_steps_leave_sooner_is_told():
    problem = three_layers(0)  # whose flow is held up until t = 308 by a singular value of 1e-6
    found = lr.predict(problem, rate=0.01)
    seen = half_steps(trained(problem, 0.01, 12_000), found.frames.u, found.frames.v, found.limit)
    np.testing.assert_allclose(found.steps.half_steps[:3], seen[:3], rtol=0.02)
    assert seen[3] < 0.5 * found.steps.half_steps[3]
    assert found.steps.astray == (3,) and found.steps.shown(3).startswith("≈") and found.steps.shown(2)[0] != "≈"
    assert any("half steps of mode 4" in note for note in found.notes)
    assert found.steps.to_dict()["astray"] == [3]
    assert lr.predict(problem, rate=1e-4).steps.astray == ()
    assert lr.predict(problem, rate=1e-4, momentum=0.9).steps.astray == (3,)  # which is off the flow 190 times as far


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 3])
def test_where_no_saddle_is_near_none_is_told(seed):
    problem = three_layers(seed)
    found = lr.predict(problem, rate=0.01)
    last = int(1.2 * np.nanmax(found.steps.half_steps))
    seen = half_steps(trained(problem, 0.01, last), found.frames.u, found.frames.v, found.limit)
    np.testing.assert_allclose(found.steps.half_steps, seen, rtol=0.03)
    assert found.steps.astray == () and found.steps.passage == "" and "≈" not in str(found)


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


def test_a_drift_is_not_told_of_a_run_with_momentum():
    problem = lr.Problem(lr.Task.from_correlations([[1.0]]), lr.Network([[[0.1]], [[0.2]]]))
    lr.landscape.balance_drift(lr.descend(problem, 0.1, 9), 0.1)
    run = lr.descend(problem, 0.1, 9, momentum=0.9)
    for traj in (run, run.at(run.times[:3])):
        with pytest.raises(lr.InvalidInput, match=r"it has the momentum 0\.9"):
            lr.landscape.balance_drift(traj, 0.1)
