"""Two layers whose D = W2ᵀW2 − W1W1ᵀ has two eigenvalues: λ-balanced networks are the boundary of this family
(theory: section 11).

With A = W2W1, P = W1ᵀW1, R = W2W2ᵀ and numbers c ≥ 0, |δ| ≤ 2c,

    (P − δ/2)² = AᵀA + c²,     (R + δ/2)² = AAᵀ + c²      (positive roots)

hold for ever if they hold at the beginning, and then A(t) is that of the λ-balanced network with |λ| = 2c and the
same A(0), its *partner*, which `method` solves: P = P_λ + (c + δ/2) and R = R_λ − (c + δ/2) for λ = 2c. For λ = −2c the
shift is δ/2 − c. Of the two the smaller shift is taken, so that nothing cancels.

In terms of D, the eigenvalue is c − δ/2 on d_out directions and −(c + δ/2) on d_in directions, all others being
without weights. Conditions: two linear layers, Σxx = c·I, no weight decay. Source: ours, following Tu et al. 2024.

The weights follow from Q̇ = MQ, M = [[0, Eᵀ], [E, 0]], Q = [W1ᵀ; W2], whose E = Σyx − A is known at every time: a linear
equation, solved by collocation at Gauss's points.

>>> network = lr.inits.orthogonal(0, sizes=(3, 9, 4), scales=(0.5, 0.2))
>>> problem = lr.Problem(lr.Task.from_correlations(np.eye(4, 3)), network)
>>> traj = lr.solve(problem, [0.0, 1.0, np.inf], method="family")
>>> traj.method, np.linalg.svd(traj.function[-1])[1].round(12)
('family', array([1., 1., 1.]))
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.facts import Condition, Facts, Refusal
from lazyrich.methods.base import Doubts, Method, Separatrix, Solution, linear_layers, white_inputs
from lazyrich.methods.riccati.collocation import gauss
from lazyrich.methods.riccati.method import Riccati, RiccatiSolution
from lazyrich.networks import Network

if TYPE_CHECKING:
    from lazyrich.problem import Problem

_STAGES = 8  # of a collocation step: order 16
_TAIL = 1e-7  # largest last Legendre coefficient of a step, relative: what comes after all 16 is its square
_REACH = 1.0  # longest step, in units of 1/‖E‖
_REST = 1e-15  # errors of the function that are nothing but rounding, relative
_PICARD = 24  # iterations that are enough for any step so long
_OF_PARTNER = 8.0  # its start is computed from D and W2W1: so many times the rounding of weights, at most (seen: 5.4)


class Family(Method):
    """Two linear layers on white inputs, D with two eigenvalues."""

    name = "family"
    citations = ("tu2024", "domine2025")

    def refusals(self, facts: Facts) -> Iterator[Refusal]:
        yield from linear_layers(facts, "two layers", least=2, most=2)
        yield from white_inputs(facts)
        if facts.depth == 2:  # others have no such D
            yield from _two_eigenvalues(facts)
        if facts.weight_decay:
            message = f"it needs a flow without weight decay, and it is {facts.weight_decay:g}"
            yield Refusal(Condition.DECAY, message, facts.weight_decay, 0.0)

    def solution(self, problem: Problem) -> FamilySolution:
        return FamilySolution(problem)


def _two_eigenvalues(facts: Facts) -> Iterator[Refusal]:
    if facts.zero_balanced:
        yield Refusal(Condition.BALANCED, "it needs a W2ᵀW2 − W1W1ᵀ that is not zero, and here it is", 0.0, 0.0)
    elif not facts.in_family:
        off = facts.family_error
        message = (
            f"it needs layers whose W2ᵀW2 − W1W1ᵀ has two eigenvalues, and these are off by {off:.2g} of their size"
        )
        yield Refusal(Condition.BALANCED, message, off, facts.tolerance)


class FamilySolution(Solution):
    """The partner's solution, its blocks shifted."""

    gives_gram = True

    def __init__(self, problem: Problem) -> None:
        self.problem, unit, (c, delta) = problem, problem.canonical, problem.facts.family
        side = -1.0 if delta > 0 else 1.0  # of λ
        W1, W2 = _partner(unit.gain * problem.network.function, c, side)
        partner = Network([W1 / unit.k[0], W2 / unit.k[1]]).known_to(problem.network.eps)
        self.partner: RiccatiSolution = Riccati().solution(replace(problem, network=partner))
        k = np.repeat(np.square(unit.k), [problem.task.d_in, problem.task.d_out])
        J = np.repeat([1.0, -1.0], [problem.task.d_in, problem.task.d_out])
        self.shift = np.diag(J * (side * c + delta / 2) / k)
        W1, W2 = problem.network.weights
        self.Q0 = np.concatenate([unit.k[0] * W1.T, unit.k[1] * W2])

    def function(self, times: Array) -> Array:
        return self.partner.function(times)

    def loss(self, times: Float[Array, " T"]) -> Float[Array, " T"]:
        return self.partner.loss(times)

    def mode_strengths(
        self, times: Float[Array, " T"], U: Float[Array, "out m"], V: Float[Array, "in m"]
    ) -> Float[Array, "T m"]:
        return self.partner.mode_strengths(times, U, V)

    def gram(self, times: Array) -> Array:
        G = self.partner.gram(times)
        G += self.shift  # in its place: it may fill the memory
        return G

    def analytic(self, times: Any) -> dict[str, Any]:
        return {"gram": self.partner.analytic(times)["gram"] + self.shift}

    def weights(self, times: Float[Array, " T"]) -> list[Float[Array, "T out in"]]:
        """W1(t) and W2(t) in the given hidden basis."""
        unit, d_in = self.problem.canonical, self.problem.task.d_in
        Q = self._carried(unit.clock * times)
        return [np.swapaxes(Q[:, :d_in], 1, 2) / unit.k[0], Q[:, d_in:] / unit.k[1]]

    def _carried(self, times: Float[Array, " T"]) -> Float[Array, "T n h"]:
        """Q in the units of the canonical problem, carried along by its linear equation."""
        basis, rows = np.linalg.qr(self.Q0.T)  # hidden directions without weights stay without
        rest = _REST * (np.linalg.norm(self.problem.canonical.target, 2) + np.linalg.norm(self.Q0) ** 2)
        Q, now, H, carried = rows.T, 0.0, np.inf, []
        for t in times:
            while now < t:
                size = float(np.linalg.norm(self._error(np.array([now]))[0], 2))
                if size <= rest:
                    break
                H = min(H, _REACH / size, t - now)
                moved, tail = _collocated(Q, self._error(now + H * gauss(_STAGES).points), H)
                factor = 0.9 * (_TAIL / max(tail, 1e-30)) ** (1 / _STAGES)
                if tail <= 2 * _TAIL:
                    Q, now = moved, (now + H if t - now > H else t)
                H *= min(4.0, max(0.2, factor))
            now = t
            carried.append(Q @ basis.T)
        return np.stack(carried)

    def _error(self, times: Float[Array, " T"]) -> Float[Array, "T out in"]:
        unit = self.problem.canonical
        return unit.target - unit.gain * self.function(times / unit.clock)

    @property
    def imbalance(self) -> float:
        return self.problem.facts.orbit_error

    def doubts_until(self, time: float) -> Doubts:
        return Doubts(*(_OF_PARTNER * doubt for doubt in self.partner.doubts_until(time)))

    def likely_half_times(self) -> Float[Array, " k"]:
        return self.partner.likely_half_times()

    def separatrix(self) -> Separatrix:
        return self.partner.separatrix()

    def restarted(self, time: float) -> FamilySolution:
        later = copy(self)
        later.partner = self.partner.restarted(time)
        later.Q0 = self._carried(np.array([self.problem.canonical.clock * time]))[0]
        return later


