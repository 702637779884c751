"""A mixture of tasks is a task: what one network sees that is trained on all of them, each with its share.

    L(W) = Σ_k π_k L_k(W),     Σxx = Σ_k π_k Σxx,k,   Σyx = Σ_k π_k Σyx,k,   Σyy = Σ_k π_k Σyy,k

since the loss is linear in the correlations (theory: section 14). Tasks that share their Σxx mix to one that has it
too, so that what is exact of each is exact of the mixture. Other losses and networks see samples: those of every task,
each repeated as often as its share asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import gcd, lcm

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, ArrayLike, Float
from lazyrich.tasks.coordinates import as_tasks
from lazyrich.tasks.task import Task

_SUM = 1e-9  # by which shares may miss one, as decimal fractions do
_FINEST = 10_000  # the largest denominator that a share is taken to have been meant with
_ROUNDING = 1e-12
_MOST = 200_000  # samples, repeated ones too


def mixture(tasks: Sequence[Task], weights: ArrayLike | None = None, *, name: str = "") -> Task:
    """The task of learning several at once, each with its share of all that is seen.

    Interleaving tasks, replaying one while another is learned and shuffling their samples together are, at small
    learning rates, all training on a mixture.

    Samples are kept where all tasks have them, repeated so that every task has its share: shares of 1/20 and 19/20 of
    two tasks with 30 samples make 600. Where that would be more than 200,000, or tasks are sums over samples,
    correlations are left, which are all that linear networks need.

    Parameters
    ----------
    tasks : with the same inputs and outputs, in the same coordinates
    weights : the share of each, not negative, with the sum 1; without them all have the same
    name : for people

    Returns
    -------
    Task

    >>> old, new = lr.Task.from_correlations([[1.0]]), lr.Task.from_correlations([[3.0]])
    >>> both = lr.tasks.mixture([old, new], [0.1, 0.9])
    >>> both.target, round(both.loss_floor, 12)  # the loss that is left by what they disagree on, ½ · 0.1 · 0.9 · 2²
    (array([[2.8]]), 0.18)
    """
    checked = as_tasks(tasks, "one network sees them all")
    shares = np.full(len(checked), 1 / len(checked)) if weights is None else as_shares("weights", weights, len(checked))
    return combined(checked, shares, name=name)


def as_shares(name: str, value: ArrayLike, count: int) -> Float[Array, " k"]:
    """One share per task, not negative, with the sum 1 to rounding; or a sentence."""
    shares = _check.as_array(name, value, ndim=1)
    if len(shares) != count:
        raise InvalidInput(f"{name} must hold one number per task ({count}), and it holds {len(shares)}.")
    if shares.min() < 0:
        raise InvalidInput(f"{name} must not be negative, and the least is {shares.min():g}.")
    if abs(total := float(shares.sum()) - 1) > _SUM:
        raise InvalidInput(f"{name} must have the sum 1, and it is {total + 1:.15g}: try {name} / sum({name}).")
    return np.asarray(shares / shares.sum())


def combined(tasks: Sequence[Task], factors: ArrayLike, *, name: str = "") -> Task:
    """The task whose loss is the sum of the losses of tasks, each with its factor, which need not have the sum 1."""
    all_factors = np.asarray(factors, dtype=float)
    used = [(task, float(factor)) for task, factor in zip(tasks, all_factors, strict=True) if factor > 0]
    parts, weights = [task for task, _ in used], np.array([factor for _, factor in used])
    first, total = parts[0], float(weights.sum())
    for what in ("reduction", "constant"):
        if len({getattr(task, what) for task in parts}) > 1:
            means = {"reduction": "be means over samples, or all sums", "constant": "have a constant input, or none"}
            raise InvalidInput(f"tasks must all {means[what]}, to be mixed, and some are one and some the other.")
    if len(parts) == 1 and total == 1:
        return replace(first, name=name) if name else first
    white = all(np.array_equal(task.sigma_xx, first.sigma_xx) for task in parts)
    shared = 1.0 if abs(total - 1) < _ROUNDING else total
    sigma_xx = shared * first.sigma_xx if white else _sum(weights, [task.sigma_xx for task in parts])
    samples = _samples(parts, weights) if shared == 1.0 else None
    return Task(
        sigma_yx=_sum(weights, [task.sigma_yx for task in parts]),
        sigma_xx=sigma_xx,
        sigma_yy=_sum(weights, [task.sigma_yy for task in parts]),
        inputs=None if samples is None else samples[0],
        targets=None if samples is None else samples[1],
        reduction=first.reduction,
        input_map=first.input_map,
        eps=max(task.eps for task in parts),
        name=name or _named(used),
        constant=first.constant,
        classes=first.classes if all(task.classes == first.classes for task in parts) else (),
    )


def _sum(weights: Float[Array, " k"], matrices: list[Float[Array, "m n"]]) -> Float[Array, "m n"]:
    return np.asarray(np.tensordot(weights, np.stack(matrices), axes=1))


def _samples(tasks: list[Task], shares: Float[Array, " k"]) -> tuple[Array, Array] | None:
    """The samples of all tasks, each as often as its share asks for; None where that cannot be done, or not by few."""
    inputs = [task.inputs for task in tasks if task.inputs is not None]
    targets = [task.targets for task in tasks if task.targets is not None]
    if len(inputs) < len(tasks) or tasks[0].reduction != "mean":
        return None
    meant = [Fraction(float(share)).limit_denominator(_FINEST) for share in shares]
    if any(abs(float(fraction) - share) > _ROUNDING for fraction, share in zip(meant, shares, strict=True)):
        return None
    each = [fraction / len(X) for fraction, X in zip(meant, inputs, strict=True)]
    whole = lcm(*(fraction.denominator for fraction in each))
    times = [int(fraction * whole) for fraction in each]
    times = [count // gcd(*times) for count in times]
    if sum(count * len(X) for count, X in zip(times, inputs, strict=True)) > _MOST:
        return None
    X, Y = (np.concatenate([np.tile(part, (n, 1)) for part, n in zip(parts, times, strict=True)])
            for parts in (inputs, targets))  # fmt: skip
    return X, Y


def _named(used: list[tuple[Task, float]]) -> str:
    """ "0.9 new + 0.1 old", where all have names."""
    named = all(task.name for task, _ in used)
    return " + ".join(f"{factor:.3g} {task.name}" for task, factor in used) if named else ""
