"""`lazyrich predict` on what ordinary users bring: biases, labels, activations, low rank, several tasks."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

import lazyrich as lr
from lazyrich.cli import main
from tests.oracles import losses as other_losses
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
    return {"X": X, "labels": labels, "W": W, "b": b, "at": tmp_path}


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


@pytest.mark.long
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
    assert "still falling" not in out
    tasks = [lr.Task.from_data(np.load(f"{name}.npz")["X"], np.load(f"{name}.npz")["Y"]) for name in ("a", "b")]
    difference = tasks[1].loss(tasks[0].target)  # each is learned, and the other's loss is then that of its map
    lines = out[out.index("forgotten:") :].splitlines()
    assert lines[2].split() == ["after", "of", "task", "1", "of", "task", "2"]
    assert float(lines[4].split()[-2]) == pytest.approx(difference, rel=0.01) and lines[3].split()[-1] == "–"
    assert main(["predict", "--network", "balanced.npz", "--data", "a.npz", "--data", "b.npz", "--horizon", "0.5"]) == 0
    assert capsys.readouterr().out.count("its loss is still falling when its time is over") == 2


@pytest.mark.parametrize("activation", ["linear", "relu"])
def test_tasks_in_turn_have_an_error_and_say_the_same_once(capsys, folder, activation):
    arguments = ["--network", "biased.safetensors", "--data", "data.npz", "--data", "other.npz", "--horizon", "1"]
    assert main(["predict", *arguments, "--activation", activation, "--no-figure"]) == 0
    out = capsys.readouterr().out
    assert out.count("integrated, for no exact solution") == (activation == "linear")
    assert out.count("flow, integrated to ") == 2 and "still falling" in out
    found, _ = told(capsys, *arguments, "--activation", activation)
    assert all(0 < stage["error"] < (1e-6 if activation == "linear" else 1e-2) for stage in found["stages"])
    assert any(stage["still_falling"] for stage in found["stages"])
    assert found["forgetting"][1][0] == pytest.approx(found["loss_matrix"][1][0] - found["loss_matrix"][0][0])


@pytest.mark.parametrize("activation", ["linear", "relu"])
def test_several_tasks_are_drawn_under_the_names_of_their_files(capsys, folder, activation):
    """Nonlinear networks too; a task that comes again has one curve."""
    data = [part for name in ("data", "other", "data") for part in ("--data", f"{name}.npz")]
    about = ("--activation", activation, "--horizon", "2", "--figure", "turns.svg")
    assert main(["predict", "--network", "biased.safetensors", *data, *about]) == 0
    out, drawn = capsys.readouterr().out, (folder["at"] / "turns.svg").read_text()
    assert "task 2 (other)" in out and "Figure: turns.svg" in out
    assert "<!-- 1, 3: data -->" in drawn and "<!-- 2: other -->" in drawn and "<!-- 3: data -->" not in drawn


def test_several_tasks_are_whitened_where_they_have_the_same_inputs(capsys, folder, rng):
    arguments = ("--network", "bare.npz", "--whiten", "--data", "data.npz")
    assert len(told(capsys, *arguments, "--data", "other.npz")[0]["stages"]) == 2
    np.savez("else.npz", inputs=rng.normal(size=(30, 4)), targets=rng.normal(size=(30, 3)))
    for activation in ("linear", "tanh"):
        assert main(["predict", *arguments, "--data", "else.npz", "--activation", activation, "--no-figure"]) == 2
        said = capsys.readouterr().err
        assert "those of else.npz are not those of data.npz: try without --whiten" in said and "Task." not in said
    main(["predict", "--help"])
    assert "must have the same inputs" in " ".join(capsys.readouterr().out.split())


def test_outputs_without_a_label_are_told_of(capsys, folder):
    _, err = told(capsys, "--network", "bare.npz", "--data", "labels.npz", "--layers", "W1")
    assert "labels in labels.npz are 0 to 2, and the network has 5 outputs: the targets of the 2 without" in err
    assert told(capsys, "--network", "bare.npz", "--data", "labels.npz")[1] == ""


@pytest.mark.parametrize("stray", [-1, 3, 37, 0.5])
def test_labels_number_the_outputs_and_no_others_are_taken_for_them(capsys, folder, stray):
    labels = np.where(folder["labels"] == 2, stray, folder["labels"])
    np.savez("stray.npz", X=folder["X"], labels=labels)
    assert main(["predict", "--network", "bare.npz", "--data", "stray.npz"]) == 2
    err = capsys.readouterr().err
    assert f"labels in stray.npz must number the 3 outputs of the network, 0 to 2, and {stray:g} is among them" in err


def test_rounding_is_printed_as_0_and_one_layer_has_no_separatrix(capsys, folder, rng):
    X = rng.normal(size=(40, 4))
    np.savez("line.npz", X=X, Y=X @ rng.normal(size=(4, 1)))
    np.savez("one.npz", W=0.1 * rng.normal(size=(1, 4)))
    start = lr.inits.zero_balanced(0, sizes=(4, 5, 1), scale=0.1).weights
    np.savez("two.npz", W1=start[0], W2=start[1])
    said = []
    for network in (("one.npz",), ("one.npz", "--horizon", "1e4"), ("two.npz",), ("two.npz", "--whiten")):
        assert main(["predict", "--no-figure", "--data", "line.npz", "--network", *network]) == 0
        said.append(capsys.readouterr().out)
    assert said[1].split("\n\n")[1].endswith("\n10000        0")
    assert "loss there    0\n" in said[0] and "separatrix" not in said[0] and "balanced" not in said[0]
    assert "least loss    0 (of any linear map)\n" in said[2]
    assert "loss there    0\n" in said[3] and "off the separatrix" in said[3]


@pytest.mark.parametrize("name", ["linear", "tanh"])
def test_cross_entropy_of_labels(capsys, folder, name):
    options = ("--loss", "cross_entropy", "--activation", name)
    found, _ = told(capsys, "--network", "bare.npz", "--data", "labels.npz", *options)
    Y = np.eye(3)[folder["labels"]]
    run = other_losses.Run(folder["X"], Y, other_losses.cross_entropy, name)
    wanted = run.value(run.flow(folder["W"], np.array([2.0]))[-1], [np.zeros(5), np.zeros(3)])
    prediction = found["prediction"]
    assert abs(prediction["loss"][-1] - wanted) <= prediction["error"] * max(prediction["loss"])
    assert found["facts"]["loss"] == "cross_entropy" and prediction["target"] is None
    assert all("squared loss" in [r["condition"] for r in refusals] for refusals in found["facts"]["methods"].values())


def test_cross_entropy_of_other_targets_is_one_sentence(capsys, folder):
    for arguments, words in (
        (("--data", "data.npz", "--loss", "cross_entropy"), "targets must be probabilities"),
        (("--data", "labels.npz", "--loss", "cross-entropy"), "did you mean 'cross_entropy'?"),
    ):
        assert main(["predict", "--no-figure", "--network", "bare.npz", *arguments]) == 2
        assert words in capsys.readouterr().err


def test_two_tasks_of_labels_in_turn_with_cross_entropy(capsys, folder):
    options = ("--loss", "cross_entropy", "--data", "labels.npz", "--data", "labels.npz")
    found, _ = told(capsys, "--network", "bare.npz", *options)
    run = other_losses.Run(folder["X"], np.eye(3)[folder["labels"]], other_losses.cross_entropy)
    wanted = run.value(run.flow(folder["W"], np.array([4.0]))[-1], [np.zeros(5), np.zeros(3)])
    np.testing.assert_allclose(found["loss_matrix"][1], [wanted, wanted], rtol=1e-6)
