"""Balanced two-layer starts in high precision.

A float64 start is balanced to 1e-16 only, and rounding takes it off the separatrix; after about
36/s_min time units the flow shows it. These starts are balanced to `digits` digits, so that the
exact trajectory, saddles included, can be known at late times. On the separatrix the flow multiplies
rounding by e^{wt}: 400 digits keep 30 of them until w·t ≈ 850. `to_float` rounds a start to what the
library is given.

    zero-balanced   W2ᵀW2 = W1W1ᵀ        W1 = R S Vᵀ,   W2 = U S Rᵀ,    any d_in, h, d_out
    λ-balanced      W2ᵀW2 − W1W1ᵀ = λI   one layer has √(S² + |λ|); λ > 0 needs h ≤ d_out, λ < 0 h ≤ d_in

with U, V, R orthonormal columns (QR of Gaussian doubles) and S uniform in scale·[½, 3/2]. With layer
rates the same holds for η_1 W2ᵀW2 − η_2 W1W1ᵀ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from mpmath import mp
from numpy.typing import ArrayLike, NDArray

MpMatrix: TypeAlias = Any  # mpmath.matrix; mpmath carries no types
Matrix: TypeAlias = ArrayLike | MpMatrix  # float64 counts as exact
DIGITS = 400


def to_mp(M: Matrix) -> MpMatrix:
    """A matrix as mpmath's, entry by entry exact; mpmath matrices keep all their digits."""
    if isinstance(M, mp.matrix):
        return M.copy()
    M = np.asarray(M, dtype=np.float64)
    if M.ndim != 2:
        raise ValueError(f"a matrix has two axes, and this has shape {M.shape}")
    return mp.matrix(M.tolist())


def to_float(M: MpMatrix) -> NDArray[np.float64]:
    """An mpmath matrix rounded to float64."""
    return np.array([float(x) for x in M]).reshape(M.rows, M.cols)


def zero_balanced_mp(
    rng: np.random.Generator,
    d_in: int,
    h: int,
    d_out: int,
    scale: float,
    *,
    sign: int | None = None,
    target: Matrix | None = None,
    rates: Sequence[Any] = (1, 1),
    digits: int = DIGITS,
) -> tuple[MpMatrix, MpMatrix]:
    """(W1, W2) with η_1 W2ᵀW2 = η_2 W1W1ᵀ.

    `sign` = ±1 chooses sign det(W2W1) equal (+1) or opposite (−1) to that of det `target` (the
    identity if not given); it needs d_in = d_out ≤ h. Opposite is the separatrix: the smallest mode
    is missed.
    """
    if sign is not None and (sign not in (1, -1) or d_in != d_out or h < d_in):
        raise ValueError(f"sign must be 1 or -1 with d_in = d_out <= h; got {sign} with {d_in}-{h}-{d_out}")
    k = min(d_in, h, d_out)
    with mp.workdps(digits):
        U, V, R = (_orthonormal(rng, d, k) for d in (d_out, d_in, h))
        S = _spectrum(rng, k, scale)
        if sign is not None:
            wanted = sign * (1 if target is None else mp.sign(mp.det(to_mp(target))))
            if wanted == 0:
                raise ValueError("the target has determinant 0: no sign to compare with")
            if mp.sign(mp.det(U * V.T)) != wanted:
                for i in range(d_out):
                    U[i, 0] = -U[i, 0]
        return _undo_rates(R * mp.diag(S) * V.T, U * mp.diag(S) * R.T, rates)


def lambda_balanced_mp(
    rng: np.random.Generator,
    d_in: int,
    h: int,
    d_out: int,
    lam: Any,
    scale: float,
    *,
    rates: Sequence[Any] = (1, 1),
    digits: int = DIGITS,
) -> tuple[MpMatrix, MpMatrix]:
    """(W1, W2) with η_1 W2ᵀW2 − η_2 W1W1ᵀ = λ I_h."""
    if lam == 0:
        return zero_balanced_mp(rng, d_in, h, d_out, scale, rates=rates, digits=digits)
    d_large, d_small = (d_out, d_in) if lam > 0 else (d_in, d_out)
    if h > d_large:
        raise ValueError(f"lam = {lam} needs h <= {'d_out' if lam > 0 else 'd_in'}; got {d_in}-{h}-{d_out}")
    k = min(h, d_small)
    with mp.workdps(digits):
        R, U, V = _orthonormal(rng, h, h), _orthonormal(rng, d_large, h), _orthonormal(rng, d_small, k)
        S = _spectrum(rng, k, scale)
        large = U * mp.diag([mp.sqrt(s**2 + abs(mp.mpf(lam))) for s in S + [mp.zero] * (h - k)]) * R.T
        small = R[:, :k] * mp.diag(S) * V.T
        return _undo_rates(*((small, large) if lam > 0 else (large.T, small.T)), rates)


def _orthonormal(rng: np.random.Generator, d: int, k: int) -> MpMatrix:
    """k orthonormal columns of length d, uniform: R's diagonal is made positive, or det Q would be fixed."""
    Q, R = mp.qr(to_mp(rng.normal(size=(d, k))), mode="skinny")
    return Q * mp.diag([mp.sign(R[i, i]) for i in range(k)])


def _spectrum(rng: np.random.Generator, k: int, scale: float) -> list[Any]:
    return [mp.mpf(float(x)) for x in scale * rng.uniform(0.5, 1.5, size=k)]


def _undo_rates(v1: MpMatrix, v2: MpMatrix, rates: Sequence[Any]) -> tuple[MpMatrix, MpMatrix]:
    """W_ℓ from the unit-rate v_ℓ: v1 = √η_2 W1, v2 = √η_1 W2."""
    eta1, eta2 = (mp.mpf(eta) for eta in rates)
    return v1 / mp.sqrt(eta2), v2 / mp.sqrt(eta1)
