"""The closed form for two layers in arbitrary precision, as it is printed (theory.md, section 1).

    QQᵀ(t) = e^{Ft} Q0 [I + Q0ᵀ G Q0]⁻¹ Q0ᵀ e^{Ft},   G = ∫₀ᵗ e^{2Fs} ds,   F = [[−λ/2 I, Σyxᵀ], [Σyx, λ/2 I]]

with e^{Ft} and G from mpmath's eigensolver for the dense F, and a Cholesky factor of the bracket. No
grading, no pivots, no case distinction: only digits. The bracket's condition number is about
‖Q0‖² e^{2wt}, w = max|w_i|, and an error on the separatrix grows no faster, so 40 + 2wt/ln 10 digits
leave 30 or more. `lam` is taken as told (with rates: η_1 W2ᵀW2 − η_2 W1W1ᵀ = λI): the start is not
checked, and float64 starts, which are balanced to rounding only, are put in the formula as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, log, log10
from typing import Any

import numpy as np
from mpmath import mp
from numpy.typing import NDArray

from .starts_mp import Matrix, MpMatrix, to_float, to_mp

GUARD, RESULT_DIGITS, LARGEST_EXPONENT = 40, 60, 2000


def gram(W1: Matrix, W2: Matrix, sigma_yx: Matrix, t: Any, **options: Any) -> MpMatrix:
    """QQᵀ(t), good to 30 digits relative to its norm; options as for `grams`."""
    return grams(W1, W2, sigma_yx, [t], **options)[0]


def gram_float(W1: Matrix, W2: Matrix, sigma_yx: Matrix, times: Any, **options: Any) -> NDArray[np.float64]:
    """QQᵀ at all times, rounded to float64: (T, n, n); options as for `grams`."""
    return np.stack([to_float(QQ) for QQ in grams(W1, W2, sigma_yx, times, **options)])


def grams(
    W1: Matrix,
    W2: Matrix,
    sigma_yx: Matrix,
    times: Sequence[Any],
    *,
    lam: Any,
    rates: Sequence[Any] = (1, 1),
    c: Any = 1,
    gamma: Any = 0,
    digits: int | None = None,
) -> list[MpMatrix]:
    """QQᵀ of the weights W at each time; F is diagonalised once, with the digits the last time needs.

    Σxx = c·I; rates = (η_1, η_2); `gamma` is the weight decay (λ = 0 and equal rates only). `digits`
    sets the working precision by hand.
    """
    eta1, eta2 = rates
    if gamma != 0 and (lam != 0 or eta1 != eta2):
        raise ValueError(f"weight decay needs lam = 0 and equal rates; got {lam}, {tuple(rates)}")
    # First F to 60 digits, only to see how large w·t will be; then everything again with enough digits.
    with mp.workdps(RESULT_DIGITS):
        F, Q0, _, to_tau = _unit_flow(W1, W2, sigma_yx, lam, rates, c, gamma)
        exponent = float(np.linalg.norm(to_float(F), 2)) * float(max(to_tau(t) for t in times))
        condition = 2 * exponent / log(10) + 2 * log10(1 + float(mp.norm(Q0))) + log10(2 + exponent)
        needed = GUARD + ceil(condition)
    if digits is None and exponent > LARGEST_EXPONENT:
        raise ValueError(
            f"max|w|·t = {exponent:.0f} is beyond {LARGEST_EXPONENT}: it takes {needed} digits; "
            "ask for an earlier time, or pass digits"
        )
    with mp.workdps(digits or needed):
        F, Q0, undo, to_tau = _unit_flow(W1, W2, sigma_yx, lam, rates, c, gamma)
        w, O = mp.eigsy(F)
        P = O.T * Q0
        cores = [_in_eigenbasis(w, P, to_tau(t)) for t in times]
    with mp.workdps(RESULT_DIGITS):
        turn = undo * O
        return [turn * core * turn.T for core in cores]


def _unit_flow(
    W1: Matrix, W2: Matrix, sigma_yx: Matrix, lam: Any, rates: Sequence[Any], c: Any, gamma: Any
) -> tuple[MpMatrix, MpMatrix, MpMatrix, Callable[[Any], Any]]:
    """F, Q0 of the whitened unit-rate flow, the matrix that undoes the change of variables, and its time.

    Σxx = c·I is target Σyx/c and time c·t; rates are v1 = √η_2 W1, v2 = √η_1 W2, target √(η_1η_2) Σyx.
    """
    W1, W2, sigma_yx = to_mp(W1), to_mp(W2), to_mp(sigma_yx)
    d_in, d_out = W1.cols, W2.rows
    if W1.rows != W2.cols or (sigma_yx.rows, sigma_yx.cols) != (d_out, d_in):
        raise ValueError(
            f"shapes do not fit: W1 {(W1.rows, W1.cols)}, W2 {(W2.rows, W2.cols)}, "
            f"sigma_yx {(sigma_yx.rows, sigma_yx.cols)}"
        )
    (eta1, eta2), c = (mp.mpf(eta) for eta in rates), mp.mpf(c)
    root1, root2 = mp.sqrt(eta1), mp.sqrt(eta2)
    target = sigma_yx * (root1 * root2 / c)
    shift = eta1 * mp.mpf(gamma) / c
    n = d_in + d_out
    F, Q0 = mp.zeros(n), mp.zeros(n, W1.rows)
    F[d_in:, :d_in], F[:d_in, d_in:] = target, target.T
    for i in range(n):
        F[i, i] = (-1 if i < d_in else 1) * mp.mpf(lam) / 2 - shift
    Q0[:d_in, :], Q0[d_in:, :] = root2 * W1.T, root1 * W2
    undo = mp.diag([1 / root2] * d_in + [1 / root1] * d_out)
    return F, Q0, undo, lambda t: c * mp.mpf(t)


def _in_eigenbasis(w: MpMatrix, P: MpMatrix, t: Any) -> MpMatrix:
    """OᵀQQᵀ(t)O = e^{wt} P [I + Pᵀ g P]⁻¹ Pᵀ e^{wt} = ZᵀZ with Z = R⁻¹ Pᵀ e^{wt} and RRᵀ the bracket."""
    n, h = P.rows, P.cols
    rows = [[P[i, j] for i in range(n)] for j in range(h)]  # Pᵀ
    g = [mp.expm1(2 * x * t) / (2 * x) if x else mp.mpf(t) for x in w]
    weighted = [[a * b for a, b in zip(row, g, strict=True)] for row in rows]
    growth = [mp.exp(x * t) for x in w]
    # Row i of R, then row i of Z by forward substitution with it.
    R: list[list[Any]] = []
    Z: list[list[Any]] = [[] for _ in range(n)]  # by columns
    for i in range(h):
        r: list[Any] = []
        for j in range(i):
            r.append((mp.fdot(weighted[i], rows[j]) - mp.fdot(r, R[j][:j])) / R[j][j])
        r.append(mp.sqrt(1 + mp.fdot(weighted[i], rows[i]) - mp.fdot(r, r)))
        R.append(r)
        for m in range(n):
            Z[m].append((rows[i][m] * growth[m] - mp.fdot(r[:i], Z[m])) / r[i])
    core = mp.zeros(n)
    for i in range(n):
        for j in range(i + 1):
            core[i, j] = core[j, i] = mp.fdot(Z[i], Z[j])
    return core
