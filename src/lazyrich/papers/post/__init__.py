"""A post on the web, September 2023, in a room of its own: README.md says what of it is where."""

from lazyrich.papers.base.paper import Paper

__all__ = ["PAPER"]

PAPER = Paper(
    key="post",
    authors="A post on the web, September 2023",
    title="Exact solutions to the learning dynamics of a deep neural network",
    topics=("regression", "gradients", "fixed_points", "network"),
    remark="on Saxe et al. 2014",
)
