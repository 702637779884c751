"""Development: modes in two layers and in one, sudden transitions, similar representations, illusions."""

from __future__ import annotations

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import layers, product, relative_error
from lazyrich.papers.base.types import Rng
from lazyrich.papers.saxe2019 import formulas

NOT_CHECKED = (
    NotChecked(
        "Throughout",
        "Children and adults show the same phenomena: broad before fine distinctions, sudden transitions, illusory "
        "correlations, typicality effects.",
        "It is about people, and rests on studies of others.",
    ),
)


@claim(
    "saxe2019/deep",
    place="Learning dynamics: two layers",
    statement="Each mode of two layers from small, aligned and balanced weights is learned along a sigmoid, the "
    "stronger the earlier.",
    formula=r"a(t) = \frac{s\,e^{2st}}{e^{2st} - 1 + s/a_0}",
    conditions="White inputs, two layers, balanced and aligned with the modes of the task.",
    tolerance=1e-9,
)
def sigmoids(rng: Rng) -> float:
    sigma_yx, U, s, V = draws.target(rng, 4, 3)
    a0 = rng.uniform(0.01, 0.3, size=3)
    times = np.linspace(0.0, 3.0, 7)
    W = product(layers(draws.aligned(rng, U, V, a0, (3, 5, 4)), sigma_yx, times))
    return relative_error(formulas.deep(s, a0, times[:, None]), np.einsum("om,toi,im->tm", U, W, V))


@claim(
    "saxe2019/shallow",
    place="Learning dynamics: one layer",
    statement="In a network of one layer all modes are learned at the same rate, whatever their strengths.",
    formula=r"b(t) = s\,(1 - e^{-t}) + b_0\,e^{-t}",
    conditions="White inputs, one layer, any initialisation.",
    tolerance=1e-10,
)
def one_rate(rng: Rng) -> float:
    sigma_yx, U, s, V = draws.target(rng, 4, 3)
    start, times = draws.gaussian(rng, (3, 4), 0.5), np.linspace(0.0, 3.0, 7)
    (W,) = layers(start, sigma_yx, times)
    strengths = np.einsum("om,toi,im->tm", U, W, V)
    return relative_error(formulas.shallow(s, strengths[0], times[:, None]), strengths)


@claim(
    "saxe2019/transition",
    place="Stage-like transitions",
    statement="In two layers a mode is learned within a time that does not depend on how small it began, while it "
    "waits the longer the smaller it was: transitions are as sudden as one likes in relation to the wait.",
    formula=r"t_{(1-\varepsilon)s} - t_{\varepsilon s} = \frac1s \ln\frac{1-\varepsilon}{\varepsilon}",
    conditions="One mode of two balanced layers, white inputs, a₀ < εs.",
    tolerance=1e-8,
)
def sudden(rng: Rng) -> float:
    s, share = rng.uniform(1.0, 3.0), rng.uniform(0.1, 0.3)
    took = []
    for a0 in (1e-2 * s, 1e-5 * s):
        wait = np.log(share / (1 - share) * (s / a0 - 1)) / (2 * s)  # until a = share · s, which is looked at below
        times = np.array([0.0, wait, wait + formulas.transition(s, share)])
        a = product(layers([[[np.sqrt(a0)]], [[np.sqrt(a0)]]], [[s]], times))[:, 0, 0] / s
        took.append(a[1:])
    return relative_error(took, [[share, 1 - share]] * 2)


@claim(
    "saxe2019/hidden-similarity",
    place="Linking behavior and neural representations",
    statement="Networks that begin small come to the same similarities of items in their hidden layers, whatever the "
    "units: those of the task's modes with the strengths they have.",
    formula=r"W_1^\top W_1 = V A(t) V^\top",
    conditions="White inputs, two layers, balanced and aligned with the modes of the task.",
    tolerance=1e-9,
)
def same_similarity(rng: Rng) -> float:
    sigma_yx, U, s, V = draws.target(rng, 3, 4)
    a0, times = rng.uniform(0.01, 0.3, size=3), [0.0, 0.4, 1.5]
    W1, _ = layers(draws.aligned(rng, U, V, a0, (4, 6, 3)), sigma_yx, times)
    found = [formulas.hidden_similarity(V, formulas.deep(s, a0, t)) for t in times]
    return relative_error(found, np.swapaxes(W1, 1, 2) @ W1)


def outside(W: Array) -> float:
    """How far any entry leaves the interval between its first value and its last, of the largest."""
    low, high = np.minimum(W[0], W[-1]), np.maximum(W[0], W[-1])
    return float(np.maximum(W - high, low - W).max() / np.abs(W).max())


@claim(
    "saxe2019/illusions",
    place="Illusory correlations",
    statement="Two layers believe of items features that these have not, and unlearn them later; one layer from zero "
    "never does.",
    formula=r"\hat y_{im}(t) = \sum_\alpha a_\alpha(t)\,u_{m\alpha}v_{i\alpha} \text{ is not monotone in two layers, "
    r"monotone in one}",
    conditions="White inputs; one layer from zero; two layers balanced and small, a task whose features take part in "
    "modes of different strength.",
    tolerance=1e-9,
)
def illusions(rng: Rng) -> float:
    sigma_yx, U, _, V = draws.target(rng, 4, 4, [3.0, 2.2, 1.2, 0.6])
    (one,) = layers([np.zeros((4, 4))], sigma_yx, np.linspace(0.0, 12.0, 25))
    two = product(layers(draws.aligned(rng, U, V, np.full(4, 1e-3), (4, 5, 4)), sigma_yx, np.linspace(0.0, 12.0, 97)))
    return max(outside(one), max(0.0, 0.02 - outside(two)))
