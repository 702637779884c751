"""The deep-network experiments: trained in blocks into a folder, gone on with by the same command, and summed up.

Exit status 0: every network is in the folder. Those that diverged are results too: they are listed, and the store
holds why. 1: some could not be computed, and the same command tries them again. 2: bad input. 3: a shard has done its
share, and others have not.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich.cli._output import json_document, table
from lazyrich.cli.sweep import add_again, add_instead, add_where, again_of, shard_of, status_of

if TYPE_CHECKING:
    from lazyrich.papers import Experiment

EXAMPLE = "lazyrich experiment rhm --preset quick --out lazyrich-out/rhm"

_DESCRIPTION = """\
Trains the networks of Kunin et al. 2024, Fig. 5: at published size (--preset paper, for
a GPU), in minutes on two cores (laptop), or in seconds for a first look (quick).
`lazyrich experiment --list` says what there is, `lazyrich experiment NAME --show` prints
the file of one to copy and edit. Results go into one folder as they come; the same
command goes on after any interruption, and prints what they show."""
_OUT = "lazyrich-out"
_FIGURES = {"lenet": "5a", "filters": "5b", "rhm": "5c", "grokking": "5d"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    add = parser.add_argument
    add("experiment", nargs="?", metavar="NAME|FILE.toml", help="lenet, filters, rhm or grokking; or a file of yours")
    add("--preset", choices=("paper", "laptop", "quick"), help="the size (default: laptop)")
    add("--out", metavar="DIR", help=f"folder of the results (default: {_OUT}/NAME-PRESET)")
    add_where(parser, default=None, words="its cores, or 1 for a GPU")
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another axis or setting: alpha=0.1,1 width=128",
    )
    add("--data", metavar="DIR", help="folder with mnist, fashion-mnist or cifar10 in it (default: $LAZYRICH_DATA)")
    add("--download", action="store_true", help="fetch the data that are missing, and check their sums")
    add_again(parser)
    instead = {
        "--status": "print what a folder holds and shows so far: --out DIR alone is enough",
        "--show": "print the file of an experiment",
        "--list": "say what experiments there are",
    }
    add_instead(parser, instead)
    add("--json", action="store_true", help="print one JSON document instead of text")


def run(arguments: argparse.Namespace) -> int:
    if arguments.list:
        print(_listing(arguments.json))
        return 0
    if arguments.status and (arguments.out or arguments.experiment):
        print(_report(_folder(arguments), arguments.json, arguments.experiment))
        return 0
    experiment, path = _read(arguments)
    if arguments.show:
        if arguments.set and not arguments.json:
            raise InvalidInput("--show prints a file as it is, without --set; --show --json prints what comes of both.")
        print(json_document(experiment.as_dict()) if arguments.json else path.read_text(encoding="utf-8").rstrip())
        return 0
    workers, shard = _workers(arguments, experiment), shard_of(arguments.shard)
    _prepare_data(experiment, arguments)
    from lazyrich.sweeps.run import run as go_through  # here, so that --help needs no extras

    out = _folder(arguments)
    where = {"workers": workers, "scheduler": arguments.scheduler, "shard": shard}
    summary = go_through(experiment, out, **where, **again_of(arguments))
    if not arguments.json:
        print(f"{summary}\n")
    print(_report(out, arguments.json))
    return status_of(summary)


# what is asked for ------------------------------------------------------------------------------------------


def _read(arguments: argparse.Namespace) -> tuple[Experiment, Path]:
    """The experiment with its changes, and the file that says it."""
    from lazyrich.papers.experiment import Experiment
    from lazyrich.papers.shelf import experiments, preset_file, unknown

    asked = arguments.experiment
    if asked is None:
        raise InvalidInput(f"NAME is missing: {', '.join(experiments())}, or a file; --list says more.")
    known = [*experiments(), *(name.partition("/")[2] for name in experiments())]
    if asked in known:
        path = preset_file(asked, arguments.preset or "laptop")
        experiment = Experiment.from_toml(path)
    elif asked.endswith(".toml") or Path(asked).is_file():
        if arguments.preset is not None:
            raise InvalidInput("--preset belongs to an experiment by name, and a file has sizes of its own.")
        experiment, path = Experiment.from_toml(asked), Path(asked)
    else:
        raise unknown("experiment", asked, experiments())
    return experiment.changed(**dict(map(_change, arguments.set))), path


def _change(text: str) -> tuple[str, object]:
    """A setting, as JSON would read it, or a word; a list where there is a comma."""
    name, equals, value = text.partition("=")
    if not name.isidentifier() or not equals or not value:
        raise InvalidInput(f"--set must be NAME=VALUE, such as alpha=0.1,1, and it is {text!r}.")
    parts = [_value(part) for part in value.split(",") if part]
    return name, parts if "," in value else parts[0]


def _value(text: str) -> int | float | str:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, int | float) else text


def _folder(arguments: argparse.Namespace) -> Path:
    """As asked for, or by the name of the experiment and its size."""
    if arguments.out:
        return Path(arguments.out)
    name = Path(arguments.experiment).name.removesuffix(".toml")
    return Path(_OUT, name if name != arguments.experiment else f"{name}-{arguments.preset or 'laptop'}")


def _prepare_data(experiment: Experiment, arguments: argparse.Namespace) -> None:
    """Where images are, for this process and its workers; those that are to be fetched are."""
    from lazyrich.papers.data import download, folder_of
    from lazyrich.papers.data.download import SOURCES

    if arguments.data is not None:
        os.environ["LAZYRICH_DATA"] = str(_check.as_path("--data", arguments.data).absolute())
    name = experiment.kind.images(experiment.cell((0,) * len(experiment.axes)))
    if arguments.download and name not in SOURCES:
        raise InvalidInput(f"--download fetches {', '.join(SOURCES)}, and this experiment needs none of them.")
    if arguments.download:
        download(name)
    elif name in SOURCES and not folder_of(name).is_dir():
        raise InvalidInput(
            f"{name} is not in {folder_of(name)}: --download fetches it, and --data names another folder."
        )
    experiment.check_data()


def _workers(arguments: argparse.Namespace, experiment: Experiment) -> int:
    """As asked for; else as suits the machine, where no others compute."""
    from lazyrich.sweeps.local import suitable_workers

    if arguments.workers is not None:
        return _check.count("--workers", arguments.workers)
    return suitable_workers(experiment) if arguments.scheduler is None else 1


# what is said -----------------------------------------------------------------------------------------------


def _listing(as_json: bool) -> str:
    from lazyrich.papers import experiment, experiments
    from lazyrich.papers.shelf import SIZES, kind

    rows = [
        {"experiment": name, "shows": kind(name).about, **{size: f"{experiment(name, size).cells:,}" for size in SIZES}}
        for name in experiments()
    ]
    if as_json:
        return json_document({"experiments": rows})
    return f"{table(rows)}\n\nThe columns paper, laptop and quick say how many networks a preset trains."


def _report(out: Path, as_json: bool, asked: str | None = None) -> str:
    from lazyrich.papers.experiment import stored
    from lazyrich.papers.shelf import experiments
    from lazyrich.sweeps.store import failures, load_store, summary

    experiment = stored(out)
    named = [name for name in experiments() if asked in (name, name.partition("/")[2])]
    if named and named[0].partition("/")[2] != experiment.experiment:
        raise InvalidInput(f"{out} must hold an experiment of the kind {asked}, and it is {experiment.experiment}.")
    counts, report = summary(out), experiment.report(load_store(out))
    if as_json:
        told = {"experiment": experiment.name, "out": out, "cells": counts, "failures": failures(out)}
        return json_document(told | report._asdict())
    there = ", ".join(f"{n:,} {status}" for status, n in counts.items() if n)
    figure = f"lazyrich figure kunin2024/{_FIGURES[experiment.experiment]} --set store={out}"
    shown = [table(report.rows), ""] if report.rows else []
    return "\n".join([*shown, report.sentence, "", f"Results: {out} ({there})", f"Figure:  {figure}"])
