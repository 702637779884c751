"""Each mode of a random initialisation by itself: exact where nothing couples, and an error that is what it says."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import lazyrich as lr
from lazyrich.methods.decoupled import Decoupled
from lazyrich.prediction.by_modes import by_modes


def default_weights(rng, kind, sizes, scale):
    d_in, h, d_out = sizes
    if kind == "gaussian":
        return [scale * rng.normal(size=(h, d_in)) / np.sqrt(h), scale * rng.normal(size=(d_out, h)) / np.sqrt(h)]
    if kind == "pytorch":  # uniform within 1/√fan_in
        bounds = (1 / np.sqrt(d_in), 1 / np.sqrt(h))
    else:  # Keras: Glorot's uniform
        bounds = (np.sqrt(6 / (d_in + h)), np.sqrt(6 / (h + d_out)))
    return [scale * b * rng.uniform(-1, 1, size=s) for b, s in zip(bounds, ((h, d_in), (d_out, h)), strict=True)]


def drawn(rng, largest=20):
    sizes = (int(rng.integers(2, largest + 1)), int(10 ** rng.uniform(1, 3)), int(rng.integers(1, largest // 2 + 1)))
    weights = default_weights(rng, rng.choice(["gaussian", "pytorch", "keras"]), sizes, 10 ** rng.uniform(-2.5, 0.7))
    sigma = rng.normal(size=(sizes[2], sizes[0])) / np.sqrt(sizes[0])
    return lr.Problem(lr.Task.from_correlations(sigma), lr.Network(weights))


def integrated(problem, times):
    """The function at each time, from the blocks of QQᵀ by SciPy."""
    W1, W2 = problem.network.weights
    S, (out, into) = problem.task.sigma_yx, problem.task.sigma_yx.shape

    def split(y):
        A, P, R = np.split(y, [out * into, out * into + into * into])
        return A.reshape(out, into), P.reshape(into, into), R.reshape(out, out)

    def velocity(_, y):
        A, P, R = split(y)
        E = S - A
        return np.concatenate([x.ravel() for x in (R @ E + E @ P, A.T @ E + E.T @ A, A @ E.T + E @ A.T)])

    y0 = np.concatenate([x.ravel() for x in (W2 @ W1, W1.T @ W1, W2 @ W2.T)])
    atol = 1e-13 * np.abs(y0).max()
    run = solve_ivp(velocity, (0, times[-1]), y0, method="DOP853", rtol=1e-9, atol=atol, t_eval=times)
    return np.array([split(y)[0] for y in run.y.T])


def errors(problem):
    """(error of the closed form, its estimate), (error of the corrected curves and their loss, its estimate)."""
    found = by_modes(problem, None)
    times, truth = found.trajectory.times, integrated(problem, found.trajectory.times)
    fit, m = problem.alignment, len(problem.alignment.s)
    strengths = np.sum(fit.U[:, :m] * (truth @ fit.V[:, :m]), axis=1)
    corrected = np.sum(fit.U[:, :m] * (found.trajectory.function @ fit.V[:, :m]), axis=1)
    loss = problem.task.loss(truth)
    size = np.abs(strengths).max()
    alone = np.abs(found.closed_form.strengths(times) - strengths).max() / size
    with_couplings = max(
        np.abs(corrected - strengths).max() / size, np.abs(found.trajectory.loss - loss).max() / loss.max()
    )
    return (alone, found.closed_form.error), (with_couplings, found.error)


def assert_calibrated(pairs):
    """The true error is below the estimate in nine of ten cases, and half of the estimates are within five times."""
    true, estimate = np.array(pairs).T
    counted = true > 1e-7  # one input and one output couple nothing: both are rounding
    assert np.mean(true <= estimate) >= 0.9
    assert np.median(estimate[counted] / true[counted]) <= 5


@pytest.mark.long
def test_the_error_of_the_closed_form_is_calibrated():
    assert_calibrated([errors(drawn(np.random.default_rng([31, seed]), largest=8))[0] for seed in range(20)])


@pytest.mark.slow
def test_the_estimates_are_calibrated_on_a_thousand_problems():
    alone, corrected = zip(*(errors(drawn(np.random.default_rng([32, seed]))) for seed in range(1000)), strict=True)
    assert_calibrated(alone)
    assert_calibrated(corrected)


@pytest.mark.parametrize("seed", range(6))
def test_exact_where_nothing_couples(seed):
    """P, R and A diagonal in the task's vectors, layer rates and input scale: the theorem of `modes`."""
    rng = np.random.default_rng([33, seed])
    task = lr.Task.from_correlations(0.5 * rng.normal(size=(3, 4)), 0.5 * np.eye(4))
    network = lr.inits.aligned(rng, task, hidden=6, strengths=[0.3, -0.1, 0.01], lam=[0.0, 2.0, -0.5])
    problem = lr.Problem(task, network, rates=(1.0, 0.5) if seed % 2 else None)
    if seed % 2:
        network = lr.Network([W / np.sqrt(eta) for W, eta in zip(network.weights, (0.5, 1.0), strict=True)])
        problem = lr.Problem(task, network, rates=(1.0, 0.5))
    times = np.array([0.0, 0.3, 1.0, 10.0])
    exact = lr.observables.mode_strengths(lr.solve(problem, times, method="modes"))
    modes = Decoupled(problem)
    np.testing.assert_allclose(modes.strengths(times), exact, rtol=0, atol=1e-12)
    coupled = modes.coupled(np.linspace(0.0, 10.0, 50), np.arange(50))
    assert np.abs(coupled.correction).max() < 1e-20


@pytest.mark.long
@pytest.mark.parametrize("sizes", [(4, 300, 3), (3, 300, 5)])
def test_couplings_are_right_to_their_order(sizes):
    """Halving what couples halves it: the closed form is off at second order, the corrected curves at third or more."""
    off = []
    for part in (1.0, 0.5):
        rng = np.random.default_rng(34)
        W1, W2 = default_weights(rng, "gaussian", sizes, 0.7)
        # layers whose diagonal parts stay, with only `part` of what lies off them
        frame = np.linalg.qr(rng.normal(size=(sizes[1], sizes[0] + sizes[2])))[0]
        straight = [0.6 * frame[:, : sizes[0]].T, 0.6 * frame[:, sizes[0] :].T]
        weights = [straight[0].T + 0.2 * part * W1, straight[1] + 0.2 * part * W2]
        sigma = np.zeros((sizes[2], sizes[0]))
        np.fill_diagonal(sigma, [1.5, 1.0, 0.5])
        problem = lr.Problem(lr.Task.from_correlations(sigma), lr.Network(weights))
        times = np.linspace(0.0, 6.0, 2001)
        modes, truth = Decoupled(problem), integrated(problem, times)
        coupled = modes.coupled(times, np.arange(len(times)))
        true = np.array([np.diag(A)[:3] for A in truth])
        alone = modes.strengths(times)
        off.append(
            [
                np.abs(alone - true).max(),
                np.abs(alone + coupled.correction - true).max(),
                np.abs(coupled.function - truth).max(),
            ]
        )
    first, second = off
    assert 3.3 < first[0] / second[0] < 4.8  # second order
    assert first[1] / second[1] > 6.5 and first[1] < 0.2 * first[0]  # third, or better
    assert first[2] / second[2] > 3.3  # entries that couple: first order right
