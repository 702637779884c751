"""How long a cell may take. One that takes longer is left to be done, and the others go on.

An alarm of the system interrupts what the cell is at, also sleep. It reaches the main thread of a process alone, and
Python alone: a library that computes in C is interrupted when it comes back. A worker process that no alarm has
stopped some seconds later is ended, which costs its block.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import IO

from lazyrich.sweeps.grid import TooLong

_COMPILING = 60.0  # seconds
_GRACE = 10.0  # seconds after an alarm
_limit: list[float | None] = [None]  # seconds, of this process
_ends: list[IO[str]] = []  # where this process may be ended: what is said then goes there


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Inside, no cell may take longer."""
    before, _limit[0] = _limit[0], seconds
    try:
        yield
    finally:
        _limit[0] = before


def expendable() -> None:
    """This process may be ended, since it works for another one."""
    _ends.append(open(os.devnull, "w"))  # noqa: SIM115  (as long as the process lives)


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
    if _ends and not before:  # of nested ones the first
        faulthandler.dump_traceback_later(allowed + _GRACE, exit=True, file=_ends[0])
    try:
        yield
    finally:
        if _ends and not before:
            faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, before)
        signal.signal(signal.SIGALRM, handler)
