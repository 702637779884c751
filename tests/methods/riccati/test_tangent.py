"""δQQᵀ along directions that keep the balance, against differences of the printed formula with 80 digits."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp
from oracles import riccati_mp
from oracles.starts_mp import to_float, to_mp

import lazyrich as lr

STEP = mp.mpf(10) ** -20
TIMES = np.array([0.0, 0.1, 1.0, 5.0, 20.0, 40.0])
SHOWN = 1e-25  # what is smaller than this the oracle, whose results have 60 digits, does not resolve


def group_velocity(rng, sizes):
    """An element of the Lie algebra of O(d_in, d_out): moving Q by it conserves D."""
    d_in, _, d_out = sizes
    X, first, second = rng.normal(size=(d_out, d_in)), rng.normal(size=(d_in, d_in)), rng.normal(size=(d_out, d_out))
    return np.block([[first - first.T, X.T], [X, second - second.T]])


def differences(problem, direction, times, d_lam):
    """(QQᵀ from W + ε·direction less that from W − ε·direction)/2ε."""
    task, lam = problem.task, problem.facts.lam[0]
    with mp.workdps(80):
        there = []
        for sign in (1, -1):
            moved = [to_mp(W) + sign * STEP * to_mp(D) for W, D in zip(problem.network.weights, direction, strict=True)]
            options = {"lam": mp.mpf(lam) + sign * STEP * mp.mpf(d_lam), "rates": problem.rates, "c": task.input_scale}
            options["gamma"] = problem.weight_decay
            there.append(riccati_mp.grams(*moved, task.sigma_yx, times, **options))
        return np.stack([to_float((ahead - behind) / (2 * STEP)) for ahead, behind in zip(*there, strict=True)])


def case(seed, sizes, lam, scale, *, move_lam=False, c=1.0, **options):
    """A problem whose rows are independent, and a direction: along the group, a turn of hidden units, and scale."""
    rng = np.random.default_rng(seed)
    (d_in, h, d_out), rates = sizes, options.get("rates", (1.0, 1.0))
    task = lr.Task.from_correlations(rng.normal(size=(d_out, d_in)), c * np.eye(d_in))
    k1, k2 = np.sqrt(rates[1]), np.sqrt(rates[0])  # κ/√η
    for start in range(100):
        W1, W2 = lr.inits.lambda_balanced(start, sizes=sizes, lam=lam, scale=scale).weights
        problem = lr.Problem(task, lr.Network([W1 / k1, W2 / k2]), **options)
        if not lr.solve(problem, [0.0], method="riccati").solution.separatrix().on_it:
            break
    Q, turn = np.concatenate([W1.T, W2]), rng.normal(size=(h, h))
    moved = group_velocity(rng, sizes) @ Q + Q @ (turn - turn.T) + (Q if move_lam else 0.0)
    return problem, [moved[:d_in].T / k1, moved[d_in:] / k2], 2 * lam * move_lam


def worst(problem, direction, times, d_lam):
    moved = lr.sensitivity(problem, direction, times)
    assert moved.exact
    exact = differences(problem, direction, times, d_lam)
    sizes = np.linalg.norm(exact, axis=(1, 2))
    errors = np.linalg.norm(moved.gram - exact, axis=(1, 2)) / np.maximum(sizes, SHOWN)
    return float(errors.max())


CASES = {
    "square": (0, (3, 3, 3), 0.0, 0.1, {}),
    "tiny": (1, (3, 3, 3), 0.0, 1e-8, {}),
    "bottleneck": (2, (3, 2, 4), 0.5, 0.1, {}),
    "bottleneck and λ": (2, (3, 2, 4), 0.5, 0.1, {"move_lam": True}),
    "wide": (3, (2, 7, 3), 0.0, 0.01, {}),
    "upstream": (4, (4, 2, 4), -1.0, 1e-8, {}),
    "upstream and λ": (4, (4, 2, 4), -1.0, 1e-8, {"move_lam": True}),
    "wider than inputs": (5, (3, 4, 5), 1.0, 0.1, {}),
    "wider than inputs and λ": (5, (3, 4, 5), 1.0, 0.1, {"move_lam": True}),
    "rates": (6, (3, 2, 2), 0.4, 0.1, {"rates": (0.5, 2.0), "c": 0.7}),
    "rates and λ": (6, (3, 2, 2), 0.4, 0.1, {"rates": (0.5, 2.0), "c": 0.7, "move_lam": True}),
    "decay": (7, (3, 2, 2), 0.0, 0.1, {"weight_decay": 0.1}),
    "one unit": (8, (2, 1, 1), -2.0, 0.1, {"move_lam": True}),
    "large λ": (9, (3, 2, 4), 30.0, 1e-4, {"move_lam": True}),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (i > 3)) for i, n in enumerate(CASES)])
def test_to_the_digits_of_each_time(name, record_property):
    seed, sizes, lam, scale, options = CASES[name]
    problem, direction, d_lam = case(seed, sizes, lam, scale, **options)
    times = TIMES[:-1] if name == "large λ" else TIMES
    assert worst(problem, direction, times, d_lam) < 2e-12


@pytest.mark.parametrize("lam", [0.0, 0.8])
def test_equal_modes_and_low_rank(lam):
    rng = np.random.default_rng(5)
    U, V = np.linalg.qr(rng.normal(size=(4, 4)))[0], np.linalg.qr(rng.normal(size=(3, 3)))[0]
    for s in ([2.0, 2.0, 1.0], [2.0, 0.0, 0.0], [0.0, 0.0, 0.0]):
        task = lr.Task.from_correlations(U[:, :3] * s @ V.T)
        problem = lr.Problem(task, lr.inits.lambda_balanced(1, sizes=(3, 3, 4), lam=lam, scale=0.2))
        W1, W2 = problem.network.weights
        Q = group_velocity(rng, (3, 3, 4)) @ np.concatenate([W1.T, W2])
        assert worst(problem, [Q[:3].T, Q[3:]], TIMES[:5], 0.0) < 2e-12


def test_any_time():
    """From weights of 1e-8, at a million and for ever: what λ leaves open is the same at all of them."""
    problem, direction, _ = case(11, (3, 4, 5), 1.0, 1e-8)
    moved = lr.sensitivity(problem, direction, [300.0, 1e6, 1e12, np.inf])
    largest = np.abs(moved.gram[0]).max()
    assert largest > 0.1 and np.abs(moved.gram[1:] - moved.gram[0]).max() < 1e-12 * largest
    problem, direction, _ = case(12, (3, 3, 4), 0.0, 1e-8)  # all is learned, and nothing is left of where it began
    assert np.abs(lr.sensitivity(problem, direction, [1e6, np.inf]).gram).max() == 0.0


def test_a_turn_of_hidden_units_does_not_show():
    rng = np.random.default_rng(0)
    problem = lr.Problem(
        lr.Task.from_correlations(rng.normal(size=(4, 3))), lr.inits.zero_balanced(0, sizes=(3, 5, 4), scale=0.3)
    )
    W1, W2 = problem.network.weights
    turn = rng.normal(size=(5, 5))
    turn = turn - turn.T
    moved = lr.sensitivity(problem, [turn @ W1, -W2 @ turn], [0.0, 1.0, 10.0, 1e3])
    assert moved.exact and np.abs(moved.gram).max() < 1e-13


class TestSeparatrix:
    """Square, with determinants of opposite sign: the flow ends in a saddle, and so does all around it."""

    def problem(self):
        task = lr.Task.from_correlations(np.array([[2.0, 0.3, 0.0], [0.1, 1.2, 0.2], [0.0, 0.4, 0.7]]))
        found = (lr.Problem(task, lr.inits.zero_balanced(i, sizes=(3, 3, 3), scale=0.2)) for i in range(100))
        return next(problem for problem in found if problem.facts.determinant_obstruction)

    def test_balanced_directions_stay_on_it(self):
        from scipy.linalg import expm

        problem, rng = self.problem(), np.random.default_rng(1)
        W1, W2 = problem.network.weights
        velocity, Q, times = group_velocity(rng, (3, 3, 3)), np.concatenate([W1.T, W2]), [0.5, 3.0, 10.0, 300.0]
        moved = lr.sensitivity(problem, [(velocity @ Q)[:3].T, (velocity @ Q)[3:]], times)
        assert moved.exact

        def gram(eps):
            there = expm(eps * velocity) @ Q
            return lr.solve(lr.Problem(problem.task, lr.Network([there[:3].T, there[3:]])), times).gram

        eps = 2e-4
        slope = (8 * (gram(eps) - gram(-eps)) - (gram(2 * eps) - gram(-2 * eps))) / (12 * eps)
        assert np.abs(slope - moved.gram).max() < 1e-9 * np.abs(moved.gram).max()

    def test_leaving_it_grows_until_it_cannot_be_written(self):
        """One unit aligned with the weaker of two modes: the stronger is missed, and any part of it grows."""
        task = lr.Task.from_correlations(np.diag([2.0, 1.0]))
        problem = lr.Problem(task, lr.Network([[[0.0, 0.1]], [[0.0], [0.1]]]))
        direction = [[[1.0, 0.0]], [[1.0], [0.0]]]
        moved = lr.sensitivity(problem, direction, [0.0, 10.0, 20.0])
        assert moved.exact
        growth = np.log(moved.gram[2, 0, 1] / moved.gram[1, 0, 1]) / 10
        assert growth == pytest.approx(1.0, abs=1e-6)  # 2 − 1: the saddle's
        with pytest.raises(lr.InvalidInput, match="separatrix that this direction leaves"):
            lr.sensitivity(problem, direction, [1e4])
