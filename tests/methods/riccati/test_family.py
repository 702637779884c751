"""The two-parameter family (c, δ) against an integrator of 36 digits, which knows the weights and the flow alone."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import fixed_point

import lazyrich as lr

REQUIRED = 1e-11


def network(rng, sizes, c, delta, scale, rates=(1.0, 1.0)):
    """Layers of the family around a random function, in a random hidden basis.

    Each mode of A is a vector of O(1, 1) turned from √(c ± δ/2), so no root of a Gram matrix is taken, and small c keep
    their digits: p = √(c + δ/2)·(cosh, sinh), q = √(c − δ/2)·(sinh, cosh) with 2φ = asinh(s/c).
    """
    d_in, h, d_out = sizes
    U, V = (np.linalg.qr(rng.normal(size=(d, d)))[0] for d in (d_out, d_in))
    frame = np.linalg.qr(rng.normal(size=(h, h)))[0][:, : d_in + d_out]
    first, second = np.sqrt(max(c + delta / 2, 0.0)), np.sqrt(max(c - delta / 2, 0.0))
    into, out = np.zeros((d_in, d_in + d_out)), np.zeros((d_out, d_in + d_out))
    into[:, :d_in], out[:, d_in:] = first * np.eye(d_in), second * np.eye(d_out)
    for i in range(min(d_in, d_out)):
        phi = np.arcsinh(scale * rng.normal() / c) / 2
        into[i, [i, d_in + i]] = first * np.cosh(phi), second * np.sinh(phi)
        out[i, [i, d_in + i]] = first * np.sinh(phi), second * np.cosh(phi)
    # layer rates: what the flow conserves is η1 W2ᵀW2 − η2 W1W1ᵀ
    return lr.Network([frame @ into.T @ V.T / np.sqrt(rates[1]), U @ out @ frame.T / np.sqrt(rates[0])])


def drawn(rng, largest):
    d_in, d_out = (int(d) for d in rng.integers(1, largest + 1, size=2))
    c = float(10 ** rng.uniform(-3, np.log10(30)))
    delta = 2 * c * float(rng.choice([rng.uniform(-1, 1), -1.0, 0.0, 1.0], p=[0.7, 0.1, 0.1, 0.1]))
    rates = (1.0, 1.0) if rng.random() < 0.5 else tuple(float(r) for r in 10 ** rng.uniform(-0.5, 0.5, size=2))
    sizes = (d_in, d_in + d_out + int(rng.integers(0, 4)), d_out)
    return network(rng, sizes, c, delta, 10 ** rng.uniform(-3, 0.5), rates), c, delta, rates


def assert_as_integrated(traj, truth):
    G = np.stack([fixed_point.as_float(fixed_point.gram(state)) for state in truth])
    size = np.linalg.norm(G, axis=(1, 2))
    assert np.all(np.linalg.norm(traj.gram - G, axis=(1, 2)) <= REQUIRED * size)
    for layer, W in enumerate(traj.weights):
        exact = np.stack([fixed_point.as_float(state[layer]) for state in truth])
        assert np.all(np.linalg.norm(W - exact, axis=(1, 2)) <= REQUIRED * np.sqrt(size))


def one_problem(rng, largest):
    net, c, delta, rates = drawn(rng, largest)
    sigma = rng.normal(size=(net.sizes[-1], net.sizes[0])) / np.sqrt(net.sizes[0])
    variance = float(rng.choice([1.0, 0.3]))
    problem = lr.Problem(lr.Task.from_correlations(variance * sigma, variance * np.eye(net.sizes[0])), net, rates=rates)
    facts = problem.facts
    assert not facts.methods["family"]
    size = sum(rate * float(np.sum(W**2)) for rate, W in zip(rates[::-1], net.weights, strict=True))
    assert np.allclose(facts.family, [c, delta], rtol=0, atol=1e-14 * size)
    times = np.array([0.0, 0.1, 0.5, 2.0, 5.0]) / (max(rates) * variance * (np.linalg.norm(sigma, 2) + c))
    traj = lr.solve(problem, times, method="family")
    truth = fixed_point.weights(
        net.weights,
        problem.task.sigma_yx,
        times,
        rates=rates,
        sigma_xx=None if variance == 1 else problem.task.sigma_xx,
    )
    assert_as_integrated(traj, truth)
    assert traj.certificate().exact, traj.certificate()


def one_sequence(rng, largest):
    """Three tasks, each from where the one before ended; some are stopped before they are learned."""
    net, c, _, rates = drawn(rng, largest)
    d_out, d_in = net.sizes[-1], net.sizes[0]
    targets = [rng.normal(size=(d_out, d_in)) / np.sqrt(d_in) for _ in range(3)]
    fastest = max(rates) * (max(np.linalg.norm(sigma, 2) for sigma in targets) + c)
    times = np.array([0.0, 0.3, rng.uniform(0.5, 5.0)]) / fastest
    run = lr.continual([lr.Task.from_correlations(sigma) for sigma in targets], net, times, rates=rates)
    weights = list(net.weights)
    for sigma, traj in zip(targets, run.trajectories, strict=True):
        assert not traj.problem.facts.methods["family"]
        truth = fixed_point.weights(weights, sigma, times, rates=rates)
        assert_as_integrated(traj, truth)
        assert traj.certificate().exact, traj.certificate()
        weights = truth[-1]


@pytest.mark.parametrize("seed", range(20))
def test_family_against_thirty_digits(seed):
    one_problem(np.random.default_rng([17, seed]), largest=4)


@pytest.mark.parametrize("seed", range(10))
def test_sequences_stay_in_the_family(seed):
    one_sequence(np.random.default_rng([18, seed]), largest=4)


@pytest.mark.parametrize("seed", range(10))
def test_sequences_on_the_boundary(seed):
    """At |δ| = 2c some hidden directions hold rounding alone, which must not count where D is set right again."""
    rng = np.random.default_rng([19, seed])
    net = network(rng, (4, 14, 8), 13.0, 26.0 * rng.choice([-1, 1]), 1.0)
    tasks = [lr.Task.from_correlations(rng.normal(size=(8, 4)) / 2) for _ in range(4)]
    run = lr.continual(tasks, net, [0.0, float(rng.uniform(0.02, 0.3))])
    assert all(not traj.problem.facts.methods["family"] for traj in run.trajectories)
    assert all(traj.certificate().exact for traj in run.trajectories)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300))
def test_family_against_thirty_digits_at_all_sizes(seed):
    one_problem(np.random.default_rng([1711, seed]), largest=12)
    one_sequence(np.random.default_rng([1712, seed]), largest=12)
