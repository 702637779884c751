"""M against brute-force Jacobians of the actual networks, and the flow of W alone against that of their weights."""

from __future__ import annotations

import itertools
import time
from contextlib import contextmanager
from functools import reduce

import numpy as np
import pytest
from oracles import integrate
from problems import SEEDS, task_of

import lazyrich as lr
from lazyrich.bias.function_space import (
    Preconditioner,
    deep_preconditioner,
    function_space_flow,
    isotropic_preconditioner,
    layer_grams,
    squared_output_norm,
)
from lazyrich.papers.kunin2024 import formulas as kunin2024
from lazyrich.papers.kunin2024.wide import wide_preconditioner

TIMES = np.array([0.0, 0.3, 1.0, 2.0])


def product(weights):
    return reduce(lambda W, M: M @ W, weights)


def brute_force(weights, rates=None) -> np.ndarray:
    """Σ_ℓ η_ℓ J_ℓJ_ℓᵀ with J_ℓ = ∂W.ravel()/∂W_ℓ.ravel(); W is linear in each layer: unit entries give it."""
    rates = [1.0] * len(weights) if rates is None else rates
    total = 0.0
    for layer, W in enumerate(weights):
        columns = []
        for i in range(W.size):
            unit = np.zeros(W.size)
            unit[i] = 1
            columns.append(product([*weights[:layer], unit.reshape(W.shape), *weights[layer + 1 :]]).ravel())
        J = np.stack(columns, axis=1)
        total = total + rates[layer] * J @ J.T
    return total


def relative(ours, theirs) -> float:
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))


def isotropic_weights(rng, d_in, d_out, delta, rates, scale):
    """Two layers with η_1W2ᵀW2 − η_2W1W1ᵀ = δI, as wide as Theorem 3 asks."""
    h = d_in if delta < 0 else d_out if delta > 0 else max(d_in, d_out)
    v1, v2 = lr.inits.lambda_balanced(rng, sizes=(d_in, h, d_out), lam=delta, scale=scale).weights
    return [v1 / np.sqrt(rates[1]), v2 / np.sqrt(rates[0])]


def deep_isotropic(rng, beta, hidden_layers, delta):
    """a and W_1…W_L of Definition 12 with the given product; x by bisection, so that nothing is shared."""
    d, size = len(beta), np.linalg.norm(beta)
    low, high = 0.0, size + 1.0
    for _ in range(200):
        x = (low + high) / 2
        low, high = (x, high) if x * (x - delta) ** hidden_layers < size**2 else (low, x)
    S = np.sqrt(np.r_[x - delta, np.full(d - 1, -delta)])
    direction = beta / size if size else np.eye(d)[0]
    frames = [np.linalg.qr(np.column_stack([direction, rng.normal(size=(d, d - 1))]))[0]]
    frames[0] *= np.sign(frames[0][:, 0] @ direction)
    frames += [np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(hidden_layers)]
    layers = [(new * S) @ old.T for old, new in itertools.pairwise(frames)]
    return [*layers, np.sqrt(x) * frames[-1][:, :1].T]


def test_wide_is_the_jacobian():
    for seed in SEEDS:
        rng = np.random.default_rng((20, seed))
        d_in, h, d_out = rng.integers(1, 6, size=3)
        rates = rng.uniform(0.3, 3, size=2)
        W1 = 10 ** rng.uniform(-3, 1) * rng.normal(size=(h, d_in))
        W2 = 10 ** rng.uniform(-3, 1) * rng.normal(size=(d_out, h))
        betas = np.einsum("ok,ki->koi", W2, W1)
        deltas = rates[0] * np.sum(W2**2, axis=0) - rates[1] * np.sum(W1**2, axis=1)
        M = wide_preconditioner(betas, deltas, rates)
        truth = brute_force([W1, W2], rates)
        assert relative(M.matrix, truth) <= 1e-12
        G = rng.normal(size=(d_out, d_in))
        assert relative(M.apply(G).ravel(), truth @ G.ravel()) <= 1e-10


def test_a_silent_neuron_adds_nothing():
    betas = np.array([[[1.0, 2.0]], [[0.0, 0.0]]])
    with_it, without = wide_preconditioner(betas, [0.5, 0.0]), wide_preconditioner(betas[:1], [0.5])
    assert np.array_equal(with_it.matrix, without.matrix)


def test_one_neuron_is_the_letter_of_the_paper():
    for seed in SEEDS:
        rng = np.random.default_rng((21, seed))
        w, a = rng.normal(size=(1, rng.integers(1, 6))), rng.normal(size=(1, 1))
        beta, delta = (a @ w)[0], float(a[0, 0] ** 2 - np.sum(w**2))
        truth = brute_force([w, a])
        assert relative(wide_preconditioner(beta[None, None], [delta]).matrix, truth) <= 1e-12
        assert relative(kunin2024.preconditioner(beta, delta), truth) <= 1e-12
        if delta > 0:  # h = d_out = 1
            assert relative(isotropic_preconditioner(beta[None], delta).matrix, truth) <= 1e-12


