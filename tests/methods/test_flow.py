"""Integrated gradient flow: against SciPy and the exact solutions, how it ends, what it keeps and what it refuses."""

from __future__ import annotations

import importlib
import logging
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import integrate

import lazyrich as lr
from lazyrich.methods.flow import flow

pytestmark = pytest.mark.timeout(120)  # JAX may deadlock, and must not take the suite with it

SIZES = {1: (4, 3), 2: (4, 5, 3), 3: (3, 5, 4, 4), 4: (3, 4, 2, 5, 4)}  # narrower at the outputs, then at the inputs
TIMES = np.array([0.0, 0.3, 1.0, 2.5, 7.0, 20.0])


def correlated(rng, sizes, scale=0.5, **options):
    """A problem that no exact method for deep networks covers: correlated inputs, unbalanced layers."""
    X = rng.normal(size=(30, sizes[0])) @ rng.normal(size=(sizes[0], sizes[0]))
    X /= np.sqrt(np.mean(X**2))
    task = lr.Task.from_data(X, rng.normal(size=(30, sizes[-1])))
    weights = [scale * rng.normal(size=shape) for shape in zip(sizes[1:], sizes[:-1], strict=True)]
    return lr.Problem(task, lr.Network(weights), **options)


def oracle(problem, times):
    task = problem.task
    start = problem.network.weights
    return integrate.weights(start, task.sigma_yx, task.sigma_xx, times, problem.rates, problem.weight_decay)


def worst(got, want):
    """Largest error over layers and times, relative to the largest entry of each layer."""
    return max(np.abs(A - B).max() / np.abs(B).max() for A, B in zip(got, want, strict=True))


def spread_modes(seed, scale=1e-8):
    """Modes 4, 1 and 1/4, which appear one long after the other from a tiny start."""
    rng = np.random.default_rng(1)
    U, V = (np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(2))
    task = lr.Task.from_correlations(U @ np.diag([4.0, 1.0, 0.25]) @ V)
    return lr.Problem(task, lr.inits.zero_balanced(seed, sizes=(3, 5, 3), scale=scale))


