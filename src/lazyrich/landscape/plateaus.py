"""When each mode appears, predicted from the initial weights alone, and compared with a trajectory.

Half time: when the strength uᵀWv of a mode is half way from its initial value a0 to s, the strength it ends at (Σyx/c
for white inputs). In the units of `problem.canonical` (unit rates, white inputs, time c·t):

exact           Aligned with the task, inputs and layers: the modes do not interact. Two layers, any balance, with
                z = √(l² + 4a²) + 2a and l² = N² − 4a² of the mode (`methods/modes`), K = √(l² + 4s²):
                    t = (2/K) artanh(K (z − z0) / (2s(z + z0) + l² − z z0)),     l = 0: (1/2s) ln(1 + s/a0)
                L ≥ 3, layers of any sizes: the quadrature of `methods/_course`; where they are equal it is Saxe's
                (1/L)[Φ((s + a0)/2) − Φ(a0)].
leading order   Two layers, small weights. Mode α grows from the part of its row p_α = W1v_α + W2ᵀu_α that the rows
                of stronger modes do not have: those directions of the hidden layer are taken when its turn comes,
                    a0 = ¼‖new part of p_α‖²,     t = (1/2s) ln(1 + s/a0)
                which is (1/s) ln(1/ε) for weights of size ε: by s, not by gaps. The error vanishes as ε^{2x}, with x
                the least of 1, s_β/s_α − 1 for stronger modes β and 1 − s_β/s_α for weaker ones: slowly where two
                modes are close (measured: these powers).
scaling only    L ≥ 3, small weights: t = a0^{−(1−2/L)}/((L−2)s), with a0 = (K/L)^{L/(2L−2)} the strength of the
                balanced mode that would be learned as fast, K = Σ_ℓ ‖W_{L:ℓ+1}ᵀu‖² ‖W_{ℓ−1:1}v‖². Modes turn and
                layers balance as slowly as they grow, so the factor is not known: trust the power ε^{−(L−2)} alone.
                (Gaussian weights, L = 3 and 4: observed over predicted tends to a constant, between 1 and 3.)

nan: a mode that is never learned (no new part, no room in the narrowest layer, an initial strength of zero or below),
or that is learned already. Among equal singular values the modes are turned so that they do not mix: `U` and `V` say
how. Theory: sections 2, 3, 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.alignment import equal_groups
from lazyrich.landscape.saddle_path import time_grid
from lazyrich.methods.deep_modes import DeepModesSolution
from lazyrich.methods.modes import ModesSolution
from lazyrich.methods.riccati.grading import grade, spectrum
from lazyrich.observables.crossings import crossings_of
from lazyrich.observables.modes import half_times
from lazyrich.problem import Problem, as_problem, needs_no_biases, needs_squared_loss
from lazyrich.trajectory import Trajectory, as_trajectory

_THERE = 1e-9  # of the strongest mode: a mode so near to its limit is learned already


@dataclass(frozen=True)
class Plateaus:
    """When each mode will be half learned, strongest mode first; nan: never.

    >>> task = lr.Task.from_correlations([[2.0, 0.0], [0.0, 1.0]])
    >>> found = lr.landscape.plateau_times(lr.Problem(task, lr.inits.aligned(0, task, hidden=2, strengths=1e-4)))
    >>> found.kind, found.times.round(3)
    ('exact', array([2.476, 4.605]))
    """

    kind: str  # "exact", "leading order" or "scaling only"
    U: Float[Array, "out m"]
    V: Float[Array, "in m"]
    limit: Float[Array, " m"]  # uᵀWv when learned
    initial: Float[Array, " m"]  # a0, from which the mode grows
    times: Float[Array, " m"]

    def __str__(self) -> str:
        rows = zip(self.limit, self.initial, self.times, strict=True)
        return "\n".join(
            [f"half times, {self.kind}", f"{'mode':>6} {'limit':>12} {'initial':>12} {'half time':>12}"]
            + [f"{i:>6} {s:>12.6g} {a:>12.4g} {_time(t)}" for i, (s, a, t) in enumerate(rows, start=1)]
        )


@dataclass(frozen=True)
class PlateauComparison:
    """Predicted and observed half times, one per mode; nan: it does not come.

    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=1e-4))
    >>> found = lr.landscape.compare_plateaus(lr.solve(problem, [0.0, 600.0]))
    >>> found.prediction.kind, found.ratio.round(2)
    ('leading order', array([1.  , 1.  , 1.  , 1.  , 1.12, 1.09, 0.94,  nan]))
    """

    prediction: Plateaus
    observed: Float[Array, " m"]
    spacing: Float[Array, " m"]  # of the records between which it was read; 0 for exact trajectories

    @property
    def ratio(self) -> Float[Array, " m"]:
        """Observed over predicted."""
        return self.observed / self.prediction.times

    def __str__(self) -> str:
        head = f"{'mode':>6} {'limit':>12} {'predicted':>12} {'observed':>12} {'ratio':>12}"
        rows = zip(self.prediction.limit, self.prediction.times, self.observed, self.ratio, strict=True)
        return "\n".join(
            [f"half times, prediction: {self.prediction.kind}", head]
            + [
                f"{i:>6} {s:>12.6g} {_time(t)} {_time(seen)} {_time(r)}"
                for i, (s, t, seen, r) in enumerate(rows, start=1)
            ]
            + [f"observed between records up to {self.spacing.max():.3g} apart"] * bool(self.spacing.any())
        )


def plateau_times(problem: Problem) -> Plateaus:
    """When each mode will be half learned, from the initial weights of any deep linear network; `kind` says how well.

    Parameters
    ----------
    problem : two linear layers or more, without weight decay

    Returns
    -------
    Plateaus : `times`, nan for never, by `kind` of prediction; `initial` strengths and `limit`

    >>> task = lr.Task.from_correlations([[4.0, 0.0], [0.0, 1.0]])
    >>> print(lr.landscape.plateau_times(lr.Problem(task, lr.inits.aligned(0, task, hidden=3, strengths=1e-6))))
    half times, exact
      mode        limit      initial    half time
         1            4        1e-06      1.90023
         2            1        1e-06      6.90776
    """
    as_problem(problem)
    facts = problem.facts
    if not facts.activation.linear:
        raise InvalidInput(f"plateau_times reads linear networks, and this one is {facts.kind}.")
    needs_no_biases(problem.network, "plateau_times")
    needs_squared_loss(problem, "plateau_times")
    if facts.depth == 1:
        raise InvalidInput("plateau_times needs two layers or more, and this network has one: it has no plateaus.")
    if facts.weight_decay:
        raise InvalidInput(f"plateau_times has no weight decay, and this problem has {facts.weight_decay:g}.")
    if not facts.methods["modes"]:
        return _aligned_two_layers(problem)
    if not facts.methods["deep_modes"]:
        return _aligned_deep(problem)
    if not facts.whitened:
        raise InvalidInput(
            f"plateau_times needs whitened inputs (Σxx = c·I), or modes that do not interact, and these inputs are "
            f"off by {facts.whitening_error:.2g}: observables.half_times shows the times along a trajectory."
        )
    return _small_two_layers(problem) if facts.depth == 2 else _small_deep(problem)


def compare_plateaus(traj: Trajectory) -> PlateauComparison:
    """Half times as predicted from the initial weights, and as they are along a trajectory (exact ones: at any times).

    Parameters
    ----------
    traj : a trajectory of such a problem

    Returns
    -------
    PlateauComparison : `prediction`, `observed` half times and their `ratio`

    >>> task = lr.Task.from_correlations([[4.0, 0.0], [0.0, 1.0]])
    >>> problem = lr.Problem(task, lr.inits.zero_balanced(1, sizes=(2, 3, 2), scale=1e-6))
    >>> lr.landscape.compare_plateaus(lr.solve(problem, [0.0, 100.0])).ratio.round(4)
    array([1., 1.])
    """
    traj = as_trajectory(traj)
    prediction = plateau_times(traj.problem)
    U, V, limit = prediction.U, prediction.V, prediction.limit

    def strengths(function: Any) -> Float[Array, "T m"]:
        return np.sum(U * (np.asarray(function) @ V), axis=1)

    if traj.solution is None:
        if not traj.knows("function"):
            raise InvalidInput("compare_plateaus needs the function of a trajectory: try record='function'.")
        times, a = traj.clock, strengths(traj.function)
        if times[0] > 0:
            times = np.append(0.0, times)
            a = np.concatenate([strengths(traj.problem.network.function[None]), a])
        observed = half_times(times, a, limit)
        after = np.clip(np.searchsorted(times, observed), 1, len(times) - 1) if len(times) > 1 else 0
        return PlateauComparison(
            prediction, observed, np.where(np.isfinite(observed), times[after] - times[after - 1], 0.0)
        )
    solution = traj.solution
    observed = crossings_of(lambda times: strengths(solution.function(times)), time_grid(traj), limit)
    return PlateauComparison(prediction, observed, np.zeros_like(observed))


def _aligned_two_layers(problem: Problem) -> Plateaus:
    """The Riccati equation of z = N + 2a, solved for the time."""
    alone, fit = ModesSolution(problem), problem.alignment
    s = np.divide(alone.s, alone.d, out=np.zeros_like(alone.s), where=alone.d > 0)
    l, a0, a = alone.l, alone.a0, (s + alone.a0) / 2

    def sum_of(a: Float[Array, " m"]) -> Float[Array, " m"]:  # √(l² + 4a²) + 2a without cancellation
        large = np.hypot(l, 2 * a) + 2 * np.abs(a)
        return np.where(a >= 0, large, np.divide(l**2, large, out=np.zeros_like(a), where=large > 0))

    z0, z, K = sum_of(a0), sum_of(a), np.hypot(l, 2 * s)
    with np.errstate(divide="ignore", invalid="ignore"):  # at infinity and where there is nothing to learn
        t = 2 / K * np.arctanh(K * (z - z0) / (2 * s * (z + z0) + l**2 - z * z0)) / alone.d
    gain = problem.canonical.gain
    return _plateaus("exact", fit.U, fit.V, s / gain, a0 / gain, t)


def _aligned_deep(problem: Problem) -> Plateaus:
    """The quadrature of each mode, from its beginning to half way."""
    alone, fit = DeepModesSolution(problem), problem.alignment
    limit = np.divide(alone.s, alone.d, out=np.zeros_like(alone.s), where=alone.d > 0)
    a0 = np.prod(alone.initial, axis=0)
    return _plateaus("exact", fit.U, fit.V, limit, a0, alone.courses.when((limit + a0) / 2))


def _small_two_layers(problem: Problem) -> Plateaus:
    """New parts of the rows, strongest mode first: the row echelon form of the exact solution, at λ = 0."""
    unit, fit = problem.canonical, problem.alignment
    W1, W2 = (k * W for k, W in zip(unit.k, problem.network.weights, strict=True))
    F = spectrum(fit.U, fit.s * (unit.gain / unit.clock), fit.V, 0.0)
    graded = grade(np.concatenate([W1.T, W2]), F, unit.target, eps=problem.network.eps, eps_task=problem.task.eps)
    U, V, a0 = fit.U.copy(), fit.V.copy(), np.zeros(len(F.s))
    for group in equal_groups(F.s[F.s > 0]):
        new = graded.L[group][:, (graded.pivots >= group.start) & (graded.pivots < group.stop)]
        R, lengths, _ = np.linalg.svd(new)  # among equal modes: the directions in which new parts are orthogonal
        U[:, group], V[:, group] = U[:, group] @ R, V[:, group] @ R
        a0[group.start : group.start + len(lengths)] = lengths**2 / 2
    with np.errstate(divide="ignore", invalid="ignore"):  # a0 = 0: never
        t = np.log1p(F.s / a0) / (2 * F.s) / unit.clock
    return _plateaus("leading order", U, V, F.s / unit.gain, a0 / unit.gain, t)


def _small_deep(problem: Problem) -> Plateaus:
    """The balanced mode that would be learned as fast."""
    unit, fit, L = problem.canonical, problem.alignment, problem.network.depth
    m, weights = len(fit.s), [k * W for k, W in zip(unit.k, problem.network.weights, strict=True)]
    after, before = [fit.U[:, :m]], [fit.V[:, :m]]
    for W in weights[:-1]:
        before.append(W @ before[-1])
    for W in weights[:0:-1]:
        after.insert(0, W.T @ after[0])
    K = sum(np.sum(a**2, axis=0) * np.sum(b**2, axis=0) for a, b in zip(after, before, strict=True))
    a0, s = (K / L) ** (L / (2 * L - 2)), fit.s * (unit.gain / unit.clock)
    a0[min(problem.network.sizes) :] = 0.0  # no room
    with np.errstate(divide="ignore", invalid="ignore"):  # a0 = 0: never
        t = a0 ** (2 / L - 1) / ((L - 2) * s) / unit.clock
    return _plateaus("scaling only", fit.U, fit.V, s / unit.gain, a0 / unit.gain, t)


def _plateaus(kind: str, U: Any, V: Any, limit: Float[Array, " m"], initial: Any, times: Any) -> Plateaus:
    m, there = len(limit), np.abs(limit - initial) <= _THERE * np.abs(limit).max(initial=0.0)
    comes = np.isfinite(times) & (limit > 0) & ~there
    return Plateaus(kind, U[:, :m], V[:, :m], limit, initial, np.where(comes, times, np.nan))


def _time(value: float) -> str:
    return f"{'–' if np.isnan(value) else f'{value:.6g}':>12}"
