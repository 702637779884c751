"""Gradient descent: against plain NumPy loops, what it keeps, how a diverging run ends and what is refused."""

from __future__ import annotations

import importlib
import logging
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.samples import kind_of

import lazyrich as lr
from lazyrich.methods.descend import descend

pytestmark = pytest.mark.timeout(120)  # JAX may deadlock, and must not take the suite with it

SIZES = {1: (4, 3), 2: (4, 5, 3), 3: (3, 5, 4, 4), 4: (3, 4, 2, 5, 4)}
NONLINEAR = ["relu", "tanh", 0.1]


def make(rng, sizes, activation="linear", reduction="mean", scale=0.5, **options):
    X = rng.normal(size=(20, sizes[0])) @ (np.eye(sizes[0]) + 0.4 * rng.normal(size=(sizes[0], sizes[0])))
    task = lr.Task.from_data(X, rng.normal(size=(20, sizes[-1])), reduction=reduction)
    weights = [scale * rng.normal(size=shape) for shape in zip(sizes[1:], sizes[:-1], strict=True)]
    return lr.Problem(task, lr.Network(weights, activation), **options)


def numpy_descent(problem, rate, steps):
    """The oracle: backpropagation through the samples, written out; weights and loss after each number of steps."""
    X, Y, kind = problem.task.inputs.T, problem.task.targets.T, kind_of(problem.network)
    weight = 1 / X.shape[1] if problem.task.reduction == "mean" else 1.0
    bend, slope = {
        "linear": (lambda z: z, lambda z: np.ones_like(z)),
        "relu": (lambda z: np.maximum(z, 0), lambda z: (z > 0) * 1.0),
        "tanh": (np.tanh, lambda z: 1 / np.cosh(z) ** 2),
    }.get(kind, (lambda z: np.maximum(z, kind * z), lambda z: (z > 0) + (z <= 0) * kind))
    W, states, losses = [V.copy() for V in problem.network.weights], [], []
    for _ in range(steps + 1):
        z, out = [X], [X]
        for i, V in enumerate(W):
            z.append(V @ out[-1])
            out.append(bend(z[-1]) if i < len(W) - 1 else z[-1])
        states.append([V.copy() for V in W])
        losses.append(weight * np.sum((Y - out[-1]) ** 2) / 2)
        delta = weight * (out[-1] - Y)
        for i in reversed(range(len(W))):
            gradient = delta @ out[i].T + problem.weight_decay * W[i]
            delta = (W[i].T @ delta) * slope(z[i]) if i else None
            W[i] = W[i] - rate * problem.rates[i] * gradient
    return [np.stack(layer) for layer in zip(*states, strict=True)], np.array(losses)


def worst(got, want):
    return max(np.abs(A - B).max() / np.abs(B).max() for A, B in zip(got, want, strict=True))


