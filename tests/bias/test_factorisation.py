"""Matrix factorisation: the flow against scipy, where it ends against the theory, and what depth prefers.

Oracles are written out by hand: the factor ODE with every A_m as a matrix, the scalar ODE of commuting measurements,
its mirror-flow end as the root of one equation, linear programmes, and vertices by enumeration.
"""

from __future__ import annotations

import itertools
import sys
from functools import reduce

import numpy as np
import pytest
from problems import SEEDS
from scipy.integrate import quad, solve_ivp
from scipy.linalg import null_space
from scipy.optimize import brentq, linprog

import lazyrich as lr
from lazyrich._check import InvalidInput
from lazyrich.bias.depths import compare_depths, rank_growth
from lazyrich.bias.factorisation import Factorisation, factorise, schatten, small_init
from lazyrich.bias.measurements import (
    commuting_measurements,
    completion,
    least_nuclear_norm,
    li_luo_lyu,
    random_completion,
    razin_cohen,
    sensing,
)
from lazyrich.observables.representations import effective_rank_of


def chain(layers):
    """W_L … W_1 of a list that may be empty."""
    return reduce(lambda product, W: W @ product, layers)


def scipy_flow(layers, A, y, times):
    """The factor ODE, Ẇ_ℓ = −(W_L…W_{ℓ+1})ᵀ [Σ_m (⟨A_m, W⟩ − y_m) A_m] (W_{ℓ−1}…W_1)ᵀ, A_m one by one."""
    shapes = [W.shape for W in layers]
    cuts = np.cumsum([np.prod(shape) for shape in shapes])[:-1]

    def unpack(z):
        return [part.reshape(shape) for part, shape in zip(np.split(z, cuts), shapes, strict=True)]

    def velocity(_, z):
        Ws = unpack(z)
        W = chain(Ws)
        G = np.einsum("m,moi->oi", np.einsum("moi,oi->m", A, W) - y, A)
        slopes = []
        for i in range(len(Ws)):
            above = chain([np.eye(Ws[i].shape[0]), *Ws[i + 1 :]])
            below = chain([np.eye(Ws[0].shape[1]), *Ws[:i]])
            slopes.append(-(above.T @ G @ below.T).ravel())
        return np.concatenate(slopes)

    z, states, now = np.concatenate([W.ravel() for W in layers]), [], 0.0
    for t in times:  # restarted at every time: no value comes from interpolation
        if t > now:
            z = solve_ivp(velocity, (now, t), z, method="DOP853", rtol=1e-13, atol=1e-16).y[:, -1]
            now = t
        states.append(chain(unpack(z)))
    return np.array(states)


def one_by_one(mask):
    """A_m of a mask, in the order of its entries."""
    matrices = []
    for i, j in np.argwhere(mask):
        E = np.zeros(mask.shape)
        E[i, j] = 1
        matrices.append(E)
    return np.array(matrices)


def relative(value, truth):
    return np.abs(value - truth).max() / np.abs(truth).max()


# The flow


@pytest.mark.compiles
def test_flow_follows_the_factor_equation():
    """50 problems: entries and general measurements, balanced and unbalanced starts."""
    times, worst = [0.0, 0.2, 1.0], 0.0
    for seed in SEEDS:
        rng = np.random.default_rng((3, seed))
        truth, depth = rng.normal(size=(3, 4)), (2, 3, 2)[seed % 3]
        if seed % 3:
            mask = rng.permutation(12).reshape(3, 4) < 7
            problem, A = completion(truth, mask), one_by_one(mask)
        else:
            A = rng.normal(size=(7, 3, 4))
            problem = sensing(A, truth=truth)
        if seed % 2:
            start = small_init((3, 4), depth=depth, epsilon=0.3, rng=rng)
        else:
            start = lr.inits.gaussian(rng, sizes=(4, *[3] * (depth - 1), 3), scale=0.5)
        y = [np.sum(A_m * truth) for A_m in A]
        expected = scipy_flow(start.weights, A, y, times)
        run = factorise(problem, start, times, rtol=1e-13)
        assert run.status == "complete"
        assert np.array_equal(run.times, times)
        worst = max(worst, relative(run.W, expected))
    assert worst < 1e-10, worst


@pytest.mark.compiles
def test_balance_is_conserved_to_the_end():
    problem = random_completion(0, (3, 4), [2.0, 1.0], observed=9)
    for start in (
        small_init((3, 4), depth=3, epsilon=1e-2),
        lr.inits.gaussian(2, sizes=(4, 3, 3, 3), scale=0.4),
    ):
        run = factorise(problem, start, rtol=1e-12, tolerance=1e-12)
        assert run.status == "converged"
        for (before, after), (W, next_W) in zip(
            itertools.pairwise(start.weights), itertools.pairwise(run.network.weights), strict=True
        ):
            drift = (next_W.T @ next_W - W @ W.T) - (after.T @ after - before @ before.T)
            assert np.abs(drift).max() < 1e-10
        assert relative(run.W[-1], chain(run.network.weights)) < 1e-14


