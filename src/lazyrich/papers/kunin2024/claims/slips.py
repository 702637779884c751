"""Slips of Kunin et al. that more than one entry suffers from, or that stand beside another one in an entry."""

from lazyrich.papers.base.claim import Slip

UNIT_RATES = Slip(
    "kunin2024/unit-rates", "The rates η_a and η_w are left out: right as printed if both are 1, or absorbed by √η."
)
UNIT_TARGET = Slip("kunin2024/unit-target", "‖β*‖ is left out: right as printed if it is 1.")
ONE_INPUT = Slip("kunin2024/one-input", "The case of one input, d = 1, in which w cannot turn, is overlooked.")
ENTRIES = Slip(
    "kunin2024/entries-not-eigenvalues",
    "That the entries of a wide random matrix vanish is taken for the vanishing of the matrix, whose eigenvalues stay.",
)
BETA_FOR_TARGET = Slip("kunin2024/beta-for-target", "β is printed where the target β* is meant.")
