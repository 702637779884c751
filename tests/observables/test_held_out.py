"""The loss of another task along a trajectory, sample by sample, in whatever coordinates the task comes."""

from __future__ import annotations

import numpy as np
import pytest
from problems import sampled, solved, task_of

import lazyrich as lr

loss_on = lr.observables.loss_on


def by_samples(network, inputs, targets):
    """A loop over samples."""
    return sum(float(np.sum((network(x) - y) ** 2)) for x, y in zip(inputs, targets, strict=True)) / 2 / len(inputs)


@pytest.mark.parametrize("activation", ["linear", "relu", "tanh", 0.2])
@pytest.mark.parametrize("seed", range(4))
def test_is_the_mean_over_samples(seed, activation):
    traj = sampled(seed, activation=activation)
    d_in, *_, d_out = traj.problem.network.sizes
    test = task_of(np.random.default_rng(seed), d_in, d_out)
    truth = [by_samples(traj.network(k), test.inputs, test.targets) for k in range(len(traj.times))]
    np.testing.assert_allclose(loss_on(traj, test), truth, rtol=1e-11)


@pytest.mark.parametrize("seed", range(6))
def test_of_the_training_task_is_the_training_loss(seed):
    traj = solved(seed)
    np.testing.assert_allclose(loss_on(traj, traj.problem.task), traj.loss, rtol=1e-12)


@pytest.mark.parametrize("activation", ["linear", "tanh"])
def test_with_biases(rng, activation):
    X, Y = rng.normal(size=(9, 3)) + 1, rng.normal(size=(9, 2))
    layers, biases = [rng.normal(size=(4, 3)), rng.normal(size=(2, 4))], [rng.normal(size=4), rng.normal(size=2)]
    network = lr.Network(layers, activation, biases=biases)
    problem = lr.Problem(lr.Task.from_data(X, Y), network)
    traj = lr.Trajectory.from_weights(problem, [0.0], [W[None] for W in layers], biases=[b[None] for b in biases])
    test = lr.Task.from_data(X[::-1] * 2, Y)
    np.testing.assert_allclose(loss_on(traj, test), by_samples(network, test.inputs, test.targets), rtol=1e-12)
    np.testing.assert_allclose(loss_on(traj, test.with_constant()), loss_on(traj, test), rtol=1e-12)


@pytest.mark.parametrize("rows", [20, 3])  # fewer than inputs: the map lacks directions
def test_raw_inputs_are_mapped_as_those_of_training(rng, rows):
    mix = rng.normal(size=(4, 4))
    raw = lr.Task.from_data(rng.normal(size=(rows, 4)) @ mix, rng.normal(size=(rows, 2)))
    test = lr.Task.from_data(rng.normal(size=(7, 4)) @ mix, rng.normal(size=(7, 2)))
    white = raw.whitened()
    for problem in (
        lr.Problem(white, lr.inits.gaussian(0, sizes=(4, 5, 2), scale=0.7)),
        lr.Problem(white, lr.inits.gaussian(0, sizes=(4, 5, 2), scale=0.7)).on_support(),
    ):
        traj = lr.Trajectory.from_weights(problem, [0.0], [W[None] for W in problem.network.weights])
        truth = by_samples(problem.network, test.inputs @ problem.task.input_map.T, test.targets)
        np.testing.assert_allclose(loss_on(traj, test), truth, rtol=1e-11)


@pytest.mark.compiles
@pytest.mark.parametrize("activation", ["linear", "tanh"])
def test_of_a_lazy_limit(rng, activation):
    train = lr.Task.from_data(rng.normal(size=(6, 3)), rng.normal(size=(6, 2)))
    test = lr.Task.from_data(rng.normal(size=(5, 3)), rng.normal(size=(5, 2)))
    network = lr.inits.gaussian(0, sizes=(3, 8, 2), scale=0.5, activation=activation)
    traj = lr.lazy_limit(lr.Problem(train, network), [0.0, 2.0])
    answers = traj.tangent.answers(traj.times, test.inputs)
    truth = [np.mean(np.sum((f - test.targets) ** 2, axis=1)) / 2 for f in answers]
    np.testing.assert_allclose(loss_on(traj, test), truth, rtol=1e-10)


def two_maps(rng):
    return [lr.Task.from_data(rng.normal(size=(9, 2)), rng.normal(size=(9, 1))).whitened() for _ in range(2)]


@pytest.mark.usefixtures("unchecked_shapes")
def test_what_cannot_be_tested_is_refused(rng):
    white, other = two_maps(rng)
    traj = lr.solve(lr.Problem(white, lr.Network([np.ones((1, 2))])), [0.0])
    message = (
        r"^test must see the inputs as the training task does, and it was whitened by a map that differs from that "
    )
    with pytest.raises(lr.InvalidInput, match=message + r"of the training task by \S+ of its size: try the test task"):
        loss_on(traj, other)
    message = r"^test must have the inputs and outputs of the training task \(2 and 1\)"
    with pytest.raises(lr.InvalidInput, match=message):
        loss_on(traj, lr.Task.from_correlations([[1.0]]))
    with pytest.raises(lr.InvalidInput, match=r"^traj must be a lazyrich Trajectory"):
        loss_on(white, other)
    lacking = lr.Problem(
        lr.Task.from_data([[1.0, 1.0], [2.0, 2.0]], [1.0, 2.0]).whitened(), lr.Network([np.ones((1, 2))])
    ).on_support()
    with pytest.raises(lr.InvalidInput, match=r"training task before it was whitened \(2 and 1\), and it has 1 and 1"):
        loss_on(lr.solve(lacking, [0.0]), lr.Task.from_correlations([[1.0]]))
