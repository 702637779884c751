"""Many networks at once: gradients against complex steps, descent against runs of one, stacks, and what is refused."""

from __future__ import annotations

import importlib
import itertools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.samples import kind_of

import lazyrich as lr
from lazyrich.batch import run as engine
from lazyrich.batch import stack as stacking
from lazyrich.batch.api import in_precision
from lazyrich.methods import _gradients

pytestmark = pytest.mark.timeout(120)  # JAX may deadlock, and must not take the suite with it

KINDS = [
    ("linear", (3, 4, 2)),
    ("linear", (2, 4, 3)),
    ("linear", (3, 4, 3, 4, 2)),
    ("relu", (3, 4, 1)),
    (0.3, (3, 4, 1)),
    ("tanh", (3, 4, 1)),
    ("relu", (3, 4, 2)),
    (0.3, (3, 4, 3, 2)),
    ("relu", (3, 4, 3, 4, 2)),
    ("tanh", (3, 4, 3, 2)),
]
MIXED = [KINDS[i] for i in (0, 3, 6, 9)]  # linear, one output, many outputs, deep
AT = [0, 3, 60, 151]


def task(rng, d_in, d_out, samples=7, reduction="mean", white=False):
    X = rng.normal(size=(samples, d_in))
    X = np.tile(np.eye(d_in), (3, 1)) if white else X
    return lr.Task.from_data(X, rng.normal(size=(len(X), d_out)), reduction=reduction)


def network(rng, activation, sizes, scale=0.7):
    return lr.Network([scale * rng.normal(size=shape) for shape in zip(sizes[1:], sizes[:-1], strict=True)], activation)


def many(rng, kinds=MIXED):
    """Problems of several shapes, some on a task that others share, in any order."""
    problems = []
    for activation, sizes in kinds:
        own, shared = (task(rng, sizes[0], sizes[-1]) for _ in range(2))
        for given in (own, shared, shared, shared):
            rates, decay = rng.uniform(0.3, 2, size=len(sizes) - 1), rng.choice([0.0, 0.1])
            problems.append(lr.Problem(given, network(rng, activation, sizes), rates=rates, weight_decay=decay))
    return [problems[i] for i in rng.permutation(len(problems))]


def loss(problem, weights):
    """The oracle: ½ Σ (y − f(x))² over the samples, which also takes complex weights."""
    X, Y, kind = problem.task.inputs.T, problem.task.targets.T, kind_of(problem.network)
    slope = {"linear": 1.0, "relu": 0.0}.get(kind, kind)
    for W in weights[:-1]:
        z = W @ X
        X = np.tanh(z) if kind == "tanh" else np.where(z.real > 0, z, slope * z) if slope else z * (z.real > 0)
    total = np.sum((Y - weights[-1] @ X) ** 2) / 2
    return total / Y.shape[1] if problem.task.reduction == "mean" else total


def gradient(problem, weights):
    """∂loss/∂W = Im loss(W + iε)/ε, entry by entry, to rounding."""
    found = [np.empty(W.shape) for W in weights]
    for layer, W in enumerate(weights):
        for entry in np.ndindex(W.shape):
            pushed = [V.astype(complex) for V in weights]
            pushed[layer][entry] += 1e-30j
            found[layer][entry] = loss(problem, pushed).imag / 1e-30
    return found


def stepped(problem, rate, steps):
    """Gradient descent by these gradients."""
    weights = list(problem.network.weights)
    for _ in range(steps):
        parts = zip(weights, gradient(problem, weights), problem.rates, strict=True)
        weights = [W - rate * eta * (slope + problem.weight_decay * W) for W, slope, eta in parts]
    return weights


def worst(got, want):
    """Largest error, relative to the largest entry of each layer."""
    return max(np.abs(A - B).max() / np.abs(B).max() for A, B in zip(got, want, strict=True))


def same(got, want):
    """To the last bit, and as long."""
    return got.status == want.status and all(
        np.array_equal(A, B) for A, B in zip(got.weights, want.weights, strict=True)
    )


