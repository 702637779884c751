"""Section 8: what the flow of a factorisation prefers among solutions, and on its way."""

from collections.abc import Callable
from itertools import combinations

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import linprog, minimize_scalar

from lazyrich._typing import Array
from lazyrich.bias.measurements import commuting_measurements
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import layers, product, relative_error
from lazyrich.papers.base.types import Pair, Rng
from lazyrich.papers.notes.claims.passages import diagonal, extrapolated, follow, half_times
from lazyrich.papers.notes.claims.slips import GREEDY_NORM

NOT_CHECKED = (
    NotChecked(
        "Section 8, theorem, and References",
        "Arora et al. 2019 prove that depth-2 factorisation ends in the solution of least nuclear norm.",
        "A matter of reading: that is a conjecture of Gunasekar et al. 2017, which Arora et al. argue against.",
    ),
    NotChecked(
        "Section 8, end",
        "Deeper networks prefer solutions of lower rank more strongly.",
        "How strong a preference is has no agreed measure. That the end is the solution with the fewest nonzero "
        "singular values, or the least Schatten quasi-norm, is refuted as `notes/schatten`.",
    ),
)


def end_of_full_observation(T: Array, epsilon: float = 1e-3) -> Array:
    """Where two layers εI end on ½‖T − W‖², after a time that is long for every mode of T."""
    n = len(T)
    horizon = 4 * np.log(1 / epsilon) / np.linalg.svd(T, compute_uv=False)[-1]
    return product(layers([epsilon * np.eye(n)] * 2, T, [horizon]))[0]


@claim(
    "notes/nuclear-norm-theorem",
    place="Section 8, theorem",
    statement="From two layers εI, ε → 0, the flow on ‖T − W‖² ends in the interpolating W of least nuclear norm. "
    "Since every entry of T is seen, T alone interpolates, and all that is said is that W gets to T.",
    formula=r"\lim_{t\to\infty} W = \operatorname{argmin}_{W:\ \|T - W\|_F = 0} \|W\|_* = T",
    conditions="Square T, W_ℓ(0) = εI.",
    tolerance=1e-6,
)
def nuclear_norm_theorem(rng: Rng) -> float:
    T = draws.target(rng, 2, 2)[0]
    return relative_error(T, end_of_full_observation(T))


@nuclear_norm_theorem.corrected(
    "It says something where fewer measurements than entries are known, and then holds if their matrices commute "
    "(Gunasekar et al. 2017); in general it does not. With all entries known, W gets to T only if det T > 0.",
    formula=r"\lim_{\epsilon\to 0}\lim_{t\to\infty} W = "
    r"\operatorname{argmin}_{W \succeq 0:\ \langle A_m, W\rangle = y_m} \|W\|_*, \qquad A_m A_n = A_n A_m",
)
def least_nuclear_norm_of_commuting(rng: Rng) -> float:
    A, y = commuting_problem(rng)
    return relative_error(least_sum(A, y), end_from_nothing(A, y, 2))


@nuclear_norm_theorem.counterexample("T = −1, both weights ε = 10⁻³: W cannot cross zero, where it ends")
def _() -> tuple[float, float]:
    return -1.0, float(end_of_full_observation(np.array([[-1.0]]))[0, 0])


def commuting_problem(rng: Rng) -> tuple[Array, Array]:
    """Two measurements A x = y of three positive numbers, the diagonal of W, by commuting (diagonal) matrices.

    Drawn again where the least sum is close to that of another solution, or one of its two numbers close to 0: the
    limit of small starts is then reached late.
    """
    while True:
        A = np.concatenate([np.diag(rng.uniform(0.7, 1.3, size=2)), rng.uniform(0.2, 0.8, size=(2, 1))], axis=1)
        y = A @ rng.uniform(0.0, 2.0, size=3)
        sums = sorted((x.sum(), np.sort(x)[1]) for x in vertices(A, y))
        if len(sums) > 1 and sums[1][0] > 1.2 * sums[0][0] and sums[0][1] > 0.2:
            return A, y


def vertices(A: Array, y: Array) -> list[Array]:
    """All x ≥ 0 with Ax = y that have no more nonzero entries than there are measurements."""
    found = []
    for pair in combinations(range(3), 2):
        x = np.zeros(3)
        x[list(pair)] = np.linalg.solve(A[:, pair], y)
        found += [x.clip(0.0)] if (x > -1e-12).all() else []
    return found


def least_sum(A: Array, y: Array) -> Array:
    """argmin Σx, x ≥ 0, Ax = y: the least nuclear norm of diagonal W, by linear programming."""
    return linprog(np.ones(3), A_eq=A, b_eq=y).x


