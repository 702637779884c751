"""The same evaluation for stacks of small problems in NumPy: many initialisations, each at many times.

It follows `evaluation` line by line, with these savings. Points (a start at a time) are the last axis of all arrays, so
that NumPy's loops are long where matrices are small, and some points at a time stay in the cache. Exponentials are
shared where starts have w and times in common. A = RRᵀ by Cholesky and Z = Y R^{−T} are one elimination, without
LAPACK, whose calls cost more than their work at this size. W2W1 and the loss are made in the mode basis.

Blocks of points depend on the shapes alone, not on the number of cores, and so do the bits of the results.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from lazyrich._threads import spread
from lazyrich._typing import Array, Float
from lazyrich.methods.riccati.evaluation import CEILING, FLOOR, TINY
from lazyrich.methods.riccati.grading import Graded

_POINTS = 2**14  # times columns, of one block: fewer would let threads wait for the interpreter, more leave the cache
_HEAVY = 2**13  # points that pay for threads


class Results(NamedTuple):
    """Arrays to fill, of the whole ensemble, each where it is wanted: first axis starts, second times."""

    function: Float[Array, "B T out in"] | None = None
    gram: Float[Array, "B T n n"] | None = None
    squared_errors: Float[Array, "B T"] | None = None  # ‖W − T‖² in the units of the canonical problem


@dataclass(frozen=True)
class _Block:
    """Some starts of a stack, at some times."""

    stack: Stack
    starts: slice
    times: slice


class Stack:
    """A stack of graded initialisations with common pivots, at times of the canonical problem."""

    def __init__(self, graded: Graded, members: Array, scale: Float[Array, " n"], times: Float[Array, "b T"]) -> None:
        """`members` says which of the ensemble they are; `scale` multiplies the rows of Q; all share the times where
        these have one row."""
        F, piv = graded.spectrum, graded.pivots
        self.F, self.pivots, self.members, self.scale, self.times = F, piv, members, scale, times
        l = graded.pivot_lengths
        self.ratio, self.log_l = _last(graded.L / l[:, None]), _last(np.log(l))
        self.exponent, self.w = _last(F.rate_differences(piv)), _last(F.w)
        self.a, self.b, self.s = _last(F.a), _last(F.b), _last(F.s)

    def some(self, places: Array, members: Array, times: Float[Array, "b T"]) -> Stack:
        """Some of its starts, under other numbers, at times of their own."""
        other, own = copy(self), partial(_picked, places)
        other.members, other.times = members, times
        other.F = self.F.of(places)
        for name in ("ratio", "log_l", "exponent", "w", "a", "b", "s"):
            setattr(other, name, own(getattr(self, name)))
        return other

    def blocks(self) -> list[_Block]:
        """Starts and times in pieces of at most so many points."""
        count, T = len(self.members), self.times.shape[1]
        most = max(1, _POINTS // len(self.pivots))
        several = max(1, most // T)
        starts = [slice(i, min(i + several, count)) for i in range(0, count, several)]
        return [_Block(self, some, slice(i, min(i + most, T))) for some in starts for i in range(0, T, most)]

    def fill(self, block: _Block, results: Results) -> None:
        """One block of all that is wanted."""
        some, at = _own(block.starts), block.times
        t = some(self.times.T).T[:, at]
        shape = (block.starts.stop - block.starts.start, t.shape[1])
        members, d_in = self.members[block.starts], self.F.V.shape[-1]
        Z = self._factor(some, t)
        V, U = (X if len(X) == 1 else X[block.starts] for X in (self.F.V, self.F.U))
        if results.gram is not None:
            Q = _first(Z, shape)
            Q = np.concatenate([V[:, None] @ Q[..., :d_in, :], U[:, None] @ Q[..., d_in:, :]], axis=-2)
            Q *= self.scale[:, None]
            results.gram[members, at] = Q @ Q.mT
        if results.function is None and results.squared_errors is None:
            return
        W = np.einsum("okp,ikp->oip", Z[d_in:], Z[:d_in])
        if results.function is not None:
            function = _turned(W, U, V, shape)
            function *= self.scale[0] * self.scale[-1]
            results.function[members, at] = function
        if results.squared_errors is not None:
            diagonal, error = np.arange(len(self.s)), W.reshape(*W.shape[:2], *shape)
            error[diagonal, diagonal] -= some(self.s)[..., None]
            results.squared_errors[members, at] = np.einsum("oibt,oibt->bt", error, error)

    def _factor(self, some: _own, t: Float[Array, "b T"]) -> Float[Array, "n k P"]:
        """Z = Y R^{−T} in the basis of the modes: rows v_α, then rows u_α.

        Columns are not scaled by μ_j as in `evaluation`: Cholesky does not ask for it, and what is as large as e^690
        has a square root.
        """
        w, ratio, piv = some(self.w)[..., None], some(self.ratio)[..., None], self.pivots
        n, k, rest = len(w), len(piv), w == 0
        x = -2 * (np.maximum(w[piv], 0.0) * t + some(self.log_l)[..., None])
        x = np.exp(np.minimum(x, CEILING, out=x), out=x)
        g = np.where(rest, t, -np.expm1(-2 * np.abs(w) * t) / np.where(rest, 1.0, 2 * np.abs(w)))
        growth = _exp(some(self.exponent)[..., None] * t)
        X = (ratio * (np.sqrt(g)[:, None] * growth)).reshape(n, k, -1)
        growth *= _exp(np.minimum(w, 0.0) * t)[:, None]
        M = np.empty((k + n, k, *x.shape[1:]))  # A, and Y below it
        self._to_modes(some, ratio, growth, M[k:])
        M, x = M.reshape(k + n, k, -1), x.reshape(k, -1)
        for j, first in enumerate(piv):
            np.einsum("ip,ilp->lp", X[first:, j], X[first:, j:], out=M[j:k, j])
            M[j, j] += x[j]
        for j in range(k):
            column = M[j:, j]
            if j:
                column -= np.einsum("rlp,lp->rp", M[j:, :j], M[j, :j])
            column *= 1 / np.sqrt(column[0])
        return M[k:]

    def _to_modes(self, some: _own, ratio: Array, growth: Array, Y: Float[Array, "n k b T"]) -> None:
        """Y = ratio · growth, from eigenvectors of F to v_α (inputs) and u_α (outputs) as `Spectrum.to_modes` does."""
        n, m, d_in = len(Y), len(self.s), self.F.V.shape[-1]
        a, b = (some(x)[:, None, :, None] for x in (self.a, self.b))
        minus = slice(n - 1, n - m - 1 if m < n else None, -1)
        for rows, along, across in ((Y[:m], a, b), (Y[d_in : d_in + m], b, -a)):
            np.multiply(ratio[:m], along * growth[:m], out=rows)
            rows += ratio[minus] * (across * growth[minus])
        for rows, alone in zip((Y[m:d_in], Y[d_in + m :]), self.F.unpaired(), strict=True):
            np.multiply(ratio[alone], growth[alone], out=rows)


@dataclass(frozen=True)
class _own:
    """Picks some starts along the last axis, and leaves what all of them share."""

    starts: slice

    def __call__(self, X: Array) -> Array:
        return X if X.shape[-1] == 1 else X[..., self.starts]


def evaluate(stacks: list[Stack], results: Results) -> None:
    """Fills the results for all stacks, on all cores where there is enough to do."""
    blocks = [block for stack in stacks for block in stack.blocks()]
    points = sum(len(stack.members) * stack.times.shape[1] for stack in stacks)
    spread(lambda block: block.stack.fill(block, results), blocks, heavy=points >= _HEAVY)


def _picked(places: Array, X: Array) -> Array:
    """Some starts along the last axis; what all of them share stays."""
    return X if X.shape[-1] == 1 else X[..., places]


def _turned(
    W: Float[Array, "out in P"], U: Float[Array, "b out out"], V: Float[Array, "b in in"], shape: tuple[int, int]
) -> Float[Array, "starts T out in"]:
    """UWVᵀ, points first; with one U and V for all starts in large products."""
    if len(U) > 1:
        return U[:, None] @ _first(W, shape) @ V[:, None].mT
    d_out, d_in, P = W.shape
    return _first((U[0] @ np.matmul(V[0], W).reshape(d_out, d_in * P)).reshape(W.shape), shape)


def _first(X: Float[Array, "r c P"], shape: tuple[int, int]) -> Float[Array, "starts T r c"]:
    """Starts and times as the first axes, each matrix together in memory."""
    r, c, P = X.shape
    return np.ascontiguousarray(X.reshape(r * c, P).T).reshape(*shape, r, c)


def _exp(x: Array) -> Array:
    """As `Evaluation._exp`, in place."""
    np.maximum(x, FLOOR, out=x)
    np.exp(x, out=x)
    x -= TINY
    return x


def _last(X: Array) -> Array:
    """Starts as the last axis, next to each other in memory."""
    return np.ascontiguousarray(np.moveaxis(X, 0, -1))
