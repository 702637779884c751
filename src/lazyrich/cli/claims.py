"""The ledger: what the sources state, tried on random problems."""

from __future__ import annotations

import argparse
import math
import sys
import textwrap
import time
from collections import Counter

from lazyrich import papers
from lazyrich._threads import cores
from lazyrich.cli._output import json_document, table
from lazyrich.papers import Claim, Finding, slips
from lazyrich.papers.base.claim import SEEDS
from lazyrich.papers.shelf import KEYS, chosen, paper

EXAMPLE = "lazyrich claims --source braun2022 --seeds 20"

_DESCRIPTION = """\
Tries every statement of the ledger on random problems within its conditions, against the
truth found by brute force, and prints how far it is off. What is wrong as printed is
tried in its corrected form too. The exit status is 1 if a verdict differs from the one on
record. Claims that are named are shown in full. Each claim is tried on as many problems
as it takes to notice a broken formula; --seeds N tries all of them on N."""

_WIDTH = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    add = parser.add_argument
    add("names", nargs="*", metavar="CLAIM", help="such as braun2022/theorem-3.1 (default: all)")
    add("--source", choices=KEYS, help="the claims of one source")
    add(
        "--seeds",
        type=int,
        metavar="N",
        help=f"random problems for each claim (default: its own number, {SEEDS} or more)",
    )
    add("--workers", type=int, metavar="N", help="processes that share the work (default: one for each core)")
    add("--list", action="store_true", help="state them, and try nothing")
    add("--json", action="store_true", help="print one JSON document instead of a table")


def run(arguments: argparse.Namespace) -> int:
    """1 where a verdict is not the one on record."""
    claims = chosen(arguments.names or None, arguments.source)
    if arguments.list:
        return _list(claims, arguments)
    start = time.perf_counter()
    workers = arguments.workers if arguments.workers is not None else cores()
    findings = papers.try_claims([claim.identifier for claim in claims], seeds=arguments.seeds, workers=workers)
    seconds, changed = time.perf_counter() - start, any(finding.changed for finding in findings)
    summary = _summary(findings, seconds)
    if arguments.json:
        entries = [_entry(finding) for finding in findings]
        document = {"seeds": arguments.seeds, "seconds": seconds, "changed": changed, "claims": entries}
        print(json_document(document | {"slips": _slips(claims)}))
        if changed:  # the document is for programs, and people should know which
            print(*summary, sep="\n", file=sys.stderr)
    else:
        print(table([_row(finding) for finding in findings]))
        if arguments.names:
            print("", *(_in_full(finding) for finding in findings), sep="\n")
        print(*([] if arguments.names else [""]), *summary, sep="\n")
    return int(changed)


def _list(claims: list[Claim], arguments: argparse.Namespace) -> int:
    passed_over = [] if arguments.names else papers.not_checked(arguments.source)
    if arguments.json:
        stated, not_stated = [_stated(claim) for claim in claims], [vars(entry) for entry in passed_over]
        print(json_document({"claims": stated, "slips": _slips(claims), "not_checked": not_stated}))
        return 0
    rows = [{"claim": claim.identifier, "on record": str(claim.verdict), "place": claim.place} for claim in claims]
    print(table(rows))
    print("", *_shared(claims), sep="\n")
    for entry in passed_over:
        print(f"\nnot checked: {entry.source}, {entry.place}", _wrapped(entry.statement), _wrapped(entry.why), sep="\n")
    return 0


def _shared(claims: list[Claim]) -> list[str]:
    """How many slips there are, and in full those that several claims share."""
    lines = _counted(claims)
    for slip, sharing in slips(claims).items():
        if len(sharing) > 1:
            names = ", ".join(claim.identifier for claim in sharing)
            lines += [f"\n{slip.key}, in {len(sharing)} claims", _wrapped(slip.sentence), _wrapped(names)]
    return lines


def _counted(claims: list[Claim]) -> list[str]:
    wrong, distinct = sum(bool(claim.slips) for claim in claims), len(slips(claims))
    told = f"{wrong} claim{'s' * (wrong != 1)} not right as printed, {distinct} distinct slip{'s' * (distinct != 1)}"
    return [told] if wrong else []


