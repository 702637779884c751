"""Predicted ends: against 40-digit solutions of the conditions, against the closed form, and against `flow` itself."""

from __future__ import annotations

import time

import numpy as np
import pytest
from mpmath import mp, mpf
from oracles import integrate
from problems import SEEDS
from scipy.integrate import solve_ivp

import lazyrich as lr
from lazyrich.bias import interpolation
from lazyrich.bias.interpolation import (
    closed_form,
    compare_with_flow,
    deep_interpolating_solution,
    downstream_end,
    interpolating_solution,
    predicted_end,
    upstream_end,
)
from lazyrich.papers.kunin2024 import formulas as kunin2024

from .test_function_space import deep_isotropic

PROBLEMS = 20
DELTAS = (-4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0)
FIGURE_4B = lr.Task.from_data([[0.5, 1.0]], [[1.1]], reduction="sum")


def rank_deficient(rng, samples=3, d=6) -> lr.Task:
    return lr.Task.from_data(rng.normal(size=(samples, d)), rng.normal(size=(samples, 1)))


def passes_through_zero(task, beta0, delta) -> bool:
    return closed_form(task, beta0, delta).passes_zero


def relative(ours, theirs) -> float:
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))


def minimiser_mp(X, y, slope_over_size, c) -> np.ndarray:
    """Root of q′(‖β‖)β/‖β‖ − c = Xᵀν, Xβ = y in β and ν: nothing but the conditions themselves, in 40 digits."""
    n, d = X.shape
    with mp.workdps(40):
        rows, values = [[mpf(float(x)) for x in row] for row in X], [mpf(float(v)) for v in y]

        def conditions(*unknown):
            beta, nu = unknown[:d], unknown[d:]
            factor = slope_over_size(mp.sqrt(sum(b**2 for b in beta)))
            stationary = [
                factor * beta[i] - mpf(float(c[i])) - sum(rows[k][i] * nu[k] for k in range(n)) for i in range(d)
            ]
            return stationary + [sum(rows[k][i] * beta[i] for i in range(d)) - values[k] for k in range(n)]

        start = [*np.linalg.lstsq(X, y, rcond=None)[0], *np.zeros(n)]
        solution = mp.findroot(conditions, [mpf(float(x)) for x in start], tol=1e-50, maxsteps=200)
        return np.array([float(x) for x in solution[:d]])


@pytest.mark.long
def test_one_neuron_against_the_conditions_in_40_digits():
    for seed in SEEDS:
        rng = np.random.default_rng((40, seed))
        d = int(rng.integers(2, 5))
        X = rng.normal(size=(int(rng.integers(1, d)), d))
        y = X @ rng.normal(size=d)
        task, beta0, delta = lr.Task.from_data(X, y[:, None]), rng.normal(size=d), float(rng.uniform(-4, 4))
        ours = interpolating_solution(task, beta0, delta)
        sign = -1 if ours.passes_zero else 1
        psi = np.sqrt(np.hypot(delta, 2 * np.linalg.norm(beta0)) - delta)
        truth = minimiser_mp(
            X,
            y,
            lambda size, delta=delta: mp.sqrt(mp.sqrt(mpf(delta) ** 2 + 4 * size**2) - mpf(delta)) / size,
            sign * psi * beta0 / np.linalg.norm(beta0),
        )
        assert relative(ours.beta, truth) <= 1e-12
        assert relative(closed_form(task, beta0, delta).beta, truth) <= 1e-12
        assert ours.kkt_residual <= 1e-14 and ours.method == "root of the slope" and ours.iterations > 0


def test_deep_against_the_conditions_in_40_digits():
    for seed in SEEDS:
        rng = np.random.default_rng((41, seed))
        d, L = int(rng.integers(2, 5)), int(rng.integers(1, 5))
        X = rng.normal(size=(int(rng.integers(1, d)), d))
        y, beta0 = X @ rng.normal(size=d), 10 ** rng.uniform(-3, 0.5) * rng.normal(size=d)
        ours = deep_interpolating_solution(lr.Task.from_data(X, y[:, None]), beta0, L)
        pull = beta0 * np.linalg.norm(beta0) ** (-L / (L + 1))
        truth = minimiser_mp(X, y, lambda size, L=L: size ** (mpf(-L) / (L + 1)), pull)
        assert relative(ours.beta, truth) <= 1e-12
        assert ours.kkt_residual <= 1e-14
        objective = (L + 1) / (L + 2) * np.linalg.norm(truth) ** ((L + 2) / (L + 1)) - pull @ truth
        assert abs(ours.objective - objective) <= 1e-12 * (1 + abs(objective))


