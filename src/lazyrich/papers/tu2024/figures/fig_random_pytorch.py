"""PyTorch's default weights, lazier the wider: the closed form over the flow."""

from lazyrich.papers.tu2024.figures import _curves

TITLE = "PyTorch's default weights, mode by mode: the closed form over gradient flow"
ABOUT = (
    "The tasks and widths of the small Gaussian weights, from those that PyTorch gives a `Linear` layer: uniform "
    "within 1/√fan_in, biases left out. "
    "The first layer has W1ᵀW1 ≈ h/(3 d_in), so that wider networks are lazier and learn sooner. "
    "The closed form (dotted) is off by more than from small weights: the initial function couples the modes and does "
    "not shrink with the width."
)
CHECKS = _curves.checks(mode_error=0.03, half_time_error=0.11, corrected_error=0.004)

FIGURE = _curves.figure_of("pytorch", 1.0, TITLE, ABOUT, CHECKS)
