"""Goes through the blocks of a sweep that are not there yet, with whatever workers there are, and says how it went.

The blocks are independent, and the store knows which are done: to run again is to resume. Several runs may share one
folder, and none computes what another is at; `shard` i/n takes every nth block alone. A cell that cannot be computed is
a result like others, with its cause. A block fails when its computation breaks altogether (memory, a bug, its process),
or some cells of it met a fault of the machine: it is tried again, then reported, and stays to be done; the others go
on.
"""

from __future__ import annotations

import operator
import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import reduce
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._progress import watched
from lazyrich._typing import Array
from lazyrich.sweeps import cluster, limits, local
from lazyrich.sweeps.fingerprint import differences, digest, fingerprint
from lazyrich.sweeps.folder import as_folder
from lazyrich.sweeps.grid import Cause, Grid, Json
from lazyrich.sweeps.store import Damage, Failure, Store, by_kind, failures, place_of, summary
from lazyrich.sweeps.telling import Tell, Teller

_LOG_EVERY = 30.0  # seconds between two lines in a log
_BAR_EVERY, _BAR_AFTER = 0.5, 2.0  # seconds between two looks of a bar, and before the first
_BAR = "{percentage:3.0f}%|{bar}| {desc}"
_CAUSES = 8  # kinds of failure that a summary shows
_DAMAGES = 20  # files named one by one
_BUSY = 0.2  # seconds before those blocks are asked for again that other processes are at


@dataclass(frozen=True)
class Summary:
    """What a folder holds after a run, and what the run did. `print` shows it.

    >>> import tempfile
    >>> sweep = lr.sweeps.Sweep("tiny", "random_regression", axes={"seed": [0, 1]}, at=[0, 10], method="solve")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = lr.sweeps.run(sweep, folder)
    >>> done.cells, done.complete, done.failures
    (2, 2, [])
    """

    cells: int
    complete: int
    stopped: int  # diverged or stalled: values up to then are there
    failed: int
    computed: int  # cells, by this run
    seconds: float
    failures: list[Failure]  # cells
    failed_blocks: dict[int, Cause]  # by this run: number → cause; they are still to be done
    pending_here: int = 0  # cells of the share of this run that are still to be done
    damaged: list[str] = field(default_factory=list)  # files that were not what was written

    @property
    def pending(self) -> int:
        """Cells that are not there yet."""
        return self.cells - self.complete - self.stopped - self.failed

    def __str__(self) -> str:
        counts = {"stopped": self.stopped, "failed": self.failed, "to be done": self.pending}
        found = [f"{self.complete:,} complete", *(f"{n:,} {what}" for what, n in counts.items() if n)]
        rate = f", {self.computed / self.seconds:.3g} cells/s" if self.computed and self.seconds else ""
        lines = [
            f"{self.cells:,} cells: {', '.join(found)}.",
            f"{self.computed:,} computed now in {_in_words(self.seconds)}{rate}.",
        ]
        blocks: list[Failure] = [
            {
                "cell": {"block": number},
                "status": "block failed",
                "observable": "",
                "kind": cause.kind,
                "cause": cause.message,
            }
            for number, cause in self.failed_blocks.items()
        ]
        cells = [entry for entry in self.failures if entry["status"] != "pending"]  # these the blocks tell
        kinds = by_kind([*cells, *blocks])
        for alike in kinds[:_CAUSES]:
            first = alike[0]
            what = f"without {first['observable']}" if first["observable"] else first["status"]
            why = f"{what}: {first['cause'].rstrip('.')} (such as {place_of(first)})"
            lines.append(f"{len(alike):>8,} × {why}")
        return "\n".join(lines + [f"{'':10} and {len(kinds) - _CAUSES:,} other causes"] * (len(kinds) > _CAUSES))


