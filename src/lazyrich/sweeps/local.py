"""One block of a grid, and many of them on this machine: in this process, or in several.

`work` is the unit of every runner: it looks which cells of a block are still to be done, claims the block, computes
these cells, stores them, and returns next to nothing. A block may be worked on twice; it then gives the same bytes,
since everywhere one thread computes it. The order in which BLAS and XLA add up depends on their number of threads, and
so do the last bits of a sum.

A runner is a generator: it takes numbers of blocks from `todo` as it has workers for them, and yields what became of
each. Whoever reads it may put a number back. It ends when `todo` is empty and nothing is under way.

The worker processes are programs of their own, and speak in lines of JSON: no `if __name__ == "__main__"` is needed
around a sweep, the threads are set before NumPy loads, and the death of one is no matter for the others. A worker
ends with its standard input, so with this process, however that ends.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import platform
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from lazyrich._check import InvalidInput
from lazyrich._threads import cores, one_blas_thread
from lazyrich.sweeps import limits
from lazyrich.sweeps.claims import claimed
from lazyrich.sweeps.disk import faults_of
from lazyrich.sweeps.fingerprint import differences, digest, fingerprint
from lazyrich.sweeps.grid import STATUS, Block, Cause, Grid, Json, TooLong
from lazyrich.sweeps.store import Store

_STILLBORN = 5  # workers in a row that end before they have begun: none ever will
_CLASS = "class"  # the entry that says which kind of grid a configuration is of
_ENDED = "ended with exit status 1"  # as a worker does that takes too long, see `limits`
_OFTEN = 0.5  # seconds between two reports of a worker on its block

#: One JAX computation at a time in a process, where a cluster gives it several threads.
_ALONE = threading.Lock()


class Done(NamedTuple):
    """What became of a block: it is in the store, or there was an error."""

    number: int
    computed: int = 0  # cells, just now
    failed: int = 0  # of these
    busy: bool = False  # another process is at it
    kind: str = ""  # and message of an error
    error: str = ""
    again: bool = True  # after an error: another try may help
    fatal: bool = False  # after an error: the other blocks would meet it too


class Job(NamedTuple):
    """What a runner works on: a grid (for other processes as a text), and the folder that takes the results."""

    grid: Grid | str
    out: str
    code: str = ""  # the fingerprint that each worker must have too
    limit: float | None = None  # seconds, of a cell


BlockTick = Callable[[int, float], object]  # of a block, so many cells' worth of work has been done since the last call


def as_text(grid: Grid) -> str:
    """As `work` takes it in any process: there a function is found by its name, so it must have one."""
    for function in grid.functions():
        path = f"{function.__module__}:{function.__qualname__}"
        try:
            known = function.__module__ != "__main__" and _by_name(path) is function
        except (ImportError, AttributeError):
            known = False
        if not known:
            what = "problem" if function is getattr(grid, "problem", None) else "an observable"
            raise InvalidInput(
                f"{what} must be at the top of a module for other processes to find it, and it is "
                f"{path}: try a file of its own, or workers=1 without a scheduler."
            )
    return json.dumps(grid.as_dict() | {_CLASS: f"{type(grid).__module__}:{type(grid).__qualname__}"})


def portable(grid: Grid) -> bool:
    """Whether the grid is all words and numbers; a sweep may have functions of the user's own instead."""
    return not grid.functions()


def work(job: Job, number: int, tick: BlockTick = lambda number, cells: None) -> Done:
    """Computes what is missing of one block, and stores it. Whatever goes wrong comes back as an error."""
    if job.limit is not None and not limits.can_interrupt():  # in a process of its own a cell can be interrupted
        apart = job if isinstance(job.grid, str) else job._replace(grid=as_text(job.grid))
        return next(processes(apart, deque([number]), tick, 1))
    try:
        grid = grid_of(job.grid) if isinstance(job.grid, str) else job.grid
        store, block = Store(Path(job.out), grid), grid.block_at(number)
        if not store.pending(block):
            return Done(number)
        with faults_of(store.out), claimed(store.out, block.name) as ours:
            return _computed(job, store, block, tick) if ours else Done(number, busy=True)
    except (InvalidInput, ImportError) as error:  # the folder, or what is installed; a cell's own fault is a result
        where = f"{_worker()} " if isinstance(job.grid, str) and isinstance(error, ImportError) else ""
        return Done(number, error=f"{where}{error}", fatal=True)
    except Exception as error:
        cause = Cause.of(error)
        return Done(number, kind=cause.kind, error=cause.message)


