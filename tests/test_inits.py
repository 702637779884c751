"""Starts: balanced to rounding, with the singular values of the published recipe, random where they should be."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest, norm

import lazyrich as lr


def imbalance(first, second, lam=0.0):
    """‖W2ᵀW2 − W1W1ᵀ − λI‖ relative to the weights."""
    D = second.T @ second - first @ first.T - lam * np.eye(len(first))
    return np.linalg.norm(D) / (np.sum(first**2) + np.sum(second**2))


def singular_values(W, count=None):
    return np.linalg.svd(W, compute_uv=False)[:count]


def gaussian_product(seed, sizes, scale):
    """The product of the Gaussian layers that the recipe starts from, drawn first layer first."""
    rng = np.random.default_rng(seed)
    W = np.eye(sizes[0])
    for columns, rows in pairwise(sizes):
        W = scale * rng.normal(size=(rows, columns)) @ W
    return W


class TestZeroBalanced:
    @pytest.mark.parametrize("scale", [1e-8, 0.01, 10.0])
    @pytest.mark.parametrize(
        "sizes", [(8, 14, 8), (5, 10, 2), (4, 2, 6), (3, 3, 3), (1, 7, 1), (5, 6, 7, 4), (6, 3, 8, 2, 5)]
    )
    def test_layers_are_balanced(self, sizes, scale):
        layers = lr.inits.zero_balanced(0, sizes=sizes, scale=scale).weights
        assert max(imbalance(a, b) for a, b in pairwise(layers)) < 1e-15

    @pytest.mark.parametrize("sizes", [(8, 14, 8), (5, 10, 2), (4, 2, 6), (5, 6, 7, 4), (6, 3, 8, 2, 5)])
    def test_singular_values_follow_braun(self, sizes):
        network = lr.inits.zero_balanced(7, sizes=sizes, scale=0.3)
        rank, L = min(sizes), len(sizes) - 1
        s = singular_values(gaussian_product(7, sizes, 0.3), rank)
        np.testing.assert_allclose(singular_values(network.function, rank), 1.15**L * s, rtol=1e-12)
        for W in network.weights:  # each layer carries its share
            np.testing.assert_allclose(singular_values(W, rank), 1.15 * s ** (1 / L), rtol=1e-12)
            assert np.all(singular_values(W)[rank:] < 1e-14)

    def test_determinants_of_square_starts_have_either_sign(self):
        """Half of them differ from the target's (theory: section 2), which decides between minimum and saddle."""
        rng = np.random.default_rng(0)
        starts = [lr.inits.zero_balanced(rng, sizes=(3, 5, 3), scale=0.5) for _ in range(400)]
        negative = sum(np.linalg.det(start.function) < 0 for start in starts)
        assert abs(negative - 200) < 4 * 10  # four standard deviations of the binomial

    def test_hidden_units_are_rotated_at_random(self):
        """Without the rotation, W2ᵀW2 would be diagonal in the same basis for every seed."""
        first = np.array([lr.inits.zero_balanced(seed, sizes=(2, 2, 2), scale=1.0).weights[0] for seed in range(400)])
        D = first @ first.transpose(0, 2, 1)
        angle = np.arctan2(2 * D[:, 0, 1], D[:, 0, 0] - D[:, 1, 1])  # twice that of the leading direction
        assert kstest(angle, "uniform", args=(-np.pi, 2 * np.pi)).pvalue > 1e-3


ADMISSIBLE = {  # sign of λ: sizes, among them h = 1, h = d_out, h = d_in and hidden directions without a partner
    1.0: [(5, 3, 4), (4, 4, 4), (3, 5, 5), (2, 6, 7), (5, 1, 1), (6, 2, 2)],
    -1.0: [(5, 3, 4), (4, 4, 4), (5, 5, 3), (7, 6, 2), (1, 1, 5), (5, 1, 1)],
}