def run(
    sweep: Grid,
    out: str | Path,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    shard: tuple[int, int] | None = None,
    retries: int = 2,
    limit: float | None = None,
    retry_failed: bool = False,
    verify: bool = False,
    grow: bool = False,
    mixed: bool = False,
    tell: Tell | None = None,
) -> Summary:
    """Computes what is missing of a sweep or an experiment into a folder: here, in processes, or on a Dask cluster.

    Each process computes on one thread, so that all runners give the same bits. JAX on the CPU then keeps to that
    thread as long as the process lives; where it has started before on several, another process is taken instead (but
    not for a problem factory of your own).

    Parameters
    ----------
    sweep : a Sweep or an Experiment
    out : folder of the results
    workers : processes; 1 means this one
    scheduler : address of a Dask scheduler
    shard : (i, n), the ith of n runs that share a folder
    retries : how often a block is tried again that breaks, or that has cells which met a fault of the machine
    limit : seconds that a cell may take, or a stack of cells that are trained together for each of them; one that
        takes longer is left to be done
    retry_failed : try cells again that have failed
    verify : read all that is there, and compute again what is damaged; without it, what is missing or has another size
    grow : add what is new on the axes to a folder that holds the rest
    mixed : go on in a folder whose cells were computed by other versions or other functions
    tell : a function that is called with each block as it is there, to log it: f(block), with block.data, a Dataset of
        its cells, and block.computed, the cells so far

    Returns
    -------
    Summary : what the folder holds, and what this run did

    >>> import tempfile
    >>> from lazyrich.sweeps import Sweep
    >>> sweep = Sweep("mine", "random_regression", axes={"seed": [0, 1]}, at=[0, 2], settings={"d_in": 3, "d_out": 2})
    >>> with tempfile.TemporaryDirectory() as out:
    ...     first, second = run(sweep, out), run(sweep, out)
    >>> first.complete, first.computed, second.complete, second.computed
    (2, 2, 2, 0)
    """
    if not isinstance(sweep, Grid):
        raise InvalidInput(
            f"sweep must be a Sweep or an Experiment, and it is {_check.shown(sweep)}: try lr.papers.sweep(name) or "
            "lr.papers.experiment(name), or from_toml(path) of either."
        )
    out = as_folder(out).absolute()
    workers, retries = _check.count("workers", workers), _check.count("retries", retries, least=0)
    first, runs = _as_shard(shard)
    limit = None if limit is None else _check.positive("limit", limit)
    if scheduler is not None and workers != 1:
        raise InvalidInput(f"workers must be 1 with a scheduler, which has workers of its own, and it is {workers}.")
    alone = workers == 1 and scheduler is None
    if not alone:
        local.as_text(sweep)  # what other processes could not find is said before anything is made
    start, own = time.perf_counter(), fingerprint(sweep)  # before a function is called, which may fill a cache
    with _resumable(), ExitStack() as stack:
        client = None if scheduler is None else stack.enter_context(cluster.connected(scheduler))
        hands = (workers if client is None else cluster.threads_of(client)) * runs
        with local.one_thread(), limits.limited(limit):  # looking at the first cell may start JAX
            store = Store.open_or_create(out, sweep, hands=hands, grow=grow)
        damaged = _mend(store, verify, retry_failed)
        left, sizes = store.left(), _block_sizes(store.grid)
        mine = np.arange(len(left)) % runs == first
        todo = deque(np.flatnonzero(mine & (left > 0)).tolist())
        code = _enter_code(store, own, mixed) if todo else ""
        report = stack.enter_context(_Report(sweep.name, sizes, mine, left))
        job = local.Job(store.grid, str(store.out), code, limit)
        apart = limit is not None or not local.threads_are_right(sweep)
        if alone and not (apart and local.portable(sweep)):
            outcomes = local.here(job, todo, report.tick)
        else:
            job = job._replace(grid=local.as_text(store.grid))
            outcomes = (
                local.processes(job, todo, report.tick, workers)
                if client is None
                else cluster.on_cluster(job, todo, client)
            )
        teller = None if tell is None else Teller(store, tell)
        failed_blocks, computed = _gather(outcomes, todo, retries, report, teller)
    counts = summary(out)
    return Summary(
        cells=store.grid.cells,
        complete=counts["complete"],
        stopped=counts["stopped"],
        failed=counts["failed"],
        computed=computed,
        seconds=time.perf_counter() - start,
        failures=failures(out),
        failed_blocks=failed_blocks,
        pending_here=int(store.left()[mine].sum()),
        damaged=[str(damage) for damage in damaged],
    )


def _mend(store: Store, thorough: bool, retry_failed: bool) -> list[Damage]:
    """Whatever is damaged is to be computed again, and said; what has failed too, if that is asked for."""
    damaged = store.damages(thorough=thorough)
    for damage in damaged[:_DAMAGES]:
        print(f"lazyrich: {damage}: its block is computed again.", file=sys.stderr)
    if len(damaged) > _DAMAGES:
        print(f"lazyrich: and {len(damaged) - _DAMAGES:,} other files.", file=sys.stderr)
    store.forget(damage.block for damage in damaged)
    if retry_failed:
        store.forget_failures()
    return damaged


def _enter_code(store: Store, own: Json, mixed: bool) -> str:
    """The fingerprint of what will compute, kept in the folder; refused beside another one, unless told."""
    code = digest(own)
    others = sorted(store.codes() - {code})
    if others and not mixed:
        lines = "".join(f"\n  {line}" for line in differences(store.code_of(others[0]), own))
        raise InvalidInput(
            f"{store.out} holds cells of other code: try another folder, or mixed=True (--mixed) to compute the others "
            f"by what is here now. Stored → here:{lines}"
        )
    store.keep_code(code, own)
    return code


