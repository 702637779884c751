"""Singular values and vectors of the network function, followed through time.

W(t) = U(t) diag(s(t)) V(t)ᵀ at every time, with columns that belong together over time instead of being sorted anew:

- the modes of neighbouring times are matched so that Σ |u·u'||v·v'| is largest, so values may cross;
- u and v keep their signs as far as they can, so s changes its own where a mode passes zero (reversal learning);
- among equal singular values, where any basis is as good, the one nearest to that of the time before is taken
  (Procrustes), and likewise among those that are zero, where left and right turn independently.

The order is that of the first time, strongest first and s ≥ 0; equal values there are told apart by the second time.
Values that come close without crossing are followed as finely as the times resolve it: between two times, the vectors
should turn by less than 45°.

Alignment with the task compares with Σyx = Ũ diag(s̃) Ṽᵀ (`task.modes`; where s̃ has equal values, Ũ and Ṽ are one
choice of many).
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from lazyrich._observable import observable
from lazyrich._typing import Array, Float
from lazyrich.observables._reading import linear
from lazyrich.trajectory import Trajectory

_EPS = float(np.finfo(np.float64).eps)
_EQUAL = 1e-12  # relative: closer singular values cannot be told apart, since W itself is not known better


class SingularModes(NamedTuple):
    """W(t) = U diag(s) Vᵀ, a column per mode; s may be negative after the first time."""

    U: Float[Array, "T out m"]
    s: Float[Array, "T m"]
    V: Float[Array, "T in m"]


class _Svd(NamedTuple):
    """At one time."""

    U: Float[Array, "out m"]
    s: Float[Array, " m"]
    V: Float[Array, "in m"]


def singular_modes(traj: Trajectory) -> SingularModes:
    """The singular modes of W(t), each followed from the first time to the last.

    >>> task, layer = lr.Task.from_correlations([[1.0, 0.0], [0.0, 4.0]]), [[0.6, 0.0], [0.0, 0.3]]
    >>> problem = lr.Problem(task, lr.Network([layer, layer]))
    >>> lr.observables.singular_modes(lr.solve(problem, [0.0, 0.5, 5.0])).s.round(3)  # the second overtakes
    array([[0.36 , 0.09 ],
           [0.605, 2.228],
           [1.   , 4.   ]])
    """
    W = np.asarray(linear(traj, "singular_modes").function)
    # what rounding leaves of a product of the initial layers is nothing, and has no sign
    sizes = [float(np.linalg.norm(layer, 2)) for layer in traj.problem.network.weights]
    floor = max(W.shape[1:]) * _EPS * float(np.prod(sizes))
    U, s, Vt = np.linalg.svd(W, full_matrices=False)
    raw = [_Svd(U[i], s[i], Vt[i].T) for i in range(len(W))]
    states = [_first(raw[0], raw[min(1, len(raw) - 1)], floor)]
    for now in raw[1:]:
        states.append(_turned(now, states[-1], floor)[0])
    return SingularModes(*(np.stack(parts) for parts in zip(*states, strict=True)))


@observable("mode", long_name="singular value of the network function, followed")
def singular_values(traj: Trajectory) -> Float[Array, "T m"]:
    """s of `singular_modes`: crossing where they cross, and negative where a mode has passed zero.

    >>> problem = lr.Problem(lr.Task.from_correlations([[-1.0]]), lr.Network([[[0.5]]]))
    >>> lr.observables.singular_values(lr.solve(problem, [0.0, 1.0, 100.0])).ravel().round(6)
    array([ 0.5     , -0.448181, -1.      ])
    """
    return singular_modes(traj).s


@observable("mode", "mode_", long_name="alignment of the task's modes with the network's")
def mode_alignment(traj: Trajectory) -> Float[Array, "T m m"]:
    """(ũ_αᵀu_k)(ṽ_αᵀv_k)·sign s_k of task mode α (rows) and the network's mode k (columns, as in `singular_modes`).

    1: the same mode. −1: the same with the wrong sign. A mode of strength 0 has no direction, and aligns with none.

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0, 0.0], [0.0, 1.0]]), lr.Network([[[0.3, 0], [0, -0.1]]]))
    >>> lr.observables.mode_alignment(lr.solve(problem, [0.0]))[0].round(6) + 0.0
    array([[ 1.,  0.],
           [ 0., -1.]])
    """
    U, s, V = singular_modes(linear(traj, "mode_alignment"))
    U_task, _, V_task = traj.problem.task.modes
    return (U_task.T @ U) * (V_task.T @ V) * np.sign(s)[:, None, :]


@observable(long_name="fraction of the network function off the task's modes")
def off_diagonal_fraction(traj: Trajectory) -> Float[Array, " T"]:
    """‖W − Ũ diag(a) Ṽᵀ‖/‖W‖ (Frobenius), a_α = ũ_αᵀWṽ_α: what is off the diagonal in the task's full singular basis.

    0: the network is decoupled, with the task's modes alone. 1: it has none of them. At W = 0 it is 0.

    >>> problem = lr.Problem(lr.Task.from_correlations([[2.0, 0.0], [0.0, 1.0]]), lr.Network([[[0.3, 0.4], [0, 0]]]))
    >>> lr.observables.off_diagonal_fraction(lr.solve(problem, [0.0, 100.0])).round(6)
    array([0.8, 0. ])
    """
    W = np.asarray(linear(traj, "off_diagonal_fraction").function)
    U, _, V = traj.problem.task.modes
    a = np.sum(U * (W @ V), axis=1)
    rest = np.linalg.norm(W - (U * a[:, None, :]) @ V.T, axis=(1, 2))
    size = np.linalg.norm(W, axis=(1, 2))
    return rest / np.where(size > 0, size, 1.0)


def _first(first: _Svd, second: _Svd, floor: float) -> _Svd:
    """The first time's modes, strongest first; equal values in the basis and the order that the second time has."""
    turned, place = _turned(first, second, floor)
    order = np.argsort(place, kind="stable")
    sign = np.where(turned.s < 0, -1.0, 1.0)[order]
    return _Svd(turned.U[:, order] * sign, np.abs(turned.s[order]), turned.V[:, order])


