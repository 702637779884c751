"""Random initialisations beside their closed form: what is drawn, what is compared, and the tables of the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import lazyrich as lr
from lazyrich.papers.tu2024 import table
from lazyrich.papers.tu2024.figures import fig_random_errors
from lazyrich.papers.tu2024.random_starts import INITIALISATIONS, TASKS, compare, network, problem

PAGE = Path(__file__).parents[3] / "docs" / "theory" / "random-starts.md"


@pytest.mark.parametrize(
    ("kind", "variances"),
    [("gaussian", (1 / 600, 1 / 600)), ("pytorch", (1 / 120, 1 / 1800)), ("keras", (2 / 640, 2 / 620))],
)
def test_layers_have_the_variance_that_they_are_known_for(rng, kind, variances):
    net = network(rng, kind, (40, 600, 20), scale=1.0)
    np.testing.assert_allclose([W.var() for W in net.weights], variances, rtol=0.05)
    small = network(np.random.default_rng(1), kind, (40, 600, 20), scale=0.05).weights
    np.testing.assert_allclose(small[0], 0.05 * network(np.random.default_rng(1), kind, (40, 600, 20)).weights[0])


def test_an_unknown_initialisation_is_named(rng):
    with pytest.raises(lr.InvalidInput, match="initialisation must be one of 'gaussian', 'pytorch', 'keras'"):
        network(rng, "he", (2, 3, 2))


def test_digits_are_white_on_their_support():
    task = TASKS["digits 61 → 10"](0)
    assert (task.d_in, task.d_out) == (61, 10)
    assert task.whitening_error == 0


@pytest.mark.long
@pytest.mark.parametrize("kind", INITIALISATIONS)
def test_errors_are_those_of_the_flow(kind):
    """All weights integrated by SciPy; strengths and half times read off without the library."""
    one = compare(problem("5 → 4", kind, 60, 0.3, seed=3))
    (W1, W2), S = one.problem.network.weights, one.problem.task.sigma_yx

    def velocity(_, y):
        A, B = y[: W1.size].reshape(W1.shape), y[W1.size :].reshape(W2.shape)
        E = S - B @ A
        return np.concatenate([(B.T @ E).ravel(), (E @ A.T).ravel()])

    start = np.concatenate([W1.ravel(), W2.ravel()])
    run = solve_ivp(velocity, (0, one.times[-1]), start, "DOP853", rtol=1e-10, atol=1e-13, dense_output=True)
    U, s, Vt = np.linalg.svd(S)

    def strengths(times):
        y = run.sol(times)
        A, B = y[: W1.size].T.reshape(-1, *W1.shape), y[W1.size :].T.reshape(-1, *W2.shape)
        return np.einsum("oi,toh,thj,ij->ti", U[:, :4], B, A, Vt[:4])

    truth = strengths(one.times)
    np.testing.assert_allclose(one.limit, s, rtol=1e-12)
    np.testing.assert_allclose(one.flow, truth, atol=1e-7)
    errors = [np.abs(curve - truth).max() / s[0] for curve in (one.closed, one.corrected)]
    np.testing.assert_allclose(one.mode_errors, errors, atol=1e-6)
    assert 0 < errors[1] < 0.5 * errors[0] < 0.03
    fine = np.linspace(0, one.times[-1], 20_001)
    done = (strengths(fine) - truth[0]) / (s - truth[0])
    half = fine[np.argmax(done >= 0.5, axis=0)]
    np.testing.assert_allclose(one.half_times[0], half, rtol=1e-4, atol=fine[1])


def test_modes_that_hardly_move_have_no_half_time_error():
    one = compare(problem("5 → 4", "keras", 20, 1.0, seed=0))
    way = np.abs(one.limit - one.flow[0])
    assert (np.isnan(one.half_time_errors[0]) == (way < 0.1 * way.max())).all() and np.isnan(one.half_time_errors).any()


@pytest.mark.long
def test_table_is_that_of_the_figure_and_of_the_page():
    data = fig_random_errors.compute(tasks=("5 → 4",), widths=(50, 200), seeds=1)
    lines = list(table.tables(data))
    assert lines[0] == "| 5 → 4 | weights | h = 50 | h = 200 |" and len(lines) == 2 + 3 * 3 * 2 + 1
    first = data.mode_error.isel(task=0, initialisation=0, scale=0, width=0, seed=0).values
    assert lines[2].startswith(f"| modes | Gaussian × 0.05 | {table.cell(*first)} | ")


@pytest.mark.long
def test_the_page_prints_what_is_found():
    """One cell anew: ten small Gaussian networks on the first task."""
    off = np.median([compare(problem("5 → 4", "gaussian", 200, 0.05, seed)).mode_errors for seed in range(10)], axis=0)
    row = next(x for x in PAGE.read_text(encoding="utf-8").splitlines() if x.startswith("| modes | Gaussian × 0.05 |"))
    closed, corrected = (float(number) / 100 for number in row.split("|")[5].split("/"))
    assert closed == pytest.approx(off[0], rel=0.03)
    assert corrected == pytest.approx(off[1], rel=0.3)  # at the tolerance of the integration
