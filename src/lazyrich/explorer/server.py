"""The explorer's server: the page and its files, a WebSocket that answers the latest request, uploads and downloads.

It is made for one user on one machine. A foreign page in the same browser must not reach it: the Host of every
request must be ours (a name of another site may be made to point here), and where there is an Origin, it must be the
page that we serve. Everything that comes is bounded before it is read, nothing is kept, and no path of the file
system can be asked for: the files of the page are a fixed list. Whatever goes wrong is told in a sentence.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import socket
import threading
import time
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TypeVar

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HTTPRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

import lazyrich as lr
from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._progress import interruptible
from lazyrich._threads import one_blas_thread
from lazyrich.explorer import export, listening
from lazyrich.explorer.listening import MOST_CLIENTS, PORT, listener_at, server_for
from lazyrich.explorer.pools import Pools, patient
from lazyrich.explorer.scheduling import (
    MOST_CHARACTERS,
    Client,
    Request,
    error_message,
    id_of,
    parsed,
    sentence_for,
)
from lazyrich.explorer.state import CONTROLS, State
from lazyrich.explorer.stories import STORIES, cited, story_json
from lazyrich.explorer.uploads import MOST_UPLOAD, read_upload

_PATIENCE = 60.0  # seconds for a body to come
_LATER = 1013  # of a websocket: try again later

_HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data: blob:; style-src 'self'; connect-src 'self'; "
    "object-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}
_KINDS = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
_EXPORTS = {
    "py": (export.code, "text/x-python"),
    "csv": (export.table, "text/csv"),
    "npz": (export.archive, "application/octet-stream"),
}
_STATUSES = {404: "there is nothing at this address", 405: "this address is not asked in this way"}
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_HOST = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:@\[\]]+))(?::\d{1,5})?")  # of a header, with or without a port
_ANYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # all addresses: where this machine finds itself

R = TypeVar("R")
_log = logging.getLogger(__name__)


# running ----------------------------------------------------------------------------------------------------


def serve(host: str = "127.0.0.1", port: int | None = None, open_browser: bool = True) -> bool:
    """Serves the explorer until Ctrl-C, on port 8765 or, where that is taken and no port is given, on a free one.

    Returns whether all computations had come to an end: a thread that integrates cannot be interrupted, and Python
    waits for it.
    """
    if not isinstance(host, str):
        raise InvalidInput(f"host must be a name or an address, such as '127.0.0.1', and it is {_check.shown(host)}.")
    app = application(host)
    listener = listener_at(host, port)
    place = listener.getsockname()[1]
    if port is None and place != PORT:
        _log.warning("Port %d is taken, and %d is free.", PORT, place)
    name = _ANYWHERE.get(host, host)
    address = f"http://{f'[{name}]' if ':' in name else name}:{place}/"
    print(f"The explorer is at {address} until Ctrl-C.", flush=True)
    if open_browser:  # in a thread, since some browsers come back only when they are closed
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    with listener, suppress(KeyboardInterrupt):  # which uvicorn raises once more when it has ended
        server_for(app).run(sockets=[listener])
    return not any(pool.busy for pool in app.state.pools)


# the application --------------------------------------------------------------------------------------------


def application(host: str = "127.0.0.1") -> Starlette:
    """The explorer as an ASGI application, for pages that are asked for at `host` or at a name of the loopback."""
    routes = [
        Route("/hello", _hello),
        Route("/upload", _upload, methods=["POST"]),
        Route("/export/{kind}", _export, methods=["POST"]),
        WebSocketRoute("/live", _live),
        *(Route(path, _file_sender(file)) for path, file in _files().items()),
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(_Guard, host=host)],
        exception_handlers={HTTPException: _refused},
        lifespan=_lifespan,
    )
    app.router.redirect_slashes = False
    app.state.pools = Pools.open()
    app.state.clients = set()
    return app


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    with one_blas_thread():
        yield
    for pool in app.state.pools:
        pool.close()


class _Guard:
    """Around everything else: who may ask, the headers of every answer, and a sentence for whatever goes wrong."""

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app = app
        self._hosts = {*_LOOPBACK, host.lower()}
        self._anywhere = host in _ANYWHERE

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        begun = False

        async def with_headers(message: Message) -> None:
            nonlocal begun
            begun = True
            if message["type"].endswith("response.start"):
                ours = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *ours]}
            await send(message)

        refusal = self._refusal(scope)
        if refusal:
            await _sentence(403, refusal)(scope, receive, with_headers)
            return
        try:
            await self._app(scope, receive, with_headers)
        except Exception as error:
            sentence = sentence_for(error)
            if not begun:
                await _sentence(500, sentence)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> str:
        headers = Headers(scope=scope)
        host, origins = headers.get("host", ""), headers.getlist("origin")
        if not self._is_ours(host):
            return f"this server does not answer to the name {_check.shown(host)}"
        scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
        changes = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")
        if changes and any(origin.lower() != f"{scheme}://{host}".lower() for origin in origins):
            return f"pages from {_check.shown(origins[0])} may not use this server"
        return ""

    def _is_ours(self, host: str) -> bool:
        """A name of ours. Where all addresses are served, any in digits: no other site can make these point here."""
        if not (parts := _HOST.fullmatch(host)):
            return False
        name = (parts[1] or parts[2]).lower()
        if name in self._hosts or not self._anywhere:
            return name in self._hosts
        with suppress(ValueError):
            return bool(ipaddress.ip_address(name))
        return name == socket.gethostname().lower()


def _sentence(status: int, text: str) -> JSONResponse:
    """A refusal. The connection ends with it, so that a body which is still on its way is not read."""
    return JSONResponse({"sentence": f"{text.rstrip('.')}."}, status, {"connection": "close"})


async def _refused(request: HTTPRequest, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _sentence(error.status_code, _STATUSES.get(error.status_code, error.detail))


# files ------------------------------------------------------------------------------------------------------


def _files() -> dict[str, Path]:
    """Every path of the page that there is."""
    folder = Path(__file__).parent / "page"
    files = {f"/page/{file.name}": file for file in folder.iterdir() if file.suffix in _KINDS}
    return files | {
        "/": folder / "index.html",
        "/help": folder / "help.html",
    }


def _file_sender(file: Path) -> Callable[[HTTPRequest], Awaitable[Response]]:
    async def send(request: HTTPRequest) -> Response:
        return Response(file.read_bytes(), media_type=_KINDS[file.suffix], headers={"cache-control": "no-cache"})

    return send


async def _hello(request: HTTPRequest) -> Response:
    """What a page needs to make its controls."""
    return JSONResponse(
        {
            "version": lr.__version__,
            "controls": [{**asdict(control), "most_entries": control.most_entries} for control in CONTROLS],
            "defaults": State().to_dict(),
            "stories": [story_json(story) for story in STORIES],
            "cite": cited(STORIES),
            "most_upload": MOST_UPLOAD,
        },
        headers={"cache-control": "no-cache"},
    )


# uploads and downloads --------------------------------------------------------------------------------------


async def _upload(request: HTTPRequest) -> Response:
    content = await _body(request, MOST_UPLOAD)
    name = request.query_params.get("name", "")
    return JSONResponse(await _computed(request, "files", read_upload, name, content))


async def _export(request: HTTPRequest) -> Response:
    kind = request.path_params["kind"]
    if kind not in _EXPORTS:
        raise HTTPException(404)
    make, media_type = _EXPORTS[kind]
    text = (await _body(request, MOST_CHARACTERS)).decode(errors="replace")
    try:
        state = State.from_dict(parsed(text))
        quick = await request.app.state.pools.files.run(export.is_quick, kind, state)
    except Exception as error:
        raise HTTPException(400, sentence_for(error)) from None
    content = await _computed(request, "files" if quick else "engine", make, state)
    name = f'attachment; filename="lazyrich-view.{kind}"'
    return Response(content, media_type=media_type, headers={"content-disposition": name})


async def _body(request: HTTPRequest, most: int) -> bytes:
    """What comes with a request, refused as soon as it is known to be too long."""
    too_long = HTTPException(413, f"at most {most:,} bytes are read here")
    if int(request.headers.get("content-length", 0)) > most:
        raise too_long
    content = bytearray()
    try:
        async with asyncio.timeout(_PATIENCE):
            async for part in request.stream():
                content += part
                if len(content) > most:
                    raise too_long
    except TimeoutError:
        raise HTTPException(408, f"the body did not come within {_PATIENCE:g} seconds") from None
    except ClientDisconnect:
        raise HTTPException(400, "the body ended early") from None
    return bytes(content)


async def _computed(request: HTTPRequest, pool: str, work: Callable[..., R], *arguments: object) -> R:
    """In one of the pools, and not for longer than a view; a fault of the input is the client's."""

    def patiently() -> R:
        with interruptible(patient(lambda: False)):
            return work(*arguments)

    try:
        return await getattr(request.app.state.pools, pool).run(patiently)
    except Exception as error:
        raise HTTPException(400, sentence_for(error)) from None


