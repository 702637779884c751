"""Experiments as grids: presets, what is refused, and the same bytes however often a run is interrupted."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyrich as lr
from lazyrich._check import InvalidInput
from lazyrich.papers import Experiment
from lazyrich.papers import experiment as preset
from lazyrich.papers.experiment import stored
from lazyrich.papers.shelf import SIZES, experiments, kind
from lazyrich.sweeps.run import run
from lazyrich.sweeps.store import open_store

pytestmark = pytest.mark.timeout(240)

#: Three blocks of two small networks that differ in shape from block to block.
TINY = {
    "name": "tiny",
    "experiment": "rhm",
    "at": [0, 1, 3],
    "axes": {"points": [16, 32, 48], "alpha": [0.5, 2.0]},
    "settings": {"seed": 1, "L": 2, "classes": 2, "m": 4, "s": 2, "v": 4}
    | {"width": 8, "hidden": 1, "batch": 16, "test": 8, "epochs": 4},
    "block": {"points": 1},
}


def files(out: Path) -> dict[str, bytes]:
    """All chunks of a store, by name."""
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted((out / "data.zarr").rglob("c.*"))}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny experiment from beginning to end."""
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    summary = run(Experiment.from_dict(TINY), out)
    assert (summary.cells, summary.complete, summary.computed) == (6, 6, 6)
    return out


# what an experiment is --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", experiments())
def test_presets(name: str, size: str) -> None:
    experiment = preset(name, size)
    assert name.endswith(f"/{experiment.experiment}") and experiment.about and experiment.block
    assert len(experiment.axes["alpha"]) >= 2 and experiment.unit == kind(name).unit
    assert set(experiment.observables) == set(kind(name).variables(experiment.cell((0,) * len(experiment.axes))))
    if size == "laptop":
        assert len(experiment.axes["alpha"]) >= 3 and experiment.blocks >= 2  # both cores have something to do


def test_the_published_settings() -> None:
    """As the paper lists them."""
    rhm = preset("rhm", "paper")
    assert rhm.axes["alpha"] == (0.03, 0.1, 0.3, 1.0, 3.0, 10.0) and len(rhm.axes["seed"]) == 6
    cell = rhm.cell((0, 0, 0))
    assert (cell.L, cell.classes, cell.m, cell.s, cell.v) == (3, 8, 4, 2, 8)
    assert (cell.width, cell.hidden, cell.batch, cell.epochs, cell.momentum, cell.test) == (
        64,
        3,
        128,
        250,
        0.9,
        20_000,
    )
    grokking = preset("grokking", "paper")
    assert grokking.axes["alpha"] == (0.1, 0.3, 1.0, 3.0, 10.0) and len(grokking.axes["seed"]) == 5
    assert grokking.axes["tau"] == (0.5, 0.75, 1.0, 1.25, 1.5) and grokking.at[-1] == 30_000
    assert grokking.cell((0, 0, 0)).p == 97
    kernel = preset("lenet", "paper")
    assert len(kernel.axes["seed"]) == 8 and kernel.at[-1] == 500
    cell = kernel.cell((0,) * len(kernel.axes))
    assert (cell.images, cell.rate, cell.batch) == ("mnist", 1e-4, 512)
    filters = preset("filters", "paper")
    assert filters.cell((0,) * len(filters.axes)).images == "cifar10" and filters.at[-1] == 24


def test_defaults_of_a_kind_are_the_published_ones() -> None:
    for name in experiments():
        published = preset(name, "paper")
        fields = {part.name: part.default for part in dataclasses.fields(published.kind.Settings)}
        for setting, value in published.settings.items():
            assert np.array_equal(fields[setting], value), (name, setting)


