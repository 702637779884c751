"""The theorems to the letter: each paper's own formulas and symbols, as plain functions of NumPy arrays.

    braun2022   Fukumizu's solution, Theorems 3.1 and 5.1, decoupling of two modes, reversal learning
    kunin2024   one hidden neuron: ν, υ, μ, φ in the three cases of δ, basins, the preconditioner M
    saxe2014    the logistic mode, times to learn at any depth, the infinitely deep limit

They are here to be read beside the papers, with the papers' errors corrected and named. They keep the limits
of the formulas, which each docstring states: for numbers use `lr.solve`, whose methods contain all of these.
"""

from lazyrich.exact.letter import braun2022, kunin2024, saxe2014

__all__ = ["braun2022", "kunin2024", "saxe2014"]
