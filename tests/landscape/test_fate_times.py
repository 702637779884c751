"""Half times of `fate` where its grid was too coarse, ended too soon, or there is nothing left to learn."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp
from oracles import riccati_mp

import lazyrich as lr


@pytest.mark.parametrize("depth", [2, 3, 4, 6])
def test_half_times_of_aligned_modes_are_exact(depth):
    task = lr.Task.from_correlations(np.diag([4.0, 2.0, 1.0]))
    network = lr.inits.aligned(0, task, hidden=(5,) * (depth - 1), strengths=[1e-3] * 3)
    problem = lr.Problem(task, network)
    assert lr.fate(problem).half_times == pytest.approx(lr.landscape.plateau_times(problem).times, rel=1e-11)


def test_modes_that_are_learned_together_do_not_spoil_each_other():
    """One layer on white inputs: every mode is half way at ln 2, however many looks fall on that time."""
    rng = np.random.default_rng(0)
    task = lr.Task.from_correlations(rng.normal(size=(6, 8)))
    times = lr.fate(lr.Problem(task, lr.Network([np.zeros((6, 8))]))).half_times
    assert times == pytest.approx(np.full(6, np.log(2)), rel=1e-13)


def test_a_weak_mode_beside_a_strong_one_has_its_time():
    task = lr.Task.from_correlations(np.diag([1000.0, 0.5]))
    fate = lr.fate(lr.Problem(task, lr.inits.aligned(0, task, hidden=2, strengths=1e-3)))
    assert fate.half_times[1] == pytest.approx(np.log(1 + 0.5 / 1e-3), rel=1e-10)  # (1/2s) ln(1 + s/a0)


def test_what_is_learned_already_has_no_half_time():
    task = lr.Task.from_correlations(np.diag([4.0, 2.0]))
    learned = lr.Problem(task, lr.inits.prior_knowledge(0, task, hidden=5))
    assert np.isnan(lr.landscape.plateau_times(learned).times).all()
    assert np.isnan(lr.fate(learned).half_times).all()
    partly = lr.Problem(task, lr.inits.aligned(0, task, hidden=(5, 5), strengths=[1.0, 2.0]))
    assert np.isfinite(lr.landscape.plateau_times(partly).times).tolist() == [True, False]


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("left", [5e-3, -1.5e-3, 1e-4, -1e-6])
def test_times_near_the_end_are_those_of_what_is_left(left, together):
    """A network that has nearly learned the task, as the next of two tasks finds it: (s − a)/a falls as e^{−2st}."""
    s, a0 = 2.0, 2.0 * (1 + left)
    problem = lr.Problem(lr.Task.from_correlations([[s]]), lr.Network([[[a0**0.5]], [[a0**0.5]]]))
    found = lr.batch.fate([problem] * 2)[1] if together else lr.fate(problem)

    def when(share_left):
        a = s + share_left * (a0 - s)
        return np.log((s - a0) / a0 * a / (s - a)) / (2 * s)

    assert found.half_times[0] == pytest.approx(when(0.5), rel=1e-8)
    assert found.regime.learned_by == pytest.approx(when(0.1), rel=1e-6)
    assert found.regime.phases[0].end == pytest.approx(when(0.1**0.5), rel=1e-6)


def test_what_is_left_may_lie_between_modes():
    """Every mode has the strength that it ends with, and the product is off the diagonal: it falls as e^{−(s₁+s₂)t}."""
    W = np.diag([2.0, 1.0]) ** 0.5 + 1e-8 * np.array([[0, 1], [1, 0]])
    found = lr.fate(lr.Problem(lr.Task.from_correlations(np.diag([2.0, 1.0])), lr.Network([W, W])))
    assert found.regime.learned_by == pytest.approx(np.log(10) / 3, rel=1e-6)


def test_no_time_lies_in_the_limit():
    """A start that falls into the saddle: the kernel goes on after the function rests."""
    stuck = lr.Problem(lr.Task.from_correlations([[1.0]]), lr.Network([[[-0.01]], [[0.01]]]))
    regime = lr.fate(stuck).regime
    assert regime.kernel_half_time < 10
    assert all(phase.end < 1e6 for phase in regime.phases)


@pytest.mark.parametrize("lam", [0.0, 1.5])
def test_half_times_of_coupled_modes_are_those_of_exact_arithmetic(lam):
    """Modes that turn into place while they grow: half way is sought on the solution in exact arithmetic."""
    task = lr.Task.from_correlations([[2.0, 0.3, -0.4], [0.1, 1.2, 0.5]])
    W1, W2 = lr.inits.lambda_balanced(1, sizes=(3, 2, 2), lam=lam, scale=0.1).weights
    found = lr.fate(lr.Problem(task, lr.Network([W1, W2])))
    U, s, Vt = np.linalg.svd(task.sigma_yx, full_matrices=False)

    def strength(t, mode):
        W = riccati_mp.gram(W1, W2, task.sigma_yx, t, lam=lam)[3:, :3]
        return sum(float(U[i, mode]) * W[i, j] * float(Vt[mode, j]) for i in range(2) for j in range(3))

    def exact(mode, near):
        half = (strength(mp.mpf(0), mode) + s[mode]) / 2
        with mp.workdps(30):
            return float(mp.findroot(lambda t: strength(t, mode) - half, (0.99 * near, 1.01 * near), solver="anderson"))

    for mode, near in enumerate(found.half_times.tolist()):
        assert near == pytest.approx(exact(mode, near), rel=1e-12)
