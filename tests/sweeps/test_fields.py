"""Sweeps by `lr.fate` and `lr.predict`: what is stored is what they say of each network, one by one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.sweeps import Sweep
from lazyrich.sweeps.fields import FIELDS, REGIMES
from lazyrich.sweeps.run import run
from lazyrich.sweeps.store import open_store

pytestmark = pytest.mark.timeout(120)

X, Y = (np.random.default_rng(3).normal(size=(6, d)) for d in (3, 2))
TASK = lr.Task.from_data(X, Y)
WHITE = lr.Task.from_correlations(np.array([[2.0, 0.0, 0.5], [0.0, 1.0, 0.0]]))


def network(seed: int, kind: str) -> lr.Problem:
    start = lr.inits.zero_balanced(seed, sizes=(3, 4, 2), scale=0.1)
    return lr.Problem(WHITE if kind == "white" else TASK, lr.Network(start.weights, "linear"))


def sweep_by(method: str, **more: object) -> Sweep:
    axes = {"seed": range(5), "kind": ["white"]}
    settings = {"axes": axes, "at": [0], "method": method, "observables": [*FIELDS[method]], "rate": 0.1}
    return Sweep(method, network, **settings | more)  # type: ignore[arg-type]


def test_fates(tmp_path: Path) -> None:
    sweep = sweep_by("fate")
    assert run(sweep, tmp_path / "out").complete == 5
    data = open_store(tmp_path / "out").load()
    assert data.half_times.dims == ("seed", "kind", "mode") and "step" not in data.dims
    for seed in range(5):
        fate, here = lr.fate(network(seed, "white")), data.isel(seed=seed, kind=0)
        np.testing.assert_allclose(here.half_times, fate.half_times, rtol=1e-9)
        np.testing.assert_allclose(here.limit, fate.limit, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(here.loss_limit, fate.loss_limit, rtol=1e-9, atol=1e-12)
        assert REGIMES[int(here.regime)] == str(fate.regime.name)
        assert here.missed == len(fate.missed) and np.array_equal(here.learned, fate.learned)


def test_a_network_without_a_fate_fails_alone(tmp_path: Path) -> None:
    sweep = sweep_by("fate", axes={"seed": [0, 1], "kind": ["white", "samples"]}, observables=["half_times"])
    summary = run(dataclasses.replace(sweep, block={"seed": 2}), tmp_path / "out")
    assert (summary.complete, summary.failed) == (2, 2)
    assert all("whitened inputs" in one["cause"] for one in summary.failures)


@pytest.mark.compiles
def test_predictions(tmp_path: Path) -> None:
    observables = ["loss", "half_times", "exact", "error", "loss_limit", "mode_strengths"]
    sweep = sweep_by("predict", axes={"seed": [0], "kind": ["white", "samples"]}, at=[0, 50], observables=observables)
    summary = run(sweep, tmp_path / "out")
    assert summary.complete == 2
    assert [(one["cell"]["kind"], one["observable"]) for one in summary.failures] == [("samples", "loss_limit")]
    data = open_store(tmp_path / "out").load()
    for i, kind in enumerate(("white", "samples")):
        found, here = lr.predict(network(0, kind), [0.0, 5.0]), data.isel(seed=0, kind=i)
        np.testing.assert_allclose(here.loss, found.trajectory.loss, rtol=1e-12)
        np.testing.assert_allclose(here.half_times, found.half_times, rtol=1e-12)
        assert (bool(here.exact), float(here.error)) == (found.exact, found.error)
    assert data.exact.values.tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"observables": ["loss"]}, "observables must be one of 'half_times'"),
        ({"precision": "float32"}, "precision must be 'float64' where method is 'fate', and it is 'float32'"),
    ],
)
def test_what_a_fate_has_not(changes: dict[str, object], says: str) -> None:
    with pytest.raises(lr.InvalidInput, match=says):
        sweep_by("fate", **changes)


# phase diagrams -----------------------------------------------------------------------------------------------------


def test_a_map_shows_the_last_step_and_the_mean(tmp_path: Path) -> None:
    axes = {"seed": [0, 1], "scale": [0.01, 0.1, 1.0], "lam": [0.5, -0.5]}
    sweep = Sweep("map", "hierarchy", axes=axes, settings={"h": 8}, at=[0, 20], rate=0.1, method="solve")
    run(sweep, tmp_path / "out")
    data = open_store(tmp_path / "out")
    panel = lr.plot.map(data.loss, "scale", "lam").axes[0]
    (mesh,) = panel.collections
    expected = data.loss.isel(step=-1).mean("seed").transpose("lam", "scale").values[::-1]
    np.testing.assert_allclose(np.asarray(mesh.get_array()).reshape(2, 3), expected, rtol=1e-12)
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "linear")
    assert panel.get_title(loc="left") == "loss at step 20, mean over seed"
    assert panel.get_xlim() == pytest.approx((0.01 / 10**0.5, 10**0.5))


def test_a_map_of_a_table_has_points(tmp_path: Path) -> None:
    table = lr.sweeps.sobol(4, scale=(0.01, 0.1), lam=(-0.5, 0.5))
    sweep = Sweep("map", "hierarchy", axes={"seed": [0]}, table=table, settings={"h": 8}, at=[0], method="solve")
    run(sweep, tmp_path / "out")
    data = open_store(tmp_path / "out")
    (points,) = lr.plot.map(data.loss, "scale", "lam").axes[0].collections
    np.testing.assert_allclose(points.get_offsets(), np.transpose([table["scale"], table["lam"]]))
    for wrong in (("scale", "row"), ("scale", "scale")):
        with pytest.raises(lr.InvalidInput, match="x and y must be two axes, or two columns of a table"):
            lr.plot.map(data.loss, *wrong)
    with pytest.raises(lr.InvalidInput, match="x must be one of"):
        lr.plot.map(data.loss, "tau", "lam")
    with pytest.raises(lr.InvalidInput, match=r"data must be an array of a sweep, such as lr\.sweeps\.open"):
        lr.plot.map(np.ones(3), "scale", "lam")


# designs ------------------------------------------------------------------------------------------------------------


def test_larger_designs_begin_with_the_rows_of_smaller_ones() -> None:
    for design in (lr.sweeps.uniform, lr.sweeps.sobol):
        few, many = (design(rows, 3, a=(0.1, 10.0, "log"), b=(-1.0, 1.0)) for rows in (8, 20))
        assert {name: column[:8] for name, column in many.items()} == few
        assert all(0.1 <= a <= 10 for a in many["a"]) and all(-1 <= b <= 1 for b in many["b"])
        assert design(8, 4, a=(0.0, 1.0)) != design(8, 5, a=(0.0, 1.0))
    columns = np.transpose(list(lr.sweeps.sobol(64, a=(0, 1), b=(0, 1)).values()))
    counts, *_ = np.histogram2d(*columns.T, bins=8, range=[[0, 1], [0, 1]])
    assert (counts == 1).all()  # a net: one point in each of 8 × 8 squares


@pytest.mark.parametrize(
    ("ranges", "says"),
    [
        ({}, "a design needs ranges by name"),
        ({"a": (1.0,)}, "a must be"),
        ({"a": (0.0, 1.0, "log")}, "a must go from the least to the largest, above 0 and growing"),
        ({"a": (2.0, 1.0)}, "a must go from the least to the largest, growing"),
        ({"a": (0.0, 1.0, "exp")}, "a must be"),
    ],
)
def test_ranges_that_cannot_be(ranges: dict[str, object], says: str) -> None:
    with pytest.raises(lr.InvalidInput, match=says):
        lr.sweeps.uniform(4, **ranges)  # type: ignore[arg-type]


def test_tables() -> None:
    pandas = pytest.importorskip("pandas")
    table = {"scale": [0.1, 0.1, 0.3], "activation": ["linear", "relu", "relu"]}
    plain = Sweep("x", "random_regression", axes={"seed": [0, 1]}, table=table, at=[0])
    framed = Sweep("x", "random_regression", axes={"seed": [0, 1]}, table=pandas.DataFrame(table), at=[0])
    assert plain == framed == Sweep.from_dict(plain.as_dict()) and plain.shape == (2, 3)
    assert plain.arguments((1, 2)) == {"seed": 1, "scale": 0.3, "activation": "relu"}
    alone = Sweep("x", "random_regression", axes={}, table={"seed": [3, 4]}, at=[0])
    assert alone.arguments((1,)) == {"seed": 4}


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"scale": [1.0], "lam": [0.0, 1.0]}, "table must have columns of one length, and they have: scale 1, lam 2"),
        ({"seed": [1, 2]}, "seed is both an axis and a column of the table, and it can be one only"),
        ({"scale": [1.0, "big"]}, "axis scale of the table must hold finite numbers, or words"),
        ({"scael": [1.0]}, "and not 'scael' .did you mean 'scale'"),
    ],
)
def test_tables_that_cannot_be(table: dict[str, list[object]], says: str) -> None:
    with pytest.raises(lr.InvalidInput, match=says):
        Sweep("x", "random_regression", axes={"seed": [0, 1]}, table=table, at=[0])  # type: ignore[arg-type]
