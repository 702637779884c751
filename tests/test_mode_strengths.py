"""Strengths of the task's modes along a trajectory, and the times at which they are half way."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from oracles import integrate

import lazyrich as lr
from lazyrich.observables import half_times, mode_strengths


def test_they_are_the_parts_of_the_function_along_the_modes(rng):
    """Unequal sizes, correlated inputs: by the definition, one mode and one time after another."""
    X, Y = rng.normal(size=(30, 4)), rng.normal(size=(30, 3))
    problem = lr.Problem(lr.Task.from_data(X, Y), lr.Network([rng.normal(size=(3, 4))]))
    traj = lr.solve(problem, [0.0, 0.3, 2.0])
    U, _, Vt = np.linalg.svd(Y.T @ X / 30)
    got = mode_strengths(traj)
    assert got.shape == (3, 3)
    for i in range(3):
        for k in range(3):
            assert got[i, k] == pytest.approx(U[:, k] @ traj.function[i] @ Vt[k], rel=1e-12, abs=1e-13)


def test_learned_modes_end_at_their_targets():
    problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.1))
    Y = np.asarray(problem.task.targets)
    end = mode_strengths(lr.solve(problem, [1e6]))[-1]
    np.testing.assert_allclose(end, np.linalg.svd(Y, compute_uv=False), rtol=1e-12)  # inputs are one-hot


def test_half_times_of_the_logistic_curve():
    """Saxe's mode: a = s / (1 + (s/a0 − 1) e^{−2st}) is half way to s at t = ln(…)/2s, by hand."""
    s, a0 = np.array([3.0, 1.0, 0.25]), 1e-3
    times = np.linspace(0, 60, 60001)
    strengths = s / (1 + (s / a0 - 1) * np.exp(-2 * s * times[:, None]))
    half = (s + a0) / 2
    expected = np.log((s / a0 - 1) / (s / half - 1)) / (2 * s)
    np.testing.assert_allclose(half_times(times, strengths, s), expected, rtol=1e-6)
    np.testing.assert_allclose(half_times(times, strengths), expected, rtol=1e-6)  # the end is within 1e-12 of s


def test_half_times_of_a_coupled_problem_are_those_that_were_predicted(rng):
    """`fate` knows them before, from the closed form; the oracle integrates and looks."""
    network = lr.inits.zero_balanced(rng, sizes=(4, 5, 3), scale=0.05)
    task = lr.tasks.random_regression(rng, d_in=4, d_out=3, samples=12)
    known = lr.fate(lr.Problem(task, network))
    near = np.concatenate([known.half_times * (1 - 1e-3), known.half_times * (1 + 1e-3)])
    times = np.unique(np.concatenate([np.linspace(0, 3 * known.half_times.max(), 100), near]))
    W = integrate.function(network.weights, task.sigma_yx, None, times)
    U, _, Vt = np.linalg.svd(task.sigma_yx, full_matrices=False)
    seen = half_times(times, np.einsum("om,toi,mi->tm", U, W, Vt), known.limit)
    np.testing.assert_allclose(seen, known.half_times, rtol=1e-5)


def test_modes_that_fall_rest_or_are_not_there_yet():
    times = [0.0, 1.0, 3.0]
    strengths = [[4.0, 2.0, 0.0, 1.0], [3.0, 2.0, 0.1, 1.0 + 1e-16], [1.0, 2.0, 0.2, 1.0]]  # the first: 4 − t
    np.testing.assert_allclose(half_times(times, strengths), [1.5, np.nan, 1.0, np.nan])
    np.testing.assert_allclose(half_times(times, strengths, [1.0, 2.0, 1.0, 1.0]), [1.5, np.nan, np.nan, np.nan])


def test_what_moves_by_the_error_of_an_integration_rests():
    assert np.isnan(half_times([0.0, 1.0, 2.0], [[5.0, 0.0], [5.0, 2e-9], [5.0, 3e-9]])).all()


def test_few_records_are_enough():
    """Against the search of a densely sampled curve: nine records of a mode's rise, where lines between them miss
    half way by up to a fifth of a percent of it."""
    with mpmath.workdps(30):
        for s, a0, shift in ((1.0, 1e-3, 0.0), (2.0, 1e-5, 0.3), (0.5, 1e-2, 0.7)):
            a = lambda t, s=s, a0=a0: s / (1 + (s / mpmath.mpf(a0) - 1) * mpmath.exp(-2 * s * t))
            exact = mpmath.findroot(lambda t, s=s, a0=a0, a=a: a(t) - (s + a0) / 2, mpmath.log(s / a0) / (2 * s))
            width = 1 / s
            times = np.concatenate([[0.0], float(exact) + width * (np.arange(-4, 5) + shift) / 4])
            found = half_times(times, [[float(a(t))] for t in times], [s])[0]
            assert abs(found - exact) <= 1e-3 * width
            line = np.interp((s + a0) / 2, [float(a(t)) for t in times], times)
            assert shift == 0.0 or abs(found - exact) < abs(line - exact)


def test_the_first_crossing_counts():
    assert half_times([0.0, 1.0, 2.0, 3.0, 4.0], [[0.0], [2.0], [0.0], [2.0], [2.0]]) == pytest.approx(0.5)


def test_one_time_has_no_half_way():
    assert np.isnan(half_times([0.0], [[1.0, 2.0]])).all()
    assert np.isnan(half_times([0.0], [[1.0, 2.0]], [5.0, 6.0])).all()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([0.0, 1.0], [[1.0]]), "strengths must have one row per time (2), and it has 1."),
        (([1.0, 0.0], [[1.0], [2.0]]), "times must be sorted"),
        (([0.0, 1.0], [[1.0], [np.nan]]), "strengths must be finite"),
        (([0.0, 1.0], [[1.0], [2.0]], [1.0, 2.0]), "limit must hold one number per mode (1), and it has shape (2,)."),
    ],
)
def test_half_times_refuses_what_does_not_fit(arguments, says):
    with pytest.raises(lr.InvalidInput) as caught:
        half_times(*arguments)
    assert says in str(caught.value)


def test_a_mode_that_comes_back_before_half_way():
    """Between the two records around one half nothing but these two matters where a neighbour lies the other way."""
    half = lr.observables.half_times
    assert half([0, 1, 2, 3], [[0.0], [0.4], [0.0], [1.0]]) == pytest.approx(2.5)
    assert half([0, 1, 2], [[0.0], [-1.0], [1.0]]) == pytest.approx(1.75)
