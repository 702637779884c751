"""Saxe, McClelland and Ganguli 2019, in a room of its own: README.md says what of it is where."""

from lazyrich.papers.base.paper import Paper

__all__ = ["PAPER"]

PAPER = Paper(
    key="saxe2019",
    authors="Saxe, McClelland, Ganguli 2019",
    title="A mathematical theory of semantic development in deep neural networks",
    topics=("development", "structures", "categories"),
    remark="its statements are in our words, and were not compared with the printed page letter by letter",
)
