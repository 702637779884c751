"""Networks: arrays of any library become read-only float64 copies; sizes, activations and the function."""

from __future__ import annotations

import sys
from functools import reduce
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

import lazyrich as lr

W1, W2 = np.arange(6.0).reshape(3, 2) / 8, np.arange(12.0).reshape(4, 3) / 16  # exact in half precision too


class Tensor:
    """Stands in for a PyTorch tensor on a device: NumPy may read it after detach and cpu only, and never bfloat16."""

    grad_fn = None

    def __init__(self, array, dtype="torch.float32", detached=False, on_cpu=False):
        self.array, self.dtype, self.detached, self.on_cpu = array, dtype, detached, on_cpu

    def detach(self):
        return Tensor(self.array, self.dtype, True, self.on_cpu)

    def cpu(self):
        return Tensor(self.array, self.dtype, self.detached, True)

    def float(self):
        return Tensor(self.array, "torch.float32", self.detached, self.on_cpu)

    def __array__(self, dtype=None, copy=None):
        if not (self.detached and self.on_cpu) or self.dtype == "torch.bfloat16":
            raise TypeError("can't convert a tensor that requires grad, lives on a device or has a type unknown here")
        return np.array(self.array, dtype=dtype)


class TestWeights:
    @pytest.mark.parametrize(
        "read, eps",
        [
            (np.asarray, 2.0**-52),
            (np.asfortranarray, 2.0**-52),
            (np.ndarray.tolist, 2.0**-52),
            (lambda W: tuple(map(tuple, W)), 2.0**-52),
            (np.longdouble, 2.0**-52),
            (np.float32, 2.0**-23),
            (np.float16, 2.0**-10),
            (lambda W: Tensor(W.astype(np.float32)), 2.0**-23),
            (lambda W: Tensor(W, "torch.float64"), 2.0**-52),
            (lambda W: Tensor(W, "torch.bfloat16"), 2.0**-7),
        ],
        ids=["float64", "Fortran", "lists", "tuples", "longdouble", "float32", "float16", "32", "64", "b16"],
    )
    def test_of_any_kind_become_float64(self, read, eps, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=Tensor, bfloat16="torch.bfloat16"))
        network = lr.Network([read(W1), read(W2)])
        for got, want in zip(network.weights, (W1, W2), strict=True):
            assert type(got) is np.ndarray and got.dtype == np.float64
            np.testing.assert_array_equal(got, want)
        assert network.eps == eps

    @pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint16, bool])
    def test_whole_numbers_count_as_exact(self, dtype):
        network = lr.Network([np.eye(3, dtype=dtype), np.ones((2, 3), dtype=dtype)])
        np.testing.assert_array_equal(network.function, np.ones((2, 3)))
        assert network.eps == 2.0**-52

    def test_one_float32_layer_makes_the_network_float32(self):
        assert lr.Network([W1, W2.astype(np.float32)]).eps == 2.0**-23

    def test_of_jax(self):
        jnp = pytest.importorskip("jax.numpy")
        network = lr.Network([jnp.asarray(W1, dtype="float32"), jnp.asarray(W2, dtype="bfloat16")])
        np.testing.assert_array_equal(network.weights[0], W1)
        np.testing.assert_array_equal(network.weights[1], W2)
        assert network.eps == 2.0**-7

    @pytest.mark.parametrize("dtype, eps", [("float64", 2.0**-52), ("float32", 2.0**-23), ("bfloat16", 2.0**-7)])
    def test_of_pytorch(self, dtype, eps):
        torch = pytest.importorskip("torch")
        layers = [torch.tensor(W, dtype=getattr(torch, dtype), requires_grad=True) for W in (W1, W2)]
        network = lr.Network(layers)
        np.testing.assert_array_equal(network.function, W2 @ W1)
        assert network.eps == eps

    def test_are_copies(self):
        mine = W1.copy()
        network = lr.Network([mine, W2])
        mine[:] = 0
        np.testing.assert_array_equal(network.weights[0], W1)

    def test_are_read_only_and_the_callers_stay_writable(self):
        mine = W1.copy()
        network = lr.Network([mine, W2])
        with pytest.raises(ValueError, match="read-only"):
            network.weights[0][0, 0] = 1.0
        mine[0, 0] = 1.0

    def test_of_one_array_with_a_layer_axis(self):
        network = lr.Network(np.stack([np.eye(2), 2 * np.eye(2), 3 * np.eye(2)]))
        np.testing.assert_array_equal(network.function, 6 * np.eye(2))


