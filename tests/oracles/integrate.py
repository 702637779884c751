"""Gradient flow of linear networks of any depth, integrated by scipy in double precision.

    Ẇ_ℓ = η_ℓ [W_{L:ℓ+1}ᵀ (Σyx − W Σxx) W_{ℓ−1:1}ᵀ − γ W_ℓ],   W = W_L…W_1

DOP853 at rtol 1e-12, atol 1e-15, restarted at every requested time so that no value comes from
interpolation. No assumption on balance, inputs or alignment. Expect 1e-10 or so, except near a saddle,
where rounding grows like e^{st}.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import solve_ivp

Array = NDArray[np.float64]
RTOL, ATOL = 1e-12, 1e-15


def weights(
    weights0: Sequence[ArrayLike],
    sigma_yx: ArrayLike,
    sigma_xx: ArrayLike | None,
    times: ArrayLike,
    rates: Sequence[float] | None = None,
    decay: float = 0.0,
) -> list[Array]:
    """Per layer, first layer first, (T, out, in). Times are from 0 on and do not decrease; Σxx None is I."""
    W0 = [np.asarray(W, dtype=np.float64) for W in weights0]
    sigma_yx = np.asarray(sigma_yx, dtype=np.float64)
    sigma_xx = np.eye(sigma_yx.shape[1]) if sigma_xx is None else np.asarray(sigma_xx, dtype=np.float64)
    eta = [1.0] * len(W0) if rates is None else [float(r) for r in rates]
    times = np.asarray(times, dtype=np.float64)
    if times.ndim != 1 or np.any(np.diff(times, prepend=0.0) < 0):
        raise ValueError("times must be one axis of numbers >= 0 that do not decrease")
    if len(eta) != len(W0):
        raise ValueError(f"one rate per layer: {len(W0)} layers, {len(eta)} rates")
    ends = np.cumsum([W.size for W in W0])[:-1]

    def split(state: Array) -> list[Array]:
        return [part.reshape(W.shape) for part, W in zip(np.split(state, ends), W0, strict=True)]

    def velocity(_: float, state: Array) -> Array:
        layers = split(state)
        below = [np.eye(W0[0].shape[1])]  # W_{ℓ−1:1}
        for W in layers:
            below.append(W @ below[-1])
        back = sigma_yx - below[-1] @ sigma_xx  # W_{L:ℓ+1}ᵀ (Σyx − W Σxx), from the top down
        parts = []
        for layer in reversed(range(len(layers))):
            parts.append(eta[layer] * (back @ below[layer].T - decay * layers[layer]).ravel())
            back = layers[layer].T @ back
        return np.concatenate(parts[::-1])

    state, now, states = np.concatenate([W.ravel() for W in W0]), 0.0, []
    for t in times:
        if t > now:
            run = solve_ivp(velocity, (now, t), state, "DOP853", t_eval=[t], rtol=RTOL, atol=ATOL)
            if not run.success:
                raise RuntimeError(f"the integration stopped before t = {t}: {run.message}")
            state, now = run.y[:, -1], t
        states.append(split(state))
    return [np.stack(layer) for layer in zip(*states, strict=True)]


def function(
    weights0: Sequence[ArrayLike],
    sigma_yx: ArrayLike,
    sigma_xx: ArrayLike | None,
    times: ArrayLike,
    rates: Sequence[float] | None = None,
    decay: float = 0.0,
) -> Array:
    """W_L…W_1 at each time, (T, d_out, d_in)."""
    layers = weights(weights0, sigma_yx, sigma_xx, times, rates, decay)
    return reduce(lambda product, W: W @ product, layers)


def gram(
    weights0: Sequence[ArrayLike],
    sigma_yx: ArrayLike,
    sigma_xx: ArrayLike | None,
    times: ArrayLike,
    rates: Sequence[float] | None = None,
    decay: float = 0.0,
) -> Array:
    """QQᵀ of a two-layer network at each time, (T, n, n), with Q = [W1ᵀ; W2]."""
    W1, W2 = weights(weights0, sigma_yx, sigma_xx, times, rates, decay)
    Q: Array = np.concatenate([W1.transpose(0, 2, 1), W2], axis=1)
    return Q @ Q.transpose(0, 2, 1)