def _gather(
    outcomes: Generator[local.Done, None, None],
    todo: deque[int],
    retries: int,
    report: _Report,
    teller: Teller | None = None,
) -> tuple[dict[int, Cause], int]:
    """Reads a runner to its end; what failed, or is with another process, comes again into `todo`. The blocks that
    failed for good, with causes, and how many cells were computed."""
    tries: Counter[int] = Counter()
    lost: dict[int, Cause] = {}
    busy: set[int] = set()
    computed = 0
    with closing(outcomes):
        for done in outcomes:
            if done.fatal:
                raise InvalidInput(done.error)
            if done.busy:
                if busy.issuperset({done.number, *todo}):  # nothing is left that nobody is at
                    time.sleep(_BUSY)
                busy.add(done.number)
                todo.append(done.number)
                continue
            computed += done.computed
            if teller and done.computed:
                teller.block(done.number, computed)
            if done.error and done.again and tries[done.number] < retries:
                tries[done.number] += 1
                todo.append(done.number)
            elif done.error:
                lost[done.number] = Cause(done.kind, done.error)
            report.add(done, lost=done.number in lost)
    return lost, computed


@contextmanager
def _resumable() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        print("lazyrich: interrupted; what was finished is kept, and the same command resumes.", file=sys.stderr)
        raise


def _as_shard(shard: object) -> tuple[int, int]:
    """Which of how many runs, from 0."""
    try:
        i, n = (1, 1) if shard is None else map(operator.index, shard)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        i, n = 0, 0
    if not 1 <= i <= n:
        raise InvalidInput(f"shard must be (i, n) with i from 1 to n, and it is {_check.shown(shard)}.")
    return i - 1, n


def _block_sizes(grid: Grid) -> Array:
    """Cells, by number of block."""
    along = (np.minimum(b, n - np.arange(0, n, b)) for n, b in zip(grid.shape, grid.block_shape, strict=True))
    return np.ravel(reduce(np.multiply.outer, along))


# in words ---------------------------------------------------------------------------------------------------


class _Report:
    """Live progress on stderr: a bar where somebody is looking, a line now and then in a log.

    LAZYRICH_PROGRESS=0 forbids both, and 1 forces the bar. A thread shows the numbers; the run only moves them.
    """

    def __init__(self, name: str, sizes: Array, mine: Array, left: Array) -> None:
        self._name, self._left = name, left.copy()  # cells to be done, of each block
        self._total, self._resumed = int(sizes[mine].sum()), int((sizes - left)[mine].sum())
        self._finished, self._failed = self._resumed, 0
        self._under_way: dict[int, float] = {}  # block → cells' worth of work
        self._start = time.perf_counter()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def tick(self, number: int, cells: float) -> None:
        """A block has come on by so many cells' worth of work."""
        self._under_way[number] = self._under_way.get(number, 0.0) + cells

    def add(self, done: local.Done, *, lost: bool) -> None:
        """A block has come back."""
        size = int(self._left[done.number])
        self._under_way.pop(done.number, None)
        self._left[done.number] -= (finished := done.computed if done.error else size)
        self._finished += finished
        self._failed += size - finished if lost else done.failed

    def _state(self) -> tuple[float, str]:
        now = min(self._total, self._finished + sum(list(self._under_way.values())))
        rate = (now - self._resumed) / (time.perf_counter() - self._start)
        parts = [f"{int(now):,} of {self._total:,} cells"]
        if now - self._resumed >= 1:  # cells that were there count for nothing
            parts += [f"{rate:.3g} cells/s", f"{_in_words((self._total - now) / rate)} left"]
        return now, ", ".join(parts + [f"{self._failed:,} failed"] * (self._failed > 0))

    def __enter__(self) -> _Report:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _show(self) -> None:
        if os.environ.get("LAZYRICH_PROGRESS") == "0":
            return
        if not (watched() and find_spec("tqdm")):
            while not self._over.wait(_LOG_EVERY):
                print(f"lazyrich: {self._name}: {self._state()[1]}", file=sys.stderr, flush=True)
        elif not self._over.wait(_BAR_AFTER):
            from tqdm import tqdm

            with tqdm(total=self._total, bar_format=_BAR, file=sys.stderr, leave=False) as bar:
                while not self._over.wait(_BAR_EVERY):
                    bar.n, line = self._state()
                    bar.set_description_str(f"{self._name}: {line}")


def _in_words(seconds: float) -> str:
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"
