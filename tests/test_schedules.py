"""Sequences of mixtures: replay, curricula, savings, penalties, and what helps against forgetting.

The oracles integrate every stage with SciPy from losses that are written out sample by sample, take gradient steps in
NumPy, and differentiate outputs by complex steps.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from oracles import integrate
from scipy.integrate import solve_ivp

import lazyrich as lr
from lazyrich.sequences import Penalty, Schedule, curriculum, interleaved, overlap, relearning, replay, sequential

FRACTIONS = (0.0, 0.01, 0.05, 0.2, 0.5)


def white_tasks(rng, count=2, d_in=4, d_out=3, noise=0.3) -> list[lr.Task]:
    """White inputs, targets that have something in common, and noise that no map fits."""
    common = rng.normal(size=(d_out, d_in))
    maps = [common + 0.6 * rng.normal(size=(d_out, d_in)) for _ in range(count)]
    return [lr.Task.from_correlations(T, sigma_yy=T @ T.T + noise * np.eye(d_out)) for T in maps]


def start(seed=0, sizes=(4, 6, 3), scale=0.2) -> lr.Network:
    return lr.inits.zero_balanced(seed, sizes=sizes, scale=scale)


# --- schedules


def test_shares_of_the_usual_plans():
    tasks = white_tasks(np.random.default_rng(0), 3)
    assert np.array_equal(sequential(tasks).shares, np.eye(3))
    assert np.allclose(replay(tasks, 0.3).shares, [[1, 0, 0], [0.3, 0.7, 0], [0.15, 0.15, 0.7]], atol=1e-15)
    assert np.array_equal(replay(tasks, 0).shares, np.eye(3))
    assert np.allclose(interleaved(tasks).shares, np.full((1, 3), 1 / 3))
    assert np.allclose(curriculum(tasks, 5).shares[[1, 3]], [[0.5, 0.5, 0], [0, 0.5, 0.5]])
    assert np.array_equal(curriculum(tasks, 3).shares, np.eye(3))
    plan = Schedule(tasks, [[0, 1, 0], [0.5, 0.5, 0]])
    assert plan.first_met.tolist() == [1, 0, 2] and plan.stages[0] is tasks[1]


def test_losses_and_forgetting_are_those_of_the_tasks(rng):
    """Of a task that is watched only, too."""
    tasks = white_tasks(rng, 3)
    run = lr.continual(Schedule(tasks, [[0, 1, 0], [0.25, 0.75, 0]]), start(), [0.0, 1.0, 300.0])
    assert run.losses.shape == (6, 3) and run.loss_matrix.shape == run.forgetting.shape == (2, 3)
    W = 0.25 * tasks[0].sigma_yx + 0.75 * tasks[1].sigma_yx
    for j, task in enumerate(tasks):
        wanted = np.sum((W - task.sigma_yx) ** 2) / 2 + 0.15 * 3
        assert abs(run.loss_matrix[1, j] - wanted) < 1e-11
    assert np.isnan(run.forgetting[:, 2]).all() and np.isnan(run.forgetting[0, 0]) and run.forgetting[1, 0] == 0
    assert np.isfinite(run.transfer[:, 2]).all() and np.isnan(run.transfer[1, :2]).all()
    assert np.abs(run.predicted_loss_matrix - run.limit_loss_matrix).max() < 1e-12
    assert repr(run) == "<Continual: 2 of 2 stages of 3 tasks, riccati, riccati>"
    assert np.array_equal(run.to_xarray().share, run.schedule.shares)


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_forgetting_with_replay_is_known_before_training(fraction):
    """Of a plain NumPy network that takes steps on both tasks, and of the exact run."""
    tasks = white_tasks(np.random.default_rng(60))
    apart = np.sum((tasks[1].sigma_yx - tasks[0].sigma_yx) ** 2) / 2
    told = lr.forgetting(replay(tasks, fraction))[1, 0]
    assert abs(told - (1 - fraction) ** 2 * apart) < 1e-13
    run = lr.continual(replay(tasks, fraction), start(), [0.0, 150.0])
    assert run.methods == ("riccati", "riccati") and abs(run.forgetting[1, 0] - told) < 1e-11
    W1, W2 = start().weights
    for shares in ((1.0, 0.0), (fraction, 1 - fraction)):
        for _ in range(6000):
            E = sum(share * (task.sigma_yx - W2 @ W1) for share, task in zip(shares, tasks, strict=True))
            W1, W2 = W1 + 0.02 * W2.T @ E, W2 + 0.02 * E @ W1.T
    trained = np.sum((W2 @ W1 - tasks[0].sigma_yx) ** 2) / 2  # from the minimum
    assert abs(trained - told) < 1e-9


def test_replay_of_many_tasks_ends_between_the_last_and_the_mean_of_the_others():
    tasks = white_tasks(np.random.default_rng(61), 4)
    run = lr.continual(replay(tasks, 0.2), start(), [0.0, 300.0])
    others = np.mean([task.sigma_yx for task in tasks[:3]], axis=0)
    assert np.abs(run.network().function - 0.8 * tasks[3].sigma_yx - 0.2 * others).max() < 1e-11
    assert np.nanmax(np.abs(run.forgetting - run.predicted_forgetting)) < 1e-11


@pytest.mark.long
def test_interleaving_and_curricula_against_an_integration():
    for seed in range(6):
        rng = np.random.default_rng((62, seed))
        tasks = white_tasks(rng, 3)
        for plan in (interleaved(tasks, rng.dirichlet(np.ones(3))), curriculum(tasks, 4), replay(tasks, 0.1)):
            spans = [np.array([0.0, float(T)]) for T in rng.uniform(0.3, 2, size=len(plan.shares))]
            run = lr.continual(plan, start(seed), spans)
            weights = start(seed).weights
            for row, span in zip(plan.shares, spans, strict=True):
                target = np.tensordot(row, [task.sigma_yx for task in tasks], 1)
                weights = [W[-1] for W in integrate.weights(weights, target, None, span)]
            assert set(run.methods) == {"riccati"}
            assert np.abs(run.network().function - weights[1] @ weights[0]).max() < 1e-9


# --- rates and weight decay of each stage


@pytest.mark.compiles
def test_rates_and_decay_of_each_stage_against_an_integration(rng):
    tasks = white_tasks(rng, 3)
    rates, decay = [[1.0, 1.0], [0.1, 1.0], [1.0, 1.0]], [0.0, 0.1, 0.0]
    run = lr.continual(tasks, start(), [0.0, 0.8], rates=rates, weight_decay=decay)
    weights = start().weights
    for task, eta, gamma in zip(tasks, rates, decay, strict=True):
        weights = [W[-1] for W in integrate.weights(weights, task.sigma_yx, None, [0.8], eta, gamma)]
    assert np.abs(run.network().function - weights[1] @ weights[0]).max() < 1e-8
    assert run.methods == ("riccati", "flow", "flow")  # the second has left the D of the third
    assert [tuple(setting) for setting in run.settings] == [((1.0, 1.0), 0.0), ((0.1, 1.0), 0.1), ((1.0, 1.0), 0.0)]


def test_modes_stay_exact_when_rates_change():
    tasks = [lr.Task.from_correlations(np.diag(s)) for s in ([3.0, 1.0], [1.0, 2.0])]
    network = lr.inits.aligned(0, tasks[0], hidden=2, strengths=[0.1, 0.2])
    run = lr.continual(tasks, network, [0.0, 1.5], rates=[[1.0, 1.0], [0.05, 1.0]])
    assert "flow" not in run.methods
    weights = network.weights
    for task, eta in zip(tasks, ([1.0, 1.0], [0.05, 1.0]), strict=True):
        weights = [W[-1] for W in integrate.weights(weights, task.sigma_yx, None, [1.5], eta)]
    assert np.abs(run.network().function - weights[1] @ weights[0]).max() < 1e-9


@pytest.mark.compiles
@pytest.mark.parametrize("lam", [0.0, 0.8, -0.8])
def test_after_weight_decay_a_stage_is_exact_again(lam):
    """D shrinks by e^{−2γt} and stays λI."""
    rng = np.random.default_rng(63)
    tasks = white_tasks(rng, 3, d_in=3, d_out=3)
    network = lr.inits.lambda_balanced(1, sizes=(3, 3, 3), lam=lam, scale=0.5)
    run = lr.continual(tasks, network, [0.0, 0.7], weight_decay=[0.0, 0.3, 0.0])
    assert run.methods[2] == "riccati"
    W1, W2 = run.network().weights
    assert np.abs(W2.T @ W2 - W1 @ W1.T - lam * np.exp(-2 * 0.3 * 0.7) * np.eye(3)).max() < 1e-11
    weights = network.weights
    for task, gamma in zip(tasks, (0.0, 0.3, 0.0), strict=True):
        weights = [W[-1] for W in integrate.weights(weights, task.sigma_yx, None, [0.7], None, gamma)]
    assert np.abs(run.network().function - weights[1] @ weights[0]).max() < 1e-7


@pytest.mark.compiles
def test_layer_rates_change_when_and_not_what_is_forgotten():
    tasks = white_tasks(np.random.default_rng(64))
    told = lr.forgetting(tasks)[1, 0]
    for rates in ([1.0, 1.0], [0.1, 1.0], [1.0, 0.1]):
        run = lr.continual(tasks, start(), [0.0, 6000.0], rates=[[1.0, 1.0], rates])
        assert abs(run.forgetting[1, 0] - told) < 1e-6 * told


# --- penalties


def brute_penalised(tasks, weights, span, beta, metric):
    """A network that learns the second of two tasks from weights, held there; gradients by complex steps of the loss,
    the Fisher information by complex steps of the outputs."""
    X, Y = tasks[1].inputs, tasks[1].targets
    shapes = [W.shape for W in weights]
    cuts = np.cumsum([W.size for W in weights])[:-1]
    anchor = np.concatenate([W.ravel() for W in weights])

    def outputs(y, x):
        f = x
        for part, shape in zip(np.split(y, cuts), shapes, strict=True):
            f = f @ part.reshape(shape).T
        return f

    def pushed(y, k):
        moved = y.astype(complex)
        moved[k] += 1e-30j
        return moved

    slopes = np.array([np.imag(outputs(pushed(anchor, k), tasks[0].inputs)) / 1e-30 for k in range(len(anchor))])
    F = np.mean(np.sum(slopes**2, axis=2), axis=1) if metric == "fisher" else np.ones(len(anchor))
    old = outputs(anchor, tasks[0].inputs)

    def loss(y):
        total = np.mean(np.sum((outputs(y, X) - Y) ** 2, axis=1)) / 2
        if metric == "outputs":
            return total + beta * np.mean(np.sum((outputs(y, tasks[0].inputs) - old) ** 2, axis=1)) / 2
        return total + beta * np.sum(F * (y - anchor) ** 2) / 2

    def velocity(_, y):
        return -np.array([np.imag(loss(pushed(y, k))) / 1e-30 for k in range(len(y))])

    run = solve_ivp(velocity, (0, span), anchor, "DOP853", rtol=1e-11, atol=1e-13)
    return [part.reshape(shape) for part, shape in zip(np.split(run.y[:, -1], cuts), shapes, strict=True)]


@pytest.mark.parametrize("metric", ["weights", "fisher", "outputs"])
def test_penalties_against_the_loss_differentiated(metric):
    rng = np.random.default_rng(65)
    X = np.linalg.qr(rng.normal(size=(9, 3)))[0] * 3
    tasks = [lr.Task.from_data(X, X @ rng.normal(size=(3, 2)) + 0.3 * rng.normal(size=(9, 2))) for _ in range(2)]
    exact = [lr.Task.from_correlations(task.sigma_yx, sigma_yy=task.sigma_yy) for task in tasks]
    network = start(2, (3, 4, 2), 0.6)
    run = lr.continual(exact, network, [[0.0, 1.1], [0.0, 0.4, 1.5]], penalty=Penalty(0.7, metric))
    known = brute_penalised(tasks, run.network(0).weights, 1.5, 0.7, metric)
    assert np.abs(run.network().function - known[1] @ known[0]).max() < 1e-9
    assert run.methods == ("riccati", "riccati" if metric == "outputs" else "penalised")
    for j, task in enumerate(tasks):
        brute = np.mean(np.sum((task.inputs @ (known[1] @ known[0]).T - task.targets) ** 2, axis=1)) / 2
        assert abs(run.loss_matrix[1, j] - brute) < 1e-8


@pytest.mark.parametrize("first", [0.5, 60.0])
def test_a_penalty_on_outputs_is_replay_in_another_time(first):
    """½β‖W − W*‖² with white inputs: replay of β/(1 + β) of what the network answers, faster by 1 + β. After a first
    stage to its end that is the first task."""
    beta, tasks = 0.25, white_tasks(np.random.default_rng(66))
    times = np.linspace(0, 3, 7)
    held = lr.continual(tasks, start(), [[0.0, first], times], penalty=Penalty(beta, "outputs"))
    taught = held.network(0)
    answers = lr.Task.from_correlations(taught.function)
    mixed = lr.tasks.mixture([answers, tasks[1]], [beta / (1 + beta), 1 / (1 + beta)])
    replayed = lr.solve(lr.Problem(mixed, taught), (1 + beta) * times)
    assert np.abs(held.trajectories[1].function - replayed.function).max() < 1e-12
    if first > 50:
        plan = replay(tasks, beta / (1 + beta))
        run = lr.continual(plan, start(), [[0.0, first], (1 + beta) * times])
        assert np.abs(run.trajectories[1].function - held.trajectories[1].function).max() < 1e-9


def test_no_penalty_and_none_in_the_first_stage():
    tasks, times = white_tasks(np.random.default_rng(67)), [0.0, 2.0]
    plain = lr.continual(tasks, start(), times)
    nothing = lr.continual(tasks, start(), times, penalty=Penalty(0.0))
    assert np.array_equal(nothing.losses, plain.losses) and nothing.methods == plain.methods
    held = lr.continual(tasks, start(), times, penalty=Penalty(100.0, "weights"))
    assert np.array_equal(held.losses[:2], plain.losses[:2])
    assert np.abs(held.network().function - held.network(0).function).max() < 0.2


@pytest.mark.long
def test_the_end_of_each_stage_with_a_penalty():
    """Known where the penalty is on outputs; elsewhere no circles are drawn."""
    tasks = white_tasks(np.random.default_rng(70), 3)
    held = lr.continual(tasks, start(), [0.0, 300.0], penalty=Penalty(0.5, "outputs"))
    assert np.abs(held.limit_loss_matrix - held.loss_matrix).max() < 1e-10
    with pytest.raises(lr.InvalidInput, match="belongs to runs without a penalty, which moves the end of each stage"):
        _ = held.predicted_forgetting
    run = lr.continual(tasks, start(), [0.0, 2.0], penalty=Penalty(0.5))
    with pytest.raises(
        lr.NoExactSolution, match=r"no exact solution applies to Penalty\(strength=0.5, metric='fisher'"
    ):
        _ = run.limit_loss_matrix
    labels = lr.plot.forgetting(run).axes[0].get_legend_handles_labels()[1]
    assert len(labels) == 3 and len(lr.plot.forgetting(held).axes[0].get_legend_handles_labels()[1]) == 4


# --- savings, order and similarity


def test_the_time_to_learn_is_the_root_of_the_logistic():
    tasks = [lr.Task.from_correlations([[s]]) for s in (1.0, 3.0)]
    again = Schedule(tasks, [[1, 0], [0, 1], [1, 0]])
    found = relearning(lr.continual(again, lr.Network([[[0.1]], [[0.1]]]), [0.0, 45.0]), share=0.1)
    a = 1 - np.sqrt(0.1) * 0.99
    late = 1 + np.sqrt(0.1) * 0.99  # from above, the second time
    assert abs(found.times[0] - np.log((1 / 0.01 - 1) / (1 / a - 1)) / 2) < 1e-12
    assert abs(found.times[1] - np.log((1 - 1 / 3) / (1 - 1 / late)) / 2) < 1e-12
    assert found.stages == (0, 2) and not found.error.any()
    assert abs(found.savings[0] - (1 - found.times[1] / found.times[0])) < 1e-15


@pytest.mark.long
def test_a_balanced_network_that_has_learned_another_task_keeps_nothing_of_the_first():
    """It learns it again no sooner than for the first time, from there; and sooner than from small weights."""
    for lam in (0.0, 0.5):
        tasks = white_tasks(np.random.default_rng(68), d_in=3, d_out=3)
        network = lr.inits.lambda_balanced(3, sizes=(3, 3, 3), lam=lam, scale=0.05)
        sign = np.sign(np.linalg.det(network.function))
        tasks = [lr.Task.from_correlations(task.sigma_yx * sign * np.sign(np.linalg.det(task.sigma_yx)))
                 for task in tasks]  # fmt: skip
        one, other = tasks
        again = relearning(lr.continual([one, other, one], network, [0.0, 120.0]))
        fresh = lr.continual([other, one], network, [0.0, 120.0]).trajectories[1]
        grid = np.linspace(0, 5, 20_001)
        first = grid[np.argmax(fresh.at(grid).loss <= again.level)]
        assert abs(again.times[1] - first) < 3e-4 and again.savings[0] > 0.3


@pytest.mark.compiles
def test_times_between_records_say_how_far_they_may_be_off(rng):
    tasks = [lr.Task.from_data(rng.normal(size=(9, 3)), rng.normal(size=(9, 2))) for _ in range(2)]
    network, fine = start(1, (3, 4, 2)), np.linspace(0, 40, 20_001)
    coarse = relearning(lr.continual([*tasks, tasks[0]], network, np.linspace(0, 40, 101)), share=0.2)
    sure = relearning(lr.continual([*tasks, tasks[0]], network, fine), share=0.2)
    assert np.all(np.abs(coarse.times - sure.times) <= coarse.error) and np.allclose(coarse.error, 0.4)
    never = lr.continual([tasks[0], tasks[1], tasks[0]], network, [[0.0, 20.0], [0.0, 20.0], [0.0, 1e-3]])
    assert np.isinf(relearning(never).times[1])


def test_forgetting_from_the_angle_between_tasks(rng):
    tasks = white_tasks(rng, 3)
    cosines, sizes = overlap(tasks), [np.linalg.norm(task.sigma_yx) for task in tasks]
    for i, j in permutations(range(3), 2):
        by_angle = (sizes[i] ** 2 + sizes[j] ** 2) / 2 - cosines[i, j] * sizes[i] * sizes[j]
        assert abs(lr.forgetting([tasks[i], tasks[j]])[1, 0] - by_angle) < 1e-12
    assert np.isnan(overlap([tasks[0], lr.Task.from_correlations(np.zeros((3, 4)))])[0, 1])


def test_of_an_order_only_the_last_task_counts_in_the_end(rng):
    """The best is the one nearest to the mean of all; with replay too."""
    tasks = white_tasks(rng, 4)
    mean = np.mean([task.sigma_yx for task in tasks], axis=0)
    nearest = int(np.argmin([np.sum((task.sigma_yx - mean) ** 2) for task in tasks]))
    for fraction in (0.0, 0.2):
        ends = {}
        for order in permutations(range(4)):
            last = lr.sequences.loss_matrix(replay([tasks[k] for k in order], fraction))[-1].sum()
            ends.setdefault(order[-1], []).append(last)
        assert all(np.ptp(values) < 1e-12 for values in ends.values())
        assert min(ends, key=lambda k: ends[k][0]) == nearest


# --- what helps


@pytest.mark.compiles
def test_no_remedy_is_below_the_frontier_and_replay_is_on_it():
    tasks = white_tasks(np.random.default_rng(69), noise=0.0)
    found = lr.sequences.remedies(*tasks, start(), others={"wider": start(5, (4, 20, 3)), "large": start(6, scale=1.0)})
    assert all(each.excess > -1e-9 for each in found.found)
    apart = np.sum((tasks[0].sigma_yx - tasks[1].sigma_yx) ** 2) / 2
    assert abs(found.between - apart) < 1e-13
    for fraction, each in zip((0.01, 0.05, 0.2, 0.5), found.of("replay"), strict=True):
        assert abs(each.forgetting - (1 - fraction) ** 2) < 1e-5 and abs(each.missing - fraction**2) < 1e-5
        assert abs(each.excess) < 2e-3 and each.method == "riccati"
    for each in (*found.of("nothing"), *found.of("another network")):
        assert abs(each.forgetting - 1) < 1e-2 and each.missing < 1e-4
    stopped = found.of("early stopping")
    assert np.all(np.diff([each.time for each in stopped]) > 0) and max(each.excess for each in stopped) > 0.01
    assert [np.sqrt(each.missing) for each in stopped] == pytest.approx([0.9, 0.7, 0.5, 0.3], abs=1e-9)
    assert str(found).count("\n") == len(found.found)


def test_a_single_layer_goes_straight_and_is_on_the_frontier_all_the_way(rng):
    """Why early stopping of a lazy network is as good as replay."""
    tasks = white_tasks(rng, noise=0.0)
    run = lr.continual(tasks, lr.Network([0.1 * rng.normal(size=(3, 4))]), [[0.0, 60.0], np.linspace(0, 5, 20)])
    forgotten, missing = run.losses[2:].T / (np.sum((tasks[0].sigma_yx - tasks[1].sigma_yx) ** 2) / 2)
    assert np.abs(np.sqrt(forgotten) + np.sqrt(missing) - 1).max() < 1e-10


# --- sentences

ONE = lr.Task.from_correlations([[1.0, 0.0]])
TWO = lr.Task.from_correlations([[0.0, 1.0]])
NET = lr.Network([[[0.1, 0.1]], [[0.1]]])
RUN = lr.continual([ONE, TWO], NET, [0.0, 1.0])


@pytest.mark.parametrize(("call", "sentence"), [
    (lambda: lr.continual([ONE, TWO], NET, 1.0, rates=[[1, 1], [1, 1], [1, 1]]),
     "rates must be those of the layers, or a row of them for each stage (2), and there are 3 rows."),
    (lambda: lr.continual([ONE, TWO], NET, 1.0, rates=[[1, 1], [1, 0]]), "rates must be above 0, and the least is 0."),
    (lambda: lr.continual([ONE, TWO], NET, 1.0, weight_decay=[0.1, 0.1, 0.1]),
     "weight_decay must be one number, or one for each stage (2), and it has shape (3,)."),
    (lambda: lr.continual([ONE, TWO], NET, 1.0, weight_decay=[0.1, -0.1]),
     "weight_decay must be at least 0, and it is -0.1."),
    (lambda: lr.continual([ONE, TWO], NET, 1.0, penalty=0.5),
     "penalty must be a lr.sequences.Penalty, and it is a float: try Penalty(1.0)."),
    (lambda: lr.continual([ONE, TWO], NET, 1.0, penalty=Penalty(1.0), rate=0.1),
     "penalty belongs to the flow of linear networks without biases and the squared loss, and this one is 2-1-1, "
     "linear, squared, and descends: try replay(tasks, fraction), which any network can train on."),
    (lambda: lr.continual([ONE, TWO], lr.Network(NET.weights, "tanh"), 1.0, penalty=Penalty(1.0)),
     "rate must be given where the network is tanh, which is trained step by step: rate=0.05, say."),
    (lambda: Penalty(-1.0), "strength must be at least 0, and it is -1."),
    (lambda: Penalty(1.0, "ewc"), "metric must be one of 'weights', 'fisher', 'outputs', and it is 'ewc'."),
    (lambda: relearning(RUN, 2), "task must lie between -2 and 1, and it is 2."),
    (lambda: relearning(RUN, share=1.0), "share must be below 1, a part of the way that the loss goes, and it is 1."),
    (lambda: relearning(lr.continual(Schedule([ONE, TWO], [[1, 0]]), NET, 1.0), 1),
     "task must be one that was trained, and tasks[1] has no share, or not the largest."),
    (lambda: relearning("run"), "run must be what lr.continual returns, and it is a str."),
    (lambda: lr.sequences.remedies(ONE, ONE, NET),
     "new must ask for another map than old, or there is nothing to forget, and it does not."),
    (lambda: lr.sequences.remedies(ONE, TWO, lr.Network([[[0.1, 0.1]]])),
     "network must be linear, of two layers at least, and it is <Network: 2-1, linear>."),
    (lambda: lr.plot.remedies("found"), "found must be what lr.sequences.remedies returns, and it is a str."),
])  # fmt: skip
def test_what_cannot_be_used_is_said(call, sentence, unchecked_shapes):
    with pytest.raises(lr.InvalidInput) as error:
        call()
    assert str(error.value) == sentence


@pytest.mark.long
def test_a_slow_layer_is_followed_to_its_end():
    """It arrives where the network without a remedy does, late; at a fixed time it would look as if it forgot less."""
    old, new = (lr.Task.from_correlations(np.random.default_rng(seed).normal(size=(3, 4))) for seed in (0, 1))
    found = lr.sequences.remedies(old, new, lr.inits.zero_balanced(0, sizes=(4, 2, 3), scale=0.1))
    (nothing,), slow = found.of("nothing"), found.of("slower first layer")
    for each, slower in zip(slow, (10, 100), strict=True):
        assert each.forgetting == pytest.approx(nothing.forgetting, abs=1e-3)
        assert each.time > slower * nothing.time


def test_remedies_need_one_measure_of_losses(rng):
    old, new = (lr.Task.from_data(rng.normal(size=(30, 4)), rng.normal(size=(30, 3))) for _ in range(2))
    with pytest.raises(lr.InvalidInput, match="old and new must share their Σxx, and these are off by"):
        lr.sequences.remedies(old, new, lr.inits.zero_balanced(0, sizes=(4, 5, 3), scale=0.1))


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("others", "words"),
    [
        ([1], "others must map names to networks, and it is"),
        ({"x": 5}, r"others\['x'\] must be a linear network without biases, of 4 inputs and 3 outputs, and it is 5"),
    ],
)
def test_other_networks_can_learn_the_same(others, words):
    task = lr.Task.from_correlations(np.eye(3, 4))
    other = lr.Task.from_correlations(2 * np.eye(3, 4))
    with pytest.raises(lr.InvalidInput, match=words):
        lr.sequences.remedies(task, other, lr.inits.zero_balanced(0, sizes=(4, 5, 3), scale=0.1), others=others)


def test_a_penalty_too_strong_for_explicit_steps_is_refused():
    tasks = [lr.Task.from_correlations(s * np.eye(3, 4)) for s in (1.0, 2.0)]
    with pytest.raises(lr.InvalidInput, match="penalty is too strong for times to 10: strength × time is 1e"):
        start = lr.inits.zero_balanced(0, sizes=(4, 5, 3), scale=0.1)
        lr.continual(tasks, start, [0.0, 10.0], penalty=lr.sequences.Penalty(1e6, "weights"))
