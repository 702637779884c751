"""Layers, multiplied: α from norms, suggestions in words, and networks whose function stays what it is."""

from __future__ import annotations

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.laziness.scaling import Scaling, rescaled, suggestion, unit_squares

jax = pytest.importorskip("jax")
eqx = pytest.importorskip("equinox")
jnp = jax.numpy

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("delta", [-1e6, -3.0, 0.0, 0.7, 1e6])
@pytest.mark.parametrize("norms", [(2.0, 0.1), (1e-4, 5.0)])
def test_alpha_solves_its_equation_without_cancelling(norms, delta):
    incoming, outgoing = norms
    alpha = Scaling(("a", "b"), incoming, outgoing, change=0.0).alpha(delta)
    assert alpha**2 * outgoing - incoming / alpha**2 == pytest.approx(delta, rel=1e-9, abs=1e-12)


def test_a_layer_of_zeros_has_no_alpha():
    silent = Scaling(("a", "b"), incoming=1.0, outgoing=0.0, change=0.0)
    assert np.isnan(silent.balancing) and "not known here" in suggestion(silent, linear=False)


@pytest.mark.parametrize(
    "start, linear, said, not_said",
    [
        (
            {},
            False,
            ["Richer: all weights ÷ 2, or the outputs ÷ 4; lazier: all weights × 2, or the outputs × 4.", "÷ 2, × 16"],
            ["rule", "not keep", "Richer: first", "Lazier"],
        ),
        (
            {},
            False,
            ["gradient descent × 4 with weights ÷ 2", "in Adam ÷ 2 and × 4, and the other way × 2 and ÷ 4"],
            [],
        ),
        ({}, False, ["Turning more: first layer (a) ÷ 6 and last layer (b) × 6, for a mean δ of 4.4 (up"], []),
        ({}, False, ["Turning less: first layer (a) × 1.5 and last layer (b) ÷ 1.5, for a mean δ of -4.4"], []),
        ({"outgoing": 2e6}, False, ["Turning less: first layer (a) × 95 and"], ["Turning more"]),
        ({"incoming": 2e6}, False, ["Turning more: first layer (a) ÷ 1.9e+02"], ["Turning less"]),
        ({"layers": ("a", "c", "b")}, False, ["descent × 16 with weights ÷ 2", "for the 3 here it is a rule of"], []),
        (
            {"change": 0.3},
            False,
            [
                "all weights ÷ 2, or the outputs ÷ 4; lazier",
                "does not keep the function (α = 4 changes the outputs by 0.3)",
            ],
            ["(a)", "(b)", "upstream", "descent"],
        ),
        ({}, True, ["rich at δ = 0", "(a) ÷ 2 and last layer (b) × 2, for a mean δ of 0 (balanced)"], ["upstream"]),
        (
            {"incoming": 0.125},
            True,
            ["Less rich: first layer (a) ÷ 3 and last layer (b) × 3", "the lazier"],
            ["Richer", "Lazier"],
        ),
        ({"incoming": 1e-5}, True, ["Richer: first layer (a) × 11 and", "Less rich: first layer (a) × 32 and"], []),
    ],
)
def test_suggestions_name_layers_and_factors(start, linear, said, not_said):
    scaling = Scaling(**{"layers": ("a", "b"), "incoming": 2.0, "outgoing": 0.125, "change": 0.0} | start)
    words = suggestion(scaling, linear)
    assert all(part in words for part in said) and not any(part in words for part in not_said), words


def test_normalisation_leaves_the_outputs_to_multiply_and_one_direction():
    for scaling in (None, Scaling(("a", "b"), incoming=2.0, outgoing=0.125, change=0.0)):
        words = suggestion(scaling, False, ("norm",))
        assert "this network normalises (norm), which undoes" in words
        assert words.startswith("Richer: the outputs ÷ 4,") and "Nothing is suggested to make it lazier" in words
        assert "all weights" not in words and "α" not in words


def test_columns_are_summed_by_channel_only_out_of_a_convolution_that_is_followed(rng):
    dense, kernel = rng.normal(size=(3, 2)), rng.normal(size=(3, 2, 5))
    V = rng.normal(size=(4, 6))  # twice as many columns as units or channels
    columns = (V**2).sum(axis=0)
    for W, follows, wanted in (
        (dense, True, columns),
        (dense, False, columns),
        (kernel, False, columns),
        (kernel, True, columns.reshape(3, 2).sum(axis=1)),
    ):
        incoming, outgoing = unit_squares({"a.weight": W, "b.weight": V}, "a", "b", follows=follows)
        assert outgoing == pytest.approx(wanted) and len(incoming) == 3


