"""Teacher and student of two piecewise linear layers: data, starts, and what is measured along descent and flow.

Oracles are loops over neurons and samples, and mpmath for the scaling of the start.
"""

from __future__ import annotations

import re
from typing import ClassVar

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.samples import kind_of

import lazyrich as lr

pytestmark = pytest.mark.timeout(120)  # JAX may deadlock, and must not take the suite with it

SLOPES = [0.0, 0.2]
RATES = [None, (0.5, 2.0)]


def bent(z: float, slope: float) -> float:
    return z if z > 0 else slope * z


def active(z: float, slope: float) -> float:
    """σ'(z), γ at 0."""
    return 1.0 if z > 0 else slope


def student_problem(rng, slope=0.0, rates=None, d=4, h=6, n=8, tau=0.2, delta=0.3) -> lr.Problem:
    taught = lr.tasks.piecewise_teacher(rng, d=d, samples=n, test=5, slope=slope)
    start = lr.inits.symmetrised(rng, sizes=(d, h, 1), tau=tau, delta=delta, activation=slope)
    return lr.Problem(taught.train, start, rates)


class TestTeacher:
    @pytest.mark.parametrize("slope", [0.0, 0.3, 1.0])
    def test_labels_are_a_loop_over_its_neurons(self, rng, slope):
        taught = lr.tasks.piecewise_teacher(rng, d=5, neurons=4, samples=30, test=20, slope=slope)
        for task, count in ((taught.train, 30), (taught.test, 20)):
            assert task.inputs.shape == (count, 5) and task.targets.shape == (count, 1)
            for x, (y,) in zip(task.inputs, task.targets, strict=True):
                said = sum(a * bent(float(w @ x), slope) for w, a in zip(taught.w, taught.a, strict=True))
                assert y == pytest.approx(said, rel=1e-13, abs=1e-15)

    def test_inputs_and_neurons_are_uniform_on_the_sphere(self, rng):
        d, count = 4, 40_000
        inputs = lr.tasks.piecewise_teacher(rng, d=d, samples=count, test=1).train.inputs
        neurons = lr.tasks.piecewise_teacher(rng, d=d, neurons=count, samples=1, test=1).w
        for vectors in (inputs, neurons):
            np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-14)
            # E x = 0, E xxᵀ = I/d, E xᵢ⁴ = 3/(d(d+2)), E xᵢ²xⱼ² = 1/(d(d+2)), each within five standard errors
            squares = vectors**2
            mixed = squares[:, 0] * squares[:, 1]
            for values, mean in (
                (vectors, 0.0),
                (squares, 1 / d),
                (vectors[:, :1] * vectors[:, 1:], 0.0),
                (squares**2, 3 / (d * (d + 2))),
                (mixed, 1 / (d * (d + 2))),
            ):
                error = values.std(axis=0) / np.sqrt(count)
                assert np.all(np.abs(values.mean(axis=0) - mean) < 5 * error)

    def test_output_weights_are_signs(self, rng):
        a = lr.tasks.piecewise_teacher(rng, d=2, neurons=10_000, samples=1, test=1).a
        assert set(a) == {-1.0, 1.0} and abs(a.sum()) < 5 * np.sqrt(10_000)

    def test_train_and_test_are_other_points(self, rng):
        taught = lr.tasks.piecewise_teacher(rng, d=3, samples=50, test=50)
        gap = np.linalg.norm(taught.train.inputs[:, None] - taught.test.inputs, axis=2)
        assert gap.min() > 1e-4

    def test_neither_set_depends_on_the_size_of_the_other(self):
        few, many_test, many_train = (
            lr.tasks.piecewise_teacher(3, d=3, samples=samples, test=test)
            for samples, test in ((10, 10), (10, 40), (40, 10))
        )
        for other in (many_test, many_train):
            np.testing.assert_array_equal(other.w, few.w)
            np.testing.assert_array_equal(other.a, few.a)
        np.testing.assert_array_equal(many_test.train.inputs, few.train.inputs)
        np.testing.assert_array_equal(many_train.test.inputs, few.test.inputs)

    def test_seed_is_all_that_is_drawn(self):
        first, again, other = (lr.tasks.piecewise_teacher(seed, d=3, samples=5) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first.train.targets, again.train.targets)
        assert not np.array_equal(first.train.targets, other.train.targets)

    @pytest.mark.parametrize(
        ("wrong", "sentence"),
        [
            ({"slope": 2.0}, "slope must lie between 0 and 1, and it is 2."),
            ({"slope": -0.1}, "slope must be at least 0, and it is -0.1."),
            ({"samples": 0}, "samples must be at least 1, and it is 0."),
            ({"test": 0}, "test must be at least 1, and it is 0."),
            ({"neurons": 0}, "neurons must be at least 1, and it is 0."),
            ({"d": 0}, "d must be at least 1, and it is 0."),
            ({"d": 2.5}, "d must be a whole number, and it is 2.5."),
        ],
    )
    def test_what_cannot_be_is_one_sentence(self, wrong, sentence, unchecked_shapes):
        with pytest.raises(lr.InvalidInput) as error:
            lr.tasks.piecewise_teacher(0, **({"d": 3, "samples": 4} | wrong))
        assert str(error.value) == sentence


