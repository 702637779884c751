"""The blocks of a sweep on a cluster: Dask distributed, whose scheduler and workers somebody has started.

Dask finds a worker for each block, and another one when it dies. It may also compute a block again whose result sat
on a dead worker: `work` then finds it in the store. Only so many blocks are with the scheduler at a time that the
workers stay busy. Before the first one, every worker says which lazyrich it has and whether it sees the folder.

An address that does not answer gets one sentence. Dask itself waits for a greeting without end where something else
listens, so the greeting is tried first, with a limit of our own.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import queue
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._engines import load
from lazyrich._version import __version__
from lazyrich.sweeps.grid import Grid, in_one_line
from lazyrich.sweeps.local import Done, Job, grid_of, work

if TYPE_CHECKING:
    from distributed import Client, Future

_PATIENCE = 15.0  # seconds for a scheduler to answer
_LONELY = 60.0  # seconds without a worker before it is mentioned
_LOOK = 2.0  # seconds between two looks at the workers
_PAUSE = 0.2  # seconds before a question is asked again
_AHEAD = 2  # blocks for each thread of the workers: one at work, one waiting
_ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx)://(\[[0-9a-fA-F:.]+\]|[^\s/:\[\]]+):(\d{1,5})/?")


def on_cluster(job: Job, todo: deque[int], client: Client) -> Generator[Done, None, None]:
    """A runner (see `local`) by way of a client that is `connected`."""
    crew = _Crew(client)
    _check_workers(client, crew, job)
    finished: queue.SimpleQueue[Future] = queue.SimpleQueue()
    at_work: dict[Future, int] = {}
    while todo or at_work:
        while todo and len(at_work) < max(1, _AHEAD * crew.threads):
            number = todo.popleft()
            future = client.submit(work, job, number, pure=False)
            at_work[future] = number
            future.add_done_callback(finished.put)
        try:
            future = finished.get(timeout=_LOOK)
        except queue.Empty:
            future = None
        crew.look()
        if future is None:
            continue
        try:
            outcome = _outcome(future, at_work[future], client)
        except OSError:  # no answer: its worker died before it could be asked, and Dask looks for another one
            time.sleep(_PAUSE)
            future.add_done_callback(finished.put)
            continue
        del at_work[future]
        yield outcome


def _outcome(future: Future, number: int, client: Client) -> Done:
    if future.status == "finished":
        return future.result(timeout=_LOOK)
    if future.status == "cancelled" or client.status != "running":
        _lost(client)
    error = future.exception(timeout=_LOOK)
    if type(error).__name__ == "KilledWorker":  # Dask has tried several workers by then
        died = "the workers that it was given died one after the other"
        return Done(number, kind="worker died", error=died, again=False)
    return Done(number, kind=type(error).__name__, error=in_one_line(error))


def _lost(client: Client) -> NoReturn:
    raise InvalidInput(
        f"the scheduler at {_address(client)} has gone: what was finished is kept, and the same command resumes."
    ) from None


def _address(client: Client) -> str:
    return str(client.scheduler.address)


class _Crew:
    """The workers, looked at from time to time. Without any, the sweep says so and waits."""

    def __init__(self, client: Client) -> None:
        self.threads = 0
        self._client = client
        self._looked = self._met = time.monotonic()

    def look(self) -> None:
        if time.monotonic() - self._looked > _LOOK:
            self._count()

    def wait(self) -> None:
        """Until there is a worker."""
        self._count()
        while not self.threads:
            time.sleep(_PAUSE)
            self._count()

    def _count(self) -> None:
        now = self._looked = time.monotonic()
        if self._client.status != "running":
            _lost(self._client)
        try:
            self.threads = sum(self._client.nthreads().values())
        except OSError:
            _lost(self._client)
        if self.threads:
            self._met = now
        elif now - self._met > _LONELY:
            self._met = now  # again in a minute
            print(
                f"lazyrich: no worker at {_address(self._client)} for {_LONELY:.0f} s; the sweep waits for one, "
                "and what was finished is kept.",
                file=sys.stderr,
            )


# before the first block -------------------------------------------------------------------------------------


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """A client of the scheduler at this address, or one sentence within seconds."""
    if not isinstance(address, str) or not (parts := _ADDRESS.fullmatch(address)) or int(parts[3]) > 65535:
        raise InvalidInput(f"scheduler must be an address such as tcp://host:8786, and it is {_check.shown(address)}.")
    distributed = load("distributed", "a sweep on a cluster", "sweeps")
    try:
        _greet(address)
        client = distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
    except Exception as error:
        silent = isinstance(error, TimeoutError | OSError) and "Timed out" in (str(error) or "Timed out")
        reason = f"nothing answers there within {_PATIENCE:.0f} s" if silent else "what answers there is no Dask"
        raise InvalidInput(
            f"scheduler must be the address of a Dask scheduler that runs, and it is {address}: {reason}."
        ) from None
    try:
        yield client
    finally:
        log = logging.getLogger("distributed.client")
        level = log.level
        log.setLevel(logging.CRITICAL)  # where the scheduler has gone, Dask shows how it looked for it
        with suppress(Exception):
            client.close(timeout=5)
        log.setLevel(level)


def _greet(address: str) -> None:
    """Raises unless a program that speaks Dask's protocol listens there."""
    from distributed.comm import connect
    from distributed.security import Security

    async def greet() -> None:
        options = Security().get_connection_args("client")
        comm = await asyncio.wait_for(connect(address, timeout=_PATIENCE, **options), _PATIENCE)
        await comm.close()

    heard: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def ask() -> None:
        try:
            asyncio.run(greet())
            heard.put(None)
        except BaseException as error:
            heard.put(error)

    # a thread of its own: notebooks have an event loop in this one
    threading.Thread(target=ask, daemon=True).start()
    try:
        error = heard.get(timeout=_PATIENCE + 1)
    except queue.Empty:
        raise TimeoutError from None
    if error is not None:
        raise error


