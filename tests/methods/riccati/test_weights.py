"""The weights themselves, in the hidden basis they were given in: against scipy, and against the Gram matrix."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import integrate
from oracles.starts_mp import to_float, zero_balanced_mp
from oracles.taylor_mp import weights as taylor_weights

import lazyrich as lr

from ..families import Case as Start
from ..families import generic, relative_errors, target

REQUIRED = 1e-9
TIMES = np.array([0.0, 0.3, 2.0, 9.0, 25.0, 50.0])


def assert_consistent(traj: lr.Trajectory) -> None:
    """Product and Gram matrix of the weights are those of the closed form."""
    W1, W2 = traj.weights
    Q = np.concatenate([W1.transpose(0, 2, 1), W2], axis=1)
    size = np.linalg.norm(traj.gram, axis=(1, 2))
    assert relative_errors(Q @ Q.transpose(0, 2, 1), traj.gram).max() <= 1e-12
    assert np.all(np.linalg.norm(W2 @ W1 - traj.function, axis=(1, 2)) <= 1e-12 * size)


FAMILIES = {
    "wide": ((8, 14, 8), 0.0, {}),
    "wider than inputs and outputs together": ((3, 12, 4), 0.0, {}),
    "narrow": ((6, 2, 5), 0.0, {}),
    "one neuron": ((5, 1, 4), 0.0, {}),
    "one neuron, λ > 0": ((5, 1, 3), 0.8, {}),
    "one neuron, λ < 0": ((3, 1, 3), -2.0, {}),
    "λ > 0": ((4, 3, 5), 1.0, {}),
    "λ < 0": ((5, 4, 3), -0.5, {}),
    "small λ": ((4, 4, 4), 1e-3, {}),
    "large λ": ((4, 3, 5), 30.0, {}),
    "layer rates": ((4, 5, 3), 0.0, {"rates": (0.5, 3.0)}),
    "layer rates, λ": ((4, 3, 3), -1.0, {"rates": (2.0, 0.3)}),
    "inputs": ((4, 5, 3), 0.0, {"c": 0.125}),
    "weight decay": ((4, 5, 3), 0.0, {"gamma": 0.2}),
}


@pytest.mark.parametrize("scale", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_weights_follow_scipy(family, scale, rng):
    sizes, lam, options = FAMILIES[family]
    v1, v2 = lr.inits.lambda_balanced(rng, sizes=sizes, lam=lam, scale=scale).weights
    eta1, eta2 = options.get("rates", (1.0, 1.0))
    singular_values = np.linspace(1.3, 0.5, min(sizes[0], sizes[2]))
    sigma_yx = target(rng, sizes[2], sizes[0], singular_values)
    case = generic(Start((v1 / np.sqrt(eta2), v2 / np.sqrt(eta1)), sigma_yx, lam, **options))
    problem, times = case.problem, TIMES[:5] if abs(lam) > 10 else TIMES
    traj = lr.solve(problem, times, method="riccati")
    arguments = (case.start, case.sigma_yx, problem.task.sigma_xx, times, case.rates, case.gamma)
    flow = integrate.weights(*arguments)
    for W, exact in zip(traj.weights, flow, strict=True):
        np.testing.assert_allclose(W, exact, atol=REQUIRED * max(1.0, np.abs(exact).max()))
    assert_consistent(traj)


@pytest.mark.parametrize("sizes, lam, t", [((2, 2, 2), 0.0, 5.0), ((2, 1, 2), 0.7, 4.0), ((2, 3, 1), 0.0, 4.0)])
def test_weights_follow_the_taylor_series(sizes, lam, t, rng):
    """Twenty-five digits instead of scipy's ten: the rotation of the hidden units is as good as it claims."""
    W = lr.inits.lambda_balanced(rng, sizes=sizes, lam=lam, scale=0.4).weights
    case = generic(Start(W, target(rng, sizes[2], sizes[0]), lam))
    traj = lr.solve(case.problem, [t], method="riccati")
    exact = taylor_weights(*case.start, case.sigma_yx, t, digits=25)
    for W, series in zip(traj.weights, exact, strict=True):
        np.testing.assert_allclose(W[0], to_float(series), atol=1e-10)


