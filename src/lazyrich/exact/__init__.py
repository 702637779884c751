"""Closed forms, one per file. Each has NAME, CITATION, `refusals(facts)` and `solution(problem)`.

To add one, write such a file and enter it below, cheapest first: `problem.facts` and `solve` then know it. The
theorems as the papers print them are functions of `exact.letter`, which is loaded when it is imported.
"""

from types import ModuleType

from lazyrich.exact import deep_modes, modes, riccati, shallow
from lazyrich.problem import METHODS

__all__ = ["FILES", "deep_modes", "modes", "riccati", "shallow"]

FILES: dict[str, ModuleType] = {file.NAME: file for file in (shallow, modes, riccati, deep_modes)}
METHODS.update({name: file.refusals for name, file in FILES.items()})
