"""The Random Hierarchy Model: counts, rules without clashes, round trips, and inputs against rules followed by hand."""

from __future__ import annotations

from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from scipy.stats import chisquare

from lazyrich._check import InvalidInput
from lazyrich.papers.kunin2024.random_hierarchy import RandomHierarchy, random_hierarchy


def all_written(rules, level, symbol):
    """Every string that a symbol can become, by recursion over its rules."""
    if level == len(rules):
        return [(symbol,)]
    found = []
    for way in rules[level][symbol]:
        parts = [all_written(rules, level + 1, child) for child in way]
        found += [sum(pieces, ()) for pieces in product(*parts)]
    return found


def written_by_hand(rules, classes, m, s, index):
    """The label and the symbols of one input: digits of its number, label first, then level by level."""
    count = sum(s**level for level in range(len(rules)))
    digits = []
    for base in [m] * count + [classes]:
        digits.append(index % base)
        index //= base
    label, *choices = digits[::-1]
    line = [label]
    for level in rules:
        line = [child for symbol in line for child in level[symbol][choices.pop(0)]]
    return label, line


@st.composite
def shapes(draw):
    s, v = draw(st.sampled_from([(2, 2), (2, 3), (2, 5), (2, 8), (3, 2), (3, 4), (4, 2), (4, 3)]))
    L = draw(st.integers(1, 3))
    m = draw(st.integers(1, v**s // v if L > 1 else v**s))
    return {"L": L, "classes": draw(st.integers(1, v**s // m)), "m": m, "s": s, "v": v}


SMALL = [
    {"L": 1, "classes": 3, "m": 3, "s": 2, "v": 3},
    {"L": 2, "classes": 4, "m": 4, "s": 2, "v": 4},
    {"L": 2, "classes": 2, "m": 3, "s": 3, "v": 2},
    {"L": 3, "classes": 2, "m": 2, "s": 2, "v": 3},
    {"L": 3, "classes": 8, "m": 1, "s": 2, "v": 5},
]


class TestCounts:
    @pytest.mark.parametrize("shape", SMALL)
    def test_all_inputs_are_those_that_the_rules_make(self, rng, shape):
        hierarchy = random_hierarchy(rng, **shape)
        inputs = [tuple(row) for row in hierarchy.inputs(np.arange(hierarchy.total)).tolist()]
        labels = hierarchy.labels(np.arange(hierarchy.total)).tolist()
        rules = [level.tolist() for level in hierarchy.rules]
        expected = {line: label for label in range(shape["classes"]) for line in all_written(rules, 0, label)}
        formula = shape["classes"] * shape["m"] ** ((shape["s"] ** shape["L"] - 1) // (shape["s"] - 1))
        assert len(set(inputs)) == hierarchy.total == formula == len(expected)
        assert dict(zip(inputs, labels, strict=True)) == expected
        assert set(Counter(labels).values()) == {formula // shape["classes"]}

    def test_published_model(self):
        hierarchy = random_hierarchy(0)
        everything = np.arange(hierarchy.total)
        inputs, labels = hierarchy.inputs(everything), hierarchy.labels(everything)
        assert hierarchy.total == len(np.unique(inputs, axis=0)) == 8 * 4**7 == 131_072
        assert np.bincount(labels).tolist() == [131_072 // 8] * 8
        assert [rules.shape for rules in hierarchy.rules] == [(8, 4, 2)] * 3
        assert inputs.shape == (131_072, 8) and inputs.min() == 0 and inputs.max() == 7

    def test_large_models_count_exactly(self):
        assert random_hierarchy(0, L=4).total == 8 * 4**15 == 8_589_934_592
        assert random_hierarchy(0, L=7).total == 8 * 4**127
        assert random_hierarchy(0, L=3, s=3).total == 8 * 4**13

    def test_says_what_it_is(self):
        assert repr(random_hierarchy(0)).endswith("m 4, s 2, v 8; 131,072 inputs of 8 symbols>")
        assert repr(random_hierarchy(0, L=6)).endswith("; 8 · 4^63 inputs of 64 symbols>")


class TestRules:
    @given(shape=shapes(), seed=st.integers(0, 2**32))
    def test_no_tuple_is_used_twice(self, shape, seed):
        """No two classes share a feature at the top, no two symbols share a tuple below, and none has one twice."""
        hierarchy = random_hierarchy(seed, **shape)
        assert len(hierarchy.rules) == shape["L"]
        for level, rules in enumerate(hierarchy.rules):
            symbols = shape["v"] if level else shape["classes"]
            assert rules.shape == (symbols, shape["m"], shape["s"])
            tuples = [tuple(way) for ways in rules.tolist() for way in ways]
            assert len(set(tuples)) == len(tuples) == symbols * shape["m"]
            assert all(0 <= symbol < shape["v"] for way in tuples for symbol in way)

    @pytest.mark.parametrize("m", [1, 2])  # half of the tuples, where they are drawn one by one, and all of them
    def test_every_choice_of_rules_is_as_likely(self, m):
        rng, seen = np.random.default_rng(5), Counter()
        for _ in range(240):
            for rules in random_hierarchy(rng, L=10, classes=2, m=m, s=2, v=2).rules:
                seen[tuple(2 * a + b for ways in rules.tolist() for a, b in ways)] += 1
        ways = list(permutations(range(4), 2 * m))
        assert set(seen) == set(ways)
        assert chisquare([seen[way] for way in ways]).pvalue > 1e-3

    def test_levels_are_drawn_apart(self):
        top, middle, bottom = random_hierarchy(0).rules
        assert (top != middle).any() and (middle != bottom).any()

    def test_the_seed_decides(self):
        first, again, other = (random_hierarchy(seed) for seed in (3, np.random.default_rng(3), 4))
        assert all((a == b).all() for a, b in zip(first.rules, again.rules, strict=True))
        assert any((a != b).any() for a, b in zip(first.rules, other.rules, strict=True))

    def test_rules_cannot_be_changed(self):
        with pytest.raises(ValueError, match="read-only"):
            random_hierarchy(0).rules[0][0, 0, 0] = 1

    def test_rules_of_ones_own(self):
        """The example of the paper: class 1 is ab, aa or ca, class 2 bb, bc or ac."""
        letters = {"a": 0, "b": 1, "c": 2}
        top = [[[letters[x] for x in way] for way in ways] for ways in (("ab", "aa", "ca"), ("bb", "bc", "ac"))]
        hierarchy = RandomHierarchy((top,), v=3)
        assert hierarchy.parse([[2, 0], [1, 2]])[0].tolist() == [0, 1]
        assert (hierarchy.L, hierarchy.classes, hierarchy.m, hierarchy.s, hierarchy.total) == (1, 2, 3, 2, 6)


class TestRoundTrips:
    @effort(max_examples=50)
    @given(shape=shapes(), seed=st.integers(0, 2**32), data=st.data())
    def test_inputs_follow_the_rules_and_are_read_back(self, shape, seed, data):
        hierarchy = random_hierarchy(seed, **shape)
        indices = data.draw(st.lists(st.integers(0, hierarchy.total - 1), max_size=10))
        tokens = hierarchy.inputs(indices)
        rules = [level.tolist() for level in hierarchy.rules]
        by_hand = [written_by_hand(rules, shape["classes"], shape["m"], shape["s"], index) for index in indices]
        assert tokens.tolist() == [line for _, line in by_hand]
        assert hierarchy.labels(indices).tolist() == [label for label, _ in by_hand]
        labels, read = hierarchy.parse(tokens)
        assert (labels.tolist(), read.tolist()) == ([label for label, _ in by_hand], indices)

    @pytest.mark.parametrize("L", [3, 4, 6])  # numbers of up to 129 bits
    def test_of_large_models(self, rng, L):
        hierarchy = random_hierarchy(rng, L=L)
        indices = [0, hierarchy.total - 1, hierarchy.total // 3, *hierarchy.sample(rng, 20).tolist()]
        tokens = hierarchy.inputs(indices)
        labels, read = hierarchy.parse(tokens)
        assert read.tolist() == indices
        assert labels.tolist() == hierarchy.labels(indices).tolist()
        assert tokens.shape == (23, 2**L)
        rules = [level.tolist() for level in hierarchy.rules]
        assert tokens.tolist() == [written_by_hand(rules, 8, 4, 2, index)[1] for index in indices]

    @pytest.mark.parametrize(("classes", "total"), [(1, 2**63), (2, 2**64)])  # where an int64 ends
    def test_at_the_end_of_a_word(self, classes, total):
        hierarchy = random_hierarchy(0, L=6, classes=classes, m=2)
        last = [total - 1, total // 2]
        assert hierarchy.total == total
        labels, read = hierarchy.parse(hierarchy.inputs(last))
        assert read.tolist() == last and labels.tolist() == hierarchy.labels(last).tolist() == [classes - 1] * 2

    @given(shape=shapes(), seed=st.integers(0, 2**32))
    def test_one_hot(self, shape, seed):
        hierarchy = random_hierarchy(seed, **shape)
        tokens = hierarchy.inputs(hierarchy.sample(seed, min(7, hierarchy.total)))
        ones = hierarchy.one_hot(tokens)
        v = shape["v"]
        assert ones.shape == (len(tokens), shape["s"] ** shape["L"] * v)
        for row, line in zip(ones, tokens.tolist(), strict=True):
            assert np.flatnonzero(row).tolist() == [place * v + symbol for place, symbol in enumerate(line)]
        assert set(np.unique(ones)) <= {0.0, 1.0}
        np.testing.assert_array_equal(hierarchy.tokens(ones), tokens)

    def test_of_nothing(self):
        hierarchy = random_hierarchy(0)
        tokens = hierarchy.inputs([])
        assert tokens.shape == (0, 8) and hierarchy.labels([]).shape == (0,)
        assert hierarchy.one_hot(tokens).shape == (0, 64)
        assert [part.shape for part in hierarchy.parse(tokens)] == [(0,), (0,)]


class TestSample:
    @pytest.mark.parametrize("n", [0, 1, 100, 128, 129, 256])
    def test_different_inputs(self, rng, n):
        hierarchy = random_hierarchy(0, L=2, classes=4, m=4, v=4)
        indices = hierarchy.sample(rng, n)
        assert len(indices) == len(set(indices.tolist())) == n
        assert all(0 <= index < 256 for index in indices)

    @pytest.mark.parametrize("n", [2, 4])  # drawn one by one, and from the list of all
    def test_every_choice_is_as_likely(self, n):
        hierarchy = random_hierarchy(0, L=1, classes=5, m=1, s=2, v=3)
        rng = np.random.default_rng(2)
        seen = Counter(tuple(hierarchy.sample(rng, n).tolist()) for _ in range(6000))
        ways = list(permutations(range(5), n))
        assert set(seen) == set(ways)
        assert chisquare([seen[way] for way in ways]).pvalue > 1e-3

    @pytest.mark.parametrize("L", [4, 6])
    def test_from_more_inputs_than_memory_holds(self, rng, L):
        hierarchy = random_hierarchy(0, L=L)
        indices = hierarchy.sample(rng, 2000).tolist()
        assert len(set(indices)) == 2000 and max(indices) < hierarchy.total
        quarters = np.bincount([4 * index // hierarchy.total for index in indices], minlength=4)
        assert chisquare(quarters).pvalue > 1e-3
        assert chisquare(np.bincount(hierarchy.labels(indices), minlength=8)).pvalue > 1e-3

    def test_the_seed_decides(self):
        hierarchy = random_hierarchy(0)
        assert hierarchy.sample(1, 50).tolist() == hierarchy.sample(np.random.default_rng(1), 50).tolist()
        assert hierarchy.sample(1, 50).tolist() != hierarchy.sample(2, 50).tolist()


@pytest.mark.usefixtures("unchecked_shapes")
class TestSentences:
    @pytest.mark.parametrize(
        ("shape", "sentence"),
        [
            ({"m": 9, "v": 8}, r"m · classes must be at most v\^s = 64, or two of them share a tuple, and m is 9"),
            ({"classes": 17, "L": 1}, r"m · classes must be at most v\^s = 64.* and m is 4 and classes is 17\."),
            ({"m": 9, "classes": 2}, r"m · v must be at most v\^s = 64.* and m is 9 and v is 8\."),
            ({"s": 1}, r"s must be at least 2, and it is 1\."),
            ({"classes": 2.5}, r"classes must be a whole number, and it is 2\.5\."),
            ({"L": 0}, r"L must be at least 1, and it is 0\."),
            ({"L": 13}, r"s\^L must be at most 4,096 symbols, and s is 2 and L is 13\."),
            ({"v": 2**40}, r"v\^s must be below 2\^63, and v is 1099511627776 and s is 2\."),
            ({"m": 2**12, "v": 2**12}, r"m · v must be at most 10,000,000 rules, and it is 16,777,216\."),
        ],
    )
    def test_of_shapes(self, shape, sentence):
        with pytest.raises(InvalidInput, match=sentence):
            random_hierarchy(0, **shape)

    def test_one_level_needs_no_tuples_for_its_symbols(self):
        assert random_hierarchy(0, L=1, classes=2, m=9, v=8).total == 18

    @pytest.mark.parametrize(
        ("rules", "sentence"),
        [
            ((), r"rules must list the rules of one level at least, and it is \(\)"),
            (3, "rules must list the rules of one level at least, and it is 3"),
            (([[0, 1]],), r"rules\[0\] must have shape any × any × any, and it has \(1, 2\)"),
            (([[[0]]],), r"rules\[0\] must hold at least one tuple of two symbols"),
            (([[[0, 2]]],), r"rules\[0\] must lie between 0 and 1, and one is 2"),
            (([[[0, 1]], [[0, 1]]],), r"rules\[0\] must hold different tuples"),
            (([[[0, 1]]], [[[0, 1]]]), r"rules\[1\] must have shape \(2, 1, 2\)"),
            (([[[0.0, 1.0]]],), r"rules\[0\] must hold whole numbers, and it has dtype float64"),
        ],
    )
    def test_of_rules(self, rules, sentence):
        with pytest.raises(InvalidInput, match=sentence):
            RandomHierarchy(rules, v=2)

    @pytest.mark.parametrize(
        ("call", "sentence"),
        [
            (lambda h: h.inputs([131_072]), "indices must lie between 0 and 131071, and one is 131072"),
            (lambda h: h.labels([3, -1]), "indices must lie between 0 and 131071, and one is -1"),
            (lambda h: h.inputs([0.5]), "indices must hold whole numbers, and it has dtype float64"),
            (lambda h: h.inputs([True]), "indices must hold whole numbers, and it has dtype bool"),
            (lambda h: h.inputs(3), r"indices must have shape any, and it has \(\)"),
            (lambda h: h.sample(0, 131_073), "n must be at most 131,072, and it is 131,073"),
            (lambda h: h.sample(0, -1), "n must be at least 0, and it is -1"),
            (lambda h: h.one_hot([[0] * 7]), r"tokens must have shape any × 8, and it has \(1, 7\)"),
            (lambda h: h.one_hot([[8] * 8]), "tokens must lie between 0 and 7, and one is 8"),
            (lambda h: h.tokens(np.zeros((2, 63))), "one_hot must have shape any × 64, and it has 2 × 63"),
            (lambda h: h.tokens(np.zeros((2, 64))), "one_hot must hold a single one among the 8 numbers"),
            (lambda h: h.tokens(np.eye(64)[:1] * 8), "one_hot must hold a single one among the 8 numbers"),
        ],
    )
    def test_of_calls(self, call, sentence):
        with pytest.raises(InvalidInput, match=sentence):
            call(random_hierarchy(0))

    def test_numbers_too_long_to_print(self):
        with pytest.raises(InvalidInput, match="between 0 and a number of 24570 bits, and one is -1"):
            random_hierarchy(0, L=12, m=64, v=64, classes=1).inputs([-1])

    def test_inputs_that_no_rules_make(self):
        hierarchy = random_hierarchy(0)
        good = hierarchy.inputs([0, 1])
        used = {tuple(way) for way in hierarchy.rules[2].reshape(-1, 2).tolist()}
        never = next(pair for pair in product(range(8), repeat=2) if pair not in used)
        with pytest.raises(InvalidInput, match=r"row 1 holds a tuple that is not in rules\[2\]\."):
            hierarchy.parse([good[0].tolist(), [*good[1, :6].tolist(), *never]])

    def test_tuples_that_are_wrong_further_up(self):
        hierarchy = RandomHierarchy(([[[0, 1]]], [[[0, 0]], [[1, 1]]]), v=2)
        assert hierarchy.parse([[0, 0, 1, 1]])[1].tolist() == [0]
        with pytest.raises(InvalidInput, match=r"row 0 holds a tuple that is not in rules\[0\]\."):
            hierarchy.parse([[1, 1, 0, 0]])
