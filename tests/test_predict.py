"""`predict`: exact where a theorem applies, else integrated, with an error that holds."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import with_biases
from oracles.samples import velocity
from scipy.integrate import DOP853, solve_ivp
from sklearn.datasets import load_wine

import lazyrich as lr
from lazyrich.prediction import by_gram, looking

TASK = lr.Task.from_correlations(np.diag([3.0, 1.0]))


def on_samples(rng, activation, sizes=(4, 6, 2)):
    task = lr.Task.from_data(rng.normal(size=(30, sizes[0])), rng.normal(size=(30, sizes[-1])))
    return lr.Problem(task, lr.inits.gaussian(rng, sizes=sizes, scale=0.4, activation=activation))


def integrated(problem, times, per_unit=500):
    """The loss along a classical Runge–Kutta run with fixed steps, which kinks of ReLUs cannot stall."""
    y, now, f, h = np.concatenate([W.ravel() for W in problem.network.weights]), 0.0, velocity(problem), 1 / per_unit
    ends = np.cumsum([W.size for W in problem.network.weights])[:-1]
    losses = []
    for time in times:
        for _ in range(round((time - now) * per_unit)):
            k1 = f(0, y)
            k2 = f(0, y + h / 2 * k1)
            k3 = f(0, y + h / 2 * k2)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + f(0, y + h * k3))
        now = time
        layers = [p.reshape(W.shape) for p, W in zip(np.split(y, ends), problem.network.weights, strict=True)]
        outputs = lr.Network(layers, problem.network.activation)(problem.task.inputs)
        losses.append(np.mean(np.sum((problem.task.targets - outputs) ** 2, axis=1)) / 2)
    return np.array(losses)


def test_exact_where_a_theorem_applies():
    problem = lr.Problem(TASK, lr.inits.zero_balanced(0, sizes=(2, 3, 2), scale=0.1))
    found = lr.predict(problem)
    assert found.exact and found.method == "riccati" and found.refusals == {} and found.error <= 1e-12
    np.testing.assert_array_equal(found.trajectory.loss, lr.solve(problem, found.trajectory.times).loss)
    np.testing.assert_allclose(found.half_times, lr.fate(problem).half_times)
    assert found.regime == found.fate.regime
    assert str(found).startswith("network       2-3-2, linear\nknown by      riccati (exact)\nloss ")


@pytest.mark.compiles
@pytest.mark.parametrize("activation", ["linear", "tanh", "relu"])
def test_integrated_elsewhere_and_the_error_holds(rng, activation):
    problem = on_samples(rng, activation)
    found = lr.predict(problem, np.linspace(0.0, 4.0, 5))
    assert not found.exact and found.fate is None and found.method == "flow"
    assert set(found.refusals) == set(problem.facts.methods) and all(found.refusals.values())
    truth = integrated(problem, found.trajectory.times)
    off = np.abs(found.trajectory.loss - truth).max() / truth.max()
    assert off <= found.error + 1e-9 and found.error <= (1e-6 if activation == "linear" else 1e-2)
    assert found.half_times.shape == (2,) and "integrated" in str(found)
    assert (found.regime is None) == (activation == "tanh")


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_modes_of_a_nonlinear_network_are_correlations_of_its_outputs(rng, reduction):
    """As Σyx is of the targets; an input that hardly varies, on which a nearest linear map would stand, has no say."""
    X, Y = rng.normal(size=(30, 4)) * [1.0, 1.0, 1.0, 1e-6], rng.normal(size=(30, 2))
    task = lr.Task.from_data(X, Y / (1 if reduction == "mean" else 30), reduction=reduction)
    problem = lr.Problem(task, lr.inits.gaussian(rng, sizes=(4, 6, 2), scale=0.4, activation="relu"))
    found = lr.predict(problem, [0.0, 1.0])
    outputs = found.trajectory.network(-1)(X)
    correlation = sum(np.outer(f, x) for f, x in zip(outputs, X, strict=True)) / (30 if reduction == "mean" else 1)
    U, s, Vt = np.linalg.svd(problem.task.sigma_yx)
    np.testing.assert_allclose(np.abs(found.strengths[-1]), np.abs(np.diag(U.T @ correlation @ Vt.T)), atol=1e-10)
    np.testing.assert_allclose(found.frames.target, s, rtol=1e-12)
    np.testing.assert_allclose(found.last_function, correlation, atol=1e-12)
    assert "strengths are uᵀE[f xᵀ]v" in str(found)
    image = found.plot().axes[2].images[0].get_array()
    np.testing.assert_allclose(image, np.cov(outputs.T, X.T, bias=True)[:2, 2:], atol=1e-12)


def caption(figure):
    return "" if figure._supxlabel is None else " ".join(figure._supxlabel.get_text().split())


def test_notes_stand_in_the_picture():
    """Whatever is noted of an answer, in few words; and nothing where there is nothing to note."""
    problem = lr.Problem(TASK, lr.inits.gaussian(3, sizes=(2, 3, 2), scale=0.1))
    whole, early = lr.predict(problem), lr.predict(problem, [0.0, 0.1, 0.2])
    assert whole.cautions == () and caption(whole.plot()) == ""
    assert "the loss is still falling at t = 0.2" in caption(early.plot())
    assert "2 of 2 modes still on the way" in caption(early.plot())
    single = lr.Network([W.astype(np.float32) for W in problem.network.weights])
    found = lr.predict(lr.Problem(TASK, single))
    assert caption(found.plot()) == "Note: input in float32" and "came in float32" in str(found)
    balanced = lr.Network([W.astype(np.float32) for W in lr.inits.zero_balanced(0, sizes=(2, 3, 2), scale=0.1).weights])
    exact = lr.predict(lr.Problem(TASK, balanced))
    assert exact.exact and "float32" in caption(exact.plot()) and str(exact).count("came in float32") == 1


def test_a_mode_that_is_never_learned_and_a_run_that_stops_early_are_noted_in_the_picture(rng, monkeypatch):
    task = lr.Task.from_data(rng.normal(size=(20, 2)) * [2.0, 0.5], rng.normal(size=(20, 2)))
    starts = (lr.Problem(task, lr.inits.zero_balanced(seed, sizes=(2, 2, 2), scale=0.3)) for seed in range(20))
    obstructed = next(problem for problem in starts if problem.facts.determinant_obstruction)
    assert "one mode is never learned" in caption(lr.predict(obstructed, [0.0, 1.0]).plot())
    monkeypatch.setattr(by_gram, "STEPS", 30)
    found = lr.predict(lr.Problem(task, lr.inits.gaussian(0, sizes=(2, 5, 2), scale=0.3)), [0.0, 0.1, 1e5])
    assert "stopped at t = " in caption(found.plot()) and found.trajectory.times[-1] < 1e5


@pytest.mark.parametrize("share", [0.5, 2.0])
def test_still_falling_is_one_number(share):
    """Of what is given, in the last tenth of the time."""
    times = np.array([0.0, 0.9, 1.0])
    assert looking.falls(times, np.array([1.0, share * looking.FALLING, 0.0]), 1.0) is (share > 1)


def test_times_are_checked():
    with pytest.raises(lr.InvalidInput, match="times must be sorted"):
        lr.predict(lr.Problem(TASK, lr.inits.gaussian(0, sizes=(2, 3, 2), scale=0.1)), [1.0, 0.5])


@pytest.mark.parametrize("init", [lr.inits.gaussian, lr.inits.zero_balanced])
def test_what_happens_does_not_depend_on_the_times_asked_for(init):
    problem = lr.Problem(TASK, init(3, sizes=(2, 3, 2), scale=0.1))
    whole, early = lr.predict(problem), lr.predict(problem, [0.0, 0.1, 0.2])
    np.testing.assert_allclose(early.half_times, whole.half_times, rtol=1e-6)
    np.testing.assert_allclose(early.limit, whole.limit, rtol=1e-6)
    assert early.trajectory.times.tolist() == [0.0, 0.1, 0.2] and early.strengths.shape == (3, 2)
    assert early.regime.name == whole.regime.name and repr(early).startswith("<Prediction: ")
    assert "still falling" not in str(whole)


def test_forever_needs_a_theorem():
    problem = lr.Problem(TASK, lr.inits.gaussian(0, sizes=(2, 3, 2), scale=0.1))
    with pytest.raises(lr.InvalidInput, match=r"times must be finite where no exact .* the last is inf: try predict"):
        lr.predict(problem, [0.0, np.inf])


@pytest.mark.compiles
def test_half_times_do_not_depend_on_the_times_and_fast_modes_are_seen():
    """A mode that is over within the first of 201 equal steps; the truth by a dense integration."""
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(12, 2)) * [3.0, 0.3], rng.normal(size=(12, 1))
    problem = lr.Problem(lr.Task.from_data(X, Y), lr.Network([[[3.0, 0.5], [0.0, 1.0]], [[2.0, 1.0]]]))
    found, again = lr.predict(problem), lr.predict(problem, np.linspace(0, 1, 5001))
    np.testing.assert_allclose(again.half_times, found.half_times, rtol=1e-7)
    assert again.regime.kernel_movement == pytest.approx(found.regime.kernel_movement, rel=1e-6)
    dense = lr.predict(problem, np.linspace(0, 0.1, 20001))
    way = (dense.strengths - dense.strengths[0]) / (found.limit - dense.strengths[0])
    assert found.half_times[0] == pytest.approx(dense.trajectory.times[np.argmax(way[:, 0] >= 0.5)], rel=0.01)


@pytest.mark.parametrize("hidden", [3, 40])
def test_networks_with_biases_against_the_flow_by_hand(rng, hidden):
    """Default weights and biases of PyTorch on data with a mean, two layers, whatever the width."""
    X, Y = rng.normal(size=(50, 6)) + 0.5, rng.normal(size=(50, 3)) + 1.0
    W = [rng.uniform(-1, 1, size=(hidden, 6)) / 6**0.5, rng.uniform(-1, 1, size=(3, hidden)) / hidden**0.5]
    b = [rng.uniform(-1, 1, size=hidden) / 6**0.5, rng.uniform(-1, 1, size=3) / hidden**0.5]
    found = lr.predict(lr.Problem(lr.Task.from_data(X, Y), lr.Network(W, biases=b)), [0.0, 0.3, 1.0, 4.0])
    assert not found.exact and found.closed_form is None and found.error < 1e-5
    truth = []
    for time in found.trajectory.times:
        weights, biases = with_biases.flow(W, b, "linear", X, Y, time, rates=(1.0, 1.0)) if time else (W, b)
        truth.append(with_biases.loss(weights, biases, "linear", X, Y))
    np.testing.assert_allclose(found.trajectory.loss, truth, rtol=1e-6)
    assert found.regime is not None and "with biases" in str(found)


@pytest.mark.parametrize("activation", ["linear", "relu", "tanh"])
def test_picture_with_a_training_run_below(rng, tmp_path, activation):
    problem = on_samples(rng, activation)
    found, run = lr.predict(problem), lr.descend(problem, rate=0.01, steps=200)
    figure = found.plot(tmp_path / "mine.png", run=run)
    assert (tmp_path / "mine.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    losses, modes = figure.axes[:2]
    trained, predicted = losses.lines
    np.testing.assert_array_equal(trained.get_ydata(), run.loss)
    assert trained.get_linewidth() > 3 * predicted.get_linewidth() and trained.get_alpha() < 0.5
    for drawn, values in ((predicted, found.trajectory.loss), (modes.lines[2], found.strengths[:, 0])):
        asked = np.isin(drawn.get_xdata(), found.trajectory.times)  # and times between
        np.testing.assert_array_equal(np.asarray(drawn.get_ydata())[asked], values)
    np.testing.assert_array_equal(modes.lines[1].get_ydata(), found.strengths_of(run)[:, 1])
    of_loss = lr.descend(problem, rate=0.01, steps=20, record="loss")
    assert len(found.plot(run=of_loss).axes[1].lines) < len(modes.lines)


def test_picture_of_another_network_is_refused(rng):
    found, other = lr.predict(on_samples(rng, "linear")), on_samples(rng, "linear", sizes=(4, 5, 2))
    with pytest.raises(lr.InvalidInput, match="run must be of the network that is predicted, 4-6-2, linear, and it is"):
        found.plot(run=lr.descend(other, rate=0.01, steps=5))


def test_a_run_of_another_task_is_refused(rng):
    problem = on_samples(rng, "linear")
    other = lr.Task.from_data(problem.task.inputs, -5 * problem.task.targets)
    run = lr.descend(lr.Problem(other, problem.network), rate=0.01, steps=5)
    with pytest.raises(lr.InvalidInput, match="run must be of the task that is predicted, and sigma_yx of its task"):
        lr.predict(problem).plot(run=run)


@pytest.mark.parametrize("apart", [1e-6, 1e-7])
def test_deep_networks_on_nearly_collinear_inputs_go_on(rng, apart):
    """The loss is accurate there, and so never seems to rise."""
    X = rng.normal(size=(60, 4))
    X[:, 3] = X[:, 0] + apart * rng.normal(size=60)
    task = lr.Task.from_data(X, X[:, :3] @ rng.normal(size=(3, 2)) + 0.1 * rng.normal(size=(60, 2)))
    problem = lr.Problem(task, lr.inits.pytorch(0, sizes=(4, 6, 5, 2), biases=False))
    found = lr.predict(problem)
    assert found.trajectory.times[-1] > 1 and not found.trajectory.notes and found.error < 1e-5
    np.testing.assert_allclose(
        found.trajectory.loss[-1], integrated(problem, found.trajectory.times[-1:])[-1], rtol=1e-6
    )


def test_a_run_on_a_logarithmic_axis_begins_at_its_first_step():
    """A line from t = 0 would run flat to the first record, at a loss that the network never kept."""
    problem = lr.Problem(
        lr.Task.from_correlations(np.diag([100.0, 2.0])), lr.inits.gaussian(0, sizes=(2, 5, 2), scale=0.3)
    )
    run = lr.descend(problem, rate=0.002, steps=100)
    figure = lr.predict(problem, np.linspace(0, 10, 50)).plot(run=run)
    assert figure.axes[0].get_xscale() == "log"
    assert not np.isfinite(figure.axes[0].transData.transform([0.0, 1.0])).all()
    at_zero = figure.axes[0].lines[-1]  # its first record is marked at the left end
    assert at_zero.get_marker() == ">" and at_zero.get_ydata() == [run.loss[0]]
    assert at_zero.get_xdata() == [figure.axes[0].get_xlim()[0]]
    late = lr.descend(problem, rate=0.002, steps=100, at=[50, 100])
    assert all(line.get_marker() != ">" for line in lr.predict(problem).plot(run=late).axes[0].lines)


def gram_flow(problem, times):
    """W at each time, from SciPy's integration of both layers."""
    (W1, W2), task = problem.network.weights, problem.task

    def layers(y):
        return y[: W1.size].reshape(W1.shape), y[W1.size :].reshape(W2.shape)

    def flow(_, y):
        V1, V2 = layers(y)
        E = task.sigma_yx - V2 @ V1 @ task.sigma_xx
        return np.concatenate([(V2.T @ E).ravel(), (E @ V1.T).ravel()])

    y0 = np.concatenate([W1.ravel(), W2.ravel()])
    run = solve_ivp(flow, (0, times[-1]), y0, method="LSODA", rtol=1e-9, atol=1e-11, t_eval=times)
    return np.array([np.matmul(*layers(y)[::-1]) for y in run.y.T])


