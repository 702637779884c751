"""The ledger as a whole: complete, well formed, and with the errors that are known of the sources."""

from __future__ import annotations

import re

import pytest

from lazyrich.papers import Verdict, ledger, not_checked, papers, slips
from lazyrich.papers.base.claim import claim
from lazyrich.papers.kunin2024.claims.settings import parameters_of
from lazyrich.papers.kunin2024.experiments.grokking import initial_network

LEDGER = ledger()
SOURCES = [paper.key for paper in papers() if paper.topics]

KNOWN_ERRORS = {
    "notes": [
        "loss-identity",
        "gradient",
        "balance-law",
        "noether",
        "saddle-index",
        "power-form",
        "example-first-time",
        "depth-1-time",
        "deep-time",
        "transition-width",
        "gap-time",
        "nuclear-norm-theorem",
        "schatten",
        "key-formula",
        "lazy-limit",
    ],
    "braun2022": [
        "completing-bases",
        "theorem-5.1-remark",
        "equation-15",
        "t-peak",
        "no-speed-advantage",
    ],
    "kunin2024": [
        "student-delta",
        "balanced-mu",
        "isotropic-limits",
        "deep-rich-inverse",
        "recovered-strengths",
        "wide-mu-phi",
        "figure-3-kernel-distance",
    ],
    "saxe2014": [
        "equations-25-26",
    ],
}
KNOWN_CONDITIONS = ["notes/alignment-preserved", "braun2022/any-balanced-start"]


def test_at_least_75_and_every_source():
    assert len(LEDGER) >= 75 and {claim.source for claim in LEDGER.values()} == set(SOURCES)
    assert list(ledger("notes")) == [name for name in LEDGER if name.startswith("notes/")]


@pytest.mark.parametrize("source", KNOWN_ERRORS)
def test_known_errors_are_wrong_as_printed(source):
    assert [name for name in KNOWN_ERRORS[source] if LEDGER[f"{source}/{name}"].verdict is not Verdict.WRONG] == []


def test_known_gaps_need_a_stronger_condition():
    assert [name for name in KNOWN_CONDITIONS if LEDGER[name].verdict is not Verdict.STRONGER] == []


def test_are_well_formed(subtests):
    for name, entry in LEDGER.items():
        with subtests.test(name):
            well_formed(entry)


def well_formed(entry):
    for text in (entry.place, entry.statement, entry.formula, entry.conditions):
        assert text.strip() == text and len(text) > 4
    assert re.search(r"[.)?!]$", entry.statement) and entry.conditions.endswith((".", ")"))
    assert "$" not in entry.formula and "\t" not in entry.formula + entry.statement
    assert 0 <= entry.tolerance <= 5 and (entry.amendment is None) == (entry.refutation is None)
    assert entry.seeds >= 3 and (entry.amendment is None) == (entry.slips == ())
    if entry.amendment and entry.refutation:
        assert len(entry.amendment.statement) > 10 and not entry.refutation.words.endswith(".")
        assert entry.amendment.check is not entry.check


def test_tolerances_are_tight():
    """Those above 1e-4 are numbers that a source rounds, or chances: they are few, and each says so in a comment."""
    loose = [name for name, entry in LEDGER.items() if entry.tolerance > 1e-4]
    assert len(loose) <= 12, loose


def test_slips_are_of_one_source_and_counted_once():
    found = slips(LEDGER.values())
    keys = [slip.key for slip in found]
    assert len(set(keys)) == len(keys) and 50 < len(keys) < sum(bool(entry.slips) for entry in LEDGER.values())
    for slip, sharing in found.items():
        assert {entry.source for entry in sharing} == {slip.key.partition("/")[0]}
        assert len(sharing) == 1 or (slip.sentence.endswith(".") and len(slip.sentence) > 10)
    shared = {slip.key: {entry.identifier for entry in sharing} for slip, sharing in found.items() if len(sharing) > 1}
    assert not set(shared) & set(LEDGER)  # a name of its own, not that of a claim
    assert shared["braun2022/determinant"] == {"braun2022/t-peak", "braun2022/equation-15"}


def test_the_parameters_of_the_transformer_are_those_of_the_named_code():
    """Layer by layer, with biases, as PyTorch has them; ours leaves out the fifth position."""
    width, tokens = 128, 99
    attention = (3 * width * width + 3 * width) + (width * width + width)
    perceptron = (4 * width * width + 4 * width) + (4 * width * width + width)
    norms, head, embeddings = 3 * 2 * width, tokens * width, (tokens + 5) * width
    total = attention + perceptron + norms + head + embeddings
    assert total == 224_512 and f"{total:,}".replace(",", r"\,") in LEDGER["kunin2024/embedding-share"].formula
    assert parameters_of(initial_network(97, width, 1.0, 0)) == total - width


def test_what_is_not_checked_says_why():
    entries = not_checked()
    assert {entry.source for entry in entries} >= {"braun2022", "kunin2024", "notes"}
    assert all(len(entry.why) > 20 and entry.why.endswith((".", ")")) for entry in entries)
    assert all(entry.statement.endswith(".") for entry in entries)


def test_an_entry_is_made_once(monkeypatch):
    words = dict.fromkeys(("place", "statement", "formula", "conditions"), "")
    again = claim("post/equation-9", **words, tolerance=0.0)(lambda rng: 0.0)
    monkeypatch.setattr("lazyrich.papers.post.claims.network.again", again, raising=False)
    with pytest.raises(AssertionError, match="post/equation-9 entered twice"):
        ledger("post")
    with pytest.raises(AssertionError, match="Some Where"):
        claim("Some Where", **words, tolerance=0.0)(lambda rng: 0.0)