def test_without_times_it_runs_until_the_loss_is_small():
    problem = completion(np.diag([2.0, 1.0]))
    run = factorise(problem, small_init((2, 2), depth=2, epsilon=1e-3), tolerance=1e-14)
    assert run.status == "converged"
    assert run.loss[-1] < 1e-14 * 2.5
    assert run.loss[-2] > 1e-14 * 2.5  # the first step below it, not some later one
    assert run.times[0] == 0 and np.all(np.diff(run.times) > 0)
    moved = np.linalg.norm(np.diff(run.W, axis=0), axis=(1, 2)) / np.linalg.norm(run.W[1:], axis=(1, 2))
    assert moved.max() < 0.2  # as far as one step goes
    a = 1 / (1 + (2 / 1e-3 - 1) * np.exp(-4 * run.times)) * 2
    assert relative(run.singular_values[:, 0], a) < 1e-7


def test_depth_one_never_moves_what_it_does_not_see():
    problem = random_completion(1, (3, 4), [3.0], observed=5)
    start = small_init((3, 4), depth=1, epsilon=0.1, rng=3)
    run = factorise(problem, start, [0.0, 1.0, 30.0])
    hidden = problem.A == 0
    assert np.array_equal(run.W[-1][hidden], start.function[hidden])
    decay = np.exp(-run.times)[:, None]
    seen = problem.truth[~hidden] + decay * (start.function - problem.truth)[~hidden]
    assert relative(run.W[:, ~hidden], seen) < 1e-8


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_tiny_and_huge_matrices_are_the_same_flow(scale):
    """W → cW with y → cy, ε → cε and t → t c^{−(2−2/L)}."""
    rng = np.random.default_rng(8)
    truth, mask = rng.normal(size=(3, 4)), rng.permutation(12).reshape(3, 4) < 8
    times = np.array([0.0, 0.3, 3.0])
    plain = factorise(completion(truth, mask), small_init((3, 4), depth=3, epsilon=1e-2, rng=5), times)
    scaled_times = times * scale ** -(2 - 2 / 3)
    scaled = completion(scale * truth, mask)
    run = factorise(scaled, small_init((3, 4), depth=3, epsilon=scale * 1e-2, rng=5), scaled_times)
    assert relative(run.W / scale, plain.W) < 1e-7


@pytest.mark.compiles
def test_small_shapes_equal_values_and_zero_rows():
    one = factorise(completion([[2.0]]), small_init((1, 1), depth=2, epsilon=1e-2))
    assert one.status == "converged" and abs(one.W[-1, 0, 0] - 2) < 1e-4
    equal = factorise(completion(np.diag([2.0, 2.0, 0.0])), small_init((3, 3), depth=3, epsilon=1e-4))
    assert np.all(equal.singular_values[:, 0] == equal.singular_values[:, 1])  # modes that do not interact never do
    assert abs(equal.effective_rank[-1] - 2) < 1e-2


def test_what_stops_a_flow_is_said():
    problem = completion(np.eye(2))
    still = factorise(problem, lr.Network([np.zeros((2, 2))] * 2))
    assert still.status == "stands still at loss 1: try an initialisation that is not zero"
    short = factorise(razin_cohen(), small_init((2, 2), depth=2, epsilon=1e-2), max_steps=600)
    assert short.status.startswith("stopped at t = ") and short.status.endswith("try a larger max_steps")
    assert np.array_equal(short.W[-1], chain(short.network.weights))
    partial = factorise(razin_cohen(), small_init((2, 2), depth=2, epsilon=1e-2), [0.0, 1.0, 1e9], max_steps=600)
    assert list(partial.times) == [0.0, 1.0] and partial.status.startswith("stopped")