def _computed(job: Job, store: Store, block: Block, tick: BlockTick) -> Done:
    """What comes of the cells of a block that is ours."""
    cells = store.pending(block)  # as it is now: another process may have just given it back
    if not cells:
        return Done(block.number)
    if isinstance(job.grid, str) and job.code not in ("", digest(own := _code_of(job.grid))):
        lines = "".join(f"\n  {line}" for line in differences(store.code_of(job.code), own))
        raise InvalidInput(
            f"{_worker()} has other versions or other code than the process that started the sweep. "
            f"There → in the worker:{lines}"
        )
    store.check_size()
    chosen = block if len(cells) == math.prod(block.shape) else block._replace(cells=cells)
    start = time.perf_counter()
    with _ALONE, one_thread(), limits.limited(job.limit):
        result = store.grid.compute(chosen, lambda part: tick(block.number, part))
    store.write(chosen, result, time.perf_counter() - start, job.code)
    codes = [int(result.status[block.within(place)]) for place in cells]
    left, failed = codes.count(STATUS.index("pending")), codes.count(STATUS.index("failed"))
    done = Done(block.number, computed=len(cells) - left, failed=failed)
    if not left:
        return done
    cause = next(cause for cause in result.causes.values() if cause.passing)
    told = f"{left:,} of {len(cells):,} cells are still to be done: {cause.message}"
    return done._replace(kind=cause.kind, error=told, again=not cause.kind.startswith(TooLong.__name__))


def _worker() -> str:
    """This process, by a name that a user can find."""
    return f"the worker on {platform.node()} (process {os.getpid()})"


@lru_cache(maxsize=1)  # all blocks of a grid ask for the same
def grid_of(text: str) -> Grid:
    content: Json = json.loads(text)
    kind: type[Grid] = _by_name(content.pop(_CLASS))
    if ":" in str(content.get("problem", "")):
        content["problem"] = _by_name(content["problem"])
    if "observables" in content:
        content["observables"] = [_by_name(one) if ":" in one else one for one in content["observables"]]
    return kind.from_dict(content)


@lru_cache(maxsize=1)
def _code_of(text: str) -> Json:
    """The fingerprint of what computes a grid in this process."""
    return fingerprint(grid_of(text))


