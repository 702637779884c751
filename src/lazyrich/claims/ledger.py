"""What a claim is, and the list of all of them.

An entry is a function: it draws a problem within the conditions of the statement, evaluates the statement as it is
printed, and returns how far it is from the truth, which an oracle finds by another way. Where that is more than the
tolerance the statement fails. What a source got wrong stays in the ledger as printed, with what holds instead and the
smallest counterexample:

    @claim("notes/loss", place="Section 1.1", statement="…", formula=r"…", conditions="…", tolerance=1e-12)
    def loss(rng):
        …
        return relative_error(as_printed, truth)

    @loss.corrected("…", formula=r"…")
    def loss_with_its_constant(rng):
        …

    @loss.counterexample("One sample, x = y = 1, W = 0")
    def _():
        return as_printed, truth

The verdict on record follows from that: an entry alone holds; `corrected` makes it wrong as printed; `stronger` says
that the printed formula holds under a stronger condition.

`seeds` says on how many random problems a claim is tried: three, unless a broken formula needs more to be noticed, as
where the draws fall into cases of which one alone sees it (tests/claims/test_mutations.py). Several entries may be off
for one and the same reason: they name that `Slip`, and the ledger counts it once.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput

__all__ = [
    "SEEDS",
    "SOURCES",
    "Check",
    "Claim",
    "NotChecked",
    "Slip",
    "Verdict",
    "chosen",
    "claim",
    "ledger",
    "not_checked",
    "slips",
]

SEEDS = 3  # random problems for a claim that does not ask for more

SOURCES = {
    "braun2022": "Braun, Dominé, Fitzgerald, Saxe 2022: Exact learning dynamics of deep linear networks with prior "
    "knowledge",
    "post": "a post of September 2023 on Saxe et al. 2014, on the web: Exact solutions to the learning dynamics of a "
    "deep neural network",
    "kunin2024": "Kunin et al. 2024: Get rich quick: exact solutions reveal how unbalanced initializations promote "
    "rapid feature learning",
    "notes": "lecture notes, on the web: Deep Linear Networks: A Solvable Model of Learning Dynamics",
    "saxe2014": "Saxe, McClelland, Ganguli 2014: Exact solutions to the nonlinear dynamics of learning in deep linear "
    "neural networks (only its eqs. 25 and 26, which the others rest on)",
}

Check = Callable[[np.random.Generator], float]
Decorator = Callable[[Check], Check]


class Verdict(StrEnum):
    """What is known of a statement.

    >>> [str(verdict) for verdict in lr.claims.Verdict]
    ['holds', 'holds under a stronger condition', 'wrong as printed', 'fails']
    """

    HOLDS = "holds"
    STRONGER = "holds under a stronger condition"
    WRONG = "wrong as printed"
    FAILS = "fails"  # never on record: a claim, or what should hold instead of it, was found not to hold


@dataclass(frozen=True)
class Slip:
    """What went wrong in a source, once, though several of its statements may suffer from it.

    >>> sorted(slip.key for slip in lr.claims.slips(lr.claims.ledger("saxe2014").values()))
    ['saxe2014/equations-25-26']
    """

    key: str
    sentence: str


@dataclass(frozen=True)
class Amendment:
    """What holds instead of a statement, the check of that, and the slips that it mends where others share them."""

    verdict: Verdict
    statement: str
    formula: str
    check: Check
    slips: tuple[Slip, ...] = ()


@dataclass(frozen=True)
class Counterexample:
    """A problem, as small as possible, on which a statement is wrong: what it gives there, and the truth."""

    words: str
    values: Callable[[], tuple[Any, Any]]


@dataclass(eq=False)
class Claim:
    """One statement of a source, in our own words, with the check of it.

    >>> claim = lr.claims.ledger()["notes/loss-identity"]
    >>> print(claim.verdict, "|", claim.source, "|", claim.tolerance)
    wrong as printed | notes | 1e-12
    """

    identifier: str
    place: str
    statement: str
    formula: str
    conditions: str
    tolerance: float
    check: Check
    seeds: int = SEEDS
    amendment: Amendment | None = None
    refutation: Counterexample | None = None

    @property
    def source(self) -> str:
        return self.identifier.partition("/")[0]

    @property
    def verdict(self) -> Verdict:
        """On record."""
        return self.amendment.verdict if self.amendment else Verdict.HOLDS

    @property
    def slips(self) -> tuple[Slip, ...]:
        """Why it is not right as printed: the slips that it names, or else one of its own."""
        if self.amendment is None:
            return ()
        return self.amendment.slips or (Slip(self.identifier, self.amendment.statement),)

    def corrected(self, statement: str, *, formula: str, slips: tuple[Slip, ...] = ()) -> Decorator:
        """Enters what is true where the printed statement is not."""
        return self._amend(Verdict.WRONG, statement, formula, slips)

    def stronger(self, conditions: str, *, slips: tuple[Slip, ...] = ()) -> Decorator:
        """Enters the condition under which the printed statement does hold."""
        return self._amend(Verdict.STRONGER, conditions, self.formula, slips)

    def counterexample(self, words: str) -> Callable[[Callable[[], tuple[Any, Any]]], Callable[[], tuple[Any, Any]]]:
        """Enters the smallest problem that refutes the printed statement."""

        def enter(values: Callable[[], tuple[Any, Any]]) -> Callable[[], tuple[Any, Any]]:
            assert self.refutation is None, f"{self.identifier} has a counterexample"
            self.refutation = Counterexample(words, values)
            return values

        return enter

    def _amend(self, verdict: Verdict, statement: str, formula: str, slips: tuple[Slip, ...]) -> Decorator:
        def enter(check: Check) -> Check:
            assert self.amendment is None, f"{self.identifier} has been amended"
            self.amendment = Amendment(verdict, statement, formula, check, slips)
            return check

        return enter


@dataclass(frozen=True)
class NotChecked:
    """A statement that no program can settle, and why.

    >>> lr.claims.not_checked("notes")[0].source
    'notes'
    """

    source: str
    place: str
    statement: str
    why: str


_LEDGER: dict[str, Claim] = {}


def claim(
    identifier: str,
    *,
    place: str,
    statement: str,
    formula: str,
    conditions: str,
    tolerance: float,
    seeds: int = SEEDS,
) -> Callable[[Check], Claim]:
    """Enters a statement whose check is the decorated function.

    `formula` is LaTeX, without dollar signs; the other texts are Markdown with the letters of the theory. `tolerance`
    is the largest error that passes, relative to the size of what is compared unless the check says otherwise. `seeds`
    is how many random problems it takes to notice that the formula is broken.
    """

    def enter(check: Check) -> Claim:
        assert re.fullmatch(rf"({'|'.join(SOURCES)})/[a-z0-9.-]+", identifier), identifier
        assert identifier not in _LEDGER, f"{identifier} is entered twice"
        _LEDGER[identifier] = Claim(identifier, place, statement, formula, conditions, tolerance, check, seeds)
        return _LEDGER[identifier]

    return enter


def ledger(source: str | None = None) -> dict[str, Claim]:
    """Every claim by its identifier, or those of one source.

    >>> len(lr.claims.ledger()) >= 75
    True
    >>> sorted({claim.source for claim in lr.claims.ledger("post").values()})
    ['post']
    """
    order = [topic.__name__ for name in _sources(source) for topic in _topics(name)]  # whose import enters the claims
    wanted = [claim for claim in _LEDGER.values() if claim.check.__module__ in order]
    ordered = sorted(wanted, key=lambda claim: order.index(claim.check.__module__))
    return {claim.identifier: claim for claim in ordered}


def not_checked(source: str | None = None) -> list[NotChecked]:
    """What was judged not checkable, and why, of all sources or of one.

    >>> all(entry.why for entry in lr.claims.not_checked())
    True
    """
    return [entry for name in _sources(source) for topic in _topics(name) for entry in topic.NOT_CHECKED]


def slips(claims: Iterable[Claim]) -> dict[Slip, list[Claim]]:
    """Why claims are not right as printed, each reason once, with those that share it.

    >>> found = lr.claims.slips(lr.claims.ledger("notes").values())
    >>> [claim.identifier for slip, claims in found.items() if slip.key == "notes/gap" for claim in claims]
    ['notes/gap-time', 'notes/near-degeneracy']
    """
    found: dict[Slip, list[Claim]] = {}
    for claim in claims:
        for slip in claim.slips:
            found.setdefault(slip, []).append(claim)
    return found


def chosen(names: Any, source: str | None) -> list[Claim]:
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
    if name in SOURCES:
        return f", but a source of that name: --source {name} (source={name!r} in Python) would do"
    if name in ledger():
        return f" in {source}, but one in {name.partition('/')[0]}"
    near = difflib.get_close_matches(str(name), entries, n=3)
    return f": perhaps {' or '.join(near)}" if near else ": lazyrich claims --list shows them"


def _topics(source: str) -> tuple[Any, ...]:
    """The modules of a source, in its order."""
    return import_module(f"lazyrich.claims.{source}").TOPICS


def _sources(source: str | None) -> tuple[str, ...]:
    return tuple(SOURCES) if source is None else (_check.choice("source", source, tuple(SOURCES)),)
