"""Quadratic penalties that hold a network where the stage before has left it, W*: their three metrics.

    weights    ½β Σ_ℓ ‖W_ℓ − W_ℓ*‖²
    fisher     ½β Σ_ℓ Σ_ij F_ℓ,ij (W_ℓ − W_ℓ*)²_ij        F_ℓ,ij = mean Σ_o (∂f_o/∂W_ℓ,ij)² at W*
    outputs    ½β mean ‖f(x) − f*(x)‖²                     over the inputs of the stage before

`fisher` is elastic weight consolidation (Kirkpatrick et al. 2017): F is the diagonal of the Fisher information of a
network whose outputs have Gaussian noise of variance 1, and for linear layers f = A W_ℓ B x

    F_ℓ,ij = ‖A_:i‖² (BΣxxBᵀ)_jj .

`outputs` is a task once more: its loss is that of the map W* on the old inputs, and the sum of two losses is one
(`mixture`). So it is replay of the network's own answers, or distillation, with the fraction β/(1 + β), faster by
1 + β; and exact where replay is. The other two pull every layer back by itself. They are integrated, by SciPy's
DOP853.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._progress import progress
from lazyrich._typing import Array, Float
from lazyrich.networks import Network
from lazyrich.networks.network import product
from lazyrich.problem import Problem
from lazyrich.tasks import Task
from lazyrich.tasks.mixture import combined
from lazyrich.trajectory import Trajectory
from lazyrich.velocity import flat_velocity

METRICS = ("weights", "fisher", "outputs")
METHOD = "penalised"
_RTOL = 1e-10
_STIFFEST = 3e5  # rate × time that explicit steps are taken for: half a minute


@dataclass(frozen=True)
class Penalty:
    """Holds a network where the stage before has left it, for `lr.continual(…, penalty=…)`.

    Parameters
    ----------
    strength : β; 0 holds nothing
    metric : what is held: "weights", all of them alike; "fisher", each by how much the outputs depend on it (elastic
        weight consolidation); "outputs", what the network answers to the inputs of the stage before

    >>> tasks = [lr.Task.from_correlations([[1.0]]), lr.Task.from_correlations([[3.0]])]
    >>> network, times = lr.Network([[[0.5]], [[0.5]]]), [0.0, 30.0]
    >>> held = lr.continual(tasks, network, times, penalty=lr.sequences.Penalty(0.25, "outputs"))
    >>> replayed = lr.continual(lr.sequences.replay(tasks, 0.2), network, times)  # β/(1 + β) = 1/5
    >>> held.loss_matrix.round(9).tolist() == replayed.loss_matrix.round(9).tolist()
    True
    """

    strength: float
    metric: str = "fisher"

    def __post_init__(self) -> None:
        object.__setattr__(self, "strength", _check.positive("strength", self.strength, or_zero=True))
        _check.choice("metric", self.metric, METRICS)

    def task(self, task: Task, former: Task, function: Float[Array, "out in"]) -> Task:
        """The present task with the penalty on outputs in its loss; of the other metrics, the present task alone."""
        if self.metric != "outputs" or not self.strength:
            return task
        answers = answers_of(function, former)
        return combined((task, answers), (1.0, self.strength), name=task.name)

    def stiffness(self, former: Task, network: Network) -> list[Array]:
        """βF of each layer, or β."""
        if self.metric == "weights":
            return [np.full(W.shape, self.strength) for W in network.weights]
        return [self.strength * F for F in fisher(network, former)]


def as_penalty(value: object, problem: Problem, rate: float | None) -> Penalty | None:
    """A penalty that suits the problem, or a sentence."""
    if value is None:
        return None
    if not isinstance(value, Penalty):
        raise InvalidInput(
            f"penalty must be a lr.sequences.Penalty, and it is a {type(value).__name__}: try Penalty(1.0)."
        )
    plain = problem.network.activation.linear and not problem.network.biased and problem.loss.squared
    if rate is not None or not plain:
        raise InvalidInput(
            "penalty belongs to the flow of linear networks without biases and the squared loss, and this one is "
            f"{problem.network.architecture}, {problem.loss}{'' if rate is None else ', and descends'}: try "
            "replay(tasks, fraction), which any network can train on."
        )
    return value if value.strength else None


def answers_of(function: Float[Array, "out in"], task: Task) -> Task:
    """The task of answering to the inputs of another as a linear map does."""
    W, xx = function, task.sigma_xx
    inputs = task.inputs
    return Task(
        sigma_yx=W @ xx,
        sigma_xx=xx,
        sigma_yy=W @ xx @ W.T,
        inputs=inputs,
        targets=None if inputs is None else inputs @ W.T,
        reduction=task.reduction,
        input_map=task.input_map,
        eps=task.eps,
    )


def fisher(network: Network, task: Task) -> list[Array]:
    """Diagonal of the Fisher information of a linear network's layers.

    >>> fisher(lr.Network([[[2.0]], [[3.0]]]), lr.Task.from_correlations([[1.0]]))
    [array([[9.]]), array([[4.]])]
    """
    layers, found = network.weights, []
    for i, W in enumerate(layers):
        after = product(layers[i + 1 :]) if i + 1 < len(layers) else np.eye(len(W))
        before = product(layers[:i]) if i else np.eye(W.shape[1])
        found.append(np.outer(np.sum(after**2, axis=0), np.einsum("ij,jk,ik->i", before, task.sigma_xx, before)))
    return found


def held_flow(problem: Problem, stiffness: Sequence[Array], times: Float[Array, " T"], max_steps: int) -> Trajectory:
    """The flow of the problem with each weight pulled back to where it begins."""
    from scipy.integrate import DOP853  # here, to keep `import lazyrich` quick

    anchor = np.concatenate([W.ravel() for W in problem.network.weights])
    curb = np.concatenate([
        np.asarray(eta * F).ravel() for eta, F in zip(problem.rates, stiffness, strict=True)
    ])  # fmt: skip
    states, end = [anchor] * int(np.count_nonzero(times == 0)), float(times[-1])
    if float(curb.max(initial=0.0)) * end > _STIFFEST:
        raise InvalidInput(
            f"penalty is too strong for times to {end:.4g}: strength × time is {float(curb.max()) * end:.2g}, and "
            f"explicit steps take too long beyond {_STIFFEST:.0g}; try a weaker one, an earlier end, or "
            "metric='outputs', which is exact."
        )
    with progress(end, "penalised flow") as move_on:
        atol = 1e-3 * _RTOL * float(np.abs(anchor).max())
        solver = DOP853(
            lambda _, y: flat_velocity(problem, y) - curb * (y - anchor), 0.0, anchor, end or 1.0, rtol=_RTOL, atol=atol
        )
        for _ in range(max_steps):
            if len(states) == len(times):
                break
            with np.errstate(over="ignore", invalid="ignore"):  # a step that was too long is taken again
                failed = solver.step()
            if failed:
                raise RuntimeError(f"the penalised flow cannot go on from t = {solver.t:.4g}: {failed}")
            between = solver.dense_output()
            while len(states) < len(times) and times[len(states)] <= solver.t:
                states.append(between(times[len(states)]))
            move_on(min(solver.t, end) - min(float(solver.t_old), end))
        else:
            raise RuntimeError(f"the penalised flow has taken {max_steps:,} steps to t = {solver.t:.4g} of {end:.4g}.")
    cuts = np.cumsum([W.size for W in problem.network.weights])[:-1]
    parts = np.split(np.array(states), cuts, axis=1)
    weights = [part.reshape(-1, *W.shape) for part, W in zip(parts, problem.network.weights, strict=True)]
    return Trajectory(problem, times, METHOD, {"weights": weights}, citations=("kirkpatrick2017",))
