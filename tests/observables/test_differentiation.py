"""When items part: by the logistic curve and a root search of SciPy, and by gradient descent."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

import lazyrich as lr
from observables.developing import limit_of_descent, logistic

obs = lr.observables

# Four items, a tree of three levels, all entries ±: modes are columns, of singular values 4·(3, 2, 1, 1)/4 of Σyx
TREE = np.array([[1, 1, 1, 0], [1, 1, -1, 0], [1, -1, 0, 1], [1, -1, 0, -1]]) * [3.0, 2.0, np.sqrt(2), np.sqrt(2)]
A0 = 1e-3


@pytest.fixture(scope="module")
def problem():
    task = lr.Task.from_data(np.eye(4), TREE, items=["salmon", "canary", "rose", "oak"])
    return lr.Problem(task, lr.inits.aligned(0, task, hidden=5, strengths=A0))


@pytest.fixture(scope="module")
def traj(problem):
    return lr.solve(problem, np.linspace(0.0, 30.0, 61))


def squared(t, i, j):
    """‖h_i − h_j‖² of aligned layers: strengths a of the modes times squared differences of their vectors."""
    vectors = TREE / np.linalg.norm(TREE, axis=0)
    ends = np.linalg.norm(TREE, axis=0)  # of W; s of Σyx are a quarter
    return sum(logistic(t, e / 4, e, A0) * (v[i] - v[j]) ** 2 for e, v in zip(ends, vectors.T, strict=True))


def test_hidden_distances_are_those_of_the_modes(traj):
    found = obs.hidden_distances(traj)
    for k in (0, 20, 60):
        for i in range(4):
            for j in range(4):
                want = np.sqrt(squared(traj.times[k], i, j))
                assert found[k, i, j] == pytest.approx(want, rel=1e-7, abs=1e-9)


def test_items_part_when_a_root_search_says(traj):
    found = obs.differentiation(traj)
    for i, j in [(0, 1), (0, 2), (1, 3), (2, 3)]:
        half = (squared(0.0, i, j) + squared(1e3, i, j)) / 2
        root = brentq(lambda t, half=half, i=i, j=j: squared(t, i, j) - half, 0.0, 100.0, xtol=1e-14, rtol=1e-15)
        assert found[i, j] == found[j, i] == pytest.approx(root, rel=1e-10)
    assert np.isnan(np.diag(found)).all()


def test_groups_part_at_the_half_time_of_their_mode(traj):
    """Animals and plants by the second mode alone, s = 4/4 and a from A0 to 4: from ȧ = 2a(s − as/4)."""
    (time,) = obs.differentiation(traj, [["salmon", "canary"], [2, -1]])[[0], [1]]
    a, end, s = (4 + A0) / 2, 4.0, 1.0
    by_hand = np.log(a * (end - A0) / (A0 * (end - a))) / (2 * s)
    assert time == pytest.approx(by_hand, rel=1e-11)
    assert time == pytest.approx(lr.fate(traj.problem).half_times[1], rel=1e-11)


def test_kingdoms_before_families_before_species():
    task = lr.tasks.semantic_hierarchy()
    traj = lr.solve(lr.Problem(task, lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=1e-4)), [0.0, 1.0])
    kingdoms = obs.differentiation(traj, [range(4), range(4, 8)])[0, 1]
    families = obs.differentiation(traj, [[0, 1], [2, 3]])[0, 1]
    species = obs.differentiation(traj, [[0], [1]])[0, 1]
    assert kingdoms < families < species


def test_times_of_the_trajectory_do_not_matter_where_it_is_exact(problem, traj):
    other = obs.differentiation(lr.solve(problem, [0.0]))
    np.testing.assert_allclose(other, obs.differentiation(traj), rtol=1e-11)


@pytest.mark.compiles
def test_gradient_descent_agrees(problem, traj):
    found = limit_of_descent(obs.differentiation, problem, 30.0)
    off = np.abs(found - obs.differentiation(traj))[~np.eye(4, dtype=bool)]
    assert off.max() < 2e-3  # of 3 to 13: what is left is of second order in the rate, 0.0375
    coarse = obs.differentiation(lr.descend(problem, rate=0.075, steps=400, record="weights"))
    assert np.nanmax(np.abs(coarse - obs.differentiation(traj))) > 5 * off.max()


def test_what_never_parts_has_no_time():
    task = lr.Task.from_data(np.eye(3), [[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])  # twins
    found = obs.differentiation(lr.solve(lr.Problem(task, lr.inits.aligned(0, task, hidden=2, strengths=0.01)), [0.0]))
    assert np.isnan(found[0, 1]) and np.isfinite(found[0, 2])
    assert np.isnan(
        obs.differentiation(lr.solve(lr.Problem(task, lr.Network([np.zeros((2, 3)), np.zeros((2, 2))])), [0.0]))
    ).all()


@pytest.mark.parametrize("way", ["exact", "recorded"])
def test_items_that_come_together_do_not_part(way):
    """Twins that small random weights had set apart; likewise two items without features."""
    task = lr.Task.from_data(np.eye(6), [[2.0, 1, 0], [2, 1, 0], [0, 1, 2], [0, 0, 1], [0, 0, 0], [0, 0, 0]])
    problem = lr.Problem(task, lr.inits.zero_balanced(0, sizes=(6, 6, 3), scale=0.01))
    traj = {"exact": lr.solve, "recorded": lr.flow}[way](problem, np.linspace(0.0, 300.0, 601))
    traj = traj if way == "exact" else lr.Trajectory.from_weights(problem, traj.times, traj.weights)
    apart, found = obs.hidden_distances(traj), obs.differentiation(traj)
    for i, j in ((0, 1), (4, 5)):
        assert apart[-1, i, j] < apart[0, i, j] and np.isnan(found[i, j]) and np.isnan(found[j, i])
    assert np.isfinite(found[0, 2:]).all() and np.isfinite(found[2, 3])


def test_random_weights_that_stay_large_part_nobody():
    task = lr.tasks.tree(branches=(2, 2))
    traj = lr.solve(lr.Problem(task, lr.inits.zero_balanced(0, sizes=(4, 8, 4), scale=5.0)), np.linspace(0, 50, 51))
    assert np.isnan(obs.differentiation(traj)).all()


def test_a_single_group_parts_from_nobody(traj):
    assert np.isnan(obs.differentiation(traj, [[0, 1]])).all()


@pytest.mark.parametrize("kind", ["three layers", "tanh"])
@pytest.mark.compiles
def test_other_networks_are_read_from_their_records(kind):
    task = lr.Task.from_data(np.eye(4), TREE)
    sizes = (4, 5, 5, 4) if kind == "three layers" else (4, 6, 4)
    network = lr.inits.gaussian(0, sizes=sizes, scale=0.3)
    network = network if kind == "three layers" else lr.Network(network.weights, "tanh")
    run = lr.descend(lr.Problem(task, network), rate=0.02, steps=1500, record="weights")
    found = obs.differentiation(run, [[0, 1], [2, 3]])[0, 1]
    X = np.eye(4)
    hidden = [X @ W.T if kind == "three layers" else np.tanh(X @ W.T) for W in run.weights[0]]
    apart = np.array([np.sum((H[:2].mean(axis=0) - H[2:].mean(axis=0)) ** 2) for H in hidden])
    after = np.argmax(apart >= (apart[0] + apart[-1]) / 2)
    assert run.times[after - 1] <= found <= run.times[after]


def test_to_xarray_has_distances(traj):
    assert traj.to_xarray("hidden_distances").hidden_distances.dims == ("time", "sample", "sample_")


SAYS = {
    r"^traj must be a lazyrich Trajectory, and it is a int": lambda traj: obs.differentiation(3),
    r"^groups must be lists of items, such as \[\[0, 1\], \[2, 3\]\], and it is 'ab'": lambda traj: obs.differentiation(
        traj, "ab"
    ),
    r"^groups must be lists of items, .* and it is \[0, 1\]": lambda traj: obs.differentiation(traj, [0, 1]),
    r"^groups must not be empty, and group 1 is": lambda traj: obs.differentiation(traj, [[0], []]),
    r"^groups must have each item once, and 'salmon' is there twice": lambda traj: obs.differentiation(
        traj, [[0, "salmon"], [1]]
    ),
    r"^each item of groups must be one of 'salmon', .* and it is 'samon' \(did you mean 'salmon'\?\)": lambda traj: (
        obs.differentiation(traj, [["samon"], [1]])
    ),
    r"^each item of groups must lie between -4 and 3, and it is 4": lambda traj: obs.differentiation(traj, [[4], [1]]),
    r"^each item of groups must be a whole number, and it is 1\.5": lambda traj: obs.differentiation(
        traj, [[1.5], [1]]
    ),
    r"^layer must be at most 1 for this network, and it is 2": lambda traj: obs.hidden_distances(traj, 2),
    r"^each item of groups must be a whole number where the items have no names, and it is 'a'": lambda traj: (
        obs.differentiation(lr.solve(lr.Problem(lr.tasks.ring(items=4), traj.problem.network), [0.0]), [["a"], [1]])
    ),
    r"^differentiation needs a hidden layer, and this network has none": lambda traj: obs.differentiation(
        lr.solve(lr.Problem(traj.problem.task, lr.Network([np.eye(4)])), [0.0])
    ),
}


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("says", SAYS)
def test_bad_input_is_one_sentence(says, traj):
    with pytest.raises(lr.InvalidInput, match=says):
        SAYS[says](traj)
