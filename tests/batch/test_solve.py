"""`batch.solve` against `lr.solve`, problem by problem: numbers, methods, notes and refusals, degenerate starts on
purpose, alone and mixed; times of each; threads; memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyrich as lr
from lazyrich._check import InvalidInput
from lazyrich._threads import one_blas_thread
from lazyrich.batch import ensemble
from lazyrich.batch.ensemble import ensembles

pytestmark = pytest.mark.timeout(120)
LONG = [0.0, 0.3, 2.0, 9.0, 40.0, 1e3, 1e7, np.inf]


def task_of(rng, d_in, d_out, kind="generic"):
    U, _ = np.linalg.qr(rng.normal(size=(d_out, d_out)))
    V, _ = np.linalg.qr(rng.normal(size=(d_in, d_in)))
    m = min(d_in, d_out)
    s = np.sort(rng.uniform(0.3, 3.0, m))[::-1]
    if kind == "equal":
        s[: m // 2 + 1] = 2.0
        s[m // 2 + 1 :] = np.linspace(1.0, 0.5, m - m // 2 - 1)
    elif kind == "all equal":
        s[:] = 1.5
    elif kind == "low rank":
        s[m // 2 :] = 0.0
    elif kind == "close":
        s[:] = 1.0 + 1e-5 * np.arange(m)[::-1]
    return lr.Task.from_correlations((U[:, :m] * s) @ V[:, :m].T)


def assert_same(problems, times, *, stacked=None):
    """As `lr.solve` has it, one by one."""
    together = lr.batch.solve(problems, times)
    assert len(together) == len(problems)
    rows = np.asarray(times, float)
    for i, (problem, traj) in enumerate(zip(problems, together, strict=True)):
        alone = lr.solve(problem, rows[i] if rows.ndim == 2 else rows)
        assert traj.problem is problem
        assert (traj.method, traj.notes, traj.status) == (alone.method, alone.notes, alone.status)
        assert traj.citation == alone.citation
        np.testing.assert_array_equal(traj.times, alone.times)
        for name in ("function", "loss", "gram"):
            if alone.knows(name):
                mine, its = getattr(traj, name), getattr(alone, name)
                assert np.abs(mine - its).max() <= 1e-12 * np.abs(its).max(), (i, name)
    if stacked is not None:
        clock = np.minimum(rows, 1e200).reshape(-1, rows.shape[-1])
        found = sum(len(piece.members) for many in ensembles(problems, clock) for piece in many.pieces)
        assert found >= stacked * len(problems)
    return together


SHAPES = [(4, 4, 4), (4, 7, 4), (3, 2, 5), (5, 9, 3), (4, 12, 4), (1, 3, 1), (2, 1, 2)]


@pytest.mark.long
@pytest.mark.parametrize("sizes", SHAPES, ids=lambda sizes: "-".join(map(str, sizes)))
@pytest.mark.parametrize("kind", ["generic", "equal", "all equal", "low rank", "close"])
def test_random_starts_of_one_task(rng, sizes, kind):
    task = task_of(rng, sizes[0], sizes[-1], kind)
    problems = [lr.Problem(task, lr.inits.zero_balanced(rng, sizes=sizes, scale=0.1)) for _ in range(12)]
    usual = min(sizes) > 1 and kind in ("generic", "equal", "low rank")
    assert_same(problems, LONG, stacked=0.9 if usual else None)


@pytest.mark.long
@pytest.mark.parametrize("lam", [1e-3, 0.7, 20.0, -0.4, -30.0])
@pytest.mark.parametrize("sizes", [(4, 4, 4), (5, 3, 4), (3, 3, 6)])
def test_balanced_starts_with_lambda(rng, sizes, lam):
    task = task_of(rng, sizes[0], sizes[-1])
    make = lr.inits.lambda_balanced
    problems = [lr.Problem(task, make(rng, sizes=sizes, lam=lam, scale=0.2)) for _ in range(8)]
    assert_same(problems, LONG, stacked=0.5)


def test_lambdas_of_both_signs_and_zero_together(rng):
    task = task_of(rng, 4, 4)
    lams = [0.0, 0.3, -0.3, 1e-9, -1e-9, 5.0] * 4
    networks = [lr.inits.lambda_balanced(rng, sizes=(4, 4, 4), lam=lam, scale=0.3) for lam in lams]
    assert_same([lr.Problem(task, network) for network in networks], LONG)


@pytest.mark.long
@pytest.mark.parametrize("scale", [1e-150, 1e-60, 1e-9, 30.0, 1e6])
def test_tiny_and_huge_weights(rng, scale):
    task = task_of(rng, 4, 4)
    problems = [lr.Problem(task, lr.inits.zero_balanced(rng, sizes=(4, 6, 4), scale=scale)) for _ in range(8)]
    assert_same(problems, [0.0, 1.0, 300.0, 1e5, np.inf])


def test_layer_rates_and_weight_decay(rng):
    task = task_of(rng, 4, 3)
    networks = [lr.inits.zero_balanced(rng, sizes=(4, 5, 3), scale=0.3) for _ in range(6)]
    decayed = [lr.Problem(task, network, weight_decay=0.4) for network in networks]
    quick = [lr.Problem(task, network, rates=3.0) for network in networks]
    root = 2.0**0.5
    uneven = [lr.Network([network.weights[0], root * network.weights[1]]) for network in networks]
    apart = [lr.Problem(task, network, rates=(1.0, 2.0)) for network in uneven]
    assert_same([*decayed, *quick, *apart], LONG, stacked=0.9)


def test_other_input_scales_and_tasks_together(rng):
    problems = []
    for c in (0.1, 1.0, 7.0):
        for kind in ("generic", "low rank"):
            task = lr.Task.from_correlations(c * task_of(rng, 4, 3, kind).sigma_yx, c * np.eye(4))
            problems += [lr.Problem(task, lr.inits.zero_balanced(rng, sizes=(4, 5, 3), scale=0.2)) for _ in range(3)]
    assert_same(problems, LONG, stacked=0.9)
    assert_same(problems, np.geomspace(1e-2, 10.0, 5) * rng.uniform(1.0, 2.0, (len(problems), 1)), stacked=0.9)


def test_samples_with_a_loss_that_stays(rng):
    task = lr.tasks.random_regression(3, d_in=4, d_out=3, samples=40).whitened()
    problems = [lr.Problem(task, lr.inits.zero_balanced(rng, sizes=(4, 6, 3), scale=0.2)) for _ in range(6)]
    assert task.loss_floor > 0
    assert_same(problems, LONG)


def test_starts_that_need_care_are_among_the_others(rng):
    """Zero weights, zero rows, one missing mode, an obstructed determinant, near the separatrix, aligned, float32, one
    layer, three layers, family: each by its own method, and none disturbs its neighbours."""
    task = task_of(rng, 3, 3)
    U, _, V = task.modes

    def zero_balanced():
        return lr.inits.zero_balanced(rng, sizes=(3, 3, 3), scale=0.3)

    plain = [zero_balanced() for _ in range(6)]
    R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    A = np.diag([0.3, 0.2, 0.0])
    missing = lr.Network([A @ R, R.T @ A])
    mirrored = lr.Network([np.diag([1.0, 1.0, -1.0]) @ plain[0].weights[0], plain[0].weights[1]])
    near = [lr.Network([R, R.T @ np.diag([1.0, 1.0, e])]) for e in (1e-13, -1e-13)]
    near = [lr.balanced(network).network if not np.any(network.weights[0] == 0) else network for network in near]
    odd = [
        lr.Network([np.zeros((3, 3)), np.zeros((3, 3))]),
        missing,
        lr.Network([0.1 * V.T, 0.1 * U]),
        lr.Network([plain[1].weights[0].astype(np.float32), plain[1].weights[1].astype(np.float32)]),
        lr.inits.orthogonal(rng, sizes=(3, 8, 3), scales=(0.5, 0.2)),
        lr.inits.aligned(rng, task, hidden=3, strengths=0.1),
        *near,
    ]
    networks = [network for pair in zip(plain, [*odd[:5], mirrored], strict=True) for network in pair] + odd[5:]
    problems = [lr.Problem(task, network) for network in networks]
    problems = [problem for problem in problems if problem.facts.method is not None]
    problems += [lr.Problem(task, lr.Network([R])), lr.Problem(task, lr.Network([0.2 * V.T, 0.2 * np.eye(3), 0.2 * U]))]
    assert len({problem.facts.method for problem in problems}) >= 4
    assert_same(problems, LONG)


@pytest.mark.long
@settings(max_examples=60)
@given(st.data())
def test_any_mixture(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    d_in, h, d_out = (data.draw(st.integers(1, 6)) for _ in range(3))
    kind = data.draw(st.sampled_from(["generic", "equal", "all equal", "low rank", "close"]))
    task = task_of(rng, d_in, d_out, kind)
    lam = data.draw(st.sampled_from([0.0, 0.0, 0.5, -2.0])) if h <= min(d_in, d_out) else 0.0
    scale = 10.0 ** data.draw(st.integers(-12, 2))
    decay = data.draw(st.sampled_from([0.0, 0.0, 0.3])) if lam == 0 else 0.0
    problems = []
    for _ in range(data.draw(st.integers(4, 9))):
        network = lr.inits.lambda_balanced(rng, sizes=(d_in, h, d_out), lam=lam, scale=scale)
        if data.draw(st.booleans()) and lam == 0:
            W1, W2 = network.weights
            cut = data.draw(st.integers(0, d_in - 1))  # an input that no weight sees, balanced again
            W1 = W1 * (np.arange(d_in) != cut)
            network = lr.balanced(lr.Network([W1, W2])).network
        problem = lr.Problem(task, network, weight_decay=decay)
        if problem.facts.method is not None:
            problems.append(problem)
    if problems:
        assert_same(problems, LONG)


@pytest.mark.parametrize("lam", [0.0, 0.4])
def test_blocks_of_the_set_up_are_joined(rng, monkeypatch, lam):
    monkeypatch.setattr(ensemble, "_AT_ONCE", 64 * 5)
    task = task_of(rng, 4, 4)
    networks = [lr.inits.lambda_balanced(rng, sizes=(4, 4, 4), lam=lam, scale=0.1) for _ in range(18)]
    problems = [lr.Problem(task, network) for network in networks]
    assert_same(problems, LONG, stacked=0.5)
    (many,) = ensembles(problems, np.ones((1, 1)))
    patterns = [(piece.graded.pivots.tobytes(), piece.graded.missed.tobytes()) for piece in many.pieces]
    assert len(set(patterns)) == len(patterns)


def test_many_columns_are_evaluated_one_by_one(rng):
    task = task_of(rng, 18, 18)
    problems = [lr.Problem(task, lr.inits.zero_balanced(rng, sizes=(18, 18, 18), scale=0.1)) for _ in range(4)]
    assert_same(problems, LONG, stacked=0.9)


def test_weights_and_other_times_are_those_of_one_problem(rng):
    task = task_of(rng, 3, 3)
    problems = [lr.Problem(task, lr.inits.zero_balanced(rng, sizes=(3, 5, 3), scale=0.2)) for _ in range(5)]
    for problem, traj in zip(problems, lr.batch.solve(problems, [0.0, 1.0, 5.0]), strict=True):
        alone = lr.solve(problem, [0.0, 1.0, 5.0])
        for mine, its in zip(traj.weights, alone.weights, strict=True):
            np.testing.assert_allclose(mine, its, atol=1e-10)
        later = traj.at([7.0, np.inf])
        np.testing.assert_allclose(later.function, alone.at([7.0, np.inf]).function, atol=1e-12)
        assert later.notes == alone.at([7.0, np.inf]).notes
        assert traj.certificate().exact == alone.certificate().exact


def test_bits_do_not_depend_on_threads_or_on_what_is_asked_first(rng):
    task = task_of(rng, 4, 4)
    problems = [lr.Problem(task, lr.inits.zero_balanced(rng, sizes=(4, 6, 4), scale=0.1)) for _ in range(150)]
    times = np.linspace(0.0, 20.0, 60)
    spread = [traj.function for traj in lr.batch.solve(problems, times)]
    with one_blas_thread():
        found = lr.batch.solve(problems, times)
        losses = [traj.loss for traj in found]
        alone = [traj.function for traj in found]
    np.testing.assert_array_equal(spread, alone)
    again = lr.batch.solve(problems, times)
    assert again[-1].function.shape == (60, 4, 4)
    np.testing.assert_array_equal([traj.loss for traj in again], losses)


def test_what_has_no_exact_solution_is_named_before_anything_is_computed():
    task = lr.Task.from_correlations(np.diag([2.0, 1.0]))
    fine = lr.Problem(task, lr.inits.zero_balanced(0, sizes=(2, 3, 2), scale=0.1))
    refused = lr.Problem(task, lr.inits.gaussian(0, sizes=(2, 3, 2), scale=0.1))
    with pytest.raises(lr.NoExactSolution, match=r"^problems\[1\] is refused: no exact solution applies, "):
        lr.batch.solve([fine, refused], [1.0])
    with pytest.raises(lr.NoExactSolution, match=r"^2 of 4 problems are refused, first problems\[1\]: no exact s"):
        lr.batch.solve([fine, refused, fine, refused], [1.0])


def test_messages():
    problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    with pytest.raises(InvalidInput, match="problems must be a list of problems"):
        lr.batch.solve(problem, [1.0])
    with pytest.raises(InvalidInput, match="problems is empty"):
        lr.batch.solve([], [1.0])
    with pytest.raises(InvalidInput, match="times must be a vector"):
        lr.batch.solve([problem, problem], np.ones((3, 1)))
    with pytest.raises(InvalidInput, match="times must be sorted"):
        lr.batch.solve([problem], [2.0, 1.0])
    with pytest.raises(InvalidInput, match="times must not be negative"):
        lr.batch.solve([problem], [-1.0])


def test_memory_is_asked_for_before_it_is_taken(rng, monkeypatch):
    from lazyrich import _check

    monkeypatch.setattr(_check, "_LITTLE", 0.0)
    monkeypatch.setattr(_check, "_free_memory", lambda: 2.0**20)
    task = task_of(rng, 4, 4)
    problems = [lr.Problem(task, lr.inits.zero_balanced(rng, sizes=(4, 4, 4), scale=0.1)) for _ in range(100)]
    found = lr.batch.solve(problems, np.linspace(0.0, 1.0, 200))
    with pytest.raises(InvalidInput, match="gram of 100 starts at 200 times would take"):
        found[0].gram  # noqa: B018
