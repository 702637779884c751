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
KEYS = ("saxe2014", "braun2022", "kunin2024", "domine2025", "notes", "post")

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

    >>> [paper.key for paper in lr.papers.papers()]
    ['saxe2014', 'braun2022', 'kunin2024', 'domine2025', 'notes', 'post']
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
            raise InvalidInput(f"there is no claim {_check.shown(name)}{_hint(name, entries, source)}.")
    return [entries[name] for name in dict.fromkeys(names)]


def _hint(name: str, entries: dict[str, Claim], source: str | None) -> str:
    if name in KEYS:
        return f", but a source of that name: try --source {name} (source={name!r} in Python)"
    if name in ledger():
        return f" in {source}, but one in {name.partition('/')[0]}"
    near = difflib.get_close_matches(str(name), entries, n=3)
    return f": perhaps {' or '.join(near)}" if near else ": lazyrich claims --list shows them"


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
    key, _, own = _check.choice("figure", name, figures()).partition("/")
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


def _found(what: str, name: str, known: Iterable[str]) -> tuple[str, str]:
    """Key and own name; the key may be left out where only one paper has the name."""
    known = list(known)
    having = [each for each in known if each.partition("/")[2] == name]
    key, _, own = (having[0] if len(having) == 1 else _check.choice(what, name, known)).partition("/")
    return key, own