@pytest.mark.parametrize("hidden", [1, 2, 6])
def test_limits_of_two_layers_are_where_they_end_and_not_where_the_curve_does(rng, hidden):
    """Correlated inputs, of which the last to be learned hardly vary, through a bottleneck or not."""
    inputs = rng.normal(size=(60, 4)) @ np.diag([2.0, 1.0, 0.5, 0.2])
    task = lr.Task.from_data(inputs, rng.normal(size=(60, 3)))
    found = lr.predict(lr.Problem(task, lr.inits.gaussian(rng, sizes=(4, hidden, 3), scale=0.5)))
    (last,) = gram_flow(found.trajectory.problem, [3e3])
    assert found.limit_known
    np.testing.assert_allclose(found.limit, np.sum(found.frames.u * (last @ found.frames.v), axis=0), atol=1e-5)
    assert np.abs(found.strengths[-1] - found.limit).max() > 1e-4  # what the curve shows is another matter
    if later := found.on_the_way:
        assert f"note: {len(later)} of 3 modes still on the way to their limit" in str(found)


def test_a_mode_that_leaves_before_it_returns():
    """It falls below its initial strength, and its limit is above: a half time on the way down would be none."""
    task = lr.Task.from_correlations(np.diag([1.0, 0.1]), [[1.0, 0.29], [0.29, 0.1]])
    W = np.linalg.solve(task.sigma_xx.T, task.sigma_yx.T).T
    problem = lr.Problem(task, lr.Network([3.0 * np.eye(2), (W + np.array([[2.0, 0.0], [1.5, -0.2]])) / 3.0]))
    found = lr.predict(problem)
    times = np.linspace(0, 300, 3001)
    truth = np.sum(found.frames.u * (gram_flow(problem, times) @ found.frames.v), axis=1)
    np.testing.assert_allclose(found.limit, truth[-1], atol=1e-3 * np.abs(truth[-1]).max())
    for i, half in enumerate(found.half_times):
        way = (truth[:, i] - truth[0, i]) / (found.limit[i] - truth[0, i])
        expected = times[np.argmax(way >= 0.5)]
        assert np.isnan(half) if expected > found.course.times[-1] else abs(half - expected) < 0.11


