"""Lazy, rich or delayed rich, before any training: Kunin et al. 2024, Theorems 2, 3 and 6 made quantitative.

A two-layer linear network moves in function space by Ẇ = (B R + R A)Σxx with A = W1ᵀW1, B = W2W2ᵀ and R = T − W:
this is M of Theorem 2. With M as it is at the start, the part of RΣxx^½ along an eigenvector of B (value b) and one of
bΣxx + Σxx^½AΣxx^½ (value m; a + b for white inputs) is fitted at the rate m. Where one layer dominates, M reaches what
that layer spans: Theorem 6 calls it lazy if the solution lies there, and if not, the rest waits until that layer has
turned, and the regime is delayed rich. Here the limits become numbers. The rest is what M fits ten times slower than
what it fits first.

- Early movement of the kernel: by fitting all but the rest. Where it ends follows from W and the conserved
  Δ = W2ᵀW2 − W1W1ᵀ (for Δ = δI that is Theorem 3).
- Late movement: by fitting the rest, which grows at √(s² + m²/4) − m/2 for a mode of strength s, m the largest rate:
  s²/m where one layer is large (theory: section 2).
- Less than a tenth of both: lazy. More than half of it late, by ten times the start's own time: delayed rich. Else
  rich. What is less than a hundredth of the loss is not waited for.

These are estimates. On random problems they name the measured regime in 97 of 100 cases; where they do not, a start
that is neither small nor dominated by one layer is the rule.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.landscape.regime import DELAY, LAZY, NEGLIGIBLE
from lazyrich.problem import Problem, as_problem

__all__ = ["RegimePrediction", "limiting_regimes", "predict_regime"]

_FITTED = 1 - NEGLIGIBLE**0.5  # of the residual, by when the loss has fallen so far that no more counts
_MANY = 1e8  # operations, outputs × inputs³, beyond which correlated inputs are taken for white ones
_STEPS = 8  # of the way to what is fitted first; the kernel is needed to a percent


@dataclass(frozen=True)
class RegimePrediction:
    """A word, and the numbers behind it; all are known before training.

    >>> problem = lr.Problem(lr.Task.from_correlations([[0.0, 1.0]]), lr.inits.single_neuron([1.0, 0.1], delta=-20.0))
    >>> found = lr.predict_regime(problem)
    >>> found.name, round(found.missing, 2), round(found.delay)
    ('delayed rich', 0.55, 202)
    """

    name: str  # "lazy", "rich" or "delayed rich"
    early_movement: float  # of the kernel, relative, by what is fitted first
    late_movement: float  # of the kernel, relative, by all that is to be fitted
    missing: float  # share of the loss that has to wait
    delay: float  # when half of that is fitted, in units of the start's own time; 0 where nothing has to wait
    balance: tuple[float, float]  # least and largest eigenvalue of Δ = W2ᵀW2 − W1W1ᵀ, relative to the target's norm
    limit: str  # what Theorem 6 says of the limit that this balance tends to

    def __str__(self) -> str:
        words = f"{self.name}: the start's kernel fits {1 - self.missing:.0%}, moving by {self.early_movement:.1%}"
        if self.missing:
            when = f", {self.delay:.3g} times later," if self.delay > 1 else ""
            words += f"; the rest{when} moves it by {self.late_movement:.1%}"
        words += f" (rich from {LAZY:.0%}, delayed from {DELAY:g} times)"
        return f"{words}; Δ from {self.balance[0]:.3g} to {self.balance[1]:.3g}: {self.limit}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {key: None if value != value else value for key, value in asdict(self).items()}


def limiting_regimes(sizes: Any) -> dict[str, str]:
    """What Theorem 6 says of two layers of these sizes, from generic starts, in the three limits of δ.

    One layer dominates as δ → ±∞, and the network is lazy if that layer alone reaches every output (δ → ∞) or
    reads every input (δ → −∞).

    >>> limiting_regimes((8, 3, 3))  # a funnel
    {'δ → −∞': 'delayed rich', 'δ → 0': 'rich', 'δ → ∞': 'lazy'}
    """
    d_in, h, d_out = _check.sizes(sizes, depth=2)
    word = {True: "lazy", False: "delayed rich"}
    return {"δ → −∞": word[h >= d_in], "δ → 0": "rich", "δ → ∞": word[h >= d_out]}


def predict_regime(problem: Problem) -> RegimePrediction:
    """The regime in which a two-layer linear network will learn, from its weights and the target alone.

    An estimate, right in about 97 of 100 random problems; `lr.regime(trajectory)` measures. Very many correlated inputs
    (outputs × inputs³ above 1e8) are taken for white ones of the same mean variance.

    >>> import lazyrich as lr
    >>> task = lr.Task.from_correlations([[1.0, 2.0]])
    >>> [predict_regime(lr.Problem(task, lr.inits.single_neuron([-1.0, 0.0], delta=d))).name for d in (-60, 0, 60)]
    ['delayed rich', 'rich', 'lazy']
    """
    as_problem(problem)
    network = problem.network
    if network.depth != 2 or network.activation != "linear":
        raise InvalidInput(
            f"predict_regime knows two-layer linear networks, and this one is {network!r}: "
            "lr.regime(trajectory) measures that of other linear networks, and of two layers with a ReLU."
        )
    v1, v2 = (k * W for k, W in zip(problem.canonical.k, network.weights, strict=True))
    T = _reachable(problem.task.target * problem.canonical.gain, len(v1))
    start = _Start(v1, v2, T - v2 @ v1, problem.task.sigma_xx)
    early, delay, missing = start.early_movement(), start.delay(), start.missing
    late = early if missing < NEGLIGIBLE else max(start.late_movement(), early)
    name = "rich" if late >= LAZY else "lazy"
    if name == "rich" and delay > DELAY and early <= late / 2:
        name = "delayed rich"
    size = float(np.linalg.norm(T, 2)) or 1.0
    balance = np.linalg.eigvalsh(v2.T @ v2 - v1 @ v1.T) / size
    balance[np.abs(balance) <= 1e-12 * (np.sum(v1**2) + np.sum(v2**2)) / size] = 0.0
    return RegimePrediction(
        name=name,
        early_movement=early,
        late_movement=late,
        missing=missing,
        delay=delay,
        balance=(float(balance[0]), float(balance[-1])),
        limit=_limit(network.sizes, balance),
    )


class _Start:
    """What the kernel of the start makes of the residual R, direction by direction; inputs in the basis where Σxx is
    diagonal and, where they are white, A too."""

    def __init__(
        self, v1: Float[Array, "h in"], v2: Float[Array, "out h"], R: Float[Array, "out in"], xx: Float[Array, "in in"]
    ) -> None:
        variances, E = np.linalg.eigh(xx)
        root = np.sqrt(np.maximum(variances, 0.0))
        self.xx, self.v1, self.v2 = np.diag(root**2), (v1 @ E) * root, v2
        self.R = (R @ E) * root
        b, self.U = np.linalg.eigh(v2 @ v2.T)
        self.rates, self.V = _rates(self.v1, np.maximum(b, 0.0), self.xx)
        self.fastest = float(self.rates.max())
        self.turned = np.einsum("oi,oij->oj", self.U.T @ self.R, self.V)
        self.rest = np.where(self.rates * DELAY < self.fastest, self.turned, 0.0)

    @property
    def missing(self) -> float:
        """The rest as a share of the loss that there is to lose."""
        whole = np.sum(self.turned**2)
        return float(np.sum(self.rest**2) / whole) if whole else 0.0

    def delay(self) -> float:
        """When half of the rest is fitted, in units of 1/‖M‖; 0 where there is no rest."""
        s = np.linalg.svd(self.rest, compute_uv=False)
        if not s.any():
            return 0.0
        drift = np.sum(self.rest**2 * self.rates) / np.sum(self.rest**2)
        growth = s**2 / (np.hypot(s, self.fastest / 2) + self.fastest / 2)  # √(s² + m²/4) − m/2
        half = int(np.searchsorted(np.cumsum(s**2), np.sum(s**2) / 2))
        return float(self.fastest / (growth[half] + drift))

    def early_movement(self) -> float:
        """Of the kernel, relative to the larger, by fitting all but the rest, with Δ conserved on the way."""
        fitted = _FITTED / _STEPS * self.U @ np.einsum("oj,oij->oi", self.turned - self.rest, self.V)
        v1, v2 = self.v1, self.v2
        for _ in range(_STEPS):
            d1, d2 = self._step(v1, v2, fitted)
            d1, d2 = self._step(v1 + d1 / 2, v2 + d2 / 2, fitted)
            v1, v2 = v1 + d1, v2 + d2
        return self._movement(v1, v2)

    def late_movement(self) -> float:
        """The same by fitting the rest, in the direction that the start's kernel gives it."""
        slow = _FITTED * self.rest / np.maximum(self.rates, 1e-16 * self.fastest)
        Z = self.U @ np.einsum("oj,oij->oi", slow, self.V)
        return self._movement(self.v1 + self.v2.T @ Z @ self.xx, self.v2 + Z @ self.v1.T)

    def _step(
        self, v1: Float[Array, "h in"], v2: Float[Array, "out h"], change: Float[Array, "out in"]
    ) -> tuple[Float[Array, "h in"], Float[Array, "out h"]]:
        """The least step of the weights that changes W so, as far as it can: (v2ᵀZΣxx, Zv1ᵀ), BZΣxx + ZA = change."""
        b, U = np.linalg.eigh(v2 @ v2.T)
        rates, V = _rates(v1, np.maximum(b, 0.0), self.xx)
        if not rates.any():
            return 0 * v1, 0 * v2
        turned = np.einsum("oi,oij->oj", U.T @ change, V) / np.maximum(rates, 1e-3 * rates.max())
        Z = U @ np.einsum("oj,oij->oi", turned, V)
        return v2.T @ Z @ self.xx, Z @ v1.T

    def _movement(self, v1: Float[Array, "h in"], v2: Float[Array, "out h"]) -> float:
        A, B, A0, B0 = v1.T @ v1, v2 @ v2.T, self.v1.T @ self.v1, self.v2 @ self.v2.T
        size = max(self._norm(A, B), self._norm(A0, B0))
        return self._norm(A - A0, B - B0) / size if size else 0.0

    def _norm(self, A: Float[Array, "in in"], B: Float[Array, "out out"]) -> float:
        """‖B ⊗ Σxx + I ⊗ A‖, Frobenius."""
        square = np.sum(self.xx**2) * np.sum(B**2) + len(B) * np.sum(A**2) + 2 * np.sum(A * self.xx) * np.trace(B)
        return float(np.sqrt(max(square, 0.0)))


def _rates(
    v1: Float[Array, "h in"], b: Float[Array, " out"], xx: Float[Array, "in in"]
) -> tuple[Float[Array, "out in"], Float[Array, "out in in"]]:
    """Eigenvalues and eigenvectors of bΣxx + v1ᵀv1 for every b."""
    A, c = v1.T @ v1, xx[0, 0]
    if np.all(np.diag(xx) == c) or len(b) * len(xx) ** 3 > _MANY:  # white, or taken so where it would take too long
        a, V = np.linalg.eigh(A)
        return np.mean(np.diag(xx)) * b[:, None] + np.maximum(a, 0.0), np.broadcast_to(V, (len(b), *V.shape))
    rates, V = np.linalg.eigh(b[:, None, None] * xx + A)
    return np.maximum(rates, 0.0), V


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
    return "rich as δ → 0" if not balance.any() else "Δ has both signs"