@pytest.mark.compiles
def test_contradicting_measurements_end_at_the_least_loss():
    """⟨I, W⟩ = 1 and = 2: W = 0.75 I is best, with loss ¼; and with ±1 nothing is better than W = 0."""
    start = small_init((2, 2), depth=2, epsilon=1e-3)
    run = factorise(sensing([np.eye(2)] * 2, [1.0, 2.0]), start)
    assert run.status == "converged to loss 0.25, the least there is: the measurements contradict each other"
    assert abs(run.loss[-1] - 0.25) <= 1e-10 * 2.5 and np.abs(run.W[-1] - 0.75 * np.eye(2)).max() <= 1e-5
    nothing = factorise(sensing([np.eye(2)] * 2, [1.0, -1.0]), start)
    assert nothing.status.startswith("converged to loss 1, the least there is")
    for seed in range(20):
        rng = np.random.default_rng((9, seed))
        A, y = rng.normal(size=(9, 2, 3)) * 10 ** rng.uniform(-3, 3, size=(9, 1, 1)), rng.normal(size=9)
        rows = A.reshape(9, 6)
        U = np.linalg.svd(rows)[0]
        assert sensing(A, y).least_loss == pytest.approx(np.sum((U[:, 6:].T @ y) ** 2) / 2, rel=1e-10)
        assert sensing(A[:6], y[:6]).least_loss <= 1e-20 * np.sum(y**2)


# What is read off a run


def test_observables_against_sums_written_out():
    for seed in SEEDS:
        rng = np.random.default_rng((4, seed))
        truth, W = rng.normal(size=(4, 3)), rng.normal(size=(2, 4, 3)) * 10 ** rng.uniform(-8, 8)
        mask = rng.permutation(12).reshape(4, 3) < rng.integers(1, 12)
        A = rng.normal(size=(rng.integers(1, 15), 4, 3))
        A[-1] = A[0]  # dependent measurements see nothing new
        for problem, matrices in ((completion(truth, mask), one_by_one(mask)), (sensing(A, truth=truth), A)):
            run = Factorisation(problem, np.arange(2.0), W, small_init((4, 3), depth=1, epsilon=1), "complete")
            hidden = null_space(matrices.reshape(len(matrices), -1))
            for t in range(2):
                loss = sum((np.sum(A_m * W[t]) - np.sum(A_m * truth)) ** 2 for A_m in matrices) / 2
                assert abs(run.loss[t] - loss) < 1e-10 * loss
                error = np.linalg.norm(hidden.T @ (W[t] - truth).ravel()) / np.sqrt(max(hidden.shape[1], 1))
                assert abs(run.test_error[t] - error) <= 1e-10 * error
                s = np.sqrt(np.linalg.eigvalsh(W[t].T @ W[t])[::-1])
                p = s / s.sum()
                assert abs(run.effective_rank[t] - np.prod(p**-p)) < 1e-10 * 3
                assert abs(run.nuclear_norm[t] - s.sum()) < 1e-10 * s.sum()
                assert abs(run.schatten(2 / 3)[t] - sum(s_i ** (2 / 3) for s_i in s) ** 1.5) < 1e-10 * s.sum()


def test_norms_and_ranks_of_degenerate_matrices():
    s = np.array([[0.0, 0.0], [3.0, 0.0], [1e-200, 1e-200], [1e200, 1e200]])
    assert np.array_equal(effective_rank_of(s).round(12), [0, 1, 2, 2])
    assert schatten(s, 0.5)[:2].tolist() == [0, 3]
    assert np.allclose(schatten(s, 0.5)[2:] / [1e-200, 1e200], 4, rtol=1e-13)
    assert schatten(s, 2.0)[3] == pytest.approx(np.sqrt(2) * 1e200, rel=1e-14)
    assert schatten([1.0, 2.0], 1) == 3 and schatten([[3.0, 4.0]], 2).tolist() == [5.0]


def test_test_error_without_truth_or_hidden_entries():
    assert np.isnan(razin_cohen().test_error(np.zeros((3, 2, 2)))).all()
    assert completion(np.eye(2)).test_error(np.ones((2, 2))) == 0


@pytest.mark.compiles
def test_rank_growth_against_the_exact_times():
    """All entries seen, aligned start: ȧ = L a^{2−2/L}(s − a) has its passage times as integrals."""
    s, epsilon = np.array([3.0, 2.0, 1.0]), 1e-4
    for L in (2, 3):
        run = factorise(completion(np.diag(s)), small_init((3, 3), depth=L, epsilon=epsilon), tolerance=1e-12)
        growth = rank_growth(run)
        for share, found in ((0.1, growth.begun), (0.5, growth.half), (0.9, growth.done)):
            for s_i, t in zip(s, found, strict=True):
                a = share * s_i
                time_per_log = lambda u, s_i=s_i, L=L: np.exp(u * (2 / L - 1)) / L / (s_i - np.exp(u))
                exact, _ = quad(time_per_log, np.log(epsilon), np.log(a), epsrel=1e-12)
                after = int(np.searchsorted(run.times, t))
                x = s_i * np.linspace(*run.singular_values[[after - 1, after], list(s).index(s_i)] / s_i, 50)
                speed = L * x ** (2 - 2 / L) * (s_i - x)
                bend = L * speed * ((2 - 2 / L) * x ** (1 - 2 / L) * (s_i - x) - x ** (2 - 2 / L))
                missed = (run.times[after] - run.times[after - 1]) ** 2 / 8 * np.abs(bend).max() / speed.min()
                assert abs(t - exact) < missed + 1e-7  # what a straight line between two records may miss
        rises = np.array([growth.begun, growth.done])
        assert growth.plateau[0] == pytest.approx(rises[0, 0] / rises[1, 0], rel=1e-14)
        pauses = (rises[0, 1:] - rises[1, :-1]) / (rises[1, 1:] - rises[0, :-1])
        assert np.allclose(growth.plateau[1:], pauses, rtol=1e-13)
    dense = [np.linspace(0, 20, n) for n in (401, 801, 1601)]
    start = small_init((3, 3), depth=2, epsilon=epsilon)
    exact = np.log(s / epsilon - 1) / 2 / s
    errors = [np.abs(rank_growth(factorise(completion(np.diag(s)), start, t)).half - exact).max() for t in dense]
    assert errors[2] < errors[0] / 8  # second order would be 16