@pytest.mark.long
def test_predicted_and_reached_agree(record_property):
    """δ = −4 … 4, starts of all sizes and directions: those that pass through zero too."""
    worst = residual = 0.0
    passed = 0
    for seed in range(PROBLEMS):
        rng = np.random.default_rng((42, seed))
        task, beta0 = rank_deficient(rng), 10 ** rng.uniform(-1, 0.5) * rng.normal(size=6)
        for delta in DELTAS:
            end = compare_with_flow(lr.Problem(task, lr.inits.single_neuron(beta0, delta=delta)))
            assert end.distance <= 1e-8, (seed, delta)
            assert end.predicted.passes_zero == end.passed_zero
            assert relative(closed_form(task, beta0, delta).beta, end.predicted.beta) <= 1e-12
            worst, residual = max(worst, end.distance), max(residual, end.kkt_residual)
            passed += end.passed_zero
    ends = f"{PROBLEMS * len(DELTAS)} ends of one neuron, {passed} through zero"
    record_property("figure", f"implicit bias, {ends}: worst distance {worst:.1e}, KKT residual {residual:.1e}")
    assert passed >= PROBLEMS // 2


@pytest.mark.long
@pytest.mark.parametrize("hidden_layers", [1, 2, 3])
def test_deep_prediction_and_flow_agree(hidden_layers, record_property):
    worst = 0.0
    for seed in range(PROBLEMS):
        rng = np.random.default_rng((43, seed))
        task = rank_deficient(rng, samples=2, d=4)
        network = lr.inits.zero_balanced(rng, sizes=(4, *[3] * hidden_layers, 1), scale=0.8)
        end = compare_with_flow(lr.Problem(task, network))
        predicted = deep_interpolating_solution(task, network.function[0], hidden_layers)
        assert relative(predicted.beta, end.predicted.beta) <= 1e-13
        worst = max(worst, end.distance)
    record_property("figure", f"implicit bias, {PROBLEMS} ends, L = {hidden_layers}: worst distance {worst:.1e}")
    assert worst <= 1e-8


@pytest.mark.long
@pytest.mark.parametrize("hidden_layers", [1, 2, 3])
def test_deep_isotropic_starts_of_square_width(rng, hidden_layers):
    """δ < 0, beyond the paper's δ → 0; from β0 = 0 too, where a = 0 and the hidden layers are rotations."""
    for beta0 in (rng.normal(size=4), np.zeros(4)):
        for delta in (-0.3, -2.0):
            task = rank_deficient(rng, samples=2, d=4)
            network = lr.Network(deep_isotropic(rng, beta0, hidden_layers, delta))
            end = compare_with_flow(lr.Problem(task, network))
            assert end.distance <= 1e-8
            assert (
                relative(deep_interpolating_solution(task, beta0, hidden_layers, delta).beta, end.predicted.beta)
                <= 1e-9
            )
            if not beta0.any():
                assert relative(end.predicted.beta, task.target[0]) <= 1e-9  # least norm


@pytest.mark.long
@pytest.mark.parametrize("rtol", [1e-9, 1e-6])
def test_a_flow_of_fewer_digits_arrives_too(rtol):
    task = lr.Task.from_data([[0.5, 1.0]], [[1.1]])
    end = compare_with_flow(lr.Problem(task, lr.inits.single_neuron([0.4, 0.05], delta=-2.0)), rtol=rtol)
    assert end.time < 100 and end.distance <= 100 * rtol


def test_rates_only_rescale(rng):
    for delta in (-2.0, 1.5):
        task, rates = rank_deficient(rng, samples=2, d=4), (0.5, 3.0)
        w, a = lr.inits.single_neuron(rng.normal(size=4), delta=delta).weights
        end = compare_with_flow(
            lr.Problem(task, lr.Network([w / np.sqrt(rates[1]), a / np.sqrt(rates[0])]), rates=rates)
        )
        assert end.distance <= 1e-8 and end.kkt_residual <= 1e-8


def test_the_sign_of_the_output_weight_does_not_matter(rng):
    task, beta0 = rank_deficient(rng), rng.normal(size=6)
    ends = [
        predicted_end(lr.Problem(task, lr.inits.single_neuron(beta0, delta=-2.0, sign=sign))).beta for sign in (1, -1)
    ]
    assert relative(*ends) <= 1e-13


