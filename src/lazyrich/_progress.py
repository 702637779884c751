"""A progress bar for long runs: on stderr, after two seconds, and only where somebody is looking.

Shown on a terminal or in an interactive session; the variable LAZYRICH_PROGRESS=1 forces it and 0 forbids it. Without
tqdm there is none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

_DELAY = 2.0  # seconds before a bar is worth showing
_FORMAT = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"


@contextmanager
def progress(total: float, label: str) -> Iterator[Callable[[float], object]]:
    """A bar that is full at `total`; yields the function that moves it on by some amount."""
    if not watched():
        yield _nothing
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield _nothing
        return
    with tqdm(total=total, desc=label, delay=_DELAY, bar_format=_FORMAT, file=sys.stderr, leave=False) as bar:
        begun = Timer(_DELAY, bar.refresh)  # also where the first step takes long: programs are compiled before it
        begun.daemon = True
        begun.start()
        try:
            yield bar.update
        finally:
            begun.cancel()


def _nothing(amount: float) -> None:
    """Moves a bar that is not there."""


def watched() -> bool:
    wish = os.environ.get("LAZYRICH_PROGRESS", "")
    if wish in ("0", "1"):
        return wish == "1"
    # ps1 is the prompt of an interactive session: notebooks have one, and no terminal
    return sys.stderr.isatty() or hasattr(sys, "ps1")