@pytest.mark.compiles
@pytest.mark.filterwarnings("error")
def test_rank_growth_of_a_run_that_starts_at_its_end():
    problem = completion(np.diag([2.0, 1.0]))
    growth = rank_growth(factorise(problem, lr.Network([np.diag([2.0, 1.0])])))
    assert not np.any(growth[:3]) and np.isnan(growth.plateau).all()
    half_done = factorise(problem, lr.Network([np.diag([2.0, 0.01])]))  # a rise after one that took no time
    assert rank_growth(half_done).half[0] == 0 and np.isfinite(rank_growth(half_done).plateau[1])


# Where it ends: commuting measurements

A_COMMUTING = np.array([[1, 0, 1 / 2.4], [0, 1, 0.8 / 2.4]])
Y_COMMUTING = np.array([1, 0.8])


def diagonal_end(L, epsilon):
    """x_3 at the end of the diagonal flow: φ'(x) − φ'(ε) lies in the span of the measurements."""
    q = 2 / L - 1
    slope = np.log if L == 2 else lambda x: -(x**q)  # φ' up to a factor; it grows with x

    def mismatch(log_x3):
        x3 = np.exp(log_x3)
        pull = slope(Y_COMMUTING * (1 - x3 / 2.4)) - slope(epsilon)
        return slope(x3) - slope(epsilon) - A_COMMUTING[:, 2] @ pull

    return np.exp(brentq(mismatch, np.log(epsilon), np.log(2.3), xtol=1e-14, rtol=1e-14))


@pytest.mark.compiles
def test_commuting_flow_is_a_diagonal_network():
    for L in (2, 3, 4):
        rate = lambda _, x, L=L: L * x ** (2 - 2 / L) * (A_COMMUTING.T @ (Y_COMMUTING - A_COMMUTING @ x))
        times = [0.0, 2.0, 6.0, 20.0]
        run = factorise(commuting_measurements(), small_init((3, 3), depth=L, epsilon=1e-2), times, rtol=1e-13)
        assert np.array_equal(run.W, run.W * np.eye(3))  # exactly diagonal
        steps = [
            solve_ivp(rate, (0, t), np.full(3, 1e-2), "DOP853", rtol=1e-13, atol=1e-16).y[:, -1] for t in times[1:]
        ]
        assert relative(np.diagonal(run.W[1:], axis1=1, axis2=2), np.array(steps)) < 1e-10


@pytest.mark.compiles
def test_commuting_flow_ends_in_the_least_nuclear_norm_at_every_depth():
    """Its distance from the ℓ1 minimiser falls like ε^{1/4} at depth 2 and like ε at depths 3 and 4."""
    programme = linprog(np.ones(3), A_eq=A_COMMUTING, b_eq=Y_COMMUTING, method="highs")
    assert np.allclose(programme.x, [1, 0.8, 0], atol=1e-12)
    epsilons = np.array([1e-2, 1e-4, 1e-6, 1e-8])
    for L, power, factor in ((2, 1 / 4, 0.8 ** (1 / 3)), (3, 1.0, 64.0), (4, 1.0, 16.0)):
        distances = []
        for epsilon in epsilons:
            start = small_init((3, 3), depth=L, epsilon=float(epsilon))
            run = factorise(commuting_measurements(), start, tolerance=1e-20, rtol=1e-12)
            assert run.status == "converged"
            assert run.W[-1, 2, 2] == pytest.approx(diagonal_end(L, epsilon), rel=1e-8)
            distances.append(np.abs(np.diag(run.W[-1]) - programme.x).max())
        slopes = np.diff(np.log(distances)) / np.diff(np.log(epsilons))
        assert np.all(np.diff(np.abs(slopes - power)) < 0)  # ever closer to the predicted power
        assert abs(slopes[-1] - power) < 0.02
        far = diagonal_end(L, 1e-15) / (factor * 1e-15**power)
        assert far == pytest.approx(1, abs=2e-4)  # and with the factor that the docstring names


