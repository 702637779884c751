"""The two-layer closed form: against mpmath on hundreds of problems, and by the identities that any solution obeys."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp
from oracles import riccati_mp
from oracles.starts_mp import to_mp

import lazyrich as lr

from ..families import (
    FAMILIES,
    PER_FAMILY,
    Case,
    cases,
    generic,
    relative_errors,
    start,
    target,
    with_times,
)

REQUIRED = 1e-12  # relative error of QQᵀ
_QUICK = ("zero_balanced", "layer_rates", "unseen_modes")  # families that every run tries


def solved(case: Case, times=None) -> lr.Trajectory:
    return lr.solve(case.problem, case.times if times is None else times, method="riccati")


def orthogonal(rng: np.random.Generator, size: int) -> np.ndarray:
    return np.linalg.qr(rng.normal(size=(size, size)))[0]


# Against mpmath


def test_there_are_at_least_300_problems():
    assert len(FAMILIES) * PER_FAMILY >= 300


@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=[pytest.mark.long] * (name not in _QUICK)) for name in FAMILIES]
)
def test_gram_matrix_against_mpmath(family, record_property):
    """Both evaluations, all times at once and one after another, whatever the size they are meant for."""
    worst = {"stacked": 0.0, "looped": 0.0}
    for case in cases(family):
        exact, traj = case.exact_gram(), solved(case)
        assert bool(len(traj.solution.graded.missed)) == case.saddle, str(case)
        for name in worst:
            traj.solution.wide = name == "looped"
            error = float(relative_errors(traj.solution.gram(case.times), exact, case.forgotten).max())
            assert error <= REQUIRED, f"{name}: {case}"
            worst[name] = max(worst[name], error)
    record_property("problems", PER_FAMILY)
    record_property("worst", max(worst.values()))
    print(f"{family}: {PER_FAMILY} problems, worst relative error {worst}")


@pytest.mark.parametrize("family", ["zero_balanced", "lambda_positive", "layer_rates", "weight_decay"])
def test_function_and_loss_are_those_of_the_gram_matrix(family):
    for case in cases(family)[::4]:
        traj, task = solved(case), case.problem.task
        for traj.solution.wide in (False, True):
            gram, function = traj.solution.gram(case.times), traj.solution.function(case.times)
            rounding = 1e-14 * np.linalg.norm(gram, axis=(1, 2))
            block = gram[:, task.d_in :, : task.d_in]
            assert np.all(np.abs(function - block).max(axis=(1, 2)) <= rounding)
            loss = case.c / 2 * np.sum((function - case.sigma_yx / case.c) ** 2, axis=(1, 2))  # no noise
            scale = np.sum(case.sigma_yx**2) / case.c
            allowed = 1e-15 * scale + rounding * np.sqrt(2 * case.c * loss) + 1e-14 * loss
            assert np.all(np.abs(traj.solution.loss(case.times) - loss) <= allowed)


@pytest.mark.parametrize("seed", range(8))
def test_near_the_separatrix_the_error_is_what_rounding_of_the_problem_makes_it(seed):
    """Square with determinants of different signs and a small λ: the answer turns on the last digits of the start.

    So the yardstick is the answer to the same problem with every number moved by half a unit in its last place, in
    exact arithmetic, λ being what the moved start says it is.
    """
    rng = np.random.default_rng(seed)
    d, lam = int(rng.integers(2, 5)), float(rng.choice([-1, 1]) * 10 ** rng.uniform(-9, -4))
    W = lr.inits.lambda_balanced(rng, sizes=(d, d, d), lam=lam, scale=10 ** rng.uniform(-1, 0.5)).weights
    sigma_yx = generic(Case(W, target(rng, d, d))).sigma_yx * np.r_[-1.0, np.ones(d - 1)]
    problem = Case(W, sigma_yx).problem
    graded = lr.solve(problem, [0.0], method="riccati").solution.graded
    assert 1e-13 < graded.separatrix_distance < 1e-2
    escape = np.log(1 / graded.separatrix_distance) / np.linalg.svd(sigma_yx)[1][-1]
    times = escape * np.array([0.5, 0.9, 1.0, 1.1, 1.5])

    def answer(W1, W2, sigma_yx):
        with mp.workdps(40):
            V1, V2 = to_mp(W1), to_mp(W2)
            D = V2.T * V2 - V1 * V1.T
            lam = sum(D[i, i] for i in range(d)) / d
        return riccati_mp.gram_float(W1, W2, sigma_yx, times, lam=lam)

    def moved(M):
        return M * (1 + rng.choice([-1, 1], size=M.shape) * 2.0**-53)

    exact = answer(*W, sigma_yx)
    movement = max(relative_errors(answer(*map(moved, (*W, sigma_yx))), exact).max() for _ in range(4))
    error = relative_errors(lr.solve(problem, times, method="riccati").gram, exact).max()
    assert error <= 1e-14 + 10 * movement
    print(f"distance {graded.separatrix_distance:.1e}: error {error:.1e}, movement {movement:.1e}")


# Identities


@st.composite
def random_cases(draw) -> Case:
    """Any sizes to 7, λ, scale, rates and inputs; off the separatrix."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    widths = d_in, h, d_out = tuple(draw(st.integers(1, 7)) for _ in range(3))
    lam = draw(st.sampled_from([0.0] + [1.0, 30.0] * (h <= d_out) + [-1.0, -30.0] * (h <= d_in)))
    v1, v2 = lr.inits.lambda_balanced(rng, sizes=widths, lam=lam, scale=10 ** draw(st.floats(-8, 0))).weights
    eta1, eta2, c = (10 ** draw(st.floats(-1, 1)) for _ in range(3))
    W = (v1 / np.sqrt(eta2), v2 / np.sqrt(eta1))
    return with_times(rng, generic(Case(W, target(rng, d_out, d_in), lam, (eta1, eta2), c)))


