"""The best time to stop, against a search that knows losses alone, and where it must be 0 or never."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles import samples

import lazyrich as lr

from .searching import least, least_along, loss_of_two_layers

curve = lr.generalisation.curve


def noisy(seed, d_in=4, d_out=3, strengths=(3.0, 1.5), **options):
    return lr.tasks.noisy_teacher(seed, d_in=d_in, d_out=d_out, strengths=strengths, **options)[:2]


def two_layers(name):
    """A problem with a closed form, its test task, and λ."""
    train, test = noisy(1, noise=0.6)
    start = lr.inits.zero_balanced(1, sizes=(4, 5, 3), scale=0.05)
    if name == "λ":
        return lr.Problem(train, lr.inits.lambda_balanced(0, sizes=(4, 3, 3), lam=0.7, scale=0.1)), test, 0.7
    if name == "square":
        train, test = noisy(3, 4, 4, (2.0,), noise=0.8)
        return lr.Problem(train, lr.inits.zero_balanced(6, sizes=(4, 6, 4), scale=0.02)), test, 0.0
    if name == "equal singular values":
        train = lr.Task.from_correlations(np.diag([2.0, 2.0, 1.0]))
        test = lr.Task.from_correlations(np.diag([1.8, 1.0, 0.2]))
        return lr.Problem(train, lr.inits.zero_balanced(3, sizes=(3, 4, 3), scale=0.1)), test, 0.0
    if name == "rank deficient":
        train = lr.Task.from_correlations(np.outer([1.0, 2.0, 0.0], [1.0, 0.0, -1.0, 0.5]))
        test = lr.Task.from_correlations(np.outer([0.4, 1.1, 0.2], [0.6, 0.1, -0.4, 0.3]))
        return lr.Problem(train, start), test, 0.0
    if name == "bottleneck":
        return lr.Problem(train, lr.inits.zero_balanced(0, sizes=(4, 2, 3), scale=0.1)), test, 0.0
    if name == "correlated test inputs":
        mix = np.random.default_rng(2).normal(size=(4, 4))
        return lr.Problem(train, start), lr.Task.from_correlations(test.target @ mix @ mix.T, mix @ mix.T), 0.0
    return lr.Problem(train, start), test, 0.0


CASES = ["noisy", "λ", "square", "equal singular values", "rank deficient", "bottleneck", "correlated test inputs"]


@pytest.mark.parametrize("name", [CASES[0], *(pytest.param(name, marks=pytest.mark.long) for name in CASES[1:])])
def test_is_where_the_closed_form_has_its_least_test_loss(name):
    problem, test, lam = two_layers(name)
    found = curve(problem, test)
    assert found.prediction.exact and found.best.exact and 0 < found.best.time < np.inf
    end, time = float(found.course.times[-1]), found.best.time
    dense = lr.observables.loss_on(found.prediction.course.at(np.linspace(0, end, 20_001)), test)
    assert found.best.loss <= dense.min() * (1 + 1e-14)
    by_search = least(loss_of_two_layers(problem, test, lam), np.linspace(0.8 * time, 1.2 * time, 9))
    assert abs(time - by_search) < 1e-7 * end
    assert abs(time - by_search) < 10 * found.best.error + 1e-7 * time


@settings(max_examples=8)
@example(seed=197, noise=0.125, scale=0.5)  # weak modes come after all that training feels
@given(seed=st.integers(0, 10**6), noise=st.floats(0.1, 3.0), scale=st.floats(1e-4, 1.0))
def test_nothing_is_lower(seed, noise, scale):
    rng = np.random.default_rng(seed)
    d_in, d_out = rng.integers(1, 7, size=2).tolist()
    train, test = noisy(seed, d_in, d_out, rng.uniform(0.5, 4, size=min(d_in, d_out, 2)), noise=noise)
    sizes = (d_in, int(rng.integers(1, 8)), d_out)
    found = curve(lr.Problem(train, lr.inits.zero_balanced(seed, sizes=sizes, scale=scale)), test)
    end = float(found.course.times[-1])
    grid = np.union1d(np.linspace(0, end, 1000), np.geomspace(1e-6 * end, end, 1000))
    loss = lr.observables.loss_on(found.prediction.course.at(np.append(grid, np.inf)), test)
    assert found.best.loss <= loss.min() + 1e-11 * loss.max()
    if found.best.never:
        assert found.best.loss == loss[-1]


@pytest.mark.parametrize("kind", ["one layer", "three layers", "family", "aligned"])
def test_other_closed_forms(rng, kind):
    train, test = noisy(5, 3, 3, (2.0, 1.0), noise=1.5)
    if kind == "one layer":
        X = rng.normal(size=(8, 3))
        train = lr.Task.from_data(X, X @ test.target.T + rng.normal(size=(8, 3)))
        network = lr.Network([np.zeros((3, 3))])
    elif kind == "family":
        network = lr.inits.orthogonal(0, sizes=(3, 7, 3), scales=(0.3, 0.1))
    else:
        options = {"hidden": (4, 3)} if kind == "three layers" else {"hidden": 4}
        network = lr.inits.aligned(0, train, strengths=0.02, **options)
    found = curve(lr.Problem(train, network), test)
    end, time = float(found.course.times[-1]), found.best.time
    assert found.best.exact and 0 < time < end
    traj = found.prediction.course
    by_search = least(lambda t: lr.observables.loss_on(traj.at([t]), test)[0], np.linspace(0.5 * time, 1.5 * time, 41))
    assert abs(time - by_search) < 1e-6 * end  # as far as losses of sixteen digits tell
    assert found.best.loss <= lr.observables.loss_on(traj.at(np.linspace(0, end, 5001)), test).min() * (1 + 1e-14)


def two_minima(second):
    """Aligned modes, in closed form: the first passes what is asked for before the second, which helps, comes."""
    s, a0, wanted = np.array([4.0, 1.0]), 1e-3, np.array([2.5, second])
    train, test = lr.Task.from_correlations(np.diag(s)), lr.Task.from_correlations(np.diag(wanted))
    problem = lr.Problem(train, lr.inits.aligned(0, train, hidden=2, strengths=a0))

    def loss(t):
        a = s / (1 + (s / a0 - 1) * np.exp(-2 * s * t))
        return np.sum((a - wanted) ** 2) / 2

    return problem, test, loss


@pytest.mark.parametrize(("second", "late"), [(0.9, False), (2.2, True)])
def test_the_lowest_of_several_minima_wins(second, late):
    problem, test, loss = two_minima(second)
    found = curve(problem, test)
    by_search = least(loss, np.linspace(0, 20, 20_001), rounds=20)
    assert found.best.never if late else abs(found.best.time - by_search) < 1e-7
    assert len(found.course.minima()[0]) >= 1 and found.best.loss <= loss(by_search) * (1 + 1e-12)


def test_a_minimum_between_the_times_asked_for_is_found():
    problem, test, _ = two_minima(0.9)
    few, many = curve(problem, test, [0.0, 100.0]), curve(problem, test)
    assert few.best.time == pytest.approx(many.best.time, rel=1e-12) and few.test.shape == (2,)
    assert curve(problem, test, [1.0, np.inf]).best.time == pytest.approx(many.best.time, rel=1e-12)


def test_never_where_the_test_is_the_training_task():
    train, _ = noisy(1)
    for network in (lr.inits.zero_balanced(1, sizes=(4, 5, 3), scale=0.05), lr.Network([np.zeros((3, 4))])):
        found = curve(lr.Problem(train, network), train)
        assert found.best.never and found.best.loss == pytest.approx(train.loss_floor, abs=1e-12)
        assert np.isinf(found.by_mode.hurts_from).all() and "train to the end" in str(found)


def test_at_once_where_the_test_asks_for_what_training_does_not():
    train, test = lr.Task.from_correlations([[2.0, 0.0]]), lr.Task.from_correlations([[0.0, 1.0]])
    for network in (lr.Network([[[0.0, 0.0]]]), lr.inits.aligned(0, train, hidden=2, strengths=0.01)):
        found = curve(lr.Problem(train, network), test)
        assert found.best.time == 0 and found.best.error == 0 and found.best.loss == found.test[0]
        assert found.by_mode.hurts_from[0] == 0 and "stop at once" in str(found)


def test_never_where_nothing_moves():
    train = lr.Task.from_correlations([[2.0]])
    found = curve(lr.Problem(train, lr.Network([[[0.0]], [[0.0]]])), lr.Task.from_correlations([[1.0]]))
    assert found.best.never and found.best.loss == 0.5


@pytest.mark.compiles
def test_what_is_integrated_is_as_near_as_it_says(rng):
    train, test = noisy(2, 4, 4, (3.0, 2.0), noise=0.8)
    X = rng.normal(size=(30, 4)) * [1.0, 0.5, 1.5, 1.0]
    correlated = lr.Task.from_data(X, X @ test.target.T + 3.0 * rng.normal(size=(30, 4)))
    for task, sizes in ((train, (4, 6, 4)), (correlated, (4, 30, 4)), (correlated, (4, 5, 5, 4))):
        problem = lr.Problem(task, lr.inits.gaussian(3, sizes=sizes, scale=0.2))
        found = curve(problem, test)
        assert not found.best.exact and 0 < found.best.time < np.inf
        oracle = lr.Problem(lr.Task.from_data(task.inputs, task.targets), problem.network)
        shapes = [W.shape for W in problem.network.weights]

        def loss(state, shapes=shapes):
            parts = np.split(state, np.cumsum([a * b for a, b in shapes])[:-1])
            W = np.linalg.multi_dot([p.reshape(s) for p, s in zip(parts, shapes, strict=True)][::-1])
            return float(np.sum((W - test.target) ** 2)) / 2

        truth, _ = least_along(samples.velocity(oracle), problem.network.weights, found.course.times[-1], loss)
        assert abs(found.best.time - truth) < found.best.error < 1e-3 * found.course.times[-1]


@pytest.mark.compiles
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_nonlinear_networks(activation):
    rng = np.random.default_rng(4)
    teach = rng.normal(size=(5, 1))
    X, X_test = rng.normal(size=(20, 5)), rng.normal(size=(300, 5))
    train = lr.Task.from_data(X, np.maximum(X @ teach, 0) + 2 * rng.normal(size=(20, 1)))
    test = lr.Task.from_data(X_test, np.maximum(X_test @ teach, 0))
    problem = lr.Problem(train, lr.inits.gaussian(0, sizes=(5, 12, 1), scale=0.3, activation=activation))
    found = curve(problem, test)
    bend = np.tanh if activation == "tanh" else lambda z: np.maximum(z, 0)

    def loss(state):
        W1, W2 = state[:60].reshape(12, 5), state[60:].reshape(1, 12)
        return float(np.mean((bend(X_test @ W1.T) @ W2.T - test.targets) ** 2)) / 2

    rtol = 1e-9 if activation == "tanh" else 1e-6  # a unit that passes its kink makes steps small
    end = float(found.course.times[-1])
    truth, along = least_along(samples.velocity(problem), problem.network.weights, end, loss, 300, rtol)
    assert found.by_mode is None and 0 < found.best.time < np.inf
    assert abs(found.best.time - truth) < found.best.error < 0.2 * end
    np.testing.assert_allclose(found.test[[0, -1]], [along(0.0), along(found.times[-1])], rtol=1e-3)


@pytest.mark.parametrize("depth", [1, 2])
def test_cross_entropy(depth):
    rng = np.random.default_rng(3)
    teach = rng.normal(size=(5, 3))
    X, X_test = rng.normal(size=(15, 5)), rng.normal(size=(400, 5))
    labels = [np.argmax(Z @ teach + 1.5 * rng.normal(size=(len(Z), 3)), axis=1) for Z in (X, X_test)]
    train, test = (lr.Task.from_labels(Z, y, classes=range(3)) for Z, y in zip((X, X_test), labels, strict=True))
    network = lr.inits.gaussian(0, sizes=(5, 9, 3), scale=0.2) if depth == 2 else lr.Network([np.zeros((3, 5))])
    problem = lr.Problem(train, network, loss="cross_entropy")
    found = curve(problem, test)
    shapes = [W.shape for W in network.weights]
    ends = np.cumsum([a * b for a, b in shapes])[:-1]

    def layers(state):
        return [part.reshape(shape) for part, shape in zip(np.split(state, ends), shapes, strict=True)]

    def loss(state):
        f = X_test @ np.linalg.multi_dot([*layers(state)[::-1], np.eye(5)]).T
        return float(np.mean(np.log(np.exp(f).sum(axis=1)) - f[np.arange(400), labels[1]]))

    def right_side(_, state):
        W = layers(state)
        f = X @ np.linalg.multi_dot([*W[::-1], np.eye(5)]).T
        E = (train.targets - np.exp(f) / np.exp(f).sum(axis=1, keepdims=True)).T @ X / 15
        moves = [E] if depth == 1 else [W[1].T @ E, E @ W[0].T]
        return np.concatenate([move.ravel() for move in moves])

    end = float(found.course.times[-1])
    truth, along = least_along(right_side, network.weights, end, loss, 500)
    np.testing.assert_allclose(found.test[[0, -1]], [along(0.0), along(found.times[-1])], rtol=1e-4)
    assert found.by_mode is None and 0 < found.best.time < np.inf
    assert abs(found.best.time - truth) < found.best.error < 0.01 * end


def test_estimated_trajectories_have_a_best_time_too(monkeypatch):
    train, test = noisy(2, 5, 4, (3.0, 2.0), noise=0.8)
    problem = lr.Problem(train, lr.inits.gaussian(3, sizes=(5, 400, 4), scale=0.05))
    integrated_one = curve(problem, test)
    monkeypatch.setattr(sys.modules["lazyrich.predict"], "_LARGEST", 1)
    found = curve(problem, test)
    assert found.prediction.known == "estimated" and not found.best.exact
    assert abs(found.best.time - integrated_one.best.time) < found.best.error


@pytest.mark.parametrize(
    ("test", "problem", "message"),
    [
        (
            lr.Task.from_correlations(np.ones((2, 3))),
            None,
            r"test must have the inputs and outputs of the training task \(2 and 1\), and it has 3 and 2\.",
        ),
        (np.eye(2), None, r"test must be a lazyrich Task, and it is a ndarray: try Task\.from_data\."),
        (
            lr.Task.from_correlations([[1.0, 1.0]]),
            "relu",
            r"test must hold samples where the network is relu, and it holds correlations only: try Task\.from_data",
        ),
        (
            lr.Task.from_data([[1.0, 0.0], [1.0, 2.0]], [1.0, 2.0]).whitened(),
            None,
            r"test must see the inputs as the training task does, and it was whitened, and the training task was not",
        ),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_bad_input_is_one_sentence(test, problem, message):
    train = lr.Task.from_data([[1.0, 0.5], [0.0, 2.0], [1.0, -1.0]], [1.0, 2.0, 0.0])
    network = lr.Network([np.ones((1, 2)), [[1.0]]], problem or "linear")
    with pytest.raises(lr.InvalidInput, match=f"^{message}"):
        curve(lr.Problem(train, network), test)
    with pytest.raises(lr.InvalidInput, match=r"^problem must be a lazyrich Problem"):
        curve(train, test)
