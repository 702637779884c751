"""A formula broken on purpose does not pass: no verdict is by assertion alone."""

from __future__ import annotations

import pytest

from lazyrich.claims import ledger

from .mutate import error, error_within, mutants, parts, replaced, rewritten

LEDGER = ledger()
LONG = 30.0  # seconds after which a broken formula counts as none: its flow may well blow up


def true_check(claim):
    """That of the statement, or where this is wrong as printed, of what holds instead."""
    return claim.amendment.check if claim.amendment else claim.check


# claim, function of its check, what stands in it, what is put in its place
BY_HAND = {
    "a sign in the logistic curve": ("post/equation-9", "logistic", "(s / u0 - 1)", "(s / u0 + 1)"),
    "a sign in C": (
        "braun2022/theorem-3.1",
        "alignment_matrices",
        "B, C = U.T @ U_tilde + V.T @ V_tilde, U.T",
        "B, C = U.T @ U_tilde + V.T @ V_tilde, -U.T",
    ),
    "a sign in the constant of μ": ("kunin2024/balanced-mu", "balanced", "/ mu0 - (2", "/ mu0 + (2"),
    "a sign in the rate of λ": (
        "notes/key-formula",
        "rate_of_layers",
        "c[1] ** 2 - c[0] ** 2",
        "c[1] ** 2 + c[0] ** 2",
    ),
    "a factor 2 in θ": ("saxe2014/equations-25-26", "equations_25_26_with_2s", "2.0", "4.0"),
    "a factor 2 in an exponent": ("braun2022/theorem-5.1", "theorem_5_1", "expm1(-2 * s * t)", "expm1(-s * t)"),
    "a factor 2 in the time of the peak": ("braun2022/t-peak", "t_peak", "/ (4 * s) if", "/ (2 * s) if"),
    "a factor 2 in the strength of layers": (
        "kunin2024/theorem-3",
        "layer_strengths",
        "np.hypot(lam, 2 * a)",
        "np.hypot(lam, a)",
    ),
    "an index of a power": ("kunin2024/deep-rich-inverse", "inverse_as_printed", "4 * L + 2", "4 * L + 1"),
    "the order of a Kronecker product": (
        "braun2022/equation-9",
        "tangent_kernel",
        "np.kron(gram_out, X.T @ X)",
        "np.kron(X.T @ X, gram_out)",
    ),
    "knowledge without its bases": (
        "braun2022/no-speed-advantage",
        "compared",
        "np.stack([kingdom, *starts])",
        "np.stack(starts[:1] + starts)",
    ),
    "a side of Σxx": ("notes/loss-identity", "unexplained", "T @ sigma_xx @ T.T", "T @ T.T"),
    "an index of the saddle": ("notes/saddle-index", "critical_points", "(k - r) * (h - r) if", "(k - r) * h if"),
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
