"""All papers by key, and what they hold by name: "braun2022/theorem-3.1", "kunin2024/1b", "kunin2024/rhm".

A name that only one paper has is enough without its key: "rhm".
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich.papers.base.claim import Claim, NotChecked
from lazyrich.papers.base.figure import Figure
from lazyrich.papers.base.kind import Kind
from lazyrich.papers.base.paper import Paper
from lazyrich.sweeps.sweep import Sweep

#: The rooms, oldest first; to add one, write its folder and enter its key.
KEYS = (
    "saxe2014",
    "braun2022",
    "chizat2019",
    "lampinen2019",
    "saxe2019",
    "kunin2024",
    "tu2024",
    "domine2025",
    "notes",
    "post",
)

SIZES = ("paper", "laptop", "quick")  # of an experiment


@cache
def paper(key: str) -> Paper:
    """The paper of that key.

    >>> print(lr.papers.paper("domine2025"))
    Dominé et al. 2025: From lazy to rich: exact learning dynamics in deep linear networks
    """
    found: Paper = import_module(f"lazyrich.papers.{_check.choice('paper', key, KEYS)}").PAPER
    return found


def papers(key: str | None = None) -> list[Paper]:
    """All papers, or the one of that key.

    >>> print(*[paper.key for paper in lr.papers.papers()])
    saxe2014 braun2022 chizat2019 lampinen2019 saxe2019 kunin2024 tu2024 domine2025 notes post
    """
    return [paper(each) for each in (KEYS if key is None else (_check.choice("source", key, KEYS),))]


# claims ---------------------------------------------------------------------------------------------------------------


def ledger(source: str | None = None) -> dict[str, Claim]:
    """Every claim by its identifier, or those of one source.

    >>> len(lr.papers.ledger()) >= 75
    True
    >>> sorted({claim.source for claim in lr.papers.ledger("post").values()})
    ['post']
    """
    return {name: claim for paper in papers(source) for name, claim in paper.claims().items()}


def not_checked(source: str | None = None) -> list[NotChecked]:
    """What was judged not checkable, and why, of all sources or of one.

    >>> all(entry.why for entry in lr.papers.not_checked())
    True
    """
    return [entry for paper in papers(source) for entry in paper.not_checked()]


def chosen(names: object, source: str | None) -> list[Claim]:
    """The claims with these identifiers, or all of a source, or all."""
    entries = ledger(source)
    if names is None:
        return list(entries.values())
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidInput(f"names must be a list such as ['post/equation-9'], and it is {_check.shown(names)}.")
    for name in names:
        if name not in entries:
            raise _no_claim(name, entries, source)
    return [entries[name] for name in dict.fromkeys(names)]


def _no_claim(name: str, entries: dict[str, Claim], source: str | None) -> InvalidInput:
    if name in KEYS:
        hint = f"but a source of that name: try --source {name} (source={name!r} in Python)"
        return InvalidInput(f"there is no claim {name!r}, {hint}.")
    if name in ledger():
        return InvalidInput(f"there is no claim {name!r} in {source}, but one in {name.partition('/')[0]}.")
    return unknown("claim", name, entries, command="claims")


# figures --------------------------------------------------------------------------------------------------------------


def figures() -> list[str]:
    """The names of all figures, paper by paper.

    >>> [name for name in lr.papers.figures() if name.startswith("saxe2014")]
    ['saxe2014/3', 'saxe2014/delay', 'saxe2014/depth']
    """
    return [f"{paper.key}/{name}" for paper in papers() for name in paper.figure_names]


def figure(name: str) -> Figure:
    """The figure of that name; a near miss is suggested.

    >>> lr.papers.figure("kunin2024/3").title[:11]
    'One neuron:'
    """
    if name not in (known := figures()):
        raise unknown("figure", name, known)
    key, _, own = name.partition("/")
    return paper(key).figure(own)


# experiments ----------------------------------------------------------------------------------------------------------


def experiments() -> list[str]:
    """The names of all experiments.

    >>> lr.papers.experiments()
    ['kunin2024/lenet', 'kunin2024/filters', 'kunin2024/rhm', 'kunin2024/grokking']
    """
    return [f"{paper.key}/{name}" for paper in papers() for name in paper.experiments]


def kind(name: str) -> Kind[Any]:
    """The experiment of that name."""
    key, own = _found("experiment", name, experiments())
    return paper(key).kind(own)


def preset_file(name: str, size: str) -> Path:
    """The file of an experiment in one of its sizes."""
    key, own = _found("experiment", name, experiments())
    return paper(key).preset(own, _check.choice("preset", size, SIZES))


# sweeps ---------------------------------------------------------------------------------------------------------------


def sweeps() -> list[str]:
    """The names of all published sweeps.

    >>> lr.papers.sweeps()
    ['kunin2024/1b', 'kunin2024/1b-supporting']
    """
    return [f"{paper.key}/{name}" for paper in papers() for name in paper.sweeps]


def sweep_file(name: str) -> Path:
    """The file of a published sweep."""
    key, own = _found("sweep", name, sweeps())
    return paper(key).sweeps[own]


def sweep(name: str) -> Sweep:
    """A published sweep.

    >>> lr.papers.sweep("kunin2024/1b").cells
    4624
    """
    return Sweep.from_toml(sweep_file(name))


def _found(what: str, name: str, known: list[str]) -> tuple[str, str]:
    """Key and own name; the key may be left out where only one paper has the name."""
    having = [each for each in known if name in (each, each.partition("/")[2])]
    if len(having) != 1:
        raise unknown(what, name, known)
    key, _, own = having[0].partition("/")
    return key, own


def unknown(
    what: str, name: object, known: Iterable[str], *, also: Iterable[str] = (), command: str = ""
) -> InvalidInput:
    """What to say of a name that nothing has: the names near it, how many there are, and the command that lists them.

    Names stand for themselves, or without their paper's key; `also` are words that would do in their place.
    """
    names = {word: each for each in known for word in (each.partition("/")[2], each)} | {word: word for word in also}
    near = difflib.get_close_matches(str(name), names, n=3, cutoff=0.5)
    hint = f" (did you mean {' or '.join(dict.fromkeys(names[word] for word in near))}?)" if near else ""
    count = len({each for each in names.values() if "/" in each})
    listing = f"lazyrich {command or what} --list names all {count}"
    return InvalidInput(f"there is no {what} {_check.shown(name)}{hint}: {listing}.")