def test_the_free_part_of_w_stays(rng):
    """Why it is so: the flow moves w within the span of the inputs only."""
    task, network = rank_deficient(rng, samples=2, d=4), lr.inits.single_neuron(rng.normal(size=4), delta=-1.0)
    N = np.linalg.svd(task.inputs)[2][2:].T
    W1, _ = integrate.weights(network.weights, task.sigma_yx, task.sigma_xx, [0.0, 1.0, 5.0])
    assert np.abs(W1 @ N - W1[0] @ N).max() <= 1e-11


def test_passing_through_zero_is_the_basin_of_the_paper():
    """Inputs that are white where they are at all leave a white problem in their span, with δ + ‖Nᵀw‖² for δ."""
    checked = 0
    for seed in SEEDS:
        rng = np.random.default_rng((44, seed))
        frame = np.linalg.qr(rng.normal(size=(5, 5)))[0]
        task = lr.Task.from_data(np.sqrt(3) * frame[:3], rng.normal(size=(3, 1)))
        beta0, delta = rng.normal(size=5), float(rng.uniform(-6, 1))
        w, a = lr.inits.single_neuron(beta0, delta=delta).weights
        basin = kunin2024.basin(float(a[0, 0]), frame[:3] @ w[0], frame[:3] @ task.target[0])
        assert passes_through_zero(task, beta0, delta) == (basin < 0)
        checked += basin < 0
    assert checked >= 8


def test_the_separatrix_is_refused():
    """β0 opposite to the only direction that is learned, and a0 such that a and w·β* fade together."""
    task = lr.Task.from_correlations([[1.0, 0.0]])
    delta = -2.0
    reach = (delta + np.hypot(delta, 2)) / 2  # w0·β* = −reach·a0; a0² − ‖w0‖² = δ leaves the rest of w0
    w0 = np.array([-reach, np.sqrt(1 - delta - reach**2)])
    with pytest.raises(lr.InvalidInput, match="beta0 must lie off the separatrix, and it lies on it: the flow ends in"):
        passes_through_zero(task, w0, delta)


def test_passing_through_zero_on_correlated_inputs():
    """Against the sign of a once an integration of plain a and w is well below the loss of β = 0."""
    passed = 0
    for seed in SEEDS:
        rng = np.random.default_rng((45, seed))
        d = int(rng.integers(2, 5))
        X = rng.normal(size=(d + 2, d)) * 10 ** rng.uniform(-0.7, 0.7, size=d)
        task = lr.Task.from_data(X, X @ rng.normal(size=(d, 1)))
        beta0, delta = 10 ** rng.uniform(-2, 1) * rng.normal(size=d), -float(10 ** rng.uniform(-3, 2.5))
        if seed % 2:  # near the separatrix of white inputs
            beta0 = -abs(rng.normal()) * task.target[0] + 10 ** rng.uniform(-6, -1) * rng.normal(size=d)
        w, a = lr.inits.single_neuron(beta0, delta=delta).weights
        b, S = task.sigma_yx[0], task.sigma_xx

        def velocity(_, state, b=b, S=S):
            residual = b - S @ (state[0] * state[1:])
            return np.r_[state[1:] @ residual, state[0] * residual]

        def fitted(_, state, b=b, S=S, task=task):
            beta = state[0] * state[1:]
            return (S @ beta / 2 - b) @ beta + 0.9 * b @ task.target[0] / 2

        fitted.terminal = True
        run = solve_ivp(velocity, (0, 1e9), np.r_[a[0], w[0]], "LSODA", rtol=1e-9, atol=1e-13, events=fitted)
        assert run.status == 1
        assert passes_through_zero(task, beta0, delta) == (run.y[0, -1] < 0)
        passed += run.y[0, -1] < 0
    assert passed >= 10


CORRELATED = lr.Task.from_correlations([[1.0, 0.2]], [[2.0, 0.6], [0.6, 0.7]])


def turned(vector, angle) -> np.ndarray:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) @ vector


