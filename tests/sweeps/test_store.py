"""The store: what is read is what was written, to the bit; many may create it at once; nothing else is touched."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyrich as lr
from lazyrich._check import InvalidInput
from lazyrich.sweeps import Sweep
from lazyrich.sweeps.grid import STATUS, Cause, Result, Variable
from lazyrich.sweeps.store import Store, failures, open_store, summary, verify

SWEEP = Sweep(
    "small",
    "random_regression",
    axes={"seed": [0, 1, 2, 3, 4], "scale": [0.1, 0.5, 2.5]},
    at=[0, 2, 5],
    settings={"d_in": 3, "h": 3, "d_out": 3},
    block={"seed": 2, "scale": 2},
)
ROOT = Path(__file__).parents[2]


def outcome(sweep: Sweep, number: int, shape: tuple[int, ...] = ()) -> Result:
    """Numbers of one block, the same every time, with all that is hard to keep: nan, infinities, −0, small numbers."""
    block, rng = sweep.block_at(number), np.random.default_rng(number)
    cells = tuple(s.stop - s.start for s in block.region)
    values = rng.normal(size=(*cells, len(sweep.at), *shape)).astype(sweep.precision)
    hard = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324], sweep.precision)
    values.flat[:: values.size // 5 + 1] = hard[: len(values.flat[:: values.size // 5 + 1])]
    status = rng.integers(1, len(STATUS), cells).astype(np.int8)
    places = list(sweep.places(block))
    causes = {
        place: Cause("kind", f"cause of {place}") for place, code in zip(places, status.flat, strict=True) if code > 1
    }
    return Result({name: values * (i + 1) for i, name in enumerate(sweep.observables)}, status, causes)


def filled(out: Path, sweep: Sweep, shape: tuple[int, ...] = ()) -> Store:
    made = Store.open_or_create(out, sweep)
    for number in range(made.grid.blocks):
        made.write(made.grid.block_at(number), outcome(made.grid, number, shape), 0.5)
    return made


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def python(script: str, *arguments: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


# what is written is what is read -----------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("block", [{}, {"seed": 1}, {"seed": 2, "scale": 2}, {"seed": 3, "scale": 1}])
def test_what_is_read_is_what_was_written_to_the_bit(tmp_path, precision, block):
    sweep = dataclasses.replace(SWEEP, precision=precision, block=block, observables=["loss", "parameter_distance"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = filled(tmp_path / "out", sweep)
        data = open_store(tmp_path / "out")
    assert data.loss.dtype == data.parameter_distance.dtype == precision
    assert data.status.dtype == np.int8
    for number in range(made.grid.blocks):
        region, expected = made.grid.block_at(number).region, outcome(made.grid, number)
        for name, values in expected.values.items():
            assert data[name].values[region].tobytes() == values.tobytes()
        assert np.array_equal(data.status.values[region], expected.status)
        assert not made.pending(made.grid.block_at(number))
    assert made.done().tolist() == [True] * made.grid.blocks


def test_an_observable_has_axes_of_its_own(tmp_path, monkeypatch):
    variable = Variable(("layer", "mode"), (2, 3), "strength of a mode", "rad")
    monkeypatch.setattr(Sweep, "variables", lambda sweep: {"loss": variable})
    filled(tmp_path / "out", SWEEP, (2, 3))
    data = open_store(tmp_path / "out")
    assert data.loss.dims == ("seed", "scale", "step", "layer", "mode")
    assert data.loss.attrs == {"long_name": "strength of a mode", "units": "rad"}
    for number in range(SWEEP.blocks):
        expected = outcome(SWEEP, number, (2, 3)).values["loss"]
        assert data.loss.values[SWEEP.block_at(number).region].tobytes() == expected.tobytes()


def test_labels_and_attributes(tmp_path):
    filled(tmp_path / "out", SWEEP)
    data = open_store(tmp_path / "out")
    assert data.loss.dims == ("seed", "scale", "step") and data.status.dims == ("seed", "scale")
    assert data.seed.values.tolist() == [0, 1, 2, 3, 4] and data.seed.dtype == np.int64
    assert data.scale.values.tolist() == [0.1, 0.5, 2.5] and data.step.values.tolist() == [0, 2, 5]
    assert {"long_name", "units"} <= set(data.loss.attrs)
    assert data.status.attrs["flag_values"] == [0, 1, 2, 3]
    assert data.status.attrs["flag_meanings"] == "pending complete stopped failed"
    assert all(isinstance(value, str) for value in data.attrs.values()), "NetCDF knows no tables"
    assert Sweep.from_dict(json.loads(data.attrs["configuration"])).settings == SWEEP.settings
    versions = json.loads(data.attrs["versions"])
    assert versions["numpy"] == np.__version__ and {"python", "platform", "zarr", "jax"} <= set(versions)
    assert data.attrs["created"][:2] == "20"
    written = json.loads((tmp_path / "out" / "sweep.json").read_text())
    assert written["configuration"] == json.loads(data.attrs["configuration"])


def test_it_is_lazy_and_readable_before_anything_is_there(tmp_path):
    made = Store.open_or_create(tmp_path / "out", SWEEP)
    data = open_store(tmp_path / "out")
    made.write(SWEEP.block_at(1), outcome(SWEEP, 1), 0.5)  # after the opening, before the reading
    there = np.zeros(SWEEP.shape, bool)
    there[SWEEP.block_at(1).region] = True
    assert np.array_equal(data.status.values != 0, there)
    assert np.isnan(data.loss.values[~there]).all() and not np.isnan(data.loss.values[there]).all()
    assert made.done().tolist() == [False, True, False, False, False, False]
    assert len(made.pending(SWEEP.block_at(0))) == 4 and not made.pending(SWEEP.block_at(1))
    assert summary(tmp_path / "out")["pending"] == SWEEP.cells - there.sum()


def test_words_are_values_of_an_axis(tmp_path):
    axes = {"activation": ["linear", "relu", "Größe"], "seed": [0, 1]}
    sweep = dataclasses.replace(SWEEP, axes=axes, block={"activation": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = filled(tmp_path / "out", sweep)
        data = open_store(tmp_path / "out")
        assert data.activation.values.tolist() == axes["activation"] and data.activation.dtype.kind == "U"
        chosen = data.loss.sel(activation="relu", seed=1).values
    assert chosen.tobytes() == outcome(sweep, 1).values["loss"][0, 1].tobytes()
    assert {entry["cell"]["activation"] for entry in failures(made.out)} <= set(axes["activation"])


def test_whole_numbers_of_any_size_are_values_of_an_axis(tmp_path):
    sweep = dataclasses.replace(SWEEP, axes={"seed": [1, 2**63, 2**70]}, block={})
    filled(tmp_path / "out", sweep)
    assert [int(value) for value in open_store(tmp_path / "out").seed] == [1, 2**63, 2**70]


def test_written_twice_are_the_same_bytes(tmp_path):
    sweep = dataclasses.replace(SWEEP, observables=["loss", "parameter_distance"])
    filled(tmp_path / "out", sweep)
    before = files_of(tmp_path / "out" / "data.zarr")
    assert len(before) == 1 + 2 * 3 + 3 * (1 + sweep.blocks)  # one chunk for each block, and no other file
    made = filled(tmp_path / "out", sweep)
    assert files_of(made.out / "data.zarr") == before
    assert list((made.out / "partial").iterdir()) == []
    assert [line.split("\t")[:2] for line in (made.out / "log.tsv").read_text().splitlines()] == 2 * [
        [str(number), "0.5"] for number in range(sweep.blocks)
    ]


def test_a_block_without_a_single_number_is_kept_like_others(tmp_path):
    made, block = Store.open_or_create(tmp_path / "out", SWEEP), SWEEP.block_at(0)
    failed = Result(
        {"loss": np.full((2, 2, 3), np.nan)}, np.full((2, 2), 3, np.int8), {(0, 0): Cause("kind", "no network")}
    )
    made.write(block, outcome(SWEEP, 0), 0.5)
    made.write(block, failed, 0.5)
    assert not made.pending(block) and made.done()[0]
    assert np.isnan(open_store(made.out).loss.values).all()


def test_failures_and_their_causes(tmp_path):
    made = filled(tmp_path / "out", SWEEP)
    expected = [outcome(SWEEP, number) for number in range(SWEEP.blocks)]
    found = failures(tmp_path / "out")
    causes = {place: cause for result in expected for place, cause in result.causes.items()}
    assert len(found) == len(causes) > 0
    data = open_store(tmp_path / "out")
    for entry in found:
        place = tuple(SWEEP.axes[axis].index(value) for axis, value in entry["cell"].items())
        assert Cause(entry["kind"], entry["cause"]) == causes[place]
        assert entry["status"] == STATUS[int(data.status[place])]
    codes = np.concatenate([result.status.ravel() for result in expected])
    assert summary(tmp_path / "out") == {name: int(np.sum(codes == code)) for code, name in enumerate(STATUS)}

    good = outcome(SWEEP, 0)
    made.write(SWEEP.block_at(0), Result(good.values, np.ones_like(good.status), {}), 0.5)
    assert len(failures(tmp_path / "out")) == len(causes) - len(good.causes)


# growing ------------------------------------------------------------------------------------------------------

LARGER = dataclasses.replace(SWEEP, axes={"seed": [4, 3, 2, 1, 0, 9], "scale": [0.1, 0.3, 0.5, 2.5]})


def test_only_new_cells_are_pending_and_the_old_stay(tmp_path):
    made = filled(tmp_path / "out", SWEEP)
    before = open_store(made.out).load()
    with pytest.raises(
        InvalidInput, match=r"grow=True \(--grow\) computes what is new\. Stored → asked:\n  axes\.seed"
    ):
        Store.open_or_create(made.out, LARGER)
    grown = Store.open_or_create(made.out, LARGER, grow=True)
    assert grown.grid.axes == {"seed": (0, 1, 2, 3, 4, 9), "scale": (0.1, 0.5, 2.5, 0.3)}
    assert int(grown.left().sum()) == LARGER.cells - SWEEP.cells
    new = {place for number in range(grown.grid.blocks) for place in grown.pending(grown.grid.block_at(number))}
    assert new == {(i, j) for i in range(6) for j in range(4) if i == 5 or j == 3}
    data = open_store(made.out)
    assert data.seed.values.tolist() == [4, 3, 2, 1, 0, 9] and data.scale.values.tolist() == [0.1, 0.3, 0.5, 2.5]
    old = data.sel(seed=before.seed, scale=before.scale).load()
    assert old.equals(before) and (data.status == 0).sum() == 9
    assert summary(made.out)["pending"] == 9 and len(failures(made.out)) > 0
    again = Store.open_or_create(made.out, LARGER)
    assert again.grid == grown.grid and np.array_equal(again.left(), grown.left())


def test_cells_are_added_to_the_chunks_of_old_ones(tmp_path):
    filled(tmp_path / "out", SWEEP)
    before = open_store(tmp_path / "out").load()
    grown = Store.open_or_create(tmp_path / "out", LARGER, grow=True)
    for number in range(grown.grid.blocks):
        block = grown.grid.block_at(number)
        if cells := grown.pending(block):
            values = {"loss": np.full((*block.shape, 3), 10.0 + number)}
            status = np.zeros(block.shape, np.int8)
            for place in cells:
                status[block.within(place)] = 1
            grown.write(block._replace(cells=cells), Result(values, status, {}), 0.5)
    assert grown.done().all()
    data = open_store(tmp_path / "out").load()
    old = data.sel(seed=before.seed, scale=before.scale)
    assert old.equals(before)
    assert (data.loss.sel(seed=9) >= 10).all() and (data.loss.sel(scale=0.3) >= 10).all()


def test_a_folder_at_work_does_not_grow(tmp_path):
    from lazyrich.sweeps.claims import claimed

    made = filled(tmp_path / "out", SWEEP)
    with (
        claimed(made.out, "0.0"),
        pytest.raises(InvalidInput, match="can grow when nobody computes in it, and 1 blocks"),
    ):
        Store.open_or_create(made.out, LARGER, grow=True)
    Store.open_or_create(made.out, LARGER, grow=True)
    with pytest.raises(InvalidInput, match="has grown since this run began"):
        made.left()


def test_rows_are_added_to_a_table(tmp_path):
    few, many = lr.sweeps.sobol(8, scale=(0.1, 1.0)), lr.sweeps.sobol(12, scale=(0.1, 1.0))
    sweep = dataclasses.replace(SWEEP, axes={"seed": [0, 1]}, table=few, block={"row": 3})
    filled(tmp_path / "out", sweep)
    data = open_store(tmp_path / "out")
    assert data.loss.dims == ("seed", "row", "step") and data.scale.dims == ("row",)
    assert data.scale.values.tolist() == few["scale"]
    assert {"seed", "row", "scale"} == set(failures(tmp_path / "out")[0]["cell"])
    larger = dataclasses.replace(sweep, table=many, axes={"seed": [0, 1]})
    assert int(Store.open_or_create(tmp_path / "out", larger, grow=True).left().sum()) == 8
    assert open_store(tmp_path / "out").scale.values.tolist() == many["scale"]
    other = dataclasses.replace(sweep, table={"scale": few["scale"][::-1]}, axes={"seed": [0, 1]})
    with pytest.raises(InvalidInput, match=r"try another folder\. Stored → asked:"):
        Store.open_or_create(tmp_path / "out", other, grow=True)


# what else a folder may hold ---------------------------------------------------------------------------------


def test_the_same_command_goes_on_with_the_blocks_of_the_store(tmp_path):
    filled(tmp_path / "out", SWEEP)
    before = files_of(tmp_path)
    again = Store.open_or_create(tmp_path / "out", dataclasses.replace(SWEEP, block={}, name="other", about="words"))
    assert again.grid.block == {"seed": 2, "scale": 2} and again.done().all()
    assert Store.open_or_create(str(tmp_path / "out"), SWEEP).grid == SWEEP
    assert files_of(tmp_path) == before


def test_a_sweep_without_blocks_gets_some(tmp_path):
    made = Store.open_or_create(tmp_path / "out", dataclasses.replace(SWEEP, block={}))
    assert made.grid.block == {"seed": 1, "scale": 1} and made.grid.blocks == SWEEP.cells


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        ({"rate": 0.5}, ["rate: 0.01 → 0.5"]),
        ({"at": [0, 2, 6]}, ["at: 0, 2, 5 → 0, 2, 6"]),
        ({"precision": "float32"}, ["precision: float64 → float32"]),
        ({"observables": ["loss", "kernel_distance"]}, ["observables: loss → loss, kernel_distance"]),
        ({"block": {"seed": 1, "scale": 2}}, ["block.seed: 2 → 1"]),
        ({"settings": {"d_in": 4, "h": 3, "samples": 9}}, [
            "settings.d_in: 3 → 4", "settings.d_out: 3 → nothing", "settings.samples: nothing → 9",
        ]),
        ({"axes": {"seed": [-1, *range(1, 40)], "scale": [0.1, 0.5, 2.5]}}, [
            "axes.seed: 0, 1, 2, 3, 4 → -1, 1, 2, …, 39 (40 values)",
        ]),
        ({"axes": {"scale": [0.1, 0.5, 2.5], "seed": [0, 1, 2, 3, 4]}}, ["order of axes: seed, scale → scale, seed"]),
    ],
)  # fmt: skip
def test_another_configuration_is_refused_entry_by_entry(tmp_path, change, lines):
    filled(tmp_path / "out", SWEEP)
    before = files_of(tmp_path)
    with pytest.raises(InvalidInput) as caught:
        Store.open_or_create(tmp_path / "out", dataclasses.replace(SWEEP, **change))
    first, *rest = str(caught.value).splitlines()
    assert first == f"{tmp_path / 'out'} holds another sweep: try another folder. Stored → asked:"
    assert [line.strip() for line in rest] == lines
    assert files_of(tmp_path) == before


def test_long_axes_show_where_they_differ(tmp_path):
    long = dataclasses.replace(SWEEP, axes={"seed": list(range(30))}, block={})
    Store.open_or_create(tmp_path / "out", long)
    other = dataclasses.replace(long, axes={"seed": [*range(12), 99, *range(13, 30)]})
    with pytest.raises(InvalidInput, match=r"…, 29 \(30 values\), first in entry 12: 12 → 99$"):
        Store.open_or_create(tmp_path / "out", other)


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(
        InvalidInput, match=r"must be a new or empty folder, or hold a sweep, and it holds thesis\.tex\.$"
    ):
        Store.open_or_create(tmp_path, SWEEP)
    with pytest.raises(InvalidInput, match=r"thesis\.tex is a file, and a folder would be made there\.$"):
        Store.open_or_create(tmp_path / "thesis.tex", SWEEP)
    with pytest.raises(InvalidInput, match=r"cannot be used: Not a directory\.$"):
        Store.open_or_create(tmp_path / "thesis.tex" / "out", SWEEP)
    assert files_of(tmp_path) == {"thesis.tex": b"years of work"} and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("content", ['{"zarr_format": 3, "node_type": "group", "attributes": {}}', "[]", "{}"])
def test_the_zarr_store_of_another_program_is_left_alone(tmp_path, content):
    (tmp_path / "data.zarr").mkdir()
    (tmp_path / "data.zarr" / "zarr.json").write_text(content)
    for attempt in (lambda: Store.open_or_create(tmp_path, SWEEP), lambda: open_store(tmp_path)):
        with pytest.raises(InvalidInput, match=r"must hold a sweep, and its data\.zarr is something else\.$"):
            attempt()
    assert files_of(tmp_path) == {"data.zarr/zarr.json": content.encode()}


@pytest.mark.parametrize("read", [open_store, failures, summary])
def test_reading_where_there_is_no_sweep(tmp_path, read):
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(InvalidInput, match=r"holds no sweep"):
            read(folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "change",
    [{"axes": {"step": [1, 2]}}, {"axes": {"loss": [1, 2]}}, {"axes": {"../x": [1, 2]}}, {"axes": {"mode": [1, 2]}}],
)
def test_an_axis_with_the_name_of_a_result_is_refused(tmp_path, monkeypatch, change):
    monkeypatch.setattr(Sweep, "variables", lambda sweep: {"loss": Variable(("mode",), (2,), "", "1")})
    sweep = Sweep("x", lambda **anything: None, at=[0], block=dict.fromkeys(change["axes"], 1), **change)
    with pytest.raises(InvalidInput, match=r"an axis must have a name of its own among the results, and '.*' can"):
        Store.open_or_create(tmp_path / "out", sweep)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [float("nan"), object(), np.ones(2)])
def test_settings_that_cannot_be_stored_are_refused(tmp_path, value):
    sweep = Sweep("x", lambda seed, given: None, axes={"seed": [0]}, at=[0], settings={"given": value})
    with pytest.raises(InvalidInput, match="settings must hold finite numbers, words, lists or tables, and it is"):
        Store.open_or_create(tmp_path / "out", sweep)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["zarr", "xarray"])
def test_a_missing_package_is_named(tmp_path, monkeypatch, package):
    filled(tmp_path / "out", SWEEP)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"needs {package}: pip install 'lazyrich\[sweeps\]'\.$"):
        if package == "zarr":
            Store.open_or_create(tmp_path / "new", SWEEP)
        else:
            open_store(tmp_path / "out")
    assert not (tmp_path / "new").exists()


# damage ------------------------------------------------------------------------------------------------------


def test_a_torn_value_is_written_anew_and_never_read_as_a_number(tmp_path):
    made = filled(tmp_path / "out", SWEEP)
    chunk = made.out / "data.zarr" / "loss" / "c.2.1.0"  # ragged: Zarr alone would read it first, to write it
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:-5] + b"12345")
    with pytest.raises(InvalidInput, match=rf"{chunk} is not what was written"):
        _ = open_store(made.out).loss.values
    made.write(SWEEP.block_at(5), outcome(SWEEP, 5), 0.5)
    assert chunk.read_bytes() == whole


def test_what_is_read_is_what_was_written_also_by_any_other_reader(tmp_path):
    """Consolidated metadata: one file says it all."""
    import xarray

    filled(tmp_path / "out", SWEEP)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = xarray.open_zarr(tmp_path / "out" / "data.zarr", consolidated=True, decode_cf=False)
    ours = open_store(tmp_path / "out")
    assert other.drop_attrs().identical(ours.drop_attrs())


def test_arrays_of_dask(tmp_path):
    filled(tmp_path / "out", SWEEP)
    data = open_store(tmp_path / "out", chunks={})
    assert data.loss.chunks == ((2, 2, 1), (2, 1), (3,))
    assert data.load().equals(open_store(tmp_path / "out").load())


def test_a_folder_of_before_is_refused_in_one_sentence(tmp_path):
    filled(tmp_path / "out", SWEEP)
    path = tmp_path / "out" / "data.zarr" / "zarr.json"
    content = json.loads(path.read_text())
    del content["attributes"]["format"]
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match=r"was made by another version of lazyrich, .*xarray\.open_zarr reads its"):
        open_store(tmp_path / "out")


@pytest.mark.parametrize("content", [None, b"", b'{"configuration": {"na'])
def test_sweep_json_is_restored(tmp_path, content):
    filled(tmp_path / "out", SWEEP)
    path = tmp_path / "out" / "sweep.json"
    whole = path.read_bytes()
    path.unlink() if content is None else path.write_bytes(content)
    assert Store.open_or_create(tmp_path / "out", SWEEP).done().all()
    assert path.read_bytes() == whole


@pytest.mark.parametrize("name", ["zarr.json", "status/zarr.json", "loss/zarr.json"])
def test_torn_metadata_is_one_sentence(tmp_path, name):
    made = filled(tmp_path / "out", SWEEP)
    before, path = open_store(made.out).load(), made.out / "data.zarr" / name
    path.write_bytes(b'{"zarr_fo')
    if name != "zarr.json":  # the file of the group has it too
        assert open_store(made.out).identical(before)
    else:
        with pytest.raises(InvalidInput, match=r"data\.zarr.* cannot be read: .*\.$"):
            open_store(made.out)
    assert Store.open_or_create(made.out, SWEEP).done().all() and len(path.read_bytes()) > 100
    assert open_store(made.out).identical(before) and verify(made.out) == []


@pytest.mark.parametrize("name", ["zarr.json", "status/zarr.json", "loss/zarr.json", "seed/c/0", "seed", "step/c/0"])
def test_a_file_of_the_store_that_is_lost_is_made_anew(tmp_path, name):
    made = filled(tmp_path / "out", SWEEP)
    before, path = open_store(made.out).load(), made.out / "data.zarr" / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    if name == "zarr.json":
        with pytest.raises(InvalidInput, match=r"zarr\.json is missing: the command that made .* makes it anew\.$"):
            open_store(made.out)
    else:
        found = [(damage.path.name, damage.fault[:2]) for damage in verify(made.out)]
        assert found == [(name.partition("/")[0], "is")]
        assert open_store(made.out).identical(before)
    assert Store.open_or_create(made.out, SWEEP).done().all()
    assert open_store(made.out).identical(before) and verify(made.out) == []


def test_an_axis_with_other_values_is_damage(tmp_path):
    made = filled(tmp_path / "out", SWEEP)
    before, folder = open_store(made.out).load(), made.out / "data.zarr"
    import zarr

    zarr.open_array(folder / "seed", mode="r+")[0] = 77
    (damage,) = verify(made.out)
    assert str(damage) == f"{folder / 'seed'} is not what was written"
    assert open_store(made.out).identical(before)
    Store.open_or_create(made.out, SWEEP)
    assert verify(made.out) == []


def test_a_record_with_another_digit_is_damage(tmp_path):
    made = filled(tmp_path / "out", SWEEP)
    path = next((made.out / "blocks").iterdir())
    path.write_text(re.sub(r'("status": ")1', r"\g<1>3", path.read_text()))
    assert [damage.path for damage in verify(made.out)] == [path]
    assert made.left().sum() > 0


def test_a_full_disk_is_one_sentence_and_no_harm(tmp_path, monkeypatch):
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(InvalidInput, match=r"cannot be used: No space left on device\.$"):
            Store.open_or_create(tmp_path / "out", SWEEP)
    made = Store.open_or_create(tmp_path / "out", SWEEP)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(InvalidInput, match=r"cannot be written: No space left on device\.$"):
            made.write(SWEEP.block_at(0), outcome(SWEEP, 0), 0.5)
    assert not made.done().any() and list((made.out / "partial").iterdir()) == []
    assert filled(tmp_path / "out", SWEEP).done().all()


def test_a_folder_that_has_gone_does_not_come_back(tmp_path):
    made = Store.open_or_create(tmp_path / "out", SWEEP)
    os.rename(tmp_path / "out", tmp_path / "elsewhere")
    with pytest.raises(InvalidInput, match=r"No such file or directory\.$"):
        made.write(SWEEP.block_at(0), outcome(SWEEP, 0), 0.5)
    with pytest.raises(InvalidInput, match=r"out holds no sweep"):
        made.done()
    assert not (tmp_path / "out").exists()


def test_what_dead_writers_left_is_removed_when_it_is_old(tmp_path):
    made = filled(tmp_path / "out", SWEEP)
    partial = made.out / "partial"
    (partial / "young").write_bytes(b"half a chu")
    (partial / "old").write_bytes(b"half a chu")
    (partial / "old-data.zarr" / "loss").mkdir(parents=True)
    (partial / "old-data.zarr" / "loss" / "zarr.json").write_bytes(b"{")
    for path in (partial / "old", partial / "old-data.zarr"):
        os.utime(path, (time.time() - 7200,) * 2)
    assert Store.open_or_create(made.out, SWEEP).done().all()
    assert [path.name for path in partial.iterdir()] == ["young"]


def test_each_file_is_on_the_disk_before_it_counts(tmp_path, monkeypatch):
    """What a power cut needs: contents before names, and all of a block before its status."""
    sweep = dataclasses.replace(SWEEP, observables=["loss", "parameter_distance"])
    made = Store.open_or_create(tmp_path / "out", sweep)
    fsync, replace, events = os.fsync, os.replace, []

    def recorded_fsync(handle: int) -> None:
        fsync(handle)
        events.append(("sync", os.fstat(handle).st_ino))

    def recorded_replace(source: Path, target: Path) -> None:
        inode = os.stat(source).st_ino
        replace(source, target)
        if "partial" not in str(target.parent):
            assert ("sync", inode) in events
            events.append(("name", os.path.relpath(target, made.out)))

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    made.write(sweep.block_at(0), outcome(sweep, 0), 0.5)

    folders = {os.stat(path).st_ino: path.name for path in [*(made.out / "data.zarr").iterdir(), made.out / "blocks"]}
    story = [folders.get(what, what) for _, what in events if what in folders or isinstance(what, str)]
    assert story == [
        "data.zarr/loss/c.0.0.0", "loss",
        "data.zarr/parameter_distance/c.0.0.0", "parameter_distance",
        "data.zarr/status/c.0.0", "status",
        "blocks/0.0.json", "blocks",
    ]  # fmt: skip


# several processes -------------------------------------------------------------------------------------------

CREATORS = """
import os, sys, time
from pathlib import Path
import zarr.codecs
from lazyrich.sweeps import folder, store
from sweeps.test_store import SWEEP

