"""Who may ask the explorer's server, and what it sends: origins, hosts, headers, files, uploads, downloads."""

from __future__ import annotations

import json
import select
import socket
from pathlib import Path

import httpx
import numpy as np
import pytest
from websockets.exceptions import InvalidStatus

import lazyrich as lr
from lazyrich.explorer import export, server
from lazyrich.explorer.state import State
from lazyrich.explorer.stories import STORIES
from lazyrich.explorer.uploads import MOST_UPLOAD

from .serving import heard, send

pytestmark = pytest.mark.timeout(120)
FOREIGN = ("http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1", "http://127.0.0.1:1", "")


# who may ask ------------------------------------------------------------------------------------------------


def test_foreign_origins_are_refused(running):
    ours = f"http://{running.place}"
    with running.live(origin=ours) as link:
        send(link, 1)
        assert heard(link)[0]["kind"] == "view"
    assert running.ask("POST", "/export/py", content="{}", headers={"origin": ours}).status_code == 200
    for origin in (*FOREIGN, f"https://{running.place}", f"{ours}.evil.example", f"{ours}/"):
        with pytest.raises(InvalidStatus) as refused, running.live(additional_headers={"Origin": origin}):
            pass
        assert refused.value.response.status_code == 403
        answer = running.ask("POST", "/export/py", content="{}", headers={"origin": origin})
        assert answer.status_code == 403 and "may not use this server" in answer.json()["sentence"]
    with pytest.raises(InvalidStatus), running.live(additional_headers=[("Origin", ours), ("Origin", FOREIGN[0])]):
        pass


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "192.168.0.1",
        "",
        "[::2]",
        "localhost:80@evil.example",
        "[localhost",
        "[::1",
    ],
)
def test_foreign_hosts_are_refused(running, host):
    assert running.raw(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close").startswith("HTTP/1.1 403")
    key = (
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
        + "A" * 22
        + "=="
    )
    told = running.raw(f"GET /live HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n{key}")
    assert told.startswith("HTTP/1.1 403") and "does not answer to the name" in told


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:9", "[::1]", "[::1]:8765"])
def test_all_names_of_the_loopback_will_do(running, host):
    told = running.raw(f"GET /hello HTTP/1.1\r\nHost: {host}\r\nConnection: close")
    assert told.startswith("HTTP/1.1 200")


@pytest.mark.parametrize(
    ("served", "host", "status"),
    [
        ("lab.example", "lab.example:8765", 200),
        ("lab.example", "192.168.0.1", 403),
        ("0.0.0.0", "192.168.0.1:8765", 200),
        ("0.0.0.0", "evil.example", 403),
        ("::", "[fe80::1]:8765", 200),
        ("::", socket.gethostname(), 200),
    ],
)
def test_other_hosts_where_they_are_served(served, host, status, in_a_thread):
    async def ask():
        transport = httpx.ASGITransport(server.application(served))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.get("/hello", headers={"host": host})

    assert in_a_thread(ask()).status_code == status


# pages, uploads, downloads ----------------------------------------------------------------------------------

PAGE = Path(server.__file__).parent / "page"
KINDS = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}


def test_the_page_and_its_files(running):
    assert running.ask("GET", "/").content == (PAGE / "index.html").read_bytes()
    assert running.ask("GET", "/help").content == (PAGE / "help.html").read_bytes()
    for file in PAGE.iterdir():
        answer = running.ask("GET", f"/page/{file.name}")
        assert answer.content == file.read_bytes()
        assert answer.headers["content-type"].split(";")[0] == KINDS[file.suffix]
        assert answer.headers["cache-control"] == "no-cache"


def test_hello(running):
    told = running.ask("GET", "/hello").json()
    assert told["version"] == lr.__version__ and told["most_upload"] == MOST_UPLOAD
    assert [control["name"] for control in told["controls"]] == list(told["defaults"])
    assert State.from_dict(told["defaults"]) == State() and [story["name"] for story in told["stories"]] == [
        story.name for story in STORIES
    ]


