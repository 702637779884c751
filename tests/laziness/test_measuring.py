"""How lazy a run was: against whole kernels written by hand, the library's own observables, and symmetries.

The oracles are NumPy in double precision and share nothing with what is tested.
"""

from __future__ import annotations

import importlib
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.laziness.measuring import measure as laziness

jax = pytest.importorskip("jax")
eqx = pytest.importorskip("equinox")
jnp = jax.numpy

pytestmark = pytest.mark.timeout(120)

module = importlib.import_module("lazyrich.laziness.kernel")

DOCUMENT = Path(__file__).parents[2] / "docs" / "laziness.md"
X = np.random.default_rng(1).normal(size=(6, 4))


# networks, and what they should give -------------------------------------------------------------------------


def drawn(rng, *sizes, scale=1.0):
    """Weights and biases of dense layers."""
    pairs = pairwise(sizes)
    return [(scale * rng.normal(size=(n, m)) / np.sqrt(m), 0.3 * scale * rng.normal(size=n)) for m, n in pairs]


def moved(rng, layers, by=0.3):
    return [tuple(part + by * rng.normal(size=part.shape) for part in layer) for layer in layers]


def mlp(layers, **options):
    """The same in equinox: arrays of NumPy, so that all is done in double precision."""
    sizes = (layers[0][0].shape[1], len(layers[-1][0]), len(layers[0][0]), len(layers) - 1)
    model = eqx.filter_eval_shape(lambda: eqx.nn.MLP(*sizes, key=jax.random.key(0), **options))  # nothing is drawn
    places = lambda m: [part for layer in m.layers for part in (layer.weight, layer.bias)]
    return eqx.tree_at(places, model, [part for layer in layers for part in layer])


def dense(W, b):
    layer = eqx.filter_eval_shape(lambda: eqx.nn.Linear(W.shape[1], len(W), key=jax.random.key(0)))
    return eqx.tree_at(lambda layer: (layer.weight, layer.bias), layer, (W, b))


def forward(layers, X, activation=lambda z: np.maximum(z, 0)):
    """Activity of every layer, the outputs last."""
    found = [X]
    for i, (W, b) in enumerate(layers):
        z = found[-1] @ W.T + b
        found.append(z if i == len(layers) - 1 else activation(z))
    return found[1:]


def two_layer_jacobian(layers, X):
    """∂(V relu(Wx + b) + c)/∂(W, b, V, c), one row per sample and output."""
    (W, b), (V, _) = layers
    rows = []
    for x in X:
        z = W @ x + b
        for o in range(len(V)):
            back = V[o] * (z > 0)
            readout, bias = np.zeros_like(V), np.zeros(len(V))
            readout[o], bias[o] = np.maximum(z, 0), 1.0
            rows.append(np.concatenate([np.outer(back, x).ravel(), back, readout.ravel(), bias]))
    return np.array(rows)


def numerical_jacobian(f, leaves, X, step=1e-5):
    """By central differences, parameter by parameter."""
    columns = []
    for i, leaf in enumerate(leaves):
        for place in np.ndindex(leaf.shape):
            ends = []
            for sign in (1, -1):
                other = [part.copy() for part in leaves]
                other[i][place] += sign * step
                ends.append(f(other, X).ravel())
            columns.append((ends[0] - ends[1]) / (2 * step))
    return np.array(columns).T


def turned(A, B, centred=False):
    """1 − cos between AAᵀ and BBᵀ, of columns with mean zero if centred."""
    if centred:
        A, B = A - A.mean(axis=0), B - B.mean(axis=0)
    K, L = A @ A.T, B @ B.T
    return 1 - np.sum(K * L) / np.sqrt(np.sum(K**2) * np.sum(L**2))


def moved_by(A, B):
    """‖BBᵀ − AAᵀ‖, relative to the larger."""
    K, L = A @ A.T, B @ B.T
    return np.linalg.norm(L - K) / max(np.linalg.norm(K), np.linalg.norm(L))


# against oracles ---------------------------------------------------------------------------------------------


