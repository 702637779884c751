"""A monitor: its numbers against kernels written by hand, its pace against a clock that is made up, and its files."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.laziness.pace import Pace

jax = pytest.importorskip("jax")
eqx = pytest.importorskip("equinox")

from laziness.test_measuring import (  # noqa: E402
    drawn,
    forward,
    mlp,
    moved,
    moved_by,
    numerical_jacobian,
    turned,
    two_layer_jacobian,
)

pytestmark = pytest.mark.timeout(120)
K, M = "lazyrich/kernel_distance", "lazyrich/kernel_movement"


def single(layers):
    return [tuple(part.astype(np.float32) for part in layer) for layer in layers]


# against oracles ---------------------------------------------------------------------------------------------


@pytest.mark.compiles
@pytest.mark.parametrize(("precision", "tolerance"), [(np.float64, 1e-11), (np.float32, 1e-5)])
def test_every_number_of_a_two_layer_network_by_hand(rng, precision, tolerance):
    X, start = rng.normal(size=(9, 4)), single(drawn(rng, 4, 6, 3))
    states = [start, single(moved(rng, start)), single(moved(rng, start, 1.0))]
    as_precise = lambda layers: [tuple(part.astype(precision) for part in layer) for layer in layers]
    exactly = [[tuple(part.astype(np.float64) for part in layer) for layer in state] for state in states]
    X = X.astype(np.float32).astype(np.float64)
    monitor = lr.laziness.Monitor(mlp(as_precise(start)), X)
    J, before = [two_layer_jacobian(state, X) for state in exactly], forward(exactly[0], X)
    flat = [np.concatenate([np.concatenate([W.ravel(), b]) for W, b in layers]) for layers in exactly]
    for t, state in enumerate(exactly):
        found, now = monitor.update(mlp(as_precise(states[t])), step=10 * t), forward(state, X)
        assert found[K] == pytest.approx(turned(J[0], J[t]), abs=tolerance)
        assert found[M] == pytest.approx(moved_by(J[0], J[t]), abs=tolerance)
        assert found["lazyrich/feature_distance/layers.0"] == pytest.approx(
            turned(before[0], now[0], True), abs=tolerance
        )
        assert found["lazyrich/hamming"] == pytest.approx(np.mean((now[0] > 0) != (before[0] > 0)))
        assert found["lazyrich/parameter_distance"] == pytest.approx(np.linalg.norm(flat[t] - flat[0]), abs=tolerance)
        linear = (before[1].ravel() + J[0] @ (flat[t] - flat[0])).reshape(before[1].shape)
        size = max(np.linalg.norm(now[1] - before[1]), np.linalg.norm(linear - before[1]), 1e-300)
        gap = np.linalg.norm(now[1] - linear) / size
        assert found["lazyrich/linearisation_gap"] == pytest.approx(gap if t else 0.0, abs=10 * tolerance)
        (W, b), (V, _) = exactly[0]
        deltas = [np.sum(V**2, axis=0) - np.sum(W**2, axis=1) - b**2 for (W, b), (V, _) in (exactly[0], state)]
        size = np.mean(np.sum(V**2, axis=0) + np.sum(W**2, axis=1) + b**2)
        drift = np.mean(np.abs(deltas[1] - deltas[0])) / size
        assert found["lazyrich/delta_drift"] == pytest.approx(drift, abs=tolerance)
        assert len(found) == 7
    assert monitor.judgement.name == "rich" and str(monitor).startswith("step 20: the kernel moved by ")


@pytest.mark.compiles
def test_a_function_of_parameters_is_watched_without_hidden_layers(rng):
    X = rng.normal(size=(5, 3))
    first, last = ({"V": rng.normal(size=(2, 4)), "W": rng.normal(size=(4, 3))} for _ in range(2))
    monitor = lr.laziness.Monitor(lambda p, x: p["V"] @ jax.numpy.tanh(p["W"] @ x), X, first)
    found = monitor.update(last, step=1)
    plain = lambda leaves, X: np.tanh(X @ leaves[1].T) @ leaves[0].T
    J = [numerical_jacobian(plain, [state["V"], state["W"]], X) for state in (first, last)]
    assert found[K] == pytest.approx(turned(*J), abs=1e-8) and found[M] == pytest.approx(moved_by(*J), abs=1e-8)
    assert set(found) == {K, M, "lazyrich/parameter_distance", "lazyrich/linearisation_gap"}
    assert any("hidden= says where" in note for note in monitor.notes)


@pytest.mark.compiles
def test_a_monitor_and_measure_say_the_same(rng):
    X, start = rng.normal(size=(90, 4)), drawn(rng, 4, 5, 5, 2)
    models = [mlp(start), mlp(moved(rng, start)), mlp(moved(rng, start, 0.6))]
    measured = lr.laziness.measure(models, X, samples=20, seed=3, loss=[3.0, 2.0, 0.0])
    monitor = lr.laziness.Monitor(models[0], X, samples=20, seed=3)
    seen = [
        monitor.update(model, step, loss)
        for step, (model, loss) in enumerate(zip(models, (3.0, 2.0, 0.0), strict=True))
    ]
    assert [one[K] for one in seen] == pytest.approx(measured.kernel_distance, rel=1e-9, abs=1e-25)
    assert [one["lazyrich/hamming"] for one in seen] == pytest.approx(measured.hamming_distance)
    assert monitor.judgement.kernel_movement == pytest.approx(measured.judgement.kernel_movement, rel=1e-9)


# resuming, diverging, pace -----------------------------------------------------------------------------------


@pytest.mark.compiles
def test_a_resumed_run_logs_the_same_numbers(rng):
    X, start = rng.normal(size=(9, 4)), drawn(rng, 4, 6, 3)
    run = [mlp(moved(rng, start, 0.1 * t)) for t in range(6)]
    whole = lr.laziness.Monitor(run[0], X)
    logged = [whole.update(model, step, loss=1.0 / (step + 1)) for step, model in enumerate(run)]
    before = lr.laziness.Monitor(run[0], X)
    for step in range(3):
        before.update(run[step], step, loss=1.0 / (step + 1))
    after = lr.laziness.Monitor(run[3], X)  # what a new process has: the network as it is by then
    after.load_state_dict(before.state_dict())
    assert [after.update(run[step], step, loss=1.0 / (step + 1)) for step in (3, 4, 5)] == logged[3:]
    assert after.to_json() == whole.to_json()
    unused = lr.laziness.Monitor(run[2], X)
    unused.load_state_dict(lr.laziness.Monitor(run[0], X).state_dict())  # before anything was measured
    assert unused.update(run[5], 5) == logged[5]
    taken_up_again = after.update(run[1], 1, loss=0.5)
    assert taken_up_again == logged[1] and [one.step for one in after.records.seen] == [0, 1]


def test_what_does_not_belong_together_is_not_resumed(rng):
    X, start = rng.normal(size=(9, 4)), drawn(rng, 4, 6, 3)
    monitor = lr.laziness.Monitor(mlp(start), X)
    for other in (lr.laziness.Monitor(mlp(start), X + 1), lr.laziness.Monitor(mlp(start), X, seed=1)):
        with pytest.raises(lr.InvalidInput, match="state must come from a monitor of the same inputs, samples, seed"):
            other.load_state_dict(monitor.state_dict())
    with pytest.raises(lr.InvalidInput, match=r"state must come from a monitor of the same model, with 6 arrays"):
        lr.laziness.Monitor(mlp(drawn(rng, 4, 6, 6, 3)), X).load_state_dict(monitor.state_dict())
    with pytest.raises(lr.InvalidInput, match=r"state must come from Monitor\.state_dict\(\), and it is \{\}\."):
        monitor.load_state_dict({})


@pytest.mark.compiles
@pytest.mark.parametrize("first", [True, False])
def test_a_run_that_diverged_gives_nan_and_no_error(rng, first):
    X, start = rng.normal(size=(9, 4)), drawn(rng, 4, 6, 3)
    monitor = lr.laziness.Monitor(mlp(start), X)
    names = set(monitor.update(mlp(moved(rng, start)), 1)) if not first else {K, M}
    (W, b), last = start
    for broken in ([(W * np.nan, b), last], [(W * 1e300, b), (last[0] * 1e300, last[1])]):
        found = monitor.update(mlp(broken), 2)
        assert all(math.isnan(value) for value in found.values()) and names <= set(found)
    assert "not finite" in str(monitor) and json.loads(monitor.to_json())["records"][-1][K] is None
    assert monitor.judgement.name == ("unknown" if first else "rich")


@pytest.mark.compiles
def test_every_so_many_steps(rng):
    start = mlp(drawn(rng, 4, 6, 3))
    monitor = lr.laziness.Monitor(start, rng.normal(size=(5, 4)), every=10)
    assert [step for step in range(25) if monitor.update(start, step)] == [0, 10, 20]


@pytest.mark.parametrize("share", ["5%", "20%", "100%"])
def test_a_share_of_the_time_of_training_is_kept(rng, share):
    """Steps and measurements take random times on a clock of the test's own."""
    now = [0.0]
    pace = Pace(0, Pace.of(share).share, clock=lambda: now[0])
    spent = trained = 0.0
    measured = 0
    for step in range(3000):
        took = rng.uniform(0.5, 1.5)
        now[0] += took
        trained += took
        if step == 1500:  # another process goes on, after a pause that is nobody's time
            state, now[0] = pace.state_dict(), now[0] + 1e6
            pace = Pace(0, pace.share, clock=lambda: now[0])
            pace.load_state_dict(state)
        if pace.due(step):
            cost = 5.0
            now[0] += cost
            spent, measured = spent + cost, measured + 1
            pace.count(cost)
            assert measured == 1 or spent <= pace.share * trained * (1 + 1e-9)
    assert spent > 0.9 * pace.share * trained and measured == spent / 5


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": "often"}, r"every must be a number of steps, or a share .* such as '5%', and it is 'often'\."),
        ({"every": "0%"}, r"every must be a number of steps"),
        ({"every": 0}, r"every must be at least 1"),
        ({"samples": 1}, r"samples must be at least 2"),
        ({"sketch": 0}, r"sketch must be at least 1"),
    ],
)
def test_bad_options_get_one_sentence(options, message):
    with pytest.raises(lr.InvalidInput, match=message):
        lr.laziness.Monitor(mlp(drawn(np.random.default_rng(0), 4, 6, 3)), np.ones((3, 4)), **options)


