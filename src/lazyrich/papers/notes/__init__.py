"""Lecture notes on the web, in a room of its own: README.md says what of it is where."""

from lazyrich.papers.base.paper import Paper

__all__ = ["PAPER"]

PAPER = Paper(
    key="notes",
    authors="Lecture notes on the web",
    title="Deep Linear Networks: A Solvable Model of Learning Dynamics",
    topics=(
        "setting",
        "landscape",
        "saddle_points",
        "flow",
        "balance",
        "modes",
        "mode_times",
        "staircase",
        "transitions",
        "stages",
        "factorisation",
        "lambda_family",
        "lazy_rich",
    ),
)
