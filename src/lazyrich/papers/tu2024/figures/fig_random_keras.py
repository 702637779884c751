"""Keras's default weights, between lazy and rich: the closed form over the flow."""

from lazyrich.papers.tu2024.figures import _curves

TITLE = "Keras's default weights, mode by mode: the closed form over gradient flow"
ABOUT = (
    "The tasks and widths of the small Gaussian weights, from those that Keras gives a `Dense` layer: uniform within "
    "√(6/(fan_in + fan_out)), so that W1ᵀW1 ≈ W2W2ᵀ ≈ 2 for any wide layer. "
    "Modes begin with strengths of either sign and move at once. "
    "The closed form (dotted) is off visibly as long as h is no more than a few times the number of inputs and "
    "outputs; half times are off by more than modes where a mode has little way to go."
)
CHECKS = _curves.checks(mode_error=0.025, half_time_error=0.18, corrected_error=0.004)

FIGURE = _curves.figure_of("keras", 1.0, TITLE, ABOUT, CHECKS)
