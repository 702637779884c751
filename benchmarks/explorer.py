"""The explorer under load: many pages that drag, messages that are no requests, an upload that is far too large.

    python benchmarks/explorer.py [--part drag|junk|upload] [--seconds 60] [--clients 50] [--messages 10000]

The server runs in a process of its own, all clients in this one. Asked of it: no error, p95 of a view under 1 s with 50
pages, memory that does not grow, an answer to every message, and an upload of 1 GB refused within its first megabytes.

drag    Pages move λ or the scale of an 8-14-8 network, twice for so many seconds: `next` sends a state as soon as the
        view of the last one has come, as the page does; `30 a second` sends whether answers come or not, as a page
        must not. Latency is from the sending of a request to its view; requests that a newer one overtook have none.
        Where other programs take the CPU, its time per view says more; it holds all that the server does meanwhile.
        Memory is the server's resident set before the pages come, after a quarter of the time, and at the end.
junk    Messages that are wrong in every way we thought of, some thousands a second; each must be answered.
upload  1 GB, announced or in chunks without a length: how much went out before the answer came, socket buffers
        included (some megabytes).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from websockets.asyncio.client import ClientConnection, connect

START = "from lazyrich.explorer.server import serve; serve(port=0, open_browser=False)"
GOOD = {"id": 1, "state": {"scale": 0.1, "lam": 1.0, "rates": [1.0, 2.0]}, "phase": False}


class Server(NamedTuple):
    """A server in a process of its own."""

    host: str
    port: int
    process: int

    @property
    def memory(self) -> float:
        """MB that are resident."""
        return int(self._told("rss")) / 1024

    @property
    def work(self) -> float:
        """Seconds of CPU time so far."""
        return sum(float(part) * 60**k for k, part in enumerate(reversed(self._told("time").split(":"))))

    def _told(self, what: str) -> str:
        command = ["ps", "-o", f"{what}=", "-p", str(self.process)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def connect(self) -> Any:
        return connect(f"ws://{self.host}:{self.port}/live", max_size=None, compression=None, max_queue=None)


@contextmanager
def running() -> Iterator[Server]:
    process = subprocess.Popen([sys.executable, "-c", START], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = re.search(r"http://\S+", process.stdout.readline())
        assert address is not None, "the server did not start"
        place = urlsplit(address.group())
        assert place.hostname is not None and place.port is not None
        yield Server(place.hostname, place.port, process.pid)
    finally:
        process.terminate()
        process.wait()


def header_of(message: Any) -> dict[str, Any]:
    size = int.from_bytes(message[:4], "little")
    return json.loads(message[4 : 4 + size])


# drag -------------------------------------------------------------------------------------------------------


def dragged(page: int, step: int) -> dict[str, Any]:
    """A hand that goes to and fro: half of the pages move λ, the others the scale."""
    sway = math.sin(0.05 * step + page)
    if page % 2:
        return {"start": "lambda_balanced", "lam": 10 * sway, "scale": 0.1, "seed": page}
    return {"scale": 10 ** (-1.5 + sway), "seed": page}


class Page:
    """One client, and what it has seen."""

    def __init__(self, number: int, server: Server) -> None:
        self._number, self._server = number, server
        self._sent: dict[int, float] = {}
        self._seen = asyncio.Event()
        self.latencies: list[float] = []
        self.kinds: list[str] = []

    async def drag(self, until: float, pace: float | None) -> None:
        async with self._server.connect() as socket:
            listening = asyncio.create_task(self._listen(socket))
            step = 0
            while time.perf_counter() < until and not listening.done():
                step += 1
                self._seen.clear()
                self._sent[step] = time.perf_counter()
                await socket.send(json.dumps({"id": step, "state": dragged(self._number, step), "phase": False}))
                await (asyncio.sleep(pace) if pace else self._seen.wait())
            listening.cancel()

    async def _listen(self, socket: ClientConnection) -> None:
        async for message in socket:
            header = header_of(message)
            self.kinds.append(header["kind"])
            if header["kind"] == "view":
                self.latencies.append(time.perf_counter() - self._sent[header["id"]])
                self._seen.set()


async def drag(server: Server, clients: int, seconds: float, pace: float | None) -> dict[str, Any]:
    memory, work = [server.memory], server.work
    pages = [Page(number, server) for number in range(clients)]
    started = time.perf_counter()
    hands = [asyncio.create_task(page.drag(started + seconds, pace)) for page in pages]
    await asyncio.sleep(seconds / 4)
    memory.append(server.memory)
    await asyncio.sleep(started + 0.98 * seconds - time.perf_counter())
    memory.append(server.memory)
    lost = [fault for fault in await asyncio.gather(*hands, return_exceptions=True) if fault is not None]
    latencies = np.concatenate([page.latencies for page in pages])
    return {
        "errors": len(lost) + sum(page.kinds.count("error") for page in pages),
        "views": len(latencies),
        "a second": round(len(latencies) / seconds, 1),
        "CPU ms a view": round(1000 * (server.work - work) / len(latencies), 1),
        "fewest per page": min(len(page.latencies) for page in pages),
        "median s": round(float(np.median(latencies)), 3),
        "p95 s": round(float(np.quantile(latencies, 0.95)), 3),
        "MB before, ¼, end": " ".join(f"{value:.0f}" for value in memory),
    }


# junk -------------------------------------------------------------------------------------------------------


def junk(rng: random.Random) -> str | bytes:
    """A message that is no request, by construction."""
    good = json.dumps(GOOD)
    letters = "".join(chr(rng.choice((rng.randrange(32, 127), rng.randrange(0x20, 0xD000)))) for _ in range(40))
    number = rng.choice((-1e9, 1e300, 10**4000, -(10**25)))
    odd = rng.choice((None, True, [], {}, "", letters, [[]], {"a": [1]}, number))
    fields = ("d_in", "depth", "scale", "lam", "seed", "weight_decay", "horizon", "rate", "task", "then", "rates")
    return rng.choice(
        (
            letters,
            rng.randbytes(rng.randrange(200)),
            good.encode(),
            good[: rng.randrange(len(good))],
            "[" * rng.randrange(5, 50_000),
            '{"a":' * rng.randrange(5, 20_000),
            "9" * rng.randrange(1, 9000),
            json.dumps({**GOOD, "id": rng.choice((None, True, 1.5, "1", [1], 2**60))}),
            json.dumps({**GOOD, "state": rng.choice((None, True, 1, letters, [], [GOOD]))}),
            json.dumps({**GOOD, "phase": rng.choice((None, 0, 1, "true", [], {}))}),
            json.dumps({**GOOD, "state": {letters: 1}}),
            json.dumps({**GOOD, "state": {rng.choice(fields[:8]): odd}}),
            json.dumps({**GOOD, "state": {rng.choice(fields[8:]): rng.choice((1, None, [letters], [None], [[1]]))}}),
            json.dumps({**GOOD, "state": {rng.choice(fields[:8]): math.nan}}),
            json.dumps({**GOOD, letters: 1}),
            json.dumps({"state": {}}),
            json.dumps({**GOOD, "state": {"matrix": "1 " * 100_000}}),
        )
    )


async def pelt(server: Server, messages: int) -> dict[str, Any]:
    rng = random.Random(0)
    kinds: list[str] = []
    started = time.perf_counter()
    async with server.connect() as socket:
        for begun in range(0, messages, 100):
            for _ in range(min(100, messages - begun)):
                await socket.send(junk(rng))
            while len(kinds) < min(begun + 100, messages):
                kinds.append(header_of(await asyncio.wait_for(socket.recv(), 60))["kind"])
        seconds = time.perf_counter() - started
        await socket.send(json.dumps(GOOD))
        alive = header_of(await asyncio.wait_for(socket.recv(), 60))["kind"] == "view"
    return {
        "messages": messages,
        "answered by a sentence": kinds.count("error"),
        "a second": round(messages / seconds),
        "then a view": alive,
    }


# upload -----------------------------------------------------------------------------------------------------


def upload(server: Server, announced: bool, size: int = 10**9) -> dict[str, Any]:
    length = f"Content-Length: {size}" if announced else "Transfer-Encoding: chunked"
    head = f"POST /upload?name=a.csv HTTP/1.1\r\nHost: {server.host}:{server.port}\r\n{length}\r\n\r\n"
    piece = b"1,2,3\n" * 10_000
    wire = piece if announced else f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
    sent = 0
    with socket.create_connection((server.host, server.port)) as link:
        with suppress(ConnectionError):  # the server has closed; its answer is there all the same
            link.sendall(head.encode())
            while sent < size and not select.select([link], [], [], 0)[0]:
                link.sendall(wire)
                sent += len(piece)
        answer = link.recv(4096)
    status = answer.split(b"\r\n")[0].decode()
    return {
        "upload": "1 GB, announced" if announced else "in chunks",
        "answer": status,
        "MB sent": round(sent / 1e6, 2),
    }


# all --------------------------------------------------------------------------------------------------------


def show(row: dict[str, Any]) -> None:
    print("  ".join(f"{name}: {value}" for name, value in row.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("drag", "junk", "upload"))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--messages", type=int, default=10_000)
    chosen = parser.parse_args()
    print(f"{os.cpu_count()} cores")
    with running() as server:
        if chosen.part in (None, "drag"):
            for name, pace in (("next", None), ("30 a second", 1 / 30)):
                show({"drag": name} | asyncio.run(drag(server, chosen.clients, chosen.seconds, pace)))
        if chosen.part in (None, "junk"):
            show(asyncio.run(pelt(server, chosen.messages)))
        if chosen.part in (None, "upload"):
            for announced in (True, False):
                show(upload(server, announced))


if __name__ == "__main__":
    main()
