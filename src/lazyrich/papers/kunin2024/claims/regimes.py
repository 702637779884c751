"""Lazy, rich and delayed rich by the sizes of the network and the sign of δ (Theorem 6, and what follows from it).

Limits |δ| → ∞ are taken at fixed parts β_k(0), in the time |δ|t in which a lazy network learns. Lazy means that the
tangent kernel, relative to its size, does not move; what remains at finite δ is of order δ⁻², and is extrapolated away.
"""

import numpy as np

from lazyrich._typing import Array
from lazyrich.laziness import USUAL
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.types import Rng
from lazyrich.papers.kunin2024.claims.measures import even_limit, flow, kernel, loss_of, rates, velocity, with_deltas

NOT_CHECKED = (
    NotChecked(
        "Section 1, contributions; Section 7",
        "In linear networks rapid rich learning occurs from balanced starts alone; in nonlinear ones an upstream start "
        "can make it faster.",
        "A summary in words. What it rests on is entered: Theorem 6, the limits of M, and those of piecewise linear "
        "networks.",
    ),
)

Eta = tuple[float, float]
_FAR, _END = 1e3, 120.0  # |δ| of the first of two values, and the last time, in units of 1/|δ|
_NOTHING = 1e-6  # of a quantity of order one that vanishes in the limit: it is found below 1e-9


def inputs(rng: Rng, d: int) -> Array:
    """d samples, singular values between 0.8 and 1.2: not white, and soon learned."""
    return (draws.orthogonal(rng, d) * rng.uniform(0.8, 1.2, size=d)) @ draws.orthogonal(rng, d)


def well_spread(rng: Rng, h: int, n: int) -> Array:
    """h vectors in n dimensions, independent or, for h > n, spanning."""
    frame = draws.orthogonal(rng, max(h, n))[:h, :n]
    return frame + 0.1 * rng.normal(size=(h, n)) / np.sqrt(h)


def parts(rng: Rng, d: int, h: int, c: int, heavy: int) -> Array:
    """β_k(0), (h, d, c), whose rows (heavy = 1) or columns (−1) are well spread."""
    rows = well_spread(rng, h, c) if heavy > 0 else rng.normal(size=(h, c))
    columns = well_spread(rng, h, d) if heavy < 0 else rng.normal(size=(h, d))
    unit = [v / np.linalg.norm(v, axis=1)[:, None] for v in (columns, rows)]
    return rng.uniform(0.3, 0.6, size=h)[:, None, None] * np.einsum("kd,kc->kdc", *unit)


def kernel_movement(betas: Array, delta: float, X: Array, Y: Array, eta: Eta) -> Array:
    """‖K(t) − K(0)‖/‖K(0)‖ early, midway and at the end of lazy learning."""
    start = with_deltas(betas, delta, eta)
    states = flow(start, X, Y, np.array([0.3, 2.0, _END]) / abs(delta), eta)
    K0 = kernel(start, X, eta)
    return np.array([np.linalg.norm(kernel(state, X, eta) - K0) for state in states]) / np.linalg.norm(K0)


def loss_left(betas: Array, delta: float, X: Array, Y: Array, eta: Eta) -> float:
    """The loss at the end of lazy learning above the least possible, relative to the start's."""
    start = with_deltas(betas, delta, eta)
    (end,) = flow(start, X, Y, [_END / abs(delta)], eta)
    least = np.sum((X @ np.linalg.lstsq(X, Y, rcond=None)[0] - Y) ** 2) / 2
    loss = loss_of(X, Y)
    return float((loss(end) - least) / (loss(start) - least))


def not_lazy(betas: Array, sign: int, X: Array, Y: Array, eta: Eta) -> float:
    """What is left of kernel movement and loss for δ → ±∞: zero for a lazy network that learns."""
    movement = even_limit(lambda x: kernel_movement(betas, sign * x, X, Y, eta), _FAR)
    left = even_limit(lambda x: loss_left(betas, sign * x, X, Y, eta), _FAR)
    return float(np.abs([*movement, left]).max())


