"""The ledger, written from lazyrich.papers and from what `make claims` has measured (build/claims.json).

An overview with the counts, what went wrong more than once (each slip with the claims that share it), and links to all
that does not hold as printed; then a page for each source: topic by topic a table, and every claim under an anchor,
`claim-` and its identifier with hyphens for / and dots. Radio buttons at its top choose a verdict: site.css hides the
others, without a script. A claim that has not been measured is shown without numbers.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx
from written import write

from lazyrich.papers import Claim, Verdict, ledger, not_checked, paper, papers, slips

SOURCES = {paper.key: str(paper) for paper in papers() if paper.topics}
VERDICTS = (Verdict.HOLDS, Verdict.STRONGER, Verdict.WRONG)

Measured = Mapping[str, Mapping[str, Any]]

_BADGES = {Verdict.HOLDS: "success", Verdict.STRONGER: "warning", Verdict.WRONG: "danger", Verdict.FAILS: "dark"}

_INTRODUCTION = """\
# The ledger

Theory papers contain mistakes. Here is what {sources} documents on deep linear networks state, statement by statement
in our own words, and what came out when each of them was tried: {counts}. The {amended} that are not right as printed
come from {distinct} distinct slips.

**How a verdict is reached.** A check draws random problems within the conditions of the statement, evaluates the
formula as it is printed, and compares it with the truth found by another way: derivatives of the loss itself,
integration of the gradient flow, quadrature, enumeration; never with the formula under test. The error is relative to
the size of what is compared, unless the claim says otherwise. A tolerance of zero belongs to a count, an order or a
bound. A statement *holds* if its error stays within the tolerance on every draw.
One that is *wrong as printed* stands here beside what is true instead, which has to pass the same check, and beside a
smallest counterexample. One that *holds under a stronger condition* is right as a formula, and fails on some of the
problems that its source allows.

**Run it yourself.** {measured}

```console
$ make claims                                     # all, each on as many problems as it needs
$ lazyrich claims --seeds 20                      # all on twenty
$ lazyrich claims notes/loss-identity             # one, in full
$ lazyrich claims --source braun2022 --json       # for programs
```

A claim is tried on three problems, or on as many more as it takes to notice that its formula is broken: the tests break
every one of them, a sign, a factor, an index at a time. `--seeds` replaces that number.
The exit status is 1 if a verdict is not the one on record. In Python,
{{py:func}}`lazyrich.papers.try_claims` does the same, and {{py:func}}`lazyrich.papers.ledger` has the entries.
[Developing](../developing.md) says how to add one.
"""


_CONTENTS = """\
```{{toctree}}
:hidden:

{names}
```
"""

_SOURCE = """\
---
tocdepth: 2
---

(ledger-{source})=
# The ledger: {source}

{title}. {numbers}