@pytest.mark.parametrize("hidden_layers", [1, 2, 3])
def test_the_curved_separatrix_of_correlated_inputs(hidden_layers):
    """Followed back from the saddle: with m = ‖β‖^{−L/(L+1)}β, dm = (b − ‖m‖^L Σxx m)dτ. It curves away from −b."""
    b, S, L = CORRELATED.sigma_yx[0], CORRELATED.sigma_xx, hidden_layers
    back = solve_ivp(
        lambda _, m: np.linalg.norm(m) ** L * S @ m - b, (0, 0.7), np.zeros(2), "DOP853", rtol=1e-13, atol=1e-16
    )
    m = back.y[:, -1]
    beta0 = np.linalg.norm(m) ** L * m
    assert abs(beta0[0] * b[1] - beta0[1] * b[0]) > 0.01 * np.linalg.norm(beta0)
    calls = [lambda start: deep_interpolating_solution(CORRELATED, start, L)]
    if L == 1:
        calls += [lambda start, f=f: f(CORRELATED, start, 0.0) for f in (interpolating_solution, closed_form)]
    for call in calls:
        with pytest.raises(
            lr.InvalidInput, match="it lies on it: the flow ends in the saddle β = 0 and in no solution"
        ):
            call(beta0)
        with pytest.raises(lr.InvalidInput, match="it lies too close to it to tell: rounding decides"):
            call(turned(beta0, 1e-9))
        for start in (turned(beta0, 1e-6), turned(beta0, -1e-6), -b, -1e-4 * b, 3 * beta0):
            assert np.array_equal(call(start).beta, CORRELATED.target[0])


@pytest.mark.long
def test_the_separatrix_below_zero_is_too_close_to_tell():
    """Bisected: both sides are told apart to a change of 1e-7 or less, and then no more."""
    for delta in (-0.01, -1.0, -30.0):
        side = lambda angle, delta=delta: passes_through_zero(CORRELATED, turned([0.8, 0.0], angle), delta)
        angles = np.linspace(0, 2 * np.pi, 60)
        passing = [side(angle) for angle in angles]
        first = passing.index(True)
        low, high = angles[first - 1], angles[first]
        with pytest.raises(lr.InvalidInput, match="it lies too close to it to tell: rounding decides"):
            for _ in range(60):
                low, high = ((low + high) / 2, high) if not side((low + high) / 2) else (low, (low + high) / 2)
        assert high - low < 1e-6


@pytest.mark.long
def test_saddles_of_balanced_starts_are_refused(rng):
    """δ = 0 and β0 opposite to β*: a = ‖w‖ fades, where it was said to interpolate."""
    white, line = lr.Task.from_data(np.sqrt(2) * np.eye(2), [[1.0], [0.0]]), FIGURE_4B
    for task in (white, line):
        start = -1.3 * task.target[0]
        problem = lr.Problem(task, lr.inits.single_neuron(start, delta=0.0))
        if task is white:
            assert lr.fate(problem).kind == "saddle"
        for call in (
            lambda problem=problem: predicted_end(problem),
            lambda problem=problem: compare_with_flow(problem),
            lambda task=task, start=start: closed_form(task, start, 0.0),
            lambda task=task, start=start: interpolating_solution(task, start, 0.0),
            lambda task=task, start=start: passes_through_zero(task, start, 0.0),
        ):
            with pytest.raises(lr.InvalidInput, match="it lies on it: the flow ends in the saddle β = 0"):
                call()
        for hidden_layers in (1, 2, 3):
            direction = start / np.linalg.norm(start)
            hidden = [np.linalg.qr(rng.normal(size=(3, 1)))[0][:, 0] for _ in range(hidden_layers)]
            frames = [direction, *hidden, np.ones(1)]
            layers = [0.7 * np.outer(frames[i + 1], frames[i]) for i in range(hidden_layers + 1)]
            with pytest.raises(lr.InvalidInput, match="it lies on it: the flow ends in the saddle β = 0"):
                predicted_end(lr.Problem(task, lr.Network(layers)))
        with pytest.raises(lr.InvalidInput, match="a and wᵀΣxy must not both be zero at first: that is a saddle"):
            interpolating_solution(task, [0.0, 0.0], 0.0)
    aside = lr.inits.single_neuron(turned(-1.3 * FIGURE_4B.target[0], 1e-5), delta=0.0)
    assert compare_with_flow(lr.Problem(FIGURE_4B, aside)).distance <= 1e-7  # passes the saddle at 1e-5


