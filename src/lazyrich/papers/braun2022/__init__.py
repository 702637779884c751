"""Braun, Dominé, Fitzgerald, Saxe 2022, in a room of its own: README.md says what of it is where."""

from lazyrich.papers.base.paper import Paper

__all__ = ["PAPER"]

PAPER = Paper(
    key="braun2022",
    authors="Braun, Dominé, Fitzgerald, Saxe 2022",
    title="Exact learning dynamics of deep linear networks with prior knowledge",
    topics=(
        "setting",
        "solution",
        "rich_lazy",
        "decoupling",
        "variance",
        "applications",
        "mixtures",
        "reversal",
        "revising",
    ),
)
