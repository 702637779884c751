"""How a run ended, as data: which end it was, what happened, and what to try instead. As text it is one sentence."""

from __future__ import annotations

from enum import StrEnum


class End(StrEnum):
    """The ways in which a run ends."""

    COMPLETE = "complete"
    STOPPED = "stopped"  # it took as many steps as it was given
    STALLED = "stalled"  # no step is small enough, or numbers overflow
    ROSE = "rose"  # the loss rises, as in no gradient flow
    DIVERGED = "diverged"


class Status(str):
    """What happened and the advice in one sentence, with its parts.

    >>> status = Status(End.STALLED, "stalled at t = 3", "smaller weights")
    >>> print(status, "|", status.end, "|", status.what)
    stalled at t = 3: try smaller weights | stalled | stalled at t = 3
    """

    end: End
    what: str
    advice: str

    def __new__(cls, end: End, what: str, advice: str = "") -> Status:
        made = super().__new__(cls, f"{what}: try {advice}" if advice else what)
        made.end, made.what, made.advice = end, what, advice
        return made

    def __getnewargs__(self) -> tuple[End, str, str]:  # type: ignore[override]  # for copies and other processes
        return self.end, self.what, self.advice


COMPLETE = Status(End.COMPLETE, "complete")
