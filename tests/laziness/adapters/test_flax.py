"""Modules of Flax, NNX and Linen: against Jacobians by hand."""

from __future__ import annotations

import numpy as np
import pytest

import lazyrich as lr

jax = pytest.importorskip("jax")
nnx = pytest.importorskip("flax.nnx")
linen = pytest.importorskip("flax.linen")

from laziness.test_measuring import drawn, forward, moved, moved_by, turned, two_layer_jacobian  # noqa: E402

pytestmark = [pytest.mark.compiles, pytest.mark.timeout(120)]
K, M = "lazyrich/kernel_distance", "lazyrich/kernel_movement"


def states(rng):
    start = drawn(rng, 4, 6, 3)
    return [
        [tuple(part.astype(np.float32) for part in layer) for layer in state] for state in (start, moved(rng, start))
    ]


def exactly(layers):
    return [tuple(part.astype(np.float64) for part in layer) for layer in layers]


def check(found, before, after, X):
    J = [two_layer_jacobian(exactly(layers), X.astype(np.float64)) for layers in (before, after)]
    assert found[K] == pytest.approx(turned(*J), abs=1e-5) and found[M] == pytest.approx(moved_by(*J), abs=1e-5)


def test_nnx_by_hand(rng):
    before, after = states(rng)
    X = rng.normal(size=(7, 4)).astype(np.float32)
    rngs = nnx.Rngs(0)
    model = nnx.Sequential(
        nnx.Linear(4, 6, rngs=rngs), nnx.relu, nnx.Dropout(0.5, rngs=rngs), nnx.Linear(6, 3, rngs=rngs)
    )

    def fill(layers):
        for part, (W, b) in zip((model.layers[0], model.layers[3]), layers, strict=True):
            part.kernel[...], part.bias[...] = W.T, b

    fill(before)
    monitor = lr.laziness.adapters.FlaxMonitor(model, X, hidden=lambda m, x: {"first": nnx.relu(m.layers[0](x))})
    fill(after)
    found = monitor.update(model, 1)
    check(found, before, after, X)
    activity = [forward(exactly(layers), X)[0] for layers in (before, after)]
    assert found["lazyrich/feature_distance/first"] == pytest.approx(turned(*activity, centred=True), abs=1e-5)
    again = lr.laziness.adapters.FlaxMonitor(model, X, hidden=lambda m, x: {"first": nnx.relu(m.layers[0](x))})
    again.load_state_dict(monitor.state_dict())
    assert again.update(model, 1) == found
    assert model.layers[2].deterministic is False  # as it was


class Small(linen.Module):
    @linen.compact
    def __call__(self, x):
        hidden = linen.relu(linen.Dense(6)(x))
        return linen.Dense(3)(hidden)


def test_linen_by_hand(rng):
    before, after = states(rng)
    X = rng.normal(size=(7, 4)).astype(np.float32)
    variables = lambda layers: {"params": {f"Dense_{i}": {"kernel": W.T, "bias": b} for i, (W, b) in enumerate(layers)}}
    monitor = lr.laziness.adapters.FlaxMonitor(Small(), X, variables(before))
    found = monitor.update(variables(after), 1)
    check(found, before, after, X)
    z = [X @ layers[0][0].T + layers[0][1] for layers in (before, after)]
    assert found["lazyrich/hamming"] == pytest.approx(np.mean((z[0] > 0) != (z[1] > 0)))
    assert found["lazyrich/feature_distance/Dense_0"] == pytest.approx(turned(*z, centred=True), abs=1e-5)


def test_statistics_are_those_of_the_moment_and_no_parameters(rng):
    X = rng.normal(size=(7, 4)).astype(np.float32)
    model = nnx.Sequential(nnx.Linear(4, 6, rngs=nnx.Rngs(0)), nnx.BatchNorm(6, rngs=nnx.Rngs(0)))
    monitor = lr.laziness.adapters.FlaxMonitor(model, X)
    assert monitor.update(model, 0)[K] == 0.0
    assert monitor.notes[0].startswith("statistics of batch normalisation were 0 and 1 when the monitor was made")
    model.layers[1].var[...] = 4.0 * np.arange(1, 7, dtype=np.float32)
    found = monitor.update(model, 1)
    assert found["lazyrich/parameter_distance"] == 0.0 and found[K] > 0.01
    tried = lr.laziness.adapters.FlaxMonitor(model, X)
    assert not any("were 0 and 1" in note for note in tried.notes)


def test_new_statistics_of_linen_are_noted():
    class Normalised(linen.Module):
        @linen.compact
        def __call__(self, x):
            return linen.BatchNorm(use_running_average=True)(linen.Dense(3)(x))

    variables = Normalised().init(jax.random.key(0), np.ones((2, 4)))
    monitor = lr.laziness.adapters.FlaxMonitor(Normalised(), np.eye(4, dtype=np.float32), variables)
    assert "were 0 and 1" in monitor.notes[0]


def test_no_module_gets_one_sentence():
    for model, variables in ((3, None), (Small(), None), (Small(), {"weights": 1})):
        with pytest.raises(lr.InvalidInput, match=r"model must be a module of flax\.nnx, or of flax\.linen with var"):
            lr.laziness.adapters.FlaxMonitor(model, np.ones((2, 4)), variables)
