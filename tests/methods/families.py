"""Random two-layer problems, one family per block, for the closed form to meet the mpmath oracle on.

Sizes 1 to 12 (wide layers to 24), start scales 1e-8 to 10 log-uniform, λ in ±{0, 1e-3, 1, 30}, Σxx = c·I with c in
[0.1, 10], targets of norm 0.3 to 3, times to 300/‖Σyx‖ as long as max|w|·t stays where mpmath can follow. Generic
starts are the library's own doubles, which the oracle takes as exact. On the separatrix doubles do not lie exactly:
there the oracle has a start of 400 digits, and the library its rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mpmath import mp
from oracles import riccati_mp
from oracles.starts_mp import Matrix, to_float, zero_balanced_mp

import lazyrich as lr

LAMBDAS = (0.0, 1e-3, 1.0, 30.0)
PER_FAMILY = 25

Rng = np.random.Generator


@dataclass(frozen=True)
class Case:
    """A problem as the oracle takes it; `start` may have more digits than the library gets."""

    start: tuple[Matrix, Matrix]
    sigma_yx: np.ndarray
    lam: float = 0.0
    rates: tuple[float, float] = (1.0, 1.0)
    c: float = 1.0
    gamma: float = 0.0
    saddle: bool = False  # the start lies on the separatrix
    times: np.ndarray = field(default_factory=lambda: np.zeros(1))

    @property
    def problem(self) -> lr.Problem:
        weights = [W if isinstance(W, np.ndarray) else to_float(W) for W in self.start]
        task = lr.Task.from_correlations(self.sigma_yx, self.c * np.eye(self.sigma_yx.shape[1]))
        return lr.Problem(task, lr.Network(weights), rates=self.rates, weight_decay=self.gamma)

    @property
    def forgotten(self) -> float:
        """1e-50 of QQᵀ at the start: where nothing is learned, what falls below may be rounded to zero."""
        return 1e-50 * sum(float(np.linalg.norm(W) ** 2) for W in self.problem.network.weights)

    def exact_gram(self) -> np.ndarray:
        options: dict[str, Any] = {"lam": self.lam, "rates": self.rates, "c": self.c, "gamma": self.gamma}
        return riccati_mp.gram_float(*self.start, self.sigma_yx, self.times, **options)

    def __str__(self) -> str:
        W1, W2 = self.problem.network.weights
        sizes = f"{W1.shape[1]}-{len(W1)}-{len(W2)}"
        eta1, eta2 = self.rates
        return (
            f"{sizes}, λ = {self.lam:g}, rates {eta1:.3g} and {eta2:.3g}, c = {self.c:.3g}, γ = {self.gamma:.3g}, "
            f"‖W1‖ = {np.linalg.norm(W1):.1e}, ‖W2‖ = {np.linalg.norm(W2):.1e}"
        )


def relative_errors(got: np.ndarray, exact: np.ndarray, floor: float = 0.0) -> np.ndarray:
    """‖got − exact‖ / ‖exact‖ at each time, Frobenius; what has decayed below `floor` counts as that size."""
    return np.linalg.norm(got - exact, axis=(1, 2)) / np.maximum(np.linalg.norm(exact, axis=(1, 2)), floor)


def cases(family: str, seed: int = 0) -> list[Case]:
    rng = np.random.default_rng([seed, *family.encode()])
    return [with_times(rng, FAMILIES[family](rng)) for _ in range(PER_FAMILY)]


def with_times(rng: Rng, case: Case) -> Case:
    """Four times to 300/‖Σyx‖, the last of them that; earlier where max|w|·t would be too much for mpmath."""
    norm = float(np.linalg.norm(case.sigma_yx, 2)) or 1.0
    eta = np.sqrt(np.prod(case.rates))
    fastest = np.hypot(eta * norm, case.c * case.lam / 2) + case.rates[0] * case.gamma  # per unit of time
    reach = 1900.0 if max(case.sigma_yx.shape) <= 4 and not case.gamma else 300.0
    end = min(300.0 / norm, reach / fastest)
    fractions = np.sort([10 ** rng.uniform(-3, 0), *rng.uniform(0, 0.3, size=2), 1.0])
    return Case(**{**vars(case), "times": end * fractions})


def sizes(rng: Rng, largest: int = 12) -> tuple[int, int, int]:
    """1 to `largest`, small ones more often: the oracle's time grows with the third power."""
    d_in, h, d_out = (1 + int(largest * u**1.3) for u in rng.random(size=3))
    return d_in, h, d_out


