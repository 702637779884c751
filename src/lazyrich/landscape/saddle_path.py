"""The path of saddles that a trajectory visits, with the times at which it comes and goes.

Critical points. With the modes of TΣxx^½ = U diag(σ) Vᵀ (for white inputs those of the task), the critical points of
a linear network of any depth have W_S = U_S U_Sᵀ T for a set S of modes, no more than the narrowest layer has units,
and the loss there is the floor + ½ Σ_{α∉S} σ_α² (Baldi and Hornik 1989; theory: section 7). W = W_S is not enough: in
the weights the point is critical only where no mode outside S is being learned, that is where its rate vanishes,

    K_α = Σ_ℓ η_ℓ ‖W_{L:ℓ+1}ᵀu_α‖² ‖W_{ℓ−1:1}Σxx^½v_α‖²     (its entry of the tangent kernel)

A lazy network passes W = 0 at full speed: no saddle is there.

Rule. A trajectory is at the saddle S while, within `radius` (a tenth),

    learned modes (uᵀWΣxx^½v above σ/2)    have strength σ, relative to σ;
    the other modes                        have strength 0, relative to σ, and would have even if their strength were
                                           what their rate K_α tells: (K_α/K*)^{L/(2L−2)}, with K* the rate of the
                                           balanced mode when it is learned (two layers: (‖p‖² + ‖q‖²)/2σ);
    all the rest of WΣxx^½                 is 0, relative to the weakest mode.

So a mode is off below 10 % and on above 90 %, each by its own measure, and weak modes count as much as strong ones.
No two saddles overlap. A saddle that is left and met again with no other between is one visit. Among modes with
equal σ only their number has a meaning: the directions learned are those of W itself, and the first are named; the
norms in K_α are then the largest among those not learned.

Exact trajectories are looked at wherever something changes, from 0 to their last time, and the times found by
bisection: they do not depend on the grid. Between the records of others, nearness is interpolated as an exponential,
which it is close to a saddle; where one step leads from saddle to saddle, as a straight line.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._rounding import present
from lazyrich._typing import Array, Float
from lazyrich.alignment import equal_groups
from lazyrich.networks.network import product
from lazyrich.problem import Problem, needs_no_biases, needs_squared_loss
from lazyrich.trajectory import NO_NETWORK, Trajectory, as_trajectory

_GRID = 200  # times looked at first
_STEP = 0.05  # between neighbouring looks no strength changes by more, relative to its mode


@dataclass(frozen=True)
class Visit:
    """A saddle (or the minimum), and when the trajectory was there.

    >>> task = lr.Task.from_correlations([[2.0, 0.0], [0.0, 1.0]])
    >>> problem = lr.Problem(task, lr.inits.aligned(0, task, hidden=2, strengths=1e-6))
    >>> first, *_ = lr.landscape.saddle_path(lr.solve(problem, [0.0, 30.0])).visits
    >>> first.modes, first.loss, round(first.departure, 2)
    ((), 2.5, 3.08)
    """

    modes: tuple[int, ...]  # those learned there; strongest is 0
    kind: str  # "saddle" or "minimum"
    loss: float
    arrival: float
    departure: float  # inf: the trajectory ends here
    distance: float  # least ‖(W − W_S)Σxx^½‖ / ‖TΣxx^½‖ of the visit
    closest: float  # when that is


@dataclass(frozen=True)
class SaddlePath:
    """The visits of a trajectory, in order of time; none for one that never rests.

    >>> task = lr.Task.from_correlations([[2.0, 0.0], [0.0, 1.0]])
    >>> problem = lr.Problem(task, lr.inits.aligned(0, task, hidden=2, strengths=1e-6))
    >>> path = lr.landscape.saddle_path(lr.solve(problem, [0.0, 30.0]))
    >>> [(visit.modes, round(visit.arrival, 2)) for visit in path.visits]
    [((), 0.0), ((0,), 4.18), ((0, 1), 8.01)]
    """

    visits: tuple[Visit, ...]
    radius: float
    spacing: float  # the widest gap between records, between which times were read; 0 for exact trajectories

    def __str__(self) -> str:
        if not self.visits:
            return f"no saddle within {self.radius:g}"
        head = ("modes learned", "kind", "loss", "arrival", "departure", "distance", "closest at")
        rows = [
            (_named(v.modes), v.kind, *(f"{x:.6g}" for x in (v.loss, v.arrival)),
             "–" if np.isinf(v.departure) else f"{v.departure:.6g}", f"{v.distance:.2g}", f"{v.closest:.6g}")
            for v in self.visits
        ]  # fmt: skip
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        lines = ["  ".join(f"{x:>{w}}" for x, w in zip(row, widths, strict=True)) for row in (head, *rows)]
        if self.spacing:
            lines.append(f"read between records up to {self.spacing:.3g} apart: shorter visits may be missed")
        return "\n".join(lines)


def saddle_path(traj: Trajectory, *, radius: float = 0.1, modes: int | None = None) -> SaddlePath:
    """Which saddles a trajectory of a linear network visits, and when.

    Parameters
    ----------
    traj : of a linear network, two layers or more
    radius : how near is there, below ½
    modes : tells apart the so many strongest only, for tasks with a tail of weak modes

    Returns
    -------
    SaddlePath : `visits`, each with `modes`, `loss`, `arrival` and `departure`

    >>> task = lr.Task.from_correlations([[4.0, 0.0], [0.0, 1.0]])
    >>> problem = lr.Problem(task, lr.inits.gaussian(0, sizes=(2, 3, 2), scale=1e-6))
    >>> [visit.modes for visit in lr.landscape.saddle_path(lr.flow(problem, range(25))).visits]
    [(), (0,), (0, 1)]
    """
    traj, radius = as_trajectory(traj), _check.positive("radius", radius)
    if radius >= 0.5:
        raise InvalidInput(f"radius must be below 0.5, where saddles would overlap, and it is {radius:g}.")
    saddles = _Saddles(_suitable(traj), modes)
    if traj.solution is not None:
        times, looks, look = _wherever_it_changes(saddles, traj)
    else:
        part = "weights" if traj.knows("weights") else "gram"
        times, looks, look = traj.clock, saddles.look(**{part: getattr(traj, part)}), None
    stays = _stays(looks.off <= radius, looks.learned)
    visits = [_visit(saddles, stay, times, looks, radius, look) for stay in stays]
    spacing = float(np.diff(times).max(initial=0.0)) if look is None else 0.0
    return SaddlePath(_joined(visits), radius, spacing)


class _Looks(NamedTuple):
    """A trajectory at some times: how it stands to the nearest saddle."""

    f: Float[Array, "T m"]  # strengths relative to σ
    learned: Array  # (T, m): f above a half
    off: Float[Array, " T"]  # the largest deviation of the rule
    distance: Float[Array, " T"]  # ‖(W − W_S)Σxx^½‖ / ‖TΣxx^½‖


class _Saddles:
    """The saddles of a problem, and where a state stands among them."""

    def __init__(self, problem: Problem, modes: int | None) -> None:
        task, L = problem.task, problem.network.depth
        variances, E = np.linalg.eigh(task.sigma_xx)
        excited = variances > len(E) * np.finfo(np.float64).eps * variances[-1]
        self.root = (E * np.sqrt(np.where(excited, variances, 0.0))) @ E.T  # Σxx^½
        self.U, sigma, Vt = np.linalg.svd(task.target @ self.root)
        self.all = sigma[present(sigma, task.sigma_yx.shape, task.eps)]
        if len(self.all) == 0:
            raise InvalidInput("the task must have a mode to learn, and Σyx is zero.")
        self.problem, self.V, self.only_some = problem, Vt.T, modes is not None
        self.m = len(self.all) if modes is None else min(_check.count("modes", modes), len(self.all))
        self.sigma = self.all[: self.m]
        groups = equal_groups(self.sigma)
        self.groups = [group for group in groups if group.stop - group.start > 1]
        d = np.sum((self.root @ self.V[:, : self.m]) ** 2, axis=0)  # input variance along each mode
        for group in groups:
            d[group] = d[group].mean()
        self.full_rate = d * L * (problem.canonical.gain * self.sigma / np.sqrt(d)) ** (2 - 2 / L)  # K*

    def loss(self, modes: tuple[int, ...]) -> float:
        return self.problem.task.loss_floor + float(np.sum(np.delete(self.all, modes) ** 2)) / 2

    def kind(self, modes: tuple[int, ...]) -> str:
        deepest = range(min(len(self.all), *self.problem.network.sizes))
        return "minimum" if modes == tuple(deepest) else "saddle"

    def look(self, *, weights: Any = None, gram: Any = None) -> _Looks:
        """From the weights, or from QQᵀ where there are two layers."""
        d_in, m, L = self.problem.task.d_in, self.m, self.problem.network.depth
        W = gram[:, d_in:, :d_in] if weights is None else product(weights)
        A = self.U.T @ (W @ self.root) @ self.V
        U, V = self._turn(A)
        f = np.diagonal(A, axis1=1, axis2=2)[:, :m] / self.sigma
        learned, diagonal = f > 0.5, np.arange(m)
        after, before = (
            _through_gram(gram, U, self.root @ V) if weights is None else _through(weights, U, self.root @ V)
        )
        told = (self._rates(after, before, ~learned) / self.full_rate) ** (L / (2 * L - 2))
        off = np.where(learned, np.abs(f - 1), np.maximum(np.abs(f), told)).max(axis=1)
        if self.only_some:
            A[:, m:, m:] = 0.0
        A[:, diagonal, diagonal] = 0.0
        rest = np.linalg.norm(A, axis=(1, 2))
        distance = np.hypot(rest, np.linalg.norm((f - learned) * self.sigma, axis=1)) / np.linalg.norm(self.all)
        return _Looks(f, learned, np.maximum(off, rest / self.sigma[-1]), distance)

    def _turn(self, A: Float[Array, "T out in"]) -> tuple[Array, Array]:
        """Turns A, in place, to the nearest saddle's own directions among equal modes; frames U and V to match.

        Of all projectors P, ‖A − σP‖ is least for that on the eigenvectors of A's symmetric part above σ/2.
        """
        U, V = self.U[:, : self.m], self.V[:, : self.m]
        if not self.groups:
            return U, V
        U, V = (np.repeat(frame[None], len(A), axis=0) for frame in (U, V))
        for group in self.groups:
            block = A[:, group, group]
            R = np.linalg.eigh((block + np.swapaxes(block, 1, 2)) / 2)[1][:, :, ::-1]
            A[:, group] = np.swapaxes(R, 1, 2) @ A[:, group]
            A[:, :, group] = A[:, :, group] @ R
            U[:, :, group], V[:, :, group] = U[:, :, group] @ R, V[:, :, group] @ R
        return U, V

    def _rates(self, after: list[Array], before: list[Array], open_: Array) -> Any:
        """K_α from Gram matrices of the modes; among equal modes the largest of those still open."""
        layers = zip(self.problem.rates, after, before, strict=True)
        return sum(rate * self._largest(a, open_) * self._largest(b, open_) for rate, a, b in layers)

    def _largest(self, G: Float[Array, "*T m m"], open_: Array) -> Float[Array, "T m"]:
        values = np.broadcast_to(np.diagonal(G, axis1=-2, axis2=-1), open_.shape).copy()
        for group in self.groups:
            mask = open_[:, group]
            values[:, group] = np.linalg.eigvalsh(G[..., group, group] * mask[:, :, None] * mask[:, None, :])[:, -1:]
        return np.maximum(values, 0.0)


def _through(weights: Any, U: Array, V: Array) -> tuple[list[Array], list[Array]]:
    """Gram matrices, layer by layer, of the modes u as the layers after send them back, and v as those before send
    them on."""
    after, before = [U], [V]
    for W in weights[:-1]:
        before.append(W @ before[-1])
    for W in weights[:0:-1]:
        after.insert(0, np.swapaxes(W, 1, 2) @ after[0])
    return [np.swapaxes(u, -1, -2) @ u for u in after], [np.swapaxes(v, -1, -2) @ v for v in before]


def _through_gram(gram: Float[Array, "T n n"], U: Array, V: Array) -> tuple[list[Array], list[Array]]:
    """The same of two layers, from QQᵀ."""
    d_in, Ut, Vt = V.shape[-2], np.swapaxes(U, -1, -2), np.swapaxes(V, -1, -2)
    return [Ut @ gram[:, d_in:, d_in:] @ U, Ut @ U], [Vt @ V, Vt @ gram[:, :d_in, :d_in] @ V]


def _suitable(traj: Trajectory) -> Problem:
    """The problem of a trajectory that has saddles and shows them, or a sentence."""
    problem = traj.problem
    network = problem.network
    if not network.activation.linear:
        raise InvalidInput(f"saddle_path reads linear networks, and this one is {network.kind}.")
    needs_no_biases(network, "saddle_path")
    needs_squared_loss(problem, "saddle_path")
    if network.depth == 1:
        raise InvalidInput("saddle_path needs two layers or more, and this network has one: its loss has no saddle.")
    if problem.weight_decay:
        raise InvalidInput(
            f"saddle_path needs a problem without weight decay, which moves the saddles, and this one has "
            f"{problem.weight_decay:g}."
        )
    if traj.tangent is not None:
        raise InvalidInput(NO_NETWORK)
    if traj.solution is None and not (traj.knows("weights") or traj.knows("gram")):
        wanted = "weights or gram" if network.depth == 2 else "weights"
        raise InvalidInput(
            f"saddle_path needs the {wanted} of a trajectory, and they were not recorded: try record='weights'."
        )
    return problem


def _wherever_it_changes(saddles: _Saddles, traj: Trajectory) -> tuple[Float[Array, " T"], _Looks, Any]:
    """Looks at an exact trajectory, so close in time that nothing changes much in between; and the way to look."""
    solution: Any = traj.solution

    def look(times: Float[Array, " T"]) -> _Looks:
        if solution.gives_gram:
            return saddles.look(gram=solution.gram(times))
        return saddles.look(weights=solution.weights(times))

    times = time_grid(traj)
    looks = look(times)
    while True:
        marks = np.column_stack([np.clip(looks.f, -1, 2), np.clip(looks.off, 0, 1)])
        wide = np.diff(times) > 1e-9 * times[1:]
        gaps = np.flatnonzero(wide & (np.abs(np.diff(marks, axis=0)).max(axis=1) > _STEP))
        if len(gaps) == 0:
            return times, looks, look
        start, end = times[gaps], times[gaps + 1]
        between = np.where(end > 4 * start, np.sqrt(np.maximum(start, 1e-3 * end) * end), (start + end) / 2)
        more = look(between)
        order = np.argsort(np.concatenate([times, between]), kind="stable")
        times = np.concatenate([times, between])[order]
        looks = _Looks(*(np.concatenate(pair)[order] for pair in zip(looks, more, strict=True)))


def time_grid(traj: Trajectory) -> Float[Array, " T"]:
    """Times from 0 to a trajectory's last, evenly spaced in their logarithm from before anything happens."""
    problem, end = traj.problem, float(traj.clock[-1])
    task, L = problem.task, problem.network.depth
    size = max(
        float(np.linalg.norm(task.target, 2)) ** (1 / L), *(np.linalg.norm(W, 2) for W in problem.network.weights)
    )
    fastest = L * max(problem.rates) * float(np.linalg.norm(task.sigma_xx, 2)) * size ** (2 * L - 2)
    first = min(0.01 / fastest, end) if fastest else end
    return np.unique(np.concatenate([[0.0], np.geomspace(first, end, _GRID)])) if end else np.zeros(1)