@pytest.mark.compiles
def test_commuting_flow_does_not_end_in_the_least_schatten_quasi_norm():
    problem = commuting_measurements()
    for L in (3, 4):
        p = 2 / L
        vertices = []  # Σx^p is concave: least at a vertex of {x ≥ 0, Ax = y}
        for columns in itertools.combinations(range(3), 2):
            x = np.zeros(3)
            x[list(columns)] = np.linalg.solve(A_COMMUTING[:, columns], Y_COMMUTING)
            if x.min() > -1e-12:
                vertices.append(np.maximum(x, 0))
        least = min(vertices, key=lambda x: np.sum(x**p))
        assert np.allclose(least, [0, 0, 2.4], atol=1e-12)
        run = factorise(problem, small_init((3, 3), depth=L, epsilon=1e-8))
        assert run.test_error[-1] > 1
        assert run.schatten(p)[-1] > 1.05 * np.sum(least**p) ** (1 / p)
        v = np.sqrt([1, 0.8, 0])
        assert problem.loss(np.outer(v, v)) < 1e-30  # of rank one, least in every Schatten norm with p ≤ 1
        assert run.effective_rank[-1] > 1.9


@pytest.mark.compiles
def test_off_the_diagonal_depth_three_prefers_rank_one():
    """The diagonal flow is unstable from depth 3 on; at depth 2 it is neutral, and the start decides."""
    for seed in range(3):
        for L in (2, 3, 4):
            run = factorise(commuting_measurements(), small_init((3, 3), depth=L, epsilon=1e-6, rng=seed))
            assert run.status == "converged"
            assert abs(run.nuclear_norm[-1] - 1.8) < 0.05
            assert (run.effective_rank[-1] < 1.01) if L > 2 else (run.effective_rank[-1] > 1.1)


# Where it ends: rank against norms


@pytest.mark.compiles
def test_li_luo_lyu_ends_in_the_least_rank_not_the_least_norm():
    for R in (1.5, 2.0, 3.0):
        problem = li_luo_lyu(R)
        least = least_nuclear_norm(problem)
        assert least.norm == pytest.approx(4 * R, rel=1e-7)
        for L in (2, 3):
            starts = (1e-4, 1e-12) if L == 2 else (1e-3, 1e-5)
            ends = [factorise(problem, small_init((4, 4), depth=L, epsilon=epsilon)) for epsilon in starts]
            errors, ranks = [run.test_error[-1] for run in ends], [run.effective_rank[-1] for run in ends]
            assert errors[1] < errors[0] / 3 and ranks[1] < ranks[0]
            assert ends[1].nuclear_norm[-1] > 1.05 * least.norm
            if L > 2:
                assert errors[1] < errors[0] / 10 and ranks[1] - 1 < (ranks[0] - 1) / 10
                assert ends[1].nuclear_norm[-1] == pytest.approx(2 + 2 * R**2, rel=1e-2)


@pytest.mark.compiles
def test_razin_cohen_drives_every_norm_up_and_the_rank_down():
    for L in (2, 3):
        run = factorise(razin_cohen(), small_init((2, 2), depth=L, epsilon=1e-2), tolerance=2e-3)
        assert run.status == "converged"
        assert np.all(np.diff(run.loss) < 0)
        learning = run.loss < 0.2
        w11, root = run.W[learning, 0, 0], np.sqrt(2 * run.loss[learning])
        assert np.all(w11 >= (1 - root) ** 2 / root)  # det W > 0, and each seen entry is off by √(2 loss) at most
        assert np.all(np.diff(w11) > 0) and w11[-1] > 4 * w11[0]
        assert 0.99 < w11[-1] * root[-1] < 1.01  # the bound is tight in the end: w_11 grows like 1/√(2 loss)
        for p in (1 / 2, 2 / 3, 1.0, 2.0):
            assert np.all(np.diff(run.schatten(p)[learning]) > 0)
        assert np.all(np.diff(run.effective_rank) < 1e-9)  # rounding of σ_2, which falls below it
        assert run.effective_rank[0] == pytest.approx(2) and run.effective_rank[-1] < 1.001
    mirrored = lr.Network([np.diag([0.1, 0.1]), np.diag([0.1, -0.1])])  # det W < 0: nothing forces w_11 up
    bounded = factorise(razin_cohen(), mirrored)
    assert bounded.status == "converged" and bounded.nuclear_norm[-1] < 2.1