def _slips(claims: list[Claim]) -> list[dict[str, object]]:
    return [vars(slip) | {"claims": [claim.identifier for claim in found]} for slip, found in slips(claims).items()]


def _row(finding: Finding) -> dict[str, object]:
    amended = finding.worst_amended
    return {
        "claim": finding.claim.identifier,
        "verdict": str(finding.measured) + f" (on record: {finding.claim.verdict})" * finding.changed,
        "error": _error(finding),
        "fails": f"{finding.failing}/{len(finding.printed)}",
        "instead": "" if amended is None else f"{amended:.1e}",
        "tolerance": f"{finding.claim.tolerance:.0e}",
        "cpu s": f"{finding.seconds:.1f}",
    }


def _error(finding: Finding) -> str:
    """The largest over all draws; where there is none, why."""
    if not finding.printed:
        return "not tried"
    return "no value" if math.isnan(finding.worst) else f"{finding.worst:.1e}"


def _summary(findings: list[Finding], seconds: float) -> list[str]:
    counts = Counter(finding.measured for finding in findings)
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    number, tried = len(findings), sorted({len(finding.printed) for finding in findings})
    problems = (
        "one problem" if tried == [1] else f"{' to '.join(map(str, dict.fromkeys((tried[0], tried[-1]))))} problems"
    )
    lines = [f"{number} claim{'s' * (number != 1)} on {problems} each in {seconds:.0f} s: {told}"]
    lines += _counted([finding.claim for finding in findings])
    if any(finding.claim.amendment and finding.failing == 0 for finding in findings):
        lines.append("where a statement that is not right fails on no draw, its counterexample refutes it")
    for finding in findings:
        lines += [f"{finding.claim.identifier} could not be tried: {fault}" for fault in finding.faults]
    changed = [finding.claim.identifier for finding in findings if finding.changed]
    return [*lines, f"VERDICTS CHANGED: {', '.join(changed)}" if changed else "no verdict has changed"]


def _in_full(finding: Finding) -> str:
    claim, amendment, refutation = finding.claim, finding.claim.amendment, finding.claim.refutation
    lines = [f"{claim.identifier}: {paper(claim.source)}, {claim.place}", _wrapped(claim.statement)]
    lines += [*_formula(claim.formula), _wrapped(f"Conditions: {claim.conditions}")]
    if amendment:
        lines.append(_wrapped(f"{str(amendment.verdict).capitalize()}: {amendment.statement}"))
        lines += _formula(amendment.formula) if amendment.formula != claim.formula else []
    if refutation and finding.refutation:
        printed, truth = (str(value).replace("nan", "no value") for value in finding.refutation)
        lines.append(_wrapped(f"Counterexample: {refutation.words}. Printed {printed}, truth {truth}."))
    return "\n".join([*lines, ""])


def _formula(latex: str) -> list[str]:
    """Each part on a line of its own, whole, so that it can be copied."""
    return [f"      {part.strip()}" for part in latex.split(r"\qquad")]


def _entry(finding: Finding) -> dict[str, object]:
    printed, truth = finding.refutation or (None, None)
    return _stated(finding.claim) | {
        "measured": str(finding.measured),
        "changed": finding.changed,
        "errors": finding.printed,
        "errors_of_amendment": finding.amended,
        "margin": finding.margin,
        "counterexample_printed": printed,
        "counterexample_truth": truth,
        "faults": finding.faults,
        "cpu_seconds": finding.seconds,
    }


def _stated(claim: Claim) -> dict[str, object]:
    amendment, refutation = claim.amendment, claim.refutation
    return {
        "claim": claim.identifier,
        "place": claim.place,
        "statement": claim.statement,
        "formula": claim.formula,
        "conditions": claim.conditions,
        "tolerance": claim.tolerance,
        "seeds": claim.seeds,
        "on_record": str(claim.verdict),
        "slips": [slip.key for slip in claim.slips],
        "amendment": amendment and {"statement": amendment.statement, "formula": amendment.formula},
        "counterexample": refutation and refutation.words,
    }


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")
