"""The Random Hierarchy Model (Cagnetta et al. 2024): classes that are written out by random rules, level by level.

Each of the `classes` labels can be written in m ways as a tuple of s symbols, each of these v symbols in m ways as a
tuple of s symbols of the next level, and so on for L levels: an input is s^L symbols. No two ways of one level are
the same tuple, neither of one symbol nor of two; so an input tells which rules made it, and

    number of inputs  =  classes · m^(1 + s + … + s^(L−1))  =  classes · m^((s^L − 1)/(s − 1)),

as many for each class. An input has a number from 0 on: its label and the choices of rules are the digits, label
first, then those of the top level from left to right, then those of the next. Any number is decoded by itself, so that
samples without repetition are exact however many inputs there are. Kunin et al. 2024 (Fig. 5c) take the model as a
task in which what is to be learned lies in layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lazyrich import _check
from lazyrich._check import InvalidInput
from lazyrich._typing import Array, ArrayLike, Float, Rng

_LONGEST = 4096  # symbols of an input
_MOST_RULES = 10**7  # of one level
_WORD = 2**63  # numbers below it fit into an int64; larger ones are Python's


@dataclass(frozen=True, eq=False, repr=False)
class RandomHierarchy:
    """The rules, top level first: rules[0] is (classes, m, s), each of the others (v, m, s), with symbols 0 … v − 1.

    `random_hierarchy` draws them; rules of one's own do as well.

    >>> toy = RandomHierarchy(([[[0, 1], [0, 0], [2, 0]], [[1, 1], [1, 2], [0, 2]]],), v=3)
    >>> toy
    <RandomHierarchy: L 1, 2 classes, m 3, s 2, v 3; 6 inputs of 2 symbols>
    >>> toy.inputs([0, 5]).tolist(), toy.labels([0, 5]).tolist()
    ([[0, 1], [0, 2]], [0, 1])
    """

    rules: tuple[Any, ...]  # arrays, once made
    v: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "v", _check.count("v", self.v))
        if not isinstance(self.rules, tuple | list) or not self.rules:
            raise InvalidInput(
                f"rules must list the rules of one level at least, and it is {_check.shown(self.rules)}."
            )
        levels = tuple(_as_rules(f"rules[{i}]", rules, self.v) for i, rules in enumerate(self.rules))
        for i, rules in enumerate(levels[1:], start=1):
            if rules.shape != (wanted := (self.v, *levels[0].shape[1:])):
                raise InvalidInput(f"rules[{i}] must have shape {wanted}, as v and rules[0] ask, not {rules.shape}.")
        object.__setattr__(self, "rules", levels)
        _check_length(self.s, self.L)

    def __repr__(self) -> str:
        total = f"{self.total:,}" if self.total < _WORD else f"{self.classes} · {self.m}^{self.choices}"
        return (
            f"<RandomHierarchy: L {self.L}, {self.classes} classes, m {self.m}, s {self.s}, v {self.v};"
            f" {total} inputs of {self.length} symbols>"
        )

    @property
    def L(self) -> int:
        """How many levels of rules there are."""
        return len(self.rules)

    @property
    def classes(self) -> int:
        return int(self.rules[0].shape[0])

    @property
    def m(self) -> int:
        """In how many ways each label and each symbol can be written."""
        return int(self.rules[0].shape[1])

    @property
    def s(self) -> int:
        """How many symbols one is written with."""
        return int(self.rules[0].shape[2])

    @property
    def length(self) -> int:
        """Symbols of an input: s^L."""
        return self.s**self.L

    @property
    def choices(self) -> int:
        """Rules that are chosen to make an input: (s^L − 1)/(s − 1)."""
        return sum(self.s**level for level in range(self.L))

    @cached_property
    def total(self) -> int:
        """How many inputs there are, all different."""
        return self.classes * self.m**self.choices

    def labels(self, indices: ArrayLike) -> Array:
        """The class of each input, (n,)."""
        return (self._as_indices(indices) // self.m**self.choices).astype(np.int64)

    def inputs(self, indices: ArrayLike) -> Array:
        """The symbols of each input, (n, s^L)."""
        digits = self._digits(indices)
        symbols, rest = digits[:, :1], digits[:, 1:]
        for rules in self.rules:
            width = symbols.shape[1]
            symbols = rules[symbols, rest[:, :width]].reshape(len(digits), width * self.s)
            rest = rest[:, width:]
        return symbols

    def sample(self, rng: Rng, n: int) -> Array:
        """The numbers of n different inputs, each set of n as likely as any other, in random order."""
        n = _check.count("n", n, least=0, most=min(self.total, 10**9))
        return _distinct(_check.as_rng(rng), self.total, n, self._any)

    def parse(self, tokens: ArrayLike) -> tuple[Array, Array]:
        """The labels and the numbers of inputs, read back through the rules from the bottom up.

        That this can be done for every input is why no two are the same. Symbols that no rules make are refused.
        """
        symbols = self._as_tokens(tokens)
        rows, found = len(symbols), []
        for level in range(self.L)[::-1]:
            codes = _codes(self.rules[level], self.v).ravel()
            order = np.argsort(codes)
            seen = _codes(symbols.reshape(rows, self.s**level, self.s), self.v)
            place = np.searchsorted(codes[order], seen).clip(max=len(codes) - 1)
            if (unknown := codes[order][place] != seen).any():
                raise InvalidInput(
                    f"tokens must be an input of the hierarchy, and row {int(np.argmax(unknown.any(axis=1)))} holds a"
                    f" tuple that is not in rules[{level}]."
                )
            symbols, choices = np.divmod(order[place], self.m)
            found.append(choices)
        return symbols[:, 0], self._number(np.concatenate([symbols, *found[::-1]], axis=1))

    def one_hot(self, tokens: ArrayLike) -> Float[Array, "n width"]:
        """Each symbol as v zeros but for a one: (n, s^L · v)."""
        symbols = self._as_tokens(tokens)
        return (symbols[..., None] == np.arange(self.v)).astype(float).reshape(len(symbols), self.length * self.v)

    def tokens(self, one_hot: ArrayLike) -> Array:
        """The symbols that were written as zeros and ones, (n, s^L)."""
        ones = _check.as_matrix("one_hot", one_hot, (None, self.length * self.v)).reshape(-1, self.length, self.v)
        if not (np.isin(ones, (0, 1)).all() and (ones.sum(axis=2) == 1).all()):
            raise InvalidInput(f"one_hot must hold a single one among the {self.v} numbers of each symbol, and zeros.")
        return ones.argmax(axis=2)

    def _as_tokens(self, tokens: ArrayLike) -> Array:
        return _whole("tokens", tokens, self.v, (None, self.length))

    def _as_indices(self, indices: ArrayLike) -> Array:
        return _whole("indices", indices, self.total, (None,))

    @cached_property
    def _bases(self) -> tuple[int, ...]:
        return (self.classes, *(self.m,) * self.choices)

    def _digits(self, indices: ArrayLike) -> Array:
        """Label and choices, (n, 1 + choices), of numbers from 0 to total."""
        rest = self._as_indices(indices)
        digits = np.empty((len(rest), len(self._bases)), np.int64)
        for place, base in reversed(list(enumerate(self._bases))):
            digits[:, place] = rest % base
            rest = rest // base
        return digits

    def _number(self, digits: Array) -> Array:
        number = digits[:, 0].astype(np.int64 if self.total < _WORD else object)
        for place, base in list(enumerate(self._bases))[1:]:
            number = number * base + digits[:, place]
        return number

    def _any(self, rng: np.random.Generator, n: int) -> Array:
        """The numbers of n inputs, drawn one by one from all."""
        return self._number(rng.integers(self._bases, size=(n, len(self._bases))))


def random_hierarchy(rng: Rng, *, L: int = 3, classes: int = 8, m: int = 4, s: int = 2, v: int = 8) -> RandomHierarchy:
    """Rules drawn at random: at each level the tuples are different ones of the v^s, each choice as likely as any.

    Parameters
    ----------
    rng : a seed, or a NumPy Generator
    L : levels of rules
    classes : labels
    m : ways in which each label and each symbol can be written
    s : symbols that one is written with
    v : symbols that there are

    Returns
    -------
    RandomHierarchy : its rules, and the inputs and labels that they make

    >>> import lazyrich as lr
    >>> hierarchy = random_hierarchy(0)
    >>> hierarchy
    <RandomHierarchy: L 3, 8 classes, m 4, s 2, v 8; 131,072 inputs of 8 symbols>
    >>> indices = hierarchy.sample(0, 500)
    >>> X, labels = hierarchy.one_hot(hierarchy.inputs(indices)), hierarchy.labels(indices)
    >>> X.shape
    (500, 64)
    """
    generator = _check.as_rng(rng)
    given = {"L": L, "classes": classes, "m": m, "v": v}
    L, classes, m, v = (_check.count(name, value) for name, value in given.items())
    s = _check.count("s", s, least=2)
    _check_length(s, L)
    _check_tuples(v, s)
    tuples = v**s
    for name, symbols in (("classes", classes), ("v", v))[: 2 if L > 1 else 1]:
        if m * symbols > tuples:
            raise InvalidInput(
                f"m · {name} must be at most v^s = {tuples:,}, or two of them share a tuple,"
                f" and m is {m} and {name} is {symbols}."
            )
        if m * symbols > _MOST_RULES:
            raise InvalidInput(f"m · {name} must be at most {_MOST_RULES:,} rules, and it is {m * symbols:,}.")

    def drawn(symbols: int) -> Array:
        codes = _distinct(generator, tuples, symbols * m, lambda rng, n: rng.integers(tuples, size=n))
        powers = v ** np.arange(s)[::-1]
        return (codes[:, None] // powers % v).reshape(symbols, m, s)

    return RandomHierarchy((drawn(classes), *(drawn(v) for _ in range(L - 1))), v)


def _distinct(rng: np.random.Generator, total: int, n: int, draw: Callable[[np.random.Generator, int], Array]) -> Array:
    """n different numbers below total, without a list of all where they are few; `draw` gives any, with repetitions."""
    if 2 * n > total:
        return rng.permutation(total)[:n]
    found = draw(rng, n)
    while True:  # what comes a second time is left out, which is to draw again until something new comes
        found = found[np.sort(np.unique(found, return_index=True)[1])]
        if len(found) == n:
            return found
        found = np.concatenate([found, draw(rng, n - len(found))])


def _codes(tuples: Array, v: int) -> Array:
    """Each tuple of symbols, along the last axis, as one number."""
    number = np.zeros(tuples.shape[:-1], np.int64)
    for place in range(tuples.shape[-1]):
        number = number * v + tuples[..., place]
    return number


def _as_rules(name: str, value: object, v: int) -> Array:
    rules = _whole(name, value, v, (None, None, None))
    symbols, m, s = rules.shape
    if not symbols or not m or s < 2:
        raise InvalidInput(f"{name} must hold at least one tuple of two symbols, and it has shape {rules.shape}.")
    _check_tuples(v, s)
    if len(np.unique(_codes(rules, v))) < symbols * m:
        raise InvalidInput(f"{name} must hold different tuples, and some are the same.")
    rules.setflags(write=False)
    return rules


def _check_tuples(v: int, s: int) -> None:
    if v**s >= _WORD:
        raise InvalidInput(f"v^s must be below 2^63, and v is {v} and s is {s}.")


def _check_length(s: int, L: int) -> None:
    if s > _LONGEST or _LONGEST.bit_length() < L or s**L > _LONGEST:  # the power last: it could be huge
        raise InvalidInput(f"s^L must be at most {_LONGEST:,} symbols, and s is {s} and L is {L}.")


def _whole(name: str, value: object, below: int, shape: tuple[int | None, ...]) -> Array:
    """A new array of whole numbers from 0 to below, in a shape (None for any length). Large ones stay Python's own."""
    array = _check.from_any_library(name, value)
    if array.ndim != len(shape) or any(n not in (None, got) for n, got in zip(shape, array.shape, strict=True)):
        wanted = " × ".join("any" if n is None else str(n) for n in shape)
        raise InvalidInput(f"{name} must have shape {wanted}, and it has {array.shape}.")
    if array.dtype.kind not in "iu" and not all(type(x) is int for x in array.ravel().tolist()):
        raise InvalidInput(f"{name} must hold whole numbers, and it has dtype {array.dtype}.")
    ends = (int(array.min()), int(array.max())) if array.size else ()
    for end in ends:
        if not 0 <= end < below:
            raise InvalidInput(f"{name} must lie between 0 and {_said(below - 1)}, and one is {_said(end)}.")
    return array.astype(np.int64 if below < _WORD else object)


def _said(whole: int) -> str:
    return str(whole) if abs(whole) < _WORD else f"a number of {whole.bit_length()} bits"
