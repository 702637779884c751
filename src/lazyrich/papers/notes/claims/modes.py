"""Section 5, first part: aligned starts, modes on their own, the equation of a mode and its logistic curve."""

from collections.abc import Sequence

import numpy as np

from lazyrich._typing import Array
from lazyrich.methods import mode_times
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import along, gradient, layers, product, relative_error
from lazyrich.papers.base.types import Real, Rng
from lazyrich.papers.notes.claims.slips import EXPONENT, SECOND_TERM

NOT_CHECKED = (
    NotChecked(
        "Section 5.3, after the equation for b",
        "The equation of a mode at general depth can be solved in closed form.",
        "A matter of what is called closed: the time as a function of a is a hypergeometric function, its inverse has "
        "no name. The equation that is called so in the notes is another one, `notes/power-form`.",
    ),
)

_STEP = 1e-30


def mode_rate(a: Real, s: Real, L: int) -> Real:
    """ȧ = L a^{2(L−1)/L} (s − a)."""
    return L * a ** (2 * (L - 1) / L) * (s - a)


def mode_rates(weights: Sequence[Array], T: Array, U: Array, V: Array) -> Array:
    """d/dt uᵀWv of every mode, from values of the loss alone."""
    gradients = gradient(lambda Ws: ((product(Ws) - T) ** 2).sum() / 2, weights)
    moved = product([W - 1j * _STEP * slope for W, slope in zip(weights, gradients, strict=True)])
    return np.diag(U.T @ np.imag(moved) @ V) / _STEP


def off_the_modes(W: Array, U: Array, V: Array) -> float:
    """The largest part of a stack of W outside Σ a_α u_α v_αᵀ, relative to the largest a."""
    strengths = np.einsum("oa,toi,ia->ta", U, W, V)
    return relative_error(np.einsum("oa,ta,ia->toi", U, strengths, V), W)


def aligned_product(rng: Rng) -> tuple[Array, Array, Array, Array]:
    """A target 3 × 4 with its U and V, and the product of an aligned start, of strengths of any sign."""
    T, U, s, V = draws.target(rng, 3, 4)
    return T, U, V, U @ np.diag(s * rng.uniform(-0.2, 0.8, size=3)) @ V.T


def _sizes(rng: Rng, L: int, d_in: int, d_out: int) -> tuple[int, ...]:
    return (d_in, *rng.integers(3, 6, size=L - 1).tolist(), d_out)


@claim(
    "notes/alignment-preserved",
    place="Section 5.1",
    statement="If the product W of the layers shares the singular vectors of the target at the start, it does so for "
    "ever.",
    formula=r"W(0) = U\,\mathrm{diag}(a_\alpha(0))\,V^\top \;\Rightarrow\; "
    r"W(t) = U\,\mathrm{diag}(a_\alpha(t))\,V^\top",
    conditions="White inputs; W(0) aligned with T.",
    tolerance=1e-9,
)
def alignment_preserved(rng: Rng) -> float:
    T, U, V, W0 = aligned_product(rng)
    M = np.eye(3) + 0.3 * rng.normal(size=(3, 3))
    W1 = np.linalg.solve(M, U.T @ W0)  # any factors of W0
    return off_the_modes(product(layers([W1, U @ M], T, [0.3, 1.0])), U, V)


@alignment_preserved.stronger(
    "The layers are balanced as well, W_{ℓ+1}ᵀW_{ℓ+1} = W_ℓW_ℓᵀ; that W is aligned is not enough."
)
def alignment_preserved_by_balanced_layers(rng: Rng) -> float:
    T, U, V, W0 = aligned_product(rng)
    L = int(rng.integers(2, 4))
    strengths = np.diag(U.T @ W0 @ V)
    weights = draws.aligned(rng, U, V, np.abs(strengths), _sizes(rng, L, 4, 3))
    weights[-1] = U @ np.diag(np.sign(strengths)) @ U.T @ weights[-1]
    return off_the_modes(product(layers(weights, T, [0.3, 1.0])), U, V)


