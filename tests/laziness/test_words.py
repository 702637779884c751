"""What is said of a run: lazy or rich, what would make it otherwise, as a table and as a dataset."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.laziness import USUAL, Thresholds, judge
from lazyrich.laziness.measuring import measure as laziness
from lazyrich.laziness.scaling import rescaled

jax = pytest.importorskip("jax")
eqx = pytest.importorskip("equinox")
jnp = jax.numpy

from laziness.test_measuring import X, dense, drawn, mlp, moved  # noqa: E402

module = importlib.import_module(laziness.__module__)
pytestmark = pytest.mark.timeout(120)


# verdicts and suggestions ------------------------------------------------------------------------------------


def trained(scale, alpha=1.0):
    """A ReLU student of a ReLU teacher, from a start of so much scale, tilted by α; it starts as the zero function."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6))
    y = np.maximum(X @ rng.normal(size=(6, 3)), 0) @ np.array([[1.0], [-1.0], [0.5]])
    W, a = rng.normal(size=(60, 6)) / np.sqrt(6), rng.choice([-1.0, 1.0], size=(1, 60)) / np.sqrt(60)
    W1, W2 = scale / alpha * np.concatenate([W, W]), scale * alpha * np.concatenate([a, -a], axis=1)
    problem = lr.Problem(lr.Task.from_data(X, y), lr.Network([W1, W2], "relu"))
    rate = 0.05 / max(1, scale**2 * max(alpha, 1 / alpha) ** 2)
    return lr.descend(problem, rate=rate, steps=3000, at=[0, 1000, 3000]), X


@pytest.mark.compiles
def test_a_large_start_is_lazy_and_a_small_one_rich():
    lazy, rich = (laziness(*trained(scale)) for scale in (8.0, 0.1))
    assert lazy.regime == "lazy" and lazy.kernel_movement.max() < USUAL.lazy
    assert lazy.verdict.startswith("lazy: the kernel moves by ")
    assert rich.regime == "rich" and rich.kernel_movement.max() > USUAL.lazy
    assert "activations changed sides" in rich.verdict
    assert lazy.hamming_distance[-1] < rich.hamming_distance[-1]


@pytest.mark.compiles
def test_following_the_suggestion_has_the_effect_it_names():
    """Upstream the kernel turns more than downstream, from starts that are the same function."""
    start = laziness(*trained(1.0))
    upstream, downstream = (laziness(*trained(1.0, alpha)) for alpha in (3 * start.scaling.balancing, 1 / 3))
    assert downstream.kernel_distance[-1] < start.kernel_distance[-1] < upstream.kernel_distance[-1]
    assert downstream.hamming_distance[-1] < upstream.hamming_distance[-1]


@pytest.mark.compiles
def test_alpha_reaches_the_delta_asked_for(rng):
    X, model = rng.normal(size=(6, 4)), mlp(drawn(rng, 4, 7, 2))
    scaling = laziness([model, model], X).scaling
    tilted = laziness([rescaled(model, scaling.alpha(0.7))] * 2, X)
    assert tilted.scaling.delta == pytest.approx(0.7, abs=1e-12)
    assert tilted.delta["layers.0"].mean() == pytest.approx(0.7, abs=1e-12)


def test_activations_that_are_not_homogeneous_are_found_out(rng):
    smooth = laziness([mlp(drawn(rng, 4, 5, 2), activation=jnp.tanh)] * 2, rng.normal(size=(6, 4)))
    assert smooth.scaling.change > 0.01 and "does not keep the function" in smooth.suggestion
    assert "all weights ÷ 2" in smooth.suggestion and "(layers.0)" not in smooth.suggestion
    assert smooth.notes == ("δ of layers.0 need not be conserved: what follows is not positively homogeneous.",)


@pytest.mark.compiles
@pytest.mark.parametrize("width", [7, 8, 9, 16])
def test_the_balancing_factor_does_not_ask_whether_widths_divide_each_other(rng, width):
    layers = drawn(rng, 3, 4, width, 2)
    model = eqx.nn.Sequential([part for W, b in layers for part in (dense(W, b), eqx.nn.Lambda(jax.nn.relu))][:-1])
    scaling = laziness([model, model], X[:, :3]).scaling
    (W, b), _, (V, _) = layers
    incoming, outgoing = (np.sum(W**2) + np.sum(b**2)) / 4, np.sum(V**2) / width
    assert scaling.balancing == pytest.approx((incoming / outgoing) ** 0.25)
    assert scaling.layers == ("layers.0", "layers.2", "layers.4")


