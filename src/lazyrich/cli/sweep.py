"""Sweeps: a grid of problems from a small file, computed in blocks into a folder, and gone on with by the same command.

Exit status 0: every cell is in the folder. Cells that diverged or failed are results too: they are listed, and the
store holds why. 1: some could not be computed, and the same command tries them again. 2: bad input. 3: a shard has done
its share, and others have not.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich.cli._output import json_document, table

if TYPE_CHECKING:
    from lazyrich.sweeps import Summary, Sweep
    from lazyrich.sweeps.store import Failure

EXAMPLE = "lazyrich sweep kunin2024/1b --dry-run"

_DESCRIPTION = """\
Computes every cell of a grid: a published sweep by name, or your own from a file.
`lazyrich sweep --list` names the published ones and all that a file can name,
`lazyrich sweep NAME --show` prints one to copy and edit. Results go into one folder as
they come; the same command goes on after any interruption."""
_OUT = "lazyrich-out"
_SHOWN = 10  # causes in a table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    add = parser.add_argument
    add("sweep", nargs="?", metavar="NAME|FILE.toml", help="a published sweep, or a file that describes one")
    add("--out", metavar="DIR", help=f"folder of the results (default: {_OUT}/NAME)")
    add_where(parser, default=1, words="1")
    add("--slurm", metavar="N", type=int, help="submit N jobs of SLURM that share the sweep, and end")
    add("--sbatch", metavar="OPTIONS", default="", help="of these jobs: --sbatch='--time=4:00:00 --partition=short'")
    add("--block", metavar="AXIS=N,…", help="cells of a block along axes (default: by the size of the problem)")
    add_again(parser)
    instead = {
        "--dry-run": "print cells, blocks, memory and predicted time; write nothing",
        "--status": "print what the folder holds: cells by status, and why some failed",
        "--show": "print the file of a sweep",
        "--list": "name the published sweeps, the problems and the observables",
    }
    add_instead(parser, instead)
    add("--json", action="store_true", help="print one JSON document instead of text")


def add_where(parser: argparse.ArgumentParser, default: int | None, words: str) -> None:
    """Where the blocks of a sweep or an experiment are computed."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--workers", metavar="N", type=int, default=default, help=f"processes on this machine (default: {words})"
    )
    where.add_argument("--scheduler", metavar="tcp://…", help="address of a Dask scheduler whose workers compute")
    parser.add_argument(
        "--shard", metavar="I/N", help="every N-th block from the I-th on: for job arrays that share one folder"
    )


def add_again(parser: argparse.ArgumentParser) -> None:
    """How a folder is gone on with."""
    add = parser.add_argument
    add("--limit", metavar="SECONDS", type=float, help="what a cell may take; one that takes longer is left to be done")
    flags = {
        "--retry-failed": "try cells again that have failed",
        "--verify": "read every chunk, name what is damaged, and compute it again",
        "--grow": "add what is new on the axes to a folder that holds the rest",
        "--mixed": "go on in a folder that other versions or functions have begun",
    }
    for flag, purpose in flags.items():
        add(flag, action="store_true", help=purpose)


def again_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """As `run` takes it."""
    if arguments.limit is not None:
        _check.positive("--limit", arguments.limit)
    return {name: getattr(arguments, name) for name in ("limit", "retry_failed", "verify", "grow", "mixed")}


def status_of(summary: Summary) -> int:
    """The exit status: 0 where nothing is left to be done."""
    if summary.failed_blocks or summary.pending_here:
        return 1
    return 3 if summary.pending else 0


def add_instead(parser: argparse.ArgumentParser, flags: dict[str, str]) -> None:
    """Flags for what is done instead of computing, one at a time."""
    group = parser.add_mutually_exclusive_group()
    for flag, purpose in flags.items():
        group.add_argument(flag, action="store_true", help=purpose)


