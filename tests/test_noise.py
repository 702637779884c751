"""What `lr.Noise` takes and refuses."""

from __future__ import annotations

import numpy as np
import pytest

import lazyrich as lr

TASK = lr.Task.from_data(np.eye(3), np.eye(3))
BARE = lr.Task.from_correlations(np.eye(3))


def descend(task=TASK, noise=None, seed=0, activation="linear", steps=2):
    network = lr.inits.gaussian(0, sizes=(3, 4, 3), scale=0.1, activation=activation)
    return lr.descend(lr.Problem(task, network), 0.1, steps, noise=noise, seed=seed)


@pytest.mark.parametrize(
    "ask, told",
    [
        (lambda: lr.Noise(batch=0), "batch must be at least 1, and it is 0."),
        (lambda: lr.Noise(batch=2.5), "batch must be a whole number, and it is 2.5."),
        (lambda: lr.Noise(batch=True), "batch must be a number of samples, and it is True: try batch=8."),
        (
            lambda: descend(noise=lr.Noise(replacement=True)),
            "replacement=True needs a batch to draw, and there is none: try batch=8.",
        ),
        (lambda: lr.Noise(labels=-0.1), "labels must be at least 0, and it is -0.1."),
        (lambda: lr.Noise(weights=-1), "weights must be at least 0, and it is -1."),
        (lambda: lr.Noise(weights=float("nan")), "weights must be finite, and 1 of its 1 entries are NaN or infinite."),
        (lambda: lr.Noise(replacement=1), "replacement must be True or False, and it is 1."),
        (
            lambda: descend(noise=lr.Noise(batch=4)),
            "batch must be at most the number of samples (3), and it is 4: try batch=None, which takes all.",
        ),
        (
            lambda: descend(BARE, lr.Noise(batch=2)),
            "mini-batches need the samples of the task, and this task holds correlations only: try "
            "Task.from_data(inputs, targets), or Noise(weights=…), which does without.",
        ),
        (lambda: descend(BARE, lr.Noise(labels=0.1)), "noise on labels needs the samples of the task, and this"),
        (lambda: descend(noise=8), "noise must be an lr.Noise such as Noise(batch=8), and it is 8."),
        (lambda: descend(seed=1.5), "seed must be a whole number from 0 to 2⁶³ − 1, and it is 1.5."),
        (lambda: descend(seed=-1), "seed must be a whole number from 0 to 2⁶³ − 1, and it is -1."),
        (lambda: descend(seed=True), "seed must be a whole number from 0 to 2⁶³ − 1, and it is True."),
        (lambda: descend(seed="1"), "seed must be a whole number from 0 to 2⁶³ − 1, and it is '1'."),
        (lambda: descend(seed=[1, 2]), "seed must be a whole number from 0 to 2⁶³ − 1, and it is [1, 2]."),
        (
            lambda: descend(noise=lr.Noise(batch=1), steps=2**32),
            "steps must be at most 4,294,967,295 with noise, and it is 4,294,967,296.",
        ),
        (
            lambda: lr.batch.descend([lr.Problem(TASK, lr.Network([np.eye(3)]))] * 2, 0.1, 2, seed=[1, 2, 3]),
            "seed must be one, or one per problem (2), and there are 3.",
        ),
        (
            lambda: lr.batch.descend([lr.Problem(TASK, lr.Network([np.eye(3)]))] * 2, 0.1, 2, noise=[None]),
            "noise must be one, or one per problem (2), and there are 1.",
        ),
    ],
)
def test_says_what_is_wrong(ask, told):
    with pytest.raises(lr.InvalidInput) as error:
        ask()
    assert str(error.value).startswith(told) and "\n" not in str(error.value)


def test_correlations_are_enough_for_noise_on_the_weights_of_linear_networks():
    assert len(descend(BARE, lr.Noise(weights=0.1)).loss) == 3


def test_no_noise_is_descent_bit_for_bit():
    for activation in ("linear", "tanh"):
        np.testing.assert_array_equal(
            descend(noise=lr.Noise(), activation=activation).weights[0], descend(activation=activation).weights[0]
        )


def test_large_seeds_have_noise_of_their_own():
    first = [descend(noise=lr.Noise(weights=1.0), seed=seed).weights[0][-1, 0, 0] for seed in (5, 2**32 + 5, 2**63 - 1)]
    assert len(set(first)) == 3


def test_words():
    assert str(lr.Noise()) == "no noise"
    told = "mini-batches of 4 with replacement, noise 0.5 on labels, noise 0.1 on weights"
    assert str(lr.Noise(4, True, labels=0.5, weights=0.1)) == told


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("batch", [1, 3, 6])
def test_spread_is_that_of_means_over_batches(replacement, batch):
    """All batches there are of six numbers."""
    from itertools import permutations, product

    x = np.array([0.3, -1.0, 2.0, 0.7, 0.1, -0.4])
    ways = product(x, repeat=batch) if replacement else permutations(x, batch)
    means = np.array([np.mean(way) for way in ways])
    assert lr.Noise(batch, replacement).spread(6) == pytest.approx(means.var() / x.var(), abs=1e-12)