@pytest.mark.filterwarnings("error")
def test_starts_orthogonal_to_the_target_are_not_on_the_separatrix():
    """The paper's own setting, β0 ⊥ β*, at any δ: a starts at ‖β0‖/√|δ| and never changes its sign."""
    for task in (
        lr.Task.from_correlations([[0.0, 1.0]]),
        lr.Task.from_correlations([[0.0, 1.0]], [[2.0, 0.0], [0.0, 0.5]]),
    ):
        for delta in (-1.0, -1e3, -2e3, -1e5, -1e8):
            assert not passes_through_zero(task, [-1.0, 0.0], delta)
            assert relative(interpolating_solution(task, [-1.0, 0.0], delta).beta, task.target[0]) <= 1e-15
            assert passes_through_zero(task, [-1.0, -0.1], delta) == (delta <= -1e3)
            if task.whitening_error == 0 and delta >= -1e5:
                assert lr.fate(lr.Problem(task, lr.inits.single_neuron([-1.0, 0.0], delta=delta))).kind != "saddle"
    free = closed_form(lr.Task.from_data([[1.0, 0.0]], [[0.3]]), [0.0, 1e-4], -100.0)  # a keeps 1e-5, w = (0, 10)
    assert relative(free.beta, [0.3, np.sqrt((100 + 1e-10) * (0.5e-10 + np.hypot(0.5e-10, 0.3)))]) <= 1e-14


@pytest.mark.filterwarnings("error")
def test_no_start_takes_long_to_judge():
    x, y = 0.0024174384221075412, np.array([-9177.815419889788, 32466.756149114943, 1969.3066592035698])
    beta0 = [2.416604329040768e-10, -4.288064505293562e-10, -2.570379302823578e-10, -5.7603738759130415e-06]
    for inputs in (np.eye(3, 4), np.diag([1.0, 1.1, 0.9]) @ np.eye(3, 4)):
        started = time.perf_counter()
        assert passes_through_zero(lr.Task.from_data(x * inputs, x * y[:, None]), beta0, -405355.0716965141)
        assert time.perf_counter() - started < 10
    stiff = lr.Task.from_data(np.diag([1e6, 1.0, 1e-6]), np.array([[1.0], [1.0], [1e-6]]))
    started = time.perf_counter()
    try:
        passes_through_zero(stiff, [-1e4, -1e-3, -1e7], -1e5)
    except lr.InvalidInput as refusal:
        assert "too close" in str(refusal)
    assert time.perf_counter() - started < 20


def test_an_output_weight_of_zero_knows_its_direction():
    """a = 0 takes the sign of wᵀΣxy at once; β0 = 0 would not tell w."""
    for w in ([1.0, 0.3], [-1.0, 0.3], [-1.0, -0.3]):
        end = compare_with_flow(lr.Problem(FIGURE_4B, lr.Network([[w], [[0.0]]])))
        assert end.distance <= 1e-9 and end.kkt_residual <= 1e-9
        assert predicted_end(lr.Problem(FIGURE_4B, lr.Network([[w], [[0.0]]]), rates=[2.0, 3.0])).kkt_residual <= 1e-14
    with pytest.raises(lr.InvalidInput, match="a and wᵀΣxy must not both be zero at first"):
        predicted_end(lr.Problem(FIGURE_4B, lr.Network([[[-1.0, 0.5]], [[0.0]]])))


def test_where_the_potential_is_nearly_a_cone():
    """δ ≪ 0, a start next to the free directions, and a small target: a slope of 1e-6 was taken for none."""
    task, beta0, delta = lr.Task.from_data([[1.0, 0.0]], [[1e-4]]), [0.001, 0.5], -1000.0
    with mp.workdps(40):  # a w = β0 and a² − ‖w‖² = δ; then a² − m² = γ stays while a m goes to 1e-4, and w_2 stays
        w0 = mp.sqrt((mp.sqrt(mpf(delta) ** 2 + 4 * (mpf(0.001) ** 2 + mpf(0.25))) - mpf(delta)) / 2)
        kept = w0 * mpf(0.5) / mp.sqrt(mpf(0.001) ** 2 + mpf(0.25))
        gamma = mpf(delta) + kept**2
        truth = np.array([1e-4, float(kept * mp.sqrt(gamma / 2 + mp.sqrt(gamma**2 / 4 + mpf(1e-4) ** 2)))])
    network = lr.inits.single_neuron(beta0, delta=delta)
    reached = integrate.function(network.weights, task.sigma_yx, task.sigma_xx, [1e4])[0, 0]
    assert relative(reached, truth) <= 1e-7
    for end in (
        interpolating_solution(task, beta0, delta),
        closed_form(task, beta0, delta),
        predicted_end(lr.Problem(task, network)),
    ):
        assert relative(end.beta, truth) <= 1e-12 and end.kkt_residual <= 1e-14
    bias = interpolation._single_neuron_bias(task, beta0, delta)
    assert bias.kkt_residual(np.array([1e-4, 0.49989])) > 0.1  # not 1e-6
    assert 1e-4 < bias.kkt_residual(truth * [1, 1.001]) < 1e-2