# live -------------------------------------------------------------------------------------------------------


async def _live(websocket: WebSocket) -> None:
    """One page for as long as it is open."""
    state = websocket.app.state
    await websocket.accept()
    if not _make_room(state.clients):
        await websocket.send_bytes(
            error_message(None, f"{MOST_CLIENTS} pages are open, and there is no room for more.")
        )
        await websocket.close(_LATER)
        return
    client = Client(state.pools, partial(_send, websocket))
    state.clients.add(client)
    tasks = [
        asyncio.create_task(work) for work in (_receive(websocket, client), *map(client.work, state.pools.of_pages))
    ]
    try:
        given_up = asyncio.create_task(client.given_up.wait())
        done, _ = await asyncio.wait([*tasks, given_up], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        if client.given_up.is_set():
            await websocket.close(_LATER)
    finally:
        given_up.cancel()
        state.clients.discard(client)
        client.leave()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _make_room(clients: set[Client]) -> bool:
    """Whether there is room for one more page, if need be that of the one that has been silent for longest."""
    if len(clients) < MOST_CLIENTS:
        return True
    quietest = min(clients, key=lambda client: client.heard)
    if time.monotonic() - quietest.heard < listening.SILENCE:
        return False
    clients.discard(quietest)
    quietest.given_up.set()
    return True


async def _receive(websocket: WebSocket, client: Client) -> None:
    """Takes what comes, at once: a request takes the place of the one before it, all else is answered by a sentence."""
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        content: object = None
        try:
            client.heard = time.monotonic()
            content = parsed(message.get("text"))
            client.ask(Request.from_content(content))
        except Exception as error:
            await _send(websocket, error_message(id_of(content), sentence_for(error)))


async def _send(websocket: WebSocket, message: bytes) -> None:
    """Waits until there is room for it. What a page that has left would miss is dropped: `_receive` hears of it."""
    with suppress(WebSocketDisconnect, RuntimeError):
        await websocket.send_bytes(message)
