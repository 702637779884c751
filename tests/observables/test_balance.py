"""Conserved quantities per pair of layers and per neuron, against loops, and against gradients by differences."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from oracles.samples import kind_of
from problems import SEEDS, piecewise_linear, sampled, solved

import lazyrich as lr
from lazyrich.observables.balance import (
    balancedness,
    conserved,
    neuron_balance,
    neuron_balance_distribution,
    neuron_coordinates,
)


def recorded(weights, activation="linear", rates=None):
    weights = [np.asarray(W, dtype=float) for W in weights]
    task = lr.Task.from_correlations(np.eye(weights[-1].shape[1], weights[0].shape[2]))
    problem = lr.Problem(task, lr.Network([W[0] for W in weights], activation), rates=rates)
    return lr.Trajectory(problem, np.arange(float(len(weights[0]))), "flow", {"weights": weights})


@pytest.mark.parametrize("kind", [solved, sampled, piecewise_linear])
def test_against_loops_over_the_units(kind):
    for seed in SEEDS:
        traj = kind(seed)
        weights, eta = [np.asarray(W) for W in traj.weights], traj.problem.rates
        if len(weights) == 1:
            continue
        D, error, off = conserved(traj), balancedness(traj), balancedness(traj, 0.0)
        assert len(D) == error.shape[1] == off.shape[1] == len(weights) - 1
        for p, (A, B) in enumerate(itertools.pairwise(weights)):
            delta, h = neuron_balance(traj, layer=p + 1), A.shape[1]
            for i in range(len(traj.times)):
                size = eta[p] * math.fsum(B[i].ravel() ** 2) + eta[p + 1] * math.fsum(A[i].ravel() ** 2)
                expected = np.array(
                    [
                        [
                            eta[p] * math.fsum(B[i][:, j] * B[i][:, k]) - eta[p + 1] * math.fsum(A[i][j] * A[i][k])
                            for k in range(h)
                        ]
                        for j in range(h)
                    ]
                )
                np.testing.assert_allclose(D[p][i], expected, rtol=0, atol=1e-13 * size)
                np.testing.assert_allclose(delta[i], np.diag(expected), rtol=0, atol=1e-13 * size)
                lam = math.fsum(np.diag(expected)) / h
                parts = (expected - lam * np.eye(h)).ravel()
                assert error[i, p] == pytest.approx(math.hypot(*parts) / size, rel=1e-10, abs=1e-13)
                assert off[i, p] == pytest.approx(math.hypot(*expected.ravel()) / size, rel=1e-10, abs=1e-13)


def test_exact_trajectories_conserve_it():
    """λ and layer rates as in the problems: nothing moves, to the accuracy of the hidden basis."""
    for seed in SEEDS:
        traj = solved(seed)
        D = conserved(traj)[0]
        size = sum(float(np.sum(W**2)) for W in traj.problem.network.weights) + float(np.abs(traj.gram).max())
        start = lr.Trajectory(
            traj.problem, np.zeros(1), "flow", {"weights": [W[None] for W in traj.problem.network.weights]}
        )
        np.testing.assert_allclose(D, np.broadcast_to(conserved(start)[0], D.shape), rtol=0, atol=1e-10 * size)
        np.testing.assert_allclose(
            neuron_balance(start)[0], np.diagonal(conserved(start)[0][0]), rtol=0, atol=1e-13 * size
        )
        assert balancedness(start).max() <= 1e-12


def gradients(traj, i):
    """∂loss/∂W_ℓ by central differences of the loss, written out for the samples."""
    task, slope = traj.problem.task, kind_of(traj.problem.network)
    slope = {"relu": 0.0, "linear": 1.0}.get(slope, slope)
    layers = [np.array(W[i]) for W in traj.weights]

    def loss():
        h = task.inputs.T
        for W in layers[:-1]:
            h = W @ h
            h = np.where(h > 0, h, slope * h)
        return np.sum((task.targets.T - layers[-1] @ h) ** 2) / (2 * len(task.inputs))

    slopes = []
    for W in layers:
        slopes.append(np.empty_like(W))
        for place in np.ndindex(W.shape):
            kept, step = W[place], 1e-5
            W[place] = kept + step
            above = loss()
            W[place] = kept - step
            slopes[-1][place] = (above - loss()) / (2 * step)
            W[place] = kept
    return layers, slopes


@pytest.mark.parametrize("kind", [sampled, piecewise_linear])
def test_the_right_rate_stands_at_the_right_layer(kind):
    """The flow moves layer ℓ by −η_ℓ ∂loss/∂W_ℓ; δ is quadratic, so its slope is a difference of any length."""
    moving = 0
    for seed in range(8):
        traj = kind(seed, 3) if kind is sampled else kind(seed)
        layers, slopes = gradients(traj, 0)
        eta = traj.problem.rates
        moves = [-rate * dW for rate, dW in zip(eta, slopes, strict=True)]
        around = [np.stack([W - 1e-3 * move, W + 1e-3 * move]) for W, move in zip(layers, moves, strict=True)]
        moved = recorded(around, kind_of(traj.problem.network), eta)
        for p in range(len(layers) - 1):
            part = 2 * eta[p] * np.sum(layers[p + 1] * moves[p + 1], axis=0)  # of a alone
            delta = neuron_balance(moved, layer=p + 1)
            slope = (delta[1] - delta[0]) / 2e-3
            rounding = 1e-11 * np.abs(delta).max()
            assert np.abs(slope).max() <= 1e-6 * np.abs(part).max() + rounding
            moving += bool(np.abs(part).max() > 1e-3)
    assert moving > 6


def test_degenerate_networks(rng):
    zero = recorded([np.zeros((2, 3, 4)), np.zeros((2, 2, 3))])
    assert not balancedness(zero).any() and not balancedness(zero, 0.0).any() and not neuron_balance(zero).any()
    one = recorded([rng.normal(size=(2, 1, 4)), rng.normal(size=(2, 2, 1))])
    assert balancedness(one).max() < 1e-15 < balancedness(one, 0.0).min()  # one unit is always λ-balanced
    for scale in (1e-8, 1e8):
        near = recorded([scale * W for W in (rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 2, 3)))])
        same = recorded([W / scale for W in near.weights])
        np.testing.assert_allclose(balancedness(near), balancedness(same), rtol=1e-12)
    half = recorded([np.zeros((1, 1, 2)), np.ones((1, 3, 1))])
    np.testing.assert_allclose(balancedness(half, 0.0), 1, rtol=1e-15)


def test_coordinates_of_neurons_with_one_output():
    for seed in SEEDS:
        rng = np.random.default_rng((5, seed))
        W, a = rng.normal(size=(3, 4, 2)), rng.normal(size=(3, 1, 4))
        W[1, 2] = 0  # a neuron without a direction
        traj = recorded([W, a], activation=("linear", "relu", "tanh")[seed % 3])
        mu, direction = neuron_coordinates(traj)
        for i, k in np.ndindex(3, 4):
            length = math.hypot(*W[i, k])
            assert mu[i, k] == pytest.approx(a[i, 0, k] * length, rel=1e-12)
            np.testing.assert_allclose(mu[i, k] * direction[i, k], a[i, 0, k] * W[i, k], rtol=1e-12, atol=1e-15)
            assert math.hypot(*direction[i, k]) == pytest.approx(1.0 if length else 0.0, rel=1e-12)


def test_distribution_counts_and_sorts():
    """Upstream, balanced within a tenth of the size, downstream, and a dead neuron."""
    W, a = [[1.0], [3.0], [1.0], [0.0]], [[2.0, 1.0, 1.05, 0.0]]
    problem = lr.Problem(lr.Task.from_correlations([[1.0]]), lr.Network([W, a], "relu"), rates=(1.0, 1.0))
    found = neuron_balance_distribution(problem)
    assert (found.neurons, found.upstream, found.balanced, found.downstream) == (4, 0.25, 0.5, 0.25)
    np.testing.assert_allclose(found.quantiles, [-8, -2, 0.1025 / 2, 0.1025 + (3 - 0.1025) / 4, 3], rtol=1e-12)
    assert found.relative_quantiles[0] == pytest.approx(-0.8) and found.relative_quantiles[-1] == pytest.approx(0.6)
    assert neuron_balance_distribution(problem, tolerance=0.7).upstream == 0.0
    assert "25.0% upstream, 50.0% balanced, 25.0% downstream" in str(found)
    rated = lr.Problem(problem.task, problem.network, rates=(2.0, 0.5))  # η_w a² − η_a w²
    delta = [2 * 4 - 0.5, 2 - 4.5, 2 * 1.05**2 - 0.5, 0]
    np.testing.assert_allclose(
        neuron_balance_distribution(rated).quantiles, np.quantile(delta, [0, 0.25, 0.5, 0.75, 1])
    )


def test_to_xarray_names_the_axes():
    data = sampled(2, depth=2).to_xarray("balancedness", "neuron_balance")
    assert data.balancedness.dims == ("time", "pair") and data.neuron_balance.dims == ("time", "neuron")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: conserved(sampled(0, 2, "tanh")), "and this one is tanh, which conserves none."),
        (
            lambda: neuron_balance(sampled(0, 2, "tanh")),
            "neuron_balance belongs to linear and piecewise linear networks",
        ),
        (lambda: balancedness(sampled(0, depth=1)), "conserved needs a hidden layer, and this network has none"),
        (lambda: neuron_balance(sampled(0, depth=3), 3), "layer must be at most 2 for this network, and it is 3."),
        (lambda: neuron_coordinates(sampled(0, depth=3)), "neuron_coordinates belongs to two layers with one output"),
        (lambda: balancedness(sampled(0, depth=2), [1.0, 2.0]), "lam must be a number"),
        (lambda: conserved(None), "traj must be a lazyrich Trajectory, and it is a NoneType"),
        (
            lambda: neuron_balance_distribution(None),
            "problem must be a lazyrich Problem, and it is a NoneType: ",
        ),
        (lambda: neuron_balance_distribution(solved(0).problem, tolerance=-1.0), "tolerance must be at least 0"),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_what_does_not_exist_is_refused(call, says):
    with pytest.raises(lr.InvalidInput) as caught:
        call()
    assert says in str(caught.value)
