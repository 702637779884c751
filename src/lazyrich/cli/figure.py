"""The figures of the papers: listed, computed, drawn and written with their data."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._files import write_atomically
from lazyrich.cli._output import json_document, table

if TYPE_CHECKING:
    from lazyrich.figures.catalogue import Entry

__all__ = ["EXAMPLE", "HELP", "add_arguments", "run"]

HELP = "the figures of the papers, one command each"
EXAMPLE = "lazyrich figure braun2022/2 --quick --out figures"

_FORMATS = ("png", "pdf", "svg")
_DESCRIPTION = """\
Draws figures of the papers with their published settings: theory over simulation, with
the numbers that make them true. `lazyrich figure --list` names them, `all` draws all of
them. Beside each figure its data are written (NetCDF)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="figures such as braun2022/2, papers such as braun2022, or all")
    add("--list", action="store_true", help="name all figures, or those of the papers named")
    add("--out", metavar="DIR", default="figures", help="folder to write to (default: %(default)s)")
    add("--format", choices=_FORMATS, default="png", help="of the picture (default: %(default)s)")
    add("--quick", action="store_true", help="a small version, in seconds")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="another setting, such as seeds=10")
    add("--json", action="store_true", help="print one JSON document instead of tables")


def run(arguments: argparse.Namespace) -> None:
    from lazyrich.figures.catalogue import entry, names  # here, so that --help needs no extras

    chosen = [entry(name) for name in _chosen(arguments.names, names(), arguments.list)]
    if arguments.list:
        listed = [{"figure": known.name, "title": known.title} for known in chosen]
        print(json_document({"figures": listed}) if arguments.json else table(listed))
        return
    settings = [{name: known.parse(name, text) for name, text in _pairs(arguments.set)} for known in chosen]
    folder = _folder(Path(arguments.out))
    rows = []
    for known, given in zip(chosen, settings, strict=True):
        row = _draw(known, given, folder, arguments)
        rows.append(row)
        if not arguments.json:
            print(_report(row), flush=True)
    if arguments.json:
        print(json_document({"figures": rows}))
    elif len(rows) > 1:
        print(f"\n{len(rows)} figures in {sum(row['seconds'] for row in rows):.0f} s, in {folder}")


def _draw(known: Entry, settings: dict[str, Any], folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    from lazyrich.plot import style

    start = time.perf_counter()
    data = known.compute(settings, quick=arguments.quick)
    data.attrs["seconds"] = time.perf_counter() - start
    path = folder / f"{known.name.replace('/', '-')}.{arguments.format}"
    style.save(known.draw(data), path)
    encoded = data.to_netcdf(engine="scipy")
    write_atomically(path.with_suffix(".nc"), lambda stream: stream.write(bytes(encoded)))
    measured = known.numbers(data)
    return {
        "figure": known.name,
        "title": known.title,
        "seconds": time.perf_counter() - start,
        "checks": [
            {"says": str(check), "measured": measured[name], "holds": check.holds(measured[name])}
            for name, check in known.checks.items()
        ],
        "picture": str(path),
        "data": str(path.with_suffix(".nc")),
    }


def _report(row: dict[str, Any]) -> str:
    lines = [f"{row['figure']:<24} {row['seconds']:7.1f} s   {row['picture']}"]
    for check in row["checks"]:
        verdict = "holds" if check["holds"] else "FAILS"
        lines.append(f"  {verdict}: {check['says']}, measured {check['measured']:.3g}")
    return "\n".join(lines)


def _chosen(asked: list[str], known: list[str], listing: bool) -> list[str]:
    """Names of figures; a paper stands for all of its figures, and `all` for everything."""
    if not asked and not listing:
        raise InvalidInput("NAME is missing: a figure such as braun2022/2, or all; --list names them.")
    papers = {name.split("/")[0] for name in known}
    chosen: list[str] = []
    for name in asked or ["all"]:
        if name == "all" or name in papers:
            chosen += [figure for figure in known if name == "all" or figure.startswith(f"{name}/")]
        else:
            chosen.append(_check.choice("NAME", name, known))
    return list(dict.fromkeys(chosen))


def _pairs(texts: list[str]) -> list[tuple[str, str]]:
    pairs = [text.partition("=") for text in texts]
    for text, (name, equals, _) in zip(texts, pairs, strict=True):
        if not name or not equals:
            raise InvalidInput(f"--set must be NAME=VALUE, and it is {text!r}.")
    return [(name, value) for name, _, value in pairs]


def _folder(path: Path) -> Path:
    """The folder, made if it is not there; what would prevent writing is said before anything is computed."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        write_atomically(path / ".lazyrich", lambda stream: stream.write(b""))
        (path / ".lazyrich").unlink()
    except OSError as error:
        raise InvalidInput(
            f"--out must be a folder that can be written to, and {path} is not: {error.strerror}."
        ) from None
    return path
