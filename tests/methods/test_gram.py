"""The flow through QQᵀ, and through the function alone, against SciPy's integration of all weights."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import lazyrich as lr
from lazyrich.methods.gram import OfFunction, OfGram, OfWeights, best_map, equation_of, steps


def by_weights(problem, times):
    """QQᵀ along the flow of the weights, written out by hand."""
    W1, W2 = problem.network.weights
    (eta1, eta2), gamma, task = problem.rates, problem.weight_decay, problem.task

    def velocity(_, y):
        V1, V2 = y[: W1.size].reshape(W1.shape), y[W1.size :].reshape(W2.shape)
        E = task.sigma_yx - V2 @ V1 @ task.sigma_xx
        return np.concatenate([eta1 * (V2.T @ E - gamma * V1).ravel(), eta2 * (E @ V1.T - gamma * V2).ravel()])

    y0 = np.concatenate([W1.ravel(), W2.ravel()])
    run = solve_ivp(velocity, (0, times[-1]), y0, method="DOP853", rtol=1e-12, atol=1e-15, t_eval=times)
    grams = []
    for y in run.y.T:
        Q = np.concatenate([y[: W1.size].reshape(W1.shape).T, y[W1.size :].reshape(W2.shape)])
        grams.append(Q @ Q.T)
    return np.array(grams)


def gram_of(equation, y):
    """QQᵀ, whatever the equation is of; and the function in it is the one that the equation gives."""
    parts = equation.parts([y])
    if "weights" in parts:
        (W1,), (W2,) = parts["weights"]
        Q = np.concatenate([W1.T, W2])
        gram = Q @ Q.T
    else:
        (gram,) = parts["gram"]
    d_out = equation.function(y).shape[0]
    np.testing.assert_allclose(gram[-d_out:, :-d_out], equation.function(y), atol=1e-12 * np.abs(gram).max())
    return gram


def by_equation(equation, times, rtol=1e-11):
    found = [equation.initial]
    for step in steps(equation, rtol, 10_000):
        while len(found) < len(times) and times[len(found)] <= step.time:
            found.append(step.within(times[len(found)]))
        if len(found) == len(times):
            return np.array([gram_of(equation, y) for y in found])
    raise AssertionError("the equation was not integrated to the end")


def correlated(rng, d_out, d_in, rank=None):
    X = rng.normal(size=(3 * d_in, rank or d_in)) @ rng.normal(size=(rank or d_in, d_in)) / np.sqrt(d_in)
    return lr.Task.from_data(X, rng.normal(size=(len(X), d_out)))


TIMES = np.array([0.0, 0.05, 0.3, 1.0, 3.0])


@pytest.mark.parametrize("seed", range(12))
def test_any_initialisation_inputs_rates_and_decay(seed):
    rng = np.random.default_rng([1, seed])
    d_in, h, d_out = (int(size) for size in rng.integers(1, 8, size=3))
    task = correlated(rng, d_out, d_in, rank=max(1, d_in - seed % 3))
    problem = lr.Problem(
        task,
        lr.inits.gaussian(rng, sizes=(d_in, h, d_out), scale=float(10 ** rng.uniform(-2, 0))),
        rates=(1.0, 0.3) if seed % 2 else None,
        weight_decay=0.1 if seed % 4 == 3 else 0.0,
    )
    truth = by_weights(problem, TIMES)
    for equation in (OfGram(problem), OfWeights(problem)):
        np.testing.assert_allclose(by_equation(equation, TIMES), truth, rtol=0, atol=1e-9 * np.abs(truth).max())


@pytest.mark.parametrize("seed", range(12))
def test_on_the_family_the_function_is_enough(seed):
    """Correlated inputs, layer rates, both ends of δ, and zero balance: P and R come out of A."""
    rng = np.random.default_rng([2, seed])
    d_in, d_out = (int(size) for size in rng.integers(1, 6, size=2))
    sizes = (d_in, d_in + d_out + 2, d_out)
    if seed % 3 == 0:
        network = lr.inits.zero_balanced(rng, sizes=sizes, scale=0.4)
    else:
        scales = (0.0, 0.7) if seed % 3 == 1 else (0.5, 0.2)
        network = lr.inits.orthogonal(rng, sizes=sizes, scales=scales)
    rates = (1.0, 0.4) if seed % 2 else (1.0, 1.0)
    layers = [W / np.sqrt(rate) for W, rate in zip(network.weights, rates[::-1], strict=True)]
    problem = lr.Problem(correlated(rng, d_out, d_in), lr.Network(layers), rates=rates)
    assert isinstance(equation_of(problem), OfFunction)
    truth = by_weights(problem, TIMES)
    np.testing.assert_allclose(by_equation(OfFunction(problem), TIMES), truth, rtol=0, atol=1e-9 * np.abs(truth).max())


def test_the_function_alone_is_not_enough_elsewhere(rng):
    """Next to the family, or with weight decay, the smaller equation is not taken; and taken, it would be wrong."""
    task, network = correlated(rng, 2, 3), lr.inits.orthogonal(0, sizes=(3, 7, 2), scales=(0.5, 0.2))
    W1, W2 = network.weights
    off = lr.Problem(task, lr.Network([W1 + 0.1 * rng.normal(size=W1.shape), W2]))
    for other in (off, lr.Problem(task, network, weight_decay=0.1)):
        assert isinstance(equation_of(other), OfGram)
    truth = by_weights(off, TIMES)
    assert np.abs(by_equation(OfFunction(off), TIMES) - truth).max() > 1e-3 * np.abs(truth).max()


def test_a_narrow_network_is_followed_by_its_weights(rng):
    """In the hidden basis it was given in."""
    problem = lr.Problem(correlated(rng, 4, 9), lr.inits.gaussian(rng, sizes=(9, 3, 4), scale=0.3))
    equation = equation_of(problem)
    assert isinstance(equation, OfWeights)
    for (W,), given in zip(equation.parts([equation.initial])["weights"], problem.network.weights, strict=True):
        np.testing.assert_allclose(W, given, atol=1e-15)


def test_weak_modes_keep_their_digits(rng):
    """A mode at 1e-10 beside one that is learned: its strength is right to seven digits, relative to itself."""
    U, V = (np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(2))
    task = lr.Task.from_correlations(U @ np.diag([3.0, 1.0, 0.1]) @ V.T)
    network = lr.inits.aligned(0, task, hidden=5, strengths=1e-10)
    problem, times = lr.Problem(task, network), np.array([0.0, 5.0, 10.0])
    exact = lr.observables.mode_strengths(lr.solve(problem, times))
    grams = by_equation(OfGram(problem), times, rtol=1e-10)
    found = np.sum(U * (grams[:, 3:, :3] @ V), axis=1)
    np.testing.assert_allclose(found, exact, rtol=1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_small_weights_keep_their_digits_beside_large_ones(seed):
    """Zero-balanced at 1e-6 or 1e-8 on correlated inputs, narrow or wide: the roots of the function space would have
    none left of the last modes when the first are learned."""
    rng = np.random.default_rng([3, seed])
    network = lr.inits.zero_balanced(rng, sizes=(6, (8, 30)[seed % 2], 4), scale=(1e-6, 1e-8)[seed // 3])
    X = rng.normal(size=(50, 6)) * [1.0, 0.8, 0.6, 1.3, 0.5, 2.0]
    problem = lr.Problem(lr.Task.from_data(X, X @ rng.normal(size=(6, 4))), network)
    found = lr.predict(problem)
    assert found.method == ("flow", "gram")[seed % 2]
    times = found.trajectory.times
    truth = by_weights(problem, times)[:, 6:, :6]
    assert found.error < 1e-4
    assert np.abs(found.trajectory.loss - problem.task.loss(truth)).max() <= found.error * found.trajectory.loss.max()
    assert np.abs(found.trajectory.function - truth).max() <= 2 * found.error * np.abs(truth).max()


def test_a_bottleneck_is_at_rest_in_the_best_map_of_its_rank(rng):
    problem = lr.Problem(correlated(rng, 5, 6), lr.inits.gaussian(rng, sizes=(6, 2, 5), scale=0.3))
    equation, end = equation_of(problem), best_map(problem)
    least = problem.task.loss(end)
    for _ in range(20):  # no map of rank two is better
        other = end + 1e-3 * rng.normal(size=(5, 2)) @ rng.normal(size=(2, 6))
        U, s, Vt = np.linalg.svd(other)
        assert problem.task.loss((U[:, :2] * s[:2]) @ Vt[:2]) > least
    for step in steps(equation, 1e-9, 40_000):
        if equation.at_rest(step.state, 1e-9):
            break
    else:
        raise AssertionError("it never came to rest")
    np.testing.assert_allclose(equation.function(step.state), end, atol=1e-8 * np.abs(end).max())
    assert np.abs(equation.velocity(0.0, step.state)).max() < 1e-7


@pytest.mark.long
def test_an_obstructed_network_never_learns_the_mode_it_misses():
    """Square, zero-balanced, correlated inputs, det of the wrong sign: it rests in the saddle, or the run ends where an
    integration would lead it past a determinant of 0. None of both may show the loss of the minimum."""
    rested = stopped = 0
    for seed in range(20):
        rng = np.random.default_rng([4, seed])
        network = lr.inits.zero_balanced(rng, sizes=(3, 4, 3), scale=0.1)
        X = rng.normal(size=(50, 3)) * [1.0, 0.8, 1.3]
        problem = lr.Problem(lr.Task.from_data(X, X @ rng.normal(size=(3, 3))), network)
        if not problem.facts.determinant_obstruction:
            continue
        found = lr.predict(problem, np.linspace(0.0, 1000.0, 11))
        sign = np.sign(np.linalg.det(found.trajectory.function))
        assert (sign == sign[0]).all()
        floor = problem.task.loss(best_map(problem))
        assert (found.trajectory.loss >= floor * (1 - 1e-6)).all()
        if found.trajectory.times[-1] == 1000.0:
            rested += 1
        else:
            stopped += 1
            assert "sign" in str(found)
    assert rested
    assert stopped


@pytest.mark.parametrize("width", [2, 3, 8, 33])
def test_units_that_are_alike_stay_alike(width):
    """Constant weights have rank one for ever, narrow or wide, near-degenerate modes and correlated inputs or not."""
    network = lr.Network([np.full((width, 2), 0.1), np.full((2, width), 0.1)])
    task = lr.Task.from_correlations([[1.0, 0.0], [0.1, 0.95]], [[1.0, 0.1], [0.1, 1.05]])
    problem = lr.Problem(task, network)
    found = lr.predict(problem, [0.0, 3.0, 1000.0])
    assert np.linalg.svd(found.trajectory.function)[1][:, 1].max() < 1e-12
    np.testing.assert_allclose(found.trajectory.function[-1], best_map(problem), atol=1e-6)
    alike = lr.Network([np.full((1, 2), 0.1 * np.sqrt(width)), np.full((2, 1), 0.1 * np.sqrt(width))])
    alone = by_weights(lr.Problem(task, alike), np.array([0.0, 3.0]))[-1]
    np.testing.assert_allclose(found.trajectory.function[1], alone[2:, :2], atol=1e-7)


@pytest.mark.parametrize("size", [1e-8, 1e-17])
def test_a_unit_counts_however_small_it_is(size):
    """Beside one of 0.3, and it learns the second mode in the end."""
    W1, W2 = np.array([[0.3, 0.2], [size, 2 * size]]), np.array([[0.3, -size], [0.1, 2 * size]])
    task = lr.Task.from_correlations(np.diag([2.0, 1.0]), np.diag([1.0, 2.0]))
    found = lr.predict(lr.Problem(task, lr.Network([W1, W2])), [0.0, 1000.0])
    np.testing.assert_allclose(found.trajectory.function[-1], np.diag([2.0, 0.5]), atol=1e-6)
    assert found.error < 1e-4 and found.half_times[1] > 10


def test_the_weights_come_in_the_given_basis_where_some_units_do_nothing(rng):
    W1, W2 = rng.normal(size=(5, 4)), rng.normal(size=(3, 5))
    W1[1], W2[:, 1], W1[4], W2[:, 4] = 0.0, 0.0, W1[0], W2[:, 0]
    problem = lr.Problem(correlated(rng, 3, 4), lr.Network([W1, W2]))
    found = lr.predict(problem, TIMES)
    for W, given in zip(found.trajectory.weights, (W1, W2), strict=True):
        np.testing.assert_allclose(W[0], given, atol=1e-14)
    truth = by_weights(problem, TIMES)
    np.testing.assert_allclose(found.trajectory.gram, truth, atol=1e-7 * np.abs(truth).max())


def test_the_error_holds_for_times_long_after_all_has_been_seen():
    """With weight decay nothing comes to rest, and steps are as long as stability lets them be."""
    rng = np.random.default_rng(5)
    for _ in range(4):
        network = lr.inits.gaussian(rng, sizes=(4, 2, 2), scale=6e-4)
        problem, times = (
            lr.Problem(correlated(rng, 2, 4), network, weight_decay=0.16),
            np.array([0.0, 19.0, 38.0, 100.0]),
        )
        found, truth = lr.predict(problem, times), by_weights(problem, times)
        off = found.strengths - np.sum(found.frames.u * (truth[:, 4:, :4] @ found.frames.v), axis=1)
        largest = np.abs(found.strengths_of(found.course)).max()
        assert np.abs(off).max() <= found.error * max(largest, np.abs(found.strengths).max())


def apart(case, width, rng):
    """Networks that fall into parts: some modes without weights, or units with modes of their own."""
    W1, W2 = 0.1 * rng.normal(size=(width, 3)), 0.1 * rng.normal(size=(3, width))
    S, X = np.diag([3.0, 2.0, 1.0]), np.eye(3)
    if case == "units":  # the first unit has modes 1 and 2, the others mode 3
        W1[0, 2] = W2[2, 0] = 0.0
        W1[1:, :2] = W2[:2, 1:] = 0.0
        W1[1:, 2], W2[2, 1:] = np.abs(W1[1:, 2]), np.abs(W2[2, 1:])  # a part of one mode keeps its sign
    else:
        W1[:, 0] = W2[0] = 0.0
    if case == "equal":
        S[1, 1] = 3.0
    if case != "units":
        X[1:, 1:] += 0.5 if case == "correlated" else 0.0
    if case == "joined":  # by inputs that are correlated with the first
        X[0, 1] = X[1, 0] = 0.5
    return lr.Problem(lr.Task.from_correlations(S, X), lr.Network([W1, W2]))


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("case", ["zero rows", "equal", "correlated", "joined", "units"])
def test_parts_that_never_meet_end_each_by_itself(case, width):
    problem = apart(case, width, np.random.default_rng(2))
    gram = by_weights(problem, np.array([0.0, 300.0]))[-1]
    np.testing.assert_allclose(best_map(problem), gram[3:, :3], atol=1e-6)
    found = lr.predict(problem, [0.0, 1.0, 10.0, 100.0])
    assert found.limit_known
    np.testing.assert_allclose(found.limit, np.sum(found.frames.u * (gram[3:, :3] @ found.frames.v), axis=0), atol=1e-6)
    if case in ("zero rows", "units"):
        assert np.abs(found.limit - [0, 2, 1] if case == "zero rows" else found.limit - [3, 0, 1]).max() < 1e-6


def test_where_rounding_decides_which_parts_there_are_nothing_is_claimed(rng):
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    straight = apart("zero rows", 2, rng)
    W1, W2 = straight.network.weights
    S = turn @ straight.task.sigma_yx @ turn.T
    turned = lr.Problem(lr.Task.from_correlations(S), lr.Network([W1 @ turn.T, turn @ W2]))
    assert best_map(turned) is None


def test_a_part_that_may_keep_the_wrong_sign_is_not_claimed(rng):
    """Two parts, each with a negative determinant: that of all is positive."""
    W1 = 0.1 * np.eye(4) + 0.02 * np.kron(np.eye(2), rng.normal(size=(2, 2)))
    W2 = W1.T * np.array([1.0, -1.0, 1.0, -1.0])[:, None]
    W1[0, 0] += 0.01
    problem = lr.Problem(lr.Task.from_correlations(np.diag([4.0, 3.0, 2.0, 1.0])), lr.Network([W1, W2]))
    assert np.linalg.det(W2 @ W1) > 0
    assert best_map(problem) is None


@pytest.mark.parametrize("eps", [1e-3, 1e-6, 3e-8, 5e-9, 1e-10])
def test_the_error_holds_where_all_but_nothing_is_left_to_learn(eps):
    """Against the flow of what the weights lack, which keeps its digits however little that is."""
    rng = np.random.default_rng(1)
    S = rng.normal(size=(3, 4))
    U, s, Vt = np.linalg.svd(S, full_matrices=False)
    W1 = np.vstack([np.sqrt(s)[:, None] * Vt, np.zeros((2, 4))])
    W2 = np.hstack([U * np.sqrt(s), np.zeros((3, 2))])
    off, times = rng.normal(size=W1.shape), np.array([0.0, 0.01, 0.1, 0.3, 1.0, 3.0, 10.0])

    def missing(y):
        first, second = y[: W1.size].reshape(W1.shape), y[W1.size :].reshape(W2.shape)
        return first, second, W2 @ first + second @ W1 + eps * second @ first

    def velocity(_, y):
        first, second, E = missing(y)
        return -np.concatenate([((W2 + eps * second).T @ E).ravel(), (E @ (W1 + eps * first).T).ravel()])

    y0 = np.concatenate([off.ravel(), np.zeros(W2.size)])
    run = solve_ivp(velocity, (0, 10), y0, method="DOP853", rtol=1e-11, atol=1e-13, t_eval=times)
    loss = np.array([eps**2 * np.sum(missing(y)[2] ** 2) / 2 for y in run.y.T])
    found = lr.predict(lr.Problem(lr.Task.from_correlations(S), lr.Network([W1 + eps * off, W2])), times)
    assert np.abs(found.trajectory.loss - loss).max() <= found.error * loss.max()
    assert found.error <= 1.0


@pytest.mark.parametrize("seed", [14, 36])
def test_between_long_steps_modes_at_rest_stay_at_rest(seed):
    """Steps at the limit of stability damp what is at rest at their ends; between them dense output did not, and was
    off by 4e-4."""
    task = lr.Task.from_correlations(3 * np.random.default_rng(seed).normal(size=(4, 4)))
    problem = lr.Problem(task, lr.inits.gaussian(seed, sizes=(4, 5, 4), scale=5e-4))
    found = lr.predict(problem).trajectory

    def slope(_, y):
        W1, W2 = y[:20].reshape(5, 4), y[20:].reshape(4, 5)
        E = task.sigma_yx - W2 @ W1
        return np.concatenate([(W2.T @ E).ravel(), (E @ W1.T).ravel()])

    start = np.concatenate([W.ravel() for W in problem.network.weights])
    oracle = solve_ivp(slope, (0, found.times[-1]), start, "LSODA", found.times, rtol=1e-11, atol=1e-15).y.T
    truth = np.array([y[20:].reshape(4, 5) @ y[:20].reshape(5, 4) for y in oracle])
    assert np.abs(found.function - truth).max() < 2e-7 * np.abs(truth).max()
