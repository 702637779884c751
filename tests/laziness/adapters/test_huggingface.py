"""The callback in the real Trainer: it adds to what is logged when something is, and goes on from checkpoints."""

from __future__ import annotations

import numpy as np
import pytest

import lazyrich as lr

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

pytestmark = [pytest.mark.torch, pytest.mark.timeout(240), pytest.mark.filterwarnings("ignore")]
rng = np.random.default_rng(0)
TOKENS = rng.integers(1, 30, size=(16, 5))
LABELS = (TOKENS.sum(axis=1) % 2).astype(int)
BATCH = {"input_ids": TOKENS[:8], "attention_mask": np.ones((8, 5), int)}
K = "lazyrich/kernel_distance"


def small():
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=30, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12, num_labels=2
    )
    return transformers.BertForSequenceClassification(config)


class Reports(transformers.TrainerCallback):
    """Stands for TensorBoard and others: what reaches it, and when."""

    def __init__(self):
        self.seen = []

    def on_log(self, args, state, control, logs, **others):
        self.seen.append((state.global_step, dict(logs)))


def trainer(folder, *, steps, callback=None, log=4):
    data = [{"input_ids": t, "labels": int(y)} for t, y in zip(TOKENS, LABELS, strict=True)]
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        logging_steps=log,
        save_steps=4,
        per_device_train_batch_size=4,
        learning_rate=0.01,
        lr_scheduler_type="constant",
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
    )
    reports = Reports()
    made = transformers.Trainer(small(), arguments, train_dataset=data, callbacks=[reports])
    if callback is not None:
        callback.attach(made)
    return made, reports


def test_it_adds_to_what_is_logged_and_goes_on_from_checkpoints(tmp_path):
    watching = lambda: lr.laziness.adapters.HuggingFaceMonitor(BATCH, every=2, hidden=["bert.encoder.layer.0.output"])
    callback = watching()
    run, reports = trainer(tmp_path / "one", steps=8, callback=callback)
    run.train()
    assert [step for step, logs in reports.seen if "loss" in logs] == [4, 8]  # and at no other step
    assert [one.step for one in callback.monitor.records.seen] == [0, 2, 4, 6, 8]
    at_4 = next(logs for step, logs in reports.seen if step == 4)
    assert at_4["lazyrich/feature_distance/model.bert.encoder.layer.0.output"] > 0
    assert at_4[K] == callback.monitor.records.seen[2].values["kernel_distance"] > 0
    assert [entry[K] for entry in run.state.log_history if "loss" in entry] == [
        callback.monitor.records.seen[i].values["kernel_distance"] for i in (2, 4)
    ]
    alone, _ = trainer(tmp_path / "alone", steps=8)
    alone.train()
    pairs = zip(run.model.parameters(), alone.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)  # dropout drew the same numbers

    again = watching()
    resumed, _ = trainer(tmp_path / "one", steps=8, callback=again)
    resumed.train(resume_from_checkpoint=str(tmp_path / "one" / "checkpoint-4"))
    assert again.monitor.to_json() == callback.monitor.to_json()


def test_the_kernel_is_that_of_the_logits(tmp_path):
    callback = lr.laziness.adapters.HuggingFaceMonitor(BATCH, every=8)
    run, _ = trainer(tmp_path, steps=8, callback=callback)
    run.train()

    def jacobian(model):
        model.eval()
        logits = model(**{name: torch.tensor(part) for name, part in BATCH.items()}).logits.ravel()
        rows = [
            torch.autograd.grad(one, list(model.parameters()), retain_graph=True, materialize_grads=True)
            for one in logits
        ]
        return torch.stack([torch.cat([part.ravel() for part in row]) for row in rows]).double().numpy()

    J_0, J = jacobian(small()), jacobian(run.model)
    K_0, K_1 = J_0 @ J_0.T, J @ J.T
    turned = 1 - np.vdot(K_0, K_1) / np.linalg.norm(K_0) / np.linalg.norm(K_1)
    assert callback.monitor.records.seen[-1].values["kernel_distance"] == pytest.approx(turned, abs=1e-5)


@pytest.mark.usefixtures("unchecked_shapes")
def test_no_batch_gets_one_sentence():
    with pytest.raises(lr.InvalidInput, match=r"batch must map names to arrays, .*, and it is 3\."):
        lr.laziness.adapters.HuggingFaceMonitor(3)
