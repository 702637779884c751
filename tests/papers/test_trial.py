"""How verdicts are reached: from numbers alone, the same in every process, and never hidden by a broken entry."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import numpy as np
import pytest

import lazyrich as lr
from lazyrich.papers import Claim, Finding, Verdict
from lazyrich.papers import try_claims as run
from lazyrich.papers.base.claim import Amendment, Counterexample

MODULE = sys.modules[Finding.__module__]  # whose name in the package is that of its function
HOLDING = Claim("post/x", "here", "s", "f", "c", 1e-9, lambda rng: 0.0)
WRONG = replace(
    HOLDING,
    amendment=Amendment(Verdict.WRONG, "s", "f", lambda rng: 0.0),
    refutation=Counterexample("1", lambda: (1.0, 2.0)),
)
STRONGER = replace(WRONG, amendment=replace(WRONG.amendment, verdict=Verdict.STRONGER))


class TestVerdicts:
    @pytest.mark.parametrize(
        "errors, verdict",
        [((0.0, 1e-10), "holds"), ((1e-9,), "holds"), ((0.0, 2e-9), "fails"), ((math.nan,), "fails"), ((), "fails")],
    )
    def test_a_statement_alone(self, errors, verdict):
        found = Finding(HOLDING, errors, (), None)
        assert (found.measured, found.changed) == (verdict, verdict == "fails")

    @pytest.mark.parametrize("claim", [WRONG, STRONGER])
    @pytest.mark.parametrize(
        "printed, amended, refutation, verdict",
        [
            ((0.1, 0.2), (0.0, 1e-12), (1.0, 2.0), None),  # as on record
            ((0.0, 0.0), (0.0, 0.0), (1.0, 2.0), None),  # no draw met it, and the counterexample still stands
            ((0.0, 0.0), (0.0, 0.0), (2.0, 2.0), Verdict.HOLDS),  # it has become true
            ((0.1, 0.2), (0.0, 1e-8), (1.0, 2.0), Verdict.FAILS),  # what should hold does not
            ((0.1, 0.2), (0.0, math.nan), (1.0, 2.0), Verdict.FAILS),
            ((0.1, 0.2), (0.0, 0.0), (2.0, 2.0), Verdict.FAILS),  # the counterexample is none
        ],
    )
    def test_a_statement_with_an_amendment(self, claim, printed, amended, refutation, verdict):
        found = Finding(claim, printed, amended, refutation)
        assert found.measured == (verdict or claim.verdict) and found.changed == (verdict is not None)

    def test_a_fault_is_never_a_pass(self):
        assert Finding(HOLDING, (0.0,), (), None, faults=("ValueError: no",)).measured == "fails"

    def test_margin_and_counts(self):
        found = Finding(WRONG, (0.1, 0.0, math.nan), (1e-12, 1e-11), (1.0, 2.0))
        assert found.failing == 2 and math.isnan(found.worst) and found.refuted_by == 0.5
        np.testing.assert_allclose([found.worst_amended, found.margin], [1e-11, 100.0])
        assert Finding(HOLDING, (0.0,), (), None).margin == np.inf


@pytest.fixture
def entered(monkeypatch):
    """A ledger of one claim with the given check."""

    def enter(check, **others):
        claim = replace(HOLDING, check=check, **others)
        monkeypatch.setattr(MODULE, "chosen", lambda names, source: [claim])
        monkeypatch.setattr(MODULE, "ledger", lambda source: {claim.identifier: claim})

    return enter


class TestRun:
    def test_draws_differ_by_seed_and_are_the_same_again(self, entered):
        entered(lambda rng: rng.uniform() * 1e-9)
        (first,), (again,) = run(seeds=3), run(seeds=3)
        assert len(set(first.printed)) == 3 and first == again and first.measured == "holds"

    def test_without_a_number_every_claim_has_its_own(self, entered):
        entered(lambda rng: rng.uniform() * 1e-9, seeds=7)
        (own,), (two,) = run(), run(seeds=2)
        assert len(own.printed) == 7 and two.printed == own.printed[:2]

    def test_draws_differ_by_claim(self):
        def drawn(rng):
            return rng.uniform()

        assert MODULE._error(drawn, "post/x", 0) != MODULE._error(drawn, "post/y", 0)

    def test_a_broken_entry_is_told_once_and_hides_nothing(self, entered):
        def check(rng):
            raise ZeroDivisionError("no such\n number")

        entered(check)
        (found,) = run(seeds=4)
        assert found.faults == ("ZeroDivisionError: no such number",) and found.changed

    def test_amendment_and_counterexample_are_tried(self, entered):
        entered(
            lambda rng: 0.3, amendment=WRONG.amendment, refutation=Counterexample("", lambda: (np.zeros(2), [1, 2]))
        )
        (found,) = run(seeds=2)
        assert (found.printed, found.amended, found.refutation) == ((0.3, 0.3), (0.0, 0.0), ([0.0, 0.0], [1, 2]))
        assert found.measured == "wrong as printed" and not found.changed

    def test_processes_find_the_same(self):
        names = ["post/equation-9", "saxe2014/equations-25-26"]
        alone, together = run(names, seeds=2), run(names, seeds=2, workers=2)
        for one, other in zip(alone, together, strict=True):
            assert (
                one.claim is other.claim and repr(one.printed) == repr(other.printed) and one.amended == other.amended
            )

    def test_bad_input_is_told_before_anything_is_tried(self):
        with pytest.raises(
            lr.InvalidInput, match=r"there is no claim 'post/equation-90' \(did you mean post/equation-9"
        ):
            run(["post/equation-90"])
        with pytest.raises(lr.InvalidInput, match="there is no claim 'x': lazyrich claims --list names all"):
            run(["x"])
        for names in ("post/equation-9", [["post/equation-9"]], 3):
            with pytest.raises(lr.InvalidInput, match=r"names must be a list such as \['post/equation-9'\], and it is"):
                run(names)
        with pytest.raises(lr.InvalidInput, match="source must be"):
            run(source="braun")
        with pytest.raises(lr.InvalidInput, match="seeds must be"):
            run(seeds=0)
        with pytest.raises(lr.InvalidInput, match="workers must be"):
            run(workers=0)