def run(arguments: argparse.Namespace) -> int:
    if arguments.list:
        print(_listing(arguments.json))
        return 0
    if arguments.status:
        print(_report_of(_folder(arguments), arguments.json))
        return 0
    if arguments.verify and arguments.sweep is None:
        return _verified(_folder(arguments), arguments.json)
    sweep, path = _read(arguments.sweep)
    if arguments.show:
        print(json_document(sweep.as_dict()) if arguments.json else path.read_text(encoding="utf-8").rstrip())
        return 0
    _check.count("--workers", arguments.workers)
    shard = shard_of(arguments.shard)
    if arguments.block is not None:
        sweep = dataclasses.replace(sweep, block=_block(arguments.block))
    if arguments.dry_run:
        print(_forecast(sweep, arguments, shard))
        return 0
    if arguments.slurm is not None:
        print(_submitted(arguments))
        return 0
    from lazyrich.sweeps.run import run as go_through  # here, so that --help needs no extras

    out = _folder(arguments)
    where = {"workers": arguments.workers, "scheduler": arguments.scheduler, "shard": shard}
    summary = go_through(sweep, out, **where, **again_of(arguments))
    if arguments.json:
        told = {"sweep": sweep.name, "out": out, "pending": summary.pending} | dataclasses.asdict(summary)
        print(json_document(told))
    else:
        print(f"{summary}\nResults: {out}")
    return status_of(summary)


# what is asked for ------------------------------------------------------------------------------------------


def _read(asked: str | None) -> tuple[Sweep, Path]:
    """The sweep, and the file that says it."""
    from lazyrich.papers.shelf import sweep_file, sweeps, unknown
    from lazyrich.sweeps import Sweep

    if asked is None:
        raise InvalidInput("NAME is missing: a published sweep such as kunin2024/1b, or a file; --list names them.")
    known = [*sweeps(), *(name.partition("/")[2] for name in sweeps())]
    if asked in known:
        return Sweep.from_toml(sweep_file(asked)), sweep_file(asked)
    if asked.endswith(".toml") or Path(asked).is_file():
        return Sweep.from_toml(asked), Path(asked)
    raise unknown("sweep", asked, sweeps())


def _folder(arguments: argparse.Namespace) -> Path:
    if arguments.out is None and arguments.sweep is None:
        flag = "--status" if arguments.status else "--verify"
        raise InvalidInput(f"{flag} needs the folder of a sweep, --out DIR, or its NAME.")
    from lazyrich.sweeps.folder import as_folder

    return as_folder(arguments.out or Path(_OUT, _plain_name(arguments.sweep)))


def _plain_name(asked: str) -> str:
    """Of a file, its own name; of a published sweep or an experiment, one without a slash."""
    return Path(asked).name.removesuffix(".toml") if asked.endswith(".toml") else asked.replace("/", "-")


def shard_of(text: str | None) -> tuple[int, int] | None:
    """The two numbers of --shard I/N."""
    if text is None:
        return None
    parts = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    one, of = map(int, parts.groups()) if parts else (0, 0)
    if not 1 <= one <= of:
        raise InvalidInput(f"--shard must be I/N with I from 1 to N, such as 2/16, and it is {text!r}.")
    return one, of


def _block(text: str) -> dict[str, int]:
    sizes = re.findall(r"(\w+)=([0-9]{1,9})(?:,|$)", text)
    if not sizes or ",".join(map("=".join, sizes)) != text:
        raise InvalidInput(f"--block must be AXIS=N,…, such as seed=1,tau=17, and it is {text!r}.")
    return {axis: int(size) for axis, size in sizes}


# what is said -----------------------------------------------------------------------------------------------


def _listing(as_json: bool) -> str:
    from lazyrich.papers import sweep, sweeps
    from lazyrich.sweeps.fields import field_names
    from lazyrich.sweeps.measure import names
    from lazyrich.sweeps.problems import PROBLEMS

    published = [{"sweep": name, "cells": sweep(name).cells, "about": sweep(name).about} for name in sweeps()]
    if as_json:
        problems = [
            {"problem": name, "about": inspect.getdoc(factory), "arguments": _arguments(factory)}
            for name, factory in PROBLEMS.items()
        ]
        told = {"sweeps": published, "problems": problems, "observables": names()}
        return json_document(told | {"fields": {method: field_names(method) for method in ("predict", "fate")}})
    lines = ["Published sweeps", "", table(published), "", "Problems that a file can name, and their arguments"]
    for name, factory in PROBLEMS.items():
        given = [each if value is None else f"{each} = {value}" for each, value in _arguments(factory).items()]
        lines += ["", f"{name}: {str(inspect.getdoc(factory)).splitlines()[0]}", f"    {', '.join(given)}"]
    lines += ["", "Observables", "", textwrap.fill(", ".join(names()), 100)]
    for method in ("predict", "fate"):
        lines += ["", f"Observables of the method {method}", "", textwrap.fill(", ".join(field_names(method)), 100)]
    return "\n".join(lines)


def _arguments(factory: Callable[..., object]) -> dict[str, object]:
    """Names and defaults; None where there is none."""
    parameters = inspect.signature(factory).parameters.values()
    return {p.name: None if p.default is p.empty else p.default for p in parameters}


