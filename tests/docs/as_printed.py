"""What a page shows against what comes: words and whole numbers to the letter, other numbers to their last digit.

The last digit hangs on the order in which a machine's BLAS adds, so a number may be off by one unit of the last digit
that both show: 0.0089 is 0.009, and 0.0339 is not. `...` stands for anything, as in doctest.
"""

from __future__ import annotations

import doctest
import re

_NUMBER = r"(?:(?<!\w)[-+])?\d+(?:\.(?!\.)\d*)?(?:e[-+]?\d+)?"


class AsPrinted(doctest.OutputChecker):
    """As the checker of doctest, and where that says no, number by number."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(want, got, optionflags) or _alike(want, got)


def _alike(shown: str, printed: str) -> bool:
    words = [_pattern(text) for text in re.split(_NUMBER, shown.strip())]
    found = re.fullmatch(f"({_NUMBER})".join(words), printed.strip(), flags=re.DOTALL)
    return found is not None and all(
        _same(a, b) for a, b in zip(re.findall(_NUMBER, shown), found.groups(), strict=True)
    )


def _pattern(text: str) -> str:
    parts = (r"\s+".join(re.escape(word) for word in re.split(r"\s+", part)) for part in text.split("..."))
    return ".*?".join(parts)


def _same(a: str, b: str) -> bool:
    if a.lstrip("+-").isdecimal() and b.lstrip("+-").isdecimal():
        return int(a) == int(b)
    return abs(float(a) - float(b)) <= 1.0001 * max(_unit(a), _unit(b))


def _unit(number: str) -> float:
    """Of the last digit that is shown."""
    digits, _, power = number.partition("e")
    return float(10.0 ** (int(power or 0) - len(digits.partition(".")[2])))
