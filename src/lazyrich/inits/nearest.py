"""`balanced`: a zero-balanced network next to any linear one, and how far it is.

Layers with W_ℓ₊₁ᵀW_ℓ₊₁ = W_ℓW_ℓᵀ throughout are W_ℓ = R_ℓ C R_{ℓ−1}ᵀ with one diagonal C for all, and frames R_ℓ of as
many orthonormal columns as the narrowest layer has units. The sum of squares of what has to be changed,

    Σ_ℓ ‖W_ℓ − R_ℓ C R_{ℓ−1}ᵀ‖²,

is least in one frame after the other where R_ℓ is the polar factor of (W_ℓ R_{ℓ−1} + W_ℓ₊₁ᵀ R_ℓ₊₁) C, and in C where it
is the mean of the diagonals of R_ℓᵀ W_ℓ R_{ℓ−1}. Each such step lowers the sum, and they are taken until it rests. With
two layers, W1 → SVᵀ and W2 → USᵀ, the best S is (W1V + W2ᵀU)/2 = R_1 C Oᵀ. Where inputs are as many as outputs, and no
layer between them is narrower, the singular vectors U and V of W2W1 make tr UᵀW2W1V largest, and the answer is the
nearest. Elsewhere it is the best that was found from several starts (one, of a large network), and how far it is bounds
the least distance from above.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.networks import Network

_ROUNDS = 2000
_REST = 1e-12  # of the squares of all weights: what a round must lower the sum by, to go on
_RANDOM_STARTS = 4
_MANY = 2**16  # weights: from so many on, one start has to do

Frames = list[Array]  # R_0 … R_L


@dataclass(frozen=True, eq=False)
class Balanced:
    """A zero-balanced network, and how far the given one is from it, relative to its weights (Frobenius).

    Where it is not proven to be the nearest, that is an upper bound of the least distance.

    >>> found = lr.balanced(lr.Network([[[1.0]], [[0.5]]]))
    >>> found.network.weights[0].round(6), round(found.distance, 6)
    (array([[0.75]]), 0.316228)
    """

    network: Network
    distance: float
    nearest: bool = True  # by proof; else the best of several descents, and nearer ones may exist

    def __str__(self) -> str:
        words = f"{self.network!r}, balanced, {self.distance:.3g} of the weights away"
        return words + ("" if self.nearest else " (an upper bound: nearer ones may exist)")


def balanced(network: Network) -> Balanced:
    """A zero-balanced network next to a linear one; any depth, any widths.

    With two layers, as many inputs as outputs and no fewer hidden units it is proven to be the nearest (`nearest`).
    Elsewhere it is the best of seven descents (one, of a large network): `distance` bounds the least one from above.

    Solutions that need balanced layers apply to it. How good they are for the network itself, `distance` says roughly:
    small changes of small weights may still decide which mode is learned when.

    Parameters
    ----------
    network : linear, without biases

    Returns
    -------
    Balanced : `network`, its relative `distance`, and whether it is proven to be the `nearest`

    >>> start = lr.inits.gaussian(0, sizes=(5, 8, 5), scale=0.1)
    >>> task = lr.Task.from_correlations(np.eye(5))
    >>> lr.Problem(task, start).facts.balanced, lr.Problem(task, lr.balanced(start).network).facts.zero_balanced
    (False, True)
    """
    if not isinstance(network, Network):
        raise InvalidInput(f"network must be a lazyrich Network, and it is a {type(network).__name__}.")
    if not network.activation.linear or network.biased or network.depth < 2:
        raise InvalidInput(
            f"network must have two linear layers or more, without biases, to be balanced, and it is "
            f"{network.architecture}: try Network([W1, W2])."
        )
    if network.multiplier != 1:
        raise InvalidInput(
            f"network must have no output multiplier to be balanced, since layers that learn at other rates keep "
            f"another balance, and its multiplier is {network.multiplier:g}: try Network(network.weights)."
        )
    size = float(np.sqrt(sum(np.sum(W**2) for W in network.weights)))
    if size == 0:
        return Balanced(network, 0.0)
    W = [layer / size for layer in network.weights]
    off, R, c = min((_settled(W, start) for start in _starts(W)), key=lambda found: found[0])
    layers = [size * (after * c) @ before.T for before, after in itertools.pairwise(R)]
    d_in, *hidden, d_out = network.sizes
    proven = len(hidden) == 1 and d_in == d_out <= hidden[0]
    return Balanced(Network(layers).known_to(network.eps), float(np.sqrt(max(off, 0.0))), proven)


def _starts(W: list[Array]) -> Iterator[Frames]:
    """Frames to begin with: from singular vectors of the product, of the first and the last layer, and at random."""
    r = min(W[0].shape[1], *(len(layer) for layer in W))
    function = W[0]
    for layer in W[1:]:
        function = layer @ function
    U, _, Vt = np.linalg.svd(function)
    if len(W) == 2:
        frame, _, Ot = np.linalg.svd(W[0] @ Vt[:r].T + W[1].T @ U[:, :r], full_matrices=False)
        yield [Vt[:r].T @ Ot.T, frame, U[:, :r] @ Ot.T]
    else:
        yield _followed(W, Vt[:r].T, U[:, :r])
    if sum(layer.size for layer in W) > _MANY:
        return
    yield _followed(W, np.linalg.svd(W[0])[2][:r].T, None)
    yield _followed([layer.T for layer in reversed(W)], np.linalg.svd(W[-1])[0][:, :r], None)[::-1]
    rng = np.random.default_rng(0)
    for _ in range(_RANDOM_STARTS):
        yield [_polar(rng.normal(size=(n, r))) for n in (W[0].shape[1], *(len(layer) for layer in W))]


def _followed(W: list[Array], first: Array, last: Array | None) -> Frames:
    """Each frame where the layers take the one before it, and the last where it is wanted."""
    frames = [first]
    for i, layer in enumerate(W):
        seen = layer @ frames[-1]
        if last is not None and i == len(W) - 2:
            seen = seen + W[-1].T @ last
        frames.append(last if last is not None and i == len(W) - 1 else _polar(seen))
    return frames


def _settled(W: list[Array], R: Frames) -> tuple[float, Frames, Float[Array, " r"]]:
    """What is left of the sum of squares, for weights whose squares sum to 1, with the frames and C of it."""
    R, L = list(R), len(W)

    def shared() -> Float[Array, " r"]:
        return np.mean([np.sum(R[i + 1] * (W[i] @ R[i]), axis=0) for i in range(L)], axis=0)

    c, before = shared(), np.inf
    for _ in range(_ROUNDS):
        for i in range(L + 1):
            seen = W[i - 1] @ R[i - 1] if i else 0.0
            seen = seen + (W[i].T @ R[i + 1] if i < L else 0.0)
            R[i] = _polar(seen * c)
        c = shared()
        off = 1 - L * float(np.sum(c**2))
        if before - off <= _REST:
            break
        before = off
    left = sum(float(np.sum((W[i] - (R[i + 1] * c) @ R[i].T) ** 2)) for i in range(L))
    return left, R, c


def _polar(M: Float[Array, "n r"]) -> Float[Array, "n r"]:
    """The nearest orthonormal columns."""
    left, _, right = np.linalg.svd(M, full_matrices=False)
    return left @ right