def test_weights_of_low_rank_end_at_the_best_map_of_that_rank(rng):
    """Six hidden units, of which the weights use one direction: the flow keeps to it."""
    task = lr.Task.from_data(rng.normal(size=(40, 4)) * [3.0, 1.0, 1.0, 0.5], rng.normal(size=(40, 3)))
    direction = np.linalg.qr(rng.normal(size=(6, 1)))[0]
    one = lr.Network([rng.normal(size=(1, 4)), rng.normal(size=(3, 1))])
    found = lr.predict(lr.Problem(task, lr.Network([direction @ one.weights[0], one.weights[1] @ direction.T])))
    (last,) = gram_flow(lr.Problem(task, one), [3e3])  # rounding of six units would find its way out of one direction
    np.testing.assert_allclose(found.limit, np.sum(found.frames.u * (last @ found.frames.v), axis=0), atol=1e-6)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_where_a_nonlinear_network_ends_is_not_known(rng, activation):
    found = lr.predict(on_samples(rng, activation, sizes=(4, 20, 2)))
    assert not found.limit_known and found.on_the_way == []
    np.testing.assert_allclose(found.limit, found.strengths[-1], rtol=1e-12)
    told = str(found)
    assert f"at t = {found.trajectory.times[-1]:g}" in told.partition("\n  mode")[2].partition("\n")[0]
    assert "limit" not in told
    assert ("regime        not known" in told) is (activation == "tanh")
    later = lr.flow(found.trajectory.problem, [0.0, 2 * found.trajectory.times[-1]]).loss[-1]
    fallen = found.trajectory.loss[0] - found.trajectory.loss[-1]
    assert found.still_falling or found.trajectory.loss[-1] - later < 0.02 * fallen


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_deep_layers_that_keep_the_sign_of_their_determinant(seed):
    """Two of three layers share the least singular values: det W cannot change its sign, and one mode is missed."""
    network = lr.inits.lambda_balanced(seed, sizes=(3, 3, 3, 3), lam=[0.5, -0.5], scale=0.3)
    problem = lr.Problem(lr.Task.from_correlations(np.diag([3.0, 2.0, 1.0])), network)
    obstructed = np.linalg.det(network.function) < 0
    found = lr.predict(problem)
    assert problem.facts.determinant_obstruction == obstructed
    assert ("one mode is never learned" in str(found)) == obstructed and found.limit_known != obstructed
    course = lr.flow(problem, np.linspace(0, 10, 50))  # later, rounding finds its way past the saddle
    signs = np.sign(np.linalg.det(course.function))
    assert np.all(signs == signs[0])
    assert (course.loss[-1] > 0.4) == obstructed


