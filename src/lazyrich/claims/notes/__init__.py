"""The lecture notes on deep linear networks, in their order.

setting      loss and notation
"""

from lazyrich.claims.ledger import NotChecked
from lazyrich.claims.notes import setting

NOT_CHECKED: tuple[NotChecked, ...] = (
    NotChecked(
        "notes",
        "References",
        "Gidel et al. 2019 is arXiv 1905.13118, and Even et al. 2023 is arXiv 2302.00522.",
        "A matter of looking up, not of computing: they are 1904.13262 and 2302.08982.",
    ),
)

__all__ = ["NOT_CHECKED", "setting"]
