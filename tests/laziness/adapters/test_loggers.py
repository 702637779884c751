"""TensorBoard, Weights & Biases and CSV get the numbers through the loggers that the frameworks have for them."""

from __future__ import annotations

import csv
import json
import struct

import numpy as np
import pytest

import lazyrich as lr

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.torch,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore"),  # of the frameworks and the loggers
]
K = "lazyrich/kernel_distance"


def of_tensorboard(folder, tag):
    """Numbers by step, from the records of an event file: length (8 bytes, and 4 to check it), the event, 4 more."""
    events = pytest.importorskip("tensorboardX.proto.event_pb2")
    found = {}
    for path in folder.rglob("events.out.tfevents.*"):
        content, at = path.read_bytes(), 0
        while at < len(content):
            (size,) = struct.unpack_from("<Q", content, at)
            event = events.Event.FromString(content[at + 12 : at + 12 + size])
            for value in event.summary.value:
                if value.tag == tag:
                    found[event.step] = value.simple_value
            at += size + 16
    return found


def of_wandb(folder, tag):
    """Numbers by step, from the log that an offline run leaves: after 7 bytes blocks of 2¹⁵, in these parts of records,
    each with 4 bytes to check it, 2 for its length and 1 that says whether it begins (1, 2) and ends (1, 4) one."""
    records = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    found = {}
    (path,) = folder.rglob("run-*.wandb")
    content, at, whole = path.read_bytes(), 7, b""
    while at + 7 <= len(content):
        if 2**15 - at % 2**15 < 7:  # no room for another part
            at += 2**15 - at % 2**15
            continue
        size, kind = struct.unpack_from("<HB", content, at + 4)
        whole += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            items = records.Record.FromString(whole).history.item
            row = {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}
            if tag in row:
                found[row.get("trainer/global_step", row.get("train/global_step"))] = row[tag]
            whole = b""
    return found


def written(name):
    """Weights & Biases has a process of its own, which has written all when it ends."""
    if name == "wandb":
        wandb = pytest.importorskip("wandb")
        wandb.finish()
        wandb.teardown()


def of_csv(folder, tag):
    (path,) = folder.rglob("metrics.csv")
    return {int(row["step"]): float(row[tag]) for row in csv.DictReader(path.open()) if row.get(tag)}


READERS = {"tensorboard": of_tensorboard, "wandb": of_wandb, "csv": of_csv}


@pytest.fixture
def offline(monkeypatch, tmp_path):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("name", READERS)
def test_loggers_of_lightning(name, tmp_path):
    pl = pytest.importorskip("lightning.pytorch")
    pytest.importorskip({"tensorboard": "tensorboardX", "wandb": "wandb", "csv": "csv"}[name])
    from laziness.adapters.test_lightning import Regression, X, Y

    logger = {
        "tensorboard": lambda: pl.loggers.TensorBoardLogger(tmp_path),
        "wandb": lambda: pl.loggers.WandbLogger(save_dir=tmp_path, offline=True),
        "csv": lambda: pl.loggers.CSVLogger(tmp_path),
    }[name]()
    data = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y)), batch_size=8, shuffle=False
    )
    callback = lr.laziness.adapters.LightningMonitor(X, every=4)
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    trainer = pl.Trainer(
        max_epochs=2, accelerator="cpu", logger=logger, callbacks=[callback], log_every_n_steps=1, **quiet
    )
    trainer.fit(Regression(), data)
    written(name)
    seen = {one.step: one.values["kernel_distance"] for one in callback.monitor.records.seen}
    assert list(seen) == [0, 4, 8] and READERS[name](tmp_path, K) == pytest.approx(seen, rel=1e-6)


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_what_hugging_face_reports_to(name, tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    pytest.importorskip({"tensorboard": "tensorboardX", "wandb": "wandb"}[name])
    from laziness.adapters.test_huggingface import BATCH, LABELS, TOKENS, small

    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path / "out"),
        max_steps=8,
        logging_steps=4,
        use_cpu=True,
        report_to=[name],
        disable_tqdm=True,
    )
    data = [{"input_ids": t, "labels": int(y)} for t, y in zip(TOKENS, LABELS, strict=True)]
    trainer = transformers.Trainer(small(), arguments, train_dataset=data)
    callback = lr.laziness.adapters.HuggingFaceMonitor(BATCH, every=4).attach(trainer)
    trainer.train()
    written(name)
    seen = {one.step: one.values["kernel_distance"] for one in callback.monitor.records.seen}
    found = READERS[name](tmp_path, f"train/{K}")
    assert {step: found[step] for step in (4, 8)} == pytest.approx({step: seen[step] for step in (4, 8)}, rel=1e-6)
    assert np.isfinite(list(found.values())).all()
