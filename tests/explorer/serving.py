"""A server in a thread, and a client's half of its protocol, written from its description alone."""

from __future__ import annotations

import json
import socket
import struct
import threading

import httpx
import numpy as np
from websockets.sync.client import connect

from lazyrich.explorer import server


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


def decoded(message):
    """A message, read as its description says."""
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
