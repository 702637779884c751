"""The papers' own formulas: against `solve` and the oracles, where they lose digits, and what is misprinted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from methods.families import relative_errors
from mpmath import mp
from oracles import integrate, riccati_mp
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

import lazyrich as lr
from lazyrich.methods.deep_modes import deep_mode_strength
from lazyrich.papers.braun2022 import formulas as braun2022
from lazyrich.papers.kunin2024 import formulas as kunin2024
from lazyrich.papers.saxe2014 import formulas as saxe2014

TIMES = np.array([0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0, 300.0])


def solved(W1, W2, sigma_yx, times, **options) -> lr.Trajectory:
    problem = lr.Problem(lr.Task.from_correlations(sigma_yx), lr.Network([W1, W2]), **options)
    return lr.solve(problem, times, method="riccati")


def sign_of_determinants(W1, W2, sigma_yx) -> float:
    return np.linalg.slogdet(W2 @ W1)[0] * np.linalg.slogdet(sigma_yx)[0]


def zero_balanced(rng, kind: str, sign: int = 1):
    """W1, W2 and Σyx of unit norm; square ones on the asked side of the separatrix."""
    small, large = np.sort(rng.choice(np.arange(1, 8), size=2, replace=False))
    d_in, d_out = {"square": (small, small), "more inputs": (large, small), "more outputs": (small, large)}[kind]
    h = int(rng.integers(small, 10))
    W1, W2 = lr.inits.zero_balanced(rng, sizes=(d_in, h, d_out), scale=10 ** rng.uniform(-6, 0)).weights
    sigma_yx = rng.normal(size=(d_out, d_in))
    if kind == "square" and sign_of_determinants(W1, W2, sigma_yx) != sign:
        sigma_yx[0] *= -1
    return W1, W2, sigma_yx / np.linalg.norm(sigma_yx, 2)


# Braun et al. 2022


@pytest.mark.parametrize("kind", ["square", "more inputs", "more outputs"])
def test_theorem_3_1_is_the_closed_form(rng, kind):
    checked = 0
    while checked < 30:
        W1, W2, sigma_yx = zero_balanced(rng, kind)
        made_of = braun2022.alignment_matrices(W1, W2, sigma_yx)
        spread = made_of.S[0] / made_of.S[-1] + made_of.S_tilde[0] / made_of.S_tilde[-1]
        loss = np.linalg.norm(np.linalg.inv(made_of.B), 2) ** 2 * spread  # of digits, as the docstring says
        error = relative_errors(
            braun2022.theorem_3_1(W1, W2, sigma_yx, TIMES), solved(W1, W2, sigma_yx, TIMES).gram
        ).max()
        assert error <= 2e-14 * loss
        if loss < 5e3:
            assert error <= 1e-10
            checked += 1


def test_theorem_3_1_against_mpmath(rng):
    for kind in ("square", "more inputs", "more outputs"):
        W1, W2, sigma_yx = zero_balanced(rng, kind)
        B = braun2022.alignment_matrices(W1, W2, sigma_yx).B
        exact = riccati_mp.gram_float(W1, W2, sigma_yx, TIMES[:-1], lam=0)
        error = relative_errors(braun2022.theorem_3_1(W1, W2, sigma_yx, TIMES[:-1]), exact).max()
        assert error <= 1e-13 * np.linalg.norm(np.linalg.inv(B), 2) ** 2


def test_half_of_all_square_starts_have_no_theorem_3_1(rng):
    refused = 0
    for _ in range(60):
        size = int(rng.integers(1, 7))
        W1, W2 = lr.inits.zero_balanced(rng, sizes=(size, 8, size), scale=0.1).weights
        sigma_yx = rng.normal(size=(size, size))
        if sign_of_determinants(W1, W2, sigma_yx) > 0:
            assert np.isfinite(braun2022.theorem_3_1(W1, W2, sigma_yx, [1.0])).all()
            continue
        refused += 1
        with pytest.raises(lr.InvalidInput, match=r"B singular .* the start lies on the separatrix.*lr\.solve"):
            braun2022.theorem_3_1(W1, W2, sigma_yx, [1.0])
        missed = solved(W1, W2, sigma_yx, [1e6]).function[0] - sigma_yx  # Theorem 3.2 says 0
        np.testing.assert_allclose(np.linalg.norm(missed), np.linalg.svd(sigma_yx)[1][-1], rtol=1e-9)
    assert 15 <= refused <= 45


def test_the_complements_belong_to_the_larger_side(rng):
    """Ũ⊥ ∈ N_o × (N_o − N_i) goes with N_o > N_i; the paper prints N_i > N_o for it too."""
    for kind, columns in (
        ("square", (False, False)),
        ("more inputs", (False, True)),
        ("more outputs", (True, False)),
    ):
        W1, W2, sigma_yx = zero_balanced(rng, kind)
        made_of = braun2022.alignment_matrices(W1, W2, sigma_yx)
        assert (made_of.U_perp.shape[1] > 0, made_of.V_perp.shape[1] > 0) == columns
        for perp, tilde in ((made_of.U_perp, made_of.U_tilde), (made_of.V_perp, made_of.V_tilde)):
            whole = np.hstack([tilde, perp])
            np.testing.assert_allclose(whole.T @ whole, np.eye(len(tilde)), atol=1e-14)
        np.testing.assert_allclose((made_of.U * made_of.S) @ made_of.V.T, W2 @ W1, atol=1e-14)
        np.testing.assert_allclose(made_of.B + made_of.C, 2 * made_of.U.T @ made_of.U_tilde, atol=1e-14)
        np.testing.assert_allclose(made_of.B - made_of.C, 2 * made_of.V.T @ made_of.V_tilde, atol=1e-14)


@pytest.mark.parametrize("sign", [1, -1])
def test_fukumizu_is_the_closed_form(rng, sign):
    """On the separatrix too (sign −1)."""
    times = np.array([0.0, 0.01, 0.1, 1.0, 3.0, 5.0])
    for _ in range(30):
        W1, W2, sigma_yx = zero_balanced(rng, "square", sign)
        exact = solved(W1, W2, sigma_yx, times).gram
        assert relative_errors(braun2022.fukumizu(W1, W2, sigma_yx, times), exact).max() <= 1e-10


def test_fukumizu_loses_its_digits_as_the_exponentials_grow():
    W1, W2 = lr.inits.zero_balanced(0, sizes=(5, 5, 5), scale=1.0).weights
    sigma_yx = np.diag([1.0, 0.8, 0.6, 0.4, 0.2 * np.sign(np.linalg.det(W2 @ W1))])
    times = np.array([5.0, 12.0, 25.0])
    early, late, last = relative_errors(
        braun2022.fukumizu(W1, W2, sigma_yx, times), solved(W1, W2, sigma_yx, times).gram
    )
    assert early < 1e-12 < late < 1e-6 and last > 1e-3
    with pytest.raises(lr.InvalidInput, match=r"times must end earlier than 100, where rounding has made the bracket"):
        braun2022.fukumizu(np.ones((2, 2)), np.ones((2, 2)), np.diag([1.0, 0.5]), [100.0])


def test_theorem_5_1_is_the_closed_form(rng):
    for _ in range(30):
        m = int(rng.integers(1, 7))
        A0 = rng.normal(size=(int(rng.integers(m, 9)), m)) * 10 ** rng.uniform(-4, 0.5)
        U, V = (np.linalg.qr(rng.normal(size=(m, m)))[0] for _ in range(2))
        s = np.sort(rng.uniform(0.2, 2.0, size=m))[::-1]
        W1, W2, sigma_yx = A0 @ V.T, U @ A0.T, (U * s) @ V.T
        both = np.vstack([V, U])
        gram = both @ braun2022.theorem_5_1(A0, s, TIMES) @ both.T
        error = relative_errors(gram, solved(W1, W2, sigma_yx, TIMES).gram).max()
        assert error <= 1e-15 * max(1e2, np.linalg.cond(A0) ** 2)
        made_of = braun2022.alignment_matrices(W1, W2, sigma_yx)
        np.testing.assert_allclose(made_of.U @ made_of.V.T, U @ V.T, atol=1e-15 * np.linalg.cond(A0) ** 2)
        np.testing.assert_allclose(np.linalg.svd(made_of.B)[1], 2.0, atol=1e-15 * np.linalg.cond(A0) ** 2)


def random_gram_2x2(rng, scale):
    A0 = rng.normal(size=(3, 2)) * scale
    (a1, b), (_, a2) = A0.T @ A0
    return A0, (a1, a2, b)


def test_two_modes_written_out(rng):
    for _ in range(30):
        A0, start = random_gram_2x2(rng, 10 ** rng.uniform(-4, 0.5))
        s1, s2 = rng.uniform(0.2, 2.0, size=2)
        modes = braun2022.decoupling_2x2(*start, s1, s2, TIMES)
        whole = braun2022.theorem_5_1(A0, [s1, s2], TIMES)
        rtol, sizes = 1e-14 * np.linalg.cond(A0) ** 2, np.abs(whole).max(axis=(1, 2))
        for mode, (i, j) in ((modes.a1, (0, 0)), (modes.a2, (1, 1)), (modes.b, (0, 1))):
            off = np.abs(mode - whole[:, i, j])  # b is a difference, and its rounding that of a1 and a2
            assert np.all(off <= rtol * np.abs(mode) + 1e-15 * sizes)


def test_the_coupling_peaks_where_the_exact_formula_says(rng):
    peaks = 0
    for _ in range(40):
        _, start = random_gram_2x2(rng, 10 ** rng.uniform(-2, 0.5))
        s = rng.uniform(0.5, 2.0)
        coupling = lambda t, start=start, s=s: abs(braun2022.decoupling_2x2(*start, s, s, t).b)
        peak = braun2022.t_peak(*start, s)
        assert math.isnan(peak) == math.isnan(braun2022.t_peak_as_printed(*start, s)) == (s <= start[0] + start[1])
        if math.isnan(peak):
            assert np.all(np.diff(coupling(np.linspace(0, 3, 50))) < 0)
            continue
        found = minimize_scalar(lambda t, f=coupling: -f(t)[0], bounds=(0, 3 * peak), options={"xatol": 1e-12}).x
        np.testing.assert_allclose(peak, found, rtol=1e-6, atol=1e-7)
        peaks += 1
    assert 5 < peaks < 35


def test_the_printed_peak_holds_for_small_starts_only():
    start, s = np.array([1.0, 2.0, 0.5]), 1.0
    small, large = 1e-4 * start, 0.3 * start
    exact, printed = braun2022.t_peak(*small, s), braun2022.t_peak_as_printed(*small, s)
    assert 0 < exact - printed < 1e-8
    exact, printed = braun2022.t_peak(*large, s), braun2022.t_peak_as_printed(*large, s)
    assert exact > 0 > printed  # before the start
    assert braun2022.t_peak(1e-3, 1e-3, 1e-3, s) == math.inf


def test_equation_15_holds_before_saturation_only():
    a1, a2, b, s = 1e-4, 2e-4, 5e-5, 1.0
    early = np.linspace(0.0, 1.0, 20)
    exact = braun2022.decoupling_2x2(a1, a2, b, s, s, early).a1
    np.testing.assert_allclose(braun2022.equation_15(a1, a2, s, early), exact, rtol=5e-3)
    assert braun2022.equation_15(a1, a2, s, [100.0])[0] == pytest.approx(s / 3)
    assert braun2022.decoupling_2x2(a1, a2, b, s, s, [100.0]).a1[0] == pytest.approx(s)


def test_reversed_modes_decay_to_zero(rng):
    for _ in range(30):
        m = int(rng.integers(1, 6))
        U, V = (np.linalg.qr(rng.normal(size=(m, m)))[0] for _ in range(2))
        s, s_tilde = rng.uniform(0.2, 2.0, size=m), rng.uniform(0.5, 1.5) * np.linspace(2.0, 0.4, m)
        right = rng.random(m) < 0.5
        R = np.linalg.qr(rng.normal(size=(m + 2, m)))[0] * np.sqrt(s)
        W1, W2, sigma_yx = R @ V.T, (U * np.where(right, 1, -1)) @ R.T, (U * s_tilde) @ V.T
        out, into = np.where(right, 1.0, -1.0), np.ones(m)  # diagonals of UᵀŨ and VᵀṼ
        w = braun2022.reversal(out + into, out - into, s, s_tilde, TIMES)
        problem = lr.Problem(lr.Task.from_correlations(sigma_yx), lr.Network([W1, W2]))
        function = U.T @ lr.solve(problem, TIMES[:-1], method="modes").function @ V
        np.testing.assert_allclose(w[:-1], np.diagonal(function, axis1=1, axis2=2), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(w[-1], np.where(right, s_tilde, 0.0), atol=1e-13)


def test_braun_says_which_assumption_fails(rng):
    W1, W2, sigma_yx = zero_balanced(rng, "more inputs")
    with pytest.raises(lr.InvalidInput, match=r"sigma_yx must be square and of full rank, so that F is invertible"):
        braun2022.fukumizu(W1, W2, sigma_yx, [1.0])
    for theorem in (braun2022.theorem_3_1, braun2022.fukumizu):
        with pytest.raises(lr.InvalidInput, match=r"must be zero-balanced.*off by 0\.\d+ of their size"):
            theorem([[1.0]], [[2.0]], [[1.0]], [1.0])
        with pytest.raises(lr.InvalidInput, match="W2 must have shape any × 2, and it has 1 × 1"):
            theorem(np.ones((2, 1)), [[2.0]], [[1.0]], [1.0])
    with pytest.raises(lr.InvalidInput, match=r"sigma_yx must have full rank 2 .*and it has 1"):
        braun2022.theorem_3_1(np.eye(2), np.eye(2), np.ones((2, 2)), [1.0])
    with pytest.raises(lr.InvalidInput, match=r"W2 W1 must have full rank 2 .*and it has 1"):
        braun2022.theorem_3_1(np.ones((1, 2)), np.ones((2, 1)), np.eye(2), [1.0])
    with pytest.raises(lr.InvalidInput, match=r"times must end before 350, .* and the last is 1000"):
        braun2022.fukumizu(np.eye(2), np.eye(2), np.eye(2), [1000.0])
    with pytest.raises(lr.InvalidInput, match="A0 must have 2 independent columns, and its rank is 1"):
        braun2022.theorem_5_1(np.ones((3, 2)), [2.0, 1.0], [1.0])
    with pytest.raises(lr.InvalidInput, match="s must hold singular values above 0, and the least is 0"):
        braun2022.theorem_5_1(np.eye(2), [2.0, 0.0], [1.0])
    with pytest.raises(lr.InvalidInput, match="b must lie within ±√"):
        braun2022.t_peak(1.0, 1.0, 2.0, 3.0)
    with pytest.raises(lr.InvalidInput, match="b and c must be ±2 and 0, or 0 and ±2, in every mode"):
        braun2022.reversal(1.0, 1.0, 1.0, 1.0, [1.0])


# Kunin et al. 2024


def random_neuron(rng, sign_of_delta: int):
    """a0, w0 and β*, dimension 1 to 5; half of the starts have a0 < 0."""
    d = int(rng.integers(1, 6))
    beta_star, beta0 = rng.normal(size=d), rng.normal(size=d) * 10 ** rng.uniform(-4, 0.5)
    delta = sign_of_delta * 10 ** rng.uniform(-2, 1.5)
    w0, a0 = lr.inits.single_neuron(beta0, delta=delta, sign=int(rng.choice([-1, 1]))).weights
    return float(a0[0, 0]), w0[0], beta_star


def neurons(rng, case: str, number: int = 40):
    """Starts of one case; those too near the separatrix, where digits are lost, are left out."""
    found = []
    while len(found) < number:
        a0, w0, beta_star = random_neuron(rng, {"balanced": 0, "upstream": 1}.get(case, -1))
        crosses = kunin2024.basin(a0, w0, beta_star) != np.sign(a0)
        size = np.linalg.norm(w0) * np.linalg.norm(beta_star)
        cosine = np.sign(a0) * w0 @ beta_star / size
        near = abs(cosine) < 1e-2 or (case == "balanced" and cosine < -0.999)
        if crosses == (case == "crossing") and not near:
            found.append((a0, w0, beta_star))
    return found


def gram_of(path: kunin2024.SingleNeuron) -> np.ndarray:
    Q = np.hstack([path.w, path.a[:, None]])
    return Q[:, :, None] * Q[:, None, :]


@pytest.mark.parametrize("case", ["balanced", "upstream", "downstream", "crossing"])
def test_one_neuron_is_the_closed_form(rng, case):
    for a0, w0, beta_star in neurons(rng, case):
        path = kunin2024.single_neuron(a0, w0, beta_star, TIMES)
        traj = solved(w0[None], [[a0]], beta_star[None], TIMES)
        assert relative_errors(gram_of(path), traj.gram).max() <= 1e-12
        np.testing.assert_allclose(path.beta, traj.function[:, 0], atol=1e-12 * np.abs(traj.function).max())
        assert np.sign(path.a[-1]) == kunin2024.basin(a0, w0, beta_star) == (-1) ** (case == "crossing") * np.sign(a0)


@pytest.mark.parametrize("case", ["balanced", "upstream", "downstream", "crossing"])
def test_one_neuron_against_integration_and_mpmath(rng, case):
    times = TIMES[:7]
    for a0, w0, beta_star in neurons(rng, case, 4):
        path = kunin2024.single_neuron(a0, w0, beta_star, times)
        w, a = integrate.weights([w0[None], [[a0]]], beta_star[None], None, times)
        np.testing.assert_allclose(path.a, a[:, 0, 0], rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(path.w, w[:, 0], rtol=1e-8, atol=1e-9)
        with mp.workdps(60):
            delta = mp.mpf(a0) ** 2 - sum(mp.mpf(float(x)) ** 2 for x in w0)
        exact = riccati_mp.gram_float(w0[None], [[a0]], beta_star[None], times, lam=delta)
        assert relative_errors(gram_of(path), exact).max() <= 1e-12


@pytest.mark.parametrize("case", ["balanced", "upstream", "downstream", "crossing"])
def test_one_neuron_with_layer_rates(rng, case):
    """What is balanced, and what the paper's ν, a and ‖w‖ stand for, is √η_w a against √η_a w."""
    for a0, w0, beta_star in neurons(rng, case, 30):
        eta_a = 10 ** rng.uniform(-1, 1)
        eta_w = 1 / eta_a
        a0, w0 = a0 / np.sqrt(eta_w), w0 / np.sqrt(eta_a)
        path = kunin2024.single_neuron(a0, w0, beta_star, TIMES, eta_a, eta_w)
        traj = solved(w0[None], [[a0]], beta_star[None], TIMES, rates=(eta_w, eta_a))
        assert relative_errors(gram_of(path), traj.gram).max() <= 1e-12
        np.testing.assert_allclose(path.nu, eta_a * path.w @ beta_star / path.a, rtol=1e-12)
        delta = kunin2024.conserved(a0, w0, eta_a, eta_w)
        kappas = np.array([kunin2024.kappa(beta, delta) for beta in path.beta])
        np.testing.assert_allclose(eta_w * path.a**2 + eta_a * np.sum(path.w**2, axis=1), kappas, rtol=1e-12)
        as_printed = np.sign(path.mu) * np.sqrt((kappas + delta) / 2)
        np.testing.assert_allclose(as_printed / np.sqrt(eta_w), path.a, rtol=1e-9, atol=1e-9)
        assert abs(as_printed[-1] / path.a[-1] - 1) > 0.01 or abs(np.log(eta_w)) < 0.1


