"""The set-up of the two-layer closed form for many initialisations at once: which are sure to be its own, and the row
echelon forms of those (`grading`) in stacked arrays.

Nothing is decided here that a single problem might decide otherwise. What lies near a tolerance (balance, λ, alignment
with the task, a row that rounding could have made, digits lost on the way) is left to `lr.solve`, and so are problems
that other methods solve. Rows that are made of rows above, as half of all square networks have them, are no such case:
they are told apart from rounding by a factor on either side.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.alignment import lengths
from lazyrich.methods.base import DOUBTFUL, FOREVER
from lazyrich.methods.riccati.grading import Graded, Spectrum, doubts, products_rounding, rounding

_EPS, _TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)
_ZERO = 64 * _EPS  # what counts as zero in facts, relative
_CLEAR = 8  # a number is judged here if it is so many times a tolerance, or that part of it
_APART = 1e-6  # modes that are coupled by more are coupled, whatever rounding has done
_LOST = 0.1 * DOUBTFUL  # what rounding may move without a difference to a single solution


class Start(NamedTuple):
    """Initialisations of one shape, in the units of the canonical problem."""

    Q: Float[Array, "B n k"]  # without the hidden directions that no weight uses, where the layer is wide
    back: Float[Array, "B k h"] | None  # to the hidden units, where it is
    lam: Float[Array, " B"]
    sure: Array  # (B,): balanced beyond doubt, with λ = 0 or not beyond doubt


def start(W1: Float[Array, "B h in"], W2: Float[Array, "B out h"]) -> Start:
    """Q = [W1ᵀ; W2] and the λ of D = W2ᵀW2 − W1W1ᵀ, judged as `problem.facts` does."""
    Q, d_in, back = np.concatenate([W1.mT, W2], axis=1), W1.shape[2], None
    if wide := Q.shape[2] > Q.shape[1]:
        basis, R = np.linalg.qr(Q.mT)
        Q, back = R.mT, basis.mT
    A, B = Q[:, :d_in], Q[:, d_in:]
    D = B.mT @ B - A.mT @ A
    size, k = np.sum(Q**2, axis=(1, 2)), D.shape[-1]
    lam = np.zeros(len(Q)) if wide else np.trace(D, axis1=1, axis2=2) / k
    zero = np.abs(lam) <= _ZERO * size
    unclear = ~wide & (np.abs(lam) > _ZERO / _CLEAR * size) & (np.abs(lam) <= _CLEAR * _ZERO * size)
    lam = np.where(zero, 0.0, lam)
    off = np.linalg.norm(D - lam[:, None, None] * np.eye(k), axis=(1, 2))
    return Start(Q, back, lam, (off <= 0.9 * _ZERO * size) & ~unclear & (size > 0))


def coupled(sigma: Float[Array, "b out in"], W1: Float[Array, "B h in"], W2: Float[Array, "B out h"]) -> Array:
    """Which are beyond doubt not aligned with the task (`alignment`), so that modes do not solve them.

    Where all modes are apart, ΣᵀΣ and W1ᵀW1, ΣΣᵀ and W2W2ᵀ have common axes, and so have W1ᵀW1 and W2W2ᵀ as Σ maps
    inputs to outputs: each pair commutes. Which axes are taken for equal singular values makes no difference to that.
    """
    W1, W2 = (W / np.maximum(np.abs(W).max(axis=(1, 2), keepdims=True), _TINY) for W in (W1, W2))
    sigma = sigma / np.maximum(np.abs(sigma).max(axis=(1, 2), keepdims=True), _TINY)
    inputs, outputs = W1.mT @ W1, W2 @ W2.mT
    pairs = ((sigma.mT @ sigma, inputs), (sigma @ sigma.mT, outputs), (sigma.mT @ outputs @ sigma, inputs))
    found = np.zeros(len(W1), dtype=bool)
    for X, Y in pairs:
        apart = np.linalg.norm(X @ Y - Y @ X, axis=(1, 2))
        found |= apart > _APART * np.linalg.norm(X, axis=(1, 2)) * np.linalg.norm(Y, axis=(1, 2))
    return found


def graded_together(
    given: Start, F: Spectrum, target: Float[Array, "b out in"], end: Float[Array, " B"]
) -> Iterator[tuple[Array, Graded]]:
    """The echelon forms, those with the same pivots together: which of the starts they are, and a stack of them.

    Starts that are not among them need more care, for solutions until `end`, a time of the canonical problem.
    """
    Q, P = given.Q, F.from_coordinates(given.Q)
    noise, cutoff = products_rounding(Q, F), rounding(Q, F, target)
    growing = np.broadcast_to(F.w > 0, cutoff.shape)
    found = _echelons(P, growing, cutoff)
    pattern = np.concatenate([found.pivot, found.free, growing], axis=1)
    _, first, kind = np.unique(pattern, axis=0, return_index=True, return_inverse=True)
    for number, example in enumerate(first):
        members = np.flatnonzero((kind.ravel() == number) & found.clear)
        pivots = np.flatnonzero(found.pivot[example])
        if not len(members) or not len(pivots):
            continue
        could = found.free[example] & growing[example]
        L = found.L[:, pivots][..., members].transpose(2, 0, 1)
        rows = found.basis[pivots][..., members].transpose(2, 0, 1)
        graded = Graded(
            F.of(members),
            np.ascontiguousarray(L),
            pivots,
            rows if given.back is None else rows @ given.back[members],
            np.flatnonzero(could & ~found.pivot[example]),
            found.novelty[members][:, could],
            doubts(L[:, pivots], noise[members][:, pivots]),
        )
        of_initialisation, of_task = graded.doubts_until(np.minimum(end[members], FOREVER))
        told = np.zeros(1) if len(graded.missed) else np.asarray(of_task)  # on the separatrix nothing is said of it
        fine = (np.asarray(of_initialisation) <= _LOST) & (told <= 0.99 * DOUBTFUL)
        if fine.all():
            yield members, graded
        elif fine.any():
            some = {name: getattr(graded, name)[fine] for name in ("L", "rows", "novelty", "doubt")}
            yield members[fine], Graded(graded.spectrum.of(fine), pivots=pivots, missed=graded.missed, **some)


class _Echelons(NamedTuple):
    """Columns and directions of L stand where their pivot row is, and are zero at other rows."""

    L: Float[Array, "n n B"]
    basis: Float[Array, "n k B"]
    pivot: Array  # (B, n)
    free: Array  # (B, n): a hidden direction was left when its turn came
    novelty: Float[Array, "B n"]
    clear: Array  # (B,): no row was near a tolerance


def _echelons(P: Float[Array, "B n k"], growing: Array, cutoff: Float[Array, "B n"]) -> _Echelons:
    """Gram–Schmidt with re-orthogonalisation, row by row, for all at once: their axis comes last, next to each other in
    memory."""
    B, n, k = P.shape
    own = lengths(P)
    L, basis, P = np.zeros((n, n, B)), np.zeros((n, k, B)), np.ascontiguousarray(np.moveaxis(P, 0, -1))
    pivot, free, novelty, clear = np.zeros((B, n), bool), np.zeros((B, n), bool), np.zeros((B, n)), np.ones(B, bool)
    for i, row in enumerate(P):
        rest = row.copy()
        for _ in range(2 * (i > 0)):
            overlap = np.einsum("ikb,kb->ib", basis[:i], rest)
            rest -= np.einsum("ib,ikb->kb", overlap, basis[:i])
            L[i, :i] += overlap
        length, left = lengths(rest.T), pivot.sum(axis=1) < k
        bound, short = cutoff[:, i].copy(), growing[:, i] & (length < _APART * own[:, i])
        if short.any():  # rounding of the rows above counts as often as this row is made of them
            parts = _parts(L[:i, :i][..., short], L[i, :i][..., short])
            bound[short] += np.einsum("jb,bj->b", np.abs(parts), cutoff[short, :i])
        surely = length > _CLEAR * bound
        clear &= ~left | ~growing[:, i] | surely | (length <= bound / 2)
        new = left & np.where(growing[:, i], surely, length > _ZERO * own[:, i])
        L[i, i], basis[i] = np.where(new, length, 0.0), np.where(new, rest / np.where(new, length, 1.0), 0.0)
        pivot[:, i], free[:, i], novelty[:, i] = new, left, length
    largest = own.max(axis=1, keepdims=True)
    return _Echelons(L, basis, pivot, free, novelty / np.where(largest > 0, largest, 1.0), clear)


def _parts(L: Float[Array, "i i B"], row: Float[Array, "i B"]) -> Float[Array, "i B"]:
    """How much of each pivot row above a row is made of, by back substitution; none of rows that are no pivots."""
    parts = np.zeros_like(row)
    for j in range(len(row) - 1, -1, -1):
        left = row[j] - np.einsum("lb,lb->b", parts[j + 1 :], L[j + 1 :, j])
        np.divide(left, L[j, j], out=parts[j], where=L[j, j] > 0)
    return parts
