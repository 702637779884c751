"""A formula broken on purpose does not pass: no verdict is by assertion alone."""

from __future__ import annotations

import time

import pytest

from lazyrich.papers import ledger

from .mutate import draw, mutants, noticed, parts, replaced, rewritten

pytestmark = pytest.mark.usefixtures("unchecked_shapes")  # broken formulas fail by their numbers, as for a user

LEDGER = ledger()
LOOK = 8  # draws: what one of them notices must be noticed by those of `make claims`
LONG = 2.0  # seconds, or three times as long as the formula itself takes: a broken flow may well blow up


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
    "a factor 2 in θ": ("saxe2014/equations-25-26", "equations_25_26_with_2s", "factor=2.0", "factor=4.0"),
    "a factor 2 in an exponent": ("braun2022/theorem-5.1", "theorem_5_1", "expm1(-2 * s * t)", "expm1(-s * t)"),
    "a factor 2 in the time of the peak": ("braun2022/t-peak", "peak_time_of_pair", "/ (4 * s) if", "/ (2 * s) if"),
    "a factor 2 in the factors of layers": (
        "kunin2024/theorem-3",
        "layer_factors",
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
    "one c for all modes": (
        "tu2024/couplings",
        "by_itself",
        "c = formulas.constant(a, p, r)",
        "c = formulas.constant(a, p, r).mean()",
    ),
    "a factor 2 in the c of a mode": ("tu2024/each-mode", "constant", "(p + r) / 2", "(p + r)"),
    "a first layer that shrinks with the width": (
        "tu2024/by-width",
        "by_width",
        "(400, 40_000), 0.5)",
        "(400, 40_000), None)",
    ),
    "the Gram matrix of the other layer": (
        "chizat2019/two-layers",
        "two_layers",
        "W2 @ W2.T, W1.T @ W1, sigma_yx",
        "W2 @ W2.T, 0 * W1.T @ W1, sigma_yx",
    ),
    "a layer too many below": ("chizat2019/any-depth", "any_depth", "*weights[:i]])", "*weights[: i and i - 1]])"),
    "three layers as fast as two": ("chizat2019/rate", "rate", "(2, 5, 5, 2), 0.6", "(2, 5, 2), 0.6"),
    "two layers as slow as three": (
        "chizat2019/rate-of-two-layers",
        "rate_of_two_layers",
        "centred(draws.gaussian(rng, (2, 5, 2), 0.8))",
        "centred(draws.gaussian(rng, (2, 5, 5, 2), 0.8))",
    ),
    "lazy from any start": (
        "chizat2019/not-centred",
        "not_centred",
        "draws.gaussian(rng, (2, *hidden, 2), 0.6)",
        "centred(draws.gaussian(rng, (2, *hidden, 2), 0.6))",
    ),
    "a sign in the balance": ("chizat2019/balance", "balance", "@ W2 - W1 @", "@ W2 + W1 @"),
    "the overlaps of inputs and outputs exchanged": (
        "lampinen2019/overlaps",
        "output_overlap",
        "1 - A * (1 + safe**2) / (safe**2 * (safe**2 + A))",
        "1 - (A + safe**2) / (safe**2 * (1 + safe**2))",
    ),
    "no noise in the singular values": (
        "lampinen2019/singular-values",
        "inflated",
        "np.sqrt((1 + safe**2) * (A + safe**2)) / safe",
        "safe",
    ),
    "another threshold": ("lampinen2019/threshold", "threshold", "A**0.25", "A**0.25 / 3"),
    "what noise has turned is not off": (
        "lampinen2019/test-error",
        "error_of_modes",
        "np.sum(U * (T @ V), axis=0)",
        "s",
    ),
    "a transition that takes twice as long": ("saxe2019/transition", "transition", "np.log(", "2 * np.log("),
    "a sigmoid of half the rate": ("saxe2019/deep", "deep", "np.exp(-2 * s", "np.exp(-s"),
    "modes of one layer that grow like their strength": ("saxe2019/shallow", "shallow", "np.exp(-np", "np.exp(-s * np"),
    "two layers in place of one": ("saxe2019/illusions", "illusions", "max(outside(one),", "max(outside(two),"),
    "covariances of one level less": (
        "saxe2019/tree",
        "tree_modes",
        "np.arange(depth, -1, -1)",
        "np.arange(depth + 1)",
    ),
    "waves of half the frequency": ("saxe2019/ring", "ring_modes", "2 * np.pi * k / P", "np.pi * k / P"),
    "a line that begins at an item": ("saxe2019/order", "order_modes", "k + 0.5", "k"),
    "links between clusters forgotten": (
        "saxe2019/clusters",
        "clusters_modes",
        "size * within + (P - size) * between",
        "size * within",
    ),
    "the numbers of items exchanged": (
        "saxe2019/cross-cutting",
        "cross_cutting_modes",
        "P2 * c1, P1 * c2",
        "P1 * c1, P2 * c2",
    ),
    "a category of half its members": ("saxe2019/coherence", "coherence", "members * own", "members * own / 2"),
    "any category is seen": (
        "saxe2019/coherence",
        "item_overlap",
        "if C > 1 else 0.0",
        "if C > 1 else 0.5",
    ),
    "an item that is not looked up": ("saxe2019/novel-property", "novel_property", "(H[item] @ H[item])", "len(H)"),
    "the shares of a mixture exchanged": (
        "braun2022/mixture",
        "mixture",
        "share * old + (1 - share) * new, times",
        "share * new + (1 - share) * old, times",
    ),
    "forgetting that falls with ρ alone": ("braun2022/replay", "replay", "(1 - rho) ** 2 * apart", "(1 - rho) * apart"),
    "a frontier that is twice as far": ("braun2022/frontier", "frontier", "/ np.sqrt(2)", "* np.sqrt(2)"),
    "three samples less": ("lampinen2019/interpolation", "interpolation", "(N - P - 1)", "(N - P + 2)"),
    "a side of Σxx": ("notes/loss-identity", "unexplained", "T @ sigma_xx @ T.T", "T @ T.T"),
    "an index of the saddle": ("notes/saddle-index", "critical_points", "(k - r) * (h - r) if", "(k - r) * h if"),
    "Theorem 6 for any target": (
        "kunin2024/theorem-6",
        "theorem_6",
        "(mixing @ span if sign > 0 else span @ mixing)",
        "rng.normal(size=(d, c))",
    ),
    "Theorem 6 for any target, δ → −∞ alone": (
        "kunin2024/theorem-6",
        "theorem_6",
        "else span @ mixing)",
        "else rng.normal(size=(d, c)))",
    ),
    "rows and columns exchanged in Theorem 6": (
        "kunin2024/theorem-6",
        "theorem_6",
        "not_lazy(betas, sign, X",
        "not_lazy(betas, -sign, X",
    ),
    "a sign in the separating surface": ("kunin2024/basins", "side", "beta_star + a / 2", "beta_star - a / 2"),
    "a sign in M of one neuron with one input": (
        "kunin2024/one-neuron-architectures",
        "one_neuron",
        "(kappa - delta) / 2 * np.eye",
        "(kappa + delta) / 2 * np.eye",
    ),
    "the sign of δ in the square of a": (
        "kunin2024/neuron-squares-from-beta",
        "neuron_squares",
        "(kappa + n.delta)",
        "(kappa - n.delta)",
    ),
    "a factor 2 in F of the λ family": (
        "notes/lambda-exact",
        "gram_in_closed_form",
        "[[-lam / 2 * np.eye(d_in)",
        "[[-lam * np.eye(d_in)",
    ),
    "the head counted among the embeddings": (
        "kunin2024/embedding-share",
        "embedding_share",
        "network.positions]",
        "network.positions, network.head]",
    ),
    "delayed rich, wherever the lazy phase ends": (
        "kunin2024/piecewise-delayed-rich",
        "after_lazy_learning",
        "np.linalg.lstsq(features, y, rcond=None)[0][:, None]",
        "np.ones((len(directions), 1))",
    ),
}


