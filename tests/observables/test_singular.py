"""Singular modes followed through time, against families whose modes are known and against brute force."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
from problems import SEEDS, piecewise_linear, sampled, solved
from scipy.linalg import expm

import lazyrich as lr
from lazyrich.observables.singular import mode_alignment, off_diagonal_fraction, singular_modes, singular_values


def of_functions(W, task=None):
    """A trajectory that holds these maps and nothing else."""
    W = np.asarray(W, dtype=float)
    task = lr.Task.from_correlations(np.eye(*W.shape[1:])) if task is None else task
    problem = lr.Problem(task, lr.Network([W[0]]))
    return lr.Trajectory(problem, np.arange(float(len(W))), "flow", {"function": W})


def turning(rng, size, modes, times, speed=0.4):
    """Orthonormal columns that turn smoothly, (T, size, modes), at evenly spaced times."""
    K = rng.normal(size=(size, size))
    step = expm(speed * (times[1] - times[0]) * (K - K.T) / np.linalg.norm(K, 2))
    frames = [np.linalg.qr(rng.normal(size=(size, size)))[0][:, :modes]]
    for _ in times[1:]:
        frames.append(step @ frames[-1])
    return np.stack(frames)


def is_svd(modes, W):
    """W = U diag(s) Vᵀ with orthonormal columns, at every time."""
    error = np.abs((modes.U * modes.s[:, None, :]) @ np.swapaxes(modes.V, 1, 2) - W).max(axis=(1, 2))
    assert np.all(error <= 1e-11 * np.abs(W).max(axis=(1, 2)))
    for Q in (modes.U, modes.V):
        eye = np.broadcast_to(np.eye(Q.shape[2]), (len(Q), Q.shape[2], Q.shape[2]))
        np.testing.assert_allclose(np.swapaxes(Q, 1, 2) @ Q, eye, rtol=0, atol=1e-12)


def same_modes(modes, U, s, V, atol=1e-10):
    """Strongest first at the first time; (u, v) and (−u, −v) are the same."""
    order = np.argsort(-np.abs(s[0]), kind="stable")
    start = np.where(s[0, order] < 0, -1.0, 1.0)  # s starts positive: u takes the sign
    U, s, V = U[:, :, order] * start, s[:, order] * start, V[:, :, order]
    np.testing.assert_allclose(modes.s, s, rtol=0, atol=atol * np.abs(s).max())
    sign = np.sign(np.sum(modes.U[0] * U[0], axis=0))
    np.testing.assert_allclose(modes.U, U * sign, rtol=0, atol=atol)
    np.testing.assert_allclose(modes.V, V * sign, rtol=0, atol=atol)


def test_modes_that_turn_cross_and_change_sign():
    """Each s(t) is a line: half of all pairs cross, and some lines pass zero."""
    crossings = reversals = 0
    for seed in SEEDS:
        rng = np.random.default_rng((11, seed))
        d_out, d_in = (int(n) for n in rng.integers(1 + seed % 3, 7, size=2))
        m, times = min(d_out, d_in), np.linspace(0, 1, 31)
        lines = rng.uniform(0.5, 3, size=m) + np.outer(times, rng.uniform(-4, 4, size=m))
        gaps = np.abs(np.abs(lines)[:, :, None] - np.abs(lines)[:, None, :]) + 9 * np.eye(m)
        keep = (gaps.min(axis=(1, 2)) > 1e-4) & (np.abs(lines).min(axis=1) > 1e-4)  # vectors are known to 1e-16/gap
        U, V = (turning(rng, size, m, times)[keep] for size in (d_out, d_in))
        lines = lines[keep]
        W = (U * lines[:, None, :]) @ np.swapaxes(V, 1, 2)
        modes = singular_modes(of_functions(W))
        is_svd(modes, W)
        same_modes(modes, U, lines, V)
        crossings += int(np.any(np.argsort(-np.abs(lines[0])) != np.argsort(-np.abs(lines[-1]))))
        reversals += int(np.any(lines[0] * lines[-1] < 0))
    assert crossings > 20 and reversals > 20


def test_times_at_which_values_are_equal_or_zero(rng):
    """Two modes meet, and a third passes zero, exactly at a time of the grid."""
    times = np.linspace(0, 1, 21)
    U, V = turning(rng, 6, 4, times), turning(rng, 4, 4, times)
    s = np.stack([3 - 2 * times, 1 + 2 * times, 0.5 - times, np.full(21, 0.2)], axis=1)
    assert abs(s[10, 0] - s[10, 1]) < 1e-15 and s[10, 2] == 0 and abs(s[6, 2] - s[6, 3]) < 1e-15
    W = (U * s[:, None, :]) @ np.swapaxes(V, 1, 2)
    modes = singular_modes(of_functions(W))
    is_svd(modes, W)
    clear = [
        i for i in range(21) if i not in (6, 10, 14)
    ]  # at the others, turned towards the time before, not the next
    same_modes(type(modes)(*(part[clear] for part in modes)), U[clear], s[clear], V[clear])
    np.testing.assert_allclose(np.abs(modes.s), np.abs(s), rtol=0, atol=1e-12)
    for Q, known in ((modes.U, U), (modes.V, V)):  # where the basis is free, it is near the one before
        assert np.abs(np.sum(Q * known, axis=1)).min() > 0.99


def test_equal_values_throughout_keep_the_basis_they_have(rng):
    """c(t)·(a fixed partial isometry), known to 1e-14: LAPACK's basis jumps, and the one that is followed rests."""
    left, right = np.linalg.qr(rng.normal(size=(5, 3)))[0], np.linalg.qr(rng.normal(size=(4, 3)))[0]
    frames = np.stack([left @ np.diag(1 + 1e-14 * rng.normal(size=3)) @ right.T for _ in range(5)])
    W = np.array([1.0, 2.0, -3.0, 1e-8, 1e8])[:, None, None] * frames
    modes = singular_modes(of_functions(W))
    is_svd(modes, W)
    np.testing.assert_allclose(modes.U[:, :, :3], np.broadcast_to(modes.U[0, :, :3], (5, 5, 3)), rtol=0, atol=1e-12)
    np.testing.assert_allclose(modes.s[:, :3] / modes.s[0, :3], np.outer([1, 2, -3, 1e-8, 1e8], np.ones(3)), rtol=1e-12)
    assert not modes.s[:, 3].any()


