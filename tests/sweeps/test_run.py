"""Every runner gives the same bytes; whatever dies, breaks or is interrupted, the rest goes on and nothing is lost."""

from __future__ import annotations

import errno
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from lazyrich._check import InvalidInput
from lazyrich.sweeps import local, store
from lazyrich.sweeps.compute import compute
from lazyrich.sweeps.grid import Cause
from lazyrich.sweeps.problems import Cell, random_regression
from lazyrich.sweeps.run import Summary, run
from lazyrich.sweeps.store import Failure, open_store
from lazyrich.sweeps.sweep import Sweep

pytestmark = pytest.mark.timeout(120)

runs = importlib.import_module("lazyrich.sweeps.run")  # the package has a function of that name
_SEEDS = 6
_HERE = Path(__file__).parent
_SOURCE = Path(runs.__file__).parents[2]


# factories of problems, found by other processes under the name of this module ------------------------------


def tiny(seed: int, scale: float = 0.1) -> Cell:
    return random_regression(seed, d_in=3, h=3, d_out=3, samples=5, scale=scale)


def slow(seed: int, notes: str) -> Cell:
    """Notes which process it is in, and takes its time."""
    (Path(notes) / f"{os.getpid()}").touch()
    time.sleep(0.2)
    return tiny(seed)


def fragile(seed: int, notes: str) -> Cell:
    """Its process is killed on the first try, of two seeds."""
    if seed in (1, 4) and _first(Path(notes) / f"{seed}"):
        os.kill(os.getpid(), signal.SIGKILL)
    return tiny(seed)


def deadly(seed: int) -> Cell:
    """No process survives one of the seeds."""
    if seed == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return tiny(seed)


def talkative(seed: int) -> Cell:
    print(f"a word from {os.getpid()}", flush=True)
    return tiny(seed)


def picky(seed: int, scale: float = 0.1) -> Cell:
    if seed == 2:
        raise KeyError("seed 2 is not welcome")
    return tiny(seed, scale)


def _first(mark: Path) -> bool:
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


# helpers ----------------------------------------------------------------------------------------------------


def small(problem: Any = tiny, **more: Any) -> Sweep:
    """A cell per block."""
    return Sweep("small", problem, **{"axes": {"seed": range(_SEEDS)}, "at": [0, 2, 5], "block": {"seed": 1}, **more})


def chunks(out: Path) -> dict[str, bytes]:
    """Every number of a store, as it lies on the disk."""
    data = out / "data.zarr"
    return {str(path.relative_to(data)): path.read_bytes() for path in data.rglob("*") if path.name.startswith("c.")}


