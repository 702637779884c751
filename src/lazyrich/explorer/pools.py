"""The threads that all pages share, and how long anybody waits for them.

A quick pool for what theory gives at once; a slow one for what is integrated in NumPy, for the phase picture and for
what is large; one thread for what JAX compiles and integrates, which takes seconds and much memory; and threads for
files. An integration cannot be stopped from outside, but it looks up whenever it has moved on (`_progress`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import get_ident
from typing import NamedTuple, TypeVar

import numpy as np

from lazyrich._check import InvalidInput

_QUICK_THREADS = 2  # no faster than one, but a large problem does not hold up a small one
_SLOW_THREADS = 2
_FILE_THREADS = 2
_GRACE = 0.5  # seconds that an integration has, though its page has asked for something else meanwhile: it is followed
LONGEST = 60.0  # seconds of an integration

R = TypeVar("R")


class Pool:
    """Some threads that take turns in the order in which they are asked for."""

    def __init__(self, name: str, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"lazyrich-{name}")
        self._at_work: set[int] = set()

    async def run(self, work: Callable[..., R], *arguments: object) -> R:
        """What `work` returns, computed in a thread. One that has not begun is dropped if the caller is cancelled."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(self._run, work, arguments))

    def _run(self, work: Callable[..., R], arguments: tuple[object, ...]) -> R:
        self._at_work.add(get_ident())
        try:
            with np.errstate(all="ignore"):  # what overflows is told in a sentence, not in the server's log
                return work(*arguments)
        finally:
            self._at_work.discard(get_ident())

    @property
    def busy(self) -> bool:
        """Is a thread at work? It cannot be interrupted."""
        return bool(self._at_work)

    def close(self) -> None:
        """Nothing more begins."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class Pools(NamedTuple):
    """Those that all pages share, for their stages, and one for files."""

    quick: Pool
    slow: Pool
    engine: Pool
    files: Pool

    @classmethod
    def open(cls) -> Pools:
        return cls(
            Pool("quick", _QUICK_THREADS), Pool("slow", _SLOW_THREADS), Pool("engine", 1), Pool("files", _FILE_THREADS)
        )

    @property
    def of_pages(self) -> tuple[Pool, ...]:
        return self.quick, self.slow, self.engine


class Interrupted(BaseException):
    """Nobody waits for this any more. Not an Exception: nothing on the way takes it for a fault."""


def patient(stale: Callable[[], bool]) -> Callable[[], None]:
    """Ends what it is called from, once nobody waits for it or it takes too long."""
    begun = time.monotonic()

    def look() -> None:
        passed = time.monotonic() - begun
        if passed > _GRACE and stale():
            raise Interrupted
        if passed > LONGEST:
            raise InvalidInput(
                f"this takes longer than {LONGEST:g} seconds to integrate: try smaller weights or an earlier end."
            )

    return look
