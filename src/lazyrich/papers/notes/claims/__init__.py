"""The lecture notes on deep linear networks, in their order.

    setting         1: the loss and what the data enter it through
    landscape       2: minima, gradients, critical points
    saddle_points   2: that all others are saddles, how many, and their index
    flow            3: gradients, the flow of layers and of their product
    balance         4: the conserved quantity, where it comes from, balanced starts
    modes           5: aligned starts, the equation of a mode and its logistic curve
    mode_times      5: when a mode is learned, and how far apart two of them are
    staircase       6: one mode after the other, one layer against more
    transitions     6: how depth shapes the transition of a mode
    stages          7: small random starts, from saddle to saddle
    factorisation   8: implicit regularisation
    lambda_family   9: the λ family, its ends and the speed of its modes
    lazy_rich       9: the lazy limit: what is frozen, what is learned together

A topic also lists what was judged not checkable; `passages` measures times.
"""
