"""Lampinen, Ganguli 2019, in a room of its own: README.md says what of it is where."""

from lazyrich.papers.base.paper import Paper

__all__ = ["PAPER"]

PAPER = Paper(
    key="lampinen2019",
    authors="Lampinen, Ganguli 2019",
    title="An analytic theory of generalization dynamics and transfer learning in deep linear networks",
    topics=("spectrum", "test_error", "interpolation"),
    remark="its statements are limits of large networks; the ledger tries them at sizes of some hundred",
)
