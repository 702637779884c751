"""Designs that are not grids: tables of values, one row for each run, for `Sweep(table=…)`.

A table is a mapping of columns, such as `{"tau": [0.1, 1.0], "delta": [-1.0, 0.5]}`, or a data frame. More rows of the
same seed begin with the same rows, so a finished sweep can grow by them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, Float

__all__ = ["sobol", "uniform"]


def uniform(rows: int, seed: int = 0, **ranges: Sequence[object]) -> dict[str, list[float]]:
    """Independent random rows.

    Parameters
    ----------
    rows : how many
    seed : of the random numbers
    **ranges : name = (least, largest), or (least, largest, "log") for as many in each factor of ten

    >>> table = lr.sweeps.uniform(4, tau=(0.1, 10.0, "log"), delta=(-1.0, 1.0))
    >>> sweep = lr.sweeps.Sweep("mine", "teacher_student", axes={"seed": [0, 1]}, table=table, at=[0, 100])
    >>> sweep.shape, list(sweep.axes), sweep.arguments((1, 2))["tau"] == table["tau"][2]
    ((2, 4), ['seed', 'row'], True)
    """
    rows = _check.count("rows", rows)
    ends = _ends(ranges)
    return _scaled(np.random.default_rng(_check.count("seed", seed, least=0)).random((rows, len(ends))), ends)


def sobol(rows: int, seed: int = 0, **ranges: Sequence[object]) -> dict[str, list[float]]:
    """Rows that fill the box evenly: the scrambled sequence of Sobol (`scipy.stats.qmc`), best with 2, 4, 8, … rows.

    Parameters
    ----------
    rows, seed, **ranges : as of `uniform`

    >>> table = lr.sweeps.sobol(8, tau=(0.0, 1.0))
    >>> [sum(i / 4 <= tau < (i + 1) / 4 for tau in table["tau"]) for i in range(4)]
    [2, 2, 2, 2]
    """
    import warnings

    from scipy.stats import qmc

    rows, ends = _check.count("rows", rows), _ends(ranges)
    sequence = qmc.Sobol(len(ends), rng=np.random.default_rng(_check.count("seed", seed, least=0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other numbers of rows than powers of two: said above
        return _scaled(sequence.random(rows), ends)


def _ends(ranges: dict[str, Sequence[object]]) -> dict[str, tuple[float, float, bool]]:
    """Least, largest, and whether by factors."""
    if not ranges:
        raise InvalidInput("a design needs ranges by name, such as tau=(0.1, 10.0), and there are none.")
    found = {}
    for name, given in ranges.items():
        parts = list(given) if isinstance(given, list | tuple) else []
        if len(parts) not in (2, 3) or parts[2:] not in ([], ["log"]):
            raise InvalidInput(
                f'{name} must be (least, largest) or (least, largest, "log"), and it is {_check.shown(given)}.'
            )
        least, largest = (_check.number(name, part) for part in parts[:2])
        if not least < largest or (len(parts) == 3 and least <= 0):
            what = "above 0 and growing" if len(parts) == 3 else "growing"
            raise InvalidInput(
                f"{name} must go from the least to the largest, {what}, and it is {_check.shown(given)}."
            )
        found[name] = (least, largest, len(parts) == 3)
    return found


def _scaled(unit: Float[Array, "rows n"], ends: dict[str, tuple[float, float, bool]]) -> dict[str, list[float]]:
    table = {}
    for column, (name, (least, largest, log)) in zip(unit.T, ends.items(), strict=True):
        values = least * (largest / least) ** column if log else least + (largest - least) * column
        table[name] = [float(value) for value in values]
    return table