@pytest.mark.parametrize("sizes", [(3, 2), (1, 1), (2, 5, 3), (4, 1, 2, 6), (2, 3, 4, 5, 6)])
def test_sizes_depth_and_function(rng, sizes):
    layers = [rng.normal(size=(b, a)) for a, b in pairwise(sizes)]
    network = lr.Network(layers)
    assert (network.sizes, network.depth) == (sizes, len(sizes) - 1)
    np.testing.assert_allclose(network.function, reduce(lambda W, layer: layer @ W, layers), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(
    "given, kept, shown",
    [
        ("linear", 1.0, "linear"),
        ("relu", 0.0, "relu"),
        ("tanh", None, "tanh"),
        (0.2, 0.2, "leaky ReLU 0.2"),
        (np.float32(0.25), 0.25, "leaky ReLU 0.25"),
        (0, 0.0, "relu"),
        (1.0, 1.0, "linear"),
        (lr.Activation.of("tanh"), None, "tanh"),
    ],
)
def test_activations(unchecked_shapes, given, kept, shown):
    network = lr.Network([W1, W2], given)
    assert network.activation == lr.Activation(kept)
    assert repr(network) == f"<Network: 2-3-4, {shown}>"
    sigma = network.activation
    assert (sigma.linear, sigma.homogeneous) == (shown == "linear", shown != "tanh")
    assert sigma.kinked == ("relu" in shown.lower())


@pytest.mark.parametrize("kind", ["linear", "relu", "tanh", 0.3])
def test_an_activation_knows_its_function_and_slope(rng, kind):
    z = rng.normal(size=200)
    truth = {"linear": z, "relu": np.maximum(z, 0.0), "tanh": np.sinh(z) / np.cosh(z), 0.3: np.maximum(z, 0.3 * z)}
    sigma = lr.Activation.of(kind)
    np.testing.assert_allclose(sigma(z), truth[kind], rtol=1e-14)
    step = 1e-6
    np.testing.assert_allclose(sigma.derivative(z), (sigma(z + step) - sigma(z - step)) / (2 * step), atol=1e-8)


@pytest.mark.parametrize("kind", ["linear", "relu", "tanh", 0.3])
def test_a_network_answers(rng, kind):
    layers = [rng.normal(size=(5, 3)), rng.normal(size=(4, 5)), rng.normal(size=(2, 4))]
    network, x = lr.Network(layers, kind), rng.normal(size=(7, 3))
    bent = {
        "linear": lambda z: z,
        "relu": lambda z: z * (z > 0),
        "tanh": np.tanh,
        0.3: lambda z: np.where(z < 0, 0.3 * z, z),
    }
    one_by_one = [layers[2] @ bent[kind](layers[1] @ bent[kind](layers[0] @ row)) for row in x]
    np.testing.assert_allclose(network(x), one_by_one, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(network(x[0]), one_by_one[0], rtol=1e-12, atol=1e-14)
    with pytest.raises(lr.InvalidInput, match=r"x must be one input of 3 numbers, .* shape \(7,\)"):
        network(x[:, 0])


@pytest.mark.parametrize("activation", ["relu", "tanh", 0.1])
def test_only_linear_networks_have_a_matrix(activation):
    with pytest.raises(lr.InvalidInput, match=r"function is the matrix of a linear network, and this one is \w+"):
        _ = lr.Network([W1, W2], activation).function


def test_layers_that_do_not_fit_are_named():
    with pytest.raises(lr.InvalidInput, match=r"weights\[2\] must take the 4 outputs of weights\[1\].* 3 × 2"):
        lr.Network([W1, W2, W1])
    with pytest.raises(lr.InvalidInput, match=r"from input to output, each \(outputs, inputs\)"):
        lr.Network([W2, W1])  # last layer first


def test_one_matrix_is_not_a_list_of_layers():
    with pytest.raises(lr.InvalidInput, match=r"one matrix: try \[W\]"):
        lr.Network(W1)
