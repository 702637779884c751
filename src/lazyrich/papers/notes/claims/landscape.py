"""Sections 2.1 to 2.3: minima, gradients, critical points, and that none of them is a minimum but the global ones."""

from collections.abc import Sequence

import numpy as np

from lazyrich._typing import Array
from lazyrich.papers.base import draws
from lazyrich.papers.base.claim import NotChecked, claim
from lazyrich.papers.base.oracles import gradient, product, relative_error
from lazyrich.papers.base.searches import critical_point, fitted
from lazyrich.papers.base.types import Loss, Pair, Rng
from lazyrich.papers.notes.claims.setting import mean_squared_loss, unexplained
from lazyrich.papers.notes.claims.slips import BOTTLENECK, CONSTANT, EQUAL_VALUES, NARROWEST, TRANSPOSE

NOT_CHECKED = (
    NotChecked(
        "Section 2.3",
        "The theorem for deep linear networks is due to Baldi and Hornik (1989).",
        "A matter of history: they proved it for one hidden layer, and Kawaguchi (2016) for any depth. The statement "
        "itself is checked.",
    ),
    NotChecked(
        "Section 2.3",
        "Saddles have a large index, and gradient descent can approach them exponentially slowly: plateaus.",
        "No number is stated; indices are checked below, and the times of plateaus in sections 5 to 7.",
    ),
)


def whitened_loss(T: Array) -> Loss:
    """½‖W_L…W_1 − T‖² as a function of the layers."""
    return lambda weights: ((product(weights) - T) ** 2).sum() / 2


def above(weights: Sequence[Array], place: int) -> Array:
    """W_{L:ℓ+1} for the layer at `place` = ℓ − 1 of the list."""
    return product([*weights[place + 1 :], np.eye(len(weights[-1]))])


def below(weights: Sequence[Array], place: int) -> Array:
    """W_{ℓ−1:1} for the layer at `place` = ℓ − 1 of the list."""
    return product([np.eye(weights[0].shape[1]), *weights[:place]])


def gradient_as_printed(weights: Sequence[Array], T: Array) -> list[Array]:
    """W_{L:ℓ+1}ᵀ (W − T) W_{ℓ−1:1} of every layer, whose shapes agree where all widths are equal."""
    rest = product(weights) - T
    return [above(weights, i).T @ rest @ below(weights, i) for i in range(len(weights))]


def gradient_as_it_is(weights: Sequence[Array], T: Array) -> list[Array]:
    """W_{L:ℓ+1}ᵀ (W − T) W_{ℓ−1:1}ᵀ of every layer."""
    rest = product(weights) - T
    return [above(weights, i).T @ rest @ below(weights, i).T for i in range(len(weights))]


def widths(rng: Rng, depth: int, least: int = 1, most: int = 3) -> list[int]:
    return [int(n) for n in rng.integers(least, most + 1, size=depth + 1)]


@claim(
    "notes/global-minima",
    place="Section 2.1",
    statement="The global minima are all the weights whose product is T, if the widths allow it.",
    formula=r"\theta \in \arg\min L \iff W_\text{eff} = T",
    conditions="White inputs, no hidden layer narrower than the rank of T.",
    tolerance=1e-9,
)
def global_minima(rng: Rng) -> float:
    """Layers fitted to data from a random start have product T, and weights made to have it are no worse."""
    d_in, d_out, depth = *(int(n) for n in rng.integers(2, 4, size=2)), int(rng.integers(2, 4))
    sigma_yx, U, s, V = draws.target(rng, d_out, d_in)
    noise, sizes = rng.normal(size=(8, d_out)), (d_in, *rng.integers(3, 5, size=depth - 1).tolist(), d_out)
    X, _ = draws.white_data(rng, 8, d_in, d_out)
    Y = X @ sigma_yx.T + noise - X @ (X.T @ noise) / 8
    found = product(fitted(draws.gaussian(rng, sizes, 1.0), X, Y, sweeps=20))
    made = product(draws.aligned(rng, U, V, s, sizes))
    least, value = mean_squared_loss(found, X, Y), mean_squared_loss(made, X, Y)
    return max(relative_error(sigma_yx, found), relative_error(value, least))


