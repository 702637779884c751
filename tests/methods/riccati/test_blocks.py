"""The evaluation by blocks of times: the same numbers as all times at once, the same bits on any number of cores, and
refused before it fills the memory."""

import threading

import mpmath
import numpy as np
import pytest

import lazyrich as lr
from lazyrich import _check, _threads
from lazyrich._check import InvalidInput
from lazyrich.methods.riccati import _lapack, evaluation_blas

TIMES = np.concatenate([[0.0], np.geomspace(1e-2, 1e4, 37), [1e12, 1e200]])
SIZES = {
    "square": ((24, 24, 24), 0.0, 1e-3, 24),
    "more inputs": ((31, 20, 20), 0.0, 1e-2, 20),
    "bottleneck": ((26, 17, 30), 0.0, 0.1, 26),
    "low rank": ((30, 40, 28), 0.0, 1e-3, 9),
    "λ > 0": ((22, 18, 27), 2.0, 1e-2, 22),
    "λ < 0": ((27, 18, 22), -2.0, 1e-2, 10),
    "large λ": ((20, 18, 20), 40.0, 1e-2, 20),
}


def made(name, *, equal=False):
    widths, lam, scale, rank = SIZES[name]
    rng = np.random.default_rng(7)
    d_in, _, d_out = widths
    U, V = (np.linalg.qr(rng.normal(size=(d, d)))[0] for d in (d_out, d_in))
    s = np.zeros(min(d_in, d_out))
    s[:rank] = 1.0 if equal else np.geomspace(2.0, 0.05, rank)
    sigma = (U[:, : len(s)] * s) @ V[:, : len(s)].T
    network = lr.inits.lambda_balanced(rng, sizes=widths, lam=lam, scale=scale)
    return lr.solve(lr.Problem(lr.Task.from_correlations(sigma), network), TIMES, method="riccati").solution


def on_the_separatrix():
    """The wrong sign in one mode, in the basis of the task, and nothing there of the others."""
    s, signs = np.linspace(2.0, 0.5, 20), np.ones(20)
    signs[3] = -1.0
    network = lr.Network([0.1 * np.eye(20), 0.1 * np.diag(signs)])
    problem = lr.Problem(lr.Task.from_correlations(np.diag(s)), network)
    return lr.solve(problem, TIMES, method="riccati").solution


def both(solution, part):
    values = []
    for solution.wide in (True, False):
        values.append(part(solution))
    return values


@pytest.mark.parametrize("name", [*SIZES, "equal modes", "separatrix"])
def test_blocks_give_what_all_times_at_once_give(name):
    solution = {"equal modes": lambda: made("square", equal=True), "separatrix": on_the_separatrix}.get(
        name, lambda: made(name)
    )()
    for part in (lambda x: x.gram(TIMES), lambda x: x.function(TIMES)):
        blocks, stacked = both(solution, part)
        size = np.linalg.norm(solution.gram(TIMES), axis=(1, 2))
        assert np.all(np.linalg.norm(blocks - stacked, axis=(1, 2)) <= 1e-13 * size)
    blocks, stacked = both(solution, lambda x: x.loss(TIMES))
    np.testing.assert_allclose(np.sqrt(blocks), np.sqrt(stacked), rtol=1e-13, atol=1e-13 * np.sqrt(stacked[0]))


def test_columns_leave_and_rows_vanish_in_these_problems():
    """Or the comparison above would say nothing of them."""
    found = made("square")._looped
    assert np.searchsorted(found.release, TIMES[-3]) > 4
    assert np.searchsorted(found.vanished, TIMES[-3]) > 4


@pytest.mark.parametrize("name", ["square", "bottleneck", "λ > 0", "equal modes"])
def test_strengths_are_those_of_the_function_in_any_basis(name):
    solution = made("square", equal=True) if name == "equal modes" else made(name)
    U, V = solution.graded.spectrum.U, solution.graded.spectrum.V
    m = len(solution.graded.spectrum.s)
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(m, m)))[0]
    for left, right in ((U[:, :m], V[:, :m]), (-U[:, :m], V[:, :m]), (U[:, :m] @ turn, V[:, :m] @ turn)):
        blocks, stacked = both(solution, lambda x, u=left, v=right: x.mode_strengths(TIMES, u, v))
        assert np.abs(blocks - stacked).max() <= 1e-13 * np.abs(stacked).max()


@pytest.mark.parametrize("name", ["square", "λ < 0", "low rank"])
def test_the_bits_are_the_same_on_any_number_of_cores(name, monkeypatch):
    solution, seen = made(name), []
    U, V = (M[:, : len(solution.graded.spectrum.s)] for M in solution.graded.spectrum[0:3:2])
    monkeypatch.setattr(evaluation_blas, "_HEAVY", 0.0)
    monkeypatch.setattr(evaluation_blas, "_CACHE", 4000)
    for count in (1, 2, 3):
        monkeypatch.setattr(_threads, "cores", lambda count=count: count)
        parts = (solution.gram, solution.function, solution.loss, lambda t: solution.mode_strengths(t, U, V))
        seen.append([part(TIMES) for part in parts])
    for other in seen[1:]:
        for first, second in zip(seen[0], other, strict=True):
            assert np.array_equal(first, second)


