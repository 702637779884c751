"""Losses other than the squared one: steps and flow against plain NumPy, the function-space equation against all
weights, and what belongs to the squared loss alone refuses in one sentence.
"""

from __future__ import annotations

import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyrich as lr
from lazyrich.methods.gram import OfFunction
from tests.oracles import losses as oracle

N, K, D = 17, 3, 4


def huber(outputs, targets):
    off = jnp.abs(outputs - targets)
    return jnp.where(off < 1, off**2 / 2, off - 0.5).sum(-1)


LOSSES = {"cross_entropy": ("cross_entropy", oracle.cross_entropy), "own": (huber, oracle.huber)}


def task_of(seed: int, *, reduction: str = "mean", soft: bool = False, d_in: int = D, classes: int = K) -> lr.Task:
    rng = np.random.default_rng((7, seed))
    X = rng.normal(size=(N, d_in)) @ rng.normal(size=(d_in, d_in))
    if soft:
        return lr.Task.from_data(X, rng.dirichlet(np.full(classes, 0.3), size=N), reduction=reduction)
    labels = np.argmax(X @ rng.normal(size=(d_in, classes)) + rng.normal(size=(N, classes)), axis=1)
    return lr.Task.from_labels(X, labels, classes=range(classes), reduction=reduction)


def start(seed: int, sizes: tuple[int, ...], scale: float = 0.5) -> list[np.ndarray]:
    rng = np.random.default_rng((8, seed))
    return [scale * rng.normal(size=shape) for shape in zip(sizes[1:], sizes[:-1], strict=True)]


# ---- the values themselves


@settings(max_examples=50)
@given(st.lists(st.floats(-300, 300), min_size=2, max_size=6), st.data())
def test_cross_entropy_keeps_its_digits_against_fifty(outputs, data):
    weights = data.draw(st.lists(st.sampled_from([0.0, 1.0, 0.25]), min_size=len(outputs), max_size=len(outputs)))
    y = np.array(weights) / (sum(weights) or 1.0) if sum(weights) else np.eye(len(outputs))[0]
    f, loss = np.array(outputs), lr.Loss.of("cross_entropy")
    with mpmath.workdps(320):
        total = mpmath.fsum(mpmath.exp(mpmath.mpf(v)) for v in outputs)
        value = mpmath.fsum(
            mpmath.mpf(p) * (mpmath.log(total) - mpmath.mpf(v)) for p, v in zip(y, outputs, strict=True)
        )
        pull = [float(mpmath.mpf(p) - mpmath.exp(mpmath.mpf(v)) / total) for p, v in zip(y, outputs, strict=True)]
        value = float(value)
    assert loss.per_sample(f[None], y[None])[0] == pytest.approx(value, rel=1e-13, abs=1e-300)
    np.testing.assert_allclose(
        loss.pull(f[None], y[None])[0], pull, rtol=1e-12, atol=2e-16 if 0 < y.max() < 1 else 1e-300
    )


@pytest.mark.parametrize("name", ["squared", "cross_entropy", "own"])
def test_the_pull_on_a_map_is_the_derivative_of_its_loss(name):
    loss, task = lr.Loss.of(huber if name == "own" else name), task_of(0, soft=True)
    W, step = np.random.default_rng(0).normal(size=(K, D)), 1e-5
    E, dW = loss.pull_on_map(task, W), np.random.default_rng(1).normal(size=(K, D))
    change = (loss.of_map(task, W + step * dW) - loss.of_map(task, W - step * dW)) / (2 * step)
    assert -change == pytest.approx(float(np.sum(E * dW)), rel=1e-8)
    both = loss.of_map(task, np.stack([W, 2 * W]))
    np.testing.assert_allclose(both, [loss.of_map(task, W), loss.of_map(task, 2 * W)], rtol=1e-14)


def test_the_floor_of_the_cross_entropy_is_the_entropy_of_the_targets():
    task = task_of(0, soft=True)
    Y = task.targets
    own = task.loss(task.target)  # any map is above it
    floor = lr.Loss.of("cross_entropy").floor(task)
    assert floor == pytest.approx(oracle.cross_entropy.value(np.log(Y), Y).mean(), rel=1e-12)
    assert lr.Loss.of("cross_entropy").of_map(task, task.target) > floor and own > 0
    assert lr.Loss.of("cross_entropy").floor(task_of(0)) == 0


# ---- descent, step by step

