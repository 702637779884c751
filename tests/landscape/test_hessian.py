"""Curvature of the loss against backpropagation written out sample by sample and differentiated by complex step."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
from oracles.samples import kind_of
from problems import SEEDS, piecewise_linear, sampled, solved

import lazyrich as lr
from lazyrich.landscape.hessian import extreme_eigenvalues, hessian, hessian_vector_product, sharpness


def gradient(weights, X, Y, kind="linear", decay=0.0, share=None):
    """∂loss/∂W_ℓ as one vector; weights may be complex. `share` is the weight of one sample, 1/P without it."""
    low = {"linear": 1.0, "relu": 0.0}.get(kind, kind)
    total = [decay * W for W in weights]
    for x, y in zip(X, Y, strict=True):
        a, z = [x], []
        for W in weights[:-1]:
            z.append(W @ a[-1])
            a.append(np.tanh(z[-1]) if kind == "tanh" else np.where(z[-1].real > 0, z[-1], low * z[-1]))
        back = (weights[-1] @ a[-1] - y) * (1 / len(X) if share is None else share)
        for layer in reversed(range(len(weights))):
            total[layer] = total[layer] + np.outer(back, a[layer])
            if layer:
                zl = z[layer - 1]
                slope = 1 - np.tanh(zl) ** 2 if kind == "tanh" else np.where(zl.real > 0, 1.0, low)
                back = (weights[layer].T @ back) * slope
    return np.concatenate([G.ravel() for G in total])


def brute_force(weights, X, Y, kind="linear", decay=0.0, share=None):
    """Column i of the Hessian is Im ∇loss(θ + ih e_i)/h, exact to rounding."""
    shapes, ends = [W.shape for W in weights], np.cumsum([W.size for W in weights])[:-1]
    theta = np.concatenate([np.ravel(W) for W in weights])
    columns = []
    for i in range(len(theta)):
        moved = theta.astype(complex)
        moved[i] += 1e-30j
        layers = [part.reshape(shape) for part, shape in zip(np.split(moved, ends), shapes, strict=True)]
        columns.append(gradient(layers, X, Y, kind, decay, share).imag / 1e-30)
    return np.array(columns).T


def brute_force_of(problem, weights):
    task = problem.task
    share = None if task.reduction == "mean" else 1.0
    kind = kind_of(problem.network)
    return brute_force(weights, task.inputs, task.targets, kind, problem.weight_decay, share)


def flat(layers):
    return np.concatenate([np.ravel(W) for W in layers])


def agree(problem, weights, rng):
    """The matrix, and the product with a direction."""
    H = brute_force_of(problem, weights)
    size = np.linalg.norm(H)
    assert np.linalg.norm(hessian(problem, weights) - H) <= 1e-12 * size
    V = [rng.normal(size=W.shape) for W in weights]
    product = hessian_vector_product(problem, weights, V)
    assert [P.shape for P in product] == [W.shape for W in weights]
    assert np.linalg.norm(flat(product) - H @ flat(V)) <= 1e-12 * size * np.linalg.norm(flat(V))


def state(traj, i=0):
    return [W[i] for W in traj.weights]


@pytest.mark.parametrize("kind", ["linear", "relu", 0.3, "tanh"])
def test_products_and_matrix_on_random_networks(rng, kind):
    """Depths 1 to 4, correlated inputs, fewer samples than inputs in some."""
    for seed in SEEDS:
        traj = sampled(seed, activation=kind)
        agree(traj.problem, state(traj), rng)


def test_weight_decay_and_sums_of_samples(rng):
    for kind in ("linear", 0.2, "tanh"):
        X, Y = rng.normal(size=(6, 3)), rng.normal(size=(6, 2))
        network = lr.inits.gaussian(rng, sizes=(3, 4, 3, 2), scale=0.7, activation=kind)
        problem = lr.Problem(lr.Task.from_data(X, Y, reduction="sum"), network, weight_decay=0.3)
        agree(problem, network.weights, rng)


@pytest.mark.parametrize("kind", ["linear", "relu", "tanh"])
@pytest.mark.parametrize("scale", [0.0, 1e-8, 1e6])
def test_degenerate_networks(rng, kind, scale):
    """All weights zero, tiny or huge; a hidden layer of one unit; a unit that takes no part; singular Σxx."""
    X, Y = rng.normal(size=(3, 5)), rng.normal(size=(3, 2))
    weights = [scale * rng.normal(size=shape) for shape in ((4, 5), (1, 4), (2, 1))]
    weights[0][1] = 0.0
    problem = lr.Problem(lr.Task.from_data(X, Y), lr.Network(weights, kind))
    agree(problem, weights, rng)


def test_correlations_are_enough_for_linear_networks(rng):
    X, Y = rng.normal(size=(9, 4)), rng.normal(size=(9, 3))
    weights = [rng.normal(size=(5, 4)), rng.normal(size=(3, 5))]
    task = lr.Task.from_correlations(Y.T @ X / 9, X.T @ X / 9, Y.T @ Y / 9)
    got = hessian(lr.Problem(task, lr.Network(weights)), weights)
    np.testing.assert_allclose(got, brute_force(weights, X, Y), atol=1e-12)


def test_large_matrices_are_made_in_batches(rng):
    """2100 weights and 400 samples: several batches, the last one smaller; columns by products, one at a time."""
    X, Y = rng.normal(size=(400, 20)), rng.normal(size=(400, 10))
    network = lr.inits.gaussian(rng, sizes=(20, 70, 10), scale=0.3, activation="tanh")
    problem = lr.Problem(lr.Task.from_data(X, Y), network)
    H = hessian(problem, network.weights)
    for i in (0, 1, 1049, 1400, 2099):
        unit = np.split(np.eye(1, 2100, i)[0], [1400])
        column = hessian_vector_product(problem, network.weights, [unit[0].reshape(70, 20), unit[1].reshape(10, 70)])
        np.testing.assert_allclose(H[i], flat(column), rtol=0, atol=1e-13 * np.abs(H).max())


def test_extreme_eigenvalues_of_small_networks():
    for seed in SEEDS:
        traj = sampled(seed, activation=("linear", "relu", "tanh")[seed % 3])
        weights = state(traj)
        H = brute_force_of(traj.problem, weights)
        w, size = np.linalg.eigvalsh(H), np.linalg.norm(H)
        count = min(3, len(w))
        for smallest, expected in ((False, w[::-1][:count]), (True, w[:count])):
            values, directions = extreme_eigenvalues(traj.problem, weights, count, smallest=smallest)
            np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12 * size)
            vectors = np.concatenate([D.reshape(count, -1) for D in directions], axis=1)
            np.testing.assert_allclose(vectors @ vectors.T, np.eye(count), atol=1e-12)
            np.testing.assert_allclose(vectors @ H, values[:, None] * vectors, rtol=0, atol=1e-11 * size)


@pytest.mark.parametrize(
    ("sizes", "scale"),
    [
        ((10, 30, 10), 0.1),  # many nearly equal eigenvalues at both ends
        ((10, 30, 10), 1e-3),
        ((12, 40, 8), 1e-8),
        ((12, 40, 8), 1e5),
        ((9, 15, 15, 9), 0.3),
    ],
)
def test_extreme_eigenvalues_of_large_networks(sizes, scale):
    """Lanczos iterations on products, against all eigenvalues of the matrix (which has its own oracle above)."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, Y = rng.normal(size=(40, sizes[0])), rng.normal(size=(40, sizes[-1]))
        network = lr.inits.gaussian(seed, sizes=sizes, scale=scale)
        problem = lr.Problem(lr.Task.from_data(X, Y), network)
        w = np.linalg.eigvalsh(hessian(problem, network.weights))
        for smallest, expected in ((False, w[-1]), (True, w[0])):
            found = extreme_eigenvalues(problem, network.weights, smallest=smallest)
            assert abs(found.values[0] - expected) <= 1e-12 * np.abs(w).max()
            product = hessian_vector_product(problem, network.weights, [D[0] for D in found.directions])
            defect = flat(product) - found.values[0] * flat(found.directions)
            assert np.linalg.norm(defect) <= 1e-10 * np.abs(w).max()