class TestSteps:
    @pytest.mark.parametrize("depth", SIZES)
    def test_linear_networks_of_any_depth(self, rng, depth):
        problem = make(rng, SIZES[depth])
        traj, (weights, loss) = descend(problem, 0.05, 300), numpy_descent(problem, 0.05, 300)
        assert worst(traj.weights, weights) < 1e-12
        np.testing.assert_allclose(traj.loss, loss, rtol=1e-12)
        np.testing.assert_allclose(traj.times, 0.05 * np.arange(301), rtol=1e-15)

    @pytest.mark.parametrize("depth", SIZES)
    def test_layer_rates_and_weight_decay(self, rng, depth):
        problem = make(rng, SIZES[depth], rates=rng.uniform(0.3, 2, size=depth), weight_decay=0.1)
        assert worst(descend(problem, 0.05, 300).weights, numpy_descent(problem, 0.05, 300)[0]) < 1e-12

    @pytest.mark.parametrize("activation", NONLINEAR)
    @pytest.mark.parametrize("depth, reduction, rate", [(2, "mean", 0.05), (3, "sum", 0.002)])
    def test_nonlinear_networks(self, rng, activation, depth, reduction, rate):
        problem = make(
            rng, SIZES[depth], activation, reduction, rates=rng.uniform(0.3, 2, size=depth), weight_decay=0.1
        )
        traj, (weights, loss) = descend(problem, rate, 300), numpy_descent(problem, rate, 300)
        assert worst(traj.weights, weights) < 1e-12
        np.testing.assert_allclose(traj.loss, loss, rtol=1e-12)

    def test_correlations_are_enough_for_linear_networks(self, rng):
        problem = make(rng, SIZES[2])
        task = problem.task
        bare = lr.Task.from_correlations(task.sigma_yx, task.sigma_xx, task.sigma_yy)
        assert (
            worst(descend(lr.Problem(bare, problem.network), 0.05, 300).weights, descend(problem, 0.05, 300).weights)
            == 0
        )

    def test_white_inputs(self):
        problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.gaussian(0, sizes=(8, 14, 8), scale=0.3))
        assert worst(descend(problem, 0.05, 300).weights, numpy_descent(problem, 0.05, 300)[0]) < 1e-12

    def test_the_flow_is_met_to_first_order(self):
        """Half the rate, half the distance from the exact flow; the certificate sees it too."""
        problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.3))
        runs = [descend(problem, rate, int(20 / rate), at=np.arange(21) * int(1 / rate)) for rate in (0.1, 0.05, 0.025)]
        exact = lr.solve(problem, np.arange(21.0))
        errors = [np.abs(run.function - exact.function).max() for run in runs]
        figures = [run.certificate() for run in runs]
        for far, near in ((0, 1), (1, 2)):
            assert 1.8 < errors[far] / errors[near] < 2.2
            assert 1.8 < figures[far].residual / figures[near].residual < 2.2
            assert 1.8 < figures[far].drift / figures[near].drift < 2.2
        assert figures[0].initial_error == 0 and not figures[2].exact


