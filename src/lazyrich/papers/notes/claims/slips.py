"""Slips of the notes that more than one entry suffers from, or that stand beside another one in an entry."""

from lazyrich.papers.base.claim import Slip

CONSTANT = Slip(
    "notes/constant", "The part of the targets that no linear map explains, a constant, is left out of the loss."
)
TRANSPOSE = Slip("notes/transpose", "The product of the layers below is printed without its transpose.")
NARROWEST = Slip("notes/narrowest", "Any hidden layer is named where the narrowest one counts.")
BOTTLENECK = Slip("notes/bottleneck", "A hidden layer narrower than the task, whose minimum is not T, is overlooked.")
EQUAL_VALUES = Slip("notes/equal-values", "Equal singular values, which leave the modes undetermined, are overlooked.")
IDLE_UNITS = Slip(
    "notes/idle-units",
    "Negative directions are counted by missing modes alone, though each idle hidden unit can take up each of them.",
)
TWO_LAYERS = Slip("notes/two-layers", "What is true of two layers is stated for any depth.")
STRONG_MODES = Slip("notes/strong-modes", "What is true of strong modes, s ≥ 1, is stated for all.")
SECOND_TERM = Slip("notes/second-term", "In the equation for b = a^{2/L} the second term is −2bs in place of −2a².")
EXPONENT = Slip("notes/exponent", "In the equation for b = a^{2/L} the first power is (L − 1)/2 in place of L/2.")
EXTRA_FACTOR = Slip("notes/extra-factor", "A factor W_ℓ is printed twice in the proof of the balance law.")
GAP = Slip("notes/gap", "The gap to the next mode is taken to set the time that the mode's own strength sets.")
GREEDY_NORM = Slip(
    "notes/greedy-norm",
    "Learning one mode after the other is taken to keep the nuclear norm low; at the same loss it is high.",
)
FROZEN = Slip("notes/frozen", "For large λ all directions are said to stand still; the large layer alone does.")
