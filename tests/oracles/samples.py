"""The right side of gradient flow of any network, by backpropagation through the samples, for scipy to integrate."""

from __future__ import annotations

import numpy as np


def kind_of(network):
    """The activation as the oracles take it: a word, or the slope of a leaky ReLU."""
    return {1.0: "linear", 0.0: "relu", None: "tanh"}.get(network.activation.gamma, network.activation.gamma)


def velocity(problem):
    """Ẇ of a flattened network, by backpropagation through the samples."""
    X, Y, kind = problem.task.inputs.T, problem.task.targets.T, kind_of(problem.network)
    weight = 1 / X.shape[1] if problem.task.reduction == "mean" else 1.0
    slope = {"relu": 0.0, "linear": 1.0}.get(kind, kind)
    shapes = [W.shape for W in problem.network.weights]
    ends = np.cumsum([a * b for a, b in shapes])[:-1]

    def right_side(_, state):
        W = [part.reshape(shape) for part, shape in zip(np.split(state, ends), shapes, strict=True)]
        out, steep = [X], []
        for V in W[:-1]:
            z = V @ out[-1]
            out.append(np.tanh(z) if kind == "tanh" else np.where(z > 0, z, slope * z))
            steep.append(1 / np.cosh(z) ** 2 if kind == "tanh" else np.where(z > 0, 1.0, slope))
        delta, parts = weight * (Y - W[-1] @ out[-1]), []
        for layer in reversed(range(len(W))):
            parts.append(problem.rates[layer] * (delta @ out[layer].T - problem.weight_decay * W[layer]).ravel())
            delta = (W[layer].T @ delta) * steep[layer - 1] if layer else None
        return np.concatenate(parts[::-1])

    return right_side
