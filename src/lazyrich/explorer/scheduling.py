"""Where and when a request is computed: stage after stage, for the latest request of each page only.

All pages share small pools of threads. In the quick one runs what theory gives at once; in the slow one what is
integrated in NumPy, draws the phase picture or is large; in the engine's, one at a time, what JAX compiles and
integrates, which takes seconds and much memory. So nobody who drags a slider waits for someone else's integration.
Files have threads of their own. A page has at most one turn in each pool, waiting or running, and a turn takes up
whatever is the latest request when it starts: those who wait long skip more, nobody falls behind. An integration that
goes on for long is ended when its page has asked for something else, or has left, or after a minute.

A view that is ready is sent even if the slider has moved on meanwhile, as long as no later one has been: while a slider
is dragged faster than views come, the page follows it. All other stages are for the latest request alone. Requests
belong to the event loop; threads read them, and what they find goes back to the loop.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from threading import Lock
from typing import NamedTuple, NoReturn

import numpy as np

import lazyrich as lr
from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._progress import interruptible
from lazyrich._typing import Array
from lazyrich.explorer.captions import captions
from lazyrich.explorer.phase import phase, phase_header, phase_key
from lazyrich.explorer.pools import Interrupted, Pool, Pools, patient
from lazyrich.explorer.script import Script, prepared
from lazyrich.explorer.state import State
from lazyrich.explorer.view import View, descent, view, weights
from lazyrich.explorer.wire import Header, encoded

MOST_CHARACTERS = 160 * 1024  # of a request: a matrix and packed data, 64 KiB each, and all else
_MOST_DEPTH = 4  # of lists and objects in a request
_LARGEST_ID = 2**53  # JavaScript counts so far

_REST = 0.06  # seconds without a newer request, before what is shown is told in words
_MOST_PICTURES = 64  # of phases, 3 kB each
_MOST_PROGRAMS = 3  # shapes of networks that JAX has compiled for
_LARGE = 72  # units of all layers, from where on a view and its captions take a good part of a second
_MOST_TOLD = 500  # characters of a sentence

_IN_WORDS = (InvalidInput, lr.NoExactSolution, ImportError)  # their messages are written for users
_BEYOND_ARITHMETIC = (ArithmeticError, np.linalg.LinAlgError, MemoryError)

Found = tuple[Header, dict[str, Array]]
_log = logging.getLogger(__name__)


# requests ---------------------------------------------------------------------------------------------------


def parsed(text: str | None) -> object:
    """JSON, neither long nor deep."""
    if text is None:
        raise InvalidInput("a request must be text, and it is binary.")
    if len(text) > MOST_CHARACTERS:
        raise InvalidInput(f"a request must have at most {MOST_CHARACTERS:,} characters, and it has {len(text):,}.")
    try:
        content = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise InvalidInput(f"a request must be JSON, and it is {_check.shown(text)}.") from None
    if _is_deeper(content, _MOST_DEPTH):
        raise InvalidInput(f"a request must be at most {_MOST_DEPTH} lists or objects deep, and it is deeper.")
    return content


def id_of(content: object) -> int | None:
    """What a page calls its request, if it has given it a proper name."""
    id = content.get("id") if isinstance(content, dict) else None
    return id if isinstance(id, int) and not isinstance(id, bool) and abs(id) < _LARGEST_ID else None


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity are not JSON


def _is_deeper(content: object, depth: int) -> bool:
    if not isinstance(content, dict | list):
        return False
    parts = content.values() if isinstance(content, dict) else content
    return depth == 0 or any(_is_deeper(part, depth - 1) for part in parts)


@dataclass(eq=False)
class Request:
    """What a page asks for, and the stages that are still to come."""

    id: int
    state: State
    with_phase: bool = False
    number: int = 0  # among the requests of its page
    inexact: bool | None = None  # whether no theorem applies; not known before a first look
    integrated: bool = False  # or whether the weights have to be, which pass from one task to the next
    large: bool = field(init=False)
    script: Script | None = None
    view: View | None = None
    solved: Script | None = None  # that descent goes on from
    stages: list[str] = field(init=False)

    @classmethod
    def from_content(cls, content: object) -> Request:
        """From what a page has sent, or one sentence."""
        names = ("id", "state", "phase")
        if not isinstance(content, dict) or set(content) != set(names):
            raise InvalidInput(
                f"a request must be an object with {', '.join(names)}, and it is {_check.shown(content)}."
            )
        id = id_of(content)
        if id is None:
            raise InvalidInput(f"id must be a whole number below 2^53, and it is {_check.shown(content['id'])}.")
        return cls(id, State.from_dict(content["state"]), _check.flag("phase", content["phase"]))

    def __post_init__(self) -> None:
        self.stages, self.large = ["view", "captions"], _units(self.state) > _LARGE
        self.integrated = bool(self.state.then)
        if self.state.descent and not self.state.then:
            self.stages.append("descent")
        if self.with_phase:
            self.stages += ["weights", "phase"]

    @property
    def stage(self) -> str | None:
        """The next one."""
        return next(iter(self.stages), None)

    @property
    def pool(self) -> str:
        """Where the next stage belongs."""
        if self.stage == "descent" or (self.integrated and self.stage == "view" and self.by_engine):
            return "engine"
        return "slow" if self.large or self.integrated or self.stage in ("weights", "phase") else "quick"

    @property
    def by_engine(self) -> bool:
        """Is it JAX that integrates? Two layers, one task after no other, it is not."""
        return self.state.depth != 2 or bool(self.state.then and self.inexact)

    def look(self) -> None:
        """Finds out whether a theorem applies, which takes a fraction of a view."""
        if self.script is None and self.inexact is None:
            self.script = prepared(self.state)
            self.inexact = self.script.problem.facts.method is None
            self.integrated = self.inexact or bool(self.state.then)

    def found(self, stale: Callable[[], bool]) -> Found | None:
        """The next stage; nothing where it has become stale on the way."""
        if self.pool == "engine":
            _bound_programs(self.state)
        match self.stage:
            case "view":
                self.view, self.script = view(self.state, self.script), None
                self.solved = self.view.script if "descent" in self.stages else None
                return self.view.header, self.view.arrays
            case "captions":
                assert self.view is not None
                shown = self.view
                if "weights" not in self.stages:
                    self.view = None  # megabytes that nothing needs afterwards
                return captions(self.state, shown), {}
            case "weights":
                assert self.view is not None
                shown, self.view = self.view, None
                return weights(shown)
            case "descent":
                return descent(self.state, self.solved)[:2]
        return _picture(self.state, stale)


def _units(state: State) -> int:
    """About so many in all layers, by a look at the choices alone."""
    rows = state.matrix.replace("\n", ";").split(";")
    ends = {
        "binary_tree": 2**state.levels + state.d_out,
        "random_regression": state.d_in + state.d_out,
        "piecewise_teacher": state.d_in,
        "own": len(rows) + len(rows[0].split()),
        "linear_teacher": len(rows) + len(rows[0].split()),
        "uploaded": round((len(state.data) / 8) ** 0.5),
    }
    return ends.get(state.task, 16) + state.width * (state.depth - 1)


_programs: set[tuple[object, ...]] = set()  # of the process, as what JAX has compiled is
_programs_lock = Lock()


def _bound_programs(state: State) -> None:
    """For every shape of network that was integrated JAX keeps programs of some 15 MB: after many, it forgets them."""
    sizes = (state.task, state.d_in, state.d_out, state.levels, len(state.matrix), len(state.data))
    with _programs_lock:
        _programs.add((*sizes, state.start, state.depth, state.width, state.descent))
        if len(_programs) <= _MOST_PROGRAMS:
            return
        _programs.clear()
    import_module("jax").clear_caches()


_pictures: OrderedDict[str, dict[str, Array]] = OrderedDict()  # of the process: all pages share them
_pictures_lock = Lock()


def _picture(state: State, stale: Callable[[], bool]) -> Found | None:
    """The phase picture, whose arrays stay the same while a point is dragged within it."""
    key = phase_key(state)
    with _pictures_lock:
        arrays = _pictures.get(key)
    if arrays is None:
        found = phase(state, stale)
        if found is None:
            return None
        arrays = found[1]
    with _pictures_lock:
        _pictures[key] = arrays
        _pictures.move_to_end(key)
        while len(_pictures) > _MOST_PICTURES:
            _pictures.popitem(last=False)
    return phase_header(state), arrays


# what goes wrong --------------------------------------------------------------------------------------------


def sentence_for(error: Exception) -> str:
    """What a page is told. Faults that are not the user's are in the server's log too."""
    reason = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, _IN_WORDS):
        text = reason
    elif isinstance(error, _BEYOND_ARITHMETIC):
        text = f"the numbers are too large, too small or too many for this: {reason}"
    else:
        _log.error("A request failed.", exc_info=error)
        text = "something went wrong on the server, and its log says what"
        if isinstance(error, RuntimeError):  # of an engine
            text = f"this could not be computed: {reason}"
    return f"{text.rstrip('.')}." if len(text) <= _MOST_TOLD else f"{text[:_MOST_TOLD]}…"


def error_message(id: int | None, sentence: str) -> bytes:
    """An error as a message."""
    return encoded({"kind": "error", "id": id, "sentence": sentence})


# pages ------------------------------------------------------------------------------------------------------


class _Answer(NamedTuple):
    request: Request
    message: bytes | None  # None: there is nothing to send
    failed: bool = False


class Client:
    """One page: its latest request, and how far the answer to it has come."""

    def __init__(self, pools: Pools, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._pools = pools
        self._send = send
        self.heard = time.monotonic()  # when anything came from it
        self.given_up = asyncio.Event()  # its place is another page's now
        self._latest: Request | None = None
        self._asked = self._shown = 0  # numbers of the latest request and of the last one whose view was sent
        self._wake = {pool: asyncio.Event() for pool in pools.of_pages}

    def ask(self, request: Request) -> None:
        """From now on this request counts."""
        self._asked += 1
        request.number = self._asked
        self._latest = request
        self._rouse()

    def leave(self) -> None:
        """Whatever is on its way is for nobody."""
        self._latest = None

    async def work(self, pool: Pool) -> None:
        """Takes this page's turns in one pool, for ever. What a turn finds is sent before the next one is asked for."""
        while True:
            await self._wake[pool].wait()
            self._wake[pool].clear()
            due = self._due(pool)
            if due is None:
                continue
            if due.stage == "captions":  # nobody reads while a slider moves
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake[pool].wait(), _REST)
            answer = await pool.run(self._turn, pool)
            if answer is not None:
                await self._deliver(answer)
            self._rouse()

    def _due(self, pool: Pool) -> Request | None:
        """The latest request, if its next stage belongs in this pool."""
        request = self._latest
        if request is None or request.stage is None:
            return None
        return request if pool is getattr(self._pools, request.pool) else None

    def _rouse(self) -> None:
        """Wakes the pool that is to go on."""
        for pool, wake in self._wake.items():
            if self._due(pool) is not None:
                wake.set()

    def _turn(self, pool: Pool) -> _Answer | None:
        """In a thread: one stage of whatever counts now, or nothing where it belongs in the other pool."""
        request = self._due(pool)
        if request is None:
            return None

        def stale() -> bool:
            return self._latest is not request

        try:
            request.look()
            if pool is not getattr(self._pools, request.pool):
                return None
            with interruptible(patient(stale)):
                found = request.found(stale)
            if found is None:
                return _Answer(request, None)
            header, arrays = found
            return _Answer(request, encoded({**header, "id": request.id}, arrays))
        except Interrupted:
            return None
        except Exception as error:
            return _Answer(request, error_message(request.id, sentence_for(error)), failed=True)

    async def _deliver(self, answer: _Answer) -> None:
        request, shows = answer.request, answer.request.stage == "view" and not answer.failed
        if answer.message is not None and (request is self._latest or (shows and request.number > self._shown)):
            self._shown = request.number
            await self._send(answer.message)
        if answer.failed and request.stage == "view":
            request.stages.clear()  # without a view there is nothing more to say
        else:
            del request.stages[0]
