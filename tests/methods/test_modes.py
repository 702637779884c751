"""Aligned two-layer networks: every mode against its Taylor series, all of them against scipy and the closed form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import integrate
from oracles.taylor_mp import mode_mp

import lazyrich as lr
from lazyrich.methods.modes import mode_strength

from .families import relative_errors, target

FLOW = 1e-9  # what scipy's integration is good for
TIMES = np.array([0.0, 0.1, 0.7, 3.0, 12.0])

pytestmark = pytest.mark.filterwarnings("error")  # no division by zero on the way


def orthonormal(rng: np.random.Generator, size: int, columns: int) -> np.ndarray:
    return np.linalg.qr(rng.normal(size=(size, columns)))[0]


def assert_follows_scipy(problem: lr.Problem, times: np.ndarray = TIMES) -> lr.Trajectory:
    """Weights, function and Gram matrix."""
    traj, task = lr.solve(problem, times), problem.task
    assert traj.method == "modes"
    start, rest = problem.network.weights, (problem.rates, problem.weight_decay)
    for layer, W in zip(
        traj.weights, integrate.weights(start, task.sigma_yx, task.sigma_xx, times, *rest), strict=True
    ):
        np.testing.assert_allclose(layer, W, atol=FLOW)
    np.testing.assert_allclose(traj.function, traj.weights[1] @ traj.weights[0], atol=1e-13)
    Q = np.concatenate([traj.weights[0].transpose(0, 2, 1), traj.weights[1]], axis=1)
    np.testing.assert_allclose(traj.gram, Q @ Q.transpose(0, 2, 1), atol=1e-13)
    return traj


# One mode


@pytest.mark.parametrize("a0", [1e-8, 0.05, 3.0, 0.0, -1e-6, -0.3])
@pytest.mark.parametrize("lam", [0.0, 1e-6, 1e-3, -1.0, 30.0])
@pytest.mark.parametrize("s", [0.0, 0.3, 2.0])
def test_one_mode_follows_its_taylor_series(s, lam, a0):
    times = [0.01, 1.0] if abs(lam) > 10 else [0.3, 4.0]
    exact = np.array([float(mode_mp(lam, s, a0, t, digits=25)) for t in times])
    np.testing.assert_allclose(mode_strength(s, a0, lam, np.array(times)), exact, rtol=1e-13, atol=0)


@pytest.mark.parametrize("s, lam, a0, t", [(2.0, 0.0, 1e-8, 9.0), (0.3, 1e-6, -0.3, 40.0), (2.0, 1e-6, -0.3, 6.0)])
def test_one_mode_late(s, lam, a0, t):
    """From the plateau to saturation, and across zero where λ is all that helps across."""
    assert float(mode_strength(s, a0, lam, t)) == pytest.approx(float(mode_mp(lam, s, a0, t)), rel=1e-13)


@pytest.mark.parametrize("a0", [1e-200, 1e-8, 1.0, 5.0, -1e-8, -0.3])
@pytest.mark.parametrize("lam", [0.0, 1e-8, 1.0, -30.0, 1e6])
def test_one_mode_ends_at_its_target_unless_it_cannot_cross_zero(lam, a0):
    end = mode_strength(1.5, a0, lam, np.array([1e12, 1e200]))
    np.testing.assert_allclose(end, 0.0 if lam == 0 and a0 < 0 else 1.5, rtol=1e-14, atol=0)


@pytest.mark.parametrize("a0", [0.3, -0.3])
def test_one_mode_without_target_decays(a0):
    """λ = 0: a power law, a0/(1 + 2|a0|t). λ ≠ 0: exponentially, at rate |λ| in the end."""
    t = np.array([0.0, 1.0, 1e6, 1e12])
    np.testing.assert_allclose(mode_strength(0.0, a0, 0.0, t), a0 / (1 + 2 * 0.3 * t), rtol=1e-14)
    late = mode_strength(0.0, a0, 2.0, np.array([20.0, 21.0]))
    assert late[1] / late[0] == pytest.approx(np.exp(-2.0), rel=1e-12)


modes = st.tuples(
    st.floats(0.01, 10), st.sampled_from([1, -1]), st.floats(1e-8, 10), st.sampled_from([0.0, 1e-3, 1.0, 30.0])
)


@pytest.mark.long
@given(modes, st.floats(0, 3), st.floats(0, 3))
def test_one_mode_is_a_semigroup_and_knows_no_sign_of_lambda(mode, t1, t2):
    s, sign, size, lam = mode
    through = mode_strength(s, sign * size, lam, t1 + t2)
    half_way = mode_strength(s, sign * size, lam, t1)
    # rounding of the state half way grows and fades as the mode itself does: λ ≫ a would cost digits near a = 0
    sensitivity = np.hypot(lam, 2 * through) / np.hypot(lam, 2 * half_way) if lam or half_way else 1.0
    allowed = 1e-13 * (abs(through) + sensitivity * abs(half_way))
    assert abs(mode_strength(s, half_way, lam, t2) - through) <= allowed
    assert mode_strength(s, sign * size, -lam, t1 + t2) == through


@pytest.mark.long
@given(modes, st.floats(0, 10), st.floats(1e-3, 1e3))
def test_one_mode_in_other_units(mode, t, unit):
    s, sign, size, lam = mode
    a = mode_strength(s, sign * size, lam, t)
    scaled = mode_strength(unit * s, unit * sign * size, unit * lam, t / unit)
    assert abs(scaled / unit - a) <= 1e-13 * (abs(a) + (size if lam else 0.0))


@given(modes)
def test_one_mode_moves_towards_its_target(mode):
    s, sign, size, lam = mode
    distance = np.abs(s - mode_strength(s, sign * size, lam, np.linspace(0, 5, 40)))
    assert np.all(np.diff(distance) <= 1e-14 * (s + size))


# Networks


@pytest.mark.parametrize("sizes", [(4, 6, 3), (3, 3, 3), (5, 2, 4), (1, 1, 1)])
@pytest.mark.parametrize("lam", [0.0, 1e-3, 1.0, 30.0, -1.0, -30.0])
def test_agrees_with_the_general_closed_form(sizes, lam, rng):
    d_in, h, d_out = sizes
    task = lr.Task.from_correlations(target(rng, d_out, d_in))
    h = h if lam == 0 else min(h, d_in, d_out)
    problem = lr.Problem(task, lr.inits.aligned(rng, task, hidden=h, strengths=0.02, lam=lam), rates=(0.5, 0.5))
    times = np.array([0.0, 0.3, 5.0, 40.0, 1e12])
    by_modes, by_riccati = (lr.solve(problem, times, method=method) for method in ("modes", "riccati"))
    assert lr.solve(problem, times).method == "modes"
    assert relative_errors(by_modes.gram, by_riccati.gram).max() <= 1e-12
    np.testing.assert_allclose(by_modes.loss, by_riccati.loss, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("rates, c", [((1.0, 1.0), 1.0), ((0.3, 2.0), 0.125)])
def test_each_mode_has_its_own_balance(rates, c, rng):
    task = lr.Task.from_correlations(target(rng, 3, 5), c * np.eye(5))
    start = lr.inits.aligned(rng, task, hidden=4, strengths=[0.1, -0.2, 0.01], lam=[0.5, -2.0, 0.0])
    problem = lr.Problem(task, start, rates=rates)
    assert not problem.facts.balanced and problem.facts.method == "modes"
    assert_follows_scipy(problem)


def test_inputs_correlated_along_the_modes(rng):
    U, V = orthonormal(rng, 3, 3), orthonormal(rng, 4, 4)
    sigma_xx = (V * [2.0, 0.5, 1.0, 0.3]) @ V.T
    task = lr.Task.from_correlations((U * [1.5, 1.0, 0.4]) @ V[:, :3].T, sigma_xx)
    problem = lr.Problem(
        task, lr.inits.aligned(rng, task, hidden=5, strengths=0.05, lam=[0.0, 0.3, -0.3]), rates=(2.0, 0.7)
    )
    assert not problem.facts.whitened
    traj = assert_follows_scipy(problem)
    late = lr.solve(problem, [1e12]).function[0]
    np.testing.assert_allclose(late, (U * [0.75, 2.0, 0.4]) @ V[:, :3].T, atol=1e-12)
    assert traj.loss[-1] < traj.loss[0]


def test_inputs_that_never_come_change_nothing(rng):
    """Σxx without some direction, up to rounding: the start keeps what it has there."""
    U, V = orthonormal(rng, 3, 3), orthonormal(rng, 3, 3)
    task = lr.Task.from_correlations((U * [1.5, 0.5, 0.0]) @ V.T, (V * [1.0, 2.0, 0.0]) @ V.T)
    problem = lr.Problem(task, lr.inits.aligned(rng, task, hidden=3, strengths=[0.1, 0.2, 0.4]))
    assert_follows_scipy(problem)
    limit = lr.solve(problem, [1e12]).function[0]
    assert abs(U[:, 2] @ limit @ V[:, 2]) == pytest.approx(0.4, rel=1e-12)
    np.testing.assert_allclose(lr.fate(problem).function_limit, limit, atol=1e-12)


@pytest.mark.parametrize("angle", [0.3, np.pi / 2, 2.0])
def test_the_two_layers_may_use_different_hidden_directions(angle, rng):
    """p and q of a mode at an angle in hidden space: l² = λ² + 4‖p‖²‖q‖² sin² takes the place of λ²."""
    U, V, hidden = orthonormal(rng, 3, 3), orthonormal(rng, 4, 3), orthonormal(rng, 7, 6)
    p = hidden[:, :3] * [0.1, 0.5, 1.2]
    q = (np.cos(angle) * hidden[:, :3] + np.sin(angle) * hidden[:, 3:]) * [0.4, 0.05, 0.7]
    task = lr.Task.from_correlations((U * [1.5, 1.0, 0.4]) @ V.T)
    problem = lr.Problem(task, lr.Network([p @ V.T, U @ q.T]))
    assert not problem.facts.balanced
    assert_follows_scipy(problem)
    np.testing.assert_allclose(lr.solve(problem, [1e6]).function[0], task.sigma_yx, atol=1e-12)


@pytest.mark.parametrize("singular_values", [(1.5, 1.5, 1.5), (2.0, 0.7, 0.7), (1.0, 0.0, 0.0)])
def test_equal_singular_values_take_the_basis_of_the_start(singular_values, rng):
    """Nothing in the target says which basis it is."""
    U, V, hidden = orthonormal(rng, 4, 3), orthonormal(rng, 3, 3), orthonormal(rng, 5, 3)
    task = lr.Task.from_correlations((U * singular_values) @ V.T)
    c1, c2 = np.array([0.3, 0.1, 0.5]), np.array([0.2, 0.4, -0.1])
    problem = lr.Problem(task, lr.Network([(hidden * c1) @ V.T, (U * c2) @ hidden.T]))
    assert problem.facts.aligned and not problem.facts.balanced
    assert_follows_scipy(problem)


@pytest.mark.parametrize("gamma", [0.1, 0.6, 3.0])
@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 5)])
def test_weight_decay(gamma, shape, rng):
    """Modes with s > γ are learned to s − γ, the others fade; those that start backwards fade faster."""
    task = lr.Task.from_correlations(target(rng, *shape, np.array([2.0, 0.9, 0.4])), 0.5 * np.eye(shape[1]))
    start = lr.inits.aligned(rng, task, hidden=4, strengths=[0.1, 0.3, -0.2])
    problem = lr.Problem(task, start, rates=(2.0, 2.0), weight_decay=gamma)
    traj = assert_follows_scipy(problem)
    general = lr.solve(problem, TIMES, method="riccati")
    assert relative_errors(traj.gram, general.gram).max() <= 1e-12
    s = np.linalg.svd(lr.solve(problem, [1e12]).function[0])[1]
    np.testing.assert_allclose(s, np.maximum(2 * (np.array([2.0, 0.9, 0.0]) - gamma), 0.0), atol=1e-12)


def test_value_at_the_start_and_semigroup(rng):
    task = lr.Task.from_correlations(target(rng, 3, 4), 0.3 * np.eye(4))
    start = lr.inits.aligned(rng, task, hidden=6, strengths=[0.1, -0.2, 1e-8], lam=[1.0, -3.0, 0.0])
    traj = lr.solve(lr.Problem(task, start, rates=(2.0, 0.5)), [0.0, 1.0, 8.0, 50.0])
    for layer, W in zip(traj.weights, start.weights, strict=True):
        np.testing.assert_allclose(layer[0], W, atol=1e-15)
    later = traj.solution.restarted(1.0).function(np.array([0.0, 7.0, 49.0]))
    np.testing.assert_allclose(later, traj.function[1:], atol=1e-14)
    again = lr.solve(lr.Problem(task, traj.network(1), rates=(2.0, 0.5)), [0.0, 7.0, 49.0])
    assert again.method == "modes"
    np.testing.assert_allclose(again.function, traj.function[1:], atol=1e-13)


@pytest.mark.parametrize("strengths", [0.1, [0.5, -0.1, 0.0]])
def test_all_is_finite_for_ever(strengths, rng):
    """Also for modes that start backwards or not at all, and for all that a trajectory can tell."""
    task = lr.Task.from_correlations(target(rng, 3, 3))
    problem = lr.Problem(task, lr.inits.aligned(rng, task, hidden=3, strengths=strengths))
    traj = lr.solve(problem, [0.0, 1e3, 1e12, 1e200])
    for values in (traj.function, traj.gram, traj.loss, *traj.weights):
        assert np.all(np.isfinite(values))
    U, s, Vt = np.linalg.svd(task.sigma_yx)
    end = s * (np.broadcast_to(strengths, 3) > 0)
    np.testing.assert_allclose(traj.function[1:], np.broadcast_to((U * end) @ Vt, (3, 3, 3)), atol=1e-13)
