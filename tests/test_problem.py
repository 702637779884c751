"""Facts of a problem: judged right on cases built for it, with their numbers, and the reasons methods give."""

from __future__ import annotations

import re

import numpy as np
import pytest

import lazyrich as lr


def orthonormal(rng, rows, columns):
    return np.linalg.qr(rng.normal(size=(rows, columns)))[0]


def balanced_start(rng, c1, c2, *, d_in, h, d_out):
    """W1 = R diag(c1) Vᵀ, W2 = U diag(c2) Rᵀ, with modes of its own."""
    V, R, U = (orthonormal(rng, d, len(c1)) for d in (d_in, h, d_out))
    return [(R * c1) @ V.T, (U * c2) @ R.T]


def white_task(rng, d_in=5, d_out=4):
    return lr.Task.from_correlations(rng.normal(size=(d_out, d_in)))


def facts_of(task, network, **options):
    network = network if isinstance(network, lr.Network) else lr.Network(network)
    return lr.Problem(task, network, **options).facts


class TestWhitened:
    @pytest.mark.parametrize("c", [1.0, 0.125, 1e-6, 3e4])
    def test_inputs_of_any_scale_count(self, rng, c):
        task = lr.Task.from_correlations(rng.normal(size=(2, 3)), c * np.eye(3))
        facts = facts_of(task, lr.inits.zero_balanced(rng, sizes=(3, 4, 2), scale=0.1))
        assert facts.whitened and facts.input_scale == pytest.approx(c, rel=1e-15)
        assert facts.method == "riccati"

    def test_the_hierarchy_has_an_eighth(self):
        facts = facts_of(lr.tasks.semantic_hierarchy(), lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01))
        assert (facts.whitened, facts.whitening_error, facts.input_scale) == (True, 0.0, 0.125)

    @pytest.mark.parametrize("off", [1e-6, 0.3])
    def test_others_are_told_how_far_they_are(self, rng, off):
        R = orthonormal(rng, 3, 3)
        task = lr.Task.from_correlations(rng.normal(size=(2, 3)), R * [1 + off, 1, 1 - off] @ R.T)
        facts = facts_of(task, lr.inits.zero_balanced(rng, sizes=(3, 4, 2), scale=0.1))
        assert not facts.whitened and facts.whitening_error == pytest.approx(off, rel=1e-9)
        assert f"off by {off:.2g} (task.whitened() gives such a task)" in told(facts, "riccati")

    def test_after_whitening_the_method_applies(self, rng):
        task = lr.Task.from_data(rng.normal(size=(30, 3)), rng.normal(size=(30, 2)))
        start = lr.inits.zero_balanced(rng, sizes=(3, 4, 2), scale=0.1)
        assert facts_of(task, start).method is None
        assert facts_of(task.whitened(), start).method == "riccati"