# the result --------------------------------------------------------------------------------------------------


def test_as_a_dataset_and_as_words(rng):
    X, start = rng.normal(size=(7, 4)), drawn(rng, 4, 5, 5, 2)
    found = laziness([mlp(moved(rng, start, by)) for by in np.linspace(0, 1, 12)], X)
    data = found.to_xarray()
    assert dict(data.sizes) == {"checkpoint": 12, "layer": 3, "hidden_layer": 2, "end": 2, "unit": 10}
    assert (data.kernel_distance.values == found.kernel_distance).all()
    second = data.delta.isel(unit=(data.unit_layer == "layers.1").values).sel(end="last")
    assert (second.values == found.delta["layers.1"][1]).all()
    assert data.attrs["regime"] == found.regime and data.attrs["seed"] == 0
    lines = str(found).splitlines()
    shown = [line.split()[0] for line in lines[3 : lines.index("", 3)]]
    assert shown[0] == "0" and shown[-1] == "11" and len(set(shown)) in (8, 9)
    assert str(found.kernel_movement.argmax()) in shown
    below = " ".join(lines)
    assert found.verdict in below and found.suggestion in below and max(map(len, lines)) <= 100


def test_words_say_where_the_farthest_checkpoint_is(rng):
    start = drawn(rng, 4, 5, 2)
    found = laziness([mlp(moved(rng, start, by)) for by in np.linspace(0, 1, 12)], X)
    there = {}
    for name, top, last in (("hamming", 0.3, 0.25), ("relative_parameter", 0.7, 0.7)):
        there[f"{name}_distance"] = np.where(np.arange(12) == 5, top, last)
    there["kernel_movement"] = np.where(np.arange(12) == 5, 0.41, 0.19)
    words = replace(found, **there, judgement=judge(0.41, 0.19))
    assert words.verdict == (
        "rich: the kernel moves by 41% of its size (lazy below 10%) and turns by S = 0.19, judged over the whole run; "
        "at most 30.0% of the activations changed sides (at checkpoint 5; 25.0% at the end); the parameters moved by "
        "70.0% of their norm."
    )
    assert 5 not in np.linspace(0, 11, 8).astype(int)  # a row that would not be shown otherwise
    assert sum(line.startswith("5 ") and "0.41" in line for line in str(words).splitlines()) == 1


@pytest.mark.compiles
def test_what_the_kernel_does_after_learning_does_not_count(rng):
    """Three checkpoints: the loss has fallen at the second, and the kernel moves far at the third."""
    start = drawn(rng, 4, 5, 2)
    models = [mlp(moved(np.random.default_rng(3), start, by)) for by in (0.0, 0.003, 0.3)]
    whole, until = laziness(models, X), laziness(models, X, loss=[1.0, 0.0, 0.0])
    assert whole.regime == "rich" and whole.judgement.kernel_movement == pytest.approx(whole.kernel_movement[2])
    assert until.regime == "lazy" and "until 99% of the fall of the loss" in until.verdict
    size = 0.99 * whole.kernel_movement[1]  # the loss falls evenly on the way there
    assert until.judgement.kernel_movement == pytest.approx(size, rel=0.05)
    strict = laziness(models, X, loss=[1.0, 0.0, 0.0], thresholds=Thresholds(lazy=size / 2))
    assert strict.regime == "rich" and f"lazy below {50 * size:.3g}%" in strict.verdict
    rising = laziness(models, X, loss=[1.0, 2.0, 3.0])
    assert rising.judgement == whole.judgement and "over the whole run" in rising.verdict


def test_a_silent_network_has_no_regime(rng):
    layers = [(np.zeros((5, 4)), np.zeros(5)), (np.zeros((2, 5)), np.zeros(2))]
    f = lambda p, x: 0 * p[0][0] @ x
    found = laziness(f, rng.normal(size=(5, 4)), [layers, layers])
    assert found.regime == "unknown" and "zero, or not finite" in found.verdict


def test_a_start_at_zero_has_no_share_of_its_norm(rng):
    start, end = (lr.Network([c * np.eye(2), c * np.eye(2)]) for c in (0.0, 1.0))
    assert "nan" not in laziness([start, end], rng.normal(size=(3, 2))).verdict
    bias = lambda parameters, x: parameters["b"] + parameters["w"] * x
    states = [{"b": np.full(2, c), "w": np.full(2, c)} for c in (0.0, 1.0)]
    found = laziness(bias, rng.normal(size=(3, 2)), states)
    assert "of their norm" not in found.verdict and "nan" not in found.verdict
