"""Categories: typicality, the coherence at which one is seen, and what is inferred of new properties and items."""

from __future__ import annotations

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import integrate, relative_error
from lazyrich.papers.base.types import Rng
from lazyrich.papers.saxe2019 import formulas

NOT_CHECKED: tuple[NotChecked, ...] = ()

_ITEMS, _DRAWS = 200, 8


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
    "items: tried with 200, means of 8 draws, at C from 3 to 6 and of about 0.2.",
    tolerance=0.06,  # a limit of many items, and chance: means of few draws
    seeds=4,
)
def seen_or_lost(rng: Rng) -> float:
    A, q = float(2.0 ** rng.uniform(-1.0, 1.0)), rng.uniform(0.25, 0.35)
    off = []
    for wanted in (rng.uniform(3.0, 6.0), 0.2):
        features = round(A * _ITEMS)
        one = formulas.coherence(1 - q, q, 1, 1, _ITEMS, features)
        members = own = max(2, round(np.sqrt(wanted / one)))
        C = formulas.coherence(1 - q, q, members, own, _ITEMS, features)
        off.append(abs(formulas.item_overlap(C, features / _ITEMS) - seen(rng, q, members, own, features)))
    return max(off)


def seen(rng: Rng, q: float, members: int, own: int, features: int) -> float:
    """(v̂ᵀv)² of the strongest mode with the category, mean over draws of binary features."""
    found = []
    for _ in range(_DRAWS):
        p = np.full((features, _ITEMS), q)
        p[:own, :members] = 1 - q
        M = (rng.random(p.shape) < p) - q
        v = np.linalg.svd(M)[2][0]
        found.append(float(np.sum(v[:members]) ** 2 / members))
    return float(np.mean(found))


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