class TestStart:
    @pytest.mark.parametrize("activation", ["relu", 0.2])
    def test_predicts_zero_on_any_input(self, rng, activation):
        start = lr.inits.symmetrised(rng, sizes=(5, 8, 1), tau=0.3, delta=-0.7, activation=activation)
        assert kind_of(start) == activation
        slope = 0.0 if activation == "relu" else activation
        W, (a,) = start.weights
        for x in 10.0 ** rng.uniform(-3, 3, size=(50, 1)) * rng.normal(size=(50, 5)):
            pairs = [a[k] * bent(W[k] @ x, slope) + a[k + 4] * bent(W[k + 4] @ x, slope) for k in range(4)]
            assert pairs == [0.0] * 4

    def test_neurons_come_in_pairs(self, rng):
        W, (a,) = lr.inits.symmetrised(rng, sizes=(6, 10, 1), tau=0.5, delta=0.4).weights
        np.testing.assert_array_equal(W[:5], W[5:])
        np.testing.assert_array_equal(a[:5], -a[5:])
        gap = np.linalg.norm(W[:5, None] - W[:5], axis=2) + np.eye(5)
        assert gap.min() > 0.1 * np.linalg.norm(W[0])  # and no two pairs are one

    def test_tau_and_delta_rescale_one_base_start(self):
        base, other = (lr.inits.symmetrised(7, sizes=(3, 6, 1), **at) for at in ({}, {"tau": 0.1, "delta": 0.9}))
        np.testing.assert_allclose(np.linalg.norm(base.weights[0], axis=1), 1.0, rtol=1e-14)
        assert set(base.weights[1][0]) <= {-1.0, 1.0}
        again = lr.inits.rescaled(base, tau=0.1, delta=0.9)
        for W, V in zip(other.weights, again.weights, strict=True):
            np.testing.assert_array_equal(W, V)

    def test_seeds_draw_other_neurons(self):
        first, again, other = (lr.inits.symmetrised(seed, sizes=(3, 6, 1)).weights[0] for seed in (1, 1, 2))
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)

    @given(
        log_tau=st.floats(-4, 4),
        delta=st.one_of(st.just(0.0), st.builds(lambda s, p: s * 10.0**p, st.sampled_from([-1, 1]), st.floats(-9, 6))),
    )
    def test_every_neuron_has_the_balance_asked_for(self, log_tau, delta):
        """Against α of mpmath with 60 digits, entry by entry, and δ_k relative to τ² + |δ|."""
        tau = 10.0**log_tau
        base = lr.inits.symmetrised(0, sizes=(3, 4, 1))
        W, (a,) = lr.inits.rescaled(base, tau=tau, delta=delta).weights
        with mpmath.workdps(60):
            t, ratio = mpmath.mpf(tau), mpmath.mpf(delta) / mpmath.mpf(tau) ** 2
            alpha = mpmath.sqrt((ratio + mpmath.sqrt(ratio**2 + 4)) / 2)  # δ = τ²(α² − α⁻²)
            into, out = t / alpha, t * alpha
            for k in range(4):
                for entry, unit in zip(W[k], base.weights[0][k], strict=True):
                    assert abs(mpmath.mpf(float(entry)) - into * float(unit)) <= 1e-12 * abs(into * float(unit))
                assert abs(mpmath.mpf(float(a[k])) - out * float(base.weights[1][0, k])) <= 1e-12 * out
                length = sum(mpmath.mpf(float(entry)) ** 2 for entry in W[k])
                balance = mpmath.mpf(float(a[k])) ** 2 - length
                assert abs(balance - delta) <= 1e-12 * (t**2 + abs(delta))

    def test_a_rescaled_network_is_the_same_function_times_tau_squared(self, rng):
        W, a, X = rng.normal(size=(5, 3)), rng.normal(size=5), rng.normal(size=(20, 3))
        scaled = lr.inits.rescaled(lr.Network([W, a[None]], 0.3), tau=0.4, delta=2.0)
        assert scaled.activation.gamma == 0.3
        V, (b,) = scaled.weights
        for x in X:
            before = sum(a[k] * bent(W[k] @ x, 0.3) for k in range(5))
            after = sum(b[k] * bent(V[k] @ x, 0.3) for k in range(5))
            assert after == pytest.approx(0.16 * before, rel=1e-12, abs=1e-14)

    @pytest.mark.parametrize(
        ("call", "sentence"),
        [
            (
                lambda: lr.inits.symmetrised(0, sizes=(3, 5, 1)),
                "sizes must be (inputs, an even width, 1) for symmetrised neurons, and it is (3, 5, 1).",
            ),
            (
                lambda: lr.inits.symmetrised(0, sizes=(3, 4, 2)),
                "sizes must be (inputs, an even width, 1) for symmetrised neurons, and it is (3, 4, 2).",
            ),
            (
                lambda: lr.inits.symmetrised(0, sizes=(3, 4, 4, 1)),
                "sizes must name 3 widths (input, hidden, output), and it is (3, 4, 4, 1).",
            ),
            (lambda: lr.inits.symmetrised(0, sizes=(3, 4, 1), tau=0.0), "tau must be above 0, and it is 0."),
            (
                lambda: lr.inits.symmetrised(0, sizes=(3, 4, 1), delta=np.inf),
                "delta must be finite, and 1 of its 1 entries are NaN or infinite.",
            ),
            (
                lambda: lr.inits.rescaled(lr.Network([np.eye(2), np.eye(2), np.eye(2)]), tau=1.0, delta=0.0),
                "network must have two layers, and it is <Network: 2-2-2-2, linear>.",
            ),
        ],
    )
    def test_what_cannot_be_is_one_sentence(self, call, sentence, unchecked_shapes):
        with pytest.raises(lr.InvalidInput) as error:
            call()
        assert str(error.value) == sentence


