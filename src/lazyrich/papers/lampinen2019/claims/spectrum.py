"""What of a teacher of low rank is seen through the noise. The truth is drawn: matrices of some hundred rows.

A formula is one of large matrices, and what is drawn fluctuates: tolerances are what sizes and numbers of draws leave.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.types import Rng
from lazyrich.papers.lampinen2019 import formulas

_SIZE, _DRAWS = 200, 12  # inputs, and matrices


class Seen(NamedTuple):
    """The strongest mode of what was drawn, means over the draws."""

    s: float
    output_overlap: float
    input_overlap: float


def seen(rng: Rng, s: float, A: float, size: int = _SIZE, draws: int = _DRAWS) -> Seen:
    """A mode of strength s, and noise on top of it, in matrices of `size` columns and A times as many rows."""
    found = []
    for _ in range(draws):
        u, v = (x / np.linalg.norm(x) for x in (rng.normal(size=round(A * size)), rng.normal(size=size)))
        M = s * np.outer(u, v) + rng.normal(size=(len(u), size)) / np.sqrt(size)
        value, v_hat = strongest(M.T @ M)
        u_hat = M @ v_hat / np.sqrt(value)
        found.append((np.sqrt(value), (u_hat @ u) ** 2, (v_hat @ v) ** 2))
    return Seen(*(float(mean) for mean in np.mean(found, axis=0)))


def strongest(S: Array) -> tuple[float, Array]:
    """The largest eigenvalue and its vector."""
    from scipy.linalg import eigh

    values, vectors = eigh(S, subset_by_index=[len(S) - 1] * 2)
    return float(values[0]), vectors[:, 0]


def clear(rng: Rng) -> tuple[float, float]:
    """A strength well above the threshold, and the aspect ratio."""
    A = float(2.0 ** rng.uniform(-1.0, 1.0))
    return float(A**0.25 * rng.uniform(1.7, 3.0)), A


@claim(
    "lampinen2019/singular-values",
    place="The training data: singular values of Σ̂yx",
    statement="Noise makes the singular values of a teacher larger.",
    formula=r"\hat s = \frac{\sqrt{(1 + s^2)(A + s^2)}}{s} \qquad (s > A^{1/4})",
    conditions="$N_{in}$ white inputs in $N_{in}$ samples, $A\\,N_{in}$ outputs, noise of variance 1, teacher of rank "
    "one; a limit, tried with 200 inputs and means of 12 draws, strengths of 1.7 thresholds and more.",
    tolerance=0.02,  # chance: 0.05 over the root of the draws
    seeds=6,
)
def singular_values(rng: Rng) -> float:
    s, A = clear(rng)
    return abs(float(formulas.inflated(s, A)) / seen(rng, s, A).s - 1)


@claim(
    "lampinen2019/overlaps",
    place="The training data: singular vectors of Σ̂yx",
    statement="Noise turns the singular vectors of a teacher away, those of the outputs and those of the inputs by "
    "angles that depend on the aspect ratio in opposite ways.",
    formula=r"(\hat u^\top u)^2 = 1 - \frac{A(1 + s^2)}{s^2(s^2 + A)}, \qquad "
    r"(\hat v^\top v)^2 = 1 - \frac{A + s^2}{s^2(1 + s^2)} \qquad (s > A^{1/4})",
    conditions="As for the singular values.",
    tolerance=0.03,
    seeds=4,
)
def overlaps(rng: Rng) -> float:
    s, A = clear(rng)
    found = seen(rng, s, A)
    return max(
        abs(float(formulas.output_overlap(s, A)) - found.output_overlap),
        abs(float(formulas.input_overlap(s, A)) - found.input_overlap),
    )


@claim(
    "lampinen2019/threshold",
    place="The training data: the phase transition",
    statement="A teacher weaker than the threshold leaves no trace: the strongest mode is one of noise, as strong as "
    "without a teacher, and its vectors have nothing of the teacher's. Above it they do at once.",
    formula=r"s \le A^{1/4}: \quad \hat s = 1 + \sqrt A, \quad (\hat u^\top u)^2 = (\hat v^\top v)^2 = 0",
    conditions="As for the singular values, at 0.4 of the threshold; and at 1.7 of it the overlaps are told from 0.",
    tolerance=0.05,  # the edge of 200 inputs is 2 % below that of infinitely many
)
def no_trace(rng: Rng) -> float:
    A = float(2.0 ** rng.uniform(-1.0, 1.0))
    below = 0.4 * formulas.threshold(A)
    found = seen(rng, below, A)
    trace = seen(rng, 1.7 * formulas.threshold(A), A)
    missed = max(0.0, 0.3 - trace.output_overlap, 0.3 - trace.input_overlap)
    known = float(formulas.output_overlap(below, A)), float(formulas.input_overlap(below, A))
    return max(
        abs(float(formulas.inflated(below, A)) / found.s - 1),
        abs(formulas.edge(A) / found.s - 1),
        abs(known[0] - found.output_overlap),
        abs(known[1] - found.input_overlap),
        missed,
    )