def test_one_layer_alone_may_change_the_sign_of_its_determinant():
    """λ of one sign: the first layer is the smallest by itself, passes through 0, and all is learned."""
    task = lr.Task.from_correlations(np.diag([3.0, 2.0, 1.0]))
    networks = [lr.inits.lambda_balanced(seed, sizes=(3, 3, 3, 3), lam=[0.5, 0.5], scale=0.3) for seed in range(6)]
    wrong = [network for network in networks if np.linalg.det(network.function) < 0]
    assert wrong
    for network in wrong:
        problem = lr.Problem(task, network)
        assert not problem.facts.determinant_obstruction
        assert lr.flow(problem, [0.0, 60.0]).loss[-1] < 1e-6


def test_rounding_is_printed_as_nothing():
    task = lr.Task.from_data(np.eye(4), np.eye(4)[:, :3] @ np.diag([1.0, 0.5, 0.0]))
    told = str(lr.predict(lr.Problem(task, lr.inits.gaussian(0, sizes=(4, 5, 3), scale=0.3))))
    assert "least loss    0 (" in told and "e-1" not in told.partition("  mode")[2]


def function_by_weights(problem, times):
    """W2W1 at each time, step by step to each of them, so that nothing is interpolated."""
    (W1, W2), task, (eta1, eta2) = problem.network.weights, problem.task, problem.rates
    y, now, functions = np.concatenate([W1.ravel(), W2.ravel()]), 0.0, []

    def layers(y):
        return y[: W1.size].reshape(W1.shape), y[W1.size :].reshape(W2.shape)

    def flow(_, y):
        V1, V2 = layers(y)
        E = task.sigma_yx - V2 @ V1 @ task.sigma_xx
        return np.concatenate([(eta1 * V2.T @ E).ravel(), (eta2 * E @ V1.T).ravel()])

    for time in times:
        solver = DOP853(flow, now, y, time, rtol=1e-12, atol=1e-15)
        while time > now and solver.status == "running":
            solver.step()
        y, now = solver.y, time
        functions.append(np.matmul(*layers(y)[::-1]))
    return np.array(functions)


