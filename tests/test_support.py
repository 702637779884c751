"""Inputs of low rank: on the directions that the data have, a problem does the same, and may have an exact solution."""

from __future__ import annotations

import numpy as np
import pytest

import lazyrich as lr


def low_rank(seed, d_in=6, rank=3, d_out=2, samples=20):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(samples, rank)) @ rng.normal(size=(rank, d_in))
    return rng, X, rng.normal(size=(samples, d_out))


@pytest.mark.parametrize("activation", ["linear", "tanh"])
@pytest.mark.parametrize("biased", [False, True])
def test_loss_and_outputs_are_the_same_at_all_times(activation, biased):
    rng, X, Y = low_rank(0)
    W = [0.5 * rng.normal(size=(4, 6)), 0.5 * rng.normal(size=(2, 4))]
    biases = [rng.normal(size=4), rng.normal(size=2)] if biased else None
    whole = lr.Problem(lr.Task.from_data(X, Y), lr.Network(W, activation, biases=biases))
    small = whole.on_support()
    assert small.network.d_in == 3 and small.network.biased == biased
    one, other = (lr.descend(problem, rate=0.02, steps=60, at=[0, 20, 60]) for problem in (whole, small))
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-12)
    V = whole.task.without_constant().support
    for i in range(3):
        np.testing.assert_allclose(one.network(i)(X), other.network(i)(X @ V), atol=1e-12)
    outside = np.eye(6) - V @ V.T
    moved = one.weights[0][-1] - one.weights[0][0]
    np.testing.assert_allclose(moved[:4, :6] @ outside, 0, atol=1e-13)


def test_d_differs_by_a_constant():
    rng, X, Y = low_rank(1)
    whole = lr.Problem(lr.Task.from_data(X, Y), lr.inits.gaussian(rng, sizes=(6, 4, 2), scale=0.5))
    one, other = (lr.flow(problem, [0.0, 1.0, 5.0], rtol=1e-11) for problem in (whole, whole.on_support()))
    apart = lr.observables.conserved(one)[0] - lr.observables.conserved(other)[0]
    W1, V = whole.network.weights[0], whole.task.support
    np.testing.assert_allclose(apart, np.broadcast_to(-W1 @ (np.eye(6) - V @ V.T) @ W1.T, (3, 4, 4)), atol=1e-8)


def test_layers_are_balanced_after_the_directions_without_inputs_are_left_out():
    """The order of the hint. Before, they are balanced with directions that no sample has."""
    _, X, Y = low_rank(2)
    problem = lr.Problem(lr.Task.from_data(X, Y), lr.inits.zero_balanced(3, sizes=(6, 4, 2), scale=0.1))
    small = lr.Problem(problem.task.whitened(), problem.network).on_support()
    assert problem.facts.balanced and small.facts.method is None
    assert lr.Problem(small.task, lr.balanced(small.network).network).facts.method == "riccati"


def test_whitened_and_on_its_support_it_is_solved_exactly():
    _, X, Y = low_rank(2)
    task = lr.Task.from_data(X, Y).whitened()
    start = lr.inits.zero_balanced(3, sizes=(3, 4, 2), scale=0.1)
    network = lr.Network([start.weights[0] @ task.support.T, start.weights[1]])  # balanced as it stands
    problem = lr.Problem(task, network)
    assert problem.facts.method is None and problem.facts.input_rank == 3
    assert "and of rank 3)" in str(problem.facts)
    with pytest.raises(lr.NoExactSolution, match=r"try task\.whitened\(\), then problem\.on_support\(\), then"):
        lr.solve(problem, [1.0])
    small = problem.on_support()
    assert small.facts.method == "riccati" and small.facts.whitening_error == 0
    times = [0.0, 1.0, 3.0]
    np.testing.assert_allclose(lr.solve(small, times).loss, lr.flow(problem, times, rtol=1e-11).loss, rtol=1e-8)
    assert lr.solve(small, times).certificate().exact


def test_inputs_of_full_rank_are_as_they_were():
    problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.gaussian(0, sizes=(8, 4, 8), scale=0.1))
    assert problem.on_support() is problem and problem.facts.input_rank is None


def test_a_constant_that_the_inputs_hold_already_is_no_lack_of_rank():
    network = lr.Network([np.ones((2, 3)), np.ones((1, 2))], biases=[np.zeros(2), np.zeros(1)])
    problem = lr.Problem(lr.Task.from_data(np.eye(3), np.ones(3)), network)  # each sample sums to 1
    assert problem.facts.input_rank is None and problem.on_support() is problem


def test_digits_have_rank_61_of_64():
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    for dtype in ("float64", "float32"):
        task = lr.Task.from_labels((digits.data / 16).astype(dtype), digits.target)
        white = lr.Problem(task.whitened(), lr.inits.gaussian(0, sizes=(64, 32, 10), scale=0.1)).on_support()
        assert task.rank == 61 and white.task.d_in == 61 and white.facts.whitened
