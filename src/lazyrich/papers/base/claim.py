"""What a claim is.

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
where the draws fall into cases of which one alone sees it (tests/papers/test_mutations.py). Several entries may be off
for one and the same reason: they name that `Slip`, and the ledger counts it once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Concatenate

from lazyrich.papers.base.types import Pair, Rng

SEEDS = 3  # random problems for a claim that does not ask for more

Check = Callable[Concatenate[Rng, ...], float]  # `claim.check(rng, …)`: the same check with another argument
Decorator = Callable[[Check], Check]


class Verdict(StrEnum):
    """What is known of a statement.

    >>> [str(verdict) for verdict in lr.papers.Verdict]
    ['holds', 'holds under a stronger condition', 'wrong as printed', 'fails']
    """

    HOLDS = "holds"
    STRONGER = "holds under a stronger condition"
    WRONG = "wrong as printed"
    FAILS = "fails"  # never on record: a claim, or what should hold instead of it, was found not to hold


@dataclass(frozen=True)
class Slip:
    """What went wrong in a source, once, though several of its statements may suffer from it.

    >>> sorted(slip.key for slip in lr.papers.slips(lr.papers.ledger("saxe2014").values()))
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
    values: Callable[[], Pair]


@dataclass(eq=False)
class Claim:
    """One statement of a source, in our own words, with the check of it.

    Not frozen: what holds instead, and the counterexample, are entered by decorators below it while its module is read.

    >>> claim = lr.papers.ledger()["notes/loss-identity"]
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

    def counterexample(self, words: str) -> Callable[[Callable[[], Pair]], Callable[[], Pair]]:
        """Enters the smallest problem that refutes the printed statement."""

        def enter(values: Callable[[], Pair]) -> Callable[[], Pair]:
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

    >>> lr.papers.not_checked("notes")[0].source
    'notes'
    """

    place: str
    statement: str
    why: str
    source: str = ""  # the key of the paper, which enters it


def claim(
    identifier: str, *, place: str, statement: str, formula: str, conditions: str, tolerance: float, seeds: int = SEEDS
) -> Callable[[Check], Claim]:
    """Enters a statement whose check is the decorated function.

    `formula` is LaTeX, without dollar signs; the other texts are Markdown with the letters of the theory. `tolerance`
    is the largest error that passes, relative to the size of what is compared unless the check says otherwise. `seeds`
    is how many random problems it takes to notice that the formula is broken.
    """

    def enter(check: Check) -> Claim:
        assert re.fullmatch(r"[a-z0-9]+/[a-z0-9.-]+", identifier), identifier
        return Claim(identifier, place, statement, formula, conditions, tolerance, check, seeds)

    return enter


def slips(claims: Iterable[Claim]) -> dict[Slip, list[Claim]]:
    """Why claims are not right as printed, each reason once, with those that share it.

    >>> found = lr.papers.slips(lr.papers.ledger("notes").values())
    >>> [claim.identifier for slip, claims in found.items() if slip.key == "notes/gap" for claim in claims]
    ['notes/gap-time', 'notes/near-degeneracy']
    """
    found: dict[Slip, list[Claim]] = {}
    for claim in claims:
        for slip in claim.slips:
            found.setdefault(slip, []).append(claim)
    return found
