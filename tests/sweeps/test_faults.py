"""What a lab met: damage that counted as data, code that changed under a sweep, blocks that no second worker got,
faults of the machine that were a cell's fate. Each was seen as it is told, and stays mended.
"""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyrich as lr
from lazyrich._check import InvalidInput
from lazyrich.cli import main
from lazyrich.sweeps import Sweep, fingerprint, local, verify
from lazyrich.sweeps.problems import Cell, random_regression
from lazyrich.sweeps.run import run
from lazyrich.sweeps.store import Store, failures, load_store, open_store, summary
from sweeps.test_run import chunks, python, tiny, wait_for

pytestmark = pytest.mark.timeout(120)

ROOT = Path(__file__).parents[2]
_NOTES = os.environ.get("LAZYRICH_TEST_NOTES", "")


def small(problem: Any = "random_regression", **more: Any) -> Sweep:
    """Six blocks of two cells."""
    axes = {"seed": range(6), "scale": [0.1, 0.2]}
    settings = {"d_in": 3, "h": 3, "d_out": 3, "samples": 5} if problem == "random_regression" else {}
    return Sweep("small", problem, **{"axes": axes, "at": [0, 2], "block": {"seed": 1}, "settings": settings, **more})


def twice_the_loss(traj: lr.Trajectory) -> Any:
    """Twice the loss."""
    return 2 * np.asarray(traj.loss)


def patient(seed: int, scale: float, notes: str) -> Cell:
    """Notes who made it, and takes its time."""
    with open(Path(notes) / f"{seed}-{scale}", "a") as note:
        note.write(f"{os.getpid()}\n")
    time.sleep(0.1)
    return tiny(seed, scale)


def sleepy(seed: int, scale: float) -> Cell:
    """One of the seeds sleeps for an hour, and catches all that is an Exception."""
    try:
        if seed == 3 and scale == 0.2:
            time.sleep(3600)
    except Exception:
        return tiny(0)
    return tiny(seed, scale)


def unlucky(seed: int, scale: float, mark: str) -> Cell:
    """As long as a file is missing, one cell is."""
    if seed == 2 and scale == 0.1 and not Path(mark).exists():
        raise FileNotFoundError(2, "the file server is away", mark)
    if seed == 4 and not Path(mark).exists():
        raise ValueError("no such seed")
    return tiny(seed, scale)


# 1: blocks follow workers, shards and time --------------------------------------------------------------------------


def test_the_sweep_of_the_page_has_blocks_for_every_worker() -> None:
    """It was one block: of two workers one had nothing to do, and of three shards two."""
    sweep = Sweep.from_toml(ROOT / "docs/examples/my-sweep.toml")
    one, two = sweep.with_blocks(), sweep.with_blocks(2)
    assert one.blocks >= 16
    assert one.block_shape == two.block_shape  # so one worker and two give the same bits
    assert sweep.with_blocks(100).blocks == sweep.cells


def test_each_shard_of_three_has_something_to_do(tmp_path: Path) -> None:
    sweep = small(block={})
    assert [run(sweep, tmp_path / "out", shard=(i, 3)).computed for i in (1, 2, 3)] == [4, 4, 4]


def test_blocks_follow_the_time_that_a_cell_takes_to_make() -> None:
    """What a factory does was not in the estimate: hours could be one block."""

    def ponderous(seed: int) -> Cell:
        time.sleep(0.12)
        return tiny(seed)

    sweep = Sweep("slow", ponderous, axes={"seed": range(100_000)}, at=[0, 1])
    assert sweep.with_blocks().block_shape[0] <= 500  # of 6,250 without


# 2: damage ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def whole(tmp_path: Path) -> tuple[Path, dict[str, bytes]]:
    run(small(), tmp_path / "out")
    return tmp_path / "out", chunks(tmp_path / "out")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "torn": lambda path: path.write_bytes(path.read_bytes()[:-3]),
    "flipped": lambda path: path.write_bytes(path.read_bytes()[:4] + b"\x55" + path.read_bytes()[5:]),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
}
SEEN_BY_SIZE = ("missing", "empty", "torn")


