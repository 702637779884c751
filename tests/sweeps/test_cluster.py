"""Sweeps on a Dask cluster: the same bytes though workers die, and one sentence for whatever does not answer."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lazyrich
from lazyrich._check import InvalidInput
from lazyrich.sweeps import cluster, local
from lazyrich.sweeps.problems import Cell
from lazyrich.sweeps.run import run
from lazyrich.sweeps.sweep import Sweep
from sweeps import test_faults as faults
from sweeps.test_run import chunks, deadly, python, small, tiny, wait_for

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]


def unhurried(seed: int, notes: str) -> Cell:
    """Notes which process began which seed, and takes its time."""
    (Path(notes) / f"{seed}-{os.getpid()}").touch()
    time.sleep(0.3)
    return tiny(seed)


@pytest.fixture(scope="module")
def dask() -> Iterator[Any]:
    """Two worker processes and their scheduler, on this machine."""
    from distributed import LocalCluster

    quiet = {"dashboard_address": None, "silence_logs": logging.CRITICAL}
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", **quiet) as here:
        yield here


# results ----------------------------------------------------------------------------------------------------


def test_a_worker_killed_mid_run_changes_nothing(dask: Any, tmp_path: Path) -> None:
    notes, out = tmp_path / "notes", tmp_path / "out"
    notes.mkdir()
    sweep = small(unhurried, axes={"seed": range(16)}, settings={"notes": str(notes)})
    pids = {worker.process.pid for worker in dask.workers.values()}
    killed: list[tuple[int, set[str]]] = []

    def kill() -> None:
        begun = lambda: {mark.name for mark in notes.iterdir()}
        wait_for(lambda: len(begun()) >= 5)
        victim = next(int(name.split("-")[1]) for name in begun() if int(name.split("-")[1]) in pids)
        os.kill(victim, signal.SIGKILL)
        killed.append((victim, begun()))

    killer = threading.Thread(target=kill)
    killer.start()
    summary = run(sweep, out, scheduler=dask.scheduler_address)
    killer.join()
    ((victim, begun),) = killed
    later = {mark.name for mark in notes.iterdir()} - begun
    assert later, "it was killed when all was done"
    assert not any(name.endswith(f"-{victim}") for name in later)
    assert (summary.complete, summary.failed_blocks) == (16, {})
    assert summary.computed in (15, 16)  # it may have died between storing a block and saying so
    run(small(axes={"seed": range(16)}), tmp_path / "whole", workers=2)
    assert chunks(out) == chunks(tmp_path / "whole")


@pytest.mark.parametrize(("d", "h", "n"), [pytest.param(40, 20, 300, marks=pytest.mark.slow), (10, 4, 600)])
def test_the_cluster_gives_the_bytes_of_processes(dask: Any, d: int, h: int, n: int, tmp_path: Path) -> None:
    sweep = Sweep(
        "students",
        "teacher_student",
        axes={"seed": [0, 1], "tau": [0.5, 1.0]},
        at=[0, 3, 8],
        settings={"d": d, "h": h, "n": n, "test": 20},
        observables=["loss", "test_loss", "kernel_distance"],
    ).with_block(2)
    assert run(sweep, tmp_path / "dask", scheduler=dask.scheduler_address).complete == 4
    run(sweep, tmp_path / "two", workers=2)
    assert chunks(tmp_path / "dask") == chunks(tmp_path / "two")


@pytest.mark.slow
def test_a_block_that_kills_its_workers_is_reported_and_the_others_go_on(dask: Any, tmp_path: Path) -> None:
    summary = run(small(deadly), tmp_path / "out", scheduler=dask.scheduler_address)
    assert (summary.complete, summary.pending, summary.computed) == (5, 1, 5)
    assert {number: str(cause) for number, cause in summary.failed_blocks.items()} == {
        2: "the workers that it was given died one after the other"
    }


def test_many_blocks_are_not_all_with_the_scheduler_at_once(
    dask: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import Client

    submitted: list[Any] = []
    most = 0
    submit = Client.submit

    def counting(self: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal most
        submitted.append(submit(self, *arguments, **options))
        most = max(most, sum(not future.done() for future in submitted))
        return submitted[-1]

    monkeypatch.setattr(Client, "submit", counting)
    sweep = small(axes={"seed": range(40)})
    assert run(sweep, tmp_path / "out", scheduler=dask.scheduler_address).complete == 40
    assert len(submitted) == 40
    assert most <= 4  # two threads, two blocks for each


def test_an_error_of_a_block_comes_back_and_is_tried_again(dask: Any, tmp_path: Path) -> None:
    sweep, out = faults.small(faults.unlucky, settings={"mark": str(tmp_path / "mark")}), tmp_path / "out"
    run(sweep, out, shard=(1, 6))
    job = local.Job(local.as_text(sweep), str(out))
    with cluster.connected(dask.scheduler_address) as client:
        assert list(cluster.on_cluster(job, deque([1]), client)) == [local.Done(1, computed=2)]
        (done,) = cluster.on_cluster(job, deque([2]), client)
        assert (done.number, done.computed, done.again, done.fatal) == (2, 1, True, False)
        assert "the file server is away" in done.error
        (tmp_path / "mark").touch()
        assert list(cluster.on_cluster(job, deque([2]), client)) == [local.Done(2, computed=1)]


def test_a_module_that_only_this_process_has_is_one_sentence_that_names_the_worker(
    dask: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path / "code")
    sweep = faults.small(faults.module(tmp_path / "code"))
    with pytest.raises(
        InvalidInput,
        match=r"^workers must find what the sweep calls, and the one at tcp://\S+ says ModuleNotFoundError: No module "
        r"named 'of_the_user'\.$",
    ):
        run(sweep, tmp_path / "out", scheduler=dask.scheduler_address)


def test_a_cell_that_sleeps_does_not_stall_a_cluster(dask: Any, tmp_path: Path) -> None:
    summary = run(faults.small(faults.sleepy), tmp_path / "out", scheduler=dask.scheduler_address, limit=1.0)
    assert (summary.complete, summary.pending) == (11, 1)


def test_a_cluster_by_the_commands_of_the_page(tmp_path: Path) -> None:
    """dask scheduler, dask worker --nworkers, and the sweep, each a program of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    programs = [
        _dask("scheduler", "--host", address),
        _dask("worker", address, "--nworkers", "2", "--nthreads", "1"),
    ]
    try:
        command = [sys.executable, "-m", "lazyrich", "sweep", "docs/examples/my-sweep.toml", "--out", tmp_path / "out"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        options = {"cwd": Path(__file__).parents[2], "env": environment, "capture_output": True, "text": True}
        sweep = subprocess.run([*map(str, command), "--scheduler", address], **options)
        assert sweep.returncode == 0 and "30 cells: 30 complete." in sweep.stdout, sweep.stderr
    finally:
        for process in programs:
            process.terminate()
            process.wait()


# workers that do not fit ------------------------------------------------------------------------------------


def test_workers_with_another_lazyrich_get_one_sentence(
    dask: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "__version__", "9.9")
    with pytest.raises(
        InvalidInput, match=r"^workers must have the lazyrich of this process, 9\.9, and the one at tcp"
    ):
        run(small(), tmp_path / "out", scheduler=dask.scheduler_address)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (
            ModuleNotFoundError("No module named 'lazyrich'"),
            "workers must have lazyrich .* ModuleNotFoundError: No module",
        ),
        (
            (lazyrich.__version__, "", ""),
            "out must be a folder that all workers share, and the one at tcp://w:1 does not find",
        ),
    ],
)
def test_workers_without_lazyrich_or_the_folder_get_one_sentence(answer: Any, sentence: str, tmp_path: Path) -> None:
    class Client:
        status = "running"

        def nthreads(self) -> dict[str, int]:
            return {"tcp://w:1": 1}

        def run(self, *_: Any, **__: Any) -> dict[str, Any]:
            return {"tcp://w:1": answer}

    run(small(), tmp_path / "out", shard=(1, 6))
    job = local.Job(local.as_text(small()), str(tmp_path / "out"))
    with pytest.raises(InvalidInput, match=f"^{sentence}"):
        next(cluster.on_cluster(job, deque([1]), Client()))


