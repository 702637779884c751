"""Sweeps by `solve` take their cells together: each has the numbers of `lr.solve`, and a refused one stops none."""

from __future__ import annotations

import numpy as np
import pytest

import lazyrich as lr
from lazyrich._threads import one_blas_thread
from lazyrich.sweeps import Cell, Sweep, compute

pytestmark = pytest.mark.timeout(120)
TASK = lr.Task.from_correlations(np.array([[2.0, 0.0, 0.5], [0.0, 1.0, 0.3]]))
OTHER = lr.Task.from_correlations(np.array([[1.0, 0.4, 0.0], [0.2, 3.0, 0.1]]))


def cell(i):
    """Of two tasks, with clocks of their own; every fifth has no exact solution, every seventh cannot be made."""
    if i % 7 == 6:
        raise ValueError("no such cell")
    make = lr.inits.gaussian if i % 5 == 4 else lr.inits.zero_balanced
    network = make(i, sizes=(3, 4, 2), scale=0.2)
    return Cell(lr.Problem((TASK, OTHER)[i % 2], network), clock=1.0 + i % 3)


def sweep():
    names = ["loss", "mode_strengths", "kernel_distance"]
    return Sweep.from_dict({"name": "many", "problem": cell, "axes": {"i": list(range(24))}, "at": [0, 5, 40],
                            "rate": 0.1, "method": "solve", "observables": names})  # fmt: skip


def test_every_cell_is_that_of_one_problem():
    result = compute.compute(sweep(), sweep().block_at(0))
    failed = {(i,) for i in range(24) if i % 7 == 6 or i % 5 == 4}
    assert set(result.causes) == failed
    assert "no exact solution applies" in str(result.causes[(4,)]) and "problems[" not in str(result.causes[(4,)])
    for i in range(24):
        if (i,) in failed:
            assert np.isnan(result.values["loss"][i]).all()
            continue
        alone = lr.solve(cell(i).problem, 0.1 * cell(i).clock * np.array([0.0, 5.0, 40.0]))
        np.testing.assert_allclose(result.values["loss"][i], alone.loss, rtol=0, atol=1e-12 * alone.loss.max())
        strengths = lr.observables.mode_strengths(alone)
        np.testing.assert_allclose(result.values["mode_strengths"][i], strengths, atol=1e-12 * np.abs(strengths).max())
        distances = lr.observables.kernel_distance(alone)
        np.testing.assert_allclose(result.values["kernel_distance"][i], distances, atol=1e-12)


def test_bytes_do_not_depend_on_threads_nor_on_what_ran_before():
    first = compute.compute(sweep(), sweep().block_at(0))
    with one_blas_thread():
        again = compute.compute(sweep(), sweep().block_at(0))
    for name, values in first.values.items():
        assert values.tobytes() == again.values[name].tobytes()


def test_few_at_a_time_where_memory_is_short(monkeypatch):
    whole = compute.compute(sweep(), sweep().block_at(0))
    monkeypatch.setattr(compute, "_NUMBERS", 1500)
    parts = compute.compute(sweep(), sweep().block_at(0))
    assert set(parts.causes) == set(whole.causes)
    np.testing.assert_allclose(parts.values["loss"], whole.values["loss"], atol=1e-12)
