"""Balanced initialisations: neighbouring layers differ by a multiple of the identity, W_{ℓ+1}ᵀW_{ℓ+1} − W_ℓW_ℓᵀ = λI.

The flow keeps λ for ever. λ = 0 is Braun's zero-balanced one, λ ≫ 0 puts the weight into the last layer
(upstream), λ ≪ 0 into the first (downstream). In more layers each pair may have a λ of its own; Kunin's deep
networks (Definition 12) have λ = 0 but for the last pair. The recipe of Braun et al. 2022: take the singular values of
a Gaussian product, and share them among the layers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, ArrayLike, Float, Rng
from lazyrich.inits.random import gaussian, random_frame
from lazyrich.networks import Network

BRAUN = 1.15  # factor on each layer in the published recipe


def zero_balanced(rng: Rng, *, sizes: Sequence[SupportsIndex], scale: float) -> Network:
    """Neighbouring layers share their singular values and vectors (λ = 0), at any depth.

    Parameters
    ----------
    rng : a seed, or a NumPy Generator
    sizes : widths (d_in, hidden …, d_out)
    scale : standard deviation of the Gaussian weights whose product gives the singular values

    Returns
    -------
    Network

    >>> net = lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01)
    >>> W1, W2 = net.weights
    >>> bool(abs(W2.T @ W2 - W1 @ W1.T).max() < 1e-15)
    True
    """
    generator, widths = _check.as_rng(rng), _check.sizes(sizes)
    U, s, Vt = _svd_of_gaussian_product(generator, widths, scale)
    c = BRAUN * s ** (1 / (len(widths) - 1))
    inner = [random_frame(generator, h, len(s)) for h in widths[1:-1]]
    frames = [Vt.T, *inner, U]
    return Network([(new * c) @ old.T for old, new in itertools.pairwise(frames)])


def lambda_balanced(rng: Rng, *, sizes: Sequence[SupportsIndex], lam: ArrayLike, scale: float) -> Network:
    """Layers with W_{ℓ+1}ᵀW_{ℓ+1} − W_ℓW_ℓᵀ = λI, two or more.

    Hidden units beyond those of a neighbouring layer have weights on the other side alone, and there λ is all there is:
    two layers with λ > 0 need hidden ≤ outputs, with λ < 0 hidden ≤ inputs. What more layers need is said if it is
    missing.

    Parameters
    ----------
    rng : a seed, or a NumPy Generator
    sizes : widths (d_in, hidden …, d_out)
    lam : the balance λ, one number or one for each pair of neighbouring layers, first pair first
    scale : as in `zero_balanced`

    Returns
    -------
    Network

    >>> net = lr.inits.lambda_balanced(0, sizes=(5, 3, 4), lam=2.0, scale=0.1)
    >>> W1, W2 = net.weights
    >>> bool(abs(W2.T @ W2 - W1 @ W1.T - 2 * np.eye(3)).max() < 1e-14)
    True
    >>> W1, W2, W3 = lr.inits.lambda_balanced(0, sizes=(4, 4, 4, 1), lam=[0.0, -2.0], scale=0.1).weights  # Kunin's
    >>> bool(abs(W3.T @ W3 - W2 @ W2.T + 2 * np.eye(4)).max() < 1e-14), bool(abs(W2.T @ W2 - W1 @ W1.T).max() < 1e-14)
    (True, True)
    """
    widths = _check.sizes(sizes)
    balance = _per_pair(lam, widths)
    if not balance.any():
        return zero_balanced(rng, sizes=widths, scale=scale)
    generator = _check.as_rng(rng)
    alone = [_alone(i, widths, balance) for i in range(min(widths), max(widths[1:-1]))]
    s, frames = draws(generator, widths, scale)
    b = layer_sizes(BRAUN ** (len(widths) - 1) * s, np.tile(balance[:, None], len(s)))
    b = np.concatenate([b, np.reshape(alone, (len(alone), len(widths) - 1)).T], axis=1)
    layers = []
    for b_l, old, new in zip(b, frames, frames[1:], strict=False):
        k = min(old.shape[1], new.shape[1], b.shape[1])
        layers.append((new[:, :k] * b_l[:k]) @ old[:, :k].T)
    return Network(layers)


def single_neuron(beta: ArrayLike, *, delta: float, sign: int = 1) -> Network:
    """One hidden unit, f(x) = a wᵀx, with a w = β and a² − ‖w‖² = δ.

    Parameters
    ----------
    beta : the linear map β, one entry per input
    delta : the balance δ
    sign : 1 or -1, the sign of a

    Returns
    -------
    Network

    >>> net = lr.inits.single_neuron([-1.0, 0.0], delta=3.75)
    >>> net.function, float(net.weights[1][0, 0])
    (array([[-1.,  0.]]), 2.0)
    """
    beta, delta = _check.as_array("beta", beta, ndim=1), _check.number("delta", delta)
    if np.ndim(sign) or sign not in (1, -1):
        raise InvalidInput(f"sign must be 1 or -1, the sign of the output weight, and it is {sign!r}.")
    size = float(np.linalg.norm(beta))
    if size == 0 and delta < 0:
        raise InvalidInput("beta must not be zero when delta is negative: the direction of w would be unknown.")
    norm_w, a = layer_factors(np.array([size]), delta)
    direction = beta / size if size else np.zeros_like(beta)
    return Network([sign * norm_w * direction[None, :], sign * a[None, :]])


def layer_factors(a: Float[Array, " m"], lam: float | Array) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """c1, c2 ≥ 0 with c1·c2 = |a| and c2² − c1² = λ, without cancellation for either sign of λ."""
    big = np.sqrt((np.hypot(lam, 2 * a) + np.abs(lam)) / 2)
    small = np.abs(a) / np.where(big > 0, big, 1)
    return np.where(np.asarray(lam) > 0, small, big), np.where(np.asarray(lam) > 0, big, small)


def layer_sizes(a: Float[Array, " m"], lam: Float[Array, "pairs m"]) -> Float[Array, "L m"]:
    """b ≥ 0 with Πb = |a| and b_{ℓ+1}² − b_ℓ² = λ_ℓ, of any number of layers."""
    if len(lam) == 1:
        return np.array(layer_factors(a, lam[0]))
    above = np.concatenate([np.zeros((1, len(a))), np.cumsum(lam, axis=0)])  # b_ℓ² − b_1²
    least = np.argmin(above, axis=0)
    kappa = np.sqrt(above - np.take_along_axis(above, least[None], 0))
    b = np.hypot(
        smallest_size(np.abs(a), np.array([np.delete(k, i) for k, i in zip(kappa.T, least, strict=True)]).T), kappa
    )
    return np.where(a == 0, kappa, b)


def smallest_size(product: Float[Array, " m"], kappa: Float[Array, "k m"]) -> Float[Array, " m"]:
    """y ≥ 0 with y Π_j √(y² + κ_j²) = product, to the last digits.

    log of the left is convex in log y, with slopes from 1 on: Newton's method cannot miss.
    """
    y = np.zeros_like(product)
    some = product > 0
    goal = np.log(product[some])
    with np.errstate(divide="ignore"):
        log_kappa = np.log(kappa[:, some])
    z = goal / (1 + len(kappa))
    for _ in range(100):
        logs = np.logaddexp(2 * z, 2 * log_kappa) / 2
        step = (goal - z - logs.sum(axis=0)) / (1 + np.exp(2 * (z - logs)).sum(axis=0))
        z = z + step
        if np.all(np.abs(step) <= 1e-9 * np.maximum(1.0, np.abs(z))):  # the next would be its square
            break
    y[some] = np.exp(z)
    for _ in range(2):  # the logarithms have lost the last digits
        r = np.hypot(y[some], kappa[:, some])
        left = goal - np.log(y[some]) - np.log(r).sum(axis=0)
        slope = 1 + np.sum((y[some] / r) ** 2, axis=0)
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            ratio = product[some] / np.prod(r, axis=0) / y[some]
        y[some] *= 1 + np.where((ratio > 0.5) & (ratio < 2), np.log(ratio, where=ratio > 0, out=left), left) / slope
    return y


def draws(
    generator: np.random.Generator, widths: tuple[int, ...], scale: float
) -> tuple[Float[Array, " m"], list[Array]]:
    """What is random in `lambda_balanced`: singular values of the Gaussian product, and orthonormal columns in inputs,
    hidden layers and outputs. `scale` scales the singular values alone."""
    U, s, Vt = _svd_of_gaussian_product(generator, widths, scale)
    columns = max(min(widths), *widths[1:-1])
    inner = [random_frame(generator, h, h) for h in widths[1:-1]]
    left, right = _complete(generator, U, columns), _complete(generator, Vt.T, columns)
    return s, [right, *inner, left]


def _per_pair(lam: ArrayLike, widths: tuple[int, ...]) -> Float[Array, " pairs"]:
    pairs = len(widths) - 2
    if pairs < 1:
        raise InvalidInput(f"sizes must name a hidden layer between inputs and outputs, and it is {widths}.")
    if pairs == 1 or not isinstance(lam, list | tuple | np.ndarray):
        return np.full(pairs, _check.number("lam", lam))
    balance = _check.as_array("lam", lam, ndim=1)
    if len(balance) != pairs:
        raise InvalidInput(
            f"lam must be one number or one per pair of neighbouring layers ({pairs}), and it has {len(balance)}."
        )
    return balance


def _alone(unit: int, widths: tuple[int, ...], balance: Float[Array, " pairs"]) -> Float[Array, " L"]:
    """b in each layer of the hidden units of one index that not all layers have. Along a chain of neighbouring layers
    that have it b² changes by λ from layer to layer, and is zero beyond an end of the chain that is not an end of the
    network."""
    b2, n = np.zeros(len(widths) - 1), len(widths) - 1
    has = [width > unit for width in widths]
    for p in range(1, n):
        if has[p] and not all(has[: p + 1]):  # the chain began after the inputs
            b2[p] = b2[p - 1] + balance[p - 1]
    for p in reversed(range(1, n)):
        if all(has[: p + 1]):  # it began with them, and ends before the outputs
            b2[p - 1] = b2[p] - balance[p - 1]
    slack = 16 * np.finfo(np.float64).eps * float(np.abs(balance).sum())
    for layer in range(n):
        there = has[layer] and has[layer + 1]
        if b2[layer] < -slack or (abs(b2[layer]) > slack and not there):
            raise _no_room(layer, widths, balance)
    return np.sqrt(np.where(b2 > slack, b2, 0.0))


def _no_room(layer: int, widths: tuple[int, ...], balance: Float[Array, " pairs"]) -> InvalidInput:
    lam = ", ".join(f"{value:g}" for value in balance)
    if len(widths) == 3:
        side, room = ("outputs", widths[2]) if balance[0] > 0 else ("inputs", widths[0])
        return InvalidInput(
            f"lam = {lam} needs a hidden layer no wider than the {side} ({room}), and it has {widths[1]} units: "
            f"W2ᵀW2 − W1W1ᵀ = λI has no solution; try lam = 0 or hidden ≤ {room}."
        )
    return InvalidInput(
        f"lam = {lam} has no solution in layers of {', '.join(map(str, widths))} units: hidden units that a "
        f"neighbouring layer has not would need a negative square, or weights that are not there, in W{layer + 1}; try "
        "lam = 0, equal widths, or λ > 0 where layers widen and λ < 0 where they narrow."
    )


def _svd_of_gaussian_product(
    generator: np.random.Generator, widths: tuple[int, ...], scale: float
) -> tuple[Float[Array, "out m"], Float[Array, " m"], Float[Array, "m in"]]:
    U, s, Vt = np.linalg.svd(gaussian(generator, sizes=widths, scale=scale).function, full_matrices=False)
    m = min(widths)  # a narrow layer leaves no more singular values than its width
    return U[:, :m], s[:m], Vt[:m]


def _complete(generator: np.random.Generator, frame: Float[Array, "d m"], columns: int) -> Float[Array, "d n"]:
    """The frame, extended by random orthonormal vectors to `columns` of them, or to as many as there is room for."""
    d, m = frame.shape
    extra = generator.normal(size=(d, min(columns, d) - m))
    completed, R = np.linalg.qr(np.hstack([frame, extra]))
    return completed * np.where(np.diag(R) < 0, -1.0, 1.0)
