"""Balanced initialisations: neighbouring layers differ by a multiple of the identity, W_{ℓ+1}ᵀW_{ℓ+1} − W_ℓW_ℓᵀ = λI.

The flow keeps λ for ever. λ = 0 is Braun's zero-balanced one, λ ≫ 0 puts the weight into the last layer
(upstream), λ ≪ 0 into the first (downstream). The recipe of Braun et al. 2022: take the singular values of
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

_BRAUN = 1.15  # factor on each layer in the published recipe


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
    c = _BRAUN * s ** (1 / (len(widths) - 1))
    inner = [random_frame(generator, h, len(s)) for h in widths[1:-1]]
    frames = [Vt.T, *inner, U]
    return Network([(new * c) @ old.T for old, new in itertools.pairwise(frames)])


def lambda_balanced(rng: Rng, *, sizes: Sequence[SupportsIndex], lam: float, scale: float) -> Network:
    """Two layers with W2ᵀW2 − W1W1ᵀ = λI. λ > 0 needs hidden ≤ outputs, λ < 0 needs hidden ≤ inputs.

    Parameters
    ----------
    rng : a seed, or a NumPy Generator
    sizes : widths (d_in, hidden, d_out)
    lam : the balance λ
    scale : as in `zero_balanced`

    Returns
    -------
    Network

    >>> net = lr.inits.lambda_balanced(0, sizes=(5, 3, 4), lam=2.0, scale=0.1)
    >>> W1, W2 = net.weights
    >>> bool(abs(W2.T @ W2 - W1 @ W1.T - 2 * np.eye(3)).max() < 1e-14)
    True
    """
    lam, widths = _check.number("lam", lam), _check.sizes(sizes, depth=2)
    if lam == 0:
        return zero_balanced(rng, sizes=widths, scale=scale)
    d_in, h, d_out = widths
    side, room = ("outputs", d_out) if lam > 0 else ("inputs", d_in)
    if h > room:
        raise InvalidInput(
            f"lam = {lam:g} needs a hidden layer no wider than the {side} ({room}), and it has {h} units: "
            f"W2ᵀW2 − W1W1ᵀ = λI has no solution; try lam = 0 or hidden ≤ {room}."
        )
    generator = _check.as_rng(rng)
    U, s, Vt = _svd_of_gaussian_product(generator, widths, scale)
    a = np.pad(_BRAUN**2 * s, (0, h - len(s)))  # hidden directions with no partner carry λ alone
    c1, c2 = layer_factors(a, lam)
    R = random_frame(generator, h, h)
    left, right = _complete(generator, U, h), _complete(generator, Vt.T, h)
    return Network(
        [
            (R[:, : right.shape[1]] * c1[: right.shape[1]]) @ right.T,
            left * c2[: left.shape[1]] @ R.T[: left.shape[1]],
        ]
    )


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
