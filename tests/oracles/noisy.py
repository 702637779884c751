"""Gradient descent with noise in plain NumPy, fed with draws: which samples each step takes, what is added to their
targets, and what kicks the weights and biases. Gradients go back through the layers by hand (`losses`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .losses import Run

Array = NDArray[np.float64]


class Draw(NamedTuple):
    """What one step draws, in units of their sizes."""

    chosen: Array  # numbers of samples
    on_targets: Array | float  # (samples, outputs)
    kicks: Sequence[Array | float]  # per layer: (out, in), or (out, in + 1) with the biases last


def descend(
    run: Run,
    weights: Sequence[Array],
    biases: Sequence[Array],
    rate: float,
    draws: Callable[[int], Draw],
    steps: int,
    momentum: float = 0.0,
    nesterov: bool = False,
) -> list[list[Array]]:
    """The layers at every step, each as [W, b] where the network is biased, and [W] where it is not."""
    W, b = [w.copy() for w in weights], [v.copy() for v in biases]
    eta = [1.0] * len(W) if run.rates is None else run.rates
    moving: list[tuple[Array | float, Array | float]] = [(0.0, 0.0)] * len(W)
    states = [_joined(W, b, run.biased)]
    for n in range(steps):
        chosen, on_targets, kicks = draws(n)
        part = run._replace(inputs=run.inputs[chosen], targets=run.targets[chosen] + on_targets)
        unbiased = 1.0 if run.reduction == "mean" else len(run.inputs) / len(chosen)
        decay = [rate_of * run.decay for rate_of in eta]
        dW, db = part._replace(decay=0.0).velocity(W, b)
        dW = [unbiased * d - c * w for d, c, w in zip(dW, decay, W, strict=True)]
        db = [unbiased * d - c * v * run.biased for d, c, v in zip(db, decay, b, strict=True)]
        moving = [(momentum * m + d, momentum * k + e) for (m, k), d, e in zip(moving, dW, db, strict=True)]
        ahead = [(d + momentum * m, e + momentum * k) for (m, k), d, e in zip(moving, dW, db, strict=True)]
        for layer, (m, k) in enumerate(ahead if nesterov else moving):
            kick = np.sqrt(rate * eta[layer]) * np.asarray(kicks[layer])
            W[layer] = W[layer] + rate * m + (kick[..., : W[layer].shape[1]] if kick.ndim else kick)
            b[layer] = b[layer] + rate * k + (kick[..., -1] if run.biased and kick.ndim else 0.0)
        states.append(_joined(W, b, run.biased))
    return states


def _joined(W: Sequence[Array], b: Sequence[Array], biased: bool) -> list[Array]:
    return [np.column_stack([w, v]) if biased else w.copy() for w, v in zip(W, b, strict=True)]