@pytest.mark.parametrize("seed", [81, *range(12)])
def test_the_error_of_an_integrated_prediction_is_the_most_to_expect(seed):
    """At all times, also between the steps, of loss and modes; inputs of unequal variance."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 4)) * np.geomspace(1, 0.1, 4)
    hidden, scale = ((10, 1.0), (2, 0.1), (5, 0.5))[seed % 3]
    task = lr.Task.from_data(X, X @ rng.normal(size=(4, 3)))
    problem = lr.Problem(task, lr.inits.gaussian(seed, sizes=(4, hidden, 3), scale=scale))
    found = lr.predict(problem)
    truth = function_by_weights(problem, found.trajectory.times)
    loss, strengths = task.loss(truth), np.sum(found.frames.u * (truth @ found.frames.v), axis=1)
    assert np.abs(found.trajectory.loss - loss).max() <= found.error * loss.max()
    assert np.abs(found.strengths - strengths).max() <= found.error * np.abs(strengths).max()
    assert found.error < 1e-4


def test_late_times_cost_nothing_once_all_is_learned():
    problem = lr.Problem(TASK, lr.inits.gaussian(0, sizes=(2, 5, 2), scale=0.1))
    late = lr.predict(problem, [1e5, 1e12])
    np.testing.assert_allclose(late.trajectory.function, [TASK.sigma_yx] * 2, atol=1e-7)
    usual = lr.predict(problem)
    np.testing.assert_allclose(late.closed_form.half_times, usual.closed_form.half_times, rtol=1e-4)
    np.testing.assert_allclose(late.half_times, usual.half_times, rtol=1e-5)


@pytest.mark.long
def test_times_that_are_not_reached_are_told_of(monkeypatch):
    """Inputs a million times as weak as others: explicit steps do not get there, and no limit is made up."""
    monkeypatch.setattr(by_gram, "STEPS", 200)
    task = lr.Task.from_correlations(np.diag([1.0, 1e-6]), np.diag([1.0, 1e-6]))
    problem = lr.Problem(task, lr.inits.gaussian(0, sizes=(2, 7, 2), scale=0.05))
    found = lr.predict(problem, [0.0, 1.0, 1e9])
    assert found.trajectory.times.tolist() == [0.0, 1.0] and "note: stopped at t = " in str(found)
    with pytest.raises(lr.InvalidInput, match=r"none of the times was reached: the prediction stopped at t = \d"):
        lr.predict(problem, [1e9])


def test_where_there_is_nothing_to_learn(rng):
    W1, W2 = rng.normal(size=(5, 3)), rng.normal(size=(3, 5))
    for weights in ([W1, W2], [W1[:3], W1[:3].T]):
        found = lr.predict(lr.Problem(lr.Task.from_correlations(weights[1] @ weights[0]), lr.Network(weights)))
        assert not found.learns and found.error < 1e-3 and not found.still_falling
        np.testing.assert_allclose(found.strengths, [found.frames.target] * len(found.strengths), atol=1e-9)
        assert "still falling" not in str(found)


def test_weights_of_single_precision_are_exact_to_that():
    """Balanced as far as their digits go: the flow of the digits themselves is as far away."""
    sigma = np.random.default_rng(2).normal(size=(3, 4))
    network = lr.inits.lambda_balanced(2, sizes=(4, 3, 3), lam=0.5, scale=0.1)
    single = lr.Network([W.astype(np.float32) for W in network.weights])
    problem = lr.Problem(lr.Task.from_correlations(sigma), single)
    found = lr.predict(problem, [0.5, 2.0])
    truth = function_by_weights(problem, found.trajectory.times)
    assert found.exact
    assert 1e-12 < np.abs(found.trajectory.function - truth).max() / np.abs(truth).max() < found.error < 1e-6
    assert "note: the weights or data came in float32" in str(found)


def test_a_few_times_do_not_make_the_loss_fall():
    problem = lr.Problem(TASK, lr.inits.zero_balanced(0, sizes=(2, 3, 2), scale=0.1))
    assert "still falling" not in str(lr.predict(problem, [0.0, 400.0]))


def test_what_cannot_be_drawn_is_said():
    found = lr.predict(lr.Problem(TASK, lr.inits.zero_balanced(0, sizes=(2, 3, 2), scale=0.1)), [np.inf])
    with pytest.raises(lr.InvalidInput, match="times must hold a finite one to be drawn, and all are inf"):
        found.plot()


UNKNOWN = {
    "a bottleneck beside the constant of biases": lambda: lr.Problem(
        lr.Task.from_data([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [-1.0, 0.5]], np.diag([2.0, 1.0, 0.0, 0.0])[:, :2]),
        lr.Network([[[0.3, 0.1]], [[0.2], [0.1]]], biases=[[0.1], [0.0, 0.0]]),
    ),
    "a direction that no input has": lambda: lr.Problem(
        lr.Task.from_data([[1.0, 0.0]], [[1.0, 0.0]]),
        lr.Network([[[0.5, 1.0], [0.0, 1.0]], [[0.5, 0.2], [0.3, 0.4]]]),
    ),
    "a deep bottleneck": lambda: lr.Problem(
        lr.Task.from_correlations(np.diag([2.0, 1.0])),
        lr.Network([1.5 * np.random.default_rng(6).normal(size=shape) for shape in ((1, 2), (1, 1), (2, 1))]),
    ),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_a_limit_that_nobody_knows_is_not_claimed(case):
    assert not lr.predict(UNKNOWN[case]()).limit_known


def test_a_layer_that_is_tiny_beside_the_other_counts():
    weights = [[[1.0, 0.2], [0.0, 0.0]], [[1e-17, 2e-17], [-1e-17, 1e-17]]]
    problem = lr.Problem(lr.Task.from_correlations([[2.0, 0.3], [0.1, 1.0]]), lr.Network(weights))
    np.testing.assert_allclose(lr.predict(problem).limit, problem.task.modes.s, rtol=1e-12)


def test_no_determinant_obstructs_a_relu():
    network = lr.Network([[[0.0, 0.1], [0.1, 0.0]], [[0.1, 0.0], [0.0, 0.1]]], "relu")
    assert not lr.Problem(lr.Task.from_data(np.eye(2), np.diag([2.0, 1.0])), network).facts.determinant_obstruction


def test_a_few_times_leave_nothing_out_of_the_picture(rng):
    """What is over before the second of them is drawn all the same, and half way lies on the curve."""
    problem = on_samples(rng, "linear")
    losses, modes = lr.predict(problem, [0.0, 30.0, 60.0]).plot().axes[:2]
    (loss,) = losses.lines
    assert loss.get_xdata()[0] == 0 and loss.get_xdata()[-1] == 60 and len(loss.get_xdata()) > 100
    marks = next(line for line in modes.lines if line.get_label() == "half way")
    for t, a in zip(*marks.get_data(), strict=True):
        assert min(abs(np.interp(t, *line.get_data()) - a) for line in modes.lines[:2]) < 0.01 * abs(a) + 1e-3


def test_a_run_from_other_weights_is_refused(rng):
    found, other = lr.predict(on_samples(rng, "linear")), on_samples(rng, "linear")
    with pytest.raises(lr.InvalidInput, match="weights at t = 0 must be those of the problem"):
        found.plot(run=lr.descend(other, rate=0.01, steps=5))


def test_later_times_are_looked_at_too():
    """A nonlinear network goes on for long: what is said of it is said of all that was asked for."""
    rng = np.random.default_rng(0)
    labels, centres = rng.integers(0, 3, size=300), rng.normal(size=(3, 6))
    inputs = (centres[labels] + rng.normal(size=(300, 6))) @ rng.normal(size=(6, 6)) / 2
    network = lr.inits.pytorch(0, sizes=(6, 32, 3), activation="relu")
    problem = lr.Problem(lr.Task.from_labels(inputs, labels), network)
    usual, longer = lr.predict(problem), lr.predict(problem, np.linspace(0, 200, 401))
    own = lr.regime(longer.trajectory)
    assert usual.regime.name == "lazy" and longer.regime.name == own.name != "lazy"
    assert longer.regime.kernel_movement == pytest.approx(own.kernel_movement, rel=0.02)
    np.testing.assert_allclose(longer.limit, longer.strengths[-1])
    assert "at t = 200" in str(longer) and "as far as t = 200" in str(longer)


def test_a_mode_that_comes_late_has_its_half_time_where_times_go_that_far():
    task = lr.Task.from_correlations(np.diag([1.0, 0.01]), np.diag([1.0, 0.01]))
    problem = lr.Problem(task, lr.inits.gaussian(0, sizes=(2, 7, 2), scale=0.05))
    usual, longer = lr.predict(problem), lr.predict(problem, np.linspace(0, 600, 5))
    times = np.linspace(0, 600, 6001)
    truth = gram_flow(problem, times)[:, 1, 1]
    late = times[np.argmax(truth >= (truth[0] + 1) / 2)]
    assert np.isnan(usual.half_times[1]) and longer.half_times[1] == pytest.approx(late, rel=1e-3)
    assert longer.half_times[0] == pytest.approx(usual.half_times[0], rel=1e-4)


@pytest.mark.long
def test_a_plateau_of_a_deep_network_is_not_taken_for_its_end():
    task = lr.Task.from_correlations(np.diag([3.2, 1.9, 1.2]))
    problem = lr.Problem(task, lr.inits.zero_balanced(2, sizes=(3, 6, 6, 3), scale=0.1))
    found = lr.predict(problem)
    assert found.limit_known and found.trajectory.loss[-1] < 1e-6
    dense = lr.flow(problem, np.linspace(0, 40, 4001), record="function")
    a = found.strengths_of(dense)
    seen = [dense.times[np.argmax(a[:, i] >= found.limit[i] / 2)] for i in range(3)]
    np.testing.assert_allclose(found.half_times, seen, atol=0.03)


def test_what_is_not_learned_when_all_has_been_seen_has_no_half_time(monkeypatch):
    monkeypatch.setattr(looking, "_LONGER", 1)
    task = lr.Task.from_correlations(np.diag([3.2, 1.9, 1.2]))
    found = lr.predict(lr.Problem(task, lr.inits.zero_balanced(2, sizes=(3, 6, 6, 3), scale=0.1)))
    assert np.isfinite(found.half_times).tolist() == [True, False, False]
    assert "2 of 3 modes not learned by t = " in str(found) and not found.limit_known


class TestWhatNewcomersMet:
    def test_large_inputs_still_fall(self):
        """Raw columns in the hundreds: the first loss is a thousand times that of zeros, and hides what is left."""
        X, y = load_wine(return_X_y=True)
        network = lr.inits.pytorch(0, sizes=(13, 16, 3), activation="relu")
        found = lr.predict(lr.Problem(lr.Task.from_labels(X, y), network))
        later = lr.flow(found.trajectory.problem, [0.0, 4 * found.trajectory.times[-1]])
        assert later.loss[-1] < 0.95 * found.trajectory.loss[-1]
        assert found.still_falling and any("still falling" in note for note in found.notes)

    def test_nothing_falls_at_infinity(self):
        problem = lr.Problem(
            lr.Task.from_correlations(np.diag([3.0, 2.0, 0.1])),
            lr.inits.orthogonal(0, sizes=(3, 6, 3), scales=(0.01, 0.01)),
        )
        assert not lr.predict(problem, [0.0, 1.0, np.inf]).still_falling
        assert lr.predict(problem, [0.0, 1.0, 2.0]).still_falling

    def test_rounding_of_labels_is_no_mode(self):
        """Centred inputs and one column for each class: the columns sum to 1, and one mode of three is nothing."""
        rng = np.random.default_rng(0)
        for _ in range(20):
            labels = rng.permutation(np.repeat([0, 1, 2], 50))
            X = rng.normal(size=(150, 3)) + 2.0 * rng.normal(size=(3, 3))[labels]
            task = lr.Task.from_labels(X - X.mean(axis=0), labels, classes=range(3)).whitened()
            facts = lr.Problem(task, lr.inits.zero_balanced(1, sizes=(3, 8, 3), scale=0.05)).facts
            assert facts.rank_target == 2 and not facts.determinant_obstruction

    def test_rest_on_a_saddle_is_not_nothing_to_learn(self):
        rng = np.random.default_rng(7)
        X = rng.normal(size=(40, 5))
        task = lr.Task.from_data(X, X @ rng.normal(size=(5, 3)))
        found = lr.predict(lr.Problem(task, lr.Network([np.zeros((4, 5)), np.zeros((3, 4))])))
        assert found.rests and "saddle" in str(found)
        done = lr.Network([np.eye(5), task.target])
        assert "nothing to learn" in str(lr.predict(lr.Problem(task, done)))

    def test_strengths_with_decay_are_of_the_last_time_shown(self):
        rng = np.random.default_rng(7)
        X = rng.normal(size=(40, 5))
        task = lr.Task.from_data(X, X @ rng.normal(size=(5, 3)) + 0.1 * rng.normal(size=(40, 3)))
        found = lr.predict(lr.Problem(task, lr.inits.pytorch(1, sizes=(5, 4, 3)), weight_decay=0.1))
        np.testing.assert_allclose(found.limit, found.strengths[-1], rtol=1e-12)

    def test_the_first_time_is_told_where_it_is_not_zero(self):
        problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
        assert "loss          1.23153 at t = 1 → " in str(lr.predict(problem, [1.0, 3.0]))
