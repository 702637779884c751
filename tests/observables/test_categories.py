"""Typicality, coherence and projection: by hand, by loops over the items, and by gradient descent of what is new."""

from __future__ import annotations

import numpy as np
import pytest
from problems import piecewise_linear, sampled, solved

import lazyrich as lr
from observables.developing import limit_of_descent

obs = lr.observables


@pytest.fixture(scope="module")
def line():
    """Four items with hidden activities on a line, after training: √2 of (3, 1, −2, −2)/√(2·√18) each, up to a sign."""
    task = lr.Task.from_data(np.eye(4), [[3.0], [1.0], [-2.0], [-2.0]], items=["penguin", "gull", "oak", "pine"])
    return lr.solve(lr.Problem(task, lr.inits.aligned(0, task, hidden=2, strengths=0.01)), [0.0, 200.0])


@pytest.fixture(scope="module")
def kingdom():
    task = lr.tasks.semantic_hierarchy()
    problem = lr.Problem(task, lr.inits.zero_balanced(1, sizes=(8, 10, 8), scale=0.01))
    return lr.solve(problem, np.linspace(0.0, 30.0, 7))


def hidden(traj, k):
    """Activities at one time from the weights, a row per item."""
    return np.asarray(traj.problem.task.inputs) @ np.asarray(traj.weights[0][k]).T


def test_by_hand(line):
    """Mean 0, prototypes 2 and −2: parts along them 3/2, 1/2; 1, 1. Coherence 2²/((9 + 1)/2), 1."""
    groups = [["penguin", "gull"], ["oak", "pine"]]
    np.testing.assert_allclose(obs.typicality(line, groups)[-1], [1.5, 0.5, 1.0, 1.0], rtol=1e-12)
    np.testing.assert_allclose(obs.category_coherence(line, groups)[-1], [0.8, 1.0], rtol=1e-12)
    H = np.array([3.0, 1.0, -2.0, -2.0])
    np.testing.assert_allclose(obs.inductive_projection(line)[-1], H[None] / H[:, None], rtol=1e-12)


def test_a_single_mode_is_the_same_at_all_times(line):
    np.testing.assert_allclose(*obs.typicality(line, [[0, 1], [2, 3]]), rtol=1e-9)


def test_items_of_no_group_are_nan_and_names_are_numbers(line):
    found = obs.typicality(line, [["oak", 3]])
    assert np.isnan(found[:, :2]).all() and np.isfinite(found[:, 2:]).all()


def test_by_loops(kingdom):
    groups = [[0, 1, 3], [4, 7]]
    typical, coherent = obs.typicality(kingdom, groups), obs.category_coherence(kingdom, groups)
    for k in range(len(kingdom.times)):
        H = hidden(kingdom, k)
        c = sum(H) / len(H)
        for g, group in enumerate(groups):
            p = sum(H[i] for i in group) / len(group)
            parts = [float((H[i] - c) @ (p - c)) / float((p - c) @ (p - c)) for i in group]
            np.testing.assert_allclose(typical[k, group], parts, rtol=1e-8)
            assert np.mean(parts) == pytest.approx(1, rel=1e-9)
            around = sum(float((H[i] - c) @ (H[i] - c)) for i in group) / len(group)
            assert coherent[k, g] == pytest.approx(float((p - c) @ (p - c)) / around, rel=1e-8)
    assert (coherent >= 0).all() and (coherent <= 1).all()


def test_typicality_is_the_entry_in_the_mode(kingdom):
    """Animals against plants is one mode: v_i over the mean of v over the animals, once it is learned."""
    task = lr.Task.from_data(np.eye(4), np.outer([2.0, 1.0, -1.5, -1.5], [1.0, 2.0]))
    traj = lr.solve(lr.Problem(task, lr.inits.aligned(0, task, hidden=1, strengths=0.01)), [500.0])
    v = np.linalg.svd(task.sigma_yx)[2][0]
    np.testing.assert_allclose(obs.typicality(traj, [[0, 1]])[0, :2], v[:2] / v[:2].mean(), rtol=1e-11)


@pytest.mark.parametrize("kind", [solved, sampled, piecewise_linear])
@pytest.mark.parametrize("seed", range(12))
def test_a_new_property_is_inner_products_over_a_square(kind, seed):
    traj = kind(seed, depth=2 + seed % 2) if kind is sampled else kind(seed)
    found, G = obs.inductive_projection(traj), obs.rsm_in(traj)
    for k, i in np.ndindex(G.shape[:2]):
        if G[k, i, i] > 1e-9 * G[k].max():
            np.testing.assert_allclose(found[k, i], G[k, i] / G[k, i, i], rtol=1e-6, atol=1e-9)


