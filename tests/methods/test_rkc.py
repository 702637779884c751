"""The stabilised flow: its order, its errors against SciPy, stiff and degenerate problems, and how it ends.

All of it through `lr.batch.flow` and `lr.flow`; the oracle differentiates the loss by hand and leaves the integration
to SciPy.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from oracles import integrate
from oracles.samples import velocity
from scipy.integrate import solve_ivp

import lazyrich as lr
from lazyrich.batch.api import in_precision
from lazyrich.batch.run import flow_stack
from lazyrich.batch.stack import stacked
from lazyrich.methods._rkc import _coefficients

pytestmark = pytest.mark.timeout(120)  # JAX may deadlock, and must not take the suite with it

TIMES = np.array([0.0, 0.3, 1.0, 4.0, 20.0])
SIZES, ONE_OUTPUT, DEEP, DEEPER = (3, 4, 2), (3, 4, 1), (3, 4, 3, 2), (3, 4, 3, 4, 2)


def task(rng, sizes=SIZES, samples=12, reduction="mean"):
    return lr.Task.from_data(
        rng.normal(size=(samples, sizes[0])), rng.normal(size=(samples, sizes[-1])), reduction=reduction
    )


def network(rng, activation="tanh", sizes=SIZES, scale=0.5):
    weights = [scale * rng.normal(size=shape) for shape in zip(sizes[1:], sizes[:-1], strict=True)]
    return lr.Network(weights, activation)


def flat(weights):
    return np.concatenate([np.reshape(W, (len(W), -1)) for W in weights], axis=1)


def oracle(problem, times=TIMES, method="DOP853"):
    """Flattened weights at each time."""
    start = flat([W[None] for W in problem.network.weights])[0]
    run = solve_ivp(velocity(problem), (0, times[-1]), start, method, t_eval=times, rtol=1e-11, atol=1e-13)
    assert run.success
    return run.y.T


def error(traj, want):
    """Largest error at any time, over the longest way from the start."""
    return np.abs(flat(traj.weights) - want).max() / np.linalg.norm(want - want[0], axis=1).max()


def gradients(traj):
    """How many an integration by lr.flow took."""
    return int(traj.notes[0].split()[-2])


def same(got, want):
    """To the last bit, and as long."""
    return got.status == want.status and np.array_equal(flat(got.weights), flat(want.weights))


def run_stack(problems, times, rtol, dtype=np.float64, **options):
    with in_precision(np.dtype(dtype).name), np.errstate(all="ignore"):
        stack = stacked(problems, np.arange(len(problems))[:, None], np.dtype(dtype))
        times = np.broadcast_to(np.asarray(times, float), (len(problems), 1, np.shape(times)[-1]))
        return flow_stack(stack, times, rtol, **options)


class TestCoefficients:
    @pytest.mark.parametrize("stages", [2, 3, 5, 17, 100, 250])
    def test_order_and_stability(self, stages):
        """y' = −λy: one step multiplies by R(−λh), which is e^{−λh} to second order and at most 1 up to the reach."""
        table, reach = _coefficients()

        def amplified(z):
            before, now = np.ones_like(z), 1 + table[stages, 1, 2] * z
            for mu, nu, mu_f, gamma_f in table[stages, 2 : stages + 1]:
                before, now = now, (1 - mu - nu) + mu * now + nu * before + mu_f * z * now + gamma_f * z
            return now

        small = np.array([-1e-2, -5e-3])
        assert (np.abs(amplified(small) - (1 + small + small**2 / 2)) <= np.abs(small) ** 3 / 6 + 1e-14).all()
        whole = amplified(np.linspace(-reach[stages], 0, 20_001))
        assert np.abs(whole).max() <= 1 + 1e-9
        assert reach[stages] == pytest.approx(0.653 * (stages**2 - 1), rel=1e-3)


