"""One hidden layer, linear, from a decoupled start: the strengths of modes, and their logistic curve (eqs. 7 to 9)."""

import numpy as np

from lazyrich._typing import Array
from lazyrich.methods import mode_times
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import integrate, layers, product, relative_error
from lazyrich.papers.base.types import Rng
from lazyrich.papers.post.claims.gradients import learning
from lazyrich.papers.post.claims.regression import data_with

NOT_CHECKED = (
    NotChecked(
        "Figure 1",
        "Equation 9 is a reasonable approximation to the learning of a tanh network.",
        "An experiment, and no bound is stated: `lazyrich figure saxe2014/3` draws it. What is said there of a linear "
        "network from random weights is checked.",
    ),
    NotChecked(
        "Last paragraph",
        "The loss of deep nonlinear networks sometimes stays level and then drops; possibly this is one mode rising "
        "after another.",
        "Offered as a possibility.",
    ),
)


def equations_7_8(a: Array, b: Array, s: Array) -> Array:
    """τ da/dt and τ db/dt of the strengths of both layers, mode by mode."""
    return np.array([(s - a * b) * b, (s - a * b) * a])


def start_along(r: Array, a: Array, b: Array, U: Array, V: Array) -> list[Array]:
    """W21 and W32 with a^α = a_α r^α and b^α = b_α r^α for as many modes as r has columns, zero for the others."""
    n = r.shape[1]
    return [r @ np.diag(a) @ V[:, :n].T, U[:, :n] @ np.diag(b) @ r.T]


@claim(
    "post/equations-7-8",
    place="Equations 7 and 8",
    statement="If every a^α and b^α starts along a direction r^α of its own, orthogonal to those of the other modes, "
    "it keeps it, and only lengths change: those of one mode without regard to the others.",
    formula=r"\tau\,\frac{da_\alpha}{dt} = (s_\alpha - a_\alpha b_\alpha)\,b_\alpha, \qquad "
    r"\tau\,\frac{db_\alpha}{dt} = (s_\alpha - a_\alpha b_\alpha)\,a_\alpha",
    conditions="White inputs; N2 orthonormal r^α, modes beyond N2 at zero; equal lengths, which the equations do not "
    "need: here they differ.",
    tolerance=1e-9,
)
def equations_7_and_8(rng: Rng) -> float:
    """Against all entries of both layers of the whole network, integrated."""
    C31, U, s, V = draws.target(rng, 3, 3)
    h = int(rng.integers(1, 4))
    r, start = draws.orthogonal(rng, h), rng.normal(size=(2, h)) * 0.7
    times = np.linspace(0.0, 1.5, 4)
    truth = layers(start_along(r, start[0], start[1], U, V), C31, times)
    strengths = integrate(lambda x: equations_7_8(x[0], x[1], s[:h]), start, times)
    printed = [start_along(r, a, b, U, V) for a, b in strengths]
    return max(relative_error([both[i] for both in printed], truth[i]) for i in (0, 1))


@claim(
    "post/equal-layers",
    place="Between equations 8 and 9",
    statement="Layers that start equal stay equal, and the product of the two strengths then follows an equation of "
    "its own.",
    formula=r"a_\alpha(t) = b_\alpha(t), \qquad \tau\,\frac{du_\alpha}{dt} = 2u_\alpha(s_\alpha - u_\alpha), \qquad "
    r"u_\alpha = a_\alpha b_\alpha",
    conditions="A decoupled start with a_α(0) = b_α(0).",
    tolerance=1e-9,
)
def equal_layers(rng: Rng) -> float:
    """By the velocity that the loss gives, at places that the whole network passes."""
    C31, U, s, V = draws.target(rng, 3, 3)
    data, c = data_with(rng, C31), rng.normal(size=3)
    W21, W32 = layers(start_along(draws.orthogonal(rng, 3), c, c, U, V), C31, [0.0, 0.4, 1.0])
    errors = []
    for one, two in zip(W21, W32, strict=True):
        one_dot, two_dot = learning(*data, [one, two])
        u, u_dot = (np.diag(U.T @ W @ V) for W in (two @ one, two_dot @ one + two @ one_dot))
        errors += [relative_error((one @ V).T, U.T @ two), relative_error(2 * u * (s - u), u_dot)]
    return max(errors)


@claim(
    "post/learning-time",
    place="Before equation 9, the integral",
    statement="The time that a mode takes from one strength to another follows by separating the variables.",
    formula=r"t = \frac{\tau}{2s_\alpha}\ln\frac{u_\alpha(t)\,[s_\alpha - u_\alpha(0)]}"
    r"{u_\alpha(0)\,[s_\alpha - u_\alpha(t)]}",
    conditions="A decoupled start with equal layers, u(0) > 0; time in units of τ.",
    tolerance=1e-8,
)
def learning_time(rng: Rng) -> float:
    """Starts on both sides of s."""
    C31, U, s, V = draws.target(rng, 3, 3)
    u0, times = s * rng.choice([0.05, 0.4, 1.7], size=3), np.array([0.2, 0.6, 1.0]) / s[0]
    u = _strengths(draws.aligned(rng, U, V, u0, (3, 4, 3)), C31, U, V, times)
    return relative_error(mode_times.time_to_learn(u0, u, s), times[:, None] + 0 * u)


