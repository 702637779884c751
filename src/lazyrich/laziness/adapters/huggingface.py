"""A callback of the Trainer of Hugging Face: the initialisation is what the model is in `on_train_begin`.

The Trainer decides when to log, and what was measured last is added to that; it is never made to log. Checkpoints of
the Trainer get a file beside the model, from which a resumed run goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazyrich import _check, _engines
from lazyrich._check import InvalidInput
from lazyrich._typing import ArrayLike
from lazyrich.laziness.monitor import Monitor

torch = _engines.load("torch", "HuggingFaceMonitor", "huggingface")
transformers = _engines.load("transformers", "HuggingFaceMonitor", "huggingface")

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from transformers import Trainer

_FILE = "lazyrich.pt"


class HuggingFaceMonitor(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
    """`HuggingFaceMonitor(batch).attach(trainer)`: what the Trainer logs gets what `Monitor.update` gives.

    Attached, it comes before the callbacks that report to TensorBoard, Weights & Biases and others; among
    `callbacks=[…]` of the Trainer it would come after them, and only `state.log_history` and later ones would hold it.

    Parameters
    ----------
    batch : what the model is called with, by name, samples along the first axis, such as a tokenizer gives
    every : a share of the time of training, or steps
    hidden : names of submodules of the model whose outputs are hidden activity
    options : of `lr.laziness.Monitor`

    >>> HuggingFaceMonitor(tokenizer(texts, return_tensors="pt")).attach(trainer)  # doctest: +SKIP
    """

    monitor: Monitor | None = None

    def __init__(
        self,
        batch: Mapping[str, ArrayLike],
        *,
        every: int | str = "5%",
        hidden: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(batch, Mapping) or not len(batch):
            raise InvalidInput(
                f"batch must map names to arrays, as the model is called with them, and it is {_check.shown(batch)}."
            )
        self._batch = {name: torch.as_tensor(part) for name, part in batch.items()}
        self._options = {"live": False} | options | {"every": every}
        self._options["hidden"] = None if hidden is None else [f"model.{name}" for name in hidden]
        self._latest: dict[str, float] = {}
        self._loss: float | None = None

    def attach(self, trainer: Trainer) -> HuggingFaceMonitor:
        """Puts it before all other callbacks of a Trainer."""
        trainer.callback_handler.callbacks.insert(0, self)
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Module, **others: Any) -> None:
        samples = torch.arange(len(next(iter(self._batch.values()))))
        self._answers = _Answers(model, self._batch)
        self.monitor = Monitor(self._answers, samples, **self._options)
        self._loss = next((entry["loss"] for entry in reversed(state.log_history) if "loss" in entry), None)
        saved = self._path(args, state)
        if state.global_step and saved.is_file():
            self.monitor.load_state_dict(torch.load(saved, weights_only=True))
        else:
            self._latest = self.monitor.update(self._answers, state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        assert self.monitor is not None
        self._latest = self.monitor.update(self._answers, state.global_step, self._loss) or self._latest

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **others: Any) -> None:
        self._loss = logs.get("loss", self._loss)
        logs |= self._latest
        if state.log_history:
            state.log_history[-1] |= self._latest

    def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        path = self._path(args, state)
        if self.monitor is not None and state.is_world_process_zero and path.parent.is_dir():
            torch.save(self.monitor.state_dict(), path)

    @staticmethod
    def _path(args: Any, state: Any) -> Path:
        return Path(args.output_dir) / f"checkpoint-{state.global_step}" / _FILE


class _Answers(torch.nn.Module):  # type: ignore[misc, name-defined]
    """The logits at samples of a batch that are named by their numbers."""

    def __init__(self, model: Module, batch: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.model = model
        device = next(model.parameters()).device
        self._batch = {name: part.to(device) for name, part in batch.items()}

    def forward(self, samples: Tensor) -> Tensor:
        return self.model(**{name: part[samples] for name, part in self._batch.items()}).logits
