"""Tu, Aranguri, Jacot 2024, in a room of its own: README.md says what of it is where."""

from lazyrich.papers.base.paper import Paper

__all__ = ["PAPER"]

PAPER = Paper(
    key="tu2024",
    authors="Tu, Aranguri, Jacot 2024",
    title="Mixed dynamics in linear networks: unifying the lazy and active regimes",
    topics=("family", "random_starts", "noise"),
    remark="its statements are about wide random networks; the ledger has what follows at finite width, which is ours",
)
