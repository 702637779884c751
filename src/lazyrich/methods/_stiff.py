"""Steps for two linear layers that stability does not limit: the linearly implicit Euler method, extrapolated.

Explicit steps must stay below a few times 1/(fastest rate), long after all that is fast is over. These need not:

    w ← w + (I − τJ)⁻¹ τẇ,      τ = h/2, h/3, h/4, …  over one step h, extrapolated to τ = 0

with J the derivative of the velocity at the beginning of the step. In units w_ℓ = W_ℓ/√η_ℓ, with g = √(η1η2),

    ẇ1 = g w2ᵀE − η1γ w1,   ẇ2 = g E w1ᵀ − η2γ w2,   E = Σyx − g w2w1 Σxx,   J x = M x − g² Lᵀ(L x Σxx)

where L x = x2 w1 + w2 x1 is what weights that move by x do to the function, and M, all that is linear in x, takes each
hidden unit by itself. So B = I − τM is a matrix of inputs and outputs with an inverse of blocks, and what is left to
solve is as large as the function: with Σxx = CCᵀ and Z = L x C

    Z + τg² L B⁻¹Lᵀ(Z Cᵀ) C = L B⁻¹r C,      x = B⁻¹(r − τg² Lᵀ(Z Cᵀ))

by Cholesky's method where it is small, and by conjugate gradients elsewhere, with E = 0 in B as the preconditioner.
Whatever the error of Z is, x is some matrix times the weights: a rank that the flow keeps is kept, and hidden
directions of 1e-8 have errors of their own size, as under Runge–Kutta steps.

A step is only taken where I − τJ is positive definite: nothing grows faster than 1/τ then. A longer one would damp
what should grow, and never leave a saddle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dgetrf, dgetrs, dpotrf, dpotrs

from lazyrich._typing import Array, Float

_PARTS = (2, 3, 4, 5, 6, 7, 8, 9, 10)  # Euler steps in a step, row after row of the extrapolation
_AIM = 6  # the row that a step should be accurate in
_DENSE = 200  # unknowns that are solved for by factors
_INDEFINITE = 600  # unknowns whose eigenvalues are counted
_NEAR = 1e-3  # of a unit: where B has no inverse to speak of
_SOLVED = 1e-13
_MOST = 500  # conjugate gradients
_GROWTH = 8.0  # of a step, at most
_HUNDRED = 100.0
_EPS = 8 * float(np.finfo(np.float64).eps)


def _norm(M: Float[Array, "n m"]) -> float:
    """The largest singular value, from products with the smaller side: a tenth of the time that the others take."""
    size = float(np.abs(M).max(initial=0.0))
    if not (0 < size < np.inf):
        return size
    M = (M if len(M) <= M.shape[1] else M.T) / size
    return size * float(np.sqrt(np.linalg.eigvalsh(M @ M.T)[-1]))


class Layers(NamedTuple):
    """Both, in units of their rates: weights, velocities or what is between."""

    first: Float[Array, "h in"]
    second: Float[Array, "out h"]

    def moved(self, by: Layers) -> Layers:
        return Layers(self.first + by.first, self.second + by.second)


@dataclass(frozen=True)
class Terms:
    """Of the flow: Σyx = S, Σxx = CCᵀ, layer rates, weight decay, and whether the last unit is the constant 1."""

    S: Float[Array, "out in"]
    C: Float[Array, "in r"]
    rates: tuple[float, float]
    gamma: float
    constant: bool

    @property
    def gain(self) -> float:
        return float(np.sqrt(self.rates[0] * self.rates[1]))

    @cached_property
    def of_inputs(self) -> float:
        """‖C‖."""
        return _norm(self.C)

    def missing(self, w: Layers) -> Float[Array, "out in"]:
        """E."""
        return self.S - self.gain * (w.second @ (w.first @ self.C)) @ self.C.T

    def velocity(self, w: Layers) -> Layers:
        E = self.gain * self.missing(w)
        first, second = w.second.T @ E, E @ w.first.T
        if self.gamma:
            first = first - self.rates[0] * self.gamma * w.first
            second = second - self.rates[1] * self.gamma * w.second
        if self.constant:
            first[-1] = 0.0
        return Layers(first, second)

    def fastest(self, w: Layers) -> float:
        """A bound on the size of J, and hardly more than that."""
        first, second = _norm(w.first @ self.C), self.of_inputs * _norm(w.second)
        decay = self.gamma * max(self.rates)
        return self.gain**2 * (first**2 + second**2) + self.gain * _norm(self.missing(w)) + decay

    def rounding(self, w: Layers) -> float:
        """Of the velocity."""
        first, second = _norm(w.first @ self.C), _norm(w.second)
        most = self.gain * (_norm(self.S) + self.gain * second * first * self.of_inputs)
        return _EPS * (most + self.gamma * max(self.rates)) * max(_norm(w.first), second)


class Implicit:
    """I − τJ at some weights, and its inverse."""

    def __init__(self, terms: Terms, w: Layers, tau: float) -> None:
        self.terms, self.w, self.tau = terms, w, tau
        self.alpha, self.beta = (1 + tau * eta * terms.gamma for eta in terms.rates)
        self.E = tau * terms.gain * terms.missing(w)
        values, U = np.linalg.eigh(self.E @ self.E.T)
        left = self.beta - values / self.alpha
        self.negative = int(np.count_nonzero(left < 0))
        self.singular = bool(np.abs(left).min(initial=1.0) < _NEAR)
        self.c = (U / np.where(left == 0, 1.0, left)) @ U.T
        self.weight = tau * terms.gain**2

    @cached_property
    def definite(self) -> bool:
        """Whether nothing grows as fast as 1/τ."""
        if self.singular:
            return False
        if not self.negative:
            return True
        units = len(self.w.first) - self.terms.constant
        size = len(self.E) * self.terms.C.shape[1]
        # inertia of a Schur complement: what is negative of B⊗I is so in the smaller matrix, or in I − τJ
        return size <= _INDEFINITE and int(np.count_nonzero(np.linalg.eigvalsh(self._matrix) < 0)) == (
            units * self.negative
        )

    def solve(self, r: Layers) -> Layers:
        """(I − τJ)⁻¹ r."""
        C = self.terms.C
        Z = self._function(self._effect(self._inner(r)) @ C)
        back = self._weights(Z @ C.T)
        return self._inner(Layers(r.first - self.weight * back.first, r.second - self.weight * back.second))

    def _inner(self, r: Layers) -> Layers:
        """B⁻¹ r."""
        second = self.c @ (r.second + self.E @ r.first.T / self.alpha)
        first = (r.first + second.T @ self.E) / self.alpha
        if self.terms.constant:
            second[:, -1] = r.second[:, -1] / self.beta
            first[-1] = 0.0
        return Layers(first, second)

    def _effect(self, x: Layers) -> Float[Array, "out in"]:
        """L x."""
        return x.second @ self.w.first + self.w.second @ x.first

    def _weights(self, Y: Float[Array, "out in"]) -> Layers:
        """Lᵀ Y."""
        first = self.w.second.T @ Y
        if self.terms.constant:
            first[-1] = 0.0
        return Layers(first, Y @ self.w.first.T)

    def _function(self, right: Float[Array, "out r"]) -> Float[Array, "out r"]:
        """Z."""
        if right.size > _DENSE and not self.negative:
            return self._by_gradients(right)
        factor, pivots = self._factors
        column = right.reshape(-1, 1)
        solution, _ = dpotrs(factor, column, lower=1) if pivots is None else dgetrs(factor, pivots, column)
        return np.asarray(solution).reshape(right.shape)

    @cached_property
    def _factors(self) -> tuple[Array, Array | None]:
        """By Cholesky's method, and with pivots where B is not positive definite."""
        factor, failed = dpotrf(self._matrix, lower=1)
        if not failed:
            return factor, None
        factor, pivots, _ = dgetrf(self._matrix)
        return factor, pivots

    @cached_property
    def _matrix(self) -> Float[Array, "m m"]:
        """Of Z ↦ Z + τg² L B⁻¹Lᵀ(Z Cᵀ) C."""
        C, free = self.terms.C, slice(None, -1 if self.terms.constant else None)
        first, second = self.w.first[free] @ C, self.w.second[:, free]
        b = self.c @ self.E / self.alpha
        a = (C.T @ C + (self.E @ C).T @ (b @ C)) / self.alpha
        A, b, P, R = second @ first, b @ C, first.T @ first, second @ second.T
        m = R.shape[0] * P.shape[0]
        whole = np.einsum("ik,jl->ijkl", self.c, P) + np.einsum("ik,jl->ijkl", R, a)
        whole += np.einsum("il,kj->ijkl", A, b) + np.einsum("il,kj->ijkl", b, A)
        if self.terms.constant:
            row = self.w.first[-1] @ C
            whole += np.einsum("ik,j,l->ijkl", np.eye(len(R)) / self.beta, row, row)
        return np.eye(m) + self.weight * whole.reshape(m, m)

    def _by_gradients(self, right: Float[Array, "out r"]) -> Float[Array, "out r"]:
        C, Z, left = self.terms.C, np.zeros_like(right), right.copy()
        ready = self._prepared(left)
        direction, size = ready, float(np.vdot(left, ready))
        enough = _SOLVED**2 * size
        for _ in range(_MOST):
            if not size > enough:
                break
            image = direction + self.weight * self._effect(self._inner(self._weights(direction @ C.T))) @ C
            by = size / float(np.vdot(direction, image))
            Z += by * direction
            left -= by * image
            ready = self._prepared(left)
            before, size = size, float(np.vdot(left, ready))
            direction = ready + size / before * direction
        return Z

    def _prepared(self, Z: Float[Array, "out r"]) -> Float[Array, "out r"]:
        """The solution if E were 0, row by row in the eigenvectors of W2W2ᵀ."""
        U, D, F, K = self._preconditioner
        Z = (U.T @ Z) / D
        return U @ (Z - (K @ (F @ Z[:, :, None]))[:, :, 0] @ F / D)

    @cached_property
    def _preconditioner(self) -> tuple[Array, Array, Array, Array]:
        F = self.w.first @ self.terms.C
        rho, U = np.linalg.eigh(self.w.second @ self.w.second.T)
        D = 1 + self.weight / self.alpha * np.outer(np.maximum(rho, 0.0), np.sum(self.terms.C**2, axis=0))
        K = np.linalg.inv(self.beta / self.weight * np.eye(len(F)) + (F / D[:, None]) @ F.T)
        return U, D, F, K


