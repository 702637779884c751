"""Categories: typicality, the coherence at which one is seen, and what is inferred of new properties and items."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import integrate, relative_error
from lazyrich.papers.base.types import Rng
from lazyrich.papers.saxe2019 import formulas

NOT_CHECKED: tuple[NotChecked, ...] = ()

_ITEMS = 200


@claim(
    "saxe2019/typicality",
    place="Item typicality and category prototypes",
    statement="An item's place on a mode, its typicality of the category that the mode stands for, is how its own "
    "features match the mode's, the prototype.",
    formula=r"v_i = \frac{1}{P s}\sum_m u_m\,y_{im}",
    conditions="P one-hot items.",
    tolerance=1e-12,
)
def matches(rng: Rng) -> float:
    Y = rng.normal(size=(5, 4))
    U, s, Vt = np.linalg.svd(sum(np.outer(y, e) for y, e in zip(Y, np.eye(5), strict=True)) / 5)
    mode = int(rng.integers(4))
    return relative_error(formulas.typicality(U[:, mode], float(s[mode]), Y), Vt[mode])


@claim(
    "saxe2019/coherence",
    place="Category coherence",
    statement="A category among random features can be seen only if its coherence is above 1: its members, its own "
    "features, and how much more often members have these all count. Below, the strongest mode knows nothing of it.",
    formula=r"C = \frac{(p-q)^2}{q(1-q)}\,\frac{K_oK_f}{\sqrt{N_oN_f}}, \qquad "
    r"(\hat v^\top v)^2 = 1 - \frac{A + C\sqrt A}{C\sqrt A\,(1 + C\sqrt A)} \text{ for } C > 1, \text{ else } 0",
    conditions="Features minus q; $p = 1 - q$, so that all have the same variance; $A = N_f/N_o$. A limit of many "
    "items, in which the noise has the singular values of Marchenko and Pastur.",
    tolerance=1e-6,
)
def seen_or_lost(rng: Rng) -> float:
    q, features = rng.uniform(0.25, 0.35), int(rng.integers(100, 401))
    off = []
    for wanted in (rng.uniform(1.5, 6.0), 0.2):
        one = formulas.coherence(1 - q, q, 1, 1, _ITEMS, features)
        members = own = max(2, round(np.sqrt(wanted / one)))
        C = formulas.coherence(1 - q, q, members, own, _ITEMS, features)
        mean = np.zeros((features, _ITEMS))
        mean[:own, :members] = 1 - 2 * q
        theta = float(np.linalg.svd(mean)[1][0]) / np.sqrt(q * (1 - q) * _ITEMS)
        off.append(abs(formulas.item_overlap(C, features / _ITEMS) - overlap_in_noise(theta, features / _ITEMS)))
    return max(off)


def overlap_in_noise(theta: float, A: float) -> float:
    """(v̂ᵀv)² of θuvᵀ in noise of variance 1/items, from the singular values t of the noise alone (Benaych-Georges,
    Nadakuditi 2012): with φ = E z/(z² − t²) over items and φ° over features, φφ°(z) = 1/θ² at the singular value z of
    the sum, and (v̂ᵀv)² = −2φ/(θ² d(φφ°)/dz); 0 where no z above the noise has that."""
    from scipy.integrate import quad
    from scipy.optimize import brentq

    low, high, share = abs(1 - np.sqrt(A)), 1 + np.sqrt(A), max(1 - A, 0.0)  # of items, a share that no noise reaches

    def over_items(f: Callable[[float], float]) -> float:
        def at(angle: float) -> float:  # x = t², by an angle in which the density has no root
            half = (high**2 - low**2) / 2
            x = (high**2 + low**2) / 2 + half * np.cos(angle)
            return float(f(x) * (half * np.sin(angle)) ** 2 / (2 * np.pi * x))

        return quad(at, 0.0, np.pi, epsabs=1e-11, epsrel=1e-10)[0] + share * f(0.0)

    def both(z: float) -> tuple[float, float]:
        items = over_items(lambda x: z / (z * z - x))
        return items, items / A + (1 - 1 / A) / z

    def excess(z: float) -> float:
        items, features = both(z)
        return items * features - 1 / theta**2

    near = high * (1 + 1e-4)
    if excess(near) < 0:
        return 0.0
    z = brentq(excess, near, 10 * (high + theta), xtol=1e-13)
    items, features = both(z)
    slope = over_items(lambda x: -(z * z + x) / (z * z - x) ** 2)
    of_features = slope / A - (1 - 1 / A) / z**2
    return float(-2 * items / (theta**2 * (slope * features + items * of_features)))


def taught(rows: Array, known: int) -> Array:
    """Where gradient flow on (w·row − 1)² of one row leaves w from zero, and what it then gives for all rows."""
    row = rows[known]
    return rows @ integrate(lambda w: (1.0 - w @ row) * row, np.zeros(len(row)), [60.0 / (row @ row)])[0]


@claim(
    "saxe2019/novel-property",
    place="Inductive property judgments: a new property",
    statement="A new property, taught of one item while the representations stay, is expected of others by how alike "
    "their hidden activities are.",
    formula=r"\hat y_j = h_i^\top h_j / \lVert h_i\rVert^2",
    conditions="The weights of the new output begin at zero and are trained to the end, the first layer is held.",
    tolerance=1e-9,
)
def property_taught(rng: Rng) -> float:
    H = rng.normal(size=(6, 4))
    return relative_error(formulas.novel_property(H, 2), taught(H, 2))


@claim(
    "saxe2019/novel-item",
    place="Inductive property judgments: a new item",
    statement="A new item of which one feature is taught, while the upper layer stays, is expected to have others by "
    "how alike the upper weights of the features are.",
    formula=r"\hat y_n = r_m^\top r_n / \lVert r_m\rVert^2",
    conditions="The hidden activity of the new item begins at zero and is trained to the end, the upper layer is held.",
    tolerance=1e-9,
)
def item_taught(rng: Rng) -> float:
    N = rng.normal(size=(5, 3))
    return relative_error(formulas.novel_item(N, 1), taught(N, 1))
