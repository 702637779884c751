"""The callback in the real Trainer: what loggers get, what is resumed, and what is not disturbed."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import lazyrich as lr

torch = pytest.importorskip("torch")
pl = pytest.importorskip("lightning.pytorch")
nn = torch.nn

pytestmark = [
    pytest.mark.torch,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore"),  # of Lightning, about workers and defaults
]
X = np.random.default_rng(0).normal(size=(32, 6)).astype(np.float32)
Y = np.sin(2 * X[:, :2])
K = "lazyrich/kernel_distance"


class Regression(pl.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        return nn.functional.mse_loss(self(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.2, momentum=0.9)


def fit(folder, *, epochs, callbacks=(), resume=None):
    module = Regression()
    data = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y)), batch_size=8, shuffle=False
    )
    torch.manual_seed(1)
    trainer = pl.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=pl.loggers.CSVLogger(folder, name="", version=""),
        callbacks=list(callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    trainer.fit(module, data, ckpt_path=resume)
    trainer.save_checkpoint(folder / "last.ckpt")
    return module


def logged(folder):
    rows = csv.DictReader((folder / "metrics.csv").open())
    return {int(row["step"]): float(row[K]) for row in rows if row.get(K)}


def test_loggers_get_what_a_plain_loop_sees(tmp_path):
    callback = lr.laziness.adapters.LightningMonitor(X, every=4)
    module = fit(tmp_path, epochs=2, callbacks=[callback])
    found = logged(tmp_path)
    assert sorted(found) == [0, 4, 8] and found[0] == 0.0 < found[4]
    plain = lr.laziness.Monitor(Regression(), X)
    assert plain.update(module, 8)[K] == pytest.approx(found[8], rel=1e-6)
    assert [one.step for one in callback.monitor.records.seen] == [0, 4, 8]
    assert np.isfinite(callback.monitor.records.seen[-1].loss)
    alone = fit(tmp_path / "alone", epochs=2)
    assert all(torch.equal(a, b) for a, b in zip(alone.parameters(), module.parameters(), strict=True))


def test_a_resumed_run_logs_the_same_numbers(tmp_path):
    def watched():
        return [lr.laziness.adapters.LightningMonitor(X, every=4)]

    class Quiet(Regression):
        pass

    fit(tmp_path / "half", epochs=1, callbacks=watched())
    resumed = fit(tmp_path / "rest", epochs=2, callbacks=watched(), resume=tmp_path / "half" / "last.ckpt")
    plain = lr.laziness.Monitor(Regression(), X)  # the initialisation of the first half
    assert logged(tmp_path / "rest")[8] == pytest.approx(plain.update(resumed, 8)[K], rel=1e-6)


def test_a_share_of_time_is_the_default(tmp_path):
    callback = lr.laziness.adapters.LightningMonitor(X)
    fit(tmp_path, epochs=2, callbacks=[callback])
    assert callback.monitor.records.seen[0].step == 0