def settled(velocity: Callable[[Array], Array], start: Array, horizon: float) -> Array:
    """Where a flow is at a late time; by an implicit method, since it stands still for most of that."""
    run = solve_ivp(lambda _, x: velocity(x), (0.0, horizon), start, "LSODA", rtol=1e-10, atol=1e-90)
    return run.y[:, -1]


def end_from_nothing(A: Array, y: Array, L: int) -> Array:
    """x(∞) of L equal diagonal layers from a start that is next to nothing: 10⁻¹²; 10⁻¹⁰⁰ for two layers.

    These forget it as a small power of it, deeper ones in proportion.
    """
    start = (1e-100 if L == 2 else 1e-12) ** (1 / L)
    return settled(lambda w: w ** (L - 1) * (A.T @ (y - A @ w**L)), np.full(3, start), 1e9) ** L


@claim(
    "notes/schatten",
    place="Section 8, depth L",
    statement="At depth L the flow from a small start is biased towards the least Σ a^{2/L} among all solutions.",
    formula=r"\lim_{t\to\infty} W = \operatorname{argmin}_{\langle A_m, W\rangle = y_m} \sum_\alpha a_\alpha^{2/L}",
    conditions="Depth L ≥ 3, W_ℓ(0) = ε^{1/L} I, ε → 0. Tried at 10⁻¹² on two commuting measurements, where the "
    "least sum is at a solution with two nonzero values or one.",
    tolerance=1e-6,
    seeds=4,
)
def schatten(rng: Rng) -> float:
    (A, y), L = commuting_problem(rng), int(rng.integers(3, 5))
    return relative_error(least_power_sum(A, y, 2 / L), end_from_nothing(A, y, L))


@schatten.corrected(
    "On commuting measurements the end is the least nuclear norm at every depth.",
    formula=r"\lim_{\epsilon\to0}\lim_{t\to\infty} W = "
    r"\operatorname{argmin}_{W \succeq 0:\ \langle A_m, W\rangle = y_m} \sum_\alpha a_\alpha",
)
def schatten_corrected(rng: Rng) -> float:
    (A, y), L = commuting_problem(rng), int(rng.integers(3, 5))
    return relative_error(least_sum(A, y), end_from_nothing(A, y, L))


@schatten.counterexample("Depth 3, x_1 + x_3/2.4 = 1 and x_2 + x_3/3 = 0.8: (0, 0, 2.4) has the least sum of powers")
def _() -> Pair:
    problem = commuting_measurements()
    A = np.diagonal(problem.A, axis1=1, axis2=2)
    return least_power_sum(A, problem.y, 2 / 3), end_from_nothing(A, problem.y, 3)


def least_power_sum(A: Array, y: Array, p: float) -> Array:
    """argmin Σ x^p for p < 1, which is at a vertex."""
    return min(vertices(A, y), key=lambda x: float((x**p).sum()))


@claim(
    "notes/schatten-rank",
    place="Section 8, depth L",
    statement="As L grows, the sum of the powers 2/L of the singular values tends to the rank.",
    formula=r"\sum_\alpha a_\alpha^{2/L} \to \operatorname{rank} W \qquad (L \to \infty)",
    conditions="Any matrix. Extrapolated from depths 32 to 1024.",
    tolerance=1e-8,
    seeds=6,
)
def schatten_rank(rng: Rng) -> float:
    rank = int(rng.integers(1, 5))
    W = rng.normal(size=(5, rank)) @ rng.normal(size=(rank, 4))
    a = np.linalg.svd(W, compute_uv=False)
    a = a[a > 1e-12 * a[0]]
    return relative_error(np.linalg.matrix_rank(W), extrapolated([(a ** (2 / L)).sum() for L in 2 ** np.arange(5, 11)]))


def least_norm_at(loss: float, s: Array) -> float:
    """The least Σa with ½‖a − s‖² = loss, a ≥ 0, of two modes: by a search along that circle."""
    radius = np.sqrt(2 * loss)

    def norm(angle: float) -> float:
        return float(np.abs(s - radius * np.array([np.cos(angle), np.sin(angle)])).sum())

    starts = np.linspace(0.0, np.pi / 2, 40)
    best = starts[int(np.argmin([norm(angle) for angle in starts]))]
    return float(
        minimize_scalar(norm, bounds=(best - 0.05, best + 0.05), method="bounded", options={"xatol": 1e-9}).fun
    )


