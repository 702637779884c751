"""Trajectories: parts computed when asked for, blocks that agree with each other, and networks that go on from them."""

from __future__ import annotations

import copy
import pickle
import re
import sys
from itertools import pairwise

import numpy as np
import pytest
from oracles import integrate

import lazyrich as lr
from lazyrich.citations import BIBTEX

TIMES = np.array([0.0, 0.3, 1.0, 4.0])


def white_task(rng, d_in=5, d_out=4):
    return lr.Task.from_correlations(rng.normal(size=(d_out, d_in)))


def solved(rng, kind):
    """One trajectory of each exact method."""
    task = white_task(rng)
    start = {
        "riccati": lambda: lr.inits.zero_balanced(rng, sizes=(5, 6, 4), scale=0.5),
        "riccati, λ": lambda: lr.inits.lambda_balanced(rng, sizes=(5, 3, 4), lam=-1.5, scale=0.5),
        "modes": lambda: lr.inits.aligned(rng, task, hidden=6, strengths=0.3, lam=[0.0, 1.0, -1.0, 2.0]),
        "shallow": lambda: lr.inits.gaussian(rng, sizes=(5, 4), scale=0.5),
        "deep_modes": lambda: lr.inits.aligned(rng, task, hidden=(6, 7), strengths=0.3),
    }[kind]()
    return lr.solve(lr.Problem(task, start), TIMES)


KINDS = ["riccati", "riccati, λ", "modes", "shallow", "deep_modes"]
TWO_LAYERS = KINDS[:3]


@pytest.mark.parametrize("kind", KINDS)
class TestParts:
    def test_have_the_promised_shapes(self, rng, kind):
        traj = solved(rng, kind)
        sizes = traj.problem.network.sizes
        assert traj.method == kind.split(",")[0]
        assert traj.function.shape == (4, 4, 5) and traj.loss.shape == traj.times.shape == (4,)
        assert [W.shape for W in traj.weights] == [(4, b, a) for a, b in pairwise(sizes)]
        assert all(part.dtype == np.float64 for part in (traj.times, traj.function, traj.loss, *traj.weights))

    def test_agree_with_each_other(self, rng, kind):
        traj = solved(rng, kind)
        for i in range(len(TIMES)):
            W = lr.Network([layer[i] for layer in traj.weights]).function
            np.testing.assert_allclose(traj.function[i], W, rtol=0, atol=1e-9)
            assert traj.loss[i] == pytest.approx(traj.problem.task.loss(traj.function[i]), rel=1e-12, abs=1e-14)

    def test_start_where_the_network_is(self, rng, kind):
        traj = solved(rng, kind)
        network = traj.problem.network
        np.testing.assert_allclose(traj.function[0], network.function, rtol=0, atol=1e-14)
        for W, start in zip(traj.weights, network.weights, strict=True):
            np.testing.assert_allclose(W[0], start, rtol=0, atol=1e-14)

    def test_follow_the_flow(self, rng, kind):
        traj = solved(rng, kind)
        task, start = traj.problem.task, traj.problem.network.weights
        layers = integrate.weights(start, task.sigma_yx, task.sigma_xx, TIMES)
        for W, want in zip(traj.weights, layers, strict=True):
            np.testing.assert_allclose(W, want, rtol=0, atol=1e-9)

    def test_are_certified(self, rng, kind):
        certificate = solved(rng, kind).certificate()
        assert certificate.exact, str(certificate)


@pytest.mark.parametrize("kind", TWO_LAYERS)
def test_blocks_of_the_gram_matrix(rng, kind):
    traj = solved(rng, kind)
    W1, W2 = traj.weights
    gram = traj.gram
    assert gram.shape == (4, 9, 9)
    np.testing.assert_allclose(gram, gram.transpose(0, 2, 1), rtol=0, atol=1e-15)
    np.testing.assert_allclose(gram[:, 5:, :5], traj.function, rtol=0, atol=1e-12)
    np.testing.assert_allclose(gram[:, :5, :5], W1.transpose(0, 2, 1) @ W1, rtol=0, atol=1e-9)
    np.testing.assert_allclose(gram[:, 5:, 5:], W2 @ W2.transpose(0, 2, 1), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["shallow", "deep_modes"])