class TestBalance:
    @pytest.mark.parametrize("lam", [0.0, 1e-3, -1e-3, 1.0, -1.0, 30.0, -30.0])
    @pytest.mark.parametrize("scale", [1e-4, 1.0])
    def test_lambda_is_found(self, rng, lam, scale):
        c = scale * rng.uniform(0.5, 1.5, size=3)
        c1, c2 = (c, np.sqrt(c**2 + lam)) if lam >= 0 else (np.sqrt(c**2 - lam), c)
        facts = facts_of(white_task(rng), balanced_start(rng, c1, c2, d_in=5, h=3, d_out=4))
        assert facts.balanced and facts.balance_error < 1e-14
        assert facts.lam == (pytest.approx(lam, rel=1e-13),)
        assert facts.zero_balanced == (lam == 0)

    @pytest.mark.parametrize("sizes", [(5, 9, 4), (5, 12, 4), (5, 4096, 4)])
    def test_wide_layers_can_have_zero_only(self, rng, sizes):
        start = lr.inits.zero_balanced(rng, sizes=sizes, scale=0.01)
        facts = facts_of(white_task(rng), start)
        assert facts.zero_balanced and facts.balance_error < 1e-14
        W1, W2 = start.weights
        facts = facts_of(white_task(rng), [W1, 1.1 * W2])
        D = 1.21 * W2.T @ W2 - W1 @ W1.T
        assert not facts.balanced
        # λ is what D has on the directions that no weight uses, where those exist: 0
        expected = np.linalg.norm(D) / (np.sum(W1**2) + 1.21 * np.sum(W2**2))
        if sizes[1] > 9:
            assert facts.lam == (0.0,) and facts.balance_error == pytest.approx(expected, rel=1e-6)

    @pytest.mark.parametrize("rates", [(2.0, 0.3), (1.0, 5.0), (0.25, 0.25)])
    @pytest.mark.parametrize("lam", [0.0, 1.5, -0.7])
    def test_with_layer_rates_it_is_that_of_the_rescaled_layers(self, rng, rates, lam):
        """η1 W2ᵀW2 − η2 W1W1ᵀ = λI is what the flow conserves."""
        c = rng.uniform(0.5, 1.5, size=3)
        c1, c2 = (c, np.sqrt(c**2 + lam)) if lam >= 0 else (np.sqrt(c**2 - lam), c)
        W1, W2 = balanced_start(rng, c1 / np.sqrt(rates[1]), c2 / np.sqrt(rates[0]), d_in=5, h=3, d_out=4)
        facts = facts_of(white_task(rng), [W1, W2], rates=rates)
        assert facts.balanced and facts.rates == rates
        assert facts.lam == (pytest.approx(lam, rel=1e-13),)
        if rates[0] != rates[1]:
            assert not facts_of(white_task(rng), [W1, W2]).zero_balanced

    def test_equal_rates_change_nothing_but_the_unit(self, rng):
        start = lr.inits.lambda_balanced(rng, sizes=(5, 3, 4), lam=2.0, scale=0.5)
        facts = facts_of(white_task(rng), start, rates=0.25)
        assert facts.rates == (0.25, 0.25) and facts.balanced
        assert facts.lam[0] == pytest.approx(0.25 * 2.0, rel=1e-13)

    def test_almost_is_not_balanced(self, rng):
        W1, W2 = lr.inits.zero_balanced(rng, sizes=(5, 3, 4), scale=0.5).weights
        E = rng.normal(size=W1.shape)
        W1 = W1 + 1e-6 * E * np.linalg.norm(W1) / np.linalg.norm(E)
        facts = facts_of(white_task(rng), [W1, W2])
        assert not facts.balanced and 1e-7 < facts.balance_error < 1e-6
        assert facts.method is None
        reason = told(facts, "riccati")
        assert f"off by {facts.balance_error:.2g} of their size (tolerance 1e-14)" in reason

    def test_every_pair_of_deep_layers_is_judged(self, rng):
        W1, W2, W3 = lr.inits.zero_balanced(rng, sizes=(5, 6, 7, 4), scale=0.5).weights
        assert facts_of(white_task(rng), [W1, W2, W3]).lam == (0.0, 0.0)
        assert facts_of(white_task(rng), [W1, W2, W3]).zero_balanced
        assert not facts_of(white_task(rng), [W1, W2, 2 * W3]).balanced

    def test_one_hidden_unit_is_always_balanced(self, rng):
        w, a = rng.normal(size=(1, 5)), rng.normal(size=(1, 1))
        facts = facts_of(white_task(rng, d_out=1), [w, a])
        assert facts.balanced and facts.lam[0] == pytest.approx(a[0, 0] ** 2 - np.sum(w**2), rel=1e-14)

    def test_zero_weights_are_balanced(self, rng):
        facts = facts_of(white_task(rng), [np.zeros((3, 5)), np.zeros((4, 3))])
        assert facts.zero_balanced and facts.rank_initial == 0