CASES = {
    "one layer": ((D, K), "linear", {}),
    "two layers": ((D, 5, K), "linear", {"rates": (0.5, 2.0)}),
    "three layers, sum": ((D, 5, 4, K), "linear", {"reduction": "sum"}),
    "four layers, decay": ((D, 5, 4, 5, K), "linear", {"decay": 0.1}),
    "linear with biases": ((D, 5, K), "linear", {"biased": True, "decay": 0.05}),
    "tanh": ((D, 6, K), "tanh", {"rates": (2.0, 0.7), "decay": 0.02}),
    "tanh with biases, sum": ((D, 6, 4, K), "tanh", {"biased": True, "reduction": "sum"}),
    "relu": ((D, 6, K), "relu", {}),
    "relu with biases": ((D, 6, K), "relu", {"biased": True, "rates": (0.5, 2.0)}),
}


def setting(case: str, which: str, seed: int = 0):
    sizes, activation, options = CASES[case]
    loss, values = LOSSES[which]
    task = task_of(seed, reduction=options.get("reduction", "mean"), soft=seed % 2 == 1)
    weights, rng = start(seed, sizes), np.random.default_rng((9, seed))
    biased = options.get("biased", False)
    biases = [rng.normal(size=n) * biased for n in sizes[1:]]
    network = lr.Network(weights, activation, biases=biases if biased else None)
    rates, decay = options.get("rates"), options.get("decay", 0.0)
    problem = lr.Problem(task, network, rates=rates, weight_decay=decay, loss=loss)
    return (
        problem,
        oracle.Run(task.inputs, task.targets, values, activation, task.reduction, biased, rates, decay),
        (
            weights,
            biases,
        ),
    )