class TestWhatIsKept:
    def test_which_steps(self, rng):
        problem = make(rng, SIZES[2])
        few, many = descend(problem, 0.01, 7), descend(problem, 0.01, 1234)
        np.testing.assert_allclose(few.times, 0.01 * np.arange(8))
        steps = np.round(many.times / 0.01).astype(int)
        assert len(steps) == 501 and steps[0] == 0 and steps[-1] == 1234 and set(np.diff(steps)) == {2, 3}
        chosen = descend(problem, 0.01, 1234, at=[0, 0, 3, steps[77], 1000, 1000])
        np.testing.assert_allclose(chosen.times, 0.01 * np.array([0, 0, 3, steps[77], 1000, 1000]))
        assert (chosen.weights[0][3] == many.weights[0][77]).all() and (
            chosen.weights[1][4] == chosen.weights[1][5]
        ).all()
        assert (descend(problem, 0.01, 1234, at=1234).weights[0][0] == many.weights[0][-1]).all()

    def test_long_runs_go_call_by_call(self, rng, monkeypatch):
        """However the steps are cut into calls of the compiled loop, they are the same."""
        problem, at = make(rng, SIZES[2]), [0, 1, 5, 100, 101, 900]
        whole = descend(problem, 0.01, 900, at=at)
        monkeypatch.setattr(importlib.import_module("lazyrich._engines"), "_CALL_COST", (1.0, 1.0))  # 32 steps a call
        cut = descend(problem, 0.01, 900, at=at)
        assert all((A == B).all() for A, B in zip(whole.weights, cut.weights, strict=True))
        assert (whole.loss == cut.loss).all() and (whole.times == cut.times).all()

    def test_only_what_is_asked_for_and_the_loss(self, rng):
        problem = make(rng, SIZES[2])
        derived, traj = descend(problem, 0.05, 50), descend(problem, 0.05, 50, record=("gram", "function"))
        np.testing.assert_allclose(traj.gram, derived.gram, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(traj.function, derived.function, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(traj.loss, derived.loss, rtol=1e-12)
        with pytest.raises(AttributeError, match=r"weights was not recorded \(only function, gram, loss\)"):
            _ = traj.weights
        curve = descend(lr.Problem(problem.task, lr.Network(problem.network.weights, "tanh")), 0.05, 50, record="loss")
        assert curve.knows("loss") and not curve.knows("weights")

    @pytest.mark.parametrize("activation", ["linear", "tanh"])
    def test_float64_arrays_of_numpy_with_jax_left_alone(self, rng, activation):
        problem = make(rng, SIZES[2], activation)
        assert not jax.config.jax_enable_x64
        traj = descend(problem, 0.05, 20)
        assert not jax.config.jax_enable_x64 and jnp.ones(1).dtype == np.float32
        assert (
            {type(W) for W in traj.weights} == {np.ndarray} and traj.method == "descend" and traj.status == "complete"
        )
        assert {W.dtype for W in traj.weights} == {traj.loss.dtype} == {traj.times.dtype} == {np.dtype(np.float64)}
        jax.config.update("jax_enable_x64", True)
        try:
            again = descend(problem, 0.05, 20)
        finally:
            jax.config.update("jax_enable_x64", False)
        assert all((A == B).all() for A, B in zip(traj.weights, again.weights, strict=True))

    def test_compiles_once_for_all_problems_of_a_shape(self, rng, caplog):
        descend(make(rng, SIZES[2]), 0.05, 20)
        with caplog.at_level(logging.WARNING), jax.log_compiles():
            descend(make(rng, SIZES[2], rates=[1.0, 2.0], weight_decay=0.1), 0.02, 777, at=[3, 700])
            assert not [message for message in caplog.messages if "jit(run)" in message]
            descend(make(rng, (4, 6, 3)), 0.05, 20)
            assert [message for message in caplog.messages if "jit(run)" in message]  # the log does tell

    def test_progress(self, rng, monkeypatch, capsys):
        problem = make(rng, SIZES[2])
        monkeypatch.setenv("LAZYRICH_PROGRESS", "1")
        descend(problem, 0.05, 300)
        assert capsys.readouterr() == ("", "")
        monkeypatch.setattr(importlib.import_module("lazyrich._progress"), "_DELAY", 0)
        descend(problem, 0.05, 300)
        out, err = capsys.readouterr()
        assert not out and "descend: " in err and "%|" in err


@pytest.mark.filterwarnings("error")
class TestDivergence:
    @pytest.mark.parametrize("activation", ["linear", 0.1])
    def test_ends_at_the_step_where_the_loss_overflows(self, rng, activation):
        problem = make(rng, SIZES[3], activation, scale=2.0)
        with np.errstate(over="ignore", invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _, loss = numpy_descent(problem, 0.5, 60)
        first = int(np.argmax(~np.isfinite(loss)))
        assert 2 < first < 60
        traj = descend(problem, 0.5, 60)
        assert len(traj.times) == first and np.isfinite(traj.loss).all()
        assert all(np.isfinite(W).all() for W in traj.weights)
        np.testing.assert_allclose(traj.loss[:3], loss[:3], rtol=1e-9)
        assert traj.status == (
            f"diverged at step {first} (t = {0.5 * first:.6g}) with rate = 0.5, where the loss is not finite: "
            "try a smaller rate"
        )
        seldom = descend(problem, 0.5, 60, at=[0, 1, 50, 60])
        assert seldom.times.tolist() == [0.0, 0.5] and seldom.status == traj.status
        with pytest.raises(RuntimeError, match=rf"descend reached none of the steps to record: .* at step {first} "):
            descend(problem, 0.5, 60, at=[50])

    def test_at_the_last_step(self, rng):
        """Nothing is computed after the last step, and its loss is looked at all the same."""
        problem = make(rng, SIZES[3], scale=2.0)
        first = len(descend(problem, 0.5, 60).times)
        assert descend(problem, 0.5, first - 1).status == "complete"
        cut = descend(problem, 0.5, first)
        assert len(cut.times) == first and f"at step {first} " in cut.status

    def test_a_start_that_overflows(self):
        problem = lr.Problem(lr.Task.from_correlations(np.eye(2)), lr.Network([1e49 * np.eye(2)] * 4))
        with pytest.raises(RuntimeError, match=r"descend reached none of the steps to record: diverged at step 0 "):
            descend(problem, 0.1, 10)


MISTAKES = {
    r"rate must be above 0, and it is 0": dict(rate=0),
    r"rate must be above 0, and it is -0.1": dict(rate=-0.1),
    r"rate must be a number, and it is 'fast'": dict(rate="fast"),
    r"rate must be finite": dict(rate=np.inf),
    r"steps must be at least 1, and it is 0": dict(steps=0),
    r"steps must be a whole number, and it is 10.5": dict(steps=10.5),
    r"record must be one of .*, and it is 'grams' \(did you mean 'gram'\?\)": dict(record="grams"),
    r"at must lie between 0 and steps \(20\), and it goes from 0 to 21": dict(at=[0, 21]),
    r"at must lie between 0 and steps \(20\), and it goes from -1 to 3": dict(at=[-1, 3]),
    r"at must be sorted, and it is not: try np.sort\(at\)": dict(at=[3, 1]),
    r"at must list steps, whole numbers from 0 to 20, and it is \[0, 1.5\]": dict(at=[0, 1.5]),
    r"at must list steps, whole numbers from 0 to 20, and it is \[\[0, 1\]\]": dict(at=[[0, 1]]),
    r"at is empty": dict(at=[]),
}


@pytest.mark.usefixtures("unchecked_shapes")
class TestRefuses:
    @pytest.mark.parametrize("sentence", MISTAKES)
    def test_bad_arguments_before_anything_runs(self, rng, monkeypatch, sentence):
        monkeypatch.setattr(importlib.import_module("lazyrich.batch.api"), "descend_stack", None)
        with pytest.raises(lr.InvalidInput, match=f"^{sentence}"):
            descend(make(rng, SIZES[2]), **{"rate": 0.1, "steps": 20, **MISTAKES[sentence]})

    def test_something_that_is_no_problem(self):
        with pytest.raises(lr.InvalidInput, match=r"^problem must be a lazyrich Problem, and it is a str: "):
            descend("hierarchy", 0.1, 20)

    @pytest.mark.parametrize("name", ["function", "gram"])
    @pytest.mark.parametrize("activation", NONLINEAR)
    def test_linear_records_of_nonlinear_networks(self, rng, activation, name):
        sentence = (
            rf"^record='{name}' belongs to linear networks, and this one is .*{activation}: try 'weights' or 'loss'"
        )
        with pytest.raises(lr.InvalidInput, match=sentence):
            descend(make(rng, SIZES[2], activation), 0.1, 20, record=("loss", name))

    @pytest.mark.parametrize("activation", NONLINEAR)
    def test_nonlinear_networks_without_samples(self, activation):
        problem = lr.Problem(lr.Task.from_correlations(np.eye(2)), lr.Network([np.eye(2)] * 2, activation))
        sentence = (
            rf"^descend needs the samples of the task where the network is .*{activation}, .*: try Task.from_data\("
        )
        with pytest.raises(lr.InvalidInput, match=sentence):
            descend(problem, 0.1, 20)

    def test_a_missing_engine(self, rng, monkeypatch):
        monkeypatch.setitem(sys.modules, "jax", None)
        with pytest.raises(ImportError, match=r"^descend needs jax: pip install 'lazyrich\[engines\]'\.$"):
            descend(make(rng, SIZES[2]), 0.1, 20)
