"""Kernel distances in blocks, against whole kernels from Jacobians written by hand."""

from __future__ import annotations

import numpy as np
import pytest

from lazyrich._check import InvalidInput
from lazyrich.laziness.tangent import jax_jacobian, kernel_changes

pytestmark = pytest.mark.timeout(120)

INPUTS, HIDDEN, OUTPUTS, SAMPLES = 4, 5, 3, 11


def kernel_distances(*arguments, **options):
    return kernel_changes(*arguments, **options).distance


def parameters(rng, moves=(0.0, 0.1, 1.0)):
    """The parameters of a two-layer tanh network with biases, going away from a start; columns in the order W, b, V."""
    start = [rng.normal(size=(HIDDEN, INPUTS)), rng.normal(size=HIDDEN), rng.normal(size=(OUTPUTS, HIDDEN))]
    away = [rng.normal(size=part.shape) for part in start]
    return [[part + move * step for part, step in zip(start, away, strict=True)] for move in moves]


def jacobian_by_hand(state, x):
    """(outputs, parameters) of V tanh(Wx + b), entry by entry."""
    W, b, V = state
    h = np.tanh(W @ x + b)
    rows = []
    for o in range(len(V)):
        back = V[o] * (1 - h**2)
        readout = np.zeros_like(V)
        readout[o] = h
        rows.append(np.concatenate([np.outer(back, x).ravel(), back, readout.ravel()]))
    return np.array(rows)


def whole(state, X):
    return np.concatenate([jacobian_by_hand(state, x) for x in X])


def distance(J_0, J):
    """Half the squared difference of the two directions, from whole kernels in extended precision."""
    kernels = [np.asarray(A, np.longdouble) @ np.asarray(A, np.longdouble).T for A in (J_0, J)]
    one, other = (K / np.sqrt((K**2).sum()) for K in kernels)
    return float(((one - other) ** 2).sum() / 2)


def handed_out(jacobians, outputs, asked=None):
    """What a caller gives: rows of whole Jacobians, and a note of what was asked for."""

    def jacobian(t, some):
        if asked is not None:
            asked.append((t, some))
        return jacobians[t][some.start * outputs : some.stop * outputs]

    return jacobian


@pytest.mark.parametrize("rows", [1, 4, SAMPLES - 1, SAMPLES, 100])
def test_blocks_of_any_size_give_the_distance_of_whole_kernels(rng, rows):
    X = rng.normal(size=(SAMPLES, INPUTS))
    jacobians = [whole(state, X) for state in parameters(rng)]
    found = kernel_distances(handed_out(jacobians, OUTPUTS), len(jacobians), SAMPLES, rows=rows)
    assert found[0] == 0
    np.testing.assert_allclose(found, [distance(jacobians[0], J) for J in jacobians], rtol=1e-12)
    assert found[2] > found[1] > 1e-4


@pytest.mark.parametrize("library", ["numpy", "jax"])
@pytest.mark.parametrize("rows", [2, SAMPLES])
def test_single_precision_keeps_the_digits_of_small_distances(rng, library, rows):
    xp = np if library == "numpy" else pytest.importorskip("jax.numpy")
    X = rng.normal(size=(SAMPLES, INPUTS))
    moves = (0.0, 1e-5, 1e-3, 1e-1)
    jacobians = [7 * whole(state, X).astype(np.float32) for state in parameters(rng, moves)]
    jacobians[0] /= 7
    given = [xp.asarray(J) for J in jacobians]
    found = kernel_distances(handed_out(given, OUTPUTS), len(moves), SAMPLES, rows=rows)
    wanted = [distance(jacobians[0], J) for J in jacobians]
    assert wanted[1] < 1e-9  # where 1 − cos in single precision is nothing but rounding
    np.testing.assert_allclose(found[1:2], wanted[1:2], rtol=0.02)
    np.testing.assert_allclose(found[2:], wanted[2:], rtol=3e-4)
    assert found.dtype == np.float64


def test_a_multiple_of_the_kernel_is_no_distance_and_an_orthogonal_one_is_all(rng):
    J = rng.normal(size=(6, 6))
    apart = [np.diag([1.0, 2.0, 0.0, 0.0, 0.0, 0.0]), np.diag([0.0, 0.0, 3.0, 1.0, 0.0, 0.0])]
    assert kernel_distances(handed_out([J, 1e3 * J], 1), 2, 6, rows=4)[1] < 1e-28
    np.testing.assert_allclose(kernel_distances(handed_out(apart, 1), 2, 6, rows=4), [0, 1], rtol=1e-15)


