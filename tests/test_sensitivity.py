"""`sensitivity`: directions that leave the balance, half times, words; test_tangent has the closed form."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import lazyrich as lr

TIMES = np.array([0.0, 0.3, 1.0, 3.0])


def linearised_weights(problem, direction, times):
    """δQQᵀ and δloss by integrating all weights and their moves, layer by layer."""
    (W1, W2), (eta1, eta2), gamma = problem.network.weights, problem.rates, problem.weight_decay
    S, X = problem.task.sigma_yx, problem.task.sigma_xx
    shapes = [W1.shape, W2.shape, W1.shape, W2.shape]
    cuts = np.cumsum([np.prod(shape) for shape in shapes])[:-1]
    split = lambda y: [part.reshape(shape) for part, shape in zip(np.split(y, cuts), shapes, strict=True)]

    def slope(_, y):
        A, B, dA, dB = split(y)
        E, dE = S - B @ A @ X, -(dB @ A + B @ dA) @ X
        first, second = B.T @ E - gamma * A, E @ A.T - gamma * B
        d_first, d_second = dB.T @ E + B.T @ dE - gamma * dA, dE @ A.T + E @ dA.T - gamma * dB
        return np.concatenate([v.ravel() for v in (eta1 * first, eta2 * second, eta1 * d_first, eta2 * d_second)])

    start = np.concatenate([np.ravel(M) for M in (W1, W2, *direction)])
    run = solve_ivp(slope, (0, times[-1]), start, "DOP853", t_eval=times, rtol=1e-12, atol=1e-14)
    grams, losses = [], []
    for y in run.y.T:
        A, B, dA, dB = split(y)
        Q, dQ = np.concatenate([A.T, B]), np.concatenate([dA.T, dB])
        grams.append(dQ @ Q.T + Q @ dQ.T)
        losses.append(np.sum((B @ A @ X - S) * (dB @ A + B @ dA)))
    return np.array(grams), np.array(losses)


def drawn(rng, network):
    return [rng.normal(size=W.shape) for W in network.weights]


PROBLEMS = {
    "balanced": lambda rng: lr.Problem(
        lr.Task.from_correlations(rng.normal(size=(3, 4)), 0.6 * np.eye(4)),
        lr.inits.lambda_balanced(0, sizes=(4, 3, 3), lam=0.3, scale=0.3),
    ),
    "balanced, with rates": lambda rng: lr.Problem(
        lr.Task.from_correlations(rng.normal(size=(3, 4))),
        lr.Network([[[0.2, 0.1, 0.3, 0.1]], [[0.1], [0.2], [0.4]]]),
        rates=(0.5, 2.0),
    ),
    "random, correlated inputs": lambda rng: lr.Problem(
        lr.Task.from_correlations(rng.normal(size=(3, 4)), np.diag([1.0, 2.0, 0.5, 0.1])),
        lr.inits.gaussian(0, sizes=(4, 6, 3), scale=0.3),
    ),
    "weight decay": lambda rng: lr.Problem(
        lr.Task.from_correlations(rng.normal(size=(2, 3))),
        lr.inits.zero_balanced(0, sizes=(3, 4, 2), scale=0.3),
        weight_decay=0.2,
    ),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (i != 2)) for i, n in enumerate(PROBLEMS)])
def test_any_direction(name, rng):
    problem = PROBLEMS[name](rng)
    direction = drawn(rng, problem.network)
    moved = lr.sensitivity(problem, direction, TIMES)
    gram, loss = linearised_weights(problem, direction, TIMES)
    largest = np.abs(gram).max()
    if problem.network.sizes[1] > 1:
        assert not moved.exact and moved.method == "linearised" and moved.departure > 0.01
    off = np.abs(moved.gram - gram).max() / largest
    assert off < 1e-8 and off < 10 * moved.error + 1e-12
    assert np.abs(moved.loss - loss).max() < 1e-6 * np.abs(loss).max()
    assert np.array_equal(moved.function, moved.gram[:, problem.task.d_in :, : problem.task.d_in])


def test_one_hidden_unit_is_balanced_in_every_direction(rng):
    problem = PROBLEMS["balanced, with rates"](rng)
    direction = drawn(rng, problem.network)
    moved = lr.sensitivity(problem, direction, TIMES)
    gram, loss = linearised_weights(problem, direction, TIMES)
    assert moved.exact and moved.departure == 0.0 and moved.lam != 0.0
    assert np.abs(moved.gram - gram).max() < 1e-10 * np.abs(gram).max()
    assert np.abs(moved.loss - loss).max() < 1e-10 * np.abs(loss).max()


def test_closed_form_and_integration_agree_where_both_are_right(rng):
    problem = PROBLEMS["balanced"](rng)
    W1, W2 = problem.network.weights
    X = rng.normal(size=(3, 4))
    direction = [W2.T @ X + W1, X @ W1.T + W2]
    moved = lr.sensitivity(problem, direction, TIMES)
    assert moved.exact and moved.lam == pytest.approx(0.6)
    gram, loss = linearised_weights(problem, direction, TIMES)
    assert np.abs(moved.gram - gram).max() < 1e-10 * np.abs(gram).max()
    assert np.abs(moved.loss - loss).max() < 1e-10 * np.abs(loss).max()


def test_moving_lambda_of_a_task_without_a_mode_is_integrated(rng):
    """At λ = 0 two eigenvectors with w = 0 would turn into each other at once."""
    task = lr.Task.from_correlations(np.diag([1.0, 0.0]))
    problem = lr.Problem(task, lr.Network([np.diag([0.3, 0.3]), np.diag([0.3, 0.3])]))
    direction = [np.diag([-1.0, -1.0]), np.diag([1.0, 1.0])]
    moved = lr.sensitivity(problem, direction, TIMES)
    gram, _ = linearised_weights(problem, direction, TIMES)
    assert not moved.exact and moved.departure == 0.0 and moved.lam == pytest.approx(1.2)
    assert np.abs(moved.gram - gram).max() < 1e-8 * np.abs(gram).max()


class TestHalfTimes:
    def test_of_one_mode_are_known(self):
        """(1/2s) ln(s/a0 − 1), a0 = 0.01: half way to s from 0, and nearly so from a0."""
        problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
        a, b, s = 0.01, 0.02, 2.0
        # t solves s/(1 + (s/a − 1)e^{−2st}) = (a + s)/2, which is e^{2st} = (s/a − 1)(s + a)/(s − a) = (s + a)/a
        expected = (1 / (2 * s)) * (1 / (s + a) - 1 / a) * b
        moved = lr.sensitivity(problem, problem.network.weights, [0.0])
        assert moved.half_times == pytest.approx([expected], rel=1e-12)

    def test_against_differences_of_fate(self, rng):
        task = lr.Task.from_correlations(np.diag([3.0, 2.0, 1.0]) + 0.1 * rng.normal(size=(3, 3)))
        problems = (
            lr.Problem(task, lr.inits.lambda_balanced(i, sizes=(3, 2, 3), lam=0.2, scale=0.05)) for i in range(9)
        )
        problem = next(p for p in problems if np.isfinite(lr.fate(p).half_times[:2]).all())
        W1, W2 = problem.network.weights
        X = rng.normal(size=(3, 3))
        velocity, Q = np.block([[np.zeros((3, 3)), X.T], [X, np.zeros((3, 3))]]), np.concatenate([W1.T, W2])
        moved = lr.sensitivity(problem, [W2.T @ X, X @ W1.T], [0.0, 1.0])

        def times(eps):
            there = expm(eps * velocity) @ Q
            return lr.fate(lr.Problem(task, lr.Network([there[:3].T, there[3:]]))).half_times

        eps = 1e-4
        slope = (8 * (times(eps) - times(-eps)) - (times(2 * eps) - times(-2 * eps))) / (12 * eps)
        assert np.isnan(moved.half_times[2]) and np.isnan(slope[2])
        assert moved.half_times[:2] == pytest.approx(slope[:2], rel=1e-6)

    def test_need_an_exact_solution(self, rng):
        problem = PROBLEMS["random, correlated inputs"](rng)
        with pytest.raises(lr.InvalidInput, match="half_times belong to problems with an exact solution"):
            _ = lr.sensitivity(problem, drawn(rng, problem.network), [0.0, 1.0]).half_times


def test_nothing_moves_along_no_direction():
    problem = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.1]], [[0.1]]]))
    moved = lr.sensitivity(problem, [[[0.0]], [[0.0]]], [0.0, 1.0])
    assert moved.exact and not moved.gram.any() and not moved.loss.any()
    still = lr.Problem(lr.Task.from_correlations([[2.0]]), lr.Network([[[0.0]], [[0.0]]]))
    assert not lr.sensitivity(
        still, [[[1.0]], [[1.0]]], [0.0, 1.0]
    ).gram.any()  # from 0 both layers move to second order


def test_says_how_it_is_known(rng):
    problem = PROBLEMS["balanced"](rng)
    text = str(lr.sensitivity(problem, drawn(rng, problem.network), TIMES))
    assert "linearised (integrated: to" in text and "balance       left, by" in text
    W1, W2 = problem.network.weights
    text = str(lr.sensitivity(problem, [W1, W2], TIMES))
    assert "riccati (exact)" in text and "kept, and λ moves by 0.6" in text


class TestMessages:
    PROBLEM = lr.Problem(lr.Task.from_correlations(np.eye(2)), lr.inits.zero_balanced(0, sizes=(2, 3, 2), scale=0.3))

    @pytest.mark.usefixtures("unchecked_shapes")
    @pytest.mark.parametrize(
        ("direction", "times", "words"),
        [
            ("up", [0.0], r"direction must list one array per layer \(2\), and it is a str"),
            ([np.ones((3, 2))], [0.0], r"direction must list one array per layer \(2\), and it has 1"),
            ([np.ones((3, 2)), np.ones((3, 2))], [0.0], r"direction\[1\] must have shape 2 × 3, and it has 3 × 2"),
            ([np.ones((3, 2)), np.ones((2, 3))], [np.inf], "times must be finite where a direction leaves the balance"),
        ],
    )
    def test_one_sentence(self, direction, times, words):
        with pytest.raises(lr.InvalidInput, match=words):
            lr.sensitivity(self.PROBLEM, direction, times)

    def test_too_many_steps(self, monkeypatch):
        monkeypatch.setattr("lazyrich.methods.linearised._MOST", 20)
        with pytest.raises(lr.InvalidInput, match="times must end earlier where a direction is integrated: 20 steps"):
            lr.sensitivity(self.PROBLEM, [np.ones((3, 2)), np.ones((2, 3))], [1e3])

    @pytest.mark.long
    def test_errors_that_leave_a_separatrix(self):
        task = lr.Task.from_correlations(np.diag([2.0, 1.0]))
        found = (lr.Problem(task, lr.inits.zero_balanced(i, sizes=(2, 2, 2), scale=0.3)) for i in range(50))
        problem = next(p for p in found if p.facts.determinant_obstruction)
        direction = drawn(np.random.default_rng(0), problem.network)
        with pytest.raises(lr.InvalidInput, match="the errors of the integration have left it"):
            lr.sensitivity(problem, direction, [0.0, 20.0, 40.0])

    def test_two_linear_layers(self):
        deep = lr.inits.zero_balanced(0, sizes=(2, 2, 2, 2), scale=0.3)
        with pytest.raises(lr.InvalidInput, match="problem must have two linear layers"):
            lr.sensitivity(lr.Problem(self.PROBLEM.task, deep), deep.weights, [0.0])


def test_what_cancels_at_the_start_is_told(rng):
    """A large layer turned on its own side: δQQᵀ is the small difference of large numbers; at t = 0 in fractions."""
    task = lr.Task.from_correlations(rng.normal(size=(2, 2)))
    problem = lr.Problem(task, lr.inits.lambda_balanced(0, sizes=(2, 2, 2), lam=-1.0, scale=1.5e-5))
    (W1, W2), turn = problem.network.weights, np.array([[0.0, 1.0], [-1.0, 0.0]])
    moved = lr.sensitivity(problem, [W1 @ turn, 0 * W2], [0.0, 0.5, 2.0])
    W, D = ([[Fraction(x) for x in row] for row in M] for M in (W1, W1 @ turn))
    half = [[sum(D[k][i] * W[k][j] for k in range(2)) for j in range(2)] for i in range(2)]
    exact = np.array([[float(half[i][j] + half[j][i]) for j in range(2)] for i in range(2)])
    off = np.abs(moved.gram[0, :2, :2] - exact).max() / np.abs(moved.gram).max()
    assert moved.exact and 1e-9 < off < moved.error < 1e-3
