"""Initialisations that know a task: aligned with its modes, or left behind by learning it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, ArrayLike, Float, Rng
from lazyrich.inits.balanced import layer_sizes
from lazyrich.inits.random import random_frame
from lazyrich.networks import Network
from lazyrich.tasks import Task
from lazyrich.tasks.task import as_task


def aligned(
    rng: Rng, task: Task, *, hidden: SupportsIndex | Sequence[SupportsIndex], strengths: ArrayLike, lam: ArrayLike = 0.0
) -> Network:
    """Decoupled modes: the network has the task's singular vectors.

    Parameters
    ----------
    rng : a seed, or a NumPy Generator
    task : whose modes it has
    hidden : one width, or several for deeper networks
    strengths : of the modes, one number or one each; a negative one is learned backwards
    lam : balance b_{ℓ+1}² − b_ℓ² of the modes' sizes in neighbouring layers: one number, one per mode, or in more than
        two layers one row per pair, of one number or one per mode

    Returns
    -------
    Network

    >>> task = lr.tasks.semantic_hierarchy()
    >>> net = lr.inits.aligned(0, task, hidden=14, strengths=1e-3)
    >>> lr.Problem(task, net).facts.aligned
    True
    >>> deep = lr.inits.aligned(0, task, hidden=(14, 10), strengths=1e-3, lam=[[0.5], [-0.5]])
    >>> [f"{np.linalg.norm(W, 2):.3f}" for W in deep.weights]
    ['0.038', '0.708', '0.038']
    """
    generator, task = _check.as_rng(rng), as_task(task)
    widths = _hidden_widths(hidden)
    m = min(task.d_in, task.d_out, *widths)
    a, balance = _per_mode("strengths", strengths, m), _per_pair_and_mode(lam, len(widths), m)
    U, _, V = task.modes
    frames = [
        V[:, :m],
        *(random_frame(generator, h, m) for h in widths),
        U[:, :m] * np.where(a < 0, -1.0, 1.0),
    ]
    c = layer_sizes(a, balance)
    return Network([(new * c_l) @ old.T for old, new, c_l in zip(frames, frames[1:], c, strict=False)])


def prior_knowledge(rng: Rng, task: Task, *, hidden: SupportsIndex | Sequence[SupportsIndex]) -> Network:
    """The zero-balanced network that has learned a task, up to the rotation of its hidden units.

    For the end of one particular training run, take `trajectory.network(-1)`.

    Parameters
    ----------
    rng : a seed, or a NumPy Generator
    task : the one that is known
    hidden : one width, or several for deeper networks

    Returns
    -------
    Network

    >>> task = lr.tasks.semantic_hierarchy()
    >>> net = lr.inits.prior_knowledge(0, task, hidden=14)
    >>> bool(abs(net.function - task.target).max() < 1e-12)
    True
    """
    generator, widths, task = _check.as_rng(rng), _hidden_widths(hidden), as_task(task)
    U, s, Vt = np.linalg.svd(task.target, full_matrices=False)
    m = min(task.d_in, task.d_out, *widths)
    c = s[:m] ** (1 / (len(widths) + 1))
    frames = [Vt[:m].T, *(random_frame(generator, h, m) for h in widths), U[:, :m]]
    return Network([(new * c) @ old.T for old, new in itertools.pairwise(frames)])


def _hidden_widths(hidden: object) -> tuple[int, ...]:
    widths = tuple(hidden) if isinstance(hidden, tuple | list | np.ndarray) else (hidden,)
    return tuple(_check.count("hidden", h) for h in widths)


def _per_mode(name: str, value: ArrayLike, modes: int) -> Float[Array, " m"]:
    array = np.atleast_1d(_check.as_array(name, value))
    if array.shape not in ((1,), (modes,)):
        raise InvalidInput(f"{name} must be one number or one per mode ({modes}), and it has shape {array.shape}.")
    return np.broadcast_to(array, (modes,))


def _per_pair_and_mode(lam: ArrayLike, pairs: int, modes: int) -> Float[Array, "pairs m"]:
    array = np.atleast_2d(_check.as_array("lam", lam))
    if array.ndim > 2 or array.shape[0] not in (1, pairs) or array.shape[1] not in (1, modes):
        per_pair = f", or a row per pair of layers ({pairs}) of either" if pairs > 1 else ""
        raise InvalidInput(
            f"lam must be one number or one per mode ({modes}){per_pair}, and it has shape {np.shape(lam)}."
        )
    return np.broadcast_to(array, (pairs, modes))