def test_other_depths_have_no_gram_matrix(rng, kind):
    traj = solved(rng, kind)
    assert not traj.knows("gram")
    with pytest.raises(
        AttributeError, match=r"gram belongs to two-layer linear networks without biases, and this one is <Network: 5-"
    ):
        _ = traj.gram


def test_one_time_is_a_vector_of_one(rng):
    problem = lr.Problem(white_task(rng), lr.inits.gaussian(rng, sizes=(5, 4), scale=0.5))
    assert lr.solve(problem, 2).function.shape == (1, 4, 5)
    assert lr.solve(problem, range(3)).times.tolist() == [0.0, 1.0, 2.0]


def test_the_given_times_are_copied(rng):
    times = TIMES.copy()
    traj = lr.solve(lr.Problem(white_task(rng), lr.inits.gaussian(rng, sizes=(5, 4), scale=0.5)), times)
    times[:] = 0
    np.testing.assert_array_equal(traj.times, TIMES)
    assert not np.array_equal(traj.function[0], traj.function[-1])


class TestLaziness:
    def trajectory(self, **parts):
        problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.gaussian(0, sizes=(8, 3, 8), scale=0.1))
        return lr.Trajectory(problem, np.array([0.0, 1.0]), "recorded", parts)

    def test_a_part_is_computed_once_and_only_if_asked_for(self):
        calls = []
        part = lambda name, value: lambda: calls.append(name) or value
        traj = self.trajectory(loss=part("loss", np.ones(2)), function=part("function", np.zeros((2, 8, 8))))
        assert calls == []
        _ = traj.loss, traj.loss
        assert calls == ["loss"]
        _ = traj.function
        assert calls == ["loss", "function"]

    def test_what_the_weights_determine_is_derived(self):
        W1, W2 = np.random.default_rng(0).normal(size=(2, 2, 24))
        W1, W2 = W1.reshape(2, 3, 8), W2.reshape(2, 8, 3)
        traj = self.trajectory(weights=[W1, W2])
        assert all(map(traj.knows, ("weights", "function", "loss", "gram")))
        np.testing.assert_allclose(traj.function, np.einsum("toh,thi->toi", W2, W1), rtol=0, atol=1e-14)
        Q = np.concatenate([W1.transpose(0, 2, 1), W2], axis=1)
        np.testing.assert_allclose(traj.gram, np.einsum("tih,tjh->tij", Q, Q), rtol=0, atol=1e-14)
        X, Y = np.eye(8), lr.tasks.semantic_hierarchy().targets
        losses = [np.sum((Y - X @ (b @ a).T) ** 2) / 16 for a, b in zip(W1, W2, strict=True)]
        np.testing.assert_allclose(traj.loss, losses, rtol=1e-13)

    def test_what_was_not_recorded_says_how_to_get_it(self):
        traj = self.trajectory(loss=np.ones(2))
        assert traj.knows("loss") and not traj.knows("function")
        with pytest.raises(
            AttributeError, match=r"function was not recorded \(only loss\): try .* record=\('function',\)"
        ):
            _ = traj.function
        assert not hasattr(traj, "weights")

    def test_nonlinear_networks_have_no_matrix(self):
        start = lr.inits.gaussian(0, sizes=(8, 3, 8), scale=0.1, activation="relu")
        problem = lr.Problem(lr.tasks.semantic_hierarchy(), start)
        layers = [np.stack([W, W]) for W in start.weights]
        traj = lr.Trajectory(problem, np.array([0.0, 1.0]), "recorded", {"weights": layers, "loss": np.ones(2)})
        for name in ("function", "gram"):
            with pytest.raises(
                AttributeError, match=rf"{name} .* linear network.*, and this one is <Network: 8-3-8, relu>"
            ):
                getattr(traj, name)
        assert str(traj.network(0).activation) == "relu"


