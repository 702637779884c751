"""Whatever cannot be measured gets one sentence, before anything is computed."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.laziness.measuring import measure as laziness

jax = pytest.importorskip("jax")
eqx = pytest.importorskip("equinox")
jnp = jax.numpy

from laziness.test_measuring import X, drawn, mlp  # noqa: E402

module = importlib.import_module("lazyrich.laziness.kernel")
pytestmark = pytest.mark.timeout(120)


# what cannot be measured -------------------------------------------------------------------------------------

MODEL = mlp(drawn(np.random.default_rng(2), 4, 5, 2))
WIDER = mlp(drawn(np.random.default_rng(2), 4, 6, 2))
DEEPER = mlp(drawn(np.random.default_rng(2), 4, 5, 5, 2))
BROKEN = eqx.tree_at(lambda m: m.layers[0].bias, MODEL, np.full(5, np.nan))
ENDLESS = eqx.tree_at(lambda m: m.layers[1].weight, MODEL, np.full((2, 5), 1e308))
P = {"W": np.ones((2, 4))}
product = lambda p, x: p["W"] @ x

BAD = {
    "one checkpoint": (
        ([MODEL], X),
        r"model must hold two checkpoints at least, the initialisation first, and it holds 1\.",
    ),
    "no sequence": ((MODEL, X), r"model must be a list of models, one per checkpoint, and it is a MLP\."),
    "no models": (([1, 2], X), r"checkpoint 0 must be a model that can be called on a sample, and it is a int"),
    "another depth": (([MODEL, DEEPER], X), r"layers\.1\.weight must have the same shape and type .* checkpoint 1\."),
    "another name": (
        (product, X, [P, {"V": P["W"]}]),
        r"checkpoint 1 must have the structure of checkpoint 0, and its",
    ),
    "another width": (([MODEL, WIDER], X), r"layers\.0\.weight must have the same shape and type .* checkpoint 1\."),
    "not finite": (([MODEL, BROKEN], X), r"layers\.0\.bias must be finite, and in checkpoint 1 it is not: leave out"),
    "endless outputs": (
        ([MODEL, ENDLESS], X),
        r"outputs of the model must be finite, and at checkpoint 1 they are not",
    ),
    "other inputs": (
        ([MODEL, MODEL], X[:, :3]),
        r"model must take one sample of inputs, of shape \(3,\), and it fails",
    ),
    "NaN inputs": (([MODEL, MODEL], X * np.nan), r"inputs must be finite, and 24 of its 24 entries"),
    "one sample": (([MODEL, MODEL], X[:1]), r"inputs must hold two samples at least, along the first axis, and it has"),
    "words": (([MODEL, MODEL], "digits"), r"inputs must hold real numbers"),
    "no function": ((P, X, [P, P]), r"model must be a function f\(parameters, x\) or a PyTorch module .* it is a dict"),
    "a dictionary": ((product, X, P), r"checkpoints must be a list of pytrees of parameters, .* and it is a dict"),
    "no parameters": ((lambda p, x: x, X, [{}, {}]), r"checkpoint 0 must hold parameters, and it has no array"),
    "complex": ((product, X, [{"W": np.ones((2, 4)) * 1j}] * 2), r"W must hold real numbers, and it has dtype complex"),
    "another number": (
        (lambda p, x: p["W"] @ x, X, [P | {"rate": 0.1}, P | {"rate": 0.2}]),
        r"rate must be the same in all checkpoints unless it is an array, and it is 0\.1 in checkpoint 0 and 0\.2",
    ),
    "two outputs": ((lambda p, x: (p["W"] @ x, x), X, [P, P]), r"outputs of the model must be an array, .* tuple"),
    "whole outputs": (
        (lambda p, x: jnp.argmax(p["W"] @ x), X, [P, P]),
        r"outputs of the model must be floating-point numbers, and they are of type int",
    ),
}


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_sentence(case):
    arguments, message = BAD[case]
    with pytest.raises(lr.InvalidInput, match=message) as caught:
        laziness(*arguments)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    "options, message",
    [
        ({"samples": 1}, r"samples must be at least 2, and it is 1\."),
        ({"seed": -1}, r"seed must be at least 0, and it is -1\."),
        ({"hidden": ["layers.0"]}, r"hidden must be a function \(model, x\) → hidden activations of one sample"),
        ({"hidden": lambda model, x: model.none}, r"hidden must take a model and one sample of inputs, and it fails"),
        ({"hidden": lambda model, x: [x > 0]}, r"hidden 1 must be floating-point numbers, and they are of type bool"),
    ],
    ids=["samples", "seed", "names", "a failing function", "patterns"],
)
def test_bad_options_get_one_sentence(options, message):
    with pytest.raises(lr.InvalidInput, match=message):
        laziness([MODEL, MODEL], X, **options)


def test_too_many_parameters_are_refused_before_they_are_computed(monkeypatch):
    monkeypatch.setattr(module, "_LARGEST", 10)
    with pytest.raises(lr.InvalidInput, match=r"model must have at most 10 parameters .*, and it has 37\."):
        laziness([MODEL, MODEL], X)