class Stiff:
    """One step after the other from some weights on, with the errors that are granted to each entry."""

    def __init__(
        self, terms: Terms, w: Layers, time: float, step: float, rtol: float, atol: tuple[float, float]
    ) -> None:
        self.terms, self.w, self.time, self.h, self.rtol, self.atol = terms, w, time, step, rtol, atol
        self.before = time, w

    def step(self) -> bool:
        """Goes on by one; False where no step is short enough."""
        at_rest = self._at_rest()
        while self.time + self.h > self.time:
            rows = [] if at_rest else list(self._rows(self.w, self.h))
            if at_rest or (rows and rows[-1].error <= 1):
                self.before = self.time, self.w
                self.time, self.w = self.time + self.h, self.w if at_rest else rows[-1].w
                self.h *= _GROWTH if at_rest else self._factor(rows)
                return True
            self.h *= min(self._factor(rows), 0.5) if rows else 0.3
        return False

    def _at_rest(self) -> bool:
        """Whether what moves is rounding, which no step should gather, and nothing grows within a hundred of them."""
        v, noise = self.terms.velocity(self.w), self.terms.rounding(self.w)
        still = max(float(np.abs(part).max(initial=0.0)) for part in v) <= noise
        return still and Implicit(self.terms, self.w, _HUNDRED * self.h).definite

    def within(self, time: float) -> Layers:
        """At a time in the last step: a shorter one from its beginning."""
        begin, w = self.before
        if w is self.w or time <= begin:
            return w
        rows = list(self._rows(w, time - begin))
        return rows[-1].w if rows else self.w

    def _factor(self, rows: list[_Row]) -> float:
        """What the step would have to be multiplied by to be accurate in the row that is aimed at."""
        last = rows[-1]
        if not np.isfinite(last.error):
            return 0.1
        k = last.number
        factor = 0.8 * max(last.error, 1e-12) ** (-1 / (k + 1))
        if k < _AIM:
            factor *= 1.3 ** (_AIM - k)
        return float(np.clip(factor, 0.1, _GROWTH))

    def _rows(self, w: Layers, h: float) -> Iterator[_Row]:
        """Row after row of the extrapolation until one is accurate; none where something would grow too fast."""
        table: list[Layers] = []
        velocity = self.terms.velocity(w)
        for number, parts in enumerate(_PARTS):
            tau = h / parts
            matrix = Implicit(self.terms, w, tau)
            if not matrix.definite:
                return
            z, v = w, velocity
            for i in range(parts):
                v = self.terms.velocity(z) if i else velocity
                z = z.moved(matrix.solve(Layers(tau * v.first, tau * v.second)))
            new = [z]
            for k, old in enumerate(table):
                share = 1 / (parts / _PARTS[number - k - 1] - 1)
                new.append(_beyond(new[-1], old, share))
            if table:
                error = self._error(new[-1], new[-2], w)
                yield _Row(number, new[-1], error)
                if error <= 1 or not np.isfinite(error):
                    return
            table = new

    def _error(self, new: Layers, other: Layers, w: Layers) -> float:
        parts = zip(new, other, w, self.atol, strict=True)
        shares = [(a - b) / (atol + self.rtol * np.maximum(np.abs(a), np.abs(start))) for a, b, start, atol in parts]
        return float(np.sqrt(sum(np.sum(s**2) for s in shares) / sum(s.size for s in shares)))


class _Row(NamedTuple):
    number: int
    w: Layers
    error: float  # over what is granted


def _beyond(new: Layers, old: Layers, share: float) -> Layers:
    return Layers(new.first + share * (new.first - old.first), new.second + share * (new.second - old.second))
