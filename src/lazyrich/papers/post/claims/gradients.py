"""One hidden layer, linear: gradients, the flow of weights and of modes, and what its terms do (eqs. 1 to 6)."""

from collections.abc import Sequence

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import claim
from lazyrich.papers.base.oracles import gradient, hessian, integrate, relative_error
from lazyrich.papers.base.types import Rng, Values
from lazyrich.papers.post.claims.regression import (
    data_with,
    departure_from_linear,
    descended,
    interaction,
    squared_error,
    sums,
)


def equations_1_2(W21: Array, W32: Array, C31: Array) -> list[Array]:
    """τ dW21/dt and τ dW32/dt."""
    return [W32.T @ (C31 - W32 @ W21), (C31 - W32 @ W21) @ W21.T]


def first_term(a: Array, b: Array, s: Array) -> Array:
    """(s_α − b^α·a^α) b^α of eq. 5, one row for each α; with a and b exchanged, that of eq. 6."""
    return (s - np.sum(a * b, axis=1))[:, None] * b


def second_term(a: Array, b: Array) -> Array:
    """−Σ_{γ≠α} (b^γ·a^α) b^γ of eq. 5, one row for each α; with a and b exchanged, that of eq. 6."""
    overlaps = a @ b.T
    return -(overlaps - np.diag(np.diag(overlaps))) @ b


def loss_of_modes(a: Array, b: Array, s: Array) -> Values:
    """½ Σ_α (s_α − b^α·a^α)² + ½ Σ_{α≠β} (b^β·a^α)², which eqs. 5 and 6 are said to descend."""
    overlaps = a @ b.T
    alone = np.diag(overlaps)
    return ((s - alone) ** 2).sum() / 2 + ((overlaps - np.diag(alone)) ** 2).sum() / 2


def learning(X: Array, Y: Array, weights: Sequence[Array]) -> list[Array]:
    """τ dW/dt of both layers by the loss itself, the 2 absorbed in τ."""
    return [-slope / 2 for slope in gradient(squared_error(X, Y), weights)]


@claim(
    "post/network-gradient",
    place="Linear neural networks, the first two displays",
    statement="The slope of the loss in the first layer is minus twice the error, brought back through the second "
    "layer, times the input.",
    formula=r"\frac{\partial L}{\partial W^{21}_{ij}} = -2\sum_\mu [W^{32\top}(y^\mu - W^{32}W^{21}x^\mu)]_i\,x^\mu_j,"
    r"\qquad \nabla_{W^{21}} L = -2\,W^{32\top}(C^{31} - W^{32}W^{21}C^{11})",
    conditions="Any data, any weights.",
    tolerance=1e-12,
)
def network_gradient(rng: Rng) -> float:
    X, Y, (W21, W32) = rng.normal(size=(7, 3)), rng.normal(size=(7, 2)), draws.gaussian(rng, (3, 4, 2), 1.0)
    C31, C11 = sums(X, Y)
    samples = -2 * sum(np.outer(W32.T @ (y - W32 @ W21 @ x), x) for x, y in zip(X, Y, strict=True))
    truth = gradient(squared_error(X, Y), [W21, W32])[0]
    return max(relative_error(samples, truth), relative_error(-2 * W32.T @ (C31 - W32 @ W21 @ C11), truth))