def looped_kernel(W, a, X, slope, rates):
    """K_ij = Σ_k c_ki x_iᵀ(η_w a_k² I + η_a w_kw_kᵀ)x_j c_kj."""
    n, (eta_w, eta_a) = len(X), rates or (1.0, 1.0)
    K = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            for w, a_k in zip(W, a, strict=True):
                both = active(w @ X[i], slope) * active(w @ X[j], slope)
                K[i, j] += both * (eta_w * a_k**2 * (X[i] @ X[j]) + eta_a * (w @ X[i]) * (w @ X[j]))
    return K


@pytest.mark.parametrize("slope", SLOPES)
@pytest.mark.parametrize("rates", RATES)
class TestMeasuredAlongDescent:
    def test_neurons(self, rng, slope, rates):
        run = lr.descend(student_problem(rng, slope, rates), 0.1, 400, at=[0, 3, 50, 400])
        eta_w, eta_a = rates or (1.0, 1.0)
        balance, (mu, direction) = lr.observables.neuron_balance(run), lr.observables.neuron_coordinates(run)
        for t, (W, (a,)) in enumerate(zip(*run.weights, strict=True)):
            for k in range(len(a)):
                length = sum(entry**2 for entry in W[k]) ** 0.5
                assert balance[t, k] == pytest.approx(eta_w * a[k] ** 2 - eta_a * length**2, rel=1e-12, abs=1e-14)
                assert mu[t, k] == pytest.approx(a[k] * length, rel=1e-13)
                np.testing.assert_allclose(direction[t, k], W[k] / length, rtol=1e-13)
        assert np.abs(direction[-1] - direction[0]).max() > 0.1  # it did turn

    def test_distances(self, rng, slope, rates):
        run = lr.descend(student_problem(rng, slope, rates), 0.1, 400, at=[0, 3, 50, 400])
        X, (W0, (a0,)) = run.problem.task.inputs, (layer[0] for layer in run.weights)
        K0 = looped_kernel(W0, a0, X, slope, rates)
        S, hamming = lr.observables.kernel_distance(run), lr.observables.hamming_distance(run)
        moved = lr.observables.parameter_distance(run)
        for t, (W, (a,)) in enumerate(zip(*run.weights, strict=True)):
            K = looped_kernel(W, a, X, slope, rates)
            cosine = np.sum(K * K0) / (np.linalg.norm(K) * np.linalg.norm(K0))
            assert S[t] == pytest.approx(1 - cosine, rel=1e-10, abs=1e-14)
            changed = sum((w @ x > 0) != (w0 @ x > 0) for w, w0 in zip(W, W0, strict=True) for x in X)
            assert hamming[t] == changed / (len(W) * len(X))
            squares = sum((now - then) ** 2 for now, then in zip(W.ravel(), W0.ravel(), strict=True))
            squares += sum((now - then) ** 2 for now, then in zip(a, a0, strict=True))
            assert moved[t] == pytest.approx(squares**0.5, rel=1e-13)
        assert S[-1] > 0.01 and hamming[-1] > 0

    def test_balance_drifts_by_the_squares_of_the_steps_alone(self, rng, slope, rates):
        """What is linear in a step cancels exactly: Δδ_k = η_w(Δa_k)² − η_a‖Δw_k‖², summed over the steps."""
        run = lr.descend(student_problem(rng, slope, rates), 0.1, 200, at=np.arange(201))
        eta_w, eta_a = rates or (1.0, 1.0)
        balance, (W, a) = lr.observables.neuron_balance(run), run.weights
        steps = eta_w * np.diff(a[:, 0], axis=0) ** 2 - eta_a * np.sum(np.diff(W, axis=0) ** 2, axis=2)
        np.testing.assert_allclose(balance[1:] - balance[0], np.cumsum(steps, axis=0), rtol=0, atol=1e-13)

    def test_drift_of_balance_is_proportional_to_the_rate(self, rng, slope, rates):
        problem, end, drifts = student_problem(rng, slope, rates), 20.0, []
        for rate in (0.02, 0.01, 0.005):
            balance = lr.observables.neuron_balance(lr.descend(problem, rate, round(end / rate), at=[0, end / rate]))
            drifts.append(np.linalg.norm(balance[1] - balance[0]))
        # twice as small with half the rate, up to terms of second order, which halve too
        first, second = drifts[0] / drifts[1] - 2, drifts[1] / drifts[2] - 2
        assert abs(first) < 0.1 and abs(second) < 0.05


