"""Lazy, rich or delayed rich, before any training: Kunin et al. 2024, Theorems 2, 3 and 6 made quantitative.

A two-layer linear network moves in function space by Ẇ = (B R + R A)Σxx with A = W1ᵀW1, B = W2W2ᵀ and R = T − W:
this is M of Theorem 2. With M as it is at the start, the part of R along an eigenvector of B (value b) and one of A
(value a) is fitted at the rate a + b. Where one layer dominates, M reaches what that layer spans: Theorem 6 calls it
lazy if the solution lies there, and if not, the rest waits until that layer has turned, and the regime is delayed
rich. Here the limits become numbers. The rest is what M fits ten times slower than what it fits first.

- Fitting all but the rest moves the kernel by a tenth or more: rich. The kernel at its end follows from W and the
  conserved Δ = W2ᵀW2 − W1W1ᵀ (for Δ = δI that is Theorem 3).
- It does not, but fitting the rest does: delayed rich, if that comes ten times later. The rest grows at
  √(s² + ‖M‖²/4) − ‖M‖/2 for a mode of strength s, which is s²/‖M‖ where one layer is large (theory: section 2).
- Neither does: lazy.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float
from lazyrich.landscape.regime import DELAY, LAZY
from lazyrich.problem import Problem, as_problem

__all__ = ["RegimePrediction", "limiting_regimes", "predict_regime"]

_STEPS = 8  # of the way to what is fitted first; the kernel is needed to a percent


@dataclass(frozen=True)
class RegimePrediction:
    """A word, and the numbers behind it; all are known before training."""

    name: str  # "lazy", "rich" or "delayed rich"
    early_movement: float  # of the kernel, relative, by what is fitted first
    late_movement: float  # of the kernel, relative, by all that is to be fitted
    missing: float  # share of the squared residual that has to wait
    delay: float  # when half of that is fitted, in units of the start's own time; 0 where nothing has to wait
    balance: tuple[float, float]  # least and largest eigenvalue of Δ = W2ᵀW2 − W1W1ᵀ, relative to the target's norm
    limit: str  # what Theorem 6 says of the limit that this balance tends to

    def __str__(self) -> str:
        words = f"{self.name}: the start's kernel fits {1 - self.missing:.0%}, moving by {self.early_movement:.1%}"
        if self.name == "delayed rich":
            words += f"; the rest comes {self.delay:.3g} times later"
        return f"{words} (Δ from {self.balance[0]:.3g} to {self.balance[1]:.3g}: {self.limit})"

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

    `lr.regime(trajectory)` measures it; where the two differ, a number stands close to its threshold.

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
            "lr.regime(trajectory) measures the regime of any."
        )
    v1, v2 = (k * W for k, W in zip(problem.canonical.k, network.weights, strict=True))
    T = _reachable(problem.task.target * problem.canonical.gain, len(v1))
    start = _Start(v1, v2, T - v2 @ v1)
    early, late, delay = start.early_movement(), start.late_movement(), start.delay()
    name = "rich"
    if early < LAZY and (late < LAZY or delay > DELAY):
        name = "lazy" if late < LAZY else "delayed rich"
    size = max(float(np.linalg.norm(T, 2)), 1e-300)
    balance = np.linalg.eigvalsh(v2.T @ v2 - v1 @ v1.T) / size
    balance[np.abs(balance) <= 1e-12 * (np.sum(v1**2) + np.sum(v2**2)) / size] = 0.0
    return RegimePrediction(
        name=name,
        early_movement=early,
        late_movement=late,
        missing=start.missing,
        delay=delay,
        balance=(float(balance[0]), float(balance[-1])),
        limit=_limit(network.sizes, balance),
    )


class _Start:
    """What the kernel of the start makes of the residual R, direction by direction."""

    def __init__(self, v1: Float[Array, "h in"], v2: Float[Array, "out h"], R: Float[Array, "out in"]) -> None:
        self.v1, self.v2, self.R = v1, v2, R
        a, self.V = np.linalg.eigh(v1.T @ v1)
        b, self.U = np.linalg.eigh(v2 @ v2.T)
        self.rates = np.maximum(b, 0.0)[:, None] + np.maximum(a, 0.0)
        self.fastest = float(self.rates.max())
        self.turned = self.U.T @ R @ self.V
        waits = self.rates * DELAY < self.fastest
        self.rest = np.where(waits, self.turned, 0.0)

    @property
    def missing(self) -> float:
        """The rest as a share of the squared residual."""
        whole = np.sum(self.turned**2)
        return float(np.sum(self.rest**2) / whole) if whole else 0.0

    def delay(self) -> float:
        """When half of the rest is fitted, in units of 1/‖M‖; 0 where there is no rest."""
        s = np.linalg.svd(self.rest, compute_uv=False)
        if not s.any():
            return 0.0
        drift = np.sum(self.rest**2 * self.rates) / np.sum(self.rest**2)
        growth = s**2 / (np.hypot(s, self.fastest / 2) + self.fastest / 2)  # √(s² + ‖M‖²/4) − ‖M‖/2
        half = int(np.searchsorted(np.cumsum(s**2), np.sum(s**2) / 2))
        return float(self.fastest / (growth[half] + drift))

    def early_movement(self) -> float:
        """Of the kernel, relative to the larger, by fitting all but the rest, with Δ conserved on the way."""
        fitted = self.U @ (self.turned - self.rest) @ self.V.T / _STEPS
        v1, v2 = self.v1, self.v2
        for _ in range(_STEPS):
            d1, d2 = _step(v1, v2, fitted)
            d1, d2 = _step(v1 + d1 / 2, v2 + d2 / 2, fitted)
            v1, v2 = v1 + d1, v2 + d2
        return self._movement(v1, v2)

    def late_movement(self) -> float:
        """The same by fitting the rest, in the direction that the start's kernel gives it; at least the early one."""
        if not self.fastest:
            return 1.0 if self.R.any() else 0.0
        rates = np.maximum(self.rates, 1e-16 * self.fastest)
        Z = self.U @ (self.rest / rates) @ self.V.T
        return max(self._movement(self.v1 + self.v2.T @ Z, self.v2 + Z @ self.v1.T), self.early_movement())

    def _movement(self, v1: Float[Array, "h in"], v2: Float[Array, "out h"]) -> float:
        A, B, A0, B0 = v1.T @ v1, v2 @ v2.T, self.v1.T @ self.v1, self.v2 @ self.v2.T
        size = max(_norm(A, B), _norm(A0, B0))
        return _norm(A - A0, B - B0) / size if size else 0.0


def _step(
    v1: Float[Array, "h in"], v2: Float[Array, "out h"], change: Float[Array, "out in"]
) -> tuple[Float[Array, "h in"], Float[Array, "out h"]]:
    """The least step of the weights that changes v2v1 so, as far as it can: (v2ᵀZ, Zv1ᵀ) with BZ + ZA = change."""
    a, V = np.linalg.eigh(v1.T @ v1)
    b, U = np.linalg.eigh(v2 @ v2.T)
    rates = np.maximum(b, 0.0)[:, None] + np.maximum(a, 0.0)
    Z = U @ (U.T @ change @ V / np.maximum(rates, 1e-3 * rates.max())) @ V.T if rates.any() else 0.0 * change
    return v2.T @ Z, Z @ v1.T


def _norm(A: Float[Array, "in in"], B: Float[Array, "out out"]) -> float:
    """‖B ⊗ I + I ⊗ A‖, Frobenius."""
    square = len(A) * np.sum(B**2) + len(B) * np.sum(A**2) + 2 * np.trace(A) * np.trace(B)
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
    return "rich as δ → 0" if not balance.any() else "Δ has both signs"
