"""How far the modes of a two-layer linear network are still coupled (Braun et al. 2022, section 5; theory: section 4).

With Σyx = Ũ diag(s̃) Ṽᵀ (`task.modes`), the decoupling matrix is

    ½ (Ṽᵀ W1ᵀW1 Ṽ + Ũᵀ W2W2ᵀ Ũ),

which is Braun's AᵀA where W1 = AṼᵀ and W2 = ŨAᵀ, and is defined for every other network too. Its diagonal says how
strong each mode of the task is in the weights, its off-diagonal b how strongly two are coupled. From small weights |b|
rises to a peak before it fades; from large ones it only fades. Where s̃ has equal values, Ũ and Ṽ, and b with them,
are one choice of many.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._observable import observable
from lazyrich._typing import Array, Float
from lazyrich.methods.base import FOREVER, Solution
from lazyrich.methods.solve import solve
from lazyrich.observables._reading import two_layer_linear
from lazyrich.observables.representations import input_gram, output_gram
from lazyrich.problem import Problem, as_problem, needs_no_biases
from lazyrich.trajectory import Trajectory

_EPS = float(np.finfo(np.float64).eps)
_GRID = 1000  # on a logarithmic scale: finer by far than any mode rises
_CHUNK = 4_000_000  # numbers in the Gram matrices of one call: bounds memory


@observable("mode", "mode_", long_name="decoupling matrix AᵀA in the task's modes")
def decoupling(traj: Trajectory) -> Float[Array, "T m m"]:
    """½ (Ṽᵀ W1ᵀW1 Ṽ + Ũᵀ W2W2ᵀ Ũ): the task's modes on the diagonal, their coupling off it.

    >>> network = lr.inits.zero_balanced(3, sizes=(2, 4, 2), scale=0.5)
    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0, 0.0], [0.0, 1.0]]), network)
    >>> lr.observables.decoupling(lr.solve(problem, [100.0]))[0].round(6) + 0.0
    array([[2., 0.],
           [0., 1.]])
    """
    traj = two_layer_linear(traj, "decoupling")
    needs_no_biases(traj.problem.network, "decoupling")
    U, _, V = traj.problem.task.modes
    return (V.T @ input_gram(traj) @ V + U.T @ output_gram(traj) @ U) / 2


@observable(long_name="fraction of the decoupling matrix off its diagonal")
def coupling(traj: Trajectory) -> Float[Array, " T"]:
    """Frobenius norm of the off-diagonals of `decoupling` over the whole: 0 where decoupled, or at zero weights.

    >>> network = lr.inits.zero_balanced(3, sizes=(2, 4, 2), scale=0.5)
    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0, 0.0], [0.0, 1.0]]), network)
    >>> lr.observables.coupling(lr.solve(problem, [0.0, 100.0])).round(6)
    array([0.354913, 0.      ])
    """
    AtA = decoupling(two_layer_linear(traj, "coupling"))
    size = np.linalg.norm(AtA, axis=(1, 2))
    off = np.linalg.norm(np.where(np.eye(AtA.shape[1]) == 0, AtA, 0.0), axis=(1, 2))
    return off / np.where(size > 0, size, 1.0)


def peak_time(problem: Problem, pair: tuple[int, int] = (0, 1)) -> float:
    """When |b(t)| of two modes of the task is largest, known before any training.

    For two modes of equal strength in Braun's setting, by the closed form; for all others that `solve` has a solution
    of, where the slope of b on the exact curve passes zero.

    Parameters
    ----------
    problem : two linear layers, for which there is an exact solution
    pair : the two modes, numbered from 0

    Returns
    -------
    time : nan where the coupling is largest at t = 0 or zero throughout, infinite where it never fades

    >>> A = np.array([[1.0, 0.5], [0.2, 0.7]])
    >>> problem = lr.Problem(lr.Task.from_correlations([[5.0, 0.0], [0.0, 5.0]]), lr.Network([A, A.T]))
    >>> round(lr.observables.peak_time(problem), 6)
    0.191129
    >>> task = lr.Task.from_correlations([[5.0, 0.0], [0.0, 1.0]])
    >>> round(lr.observables.peak_time(lr.Problem(task, lr.Network([A, A.T]))), 6)
    0.13407
    """
    as_problem(problem)
    solution = two_layer_linear(solve(problem, [0.0]), "peak_time").solution
    assert solution is not None
    i, j = _as_pair(pair, len(problem.task.modes.s))
    equal = _equal_modes(problem, i, j)
    if equal is None:
        return _search(problem, solution, i, j)
    return peak_time_of_pair(**equal) / problem.canonical.clock


def peak_time_of_pair(a1: float, a2: float, b: float, s: float, *, determinant: float | None = None) -> float:
    """When |b(t)| is largest, for s1 = s2 = s: (1/4s) ln[(s² − s(a1 + a2) + Δ)/Δ], exact, Δ = a1a2 − b².

    `determinant` is Δ, where it is known better than by this difference.

    There is a peak after t = 0 if and only if s > a1 + a2, otherwise the answer is NaN. As Δ → 0 it moves to
    infinity.

    >>> round(peak_time_of_pair(0.2, 0.1, 0.05, s=3.0), 6)
    0.511631
    >>> peak_time_of_pair(2.0, 1.5, 0.05, s=3.0)
    nan
    """
    a1, a2, b, determinant = gram_2x2(a1, a2, b, determinant)
    s = _check.positive("s", s)
    if s <= a1 + a2:
        return math.nan
    return math.log1p(s * (s - a1 - a2) / determinant) / (4 * s) if determinant else math.inf


def gram_2x2(a1: float, a2: float, b: float, determinant: float | None = None) -> tuple[float, float, float, float]:
    """a1, a2, b and Δ = a1a2 − b² of a Gram matrix."""
    a1, a2, b = _check.positive("a1", a1), _check.positive("a2", a2), _check.number("b", b)
    determinant = a1 * a2 - b**2 if determinant is None else determinant
    if determinant < -4 * _EPS * a1 * a2:
        raise InvalidInput(
            f"b must lie within ±√(a1·a2) = ±{math.sqrt(a1 * a2):.3g} (AᵀA is positive), and it is {b:g}."
        )
    return a1, a2, b, max(determinant, 0.0)


def _as_pair(pair: Any, modes: int) -> tuple[int, int]:
    try:
        i, j = (operator.index(mode) for mode in pair)
    except (TypeError, ValueError):
        raise InvalidInput(f"pair must hold the numbers of two modes, such as (0, 1), and it is {pair!r}.") from None
    if i == j or not (0 <= i < modes and 0 <= j < modes):
        raise InvalidInput(f"pair must hold two different modes from 0 to {modes - 1}, and it is {pair!r}.")
    return i, j


def _equal_modes(problem: Problem, i: int, j: int) -> dict[str, float] | None:
    """a1, a2, b, s of Braun's closed form, at unit rates and white inputs; None where it does not apply."""
    facts, unit, (U, s, V) = problem.facts, problem.canonical, problem.task.modes
    W1, W2 = problem.network.weights
    A, B = unit.k[0] * W1 @ V, unit.k[1] * W2.T @ U
    tolerance, size = facts.tolerance, float(np.linalg.norm(A))
    others = [k for k in range(len(s)) if k not in (i, j)]
    applies = (
        facts.whitened
        and not problem.weight_decay
        and len(U) == len(V)
        and s[i] > 0
        and abs(s[i] - s[j]) <= tolerance * s[i]
        and np.linalg.norm(A - B) <= tolerance * size
        and np.linalg.norm(A[:, [i, j]].T @ A[:, others]) <= tolerance * size**2
    )
    a1, a2, b = (float(A[:, k] @ A[:, l]) for k, l in ((i, i), (j, j), (i, j)))
    if not applies or abs(b) <= 64 * _EPS * max(a1, a2):
        return None
    (r1, _), (_, r2) = np.linalg.qr(A[:, [i, j]], mode="r") if len(A) > 1 else ((1.0, 0.0), (0.0, 0.0))
    new = abs(r2) if abs(r2) > 64 * _EPS * size else 0.0  # of the second column; a1a2 − b² would cancel
    return {"a1": a1, "a2": a2, "b": b, "s": float(s[i]) * unit.gain / unit.clock, "determinant": float(r1 * new) ** 2}