@pytest.mark.slow
def test_rank_grows_greedily_and_more_sharply_with_depth_and_smaller_starts():
    problem = random_completion(0, (10, 12), [8.0, 4.0, 2.0], observed=80)
    plateau, error = {}, {}
    for L in (2, 3, 4):
        for epsilon in (1e-2, 1e-4, 1e-6):
            run = factorise(problem, small_init(problem.shape, depth=L, epsilon=epsilon), tolerance=1e-6)
            assert run.status == "converged"
            growth = rank_growth(run, cutoff=0.1)
            assert len(growth.half) == 3 and np.all(np.diff(growth.half) > 0)
            plateau[L, epsilon], error[L, epsilon] = growth.plateau, run.test_error[-1]
    for epsilon in (1e-2, 1e-4, 1e-6):
        assert np.all(plateau[2, epsilon] < plateau[3, epsilon]) and np.all(plateau[3, epsilon] < plateau[4, epsilon])
    for L in (2, 3, 4):
        assert np.all(plateau[L, 1e-2] < plateau[L, 1e-4]) and np.all(plateau[L, 1e-4] < plateau[L, 1e-6])
    assert np.all(plateau[4, 1e-6] > 0.97)  # one at a time
    shallow = factorise(problem, small_init(problem.shape, depth=1, epsilon=1e-4), tolerance=1e-5)
    assert np.all(rank_growth(shallow, cutoff=0.1).plateau[1:] < -0.99)  # all at once
    assert error[2, 1e-2] > error[2, 1e-4] > error[2, 1e-6]
    least = least_nuclear_norm(problem)
    assert error[4, 1e-6] < 0.1 * problem.test_error(least.W) < 0.1 * shallow.test_error[-1]


# The least nuclear norm


def test_least_nuclear_norm_is_certified():
    """Primal and dual feasible, no gap, and ⟨Z, W⟩ = ‖W‖_*: optimal whoever found it."""
    for seed in range(20):
        rng = np.random.default_rng((5, seed))
        truth = rng.normal(size=(4, 2)) @ rng.normal(size=(2, 5)) * 10.0 ** rng.integers(-6, 6)
        if seed % 2:
            mask = rng.permutation(20).reshape(4, 5) < 13
            problem, A = completion(truth, mask), one_by_one(mask)
        else:
            A = rng.normal(size=(9, 4, 5))
            problem = sensing(A, truth=truth)
        least = least_nuclear_norm(problem)
        size = np.abs(truth).max()
        assert max(abs(np.sum(A_m * (least.W - truth))) for A_m in A) < 1e-6 * size
        assert least.misfit < 1e-6
        assert np.linalg.norm(least.dual, 2) < 1 + 1e-12
        unseen = null_space(A.reshape(len(A), -1))
        assert np.abs(unseen.T @ least.dual.ravel()).max() < 1e-7  # Z lies in the span of the measurements
        norm = np.linalg.svd(least.W, compute_uv=False).sum()
        assert least.norm == pytest.approx(norm, rel=1e-12)
        bound = np.sum(least.dual * truth)
        assert abs(least.gap - (norm - bound) / norm) < 1e-7 and abs(least.gap) < 1e-6
        assert np.sum(least.dual * least.W) == pytest.approx(norm, rel=1e-6)
        assert norm < np.linalg.svd(truth, compute_uv=False).sum() * (1 + 1e-6)


def test_least_nuclear_norm_of_diagonal_measurements_is_a_linear_programme():
    for seed in range(5):
        rng = np.random.default_rng((6, seed))
        a, x = rng.normal(size=(2, 4)), rng.normal(size=4)
        both = np.hstack([a, -a])
        programme = linprog(np.ones(8), A_eq=both, b_eq=a @ x, method="highs")
        problem = sensing([np.diag(a_m) for a_m in a], a @ x)
        assert least_nuclear_norm(problem).norm == pytest.approx(programme.fun, rel=1e-6)


def test_least_nuclear_norm_at_any_scale_of_the_measurements():
    """tr W = 1 and w_11 − w_22 = ½, however each is scaled: the norm is 1/s."""
    for s in (1e-160, 1e-30, 1e-8, 1.0, 1e8, 1e30, 1e160):
        least = least_nuclear_norm(sensing([s * np.eye(2), s * np.diag([1.0, -1.0])], [1.0, 0.5]))
        assert least.norm * s == pytest.approx(1, rel=1e-7) and abs(least.gap) <= 1e-7 and least.status == "converged"
        assert np.allclose(least.W * s, np.diag([0.75, 0.25]), atol=1e-7) and least.misfit <= 1e-10
    mixed = least_nuclear_norm(sensing([1e20 * np.eye(2), 1e-20 * np.diag([1.0, -1.0])], [1e20, 0.5e-20]))
    assert np.allclose(mixed.W, np.diag([0.75, 0.25]), atol=1e-7)
    blind = least_nuclear_norm(sensing([np.eye(2), np.zeros((2, 2))], [1.0, 0.0]))
    assert blind.norm == pytest.approx(1, rel=1e-7)