def test_null_directions_stay_as_far_as_they_can(rng):
    """Rank one in a wide matrix: of the many null vectors, those that change least are taken."""
    times = np.linspace(0, 1, 30)
    U, V = turning(rng, 3, 1, times), turning(rng, 9, 1, times)
    W = U @ np.swapaxes(V, 1, 2)
    modes = singular_modes(of_functions(W))
    is_svd(modes, W)
    assert not modes.s[:, 1:].any()
    steps = [np.abs(np.diff(Q, axis=0)).max() for Q in (modes.U, modes.V)]
    assert max(steps) < 2 * max(np.abs(np.diff(Q, axis=0)).max() for Q in (U, V))


def test_equal_values_at_the_start_are_told_apart_by_the_second_time(rng):
    U, V = (np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in "uv")
    s = np.array([[0, 0, 0, 0], [4, 3, 2, 1], [4, 5, 6, 7.0]])
    for start in (0.0, 2.0):
        W = np.stack([U @ np.diag(row + start) @ V.T for row in s])
        modes = singular_modes(of_functions(W))
        is_svd(modes, W)
        same_modes(modes, np.stack([U] * 3), s + start, np.stack([V] * 3))


def test_nothing_at_all_and_one_time_alone():
    modes = singular_modes(of_functions(np.zeros((3, 2, 4))))
    is_svd(modes, np.zeros((3, 2, 4)))
    np.testing.assert_array_equal(modes.U, np.broadcast_to(modes.U[0], (3, 2, 2)))
    alone = singular_modes(of_functions([[[0.0, 2.0], [-3.0, 0.0]]]))
    np.testing.assert_allclose(alone.s, [[3, 2]], rtol=1e-15)


@pytest.mark.parametrize("kind", [solved, sampled])
def test_values_against_mpmath_and_matching_against_all_permutations(kind):
    for seed in SEEDS:
        traj = kind(seed)
        W = np.asarray(traj.function)
        modes = singular_modes(traj)
        is_svd(modes, W)
        assert (modes.s[0] >= 0).all() and (np.diff(modes.s[0]) <= 0).all()
        np.testing.assert_array_equal(singular_values(traj), modes.s)
        with mpmath.workdps(30):
            for M, s in zip(W, modes.s, strict=True):
                expected = [float(x) for x in mpmath.svd_r(mpmath.matrix(M.tolist()), compute_uv=False)]
                np.testing.assert_allclose(-np.sort(-np.abs(s)), expected, rtol=1e-10, atol=1e-14 * expected[0])
        full = np.abs(modes.s).min(axis=1) > 0
        for i in range(len(W) - 1):
            if full[i] and full[i + 1] and modes.s.shape[1] <= 5:
                overlap = np.abs(modes.U[i].T @ modes.U[i + 1]) * np.abs(modes.V[i].T @ modes.V[i + 1])
                m = np.arange(len(overlap))
                best = max(overlap[m, list(columns)].sum() for columns in itertools.permutations(m))
                assert np.trace(overlap) == pytest.approx(best, rel=1e-12)