def changed(case: Case, **changes) -> Case:
    return Case(**{**vars(case), **changes})


def assert_same(traj: lr.Trajectory, got: np.ndarray, exact: np.ndarray) -> None:
    """Equal to 1e-12, or to what the distance from the separatrix allows: rounding is divided by it."""
    distance = traj.solution.graded.separatrix_distance
    assert relative_errors(got, exact).max() <= REQUIRED * max(1.0, 1e-3 / distance)


@given(random_cases())
def test_the_start_is_the_network_as_given(case):
    W1, W2 = case.start
    Q = np.concatenate([W1.T, W2])
    assert relative_errors(solved(case, [0.0]).gram, (Q @ Q.T)[None]).max() <= 1e-14


@given(random_cases(), st.floats(0, 1))
def test_stopping_on_the_way_and_going_on_changes_nothing(case, fraction):
    traj = solved(case)
    middle = fraction * case.times[0]
    resumed = traj.solution.restarted(middle).gram(case.times - middle)
    assert_same(traj, resumed, traj.gram)


@pytest.mark.long
@given(random_cases(), st.integers(0, 2**32))
def test_turning_the_hidden_units_changes_nothing(case, seed):
    R = orthogonal(np.random.default_rng(seed), len(case.start[0]))
    turned = changed(case, start=(R @ case.start[0], case.start[1] @ R.T))
    assert_same(solved(case), solved(turned).gram, solved(case).gram)


@pytest.mark.long
@given(random_cases(), st.integers(0, 2**32))
def test_turning_inputs_and_outputs_turns_the_solution(case, seed):
    rng, (W1, W2) = np.random.default_rng(seed), case.start
    A, B = orthogonal(rng, W1.shape[1]), orthogonal(rng, len(W2))
    turned = changed(case, start=(W1 @ A.T, B @ W2), sigma_yx=B @ case.sigma_yx @ A.T)
    both = np.zeros((len(A) + len(B),) * 2)
    both[: len(A), : len(A)], both[len(A) :, len(A) :] = A, B
    assert_same(solved(case), solved(turned).gram, both @ solved(case).gram @ both.T)