def _forecast(sweep: Sweep, arguments: argparse.Namespace, shard: tuple[int, int] | None) -> str:
    from lazyrich.sweeps.estimate import estimate, with_blocks
    from lazyrich.sweeps.local import one_thread

    with one_thread():  # as the blocks will have
        sweep = with_blocks(sweep, arguments.workers * (shard[1] if shard else 1))
        guess = estimate(sweep)
    workers = arguments.workers if guess.device == "cpu" else 1  # processes share a GPU
    seconds = guess.cells * guess.seconds_per_cell / workers / (shard[1] if shard else 1)
    if arguments.json:
        told = guess._asdict() | {"block_shape": sweep.block_shape, "seconds": seconds}
        return json_document({"sweep": sweep.name} | told)
    grid = " × ".join(f"{axis} {n}" for axis, n in zip(sweep.axes, sweep.shape, strict=True))
    rows = {
        "sweep": f"{sweep.name}: {sweep.about}".rstrip(": "),
        "grid": grid,
        "cells": f"{guess.cells:,}",
        "blocks": f"{guess.blocks:,} of {' × '.join(map(str, sweep.block_shape))} cells",
        "store": f"at most {_size(guess.store)}",
        "memory": f"{_size(guess.memory)} of arrays in each process",
        "time": f"about {_duration(seconds)} on {workers} × {guess.device}"
        + (f", for shard {shard[0]} of {shard[1]}" if shard else "")
        + f" ({guess.seconds_per_cell:.2g} s a cell), and some seconds to start and compile",
    }
    if guess.impossible:
        rows["beware"] = f"{guess.impossible} of {guess.tried} cells tried cannot be made: {guess.cause}"
    return "\n".join(f"{name:<8}{value}" for name, value in rows.items())


def _submitted(arguments: argparse.Namespace) -> str:
    """What SLURM answers to the same command as a job array."""
    from lazyrich.sweeps.slurm import submit

    for flag, given in (("--shard", arguments.shard), ("--scheduler", arguments.scheduler)):
        if given is not None:
            raise InvalidInput(f"--slurm makes shards of its own, and cannot be with {flag}.")
    out = _folder(arguments).absolute()
    name = str(Path(arguments.sweep).absolute()) if Path(arguments.sweep).is_file() else arguments.sweep
    command = ["sweep", name, "--out", str(out), "--workers", str(arguments.workers)]
    command += [] if arguments.block is None else ["--block", arguments.block]
    command += [] if arguments.limit is None else ["--limit", str(arguments.limit)]
    command += [f"--{flag}" for flag in ("grow", "mixed") if getattr(arguments, flag)]
    return f"{submit(command, _check.count('--slurm', arguments.slurm), arguments.sbatch)}\nResults: {out}"


def _verified(out: Path, as_json: bool) -> int:
    """Names what is damaged in a folder."""
    from lazyrich.sweeps.store import files_in, verify

    damaged, count = verify(out), files_in(out)
    if as_json:
        told = [{"block": damage.block, "file": damage.path, "fault": damage.fault} for damage in damaged]
        print(json_document({"out": out, "files": count, "damaged": told}))
    elif damaged:
        many = f"{len(damaged):,} of {count:,} files {'is' if len(damaged) == 1 else 'are'} damaged"
        advice = "--verify with the name or file of the sweep computes its block again"
        print("\n".join([*map(str, damaged), f"{out}: {many}; {advice}."]))
    else:
        print(f"{out}: {count:,} files are what was written.")
    return int(bool(damaged))


def _report_of(out: Path, as_json: bool) -> str:
    from lazyrich.sweeps.store import by_kind, failures, place_of, summary

    counts, causes = summary(out), failures(out)
    if as_json:
        return json_document({"out": out, "cells": counts, "failures": causes})
    there = ", ".join(f"{n:,} {status}" for status, n in counts.items() if n)
    lines = [f"{out}: {sum(counts.values()):,} cells: {there}."]
    rows = [
        {"cells": len(alike), "status": _status_of(first), "the first": place_of(first), "cause": first["cause"]}
        for alike in by_kind(causes)
        for first in alike[:1]
    ]
    lines += ["", table(rows[:_SHOWN])] if rows else []
    return "\n".join(lines + [f"and {len(rows) - _SHOWN:,} other causes: --json lists all"] * (len(rows) > _SHOWN))


def _status_of(entry: Failure) -> str:
    return f"without {entry['observable']}" if entry["observable"] else entry["status"]


def _size(count: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2g} seconds"
