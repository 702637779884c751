"""Do initialisation and task share their singular vectors? Then the modes evolve alone.

Two layers, in the basis Σyx = U diag(s) Vᵀ, with p_α = W1 v_α and q_α = W2ᵀ u_α: if all p are orthogonal,
all q are orthogonal, and q_α ⟂ p_β for α ≠ β, then this stays so, and each a_α = q_α·p_α follows an
equation of its own. Inputs may be correlated as long as Σxx has the same v_α. Where singular values
coincide, U and V are free up to a rotation, and the one that fits the initialisation is chosen.

More layers (`follow`): every layer must take each mode as one direction f and hand it on as one, W_ℓ f = b_ℓ f' and
W_ℓᵀ f' = b_ℓ f, with f = v before the first layer and u after the last. The sizes b_ℓ may be any, also zero.
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
_MIXTURES = 3


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
    error: float  # largest coupling between different modes, relative; of deeper networks, at their ends
    inert: Array  # which are outside the task and have no product: nothing moves them
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
    seen = _as_seen(layers, W, sigma_xx)
    for group in equal_groups(s[:rank]):
        if group.stop - group.start > 1:
            u, v = U[:, group], V[:, group]
            R = _common_axes(*seen.by(u, v))
            U[:, group], V[:, group] = u @ R, v @ R
    if rank < max(U.shape[0], V.shape[0]):  # unlearned directions: left and right turn independently
        left, sizes, rightt = np.linalg.svd(U[:, rank:].T @ W @ V[:, rank:])
        U[:, rank:], V[:, rank:] = U[:, rank:] @ left, V[:, rank:] @ rightt.T
        for group in equal_groups(sizes[sizes > 64 * _EPS * np.linalg.norm(W)]):
            if group.stop - group.start > 1:  # these are free to turn together
                same = slice(rank + group.start, rank + group.stop)
                R = _common_axes(*seen.by(U[:, same], V[:, same])[1:])
                U[:, same], V[:, same] = U[:, same] @ R, V[:, same] @ R
    P, Q, x = first @ V, U.T @ last, V.T @ sigma_xx @ V
    A, g1, g2 = Q @ (below @ V), P.T @ P, Q @ Q.T  # in this order small modes keep their digits
    m = len(s)
    a = np.diag(A).copy()
    # outside the task, and without a product beyond rounding: such weights stay as they are, orthogonal or not
    between = float(np.prod([np.linalg.norm(W) for W in layers[1:-1]]))
    inert = (s == 0) & (np.abs(a) <= 64 * _EPS * between * np.sqrt(np.diag(g1).max() * np.diag(g2).max()))
    turn = _turn(sigma_yx, U, s, V)
    error = max(
        _coupling(A, np.diag(g2), np.diag(g1), inert, turn, eps) if len(layers) < 3 else 0.0,
        _coupling(g1, np.diag(g1), np.diag(g1), inert, turn, eps),
        _coupling(g2, np.diag(g2), np.diag(g2), inert, turn, eps),
        _coupling(x, np.full(len(x), np.abs(x).max()), np.full(len(x), np.abs(x).max()), inert, turn, _EPS),
    )
    d = np.diag(x)[:m].copy()
    rounding = 16 * _EPS * np.diag(np.abs(V).T @ np.abs(sigma_xx) @ np.abs(V))[:m]
    d[d <= rounding] = 0.0  # inputs that never come, up to rounding, entry by entry
    p2, q2 = np.diag(g1)[:m].copy(), np.diag(g2)[:m].copy()
    for array in (U, V, s, a, d, p2, q2, inert, turn):
        array.flags.writeable = False
    return Alignment(U, V, s, a, d, p2, q2, error, inert, turn)


class _Seen(NamedTuple):
    """What tells modes of equal singular values apart, each of size one: the function, what the inputs see of the layers
    W_ℓ…W_1 and the outputs of W_L…W_ℓ, and the inputs."""

    function: Float[Array, "out in"]
    from_inputs: list[Float[Array, "in in"]]
    from_outputs: list[Float[Array, "out out"]]
    inputs: Float[Array, "in in"]

    def by(self, u: Float[Array, "out g"], v: Float[Array, "in g"]) -> list[Float[Array, "g g"]]:
        """As a group of modes has it."""
        ends = [v.T @ M @ v for M in self.from_inputs] + [u.T @ M @ u for M in self.from_outputs]
        return [u.T @ self.function @ v, *ends, v.T @ self.inputs @ v]


def _as_seen(layers: Sequence[Array], W: Array, sigma_xx: Array) -> _Seen:
    below, above = _unit(layers[0]), _unit(layers[-1].T)
    from_inputs, from_outputs = [_unit(below.T @ below)], [_unit(above.T @ above)]
    for up, down in zip(layers[1:-1], layers[-2:0:-1], strict=True):
        below, above = _unit(up @ below), _unit(down.T @ above)
        from_inputs.append(_unit(below.T @ below))
        from_outputs.append(_unit(above.T @ above))
    return _Seen(_unit(W), from_inputs, from_outputs, _unit(sigma_xx))


def _unit(M: Array) -> Array:
    size = np.linalg.norm(M)
    return M / size if size else M


def _common_axes(*matrices: Float[Array, "g g"]) -> Float[Array, "g g"]:
    """The rotation that makes all of them diagonal, if one does: that of a generic mixture of them, and of several
    mixtures the best, since one may have eigenvalues too close to tell apart."""
    rotations = []
    for i in range(_MIXTURES):
        weights = np.cos((2 * i + 1.618) * np.arange(len(matrices)))
        mixture = np.tensordot(weights, np.array(matrices), axes=1)
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
    """Modes followed through the layers: their frames before each layer and after the last, with a column of zeros where
    a mode is nowhere, and per layer the size of each mode, signed, with what rounding may have made of it taken for zero."""

    frames: list[Float[Array, "units m"]]
    sizes: Float[Array, "L m"]
    rounding: Float[Array, "L m"]
    error: float  # sine of the largest angle by which a layer turns a mode towards others, or weights outside all modes

    def imbalance(self, rates: Sequence[float]) -> float:
        """Largest relative difference between the layers of one mode, b²/η being what is equal, beyond rounding."""
        unit = np.sqrt(np.array(rates))[:, None]
        r = np.abs(self.sizes) / unit
        apart = r.max(axis=0) - r.min(axis=0) - (self.rounding / unit).sum(axis=0)
        return float(np.max(np.divide(apart, r.max(axis=0), out=np.zeros_like(apart), where=r.max(axis=0) > 0), initial=0.0))


def follow(layers: Sequence[Array], fit: Alignment, eps: float) -> Followed:
    """The modes of a network in its layers. Each frame comes from the inputs or from the outputs, from where the mode is
    better told from rounding on the way; so a mode that one layer has not is followed from both sides, and one that two
    layers have not, which nothing moves, is nowhere in between. Nor are inert modes followed."""
    moving, eps = ~fit.inert, 64 * max(eps, _EPS)
    m, L = len(fit.s), len(layers)
    up = _passed(layers, fit.V[:, :m] * moving, eps)
    down = _passed([W.T for W in reversed(layers)], fit.U[:, :m] * moving, eps)[::-1]
    frames = [up[0].frame]
    for (below, told_below), (above, told_above) in zip(up[1:-1], down[1:-1], strict=True):
        chosen = np.where(told_below >= told_above, below, above)
        told = np.maximum(told_below, told_above)
        frames.append(_orthonormal(chosen, -told)[0] * (told > 1))
    frames.append(down[-1].frame)
    sizes, bounds, error = np.zeros((L, m)), np.zeros((L, m)), 0.0
    for i, W in enumerate(layers):
        before, after = frames[i], frames[i + 1]
        onto, back = W @ before, W.T @ after
        inside = after.T @ onto
        reach = np.abs(W) @ np.abs(before), np.abs(W).T @ np.abs(after)
        bounds[i] = eps * np.minimum(*(np.where(np.any(M, axis=0), lengths(M.T), np.inf) for M in reach))
        bounds[i] = np.where(np.isfinite(bounds[i]), bounds[i], 0.0)
        sizes[i] = np.where(np.abs(np.diag(inside)) > bounds[i], np.diag(inside), 0.0)
        turned = _turned(fit, W, sizes[i], first=i == 0) if i in (0, L - 1) else np.zeros((m, m))
        slack = eps * np.abs(after).T @ reach[0] + turned[:, :m]
        least = np.minimum(np.abs(sizes[i])[:, None], np.abs(sizes[i]))
        np.fill_diagonal(inside, 0.0)
        error = max(error, _sine(inside, slack, least))
        for image, frame, reached in ((onto, after, reach[0]), (back, before, reach[1])):
            outside = lengths((image - frame @ (frame.T @ image)).T)
            error = max(error, _sine(outside, eps * lengths(reached.T) + lengths(turned), np.abs(sizes[i])))
    return Followed(frames, sizes, bounds, error)


def _turned(fit: Alignment, W: Array, sizes: Float[Array, " m"], *, first: bool) -> Float[Array, "m d"]:
    """What rounding of the task's singular vectors turns of other directions into each mode, in a layer at the end."""
    all_sizes = lengths((W @ fit.V).T) if first else lengths(fit.U.T @ W)
    turn = np.minimum(fit.turn[: len(sizes), : len(all_sizes)], 1e-12)
    return turn * np.maximum(np.abs(sizes)[:, None], all_sizes)


