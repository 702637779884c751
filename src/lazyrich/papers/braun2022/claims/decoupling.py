"""Section 5: modes that are coupled at first. Theorem 5.1, two modes, and the peak of their coupling.

Two modes are looked at in the task's own basis: W1 = A, W2 = Aᵀ and Σyx = diag(s1, s2), which changes nothing, since
the flow turns with the bases. AᵀA = [[a1, b], [b, a2]].
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import cholesky, polar
from scipy.optimize import brentq

from lazyrich._typing import Array
from lazyrich.methods import mode_times
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import gradient, layers, product, relative_error
from lazyrich.papers.base.types import Rng, Row
from lazyrich.papers.braun2022.claims.setting import gram
from lazyrich.papers.braun2022.claims.slips import DETERMINANT
from lazyrich.papers.braun2022.formulas import TwoModes, t_peak, t_peak_as_printed, theorem_5_1

NOT_CHECKED: tuple[NotChecked, ...] = (
    NotChecked(
        "Section 5",
        "Real starts are seldom decoupled; the decoupling resembles silent "
        "alignment; intermediate variances may show more complex behaviour.",
        "Observations without a measure: nothing is said that could turn out false.",
    ),
)


def coupled(rng: Rng, scale: float) -> tuple[Array, tuple[float, float, float]]:
    """A(0) with AᵀA = [[a1, b], [b, a2]] of the given size, b well off 0 and off its bound, and of either sign; and
    a1, a2, b."""
    a1, a2 = scale * rng.uniform(0.3, 1.0, size=2)
    b = np.sqrt(a1 * a2) * rng.uniform(0.2, 0.8) * rng.choice([-1, 1])
    return cholesky(np.array([[a1, b], [b, a2]])), (float(a1), float(a2), float(b))


def course(A0: Array, s: Row, times: Row) -> TwoModes:
    """a1, a2, b along the integrated flow, read off W2W1."""
    W = product(layers([A0, A0.T], np.diag(s), times))
    return TwoModes(W[:, 0, 0], W[:, 1, 1], W[:, 0, 1])


def growth_of_coupling(A: Array, s: Row) -> float:
    """d ln|b|/dt where the weights are A and Aᵀ, from the derivatives of the loss itself."""
    target = np.diag(s)
    dW1, dW2 = (-slope for slope in gradient(lambda W: np.sum((W[1] @ W[0] - target) ** 2) / 2, [A, A.T]))
    return float((dW2 @ A + A.T @ dW1)[0, 1] / (A.T @ A)[0, 1])


def moment(value: Callable[[list[Array]], float], weights: list[Array], sigma_yx: Array, step: float) -> float:
    """The first time at which a function of the weights falls through zero: by steps, then to rounding."""

    def after(t: float) -> list[Array]:
        return [layer[0] for layer in layers(weights, sigma_yx, [t])]

    now = 0.0
    while value(ahead := after(step)) > 0:
        now, weights = now + step, ahead
    return float(now + brentq(lambda t: value(after(t)), 0.0, step, xtol=1e-13 * step, rtol=1e-14))


def peak(A0: Array, s: Row) -> float:
    """When |b| is largest."""
    return moment(lambda W: growth_of_coupling(W[0], s), [A0, A0.T], np.diag(s), 1.0 / max(s))


@claim(
    "braun2022/theorem-5.1",
    place="Section 5, Theorem 5.1, eq. 13",
    statement="From a start W1 = A(0)Ṽᵀ, W2 = ŨA(0)ᵀ the whole course of QQᵀ is that of AᵀA in the basis of the task, "
    "and this has a shorter form.",
    formula=r"A^\top A(t) = \left[e^{-\tilde S t/\tau} \left(A_0^\top A_0\right)^{-1} e^{-\tilde S t/\tau} +"
    r" (I - e^{-2\tilde S t/\tau}) \tilde S^{-1}\right]^{-1}",
    conditions="As many outputs as inputs, white inputs, Σyx of full rank, A(0) invertible (independent columns will "
    "do). Such a start is zero-balanced.",
    tolerance=1e-10,
    seeds=4,
)
def theorem_5_1_holds(rng: Rng) -> float:
    n = int(rng.integers(1, 5))
    s = np.full(n, 1.4) if rng.random() < 0.3 else None
    sigma_yx, U, s, V = draws.target(rng, n, n, s)
    A0 = rng.uniform(0.2, 1.5) * rng.normal(size=(n + int(rng.integers(0, 3)), n))
    tau = rng.uniform(0.5, 2.0)
    times = np.array([0.0, 0.3, 1.0, 3.0]) * tau / s[0]
    truth = gram(layers([A0 @ V.T, U @ A0.T], sigma_yx, times, rates=(1 / tau, 1 / tau)))
    both = np.concatenate([V, U])
    return relative_error(both @ theorem_5_1(A0, s, times / tau) @ both.T, truth)


@claim(
    "braun2022/theorem-5.1-remark",
    place="Section 5, after Theorem 5.1",
    statement="This form is less general than Theorem 3.1: it implies that UV, of the singular vectors of the start, "
    "equals ŨṼ, as printed in the main text.",
    formula=r"U V = \tilde U \tilde V",
    conditions="As for Theorem 5.1.",
    tolerance=1e-10,
)
def theorem_5_1_remark(rng: Rng) -> float:
    U_tilde, V_tilde, start = _start_in_the_basis(rng)
    U, _, Vt = np.linalg.svd(start)
    return relative_error(U @ Vt.T, U_tilde @ V_tilde)


@theorem_5_1_remark.corrected(
    "With transposes: the start has the task's orthogonal factor. (UV itself has no meaning: it changes with the signs "
    "that an SVD leaves open.)",
    formula=r"U V^\top = \tilde U \tilde V^\top",
)
def theorem_5_1_remark_transposed(rng: Rng) -> float:
    """The orthogonal factor by polar decomposition of the start."""
    U_tilde, V_tilde, start = _start_in_the_basis(rng)
    return relative_error(U_tilde @ V_tilde.T, polar(start)[0])


def _start_in_the_basis(rng: Rng) -> tuple[Array, Array, Array]:
    n = int(rng.integers(2, 5))
    U, V = draws.orthogonal(rng, n), draws.orthogonal(rng, n)
    A0 = draws.orthogonal(rng, n) * rng.uniform(0.3, 2.0, size=n) @ draws.orthogonal(rng, n)
    return U, V, (U @ A0.T) @ (A0 @ V.T)


@theorem_5_1_remark.counterexample(
    "Ũ = I, Ṽ a quarter turn, A(0)ᵀA(0) = [[2, 1], [1, 2]]: the upper right entry of UV, which is 1 or 0 by the signs "
    "that the SVD happens to take, and of ŨṼ"
)
def _() -> tuple[float, float]:
    V_tilde, AtA = np.array([[0.0, -1.0], [1.0, 0.0]]), np.array([[2.0, 1.0], [1.0, 2.0]])
    U, _, Vt = np.linalg.svd(AtA @ V_tilde.T)
    return float((U @ Vt.T)[0, 1]), float(V_tilde[0, 1])


@claim(
    "braun2022/coupling-matrix",
    place="Section 5, after Theorem 5.1, and on decoupling dynamics",
    statement="An entry of AᵀA is the strength of the connection from an input mode to an output mode of the task, at "
    "every time: those off the diagonal shrink to zero, those on it approach the singular values.",
    formula=r"[A^\top A(t)]_{ji} = \tilde u_j^\top W_2 W_1(t)\, \tilde v_i \ \to\ \tilde s_i\,\delta_{ij}",
    conditions="As for Theorem 5.1.",
    tolerance=1e-9,
    seeds=4,
)
def coupling_matrix(rng: Rng) -> float:
    """A(t) is read off the first layer alone, the connection off the product."""
    n = int(rng.integers(1, 4))
    sigma_yx, U, s, V = draws.target(rng, n, n)
    A0 = draws.orthogonal(rng, n) * rng.uniform(0.3, 1.5, size=n) @ draws.orthogonal(rng, n)
    W1, W2 = layers([A0 @ V.T, U @ A0.T], sigma_yx, [0.5, 25 / s[-1]])
    A, connection = W1 @ V, U.T @ (W2 @ W1) @ V
    return max(relative_error(np.swapaxes(A, 1, 2) @ A, connection), relative_error(np.diag(s), connection[-1]))


@claim(
    "braun2022/decoupled-limit",
    place="Section 5, after eq. 14",
    statement="With b(0) = 0 the modes stay decoupled, and each follows the logistic curve known before.",
    formula=r"b(0) = 0 \ \Rightarrow\ b(t) = 0, \quad a_i(t) = \frac{s_i e^{2 s_i t/\tau}}{e^{2 s_i t/\tau} - 1 +"
    r" s_i/a_i(0)}",
    conditions="As for Theorem 5.1, two modes.",
    tolerance=1e-10,
)
def decoupled_limit(rng: Rng) -> float:
    """A(0) has orthogonal columns in a random basis of the hidden layer."""
    s, a = rng.uniform(0.5, 3.0, size=2), 10 ** rng.uniform(-3, 0.5, size=2)
    times = np.array([0.2, 1.0, 3.0])
    found = course(draws.orthogonal(rng, 2) * np.sqrt(a), s, times)
    printed = [mode_times.logistic(a0, strength, times) for a0, strength in zip(a, s, strict=True)]
    return relative_error(np.array([*printed, 0 * times]), np.array([*found]))


@claim(
    "braun2022/t-peak",
    place="Section 5, decoupling dynamics, Figure 4F (main text; the appendix may say more)",
    statement="With two modes of equal strength, the coupling b has its largest magnitude at a time that is known. "
    "(Derived in Appendix E, which is not at hand; it may ask for a small start. The main text does not.)",
    formula=r"t_{\text{peak}} = \frac{\tau}{4s} \ln \frac{s(s - a_1 - a_2)}{a_1 a_2 - b(0)^2}",
    conditions="As for Theorem 5.1, two modes with s1 = s2 = s; a1, a2, b at t = 0, with s > a1 + a2.",
    tolerance=1e-8,
    seeds=6,
)
def t_peak_printed(rng: Rng) -> float:
    s, A0, values = _before_a_peak(rng)
    return relative_error(t_peak_as_printed(*values, s), peak(A0, (s, s)))


@t_peak_printed.corrected(
    "The determinant is missing from the numerator; it may be left out for small starts only. As it should be, the "
    "time is positive whenever s > a1 + a2.",
    formula=r"t_{\text{peak}} = \frac{\tau}{4s} \ln \frac{s(s - a_1 - a_2) + a_1 a_2 - b(0)^2}{a_1 a_2 - b(0)^2}",
    slips=(DETERMINANT,),
)
def t_peak_with_determinant(rng: Rng) -> float:
    s, A0, values = _before_a_peak(rng)
    return relative_error(t_peak(*values, s), peak(A0, (s, s)))


def _before_a_peak(rng: Rng) -> tuple[float, Array, tuple[float, float, float]]:
    s = rng.uniform(0.5, 3.0)
    return s, *coupled(rng, s * 10 ** rng.uniform(-3, np.log10(0.4)))


@t_peak_printed.counterexample("s = 1, a1 = a2 = 0.45, b = 0.1: the printed time is negative")
def _() -> tuple[float, float]:
    A0 = cholesky(np.array([[0.45, 0.1], [0.1, 0.45]]))
    return t_peak_as_printed(0.45, 0.45, 0.1, 1.0), peak(A0, (1.0, 1.0))


@claim(
    "braun2022/half-learned-at-peak",
    place="Section 5, decoupling dynamics (main text; the appendix may say more)",
    statement="At the time of the peak each mode has come half of its way (approximately, says the source).",
    formula=r"a_1(t_{\text{peak}}) \approx \tfrac12 s",
    conditions="As for the time of the peak.",
    tolerance=1e-8,
    seeds=8,
)
def half_learned_at_peak(rng: Rng) -> float:
    s, now = _at_the_peak(rng)
    return relative_error(s / 2, now.a1)


@half_learned_at_peak.stronger(
    "a1(0) = a2(0): then each is s/2, and exactly so. From other starts that have a peak it is the mean of the two "
    "elements that is s/2, and either alone may be anywhere between 0 and s."
)
def half_learned_at_peak_if_equal(rng: Rng) -> float:
    """Equal elements, and the mean of unequal ones."""
    s, equal = _at_the_peak(rng, equal=True)
    other, unequal = _at_the_peak(rng)
    return max(relative_error(s / 2, equal.a1), relative_error(other / 2, (unequal.a1 + unequal.a2) / 2))


def _at_the_peak(rng: Rng, *, equal: bool = False) -> tuple[float, TwoModes]:
    s, A0, (a, _, b) = _before_a_peak(rng)
    if equal:
        b *= rng.uniform(0.2, 0.8) * a / abs(b)
        A0 = cholesky(np.array([[a, b], [b, a]]))
    a1, a2, b = (value[0] for value in course(A0, (s, s), [peak(A0, (s, s))]))
    return s, TwoModes(a1, a2, b)


@half_learned_at_peak.counterexample("s = 1, a1 = 0.0001, a2 = 0.01, b = 0.0005: a1 is at 0.08 when |b| is largest")
def _() -> tuple[float, float]:
    A0 = cholesky(np.array([[1e-4, 5e-4], [5e-4, 1e-2]]))
    return 0.5, float(course(A0, (1.0, 1.0), [peak(A0, (1.0, 1.0))]).a1[0])