@alignment_preserved.counterexample(
    "T = diag(2, 1), W1 = (1 1; 0 1), W2 its inverse: the product is I, and its (1, 2) entry leaves 0 at once; "
    "its slope at the start"
)
def _() -> tuple[float, float]:
    W1 = np.array([[1.0, 1.0], [0.0, 1.0]])
    W2 = np.array([[1.0, -1.0], [0.0, 1.0]])
    gradients = gradient(lambda Ws: ((product(Ws) - np.diag([2.0, 1.0])) ** 2).sum() / 2, [W1, W2])
    return 0.0, float(-(W2 @ gradients[0] + gradients[1] @ W1)[0, 1])


@claim(
    "notes/mode-decoupling",
    place="Section 5.2, Proposition",
    statement="In a balanced and aligned network every mode moves on its own: its speed is a function of its own "
    "strength times its own error s − a, whatever the other modes are and do.",
    formula=r"\dot a_\alpha = g(a_\alpha)\,(s_\alpha - a_\alpha)",
    conditions="White inputs; layers balanced and aligned with T; any depth L.",
    tolerance=1e-10,
)
def mode_decoupling(rng: Rng) -> float:
    """Two networks that have nothing but the strength of one mode and the depth in common."""
    L, a = int(rng.integers(2, 5)), rng.uniform(0.2, 1.5)

    def g() -> float:
        T, U, s, V = draws.target(rng, 3, 3)
        weights = draws.aligned(rng, U, V, [rng.uniform(0.1, 2.0), a, rng.uniform(0.1, 2.0)], _sizes(rng, L, 3, 3))
        return float(mode_rates(weights, T, U, V)[1] / (s[1] - a))

    return relative_error(g(), g())


@claim(
    "notes/mode-equation",
    place="Section 5.3",
    statement="A mode that is carried by L layers with a^{1/L} each grows at a speed that is a power of its strength "
    "times its error; for two layers that is 2a(s − a).",
    formula=r"\dot a_\alpha = L\, a_\alpha^{2(L-1)/L}\,(s_\alpha - a_\alpha)",
    conditions="White inputs; layers balanced and aligned with T; any depth L.",
    tolerance=1e-11,
)
def mode_equation(rng: Rng) -> float:
    T, U, s, V = draws.target(rng, 3, 4)
    L, a = int(rng.integers(1, 6)), rng.uniform(0.05, 3.0, size=3)
    return relative_error(mode_rate(a, s, L), mode_rates(draws.aligned(rng, U, V, a, _sizes(rng, L, 4, 3)), T, U, V))


@claim(
    "notes/logistic",
    place="Section 5.3, solution for L = 2",
    statement="With two layers the strength of a mode follows a logistic curve.",
    formula=r"a_\alpha(t) = \frac{s_\alpha}{1 + \left(\frac{s_\alpha}{a_\alpha(0)} - 1\right) e^{-2 s_\alpha t}}",
    conditions="White inputs; two layers, balanced and aligned with T; also from above, a(0) > s.",
    tolerance=1e-9,
)
def logistic(rng: Rng) -> float:
    T, U, s, V = draws.target(rng, 3, 4)
    a0 = s * 10.0 ** rng.uniform(-2, 0.3, size=3)
    times = np.linspace(0.3, 3.0, 4) / s[-1]
    W = product(layers(draws.aligned(rng, U, V, a0, _sizes(rng, 2, 4, 3)), T, times))
    return relative_error(mode_times.logistic(a0, s, times[:, None]), np.einsum("oa,toi,ia->ta", U, W, V))


def slope_of_power(a: float, s: float, L: int) -> float:
    """d/dt a^{2/L} of a network of one unit per layer, from values of its loss alone."""
    weights = [np.full((1, 1), a ** (1 / L))] * L
    velocity = [-slope for slope in gradient(lambda Ws: ((product(Ws) - s) ** 2).sum() / 2, weights)]
    return float(along(lambda Ws: product(Ws) ** (2 / L), weights, velocity)[0, 0])