@claim(
    "post/equations-1-2",
    place="Equations 1 and 2",
    statement="Small steps of gradient descent on both layers, the 2 absorbed in their rate λ, follow a pair of "
    "coupled differential equations with time constant τ = 1/λ.",
    formula=r"\tau\,\frac{dW^{21}}{dt} = W^{32\top}(C^{31} - W^{32}W^{21}), \qquad "
    r"\tau\,\frac{dW^{32}}{dt} = (C^{31} - W^{32}W^{21})\,W^{21\top}",
    conditions="White inputs, C11 = I; any targets, any widths, any start; λ → 0 at a given t/τ.",
    tolerance=1e-9,
)
def equations_1_and_2(rng: Rng) -> float:
    """Against steps along the gradient, with λ down to 1/512 of the time and extrapolated to none."""
    C31 = rng.normal(size=(2, 2))
    loss = squared_error(*data_with(rng, C31, samples=3))
    weights, time = draws.gaussian(rng, (2, int(rng.integers(1, 3)), 2), 0.7), rng.uniform(0.2, 0.4)
    truth = descended(loss, weights, time)
    h = len(weights[0])

    def velocity(stacked: Array) -> Array:
        one, two = equations_1_2(stacked[:h], stacked[h:].T, C31)
        return np.vstack([one, two.T])

    end = integrate(velocity, np.vstack([weights[0], weights[1].T]), [time])[0]
    return relative_error(end, np.vstack([truth[0], truth[1].T]))


@claim(
    "post/cubic-interactions",
    place="After equation 2",
    statement="The velocity of a weight of the first layer is a sum of products of up to three weights, of its own "
    "layer and of the other one.",
    formula=r"\tau\,\frac{dW^{21}_{ij}}{dt} = \sum_k W^{32}_{ki}C^{31}_{kj} - \sum_k\sum_m "
    r"W^{32}_{ki}W^{32}_{km}W^{21}_{mj}",
    conditions="White inputs, C11 = I.",
    tolerance=1e-12,
)
def cubic_interactions(rng: Rng) -> float:
    C31 = rng.normal(size=(2, 3))
    W21, W32 = draws.gaussian(rng, (3, 4, 2), 1.0)
    printed = np.einsum("ki,kj->ij", W32, C31) - np.einsum("ki,km,mj->ij", W32, W32, W21)
    return relative_error(printed, learning(*data_with(rng, C31), [W21, W32])[0])


@claim(
    "post/equations-3-4",
    place="Equations 3 and 4",
    statement="In the bases of the singular vectors of C31 = U S Vᵀ the equations keep their form, with S in place of "
    "C31.",
    formula=r"\tau\,\frac{d\overline W^{21}}{dt} = \overline W^{32\top}(S^{31} - \overline W^{32}\overline W^{21}),"
    r"\quad \tau\,\frac{d\overline W^{32}}{dt} = (S^{31} - \overline W^{32}\overline W^{21})\,\overline W^{21\top};"
    r"\qquad \overline W^{21} = W^{21}V^{11},\ \overline W^{32} = U^{33\top}W^{32}",
    conditions="White inputs, C11 = I; any sizes.",
    tolerance=1e-12,
)
def equations_3_4(rng: Rng) -> float:
    d_in, h, d_out = (int(n) for n in rng.integers(2, 5, size=3))
    C31 = rng.normal(size=(d_out, d_in))
    U, s, Vt = np.linalg.svd(C31)
    S = np.zeros_like(C31)
    np.fill_diagonal(S, s)
    W21, W32 = draws.gaussian(rng, (d_in, h, d_out), 1.0)
    one, two = learning(*data_with(rng, C31), [W21, W32])
    printed = equations_1_2(W21 @ Vt.T, U.T @ W32, S)
    return max(relative_error(printed[0], one @ Vt.T), relative_error(printed[1], U.T @ two))


@claim(
    "post/equations-5-6",
    place="Equations 5 and 6",
    statement="The vectors a^α and b^α, by which the hidden layer listens to input mode α and speaks to output mode α, "
    "are each driven by a term of their own mode and by one of all the others.",
    formula=r"\tau\,\dot a^\alpha = (s_\alpha - b^{\alpha\top}a^\alpha)\,b^\alpha - \sum_{\gamma\ne\alpha}"
    r"(b^{\gamma\top}a^\alpha)\,b^\gamma, \qquad \tau\,\dot b^\alpha = (s_\alpha - b^{\alpha\top}a^\alpha)\,a^\alpha - "
    r"\sum_{\gamma\ne\alpha}(b^{\alpha\top}a^\gamma)\,a^\gamma",
    conditions="White inputs, N1 = N3.",
    tolerance=1e-12,
    seeds=4,
)
def equations_5_6(rng: Rng) -> float:
    a, b, s, a_dot, b_dot = _modes(rng)
    return max(
        relative_error(first_term(a, b, s) + second_term(a, b), a_dot),
        relative_error(first_term(b, a, s) + second_term(b, a), b_dot),
    )


