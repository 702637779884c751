"""The command line: `lazyrich demo`, `lazyrich predict`, `lazyrich figure`, `lazyrich sweep`, …

One file per command, named after it, with HELP, EXAMPLE, `add_arguments(parser)` and `run(arguments)`: to add
a command, write such a file and enter its name below. Results go to standard output, everything else to
standard error. Bad input is answered with one sentence and exit status 2.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import numpy as np

from lazyrich import __version__
from lazyrich._check import InvalidInput
from lazyrich.methods.solve import NoExactSolution

__all__ = ["main"]

_COMMANDS = ("demo", "predict", "figure", "claims", "sweep", "experiment", "explore")
#: What arithmetic raises when numbers are beyond it. `ArithmeticError`: overflow, division by zero and the like.
_BEYOND_ARITHMETIC = (ArithmeticError, np.linalg.LinAlgError, MemoryError)
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
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)  # overflow ends in one sentence below
            status = _run(arguments)
        sys.stdout.flush()  # here, where a reader that has left can still be dealt with
        return status
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # the reader has left, as in `lazyrich demo | head`: nothing is wrong
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except (InvalidInput, NoExactSolution, ImportError, OSError) as error:
        return _refuse(str(error))
    except _BEYOND_ARITHMETIC as error:
        what = " ".join(str(error).split()) or type(error).__name__
        return _refuse(f"the numbers are too large, too small or too many for this: {what}")


def _refuse(reason: str) -> int:
    if sys.stderr is not None:
        lines = [" ".join(line.split()) for line in reason.rstrip(".").splitlines() if line.strip()]
        print("lazyrich: " + "\n  ".join(lines) + "." * (len(lines) == 1), file=sys.stderr)
    return _BAD_INPUT


def _run(arguments: Sequence[str] | None) -> int:
    try:
        parsed = _parser().parse_args(arguments)
    except SystemExit as stop:  # argparse, after --help, --version or a mistake
        return int(stop.code or 0)
    return int(parsed.run(parsed) or 0)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="lazyrich",
        description="Exact learning dynamics of deep linear networks, from lazy to rich.",
        epilog="example:\n  lazyrich demo",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lazyrich {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in _COMMANDS:
        command = import_module(f"lazyrich.cli.{name}")
        sub = commands.add_parser(
            name,
            help=command.HELP,
            epilog=f"example:\n  {command.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    return parser
