"""Saxe et al. 2014, as far as the other sources rest on it.

    unequal_layers   eqs. 25 and 26

A topic enters its claims when it is imported, and lists what was judged not checkable.
"""

from lazyrich.claims.saxe2014 import unequal_layers

TOPICS = (unequal_layers,)

__all__ = ["TOPICS"]