def test_work_is_spread_unless_the_caller_has_the_cores_busy(monkeypatch):
    monkeypatch.setattr(_threads, "cores", lambda: 3)
    meeting, found = threading.Barrier(3, timeout=30), []
    _threads.spread(lambda _: meeting.wait(), [0, 1, 2])  # three at once, or it breaks
    with _threads.one_blas_thread():
        _threads.spread(lambda _: found.append(threading.current_thread()), [0, 1, 2])
    assert set(found) == {threading.current_thread()} and len(found) == 3


def test_what_goes_wrong_in_a_thread_is_heard_of(monkeypatch):
    monkeypatch.setattr(_threads, "cores", lambda: 2)

    def fail(piece):
        raise ArithmeticError(f"piece {piece}")

    with pytest.raises(ArithmeticError, match="piece"):
        _threads.spread(fail, [0, 1])


@pytest.mark.parametrize("part, instead", [("gram", "traj.function"), ("function", "traj.loss")])
def test_what_does_not_fit_into_memory_is_refused_before_it_is_taken(part, instead, monkeypatch):
    monkeypatch.setattr(_check, "_free_memory", lambda: 2.0 * 2**30)
    network = lr.inits.zero_balanced(0, sizes=(200, 200, 200), scale=0.1)
    problem = lr.Problem(lr.Task.from_correlations(np.eye(200)), network)
    traj = lr.solve(problem, np.linspace(0.0, 10.0, 20_000), method="riccati")
    monkeypatch.setattr(np, "empty", None)  # nothing is allocated
    size = {"gram": "26.2", "function": "6.56"}[part]
    words = f"^{part} at 20,000 times would take {size} GiB, and 2 GiB are free: try "
    with pytest.raises(InvalidInput, match=words) as told:
        getattr(traj, part)
    assert "fewer times" in str(told.value) and "traj.at" in str(told.value) and instead in str(told.value)


@pytest.mark.parametrize("k", [1, 5, 8, 9, 16, 23, 24, 31, 64, 67])
def test_factors_and_their_inverses(k):
    X = np.random.default_rng(k).normal(size=(5, 2 * k, k))
    A = X.mT @ X
    R, W = np.tril(_lapack.factor(A.copy())), np.full((5, k, k), np.nan)
    assert np.abs(R @ R.mT - A).max() <= 1e-14 * k * np.abs(A).max()
    _lapack.invert(_lapack.factor(A.copy()), W)  # what stands above the triangle does not matter
    assert np.array_equal(W, np.tril(W))
    assert np.abs(W @ R - np.eye(k)).max() <= 1e-14 * k * np.linalg.cond(R).max()


@pytest.mark.parametrize("k", [6, 40])
def test_a_matrix_without_a_factor_is_named(k):
    A = np.stack([np.eye(k)] * 4)
    A[2, 1, 1] = -1.0
    with pytest.raises(_lapack.NoFactor) as told:
        _lapack.factor(A)
    assert told.value.place == 2


def test_exponentials_are_right_to_the_last_digit():
    rates, times = np.linspace(0.1, 3.0, 23), np.geomspace(1e-3, 1e3, 40)
    found = evaluation_blas._exponential(rates, times[:, None])
    with mpmath.workdps(50):
        for t, row in zip(times, found, strict=True):
            for w, value in zip(rates, row, strict=True):
                exact = mpmath.exp(mpmath.mpf(float(w)) * mpmath.mpf(float(t)))
                if exact < mpmath.exp(92):
                    assert abs(value / exact - 1) <= 5e-16


def test_modes_that_have_settled_leave_although_weaker_ones_are_as_strong_but_for_a_hair():
    """The difference of the two would tell at t = 1e12 alone."""
    rng = np.random.default_rng(3)
    s = np.linspace(2.0, 0.5, 20)
    s[4] = s[3] * (1 - 1e-9)
    network = lr.inits.zero_balanced(rng, sizes=(20, 20, 20), scale=1e-2)
    solution = lr.solve(lr.Problem(lr.Task.from_correlations(np.diag(s)), network), TIMES, method="riccati").solution
    assert np.searchsorted(solution._looped.release, 100.0) >= 5
    times = np.sort(np.concatenate([solution._looped.release * 1.0000001, [1e3]]))
    blocks, stacked = both(solution, lambda x: x.gram(times))
    assert np.abs(blocks - stacked).max() <= 1e-13 * np.abs(stacked).max()
