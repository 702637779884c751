"""A page for each paper, made of the README in its room: what of the paper is where.

On a code host the READMEs are read as they are. Here what they name in `code` becomes a link: claims lead to the
ledger, functions to the reference, commands to the page on what they do. `meaning` knows every kind of name that may
stand there, so that the tests can tell a name that is not there.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from ledger import SOURCES, anchor
from myst_parser.mdit_to_docutils.base import default_slugify
from reference import NAMESPACES, described
from sphinx.application import Sphinx
from written import write

import lazyrich as lr
from lazyrich.methods import EXACT

CODE = re.compile(r"`([^`]+)`")

_METHODS = {method.name for method in EXACT} | {"flow", "descend"}
_INSTANCES = {"task": lr.Task, "traj": lr.Trajectory, "problem": lr.Problem, "network": lr.Network}
_ABOUT = {"figure": "../gallery/README.md", "experiment": "../experiments.md", "sweep": "../sweeps.md"}

_INDEX = """\
# The papers

The library is what one installs; a paper is a guest in it, with a room of its own (`src/lazyrich/papers`): its theorems
to the letter, its statements with a check each, its figures, experiments and sweeps. A page for each says what of it is
where, what is wrong in print, and how its letters map to ours.

| paper | statements in the ledger | figures | experiments | sweeps |
|---|---|---|---|---|
{rows}

```{{toctree}}
:hidden:

{names}
```
"""


class Meaning(NamedTuple):
    """What a name in `code` stands for, and where it leads: a link, a role of the reference, or nowhere."""

    kind: str
    link: str = ""
    role: str = ""


def pages() -> dict[str, str]:
    """Every page as MyST Markdown, by its name."""
    papers = lr.papers.papers()
    rows = "\n".join(_row(paper) for paper in papers)
    names = "\n".join(f"{paper.authors} <{paper.key}>" for paper in papers)
    return {"index": _INDEX.format(rows=rows, names=names)} | {paper.key: page(paper.key) for paper in papers}


def _row(paper: lr.papers.Paper) -> str:
    claims = f"[{len(paper.claims())}](../ledger/{paper.key}.md)" if paper.key in SOURCES else "–"
    counts = [len(found) or "–" for found in (paper.figure_names, paper.experiments, paper.sweeps)]
    return f"| [{paper.authors}]({paper.key}.md): {paper.title} | {claims} | {' | '.join(map(str, counts))} |"


def page(key: str) -> str:
    """The README of a paper, its links turned to the site, its names linked."""
    text = lr.papers.paper(key).readme.replace("](../../../../docs/", "](../")
    lines = []
    for line in text.splitlines():
        lines.append(CODE.sub(lambda found, line=line: _linked(found, key, line), line))
    return "\n".join(lines) + "\n"


def _linked(found: re.Match[str], key: str, line: str) -> str:
    known = meaning(found[1], key, line)
    if known is None or not (known.link or known.role):
        return found[0]
    if known.link:
        return f"[{found[0]}]({known.link})"
    role, _, full = known.role.partition(" ")
    return f"{{py:{role}}}`{found[1]} <{full}>`"


def names(text: str) -> Iterator[tuple[str, str]]:
    """Every name in `code`, with its line."""
    for line in text.splitlines():
        for found in CODE.finditer(line):
            yield found[1], line


def meaning(code: str, key: str, line: str = "") -> Meaning | None:
    """What is meant in the README of that paper, or None."""
    if code in lr.papers.ledger():
        source = code.partition("/")[0]
        return Meaning("claim", link=f"../ledger/{source}.md#{anchor(code)}")
    if code in _METHODS:
        return Meaning("method", link="../methods.md")
    if code.startswith("lazyrich "):
        return _command(code.split()[1:])
    if code.endswith(".py"):
        return Meaning("file") if (lr.papers.paper(key).folder / code).is_file() else None
    if re.fullmatch(r"(lr|formulas)(\.\w+)+", code):
        prefix = "lazyrich" if code.startswith("lr") else f"lazyrich.papers.{key}.formulas"
        return _thing(f"{prefix}.{code.partition('.')[2]}")
    first, _, rest = code.partition(".")
    if first in _INSTANCES and rest:
        owner = _INSTANCES[first]
        known = hasattr(owner, rest) or rest in getattr(owner, "__annotations__", {})
        return Meaning("attribute") if known else None
    return _argument(code, line)


def _command(words: list[str]) -> Meaning | None:
    """A command and what it names: a figure, an experiment, a sweep, or the claims of a source."""
    verb, name = words[0], words[-1]
    if verb == "claims" and words[1:-1] == ["--source"]:
        return Meaning("command", link=f"../ledger/{name}.md") if name in SOURCES else None
    known = {"figure": lr.papers.figures, "experiment": _experiments, "sweep": lr.papers.sweeps}
    if verb not in known or len(words) != 2 or name not in known[verb]():
        return None
    section = f"#{default_slugify(lr.papers.figure(name).title)}" if verb == "figure" else ""
    return Meaning("command", link=_ABOUT[verb] + section)


def _experiments() -> list[str]:
    return [name.partition("/")[2] for name in lr.papers.experiments()]


def _thing(path: str) -> Meaning | None:
    """Something of the library, by its dotted name: linked where the reference describes it."""
    thing = _found(path)
    if thing is None:
        return None
    if inspect.ismodule(thing):
        return Meaning("module", link=f"../reference/{thing.__name__}.md" if thing.__name__ in NAMESPACES else "")
    return Meaning("function", role=described().get(id(thing), ""))


@cache
def _found(path: str) -> Any:
    parts = path.split(".")
    thing: Any = import_module(parts[0])
    for index, part in enumerate(parts[1:], 2):
        if not hasattr(thing, part):
            try:
                import_module(".".join(parts[:index]))
            except ImportError:
                return None
        thing = getattr(thing, part)
    return thing


def _argument(code: str, line: str) -> Meaning | None:
    """An argument of a function that the same line names: `scale` or `rates=(η1, η2)`."""
    name = code.partition("=")[0]
    callables = [_found(f"lazyrich.{other[3:]}") for other in CODE.findall(line) if other.startswith("lr.")]
    known = any(name in inspect.signature(thing).parameters for thing in callables if callable(thing))
    return Meaning("argument") if known else None


def _write(app: Sphinx) -> None:
    write(app, "papers", pages())


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