@pytest.mark.parametrize("name", ["loss/c.1.0.0", "status/c.4.0"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_chunk_is_named_and_computed_again(
    whole: tuple[Path, dict[str, bytes]], name: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing one counted as complete, with nan for values; another one was an error that named no file."""
    out, before = whole
    path = out / "data.zarr" / name
    DAMAGE[damage](path)
    with pytest.raises(InvalidInput, match=rf"{re.escape(str(path))} (is|has) .*--verify"):
        load_store(out)
    (found,) = verify(out)
    assert (found.block, found.path) == (name.split("c.")[1][:3], path)
    if damage not in SEEN_BY_SIZE:
        assert run(small(), out).damaged == []  # resuming looks at sizes alone
    summary = run(small(), out, verify=damage not in SEEN_BY_SIZE)
    assert (summary.computed, summary.complete, len(summary.damaged)) == (2, 12, 1)
    assert capsys.readouterr().err.startswith(f"lazyrich: {path} ")
    assert chunks(out) == before and verify(out) == []


@pytest.mark.parametrize("content", [b"", b'{"shape": [1,', b"[]"])
def test_a_damaged_record_is_a_block_to_compute_again(whole: tuple[Path, dict[str, bytes]], content: bytes) -> None:
    out, before = whole
    (out / "blocks" / "2.0.json").write_bytes(content)
    assert summary(out)["pending"] == 2
    assert [damage.fault for damage in verify(out)] == ["cannot be read"]
    assert run(small(), out).computed == 2 and chunks(out) == before


def test_verify_on_the_command_line(
    whole: tuple[Path, dict[str, bytes]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, before = whole
    path = out / "data.zarr/loss/c.1.0.0"
    assert main(["sweep", "--verify", "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: 12 files are what was written.\n"
    DAMAGE["flipped"](path)
    assert main(["sweep", "--verify", "--out", str(out)]) == 1
    assert capsys.readouterr().out == (
        f"{path} is not what was written\n{out}: 1 of 12 files is damaged; --verify with the name or file of the sweep "
        "computes its block again.\n"
    )
    sweep = out.parent / "small.toml"
    sweep.write_text(
        'problem = "random_regression"\nat = [0, 2]\n[axes]\nseed = {range = 6}\nscale = [0.1, 0.2]\n'
        "[block]\nseed = 1\n[settings]\nd_in = 3\nh = 3\nd_out = 3\nsamples = 5\n"
    )
    assert main(["sweep", str(sweep), "--verify", "--out", str(out)]) == 0
    assert f"{path} is not what was written" in capsys.readouterr().err
    assert chunks(out) == before


# 3: code ------------------------------------------------------------------------------------------------------------

_MODULE = """
from lazyrich.sweeps.problems import random_regression
FACTOR = {factor}
def helper(scale):
    return FACTOR * scale{helper}
def mine(seed, scale):
    return random_regression(seed, d_in=3, h=3, d_out=3, samples=5, scale=helper(scale))
def other():
    return "{other}"
"""


def module(folder: Path, factor: float = 1.0, helper: str = "", other: str = "") -> Any:
    """A module of the user's, loaded anew."""
    folder.mkdir(exist_ok=True)
    (folder / "of_the_user.py").write_text(_MODULE.format(factor=factor, helper=helper, other=other))
    import importlib
    import linecache

    sys.modules.pop("of_the_user", None)
    importlib.invalidate_caches()
    linecache.checkcache()
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        return importlib.import_module("of_the_user").mine
    finally:
        sys.dont_write_bytecode = before


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"factor": 2.0}, r"of_the_user\.helper: FACTOR: 1\.0 → 2\.0"),
        ({"helper": " + 1"}, r"of_the_user\.helper: return FACTOR \* scale → return FACTOR \* scale \+ 1"),
    ],
)
def test_a_folder_does_not_mix_functions(
    change: Any, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The losses of two functions stood side by side."""
    monkeypatch.syspath_prepend(tmp_path / "code")
    run(small(module(tmp_path / "code")), tmp_path / "out", shard=(1, 2))
    run(small(module(tmp_path / "code", other="what nobody calls")), tmp_path / "out", shard=(1, 3))
    changed = small(module(tmp_path / "code", **change))
    with pytest.raises(
        InvalidInput, match=rf"holds cells of other code: try another folder, or mixed=True .*\n  {says}"
    ):
        run(changed, tmp_path / "out")
    summary = run(changed, tmp_path / "out", mixed=True)
    assert summary.complete == 12 and len(list((tmp_path / "out" / "code").iterdir())) == 2
    assert run(small(module(tmp_path / "code")), tmp_path / "out").computed == 0  # nothing to mix


@pytest.mark.parametrize("package", ["lazyrich", "numpy"])
def test_a_folder_does_not_mix_versions(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(small(), tmp_path / "out", shard=(1, 2))
    found = fingerprint.fingerprint(small())
    runs = sys.modules[run.__module__]
    monkeypatch.setattr(runs, "fingerprint", lambda grid: found | {package: "9.9"})
    with pytest.raises(InvalidInput, match=rf"\n  {package}: {re.escape(found[package])} → 9\.9$"):
        run(small(), tmp_path / "out")


def test_a_worker_with_other_code_computes_nothing(tmp_path: Path) -> None:
    run(small(), tmp_path / "out", shard=(1, 6))
    done = local.work(local.Job(local.as_text(small()), str(tmp_path / "out"), code="of another"), 1)
    assert done.fatal and re.match(r"the worker on \S+ \(process [0-9]+\) has other versions or other code", done.error)


def test_what_a_function_closes_over_belongs_to_it() -> None:
    def made(scale: Any) -> Any:
        return small(lambda seed: tiny(seed, scale), axes={"seed": [0]}, block={})

    found = {fingerprint.digest(fingerprint.fingerprint(made(scale))) for scale in (1.0, 1.0, 2.0, np.ones(2))}
    assert len(found) == 3


# 4: faults of the machine, failures, and time -----------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.processes)])
def test_a_fault_of_the_machine_is_no_fate_and_failures_can_be_tried_again(workers: int, tmp_path: Path) -> None:
    """An OSError was kept as the cell's result, and the same command never tried it again."""
    mark, out = tmp_path / "mark", tmp_path / "out"
    sweep = small(unlucky, settings={"mark": str(mark)})
    first = run(sweep, out, workers=workers)
    assert (first.complete, first.failed, first.pending, first.computed) == (9, 2, 1, 11)
    assert [(str(cause), cause.kind) for cause in first.failed_blocks.values()] == [
        (
            f"1 of 1 cells are still to be done: FileNotFoundError: [Errno 2] the file server is away: '{mark}'",
            "FileNotFoundError in unlucky",
        )
    ]
    ((pending,),) = [[one for one in failures(out) if one["status"] == "pending"]]
    assert pending["cell"] == {"seed": 2, "scale": 0.1} and "file server" in pending["cause"]
    kept = open_store(out).loss.load()
    mark.touch()
    second = run(sweep, out, workers=workers)
    assert (second.complete, second.failed, second.pending, second.computed) == (10, 2, 0, 1)
    third = run(sweep, out, workers=workers, retry_failed=True)
    assert (third.complete, third.failed, third.computed, third.failures) == (12, 0, 2, [])
    data = open_store(out).load()
    same = np.isfinite(kept)
    assert data.loss.where(same).identical(kept) and np.isfinite(data.loss).all()
    run(small(unlucky, settings={"mark": str(mark)}), tmp_path / "at-once")
    assert chunks(out) == chunks(tmp_path / "at-once")


def test_memory_is_a_fault_of_the_machine(tmp_path: Path) -> None:
    def greedy(seed: int, scale: float) -> Cell:
        if seed == 1:
            raise MemoryError
        return tiny(seed, scale)

    assert run(small(greedy), tmp_path / "out", retries=0).pending == 2


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.processes)])
def test_a_cell_that_sleeps_does_not_stall_the_run(workers: int, tmp_path: Path) -> None:
    summary = run(small(sleepy), tmp_path / "out", workers=workers, limit=0.5)
    assert (summary.complete, summary.pending) == (11, 1)
    (cause,) = summary.failed_blocks.values()
    assert str(cause) == "1 of 2 cells are still to be done: TooLong: took longer than 0.5 s"


