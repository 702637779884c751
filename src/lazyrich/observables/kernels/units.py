"""The kernel of two piecewise linear layers by pairs of units: sums over outputs are done before any over samples.

With c = σ'(W1Xᵀ), S = ΦᵀΦ of Φ = σ(W1Xᵀ), G = XXᵀ (samples × samples), and W2 and Φ holding the roots of the rates,

    K^{op} = Σ_k W2_ok W2_pk E_k + δ_op S,     E_k = G ∘ c_k c_kᵀ,

so that ⟨K, K'⟩ needs one number per pair of units, whatever the number of outputs:

    ⟨K, K'⟩ = Σ_kl (W2ᵀW2')_kl² ⟨E_k, E'_l⟩ + Σ_k |W2_k|² ⟨E_k, S'⟩ + Σ_k |W2'_k|² ⟨E'_k, S⟩ + d_out ⟨S, S'⟩.

Differences are taken of the factors, and keep their digits. Of E_k only samples count which the unit passes on in one
of the networks and not in the other: with f = c_k − c'_k and s = c_k + c'_k,  F_k = E_k − E'_k = G ∘ (f sᵀ + s fᵀ)/2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.observables.kernels.algebra import Comparison, Inputs

_BLOCK = 2**17  # entries of a block of rows: they stay in the cache
_NEAR = 0.1  # of two numbers: where their difference is less, it is not taken from them, and has lost a digit at most


@dataclass(frozen=True, eq=False)
class Units:
    """The factors of one kernel; the last rows of `phi` may be of units that have no c, such as that of biases."""

    inputs: Inputs
    c: Float[Array, "h n"]
    phi: Float[Array, "_ n"]
    W2: Float[Array, "out h"]

    @cached_property
    def overlaps(self) -> Float[Array, "h h"]:
        """⟨E_k, E_l⟩."""
        table = np.empty((len(self.c), len(self.c)))
        for k, gate in enumerate(self.c):
            both = gate * self.c[k:]
            table[k, k:] = table[k:, k] = np.vecdot(both @ self.inputs.squared, both)
        return table

    def _overlaps_of(self, k: int) -> Float[Array, " h"]:
        """⟨E_k, E_l⟩ of one unit with all: few samples count where it passes on few."""
        i = np.flatnonzero(self.c[k])
        both = self.c[k, i] * self.c[:, i]
        return np.vecdot(both @ self.inputs.squared[np.ix_(i, i)], both)

    @cached_property
    def lengths(self) -> Float[Array, " h"]:
        """|W2_k|²."""
        return np.sum(self.W2**2, axis=0)

    @cached_property
    def square(self) -> float:
        """⟨K, K⟩."""
        with_S = np.zeros(len(self.c))
        for rows, G, S in self._rows():
            with_S += _gated(G * S, self.c, rows)
        return self._square(self.overlaps, with_S)

    def _square(self, overlaps: Float[Array, "h h"], with_S: Float[Array, " h"]) -> float:
        """From ⟨E_k, E_l⟩ and ⟨E_k, S⟩."""
        of_S = np.sum((self.phi @ self.phi.T) ** 2)
        first = np.vdot((self.W2.T @ self.W2) ** 2, overlaps)
        return float(first + 2 * self.lengths @ with_S + len(self.W2) * of_S)

    def _rows(self) -> Iterator[tuple[slice, Float[Array, "a n"], Float[Array, "a n"]]]:
        """G and S, some rows at a time."""
        n = self.c.shape[1]
        step = max(1, _BLOCK // n)
        for start in range(0, n, step):
            rows = slice(start, start + step)
            yield rows, self.inputs.bare[rows], self.phi[:, rows].T @ self.phi

    def compare(self, other: Units) -> Comparison:
        """Both have as many units; the fewer samples these pass on in one of them only, the quicker it is."""
        FE, FF = self._flips(other)
        layer = _SecondLayer.of(self, other)
        inner = np.vdot((self.W2.T @ other.W2) ** 2, self.overlaps - FE.T)
        inner += self.lengths @ layer.E_S2 + other.lengths @ layer.E2_S
        inner += len(self.W2) * np.sum((self.phi @ other.phi.T) ** 2)
        overlaps = self.overlaps - FE - FE.T + FF
        for k in np.flatnonzero(np.diag(overlaps) < _NEAR * np.diag(self.overlaps)):  # units that have closed
            overlaps[k] = overlaps[:, k] = other._overlaps_of(int(k))
        norm, other_norm = self.square, other._square(overlaps, layer.E2_S2)
        change, along = norm + other_norm - 2 * inner, norm - inner
        if change < _NEAR * (norm + other_norm):
            change, along = self._apart(other, FE, FF, layer)
        return Comparison.of_blocks(np.array([norm, max(other_norm, 0.0), inner, max(change, 0.0), along]))

    def _apart(
        self, other: Units, FE: Float[Array, "h h"], FF: Float[Array, "h h"], layer: _SecondLayer
    ) -> tuple[float, float]:
        """‖K − K'‖² and ⟨K − K', K⟩, from the differences of W2, S and the E_k."""
        EE, w, v = self.overlaps, self.W2, other.W2
        d, s, out = w - v, w + v, len(w)
        lengths, first, second = np.sum(d * s, axis=0), self.lengths, other.lengths
        change = (
            np.vdot((d.T @ d) * (s.T @ s) + (d.T @ s) * (s.T @ d), EE) / 2
            + 2 * np.vdot((d.T @ v) * (s.T @ v), FE.T)
            + np.vdot((v.T @ v) ** 2, FF)
            + 2 * (lengths @ layer.E_R + second @ layer.F_R)
            + out * layer.R_R
        )
        along = (
            np.vdot((d.T @ w) * (s.T @ w), EE)
            + np.vdot((v.T @ w) ** 2, FE)
            + (lengths @ layer.E_S + second @ layer.F_S + first @ layer.E_R)
            + out * layer.R_S
        )
        return change, along

    def _flips(self, other: Units) -> tuple[Float[Array, "h h"], Float[Array, "h h"]]:
        """⟨F_k, E_l⟩ and ⟨F_k, F_l⟩: zero where a unit passes on what it did."""
        c, f, s = self.c, self.c - other.c, self.c + other.c
        FE, FF = np.zeros((2, len(c), len(c)))
        for k in np.flatnonzero(f.any(axis=1)):
            i = np.flatnonzero(f[k])
            reach = (s[k] * np.concatenate([c, f[k:]])) @ self.inputs.squared[i].T
            to_c, to_f = np.split(reach, [len(c)])
            FE[k] = (c[:, i] * to_c) @ f[k, i]
            FF[k, k:] = FF[k:, k] = (f[k:, i] * (2 * to_c[k:] - to_f) + s[k:, i] * to_f) @ f[k, i] / 2
        return FE, FF


@dataclass(frozen=True, eq=False)
class _SecondLayer:
    """What the second layer brings in, with R = S − S'; E2 and S2 are those of the other kernel."""

    E_R: Array
    F_R: Array
    E_S: Array
    F_S: Array
    E_S2: Array
    E2_S: Array
    E2_S2: Array
    R_R: float
    R_S: float

    @classmethod
    def of(cls, one: Units, other: Units) -> _SecondLayer:
        h = len(one.c)
        c, c2, f = one.c, other.c, one.c - other.c
        both = np.concatenate([c, c2])
        sums, R_R, R_S = np.zeros((7, h)), 0.0, 0.0
        for (rows, G, S), (_, _, S2) in zip(one._rows(), other._rows(), strict=True):
            R = S - S2
            R_R, R_S = R_R + np.vdot(R, R), R_S + np.vdot(R, S)
            to_R, to_S, to_S2 = (np.split((G * M) @ both.T, 2, axis=1) for M in (R, S, S2))
            on, on2, flipped = c[:, rows].T, c2[:, rows].T, f[:, rows].T
            sums += [
                np.sum(on * to_R[0], axis=0),
                np.sum(flipped * (to_R[0] + to_R[1]), axis=0),
                np.sum(on * to_S[0], axis=0),
                np.sum(flipped * (to_S[0] + to_S[1]), axis=0),
                np.sum(on * to_S2[0], axis=0),
                np.sum(on2 * to_S[1], axis=0),
                np.sum(on2 * to_S2[1], axis=0),
            ]
        E_R, F_R, E_S, F_S, E_S2, E2_S, E2_S2 = sums
        return cls(E_R, F_R, E_S, F_S, E_S2, E2_S, E2_S2, float(R_R), float(R_S))


def _gated(M: Float[Array, "a n"], c: Float[Array, "h n"], rows: slice) -> Float[Array, " h"]:
    """Σ_ij c_ki M_ij c_kj over the rows i given, for every unit k."""
    return np.sum(c[:, rows].T * (M @ c.T), axis=0)