# addresses --------------------------------------------------------------------------------------------------


@pytest.fixture
def listener() -> Iterator[Any]:
    """Makes ports where something listens that says these bytes, and is no scheduler."""
    sockets: list[socket.socket] = []

    def listen(says: bytes) -> str:
        port = socket.create_server(("127.0.0.1", 0))
        sockets.append(port)

        def serve() -> None:
            while True:
                try:
                    sockets.append(port.accept()[0])
                    sockets[-1].sendall(says)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        return f"tcp://127.0.0.1:{port.getsockname()[1]}"

    yield listen
    for each in sockets:
        each.close()


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.6\r\n" * 3])
def test_a_port_that_is_not_dask_gets_one_sentence(
    says: bytes, listener: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_PATIENCE", 4.0)
    address = listener(says)
    reason = "what answers there is no Dask" if says else "nothing answers there within 4 s"
    sentence = f"scheduler must be the address of a Dask scheduler that runs, and it is {address}: {reason}."
    with pytest.raises(InvalidInput, match=f"^{re.escape(sentence)}$"):
        run(small(), tmp_path / "out", scheduler=address)
    assert not (tmp_path / "out").exists()
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_an_address_that_does_not_answer_gets_one_sentence_within_thirty_seconds(tmp_path: Path) -> None:
    """As a user meets it: a program of its own, from its start to its end, with what it prints."""
    code = """
        import sys
        from sweeps.test_run import small
        from lazyrich.sweeps.run import run
        try:
            run(small(), sys.argv[1], scheduler="tcp://127.0.0.1:9")
        except ValueError as error:
            sys.exit(str(error))
    """
    program = python(code, tmp_path / "out")
    answer, complaint = program.communicate(timeout=30)
    assert (program.returncode, answer) == (1, "")
    assert complaint == (
        "scheduler must be the address of a Dask scheduler that runs, and it is tcp://127.0.0.1:9: "
        "nothing answers there within 15 s.\n"
    )
    assert not (tmp_path / "out").exists()


def test_an_address_that_swallows_everything_gets_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_PATIENCE", 4.0)
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        port.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:  # the queue is full after these: no connection is taken, and none refused
            each.setblocking(False)
            each.connect_ex(port.getsockname())
        with pytest.raises(InvalidInput, match="nothing answers there within 4 s"):
            run(small(), tmp_path / "out", scheduler=f"tcp://127.0.0.1:{port.getsockname()[1]}")
        for each in waiting:
            each.close()


@pytest.mark.parametrize(
    "address",
    [
        "hello",
        "",
        "tcp://",
        "tcp://host",
        "tcp://host:port",
        "http://host:8786",
        "tcp://a b:1",
        "tcp://host:99999",
        "h:1",
    ],
)
def test_what_is_no_address_gets_one_sentence(address: str, tmp_path: Path) -> None:
    sentence = f"scheduler must be an address such as tcp://host:8786, and it is {address!r}."
    with pytest.raises(InvalidInput, match=f"^{re.escape(sentence)}$"):
        run(small(), tmp_path / "out", scheduler=address)


def test_a_factory_without_a_name_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"^problem must be at the top of a module"):
        run(small(lambda seed: tiny(seed)), tmp_path / "out", scheduler="tcp://127.0.0.1:9")
    assert not (tmp_path / "out").exists()


