"""`batch.fate` against `lr.fate`, problem by problem: ends, half times, regimes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import lazyrich as lr

pytestmark = pytest.mark.timeout(120)


def assert_same(problems):
    for problem, mine in zip(problems, lr.batch.fate(problems), strict=True):
        its = lr.fate(problem)
        assert (mine.method, mine.kind, mine.missed, mine.on_separatrix) == (
            its.method, its.kind, its.missed, its.on_separatrix)  # fmt: skip
        assert mine.separatrix_distance == pytest.approx(its.separatrix_distance, rel=1e-9, abs=1e-14)
        np.testing.assert_array_equal(mine.learned, its.learned)
        np.testing.assert_allclose(mine.half_times, its.half_times, rtol=1e-10)
        size = np.abs(its.function_limit).max()
        np.testing.assert_allclose(mine.function_limit, its.function_limit, atol=1e-12 * size)
        np.testing.assert_allclose(mine.limit, its.limit, atol=1e-12 * size)
        np.testing.assert_allclose(mine.s, its.s, rtol=1e-13)
        assert mine.loss_limit == pytest.approx(its.loss_limit, abs=1e-12 * its.loss_initial)
        assert mine.loss_initial == its.loss_initial
        assert_same_regime(mine.regime, its.regime)


def assert_same_regime(mine, its):
    """Times are looked for until a millionth."""
    assert mine.name == its.name
    assert mine.lazy_time == pytest.approx(its.lazy_time, rel=1e-12)
    assert mine.kernel_half_time == pytest.approx(its.kernel_half_time, rel=1e-5, nan_ok=True)
    assert mine.learned_by == pytest.approx(its.learned_by, rel=1e-5, nan_ok=True)
    assert mine.kernel_movement == pytest.approx(its.kernel_movement, rel=1e-5, nan_ok=True)
    assert [phase.name for phase in mine.phases] == [phase.name for phase in its.phases]


@pytest.mark.long
@pytest.mark.parametrize(
    "sizes, lam, scale",
    [
        ((4, 5, 4), 0.0, 0.05),
        ((3, 2, 5), 0.0, 0.3),
        ((4, 3, 3), 0.4, 0.1),
        ((3, 3, 4), -3.0, 0.1),
        ((4, 9, 3), 0.0, 4.0),
    ],
)
def test_random_starts(rng, sizes, lam, scale):
    task = lr.Task.from_correlations(rng.normal(size=(sizes[-1], sizes[0])))
    make = lr.inits.lambda_balanced
    assert_same([lr.Problem(task, make(rng, sizes=sizes, lam=lam, scale=scale)) for _ in range(10)])


def test_samples_rates_decay_and_tasks_of_all_kinds(rng):
    task = lr.tasks.random_regression(1, d_in=4, d_out=3, samples=30).whitened()
    networks = [lr.inits.zero_balanced(rng, sizes=(4, 5, 3), scale=0.2) for _ in range(5)]
    others = lr.Task.from_correlations(rng.normal(size=(3, 4)), 0.3 * np.eye(4))
    U, _, V = others.modes
    problems = [lr.Problem(task, network) for network in networks]
    problems += [lr.Problem(others, network, weight_decay=0.05) for network in networks]
    problems += [lr.Problem(others, network, rates=0.3) for network in networks]
    problems += [lr.Problem(others, lr.Network([0.1 * V.T, 0.1 * U])), lr.Problem(others, lr.Network([U @ V.T]))]
    assert_same(problems)


@pytest.mark.parametrize("lam", [1e-6, 0.8, 0.0])
def test_the_distance_from_the_separatrix_knows_no_axes_outside_the_task(rng, lam):
    """A task of rank one, four hidden units, six outputs: it is the same for a list, and after a turn out there."""
    task, turn = lr.Task.from_correlations(np.outer(np.eye(6)[0], [1.0, 0.0])), np.eye(6)
    turn[1:, 1:] = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    for network in [lr.inits.lambda_balanced(seed, sizes=(2, 4, 6), lam=lam, scale=0.1) for seed in range(2)]:
        W1, W2 = network.weights
        turned = lr.Problem(task, lr.Network([W1, turn @ W2]))
        found = lr.batch.fate([lr.Problem(task, network)] * 4 + [turned])
        found.append(lr.fate(lr.Problem(task, network)))
        assert 1e-6 < found[0].separatrix_distance < 1
        for one in found:
            assert one.separatrix_distance == pytest.approx(found[0].separatrix_distance, rel=1e-7)


def test_what_has_no_exact_solution_is_named():
    task = lr.Task.from_correlations(np.diag([2.0, 1.0]))
    problems = [lr.Problem(task, lr.inits.gaussian(seed, sizes=(2, 3, 2), scale=0.1)) for seed in range(3)]
    with pytest.raises(
        lr.NoExactSolution, match=r"^3 of 3 problems are refused, first problems\[0\]: no exact solution"
    ):
        lr.batch.fate(problems)
    with pytest.raises(lr.InvalidInput, match="problems is empty"):
        lr.batch.fate([])