@claim(
    "notes/zero-loss",
    place="Section 2.1",
    statement="The loss is zero exactly where the product of the layers is T.",
    formula=r"L(\theta) = 0 \iff W_L\cdots W_1 = T",
    conditions="White inputs, any targets; L is the loss of section 1.1.",
    tolerance=1e-12,
)
def zero_loss(rng: Rng) -> float:
    """The loss of the best map, relative to that of no map."""
    X, Y = draws.white_data(rng, 8, 3, 2)
    best = np.linalg.lstsq(X, Y, rcond=None)[0].T
    return mean_squared_loss(best, X, Y) / mean_squared_loss(0 * best, X, Y)


@zero_loss.stronger(
    "The targets are a linear function of the inputs, so that T leaves nothing unexplained: otherwise the constant "
    "remains that `notes/loss-identity` lacks.",
    slips=(CONSTANT,),
)
def zero_loss_without_noise(rng: Rng) -> float:
    X, _ = draws.white_data(rng, 8, 3, 2)
    Y = X @ rng.normal(size=(3, 2))
    best = np.linalg.lstsq(X, Y, rcond=None)[0].T
    other = best + rng.normal(size=best.shape)
    zero, not_zero = (mean_squared_loss(W, X, Y) / mean_squared_loss(0 * best, X, Y) for W in (best, other))
    return max(zero, float(not_zero < 1e-6))


@zero_loss.counterexample("One input and one output, samples (1, 1) and (1, −1): W = T = 0 leaves a loss of ½")
def _() -> tuple[float, float]:
    return 0.0, mean_squared_loss(np.zeros((1, 1)), np.ones((2, 1)), np.array([[1.0], [-1.0]]))


@claim(
    "notes/bottleneck-loss",
    place="Section 2.1",
    statement="If any hidden layer has a width n_ℓ below the number of inputs and of outputs, the least loss is what "
    "the modes of T beyond n_ℓ make of it.",
    formula=r"\min_\theta L(\theta) = \tfrac12 \sum_{\alpha > n_\ell} s_\alpha^2",
    conditions="White inputs, any targets, any hidden layer with n_ℓ < min(n_0, n_L).",
    tolerance=1e-9,
)
def bottleneck_loss(rng: Rng) -> float:
    """For each layer that is a bottleneck, against the least loss that layers fitted by turns reach."""
    X, Y, sizes, s = _bottleneck(rng)
    truth = _least_loss(rng, X, Y, sizes)
    return max(relative_error(beyond(s, n), truth) for n in sizes[1:-1] if n < 3)


@bottleneck_loss.corrected(
    "The narrowest layer counts, and the constant is to be added that `notes/loss-identity` lacks.",
    formula=r"\min_\theta L(\theta) = \tfrac12 \sum_{\alpha > \min_\ell n_\ell} s_\alpha^2 + "
    r"\tfrac12 \operatorname{tr}(\Sigma_{yy} - \Sigma_{yx}\Sigma_{yx}^\top)",
    slips=(CONSTANT, NARROWEST),
)
def bottleneck_loss_in_full(rng: Rng) -> float:
    X, Y, sizes, s = _bottleneck(rng)
    return relative_error(beyond(s, min(sizes)) + unexplained(X, Y), _least_loss(rng, X, Y, sizes))


@bottleneck_loss.counterexample(
    "T = diag(3, 2, 1) with hidden layers of 2 and 1 units, no noise: the layer of 2 says ½, and the least loss is 2.5"
)
def _() -> tuple[float, float]:
    X = np.eye(3) * np.sqrt(3)
    Y, rng = X @ np.diag([3.0, 2.0, 1.0]), np.random.default_rng(0)
    return beyond(np.array([3.0, 2.0, 1.0]), 2), _least_loss(rng, X, Y, [3, 2, 1, 3])


