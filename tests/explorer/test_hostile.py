"""A server under six who integrate and four hundred who say nothing: others are served, and nothing is left of it."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from lazyrich._check import InvalidInput
from lazyrich._progress import interruptible, progress
from lazyrich.explorer import listening, pools, scheduling, server
from lazyrich.explorer.pools import Interrupted, patient

from .serving import heard, send, until

pytestmark = pytest.mark.timeout(120)

LONG = {"task": "random_regression", "d_in": 12, "d_out": 12, "width": 24, "start": "gaussian", "scale": 8.0}


def endless(monkeypatch, began):
    """Stands in for an integration without end: it moves on, as those of the library do."""
    inner = scheduling.view

    def view(state, *rest):
        if not state.seed:
            return inner(state, *rest)
        with progress(1.0, "for ever") as advance:
            began.release()
            while True:
                time.sleep(0.002)
                advance(1e-9)

    monkeypatch.setattr(scheduling, "view", view)


def wait(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def test_whoever_waits_may_end_a_run():
    with interruptible(lambda: None), progress(1.0, "run") as advance:
        advance(0.5)
    with pytest.raises(Interrupted), interruptible(scheduling_stops()), progress(1.0, "run") as advance:
        advance(0.5)
    with progress(1.0, "run") as advance:  # only while it lasts
        advance(0.5)


def scheduling_stops():
    def look():
        raise Interrupted

    return look


def test_patience_has_a_grace_and_an_end(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(pools.time, "monotonic", lambda: now[0])
    look = patient(lambda: True)
    look()
    now[0] = 0.4
    look()
    now[0] = 0.6
    with pytest.raises(Interrupted):
        look()
    look = patient(lambda: False)
    now[0] = 60.0
    look()
    now[0] = 61.0
    with pytest.raises(InvalidInput, match=r"^this takes longer than 60 seconds to integrate"):
        look()


def test_a_newer_request_of_the_same_page_ends_an_integration(running, monkeypatch):
    began = threading.Semaphore(0)
    endless(monkeypatch, began)
    with running.live() as link:
        send(link, 1, **LONG, seed=1)
        assert began.acquire(timeout=60)
        send(link, 2, **{**LONG, "scale": 0.5, "d_in": 3, "d_out": 2, "width": 3}, seed=0)
        assert [header["id"] for header in until(link, "captions", 2)] == [2, 2]
    assert wait(lambda: not running.app.state.pools.slow.busy)


def test_a_stranger_is_served_beside_six_who_integrate(running, monkeypatch):
    """Their integrations end with their pages; uploads and code come at once, and a slider moves."""
    began = threading.Semaphore(0)
    endless(monkeypatch, began)
    links = [running.live() for _ in range(6)]
    for k, link in enumerate(links):
        send(link, 1, **LONG, seed=k + 1)
    assert began.acquire(timeout=60) and began.acquire(timeout=60)
    rows = "\n".join(",".join(map(str, row)) for row in np.random.default_rng(0).normal(size=(50, 3)))
    begin = time.monotonic()
    assert running.ask("POST", "/upload?name=data.csv", content=f"a,b,y\n{rows}".encode()).status_code == 200
    for state in {"seed": 3}, LONG:  # code of what is integrated is written, not run
        assert running.ask("POST", "/export/py", content=json.dumps(state)).status_code == 200
    with running.live() as stranger:
        send(stranger, 1, scale=0.2, seed=0)
        assert heard(stranger)[0]["kind"] == "view"
    assert time.monotonic() - begin < 5.0  # of another's sixty seconds; one second where nobody else computes
    for link in links:
        link.close()
    assert wait(lambda: not any(pool.busy for pool in running.app.state.pools))


@pytest.mark.processes
def test_four_hundred_who_say_nothing_have_no_effect(running, monkeypatch):
    monkeypatch.setattr(listening, "SILENCE", 1.0)
    quiet = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(400)]
    for link in quiet[::2]:
        link.sendall(b"GET / HTTP/1.1\r\nHost: 12")  # and no more
    assert running.ask("GET", "/hello").status_code == 200
    with running.live() as page:
        send(page, 1)
        assert heard(page)[0]["kind"] == "view"
        for link in quiet:
            link.settimeout(20)
            assert link.recv(1) == b""  # closed
            link.close()
        send(page, 2)  # which those with something to say are not
        assert until(page, "captions", 2)


def test_the_second_head_of_a_connection_may_not_take_for_ever_either(running, monkeypatch):
    monkeypatch.setattr(listening, "SILENCE", 0.3)
    with socket.create_connection(("127.0.0.1", running.port)) as link:
        link.settimeout(20)
        link.sendall(f"GET /page/icon.svg HTTP/1.1\r\nHost: {running.place}\r\n\r\n".encode())
        answer = link.recv(65536)
        link.sendall(b"GET /page/ic")
        while part := link.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 200") and answer.count(b"HTTP/1.1") == 1


def test_a_silent_page_makes_room(running, monkeypatch):
    assert wait(lambda: not running.app.state.clients)
    monkeypatch.setattr(server, "MOST_CLIENTS", 2)
    monkeypatch.setattr(listening, "SILENCE", 0.3)
    with running.live() as one, running.live() as two:
        assert wait(lambda: len(running.app.state.clients) == 2)
        time.sleep(0.4)
        send(two, 1)
        until(two, "captions", 1)
        with running.live() as three:
            send(three, 1)
            assert heard(three)[0]["kind"] == "view"
            with pytest.raises(Exception, match="1013"):
                one.recv(timeout=20)
            send(two, 2)
            assert until(two, "captions", 2)


@pytest.mark.compiles
@pytest.mark.processes
@pytest.mark.timeout(280)
def test_memory_stays_below_its_bound():
    """Six pages at once, each with a deep network of another shape that JAX compiles for."""
    from .browsing import free_port, started

    process, address = started(free_port())
    try:
        place = address.removeprefix("http://")
        from websockets.sync.client import connect

        links = [connect(f"ws://{place}/live", max_size=None, compression=None, proxy=None) for _ in range(6)]
        most = 0
        for k, link in enumerate(links):
            send(link, 1, task="own", matrix="2 0; 0 1", depth=3, width=2 + k, start="gaussian")
        for link in links:
            link.recv(timeout=250)
            most = max(most, resident(process.pid))
        assert httpx.get(f"{address}/hello", trust_env=False).status_code == 200
        print(f"{most / 2**20:.0f} MB")
        assert most < 700 * 2**20
        for link in links:
            link.close()
    finally:
        process.kill()
        process.wait(30)


def resident(pid: int) -> int:
    """Bytes in memory."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) * 1024
