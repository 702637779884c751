"""A progress bar for long runs: on stderr, after two seconds, and only where somebody is looking.

Whoever waits for a run may also end it: within `interruptible(look)`, `look` is called whenever a run has moved on, and
what it raises ends the run.

Shown on a terminal or in an interactive session; the variable LAZYRICH_PROGRESS=1 forces it and 0 forbids it. Without
tqdm there is none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Timer

_DELAY = 2.0  # seconds before a bar is worth showing
_FORMAT = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"

_look: ContextVar[Callable[[], object]] = ContextVar("look", default=lambda: None)


@contextmanager
def interruptible(look: Callable[[], object]) -> Iterator[None]:
    """While it lasts, in this thread, `look` is called whenever a run has moved on; it may raise."""
    before = _look.set(look)
    try:
        yield
    finally:
        _look.reset(before)


@contextmanager
def progress(total: float, label: str) -> Iterator[Callable[[float], object]]:
    """A bar that is full at `total`; yields the function that moves it on by some amount."""
    look = _look.get()
    if not watched():
        yield lambda amount: look()
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield lambda amount: look()
        return
    with tqdm(total=total, desc=label, delay=_DELAY, bar_format=_FORMAT, file=sys.stderr, leave=False) as bar:
        begun = Timer(_DELAY, bar.refresh)  # also where the first step takes long: programs are compiled before it
        begun.daemon = True
        begun.start()
        try:
            yield lambda amount: (look(), bar.update(amount))
        finally:
            begun.cancel()


def watched() -> bool:
    wish = os.environ.get("LAZYRICH_PROGRESS", "")
    if wish in ("0", "1"):
        return wish == "1"
    # ps1 is the prompt of an interactive session: notebooks have one, and no terminal
    return sys.stderr.isatty() or hasattr(sys, "ps1")