class _Passed(NamedTuple):
    """Modes on their way through the layers: their directions, and how far each has been above rounding all the way."""

    frame: Float[Array, "units m"]
    told: Float[Array, " m"]


def _passed(layers: Sequence[Array], frame: Float[Array, "units m"], eps: float) -> list[_Passed]:
    """Layer by layer. Large modes come first, so that their rounding is taken out of the small ones."""
    told = np.where(np.any(frame, axis=0), np.inf, 0.0)
    passed = [_Passed(frame, told)]
    for W in layers:
        image, rounding = W @ frame, eps * lengths((np.abs(W) @ np.abs(frame)).T)
        frame, length = _orthonormal(image, -lengths(image.T))
        told = np.minimum(told, np.divide(length, rounding, out=np.zeros_like(length), where=rounding > 0))
        frame = frame * (told > 1)
        passed.append(_Passed(frame, told))
    return passed


def _orthonormal(columns: Float[Array, "n m"], keys: Float[Array, " m"]) -> tuple[Float[Array, "n m"], Float[Array, " m"]]:
    """Each column without those of smaller key, as a direction and a length; those that have no room are zero."""
    order = np.argsort(keys, kind="stable")
    Q, R = np.linalg.qr(columns[:, order])
    k, frame, length = Q.shape[1], np.zeros_like(columns), np.zeros(columns.shape[1])
    diagonal = np.diag(R)
    frame[:, order[:k]], length[order[:k]] = Q * np.where(diagonal < 0, -1.0, 1.0), np.abs(diagonal)
    return frame, length


def _sine(stray: Array, slack: Array, size: Array) -> float:
    """The largest angle of what strays beyond rounding from modes of these sizes."""
    excess = np.maximum(np.abs(stray) - slack, 0.0)
    return float(np.max(np.divide(excess, np.hypot(excess, size), out=np.zeros_like(excess), where=excess > 0), initial=0.0))


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