@pytest.mark.long
@pytest.mark.parametrize("sizes, lam", [((4, 6, 4), 0.0), ((4, 2, 5), 0.0), ((4, 3, 5), 1.0), ((4, 3, 4), -30.0)])
@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1.0])
@pytest.mark.timeout(120)  # steps of fixed length would take years
def test_a_very_long_time_takes_no_longer(sizes, lam, scale, rng):
    network = lr.inits.lambda_balanced(rng, sizes=sizes, lam=lam, scale=scale)
    case = generic(Start(network.weights, target(rng, sizes[2], sizes[0]), lam))
    traj = lr.solve(case.problem, [0.0, 1.0, 1e3, 1e6, 1e12], method="riccati")
    W1, W2 = traj.weights
    assert_consistent(traj)
    for W, given in zip((W1, W2), network.weights, strict=True):
        np.testing.assert_allclose(W[0], given, atol=1e-13 * max(1.0, np.abs(given).max()))


def test_the_weights_do_not_depend_on_the_times_asked_for(rng):
    network = lr.inits.zero_balanced(rng, sizes=(5, 6, 4), scale=0.1)
    problem = lr.Problem(lr.Task.from_correlations(target(rng, 4, 5)), network)
    few, many = (lr.solve(problem, times).weights for times in ([20.0], np.linspace(0, 20, 101)))
    for a, b in zip(few, many, strict=True):
        np.testing.assert_allclose(a[0], b[-1], atol=1e-9)


def test_turned_hidden_units_stay_turned(rng):
    network = lr.inits.zero_balanced(rng, sizes=(4, 6, 3), scale=0.3)
    task = lr.Task.from_correlations(target(rng, 3, 4))
    R = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    turned = lr.Network([R @ network.weights[0], network.weights[1] @ R.T])
    plain, other = (lr.solve(lr.Problem(task, net), TIMES).weights for net in (network, turned))
    np.testing.assert_allclose(other[0], R @ plain[0], atol=REQUIRED)
    np.testing.assert_allclose(other[1], plain[1] @ R.T, atol=REQUIRED)


def test_hidden_units_without_weights_stay_without(rng):
    W1, W2 = lr.inits.zero_balanced(rng, sizes=(4, 3, 5), scale=0.2).weights
    padded = lr.Network([np.vstack([W1, np.zeros((2, 4))]), np.hstack([W2, np.zeros((5, 2))])])
    problem = lr.Problem(lr.Task.from_correlations(target(rng, 5, 4)), padded)
    traj = lr.solve(problem, TIMES)
    np.testing.assert_allclose(traj.weights[0][:, 3:], 0.0, atol=1e-13)
    np.testing.assert_allclose(traj.weights[1][:, :, 3:], 0.0, atol=1e-13)


def test_on_the_separatrix_the_weights_stay_on_it(rng):
    sigma_yx = target(rng, 3, 3, np.array([1.5, 1.0, 0.5]))
    start = zero_balanced_mp(rng, 3, 4, 3, 0.3, sign=-1, target=sigma_yx, digits=40)
    problem = lr.Problem(lr.Task.from_correlations(sigma_yx), lr.Network([to_float(W) for W in start]))
    traj = lr.solve(problem, [0.0, 5.0, 20.0, 1e4, 1e6])
    flow = integrate.weights(problem.network.weights, sigma_yx, None, traj.times[:3])
    for W, exact in zip(traj.weights, flow, strict=True):
        np.testing.assert_allclose(W[:3], exact, atol=1e-7)  # scipy leaves it like e^{t/2}
    assert_consistent(traj)


