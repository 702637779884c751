"""Networks with biases, by hand: f(x) = W_L σ(… σ(W_1 x + b_1) …) + b_L, weights and biases apart, a constant nowhere.

Gradients are backpropagated through the samples; the flow is SciPy's, to fewer digits where a ReLU has its kinks.
Nothing here knows lazyrich.
"""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

ACTIVATIONS = {
    "linear": (lambda z: z, lambda z: 1.0 + 0 * z),
    "relu": (lambda z: np.maximum(z, 0.0), lambda z: (z > 0).astype(float)),
    "tanh": (np.tanh, lambda z: 1 / np.cosh(z) ** 2),
}


def outputs(W, b, activation, X):
    sigma, _ = ACTIVATIONS[activation]
    h = X
    for i in range(len(W)):
        h = h @ W[i].T + b[i]
        h = sigma(h) if i < len(W) - 1 else h
    return h


def loss(W, b, activation, X, Y):
    return float(np.sum((outputs(W, b, activation, X) - Y) ** 2) / 2 / len(X))


def gradients(W, b, activation, X, Y):
    """∂loss/∂W and ∂loss/∂b of each layer."""
    sigma, slope = ACTIVATIONS[activation]
    signals, before = [X], []
    for i in range(len(W)):
        before.append(signals[-1] @ W[i].T + b[i])
        signals.append(sigma(before[-1]) if i < len(W) - 1 else before[-1])
    delta, dW, db = (signals[-1] - Y) / len(X), [], []
    for i in reversed(range(len(W))):
        dW.insert(0, delta.T @ signals[i])
        db.insert(0, delta.sum(axis=0))
        if i:
            delta = (delta @ W[i]) * slope(before[i - 1])
    return dW, db


def descend(W, b, activation, X, Y, *, rate, steps, rates, decay=0.0):
    W, b = [M.copy() for M in W], [v.copy() for v in b]
    for _ in range(steps):
        dW, db = gradients(W, b, activation, X, Y)
        W = [M - rate * eta * (G + decay * M) for M, G, eta in zip(W, dW, rates, strict=True)]
        b = [v - rate * eta * (g + decay * v) for v, g, eta in zip(b, db, rates, strict=True)]
    return W, b


def flow(W, b, activation, X, Y, time, *, rates, decay=0.0):
    shapes = [M.shape for M in W] + [v.shape for v in b]
    cuts = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]

    def parts(y):
        cut = [part.reshape(shape) for part, shape in zip(np.split(y, cuts), shapes, strict=True)]
        return cut[: len(W)], cut[len(W) :]

    def velocity(_, y):
        W, b = parts(y)
        dW, db = gradients(W, b, activation, X, Y)
        moved = [-eta * (G + decay * M) for G, M, eta in zip([*dW, *db], [*W, *b], [*rates, *rates], strict=True)]
        return np.concatenate([part.ravel() for part in moved])

    start, rtol = np.concatenate([part.ravel() for part in [*W, *b]]), 1e-6 if activation == "relu" else 1e-11
    return parts(solve_ivp(velocity, (0.0, time), start, "DOP853", rtol=rtol, atol=rtol / 100).y[:, -1])


def tangent_kernel(W, b, activation, X, rates):
    """JJᵀ with the layer rates, by central differences in every weight and bias; outputs are the outer index."""

    def flat(W, b):
        return outputs(W, b, activation, X).T.ravel()

    columns = []
    for kind, others in ((W, b), (b, W)):
        for i in range(len(kind)):
            for place in np.ndindex(kind[i].shape):
                sides = []
                for step in (1e-5, -1e-5):
                    moved = [part.copy() for part in kind]
                    moved[i][place] += step
                    sides.append(flat(moved, others) if kind is W else flat(others, moved))
                columns.append(np.sqrt(rates[i]) * (sides[0] - sides[1]) / 2e-5)
    J = np.array(columns).T
    return J @ J.T