def test_never_more_than_the_rows_allowed_and_each_block_once(rng):
    X = rng.normal(size=(SAMPLES, INPUTS))
    asked = []
    jacobians = [whole(state, X) for state in parameters(rng)]
    kernel_distances(handed_out(jacobians, OUTPUTS, asked), 3, SAMPLES, rows=4)
    slices = [slice(0, 4), slice(4, 8), slice(8, 11)]
    pairs = [(a, b) for i, a in enumerate(slices) for b in slices[i:]]
    wanted = [(t, s) for a, b in pairs for t in range(3) for s in ([a] if a == b else [a, b])]
    assert asked == wanted


def test_a_kernel_that_is_zero_or_not_finite_has_no_distance(rng):
    J = rng.normal(size=(4, 5))
    none, broken = np.zeros_like(J), np.where(np.eye(4, 5) > 0, np.nan, J)
    found = kernel_distances(handed_out([J, none, broken, 2 * J + 1], 1), 4, 4, rows=3)
    assert np.isnan(found).tolist() == [False, True, True, False]
    assert np.isnan(kernel_distances(handed_out([none, J], 1), 2, 4, rows=3)).all()


def test_samples_without_a_slope_count_for_nothing(rng):
    """A block of K_0 that is zero (dead units), where K_t is not."""
    J_0, J = rng.normal(size=(2, 6, 5))
    J_0[:3] = 0
    found = kernel_distances(handed_out([J_0, J], 1), 2, 6, rows=3)
    np.testing.assert_allclose(found[1], distance(J_0, J), rtol=1e-13)


def test_jacobians_of_jax_networks(rng):
    jax = pytest.importorskip("jax")
    eqx = pytest.importorskip("equinox")

    class Net(eqx.Module):
        W: object
        b: object
        V: object
        squash: object = np.tanh  # neither this nor the count is a parameter
        count: int = 3

        def __call__(self, x):
            return self.V @ jax.numpy.tanh(self.W @ x + self.b)

    X = rng.normal(size=(SAMPLES, INPUTS))
    by_hand = parameters(rng)
    with jax.enable_x64(True):
        states = [Net(*map(jax.numpy.asarray, state)) for state in by_hand]
        jacobian = jax_jacobian(lambda net, x: net(x), states, jax.numpy.asarray(X))
        np.testing.assert_allclose(jacobian(1, slice(2, 7)), whole(by_hand[1], X[2:7]), rtol=1e-12, atol=1e-14)
        found = kernel_distances(jacobian, 3, SAMPLES, rows=4)
    J = [whole(state, X) for state in by_hand]
    np.testing.assert_allclose(found, [distance(J[0], other) for other in J], rtol=1e-11)


def test_tensors_of_pytorch_with_a_graph(rng):
    torch = pytest.importorskip("torch")
    X = rng.normal(size=(SAMPLES, INPUTS))
    jacobians = [whole(state, X) for state in parameters(rng)]
    given = [torch.tensor(J, requires_grad=True) for J in jacobians]
    found = kernel_distances(handed_out(given, OUTPUTS), 3, SAMPLES, rows=4)
    np.testing.assert_allclose(found, [distance(jacobians[0], J) for J in jacobians], rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rows": 0}, "rows must be at least 1, and it is 0"),
        ({"samples": 2.5}, "samples must be a whole number, and it is 2.5"),
        ({"states": 0}, "states must be at least 1, and it is 0"),
        (
            {"jacobian": lambda t, some: np.ones(4)},
            r"one row per sample and output, and for 2 samples it gave shape \(4,\)",
        ),
        ({"jacobian": lambda t, some: np.ones((3, 4))}, r"for 2 samples it gave shape \(3, 4\)"),
        ({"jacobian": lambda t, some: None}, "for 2 samples it gave None"),
    ],
)
def test_says_what_is_wrong(unchecked_shapes, change, said):
    given = {"jacobian": lambda t, some: np.ones((2, 3)), "states": 2, "samples": 4, "rows": 2} | change
    with pytest.raises(InvalidInput, match=said):
        kernel_distances(**given)