class TestNetwork:
    @pytest.mark.parametrize("index", [0, 2, -1, -4])
    def test_is_the_one_at_that_time(self, rng, index):
        traj = solved(rng, "riccati")
        network = traj.network(index)
        for W, layer in zip(network.weights, traj.weights, strict=True):
            np.testing.assert_array_equal(W, layer[index])

    def test_is_the_last_unless_told(self, rng):
        traj = solved(rng, "modes")
        np.testing.assert_array_equal(traj.network().weights[0], traj.weights[0][-1])

    @pytest.mark.parametrize("end", [0.5, 5.0, 200.0, 1e6])
    @pytest.mark.parametrize("lam", [0.0, 2.0, -2.0])
    def test_starts_another_problem_exactly(self, rng, lam, end):
        start = lr.inits.lambda_balanced(rng, sizes=(5, 3, 4), lam=lam, scale=0.3)
        first, second = white_task(rng), white_task(rng)
        network = lr.solve(lr.Problem(first, start), [end]).network(-1)
        W1, W2 = network.weights
        D = W2.T @ W2 - W1 @ W1.T - lam * np.eye(3)
        assert np.linalg.norm(D) <= 1e-12 * (np.sum(W1**2) + np.sum(W2**2))
        problem = lr.Problem(second, network)
        assert problem.facts.method == "riccati"
        assert problem.facts.lam == (pytest.approx(lam, rel=1e-11),)
        want = integrate.function(network.weights, second.sigma_yx, None, TIMES)
        np.testing.assert_allclose(lr.solve(problem, TIMES).function, want, rtol=0, atol=1e-9)

    def test_a_sequence_of_tasks_is_the_sequence_of_flows(self, rng):
        network = lr.inits.zero_balanced(rng, sizes=(5, 6, 4), scale=0.3)
        layers = list(network.weights)
        for _ in range(3):
            task = white_task(rng)
            traj = lr.solve(lr.Problem(task, network), [0.0, 0.7, 1.5])
            assert traj.method == "riccati"
            flow = integrate.weights(layers, task.sigma_yx, None, traj.times)
            for W, want in zip(traj.weights, flow, strict=True):
                np.testing.assert_allclose(W, want, rtol=0, atol=1e-9)
            network, layers = traj.network(-1), [W[-1] for W in flow]

    @pytest.mark.parametrize("kind", KINDS)
    def test_going_on_with_the_same_task_is_going_through(self, rng, kind):
        traj = solved(rng, kind)
        problem = lr.Problem(traj.problem.task, traj.network(2))
        assert problem.facts.method == traj.method
        resumed = lr.solve(problem, [3.0])  # TIMES[2] + 3 = TIMES[3]
        np.testing.assert_allclose(resumed.function[0], traj.function[3], rtol=0, atol=1e-9)

    def test_of_a_float32_start_stays_float32(self, rng):
        """It is balanced no better than its start was, and is judged by the same tolerance."""
        start = lr.inits.zero_balanced(rng, sizes=(5, 6, 4), scale=0.3)
        single = lr.Network([W.astype(np.float32) for W in start.weights])
        traj = lr.solve(lr.Problem(white_task(rng), single), TIMES)
        for index in range(len(TIMES)):
            facts = lr.Problem(white_task(rng), traj.network(index)).facts
            assert (facts.precision, facts.method) == ("float32", "riccati")


