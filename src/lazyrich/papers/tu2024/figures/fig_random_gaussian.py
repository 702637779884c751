"""Small Gaussian weights, which learn mode after mode: the closed form over the flow."""

from lazyrich.papers.tu2024.figures import _curves

TITLE = "Small random weights, mode by mode: the closed form over gradient flow"
ABOUT = (
    "Linear networks with 20 to 1000 hidden units learn a random map from 5 to 4 dimensions, one from 20 to 10, and "
    "the semantic hierarchy, whose weak singular values nearly coincide, from Gaussian weights of variance 1/h, 0.05 "
    "times as large. "
    "No theorem covers them, and the closed form (dotted) takes every mode by itself, with three numbers of the "
    "initial weights. "
    "On a logarithmic axis an error of a half time is a shift of its size: at h = 20 it can be seen, where there are "
    "as many inputs and outputs as hidden units, and at h = 200 no more."
)
CHECKS = _curves.checks(mode_error=0.008, half_time_error=0.012, corrected_error=0.002)

FIGURE = _curves.figure_of("gaussian", 0.05, TITLE, ABOUT, CHECKS)
