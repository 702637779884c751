"""`lazyrich predict` on what ordinary users bring: biases, labels, activations, low rank, several tasks."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

import lazyrich as lr
from lazyrich.cli import main
from tests.oracles import with_biases as by_hand


@pytest.fixture
def folder(tmp_path, monkeypatch, rng):
    """Data of rank 3 for a 4-5-3 network, with its classes, and networks with and without biases."""
    monkeypatch.chdir(tmp_path)
    X = rng.normal(size=(30, 3)) @ rng.normal(size=(3, 4)) + 0.2
    X = X @ (np.eye(4) - np.ones((4, 4)) / 4)
    np.savez("data.npz", inputs=X, targets=rng.normal(size=(30, 3)))
    np.savez("other.npz", inputs=X, targets=rng.normal(size=(30, 3)))
    labels = rng.integers(0, 3, size=30)
    np.savez("labels.npz", X=X, labels=labels)
    np.savetxt("labels.csv", np.column_stack([X, labels]), delimiter=",", fmt="%.17g")
    W, b = [0.5 * rng.normal(size=(5, 4)), 0.5 * rng.normal(size=(3, 5))], [rng.normal(size=5), rng.normal(size=3)]
    save_file({"0.weight": W[0], "0.bias": b[0], "2.weight": W[1], "2.bias": b[1]}, "biased.safetensors")
    np.savez("bare.npz", W1=W[0], W2=W[1])
    return {"X": X, "labels": labels, "W": W, "b": b}


def told(capsys, *arguments):
    status = main(["predict", "--no-figure", "--json", "--horizon", "2", "--times", "5", *arguments])
    out, err = capsys.readouterr()
    assert status == 0, err
    return json.loads(out), err


@pytest.mark.parametrize("activation", ["linear", "tanh"])
@pytest.mark.parametrize("data", ["labels.npz", "labels.csv"])
def test_a_network_with_biases_on_labels(capsys, folder, activation, data):
    found, _ = told(capsys, "--network", "biased.safetensors", "--data", data, "--activation", activation)
    Y = np.eye(3)[folder["labels"]]
    wanted = by_hand.flow(folder["W"], folder["b"], activation, folder["X"], Y, 2.0, rates=(1.0, 1.0))
    loss = by_hand.loss(*wanted, activation, folder["X"], Y)
    prediction = found["prediction"]
    assert abs(prediction["loss"][-1] - loss) <= prediction["error"] * max(prediction["loss"])  # as it says itself
    assert prediction["error"] < (1e-6 if activation == "linear" else 1e-2)


def test_a_leaky_relu_by_its_slope(capsys, folder):
    found, _ = told(capsys, "--network", "bare.npz", "--data", "data.npz", "--activation", "0.1")
    assert found["facts"]["activation"] == {"gamma": 0.1}
    assert main(["predict", "--network", "bare.npz", "--data", "data.npz", "--activation", "relo"]) == 2
    assert "did you mean 'relu'?" in capsys.readouterr().err


def test_low_rank_is_whitened_on_its_support_and_said(capsys, folder):
    data = np.load("data.npz")
    task = lr.Task.from_data(data["inputs"], data["targets"]).whitened()
    start = lr.inits.zero_balanced(0, sizes=(3, 5, 3), scale=0.1)
    np.savez("fits.npz", W1=start.weights[0] @ task.support.T, W2=start.weights[1])
    found, err = told(capsys, "--network", "fits.npz", "--data", "data.npz", "--whiten")
    assert "the inputs span 3 of 4 directions" in err
    assert found["prediction"]["exact"] and found["prediction"]["method"] == "riccati"
    by_flow = lr.flow(lr.Problem(task, lr.Network(list(np.load("fits.npz").values()))), [0.0, 2.0]).loss[-1]
    assert found["prediction"]["loss"][-1] == pytest.approx(by_flow, rel=1e-7)


@pytest.mark.parametrize("activation", ["linear", "tanh"])
def test_several_tasks_are_learned_in_turn(capsys, folder, activation):
    arguments = ("--network", "biased.safetensors", "--data", "data.npz", "--data", "other.npz")
    found, _ = told(capsys, *arguments, "--activation", activation)
    W, b, X = folder["W"], folder["b"], folder["X"]
    Y = [np.load(name)["targets"] for name in ("data.npz", "other.npz")]
    for i in (0, 1):
        W, b = by_hand.flow(W, b, activation, X, Y[i], 2.0, rates=(1.0, 1.0))
        wanted = [by_hand.loss(W, b, activation, X, y) for y in Y]
        np.testing.assert_allclose(found["loss_matrix"][i], wanted, rtol=1e-6 if activation == "linear" else 3e-3)
    assert [stage["end"] for stage in found["stages"]] == [2.0, 4.0] and not any(s["exact"] for s in found["stages"])


def test_several_tasks_exactly_and_in_words(capsys, folder, rng):
    for name in ("a", "b"):
        np.savez(f"{name}.npz", X=np.eye(3), Y=rng.normal(size=(3, 2)))
    W = lr.inits.zero_balanced(1, sizes=(3, 5, 2), scale=0.3).weights
    np.savez("balanced.npz", W1=W[0], W2=W[1])
    status = main(["predict", "--network", "balanced.npz", "--data", "a.npz", "--data", "b.npz", "--figure", "f.png"])
    out, err = capsys.readouterr()
    assert status == 0, err
    assert "2 tasks in turn" in out and out.count("riccati, exact") == 2 and "Figure: f.png" in out