@claim(
    "post/equation-9",
    place="Equation 9",
    statement="From a decoupled start with equal layers, the strength of every mode follows a logistic curve of its "
    "own, whatever the other modes do.",
    formula=r"u_\alpha(t) = \frac{s_\alpha e^{2 s_\alpha t}}{e^{2 s_\alpha t} - 1 + s_\alpha / u_\alpha(0)}",
    conditions="White inputs; a start a^α = b^α along orthonormal directions of the hidden layer; time in units of τ.",
    tolerance=1e-9,
)
def equation_9(rng: Rng) -> float:
    """Against the whole network, all modes together, integrated layer by layer."""
    C31, U, s, V = draws.target(rng, 3, 3)
    u0 = s * 10.0 ** rng.uniform(-3, -0.5, size=3)
    times = np.linspace(0.0, 3.0, 7) / s[-1]
    u = _strengths(draws.aligned(rng, U, V, u0, (3, 4, 3)), C31, U, V, times)
    return relative_error(mode_times.logistic(u0, s, times[:, None]), u)


@claim(
    "post/time-constant",
    place="After equation 9",
    statement="The strength of a mode is a sigmoid in time that ends at s_α, with time constant τ/(2s_α): stronger "
    "correlations are learnt faster. Modes that have a hidden direction end learnt, the others stay at zero: the "
    "global minimum.",
    formula=r"\frac{d}{dt}\ln\frac{u_\alpha}{s_\alpha - u_\alpha} = \frac{2s_\alpha}{\tau}, \qquad "
    r"u_\alpha(\infty) = s_\alpha\ (\alpha \le N_2),\quad 0\ (\alpha > N_2)",
    conditions="A decoupled start with equal layers and 0 < u(0) < s, N2 ≤ N1 hidden units.",
    tolerance=1e-8,
    seeds=6,
)
def time_constant(rng: Rng) -> float:
    C31, U, s, V = draws.target(rng, 3, 3)
    h = int(rng.integers(1, 4))
    c = np.sqrt(s[:h] * rng.uniform(0.05, 0.5, size=h))
    times = np.array([0.0, 0.3 / s[0], 1.0 / s[0], 12.0 / s[h - 1]])
    u = _strengths(start_along(draws.orthogonal(rng, h), c, c, U, V), C31, U, V, times)
    log_odds = np.log(u[:3, :h] / (s[:h] - u[:3, :h]))
    slopes = np.diff(log_odds, axis=0) / np.diff(times[:3])[:, None]
    end = np.where(np.arange(3) < h, s, 0.0)
    return max(relative_error(slopes, np.tile(2 * s[:h], (2, 1))), relative_error(u[3], end))


@claim(
    "post/random-start",
    place="Figure 1, blue curves",
    statement="Equation 9 describes a linear network from random weights too, if these are small: the strengths of its "
    "modes rise along the same curves, shifted in time.",
    formula=r"W(0) = \varepsilon G,\ \varepsilon \to 0: \qquad \frac{d}{dt}\ln\frac{u_\alpha}{s_\alpha - u_\alpha} \to "
    r"\frac{2s_\alpha}{\tau}\quad\text{while mode } \alpha \text{ rises}",
    conditions="White inputs, Gaussian weights of scale ε. What is left vanishes as ε^{2(1 − s₂/s₁)}: here s₂ ≤ s₁/2.",
    tolerance=1e-7,
)
def random_start(rng: Rng) -> float:
    """At ε = 1e-10, between 2 and 98 per cent of each mode."""
    C31, U, s, V = draws.target(rng, 2, 2, rng.uniform(1.0, 2.0) * np.array([1.0, rng.uniform(0.3, 0.5)]))
    scale = 1e-10
    times = np.sort(np.concatenate([(np.log(1 / scale) + np.arange(-4.0, 5.0)) / value for value in s]))
    u = _strengths(draws.gaussian(rng, (2, 4, 2), scale), C31, U, V, times)
    errors = []
    for values, end in zip(u.T, s, strict=True):
        rising = (values > 0.02 * end) & (values < 0.98 * end)
        slopes = np.diff(np.log(values / (end - values))[rising]) / np.diff(times[rising])
        errors.append(relative_error(slopes, np.full(len(slopes), 2 * end)))
    return max(errors)


def _strengths(weights: list[Array], C31: Array, U: Array, V: Array, times: Array) -> Array:
    """uᵀWv of every mode along the flow of the whole network, integrated layer by layer: (T, modes)."""
    return np.einsum("oa,toi,ia->ta", U, product(layers(weights, C31, times)), V)
