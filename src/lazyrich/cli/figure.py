"""The figures of the papers: listed, computed, drawn and written with their data."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from lazyrich._check import InvalidInput
from lazyrich._files import write_atomically
from lazyrich.cli._output import json_document, table

if TYPE_CHECKING:
    from lazyrich.papers import Figure

EXAMPLE = "lazyrich figure braun2022/2 --quick --out figures"

_FORMATS = ("png", "pdf", "svg")
_DESCRIPTION = """\
Draws figures of the papers with their published settings: theory over simulation, with
the numbers that make them true. `lazyrich figure --list` names them, `all` draws all of
them. Beside each figure its data are written (NetCDF)."""


class _Check(TypedDict):
    says: str
    measured: float
    holds: bool


class _Row(TypedDict):
    """What became of a figure."""

    figure: str
    title: str
    seconds: float
    other_settings: bool
    checks: list[_Check]
    picture: str
    data: str


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


def run(arguments: argparse.Namespace) -> int:
    """1 where a number does not keep its bound with settings that are ours; other settings may break it."""
    from lazyrich.papers import figure, figures  # here, so that --help needs no extras

    chosen = [figure(name) for name in _chosen(arguments.names, figures(), arguments.list)]
    if arguments.list:
        listed = [{"figure": known.name, "title": known.title} for known in chosen]
        if arguments.names:  # those asked for by name show their settings too
            listed = [row | {"settings": _settings(known)} for row, known in zip(listed, chosen, strict=True)]
        print(json_document({"figures": listed}) if arguments.json else table(listed))
        return 0
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
    return int(not all(check["holds"] for row in rows if not row["other_settings"] for check in row["checks"]))


def _settings(known: Figure) -> str:
    return " ".join(
        f"{name}={','.join(map(str, value)) if isinstance(value, tuple) else value}"
        for name, value in known.settings.items()
    )


def _draw(known: Figure, settings: dict[str, object], folder: Path, arguments: argparse.Namespace) -> _Row:
    from lazyrich.plot import style

    start, path = time.perf_counter(), folder / f"{known.name.replace('/', '-')}.{arguments.format}"
    style.figure_path(path, path.name)  # what would prevent drawing is said before computing
    data = known.compute(settings, quick=arguments.quick)
    data.attrs["seconds"] = time.perf_counter() - start
    try:
        picture = known.draw(data)
    except (ValueError, TypeError, LookupError) as error:
        if not settings:
            raise
        raise InvalidInput(f"{known.name} cannot be drawn with these settings: {error}.") from error
    style.save(picture, path)
    encoded = data.to_netcdf(engine="scipy")
    write_atomically(path.with_suffix(".nc"), lambda stream: stream.write(bytes(encoded)))
    measured = known.numbers(data)
    return {
        "figure": known.name,
        "title": known.title,
        "seconds": time.perf_counter() - start,
        "other_settings": bool(settings) and not data.attrs["published"],  # a store may hold the published ones
        "checks": [
            {"says": str(check), "measured": measured[name], "holds": check.holds(measured[name])}
            for name, check in known.checks.items()
        ],
        "picture": str(path),
        "data": str(path.with_suffix(".nc")),
    }


def _report(row: _Row) -> str:
    lines = [f"{row['figure']:<24} {row['seconds']:7.1f} s   {row['picture']}"]
    lines += ["  bounds are those of the published settings:"] * row["other_settings"]
    for check in row["checks"]:
        verdict = "holds" if check["holds"] else "FAILS"
        lines.append(f"  {verdict}: {check['says']}, measured {check['measured']:.3g}")
    return "\n".join(lines)


def _chosen(asked: list[str], known: list[str], listing: bool) -> list[str]:
    """Names of figures; a paper stands for all of its figures, and `all` for everything."""
    from lazyrich.papers.shelf import unknown

    if not asked and not listing:
        raise InvalidInput("NAME is missing: a figure such as braun2022/2, or all; --list names them.")
    papers = {name.split("/")[0] for name in known}
    chosen: list[str] = []
    for name in asked or ["all"]:
        if name == "all" or name in papers:
            chosen += [figure for figure in known if name == "all" or figure.startswith(f"{name}/")]
        elif name in known:
            chosen.append(name)
        else:
            raise unknown("figure", name, known, also=[*papers, "all"])
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