@pytest.mark.parametrize(
    "activation, function",
    [(jax.nn.relu, lambda z: np.maximum(z, 0)), (jax.nn.leaky_relu, lambda z: np.maximum(z, 0.01 * z))],
    ids=["relu", "leaky"],
)
def test_rescaled_keeps_the_function_of_homogeneous_networks(rng, activation, function):
    model = eqx.nn.MLP(4, 2, 5, 3, activation=activation, key=jax.random.key(0))
    model = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64) if eqx.is_array(leaf) else leaf, model)
    X = rng.normal(size=(8, 4))

    def outputs(model):
        h = X
        for layer in model.layers[:-1]:
            h = function(h @ layer.weight.T + layer.bias)
        return h @ model.layers[-1].weight.T + model.layers[-1].bias

    once, grown = rescaled(model, 3.0), rescaled(model, {"layers.1": 2.0, "layers.3": 0.25})
    assert outputs(once) == pytest.approx(outputs(model), rel=1e-12)
    assert outputs(grown) == pytest.approx(outputs(model) / 2, rel=1e-12)
    first, last = model.layers[0], model.layers[-1]
    assert once.layers[0].weight == pytest.approx(first.weight / 3) and once.layers[0].bias == pytest.approx(
        first.bias / 3
    )
    assert once.layers[-1].weight == pytest.approx(3 * last.weight) and (once.layers[-1].bias == last.bias).all()
    assert once.activation is model.activation and once.layers[1].weight is model.layers[1].weight


def test_rescaled_takes_any_module_of_weights_and_leaves_its_types():
    class Own(eqx.Module):
        W1: jax.Array
        W2: jax.Array

    model = rescaled(Own(jnp.ones((3, 2)), jnp.ones((1, 3))), {"W2": 2.0})
    assert (float(model.W1.max()), float(model.W2.max()), model.W2.dtype) == (1.0, 2.0, jnp.float32)


def test_rescaled_takes_the_order_in_which_layers_act():
    """Declared from the last to the first, with biases between that follow the factors so far."""
    names = ("head", "middle", "first")
    state = {
        f"{name}.{part}": np.ones((4, 4) if part == "weight" else 4) for name in names for part in ("weight", "bias")
    }
    changed = rescaled(state, {"first": 2.0, "head": 5.0}, order=["first", "middle", "head"])
    gains = {name: float(leaf.max()) for name, leaf in changed.items() if leaf.max() != 1}
    assert gains == {"head.weight": 5.0, "head.bias": 10.0, "middle.bias": 2.0, "first.weight": 2.0, "first.bias": 2.0}

    class Own(eqx.Module):
        head: jax.Array
        first: jax.Array

    model = rescaled(Own(jnp.ones((1, 3)), jnp.ones((3, 2))), 4.0, order=("first", "head"))
    assert (float(model.head.max()), float(model.first.max())) == (4.0, 0.25)


BACKWARDS = {"head.weight": np.ones((1, 3)), "first.weight": np.ones((3, 2))}


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    "order, message",
    [
        (None, r"order must be given .* and first \(shape \(3, 2\)\) does not take what head \(shape \(1, 3\)\) gives"),
        (["first"], r"order must name every layer once \('head', 'first'\), and it is \['first'\]\."),
        (["first", "first"], r"order must name every layer once"),
        ("head", r"order must name every layer once .*, and it is 'head'\."),
    ],
    ids=["none", "one", "twice", "a word"],
)
def test_rescaled_refuses_an_order_in_which_nothing_can_act(order, message):
    with pytest.raises(lr.InvalidInput, match=message):
        rescaled(BACKWARDS, 2.0, order=order)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    "model, factors, message",
    [
        ({"0.weight": np.ones((3, 2))}, 2.0, r"model must have two layers at least, and it has 1\."),
        (
            {"0.weight": np.ones((3, 2)), "1.weight": np.ones(3), "2.weight": np.ones((1, 3))},
            2.0,
            r"and 1\.weight \(shape \(3,\)\) is neither: multiply its layers by hand\.",
        ),
        ({"a.weight": np.ones((3, 2)), "b.weight": np.ones((1, 3))}, 0.0, r"factors must be above 0, and it is 0\."),
        ({"a.weight": np.ones((3, 2)), "b.weight": np.ones((1, 3))}, {"c": 1.0}, r"one of 'a', 'b', and it is 'c'"),
        ({"a.weight": np.ones((3, 2)), "b.weight": np.ones((1, 3))}, {"a": -1}, r"factors\['a'\] must be above 0"),
    ],
    ids=["one layer", "a normalisation", "zero", "an unknown layer", "a negative factor"],
)
def test_rescaled_refuses_in_one_sentence(model, factors, message):
    with pytest.raises(lr.InvalidInput, match=message):
        rescaled(model, factors)
