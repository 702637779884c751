"""Two layers neuron by neuron: one output, an overall scale τ and a balance δ (Kunin et al. 2024, Fig. 1).

From unit neurons (‖w_k‖ = |a_k| = 1), w × τ/α and a × τα give every neuron the balance a² − ‖w‖² = δ where

    δ = τ²(α² − α⁻²)                                 (theory: section 8; the paper prints δ²).

δ > 0 is upstream: small first-layer weights, which turn fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Rng
from lazyrich.networks import Network
from lazyrich.tasks.teacher import unit_vectors


def symmetrised(
    rng: Rng, *, sizes: Sequence[SupportsIndex], tau: float = 1.0, delta: float = 0.0, activation: str | float = "relu"
) -> Network:
    """Neurons in pairs (w, a) and (w, −a), so that the network predicts 0; w on the sphere, a = ±1, then `rescaled`.

    Parameters
    ----------
    rng : a seed, or a NumPy Generator
    sizes : widths (d_in, an even width, 1)
    tau : overall scale τ
    delta : balance δ of every neuron
    activation : "linear", "relu", "tanh", or the slope of a leaky ReLU

    Returns
    -------
    Network

    >>> net = lr.inits.symmetrised(0, sizes=(3, 4, 1), tau=0.5, delta=1.0)
    >>> W, a = net.weights
    >>> (a[0] ** 2 - (W**2).sum(axis=1)).round(12)
    array([1., 1., 1., 1.])
    """
    generator, (d, h, d_out) = _check.as_rng(rng), _check.sizes(sizes, depth=2)
    if d_out != 1 or h % 2:
        raise InvalidInput(
            f"sizes must be (inputs, an even width, 1) for symmetrised neurons, and it is {(d, h, d_out)}."
        )
    w, a = unit_vectors(generator, h // 2, d), generator.choice([-1.0, 1.0], size=h // 2)
    return rescaled(Network([np.vstack([w, w]), np.concatenate([a, -a])[None]], activation), tau=tau, delta=delta)


def rescaled(network: Network, *, tau: float, delta: float) -> Network:
    """The same neurons with w × τ/α and a × τα: balance δ for those with ‖w‖ = |a| = 1.

    Parameters
    ----------
    network : two layers
    tau : overall scale τ
    delta : balance δ

    Returns
    -------
    Network

    >>> net = lr.inits.rescaled(lr.Network([[[1.0]], [[1.0]]], "relu"), tau=2.0, delta=0.0)
    >>> net.weights[0].item(), net.weights[1].item()
    (2.0, 2.0)
    """
    tau, delta = _check.positive("tau", tau), _check.number("delta", delta)
    if not isinstance(network, Network) or network.depth != 2:
        raise InvalidInput(f"network must have two layers, and it is {_check.shown(network)}.")
    half = abs(delta) / (2 * tau**2)
    alpha = np.sqrt(half + np.hypot(half, 1.0)) ** (1.0 if delta >= 0 else -1.0)
    W, a = network.weights
    return Network([W * (tau / alpha), a * (tau * alpha)], network.activation)
