"""The nearest zero-balanced network: balanced to rounding, and no nearer one is found by others."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import lazyrich as lr


def facts(network):
    d_in, *_, d_out = network.sizes
    return lr.Problem(lr.Task.from_correlations(np.eye(d_out, d_in)), network).facts


def drawn(seed, sizes, scale=1.0):
    rng = np.random.default_rng(seed)
    return [scale * rng.normal(size=(out, into)) for into, out in itertools.pairwise(sizes)]


def length(layers):
    return np.sqrt(sum(np.sum(W**2) for W in layers))


@pytest.mark.long
@settings(max_examples=30)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 5), min_size=3, max_size=5), st.floats(-6, 3))
def test_it_is_balanced_and_as_far_as_it_says(seed, sizes, log_scale):
    W = drawn(seed, sizes, 10.0**log_scale)
    found = lr.balanced(lr.Network(W))
    assert facts(found.network).zero_balanced
    moved = length([one - other for one, other in zip(W, found.network.weights, strict=True)])
    assert found.distance == pytest.approx(moved / length(W), rel=1e-9, abs=1e-12)
    assert found.distance <= 1


@pytest.mark.parametrize("sizes", [(2, 3, 2), (2, 2, 3), (3, 2, 3), (2, 3, 1), (2, 2, 2, 2)])
def test_no_nearer_one_is_found_by_constrained_minimisation(sizes):
    W = drawn(sum(sizes), sizes)
    given_weights = np.concatenate([layer.ravel() for layer in W])
    cuts = np.cumsum([layer.size for layer in W])[:-1]

    def layers(y):
        return [part.reshape(layer.shape) for part, layer in zip(np.split(y, cuts), W, strict=True)]

    def unbalanced(y):
        pairs = itertools.pairwise(layers(y))
        return np.concatenate([(B.T @ B - A @ A.T)[np.triu_indices(len(A))] for A, B in pairs])

    rng, least = np.random.default_rng(0), np.inf
    for attempt in range(8):
        start = given_weights + (attempt > 0) * rng.normal(size=given_weights.size)
        end = minimize(
            lambda y: np.sum((y - given_weights) ** 2), start, jac=lambda y: 2 * (y - given_weights),
            constraints={"type": "eq", "fun": unbalanced}, method="SLSQP", options={"maxiter": 500, "ftol": 1e-14},
        )  # fmt: skip
        if np.abs(unbalanced(end.x)).max() < 1e-7:
            least = min(least, float(np.sqrt(end.fun)) / np.linalg.norm(given_weights))
    assert lr.balanced(lr.Network(W)).distance < least + 1e-6


@pytest.mark.parametrize(
    ("sizes", "proven"),
    [((3, 3, 3), True), ((3, 5, 3), True), ((3, 2, 3), False), ((3, 5, 2), False), ((2, 2, 2, 2), False)],
)
def test_what_is_not_proven_nearest_says_that_it_is_a_bound(sizes, proven):
    found = lr.balanced(lr.inits.gaussian(0, sizes=sizes, scale=0.3))
    assert found.nearest is proven and ("an upper bound" in str(found)) is not proven


def test_of_a_square_function_the_distance_is_known():
    """‖W1‖² + ‖W2‖² − ½ ‖W1V + W2ᵀU‖² with the singular vectors of W2W1."""
    W1, W2 = drawn(5, (4, 6, 4))
    nuclear = np.linalg.svd(W2 @ W1, compute_uv=False).sum()
    squares = np.sum(W1**2) + np.sum(W2**2)
    assert lr.balanced(lr.Network([W1, W2])).distance == pytest.approx(
        np.sqrt((squares - 2 * nuclear) / 2 / squares), rel=1e-9
    )


def test_what_is_balanced_stays():
    for sizes in ((4, 6, 3), (3, 2, 4, 3)):
        network = lr.inits.zero_balanced(0, sizes=sizes, scale=0.3)
        found = lr.balanced(network)
        assert found.distance < 1e-7
        for W, V in zip(network.weights, found.network.weights, strict=True):
            np.testing.assert_allclose(W, V, atol=1e-6)


def test_precision_is_that_of_the_weights():
    W = [layer.astype("float32") for layer in drawn(1, (3, 4, 2))]
    found = lr.balanced(lr.Network(W))
    assert found.network.eps == 2.0**-23 and facts(found.network).zero_balanced
    assert lr.balanced(lr.Network([np.zeros((2, 3)), np.zeros((1, 2))])).distance == 0
    assert "balanced" in str(found)
