"""−∂loss/∂W of one network and its loss, in JAX, as `descend`, `flow` and batches of networks follow it.

With the squared loss linear networks see the data by Σyx and Σxx alone (`_engines.linear_gradients`), and two piecewise
linear layers with one output, f = aᵀσ(Wx) with σ(z) = max(z, γz), need two matrix products: with c = σ'(WXᵀ),
E = (y − f)/n and

    ξ_k = Σ_i c_ki E_i x_i:      −∂loss/∂w_k = a_k ξ_k,     −∂loss/∂a_k = w_kᵀξ_k        (theory: section 8).

All others go back through the layers. With another loss, linear networks pass the samples through their product, and
what goes back begins with the loss's own pull on the outputs (`losses`). Where a network has biases, weights are its
free layers (`networks.biases`): what makes the constant is put below them here, and has no gradient. Data come in the
order that `data_of` gives them; arrays may be stacked and the functions mapped over them (`jax.vmap`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from types import ModuleType
from typing import TYPE_CHECKING

from lazyrich import _engines
from lazyrich._check import InvalidInput
from lazyrich._typing import JaxArray, Tree
from lazyrich.losses import SQUARED, Loss
from lazyrich.networks import Activation
from lazyrich.networks.biases import constant_rows, free, whole

if TYPE_CHECKING:
    from lazyrich.problem import Problem


def needs_samples(problem: Problem, wanted_by: str) -> None:
    """A sentence where a network is not linear and its task holds correlations only."""
    task, activation = problem.task, problem.network.activation
    if not activation.linear and (task.inputs is None or task.targets is None):
        raise InvalidInput(
            f"{wanted_by} needs the samples of the task where the network is {activation}, and this task "
            "holds correlations only: try Task.from_data(inputs, targets)."
        )


def data_of(problem: Problem) -> tuple[JaxArray, ...]:
    """What a loop sees of the task: correlations and residuals, or samples (as columns) and the weight of each."""
    task = problem.task
    if task.inputs is None or (problem.network.activation.linear and problem.loss.squared):
        return task.sigma_yx, task.plain_xx, task.residuals
    return samples_of(problem)


def samples_of(problem: Problem) -> tuple[JaxArray, ...]:
    """Inputs and targets as columns, and the weight of each sample in the loss."""
    task = problem.task
    assert task.inputs is not None and task.targets is not None  # whoever asks has checked
    return task.inputs.T, task.targets.T, 1 / len(task.inputs) if task.reduction == "mean" else 1.0


def gradients_and_loss(
    jax: ModuleType,
    activation: Activation,
    sizes: tuple[int, ...],
    biased: bool = False,
    of: Loss = SQUARED,
    on_samples: bool = False,
) -> Callable[..., Tree]:
    """(weights, data) → −∂loss/∂W of each layer, and the loss (of linear networks: less that of no network).

    `on_samples`: data are those of `samples_of`, of linear networks too.
    """
    if biased:
        inner = gradients_and_loss(jax, activation, sizes, of=of, on_samples=on_samples)
        rows = constant_rows(sizes, activation)

        def of_free(weights: Tree, data: Tree) -> Tree:
            gradients, now = inner(whole(weights, rows, jax.numpy), data)
            return free(gradients), now

        return of_free
    if activation.linear:
        return _linear_on_samples(jax, of) if on_samples or not of.squared else _linear
    if not of.squared:
        return _backwards(jax, activation, of)
    if activation.homogeneous and len(sizes) == 3 and sizes[-1] == 1:
        return _one_output(jax, activation.gamma)
    value = loss(jax, activation)

    def backwards(weights: Tree, data: Tree) -> Tree:
        now, gradient = jax.value_and_grad(value)(weights, data)
        return [-dW for dW in gradient], now

    return backwards


def loss(jax: ModuleType, activation: Activation, of: Loss = SQUARED) -> Callable[..., Tree]:
    """(weights, data) → the loss."""
    if activation.linear:
        of_map = loss_of_map(jax.numpy, of)
        return lambda weights, data: of_map(data)(reduce(lambda below, W: W @ below, weights))

    def value(weights: Tree, data: Tree) -> Tree:
        signal, targets, weight = data
        outputs = _outputs(jax, activation, weights, signal)
        if of.squared:
            return weight * ((targets - outputs) ** 2).sum() / 2
        return weight * of.per_sample(outputs.T, targets.T, jax.numpy).sum()

    return value


def loss_of_map(xp: ModuleType, of: Loss) -> Callable[[Tree], Callable[[JaxArray], JaxArray]]:
    """data → a function W → the loss, of linear maps."""

    def on(data: Tree) -> Callable[[JaxArray], JaxArray]:
        if of.squared:
            return data[2].loss
        inputs, targets, weight = data
        return lambda W: weight * of.per_sample((W @ inputs).T, targets.T, xp).sum()

    return on


def pull_on_map(jax: ModuleType, of: Loss, data: Tree) -> Callable[[JaxArray], JaxArray]:
    """W → E = −∂loss/∂W of linear maps, on samples."""
    inputs, targets, weight = data
    return lambda W: weight * (inputs @ of.pull((W @ inputs).T, targets.T, jax.numpy)).T


def _outputs(jax: ModuleType, activation: Activation, weights: Tree, signal: JaxArray) -> JaxArray:
    for W in weights[:-1]:
        signal = activation(W @ signal, jax.numpy)
    return weights[-1] @ signal


def observe(
    jax: ModuleType,
    activation: Activation,
    names: tuple[str, ...],
    sizes: tuple[int, ...],
    biased: bool = False,
    of: Loss = SQUARED,
) -> Callable[..., Tree]:
    """(weights, data) → what is to be kept of them, each a list of arrays; of weights, the layers as a network has."""
    if biased:
        inner, rows = observe(jax, activation, names, sizes, of=of), constant_rows(sizes, activation)
        return lambda weights, data: inner(whole(weights, rows, jax.numpy), data)
    if activation.linear:
        of_map = loss_of_map(jax.numpy, of)
        return lambda weights, data: _engines.observe(jax.numpy, weights, names, of_map(data))
    value = loss(jax, activation, of)

    def seen(weights: Tree, data: Tree) -> Tree:
        kept = {"weights": list(weights)} if "weights" in names else {}
        return kept | {"loss": [value(weights, data)]}

    return seen


def _linear(weights: Tree, data: Tree) -> Tree:
    sigma_yx, sigma_xx, _ = data
    gradients, E, W = _engines.linear_gradients(weights, _engines.squared_pull(sigma_yx, sigma_xx))
    return gradients, -((sigma_yx + E) * W).sum() / 2


def _linear_on_samples(jax: ModuleType, of: Loss) -> Callable[..., Tree]:
    def gradients(weights: Tree, data: Tree) -> Tree:
        inputs, targets, weight = data
        found, _, W = _engines.linear_gradients(weights, pull_on_map(jax, of, data))
        return found, weight * of.per_sample((W @ inputs).T, targets.T, jax.numpy).sum()

    return gradients


def _backwards(jax: ModuleType, activation: Activation, of: Loss) -> Callable[..., Tree]:
    """From the loss's own pull, which keeps digits that a derivative of the loss would lose."""

    def gradients(weights: Tree, data: Tree) -> Tree:
        inputs, targets, weight = data
        outputs, back = jax.vjp(lambda layers: _outputs(jax, activation, layers, inputs), weights)
        (found,) = back(weight * of.pull(outputs.T, targets.T, jax.numpy).T)
        return found, weight * of.per_sample(outputs.T, targets.T, jax.numpy).sum()

    return gradients


def _one_output(jax: ModuleType, gamma: JaxArray) -> Callable[..., Tree]:
    xp = jax.numpy

    def gradients(weights: Tree, data: Tree) -> Tree:
        (W, a), (X, y, weight) = weights, data
        z = W @ X
        error = y[0] - (a @ (xp.maximum(z, gamma * z) if gamma else xp.maximum(z, 0.0)))[0]
        E = weight * error
        xi = xp.where(z > 0, E, gamma * E if gamma else 0.0) @ X.T
        return [a.T * xi, (W * xi).sum(1)[None]], (E * error).sum() / 2

    return gradients
