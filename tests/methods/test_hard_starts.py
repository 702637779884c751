"""Starts that once went wrong: small modes beside large ones, nearly equal singular values, modes that are absent."""

import mpmath as mp
import numpy as np
import pytest
from oracles import integrate, riccati_mp

import lazyrich as lr


def orthonormal(rng, size, columns):
    return np.linalg.qr(rng.normal(size=(size, columns)))[0]


def test_small_modes_that_are_coupled_are_not_called_aligned():
    """Coupling of 0.8 between two modes of strength 1e-13 is nothing beside the first mode, until they grow."""
    W = np.zeros((3, 3))
    W[0, 0], W[1:, 1:] = 1.0, np.linalg.cholesky(1e-13 * np.array([[1, 0.8], [0.8, 1]])).T
    problem = lr.Problem(lr.Task.from_correlations(np.diag([3.0, 2.0, 1.0])), lr.Network([W, W.T]))
    assert problem.facts.method == "riccati" and problem.facts.alignment_error > 0.1
    times = np.linspace(0, 20, 5)
    exact = riccati_mp.gram_float(W, W.T, problem.task.sigma_yx, times, lam=0)
    np.testing.assert_allclose(lr.solve(problem, times).gram, exact, atol=1e-9)


@pytest.mark.parametrize("gap, strength", [(1e-7, 3e-8), (1e-8, 3e-7), (1e-5, 3e-10)])
def test_a_small_mode_just_below_a_large_one_is_learned(gap, strength):
    """Rounding turns the large mode's vector into the small one's, but that part is not new: the large mode has it."""
    s = np.array([1.0, 1 - gap, 0.5])
    W1, W2 = np.zeros((5, 4)), np.zeros((3, 5))
    for i, a in enumerate((0.3, strength, 0.2)):
        W1[i, i] = W2[i, i] = np.sqrt(a)
    sigma_yx = np.hstack([np.diag(s), np.zeros((3, 1))])
    fate = lr.fate(lr.Problem(lr.Task.from_correlations(sigma_yx), lr.Network([W1, W2])))
    assert fate.missed == () and fate.kind == "global minimum"


@pytest.mark.parametrize("gap", [1e-3, 1e-5, 1e-6, 1e-7])
def test_float32_weights_on_nearly_equal_modes(rng, gap):
    """The task is in double precision, so its vectors are: only the weights are coarse."""
    sigma_yx = (orthonormal(rng, 4, 4) * [1, 1 - gap, 0.5, 0.2]) @ orthonormal(rng, 5, 4).T
    start = lr.inits.zero_balanced(0, sizes=(5, 6, 4), scale=0.05).weights
    task = lr.Task.from_correlations(sigma_yx)
    coarse = lr.fate(lr.Problem(task, lr.Network([W.astype(np.float32) for W in start])))
    fine = lr.fate(lr.Problem(task, lr.Network(start)))
    assert coarse.kind == fine.kind == "global minimum"
    assert coarse.separatrix_distance == pytest.approx(fine.separatrix_distance, rel=1e-3)


def test_a_very_weak_mode_that_is_missed_makes_a_saddle():
    networks = (lr.inits.zero_balanced(seed, sizes=(2, 2, 2), scale=0.01) for seed in range(20))
    network = next(net for net in networks if np.linalg.det(net.function) < 0)
    fate = lr.fate(lr.Problem(lr.Task.from_correlations(np.diag([1.0, 1e-7])), network))
    assert (fate.kind, fate.missed, fate.on_separatrix) == ("saddle", (1,), True)


@pytest.mark.parametrize("absent", [0, 1, 2])
def test_weights_at_long_times_with_a_mode_absent(absent):
    c = np.sqrt(0.1) * (np.arange(3) != absent)
    problem = lr.Problem(lr.Task.from_correlations(np.diag([1.0, 0.7, 0.5])), lr.Network([np.diag(c), np.diag(c)]))
    W1, W2 = lr.solve(problem, [0.0, 5.0, 1e6, 1e12], method="riccati").weights
    flow = integrate.weights(problem.network.weights, problem.task.sigma_yx, None, np.array([0.0, 5.0]))
    np.testing.assert_allclose(W1[:2], flow[0], atol=1e-9)
    np.testing.assert_allclose(W2[3] @ W1[3], np.diag([1.0, 0.7, 0.5]) * (c > 0), atol=1e-12)


def test_an_aligned_bottleneck_learns_no_more_modes_than_it_has_units(rng):
    sigma_yx = (orthonormal(rng, 4, 4) * [3, 2, 1, 0.5]) @ orthonormal(rng, 5, 4).T
    task = lr.Task.from_correlations(sigma_yx)
    problem = lr.Problem(task, lr.inits.aligned(rng, task, hidden=2, strengths=0.1))
    end = lr.solve(problem, [1e6])
    assert np.linalg.matrix_rank(end.function[0], tol=1e-9) == 2
    assert lr.fate(problem).learned.tolist() == [True, True, False, False]


