"""Two linear layers whose initialisation moves in any direction: the linearised equation of QQᵀ, integrated.

QQᵀ obeys an equation of its own, whatever the hidden layer, inputs and balance (`velocity.gram_velocity`; theory:
section 11). Its blocks P = W1ᵀW1, W = W2W1, R = W2W2ᵀ move by δP, δW, δR, and with E = Σyx − WΣxx, δE = −δWΣxx

    δṖ = η1 (δWᵀE + WᵀδE + transpose − 2γ δP)
    δẆ = η2 (δE P + E δP) + η1 (δR E + R δE) − (η1 + η2)γ δW
    δṘ = η2 (δE Wᵀ + E δWᵀ + transpose − 2γ δR)

along the exact QQᵀ(t) where a closed form gives it, and beside QQᵀ itself elsewhere. SciPy's DOP853, twice: with a
tolerance, and with a hundredth of it; what lies between the two is the error that is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._progress import progress
from lazyrich._typing import Array, Float
from lazyrich.problem import Problem
from lazyrich.velocity import gram_velocity

RTOL = 1e-10
_SMALL = 1e-6  # absolute tolerance over the relative one, in units of the largest entry at first
_MOST = 5_000  # steps
_USELESS = 0.1  # error over the largest

Gram = Callable[[float], Float[Array, "n n"]]


class Moved(NamedTuple):
    """δQQᵀ and what the loss moves by at each time, and their error relative to the largest of each."""

    gram: Float[Array, "T n n"]
    loss: Float[Array, " T"]
    error: float


def moved(problem: Problem, dG0: Float[Array, "n n"], times: Float[Array, " T"], exact: Gram | None) -> Moved:
    """From δQQᵀ at the initialisation. `exact` gives QQᵀ(t) where a closed form does."""
    d = problem.task.d_in
    with progress(2 * float(times[-1]), "sensitivity") as advance:
        runs = [_integrated(problem, dG0, times, exact, rtol, advance) for rtol in (100 * RTOL, RTOL)]
    losses = [moved_loss(problem, G[:, d:, :d], dG) for G, dG in runs]
    error = max(_apart(*(dG for _, dG in runs)), _apart(*losses))
    if error > _USELESS:
        raise InvalidInput(
            f"times must end before {times[-1]:.4g} where a direction is integrated from next to a separatrix: by then "
            "the errors of the integration have left it, and are as large as what they are errors of."
        )
    return Moved(runs[1][1], losses[1], error)


def moved_loss(problem: Problem, W: Float[Array, "T out in"], dG: Float[Array, "T n n"]) -> Float[Array, " T"]:
    """⟨∂loss/∂W, δW⟩."""
    task, d = problem.task, problem.task.d_in
    return np.asarray(np.einsum("toi,toi->t", (W - task.target) @ task.sigma_xx, dG[:, d:, :d]))


def _apart(rough: Array, fine: Array) -> float:
    largest = float(np.abs(fine).max(initial=0.0))
    return float(np.abs(fine - rough).max(initial=0.0)) / largest if largest else 0.0


def linear_velocity(problem: Problem, G: Float[Array, "n n"], dG: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The time derivative of δQQᵀ at QQᵀ."""
    d, task, (eta1, eta2), gamma = problem.task.d_in, problem.task, problem.rates, problem.weight_decay
    (P, W, R), (dP, dW, dR) = ((H[:d, :d], H[d:, :d], H[d:, d:]) for H in (G, dG))
    E, dE = task.sigma_yx - W @ task.sigma_xx, -dW @ task.sigma_xx
    first, second = dW.T @ E + W.T @ dE, dE @ W.T + E @ dW.T
    moves_P = eta1 * (first + first.T - 2 * gamma * dP)
    moves_W = eta2 * (dE @ P + E @ dP) + eta1 * (dR @ E + R @ dE) - (eta1 + eta2) * gamma * dW
    moves_R = eta2 * (second + second.T - 2 * gamma * dR)
    return np.block([[moves_P, moves_W.T], [moves_W, moves_R]])


def _integrated(
    problem: Problem,
    dG0: Float[Array, "n n"],
    times: Float[Array, " T"],
    exact: Gram | None,
    rtol: float,
    advance: Callable[[float], object],
) -> tuple[Float[Array, "T n n"], Float[Array, "T n n"]]:
    """QQᵀ and δQQᵀ."""
    from scipy.integrate import DOP853  # here, to keep `import lazyrich` quick

    shape, (W1, W2) = dG0.shape, problem.network.weights
    Q = np.concatenate([W1.T, W2])
    beside = exact is None
    y0 = np.concatenate([(Q @ Q.T).ravel(), dG0.ravel()]) if beside else dG0.ravel()

    def velocity(t: float, y: Float[Array, " y"]) -> Float[Array, " y"]:
        if exact is not None:
            return linear_velocity(problem, exact(t), y.reshape(shape)).ravel()
        G, dG = y.reshape(2, *shape)
        return np.concatenate([gram_velocity(problem, G).ravel(), linear_velocity(problem, G, dG).ravel()])

    size = np.concatenate([np.full(dG0.size, np.abs(part).max() or 1.0) for part in y0.reshape(-1, dG0.size)])
    result = np.empty((len(times), 2, *shape))
    result[times == 0] = Q @ Q.T, dG0
    seen = int(np.count_nonzero(times == 0))
    solver = DOP853(velocity, 0.0, y0, np.inf, rtol=rtol, atol=rtol * _SMALL * size)
    for _ in range(_MOST):
        if seen == len(times):
            return result[:, 0], result[:, 1]
        before = solver.t
        with np.errstate(over="ignore", invalid="ignore"):  # a step that was too long is taken again
            solver.step()
        if solver.status == "failed" or not np.all(np.isfinite(solver.y)):
            break
        inside, dense = int(np.searchsorted(times, solver.t, side="right")), None
        for i in range(seen, inside):
            dense = dense or solver.dense_output()
            y = dense(times[i])
            result[i] = y.reshape(2, *shape) if exact is None else (exact(times[i]), y.reshape(shape))
        seen = max(seen, inside)
        advance(min(float(solver.t), float(times[-1])) - before)
    if seen == len(times):
        return result[:, 0], result[:, 1]
    raise InvalidInput(
        f"times must end earlier where a direction is integrated: {_MOST:,} steps have come to t = {solver.t:.4g} of "
        f"{times[-1]:.4g}; a direction that keeps the balance has a closed form, at any t."
    )
