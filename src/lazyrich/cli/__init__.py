"""The command line: `lazyrich demo`, `lazyrich predict`, `lazyrich figure`, `lazyrich sweep`, …

One file per command, named after it, with EXAMPLE, `add_arguments(parser)` and `run(arguments)`: to add a command,
write such a file and enter its name and what it does below. Only the command that is asked for is loaded. Results go
to standard output, everything else to standard error. Bad input is answered with one sentence and exit status 2.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from lazyrich._version import __version__

__all__ = ["main"]

_COMMANDS = {
    "demo": "a semantic hierarchy learned from three initialisations: a table and a figure",
    "predict": "facts, fate and loss curve of your own network on your own data",
    "figure": "the figures of the papers, one command each",
    "claims": "what the papers state, each statement tried on random problems",
    "sweep": "grids of problems, from one laptop to a cluster; resumes where it was stopped",
    "experiment": "lazy and rich in deep networks: kernels, filters, hierarchies, grokking; resumes like a sweep",
    "explore": "a page to explore: drag λ from lazy to rich and watch",
    "export": "stories of that page as one file, which opens without a server or a network",
}
_BAD_INPUT, _INTERRUPTED, _BROKEN_PIPE = 2, 130, 141


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, without the usage in front of it."""

    def error(self, message: str) -> NoReturn:
        self.exit(_BAD_INPUT, f"{self.prog}: {message.rstrip('.')}; {self.prog} --help says more.\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without Greek letters gets question marks, not a traceback
            stream.reconfigure(errors="replace")
    if sys.stdout is None:  # `lazyrich … >&-`
        return _refuse("standard output is closed, and results are written there")
    try:
        status = _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()  # here, where a reader that has left can still be dealt with
        return status
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # the reader has left, as in `lazyrich demo | head`: nothing is wrong
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except (ImportError, OSError) as error:
        return _refuse(str(error))


def _refuse(reason: str) -> int:
    if sys.stderr is not None:
        lines = [" ".join(line.split()) for line in reason.rstrip(".").splitlines() if line.strip()]
        print("lazyrich: " + "\n  ".join(lines) + "." * (len(lines) == 1), file=sys.stderr)
    return _BAD_INPUT


def _run(arguments: Sequence[str]) -> int:
    try:
        parsed = _parser(arguments).parse_args(arguments)
    except SystemExit as stop:  # argparse, after --help, --version or a mistake
        return int(stop.code or 0)
    import numpy as np  # after --help, which needs nothing of the library

    from lazyrich import InvalidInput, NoExactSolution

    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)  # overflow ends in one sentence below
            return int(parsed.run(parsed) or 0)
    except (InvalidInput, NoExactSolution) as error:
        return _refuse(str(error))
    except (ArithmeticError, np.linalg.LinAlgError, MemoryError) as error:  # numbers that are beyond arithmetic
        what = " ".join(str(error).split()) or type(error).__name__
        return _refuse(f"the numbers are too large, too small or too many for this: {what}")


def _parser(arguments: Sequence[str] = tuple(_COMMANDS)) -> argparse.ArgumentParser:
    """Of all commands, with the options of those that are named."""
    parser = _Parser(
        prog="lazyrich",
        description="Exact learning dynamics of deep linear networks, from lazy to rich.",
        epilog="example:\n  lazyrich demo",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lazyrich {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, purpose in _COMMANDS.items():
        sub = commands.add_parser(name, help=purpose, formatter_class=argparse.RawDescriptionHelpFormatter)
        if name in arguments:
            command = import_module(f"lazyrich.cli.{name}")
            sub.epilog = f"example:\n  {command.EXAMPLE}"
            command.add_arguments(sub)
            sub.set_defaults(run=command.run)
    return parser