def test_iterations_that_do_not_end_give_way_to_the_matrix(monkeypatch):
    network = lr.inits.gaussian(0, sizes=(10, 30, 10), scale=0.1)
    problem = lr.Problem(lr.tasks.random_regression(1, d_in=10, d_out=10, samples=30), network)
    expected = np.linalg.eigvalsh(hessian(problem, network.weights))[0]
    monkeypatch.setattr(sys.modules[hessian.__module__], "_RESTARTS", 1)
    assert extreme_eigenvalues(problem, network.weights, smallest=True).values[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("smallest", [False, True])
def test_several_eigenvalues_of_a_large_network(smallest):
    """2400 weights: seven by Lanczos, against all."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(100, 30)), rng.normal(size=(100, 30))
    network = lr.inits.gaussian(0, sizes=(30, 40, 30), scale=0.2, activation="tanh")
    problem = lr.Problem(lr.Task.from_data(X, Y), network)
    w = np.linalg.eigvalsh(hessian(problem, network.weights))
    values, directions = extreme_eigenvalues(problem, network.weights, 7, smallest=smallest)
    np.testing.assert_allclose(values, w[:7] if smallest else w[:-8:-1], atol=1e-12 * np.abs(w).max())
    vectors = np.concatenate([D.reshape(7, -1) for D in directions], axis=1)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(7), atol=1e-12)


def test_small_tasks_have_small_curvature():
    """The same Hessian times 1e-14: found to the same relative accuracy."""
    rng = np.random.default_rng(0)
    Y, network = rng.normal(size=(12, 12)), lr.inits.gaussian(rng, sizes=(12, 20, 12), scale=1e-12)
    problem = lr.Problem(lr.Task.from_correlations(1e-14 * Y), network)
    found = extreme_eigenvalues(problem, network.weights)
    assert found.values[0] == pytest.approx(1e-14 * np.linalg.norm(Y, 2), rel=1e-8)  # weights are small beside it


def test_flat_directions():
    """At a minimum the smallest eigenvalues are zero, and very many are."""
    rng = np.random.default_rng(0)
    W1, W2 = rng.normal(size=(30, 12)), rng.normal(size=(10, 30))
    problem = lr.Problem(lr.Task.from_correlations(W2 @ W1), lr.Network([W1, W2]))
    top = extreme_eigenvalues(problem, [W1, W2]).values[0]
    assert top == pytest.approx(np.linalg.norm(W1, 2) ** 2 + np.linalg.norm(W2, 2) ** 2, rel=1e-12)
    assert abs(extreme_eigenvalues(problem, [W1, W2], smallest=True).values[0]) <= 1e-12 * top


def test_no_curvature_at_all():
    """Three layers of zeros, too many for all eigenvalues at once."""
    network = lr.Network([np.zeros((20, 10)), np.zeros((20, 20)), np.zeros((10, 20))])
    problem = lr.Problem(lr.Task.from_correlations(np.eye(10)), network)
    np.testing.assert_array_equal(extreme_eigenvalues(problem, network.weights).values, np.zeros(1))


def test_sharpness_of_recorded_weights():
    for seed in SEEDS:
        traj = piecewise_linear(seed) if seed % 2 else sampled(seed, activation=("linear", "tanh")[seed % 4 // 2])
        got = sharpness(traj)
        assert got.shape == traj.times.shape
        for i in (0, 3):
            w = np.linalg.eigvalsh(brute_force_of(traj.problem, state(traj, i)))
            assert abs(got[i] - w[-1]) <= 1e-12 * np.abs(w).max()


@pytest.mark.long
def test_sharpness_of_exact_solutions():
    """From the Gram matrix, without the weights; the oracle takes the weights."""
    for seed in SEEDS:
        traj = solved(seed)
        got = sharpness(traj)
        assert traj.method != "riccati" or not traj.computed("weights")
        for i in (0, 3):
            w = np.linalg.eigvalsh(brute_force_of(traj.problem, state(traj, i)))
            assert abs(got[i] - w[-1]) <= 1e-10 * np.abs(w).max()


@pytest.mark.parametrize("s", [(2.0, 1.0, 0.5), (2.0, 2.0, 2.0), (2.0, 0.0, 0.0)])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e4])
def test_sharpness_of_exact_solutions_with_more_units_than_the_gram_matrix_has_rows(s, scale):
    """Hidden units that carry nothing count too; equal singular values, low rank, starts of any size."""
    task = lr.Task.from_data(np.sqrt(3) * np.eye(3), np.sqrt(3) * np.diag(s))
    problem = lr.Problem(task, lr.inits.zero_balanced(4, sizes=(3, 9, 3), scale=scale))
    traj = lr.solve(problem, [0.0, 0.4, 30.0])
    got = sharpness(traj)
    assert traj.method == "riccati" and not traj.computed("weights")
    for i in range(3):
        w = np.linalg.eigvalsh(brute_force_of(problem, state(traj, i)))
        assert abs(got[i] - w[-1]) <= 1e-10 * np.abs(w).max()


def test_sharpness_with_layer_rates():
    """η^{1/2} H η^{1/2}, formed by hand."""
    for seed in range(10):
        traj = sampled(seed)
        D = np.repeat(np.sqrt(traj.problem.rates), [W[0].size for W in traj.weights])
        w = np.linalg.eigvalsh(D[:, None] * brute_force_of(traj.problem, state(traj)) * D)
        assert abs(sharpness(traj, preconditioned=True)[0] - w[-1]) <= 1e-12 * np.abs(w).max()


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("s", [(3.0, 1.0, 0.2), (2.0, 2.0, 2.0), (1.5, 0.7, 0.0)])
def test_spectrum_at_a_balanced_minimum(rng, depth, s):
    """c Σ_ℓ s_α^{2(L−ℓ)/L} s_β^{2(ℓ−1)/L} for each pair of modes, the largest of which is c L s^{2−2/L}."""
    c, L, s = 0.4, depth, np.array(s)
    frames = [np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(L + 1)]
    weights = [(new * s ** (1 / L)) @ old.T for old, new in itertools.pairwise(frames)]
    task = lr.Task.from_correlations(c * (frames[-1] * s) @ frames[0].T, c * np.eye(3))
    problem = lr.Problem(task, lr.Network(weights))
    traj = lr.Trajectory(problem, np.zeros(1), "flow", {"weights": [W[None] for W in weights]})
    assert sharpness(traj)[0] == pytest.approx(c * L * s[0] ** (2 - 2 / L), rel=1e-12)
    powers = [(2 * (L - layer) / L, 2 * (layer - 1) / L) for layer in range(1, L + 1)]
    pairs = c * sum(np.outer(s**p, s**q) for p, q in powers).ravel()
    spectrum = np.linalg.eigvalsh(hessian(problem, weights))
    np.testing.assert_allclose(spectrum[-9:], np.sort(pairs), atol=1e-12 * spectrum[-1])
    np.testing.assert_allclose(spectrum[:-9], 0, atol=1e-12 * spectrum[-1])


@pytest.mark.parametrize("rates", [None, (0.5, 4.0)])
def test_descent_turns_unstable_at_two_over_the_sharpness(rng, rates):
    """From beside the minimum: with a little less it returns, with a little more it leaves."""
    S = np.diag([2.0, 1.0])
    near = lr.Network([np.diag([2.0, 1.0]) ** 0.5 + 1e-6, np.diag([2.0, 1.0]) ** 0.5])
    problem = lr.Problem(lr.Task.from_correlations(S), near, rates=rates)
    at = lr.Trajectory(problem, np.zeros(1), "flow", {"weights": [W[None] for W in near.weights]})
    threshold = 2 / sharpness(at, preconditioned=True)[0]
    below, above = (lr.descend(problem, rate=f * threshold, steps=300, record=("loss",)).loss for f in (0.98, 1.02))
    assert below[-1] < 0.01 * below[0]
    assert above[-1] > 100 * above[0]


def test_sharpness_in_xarray():
    data = sampled(3).to_xarray("sharpness")
    assert data.sharpness.dims == ("time",)
    np.testing.assert_array_equal(data.sharpness, sharpness(sampled(3)))


def linear_problem(sizes=(3, 2, 4)):
    network = lr.inits.gaussian(0, sizes=sizes, scale=1.0)
    return lr.Problem(lr.Task.from_correlations(np.ones((sizes[-1], sizes[0]))), network)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda p: hessian("p", p.network.weights),
            "problem must be a lazyrich Problem, and it is a str: ",
        ),
        (lambda p: hessian(p, np.ones((2, 3))), "weights must hold one matrix per layer (2), and it is a ndarray."),
        (lambda p: hessian(p, [np.ones((2, 3))]), "weights must hold one matrix per layer (2), and it holds 1."),
        (
            lambda p: hessian_vector_product(p, p.network.weights, [np.ones((3, 2)), np.ones((4, 2))]),
            "direction[0] must have shape 2 × 3, and it has 3 × 2.",
        ),
        (
            lambda p: extreme_eigenvalues(p, p.network.weights, 15),
            "count must be at most the number of weights (14), and it is 15.",
        ),
        (lambda p: extreme_eigenvalues(p, p.network.weights, 0), "count must be at least 1, and it is 0."),
        (
            lambda p: hessian(big := linear_problem((100, 30, 50)), big.network.weights),
            "the Hessian is formed for up to 4000 weights, and this network has 4500: try hessian_vector_product, or a "
            "few extreme_eigenvalues.",
        ),
        (
            lambda p: hessian(lr.Problem(p.task, lr.Network(p.network.weights, "relu")), p.network.weights),
            "the Hessian needs the samples of the task where the network is relu, and this task holds correlations "
            "only: try Task.from_data(inputs, targets).",
        ),
        (lambda p: sharpness(p), "traj must be a lazyrich Trajectory, and it is a Problem"),
        (
            lambda p: sharpness(lr.Trajectory(p, np.zeros(1), "flow", {"loss": np.ones(1)})),
            "traj must hold the weights, and they were not recorded: try record=('weights',).",
        ),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_refuses_what_does_not_fit(call, says):
    with pytest.raises(lr.InvalidInput) as caught:
        call(linear_problem())
    assert says in str(caught.value)
