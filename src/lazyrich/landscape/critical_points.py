"""All places where the gradient of a linear network vanishes: minimum and saddles, how they curve, how they are left.

With the modes of Σyx Σxx^{−1/2} = Σ_α s_α u_α ṽ_αᵀ (k of them with s > 0; white inputs: those of Σyx itself, up to a
factor), the critical points of a network of width h, its narrowest hidden layer, are the projections of the best linear
map T on any r ≤ h of the modes,

    W_S = U_S U_Sᵀ T,        loss = ½ Σ_{α∉S} s_α² + what no linear map can fit,

and all but the one with the strongest modes are saddles (Baldi and Hornik 1989; any depth: Kawaguchi 2016). Where all
layers have rank r, the Hessian has as many negative eigenvalues as

    L = 2:  (k − r)(h − r) + #{(α∉S, β∈S): s_α > s_β}        L ≥ 3:  #{(α∉S, β∈S): s_α > s_β}

(theory: section 7): a free hidden unit takes up a mode, which at L ≥ 3 no second derivative sees, or a stronger mode
takes the place of a weaker one. Saddles with no negative eigenvalue are left algebraically, the others exponentially:
near balanced weights on white inputs Σxx = c·I, with σ the singular values of Σyx, at the rate

    σ_α by a free unit (L = 2),        (σ_β/c)^{1−2/L} (σ_α − σ_β) by exchange of β for α .

On other inputs the number is the same, by Sylvester's law of inertia; the free rates are the singular values of
(I − U_S U_Sᵀ) Σyx, and those of exchanges come from the Hessian. Time is that of the flow with unit rates. Layers of
higher rank with the same product may curve more: at L = 3, W_1 = W_3 = 0 has k·rank(W_2) negative eigenvalues.

Where singular values are equal, one point stands for a family: any subspace of as many dimensions will do in place of
the modes chosen among the equal ones. Inputs that never come (singular Σxx) leave the weights on them free as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._rounding import present
from lazyrich._typing import Array, Float, Rng
from lazyrich.inits.random import random_frame
from lazyrich.landscape.hessian import extreme_eigenvalues
from lazyrich.networks import Network
from lazyrich.problem import Problem
from lazyrich.tasks import Task
from lazyrich.tasks.task import as_task

_MOST = 2**16  # points listed at once

_Push = tuple[float, Callable[[], list[Array]]]  # a rate, and what makes its direction, layer by layer


@dataclass(frozen=True, eq=False)
class CriticalPoint:
    """A family of weights with one function (or, among equal singular values, one kind of function).

    >>> saddle = lr.landscape.critical_points(lr.Task.from_correlations([[2.0, 0.0], [0.0, 1.0]]), hidden=3)[1]
    >>> saddle.modes, saddle.rank, saddle.loss, saddle.index, saddle.kind
    ((0,), 1, 0.5, 2, 'strict saddle')
    >>> saddle.function + 0.0
    array([[2., 0.],
           [0., 0.]])
    """

    modes: tuple[int, ...]  # S, numbered from 0, strongest first
    loss: float
    index: int  # negative eigenvalues of the Hessian where all layers have rank r
    kind: str  # "global minimum", "strict saddle" or "non-strict saddle"
    dimension: int  # of the family of functions: 0 unless S takes some of several equal modes and leaves others
    task: Task = field(repr=False)
    sizes: tuple[int, ...] = field(repr=False)
    levels: Float[Array, " k"] = field(repr=False)  # s of all modes that are not zero, equal ones made equal
    left: Float[Array, "out k"] = field(repr=False)  # u of all modes

    @property
    def rank(self) -> int:
        return len(self.modes)

    @property
    def function(self) -> Float[Array, "out in"]:
        """W_S."""
        U = self.left[:, list(self.modes)]
        return U @ (U.T @ self.task.target)

    @cached_property
    def rates(self) -> Float[Array, " n"]:
        """How fast balanced weights leave this point, fastest first: one rate for each negative eigenvalue."""
        frames = _frames(self, np.random.default_rng(0))  # the rates are the same in every hidden basis
        return np.array([rate for rate, _ in _pushes(self, frames)])


class Escape(NamedTuple):
    """A network on a critical point, and the ways away from it: directions of norm 1, and the rates along them.

    >>> task = lr.Task.from_correlations([[2.0, 0.0], [0.0, 1.0]])
    >>> origin = lr.landscape.critical_points(task, hidden=2, rank=0)[0]
    >>> lr.landscape.escape(origin).rates.round(6)  # either hidden unit may take either mode
    array([2., 2., 1., 1.])
    """

    network: Network
    rates: Float[Array, " n"]  # fastest first; a push ε·direction grows as ε·e^{rate·t}
    directions: list[Float[Array, "n _ _"]]  # per layer


class _Frames(NamedTuple):
    """W_S = A diag(a) Bᵀ, and orthonormal vectors in each hidden layer that carry it."""

    A: Float[Array, "out r"]
    a: Float[Array, " r"]
    B: Float[Array, "in r"]
    hidden: list[Float[Array, "_ r"]]

    def network(self) -> Network:
        """Each layer diag(a^{1/L}) from one frame to the next."""
        frames = [self.B, *self.hidden, self.A]
        c = self.a ** (1 / (len(frames) - 1))
        return Network([(new * c) @ old.T for old, new in itertools.pairwise(frames)])


def critical_points(
    task: Task, hidden: object, *, rank: int | None = None, largest: int | None = None
) -> list[CriticalPoint]:
    """All critical points of a task and a width, lowest loss first.

    With distinct singular values there are 2^k points. Equal ones count once for each number of them that is learned.

    Parameters
    ----------
    task : what is to be learned
    hidden : width of the hidden layer, or of several
    rank : only those with so many modes
    largest : only those made of the so many strongest modes

    Returns
    -------
    list of CriticalPoint : `modes`, `loss`, `index`, `kind`, `rates` of escape

    >>> task = lr.Task.from_correlations([[3.0, 0.0], [0.0, 1.0]])
    >>> for point in lr.landscape.critical_points(task, hidden=2):
    ...     print(point.modes, point.loss, point.index, point.kind)
    (0, 1) 0.0 0 global minimum
    (0,) 0.5 1 strict saddle
    (1,) 4.5 2 strict saddle
    () 5.0 4 strict saddle
    """
    sizes = (as_task(task).d_in, *_widths(hidden), task.d_out)
    left, s = _modes(task)
    k, h = len(s), min(sizes[1:-1])
    edges = np.flatnonzero(-np.diff(s) > _tolerance(task) * s[:1]) + 1
    groups = [range(int(i), int(j)) for i, j in itertools.pairwise([0, *edges, k]) if i < j]  # of equal modes
    level = np.repeat(np.arange(len(groups)), [len(group) for group in groups])  # 0 is the strongest
    s = np.array([s[group.start] for group in groups for _ in group])
    subsets = _subsets(groups, h, rank, largest)
    within = np.zeros((len(subsets), k), dtype=bool)
    for row, modes in zip(within, subsets, strict=True):
        row[list(modes)] = True
    r = within.sum(axis=1)
    stronger = (level[:, None] < level).astype(float)  # s_α > s_β
    exchanges = np.sum(((~within) @ stronger) * within, axis=1).astype(int)
    free = (k - r) * (h - r) if len(sizes) == 3 else np.zeros_like(r)
    loss = task.loss_floor + (~within) @ s**2 / 2
    member = level[:, None] == np.arange(len(groups))
    taken = within.astype(int) @ member  # how many of each group
    dimension = np.sum(taken * (member.sum(axis=0) - taken), axis=1)
    points = []
    for i in np.lexsort((r, loss)):
        lowest = r[i] == min(k, h) and exchanges[i] == 0
        index = int(free[i] + exchanges[i])
        kind = "global minimum" if lowest else "strict saddle" if index else "non-strict saddle"
        points.append(CriticalPoint(subsets[i], float(loss[i]), index, kind, int(dimension[i]), task, sizes, s, left))
    return points


def network_at(point: CriticalPoint, rng: Rng = 0) -> Network:
    """Balanced weights on a critical point, each layer of its rank, in a random hidden basis.

    Parameters
    ----------
    point : one of `critical_points`
    rng : a seed, or a NumPy Generator, for the hidden basis

    Returns
    -------
    Network

    >>> saddle = lr.landscape.critical_points(lr.Task.from_correlations([[3.0, 0.0], [0.0, 1.0]]), hidden=4)[1]
    >>> abs(lr.landscape.network_at(saddle).function.round(12))
    array([[3., 0.],
           [0., 0.]])
    """
    return _frames(_as_point(point), _check.as_rng(rng)).network()


def escape(point: CriticalPoint, rng: Rng = 0, *, fastest: int | None = None) -> Escape:
    """The directions of negative curvature at `network_at(point, rng)`.

    Parameters
    ----------
    point : one of `critical_points`
    rng : a seed, or a NumPy Generator, for the hidden basis
    fastest : only the so many fastest directions

    Returns
    -------
    Escape : `network`, `rates`, fastest first, and `directions` per layer

    >>> saddle = lr.landscape.critical_points(lr.Task.from_correlations([[3.0, 0.0], [0.0, 1.0]]), hidden=2)[2]
    >>> network, rates, directions = lr.landscape.escape(saddle)
    >>> rates.round(12)  # it has learned mode 1: mode 0 by the free unit, or in its place
    array([3., 2.])
    """
    frames = _frames(_as_point(point), _check.as_rng(rng))
    pushes = _pushes(point, frames)
    if fastest is not None:
        pushes = pushes[: _check.count("fastest", fastest)]
    network = frames.network()
    layers = [np.zeros((len(pushes), *W.shape)) for W in network.weights]
    for i, (_, direction) in enumerate(pushes):
        for layer, part in zip(layers, direction(), strict=True):
            layer[i] = part
    return Escape(network, np.array([rate for rate, _ in pushes]), layers)


def _modes(task: Task) -> tuple[Float[Array, "out k"], Float[Array, " k"]]:
    """u and s of the modes of Σyx Σxx^{−1/2} that are not zero."""
    eps = float(np.finfo(np.float64).eps)
    if task.inputs is not None and task.targets is not None:  # by Σxx, the condition number would be squared
        left, S, _ = np.linalg.svd(task.inputs, full_matrices=False)
        white = left[:, max(task.inputs.shape) * eps * S[0] < S]
        M = task.targets.T @ white / (np.sqrt(len(white)) if task.reduction == "mean" else 1.0)
    else:
        d, V = np.linalg.eigh(task.sigma_xx)
        seen = d > len(d) * eps * d[-1]
        M = (task.sigma_yx @ V[:, seen]) / np.sqrt(d[seen])
    U, s, _ = np.linalg.svd(M, full_matrices=False)
    k = int(np.count_nonzero(present(s, task.sigma_yx.shape, task.eps)))
    return U[:, :k], s[:k]


def _subsets(groups: list[range], h: int, rank: object, largest: object) -> list[tuple[int, ...]]:
    """The choices of at most h modes, the first ones of each group of equals; as many as asked for, or a sentence."""
    if largest is not None:
        largest = _check.count("largest", largest)
        groups = [range(group.start, min(group.stop, largest)) for group in groups if group.start < largest]
    k = sum(len(group) for group in groups)
    most = min(h, k)
    if rank is not None:
        rank = _check.count("rank", rank, least=0)
        if rank > most:
            raise InvalidInput(f"rank must be at most {most} (modes: {k}, narrowest layer: {h}), and it is {rank}.")
        most = rank
    ways = np.ones(1)  # of choosing 0, 1, 2, … modes
    for group in groups:
        ways = np.convolve(ways, np.ones(len(group) + 1))[: most + 1]
    number = ways[-1] if rank is not None else ways.sum()
    if number > _MOST:
        raise InvalidInput(
            f"this task and width have {number:.6g} critical points, and {_MOST} can be listed at once: try rank= "
            "(with so many modes) or largest= (of the so many strongest modes)."
        )
    chosen: list[tuple[int, ...]] = [()]
    for group in groups:
        chosen = [(*modes, *group[:q]) for modes in chosen for q in range(min(len(group), most - len(modes)) + 1)]
    return [modes for modes in chosen if rank is None or len(modes) == rank]


def _frames(point: CriticalPoint, generator: np.random.Generator) -> _Frames:
    A, a, Bt = np.linalg.svd(point.function, full_matrices=False)
    r = point.rank
    return _Frames(A[:, :r], a[:r], Bt[:r].T, [random_frame(generator, h, r) for h in point.sizes[1:-1]])


def _pushes(point: CriticalPoint, frames: _Frames) -> list[_Push]:
    """All directions of negative curvature with their rates, fastest first."""
    white = point.task.whitening_error <= _tolerance(point.task)
    exchanges = _exchanges_on_white_inputs(point, frames) if white else _exchanges(point, frames)
    return sorted([*_free(point, frames), *exchanges], key=lambda push: -push[0])


def _free(point: CriticalPoint, frames: _Frames) -> list[_Push]:
    """Two layers: modes of what is left, (I − U_S U_Sᵀ) Σyx, taken up by hidden units that carry nothing."""
    if len(point.sizes) > 3:
        return []
    U, r = point.left[:, list(point.modes)], point.rank
    rest = point.task.sigma_yx - U @ (U.T @ point.task.sigma_yx)
    X, e, Yt = np.linalg.svd(rest, full_matrices=False)
    units = np.linalg.qr(frames.hidden[0], mode="complete")[0][:, r:].T
    return [
        (float(e[i]), _rank_one(point.sizes, unit, Yt[i], X[:, i], unit))
        for i in range(len(point.levels) - r)
        for unit in units
    ]


def _stronger(point: CriticalPoint) -> list[tuple[int, int]]:
    """Pairs of a place in S and a mode that is stronger than the one there, and not in S."""
    s, others = point.levels, sorted(set(range(len(point.levels))) - set(point.modes))
    return [(i, alpha) for i, beta in enumerate(point.modes) for alpha in others if s[alpha] > s[beta]]


def _exchanges_on_white_inputs(point: CriticalPoint, frames: _Frames) -> list[_Push]:
    """A stronger mode α in place of β, in the first layer and in the last."""
    c, L = point.task.input_scale, len(point.sizes) - 1
    sigma = np.sqrt(c) * point.levels
    pushes = []
    for i, alpha in _stronger(point):  # both S and the frames are in order, strongest first
        u, beta = point.left[:, alpha], point.modes[i]
        v = point.task.sigma_yx.T @ u
        rate = (sigma[beta] / c) ** (1 - 2 / L) * (sigma[alpha] - sigma[beta])
        first, last = frames.hidden[0][:, i], frames.hidden[-1][:, i]
        pushes.append((float(rate), _rank_one(point.sizes, first, v / np.linalg.norm(v), u, last)))
    return pushes


def _exchanges(point: CriticalPoint, frames: _Frames) -> list[_Push]:
    """Any inputs: negative eigenvalues of the network without the hidden units that carry nothing."""
    count = len(_stronger(point))
    if count == 0:
        return []
    narrow = frames._replace(hidden=[np.eye(point.rank) for _ in frames.hidden]).network()
    values, directions = extreme_eigenvalues(Problem(point.task, narrow), narrow.weights, count, smallest=True)

    def direction(i: int) -> list[Array]:
        first, *between, last = (part[i] for part in directions)
        pairs = zip(between, itertools.pairwise(frames.hidden), strict=True)
        return [frames.hidden[0] @ first, *(new @ V @ old.T for V, (old, new) in pairs), last @ frames.hidden[-1].T]

    return [(-float(value), partial(direction, i)) for i, value in enumerate(values)]


def _rank_one(sizes: tuple[int, ...], first: Array, v: Array, u: Array, last: Array) -> Callable[[], list[Array]]:
    """first·vᵀ in the first layer and u·lastᵀ in the last, nothing between."""

    def direction() -> list[Array]:
        between = [np.zeros((out, into)) for into, out in itertools.pairwise(sizes[1:-1])]
        return [np.outer(first, v) / np.sqrt(2), *between, np.outer(u, last) / np.sqrt(2)]

    return direction


def _tolerance(task: Task) -> float:
    """What counts as zero, relative: as for the facts of a problem."""
    return max(1e-12, 64 * min(task.eps, 2.0**-23))


def _widths(hidden: object) -> tuple[int, ...]:
    if not isinstance(hidden, Iterable):
        return (_check.count("hidden", hidden),)
    widths = tuple(_check.count("each of hidden", width) for width in hidden)
    if not widths:
        raise InvalidInput("hidden must name one width at least, and it is empty: a single layer has no saddles.")
    return widths


def _as_point(value: object) -> CriticalPoint:
    if not isinstance(value, CriticalPoint):
        raise InvalidInput(
            f"point must be a CriticalPoint, and it is a {type(value).__name__}: critical_points(task, hidden) "
            "lists them."
        )
    return value