@pytest.mark.filterwarnings("error")
def test_an_inaccurate_least_nuclear_norm_says_so(monkeypatch):
    import cvxpy

    solve = cvxpy.Problem.solve
    monkeypatch.setattr(cvxpy.Problem, "solve", lambda self, **options: solve(self, **options, max_iter=4))
    least = least_nuclear_norm(li_luo_lyu(2.0))
    assert least.status.endswith(": gap and misfit tell how far") and max(least.gap, least.misfit) > 1e-6


# Comparison and tables


def test_comparison_holds_a_row_per_flow_and_reference():
    problem = commuting_measurements()
    comparison = compare_depths(problem, depths=[2, 3], epsilons=[1e-3, 1e-5])
    names = [result.name for result in comparison.results]
    assert names == [
        "depth 2, ε = 0.001",
        "depth 2, ε = 1e-05",
        "depth 3, ε = 0.001",
        "depth 3, ε = 1e-05",
        "least nuclear norm",
        "truth",
    ]
    rows = dict(zip(names, comparison.results, strict=True))
    run = factorise(problem, small_init((3, 3), depth=3, epsilon=1e-5), tolerance=1e-8)
    row = rows["depth 3, ε = 1e-05"]
    assert np.array_equal(row.W, run.W[-1]) and row.status == "converged"
    measured = run.loss[-1], run.test_error[-1], run.effective_rank[-1], run.nuclear_norm[-1], run.schatten(2 / 3)[-1]
    assert np.allclose([*row[2:6], row.quasi_norms[0]], measured, rtol=1e-12)
    assert rows["truth"].quasi_norms[0] < row.quasi_norms[0]  # the refutation
    assert rows["least nuclear norm"].nuclear_norm < row.nuclear_norm < rows["truth"].nuclear_norm
    table = str(comparison).splitlines()
    assert len(table) == 7 and "Schatten-2/3" in table[0] and "Schatten-2/2" not in table[0]
    assert table[-1].split()[-3:] == ["1.000", "2.4", "2.4"]


def test_comparison_of_one_depth_that_does_not_converge():
    comparison = compare_depths(razin_cohen(), depths=2, epsilons=1e-2, max_steps=600)
    assert [result.name for result in comparison.results] == ["depth 2, ε = 0.01", "least nuclear norm"]
    assert comparison.results[0].status.startswith("stopped")
    assert "stopped" in str(comparison) and "–" in str(comparison)
    drawn = compare_depths(razin_cohen(), depths=[2], epsilons=[1e-2], rng=0).results[0]
    run = factorise(razin_cohen(), small_init((2, 2), depth=2, epsilon=1e-2, rng=0), tolerance=1e-8)
    assert np.array_equal(drawn.W, run.W[-1])


def test_table_of_a_run():
    run = factorise(razin_cohen(), small_init((2, 2), depth=2, epsilon=1e-2), [0.0, 1.0])
    lines = str(run).splitlines()
    assert lines[0].split() == ["time", "loss", "test", "error", "eff.", "rank", "nuclear", "singular", "values"]
    assert lines[1].split() == ["0", "1.00e+00", "–", "2.000", "0.02", "0.01", "0.01"]
    assert len(lines) == 4 and lines[-1] == "complete"


def test_small_init_has_the_asked_for_size_and_is_balanced():
    for seed in SEEDS:
        rng = np.random.default_rng((7, seed))
        shape, L, epsilon = tuple(rng.integers(1, 6, size=2)), int(rng.integers(1, 5)), float(10 ** rng.uniform(-12, 1))
        for source in (None, rng):
            network = small_init(shape, depth=L, epsilon=epsilon, rng=source)
            assert network.depth == L and network.function.shape == shape
            assert np.linalg.norm(chain(network.weights), 2) == pytest.approx(epsilon, rel=1e-12)
            for W, above in itertools.pairwise(network.weights):
                gap = above.T @ above - W @ W.T
                assert np.abs(gap).max() < 1e-13 * np.linalg.norm(W, 2) ** 2