@claim(
    "kunin2024/theorem-6",
    place="Theorem 6",
    statement="A wide network is lazy for δ_k → ∞ if some least squares solution has its rows in the span of the rows "
    "of the β_k(0), and for δ_k → −∞ if one has its columns in the span of their columns. Its kernel then stands "
    "still, and it learns the solution.",
    formula=r"\operatorname{Row}(\beta_*) \subseteq \operatorname{Span}\Big(\bigcup_k"
    r"\operatorname{Row}(\beta_k(0))\Big),\ \delta_k\to\infty \quad\text{or}\quad \operatorname{Col}(\beta_*)"
    r" \subseteq \operatorname{Span}\Big(\bigcup_k \operatorname{Col}(\beta_k(0))\Big),\ \delta_k\to-\infty"
    r" \;\Rightarrow\; \frac{\|K_t - K_0\|}{\|K_0\|} \to 0",
    conditions="β_k(0) ≠ 0 fixed; any sizes.",
    tolerance=1e-8,
    seeds=8,
)
def theorem_6(rng: Rng) -> float:
    """Also with fewer neurons than rows or columns, and targets made to lie in the span."""
    d, h, c, sign = *(int(n) for n in rng.integers(1, 4, size=3)), int(rng.choice([-1, 1]))
    betas, X = parts(rng, d, h, c, sign), inputs(rng, d)
    mixing = rng.normal(size=(d, h)) if sign > 0 else rng.normal(size=(h, c))
    span = betas[:, 0, :] if sign > 0 else betas[:, :, 0].T
    Y = X @ (mixing @ span if sign > 0 else span @ mixing)
    return not_lazy(betas, sign, X, Y / np.linalg.norm(Y), rates(rng))


@claim(
    "kunin2024/lazy-by-sizes",
    place="Section 4, after Theorem 2; Appendix, after Theorem 6",
    statement="With independent β_k(0), every network is lazy for δ_k → ∞ if it has at least as many neurons as "
    "outputs (networks that narrow), and for δ_k → −∞ if it has at least as many as inputs (networks that expand); "
    "with h ≥ max(d, c) both.",
    formula=r"h \ge c,\ \delta_k\to\infty \quad\text{or}\quad h \ge d,\ \delta_k\to-\infty \;\Rightarrow\; \text{lazy}",
    conditions="β_k(0) independent, any target.",
    tolerance=1e-8,
    seeds=5,
)
def lazy_by_sizes(rng: Rng) -> float:
    d, c, sign = *(int(n) for n in rng.integers(1, 4, size=2)), int(rng.choice([-1, 1]))
    h = (c if sign > 0 else d) + int(rng.integers(0, 2))
    X, Y = inputs(rng, d), rng.normal(size=(d, c))
    return not_lazy(parts(rng, d, h, c, sign), sign, X, Y / np.linalg.norm(Y), rates(rng))


@claim(
    "kunin2024/span-in-parameters",
    place="Appendix, after the proof of Theorem 6",
    statement="The condition of Theorem 6 on rows asks that the first layer alone could fit β*, with the second layer "
    "as it starts; the condition on columns, that the second could.",
    formula=r"\operatorname{Row}(\beta_*) \subseteq \operatorname{Span}\Big(\bigcup_k"
    r"\operatorname{Row}(\beta_k(0))\Big) \iff \exists W:\ \beta_* = W^\top A(0)",
    conditions="No w_k(0) or a_k(0) is zero.",
    tolerance=0.0,  # true or false
)
def span_in_parameters(rng: Rng) -> float:
    d, h, c = (int(n) for n in rng.integers(1, 5, size=3))
    A, W = rng.normal(size=(h, c)), rng.normal(size=(h, d))
    inside, generic = rng.normal(size=(d, h)) @ A, rng.normal(size=(d, c))
    beta_star = inside if rng.integers(2) else generic
    betas = np.einsum("kd,kc->kdc", W, A).reshape(h * d, c)
    in_span = np.linalg.matrix_rank(np.vstack([betas, beta_star]), tol=1e-9) == np.linalg.matrix_rank(betas, tol=1e-9)
    fitted = np.linalg.lstsq(A.T, beta_star.T, rcond=None)[0]
    return abs(float(in_span) - float(np.allclose(fitted.T @ A, beta_star, rtol=0, atol=1e-9)))


def proportional(betas: Array, beta_star: Array) -> bool:
    """Whether some β_k is a multiple of β*."""
    cosines = np.einsum("kdc,dc->k", betas, beta_star) / np.linalg.norm(betas, axis=(1, 2)) / np.linalg.norm(beta_star)
    return bool(np.any(np.abs(cosines) > 1 - 1e-9))


