"""What the figures of Saxe et al. 2014 share: the tree of items, and a small random initialisation on it."""

import numpy as np

from lazyrich import Network, Problem, Trajectory
from lazyrich._typing import Array, Float, Rng
from lazyrich.inits import gaussian
from lazyrich.tasks import Task, binary_tree


def tree(rng: Rng, levels: int, features: int, flip: float) -> Task:
    """Items and features of a branching diffusion, with sums over the items as in the paper (Σxx = I)."""
    task = binary_tree(rng, levels=levels, features=features, flip=flip)
    assert task.inputs is not None and task.targets is not None
    return Task.from_data(task.inputs, task.targets, reduction="sum", name=task.name)


def small_start(rng: Rng, task: Task, *, hidden: int, u0: float, activation: str = "linear") -> Problem:
    """Small Gaussian weights, as large as lets the first mode grow from u0 (on average).

    That strength is ¼‖W1v + W2ᵀu‖², so the variance is 2u0/h. The features are turned into the span of the targets
    and of W2 first, of min(items, features) + h dimensions: descent never leaves it, whatever the activation, so
    this is the same learning at a fraction of the cost.
    """
    assert task.inputs is not None and task.targets is not None
    sizes = (task.d_in, hidden, task.d_out)
    W1, W2 = gaussian(rng, sizes=sizes, scale=np.sqrt(2 * u0 / hidden)).weights
    U = task.modes.U
    inside = U.T @ W2
    aside = np.linalg.qr(W2 - U @ inside, mode="r")
    targets = np.pad(task.targets @ U, ((0, 0), (0, len(aside))))
    turned = Task.from_data(task.inputs, targets, reduction="sum", name=task.name)
    return Problem(turned, Network([W1, np.concatenate([inside, aside])], activation))


def response_strengths(traj: Trajectory) -> Float[Array, "T m"]:
    """uᵀΣ̂v with Σ̂ = Σ ŷxᵀ over one-hot items: the mode strengths of a network that may be tanh."""
    W1, W2 = traj.weights
    U, _, V = traj.problem.task.modes
    hidden = traj.problem.network.activation(W1)
    return np.sum((U.T @ W2) * np.swapaxes(hidden @ V, 1, 2), axis=2)
