"""Every mode of a random initialisation alone, in closed form, and how far that may be off (theory: section 11).

Two linear layers, white inputs. In the task's singular vectors, p = vᵀW1ᵀW1v, r = uᵀW2W2ᵀu and a = uᵀW2W1v of
a mode obey

    ȧ = (p + r)(s − a),     ṗ = ṙ = 2a(s − a),     so     ȧ = 2√(a² + c²)(s − a)  with  c² = ((p + r)/2)² − a²

as long as the modes do not feel each other: the curve of `modes` with |λ| = 2c. Of a wide random initialisation the
off-diagonal entries, which couple them, are smaller than the diagonal ones by 1/√h. They enter the modes at second
order, so the curves are off by O(1/h).

How far off is not guessed but computed. To first order the entries of each pair of modes follow a linear equation of
their own, driven by the curves (e = s − a):

    Ȧ_αβ = −(r_α + p_β) A_αβ + e_α P_αβ + R_αβ e_β
    Ṗ_αβ = (e_α − a_α) A_αβ + (e_β − a_β) A_βα
    Ṙ_αβ = (e_β − a_β) A_αβ + (e_α − a_α) A_βα

and what they do to the modes is the response to

    ȧ_α: −Σ_γ (R_αγ A_γα + A_αγ P_γα),     ṗ_α: −2 Σ_γ A_γα²,     ṙ_α: −2 Σ_γ A_αγ²

Both are integrated on a grid, m(d_in + d_out) numbers at a time, by the implicit midpoint rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lazyrich._typing import Array, Float
from lazyrich.methods.modes import mode_strength

if TYPE_CHECKING:
    from lazyrich.problem import Problem

_WHITE = 1e-3  # inputs this far from white count as white here
_NEWTON = 4  # steps: the response is small, and the step is not stiff beyond its linear part


class Pairs(NamedTuple):
    """The entries of A, P and R that couple modes α < β, one number per pair."""

    ab: Float[Array, " pairs"]  # A_αβ
    ba: Float[Array, " pairs"]  # A_βα
    P: Float[Array, " pairs"]
    R: Float[Array, " pairs"]


class Coupled(NamedTuple):
    """What the couplings do, at each time: to the strengths at second order, and their own first order in W."""

    correction: Float[Array, "T m"]
    function: Float[Array, "T out in"]


@dataclass(frozen=True, eq=False)
class Decoupled:
    """The modes of a problem, each by itself.

    >>> task = lr.Task.from_correlations([[2.0, 0.0], [0.0, 1.0]])
    >>> problem = lr.Problem(task, lr.inits.gaussian(0, sizes=(2, 500, 2), scale=0.01))
    >>> Decoupled(problem).strengths(np.array([0.5, 10.0])).round(3)
    array([[0.174, 0.056],
           [2.   , 1.   ]])
    """

    problem: Problem

    @staticmethod
    def applies(problem: Problem) -> bool:
        """Two linear layers, white inputs, squared loss, no weight decay; couplings of any size, which the correction
        tells of."""
        facts = problem.facts
        linear = facts.depth == 2 and facts.activation.linear and not facts.biased
        return linear and facts.whitening_error <= _WHITE and not facts.weight_decay and facts.loss.squared

    @cached_property
    def s(self) -> Float[Array, " m"]:
        """Singular values of the target, in the units of the canonical problem, as all below."""
        unit = self.problem.canonical
        return unit.gain * self.problem.alignment.s / unit.clock

    @property
    def limit(self) -> Float[Array, " m"]:
        """Where the modes end, in the units of the problem."""
        return self.problem.alignment.s / self.problem.task.input_scale

    @cached_property
    def blocks(self) -> tuple[Float[Array, "d d"], Float[Array, "d d"], Float[Array, "d d"]]:
        """A, P and R at first in the task's vectors, padded with zeros to squares: a direction without a partner is a
        mode of strength zero that nothing drives."""
        fit, unit = self.problem.alignment, self.problem.canonical
        W1, W2 = (k * W for k, W in zip(unit.k, self.problem.network.weights, strict=True))
        into, out = W1 @ fit.V, fit.U.T @ W2
        d = max(into.shape[1], len(out))
        into, out = np.pad(into, ((0, 0), (0, d - into.shape[1]))), np.pad(out, ((0, d - len(out)), (0, 0)))
        return out @ into, into.T @ into, out @ out.T

    @cached_property
    def c(self) -> Float[Array, " m"]:
        """√(((p + r)/2)² − a²) of each mode: lazy where it is large beside s, rich where it is small."""
        a, p, r = (np.diag(block)[: len(self.s)] for block in self.blocks)
        half = (p + r) / 2
        return np.sqrt(np.maximum((half - np.abs(a)) * (half + np.abs(a)), 0.0))

    def strengths(self, times: Float[Array, " T"]) -> Float[Array, "T m"]:
        """a of each mode at each time, in closed form."""
        return self._a(times * self.problem.canonical.clock) / self.problem.canonical.gain

    def _a(self, clock: Float[Array, " T"]) -> Float[Array, "T m"]:
        return mode_strength(self.s, np.diag(self.blocks[0])[: len(self.s)], 2 * self.c, clock[:, None])

    def coupled(self, times: Float[Array, " T"], keep: Array) -> Coupled:
        """What the couplings do on a grid of times that begins at 0; of the functions only those at `keep`."""
        A, P, R = self.blocks
        unit, m, d = self.problem.canonical, len(self.s), len(A)
        alpha, beta = np.nonzero(np.arange(m)[:, None] < np.arange(d))
        pairs = Pairs(A[alpha, beta], A[beta, alpha], P[alpha, beta], R[alpha, beta])
        clock = times * unit.clock
        s, a = np.zeros(d), np.zeros((len(times) - 1, d))
        s[:m], a[:, :m] = self.s, self._a((clock[1:] + clock[:-1]) / 2)
        p, r = self._lengths(a)
        da, dN = np.zeros(m), np.zeros(m)
        corrections, functions, kept = [da], [], set(keep.tolist())
        diagonal = self._a(clock)
        if 0 in kept:
            functions.append(self._function(diagonal[0], pairs, alpha, beta))
        for i, h in enumerate(np.diff(clock)):
            middle = _midpoint(
                pairs, h / 2, (s - a[i])[[alpha, beta]], a[i][[alpha, beta]], r[i][[alpha, beta]], p[i][[alpha, beta]]
            )
            pairs = Pairs(*(2 * new - old for new, old in zip(middle, pairs, strict=True)))
            force = _force(middle, alpha, beta, d)[:, :m]
            da, dN = _response(da, dN, h / 2, force, s[:m], a[i][:m], (p[i] + r[i])[:m])
            corrections.append(da)
            if i + 1 in kept:
                functions.append(self._function(diagonal[i + 1] + da, pairs, alpha, beta))
        return Coupled(np.array(corrections) / unit.gain, np.array(functions))

    def _lengths(self, a: Float[Array, "T d"]) -> tuple[Float[Array, "T d"], Float[Array, "T d"]]:
        """p and r of each mode, from a; without a partner they stay as they are."""
        _, P, R = self.blocks
        p, r, m = np.tile(np.diag(P), (len(a), 1)), np.tile(np.diag(R), (len(a), 1)), len(self.s)
        shift, root = (np.diag(P) - np.diag(R))[:m] / 2, np.hypot(a[:, :m], self.c)
        p[:, :m], r[:, :m] = root + shift, root - shift
        return p, r

    def _function(self, a: Float[Array, " m"], pairs: Pairs, alpha: Array, beta: Array) -> Float[Array, "out in"]:
        fit, (out, into) = self.problem.alignment, self.problem.task.sigma_yx.shape
        W, m = np.zeros((out, into)), np.arange(len(a))
        right, left = beta < into, beta < out
        W[alpha[right], beta[right]], W[beta[left], alpha[left]], W[m, m] = pairs.ab[right], pairs.ba[left], a
        return fit.U @ W @ fit.V.T / self.problem.canonical.gain


def _midpoint(pairs: Pairs, half: float, e: Array, a: Array, r: Array, p: Array) -> Pairs:
    """The pairs in the middle of an implicit step of 2·half; e, a, r and p there, of α and of β."""
    u, (e1, e2), k = e - a, e, half * half
    both = k * (e1 * u[0] + e2 * u[1])
    of_ab, of_ba = 1 + half * (r[0] + p[1]) - both, 1 + half * (r[1] + p[0]) - both
    cross = -k * (e1 * u[1] + e2 * u[0])
    ab, ba = pairs.ab + half * (e1 * pairs.P + e2 * pairs.R), pairs.ba + half * (e2 * pairs.P + e1 * pairs.R)
    determinant = of_ab * of_ba - cross * cross
    ab, ba = (of_ba * ab - cross * ba) / determinant, (of_ab * ba - cross * ab) / determinant
    return Pairs(ab, ba, pairs.P + half * (u[0] * ab + u[1] * ba), pairs.R + half * (u[1] * ab + u[0] * ba))


def _force(pairs: Pairs, alpha: Array, beta: Array, d: int) -> Float[Array, "two d"]:
    """What the pairs add to ȧ and to ṗ + ṙ of each mode."""

    def summed(of_alpha: Array, of_beta: Array) -> Array:
        return np.bincount(alpha, of_alpha, d) + np.bincount(beta, of_beta, d)

    ab, ba, P, R = pairs
    squares = ab * ab + ba * ba
    return np.array([-summed(R * ba + ab * P, R * ab + ba * P), -2 * summed(squares, squares)])


def _response(da: Array, dN: Array, half: float, force: Array, s: Array, a: Array, N: Array) -> tuple[Array, Array]:
    """One implicit step of the deviations δa and δN from ȧ = N(s − a), Ṅ = 4a(s − a), N = p + r, under a force."""
    e, (x, y) = s - a, (da, dN)
    for _ in range(_NEWTON):
        off_x = x - da - half * (y * e - N * x - y * x + force[0])
        off_y = y - dN - half * (4 * (e - a) * x - 4 * x * x + force[1])
        xx, xy, yx = 1 + half * (N + y), -half * (e - x), -half * (4 * (e - a) - 8 * x)
        determinant = xx - xy * yx
        x, y = x - (off_x - xy * off_y) / determinant, y - (xx * off_y - yx * off_x) / determinant
    return 2 * x - da, 2 * y - dN
