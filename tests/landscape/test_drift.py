"""Drift of the balance by noise: of one step by going through all its draws, and of whole runs by ensembles."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from oracles import losses

import lazyrich as lr

SQUARED = losses.Loss(lambda f, y: ((y - f) ** 2).sum(axis=1) / 2, lambda f, y: y - f)
SIZES = {2: (3, 4, 2), 3: (3, 4, 2, 3)}
RATES = {2: [1.3, 0.6], 3: [1.0, 1.5, 0.5]}


def make(rng, depth=2, samples=4, loss="squared", biased=False, reduction="mean", scale=0.7):
    sizes = SIZES[depth]
    X, Y = rng.normal(size=(samples, sizes[0])), rng.normal(size=(samples, sizes[-1]))
    if loss == "cross_entropy":
        Y = np.eye(sizes[-1])[rng.integers(sizes[-1], size=samples)]
    W = [scale * rng.normal(size=shape) for shape in zip(sizes[1:], sizes[:-1], strict=True)]
    b = [scale * rng.normal(size=len(w)) if biased else np.zeros(len(w)) for w in W]
    network = lr.Network(W, biases=b if biased else None)
    problem = lr.Problem(lr.Task.from_data(X, Y, reduction=reduction), network, rates=RATES[depth], loss=loss)
    of = losses.cross_entropy if loss == "cross_entropy" else SQUARED
    return problem, losses.Run(X, Y, of, "linear", reduction, biased, RATES[depth]), W, b


def balances(W, b, rates, biased):
    """D of every pair of layers; biases are weights into a layer."""
    into = [np.column_stack([w, v]) if biased else w for w, v in zip(W, b, strict=True)]
    return [W[i + 1].T @ W[i + 1] / rates[i + 1] - into[i] @ into[i].T / rates[i] for i in range(len(W) - 1)]


def after_a_step(run, W, b, chosen, on_targets, h):
    """The balance after a step on these samples with these targets, in NumPy."""
    part = run._replace(inputs=run.inputs[chosen], targets=run.targets[chosen] + on_targets)
    more = 1.0 if run.reduction == "mean" else len(run.inputs) / len(chosen)
    dW, db = part.velocity(W, b)
    moved = (
        [w + h * more * d for w, d in zip(W, dW, strict=True)],
        [v + h * more * d for v, d in zip(b, db, strict=True)],
    )
    return balances(*moved, run.rates, run.biased)


def still(problem):
    """A trajectory that stays, whose drift over a time h is that of one step."""
    stays = [np.stack([W, W]) for W in problem.network.weights]
    return lr.Trajectory.from_weights(problem, [0.0, 1.0], stays)


@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
@pytest.mark.parametrize(
    "setting", [{}, {"depth": 3}, {"reduction": "sum"}, {"biased": True}, {"biased": True, "depth": 3}], ids=str
)
@pytest.mark.parametrize("noise", [lr.Noise(), lr.Noise(batch=2), lr.Noise(batch=3, replacement=True)], ids=str)
def test_of_one_step_by_all_its_batches(rng, loss, setting, noise):
    problem, run, W, b = make(rng, loss=loss, **setting)
    before, h = balances(W, b, run.rates, run.biased), 0.01
    b_of = noise.batch or 4
    ways = [list(w) for w in (product(range(4), repeat=b_of) if noise.replacement else permutations(range(4), b_of))]
    after = [after_a_step(run, W, b, way, 0.0, h) for way in ways]
    for i, found in enumerate(lr.landscape.expected_drift(still(problem), h, noise)):
        seen = np.mean([D[i] for D in after], axis=0) - before[i]
        np.testing.assert_allclose(h * found[-1], seen, rtol=0, atol=1e-13)  # h: one step, of the 1/h in a unit of time


@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
@pytest.mark.parametrize("setting", [{}, {"depth": 3, "biased": True}, {"reduction": "sum"}], ids=str)
@pytest.mark.parametrize("batch", [None, 2])
def test_of_one_step_with_noise_on_its_labels(rng, loss, setting, batch):
    """The drift is a square in the noise: m directions ±√m e_j have the moments of a Gaussian that it needs."""
    problem, run, W, b = make(rng, loss=loss, **setting)
    before, h, sigma = balances(W, b, run.rates, run.biased), 0.01, 0.4
    if loss == "cross_entropy":  # log Σ exp f − yᵀf, for any y: the oracle's own pull is that
        assert run.loss is losses.cross_entropy
    total, count = [0.0] * len(before), 0
    for way in permutations(range(4), batch or 4):
        m = len(way) * run.targets.shape[1]
        for j, sign in product(range(m), (-1, 1)):
            on_targets = sign * sigma * np.sqrt(m) * np.eye(1, m, j).reshape(len(way), -1)
            after = after_a_step(run, W, b, list(way), on_targets, h)
            total, count = [t + D for t, D in zip(total, after, strict=True)], count + 1
    found = lr.landscape.expected_drift(still(problem), h, lr.Noise(batch=batch, labels=sigma))
    for i, drift in enumerate(found):
        np.testing.assert_allclose(h * drift[-1], total[i] / count - before[i], rtol=0, atol=1e-13)


def test_of_one_step_with_noise_on_its_weights(rng):
    """Likewise, with kicks along single weights and biases."""
    problem, _, W, b = make(rng, depth=3, biased=True)
    quiet, sigma, h = lr.landscape.expected_drift(still(problem), 0.01), 0.3, 0.01
    before = balances(W, b, RATES[3], True)
    kicked = [np.zeros_like(D) for D in before]
    for layer in range(3):
        for place in np.ndindex(W[layer].shape[0], W[layer].shape[1] + 1):
            for sign in (-1, 1):
                moved, shifted = [w.copy() for w in W], [v.copy() for v in b]
                kick = sign * sigma * np.sqrt(h * RATES[3][layer])
                if place[1] < W[layer].shape[1]:
                    moved[layer][place] += kick
                else:
                    shifted[layer][place[0]] += kick
                for i, D in enumerate(balances(moved, shifted, RATES[3], True)):
                    kicked[i] += (D - before[i]) / 2  # each weight is kicked, on its own
    noisy = lr.landscape.expected_drift(still(problem), h, lr.Noise(weights=sigma))
    for i in range(2):
        np.testing.assert_allclose(h * (noisy[i] - quiet[i])[-1], kicked[i], rtol=0, atol=1e-12)


@pytest.mark.compiles
@pytest.mark.parametrize(
    "depth, noise",
    [
        (2, lr.Noise(batch=2)),
        (3, lr.Noise(batch=2, replacement=True)),
        (2, lr.Noise(labels=0.5)),
        (2, lr.Noise(weights=0.3)),
        (3, lr.Noise(batch=4, labels=0.3, weights=0.3)),
    ],
    ids=str,
)
def test_of_ensembles_within_the_standard_error(rng, depth, noise):
    """Every entry of D is as far off as chance has it, and the drift itself is many standard errors.

    What the prediction leaves out goes with the rate squared, and the standard error with its power 3/2: rates are such
    that the latter is larger. With noise on the weights it does not go with the rate, but it is large.
    """
    problem, run, _, b = make(rng, depth, samples=8, scale=0.5)
    rate, time, runs = (0.01, 1.0, 2000) if noise.weights else (0.0005, 1.0, 100)
    steps = round(time / rate)
    trajectories = lr.batch.descend([problem] * runs, rate, steps, noise=noise, at=[0, steps])
    flow = lr.flow(problem, np.linspace(0.0, time, 201))
    for i, predicted in enumerate(lr.landscape.expected_drift(flow, rate, noise)):
        drift = []
        for trained in trajectories:
            first, last = (balances([V[k] for V in trained.weights], b, run.rates, False)[i] for k in (0, 1))
            drift.append(last - first)
        error = np.std(drift, axis=0) / np.sqrt(runs)
        z = (np.mean(drift, axis=0) - predicted[-1]) / error
        assert np.abs(z).max() < 4.0, (depth, noise, z.round(1))
        assert np.abs(predicted[-1] / error).max() > (4 if noise.weights else 200)


def test_what_it_cannot_predict_is_said(rng):
    problem, *_ = make(rng)

    def own(outputs, targets):
        return ((outputs - targets) ** 2).sum(-1)

    of_own = lr.Problem(problem.task, problem.network, loss=own)
    with pytest.raises(
        lr.InvalidInput, match="noise must leave the labels alone where the loss is a function of one's"
    ):
        lr.landscape.expected_drift(still(of_own), 0.1, lr.Noise(labels=0.1))
    with pytest.raises(lr.InvalidInput, match="batch must be at most the number of samples"):
        lr.landscape.balance_drift(still(problem), 0.1, lr.Noise(batch=9))
    bare = lr.Problem(lr.Task.from_correlations(problem.task.sigma_yx), problem.network)
    with pytest.raises(lr.InvalidInput, match="mini-batches need the samples of the task"):
        lr.landscape.balance_drift(still(bare), 0.1, lr.Noise(batch=2))


@pytest.mark.parametrize(
    ("times", "words"),
    [([0.0, 1.0, np.inf], "its times go from 0 to inf"), ([2.0, 3.0], "its times go from 2 to 3")],
)
def test_it_is_counted_from_the_beginning_to_a_finite_time(times, words):
    problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.2]]]))
    with pytest.raises(lr.InvalidInput, match=f"traj must go from t = 0, .*{words}"):
        lr.landscape.balance_drift(lr.solve(problem, times), 0.1)


def test_one_layer_has_no_balance():
    problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]]]))
    with pytest.raises(lr.InvalidInput, match="traj must be of two layers or more"):
        lr.landscape.balance_drift(lr.solve(problem, [0.0, 1.0]), 0.1)


def test_a_time_may_come_twice():
    problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.2]]]))
    times = np.linspace(0.0, 3.0, 61)
    once, twice = (
        lr.landscape.balance_drift(lr.solve(problem, t), 0.1) for t in (times, np.sort(np.append(times, 1.5)))
    )
    np.testing.assert_array_equal(np.delete(twice, 30, axis=0), once)
