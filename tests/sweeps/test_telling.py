"""What a run tells of its blocks, and to whom: a list, Weights & Biases and MLflow where they are installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lazyrich._check import InvalidInput
from lazyrich.sweeps import Finished, Sweep, run
from lazyrich.sweeps.store import open_store


def small(**more: Any) -> Sweep:
    axes = {"seed": range(5), "scale": [0.1, 0.2]}
    settings = {"d_in": 3, "h": 3, "d_out": 3, "samples": 5}
    parts = {"axes": axes, "at": [0, 2], "block": {"seed": 2}, "settings": settings, "method": "solve"}
    return Sweep("small", "random_regression", **parts | more)


def last_loss(block: Finished) -> float:
    return float(block.data.loss.isel(step=-1).mean())


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.processes)])
def test_every_block_is_told_once(workers: int, tmp_path: Path) -> None:
    told: list[Finished] = []
    run(small(), tmp_path / "out", workers=workers, tell=told.append)
    assert [block.computed for block in told][-1] == 10 and len(told) == 3
    whole = open_store(tmp_path / "out").load()
    seeds = np.concatenate([block.data.seed.values for block in told])
    assert sorted(seeds) == [0, 1, 2, 3, 4]
    for block in told:
        assert block.data.identical(whole.sel(seed=block.data.seed, scale=block.data.scale))
        assert np.isfinite(block.data.loss).all()
    run(small(), tmp_path / "out", tell=told.append)
    assert len(told) == 3  # nothing was computed


def test_a_grid_that_has_grown_in_another_order_tells_its_own_cells(tmp_path: Path) -> None:
    told: list[Finished] = []
    run(small(), tmp_path / "out")
    grown = small(axes={"seed": [9, *range(5)], "scale": [0.3, 0.1, 0.2]})
    run(grown, tmp_path / "out", grow=True, tell=told.append)
    whole = open_store(tmp_path / "out").load()
    for block in told:
        assert block.data.identical(whole.sel(seed=block.data.seed, scale=block.data.scale))


def test_what_goes_wrong_there_stops_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def away(block: Finished) -> None:
        raise ConnectionError("the server is away")

    assert run(small(), tmp_path / "out", tell=away).complete == 10
    complaint = "lazyrich: tell has failed, and the sweep goes on: ConnectionError: the server is away.\n"
    assert capsys.readouterr().err == complaint


@pytest.mark.usefixtures("unchecked_shapes")
def test_it_must_be_a_function(tmp_path: Path) -> None:
    wrong: Any = "wandb"
    with pytest.raises(InvalidInput, match=r"^tell must be a function of a finished block, and it is 'wandb'"):
        run(small(), tmp_path / "out", tell=wrong)


def test_weights_and_biases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline: what was logged is in the summary of the run."""
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with wandb.init(project="sweep", dir=tmp_path, mode="offline", config=small().as_dict()) as following:
        run(small(), tmp_path / "out", tell=lambda block: following.log({"loss": last_loss(block)}))
        found = dict(following.summary)
        assert following.step == 3 and following.config["axes"]["scale"] == [0.1, 0.2]
    wandb.teardown()  # its process keeps folders and modes, also for other tests
    assert found["loss"] == pytest.approx(float(open_store(tmp_path / "out").loss.isel(step=-1, seed=4).mean()))


def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into files: a line for each block."""
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run():
        mlflow.log_param("axes", json.dumps(small().as_dict()["axes"]))
        run(
            small(),
            tmp_path / "out",
            tell=lambda block: mlflow.log_metric("loss", last_loss(block), step=block.computed),
        )
    (lines,) = [path.read_text().splitlines() for path in (tmp_path / "runs").rglob("metrics/loss")]
    assert [int(line.split()[2]) for line in lines] == [4, 8, 10]