def test_isotropic_is_the_jacobian():
    for seed in SEEDS:
        rng = np.random.default_rng((22, seed))
        d_in, d_out = (int(n) for n in rng.integers(1, 6, size=2))
        delta, rates = float((-1, 0, 1)[seed % 3] * 10 ** rng.uniform(-3, 2)), rng.uniform(0.3, 3, size=2)
        weights = isotropic_weights(rng, d_in, d_out, delta, rates, float(10 ** rng.uniform(-2, 0.5)))
        W1tW1, W2W2t = layer_grams(product(weights), delta, rates)
        assert relative(W1tW1, weights[0].T @ weights[0]) <= 1e-10
        assert relative(W2W2t, weights[1] @ weights[1].T) <= 1e-10
        M, truth = isotropic_preconditioner(product(weights), delta, rates), brute_force(weights, rates)
        assert relative(M.matrix, truth) <= 1e-12
        # as the theorem has it, with the two roots alone
        eigenvalues, V = np.linalg.eigh(product(weights).T @ product(weights))
        root = V * np.sqrt(rates.prod() * eigenvalues.clip(0) + delta**2 / 4) @ V.T
        assert np.allclose(M.inputs + delta / 2 * np.eye(d_in), root, atol=1e-7 * np.linalg.norm(root))


def test_degenerate_products_are_no_trouble():
    for beta in (np.zeros((2, 3)), np.ones((2, 3)), np.eye(3), 1e-8 * np.eye(2, 3), 1e8 * np.eye(3, 2)):
        for delta in (-4.0, -1e-8, 0.0, 1e-8, 4.0, 1e8):
            W1tW1, W2W2t = layer_grams(beta, delta)
            # Δ = δI gives (W1ᵀW1)² + δW1ᵀW1 = WᵀW: the proof of Lemma 8
            for G, square, sign in ((W1tW1, beta.T @ beta, 1), (W2W2t, beta @ beta.T, -1)):
                scale = np.linalg.norm(G) * (np.linalg.norm(G) + abs(delta))
                assert np.linalg.norm(G @ G + sign * delta * G - square) <= 1e-14 * max(scale, 1e-300)


def test_lazy_limits_are_the_size_of_delta():
    """The paper prints δI for δ → −∞ too."""
    beta = np.random.default_rng(0).normal(size=(2, 3))
    for delta in (-1e8, 1e8):
        assert np.allclose(isotropic_preconditioner(beta, delta).matrix, 1e8 * np.eye(6), rtol=0, atol=1e-6)


def test_deep_is_the_jacobian():
    for seed in SEEDS:
        rng = np.random.default_rng((23, seed))
        L, d = int(rng.integers(1, 5)), int(rng.integers(1, 6))
        beta = 10 ** rng.uniform(-2, 1) * rng.normal(size=d)
        delta = 0.0 if seed % 2 else -float(10 ** rng.uniform(-2, 1))
        weights = deep_isotropic(rng, beta, L, delta)
        assert relative(product(weights)[0], beta) <= 1e-12
        M, truth = deep_preconditioner(beta, L, delta), brute_force(weights)
        assert relative(M, truth) <= 1e-12
        assert relative(squared_output_norm(float(np.linalg.norm(beta)), L, delta), np.sum(weights[-1] ** 2)) <= 1e-12
        # Lemma 14 as printed, with ‖a‖² and W_1ᵀW_1 of the network
        a, G = float(np.sum(weights[-1] ** 2)), weights[0].T @ weights[0]
        power = np.linalg.matrix_power
        lemma = power(G, L) + a * sum((a - delta) ** l * power(G, L - 1 - l) for l in range(L))
        assert relative(M, lemma) <= 1e-12


def test_rank_one_chains_of_any_width_are_zero_balanced(rng):
    for sizes in ((4, 1, 1), (4, 6, 1), (3, 2, 5, 1), (5, 7, 1, 3, 1)):
        weights = lr.inits.zero_balanced(rng, sizes=sizes, scale=0.7).weights
        assert relative(deep_preconditioner(product(weights)[0], len(sizes) - 2), brute_force(weights)) <= 1e-12


def test_deep_at_zero():
    assert np.array_equal(deep_preconditioner([0.0, 0.0], 2, -3.0), 9 * np.eye(2))
    assert np.array_equal(deep_preconditioner([0.0, 0.0], 2), np.zeros((2, 2)))