class TestFollowsTheFlow:
    @pytest.mark.compiles
    @pytest.mark.parametrize("activation, sizes", [("tanh", SIZES), ("tanh", DEEP), ("linear", SIZES)])
    def test_with_layer_rates_and_weight_decay(self, rng, activation, sizes):
        rates = rng.uniform(0.3, 2, size=len(sizes) - 1)
        problems = [
            lr.Problem(task(rng, sizes), network(rng, activation, sizes), rates=rates, weight_decay=decay)
            for decay in (0.0, 0.1, 0.02)
        ]
        for problem, traj in zip(problems, lr.batch.flow(problems, TIMES, rtol=1e-6), strict=True):
            assert traj.status == "complete" and traj.times.tolist() == TIMES.tolist()
            assert error(traj, oracle(problem)) < 1e-4

    @pytest.mark.parametrize("activation, sizes", [("relu", ONE_OUTPUT), (0.3, SIZES)])
    def test_across_kinks(self, rng, activation, sizes):
        """Against many short steps of Euler's method, since SciPy gets stuck where the flow slides along a kink."""
        problem = lr.Problem(task(rng, sizes), network(rng, activation, sizes), weight_decay=0.02)
        right_side, state, h = velocity(problem), flat([W[None] for W in problem.network.weights])[0], 5e-4
        states = [state]
        for _ in range(2000):
            state = state + h * right_side(0, state)
            states.append(state)
        want = np.array(states)[::500]
        errors = [error(lr.flow(problem, np.linspace(0, 1, 5), rtol=rtol), want) for rtol in (1e-3, 1e-5)]
        assert errors[0] < 5e-3 and errors[1] < 5e-4

    def test_the_loss_may_be_a_sum(self, rng):
        problem = lr.Problem(task(rng, reduction="sum"), network(rng))
        times = TIMES / 12
        assert error(lr.flow(problem, times, rtol=1e-6), oracle(problem, times)) < 5e-5

    def test_linear_networks_with_correlations_only(self, rng):
        given = [lr.Task.from_correlations(rng.normal(size=(2, 3)), np.diag([2.0, 1.0, 0.5])) for _ in range(3)]
        problems = [lr.Problem(each, network(rng, "linear"), weight_decay=0.01) for each in given]
        for problem, traj in zip(problems, lr.batch.flow(problems, TIMES, rtol=1e-7), strict=True):
            start, sigmas = problem.network.weights, (problem.task.sigma_yx, problem.task.sigma_xx)
            assert error(traj, flat(integrate.weights(start, *sigmas, TIMES, decay=0.01))) < 1e-5

    @pytest.mark.compiles
    def test_second_order(self, rng):
        """Steps that end at each time to record, whatever their error: half as long, a quarter of the error."""
        problem = lr.Problem(task(rng), network(rng))
        want = oracle(problem, np.array([0.0, 4.0]))[1]
        steps, counts = np.arange(1, 161), np.array([40, 80, 160])
        run = run_stack([problem] * 3, (4 / counts[:, None] * steps)[:, None], rtol=1e6)
        ends = [flat([W[count - 1, i] for W in run.weights])[0] for i, count in enumerate(counts)]
        errors = [np.abs(end - want).max() for end in ends]
        assert 3.7 < errors[0] / errors[1] < 4.6 and 3.8 < errors[1] / errors[2] < 4.4

    def test_the_error_falls_with_the_tolerance(self, rng):
        """The estimate is of third order and the error of second: a thousandth of the tolerance, a hundredth."""
        problem = lr.Problem(task(rng), network(rng), rates=[0.5, 2.0], weight_decay=0.05)
        want = oracle(problem)
        runs = [lr.flow(problem, TIMES, rtol=rtol) for rtol in (1e-3, 1e-6, 1e-9)]
        errors, work = [error(run, want) for run in runs], [gradients(run) for run in runs]
        assert errors[0] < 5e-3 and errors[1] < errors[0] / 40 and errors[2] < errors[1] / 40
        assert work[1] < 20 * work[0] and work[2] < 20 * work[1]

    @pytest.mark.parametrize("activation, sizes", [("tanh", SIZES), ("relu", ONE_OUTPUT)])
    def test_descent_comes_nearer_with_its_rate(self, rng, activation, sizes):
        """Half the rate, half the distance; a kink may add to that or take from it."""
        problem, times = lr.Problem(task(rng, sizes), network(rng, activation, sizes)), TIMES / 4
        traj, apart = lr.flow(problem, times, rtol=1e-5), []
        for rate in (0.025, 0.0125, 0.00625):
            (descent,) = lr.batch.descend([problem], rate, int(np.round(times[-1] / rate)), at=np.round(times / rate))
            apart.append(error(traj, flat(descent.weights)))
        smooth = activation == "tanh"
        least, most = (1.9, 2.1) if smooth else (1.2, 4)
        assert all(least < far / near < most for far, near in itertools.pairwise(apart))

    @pytest.mark.parametrize("scale", [1e-8, 1e-3, 30.0])
    def test_any_scale_of_the_start(self, rng, scale):
        """A tiny start grows from its own size; a large one moves little, and that little is what counts."""
        W, a = network(rng, scale=1.0).weights
        problem = lr.Problem(task(rng), lr.Network([min(scale, 1.0) * W, scale * a], "tanh"))
        times = TIMES * (1.0 if scale < 1 else 1 / scale**2)
        assert error(lr.flow(problem, times, rtol=1e-8), oracle(problem, times)) < 2e-5

    def test_targets_zero(self, rng):
        given = lr.Task.from_data(rng.normal(size=(12, 3)), np.zeros((12, 2)))
        problem = lr.Problem(given, network(rng))
        assert error(lr.flow(problem, TIMES, rtol=1e-6), oracle(problem)) < 5e-5

    def test_a_layer_of_zeros(self, rng):
        W = rng.normal(size=(4, 3))
        problem = lr.Problem(task(rng), lr.Network([W, np.zeros((2, 4))], "tanh"))
        assert error(lr.flow(problem, TIMES, rtol=1e-6), oracle(problem)) < 5e-5

    @pytest.mark.parametrize("activation", ["tanh", 0.3])
    def test_networks_at_rest_stay(self, rng, activation):
        """All zeros; and a dead ReLU would be another, with weight decay as the only motion."""
        nothing = lr.Problem(task(rng), lr.Network([np.zeros((4, 3)), np.zeros((2, 4))], activation))
        traj = lr.flow(nothing, TIMES)
        assert traj.status == "complete" and not flat(traj.weights).any() and gradients(traj) < 200

    def test_a_dead_network_decays(self, rng):
        given = lr.Task.from_data(np.abs(rng.normal(size=(12, 3))), rng.normal(size=(12, 2)))
        W, a = -np.abs(rng.normal(size=(4, 3))), rng.normal(size=(2, 4))
        still, decaying = (
            lr.flow(lr.Problem(given, lr.Network([W, a], "relu"), weight_decay=decay), TIMES, rtol=1e-6)
            for decay in (0.0, 0.5)
        )
        assert still.status == "complete" and np.ptp(flat(still.weights), axis=0).max() == 0
        want = np.exp(-0.5 * TIMES)[:, None] * flat([W[None], a[None]])
        assert error(decaying, want) < 1e-5

    def test_a_minimum_is_kept(self, rng):
        """Targets that the network already meets: nothing moves but by rounding."""
        start = network(rng)
        inputs = rng.normal(size=(12, 3))
        given = lr.Task.from_data(inputs, np.tanh(inputs @ start.weights[0].T) @ start.weights[1].T)
        traj = lr.flow(lr.Problem(given, start), TIMES * 50)
        assert traj.status == "complete" and np.ptp(flat(traj.weights), axis=0).max() < 1e-12


