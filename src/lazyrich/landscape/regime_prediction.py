"""Lazy, rich or delayed rich, before any training: Kunin et al. 2024, Theorems 2, 3 and 6 made quantitative.

A two-layer linear network moves in function space by Ẇ = (B R + R A)Σxx with A = W1ᵀW1, B = W2W2ᵀ and R = T − W: this
is M of Theorem 2. With M as it is at initialisation, the part of RΣxx^½ along an eigenvector of B (value b) and one of
bΣxx + Σxx^½AΣxx^½ (value m; a + b for white inputs) is fitted at the rate m. Where one layer dominates, M reaches what
that layer spans: Theorem 6 calls it lazy if the solution lies there, and if not, the rest waits until that layer has
turned, and the regime is delayed rich. Here the limits become numbers. The rest is what M fits ten times slower than
what it fits first.

- Early movement of the kernel: by fitting all but the rest. Where it ends follows from W and the conserved
  D = W2ᵀW2 − W1W1ᵀ (for D = δI that is Theorem 3).
- Late movement: by fitting the rest, which grows at √(s² + m²/4) − m/2 for a mode of strength s, m the largest rate:
  s²/m where one layer is large (theory: section 2).
- What these movements are called is said in `lazyrich.laziness.definition`: lazy, if both are below a tenth; delayed
  rich, if more than half is late, by ten times the time in which the first kernel learns; else rich. What is less than
  a hundredth of the loss is not waited for.

These are estimates. On random problems they name the measured regime in 97 of 100 cases; where they do not, an
initialisation that is neither small nor dominated by one layer is the rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.landscape._kernel_rates import KernelRates
from lazyrich.laziness.definition import USUAL, Judgement, RegimeName, Thresholds, judge, percent
from lazyrich.problem import Problem, as_problem, needs_no_biases, needs_squared_loss

_STEPS = 8  # of the way to what is fitted first; the kernel is needed to a percent


@dataclass(frozen=True)
class RegimePrediction:
    """A word, and the numbers behind it; all are known before training.

    >>> problem = lr.Problem(lr.Task.from_correlations([[0.0, 1.0]]), lr.inits.single_neuron([1.0, 0.1], delta=-20.0))
    >>> found = lr.predict_regime(problem)
    >>> found.name, round(found.missing, 2), round(found.delay)
    ('delayed rich', 0.55, 202)
    """

    judgement: Judgement  # its kernel_distance is nan unless lazy: how far a rich kernel turns is not known before
    early_movement: float  # of the kernel, relative, by what is fitted first
    missing: float  # share of the loss that has to wait
    delay: float  # when half of that is fitted, over the time in which the first kernel learns; 0: nothing waits
    balance: tuple[float, float]  # least and largest eigenvalue of D = W2ᵀW2 − W1W1ᵀ, relative to the target's norm
    limit: str  # what Theorem 6 says of the limit that this balance tends to

    @property
    def name(self) -> RegimeName:
        """ "lazy", "rich" or "delayed rich"; "unknown" where the kernel is zero."""
        return self.judgement.name

    @property
    def late_movement(self) -> float:
        """Of the kernel, relative, by all that is to be fitted."""
        return self.judgement.kernel_movement

    def __str__(self) -> str:
        if self.name is RegimeName.UNKNOWN:
            return str(self.judgement)
        turned = "" if np.isfinite(self.judgement.kernel_distance) else "; how far it turns is not predicted"
        words = f"{self.judgement} (estimated before training){turned}; the kernel of the initialisation fits "
        words += f"{1 - self.missing:.0%}, moving by {percent(self.early_movement)}"
        if self.missing:
            words += "; the rest follows"
            if self.delay > 1:
                words += f", half of it after {self.delay:.3g} times the time in which that kernel learns"
                words += f" (over {self.judgement.thresholds.late:g} times is delayed)"
        return f"{words}; D from {self.balance[0]:.3g} to {self.balance[1]:.3g}: {self.limit}"


def limiting_regimes(sizes: object) -> dict[str, str]:
    """What Theorem 6 says of two layers of these sizes, from generic weights, in the three limits of δ.

    One layer dominates as δ → ±∞, and the network is lazy if that layer alone reaches every output (δ → ∞) or
    reads every input (δ → −∞).

    Parameters
    ----------
    sizes : widths (d_in, hidden, d_out)

    Returns
    -------
    dict : a word for each limit

    >>> lr.landscape.limiting_regimes((8, 3, 3))  # a funnel
    {'δ → −∞': 'delayed rich', 'δ → 0': 'rich', 'δ → ∞': 'lazy'}
    """
    d_in, h, d_out = _check.sizes(sizes, depth=2)
    word = {True: "lazy", False: "delayed rich"}
    return {"δ → −∞": word[h >= d_in], "δ → 0": "rich", "δ → ∞": word[h >= d_out]}


def predict_regime(problem: Problem, thresholds: Thresholds = USUAL) -> RegimePrediction:
    """The regime in which a two-layer linear network will learn, from its weights and the target alone.

    An estimate, right in about 97 of 100 random problems, and in 80 to 90 where the hidden layer is narrower than the
    task; `lr.regime(trajectory)` measures.

    Parameters
    ----------
    problem : two linear layers
    thresholds : where lazy ends and late begins

    Returns
    -------
    RegimePrediction : `name`, `early_movement`, `late_movement`, `missing`, `delay`, `balance`

    >>> task = lr.Task.from_correlations([[1.0, 2.0]])
    >>> [lr.predict_regime(lr.Problem(task, lr.inits.single_neuron([-1.0, 0.0], delta=d))).name for d in (-60, 0, 60)]
    ['delayed rich', 'rich', 'lazy']
    """
    as_problem(problem)
    network = problem.network
    if network.depth != 2 or not network.activation.linear:
        raise InvalidInput(
            f"predict_regime knows two-layer linear networks, and this one is {network!r}: "
            "lr.regime(trajectory) measures that of other linear networks, and of two layers with a ReLU."
        )
    needs_no_biases(network, "predict_regime")
    needs_squared_loss(problem, "predict_regime")
    v1, v2 = (k * W for k, W in zip(problem.canonical.k, network.weights, strict=True))
    T = _reachable(problem.task.target * problem.canonical.gain, len(v1))
    initial = _Initial(v1, v2, T - v2 @ v1, problem.task.sigma_xx, thresholds)
    early, delay, missing = initial.early(), initial.delay(), initial.missing
    late = early if missing < 1 - thresholds.learned else max(initial.late(), early)
    turned = late.distance if late.movement < thresholds.lazy else float("nan")  # a rich end is not known so well
    judged_delay = delay if early.movement <= late.movement / 2 else 0.0
    size = float(np.linalg.norm(T, 2)) or 1.0
    balance = np.linalg.eigvalsh(v2.T @ v2 - v1 @ v1.T) / size
    balance[np.abs(balance) <= 1e-12 * (np.sum(v1**2) + np.sum(v2**2)) / size] = 0.0
    return RegimePrediction(
        judgement=judge(late.movement, turned, delay=judged_delay, thresholds=thresholds),
        early_movement=early.movement,
        missing=missing,
        delay=delay,
        balance=(float(balance[0]), float(balance[-1])),
        limit=_limit(network.sizes, balance),
    )


class _Moved(NamedTuple):
    """From the kernel of the initialisation to another one."""

    movement: float
    distance: float


class _Initial:
    """What the kernel of the initialisation makes of the residual R; inputs in the basis where Σxx is diagonal."""

    def __init__(
        self,
        v1: Float[Array, "h in"],
        v2: Float[Array, "out h"],
        R: Float[Array, "out in"],
        xx: Float[Array, "in in"],
        thresholds: Thresholds,
    ) -> None:
        variances, E = np.linalg.eigh(xx)
        self.xx = np.maximum(variances, 0.0)
        self.v1, self.v2, self.R = (v1 @ E) * np.sqrt(self.xx), v2, (R @ E) * np.sqrt(self.xx)
        self.fitted = 1 - (1 - thresholds.learned) ** 0.5  # of R, by when the loss has fallen so far
        self.rates = KernelRates.of(self.v1, self.v2, self.xx)
        self.fastest = self.rates.largest
        self.many_times = thresholds.late
        self.rest = self.rates.apply(self.slow, self.R)

    def slow(self, rates: Array) -> Array:
        """Which rates are so far below the fastest that what they fit is late."""
        return rates * self.many_times < self.fastest

    @property
    def missing(self) -> float:
        """The rest as a share of the loss that there is to lose."""
        whole = np.sum(self.R**2)
        return float(np.sum(self.rest**2) / whole) if whole else 0.0

    def delay(self) -> float:
        """When half of the rest is fitted, in units of 1/‖M‖; 0 where there is no rest."""
        s = np.linalg.svd(self.rest, compute_uv=False)
        if not s.any():
            return 0.0
        drift = np.sum(self.rest * self.rates.apply(lambda m: m, self.rest)) / np.sum(self.rest**2)
        growth = s**2 / (np.hypot(s, self.fastest / 2) + self.fastest / 2)  # √(s² + m²/4) − m/2
        half = int(np.searchsorted(np.cumsum(s**2), np.sum(s**2) / 2))
        return float(self.fastest / (growth[half] + drift))

    def early(self) -> _Moved:
        """By fitting all but the rest, with D conserved on the way."""
        change = self.fitted / _STEPS * (self.R - self.rest)
        v1, v2 = self.v1, self.v2
        for _ in range(_STEPS):
            d1, d2 = self._step(v1, v2, change)
            d1, d2 = self._step(v1 + d1 / 2, v2 + d2 / 2, change)
            v1, v2 = v1 + d1, v2 + d2
        return self._moved_to(v1, v2)

    def late(self) -> _Moved:
        """The same by fitting the rest, in the direction that the first kernel gives it."""
        least = 1e-16 * self.fastest
        Z = self.fitted * self.rates.apply(lambda m: self.slow(m) / np.maximum(m, least), self.R)
        return self._moved_to(self.v1 + self.v2.T @ Z * self.xx, self.v2 + Z @ self.v1.T)

    def _step(
        self, v1: Float[Array, "h in"], v2: Float[Array, "out h"], change: Float[Array, "out in"]
    ) -> tuple[Float[Array, "h in"], Float[Array, "out h"]]:
        """The least step of the weights that changes W so, as far as it can: (v2ᵀZΣxx, Zv1ᵀ), BZΣxx + ZA = change."""
        rates = KernelRates.of(v1, v2, self.xx)
        least = 1e-3 * rates.largest
        if not least:
            return 0 * v1, 0 * v2
        Z = rates.apply(lambda m: 1 / np.maximum(m, least), change)
        return v2.T @ Z * self.xx, Z @ v1.T

    def _moved_to(self, v1: Float[Array, "h in"], v2: Float[Array, "out h"]) -> _Moved:
        """Movement and distance of the kernel B ⊗ Σxx + I ⊗ A from the one of the initialisation."""
        A, B, A0, B0 = v1.T @ v1, v2 @ v2.T, self.v1.T @ self.v1, self.v2 @ self.v2.T
        norm, first, change = (self._norm(*pair) for pair in ((A, B), (A0, B0), (A - A0, B - B0)))
        size, product = max(norm, first), norm * first
        turned = max((change**2 - (norm - first) ** 2) / (2 * product), 0.0) if product else float("nan")
        return _Moved(change / size if size else float("nan"), turned)

    def _norm(self, A: Float[Array, "in in"], B: Float[Array, "out out"]) -> float:
        """‖B ⊗ Σxx + I ⊗ A‖, Frobenius."""
        square = np.sum(self.xx**2) * np.sum(B**2) + len(B) * np.sum(A**2) + 2 * self.xx @ np.diag(A) * np.trace(B)
        return float(np.sqrt(max(square, 0.0)))


def _reachable(T: Float[Array, "out in"], h: int) -> Float[Array, "out in"]:
    """The best map of rank h, which is all that a bottleneck can learn."""
    if h >= min(T.shape):
        return T
    U, s, Vt = np.linalg.svd(T, full_matrices=False)
    return (U[:, :h] * s[:h]) @ Vt[:h]


def _limit(sizes: tuple[int, ...], balance: Float[Array, " h"]) -> str:
    limits = limiting_regimes(sizes)
    if balance[0] > 0:
        return f"{limits['δ → ∞']} as δ → ∞"
    if balance[-1] < 0:
        return f"{limits['δ → −∞']} as δ → −∞"
    return "rich as δ → 0" if not balance.any() else "D has both signs"
