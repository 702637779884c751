"""The numbers of a block: batched measurements against the observables, what becomes of bad cells, and what is told.

The oracle of the kernel distance is the kernel itself, written out in extended precision.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from oracles.samples import kind_of

import lazyrich as lr
from lazyrich.batch.api import in_precision
from lazyrich.batch.run import Record
from lazyrich.batch.stack import stacked
from lazyrich.sweeps import Cell, Sweep, measure
from lazyrich.sweeps.compute import STATUS, compute, template
from lazyrich.sweeps.estimate import estimate, with_blocks

pytestmark = pytest.mark.timeout(120)  # JAX may deadlock, and must not take the suite with it

TOGETHER = ("loss", "test_loss", "kernel_distance", "hamming_distance", "parameter_distance")
COMPLETE, STOPPED, FAILED = (STATUS.index(word) for word in ("complete", "stopped", "failed"))
TAUGHT = {
    "name": "taught",
    "problem": "teacher_student",
    "axes": {"seed": [0, 1], "tau": [0.5, 1.0]},
    "settings": {"d": 4, "h": 4, "n": 8, "test": 5},
    "at": [0, 2, 5],
    "rate": 0.05,
    "observables": list(TOGETHER),
}
X, Y = (np.random.default_rng(7).normal(size=(8, d)) for d in (3, 2))
TASK, ONE_OUTPUT = lr.Task.from_data(X, Y), lr.Task.from_data(X, Y[:, :1])
WHITE = lr.Task.from_correlations(np.array([[2.0, 0.0, 0.5], [0.0, 1.0, 0.0]]))


def told(result):
    """The sentences of what went wrong, by place."""
    return {place: str(cause) for place, cause in result.causes.items()}


def lacking(result):
    """The sentences of what one observable lacks, by place and name."""
    return {key: str(cause) for key, cause in result.lacking.items()}


def start(seed, activation="relu", h=4, d_out=1, scale=0.5):
    rng = np.random.default_rng(seed)
    return lr.Network([scale * rng.normal(size=(h, 3)), scale * rng.normal(size=(d_out, h))], activation)


def build(problem="teacher_student", **changes):
    own = {"problem": problem, "settings": {}, "observables": ["loss"]} if problem != TAUGHT["problem"] else {}
    return Sweep.from_dict(TAUGHT | own | changes)


def whole(sweep):
    """The one block of a sweep, and how many cells its ticks add up to."""
    ticks = []
    result = compute(sweep, sweep.block_at(0), ticks.append)
    assert sum(ticks) == pytest.approx(sweep.cells) and min(ticks) >= 0
    return result


# measurements of many at once ---------------------------------------------------------------------------------------


def measured(problems, weights, test=None, names=TOGETHER[:1] + TOGETHER[2:], dtype=np.float64):
    """Weights (K, 1, networks, …) as a run might have recorded them, measured together: name → (K, networks)."""
    count = len(problems)
    with in_precision(np.dtype(dtype).name):
        stack = stacked(problems, np.arange(count)[None], np.dtype(dtype))
        reached = np.full((1, count), len(weights[0]))
        record = Record({"weights": [W.astype(dtype) for W in weights]}, reached, ["complete"] * count, reached)
        assert measure.together(stack, names) == tuple(names)
        values = measure.measured_together(stack, record, [Cell(problem, test) for problem in problems], names)
    return {name: value[:, 0] for name, value in values.items()}


def walk(rng, slope, h=6, d=3, n=17, networks=3, sizes=(0.0, 1e-3, 0.1, 3.0), reduction="mean"):
    """Problems with layer rates on one task, and weights at several distances from their starts."""
    task = lr.Task.from_data(rng.normal(size=(n, d)), rng.normal(size=(n, 1)), reduction=reduction)
    first = [rng.normal(size=(networks, h, d)), rng.normal(size=(networks, 1, h))]
    push = np.array(sizes)[:, None, None, None, None]
    weights = [W + push * rng.normal(size=(len(sizes), 1, *W.shape)) for W in first]
    rates = rng.uniform(0.3, 3, size=(networks, 2))
    problems = [lr.Problem(task, lr.Network([W[i] for W in first], slope), rates=rates[i]) for i in range(networks)]
    return problems, weights


def trajectory(problem, weights, i):
    return lr.Trajectory(problem, np.arange(float(len(weights[0]))), "flow", {"weights": [W[:, 0, i] for W in weights]})


def kernel(problem, W, a):
    """K of one output, in extended precision."""
    X, W, a = (np.asarray(part, np.longdouble) for part in (problem.task.inputs, W, a))
    slope = {"relu": 0.0}.get(kind_of(problem.network), kind_of(problem.network))
    z = W @ X.T
    c = np.where(z > 0, np.longdouble(1), np.longdouble(slope))
    eta = [np.longdouble(rate) for rate in problem.rates]
    return eta[0] * (X @ X.T) * (c.T @ (a.T**2 * c)) + eta[1] * (c * z).T @ (c * z)


def angle(K, K2):
    """1 − cos and ‖K/‖K‖ − K'/‖K'‖‖, without cancellation."""
    apart = K / np.sqrt(np.sum(K * K)) - K2 / np.sqrt(np.sum(K2 * K2))
    return float(np.sum(apart * apart) / 2), float(np.sqrt(np.sum(apart * apart)))


class TestMeasurements:
    @pytest.mark.parametrize("reduction", ["mean", "sum"])
    @pytest.mark.parametrize("slope", ["relu", 0.3])
    def test_equal_the_observables(self, rng, slope, reduction):
        problems, weights = walk(rng, slope, reduction=reduction)
        test = lr.Task.from_data(rng.normal(size=(9, 3)), rng.normal(size=(9, 1)), reduction=reduction)
        values = measured(problems, weights, test, TOGETHER)
        for i, problem in enumerate(problems):
            traj = trajectory(problem, weights, i)
            for name in TOGETHER[2:]:
                np.testing.assert_allclose(
                    values[name][:, i], getattr(lr.observables, name)(traj), rtol=1e-12, atol=1e-15
                )
            for name, task in (("loss", problem.task), ("test_loss", test)):
                shares = []
                for W, a in zip(*(layer[:, 0, i] for layer in weights), strict=True):
                    z = task.inputs @ W.T
                    gap = task.targets - np.where(z > 0, z, (0.0 if slope == "relu" else slope) * z) @ a.T
                    shares.append(np.sum(gap**2) / 2 / (len(gap) if reduction == "mean" else 1))
                np.testing.assert_allclose(values[name][:, i], shares, rtol=1e-13)

    @pytest.mark.parametrize("slope", ["relu", 0.3])
    def test_small_kernel_distances_keep_their_digits(self, rng, slope):
        """To 1e-14 of the movement of the kernel, where 1 − cos as it stands would be rounding from 1e-8 on."""
        problems, weights = walk(rng, slope, sizes=(0.0, 1e-4, 1e-6, 1e-8))
        for i, got in enumerate(measured(problems, weights, names=("kernel_distance",))["kernel_distance"].T):
            K = [kernel(problems[i], W, a) for W, a in zip(*(layer[:, 0, i] for layer in weights), strict=True)]
            want, moved = np.transpose([angle(K[0], later) for later in K])
            assert got[0] == 0 and 0 < want[3] < 1e-14
            assert (np.abs(got - want) <= 1e-14 * moved).all()
            np.testing.assert_allclose(
                got, lr.observables.kernel_distance(trajectory(problems[i], weights, i)), rtol=1e-6
            )

    def test_blocks_of_rows_do_not_matter(self, rng, monkeypatch):
        """17 samples in blocks of one, of five with an incomplete last one, and whole."""
        problems, weights = walk(rng, 0.3)
        found = []
        for numbers in (1, 5 * 17 * 5, 2**17):
            monkeypatch.setattr(measure, "_ROWS", (numbers, numbers))
            measure._measures.cache_clear()
            found.append(measured(problems, weights, names=("kernel_distance",))["kernel_distance"])
        measure._measures.cache_clear()
        np.testing.assert_allclose(found[0], found[2], rtol=1e-12, atol=1e-16)
        np.testing.assert_allclose(found[1], found[2], rtol=1e-12, atol=1e-16)

    def test_kernels_of_zeros(self, rng):
        """0 between two of them, nan where one is: as the observable has it."""
        problems, weights = walk(rng, "relu", networks=2)
        for W in weights:
            W[:, 0, 1] = 0
            W[2, 0, 1] = 1
            W[3, 0, 0] = 0
        problems[1] = lr.Problem(problems[1].task, lr.Network([W[0, 0, 1] for W in weights], "relu"))
        got = measured(problems, weights)
        for i, problem in enumerate(problems):
            want = lr.observables.kernel_distance(trajectory(problem, weights, i))
            np.testing.assert_allclose(got["kernel_distance"][:, i], want, rtol=1e-12, atol=1e-15)
        assert np.isnan(got["kernel_distance"][3, 0]) and not np.isnan(got["kernel_distance"][:3, 0]).any()
        np.testing.assert_array_equal(got["kernel_distance"][:, 1], [0, 0, np.nan, 0])

    def test_single_precision(self, rng):
        problems, weights = walk(rng, 0.3)
        names = ("kernel_distance", "parameter_distance")
        fine, coarse = (measured(problems, weights, names=names, dtype=dtype) for dtype in (np.float64, np.float32))
        for name, value in coarse.items():
            assert value.dtype == np.float32
            np.testing.assert_allclose(value, fine[name], rtol=2e-5, atol=2e-7)

    @pytest.mark.parametrize("activation, d_out", [("linear", 1), ("tanh", 1), ("relu", 2)])
    def test_of_other_networks_go_one_by_one(self, activation, d_out):
        problem = lr.Problem(TASK if d_out == 2 else ONE_OUTPUT, start(0, activation, d_out=d_out))
        assert measure.together(stacked([problem], np.zeros((1, 1), int), np.dtype(np.float64)), TOGETHER) == ()


# blocks -------------------------------------------------------------------------------------------------------------


class TestValues:
    @pytest.mark.compiles
    @pytest.mark.parametrize("method", ["descend", "flow"])
    def test_as_each_cell_alone(self, method):
        slope = {"descend": 0.0, "flow": 0.3}[method]
        sweep = build(method=method, settings=TAUGHT["settings"] | {"slope": slope}, rtol=1e-4)
        result = whole(sweep)
        assert (result.status == COMPLETE).all() and result.causes == {} and result.status.dtype == np.int8
        assert result.status.shape == (2, 2) and {value.shape for value in result.values.values()} == {(2, 2, 3)}
        for place in np.ndindex(sweep.shape):
            cell = sweep.cell(place)
            times = 0.05 * cell.clock * np.array(sweep.at)
            if method == "descend":
                traj = lr.descend(cell.problem, 0.05 * cell.clock, 5, at=sweep.at)
            else:
                traj = lr.flow(cell.problem, times, rtol=1e-4)
            np.testing.assert_allclose(traj.times, times, rtol=1e-14)
            for name in TOGETHER:
                want = measure.measured(traj, name, cell.test)
                np.testing.assert_allclose(result.values[name][place], want, rtol=1e-9, atol=1e-15)

    @pytest.mark.compiles
    def test_blocks_make_the_whole(self):
        """Each its own region, and the same bytes when computed again."""
        few = {"axes": {"seed": [0, 1], "tau": [0.5, 1.0, 2.0]}, "observables": ["loss", "kernel_distance"]}
        sweep, full = build(block={"seed": 1, "tau": 1}, **few), whole(build(**few))
        for number in range(sweep.blocks):
            block = sweep.block_at(number)
            once, again = compute(sweep, block), compute(sweep, block)
            for name, value in once.values.items():
                assert value.tobytes() == again.values[name].tobytes() and value.shape == (1, 1, 3)
                np.testing.assert_allclose(value, full.values[name][block.region], rtol=1e-12, atol=1e-15)

    @pytest.mark.compiles
    def test_single_precision(self):
        few = ["test_loss", "kernel_distance"]
        fine, coarse = (whole(build(precision=word, observables=few)) for word in ("float64", "float32"))
        for name, value in coarse.values.items():
            assert value.dtype == np.float32 and fine.values[name].dtype == np.float64
            np.testing.assert_allclose(value, fine.values[name], rtol=1e-4, atol=1e-6)

    @pytest.mark.compiles
    def test_shortened_products_are_a_gpus_alone_and_single_precision_is_what_is_kept(self):
        few = ["loss", "kernel_distance"]
        full, short = (whole(build(precision=word, observables=few)) for word in ("float32", "tf32"))
        for name, value in short.values.items():
            assert value.dtype == np.float32
            np.testing.assert_allclose(value, full.values[name], rtol=2e-3, atol=1e-5)

    def test_vectors_and_matrices(self):
        sweep = build(
            "random_regression",
            axes={"seed": [0, 1, 2]},
            settings={"d_in": 3, "h": 4, "d_out": 2},
            observables=["mode_strengths", "input_gram", "loss"],
        )
        result, shapes = whole(sweep), template(sweep)
        assert shapes["mode_strengths"].shape == (2,) and shapes["input_gram"].shape == (3, 3)
        assert shapes["loss"].shape == () and shapes["mode_strengths"].dims == ("mode",)
        for seed in range(3):
            traj = lr.descend(sweep.cell((seed,)).problem, 0.05, 5, at=sweep.at)
            for name in ("mode_strengths", "input_gram"):
                np.testing.assert_allclose(
                    result.values[name][seed], getattr(lr.observables, name)(traj), rtol=1e-11, atol=1e-15
                )

    @pytest.mark.compiles
    def test_cells_of_unequal_shape(self):
        """Widths, depths and kinds side by side in one block."""

        def mixed(kind):
            if kind == 3:
                rng = np.random.default_rng(3)
                layers = [rng.normal(size=shape) for shape in ((4, 3), (5, 4), (2, 5))]
                return lr.Problem(TASK, lr.Network(layers, "tanh"))
            return lr.Problem(TASK, start(kind, ("linear", "relu", 0.3)[kind], h=4 + kind, d_out=2))

        sweep = build(mixed, axes={"kind": [0, 1, 2, 3]}, observables=["loss", "parameter_distance"])
        result = whole(sweep)
        assert (result.status == COMPLETE).all()
        for kind in range(4):
            traj = lr.descend(mixed(kind), 0.05, 5, at=sweep.at)
            np.testing.assert_allclose(result.values["loss"][kind], traj.loss, rtol=1e-12)
            want = lr.observables.parameter_distance(traj)
            np.testing.assert_allclose(result.values["parameter_distance"][kind], want, rtol=1e-11)

    def test_held_out_samples_of_each_cell(self):
        """Cells on one task may be tested on different samples, and on different numbers of them."""

        def tested(i):
            rng = np.random.default_rng(i)
            test = lr.Task.from_data(rng.normal(size=(5 + i // 2, 3)), rng.normal(size=(5 + i // 2, 1)))
            return Cell(lr.Problem(ONE_OUTPUT, start(i)), test)

        sweep = build(tested, axes={"i": [0, 1, 2, 3]}, observables=["test_loss"])
        result = whole(sweep)
        for i in range(4):
            cell = tested(i)
            traj = lr.descend(cell.problem, 0.05, 5, at=sweep.at)
            want = measure.measured(traj, "test_loss", cell.test)
            np.testing.assert_allclose(result.values["test_loss"][i], want, rtol=1e-12)

    def test_exact_solutions(self):
        def solvable(i):
            return Cell(lr.Problem(WHITE, lr.inits.zero_balanced(i, sizes=(3, 4, 2), scale=0.1)), clock=1.0 + i)

        sweep = build(solvable, method="solve", axes={"i": [0, 1]}, observables=["loss", "mode_strengths"])
        result = whole(sweep)
        assert (result.status == COMPLETE).all()
        for i in range(2):
            traj = lr.solve(solvable(i).problem, 0.05 * (1 + i) * np.array(sweep.at))
            np.testing.assert_array_equal(result.values["loss"][i], traj.loss)
            np.testing.assert_array_equal(result.values["mode_strengths"][i], lr.observables.mode_strengths(traj))

    @pytest.mark.parametrize("method", ["descend", "flow", "solve"])
    def test_the_start_alone(self, method):
        """No work, and still the ticks of every cell."""
        result = whole(build("random_regression", method=method, axes={"seed": [0, 1]}, settings={}, at=[0],
                             observables=["loss"]))  # fmt: skip
        assert (result.status == COMPLETE).all() and result.values["loss"].shape == (2, 1)


class TestBadCells:
    """None of them costs the others anything."""

    def test_a_factory_that_raises(self):
        def fragile(i):
            if i == 0:
                raise lr.InvalidInput("i must not be 0.")
            if i == 2:
                raise KeyError("gone")
            return "nothing" if i == 3 else lr.Problem(ONE_OUTPUT, start(i))

        result = whole(build(fragile, axes={"i": [0, 1, 2, 3, 4]}))
        assert result.status.tolist() == [FAILED, COMPLETE, FAILED, FAILED, COMPLETE]
        assert told(result) == {
            (0,): "i must not be 0.",
            (2,): "KeyError: 'gone'",
            (3,): "problem must make a Problem or a Cell, and it makes a str.",
        }
        kinds = {place: cause.kind.rpartition(".")[2] for place, cause in result.causes.items()}
        assert kinds == {(0,): "fragile", (2,): "fragile", (3,): "cell"}  # where it was raised
        assert np.isnan(result.values["loss"][[0, 2, 3]]).all() and np.isfinite(result.values["loss"][[1, 4]]).all()

    @pytest.mark.parametrize("method", ["descend", "flow", "solve"])
    def test_all_of_them(self, method):
        def fragile(i):
            if i:
                raise ValueError("no")
            return lr.Problem(ONE_OUTPUT, start(i, "linear"))

        sweep = build(fragile, method=method, axes={"i": [0, 1, 2]}, block={"i": 1})
        ticks = []
        result = compute(sweep, sweep.block_at(2), ticks.append)
        assert result.status.tolist() == [FAILED] and told(result) == {(2,): "ValueError: no"} and sum(ticks) == 1

    def test_divergence(self):
        """nan from there on, the sentence of the engine, and neighbours as if it were not there."""

        def at_speed(i):
            return Cell(lr.Problem(ONE_OUTPUT, start(i)), clock=(1.0, 1e4, 1.0)[i])

        sweep = build(at_speed, axes={"i": [0, 1, 2]}, at=[0, 2, 60], observables=["loss", "kernel_distance", "cka"])
        result = whole(sweep)
        assert result.status.tolist() == [COMPLETE, STOPPED, COMPLETE]
        first = len(lr.descend(at_speed(1).problem, 0.05 * 1e4, 60).times)
        assert 2 < first < 60 and set(told(result)) == {(1,)}
        assert told(result)[1,].startswith(f"diverged at step {first} (t = {500 * first:g}) ")
        for value in result.values.values():
            assert np.isfinite(value[:, :2]).all() and np.isnan(value[1, 2]) and np.isfinite(value[[0, 2]]).all()
        np.testing.assert_allclose(
            result.values["loss"][2], lr.descend(at_speed(2).problem, 0.05, 60, at=sweep.at).loss
        )

    def test_a_loss_that_overflows_is_not_complete(self):
        """Weights of 1e90 are finite, and their loss is not."""

        def exploding(i):
            return lr.Problem(lr.Task.from_correlations([[1.0]]), lr.Network([[[10.0]], [[10.0]]]))

        result = whole(build(exploding, axes={"i": [0]}, at=[0, 2, 4], rate=1.0))
        assert result.status.tolist() == [STOPPED]
        assert np.isfinite(result.values["loss"][0, :2]).all() and np.isnan(result.values["loss"][0, 2])

    @pytest.mark.compiles
    def test_a_flow_that_stalls(self):
        """The weights overflow single precision before the first step."""

        def huge(i):
            return lr.Problem(ONE_OUTPUT, start(i, scale=(0.5, 1e40)[i]))

        result = whole(build(huge, method="flow", axes={"i": [0, 1]}, precision="float32"))
        assert result.status.tolist() == [COMPLETE, STOPPED] and list(result.causes) == [(1,)]
        assert told(result)[1,].startswith("stalled after ") and np.isnan(result.values["loss"][1]).all()

    def test_no_exact_solution(self):
        def perhaps(i):
            return lr.Problem((WHITE, TASK)[i], lr.inits.zero_balanced(i, sizes=(3, 4, 2), scale=0.1))

        result = whole(build(perhaps, method="solve", axes={"i": [0, 1]}))
        assert result.status.tolist() == [COMPLETE, FAILED] and "whitened inputs" in told(result)[1,]

    @pytest.mark.parametrize("method", ["descend", "flow"])
    def test_a_nonlinear_network_without_samples(self, method):
        def bare(i):
            return lr.Problem((ONE_OUTPUT, lr.Task.from_correlations(np.ones((1, 3))))[i], start(i))

        result = whole(build(bare, method=method, axes={"i": [0, 1]}))
        assert result.status.tolist() == [COMPLETE, FAILED] and "needs the samples of the task" in told(result)[1,]

    @pytest.mark.parametrize("activation", ["relu", "tanh", "linear"])
    def test_no_held_out_samples(self, activation):
        def untested(i):
            return Cell(lr.Problem(ONE_OUTPUT, start(i, activation)), None if i == 1 else ONE_OUTPUT)

        result = whole(build(untested, axes={"i": [0, 1, 2]}, observables=["test_loss", "loss"]))
        assert result.status.tolist() == [COMPLETE, COMPLETE, COMPLETE] and told(result) == {}
        sentence = "test_loss needs held-out samples, and this problem has none: try 'loss'."
        assert lacking(result) == {((1,), "test_loss"): sentence}
        assert np.isnan(result.values["test_loss"][1]).all() and np.isfinite(result.values["loss"]).all()

    @pytest.mark.parametrize("method", ["descend", "flow", "solve"])
    @pytest.mark.parametrize("clock", [float("nan"), float("inf"), -1.0, 0.0, "fast"])
    def test_a_clock_that_does_not_run(self, method, clock):
        def wound(i):
            return Cell(lr.Problem(ONE_OUTPUT, start(i, "linear")), clock=(1.0, clock)[i])

        sweep = build(wound, method=method, axes={"i": [0, 1]}, block={"i": 1})
        result = compute(sweep, sweep.block_at(1))
        assert result.status.tolist() == [FAILED] and "clock must be" in told(result)[1,]

    def test_an_observable_that_does_not_exist_for_a_cell(self):
        def kinds(i):
            return lr.Problem(TASK, start(i, ("linear", "tanh", "relu")[i], d_out=2))

        result = whole(build(kinds, axes={"i": [0, 1, 2]}, observables=["loss", "mode_strengths", "kernel_distance"]))
        assert result.status.tolist() == [COMPLETE, COMPLETE, COMPLETE]
        told = lacking(result)
        assert told[(1,), "mode_strengths"] == "mode_strengths belongs to linear networks, and this one is tanh."
        assert set(told) == {((1,), "mode_strengths"), ((2,), "mode_strengths")}
        assert np.isfinite(result.values["loss"]).all()
        assert np.isfinite(result.values["kernel_distance"]).all()

    def test_an_observable_of_another_size(self):
        """The store has one size for all cells. What does not fit is not kept; the others are."""

        def wide(i):
            return lr.Problem(TASK, start(i, h=4 + i, d_out=2))

        result = whole(build(wide, axes={"i": [0, 1]}, observables=["loss", "neuron_balance"]))
        assert result.status.tolist() == [COMPLETE, COMPLETE]
        sentence = "neuron_balance must have the size of the first cell, 4, and it has 5."
        assert lacking(result) == {((1,), "neuron_balance"): sentence}
        assert np.isnan(result.values["neuron_balance"][1]).all() and np.isfinite(result.values["loss"]).all()


class TestPlans:
    def test_template(self):
        found = template(build())
        assert list(found) == list(TOGETHER) and {variable.shape for variable in found.values()} == {()}
        assert found["loss"].long_name == "loss" and found["test_loss"].long_name == "loss on held-out samples"

    def test_template_from_the_first_cell_that_can_be_made(self):
        def late(i):
            if i < 3:
                raise ValueError("not yet")
            return lr.Problem(TASK, start(i, d_out=2))

        assert template(build(late, axes={"i": range(5)}, observables=["neuron_balance"]))["neuron_balance"].shape == (
            4,
        )
        for plan in (template, estimate):
            with pytest.raises(lr.InvalidInput, match=r"^none of the first cells of the sweep can be made: .*not yet$"):
                plan(build(late, axes={"i": range(3)}))

    def test_blocks(self):
        """Long runs in small blocks, short ones in large ones; a wish is heard."""
        axes = {"seed": {"range": 50}, "tau": {"linspace": [0.5, 2, 20]}}
        short, long = (with_blocks(build(axes=axes, at=[0, last])) for last in (10, 10**8))
        wish = build(axes=axes, block={"seed": 2})
        assert with_blocks(wish) is wish and short.blocks < long.blocks == long.cells == 1000
        assert (
            dataclasses.replace(short, block={})
            == dataclasses.replace(long, block={}, at=short.at)
            == build(axes=axes, at=[0, 10])
        )

    @pytest.mark.parametrize("at", [[0], [0, 2, 5]])
    @pytest.mark.parametrize("method", ["descend", "flow", "solve"])
    def test_estimate(self, method, at):
        sweep = build("random_regression", method=method, axes={"seed": [0, 1, 2]}, settings={"d_in": 3, "d_out": 2},
                      observables=["loss", "mode_strengths"], at=at, block={"seed": 2})  # fmt: skip
        plan = estimate(sweep)
        assert (plan.cells, plan.blocks, plan.device) == (3, 2, "cpu")
        assert plan.store == 3 * (len(at) * 3 * 8 + 1) and plan.memory > 2 * len(at) * 3 * 8
        assert 0 < plan.seconds_per_cell < 60
