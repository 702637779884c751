"""Chizat, Oyallon, Bach 2019, in a room of its own: README.md says what of it is where."""

from lazyrich.papers.base.paper import Paper

__all__ = ["PAPER"]

PAPER = Paper(
    key="chizat2019",
    authors="Chizat, Oyallon, Bach 2019",
    title="On lazy training in differentiable programming",
    topics=("tangent", "multiplier"),
    remark="its theorems are about any model; the ledger has what they come to for linear networks, which is ours",
)