def test_every_number_of_a_two_layer_network_by_hand(rng):
    X, start = rng.normal(size=(9, 4)), drawn(rng, 4, 6, 3)
    states = [start, moved(rng, start), moved(rng, start, 1.0)]
    found = laziness([mlp(state) for state in states], X)
    before = forward(start, X)
    for t, state in enumerate(states):
        now = forward(state, X)
        assert found.kernel_distance[t] == pytest.approx(
            turned(two_layer_jacobian(start, X), two_layer_jacobian(state, X)), abs=1e-12
        )
        assert found.kernel_movement[t] == pytest.approx(
            moved_by(two_layer_jacobian(start, X), two_layer_jacobian(state, X)), abs=1e-12
        )
        assert found.representation_distance[t, 0] == pytest.approx(turned(before[0], now[0], True), abs=1e-12)
        assert found.hamming_distance[t] == pytest.approx(np.mean((now[0] > 0) != (before[0] > 0)))
        assert found.function_distance[t] == pytest.approx(
            np.linalg.norm(now[1] - before[1]) / max(np.linalg.norm(now[1]), np.linalg.norm(before[1]))
        )
        flat = [[np.concatenate([W.ravel(), b]) for W, b in layers] for layers in (start, state)]
        steps = [after - before for before, after in zip(*flat, strict=True)]
        sizes = np.array([np.linalg.norm(layer) for layer in flat[0]])
        assert found.layer_distance[t] == pytest.approx([np.linalg.norm(step) for step in steps])
        assert found.relative_layer_distance[t] == pytest.approx([np.linalg.norm(step) for step in steps] / sizes)
        assert found.parameter_distance[t] == pytest.approx(np.linalg.norm(np.concatenate(steps)))
        assert found.relative_parameter_distance[t] == pytest.approx(
            np.linalg.norm(np.concatenate(steps)) / np.linalg.norm(sizes)
        )
    assert found.judgement.kernel_distance == found.kernel_distance[-1]
    deltas = [[sum(V[:, i] ** 2) - sum(W[i] ** 2) - b[i] ** 2 for i in range(6)] for (W, b), (V, _) in states]
    assert found.delta["layers.0"] == pytest.approx(np.array([deltas[0], deltas[-1]]))
    (W, b), (V, _) = start
    size = np.mean([sum(V[:, i] ** 2) + sum(W[i] ** 2) + b[i] ** 2 for i in range(6)])
    assert found.delta_drift["layers.0"] == pytest.approx(np.mean(np.abs(np.subtract(*deltas[::2]))) / size)
    assert (found.layers, found.hidden) == (("layers.0", "layers.1"), ("layers.0",))
    assert (found.outputs, found.parameters, found.samples, found.of) == (3, 51, 9, 9)
    assert found.notes == () and not found.linear


def test_kernel_of_any_function_by_finite_differences(rng):
    """A function of a dictionary of arrays, which is no network that the library knows."""
    f = lambda p, x: {"out": p["W"] @ jnp.tanh(p["in"][0] @ x) * p["in"][1]}["out"]
    states = [{"in": [rng.normal(size=(5, 3)), rng.normal(size=2)], "W": rng.normal(size=(2, 5))} for _ in range(3)]
    X = rng.normal(size=(6, 3))
    by_rows = lambda leaves, X: np.array([leaves[2] @ np.tanh(leaves[0] @ x) * leaves[1] for x in X])
    J = [numerical_jacobian(by_rows, [*state["in"], state["W"]], X) for state in states]
    found = laziness(f, X, states, hidden=lambda p, x: {"bent": jnp.tanh(p["in"][0] @ x)})
    assert found.kernel_distance == pytest.approx([turned(J[0], other) for other in J], abs=1e-8)
    H = [np.tanh(X @ state["in"][0].T) for state in states]
    assert found.representation_distance[:, 0] == pytest.approx([turned(H[0], other, True) for other in H], abs=1e-12)
    assert found.hidden == ("bent",) and found.layers == ("W", "in.0", "in.1")
    assert found.delta == {} and found.scaling is None
    assert "δ is left out" in str(found) and "not known here" in found.suggestion