class TestFollowsTheFlow:
    @pytest.mark.parametrize("depth", [pytest.param(n, marks=[pytest.mark.compiles] * (n != 2)) for n in SIZES])
    def test_of_any_depth_with_correlated_inputs(self, rng, depth):
        problem = correlated(rng, SIZES[depth])
        assert worst(flow(problem, TIMES).weights, oracle(problem, TIMES)) < 2e-8

    @pytest.mark.compiles
    @pytest.mark.parametrize("depth", SIZES)
    def test_with_layer_rates_and_weight_decay(self, rng, depth):
        rates = rng.uniform(0.3, 3, size=depth)
        problem = correlated(rng, SIZES[depth], rates=rates, weight_decay=0.05)
        assert worst(flow(problem, TIMES).weights, oracle(problem, TIMES)) < 2e-8

    def test_exact_solution_of_two_layers(self):
        times = np.linspace(0, 100, 150)  # more than one call of the compiled loop records
        problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.1))
        exact, traj = lr.solve(problem, times), flow(problem, times, record=("function", "gram", "loss"))
        assert exact.method == "riccati" and traj.status == "complete"
        np.testing.assert_allclose(traj.function, exact.function, atol=1e-8 * np.abs(exact.function).max())
        np.testing.assert_allclose(traj.gram, exact.gram, atol=1e-8 * np.abs(exact.gram).max())
        np.testing.assert_allclose(traj.loss, exact.loss, atol=1e-8 * exact.loss[0])

    def test_exact_solution_with_weight_decay(self):
        task, network = lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(1, sizes=(8, 14, 8), scale=0.1)
        problem, times = lr.Problem(task, network, weight_decay=0.19), np.linspace(0, 100, 150)
        exact, traj = lr.solve(problem, times), flow(problem, times, record=("function", "gram", "loss"))
        np.testing.assert_allclose(traj.function, exact.function, atol=1e-8 * np.abs(exact.function).max())

    @pytest.mark.compiles
    @pytest.mark.parametrize("seed, saddle", [(0, False), (1, False), (2, False), (3, True)])
    def test_from_a_start_of_1e_8(self, seed, saddle):
        """The last mode grows from 1e-8 while the others are of order one; on the separatrix it never does."""
        problem, times = spread_modes(seed), np.linspace(0, 140, 60)
        assert problem.facts.determinant_obstruction == saddle
        exact, traj = lr.solve(problem, times).function, flow(problem, times, record="function")
        assert worst([traj.function], [exact]) < 1e-8
        assert np.abs(exact[1]).max() < 1e-3  # still tiny, and accurate relative to its own size:
        assert worst([traj.function[:2]], [exact[:2]]) < 2e-8
        assert bool(traj.notes) == saddle and (not saddle or "saddle" in traj.notes[0])

    @pytest.mark.compiles
    def test_notes_name_solve_only_where_it_applies(self):
        target = np.diag([3.0, -2.0])
        two = lr.Problem(lr.Task.from_correlations(target), lr.Network([0.5 * np.eye(2)] * 2))
        three = lr.Problem(lr.Task.from_correlations(target), lr.Network([0.5 * np.eye(2)] * 3), weight_decay=1e-9)
        (with_solve,), (without,) = (flow(problem, [0.0, 1.0]).notes for problem in (two, three))
        assert with_solve.endswith("leave it in the end, where lr.solve(problem, times) stays")
        assert without.endswith("leave it in the end")

    @pytest.mark.compiles
    def test_each_mode_keeps_its_own_size(self):
        """An aligned start with strengths from 1 to 1e-9: every mode to eight digits of itself."""
        task = lr.tasks.semantic_hierarchy()
        start = lr.inits.aligned(0, task, hidden=14, strengths=np.geomspace(1, 1e-9, 8))
        problem, times = lr.Problem(task, start), np.linspace(0, 60, 30)
        U, _, V = task.modes
        modes = lambda traj: np.einsum("oa,toi,ia->ta", U, traj.function, V)
        got, want = modes(flow(problem, times, record="function")), modes(lr.solve(problem, times))
        np.testing.assert_allclose(got, want, rtol=1e-7)

    def test_a_layer_of_zeros_and_a_network_of_zeros(self, rng):
        W1 = rng.normal(size=(5, 4))
        task = correlated(rng, SIZES[2]).task
        problem = lr.Problem(task, lr.Network([W1, np.zeros((3, 5))]))
        assert worst(flow(problem, TIMES).weights, oracle(problem, TIMES)) < 2e-8
        nothing = flow(lr.Problem(task, lr.Network([0 * W1, np.zeros((3, 5))])), TIMES)
        assert nothing.status == "complete" and not any(W.any() for W in nothing.weights)

    def test_error_shrinks_with_the_tolerance(self, rng):
        problem = correlated(rng, SIZES[3])
        want = oracle(problem, TIMES)
        errors = [worst(flow(problem, TIMES, rtol=rtol).weights, want) for rtol in (1e-5, 1e-8, 1e-11)]
        assert errors[0] < 1e-3 and errors[1] < errors[0] / 100 and errors[2] < errors[1] / 100

    def test_absolute_tolerance_is_heard(self, rng):
        problem = correlated(rng, SIZES[3])
        want = oracle(problem, TIMES)
        coarse, fine = (worst(flow(problem, TIMES, rtol=1e-11, atol=atol).weights, want) for atol in (1e-4, 1e-11))
        assert fine < coarse / 1000


class TestTimes:
    def test_the_start_is_at_zero_and_exact(self, rng):
        problem = correlated(rng, SIZES[2])
        late, all_times = flow(problem, [2.5, 20.0]), flow(problem, TIMES)
        assert late.times.tolist() == [2.5, 20.0]
        assert worst([W for W in late.weights], [W[[3, 5]] for W in all_times.weights]) < 2e-8
        assert all((W[0] == W0).all() for W, W0 in zip(all_times.weights, problem.network.weights, strict=True))

    def test_repeated_times_and_one_number(self, rng):
        problem = correlated(rng, SIZES[2])
        times = [0.0, 0.0, *[1.0] * 100, 2.0, 2.0]
        W = flow(problem, times).weights[0]
        assert (W[0] == W[1]).all() and (W[2:102] == W[2]).all() and (W[102] == W[103]).all()
        assert (W[[0, 2, 102]] == flow(problem, [0.0, 1.0, 2.0]).weights[0]).all()
        assert np.abs(W[101] - flow(problem, 1.0).weights[0][0]).max() < 2e-8
        assert flow(problem, [0.0, 0.0]).times.tolist() == [0.0, 0.0]

    def test_recording_more_often_changes_nothing(self, rng):
        problem = correlated(rng, SIZES[2])
        often, seldom = flow(problem, np.linspace(0, 20, 401)), flow(problem, np.linspace(0, 20, 5))
        assert worst([W[::100] for W in often.weights], seldom.weights) < 2e-8