def python(code: str, *arguments: Any, **options: Any) -> subprocess.Popen[str]:
    """A program of its own, which knows lazyrich and this module."""
    path = os.pathsep.join([str(_SOURCE), str(_HERE.parent), os.environ.get("PYTHONPATH", "")])
    env = {name: value for name, value in os.environ.items() if name != "PJRT_NPROC"}  # which the tests set for JAX
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        env=env | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def wait_for(what: Callable[[], Any], seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
    return found


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often each block is computed in this process."""
    counts: Counter[int] = Counter()

    def counting(sweep: Sweep, block: Any, tick: Any) -> Any:
        counts[block.number] += 1
        return compute(sweep, block, tick)

    monkeypatch.setattr(Sweep, "compute", counting)
    return counts


# the same bytes ---------------------------------------------------------------------------------------------

_SAME = {
    "descend": ({"seed": range(4), "scale": [0.01, 1.0]}, {"d_in": 3, "h": 3, "d_out": 2}, {}),
    "solve": ({"seed": range(4)}, {"d_in": 3, "h": 3, "d_out": 2}, {"method": "solve"}),
    "students": ({"seed": [0, 1], "tau": [0.5, 1.0]}, {"d": 40, "h": 20, "n": 300, "test": 20}, {"at": [0, 3, 8]}),
    # several threads would add up the kernel in another order
    "kernel": ({"seed": [0, 1], "tau": [0.5, 1.0]}, {"d": 10, "h": 4, "n": 600, "test": 20}, {}),
}


def _same(kind: str) -> Sweep:
    axes, settings, more = _SAME[kind]
    problem, observables = "random_regression", ["loss"]
    if "tau" in axes:
        problem, observables = "teacher_student", ["loss", "test_loss", "kernel_distance"]
    parts = {"axes": axes, "at": [0, 2, 5], "settings": settings, "observables": observables}
    return Sweep(kind, problem, **parts | more).with_block(2)


def _run_alone(sweep: Sweep, out: Path, first: str) -> None:
    """In a process of its own, after some Python."""
    code = f"""
        import json, sys
        from lazyrich.sweeps.sweep import Sweep
        from lazyrich.sweeps.run import run
        {first}
        run(Sweep.from_dict(json.loads(sys.argv[1])), sys.argv[2])
        print("threads of XLA:", __import__("os").environ.get("PJRT_NPROC"))
    """
    program = python(code, json.dumps(sweep.as_dict()), out)
    answer, complaint = program.communicate()
    assert program.returncode == 0, complaint
    assert answer == "threads of XLA: None\n"  # what a run sets for itself does not stay


@pytest.mark.processes
@pytest.mark.parametrize("kind", _SAME)
def test_processes_give_the_bytes_of_one_process(kind: str, tmp_path: Path) -> None:
    sweep = _same(kind)
    _run_alone(sweep, tmp_path / "one", "")
    assert run(sweep, tmp_path / "two", workers=2).complete == sweep.cells
    assert len(chunks(tmp_path / "two")) >= 2 * sweep.blocks
    assert chunks(tmp_path / "one") == chunks(tmp_path / "two")


@pytest.mark.slow
def test_a_process_where_jax_runs_on_all_cores_gives_the_same_bytes(tmp_path: Path) -> None:
    sweep = _same("kernel")
    _run_alone(sweep, tmp_path / "one", "import jax.numpy as jnp; jnp.ones(3).block_until_ready()")
    run(sweep, tmp_path / "two", workers=2)
    assert chunks(tmp_path / "one") == chunks(tmp_path / "two")


def test_shards_make_the_whole(tmp_path: Path) -> None:
    sweep, whole, parts = small(), tmp_path / "whole", tmp_path / "parts"
    run(sweep, whole)
    summaries = [run(sweep, parts, shard=(i, 4)) for i in (1, 2, 3, 4)]
    assert [summary.computed for summary in summaries] == [2, 2, 1, 1]
    assert [summary.pending for summary in summaries] == [4, 2, 1, 0]
    assert chunks(parts) == chunks(whole)


def test_a_shard_without_blocks_has_nothing_to_do(tmp_path: Path) -> None:
    assert run(small(), tmp_path / "out", shard=(9, 9)).computed == 0


def test_blocks_are_chosen_where_the_sweep_leaves_them_open(tmp_path: Path) -> None:
    sweep = small(block={}, axes={"seed": range(3), "scale": [0.1, 0.2]})
    assert run(sweep, tmp_path / "out").complete == 6
    assert run(sweep, tmp_path / "out").computed == 0


# resuming ---------------------------------------------------------------------------------------------------


def test_only_what_is_missing_is_computed(tmp_path: Path, computed: Counter[int]) -> None:
    sweep, out = small(), tmp_path / "out"
    run(sweep, out, shard=(2, 3))
    assert computed == {1: 1, 4: 1}
    before = chunks(out)
    (out / "blocks" / "4.json").unlink()
    assert run(sweep, out).computed == 5
    assert computed == {0: 1, 1: 1, 2: 1, 3: 1, 4: 2, 5: 1}
    assert chunks(out).items() >= before.items()
    summary = run(sweep, out)
    assert (summary.complete, summary.computed) == (_SEEDS, 0)
    assert sum(computed.values()) == 7


def test_work_computes_nothing_that_is_there(tmp_path: Path, computed: Counter[int]) -> None:
    sweep, out = small(), tmp_path / "out"
    run(sweep, out, shard=(1, 6))
    assert local.work(local.Job(sweep, str(out)), 0) == local.Done(0)
    assert local.work(local.Job(sweep, str(out)), 1) == local.Done(1, computed=1)
    assert computed == {0: 1, 1: 1}


def test_one_block_at_a_time_in_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster may give a worker several threads, and JAX must not meet itself there."""
    inside: list[int] = []

    def watching(sweep: Sweep, block: Any, tick: Any) -> Any:
        inside.append(block.number)
        time.sleep(0.05)
        assert inside == [block.number]
        inside.clear()
        return compute(sweep, block, tick)

    sweep, out = small(), tmp_path / "out"
    run(sweep, out, shard=(6, 6))
    monkeypatch.setattr(Sweep, "compute", watching)
    with ThreadPoolExecutor(4) as pool:
        job = local.Job(sweep, str(out))
        expected = [local.Done(n, computed=1) for n in range(4)]
        assert list(pool.map(lambda n: local.work(job, n), range(4))) == expected


# what goes wrong --------------------------------------------------------------------------------------------


@pytest.mark.processes
@pytest.mark.parametrize("workers", [1, 2])
def test_one_bad_cell_never_stops_a_sweep(workers: int, tmp_path: Path) -> None:
    axes = {"seed": range(4), "scale": [0.1, 1e12]}  # the second diverges
    sweep = small(picky, axes=axes, block={"seed": 2, "scale": 2}, rate=1.0)
    summary = run(sweep, tmp_path / "out", workers=workers)
    assert (summary.complete, summary.stopped, summary.failed, summary.pending) == (3, 3, 2, 0)
    assert not summary.failed_blocks
    causes = {(entry["cell"]["seed"], entry["cell"]["scale"]): entry for entry in summary.failures}
    assert {place: entry["status"] for place, entry in causes.items()} == {
        **{(seed, 1e12): "stopped" for seed in (0, 1, 3)},
        **{(2, scale): "failed" for scale in (0.1, 1e12)},
    }
    assert "seed 2 is not welcome" in causes[2, 0.1]["cause"]
    assert "diverged" in causes[0, 1e12]["cause"]
    alone = run(small(axes={"seed": range(4), "scale": [0.1, 1e12]}, rate=1.0), tmp_path / "alone")
    assert alone.complete == 4
    good = open_store(tmp_path / "out").loss.sel(seed=[0, 1, 3], scale=0.1)
    np.testing.assert_allclose(good, open_store(tmp_path / "alone").loss.sel(seed=[0, 1, 3], scale=0.1), rtol=1e-12)


def test_a_block_that_breaks_is_tried_again_then_reported_and_stays_to_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: Counter[int] = Counter()
    faults = {1: 2, 3: 99}  # block → how often it breaks

    def breaking(sweep: Sweep, block: Any, tick: Any) -> Any:
        tries[block.number] += 1
        if tries[block.number] <= faults.get(block.number, 0):
            raise MemoryError("9 GiB\n  wanted")
        return compute(sweep, block, tick)

    monkeypatch.setattr(Sweep, "compute", breaking)
    sweep, out = small(), tmp_path / "out"
    summary = run(sweep, out, retries=2)
    assert tries == {0: 1, 1: 3, 2: 1, 3: 3, 4: 1, 5: 1}
    assert told(summary.failed_blocks) == {3: "MemoryError: 9 GiB wanted"}
    assert (summary.complete, summary.pending, summary.computed) == (5, 1, 5)
    faults.clear()
    again = run(sweep, out)
    assert (again.complete, again.computed, again.failed_blocks) == (6, 1, {})
    run(sweep, tmp_path / "whole")
    assert chunks(out) == chunks(tmp_path / "whole")


def test_without_retries_there_is_one_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    def broken(sweep: Sweep, block: Any, tick: Any) -> Any:
        tries.append(block.number)
        raise RuntimeError

    monkeypatch.setattr(Sweep, "compute", broken)
    summary = run(small(), tmp_path / "out", retries=0)
    assert tries == list(range(_SEEDS)) == list(summary.failed_blocks)


def test_a_full_disk_ends_the_run_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep, out = small(), tmp_path / "out"
    run(sweep, out, shard=(1, 6))

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store, "put", full)
        with pytest.raises(InvalidInput, match=r"^\S+/out cannot be used: No space left on device\.$"):
            run(sweep, out)
    assert run(sweep, out).computed == 5


