"""On which side of the saddle a flow ends, for one output: before it is claimed to interpolate at all.

The mirror flow of `potentials` tells. With the clock dτ = g dt and for the part m of ∇Ψ in the span of the inputs it is
m' = Σyx − gΣxx m, regular where β = 0. Near β = 0 the weights (a, w) leave along one direction, and the sign of what
the initial weights have of it decides the end (basins of attraction in Kunin et al. 2024). White inputs and a span of
one input have the paper's formula. Elsewhere the flow is followed past the saddle, twice from weights a little apart:
where the two differ, or nothing leaves, β0 is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.tasks import Task

NEAR = 1e-8  # so near to the saddle β = 0, relative to the weights, it is not told from the end
_REACHED = 1e-11  # nearer, it is the end as far as the integration can see
_NUDGE = 1e-9  # a change of the initial weights, relative, that must not change the end
_ROUNDING = 64 * float(np.finfo(np.float64).eps)
_ON_IT = "lies on it: the flow ends in the saddle β = 0 and in no solution"
_TOO_CLOSE = "lies too close to it to tell: rounding decides what becomes of the flow at the saddle β = 0"
_STEPS = 20_000  # of an integration: a few hundred are the rule


def final_sign(
    task: Task, V: Float[Array, "in r"], a0: float, w0: Float[Array, " in"], gamma: float, blur: float = 0.0
) -> int:
    """The sign of one neuron's output weight a in the end; a sentence where that is the saddle a = 0, wᵀΣxy = 0.

    V is a basis of the span of the inputs, and γ = a0² − ‖Vᵀw0‖², known to within `blur`. a keeps its sign if γ > 0, or
    where the loss is below that of β = 0. For γ = 0 it does too, but may fade.

    >>> task = lr.Task.from_correlations([[1.0, 0.0]])
    >>> [final_sign(task, np.eye(2), 0.1, np.array([x, 2.0]), 0.01 - x**2 - 4) for x in (-0.1, 0.0)]
    [-1, 1]
    """
    b, products = task.sigma_yx[0], w0 * task.sigma_yx[0]
    size, reach, error = float(np.linalg.norm(b)), float(products.sum()), 1e-15 * float(np.abs(products).sum())
    side, beta0, balanced = int(np.sign(a0)), a0 * w0, max(blur, (NEAR * a0) ** 2)
    if size == 0:
        return side or 1
    if side == 0:
        if abs(reach) <= error:
            raise InvalidInput("a and wᵀΣxy must not both be zero at first: that is a saddle, and nothing moves.")
        return int(np.sign(reach))
    if gamma > balanced or (task.sigma_xx @ beta0 / 2 - b) @ beta0 < 0:
        return side
    if gamma >= -balanced:
        refuse_the_saddle(task, V, side * w0, 1)
        return side
    axes = _axes(b, V)
    m, S = side * (axes.T @ w0), axes.T @ task.sigma_xx @ axes
    m[0] = side * reach / size
    return side * _sign_beyond_the_saddle(abs(a0), m, size, S, error / size)


def refuse_the_saddle(task: Task, V: Float[Array, "in r"], pull: Float[Array, " in"], hidden_layers: int) -> None:
    """A sentence where zero-balanced layers, ∇Ψ = `pull` in the span of V, end in the saddle β = 0 or pass it by.

    m' = b − ‖m‖^L S m. On this clock m goes straight through zero, at speed b: what separates it from the separatrix is
    not stretched on the way. From where the loss is below that of zero, nothing comes near.

    >>> task = lr.Task.from_correlations([[1.0, 0.0]])
    >>> refuse_the_saddle(task, np.eye(2), np.array([-1.0, 1e-3]), 1)
    """
    m, b, S, L = V.T @ pull, V.T @ task.sigma_yx[0], V.T @ task.sigma_xx @ V, hidden_layers
    if not b.any():
        return
    size, end = float(np.linalg.norm(b)), float(np.linalg.norm(task.target)) ** (1 / (L + 1))
    scale = min(float(np.linalg.norm(m)), end)
    m, b, S = m / scale, b / size, scale ** (L + 1) / size * S

    def velocity(_: float, m: Array) -> Array:
        return b - np.linalg.norm(m) ** L * (S @ m)

    nearest = np.inf
    for solver in _steps(velocity, m, 1e6 * (1 + float(np.linalg.norm(m))), rtol=1e-12, atol=1e-13):
        m, nearest = solver.y, min(nearest, _nearest_to_zero(solver, velocity))
        if (np.linalg.norm(m) ** L * (S @ m) / 2 - b) @ m < 0:  # the loss is below that of zero
            if nearest <= NEAR:
                raise _off(_ON_IT if nearest <= _REACHED else _TOO_CLOSE)
            return
    raise _off(_TOO_CLOSE)


def _nearest_to_zero(solver: Any, velocity: Callable[[float, Array], Array]) -> float:
    """The least ‖m‖ of the solver's last step, where it turns from approach to departure within it."""
    from scipy.optimize import brentq

    if solver.y @ velocity(solver.t, solver.y) < 0:
        return np.inf
    path = solver.dense_output()

    def departure(t: float) -> float:
        return float(path(t) @ velocity(t, path(t)))

    turns = departure(solver.t_old) < 0 < departure(solver.t)
    return float(np.linalg.norm(path(brentq(departure, solver.t_old, solver.t)))) if turns else np.inf


