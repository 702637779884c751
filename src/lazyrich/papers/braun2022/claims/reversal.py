"""Section 6, reversal learning, and knowledge that is revised: swapped branches of a tree reverse modes."""

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import layers, product, relative_error
from lazyrich.papers.base.types import Rng
from lazyrich.papers.braun2022 import formulas
from lazyrich.papers.braun2022.claims.decoupling import moment

NOT_CHECKED: tuple[NotChecked, ...] = (
    NotChecked(
        "Section 6, revising structured knowledge, Figures 6G and 6H",
        "Multidimensional scaling shows the course of the representations.",
        "Pictures; the representations themselves are those of Theorem 3.1.",
    ),
)


def learned(rng: Rng) -> tuple[list[Array], Array, Array]:
    """A network that has learned a task, the task, and its singular values."""
    d_in, h, d_out = ((1, 1, 1), (2, 3, 2), (3, 3, 3), (2, 3, 4), (4, 3, 2))[rng.integers(5)]
    s = rng.uniform(1.0, 1.3) * rng.uniform(1.0, 1.3, size=min(d_in, d_out))
    U, V, R = (draws.orthogonal(rng, n, len(s)) for n in (d_out, d_in, h))
    return [R * np.sqrt(s) @ V.T, U * np.sqrt(s) @ R.T], U * s @ V.T, s


@claim(
    "braun2022/reversal-b-singular",
    place="Section 6, reversal learning",
    statement="Where a task has to be reversed, B is not invertible, so that Theorem 3.1 does not apply.",
    formula=r"W_2 W_1(0) = -\Sigma_{yx} \ \Rightarrow\ B = U^\top \tilde U + V^\top \tilde V = 0",
    conditions="The task that was learned, with the opposite sign; full rank.",
    tolerance=1e-12,
)
def reversal_b_singular(rng: Rng) -> float:
    """B from the two decompositions as they come; distinct singular values, or else vectors are not unique."""
    d_in, d_out = rng.integers(1, 5, size=2)
    sigma_yx, *_ = draws.target(rng, int(d_out), int(d_in))
    (U, _, Vt), (U_tilde, _, Vt_tilde) = (np.linalg.svd(task, full_matrices=False) for task in (sigma_yx, -sigma_yx))
    return float(np.abs(U.T @ U_tilde + Vt @ Vt_tilde.T).max())


@claim(
    "braun2022/reversal-fails",
    place="Section 6, reversal learning, Figure 6A",
    statement="Reversal does not succeed: what was learned lies on the separatrix of a saddle, and the function "
    "converges to zero.",
    formula=r"W_2 W_1(0) = -\Sigma_{yx} \ \Rightarrow\ W_2 W_1(t) \to 0",
    conditions="Zero-balanced weights that have learned the opposite task; white inputs; gradient flow, exactly.",
    tolerance=1e-10,
    seeds=4,
)
def reversal_fails(rng: Rng) -> float:
    """At a time when e^{−2st} has all but vanished, and rounding, which grows as e^{st}, is not yet felt."""
    weights, sigma_yx, s = learned(rng)
    W = product(layers(weights, -sigma_yx, [14 / s.min()]))[0]
    return float(np.abs(W).max() / s.max())


@claim(
    "braun2022/noise-escapes",
    place="Section 6, reversal learning, Figure 6A",
    statement="Any noise carries the dynamics off the saddle, and the reversed task is learned after all. (Generic "
    "noise does; the exception has a structure of its own.)",
    formula=r"W_\ell(0) \to W_\ell(0) + \delta E_\ell \ \Rightarrow\ W_2 W_1(t) \to \Sigma_{yx}",
    conditions="As for the reversal; noise of any kind.",
    tolerance=1e-8,
)
def noise_escapes(rng: Rng) -> float:
    return _error_after_noise(rng, together=bool(rng.random() < 0.5))


@noise_escapes.stronger(
    "Generic noise, such as independent noise in both layers. The exception is noise that keeps W1 = W2ᵀ (in the basis "
    "in which these are equal): it keeps the balance and the signs of the modes, and the separatrix with them."
)
def noise_that_unbalances_escapes(rng: Rng) -> float:
    return _error_after_noise(rng, together=False)


def _error_after_noise(rng: Rng, *, together: bool) -> float:
    """From W1 = W2ᵀ = diag √s, which has learned diag s, to −diag s: long enough for noise, not for rounding."""
    s = rng.uniform(1.0, 1.2, size=int(rng.integers(1, 4)))
    first, second = 0.03 * rng.normal(size=(2, len(s), len(s)))
    W1 = np.diag(np.sqrt(s)) + first
    W2 = W1.T if together else np.diag(np.sqrt(s)) + second
    end = product(layers([W1, W2], -np.diag(s), [24 / s.min()]))[0]
    return relative_error(end, -np.diag(s))


@noise_escapes.counterexample("One input, one output, W1 = W2 = 1, task −1, both weights moved by 0.001: ends at 0")
def _() -> tuple[float, float]:
    W = np.array([[1.001]])
    return -1.0, float(product(layers([W, W], np.array([[-1.0]]), [30.0]))[0, 0, 0])


