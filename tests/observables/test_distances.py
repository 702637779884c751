"""Distances of weights, activation patterns, representations and functions, against loops over samples and units."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from oracles.samples import kind_of
from problems import SEEDS, piecewise_linear, sampled, solved

import lazyrich as lr
from lazyrich.observables.distances import cka, function_distance, hamming_distance, parameter_distance


def deep_tanh(seed):
    return sampled(seed, depth=3, activation="tanh")


def deep_relu(seed):
    return sampled(seed, depth=3, activation="relu")


def recorded(weights, task, activation="linear"):
    weights = [np.asarray(W, dtype=float) for W in weights]
    problem = lr.Problem(task, lr.Network([W[0] for W in weights], activation))
    return lr.Trajectory(problem, np.arange(float(len(weights[0]))), "flow", {"weights": weights})


def activities(weights, kind, x):
    """One sample through all layers: the activities of each hidden one, and the outputs."""
    slope, seen = {"relu": 0.0, "linear": 1.0}.get(kind, kind), []
    for W in weights:
        x = np.array([math.fsum(row * x) for row in W])
        if W is not weights[-1]:
            x = np.tanh(x) if kind == "tanh" else np.array([z if z > 0 else slope * z for z in x])
        seen.append(x)
    return seen


@cache
def states(kind, seed):
    """Per time and sample what `activities` gives, from a trajectory of its own: the measured one need not know it."""
    traj = kind(seed)
    bend, X = kind_of(traj.problem.network), traj.problem.task.inputs
    return [[activities([W[i] for W in traj.weights], bend, x) for x in X] for i in range(len(traj.times))]


KINDS = [solved, sampled, piecewise_linear, deep_tanh, deep_relu]


@pytest.mark.parametrize("kind", KINDS)
def test_parameter_distance_adds_up_all_weights(kind):
    for seed in SEEDS:
        traj, reference = kind(seed), seed % 4
        flat = [np.concatenate([W[i].ravel() for W in traj.weights]) for i in range(len(traj.times))]
        expected = [math.dist(theta, flat[reference]) for theta in flat]
        np.testing.assert_allclose(parameter_distance(traj, reference), expected, rtol=1e-10)
        size = math.hypot(*flat[reference])
        np.testing.assert_allclose(
            parameter_distance(traj, reference - 4, relative=True), np.array(expected) / size, rtol=1e-10
        )


@pytest.mark.parametrize("kind", KINDS)
def test_hamming_distance_counts_signs(kind):
    for seed in SEEDS:
        traj, reference = kind(seed), seed % 4
        if traj.problem.network.depth == 1:
            continue
        patterns = [[z > 0 for sample in state for layer in sample[:-1] for z in layer] for state in states(kind, seed)]
        expected = [
            sum(a != b for a, b in zip(pattern, patterns[reference], strict=True)) / len(pattern)
            for pattern in patterns
        ]
        np.testing.assert_allclose(hamming_distance(traj, reference), expected, rtol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("centred", [True, False])
def test_cka_against_the_kernels_of_all_samples(kind, centred):
    """The definition: tr(CKC K')/√(tr(CKC K) tr(CK'C K')), with n × n matrices."""
    for seed in SEEDS:
        traj, reference = kind(seed), seed % 4
        P = len(traj.problem.task.inputs)
        C = np.eye(P) - 1 / P if centred else np.eye(P)
        for layer in range(1, traj.problem.network.depth):
            kernels = []
            for state in states(kind, seed):
                H = C @ np.array([sample[layer - 1] for sample in state])
                size = np.linalg.norm(H)
                kernels.append(H @ H.T / size**2 if size > 1e-13 else np.full((P, P), np.nan))
            other = kernels[reference]
            expected = [np.sum(K * other) / math.sqrt(np.sum(K * K) * np.sum(other * other)) for K in kernels]
            np.testing.assert_allclose(cka(traj, reference, layer, centred), expected, rtol=1e-10, atol=1e-12)


def test_cka_does_not_see_rotation_and_scale(rng):
    X = rng.normal(size=(30, 4))
    task, W = lr.Task.from_data(X, X[:, :2]), rng.normal(size=(5, 4))
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    traj = recorded([[W, turn @ W, 1e-8 * W, 1e40 * turn @ W], np.zeros((4, 2, 5))], task)
    np.testing.assert_allclose(cka(traj), 1, rtol=1e-12)
    few = recorded([traj.weights[0], traj.weights[1]], lr.Task.from_data(X[:3], X[:3, :2]))  # fewer samples than units
    np.testing.assert_allclose(cka(few), 1, rtol=1e-12)


def test_cka_of_silence_is_nan_and_of_small_changes_is_not(rng):
    X = np.ones((6, 1)) + 1e-7 * rng.normal(size=(6, 1))  # almost the same for all samples
    task = lr.Task.from_data(X, X)
    traj = recorded([[[[1.0]], [[0.0]], [[-2.0]]], np.ones((3, 1, 1))], task)
    np.testing.assert_allclose(cka(traj), [1, np.nan, 1], rtol=1e-12)
    same = recorded(traj.weights, lr.Task.from_data(np.full((6, 1), 0.1), X))
    assert np.isnan(cka(same)).all()
    np.testing.assert_allclose(cka(same, centred=False), [1, np.nan, 1], rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_function_distance_compares_outputs(kind):
    for seed in SEEDS:
        traj, reference = kind(seed), seed % 4
        outputs = [np.array([sample[-1] for sample in state]) for state in states(kind, seed)]
        size = np.linalg.norm(outputs[reference])
        expected = [np.linalg.norm(Y - outputs[reference]) / math.sqrt(len(Y)) for Y in outputs]
        np.testing.assert_allclose(function_distance(traj, reference), expected, rtol=1e-10, atol=1e-13 * size)


def test_function_distance_without_samples_and_with_a_sum(rng):
    X, Y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    W = rng.normal(size=(3, 2, 3))
    total = [np.linalg.norm(X @ (M - W[0]).T) for M in W]
    mean = lr.Task.from_data(X, Y)
    np.testing.assert_allclose(function_distance(recorded([W], mean)), np.array(total) / math.sqrt(20), rtol=1e-12)
    known = lr.Task.from_correlations(mean.sigma_yx, mean.sigma_xx)
    np.testing.assert_allclose(function_distance(recorded([W], known)), np.array(total) / math.sqrt(20), rtol=1e-10)
    added = lr.Task.from_data(X, Y, reduction="sum")
    np.testing.assert_allclose(function_distance(recorded([W], added)), total, rtol=1e-12)
    layers = [rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 2, 4))]
    bent = [np.maximum(X @ first.T, 0) @ second.T for first, second in zip(*layers, strict=True)]
    got = function_distance(recorded(layers, added, "relu"))
    np.testing.assert_allclose(got, [0, np.linalg.norm(bent[1] - bent[0])], rtol=1e-12)