class TestGradients:
    @pytest.mark.parametrize("reduction", ["mean", "sum"])
    @pytest.mark.parametrize("activation, sizes", KINDS)
    def test_of_every_kind(self, rng, activation, sizes, reduction):
        problem = lr.Problem(task(rng, sizes[0], sizes[-1], reduction=reduction), network(rng, activation, sizes))
        weights = list(problem.network.weights)
        with in_precision("float64"):
            sigma, data = problem.network.activation, _gradients.data_of(problem)
            value = _gradients.gradients_and_loss(jax, sigma, sizes)
            slopes, now = value([jnp.asarray(W) for W in weights], jax.tree_util.tree_map(jnp.asarray, data))
            whole = _gradients.loss(jax, sigma)(weights, data)
        assert worst([-np.asarray(S) for S in slopes], gradient(problem, weights)) < 1e-13
        nothing = np.trace(problem.task.sigma_yy) / 2 if activation == "linear" else 0.0
        assert float(now) + nothing == pytest.approx(loss(problem, weights), rel=1e-13)
        assert float(whole) == pytest.approx(loss(problem, weights), rel=1e-13)

    @pytest.mark.parametrize("d_out", [1, 2])
    @pytest.mark.parametrize("activation, slope", [("relu", 0.0), (0.3, 0.3)])
    def test_on_a_kink_the_lower_slope_counts(self, rng, activation, slope, d_out):
        """w = 0 puts every sample on the kink: −∂loss/∂w = γ Σ aᵀ(y − f) x, by either formula."""
        given = task(rng, 3, d_out)
        W, a = rng.normal(size=(4, 3)), rng.normal(size=(d_out, 4))
        W[1] = 0
        problem = lr.Problem(given, lr.Network([W, a], activation))
        z = W @ given.inputs.T
        error = (given.targets.T - a @ np.where(z > 0, z, slope * z)) / len(given.inputs)
        with in_precision("float64"):
            (first, _), _ = _gradients.gradients_and_loss(jax, lr.Activation.of(activation), (3, 4, d_out))(
                [W, a], _gradients.data_of(problem)
            )
        np.testing.assert_allclose(first[1], slope * a[:, 1] @ error @ given.inputs, rtol=1e-13, atol=1e-15)

    @pytest.mark.compiles
    def test_one_step_of_descent_takes_rates_and_decay(self, rng):
        problems = many(rng, [*MIXED, ("linear", (3, 4, 2))])
        problems.append(lr.Problem(task(rng, 3, 2, white=True), network(rng, "linear", (3, 4, 2))))
        problems.append(lr.Problem(task(rng, 3, 2, reduction="sum"), network(rng, "relu", (3, 4, 2))))
        for problem, traj in zip(problems, lr.batch.descend(problems, 0.25, 1, at=[1]), strict=True):
            assert worst([W[0] for W in traj.weights], stepped(problem, 0.25, 1)) < 1e-14


