"""To be filled."""

from lazyrich.claims.ledger import NotChecked

NOT_CHECKED: tuple[NotChecked, ...] = ()