def delayed(betas: Array, sign: int, X: Array, Y: Array, eta: Eta) -> bool:
    """Whether lazy learning leaves a loss that only a later change of the kernel can remove."""
    return even_limit(lambda x: loss_left(betas, sign * x, X, Y, eta), _FAR) > _NOTHING


def wrong_sign(rng: Rng, in_span: bool) -> tuple[Array, int, Array, Array]:
    """β_k(0), the sign of δ, and data, for min(d, c) ≤ h < max(d, c) and the sign of δ that is not the lazy one."""
    small, large = 1, int(rng.integers(3, 5))
    h, sign = int(rng.integers(2, large)), int(rng.choice([-1, 1]))
    d, c = (large, small) if sign < 0 else (small, large)
    betas, X = parts(rng, d, h, c, sign), inputs(rng, d)
    beta_star = np.einsum("kdc,k->dc", betas, rng.uniform(0.5, 1.5, size=h)) if in_span else rng.normal(size=(d, c))
    return betas, sign, X, X @ (beta_star / np.linalg.norm(beta_star))


def _error_of_delay(betas: Array, sign: int, X: Array, Y: Array, eta: Eta) -> tuple[float, float]:
    """Delayed rich, as the printed condition says, and as the network does: 1 for yes."""
    predicted = not proportional(betas, np.linalg.lstsq(X, Y, rcond=None)[0])
    return float(predicted), float(delayed(betas, sign, X, Y, eta))


@claim(
    "kunin2024/delayed-rich",
    place="Section 4, after Theorem 2",
    statement="With the other sign of δ_k, networks that narrow or expand, min(d, c) ≤ h < max(d, c), are delayed rich "
    "as long as no β_k(0) is a multiple of β*: no solution lies in the space that M spans at the start, so that a loss "
    "is left which lazy learning cannot remove.",
    formula=r"\beta_k(0) \not\propto \beta_*\ \text{for all}\ k \;\Rightarrow\;"
    r" \lim_{|\delta|\to\infty} \mathcal L(s/|\delta|) > \mathcal L(\infty)\ \text{for all}\ s",
    conditions="min(d, c) ≤ h < max(d, c); δ_k → −∞ for d > c, δ_k → ∞ for d < c; independent β_k(0).",
    tolerance=0.0,  # true or false
)
def delayed_rich(rng: Rng) -> float:
    predicted, found = _error_of_delay(*wrong_sign(rng, in_span=bool(rng.integers(2))), rates(rng))
    return abs(predicted - found)


@delayed_rich.stronger(
    "No least squares solution has its columns (for d < c, its rows) in the span of those of all β_k(0): the condition "
    "that the source itself gives nearby, in the text of Theorem 6 and after it. A sum of several β_k(0) is a multiple "
    "of none of them, and is learned lazily."
)
def delayed_rich_outside_the_span(rng: Rng) -> float:
    predicted, found = _error_of_delay(*wrong_sign(rng, in_span=False), rates(rng))
    return abs(predicted - found)


@delayed_rich.counterexample(
    "Three inputs, two neurons, one output, unit rates, white inputs, δ → −∞, β_1 = (1, 0, 0), β_2 = (0, 1, 0), β* = "
    "(2, 2, 0): delayed rich (1) by the printed condition, but learned lazily (0)"
)
def _() -> tuple[float, float]:
    betas = np.eye(3)[:2, :, None]
    return _error_of_delay(betas, -1, np.eye(3), np.array([[2.0], [2.0], [0.0]]), (1.0, 1.0))


@claim(
    "kunin2024/delay",
    place="Appendix, last paragraph after Theorem 6",
    statement="How long a delayed rich network waits is set by |δ|: once the loss within reach is learned, its kernel "
    "turns at a rate inversely proportional to |δ|.",
    formula=r"\lim_{|\delta|\to\infty} |\delta|\,\frac{\|\dot K\|}{\|K\|} = \mathrm{const} \ne 0",
    conditions="As for delayed rich, at the end of the lazy phase, where the gradient vanishes on the span of the "
    "β_k(0).",
    tolerance=1e-8,
    seeds=8,
)
def delay(rng: Rng) -> float:
    """The rate at 2|δ| over that at |δ|, to order δ⁻², against ½."""
    _, sign, X, Y = wrong_sign(rng, in_span=False)
    eta, d, c = rates(rng), X.shape[1], Y.shape[1]
    span = draws.orthogonal(rng, max(d, c), 2)
    beta_star = np.linalg.lstsq(X, Y, rcond=None)[0]
    light = span.T @ X.T @ X @ span if sign < 0 else np.eye(2)  # the normal equations within the span
    fitted = np.linalg.solve(light, span.T @ X.T @ Y) if sign < 0 else (beta_star @ span).T
    betas = np.stack([np.outer(u, v) if sign < 0 else np.outer(v, u) for u, v in zip(span.T, fitted, strict=True)])
    ratio = even_limit(lambda x: _turning(betas, sign * 2 * x, X, Y, eta) / _turning(betas, sign * x, X, Y, eta), _FAR)
    return abs(ratio - 0.5)