def _off(where: str) -> InvalidInput:
    return InvalidInput(f"beta0 must lie off the separatrix, and it {where}.")


def _axes(b: Float[Array, " in"], V: Float[Array, "in r"]) -> Float[Array, "in r"]:
    """A basis of the span of V whose first axis is that of b."""
    first = V.T @ b
    turn, _ = np.linalg.qr(np.column_stack([first, np.eye(len(first))]))
    turn[:, 0] = first / np.linalg.norm(first)
    return V @ turn


def _sign_beyond_the_saddle(a: float, m: Float[Array, " r"], b: float, S: Float[Array, "r r"], blur: float) -> int:
    """The sign of a in the end, from a > 0 and a² < ‖m‖². Σyx is b on the first axis, and m[0] is known to `blur`.

    Where S is a multiple of the identity it is the sign of mᵀβ* + ½a(γ + √(γ² + 4‖β*‖²)), γ = a² − ‖m‖² (the paper's
    "Basins of attraction"). Otherwise a and m are integrated until the loss is below that of β = 0. A larger a and a
    larger m[0] push to the same side of the saddle: more of both and less of both must end alike.
    """
    size = float(np.linalg.norm(m))
    gamma, along = (a - size) * (a + size), float(m[0])
    if np.linalg.norm(S - S[0, 0] * np.eye(len(S))) <= _ROUNDING * S[0, 0]:
        end = b / float(S[0, 0])
        pull = a * 2 * end / (np.hypot(gamma, 2 * end) - gamma)  # ½a(γ + √…)/‖β*‖, without cancellation
        if abs(along + pull) <= _ROUNDING * pull + blur:
            raise _off(_ON_IT)
        return int(np.sign(along + pull))
    nudge = np.concatenate([[_NUDGE * a, _NUDGE * abs(along) + blur], np.zeros(len(m) - 1)])
    state = np.append(a, m)
    above, below = (_side(nudged, b, S, abs(gamma)) for nudged in (state + nudge, state - nudge))
    if above != below or above == 0:
        raise _off(_TOO_CLOSE)
    return above


def _side(state: Float[Array, " n"], b: float, S: Float[Array, "r r"], gap: float) -> int:
    """The sign of a once the loss is below that of β = 0; 0 where that is not reached."""

    def velocity(_: float, state: Array) -> Array:
        a, m = state[0], state[1:]
        residual = -a * (S @ m)
        residual[0] += b
        return np.concatenate([[m @ residual], a * residual])

    def growth(drag: float) -> float:
        """λ₊, at which mᵀb + λ₊a grows near the saddle, where ȧ = mᵀb − drag a."""
        return float(2 * b**2 / (drag + np.hypot(drag, 2 * b)))

    a, m = abs(float(state[0])), state[1:]
    drag = float(m @ S @ m)
    unstable = growth(drag) * a + b * abs(float(m[0]))  # what decides is not to drown in the error of other parts
    atol = 1e-13 * np.append(min(a, unstable / (drag + growth(drag))), np.full(len(m), unstable / b))
    horizon = 100 / growth(float(np.linalg.norm(S, 2)) * gap)
    for solver in _steps(velocity, state, horizon, rtol=1e-11, atol=atol):
        beta = solver.y[0] * solver.y[1:]
        fall, cost = b * beta[0], beta @ S @ beta / 2
        if cost - fall < -0.01 * (cost + abs(fall)):
            return int(np.sign(solver.y[0]))
    return 0


def _steps(velocity: Callable[[float, Array], Array], first: Array, horizon: float, **tolerances: Any) -> Iterator[Any]:
    """The solver after each of its steps, up to the horizon and not too many of them."""
    from scipy.integrate import LSODA

    solver = LSODA(velocity, 0.0, first, horizon, **tolerances)
    for _ in range(_STEPS):
        with warnings.catch_warnings():  # what stops it shows in its status
            warnings.simplefilter("ignore")
            solver.step()
        if solver.status == "failed":
            return
        yield solver
        if solver.status != "running":
            return