def beyond(s: Array, n: int) -> float:
    """½ Σ_{α > n} s_α²."""
    return float(np.sum(s[n:] ** 2)) / 2


def _bottleneck(rng: Rng) -> tuple[Array, Array, list[int], Array]:
    """Data whose modes stand well apart, so that turns converge fast, and widths with at least one bottleneck."""
    X, _ = draws.white_data(rng, 8, 3, 3)
    sigma_yx, _, s, _ = draws.target(rng, 3, 3, np.array([3.0, 1.8, 0.9]) * rng.uniform(0.9, 1.1, size=3))
    noise = rng.normal(size=(8, 3)) * 0.5
    hidden = [[1], [2], [1, 2], [2, 1], [4, 2], [2, 2]][int(rng.integers(6))]
    return X, X @ sigma_yx.T + noise - X @ (X.T @ noise) / 8, [3, *hidden, 3], s


def _least_loss(rng: Rng, X: Array, Y: Array, sizes: list[int]) -> float:
    return mean_squared_loss(product(fitted(draws.gaussian(rng, sizes, 1.0), X, Y, sweeps=60)), X, Y)


@claim(
    "notes/gradient",
    place="Section 2.2; again in section 3.2",
    statement="The gradient in one layer is the error between the layers above, transposed, and the layers below, "
    "which are printed without a transpose. The shapes agree only if all widths are equal: so they are here.",
    formula=r"\nabla_{W_\ell} L = W_{L:\ell+1}^\top\,(W_\text{eff} - T)\,W_{\ell-1:1}",
    conditions="White inputs, any depth.",
    tolerance=1e-12,
)
def gradients(rng: Rng) -> float:
    weights, T = draws.gaussian(rng, [3] * int(rng.integers(3, 5)), 1.0), rng.normal(size=(3, 3))
    return _error_of_gradient(gradient_as_printed(weights, T), weights, T)


@gradients.corrected(
    "The layers below are transposed too; then the shapes agree for any widths.",
    formula=r"\nabla_{W_\ell} L = W_{L:\ell+1}^\top\,(W_\text{eff} - T)\,W_{\ell-1:1}^\top",
    slips=(TRANSPOSE,),
)
def gradients_with_both_transposes(rng: Rng) -> float:
    weights = draws.gaussian(rng, sizes := widths(rng, int(rng.integers(1, 5)), most=4), 1.0)
    T = rng.normal(size=(sizes[-1], sizes[0]))
    return _error_of_gradient(gradient_as_it_is(weights, T), weights, T)


@gradients.counterexample("W_1 = (0 1; 0 0), W_2 = 0, T = I: the gradient in W_2, with 1 in the wrong corner")
def _() -> Pair:
    weights = [np.array([[0.0, 1.0], [0.0, 0.0]]), np.zeros((2, 2))]
    return gradient_as_printed(weights, np.eye(2))[1], gradient(whitened_loss(np.eye(2)), weights)[1]


def _error_of_gradient(printed: list[Array], weights: list[Array], T: Array) -> float:
    return max(map(relative_error, printed, gradient(whitened_loss(T), weights)))


@claim(
    "notes/degenerate-or-minimum",
    place="Section 2.2",
    statement="At a critical point either the product of the layers is T, or one of the products above or below some "
    "layer has a singular value zero.",
    formula=r"\nabla_\theta L = 0 \;\Rightarrow\; W_\text{eff} = T \ \text{ or }\ "
    r"\sigma_{\min}(W_{L:\ell+1}) = 0 \ \text{ or }\ \sigma_{\min}(W_{\ell-1:1}) = 0 \text{ for some } \ell",
    conditions="White inputs; any widths.",
    tolerance=1e-8,
    seeds=5,
)
def degenerate_or_minimum(rng: Rng) -> float:
    """At critical points that a search finds, of two layers; the smaller of the two departures."""
    return _neither(rng, int(rng.integers(1, 4)))


