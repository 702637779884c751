"""A formula broken on purpose does not pass: no verdict is by assertion alone."""

from __future__ import annotations

import pytest

from lazyrich.claims import ledger

from .mutate import error, error_within, mutants, parts, replaced, rewritten

LEDGER = ledger()
LONG = 3.0  # seconds for a broken formula, whose flow may well blow up


def true_check(claim):
    """That of the statement, or where this is wrong as printed, of what holds instead."""
    return claim.amendment.check if claim.amendment else claim.check


# claim, function of its check, what stands in it, what is put in its place
BY_HAND = {
    "a sign": ("post/equation-9", "logistic", "(s / u0 - 1)", "(s / u0 + 1)"),
    "a factor 2": ("saxe2014/equations-25-26", "equations_25_26_with_2s", "2.0", "4.0"),
}


@pytest.mark.parametrize("words", BY_HAND)
def test_broken_by_hand(words):
    name, function, old, new = BY_HAND[words]
    claim = LEDGER[name]
    check = true_check(claim)
    (known,) = [part for part in parts(check) if part.__name__ == function]
    assert error(check, name) <= claim.tolerance
    with replaced(check, known, rewritten(known, old, new)) as broken:
        assert error(broken, name) > claim.tolerance
    assert error(check, name) <= claim.tolerance  # and all is as it was


@pytest.mark.slow
@pytest.mark.parametrize("name", LEDGER)
def test_some_broken_formula_is_noticed(name):
    """Signs, factors and numbers are changed one at a time, until the error is a number above the tolerance."""
    claim = LEDGER[name]
    check, tried = true_check(claim), []
    for function in reversed(parts(check)):  # what it uses before itself: formulas before draws
        for words, mutant in mutants(function):
            with replaced(check, function, mutant) as broken:
                if error_within(LONG, broken, name) > claim.tolerance:
                    return
            tried.append(words)
    pytest.fail(f"none of {len(tried)} changes is noticed: {'; '.join(tried)}")
