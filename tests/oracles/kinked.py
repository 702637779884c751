"""Gradient flow of two layers with kinks, f = W2 σ(W1 x), σ(z) = max(z, γz), from kink to kink by scipy.

Between kinks every unit stays on its side for every sample, and the flow with these sides held fixed is smooth: DOP853
at rtol 1e-12. An event ends it where the first z = W1 x reaches 0; that sample changes sides, and it goes on. Where the
new side sends it back the flow slides along the kink, which no smooth piece describes: `Sliding` is raised.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

Array = NDArray[np.float64]


class Sliding(Exception):
    """The flow stays on a kink."""


def weights(
    weights0: Sequence[Array], inputs: Array, targets: Array, slope: float, times: Array, most: int = 200
) -> list[Array]:
    """Per layer (T, out, in) for the loss ½ mean ‖y − f‖²; at most so many kinks."""
    W1, W2 = (np.asarray(W, dtype=np.float64) for W in weights0)
    X, Y, cut = inputs.T, targets.T, W1.size

    def split(state: Array) -> tuple[Array, Array]:
        return state[:cut].reshape(W1.shape), state[cut:].reshape(W2.shape)

    def velocity(_: float, state: Array, side: Array) -> Array:
        A, B = split(state)
        c = np.where(side, 1.0, slope)
        z = A @ X
        E = (Y - B @ (c * z)) / X.shape[1]
        return np.concatenate([((B.T @ E * c) @ X.T).ravel(), (E @ (c * z).T).ravel()])

    def kink(k: int, i: int, side: Array):
        def z(_: float, state: Array, side: Array) -> float:
            return float(split(state)[0][k] @ X[:, i])

        z.terminal, z.direction = True, -1 if side[k, i] else 1
        return z

    state, now, states, side = np.concatenate([W1.ravel(), W2.ravel()]), 0.0, [], W1 @ X > 0
    places = list(np.ndindex(side.shape))
    for t in times:
        while now < t:
            events = [kink(*place, side) for place in places]
            run = solve_ivp(velocity, (now, t), state, "DOP853", events=events, args=(side,), rtol=1e-12, atol=1e-15)
            state, now = run.y[:, -1], float(run.t[-1])
            for place, seen in zip(places, run.t_events, strict=True):
                if len(seen):
                    side[place] = ~side[place]
                    k, i = place
                    leaves = float(split(velocity(now, state, side))[0][k] @ X[:, i])
                    most -= 1
                    if most < 0 or (leaves > 0) != side[place]:
                        raise Sliding
        states.append(split(state))
    return [np.stack(layer) for layer in zip(*states, strict=True)]
