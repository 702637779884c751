"""Half times against brute force: a dense grid of exact functions, then Brent's method between two of its times."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

import lazyrich as lr
from lazyrich.alignment import align
from lazyrich.observables.crossings import Crossings, filled, first_crossings, starting_times

_DENSE = 3000


def brute_force(problem: lr.Problem, found: lr.Fate) -> tuple[np.ndarray, np.ndarray]:
    """The first crossing of half way on a dense grid, to rounding, nan where a mode is not learned, or rests; and how
    far a rounding of the strongest strength shifts it."""
    fit = align(problem.task.target, problem.task.sigma_xx, [found.function_limit])  # a basis among equal modes
    m, solution = len(fit.s), lr.solve(problem, [0.0]).solution

    def strengths(times):
        return np.einsum("toi,om,im->tm", solution.function(np.asarray(times)), fit.U[:, :m], fit.V[:, :m])

    start, limit = strengths([0.0])[0], found.limit
    fastest = sum(np.linalg.norm(W, 2) ** 2 for W in problem.network.weights) + found.s.max()
    fastest *= max(problem.rates) * np.linalg.norm(problem.task.sigma_xx, 2)
    latest = max(float(np.nanmax(found.half_times, initial=0.0)) * 30, 1e3 / fastest)
    times = np.append(0.0, np.geomspace(1e-4 / fastest, latest, _DENSE))
    seen, way = strengths(times), limit - start
    answers, shift = np.full(m, np.nan), np.zeros(m)
    for i in np.flatnonzero(found.learned & (np.abs(way) > 1e-8 * np.abs(seen).max())):
        done = lambda t, i=i: float((strengths([t])[0, i] - start[i]) / way[i] - 0.5)
        beyond = np.flatnonzero((seen[:, i] - start[i]) / way[i] >= 0.5)
        if len(beyond):
            answers[i] = t = brentq(done, times[beyond[0] - 1], times[beyond[0]], xtol=1e-300, rtol=1e-14)
            slope = (done(t * (1 + 1e-5)) - done(t * (1 - 1e-5))) / (2e-5 * t)
            shift[i] = np.finfo(float).eps * np.abs(seen).max() / abs(way[i]) / abs(slope)
    return answers, shift


def problems(kind: str, seed: int) -> lr.Problem:
    rng = np.random.default_rng(seed)
    sizes = tuple(int(d) for d in rng.integers(2, 8, size=3))
    d_in, _, d_out = sizes
    Sigma, lam, scale = rng.normal(size=(d_out, d_in)), 0.0, 10.0 ** rng.uniform(-3, 0)
    if kind == "equal singular values":
        U, _, Vt = np.linalg.svd(Sigma, full_matrices=False)
        s = np.repeat(rng.uniform(0.5, 2, size=len(Vt)), 2)[: len(Vt)]
        Sigma = U @ np.diag(np.sort(s)[::-1]) @ Vt
    elif kind == "nearly equal":
        U, s, Vt = np.linalg.svd(Sigma, full_matrices=False)
        Sigma = U @ np.diag(1 + 1e-3 * s) @ Vt
    elif kind == "low rank":
        Sigma = np.outer(rng.normal(size=d_out), rng.normal(size=d_in))
    elif kind == "square":  # half of them on the separatrix
        sizes, Sigma = (4, 4, 4), rng.normal(size=(4, 4))
    elif kind == "reversal":
        W1, W2 = lr.inits.zero_balanced(seed, sizes=sizes, scale=1.0).weights
        return lr.Problem(lr.Task.from_correlations(-(W2 @ W1) + 0.1 * Sigma), lr.Network([W1, W2]))
    elif kind == "delayed":
        sizes = (d_in, min(sizes), d_out)
        lam = float(rng.choice([-1, 1]) * 10 ** rng.uniform(-0.5, 1.5))
    elif kind == "large":
        scale = 30.0
    elif kind == "tiny":
        scale = 10.0 ** -rng.uniform(20, 60)
    elif kind == "weak modes":
        U, s, Vt = np.linalg.svd(Sigma, full_matrices=False)
        Sigma = U @ np.diag(10.0 ** -np.arange(len(s))) @ Vt
    if kind == "delayed":
        network = lr.inits.lambda_balanced(seed, sizes=sizes, lam=lam, scale=min(scale, 0.1))
    else:
        network = lr.inits.zero_balanced(seed, sizes=sizes, scale=scale)
    return lr.Problem(lr.Task.from_correlations(Sigma), network)


KINDS = ("generic", "equal singular values", "nearly equal", "low rank", "square", "reversal", "delayed", "large")
KINDS += ("tiny", "weak modes")


def assert_same(problem: lr.Problem) -> None:
    found = lr.fate(problem)
    exact, shift = brute_force(problem, found)
    assert np.array_equal(np.isnan(found.half_times), np.isnan(exact))
    off = np.abs(found.half_times - exact)
    assert np.all(np.isnan(off) | (off <= 1e-12 * exact + 16 * shift)), (found.half_times, exact)


@pytest.mark.parametrize("kind", KINDS)
def test_half_times_are_those_of_brute_force(kind):
    assert_same(problems(kind, 0))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("kind", KINDS)
def test_half_times_are_those_of_brute_force_on_many(kind, seed):
    assert_same(problems(kind, seed))


def test_a_stack_is_searched_as_each_problem_is_alone():
    """Logistic curves, some that fall first, some that overshoot: each problem has times of its own."""
    rng = np.random.default_rng(0)
    s, log_y, dip = (rng.uniform(low, high, size=(7, 4)) for low, high in ((0.2, 2.0), (-20.0, -1.0), (-0.3, 0.3)))
    dip[:3] = 0.0

    def strengths(which, times):
        w, t = s[which][:, None], times[:, :, None]
        with np.errstate(over="ignore", invalid="ignore"):
            x = 1 / (1 + np.exp(-2 * w * t - log_y[which][:, None]))
            bump = np.where(np.isfinite(t), dip[which][:, None] * w * t * np.exp(-w * t), 0.0)
        return w * (x + bump)

    def search(which: np.ndarray) -> Crossings:
        def own(some, times):
            return strengths(which[some], times)

        likely = -log_y[which] / (2 * s[which])
        curves = filled(own, starting_times(np.full(len(which), 1e-3), likely), s[which], 1e-3 * s[which])
        return first_crossings(own, curves, s[which])

    together = search(np.arange(7)).half_times
    for b in range(7):
        np.testing.assert_allclose(search(np.array([b])).half_times[0], together[b], rtol=1e-13)
        for i in range(4):
            start = strengths(np.array([b]), np.zeros((1, 1)))[0, 0, i]
            half = (start + s[b, i]) / 2
            value = lambda t, b=b, i=i, half=half: strengths(np.array([b]), np.array([[t]]))[0, 0, i] - half
            grid = np.linspace(0.0, 200.0, 20001)
            beyond = np.flatnonzero(strengths(np.array([b]), grid[None])[0, :, i] >= half)[0]
            exact = brentq(value, grid[beyond - 1], grid[beyond], xtol=1e-300, rtol=1e-15)
            assert together[b, i] == pytest.approx(exact, rel=1e-12)
