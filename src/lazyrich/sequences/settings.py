"""How each stage of a sequence learns: layer rates and weight decay, one for all stages or one for each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich.losses import SQUARED, Loss
from lazyrich.networks import Network
from lazyrich.problem import Problem
from lazyrich.tasks import Task


class Setting(NamedTuple):
    """Rates of the layers and weight decay of one stage, with a multiplier absorbed into the rates.

    >>> lr.sequences.Setting(rates=(1.0, 0.1), weight_decay=0.0).rates
    (1.0, 0.1)
    """

    rates: tuple[float, ...]
    weight_decay: float


def as_settings(
    tasks: tuple[Task, ...], network: Network, rates: object, weight_decay: object, loss: Loss = SQUARED
) -> tuple[Network, tuple[Setting, ...]]:
    """The network that learns, a multiplier absorbed, and the setting of each stage; or a sentence.

    `rates` are those of the layers, or hold a row for each stage.
    """
    count = len(tasks)
    given = None if rates is None else _check.as_array("rates", rates)
    if given is not None and given.ndim == 2 and len(given) != count:
        raise InvalidInput(
            f"rates must be those of the layers, or a row of them for each stage ({count}), and there are {len(given)} "
            "rows."
        )
    rows = [given] * count if given is None or given.ndim < 2 else list(given)
    decay = _check.as_array("weight_decay", weight_decay)
    if decay.ndim and decay.shape != (count,):
        raise InvalidInput(
            f"weight_decay must be one number, or one for each stage ({count}), and it has shape {decay.shape}."
        )
    each = zip(rows, np.broadcast_to(decay, (count,)), strict=True)
    problems = [Problem(tasks[0], network, row, float(gamma), loss) for row, gamma in each]
    return problems[0].network, tuple(Setting(problem.rates, problem.weight_decay) for problem in problems)