@pytest.mark.compiles
def test_blocks_give_the_same_kernel_distance(rng, monkeypatch):
    X, start = rng.normal(size=(11, 4)), drawn(rng, 4, 5, 5, 2)
    models = [mlp(start), mlp(moved(rng, start))]
    whole = laziness(models, X)
    monkeypatch.setattr(module, "_HELD", 3 * whole.outputs * whole.parameters)
    in_blocks = laziness([*models, models[-1]], X)
    assert in_blocks.kernel_distance[:2] == pytest.approx(whole.kernel_distance, rel=1e-12)
    assert in_blocks.kernel_movement[:2] == pytest.approx(whole.kernel_movement, rel=1e-12)
    assert not in_blocks.kernel_movement_error.any() and not in_blocks.notes


@pytest.mark.compiles
@pytest.mark.parametrize(
    "activation, sizes",
    [
        ("relu", (5, 8, 2)),
        pytest.param(0.2, (5, 8, 2), marks=pytest.mark.slow),
        pytest.param("linear", (5, 6, 4, 2), marks=pytest.mark.slow),
    ],
    ids=["relu", "leaky", "deep"],
)
def test_trajectories_agree_with_their_observables(activation, sizes):
    rng = np.random.default_rng(3)
    task = lr.Task.from_data(rng.normal(size=(12, 5)), rng.normal(size=(12, 2)))
    weights = lr.inits.gaussian(0, sizes=sizes, scale=0.5).weights
    traj = lr.descend(lr.Problem(task, lr.Network(weights, activation)), rate=0.05, steps=40, at=[0, 20, 40])
    found = laziness(traj, task.inputs)
    assert found.kernel_distance == pytest.approx(lr.observables.kernel_distance(traj), abs=1e-12)
    assert found.kernel_movement == pytest.approx(lr.observables.kernel_movement(traj), abs=1e-12)
    assert found.judgement == lr.regime(traj).judgement
    assert found.hamming_distance == pytest.approx(lr.observables.hamming_distance(traj))
    assert found.parameter_distance == pytest.approx(lr.observables.parameter_distance(traj))
    for i in range(len(sizes) - 2):
        cka = lr.observables.cka(traj, layer=i + 1)
        assert found.representation_distance[:, i] == pytest.approx(1 - cka, abs=1e-12)
    assert found.linear == (activation == "linear")
    networks = [traj.network(t) for t in range(len(traj.times))]
    assert (laziness(networks, task.inputs).kernel_distance == found.kernel_distance).all()


def test_a_mean_that_units_share_does_not_hide_what_moves(rng):
    """Features with a large common mean: not centred, the layer would seem to stay."""
    (W, b), last = drawn(rng, 4, 6, 2)
    b = np.full(6, 20.0)
    later = W + 0.3 * rng.normal(size=W.shape)
    X = rng.normal(size=(30, 4))
    before, now = (np.maximum(X @ V.T + b, 0) for V in (W, later))
    found = laziness([mlp([(W, b), last]), mlp([(later, b), last])], X)
    assert turned(before, now) < 1e-3 < 0.02 < turned(before, now, True)
    assert found.representation_distance[1, 0] == pytest.approx(turned(before, now, True), rel=1e-8)


@pytest.mark.compiles
def test_a_layer_that_is_the_same_for_all_samples_has_no_distance(rng):
    """Also in single precision, where the mean leaves rounding."""
    keys = jax.random.split(jax.random.key(0))
    models = [eqx.nn.MLP(4, 2, 5, 1, key=key) for key in keys]
    silent = [eqx.tree_at(lambda m: m.layers[0].weight, model, jnp.zeros((5, 4))) for model in models]
    found = laziness([models[0], *silent], rng.normal(size=(6, 4)))
    assert np.isnan(found.representation_distance[1:, 0]).all()


# one definition ----------------------------------------------------------------------------------------------

SHAPES = ((4, 4, 4), (6, 3, 3), (3, 3, 6), (5, 1, 1))
LAMS = (-30.0, -10.0, -3.0, -1.0, 0.0, 1.0, 3.0, 10.0, 30.0)
SCALES = (1e-2, 0.3, 1.0, 2.0)


