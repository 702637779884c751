"""Tangent kernels against brute-force Jacobians: every method, on random problems and on degenerate ones."""

from __future__ import annotations

import itertools
from time import process_time

import mpmath
import numpy as np
import pytest
from oracles import jacobian
from oracles.samples import kind_of
from problems import SEEDS, piecewise_linear, sampled, solved

import lazyrich as lr
from lazyrich.observables.kernels import algebra as tangent_kernel
from lazyrich.observables.kernels import along as ntk
from lazyrich.observables.kernels import blocks, piecewise
from lazyrich.observables.kernels.along import (
    kernel_alignment,
    kernel_distance,
    kernel_distances,
    kernel_movement,
    kernel_norm,
    kernels,
)

EXACT = 1e-10
KINDS = {"closed form": solved, "any depth": sampled, "piecewise linear": piecewise_linear}


def brute_force(traj: lr.Trajectory) -> np.ndarray:
    """(T, n·d_out, n·d_out)."""
    problem, activation = traj.problem, kind_of(traj.problem.network)
    slope = {"linear": 1.0, "relu": 0.0}.get(activation, activation)
    weights = [[W[i] for W in traj.weights] for i in range(len(traj.times))]
    return np.array([jacobian.kernel(W, problem.task.inputs, problem.rates, slope) for W in weights])


def cosine_distance(K: np.ndarray, other: np.ndarray) -> float:
    """0 between two zero kernels, nan from a zero kernel to another."""
    if not K.any() or not other.any():
        return np.nan if K.any() or other.any() else 0.0
    return 1 - np.sum(K * other) / (np.linalg.norm(K) * np.linalg.norm(other))


def trajectory(weights, X, Y=None, activation="linear", rates=None) -> lr.Trajectory:
    """Weights of each layer at each time."""
    weights = [np.asarray(W, dtype=float) for W in weights]
    Y = np.ones((len(X), weights[-1].shape[1])) if Y is None else Y
    problem = lr.Problem(lr.Task.from_data(X, Y), lr.Network([W[0] for W in weights], activation), rates)
    return lr.Trajectory(problem, np.arange(float(len(weights[0]))), "flow", {"weights": weights})


@pytest.mark.compiles
@pytest.mark.parametrize("kind", KINDS)
def test_each_method_is_that_of_the_brute_force_kernel(kind):
    for seed in SEEDS:
        traj, rng = KINDS[kind](seed), np.random.default_rng(seed)
        got, expected = list(kernels(traj)), brute_force(traj)
        assert len(got) == len(kernels(traj)) == len(expected)
        for K, M in zip(got, expected, strict=True):
            size = np.linalg.norm(M)
            block = rng.normal(size=(len(M), 3))
            np.testing.assert_allclose(K.matrix(), M, rtol=0, atol=EXACT * size)
            np.testing.assert_allclose(K.matvec(block), M @ block, rtol=0, atol=EXACT * size)
            np.testing.assert_allclose(K.matvec(block[:, 0]), M @ block[:, 0], rtol=0, atol=EXACT * size)
            assert K.norm == pytest.approx(size, rel=EXACT, abs=0)
            assert K.trace == pytest.approx(np.trace(M), rel=EXACT, abs=0)
            assert K.largest_eigenvalue() == pytest.approx(np.linalg.eigvalsh(M)[-1], rel=EXACT, abs=0)
        for (K, M), (K2, M2) in itertools.product(zip(got, expected, strict=True), repeat=2):
            size = max(np.linalg.norm(M), np.linalg.norm(M2))
            assert K.inner(K2) == pytest.approx(np.sum(M * M2), rel=EXACT, abs=0)
            assert K.change(K2) == pytest.approx(np.linalg.norm(M - M2), rel=EXACT, abs=EXACT * size)
            assert K.distance(K2) == pytest.approx(cosine_distance(M, M2), rel=EXACT, abs=1e-14, nan_ok=True)