class TestDescend:
    def test_each_network_as_if_alone(self, rng):
        problems = many(rng)
        for problem, traj in zip(problems, lr.batch.descend(problems, 0.02, AT[-1], at=AT), strict=True):
            alone = lr.descend(problem, 0.02, AT[-1], at=AT)
            assert traj.problem is problem and traj.status == "complete" and traj.method == "descend"
            assert worst(traj.weights, alone.weights) < 1e-12
            np.testing.assert_allclose(traj.times, alone.times, rtol=1e-15)
            np.testing.assert_allclose(traj.loss, alone.loss, rtol=1e-12)

    def test_against_complex_steps(self, rng):
        problems = many(rng)[:6]
        for problem, traj in zip(problems, lr.batch.descend(problems, 0.05, 20, at=[20]), strict=True):
            assert worst([W[0] for W in traj.weights], stepped(problem, 0.05, 20)) < 1e-13

    def test_one_rate_per_problem(self, rng):
        problems = many(rng)
        rates = rng.uniform(0.001, 0.05, size=len(problems))
        for problem, rate, traj in zip(problems, rates, lr.batch.descend(problems, rates, AT[-1], at=AT), strict=True):
            np.testing.assert_allclose(traj.times, rate * np.array(AT), rtol=1e-15)
            assert worst(traj.weights, lr.descend(problem, rate, AT[-1], at=AT).weights) < 1e-12

    @pytest.mark.compiles
    def test_single_precision(self, rng):
        """Of the engine, for sweeps: some 1e-7 a step, a hundred steps; and it was not float64 in disguise."""
        for stack in stacking.stacks(problems := many(rng), np.dtype(np.float32)):
            with in_precision("float32"):
                run = engine.descend_stack(stack, np.full(stack.members.shape, 0.02), AT)
            for place in np.ndindex(stack.members.shape):
                fine = lr.descend(problems[stack.members[place]], 0.02, AT[-1], at=AT)
                coarse = [W[(slice(None), *place)] for W in run.weights]
                assert {W.dtype for W in coarse} == {np.dtype(np.float32)}
                assert 1e-9 < worst(coarse, fine.weights) < 2e-5

    def test_the_order_of_problems_does_not_matter(self, rng):
        problems, order = many(rng), rng.permutation(16)
        straight, turned = (
            lr.batch.descend(chosen, 0.02, AT[-1], at=AT) for chosen in (problems, [problems[i] for i in order])
        )
        assert max(worst(traj.weights, straight[i].weights) for i, traj in zip(order, turned, strict=True)) < 1e-13

    def test_the_same_problem_twice(self, rng):
        problem = many(rng)[0]
        first, second = lr.batch.descend([problem, problem], 0.02, AT[-1], at=AT)
        assert same(first, second)

    def test_however_steps_are_cut_into_calls(self, rng, monkeypatch):
        problems = many(rng, MIXED[1:2])
        whole = lr.batch.descend(problems, 0.02, AT[-1], at=AT)
        monkeypatch.setattr(importlib.import_module("lazyrich._engines"), "_CALL_COST", (1.0, 1.0))  # 32 steps a call
        assert all(same(a, b) for a, b in zip(lr.batch.descend(problems, 0.02, AT[-1], at=AT), whole, strict=True))

    @pytest.mark.compiles
    def test_many_steps_between_two_looks_as_on_a_gpu(self, rng, monkeypatch):
        problems = many(rng, MIXED[1:2])
        problems[0] = lr.Problem(problems[0].task, lr.Network([1e3 * W for W in problems[0].network.weights], "relu"))
        one_by_one = lr.batch.descend(problems, 0.02, AT[-1], at=AT)
        monkeypatch.setattr(engine, "_UNROLLED", (7, 7))
        engine._descent.cache_clear()
        try:
            by_sevens = lr.batch.descend(problems, 0.02, AT[-1], at=AT)
        finally:
            engine._descent.cache_clear()
        assert all(same(a, b) and a.status == b.status for a, b in zip(one_by_one, by_sevens, strict=True))
        assert by_sevens[0].status.startswith("diverged")

    def test_however_problems_are_cut_into_stacks(self, rng, monkeypatch):
        problems = many(rng)
        whole = lr.batch.descend(problems, 0.02, AT[-1], at=AT)
        monkeypatch.setattr(stacking, "_NEAR_CACHE", 1)  # one network each
        parts = lr.batch.descend(problems, 0.02, AT[-1], at=AT)
        assert max(worst(a.weights, b.weights) for a, b in zip(parts, whole, strict=True)) < 1e-13

    def test_checkpoints_and_the_start_stay_as_they_were(self, rng):
        """The loop works in place: neither what it recorded nor the stack it came from may be the place."""
        shared = lr.Task.from_data(rng.normal(size=(20, 64)), rng.normal(size=(20, 1)))
        problems = [lr.Problem(shared, network(rng, "relu", (64, 64, 1), scale=0.1)) for _ in range(4)]
        with in_precision("float64"):
            stack = stacking.stacked(problems, np.arange(4)[None], np.dtype(np.float64))
            record = engine.descend_stack(stack, np.full((1, 4), 0.1), AT)
            alone = [engine.descend_stack(stack, np.full((1, 4), 0.1), [step]) for step in AT]
        for layer, W in enumerate(stack.weights):
            np.testing.assert_array_equal(W[0], [p.network.weights[layer] for p in problems])
            for k, once in enumerate(alone):
                np.testing.assert_array_equal(record.weights[layer][k], once.weights[layer][0])
            assert np.ptp(record.weights[layer], axis=0).max() > 1e-3

    def test_what_is_told_of_the_progress(self, rng):
        problems, told = many(rng, MIXED[1:2])[:1], []
        with in_precision("float64"):
            stack = stacking.stacked(problems, np.zeros((1, 1), int), np.dtype(np.float64))
            engine.descend_stack(stack, np.full((1, 1), 0.1), AT, told.append)
        assert sum(told) == pytest.approx(1) and min(told) > 0


