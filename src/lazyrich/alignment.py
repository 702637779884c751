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

from lazyrich._rounding import present
from lazyrich._typing import Array, Float
from lazyrich.networks.network import product

_EPS = float(np.finfo(np.float64).eps)
_GAPS = (1e-2, 1e-5, 1e-9, 64 * _EPS)  # between eigenvalues of matrices of size one
_KNOWN = 1e-12  # an angle that rounding may leave open


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
    s = np.where(present(s, sigma_yx.shape, _EPS), s, 0.0)
    rank = int(np.count_nonzero(s))
    W = last @ below
    seen = _as_seen(layers, W, sigma_xx)
    for group in equal_groups(s[:rank]):
        if group.stop - group.start > 1:
            u, v = U[:, group], V[:, group]
            R = _common_axes(*seen.by(u, v))
            U[:, group], V[:, group] = u @ R, v @ R
    if rank < max(U.shape[0], V.shape[0]):  # unlearned directions: left and right turn independently
        other = product(_without(layers, V[:, :rank], U[:, :rank], eps)) if len(layers) > 2 else W
        left, sizes, rightt = np.linalg.svd(U[:, rank:].T @ other @ V[:, rank:])
        U[:, rank:], V[:, rank:] = U[:, rank:] @ left, V[:, rank:] @ rightt.T
        for group in equal_groups(sizes[sizes > 64 * _EPS * np.linalg.norm(other)]):
            if group.stop - group.start > 1:  # these are free to turn together
                same = slice(rank + group.start, rank + group.stop)
                R = _common_axes(*seen.by(U[:, same], V[:, same]))
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


def _without(layers: Sequence[Array], V: Float[Array, "in r"], U: Float[Array, "out r"], eps: float) -> list[Array]:
    """The layers without the modes v, u, whose rounding would drown a small product of others."""
    frames, _ = _frames(layers, V, U, np.zeros(V.shape[1]), eps)
    rest = list(layers)
    for i, frame in enumerate(frames[1:-1]):
        rest[i] = rest[i] - frame @ (frame.T @ rest[i])
    return rest


class _Seen(NamedTuple):
    """What tells modes of equal singular values apart, each of size one: the function, what the inputs see of the
    layers W_ℓ…W_1 and the outputs of W_L…W_ℓ, and the inputs."""

    function: Float[Array, "out in"]
    from_inputs: list[Float[Array, "in in"]]
    from_outputs: list[Float[Array, "out out"]]
    inputs: Float[Array, "in in"]

    def by(self, u: Float[Array, "out g"], v: Float[Array, "in g"]) -> list[Float[Array, "g g"]]:
        """As a group of modes has it."""
        pairs = zip(self.from_inputs, self.from_outputs, strict=True)
        layers = [seen for below, above in pairs for seen in (v.T @ below @ v, u.T @ above @ u)]
        return [v.T @ self.inputs @ v, *layers, u.T @ self.function @ v]


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
    """The rotation that makes all of them diagonal, if one does. Axes that one matrix tells apart clearly are taken
    from it, and less clear differences count only among axes that nothing tells apart better: the error is rounding
    over gap."""
    R, groups = np.eye(len(matrices[0])), [slice(0, len(matrices[0]))]
    for gap, M in itertools.product(_GAPS, matrices):
        if len(groups) == len(R):
            break
        divided = []
        for group in groups:
            if group.stop - group.start == 1:
                divided.append(group)
                continue
            own = R[:, group].T @ M @ R[:, group]
            if 2 * np.linalg.norm(own - np.eye(len(own)) * np.trace(own) / len(own)) <= gap:  # a multiple of I
                divided.append(group)
                continue
            values, axes = np.linalg.eigh((own + own.T) / 2)
            edges = [0, *(np.flatnonzero(np.diff(values) > gap) + 1), len(values)]
            if len(edges) > 2:
                R[:, group] = R[:, group] @ axes
            divided += [slice(group.start + int(i), group.start + int(j)) for i, j in itertools.pairwise(edges)]
        groups = divided
    return R


def equal_groups(values: Float[Array, " m"]) -> list[slice]:
    """Runs of equal values in a sorted vector, where equal means up to rounding of the largest."""
    if len(values) == 0:
        return []
    cutoff = 8 * np.sqrt(len(values)) * _EPS * np.abs(values).max()
    edges = [0, *(np.flatnonzero(np.abs(np.diff(values)) > cutoff) + 1), len(values)]
    return [slice(int(i), int(j)) for i, j in itertools.pairwise(edges)]


class Followed(NamedTuple):
    """Modes followed through the layers: their frames before each layer and after the last, with a column of zeros
    where a mode is nowhere, and per layer the size of each mode, signed, with what rounding may have made of it taken
    for zero."""

    frames: list[Float[Array, "units m"]]
    sizes: Float[Array, "L m"]
    rounding: Float[Array, "L m"]
    error: float  # sine of the largest angle by which a layer turns a mode towards others, or weights outside all modes

    def imbalance(self, rates: Sequence[float]) -> float:
        """Largest relative difference between the layers of one mode, b²/η being what is equal, beyond rounding."""
        unit = np.sqrt(np.array(rates))[:, None]
        r = np.abs(self.sizes) / unit
        apart = r.max(axis=0) - r.min(axis=0) - (self.rounding / unit).sum(axis=0)
        relative = np.divide(apart, r.max(axis=0), out=np.zeros_like(apart), where=r.max(axis=0) > 0)
        return float(relative.max(initial=0.0))