def test_the_variables_are_what_they_are_called(rng):
    for case in ("balanced", "upstream", "downstream", "crossing"):
        a0, w0, beta_star = neurons(rng, case, 1)[0]
        norm, delta = np.linalg.norm(beta_star), kunin2024.conserved(a0, w0)
        path = kunin2024.single_neuron(a0, w0, beta_star, TIMES)
        length = np.linalg.norm(path.w, axis=1)
        np.testing.assert_allclose([path.a[0], *path.w[0]], [a0, *w0], rtol=1e-13)
        np.testing.assert_allclose(path.mu, path.a * length, rtol=1e-13)
        np.testing.assert_allclose(path.phi, path.w @ beta_star / (length * norm), rtol=1e-12)
        np.testing.assert_allclose(path.beta, path.a[:, None] * path.w, rtol=1e-13)
        np.testing.assert_allclose(path.nu, kunin2024.nu(TIMES, w0 @ beta_star / a0, delta, norm), rtol=1e-10)
        upsilon = kunin2024.upsilon(TIMES, a0 / (w0 @ beta_star), delta, norm)
        np.testing.assert_allclose(1 / path.nu, upsilon, rtol=1e-10)


def test_a_may_start_at_zero():
    w0, beta_star = np.array([0.6, 0.8]), np.array([0.0, -2.0])
    path = kunin2024.single_neuron(0.0, w0, beta_star, TIMES)
    assert relative_errors(gram_of(path), solved(w0[None], [[0.0]], beta_star[None], TIMES).gram).max() <= 1e-13
    assert np.isinf(path.nu[0]) and kunin2024.basin(0.0, w0, beta_star) == -1