@pytest.mark.processes
def test_a_cell_is_interrupted_where_no_alarm_comes(tmp_path: Path) -> None:
    """Threads, such as those of a Dask worker, get none."""
    run(small(sleepy), tmp_path / "out", shard=(1, 6), limit=0.5)
    job, found = local.Job(small(sleepy), str(tmp_path / "out"), limit=0.5), []
    thread = threading.Thread(target=lambda: found.append(local.work(job, 3)))
    thread.start()
    thread.join(60)
    assert found[0].computed == 1 and "took longer than 0.5 s" in found[0].error


def test_an_alarm_of_others_still_comes(tmp_path: Path) -> None:
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: rung.append(number))
    try:
        timer = signal.setitimer(signal.ITIMER_REAL, 60)
        run(small(), tmp_path / "out", limit=5.0, shard=(1, 6))
        assert 50 < signal.getitimer(signal.ITIMER_REAL)[0] <= 60 and not rung
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, before)


# 5: buckets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("out", ["s3://bucket/sweep", "gs://bucket/x", "memory://x"])
def test_a_bucket_is_refused_in_one_sentence(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It made a folder named s3: here."""
    monkeypatch.chdir(tmp_path)
    for attempt in (lambda: run(small(), out), lambda: open_store(out), lambda: summary(out), lambda: verify(out)):
        with pytest.raises(InvalidInput, match=rf"^out must be a folder, and it is {out}: compute into a folder, and"):
            attempt()
    assert main(["sweep", "kunin2024/1b", "--out", out]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


# 6: observables -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.processes)])
def test_an_observable_of_ones_own(workers: int, tmp_path: Path) -> None:
    """It was refused by name, and could never be found by workers."""
    run(small(observables=[twice_the_loss, "loss"]), tmp_path / "out", workers=workers)
    data = open_store(tmp_path / "out")
    np.testing.assert_array_equal(data.twice_the_loss, 2 * data.loss)
    assert data.twice_the_loss.long_name == "Twice the loss."
    again = run(small(observables=[twice_the_loss, "loss"]), tmp_path / "out")
    assert again.computed == 0


def test_an_observable_with_axes_of_its_own(tmp_path: Path) -> None:
    def gram(traj: lr.Trajectory) -> Any:
        W = np.asarray(traj.weights[0])
        return W @ W.transpose(0, 2, 1)

    run(small(observables=[gram]), tmp_path / "out")
    assert open_store(tmp_path / "out").gram.dims == ("seed", "scale", "step", "gram_1", "gram_2")


def test_what_does_not_apply_is_nan_with_its_reason(tmp_path: Path) -> None:
    """One observable that did not exist for a network threw away all that was measured of it."""

    def kinds(kind: int) -> lr.Problem:
        task = lr.Task.from_data(np.eye(3)[:2], np.ones((2, 2)))
        return lr.Problem(task, lr.Network([np.ones((4, 3)), np.ones((2, 4))], ("tanh", "linear")[kind]))

    def moody(traj: lr.Trajectory) -> Any:
        if not traj.problem.network.activation.linear:
            raise RuntimeError("not today")
        return traj.loss

    sweep = Sweep("kinds", kinds, axes={"kind": [0, 1]}, at=[0, 2], observables=["loss", "mode_strengths", moody])
    summary = run(sweep, tmp_path / "out")
    assert (summary.complete, summary.failed) == (2, 0)
    data = open_store(tmp_path / "out").load()
    assert np.isfinite(data.loss).all() and data.mode_strengths.shape == (2, 2, 2)
    assert np.isnan(data.mode_strengths[0]).all() and np.isfinite(data.mode_strengths[1]).all()
    assert [(one["cell"], one["status"], one["observable"], one["cause"]) for one in summary.failures] == [
        (
            {"kind": 0},
            "complete",
            "mode_strengths",
            "mode_strengths belongs to linear networks, and this one is tanh.",
        ),
        ({"kind": 0}, "complete", "moody", "RuntimeError: not today"),
    ]
    assert "1 × without moody: RuntimeError: not today (such as kind=0)" in str(summary)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (lambda traj: traj.loss, "observables must be names, or functions with a name, and one is"),
        ([3], "observables must be"),
        ([], "observables is empty"),
        ([twice_the_loss, functools.partial(twice_the_loss)], "functions with a name"),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_observables_that_cannot_be(given: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        small(observables=given)


def test_an_observable_must_give_a_number_for_each_time(tmp_path: Path) -> None:
    def short(traj: lr.Trajectory) -> Any:
        return traj.loss[:0]

    with pytest.raises(InvalidInput, match=r"^short has no value in any of the first cells .* each of the 1 times"):
        run(small(observables=[short]), tmp_path / "out")


# 7: processes that share a folder -----------------------------------------------------------------------------------


@pytest.mark.processes
def test_two_processes_on_one_folder_compute_nothing_twice(tmp_path: Path) -> None:
    """Both computed every block."""
    notes, out = tmp_path / "notes", tmp_path / "out"
    notes.mkdir()
    code = """
        import sys
        from sweeps.test_faults import patient, small
        from lazyrich.sweeps.run import run
        done = run(small(patient, settings={"notes": sys.argv[1]}), sys.argv[2])
        print(done.complete, done.computed)
    """
    run(small(patient, settings={"notes": str(notes)}), out, shard=(1, 6))
    for note in notes.iterdir():
        note.unlink()
    programs = [python(code, notes, out) for _ in range(2)]
    answers = [program.communicate() for program in programs]
    found = [list(map(int, answer.split())) for answer, complaint in answers]
    assert [complete for complete, _ in found] == [12, 12] and sum(computed for _, computed in found) == 10, answers
    assert min(computed for _, computed in found) > 0
    made = [note.read_text().split() for note in notes.iterdir() if not note.name.startswith("0-")]
    made = [makers for makers in made if len(makers) > 1]
    assert len(made) <= 1  # the first cell is looked at by both, to see what there is to measure


@pytest.mark.processes
def test_the_claim_of_a_dead_process_is_void(tmp_path: Path) -> None:
    run(small(), tmp_path / "out", shard=(1, 6))
    dead = subprocess.Popen([sys.executable, "-c", "pass"])
    dead.wait()
    import platform

    claim = tmp_path / "out" / "claims" / "1.0"
    claim.write_text(json.dumps({"host": platform.node(), "process": dead.pid}))
    assert run(small(), tmp_path / "out").computed == 10 and not claim.exists()


def test_a_claim_that_nobody_touches_is_void(tmp_path: Path) -> None:
    run(small(), tmp_path / "out", shard=(1, 6))
    claim = tmp_path / "out" / "claims" / "1.0"
    claim.write_text(json.dumps({"host": "elsewhere", "process": 1}))
    job = local.Job(small(), str(tmp_path / "out"))
    assert local.work(job, 1).busy
    os.utime(claim, (time.time() - 3600,) * 2)
    assert local.work(job, 1).computed == 2 and list(claim.parent.iterdir()) == []


def test_a_shard_with_cells_pending_does_not_end_in_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PJRT_NPROC", "1")
    Path("small.toml").write_text(
        'problem = "random_regression"\nat = [0, 2]\n[axes]\nseed = {range = 4}\n'
        "[settings]\nd_in = 3\nh = 3\nd_out = 3\n"
    )
    ended = [main(["sweep", "small.toml", "--out", "out", "--shard", f"{i}/2"]) for i in (1, 2)]
    assert ended == [3, 0]
    assert "2 to be done" in capsys.readouterr().out


@pytest.mark.processes
def test_a_module_that_a_worker_misses_names_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path / "code")
    sweep = small(module(tmp_path / "code"))
    run(sweep, tmp_path / "out", shard=(1, 6))
    text = local.as_text(sweep).replace("of_the_user:", "of_nobody:")
    done = local.work(local.Job(text, str(tmp_path / "out")), 1)
    assert done.fatal
    assert re.match(r"the worker on \S+ \(process [0-9]+\) No module named 'of_nobody'", done.error)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.processes)])
def test_a_partial_function_is_the_function_with_settings(workers: int, tmp_path: Path) -> None:
    """It was refused."""
    axes = {"seed": range(3)}
    sweep = small(functools.partial(tiny, scale=0.3), axes=axes)
    assert sweep.problem is tiny and sweep.settings == {"scale": 0.3}
    run(sweep, tmp_path / "partial", workers=workers)
    run(small(tiny, axes=axes, settings={"scale": 0.3}), tmp_path / "plain", workers=workers)
    assert chunks(tmp_path / "partial") == chunks(tmp_path / "plain")


def test_nested_partials_and_what_they_take() -> None:
    twice = functools.partial(functools.partial(random_regression, 3, d_in=2), d_in=4)
    sweep = Sweep("x", twice, axes={"scale": [0.1]}, at=[0])
    assert sweep.settings == {"seed": 3, "d_in": 4}
    with pytest.raises(InvalidInput, match="is both an axis and a setting"):
        Sweep("x", twice, axes={"seed": [0]}, at=[0])


def test_a_run_waits_for_blocks_that_others_are_at(tmp_path: Path) -> None:
    """And does not end before they are there."""
    out = tmp_path / "out"
    run(small(), out, shard=(1, 6))
    store = Store.open_or_create(out, small())
    import lazyrich.sweeps.claims as claims

    with claims.claimed(out, "1.0") as ours:
        assert ours
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(run(small(), out)))
        thread.start()
        wait_for(lambda: int(store.left().sum()) == 2)
        time.sleep(0.5)
        assert thread.is_alive()
    thread.join(30)
    assert found[0].complete == 12


# 8: what strangers have tried ---------------------------------------------------------------------------------------


def test_a_claim_that_cannot_be_written_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk an empty file was left, and the next run waited a minute and a half for nobody."""
    out = tmp_path / "out"
    run(small(), out, shard=(1, 6))

    def full(handle: int, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        done = local.work(local.Job(small(), str(out)), 1)
    assert done.fatal and done.error == f"{out} cannot be used: No space left on device."
    assert list((out / "claims").iterdir()) == []


def test_an_empty_claim_is_void_after_a_while(tmp_path: Path) -> None:
    """As of a process that was killed before it could say whose it is."""
    out = tmp_path / "out"
    run(small(), out, shard=(1, 6))
    claim = out / "claims" / "1.0"
    claim.touch()
    job = local.Job(small(), str(out))
    assert local.work(job, 1).busy
    os.utime(claim, (time.time() - 20,) * 2)
    assert local.work(job, 1).computed == 2


def stubborn(seed: int, scale: float) -> Cell:
    """One cell catches every interruption, and goes on."""
    while seed == 3:
        try:
            time.sleep(1)
        except BaseException:
            continue
    return tiny(seed, scale)


@pytest.mark.processes
def test_a_cell_that_cannot_be_interrupted_is_ended_with_its_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stalled the run for ever, as one does that computes in C."""
    summary = run(small(stubborn), tmp_path / "out", workers=2, limit=1.0)
    assert (summary.complete, summary.pending) == (10, 2)
    (cause,) = summary.failed_blocks.values()
    assert str(cause) == "a cell took longer than 1 s, and could not be interrupted: its worker process was ended"


def asking(seed: int, scale: float) -> Cell:
    """Reads from its standard input."""
    assert sys.stdin is None or os.read(0, 1) == b""
    return tiny(seed, scale)


@pytest.mark.processes
def test_a_factory_that_asks_gets_no_answer(tmp_path: Path) -> None:
    """It took the request for the next block, or waited for it."""
    sweep = small(asking)
    text = local.as_text(sweep)
    Store.open_or_create(tmp_path / "out", small(tiny))  # as this process has a standard input of its own
    path = tmp_path / "out" / "data.zarr" / "zarr.json"
    path.write_text(path.read_text().replace("test_run:tiny", "test_faults:asking"))
    outcomes = list(local.processes(local.Job(text, str(tmp_path / "out")), deque(range(6)), lambda *_: None, 1))
    assert [done.computed for done in outcomes] == [2] * 6 and not any(done.failed for done in outcomes)


def test_folders_at_home_and_buckets_as_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They made folders named ~ and s3: here."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    run(small(), "~/out")
    assert open_store("~/out").sizes["seed"] == 6 and (tmp_path / "home/out/data.zarr").is_dir()
    with pytest.raises(InvalidInput, match=r"^out must be a folder, and it is s3:/bucket/x: compute into a folder"):
        run(small(), Path("s3://bucket/x"))
    with pytest.raises(InvalidInput, match=r"^out must be a folder, and there is no home for ~nobody-at-all"):
        run(small(), "~nobody-at-all/x")
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_a_table_has_its_axis_for_itself() -> None:
    """An axis named row was silently replaced."""
    table = {"seed": [0, 1, 2]}
    with pytest.raises(InvalidInput, match=r"^row is the axis of the table, and cannot be another one"):
        Sweep("x", "random_regression", axes={"row": [0, 1]}, table=table, at=[0])
    alone = Sweep("x", "random_regression", table=table, at=[0])
    assert alone.shape == (3,) and Sweep.from_dict(alone.as_dict()) == alone


def test_an_empty_data_frame_is_one_sentence() -> None:
    pandas = pytest.importorskip("pandas")
    for table, says in ((pandas.DataFrame(), "axes must name"), (pandas.DataFrame({"seed": []}), "at least one value")):
        with pytest.raises(InvalidInput, match=says):
            Sweep("x", "random_regression", table=table, at=[0])


def test_observables_that_leave_the_program_or_are_not_real(tmp_path: Path) -> None:
    """One ended the run; of the other the imaginary part was dropped with a warning."""

    def leaving(traj: lr.Trajectory) -> Any:
        if len(traj.times) > 1:
            sys.exit(3)
        return traj.loss

    def turning(traj: lr.Trajectory) -> Any:
        return 1j * np.asarray(traj.loss)

    summary = run(small(observables=["loss", leaving]), tmp_path / "out")
    assert summary.complete == 12 and {one["cause"] for one in summary.failures} == {"SystemExit: 3"}
    with pytest.raises(InvalidInput, match="turning must give real numbers, and it gives complex ones"):
        run(small(observables=["loss", turning]), tmp_path / "other")


_REMEMBERING = """
from lazyrich.sweeps.problems import random_regression
KNOWN = {}
def mine(seed, scale):
    if seed not in KNOWN:
        KNOWN[seed] = random_regression(seed, d_in=3, h=3, d_out=3, samples=5)
    return KNOWN[seed]
"""


@pytest.mark.processes
def test_workers_take_a_function_with_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first cell had put into it counted as another code, and every worker refused."""
    (tmp_path / "of_the_user_cached.py").write_text(_REMEMBERING)
    monkeypatch.syspath_prepend(tmp_path)
    import importlib

    function = importlib.import_module("of_the_user_cached").mine
    assert run(small(function), tmp_path / "out", workers=2).complete == 12
    assert run(small(function), tmp_path / "out").computed == 0