def error(check, claim):
    """The worst on the draws of `make claims`."""
    return max(draw(check, claim.identifier, seed) for seed in range(claim.seeds))


@pytest.mark.long
@pytest.mark.parametrize("words", BY_HAND)
def test_broken_by_hand(words):
    name, function, old, new = BY_HAND[words]
    claim = LEDGER[name]
    check = true_check(claim)
    (known,) = [part for part in parts(check) if part.__name__ == function]
    assert error(check, claim) <= claim.tolerance
    with replaced(check, known, rewritten(known, old, new)) as broken:
        assert error(broken, claim) > claim.tolerance
    assert error(check, claim) <= claim.tolerance  # and all is as it was


def broken_versions(check):
    """Every sign, factor, number, transpose and case changed, one at a time, each with what was changed."""
    for function in parts(check):
        for number, (words, mutant) in enumerate(mutants(function)):
            with replaced(check, function, mutant) as broken:
                yield f"{words} ({number})", broken  # the same words may stand in a function twice


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", LEDGER)
def test_broken_formulas_are_noticed(name):
    """One at least by a number, and all that `LOOK` draws notice already on those of `make claims`."""
    claim = LEDGER[name]
    check, start = true_check(claim), time.process_time()
    assert noticed(check, claim, LOOK, 60.0) is None
    seconds = max(LONG, 3 * (time.process_time() - start))
    found = {words: noticed(broken, claim, LOOK, seconds) for words, broken in broken_versions(check)}
    seen = {words: draw_and_number for words, draw_and_number in found.items() if draw_and_number}
    late = {words: draw + 1 for words, (draw, _) in seen.items() if draw >= claim.seeds}
    assert not late, f"it takes seeds={max(late.values())} to notice {'; '.join(late)}"
    assert any(number for _, number in seen.values()), f"none of these is noticed: {'; '.join(found)}"
