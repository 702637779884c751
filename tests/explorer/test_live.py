"""The live connection of the explorer: stages in order, the latest request alone, one page beside another, faults."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed

import lazyrich as lr
from lazyrich.explorer import scheduling, server
from lazyrich.explorer.scheduling import Client, Pool, Pools, Request
from lazyrich.explorer.state import CONTROLS, State
from lazyrich.explorer.view import view

from .serving import decoded, heard, send, until

pytestmark = pytest.mark.timeout(120)


class Gate:
    """Stands in for a function: waits at its gate where `closed` says so, and knows who has come by."""

    def __init__(self, monkeypatch, name, closed=lambda state: True):
        self.came, self.open = threading.Semaphore(0), threading.Event()
        self.states = []
        inner = getattr(scheduling, name)

        def passing(state, *rest):
            self.states.append(state)
            self.came.release()
            if closed(state):
                assert self.open.wait(60)
            return inner(state, *rest)

        monkeypatch.setattr(scheduling, name, passing)


# live -------------------------------------------------------------------------------------------------------


@pytest.mark.compiles
def test_stages_come_in_order(running):
    with running.live() as link:
        send(link, 7, phase=True, descent=True, scale=0.1)
        answers = [heard(link) for _ in range(5)]
        assert [header["kind"] for header, _ in answers] == ["view", "captions", "descent", "weights", "phase"]
        assert {header["id"] for header, _ in answers} == {7}
        (_, first), (told, _), (_, descent), (drawn, weights), (_, phase) = answers
        assert told["sentence"] and first["times"].ndim == 1
        assert drawn["layers"] == 2 and weights["W1"].shape == (len(weights["times"]), 14, 8)
        assert descent["loss"].shape[0] == descent["times"].size
        assert phase["movement"].shape == (phase["lams"].size, phase["scales"].size)
        send(link, 8, scale=0.1)
        assert [heard(link)[0]["kind"] for _ in range(2)] == ["view", "captions"]
        send(link, 9, scale=0.1, then=["reversal"], descent=True)  # no descent on a sequence
        assert [header["kind"] for header in until(link, "captions", 9)] == ["view", "captions"]


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
        seen = until(link, "captions", 200)
    shown = [header["id"] for header in seen if header["kind"] == "view"]
    assert shown[-1] == 200 and len(shown) < 200 and shown == sorted(set(shown))
    assert {header["kind"] for header in seen} == {"view", "captions"}
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
        seen = [(header["kind"], header["id"]) for header in until(link, "captions", 4)]
    assert seen == [("view", 1), ("view", 4), ("captions", 4)]


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
        assert [(header["kind"], header["id"]) for header in until(one, "captions", 5)] == [
            ("view", 5),
            ("captions", 5),
        ]
        send(one, 6, then=["reversal"], seed=6)
        one.send("a full stop")
        assert heard(one)[0]["kind"] == "error"
        assert [state.seed for state in gate.states if state.then] == [1]
        gate.open.set()
        assert [(header["kind"], header["id"]) for header in until(one, "captions", 6)] == [
            ("view", 6),
            ("captions", 6),
        ]
        assert [state.seed for state in gate.states if state.then] == [1, 6]


def test_what_is_integrated_goes_to_the_slow_lane(running, monkeypatch):
    threads = []
    inner = scheduling.view
    monkeypatch.setattr(
        scheduling, "view", lambda *given: threads.append(threading.current_thread().name) or inner(*given)
    )
    with running.live() as link:
        send(link, 1)
        until(link, "captions", 1)
        send(link, 2, task="random_regression", d_in=3, d_out=2, start="gaussian", width=4, scale=0.5)
        until(link, "captions", 2)
    assert "quick" in threads[0] and "slow" in threads[1]


def test_a_page_that_does_not_read_is_computed_nothing_more(monkeypatch, in_a_thread):
    computed = []
    monkeypatch.setattr(scheduling, "view", lambda state, *rest: computed.append(state.seed) or view(state, *rest))

    async def scenario():
        room, waiting, sent = asyncio.Event(), asyncio.Event(), []

        async def full(message):
            waiting.set()
            await room.wait()
            sent.append(decoded(message)[0])

        shared = Pools(*(Pool(name, 1) for name in Pools._fields))
        client = Client(shared, full)
        work = [asyncio.create_task(client.work(pool)) for pool in shared.of_pages]
        client.ask(Request(1, State(seed=1)))
        await waiting.wait()
        for id in range(2, 20):
            client.ask(Request(id, State(seed=id)))
            await shared.quick.run(lambda: None)  # by now the client has asked for a turn, if it does;
            await shared.quick.run(lambda: None)  # and now it has had it
        before = list(computed)
        room.set()
        while not sent or (sent[-1]["kind"], sent[-1]["id"]) != ("captions", 19):
            await asyncio.sleep(0.01)
        for task in work:
            task.cancel()
        for pool in shared:
            pool.close()
        return before, sent

    before, sent = in_a_thread(asyncio.wait_for(scenario(), 60))
    assert before == [1] and computed == [1, 19]
    assert [header["id"] for header in sent if header["kind"] == "view"] == [1, 19]


def test_a_phase_picture_is_drawn_once_and_few_are_kept(running, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        scheduling, "phase", lambda state, stale: drawn.append(state) or ({}, {"movement": np.array([[state.seed]])})
    )
    monkeypatch.setattr(scheduling, "_MOST_PICTURES", 2)
    scheduling._pictures.clear()
    with running.live() as link:
        for id, scale in enumerate((0.01, 0.2)):
            send(link, id, phase=True, scale=scale)
            assert until(link, "phase", id)[-1]["point"] == [scale, 0.0]  # which is not what is kept
        assert len(drawn) == 1
        for seed in (1, 2, 3, 1, 3):
            send(link, seed, phase=True, seed=seed)
            until(link, "phase", seed)
        assert [state.seed for state in drawn[1:]] == [1, 2, 3, 1] and len(scheduling._pictures) == 2
    scheduling._pictures.clear()


def test_a_phase_picture_for_nobody_is_given_up(running, monkeypatch):
    begun, given_up = threading.Semaphore(0), threading.Semaphore(0)

    def endless(state, stale):
        begun.release()
        while not stale():
            time.sleep(0.001)
        given_up.release()

    monkeypatch.setattr(scheduling, "phase", endless)
    with running.live() as link:
        send(link, 1, phase=True, seed=11)
        assert begun.acquire(timeout=60)
        send(link, 2, seed=12)
        assert given_up.acquire(timeout=60)
        seen = [(header["kind"], header["id"]) for header in until(link, "captions", 2)]
        assert seen == [("view", 1), ("captions", 1), ("weights", 1), ("view", 2), ("captions", 2)]
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
@pytest.mark.parametrize("stage", ["view", "captions"])
def test_a_stage_that_fails_is_one_sentence(running, monkeypatch, caplog, stage, error, says, logged):
    def fail(*_):
        raise error

    with running.live() as link:
        with monkeypatch.context() as patch:
            patch.setattr(scheduling, stage, fail)
            send(link, 1, descent=True)
            seen = [heard(link)[0] for _ in range(1 if stage == "view" else 3)]
        told = seen[0 if stage == "view" else 1]
        assert (told["kind"], told["id"]) == ("error", 1)
        assert says in told["sentence"] and "\n" not in told["sentence"] and "secret" not in told["sentence"]
        assert [header["kind"] for header in seen] == (["error"] if stage == "view" else ["view", "error", "descent"])
        assert any(record.exc_info for record in caplog.records) == logged
        send(link, 2)
        assert [header["kind"] for header in until(link, "captions", 2)] == ["view", "captions"]


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
        assert "at most 163,840 characters, and it has 200," in answers[-1]["sentence"]
        send(link, 4)
        assert [header["kind"] for header in until(link, "captions", 4)] == ["view", "captions"]
    assert len(answers) == 2101 and {answer["kind"] for answer in answers} == {"error"}
    for answer in answers:
        sentence = answer["sentence"]
        assert answer["id"] in (None, 1, 3) and 0 < len(sentence) <= 501 and "\n" not in sentence
        assert "Traceback" not in sentence and sentence[-1] in ".…"


def test_what_breaks_the_protocol_ends_one_connection_only(running):
    with running.live() as other:
        with running.live() as link, pytest.raises(ConnectionClosed):  # it may end before all has been sent
            link.send("x" * 2**21)
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
        while len(running.app.state.clients) > 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        with running.live() as three:
            send(three, 1)
            assert heard(three)[0]["kind"] == "view"


# bounds -----------------------------------------------------------------------------------------------------


def test_programs_of_many_shapes_are_forgotten(monkeypatch):
    import jax

    forgotten = []
    monkeypatch.setattr(jax, "clear_caches", lambda: forgotten.append(True))
    monkeypatch.setattr(scheduling, "_MOST_PROGRAMS", 3)
    scheduling._programs.clear()
    for width in (1, 2, 3, 2, 1):
        scheduling._bound_programs(State(width=width))
    assert not forgotten
    scheduling._bound_programs(State(width=4))
    assert forgotten == [True] and not scheduling._programs


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
    assert scheduling.Request(1, State(**chosen)).pool == ("slow" if is_slow else "quick")
