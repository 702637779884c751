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
from scipy.integrate import solve_ivp

RTOL, ATOL = 1e-12, 1e-15
_STEP = 1e-30  # of a complex step: its square vanishes beside any loss


def relative_error(value: Any, truth: Any) -> float:
    """The largest difference, relative to the largest entry of the truth where that is not zero.

    >>> from lazyrich.papers.base.oracles import relative_error
    >>> relative_error([1.0, 2.0], [1.0, 4.0])
    0.5
    """
    value, truth = np.asarray(value, dtype=float), np.asarray(truth, dtype=float)
    if value.shape != truth.shape:
        raise ValueError(f"shapes {value.shape} and {truth.shape} cannot be compared")
    size = float(np.abs(truth).max(initial=0.0))
    return float(np.abs(value - truth).max(initial=0.0)) / (size or 1.0)


def product(weights: Iterable[Any]) -> Any:
    """W_L…W_1, first layer first in the list or array; also of stacks (T, out, in)."""
    return reduce(lambda below, W: W @ below, weights)


def correlations(X: Any, Y: Any) -> tuple[Any, Any]:
    """Σyx and Σxx of data whose rows are samples: means of yxᵀ and xxᵀ, sample by sample."""
    X, Y = np.asarray(X, dtype=float), np.asarray(Y, dtype=float)
    outer = [(np.outer(y, x), np.outer(x, x)) for x, y in zip(X, Y, strict=True)]
    return sum(yx for yx, _ in outer) / len(outer), sum(xx for _, xx in outer) / len(outer)


def gradient(loss: Callable[[list[Any]], Any], parameters: Sequence[Any]) -> list[Any]:
    """∂loss/∂parameters, entry by entry, from values of the loss alone.

    The loss must be analytic: sums, products and powers of its arguments, no absolute value and no conjugate.

    >>> from lazyrich.papers.base.oracles import gradient
    >>> gradient(lambda p: (p[0] ** 3).sum(), [np.array([1.0, 2.0])])[0].tolist()
    [3.0, 12.0]
    """
    points = [np.array(p, dtype=complex) for p in parameters]
    slopes = [np.zeros(p.shape) for p in points]
    for point, slope in zip(points, slopes, strict=True):
        for entry in np.ndindex(point.shape):
            kept = point[entry]
            point[entry] = kept + 1j * _STEP
            slope[entry] = np.imag(loss(points)) / _STEP
            point[entry] = kept
    return slopes


def hessian(loss: Callable[[list[Any]], Any], parameters: Sequence[Any], step: float = 1e-5) -> Any:
    """All second derivatives, over the entries of all parameters in order; to about 1e-9 of the loss's scale."""
    flat, rebuild = _flat(parameters)
    columns = []
    for entry in range(flat.size):
        moved = np.zeros(flat.size)
        moved[entry] = step
        ahead, behind = (_flat(gradient(loss, rebuild(flat + sign * moved)))[0] for sign in (1, -1))
        columns.append((ahead - behind) / (2 * step))
    both = np.array(columns)
    return (both + both.T) / 2


def integrate(velocity: Callable[[Any], Any], start: Any, times: Any, *, rtol: float = RTOL, atol: float = ATOL) -> Any:
    """ẋ = velocity(x) from `start`, an array of any shape, at times ≥ 0 that do not decrease: (T, *shape)."""
    start = np.asarray(start, dtype=float)
    now, state, states = 0.0, start.ravel(), []
    for t in np.asarray(times, dtype=float):
        if t > now:

            def flat(_: float, x: Any) -> Any:
                return np.asarray(velocity(x.reshape(start.shape)), dtype=float).ravel()

            run = solve_ivp(flat, (now, t), state, "DOP853", t_eval=[t], rtol=rtol, atol=atol)
            if not run.success:
                raise RuntimeError(f"the integration stopped before t = {t}: {run.message}")
            now, state = t, run.y[:, -1]
        states.append(state.reshape(start.shape))
    return np.stack(states)


def flow_of(
    loss: Callable[[list[Any]], Any], parameters: Sequence[Any], times: Any, rates: Sequence[float] | None = None
) -> list[Any]:
    """Gradient flow of a loss, knowing nothing but its values: per parameter (T, *shape). Slow: for small ones."""
    flat, rebuild = _flat(parameters)
    eta = [1.0] * len(parameters) if rates is None else list(rates)

    def velocity(x: Any) -> Any:
        return np.concatenate([-e * g.ravel() for e, g in zip(eta, gradient(loss, rebuild(x)), strict=True)])

    return _stacked([rebuild(x) for x in integrate(velocity, flat, times)])


def layers(
    weights: Sequence[Any], sigma_yx: Any, times: Any, sigma_xx: Any = None, rates: Sequence[float] | None = None
) -> list[Any]:
    """Gradient flow of a linear network of any depth, first layer first: per layer (T, out, in). Σxx None is I."""
    flat, rebuild = _flat(weights)
    sigma_yx = np.asarray(sigma_yx, dtype=float)
    sigma_xx = np.eye(sigma_yx.shape[1]) if sigma_xx is None else np.asarray(sigma_xx, dtype=float)
    eta = [1.0] * len(weights) if rates is None else list(rates)

    def velocity(x: Any) -> Any:
        Ws = rebuild(x)
        below = [np.eye(sigma_yx.shape[1])]
        for W in Ws:
            below.append(W @ below[-1])
        error, parts = sigma_yx - below[-1] @ sigma_xx, []
        for W, under, e in zip(reversed(Ws), reversed(below[:-1]), reversed(eta), strict=True):
            parts.append(e * (error @ under.T).ravel())
            error = W.T @ error
        return np.concatenate(parts[::-1])

    return _stacked([rebuild(x) for x in integrate(velocity, flat, times)])


def _flat(parameters: Sequence[Any]) -> tuple[Any, Callable[[Any], list[Any]]]:
    """One vector, and the way back."""
    shapes = [np.shape(p) for p in parameters]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]

    def rebuild(x: Any) -> list[Any]:
        return [part.reshape(shape) for part, shape in zip(np.split(x, ends), shapes, strict=True)]

    return np.concatenate([np.asarray(p, dtype=float).ravel() for p in parameters]), rebuild


def _stacked(states: list[list[Any]]) -> list[Any]:
    return [np.stack(parts) for parts in zip(*states, strict=True)]