class TestStiff:
    def stiff(self, rng, ratio):
        """One input so many times the others: rates from 1 to the square of that."""
        sizes = np.array([ratio, 1.0, 1.0])
        given = lr.Task.from_data(rng.normal(size=(12, 3)) * sizes, rng.normal(size=(12, 2)))
        return lr.Problem(given, lr.Network([rng.normal(size=(4, 3)) / sizes, rng.normal(size=(2, 4))], "tanh"))

    def test_long_horizons_take_few_gradients(self, rng):
        """A plain explicit method is bound to steps of 2 over the largest rate, all along the way."""
        problem, times = self.stiff(rng, 30.0), np.array([0.0, 10.0, 30.0, 60.0, 100.0])
        traj, right_side, fastest = lr.flow(problem, times), velocity(problem), []
        for state in flat(traj.weights):
            pushes = 1e-6 * np.eye(len(state))
            jacobian = [(right_side(0, state + push) - right_side(0, state - push)) / 2e-6 for push in pushes]
            fastest.append(np.abs(np.linalg.eigvals(np.array(jacobian))).max())
        bound = np.trapezoid(fastest, times) / 2
        assert traj.status == "complete" and (np.diff(traj.loss) < 0).all()
        assert bound > 1e4 and gradients(traj) < bound / 5

    @pytest.mark.compiles
    def test_and_end_where_an_implicit_method_ends(self, rng):
        problem, times = self.stiff(rng, 30.0), np.array([0.0, 1.0, 5.0, 20.0, 50.0])
        assert error(lr.flow(problem, times, rtol=1e-6), oracle(problem, times, "Radau")) < 1e-4