class TestLambdaBalanced:
    @pytest.mark.parametrize("scale", [1e-3, 1.0])
    @pytest.mark.parametrize("sign, size", [(sign, size) for sign in (1.0, -1.0) for size in (1e-3, 1.0, 30.0)])
    def test_layers_are_balanced_and_the_product_is_the_recipes(self, sign, size, scale):
        lam = sign * size
        for sizes in ADMISSIBLE[sign]:
            network = lr.inits.lambda_balanced(3, sizes=sizes, lam=lam, scale=scale)
            assert network.sizes == sizes
            assert imbalance(*network.weights, lam) < 2e-15
            s = singular_values(gaussian_product(3, sizes, scale), min(sizes))
            got = singular_values(network.function, min(sizes))
            np.testing.assert_allclose(got, 1.15**2 * s, rtol=1e-12, atol=1e-15 * max(s[0], size))

    def test_of_zero_is_zero_balanced(self):
        a = lr.inits.lambda_balanced(5, sizes=(3, 7, 4), lam=0.0, scale=0.1)
        b = lr.inits.zero_balanced(5, sizes=(3, 7, 4), scale=0.1)
        assert all(np.array_equal(x, y) for x, y in zip(a.weights, b.weights, strict=True))

    @pytest.mark.parametrize(
        "lam, sizes, side, room",
        [(0.5, (9, 4, 3), "outputs", 3), (-2.0, (3, 4, 9), "inputs", 3), (1e-3, (2, 2, 1), "outputs", 1)],
    )
    def test_of_inadmissible_balance_is_explained(self, lam, sizes, side, room):
        sentence = (
            rf"lam = {lam:g} needs a hidden layer no wider than the {side} \({room}\), and it has {sizes[1]} units"
            rf".* try lam = 0 or hidden ≤ {room}\.$"
        )
        with pytest.raises(lr.InvalidInput, match=sentence):
            lr.inits.lambda_balanced(0, sizes=sizes, lam=lam, scale=0.1)


DEEP = [  # sizes and λ of each pair: bottlenecks, layers wider than both ends, Kunin's Definition 12
    ((4, 4, 4, 1), (0.0, -2.0)),
    ((5, 3, 4, 4), (0.7, 0.7)),
    ((4, 6, 6, 6), (0.7, 0.7)),
    ((4, 6, 6, 8), (0.7, -0.3)),
    ((3, 5, 5, 3), (1.0, -1.0)),
    ((6, 5, 4, 3, 2), (-0.5, -0.2, 0.0)),
    ((5, 5, 5, 5, 5), (1.0, -2.0, 30.0)),
    ((2, 9, 7, 2), (0.0, 0.0)),
]


class TestDeepBalance:
    @pytest.mark.parametrize("sizes, lam", DEEP)
    @pytest.mark.parametrize("scale", [1e-3, 1.0])
    def test_each_pair_has_its_balance_and_the_product_is_the_recipes(self, sizes, lam, scale):
        network = lr.inits.lambda_balanced(3, sizes=sizes, lam=list(lam), scale=scale)
        assert network.sizes == sizes
        for W1, W2, own in zip(network.weights, network.weights[1:], lam, strict=False):
            assert imbalance(W1, W2, own) < 3e-15
        s = singular_values(gaussian_product(3, sizes, scale), min(sizes))
        got = singular_values(network.function, min(sizes))
        largest = max(1.0, max(map(abs, lam))) ** (len(sizes) / 2)
        np.testing.assert_allclose(got, 1.15 ** (len(sizes) - 1) * s, rtol=1e-12, atol=1e-15 * max(s[0], largest))

    def test_one_number_is_for_all_pairs(self):
        a = lr.inits.lambda_balanced(5, sizes=(3, 4, 5, 6), lam=0.5, scale=0.1)
        b = lr.inits.lambda_balanced(5, sizes=(3, 4, 5, 6), lam=[0.5, 0.5], scale=0.1)
        assert all(np.array_equal(x, y) for x, y in zip(a.weights, b.weights, strict=True))

    def test_aligned_modes_have_their_strengths_and_balances(self):
        task = lr.Task.from_correlations(np.random.default_rng(0).normal(size=(3, 4)))
        U, _, V = task.modes
        strengths, lam = np.array([0.2, -1e-3, 5.0]), np.array([[0.5, 0.0, -1.0], [-0.3, 2.0, 0.0], [0.0, 0.1, 4.0]])
        for asked, wanted in (
            (lam, lam),
            (0.7, np.full((3, 3), 0.7)),
            ([1.0, 0.0, 2.0], np.tile([1.0, 0.0, 2.0], (3, 1))),
        ):
            network = lr.inits.aligned(1, task, hidden=(5, 3, 4), strengths=strengths, lam=asked)
            np.testing.assert_allclose(U.T @ network.function @ V[:, :3], np.diag(strengths), atol=1e-14)
            followed = lr.Problem(task, network).followed
            np.testing.assert_allclose(np.diff(followed.sizes**2, axis=0), wanted, atol=1e-13)
            assert followed.error == 0

    def test_a_strength_of_zero_has_the_balance_alone(self):
        task = lr.Task.from_correlations([[1.0]])
        W = lr.inits.aligned(0, task, hidden=(1, 1), strengths=0.0, lam=[[0.5], [-0.2]]).weights
        np.testing.assert_allclose(np.abs(W).ravel() ** 2, [0.0, 0.5, 0.3], atol=1e-15)


