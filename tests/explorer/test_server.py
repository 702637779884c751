"""The explorer's server as a page meets it: over a real socket, with clients that behave and clients that do not."""

from __future__ import annotations

import asyncio
import json
import random
import select
import socket
import struct
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

import lazyrich as lr
from lazyrich.explorer import lanes, server, takeaway
from lazyrich.explorer.lanes import Client, Lane, Lanes, Request
from lazyrich.explorer.state import CONTROLS, State
from lazyrich.explorer.uploads import MOST_UPLOAD
from lazyrich.explorer.view import view

pytestmark = pytest.mark.timeout(120)
FOREIGN = ("http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1", "http://127.0.0.1:1", "")


class Running:
    """A server on a free port of the loopback, in a thread of its own."""

    def __init__(self, host="127.0.0.1"):
        self.app = server.application(host)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.place = f"127.0.0.1:{self.port}"
        self.web = server.server_for(self.app)
        self.thread = threading.Thread(target=self.web.run, kwargs={"sockets": [self.listener]})
        self.thread.start()

    def stop(self):
        self.web.should_exit = True
        self.thread.join()

    def live(self, **options):
        return connect(f"ws://{self.place}/live", max_size=None, compression=None, proxy=None, **options)

    def ask(self, method, path, **options):
        return httpx.request(method, f"http://{self.place}{path}", trust_env=False, timeout=60, **options)

    def raw(self, head, body=b""):
        """Bytes as they are, and all that comes back until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port)) as link:
            link.sendall(head.encode() + b"\r\n\r\n" + body)
            answer = b""
            while part := link.recv(65536):
                answer += part
        return answer.decode(errors="replace")


@pytest.fixture(scope="module")
def running():
    started = Running()
    yield started
    started.stop()


def decoded(message):
    """A frame, read as its description says."""
    (size,) = struct.unpack("<I", message[:4])
    header, place, arrays = json.loads(message[4 : 4 + size]), 4 + size, {}
    for name, shape in header.pop("arrays"):
        count = int(np.prod(shape, dtype=int))
        arrays[name] = np.array(struct.unpack_from(f"<{count}f", message, place), dtype=np.float32).reshape(shape)
        place += 4 * count
    assert place == len(message)
    return header, arrays


def send(link, id, phase=False, **state):
    link.send(json.dumps({"id": id, "state": state, "phase": phase}))


def heard(link):
    return decoded(link.recv(timeout=60))


def until(link, kind, id):
    """All headers up to one of this kind and name."""
    found = []
    while not found or (found[-1]["kind"], found[-1]["id"]) != (kind, id):
        found.append(heard(link)[0])
    return found


class Gate:
    """Stands in for a function: waits at its gate where `closed` says so, and knows who has come by."""

    def __init__(self, monkeypatch, name, closed=lambda state: True):
        self.came, self.open = threading.Semaphore(0), threading.Event()
        self.states = []
        inner = getattr(lanes, name)

        def passing(state, *rest):
            self.states.append(state)
            self.came.release()
            if closed(state):
                assert self.open.wait(60)
            return inner(state, *rest)

        monkeypatch.setattr(lanes, name, passing)


# live -------------------------------------------------------------------------------------------------------


def test_stages_come_in_order(running):
    with running.live() as link:
        send(link, 7, phase=True, descent=True, scale=0.1)
        answers = [heard(link) for _ in range(4)]
        assert [header["kind"] for header, _ in answers] == ["view", "story", "descent", "phase"]
        assert {header["id"] for header, _ in answers} == {7}
        (_, first), (told, _), (_, descent), (_, phase) = answers
        assert told["sentence"] and first["times"].shape == (200,)
        assert descent["loss"].shape[0] == descent["times"].size
        assert phase["movement"].shape == (phase["lams"].size, phase["scales"].size)
        send(link, 8, scale=0.1)
        assert [heard(link)[0]["kind"] for _ in range(2)] == ["view", "story"]
        send(link, 9, scale=0.1, then=["reversal"], descent=True)  # no descent on a sequence
        assert [header["kind"] for header in until(link, "story", 9)] == ["view", "story"]


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"start": "lambda_balanced", "lam": -3.0, "scale": 0.5},
        {"task": "random_regression", "start": "single_neuron", "lam": -1.0, "scale": 0.01, "angle": 120.0},
        {"task": "own", "matrix": "1 2 3; 0 -1 1", "depth": 3, "width": 4, "start": "aligned", "scale": 0.3},
        {"depth": 1, "scale": 1.0},
        {"then": ["reversal", "colour_hierarchy"]},
        {"task": "random_regression", "d_in": 3, "d_out": 2, "start": "gaussian", "width": 4, "scale": 0.5},
    ],
)
def test_the_numbers_are_those_of_the_view(running, state):
    expected = view(State.from_dict(state))
    with running.live() as link:
        send(link, 1, **state)
        header, arrays = heard(link)
    assert header["method"] == expected.header["method"] and arrays.keys() == expected.arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, np.asarray(expected.arrays[name]).astype(np.float32), err_msg=name)


def test_the_last_of_a_burst_is_answered(running):
    with running.live() as link:
        for id in range(1, 201):
            send(link, id, scale=id / 100)
        seen = until(link, "story", 200)
    shown = [header["id"] for header in seen if header["kind"] == "view"]
    assert shown[-1] == 200 and len(shown) < 200 and shown == sorted(set(shown))
    assert {header["kind"] for header in seen} == {"view", "story"}
    assert all(header["id"] in shown for header in seen)


def test_a_page_is_followed_while_it_drags(running, monkeypatch):
    """A view that is ready is sent though the hand has moved on, and then the one that counts; what is between, not."""
    gate = Gate(monkeypatch, "view", lambda state: state.seed == 1)
    with running.live() as link:
        send(link, 1, seed=1)
        assert gate.came.acquire(timeout=60)
        for id in (2, 3, 4):
            send(link, id, seed=id)
        link.send("a full stop")  # answered when all before it has been taken in
        assert heard(link)[0]["kind"] == "error"
        gate.open.set()
        seen = [(header["kind"], header["id"]) for header in until(link, "story", 4)]
    assert seen == [("view", 1), ("view", 4), ("story", 4)]


def test_a_slow_request_stalls_nobody(running, monkeypatch):
    """Not another page, nor the page that sent it; it has one slow turn at a time; what comes too late is dropped."""
    gate = Gate(monkeypatch, "view", lambda state: bool(state.then))
    with running.live() as one, running.live() as other:
        send(one, 1, then=["reversal"], seed=1)
        assert gate.came.acquire(timeout=60)
        send(other, 1, seed=2)
        assert heard(other)[0]["kind"] == "view"
        for id in (2, 3, 4):
            send(one, id, then=["reversal"], seed=id)
        send(one, 5, seed=5)
        assert [(header["kind"], header["id"]) for header in until(one, "story", 5)] == [("view", 5), ("story", 5)]
        send(one, 6, then=["reversal"], seed=6)
        one.send("a full stop")
        assert heard(one)[0]["kind"] == "error"
        assert [state.seed for state in gate.states if state.then] == [1]
        gate.open.set()
        assert [(header["kind"], header["id"]) for header in until(one, "story", 6)] == [("view", 6), ("story", 6)]
        assert [state.seed for state in gate.states if state.then] == [1, 6]


def test_what_is_integrated_goes_to_the_slow_lane(running, monkeypatch):
    threads = []
    inner = lanes.view
    monkeypatch.setattr(lanes, "view", lambda *given: threads.append(threading.current_thread().name) or inner(*given))
    with running.live() as link:
        send(link, 1)
        until(link, "story", 1)
        send(link, 2, task="random_regression", d_in=3, d_out=2, start="gaussian", width=4, scale=0.5)
        until(link, "story", 2)
    assert "quick" in threads[0] and "slow" in threads[1]


def test_a_page_that_does_not_read_is_computed_nothing_more(monkeypatch):
    computed = []
    monkeypatch.setattr(lanes, "view", lambda state, *rest: computed.append(state.seed) or view(state, *rest))

    async def scenario():
        room, waiting, sent = asyncio.Event(), asyncio.Event(), []

        async def full(frame):
            waiting.set()
            await room.wait()
            sent.append(decoded(frame)[0])

        shared = Lanes(Lane("quick", 1), Lane("slow", 1))
        client = Client(shared, full)
        work = [asyncio.create_task(client.work(lane)) for lane in shared]
        client.ask(Request(1, State(seed=1)))
        await waiting.wait()
        for id in range(2, 20):
            client.ask(Request(id, State(seed=id)))
            await shared.quick.run(lambda: None)  # by now the client has asked for a turn, if it does;
            await shared.quick.run(lambda: None)  # and now it has had it
        before = list(computed)
        room.set()
        while not sent or (sent[-1]["kind"], sent[-1]["id"]) != ("story", 19):
            await asyncio.sleep(0.01)
        for task in work:
            task.cancel()
        for lane in shared:
            lane.close()
        return before, sent

    before, sent = asyncio.run(asyncio.wait_for(scenario(), 60))
    assert before == [1] and computed == [1, 19]
    assert [header["id"] for header in sent if header["kind"] == "view"] == [1, 19]


def test_a_phase_picture_is_drawn_once_and_few_are_kept(running, monkeypatch):
    drawn = []
    monkeypatch.setattr(lanes, "phase", lambda state, stale: drawn.append(state) or ({}, {"movement": [[state.seed]]}))
    monkeypatch.setattr(lanes, "_MOST_PICTURES", 2)
    lanes._pictures.clear()
    with running.live() as link:
        for id, scale in enumerate((0.01, 0.2)):
            send(link, id, phase=True, scale=scale)
            assert until(link, "phase", id)[-1]["point"] == [scale, 0.0]  # which is not what is kept
        assert len(drawn) == 1
        for seed in (1, 2, 3, 1, 3):
            send(link, seed, phase=True, seed=seed)
            until(link, "phase", seed)
        assert [state.seed for state in drawn[1:]] == [1, 2, 3, 1] and len(lanes._pictures) == 2
    lanes._pictures.clear()


def test_a_phase_picture_for_nobody_is_given_up(running, monkeypatch):
    begun, given_up = threading.Semaphore(0), threading.Semaphore(0)

    def endless(state, stale):
        begun.release()
        while not stale():
            time.sleep(0.001)
        given_up.release()

    monkeypatch.setattr(lanes, "phase", endless)
    with running.live() as link:
        send(link, 1, phase=True, seed=11)
        assert begun.acquire(timeout=60)
        send(link, 2, seed=12)
        assert given_up.acquire(timeout=60)
        seen = [(header["kind"], header["id"]) for header in until(link, "story", 2)]
        assert seen == [("view", 1), ("story", 1), ("view", 2), ("story", 2)]
        send(link, 3, phase=True, seed=13)
        assert begun.acquire(timeout=60)
    assert given_up.acquire(timeout=60)  # the page has left


# faults -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "says", "logged"),
    [
        (lr.InvalidInput("scale must be odd,\nand it is even."), "scale must be odd, and it is even.", False),
        (lr.NoExactSolution("no theorem applies"), "no theorem applies.", False),
        (ImportError("flow needs jax: pip install 'lazyrich[engines]'."), "flow needs jax: pip install", False),
        (np.linalg.LinAlgError("SVD did not converge"), "too large, too small or too many", False),
        (OverflowError(), "OverflowError.", False),
        (MemoryError(), "MemoryError.", False),
        (RuntimeError("the engine stalled"), "this could not be computed: the engine stalled.", True),
        (KeyError("/home/secret"), "something went wrong on the server, and its log says what.", True),
    ],
)
@pytest.mark.parametrize("stage", ["view", "story"])
def test_a_stage_that_fails_is_one_sentence(running, monkeypatch, caplog, stage, error, says, logged):
    def fail(*_):
        raise error

    with running.live() as link:
        with monkeypatch.context() as patch:
            patch.setattr(lanes, stage, fail)
            send(link, 1, descent=True)
            seen = [heard(link)[0] for _ in range(1 if stage == "view" else 3)]
        told = seen[0 if stage == "view" else 1]
        assert (told["kind"], told["id"]) == ("error", 1)
        assert says in told["sentence"] and "\n" not in told["sentence"] and "secret" not in told["sentence"]
        assert [header["kind"] for header in seen] == (["error"] if stage == "view" else ["view", "error", "descent"])
        assert any(record.exc_info for record in caplog.records) == logged
        send(link, 2)
        assert [header["kind"] for header in until(link, "story", 2)] == ["view", "story"]


def malformed(rng):
    """A message that is no request, whatever the dice say."""
    good = {"id": 3, "state": {"scale": 0.1, "rates": [1.0, 2.0], "then": ["reversal"]}, "phase": False}
    text = json.dumps(good)
    name = rng.choice([control.name for control in CONTROLS])
    value = rng.choice([None, {}, {"a": 1}, [[1]], [None], 1e400, -(10**30), 10**4200, [1] * 9, float("nan")])
    noise = "".join(chr(rng.randrange(0x20, 0xD7FF)) for _ in range(rng.randrange(1, 60)))
    makers = (
        lambda: text[: rng.randrange(len(text))],
        lambda: text + rng.choice(["}", ",", "{}", "x", "]"]),
        lambda: text.replace(rng.choice(['"', ":", "{", "["]), noise[:1], 1) if noise[0] not in " \"':{[" else "{",
        lambda: noise,
        lambda: rng.randbytes(rng.randrange(300)),
        lambda: text.encode(),
        lambda: json.dumps({**good, "state": {name: value}}, allow_nan=True),
        lambda: json.dumps({**good, "state": {noise: 1}}),
        lambda: json.dumps({**good, "id": rng.choice([None, "3", 1.0, True, [], 2**53, -(2**70)])}),
        lambda: json.dumps({**good, "state": rng.choice([None, 3, "x", [], [{}], True])}),
        lambda: json.dumps({**good, "phase": rng.choice([None, 0, 1, "no", {}, [False]])}),
        lambda: json.dumps({key: good[key] for key in rng.sample(sorted(good), rng.randrange(3))}),
        lambda: json.dumps({**good, noise: noise}),
        lambda: rng.choice("[{") * rng.randrange(1, 3000),
        lambda: '{"id":1,"state":' + "[" * 2000 + "]" * 2000 + ',"phase":true}',
        lambda: rng.choice(['"\\ud800"', '{"id": 1, "state": {"\\udfff": 1}, "phase": true}', "-", "1e9999", "\0"]),
    )
    return rng.choice(makers)()


def test_malformed_messages_are_all_answered(running):
    rng = random.Random(7)
    answers = []
    with running.live() as link:
        for _ in range(100):
            for _ in range(21):
                link.send(malformed(rng))
            answers += [heard(link)[0] for _ in range(21)]
        too_long = json.dumps({"id": 1, "state": {"matrix": "1 " * 100_000}, "phase": False})
        link.send(too_long)
        answers.append(heard(link)[0])
        assert "at most 163,840 letters, and it has 200," in answers[-1]["sentence"]
        send(link, 4)
        assert [header["kind"] for header in until(link, "story", 4)] == ["view", "story"]
    assert len(answers) == 2101 and {answer["kind"] for answer in answers} == {"error"}
    for answer in answers:
        sentence = answer["sentence"]
        assert answer["id"] in (None, 1, 3) and 0 < len(sentence) <= 501 and "\n" not in sentence
        assert "Traceback" not in sentence and sentence[-1] in ".…"


def test_what_breaks_the_protocol_ends_one_connection_only(running):
    with running.live() as other:
        with running.live() as link:
            link.send("x" * 2**21)
            with pytest.raises(ConnectionClosed):
                link.recv(timeout=60)
        with running.live() as link:
            link.send(b"\xff\xfe", text=True)
            with pytest.raises(ConnectionClosed):
                link.recv(timeout=60)
        send(other, 1)
        assert heard(other)[0]["kind"] == "view"


def test_there_is_room_for_so_many_pages(running, monkeypatch):
    deadline = time.monotonic() + 60
    while running.app.state.clients and time.monotonic() < deadline:  # those of earlier tests leave
        time.sleep(0.01)
    monkeypatch.setattr(server, "MOST_CLIENTS", 2)
    with running.live() as one, running.live() as two:
        for link in (one, two):
            link.send("x")
            assert heard(link)[0]["kind"] == "error"
        with running.live() as three:
            told = heard(three)[0]
            assert (told["kind"], told["id"]) == ("error", None) and "2 pages are open" in told["sentence"]
            with pytest.raises(ConnectionClosed) as closed:
                three.recv(timeout=60)
            assert closed.value.rcvd.code == 1013
        two.close()
        while running.app.state.clients > 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        with running.live() as three:
            send(three, 1)
            assert heard(three)[0]["kind"] == "view"


# who may ask ------------------------------------------------------------------------------------------------


def test_foreign_origins_are_refused(running):
    ours = f"http://{running.place}"
    with running.live(origin=ours) as link:
        send(link, 1)
        assert heard(link)[0]["kind"] == "view"
    assert running.ask("POST", "/take/py", content="{}", headers={"origin": ours}).status_code == 200
    for origin in (*FOREIGN, f"https://{running.place}", f"{ours}.evil.example", f"{ours}/"):
        with pytest.raises(InvalidStatus) as refused, running.live(additional_headers={"Origin": origin}):
            pass
        assert refused.value.response.status_code == 403
        answer = running.ask("POST", "/take/py", content="{}", headers={"origin": origin})
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
def test_other_hosts_where_they_are_served(served, host, status):
    async def ask():
        transport = httpx.ASGITransport(server.application(served))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.get("/hello", headers={"host": host})

    assert asyncio.run(ask()).status_code == status


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
    assert "plotly.js" in running.ask("GET", "/plotly.min.js").text[:200]
    for file in PAGE.iterdir():
        answer = running.ask("GET", f"/page/{file.name}")
        assert answer.content == file.read_bytes()
        assert answer.headers["content-type"].split(";")[0] == KINDS[file.suffix]
        assert answer.headers["cache-control"] == "no-cache"


def test_hello(running):
    told = running.ask("GET", "/hello").json()
    assert told["version"] == lr.__version__ and told["most_upload"] == MOST_UPLOAD
    assert [control["name"] for control in told["controls"]] == list(told["defaults"])
    assert State.from_dict(told["defaults"]) == State() and len(told["presets"]) == 6


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
        "/plotly.min.js/../plotly.json",
        "/take/sh",
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
        *(running.ask("GET", path) for path in ("/", "/help", "/hello", "/plotly.min.js", "/page/style.css", "/none")),
        running.ask("HEAD", "/"),
        running.ask("DELETE", "/"),
        running.ask("GET", "/", headers={"host": "evil.example"}),
        running.ask("POST", "/take/csv", content="{}"),
        running.ask("POST", "/take/py", content="["),
        running.ask("POST", "/take/py", content=b"x" * 200_000),
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
    for kind, make in {"py": takeaway.code, "csv": takeaway.table}.items():
        answer = running.ask("POST", f"/take/{kind}", json=state)
        expected = make(State.from_dict(state))
        assert answer.content == (expected.encode() if isinstance(expected, str) else expected)
        assert answer.headers["content-disposition"] == f'attachment; filename="lazyrich-view.{kind}"'
    assert running.ask("POST", "/take/npz", json=state).content[:4] == b"PK\3\4"
    for content in ("", "[", "[]", '{"scale": "x"}', '{"nonsense": 1}', "[" * 3000, b"\xff"):
        answer = running.ask("POST", "/take/py", content=content)
        assert answer.status_code == 400 and answer.json()["sentence"].count("\n") == 0
    too_long = running.ask("POST", "/take/py", content=b" " * 200_000)
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


def test_programs_of_many_shapes_are_forgotten(monkeypatch):
    import jax

    forgotten = []
    monkeypatch.setattr(jax, "clear_caches", lambda: forgotten.append(True))
    monkeypatch.setattr(lanes, "_MOST_PROGRAMS", 3)
    lanes._programs.clear()
    for width in (1, 2, 3, 2, 1):
        lanes._bound_programs(State(width=width))
    assert not forgotten
    lanes._bound_programs(State(width=4))
    assert forgotten == [True] and not lanes._programs


@pytest.mark.parametrize(
    ("chosen", "is_slow"),
    [
        ({}, False),
        ({"task": "random_regression", "d_in": 32, "d_out": 32, "width": 14}, True),
        ({"width": 64}, True),
        ({"task": "binary_tree", "levels": 5, "d_out": 32}, True),
        ({"task": "own", "matrix": "; ".join(["1 " * 32] * 32), "width": 32}, True),
        ({"task": "own", "matrix": "1 2; 3 4", "width": 32}, False),
        ({"task": "uploaded", "data": "x" * 32_000, "width": 14}, True),
    ],
)
def test_what_is_large_leaves_the_quick_lane_to_others(chosen, is_slow):
    assert lanes.Request(1, State(**chosen)).is_slow == is_slow
