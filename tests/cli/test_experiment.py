"""`lazyrich experiment`: a run, the same command again, what it says, and one sentence for whatever is wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from papers.test_experiment import TINY

from lazyrich.cli import main
from lazyrich.papers import data, experiments
from lazyrich.sweeps.store import open_store

pytestmark = pytest.mark.timeout(240)

FILE = """
experiment = "rhm"
about = "tiny"
at = [0, 1, 3]
[axes]
points = [16, 32]
alpha = [0.5, 2.0]
[settings]
""" + "\n".join(f"{name} = {value}" for name, value in TINY["settings"].items())


def answer(capsys: Any, command: str) -> tuple[int, str, str]:
    status = main(["experiment", *command.split()])
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(FILE)
    return tmp_path


@pytest.mark.compiles
def test_run_again_and_look(capsys: Any, folder: Path) -> None:
    status, out, err = answer(capsys, "tiny.toml --workers 1 --out results")
    assert status == 0 and err == "" and out.startswith("4 cells: 4 complete.\n4 computed now")
    assert "α = 2" in out and "Results: results (4 complete)" in out
    assert "lazyrich figure kunin2024/5c --set store=results" in out
    status, out, _ = answer(capsys, "tiny.toml --workers 1 --out results")
    assert status == 0 and "0 computed now" in out
    status, out, _ = answer(capsys, "tiny.toml --out results --status --json")
    told = json.loads(out)
    assert status == 0 and told["cells"]["complete"] == 4 and [row["alpha"] for row in told["rows"]] == [0.5, 2.0]
    at_the_end = open_store("results")["test_accuracy"].isel(epoch=-1)
    assert told["rows"][1]["16 points"] == pytest.approx(float(at_the_end.sel(alpha=2.0, points=16)))


def test_other_values_and_the_folder_of_the_file(capsys: Any, folder: Path) -> None:
    status, out, _ = answer(capsys, "tiny.toml --workers 1 --set alpha=1 --set points=16,32,48 --set seed=3,4 --json")
    assert status == 0 and json.loads(out)["cells"]["complete"] == 6
    found = open_store("lazyrich-out/tiny")
    assert dict(found.sizes) == {"points": 3, "alpha": 1, "seed": 2, "epoch": 3}
    assert np.isfinite(found["train_loss"].values).all()


def test_shards_share_a_folder(capsys: Any, folder: Path) -> None:
    status, out, _ = answer(capsys, "tiny.toml --workers 1 --shard 2/2 --out results")
    assert status == 3 and "4 cells: 2 complete, 2 to be done." in out and "not trained yet" in out
    assert answer(capsys, "tiny.toml --workers 1 --shard 1/2 --out results")[1].startswith("4 cells: 4 complete.")


@pytest.mark.compiles
def test_list_and_show(capsys: Any, folder: Path) -> None:
    status, out, _ = answer(capsys, "--list")
    assert status == 0 and all(name in out for name in experiments())
    assert [row["experiment"] for row in json.loads(answer(capsys, "--list --json")[1])["experiments"]] == list(
        experiments()
    )
    assert answer(capsys, "tiny.toml --show")[1] == FILE.rstrip() + "\n"
    assert json.loads(answer(capsys, "rhm --preset paper --show --json")[1])["settings"]["width"] == 64


def test_the_folder_of_the_data_is_that_of_the_workers_too(
    capsys: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAZYRICH_DATA", "elsewhere")
    status, _, err = answer(capsys, "lenet --preset paper --data images --workers 1 --out results")
    assert status == 2 and f"mnist is not in {folder / 'images' / 'mnist'}: --download fetches it" in err
    assert err.count("\n") == 1 and not (folder / "results").exists()
    assert os.environ["LAZYRICH_DATA"] == str(folder / "images")


def test_download_fetches_the_data_of_the_experiment(
    capsys: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    monkeypatch.setenv("LAZYRICH_DATA", str(folder))
    monkeypatch.setattr(data, "download", fetched.append)
    assert answer(capsys, "lenet --preset paper --download --workers 1 --out results")[0] == 2  # nothing came
    assert fetched == ["mnist"] and not (folder / "results").exists()


def test_one_network_and_a_table_of_none(capsys: Any, folder: Path) -> None:
    status, out, _ = answer(capsys, "tiny.toml --workers 1 --set alpha=1 --set points=16 --out results")
    assert status == 0 and "1 cells: 1 complete." in out and "Results: results (1 complete)" in out
    assert answer(capsys, "--status --out results")[1].startswith("alpha")


def test_status_of_another_kind_or_a_damaged_store_is_one_sentence(capsys: Any, folder: Path) -> None:
    assert answer(capsys, "tiny.toml --workers 1 --out results")[0] == 0
    status, out, err = answer(capsys, "lenet --status --out results")
    assert (status, out) == (2, "") and "must hold an experiment of the kind lenet, and it is rhm." in err
    chunk = next((folder / "results" / "data.zarr" / "test_accuracy").glob("c.*"))
    chunk.write_bytes(chunk.read_bytes()[:-1])
    status, out, err = answer(capsys, "--status --out results")
    assert (status, out) == (2, "") and "results cannot be read" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("", "NAME is missing: kunin2024/lenet, kunin2024/filters, kunin2024/rhm, kunin2024/grokking, or a file"),
        ("rmh", "there is no experiment 'rmh' (did you mean kunin2024/rhm?): lazyrich experiment --list names all 4."),
        ("none.toml", "none.toml cannot be read: No such file or directory."),
        ("tiny.toml --preset quick", "--preset belongs to an experiment by name"),
        ("tiny.toml --set alpha", "--set must be NAME=VALUE, such as alpha=0.1,1, and it is 'alpha'."),
        ("tiny.toml --set alhpa=1", "not 'alhpa' (did you mean 'alpha'?)"),
        ("tiny.toml --set alpha=red", "alpha must be"),
        ("tiny.toml --set alpha=0,1", "alpha must be"),
        ("tiny.toml --workers 0", "--workers must be"),
        ("tiny.toml --shard 3/2", "--shard must be I/N"),
        ("tiny.toml --download", "--download fetches mnist, fashion-mnist, cifar10, and this experiment needs none"),
        ("--status --out nowhere", "nowhere holds no sweep and no experiment"),
        ("tiny.toml --show --set alpha=1", "--show prints a file as it is, without --set"),
        ("lenet --preset quick --set samples=1501", "samples must be at most 1,500, as digits has them"),
        ("rhm --preset small", "invalid choice: 'small'"),
    ],
)
def test_bad_input_is_one_sentence(capsys: Any, folder: Path, command: str, says: str) -> None:
    try:
        status, out, err = answer(capsys, command)
    except SystemExit as left:  # argparse
        status, out, err = left.code, "", capsys.readouterr().err
    assert status == 2 and out == "" and says in err and err.count("\n") == 1
    assert not (folder / "lazyrich-out").exists()
