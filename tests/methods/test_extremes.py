"""Where scales are far apart: slow directions beside fast ones, small modes beside large ones, close ones for long."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import integrate
from oracles.taylor_mp import deep_sizes_mp
from scipy.integrate import solve_ivp

import lazyrich as lr

DIAGONAL = lr.Task.from_correlations(np.diag([2.0, 1.0]))


@pytest.mark.parametrize("big, error", [(1e2, 1e-9), (1e3, 1e-9), (1e4, 1e-8)])
def test_delayed_rich_neurons_turn_as_slowly_as_they_should(big, error):
    """The rates √(s² + λ²/4) and |λ|/2 differ by s²/|λ|: their difference was lost at λ = −1e8."""
    w, a, target = np.array([big, 0.1]), 1e-3, np.array([-1.0, 2.0])
    problem = lr.Problem(lr.Task.from_correlations([target]), lr.Network([[w], [[a]]]))
    end = 0.1 * big**2

    def slope(_, y):
        E = target - y[2] * y[:2]
        return np.append(y[2] * E, E @ y[:2])

    run = solve_ivp(slope, (0.0, end), [*w, a], "Radau", rtol=1e-11, atol=1e-14)
    traj = lr.solve(problem, [end])
    np.testing.assert_allclose(traj.function[0, 0], run.y[2, -1] * run.y[:2, -1], atol=error)
    np.testing.assert_allclose(traj.weights[0][0, 0], run.y[:2, -1], atol=error * big)
    assert traj.certificate().exact, str(traj.certificate())


def test_inputs_of_small_variance_are_learned_late():
    """ȧ = 2a(1 − a)x with x = 5e-15, and the floats are exact."""
    x = 5e-15
    task = lr.Task.from_correlations(np.diag([1.0, x]), np.diag([1.0, x]))
    problem = lr.Problem(task, lr.Network([np.eye(2) / 2, np.eye(2) / 2]))
    traj = lr.solve(problem, [0.0, 1e12, 1e14, 1e16])
    np.testing.assert_allclose(traj.function[:, 1, 1], 1 / (1 + 3 * np.exp(-2 * x * traj.times)), rtol=1e-12)
    assert traj.certificate().exact and lr.fate(problem).limit == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("small", [(1e-8, 1e-7, 1e-7), (1e-8, 1e-8, 0.0)])
def test_a_small_mode_has_sizes_of_its_own(small):
    """Layers balanced relative to their largest mode, which says nothing of the small one."""
    problem = lr.Problem(DIAGONAL, lr.Network([np.diag([1.0, c]) for c in small]))
    assert problem.facts.zero_balanced and problem.facts.mode_imbalance > 0.5
    times = [0.0, 1e5, 5e6]
    traj = lr.solve(problem, times)
    for i, t in enumerate(times):
        truth = [float(b) for b in deep_sizes_mp(small, [1, 1, 1], 1.0, 1.0, t, digits=20)]
        np.testing.assert_allclose([W[i, 1, 1] for W in traj.weights], truth, rtol=1e-12)
    assert traj.certificate().exact and lr.fate(problem).kind == "global minimum"


def test_with_weight_decay_too():
    """`modes` took it for balanced; the general form does not need to."""
    network = lr.Network([np.diag([1.0, 1e-8]), np.diag([1.0, 1e-7])])
    traj = lr.solve(lr.Problem(DIAGONAL, network, weight_decay=0.1), [0.0, 18.0])
    states = integrate.weights(network.weights, DIAGONAL.sigma_yx, None, [0.0, 18.0], decay=0.1)
    assert traj.method == "riccati"
    np.testing.assert_allclose(traj.weights[0][1], states[0][1], atol=1e-9)


@pytest.mark.parametrize("depth, size", [(3, 1e5), (4, 1e4), (6, 300.0)])
def test_deep_modes_fall_from_far_above_to_the_target(depth, size):
    problem = lr.Problem(DIAGONAL, lr.Network([size * np.eye(2)] * depth))
    traj = lr.solve(problem, [0.0, 5.0, 1e6])
    np.testing.assert_allclose(np.diagonal(traj.function[-1]), [2.0, 1.0], rtol=1e-12)
    assert traj.certificate().exact and lr.fate(problem).loss_limit == pytest.approx(0.0, abs=1e-20)


@pytest.mark.parametrize("gap, least", [(1e-12, 1e-6), (1e-9, 1e-9)])
def test_close_modes_in_a_bottleneck_are_as_certain_as_their_difference(gap, least):
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(2))
    task = lr.Task.from_correlations((U * [1 + gap, 1.0, 0.5]) @ V.T)
    problem = lr.Problem(task, lr.inits.zero_balanced(1, sizes=(3, 1, 3), scale=0.1))
    early, late = lr.solve(problem, [10.0]).certificate(), lr.solve(problem, [1 / gap]).certificate()
    assert early.exact and late.doubt > least and not late.exact


def test_a_certificate_of_weights_that_are_gone():
    R = np.linalg.qr(np.random.default_rng(0).normal(size=(2, 2)))[0]
    task = lr.Task.from_correlations([[1.0, 2.0], [3.0, -1.0]])
    traj = lr.solve(lr.Problem(task, lr.Network([0.1 * R, 0.1 * R.T]), weight_decay=100.0), [0.0, 10.0])
    assert not traj.weights[0][1].any() and traj.certificate().exact


def test_sampled_runs_and_strangers_are_not_called_exact():
    """Right to rounding or not: what is not a closed form of this very start is not exact."""
    problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    other = lr.Problem(problem.task, lr.Network([[[0.01]], [[0.3]]]))
    times = np.linspace(0.5, 3.0, 9)
    weights = [np.array(W) for W in lr.solve(other, times).weights]
    certificate = lr.Trajectory(problem, times, "by hand", {"weights": weights}).certificate()
    assert not certificate.exact and certificate.residual > 1e-3 and certificate.drift > 1e-3
    weights[0][-1] = np.nan
    assert np.isnan(lr.Trajectory(problem, times, "by hand", {"weights": weights}).certificate().worst)


@pytest.mark.parametrize(
    "make, sentence",
    [
        (lambda: lr.Network([1e50 * np.eye(2)] * 8), "weights must have a product below 1e300"),
        (lambda: lr.Task.from_data(np.eye(2) * 1e-200, np.eye(2)), "inputs must have squares above 0"),
        (lambda: lr.Task.from_correlations(np.broadcast_to(1.0, (10**6, 10**6))), r"sigma_yx would take 7\.45e\+03"),
        (lambda: lr.Trajectory(None, [0.0], "by hand", {}), "problem must be a lazyrich Problem"),
        (lambda: lr.Problem(DIAGONAL, lr.Network([np.eye(2)] * 2), rates=(1e-20, 1e20)), "within a factor of 1e12"),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_what_cannot_be_used_is_said_in_one_sentence(make, sentence):
    with pytest.raises(lr.InvalidInput, match=sentence):
        make()


def test_what_is_derived_from_a_task_cannot_be_changed_either():
    problem = lr.Problem(DIAGONAL, lr.Network([np.eye(2)] * 2))
    mine = np.eye(2)
    task = lr.Task(sigma_yx=mine, sigma_xx=mine, sigma_yy=mine)
    mine[0, 0] = 7.0  # the caller's own array stays the caller's
    assert task.sigma_yx[0, 0] == 1.0
    for array in (task.target, task.modes.s, problem.alignment.s, problem.canonical.target):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7.0
