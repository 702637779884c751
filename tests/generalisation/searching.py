"""The best time to stop by brute force: a dense grid of test losses, then golden section. Nothing of lazyrich is used
but the numbers of a problem."""

from __future__ import annotations

import numpy as np
from mpmath import mp
from oracles import riccati_mp
from scipy.integrate import solve_ivp
from scipy.optimize import bisect

GOLDEN = (5**0.5 - 1) / 2


def least(loss, times, rounds=34):
    """The time of the least of a function of time: the best of the grid, then golden section between its neighbours."""
    values = [loss(t) for t in times]
    i = int(np.argmin(values))
    a, b = times[max(i - 1, 0)], times[min(i + 1, len(times) - 1)]
    for _ in range(rounds):
        c, d = b - GOLDEN * (b - a), a + GOLDEN * (b - a)
        a, b = (a, d) if loss(c) < loss(d) else (c, b)
    return (a + b) / 2


def loss_of_two_layers(problem, test, lam=0.0):
    """½ tr((W − T')Σ'(W − T')ᵀ) by the closed form in arbitrary precision, less what no map can change."""
    W1, W2 = problem.network.weights
    d_in = problem.task.d_in
    T, xx = mp.matrix(test.target.tolist()), mp.matrix(test.sigma_xx.tolist())

    def loss(t):
        (G,) = riccati_mp.grams(W1, W2, problem.task.sigma_yx, [t], lam=lam)
        with mp.workdps(40):
            E = G[d_in:, :d_in] - T
            return mp.fsum((E * xx)[i, j] * E[i, j] for i in range(E.rows) for j in range(E.cols)) / 2

    return loss


def least_along(right_side, weights, end, loss, count=2001, rtol=1e-11):
    """The time of the least loss along a flow, integrated: the best of a dense grid, then where the difference quotient
    in the direction of the flow changes its sign, which has more digits than the loss. `loss` is one of the flattened
    weights. Also the loss as a function of time."""
    state = np.concatenate([np.ravel(W) for W in weights])
    run = solve_ivp(right_side, (0.0, end), state, "DOP853", dense_output=True, rtol=rtol, atol=1e-2 * rtol)
    times = np.unique(np.concatenate([np.linspace(0, end, count), np.geomspace(1e-4 * end, end, count)]))
    i = int(np.argmin([loss(run.sol(t)) for t in times]))

    def slope(t, h=1e-5):
        state = run.sol(t)
        move = right_side(t, state)
        return loss(state + h * move) - loss(state - h * move)

    return bisect(slope, times[i - 1], times[i + 1], xtol=1e-12), lambda t: loss(run.sol(t))