class TestManyAtOnce:
    def problems(self, rng, activation="tanh"):
        shared = task(rng)
        given = [shared, task(rng), shared, task(rng), shared, task(rng)]
        return [
            lr.Problem(t, network(rng, activation, scale=scale)) for t, scale in zip(given, [0.1, 1] * 3, strict=True)
        ]

    @pytest.mark.compiles
    def test_each_as_if_alone(self, rng):
        problems = self.problems(rng)
        for problem, traj in zip(problems, lr.batch.flow(problems, TIMES, rtol=1e-5), strict=True):
            assert error(traj, flat(lr.flow(problem, TIMES, rtol=1e-5).weights)) < 1e-9

    @pytest.mark.compiles
    def test_in_any_order(self, rng):
        problems, order = self.problems(rng), rng.permutation(6)
        straight = lr.batch.flow(problems, TIMES, rtol=1e-5)
        turned = lr.batch.flow([problems[i] for i in order], TIMES, rtol=1e-5)
        assert all(error(traj, flat(straight[i].weights)) < 1e-9 for i, traj in zip(order, turned, strict=True))

    @pytest.mark.compiles
    def test_one_that_diverges_takes_nothing_from_its_neighbours(self, rng):
        """Bit for bit what they are beside one that behaves."""
        tasks, start = [task(rng, DEEPER)] * 3, [network(rng, 0.3, DEEPER) for _ in range(3)]
        quiet = lr.batch.flow([lr.Problem(t, w) for t, w in zip(tasks, start, strict=True)], TIMES)
        start[1] = lr.Network([1e49 * W for W in start[1].weights], 0.3)
        wild = lr.batch.flow([lr.Problem(t, w) for t, w in zip(tasks, start, strict=True)], TIMES)
        assert same(wild[0], quiet[0]) and same(wild[2], quiet[2]) and quiet[2].status == "complete"
        assert wild[1].status.startswith("stalled after ") and wild[1].times.tolist() == [0.0]

    def test_one_row_of_times_per_problem(self, rng):
        """With the start in some of them only."""
        problems = self.problems(rng)
        rows = np.array([[0.0, 0.3, 1.0, 4.0], [0.3, 1.0, 4.0, 20.0], [0.0, 0.1, 0.2, 0.3]] * 2)
        for problem, row, traj in zip(problems, rows, lr.batch.flow(problems, rows, rtol=1e-6), strict=True):
            assert traj.times.tolist() == row.tolist() and traj.status == "complete"
            assert error(traj, oracle(problem, np.concatenate([[0.0], row[row > 0]]))[-4:]) < 1e-4

    @pytest.mark.compiles
    def test_single_precision(self, rng):
        problems = [lr.Problem(task(rng), network(rng)) for _ in range(3)]
        fine, coarse = (run_stack(problems, TIMES, 1e-3, dtype) for dtype in (np.float64, np.float32))
        errors = [
            worst / way
            for i in range(3)
            for want in [flat([W[:, i, 0] for W in fine.weights])]
            for worst in [np.abs(flat([W[:, i, 0] for W in coarse.weights]) - want).max()]
            for way in [np.linalg.norm(want - want[0], axis=1).max()]
        ]
        assert 1e-8 < max(errors) < 1e-4

    @pytest.mark.compiles
    @pytest.mark.parametrize("dtype, rtol", [(np.float32, 1e-5), (np.float64, 1e-13)])
    def test_a_tolerance_near_rounding_is_no_endless_run(self, rng, dtype, rtol):
        """Second order: some (1/rtol)^(1/3) steps, and not a million gradients on differences that are all rounding."""
        problems = [lr.Problem(task(rng), network(rng)) for _ in range(3)]
        assert run_stack(problems, TIMES / 20, rtol, dtype, most_gradients=100_000).status == ["complete"] * 3