def test_extreme_numbers_against_60_digits():
    """Inputs along axes, so that nothing but the closed form is at stake: δ, β* and entries of β0 over many decades."""
    refused = 0
    for seed in range(150):
        rng = np.random.default_rng((46, seed))
        d = int(rng.integers(2, 5))
        r = int(rng.integers(1, d))
        S = np.full(r, 2.0) if seed % 2 else 10 ** rng.uniform(-1, 1, size=r)
        target = 10 ** rng.uniform(-6, 6) * rng.normal(size=r) * (seed % 7 > 0)
        beta0 = 10 ** rng.uniform(-6, 6) * rng.normal(size=d) * 10 ** rng.uniform(-4, 4, size=d)
        delta = float(rng.choice([-1, 0, 1]) * 10 ** rng.uniform(-6, 6))
        task = lr.Task.from_data(S[:, None] * np.eye(r, d), (S * target)[:, None])
        try:
            ends = interpolating_solution(task, beta0, delta), closed_form(task, beta0, delta)
        except lr.InvalidInput:
            refused += 1
            continue
        with mp.workdps(60):
            b, D = [mpf(float(x)) for x in beta0], mpf(delta)
            size = mp.sqrt(sum(x**2 for x in b))
            norm_w = mp.sqrt((mp.sqrt(D**2 + 4 * size**2) - D) / 2)
            kept = [norm_w * x / size * (-1 if ends[0].passes_zero else 1) for x in b[r:]]
            gamma = D + sum(x**2 for x in kept)
            a = mp.sqrt(gamma / 2 + mp.sqrt(gamma**2 / 4 + sum(mpf(float(x)) ** 2 for x in task.target[0])))
            truth = task.target[0] + np.array([0.0] * r + [float(a * x) for x in kept])
        for end in ends:
            assert np.linalg.norm(end.beta - truth) <= 1e-12 * np.linalg.norm(truth), seed
            assert end.kkt_residual <= 1e-13
    assert refused <= 3


def test_a_residual_that_is_too_large_is_an_error(monkeypatch):
    monkeypatch.setattr(interpolation, "_SOLVED", -1.0)
    with pytest.raises(RuntimeError, match=r"the conditions of a minimum are met to .* only, and -1 is asked for"):
        interpolating_solution(FIGURE_4B, [0.4, 0.05], 0.0)


def test_single_precision_that_is_rank_deficient_to_its_rounding(rng):
    """The third input is a sum of the others, rounded to float32: its direction is none."""
    X = rng.normal(size=(6, 2)).astype(np.float32)
    X = np.column_stack([X, X @ np.array([0.3, 0.7], np.float32)])
    y = X @ np.array([[1.0], [1.0], [1.0]], np.float32)
    N = np.array([0.3, 0.7, -1.0]) / np.sqrt(0.3**2 + 0.7**2 + 1)
    correlations = lr.Task.from_correlations((y.T @ X / 6).astype(np.float32), (X.T @ X / 6).astype(np.float32))
    for task, tolerance in ((lr.Task.from_data(X, y), 1e-6), (correlations, 1e-4)):
        for delta in (-1.0, 2.0):
            end = interpolating_solution(task, [1.0, 2.0, 3.0], delta)
            assert end.method == "root of the slope" and abs(end.beta @ N) > 0.1
            least = np.ones(3) - N * (N @ np.ones(3))
            assert relative(end.beta - N * (N @ end.beta), least) <= tolerance
        assert relative(upstream_end(task, np.zeros(3)), least) <= tolerance
    exact = lr.Task.from_data(X.astype(float), y.astype(float))
    assert interpolating_solution(exact, [1.0, 2.0, 3.0], 1.0).method == "unique"  # as these numbers are, they differ


