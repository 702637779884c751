"""What `lr.flow` and `lr.batch.flow` promise of their numbers: against DOP853 at rtol 1e-12, at any tolerance.

Linear networks: the loss is within 10 rtol of the largest loss. Others, by a method of second order: within 10 rtol^⅔.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import integrate, kinked
from oracles.samples import kind_of, velocity
from scipy.integrate import solve_ivp

import lazyrich as lr
from lazyrich import _engines
from lazyrich.batch import alarm, linear, run
from lazyrich.batch import api as many
from lazyrich.methods import _gradients

pytestmark = pytest.mark.timeout(300)  # JAX may deadlock, and must not take the suite with it

SIZES = {1: (4, 3), 2: (4, 5, 3), 3: (3, 5, 4, 4), 4: (3, 4, 2, 5, 4)}
TIMES = np.array([0.0, 0.0, 0.3, 1.0, 1.0, 3.0])
ENOUGH = 10.0


def problem(seed, activation="linear", sizes=SIZES[2], **options):
    """Correlated inputs, and a start of any scale."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(8, sizes[0])) @ (np.eye(sizes[0]) + 0.4 * rng.normal(size=(sizes[0], sizes[0])))
    scale = 10 ** rng.uniform(-2, 0)
    weights = [scale * rng.normal(size=shape) for shape in zip(sizes[1:], sizes[:-1], strict=True)]
    task = lr.Task.from_data(X / np.sqrt(np.mean(X**2)), rng.normal(size=(8, sizes[-1])))
    return lr.Problem(task, lr.Network(weights, activation), **options)


def truth(given, times=TIMES):
    """Weights at each time, by code that the library does not share."""
    task, network = given.task, given.network
    if kind_of(network) == "linear":
        options = {"rates": given.rates, "decay": given.weight_decay}
        return integrate.weights(network.weights, task.sigma_yx, task.sigma_xx, times, **options)
    if kind_of(network) != "tanh":
        slope = 0.0 if kind_of(network) == "relu" else kind_of(network)
        return kinked.weights(network.weights, task.inputs, task.targets, slope, times)
    start = np.concatenate([W.ravel() for W in network.weights])
    distinct, back = np.unique(times, return_inverse=True)
    run = solve_ivp(velocity(given), (0, times[-1]), start, "DOP853", t_eval=distinct, rtol=1e-12, atol=1e-15)
    layers = np.split(run.y.T[back], np.cumsum([W.size for W in network.weights])[:-1], axis=1)
    return [flat.reshape(len(times), *W.shape) for flat, W in zip(layers, network.weights, strict=True)]


def losses(given, weights):
    """½ mean ‖y − f‖², by a forward pass."""
    slope = {"linear": 1.0, "relu": 0.0}.get(kind_of(given.network), kind_of(given.network))
    signal = given.task.inputs.T
    for i, W in enumerate(weights):
        signal = W @ signal
        if i < len(weights) - 1:
            signal = np.tanh(signal) if slope == "tanh" else np.where(signal > 0, signal, slope * signal)
    return ((given.task.targets.T - signal) ** 2).sum(axis=(1, 2)) / 2 / len(given.task.inputs)


def off(traj, want):
    """Of the loss, relative to its largest; a run that is not complete has no error here."""
    reference = losses(traj.problem, want)
    assert traj.status == "complete"
    assert len(traj.times) == len(reference)
    return np.abs(losses(traj.problem, traj.weights) - reference).max() / reference.max()


def apart(traj, want):
    """Of the weights, relative to the largest of each layer."""
    return max(np.abs(A - B).max() / np.abs(B).max() for A, B in zip(traj.weights, want, strict=True))


def cases(few):
    """Linear networks of one to four layers, tanh, and those with kinks that the flow does not slide along."""
    chosen = [problem(100 * depth + seed, sizes=SIZES[depth]) for depth in SIZES for seed in range(3 * few)]
    chosen += [problem(seed, "tanh", (3, 4, 2)) for seed in range(4 * few)]
    found = [(p, truth(p)) for p in chosen]
    for activation in ("relu", 0.3):
        seeds, count = itertools.count(), 0
        while count < 2 * few:
            p = problem(next(seeds), activation, (3, 4, 2))
            with contextlib.suppress(kinked.Sliding):
                found.append((p, truth(p)))
                count += 1
    return found


