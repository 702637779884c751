"""Gram matrices, similarity of samples and ranks, against sums written out and against mpmath."""

from __future__ import annotations

import math
from functools import cache

import mpmath
import numpy as np
import pytest
from oracles.samples import kind_of
from problems import SEEDS, piecewise_linear, sampled, solved

import lazyrich as lr
from lazyrich.observables.representations import (
    effective_rank,
    input_gram,
    output_gram,
    rsm_in,
    rsm_out,
    stable_rank,
)


@cache
def layers(kind, seed):
    """The weights of a trajectory of their own, so that the one that is measured need not know them."""
    return tuple(np.asarray(W) for W in kind(seed).weights)


def near(got, expected, rtol=1e-10):
    """Relative to the size of the whole."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    assert np.linalg.norm(got - expected) <= rtol * np.linalg.norm(expected)


def recorded(weights, task, activation="linear"):
    """A trajectory that holds these weights, one array (T, out, in) per layer."""
    network = lr.Network([W[0] for W in weights], activation)
    return lr.Trajectory(
        lr.Problem(task, network), np.arange(float(len(weights[0]))), "flow", {"weights": list(weights)}
    )


def activity(weights, activation, x, layer):
    """One sample through the first layers, number by number."""
    slope = {"relu": 0.0, "linear": 1.0}.get(activation, activation)
    for W in weights[:layer]:
        z = [math.fsum(w * v for w, v in zip(row, x, strict=True)) for row in W]
        x = [math.tanh(v) if activation == "tanh" else v if v > 0 else slope * v for v in z]
    return np.array(x)


def similarities(traj, weights, layer):
    X, kind = traj.problem.task.inputs, kind_of(traj.problem.network)
    for i in range(len(traj.times)):
        H = [activity([W[i] for W in weights], kind, x, layer) for x in X]
        yield [[float(h @ other) for other in H] for h in H]


@pytest.mark.parametrize("kind", [solved, sampled, piecewise_linear])
def test_gram_matrices_are_sums_over_units(kind):
    for seed in SEEDS:
        traj, weights = kind(seed), layers(kind, seed)
        first, last = weights[0], weights[-1]
        near(input_gram(traj), np.einsum("tha,thb->tab", first, first))
        near(output_gram(traj), np.einsum("tah,tbh->tab", last, last))


@pytest.mark.parametrize("kind", [solved, sampled, piecewise_linear])
def test_rsm_in_compares_hidden_activities(kind):
    for seed in SEEDS:
        traj, weights = kind(seed), layers(kind, seed)
        for layer in range(1, len(weights)):
            near(rsm_in(traj, layer), list(similarities(traj, weights, layer)))


def test_rsm_in_of_deep_networks_that_are_not_linear():
    for seed, activation in enumerate(["tanh", "relu", 0.3]):
        traj = sampled(seed, depth=3, activation=activation)
        for layer in (1, 2):
            near(rsm_in(traj, layer), list(similarities(traj, traj.weights, layer)))


@pytest.mark.parametrize("kind", [solved, sampled])
def test_rsm_out_compares_the_least_activities_that_cause_the_targets(kind):
    """The oracle solves N h = y by least squares, sample by sample, with the least ‖h‖."""
    for seed in SEEDS:
        traj, weights = kind(seed), layers(kind, seed)
        Y = traj.problem.task.targets
        for layer in range(1, traj.problem.network.depth):
            expected = []
            for i in range(len(traj.times)):
                N = np.linalg.multi_dot([np.eye(len(Y[0])), *(W[i] for W in weights[: layer - 1 : -1])])
                H = np.array([np.linalg.lstsq(N, y, rcond=1e-6)[0] for y in Y])
                expected.append([[float(h @ other) for other in H] for h in H])
            near(rsm_out(traj, layer), expected)


def test_without_samples_the_items_are_the_inputs_and_the_outputs(rng):
    task = lr.Task.from_correlations(rng.normal(size=(3, 4)))
    traj = lr.solve(lr.Problem(task, lr.inits.zero_balanced(rng, sizes=(4, 6, 3), scale=0.3)), [0.0, 1.0])
    near(rsm_in(traj), traj.gram[:, :4, :4], 1e-13)
    near(rsm_out(traj) @ traj.gram[:, 4:, 4:], np.broadcast_to(np.eye(3), (2, 3, 3)), 1e-12)


def test_directions_below_the_cutoff_are_left_out(rng):
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    W2 = turn @ np.diag([1.0, 1e-3, 1e-9])
    task = lr.Task.from_data(np.eye(2), rng.normal(size=(2, 3)))
    Y = np.asarray(task.targets)
    for scale in (1e-8, 1.0, 1e8):
        traj = recorded([rng.normal(size=(1, 3, 2)), scale * W2[None]], task)
        parts = [np.outer(Y @ u, Y @ u) / s**2 for u, s in zip(turn.T[:2], [scale, 1e-3 * scale], strict=True)]
        near(rsm_out(traj)[0], parts[0] + parts[1])
        near(rsm_out(traj, cutoff=1e-2)[0], parts[0])
        near(rsm_out(traj, cutoff=1e-12)[0], np.outer(Y @ turn[:, 2], Y @ turn[:, 2]) / (1e-9 * scale) ** 2, 1e-5)


def test_zero_weights_and_a_hidden_layer_of_one(rng):
    task = lr.Task.from_data(rng.normal(size=(5, 3)), rng.normal(size=(5, 2)))
    still = recorded([np.zeros((2, 4, 3)), np.zeros((2, 2, 4))], task)
    for measure in (input_gram, output_gram, rsm_in, rsm_out, effective_rank, stable_rank):
        assert not measure(still).any() and np.isfinite(measure(still)).all()
    one = recorded([rng.normal(size=(2, 1, 3)), rng.normal(size=(2, 2, 1))], task)
    np.testing.assert_allclose(effective_rank(one), 1, rtol=1e-12)
    np.testing.assert_allclose(stable_rank(one), 1, rtol=1e-12)
    near(rsm_in(one), list(similarities(one, one.weights, 1)))


def ranks(W):
    """Effective and stable rank in 40 digits."""
    with mpmath.workdps(40):
        s = [x for x in mpmath.svd_r(mpmath.matrix(W.tolist()), compute_uv=False) if x > 0]
        p = [x / mpmath.fsum(s) for x in s]
        effective = mpmath.exp(-mpmath.fsum(x * mpmath.log(x) for x in p))
        return float(effective), float(mpmath.fsum(x**2 for x in s) / max(s) ** 2)


@pytest.mark.parametrize("kind", [solved, sampled])
def test_ranks_against_mpmath(kind):
    for seed in SEEDS:
        traj = kind(seed)
        expected = np.array([ranks(M) for M in traj.function]).T
        np.testing.assert_allclose([effective_rank(traj), stable_rank(traj)], expected, rtol=1e-10)
        if kind is sampled:
            expected = np.array([ranks(M) for M in traj.weights[0]]).T
            np.testing.assert_allclose([effective_rank(traj, 1), stable_rank(traj, layer=1)], expected, rtol=1e-10)


def test_ranks_count_equal_values_and_ignore_scale(rng):
    left, right = np.linalg.qr(rng.normal(size=(5, 3)))[0], np.linalg.qr(rng.normal(size=(4, 3)))[0]
    W = np.stack([1e-8 * left @ right.T, 1e40 * left @ right.T, left @ np.diag([2.0, 1.0, 0.0]) @ right.T])
    traj = recorded([W], lr.Task.from_correlations(np.eye(5, 4)))
    np.testing.assert_allclose(stable_rank(traj), [3, 3, 1.25], rtol=1e-12)
    two_thirds = math.exp(-(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3)))
    np.testing.assert_allclose(effective_rank(traj), [3, 3, two_thirds], rtol=1e-12)
    relu = piecewise_linear(0)
    np.testing.assert_allclose(stable_rank(relu, layer=2)[0], ranks(relu.weights[1][0])[1], rtol=1e-12)


def test_to_xarray_names_the_axes():
    data = solved(3).to_xarray("rsm_in", "input_gram", "output_gram", "effective_rank")
    assert data.rsm_in.dims == ("time", "sample", "sample_")
    assert data.input_gram.dims == ("time", "input", "input_") and data.effective_rank.dims == ("time",)
    assert data.output_gram.dims == ("time", "output", "output_") and data.output_gram.attrs["units"] == "1"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: rsm_in(3), "traj must be a lazyrich Trajectory, and it is a int"),
        (lambda: rsm_in(sampled(0, depth=1)), "rsm_in needs a hidden layer, and this network has none"),
        (lambda: rsm_in(sampled(0, depth=3), 3), "layer must be at most 2 for this network, and it is 3."),
        (lambda: rsm_in(sampled(0, depth=3), 0), "layer must be at least 1, and it is 0."),
        (lambda: rsm_out(piecewise_linear(0)), "rsm_out belongs to linear networks, and this one is relu."),
        (lambda: rsm_out(solved(0), cutoff=0.0), "cutoff must be above 0, and it is 0."),
        (lambda: effective_rank(piecewise_linear(1)), "and this one is leaky ReLU 0.2: try layer=1, for W1."),
        (lambda: stable_rank(solved(0), 3), "layer must be at most 2 for this network, and it is 3."),
        (
            lambda: rsm_in(recorded([np.ones((1, 2, 2))] * 2, lr.Task.from_correlations(np.eye(2)), "relu")),
            "rsm_in needs the samples of the task where the network is relu",
        ),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_what_does_not_exist_is_refused(call, says):
    with pytest.raises(lr.InvalidInput) as caught:
        call()
    assert says in str(caught.value)
