"""Saxe et al. 2014, as far as the other sources rest on it.

unequal_layers   eqs. 25 and 26
"""

from lazyrich.claims.saxe2014 import unequal_layers

TOPICS = (unequal_layers,)

__all__ = ["TOPICS"]
