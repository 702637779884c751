"""Losses other than the squared one, in plain NumPy: values, gradients by going back through the layers by hand, one
step of descent after the other, and the gradient flow of all weights by scipy's DOP853.

Samples are rows. A loss is a pair of functions of outputs and targets: one number per sample, and −∂/∂outputs.
Expect 1e-12 of a step, and of the flow about 1e-11 of weights that are of size 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

Array = NDArray[np.float64]
RTOL, ATOL = 1e-12, 1e-14


class Loss(NamedTuple):
    value: Callable[[Array, Array], Array]
    pull: Callable[[Array, Array], Array]


def _softmax(f: Array) -> Array:
    e = np.exp(f - f.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


cross_entropy = Loss(lambda f, y: -(y * np.log(_softmax(f))).sum(axis=1), lambda f, y: y - _softmax(f))
huber = Loss(
    lambda f, y: np.where(abs(f - y) < 1, (f - y) ** 2 / 2, abs(f - y) - 0.5).sum(axis=1),
    lambda f, y: np.clip(y - f, -1, 1),
)

ACTIVATIONS = {
    "linear": (lambda z: z, np.ones_like),
    "tanh": (np.tanh, lambda z: 1 / np.cosh(z) ** 2),
    "relu": (lambda z: np.maximum(z, 0), lambda z: (z > 0).astype(float)),
}


class Run(NamedTuple):
    """A network with biases or without (zeros that do not move), on samples."""

    inputs: Array
    targets: Array
    loss: Loss
    activation: str = "linear"
    reduction: str = "mean"
    biased: bool = False
    rates: Sequence[float] | None = None
    decay: float = 0.0

    @property
    def weight(self) -> float:
        return 1 / len(self.inputs) if self.reduction == "mean" else 1.0

    def outputs(self, weights: Sequence[Array], biases: Sequence[Array]) -> Array:
        h = self.inputs
        for W, b in zip(weights[:-1], biases[:-1], strict=True):
            h = ACTIVATIONS[self.activation][0](h @ W.T + b)
        return h @ weights[-1].T + biases[-1]

    def value(self, weights: Sequence[Array], biases: Sequence[Array]) -> float:
        return float(self.weight * self.loss.value(self.outputs(weights, biases), self.targets).sum())

    def velocity(self, weights: Sequence[Array], biases: Sequence[Array]) -> tuple[list[Array], list[Array]]:
        """η (−∂loss/∂W − γW), the same for the biases."""
        act, slope = ACTIVATIONS[self.activation]
        h, z = [self.inputs], []
        for W, b in zip(weights, biases, strict=True):
            z.append(h[-1] @ W.T + b)
            h.append(act(z[-1]))
        back = self.weight * self.loss.pull(z[-1], self.targets)
        eta = [1.0] * len(weights) if self.rates is None else self.rates
        dW, db = [], []
        for layer in reversed(range(len(weights))):
            dW.insert(0, eta[layer] * (back.T @ h[layer] - self.decay * weights[layer]))
            db.insert(0, eta[layer] * (back.sum(axis=0) - self.decay * biases[layer]) * self.biased)
            if layer:
                back = (back @ weights[layer]) * slope(z[layer - 1])
        return dW, db

    def descend(
        self, weights: Sequence[Array], biases: Sequence[Array], rate: float, steps: int
    ) -> tuple[list[list[Array]], list[list[Array]], list[float]]:
        """Weights, biases and loss at every step."""
        W, b = [w.copy() for w in weights], [v.copy() for v in biases]
        all_W, all_b, losses = [W], [b], [self.value(W, b)]
        for _ in range(steps):
            dW, db = self.velocity(W, b)
            W = [w + rate * d for w, d in zip(W, dW, strict=True)]
            b = [v + rate * d for v, d in zip(b, db, strict=True)]
            all_W.append(W)
            all_b.append(b)
            losses.append(self.value(W, b))
        return all_W, all_b, losses

    def flow(self, weights: Sequence[Array], times: Array) -> list[list[Array]]:
        """The weights at each time, without biases."""
        ends = np.cumsum([W.size for W in weights])[:-1]
        zeros = [np.zeros(len(W)) for W in weights]

        def split(y: Array) -> list[Array]:
            return [part.reshape(W.shape) for part, W in zip(np.split(y, ends), weights, strict=True)]

        def velocity(_: float, y: Array) -> Array:
            return np.concatenate([d.ravel() for d in self.velocity(split(y), zeros)[0]])

        y, now, states = np.concatenate([W.ravel() for W in weights]), 0.0, []
        for t in times:
            if t > now:
                y = solve_ivp(velocity, (now, t), y, "DOP853", rtol=RTOL, atol=ATOL).y[:, -1]
            now = t
            states.append(split(y))
        return states