{filter}
"""


def pages(measured: Measured, seeds: int | None = None) -> dict[str, str]:
    """Every page by name, as MyST Markdown; `measured` has the findings by identifier, as the command prints them."""
    return {"index": _overview(measured, seeds)} | {key: _source(key, measured, seeds) for key in SOURCES}


def _overview(measured: Measured, seeds: int | None) -> str:
    claims = ledger().values()
    counts = Counter(claim.verdict for claim in claims)
    told = [f"{count} {'hold' if verdict is Verdict.HOLDS else verdict}" for verdict, count in counts.most_common()]
    introduction = _INTRODUCTION.format(
        sources=len(SOURCES),
        counts=", ".join(told).replace("holds under", "hold under"),
        amended=len(claims) - counts[Verdict.HOLDS],
        distinct=len(slips(claims)),
        measured=_numbers(measured, seeds),
    )
    return "\n\n".join([introduction, *_at_a_glance(), *_shared(), _CONTENTS.format(names="\n".join(SOURCES))])


def _source(key: str, measured: Measured, seeds: int | None) -> str:
    title = SOURCES[key][0].upper() + SOURCES[key][1:]
    parts = [_SOURCE.format(source=key, title=title, numbers=_numbers(measured, seeds), filter=_filter(key))]
    for name in paper(key).topics:
        topic = import_module(f"lazyrich.papers.{key}.claims.{name}")
        parts += _topic(topic, ledger(key), measured)
    return "\n\n".join([*parts, *_passed_over(key)]) + "\n"


def _filter(key: str) -> str:
    """Radio buttons, one for each verdict that the source has, and one for all."""
    counts = Counter(claim.verdict for claim in ledger(key).values())
    shown = [("all", "all", sum(counts.values()))]
    shown += [(verdict.name.lower(), str(verdict), counts[verdict]) for verdict in VERDICTS if counts[verdict]]
    buttons = [
        f'<label><input type="radio" name="verdict" id="show-{name}"{" checked" * (name == "all")}> {words} ({count})'
        "</label>"
        for name, words, count in shown
    ]
    return "\n".join(["```{raw} html", '<form class="verdicts" autocomplete="off">Show', *buttons, "</form>", "```"])


def _numbers(measured: Measured, seeds: int | None) -> str:
    if not measured:
        return "Nothing is measured yet."
    problems = f"{seeds} problems for each claim" if seeds else "as many problems as each claim needs"
    return f"The numbers below are from {problems}."


def _at_a_glance() -> Iterator[str]:
    """How many of each verdict, and links to all that does not hold as printed."""
    rows = [f"| source | {' | '.join(VERDICTS)} | not checked |", "|---|---|---|---|---|"]
    listed = []
    for source in SOURCES:
        claims = ledger(source).values()
        counts = Counter(claim.verdict for claim in claims)
        numbers = " | ".join(str(counts[verdict]) for verdict in VERDICTS)
        rows.append(f"| [{source}]({source}.md) | {numbers} | {len(not_checked(source))} |")
        for verdict in VERDICTS[1:]:
            found = [claim for claim in claims if claim.verdict is verdict]
            if found:
                listed.append(f"- **{source}**, {verdict}: {_links(found)}")
    yield from ("## At a glance", "\n".join(rows), "### Not right as printed", "\n".join(listed))


def _shared() -> Iterator[str]:
    """The slips that several claims suffer from."""
    yield "### One slip, several claims"
    shared = [(slip, claims) for slip, claims in slips(ledger().values()).items() if len(claims) > 1]
    yield "\n".join(f"- **{claims[0].source}**: {slip.sentence} {_links(claims)}" for slip, claims in shared)


def _links(claims: list[Claim]) -> str:
    return ", ".join(f"[{claim.identifier.partition('/')[2]}](#{anchor(claim.identifier)})" for claim in claims)


def anchor(identifier: str) -> str:
    return "claim-" + identifier.replace("/", "-").replace(".", "-")


def _topic(topic: ModuleType, claims: Mapping[str, Claim], measured: Measured) -> Iterator[str]:
    mine = [claim for claim in claims.values() if claim.check.__module__ == topic.__name__]
    if mine:
        title = (topic.__doc__ or topic.__name__).strip().splitlines()[0].rstrip(".")
        yield f"## {title}"
        yield _table(mine, measured)
        for claim in mine:
            yield from _entry(claim, measured.get(claim.identifier, {}))


def _table(claims: list[Claim], measured: Measured) -> str:
    rows = ["| claim | place | verdict | error as printed | of what holds | tolerance |", "|---|---|---|---|---|---|"]
    for claim in claims:
        found = measured.get(claim.identifier, {})
        printed, amended = _worst(found.get("errors")), _worst(found.get("errors_of_amendment"))
        name = f"[`{claim.identifier}`](#{anchor(claim.identifier)})"
        place, tolerance = claim.place.replace("|", "\\|"), f"{claim.tolerance:.0e}" if claim.tolerance else "0"
        rows.append(f"| {' | '.join([name, place, _badge(claim.verdict), printed, amended, tolerance])} |")
    return "\n".join(rows)


def _entry(claim: Claim, found: Mapping[str, Any]) -> Iterator[str]:
    yield f"({anchor(claim.identifier)})=\n### `{claim.identifier}`"
    yield f"{_badge(claim.verdict)} {claim.place}"
    yield claim.statement
    yield f"$$\n{claim.formula}\n$$"
    yield f"Conditions: {claim.conditions}"
    if claim.amendment is None:
        yield f"**Holds.** {_kept(found.get('errors'), claim.tolerance)}"
        return
    yield f"**{str(claim.verdict).capitalize()}.** {_missed(found.get('errors'), claim.tolerance)}"
    if claim.refutation is not None:
        yield _counterexample(claim.refutation.words, found)
    words = "Instead" if claim.verdict is Verdict.WRONG else "The condition"
    yield f"{words}: {claim.amendment.statement}"
    if claim.amendment.formula != claim.formula:
        yield f"$$\n{claim.amendment.formula}\n$$"
    others = [
        other for slip in claim.slips for other in slips(ledger(claim.source).values())[slip] if other is not claim
    ]
    if others:
        yield f"The same slip: {_links(others)}."
    yield f"With that it holds. {_kept(found.get('errors_of_amendment'), claim.tolerance)}"


def _counterexample(words: str, found: Mapping[str, Any]) -> str:
    if "counterexample_truth" not in found:
        return f"Counterexample: {words}."
    printed, truth = found["counterexample_printed"], found["counterexample_truth"]
    return f"Counterexample: {words}. As printed: {_number(printed)}. In truth: {_number(truth)}."


def _passed_over(source: str) -> Iterator[str]:
    entries = not_checked(source)
    if entries:
        yield "## Not checked"
        yield "\n".join(f"- {entry.place}: {entry.statement} *Why not:* {entry.why}" for entry in entries)


def _badge(verdict: Verdict) -> str:
    return f"{{bdg-{_BADGES[verdict]}}}`{verdict}`"


def _kept(errors: list[float | None] | None, tolerance: float) -> str:
    """How far within the tolerance."""
    if not errors or None in errors:
        return ""
    worst, count = max(error for error in errors if error is not None), len(errors)
    if tolerance == 0 and worst < 0:
        return f"The bound is kept on {count} problems, with {-worst:.2g} in hand where it is closest."
    if worst <= 0:
        return f"No error on {count} problems."
    return f"The largest error on {count} problems is {worst:.1e}, {_factor(tolerance / worst)} below the tolerance."


def _missed(errors: list[float | None] | None, tolerance: float) -> str:
    if not errors:
        return ""
    failing = sum(error is None or error > tolerance for error in errors)
    if failing == 0:
        return f"It passes on all of {len(errors)} problems drawn, and fails on the counterexample."
    size = "and has no value on some" if None in errors else f"with an error of up to {_worst(errors)}"
    return f"It fails on {failing} of {len(errors)} problems, {size}."


def _factor(ratio: float) -> str:
    return f"{ratio:.2g} times" if ratio < 100 else f"10{_superscript(math.floor(math.log10(ratio)))} times"


def _superscript(power: int) -> str:
    return str(power).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _worst(errors: list[float | None] | None) -> str:
    """The largest of the errors; JSON has null for what is not a finite number."""
    if not errors:
        return "–"
    return "no value" if None in errors else f"{max(error for error in errors if error is not None):.1e}"


def _number(value: Any) -> str:
    if value is None:
        return "no value"
    if isinstance(value, list):
        return f"[{', '.join(map(_number, value))}]"
    if isinstance(value, bool | str):
        return str(value).lower()
    return f"{value:.6g}".replace("-", "−")


def _write(app: Sphinx) -> None:
    file = Path(app.srcdir).parent / "build" / "claims.json"
    document = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {"claims": [], "seeds": None}
    write(app, "ledger", pages({entry["claim"]: entry for entry in document["claims"]}, document["seeds"]))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
