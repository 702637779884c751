"""SIGKILL, twenty times each: of workers, of the runner, and in the middle of a write.

After every kill, what the store says is done is exact; and after the same sweep has been run again, every chunk has
the very bytes of an undisturbed run. The moments come from a seeded generator. They are counted in blocks and in
steps of a write rather than in seconds, so that a fast machine is killed as often in the midst of its work as a slow
one; how often that was so is counted.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import pytest

from lazyrich.sweeps import Sweep
from lazyrich.sweeps.run import run
from lazyrich.sweeps.store import failures, open_store, verify

pytestmark = pytest.mark.processes

KILLS = 20
ROOT = Path(__file__).parents[2]
FILE = """
problem = "random_regression"
method = "solve"
at = [0, 2, 5]
observables = ["loss", "mode_strengths"]
axes = { seed = { range = 30 }, scale = [0.01, 0.5, -1.0] }  # -1 is refused: cells that fail have files of their own
settings = { d_in = 3, h = 3, d_out = 2, samples = 6 }
block = { seed = 1, scale = 2 }
"""
SWEEP = Sweep.from_dict({"name": "kill", **tomllib.loads(FILE)})
# grows on both axes; blocks of three seeds, of which the last has two before
LARGE = dataclasses.replace(SWEEP, name="large", block={"seed": 3, "scale": 1})
SMALL = dataclasses.replace(LARGE, axes={"seed": range(17), "scale": [0.01, 0.5]})

# A process that has loaded everything, and makes runners by fork: each would take a second to start otherwise. A line
# of input is a sweep, a folder, options, and a moment, such as the third time that half a file is written; the answers
# are the runner's process id, the moment when it has come, and how the runner ended.
NURSERY = """
import io, json, os, signal, sys
import zarr, zarr.buffer.cpu, zarr.codecs, zarr.storage
from lazyrich.sweeps import Sweep, disk
from lazyrich.sweeps.run import run

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def stop_at(moment, times):
    "Waits for the end there."

    def step(name):
        nonlocal times
        times -= name == moment
        if times == 0:
            say(name)
            signal.pause()

    def around(module, name):
        whole = getattr(module, name)
        def watched(*arguments):
            step("before " + name)
            result = whole(*arguments)
            step("after " + name)
            return result
        setattr(module, name, watched)

    whole_file = disk.write_atomically
    def in_halves(path, write):
        def half_by_half(stream):
            content = io.BytesIO()
            write(content)
            half = len(content.getvalue()) // 2
            stream.write(content.getvalue()[:half])
            stream.flush()
            step("half a file")
            stream.write(content.getvalue()[half:])
        whole_file(path, half_by_half)

    disk.write_atomically = in_halves
    for name in ("fsync", "replace", "rename"):
        around(os, name)