class TestWhatIsKept:
    @pytest.mark.compiles
    def test_only_what_is_asked_for(self, rng):
        problem = correlated(rng, SIZES[2])
        all_four = flow(problem, TIMES, record=("loss", "weights", "gram", "function"))
        derived = flow(problem, TIMES)
        for name in ("function", "gram", "loss"):
            np.testing.assert_allclose(getattr(all_four, name), getattr(derived, name), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(all_four.loss, problem.task.loss(all_four.function), rtol=1e-14)
        only = flow(problem, TIMES, record="loss")
        np.testing.assert_allclose(only.loss, derived.loss, rtol=1e-12)
        for name in ("weights", "function", "gram"):
            assert not only.knows(name)
            with pytest.raises(AttributeError, match=rf"{name} was not recorded \(only loss\)"):
                getattr(only, name)

    def test_float64_arrays_of_numpy(self, rng):
        traj = flow(correlated(rng, SIZES[2]), TIMES)
        assert traj.method == "flow" and traj.status == "complete"
        assert [type(W) for W in traj.weights] == [np.ndarray] * 2
        assert {W.dtype for W in traj.weights} == {np.dtype(np.float64)}
        assert [W.shape for W in traj.weights] == [(6, 5, 4), (6, 3, 5)]

    @pytest.mark.compiles
    def test_loss_ends_at_the_floor_and_never_below(self, rng):
        task = lr.Task.from_data(rng.normal(size=(30, 4)), rng.normal(size=(30, 3)))
        traj = flow(lr.Problem(task, correlated(rng, SIZES[2]).network), [0.0, 5.0, 300.0], record="loss")
        assert task.loss_floor > 0.1 and (traj.loss >= task.loss_floor).all()
        assert traj.loss[-1] - task.loss_floor < 1e-12

    def test_certificate(self, rng):
        problem = correlated(rng, SIZES[3])
        fine, coarse = (flow(problem, TIMES, rtol=rtol).certificate() for rtol in (1e-9, 1e-5))
        assert fine.residual < 1e-7 and fine.drift < 1e-7 and fine.initial_error == 0
        assert coarse.residual > 10 * fine.residual and coarse.drift > 10 * fine.drift


class TestHowItEnds:
    @pytest.mark.compiles
    def test_too_many_steps(self, rng):
        problem = correlated(rng, SIZES[2])
        whole = flow(problem, [0.0, 1.0, 2.0])
        traj = flow(problem, [0.0, 1.0, 2.0, 1e9], max_steps=500)
        assert traj.times.tolist() == [0.0, 1.0, 2.0]
        assert worst(traj.weights, whole.weights) < 2e-8
        assert (
            traj.status.startswith("stopped at t = ")
            and "of 1e+09 after 500 steps: try a larger max_steps" in traj.status
        )
        with pytest.raises(RuntimeError, match=r"flow reached none of the times: stopped at t = .* after 500 steps"):
            flow(problem, [1e9], max_steps=500)

    @pytest.mark.compiles
    @pytest.mark.parametrize(("rate", "scale", "end"), [(1e4, 0.1, 0.01), (1.0, 100.0, 1e-3), (1e-9, 0.1, 1e11)])
    def test_a_first_step_that_overflows_is_not_the_end(self, rate, scale, end):
        """Rates and weights set the unit of time, and no step is right in all units."""
        task = lr.Task.from_correlations(np.eye(3, 4) * [[2.0], [1.0], [0.3]])
        problem = lr.Problem(task, lr.inits.gaussian(0, sizes=SIZES[2], scale=scale), rates=(rate, rate))
        traj = flow(problem, [0.0, end])
        assert traj.status == "complete"
        assert worst(traj.weights, oracle(problem, traj.times)) < 1e-7

    @pytest.mark.compiles
    def test_numbers_that_overflow(self):
        problem = lr.Problem(lr.Task.from_correlations(np.eye(2)), lr.Network([1e49 * np.eye(2)] * 4))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            traj = flow(problem, [0.0, 1.0])
            assert traj.times.tolist() == [0.0] and np.isfinite(traj.weights[0]).all()
            assert traj.status.startswith("stalled at t = 0 of 1 after")
            for nothing in (dict(times=[1.0]), dict(times=[0.0, 1.0], record="loss")):
                with pytest.raises(RuntimeError, match="flow reached none of the times: stalled at t = 0 of 1"):
                    flow(problem, **nothing)


class TestLeavesJaxAlone:
    def test_precision_of_others_is_unchanged(self, rng):
        before = jax.config.jax_enable_x64
        assert not before and flow(correlated(rng, SIZES[2]), TIMES).weights[0].dtype == np.float64
        assert jax.config.jax_enable_x64 == before and jnp.ones(1).dtype == np.float32

    def test_where_double_precision_is_on_already(self, rng):
        problem = correlated(rng, SIZES[2])
        here = flow(problem, TIMES).weights
        jax.config.update("jax_enable_x64", True)
        try:
            there = flow(problem, TIMES).weights
            assert jnp.ones(1).dtype == np.float64
        finally:
            jax.config.update("jax_enable_x64", False)
        assert all((A == B).all() for A, B in zip(here, there, strict=True))

    def test_from_two_threads(self, rng):
        problems = [correlated(rng, SIZES[2]) for _ in range(4)]
        with ThreadPoolExecutor(2) as pool:
            together = list(pool.map(lambda problem: flow(problem, TIMES).weights, problems))
        for problem, weights in zip(problems, together, strict=True):
            assert all((A == B).all() for A, B in zip(flow(problem, TIMES).weights, weights, strict=True))

    @pytest.mark.compiles
    def test_compiles_once_for_all_problems_of_a_shape(self, rng, caplog):
        flow(correlated(rng, SIZES[2]), TIMES)
        with caplog.at_level(logging.WARNING), jax.log_compiles():
            problem = correlated(rng, SIZES[2], rates=[1.0, 2.0], weight_decay=0.1)
            flow(problem, np.linspace(0, 10, 90), rtol=1e-7)
            assert not [record for record in caplog.messages if "advance" in record]
            flow(correlated(rng, (7, 23, 2)), TIMES)  # which no other test of this process has compiled
            assert [record for record in caplog.messages if "advance" in record]  # the log does tell

    def test_importing_and_solving_load_no_engine(self):
        script = """
import sys, lazyrich as lr, lazyrich.methods.flow, lazyrich.methods.descend
lr.solve(lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]])), [0.0, 1.0]).function
print([name for name in ("jax", "diffrax", "equinox", "optax", "torch", "tqdm", "matplotlib") if name in sys.modules])
"""
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
        assert run.stdout == "[]\n"

    @pytest.mark.parametrize("missing", ["jax", "diffrax"])
    def test_a_missing_engine(self, rng, monkeypatch, missing):
        monkeypatch.setitem(sys.modules, missing, None)
        with pytest.raises(ImportError, match=rf"^flow needs {missing}: pip install 'lazyrich\[engines\]'\.$"):
            flow(correlated(rng, SIZES[2]), TIMES, max_steps=7)  # a number of steps that is not compiled yet


class TestProgress:
    @pytest.fixture
    def slow(self, monkeypatch):
        """As if two seconds were over at once."""
        monkeypatch.setattr(importlib.import_module("lazyrich._progress"), "_DELAY", 0)

    @pytest.mark.parametrize("wish, shown", [("1", True), ("0", False), ("", False)])
    def test_a_bar_where_somebody_is_looking(self, rng, monkeypatch, capsys, slow, wish, shown):
        monkeypatch.setenv("LAZYRICH_PROGRESS", wish)
        flow(correlated(rng, SIZES[2]), np.linspace(0, 20, 200))
        out, err = capsys.readouterr()
        assert not out and ("flow: " in err and "%|" in err) == shown and bool(err) == shown

    def test_no_bar_for_short_runs(self, rng, monkeypatch, capsys):
        """Short beside the delay: a busy machine, or a GPU that compiles, takes more than two seconds."""
        monkeypatch.setattr(importlib.import_module("lazyrich._progress"), "_DELAY", 60)
        monkeypatch.setenv("LAZYRICH_PROGRESS", "1")
        flow(correlated(rng, SIZES[2]), np.linspace(0, 20, 200))
        assert capsys.readouterr() == ("", "")

    def test_no_bar_without_tqdm(self, rng, monkeypatch, capsys, slow):
        monkeypatch.setenv("LAZYRICH_PROGRESS", "1")
        monkeypatch.setitem(sys.modules, "tqdm", None)
        assert flow(correlated(rng, SIZES[2]), TIMES).status == "complete"
        assert capsys.readouterr() == ("", "")


MISTAKES = {
    r"times must be sorted, and entry 1 \(1\) is below entry 0 \(2\)": dict(times=[2.0, 1.0]),
    r"times must not be negative, and the least is -1": dict(times=[-1.0, 1.0]),
    r"times must be finite, and 1 of its 2 entries": dict(times=[0.0, np.nan]),
    r"times is empty": dict(times=[]),
    r"record must be one of .*, and it is 'weigths' \(did you mean 'weights'\?\)": dict(record=("loss", "weigths")),
    r"record must name what to keep, such as \('weights', 'loss'\), and it is 3": dict(record=3),
    r"record is empty, and at least one of 'weights', 'function', 'gram', 'loss' is needed": dict(record=()),
    r"rtol must be above 0, and it is -1": dict(rtol=-1.0),
    r"rtol must lie between 1e-14 and 0.01, and it is 1e-17": dict(rtol=1e-17),
    r"rtol must lie between 1e-14 and 0.01, and it is 0.5": dict(rtol=0.5),
    r"atol must be above 0, and it is 0": dict(atol=0.0),
    r"atol must be at most 0.00\d+, a hundredth of the mean weight of the largest layer, and it is 1": dict(atol=1.0),
    r"max_steps must be at least 1, and it is 0": dict(max_steps=0),
    r"max_steps must be a whole number, and it is 1.5": dict(max_steps=1.5),
}


@pytest.mark.usefixtures("unchecked_shapes")
class TestRefuses:
    @pytest.mark.parametrize("sentence", MISTAKES)
    def test_bad_arguments_before_anything_runs(self, rng, monkeypatch, sentence):
        monkeypatch.setattr(importlib.import_module("lazyrich.batch.api"), "flow_linear", None)
        with pytest.raises(lr.InvalidInput, match=f"^{sentence}"):
            flow(correlated(rng, SIZES[2]), **{"times": TIMES, **MISTAKES[sentence]})

    def test_something_that_is_no_problem(self):
        with pytest.raises(lr.InvalidInput, match=r"^problem must be a lazyrich Problem, and it is a list: "):
            flow([1, 2], TIMES)

    @pytest.mark.parametrize("activation", ["relu", "tanh", 0.1])
    def test_nonlinear_networks_without_samples(self, activation):
        problem = lr.Problem(lr.Task.from_correlations(np.eye(2)), lr.Network([np.eye(2)] * 2, activation))
        sentence = rf"^flow needs the samples of the task where the network is .*{activation}, .*: try Task.from_data\("
        with pytest.raises(lr.InvalidInput, match=sentence):
            flow(problem, TIMES)

    def test_gram_of_three_layers(self, rng):
        with pytest.raises(
            lr.InvalidInput, match="record='gram' belongs to two layers without biases, and this network has 3"
        ):
            flow(correlated(rng, SIZES[3]), TIMES, record="gram")


@pytest.mark.compiles
def test_other_problems_of_a_shape_are_not_compiled_anew(rng):
    module = importlib.import_module("lazyrich.batch.linear")
    for seed in range(3):  # each takes another number of steps
        problem = correlated(np.random.default_rng(seed), SIZES[2], scale=0.3 + 0.2 * seed)
        flow(problem, np.linspace(0.0, 30.0, 1000), max_steps=5000)  # in several calls
        if seed == 0:
            first = module._compiled.cache_info().misses
    assert module._compiled.cache_info().misses <= first + 1
