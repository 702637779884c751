"""Multidimensional scaling: known distances, stress from which there is no way down, turns that cannot be bettered."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

import lazyrich as lr
from lazyrich.observables import scaling
from observables.developing import limit_of_descent

obs = lr.observables


@pytest.fixture(scope="module")
def kingdom():
    task = lr.tasks.semantic_hierarchy()
    problem = lr.Problem(task, lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.01))
    return lr.solve(problem, np.linspace(0.0, 40.0, 25))


def apart(Z):
    return np.array([[np.sqrt(sum((a - b) ** 2)) for b in Z] for a in Z])


def test_a_triangle_lies_in_a_plane():
    """One-hot features of strengths 1, 2, 3: activities √s, at right angles; sides √3, 2, √5."""
    task = lr.Task.from_data(np.eye(3), np.diag([1.0, 2.0, 3.0]))
    (points,) = obs.mds(lr.solve(lr.Problem(task, lr.inits.aligned(0, task, hidden=3, strengths=0.01)), [200.0]))
    sides = np.sqrt([3.0, 4.0, 5.0])
    np.testing.assert_allclose([apart(points)[0, 1], apart(points)[0, 2], apart(points)[1, 2]], sides, rtol=1e-10)
    np.testing.assert_allclose(points.sum(axis=0), 0, atol=1e-12)


def test_with_all_dimensions_distances_are_kept(kingdom):
    found, wanted = obs.mds(kingdom, dimensions=7), obs.hidden_distances(kingdom)
    for Z, D in zip(found, wanted, strict=True):
        np.testing.assert_allclose(apart(Z), D, atol=1e-9)


def test_classical_scaling_is_the_strongest_directions(kingdom):
    """Two dimensions keep as much of the centred activities as any two can."""
    for Z, G in zip(obs.mds(kingdom), obs.rsm_in(kingdom), strict=True):
        J = np.eye(8) - 1 / 8
        values = np.linalg.eigvalsh(J @ G @ J)
        assert np.sum(Z**2) == pytest.approx(values[-1] + values[-2], rel=1e-9)


def test_more_dimensions_than_there_are_stay_empty(kingdom):
    found = obs.mds(kingdom, dimensions=10)
    assert found.shape == (25, 8, 10) and not found[-1, :, 8:].any()


@pytest.mark.parametrize("stress", [False, True])
def test_no_turn_brings_a_state_nearer_to_the_next(kingdom, stress):
    """Z_tᵀZ_{t+1} is symmetric without negative eigenvalues: the condition of Procrustes."""
    found = obs.mds(kingdom, stress=stress)
    for Z, after in pairwise(found):
        M = Z.T @ after
        np.testing.assert_allclose(M, M.T, atol=1e-12 * np.abs(M).max())
        assert np.linalg.eigvalsh((M + M.T) / 2)[0] >= -1e-12 * np.abs(M).max()
        for angle in np.linspace(0, 2 * np.pi, 12):
            c, s = np.cos(angle), np.sin(angle)
            for turn in ([[c, -s], [s, c]], [[c, s], [s, -c]]):
                assert np.linalg.norm(Z - after) <= np.linalg.norm(Z @ np.array(turn) - after) + 1e-12


def test_stress_is_at_a_least(kingdom):
    wanted, Z = obs.hidden_distances(kingdom)[-1], obs.mds(kingdom, stress=True)[-1]

    def stress(z):
        D = apart(z.reshape(8, 2))
        return sum((D[i, j] - wanted[i, j]) ** 2 for i in range(8) for j in range(i))

    own, classical = stress(Z.ravel()), stress(obs.mds(kingdom)[-1].ravel())
    assert own < 0.7 * classical
    assert minimize(stress, Z.ravel(), method="BFGS").fun == pytest.approx(own, rel=1e-4)  # no way further down
    assert scaling.stress_of(wanted, Z) == pytest.approx(np.sqrt(2 * own / np.sum(wanted**2)), rel=1e-12)


def test_stress_shows_what_classical_scaling_leaves_out(kingdom):
    """Kingdoms and two families are the strongest modes: classical scaling has no room for species in a plane."""
    classical, by_stress = (apart(obs.mds(kingdom, stress=stress)[-1]) for stress in (False, True))
    pairs = [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert max(classical[i, j] for i, j in pairs) < 0.5 * min(by_stress[i, j] for i, j in pairs)


def test_items_move_and_axes_do_not(kingdom):
    fine = lr.solve(kingdom.problem, np.linspace(10.0, 40.0, 600))
    steps = np.abs(np.diff(obs.mds(fine, stress=True), axis=0)).max(axis=(1, 2))
    assert steps.max() < 0.2 * np.abs(obs.mds(fine, stress=True)).max()


@pytest.mark.compiles
def test_gradient_descent_agrees(kingdom):
    """Squares of distances in the plane of descent, in the limit of small rates."""
    measure = lambda traj: apart(obs.mds(traj)[-1])
    problem = lr.Problem(kingdom.problem.task, lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.05))
    exact = measure(lr.solve(problem, [0.0, 8.0]))
    np.testing.assert_allclose(limit_of_descent(measure, problem, 8.0), exact, atol=1e-4)


def test_states_without_any_activity_are_one_point():
    problem = lr.Problem(lr.tasks.ring(items=4), lr.Network([np.zeros((3, 4)), np.zeros((4, 3))]))
    weights = [np.zeros((2, 3, 4)), np.zeros((2, 4, 3))]
    weights[0][1] = np.eye(3, 4)
    found = obs.mds(lr.Trajectory.from_weights(problem, [0.0, 1.0], weights), stress=True)
    assert np.isfinite(found).all() and not found[0].any() and found[1].any()
    both = obs.mds(lr.Trajectory.from_weights(problem, [0.0], [W[:1] for W in weights]), stress=True)
    assert not both.any()


SAYS = {
    r"^dimensions must be at least 1, and it is 0": lambda traj: obs.mds(traj, 0),
    r"^stress must be True or False, and it is 'yes'": lambda traj: obs.mds(traj, stress="yes"),
    r"^layer must be at most 1 for this network, and it is 2": lambda traj: obs.mds(traj, layer=2),
    r"^traj must be a lazyrich Trajectory": lambda traj: obs.mds(np.eye(2)),
}


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("says", SAYS)
def test_bad_input_is_one_sentence(says, kingdom):
    with pytest.raises(lr.InvalidInput, match=says):
        SAYS[says](kingdom)