for line in sys.stdin:
    sweep, out, options, *moment = json.loads(line)
    child = os.fork()
    if not child:
        if moment:
            stop_at(*moment)
        run(Sweep.from_dict(sweep), out, **options)
        os._exit(0)
    say(child)
    say("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

RUNNER = """
import json, sys
from lazyrich.sweeps import Sweep
from lazyrich.sweeps.run import run

lost = run(Sweep.from_dict(json.loads(sys.argv[1])), sys.argv[2], workers=2, retries=0).failed_blocks
print(sum("SIGKILL" in str(cause) for cause in lost.values()))
"""


def python(*arguments: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


class Nursery:
    """Starts runners, and kills them."""

    def __init__(self) -> None:
        self._process = python("-c", NURSERY)
        self._pid = 0

    def start(self, out: Path, *moment: Any, sweep: Sweep = SWEEP, **options: Any) -> None:
        self._process.stdin.write(json.dumps([sweep.as_dict(), str(out), options, *moment]) + "\n")
        self._process.stdin.flush()
        self._pid = int(self.heard())

    def heard(self) -> str:
        return self._process.stdout.readline().strip()

    def running(self) -> bool:
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> bool:
        """Whether it was still running."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        return self.heard() == "ended -9"

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Undisturbed(NamedTuple):
    """What a run gives that nobody kills."""

    data: Any
    files: dict[str, bytes]
    failures: list[dict[str, Any]]


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Undisturbed:
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    found = run(SWEEP, out)
    assert found.complete == 60 and found.failed == 30 and not found.failed_blocks
    return Undisturbed(open_store(out).load(), files_of(out), failures(out))


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


def files_of(out: Path) -> dict[str, bytes]:
    """All files that hold results. Only data.zarr/zarr.json may differ: it says when the folder was made."""
    found = [*(out / "data.zarr").rglob("*"), *(out / "blocks").iterdir()]
    files = {str(path.relative_to(out)): path.read_bytes() for path in found if path.is_file()}
    return {name: content for name, content in files.items() if name != "data.zarr/zarr.json"}


def check_what_is_done(out: Path, reference: Undisturbed) -> None:
    """The store opens, and what it says is done is exact."""
    if not (out / "data.zarr").exists():  # killed before it was there
        assert not out.exists() or [path.name for path in out.iterdir()] in ([], ["partial"])
        return
    data = open_store(out).load()
    there, expected = data.status != 0, reference.data.sel({axis: data[axis] for axis in SWEEP.axes})
    assert data.where(there).identical(expected.where(there).assign_attrs(data.attrs))
    assert all(entry in reference.failures for entry in failures(out))


def check_all(out: Path, reference: Undisturbed) -> None:
    assert files_of(out) == reference.files
    assert failures(out) == reference.failures
    assert open_store(out).equals(reference.data) and verify(out) == []


def wait_for_blocks(out: Path, more: int, running: Callable[[], bool]) -> None:
    """Until so many more blocks are there, or nobody is making them."""
    folder = out / "blocks"
    count = lambda: len(os.listdir(folder)) if folder.exists() else 0
    wanted = count() + more
    while count() < wanted and running():
        time.sleep(0.001)


@pytest.mark.timeout(240)
def test_the_runner_is_killed(tmp_path, reference, nursery, rng):
    kills, folders = 0, [tmp_path / "0"]
    while kills < KILLS:
        nursery.start(folders[-1])
        wait_for_blocks(folders[-1], int(rng.integers(0, 4)), nursery.running)
        time.sleep(rng.uniform(0, 0.02))
        if nursery.kill():
            kills += 1
            check_what_is_done(folders[-1], reference)
        else:  # it had come to its end
            folders.append(tmp_path / str(len(folders)))
    (tmp_path / "kill.toml").write_text(FILE)
    for out in folders:
        command = python("-m", "lazyrich", "sweep", tmp_path / "kill.toml", "--out", out)
        command.communicate()
        assert command.returncode == 0
        check_all(out, reference)


@pytest.mark.timeout(240)
def test_killed_in_the_middle_of_a_write(tmp_path, reference, nursery, rng, record_property):
    steps = ["half a file", "before fsync", "after fsync", "before replace", "after replace"]
    wanted = ["before rename", "after rename", *itertools.islice(itertools.cycle(steps), KILLS - 2)]
    came, folders = [], [tmp_path / "0"]
    while len(came) < KILLS:
        moment = wanted[len(came)]  # the first two are in the making of data.zarr
        nursery.start(folders[-1], moment, 1 if "rename" in moment else int(rng.integers(1, 10)))
        if (heard := nursery.heard()) != moment:  # fewer steps were left
            assert heard == "ended 0"
            folders.append(tmp_path / str(len(folders)))
            continue
        assert nursery.kill()
        came.append(moment)
        check_what_is_done(folders[-1], reference)
    for out in folders:
        run(SWEEP, out)
        check_all(out, reference)
    counts = ", ".join(f"{n} {moment}" for moment, n in Counter(came).items())
    record_property("figure of kills in a write", f"killed in the middle of a write: {counts}")


@pytest.fixture(scope="module")
def grown(tmp_path_factory) -> Undisturbed:
    """The large sweep, by one run."""
    out = tmp_path_factory.mktemp("grown") / "out"
    assert run(LARGE, out).complete == 60
    return Undisturbed(open_store(out).load(), files_of(out), failures(out))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("moments", [("before replace", "after replace", "half a file", "before fsync", "after fsync")])
def test_killed_while_it_grows(tmp_path, grown, nursery, rng, moments):
    """At every file that growing replaces, and at blocks whose old cells are kept."""
    out, kills = tmp_path / "out", 0
    run(SMALL, out)
    for moment, times in itertools.product(moments, (1, 2, 4, 9)):
        nursery.start(out, moment, times, sweep=LARGE, grow=True)
        if nursery.heard() == moment:
            kills += nursery.kill()
        check_what_is_done(out, grown)
    assert kills >= 10
    run(LARGE, out, grow=True)
    check_all(out, grown)


STORY = """
import json, sys
from lazyrich.sweeps import Sweep
from lazyrich.sweeps.run import run

sweep, out, options = json.loads(sys.argv[1])
run(Sweep.from_dict(sweep), out, **options)
"""
RUNNERS = {"1 worker": [{}], "2 workers": [{"workers": 2}], "shards": [{"shard": (1, 2)}, {"shard": (2, 2)}]}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("runner", [*RUNNERS, "Dask"])
def test_twenty_kills_with_growth_in_between(tmp_path, grown, rng, runner, request, record_property):
    options = RUNNERS.get(runner) or [{"scheduler": request.getfixturevalue("dask").scheduler_address}]
    kills, blocks, out, sweep, more = 0, 0, tmp_path / "out", SMALL, {}
    while kills < KILLS:
        if kills == KILLS // 2:
            sweep, more = LARGE, {"grow": True}
            for one in options:  # whatever was left of the small one
                run(SMALL, out, **one)
        programs = [python("-c", STORY, json.dumps([sweep.as_dict(), str(out), one | more])) for one in options]
        running = lambda programs=programs: any(program.poll() is None for program in programs)
        wait_for_blocks(out, int(rng.integers(0, 3)), running)
        time.sleep(rng.uniform(0, 0.02))
        victims = [victim for program in programs if (victim := a_process_of(program.pid, rng))]
        for victim in victims:
            with suppress(psutil.NoSuchProcess):
                victim.kill()
                kills += 1
        for program in programs:
            program.kill()
            program.communicate()
        check_what_is_done(out, grown)
        if not victims and kills < KILLS // 2:  # all is there: another folder
            out = tmp_path / str(blocks := blocks + 1)
    for one in options:
        run(LARGE, out, grow=True, **one)
    check_all(out, grown)
    record_property("figure of kills with growth", f"{runner}: {kills} kills, with growth in between")


def a_process_of(pid: int, rng) -> psutil.Process | None:
    """The runner, or one of its workers."""
    with suppress(psutil.NoSuchProcess):
        runner = psutil.Process(pid)
        if runner.status() != psutil.STATUS_ZOMBIE:
            return rng.choice(np.array([runner, *runner.children()], object))
    return None


@pytest.fixture(scope="module")
def dask():
    from distributed import LocalCluster

    quiet = {"dashboard_address": None, "silence_logs": logging.CRITICAL}
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", **quiet) as here:
        yield here


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_workers_are_killed(tmp_path, reference, rng, record_property):
    kills, in_flight, folders = 0, 0, []
    while kills < KILLS:
        folders.append(tmp_path / str(len(folders)))
        runner = python("-c", RUNNER, json.dumps(SWEEP.as_dict()), folders[-1])
        running = lambda runner=runner: runner.poll() is None
        while running() and kills < KILLS:
            wait_for_blocks(folders[-1], int(rng.integers(1, 3)), running)
            time.sleep(rng.uniform(0, 0.02))
            kills += kill_the_oldest_child(runner.pid)
            check_what_is_done(folders[-1], reference)
        in_flight += int(runner.communicate()[0])
        assert runner.returncode == 0
    for out in folders:
        run(SWEEP, out)
        check_all(out, reference)
    assert in_flight >= KILLS // 2  # the others hit a worker between two blocks
    record_property("figure of killed workers", f"workers killed: {kills}, of which {in_flight} at a block")


def kill_the_oldest_child(pid: int) -> int:
    """The one at work: a younger one may still be loading NumPy."""
    try:
        children = sorted(psutil.Process(pid).children(), key=lambda child: child.create_time())
        children[0].kill()
    except (psutil.NoSuchProcess, IndexError):
        return 0
    return 1