def follow(layers: Sequence[Array], fit: Alignment, eps: float) -> Followed:
    """The modes of a network in its layers. Each frame comes from the inputs or from the outputs, from where the mode
    is better told from rounding on the way; so a mode that one layer has not is followed from both sides, and one that
    two layers have not, which nothing moves, is nowhere in between. Nor are inert modes followed."""
    m, L = len(fit.s), len(layers)
    turn = np.minimum(lengths(fit.turn)[:m], _KNOWN)
    frames, doubts = _frames(layers, fit.V[:, :m] * ~fit.inert, fit.U[:, :m] * ~fit.inert, turn, eps)
    sizes, bounds, error, eps = np.zeros((L, m)), np.zeros((L, m)), 0.0, 64 * max(eps, _EPS)
    for i, W in enumerate(layers):
        before, after = frames[i], frames[i + 1]
        onto, back = W @ before, W.T @ after
        inside = after.T @ onto
        reach = np.abs(W) @ np.abs(before), np.abs(W).T @ np.abs(after)
        rounding = [eps * lengths(M.T) for M in reach]
        bounds[i] = np.minimum(*(np.where(bound > 0, bound, np.inf) for bound in rounding))
        bounds[i] = np.where(np.isfinite(bounds[i]), bounds[i], 0.0)
        b = sizes[i] = np.where(np.abs(np.diag(inside)) > bounds[i], np.diag(inside), 0.0)
        lost = np.abs(b)[:, None] * doubts[i] + doubts[i + 1][:, None] * np.abs(b)
        np.fill_diagonal(inside, 0.0)
        slack, least = eps * np.abs(after).T @ reach[0] + lost, np.minimum(np.abs(b)[:, None], np.abs(b))
        error = max(error, _sine(inside, slack, least))
        rest = float(np.linalg.norm(W - (after * b) @ before.T))
        for image, frame, bound, doubt in (
            (onto, after, rounding[0], doubts[i]),
            (back, before, rounding[1], doubts[i + 1]),
        ):
            outside = lengths((image - frame @ (frame.T @ image)).T)
            slack = bound + doubt * rest + np.abs(b) * (doubts[i] + doubts[i + 1])
            error = max(error, _sine(outside, slack, np.abs(b)))
    return Followed(frames, sizes, bounds, error)


def _frames(
    layers: Sequence[Array], V: Float[Array, "in m"], U: Float[Array, "out m"], doubt: Float[Array, " m"], eps: float
) -> tuple[list[Float[Array, "units m"]], list[Float[Array, " m"]]]:
    """Directions of the modes before each layer and after the last, from v or from u, and by which angle rounding may
    have turned each, as far as that is to be borne."""
    borne = max(_KNOWN, 64 * eps)
    up = _passed(layers, V, doubt, eps)
    down = _passed([W.T for W in reversed(layers)], U, doubt, eps)[::-1]
    frames, doubts = [V], [doubt]
    for below, above in zip(up[1:-1], down[1:-1], strict=True):
        least = np.minimum(below.doubt, above.doubt)
        frame, _ = _orthonormal(np.where(below.doubt <= above.doubt, below.frame, above.frame), least)
        frames.append(frame * (least < 1))
        doubts.append(np.minimum(least, borne))
    return [*frames, U], [*doubts, doubt]


class _Passed(NamedTuple):
    """Modes on their way through the layers: their directions, and by which angle rounding may have turned each."""

    frame: Float[Array, "units m"]
    doubt: Float[Array, " m"]


def _passed(
    layers: Sequence[Array], frame: Float[Array, "units m"], doubt: Float[Array, " m"], eps: float
) -> list[_Passed]:
    """Layer by layer. Large modes come first, so that their rounding is taken out of the small ones; what remains is
    rounding of the layer, and what the weights outside all modes make of earlier rounding."""
    passed, eps = [_Passed(frame, doubt)], 64 * max(eps, _EPS)
    for W in layers:
        image, rounding = W @ frame, eps * lengths((np.abs(W) @ np.abs(frame)).T)
        rest = float(np.linalg.norm(W - image @ frame.T))
        frame, length = _orthonormal(image, -lengths(image.T))
        turned = doubt * rest + rounding
        doubt = np.minimum(doubt + np.divide(turned, length, out=np.ones_like(length), where=length > turned), 1.0)
        frame = frame * (doubt < 1)
        passed.append(_Passed(frame, doubt))
    return passed


def _orthonormal(
    columns: Float[Array, "n m"], keys: Float[Array, " m"]
) -> tuple[Float[Array, "n m"], Float[Array, " m"]]:
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
    sine = np.divide(excess, np.hypot(excess, size), out=np.zeros_like(excess), where=excess > 0)
    return float(sine.max(initial=0.0))


def lengths(rows: Float[Array, "*batch n k"]) -> Float[Array, "*batch n"]:
    """Euclidean norms of rows, also where their squares would underflow."""
    largest = np.abs(rows).max(axis=-1, initial=0.0)
    return largest * np.linalg.norm(rows / np.where(largest > 0, largest, 1.0)[..., None], axis=-1)


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