def crossing(value: Callable[[float], float], start: float, end: float) -> float:
    """When a continuous value changes its sign between two times; the nearer one where rounding hides the sign."""
    from scipy.optimize import brentq  # here, to keep `import lazyrich` quick

    ends = value(start), value(end)
    if ends[0] * ends[1] >= 0:
        return float(start if abs(ends[0]) <= abs(ends[1]) else end)
    return float(brentq(value, start, end, xtol=1e-300, rtol=1e-13))


def _stays(near: Array, learned: Array) -> list[slice]:
    """Runs of neighbouring looks at one and the same saddle."""
    same = near[1:] & near[:-1] & (learned[1:] == learned[:-1]).all(axis=1)
    edges = [0, *(np.flatnonzero(~same) + 1), len(near)]
    return [slice(int(i), int(j)) for i, j in itertools.pairwise(edges) if near[i]]


def _visit(
    saddles: _Saddles,
    stay: slice,
    times: Float[Array, " T"],
    looks: _Looks,
    radius: float,
    look: Callable[[Array], _Looks] | None,
) -> Visit:
    """One stay, with its edges found between the looks."""

    def edge(inside: int, outside: int) -> float:
        pair, here, there = times[[inside, outside]], looks.off[inside], looks.off[outside]
        if look is not None and there > radius:
            return crossing(lambda t: look(np.array([t])).off[0] - radius, *pair)
        if there <= radius:  # from saddle to saddle in one step, on a straight line from 0 to 1
            part = (radius - here) / (1 - here - there)
        else:
            same = (looks.learned[inside] == looks.learned[outside]).all()
            from_here = there if same else max(there, 1 - there)
            part = np.log(radius / max(here, 1e-16)) / np.log(from_here / max(here, 1e-16))
        return float(pair[0] + part * (pair[1] - pair[0]))

    modes = tuple(int(i) for i in np.flatnonzero(looks.learned[stay.start]))
    at = stay.start + int(np.argmin(looks.distance[stay]))
    closest, distance = float(times[at]), float(looks.distance[at])
    if look is not None and stay.start < at < stay.stop - 1:
        from scipy.optimize import minimize_scalar

        found = minimize_scalar(
            lambda t: look(np.array([t])).distance[0],
            bounds=times[[at - 1, at + 1]],
            method="bounded",
            options={"xatol": 1e-9 * closest},
        )
        closest, distance = min((closest, distance), (float(found.x), float(found.fun)), key=lambda pair: pair[1])
    return Visit(
        modes=modes,
        kind=saddles.kind(modes),
        loss=saddles.loss(modes),
        arrival=edge(stay.start, stay.start - 1) if stay.start else float(times[0]),
        departure=edge(stay.stop - 1, stay.stop) if stay.stop < len(times) else float("inf"),
        distance=distance,
        closest=closest,
    )


def _joined(visits: list[Visit]) -> tuple[Visit, ...]:
    """Visits of one saddle with no other between are one."""
    joined = []
    for _, run in itertools.groupby(visits, key=lambda visit: visit.modes):
        first, *_, last = stays = [*run] * 2  # twice, so that a single stay is both
        best = min(stays, key=lambda visit: visit.distance)
        joined.append(replace(best, arrival=first.arrival, departure=last.departure))
    return tuple(joined)


def _named(modes: tuple[int, ...]) -> str:
    """Runs of neighbouring modes as ranges, counted from 1: 1–4, 6."""
    runs = [
        [mode + 1 for _, mode in run]
        for _, run in itertools.groupby(enumerate(modes), key=lambda pair: pair[1] - pair[0])
    ]
    return ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs) or "none"
