"""Kunin et al. 2024, in a room of its own: README.md says what of it is where."""

from lazyrich.papers.base.paper import Paper

__all__ = ["PAPER"]

PAPER = Paper(
    key="kunin2024",
    authors="Kunin et al. 2024",
    title="Get rich quick: exact solutions reveal how unbalanced initializations promote rapid feature learning",
    topics=(
        "neuron",
        "neuron_solutions",
        "neuron_downstream",
        "neuron_regimes",
        "neuron_mirror",
        "neuron_bias",
        "wide",
        "preconditioner",
        "regimes",
        "isotropic",
        "spectrum",
        "deep",
        "piecewise",
        "piecewise_limits",
        "regions",
        "settings",
    ),
    experiments=("lenet", "filters", "rhm", "grokking"),
)
