"""How long a cell may take. One that takes longer is left to be done, and the others go on.

An alarm of the system interrupts what the cell is at, also sleep. It reaches the main thread of a process alone, and
Python alone: a library that computes in C for hours is interrupted when it comes back.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lazyrich.sweeps.grid import TooLong

_COMPILING = 60.0  # seconds
_limit: list[float | None] = [None]  # seconds, of this process


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Inside, no cell may take longer."""
    before, _limit[0] = _limit[0], seconds
    try:
        yield
    finally:
        _limit[0] = before


def can_interrupt() -> bool:
    """Whether an alarm would come here."""
    return threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")


@contextmanager
def cell(count: int = 1, *, together: bool = False) -> Iterator[None]:
    """The work of one cell, or of several that are trained together, which may take so many times as long, and some
    time to compile.
    """
    seconds = _limit[0]
    if seconds is None or not can_interrupt():
        yield
        return
    allowed = seconds * count + (_COMPILING if together else 0)

    def ring(number: int, frame: FrameType | None) -> None:
        raise TooLong(f"took longer than {allowed:g} s" + (f" to train {count:,} cells" if together else ""))

    handler = signal.signal(signal.SIGALRM, ring)
    before, _ = signal.setitimer(signal.ITIMER_REAL, allowed)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, before)
        signal.signal(signal.SIGALRM, handler)