def test_changed() -> None:
    experiment = Experiment.from_dict(TINY)
    assert experiment.changed() == experiment
    assert experiment.changed(alpha=[1.0]).shape == (3, 1)
    assert experiment.changed(alpha=1.0).axes["alpha"] == (1.0,) and experiment.changed(at=[0, 2]).at == (0, 2)
    more = experiment.changed(seed=[0, 1, 2], width=4)
    assert more.shape == (3, 2, 3) and "seed" not in more.settings and more.settings["width"] == 4
    assert experiment.changed(points=16).shape == (1, 2)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"experiment": "rmh"}, "there is no experiment 'rmh' (did you mean kunin2024/rhm?)"),
        ({"axes": {}}, "axes must name at least one axis"),
        ({"axes": {"seed": range(10_001)}, "settings": {}}, "at most 10,000 networks, and they make 10,001"),
        ({"axes": {"alhpa": [1.0]}}, "not 'alhpa' (did you mean 'alpha'?)"),
        ({"settings": {}}, "rhm needs seed, as an axis or a setting"),
        ({"axes": {"points": [16], "alpha": [1.0, -1.0]}}, "alpha must be"),
        ({"axes": {"points": [16], "alpha": [1e-50]}}, "alpha must be a number that single precision has"),
        ({"settings": TINY["settings"] | {"width": 8.5}}, "width must be a whole number, and it is 8.5."),
        ({"settings": TINY["settings"] | {"width": True}}, "width must be a number or a word, and it is True."),
        ({"axes": {"points": [16, 17]}}, "points must be a multiple of batch"),
        ({"axes": {"alpha": [1.0], "seed": [1]}}, "seed is both an axis and a setting"),
        ({"at": [3, -1]}, "at"),
        ({"block": {"tau": 1}}, "an axis of block must be one of"),
        ({"colour": "red"}, "an entry of the experiment must be one of"),
        ({"name": ""}, "name must be a word for the experiment"),
    ],
)
def test_a_bad_entry_is_one_sentence(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput) as error:
        Experiment.from_dict(TINY | {"block": {}} | changes)
    assert says in str(error.value) and "\n" not in str(error.value)


def test_without_a_block_the_last_axis_trains_together() -> None:
    experiment = Experiment.from_dict(TINY | {"block": {}}).with_blocks()
    assert experiment.block_shape == (1, 2) and experiment.blocks == 3


# runs -------------------------------------------------------------------------------------------------------


@pytest.mark.compiles
def test_a_store_holds_all_that_was_set_and_measured(undisturbed: Path) -> None:
    data = open_store(undisturbed)
    assert dict(data.sizes) == {"points": 3, "alpha": 2, "epoch": 3}
    assert data["epoch"].values.tolist() == [0, 1, 3] and (data["status"] == 1).all()
    assert np.isfinite(data["train_loss"].values).all() and data["train_loss"].dtype == np.float32
    assert '"width": 8' in data.attrs["configuration"] and '"experiment": "rhm"' in data.attrs["configuration"]
    untouched = data["train_loss"].isel(epoch=0).values  # α leaves the function as it is
    np.testing.assert_allclose(untouched[:, 0], untouched[:, 1], rtol=1e-5)


@pytest.mark.compiles
def test_another_experiment_in_the_same_folder_is_refused(undisturbed: Path) -> None:
    with pytest.raises(InvalidInput, match=r"holds another experiment.*\n  settings.width: 8 → 9"):
        run(Experiment.from_dict(TINY).changed(width=9), undisturbed)


@pytest.mark.processes
def test_runs_in_parts_and_in_other_processes_give_the_same_bytes(undisturbed: Path, tmp_path: Path) -> None:
    experiment = Experiment.from_dict(TINY)
    run(experiment, tmp_path / "out", shard=(2, 3))
    assert run(experiment, tmp_path / "out", workers=2).computed == 4
    assert files(tmp_path / "out") == files(undisturbed)