def _by_name(name: str) -> Any:
    module, _, path = name.partition(":")
    found = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread in BLAS, and in XLA on the CPU if JAX starts inside: it reads the variable then, and never again."""
    ours, started = "PJRT_NPROC" not in os.environ and not accelerated(), _jax_has_started()
    if ours:
        os.environ["PJRT_NPROC"] = "1"
    try:
        with one_blas_thread():
            yield
    finally:
        if ours:
            os.environ.pop("PJRT_NPROC", None)
        if _jax_has_started() and not started:
            _started_inside.append(True)


def accelerated() -> bool:
    """Whether JAX has another device than the CPU; it then needs its threads to compile (eight times as fast on 16)."""
    from importlib.util import find_spec

    return find_spec("jax_plugins") is not None and os.environ.get("JAX_PLATFORMS", "") != "cpu"


def suitable_workers(grid: Grid) -> int:
    """How many processes suit this machine: one for each core, and one alone for a GPU; no more than blocks."""
    return 1 if accelerated() else min(cores(), grid.with_blocks(cores()).blocks)


def threads_are_right(grid: Grid) -> bool:
    """Whether this process computes with as many threads as a worker would.

    Not so where JAX has started on the CPU before, on all cores.
    """
    if not grid.uses_jax or not _jax_has_started() or _started_inside or "PJRT_NPROC" in os.environ:
        return True
    return sys.modules["jax"].default_backend() != "cpu"


_started_inside: list[bool] = []  # one entry if JAX has started in a sweep


def _jax_has_started() -> bool:
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and getattr(bridge, "backends_are_initialized", lambda: True)()


# the two runners --------------------------------------------------------------------------------------------


def here(job: Job, todo: deque[int], tick: BlockTick) -> Generator[Done, None, None]:
    """One block after the other, in this process."""
    while todo:
        yield work(job, todo.popleft(), tick)


def processes(job: Job, todo: deque[int], tick: BlockTick, workers: int) -> Generator[Done, None, None]:
    """So many blocks at once, each in a process of its own; a dead process is replaced."""
    said: queue.SimpleQueue[tuple[_Worker, Json | None]] = queue.SimpleQueue()
    crew: list[_Worker] = []
    stillborn = 0
    try:
        while todo or any(worker.number is not None for worker in crew):
            busy = sum(worker.number is not None for worker in crew)
            while len(crew) < min(workers, busy + len(todo)):
                crew.append(_Worker(job, said))
            for worker in crew:
                if worker.ready and worker.number is None and todo:
                    worker.take(todo.popleft())
            worker, message = said.get()
            if message is None:
                crew.remove(worker)
                stillborn = 0 if worker.ready else stillborn + 1
                if worker.number is not None:
                    yield _death(job, worker.number, worker.end())
                elif stillborn >= _STILLBORN:
                    yield Done(-1, error=f"worker processes cannot be started: the last {worker.end()}.", fatal=True)
            elif "ready" in message:
                worker.ready, stillborn = True, 0
            elif "tick" in message:
                tick(message["number"], message["tick"])
            else:
                worker.number = None
                yield Done(**message)
    finally:
        for worker in crew:
            worker.stop()


def _death(job: Job, number: int, end: str) -> Done:
    """What became of a block whose worker has died."""
    if job.limit is None or end != _ENDED:
        return Done(number, kind="worker died", error=f"its worker process {end}")
    late = f"a cell took longer than {job.limit:g} s, and could not be interrupted: its worker process was ended"
    return Done(number, kind=TooLong.__name__, error=late, again=False)


class _Worker:
    """A worker process, seen from here. What it says goes into a queue, and None when it has ended."""

    def __init__(self, job: Job, said: queue.SimpleQueue[tuple[_Worker, Json | None]]) -> None:
        self.number: int | None = None  # the block it is at
        self.ready = False
        self._said = said
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from lazyrich.sweeps.local import _serve; _serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=_environment(),
            start_new_session=True,  # Ctrl-C on a terminal is for this process, which then stops its workers
        )
        threading.Thread(target=self._listen, daemon=True).start()
        self._say(job._asdict())

    def take(self, number: int) -> None:
        self.number = number
        self._say(number)

    def end(self) -> str:
        """How the process ended."""
        code = self._process.wait()
        if code >= 0:
            return f"ended with exit status {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return f"was ended by {name}" + " (was memory short?)" * (name == "SIGKILL")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def _say(self, message: object) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # it has died; the queue will say so
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as answers, suppress(ValueError):  # half a line of one who was killed
            for line in answers:
                self._said.put((self, json.loads(line)))
        self._process.wait()
        self._said.put((self, None))


def _environment() -> dict[str, str]:
    """For a worker: the same modules and device as here, one thread, and memory of a GPU taken as it is needed."""
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    env = {**os.environ, **dict.fromkeys(threads, "1")}
    if not accelerated():
        env.setdefault("PJRT_NPROC", "1")
    env.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    env["PYTHONPATH"] = os.pathsep.join(os.path.abspath(folder) for folder in sys.path)
    if (jax := sys.modules.get("jax")) and jax.config.jax_platforms:
        env["JAX_PLATFORMS"] = jax.config.jax_platforms
    return env


# inside a worker process ------------------------------------------------------------------------------------


def _serve() -> None:
    """Answers requests from standard input until it ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a factory prints must not get among the answers
    asked = os.fdopen(os.dup(0), encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # and what it reads must not be a request
    limits.expendable()
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def listen() -> None:
        for line in asked:
            requests.put(json.loads(line))
        os._exit(0)  # whoever asked has gone, or needs nothing more

    def say(message: Json) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    pending, last = 0.0, time.monotonic()

    def tick(number: int, cells: float) -> None:
        nonlocal pending, last
        pending += cells
        if time.monotonic() - last > _OFTEN:
            say({"number": number, "tick": pending})
            pending, last = 0.0, time.monotonic()

    threading.Thread(target=listen, daemon=True).start()
    job = Job(**requests.get())
    say({"ready": True})
    while True:
        done = work(job, requests.get(), tick)
        pending = 0.0
        say(done._asdict())