class TestTimes:
    def test_zero_only(self, rng):
        problem = lr.Problem(task(rng), network(rng))
        for traj in (lr.flow(problem, [0.0]), *lr.batch.flow([problem, problem], [0.0])):
            assert traj.times.tolist() == [0.0] and traj.status == "complete"
            np.testing.assert_array_equal(flat(traj.weights), flat([W[None] for W in problem.network.weights]))

    def test_one_number_and_one_time(self, rng):
        problem = lr.Problem(task(rng), network(rng))
        want = oracle(problem, np.array([0.0, 1.0]))
        for traj in (lr.flow(problem, 1.0, rtol=1e-6), *lr.batch.flow([problem], 1.0, rtol=1e-6)):
            assert traj.times.tolist() == [1.0]
            assert np.abs(flat(traj.weights)[0] - want[1]).max() < 1e-4 * np.linalg.norm(want[1] - want[0])

    @pytest.mark.compiles
    def test_recording_more_often_costs_accuracy_nothing(self, rng):
        problem = lr.Problem(task(rng), network(rng))
        often, seldom = lr.flow(problem, np.linspace(0, 20, 401)), lr.flow(problem, np.linspace(0, 20, 5))
        want = oracle(problem, np.linspace(0, 20, 5))
        assert error(seldom, want) < 5e-3
        assert np.abs(flat(often.weights)[::100] - want).max() < np.abs(flat(seldom.weights) - want).max()

    def test_repeated_ones(self, rng):
        problem = lr.Problem(task(rng), network(rng))
        traj, once = lr.flow(problem, [0, 0, 0.3, 1, 1, 1, 4, 20, 20]), lr.flow(problem, TIMES)
        assert traj.times.tolist() == [0, 0, 0.3, 1, 1, 1, 4, 20, 20]
        np.testing.assert_array_equal(flat(traj.weights), flat(once.weights)[[0, 0, 1, 2, 2, 2, 3, 4, 4]])

    def test_very_near_to_each_other(self, rng):
        problem = lr.Problem(task(rng), network(rng))
        traj = lr.flow(problem, [1.0, np.nextafter(1.0, 2), 1 + 1e-12, 2.0])
        weights = flat(traj.weights)
        assert traj.status == "complete" and np.ptp(weights[:3], axis=0).max() < 1e-10 < np.ptp(weights)