@pytest.mark.compiles
@pytest.mark.parametrize("few", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_one_and_many_against_scipy(few, record_property):
    """Up to a hundred problems, shuffled into one list, at the defaults and with repeated times."""
    found = cases(few)
    together = [found[i] for i in np.random.default_rng(0).permutation(len(found))]
    errors = defaultdict(list)
    for (p, want), traj in zip(together, lr.batch.flow([p for p, _ in together], TIMES), strict=True):
        for name, one in (("flow", lr.flow(p, TIMES)), ("batch.flow", traj)):
            assert one.times.tolist() == TIMES.tolist() and one.problem is p
            errors[kind_of(p.network), name].append((off(one, want), apart(one, want)))
    assert len(found) == 20 * few
    for (kind, name), of_all in errors.items():
        loss, weights = np.max(of_all, axis=0)
        assert loss < (1e-9 if kind == "linear" else ENOUGH * 1e-3 ** (2 / 3))
        assert weights < (2e-8 if kind == "linear" else ENOUGH * 1e-3 ** (2 / 3))
        figure = f"{len(of_all)} problems, {kind}: loss {loss:.1e}, weights {weights:.1e}"
        record_property(f"figure {kind} {name}", f"{name} against DOP853, {figure}")


class TestAnyTolerance:
    @pytest.mark.compiles
    @given(st.integers(0, 10**6), st.sampled_from(sorted(SIZES)), st.floats(-11, -2), st.sampled_from([0.0, 0.1]))
    @settings(max_examples=60)
    def test_of_linear_networks(self, seed, depth, digits, decay):
        rates = np.random.default_rng(seed).uniform(0.3, 3, size=depth)
        p, rtol = problem(seed, sizes=SIZES[depth], rates=rates, weight_decay=decay), 10**digits
        (traj,) = lr.batch.flow([p], TIMES, rtol=rtol)
        if traj.status == "complete":
            assert off(traj, truth(p)) < ENOUGH * rtol

    @pytest.mark.compiles
    @given(st.integers(0, 10**6), st.floats(-7, -2))
    @settings(max_examples=25)
    def test_of_others(self, seed, digits):
        p, rtol = problem(seed, "tanh", (3, 4, 2)), 10**digits
        (traj,) = lr.batch.flow([p], TIMES, rtol=rtol)
        if traj.status == "complete":
            assert off(traj, truth(p)) < ENOUGH * rtol ** (2 / 3)

    def test_above_which_none_is_taken(self):
        """The loss of this one rises to 198 times what it was, by steps that the method thinks are within 0.5."""
        rng = np.random.default_rng(6)
        X = rng.normal(size=(30, 3)) @ rng.normal(size=(3, 3))
        for call in (lambda p, **o: lr.flow(p, [1.0], **o), lambda p, **o: lr.batch.flow([p], [1.0], **o)):
            with pytest.raises(lr.InvalidInput, match=r"^rtol must lie between 1e-14 and 0\.01, and it is 0\.5\.$"):
                call(lr.Problem(lr.Task.from_data(X, X), lr.inits.gaussian(0, sizes=(3, 5, 3), scale=0.5)), rtol=0.5)


class TestAlarm:
    @pytest.fixture
    def any_rtol(self, monkeypatch):
        monkeypatch.setattr(many, "_COARSEST", 1.0)

    @pytest.mark.compiles
    def test_what_tolerances_let_pass(self, any_rtol):
        """Without the bound on rtol: no run that is complete, and no record of any, stands far above an earlier one."""
        ended = 0
        for seed in range(40):
            p = problem(seed, sizes=SIZES[1 + seed % 4])
            (traj,) = lr.batch.flow([p], np.linspace(0, 20, 41), rtol=0.5)
            ended += traj.status.startswith("ended before t = ")
            if len(traj.times):
                loss, norms = losses(p, traj.weights), [np.sum(W**2) for W in p.network.weights]
                could_be = np.prod(norms) * np.mean(np.sum(p.task.inputs**2, axis=1)) / 2
                assert (loss - np.minimum.accumulate(loss)).max() <= 0.5 * (loss[0] + could_be)
        assert ended >= 3

    @pytest.fixture
    def uphill(self, monkeypatch):
        """Every gradient turned round, in both engines, which then keep nothing compiled."""
        of_linear, of_others = _engines.linear_gradients, _gradients.gradients_and_loss

        def wrong_linear(*state):
            slopes, *rest = of_linear(*state)
            return [-S for S in slopes], *rest

        def wrong_others(*kind):
            right = of_others(*kind)
            return lambda *state: ([-S for S in right(*state)[0]], right(*state)[1])

        monkeypatch.setattr(_engines, "linear_gradients", wrong_linear)
        monkeypatch.setattr(_gradients, "gradients_and_loss", wrong_others)
        monkeypatch.setattr(linear, "_compiled", linear._compiled.__wrapped__)
        monkeypatch.setattr(run, "_flow", run._flow.__wrapped__)

    @pytest.mark.compiles
    @pytest.mark.parametrize("activation, rtol", [("linear", "1e-09"), ("tanh", "0.001")])
    @pytest.mark.parametrize("decay, what", [(0.0, "the loss rises"), (0.1, "loss and decay term rise")])
    def test_a_flow_that_goes_uphill(self, uphill, activation, rtol, decay, what):
        """The start is all that is kept."""
        start = lr.Network(lr.inits.gaussian(0, sizes=(3, 4, 2), scale=0.5).weights, activation)
        p = lr.Problem(problem(3, sizes=(3, 4, 2)).task, start, weight_decay=decay)
        (traj,) = lr.batch.flow([p], [0.0, 0.1, 0.2], record="loss")
        assert traj.times.tolist() == [0.0] and len(traj.loss) == 1
        assert traj.status == f"ended before t = 0.1, where {what} as in no gradient flow: try an rtol below {rtol}"
        with pytest.raises(RuntimeError, match=r"^flow reached none of the times: ended before t = 0\.1, where "):
            lr.flow(p, [0.1])

    def test_decay_may_raise_the_loss(self):
        """From a minimum, weight decay takes the weights back: the loss rises, and what the flow descends does not."""
        start = lr.Network([np.eye(2), np.eye(2)])
        p = lr.Problem(lr.Task.from_correlations(np.eye(2)), start, weight_decay=0.3)
        traj = lr.flow(p, [0.0, 1.0, 5.0])
        assert traj.status == "complete" and (np.diff(traj.loss) > 0.01).all()

    def test_the_first_record_above_an_earlier_one(self):
        p = lr.Problem(
            lr.Task.from_correlations([[1.0]], sigma_yy=[[1.0]]), lr.Network([[[0.0]]])
        )  # loss ½ at the start
        for values, count in (([0.5, 0.4, 0.3], 3), ([0.6], 0), ([0.3, 0.3005, 0.29], 3), ([0.3, 0.31, 0.2], 1)):
            assert alarm.falling(p, np.array(values), rtol=2e-3) == count
        assert alarm.falling(p, np.array([0.4, np.nan, 0.3]), rtol=2e-3) == 1
        assert alarm.falling(p, np.empty(0), rtol=2e-3) == 0


@pytest.mark.parametrize("name", ["flow", "descend"])
def test_one_signature(name):
    """The same arguments with the same defaults, after the problem or problems."""
    (first, *one), (also, *of_many) = (
        inspect.signature(getattr(place, name)).parameters.values() for place in (lr, lr.batch)
    )
    assert (first.name, also.name) == ("problem", "problems")
    assert [(p.name, p.kind, p.default) for p in one] == [(p.name, p.kind, p.default) for p in of_many]


class TestRecords:
    @pytest.mark.compiles
    def test_of_a_flow(self):
        problems = [problem(seed, sizes=SIZES[2]) for seed in range(3)]
        for p, traj in zip(problems, lr.batch.flow(problems, TIMES, record=("loss", "gram")), strict=True):
            alone = lr.flow(p, TIMES, record=("loss", "gram"))
            np.testing.assert_array_equal(traj.gram, alone.gram)
            np.testing.assert_array_equal(traj.loss, alone.loss)
            assert not traj.knows("weights")

    def test_of_a_descent(self):
        problems = [problem(seed, sizes=SIZES[2]) for seed in range(3)] + [problem(9, sizes=SIZES[2])]
        for p, traj in zip(problems, lr.batch.descend(problems, 0.05, 40, record="function"), strict=True):
            alone = lr.descend(p, 0.05, 40, record="function")
            np.testing.assert_allclose(traj.function, alone.function, rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(traj.loss, alone.loss, rtol=1e-12)
            np.testing.assert_allclose(traj.times, alone.times, rtol=1e-15)
            assert not traj.knows("weights")

    def test_repeated_times_of_some_networks_only(self):
        problems = [problem(seed, "tanh", (3, 4, 2)) for seed in range(3)] + [problem(7), problem(8)]
        rows = np.array([[0, 0, 1, 2], [0, 1, 1, 1], [1, 1, 2, 2], [0, 0, 2, 2], [1, 2, 2, 3]], float)
        for p, row, traj in zip(problems, rows, lr.batch.flow(problems, rows, rtol=1e-6), strict=True):
            assert traj.times.tolist() == row.tolist() and traj.status == "complete"
            assert apart(traj, truth(p, row)) < 1e-3
            for i in np.flatnonzero(np.diff(row) == 0):
                assert all((W[i] == W[i + 1]).all() for W in traj.weights)

    @pytest.mark.compiles
    def test_what_stops_some_stops_no_other(self):
        """A start that overflows has nothing to hand out, in a list or alone; the others are as they are alone."""
        fine = problem(1, sizes=SIZES[4])
        wild = lr.Problem(fine.task, lr.Network([1e49 * np.ones_like(W) for W in fine.network.weights]))
        for record in ("weights", "loss"):
            first, none, last = lr.batch.flow([fine, wild, fine], [1.0, 2.0], record=(record, "function"))
            assert first.status == last.status == "complete" and none.status.startswith("stalled at t = 0 of 2 ")
            assert len(none.times) == 0 and len(none.weights[0] if record == "weights" else none.loss) == 0
            np.testing.assert_array_equal(first.loss, lr.flow(fine, [1.0, 2.0], record=(record, "function")).loss)
