"""Starts that never learn some mode: which they are, that the solution stays there, and how it escapes if pushed."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from oracles import extended, integrate
from oracles.starts_mp import to_float, zero_balanced_mp
from scipy.optimize import brentq

import lazyrich as lr

from .families import cases, target

ROUNDING = 1e-10  # a distance from the separatrix below this is rounding, made larger by the rows above


def sign_of_determinant(M: np.ndarray) -> float:
    return float(np.linalg.slogdet(M)[0])


def best_of_rank(sigma_yx: np.ndarray, rank: int) -> np.ndarray:
    U, s, Vt = np.linalg.svd(sigma_yx, full_matrices=False)
    return (U[:, :rank] * s[:rank]) @ Vt[:rank]


def on_the_separatrix(rng: np.random.Generator, d: int, h: int, scale: float) -> lr.Problem:
    """Singular values well apart: the one that is missed fades before long."""
    sigma_yx = target(rng, d, d, np.linspace(2.0, 0.5, d))
    W = zero_balanced_mp(rng, d, h, d, scale, sign=-1, target=sigma_yx, digits=40)
    return lr.Problem(lr.Task.from_correlations(sigma_yx), lr.Network([to_float(M) for M in W]))


# Which starts they are


@pytest.mark.long
def test_half_of_all_square_starts_end_in_a_saddle_and_fate_knows_which():
    rng, saddles = np.random.default_rng(0), 0
    for i in range(100):
        d = int(rng.integers(2, 9))
        network = lr.inits.zero_balanced(rng, sizes=(d, d + int(rng.integers(0, 4)), d), scale=10 ** rng.uniform(-4, 0))
        sigma_yx = target(rng, d, d)
        problem = lr.Problem(lr.Task.from_correlations(sigma_yx), network)
        saddle = sign_of_determinant(network.function) != sign_of_determinant(sigma_yx)
        saddles += saddle

        fate = lr.fate(problem)
        assert fate.kind == ("saddle" if saddle else "global minimum"), i
        assert fate.missed == ((d - 1,) if saddle else ()), i  # the weakest mode
        assert list(fate.learned) == [True] * (d - 1) + [not saddle], i
        assert fate.on_separatrix == saddle == problem.facts.determinant_obstruction, i
        assert (fate.separatrix_distance <= ROUNDING) == saddle, i

        end = lr.solve(problem, [1e12])
        limit = best_of_rank(sigma_yx, d - saddle)
        np.testing.assert_allclose(end.function[0], fate.function_limit, atol=1e-10)
        np.testing.assert_allclose(end.function[0], limit, atol=1e-12 * np.linalg.norm(limit))
        np.testing.assert_allclose(end.gram[0], fate.gram_limit, atol=1e-10)
        assert end.loss[0] == pytest.approx(np.sum((sigma_yx - limit) ** 2) / 2, rel=1e-12, abs=1e-14)
        assert any("separatrix" in note and "stays on it" in note for note in end.notes) == saddle, i
    assert 40 <= saddles <= 60
    print(f"{saddles} of 100 square zero-balanced starts end in a saddle")


@pytest.mark.long
def test_other_shapes_and_other_balances_have_no_obstruction(rng):
    for i in range(60):
        d = int(rng.integers(2, 7))
        lam = [0.0, 0.1, -0.1][i % 3]
        widths = (d + 1, d + 2, d) if lam == 0 else (d, d, d)
        network = lr.inits.lambda_balanced(rng, sizes=widths, lam=lam, scale=0.1)
        fate = lr.fate(lr.Problem(lr.Task.from_correlations(target(rng, d, widths[0])), network))
        assert (fate.kind, fate.missed, fate.on_separatrix) == ("global minimum", (), False)


@pytest.mark.parametrize("family", ["square_on_the_separatrix", "unseen_modes"])
def test_the_distance_is_at_rounding_level_where_a_mode_is_missed(family):
    for case in cases(family):
        graded = lr.solve(case.problem, [0.0], method="riccati").solution.graded
        assert (graded.separatrix_distance <= ROUNDING) == case.saddle, str(case)


def test_float32_weights_are_judged_by_their_own_rounding(rng):
    for d, h in ((2, 2), (3, 5), (6, 6)):
        exact = on_the_separatrix(rng, d, h, 0.3)
        problem = lr.Problem(exact.task, lr.Network([W.astype(np.float32) for W in exact.network.weights]))
        traj = lr.solve(problem, [1e12])
        assert traj.method == "riccati" and len(traj.solution.graded.missed) == 1
        limit = best_of_rank(exact.task.sigma_yx, d - 1)
        np.testing.assert_allclose(traj.function[0], limit, atol=1e-12 * np.linalg.norm(limit))


@pytest.mark.parametrize("method", ["riccati", "modes"])
def test_reversed_labels_are_unlearned_and_nothing_is_learned(method, rng):
    task = lr.Task.from_correlations(target(rng, 4, 4))
    reverse = lr.Task.from_correlations(-task.sigma_yx)
    problem = lr.Problem(reverse, lr.inits.prior_knowledge(rng, task, hidden=6))
    times = np.array([0.0, 0.5, 3.0, 20.0])
    U, s, Vt = np.linalg.svd(task.sigma_yx)
    a = s * np.exp(-2 * s * times[:, None]) / (2 - np.exp(-2 * s * times[:, None]))  # ȧ = −2a(s + a) from a = s
    exact = (U * a[:, None, :]) @ Vt
    traj = lr.solve(problem, times, method=method)
    error = np.linalg.norm(traj.function - exact, axis=(1, 2))
    assert np.all(error <= 1e-12 * np.linalg.norm(exact, axis=(1, 2)))
    assert any("separatrix" in note for note in traj.notes)
    np.testing.assert_array_equal(lr.solve(problem, [1e12], method=method).function, 0.0)
    fate = lr.fate(problem)
    assert fate.kind == "saddle" and fate.missed == (0, 1, 2, 3) and fate.on_separatrix
    np.testing.assert_array_equal(fate.limit, 0.0)


def test_the_revised_kingdom_misses_one_mode(rng):
    """One feature changes its sign, and with it the determinant: what it distinguishes is forgotten."""
    network = lr.inits.prior_knowledge(rng, lr.tasks.semantic_hierarchy(), hidden=14)
    fate = lr.fate(lr.Problem(lr.tasks.revised_kingdom(), network))
    assert fate.kind == "saddle" and fate.missed == (7,) and fate.on_separatrix
    np.testing.assert_allclose(fate.limit, [*fate.s[:7], 0.0], atol=1e-12)


# Staying on it


def test_the_flow_of_scipy_stays_as_long_as_rounding_lets_it(rng):
    """And then leaves, after about 36/s_min: the solution does not follow it there."""
    problem = on_the_separatrix(rng, 3, 4, 0.2)
    s_min = np.linalg.svd(problem.task.sigma_yx)[1][-1]
    times = np.array([5.0, 12.0, 60.0]) / s_min
    flow = integrate.function(problem.network.weights, problem.task.sigma_yx, None, times)
    traj = lr.solve(problem, times)
    np.testing.assert_allclose(traj.function[:2], flow[:2], atol=1e-7)
    np.testing.assert_allclose(flow[2], problem.task.sigma_yx, atol=1e-7)
    np.testing.assert_allclose(traj.function[2], best_of_rank(problem.task.sigma_yx, 2), atol=1e-12)


# Leaving it


def escape_time(problem: lr.Problem, size: float) -> float:
    """When the missed mode is half learned for good, after a push of this size."""
    U, s, Vt = np.linalg.svd(problem.task.sigma_yx)
    options = {"method": "riccati", "on_separatrix": "perturb", "perturbation": size}
    solution = lr.solve(problem, [0.0], **options).solution
    missing = lambda times: s[-1] / 2 - U[:, -1] @ solution.function(np.atleast_1d(times)) @ Vt[-1]
    times = np.linspace(0, 100 / s[-1], 1001)
    last = np.flatnonzero(missing(times) > 0)[-1]
    return brentq(lambda t: missing(t)[0], times[last], times[last + 1])


@pytest.mark.parametrize("d, h, scale", [(1, 1, 0.3), (2, 2, 1.0), (4, 6, 1e-3), (5, 5, 1e-6)])
def test_a_push_escapes_after_the_logarithm_of_its_size(d, h, scale, rng):
    """A row of length ε grows like ε e^{st}, and its mode is half learned when the square of that is about 2s."""
    problem = on_the_separatrix(rng, d, h, scale)
    s = np.linalg.svd(problem.task.sigma_yx)[1][-1]
    Q = np.concatenate([problem.network.weights[0].T, problem.network.weights[1]])
    sizes = np.array([1e-4, 1e-8, 1e-12])
    times = np.array([escape_time(problem, size) for size in sizes])
    predicted = np.log(np.sqrt(2 * s) / (sizes * np.linalg.norm(Q, 2))) / s
    np.testing.assert_allclose(times, predicted, atol=1 / s)
    np.testing.assert_allclose(np.diff(times), np.log(1e4) / s, rtol=1e-3)


@pytest.mark.parametrize("size", [1e-3, 1e-8, 1e-12])
def test_a_push_moves_the_start_by_its_size_and_ends_in_the_minimum(size, rng):
    problem = on_the_separatrix(rng, 4, 5, 0.3)
    traj = lr.solve(problem, [0.0, 1e12], on_separatrix="perturb", perturbation=size)
    stay = lr.solve(problem, [0.0, 1e12])
    moved = np.linalg.norm(traj.gram[0] - stay.gram[0]) / np.linalg.norm(stay.gram[0])
    assert 1e-3 * size - 1e-15 <= moved <= 2 * size + 1e-15
    np.testing.assert_allclose(traj.function[1], problem.task.sigma_yx, atol=1e-12 * np.linalg.norm(traj.function[1]))
    assert traj.pushed == size and stay.pushed == 0


def test_a_pushed_start_escapes_when_scipy_says(rng):
    """Its layers are balanced up to the size of the push only, which may move the escape by part of an e-fold."""
    problem, size = on_the_separatrix(rng, 3, 3, 0.5), 1e-6
    U, s, Vt = np.linalg.svd(problem.task.sigma_yx)
    escape = escape_time(problem, size)
    traj = lr.solve(problem, [0.0], on_separatrix="perturb", perturbation=size)
    times = escape + np.array([-6.0, -1.0, 1.0, 6.0]) / s[-1]
    flow = integrate.function(traj.network(0).weights, problem.task.sigma_yx, None, times)
    before, early, late, after = U[:, -1] @ flow @ Vt[-1] / s[-1]
    assert abs(before) < 0.01 and early < 0.5 < late and after > 0.99
    np.testing.assert_allclose(traj.solution.function(times[:1]), flow[:1], atol=0.01 * s[-1])


def test_a_push_changes_nothing_off_the_separatrix(rng):
    network = lr.inits.zero_balanced(rng, sizes=(4, 5, 3), scale=0.1)
    problem = lr.Problem(lr.Task.from_correlations(target(rng, 3, 4)), network)
    times = np.array([0.0, 1.0, 30.0])
    pushed = lr.solve(problem, times, on_separatrix="perturb", perturbation=1e-3)
    np.testing.assert_array_equal(pushed.gram, lr.solve(problem, times).gram)


# How close is on it


def one_unit(rng: np.random.Generator, gap: float, part: float, lam: float) -> lr.Problem:
    """One hidden unit on the weaker of two modes, with this part of the stronger."""
    sigma_yx, c = target(rng, 2, 2, np.array([1.0, 1.0 - gap])), np.array([part, np.sqrt(1 - part**2)])
    U, _, Vt = np.linalg.svd(sigma_yx)
    small, large = np.sqrt((np.hypot(lam, 0.6) + np.array([-1, 1]) * abs(lam)) / 2)
    f, g = (small, large) if lam >= 0 else (large, small)
    return lr.Problem(lr.Task.from_correlations(sigma_yx), lr.Network([f * (c @ Vt)[None], g * (U @ c)[:, None]]))


@pytest.mark.parametrize("lam", [0.0, 4.0, -4.0])
@pytest.mark.parametrize("gap", [0.5, 1e-2, 1e-4, 1e-6])
def test_only_what_rounding_of_the_target_could_have_made_is_on_it(gap, lam):
    """The last digits of Σ turn its vectors by 1e-16/gap; λ turns nothing, and once made the bound 20 times wider."""
    for seed in range(4):
        for part, on_it in ((0.0, True), (1e-16 / gap, True), (1e-14 / gap, False)):
            problem = one_unit(np.random.default_rng(seed), gap, part, lam)
            assert lr.solve(problem, [0.0], method="riccati").solution.separatrix().on_it == on_it, (seed, part)


@pytest.mark.parametrize("lam", [0.0, 4.0, -4.0])
def test_a_mode_left_out_of_coupled_weights_is_missed(lam, rng):
    """Made from singular vectors of the transposed target: other digits than those that the method finds."""
    for i in range(12):
        n, gap = int(rng.integers(3, 9)), 10.0 ** -rng.integers(1, 8)
        sigma_yx = target(rng, n, n, np.array([1.0, 1.0 - gap, *np.linspace(0.8, 0.3, n - 2)]))
        V, _, Ut = np.linalg.svd(sigma_yx.T)
        a = rng.uniform(0.01, 1.0, n - 1)
        large = np.sqrt((np.sqrt(lam**2 + 4 * a**2) + abs(lam)) / 2)
        f, g = (a / large, large) if lam >= 0 else (large, a / large)
        A, B, H = (np.linalg.qr(rng.normal(size=(n - 1, n - 1)))[0] for _ in range(3))
        network = lr.Network([(H * f) @ A @ np.delete(V, 0, axis=1).T, np.delete(Ut.T, 0, axis=1) @ B @ (H * g).T])
        assert lr.fate(lr.Problem(lr.Task.from_correlations(sigma_yx), network)).missed == (0,), i


def test_a_start_off_the_separatrix_by_more_than_rounding_leaves_it_when_scipy_says():
    """Singular values 0.01 apart, λ = −4.6, a part of 1e-12 in the stronger mode: it was taken for rounding."""
    problem = one_unit(np.random.default_rng(0), 0.01, 1e-12, -4.6)
    times = np.array([0.0, 10.0, 60.0])
    traj = lr.solve(problem, times, method="riccati")
    assert not traj.solution.separatrix().on_it
    flow = integrate.function(problem.network.weights, problem.task.sigma_yx, None, times)
    np.testing.assert_allclose(traj.function, flow, atol=1e-9)
    assert lr.solve(problem, [1e6], method="riccati").loss[0] == pytest.approx(0.99**2 / 2, abs=1e-12)


@pytest.mark.parametrize("lam", [0.0, 4.0])
@pytest.mark.parametrize("gap, part", [(1e-6, 5e-10), (1e-8, 1e-7)])
def test_what_is_left_out_on_the_separatrix_is_stated(gap, part, lam):
    problem = one_unit(np.random.default_rng(1), gap, part, lam)
    traj = lr.solve(problem, [0.0, 5.0], method="riccati")
    assert traj.solution.separatrix().on_it
    error = np.linalg.norm(traj.function[0] - problem.network.function)
    assert 1e-12 < error <= traj.solution.doubt_until(0.0) and "left out" in traj.notes[1]


def test_columns_that_are_almost_one_are_doubted():
    """Two hidden units, almost only on the weaker of two modes 1e-6 apart: the last digits of Σ decide what cancels."""
    rng, times = np.random.default_rng(0), np.array([1.0, 100.0, 400.0])
    sigma_yx = target(rng, 3, 3, np.array([1.0, 1.0 - 1e-6, 0.34]))
    U, _, Vt = np.linalg.svd(sigma_yx)
    C = np.linalg.qr([[1e-8, 1e-8], [0.0, 1.0], [1.0, 0.0]])[0]
    large = (np.hypot(4.5, 2 * np.array([1e-8, 1e-8])) + 4.5) / 2
    W1, W2 = (np.sqrt(large) * C).T @ Vt, U @ (C * (1e-8 / np.sqrt(large)))
    network = lr.Network([W1, W2])
    runs = []
    for _ in range(8):
        moved = sigma_yx * (1 + 2.0**-52 * rng.integers(-1, 2, (3, 3)))
        runs.append(lr.solve(lr.Problem(lr.Task.from_correlations(moved), network), times, method="riccati"))
    spread = max(np.linalg.norm(run.function - runs[0].function, axis=(1, 2)).max() for run in runs)
    assert spread <= 2 * max(run.solution.doubt_until(400.0) for run in runs), spread


def backwards(seed: int, L: int, near: float) -> lr.Problem:
    """Aligned modes that set out backwards, their two smallest layers equal but for a share `near`."""
    rng = np.random.default_rng([41, seed, L])
    n = int(rng.integers(2, 4))
    frames = [np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(L + 1)]
    sizes = rng.uniform(1.3, 1.6, size=(L, n))
    sizes[1] = rng.uniform(0.7, 1.2, size=n)
    sizes[0] = -sizes[1] * (1 - near)
    layers = [(after * b) @ before.T for b, before, after in zip(sizes, frames[:-1], frames[1:], strict=True)]
    sigma = (frames[-1] * np.sort(rng.uniform(0.5, 2.0, size=n))[::-1]) @ frames[0].T
    return lr.Problem(lr.Task.from_correlations(sigma), lr.Network(layers))


@pytest.mark.long
@pytest.mark.parametrize(("L", "near"), [(2, 1e-6), (2, 1e-12), (3, 1e-5), (3, 1e-12), (4, 1e-8)])
def test_aligned_modes_tell_how_far_rounding_may_have_moved_their_passage(L, near):
    """The given floats, followed with more digits: they are further from the closed form than the last digit, and no
    further than is told."""
    problem = backwards(0, L, near)
    course = lr.predict(problem).course
    passed = course.times[np.flatnonzero(course.loss > 0.02 * course.loss[0]).max() + 1]
    traj = lr.solve(problem, np.linspace(0.0, 1.2 * passed, 25))
    found = lr.predict(problem, traj.times)
    assert found.exact and traj.method == ("modes" if L == 2 else "deep_modes")
    states = extended.weights(problem.network.weights, problem.task.sigma_yx, traj.times)
    truth = np.array([functools.reduce(lambda W, layer: layer @ W, state) for state in states])
    off = float(np.abs(traj.function - truth).max() / np.abs(truth).max())
    assert 3e-3 * found.error <= off <= found.error  # told, and not simply large
    assert found.error > 1e-12 and any("separatrix" in note for note in traj.notes)
    assert not traj.certificate().exact


@pytest.mark.long
def test_a_family_member_near_the_separatrix_tells_how_far_off_it_may_be():
    for seed in range(2):
        rng = np.random.default_rng([42, seed])
        c = 10 ** rng.uniform(-12, -5)
        (U, V, T), s = (np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(3)), np.array([0.9, 0.5, 0.2])
        hidden = np.linalg.qr(rng.normal(size=(7, 7)))[0]
        first, second = np.sqrt(np.hypot(s, c)), np.zeros((2, 3))
        second[0], second[1] = s / first, c / first  # W2 = U [s/first, c/first]: D has the eigenvalues c and −c
        layers = [
            hidden[:, :3] * first @ V.T,
            U @ (second[0, :, None] * hidden[:, :3].T + second[1, :, None] * hidden[:, 3:6].T),
        ]
        sigma = T @ np.diag([1.0, 0.6, 0.3]) @ np.linalg.qr(rng.normal(size=(3, 3)))[0].T
        if np.linalg.det(sigma) * np.linalg.det(layers[1] @ layers[0]) > 0:
            sigma = -sigma
        problem = lr.Problem(lr.Task.from_correlations(sigma), lr.Network(layers))
        found = lr.predict(problem)
        assert found.method == "family"
        times = np.linspace(0.0, min(float(found.course.times[-1]), 150.0), 20)
        function = lr.solve(problem, times).function
        truth = np.array([np.asarray(W2 @ W1, dtype=float) for W1, W2 in extended.weights(layers, sigma, times)])
        assert 1e-12 < np.abs(function - truth).max() / np.abs(truth).max() <= found.error