def test_figure_4b():
    """Constants of the closed form by hand: X = (½, 1), y = 1.1, β0 = (.4, .05), v = (2, −1)/√5."""
    beta0, v, target = np.array([0.4, 0.05]), np.array([2.0, -1.0]) / np.sqrt(5), 1.1 * np.array([0.5, 1.0]) / 1.25
    for delta in DELTAS:
        k = np.sqrt((np.hypot(delta, 2 * np.linalg.norm(beta0)) - delta) / 2) * (v @ beta0) / np.linalg.norm(beta0)
        alpha = k * np.sqrt((k**2 + delta) / 2 + np.sqrt(((k**2 + delta) / 2) ** 2 + target @ target))
        for end in (closed_form(FIGURE_4B, beta0, delta), interpolating_solution(FIGURE_4B, beta0, delta)):
            assert relative(end.beta, target + alpha * v) <= 1e-13
    assert np.allclose(upstream_end(FIGURE_4B, beta0), target + v * (v @ beta0), rtol=1e-14)
    assert np.allclose(downstream_end(FIGURE_4B, beta0), beta0 * (target @ target) / (target @ beta0), rtol=1e-14)
    assert np.allclose(downstream_end(FIGURE_4B, -beta0), downstream_end(FIGURE_4B, beta0), rtol=1e-14)


def test_limits_of_delta(rng):
    for _ in range(10):
        task, beta0 = rank_deficient(rng, samples=2, d=4), rng.normal(size=4)
        assert relative(closed_form(task, beta0, 1e8).beta, upstream_end(task, beta0)) <= 1e-7
        if task.loss(beta0[None]) < task.loss(np.zeros((1, 4))):
            assert relative(closed_form(task, beta0, -1e8).beta, downstream_end(task, beta0)) <= 1e-7
    task = rank_deficient(rng, samples=2, d=4)
    beta0 = -task.target[0] + 0.1 * rng.normal(size=4)  # through zero
    assert closed_form(task, beta0, -1e3).passes_zero
    assert relative(closed_form(task, beta0, -1e3).beta, downstream_end(task, beta0)) <= 1e-4


def test_extreme_scales(rng):
    for scale in (1e-8, 1e-3, 1e3, 1e8):
        for delta in (-2.0, 0.0, 2.0):
            X, y, beta0 = rng.normal(size=(2, 5)), rng.normal(size=(2, 1)), rng.normal(size=5)
            for task, start in (
                (lr.Task.from_data(X, y), scale * beta0),
                (lr.Task.from_data(X, scale * y), beta0),
                (lr.Task.from_data(X, scale * y), scale * beta0),
            ):
                exact, ours = closed_form(task, start, delta), interpolating_solution(task, start, delta)
                assert relative(ours.beta, exact.beta) <= 1e-10
                assert max(ours.kkt_residual, exact.kkt_residual) <= 1e-10
            deep = deep_interpolating_solution(lr.Task.from_data(X, scale * y), beta0, 2)
            assert deep.kkt_residual <= 1e-12


def test_targets_of_zero_end_at_the_kink_or_off_it(rng):
    """y = 0: β = α v with α = k√(k² + δ) where that is real, and 0 otherwise."""
    X = rng.normal(size=(2, 4))
    task = lr.Task.from_data(X, np.zeros((2, 1)))
    N = np.linalg.svd(X)[2][2:].T
    kinks = 0
    for delta in (-6.0, -2.0, -0.2, 0.0, 3.0):
        beta0 = rng.normal(size=4)
        network = lr.inits.single_neuron(beta0, delta=delta)
        kept = N @ N.T @ network.weights[0][0]
        expected = np.sqrt(max(kept @ kept + delta, 0)) * kept
        ours, exact = interpolating_solution(task, beta0, delta), closed_form(task, beta0, delta)
        kinks += not ours.beta.any()
        assert np.abs(exact.beta - expected).max() <= 1e-13 and np.abs(ours.beta - expected).max() <= 1e-12
        assert ours.kkt_residual <= 1e-13 and not ours.passes_zero
    assert 1 <= kinks <= 4
    assert compare_with_flow(lr.Problem(task, lr.inits.single_neuron(rng.normal(size=4), delta=1.0))).distance <= 1e-8
    line = lr.Task.from_data([[1.0, 0.0]], [[0.0]])
    for end in (interpolating_solution(line, [3.0, 2e-3], 0.0), closed_form(line, [3.0, 2e-3], 0.0)):
        assert relative(end.beta, [0.0, 4e-6 / np.hypot(3, 2e-3)]) <= 1e-14  # ‖Nᵀw0‖² = β0_2²/‖β0‖
    assert relative(closed_form(line, [0.0, 1e-4], -1e6).beta, [0.0, 1e-4]) <= 1e-14  # nothing moves: a solution
    kink = compare_with_flow(lr.Problem(line, lr.inits.single_neuron([1.0, 0.2], delta=-1.0)))
    assert not kink.predicted.beta.any() and kink.distance <= 1e-9 and kink.kkt_residual <= 1e-9
    assert not closed_form(line, [0.0, 0.0], 0.0).beta.any()