@claim(
    "post/loss-of-modes",
    place="After equation 6",
    statement="Equations 5 and 6 descend a loss that asks b^β·a^α to be s_α for β = α and zero otherwise.",
    formula=r"\frac{1}{2\tau}\sum_\alpha (s_\alpha - b^{\alpha\top}a^\alpha)^2 + \frac{1}{2\tau}\sum_{\alpha\ne\beta}"
    r"(b^{\beta\top}a^\alpha)^2",
    conditions="White inputs, N1 = N3.",
    tolerance=1e-12,
)
def loss_of_all_modes(rng: Rng) -> float:
    """Its slopes against those of the squared error of the data."""
    a, b, s, a_dot, b_dot = _modes(rng)
    a_slope, b_slope = gradient(lambda both: loss_of_modes(both[0], both[1], s), [a, b])
    return max(relative_error(-a_slope, a_dot), relative_error(-b_slope, b_dot))


def _modes(rng: Rng) -> tuple[Array, Array, Array, Array, Array]:
    """a, b (one row for each mode), s, and τ ȧ, τ ḃ by the loss of data, for a random network with N1 = N3."""
    n, h = (int(n) for n in rng.integers(2, 5, size=2))
    s = np.sort(rng.uniform(0.0, 3.0, size=n))[::-1]
    if rng.random() < 0.3:
        s[-1], s[0] = 0.0, s[1]  # rank deficiency and equal values are allowed
    C31, U, s, V = draws.target(rng, n, n, s)
    W21, W32 = draws.gaussian(rng, (n, h, n), 1.0)
    one, two = learning(*data_with(rng, C31), [W21, W32])
    return (W21 @ V).T, U.T @ W32, s, (one @ V).T, U.T @ two


@claim(
    "post/first-term",
    place="After equation 6, on the first terms",
    statement="The first terms of equations 5 and 6 turn a^α and b^α towards each other, and bring their product "
    "b^α·a^α towards s_α.",
    formula=r"\dot a = (s - b^\top a)\,b,\ \dot b = (s - b^\top a)\,a \;\Rightarrow\; \frac{d}{dt}\cos(a, b) \ge 0,"
    r"\quad \frac{d}{dt}|s - b^\top a| \le 0",
    conditions="Any a^α, b^α.",
    tolerance=0.0,  # the signed loss of cosine or gain of distance, whichever is more
    seeds=4,
)
def first_terms(rng: Rng) -> float:
    a, b = rng.normal(size=(2, 3))
    return _divergence(a, b, rng.uniform(0.2, 2.0))


@first_terms.stronger(
    "While b^α·a^α < s_α. Beyond it a^α + b^α shrinks and a^α − b^α grows: the two turn apart, and only the product "
    "goes where it should."
)
def first_terms_below_their_end(rng: Rng) -> float:
    a, b = rng.normal(size=(2, 3))
    return _divergence(a, b, max(float(a @ b), 0.0) + rng.uniform(0.2, 2.0))


@first_terms.counterexample(
    "s = 1, a = (2, 0), b = (1, 1): the product 2 is too large, and the cosine falls (the sign of its change)"
)
def _() -> tuple[float, float]:
    return 1.0, -float(np.sign(_cosine_lost(np.array([2.0, 0.0]), np.array([1.0, 1.0]), 1.0)))


def _divergence(a: Array, b: Array, s: float) -> float:
    """What cosine is lost, or what distance of the product from s is won, in a short time of the first terms."""
    end = _by_first_terms(a, b, s)
    return max(_cosine_lost(a, b, s), abs(s - float(end[0] @ end[1])) - abs(s - float(a @ b)))


