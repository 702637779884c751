"""Work on all cores, and one BLAS thread for loops over small matrices, where several cost more than they bring.

Measured on 2 cores at 256 columns: two threads gain 7 % on an idle machine, and lose a factor of 10 on a busy one,
where each call waits for a thread that is not running. The limit holds inside the `with` block alone; blocks that
overlap in several Python threads share it, and the last to leave restores what was there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, TypeVar

Piece = TypeVar("Piece")
SMALL = 128  # columns up to which one BLAS thread is about as fast as several

_LOCK = Lock()
_inside: list[Any] = []  # one entry per block; the first holds the limiter. Of the process, as its BLAS is


@contextmanager
def one_blas_thread(wanted: bool = True) -> Iterator[None]:
    """Limits BLAS to one thread, if `wanted`."""
    if not wanted:
        yield
        return
    with _LOCK:
        _inside.append(None if _inside else _controller().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _LOCK:
            if len(_inside) == 1:
                _inside[0].restore_original_limits()
            _inside.pop()


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread(work: Callable[[Piece], object], pieces: Sequence[Piece], *, heavy: bool = True) -> None:
    """Does `work` for all pieces, with one BLAS thread each, on all cores if it is `heavy` enough to pay for threads.

    Inside a `one_blas_thread` block there is one core to work on: whoever opened it has the others busy.
    """
    others = 0 if _inside or not heavy else min(cores(), len(pieces)) - 1
    left = iter(pieces)  # of all threads: each takes the next

    def some() -> None:
        for piece in left:
            work(piece)

    with one_blas_thread():
        if others < 1:
            some()
            return
        with ThreadPoolExecutor(others) as pool:
            helpers = [pool.submit(some) for _ in range(others)]
            some()
            for helper in helpers:
                helper.result()


@cache
def _controller() -> Any:
    from scipy.linalg import blas  # SciPy's own BLAS must be loaded to be found
    from threadpoolctl import ThreadpoolController

    assert blas

    return ThreadpoolController()
