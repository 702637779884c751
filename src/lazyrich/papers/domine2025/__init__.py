"""Dominé et al. 2025, in a room of its own: README.md says what of it is where."""

from lazyrich.papers.base.paper import Paper

__all__ = ["PAPER"]

PAPER = Paper(
    key="domine2025",
    authors="Dominé et al. 2025",
    title="From lazy to rich: exact learning dynamics in deep linear networks",
)
