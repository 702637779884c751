"""Slips of Braun et al. that more than one entry suffers from."""

from lazyrich.papers.base.claim import Slip

SINGULAR_B = Slip(
    "braun2022/singular-b",
    "That B is non-singular, the condition of Theorems 3.1 and 3.2, is left out of what is concluded from them.",
)
DETERMINANT = Slip(
    "braun2022/determinant", "The determinant a1a2 − b² of the start is left out, as if small meant negligible."
)