def _partner(A: Float[Array, "out in"], c: float, side: float) -> tuple[Array, Array]:
    """The layers of the function A with λ = 2c (side 1, as wide as the outputs) or λ = −2c (as wide as the inputs)."""
    if side < 0:
        W1, W2 = _partner(A.T, c, 1.0)
        return W2.T, W1.T
    U, s, Vt = np.linalg.svd(A)
    m, larger = len(s), np.full(len(U), np.sqrt(2 * c))
    larger[:m] = np.sqrt(np.hypot(s, c) + c)
    W1 = np.zeros(A.shape)
    W1[:m] = np.divide(s, larger[:m], out=np.zeros(m), where=larger[:m] > 0)[:, None] * Vt[:m]
    return W1, U * larger


def _collocated(Q: Float[Array, "n h"], E: Float[Array, "s out in"], H: float) -> tuple[Float[Array, "n h"], float]:
    """One step of Q̇ = MQ, and the size of the last Legendre coefficient of Q̇, relative."""
    _, integrals, weights, coefficients = gauss(_STAGES)
    d_in = E.shape[2]
    K = np.zeros((len(E), *Q.shape))
    for _ in range(_PICARD):
        at = Q + H * np.tensordot(integrals, K, axes=1)
        new = np.concatenate([np.swapaxes(E, 1, 2) @ at[:, d_in:], E @ at[:, :d_in]], axis=1)
        settled = np.abs(new - K).max() <= 1e-16 * np.abs(new).max()
        K = new
        if settled:
            break
    tail = H * float(np.linalg.norm(np.tensordot(coefficients[-1], K, axes=1))) / float(np.linalg.norm(Q))
    return Q + H * np.tensordot(weights, K, axes=1), tail