@pytest.mark.compiles
@pytest.mark.parametrize("kind", KINDS)
def test_each_observable_is_that_of_the_brute_force_kernel(kind):
    """Closed forms are asked for their observables before their weights are known, so that these come from `gram`."""
    for seed in SEEDS:
        traj = KINDS[kind](seed)
        got = [f(traj) for f in (kernel_norm, kernel_alignment, kernel_distance, kernel_distances)]
        M, y = brute_force(traj), traj.problem.task.targets.T.ravel()
        norms = np.linalg.norm(M, axis=(1, 2))
        aligned = np.array([y @ K @ y / np.linalg.norm(K) / (y @ y) if K.any() else np.nan for K in M])
        table = np.array([[cosine_distance(a, b) for b in M] for a in M])
        moved = np.linalg.norm(M - M[2], axis=(1, 2)) / np.maximum(np.maximum(norms, norms[2]), 1e-300)
        for value, expected in zip(got, (norms, aligned, table[0], table), strict=True):
            np.testing.assert_allclose(value, expected, rtol=EXACT, atol=1e-14)
        np.testing.assert_allclose(kernel_distance(traj, reference=-1), table[-1], rtol=EXACT, atol=1e-14)
        np.testing.assert_allclose(kernel_movement(traj, reference=2), moved, rtol=EXACT, atol=1e-13)


def test_the_gram_matrix_and_the_weights_give_the_same_kernels():
    for seed in SEEDS:
        traj = sampled(seed, depth=2)
        by_gram = lr.Trajectory(traj.problem, traj.times, "flow", {"gram": traj.gram})
        for observable in (kernel_norm, kernel_distance, kernel_movement, kernel_alignment):
            np.testing.assert_allclose(observable(by_gram), observable(traj), rtol=EXACT, atol=1e-14)


def test_the_closed_form_is_not_asked_for_weights():
    traj = solved(3)
    kernel_distance(traj)
    assert traj.computed("gram") and not traj.computed("weights")


def test_without_samples_kernels_are_divided_by_their_number():
    """The same ratios, and norms and eigenvalues per sample; Σxx is singular in some."""
    for seed in SEEDS:
        traj = sampled(seed)
        task, (n, _) = traj.problem.task, traj.problem.task.inputs.shape
        bare = lr.Task.from_correlations(task.sigma_yx, task.sigma_xx, task.sigma_yy)
        problem = lr.Problem(bare, traj.problem.network, rates=traj.problem.rates)
        without = lr.Trajectory(problem, traj.times, "flow", {"weights": traj.weights})
        np.testing.assert_allclose(kernel_norm(without), kernel_norm(traj) / n, rtol=EXACT)
        for observable in (kernel_distance, kernel_movement, kernel_alignment):
            np.testing.assert_allclose(observable(without), observable(traj), rtol=EXACT, atol=1e-12)
        for K, K2 in zip(kernels(without), kernels(traj), strict=True):
            assert K.trace == pytest.approx(K2.trace / n, rel=EXACT)
            assert K.largest_eigenvalue() == pytest.approx(K2.largest_eigenvalue() / n, rel=EXACT)


@pytest.mark.parametrize("activation", ["linear", "relu", 0.3])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_degenerate_weights(rng, activation, scale):
    """Zero rows, equal rows, rank one, width one, more hidden units than anything; fewer samples than inputs."""
    shapes = [(5, 6, 3), (5, 1, 3), (4, 40, 1), (1, 1, 1), (6, 2, 2)]
    for d_in, h, d_out in shapes:
        W1, W2 = scale * rng.normal(size=(4, h, d_in)), scale * rng.normal(size=(4, d_out, h))
        W1[1, 0], W2[1, :, -1] = 0.0, 0.0  # σ'(0) counts where W2 is not zero too
        W1[2] = W1[2, :1]
        W1[3], W2[3] = np.outer(W1[3, :, 0], W1[3, 0]), np.outer(W2[3, :, 0], W2[3, 0])
        for n in (1, 3, 9):
            X = rng.normal(size=(n, d_in))
            X[-1] = X[0]
            rates = rng.uniform(0.3, 3, size=2)
            traj = trajectory([W1, W2], X, rng.normal(size=(n, d_out)), activation, rates)
            M = brute_force(traj)
            for K, expected in zip(kernels(traj), M, strict=True):
                size = np.linalg.norm(expected)
                np.testing.assert_allclose(K.matrix(), expected, rtol=0, atol=EXACT * size)
                assert K.norm == pytest.approx(size, rel=EXACT, abs=0)
                assert K.largest_eigenvalue() == pytest.approx(np.linalg.norm(expected, 2), rel=EXACT, abs=0)
            table = np.array([[cosine_distance(a, b) for b in M] for a in M])
            np.testing.assert_allclose(kernel_distances(traj), table, rtol=EXACT, atol=1e-14)
            np.testing.assert_allclose(kernel_distance(traj), table[0], rtol=EXACT, atol=1e-14)


