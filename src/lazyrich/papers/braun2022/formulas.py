"""Braun et al. 2022, "Exact learning dynamics of deep linear networks with prior knowledge".

Two layers W2W1, gradient flow with time in units of τ, whitened inputs (assumption 2.2: Σxx = I),
zero-balanced initialisation (assumption 2.3: W1W1ᵀ = W2ᵀW2). The paper's Σ̃yx, Ũ, S̃, Ṽ are `sigma_yx`, `U_tilde`,
`S_tilde`, `V_tilde`. QQᵀ collects W1ᵀW1, W2W1 and W2W2ᵀ (eq. 6).

Corrections to the paper. Ũ⊥ belongs to N_o > N_i (N_i > N_o is printed for both Ũ⊥ and Ṽ⊥). Assumption 3.1, B
non-singular, fails for half of all square initialisations, namely where det W2W1 and det Σ̃yx differ in sign; so
Theorem 3.2 does not promise the global minimum from every zero-balanced initialisation. The remark UV = ŨṼ under
Theorem 5.1 reads UVᵀ = ŨṼᵀ. t_peak as printed and eq. 15 are approximations: see `t_peak` and `equation_15`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import expm

from lazyrich import InvalidInput, Network, Problem, Task, _check
from lazyrich._typing import Array, Float
from lazyrich.facts import Facts
from lazyrich.observables.decoupling import gram_2x2
from lazyrich.observables.decoupling import peak_time_of_pair as t_peak

__all__ = [
    "AlignmentMatrices",
    "TwoModes",
    "alignment_matrices",
    "decoupling_2x2",
    "equation_15",
    "fukumizu",
    "reversal",
    "t_peak",
    "t_peak_as_printed",
    "theorem_3_1",
    "theorem_5_1",
]

_EPS = float(np.finfo(np.float64).eps)


class AlignmentMatrices(NamedTuple):
    """B and C of assumption 3.1, and what they are made of; S and S̃ are vectors.

    >>> found = alignment_matrices([[0.1, 0.0], [0.0, 0.1]], [[0.1, 0.0], [0.0, -0.1]], [[2.0, 0.0], [0.0, 1.0]])
    >>> np.abs(found.B).round(6), found.S_tilde  # B is singular: det W2W1 < 0 < det Σ̃yx
    (array([[2., 0.],
           [0., 0.]]), array([2., 1.]))
    """

    B: Float[Array, "m m"]
    C: Float[Array, "m m"]
    U: Float[Array, "out m"]
    S: Float[Array, " m"]
    V: Float[Array, "in m"]
    U_tilde: Float[Array, "out m"]
    S_tilde: Float[Array, " m"]
    V_tilde: Float[Array, "in m"]
    U_perp: Float[Array, "out out_perp"]
    V_perp: Float[Array, "in in_perp"]


class TwoModes(NamedTuple):
    """AᵀA(t) = [[a1, b], [b, a2]] (eq. 14).

    >>> modes = decoupling_2x2(a1=0.2, a2=0.1, b=0.05, s1=3.0, s2=1.0, times=[0.0, 10.0])
    >>> modes.a1.round(6), modes.a2.round(6), modes.b.round(6)
    (array([0.2, 3. ]), array([0.1, 1. ]), array([0.05, 0.  ]))
    """

    a1: Float[Array, " T"]
    a2: Float[Array, " T"]
    b: Float[Array, " T"]


def alignment_matrices(W1: ArrayLike, W2: ArrayLike, sigma_yx: ArrayLike) -> AlignmentMatrices:
    """B = UᵀŨ + VᵀṼ and C = UᵀŨ − VᵀṼ (assumption 3.1), from the compact SVDs of eq. 10.

    W2W1 = USVᵀ and Σ̃yx = ŨS̃Ṽᵀ must have full rank N_m = min(N_i, N_o) (assumption 2.4). Ũ⊥ completes Ũ where
    N_o > N_i, and Ṽ⊥ completes Ṽ where N_i > N_o; otherwise they have no columns. The free choice in an SVD
    (signs; rotations among equal singular values) turns B and C together, and changes no result.

    >>> network = lr.inits.zero_balanced(1, sizes=(3, 4, 2), scale=0.3)
    >>> found = alignment_matrices(*network.weights, [[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> found.B.shape, found.V_perp.shape, found.U_perp.shape
    ((2, 2), (3, 1), (2, 0))
    """
    W1, W2, sigma_yx = _shaped(W1, W2, sigma_yx)
    facts, m = _facts(W1, W2, sigma_yx), min(sigma_yx.shape)
    for name, rank in (("sigma_yx", facts.rank_target), ("W2 W1", facts.rank_initial)):
        if rank < m:
            raise InvalidInput(
                f"{name} must have full rank {m} (assumption 2.4), and it has {rank}: lr.solve takes any."
            )
    U, S, Vt = np.linalg.svd(W2 @ W1, full_matrices=False)
    U_full, S_tilde, Vt_full = np.linalg.svd(sigma_yx)
    U_tilde, V_tilde, V = U_full[:, :m], Vt_full[:m].T, Vt[:m].T
    U, S = U[:, :m], S[:m]
    B, C = U.T @ U_tilde + V.T @ V_tilde, U.T @ U_tilde - V.T @ V_tilde
    return AlignmentMatrices(B, C, U, S, V, U_tilde, S_tilde, V_tilde, U_full[:, m:], Vt_full[m:].T)


def theorem_3_1(W1: ArrayLike, W2: ArrayLike, sigma_yx: ArrayLike, times: ArrayLike) -> Float[Array, "T n n"]:
    """QQᵀ(t) by eqs 11 and 12, with e = e^{−S̃t}:

        QQᵀ = Z [4e B⁻¹S⁻¹B⁻ᵀ e + (I − e²)S̃⁻¹ − e B⁻¹C(e² − I)S̃⁻¹CᵀB⁻ᵀ e
                 + 4t e B⁻¹(VᵀṼ⊥Ṽ⊥ᵀV + UᵀŨ⊥Ũ⊥ᵀU)B⁻ᵀ e]⁻¹ Zᵀ
        Z = [Ṽ(I − e CᵀB⁻ᵀe) + 2Ṽ⊥Ṽ⊥ᵀV B⁻ᵀe;  Ũ(I + e CᵀB⁻ᵀe) + 2Ũ⊥Ũ⊥ᵀU B⁻ᵀe]

    Conditions: whitened inputs, zero-balanced, W2W1 and Σ̃yx of full rank, B non-singular. Only falling
    exponentials occur: any time and any scale are safe. Digits are lost near the separatrix, with the square
    of the condition number of B: relative errors to 2e-7 among 1400 random initialisations. `lr.solve` loses none
    there, and has a value on it.

    >>> task, network = lr.Task.from_correlations(np.eye(2, 3)), lr.inits.zero_balanced(1, sizes=(3, 4, 2), scale=0.3)
    >>> gram = theorem_3_1(*network.weights, task.sigma_yx, [0.0, 1.0, 50.0])
    >>> bool(np.allclose(gram, lr.solve(lr.Problem(task, network), [0.0, 1.0, 50.0]).gram, rtol=0, atol=1e-12))
    True
    """
    W1, W2, sigma_yx = _shaped(W1, W2, sigma_yx)
    t = _check.as_times(times)[:, None, None]
    _require_zero_balanced(W1, W2, sigma_yx)
    B, C, U, S, V, U_tilde, S_tilde, V_tilde, U_perp, V_perp = alignment_matrices(W1, W2, sigma_yx)
    _require_nonsingular(B, S, S_tilde)
    Bi, I = np.linalg.inv(B), np.eye(len(S))
    row = np.exp(-S_tilde * t)  # e from the right scales columns, e from the left scales rows
    column = np.swapaxes(row, 1, 2)
    risen = -np.expm1(-2 * S_tilde * t) / S_tilde  # the diagonal of (I − e²)S̃⁻¹
    unseen = V.T @ V_perp @ V_perp.T @ V + U.T @ U_perp @ U_perp.T @ U
    bracket = (
        4 * column * ((Bi / S) @ Bi.T) * row
        + risen * I
        + column * ((Bi @ C * risen) @ (Bi @ C).T) * row
        + 4 * t * column * (Bi @ unseen @ Bi.T) * row
    )
    turned = column * (C.T @ Bi.T) * row
    Z = np.concatenate(
        [
            V_tilde @ (I - turned) + 2 * (V_perp @ V_perp.T @ V @ Bi.T) * row,
            U_tilde @ (I + turned) + 2 * (U_perp @ U_perp.T @ U @ Bi.T) * row,
        ],
        axis=1,
    )
    return Z @ np.linalg.solve(bracket, np.swapaxes(Z, 1, 2))


def fukumizu(W1: ArrayLike, W2: ArrayLike, sigma_yx: ArrayLike, times: ArrayLike) -> Float[Array, "T n n"]:
    """QQᵀ(t) by eq. 5, Fukumizu's solution of the matrix Riccati equation, with Q and F of eq. 4.

        QQᵀ = e^{Ft}Q0 [I + ½Q0ᵀ(e^{Ft}F⁻¹e^{Ft} − F⁻¹)Q0]⁻¹ Q0ᵀe^{Ft},     F = [[0, Σ̃yxᵀ], [Σ̃yx, 0]]

    Conditions: whitened inputs, zero-balanced, F invertible, that is N_i = N_o and Σ̃yx of full rank. The
    initialisation may have any rank, and lie on the separatrix. The bracket grows as e^{2Ft} while the answer does
    not: an initialisation of order one has errors near 1e-9 at s̃_max·t = 12, 1e-4 at 17 and no digits at 25, smaller
    ones a little later; at 350 the exponentials overflow. `lr.solve` has no such limit.

    >>> task = lr.Task.from_correlations([[2.0, 0.0], [0.0, 1.0]])
    >>> network = lr.inits.zero_balanced(2, sizes=(2, 3, 2), scale=0.3)
    >>> exact = lr.solve(lr.Problem(task, network), [1.0]).gram
    >>> bool(np.allclose(fukumizu(*network.weights, task.sigma_yx, [1.0]), exact, rtol=0, atol=1e-12))
    True
    >>> fukumizu(*network.weights, task.sigma_yx, [1000.0])
    Traceback (most recent call last):
        ...
    lazyrich._check.InvalidInput: times must end before 175, where eq. 5 overflows, and the last is 1000: lr.solve
    goes on for ever.
    """
    W1, W2, sigma_yx = _shaped(W1, W2, sigma_yx)
    t = _check.as_times(times)
    rank, (d_out, d_in) = _facts(W1, W2, sigma_yx).rank_target, sigma_yx.shape
    if not d_in == d_out == rank:
        raise InvalidInput(
            f"sigma_yx must be square and of full rank, so that F is invertible, and it is {d_out} × {d_in}"
            f" of rank {rank}: lr.solve needs neither."
        )
    _require_zero_balanced(W1, W2, sigma_yx)
    horizon = 350 / float(np.linalg.norm(sigma_yx, 2))
    if t[-1] > horizon:
        raise InvalidInput(
            f"times must end before {horizon:.3g}, where eq. 5 overflows, and the last is {t[-1]:g}:"
            " lr.solve goes on for ever."
        )
    Q0 = np.concatenate([W1.T, W2])
    F = np.block([[np.zeros((d_in, d_in)), sigma_yx.T], [sigma_yx, np.zeros((d_out, d_out))]])
    F_inverse, growth = np.linalg.inv(F), expm(F * t[:, None, None])
    bracket = np.eye(Q0.shape[1]) + 0.5 * Q0.T @ (growth @ F_inverse @ growth - F_inverse) @ Q0
    Q = growth @ Q0
    try:
        return Q @ np.linalg.solve(bracket, np.swapaxes(Q, 1, 2))
    except np.linalg.LinAlgError:
        raise InvalidInput(
            f"times must end earlier than {t[-1]:g}, where rounding has made the bracket of eq. 5 singular:"
            " lr.solve goes on for ever."
        ) from None


def theorem_5_1(A0: ArrayLike, s: ArrayLike, times: ArrayLike) -> Float[Array, "T m m"]:
    """AᵀA(t) by eq. 13, for an initialisation W1 = A0Ṽᵀ, W2 = ŨA0ᵀ in the task's own singular basis.

        AᵀA(t) = [e^{−S̃t}(A0ᵀA0)⁻¹e^{−S̃t} + (I − e^{−2S̃t})S̃⁻¹]⁻¹

    QQᵀ(t) is [Ṽ; Ũ] AᵀA(t) [Ṽ; Ũ]ᵀ. Conditions: N_i = N_o, whitened inputs, Σ̃yx of full rank with singular
    values `s`, and A0 (N_h × N_i) with independent columns. Such an initialisation is zero-balanced as it stands, and
    has UVᵀ = ŨṼᵀ, so that B is never singular. (A0ᵀA0)⁻¹ costs twice the digits of the condition number of
    A0.

    >>> A0 = np.array([[0.3, 0.1], [0.0, 0.2]])
    >>> theorem_5_1(A0, [3.0, 1.0], [20.0])[0].round(6) + 0.0
    array([[3., 0.],
           [0., 1.]])
    """
    s, t = _singular_values("s", s), _check.as_times(times)[:, None]
    A0 = _check.as_matrix("A0", A0, (None, len(s)))
    rank = int(np.linalg.matrix_rank(A0))
    if rank < len(s):
        raise InvalidInput(
            f"A0 must have {len(s)} independent columns, and its rank is {rank}: lr.solve takes any rank."
        )
    e = np.exp(-s * t)
    bracket = e[:, :, None] * np.linalg.inv(A0.T @ A0) * e[:, None, :]
    bracket += (-np.expm1(-2 * s * t) / s)[:, None, :] * np.eye(len(s))
    return np.linalg.inv(bracket)


def decoupling_2x2(a1: float, a2: float, b: float, s1: float, s2: float, times: ArrayLike) -> TwoModes:
    """Theorem 5.1 for two modes, written out: a1(t), a2(t) and the coupling b(t) of eq. 14.

        N = s1s2q1q2 + s1a2q1(1−q2) + s2a1q2(1−q1) + (1−q1)(1−q2)Δ,   q_i = e^{−2s_i t},  Δ = a1a2 − b²
        a1(t) = s1(s2q2a1 + (1−q2)Δ)/N,   a2(t) = s2(s1q1a2 + (1−q1)Δ)/N,   b(t) = s1s2√(q1q2) b/N

    Conditions as for Theorem 5.1, but A0ᵀA0 may be singular. All terms are positive: only Δ itself can lose
    digits.

    >>> A0 = np.array([[0.3, 0.1], [0.0, 0.2]])
    >>> (a1, b), (_, a2) = A0.T @ A0
    >>> modes = decoupling_2x2(a1, a2, b, 3.0, 1.0, [0.5])
    >>> bool(np.allclose([modes.a1, modes.b, modes.a2], theorem_5_1(A0, [3.0, 1.0], [0.5])[:, [0, 0, 1], [0, 1, 1]].T))
    True
    """
    a1, a2, b, determinant = gram_2x2(a1, a2, b)
    s1, s2, t = _check.positive("s1", s1), _check.positive("s2", s2), _check.as_times(times)
    q1, q2 = np.exp(-2 * s1 * t), np.exp(-2 * s2 * t)
    r1, r2 = -np.expm1(-2 * s1 * t), -np.expm1(-2 * s2 * t)
    N = s1 * s2 * q1 * q2 + s1 * a2 * q1 * r2 + s2 * a1 * q2 * r1 + r1 * r2 * determinant
    return TwoModes(
        s1 * (s2 * q2 * a1 + r2 * determinant) / N,
        s2 * (s1 * q1 * a2 + r1 * determinant) / N,
        s1 * s2 * np.exp(-(s1 + s2) * t) * b / N,
    )


def t_peak_as_printed(a1: float, a2: float, b: float, s: float, *, determinant: float | None = None) -> float:
    """(1/4s) ln[s(s − a1 − a2)/Δ], which is `t_peak` for small weights and too early for others.

    >>> [round(t(0.2, 0.1, 0.05, s=3.0), 6) for t in (t_peak, t_peak_as_printed)]
    [0.511631, 0.511452]
    >>> [round(t(1.0, 0.8, 0.05, s=3.0), 6) for t in (t_peak, t_peak_as_printed)]
    [0.142276, 0.125601]
    """
    a1, a2, b, determinant = gram_2x2(a1, a2, b, determinant)
    s = _check.positive("s", s)
    if s <= a1 + a2:
        return math.nan
    return math.log(s * (s - a1 - a2) / determinant) / (4 * s) if determinant else math.inf


def equation_15(a1: float, a2: float, s: float, times: ArrayLike) -> Float[Array, " T"]:
    """Eq. 15: the sigmoid s·a1/(q(s − a1 − a2) + a1 + a2), q = e^{−2st}, for small initialisations and s1 = s2 = s.

    It drops the terms with Δ in a1(t), and they are what saturates the mode: the sigmoid ends at s·a1/(a1 +
    a2), the truth at s. Before that it is right to the order of the initialisation. `decoupling_2x2` is exact.

    >>> equation_15(2e-3, 1e-3, 3.0, [0.5, 10.0]).round(4)
    array([0.0394, 2.    ])
    >>> decoupling_2x2(2e-3, 1e-3, 0.0, 3.0, 3.0, [0.5, 10.0]).a1.round(4)
    array([0.0397, 3.    ])
    """
    a1, a2, s = _check.positive("a1", a1), _check.positive("a2", a2), _check.positive("s", s)
    return s * a1 / (np.exp(-2 * s * _check.as_times(times)) * (s - a1 - a2) + a1 + a2)


def reversal(b: ArrayLike, c: ArrayLike, s: ArrayLike, s_tilde: ArrayLike, times: ArrayLike) -> Float[Array, "T m"]:
    """w(t) = ũᵀW2W1ṽ of every mode where B = diag(b) and C = diag(c): reversal learning (section 6).

        w = s s̃(b² − c²q²) / [4s̃q + s b²(1−q) + s c²q(1−q)],     q = e^{−2s̃t}

    s are the singular values of W2W1(0), s̃ those of Σ̃yx. Conditions: square, and start and task share their
    singular vectors up to sign. A mode of the right sign has (b, c) = (±2, 0) and follows the logistic curve.
    One that has to be reversed has (0, ±2), starts at −s and decays to 0: it lies on the separatrix, and
    Theorem 3.1 has no value. The factor q that both parts then share is cancelled here, so that any time is
    safe.

    >>> reversal(b=[2.0, 0.0], c=[0.0, 2.0], s=[0.5, 0.5], s_tilde=[1.0, 1.0], times=[0.0, 1.0, 2.0]).round(3)
    array([[ 0.5  , -0.5  ],
           [ 0.881, -0.047],
           [ 0.982, -0.006]])
    """
    given = {"b": b, "c": c, "s": s, "s_tilde": s_tilde}
    b, c, s, s_tilde = np.broadcast_arrays(
        *(np.atleast_1d(_check.as_array(name, value)) for name, value in given.items())
    )
    s, s_tilde = _singular_values("s", s), _singular_values("s_tilde", s_tilde)
    kept = np.abs(b) > np.abs(c)
    if np.abs(np.where(kept, c, b)).max() > 1e-9 or np.abs(np.hypot(b, c) - 2).max() > 1e-9:
        raise InvalidInput(
            "b and c must be ±2 and 0, or 0 and ±2, in every mode: UᵀŨ and VᵀṼ have no other diagonals where"
            " all four are orthogonal."
        )
    t = _check.as_times(times)[:, None]
    q, r = np.exp(-2 * s_tilde * t), -np.expm1(-2 * s_tilde * t)
    return np.where(kept, s * s_tilde / (s_tilde * q + s * r), -s * s_tilde * q / (s_tilde + s * r))


def _shaped(W1: ArrayLike, W2: ArrayLike, sigma_yx: ArrayLike) -> tuple[Array, Array, Array]:
    W1 = _check.as_matrix("W1", W1)
    W2 = _check.as_matrix("W2", W2, (None, W1.shape[0]))
    return W1, W2, _check.as_matrix("sigma_yx", sigma_yx, (W2.shape[0], W1.shape[1]))


def _facts(W1: Array, W2: Array, sigma_yx: Array) -> Facts:
    return Problem(Task.from_correlations(sigma_yx), Network([W1, W2])).facts


def _require_zero_balanced(W1: Array, W2: Array, sigma_yx: Array) -> None:
    if not _facts(W1, W2, sigma_yx).zero_balanced:
        off = np.linalg.norm(W1 @ W1.T - W2.T @ W2) / (np.linalg.norm(W1) ** 2 + np.linalg.norm(W2) ** 2)
        raise InvalidInput(
            f"W1 and W2 must be zero-balanced, W1W1ᵀ = W2ᵀW2 (assumption 2.3), and they are off by {off:.2g}"
            " of their size: lr.inits.zero_balanced makes such an initialisation."
        )


def _require_nonsingular(B: Array, S: Array, S_tilde: Array) -> None:
    """B is known as well as UVᵀ and ŨṼᵀ are: to rounding times the condition numbers of W2W1 and Σ̃yx."""
    smallest = float(np.linalg.svd(B, compute_uv=False)[-1])
    if smallest <= 64 * _EPS * (S[0] / S[-1] + S_tilde[0] / S_tilde[-1]):
        raise InvalidInput(
            f"W1 and W2 make B singular (smallest singular value {smallest:.1g}): the start lies on the"
            " separatrix, as half of all square initialisations do, and the theorem has no value; lr.solve handles it."
        )


def _singular_values(name: str, value: ArrayLike) -> Float[Array, " m"]:
    s = _check.as_array(name, value, ndim=1)
    if s.min() <= 0:
        raise InvalidInput(f"{name} must hold singular values above 0, and the least is {s.min():g}.")
    return s