class TestWhatIsKept:
    def test_the_loss_alone(self, rng):
        problem = lr.Problem(task(rng), network(rng))
        both, alone = lr.flow(problem, TIMES), lr.flow(problem, TIMES, record="loss")
        assert not alone.knows("weights") and both.knows("weights") and both.method == alone.method == "flow"
        np.testing.assert_array_equal(both.loss, alone.loss)
        np.testing.assert_array_equal(both.loss, lr.flow(problem, TIMES, record=("weights", "loss")).loss)
        X, Y = problem.task.inputs, problem.task.targets
        W, a = (layer[-1] for layer in both.weights)
        assert both.loss[-1] == pytest.approx(np.sum((Y - np.tanh(X @ W.T) @ a.T) ** 2) / 24, rel=1e-13)

    @pytest.mark.parametrize("name", ["function", "gram"])
    def test_no_matrix_of_a_nonlinear_network(self, rng, name):
        with pytest.raises(lr.InvalidInput, match=f"^record='{name}' belongs to linear networks, and this one is tanh"):
            lr.flow(lr.Problem(task(rng), network(rng)), TIMES, record=name)

    def test_absolute_tolerance_is_heard(self, rng):
        problem = lr.Problem(task(rng), network(rng))
        want = oracle(problem)
        coarse, fine = (lr.flow(problem, TIMES, rtol=1e-8, atol=atol) for atol in (2e-3, 1e-9))
        assert error(fine, want) < error(coarse, want) / 100 and gradients(coarse) < gradients(fine) / 10

    @pytest.mark.parametrize("rtol", [0, 1.0, 1e-15, "small"])
    @pytest.mark.usefixtures("unchecked_shapes")
    def test_tolerances_out_of_range(self, rng, rtol):
        with pytest.raises(lr.InvalidInput, match=r"^rtol must "):
            lr.flow(lr.Problem(task(rng), network(rng)), TIMES, rtol=rtol)


class TestHowItEnds:
    def test_max_steps_counts_gradients(self, rng):
        problem = lr.Problem(task(rng), network(rng))
        whole = lr.flow(problem, TIMES, rtol=1e-6)
        needed = gradients(whole)
        assert lr.flow(problem, TIMES, rtol=1e-6, max_steps=needed).status == "complete"
        part = lr.flow(problem, TIMES, rtol=1e-6, max_steps=needed - 1)
        assert part.status.startswith(f"stopped after {needed - 1} gradients, before t = 20: ")
        assert part.times.tolist() == TIMES[:-1].tolist()
        np.testing.assert_array_equal(flat(part.weights), flat(whole.weights)[:-1])

    def test_none_of_the_times(self, rng):
        with pytest.raises(
            RuntimeError, match=r"^flow reached none of the times: stopped after 1 gradients, before t = 1: "
        ):
            lr.flow(lr.Problem(task(rng), network(rng)), [1.0], max_steps=1)

    def test_numbers_that_overflow(self, rng):
        W, a = network(rng).weights
        problem = lr.Problem(lr.Task.from_data(1e149 * rng.normal(size=(12, 3)), 1e149 * rng.normal(size=(12, 2))),
                             lr.Network([1e40 * W, 1e40 * a], 0.3))  # fmt: skip
        traj = lr.flow(problem, TIMES)
        assert traj.times.tolist() == [0.0] and traj.status.startswith("stalled after ")
        assert "before t = 0.3" in traj.status

    @pytest.mark.parametrize("times, most", [(TIMES, 10**6), (TIMES, 60), (TIMES[:1], 10**6)])
    def test_progress_adds_up(self, rng, times, most):
        """To the whole, also where a run is given up and where there is nothing to do."""
        told = []
        problem = lr.Problem(task(rng), network(rng))
        run_stack([problem], times, 1e-3, tick=told.append, most_gradients=most)
        assert sum(told) == pytest.approx(1)

    def test_gradients_are_counted(self, rng):
        problems = [lr.Problem(task(rng), network(rng)) for _ in range(3)]
        run = run_stack(problems, TIMES, 1e-5)
        alone = [gradients(lr.flow(problem, TIMES, rtol=1e-5)) for problem in problems]
        assert run.gradients.ravel().tolist() == alone
