"""The truth by brute force: derivatives of the loss itself, integration, and how far two arrays are apart.

Nothing here uses a formula of any source, and nothing is imported from the rest of lazyrich: a gradient is a derivative
of the loss by a complex step (exact to rounding), a Hessian differentiates that, a flow is integrated by SciPy to about
eleven digits from either the loss alone (`flow_of`) or the chain rule for layers (`layers`, which is checked against
`flow_of` in the tests and in the ledger).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import solve_ivp

Array = NDArray[Any]
Loss = Callable[[list[Array]], Any]  # a number; complex where its arguments are

RTOL, ATOL = 1e-12, 1e-15
_STEP = 1e-30  # of a complex step: its square vanishes beside any loss


def relative_error(value: ArrayLike, truth: ArrayLike) -> float:
    """The largest difference, relative to the largest entry of the truth where that is not zero.

    >>> relative_error([1.0, 2.0], [1.0, 4.0])
    0.5
    """
    found, true = np.asarray(value, dtype=float), np.asarray(truth, dtype=float)
    if found.shape != true.shape:
        raise ValueError(f"shapes {found.shape} and {true.shape} cannot be compared")
    size = float(np.abs(true).max(initial=0.0))
    return float(np.abs(found - true).max(initial=0.0)) / (size or 1.0)


def product(weights: Iterable[Array]) -> Array:
    """W_L…W_1, first layer first in the list or array; also of stacks (T, out, in)."""
    return reduce(lambda below, W: W @ below, weights)


def correlations(X: ArrayLike, Y: ArrayLike) -> tuple[Array, Array]:
    """Σyx and Σxx of data whose rows are samples: means of yxᵀ and xxᵀ, sample by sample."""
    pairs = list(zip(np.asarray(X, dtype=float), np.asarray(Y, dtype=float), strict=True))
    sums = (reduce(np.add, [np.outer(y, x) for x, y in pairs]), reduce(np.add, [np.outer(x, x) for x, _ in pairs]))
    return sums[0] / len(pairs), sums[1] / len(pairs)


def gradient(loss: Loss, parameters: Sequence[ArrayLike]) -> list[Array]:
    """∂loss/∂parameters, entry by entry, from values of the loss alone.

    The loss must be analytic: sums, products and powers of its arguments, no absolute value and no conjugate.

    >>> gradient(lambda p: (p[0] ** 3).sum(), [np.array([1.0, 2.0])])[0].tolist()
    [3.0, 12.0]
    """
    points = [np.array(p, dtype=complex) for p in parameters]
    gradients = [np.zeros(p.shape) for p in points]
    for point, derivative in zip(points, gradients, strict=True):
        for entry in np.ndindex(point.shape):
            kept = point[entry]
            point[entry] = kept + 1j * _STEP
            derivative[entry] = np.imag(loss(points)) / _STEP
            point[entry] = kept
    return gradients


def along(function: Loss, parameters: Iterable[ArrayLike], velocities: Iterable[ArrayLike]) -> Any:
    """d/dt function(θ) where the parameters θ move with the given velocities; the function must be analytic.

    >>> float(along(lambda p: p[0] * p[1], [2.0, 3.0], [1.0, 10.0]))
    23.0
    """
    moved = [np.asarray(p) + 1j * _STEP * np.asarray(v) for p, v in zip(parameters, velocities, strict=True)]
    return np.imag(function(moved)) / _STEP


def hessian(loss: Loss, parameters: Sequence[ArrayLike], step: float = 1e-5) -> Array:
    """All second derivatives, over the entries of all parameters in order; to about 1e-9 of the loss's scale."""
    flat, rebuild = flattened(parameters)
    columns = []
    for entry in range(flat.size):
        moved = np.zeros(flat.size)
        moved[entry] = step
        ahead, behind = (flattened(gradient(loss, rebuild(flat + sign * moved)))[0] for sign in (1, -1))
        columns.append((ahead - behind) / (2 * step))
    both = np.array(columns)
    return (both + both.T) / 2


def integrate(
    velocity: Callable[[Array], ArrayLike],
    start: ArrayLike,
    times: ArrayLike,
    *,
    rtol: float = RTOL,
    atol: float = ATOL,
) -> Array:
    """ẋ = velocity(x) from `start`, an array of any shape, at times ≥ 0 that do not decrease: (T, *shape)."""
    shape = np.shape(start)
    now, state, states = 0.0, np.ravel(np.asarray(start, dtype=float)), []
    for t in np.asarray(times, dtype=float):
        if t > now:

            def flat(_: float, x: Array) -> Array:
                return np.asarray(velocity(x.reshape(shape)), dtype=float).ravel()

            run = solve_ivp(flat, (now, t), state, "DOP853", t_eval=[t], rtol=rtol, atol=atol)
            if not run.success:
                raise RuntimeError(f"the integration stopped before t = {t}: {run.message}")
            now, state = t, run.y[:, -1]
        states.append(state.reshape(shape))
    return np.stack(states)


def flow_of(
    loss: Loss, parameters: Sequence[ArrayLike], times: ArrayLike, rates: Sequence[float] | None = None
) -> list[Array]:
    """Gradient flow of a loss, knowing nothing but its values: per parameter (T, *shape). Slow: for small ones."""
    flat, rebuild = flattened(parameters)
    eta = [1.0] * len(parameters) if rates is None else list(rates)

    def velocity(x: Array) -> Array:
        return np.concatenate([-e * g.ravel() for e, g in zip(eta, gradient(loss, rebuild(x)), strict=True)])

    return _stacked([rebuild(x) for x in integrate(velocity, flat, times)])


def layers(
    weights: Sequence[ArrayLike],
    sigma_yx: ArrayLike,
    times: ArrayLike,
    sigma_xx: ArrayLike | None = None,
    rates: Sequence[float] | None = None,
) -> list[Array]:
    """Gradient flow of a linear network of any depth, first layer first: per layer (T, out, in). Σxx None is I."""
    flat, rebuild = flattened(weights)
    target = np.asarray(sigma_yx, dtype=float)
    inputs = np.eye(target.shape[1]) if sigma_xx is None else np.asarray(sigma_xx, dtype=float)
    eta = [1.0] * len(weights) if rates is None else list(rates)

    def velocity(x: Array) -> Array:
        Ws = rebuild(x)
        below = [np.eye(target.shape[1])]
        for W in Ws:
            below.append(W @ below[-1])
        error, parts = target - below[-1] @ inputs, []
        for W, under, e in zip(reversed(Ws), reversed(below[:-1]), reversed(eta), strict=True):
            parts.append(e * (error @ under.T).ravel())
            error = W.T @ error
        return np.concatenate(parts[::-1])

    return _stacked([rebuild(x) for x in integrate(velocity, flat, times)])


def flattened(parameters: Sequence[ArrayLike]) -> tuple[Array, Callable[[Array], list[Array]]]:
    """One vector, and the way back."""
    shapes = [np.shape(p) for p in parameters]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]

    def rebuild(x: Array) -> list[Array]:
        return [part.reshape(shape) for part, shape in zip(np.split(x, ends), shapes, strict=True)]

    return np.concatenate([np.asarray(p, dtype=float).ravel() for p in parameters]), rebuild


def _stacked(states: list[list[Array]]) -> list[Array]:
    return [np.stack(parts) for parts in zip(*states, strict=True)]
