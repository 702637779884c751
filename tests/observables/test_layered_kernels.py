"""Tangent kernels of tanh and of deep piecewise linear networks, against brute-force Jacobians; and their regimes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from oracles import jacobian, with_biases

import lazyrich as lr
from lazyrich.observables.kernels import blocks
from lazyrich.observables.kernels.along import kernel_alignment, kernel_distance, kernel_distances, kernels

SLOPES = {"tanh": None, "relu": 0.0, "0.3": 0.3}
SIZES = [(3, 4, 2), (3, 5, 4, 2), (2, 4, 3, 4, 1), (4, 3, 1)]


def drawn(rng, activation, sizes, times=2):
    """Random weights at some times, other rates for each layer, and kernels by complex steps."""
    X = rng.normal(size=(6, sizes[0]))
    weights = [rng.normal(size=(times, m, n)) for n, m in itertools.pairwise(sizes)]
    rates = rng.uniform(0.3, 2, len(weights))
    named = activation if activation in ("tanh", "relu") else float(activation)
    problem = lr.Problem(
        lr.Task.from_data(X, rng.normal(size=(6, sizes[-1]))), lr.Network([W[0] for W in weights], named), rates
    )
    traj = lr.Trajectory(problem, np.arange(float(times)), "flow", {"weights": weights})
    return traj, [jacobian.kernel([W[t] for W in weights], X, rates, SLOPES[activation]) for t in range(times)]


def deep(activation, sizes):
    return not (len(sizes) == 3 and activation != "tanh")


@pytest.mark.parametrize(("activation", "sizes"), [case for case in itertools.product(SLOPES, SIZES) if deep(*case)])
@pytest.mark.parametrize("cached", [True, False])
def test_each_method_is_that_of_the_brute_force_kernel(rng, monkeypatch, activation, sizes, cached):
    if not cached:  # two rows at a time, and nothing kept
        monkeypatch.setattr(blocks, "KEPT", 0)
        monkeypatch.setattr(blocks, "_BLOCK", 12)
    traj, (M, M2) = drawn(rng, activation, sizes)
    K, K2 = kernels(traj)
    v = rng.normal(size=(len(M), 3))
    np.testing.assert_allclose(K.matrix(), M, rtol=0, atol=1e-12 * np.linalg.norm(M))
    np.testing.assert_allclose(K.matvec(v), M @ v, rtol=0, atol=1e-12 * np.linalg.norm(M) * 10)
    assert (K.norm, K.trace) == pytest.approx((np.linalg.norm(M), np.trace(M)), rel=1e-12)
    assert K.largest_eigenvalue() == pytest.approx(np.linalg.eigvalsh(M)[-1], rel=1e-10)
    assert K.inner(K2) == pytest.approx(np.vdot(M, M2), rel=1e-11)
    assert K.change(K2) == pytest.approx(np.linalg.norm(M - M2), rel=1e-11)
    turned = 1 - np.vdot(M, M2) / np.linalg.norm(M) / np.linalg.norm(M2)
    assert kernel_distance(traj) == pytest.approx([0, turned], abs=1e-13)
    assert kernel_distances(traj)[0, 1] == pytest.approx(turned, abs=1e-13)
    y = np.asarray(traj.problem.task.targets).T.ravel()
    assert kernel_alignment(traj)[0] == pytest.approx(y @ M @ y / np.linalg.norm(M) / (y @ y), rel=1e-11)


def test_silent_units_make_a_kernel_of_zero():
    X = np.ones((3, 2))
    layers = [-np.ones((1, 2, 2)), np.ones((1, 2, 2)), np.ones((1, 1, 2))]
    problem = lr.Problem(lr.Task.from_data(X, np.ones((3, 1))), lr.Network([W[0] for W in layers], "relu"))
    (K,) = kernels(lr.Trajectory(problem, [0.0], "flow", {"weights": layers}))
    assert K.norm == K.trace == K.largest_eigenvalue() == 0.0


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_biases_count_and_the_constant_unit_does_not(rng, activation):
    """Rows of the Jacobian from gradients of one output at one sample, by backpropagation with biases of their own."""
    sizes = (3, 4, 3, 2)
    W = [rng.normal(size=(m, n)) for n, m in itertools.pairwise(sizes)]
    b = [rng.normal(size=m) for m in sizes[1:]]
    X = rng.normal(size=(5, 3))
    rows = []
    for o in range(2):
        for x in X:
            aim = with_biases.outputs(W, b, activation, x[None]) - np.eye(2)[o]  # an error of e_o: gradients of f_o
            dW, db = with_biases.gradients(W, b, activation, x[None], aim)
            rows.append(np.concatenate([part.ravel() for part in (*dW, *db)]))
    J = np.array(rows)
    problem = lr.Problem(lr.Task.from_data(X, np.ones((5, 2))), lr.Network(W, activation, biases=b))
    K = kernels(lr.descend(problem, rate=1e-3, steps=1)).initial()
    np.testing.assert_allclose(K.matrix(), J @ J.T, rtol=0, atol=1e-12 * np.linalg.norm(J @ J.T))


@pytest.mark.long
@pytest.mark.parametrize(("activation", "sizes"), [("tanh", (3, 20, 1)), ("relu", (3, 12, 12, 1))])
@pytest.mark.parametrize(("multiplier", "name"), [(30.0, "lazy"), (1.0, "rich")])
def test_regimes_of_runs_are_those_of_whole_kernels(activation, sizes, multiplier, name):
    """Of a network and its mirror image, f = 0, with the outputs multiplied: lazy as the factor grows."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(8, sizes[0]))
    half = [rng.normal(size=(m, n)) / np.sqrt(n) for n, m in itertools.pairwise(sizes)]
    twice = [
        np.concatenate([half[0]] * 2),
        *(np.kron(np.eye(2), W) for W in half[1:-1]),
        np.hstack([half[-1], -half[-1]]),
    ]
    problem = lr.Problem(
        lr.Task.from_data(X, np.sin(2 * X[:, :1])), lr.Network(twice, activation, multiplier=multiplier)
    )
    traj = lr.descend(problem, rate=0.05, steps=2000, at=np.arange(0, 2001, 20))
    found = lr.regime(traj)
    K = [
        jacobian.kernel([W[i] for W in traj.weights], X, problem.rates, SLOPES[activation])
        for i in range(len(traj.times))
    ]
    fallen = traj.loss[0] - np.minimum.accumulate(traj.loss)
    until = int(np.argmax(fallen >= 0.99 * fallen[-1])) + 1
    moved = [np.linalg.norm(M - K[0]) for M in K[:until]]
    movement = max(moved) / max(np.linalg.norm(K[0]), np.linalg.norm(K[until - 1]))
    assert found.name in (name, "delayed rich" if name == "rich" else name)
    assert found.kernel_movement == pytest.approx(movement, rel=0.02)  # between two records, it is interpolated