class TestAligned:
    def test_the_tasks_own_modes(self, rng):
        task = white_task(rng)
        start = lr.inits.aligned(rng, task, hidden=6, strengths=[0.1, -0.2, 0.3, 0.0], lam=[0.0, 1.0, -1.0, 2.0])
        facts = facts_of(task, start)
        assert facts.aligned and facts.alignment_error < 1e-14
        assert (facts.balanced, facts.method) == (False, "modes")

    def test_a_rotation_of_the_modes_is_told_by_its_size(self, rng):
        task = lr.Task.from_correlations(np.diag([2.0, 1.0]))
        turn = np.array([[np.cos(1e-5), -np.sin(1e-5)], [np.sin(1e-5), np.cos(1e-5)]])
        facts = facts_of(task, [np.diag([1.0, 0.5]) @ turn.T, np.diag([1.0, 0.5])])
        assert not facts.aligned and 1e-5 < facts.alignment_error < 3e-5  # relative to the two modes it couples
        assert f"coupled by {facts.alignment_error:.2g}" in told(facts, "modes")

    @pytest.mark.parametrize("kind", ["identity", "orthogonal", "one pair equal"])
    def test_equal_singular_values_leave_the_basis_free(self, rng, kind):
        """Any basis of equal modes is theirs: the start's own is chosen."""
        left, right, turn = (orthonormal(rng, 4, 4) for _ in range(3))
        s = np.array([2.0, 2.0, 2.0, 2.0])
        if kind == "identity":
            left = right = np.eye(4)
        if kind == "one pair equal":
            s = np.array([3.0, 2.0, 2.0, 1.0])
            turn = np.eye(4)
            turn[1:3, 1:3] = orthonormal(rng, 2, 2)
        task = lr.Task.from_correlations(left * s @ right.T)
        U, V, R = left @ turn, right @ turn, orthonormal(rng, 6, 4)
        c = np.array([0.4, 0.1, 0.3, 0.2])
        assert facts_of(task, [(R * c) @ V.T, (U * c) @ R.T]).aligned
        for c1, c2 in ((c, 0 * c), (0 * c, c), (c, 0.01 / c), (np.sqrt(c), c)):  # the basis may show in one layer only
            assert facts_of(task, [(R * c1) @ V.T, (U * c2) @ R.T]).aligned
        tilt = np.eye(4)
        tilt[1:3, 1:3] = [[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]]
        assert not facts_of(task, [(R * c) @ V.T, (U @ tilt * c) @ R.T]).aligned

    def test_directions_without_a_target_are_free_on_each_side(self, rng):
        left, right = orthonormal(rng, 4, 4), orthonormal(rng, 5, 5)
        task = lr.Task.from_correlations(2.0 * np.outer(left[:, 0], right[:, 0]))
        U, V = left.copy(), right[:, :4].copy()
        U[:, 1:], V[:, 1:] = left[:, 1:] @ orthonormal(rng, 3, 3), right[:, 1:] @ orthonormal(rng, 4, 3)
        R, c = orthonormal(rng, 6, 4), np.array([0.4, 0.1, 0.3, 0.2])
        assert facts_of(task, [(R * c) @ V.T, (U * c) @ R.T]).aligned

    def test_inputs_may_share_the_modes(self, rng):
        left, right = orthonormal(rng, 3, 3), orthonormal(rng, 3, 3)
        task = lr.Task.from_correlations(left * [3.0, 2.0, 1.0] @ right.T, right * [1.0, 2.0, 0.5] @ right.T)
        facts = facts_of(task, lr.inits.aligned(rng, task, hidden=4, strengths=0.1))
        assert (facts.whitened, facts.aligned, facts.method) == (False, True, "modes")
        turned = orthonormal(rng, 3, 3)
        task = lr.Task.from_correlations(left * [3.0, 2.0, 1.0] @ right.T, turned * [1.0, 2.0, 0.5] @ turned.T)
        assert not facts_of(task, lr.inits.aligned(rng, task, hidden=4, strengths=0.1)).aligned


class TestRanks:
    @pytest.mark.parametrize("rank_target, rank_initial", [(1, 3), (3, 1), (2, 2), (4, 4)])
    def test_are_counted(self, rng, rank_target, rank_initial):
        target = rng.normal(size=(4, rank_target)) @ rng.normal(size=(rank_target, 5))
        c = rng.uniform(0.5, 1.5, size=rank_initial)
        facts = facts_of(lr.Task.from_correlations(target), balanced_start(rng, c, c, d_in=5, h=6, d_out=4))
        assert (facts.rank_target, facts.rank_initial) == (rank_target, rank_initial)

    @pytest.mark.parametrize("h, bottleneck", [(1, True), (2, True), (3, False), (9, False)])
    def test_a_hidden_layer_narrower_than_the_target_is_a_bottleneck(self, rng, h, bottleneck):
        task = lr.Task.from_correlations(rng.normal(size=(4, 3)) @ rng.normal(size=(3, 5)))
        assert facts_of(task, lr.inits.zero_balanced(rng, sizes=(5, h, 4), scale=0.1)).bottleneck == bottleneck
        assert facts_of(task, lr.inits.zero_balanced(rng, sizes=(5, 8, h, 4), scale=0.1)).bottleneck == bottleneck

    def test_a_shallow_network_has_none(self, rng):
        assert not facts_of(white_task(rng), lr.inits.gaussian(rng, sizes=(5, 4), scale=0.1)).bottleneck

    def test_of_float32_data_are_counted_in_its_precision(self, rng):
        """The third singular value is rounding: no mode to learn, and no determinant to obstruct."""
        target = (rng.normal(size=(3, 2)) @ rng.normal(size=(2, 3))).astype(np.float32)
        task = lr.Task.from_correlations(target)
        facts = facts_of(task, lr.inits.zero_balanced(rng, sizes=(3, 4, 3), scale=0.1))
        assert facts.rank_target == np.count_nonzero(task.modes.s) == 2
        assert not facts.determinant_obstruction