def test_layers_of_very_different_size(rng):
    W1, W2 = 1e-8 * rng.normal(size=(3, 4, 5)), 1e8 * rng.normal(size=(3, 2, 4))
    traj = trajectory([W1, W2], rng.normal(size=(9, 5)))
    M = brute_force(traj)
    table = np.array([[cosine_distance(a, b) for b in M] for a in M])
    np.testing.assert_allclose(kernel_distance(traj), table[0], rtol=EXACT, atol=1e-14)


def test_equal_singular_values(rng):
    """Orthogonal layers: the largest eigenvalue is many times there."""
    frame = lambda rows, columns: np.linalg.qr(rng.normal(size=(rows, columns)))[0]
    W1, W2 = frame(20, 20)[None], frame(20, 20)[None]
    traj = trajectory([W1, W2], frame(30, 20))
    assert kernels(traj)[0].largest_eigenvalue() == pytest.approx(2.0, rel=1e-12)
    assert kernel_norm(traj)[0] == pytest.approx(2 * 20, rel=1e-12)


@pytest.mark.parametrize("activation", ["linear", "relu"])
def test_zero_weights_have_a_zero_kernel(rng, activation):
    """At no distance from itself, and at none that is defined from another."""
    W = [np.zeros((3, 4, 5)), np.zeros((3, 2, 4))]
    W[0][2], W[1][2] = rng.normal(size=(4, 5)), rng.normal(size=(2, 4))
    traj = trajectory(W, rng.normal(size=(9, 5)), activation=activation)
    K = kernels(traj)[0]
    assert K.norm == K.trace == K.largest_eigenvalue() == 0 and not K.matrix().any()
    np.testing.assert_array_equal(kernel_distance(traj), [0, 0, np.nan])
    np.testing.assert_array_equal(kernel_distances(traj), [[0, 0, np.nan], [0, 0, np.nan], [np.nan, np.nan, 0]])
    np.testing.assert_array_equal(kernel_movement(traj), [0, 0, 1])
    assert np.isnan(kernel_alignment(traj)).tolist() == [True, True, False]


def test_zero_targets_have_no_alignment(rng):
    traj = trajectory([rng.normal(size=(1, 2, 3))], rng.normal(size=(5, 3)), np.zeros((5, 2)))
    assert np.isnan(kernel_alignment(traj)).all()


def test_one_layer_has_one_kernel_for_all_times(rng):
    traj = trajectory([rng.normal(size=(3, 2, 4))], rng.normal(size=(7, 4)), rates=[0.5])
    np.testing.assert_array_equal(kernel_distance(traj), np.zeros(3))
    np.testing.assert_array_equal(kernel_movement(traj), np.zeros(3))


@pytest.mark.parametrize("activation", ["linear", "relu", 0.3])
@pytest.mark.parametrize("step", [1e-3, 1e-7, 1e-11])
def test_small_distances_keep_their_digits(rng, activation, step):
    """Against 60 digits: 1 − cos is as small as step², and known to the relative size of rounding in the step."""
    W1, W2, X = rng.normal(size=(4, 5)), rng.normal(size=(2, 4)), rng.normal(size=(6, 5))
    W1, W2 = (np.array([W, W + step * rng.normal(size=W.shape)]) for W in (W1, W2))
    slope = {"linear": 1.0, "relu": 0.0}.get(activation, activation)
    truth, moved = in_many_digits(W1, W2, X, slope)
    traj = trajectory([W1, W2], X, activation=activation)
    lost = 1e-14 / step  # rounding of the weights is 1e-16 of them
    assert truth < 10 * step**2
    assert kernel_distance(traj)[1] == pytest.approx(truth, rel=lost, abs=0)
    assert kernel_movement(traj)[1] == pytest.approx(moved, rel=lost, abs=0)
    if activation == "linear":
        by_gram = lr.Trajectory(traj.problem, traj.times, "flow", {"gram": traj.gram})
        assert kernel_distance(by_gram)[1] == pytest.approx(truth, rel=lost, abs=0)


