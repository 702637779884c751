"""The lecture notes on deep linear networks, in their order.

    setting         1: the loss and what the data enter it through
    landscape       2: minima, saddles and their index
    flow            3: gradients, the flow of layers and of their product
    balance         4: the conserved quantity, where it comes from, balanced starts
    modes           5: aligned starts, the logistic curve and its times
    staircase       6, 7: one mode after the other, widths of transitions, saddle to saddle
    factorisation   8: implicit regularisation
    lazy_rich       9: the λ family, lazy and rich limits

A topic enters its claims when it is imported, and lists what was judged not checkable.
"""

from lazyrich.claims.notes import balance, factorisation, flow, landscape, lazy_rich, modes, setting, staircase

TOPICS = (setting, landscape, flow, balance, modes, staircase, factorisation, lazy_rich)

__all__ = ["TOPICS"]
