"""Saxe, McClelland, Ganguli 2014, in a room of its own: README.md says what of it is where."""

from lazyrich.papers.base.paper import Paper

__all__ = ["PAPER"]

PAPER = Paper(
    key="saxe2014",
    authors="Saxe, McClelland, Ganguli 2014",
    title="Exact solutions to the nonlinear dynamics of learning in deep linear neural networks",
    topics=("unequal_layers",),
    remark="of its statements only eqs. 25 and 26, which the others rest on",
)
