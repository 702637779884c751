"""Do initialisation and task share their singular vectors? Then the modes evolve alone.

Two layers, in the basis Σyx = U diag(s) Vᵀ, with p_α = W1 v_α and q_α = W2ᵀ u_α: if all p are orthogonal,
all q are orthogonal, and q_α ⟂ p_β for α ≠ β, then this stays so, and each a_α = q_α·p_α follows an
equation of its own. Inputs may be correlated as long as Σxx has the same v_α. Where singular values
coincide, U and V are free up to a rotation, and the one that fits the initialisation is chosen.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.networks.network import product

_EPS = float(np.finfo(np.float64).eps)
_MIXTURES = ((1.0, 0.618, 0.382, 0.27), (0.27, 1.0, -0.618, 0.382), (-0.618, 0.382, 1.0, 0.27))


@dataclass(frozen=True)
class Alignment:
    """Full orthogonal U and V, and per mode: singular value s, initial a, input variance d, ‖p‖², ‖q‖²."""

    U: Float[Array, "out out"]
    V: Float[Array, "in in"]
    s: Float[Array, " m"]
    a: Float[Array, " m"]
    d: Float[Array, " m"]
    p2: Float[Array, " m"]
    q2: Float[Array, " m"]
    error: float  # largest coupling between different modes, relative
    turn: Float[Array, "d d"]  # by which angle rounding may turn two singular vectors into each other


def align(
    sigma_yx: Float[Array, "out in"],
    sigma_xx: Float[Array, "in in"],
    layers: Sequence[Array],
    eps: float = _EPS,
) -> Alignment:
    """The singular basis of Σyx that fits the layers of a linear network best, and how well it does."""
    first, last, below = layers[0], layers[-1], product(layers[:-1]) if len(layers) > 1 else np.eye(sigma_yx.shape[1])
    U, s, Vt = np.linalg.svd(sigma_yx)
    V = Vt.T
    s = np.where(s > max(sigma_yx.shape) * _EPS * s[0], s, 0.0)
    rank = int(np.count_nonzero(s))
    W = last @ below
    unit = [M / size if (size := np.linalg.norm(M)) else M for M in (W, first.T @ first, last @ last.T, sigma_xx)]
    for group in equal_groups(s[:rank]):
        if group.stop - group.start > 1:
            u, v = U[:, group], V[:, group]
            R = _common_axes(u.T @ unit[0] @ v, *_three(u, v, unit))
            U[:, group], V[:, group] = u @ R, v @ R
    if rank < max(U.shape[0], V.shape[0]):  # unlearned directions: left and right turn independently
        left, sizes, rightt = np.linalg.svd(U[:, rank:].T @ W @ V[:, rank:])
        U[:, rank:], V[:, rank:] = U[:, rank:] @ left, V[:, rank:] @ rightt.T
        for group in equal_groups(sizes[sizes > 64 * _EPS * np.linalg.norm(W)]):
            if group.stop - group.start > 1:  # these are free to turn together
                same = slice(rank + group.start, rank + group.stop)
                R = _common_axes(*_three(U[:, same], V[:, same], unit))
                U[:, same], V[:, same] = U[:, same] @ R, V[:, same] @ R
    P, Q, x = first @ V, U.T @ last, V.T @ sigma_xx @ V
    A, g1, g2 = Q @ (below @ V), P.T @ P, Q @ Q.T  # in this order small modes keep their digits
    m = len(s)
    a = np.diag(A).copy()
    # outside the task, and without a product beyond rounding: such weights stay as they are, orthogonal or not
    inert = (s == 0) & (np.abs(a) <= 64 * _EPS * np.sqrt(np.diag(g1).max() * np.diag(g2).max()))
    turn = _turn(sigma_yx, U, s, V)
    error = max(
        _coupling(A, np.diag(g2), np.diag(g1), inert, turn, eps),
        _coupling(g1, np.diag(g1), np.diag(g1), inert, turn, eps),
        _coupling(g2, np.diag(g2), np.diag(g2), inert, turn, eps),
        _coupling(x, np.full(len(x), np.abs(x).max()), np.full(len(x), np.abs(x).max()), inert, turn, _EPS),
    )
    d = np.diag(x)[:m].copy()
    seen = 16 * _EPS * np.diag(np.abs(V).T @ np.abs(sigma_xx) @ np.abs(V))[:m]
    d[d <= seen] = 0.0  # inputs that never come, up to rounding, entry by entry
    p2, q2 = np.diag(g1)[:m].copy(), np.diag(g2)[:m].copy()
    for array in (U, V, s, a, d, p2, q2, turn):
        array.flags.writeable = False
    return Alignment(U, V, s, a, d, p2, q2, error, turn)


def _three(u: Float[Array, "out g"], v: Float[Array, "in g"], unit: list[Array]) -> tuple[Array, Array, Array]:
    """Both layers and the inputs, as seen by a group of modes."""
    return v.T @ unit[1] @ v, u.T @ unit[2] @ u, v.T @ unit[3] @ v


def _common_axes(*matrices: Float[Array, "g g"]) -> Float[Array, "g g"]:
    """The rotation that makes all of them diagonal, if one does: that of a generic mixture of them, and of several
    mixtures the best, since one may have eigenvalues too close to tell apart."""
    rotations = []
    for weights in _MIXTURES:
        mixture = np.sum([w * M for w, M in zip(weights, matrices, strict=False)], axis=0)
        R = np.asarray(np.linalg.eigh((mixture + mixture.T) / 2)[1])
        off = [D - np.diag(np.diag(D)) for D in (R.T @ M @ R for M in matrices)]
        rotations.append((float(np.linalg.norm(off)), R))
    return min(rotations, key=lambda found: found[0])[1]


def equal_groups(values: Float[Array, " m"]) -> list[slice]:
    """Runs of equal values in a sorted vector, where equal means up to rounding of the largest."""
    if len(values) == 0:
        return []
    cutoff = 8 * np.sqrt(len(values)) * _EPS * np.abs(values).max()
    edges = [0, *(np.flatnonzero(np.abs(np.diff(values)) > cutoff) + 1), len(values)]
    return [slice(int(i), int(j)) for i, j in itertools.pairwise(edges)]


class Followed(NamedTuple):
    """Modes followed through the layers: their frames before each layer and after the last, and per layer how long each
    is there, with what rounding may have made of it taken for zero."""

    frames: list[Float[Array, "units m"]]
    lengths: Float[Array, "L m"]
    rounding: Float[Array, "L m"]

    def imbalance(self) -> float:
        """Largest relative difference between the layers of one mode, beyond rounding."""
        largest = self.lengths.max(axis=0)
        apart = largest - self.lengths.min(axis=0) - self.rounding.sum(axis=0)
        return float(np.max(np.divide(apart, largest, out=np.zeros_like(largest), where=largest > 0), initial=0.0))


def follow(layers: Sequence[Array], fit: Alignment, eps: float) -> Followed:
    """Each mode through the layers: its share of each is far above rounding, its product may not be."""
    frames, sizes, bounds = [fit.V[:, : len(fit.s)]], [], []
    for i, W in enumerate(layers):
        image = W @ frames[-1]
        length = lengths(image.T)
        rounding = 64 * max(eps, _EPS) * lengths((np.abs(W) @ np.abs(frames[-1])).T)
        if i == 0:  # and what the task's own rounding turns of other modes into this one
            rounding += length @ (fit.turn[: len(length), : len(length)] * (1 - np.eye(len(length))))
        used = length > rounding
        frames.append(np.where(used, image / np.where(used, length, 1.0), 0.0))
        sizes.append(np.where(used, length, 0.0))
        bounds.append(rounding)
    return Followed(frames, np.array(sizes), np.array(bounds))


def lengths(rows: Float[Array, "n k"]) -> Float[Array, " n"]:
    """Euclidean norms of rows, also where their squares would underflow."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    return largest * np.linalg.norm(rows / np.where(largest > 0, largest, 1.0)[:, None], axis=1)