@pytest.mark.long
@given(random_cases(), st.floats(0.01, 100))
def test_a_larger_problem_runs_faster(case, factor):
    """Weights × √f, target × f: the same flow at f times the speed."""
    W1, W2 = case.start
    larger = changed(
        case,
        start=(np.sqrt(factor) * W1, np.sqrt(factor) * W2),
        sigma_yx=factor * case.sigma_yx,
        times=case.times / factor,
    )
    assert_same(solved(case), solved(larger).gram, factor * solved(case).gram)


@pytest.mark.long
@given(random_cases())
def test_exchanging_inputs_and_outputs_transposes_everything(case):
    W1, W2 = case.start
    mirror = changed(case, start=(W2.T, W1.T), sigma_yx=case.sigma_yx.T, rates=case.rates[::-1])
    swap = np.roll(np.arange(W1.shape[1] + len(W2)), -W1.shape[1])  # outputs first
    assert_same(solved(case), solved(mirror).gram, solved(case).gram[:, swap][:, :, swap])


@settings(max_examples=10)
@given(random_cases())
def test_the_network_on_the_way_is_a_start_for_the_rest(case):
    traj = solved(case, [0.0, case.times[0] / 2])
    later = changed(case, start=traj.network(-1).weights)
    whole, rest = solved(case, case.times), solved(later, case.times - case.times[0] / 2)
    distance = traj.solution.graded.separatrix_distance
    assert relative_errors(rest.gram, whole.gram).max() <= 1e-9 * max(1.0, 1e-3 / distance)


# Limits


@pytest.mark.parametrize("scale", [1e-8, 1.0])
@pytest.mark.parametrize(
    "widths, lam, s",
    [
        ((3, 5, 4), 0.0, (2.0, 1.1, 0.3)),
        ((3, 5, 4), 0.0, (1.5, 1.5, 1.5)),
        ((4, 3, 3), 0.0, (2.0, 0.7, 0.7)),
        ((3, 2, 4), 0.0, (1.5, 1.5, 0.3)),
        ((3, 3, 4), 30.0, (2.0, 1.1, 0.3)),
        ((3, 3, 4), 30.0, (1.5, 1.5, 1.5)),
        ((5, 3, 3), -30.0, (2.0, 0.7, 0.7)),
        ((4, 2, 5), -30.0, (1.3, 0.4, 0.0)),
        ((3, 1, 3), 30.0, (1.3, 0.4, 0.4)),
    ],
)
def test_after_a_very_long_time_the_strongest_modes_are_learned(widths, lam, s, scale, rng):
    d_in, h, d_out = widths
    sigma_yx = target(rng, d_out, d_in, np.array(s))
    network = lr.inits.lambda_balanced(rng, sizes=widths, lam=lam, scale=scale)
    gram = lr.solve(lr.Problem(lr.Task.from_correlations(sigma_yx), network), [1e12], method="riccati").gram
    U, S, Vt = np.linalg.svd(sigma_yx, full_matrices=False)
    U, S, V = U[:, :h], S[:h], Vt[:h].T
    K, W = np.hypot(lam, 2 * S), (U * S) @ V.T
    limit = np.block([[(V * (K - lam) / 2) @ V.T, W.T], [W, (U * (K + lam) / 2) @ U.T]])
    assert relative_errors(gram, limit[None]).max() <= REQUIRED


