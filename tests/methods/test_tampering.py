"""The certificate judges the very arrays a user holds: whoever changes one of them is noticed, and nobody else is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles import extended

import lazyrich as lr
from lazyrich.methods.riccati import method as riccati

TIMES = np.array([0.0, 0.3, 1.0, 2.5, 8.0, 40.0])
PARTS = ("function", "loss", "gram", "weights")
KINDS = ("zero-balanced", "λ-balanced", "bottleneck", "aligned", "shallow", "deep", "weight decay", "layer rates")


def drawn(kind: str, seed: int, scale: float = 0.3) -> lr.Problem:
    """A problem of each exact family, degenerate ones among them."""
    rng = np.random.default_rng((seed, *kind.encode()))
    d_in, d_out = rng.integers(1, 6, size=2)
    rank = int(rng.integers(1, min(d_in, d_out) + 1))
    s = rng.choice([rng.uniform(0.2, 3.0, rank), np.full(rank, 1.3)])
    U, V = (np.linalg.qr(rng.normal(size=(n, n)))[0][:, :rank] for n in (d_out, d_in))
    task = lr.Task.from_correlations((U * s) @ V.T)
    h = int(rng.integers(1, 7))
    strengths = rng.choice([-0.2, 0.0, 0.05, 2.0], size=min(d_in, d_out))
    make = {
        "zero-balanced": lambda: lr.inits.zero_balanced(rng, sizes=(d_in, h, d_out), scale=scale),
        "bottleneck": lambda: lr.inits.zero_balanced(rng, sizes=(d_in, 1, d_out), scale=scale),
        "weight decay": lambda: lr.inits.zero_balanced(rng, sizes=(d_in, h, d_out), scale=scale),
        "layer rates": lambda: lr.inits.zero_balanced(rng, sizes=(d_in, h, d_out), scale=scale),
        "aligned": lambda: lr.inits.aligned(
            rng, task, hidden=min(d_in, d_out) + 2, strengths=strengths, lam=rng.uniform(-2, 2, len(strengths))
        ),
        "shallow": lambda: lr.inits.gaussian(rng, sizes=(d_in, d_out), scale=scale),
        "deep": lambda: lr.inits.aligned(rng, task, hidden=(min(d_in, d_out) + 1,) * 2, strengths=np.abs(strengths)),
    }
    if kind == "λ-balanced":
        lam = float(rng.uniform(0.1, 5.0)) * (1 if d_out > 1 else -1)
        h = min(h, d_out if lam > 0 else d_in)
        return lr.Problem(task, lr.inits.lambda_balanced(rng, sizes=(d_in, h, d_out), lam=lam, scale=scale))
    network = make[kind]()
    if kind == "layer rates":
        W1, W2 = network.weights
        return lr.Problem(task, lr.Network([np.sqrt(2.0) * W1, np.sqrt(0.5) * W2]), rates=(2.0, 0.5))
    return lr.Problem(task, network, weight_decay=0.1 if kind == "weight decay" else 0.0)


def held(problem: lr.Problem, times=TIMES) -> dict[str, list[np.ndarray]]:
    """All arrays a user can ask an exact trajectory for, as writable copies."""
    traj = lr.solve(problem, times)
    parts = [name for name in PARTS if traj.knows(name)]
    return {
        name: [np.array(a) for a in ([*traj.weights] if name == "weights" else [getattr(traj, name)])] for name in parts
    }


def with_arrays(problem: lr.Problem, arrays: dict[str, list[np.ndarray]]) -> lr.Trajectory:
    solved = lr.solve(problem, TIMES)
    parts = {name: value if name == "weights" else value[0] for name, value in arrays.items()}
    return lr.Trajectory(problem, TIMES, solved.method, parts, solution=solved.solution)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=6)
@given(seed=st.integers(0, 10**6), data=st.data())
def test_a_change_of_any_single_number_is_noticed(kind, seed, data):
    problem = drawn(kind, seed)
    assume(lr.solve(problem, TIMES).solution.doubt_until(40.0) < 1e-13)  # not by chance close to the separatrix
    arrays = held(problem)
    assert with_arrays(problem, arrays).certificate().exact, str(with_arrays(problem, arrays).certificate())
    name = data.draw(st.sampled_from(sorted(arrays)))
    array = data.draw(st.sampled_from(arrays[name]))
    place = tuple(data.draw(st.integers(0, n - 1)) for n in array.shape)
    array[place] += 1e-3 * (np.abs(array[place[0]]).max() + 1.0)
    changed = with_arrays(problem, {name: arrays[name]})  # alone, so that no other array gives it away
    assert not changed.certificate().exact
    assert not with_arrays(problem, arrays).certificate().exact


@pytest.mark.parametrize("seed", range(6))
def test_a_rotation_of_the_hidden_units_is_noticed(seed):
    """At one time alone; neither the function nor the Gram matrix knows of it."""
    problem = drawn("zero-balanced", seed)
    arrays = held(problem)
    h = problem.network.sizes[1]
    R = np.linalg.qr(np.random.default_rng(seed).normal(size=(h, h)))[0]
    W1, W2 = arrays["weights"]
    W1[3], W2[3] = R @ W1[3], W2[3] @ R.T
    if np.abs(W1[3] - held(problem)["weights"][0][3]).max() > 1e-6:
        assert not with_arrays(problem, arrays).certificate().exact


def test_weights_that_turn_wrongly_all_along_are_noticed(monkeypatch):
    """A rotation rate off by a thousandth: each Gram matrix is right, the way from one to the next is not."""

    problem = lr.Problem(
        lr.tasks.random_regression(3, d_in=4, d_out=3, samples=20),
        lr.inits.zero_balanced(1, sizes=(4, 3, 3), scale=0.5),
    )
    right = riccati.follow
    skew = np.array([[0.0, 1.0, 0.5], [-1.0, 0.0, 0.3], [-0.5, -0.3, 0.0]])

    def turning(graded, times):
        Q = right(graded, times)
        turns = [np.linalg.solve(np.eye(3) - a, np.eye(3) + a) for a in 1e-3 * times[:, None, None] * skew]
        return Q @ np.array(turns)

    assert lr.solve(problem, TIMES).certificate().exact
    monkeypatch.setattr(riccati, "follow", turning)
    traj = lr.solve(problem, TIMES)
    assert traj.weights and not traj.certificate().exact


def test_arrays_cannot_be_written_to():
    traj = lr.solve(drawn("zero-balanced", 0), TIMES)
    for array in (traj.times, traj.function, traj.loss, traj.gram, *traj.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] += 1
    for value, name in ((traj, "loss"), (traj, "times"), (traj.problem, "task"), (traj.problem.network, "weights")):
        with pytest.raises(AttributeError):
            setattr(value, name, None)
    for array in (traj.problem.task.sigma_yx, traj.problem.task.sigma_xx, *traj.problem.network.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] += 1


def test_right_weights_with_a_wrong_function_are_not_certified():
    problem = drawn("zero-balanced", 1)
    right = lr.solve(problem, TIMES)
    zeros = {"function": np.zeros_like(right.function), "loss": np.zeros_like(right.loss)}
    made = lr.Trajectory(problem, TIMES, "by hand", {"weights": right.weights, **zeros})
    assert made.certificate().agreement > 0.1 and not made.certificate().exact


@pytest.mark.parametrize(
    "parts, sentence",
    [
        ({"loss": np.zeros(5)}, r"loss must hold one state per time \(6\).* shape \(5,\)"),
        ({"weights": [np.zeros((6, 2, 2))]}, "weights must hold 2 arrays, one per layer, and there are 1"),
        ({"weights": [np.zeros((6, 2, 3)), np.zeros((6, 2, 2))]}, r"weights\[0\] must hold one state per time"),
        ({"los": np.zeros(6)}, "parts must be one of"),
    ],
)
def test_parts_that_do_not_fit_are_refused(parts, sentence):
    problem = lr.Problem(lr.Task.from_correlations(np.eye(2)), lr.Network([np.eye(2), np.eye(2)]))
    with pytest.raises(lr.InvalidInput, match=sentence):
        lr.Trajectory(problem, TIMES, "by hand", parts)


@pytest.mark.parametrize("kind", KINDS)
def test_exact_trajectories_are_called_exact(kind):
    """Of all families, small starts and large ones, near and late; eight times seven problems, all arrays held."""
    for seed in range(7):
        problem = drawn(kind, 1000 + seed, scale=[1e-6, 0.01, 0.3, 3.0][seed % 4])
        traj = lr.solve(problem, [0.0, 0.5, 20.0, [100.0, 1e4, 1e12][seed % 3]])
        assert traj.function.size and traj.loss.size and traj.weights
        assert traj.certificate().exact, f"{kind}, seed {seed}\n{traj.certificate()}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_five_hundred_are_called_exact(kind):
    for seed in range(63):
        problem = drawn(kind, 5000 + seed, scale=10.0 ** np.random.default_rng(seed).uniform(-8, 1))
        traj = lr.solve(problem, [0.0, 0.5, 20.0, 100.0, [1e3, 1e6, 1e12][seed % 3]])
        assert traj.certificate().exact, f"{kind}, seed {seed}\n{traj.certificate()}"


# The cases that were found


@pytest.mark.parametrize("method", ["modes", "riccati"])
@pytest.mark.parametrize("size", [1e-15, 1e-40, 1e-150, 1e-170])
def test_tiny_weights_that_no_rounding_made_grow(method, size):
    """Exact floats are what they are: the mode is learned when (s/a0) e^{−2st} says, however late."""
    W, sigma_yx, times = np.diag([size, 0.1]), np.diag([2.0, 1.0]), np.linspace(0.0, 400.0, 9)
    traj = lr.solve(lr.Problem(lr.Task.from_correlations(sigma_yx), lr.Network([W, W])), times, method=method)
    log = np.log(2.0) - 2 * np.log(size) - 4 * times
    expected = np.where(log < 600, 2.0 / (1 + np.exp(np.minimum(log, 600))), 0.0)
    np.testing.assert_allclose(traj.function[:, 0, 0], expected, rtol=1e-11, atol=1e-200)
    assert traj.certificate().exact, str(traj.certificate())


@pytest.mark.long
@pytest.mark.parametrize("W1, W2, s, end", [(0.8, 2e-7, 1.0, 10.0), (0.8, 0.5, 0.0, 100.0), (1e-9, 3.0, 0.5, 30.0)])
@pytest.mark.parametrize("method", ["modes", "riccati"])
def test_unequal_and_fading_layers_are_exact(W1, W2, s, end, method):
    problem = lr.Problem(lr.Task.from_correlations([[s]]), lr.Network([[[W1]], [[W2]]]))
    traj = lr.solve(problem, [0.0, 0.3, 1.0, end], method=method)
    states = extended.weights([[[W1]], [[W2]]], [[s]], [0.0, 0.3, 1.0, end])
    np.testing.assert_allclose(
        traj.function[:, 0, 0], [float((B @ A)[0, 0]) for A, B in states], rtol=1e-13, atol=1e-16
    )
    assert traj.weights and traj.certificate().exact, str(traj.certificate())


def test_an_imbalance_beyond_rounding_is_refused():
    """Off by 1.7e-13 and on the separatrix of a balanced start, the function was off by 3e-3 at t = 36."""
    network = lr.inits.zero_balanced(2, sizes=(3, 3, 3), scale=0.3)
    sigma_yx = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))[0] * [1.5, 1.2, 1.0]
    sigma_yx *= -np.linalg.slogdet(sigma_yx)[0] * np.linalg.slogdet(network.function)[0]
    W1, W2 = network.weights
    noise = np.random.default_rng(0).normal(size=W1.shape)
    off = lr.Network([W1 + 4e-13 * np.linalg.norm(W1) * noise / np.linalg.norm(noise), W2])
    problem = lr.Problem(lr.Task.from_correlations(sigma_yx), off)
    assert 1e-14 < problem.facts.balance_error < 1e-12
    with pytest.raises(lr.NoExactSolution, match="W2ᵀW2 − W1W1ᵀ = λI, and these are off by"):
        lr.solve(problem, [0.0, 36.0])


@pytest.mark.long
@pytest.mark.parametrize("lam", [1e-2, 1e-4, 1e-6, 1e-8])
def test_close_to_the_separatrix_the_doubt_is_no_smaller_than_the_error(lam):
    """λ takes a start of the wrong determinant off the separatrix, by so little that its own rounding shows."""
    sigma_yx = np.linalg.qr(np.random.default_rng(1).normal(size=(2, 2)))[0] * [2.0, 1.2]
    for seed in range(4):
        network = lr.inits.lambda_balanced(seed, sizes=(2, 2, 2), lam=lam, scale=0.3)
        target = sigma_yx * [1.0, -np.linalg.slogdet(sigma_yx)[0] * np.linalg.slogdet(network.function)[0]]
        traj = lr.solve(lr.Problem(lr.Task.from_correlations(target), network), np.linspace(0.0, 40.0, 41))
        states = extended.weights(network.weights, target, traj.times)
        error = max(np.linalg.norm((B @ A).astype(float) - W) for (A, B), W in zip(states, traj.function, strict=True))
        certificate = traj.certificate()
        assert error / np.linalg.norm(target) <= max(2 * certificate.doubt, 1e-14)
        assert certificate.exact == (certificate.worst <= 1e-11)
    assert lam > 1e-5 or certificate.doubt > 1e-12
