"""The gradient flow, written out from the problem alone, for weights,

    Ẇ_ℓ = η_ℓ (−∂loss/∂W_ℓ − γ W_ℓ)

and for the Gram matrix of a two-layer linear network, where it closes (E = −∂loss/∂W, which is Σyx − W Σxx for the
squared loss):

    d(W1ᵀW1) = η1 (WᵀE + EᵀW − 2γ W1ᵀW1)
    dW       = η2 E W1ᵀW1 + η1 W2W2ᵀ E − (η1 + η2)γ W
    d(W2W2ᵀ) = η2 (EWᵀ + WEᵀ − 2γ W2W2ᵀ)

One state at a time, in NumPy, for evidence: the integrators follow `methods._gradients`, which shares no code with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.losses import CrossEntropy, Loss, Squared
from lazyrich.networks.network import product
from lazyrich.problem import Problem


def velocity(problem: Problem, weights: list[Any]) -> list[Any]:
    """Ẇ_ℓ of the gradient flow at given weights, for any activation; one state (no time axis)."""
    if problem.network.activation.linear:
        E = _pull_on_map(problem, product(weights))
        after, before = _partial_products(weights)
        flow = [
            (E if R is None else R.T @ E) @ (np.eye(E.shape[1]) if B is None else B.T)
            for R, B in zip(after, before, strict=True)
        ]
    else:
        flow = _nonlinear_velocity(problem, weights)
    moved = [eta * (dW - problem.weight_decay * W) for eta, dW, W in zip(problem.rates, flow, weights, strict=True)]
    for dW in moved[:-1] if problem.network.biased else ():
        dW[-1] = 0.0  # the row that makes the constant of biases
    return moved


def flat_velocity(problem: Problem, y: Float[Array, " weights"]) -> Float[Array, " weights"]:
    """The same for all weights in one vector, as integrators want it; with biases, of the free layers."""
    network = problem.network
    layers = network.free(network.weights)
    parts = np.split(y, np.cumsum([W.size for W in layers])[:-1])
    state = [part.reshape(W.shape) for part, W in zip(parts, layers, strict=True)]
    return np.concatenate([dW.ravel() for dW in network.free(velocity(problem, network.whole(state)))])


def _partial_products(weights: list[Any]) -> tuple[list[Any], list[Any]]:
    """Products of the layers after and before each one; None stands for the identity."""
    after: list[Any] = [None]
    for W in weights[:0:-1]:
        after.insert(0, W if after[0] is None else after[0] @ W)
    before: list[Any] = [None]
    for W in weights[:-1]:
        before.append(W if before[-1] is None else W @ before[-1])
    return after, before


def _pull_on_map(problem: Problem, W: Float[Array, "out in"]) -> Float[Array, "out in"]:
    """E = −∂loss/∂W."""
    task = problem.task
    if problem.loss.squared:
        return task.sigma_yx - W @ task.sigma_xx
    assert task.inputs is not None and task.targets is not None
    share = len(task.inputs) if task.reduction == "mean" else 1
    return _error(problem.loss, task.inputs @ W.T, task.targets).T @ task.inputs / share


def _error(loss: Loss, f: Float[Array, "P out"], y: Float[Array, "P out"]) -> Float[Array, "P out"]:
    """−∂loss/∂f of each sample, written out; of a function of one's own, JAX's derivative is the one there is."""
    match loss:
        case Squared():
            return y - f
        case CrossEntropy():
            from scipy.special import softmax  # here: it is slow to load

            return y - softmax(f, axis=1)
        case _:
            return np.asarray(loss.pull(f, y))


def _nonlinear_velocity(problem: Problem, weights: list[Any]) -> list[Any]:
    """Backpropagation, written out."""
    task, activation = problem.task, problem.network.activation
    assert task.inputs is not None and task.targets is not None
    signals, derivatives = [task.inputs.T], []
    for W in weights[:-1]:
        z = W @ signals[-1]
        signals.append(activation(z))
        derivatives.append(activation.derivative(z))
    signals.append(weights[-1] @ signals[-1])
    error = _error(problem.loss, signals[-1].T, task.targets).T
    error = error / (task.inputs.shape[0] if task.reduction == "mean" else 1)
    flow: list[Any] = []
    for i in range(len(weights) - 1, -1, -1):
        flow.insert(0, error @ signals[i].T)
        if i:
            error = (weights[i].T @ error) * derivatives[i - 1]
    return flow


def gram_velocity(problem: Problem, G: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The time derivative of QQᵀ."""
    d_in, (eta1, eta2), gamma = problem.task.d_in, problem.rates, problem.weight_decay
    first, W, second = G[:d_in, :d_in], G[d_in:, :d_in], G[d_in:, d_in:]
    E = _pull_on_map(problem, W)
    d_first = eta1 * (W.T @ E + E.T @ W - 2 * gamma * first)
    d_W = eta2 * E @ first + eta1 * second @ E - (eta1 + eta2) * gamma * W
    d_second = eta2 * (E @ W.T + W @ E.T - 2 * gamma * second)
    return np.block([[d_first, d_W.T], [d_W, d_second]])
