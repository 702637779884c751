"""Descent with noise, against plain NumPy fed with draws made as `lr.Noise` says; and what draws do not hang on."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from oracles import losses, noisy

import lazyrich as lr

pytestmark = pytest.mark.timeout(120)

SAMPLES, RATE, STEPS = 11, 0.05, 30
SQUARED = losses.Loss(lambda f, y: ((y - f) ** 2).sum(axis=1) / 2, lambda f, y: y - f)
NOISES = {
    "batch": lr.Noise(batch=4),
    "replaced": lr.Noise(batch=4, replacement=True),
    "labels": lr.Noise(labels=0.3),
    "weights": lr.Noise(weights=0.2),
    "all": lr.Noise(batch=3, labels=0.2, weights=0.1),
}


def make(rng, activation="linear", loss="squared", biased=False, reduction="mean", sizes=(4, 5, 3), **options):
    """A problem, and the same for the oracle."""
    X = rng.normal(size=(SAMPLES, sizes[0]))
    Y = rng.normal(size=(SAMPLES, sizes[-1]))
    if loss == "cross_entropy":
        Y = np.eye(sizes[-1])[rng.integers(sizes[-1], size=SAMPLES)]
    W = [0.6 * rng.normal(size=shape) for shape in zip(sizes[1:], sizes[:-1], strict=True)]
    b = [0.3 * rng.normal(size=len(w)) if biased else np.zeros(len(w)) for w in W]
    network = lr.Network(W, activation, biases=b if biased else None)
    problem = lr.Problem(lr.Task.from_data(X, Y, reduction=reduction), network, loss=loss, **options)
    of = losses.cross_entropy if loss == "cross_entropy" else SQUARED
    decay, rates = options.get("weight_decay", 0.0), options.get("rates")
    return problem, (losses.Run(X, Y, of, activation, reduction, biased, rates, decay), W, b)


def drawn(noise, seed, problem):
    """As the docstring of `lr.Noise` says, by JAX itself."""
    fold, layers = jax.random.fold_in, problem.network.free(problem.network.weights)
    P, d_out = len(problem.task.inputs), problem.task.d_out

    def draws(n):
        with jax.enable_x64(True):
            key = jax.random.key(seed)
            b, chosen = noise.batch or P, np.arange(P)
            if noise.batch and noise.replacement:
                chosen = np.asarray(jax.random.randint(fold(fold(key, 0), n), (b,), 0, P, "int32"))
            elif noise.batch:
                m = P // b
                chosen = np.asarray(jax.random.permutation(fold(fold(key, 0), n // m), P))[b * (n % m) :][:b]
            labels = np.asarray(jax.random.normal(fold(fold(key, 1), n), (len(chosen), d_out)))
            kicks = [
                noise.weights * np.asarray(jax.random.normal(fold(fold(fold(key, 2), n), i), W.shape))
                for i, W in enumerate(layers)
            ]
        return noisy.Draw(chosen, noise.labels * labels, kicks)

    return draws


def met(problem, oracle, noise, seed=7, momentum=0.0, nesterov=False, rate=RATE):
    run = lr.descend(problem, rate, STEPS, noise=noise, seed=seed, momentum=momentum, nesterov=nesterov)
    states = noisy.descend(*oracle, rate, drawn(noise, seed, problem), STEPS, momentum, nesterov)
    for layer, seen in enumerate(problem.network.free(run.weights)):
        np.testing.assert_allclose(seen, [state[layer] for state in states], rtol=0, atol=1e-12)
    return run


@pytest.mark.parametrize("which", NOISES)
def test_linear_networks_step_by_step(rng, which):
    problem, oracle = make(rng, rates=[0.7, 1.6], weight_decay=0.1)
    run = met(problem, oracle, NOISES[which])
    assert not np.allclose(run.loss[1:], lr.descend(problem, RATE, STEPS).loss[1:], rtol=1e-4)  # and there is noise


@pytest.mark.compiles
@pytest.mark.parametrize(
    "which, setting",
    [
        ("all", {"activation": "tanh"}),
        ("replaced", {"activation": "relu", "sizes": (4, 6, 1)}),
        ("weights", {"activation": "relu", "sizes": (4, 6, 1)}),
        ("all", {"activation": "relu", "biased": True, "sizes": (4, 5, 4, 3)}),
        ("all", {"biased": True, "reduction": "sum"}),
        ("labels", {"reduction": "sum"}),
        ("all", {"loss": "cross_entropy"}),
        ("batch", {"activation": "tanh", "loss": "cross_entropy", "biased": True}),
        ("labels", {"activation": "tanh", "loss": "cross_entropy"}),
        ("all", {"sizes": (4, 3)}),
    ],
    ids=str,
)
def test_networks_of_all_kinds(rng, which, setting):
    met(*make(rng, **setting), NOISES[which], rate=RATE / (SAMPLES if "reduction" in setting else 1))


@pytest.mark.compiles
@pytest.mark.parametrize("nesterov", [False, True])
def test_beside_momentum(rng, nesterov):
    met(*make(rng, "tanh", biased=True, weight_decay=0.05), NOISES["all"], momentum=0.8, nesterov=nesterov)


def test_the_loss_that_is_kept_is_that_of_all_samples_without_noise(rng):
    problem, (oracle, _, b) = make(rng, "tanh")
    run = lr.descend(problem, RATE, 5, noise=NOISES["all"])
    want = [oracle.value(W, b) for W in zip(*run.weights, strict=True)]
    np.testing.assert_allclose(run.loss, want, rtol=1e-13)


@pytest.mark.compiles
def test_alone_as_among_others(rng):
    """A batch of several shapes and tasks, which go in several stacks; the seeds are s, s + 1, …"""
    problems = [make(rng, activation)[0] for activation in ("linear", "tanh", "linear")]
    problems += [lr.Problem(problems[0].task, problems[2].network), problems[1], problems[1]]
    runs = lr.batch.descend(problems, RATE, STEPS, noise=NOISES["all"], seed=20)
    for i, (problem, run) in enumerate(zip(problems, runs, strict=True)):
        alone = lr.descend(problem, RATE, STEPS, noise=NOISES["all"], seed=20 + i)
        np.testing.assert_allclose(run.weights[1], alone.weights[1], rtol=0, atol=1e-13)
        assert run.notes == alone.notes and f"seed {20 + i}" in run.notes[0]
    assert not np.allclose(runs[4].weights[1][-1], runs[5].weights[1][-1])


@pytest.mark.compiles
def test_each_with_its_own_noise(rng):
    problem, _ = make(rng)
    noises = [None, lr.Noise(labels=0.1), lr.Noise(labels=0.5), lr.Noise(batch=5), lr.Noise()]
    runs = lr.batch.descend([problem] * 5, RATE, STEPS, noise=noises, seed=[3] * 5)
    for noise, run in zip(noises, runs, strict=True):
        alone = lr.descend(problem, RATE, STEPS, noise=noise, seed=3)
        np.testing.assert_allclose(run.weights[0], alone.weights[0], rtol=0, atol=1e-13)
    assert [run.notes != () for run in runs] == [False, True, True, True, False]


def test_wherever_records_are_and_however_calls_are_cut(rng, monkeypatch):
    """Epochs of three steps go across the ends of calls."""
    problem, _ = make(rng)
    whole = lr.descend(problem, RATE, 200, noise=NOISES["all"], seed=1)
    few = lr.descend(problem, RATE, 200, noise=NOISES["all"], seed=1, at=[1, 2, 37, 200])
    monkeypatch.setattr("lazyrich._engines.per_call", lambda *_, **__: (7, 1))
    cut = lr.descend(problem, RATE, 200, noise=NOISES["all"], seed=1)
    for other, steps in ((few, [1, 2, 37, 200]), (cut, list(range(201)))):
        for A, B in zip(other.weights, whole.weights, strict=True):
            np.testing.assert_array_equal(A, B[steps])


def test_samples_left_over_sit_out_an_epoch_and_all_others_have_their_turn(rng):
    """One linear layer on one-hot inputs: which columns have moved in an epoch says which samples were seen."""
    task = lr.Task.from_data(np.eye(8), np.ones((8, 1)))
    problem = lr.Problem(task, lr.Network([np.zeros((1, 8))]))
    run = lr.descend(problem, 0.5, 40, noise=lr.Noise(batch=3))
    seen = (np.diff(run.weights[0], axis=0)[:, 0] > 0).reshape(20, 2, 8)  # epochs, batches, samples
    assert (seen.sum(axis=2) == 3).all() and (seen.sum(axis=1) <= 1).all()
    assert len({tuple(np.flatnonzero(~epoch.any(axis=0))) for epoch in seen}) > 5


def test_a_users_settings_of_jax_change_nothing(rng):
    problem, _ = make(rng)
    want = lr.descend(problem, RATE, STEPS, noise=NOISES["all"])
    before = jax.config.jax_threefry_partitionable, jax.config.jax_default_prng_impl
    try:
        jax.config.update("jax_threefry_partitionable", False)
        jax.config.update("jax_default_prng_impl", "rbg")
        got = lr.descend(problem, RATE, STEPS, noise=NOISES["all"])
    finally:
        jax.config.update("jax_threefry_partitionable", before[0])
        jax.config.update("jax_default_prng_impl", before[1])
    np.testing.assert_array_equal(got.weights[0], want.weights[0])


def test_noise_on_weights_has_the_density_of_its_temperature():
    """One weight: w ← (1 − hη) w + σ √(hη) ξ has the variance σ²/(2 − hη) in the end, σ²/2 for small steps."""
    rate, eta, sigma, runs = 0.1, 0.5, 0.6, 4000
    problem = lr.Problem(lr.Task.from_correlations([[0.5]]), lr.Network([[[0.5]]]), rates=eta)
    ends = lr.batch.descend([problem] * runs, rate, 200, noise=lr.Noise(weights=sigma), at=[200])
    w = np.array([run.weights[0].item() for run in ends])
    variance = sigma**2 / (2 - rate * eta)
    assert abs(w.mean() - 0.5) < 4 * np.sqrt(variance / runs)
    assert abs(w.var() - variance) < 4 * variance * np.sqrt(2 / runs)


@pytest.mark.compiles
def test_who_diverges_takes_nothing_from_the_others(rng):
    problem, _ = make(rng)
    good, bad = lr.batch.descend([problem] * 2, [RATE, 80.0], 200, noise=NOISES["all"])
    assert bad.status.end == "diverged" and len(bad.times) < 100
    alone = lr.descend(problem, RATE, 200, noise=NOISES["all"])
    np.testing.assert_allclose(good.weights[0], alone.weights[0], rtol=0, atol=1e-13)