def test_a_mode_crosses_the_saddle_close_by_and_the_reader_is_warned():
    """Rounding of the start decides when it leaves: note and certificate say by how much, once it does."""
    problem = lr.Problem(lr.Task.from_correlations([[1.0, 0.0]]), lr.inits.single_neuron([-1.0, 1e-3], delta=0.0))
    assert lr.solve(problem, [10.0]).certificate().exact  # it is still at the saddle
    traj = lr.solve(problem, [16.0])
    assert "close to the separatrix" in traj.notes[0] and traj.solution.separatrix().distance < 1e-6
    exact = riccati_mp.gram(*problem.network.weights, problem.task.sigma_yx, 16.0, lam=0)
    with mp.workdps(40):
        error = mp.norm(mp.matrix(traj.gram[0].tolist()) - exact) / mp.norm(exact)
    assert 1e-12 < error < traj.certificate().doubt
    assert not traj.certificate().exact


def test_perturbing_chooses_the_method_that_can(rng):
    task = lr.tasks.semantic_hierarchy()
    problem = lr.Problem(lr.tasks.reversal(task), lr.inits.prior_knowledge(rng, task, hidden=14))
    assert lr.solve(problem, [1.0]).method == "modes"
    pushed = lr.solve(problem, [0.0, 2000.0], on_separatrix="perturb", perturbation=1e-6)
    assert pushed.method == "riccati" and pushed.loss[-1] < 1e-12
    assert "moved off it" in pushed.notes[0]


@pytest.mark.parametrize("stop", [20.0, 60.0, 100.0])
def test_a_reversal_after_learning_keeps_what_cannot_grow(stop):
    """Rows with w ≤ 0 that lean on the others almost wholly were dropped: start error 3e-8, semigroup 4e-6."""
    task = lr.tasks.random_regression(1, d_in=4, d_out=4, samples=16)
    learned = lr.solve(lr.Problem(task, lr.inits.zero_balanced(0, sizes=(4, 6, 4), scale=0.25)), [stop]).network()
    traj = lr.solve(lr.Problem(lr.tasks.reversal(task), learned), [0.0, 25.0])
    assert traj.certificate().exact, str(traj.certificate())
    resumed, direct = traj.solution.restarted(20.0).gram(np.array([0.0])), traj.solution.gram(np.array([20.0]))
    assert np.linalg.norm(resumed - direct) <= 1e-13 * np.linalg.norm(direct)


def test_a_mode_that_is_not_there_stays_away_under_weight_decay():
    """1/0·0 after the exponential had faded: nan from t = 400 on."""
    W = np.diag([0.1, 0.0])
    problem = lr.Problem(lr.Task.from_correlations(np.diag([2.0, 1.0])), lr.Network([W, W]), weight_decay=0.1)
    loss = lr.solve(problem, [100.0, 200.0, 400.0, 1e3, 1e9]).loss
    assert np.allclose(loss, loss[0], rtol=1e-12)


def test_rounding_left_by_a_reversal_is_no_mode():
    """A one-unit network learned a map of rank 2: what an earlier task had left at 1e-17 grew."""
    task = lr.Task.from_correlations(2 * np.random.default_rng(3).normal(size=(4, 3)))
    start = lr.inits.zero_balanced(3, sizes=(3, 1, 4), scale=0.1)
    run = lr.continual([task, lr.tasks.reversal(task), task], start, [0.0, 30.0])
    end = run.trajectories[2]
    assert np.linalg.matrix_rank(end.function[-1], tol=1e-9) <= 1
    assert np.abs(end.function[-1] - run.network().function).max() < 1e-9


def test_weights_whose_squares_just_exist_are_learned():
    """Below 1e-153 a layer is refused; denormal entries beside larger ones, and zeros, are what they are."""
    task, small = lr.Task.from_correlations([[2.0, 0.0], [0.0, 1.0]]), np.array([[1.2e-153, 5e-324], [0.0, 1.2e-153]])
    found = lr.fate(lr.Problem(task, lr.Network([small, small])))
    expected = (np.log([2.0, 1.0]) - 2 * np.log(1.2e-153)) / [4, 2]  # (1/2s) ln(s/a0 − 1)
    np.testing.assert_allclose(found.half_times, expected, rtol=1e-9)
    zero = lr.fate(lr.Problem(task, lr.Network([np.zeros((2, 2))] * 2)))
    assert zero.missed == (0, 1)


def test_a_learned_network_has_an_exact_certificate():
    task = lr.tasks.semantic_hierarchy()
    traj = lr.solve(lr.Problem(task, lr.inits.prior_knowledge(0, task, hidden=9)), [0.0, 10.0])
    assert traj.certificate().exact, str(traj.certificate())