class TestDeterminantObstruction:
    def start(self, rng, sign, h=5):
        """Zero-balanced and square, with sign det(W2W1) as asked for."""
        U, V, R = (orthonormal(rng, d, 3) for d in (3, 3, h))
        U[:, 0] *= sign * np.sign(np.linalg.det(U) * np.linalg.det(V))
        c = np.array([0.3, 0.2, 0.1])
        return [(R * c) @ V.T, (U * c) @ R.T]

    def task(self, rng, sign, smallest=1.0):
        U, V = orthonormal(rng, 3, 3), orthonormal(rng, 3, 3)
        U[:, 0] *= sign * np.sign(np.linalg.det(U) * np.linalg.det(V))
        return lr.Task.from_correlations(U * [3.0, 2.0, smallest] @ V.T)

    @pytest.mark.parametrize("of_task", [1, -1])
    @pytest.mark.parametrize("of_start", [1, -1])
    def test_is_there_when_the_signs_differ(self, rng, of_task, of_start):
        facts = facts_of(self.task(rng, of_task), self.start(rng, of_start))
        assert facts.determinant_obstruction == (of_task != of_start)
        assert ("signs of det differ" in str(facts)) == (of_task != of_start)

    def test_needs_full_rank_square_shape_and_zero_balance(self, rng):
        task, start = self.task(rng, 1), self.start(rng, -1)
        assert facts_of(task, start).determinant_obstruction
        assert not facts_of(self.task(rng, 1, smallest=0.0), start).determinant_obstruction
        narrow = lr.inits.zero_balanced(rng, sizes=(3, 2, 3), scale=0.1)
        assert not facts_of(task, narrow).determinant_obstruction
        tilted = [lr.inits.lambda_balanced(seed, sizes=(3, 3, 3), lam=1.0, scale=0.5) for seed in range(8)]
        assert any(np.linalg.det(net.function) < 0 for net in tilted)
        assert not any(facts_of(task, net).determinant_obstruction for net in tilted)
        oblong = lr.Task.from_correlations(rng.normal(size=(3, 4)))
        starts = [lr.inits.zero_balanced(seed, sizes=(4, 5, 3), scale=0.5) for seed in range(8)]
        assert not any(facts_of(oblong, net).determinant_obstruction for net in starts)

    def test_one_layer_and_layers_that_are_not_balanced_may_change_the_sign(self, rng):
        task = self.task(rng, 1)
        for sizes in ((3, 3), (3, 8, 3)):
            starts = [lr.inits.gaussian(seed, sizes=sizes, scale=0.5) for seed in range(8)]
            assert any(np.linalg.det(net.function) < 0 for net in starts)
            assert not any(facts_of(task, net).determinant_obstruction for net in starts)

    def test_reversal_of_an_odd_number_of_modes(self, rng):
        task = self.task(rng, 1)
        known = lr.inits.prior_knowledge(rng, task, hidden=5)
        assert not facts_of(task, known).determinant_obstruction
        assert facts_of(lr.tasks.reversal(task), known).determinant_obstruction

    def test_the_revised_kingdom(self):
        known = lr.inits.prior_knowledge(0, lr.tasks.semantic_hierarchy(), hidden=14)
        assert facts_of(lr.tasks.revised_kingdom(), known).determinant_obstruction