def test_starts_without_a_free_part_end_at_the_least_norm(rng):
    task = rank_deficient(rng)
    start = task.inputs[0]
    for end in (
        interpolating_solution(task, start, 1.0),
        closed_form(task, start, -0.5),
        deep_interpolating_solution(task, start, 2),
    ):
        assert relative(end.beta, task.target[0]) <= 1e-12
    nothing = interpolating_solution(task, np.zeros(6), 1.0)
    assert nothing.method == "least norm" and np.array_equal(nothing.beta, task.target[0])


def test_full_rank_inputs_leave_no_choice(rng):
    task = lr.Task.from_data(rng.normal(size=(9, 3)), rng.normal(size=(9, 1)))  # noisy: least squares
    end = interpolating_solution(task, rng.normal(size=3), -1.0)
    assert end.method == "unique" and np.array_equal(end.beta, task.target[0]) and end.kkt_residual == 0
    assert closed_form(task, rng.normal(size=3), 2.0).kkt_residual <= 1e-15


def test_noisy_targets_end_in_a_least_squares_solution(rng):
    """Five samples on a plane of four inputs: no β meets them, and the theorem holds for the normal equations."""
    X = rng.normal(size=(5, 2)) @ rng.normal(size=(2, 4))
    task = lr.Task.from_data(X, rng.normal(size=(5, 1)))
    for delta in (-2.0, 0.0, 2.0):
        end = compare_with_flow(lr.Problem(task, lr.inits.single_neuron(rng.normal(size=4), delta=delta)))
        assert end.distance <= 1e-8


def test_correlations_alone_are_enough(rng):
    data = rank_deficient(rng)
    task, beta0 = lr.Task.from_correlations(data.sigma_yx, data.sigma_xx), rng.normal(size=6)
    assert (
        relative(interpolating_solution(task, beta0, 1.0).beta, interpolating_solution(data, beta0, 1.0).beta) <= 1e-12
    )


def test_sentences(rng, unchecked_shapes):
    one, two = rank_deficient(rng), lr.Task.from_data(rng.normal(size=(2, 3)), rng.normal(size=(2, 2)))
    gaussian = lambda *sizes, **options: lr.inits.gaussian(0, sizes=sizes, scale=0.5, **options)
    small = lr.Task.from_data([[1.0, 1.0]], [[1.0]])
    refused = [
        (lambda: interpolating_solution(two, [1.0, 1.0, 1.0], 0.0), "task must have one output, and it has 2"),
        (
            lambda: interpolating_solution(one, [1.0], 0.0),
            "beta0 must have 6 entries, as the inputs have, and it has 1",
        ),
        (lambda: closed_form(one, np.zeros(6), -1.0), "beta must not be zero when delta is negative|no gradient there"),
        (
            lambda: deep_interpolating_solution(one, np.zeros(6), 2),
            "beta0 must not be zero where delta is: that is a s",
        ),
        (lambda: deep_interpolating_solution(one, np.ones(6), 2, 1.0), "delta must not be above 0, and it is 1"),
        (lambda: downstream_end(small, [1.0, -1.0]), "beta0 must not be orthogonal to sigma_yx"),
        (lambda: predicted_end("x"), "problem must be a lazyrich Problem, and it is a str"),
        (lambda: predicted_end(lr.Problem(two, gaussian(3, 1, 2))), "task must have one output, and it has 2"),
        (
            lambda: predicted_end(lr.Problem(one, gaussian(6, 4, 1))),
            "the end is known from one hidden neuron, a zero-bal",
        ),
        (lambda: predicted_end(lr.Problem(one, gaussian(6, 4, 1))), r"6-4-1, linear> with balance \S+ within"),
        (lambda: predicted_end(lr.Problem(one, gaussian(6, 1))), "linear network of two layers or more"),
        (lambda: predicted_end(lr.Problem(one, gaussian(6, 1, 1, activation="relu"))), "linear network of two layers"),
        (lambda: predicted_end(lr.Problem(one, gaussian(6, 1, 1), weight_decay=0.1)), "weight decay 0.1"),
        (lambda: compare_with_flow(lr.Problem(one, gaussian(6, 2, 1, 1))), r"lr\.flow\(problem, times\) goes there"),
    ]
    for call, sentence in refused:
        with pytest.raises(lr.InvalidInput, match=sentence):
            call()