def test_w_may_start_at_zero():
    path = kunin2024.single_neuron(0.5, [0.0, 0.0], [0.0, -2.0], TIMES)
    exact = solved([[0.0, 0.0]], [[0.5]], [[0.0, -2.0]], TIMES).gram
    assert relative_errors(gram_of(path), exact).max() <= 1e-13
    assert math.isnan(path.phi[0]) and path.phi[-1] == 1.0


def test_the_printed_balanced_solution_lacks_a_factor(rng):
    """μ(t) and c_μ without ‖β*‖: right for ‖β*‖ = 1, otherwise not even the start (nor the end, 1) is."""

    def as_printed(times, mu0, c_phi, norm):
        x = c_phi + norm * times
        c_mu = 2 * np.cosh(c_phi) ** 2 / mu0 - (2 * c_phi + np.sinh(2 * c_phi))
        return 2 * np.cosh(x) ** 2 / (2 * x + np.sinh(2 * x) + c_mu)

    times = np.linspace(0, 10, 20)
    for norm in (1.0, 3.0):
        mu, _ = kunin2024.balanced(times, 0.2, -0.5, norm)
        agree = np.isclose(as_printed(times, 0.2, -0.5, norm), mu, rtol=1e-12)
        assert agree.all() if norm == 1 else agree.sum() == 1  # the start, t = 0
    assert kunin2024.balanced([100.0], 0.2, -0.5, 3.0)[0][0] == pytest.approx(3.0)


