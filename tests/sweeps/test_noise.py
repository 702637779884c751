"""Noise in sweeps: what each cell gets, the same on any number of processes and after a kill, and bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.sweeps import Cell, Sweep
from lazyrich.sweeps.compute import compute
from lazyrich.sweeps.run import run
from lazyrich.sweeps.store import open_store

pytestmark = pytest.mark.timeout(120)

SOURCE = Path(lr.__file__).parents[1]
SETTINGS = {"d_in": 3, "h": 4, "d_out": 2, "samples": 9}


def build(axes, at=(0, 3, 8), **settings):
    return Sweep("noisy", "random_regression", axes, at, settings=SETTINGS | settings, rate=0.1)


def bytes_of(out):
    """Every number of a store, as it lies on the disk."""
    return {str(path.relative_to(out)): path.read_bytes() for path in (out / "data.zarr").rglob("c.*")}


@pytest.mark.compiles
def test_each_cell_is_descent_with_the_noise_that_the_sweep_says():
    sweep = build({"seed": [0, 1], "batch": [2, 5], "label_noise": [0.0, 0.3]}, weight_noise=0.01, replacement=True)
    result = compute(sweep, sweep.block_at(0))
    seeds = set()
    for i, j, k in np.ndindex(sweep.shape):
        cell = sweep.cell((i, j, k))
        noise = lr.Noise(batch=(2, 5)[j], replacement=True, labels=(0.0, 0.3)[k], weights=0.01)
        assert cell.noise == noise
        seeds.add(cell.noise_seed)
        alone = lr.descend(cell.problem, 0.1, 8, noise=noise, seed=cell.noise_seed, at=[0, 3, 8])
        np.testing.assert_allclose(result.values["loss"][i, j, k], alone.loss, rtol=1e-12)
    assert len(seeds) == sweep.cells  # each has its own


def test_a_grid_that_has_grown_keeps_the_noise_of_its_cells():
    small, large = (
        build({"scale": scales, "seed": seeds}, batch=2) for scales, seeds in (([0.1], [1]), ([0.3, 0.1], [0, 1]))
    )
    assert small.cell((0, 0)).noise_seed == large.cell((1, 1)).noise_seed != large.cell((0, 1)).noise_seed


def test_the_seed_is_an_axis_too():
    """Two networks that begin alike, and the same noise for both learning problems."""
    sweep = build({"noise_seed": [4, 9], "scale": [0.1, 0.2]}, seed=0, batch=3)
    assert [sweep.cell((i, 0)).noise_seed for i in (0, 1)] == [4, 9] == [sweep.cell((i, 1)).noise_seed for i in (0, 1)]
    loss = compute(sweep, sweep.block_at(0)).values["loss"]
    assert loss[0, 0, 0] == loss[1, 0, 0] and loss[0, 0, 2] != loss[1, 0, 2]


def of_its_own(seed: int, batch: int) -> Cell:
    """A factory that knows the word `batch` itself."""
    cell = lr.sweeps.problems.random_regression(seed, d_in=3, h=4, d_out=2, samples=9)
    return cell._replace(noise=lr.Noise(batch=batch // 2), noise_seed=100 + seed)


def test_a_factory_may_say_what_the_noise_is():
    sweep = Sweep("own", of_its_own, {"seed": [0, 1]}, [0, 5], settings={"batch": 8, "label_noise": 0.1}, rate=0.1)
    cell = sweep.cell((1,))
    assert (cell.noise, cell.noise_seed) == (lr.Noise(batch=4, labels=0.1), 101)


@pytest.mark.compiles
def test_in_single_precision():
    axes, settings = {"seed": [0, 1]}, SETTINGS | {"batch": 3, "label_noise": 0.2, "weight_noise": 0.05}
    loss = {}
    for precision in ("float32", "float64"):
        sweep = Sweep("noisy", "random_regression", axes, [0, 5], settings=settings, precision=precision)
        loss[precision] = compute(sweep, sweep.block_at(0)).values["loss"]
    assert loss["float32"].dtype == np.float32 and np.isfinite(loss["float32"]).all()


@pytest.mark.processes
def test_the_same_on_one_process_and_two_and_after_a_kill(tmp_path):
    sweep = build({"seed": range(6), "batch": [2, 4]}, at=(0, 20_000, 40_000), label_noise=0.2, weight_noise=0.01)
    sweep = sweep.with_block(2)
    assert run(sweep, tmp_path / "one").complete == sweep.cells
    assert run(sweep, tmp_path / "two", workers=2).complete == sweep.cells
    want = bytes_of(tmp_path / "one")
    assert len(want) >= 2 * sweep.blocks and bytes_of(tmp_path / "two") == want

    code = """
import json, sys
from lazyrich.sweeps import Sweep
from lazyrich.sweeps.run import run
run(Sweep.from_dict(json.loads(sys.argv[1])), sys.argv[2])
"""
    command = [sys.executable, "-c", code, json.dumps(sweep.as_dict()), str(tmp_path / "killed")]
    runner = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(SOURCE)})
    status = tmp_path / "killed" / "data.zarr" / "status"
    while len(list(status.glob("c*"))) < 2 and runner.poll() is None:
        time.sleep(0.005)
    assert runner.poll() is None  # there is something left to kill
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    assert 0 < run(sweep, tmp_path / "killed").computed < sweep.cells
    assert bytes_of(tmp_path / "killed") == want


@pytest.mark.compiles
def test_resumed_and_in_blocks_of_another_shape(tmp_path):
    sweep = build({"seed": range(4), "batch": [2, 4]}, label_noise=0.2)
    whole, parts = sweep.with_block(8), sweep.with_block(2)
    run(whole, tmp_path / "whole")
    run(parts, tmp_path / "parts", shard=(1, 2))
    run(parts, tmp_path / "parts")
    first, second = (open_store(tmp_path / name)["loss"].values for name in ("whole", "parts"))
    np.testing.assert_allclose(second, first, rtol=1e-13)


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"batch": 0}, "batch must be at least 1, and it is 0."),
        ({"label_noise": -1.0}, "label_noise: labels must be at least 0, and it is -1."),
        ({"weight_noise": "much"}, "weight_noise: weights must be a number, and it is 'much'."),
        ({"noise_seed": 0.5}, "noise_seed must be a whole number from 0 to 2⁶³ − 1, and it is 0.5."),
        ({"label_nose": 0.1}, "random_regression takes"),
    ],
)
def test_bad_noise_is_told_before_anything_is_computed(settings, told):
    with pytest.raises(lr.InvalidInput) as error:
        build({"seed": [0]}, **settings)
    assert str(error.value).startswith(told)


def test_noise_belongs_to_descent():
    with pytest.raises(lr.InvalidInput, match="batch needs method = 'descend', and it is 'flow'"):
        Sweep("noisy", "random_regression", {"seed": [0]}, [0, 5], settings={"batch": 3}, method="flow")
    sweep = Sweep("own", of_its_own, {"seed": [0, 1]}, [0, 5], settings={"batch": 8}, method="flow")
    with pytest.raises(lr.InvalidInput, match="noise needs method = 'descend'"):
        run(sweep, "never")


def test_a_batch_larger_than_the_data_fails_its_cell_alone():
    sweep = build({"batch": [3, 10]}, seed=0)
    result = compute(sweep, sweep.block_at(0))
    assert result.status.tolist() == [1, 3]
    (cause,) = result.causes.values()
    assert str(cause).startswith("batch must be at most the number of samples (9), and it is 10")
