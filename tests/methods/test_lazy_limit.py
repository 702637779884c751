"""The lazy limit against brute-force Jacobians and matrix exponentials that share no code with it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import lazyrich as lr
from lazyrich import InvalidInput
from lazyrich.methods.base import FOREVER
from lazyrich.methods.lazy_limit import LARGEST, SampledTangent, WeightTangent
from tests.oracles import tangent
from tests.oracles.biased import Biased

SLOPES = {"linear": 1.0, "relu": 0.0, 0.3: 0.3, "tanh": None}
INPUTS = ("white", "correlated", "few", "flat")


def inputs_of(rng, kind, d):
    """Samples whose Σxx is the identity, anything, or of low rank: fewer samples than inputs, or two equal inputs."""
    P = max(2, d - 2) if kind == "few" else d + 4
    X = rng.normal(size=(P, d))
    if kind == "white":
        return np.linalg.qr(X)[0] * np.sqrt(P)
    X = X @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)))
    if kind == "flat" and d > 1:
        X[:, -1] = X[:, 0]
    return X


def problem_of(seed, depth, kind, activation="linear", scale=1.0):
    rng = np.random.default_rng((17, seed, depth, INPUTS.index(kind)))
    sizes = rng.integers(1, 5, size=depth + 1)
    X = inputs_of(rng, kind, int(sizes[0]))
    reduction = ("mean", "sum")[seed % 2]
    task = lr.Task.from_data(X, rng.normal(size=(len(X), sizes[-1])), reduction=reduction)
    layers = [scale * rng.normal(size=(a, b)) for b, a in itertools.pairwise(sizes)]
    return lr.Problem(task, lr.Network(layers, activation), rates=rng.uniform(0.3, 3.0, size=depth))


def times_of(problem, share=(0.0, 0.1, 1.0, 10.0, 80.0, np.inf)):
    """In units of the fastest rate."""
    K = tangent.kernel(problem.network.weights, problem.task.inputs, problem.rates, slope_of(problem))
    fastest = weight_of(problem) * np.linalg.norm(K, 2)
    return np.array(share) / (fastest or 1.0)


def slope_of(problem):
    return problem.network.activation.gamma


def weight_of(problem):
    return 1 / len(problem.task.inputs) if problem.task.reduction == "mean" else 1.0


def given(problem):
    task = problem.task
    return problem.network.weights, problem.rates, task.inputs, task.targets, weight_of(problem)


def size_of(problem):
    return np.linalg.norm(problem.task.targets) + np.linalg.norm(problem.network(problem.task.inputs))


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(6))
def test_linear_networks_on_samples_and_everywhere_else(seed, depth, kind):
    problem = problem_of(seed, depth, kind, scale=(1e-3, 1.0, 30.0)[seed % 3])
    times = times_of(problem)
    found = lr.lazy_limit(problem, times)
    eye = np.eye(problem.task.d_in)
    for time, outputs, W, loss in zip(times, found.outputs, found.function, found.loss, strict=True):
        f = tangent.outputs(*given(problem), time)
        assert np.linalg.norm(outputs - f) < 1e-11 * size_of(problem)
        brute = weight_of(problem) * np.sum((problem.task.targets - f) ** 2) / 2
        assert abs(loss - brute) < 1e-11 * (brute + size_of(problem) ** 2 * weight_of(problem) * 1e-3)
        there = tangent.answers(*given(problem), time, eye).T
        assert np.linalg.norm(W - there) < 1e-11 * max(np.linalg.norm(there), size_of(problem))


@pytest.mark.parametrize("activation", ["relu", 0.3, "tanh"])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_other_networks_on_samples_and_everywhere_else(seed, depth, activation):
    problem = problem_of(seed, depth, "correlated", activation, scale=(0.1, 1.0, 3.0)[seed % 3])
    times = times_of(problem, (0.0, 0.1, 1.0, 10.0, 80.0))
    found, elsewhere = lr.lazy_limit(problem, times), np.random.default_rng(seed).normal(size=(3, problem.task.d_in))
    there = found.tangent.answers(times, elsewhere)
    for i, time in enumerate(times):
        f = tangent.outputs(*given(problem), time, slope=SLOPES[activation])
        assert np.linalg.norm(found.outputs[i] - f) < 1e-11 * size_of(problem)
        assert abs(found.loss[i] - weight_of(problem) * np.sum((problem.task.targets - f) ** 2) / 2) < 1e-11 * (
            size_of(problem) ** 2 * weight_of(problem)
        )
        brute = tangent.answers(*given(problem), time, elsewhere, slope=SLOPES[activation])
        assert np.linalg.norm(there[i] - brute) < 1e-10 * (size_of(problem) + np.linalg.norm(brute))


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_a_relu_ends_where_brute_force_says(seed, depth):
    problem = problem_of(seed, depth, "correlated", "relu")
    (end,) = lr.lazy_limit(problem, [np.inf]).outputs
    assert np.linalg.norm(end - tangent.outputs(*given(problem), np.inf, slope=0.0)) < 1e-10 * size_of(problem)


@pytest.mark.parametrize("zero", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("kind", INPUTS)
def test_layers_of_zeros(kind, zero):
    whole = problem_of(1, 2, kind)
    layers = [0 * W if i in zero else W for i, W in enumerate(whole.network.weights)]
    problem = lr.Problem(whole.task, lr.Network(layers), whole.rates)
    times = times_of(problem, (0.0, 1.0, 30.0, np.inf))
    found = lr.lazy_limit(problem, times).outputs
    for time, outputs in zip(times, found, strict=True):
        assert np.linalg.norm(outputs - tangent.outputs(*given(problem), time)) < 1e-11 * size_of(problem)
    if zero == (0, 1):
        assert not found.any()


def test_equal_eigenvalues_and_correlations_alone():
    S = np.array([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
    network = lr.inits.orthogonal(0, sizes=(3, 7, 2), scales=(0.5, 0.2))
    found = lr.lazy_limit(lr.Problem(lr.Task.from_correlations(S), network), [0.0, 1.0, np.inf]).function
    assert np.abs(found - S * np.array([0.0, -np.expm1(-0.7), 1.0])[:, None, None]).max() < 1e-14


def test_of_two_white_layers_is_the_formula_of_the_theory(rng):
    W1, W2, S, c = rng.normal(size=(5, 4)), rng.normal(size=(3, 5)), rng.normal(size=(3, 4)), 0.3
    problem = lr.Problem(lr.Task.from_correlations(S, c * np.eye(4)), lr.Network([W1, W2]), rates=[0.5, 2.0])
    t, T = 0.7, S / c
    expm = tangent.expm
    wanted = T - expm(-0.5 * c * t * W2 @ W2.T) @ (T - W2 @ W1) @ expm(-2.0 * c * t * W1.T @ W1)
    assert np.abs(lr.lazy_limit(problem, [t]).function[0] - wanted).max() < 1e-13


def test_one_layer_is_its_own_lazy_limit(rng):
    task = lr.Task.from_data(inputs_of(rng, "flat", 4), rng.normal(size=(8, 3)))
    problem, times = lr.Problem(task, lr.Network([rng.normal(size=(3, 4))]), rates=2.0), [0.0, 0.3, 5.0, np.inf]
    exact = lr.solve(problem, times).function
    assert np.abs(lr.lazy_limit(problem, times).function - exact).max() < 1e-12 * np.abs(exact).max()


@pytest.mark.parametrize(("depth", "scale"), [(2, 1e-40), (2, 1e40), (3, 1e-30), (3, 1e30), (5, 1e-15), (5, 1e15)])
def test_any_scale_of_the_weights(depth, scale, rng):
    """From f_0 = 0, weights × k have the same curve with all rates × k^{2L−2}."""
    task = lr.Task.from_data(rng.normal(size=(6, 3)), rng.normal(size=(6, 2)))
    upper, lower = np.repeat([1.0, 0.0], 4), np.repeat([0.0, 1.0], 4)  # units that read, and units that are read
    kept = [upper[:, None], *[np.outer(upper, upper) + np.outer(lower, lower)] * (depth - 2), lower]
    layers = [part * rng.normal(size=shape)
              for part, shape in zip(kept, [(8, 3), *[(8, 8)] * (depth - 2), (2, 8)], strict=True)]  # fmt: skip
    one = lr.lazy_limit(lr.Problem(task, lr.Network(layers)), [0.0, 0.1, np.inf])
    times = [0.0, 0.1 * scale ** (2 - 2 * depth), np.inf]
    many = lr.lazy_limit(lr.Problem(task, lr.Network([scale * W for W in layers])), times)
    assert np.abs(one.outputs[1]).max() > 0.01
    assert np.abs(many.outputs - one.outputs).max() < 1e-11


def test_five_large_layers_do_not_overflow():
    problem = lr.Problem(lr.Task.from_correlations([[1.0]]), lr.Network([[[1e50]]] * 5))
    assert lr.lazy_limit(problem, [0.0, 1.0, np.inf]).function.ravel() == pytest.approx([1e250, 1.0, 1.0], rel=1e-14)


def test_a_small_function_keeps_its_digits():
    problem = lr.Problem(lr.Task.from_correlations([[1.0]]), lr.Network([[[1e-30]], [[1e-30]]]))
    assert lr.lazy_limit(problem, [0.0]).function.item() == pytest.approx(1e-60, rel=1e-14)


def test_is_not_the_network():
    problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    traj = lr.lazy_limit(problem, [0.0, 1.0])
    assert traj.method == "lazy_limit" and "lazy_limit" in repr(traj) and "not the network" in traj.notes[0]
    assert traj.solution is None and not traj.knows("weights") and "Chizat" in traj.citation
    assert "lazy_limit" in lr.plot.loss(traj).axes[0].get_legend().get_texts()[0].get_text()
    for read in (
        traj.certificate,
        lambda: lr.regime(traj),
        lambda: lr.landscape.saddle_path(traj),
        lambda: lr.observables.kernel_distance(traj),
        lambda: lr.observables.parameter_distance(traj),
        lambda: traj.weights,
        lambda: traj.gram,
        traj.network,
    ):
        with pytest.raises((InvalidInput, AttributeError), match="lazy limit"):
            read()


def test_at_other_times_it_is_the_same():
    problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    later = lr.lazy_limit(problem, [0.0]).at([1.0, np.inf])
    assert later.method == "lazy_limit" and later.notes
    assert np.array_equal(later.function, lr.lazy_limit(problem, [1.0, np.inf]).function)
    assert lr.observables.mode_strengths(later).ravel() == pytest.approx(later.function.ravel())


def test_refuses_in_one_sentence(rng):
    task, network = lr.Task.from_correlations(np.eye(2)), lr.Network([np.eye(2), np.eye(2)])
    with pytest.raises(InvalidInput, match=r"no weight decay, and this problem has 0\.1: try"):
        lr.lazy_limit(lr.Problem(task, network, weight_decay=0.1), [1.0])
    with pytest.raises(InvalidInput, match=r"lazy_limit needs the samples of the task where the network is relu"):
        lr.lazy_limit(lr.Problem(task, lr.Network(network.weights, "relu")), [1.0])
    many = lr.Task.from_data(rng.normal(size=(LARGEST + 1, 2)), rng.normal(size=(LARGEST + 1, 2)))
    wide = lr.inits.gaussian(0, sizes=(2, 1500, 2), scale=1.0)
    says = r"4096 samples × outputs, or as many weights and biases, .* and there are 4097 × 2 and 6000: try"
    with pytest.raises(InvalidInput, match=says):
        lr.lazy_limit(lr.Problem(many, lr.Network(wide.weights, "relu")), [1.0])
    broad = lr.Task.from_correlations(np.ones((65, 65)))
    with pytest.raises(InvalidInput, match=r"4096 inputs × outputs.* and there are 65 × 65: try"):
        lr.lazy_limit(lr.Problem(broad, lr.inits.gaussian(0, sizes=(65, 2, 2, 65), scale=1.0)), [1.0])
    with pytest.raises(InvalidInput, match="times must not be negative"):
        lr.lazy_limit(lr.Problem(task, network), [-1.0])


def test_two_layers_may_be_large():
    network = lr.inits.gaussian(0, sizes=(200, 300, 100), scale=0.1)
    found = lr.lazy_limit(lr.Problem(lr.Task.from_correlations(np.ones((100, 200))), network), [0.0, np.inf])
    assert np.abs(found.function[0] - network.function).max() < 1e-11 and np.abs(found.function[1] - 1).max() < 1e-11


def biased_of(seed, activation, tau, sizes=(3, 4, 2), P=9):
    """A problem with biases, and the same for the oracle."""
    rng = np.random.default_rng((23, seed))
    weights = [rng.normal(size=(a, b)) for b, a in itertools.pairwise(sizes)]
    biases = [rng.normal(size=size) for size in sizes[1:]]
    X, Y, rates = (
        rng.normal(size=(P, sizes[0])),
        rng.normal(size=(P, sizes[-1])),
        rng.uniform(0.5, 2, size=len(weights)),
    )
    network = lr.Network(weights, activation, multiplier=tau, biases=biases)
    problem = lr.Problem(lr.Task.from_data(X, Y), network, rates=rates)
    return problem, Biased(weights, biases, activation, tau, rates, X, Y)


@pytest.mark.parametrize("P", [4, 40])  # fewer and more samples × outputs than weights
@pytest.mark.parametrize("tau", [1.0, 7.0])
@pytest.mark.parametrize("sizes", [(3, 4, 2), (3, 4, 3, 1)])
@pytest.mark.parametrize("activation", ["linear", "relu", "tanh"])
def test_networks_with_biases_and_a_multiplier(activation, sizes, tau, P):
    problem, brute = biased_of(len(sizes), activation, tau, sizes, P)
    times, elsewhere = np.array([0.0, 0.02, 0.3, 5.0]), np.random.default_rng(0).normal(size=(5, 3))
    found, outputs = lr.lazy_limit(problem, times), brute.tangent(times, brute.inputs)
    size = np.abs(outputs).max()
    assert np.abs(found.outputs - outputs).max() < 1e-11 * size
    assert np.abs(found.tangent.answers(times, elsewhere) - brute.tangent(times, elsewhere)).max() < 1e-10 * size
    loss = np.sum((outputs - brute.targets) ** 2, axis=(1, 2)) / (2 * P)
    assert found.loss == pytest.approx(loss, rel=1e-11)


@pytest.mark.parametrize("activation", ["relu", 0.3, "tanh"])
@pytest.mark.parametrize("seed", range(8))
def test_both_sides_give_the_same(seed, activation, monkeypatch):
    """Samples and weights, more or fewer, some of which nothing reaches; and samples in many blocks."""
    monkeypatch.setattr("lazyrich.methods.lazy_limit.LARGEST", (4, 4096)[seed % 2])
    rng = np.random.default_rng(seed)
    sizes, P = (4, *rng.integers(1, 5, size=1 + seed % 2), 3), (5, 30)[seed // 2 % 2]
    X, Y = inputs_of(rng, "flat", 4), rng.normal(size=(P, 3))
    X = rng.normal(size=(P, len(X))) @ X
    X[-1], X[:, 1] = X[0], 0.0  # a sample twice, and an input that is never there
    network = lr.Network([rng.normal(size=(a, b)) for b, a in itertools.pairwise(sizes)], activation)
    problem = lr.Problem(lr.Task.from_data(X, Y), network, rates=rng.uniform(0.3, 3, size=len(sizes) - 1))
    one, other = SampledTangent(problem), WeightTangent(problem)
    times, elsewhere = np.minimum(times_of(problem), FOREVER), rng.normal(size=(6, 4))
    assert other.outputs(times) == pytest.approx(one.outputs(times), abs=1e-10 * size_of(problem))
    assert other.loss(times) == pytest.approx(one.loss(times), rel=1e-10)
    finite = times[:-1]
    for i, time in enumerate(finite):
        brute = tangent.answers(*given(problem), time, elsewhere, slope=SLOPES[activation])
        there = other.answers(finite, elsewhere)[i]
        assert np.linalg.norm(there - brute) < 1e-10 * (size_of(problem) + np.linalg.norm(brute))


def test_the_smaller_side_is_taken(rng):
    network = lr.Network([rng.normal(size=(4, 3)), rng.normal(size=(2, 4))], "relu")  # 20 weights
    for P, kind in ((10, SampledTangent), (11, WeightTangent), (3000, WeightTangent)):
        task = lr.Task.from_data(rng.normal(size=(P, 3)), rng.normal(size=(P, 2)))
        limit = lr.lazy_limit(lr.Problem(task, network), [0.0, 1.0])
        assert type(limit.tangent) is kind
        assert limit.loss == pytest.approx(np.sum((limit.outputs - task.targets) ** 2, axis=(1, 2)) / (2 * P))


def test_answers_at_any_inputs_and_for_ever():
    """On the samples they are the outputs, in the limit too; a kernel that is all but singular keeps them in bounds."""
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(8, 3)), rng.normal(size=(8, 2))
    network = lr.Network([rng.normal(size=(2, 3)), rng.normal(size=(2, 2))], "relu")
    found = lr.lazy_limit(lr.Problem(lr.Task.from_data(X, Y), network), [0.0, 1.0, np.inf])
    np.testing.assert_allclose(found.tangent.answers([0.0, 1.0, np.inf], X), found.outputs, atol=1e-12)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, Y = np.repeat(rng.normal(size=(8, 1)), 2, axis=1), rng.normal(size=(8, 1))
        sizes = ((3, 2), (3, 3), (3, 3), (1, 3))
        deep = lr.Network([rng.normal(size=shape) for shape in sizes], "tanh", multiplier=7.0)
        found = lr.lazy_limit(lr.Problem(lr.Task.from_data(X, Y), deep), [0.0, 1e3, 1e20, np.inf])
        off = np.abs(found.tangent.answers(found.times, X) - found.outputs).max(axis=(1, 2))
        assert off[1] < 1e-9 and off.max() < 10 * np.abs(Y).max()
    with pytest.raises(lr.InvalidInput, match=r"^inputs must have shape any × 2, and it has 8 × 1"):
        found.tangent.answers([0.0], X[:, :1])
    with pytest.raises(lr.InvalidInput, match=r"^inputs must be finite"):
        found.tangent.answers([0.0], np.nan * X)


def test_answers_of_a_network_that_nothing_moves():
    dead = lr.Network([-np.ones((2, 1)), np.ones((1, 2))], "relu")
    problem = lr.Problem(lr.Task.from_data([[1.0], [2.0]], [[1.0], [2.0]]), dead)
    assert (
        lr.lazy_limit(problem, [0.0, 1.0]).tangent.answers([0.0, 1.0, np.inf], [[1.0], [-2.0]])[:, 1].tolist()
        == [[4.0]] * 3
    )
