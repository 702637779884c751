"""To be filled."""

from __future__ import annotations

from lazyrich.claims.ledger import NotChecked

NOT_CHECKED: tuple[NotChecked, ...] = ()