def _by_first_terms(a: Array, b: Array, s: float) -> Array:
    return integrate(lambda x: (s - x[0] @ x[1]) * x[::-1], [a, b], [0.1])[0]


def _cosine_lost(a: Array, b: Array, s: float) -> float:
    before, after = (float(x @ y / np.sqrt((x @ x) * (y @ y))) for x, y in ((a, b), _by_first_terms(a, b, s)))
    return before - after


@claim(
    "post/second-term",
    place="After equation 6, on the second terms",
    statement="The second term of equation 5 shrinks each component of a^α along the b^γ of the other modes (and that "
    "of equation 6 those of b^α along the a^γ).",
    formula=r"\dot a^\alpha = -\sum_{\gamma\ne\alpha}(b^{\gamma\top}a^\alpha)\,b^\gamma \;\Rightarrow\; "
    r"\frac{d}{dt}|b^{\gamma\top}a^\alpha| \le 0 \quad\text{for all } \gamma\ne\alpha",
    conditions="Any vectors.",
    tolerance=0.0,  # the signed growth of the component that grows most
)
def second_terms(rng: Rng) -> float:
    return _growth(rng.normal(size=3), rng.normal(size=(2, 3)))


@second_terms.stronger(
    "The b^γ of the other modes are orthogonal to each other. If not, a^α does lose length within their span, but a "
    "single component may grow."
)
def second_terms_of_orthogonal_modes(rng: Rng) -> float:
    return _growth(rng.normal(size=3), draws.orthogonal(rng, 3, 2).T * rng.uniform(0.5, 2.0, size=(2, 1)))


@second_terms.counterexample(
    "a = (0, 1), other modes b = (1, 0) and (1, 1): the component along the first is zero, and is −0.24 later (t = 0.5)"
)
def _() -> tuple[float, float]:
    a, others = np.array([0.0, 1.0]), np.array([[1.0, 0.0], [1.0, 1.0]])
    return float(others[0] @ a), float(others[0] @ _by_second_term(a, others, 0.5))


def _growth(a: Array, others: Array) -> float:
    return float(np.max(np.abs(others @ _by_second_term(a, others, 0.1)) - np.abs(others @ a)))


def _by_second_term(a: Array, others: Array, time: float) -> Array:
    """a^α after a time of its second term alone, the vectors of the other modes held."""
    none = np.zeros(len(a))  # b^α itself, which the second term leaves out

    def velocity(x: Array) -> Array:
        return second_term(np.vstack([x, np.zeros_like(others)]), np.vstack([none, others]))[0]

    return integrate(velocity, a, [time])[0]


@claim(
    "post/conclusions-reversed",
    place="Linear regression, last paragraph",
    statement="None of the four conclusions on regression is true of a network with a hidden layer: its learning is "
    "not linear, its weights interact, it has several fixed points, one of them unstable, and several timescales.",
    formula=r"\text{not (i), not (ii), not (iii), not (iv)}",
    conditions="White inputs, two or more modes of different strength.",
    tolerance=0.0,  # 1e-3 less the least of four departures from regression, each of order 1
)
def conclusions_reversed(rng: Rng) -> float:
    C31, U, s, V = draws.target(rng, 2, 2)
    loss = squared_error(*data_with(rng, C31))
    one, other = draws.gaussian(rng, (2, 2, 2), 1.0), draws.gaussian(rng, (2, 2, 2), 1.0)
    nothing, learnt = [np.zeros((2, 2)), np.zeros((2, 2))], draws.aligned(rng, U, V, s, (2, 2, 2))
    fixed = max(float(np.abs(slope).max()) for point in (nothing, learnt) for slope in gradient(loss, point)) < 1e-12
    rates = np.linalg.eigvalsh(hessian(loss, learnt))
    departures = [
        departure_from_linear(loss, one, other, 0.5),
        interaction(loss, one),
        -float(np.linalg.eigvalsh(hessian(loss, nothing)).min()) if fixed else -1.0,
        float(rates.max() / rates[rates > 1e-6].min() - 1),
    ]
    return 1e-3 - min(departures)