def test_output_norm_at_extreme_sizes():
    for size in (1e-8, 1.0, 1e8):
        for delta in (-1e-8, -1.0, -1e8):
            for L in (1, 2, 5):
                x = squared_output_norm(size, L, delta)
                assert abs(x * (x - delta) ** L / size**2 - 1) <= 1e-12


@pytest.mark.parametrize("delta", [-3.0, -0.5, 0.0, 0.5, 3.0])
def test_flow_of_one_neuron_on_any_inputs(rng, delta):
    for _ in range(3):
        task = task_of(rng, 4, 1, samples=3)
        beta0 = rng.normal(size=4)
        beta0 *= (beta0 @ task.sigma_yx[0]) / (beta0 @ task.sigma_xx @ beta0)  # below loss(0), so never through zero
        network = lr.inits.single_neuron(beta0, delta=delta)
        truth = integrate.function(network.weights, task.sigma_yx, task.sigma_xx, TIMES)
        ours = function_space_flow(task, network.function, delta, TIMES)
        assert np.abs(ours - truth).max() <= 1e-10 * np.abs(truth).max()


def test_flow_on_white_inputs_is_the_closed_form(rng):
    for delta in (-2.0, 0.0, 2.0):
        task = lr.Task.from_correlations(rng.normal(size=(1, 3)))
        network = lr.inits.single_neuron(0.3 * task.target[0] + 0.1 * rng.normal(size=3), delta=delta)
        exact = lr.solve(lr.Problem(task, network), TIMES).function
        assert np.abs(function_space_flow(task, network.function[0], delta, TIMES) - exact).max() <= 1e-11


@pytest.mark.compiles
@pytest.mark.parametrize("delta", [-2.0, 0.0, 2.0])
def test_flow_of_an_isotropic_start(rng, delta):
    for d_in, d_out in ((3, 2), (2, 3), (3, 3), (1, 2)):
        weights = isotropic_weights(rng, d_in, d_out, delta, (1.0, 1.0), 0.8)
        task = task_of(rng, d_in, d_out)
        truth = integrate.function(weights, task.sigma_yx, task.sigma_xx, TIMES)
        ours = function_space_flow(task, product(weights), delta, TIMES, model="isotropic")
        assert np.abs(ours - truth).max() <= 1e-10 * np.abs(truth).max()


@pytest.mark.compiles
@pytest.mark.parametrize("hidden_layers", [1, 2, 3])
@pytest.mark.parametrize("delta", [0.0, -0.8])
def test_flow_of_a_deep_start(rng, hidden_layers, delta):
    for _ in range(2):
        beta, task = rng.normal(size=3), task_of(rng, 3, 1, samples=2)
        weights = deep_isotropic(rng, beta, hidden_layers, delta)
        truth = integrate.function(weights, task.sigma_yx, task.sigma_xx, TIMES)
        ours = function_space_flow(task, beta, delta, TIMES, model="deep", hidden_layers=hidden_layers)
        assert np.abs(ours - truth).max() <= 1e-10 * np.abs(truth).max()


def test_flow_where_it_is_stiff():
    """One rate is |δ|‖x‖², others are far slower: to t = 100 explicit steps took minutes. Ends by the closed form."""
    task, beta0 = lr.Task.from_data([[0.5, 1.0]], [[1.1]]), np.array([0.4, 0.05])
    for delta in (-1e4, 1e4, 1e6):
        w, a = (W.ravel() for W in lr.inits.single_neuron(beta0, delta=delta).weights)
        v = np.array([2.0, -1.0]) / np.sqrt(5)
        gamma = delta + (v @ w) ** 2 if delta > 0 else a[0] ** 2 - ((np.array([1.0, 2.0]) @ w) / np.sqrt(5)) ** 2
        s = 1.1 / np.sqrt(1.25)
        a_end = (
            np.sqrt(gamma / 2 + np.hypot(gamma / 2, s))
            if gamma > 0
            else s / np.sqrt(np.hypot(gamma / 2, s) - gamma / 2)
        )
        truth = s * np.array([1.0, 2.0]) / np.sqrt(5) + a_end * (v @ w) * v
        started = time.perf_counter()
        ours = function_space_flow(task, beta0, delta, [100.0])[0, 0]
        assert time.perf_counter() - started < 20  # 0.2 s, and 181 s once
        assert relative(ours, truth) <= 1e-10
    for delta in (-300.0, 300.0, 1e4):
        white = lr.Task.from_correlations([[0.3, -1.0, 0.5]])
        network = lr.inits.single_neuron(0.3 * white.target[0] + [0.1, 0.0, 0.1], delta=delta)
        times = [0.001, 0.1, 2.0, 50.0]
        exact = lr.solve(lr.Problem(white, network), times).function
        assert np.abs(function_space_flow(white, network.function[0], delta, times) - exact).max() <= 1e-11