def test_the_printed_upstream_solution_is_right(rng):
    beyond, times = 0, TIMES[:6]
    for i, (a0, w0, beta_star) in enumerate(neurons(rng, "upstream", 30)):
        if i % 3 == 0:  # a start beyond β*
            w0, a0 = (W.ravel() for W in lr.inits.single_neuron(3 * beta_star, delta=rng.uniform(0.1, 3)).weights)
            a0 = a0[0]
        a0, w0 = abs(a0), w0 * np.sign(a0)
        b0, delta, norm = w0 @ beta_star, kunin2024.conserved(a0, w0), np.linalg.norm(beta_star)
        printed = kunin2024.a_as_printed(times, a0, b0, delta, norm)
        np.testing.assert_allclose(printed, kunin2024.single_neuron(a0, w0, beta_star, times).a, rtol=1e-7)
        beyond += 2 * b0 / a0 + delta > np.hypot(delta, 2 * norm)  # Y is complex
    assert beyond >= 10


def test_basins(rng):
    for sign in (-1, 0, 1):
        for _ in range(20):
            a0, w0, beta_star = random_neuron(rng, sign)
            basin = kunin2024.basin(a0, w0, beta_star)
            if abs(basin) == 1:  # one-dimensional balanced starts may lie on the separatrix
                end = kunin2024.single_neuron(a0, w0, beta_star, [1e6])
                assert np.sign(end.a[0]) == basin
                np.testing.assert_allclose(end.beta[0], beta_star, atol=1e-9)
            if sign > 0:
                assert basin == np.sign(a0)