class TestPrecision:
    def test_float32_weights_are_judged_by_their_own_rounding(self, rng):
        start = lr.inits.zero_balanced(rng, sizes=(5, 6, 4), scale=0.1)
        single = [W.astype(np.float32) for W in start.weights]
        facts = facts_of(white_task(rng), single)
        assert (facts.precision, facts.eps) == ("float32", 2.0**-23)
        assert 1e-6 < facts.tolerance < 1e-5
        assert facts.zero_balanced and 1e-10 < facts.balance_error < 1e-7
        assert facts.method == "riccati"
        assert "float32" in str(facts)

    def test_the_same_numbers_as_float64_are_not_balanced(self, rng):
        start = lr.inits.zero_balanced(rng, sizes=(5, 6, 4), scale=0.1)
        rounded = [W.astype(np.float32).astype(np.float64) for W in start.weights]
        facts = facts_of(white_task(rng), rounded)
        assert (facts.precision, facts.tolerance, facts.balanced) == ("float64", 64 * 2.0**-52, False)

    def test_float32_data_counts_too(self, rng):
        X = np.linalg.qr(rng.normal(size=(20, 5)))[0].astype(np.float32)
        task = lr.Task.from_data(X, rng.normal(size=(20, 4)).astype(np.float32))
        facts = facts_of(task, lr.inits.zero_balanced(rng, sizes=(5, 6, 4), scale=0.1))
        assert (facts.precision, facts.whitened, facts.method) == ("float32", True, "riccati")
        assert 1e-9 < facts.whitening_error < 1e-6

    def test_half_precision_is_not_called_balanced(self, rng):
        start = lr.inits.zero_balanced(rng, sizes=(5, 6, 4), scale=0.1)
        facts = facts_of(white_task(rng), [W.astype(np.float16) for W in start.weights])
        assert (facts.precision, facts.balanced) == ("half", False)

    def test_float32_lambda_is_found(self, rng):
        start = lr.inits.lambda_balanced(rng, sizes=(5, 3, 4), lam=2.0, scale=0.1)
        facts = facts_of(white_task(rng), [W.astype(np.float32) for W in start.weights])
        assert facts.balanced and facts.lam[0] == pytest.approx(2.0, rel=1e-6)


REFUSALS = {
    "shallow, two layers": ((5, 6, 4), {}, "shallow", r"it solves one layer, and this network has 2"),
    "modes, one layer": ((5, 4), {}, "modes", r"it solves two layers, and this network has 1"),
    "riccati, three layers": ((5, 6, 6, 4), {}, "riccati", r"it solves two layers, and this network has 3"),
    "family, three layers": ((5, 6, 6, 4), {}, "family", r"^it solves two layers, and this network has 3$"),
    "deep_modes, two layers": ((5, 6, 4), {}, "deep_modes", r"three layers or more, and this network has 2"),
    "modes, not aligned": ((5, 6, 4), {}, "modes", r"aligned with the task, and modes are coupled by 0\.\d+"),
    "deep_modes, not aligned": (
        (5, 6, 6, 4),
        {},
        "deep_modes",
        r"aligned with the task in every layer, and .* by (0\.\d+|1)$",
    ),
    "riccati, decay and rates": (
        (5, 6, 4),
        {"weight_decay": 0.1, "rates": (1.0, 2.0)},
        "riccati",
        r"layers with η1 W2ᵀW2 − η2 W1W1ᵀ \(η: layer rates\) = λI, and these are off by 0\.\d+ of their size",
    ),
}


