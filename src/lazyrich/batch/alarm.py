"""An alarm that shares nothing with how an integration judges its steps: what a gradient flow descends never rises.

    d/dt [loss + ½ γ Σ‖W_ℓ‖²] = −Σ ‖Ẇ_ℓ‖²/η_ℓ ≤ 0

Weights that are off by rtol of themselves may raise it by about rtol times what it was, or could have been by the
size of the weights. A record that stands above an earlier one by more says that steps were too long to be judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyrich._status import End, Status
from lazyrich._typing import Array
from lazyrich.problem import Problem, loss_of

_ROUNDING = 1e-12


def objective(problem: Problem, weights: Sequence[Array], loss: Any) -> Any:
    """Loss and decay term of weights (…, out, in) whose loss is known."""
    free = problem.network.free(weights)
    return loss + problem.weight_decay / 2 * sum((np.asarray(W) ** 2).sum(axis=(-2, -1)) for W in free)


def falling(problem: Problem, values: Array, rtol: float) -> int:
    """How many records of the objective come before one that is above an earlier one."""
    weights, task = problem.network.weights, problem.task
    loss = loss_of(task, weights, problem.network.activation, problem.loss)
    initial = float(objective(problem, weights, loss))
    sizes = [(W**2).sum() + problem.network.biased for W in problem.network.free(weights)]  # and a constant 1
    could_be = float(np.trace(task.sigma_xx) * np.prod(sizes) / 2)
    least = np.minimum.accumulate(np.concatenate([[initial], values]))[:-1]
    risen = ~(values <= least + max(rtol, _ROUNDING) * (abs(initial) + could_be))
    return int(np.argmax(risen)) if risen.any() else len(values)


def rising(problem: Problem, time: float, rtol: float) -> Status:
    """The status of a run that ends before such a record."""
    what = "loss and decay term rise" if problem.weight_decay else "the loss rises"
    ended = f"ended before t = {time:.6g}, where {what} as in no gradient flow"
    return Status(End.ROSE, ended, f"an rtol below {rtol:g}")
