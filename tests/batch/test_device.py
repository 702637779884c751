"""`batch.solve` with arrays of other libraries: same numbers, arrays of that library, one program for all."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest

import lazyrich as lr
from lazyrich._check import InvalidInput
from lazyrich.batch import device

pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("unchecked_shapes")]


def starts(rng, count=12, sizes=(3, 4, 3), lam=0.0):
    task = lr.Task.from_correlations(rng.normal(size=(sizes[-1], sizes[0])))
    return [lr.Problem(task, lr.inits.lambda_balanced(rng, sizes=sizes, lam=lam, scale=0.2)) for _ in range(count)]


def assert_same(problems, times, kind):
    here = lr.batch.solve(problems, np.asarray(times))
    for mine, its in zip(lr.batch.solve(problems, times, device_arrays=True), here, strict=True):
        assert (mine.method, mine.notes) == (its.method, its.notes)
        for name in ("function", "loss", "gram"):
            array = getattr(mine, name)
            assert isinstance(array, kind)
            assert np.abs(np.asarray(array) - getattr(its, name)).max() <= 1e-12 * np.abs(getattr(its, name)).max()
        assert isinstance(mine.times, kind)


@pytest.mark.parametrize("few", [0, 64])
@pytest.mark.parametrize("lam", [0.0, 0.5])
def test_nothing_but_the_array_api_is_used(rng, monkeypatch, few, lam):
    monkeypatch.setattr(device, "_FEW", few)
    monkeypatch.setattr(device, "_SHARE", 0.0)
    times = array_api_strict.asarray([0.0, 0.5, 2.0, 30.0])
    assert_same(starts(rng, sizes=(3, 3, 3), lam=lam), times, type(times))


def test_in_blocks_of_one_shape_and_at_times_of_each(rng, monkeypatch):
    monkeypatch.setattr(device, "_FEW", 0)
    monkeypatch.setattr(device, "_NUMBERS", 400)
    times = array_api_strict.asarray(np.sort(rng.uniform(0.0, 5.0, (12, 4)), axis=1))
    assert_same(starts(rng), times, type(times))


def test_many_columns(rng):
    times = array_api_strict.asarray([0.0, 0.5, 2.0])
    assert_same(starts(rng, count=4, sizes=(17, 17, 17)), times, type(times))


def test_starts_along_the_modes_are_solved_beside_others(rng):
    problems, times = starts(rng, sizes=(3, 3, 3)), array_api_strict.asarray([0.0, 0.5, 2.0])
    U, _, Vt = np.linalg.svd(problems[0].task.sigma_yx)
    along = lr.Problem(problems[0].task, lr.Network([0.1 * Vt, 0.1 * U]))
    assert along.facts.method == "modes"
    for mine in (
        lr.batch.solve([*problems, along], times, device_arrays=True)[-1],
        lr.solve(along, times, device_arrays=True),
    ):
        assert isinstance(mine.loss, type(times)) and mine.method == "riccati"
        np.testing.assert_allclose(np.asarray(mine.function), lr.solve(along, [0.0, 0.5, 2.0]).function, atol=1e-13)


@pytest.mark.compiles
@pytest.mark.parametrize("sizes", [(3, 4, 3), (17, 17, 17)])
def test_jax(rng, monkeypatch, sizes):
    jax = pytest.importorskip("jax")
    monkeypatch.setattr(device, "_FEW", 3)
    with jax.enable_x64(True):
        times = jax.numpy.asarray([0.0, 0.5, 2.0, 30.0])
    assert_same(starts(rng, count=8, sizes=sizes), times, jax.Array)
    assert lr.batch.solve(starts(rng), times, device_arrays=True)[0].function.dtype == np.float64


def test_messages(rng):
    with pytest.raises(InvalidInput, match="times must be an array of the library to compute with"):
        lr.batch.solve(starts(rng), [0.0, 1.0], device_arrays=True)
    deep = lr.inits.aligned(0, (task := starts(rng)[0].task), hidden=(4, 4), strengths=0.1)
    with pytest.raises(InvalidInput, match=r"with the method riccati, and problems\[1\] is solved by deep_modes: try"):
        times = array_api_strict.asarray([0.0, 1.0])
        lr.batch.solve([*starts(rng, count=1), lr.Problem(task, deep)], times, device_arrays=True)