def threads_of(client: Client) -> int:
    """Of all workers that are there, at least 1."""
    return max(1, sum(client.nthreads().values()))


def _check_workers(client: Client, crew: _Crew, job: Job) -> None:
    """Every worker that is there has this lazyrich, sees this folder, and finds the functions of the sweep."""
    asked = _sees(job.out, job.grid)
    answers: dict[str, tuple[str, str, str] | Exception] = {}
    while not answers:
        crew.wait()
        with suppress(OSError):  # a worker that has just left, here or in its answer
            answers = client.run(_sees, job.out, job.grid, on_error="return")
        answers = {worker: answer for worker, answer in answers.items() if not isinstance(answer, OSError)}
    for worker, answer in answers.items():
        if isinstance(answer, Exception):
            raise InvalidInput(
                f"workers must have lazyrich {asked[0]} installed, and the one at {worker} answers "
                f"{type(answer).__name__}: {' '.join(str(answer).split())[:200]}."
            )
        if answer[0] != asked[0]:
            raise InvalidInput(
                f"workers must have the lazyrich of this process, {asked[0]}, and the one at {worker} has {answer[0]}."
            )
        if answer[1] != asked[1]:
            raise InvalidInput(
                f"out must be a folder that all workers share, and the one at {worker} does not find {job.out}."
            )
        if answer[2]:
            raise InvalidInput(f"workers must find what the sweep calls, and the one at {worker} says {answer[2]}.")


def _sees(out: str, grid: Grid | str) -> tuple[str, str, str]:
    """The version of lazyrich, a mark of what is in the folder, and what of the sweep cannot be imported."""
    trouble = ""
    try:
        if isinstance(grid, str):
            grid_of(grid)
    except (ImportError, AttributeError) as error:
        trouble = in_one_line(error).rstrip(".")
    try:
        return __version__, hashlib.sha256((Path(out) / "sweep.json").read_bytes()).hexdigest(), trouble
    except OSError:
        return __version__, "", trouble