# a cluster that comes and goes ------------------------------------------------------------------------------


def _dask(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_" + arguments[0], *arguments[1:], "--no-dashboard"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_a_sweep_waits_for_workers_and_ends_in_one_sentence_when_the_scheduler_goes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_LONELY", 1.0)
    monkeypatch.setattr(cluster, "_LOOK", 0.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    (tmp_path / "notes").mkdir()
    sweep = small(unhurried, axes={"seed": range(200)}, settings={"notes": str(tmp_path / "notes")})
    scheduler, workers = _dask("scheduler", "--host", address), []

    def come_and_go() -> None:
        wait_for(lambda: "waits for one" in capfd.readouterr().err)
        workers.append(_dask("worker", address, "--nthreads", "2", "--no-nanny"))
        wait_for(lambda: len(list((tmp_path / "notes").iterdir())) >= 4)
        scheduler.kill()

    story = threading.Thread(target=come_and_go)
    story.start()
    try:
        with pytest.raises(InvalidInput, match=f"^the scheduler at {address} has gone: what was finished is kept, and"):
            run(sweep, tmp_path / "out", scheduler=address)
        story.join()
        said = capfd.readouterr().err.splitlines()
        assert [line for line in said if "the sweep waits for one" not in line] == []
    finally:
        for process in (scheduler, *workers):
            process.kill()
            process.wait()