def compare(run: lr.Trajectory, expected) -> None:
    weights, biases, losses = expected
    for layer, W in enumerate(run.problem.network.free(run.weights)):
        d_in = weights[0][layer].shape[1]
        np.testing.assert_allclose(W[..., :d_in], [state[layer] for state in weights], rtol=1e-12, atol=1e-12)
        if run.problem.network.biased:
            np.testing.assert_allclose(W[..., -1], [state[layer] for state in biases], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(run.loss, losses, rtol=1e-12, atol=1e-13)


QUICK = {("three layers, sum", "cross_entropy"), ("tanh with biases, sum", "cross_entropy"), ("two layers", "own")}


@pytest.mark.parametrize(
    ("case", "which"),
    [
        pytest.param(case, which, marks=() if (case, which) in QUICK else pytest.mark.compiles)
        for case in CASES
        for which in LOSSES
    ],
)
def test_descent_takes_the_steps_of_plain_numpy(case, which):
    problem, by_hand, begin = setting(case, which)
    rate, steps = (0.02 if by_hand.reduction == "sum" else 0.1), 30
    compare(lr.descend(problem, rate, steps, at=range(steps + 1)), by_hand.descend(*begin, rate, steps))


@pytest.mark.compiles
@pytest.mark.parametrize("which", LOSSES)
def test_many_descend_as_each_alone(which):
    chosen = [
        ("two layers", 0),
        ("two layers", 1),
        ("two layers", 2),
        ("tanh", 0),
        ("tanh", 1),
        ("linear with biases", 1),
    ]
    given = [setting(case, which, seed) for case, seed in chosen]
    problems = [problem for problem, _, _ in given]
    shared = lr.Problem(problems[0].task, problems[1].network, problems[0].rates, loss=problems[0].loss)
    runs = lr.batch.descend([*problems, shared], 0.1, 20, at=range(21), record=("weights", "loss"))
    for run, (_, by_hand, begin) in zip(runs, given, strict=False):
        compare(run, by_hand.descend(*begin, 0.1, 20))
    again = given[0][1].descend(*given[1][2], 0.1, 20)
    compare(runs[-1], again)


# ---- gradient flow


def family_start(seed: int) -> tuple[lr.Problem, oracle.Run, list[np.ndarray]]:
    """Inside the family, on its λ-balanced boundary, or zero-balanced, with any inputs."""
    rng = np.random.default_rng((10, seed))
    d_in, classes = int(rng.integers(2, 5)), int(rng.integers(2, 5))
    n = d_in + classes
    match seed % 4:
        case 0:
            network = lr.inits.zero_balanced(rng, sizes=(d_in, n, classes), scale=float(rng.uniform(0.3, 1)))
        case 1 | 2:  # one layer as wide as can be balanced
            h, sign = ((classes, 1), (d_in, -1))[seed % 4 - 1]
            lam = sign * float(rng.uniform(0.1, 3))
            network = lr.inits.lambda_balanced(rng, sizes=(d_in, h, classes), lam=lam, scale=0.5)
        case _:
            c1, c2 = rng.uniform(0.1, 2, size=2)
            network = lr.inits.orthogonal(rng, sizes=(d_in, n, classes), scales=(c1, c2))
    task = task_of(seed, soft=seed % 3 == 0, d_in=d_in, classes=classes, reduction="mean")
    weights = [np.array(W) for W in network.weights]
    problem = lr.Problem(task, network, loss="cross_entropy")
    return problem, oracle.Run(task.inputs, task.targets, oracle.cross_entropy), weights


SOME = [0, 1, 2, 3]
TIMES = np.array([0.0, 0.5, 4.0])


def apart(seed: int) -> float:
    problem, by_hand, weights = family_start(seed)
    states = by_hand.flow(weights, TIMES)
    run = lr.flow(problem, TIMES, record=("function", "gram", "loss"), rtol=1e-12)
    W = np.array([W2 @ W1 for W1, W2 in states])
    Q = np.array([np.vstack([W1.T, W2]) for W1, W2 in states])
    losses = np.array([by_hand.value(state, [np.zeros(len(V)) for V in state]) for state in states])
    return max(
        np.abs(run.function - W).max() / np.abs(W).max(),
        np.abs(run.gram - Q @ np.swapaxes(Q, 1, 2)).max() / np.abs(Q).max() ** 2,
        np.abs(run.loss - losses).max(),
    )


@pytest.mark.parametrize("seed", SOME)
def test_the_function_closes_on_itself_on_family_starts(seed):
    assert OfFunction.applies(family_start(seed)[0])
    assert apart(seed) < 1e-9


@pytest.mark.long
def test_the_function_closes_on_itself_on_a_hundred_family_starts():
    worst = [apart(seed) for seed in range(100)]
    assert max(worst) < 1e-9, np.argsort(worst)[-5:]


@pytest.mark.parametrize(
    ("case", "which"),
    [
        ("two layers", "cross_entropy"),
        pytest.param("two layers", "own", marks=pytest.mark.long),
        pytest.param("one layer", "own", marks=pytest.mark.compiles),
        pytest.param("four layers, decay", "cross_entropy", marks=pytest.mark.compiles),
    ],
)
def test_flow_of_linear_networks_is_that_of_all_weights(case, which):
    problem, by_hand, (weights, _) = setting(case, which)
    states = by_hand.flow(weights, TIMES)
    run = lr.flow(problem, TIMES, rtol=1e-11)
    for layer, W in enumerate(run.weights):
        # the derivative of Huber's loss has kinks, over which any step is less accurate
        np.testing.assert_allclose(
            W, [state[layer] for state in states], atol=1e-8 if which == "cross_entropy" else 1e-7
        )
    found = run.certificate()
    assert found.residual < 1e-7 and found.worst < 1e-7


@pytest.mark.compiles
def test_flow_of_a_nonlinear_network_is_that_of_all_weights():
    problem, by_hand, (weights, _) = setting("tanh", "cross_entropy")
    states = by_hand.flow(weights, TIMES)
    run = lr.flow(problem, TIMES, rtol=1e-6)
    for layer, W in enumerate(run.weights):
        np.testing.assert_allclose(W, [state[layer] for state in states], atol=3e-4)


def test_flow_of_nothing_but_zeros_stays():
    task = task_of(0)
    problem = lr.Problem(task, lr.Network([np.zeros((5, D)), np.zeros((K, 5))]), loss="cross_entropy")
    run = lr.flow(problem, [0.0, 1e3], record=("function", "loss", "gram", "weights"))
    assert not run.function.any() and not run.gram.any()
    np.testing.assert_allclose(run.loss, np.log(K), rtol=1e-15)


def test_wide_layers_cost_the_hidden_units_they_use():
    task = task_of(1)
    W1, W2 = start(1, (D, 6, K))
    frame = np.linalg.qr(np.random.default_rng(0).normal(size=(400, 6)))[0]
    wide = lr.Problem(task, lr.Network([frame @ W1, W2 @ frame.T]), loss="cross_entropy")
    narrow = lr.Problem(task, lr.Network([W1, W2]), loss="cross_entropy")
    record = ("function", "gram")
    one, other = (lr.flow(problem, TIMES, record=record, rtol=1e-11) for problem in (wide, narrow))
    np.testing.assert_allclose(one.function, other.function, atol=1e-9)
    np.testing.assert_allclose(one.gram, other.gram, atol=1e-9)
    run = lr.flow(wide, TIMES, rtol=1e-9)
    np.testing.assert_allclose(run.function, other.function, atol=1e-7)
    assert run.certificate().drift < 1e-7


# ---- a run of one's own, observables, predictions, sequences


def test_a_run_of_ones_own_has_the_loss_of_its_problem():
    problem, by_hand, (weights, biases) = setting("two layers", "cross_entropy")
    states, _, losses = by_hand.descend(weights, biases, 0.1, 10)
    run = lr.Trajectory.from_weights(
        problem, 0.1 * np.arange(11), [np.stack(layer) for layer in zip(*states, strict=True)]
    )
    np.testing.assert_allclose(run.loss, losses, rtol=1e-12)
    by_function = lr.descend(problem, 0.1, 10, at=range(11), record="function")
    np.testing.assert_allclose(by_function.loss, losses, rtol=1e-12)
    assert run.at([0.5]).loss[0] == run.loss[5]
    assert lr.regime(run).name in ("lazy", "rich")
    for name in ("kernel_distance", "hamming_distance", "parameter_distance", "mode_strengths", "balancedness"):
        assert np.isfinite(getattr(lr.observables, name)(run)).all()


def test_certificates_see_another_loss():
    problem, _, _ = setting("two layers", "cross_entropy")
    run = lr.flow(problem, TIMES, rtol=1e-11)
    squared = lr.Problem(problem.task, problem.network, problem.rates)
    found = lr.Trajectory.from_weights(squared, TIMES, list(run.weights)).certificate()
    assert found.residual > 0.1 and found.drift < 1e-9  # what is conserved is so whatever the loss


@pytest.mark.parametrize("which", ["cross_entropy", pytest.param("own", marks=pytest.mark.long)])
def test_predict_says_what_the_flow_does(which):
    problem, _, _ = setting("two layers", which)
    found = lr.predict(problem)
    assert found.known == "integrated" and found.error < 1e-4 and not found.limit_known
    run = lr.flow(problem, found.trajectory.times, record=("function", "loss"), rtol=1e-11)
    size = np.abs(run.function).max()
    assert np.abs(found.trajectory.function - run.function).max() < found.error * size
    assert np.abs(found.trajectory.loss - run.loss).max() < found.error * run.loss.max()
    words = str(found)
    assert f"({'huber' if which == 'own' else which})" in words and "target " not in words.splitlines()[5]


def test_separable_classes_fall_for_ever_and_predict_says_so():
    X = np.random.default_rng(0).normal(size=(20, 3))
    task = lr.Task.from_labels(X, np.argmax(X, axis=1))
    problem = lr.Problem(task, lr.inits.gaussian(0, sizes=(3, 6, 3), scale=0.1), loss="cross_entropy")
    for found in (lr.predict(problem), lr.predict(problem, np.linspace(0, 1e4, 50))):
        assert found.still_falling and any("still falling" in note for note in found.notes)
        assert found.trajectory.loss[-1] < 0.02 * found.trajectory.loss[0]
        assert np.isfinite(found.half_times[:2]).all()
    late = lr.flow(problem, [1e4, 2e4, 1e6], record="loss").loss
    assert late[1] / late[0] == pytest.approx(0.5, abs=0.1) and late[2] < 0.02 * late[0]


def test_classes_that_overlap_come_to_an_end():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    task = lr.Task.from_labels(X, rng.integers(2, size=60))
    problem = lr.Problem(task, lr.inits.gaussian(0, sizes=(2, 5, 2), scale=0.5), loss="cross_entropy")
    found = lr.predict(problem, np.linspace(0, 500, 20))
    assert not found.still_falling
    E = problem.loss.pull_on_map(task, found.trajectory.function[-1])
    assert np.abs(E).max() < 1e-7


def test_tasks_in_turn_with_cross_entropy():
    tasks = [task_of(seed) for seed in range(2)]
    network = lr.Network(start(0, (D, 5, K)))
    run = lr.continual(tasks, network, [0.0, 5.0], loss="cross_entropy")
    assert run.methods == ("flow", "flow") and run.loss_matrix[0, 0] < run.initial_losses[0]
    by_hand = [oracle.Run(task.inputs, task.targets, oracle.cross_entropy) for task in tasks]
    weights = by_hand[0].flow(start(0, (D, 5, K)), np.array([5.0]))[-1]
    expected = [each.value(weights, [np.zeros(5), np.zeros(K)]) for each in by_hand]
    np.testing.assert_allclose(run.loss_matrix[0], expected, atol=1e-7)
    with pytest.raises(lr.InvalidInput, match="the predicted forgetting belongs to the squared loss"):
        _ = run.predicted_forgetting
    stepped = lr.continual(tasks, network, [0.0, 5.0], rate=0.1, loss="cross_entropy")
    assert stepped.methods == ("descend", "descend")


# ---- refusals


def test_every_closed_form_refuses_and_says_why():
    task = lr.Task.from_labels(np.eye(4), [0, 1, 2, 3])
    for sizes in ((4, 4), (4, 4, 4), (4, 4, 4, 4)):
        network = lr.inits.zero_balanced(0, sizes=sizes, scale=0.1)
        problem = lr.Problem(task, network, loss="cross_entropy")
        facts = problem.facts
        assert facts.method is None and "cross_entropy" in str(facts)
        assert all("squared loss" in [r.condition.value for r in refusals] for refusals in facts.methods.values())
        with pytest.raises(
            lr.NoExactSolution, match=r"all are about the squared loss.*this one is cross_entropy: try lr"
        ):
            lr.solve(problem, [1.0])
        with pytest.raises(lr.NoExactSolution, match="cross_entropy"):
            lr.fate(problem)
        with pytest.raises(lr.NoExactSolution, match="cross_entropy"):
            lr.batch.solve([problem], [1.0])


def test_what_belongs_to_the_squared_loss_refuses_another():
    problem, _, _ = setting("two layers", "cross_entropy")
    run, weights = lr.descend(problem, 0.1, 5), problem.network.weights
    biased, _, _ = setting("linear with biases", "cross_entropy")
    calls = [
        lambda: lr.lazy_limit(problem, [1.0]),
        lambda: lr.predict_regime(problem),
        lambda: lr.sensitivity(problem, weights, [1.0]),
        lambda: lr.landscape.plateau_times(problem),
        lambda: lr.landscape.saddle_path(run),
        lambda: lr.landscape.sharpness(run),
        lambda: lr.landscape.hessian(problem, weights),
        lambda: lr.observables.linearisation_gap(run),
        lambda: lr.plot.limits(problem),
        lambda: biased.without_biases(),
    ]
    for call in calls:
        with pytest.raises(lr.InvalidInput, match=r"belongs to the squared loss, for .*cross_entropy: try lr\.predict"):
            call()


def test_the_same_function_is_compiled_once():
    assert lr.Loss.of(huber) == lr.Loss.of(huber) and hash(lr.Loss.of(huber)) == hash(lr.Loss.of(huber))
    assert lr.Loss.of(huber) != lr.Loss.of(lambda f, y: huber(f, y))
    assert lr.Loss.of("squared") != lr.Loss.of("cross_entropy") and lr.Loss.of("squared") == lr.Loss.of("squared")


def test_a_loss_of_optax_is_that_of_ones_own():
    optax = pytest.importorskip("optax")
    problem, _, _ = setting("two layers", "cross_entropy")
    other = lr.Problem(problem.task, problem.network, problem.rates, loss=optax.softmax_cross_entropy)
    one, two = (lr.descend(each, 0.1, 20, record=("function", "loss")) for each in (problem, other))
    np.testing.assert_allclose(one.function, two.function, rtol=1e-12)
    np.testing.assert_allclose(one.loss, two.loss, rtol=1e-12)


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda f, y: jnp.argmax(f, -1) != jnp.argmax(y, -1), "or its gradient raised TypeError"),
        (lambda f, y: [1.0] * len(f), "or its gradient raised AttributeError"),
        (lambda f, y: ((f - y) ** 2).sum(-1) + ((f - y) ** 2).mean(), "gives the first one .* among the others and"),
    ],
)
def test_a_loss_without_a_gradient_or_of_all_samples_is_refused(rng, loss, words):
    task = lr.Task.from_labels(rng.normal(size=(12, 4)), rng.integers(0, 3, 12), classes=range(3))
    with pytest.raises(lr.InvalidInput, match=words):
        lr.Problem(task, lr.inits.gaussian(0, sizes=(4, 5, 3), scale=0.3), loss=loss)


def test_a_test_task_whose_targets_do_not_suit_is_refused(rng):
    X = rng.normal(size=(12, 4))
    task = lr.Task.from_labels(X, rng.integers(0, 3, 12), classes=range(3))
    problem = lr.Problem(task, lr.inits.gaussian(0, sizes=(4, 5, 3), scale=0.3), loss="cross_entropy")
    with pytest.raises(lr.InvalidInput, match="row 0 sums to 3"):
        lr.observables.loss_on(lr.descend(problem, rate=0.1, steps=2), lr.Task.from_data(X, np.ones((12, 3))))