class TestRandom:
    def test_gaussian_entries_are_gaussian(self):
        network = lr.inits.gaussian(0, sizes=(60, 50, 40), scale=0.3)
        assert network.sizes == (60, 50, 40)
        for W in network.weights:
            assert kstest(W.ravel(), norm(0, 0.3).cdf).pvalue > 1e-3
            assert W.std() == pytest.approx(0.3, rel=4 / np.sqrt(2 * W.size))

    @pytest.mark.parametrize("make", [lr.inits.gaussian, lr.inits.orthogonal])
    def test_take_an_activation(self, make):
        assert make(0, sizes=(3, 4, 2), scale=1.0, activation="tanh").activation == lr.Activation.of("tanh")

    @pytest.mark.parametrize("sizes", [(3, 3, 3), (5, 2, 4), (2, 6, 6, 1)])
    def test_orthogonal_layers_have_equal_singular_values(self, sizes):
        for W in lr.inits.orthogonal(0, sizes=sizes, scale=0.7).weights:
            np.testing.assert_allclose(singular_values(W), 0.7, rtol=1e-14)

    def test_orthogonal_layers_are_uniform(self):
        """Rotations of the plane: uniform angles, and reflections as often as rotations."""
        rng = np.random.default_rng(2)
        W = np.array([lr.inits.orthogonal(rng, sizes=(2, 2), scale=1.0).weights[0] for _ in range(400)])
        assert kstest(np.arctan2(W[:, 1, 0], W[:, 0, 0]), "uniform", args=(-np.pi, 2 * np.pi)).pvalue > 1e-3
        assert abs(np.sum(np.linalg.det(W) < 0) - 200) < 4 * 10


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: lr.inits.zero_balanced(rng, sizes=(3, 4, 2), scale=1.0),
        lambda rng: lr.inits.lambda_balanced(rng, sizes=(3, 2, 2), lam=1.0, scale=1.0),
        lambda rng: lr.inits.gaussian(rng, sizes=(3, 2, 2), scale=1.0),
        lambda rng: lr.inits.orthogonal(rng, sizes=(3, 2, 2), scale=1.0),
        lambda rng: lr.inits.aligned(rng, lr.tasks.semantic_hierarchy(), hidden=9, strengths=1.0),
        lambda rng: lr.inits.prior_knowledge(rng, lr.tasks.semantic_hierarchy(), hidden=9),
    ],
)
def test_a_seed_fixes_the_start_and_a_generator_goes_on(make):
    same, generator = make(4).weights[0], np.random.default_rng(4)
    np.testing.assert_array_equal(make(generator).weights[0], same)
    assert not np.array_equal(make(generator).weights[0], same)


class TestAligned:
    def task(self, rng, d_out=4, d_in=5):
        return lr.Task.from_correlations(rng.normal(size=(d_out, d_in)))

    @pytest.mark.parametrize("lam", [0.0, 2.0, -2.0, [1.0, -1.0, 0.0, 30.0]])
    @pytest.mark.parametrize("strengths", [1e-6, 0.3, [0.5, -0.2, 0.0, 1e-9]])
    def test_modes_are_diagonal_with_the_strengths_and_balances_given(self, rng, strengths, lam):
        task = self.task(rng)
        network = lr.inits.aligned(rng, task, hidden=6, strengths=strengths, lam=lam)
        U, _, V = task.modes
        size = max(np.sum(W**2) for W in network.weights)
        strengths, lam = np.broadcast_to(strengths, 4), np.broadcast_to(lam, 4)
        np.testing.assert_allclose(U.T @ network.function @ V, np.diag(strengths), rtol=0, atol=4e-15 * size)
        np.testing.assert_allclose(network.function, U * strengths @ V.T, rtol=0, atol=4e-15 * size)
        p, q = network.weights[0] @ V, network.weights[1].T @ U
        np.testing.assert_allclose(q.T @ q - p.T @ p, np.diag(lam), rtol=0, atol=4e-15 * size)

    def test_as_many_modes_as_the_hidden_layer_has_room_for(self, rng):
        task = self.task(rng)
        network = lr.inits.aligned(rng, task, hidden=2, strengths=[0.4, 0.3])
        U, _, V = task.modes
        np.testing.assert_allclose(U.T @ network.function @ V, np.diag([0.4, 0.3, 0, 0]), rtol=0, atol=1e-15)

    @pytest.mark.parametrize("hidden", [(6, 7), (4, 9, 5), (8, 4, 4, 6)])
    def test_deep(self, rng, hidden):
        task, strengths = self.task(rng), np.array([0.5, -0.2, 0.1, 0.01])
        layers = lr.inits.aligned(rng, task, hidden=hidden, strengths=strengths).weights
        U, _, V = task.modes
        np.testing.assert_allclose(U.T @ lr.Network(layers).function @ V, np.diag(strengths), rtol=0, atol=1e-15)
        assert max(imbalance(a, b) for a, b in pairwise(layers)) < 1e-15


