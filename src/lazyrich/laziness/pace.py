"""When a monitor measures: every so many steps, or so often that it costs a given share of training.

A share is kept by waiting: after the first measurement, which is taken at once, the next one is due when it and all
before it, start included, would cost no more than the share of the time that training itself has taken since. It is
expected to cost what the last one did, without what is done once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from lazyrich import _check
from lazyrich._check import InvalidInput


@dataclass
class Pace:
    """Steps, or the share of the time of training that may be spent.

    >>> Pace.of(100).steps, Pace.of("5%").share
    (100, 0.05)
    """

    steps: int  # 0: by time
    share: float
    clock: Callable[[], float] = time.perf_counter
    spent: float = 0.0
    trained: float = 0.0  # before this process
    last: float = 0.0  # cost of the last measurement
    measured: bool = False
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock() - self.spent

    @classmethod
    def of(cls, every: int | str) -> Pace:
        if isinstance(every, str):
            number, sign, rest = every.partition("%")
            try:
                share = float(number) / 100
            except ValueError:
                share = -1.0
            if not sign or rest or not 0 < share <= 1:
                raise InvalidInput(
                    "every must be a number of steps, or a share of the time of training such as '5%', and it is "
                    f"{_check.shown(every)}."
                )
            return cls(0, share)
        return cls(_check.count("every", every), 0.0)

    def due(self, step: int) -> bool:
        """Whether to measure now."""
        if self.steps:
            return step % self.steps == 0
        return not self.measured or self.spent + self.last <= self.share * self._training()

    def count(self, seconds: float, once: float = 0.0) -> None:
        """A measurement took so long, of which so much will not be needed again."""
        self.spent, self.last = self.spent + seconds, seconds - once
        if not self.measured:
            self.measured, self._began = True, self.clock() - self.spent

    def _training(self) -> float:
        return self.trained + self.clock() - self._began - self.spent

    def state_dict(self) -> dict[str, float]:
        return {"spent": self.spent, "trained": self._training(), "last": self.last, "measured": self.measured}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Goes on where another process ended."""
        self.spent, self.trained, self.last = state["spent"], state["trained"], state["last"]
        self.measured, self._began = bool(state["measured"]), self.clock() - self.spent