@claim(
    "braun2022/reversal-slows",
    place="Section 6, reversal learning",
    statement="Near the saddle the dynamics slow down. Measured here: the time that reversal takes grows without bound "
    "as the noise falls, by (1/s) ln k for noise smaller by k.",
    formula=r"t_{1/2}(\delta) = \frac{\tau}{s} \ln\frac1\delta + O(1)",
    conditions="One mode of strength s to be reversed, noise of size δ → 0 on every weight.",
    tolerance=1e-5,  # noise of 1e-6 leaves terms of that order
    seeds=5,
)
def reversal_slows(rng: Rng) -> float:
    """The difference of two half times, for the same noise at 1e-6 and 1e-7."""
    sizes, s = ((1, 1, 1), (1, 2, 2), (2, 2, 1), (2, 2, 2))[rng.integers(4)], rng.uniform(0.5, 2.0)
    v, r, u = (draws.orthogonal(rng, n, 1) for n in sizes)
    noise = draws.gaussian(rng, sizes, 1.0)
    clean = [np.sqrt(s) * r @ v.T, np.sqrt(s) * u @ r.T]
    times = [half_time([W + size * E for W, E in zip(clean, noise, strict=True)], u, s, v) for size in (1e-6, 1e-7)]
    return relative_error(np.log(10) / s, times[1] - times[0])


def half_time(weights: list[Array], u: Array, s: float, v: Array) -> float:
    """When uᵀW2W1v has come from s to −s/2, with −s as the target."""
    return moment(lambda W: float((u.T @ product(W) @ v)[0, 0]) + s / 2, weights, -s * u @ v.T, 1.0 / s)


@claim(
    "braun2022/shallow-reversal",
    place="Section 6, reversal learning, Figure 6B",
    statement="A shallow network does reverse, and does not slow down: every mode goes over at the same exponential "
    "rate.",
    formula=r"W(t) = \Sigma_{yx} + \left(W(0) - \Sigma_{yx}\right) e^{-t/\tau}, \qquad W(0) = -\Sigma_{yx}",
    conditions="One layer, white inputs.",
    tolerance=1e-10,
)
def shallow_reversal(rng: Rng) -> float:
    d_in, d_out = rng.integers(1, 5, size=2)
    sigma_yx, times, tau = rng.normal(size=(d_out, d_in)), np.array([0.5, 2.0, 30.0]), rng.uniform(0.5, 2.0)
    (W,) = layers([-sigma_yx], sigma_yx, times * tau, rates=[1 / tau])
    return relative_error(sigma_yx - 2 * sigma_yx * np.exp(-times)[:, None, None], W)


def tree(strengths: Array) -> Array:
    """Σyx of eight items (white inputs) and the features of a binary tree: one for all, and one at each node, which
    tells its two branches apart. Nodes of a level are equally strong."""
    features = [np.ones(8)]
    for level, size in enumerate((8, 4, 2)):
        for first in range(0, 8, size):
            branch = np.zeros(8)
            branch[first : first + size // 2], branch[first + size // 2 : first + size] = 1.0, -1.0
            features.append(strengths[level + 1] * branch)
    features[0] = strengths[0] * features[0]
    return np.array(features) / np.sqrt(8)


def swap(rng: Rng) -> Array:
    """The permutation of the items that swaps two neighbouring nodes, of any level, with all that is below them."""
    size = int(rng.choice([8, 4, 2]))
    first, half = int(rng.integers(0, 8 // size)) * size, size // 2
    order = np.arange(8)
    order[first : first + size] = np.roll(order[first : first + size], half)
    return np.eye(8)[order]


@claim(
    "braun2022/swap-is-reversal",
    place="Section 6, revising structured knowledge, Figures 6C and 6E, top",
    statement="Swapping two neighbouring nodes of a hierarchy, at any level, makes the new task one of reversal: those "
    "of its modes w_k that tell the two apart start with the wrong sign and decay to zero, the others stay learned.",
    formula=r"\Sigma'_{yx} = \sum_k \pm \tilde s_k \tilde u_k \tilde v_k^\top, \qquad w_k(t) = -\tilde s_k"
    r" \frac{e^{-2\tilde s_k t/\tau}}{2 - e^{-2\tilde s_k t/\tau}} \ \text{where the sign is}\ -, \quad"
    r" w_k(t) = \tilde s_k \ \text{where it is}\ +",
    conditions="A binary tree over eight items whose features are equally strong within a level; weights that have "
    "learned the old tree, zero-balanced; white inputs.",
    tolerance=1e-9,
)
def swap_is_reversal(rng: Rng) -> float:
    sigma_yx, P = tree(rng.uniform(1.0, 1.5, size=4)), swap(rng)
    # modes that the swap keeps or reverses: it commutes with ΣᵀΣ, and both are diagonal in one basis
    _, V = np.linalg.eigh(sigma_yx.T @ sigma_yx + 0.3 * P)
    s = np.linalg.norm(sigma_yx @ V, axis=0)
    U, sign = sigma_yx @ V / s, np.rint(np.einsum("ik,ij,jk->k", V, P, V))
    R = draws.orthogonal(rng, 8)
    times = np.array([0.3, 1.0, 3.0]) / s.min()
    found = product(layers([R * np.sqrt(s) @ V.T, U * np.sqrt(s) @ R.T], sigma_yx @ P, times))
    b, c = np.where(sign > 0, 2.0, 0.0), np.where(sign > 0, 0.0, 2.0)
    # `reversal` tells strengths in the modes of the new task, whose input vectors are sign·V
    printed = np.einsum("ok,tk,ik->toi", U, sign * formulas.reversal(b, c, s, s, times), V)
    return relative_error(printed, found)