@pytest.mark.parametrize("lam", [0.0, 30.0, -30.0])
def test_a_target_of_zero_is_forgotten_at_the_pace_of_a_power_law_or_stays_balanced(lam, rng):
    """λ = 0: QQᵀ = Q0 (I + t Q0ᵀQ0)⁻¹ Q0ᵀ. Otherwise the larger layer ends at |λ| on its own span."""
    network = lr.inits.lambda_balanced(rng, sizes=(3, 3, 3), lam=lam, scale=0.5)
    problem = lr.Problem(lr.Task.from_correlations(np.zeros((3, 3))), network)
    times = np.array([0.0, 1.0, 1e6, 1e12])
    gram = lr.solve(problem, times, method="riccati").gram
    if lam == 0:
        Q = np.concatenate([network.weights[0].T, network.weights[1]])
        left, sigma, _ = np.linalg.svd(Q, full_matrices=False)
        exact = (left * (sigma**2 / (1 + times[:, None] * sigma**2))[:, None, :]) @ left.T
        assert relative_errors(gram, exact).max() <= REQUIRED
    else:
        end = np.kron(np.diag([lam < 0, lam > 0]), abs(lam) * np.eye(3))
        assert relative_errors(gram[-1:], end[None]).max() <= REQUIRED


# The two evaluations


@pytest.mark.parametrize(
    "widths, lam, scale, gamma",
    [
        ((31, 30, 30), 0.0, 1e-3, 0.0),
        ((40, 60, 36), 0.0, 1e-8, 0.0),
        ((60, 25, 50), 0.0, 1.0, 0.0),
        ((33, 30, 45), 30.0, 1e-3, 0.0),
        ((50, 40, 30), -1.0, 1e-5, 0.0),
        ((40, 30, 35), 0.0, 0.1, 0.3),
    ],
)
def test_stacked_and_looped_evaluation_agree_also_where_columns_have_been_released(widths, lam, scale, gamma, rng):
    network = lr.inits.lambda_balanced(rng, sizes=widths, lam=lam, scale=scale)
    task = lr.Task.from_correlations(target(rng, widths[2], widths[0]))
    solution = lr.solve(lr.Problem(task, network, weight_decay=gamma), [0.0], method="riccati").solution
    assert solution.wide
    release = np.unique(solution._looped.release)  # just after these, columns leave the computation
    learnable = np.count_nonzero(solution.graded.spectrum.w[: min(widths)] > 0)
    assert np.sum(np.isfinite(solution._looped.release)) == min(learnable, len(solution.graded.pivots))
    assert len(release) > 2
    times = np.sort(np.concatenate([[0.0], np.geomspace(0.1, 1e3, 8), release * 1.0000001, [1e12]]))
    looped = [part(times) for part in (solution.gram, solution.function, solution.loss)]
    solution.wide = False
    gram, function, loss = (part(times) for part in (solution.gram, solution.function, solution.loss))
    assert relative_errors(looped[0], gram).max() <= REQUIRED
    size = np.linalg.norm(gram, axis=(1, 2))
    assert np.all(np.linalg.norm(looped[1] - function, axis=(1, 2)) <= REQUIRED * size)
    np.testing.assert_allclose(np.sqrt(looped[2]), np.sqrt(loss), rtol=1e-12, atol=1e-13 * np.sqrt(loss[0]))


def test_wide_and_narrow_problems_choose_their_evaluation(rng):
    for columns in (8, 15, 16, 40):
        case = Case(start(rng, (columns, columns, columns + 1), 0.0), target(rng, columns + 1, columns))
        assert solved(case).solution.wide == (columns >= 16)


def test_width_adds_nothing_but_the_set_up(rng):
    """4096 hidden units on 6 inputs and outputs are 12 directions."""
    network = lr.inits.zero_balanced(rng, sizes=(6, 4096, 6), scale=1e-3)
    case = generic(Case(network.weights, target(rng, 6, 6)))
    assert solved(case, [0.0]).solution.graded.L.shape == (12, 6)
    Q = np.concatenate([case.start[0].T, case.start[1]])
    R = np.linalg.qr(Q.T, mode="r").T  # the same Gram matrix with 12 units
    narrow = changed(case, start=(R[:6].T.copy(), R[6:]))
    times = np.array([0.0, 3.0, 10.0, 1e3])
    assert relative_errors(solved(case, times).gram, solved(narrow, times).gram).max() <= REQUIRED