def in_many_digits(W1: np.ndarray, W2: np.ndarray, X: np.ndarray, slope: float) -> tuple[float, float]:
    """Distance and movement between two times, with Jacobians written out by hand: ∂f_o/∂W2_ok = φ_k, ∂f_o/∂W1_kd =
    W2_ok c_k x_d."""
    with mpmath.workdps(60):
        both = []
        for A, B in zip(W1, W2, strict=True):
            rows = []
            for o, x in itertools.product(range(len(B)), X):
                z = [mpmath.fdot(map(mpmath.mpf, row), map(mpmath.mpf, x)) for row in A]
                c = [mpmath.mpf(1) if value > 0 else mpmath.mpf(slope) for value in z]
                first = [mpmath.mpf(B[o, k]) * c[k] * mpmath.mpf(v) for k in range(len(A)) for v in x]
                second = [z[k] * c[k] if p == o else mpmath.mpf(0) for p in range(len(B)) for k in range(len(A))]
                rows.append(first + second)
            both.append([mpmath.fdot(a, b) for a in rows for b in rows])
        K, K2 = both
        norms = [mpmath.sqrt(mpmath.fdot(M, M)) for M in both]
        apart = [a - b for a, b in zip(K, K2, strict=True)]
        return float(1 - mpmath.fdot(K, K2) / norms[0] / norms[1]), float(
            mpmath.sqrt(mpmath.fdot(apart, apart)) / max(norms)
        )


def test_kernels_that_differ_in_size_alone_are_at_no_distance(rng):
    """Every layer twice as large is every kernel four times as large."""
    W1, W2 = (np.array([W, 2 * W, 1e6 * W]) for W in (rng.normal(size=(4, 5)), rng.normal(size=(2, 4))))
    for activation in ("linear", "relu"):
        traj = trajectory([W1, W2], rng.normal(size=(8, 5)), activation=activation)
        np.testing.assert_allclose(kernel_distance(traj), 0, atol=1e-15)
        np.testing.assert_allclose(kernel_movement(traj), [0, 3 / 4, 1 - 1e-12], rtol=1e-12)


def test_rows_are_read_in_blocks(rng, monkeypatch):
    """Small blocks, nothing kept, Lanczos: what large problems use, on small ones."""
    monkeypatch.setattr(tangent_kernel, "_TABLE", 32)
    monkeypatch.setattr(tangent_kernel, "_DENSE", 1)
    monkeypatch.setattr(blocks, "_TABLE", 32)
    for part in (blocks, piecewise):
        monkeypatch.setattr(part, "KEPT", 0)
    monkeypatch.setattr(blocks, "_BLOCK", 32)
    for activation in ("linear", "relu"):
        W1, W2, X = rng.normal(size=(4, 7, 5)), rng.normal(size=(4, 3, 7)), rng.normal(size=(11, 5))
        traj = trajectory([W1, W2], X, activation=activation)
        M = brute_force(traj)
        table = np.array([[cosine_distance(a, b) for b in M] for a in M])
        np.testing.assert_allclose(kernel_distances(traj), table, rtol=EXACT, atol=1e-14)
        np.testing.assert_allclose(kernel_distance(traj, 1), table[1], rtol=EXACT, atol=1e-14)
        for K, expected in zip(kernels(traj), M, strict=True):
            assert K.largest_eigenvalue() == pytest.approx(np.linalg.norm(expected, 2), rel=EXACT)


@pytest.mark.parametrize("times", [1, 3, 1000])
@pytest.mark.parametrize("kind", ["closed form", "any depth"])
def test_stacks_of_kernels_are_as_the_kernels_one_by_one(kind, times, monkeypatch):
    """To the last bits, also where 1 − cos is far below rounding; the last stack is shorter, or the only one."""
    for seed in SEEDS[:10]:
        traj = KINDS[kind](seed)
        sizes = traj.problem.network.sizes
        monkeypatch.setattr(ntk, "_STACK", times * max(sizes) * max(sizes[0], sizes[-1]))
        alone = list(kernels(traj))
        for observable, expected in (
            (kernel_norm, [K.norm for K in alone]),
            (kernel_alignment, [K.alignment for K in alone]),
            (kernel_distance, [alone[0].distance(K) for K in alone]),
            (kernel_movement, [alone[0].compare(K).movement for K in alone]),
        ):
            np.testing.assert_allclose(observable(traj), expected, rtol=1e-13, atol=0)