def test_a_folder_that_vanishes_ends_the_run_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep, out = small(), tmp_path / "out"

    def vanishing(sweep: Sweep, block: Any, tick: Any) -> Any:
        if block.number == 2:
            out.rename(tmp_path / "elsewhere")
        return compute(sweep, block, tick)

    monkeypatch.setattr(Sweep, "compute", vanishing)
    with pytest.raises(InvalidInput, match=r"^\S+/out\S* cannot be (used|read): No such file or directory\.$"):
        run(sweep, out)
    assert not out.exists()


# processes that die -----------------------------------------------------------------------------------------


@pytest.mark.processes
def test_blocks_of_killed_workers_are_computed_by_others(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    sweep = small(fragile, settings={"notes": str(tmp_path / "notes")})
    summary = run(sweep, tmp_path / "out", workers=2)
    assert sorted(mark.name for mark in (tmp_path / "notes").iterdir()) == ["1", "4"]  # both were killed
    assert (summary.complete, summary.computed, summary.failed_blocks) == (_SEEDS, _SEEDS, {})
    run(small(), tmp_path / "whole", workers=2)
    assert chunks(tmp_path / "out") == chunks(tmp_path / "whole")


@pytest.mark.processes
def test_a_block_that_no_process_survives_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    summary = run(small(deadly), tmp_path / "out", workers=2, retries=1)
    assert (summary.complete, summary.pending) == (_SEEDS - 1, 1)
    assert told(summary.failed_blocks) == {2: "its worker process was ended by SIGKILL (was memory short?)"}


@pytest.mark.processes
def test_what_a_factory_prints_does_not_disturb(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(small(talkative), tmp_path / "out", workers=2).complete == _SEEDS
    printed = capfd.readouterr()
    assert set(printed.out.splitlines()) == {f"a word from {os.getpid()}"}  # where the first cell was looked at
    assert printed.err.count("a word from") >= _SEEDS


def test_workers_that_cannot_start_end_the_run_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local.sys, "executable", "/bin/false")
    with pytest.raises(
        InvalidInput, match=r"^worker processes cannot be started: the last ended with exit status 1\.$"
    ):
        run(small(), tmp_path / "out", workers=2)


_LONG_RUN = """
    import sys
    from sweeps.test_run import slow, small
    from lazyrich.sweeps.run import run
    run(small(slow, axes={"seed": range(1000)}, settings={"notes": sys.argv[1]}), sys.argv[2], workers=2)
"""


def _long_run(tmp_path: Path) -> tuple[subprocess.Popen[str], list[int]]:
    """A run of two workers, some blocks on its way, and the workers' process ids."""
    notes, out = tmp_path / "notes", tmp_path / "out"
    notes.mkdir()
    program = python(_LONG_RUN, notes, out, start_new_session=True)
    wait_for(lambda: len(list((out / "blocks").glob("*.json"))) >= 4)
    workers = [int(mark.name) for mark in notes.iterdir() if int(mark.name) != program.pid]
    assert len(workers) == 2
    assert all(map(alive, workers))
    return program, workers


def _prefix_is_right(tmp_path: Path) -> None:
    """What a run left behind is what another one computes, and can be gone on with."""
    done = int((open_store(tmp_path / "out").status != 0).sum())
    assert done >= 4
    sweep = small(slow, axes={"seed": range(1000)}, settings={"notes": str(tmp_path / "notes")})
    assert run(sweep, tmp_path / "out", shard=(1000, 1000)).complete == done + 1
    run(small(axes={"seed": range(20)}), tmp_path / "whole", workers=2)
    ours, theirs = chunks(tmp_path / "out"), chunks(tmp_path / "whole")
    common = [name for name in ours if name.startswith(("loss", "status")) and name in theirs]
    assert len(common) >= 8
    assert all(ours[name] == theirs[name] for name in common)


@pytest.mark.processes
def test_workers_end_with_a_runner_that_is_killed(tmp_path: Path) -> None:
    program, workers = _long_run(tmp_path)
    program.kill()
    program.wait()
    wait_for(lambda: not any(map(alive, workers)), seconds=10)
    _prefix_is_right(tmp_path)


@pytest.mark.processes
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_cleanly_and_says_how_to_go_on(tmp_path: Path) -> None:
    program, workers = _long_run(tmp_path)
    program.send_signal(signal.SIGINT)
    _, complaint = program.communicate(timeout=20)
    assert not any(map(alive, workers))
    assert program.returncode == -signal.SIGINT  # Python's end after a KeyboardInterrupt that nobody caught
    said = complaint.partition("Traceback")[0]
    assert said == "lazyrich: interrupted; what was finished is kept, and the same command resumes.\n"
    assert complaint.count("Traceback") == 1
    _prefix_is_right(tmp_path)


# memory -----------------------------------------------------------------------------------------------------


@pytest.mark.processes
def test_ten_thousand_cells_take_no_more_memory_than_a_thousand(tmp_path: Path) -> None:
    code = """
        import sys
        import psutil
        from lazyrich.sweeps import local
        from lazyrich.sweeps.sweep import Sweep
        from lazyrich.sweeps.run import run

        resident, work = [], local.work

        def watched(*arguments):
            done = work(*arguments)
            resident.append(psutil.Process().memory_info().rss / 2**20)
            return done

        local.work = watched
        axes = {"seed": {"range": 100}, "scale": {"linspace": [0.1, 1.0, 100]}}
        sweep = Sweep("many", "random_regression", axes=axes, at=[0, 5], settings={"d_in": 2, "h": 2, "d_out": 2})
        summary = run(sweep.with_block(50), sys.argv[1])
        print(summary.complete, len(resident), max(resident[20:]) - resident[19])
    """
    program = python(code, tmp_path / "out")
    answer, complaint = program.communicate()
    assert program.returncode == 0, complaint
    cells, blocks, growth = answer.split()
    assert (int(cells), int(blocks)) == (10_000, 200)
    assert float(growth) < 16  # MiB, of about 250: what all blocks gave would be small, but a leak of JAX's is not


# what is said -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"workers": 0}, "workers must be at least 1, and it is 0."),
        ({"workers": 1.5}, "workers must be a whole number, and it is 1.5."),
        ({"retries": -1}, "retries must be at least 0, and it is -1."),
        ({"shard": (0, 3)}, "shard must be (i, n) with i from 1 to n, and it is (0, 3)."),
        ({"shard": (4, 3)}, "shard must be (i, n) with i from 1 to n, and it is (4, 3)."),
        ({"shard": (1, 2, 3)}, "shard must be (i, n) with i from 1 to n, and it is (1, 2, 3)."),
        ({"shard": (1.0, 2)}, "shard must be (i, n) with i from 1 to n, and it is (1.0, 2)."),
        (
            {"workers": 2, "scheduler": "tcp://127.0.0.1:1"},
            "workers must be 1 with a scheduler, which has workers of its own, and it is 2.",
        ),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_bad_options_get_one_sentence_and_make_no_folder(options: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=f"^{re.escape(sentence)}$"):
        run(small(), tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_factory_without_a_name_works_here_and_nowhere_else(tmp_path: Path) -> None:
    def inner(seed: int) -> Cell:
        return tiny(seed)

    assert run(small(inner), tmp_path / "here").complete == _SEEDS
    with pytest.raises(
        InvalidInput, match=r"^problem must be at the top of a module .*<locals>\.inner: try a file of its"
    ):
        run(small(inner), tmp_path / "out", workers=2)
    assert not (tmp_path / "out").exists()


def test_a_factory_of_the_main_program_is_refused_for_other_processes(tmp_path: Path) -> None:
    code = """
        import sys
        from sweeps.test_run import small, tiny
        from lazyrich.sweeps.run import run

        def mine(seed: int):
            return tiny(seed)

        print(run(small(mine), sys.argv[1]).complete)
        try:
            run(small(mine), sys.argv[2], workers=2)
        except ValueError as error:
            print(error)
    """
    answer, _ = python(code, tmp_path / "a", tmp_path / "b").communicate()
    assert answer.startswith(f"{_SEEDS}\nproblem must be at the top of a module for other processes to find it, and it")


def test_a_configuration_that_names_code_is_not_believed() -> None:
    """Only `work` looks a factory up by its name, and only for a sweep that a program has built."""
    with pytest.raises(InvalidInput, match="problem must be one of"):
        Sweep.from_dict(small().as_dict() | {"problem": "os:system"})


def told(failed_blocks: dict[int, Cause]) -> dict[int, str]:
    return {number: str(cause) for number, cause in failed_blocks.items()}


def failure(seed: int, tau: float, status: str, kind: str, cause: str) -> Failure:
    return {"cell": {"seed": seed, "tau": tau}, "status": status, "observable": "", "kind": kind, "cause": cause}


def test_summary_in_words() -> None:
    failures = [
        failure(s, 0.5, "stopped", "stopped", f"diverged between steps {s} and {10 * s}.") for s in range(1, 1201)
    ]
    failures.append(failure(7, 2.0, "failed", "KeyError", "KeyError: 'x'"))
    summary = Summary(
        5000, 3700, 1200, 1, 4000, 200.0, failures, {17: Cause("MemoryError", "MemoryError: 9 GiB wanted")}
    )
    assert summary.pending == 99
    assert str(summary) == "\n".join(
        [
            "5,000 cells: 3,700 complete, 1,200 stopped, 1 failed, 99 to be done.",
            "4,000 computed now in 3.33 min, 20 cells/s.",
            "   1,200 × stopped: diverged between steps 1 and 10 (such as seed=1, tau=0.5)",
            "       1 × failed: KeyError: 'x' (such as seed=7, tau=2.0)",
            "       1 × block failed: MemoryError: 9 GiB wanted (such as block=17)",
        ]
    )
    assert str(Summary(2, 2, 0, 0, 0, 0.0, [], {})) == "2 cells: 2 complete.\n0 computed now in 0 s."


def test_many_causes_are_cut_short() -> None:
    failures = [failure(0, 1.0, "failed", f"kind {n}", "x") for n in range(11)]
    lines = str(Summary(11, 0, 0, 11, 11, 1.0, failures, {})).splitlines()
    assert len(lines) == 11
    assert lines[-1].strip() == "and 3 other causes"


class TestProgress:
    sizes = np.array([10, 10, 10, 4])
    everything = np.ones(4, bool)

    def report(self, monkeypatch: pytest.MonkeyPatch, seconds: float, done: list[bool]) -> Any:
        clock = iter([100.0, *[100.0 + seconds] * 100])
        monkeypatch.setattr(runs.time, "perf_counter", lambda: next(clock))
        return runs._Report("mine", self.sizes, self.everything, np.where(done, 0, self.sizes))

    def test_resumed_cells_do_not_count_into_the_rate(self, monkeypatch: pytest.MonkeyPatch) -> None:
        report = self.report(monkeypatch, 5.0, [True, True, False, False])
        report.add(local.Done(2, failed=3), lost=False)
        assert report._state() == (30, "30 of 34 cells, 2 cells/s, 2 s left, 3 failed")

    def test_blocks_under_way_count_until_they_come_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        report = self.report(monkeypatch, 10.0, [False] * 4)
        report.tick(0, 2.5)
        report.tick(0, 2.5)
        report.tick(1, 5.0)
        assert report._state()[1] == "10 of 34 cells, 1 cells/s, 24 s left"
        report.add(local.Done(0, error="lost"), lost=False)  # to be tried again
        assert report._state()[1] == "5 of 34 cells, 0.5 cells/s, 58 s left"
        report.add(local.Done(1), lost=False)
        report.add(local.Done(0, error="lost"), lost=True)
        assert report._state()[1] == "10 of 34 cells, 1 cells/s, 24 s left, 10 failed"

    def test_of_a_shard_only_its_own_cells_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        mine = np.array([True, False, False, True])
        report = runs._Report("mine", self.sizes, mine, np.array([0, 0, 10, 4]))
        assert report._state() == (10, "10 of 14 cells")

    @pytest.mark.parametrize(("wish", "lines"), [("", True), ("0", False)])
    def test_a_log_gets_plain_lines(
        self, wish: str, lines: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("LAZYRICH_PROGRESS", wish)
        monkeypatch.setattr(runs, "watched", lambda: False)
        monkeypatch.setattr(runs, "_LOG_EVERY", 0.05)
        said = ""
        with runs._Report("mine", self.sizes, self.everything, np.array([0, 10, 10, 4])) as report:
            if lines:
                wait_for(lambda: "\n" in capsys.readouterr().err)
                report.tick(1, 4.0)
                said = wait_for(lambda: re.search("lazyrich: mine: 14 of 34 cells, .* left\n", capsys.readouterr().err))
            else:
                report._thread.join(10)
                assert not report._thread.is_alive()
        assert bool(said) == lines
        assert capsys.readouterr().err == "" or lines

    def test_a_watched_run_has_a_bar(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        monkeypatch.setenv("LAZYRICH_PROGRESS", "1")
        monkeypatch.setattr(runs, "_BAR_AFTER", 0.01)
        monkeypatch.setattr(runs, "_BAR_EVERY", 0.01)
        with runs._Report("mine", self.sizes, self.everything, self.sizes) as report:
            report.add(local.Done(0), lost=False)
            report.add(local.Done(1, failed=2), lost=False)
            wait_for(lambda: re.search(r"59%\|.*\| mine: 20 of 34 cells, .* left, 2 failed", capsys.readouterr().err))