def predictions(run) -> np.ndarray:
    """(T, n), on the samples."""
    kind, X = kind_of(run.problem.network), run.problem.task.inputs
    slope = 0.0 if kind == "relu" else kind
    z = [X @ W.T for W in run.weights[0]]
    return np.array([np.where(x > 0, x, slope * x) @ a[0] for x, a in zip(z, run.weights[1], strict=True)])


def gradients_of(flow: lr.Trajectory) -> int:
    return int(re.search(r"(\d+) gradients", flow.notes[0])[1])


class TestFlow:
    """On enough samples that a kink is a small matter; on a handful the flow slides along them, as descent does."""

    TIMES = (0.0, 1.0, 10.0, 100.0)
    SIZES: ClassVar = {"d": 6, "h": 8, "n": 120, "tau": 0.3, "delta": 0.2}
    CORNERS: ClassVar = [(tau, delta) for tau in (0.1, 1.0, 2.0) for delta in (-1.0, 0.0, 1.0)]

    @pytest.mark.compiles
    @pytest.mark.parametrize(("slope", "rates"), [(0.0, None), (0.2, (0.5, 2.0))])
    def test_descent_comes_closer_in_proportion_to_its_rate(self, rng, slope, rates):
        """The median of seven problems, downstream, where w never vanishes: upstream it may pass close to 0, and small
        differences decide where to."""
        ratios = []
        for _ in range(7):
            problem = student_problem(rng, slope, rates, **(self.SIZES | {"delta": -0.2}))
            flow, gaps = predictions(lr.flow(problem, self.TIMES, rtol=2e-5)), []
            for rate in (0.2, 0.05):
                steps = np.round(np.array(self.TIMES) / rate).astype(int)
                run = predictions(lr.descend(problem, rate, int(steps[-1]), at=steps))
                gaps.append(np.sqrt(np.mean((run - flow) ** 2, axis=1)).max())
            ratios.append(gaps[0] / gaps[1])
        assert 3 < np.median(ratios) < 5  # 4 is first order

    @pytest.mark.compiles
    @pytest.mark.parametrize(("tau", "delta"), CORNERS)
    def test_half_the_tolerance_changes_little(self, rng, tau, delta):
        problem = student_problem(rng, d=20, h=20, n=200, tau=tau, delta=delta)
        times = np.array([0.0, 1e2, 1e3, 1e4, 1e5]) * 0.001 / tau**2
        given, half = lr.flow(problem, times), lr.flow(problem, times, rtol=5e-4)
        assert given.status == half.status == "complete"
        np.testing.assert_allclose(given.loss, half.loss, rtol=0, atol=1e-3 * given.loss[0])

    @pytest.mark.compiles
    @pytest.mark.parametrize("tau", [1.0, 2.0])
    def test_weights_that_hardly_move_are_followed_too(self, rng, tau):
        """Where learning is lazy all that is learned is a small part of the weights, and the error must be less."""
        problem = student_problem(rng, d=20, h=20, n=200, tau=tau, delta=0.0)
        times = np.array([0.0, 1e2, 1e3, 1e4, 1e5]) * 0.001 / tau**2
        given, fine = lr.flow(problem, times), lr.flow(problem, times, rtol=1e-5)
        np.testing.assert_allclose(given.loss, fine.loss, rtol=0, atol=1e-3 * given.loss[0])

    @pytest.mark.compiles
    @pytest.mark.parametrize("slope", SLOPES)
    @pytest.mark.parametrize("rates", RATES)
    def test_balance_is_conserved_within_the_tolerance(self, rng, slope, rates):
        problem = student_problem(rng, slope, rates, **self.SIZES)
        for rtol in (1e-3, 1e-4):
            run = lr.flow(problem, self.TIMES, rtol=rtol)
            balance, size = lr.observables.neuron_balance(run), sum(np.sum(W[-1] ** 2) for W in run.weights)
            assert np.abs(balance - balance[0]).max() < rtol * size

    @pytest.mark.parametrize(("tau", "delta"), CORNERS)
    def test_long_horizons_take_few_gradients(self, rng, tau, delta):
        """At most a twentieth of the steps of descent that go as far, 100 000 at 0.001/τ²."""
        problem = student_problem(rng, d=20, h=20, n=200, tau=tau, delta=delta)
        run = lr.flow(problem, [0.0, 100 / tau**2], rtol=4e-3)
        assert run.status == "complete" and gradients_of(run) <= 100_000 / 20

    def test_records_the_loss_alone(self, rng):
        problem = student_problem(rng, **self.SIZES)
        run = lr.flow(problem, self.TIMES, record="loss")
        np.testing.assert_allclose(run.loss, lr.flow(problem, self.TIMES).loss, rtol=1e-12)
        assert not run.knows("weights")
