"""Units and weights outside the task: targets of low rank, narrow hidden layers, and whatever stands beside them.

Such weights do not move, or fade, and must be there all the same: in the weights, in the Gram matrix, and in the next
task. The reference is an integration in extended precision, which shares no code with the library.
"""

from __future__ import annotations

import numpy as np
import pytest
from oracles import extended

import lazyrich as lr

EXACT = 1e-11
TIMES = np.array([0.0, 0.4, 1.5])


def turned(rng, size: int, kind: str) -> np.ndarray:
    """An orthonormal basis: the axes, the axes in another order, or any."""
    if kind == "any":
        return np.linalg.qr(rng.normal(size=(size, size)))[0]
    return np.eye(size) if kind == "axes" else np.eye(size)[rng.permutation(size)] * rng.choice([-1.0, 1.0], size)


def problem_beside(rng) -> tuple[lr.Network, np.ndarray, np.ndarray]:
    """A network, a target of low rank whose modes some of its units have, and another target with the same modes.

    The other units have weights outside the task: on one side, on both, not orthogonal to each other, or fading.
    """
    d_in, d_out = rng.integers(2, 6, size=2)
    least = min(d_in, d_out)
    rank, h = int(rng.integers(1, least)), int(rng.integers(1, least + 2))
    kind = rng.choice(["axes", "order", "any"])
    U, V, R = (turned(rng, n, kind) for n in (d_out, d_in, h))
    s = rng.choice([rng.uniform(0.3, 2.0, rank), np.full(rank, 1.0)])
    inside = int(rng.integers(0, min(rank, h) + 1))  # units that the task has a use for
    W1, W2 = np.zeros((h, d_in)), np.zeros((d_out, h))
    for unit in range(inside):
        W1[unit], W2[:, unit] = rng.uniform(0.1, 1.0) * V[:, unit], rng.uniform(-0.3, 1.0) * U[:, unit]
    outside = slice(inside, h)
    sides = rng.choice(["inputs", "outputs", "both, apart", "fading"])
    free = h - inside
    if free and sides == "fading":  # one mode that the task does not have, and that the flow unlearns
        W1[inside], W2[:, inside] = rng.uniform(0.1, 1.0) * V[:, rank], rng.uniform(0.1, 1.0) * U[:, rank]
    elif free:
        if sides in ("inputs", "both, apart"):
            count = free if sides == "inputs" else free // 2
            W1[inside : inside + count] = rng.normal(size=(count, d_in - rank)) @ V[:, rank:].T
        if sides in ("outputs", "both, apart"):
            count = free if sides == "outputs" else free - free // 2
            W2[:, h - count :] = U[:, rank:] @ rng.normal(size=(d_out - rank, count))
    assert W1[outside].shape[0] == free
    first = (U[:, :rank] * s) @ V[:, :rank].T
    second = (U[:, :rank] * rng.uniform(-1.0, 2.0, rank)) @ V[:, :rank].T
    return lr.Network([R @ W1, W2 @ R.T]), first, second


def gram(W1, W2):
    Q = np.concatenate([W1.T, W2])
    return (Q @ Q.T).astype(float)


def assert_follows(traj: lr.Trajectory, states: list) -> None:
    """Weights, Gram matrix and function at every time."""
    for i, (W1, W2) in enumerate(states):
        size = float(np.sum(W1**2) + np.sum(W2**2)) or 1.0
        for layer, W in zip(traj.weights, (W1, W2), strict=True):
            assert np.abs(layer[i] - W.astype(float)).max() <= EXACT * np.sqrt(size)
        assert np.abs(traj.gram[i] - gram(W1, W2)).max() <= EXACT * size
        assert np.abs(traj.function[i] - (W2 @ W1).astype(float)).max() <= EXACT * size


def check(seed: int) -> str:
    """One problem and the task after it; what solved the first."""
    network, first, second = problem_beside(np.random.default_rng((15, seed)))
    problem = lr.Problem(lr.Task.from_correlations(first), network)
    traj = lr.solve(problem, TIMES)
    states = extended.weights(network.weights, first, TIMES)
    assert_follows(traj, states)
    assert traj.certificate().exact, f"seed {seed}\n{traj.certificate()}"
    run = lr.continual([problem.task, lr.Task.from_correlations(second)], network, TIMES)
    assert_follows(run.trajectories[0], states)
    assert_follows(run.trajectories[1], extended.weights(states[-1], second, TIMES))
    return traj.method


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, 10))])
def test_a_hundred_problems(part):
    methods = [check(seed) for seed in range(10 * part, 10 * part + 10)]
    assert "modes" in methods


@pytest.mark.slow
@pytest.mark.parametrize("part", range(18))
def test_nine_hundred_more(part):
    for seed in range(100 + 50 * part, 150 + 50 * part):
        check(seed)


def test_a_unit_beside_the_task_keeps_its_weights():
    """The case that was found: more directions of the inputs carry weight than there are hidden units."""
    network = lr.Network([[[0.3, 0, 0], [0, 0.38242109, 0.32210884]], [[0.3, 0], [0, 0], [0, 0]]])
    traj = lr.solve(lr.Problem(lr.Task.from_correlations(np.diag([1.0, 0, 0])), network), TIMES)
    assert traj.method == "modes"
    np.testing.assert_array_equal(traj.weights[0][:, 1], np.tile(network.weights[0][1], (3, 1)))
    assert_follows(traj, extended.weights(network.weights, np.diag([1.0, 0, 0]), TIMES))