def test_a_long_flow_shows_its_progress(monkeypatch):
    moved = []

    @contextmanager
    def bar(total, label):
        assert (total, label) == (5.0, "function_space_flow")
        yield moved.append

    monkeypatch.setattr("lazyrich.bias.function_space.progress", bar)
    function_space_flow(lr.Task.from_correlations([[1.0, 2.0]]), [0.1, 0.3], 1.0, [0.0, 2.0, 5.0])
    assert len(moved) > 10 and min(moved) > 0 and sum(moved) >= 5 - 1e-12


def test_flow_from_nothing(rng):
    """A deep isotropic start may have a = 0, and moves at once; with δ = 0 it is a saddle."""
    task = task_of(rng, 3, 1)
    weights = deep_isotropic(rng, np.zeros(3), 2, -1.0)
    truth = integrate.function(weights, task.sigma_yx, task.sigma_xx, TIMES)
    ours = function_space_flow(task, np.zeros(3), -1.0, TIMES, model="deep", hidden_layers=2)
    assert np.abs(ours - truth).max() <= 1e-10
    assert not function_space_flow(task, np.zeros(3), 0.0, TIMES, model="deep").any()


@pytest.mark.compiles
def test_flow_through_zero_is_refused_when_it_happens(rng):
    times, crossings = np.linspace(0, 2, 41), 0
    for _ in range(12):
        task, beta0, delta = task_of(rng, 3, 1, samples=2), 0.5 * rng.normal(size=3), -4.0
        start = lr.inits.single_neuron(beta0, delta=delta).weights
        a = integrate.weights(start, task.sigma_yx, task.sigma_xx, times)[1][:, 0, 0]
        when = times[-1]
        if a[-1] < 0:
            crossings += 1
            with pytest.raises(lr.InvalidInput, match=r"does not tell the direction of w: lr\.flow") as refusal:
                function_space_flow(task, beta0, delta, times[-1:])
            when = float(str(refusal.value).split("t = ")[1].split(",")[0])
            after = int(np.argmax(a < 0))
            assert times[after - 1] <= when <= times[after]
            when *= 0.9
        truth = integrate.function(start, task.sigma_yx, task.sigma_xx, [when])
        assert np.abs(function_space_flow(task, beta0, delta, [when]) - truth).max() <= 1e-10
    assert 3 <= crossings <= 9


def test_sentences(unchecked_shapes):
    one, two = lr.Task.from_correlations([[1.0, 2.0]]), lr.Task.from_correlations(np.eye(2))
    refused = [
        (lambda: wide_preconditioner(np.ones((2, 2)), [1.0, 1.0]), r"betas must have shape \(h, d_out, d_in\)"),
        (lambda: wide_preconditioner(np.ones((2, 2, 2)), [1.0]), r"one of the 1 deltas .* shape \(2, 2, 2\)"),
        (lambda: wide_preconditioner(np.eye(2)[None], [1.0]), "betas must each have rank one"),
        (lambda: wide_preconditioner(np.zeros((1, 1, 2)), [1.0]), r"betas\[0\] must not be zero where its delta is 1"),
        (lambda: deep_preconditioner([1.0], 1, 0.5), "delta must not be above 0, and it is 0.5"),
        (lambda: deep_preconditioner([1.0], 0), "hidden_layers must be at least 1, and it is 0"),
        (lambda: function_space_flow(one, [0.0, 0.0], -1.0, [1.0]), "beta must not be zero where delta is negative"),
        (lambda: function_space_flow(one, [1.0], 0.0, [1.0]), "beta0 must have shape 1 × 2, and it has 1 × 1"),
        (
            lambda: function_space_flow(one, [1.0, 1.0], 0.0, [1.0], model="wide"),
            "model must be one of 'single neuron'",
        ),
        (lambda: function_space_flow(two, np.eye(2), 0.0, [1.0]), "'single neuron' has one output, and the task has 2"),
        (lambda: function_space_flow(one, [1.0, 1.0], 1.0, [1.0], model="deep"), "delta must not be above 0"),
        (
            lambda: function_space_flow(one, [1.0, 1.0], 1.0, [1.0], hidden_layers=2),
            "has one hidden layer, and hidden_l",
        ),
        (lambda: function_space_flow("x", [1.0], 1.0, [1.0]), "task must be a lazyrich Task, and it is a str"),
    ]
    for call, sentence in refused:
        with pytest.raises(lr.InvalidInput, match=sentence):
            call()


def test_the_factors_are_what_the_matrix_is_made_of():
    M = Preconditioner(np.array([[1.0, 2.0], [2.0, 5.0]]), np.diag([1.0, 2.0, 3.0]))
    G = np.arange(6.0).reshape(2, 3)
    assert np.array_equal(M.matrix @ G.ravel(), M.apply(G).ravel())