def scale(rng: Rng) -> float:
    return float(10 ** rng.uniform(-8, 1))


def target(rng: Rng, d_out: int, d_in: int, singular_values: np.ndarray | None = None) -> np.ndarray:
    """Gaussian of norm 0.3 to 3, or with given singular values (missing ones are zero)."""
    U, s, Vt = np.linalg.svd(rng.normal(size=(d_out, d_in)), full_matrices=False)
    if singular_values is None:
        return (U * s / s[0]) @ Vt * 10 ** rng.uniform(-0.5, 0.5)
    s = np.zeros(len(s))
    s[: len(singular_values)] = singular_values[: len(s)]
    return (U * s) @ Vt


def start(rng: Rng, widths: tuple[int, int, int], lam: float) -> tuple[np.ndarray, np.ndarray]:
    """The library's own λ-balanced start."""
    return lr.inits.lambda_balanced(rng, sizes=widths, lam=lam, scale=scale(rng)).weights


def admissible(rng: Rng, widths: tuple[int, int, int], sign: int | None = None) -> float:
    """A λ that these sizes allow, zero among them; or not zero, and of the sign asked for."""
    d_in, h, d_out = widths
    if sign is not None:
        return sign * float(rng.choice(LAMBDAS[1:]))
    signs = [s for s, room in ((1, d_out), (-1, d_in)) if h <= room]
    return float(rng.choice(signs) * rng.choice(LAMBDAS)) + 0.0 if signs else 0.0


def generic(case: Case) -> Case:
    """The same, off the separatrix: square with λ = 0, the target's determinant takes the start's sign."""
    W1, W2 = case.start
    if W1.shape[1] == len(W2) <= len(W1) and case.lam == 0:
        signs = [np.linalg.slogdet(M)[0] for M in (W2 @ W1, case.sigma_yx)]
        if signs[0] * signs[1] < 0:
            flip = np.r_[-1.0, np.ones(len(W2) - 1)]
            return Case(**{**vars(case), "sigma_yx": case.sigma_yx * flip})
    return case


def zero_balanced(rng: Rng) -> Case:
    widths = sizes(rng)
    return generic(Case(start(rng, widths, 0.0), target(rng, widths[2], widths[0])))


def square(rng: Rng) -> Case:
    d, _, _ = sizes(rng, 10)
    widths = (d, int(rng.integers(d, 13)), d)
    return generic(Case(start(rng, widths, 0.0), target(rng, d, d)))


def square_on_the_separatrix(rng: Rng) -> Case:
    d, _, _ = sizes(rng, 8)
    h = int(rng.integers(d, 11))
    equal = np.repeat(rng.uniform(0.3, 3.0), d)
    sigma_yx = target(rng, d, d, equal if rng.random() < 0.2 else None)
    return Case(zero_balanced_mp(rng, d, h, d, scale(rng), sign=-1, target=sigma_yx), sigma_yx, saddle=True)


def unseen_modes(rng: Rng) -> Case:
    """Some modes have no weights at all, exactly: a target with one entry per row and column makes that possible."""
    d_in, h, d_out = (d + 1 for d in sizes(rng, 7))
    m = min(d_in, d_out)
    kept = np.sort(rng.choice(m, size=int(rng.integers(1, m)), replace=False))
    s = -np.sort(-rng.uniform(0.2, 2.0, size=m)) * rng.choice([-1.0, 1.0], size=m)
    room_left = h > len(kept) or set(kept[:h]) != set(range(h))  # a mode without weights comes before the last unit
    sigma_yx = np.zeros((d_out, d_in))
    sigma_yx[np.arange(m), np.arange(m)] = s
    W1, W2 = zero_balanced_mp(rng, len(kept), h, len(kept), scale(rng))
    first, second = np.zeros((h, d_in), dtype=object), np.zeros((d_out, h), dtype=object)
    first[:, kept], second[kept] = np.array(W1.tolist()), np.array(W2.tolist())
    return Case((mp.matrix(first.tolist()), mp.matrix(second.tolist())), sigma_yx, saddle=room_left)