# Sentences


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: completion([[1.0, np.nan]], [[0, 1]]),
            "matrix must have numbers where it is observed, and 1 of these",
        ),
        (lambda: completion([[1.0, 2.0]], [[0, 2]]), "observed must hold 1 (or True) and 0 (or False) alone"),
        (lambda: completion([[1.0, 2.0]], [[0], [1]]), "observed must have shape 1 × 2, and it has 2 × 1"),
        (lambda: completion([[1.0, 2.0]], [[0, 0]]), "at least one entry must be observed, and none is"),
        (lambda: completion([[np.nan, np.nan]]), "at least one entry must be observed, and none is"),
        (lambda: completion([[1.0, 0.0]], [[0, 1]]), "observed entries must not all be zero"),
        (lambda: completion([[np.inf, 2.0]]), "matrix must be finite"),
        (lambda: completion([1.0, np.nan]), "matrix must be a matrix, and it has shape (2,)"),
        (lambda: completion([["a"]]), "matrix must hold real numbers"),
        (lambda: sensing(np.eye(2), [1.0]), "matrices must have shape (M, d_out, d_in), one per measurement"),
        (lambda: sensing([np.eye(2)], [1.0, 2.0]), "values must hold one number per matrix (1), and it has 2"),
        (lambda: sensing([np.eye(2)]), "values are missing, and so is the truth"),
        (lambda: sensing([np.eye(2)], truth=np.eye(3)), "truth must have shape 2 × 2, and it has 3 × 3"),
        (lambda: sensing([np.eye(2)], [0.0]), "values must not all be zero"),
        (lambda: sensing([np.zeros((2, 2))], [1.0]), "matrices must not all be zero: they would measure nothing"),
        (
            lambda: least_nuclear_norm(sensing([np.eye(2), np.zeros((2, 2))], [1.0, 1.0])),
            "values must be zero where the matrix is: no solution agrees",
        ),
        (lambda: li_luo_lyu(1.0), "R must be above 1, where least rank and least nuclear norm differ, and it is 1"),
        (
            lambda: random_completion(0, 3, [1.0], observed=2),
            "shape must be (d_out, d_in), rows and columns, and it is 3",
        ),
        (lambda: random_completion(0, (2, 3), [1.0] * 3, observed=2), "singular_values must be at most 2"),
        (lambda: random_completion(0, (2, 3), [1.0, -2.0], observed=2), "must not be negative, and the least is -2"),
        (lambda: random_completion(0, (2, 3), [1.0], observed=7), "observed must be at most the 6 entries"),
        (lambda: small_init((2, 0), depth=2, epsilon=0.1), "shape must be at least 1, and it is 0"),
        (lambda: small_init((2, 2), depth=0, epsilon=0.1), "depth must be at least 1, and it is 0"),
        (lambda: small_init((2, 2), depth=2, epsilon=0.0), "epsilon must be above 0, and it is 0"),
        (lambda: factorise(razin_cohen(), np.eye(2)), "network must be a linear lazyrich Network"),
        (lambda: factorise(razin_cohen(), lr.Network([np.eye(2)], "relu")), "<Network: 2-2, relu>"),
        (lambda: factorise(razin_cohen(), lr.Network([np.eye(3)])), "network must have 2 inputs and 2 outputs"),
        (lambda: factorise(np.eye(2), lr.Network([np.eye(2)])), "measurements must be lazyrich Measurements"),
        (lambda: factorise(razin_cohen(), lr.Network([np.eye(2)]), rtol=1e-17), "rtol must lie between 1e-14 and 1"),
        (lambda: factorise(razin_cohen(), lr.Network([np.eye(2)]), tolerance=0), "tolerance must be above 0"),
        (lambda: factorise(razin_cohen(), lr.Network([np.eye(2)]), [1.0, 0.0]), "times must be sorted"),
        (lambda: rank_growth(np.eye(2)), "run must be a Factorisation, and it is a ndarray: factorise makes one"),
        (lambda: compare_depths(razin_cohen(), depths=[0]), "depths must be at least 1, and it is 0"),
        (lambda: compare_depths(razin_cohen(), epsilons=["a"]), "epsilons must hold real numbers"),
        (lambda: least_nuclear_norm(sensing([np.eye(2)] * 2, [1.0, 2.0])), "have no solution that agrees with all"),
        (lambda: schatten(np.ones((1, 2)), 0), "p must be above 0, and it is 0"),
        (lambda: schatten([1.0, -2.0], 0.5), "singular_values must not be negative, and the least is -2"),
        (lambda: schatten([], 1.0), "singular_values is empty"),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_errors_say_what_came_and_what_would_do(call, sentence):
    with pytest.raises(InvalidInput) as error:
        call()
    assert sentence in str(error.value)


def test_without_cvxpy_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(ImportError, match=r"least_nuclear_norm needs cvxpy: pip install 'lazyrich\[bias\]'\."):
        least_nuclear_norm(razin_cohen())