def _turning(betas: Array, delta: float, X: Array, Y: Array, eta: Eta) -> float:
    """‖K̇‖/‖K‖ at the start, by a difference over a time in which the network hardly moves."""
    start = with_deltas(betas, delta, eta)
    moving = velocity(loss_of(X, Y), start, eta)
    step = 1e-3 * abs(delta)
    ahead, behind = ([p + sign * step * v for p, v in zip(start, moving, strict=True)] for sign in (1, -1))
    slope = (kernel(ahead, X, eta) - kernel(behind, X, eta)) / (2 * step)  # K is quadratic: no error
    return float(np.linalg.norm(slope) / np.linalg.norm(kernel(start, X, eta)))


def balanced_pairs(rng: Rng, scale: float) -> tuple[list[Array], Array, Array]:
    """[A, W] with all δ_k = 0 that represents β = 0, neurons in pairs (a, w) and (−a, w); and data."""
    d, c, pairs = int(rng.integers(2, 4)), int(rng.integers(1, 3)), int(rng.integers(2, 4))
    A, W = (v / np.linalg.norm(v, axis=1)[:, None] for v in (rng.normal(size=(pairs, c)), rng.normal(size=(pairs, d))))
    X, Y = inputs(rng, d), rng.normal(size=(d, c))
    return [scale * np.vstack([A, -A]), scale * np.vstack([W, W])], X, Y / np.linalg.norm(Y)


def movement_of_balanced(start: list[Array], X: Array, Y: Array, scale: float) -> float:
    """‖K(t) − K(0)‖/‖K(0)‖ when the network has learned for long."""
    (end,) = flow(start, X, Y, [20.0 / max(1.0, scale**2)], (1.0, 1.0))
    K0 = kernel(start, X, (1.0, 1.0))
    return float(np.linalg.norm(kernel(end, X, (1.0, 1.0)) - K0) / np.linalg.norm(K0))


_MOVED = USUAL.lazy  # of the kernel at least, in a rich network; small starts move it by more than its own size


@claim(
    "kunin2024/rich-at-zero",
    place="Section 4, after Theorem 2",
    statement="As all δ_k → 0, every network becomes rich, whatever its sizes: its kernel changes substantially. The "
    "threshold is ours: by a tenth at least.",
    formula=r"\delta_k = 0\ \text{for all}\ k \;\Rightarrow\; \frac{\|K_\infty - K_0\|}{\|K_0\|} \not\approx 0",
    conditions="Any sizes.",
    tolerance=0.0,  # how much of the movement is missing
)
def rich_at_zero(rng: Rng) -> float:
    scale = 10.0 ** (rng.choice([-1, 1]) * rng.uniform(1.0, 1.4))
    return _MOVED - movement_of_balanced(*balanced_pairs(rng, scale), scale)


@rich_at_zero.stronger(
    "All ‖β_k(0)‖ small too. Neurons in pairs of opposite sign with large weights have δ_k = 0 and are lazy, as large "
    "τ is in the paper's own Figure 1(b)."
)
def rich_at_zero_from_small_starts(rng: Rng) -> float:
    scale = 10.0 ** -rng.uniform(1.0, 1.4)
    return _MOVED - movement_of_balanced(*balanced_pairs(rng, scale), scale)


@rich_at_zero.counterexample(
    "Two inputs, one output, white inputs, β* = (1, 0), neurons w = (10, 0), (10, 0), (0, 10), (0, 10) with a = 10, "
    "−10, 10, −10: the share of the kernel that moves, which should be a tenth at least"
)
def _() -> tuple[float, float]:
    start = [10.0 * np.array([[1.0], [-1.0], [1.0], [-1.0]]), 10.0 * np.repeat(np.eye(2), 2, axis=0)]
    return _MOVED, movement_of_balanced(start, np.eye(2), np.array([[1.0], [0.0]]), 10.0)