def exact_problem(sizes, lam, scale):
    rng = np.random.default_rng(7)
    m = min(sizes[0], sizes[2])
    U, V = (np.linalg.qr(rng.normal(size=(d, m)))[0] for d in (sizes[2], sizes[0]))
    task = lr.Task.from_correlations(U * np.linspace(1, 0.6, m) @ V.T)
    return lr.Problem(task, lr.inits.lambda_balanced(rng, sizes=sizes, lam=lam, scale=scale))


@pytest.mark.compiles
@pytest.mark.parametrize(
    "lams, scales",
    [((-30.0, 0.0, 3.0), (0.3,)), pytest.param(LAMS, SCALES, marks=[pytest.mark.slow, pytest.mark.timeout(600)])],
    ids=["some", "all"],
)
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_regime_and_laziness_give_one_verdict(sizes, lams, scales):
    """144 exact trajectories: as a trajectory, which may have two records; and as checkpoints with their losses."""
    names = []
    for lam in lams:
        for scale in scales:
            problem = exact_problem(sizes, lam, scale)
            end = 3 * lr.fate(problem).regime.learned_by
            measured = lr.regime(lr.solve(problem, [end]))
            names.append(measured.name)
            inputs = np.eye(sizes[0])  # XᵀX = Σxx
            assert laziness(lr.solve(problem, [0.0, end]), inputs).judgement == measured.judgement, (lam, scale)
            dense = lr.solve(problem, np.append(np.linspace(0, measured.learned_by, 21), end))
            networks = [dense.network(t) for t in range(len(dense.times))]
            found = laziness(networks, inputs, loss=dense.loss)
            assert found.regime == ("lazy" if measured.name == "lazy" else "rich"), (lam, scale)  # no times, no delay
            assert found.judgement.kernel_movement == pytest.approx(measured.kernel_movement, rel=0.05)
            assert found.judgement.kernel_distance == pytest.approx(measured.kernel_distance, abs=1e-9)
    assert {"lazy", "rich"} <= set(names)


# symmetries --------------------------------------------------------------------------------------------------


def test_what_does_not_move_is_at_distance_zero(rng):
    X, model = rng.normal(size=(7, 4)), mlp(drawn(rng, 4, 5, 5, 2))
    found = laziness([model, model], X)
    for name in ("kernel_distance", "function_distance", "parameter_distance", "hamming_distance"):
        assert getattr(found, name) == pytest.approx([0, 0], abs=1e-15), name
    assert not found.representation_distance.any() and not any(found.delta_drift.values())
    assert found.regime == "lazy" and "hardly anything was learned" in found.verdict


def test_a_multiple_of_the_kernel_is_at_distance_zero(rng):
    start = drawn(rng, 4, 5, 2)
    f = lambda state, x: state[0] * state[1](x)
    found = laziness(f, rng.normal(size=(7, 4)), [(np.array(gain), mlp(start)) for gain in (1, 3)])
    assert found.kernel_distance[1] == pytest.approx(0, abs=1e-15)
    assert found.function_distance[1] == pytest.approx(2 / 3)


def test_permuted_neurons_are_the_same_network_elsewhere(rng):
    (W, b), last = drawn(rng, 4, 6, 3)
    order = np.roll(np.arange(6), 1)
    found = laziness(
        [mlp([(W, b), last]), mlp([(W[order], b[order]), (last[0][:, order], last[1])])], rng.normal(size=(9, 4))
    )
    assert found.kernel_distance[1] == pytest.approx(0, abs=1e-15)
    assert found.representation_distance[1, 0] == pytest.approx(0, abs=1e-15)
    assert found.function_distance[1] == pytest.approx(0, abs=1e-14)
    assert found.parameter_distance[1] > 1 and found.hamming_distance[1] > 0.1
    assert found.delta["layers.0"][1] == pytest.approx(found.delta["layers.0"][0][order])


