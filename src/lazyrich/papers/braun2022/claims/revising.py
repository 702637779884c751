"""Section 6, revising structured knowledge: whether what was learned speeds up a related task.

The statement compares times to learn, so it needs a measure and a control. The measure is when the loss has fallen
to a hundredth of that of W = 0; halves, tenths and thousandths say the same. A random start of the same variance
differs from knowledge in its singular values too; the control keeps these, and draws the bases anew.
"""

from collections.abc import Callable

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.oracles import integrate
from lazyrich.papers.base.types import Rng
from lazyrich.tasks import colour_hierarchy, semantic_hierarchy

_STARTS = 100
_LEARNED = 0.01
_TIMES = np.linspace(0.0, 24.0, 61)


def random_function(rng: Rng, size: float) -> Array:
    """The function of a zero-balanced 8-14-8 start, from Gaussian layers, with ‖W1‖² = ‖W2‖² = Σs = size."""
    U, s, Vt = np.linalg.svd(rng.normal(size=(8, 14)) @ rng.normal(size=(14, 8)))
    return U * s * (size / s.sum()) @ Vt


def in_random_bases(rng: Rng, s: Array) -> Array:
    """A function with these singular values, and no other relation to anything."""
    return draws.orthogonal(rng, 8) * s @ draws.orthogonal(rng, 8).T


def learnable(W: Array, target: Array) -> Array:
    """W, or W with a mode turned round: where the determinants differ in sign the flow ends in a saddle."""
    U, s, Vt = np.linalg.svd(W)
    U[:, -1] *= np.sign(np.linalg.det(W) * np.linalg.det(target))
    return U * s @ Vt


def times_to_learn(functions: Array, target: Array) -> Array:
    """When zero-balanced networks that start with these functions have learned the target; inf after the last time.

    Eight one-hot items, Σxx = I/8; the hidden basis is free, and that of the smallest network does.
    """
    U, s, Vt = np.linalg.svd(functions)
    root = np.sqrt(s)[:, :, None] * Vt, U * np.sqrt(s)[:, None]

    def velocity(layers: Array) -> Array:
        W1, W2 = layers
        error = (target - W2 @ W1) / 8
        return np.stack([W2.swapaxes(1, 2) @ error, error @ W1.swapaxes(1, 2)])

    W1, W2 = integrate(velocity, np.stack(root), _TIMES, rtol=1e-9, atol=1e-12).swapaxes(0, 1)
    left = np.log(np.sum((target - W2 @ W1) ** 2, axis=(-2, -1)) / np.sum(target**2) / _LEARNED)  # < 0: learned
    return np.array([_crossing(curve) for curve in left.T])


def _crossing(curve: Array) -> float:
    if curve[-1] > 0:
        return np.inf
    after = int(np.argmax(curve <= 0))
    return float(np.interp(0.0, curve[[after, after - 1]], _TIMES[[after, after - 1]])) if after else 0.0


def compared(draw: Callable[[Array], Array]) -> float:
    """How long starts of a kind take to learn the colours, in the median, over how long the kingdom takes."""
    kingdom, colours = semantic_hierarchy().target, colour_hierarchy().target
    starts = [learnable(draw(np.linalg.svd(kingdom, compute_uv=False)), colours) for _ in range(_STARTS)]
    known, *others = times_to_learn(np.stack([kingdom, *starts]), colours)
    return float(np.median(others) / known)


@claim(
    "braun2022/no-speed-advantage",
    place="Section 6, revising structured knowledge, Figures 6E and 6F, bottom",
    statement="A network that knows the living kingdom learns the colour hierarchy no faster than one that starts "
    "from random weights of similar variance.",
    formula=r"t_{\mathrm{colours}}(\text{kingdom}) \ge \operatorname{median} t_{\mathrm{colours}}(\text{random})",
    conditions="The two hierarchies of Figure 6; zero-balanced starts of the same Σ‖W_ℓ‖² from which the colours can "
    "be learned at all. Learned: the loss has fallen to a hundredth of that of W = 0. An advantage: of over a tenth.",
    tolerance=0.0,  # an inequality
)
def no_speed_advantage(rng: Rng) -> float:
    """By how much the median of random starts is more than a tenth behind the kingdom."""
    return compared(lambda s: random_function(rng, s.sum())) - 1.1


@no_speed_advantage.corrected(
    "The kingdom is faster than random starts, which take 1.7 times as long in the median, and faster than its "
    "control: the same singular values in random bases take 1.4 times as long. It is an advantage of this pair of "
    "trees: of kingdoms with the items in random order seven in ten end in a saddle of the colours, of random starts "
    "one in two.",
    formula=r"\operatorname{median} t_{\mathrm{colours}}(U' \tilde S V'^\top) > 1.2\,"
    r" t_{\mathrm{colours}}(\tilde U \tilde S \tilde V^\top), \qquad U', V' \ \text{random}",
)
def advantage_over_both_controls(rng: Rng) -> float:
    """How far the faster of the two kinds is from being a fifth behind."""
    random = compared(lambda s: random_function(rng, s.sum()))
    control = compared(lambda s: in_random_bases(rng, s))
    return 1.2 - min(random, control)


@no_speed_advantage.counterexample(
    "Time to learn the colours after the kingdom, and with the kingdom's singular values in random bases, median of "
    "100: equal, if related knowledge were of no use"
)
def _() -> tuple[float, float]:
    rng = np.random.default_rng(0)
    return 1.0, compared(lambda s: in_random_bases(rng, s))
