"""The gap between a network and its lazy limit: what it is, and that it closes as the output multiplier grows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import lazyrich as lr
from tests.oracles.biased import Biased

TAUS = np.array([8.0, 16.0, 32.0, 64.0])


def layers(*sizes):
    rng = np.random.default_rng(5)
    return [rng.normal(size=(a, b)) for b, a in itertools.pairwise(sizes)]


def orders(weights, activation="linear", *, shifted, measure=lr.observables.linearisation_gap):
    """How fast the largest value falls with τ, as a power; `shifted` targets are those of a start at f = 0."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, weights[0].shape[1]))
    if activation == "relu":  # a unit that passes its kink changes the kernel at once, however little it moves
        X = X[np.abs(X @ weights[0].T).min(axis=1) > 0.2]
    X, Y = X[:12], rng.normal(size=(12, len(weights[-1])))
    found = []
    for tau in TAUS:
        network = lr.Network(weights, activation, multiplier=tau)
        task = lr.Task.from_data(X, Y + network(X) if shifted else Y)
        rtol = 1e-11 if activation == "linear" else 1e-7
        found.append(measure(lr.flow(lr.Problem(task, network), np.linspace(0, 3, 16), rtol=rtol)).max())
    return -np.diff(np.log(found)) / np.diff(np.log(TAUS))


@pytest.mark.parametrize(
    ("sizes", "activation"), [((4, 9, 3), "linear"), ((4, 6, 5, 3), "linear"), ((4, 9, 3), "relu"), ((4, 9, 2), "tanh")]
)
def test_closes_like_one_over_tau(sizes, activation):
    assert orders(layers(*sizes), activation, shifted=True) == pytest.approx(1.0, abs=0.12)


def test_two_linear_layers_from_zero_close_twice_as_fast():
    """d(W1ᵀW1)/dt = WᵀE + EᵀW: from W = 0 the kernel moves at second order, and from τW at first."""
    W1, W2 = layers(4, 9, 3)
    weights = [W1, W2 - W2 @ W1 @ np.linalg.pinv(W1)]
    assert orders(weights, shifted=False) == pytest.approx(2.0, abs=0.05)
    assert orders(weights, shifted=False, measure=lr.observables.kernel_movement) == pytest.approx(2.0, abs=0.05)


def test_the_kernel_distance_falls_like_its_square():
    assert orders(layers(4, 9, 3), shifted=True, measure=lr.observables.kernel_distance) == pytest.approx(2.0, abs=0.05)


def test_a_start_that_is_not_centred_does_not_get_lazy():
    assert np.abs(orders(layers(4, 9, 3), shifted=False)).max() < 0.05


def test_is_the_distance_of_the_outputs(rng):
    X, Y = rng.normal(size=(9, 4)), rng.normal(size=(9, 3))
    for activation in ("linear", "relu"):
        problem = lr.Problem(lr.Task.from_data(X, Y), lr.Network(layers(4, 5, 3), activation))
        traj = lr.flow(problem, [0.0, 0.1, 1.0])
        limit = lr.lazy_limit(problem, traj.times)
        own, other = np.array([traj.network(i)(X) for i in range(3)]), limit.outputs
        way = max(np.linalg.norm(f - own[0], axis=(1, 2)).max() for f in (own, other))
        wanted = np.linalg.norm(own - other, axis=(1, 2)) / way
        assert lr.observables.linearisation_gap(traj) == pytest.approx(wanted, rel=1e-9, abs=1e-14)
        assert traj.to_xarray("linearisation_gap").linearisation_gap.shape == (3,)


def test_is_nan_where_nothing_moves():
    problem = lr.Problem(lr.Task.from_correlations([[1.0]]), lr.Network([[[0.0]], [[0.0]]]))
    assert np.isnan(lr.observables.linearisation_gap(lr.flow(problem, [0.0, 1.0]))).all()


def test_function_distance_reads_a_lazy_limit_too(rng):
    X, Y = rng.normal(size=(9, 4)), rng.normal(size=(9, 3))
    problem = lr.Problem(lr.Task.from_data(X, Y), lr.Network(layers(4, 5, 3), "relu"))
    limit = lr.lazy_limit(problem, [0.0, 1.0])
    wanted = np.linalg.norm(limit.outputs[1] - limit.outputs[0]) / 3
    assert lr.observables.function_distance(limit) == pytest.approx([0.0, wanted])


@pytest.mark.parametrize("tau", [1.0, 4.0])
@pytest.mark.parametrize("activation", ["linear", "relu", "tanh"])
def test_networks_with_biases_and_a_multiplier(activation, tau):
    rng = np.random.default_rng(3)
    weights, biases = layers(3, 5, 2), [rng.normal(size=5), rng.normal(size=2)]
    X, Y = rng.normal(size=(8, 3)), rng.normal(size=(8, 2))
    network = lr.Network(weights, activation, multiplier=tau, biases=biases)
    brute = Biased(weights, biases, activation, tau, [0.5, 2.0], X, Y)
    times = np.array([0.0, 0.05, 0.3, 2.0])
    own, other = brute.flow(times), brute.tangent(times, X)
    way = max(np.linalg.norm(f - own[0], axis=(1, 2)).max() for f in (own, other))
    wanted = np.linalg.norm(own - other, axis=(1, 2)) / way
    problem = lr.Problem(lr.Task.from_data(X, Y), network, rates=[0.5, 2.0])
    found = lr.observables.linearisation_gap(lr.flow(problem, times, rtol=1e-10))
    assert found == pytest.approx(wanted, abs=1e-6 if activation == "relu" else 1e-7)  # a kink stops any high order