def test_a_new_property_is_where_descent_leaves_a_new_output(kingdom):
    """The weights of a new output from zero, taught of one item alone, the layer below held."""
    for k, item in [(1, 0), (3, 5), (6, 2)]:
        H, w = hidden(kingdom, k), np.zeros(10)
        for _ in range(2000):
            w -= 0.5 / (H[item] @ H[item]) * (w @ H[item] - 1.0) * H[item]
        np.testing.assert_allclose(obs.inductive_projection(kingdom)[k, item], H @ w, rtol=1e-9, atol=1e-12)


def test_a_feature_of_a_new_item_is_where_descent_leaves_its_activity(kingdom):
    for k, feature in [(1, 0), (3, 5), (6, 2)]:
        N, h = np.asarray(kingdom.weights[1][k]), np.zeros(10)
        for _ in range(2000):
            h -= 0.5 / (N[feature] @ N[feature]) * (N[feature] @ h - 1.0) * N[feature]
        found = obs.inductive_projection(kingdom, "item")[k, feature]
        np.testing.assert_allclose(found, N @ h, rtol=1e-9, atol=1e-12)


def test_projection_narrows_as_concepts_part():
    """What holds of the salmon holds of animals at first, then of fish, and in the end of itself."""
    task = lr.tasks.semantic_hierarchy()
    problem = lr.Problem(task, lr.inits.aligned(0, task, hidden=8, strengths=1e-4))
    found = obs.inductive_projection(lr.solve(problem, [10.0, 20.0, 60.0]))[:, 0]
    fish, bird, plant = found[:, 1], found[:, 2:4].mean(axis=1), found[:, 4:].mean(axis=1)
    assert fish[0] > 0.9 and bird[0] > 0.75 and plant[0] < 0.2
    assert fish[1] > 0.85 and bird[1] < 0.5
    assert fish[2] < 0.3 and bird[2] < 0.2


@pytest.mark.compiles
@pytest.mark.parametrize("quantity", ["typicality", "category_coherence", "inductive_projection", "rsm"])
def test_gradient_descent_agrees(quantity):
    task = lr.tasks.semantic_hierarchy()
    problem = lr.Problem(task, lr.inits.zero_balanced(1, sizes=(8, 10, 8), scale=0.05))
    groups = [[0, 1, 2, 3], [4, 5, 6, 7]]
    measure = {
        "typicality": lambda traj: obs.typicality(traj, groups)[-1],
        "category_coherence": lambda traj: obs.category_coherence(traj, groups)[-1],
        "inductive_projection": lambda traj: obs.inductive_projection(traj)[-1],
        "rsm": lambda traj: obs.rsm_in(traj)[-1],
    }[quantity]
    exact = measure(lr.solve(problem, [0.0, 8.0]))
    np.testing.assert_allclose(limit_of_descent(measure, problem, 8.0), exact, atol=1e-4)  # second order: rate² = 4e-4


def test_without_activity_nothing_is_said():
    problem = lr.Problem(lr.tasks.ring(items=4), lr.Network([np.zeros((3, 4)), np.zeros((4, 3))]))
    traj = lr.Trajectory.from_weights(problem, [0.0], [np.zeros((1, 3, 4)), np.zeros((1, 4, 3))])
    for found in (
        obs.typicality(traj, [[0, 1]]),
        obs.category_coherence(traj, [[0, 1]]),
        obs.inductive_projection(traj),
        obs.inductive_projection(traj, "item"),
    ):
        assert np.isnan(found).all()


SAYS = {
    r"^of must be one of 'property', 'item', and it is 'items' \(did you mean 'item'\?\)": lambda traj: (
        obs.inductive_projection(traj, "items")
    ),
    r"^inductive_projection of a new item belongs to linear networks, and this one is relu": lambda traj: (
        obs.inductive_projection(piecewise_linear(0), "item")
    ),
    r"^typicality needs a hidden layer, and this network has none": lambda traj: obs.typicality(
        sampled(0, depth=1), [[0]]
    ),
    r"^groups must be lists of items, .* and it is \[\]": lambda traj: obs.category_coherence(traj, []),
    r"^groups must have no item in common, and 'gull' is there twice": lambda traj: obs.typicality(
        traj, [["gull"], [0, -3]]
    ),
    r"^traj must be a lazyrich Trajectory": lambda traj: obs.category_coherence(None, [[0]]),
}


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("says", SAYS)
def test_bad_input_is_one_sentence(says, line):
    with pytest.raises(lr.InvalidInput, match=says):
        SAYS[says](line)