class TestXarray:
    @pytest.fixture(autouse=True)
    def xarray(self):
        return pytest.importorskip("xarray")

    def test_names_its_dimensions(self, rng):
        traj = solved(rng, "riccati")
        data = traj.to_xarray()
        assert {name: array.dims for name, array in data.data_vars.items()} == {
            "loss": ("time",),
            "function": ("time", "output", "input"),
            "gram": ("time", "unit", "unit_"),
        }
        assert dict(data.sizes) == {"time": 4, "output": 4, "input": 5, "unit": 9, "unit_": 9}
        np.testing.assert_array_equal(data["time"], TIMES)
        for name in ("loss", "function", "gram"):
            np.testing.assert_array_equal(data[name], getattr(traj, name))
        assert data.attrs == {"method": "riccati", "citation": traj.citation, "status": "complete", "notes": ""}
        assert all(array.attrs["long_name"] for array in data.variables.values())

    @pytest.mark.parametrize("kind", ["shallow", "deep_modes"])
    def test_other_depths(self, rng, kind):
        assert set(solved(rng, kind).to_xarray().data_vars) == {"loss", "function"}

    def test_nonlinear_networks(self):
        start = lr.inits.gaussian(0, sizes=(8, 3, 8), scale=0.1, activation="tanh")
        parts = {"weights": [np.stack([W, W]) for W in start.weights], "loss": np.ones(2)}
        problem = lr.Problem(lr.tasks.semantic_hierarchy(), start)
        data = lr.Trajectory(problem, np.array([0.0, 1.0]), "descend", parts).to_xarray()
        assert set(data.data_vars) == {"loss"} and data.attrs["method"] == "descend"

    def test_without_xarray_says_what_to_install(self, rng, monkeypatch):
        traj = solved(rng, "shallow")
        monkeypatch.setitem(sys.modules, "xarray", None)
        with pytest.raises(ImportError, match=r"to_xarray needs xarray: pip install 'lazyrich\[sweeps\]'"):
            traj.to_xarray()


class TestNotes:
    def test_none_where_there_is_nothing_to_say(self, rng):
        assert solved(rng, "riccati").notes == ()

    def test_a_start_on_the_separatrix(self):
        task = lr.Task.from_correlations(np.diag([2.0, 1.0]))
        flipped = lr.Network([np.diag([0.3, 0.2]) @ [[0.6, 0.8], [0.8, -0.6]], np.diag([0.3, 0.2])])
        traj = lr.solve(lr.Problem(task, flipped), [0.0, 50.0])
        assert traj.problem.facts.determinant_obstruction
        assert len(traj.notes) == 1 and "on the separatrix and stays on it" in traj.notes[0]
        np.testing.assert_allclose(traj.function[1], np.diag([2.0, 0.0]), rtol=0, atol=1e-12)

    def test_a_start_in_single_precision(self, rng):
        start = [W.astype(np.float32) for W in lr.inits.zero_balanced(rng, sizes=(5, 6, 4), scale=0.3).weights]
        traj = lr.solve(lr.Problem(white_task(rng), lr.Network(start)), TIMES)
        assert any("float32" in note for note in traj.notes)


@pytest.mark.parametrize("kind", KINDS)
def test_repr(rng, kind):
    assert repr(solved(rng, kind)) == f"<Trajectory: {kind.split(',')[0]}, 4 times to 4, complete>"


CITED = {
    "riccati": {"fukumizu1998", "braun2022", "domine2025"},
    "modes": {"saxe2014", "domine2025"},
    "shallow": {"saxe2019"},
    "deep_modes": {"saxe2014"},
}


@pytest.mark.parametrize("kind", ["riccati", "modes", "shallow", "deep_modes"])
def test_citations_are_those_of_the_theorem(rng, kind):
    entries = solved(rng, kind).citation.split("\n\n")
    assert {re.match(r"@\w+\{(\w+),", entry).group(1) for entry in entries} == CITED[kind]


@pytest.mark.parametrize("key", BIBTEX)
def test_citations_are_bibtex(key):
    entry = BIBTEX[key]
    assert re.fullmatch(rf"@(inproceedings|article)\{{{key},\n(  .*\n)+\}}", entry)
    assert entry.count("{") == entry.count("}")
    for field in ("author", "title", "year"):
        assert len(re.findall(rf"^  {field} *= \{{.", entry, flags=re.MULTILINE)) == 1
    assert f"year    = {{{key[-4:]}}}" in re.sub(r" +=", "    =", entry)


def test_what_computes_is_not_pickled_and_arrays_are():
    problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    traj = lr.solve(problem, [0.0, np.inf, np.inf])
    with pytest.raises(TypeError, match=r"cannot be pickled: keep traj\.to_xarray\(\) or traj\.weights"):
        pickle.dumps(traj)
    assert copy.deepcopy(traj) is traj
    run = lr.Trajectory.from_weights(problem, [0.0], [W[None] for W in problem.network.weights])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(run)).loss, run.loss)
