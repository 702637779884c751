"""The test error of one layer, trained to the end from 0 on Gaussian samples, by their number."""

from __future__ import annotations

import numpy as np

from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.types import Rng
from lazyrich.papers.lampinen2019 import formulas

_INPUTS, _DRAWS = 40, 300


def fitted(rng: Rng, samples: int, signal: float, noise: float) -> float:
    """Mean ‖W − T‖² of least-norm fits, over draws of inputs, teacher and noise."""
    errors = []
    for _ in range(_DRAWS):
        X, T = rng.normal(size=(samples, _INPUTS)), rng.normal(size=_INPUTS)
        T *= np.sqrt(signal) / np.linalg.norm(T)
        y = X @ T + np.sqrt(noise) * rng.normal(size=samples)
        errors.append(np.sum((np.linalg.lstsq(X, y, rcond=None)[0] - T) ** 2))
    return float(np.mean(errors))


@claim(
    "lampinen2019/interpolation",
    place="beside the paper: known of linear regression (Advani, Saxe, Sompolinsky 2020, in the limit)",
    statement="One layer that learns to the end from weights 0 is worst with about as many samples as inputs, and "
    "better again with fewer.",
    formula=r"E\|W - T\|^2 = \begin{cases} r^2(1 - P/N) + \sigma^2 P/(N - P - 1) & P < N - 1\\ "
    r"\sigma^2 N/(P - N - 1) & P > N + 1\end{cases}",
    conditions="$P$ samples of $N$ independent standard normal inputs, $\\|T\\| = r$, noise of variance $\\sigma^2$; "
    "exact at any size, tried with $N = 40$ and means of 300 draws.",
    tolerance=0.1,  # chance: single draws differ by about their mean near P = N
    seeds=4,
)
def least_norm(rng: Rng) -> float:
    signal, noise = float(rng.uniform(0.5, 3.0)), float(rng.uniform(0.3, 2.0))
    errors = []
    for samples in (int(rng.integers(24, 32)), int(rng.integers(50, 70))):
        known = formulas.interpolation(samples, _INPUTS, signal, noise)
        errors.append(abs(known / fitted(rng, samples, signal, noise) - 1))
    return max(errors)