def _search(problem: Problem, solution: Solution, i: int, j: int) -> float:
    """The time at which |b| is largest on the exact curve."""
    from scipy.optimize import brentq  # here, to keep `import lazyrich` quick

    task = problem.task
    size = sum(float(np.linalg.norm(W, 2)) ** 2 for W in problem.network.weights)
    fastest = max(problem.rates) * (size * float(np.linalg.norm(task.sigma_xx, 2)) + float(task.modes.s[0]))
    tick = 0.01 / max(fastest, 1e-300)

    def slope(t: float) -> float:
        h = 1e-20 * tick  # a complex step: nothing cancels, however short it is
        return float(_blocks(problem, solution, np.array([t + 1j * h]), i, j)[0, 0, 1].imag / h)

    end, last = _blocks(problem, solution, np.array([FOREVER]), i, j), 100 * tick
    while last < 1e18 * tick:
        now = _blocks(problem, solution, np.array([last]), i, j)
        if np.abs(now - end).max() <= 1e-6 * np.abs(now).max():
            break
        last *= 2
    times = np.concatenate([[0.0], np.geomspace(tick, last, _GRID)])
    pieces = np.array_split(times, min(_GRID, 1 + len(times) * (task.d_in + task.d_out) ** 2 // _CHUNK))
    blocks = np.concatenate([_blocks(problem, solution, piece, i, j) for piece in pieces])
    b, rounding = np.abs(blocks[:, 0, 1]), 64 * _EPS * np.abs(blocks).max()
    peak = int(np.argmax(b))
    if b[peak] <= b[0] + rounding:
        return math.nan
    if b[peak] <= abs(end[0, 0, 1]) + rounding:
        return math.inf
    return float(brentq(slope, times[peak - 1], times[peak + 1], xtol=1e-14 * times[peak], rtol=4 * _EPS))


def _blocks(problem: Problem, solution: Solution, times: Array, i: int, j: int) -> Array:
    """The 2 × 2 blocks of `decoupling` that belong to two modes, at real or complex times."""
    state, d_in = solution.analytic(times), problem.task.d_in
    U, V = problem.task.modes.U[:, [i, j]], problem.task.modes.V[:, [i, j]]
    if "gram" in state:
        G = state["gram"]
        return (V.T @ G[:, :d_in, :d_in] @ V + U.T @ G[:, d_in:, d_in:] @ U) / 2
    A, B = state["weights"][0] @ V, U.T @ state["weights"][1]
    return (np.swapaxes(A, 1, 2) @ A + B @ np.swapaxes(B, 1, 2)) / 2