@degenerate_or_minimum.stronger(
    "No bottleneck: every hidden layer is as wide as the input or the output. The minimum of a bottleneck is neither.",
    slips=(BOTTLENECK,),
)
def degenerate_or_minimum_without_bottleneck(rng: Rng) -> float:
    return _neither(rng, int(rng.integers(2, 4)))


@degenerate_or_minimum.counterexample(
    "T = diag(2, 1) with one hidden unit, at its minimum W_1 = (√2, 0) = W_2ᵀ: no singular value is zero, and W is not "
    "T (the smaller of the two departures)"
)
def _() -> tuple[float, float]:
    T = np.diag([2.0, 1.0])
    return 0.0, _departure(critical_point(whitened_loss(T), [np.array([[1.3, 0.1]]), np.array([[1.5], [0.0]])]), T)


def _neither(rng: Rng, h: int) -> float:
    T, _, _, _ = draws.target(rng, 2, 2)
    return _departure(critical_point(whitened_loss(T), draws.gaussian(rng, (2, h, 2), 1.0)), T)


def _departure(weights: list[Array], T: Array) -> float:
    """The distance of the product from T, or the least singular value of a layer, whichever is smaller."""
    singular = min(float(np.linalg.svd(W, compute_uv=False)[-1]) for W in weights)
    return min(relative_error(product(weights), T), singular)


@claim(
    "notes/critical-subsets",
    place="Section 2.2",
    statement="At a critical point the product of the layers consists of some of the modes of T, whole.",
    formula=r"W_\text{eff} = \sum_{\alpha\in S} s_\alpha u_\alpha v_\alpha^\top, \qquad S \subseteq \{1,\dots,\min(n_0,"
    r"n_L)\}",
    conditions="White inputs, any T.",
    tolerance=1e-8,
)
def critical_subsets(rng: Rng) -> float:
    """By the nearest set of modes to the product at critical points that a search finds."""
    s = rng.uniform(1.0, 2.0) * np.array([1.0, 1.0 if rng.random() < 0.5 else rng.uniform(0.3, 0.8)])
    return _distance_from_subsets(rng, s)


@critical_subsets.stronger(
    "The singular values are distinct. Among equal ones any direction, and not only the modes of one decomposition, "
    "may be learnt or left.",
    slips=(EQUAL_VALUES,),
)
def critical_subsets_of_distinct_modes(rng: Rng) -> float:
    return _distance_from_subsets(rng, rng.uniform(1.0, 2.0) * np.array([1.0, rng.uniform(0.3, 0.8)]))


@critical_subsets.counterexample(
    "T = I with one hidden unit: the flow from W_1 = (1, 1) = W_2ᵀ rests at W = ½(1 1; 1 1), a mixture of e_1e_1ᵀ and "
    "e_2e_2ᵀ (the distance from the nearest subset)"
)
def _() -> tuple[float, float]:
    found = critical_point(whitened_loss(np.eye(2)), [np.array([[1.0, 1.0]]), np.array([[1.0], [1.0]])])
    return 0.0, subset_distance(product(found), np.eye(2), np.ones(2), np.eye(2))


def subset_distance(W: Array, U: Array, s: Array, V: Array) -> float:
    """How far W is from having every mode whole or not at all."""
    overlaps = U.T @ W @ V
    strengths = np.diag(overlaps)
    rest = overlaps - np.diag(np.where(np.abs(strengths) < np.abs(strengths - s), 0.0, s))
    return float(np.abs(rest).max())


def _distance_from_subsets(rng: Rng, s: Array) -> float:
    T, U, s, V = draws.target(rng, 2, 2, s)
    starts = [draws.gaussian(rng, (2, int(rng.integers(1, 4)), 2), 1.0) for _ in range(2)]
    return max(subset_distance(product(critical_point(whitened_loss(T), start)), U, s, V) for start in starts)