def test_kernels_of_an_exact_trajectory_at_other_times():
    traj, later = solved(3), np.array([0.3, 4.0])
    elsewhere = kernels(lr.solve(traj.problem, later))
    for K, expected in zip(kernels(traj).at(later), elsewhere, strict=True):
        np.testing.assert_allclose(K.matrix(), expected.matrix(), rtol=1e-13, atol=1e-13 * expected.norm)
    assert not traj.computed("gram") and not traj.computed("weights")


def test_they_stand_in_a_dataset():
    names = ("kernel_distance", "kernel_movement", "kernel_norm", "kernel_alignment")
    data = solved(0).to_xarray(*names)
    assert all(data[name].dims == ("time",) for name in names)


def test_trajectories_of_one_task_can_be_compared(rng):
    """Also of two tasks with the same inputs."""
    X, W = rng.normal(size=(6, 3)), [rng.normal(size=(1, 4, 3)), rng.normal(size=(1, 2, 4))]
    first, second = trajectory(W, X), trajectory([2 * w for w in W], X.copy(), np.zeros((6, 2)))
    assert kernels(first)[0].distance(kernels(second)[0]) == pytest.approx(0, abs=1e-15)
    assert kernels(first)[0].change(kernels(second)[0]) == pytest.approx(3 * kernel_norm(first)[0], rel=1e-12)


def refusals(rng) -> dict:
    X, W = rng.normal(size=(6, 3)), [rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 2, 4))]
    linear, relu = trajectory(W, X), trajectory(W, X, activation="relu")
    other_inputs = kernels(trajectory(W, X + 1))[0]
    deeper = kernels(trajectory([*W, np.ones((2, 2, 2))], X))[0]
    K = kernels(linear)[0]
    large = kernels(trajectory([np.ones((1, 10, 1))], np.ones((2000, 1))))[0]
    bare_task = lr.Task.from_correlations(linear.problem.task.sigma_yx, linear.problem.task.sigma_xx)
    bare_problem = lr.Problem(bare_task, linear.problem.network)
    bare = kernels(lr.Trajectory(bare_problem, linear.times, "flow", {"weights": linear.weights}))[0]
    bare_relu = lr.Problem(bare_task, relu.problem.network)
    only_loss = lr.Trajectory(linear.problem, linear.times, "flow", {"loss": np.zeros(2)})
    no_samples = (
        "task must hold samples, since the kernel has one row per output and sample, and it holds correlations only: "
        "try Task.from_data(inputs, targets)."
    )
    return {
        "not a trajectory": (lambda: kernels(3), "traj must be a lazyrich Trajectory, and it is a int"),
        "index too large": (
            lambda: kernel_distance(linear, 2),
            "reference must lie between -2 and 1, and it is 2.",
        ),
        "index too small": (lambda: kernel_movement(linear, -3), "reference must lie between -2 and 1, and it is -3."),
        "no index": (lambda: kernel_distance(linear, 0.5), "reference must be a whole number, and it is 0.5."),
        "too large": (
            large.matrix,
            "matrix would have 20000 × 20000 entries (2.98 GiB), and 2 GiB are the most: matvec, inner, norm and "
            "largest_eigenvalue do without it.",
        ),
        "short vector": (
            lambda: K.matvec(np.ones(5)),
            "vector must have 12 rows (2 outputs × 6 samples), and it has shape (5,).",
        ),
        "no vector": (lambda: K.matvec(np.ones((12, 1, 1))), "and it has shape (12, 1, 1)."),
        "matrix without samples": (bare.matrix, no_samples),
        "product without samples": (lambda: bare.matvec(np.ones(12)), no_samples),
        "ReLU without samples": (
            lambda: kernels(lr.Trajectory(bare_relu, relu.times, "flow", {"weights": relu.weights})),
            no_samples,
        ),
        "another kind": (
            lambda: K.inner(kernels(relu)[0]),
            "other must be a KroneckerKernel on the same inputs, and it is <PiecewiseKernel: 2 outputs on <Task: 3 "
            "inputs, 2 outputs, 6 samples>>.",
        ),
        "no kernel": (
            lambda: kernels(relu)[0].compare(3),
            "other must be a PiecewiseKernel on the same inputs, and it is 3.",
        ),
        "other inputs": (lambda: K.distance(other_inputs), "other must be a KroneckerKernel on the same inputs"),
        "samples and none": (lambda: K.distance(bare), "other must be a KroneckerKernel on the same inputs"),
        "another depth": (lambda: K.change(deeper), "other must have 2 layers too, and it has 3."),
        "nothing recorded": (lambda: kernel_norm(only_loss), "traj must hold the weights, and they were not recorded"),
    }  # fmt: skip