def soft_threshold_norm(loss: float, s: Array) -> float:
    """Σ(s − c)₊ with c such that ½Σ min(s, c)² = loss."""
    c = np.sqrt(loss) if loss <= s[1] ** 2 else np.sqrt(2 * loss - s[1] ** 2)
    return float(np.maximum(s - c, 0.0).sum())


def on_the_way(rng: Rng) -> tuple[float, float, Array]:
    """Loss and nuclear norm between the appearances of two modes, from ε = 10⁻¹² in both, and their strengths."""
    s = rng.uniform(1.0, 3.0) * np.array([1.0, rng.uniform(0.3, 0.7)])
    first, second = half_times(1e-12, s, 2)
    (w,) = follow(diagonal(s), np.full((2, 2), 1e-6), [first + rng.uniform(0.3, 0.7) * (second - first)])
    a = w.prod(axis=0)
    return float(((s - a) ** 2).sum() / 2), float(a.sum()), s


@claim(
    "notes/trajectory-nuclear-norm",
    place="Section 8, after the theorem",
    statement="On its way to T the flow from a small start has the least nuclear norm. (Read as: among all W of the "
    "same loss.)",
    formula=r"\|W(t)\|_* = \min\{\|W\|_* : L(W) = L(W(t))\}",
    conditions="Two layers, balanced and aligned, ε → 0; between the appearances of two modes.",
    tolerance=1e-8,
)
def trajectory_nuclear_norm(rng: Rng) -> float:
    loss, norm, s = on_the_way(rng)
    return relative_error(norm, least_norm_at(loss, s))


@trajectory_nuclear_norm.corrected(
    "The least nuclear norm at a given loss belongs to soft thresholding, which cuts the same from every mode; the "
    "flow does not follow it.",
    formula=r"\min\{\|W\|_* : L(W) = \ell\} = \sum_\alpha (s_\alpha - c)_+, \qquad "
    r"\tfrac12\sum_\alpha \min(s_\alpha, c)^2 = \ell",
    slips=(GREEDY_NORM,),
)
def trajectory_nuclear_norm_corrected(rng: Rng) -> float:
    loss, norm, s = on_the_way(rng)
    least = least_norm_at(loss, s)
    return relative_error(soft_threshold_norm(loss, s), least) if norm > least else 1.0


@trajectory_nuclear_norm.counterexample(
    "T = diag(2, 1) with mode 1 learned and mode 2 not, W = diag(2, 0), loss ½: its norm, and the least at that loss"
)
def _() -> tuple[float, float]:
    return 2.0, least_norm_at(0.5, np.array([2.0, 1.0]))


def excess_of_growing_together(loss: float, norm: float, s: Array) -> float:
    """By which share the nuclear norm is larger if one layer from zero has this loss with all modes at once."""
    time = np.log((s @ s) / (2 * loss)) / 2
    W = product(layers([np.zeros((2, 2))], np.diag(s), [time]))[0]
    if relative_error(((W - np.diag(s)) ** 2).sum() / 2, loss) > 1e-9:
        raise RuntimeError("the losses differ")
    return float(np.linalg.norm(W, "nuc")) / norm - 1


@claim(
    "notes/greedy-nuclear-norm",
    place="Section 8, connection",
    statement="Learning one mode after the other keeps the nuclear norm lower on the way than growing all modes at "
    "once would. (Compared at the same loss.)",
    formula=r"\|W_{\mathrm{one\ by\ one}}\|_* < \|W_{\mathrm{all\ at\ once}}\|_*",
    conditions="Two layers, balanced and aligned, ε → 0, between the appearances of two modes; all at once: one layer "
    "from zero. The error is by which share the latter is the smaller.",
    tolerance=0.0,
    seeds=8,
)
def greedy_nuclear_norm(rng: Rng) -> float:
    return -excess_of_growing_together(*on_the_way(rng))


@greedy_nuclear_norm.corrected(
    "It is the other way round.",
    formula=r"\|W_{\mathrm{one\ by\ one}}\|_* > \|W_{\mathrm{all\ at\ once}}\|_*",
    slips=(GREEDY_NORM,),
)
def greedy_nuclear_norm_corrected(rng: Rng) -> float:
    return excess_of_growing_together(*on_the_way(rng))


@greedy_nuclear_norm.counterexample(
    "T = diag(1, 1): norms of diag(1, 0) and of (1 − 1/√2)·T, both of loss ½, printed in rising order"
)
def _() -> tuple[list[float], list[float]]:
    norms = [1.0, 1.0 + excess_of_growing_together(0.5, 1.0, np.ones(2))]
    return sorted(norms), norms