out, race = Path(sys.argv[1]), Path(sys.argv[2])

end = time.monotonic() + 60

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # one call: lines of several processes stay whole

def create(name):
    rename = folder.os.rename
    def together(*paths):  # all have built theirs before the first one takes the name
        (race / name).touch()
        while len(list(race.iterdir())) < 8 and time.monotonic() < end:
            time.sleep(0.01)
        try:
            rename(*paths)
            say("won")
        except OSError:
            say("lost")
            raise
    folder.os.rename = together
    made = store.Store.open_or_create(out, SWEEP)
    say("opened", folder.record_of(out)["created"], len(made.done()))

children = []
for name in "abcdefgh":
    child = os.fork()
    if not child:
        create(name)
        os._exit(0)
    children.append(child)
say("codes", sum(os.waitpid(child, 0)[1] != 0 for child in children))
"""


@pytest.mark.timeout(120)
def test_eight_processes_create_one_store(tmp_path):
    (tmp_path / "race").mkdir()
    process = python(CREATORS, tmp_path / "out", tmp_path / "race")
    lines, errors = process.communicate(timeout=100)
    lines = lines.splitlines()
    assert process.returncode == 0 and errors == ""
    assert lines.count("won") == 1 and lines.count("lost") == 7 and lines.count("codes 0") == 1
    opened = [line for line in lines if line.startswith("opened")]
    assert len(opened) == 8 and len(set(opened)) == 1
    assert list((tmp_path / "out" / "partial").iterdir()) == []
    assert filled(tmp_path / "out", SWEEP).done().all()


WRITER = """
import sys
from lazyrich.sweeps.store import Store
from sweeps.test_store import SWEEP, outcome