@pytest.mark.parametrize("case", refusals(np.random.default_rng(0)))
def test_refusals(case, rng, unchecked_shapes):
    call, says = refusals(rng)[case]
    with pytest.raises((lr.InvalidInput, AttributeError)) as caught:
        call()
    assert says in str(caught.value)


@pytest.mark.parametrize("gamma", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("biased", [False, True])
def test_unit_by_unit_is_as_by_outputs(gamma, biased, monkeypatch):
    """Numbers of both ways: small steps, no step, large ones, a unit that has closed and outgoing weights that grew."""
    rng = np.random.default_rng(7)
    h, out, X = 7, 4, rng.normal(size=(50, 5))
    W = [rng.normal(size=(h, 5)), rng.normal(size=(out, h))]
    b = [rng.normal(size=h), rng.normal(size=out)] if biased else None
    problem = lr.Problem(
        lr.Task.from_data(X, rng.normal(size=(50, out))), lr.Network(W, gamma, biases=b), rates=[0.5, 2]
    )
    first = problem.network.weights
    states = [first, first]
    states += [[M + step * rng.normal(size=M.shape) for M in first] for step in (1e-9, 1e-3, 0.1, 1.0, 1e3)]
    closed = [M.copy() for M in first]
    closed[0][0, : 5 + biased] = 0.0
    closed[1][:, 0] *= 30.0
    weights = [np.array(layer) for layer in zip(*states, closed, strict=True)]
    traj = lr.Trajectory(problem, np.arange(float(len(weights[0]))), "flow", {"weights": weights})
    found = []
    for units in (10**6, 0):
        monkeypatch.setattr(piecewise, "_UNITS", units)
        found.append((kernels(traj).compared_with(kernels(traj)[0]), kernel_norm(traj), kernel_distance(traj, -1)))
    (pair, norms, last), (other, other_norms, other_last) = found
    np.testing.assert_allclose(norms, other_norms, rtol=1e-13)
    np.testing.assert_allclose(last, other_last, rtol=1e-12, atol=1e-15)
    for name in ("norm", "other_norm", "inner"):
        np.testing.assert_allclose(getattr(pair, name), getattr(other, name), rtol=1e-13)
    lost = 1e-14 * norms[:1]  # rounding of the kernels themselves
    np.testing.assert_allclose(pair.change, other.change, rtol=1e-12, atol=lost[0])
    np.testing.assert_allclose(pair.along / norms[0], other.along / norms[0], rtol=1e-12, atol=lost[0])
    np.testing.assert_allclose(pair.distance, other.distance, rtol=1e-12, atol=1e-15)


def test_many_outputs_are_compared_in_the_time_of_few(rng):
    """Pairs of 60 outputs are 1,830 blocks of samples × samples: 12 s, where units take 0.2."""
    W = [rng.normal(size=(3, 8, 10)), rng.normal(size=(3, 60, 8))]
    traj = trajectory(W, rng.normal(size=(1000, 10)), activation="relu")
    start = process_time()
    S = kernel_distance(traj)
    assert process_time() - start < 3 and S[0] == 0 and np.all(S[1:] > 0.01)


def test_a_long_run_shows_how_far_it_is(monkeypatch, capsys, rng):
    monkeypatch.setenv("LAZYRICH_PROGRESS", "1")
    monkeypatch.setattr("lazyrich._progress._DELAY", 0.0)
    traj = trajectory(
        [rng.normal(size=(3, 8, 10)), rng.normal(size=(3, 2, 8))], rng.normal(size=(30, 10)), activation="relu"
    )
    for observable in (kernel_distance, kernel_norm):
        observable(traj)
        assert "tangent kernels" in capsys.readouterr().err