class TestDivergence:
    def test_takes_nothing_from_the_neighbours(self, rng):
        """Bit for bit what they are beside networks that behave, on their own task and on a shared one."""
        for one_task in (True, False):
            shared = task(rng, 3, 1)
            tasks = [shared if one_task else task(rng, 3, 1) for _ in range(4)]
            start = [network(rng, "relu", (3, 4, 1)) for _ in range(4)]
            quiet = lr.batch.descend([lr.Problem(t, w) for t, w in zip(tasks, start, strict=True)], 0.02, AT[-1], at=AT)
            start[2] = lr.Network([1e3 * W for W in start[2].weights], "relu")
            wild = lr.batch.descend([lr.Problem(t, w) for t, w in zip(tasks, start, strict=True)], 0.02, AT[-1], at=AT)
            assert all(same(wild[i], quiet[i]) for i in (0, 1, 3))
            alone = lr.descend(wild[2].problem, 0.02, AT[-1])  # its steps stand against plain loops in test_descend
            assert wild[2].status == alone.status and f"diverged at step {len(alone.times)} (" in alone.status
            assert len(wild[2].times) == len(wild[2].weights[0]) == 2 and np.isfinite(wild[2].weights[0]).all()

    def test_ends_where_a_single_run_ends(self):
        """The weights of this one are still finite, and its loss is not: lr.descend ends there, and so must this."""
        problem = lr.Problem(lr.Task.from_correlations([[1.0]]), lr.Network([[[10.0]], [[10.0]]]))
        for last in range(1, 8):
            at = list(range(last + 1))
            (traj,), alone = lr.batch.descend([problem], 1.0, last, at=at), lr.descend(problem, 1.0, last, at=at)
            assert len(traj.times) == len(alone.times)
            assert traj.status == alone.status and np.isfinite(traj.loss).all()

    def test_all_of_them_each_at_its_own_step(self):
        """w ← w + (1 − w²)w of a scalar network, step by step in Python, until its loss overflows."""
        task, starts = lr.Task.from_correlations([[1.0]]), (10.0, 3.0, 30.0, 2.1)
        runs = lr.batch.descend([lr.Problem(task, lr.Network([[[w]], [[w]]])) for w in starts], 1.0, 1000, at=[0, 1000])
        for w, run in zip(starts, runs, strict=True):
            step = 0
            while (w * w - 1) * (w * w - 1) < np.inf:
                w, step = w + (1 - w * w) * w, step + 1
            assert str(run.status).startswith(f"diverged at step {step} ") and len(run.times) == 1


class TestStacks:
    @pytest.mark.parametrize("limit", [None, 1, 2, 3, 100])
    def test_hold_every_problem_once(self, rng, limit):
        problems = many(rng, KINDS)
        stacks = list(stacking.stacks(problems, np.float32, limit))
        assert sorted(np.concatenate([stack.members.ravel() for stack in stacks])) == list(range(len(problems)))
        for stack in stacks:
            assert limit is None or stack.cells <= limit
            for (row, column), i in np.ndenumerate(stack.members):
                assert problems[i].network.activation == stack.activation
                assert problems[i].task is problems[stack.members[row, 0]].task
                assert problems[i].rates == pytest.approx([float(eta[row, column, 0, 0]) for eta in stack.rates])
                for W, all_of_them in zip(problems[i].network.weights, stack.weights, strict=True):
                    np.testing.assert_array_equal(all_of_them[row, column], W.astype(np.float32))

    def test_share_a_task_where_networks_do(self, rng):
        given, others = task(rng, 3, 1), [task(rng, 3, 1) for _ in range(2)]
        problems = [lr.Problem(t, network(rng, "relu", (3, 4, 1))) for t in (given, *others, given, given)]
        shapes = {stack.members.shape: stack.data[0].shape for stack in stacking.stacks(problems, np.float64)}
        assert shapes == {(1, 3): (1, 3, 7), (2, 1): (2, 3, 7)}

    def test_white_and_correlated_inputs_are_apart(self, rng):
        pair = [lr.Problem(task(rng, 3, 2, white=white), network(rng, "linear", (3, 4, 2))) for white in (True, False)]
        assert [np.ndim(stack.data[1][0]) for stack in stacking.stacks(pair, np.float64)] == [0, 2]


class TestTrajectories:
    def test_jax_is_left_alone(self, rng):
        assert not jax.config.jax_enable_x64
        lr.batch.descend(many(rng)[:2], 0.02, AT[-1], at=AT)
        assert not jax.config.jax_enable_x64 and jnp.ones(1).dtype == np.float32

    def test_can_be_measured(self, rng):
        shared = task(rng, 3, 1)
        problems = [lr.Problem(shared, network(rng, "relu", (3, 4, 1))) for _ in range(3)]
        for traj in lr.batch.descend(problems, 0.02, AT[-1], at=AT):
            alone = lr.descend(traj.problem, 0.02, AT[-1], at=AT)
            for name in ("kernel_distance", "parameter_distance", "hamming_distance"):
                measure = getattr(lr.observables, name)
                np.testing.assert_allclose(measure(traj), measure(alone), atol=1e-12)

    def test_of_steps_zero_only(self, rng):
        problems = many(rng)
        for traj, problem in zip(lr.batch.descend(problems, 0.1, 1, at=[0]), problems, strict=True):
            assert traj.times.tolist() == [0.0] and traj.status == "complete"
            assert worst([W[0] for W in traj.weights], problem.network.weights) == 0


