"""The decoupling matrix and the peak of its off-diagonals, against sums and against direct integration."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from oracles import integrate
from problems import SEEDS, piecewise_linear, sampled, solved

import lazyrich as lr
from lazyrich.observables.decoupling import coupling, decoupling, peak_time


def by_hand(W1, W2, sigma_yx):
    """½ (p_α·p_β + q_α·q_β), p_α = W1 v_α, q_α = W2ᵀ u_α, one pair of modes after the other."""
    U, s, Vt = np.linalg.svd(sigma_yx, full_matrices=False)
    P, Q = [W1 @ v for v in Vt], [W2.T @ u for u in U.T]
    m = range(len(s))
    return np.array([[(P[i] @ P[j] + Q[i] @ Q[j]) / 2 for j in m] for i in m])


def both_layers(seed):
    return sampled(seed, depth=2)


@pytest.mark.parametrize("kind", [solved, both_layers])
def test_against_sums_over_hidden_units(kind):
    for seed in SEEDS:
        traj = kind(seed)
        got, fraction = decoupling(traj), coupling(traj)
        W1, W2 = (kind(seed) if kind is solved else traj).weights  # measured through QQᵀ where that is the cheaper way
        for i in range(len(traj.times)):
            expected = by_hand(W1[i], W2[i], traj.problem.task.sigma_yx)
            size = np.linalg.norm(expected)
            assert np.linalg.norm(got[i] - expected) <= 1e-10 * size
            off = [expected[a, b] for a, b in np.ndindex(expected.shape) if a != b]
            assert fraction[i] == pytest.approx(np.linalg.norm(off) / size, rel=1e-10, abs=1e-14)


def test_it_is_a_transpose_a_of_theorem_5_1(rng):
    """W1 = AṼᵀ, W2 = ŨAᵀ: [e^{−St}(AᵀA)⁻¹e^{−St} + (I − e^{−2St})S⁻¹]⁻¹, written out here."""
    s, A = np.array([3.0, 2.0, 0.5]), rng.normal(size=(4, 3))
    U, V = (np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in "uv")
    sigma_yx, times = U @ np.diag(s) @ V.T, np.array([0.0, 0.2, 1.0, 5.0])
    traj = lr.solve(lr.Problem(lr.Task.from_correlations(sigma_yx), lr.Network([A @ V.T, U @ A.T])), times)
    u = np.linalg.svd(sigma_yx)[0]
    sign = np.sign(np.sum(u * U, axis=0))  # the sign of (u, v) is free, and b has it
    for t, got in zip(times, decoupling(traj), strict=True):
        e = np.diag(np.exp(-s * t))
        expected = np.linalg.inv(e @ np.linalg.inv(A.T @ A) @ e + np.diag((1 - np.exp(-2 * s * t)) / s))
        np.testing.assert_allclose(got, expected * np.outer(sign, sign), rtol=1e-10, atol=1e-12)


def test_zero_weights_and_one_mode():
    task = lr.Task.from_correlations([[1.0, 0.5]])
    traj = lr.solve(lr.Problem(task, lr.Network([np.zeros((3, 2)), np.zeros((1, 3))])), [0.0, 1.0])
    assert not decoupling(traj).any() and not coupling(traj).any()


def coupled(problem, t, pair=(0, 1)):
    """b and its slope at time t, by integration and the flow equations alone."""
    task, net, (eta1, eta2) = problem.task, problem.network, problem.rates
    W1, W2 = (W[-1] for W in integrate.weights(net.weights, task.sigma_yx, task.sigma_xx, [t], problem.rates))
    E = task.sigma_yx - W2 @ W1 @ task.sigma_xx
    dW1, dW2 = eta1 * W2.T @ E, eta2 * E @ W1.T
    U, _, Vt = np.linalg.svd(task.sigma_yx, full_matrices=False)
    (u, x), (v, y) = (U[:, k] for k in pair), (Vt[k] for k in pair)
    b = ((W1 @ v) @ (W1 @ y) + (W2.T @ u) @ (W2.T @ x)) / 2
    return b, ((dW1 @ v) @ (W1 @ y) + (W1 @ v) @ (dW1 @ y) + (dW2.T @ u) @ (W2.T @ x) + (W2.T @ u) @ (dW2.T @ x)) / 2


def is_peak(problem, t, pair=(0, 1)):
    """The slope vanishes there, and |b| is nowhere larger."""
    b, slope = coupled(problem, t, pair)
    rate = problem.task.modes.s[0] * max(problem.rates)
    assert abs(slope) <= 1e-8 * rate * abs(b)
    times = np.linspace(0, 3 * t, 60)
    U, _, Vt = np.linalg.svd(problem.task.sigma_yx, full_matrices=False)
    (i, j), d_in = pair, problem.task.d_in
    G = integrate.gram(problem.network.weights, problem.task.sigma_yx, problem.task.sigma_xx, times, problem.rates)
    curve = (Vt[i] @ G[:, :d_in, :d_in] @ Vt[j] + U[:, i] @ G[:, d_in:, d_in:] @ U[:, j]) / 2
    assert np.abs(curve).max() <= abs(b) * (1 + 1e-9)
    assert abs(b) > np.abs(curve[0])


@pytest.mark.parametrize("scale", [0.01, 0.3])
def test_the_peak_of_two_equal_modes_has_a_closed_form(rng, scale):
    s, A = 5.0, scale * rng.normal(size=(2, 2))
    problem = lr.Problem(lr.Task.from_correlations(s * np.eye(2)), lr.Network([A, A.T]))
    (a1, b), (_, a2) = A.T @ A
    determinant = a1 * a2 - b**2
    peak = peak_time(problem)
    exact = math.log((s * s - s * (a1 + a2) + determinant) / determinant) / (4 * s)
    assert peak == pytest.approx(exact, rel=1e-12)
    is_peak(problem, peak)


def test_peaks_of_equal_modes_in_fifty_digits():
    """From the weights as they are given: Δ in double precision would cancel where columns are almost parallel."""
    for seed in SEEDS:
        rng = np.random.default_rng((9, seed))
        s, A = rng.uniform(1, 6), 10 ** rng.uniform(-4, -0.8) * rng.normal(size=(2, 2))
        A[:, 1] += A[:, 0] * [0.0, 30.0][seed % 2]
        peak = peak_time(lr.Problem(lr.Task.from_correlations(s * np.eye(2)), lr.Network([A, A.T])))
        with mpmath.workdps(50):
            M, rate = mpmath.matrix(A.tolist()), mpmath.mpf(s)
            G, D = M.T * M, mpmath.det(M) ** 2
            left = rate - G[0, 0] - G[1, 1]
            exact = mpmath.log((rate * left + D) / D) / (4 * rate) if left > 0 else mpmath.nan
        np.testing.assert_allclose(peak, float(exact), rtol=1e-10)


def test_equal_modes_with_rates_and_scaled_inputs(rng):
    """Units only: the time of the peak is still that of the flow."""
    rates, c = (0.5, 2.0), 0.125
    A = 0.1 * rng.normal(size=(3, 2))
    network = lr.Network([np.sqrt(rates[0]) * A, np.sqrt(rates[1]) * A.T])
    task = lr.Task.from_correlations(2 * np.eye(2), c * np.eye(2))
    problem = lr.Problem(task, network, rates=rates)
    is_peak(problem, peak_time(problem))


@pytest.mark.long
def test_any_two_modes_of_any_start_with_a_solution():
    """Unequal modes, unequal sizes, λ ≠ 0, layer rates: where the slope passes zero."""
    found = 0
    for seed in SEEDS:
        rng = np.random.default_rng((7, seed))
        d_in, d_out = (int(n) for n in rng.integers(2, 5, size=2))
        lam = [0.0, 0.3, -0.3][seed % 3]
        h = 2 if lam else int(rng.integers(2, 6))
        network = lr.inits.lambda_balanced(rng, sizes=(d_in, h, d_out), lam=lam, scale=0.05)
        problem = lr.Problem(lr.Task.from_correlations(rng.normal(size=(d_out, d_in))), network)
        peak = peak_time(problem)
        if math.isfinite(peak) and peak < 20:
            found += 1
            is_peak(problem, peak)
    assert found >= 30


def test_the_search_agrees_with_the_closed_form(rng):
    """Modes that differ by 1e-9 have no closed form, and must peak at the same time up to that."""
    A = 0.2 * rng.normal(size=(2, 2))
    times = [
        peak_time(lr.Problem(lr.Task.from_correlations(np.diag([2.0 + change, 2.0])), lr.Network([A, A.T])))
        for change in (0.0, 1e-9)
    ]
    assert times[1] == pytest.approx(times[0], rel=1e-8)


def test_another_pair_of_modes(rng):
    task = lr.Task.from_correlations(np.diag([3.0, 2.0, 1.0]))
    problem = lr.Problem(task, lr.inits.zero_balanced(rng, sizes=(3, 4, 3), scale=0.05))
    is_peak(problem, peak_time(problem, (2, 0)), (2, 0))


def test_no_peak_and_a_peak_that_never_comes(rng):
    big = 5 * np.array([[1.0, 0.3], [0.2, 1.0]])
    for target in (np.eye(2), np.diag([2.0, 1.0])):  # large weights: the coupling fades from the start
        assert math.isnan(peak_time(lr.Problem(lr.Task.from_correlations(target), lr.Network([big, big.T]))))
    task = lr.Task.from_correlations(np.diag([2.0, 1.0]))
    assert math.isnan(peak_time(lr.Problem(task, lr.Network([0.1 * np.eye(2)] * 2))))  # decoupled as it is
    one = 0.1 * np.array([[1.0, 0.5]])  # one hidden unit learns one mixture of two equal modes, and keeps it
    kept = peak_time(lr.Problem(lr.Task.from_correlations(2 * np.eye(2)), lr.Network([one, one.T])))
    assert kept == math.inf
    skew = lr.Network([one, one.T * 1.0000001])  # off Braun's setting, the search must find the same
    assert peak_time(lr.Problem(lr.Task.from_correlations(2 * np.eye(2)), skew)) == math.inf


def test_to_xarray_names_the_axes():
    data = solved(2).to_xarray("decoupling", "coupling")
    assert data.decoupling.dims == ("time", "mode", "mode_") and data.coupling.dims == ("time",)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: decoupling(piecewise_linear(0)), "decoupling belongs to linear networks, and this one is relu."),
        (lambda: coupling(sampled(0, depth=3)), "coupling belongs to two layers, and this network has 3."),
        (lambda: decoupling("W"), "traj must be a lazyrich Trajectory, and it is a str"),
        (
            lambda: peak_time("W"),
            "problem must be a lazyrich Problem, and it is a str: ",
        ),
        (lambda: peak_time(solved(4).problem, (0, 9)), "pair must hold two different modes from 0 to"),
        (lambda: peak_time(solved(4).problem, (0, 0)), "and it is (0, 0)."),
        (
            lambda: peak_time(solved(4).problem, 3),
            "pair must hold the numbers of two modes, such as (0, 1), and it is 3.",
        ),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_what_does_not_exist_is_refused(call, says):
    with pytest.raises(lr.InvalidInput) as caught:
        call()
    assert says in str(caught.value)


def test_where_there_is_no_solution_it_says_why():
    with pytest.raises(lr.NoExactSolution, match="riccati: it needs whitened inputs"):
        peak_time(both_layers(1).problem)