@pytest.mark.parametrize("delta", [0.0, -0.7])
def test_the_separatrix_ends_in_the_saddle(delta):
    """δ = 0 too, where the paper gives all of a0 > 0 to the positive branch."""
    beta_star = np.array([0.0, 2.0])
    R, a0 = 0.5 * np.hypot(delta, 4.0), 0.5
    along = -a0 * (delta / 2 + R) / 2.0
    w0 = np.array([np.sqrt(max(a0**2 - delta - along**2, 0.0)), along])
    assert kunin2024.basin(a0, w0, beta_star) == 0
    times = np.array([0.0, 0.3, 1.0, 1e3, 1e6])
    path = kunin2024.single_neuron(a0, w0, beta_star, times)
    exact = solved(w0[None], [[a0]], beta_star[None], times).gram
    np.testing.assert_allclose(gram_of(path), exact, rtol=1e-12, atol=1e-14)
    assert path.a[-1] == 0 and path.w[-1] @ beta_star == 0


def test_preconditioner_and_kernel(rng):
    """β̇ = −M∇L for any inputs, with M from β and δ alone; K is the Jacobian's Gram matrix."""
    for sign in (-1, 0, 1):
        for _ in range(10):
            a, w, beta_star = random_neuron(rng, sign)
            eta_a = 10 ** rng.uniform(-1, 1)
            delta = kunin2024.conserved(a, w, eta_a, 1 / eta_a)
            M, X = kunin2024.preconditioner(a * w, delta), rng.normal(size=(4, len(w)))
            np.testing.assert_allclose(M, a**2 / eta_a * np.eye(len(w)) + eta_a * np.outer(w, w), rtol=1e-9, atol=1e-14)
            gradient = X.T @ X @ (a * w - beta_star)
            velocity = w * (-eta_a * w @ gradient) + a * (-a / eta_a * gradient)
            np.testing.assert_allclose(-M @ gradient, velocity, rtol=1e-9, atol=1e-9 * np.abs(velocity).max())
            jacobian = np.hstack([np.sqrt(eta_a) * X @ w[:, None], a / np.sqrt(eta_a) * X])
            np.testing.assert_allclose(kunin2024.ntk(X, a * w, delta), jacobian @ jacobian.T, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(kunin2024.preconditioner([0.0, 0.0], 3.0), 3 * np.eye(2))


@pytest.mark.parametrize("sign", [1, -1])
def test_the_limits_of_large_delta_are_approached_as_its_square(rng, sign):
    limit = kunin2024.upstream_limit if sign > 0 else kunin2024.downstream_limit
    for _ in range(10):
        angle = rng.uniform(0.2, 1.2) + (np.pi / 2 if rng.random() < 0.5 else 0.0)  # towards β*, or away from it
        beta_star, beta0 = (
            np.array([1.0, 0.0]),
            rng.uniform(0.5, 2) * np.array([np.cos(angle), np.sin(angle)]),
        )
        errors = []
        for delta in (40.0 * sign, 160.0 * sign):
            w0, a0 = lr.inits.single_neuron(beta0, delta=delta).weights
            times = np.concatenate([np.linspace(0, 4, 20) / abs(delta), np.linspace(0.1, 4, 20) * abs(delta)])
            path = kunin2024.single_neuron(a0[0, 0], w0[0], beta_star, times)
            errors.append(np.abs(limit(beta0, beta_star, delta, times) - path.beta).max())
        assert errors[1] < 2e-3
        assert 12 < errors[0] / errors[1] < 20


def test_kunin_says_what_would_do():
    with pytest.raises(lr.InvalidInput, match=r"eta_a·eta_w must be 1, and it is 4: both divided by 2, with times"):
        kunin2024.single_neuron(1.0, [1.0], [1.0], [1.0], 2.0, 2.0)
    with pytest.raises(lr.InvalidInput, match="beta_star must have 2 entries, as w0, and it has 1"):
        kunin2024.single_neuron(1.0, [1.0, 2.0], [1.0], [1.0])
    with pytest.raises(lr.InvalidInput, match="beta_star must not be zero"):
        kunin2024.basin(1.0, [1.0, 2.0], [0.0, 0.0])
    with pytest.raises(lr.InvalidInput, match="a0 and w0·beta_star must not both be zero"):
        kunin2024.single_neuron(0.0, [1.0, 0.0], [0.0, 1.0], [1.0])
    with pytest.raises(lr.InvalidInput, match="beta must not be zero where delta is negative"):
        kunin2024.preconditioner([0.0, 0.0], -1.0)
    with pytest.raises(lr.InvalidInput, match="delta must be below 0, and it is 2"):
        kunin2024.downstream_limit([1.0], [1.0], 2.0, [1.0])
    with pytest.raises(lr.InvalidInput, match="beta0 must not be zero"):
        kunin2024.downstream_limit([0.0], [1.0], -2.0, [1.0])


# Saxe et al. 2014


def aligned(rng, s, strengths, hidden, **options) -> lr.Problem:
    m = len(s)
    U, V = (np.linalg.qr(rng.normal(size=(m, m)))[0] for _ in range(2))
    task = lr.Task.from_correlations((U * s) @ V.T)
    return lr.Problem(task, lr.inits.aligned(rng, task, hidden=hidden, strengths=strengths, **options))


def strengths_of(problem, times) -> np.ndarray:
    U, _, V = problem.task.modes
    return np.diagonal(U.T @ lr.solve(problem, times).function @ V, axis1=1, axis2=2)


def random_modes(rng):
    return rng.uniform(0.5, 1.5) * np.array([2.0, 1.0, 0.4]), 10 ** rng.uniform(-6, 0.3, size=3)


def test_the_logistic_mode(rng):
    for _ in range(30):
        s, u0 = random_modes(rng)
        problem = aligned(rng, s, u0, 4)
        assert problem.facts.method == "modes"
        ours = saxe2014.logistic(u0, s, TIMES[:, None])
        np.testing.assert_allclose(ours, strengths_of(problem, TIMES), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("L", [1, 2, 3, 4, 7, 30])
def test_time_to_learn_is_the_integral(rng, L):
    """From both sides of s, against mpmath's quadrature of 1/u̇."""
    exponent = 2 - mp.mpf(2) / L
    for _ in range(8):
        s, u0, part = rng.uniform(0.3, 3.0), 10 ** rng.uniform(-4, 1), rng.uniform(0.05, 0.999)
        uf = float(u0 + part * (s - u0))
        with mp.workdps(30):
            exact = mp.quad(lambda x, s=s: 1 / (L * x**exponent * (s - x)), np.geomspace(u0, uf, 8).tolist())
        np.testing.assert_allclose(saxe2014.time_to_learn(u0, uf, s, L), float(exact), rtol=1e-11)


@pytest.mark.parametrize("L", [2, 3, 4, 6])
def test_time_to_learn_inverts_the_trajectory(rng, L):
    times = np.array([0.02, 0.1, 0.3, 1.0])
    for _ in range(12):
        s, u0 = rng.uniform(0.8, 1.2) * np.array([1.0, 0.7, 0.4]), rng.uniform(0.05, 0.3, size=3)
        u = strengths_of(aligned(rng, s, u0, (4,) * (L - 1)), times)
        clock = saxe2014.time_to_learn(u0, u, s, L)
        np.testing.assert_allclose(clock, np.broadcast_to(times[:, None], clock.shape), rtol=1e-10)


def test_infinite_depth_is_the_limit_of_depth():
    u0, uf, s = 0.2, 1.1, 1.5
    limit = saxe2014.time_infinite_depth(u0, uf, s)
    errors = [abs(L * saxe2014.time_to_learn(u0, uf, s, L) / limit - 1) for L in (100, 1000)]
    assert errors[1] < 1e-2 and 9 < errors[0] / errors[1] < 11


@pytest.mark.parametrize("L", [1, 2, 3, 5, 20])
def test_widths(L):
    c_L = quad(lambda x: 1 / (x ** (2 - 2 / L) * (1 - x)), 0.1, 0.9)[0] / L
    np.testing.assert_allclose(saxe2014.width(1.0, L), c_L, rtol=1e-12)
    s = np.array([0.5, 2.0])
    np.testing.assert_allclose(saxe2014.width(s, L), saxe2014.time_to_learn(0.1 * s, 0.9 * s, s, L), rtol=1e-12)


def test_half_times():
    s, u0 = np.array([0.5, 2.0]), np.array([1e-3, 1e-6])
    np.testing.assert_allclose(saxe2014.half_time(u0, s), np.log(s / u0 - 1) / (2 * s), rtol=1e-14)
    np.testing.assert_allclose(saxe2014.half_time_small_initialisation(u0, s), saxe2014.half_time(u0, s), rtol=1e-3)
    for L in (3, 4, 10):
        half = saxe2014.half_time(u0, s, L)
        np.testing.assert_allclose(deep_mode_strength(L, s, u0, half), s / 2, rtol=1e-9)
        small = np.array([1e-6, 1e-9])
        errors = np.abs(saxe2014.half_time_small_initialisation(small, 1.0, L) / saxe2014.half_time(small, 1.0, L) - 1)
        assert errors[0] < 0.1 and errors[0] / errors[1] == pytest.approx(10 ** (3 * (1 - 2 / L)), rel=0.1)


def test_unequal_layers_need_2s_where_s_is_printed(rng):
    for _ in range(30):
        s, u0 = random_modes(rng)
        c0 = s * 10 ** rng.uniform(-1, 1, size=3)
        u = strengths_of(aligned(rng, s, u0, 4, lam=-c0), TIMES)
        theta0 = np.arcsinh(2 * u0 / c0)
        ours = 0.5 * c0 * np.sinh(saxe2014.theta(theta0, c0, s, TIMES[:, None]))
        np.testing.assert_allclose(ours, u, rtol=1e-12, atol=1e-15)
        printed = 0.5 * c0 * np.sinh(saxe2014.theta(theta0, c0, s / 2, TIMES[:, None]))
        np.testing.assert_allclose(printed[-1], s / 2, rtol=1e-9)  # it would learn half


def test_saxe_says_what_would_do():
    with pytest.raises(lr.InvalidInput, match="u0 must be above 0, and the least is -1"):
        saxe2014.logistic([1.0, -1.0], 2.0, TIMES)
    with pytest.raises(lr.InvalidInput, match="L must not be 2"):
        saxe2014.Phi(0.5, 1.0, 2)
    for u0, uf in ((0.5, 0.4), (0.5, 1.2), (1.5, 0.9), (0.5, 1.0)):
        with pytest.raises(lr.InvalidInput, match="uf must lie between u0 and s"):
            saxe2014.time_to_learn(u0, uf, 1.0, 3)
        with pytest.raises(lr.InvalidInput, match="uf must lie between u0 and s"):
            saxe2014.time_infinite_depth(u0, uf, 1.0)
