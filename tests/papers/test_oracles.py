"""What judges the claims: derivatives, flows and draws, by values known beforehand; and that they judge alone."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import expm

from lazyrich.papers.base import draws, oracles


@pytest.mark.parametrize("module", [oracles, draws])
def test_imports_nothing_from_the_rest(module):
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    imported = [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    imported += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert "numpy" in imported and not [name for name in imported if "lazyrich" in name]


class TestRelativeError:
    def test_is_relative_to_the_largest_entry(self):
        assert oracles.relative_error([[1.0, 5.0]], [[1.0, 4.0]]) == 0.25

    def test_is_absolute_where_the_truth_is_zero(self):
        assert oracles.relative_error([0.5, 0.0], [0.0, 0.0]) == 0.5

    def test_what_is_not_a_number_is_within_no_tolerance(self):
        assert not oracles.relative_error([np.nan, 1.0], [1.0, 1.0]) <= 1e300
        assert not oracles.relative_error(1.0, np.nan) <= 1e300

    def test_shapes_are_not_stretched(self):
        with pytest.raises(ValueError, match=r"shapes \(2,\) and \(1, 2\)"):
            oracles.relative_error([1.0, 2.0], [[1.0, 2.0]])


class TestDerivatives:
    def test_gradient_of_a_quadratic_form(self, rng):
        A, x = rng.normal(size=(4, 4)), rng.normal(size=4)
        (slope,) = oracles.gradient(lambda p: p[0] @ A @ p[0], [x])
        np.testing.assert_allclose(slope, (A + A.T) @ x, rtol=1e-14)

    def test_gradient_keeps_shapes_and_parameters(self, rng):
        X, Y = rng.normal(size=(2, 3)), rng.normal(size=(3, 2))
        first, second = oracles.gradient(lambda p: np.trace(p[0] @ p[1]), [X, Y])
        np.testing.assert_allclose(first, Y.T, rtol=1e-15)
        np.testing.assert_allclose(second, X.T, rtol=1e-15)

    def test_hessian_of_a_quartic(self):
        H = oracles.hessian(lambda p: p[0] ** 4 + p[0] * p[1] ** 2, [np.array(1.0), np.array(2.0)])
        np.testing.assert_allclose(H, [[12.0, 4.0], [4.0, 2.0]], atol=1e-8)


class TestFlows:
    def test_integrate_keeps_ten_digits(self):
        A = np.array([[-1.0, 2.0], [-2.0, -0.5]])
        states = oracles.integrate(lambda x: A @ x, [[1.0, 0.0], [0.0, 1.0]], [0.0, 0.7, 3.0])
        np.testing.assert_allclose(states, [expm(A * t) for t in (0.0, 0.7, 3.0)], atol=1e-10)

    def test_layers_is_the_flow_of_the_loss(self, rng):
        """Depth 3, inputs that are not white, a rate for each layer: the chain rule against the loss alone."""
        X, Y, rates = rng.normal(size=(10, 3)), rng.normal(size=(10, 2)), [1.0, 0.5, 2.0]
        start, times = draws.gaussian(rng, (3, 2, 4, 2)), [0.0, 0.5, 1.5]
        sigma_yx, sigma_xx = oracles.correlations(X, Y)

        def loss(Ws):
            return np.sum((Y - X @ oracles.product(Ws).T) ** 2) / 20

        quick = oracles.layers(start, sigma_yx, times, sigma_xx, rates)
        slow = oracles.flow_of(loss, start, times, rates)
        for known, found in zip(slow, quick, strict=True):
            np.testing.assert_allclose(found, known, atol=1e-10)

    def test_one_layer_is_known(self, rng):
        sigma_yx, W = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
        (found,) = oracles.layers([W], sigma_yx, [0.0, 2.0])
        np.testing.assert_allclose(found, [W, sigma_yx + (W - sigma_yx) * np.exp(-2.0)], atol=1e-11)


class TestDraws:
    def test_orthogonal(self, rng):
        Q = draws.orthogonal(rng, 5, 3)
        np.testing.assert_allclose(Q.T @ Q, np.eye(3), atol=1e-14)

    @pytest.mark.parametrize("shape", [(2, 4), (4, 2), (3, 3)])
    def test_target_has_the_modes_that_it_names(self, rng, shape):
        sigma_yx, U, s, V = draws.target(rng, *shape)
        np.testing.assert_allclose(np.linalg.svd(sigma_yx, compute_uv=False), s, atol=1e-13)
        np.testing.assert_allclose(U.T @ sigma_yx @ V, np.diag(s), atol=1e-13)
        assert np.all(-np.diff(s) >= 0.2 - 1e-12) and s[-1] > 0.4

    def test_white_data(self, rng):
        X, Y = draws.white_data(rng, 9, 4, 2)
        np.testing.assert_allclose(oracles.correlations(X, Y)[1], np.eye(4), atol=1e-13)

    @pytest.mark.parametrize("sizes", [(3, 4, 2), (2, 5, 3, 4), (4, 1, 3)])
    def test_balanced(self, rng, sizes):
        Ws = draws.balanced(rng, sizes)
        assert [W.shape for W in Ws] == list(zip(sizes[1:], sizes[:-1], strict=True))
        for below, above in pairwise(Ws):
            np.testing.assert_allclose(above.T @ above, below @ below.T, atol=1e-13)

    @pytest.mark.parametrize("lam, sizes", [(2.0, (3, 2, 4)), (-1.5, (4, 3, 2)), (0.5, (1, 3, 3)), (0.0, (2, 5, 2))])
    def test_lambda_balanced(self, rng, lam, sizes):
        W1, W2 = draws.lambda_balanced(rng, *sizes, lam)
        assert (W1.shape, W2.shape) == (sizes[1::-1], sizes[:0:-1])
        np.testing.assert_allclose(W2.T @ W2 - W1 @ W1.T, lam * np.eye(sizes[1]), atol=1e-13)

    def test_lambda_needs_room(self, rng):
        with pytest.raises(ValueError, match="needs h ≤ 2"):
            draws.lambda_balanced(rng, 4, 3, 2, 1.0)

    @pytest.mark.parametrize("sizes", [(3, 4, 3), (3, 5, 4, 3)])
    def test_aligned(self, rng, sizes):
        _, U, s, V = draws.target(rng, sizes[-1], sizes[0])
        Ws = draws.aligned(rng, U, V, s / 10, sizes)
        np.testing.assert_allclose(oracles.product(Ws), U @ np.diag(s / 10) @ V.T, atol=1e-14)
        for below, above in pairwise(Ws):
            np.testing.assert_allclose(above.T @ above, below @ below.T, atol=1e-13)