@pytest.mark.usefixtures("unchecked_shapes")
class TestRefusals:
    @pytest.mark.parametrize(
        "change, sentence",
        [
            ({"problems": []}, "problems is empty, and at least one is needed."),
            ({"problems": 3}, "problems must be a list of problems, and it is a int."),
            (
                {"problems": [3]},
                "problems[0] must be a lazyrich Problem, and it is a int: try Problem(task, network).",
            ),
            ({"rate": 0}, "rate must be above 0, and the least is 0."),
            ({"rate": [1, 2, 3]}, "rate must be one number, or one per problem (2), and it has shape (3,)."),
            ({"steps": 0}, "steps must be at least 1, and it is 0."),
            ({"steps": [0, 2]}, "steps must be a whole number, and it is [0, 2]."),
            ({"at": [2, 0]}, "at must be sorted, and it is not: try np.sort(at)."),
            ({"at": [-1, 2]}, "at must lie between 0 and steps (2), and it goes from -1 to 2."),
            ({"at": [0.5]}, "at must list steps, whole numbers from 0 to 2, and it is [0.5]."),
            ({"at": []}, "at is empty (shape (0,)), and at least one entry is needed."),
            (
                {"record": "gram"},
                "record='gram' belongs to linear networks, and this one is relu: try 'weights' or 'loss'.",
            ),
        ],
    )
    def test_of_descend(self, rng, change, sentence):
        given = {"problems": many(rng, MIXED[1:2])[:2], "rate": 0.1, "steps": 2} | change
        with pytest.raises(lr.InvalidInput) as caught:
            lr.batch.descend(**given)
        assert str(caught.value) == sentence

    @pytest.mark.parametrize(
        "change, sentence",
        [
            ({"rtol": 0.5}, "rtol must lie between 1e-14 and 0.01, and it is 0.5."),
            (
                {"times": [[0.0, 1.0]] * 3},
                "times must be a vector, or hold one row per problem (2), and it has shape (3, 2).",
            ),
            ({"times": [-1.0]}, "times must not be negative, and the least is -1."),
            ({"rtol": 0.0}, "rtol must be above 0, and it is 0."),
        ],
    )
    def test_of_flow(self, rng, change, sentence):
        with pytest.raises(lr.InvalidInput) as caught:
            lr.batch.flow(**({"problems": many(rng)[:2], "times": [1.0]} | change))
        assert str(caught.value) == sentence

    def test_of_one_problem(self, rng):
        with pytest.raises(lr.InvalidInput, match=r"^problems must be a list of problems, and it is a Problem\.$"):
            lr.batch.descend(many(rng)[0], 0.1, 1)

    def test_of_a_nonlinear_network_without_samples(self, rng):
        bare = lr.Problem(lr.Task.from_correlations(np.ones((1, 3))), network(rng, "relu", (3, 4, 1)))
        for call in (lambda: lr.batch.descend([bare], 0.1, 1), lambda: lr.batch.flow([bare], [1.0])):
            with pytest.raises(lr.InvalidInput, match=r"needs the samples of the task where the network is relu"):
                call()

    def test_without_the_engine(self, rng, monkeypatch):
        problems = many(rng)[:1]
        monkeypatch.setitem(sys.modules, "jax", None)
        for call in (lambda: lr.batch.descend(problems, 0.1, 1), lambda: lr.batch.flow(problems, [1.0])):
            with pytest.raises(ImportError, match=r"^(flow|descend) needs jax: pip install 'lazyrich\[engines\]'\.$"):
                call()


def test_every_pair_of_kinds_can_be_in_one_list(rng):
    """No stack confuses two kinds of the same sizes."""
    problems = [
        lr.Problem(task(rng, 3, 1, reduction=reduction), network(rng, activation, (3, 4, 1)))
        for activation, reduction in itertools.product(("linear", "relu", "tanh", 0.3), ("mean", "sum"))
    ]
    for problem, traj in zip(problems, lr.batch.descend(problems, 0.01, 2, at=[2]), strict=True):
        assert worst([W[0] for W in traj.weights], stepped(problem, 0.01, 2)) < 1e-14