def _turn(
    sigma_yx: Float[Array, "out in"], U: Float[Array, "out out"], s: Float[Array, " m"], V: Float[Array, "in in"]
) -> Float[Array, "d d"]:
    """By which angle rounding may turn two singular vectors of the task into each other; entry by entry, so that a
    basis of zeros and ones is exact. Those of equal singular values are turned by rounding of a rotation alone."""
    d = max(len(U), len(V))
    slack, values = np.zeros((d, d)), np.append(s, np.zeros(d - len(s)))
    left = U.T @ sigma_yx @ V
    np.fill_diagonal(left, np.diag(left) - s)
    slack[: len(U), : len(V)] = np.abs(left) + _EPS * (np.abs(U).T @ np.abs(sigma_yx) @ np.abs(V))
    gap = np.abs(values[:, None] - values)
    largest = float(values[0])
    apart = np.where(gap > 1e-9 * largest, gap, largest)
    return np.divide(16 * np.maximum(slack, slack.T), apart, out=np.zeros_like(gap), where=apart > 0)


def _coupling(
    M: Float[Array, "n n2"],
    left: Float[Array, " n"],
    right: Float[Array, " n2"],
    inert: Array,
    turn: Float[Array, "d d"],
    eps: float,
) -> float:
    """Largest coupling between two modes of which one at least moves, relative to the sizes of the two.

    Relative to the largest mode it would not do: a small mode may grow, and its couplings with it. What rounding in the
    large modes leaves in the small ones, and what rounding of the task turns of them into each other, is taken off.
    """
    rows, columns = (np.append(~inert, np.zeros(n - len(inert), dtype=bool)) for n in M.shape)
    coupled = (rows[:, None] | columns[None, :]) & (np.eye(*M.shape) == 0)
    left, right = np.sqrt(np.abs(left)), np.sqrt(np.abs(right))
    least = 64 * eps * max(left.max(initial=0.0), right.max(initial=0.0))  # what a mode of strength zero looks like
    left, right = np.maximum(left, least), np.maximum(right, least)
    larger = np.maximum(left[:, None], right)
    rounding = least * larger + np.minimum(turn[: len(left), : len(right)], 1e-12) * larger**2
    excess = np.where(coupled, np.maximum(np.abs(M) - rounding, 0.0), 0.0)
    size = left[:, None] * right
    return float(np.max(np.where(excess > 0, excess / np.where(size > 0, size, 1e-300), 0.0), initial=0.0))
