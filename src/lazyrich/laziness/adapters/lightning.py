"""A callback of Lightning: the initialisation is the module as training starts, and loggers get what is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsFloat

from lazyrich import _engines
from lazyrich._typing import ArrayLike
from lazyrich.laziness.monitor import Monitor

pl = _engines.load("lightning.pytorch", "LightningMonitor", "lightning")

if TYPE_CHECKING:
    from lightning.pytorch import LightningModule, Trainer


class LightningMonitor(pl.Callback):  # type: ignore[misc, name-defined]
    """`Trainer(callbacks=[LightningMonitor(inputs)])`: all loggers of the trainer get what `Monitor.update` gives.

    It is measured when training starts, and then as often as `every` says. Checkpoints of the trainer hold the
    monitor's state, so that a resumed run goes on with the same reference.

    Parameters
    ----------
    inputs : samples along the first axis, as `forward` of the module takes them
    every : a share of the time of training, or steps
    options : of `lr.laziness.Monitor`

    >>> trainer = lightning.Trainer(callbacks=[LightningMonitor(inputs)])  # doctest: +SKIP
    """

    monitor: Monitor | None = None

    def __init__(self, inputs: ArrayLike, *, every: int | str = "5%", **options: Any) -> None:
        self._inputs, self._options = inputs, {"live": False} | options | {"every": every}
        self._saved: dict[str, Any] = {}

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.monitor = Monitor(pl_module, self._inputs, **self._options)
        if self._saved:
            self.monitor.load_state_dict(self._saved)
        else:
            self._measure(trainer, pl_module)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        loss = outputs["loss"] if isinstance(outputs, dict) else outputs
        self._measure(trainer, pl_module, loss)

    def _measure(self, trainer: Trainer, module: LightningModule, loss: SupportsFloat | None = None) -> None:
        assert self.monitor is not None
        found = self.monitor.update(module, trainer.global_step, loss)
        if found:
            for logger in trainer.loggers:
                logger.log_metrics(found, step=trainer.global_step)

    def state_dict(self) -> dict[str, Any]:
        return self._saved if self.monitor is None else self.monitor.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._saved = state_dict