class TestSingleNeuron:
    @pytest.mark.parametrize("sign", [1, -1])
    @pytest.mark.parametrize("delta", [0.0, 1e-3, 1.0, 30.0, -1e-3, -1.0, -30.0])
    def test_has_the_function_the_balance_and_the_sign_asked_for(self, rng, delta, sign):
        beta = rng.normal(size=5)
        network = lr.inits.single_neuron(beta, delta=delta, sign=sign)
        w, a = network.weights[0][0], network.weights[1][0, 0]
        assert network.sizes == (5, 1, 1)
        np.testing.assert_allclose(a * w, beta, rtol=1e-14)
        assert a**2 - w @ w == pytest.approx(delta, abs=1e-15 * (a**2 + w @ w))
        assert np.sign(a) == sign

    @settings(max_examples=40)
    @given(
        size=st.floats(-12, 6).map(lambda x: 10**x),
        delta=st.one_of(
            st.just(0.0), st.floats(-12, 6).map(lambda x: 10**x), st.floats(-12, 6).map(lambda x: -(10**x))
        ),
    )
    def test_at_any_scale(self, size, delta):
        network = lr.inits.single_neuron([0.6 * size, -0.8 * size], delta=delta)
        w, a = network.weights[0][0], network.weights[1][0, 0]
        np.testing.assert_allclose(a * w, [0.6 * size, -0.8 * size], rtol=1e-14)
        assert abs(a**2 - w @ w - delta) <= 2e-15 * (a**2 + w @ w)

    def test_of_zero_function_has_an_output_weight_only(self):
        network = lr.inits.single_neuron([0.0, 0.0], delta=4.0)
        np.testing.assert_array_equal(network.weights[0], [[0.0, 0.0]])
        np.testing.assert_array_equal(network.weights[1], [[2.0]])

    def test_of_zero_function_and_negative_delta_has_no_direction(self):
        with pytest.raises(lr.InvalidInput, match=r"beta must not be zero when delta is negative"):
            lr.inits.single_neuron([0.0, 0.0], delta=-1.0)


class TestPriorKnowledge:
    @pytest.mark.parametrize("hidden", [14, 8, (9, 10)])
    def test_has_learned_the_task(self, hidden):
        task = lr.tasks.semantic_hierarchy()
        network = lr.inits.prior_knowledge(0, task, hidden=hidden)
        np.testing.assert_allclose(network.function, task.targets.T, rtol=0, atol=1e-14)
        layers = network.weights
        assert max(imbalance(a, b) for a, b in pairwise(layers)) < 1e-15

    def test_of_correlated_inputs_is_the_best_map(self, rng):
        X, Y = rng.normal(size=(30, 4)) @ np.diag([1, 2, 3, 4]), rng.normal(size=(30, 3))
        network = lr.inits.prior_knowledge(rng, lr.Task.from_data(X, Y), hidden=5)
        np.testing.assert_allclose(network.function, np.linalg.lstsq(X, Y)[0].T, rtol=0, atol=1e-13)

    def test_a_narrow_network_knows_the_strongest_modes(self, rng):
        task = lr.Task.from_correlations(rng.normal(size=(4, 5)))
        U, s, Vt = np.linalg.svd(task.sigma_yx, full_matrices=False)
        network = lr.inits.prior_knowledge(rng, task, hidden=2)
        np.testing.assert_allclose(network.function, U[:, :2] * s[:2] @ Vt[:2], rtol=0, atol=1e-14)