def test_small_steps_conserve_delta_and_smaller_ones_more(rng):
    """Gradient descent drifts by O(rate) over the same time: half the rate, half the drift."""
    X, Y, start = rng.normal(size=(20, 4)), rng.normal(size=(20, 2)), drawn(rng, 4, 8, 2)

    def descended(rate, steps):
        (W, b), (V, c) = start
        for _ in range(steps):
            h = np.maximum(X @ W.T + b, 0)
            error = (h @ V.T + c - Y) / len(X)
            back = (error @ V) * (h > 0)
            W, b, V, c = W - rate * back.T @ X, b - rate * back.sum(0), V - rate * error.T @ h, c - rate * error.sum(0)
        return [(W, b), (V, c)]

    coarse, fine = (laziness([mlp(start), mlp(descended(0.02 / n, 100 * n))], X) for n in (1, 2))
    assert 0 < fine.delta_drift["layers.0"] < coarse.delta_drift["layers.0"] < 0.005
    assert coarse.delta_drift["layers.0"] / fine.delta_drift["layers.0"] == pytest.approx(2, rel=0.1)
    assert coarse.parameter_distance[1] > 0.3


# kinds of models ---------------------------------------------------------------------------------------------


def convolutional(key=0):
    keys = jax.random.split(jax.random.key(key), 3)
    return eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(1, 3, 3, padding=1, key=keys[0]),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.MaxPool2d(2, 2),
            eqx.nn.Sequential([eqx.nn.Conv2d(3, 4, 3, padding=1, key=keys[1]), eqx.nn.Lambda(jax.nn.relu)]),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Dropout(0.5),
            eqx.nn.Linear(4 * 2 * 2, 2, key=keys[2]),
            eqx.nn.Lambda(jax.nn.tanh),
        ]
    )


@pytest.mark.slow
def test_convolutions_pooling_dropout_and_nested_parts(rng):
    X = rng.normal(size=(5, 1, 4, 4)).astype(np.float32)
    models = [convolutional(0), convolutional(1)]
    found = laziness(models, X)
    assert found.hidden == ("layers.0", "layers.3.layers.0")
    assert found.layers == ("layers.0", "layers.3.layers.0", "layers.6")
    active = [[np.asarray(jax.vmap(m.layers[0])(X)) > 0 for m in models]]
    assert found.layer_hamming_distance[1, 0] == pytest.approx(np.mean(active[0][0] != active[0][1]))
    first, second, last = models[0].layers[0], models[0].layers[3].layers[0], models[0].layers[6]
    square = lambda part: float(np.sum(np.asarray(part, np.float64) ** 2))
    by_hand = [square(second.weight[:, i]) - square(first.weight[i]) - square(first.bias[i]) for i in range(3)]
    assert found.delta["layers.0"][0] == pytest.approx(by_hand, rel=1e-6)
    columns = np.asarray(last.weight).reshape(2, 4, 4)  # (outputs, channels, places)
    by_hand = [square(columns[:, i]) - square(second.weight[i]) - square(second.bias[i]) for i in range(4)]
    assert found.delta["layers.3.layers.0"][0] == pytest.approx(by_hand, rel=1e-6)
    assert found.scaling.change < 1e-5 and found.notes == ()


def test_delta_of_normalised_units_is_that_of_their_gains(rng):
    keys = jax.random.split(jax.random.key(0))
    parts = [eqx.nn.Linear(4, 5, key=keys[0]), eqx.nn.LayerNorm(5), eqx.nn.Lambda(jax.nn.relu)]
    model = eqx.nn.Sequential([*parts, eqx.nn.Linear(5, 2, key=keys[1])])
    gain, bias = rng.normal(size=(2, 5)).astype(np.float32)
    model = eqx.tree_at(lambda m: (m.layers[1].weight, m.layers[1].bias), model, (gain, bias))
    found = laziness([model, model], rng.normal(size=(6, 4)))
    outgoing = np.sum(np.asarray(model.layers[3].weight) ** 2, axis=0)
    assert list(found.delta) == ["layers.1"] and found.hidden == ("layers.0",)
    assert found.delta["layers.1"][0] == pytest.approx(outgoing - gain**2 - bias**2, rel=1e-5)
    assert found.normalisations == ("layers.1",) and "this network normalises (layers.1)" in found.suggestion
    wrapped = laziness(lambda model, x: model(x), rng.normal(size=(6, 4)), [model, model])
    assert wrapped.normalisations == ("layers.1",)