def power_form_as_printed(b: float, s: float, L: int) -> float:
    """ḃ = 2s b^{(L−1)/2} − 2s b."""
    return 2 * s * b ** ((L - 1) / 2) - 2 * s * b


def power_form(b: float, s: float, L: int) -> float:
    """ḃ = 2 b^{L/2} (s − b^{L/2})."""
    return 2 * b ** (L / 2) * (s - b ** (L / 2))


def derivation_as_printed(a: float, s: float, L: int) -> float:
    """ḃ = 2 s a^{(2−L)/L} a^{(2L−2)/L} − 2bs."""
    return 2 * s * a ** ((2 - L) / L) * a ** ((2 * L - 2) / L) - 2 * a ** (2 / L) * s


def drawn_mode(rng: Rng) -> tuple[float, float, int]:
    """a, s and L of a mode on its way."""
    s = rng.uniform(0.5, 3.0)
    return s * rng.uniform(0.1, 0.6), s, int(rng.integers(2, 6))


@claim(
    "notes/power-form",
    place="Section 5.3, general L, after simplification",
    statement="The power b = a^{2/L} of a mode's strength obeys a Bernoulli equation.",
    formula=r"\dot b_\alpha = 2 s_\alpha b_\alpha^{(L-1)/2} - 2 s_\alpha b_\alpha",
    conditions="White inputs; layers balanced and aligned with T; any depth L.",
    tolerance=1e-11,
)
def power_form_claim(rng: Rng) -> float:
    a, s, L = drawn_mode(rng)
    return relative_error(power_form_as_printed(a ** (2 / L), s, L), slope_of_power(a, s, L))


@power_form_claim.corrected(
    "Both powers of b are other ones, and the equation is of Bernoulli's kind for L = 2 alone.",
    formula=r"\dot b_\alpha = 2 b_\alpha^{L/2}\left(s_\alpha - b_\alpha^{L/2}\right)",
    slips=(SECOND_TERM, EXPONENT),
)
def power_form_corrected(rng: Rng) -> float:
    a, s, L = drawn_mode(rng)
    return relative_error(power_form(a ** (2 / L), s, L), slope_of_power(a, s, L))


@power_form_claim.counterexample("L = 4, s = 2, a = 1, so that b = 1: printed is the slope of b at rest")
def _() -> tuple[float, float]:
    return power_form_as_printed(1.0, 2.0, 4), slope_of_power(1.0, 2.0, 4)


@claim(
    "notes/power-form-derivation",
    place="Section 5.3, general L, end of the displayed line",
    statement="On the way to the equation for b = a^{2/L}, its slope is written as 2sa (in powers of a) less 2bs.",
    formula=r"\dot b_\alpha = 2 s_\alpha\, a_\alpha^{(2-L)/L}\, a_\alpha^{(2L-2)/L} - 2 b_\alpha s_\alpha",
    conditions="White inputs; layers balanced and aligned with T; any depth L.",
    tolerance=1e-11,
)
def power_form_derivation(rng: Rng) -> float:
    a, s, L = drawn_mode(rng)
    return relative_error(derivation_as_printed(a, s, L), slope_of_power(a, s, L))


@power_form_derivation.corrected(
    "The second term is 2a², since all powers of a in the first factor come to a.",
    formula=r"\dot b_\alpha = 2 s_\alpha a_\alpha - 2 a_\alpha^2",
    slips=(SECOND_TERM,),
)
def power_form_derivation_corrected(rng: Rng) -> float:
    a, s, L = drawn_mode(rng)
    return relative_error(2 * s * a - 2 * a**2, slope_of_power(a, s, L))


@power_form_derivation.counterexample("Two layers, where b = a, at s = 2 and a = 1: printed is no movement at all")
def _() -> tuple[float, float]:
    return derivation_as_printed(1.0, 2.0, 2), slope_of_power(1.0, 2.0, 2)
