"""Braun et al. 2022, in its order.

    setting         2: correlations, Fukumizu's solution, what QQᵀ holds, similarity and kernel
    solution        3: Theorems 3.1 and 3.2
    rich_lazy       4: where small, large and zero-balanced starts end
    decoupling      5: Theorem 5.1, two modes, the peak of the coupling
    variance        5: small and large starts, sigmoids and exponentials
    applications    6: continual learning, and what it forgets
    reversal        6: reversal learning, swapped branches
    revising        6: whether structured knowledge speeds up a related task

A topic also lists what was judged not checkable.
"""