def test_directions_that_no_input_has_do_not_count(rng):
    """Σxx is singular and the weights differ by 1e8 where it is: nothing of that may leak."""
    frame = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    X = rng.normal(size=(12, 2)) @ frame[:, :2].T
    change = np.array([[1.0, 2.0, 1e4, -1e4]]) @ frame.T
    traj = recorded([[np.zeros((1, 4)), change]], lr.Task.from_data(X, X[:, :1]))
    seen = X @ frame[:, :2] @ [1.0, 2.0]
    assert function_distance(traj)[1] == pytest.approx(math.hypot(*seen) / math.sqrt(12), rel=1e-10)


def test_without_samples_the_items_are_the_inputs():
    task = lr.Task.from_correlations(np.eye(2))
    traj = recorded([[np.eye(2), [[-1.0, 0.0], [0.0, 1.0]]], np.zeros((2, 2, 2))], task)
    np.testing.assert_array_equal(hamming_distance(traj), [0, 0.25])
    np.testing.assert_allclose(cka(traj, centred=False), [1, 1], rtol=1e-14)


def test_to_xarray_names_the_axes():
    data = sampled(2, depth=2).to_xarray("parameter_distance", "hamming_distance", "cka", "function_distance")
    assert data.cka.dims == data.hamming_distance.dims == data.function_distance.dims == ("time",)
    assert data.parameter_distance.dims == ("time",)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: parameter_distance(None), "traj must be a lazyrich Trajectory, and it is a NoneType"),
        (lambda: parameter_distance(sampled(0), 4), "reference must lie between -4 and 3, and it is 4."),
        (lambda: cka(solved(0), 0.5), "reference must be a whole number, and it is 0.5."),
        (lambda: cka(sampled(0, depth=1)), "cka needs a hidden layer, and this network has none"),
        (lambda: hamming_distance(sampled(0, depth=1)), "hamming_distance needs a hidden layer"),
        (
            lambda: parameter_distance(
                recorded([np.zeros((2, 1, 1))], lr.Task.from_correlations([[1.0]])), relative=True
            ),
            "relative=True needs weights that are not all zero at the reference",
        ),
        (
            lambda: cka(recorded([np.ones((1, 2, 2))] * 2, lr.Task.from_correlations(np.eye(2)))),
            "cka needs the samples of the task to centre on them",
        ),
        (
            lambda: function_distance(recorded([np.ones((1, 2, 2))] * 2, lr.Task.from_correlations(np.eye(2)), "tanh")),
            "function_distance needs the samples of the task where the network is tanh",
        ),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_what_does_not_exist_is_refused(call, says):
    with pytest.raises(lr.InvalidInput) as caught:
        call()
    assert says in str(caught.value)