def test_the_semantic_hierarchy_in_seconds():
    """8-14-8 with modes that differ by a tenth of a percent, to full learning."""
    problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.01))
    assert not problem.facts.determinant_obstruction  # or scipy would leave the saddle
    traj = lr.solve(problem, np.linspace(0, 400, 60))
    flow = integrate.weights(
        problem.network.weights, problem.task.sigma_yx, problem.task.sigma_xx, traj.times[[0, 10, 20]]
    )
    for W, exact in zip(traj.weights, flow, strict=True):
        np.testing.assert_allclose(W[[0, 10, 20]], exact, atol=REQUIRED)
    assert_consistent(traj)


def test_one_hidden_direction_has_nothing_to_rotate():
    """Integrated by SciPy: the weights themselves, and not their Gram matrix alone."""
    from scipy.integrate import solve_ivp

    rng = np.random.default_rng(5)
    for delta in (-3.0, 0.0, 2.0):
        T = rng.normal(size=(1, 3))
        problem = lr.Problem(lr.Task.from_correlations(T), lr.inits.single_neuron(rng.normal(size=3), delta=delta))
        w, a = problem.network.weights

        def velocity(_, q, T=T):
            E = T - q[3] * q[:3]
            return np.append(q[3] * E[0], E[0] @ q[:3])

        times = np.linspace(0.0, 6.0, 30)
        run = solve_ivp(velocity, (0.0, 6.0), [*w[0], a[0, 0]], t_eval=times, method="DOP853", rtol=1e-12, atol=1e-14)
        W1, W2 = lr.solve(problem, times).weights
        np.testing.assert_allclose(np.concatenate([W1[:, 0], W2[:, 0]], axis=1), run.y.T, atol=1e-9)


@pytest.mark.timeout(20)  # where rounding held the steps at 5000 time units it took days
def test_nearly_equal_singular_values_turn_for_ever_in_few_steps(rng):
    """s1 − s2 = 1.3e-13: hidden units turn at 1e-14 for 1e13 time units; until then as if they were equal."""
    start = lr.inits.zero_balanced(rng, sizes=(5, 3, 4), scale=0.1)
    U, V = (np.linalg.qr(rng.normal(size=(n, n)))[0][:, :4] for n in (4, 5))
    times = np.array([0.0, 30.0, 1e6, 1e10, 1e12, 1e15])
    near, equal = (
        lr.solve(lr.Problem(lr.Task.from_correlations((U * [1.0, 1.0 - gap, 0.6, 0.3]) @ V.T), start), times)
        for gap in (1.3e-13, 0.0)
    )
    assert_consistent(near)
    W1, W2 = near.weights
    np.testing.assert_allclose(W2.mT @ W2, W1 @ W1.mT, atol=1e-13)
    for W, same, given in zip(near.weights, equal.weights, start.weights, strict=True):
        np.testing.assert_allclose(W[0], given, atol=1e-14)
        np.testing.assert_allclose(W[:4], same[:4], atol=1e-13 * 1e10)
        np.testing.assert_allclose(W[:3], same[:3], atol=1e-6)


@pytest.mark.parametrize(
    ("sizes", "lam"),
    [((3, 3, 3), 1.0), ((3, 3, 3), 1e3), ((3, 3, 3), -300.0), ((6, 4, 4), 30.0), ((6, 4, 4), 1e3), ((4, 4, 6), -300.0)],
)
def test_weights_rest_with_the_network(sizes, lam):
    """As many columns as rows that grow; rounding of a basis that turns for ever would add up, at a rate of |λ|."""
    task = lr.Task.from_correlations(target(np.random.default_rng(0), sizes[2], sizes[0], np.array([3.0, 2.0, 1.0])))
    problem = lr.Problem(task, lr.inits.lambda_balanced(0, sizes=sizes, lam=lam, scale=0.3))
    traj = lr.solve(problem, [1.0, 60.0, 1e4, 1e8])
    largest = max(np.abs(W).max() for W in traj.weights)
    assert max(np.abs(W[2:] - W[1]).max() for W in traj.weights) <= 1e-14 * largest
    assert_consistent(traj)
