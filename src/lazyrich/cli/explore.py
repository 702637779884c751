"""The explorer: a page on this machine that shows what the theory says while sliders move."""

from __future__ import annotations

import argparse
import os
import sys
from importlib.util import find_spec

from lazyrich import _check
from lazyrich._check import InvalidInput

EXAMPLE = "lazyrich explore"

_NEEDED = ("starlette", "uvicorn", "websockets", "latex2mathml")
_DESCRIPTION = """\
Starts a page on this machine and opens it in the browser: tasks, initialisations and
sequences of tasks, with exact loss, modes, kernels and representations as sliders move.
Nothing is asked of any network. Ctrl-C ends it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    add = parser.add_argument
    add("--port", type=int, metavar="N", help="port of the page (default: 8765, or a free one where that is taken)")
    add("--host", metavar="H", default="127.0.0.1", help="address to serve (default: %(default)s, this machine alone)")
    add("--allow-other-hosts", action="store_true", help="let --host be an address that other machines can reach")
    add("--no-browser", action="store_true", help="do not open the browser")


def run(arguments: argparse.Namespace) -> None:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ImportError(f"lazyrich explore needs {' and '.join(missing)}: pip install 'lazyrich[explorer]'.")
    from lazyrich.explorer.listening import is_loopback  # here, so that --help needs no extras
    from lazyrich.explorer.server import serve

    if arguments.port is not None:
        _check.count("--port", arguments.port, least=0, most=65_535)
    if not is_loopback(arguments.host) and not arguments.allow_other_hosts:
        raise InvalidInput(
            f"--host {arguments.host} can be reached from other machines, and whoever reaches it may use it: "
            "--allow-other-hosts permits that."
        )
    at_rest = serve(arguments.host, arguments.port, open_browser=not arguments.no_browser)
    if not at_rest:  # Python would wait for the threads to end, perhaps for minutes, and there is nothing to lose
        sys.stdout.flush()
        os._exit(0)
