"""Steps that stability does not limit: against SciPy's implicit Radau, exact solutions, and where the flow must end."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import lazyrich as lr
from lazyrich.methods import _stiff
from lazyrich.methods.gram import OfFunction, OfGram, OfWeights, equation_of, steps, stiff_steps


def correlated(seed, d_out, d_in, spread=1e-3, noise=0.0):
    """Inputs of standard deviations from 1 to `spread`, in a basis of their own."""
    rng = np.random.default_rng([7, seed])
    turned = np.linalg.qr(rng.normal(size=(d_in, d_in)))[0]
    X = rng.normal(size=(5 * d_in, d_in)) * np.geomspace(1, spread, d_in) @ turned
    return lr.Task.from_data(X, X @ rng.normal(size=(d_in, d_out)) + noise * rng.normal(size=(len(X), d_out)))


def by_radau(problem, times):
    """W2W1 along the flow of the weights, written out by hand."""
    (W1, W2), (eta1, eta2), gamma, task = problem.network.weights, problem.rates, problem.weight_decay, problem.task
    moving = np.ones_like(W1)
    if problem.network.biased:
        moving[-1] = 0.0

    def layers(y):
        return y[: W1.size].reshape(W1.shape), y[W1.size :].reshape(W2.shape)

    def velocity(_, y):
        V1, V2 = layers(y)
        E = task.sigma_yx - V2 @ V1 @ task.sigma_xx
        first = eta1 * (V2.T @ E - gamma * V1) * moving
        return np.concatenate([first.ravel(), eta2 * (E @ V1.T - gamma * V2).ravel()])

    y0 = np.concatenate([W1.ravel(), W2.ravel()])
    run = solve_ivp(velocity, (0, times[-1]), y0, method="Radau", rtol=1e-11, atol=1e-14, t_eval=times)
    return np.array([np.matmul(*layers(y)[::-1]) for y in run.y.T])


def from_the_start(equation, times, rtol=1e-9):
    """The function at these times, by no other steps than these."""
    found, size = [], rtol * 1e-6 * equation.size
    for step in stiff_steps(equation, equation.initial, 0.0, 1e-3, (rtol, size), 5000):
        while len(found) < len(times) and times[len(found)] <= step.time:
            found.append(equation.function(step.within(times[len(found)])))
        if len(found) == len(times):
            return np.array(found)
    raise AssertionError(f"stopped at {step.time}")


TIMES = np.array([0.0, 0.3, 3.0, 40.0, 1e3, 1e4])
CASES = {
    "narrow": lambda: lr.Problem(correlated(0, 2, 3), lr.inits.gaussian(0, sizes=(3, 3, 2), scale=0.5)),
    "wide": lambda: lr.Problem(correlated(1, 2, 3), lr.inits.gaussian(1, sizes=(3, 40, 2), scale=0.2)),
    "bottleneck": lambda: lr.Problem(correlated(2, 3, 4, noise=0.1), lr.inits.gaussian(2, sizes=(4, 1, 3), scale=0.5)),
    "rates": lambda: lr.Problem(
        correlated(3, 2, 3), lr.inits.gaussian(3, sizes=(3, 4, 2), scale=0.5), rates=(1.0, 0.2)
    ),
    "decay and rates": lambda: lr.Problem(
        correlated(4, 2, 3), lr.inits.gaussian(4, sizes=(3, 4, 2), scale=0.5), rates=(0.3, 1.0), weight_decay=0.01
    ),
    "decay in a bottleneck": lambda: lr.Problem(
        correlated(5, 3, 3), lr.inits.gaussian(5, sizes=(3, 1, 3), scale=0.5), weight_decay=0.01
    ),
    "biases and decay": lambda: lr.Problem(
        lr.Task.from_data(np.random.default_rng(6).normal(size=(20, 2)) * [1, 0.03] + 0.3, np.ones((20, 1))),
        lr.inits.pytorch(6, sizes=(2, 3, 1)),
        weight_decay=0.01,
    ),
    "inputs that lack a direction": lambda: lr.Problem(
        lr.Task.from_data(np.random.default_rng(7).normal(size=(2, 3)), np.eye(2)),
        lr.inits.gaussian(7, sizes=(3, 4, 2), scale=0.5),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_against_radau(case):
    problem = CASES[case]()
    truth = by_radau(problem, TIMES)
    found = from_the_start(OfWeights(problem), TIMES)
    np.testing.assert_allclose(found, truth, rtol=0, atol=2e-9 * np.abs(truth).max())


@pytest.mark.long
@pytest.mark.parametrize("case", ["narrow", "rates", "decay and rates", "biases and decay"])
def test_conjugate_gradients_find_the_same(case, monkeypatch):
    """Large networks have no factors."""
    problem = CASES[case]()
    with_factors = from_the_start(OfWeights(problem), TIMES)
    monkeypatch.setattr(_stiff, "_DENSE", 0)
    np.testing.assert_allclose(from_the_start(OfWeights(problem), TIMES), with_factors, atol=1e-9)


def test_the_inverse_is_that_of_the_jacobian_by_differences():
    problem = CASES["biases and decay"]()
    equation = OfWeights(problem)
    terms, w, tau = equation.terms, equation.layers(equation.initial), 3.0
    matrix = _stiff.Implicit(terms, w, tau)
    r = terms.velocity(w)
    x = matrix.solve(r)
    h = 1e-6
    ahead, behind = (
        terms.velocity(w.moved(_stiff.Layers(sign * h * x.first, sign * h * x.second))) for sign in (1, -1)
    )
    for part, far, near, right in zip(x, ahead, behind, r, strict=True):
        np.testing.assert_allclose(part - tau * (far - near) / (2 * h), right, atol=1e-7)


@pytest.mark.long
@pytest.mark.parametrize(("hidden", "scale"), [(6, 1e-4), (6, 1e-8), (2, 1e-4), (1, 1e-8)])
def test_saddles_are_left_when_they_should_be(hidden, scale):
    """Modes 1, 1e-2 and 1e-4 from small weights, exactly known: the last leaves its saddle after 1e4 to 1e5."""
    rng = np.random.default_rng(hidden)
    U, V = np.linalg.qr(rng.normal(size=(3, 3)))[0], np.linalg.qr(rng.normal(size=(4, 4)))[0][:, :3]
    task = lr.Task.from_correlations(U @ np.diag([1.0, 1e-2, 1e-4]) @ V.T)
    problem = lr.Problem(task, lr.inits.zero_balanced(1, sizes=(4, hidden, 3), scale=scale))
    times = np.append(0.0, np.geomspace(1, 1e12, 40))
    exact = lr.solve(problem, times).function
    np.testing.assert_allclose(from_the_start(OfWeights(problem), times), exact, atol=2e-8)


def test_units_that_are_alike_stay_alike():
    task = correlated(8, 2, 3)
    network = lr.Network([np.full((4, 3), 0.1), np.full((2, 4), 0.1)])
    found = from_the_start(OfWeights(lr.Problem(task, network)), np.array([0.0, 10.0, 1e5, 1e12]))
    assert np.linalg.svd(found)[1][:, 1:].max() < 1e-12


def test_the_family_goes_on_through_its_partner():
    """Function and time are those of the λ-balanced network with as many units as outputs."""
    problem = lr.Problem(correlated(9, 3, 2), lr.inits.orthogonal(0, sizes=(2, 6, 3), scales=(0.5, 0.2)))
    equation = equation_of(problem)
    assert isinstance(equation, OfFunction)
    truth = by_radau(problem, TIMES)
    np.testing.assert_allclose(from_the_start(equation, TIMES), truth, atol=2e-9 * np.abs(truth).max())


@pytest.mark.long
def test_steps_change_over_where_stability_limits_them():
    """By 1e8, in a few hundred steps more."""
    problem = lr.Problem(correlated(10, 2, 3), lr.inits.gaussian(0, sizes=(3, 30, 2), scale=0.1), weight_decay=1e-4)
    equation, taken = OfGram(problem), 0
    for step in steps(equation, 1e-9, 40_000):
        taken += 1
        if step.time >= 1e8:
            break
    assert step.time >= 1e8 and taken < 2_000
    truth = by_radau(problem, np.array([0.0, 3e5]))[-1]
    np.testing.assert_allclose(equation.function(step.state), truth, atol=1e-8)


@pytest.mark.long
@pytest.mark.parametrize("decay", [0.0, 1e-3])
@pytest.mark.parametrize("hidden", [2, 8])
def test_predictions_arrive_at_late_times_with_an_error_that_holds(hidden, decay):
    network = lr.inits.gaussian(hidden, sizes=(3, hidden, 3), scale=0.3)
    problem = lr.Problem(correlated(11, 3, 3), network, weight_decay=decay)
    times = np.array([0.0, 1.0, 30.0, 1e3, 1e4, 1e12])
    found = lr.predict(problem, times)
    assert found.trajectory.times[-1] == 1e12 and found.trajectory.status == "complete"
    truth = by_radau(problem, times[:-1])
    functions = found.trajectory.function
    assert found.error < 1e-4
    of_modes = np.sum(found.frames.u * ((functions[:-1] - truth) @ found.frames.v), axis=1)
    assert np.abs(of_modes).max() <= found.error * np.abs(found.strengths_of(found.course)).max()
    apart = problem.task.loss(functions[:-1]) - problem.task.loss(truth)
    assert np.abs(apart).max() <= found.error * found.trajectory.loss[0]


@pytest.mark.compiles
@pytest.mark.timeout(240)
@pytest.mark.parametrize("decay", [0.0, 1e-3])
def test_flow_arrives_at_late_times(decay):
    problem = lr.Problem(
        correlated(12, 2, 3), lr.inits.gaussian(0, sizes=(3, 4, 2), scale=0.5), rates=(1.0, 0.5), weight_decay=decay
    )
    times = np.array([0.0, 1.0, 1e3, 3e4, 1e12])
    run = lr.flow(problem, times, record=("weights", "function"))
    assert run.status == "complete"
    truth = by_radau(problem, times[:-1])
    np.testing.assert_allclose(run.function[:-1], truth, atol=3e-8 * np.abs(truth).max())
    np.testing.assert_allclose(run.weights[1] @ run.weights[0], run.function, atol=1e-12)
    (W1, W2), E = (W[-1] for W in run.weights), problem.task.sigma_yx - run.function[-1] @ problem.task.sigma_xx
    for velocity in (W2.T @ E - decay * W1, E @ W1.T - decay * W2):
        assert np.abs(velocity).max() < 1e-12


@pytest.mark.compiles
@pytest.mark.timeout(240)
def test_width_drops_out_of_flow_and_the_weights_come_in_the_given_basis():
    """Against the flow of all 60 units by hand; a unit that does nothing, and two that are alike."""
    rng = np.random.default_rng(13)
    W1, W2 = 0.2 * rng.normal(size=(60, 4)), 0.2 * rng.normal(size=(3, 60))
    W1[5], W2[:, 5], W1[6], W2[:, 6] = 0.0, 0.0, W1[7], W2[:, 7]
    task = correlated(13, 3, 4, spread=0.3)
    problem = lr.Problem(task, lr.Network([W1, W2]), rates=(1.0, 0.4), weight_decay=0.02)

    def velocity(_, y):
        V1, V2 = y[:240].reshape(60, 4), y[240:].reshape(3, 60)
        E = task.sigma_yx - V2 @ V1 @ task.sigma_xx
        return np.concatenate([(V2.T @ E - 0.02 * V1).ravel(), 0.4 * (E @ V1.T - 0.02 * V2).ravel()])

    times = np.array([0.0, 0.5, 5.0])
    y = solve_ivp(velocity, (0, 5), np.append(W1, W2), method="DOP853", rtol=1e-12, atol=1e-14, t_eval=times).y.T
    run = lr.flow(problem, times, record=("weights", "gram", "loss"))
    for W, given in zip(run.weights, (W1, W2), strict=True):
        np.testing.assert_array_equal(W[0], given)
    np.testing.assert_allclose(run.weights[0], y[:, :240].reshape(-1, 60, 4), atol=1e-8)
    np.testing.assert_allclose(run.weights[1], y[:, 240:].reshape(-1, 3, 60), atol=1e-8)
    Q = np.concatenate([np.swapaxes(run.weights[0], 1, 2), run.weights[1]], axis=1)
    np.testing.assert_allclose(run.gram, Q @ np.swapaxes(Q, 1, 2), atol=1e-12)


def test_white_inputs_that_nothing_excites_are_left_out():
    """Of 30 inputs, 4 + 2 directions are integrated; weights and function are those of all."""
    rng = np.random.default_rng(14)
    task = lr.Task.from_correlations(rng.normal(size=(2, 30)) / 3)
    problem = lr.Problem(task, lr.inits.gaussian(14, sizes=(30, 4, 2), scale=0.2))
    equation = OfWeights(problem)
    assert equation.W1.shape == (4, 6)
    times = np.array([0.0, 1.0, 5.0])
    found = lr.predict(problem, times)
    truth = by_radau(problem, times)
    np.testing.assert_allclose(found.trajectory.function, truth, atol=1e-7)
    np.testing.assert_allclose(found.trajectory.weights[0][0], problem.network.weights[0], atol=1e-14)
    np.testing.assert_allclose(found.trajectory.weights[1] @ found.trajectory.weights[0], truth, atol=1e-7)