def test_other_modules_are_measured_as_far_as_they_are_known(rng):
    class Own(eqx.Module):
        mlp: eqx.nn.MLP

        def __call__(self, x):
            return x[0] * self.mlp(x)

    models = [Own(mlp(layers)) for layers in (drawn(rng, 4, 5, 2), drawn(rng, 4, 5, 2))]
    X = rng.normal(size=(6, 4))
    found = laziness(models, X)
    assert (
        found.hidden == () and found.representation_distance.shape == (2, 0) and np.isnan(found.hamming_distance).all()
    )
    assert found.notes[0].startswith("representation and Hamming distances are left out: hidden= says")
    assert found.regime == "rich" and "activations" not in found.verdict
    given = laziness(models, X, hidden=lambda model, x: [jax.nn.relu(model.mlp.layers[0](x))])
    plain = laziness([model.mlp for model in models], X)
    assert given.hidden == ("hidden 1",)
    assert given.representation_distance == pytest.approx(plain.representation_distance)
    assert given.hamming_distance == pytest.approx(plain.hamming_distance)


def test_hidden_layers_stay_in_their_order(rng):
    states = [{"W": rng.normal(size=(3, 4))} for _ in range(2)]
    f = lambda p, x: p["W"] @ x
    by_number = laziness(f, X, states, hidden=lambda p, x: [f(p, x) * i for i in range(1, 12)])
    by_name = laziness(f, X, states, hidden=lambda p, x: {"second": f(p, x), "first": x})
    assert by_number.hidden == tuple(f"hidden {i}" for i in range(1, 12))
    assert by_name.hidden == ("second", "first") and by_name.layer_hamming_distance[1].tolist()[1] == 0.0
    assert by_name.layer_hamming_distance[1, 0] == pytest.approx(by_number.hamming_distance[1])


def test_single_precision_stays_single_and_settings_stay(rng):
    model = eqx.nn.MLP(4, 2, 5, 1, key=jax.random.key(0))
    other = jax.tree.map(lambda leaf: leaf + 0.1 if eqx.is_array(leaf) else leaf, model)
    seen = []
    laziness(lambda m, x: seen.append(x.dtype) or m(x), rng.normal(size=(6, 4)), [model, other])
    assert set(map(str, seen)) == {"float32"} and not jax.config.jax_enable_x64


def test_whole_numbers_stay_so_as_inputs(rng):
    f = lambda p, token: p["readout"] @ p["table"][token]
    states = [{"table": rng.normal(size=(7, 3)), "readout": rng.normal(size=(2, 3))} for _ in range(2)]
    found = laziness(f, np.arange(7), states)
    assert found.samples == 7 and found.kernel_distance[1] > 0.01


def test_many_samples_are_drawn_by_the_seed(rng):
    X, start = rng.normal(size=(50, 4)), drawn(rng, 4, 5, 2)
    models = [mlp(start), mlp(moved(rng, start))]
    found = laziness(models, X, samples=10, seed=4)
    chosen = np.sort(np.random.default_rng(4).choice(50, 10, replace=False))
    assert found.kernel_distance == pytest.approx(laziness(models, X[chosen]).kernel_distance, rel=1e-12)
    assert (found.samples, found.of, found.seed) == (10, 50, 4)
    assert "10 of 50 samples (seed 4)" in str(found)
    assert found.kernel_distance[1] != laziness(models, X, samples=10, seed=5).kernel_distance[1]


# the page ----------------------------------------------------------------------------------------------------


@pytest.mark.documentation
def test_the_example_for_equinox_runs(capsys):
    pytest.importorskip("optax")
    pytest.importorskip("sklearn")
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), flags=re.DOTALL)
    session = {}
    ran = [exec(compile(block, "laziness.md", "exec"), session) for block in blocks if "torch" not in block]
    assert len(ran) == 3
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[-1] for line in lines if line.startswith("α = ")] == ["lazy", "rich", "rich"]
