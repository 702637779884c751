"""A task and a network make a problem; its facts are computed once and say which theorems apply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._rounding import present
from lazyrich._typing import Array, Float
from lazyrich.alignment import Alignment, Followed, align, follow
from lazyrich.facts import Facts
from lazyrich.losses import SQUARED, Loss
from lazyrich.methods import EXACT
from lazyrich.networks import Activation, Network
from lazyrich.networks.biases import meeting
from lazyrich.networks.network import forward, product
from lazyrich.tasks import Task
from lazyrich.tasks.task import as_task

_EPS = float(np.finfo(np.float64).eps)
_NEAR = 1e-4  # spread of eigenvalues beyond which no digits of anybody's weights make them two


@dataclass(frozen=True)
class Canonical:
    """The same problem as a unit-rate flow on white inputs: v_ℓ = k_ℓ W_ℓ, target, and time clock·t.

    Input scale c and layer rates η only rescale (theory: section 0): k_ℓ = κ/√η_ℓ with κ^(2L−2) = Πη, target
    Πk · Σyx/c, clock c, and weight decay per unit of the new time.
    """

    k: tuple[float, ...]
    clock: float
    target: Float[Array, "out in"]
    decay: float

    @property
    def gain(self) -> float:
        """Π k_ℓ: the network function is (product of v) / gain."""
        return float(np.prod(self.k))


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """A task and a network that is to learn it.

    Parameters
    ----------
    task : what is to be learned; where the network has biases, a constant input 1 is added to it
    network : as it is at t = 0. A multiplier τ, f = τ W_L⋯W_1 x, goes into last layer and rates: with V_L = τ W_L and
        rates η_ℓ/τ², V̇_L = −τ (η_L/τ²) τ ∂loss/∂V_L has the rate η_L again, and all other layers keep η_ℓ/τ². So
        `problem.network` has the multiplier 1, and `problem.rates` are those it learns with
    rates : one learning rate per layer, or one for all; 1 unless told otherwise
    weight_decay : the γ of loss + ½γ Σ‖W_ℓ‖²; not beside a multiplier
    loss : "squared"; "cross_entropy", of targets that are probabilities, such as those of `Task.from_labels`; or a
        function loss(outputs, targets) written in JAX that takes arrays with a sample per row and gives one number for
        each, such as those of optax. Closed forms are about the squared one, and others need samples

    >>> import lazyrich as lr
    >>> problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01))
    >>> problem.facts.method
    'riccati'
    """

    task: Task
    network: Network
    rates: Any = None  # one per layer, once made
    weight_decay: float = 0.0
    loss: Any = SQUARED  # a `Loss`, once made

    def __post_init__(self) -> None:
        task, network = as_task(self.task), self.network
        if not isinstance(network, Network):
            raise InvalidInput(
                f"network must be a lazyrich Network, and it is a {type(network).__name__}: try Network([W1, W2])."
            )
        inputs = task.d_in - (task.constant and network.biased)
        if (network.d_in, network.d_out) != (inputs, task.d_out):
            raise InvalidInput(
                f"network must map the task's {inputs} inputs to its {task.d_out} outputs, and it maps "
                f"{network.d_in} to {network.d_out}."
            )
        object.__setattr__(self, "task", task.with_constant() if network.biased else task)
        rates = _check.as_rates(self.rates, network.depth)
        object.__setattr__(self, "weight_decay", _check.positive("weight_decay", self.weight_decay, or_zero=True))
        if (tau := network.multiplier) != 1:
            if self.weight_decay:
                raise InvalidInput(
                    "weight_decay must be 0 beside an output multiplier, since it would act on the weights before they "
                    f"are multiplied, and it is {self.weight_decay:g}: try multiplier=1."
                )
            rates = _check.as_rates([*(eta / tau**2 for eta in rates[:-1]), rates[-1]], network.depth)
            object.__setattr__(self, "network", network.absorbed())
        object.__setattr__(self, "rates", rates)
        object.__setattr__(self, "loss", Loss.of(self.loss))
        if not self.loss.squared:
            self._check_loss()

    def _check_loss(self) -> None:
        """A sentence where the task has no samples, or its targets do not suit the loss."""
        task, network = self.task, self.network
        if task.inputs is None or task.targets is None:
            raise InvalidInput(
                f"task must hold samples where the loss is {self.loss}, and it holds correlations only, which the "
                "squared loss alone is a function of: try Task.from_data(inputs, targets)."
            )
        *_, outputs = forward(network.weights, network.activation, task.inputs)
        self.loss.check(task, outputs)

    @cached_property
    def facts(self) -> Facts:
        """Whitened? balanced? aligned? which theorem applies, and why the others do not."""
        task, network = self.task, self.network
        eps = max(task.eps, network.eps)
        pairs = list(self._pairs())
        (lam, balance_error), (family, family_error) = self._balance(pairs), self._family(pairs)
        rank_initial, sign_initial = _rank_and_sign(network.linear_part, network.eps)
        rank_target = int(np.count_nonzero(present(self.alignment.s, self.pull.shape, task.eps)))
        full = task.d_in == task.d_out == rank_initial == rank_target and not network.biased and self.loss.squared
        sign_target = float(np.linalg.slogdet(task.sigma_yx)[0]) if full else 0.0
        # no more than rounding leaves: what is beyond it the flow remembers, and shows where it passes a saddle.
        # half precision is held to the standard of float32: it is then simply not balanced
        tolerance = 64 * min(eps, 2.0**-23)
        # Balanced square layers have singular values a² + d, with one a ≥ 0 for all of them. Where two layers have the
        # least d, a keeps away from 0, as ȧ goes with a, and det W keeps its sign. One layer alone may pass through 0.
        d = np.cumsum([0.0, *lam])
        least = int(np.count_nonzero(d - d.min() <= tolerance * np.abs(d).max()))
        keeps_sign = network.activation.linear and balance_error <= tolerance and least > 1
        # a unit that stays 1 is no part of any mode, and a pull that is not linear in W mixes them
        mixed = (network.biased and network.depth > 1) or not self.loss.squared
        through = self.followed.error if network.depth > 2 and not mixed else 0.0
        alignment_error = np.inf if mixed else max(self.alignment.error, through)
        facts = Facts(
            sizes=network.sizes,
            activation=network.activation,
            rates=self.rates,
            weight_decay=self.weight_decay,
            eps=eps,
            tolerance=tolerance,
            whitening_error=task.whitening_error,
            input_scale=task.input_scale,
            lam=lam,
            balance_error=balance_error,
            family=family,
            family_error=family_error,
            alignment_error=alignment_error,
            mode_imbalance=self.followed.imbalance(self.rates)
            if network.depth > 1 and alignment_error <= tolerance
            else 0.0,
            rank_target=rank_target,
            rank_initial=rank_initial,
            determinant_obstruction=bool(full and keeps_sign and sign_initial * sign_target < 0),
            methods={},
            input_rank=rank if (rank := (own := task.without_constant()).rank) < own.d_in else None,
            biased=network.biased,
            loss=self.loss,
        )
        return replace(facts, methods={method.name: tuple(method.refusals(facts)) for method in EXACT})

    @cached_property
    def pull(self) -> Float[Array, "out in"]:
        """E = −∂loss/∂W of a linear map at W = 0, whose modes are what small weights learn first: Σyx, and with the
        cross-entropy the covariance of classes and inputs, if these are as many of each."""
        if self.loss.squared:
            return self.task.sigma_yx
        E = self.loss.pull_on_map(self.task, np.zeros_like(self.task.sigma_yx))
        if not np.isfinite(E).all():
            raise InvalidInput(
                f"loss must have a finite gradient where all outputs are 0, by which modes are told, and {self.loss} "
                "has none: try lr.descend, which does without modes."
            )
        return _check.read_only(E)

    @cached_property
    def alignment(self) -> Alignment:
        """The task's singular basis, turned within equal singular values towards the initialisation."""
        return align(self.pull, self.task.sigma_xx, self.network.weights, self.network.eps)

    @cached_property
    def followed(self) -> Followed:
        """The task's modes in each layer: their frames and sizes."""
        return follow(self.network.weights, self.alignment, self.network.eps)

    @cached_property
    def canonical(self) -> Canonical:
        """The same problem with unit rates and white inputs, where Σxx = c·I."""
        L, c = self.network.depth, self.task.input_scale
        eta = np.array(self.rates)
        kappa = np.prod(eta) ** (1 / (2 * L - 2)) if L > 1 else 1.0
        k = tuple(float(x) for x in kappa / np.sqrt(eta))
        target = _check.read_only(np.prod(k) * self.pull / c)
        return Canonical(k, c, target, self.weight_decay * self.rates[0] / c)

    def _pairs(self) -> Iterator[tuple[Float[Array, "n h"], Float[Array, "h h"]]]:
        """Q = [v_ℓᵀ; v_ℓ₊₁] of each pair of layers, v_ℓ = k_ℓ W_ℓ, and its D, which the flow conserves also with layer
        rates. Of a wide layer the hidden directions that no weight uses are left out: they have D = 0."""
        v = [k * W for k, W in zip(self.canonical.k, self.network.weights, strict=True)]
        for first, second in meeting(v, self.network.biased):
            Q = np.vstack([first.T, second])
            if len(Q) < Q.shape[1]:
                Q = np.asarray(np.linalg.qr(Q.T, mode="r")).T
            A, B = Q[: first.shape[1]], Q[first.shape[1] :]
            yield Q, B.T @ B - A.T @ A

    def _balance(self, pairs: Sequence[tuple[Array, Array]]) -> tuple[tuple[float, ...], float]:
        """λ and relative error of each pair."""
        lams, worst = [], 0.0
        for width, (Q, D) in zip(self.network.sizes[1:], pairs, strict=False):
            h, size = width - self.network.biased, np.sum(Q**2)
            lam = np.trace(D) / len(D) if h == len(D) else 0.0
            if abs(lam) <= 64 * max(_EPS, min(self.network.eps, 2.0**-23)) * size:
                lam = 0.0
            lams.append(float(lam))
            worst = max(worst, float(np.linalg.norm(D - lam * np.eye(len(D))) / size) if size else 0.0)
        return tuple(lams), worst

    def _family(self, pairs: Sequence[tuple[Array, Array]]) -> tuple[tuple[float, float], float]:
        """c and δ of two layers, and how far they are from the family: the spread of D's eigenvalues about the two, and
        where that is small the departure from GJG = δG + (c² − δ²/4)J, G = QQᵀ, which asks for the directions too."""
        if len(pairs) != 1:
            return (0.0, 0.0), np.inf
        (Q, D), (d_in, _, d_out) = pairs[0], self.network.sizes
        values = np.sort(np.append(np.linalg.eigvalsh(D), np.zeros(len(Q) - len(D))))
        low, high = float(values[:d_in].mean()), float(values[d_in:].mean())
        family, size = ((high - low) / 2, -(high + low)), float(np.sum(Q**2))
        error = float(np.abs(values - np.repeat([low, high], [d_in, d_out])).max()) / (size or 1.0)
        if error < _NEAR:
            J, G = np.repeat([1.0, -1.0], [d_in, d_out]), Q @ Q.T
            off = G @ (J[:, None] * G) - family[1] * G + high * low * np.diag(J)
            error = max(error, float(np.linalg.norm(off) / (size or 1.0) / (size or 1.0)))
        return family, error

    def without_biases(self) -> Problem:
        """The problem that is left when biases take care of the means: centred inputs and targets, biases dropped.

        Exact for linear networks whose inputs have mean 0, whose hidden biases are 0 and whose last bias is the mean
        target (0 where targets are centred too): then no bias ever moves, and the weights do the same with and without
        them. Elsewhere it is another problem, the one that the network would have after such a shift of its data: how
        it differs early on depends on how far the means are off, and with an activation also on what the biases learn.

        >>> net = lr.Network([[[0.1]], [[0.1]]], biases=[[0.0], [0.0]])
        >>> lr.Problem(lr.Task.from_data([[1.0], [-1.0]], [[2.0], [-2.0]]), net).without_biases().facts.method
        'modes'
        """
        task, network = self.task, self.network
        if not network.biased:
            return self
        needs_squared_loss(self, "without_biases", "another loss feels the means of outputs and targets")
        weights = [W[:, :-1] for W in network.free(network.weights)]
        bare = Network(weights, network.activation).known_to(network.eps)
        return Problem(task.without_constant().centred(), bare, self.rates, self.weight_decay)

    def on_support(self) -> Problem:
        """The problem with only the input directions that the data have: inputs Vᵀx, first layer W1V (`task.support`).

        Loss and outputs on the data are the same at all times, since the columns of W1 outside V see no data: without
        weight decay they never move, and D = W2ᵀW2 − W1W1ᵀ differs by what they add to it, a constant. Inputs of
        `task.whitened()` are white there, and a theorem may apply.

        >>> task = lr.Task.from_data([[1.0, 1.0], [2.0, 2.0]], [1.0, 2.0])  # rank 1
        >>> problem = lr.Problem(task.whitened(), lr.Network([[[0.1, 0.1]], [[2**0.5 * 0.1]]]))
        >>> problem.network.sizes, problem.on_support().network.sizes
        ((2, 1, 1), (1, 1, 1))
        """
        task, network = self.task, self.network
        V = task.without_constant().support
        if V.shape[1] == len(V):
            return self
        V = np.block([[V, np.zeros((len(V), 1))], [np.zeros((1, V.shape[1])), 1.0]]) if network.biased else V
        first, *rest = network.weights
        seen = network.with_weights([first @ V, *rest])
        return Problem(task.seen_through(V), seen, self.rates, self.weight_decay, self.loss)

    def __repr__(self) -> str:
        return f"<Problem: {self.network!r} on {self.task!r}{'' if self.loss.squared else f', {self.loss}'}>"


