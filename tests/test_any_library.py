"""What is taken over from other libraries: numbers. Parameters are welcome; what would be differentiated is not."""

from __future__ import annotations

import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import lazyrich as lr
from lazyrich._check import from_any_library

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("unchecked_shapes")]

W1, W2 = np.array([[0.3, -0.1], [0.2, 0.4]]), np.array([[0.5, 0.1]])
X, Y = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([[1.0], [2.0], [0.0]])


def loss(W):
    """What somebody might try to differentiate."""
    problem = lr.Problem(lr.Task.from_data(X, Y), lr.Network([W, W2]))
    return problem.task.loss(problem.network.function)


class TestJax:
    SENTENCE = (
        "weights[0] must hold known numbers, and JAX is tracing it, but lazyrich computes in NumPy and cannot be "
        "traced or differentiated through: try the call outside of jax.jit, grad and vmap, or lr.jax, which can."
    )

    @pytest.mark.parametrize("transform", ["jit", "grad", "vmap", "jacfwd", "make_jaxpr"])
    def test_a_tracer_is_refused_for_what_it_is(self, transform):
        jax = pytest.importorskip("jax")
        given = np.stack([W1, W1]) if transform == "vmap" else W1
        with pytest.raises(lr.InvalidInput) as caught:
            getattr(jax, transform)(loss)(given)
        assert str(caught.value) == self.SENTENCE

    @pytest.mark.parametrize("wrap", [lambda w: [[w, 0.0], [0.0, w]], lambda w: ((w, w), (w, 1.0))])
    def test_also_inside_of_lists(self, wrap):
        jax = pytest.importorskip("jax")
        with pytest.raises(lr.InvalidInput, match=r"^weights\[0\] must hold known numbers, and JAX is tracing it"):
            jax.grad(lambda w: loss(wrap(w)))(1.0)

    @pytest.mark.parametrize(
        "name, call",
        [
            ("inputs", lambda x: lr.Task.from_data(X * x, Y)),
            ("sigma_yx", lambda x: lr.Task.from_correlations(np.eye(2) * x)),
            ("weight_decay", lambda x: lr.Problem(lr.Task.from_data(X, Y), lr.Network([W1, W2]), weight_decay=x)),
            ("times", lambda x: lr.flow(lr.Problem(lr.Task.from_data(X, Y), lr.Network([W1, W2])), x * np.ones(2))),
        ],
    )
    def test_wherever_numbers_are_asked_for(self, name, call):
        jax = pytest.importorskip("jax")
        with pytest.raises(lr.InvalidInput, match=f"^{name} must hold known numbers, and JAX is tracing it"):
            jax.jit(call)(1.0)

    def test_what_is_advised_works(self):
        """Outside of jit, and a derivative by differences: the loss is Σ ‖y − W2 W x‖² / 6."""
        jnp, step = pytest.importorskip("jax.numpy"), 2.0**-10  # exact in float32; the loss is quadratic in W
        push, start = np.array([[0.0, step], [0.0, 0.0]]), jnp.asarray(W1)
        found = (loss(start + push) - loss(start - push)) / (2 * step)
        want = -(W2.T @ (Y - X @ W1.T @ W2.T).T @ X / 3)[0, 1]
        assert found == pytest.approx(want, rel=1e-3)


class TestPyTorch:
    def test_parameters_are_welcome_in_silence(self):
        torch = pytest.importorskip("torch")
        model = torch.nn.Sequential(torch.nn.Linear(2, 3, bias=False), torch.nn.Linear(3, 1, bias=False))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            network = lr.Network([model[0].weight, model[1].weight])
            task = lr.Task.from_data([torch.tensor(row, requires_grad=True) for row in X], torch.tensor(Y))
        for got, layer in zip(network.weights, model, strict=True):
            np.testing.assert_array_equal(got, layer.weight.detach().numpy())
        np.testing.assert_array_equal(task.inputs, X)
        before = network.weights[0].copy()
        with torch.no_grad():
            model[0].weight.zero_()
        np.testing.assert_array_equal(network.weights[0], before)  # a copy

    @pytest.mark.parametrize("change", [lambda W: 2 * W, lambda W: W.T, lambda W: W.clone(), lambda W: W[:1]])
    def test_a_tensor_with_a_graph_is_refused(self, change):
        torch = pytest.importorskip("torch")
        W = change(torch.tensor(W1, requires_grad=True))
        with pytest.raises(lr.InvalidInput) as caught:
            lr.Network([W, W2])
        assert str(caught.value) == (
            "weights[0] must hold numbers alone, and it is a PyTorch tensor with a graph behind it, along which no "
            "gradient would come back: try weights[0].detach()."
        )
        np.testing.assert_array_equal(lr.Network([W.detach()]).weights[0], W.detach().numpy())
        with pytest.raises(lr.InvalidInput, match=r"a graph behind it.*try inputs\.detach\(\)\.$"):
            lr.Task.from_data([W[0], W[0]], [[1.0], [2.0]])

    def test_without_gradients_nothing_is_refused(self):
        torch = pytest.importorskip("torch")
        with torch.no_grad():
            half = torch.tensor(W1, requires_grad=True) / 2
        np.testing.assert_array_equal(lr.Network([half, W2]).weights[0], W1 / 2)

    @pytest.mark.parametrize("transform", ["grad", "vmap", "jacfwd", "jacrev"])
    def test_inside_of_torch_func(self, transform):
        torch = pytest.importorskip("torch")
        given = torch.tensor(np.stack([W1, W1]) if transform == "vmap" else W1)
        with pytest.raises(lr.InvalidInput, match=r"^weights\[0\] must hold numbers .* PyTorch tensor .*: try "):
            getattr(torch.func, transform)(loss)(given)

    def test_a_tensor_without_numbers(self):
        torch = pytest.importorskip("torch")
        with pytest.raises(lr.InvalidInput, match=r"^weights\[0\] must hold numbers that NumPy can read, and this Py"):
            lr.Network([torch.empty(2, 2, device="meta"), W2])


def test_cupy_is_asked_for_its_numbers(monkeypatch):
    class Array:
        """On a GPU: NumPy may not read it."""

        def get(self):
            return W1

        def __array__(self, dtype=None, copy=None):
            raise TypeError("implicit conversion to a NumPy array is not allowed")

    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(ndarray=Array))
    assert from_any_library("W", Array()) is W1