made = Store.open_or_create(sys.argv[1], SWEEP)
for turn in range(20):
    for number in range(SWEEP.blocks):
        made.write(SWEEP.block_at(number), outcome(SWEEP, number), 0.5)
"""


@pytest.mark.processes
@pytest.mark.timeout(120)
def test_reading_while_another_process_writes(tmp_path):
    Store.open_or_create(tmp_path / "out", SWEEP)
    expected = np.empty((*SWEEP.shape, 3))
    for number in range(SWEEP.blocks):
        expected[SWEEP.block_at(number).region] = outcome(SWEEP, number).values["loss"]
    process, seen = python(WRITER, tmp_path / "out"), set()
    while process.poll() is None:
        data = open_store(tmp_path / "out")
        there = data.status.values != 0  # before the values: what is done by now is there
        values = data.loss.values
        assert values[there].tobytes() == expected[there].tobytes()
        for number in range(SWEEP.blocks):
            block = values[SWEEP.block_at(number).region]
            assert np.isnan(block).all() or block.tobytes() == expected[SWEEP.block_at(number).region].tobytes()
        seen.add(int(there.sum()))
    assert process.returncode == 0, process.stderr.read()
    assert {0, SWEEP.cells} <= seen


def test_a_folder_that_does_not_say_what_its_steps_are(tmp_path):
    """The first ones did not."""
    made = filled(tmp_path / "out", SWEEP)
    before, path = open_store(made.out).load(), made.out / "data.zarr" / "zarr.json"
    content = json.loads(path.read_bytes())
    assert content["attributes"].pop("unit") == "step"
    path.write_text(json.dumps(content))
    assert open_store(made.out).drop_attrs().identical(before.drop_attrs())
    assert Store.open_or_create(made.out, SWEEP).done().all()