def test_no_model_gets_one_sentence():
    with pytest.raises(lr.InvalidInput, match=r"model must be a PyTorch module, .*, and it is a int\."):
        lr.laziness.Monitor(3, np.ones((3, 4)))
    monitor = lr.laziness.Monitor(mlp(drawn(np.random.default_rng(0), 4, 6, 3)), np.ones((3, 4)))
    with pytest.raises(lr.InvalidInput, match=r"step must be at least 0"):
        monitor.update(3, -1)
    with pytest.raises(lr.InvalidInput, match=r"nothing has been measured yet: call update first"):
        monitor.plot()


# pictures and files ------------------------------------------------------------------------------------------


@pytest.mark.compiles
def test_files_hold_what_was_logged(rng, tmp_path):
    X, start = rng.normal(size=(5, 4)), drawn(rng, 4, 6, 3)
    monitor = lr.laziness.Monitor(mlp(start), X)
    logged = [monitor.update(mlp(moved(rng, start, t / 4)), 7 * t, loss=2.0 - t) for t in range(3)]
    rows = json.loads(monitor.to_json(tmp_path / "run.json"))["records"]
    assert rows == [{"step": 7 * t, "loss": 2.0 - t} | one for t, one in enumerate(logged)]
    assert json.loads((tmp_path / "run.json").read_text())["regime"] == monitor.judgement.name
    monitor.to_csv(tmp_path / "run.csv")
    read = list(csv.DictReader((tmp_path / "run.csv").open()))
    assert [{name: float(cell) for name, cell in row.items()} for row in read] == rows
    pytest.importorskip("xarray")
    data = monitor.to_xarray()
    assert data.kernel_distance.values.tolist() == [one[K] for one in logged]
    assert data.feature_distance.sel(hidden_layer="layers.0").values.tolist() == [
        one["lazyrich/feature_distance/layers.0"] for one in logged
    ]
    assert data.step.values.tolist() == [0, 7, 14] and data.attrs["regime"] == monitor.judgement.name


