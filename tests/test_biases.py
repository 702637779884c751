"""Biases: weights from a unit that is always 1, which nothing trains. Against networks with biases, written by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import with_biases as by_hand
from scipy.linalg import expm

import lazyrich as lr
from lazyrich.facts import Condition
from lazyrich.networks.biases import constant_rows
from lazyrich.velocity import velocity

SIZES = {2: (3, 4, 2), 3: (3, 4, 5, 2)}
KINDS = [(activation, depth) for activation in ("linear", "relu", "tanh") for depth in (2, 3)]


def drawn(seed, depth=2, scale=0.6, samples=9, outputs=2):
    """Weights, biases, inputs and targets whose means are not zero."""
    rng = np.random.default_rng(seed)
    sizes = (*SIZES[depth][:-1], outputs)
    W = [scale * rng.normal(size=shape) for shape in zip(sizes[1:], sizes[:-1], strict=True)]
    b = [scale * rng.normal(size=width) for width in sizes[1:]]
    return W, b, rng.normal(size=(samples, 3)) + 0.3, rng.normal(size=(samples, outputs)) + 0.5


def made(seed, activation, depth=2, **options):
    W, b, X, Y = drawn(seed, depth, **{k: options.pop(k) for k in ("scale", "outputs") if k in options})
    return W, b, X, Y, lr.Problem(lr.Task.from_data(X, Y), lr.Network(W, activation, biases=b), **options)


def apart(network, W, b):
    state = network.state_dict()
    off = [state[f"{i}.weight"] - M for i, M in enumerate(W)] + [state[f"{i}.bias"] - v for i, v in enumerate(b)]
    return max(float(np.abs(part).max()) for part in off)


def test_a_network_with_biases_answers_as_written_by_hand():
    for activation, depth in KINDS:
        W, b, X, _ = drawn(0, depth)
        network = lr.Network(W, activation, biases=b)
        np.testing.assert_allclose(network(X), by_hand.outputs(W, b, activation, X), rtol=1e-14, atol=1e-14)
        np.testing.assert_allclose(network(X[0]), network(X)[0], rtol=1e-13)
        assert network.biased and network.d_in == 3 and "with biases" in repr(network)
        assert apart(network, W, b) == 0
    assert repr(lr.Network([np.ones((32, 64)), np.ones((10, 32))], biases=[np.ones(32), np.ones(10)])) == (
        "<Network: 64-32-10, linear, with biases>"
    )


@settings(max_examples=50)
@given(
    st.integers(0, 10**6),
    st.lists(st.integers(1, 5), min_size=2, max_size=5),
    st.sampled_from(["linear", "relu", "tanh"]),
)  # fmt: skip
def test_networks_of_any_shape_answer_and_move_as_by_hand(seed, sizes, activation):
    rng = np.random.default_rng(seed)
    W = [rng.normal(size=shape) for shape in zip(sizes[1:], sizes[:-1], strict=True)]
    b, X, Y = [rng.normal(size=width) for width in sizes[1:]], *(rng.normal(size=(7, sizes[i])) for i in (0, -1))
    problem = lr.Problem(lr.Task.from_data(X, Y), lr.Network(W, activation, biases=b), weight_decay=0.1)
    np.testing.assert_allclose(problem.network(X), by_hand.outputs(W, b, activation, X), rtol=1e-11, atol=1e-11)
    dW, db = by_hand.gradients(W, b, activation, X, Y)
    moved = velocity(problem, list(problem.network.weights))
    size = max(float(np.abs(part).max()) for part in (*dW, *db)) + 1
    for i, whole in enumerate(moved):
        out = len(W[i])
        np.testing.assert_allclose(whole[:out, :-1], -dW[i] - 0.1 * W[i], atol=1e-11 * size)
        np.testing.assert_allclose(whole[:out, -1], -db[i] - 0.1 * b[i], atol=1e-11 * size)
        assert not whole[out:].any()  # nothing moves the constant, and it does not decay


def test_the_constant_is_one_to_the_last_bit():
    for activation in ("linear", "relu", "tanh", 0.3):
        own = lr.Activation.of(activation)
        (row,) = constant_rows((3, 4, 2), own)
        assert own(row[0, -1]) == 1.0 and not row[0, :-1].any()


@pytest.mark.parametrize(("activation", "depth"), KINDS)
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_descent_is_that_of_weights_and_biases(activation, depth, decay):
    rates = (0.5, 1.5, 1.0)[:depth]
    W, b, X, Y, problem = made(1, activation, depth, rates=rates, weight_decay=decay)
    run = lr.descend(problem, rate=0.05, steps=40, at=[0, 40])
    wanted = by_hand.descend(W, b, activation, X, Y, rate=0.05, steps=40, rates=rates, decay=decay)
    assert apart(run.network(), *wanted) < 1e-13
    np.testing.assert_allclose(run.loss[-1], by_hand.loss(*wanted, activation, X, Y), rtol=1e-13)


@pytest.mark.parametrize(("activation", "depth"), KINDS)
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_flow_is_that_of_weights_and_biases(activation, depth, decay):
    rates, within = (0.5, 1.5, 1.0)[:depth], {"linear": 1e-8, "tanh": 1e-5, "relu": 1e-3}[activation]
    time = 0.5 if activation == "relu" else 3.0  # SciPy is slow at kinks
    W, b, X, Y, problem = made(2, activation, depth, rates=rates, weight_decay=decay)
    run = lr.flow(problem, [0.0, time], rtol={"linear": 1e-10, "tanh": 1e-6, "relu": 1e-4}[activation])
    assert run.status == "complete"
    wanted = by_hand.flow(W, b, activation, X, Y, time, rates=rates, decay=decay)
    assert apart(run.network(), *wanted) < within
    np.testing.assert_allclose(run.loss[-1], by_hand.loss(*wanted, activation, X, Y), rtol=within)


@pytest.mark.parametrize("activation", ["linear", "tanh"])
def test_small_weights_beside_the_constant_are_integrated_as_finely(activation):
    """The constant rows have size 1, or 20: what is granted to the error of a step must not be measured by them."""
    W, b, X, Y, problem = made(3, activation, 2, scale=1e-4)
    wanted = by_hand.flow(W, b, activation, X, Y, 8.0, rates=(1.0, 1.0))
    run = lr.flow(problem, [0.0, 8.0], rtol=1e-9 if activation == "linear" else 1e-6)
    assert apart(run.network(), *wanted) < (1e-7 if activation == "linear" else 1e-4)


def test_a_batch_of_networks_with_and_without_biases():
    cases = [made(seed, "relu")[-1] for seed in range(3)]
    bare = lr.Problem(lr.Task.from_data(*drawn(9)[2:]), lr.Network(drawn(9)[0], "relu"))
    wide = lr.Network([np.ones((5, 3)) / 9, np.ones((2, 5)) / 9], "relu")  # sizes as a biased 2-4-2 would have them
    problems = [*cases, bare, lr.Problem(bare.task, wide)]
    for run, problem in zip(lr.batch.descend(problems, rate=0.1, steps=20), problems, strict=True):
        alone = lr.descend(problem, rate=0.1, steps=20)
        for one, other in zip(run.weights, alone.weights, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
    for run, problem in zip(lr.batch.flow(problems, [0.0, 2.0]), problems, strict=True):
        alone = lr.flow(problem, [0.0, 2.0])
        np.testing.assert_allclose(run.loss, alone.loss, rtol=1e-9)


def test_certificates_see_biases():
    for activation in ("linear", "tanh"):
        problem = made(4, activation)[-1]
        run = lr.flow(problem, [0.0, 0.5, 1.0], rtol=1e-9 if activation == "linear" else 1e-7)
        found = run.certificate()
        assert found.residual < 1e-4 and found.initial_error == 0
        layers = [np.array(W) for W in run.weights]
        layers[0][1:, 0, -1] += 1e-2  # one bias
        fake = lr.Trajectory(problem, run.times, "flow", {"weights": layers}).certificate()
        assert fake.residual > 10 * found.residual


@pytest.mark.parametrize("activation", ["linear", "relu"])
def test_what_is_conserved_counts_biases_and_not_the_constant(activation):
    W, b, *_, problem = made(5, activation, 3)
    run = lr.flow(problem, np.linspace(0, 2, 5), rtol=1e-10 if activation == "linear" else 1e-4)
    into, out = np.column_stack([W[0], b[0]]), W[1]
    D = out.T @ out - into @ into.T
    found = lr.observables.conserved(run)[0]
    np.testing.assert_allclose(found[0], D, atol=1e-14)
    change = np.diagonal(found - D, axis1=1, axis2=2) if activation == "relu" else found - D
    assert np.abs(change).max() < (1e-8 if activation == "linear" else 1e-3)
    assert lr.observables.neuron_balance(run).shape == (5, 4)
    assert lr.observables.neuron_balance_distribution(problem).neurons == 4


@pytest.mark.parametrize(
    ("activation", "depth", "outputs"), [("linear", 2, 2), ("linear", 3, 2), ("relu", 2, 2), ("relu", 2, 1)]
)
def test_the_tangent_kernel_is_that_of_weights_and_biases(activation, depth, outputs):
    rates = (0.5, 1.5, 1.0)[:depth]
    W, b, X, _, problem = made(6, activation, depth, outputs=outputs, rates=rates)
    kernel = lr.observables.kernels(lr.descend(problem, rate=0.01, steps=1))[0]
    K = by_hand.tangent_kernel(W, b, activation, X, rates)
    np.testing.assert_allclose(kernel.matrix(), K, rtol=1e-7, atol=1e-7 * np.abs(K).max())
    np.testing.assert_allclose(kernel.trace, np.trace(K), rtol=1e-7)
    np.testing.assert_allclose(kernel.norm, np.linalg.norm(K), rtol=1e-7)
    np.testing.assert_allclose(kernel.largest_eigenvalue(), np.linalg.eigvalsh(K)[-1], rtol=1e-7)
    v = np.random.default_rng(0).normal(size=len(K))
    np.testing.assert_allclose(kernel.matvec(v), K @ v, rtol=1e-6, atol=1e-6 * np.abs(K @ v).max())


def test_the_regime_is_measured():
    problem = made(7, "linear")[-1]
    assert lr.regime(lr.flow(problem, np.linspace(0, 20, 50))).name in ("lazy", "rich", "delayed rich")


@pytest.mark.parametrize("activation", ["linear", "tanh"])
def test_curvature_is_that_of_weights_and_biases(activation):
    W, b, X, Y, problem = made(8, activation)

    def gradient(y):
        shapes = [M.shape for pair in zip(W, b, strict=True) for M in pair]
        parts = np.split(y, np.cumsum([int(np.prod(s)) for s in shapes])[:-1])
        parts = [part.reshape(s) for part, s in zip(parts, shapes, strict=True)]
        dW, db = by_hand.gradients(parts[::2], parts[1::2], activation, X, Y)
        return np.concatenate([part.ravel() for pair in zip(dW, db, strict=True) for part in pair])

    y = np.concatenate([part.ravel() for pair in zip(W, b, strict=True) for part in pair])
    H = np.array([(gradient(y + 1e-5 * e) - gradient(y - 1e-5 * e)) / 2e-5 for e in np.eye(len(y))])
    wanted, found = np.linalg.eigvalsh((H + H.T) / 2), lr.landscape.hessian(problem, problem.network.weights)
    assert found.shape == H.shape
    np.testing.assert_allclose(np.linalg.eigvalsh(found), wanted, atol=1e-7)
    run = lr.descend(problem, rate=0.01, steps=1)
    np.testing.assert_allclose(lr.landscape.sharpness(run)[0], wanted[-1], rtol=1e-7)
    least = lr.landscape.extreme_eigenvalues(problem, problem.network.weights, smallest=True)
    np.testing.assert_allclose(least.values, wanted[:1], atol=1e-7)
    assert not least.directions[0][0, -1].any()  # nothing moves the constant
    V = [np.ones_like(M) for M in problem.network.weights]
    product = lr.landscape.hessian_vector_product(problem, problem.network.weights, V)
    np.testing.assert_allclose(product[0][-1], 0.0)
    np.testing.assert_allclose(sum(float(part.sum()) for part in product), H.sum(), rtol=1e-6)


def test_hidden_activity_is_without_the_constant():
    W, b, X, _, problem = made(10, "relu")
    run = lr.descend(problem, rate=0.05, steps=30, at=[0, 30])
    H = np.maximum(X @ W[0].T + b[0], 0)
    np.testing.assert_allclose(lr.observables.rsm_in(run)[0], H @ H.T, atol=1e-13)
    patterns = lr.observables.activation_patterns(run)
    np.testing.assert_array_equal(patterns[0], H > 0)
    np.testing.assert_array_equal(lr.observables.activation_patterns(run, X), patterns)
    np.testing.assert_array_equal(lr.observables.region_colours(run)[0], (H > 0).sum(1) % 2)
    size = np.sqrt(sum(np.sum(part**2) for part in (*W, *b)))
    distance = lr.observables.parameter_distance(run)
    np.testing.assert_allclose(lr.observables.parameter_distance(run, relative=True), distance / size, rtol=1e-13)


def test_closed_forms_refuse_biases_and_say_what_to_try():
    problem = made(11, "linear")[-1]
    assert problem.facts.method is None and problem.facts.biased
    for name in ("modes", "riccati", "family"):
        assert Condition.BIASES in [refusal.condition for refusal in problem.facts.methods[name]]
    with pytest.raises(lr.NoExactSolution, match=r"without biases, and this one has them \(problem.without_biases\(\)"):
        lr.solve(problem, [1.0])
    assert "3-4-2, linear, with biases" in str(problem.facts)


def test_one_layer_with_a_bias_is_solved_exactly():
    rng = np.random.default_rng(12)
    X, Y = rng.normal(size=(9, 3)) + 0.3, rng.normal(size=(9, 2)) + 0.5
    W, b = rng.normal(size=(2, 3)), rng.normal(size=2)
    run = lr.solve(lr.Problem(lr.Task.from_data(X, Y), lr.Network([W], biases=[b])), [0.0, 2.0])
    wanted = by_hand.flow([W], [b], "linear", X, Y, 2.0, rates=(1.0,))
    assert run.method == "shallow" and apart(run.network(), *wanted) < 1e-10 and run.certificate().exact


@pytest.mark.parametrize("depth", [2, 3])
def test_on_centred_data_zero_biases_stay_zero_and_the_rest_does_as_without(depth):
    W, b, X, Y = drawn(13, depth)
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    problem = lr.Problem(lr.Task.from_data(X, Y), lr.Network(W, biases=[0 * v for v in b]))
    bare = problem.without_biases()
    assert not bare.network.biased and bare.task.d_in == 3
    one, other = (lr.flow(p, [0.0, 4.0], rtol=1e-10) for p in (problem, bare))
    state = one.network().state_dict()
    for i, M in enumerate(other.network().weights):
        np.testing.assert_allclose(state[f"{i}.weight"], M, atol=1e-8)
        np.testing.assert_allclose(state[f"{i}.bias"], 0.0, atol=1e-14)
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-8)


def test_a_last_bias_at_the_mean_target_is_as_good():
    W, b, X, Y = drawn(14)
    X = X - X.mean(axis=0)
    problem = lr.Problem(lr.Task.from_data(X, Y), lr.Network(W, biases=[0 * b[0], Y.mean(axis=0)]))
    one, other = (lr.flow(p, [0.0, 4.0], rtol=1e-10) for p in (problem, problem.without_biases()))
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-8)


def test_elsewhere_it_is_another_problem():
    problem = made(15, "linear")[-1]
    one, other = (lr.flow(p, [0.0, 1.0]) for p in (problem, problem.without_biases()))
    assert abs(one.loss[-1] - other.loss[-1]) > 1e-3
    assert lr.Problem(
        lr.Task.from_correlations(np.eye(2)), lr.inits.gaussian(0, sizes=(2, 3, 2), scale=1.0)
    ).without_biases()


def test_the_constant_is_added_once():
    W, b, X, Y, problem = made(16, "tanh")
    again = lr.Problem(problem.task, problem.network)
    assert again.task is problem.task and problem.task.d_in == 4
    assert "3 inputs and a constant" in repr(problem)
    white = lr.Problem(lr.Task.from_data(X, Y).whitened(), lr.Network(W, biases=b))
    np.testing.assert_array_equal(white.task.input_map[-1], [0, 0, 0, 1])
    assert lr.descend(problem, rate=0.1, steps=2).network().biased


def test_a_sequence_of_tasks():
    W, b, X, Y = drawn(17)
    tasks = [lr.Task.from_data(X, Y), lr.Task.from_data(X, -Y)]
    run = lr.continual(tasks, lr.Network(W, biases=b), [0.0, 3.0])
    middle = by_hand.flow(W, b, "linear", X, Y, 3.0, rates=(1.0, 1.0))
    end = by_hand.flow(*middle, "linear", X, -Y, 3.0, rates=(1.0, 1.0))
    assert apart(run.trajectories[-1].network(), *end) < 1e-6
    np.testing.assert_allclose(run.losses[-1], [by_hand.loss(*end, "linear", X, y) for y in (Y, -Y)], rtol=1e-6)


def test_a_run_of_ones_own():
    W, b, X, Y, problem = made(18, "relu")
    after = by_hand.descend(W, b, "relu", X, Y, rate=0.1, steps=10, rates=(1.0, 1.0))
    weights, biases = ([np.stack(pair) for pair in zip(*both, strict=True)] for both in zip((W, b), after, strict=True))
    run = lr.Trajectory.from_weights(problem, [0.0, 1.0], weights, biases=biases)
    np.testing.assert_allclose(run.loss[-1], by_hand.loss(*after, "relu", X, Y), rtol=1e-13)
    np.testing.assert_allclose(run.loss, lr.descend(problem, rate=0.1, steps=10, at=[0, 10]).loss, rtol=1e-12)
    with pytest.raises(lr.InvalidInput, match=r"biases must be given too, for the network is .*: pass biases="):
        lr.Trajectory.from_weights(problem, [0.0, 1.0], weights)


def test_a_run_collected_state_by_state():
    """As a training loop has it: what to do is said."""
    W, b, *_, problem = made(18, "relu")
    times, states = [0.0, 0.1, 0.2], [W] * 3
    advice = r"of shape \(T, out, in\), and there are 3: .* try \[np\.stack\(layer\) for layer in zip\(\*weights\)\]"
    with pytest.raises(lr.InvalidInput, match=advice):
        lr.Trajectory.from_weights(problem, times, states)
    with pytest.raises(lr.InvalidInput, match=r"weights\[0\] is not such an array"):  # as many states as layers
        lr.Trajectory.from_weights(problem, times[:2], states[:2])
    weights = [np.stack(layer) for layer in zip(*states, strict=True)]
    with pytest.raises(lr.InvalidInput, match=r"of shape \(T, out\), and there are 3: .* zip\(\*biases\)"):
        lr.Trajectory.from_weights(problem, times, weights, biases=[b] * 3)
    biases = [np.stack(layer) for layer in zip(*[b] * 3, strict=True)]
    assert np.ptp(lr.Trajectory.from_weights(problem, times, weights, biases=biases).loss) == 0


def test_prediction_of_any_network_with_biases():
    for activation in ("linear", "relu", "tanh"):
        problem = made(19, activation)[-1]
        found = lr.predict(problem, [0.0, 2.0])
        assert not found.exact and found.trajectory.loss[-1] < found.trajectory.loss[0]


def test_a_state_dict_makes_a_network_and_back():
    W, b, *_ = drawn(20)
    state = {"fc2.bias": b[1], "fc1.weight": W[0], "fc2.weight": W[1], "fc1.bias": b[0]}
    network = lr.Network.from_state_dict(state, activation="tanh")
    assert apart(network, W, b) == 0 and network.kind == "tanh"
    assert apart(lr.Network.from_state_dict(network.state_dict(), "tanh"), W, b) == 0
    bare = lr.Network.from_state_dict({"a": W[0], "b": W[1], "scale": np.ones(3)}, layers=["a", "b"])
    assert not bare.biased and sorted(bare.state_dict()) == ["0.weight", "1.weight"]
    single = lr.Network.from_state_dict({name: part.astype("float32") for name, part in state.items()})
    assert single.eps == 2.0**-23


@pytest.mark.torch
def test_a_module_of_pytorch_trains_as_predicted():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).double()
    _, _, X, Y = drawn(21)
    problem = lr.Problem(lr.Task.from_data(X, Y), lr.Network.from_state_dict(model.state_dict(), activation="relu"))
    run = lr.descend(problem, rate=0.1, steps=50, at=[0, 50])
    inputs, targets = torch.tensor(X), torch.tensor(Y)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(50):
        optimiser.zero_grad()
        (((model(inputs) - targets) ** 2).sum() / 2 / len(X)).backward()
        optimiser.step()
    state = {name: part.detach().numpy() for name, part in model.state_dict().items()}
    assert apart(run.network(), [state["0.weight"], state["2.weight"]], [state["0.bias"], state["2.bias"]]) < 1e-13


@pytest.mark.parametrize(
    "measure",
    [
        lambda run: lr.observables.input_gram(run),
        lambda run: lr.observables.output_gram(run),
        lambda run: lr.observables.rsm_out(run),
        lambda run: lr.observables.decoupling(run),
        lambda run: lr.observables.coupling(run),
        lambda run: lr.landscape.saddle_path(run),
        lambda run: lr.landscape.plateau_times(run.problem),
        lambda run: lr.predict_regime(run.problem),
        lambda run: lr.bias.predicted_end(run.problem),
    ],
)  # fmt: skip
def test_what_the_constant_would_spoil_is_refused(measure):
    problem = made(22, "linear", outputs=1)[-1]
    with pytest.raises(lr.InvalidInput, match=r"without biases, and this one is 3-4-1, linear, with biases: try"):
        measure(lr.flow(problem, [0.0, 1.0]))


def test_the_gram_matrix_is_refused():
    problem = made(23, "linear")[-1]
    with pytest.raises(lr.InvalidInput, match="record='gram' belongs to two layers without biases"):
        lr.flow(problem, [1.0], record="gram")
    with pytest.raises(AttributeError, match="without biases"):
        _ = lr.flow(problem, [1.0]).gram


@pytest.mark.parametrize("activation", ["linear", "relu", "tanh"])
@pytest.mark.parametrize("sizes", [(3, 5, 2), (3, 4, 4, 2)])
def test_the_lazy_limit_leaves_the_constant_alone(rng, activation, sizes):
    """Against the kernel of all weights and biases by differences, and the relaxation that it gives."""
    X, Y = rng.normal(size=(7, sizes[0])), rng.normal(size=(7, sizes[-1]))
    W = [rng.normal(size=(b, a)) / np.sqrt(a) for a, b in itertools.pairwise(sizes)]
    b = [rng.normal(size=n) for n in sizes[1:]]
    rates = tuple(rng.uniform(0.5, 2.0, size=len(W)))
    problem = lr.Problem(lr.Task.from_data(X, Y), lr.Network(W, activation, biases=b), rates=rates)
    times = np.array([0.0, 0.2, 1.0, 5.0])
    found = lr.lazy_limit(problem, times)
    K = by_hand.tangent_kernel(W, b, activation, X, rates) / len(X)
    first, goal = by_hand.outputs(W, b, activation, X).T.ravel(), Y.T.ravel()
    truth = np.array([goal + expm(-K * t) @ (first - goal) for t in times]).reshape(len(times), sizes[-1], 7)
    answers = found.tangent.answers(times, X)
    np.testing.assert_allclose(answers, np.swapaxes(truth, 1, 2), atol=1e-7)
    np.testing.assert_allclose(found.loss, np.sum((truth - Y.T) ** 2, axis=(1, 2)) / 14, rtol=1e-6)