class TestReasons:
    @pytest.mark.parametrize("case", REFUSALS)
    def test_each_method_says_why(self, rng, case):
        sizes, options, method, sentence = REFUSALS[case]
        facts = facts_of(white_task(rng), lr.inits.zero_balanced(rng, sizes=sizes, scale=0.3), **options)
        assert_reason(facts, method, sentence)

    @pytest.mark.parametrize("method", ["shallow", "modes", "riccati", "family", "deep_modes"])
    @pytest.mark.parametrize("activation, said", [("relu", "relu"), ("tanh", "tanh"), (0.1, "leaky ReLU 0.1")])
    def test_nonlinear_networks(self, rng, method, activation, said):
        sizes = {"shallow": (5, 4), "deep_modes": (5, 6, 6, 4)}.get(method, (5, 6, 4))
        start = lr.inits.gaussian(rng, sizes=sizes, scale=0.3, activation=activation)
        facts = facts_of(white_task(rng), start)
        assert facts.method is None
        assert_reason(facts, method, rf"it solves linear networks, and this one is {said}(;|$)")

    def test_deep_layers_out_of_line(self, rng):
        """Aligned at both ends, any balance: what a middle layer turns is named, by its angle."""
        task = white_task(rng)
        start = lr.inits.aligned(rng, task, hidden=(4, 4), strengths=0.1, lam=[[0.5], [-0.2]])
        assert facts_of(task, start).method == "deep_modes"
        W1, W2, W3 = start.weights
        turn = np.eye(4) + 1e-3 * np.diag([1.0, 1.0, 1.0], k=1)
        facts = facts_of(task, [W1, turn @ W2, W3])
        assert_reason(facts, "deep_modes", r"aligned with the task in every layer, and modes are coupled by 0\.\d+$")
        assert 1e-4 < facts.alignment_error < 0.1

    def test_weight_decay(self, rng):
        task = white_task(rng)
        tilted = lr.inits.lambda_balanced(rng, sizes=(5, 3, 4), lam=2.0, scale=0.3)
        assert_reason(facts_of(task, tilted, weight_decay=0.1), "riccati", r"needs λ = 0, and λ is 2$")
        aligned = lr.inits.aligned(rng, task, hidden=4, strengths=0.1, lam=2.0)
        assert_reason(facts_of(task, aligned, weight_decay=0.1), "modes", r"needs λ = 0, and the layers are off by 2$")
        deep = lr.inits.aligned(rng, task, hidden=(4, 4), strengths=0.1)
        assert_reason(
            facts_of(task, deep, weight_decay=0.1), "deep_modes", r"no weight decay, and this problem has 0\.1"
        )
        W1, W2 = lr.inits.aligned(rng, task, hidden=4, strengths=0.1).weights
        facts = facts_of(task, [W1, W2 * np.sqrt(2)], weight_decay=0.1, rates=(1.0, 2.0))
        for method in ("modes", "riccati"):
            assert_reason(facts, method, r"needs equal layer rates, and they are 1 and 2$")

    def test_the_cheapest_that_applies_is_chosen(self, rng):
        task = white_task(rng)
        assert facts_of(task, lr.inits.gaussian(rng, sizes=(5, 4), scale=0.1)).method == "shallow"
        assert facts_of(task, lr.inits.aligned(rng, task, hidden=4, strengths=0.1)).method == "modes"
        assert facts_of(task, lr.inits.zero_balanced(rng, sizes=(5, 4, 4), scale=0.1)).method == "riccati"
        assert facts_of(task, lr.inits.aligned(rng, task, hidden=(4, 4), strengths=0.1)).method == "deep_modes"
        assert facts_of(task, lr.inits.gaussian(rng, sizes=(5, 4, 4), scale=0.1)).method is None


def assert_reason(facts, method, sentence):
    reason = told(facts, method)
    assert re.search(sentence, reason), reason


def told(facts, method):
    """All that a method has against a problem."""
    return "; ".join(map(str, facts.methods[method]))


class TestText:
    def test_every_fact_is_printed(self):
        problem = lr.Problem(
            lr.tasks.semantic_hierarchy(),
            lr.inits.zero_balanced(0, sizes=(8, 3, 8), scale=0.01),
            rates=(2.0, 2.0),
            weight_decay=0.05,
        )
        text = str(problem.facts)
        for line in (
            r"network                 8-3-8, linear",
            r"inputs whitened         yes (Σxx = 0.125·I within 0.0e+00)",
            r"ranks                   target 8, initialisation 3, bottleneck 3",
            r"determinant obstruction no",
            r"precision               float64 (judged to 1e-14)",
            r"layer rates             2, 2",
            r"weight decay            0.05",
            r"method riccati          applies",
            r"method shallow          no: it solves one layer, and this network has 2",
        ):
            assert line in text.splitlines()
        assert text.splitlines()[2].startswith("balanced                yes (λ = 0 within ")
        assert text.splitlines()[3].startswith("aligned                 no (coupling between modes ")

    def test_what_is_at_its_default_is_not(self):
        problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.gaussian(0, sizes=(8, 8), scale=0.1))
        assert "layer rates" not in str(problem.facts) and "weight decay" not in str(problem.facts)
        assert "bottleneck" not in str(problem.facts)

    def test_repr(self):
        problem = lr.Problem(lr.tasks.semantic_hierarchy(), lr.inits.gaussian(0, sizes=(8, 8), scale=0.1))
        assert repr(problem) == (
            "<Problem: <Network: 8-8, linear> on <Task 'semantic hierarchy': 8 inputs, 8 outputs, 8 samples>>"
        )