@pytest.mark.parametrize(
    "path",
    [
        "/page/../server.py",
        "/page/%2e%2e/server.py",
        "/page/..%2fserver.py",
        "/page/..%5cserver.py",
        "/page//etc/passwd",
        "/page/%00",
        "/page/",
        "/page",
        "/page/style.css/",
        "//evil.example/help/",
        "/../../etc/passwd",
        "/etc/passwd",
        "/help/../page.json",
        "/export/sh",
    ],
)
def test_no_other_path_is_served(running, path):
    for method in ("GET", "POST"):
        told = running.raw(
            f"{method} {path} HTTP/1.1\r\nHost: {running.place}\r\nContent-Length: 0\r\nConnection: close"
        )
        assert told.split()[1] in ("404", "405") and "location:" not in told.lower()
        assert json.loads(told.partition("\r\n\r\n")[2])["sentence"].endswith(".")


def test_every_answer_has_the_policy(running):
    with pytest.raises(InvalidStatus) as refused, running.live(origin=FOREIGN[0]):
        pass
    answers = [
        refused.value.response,
        *(running.ask("GET", path) for path in ("/", "/help", "/hello", "/page/style.css", "/none")),
        running.ask("HEAD", "/"),
        running.ask("DELETE", "/"),
        running.ask("GET", "/", headers={"host": "evil.example"}),
        running.ask("POST", "/export/csv", content="{}"),
        running.ask("POST", "/export/py", content="["),
        running.ask("POST", "/export/py", content=b"x" * 200_000),
        running.ask("POST", "/upload?name=a.csv", content=b"junk"),
    ]
    for answer in answers:
        policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
        assert policy["default-src"] == policy["connect-src"] == policy["style-src"] == "'self'"
        assert policy["object-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
        assert "script-src" not in policy and "unsafe" not in str(policy)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "server" not in answer.headers


def test_files_to_take_away(running):
    state = {"scale": 0.2, "seed": 3}
    for kind, make in {"py": export.code, "csv": export.table}.items():
        answer = running.ask("POST", f"/export/{kind}", json=state)
        expected = make(State.from_dict(state))
        assert answer.content == (expected.encode() if isinstance(expected, str) else expected)
        assert answer.headers["content-disposition"] == f'attachment; filename="lazyrich-view.{kind}"'
    assert running.ask("POST", "/export/npz", json=state).content[:4] == b"PK\3\4"
    for content in ("", "[", "[]", '{"scale": "x"}', '{"nonsense": 1}', "[" * 3000, b"\xff"):
        answer = running.ask("POST", "/export/py", content=content)
        assert answer.status_code == 400 and answer.json()["sentence"].count("\n") == 0
    too_long = running.ask("POST", "/export/py", content=b" " * 200_000)
    assert too_long.status_code == 413 and "at most 163,840 bytes" in too_long.json()["sentence"]


def test_uploads(running):
    rows = np.random.default_rng(0).normal(size=(50, 3))
    text = "a,b,y\n" + "\n".join(",".join(map(str, row)) for row in rows)
    told = running.ask("POST", "/upload?name=data.csv", content=text.encode()).json()
    assert told["state"]["task"] == "uploaded" and "50 samples" in told["sentence"]
    with running.live() as link:
        send(link, 1, depth=1, **told["state"])
        assert heard(link)[0]["sizes"][0] == 2
    for name, content in (("data.csv", b"\0\1\2"), ("data.npz", b"PK"), ("", b""), ("../../etc/passwd", b"1,2")):
        answer = running.ask("POST", "/upload", params={"name": name}, content=content)
        assert answer.status_code == 400 and answer.json()["sentence"].endswith(".")


def test_a_large_upload_is_refused_before_it_is_read(running):
    head = f"POST /upload?name=a.csv HTTP/1.1\r\nHost: {running.place}\r\nContent-Length: {10**9}"
    told = running.raw(head)  # not a byte of it is waited for, and the connection ends
    assert told.startswith("HTTP/1.1 413") and "connection: close" in told
    assert f"at most {MOST_UPLOAD:,} bytes" in told


def test_an_upload_without_a_length_is_refused_on_the_way(running):
    head = f"POST /upload?name=a.csv HTTP/1.1\r\nHost: {running.place}\r\nTransfer-Encoding: chunked\r\n\r\n"
    piece, sent = b"1,2,3\n" * 10_000, 0
    with socket.create_connection(("127.0.0.1", running.port)) as link:
        link.sendall(head.encode())
        while sent <= MOST_UPLOAD:  # up to here it might still be short enough
            assert not select.select([link], [], [], 0)[0]
            link.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            sent += len(piece)
        told = link.recv(65536)
        assert told.startswith(b"HTTP/1.1 413") and b"connection: close" in told  # and it is read no further