def as_problem(value: Any, name: str = "problem") -> Problem:
    """A problem, or a sentence."""
    if not isinstance(value, Problem):
        raise InvalidInput(
            f"{name} must be a lazyrich Problem, and it is a {type(value).__name__}: try Problem(task, network)."
        )
    return value


def loss_of(task: Task, weights: Sequence[Array], activation: Activation, loss: Loss = SQUARED) -> float:
    """The loss of one state of a network, by its forward pass on the samples where it is not linear."""
    if activation.linear:
        return float(loss.of_map(task, product(weights)))
    if task.inputs is None or task.targets is None:
        raise InvalidInput(
            f"task must hold samples for the loss of a network that is {activation}, and it holds "
            "correlations only: try Task.from_data(inputs, targets)."
        )
    *_, outputs = forward(weights, activation, task.inputs)
    return loss.of_outputs(task, outputs)


def _rank_and_sign(W: Float[Array, "out in"], eps: float) -> tuple[int, float]:
    """Numerical rank of a matrix, and the sign of its determinant where it is square."""
    s = np.linalg.svd(W, compute_uv=False)
    rank = int(np.sum(s > max(W.shape) * eps * s[0])) if s[0] else 0
    return rank, float(np.linalg.slogdet(W)[0]) if W.shape[0] == W.shape[1] else 0.0


def needs_no_biases(network: Network, wanted_by: str) -> None:
    """A sentence where a network has biases, whose constant unit would be counted as one that learns."""
    if network.biased:
        raise InvalidInput(
            f"{wanted_by} belongs to networks without biases, and this one is {network.architecture}: try "
            "problem.without_biases(), which is the same problem on centred data."
        )


def needs_squared_loss(problem: Problem, wanted_by: str, why: str = "E = Σyx − WΣxx holds for that alone") -> None:
    """A sentence where another loss is lowered, which formulas for the squared one know nothing of."""
    if not problem.loss.squared:
        raise InvalidInput(
            f"{wanted_by} belongs to the squared loss, for {why}, and this problem has {problem.loss}: try "
            "lr.predict(problem), lr.flow or lr.descend, which take any."
        )