@pytest.mark.processes
def test_a_killed_experiment_resumes_to_the_same_bytes(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = "from lazyrich.papers import Experiment; from lazyrich.sweeps import run; "
    program += f"run(Experiment.from_dict({TINY!r}), {str(out)!r})"
    for blocks in (1, 2):  # killed once this many are there
        process = subprocess.Popen(
            [sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        )
        while len(list((out / "data.zarr" / "status").glob("c.*"))) < blocks:
            assert process.poll() is None
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert files(out).items() <= files(undisturbed).items()
    run(Experiment.from_dict(TINY), out)
    assert files(out) == files(undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("name", experiments())
def test_every_kind_gives_the_same_bytes_in_two_parts(name: str, tmp_path: Path) -> None:
    experiment = preset(name, "quick")
    run(experiment, tmp_path / "whole")
    parts = textwrap.dedent(f"""
        from lazyrich.papers import experiment as preset; from lazyrich.sweeps import run
        run(preset({name!r}, "quick"), {str(tmp_path / "parts")!r}, shard=(1, 2))
    """)
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", parts], env=env, check=True, timeout=200)
    run(experiment, tmp_path / "parts")
    assert files(tmp_path / "parts") == files(tmp_path / "whole")


@pytest.mark.parametrize("before", [None, "--xla_cpu_enable_fast_math=false"])
def test_a_gpu_is_asked_for_the_same_sums_every_time(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []
    experiment = Experiment.from_dict(TINY)
    told = dataclasses.replace(experiment.kind, train=lambda *_: seen.append(os.environ.get("XLA_FLAGS")) or [])
    monkeypatch.setattr(Experiment, "kind", property(lambda self: told))
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    if before is not None:
        monkeypatch.setenv("XLA_FLAGS", before)
    for there in (False, True):
        monkeypatch.setattr(sys.modules["lazyrich.papers.experiment"], "accelerated", lambda there=there: there)
        with pytest.raises(ValueError, match="zip"):  # nothing was trained
            experiment.compute(experiment.block_at(0))
        assert os.environ.get("XLA_FLAGS") == before
    flags = "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"
    assert seen == [before, f"{before} {flags}" if before else flags]


def test_axes_that_change_the_size_of_results_are_refused() -> None:
    with pytest.raises(InvalidInput, match="axes must leave filters the size of the first network, 4 × 3 × 15 × 15,"):
        preset("filters", "quick").changed(kernel=[15, 7])


@pytest.mark.compiles
def test_a_report_says_what_it_averages_and_when_training_has_not_ended(undisturbed: Path, tmp_path: Path) -> None:
    assert "before training ends" not in Experiment.from_dict(TINY).report(open_store(undisturbed)).sentence
    longer = Experiment.from_dict(TINY).changed(epochs=100, points=16, width=[4, 8])
    run(longer, tmp_path / "out")
    sentence = longer.report(open_store(tmp_path / "out")).sentence
    assert sentence.endswith(" Means are over width too. The last record is at epoch 3, before training ends at 80.")


@pytest.mark.compiles
def test_the_experiment_of_a_store(undisturbed: Path, tmp_path: Path) -> None:
    assert stored(undisturbed) == Experiment.from_dict(TINY).in_blocks({"points": 1, "alpha": 2})
    sweep = lr.sweeps.Sweep("mine", "random_regression", axes={"seed": [0]}, at=[0, 2], method="solve")
    run(sweep, tmp_path / "sweep")
    with pytest.raises(InvalidInput, match="must hold an experiment, and it holds the sweep 'mine'"):
        stored(tmp_path / "sweep")


def test_the_public_names(undisturbed: Path) -> None:
    report = Experiment.from_dict(TINY).report(lr.sweeps.open(undisturbed))
    assert [row["alpha"] for row in report.rows] == [0.5, 2.0] and report.sentence.endswith(".")


@pytest.mark.documentation
def test_the_python_of_the_page_runs_and_says_what_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    session: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(block, "experiments.md", "exec"), session)
    assert set(session["data"].dims) == {"seed", "points", "alpha", "epoch"} and session["summary"].complete == 2
    assert session["digits"].train_x.shape == (1500, 8, 8, 1) and session["digits"].train_x.dtype == np.float32
    assert session["model"].total == 131_072 and session["x"].shape == (100, 64)
    (own,) = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "mine.toml").write_text(own)
    assert Experiment.from_toml(tmp_path / "mine.toml").shape == (2, 3, 2)