def test_reversal_learning_keeps_the_vectors(rng):
    """One layer, from −Σ to Σ: every mode passes zero and its vectors rest."""
    task = lr.Task.from_correlations(np.diag([3.0, 2.0, 1.0]))
    traj = lr.solve(lr.Problem(task, lr.Network([-task.sigma_yx])), np.linspace(0, 5, 41))
    modes = singular_modes(traj)
    np.testing.assert_allclose(modes.s, np.outer(2 * np.exp(-traj.times) - 1, [3, 2, 1]), rtol=0, atol=1e-12)
    np.testing.assert_allclose(modes.U, np.broadcast_to(modes.U[0], modes.U.shape), rtol=0, atol=1e-12)
    aligned = mode_alignment(traj)
    np.testing.assert_allclose(aligned[0], -np.eye(3), rtol=0, atol=1e-12)
    np.testing.assert_allclose(aligned[-1], np.eye(3), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [solved, sampled])
def test_alignment_and_off_diagonals_by_their_definitions(kind):
    for seed in SEEDS:
        traj = kind(seed)
        task, modes, aligned = traj.problem.task, singular_modes(traj), mode_alignment(traj)
        U, s, Vt = np.linalg.svd(task.sigma_yx)
        m = len(s)
        fraction = off_diagonal_fraction(traj)
        for i, W in enumerate(traj.function):
            for a, k in itertools.product(range(m), repeat=2):
                piece = np.outer(modes.U[i, :, k], modes.V[i, :, k]) * np.sign(modes.s[i, k])
                assert aligned[i, a, k] == pytest.approx(U[:, a] @ piece @ Vt[a], rel=1e-10, abs=1e-13)
            turned = U.T @ W @ Vt.T
            off = [turned[a, b] for a, b in np.ndindex(turned.shape) if a != b]
            assert fraction[i] == pytest.approx(np.linalg.norm(off) / np.linalg.norm(W), rel=1e-10, abs=1e-14)


def test_a_mode_without_strength_aligns_with_none():
    traj = of_functions([np.zeros((2, 3)), np.eye(2, 3)])
    assert not mode_alignment(traj)[0].any()
    np.testing.assert_array_equal(off_diagonal_fraction(traj), 0)
    assert off_diagonal_fraction(of_functions([[[0.0, 1e-8], [1e-8, 0.0]]])) == pytest.approx(1, rel=1e-12)


def test_to_xarray_names_the_axes():
    data = solved(2).to_xarray("singular_values", "mode_alignment", "off_diagonal_fraction")
    assert data.singular_values.dims == ("time", "mode") and data.mode_alignment.dims == ("time", "mode", "mode_")


@pytest.mark.parametrize("measure", [singular_modes, singular_values, mode_alignment, off_diagonal_fraction])
def test_what_does_not_exist_is_refused(measure):
    with pytest.raises(lr.InvalidInput, match=r"belongs to linear networks, and this one is leaky ReLU 0\.2\."):
        measure(piecewise_linear(1))


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("measure", [singular_modes, singular_values, mode_alignment, off_diagonal_fraction])
def test_what_is_no_trajectory_is_refused(measure):
    with pytest.raises(lr.InvalidInput, match="traj must be a lazyrich Trajectory"):
        measure(None)


def test_a_function_that_is_zero_up_to_rounding_has_no_sign():
    """Layers that are orthogonal to each other: W2W1 is 1e-17, and the modes that grow from it are positive."""
    sigma = np.random.default_rng(5).normal(size=(2, 3))
    network = lr.inits.orthogonal(1, sizes=(3, 6, 2), scales=(0.5, 0.2))
    problem = lr.Problem(lr.Task.from_correlations(sigma), network, rates=(0.5, 2.0))
    assert 0 < np.abs(network.function).max() < 1e-15
    for traj in (lr.solve(problem, [0.0, 0.5, 3.0]), lr.flow(problem, [0.0, 0.5, 3.0])):
        s = lr.observables.singular_values(traj)
        assert np.all(s[0] == 0)
        np.testing.assert_allclose(s[1:], np.linalg.svd(traj.function[1:], compute_uv=False), rtol=1e-12)