@pytest.mark.compiles
def test_the_picture_shows_each_layer_and_the_verdict(rng):
    pytest.importorskip("matplotlib")
    X, start = rng.normal(size=(5, 4)), drawn(rng, 4, 6, 6, 3)
    monitor = lr.laziness.Monitor(mlp(start), X)
    for t in range(3):
        monitor.update(mlp(moved(rng, start, t / 4)), t, loss=math.nan if t == 1 else 1.0)
    kernel, features, loss = monitor.plot().axes
    assert kernel.get_title(loc="left") == "Tangent kernel: rich" and loss.get_title(loc="left") == "Loss"
    assert [line.get_label() for line in features.lines] == ["layers.0", "layers.1"]
    assert kernel.lines[0].get_ydata().tolist() == [one.values["kernel_movement"] for one in monitor.records.seen]


def test_a_line_on_the_terminal_where_somebody_looks(rng, capsys, monkeypatch):
    monkeypatch.setenv("LAZYRICH_PROGRESS", "1")
    start = mlp(drawn(rng, 4, 6, 3))
    for live in (True, False):
        lr.laziness.Monitor(start, rng.normal(size=(5, 4)), live=live).update(start, 3)
        assert ("step 3: the kernel moved by 0%" in capsys.readouterr().err) is live