def lambda_positive(rng: Rng) -> Case:
    d_in, h, d_out = sizes(rng)
    widths = (d_in, min(h, d_out), max(h, d_out))
    lam = admissible(rng, widths, 1)
    return Case(start(rng, widths, lam), target(rng, widths[2], d_in), lam)


def lambda_negative(rng: Rng) -> Case:
    d_in, h, d_out = sizes(rng)
    widths = (max(h, d_in), min(h, d_in), d_out)
    lam = admissible(rng, widths, -1)
    return Case(start(rng, widths, lam), target(rng, d_out, widths[0]), lam)


def single_neuron(rng: Rng) -> Case:
    d_in, _, d_out = sizes(rng)
    widths = (d_in, 1, d_out)
    lam = admissible(rng, widths)
    return generic(Case(start(rng, widths, lam), target(rng, d_out, d_in), lam))


def bottleneck(rng: Rng) -> Case:
    d_in, _, d_out = (max(d, 2) for d in sizes(rng))
    widths = (d_in, int(rng.integers(1, min(d_in, d_out))), d_out)
    lam = admissible(rng, widths)
    return Case(start(rng, widths, lam), target(rng, d_out, d_in), lam)


def wide(rng: Rng) -> Case:
    d_in, _, d_out = sizes(rng, 6)
    widths = (d_in, int(rng.integers(d_in + d_out + 1, 25)), d_out)
    return generic(Case(start(rng, widths, 0.0), target(rng, d_out, d_in)))


def low_rank(rng: Rng) -> Case:
    """Targets of any rank below full, zero among them."""
    widths = d_in, _, d_out = sizes(rng, 10)
    lam = admissible(rng, widths)
    s = np.sort(rng.uniform(0.2, 2.0, size=int(rng.integers(0, min(d_in, d_out)))))[::-1]
    return Case(start(rng, widths, lam), target(rng, d_out, d_in, s), lam)


def repeated_singular_values(rng: Rng) -> Case:
    """Two or three values shared by all modes, in a general basis; or inputs and outputs that do not matter."""
    widths = d_in, _, d_out = sizes(rng, 10)
    lam = admissible(rng, widths)
    s = np.sort(rng.choice(rng.uniform(0.2, 2.0, size=2), size=min(d_in, d_out)))[::-1]
    sigma_yx = target(rng, d_out, d_in, s)
    if rng.random() < 0.3:
        sigma_yx[rng.integers(d_out)] = 0.0
        sigma_yx[:, rng.integers(d_in)] = 0.0
    return generic(Case(start(rng, widths, lam), sigma_yx, lam))


def layer_rates(rng: Rng) -> Case:
    """η in [0.1, 10] and Σxx = c·I; what is balanced is √η_2 W1 against √η_1 W2."""
    widths = d_in, _, d_out = sizes(rng, 10)
    lam = admissible(rng, widths)
    eta1, eta2, c = (float(x) for x in 10 ** rng.uniform(-1, 1, size=3))
    v1, v2 = start(rng, widths, lam)
    case = Case((v1 / np.sqrt(eta2), v2 / np.sqrt(eta1)), target(rng, d_out, d_in), lam, (eta1, eta2), c)
    return generic(case)


def weight_decay(rng: Rng) -> Case:
    """γ from well below the singular values to above them all, equal rates, λ = 0."""
    widths = d_in, _, d_out = sizes(rng, 10)
    sigma_yx = target(rng, d_out, d_in)
    gamma = float(np.linalg.norm(sigma_yx, 2) * 10 ** rng.uniform(-2, 0.2))
    eta, c = (float(x) for x in 10 ** rng.uniform(-1, 1, size=2))
    return generic(Case(start(rng, widths, 0.0), sigma_yx, rates=(eta, eta), c=c, gamma=gamma))


FAMILIES: dict[str, Callable[[Rng], Case]] = {
    family.__name__: family
    for family in (
        zero_balanced,
        square,
        square_on_the_separatrix,
        unseen_modes,
        lambda_positive,
        lambda_negative,
        single_neuron,
        bottleneck,
        wide,
        low_rank,
        repeated_singular_values,
        layer_rates,
        weight_decay,
    )
}
