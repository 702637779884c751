"""Sockets: where the server listens, and how long it waits for those that connect and say nothing."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from lazyrich import _check
from lazyrich._check import InvalidInput

PORT = 8765
MOST_CLIENTS = 200
_MOST_FRAME = 2**20  # bytes of a message that is read at all: a longer one ends the connection
SILENCE = 10.0  # seconds for the head of a request to come, and of a page that makes room for another one
_MOST_SOCKETS = 4000


def server_for(app: Starlette) -> uvicorn.Server:
    """The web server, with its bounds."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            loop="asyncio",  # wherever uvloop is installed too: one loop, and its transports, is what is tested
            ws="auto",
            ws_max_size=_MOST_FRAME,
            ws_per_message_deflate=False,  # it would take longer than the computation
            http=Impatient,
            limit_concurrency=_MOST_SOCKETS,
            timeout_graceful_shutdown=1,
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_level="critical",  # faults are ours to tell
            log_config=None,  # its own would close what handlers of other libraries write to
        )
    )


class Impatient(AutoHTTPProtocol):  # type: ignore[misc]
    """A connection that is closed when no request comes: silent ones would take the places of others."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._incomplete():
            self._wait()

    def _incomplete(self) -> bool:
        """Is nothing being answered, and nothing but the start of a request there?"""
        return self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        asyncio.get_running_loop().call_later(SILENCE, self._end, self.cycle)

    def _end(self, cycle: object) -> None:
        ours = self.transport.get_protocol() is self  # it is another's once it has become a page's
        if ours and self.cycle is cycle and self._incomplete() and not self.transport.is_closing():
            self.transport.close()


def is_loopback(host: str) -> bool:
    """Is it this machine, seen from itself?"""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def listener_at(host: str, port: int | None) -> socket.socket:
    """A socket that listens; a taken port is a fault only where it was asked for."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    wanted = PORT if port is None else _check.count("port", port, least=0, most=65_535)
    try:
        return socket.create_server((host, wanted), family=family)
    except (OSError, UnicodeError) as error:
        if port is None and getattr(error, "errno", None) == errno.EADDRINUSE:
            return socket.create_server((host, 0), family=family)
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(f"port {wanted} of {host} cannot be served: {reason}.") from None
