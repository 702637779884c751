"""One task after another: chains of exact solutions, forgetting before and after, and balance carried on.

The oracles integrate, descend and average by themselves: scipy chained stage by stage, gradient descent written out,
losses from samples one by one, and balanced starts in 400 digits.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from oracles import integrate, riccati_mp
from oracles.starts_mp import lambda_balanced_mp, to_float, zero_balanced_mp
from problems import SEEDS, task_of, white_samples

import lazyrich as lr
from lazyrich.sequences import Continual, continual, forgetting, loss_matrix
from lazyrich.sequences.chain import rebalance


def teacher(rng, d_in, d_out, strengths=(0.5, 2.0)) -> lr.Task:
    """White inputs, targets with known singular values and some noise."""
    m = min(d_in, d_out)
    U, V = (np.linalg.qr(rng.normal(size=(d, d)))[0] for d in (d_out, d_in))
    S = U[:, :m] * rng.uniform(*strengths, size=m) @ V[:, :m].T
    return lr.Task.from_correlations(S, sigma_yy=S @ S.T + 0.1 * np.eye(d_out))


def network_of(rng, seed, sizes, scale=None) -> lr.Network:
    d_in, h, d_out = sizes
    lam = [0.0, 0.7, -0.7][seed % 3]
    lam = 0.0 if (lam > 0 and h > d_out) or (lam < 0 and h > d_in) else lam
    return lr.inits.lambda_balanced(rng, sizes=sizes, lam=lam, scale=scale or float(10 ** rng.uniform(-1.5, 0.2)))


def relative(found, wanted) -> float:
    size = np.linalg.norm(wanted)
    return float(np.linalg.norm(np.asarray(found) - wanted) / (size or 1.0))


def brute_loss(task: lr.Task, weights, bend=lambda z: z) -> float:
    """½ mean‖y − ŷ‖², sample by sample."""
    total = 0.0
    for x, y in zip(task.inputs, task.targets, strict=True):
        signal = x
        for W in weights[:-1]:
            signal = bend(W @ signal)
        total += float(np.sum((y - weights[-1] @ signal) ** 2)) / 2
    return total / len(task.inputs)


# --- the chain


@pytest.mark.long
def test_the_chain_agrees_with_an_integration_chained_stage_by_stage():
    worst = 0.0
    for seed in SEEDS:
        rng = np.random.default_rng((30, seed))
        sizes = tuple(int(n) for n in rng.integers(1, 5, size=3))
        network = network_of(rng, seed, sizes)
        rates = None
        if seed % 4 == 0:
            rates = rng.uniform(0.5, 2, size=2)
            network = lr.Network([np.sqrt(r) * W for r, W in zip(rates, network.weights, strict=True)])
            if not lr.Problem(teacher(rng, sizes[0], sizes[2]), network, rates).facts.balanced:
                rates, network = None, network_of(rng, seed, sizes)
        tasks = [teacher(rng, sizes[0], sizes[2]) for _ in range(2 + seed % 2)]
        spans = [np.sort(rng.uniform(0, 2, size=2)) for _ in tasks]
        run = continual(tasks, network, spans, rates=rates)
        weights = network.weights
        for task, span, part in zip(tasks, spans, run.trajectories, strict=True):
            states = integrate.weights(weights, task.sigma_yx, task.sigma_xx, span, rates)
            weights = [W[-1] for W in states]
            size = max(np.linalg.norm(task.sigma_yx), np.linalg.norm(states[1] @ states[0]))
            worst = max(worst, np.linalg.norm(part.function - states[1] @ states[0]) / size)
        assert run.methods.count("flow") == 0
        for W, oracle in zip(run.network().weights, weights, strict=True):
            assert np.abs(W - oracle).max() < 1e-8  # the hidden basis too
    assert worst < 1e-8


@pytest.mark.long
def test_the_same_task_twice_is_one_run():
    for seed in SEEDS:
        rng = np.random.default_rng((31, seed))
        sizes = tuple(int(n) for n in rng.integers(1, 7, size=3))
        task, network = teacher(rng, sizes[0], sizes[2]), network_of(rng, seed, sizes)
        run = continual([task, task], network, [[0.4, 1.0], [0.0, 0.7, 3.0]])
        through = lr.solve(lr.Problem(task, network), run.times)
        assert np.allclose(run.times, [0.4, 1.0, 1.0, 1.7, 4.0])
        joined = np.concatenate([part.gram for part in run.trajectories])
        assert relative(joined, through.gram) < 1e-11
        assert np.abs(run.losses - through.loss[:, None]).max() <= 1e-11 * (1 + through.loss.max())


def test_inputs_that_are_not_white_are_integrated_and_the_next_task_is_exact_again():
    rng = np.random.default_rng(32)
    tasks = [teacher(rng, 3, 4), task_of(rng, 3, 4, samples=12), teacher(rng, 3, 4)]
    network = lr.inits.zero_balanced(1, sizes=(3, 5, 4), scale=0.3)
    run = continual(tasks, network, [0.5, 1.5])
    assert run.methods == ("riccati", "flow", "riccati")
    weights = network.weights
    for task, part in zip(tasks, run.trajectories, strict=True):
        states = integrate.weights(weights, task.sigma_yx, task.sigma_xx, [0.5, 1.5])
        weights = [W[-1] for W in states]
        assert relative(part.function, states[1] @ states[0]) < 1e-8
    assert 0 < run.rebalanced[2] < 1e-8 and run.rebalanced[:2] == (0.0, 0.0)
    assert any(note.startswith("task 2: integrated") and "white inputs" in note for note in run.notes)
    assert any(note.startswith("task 3: brought back to the conserved D") for note in run.notes)


@pytest.mark.compiles
def test_an_unbalanced_network_is_integrated_and_never_rebalanced():
    rng = np.random.default_rng(33)
    tasks = [teacher(rng, 3, 4) for _ in range(2)]
    network = lr.Network([rng.normal(size=(5, 3)), rng.normal(size=(4, 5))])
    run = continual(tasks, network, [1.0])
    states = integrate.weights(network.weights, tasks[0].sigma_yx, None, [1.0])
    states = integrate.weights([W[-1] for W in states], tasks[1].sigma_yx, None, [1.0])
    assert run.methods == ("flow", "flow") and run.rebalanced == (0.0, 0.0)
    assert relative(run.network().function, states[1][-1] @ states[0][-1]) < 1e-8


@pytest.mark.compiles
def test_depth_three_and_one_layer():
    rng = np.random.default_rng(34)
    tasks = [teacher(rng, 3, 2), teacher(rng, 3, 2)]
    deep = lr.Network([0.6 * rng.normal(size=shape) for shape in ((4, 3), (3, 4), (2, 3))])
    run = continual(tasks, deep, [[0.0, 1.0], [2.0]])
    first = integrate.weights(deep.weights, tasks[0].sigma_yx, None, [0.0, 1.0])
    second = integrate.weights([W[-1] for W in first], tasks[1].sigma_yx, None, [2.0])
    assert run.methods == ("flow", "flow")
    assert relative(run.network().function, second[2][0] @ second[1][0] @ second[0][0]) < 1e-8
    correlated = [task_of(rng, 3, 2, samples=2), task_of(rng, 3, 2, samples=9)]  # the first with singular Σxx
    W0 = rng.normal(size=(2, 3))
    run = continual(correlated, lr.Network([W0]), [0.0, 1.3])
    weights = [W0]
    for task in correlated:
        weights = [integrate.weights(weights, task.sigma_yx, task.sigma_xx, [1.3])[0][-1]]
    assert run.methods == ("shallow", "shallow")
    assert relative(run.network().function, weights[0]) < 1e-10


def test_deep_networks_stay_exact_where_all_tasks_share_their_modes():
    task = lr.Task.from_correlations(np.diag([2.0, 1.0]))
    again = lr.Task.from_correlations(np.diag([0.5, 1.5]))
    network = lr.Network([0.4 * np.eye(2)] * 3)
    run = continual([task, again], network, [3.0])
    state = network.weights
    for sigma in (task.sigma_yx, again.sigma_yx):
        state = [W[-1] for W in integrate.weights(state, sigma, None, [3.0])]
    assert run.methods == ("deep_modes", "deep_modes")
    assert relative(run.network().function, state[2] @ state[1] @ state[0]) < 1e-10


@pytest.mark.parametrize(("activation", "bend", "slope"), [
    ("linear", lambda z: z, np.ones_like),
    ("tanh", np.tanh, lambda z: 1 - np.tanh(z) ** 2),
    ("relu", lambda z: np.maximum(z, 0), lambda z: (z > 0) * 1.0),
    (0.3, lambda z: np.where(z > 0, z, 0.3 * z), lambda z: np.where(z > 0, 1.0, 0.3)),
])  # fmt: skip
def test_descent_agrees_with_descent_written_out(activation, bend, slope):
    rng, rate, steps = np.random.default_rng(35), 0.05, 60
    tasks = [task_of(rng, 3, 2, samples=7), task_of(rng, 3, 2, samples=9)]
    W1, W2 = 0.5 * rng.normal(size=(4, 3)), 0.5 * rng.normal(size=(2, 4))
    network = lr.Network([W1, W2], activation)
    run = continual(tasks, network, rate * np.array([0, 20, steps]), rate=rate)
    rows = []
    for task in tasks:
        rows.append([brute_loss(other, (W1, W2), bend) for other in tasks])
        for step in range(1, steps + 1):
            X, Y = task.inputs.T, task.targets.T
            Z = W1 @ X
            error = (Y - W2 @ bend(Z)) / X.shape[1]
            W1, W2 = W1 + rate * ((W2.T @ error) * slope(Z)) @ X.T, W2 + rate * error @ bend(Z).T
            if step in (20, steps):
                rows.append([brute_loss(other, (W1, W2), bend) for other in tasks])
    assert run.methods == ("descend", "descend")
    assert relative(run.losses, np.array(rows)) < 1e-10
    assert relative(run.initial_losses, np.array(rows[0])) < 1e-10
    assert relative(run.network().weights[0], W1) < 1e-10 and relative(run.network().weights[1], W2) < 1e-10


# --- forgetting, before and after


def test_forgetting_before_training_against_samples():
    for seed in SEEDS:
        rng = np.random.default_rng((36, seed))
        d_in, d_out = (int(n) for n in rng.integers(1, 6, size=2))
        if seed % 2:
            tasks = [lr.Task.from_data(*white_samples(rng, d_in, d_out)) for _ in range(4)]
        else:
            tasks = [task_of(rng, d_in, d_out, samples=2 * d_in + 3) for _ in range(4)]
        best = [np.linalg.lstsq(task.inputs, task.targets, rcond=None)[0].T for task in tasks]
        wanted = np.array([[brute_loss(task, [W]) for task in tasks] for W in best])
        assert relative(loss_matrix(tasks), wanted) < 1e-10
        found = forgetting(tasks)
        for i in range(4):
            for j in range(4):
                if i < j:
                    assert np.isnan(found[i, j])
                else:
                    assert abs(found[i, j] - (wanted[i, j] - wanted[j, j])) < 1e-10 * wanted.max()


def test_forgetting_of_white_tasks_is_the_distance_of_their_correlations():
    for seed in SEEDS:
        rng = np.random.default_rng((37, seed))
        tasks = [teacher(rng, 4, 3) for _ in range(3)]
        for k, j in ((2, 1), (1, 0), (2, 0)):  # the loss of i from after j to after k
            for i in range(3):
                apart = [np.sum((tasks[n].sigma_yx - tasks[i].sigma_yx) ** 2) for n in (k, j)]
                change = loss_matrix(tasks)[k, i] - loss_matrix(tasks)[j, i]
                assert abs(change - (apart[0] - apart[1]) / 2) < 1e-12 * (1 + max(apart))
        constant = np.trace(tasks[0].sigma_yy) / 2 - np.sum(tasks[0].sigma_yx ** 2) / 2
        after_one = np.sum((tasks[1].sigma_yx - tasks[0].sigma_yx) ** 2) / 2 + constant
        assert abs(loss_matrix(tasks)[1, 0] - after_one) < 1e-12 * after_one


def apart(rng, d_in, d_out) -> lr.Task:
    """Singular values well apart: where a bottleneck or a saddle leaves some out, their gaps set the pace."""
    m = min(d_in, d_out)
    U, V = (np.linalg.qr(rng.normal(size=(d, d)))[0] for d in (d_out, d_in))
    return lr.Task.from_correlations(U[:, :m] * np.linspace(2, 0.6, m) @ V[:, :m].T)


@pytest.mark.long
def test_what_is_forgotten_is_known_before_training():
    complete = narrow = obstructed = 0
    for seed in SEEDS:
        rng = np.random.default_rng((38, seed))
        sizes = tuple(int(n) for n in rng.integers(1, 6, size=3))
        tasks = [apart(rng, sizes[0], sizes[2]) for _ in range(3)]
        run = continual(tasks, network_of(rng, seed, sizes, 0.3), 100.0)
        size = np.sum(tasks[0].sigma_yx ** 2)
        assert np.abs(run.loss_matrix - run.limit_loss_matrix).max() < 1e-10 * size
        known = forgetting(tasks, run.trajectories[0].problem.network)
        assert np.nanmax(np.abs(run.forgetting - known)) < 1e-10 * size
        saddle = any("separatrix" in note for note in run.notes)
        narrow, obstructed = narrow + (sizes[1] < min(sizes[0], sizes[2])), obstructed + saddle
        if not saddle and sizes[1] >= min(sizes[0], sizes[2]):
            complete += 1
            assert np.abs(run.loss_matrix - run.predicted_loss_matrix).max() < 1e-10 * size
            assert np.nanmax(np.abs(run.forgetting - run.predicted_forgetting)) < 1e-10 * size
    assert complete >= 20 and narrow >= 5 and obstructed >= 3


def test_a_bottleneck_and_a_saddle_are_known_before_training():
    rng = np.random.default_rng(42)
    tasks = [apart(rng, 4, 5) for _ in range(3)]
    best = []
    for task in tasks:
        U, s, Vt = np.linalg.svd(task.sigma_yx)
        best.append(U[:, :2] * s[:2] @ Vt[:2])  # the two strongest modes
    wanted = np.array([[np.sum((W - task.sigma_yx) ** 2) / 2 for task in tasks] for W in best])
    network = lr.inits.zero_balanced(0, sizes=(4, 2, 5), scale=0.5)
    assert np.abs(loss_matrix(tasks, network) - wanted).max() < 1e-12
    assert abs(forgetting(tasks, network)[2, 0] - (wanted[2, 0] - wanted[0, 0])) < 1e-12

    # tasks that share their modes: what the first did not let in, the second can never have
    tasks = [lr.Task.from_correlations(np.diag(s)) for s in ([3.0, 2.0, 1.0], [1.0, 3.0, 2.0])]
    ends = [np.diag([3.0, 2.0, 0.0]), np.diag([1.0, 3.0, 0.0])]
    wanted = np.array([[np.sum((W - task.sigma_yx) ** 2) / 2 for task in tasks] for W in ends])
    narrow = lr.inits.zero_balanced(0, sizes=(3, 2, 3), scale=0.5)
    backwards = lr.Network([np.diag([0.1, 0.1, -0.1]), 0.1 * np.eye(3)])  # det < 0: the weakest mode is missed
    for network in (narrow, backwards):
        assert np.abs(loss_matrix(tasks, network) - wanted).max() < 1e-12
        assert np.abs(continual(tasks, network, [[60.0], [15.0]]).loss_matrix - wanted).max() < 1e-10


def test_weight_decay_and_layer_rates_in_the_limit():
    rng = np.random.default_rng(39)
    tasks, gamma = [teacher(rng, 3, 3, (0.8, 2.0)) for _ in range(2)], 0.1
    network = lr.inits.zero_balanced(5, sizes=(3, 5, 3), scale=0.4)
    shrunk = []
    for task in tasks:
        U, s, Vt = np.linalg.svd(task.sigma_yx)
        shrunk.append(U * (s - gamma) @ Vt)
    sign = [np.sign(np.linalg.det(W)) for W in (network.function, *shrunk)]
    if sign[1] != sign[0]:
        tasks, shrunk = [lr.tasks.reversal(task) for task in tasks], [-W for W in shrunk]
        sign = [sign[0], -sign[1], -sign[2]]
    if sign[2] != sign[0]:
        tasks[1], shrunk[1] = lr.tasks.reversal(tasks[1]), -shrunk[1]
    wanted = np.array([[task.loss(W) for task in tasks] for W in shrunk])
    assert np.abs(loss_matrix(tasks, network, weight_decay=gamma) - wanted).max() < 1e-11
    assert np.abs(continual(tasks, network, 60.0, weight_decay=gamma).loss_matrix - wanted).max() < 1e-10
    rates = (0.5, 2.0)
    fast = lr.Network([np.sqrt(r) * W for r, W in zip(rates, network.weights, strict=True)])
    run = continual(tasks, fast, 60.0, rates=rates)
    assert run.methods == ("riccati", "riccati")
    assert np.abs(run.loss_matrix - run.limit_loss_matrix).max() < 1e-10
    assert np.abs(run.loss_matrix - run.predicted_loss_matrix).max() < 1e-10


def test_transfer_is_the_change_of_tasks_still_to_come():
    tasks = [lr.Task.from_correlations([[s]]) for s in (1.0, 2.0, -1.0)]
    run = continual(tasks, lr.Network([[[0.1]], [[0.1]]]), 40.0)
    start = [(s - 0.01) ** 2 / 2 for s in (1.0, 2.0, -1.0)]
    assert np.allclose(run.initial_losses, start, rtol=0, atol=1e-15)
    assert np.allclose(run.transfer[0, 1:], [0.5 - start[1], 2.0 - start[2]], rtol=0, atol=1e-12)
    assert run.transfer[0, 1] < 0 < run.transfer[0, 2]  # learning 1 helps with 2 and not with −1
    assert np.isnan(run.transfer[np.tril_indices(3)]).all()
    assert np.allclose(run.forgetting[1, 0], 0.5, rtol=0, atol=1e-12)


# --- reversal learning and the hierarchies


def test_reversal_stays_on_the_saddle_unless_asked():
    task = lr.Task.from_correlations([[2.0, 0.0], [0.0, 1.0]])
    tasks, network = [task, lr.tasks.reversal(task)], lr.Network([0.3 * np.eye(2), 0.3 * np.eye(2)])
    run = continual(tasks, network, [0.0, 40.0])
    assert np.abs(run.network().function).max() < 1e-12  # the origin, for ever
    assert abs(run.loss_matrix[1, 1] - task.loss(np.zeros((2, 2)))) < 1e-12
    assert any("task 2" in note and "separatrix" in note for note in run.notes)
    assert np.abs(run.loss_matrix - run.limit_loss_matrix).max() < 1e-12
    away = continual(tasks, network, [0.0, 80.0], on_separatrix="perturb")
    assert np.abs(away.network().function + task.sigma_yx).max() < 1e-10
    assert not any("task 1" in note for note in away.notes)  # the first start is not on it, and is not moved
    assert abs(away.forgetting[1, 0] - 10.0) < 1e-9  # ½‖2Σ‖²
    shallow = continual(tasks, lr.Network([np.eye(2)]), [0.0, 40.0])
    assert np.abs(shallow.network().function + task.sigma_yx).max() < 1e-12


def test_a_stage_that_rounding_puts_on_the_separatrix_says_until_when_it_is_exact():
    task = lr.tasks.random_regression(1, d_in=4, d_out=4, samples=16)
    network = lr.inits.zero_balanced(0, sizes=(4, 6, 4), scale=0.25)
    run = continual([task, lr.tasks.reversal(task)], network, 100.0)
    (note,) = [note for note in run.notes if "rounding hides" in note]
    until = float(re.search(r"until t = ([\d.]+)", note)[1])
    exact = lambda t: run.trajectories[1].solution.function(np.array([t]))[0]
    start = run.network(0).weights
    grown = riccati_mp.gram_float(*start, -task.sigma_yx, [until, 6 * until], lam=0)[:, 4:, :4]
    assert np.abs(exact(until) - grown[0]).max() < 1e-8  # what rounding left has not grown
    assert np.abs(exact(6 * until) - grown[1]).max() > 1e-6  # and now it has


def test_hierarchies_in_sequence_against_integration():
    tasks = [lr.tasks.semantic_hierarchy(), lr.tasks.revised_kingdom(), lr.tasks.colour_hierarchy()]
    network = lr.inits.zero_balanced(3, sizes=(8, 14, 8), scale=0.35)
    run = continual(tasks, network, [0.0, 25.0])
    weights = network.weights
    for task, part in zip(tasks, run.trajectories, strict=True):
        states = integrate.weights(weights, task.sigma_yx, task.sigma_xx, [25.0])
        weights = [W[-1] for W in states]
        assert relative(part.function[-1], weights[1] @ weights[0]) < 1e-8
    assert set(run.methods) <= {"riccati", "modes"}
    assert run.forgetting[2, 0] > 10 * abs(run.forgetting[1, 0])  # colours undo the kingdom, the revision does not


def test_five_random_tasks_as_in_braun_2022():
    tasks = [lr.tasks.random_regression(seed, d_in=5, d_out=6, samples=25) for seed in range(5)]
    run = continual(tasks, lr.inits.zero_balanced(0, sizes=(5, 10, 6), scale=1e-4), np.linspace(0, 6000, 13))
    assert run.methods == ("riccati",) * 5
    assert np.abs(run.loss_matrix - run.predicted_loss_matrix).max() < 1e-10
    assert np.abs(run.loss_matrix - run.limit_loss_matrix).max() < 1e-10
    assert run.losses.shape == (65, 5)
    for i, part in enumerate(run.trajectories):
        assert np.array_equal(run.losses[run.training == i, i], part.loss)


def test_changes_of_the_loss_from_stage_to_stage_against_samples():
    """Brute losses of networks that scipy integrates, before and after each stage; falls included."""
    rng = np.random.default_rng(39)
    tasks = [lr.Task.from_data(*white_samples(rng, 3, 4)) for _ in range(3)]
    network = network_of(rng, 0, (3, 4, 4), 0.5)
    run = continual(tasks, network, [[0.0, 1.0], [2.0], [0.5, 3.0]])
    weights, before = network.weights, [brute_loss(task, network.weights) for task in tasks]
    for i, (task, span) in enumerate(zip(tasks, (1.0, 2.0, 3.0), strict=True)):
        weights = [W[-1] for W in integrate.weights(weights, task.sigma_yx, task.sigma_xx, [span])]
        after = [brute_loss(other, weights) for other in tasks]
        assert np.abs(run.loss_changes[i] - np.subtract(after, before)).max() < 1e-8
        assert run.loss_changes[i, i] < 0
        before = after
    assert run.loss_changes.shape == (3, 3) and np.isfinite(run.loss_changes).all()
    long = continual(tasks, network, 5000.0)
    assert np.abs(long.loss_changes - long.predicted_loss_changes).max() < 1e-10
    assert np.allclose(run.to_xarray().loss_changes, run.loss_changes)


# --- coordinates


def test_tasks_whitened_apart_are_refused_and_those_whitened_alike_are_not(rng):
    """W M1 is what was learned; the same weights on the inputs of another map M2 are another function."""
    mixing = rng.normal(size=(3, 3))
    X, other = rng.normal(size=(20, 3)), rng.normal(size=(20, 3)) @ mixing
    one, two, third = (lr.Task.from_data(x, rng.normal(size=(20, 2))) for x in (X, X, other))
    network = lr.inits.zero_balanced(0, sizes=(3, 4, 2), scale=0.3)
    white = [task.whitened() for task in (one, two, third)]
    for tasks in ([white[0], white[2]], [white[1], white[0], white[2]], [one, white[0]], [white[2], third]):
        for call in (lambda t: continual(t, network, 1.0), loss_matrix, forgetting):
            with pytest.raises(lr.InvalidInput, match=r"tasks must see the same input coordinates, .*: try the tasks"):
                call(tasks)
    with pytest.raises(lr.InvalidInput, match=r"and of tasks\[0\] and tasks\[1\] only tasks\[1\] was whitened: try"):
        loss_matrix([one, white[0]])
    alike = continual(white[:2], network, 5000.0)
    carried = alike.network(0).function @ white[0].input_map  # as a map of the inputs as they were
    assert relative(carried, one.target) < 1e-9
    assert relative(alike.loss_matrix[0, 1], brute_loss(two, [carried])) < 1e-9
    meant = [lr.Task.from_correlations(task.sigma_yx, sigma_yy=task.sigma_yy) for task in (white[0], white[2])]
    assert continual(meant, network, 1.0).methods == ("riccati", "riccati")


def test_the_same_inputs_whitened_from_samples_and_from_correlations_are_the_same_coordinates(rng):
    X, Y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    samples = lr.Task.from_data(X, Y)
    sums = lr.Task.from_correlations(samples.sigma_yx, samples.sigma_xx, samples.sigma_yy)
    assert loss_matrix([samples.whitened(), sums.whitened()]).shape == (2, 2)
    white = lr.Task.from_correlations(np.ones((2, 3)))
    assert loss_matrix([white, white.whitened()]).shape == (2, 2)  # by the identity


# --- balance


def perturbed(rng, seed) -> tuple[lr.Problem, float, tuple, dict]:
    """A start balanced to 400 digits, moved by the hidden GL(h) action; and the start itself."""
    d_in, h, d_out = (int(n) for n in rng.integers(1, 6, size=3))
    lam = [0.0, 0.5, -0.5][seed % 3]
    lam = 0.0 if (lam > 0 and h > d_out) or (lam < 0 and h > d_in) else lam
    rates = (1.0, 1.0) if seed % 2 else (0.5, 2.0)
    scale = [1.0, 1e-8, 1e3][(seed // 3) % 3] if lam == 0 else 1.0
    make = zero_balanced_mp if lam == 0 else lambda *a, **k: lambda_balanced_mp(*a[:4], lam, *a[4:], **k)
    start = make(rng, d_in, h, d_out, scale, rates=rates, digits=60)
    W1, W2 = (to_float(W) for W in start)
    S = np.eye(h) + 1e-9 * rng.normal(size=(h, h))
    network = lr.Network([S @ W1, np.linalg.solve(S.T, W2.T).T])
    return lr.Problem(teacher(rng, d_in, d_out), network, rates), lam, start, {"rates": rates, "lam": lam}


def test_rebalancing_undoes_the_hidden_action():
    unbalanced = 0
    for seed in SEEDS:
        rng = np.random.default_rng((40, seed))
        problem, lam, start, about = perturbed(rng, seed)
        k = [np.sqrt(about["rates"][1]), np.sqrt(about["rates"][0])]  # η_1 W2ᵀW2 − η_2 W1W1ᵀ = λI
        network, departure = rebalance(problem, lam)
        W1, W2 = network.weights
        size = sum(float(np.sum((k_l * W) ** 2)) for k_l, W in zip(k, network.weights, strict=True))
        off = lambda V1, V2, k=k, lam=lam: np.linalg.norm(
            k[1] ** 2 * V2.T @ V2 - k[0] ** 2 * V1 @ V1.T - lam * np.eye(len(V1))
        )
        assert relative(W2 @ W1, problem.network.function) < 1e-13
        assert off(W1, W2) < 2e-15 * size
        assert abs(departure - off(*problem.network.weights)) < 1e-6 * departure + 1e-14 * size
        Q, given, exact = (
            np.concatenate([V1.T, V2]) for V1, V2 in ((W1, W2), problem.network.weights, [to_float(W) for W in start])
        )
        exact = exact @ exact.T
        assert relative(Q @ Q.T, exact) < 1e-13
        unbalanced += relative(given @ given.T, exact) > 1e-10
    assert unbalanced >= 40


def test_a_rebalanced_network_follows_the_exact_solution():
    refused = 0
    for seed in range(12):
        rng = np.random.default_rng((41, seed))
        problem, lam, start, about = perturbed(rng, seed)
        refused += bool(problem.facts.methods["riccati"])
        network, _ = rebalance(problem, lam)
        again = lr.Problem(problem.task, network, problem.rates)
        assert again.facts.balanced
        found = lr.solve(again, [1.0, 3.0], method="riccati").gram
        assert relative(found, riccati_mp.gram_float(*start, problem.task.sigma_yx, [1.0, 3.0], **about)) < 1e-10
    assert refused >= 8


def test_degenerate_networks_are_rebalanced():
    task = lr.Task.from_correlations(np.eye(2))
    zero = lr.Network([np.zeros((3, 2)), np.zeros((2, 3))])
    network, departure = rebalance(lr.Problem(task, zero), 0.0)
    assert departure == 0 and not network.function.any()
    W1, W2 = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]), np.array([[1.0 + 1e-9, 0.0, 0.0], [0.0, 0.0, 0.0]])
    network, _ = rebalance(lr.Problem(task, lr.Network([W1, W2])), 0.0)  # rank one, two unused hidden units
    V1, V2 = network.weights
    assert np.abs(V1.T - V2).max() < 1e-15 and abs(V1[0, 0] - np.sqrt(1 + 1e-9)) < 1e-15
    single = lr.Network([[[1.0, 0.0]], [[0.5], [0.0]]])  # one neuron is balanced always, with its own λ
    network, departure = rebalance(lr.Problem(task, single), 0.25 - 1.0)
    assert departure < 1e-15 and np.array_equal(network.weights[0], single.weights[0])


def test_a_network_that_no_action_brings_back_stays_as_it_is():
    """W1 alone has λ of the wrong sign: 1 + X vanishes."""
    lone = lr.Network([[[1.0]], [[0.0]]])
    network, departure = rebalance(lr.Problem(lr.Task.from_correlations([[1.0]]), lone), 1.0)
    assert departure == 2.0
    for W, before in zip(network.weights, lone.weights, strict=True):
        np.testing.assert_array_equal(W, before)


def test_a_network_that_has_shrunk_goes_on_exactly():
    task = lr.tasks.random_regression(1, d_in=4, d_out=4, samples=16)
    network = lr.inits.zero_balanced(0, sizes=(4, 6, 4), scale=0.25)
    tasks = [task, lr.tasks.reversal(task), lr.tasks.random_regression(2, d_in=4, d_out=4, samples=16)]
    run = continual(tasks, network, 60.0)
    shrunk = lr.Problem(tasks[2], run.network(1))  # as it comes: balanced by its own size, not by what it was
    assert shrunk.facts.balanced and lr.solve(shrunk, [1.0]).method == "riccati"
    assert run.methods == ("riccati", "riccati", "riccati") and run.rebalanced == (0.0, 0.0, 0.0)
    start = run.trajectories[2].problem.network
    assert relative(start.function, run.network(1).function) < 1e-12
    states = integrate.weights(start.weights, tasks[2].sigma_yx, None, [5.0])
    exact = run.trajectories[2].solution.function(np.array([5.0]))[0]
    assert relative(exact, states[1][0] @ states[0][0]) < 1e-8


# --- what a run holds


def small_run() -> Continual:
    tasks = [lr.tasks.random_regression(seed, d_in=2, d_out=3, samples=6) for seed in range(3)]
    network = lr.inits.zero_balanced(0, sizes=(2, 4, 3), scale=0.2)
    return continual(tasks, network, [[0.0, 1.0], [0.0, 2.0, 4.0], 3.0])


def test_times_and_stages():
    run = small_run()
    assert np.array_equal(run.times, [0, 1, 1, 3, 5, 8])
    assert np.array_equal(run.boundaries, [1, 5, 8])
    assert np.array_equal(run.training, [0, 0, 1, 1, 1, 2])
    assert run.losses.shape == (6, 3) and np.array_equal(run.loss_matrix, run.losses[[1, 4, 5]])
    assert np.abs(run.losses[1] - run.losses[2]).max() < 1e-12  # the end of one is the start of the next
    assert np.array_equal(run.network(0).weights[0], run.trajectories[1].problem.network.weights[0])
    assert run.network().sizes == (2, 4, 3)


def test_run_as_table_and_text():
    run = small_run()
    data = run.to_xarray()
    assert dict(data.sizes) == {"time": 5, "task": 3, "stage": 3}  # a boundary comes once
    assert np.allclose(data.loss, run.losses[[0, 1, 3, 4, 5]], rtol=1e-12) and data.indexes["time"].is_unique
    assert np.array_equal(data.forgetting, run.forgetting, equal_nan=True)
    assert list(data.method.values) == ["riccati"] * 3 and data.time.units and data.loss.long_name
    assert run.boundaries.tolist() == [1.0, 5.0, 8.0]
    text = str(run)
    assert (
        "after 3, riccati" in text and f"{run.loss_matrix[1, 2]:.5g}" in text and f"{run.forgetting[2, 0]:.5g}" in text
    )
    assert repr(run) == "<Continual: 3 of 3 tasks, riccati, riccati, riccati>"


def test_extreme_and_degenerate_runs():
    equal = [lr.Task.from_correlations(s * np.eye(3)) for s in (1.0, 2.0, 0.0)]  # equal strengths, and nothing to learn
    for scale in (1e-8, 1e3):
        network = lr.Network([scale * np.eye(3), scale * np.eye(3)])
        run = continual(equal, network, 40.0)
        assert "flow" not in run.methods
        assert np.abs(run.network(1).function - 2 * np.eye(3)).max() < 1e-12
        a = 2 / (1 + 2 * 2 * 40)  # ȧ = −2a² from 2
        assert np.abs(run.network(2).function - a * np.eye(3)).max() < 1e-12
    silent = continual(equal, lr.Network([np.zeros((2, 3)), np.zeros((3, 2))]), 10.0)
    assert not silent.network().function.any() and np.abs(silent.forgetting[1, 0]) == 0
    thin = continual([lr.Task.from_correlations([[1.0, 2.0]]), lr.Task.from_correlations([[-2.0, 1.0]])],
                     lr.inits.zero_balanced(0, sizes=(2, 1, 1), scale=0.5), 40.0)  # fmt: skip
    assert np.abs(thin.loss_matrix - [[0, 5], [5, 0]]).max() < 1e-10


def test_a_stage_that_diverges_ends_the_run():
    tasks = [lr.Task.from_correlations([[s]]) for s in (1.0, 400.0, 1.0)]
    run = continual(tasks, lr.Network([[[0.5]], [[0.5]]]), np.arange(11) * 0.1, rate=0.1)
    assert len(run.trajectories) == 2 and run.loss_matrix.shape == (2, 3) and run.forgetting.shape == (2, 3)
    assert "diverged" in run.notes[-1] and run.notes[-1].endswith("later tasks were not reached")
    assert np.isnan(run.forgetting[:, 2]).all()


# --- sentences

TASK = lr.Task.from_correlations([[1.0, 0.0]])
NET = lr.Network([[[0.1, 0.1]], [[0.1]]])
SINGULAR = lr.Task.from_correlations([[1.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize(("call", "sentence"), [
    (lambda: continual(TASK, NET, 1.0), "tasks must be a list of tasks, and it is a Task: try [task]."),
    (lambda: continual([], NET, 1.0), "tasks must hold at least one task, and it is empty."),
    (lambda: continual([TASK, 3], NET, 1.0), "task must be a lazyrich Task, and it is a int: try Task.from_data."),
    (lambda: continual([TASK, lr.Task.from_correlations([[1.0]])], NET, 1.0),
     "tasks must all have the inputs and outputs of the first (2 and 1), and tasks[1] has 1 and 1."),
    (lambda: continual([TASK, TASK], NET, [[1.0], [1.0], [1.0]]),
     "times must be one vector, or one per task (2), and it holds 3."),
    (lambda: continual([TASK], NET, [-1.0]), "times must not be negative, and the least is -1."),
    (lambda: continual([TASK], NET, 1.0, rate=0.0), "rate must be above 0, and it is 0."),
    (lambda: continual([TASK], NET, 1.05, rate=0.1),
     "times must be multiples of rate (0.1) where the network descends, and one is 1.05: try rate * steps."),
    (lambda: continual([TASK], NET, 1.0, on_separatrix="push"),
     "on_separatrix must be one of 'stay', 'perturb', and it is 'push'."),
    (lambda: continual([TASK], lr.Network(NET.weights, "tanh"), 1.0),
     "rate must be given where the network is tanh, which is trained step by step: rate=0.05, say."),
    (lambda: continual([TASK], lr.Network(NET.weights, "relu"), 1.0, rate=0.1),
     "tasks[0] must hold samples where the network is relu, and it holds correlations only: "
     "try Task.from_data(inputs, targets)."),
    (lambda: loss_matrix([TASK, SINGULAR]),
     "tasks[1] must have inputs in all 2 directions, and they span 1: what is learned then depends on the "
     "initialisation: try loss_matrix(tasks, network), which needs an exact solution."),
    (lambda: rebalance(lr.Problem(TASK, lr.Network([[[0.1, 0.2]]])), 0.0),
     "rebalance needs two linear layers, and the network is <Network: 2-1, linear>."),
    (lambda: small_run().network(3), "stage must lie between -3 and 2, and it is 3."),
    (lambda: small_run().network("last"), "stage must be a whole number, and it is 'last'."),
])  # fmt: skip
def test_what_cannot_be_used_is_said(call, sentence, unchecked_shapes):
    with pytest.raises(lr.InvalidInput) as error:
        call()
    assert str(error.value) == sentence


def test_limits_without_an_exact_solution_are_refused():
    with pytest.raises(lr.NoExactSolution, match="it needs layers with"):
        loss_matrix([TASK, TASK], lr.Network([[[1.0, 0.2], [0.3, 0.1]], [[0.3, 0.2]]]))
