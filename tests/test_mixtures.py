"""Mixtures of tasks: what they are, against samples put together and steps taken in turn, all in plain NumPy."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import integrate

import lazyrich as lr


def white_pair(rng, d_in=4, d_out=3, samples=24, count=2) -> list[lr.Task]:
    """Tasks of the same white inputs with noisy targets that have something in common."""
    X = np.linalg.qr(rng.normal(size=(samples, d_in)))[0] * np.sqrt(samples)
    common = X @ rng.normal(size=(d_in, d_out))
    return [lr.Task.from_data(X, common + 0.6 * rng.normal(size=(samples, d_out))) for _ in range(count)]


def whitened(tasks) -> list[lr.Task]:
    """With Σxx that is I to the last bit."""
    return [lr.Task.from_correlations(task.sigma_yx, sigma_yy=task.sigma_yy) for task in tasks]


def step(weights, x, y, rate):
    """One gradient step of a linear network of two layers on samples in rows."""
    W1, W2 = weights
    E = (y - x @ (W2 @ W1).T).T @ x / len(x)
    return [W1 + rate * W2.T @ E, W2 + rate * E @ W1.T]


def halved(errors) -> bool:
    """Whether each error is half the one before, more and more nearly."""
    ratios = np.array(errors[:-1]) / errors[1:]
    return bool(np.all(np.abs(ratios - 2) < [0.5, 0.25, 0.12][: len(ratios)]))


# --- what a mixture is


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_its_loss_is_the_mixture_of_the_losses(seed):
    rng = np.random.default_rng(seed)
    d_in, d_out, count = (int(n) for n in rng.integers(1, 5, size=3))
    tasks = []
    for _ in range(count):
        P = int(rng.integers(1, 7))
        X = rng.normal(size=(P, d_in)) * (rng.random(d_in) < 0.8)  # an input may be missing altogether
        X[0, 0] = 1.0
        tasks.append(lr.Task.from_data(X, rng.normal(size=(P, d_out))))
    shares = rng.dirichlet(np.ones(count)) * (rng.random(count) < 0.7)
    shares = shares / shares.sum() if shares.sum() else np.eye(count)[0]
    mixed = lr.tasks.mixture(tasks, shares)
    for _ in range(3):
        W = rng.normal(size=(d_out, d_in))
        wanted = sum(
            p * np.mean([np.sum((y - W @ x) ** 2) / 2 for x, y in zip(t.inputs, t.targets, strict=True)])
            for p, t in zip(shares, tasks, strict=True)
        )
        assert abs(mixed.loss(W) - wanted) < 1e-12 * (1 + wanted)


def test_samples_are_repeated_so_that_every_task_has_its_share(rng):
    one, other = (lr.Task.from_data(rng.normal(size=(P, 2)), rng.normal(size=(P, 1))) for P in (4, 6))
    mixed = lr.tasks.mixture([one, other], [0.25, 0.75])  # 1/16 and 2/16 for each sample
    assert len(mixed.inputs) == 4 + 12
    held = lr.Task.from_data(mixed.inputs, mixed.targets)
    for name in ("sigma_xx", "sigma_yx", "sigma_yy"):
        np.testing.assert_allclose(getattr(mixed, name), getattr(held, name), rtol=0, atol=1e-14)
    assert Fraction(int(np.sum(np.all(mixed.inputs == one.inputs[0], axis=1))), 16) == Fraction(1, 16)


def test_what_has_no_few_samples_keeps_its_correlations(rng):
    tasks = [lr.Task.from_data(rng.normal(size=(4, 2)), rng.normal(size=(4, 1))) for _ in range(2)]
    irrational = lr.tasks.mixture(tasks, [1 / np.sqrt(2), 1 - 1 / np.sqrt(2)])
    assert irrational.inputs is None
    sums = [lr.Task.from_data(task.inputs, task.targets, reduction="sum") for task in tasks]
    mixed = lr.tasks.mixture(sums)
    assert mixed.inputs is None and mixed.reduction == "sum"
    np.testing.assert_allclose(mixed.sigma_yx, 4 * lr.tasks.mixture(tasks).sigma_yx, rtol=1e-14)
    with pytest.raises(lr.InvalidInput, match=r"^shares must be fractions of few samples where the network is tanh"):
        plan = lr.sequences.Schedule(tasks, [[1, 0], [1 / np.sqrt(2), 1 - 1 / np.sqrt(2)]])
        lr.continual(plan, lr.inits.gaussian(0, sizes=(2, 3, 1), scale=0.5, activation="tanh"), [0.0, 1.0], rate=0.1)


def test_white_inputs_stay_white_and_what_is_exact_stays_exact(rng):
    tasks = whitened(white_pair(rng, count=3))
    mixed = lr.tasks.mixture(tasks, [0.1, 0.2, 0.7])
    assert mixed.whitening_error == 0 and mixed.input_scale == 1
    problem = lr.Problem(mixed, lr.inits.zero_balanced(0, sizes=(4, 6, 3), scale=0.1))
    assert problem.facts.method == "riccati" and lr.solve(problem, [0.0, 1.0, np.inf]).certificate().exact
    both = lr.tasks.mixture([tasks[0], lr.Task.from_correlations(tasks[1].sigma_yx, 3 * np.eye(4))], [0.5, 0.5])
    assert both.whitening_error == 0 and both.input_scale == 2  # white in another unit


@pytest.mark.compiles
def test_inputs_that_differ_make_a_task_that_is_integrated(rng):
    tasks = [lr.Task.from_data(rng.normal(size=(9, 3)), rng.normal(size=(9, 2))) for _ in range(2)]
    network = lr.inits.zero_balanced(0, sizes=(3, 4, 2), scale=0.3)
    problem = lr.Problem(lr.tasks.mixture(tasks, [0.3, 0.7]), network)
    assert problem.facts.method is None
    xx, yx = (0.3 * getattr(tasks[0], name) + 0.7 * getattr(tasks[1], name) for name in ("sigma_xx", "sigma_yx"))
    flow = lr.flow(problem, [1.0, 3.0]).function
    np.testing.assert_allclose(flow, integrate.function(network.weights, yx, xx, [1.0, 3.0]), rtol=0, atol=1e-8)


def test_one_task_is_itself_and_names_are_kept():
    task = lr.Task.from_correlations([[1.0]], name="old")
    assert lr.tasks.mixture([task]) is task
    other = lr.Task.from_correlations([[2.0]], name="new")
    assert lr.tasks.mixture([task, other], [0.0, 1.0]) is other
    assert lr.tasks.mixture([task, other], [0.05, 0.95]).name == "0.05 old + 0.95 new"
    assert lr.tasks.mixture([task, other], name="both").name == "both"


def test_labels_are_kept_where_all_tasks_have_the_same_classes():
    tasks = [lr.Task.from_labels(np.eye(3), labels, classes=[0, 1]) for labels in ([0, 1, 1], [1, 1, 0])]
    assert lr.tasks.mixture(tasks).classes == (0, 1) and len(lr.tasks.mixture(tasks).inputs) == 6
    turned = lr.Task.from_labels(np.eye(3), [0, 1, 1], classes=[1, 0])
    assert lr.tasks.mixture([tasks[0], turned]).classes == ()


# --- exact against training on interleaved tasks and samples, at falling rates


@pytest.mark.parametrize("turns", [(0, 1), (1, 1, 0, 1)])
def test_tasks_in_turn_step_by_step(turns):
    """The rate × steps of training is the time of the mixture, and the error falls like the rate."""
    tasks = white_pair(np.random.default_rng(50))
    shares = np.bincount(turns, minlength=2) / len(turns)
    network, T = lr.inits.zero_balanced(0, sizes=(4, 6, 3), scale=0.2), 2.4
    exact = lr.solve(lr.Problem(lr.tasks.mixture(whitened(tasks), shares), network), [T]).function[0]
    errors = []
    for rate in (0.04, 0.02, 0.01, 0.005):
        weights = network.weights
        for n in range(round(T / rate)):
            task = tasks[turns[n % len(turns)]]
            weights = step(weights, task.inputs, task.targets, rate)
        errors.append(np.abs(weights[1] @ weights[0] - exact).max())
    assert halved(errors) and errors[-1] < 0.01 * np.abs(exact).max()


def test_samples_of_both_shuffled_together():
    """Every sample once in each pass, in an order drawn anew: the same, with an error that falls like the rate."""
    rng = np.random.default_rng(51)
    tasks = white_pair(rng, d_in=3, d_out=2, samples=8)
    network, T = lr.inits.zero_balanced(0, sizes=(3, 4, 2), scale=0.3), 2.0
    exact = lr.solve(lr.Problem(lr.tasks.mixture(whitened(tasks)), network), [T]).function[0]
    X, Y = (np.concatenate([getattr(task, name) for task in tasks]) for name in ("inputs", "targets"))
    errors = []
    for rate in (1 / 200, 1 / 400, 1 / 800):
        ends = []
        for _ in range(8):  # of the mean over shuffles: of one, chance is as large as the rate
            weights = network.weights
            for _ in range(round(T / rate / len(X))):
                for i in rng.permutation(len(X)):
                    weights = step(weights, X[i : i + 1], Y[i : i + 1], rate)
            ends.append(weights[1] @ weights[0])
        errors.append(np.sqrt(np.mean([np.max(np.abs(end - exact)) ** 2 for end in ends])))
    ratios = np.array(errors[:-1]) / errors[1:]
    assert np.all((ratios > 1.5) & (ratios < 2.6)) and errors[-1] < 0.05 * np.abs(exact).max()


@pytest.mark.compiles
def test_descend_on_samples_put_together():
    """`descend` on the samples of both, stacked as often as they are replayed, is descent on the mixture."""
    rng = np.random.default_rng(52)
    tasks = white_pair(rng)
    stacked = lr.Task.from_data(
        np.concatenate([tasks[0].inputs, *[tasks[1].inputs] * 4]),
        np.concatenate([tasks[0].targets, *[tasks[1].targets] * 4]),
    )
    network, T, errors = lr.inits.zero_balanced(0, sizes=(4, 6, 3), scale=0.2), 2.4, []
    exact = lr.solve(lr.Problem(lr.tasks.mixture(whitened(tasks), [0.2, 0.8]), network), [T])
    for rate in (0.04, 0.02, 0.01, 0.005):
        run = lr.descend(lr.Problem(stacked, network), rate, round(T / rate), at=[round(T / rate)])
        errors.append(np.abs(run.function[0] - exact.function[0]).max())
    assert halved(errors) and abs(run.loss[0] - exact.loss[0]) < 0.02 * exact.loss[0]  # the constant too


@pytest.mark.compiles
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_nonlinear_networks_train_on_the_samples_of_all(activation):
    rng = np.random.default_rng(53)
    tasks = [lr.Task.from_data(rng.normal(size=(5, 3)), rng.normal(size=(5, 2))) for _ in range(2)]
    network = lr.inits.gaussian(0, sizes=(3, 6, 2), scale=0.5, activation=activation)
    plan = lr.sequences.replay(tasks, 0.25)
    run = lr.continual(plan, network, [0.0, 2.0], rate=0.1)
    bend = np.tanh if activation == "tanh" else lambda z: np.maximum(z, 0)
    slope = (lambda z: 1 - np.tanh(z) ** 2) if activation == "tanh" else lambda z: (z > 0) * 1.0
    W1, W2 = network.weights
    for shares in ((1.0, 0.0), (0.25, 0.75)):
        for _ in range(20):
            d1, d2 = 0.0, 0.0
            for share, task in zip(shares, tasks, strict=True):
                z = task.inputs @ W1.T
                error = (task.targets - bend(z) @ W2.T) / 5
                d1 = d1 + share * ((error @ W2) * slope(z)).T @ task.inputs
                d2 = d2 + share * error.T @ bend(z)
            W1, W2 = W1 + 0.1 * d1, W2 + 0.1 * d2
    for found, wanted in zip(run.network().weights, (W1, W2), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


# --- sentences

ONE = lr.Task.from_correlations([[1.0, 0.0]])
TWO = lr.Task.from_correlations([[0.0, 1.0]])
WIDE = lr.Task.from_correlations([[1.0, 0.0, 0.0]])
SAMPLES = lr.Task.from_data([[2.0, 0.0], [0.0, 3.0]], [1.0, 2.0])
SUMS = lr.Task.from_data([[2.0, 0.0], [0.0, 3.0]], [1.0, 2.0], reduction="sum")
OTHERS = lr.Task.from_data([[1.0, 0.0], [0.0, 5.0]], [1.0, 2.0])


@pytest.mark.parametrize(("call", "sentence"), [
    (lambda: lr.tasks.mixture(ONE), "tasks must be a list of tasks, and it is a Task: try [task]."),
    (lambda: lr.tasks.mixture([]), "tasks must hold at least one task, and it is empty."),
    (lambda: lr.tasks.mixture([ONE, TWO], [0.5, 0.6]),
     "weights must have the sum 1, and it is 1.1: try weights / sum(weights)."),
    (lambda: lr.tasks.mixture([ONE, TWO], [1.5, -0.5]), "weights must not be negative, and the least is -0.5."),
    (lambda: lr.tasks.mixture([ONE, TWO], [1.0]), "weights must hold one number per task (2), and it holds 1."),
    (lambda: lr.tasks.mixture([ONE, TWO], [np.nan, 1.0]),
     "weights must be finite, and 1 of its 2 entries are NaN or infinite."),
    (lambda: lr.tasks.mixture([ONE, WIDE]),
     "tasks must all have the inputs and outputs of the first (2 and 1), and tasks[1] has 3 and 1."),
    (lambda: lr.tasks.mixture([SAMPLES.whitened(), OTHERS.whitened()]),
     "tasks must see the same input coordinates, since one network sees them all, and tasks[0] and tasks[1] were "
     "whitened by maps that differ by 0.51 of their size: try the tasks before whitened(), or, where the whitened "
     "inputs themselves are what a network sees, Task.from_correlations(task.sigma_yx, sigma_yy=task.sigma_yy)."),
    (lambda: lr.tasks.mixture([SAMPLES, SUMS]),
     "tasks must all be means over samples, or all sums, to be mixed, and some are one and some the other."),
    (lambda: lr.sequences.replay([ONE, TWO], 1.0),
     "fraction must lie between 0 and 1, and leave a part to the present task, and it is 1: try 0.1, or "
     "interleaved(tasks)."),
    (lambda: lr.sequences.replay([ONE, TWO], -0.1),
     "fraction must lie between 0 and 1, and leave a part to the present task, and it is -0.1: try 0.1, or "
     "interleaved(tasks)."),
    (lambda: lr.sequences.replay([ONE, WIDE], 0.1),
     "tasks must all have the inputs and outputs of the first (2 and 1), and tasks[1] has 3 and 1."),
    (lambda: lr.sequences.Schedule([ONE, TWO], [[1, 0], [0.5, 0.4]]),
     "shares[1] must have the sum 1, and it is 0.9: try shares[1] / sum(shares[1])."),
    (lambda: lr.sequences.Schedule([ONE, TWO], [1, 0]), "shares must be a matrix, and it has shape (2,)."),
    (lambda: lr.sequences.curriculum([ONE, TWO], 1), "stages must be at least 2, and it is 1."),
    (lambda: lr.sequences.interleaved([ONE, TWO], [2, 1]),
     "weights must have the sum 1, and it is 3: try weights / sum(weights)."),
])  # fmt: skip
def test_what_cannot_be_mixed_is_said(call, sentence, unchecked_shapes):
    with pytest.raises(lr.InvalidInput) as error:
        call()
    assert str(error.value) == sentence


def test_a_sum_that_is_nearly_1_is_told_in_full():
    task = lr.Task.from_correlations(np.eye(2))
    with pytest.raises(lr.InvalidInput, match=r"it is 1\.0000001"):
        lr.tasks.mixture([task, task], [0.5, 0.5 + 1e-7])
    targets = lr.Task.from_data(np.eye(2), np.eye(2) * (1 + 1e-6))
    with pytest.raises(lr.InvalidInput, match=r"sums to 1\.000001"):
        lr.Problem(targets, lr.Network([np.eye(2)]), loss="cross_entropy")