def _turned(now: _Svd, other: _Svd, floor: float) -> tuple[_Svd, Array]:
    """The modes of one time, each in the place of the mode of the other time that it continues.

    Second comes, for each place, the number of the group of equal singular values it was filled from.
    """
    groups, null = _groups(now, floor)
    a, b = other.U.T @ now.U, other.V.T @ now.V
    shared = np.stack([np.linalg.norm(a[:, g], axis=1) * np.linalg.norm(b[:, g], axis=1) for g in groups], axis=1)
    if null:  # all that no other mode takes, also outside the m columns at hand
        a0, b0 = (np.sqrt(np.maximum(1 - np.sum(c[:, : groups[-1].start] ** 2, axis=1), 0.0)) for c in (a, b))
        shared[:, -1] = a0 * b0
    group_of = np.repeat(np.arange(len(groups)), [g.stop - g.start for g in groups])
    column = _matched(shared[:, group_of])
    each = np.arange(len(column))
    sign_u, sign_v = (np.where(c[each, column] < 0, -1.0, 1.0) for c in (a, b))
    # vectors that turned by more than 45° between the times do not tell whether s passed zero: it keeps its sign
    lost = np.minimum(np.abs(a[each, column]), np.abs(b[each, column])) < np.sqrt(0.5)
    sign_v = np.where(lost, sign_u * np.where(other.s < 0, -1.0, 1.0), sign_v)
    U, V, s = now.U[:, column] * sign_u, now.V[:, column] * sign_v, now.s[column] * sign_u * sign_v
    for i, g in enumerate(groups):
        here = np.flatnonzero(group_of[column] == i)
        if null and i == len(groups) - 1:
            U[:, here] = _nearest(now.U[:, g], now.U[:, : g.start], other.U[:, here])
            V[:, here] = _nearest(now.V[:, g], now.V[:, : g.start], other.V[:, here])
            s[here] = 0.0
        elif len(here) > 1:
            sign = np.where(np.sum(a[here, g] * b[here, g], axis=1) < 0, -1.0, 1.0)  # of uᵀ(U_gV_gᵀ)v, as it was
            R = _orthogonal(a[here, g].T + b[here, g].T * sign)
            U[:, here], V[:, here] = now.U[:, g] @ R, now.V[:, g] @ R * sign
            s[here] = np.sum(R * (now.s[g, None] * R), axis=0) * sign
    return _Svd(U, s, V), group_of[column]


def _groups(svd: _Svd, floor: float) -> tuple[list[slice], bool]:
    """Runs of equal singular values, strongest first, and whether the last of them is zero, no more than `floor`."""
    s, rounding = svd.s, max(max(len(svd.U), len(svd.V)) * _EPS * svd.s[0], floor)
    rank = int(np.count_nonzero(s > rounding))
    apart = np.flatnonzero(-np.diff(s[:rank]) > _EQUAL * s[: max(rank - 1, 0)] + rounding) + 1
    edges = [0, *apart, rank, len(s)]
    return [slice(int(i), int(j)) for i, j in itertools.pairwise(edges) if i < j], rank < len(s)


def _matched(shared: Float[Array, "m m"]) -> Array:
    """For each row the column that it goes with, so that the sum is largest."""
    best = np.argmax(shared, axis=1)
    if len(np.unique(best)) == len(best):  # no two want the same
        return best
    from scipy.optimize import linear_sum_assignment  # here, to keep `import lazyrich` quick

    return np.asarray(linear_sum_assignment(shared, maximize=True)[1])


def _nearest(free: Float[Array, "d g"], taken: Float[Array, "d r"], before: Float[Array, "d g"]) -> Float[Array, "d g"]:
    """Orthonormal columns, orthogonal to those taken, nearest to the ones before; `free` is one choice of them."""
    rest = before
    for _ in range(2):  # twice, for rounding
        rest = rest - taken @ (taken.T @ rest) - free @ (free.T @ rest)
    more, size, _ = np.linalg.svd(rest, full_matrices=False)
    space = np.concatenate([free, more[:, size > 1e-6]], axis=1)  # smaller parts would bring rounding with them
    return space @ _orthogonal(space.T @ before)


def _orthogonal(M: Float[Array, "n g"]) -> Float[Array, "n g"]:
    """The nearest matrix with orthonormal columns: the polar factor."""
    left, _, right = np.linalg.svd(M, full_matrices=False)
    return left @ right
